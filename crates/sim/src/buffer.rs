//! A write buffer of a fixed number of units: a write is acknowledged when it has a slot, and its
//! program starts then. A slot is free again when its program is done.
//!
//! 1. At most `slot_count` programs are held; who waits gets a slot in the order of arrival.
//! 2. Nothing is merged or dropped: the layer gets the same writes in the same order as without it.

use nandu_base::Lpn;
use nandu_nand::{NandArray, Ticket};
use std::collections::VecDeque;

/// What waits for a slot.
#[derive(Clone, Debug)]
pub(crate) enum Waiting {
    /// A unit; `admitted` is promised to end when it has its slot.
    Unit { lpn: Lpn, stream: u8, start: Ticket, admitted: Ticket },
    /// A flush behind units that wait.
    Flush { done: Ticket },
}

/// The slots that are taken, and who waits for one.
#[derive(Clone, Debug)]
pub(crate) struct WriteBuffer {
    slot_count: u32,
    taken: u32,
    waiting: VecDeque<Waiting>,
    held: Ticket,
}

impl WriteBuffer {
    /// An empty buffer of `slot_count` units, 1 or more.
    pub(crate) fn new(slot_count: u32) -> Self {
        assert!(slot_count > 0, "a buffer has at least one slot");
        Self { slot_count, taken: 0, waiting: VecDeque::new(), held: Ticket::READY }
    }

    /// Takes a slot for a unit that nobody waits before; false where there is none.
    pub(crate) fn take_slot(&mut self) -> bool {
        let is_free = self.taken < self.slot_count && self.waiting.is_empty();
        self.taken += u32::from(is_free);
        is_free
    }

    /// Somebody waits for a slot.
    pub(crate) fn wait(&mut self, waiting: Waiting) {
        self.waiting.push_back(waiting);
    }

    /// The unit that took a slot last is on flash when `done` ends.
    pub(crate) fn hold(&mut self, nand: &mut NandArray, done: Ticket) {
        nand.gather(&mut self.held, done);
    }

    /// A unit is on flash.
    pub(crate) fn give_slot_back(&mut self) {
        self.taken -= 1;
    }

    /// Who goes on next, with its slot taken.
    pub(crate) fn next_waiting(&mut self) -> Option<Waiting> {
        let needs_slot = matches!(self.waiting.front()?, Waiting::Unit { .. });
        if needs_slot && self.taken == self.slot_count {
            return None;
        }
        self.taken += u32::from(needs_slot);
        self.waiting.pop_front()
    }

    /// Ends with all programs that are held.
    pub(crate) const fn held(&self) -> Ticket {
        self.held
    }

    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.taken == 0 && self.waiting.is_empty()
    }
}
