//! A write buffer of a fixed number of units: a write is acknowledged when it has a slot, and its
//! program starts then. A slot is free again when its program is done.
//!
//! 1. At most `slot_count` programs are held.
//! 2. Nothing is merged or dropped: the layer gets the same writes in the same order as without it.

use nandu_base::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The slots that are taken, by the time at which they are free.
#[derive(Clone, Debug)]
pub(crate) struct WriteBuffer {
    taken: BinaryHeap<Reverse<Nanos>>,
    slot_count: usize,
}

impl WriteBuffer {
    /// An empty buffer of `slot_count` units, 1 or more.
    pub(crate) fn new(slot_count: u32) -> Self {
        assert!(slot_count > 0, "a buffer has at least one slot");
        let slot_count = slot_count as usize;
        Self { taken: BinaryHeap::with_capacity(slot_count), slot_count }
    }

    /// When a unit that comes at `now` has its slot. Each call goes with one of [`Self::hold`].
    pub(crate) fn admit(&mut self, now: Nanos) -> Nanos {
        if self.taken.len() < self.slot_count {
            return now;
        }
        let Reverse(earliest) = self.taken.pop().expect("a full buffer is not empty");
        now.max(earliest)
    }

    /// The unit that was admitted last leaves at `done`.
    pub(crate) fn hold(&mut self, done: Nanos) {
        self.taken.push(Reverse(done));
    }

    /// When everything that is held at `now` has left.
    pub(crate) fn drain(&mut self, now: Nanos) -> Nanos {
        let last = self.taken.drain().map(|Reverse(done)| done).max();
        last.map_or(now, |last| last.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_buffer_acknowledges_when_its_first_program_is_done() {
        let mut buffer = WriteBuffer::new(2);
        for (acknowledged, done) in [(0, 200), (0, 400), (200, 600)] {
            assert_eq!(buffer.admit(Nanos::ZERO), Nanos(acknowledged));
            buffer.hold(Nanos(done));
        }
        assert_eq!(buffer.drain(Nanos(5)), Nanos(600));
        assert_eq!(buffer.admit(Nanos(700)), Nanos(700));
    }
}
