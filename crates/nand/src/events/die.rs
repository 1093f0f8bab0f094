//! A die: its queues, its array and, where it has one, the cache register beside it.
//!
//! ```text
//! read      [command+array][ wait ][ transfer ]          program  [command][ wait ][ transfer ][array]
//! erase     [command+array]
//!
//! with a cache register, two commands at once:
//!   read     array ──▶ register ──▶ channel               while the register empties, the array reads on
//!   program  channel ──▶ register ──▶ array               while the array programs, the register fills
//! ```

use super::node::NONE;

/// Commands in flight on a die: one, or two with a cache register.
pub(super) const SLOTS: usize = 2;

/// What a command in flight does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    /// Command and address cycles of a program.
    Command,
    /// Waits for the channel, or is being transferred, with nothing after it.
    Transfer,
    /// Waits for the channel, or is being transferred, with the array after it.
    TransferThenArray,
    /// Data are loaded and wait for the array.
    AwaitsArray,
    /// Data are sensed and wait for the register.
    AwaitsRegister,
    /// The array of cells works.
    Array,
    /// The array stops for a read that has priority.
    Pause,
}

/// A command in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) node: u32,
    pub(super) phase: Phase,
    /// When the command began or went on, and whether it is not the host's.
    pub(super) begun_at: u64,
    pub(super) is_foreign: bool,
    /// When the array began, where it is known.
    pub(super) array_from: u64,
    /// When the phase ends, where that is known.
    pub(super) until: u64,
}

impl Slot {
    pub(super) const IDLE: Self = Self {
        node: NONE,
        phase: Phase::Idle,
        begun_at: 0,
        is_foreign: false,
        array_from: 0,
        until: 0,
    };

    #[inline]
    pub(super) const fn is_idle(&self) -> bool {
        self.node == NONE
    }
}

/// Commands in order, linked through their nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl Queue {
    pub(super) const EMPTY: Self = Self { head: NONE, tail: NONE };

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.head == NONE
    }
}

/// A program or erase that was stopped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopped {
    pub(super) node: u32,
    pub(super) left_ns: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Die {
    pub(super) channel: usize,
    pub(super) urgent: Queue,
    pub(super) queue: Queue,
    /// What begins when nothing else waits, and the work in it.
    pub(super) yielding: Queue,
    pub(super) put_off_ns: u64,
    pub(super) slots: [Slot; SLOTS],
    pub(super) stopped: Option<Stopped>,
    /// One more than the flash page in the page register; 0 for none.
    pub(super) register_page: u64,
    /// Since when something is in flight, while it is.
    pub(super) held_since: u64,
    /// Time that something was in flight, up to `held_since`.
    pub(super) held_ns: u64,
    /// Time of commands that were not the host's and are over.
    pub(super) foreign_ns: u64,
}

impl Die {
    pub(super) const fn new(channel: usize) -> Self {
        Self {
            channel,
            urgent: Queue::EMPTY,
            queue: Queue::EMPTY,
            yielding: Queue::EMPTY,
            put_off_ns: 0,
            slots: [Slot::IDLE; SLOTS],
            stopped: None,
            register_page: 0,
            held_since: 0,
            held_ns: 0,
            foreign_ns: 0,
        }
    }

    /// Time until `now` that commands of others than the host held the die.
    #[inline]
    pub(super) fn foreign_until(&self, now: u64) -> u64 {
        let open = |slot: &Slot| if slot.is_foreign { now - slot.begun_at } else { 0 };
        self.foreign_ns + open(&self.slots[0]) + open(&self.slots[1])
    }

    /// From which queue the next command comes, where something waits.
    #[inline]
    pub(super) const fn next_queue(&mut self) -> &mut Queue {
        if !self.urgent.is_empty() {
            &mut self.urgent
        } else if !self.queue.is_empty() {
            &mut self.queue
        } else {
            &mut self.yielding
        }
    }

    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.slots[0].is_idle() && self.slots[1].is_idle()
    }

    pub(super) fn clear(&mut self, now: u64) {
        if !self.is_idle() {
            self.held_ns += now - self.held_since;
        }
        let (held_ns, foreign_ns) = (self.held_ns, self.foreign_until(now));
        *self = Self { held_ns, foreign_ns, ..Self::new(self.channel) };
    }
}
