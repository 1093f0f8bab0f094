//! Reading the log from a record on to its end, and telling the end from damage.
//!
//! ```text
//!   frame sound, epoch as before ─────────────► record, or the header of a flush
//!   not, but a flush with a new epoch begins at
//!     the next sector and knows of this end ──► a run ended here: go on there
//!   not, and a flush that comes later, or the
//!     control block, calls this durable ──────► corrupt
//!   not ──────────────────────────────────────► the end
//! ```
//!
//! 1. A scan never passes the tail by more than the capacity: each byte of the file is seen once.
//! 2. Memory is bounded by the longest record that the log admits and the requests in flight.
//! 3. Each flush is durable before the next begins, so the next one after damage tells of it.
//! 4. Damage to the last flush cannot be told from a flush that was torn. The control block covers
//!    all that was durable when it was written.
//! 5. Where a newer control block may be lost, the tail may be older than what was overwritten: an end
//!    of the lap is no end of the log then.

use super::area::{IO_BYTES_MAX, LogArea, Pending};
use super::frame::{
    self, FLUSH_HEADER, FLUSH_HEADER_BYTES, FRAME_HEADER_BYTES, FlushHeader, FrameHeader, PADDING,
};
use super::master::Master;
use super::record::{LogRecord, decode_record_at};
use crate::plant::{EngineBug, is_planted};
use crate::{Lsn, StorageError};
use nandu_base::to_index;
use std::collections::VecDeque;

/// Requests that are in flight while the log is read.
const READ_AHEAD_COUNT: usize = 4;
/// Headers of flushes that contradict the end are looked for in so many of the longest flushes. One
/// would do; the next holds if its header is damaged, too.
const SEARCH_FLUSH_COUNT: u64 = 2;

/// Where a log ends, as a scan found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The first byte behind the last record.
    pub lsn: Lsn,
    pub(super) epoch: u32,
}

/// A scan of a log.
#[derive(Debug)]
pub struct LogReader {
    area: LogArea,
    position: Lsn,
    /// The first byte that is not part of this lap.
    limit: Lsn,
    /// Up to here the log was durable, says the control block.
    durable: Lsn,
    /// The control block may not be the newest.
    is_doubtful: bool,
    /// Something would have passed the lap.
    has_met_limit: bool,
    search_bytes: u64,
    epoch: Option<u32>,
    /// The end of the flush whose header was seen last.
    flush_end: Lsn,
    window: Vec<u8>,
    window_start: Lsn,
    pending: VecDeque<(Pending, u64)>,
    read_up_to: Lsn,
    end: Option<LogEnd>,
}

enum Step {
    /// A record, by its LSN and the place of its payload in the window.
    Record(Lsn, std::ops::Range<usize>),
    Passed,
    Ended,
}

impl LogReader {
    pub(super) fn new(area: LogArea, master: &Master, from: Lsn) -> Result<Self, StorageError> {
        let layout = area.layout;
        let from = if from == Lsn(0) { master.tail } else { from };
        if from < master.tail || from > master.durable || !frame::is_aligned(from) {
            let place = layout.place_of(from);
            let what = format!("it is to be read from there, its tail is at LSN {}", master.tail.0);
            return Err(StorageError::Corrupt { place, what });
        }
        let start = layout.sector_start(from);
        Ok(Self {
            position: from,
            limit: Lsn(layout.sector_start(master.tail).0 + layout.capacity_bytes),
            durable: master.durable,
            is_doubtful: master.is_doubtful,
            has_met_limit: false,
            search_bytes: SEARCH_FLUSH_COUNT * u64::from(master.buffer_bytes),
            epoch: None,
            flush_end: from,
            window: Vec::new(),
            window_start: start,
            pending: VecDeque::new(),
            read_up_to: start,
            end: None,
            area,
        })
    }

    /// The next record and its LSN; `None` at the end of the log.
    ///
    /// # Errors
    /// If the device fails, or the log is damaged: the record cannot be read, but what comes later
    /// shows that it was durable. The message names its LSN and its place in the file.
    pub fn next_record(&mut self) -> Result<Option<(Lsn, LogRecord<'_>)>, StorageError> {
        let (lsn, payload) = loop {
            match self.step()? {
                Step::Record(lsn, payload) => break (lsn, payload),
                Step::Passed => {}
                Step::Ended => return Ok(None),
            }
        };
        match decode_record_at(lsn, &self.window[payload]) {
            Ok(record) => Ok(Some((lsn, record))),
            Err(error) => Err(self.corrupt(lsn, &format!("{error}"))),
        }
    }

