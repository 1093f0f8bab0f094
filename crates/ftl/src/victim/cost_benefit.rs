//! Cost-benefit cleaning (Kawaguchi, Nishioka, Motoda 1995): the greatest age * (1 - u) / 2u.
//!
//! Among groups of equal u the oldest wins, so it is enough to look at the oldest of each list of
//! equal valid counts: a choice takes time in proportion to the units of a group, not to the groups.
//!
//! 1. Every list is in order of its members' last change.

use super::{VictimShape, buckets::Buckets};
use nandu_base::to_u32;

#[derive(Clone, Debug)]
pub(crate) struct CostBenefit {
    lists: Buckets,
    changed_at: Vec<u64>,
}

impl CostBenefit {
    pub(super) fn new(shape: &VictimShape) -> Self {
        let changed_at = vec![0; shape.group_count as usize];
        Self { lists: shape.buckets(), changed_at }
    }

    pub(super) fn insert(&mut self, group: u32, valid: u32, now: u64) {
        self.changed_at[group as usize] = now;
        self.lists.insert(group, valid);
    }

    #[inline]
    pub(super) fn lower(&mut self, group: u32, valid: u32, now: u64) {
        self.changed_at[group as usize] = now;
        self.lists.lower(group, valid);
    }

    pub(super) fn take(&mut self, now: u64) -> Option<u32> {
        let units = self.lists.list_count() as u128 - 1;
        let mut best: Option<(u32, usize, u128, u128)> = None;
        for valid in 0..self.lists.list_count() {
            let Some(group) = self.lists.oldest(valid) else { continue };
            let age = u128::from(now - self.changed_at[group as usize]) + 1;
            // age * (1 - u) / 2u, as a fraction; at u = 0 it is infinite.
            let (gain, cost) = (age * (units - valid as u128), 2 * valid as u128);
            let better =
                best.is_none_or(|(_, _, best_gain, best_cost)| gain * best_cost > best_gain * cost);
            if better {
                best = Some((group, valid, gain, cost));
            }
        }
        let (group, valid, ..) = best?;
        self.lists.remove(group, to_u32(valid as u64));
        Some(group)
    }

    pub(super) fn remove(&mut self, group: u32, valid: u32) {
        self.lists.remove(group, valid);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    pub(super) fn groups(&self) -> Vec<u32> {
        self.lists.groups()
    }
}
