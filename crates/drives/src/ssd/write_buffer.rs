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

use nandu_base::{FixedHashMap, Lpn};
use nandu_nand::{NandArray, Ticket};
use std::collections::VecDeque;
use std::sync::Arc;

/// A mapping unit that some sectors have reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenUnit {
    /// The logical page that the unit is.
    pub(crate) lpn: Lpn,
    /// Which of its sectors are there, one bit each.
    pub(crate) present: u128,
    /// Their bytes, where the host brought any; missing sectors are zero.
    pub(crate) content: Option<Box<[u8]>>,
}

/// What waits for a slot, in the order of arrival.
#[derive(Clone, Debug)]
pub(crate) enum Job {
    /// A whole unit, to be written once `after` has ended; the request in `place` waits for it.
    Unit { lpn: Lpn, content: Option<Arc<[u8]>>, after: Ticket, place: Option<u32> },
    /// A trim, for the request in `place`.
    Trim { lpn: Lpn, place: u32 },
    /// A flush of everything before it, for the request in `place`.
    Flush { place: u32 },
}

/// Gathers writes. It only keeps them: the drive issues the commands.
#[derive(Debug)]
pub(crate) struct WriteBuffer {
    open: VecDeque<OpenUnit>,
    open_unit_count_max: usize,
    /// The unit in each slot; none where it is free.
    slots: Vec<Option<Lpn>>,
    free_slots: Vec<u32>,
    /// Units in slots or in line for one, with how many times.
    held: FixedHashMap<u64, u32>,
    waiting: VecDeque<Job>,
    programs: Ticket,
}

impl WriteBuffer {
    /// A buffer of `slot_count` units with room for `open_unit_count_max` partly filled ones.
    pub(crate) fn new(slot_count: usize, open_unit_count_max: usize) -> Self {
        Self {
            open: VecDeque::with_capacity(open_unit_count_max + 1),
            open_unit_count_max,
            slots: vec![None; slot_count],
            free_slots: (0..slot_count).rev().map(|slot| nandu_base::to_u32(slot as u64)).collect(),
            held: FixedHashMap::default(),
            waiting: VecDeque::new(),
            programs: Ticket::READY,
        }
    }

    /// Whether a write is acknowledged before it is in flash.
    pub(crate) fn is_write_back(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Puts a job in line.
    pub(crate) fn wait(&mut self, job: Job) {
        if let Job::Unit { lpn, .. } = &job {
            *self.held.entry(lpn.0).or_insert(0) += 1;
        }
        self.waiting.push_back(job);
    }

    /// The job whose turn it is, with the slot that its unit takes.
    pub(crate) fn next_job(&mut self) -> Option<(Job, Option<u32>)> {
        let needs_slot = matches!(self.waiting.front()?, Job::Unit { .. });
        let mut slot = None;
        if needs_slot && self.is_write_back() {
            slot = Some(self.free_slots.pop()?);
        }
        let job = self.waiting.pop_front()?;
        if let (Job::Unit { lpn, .. }, Some(slot)) = (&job, slot) {
            self.slots[slot as usize] = Some(*lpn);
        }
        Some((job, slot))
    }

    /// Jobs that no slot was free for, taken out.
    pub(crate) fn take_waiting(&mut self) -> VecDeque<Job> {
        std::mem::take(&mut self.waiting)
    }

    /// A unit that was handed to the layer is on flash when `done` ends.
    pub(crate) fn note_program(&mut self, nand: &mut NandArray, done: Ticket) {
        nand.gather(&mut self.programs, done);
    }

    /// Ends when everything that was handed to the layer is on flash.
    pub(crate) const fn programs(&self) -> Ticket {
        self.programs
    }

    /// The unit of a slot is on flash.
    pub(crate) fn release(&mut self, slot: u32) {
        let lpn = self.slots[slot as usize].take().expect("a slot is released once");
        self.free_slots.push(slot);
        self.forget(lpn);
    }

    /// A unit has left memory.
    pub(crate) fn forget(&mut self, lpn: Lpn) {
        let count = self.held.get_mut(&lpn.0).expect("a unit in memory is counted");
        *count -= 1;
        if *count == 0 {
            self.held.remove(&lpn.0);
        }
    }

    /// Whether `lpn` can be read from memory because its program is not done.
    pub(crate) fn holds(&self, lpn: Lpn) -> bool {
        self.held.contains_key(&lpn.0)
    }

    /// What a unit that waits in line will hold, a trim included: the layer does not know yet. None where
    /// it is not there.
    pub(crate) fn waiting_content(&self, lpn: Lpn) -> Option<Option<Arc<[u8]>>> {
        self.waiting.iter().rev().find_map(|job| match job {
            Job::Unit { lpn: own, content, .. } if *own == lpn => Some(content.clone()),
            Job::Trim { lpn: own, .. } if *own == lpn => Some(None),
            _ => None,
        })
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

    /// Any unit that is still being filled, if there is one.
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

    /// Asserts the numbered invariants of the buffer.
    pub(crate) fn audit(&self) {
        assert!(self.open.len() <= self.open_unit_count_max, "invariant 1");
        let mut lpns: Vec<Lpn> = self.open.iter().map(|unit| unit.lpn).collect();
        lpns.sort_unstable();
        lpns.dedup();
        assert_eq!(lpns.len(), self.open.len(), "invariant 2");
        let taken = self.slots.iter().flatten().count();
        assert_eq!(taken + self.free_slots.len(), self.slots.len(), "invariant 3");
        let waiting = self.waiting.iter().filter(|job| matches!(job, Job::Unit { .. })).count();
        let held: u32 = self.held.values().sum();
        assert!(held as usize >= taken + waiting, "every unit in memory is known");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_gets_a_slot_in_the_order_of_arrival() {
        let mut buffer = WriteBuffer::new(2, 1);
        for lpn in 0..3 {
            let (content, after, place) = (None, Ticket::READY, None);
            buffer.wait(Job::Unit { lpn: Lpn(lpn), content, after, place });
        }
        let slots: Vec<_> =
            std::iter::from_fn(|| buffer.next_job()).map(|(_, slot)| slot).collect();
        assert_eq!(slots, [Some(0), Some(1)]);
        assert!(buffer.holds(Lpn(2)) && buffer.waiting_content(Lpn(2)).is_some());
        assert!(buffer.waiting_content(Lpn(1)).is_none());
        buffer.release(1);
        assert!(!buffer.holds(Lpn(1)) && buffer.holds(Lpn(0)));
        assert!(matches!(buffer.next_job(), Some((Job::Unit { lpn: Lpn(2), .. }, Some(1)))));
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
