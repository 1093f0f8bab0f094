//! Windowed greedy (Hu et al. 2009): the fewest valid units among the groups that were closed first.
//!
//! ```text
//! closed first ◀─ [ window, in lists by valid count ][ queue ............ ] ◀─ closed last
//! ```
//!
//! 1. The window has its share of all closed groups, at least one, as long as the queue has any.
//! 2. Every group is in the window or in the queue, never in both.

use super::{VictimShape, buckets::Buckets};
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(crate) struct Windowed {
    window: Buckets,
    in_window: Vec<bool>,
    window_len: u64,
    queue: VecDeque<u32>,
    window_ppm: u64,
}

impl Windowed {
    pub(super) fn new(shape: &VictimShape) -> Self {
        Self {
            window: shape.buckets(),
            in_window: vec![false; shape.group_count as usize],
            window_len: 0,
            queue: VecDeque::new(),
            window_ppm: u64::from(shape.window_ppm),
        }
    }

    pub(super) fn insert(&mut self, group: u32, valid_of: impl Fn(u32) -> u32) {
        self.queue.push_back(group);
        self.refill(valid_of);
    }

    #[inline]
    pub(super) fn lower(&mut self, group: u32, valid: u32) {
        if self.in_window[group as usize] {
            self.window.lower(group, valid);
        }
    }

    pub(super) fn take(&mut self, valid_of: impl Fn(u32) -> u32) -> Option<u32> {
        let group = self.window.take()?;
        self.in_window[group as usize] = false;
        self.window_len -= 1;
        self.refill(valid_of);
        Some(group)
    }

    pub(super) fn remove(&mut self, group: u32, valid_of: impl Fn(u32) -> u32) {
        if std::mem::take(&mut self.in_window[group as usize]) {
            self.window.remove(group, valid_of(group));
            self.window_len -= 1;
        } else {
            self.queue.retain(|&other| other != group);
        }
        self.refill(valid_of);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.window_len == 0
    }

    pub(super) fn groups(&self) -> Vec<u32> {
        let mut all = self.window.groups();
        all.extend(&self.queue);
        all
    }

    fn refill(&mut self, valid_of: impl Fn(u32) -> u32) {
        let closed = self.window_len + self.queue.len() as u64;
        let target = (closed * self.window_ppm / 1_000_000).max(1);
        while self.window_len < target
            && let Some(group) = self.queue.pop_front()
        {
            self.window.insert(group, valid_of(group));
            self.in_window[group as usize] = true;
            self.window_len += 1;
        }
    }
}
