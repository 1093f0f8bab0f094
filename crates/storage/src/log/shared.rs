//! The log as all parts of the engine hold it: appending under a lock, flushing outside of it, one
//! flush for all who wait (group commit: `DeWitt` et al., SIGMOD 1984).
//!
//! ```text
//!   append ──► filling ──┐ first who waits: leader          others who wait: followers
//!   append ──► filling   └► writes, syncs, tells all ──────► durable? done : next leader
//!      └──► full: begins to write it, goes on in another buffer; whoever needs it next is its leader
//! ```
//!
//! Records may also go out one by one, as they come: `direct`.
//!
//! 1. Nobody holds the lock of the end of the log during input or output.
//! 2. Of collected records at most one flush is on its way; only once it is durable the next one begins.
//! 3. The control block goes out only after what it speaks of, and its tail counts only afterwards.

mod direct;

use super::area::{LogArea, Writes};
use super::frame::{self, FRAME_HEADER_BYTES, FrameHeader};
use super::master::Master;
use super::record::{
    DirtyPageEntry, EncodedRecord, LogRecord, RecordBuilder, TransactionEntry, decode_record_at,
};
use super::writer::{LogWriter, Room};
use super::{Durability, LogCounts, LogWritingKind};
use crate::plant::{EngineBug, is_planted};
use crate::{Lsn, StorageError};
use direct::Flights;
use nandu_base::{Nanos, to_index};
use nandu_workers::sync::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;

/// All flushes begin before this.
const ALL: Lsn = Lsn(u64::MAX);
/// What is read at once when records are followed backwards, and how much of it lies behind.
const WINDOW_BYTES: u64 = 64 << 10;
const WINDOW_BEHIND_BYTES: u64 = 8 << 10;
/// The most lines of a checkpoint's tables in one record.
const CHECKPOINT_LINES_MAX: usize = 2048;
/// More bytes than any line of a checkpoint's tables takes.
const CHECKPOINT_LINE_BYTES_MAX: u64 = 32;

/// A handle of the log; clones are handles of the same log.
#[derive(Clone, Debug)]
pub struct SharedLog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    area: LogArea,
    end: Mutex<End>,
    flushed: Condvar,
    master: Mutex<Master>,
}

#[derive(Debug)]
struct End {
    writer: LogWriter,
    writing: LogWritingKind,
    /// What was written directly and nobody has waited for.
    flights: Flights,
    has_leader: bool,
    /// The requests of the flush in flight, while it has no leader.
    ahead: Option<Writes>,
    ungrouped_commit_count: u32,
    gathering: Gathering,
}

/// Commits that wait for others before one flush.
#[derive(Debug, Default)]
struct Gathering {
    /// Where that flush begins.
    start: Lsn,
    count: u32,
}

/// Who writes for all; hands over also if it panics, lest the others wait for ever.
struct Leader<'a> {
    log: &'a SharedLog,
    /// What begins before this is what it waits for.
    up_to: Lsn,
    leaves: Leaves,
}

/// What a leader leaves behind.
enum Leaves {
    /// The flush has ended, like this.
    Ended(Result<(), StorageError>),
    /// It is under way.
    Ahead(Writes),
}

/// Where records are put that are read one by one; used again, it saves reading what lies near.
#[derive(Clone, Debug, Default)]
pub struct RecordBuffer {
    payload: Vec<u8>,
    window: Vec<u8>,
    window_start: Lsn,
}

impl SharedLog {
    pub(super) fn new(area: LogArea, master: Master, writer: LogWriter) -> Self {
        let end = End {
            writer,
            writing: LogWritingKind::default(),
            flights: Flights::default(),
            has_leader: false,
            ahead: None,
            ungrouped_commit_count: 0,
            gathering: Gathering::default(),
        };
        let (end, master) = (Mutex::new(end), Mutex::new(master));
        Self(Arc::new(Shared { area, end, flushed: Condvar::new(), master }))
    }

