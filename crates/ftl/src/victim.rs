//! Which erase block is cleaned next (flash reference 2.1.3), one index per die.
//!
//! 1. The index holds exactly the closed groups of its die.
//! 2. Greedy keeps a doubly linked list for each count of valid units, so that an invalidation and a
//!    choice take constant time, the latter amortised.

use nandu_base::{Rng, to_index, to_u32};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// How a victim is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VictimPolicy {
    /// The fewest valid units; among equals the one that got there last.
    #[default]
    Greedy,
    /// The one that was closed first: "cleaning in order" of log-structured file systems.
    Fifo,
    /// Any closed one (S000 section 2.2 on reference 1: asymptotically optimal for wear).
    Random,
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) enum VictimIndex {
    Greedy(Buckets),
    Fifo(VecDeque<u32>),
    Random(Vec<u32>),
}

#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    heads: Vec<u32>,
    links: Vec<(u32, u32)>,
    lowest: usize,
}

impl VictimIndex {
    pub(crate) fn new(policy: VictimPolicy, group_count: u32, units_per_group: u32) -> Self {
        match policy {
            VictimPolicy::Greedy => Self::Greedy(Buckets {
                heads: vec![NONE; units_per_group as usize + 1],
                links: vec![(NONE, NONE); group_count as usize],
                lowest: 0,
            }),
            VictimPolicy::Fifo => Self::Fifo(VecDeque::new()),
            VictimPolicy::Random => Self::Random(Vec::new()),
        }
    }

    pub(crate) fn insert(&mut self, group: u32, valid: u32) {
        match self {
            Self::Greedy(buckets) => buckets.insert(group, valid),
            Self::Fifo(queue) => queue.push_back(group),
            Self::Random(groups) => groups.push(group),
        }
    }

    /// A closed group lost a valid unit and now has `valid`.
    #[inline]
    pub(crate) fn lowered(&mut self, group: u32, valid: u32) {
        if let Self::Greedy(buckets) = self {
            buckets.remove(group, valid + 1);
            buckets.insert(group, valid);
        }
    }

    pub(crate) fn take(&mut self, rng: &mut Rng) -> Option<u32> {
        match self {
            Self::Greedy(buckets) => buckets.take(),
            Self::Fifo(queue) => queue.pop_front(),
            Self::Random(groups) if groups.is_empty() => None,
            Self::Random(groups) => {
                Some(groups.swap_remove(to_index(rng.below(groups.len() as u64))))
            }
        }
    }

    /// Every group in the index, in no order that means anything.
    pub(crate) fn groups(&self) -> Vec<u32> {
        match self {
            Self::Greedy(buckets) => buckets.groups(),
            Self::Fifo(queue) => queue.iter().copied().collect(),
            Self::Random(groups) => groups.clone(),
        }
    }
}

impl Buckets {
    #[inline]
    fn insert(&mut self, group: u32, valid: u32) {
        let head = std::mem::replace(&mut self.heads[valid as usize], group);
        self.links[group as usize] = (NONE, head);
        if head != NONE {
            self.links[head as usize].0 = group;
        }
        self.lowest = self.lowest.min(valid as usize);
    }

    #[inline]
    fn remove(&mut self, group: u32, valid: u32) {
        let (previous, next) = self.links[group as usize];
        match previous {
            NONE => self.heads[valid as usize] = next,
            _ => self.links[previous as usize].1 = next,
        }
        if next != NONE {
            self.links[next as usize].0 = previous;
        }
    }

    fn take(&mut self) -> Option<u32> {
        while self.lowest < self.heads.len() {
            let group = self.heads[self.lowest];
            if group != NONE {
                self.remove(group, to_u32(self.lowest as u64));
                return Some(group);
            }
            self.lowest += 1;
        }
        self.lowest = 0;
        None
    }

    fn groups(&self) -> Vec<u32> {
        let mut all = Vec::new();
        for &head in &self.heads {
            let mut group = head;
            while group != NONE {
                all.push(group);
                group = self.links[group as usize].1;
            }
        }
        all
    }
}
