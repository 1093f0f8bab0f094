//! The memory in which a drive gathers writes before they go to flash.
//!
//! ```text
//!  host sectors ──► open units (partly filled, least recently used closes first)
//!                        │ all sectors there, or evicted (missing ones read from flash)
//!                        ▼
//!                   slots: admitted when one is free; freed when the program is done
//! ```
//!
//! 1. At most `open_unit_count_max` units are partly filled.
//! 2. A sector is in at most one open unit.
//! 3. At most `slot_count` units wait for their program; with none, a write waits for its program.

use nandu_base::{FixedHashMap, Lpn, Nanos};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A mapping unit that some sectors have reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenUnit {
    /// Which unit.
    pub(crate) lpn: Lpn,
    /// Which of its sectors are there, one bit each.
    pub(crate) present: u128,
    /// Their bytes, where the host brought any; missing sectors are zero.
    pub(crate) content: Option<Box<[u8]>>,
}

/// Gathers writes. Holds times, not commands: the drive issues those.
#[derive(Debug)]
pub(crate) struct WriteBuffer {
    open: VecDeque<OpenUnit>,
    open_unit_count_max: usize,
    freed_at: BinaryHeap<Reverse<Nanos>>,
    slot_count: usize,
    in_flash_at: FixedHashMap<u64, Nanos>,
}

impl WriteBuffer {
    /// A buffer of `slot_count` units with room for `open_unit_count_max` partly filled ones.
    pub(crate) fn new(slot_count: usize, open_unit_count_max: usize) -> Self {
        Self {
            open: VecDeque::with_capacity(open_unit_count_max + 1),
            open_unit_count_max,
            freed_at: BinaryHeap::with_capacity(slot_count + 1),
            slot_count,
            in_flash_at: FixedHashMap::default(),
        }
    }

    /// Whether a write is acknowledged before it is in flash.
    pub(crate) const fn is_write_back(&self) -> bool {
        self.slot_count > 0
    }

    /// The earliest time from `now` on at which a slot is free; takes that slot.
    pub(crate) fn admit(&mut self, now: Nanos) -> Nanos {
        if self.freed_at.len() < self.slot_count {
            return now;
        }
        self.freed_at.pop().map_or(now, |Reverse(freed_at)| freed_at.max(now))
    }

    /// The unit taken by the last `admit` will be in flash, and its slot free, at `time`.
    pub(crate) fn release_at(&mut self, lpn: Lpn, time: Nanos) {
        if self.slot_count == 0 {
            return;
        }
        self.freed_at.push(Reverse(time));
        self.in_flash_at.insert(lpn.0, time);
        // Old entries answer nothing; forget them before the map outgrows the slots.
        if self.in_flash_at.len() > 4 * self.slot_count + 64 {
            let oldest = self.freed_at.peek().map_or(time, |Reverse(freed_at)| *freed_at);
            self.in_flash_at.retain(|_, in_flash_at| *in_flash_at >= oldest);
        }
    }

    /// Whether `lpn` can be read from memory at `now` because its program is not done.
    pub(crate) fn holds(&self, lpn: Lpn, now: Nanos) -> bool {
        self.in_flash_at.get(&lpn.0).is_some_and(|in_flash_at| *in_flash_at > now)
    }

    /// When everything admitted so far is in flash.
    pub(crate) fn drained_at(&self, now: Nanos) -> Nanos {
        self.freed_at.iter().map(|Reverse(time)| *time).max().unwrap_or(now).max(now)
    }

    /// The open unit of `lpn`, moved to the most recently used end.
    pub(crate) fn touch(&mut self, lpn: Lpn) -> Option<&mut OpenUnit> {
        let position = self.open.iter().position(|unit| unit.lpn == lpn)?;
        let unit = self.open.remove(position).expect("the position was just found");
        self.open.push_back(unit);
        self.open.back_mut()
    }

    /// The open unit of `lpn`, without counting as use.
    pub(crate) fn peek(&self, lpn: Lpn) -> Option<&OpenUnit> {
        self.open.iter().find(|unit| unit.lpn == lpn)
    }

    /// Any open unit.
    pub(crate) fn peek_any(&self) -> Option<&OpenUnit> {
        self.open.front()
    }

    /// Takes the open unit of `lpn` out.
    pub(crate) fn take(&mut self, lpn: Lpn) -> Option<OpenUnit> {
        let position = self.open.iter().position(|unit| unit.lpn == lpn)?;
        self.open.remove(position)
    }

    /// Opens a unit; the one that has to make room for it comes back.
    pub(crate) fn open(&mut self, unit: OpenUnit) -> Option<OpenUnit> {
        self.open.push_back(unit);
        if self.open.len() > self.open_unit_count_max { self.open.pop_front() } else { None }
    }

    /// Takes out the least recently used open unit.
    pub(crate) fn pop_open(&mut self) -> Option<OpenUnit> {
        self.open.pop_front()
    }

    /// Asserts the invariants.
    pub(crate) fn audit(&self) {
        assert!(self.open.len() <= self.open_unit_count_max, "invariant 1");
        let mut lpns: Vec<Lpn> = self.open.iter().map(|unit| unit.lpn).collect();
        lpns.sort_unstable();
        lpns.dedup();
        assert_eq!(lpns.len(), self.open.len(), "invariant 2");
        assert!(self.freed_at.len() <= self.slot_count.max(1), "invariant 3");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_buffer_admits_when_the_first_program_is_done() {
        let mut buffer = WriteBuffer::new(2, 1);
        for (lpn, done) in [(0, 300), (1, 200)] {
            assert_eq!(buffer.admit(Nanos(10)), Nanos(10));
            buffer.release_at(Lpn(lpn), Nanos(done));
        }
        assert!(buffer.holds(Lpn(1), Nanos(199)) && !buffer.holds(Lpn(1), Nanos(200)));
        assert_eq!(buffer.admit(Nanos(20)), Nanos(200));
        buffer.release_at(Lpn(2), Nanos(400));
        assert_eq!(buffer.drained_at(Nanos(20)), Nanos(400));
        buffer.audit();
    }

    #[test]
    fn the_least_recently_used_unit_makes_room() {
        let unit = |lpn| OpenUnit { lpn: Lpn(lpn), present: 1, content: None };
        let mut buffer = WriteBuffer::new(0, 2);
        assert_eq!(buffer.open(unit(1)), None);
        assert_eq!(buffer.open(unit(2)), None);
        assert!(buffer.touch(Lpn(1)).is_some());
        assert_eq!(buffer.open(unit(3)), Some(unit(2)));
        assert!(!buffer.is_write_back());
        buffer.audit();
    }
}
