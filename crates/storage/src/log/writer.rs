//! The end of the log in memory: where records go until they are flushed. No input or output; see
//! [`super::shared`] for who does that.
//!
//! ```text
//!    tail            durable          in flight           filling       next
//!   ──┼──── needed ─────┼── being written ──┼── header │ record │ record ┼──► room
//! ```
//!
//! 1. `tail <= durable <= start of filling <= next`. Buffered, at most one flush is in flight; written
//!    directly, each record is a flush of its own, and those in flight follow each other.
//! 2. The end of the filling flush, in whole sectors, never passes the tail's sector by more than the
//!    capacity: no byte at or after the tail is overwritten.
//! 3. Free records leave room for what is reserved and a margin. Checkpoints, while something is
//!    reserved, leave room for that and half of the margin; so a checkpoint fits, and after any
//!    number of them a rollback does.
//! 4. After a failed flush nothing is accepted any more: nobody knows what is durable.
//! 5. A flush without a header has one before it that names the same durable LSN: the reader, which looks
//!    for such claims, misses nothing.

use super::LogCounts;
use super::frame::{self, FLUSH_HEADER_BYTES, FRAME_HEADER_BYTES, FrameHeader, Layout, PADDING};
use super::record::EncodedRecord;
use crate::{Lsn, StorageError};
use nandu_base::to_index;
use std::collections::VecDeque;
use std::sync::Arc;

/// The share of the capacity that free records leave: half of it for checkpoints, and all of it for
/// the padding of flushes during rollbacks.
const MARGIN_DIVISOR: u64 = 8;
/// A record that is written directly has a header before it from such a share of the buffer on: the
/// reader does not look further for what contradicts it.
const LONG_RECORD_DIVISOR: usize = 4;

/// Out of which room a record is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// What is neither reserved nor kept back.
    Free,
    /// What was reserved before, and is released by whoever reserved it: the log does not know which part of
    /// all that is reserved the record takes. For rollbacks.
    Reserved,
    /// What is not reserved; as long as something is, also only a part of what is kept back. For the
    /// records of a checkpoint, which makes room.
    Checkpoint,
}

/// Consecutive bytes of the log from a sector boundary on.
#[derive(Debug)]
pub(super) struct Flush {
    pub(super) start: Lsn,
    pub(super) bytes: Vec<u8>,
}

/// The end of the log.
#[derive(Debug)]
pub(super) struct LogWriter {
    layout: Layout,
    epoch: u32,
    buffer_bytes: usize,
    filling: Flush,
    /// Whether each record goes out by itself.
    is_direct: bool,
    /// Whether what is filled begins with a header.
    has_header: bool,
    /// What the last header of this run called durable.
    told_durable: Option<Lsn>,
    in_flight: VecDeque<Arc<Flush>>,
    durable: Lsn,
    tail: Lsn,
    reserved_bytes: u64,
    poison: Option<String>,
    counts: LogCounts,
    spare: Vec<u8>,
}

impl Flush {
    fn end(&self) -> Lsn {
        Lsn(self.start.0 + self.bytes.len() as u64)
    }

    /// The payload of the record at `lsn`.
    fn payload(&self, lsn: Lsn) -> Option<&[u8]> {
        let at = to_index(lsn.0.checked_sub(self.start.0)?);
        let frame = self.bytes.get(at..)?;
        let header = FrameHeader::parse(frame)?;
        frame.get(FRAME_HEADER_BYTES..)?.get(..header.payload_bytes as usize)
    }
}

impl LogWriter {
    /// Goes on behind `end`, up to which all is durable.
    pub(super) fn new(layout: Layout, epoch: u32, buffer_bytes: u32, tail: Lsn, end: Lsn) -> Self {
        Self {
            layout,
            epoch,
            buffer_bytes: buffer_bytes as usize,
            filling: Flush { start: layout.next_sector(end), bytes: Vec::new() },
            is_direct: false,
            has_header: true,
            told_durable: None,
            in_flight: VecDeque::new(),
            durable: end,
            tail,
            reserved_bytes: 0,
            poison: None,
            counts: LogCounts::default(),
            spare: Vec::new(),
        }
    }

    /// Has each record go out by itself from now on, or be collected. Nothing is being filled.
    pub(super) fn set_direct(&mut self, is_direct: bool) {
        assert!(self.filling.bytes.is_empty(), "what was collected is flushed before");
        self.is_direct = is_direct;
    }

    /// Bytes of the log that a record takes beside its frame, at most, where it goes out by itself.
    pub(super) fn record_padding_bytes(&self) -> u64 {
        match self.is_direct {
            false => 0,
            true => FLUSH_HEADER_BYTES as u64 + self.layout.sector_bytes,
        }
    }