    /// Has records go to the device in this way from now on, once those that were appended are durable.
    /// Nobody else may be at work.
    ///
    /// # Errors
    /// As [`Self::make_durable`].
    pub fn set_writing(&self, writing: LogWritingKind) -> Result<(), StorageError> {
        if self.end().writing == writing {
            return Ok(());
        }
        self.flush()?;
        let mut end = self.end();
        end.writing = writing;
        end.writer.set_direct(writing == LogWritingKind::Direct);
        Ok(())
    }

    /// Bytes that a record takes beside its [`frame_bytes`](super::frame_bytes), at most: for
    /// [`Self::reserve`].
    #[must_use]
    pub fn record_padding_bytes(&self) -> u64 {
        self.end().writer.record_padding_bytes()
    }

    /// Appends a record to the end in memory. If that is full, it begins to be written, and the record
    /// goes to the next buffer. Written directly, it is on its way to the device when this returns. Gives
    /// its LSN.
    ///
    /// # Errors
    /// If the log has no room, the record is longer than a quarter of it, or a flush failed.
    pub fn append(&self, record: &EncodedRecord<'_>, room: Room) -> Result<Lsn, StorageError> {
        loop {
            let mut end = self.end();
            if end.writing == LogWritingKind::Direct {
                drop(end);
                return self.append_directly(record, room);
            }
            if let Some(lsn) = end.writer.try_append(record, room)? {
                return Ok(lsn);
            }
            self.write_ahead(end)?;
        }
    }

    /// Begins to write what is full. Nobody waits for it yet, but for the one before it.
    fn write_ahead(&self, mut end: MutexGuard<'_, End>) -> Result<(), StorageError> {
        if end.has_leader || end.ahead.is_some() {
            let last = Lsn(end.writer.filling_start().0 - 1);
            drop(end);
            return self.make_durable(last);
        }
        let Some(flush) = end.writer.begin_flush() else { return Ok(()) };
        end.has_leader = true;
        drop(end);
        let mut leader = Leader::new(self, ALL);
        let writes = self.0.area.begin_write(flush.start, &flush.bytes);
        drop(flush);
        self.0.area.hand_over();
        let result = writes.as_ref().map(drop).map_err(Clone::clone);
        leader.leaves = writes.map_or_else(|error| Leaves::Ended(Err(error)), Leaves::Ahead);
        result
    }

    /// Returns when the record at `lsn` and all before it are durable. One of those who wait does
    /// the work for all. This is the rule of write-ahead logging, too: call it with a page's LSN
    /// before the page is written.
    ///
    /// # Errors
    /// If the device fails, now or earlier, or nothing was ever appended at `lsn`.
    pub fn make_durable(&self, lsn: Lsn) -> Result<(), StorageError> {
        let mut end = self.end();
        loop {
            if end.is_durable(lsn)? {
                return Ok(());
            }
            if end.has_leader {
                end = self.0.flushed.wait(end);
                continue;
            }
            if end.writing == LogWritingKind::Direct {
                end = self.lead_directly(end, lsn)?;
                continue;
            }
            let ahead = end.ahead.take();
            let flush = if ahead.is_some() { None } else { end.writer.begin_flush() };
            end.has_leader = true;
            drop(end);
            let result = match (ahead, flush) {
                (Some(writes), _) => self.lead(ALL, |area| area.finish_write(writes)),
                (None, Some(flush)) => {
                    self.lead(ALL, move |area| area.write(flush.start, &flush.bytes))
                }
                (None, None) => unreachable!("what is not durable waits for a flush"),
            };
            end = self.end();
            result?;
        }
    }

    /// Makes a commit as durable as wanted, given its record.
    ///
    /// # Errors
    /// As [`Self::make_durable`].
    pub fn make_commit_durable(
        &self,
        commit: Lsn,
        durability: Durability,
    ) -> Result<(), StorageError> {
        match durability {
            Durability::EveryCommit if is_planted(EngineBug::CommitWithoutFlush) => Ok(()),
            Durability::EveryCommit => self.make_durable(commit),
            Durability::Grouped { commit_count } => {
                let mut end = self.end();
                end.ungrouped_commit_count += 1;
                if end.ungrouped_commit_count < commit_count {
                    return Ok(());
                }
                end.ungrouped_commit_count = 0;
                drop(end);
                self.make_durable(commit)
            }
            Durability::None => Ok(()),
        }
    }