    /// Reads on to the end and says where that is.
    ///
    /// # Errors
    /// As [`Self::next_record`].
    pub fn find_end(&mut self) -> Result<LogEnd, StorageError> {
        loop {
            if let Some(end) = self.end {
                return Ok(end);
            }
            self.next_record()?;
        }
    }

    /// What was read last ends here.
    #[must_use]
    pub const fn position(&self) -> Lsn {
        self.position
    }

    fn step(&mut self) -> Result<Step, StorageError> {
        if self.end.is_some() {
            return Ok(Step::Ended);
        }
        let Some((header, payload)) = self.sound_frame()? else {
            if !self.cross_seam()? {
                self.judge_end()?;
            }
            return Ok(Step::Passed);
        };
        let lsn = self.position;
        let kind = self.window[payload.start];
        let may_raise = kind == FLUSH_HEADER;
        let fits = match self.epoch {
            Some(epoch) if may_raise => header.epoch >= epoch,
            Some(epoch) => header.epoch == epoch,
            None => true,
        };
        if !fits {
            self.judge_end()?;
            return Ok(Step::Passed);
        }
        self.epoch = Some(header.epoch);
        if may_raise && let Some(flush) = FlushHeader::parse(&self.window[payload.clone()]) {
            self.flush_end = Lsn(lsn.0.saturating_add(flush.length_bytes)).min(self.limit);
        }
        self.position = Lsn(lsn.0 + frame::frame_bytes(payload.len()) as u64);
        match kind {
            FLUSH_HEADER | PADDING => Ok(Step::Passed),
            _ => Ok(Step::Record(lsn, payload)),
        }
    }

    /// The frame at the position, if there is a whole one; its payload lies in the window.
    fn sound_frame(
        &mut self,
    ) -> Result<Option<(FrameHeader, std::ops::Range<usize>)>, StorageError> {
        let Some(header) = self.load(self.position, FRAME_HEADER_BYTES)? else { return Ok(None) };
        let Some(header) = FrameHeader::parse(&self.window[header]) else { return Ok(None) };
        if u64::from(header.payload_bytes) > self.payload_bytes_max() {
            return Ok(None);
        }
        let frame_bytes = FRAME_HEADER_BYTES + header.payload_bytes as usize;
        let Some(frame) = self.load(self.position, frame_bytes)? else { return Ok(None) };
        let payload = frame.start + FRAME_HEADER_BYTES..frame.end;
        let bytes = &self.window[payload.clone()];
        let is_sound = self.area.layout.is_sound(header, self.position, bytes);
        Ok(is_sound.then_some((header, payload)))
    }

    /// Padding may be longer than a record of a small log.
    fn payload_bytes_max(&self) -> u64 {
        self.area.layout.record_bytes_max().max(self.area.layout.sector_bytes)
    }

