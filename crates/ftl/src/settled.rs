//! Everything that a layer programmed so far as one ticket, for the erases that wait for it.
//!
//! 1. A ticket that was handed out never waits for what is added later, which may well wait for it.

use nandu_nand::{NandArray, Ticket};

/// The ends of all programs so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settled {
    /// Was handed out and takes nothing more up.
    sealed: Ticket,
    /// The ticket that takes up what is programmed next.
    open: Ticket,
}

impl Settled {
    /// All that was programmed so far, which ends with `ticket`.
    pub(crate) const fn with(ticket: Ticket) -> Self {
        Self { sealed: ticket, open: Ticket::READY }
    }

    /// Takes up a program that was just issued: its own ticket, not one that stands for several.
    #[inline]
    pub(crate) fn add(&mut self, nand: &mut NandArray, programmed: Ticket) {
        nand.gather(&mut self.open, programmed);
    }

    /// Ends with `after` and everything that was added so far.
    pub(crate) fn and(&mut self, nand: &mut NandArray, after: Ticket) -> Ticket {
        self.sealed = nand.both(self.sealed, self.open);
        self.open = Ticket::READY;
        nand.both(after, self.sealed)
    }
}

/// The end of commands that all waited for `after`; `after` itself where there were none.
#[inline]
pub(crate) fn end_of(commands: Ticket, after: Ticket) -> Ticket {
    if commands == Ticket::READY { after } else { commands }
}

/// Commands of a recovery that may be in flight: more are waited for, so that memory stays small.
const SCAN_MAX: u32 = 1 << 16;

/// Adds a read of a recovery, which is alone with the array, to those that `all` stands for.
#[inline]
pub(crate) fn gather_scan(nand: &mut NandArray, all: &mut Ticket, read: Ticket) {
    nand.gather(all, read);
    if nand.open_count() > SCAN_MAX {
        nand.finish(*all);
    }
}
