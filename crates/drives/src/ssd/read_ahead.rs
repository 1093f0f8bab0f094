//! Sequential read-ahead: pages fetched from flash before the host asks for them.
//!
//! 1. The window covers consecutive units, each with the ticket of its read.
//! 2. A write or trim of a unit in the window empties it.

use nandu_base::Lpn;
use nandu_nand::Ticket;
use std::collections::VecDeque;

/// The read-ahead window of one sequential stream.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    first: u64,
    ready: VecDeque<Ticket>,
    next_sector: Option<u64>,
}

impl ReadAhead {
    /// Whether a read at `first_sector` continues the stream; remembers where this one ends.
    pub(crate) fn continues(&mut self, first_sector: u64, end_sector: u64) -> bool {
        let continues = self.next_sector == Some(first_sector);
        self.next_sector = Some(end_sector);
        if !continues {
            self.ready.clear();
        }
        continues
    }

    /// Ends when `lpn` is in memory, if it is or will be.
    pub(crate) fn ready(&self, lpn: Lpn) -> Option<Ticket> {
        let offset = lpn.0.checked_sub(self.first)?;
        self.ready.get(usize::try_from(offset).ok()?).copied()
    }

    /// Drops what lies before `lpn` and names the first unit that the window does not hold.
    pub(crate) fn advance_to(&mut self, lpn: Lpn) -> Lpn {
        while self.first < lpn.0 && self.ready.pop_front().is_some() {
            self.first += 1;
        }
        if self.ready.is_empty() {
            self.first = lpn.0;
        }
        Lpn(self.first + self.ready.len() as u64)
    }

    /// Adds the unit that [`ReadAhead::advance_to`] named.
    pub(crate) fn push(&mut self, ready: Ticket) {
        self.ready.push_back(ready);
    }

    /// A write or trim touched these units.
    pub(crate) fn invalidate(&mut self, first: Lpn, end: Lpn) {
        let window_end = self.first + self.ready.len() as u64;
        if first.0 < window_end && self.first < end.0 {
            self.ready.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_slides_and_empties() {
        let mut window = ReadAhead::default();
        assert!(!window.continues(0, 8));
        assert!(window.continues(8, 16));
        assert_eq!(window.advance_to(Lpn(2)), Lpn(2));
        let second = Ticket::of_time(nandu_base::Nanos(6));
        window.push(Ticket::READY);
        window.push(second);
        assert_eq!(window.ready(Lpn(3)), Some(second));
        assert_eq!(window.advance_to(Lpn(3)), Lpn(4));
        assert_eq!(window.ready(Lpn(2)), None);
        window.invalidate(Lpn(3), Lpn(4));
        assert_eq!(window.ready(Lpn(3)), None);
        assert!(!window.continues(99, 100));
    }
}