    /// Steps over the rest of a sector behind which a later run went on.
    fn cross_seam(&mut self) -> Result<bool, StorageError> {
        let next = self.area.layout.next_sector(self.position);
        if next == self.position {
            return Ok(false);
        }
        let Some(bytes) = self.load(next, FLUSH_HEADER_BYTES)? else { return Ok(false) };
        let found = self.area.layout.flush_header(&self.window[bytes], next);
        let is_newer = |epoch: u32| self.epoch.is_none_or(|known| epoch > known);
        match found {
            Some((epoch, flush)) if flush.durable == self.position && is_newer(epoch) => {
                self.position = next;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Decides whether the log ends at the position.
    fn judge_end(&mut self) -> Result<(), StorageError> {
        let lsn = self.position;
        if lsn < self.durable {
            let what = format!("unreadable, yet durable up to LSN {}", self.durable.0);
            return Err(self.corrupt(lsn, &what));
        }
        if is_planted(EngineBug::HolesPassedOver) && self.passes_hole(lsn)? {
            return Ok(());
        }
        if self.is_doubtful && self.has_met_limit {
            let what = "a control block is damaged, and the log may go on in a lap that the other \
                        one does not know";
            return Err(self.corrupt(lsn, what));
        }
        let claim = self.find_claim(lsn);
        self.rewind(lsn);
        if let Some(at) = claim? {
            let what = format!("unreadable, yet the flush at LSN {} says it is durable", at.0);
            return Err(self.corrupt(lsn, &what));
        }
        self.end = Some(LogEnd { lsn, epoch: self.epoch.unwrap_or(0) });
        Ok(())
    }

    /// Goes on at the next sound record of the same run: a bug that is planted.
    fn passes_hole(&mut self, lsn: Lsn) -> Result<bool, StorageError> {
        let layout = self.area.layout;
        let search_end = Lsn(lsn.0 + self.search_bytes).min(self.limit);
        let mut at = layout.next_sector(Lsn(lsn.0 + 1));
        while at < search_end {
            self.position = at;
            if self.sound_frame()?.is_some_and(|(header, _)| Some(header.epoch) == self.epoch) {
                return Ok(true);
            }
            at = Lsn(at.0 + layout.sector_bytes);
        }
        self.rewind(lsn);
        Ok(false)
    }

    /// The next flush that calls `lsn` durable.
    fn find_claim(&mut self, lsn: Lsn) -> Result<Option<Lsn>, StorageError> {
        let layout = self.area.layout;
        let search_end = Lsn(lsn.max(self.flush_end).0 + self.search_bytes).min(self.limit);
        let mut at = layout.next_sector(lsn);
        while at < search_end {
            let Some(bytes) = self.load(at, FLUSH_HEADER_BYTES)? else { break };
            if let Some((_, flush)) = layout.flush_header(&self.window[bytes], at)
                && flush.durable > lsn
            {
                return Ok(Some(at));
            }
            at = Lsn(at.0 + layout.sector_bytes);
            self.position = at;
        }
        Ok(None)
    }

    /// Goes back to `lsn`, which may lie before the window by now.
    fn rewind(&mut self, lsn: Lsn) {
        self.position = lsn;
        self.window.clear();
        self.window_start = self.area.layout.sector_start(lsn);
        self.drain();
    }

    /// Where the bytes from `lsn` on lie in the window; `None` where they pass the lap.
    fn load(
        &mut self,
        lsn: Lsn,
        bytes: usize,
    ) -> Result<Option<std::ops::Range<usize>>, StorageError> {
        let end = Lsn(lsn.0 + bytes as u64);
        if end > self.limit {
            self.has_met_limit = true;
            return Ok(None);
        }
        while end.0 > self.window_start.0 + self.window.len() as u64 {
            self.drop_passed();
            self.read_ahead()?;
            let (request, length) = self.pending.pop_front().expect("a request is on its way");
            match self.area.finish_read(&request) {
                Ok(buffer) => self.window.extend_from_slice(&buffer[..to_index(length)]),
                Err(error) => {
                    self.drain();
                    return Err(error);
                }
            }
        }
        let at = to_index(lsn.0 - self.window_start.0);
        Ok(Some(at..at + bytes))
    }

    /// Forgets what lies before the position, if that is much.
    fn drop_passed(&mut self) {
        let passed = to_index(self.position.0.saturating_sub(self.window_start.0));
        let passed = passed.min(self.window.len());
        if passed as u64 >= IO_BYTES_MAX {
            self.window.drain(..passed);
            self.window_start = Lsn(self.window_start.0 + passed as u64);
        }
    }

    fn read_ahead(&mut self) -> Result<(), StorageError> {
        while self.pending.len() < READ_AHEAD_COUNT && self.read_up_to < self.limit {
            if !self.pending.is_empty() && !self.area.has_room() {
                return Ok(());
            }
            let at = self.read_up_to;
            let bytes = self.area.piece_bytes(at, self.limit.0 - at.0);
            let request = self.area.start_read(at, bytes)?;
            self.pending.push_back((request, bytes));
            self.read_up_to = Lsn(at.0 + bytes);
        }
        Ok(())
    }

    /// Waits for what is in flight; it would be read again.
    fn drain(&mut self) {
        for (request, _) in std::mem::take(&mut self.pending) {
            // A failure is not told here: whoever needs these bytes reads them again and is told
            // then.
            let _ = self.area.finish_read(&request);
        }
        self.read_up_to = Lsn(self.window_start.0 + self.window.len() as u64);
    }

    fn corrupt(&self, lsn: Lsn, what: &str) -> StorageError {
        let place = self.area.layout.place_of(lsn);
        let what = format!("{what}; restore the database from a copy");
        StorageError::Corrupt { place, what }
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        self.drain();
    }
}