    /// Waits for `delay`, or until the record at `lsn` is durable by somebody else's flush: those who come
    /// meanwhile need none of their own. Whoever is the `group_count`th to wait for one flush has no need to
    /// wait, and flushes for all; 0 for nobody.
    pub fn gather(&self, lsn: Lsn, delay: Nanos, group_count: u32) {
        if group_count > 0 && self.end().makes_group(lsn, group_count) {
            return;
        }
        let mut present = self.0.area.present();
        let deadline = present + delay;
        if self.0.area.passes_alone(deadline) {
            return;
        }
        let mut end = self.end();
        while lsn >= end.writer.durable() && present < deadline && end.writer.check_poison().is_ok()
        {
            (end, _) = self.0.flushed.wait_for(end, present, deadline);
            present = self.0.area.present();
        }
    }

    /// Makes all that was appended durable.
    ///
    /// # Errors
    /// As [`Self::make_durable`].
    pub fn flush(&self) -> Result<(), StorageError> {
        let end = {
            let end = self.end();
            // What a flush that failed had of the end is not there any more.
            end.writer.check_poison()?;
            end.writer.end()
        };
        self.make_durable(Lsn(end.0.saturating_sub(1)))
    }

    /// The record at `lsn`, also if it is in memory only. Meant for following a transaction's
    /// records backwards.
    ///
    /// # Errors
    /// If no record is there, or the device fails.
    pub fn read_record<'a>(
        &self,
        lsn: Lsn,
        buffer: &'a mut RecordBuffer,
    ) -> Result<LogRecord<'a>, StorageError> {
        let area = &self.0.area;
        let (tail, durable) = {
            let end = self.end();
            if end.writer.copy_payload(lsn, &mut buffer.payload) {
                drop(end);
                return decode_record_at(lsn, &buffer.payload);
            }
            (end.writer.tail(), area.layout.next_sector(end.writer.durable()))
        };
        if !frame::is_aligned(lsn) || lsn < tail || lsn >= durable {
            return Err(self.no_record_at(lsn));
        }
        buffer.load(area, lsn, FRAME_HEADER_BYTES, tail, durable)?;
        let header = buffer.at(lsn, FRAME_HEADER_BYTES).and_then(FrameHeader::parse);
        let Some(header) = header else { return Err(self.no_record_at(lsn)) };
        if u64::from(header.payload_bytes) > area.layout.record_bytes_max() {
            return Err(self.no_record_at(lsn));
        }
        let frame_bytes = FRAME_HEADER_BYTES + header.payload_bytes as usize;
        buffer.load(area, lsn, frame_bytes, tail, durable)?;
        let payload = buffer.at(lsn, frame_bytes).map(|frame| &frame[FRAME_HEADER_BYTES..]);
        match payload.filter(|payload| area.layout.is_sound(header, lsn, payload)) {
            Some(payload) => decode_record_at(lsn, payload),
            None => Err(self.no_record_at(lsn)),
        }
    }

    /// Keeps room for records that must not fail later, say the compensations of a transaction:
    /// the sum of their [`frame_bytes`](super::frame_bytes) and [`Self::record_padding_bytes`]. The
    /// padding of flushes in between comes from an eighth of the log that free records never touch.
    ///
    /// # Errors
    /// If there is no such room.
    pub fn reserve(&self, bytes: u64) -> Result<(), StorageError> {
        self.end().writer.reserve(bytes)
    }

    /// Gives back what was reserved and not used.
    pub fn release(&self, bytes: u64) {
        self.end().writer.release(bytes);
    }

    /// What is reserved by all together.
    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        self.end().writer.reserved_bytes()
    }

    /// Appends the end of the checkpoint that began at `begin`, in several records if its tables are
    /// long. Gives the LSN of the last.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn append_end_checkpoint(
        &self,
        begin: Lsn,
        transactions: &[TransactionEntry],
        dirty_pages: &[DirtyPageEntry],
    ) -> Result<Lsn, StorageError> {
        let lines = self.0.area.layout.record_bytes_max() / CHECKPOINT_LINE_BYTES_MAX / 2;
        let lines = to_index(lines).clamp(1, CHECKPOINT_LINES_MAX);
        let (mut transactions, mut dirty_pages) = (transactions, dirty_pages);
        let mut builder = RecordBuilder::new();
        loop {
            let (some, later) = transactions.split_at(transactions.len().min(lines));
            let (pages, later_pages) = dirty_pages.split_at(dirty_pages.len().min(lines));
            (transactions, dirty_pages) = (later, later_pages);
            let is_last = transactions.is_empty() && dirty_pages.is_empty();
            let record = builder.end_checkpoint(begin, is_last, some, pages);
            let lsn = self.append(&record, Room::Checkpoint)?;
            if is_last {
                return Ok(lsn);
            }
        }
    }

    /// Makes the checkpoint count that began at `begin` and whose last record is at `end`: restart
    /// begins there. What lies before `tail` is needed no more; its room is used again.
    ///
    /// # Errors
    /// If the device fails; then nothing is known about what is durable.
    pub fn complete_checkpoint(&self, begin: Lsn, end: Lsn, tail: Lsn) -> Result<(), StorageError> {
        self.make_durable(end)?;
        let mut master = self.master();
        let previous_checkpoint = master.checkpoint;
        let next = Master { checkpoint: begin, previous_checkpoint, tail, ..*master };
        self.write_master(&mut master, next)
    }

    /// Notes the last write of pages that is durable, for the next control block.
    pub fn note_written(&self, written: u64) {
        self.master().written = written;
    }

    /// Marks the log as closed in order, once all of it is durable. Nothing is accepted afterwards.
    ///
    /// # Errors
    /// If the device fails.
    pub fn close(&self) -> Result<(), StorageError> {
        self.flush()?;
        let mut master = self.master();
        let next = Master { is_clean: true, ..*master };
        self.write_master(&mut master, next)?;
        self.end().writer.poison(&StorageError::Poisoned { cause: "the log is closed".into() });
        Ok(())
    }

    /// The control data as they were written last.
    #[must_use]
    pub fn control(&self) -> Master {
        *self.master()
    }

    /// Where the next record will lie, if no flush comes before it.
    #[must_use]
    pub fn next_lsn(&self) -> Lsn {
        self.end().writer.next_lsn()
    }

    /// Records before this are durable.
    #[must_use]
    pub fn durable_lsn(&self) -> Lsn {
        self.end().writer.durable()
    }

    /// Bytes that records can take, frames included, before the tail has to move.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.end().writer.free_bytes()
    }

    /// Whether there is little room, and cutting off what lies before `from` would make much. Mostly there is
    /// room, and `from` is not asked for.
    pub(crate) fn is_short_before(&self, from: impl FnOnce() -> Lsn) -> bool {
        let capacity_bytes = self.0.area.layout.capacity_bytes;
        let end = self.end();
        let tail = end.writer.tail();
        end.writer.free_bytes() < capacity_bytes / 8
            && from().0.saturating_sub(tail.0) > capacity_bytes / 16
    }

    /// What was appended and flushed since the log was opened.
    #[must_use]
    pub fn counts(&self) -> LogCounts {
        self.end().writer.counts()
    }

    /// Asserts the numbered invariants of the end of the log.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self) {
        self.end().writer.audit();
    }

    fn end(&self) -> MutexGuard<'_, End> {
        // Appending leaves a panic's caller with a record less, never with half a one that counts.
        self.0.end.lock()
    }

    fn master(&self) -> MutexGuard<'_, Master> {
        self.0.master.lock()
    }

    /// Writes what is in flight and begins before `up_to` for all who wait, and makes it durable.
    fn lead(
        &self,
        up_to: Lsn,
        write: impl FnOnce(&LogArea) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let mut leader = Leader::new(self, up_to);
        let area = &self.0.area;
        let result = write(area).and_then(|()| area.sync());
        leader.leaves = Leaves::Ended(result.clone());
        result
    }

    fn write_master(&self, master: &mut Master, mut next: Master) -> Result<(), StorageError> {
        let (durable, tail) = {
            let end = self.end();
            end.writer.check_poison()?;
            (end.writer.durable(), end.writer.tail())
        };
        next.durable = durable;
        next.tail = next.tail.max(tail);
        assert!(next.tail <= durable, "only what is durable is cut off");
        if let Err(error) = next.write(&self.0.area) {
            self.end().writer.poison(&error);
            return Err(error);
        }
        *master = next;
        self.end().writer.set_tail(next.tail);
        Ok(())
    }

    fn no_record_at(&self, lsn: Lsn) -> StorageError {
        let place = self.0.area.layout.place_of(lsn);
        StorageError::Corrupt { place, what: "no whole record is there".to_owned() }
    }
}

