//! Groups in one doubly linked list for each count of valid units.
//!
//! ```text
//! heads[0] ─▶ 7 ─▶ 3                 head: changed last, tail: changed first
//! heads[1] ─▶ 12
//! ```
//!
//! 1. Links are symmetric; heads and tails are the ends of their lists.
//! 2. No list below `lowest` has a member.

use nandu_base::to_u32;

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    ends: Vec<(u32, u32)>,
    links: Vec<(u32, u32)>,
    lowest: usize,
}

impl Buckets {
    pub(crate) fn new(group_count: u32, units_per_group: u32) -> Self {
        Self {
            ends: vec![(NONE, NONE); units_per_group as usize + 1],
            links: vec![(NONE, NONE); group_count as usize],
            lowest: 0,
        }
    }

    #[inline]
    pub(crate) fn insert(&mut self, group: u32, valid: u32) {
        let (head, tail) = &mut self.ends[valid as usize];
        self.links[group as usize] = (NONE, *head);
        match *head {
            NONE => *tail = group,
            next => self.links[next as usize].0 = group,
        }
        *head = group;
        self.lowest = self.lowest.min(valid as usize);
    }

    #[inline]
    pub(crate) fn remove(&mut self, group: u32, valid: u32) {
        let (previous, next) = self.links[group as usize];
        let (head, tail) = &mut self.ends[valid as usize];
        match previous {
            NONE => *head = next,
            _ => self.links[previous as usize].1 = next,
        }
        match next {
            NONE => *tail = previous,
            _ => self.links[next as usize].0 = previous,
        }
    }

    #[inline]
    pub(crate) fn lower(&mut self, group: u32, valid: u32) {
        self.remove(group, valid + 1);
        self.insert(group, valid);
    }

    /// Takes the newest member of the lowest list.
    pub(crate) fn take(&mut self) -> Option<u32> {
        while self.lowest < self.ends.len() {
            let group = self.ends[self.lowest].0;
            if group != NONE {
                self.remove(group, to_u32(self.lowest as u64));
                return Some(group);
            }
            self.lowest += 1;
        }
        self.lowest = 0;
        None
    }

    /// The member of the list of `valid` that changed first.
    pub(crate) fn oldest(&self, valid: usize) -> Option<u32> {
        Some(self.ends[valid].1).filter(|&group| group != NONE)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.iter().skip(self.lowest).all(|&(head, _)| head == NONE)
    }

    pub(crate) fn list_count(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn groups(&self) -> Vec<u32> {
        let mut all = Vec::new();
        for &(head, _) in &self.ends {
            let mut group = head;
            while group != NONE {
                all.push(group);
                group = self.links[group as usize].1;
            }
        }
        all
    }
}
