//! A channel: the bus between the controller and the dies that share it.
//!
//! 1. It moves one transfer at a time, from its begin to its end.
//! 2. In order, whoever becomes ready takes it from the moment at which it is free on: events come in
//!    order of time, so nobody who is ready earlier can come later, and nothing has to be queued.
//! 3. By any other policy those who are ready wait, and the channel chooses when it becomes free.

use nandu_base::Nanos;
use serde::{Deserialize, Serialize};

/// Whose transfer goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BusPolicy {
    /// The data that were ready first.
    #[default]
    InOrder,
    /// Data that are read before data that are written, each in the order of readiness.
    ReadsFirst,
    /// Each die of the channel in its turn.
    Fair,
}

/// A transfer that is ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) die: usize,
    pub(super) is_read: bool,
    pub(super) length: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    pub(super) free_at: u64,
    pub(super) busy_ns: u64,
    /// Whether its next event is the end of a transfer, at which it chooses.
    pub(super) is_taken: bool,
    /// In the order in which they became ready.
    pub(super) waiting: Vec<Waiting>,
    /// The die that was served last, by its number on the channel.
    last_served: Option<usize>,
}

impl Channel {
    /// Reserves the channel for `length` from `now` on; answers when the transfer begins.
    #[inline]
    pub(super) fn reserve(&mut self, now: u64, length: u64) -> u64 {
        let start = now.max(self.free_at);
        self.free_at = start + length;
        self.busy_ns += length;
        start
    }

    /// Time in which it moved data, up to `now`. What was reserved ahead follows without a gap.
    pub(super) const fn busy(&self, now: u64) -> Nanos {
        Nanos(self.busy_ns - self.free_at.saturating_sub(now))
    }

    /// Takes out who goes next.
    pub(super) fn choose(&mut self, policy: BusPolicy, channel_count: usize) -> Option<Waiting> {
        let next = match policy {
            BusPolicy::InOrder => 0,
            BusPolicy::ReadsFirst => self.waiting.iter().position(|who| who.is_read).unwrap_or(0),
            BusPolicy::Fair => {
                let first = self.last_served.map_or(0, |last| last + 1);
                let turn = |who: &Waiting| {
                    let own = who.die / channel_count;
                    (own < first, own)
                };
                let order = self.waiting.iter().enumerate().min_by_key(|(_, who)| turn(who));
                order.map_or(0, |(place, _)| place)
            }
        };
        if self.waiting.is_empty() {
            return None;
        }
        Some(self.waiting.remove(next))
    }

    /// Notes whose transfer begins.
    pub(super) fn note_served(&mut self, die: usize, channel_count: usize) {
        self.last_served = Some(die / channel_count);
    }

    pub(super) fn clear(&mut self, now: u64) {
        self.busy_ns = self.busy(now).0;
        self.free_at = self.free_at.min(now);
        self.waiting.clear();
        self.is_taken = false;
    }
}