impl End {
    /// Counts the commit at `lsn` among those that wait for what is being filled; whether there are as many as
    /// make a group. What is on its way already is none of them.
    fn makes_group(&mut self, lsn: Lsn, group_count: u32) -> bool {
        let start = self.writer.filling_start();
        if lsn >= start {
            if self.gathering.start != start {
                self.gathering = Gathering { start, count: 0 };
            }
            self.gathering.count += 1;
        }
        group_count == 1 || (lsn >= start && self.gathering.count >= group_count)
    }

    /// Whether the record at `lsn` is durable; an error if it never will be.
    fn is_durable(&self, lsn: Lsn) -> Result<bool, StorageError> {
        if lsn < self.writer.durable() {
            return Ok(true);
        }
        self.writer.check_poison()?;
        if lsn >= self.writer.end() {
            let place = format!("a page or record that names LSN {}", lsn.0);
            let what = format!("the log ends at LSN {}", self.writer.end().0);
            return Err(StorageError::Corrupt { place, what });
        }
        Ok(false)
    }
}

impl<'a> Leader<'a> {
    fn new(log: &'a SharedLog, up_to: Lsn) -> Self {
        let cause = "the thread that wrote the log panicked".to_owned();
        Self { log, up_to, leaves: Leaves::Ended(Err(StorageError::Poisoned { cause })) }
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let mut end = self.log.end();
        match std::mem::replace(&mut self.leaves, Leaves::Ended(Ok(()))) {
            Leaves::Ended(result) => {
                end.writer.end_flushes(self.up_to, &result);
                end.flights.end(self.up_to);
            }
            Leaves::Ahead(writes) => end.ahead = Some(writes),
        }
        end.has_leader = false;
        drop(end);
        self.log.0.flushed.notify_all();
    }
}

impl RecordBuffer {
    /// A buffer without any records in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes sure that `bytes` from `lsn` on are here, if they lie before `durable`.
    fn load(
        &mut self,
        area: &LogArea,
        lsn: Lsn,
        bytes: usize,
        tail: Lsn,
        durable: Lsn,
    ) -> Result<(), StorageError> {
        if self.at(lsn, bytes).is_some() {
            return Ok(());
        }
        let layout = &area.layout;
        let wanted_end = lsn.0 + (bytes as u64).max(WINDOW_BEHIND_BYTES);
        let end = layout.next_sector(Lsn(wanted_end)).min(durable);
        let start = layout.sector_start(Lsn(end.0.saturating_sub(WINDOW_BYTES)));
        let start = start.max(layout.sector_start(tail)).min(layout.sector_start(lsn));
        self.window.clear();
        self.window.resize(to_index(end.0 - start.0), 0);
        self.window_start = start;
        area.read(start, &mut self.window).inspect_err(|_| self.window.clear())
    }

    fn at(&self, lsn: Lsn, bytes: usize) -> Option<&[u8]> {
        let at = to_index(lsn.0.checked_sub(self.window_start.0)?);
        self.window.get(at..)?.get(..bytes)
    }
}
