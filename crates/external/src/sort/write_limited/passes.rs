//! Passes over a vector, each of which picks the records that come next, as many as memory holds.
//!
//! ```text
//!   record ──► given before? ──► heap of the least, its greatest on top ──► sorted ──► given
//!                                       └──► greater, or pushed out ──► written, if the pass writes
//! ```
//!
//! 1. The records picked in a pass are those that come next: no record that is left comes before one.
//! 2. Records that are equal are not told apart: of those that are equal to the last one given as many
//!    are passed over as were given.

use super::LimitedDivision;
use crate::error::Failure;
use crate::sort::in_memory::sort_in_memory;
use crate::store::Buffers;
use crate::{ExternalError, Memory, Order, Record, RecordStream, Vector, VectorWriter};
use nandu_base::to_index;
use std::cmp::Ordering;
use std::ops::Range;

/// The records of a part of a vector in order, pass by pass.
#[derive(Debug)]
pub(super) struct Passes<R, O> {
    source: Vector<R>,
    range: Range<u64>,
    order: O,
    division: LimitedDivision,
    /// Those of the pass at hand, and the next one.
    picked: Vec<R>,
    next: usize,
    room: usize,
    /// Since the source was written.
    pass_count: u64,
    /// The last record picked from this source, and how many of those picked are equal to it.
    last: Option<(R, u64)>,
    /// Records that were not picked yet.
    left: u64,
    reading: Option<Buffers>,
    memory: Memory,
    failure: Failure,
}

/// The least records that were offered.
struct Heap<'o, R, O> {
    records: Vec<R>,
    room: usize,
    order: &'o O,
}

impl<R: Record, O: Order<R>> Passes<R, O> {
    /// Of the records that are not merged, `room` of them in a pass, within `memory` beside that of a
    /// scanner.
    pub(super) fn new(
        source: Vector<R>,
        order: O,
        memory: Memory,
        room: u64,
        division: &LimitedDivision,
    ) -> Result<Self, ExternalError> {
        let range = division.merged_count..source.len();
        let left = range.end - range.start;
        let store = source.store();
        let in_flight = u64::from(store.settings().in_flight);
        let count = (in_flight + 1).min(source.block_count().max(1));
        let reading = Some(Buffers::new(store, "a scanner", count)?);
        let room = to_index(room.min(left));
        let mut picked = Vec::new();
        picked.try_reserve_exact(room).map_err(|error| {
            let what = format!("no memory for {room} records to sort: {error}; grant less");
            ExternalError::Invalid { what }
        })?;
        Ok(Self {
            source,
            range,
            order,
            division: *division,
            picked,
            next: 0,
            room,
            pass_count: 0,
            last: None,
            left,
            reading,
            memory,
            failure: Failure::default(),
        })
    }

    #[cold]
    fn go_over(&mut self) -> Result<(), ExternalError> {
        self.failure.check()?;
        let gone_over = self.try_go_over();
        if gone_over.is_err() {
            // What comes after the records that are not there does not come.
            self.picked = Vec::new();
            self.next = 0;
        }
        self.failure.note(gone_over)
    }

    fn try_go_over(&mut self) -> Result<(), ExternalError> {
        self.pass_count += 1;
        let rest = self.left.saturating_sub(self.room as u64);
        let mut writer = match self.division.writes(self.pass_count, rest) {
            true => Some(self.writer(rest)?),
            false => None,
        };
        self.picked.clear();
        self.next = 0;
        let records = std::mem::take(&mut self.picked);
        let mut heap = Heap { records, room: self.room, order: &self.order };
        let buffers = self.reading.take().expect("a pass that ends gives its buffers back");
        let mut scanner = self.source.scanner_with(self.range.clone(), buffers);
        let mut to_pass_over = self.last.map_or(0, |(_, count)| count);
        while let Some(record) = scanner.next_record()? {
            if let Some((last, _)) = &self.last {
                match self.order.compare_by_prefix(&record, last) {
                    Ordering::Less => continue,
                    Ordering::Equal if to_pass_over > 0 => {
                        to_pass_over -= 1;
                        continue;
                    }
                    _ => {}
                }
            }
            let pushed_out = heap.offer(record);
            if let (Some(record), Some(writer)) = (pushed_out, &mut writer) {
                writer.push(record)?;
            }
        }
        self.picked = heap.records;
        let store = self.source.store();
        sort_in_memory(&mut self.picked, &self.order, store.stop_flag());
        store.check_stop()?;
        self.left -= self.picked.len() as u64;
        let buffers = scanner.into_buffers();
        match writer {
            Some(writer) => {
                self.change_source(writer)?;
                self.reading = Some(buffers);
            }
            None => {
                self.reading = Some(buffers);
                self.note_last();
            }
        }
        Ok(())
    }

    fn writer(&mut self, count: u64) -> Result<VectorWriter<R>, ExternalError> {
        let store = self.source.store();
        let bytes = self.division.write_blocks * store.block_bytes();
        VectorWriter::with(Buffers::of(store, self.memory.split_off(bytes)), count)
    }

    /// What was written is what is left; the room of the former source is given back.
    fn change_source(&mut self, writer: VectorWriter<R>) -> Result<(), ExternalError> {
        let (source, memory) = writer.finish_with_memory()?;
        self.memory.join(memory);
        assert_eq!(source.len(), self.left, "a pass writes what it does not pick");
        self.range = 0..source.len();
        self.source = source;
        self.pass_count = 0;
        self.last = None;
        Ok(())
    }

    fn note_last(&mut self) {
        let Some(&last) = self.picked.last() else { return };
        let equal = self.picked.iter().rev().take_while(|&&record| record == last).count() as u64;
        let before = self.last.filter(|(record, _)| *record == last).map_or(0, |(_, count)| count);
        self.last = Some((last, before + equal));
    }
}

impl<R: Record, O: Order<R>> RecordStream for Passes<R, O> {
    type Record = R;

    #[inline]
    fn next_record(&mut self) -> Result<Option<R>, ExternalError> {
        if self.next == self.picked.len() {
            if self.left == 0 {
                self.failure.check()?;
                return Ok(None);
            }
            self.go_over()?;
        }
        let record = self.picked[self.next];
        self.next += 1;
        Ok(Some(record))
    }

    fn left_count(&self) -> Option<u64> {
        Some(self.left + (self.picked.len() - self.next) as u64)
    }
}

impl<R: Record, O: Order<R>> Heap<'_, R, O> {
    /// Takes a record in; gives the one that is too much, if there is one.
    #[inline]
    fn offer(&mut self, record: R) -> Option<R> {
        if self.records.len() < self.room {
            self.records.push(record);
            if self.records.len() == self.room {
                (0..self.room / 2).rev().for_each(|at| self.sift(at));
            }
            return None;
        }
        if !self.is_before(&record, &self.records[0]) {
            return Some(record);
        }
        let pushed_out = std::mem::replace(&mut self.records[0], record);
        self.sift(0);
        Some(pushed_out)
    }

    fn is_before(&self, left: &R, right: &R) -> bool {
        self.order.compare_by_prefix(left, right) == Ordering::Less
    }

    /// Lets a record sink to where none below it comes after it.
    fn sift(&mut self, mut at: usize) {
        loop {
            let mut greatest = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.records.len()
                    && self.is_before(&self.records[greatest], &self.records[child])
                {
                    greatest = child;
                }
            }
            if greatest == at {
                return;
            }
            self.records.swap(at, greatest);
            at = greatest;
        }
    }
}
