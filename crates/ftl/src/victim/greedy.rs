//! Greedy cleaning: the fewest valid units; among equals the one that got there last.
//!
//! Only groups near the emptiest can be chosen soon, so only those at or below a watermark stand in
//! lists by valid count. The others are looked at when the lists run dry, and the watermark rises: in
//! steady state it never does, and most units that die move nothing.
//!
//! 1. The lists hold exactly the members with at most `watermark` valid units.

use super::{Buckets, VictimShape};
use nandu_base::to_u32;

#[derive(Clone, Debug)]
pub(crate) struct Greedy {
    lists: Buckets,
    is_member: Vec<bool>,
    member_count: u32,
    watermark: u32,
    /// How far above the emptiest the watermark is set.
    slack: u32,
}

impl Greedy {
    pub(super) fn new(shape: &VictimShape) -> Self {
        Self {
            lists: shape.buckets(),
            is_member: vec![false; shape.group_count as usize],
            member_count: 0,
            watermark: 0,
            slack: (shape.units_per_group / 16).max(2),
        }
    }

    pub(super) const fn watermark(&self) -> u32 {
        self.watermark
    }

    pub(super) fn insert(&mut self, group: u32, valid: u32) {
        self.is_member[group as usize] = true;
        self.member_count += 1;
        if valid <= self.watermark {
            self.lists.insert(group, valid);
        }
    }

    #[inline]
    pub(super) fn lower(&mut self, group: u32, valid: u32) {
        if valid < self.watermark {
            self.lists.lower(group, valid);
        } else if valid == self.watermark {
            self.lists.insert(group, valid);
        }
    }

    pub(super) fn take(&mut self, valid_of: impl Fn(u32) -> u32) -> Option<u32> {
        if self.member_count == 0 {
            return None;
        }
        let group = self.lists.take().or_else(|| {
            self.raise(valid_of);
            self.lists.take()
        })?;
        self.is_member[group as usize] = false;
        self.member_count -= 1;
        Some(group)
    }

    pub(super) fn remove(&mut self, group: u32, valid: u32) {
        self.is_member[group as usize] = false;
        self.member_count -= 1;
        if valid <= self.watermark {
            self.lists.remove(group, valid);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.member_count == 0
    }

    pub(super) fn groups(&self) -> Vec<u32> {
        self.members().collect()
    }

    fn members(&self) -> impl Iterator<Item = u32> {
        let numbered = self.is_member.iter().enumerate();
        numbered.filter(|&(_, is_member)| *is_member).map(|(group, _)| to_u32(group as u64))
    }

    /// Sets the watermark above the emptiest member; called when every member is above it.
    fn raise(&mut self, valid_of: impl Fn(u32) -> u32) {
        let emptiest = self.members().map(&valid_of).min().unwrap_or(0);
        self.watermark = emptiest.saturating_add(self.slack);
        for group in self.groups() {
            let valid = valid_of(group);
            if valid <= self.watermark {
                self.lists.insert(group, valid);
            }
        }
    }
}