    /// Puts a record at the end; `None` if the buffer has to be flushed before.
    pub(super) fn try_append(
        &mut self,
        record: &EncodedRecord<'_>,
        room: Room,
    ) -> Result<Option<Lsn>, StorageError> {
        self.check_poison()?;
        let payload = record.as_bytes();
        self.check_length(payload.len() as u64)?;
        let frame_bytes = frame::frame_bytes(payload.len());
        let is_empty = self.filling.bytes.is_empty();
        if !is_empty && self.filling.bytes.len() + frame_bytes > self.buffer_bytes {
            return Ok(None);
        }
        if is_empty {
            self.has_header = self.wants_header(frame_bytes);
        }
        self.check_room(frame_bytes as u64, room)?;
        if is_empty && self.has_header {
            self.filling.bytes.resize(FLUSH_HEADER_BYTES, 0);
        }
        let lsn = self.filling.end();
        let at = self.filling.bytes.len();
        self.filling.bytes.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
        self.filling.bytes.extend_from_slice(payload);
        self.filling.bytes.resize(at + frame_bytes, 0);
        let frame = &mut self.filling.bytes[at..];
        self.layout.seal_frame(frame, lsn, self.epoch, payload.len());
        self.counts.record_count += 1;
        self.counts.record_bytes += frame_bytes as u64;
        Ok(Some(lsn))
    }

    /// Closes the filling flush and hands it out to be written; `None` where there is nothing. The
    /// one before must have ended, unless records are written directly.
    pub(super) fn begin_flush(&mut self) -> Option<Arc<Flush>> {
        assert!(self.is_direct || self.in_flight.is_empty(), "flushes go one after the other");
        if self.filling.bytes.is_empty() {
            return None;
        }
        self.pad();
        let (start, durable) = (self.filling.start, self.durable);
        if self.has_header {
            self.layout.seal_flush(&mut self.filling.bytes, start, self.epoch, durable);
            self.told_durable = Some(durable);
        }
        let end = self.filling.end();
        let empty = Flush { start: end, bytes: std::mem::take(&mut self.spare) };
        let full = Arc::new(std::mem::replace(&mut self.filling, empty));
        self.in_flight.push_back(Arc::clone(&full));
        Some(full)
    }

    /// Takes note of how the flushes in flight ended that begin before `end`, together.
    pub(super) fn end_flushes(&mut self, end: Lsn, result: &Result<(), StorageError>) {
        let durable = self.durable;
        while self.in_flight.front().is_some_and(|flush| flush.start < end) {
            let flush = self.in_flight.pop_front().expect("it was looked at");
            match result {
                Ok(()) => {
                    self.durable = flush.end();
                    self.counts.flush_bytes += flush.bytes.len() as u64;
                }
                Err(error) => self.poison(error),
            }
            if let Some(flush) = Arc::into_inner(flush) {
                self.spare = flush.bytes;
                self.spare.clear();
            }
        }
        self.counts.flush_count += u64::from(self.durable > durable);
    }

    /// Whether as much is in flight as the buffer is long.
    pub(super) fn is_far_ahead(&self) -> bool {
        let ends = (self.in_flight.front(), self.in_flight.back());
        let (Some(first), Some(last)) = ends else { return false };
        last.end().0 - first.start.0 >= self.buffer_bytes as u64
    }

    /// Accepts nothing from now on.
    pub(super) fn poison(&mut self, cause: &StorageError) {
        self.poison.get_or_insert_with(|| match cause {
            StorageError::Poisoned { cause } => cause.clone(),
            other => other.to_string(),
        });
    }

    pub(super) fn check_poison(&self) -> Result<(), StorageError> {
        match &self.poison {
            None => Ok(()),
            Some(cause) => Err(StorageError::Poisoned { cause: cause.clone() }),
        }
    }

    /// Where the next record will lie, unless the buffer is flushed before.
    pub(super) fn next_lsn(&self) -> Lsn {
        match self.filling.bytes.is_empty() {
            true if self.wants_header(0) => Lsn(self.filling.start.0 + FLUSH_HEADER_BYTES as u64),
            true => self.filling.start,
            false => self.filling.end(),
        }
    }

    /// Where the flush that is being filled begins, and the one in flight ends.
    pub(super) const fn filling_start(&self) -> Lsn {
        self.filling.start
    }

    /// The end of what was appended.
    pub(super) fn end(&self) -> Lsn {
        match self.filling.bytes.is_empty() && self.in_flight.is_empty() {
            true => self.durable,
            false => self.filling.end(),
        }
    }

    pub(super) const fn durable(&self) -> Lsn {
        self.durable
    }

    pub(super) const fn tail(&self) -> Lsn {
        self.tail
    }

    pub(super) const fn counts(&self) -> LogCounts {
        self.counts
    }

    /// Moves the tail; the control block that says so is durable.
    pub(super) fn set_tail(&mut self, tail: Lsn) {
        assert!(tail >= self.tail, "the tail never goes back");
        assert!(tail <= self.durable, "what is not durable cannot be cut off");
        self.tail = tail;
    }

    /// Bytes that free records can still take.
    pub(super) fn free_bytes(&self) -> u64 {
        self.room_bytes().saturating_sub(self.reserved_bytes + self.margin_bytes())
    }

    /// Keeps room for records that must not fail later.
    pub(super) fn reserve(&mut self, bytes: u64) -> Result<(), StorageError> {
        self.check_poison()?;
        if bytes > self.free_bytes() {
            return Err(self.no_space(bytes));
        }
        self.reserved_bytes += bytes;
        Ok(())
    }

    pub(super) fn release(&mut self, bytes: u64) {
        self.reserved_bytes = self.reserved_bytes.saturating_sub(bytes);
    }

    pub(super) const fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes
    }

    /// Copies the record at `lsn` if it is still in memory.
    pub(super) fn copy_payload(&self, lsn: Lsn, payload: &mut Vec<u8>) -> bool {
        let mut flushes = std::iter::once(&self.filling)
            .chain(self.in_flight.iter().rev().map(Arc::as_ref))
            .filter(|flush| flush.start <= lsn);
        let Some(found) = flushes.next().and_then(|flush| flush.payload(lsn)) else {
            return false;
        };
        payload.clear();
        payload.extend_from_slice(found);
        true
    }

    /// Asserts the numbered invariants.
    pub(super) fn audit(&self) {
        assert!(self.tail <= self.durable, "invariant 1: the tail is durable");
        assert!(self.durable <= self.filling.start, "invariant 1: nothing durable is filled");
        let starts_sector = self.filling.start.0.is_multiple_of(self.layout.sector_bytes);
        assert!(starts_sector, "invariant 1: a flush starts on a fresh sector");
        let flushes = self.in_flight.iter().map(Arc::as_ref).chain([&self.filling]);
        let starts = flushes.clone().skip(1).map(|flush| flush.start);
        let follow = starts.zip(flushes).all(|(next, flush)| flush.end() == next);
        assert!(follow, "invariant 1: what is in flight is one piece, up to what is filled");
        let lap_end = self.layout.sector_start(self.tail).0 + self.layout.capacity_bytes;
        let end = self.layout.next_sector(self.filling.end());
        assert!(end.0 <= lap_end, "invariant 2: the log does not run into its tail");
    }

    fn check_length(&self, payload_bytes: u64) -> Result<(), StorageError> {
        let limit_bytes = self.layout.record_bytes_max();
        if payload_bytes <= limit_bytes {
            return Ok(());
        }
        let what = "a log record (it has to fit into a quarter of the log)".to_owned();
        Err(StorageError::TooLarge { what, found_bytes: payload_bytes, limit_bytes })
    }

    fn check_room(&self, frame_bytes: u64, room: Room) -> Result<(), StorageError> {
        let limit = match room {
            Room::Free => self.free_bytes(),
            Room::Checkpoint if self.reserved_bytes > 0 => {
                self.room_bytes().saturating_sub(self.reserved_bytes + self.margin_bytes() / 2)
            }
            Room::Reserved | Room::Checkpoint => self.room_bytes(),
        };
        match frame_bytes <= limit {
            true => Ok(()),
            false => Err(self.no_space(frame_bytes)),
        }
    }

    const fn margin_bytes(&self) -> u64 {
        self.layout.capacity_bytes / MARGIN_DIVISOR
    }

    /// Whether a flush that begins with such a frame has a header. The first of a run says which run it is.
    fn wants_header(&self, frame_bytes: usize) -> bool {
        let is_long = frame_bytes > self.buffer_bytes / LONG_RECORD_DIVISOR;
        !self.is_direct || is_long || self.told_durable != Some(self.durable)
    }

    /// Bytes up to the sector of the tail.
    fn room_bytes(&self) -> u64 {
        let lap_end = self.layout.sector_start(self.tail).0 + self.layout.capacity_bytes;
        lap_end.saturating_sub(self.next_lsn().0)
    }

    fn no_space(&self, bytes: u64) -> StorageError {
        let Layout { capacity_bytes, .. } = self.layout;
        let what = match self.reserved_bytes {
            0 => format!(
                "the log of {capacity_bytes} bytes is full: {bytes} more do not fit behind its tail at \
                 LSN {}; take a checkpoint, or make the database with a larger log",
                self.tail.0
            ),
            // Only a transaction has something reserved, and no checkpoint cuts off what it has logged.
            reserved => format!(
                "the transaction does not fit the log of {capacity_bytes} bytes, of which {reserved} are \
                 kept for taking it back; commit it in parts, load the rows into a new table, or copy \
                 the database to one with a larger log (nandu db compact --log-size)"
            ),
        };
        StorageError::NoSpace { what }
    }

    fn pad(&mut self) {
        let (at, lsn) = (self.filling.bytes.len(), self.filling.end());
        let gap = to_index(self.layout.next_sector(lsn).0 - lsn.0);
        if gap == 0 {
            return;
        }
        self.filling.bytes.resize(at + gap, PADDING);
        let frame = &mut self.filling.bytes[at..];
        self.layout.seal_frame(frame, lsn, self.epoch, gap - FRAME_HEADER_BYTES);
    }
}
