//! Restart after a crash: analysis, redo, undo (ARIES, Mohan et al. 1992), reported as the four steps
//! of S003 "A case for flash SSD in database recovery".
//!
//! ```text
//!   P ──────── C ──────────────────────────► end of log       C: last complete checkpoint
//!              └ analysis: who was active, which pages were dirty     P: its predecessor
//!   └──────────┴ redo: repeat history on pages of the dirty-page table
//!                          ◄─────────────────┘ undo of the transaction that was active
//! ```
//!
//! 1. Redo applies a record to a page exactly if the page's LSN is smaller. A page whose checksum
//!    fails waits for its image, or for the record that made it, and then takes everything after.
//! 2. Every compensation is logged, so a crash during restart loses no progress and undoes nothing
//!    twice: restart twice gives what restart once gives.
//! 3. The log is read in one direction except for undo; pages are read in the order of their
//!    addresses, with the device's queue full, half a pool's worth at a time.
//! 4. A record that is older than its file speaks of one that had the number before, and is passed over.
//! 5. What was read for a stretch of the log stays until its records are applied: the pool has empty
//!    frames for it before, so redo reads no page twice but torn ones.

use super::{Engine, TornPages, Transaction, structure};
use crate::error::unless_full;
use crate::log::TransactionStatus;
use crate::log::{LogEnd, LogFile, LogReader, LogRecord, RecordBuilder, Room};
use crate::page::{TRAILER_BYTES, page_lsn};
use crate::plant::{EngineBug, is_planted};
use crate::pool::WriteBack;
use crate::volume::Io;
use crate::{FileId, Lsn, PageAddress, PageOperation, StorageError};
use nandu_base::Nanos;
use nandu_device::Counters;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Log that redo holds in memory at once, while the pages that it changes are read.
const WINDOW_BYTES: usize = 8 << 20;

/// One of the four steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartStep {
    /// Time on the engine's clock.
    pub time: Nanos,
    /// Requests to the devices.
    pub request_count: u64,
    /// Bytes that these requests moved.
    pub bytes: u64,
}

/// What a restart did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartReport {
    /// Step 1: the log is read, by analysis and by redo.
    pub log_scan: RestartStep,
    /// Step 2: pages to be changed are read; before that, copies of torn ones or the page map, by which
    /// the propagation finds what is there.
    pub page_reads: RestartStep,
    /// Step 3: records are applied, the loser is rolled back.
    pub apply: RestartStep,
    /// Step 4: changed pages are written.
    pub page_writes: RestartStep,
    /// Whether the database had been closed; then nothing was done.
    pub was_closed: bool,
    /// Records from the checkpoint to the end.
    pub record_count: u64,
    /// Bytes of log from the start of redo to the end.
    pub log_bytes: u64,
    /// Pages that redo read or made.
    pub page_count: u64,
    /// Changes that redo applied.
    pub redone_count: u64,
    /// Changes that a page had already.
    pub skipped_count: u64,
    /// Pages that were torn and rebuilt.
    pub repaired_page_count: u64,
    /// Transactions that were rolled back.
    pub loser_count: u64,
    /// Actions that were undone.
    pub undone_count: u64,
}

/// What analysis finds.
#[derive(Debug)]
pub(super) struct Analysis {
    /// Transactions that neither committed nor ended.
    losers: BTreeMap<u64, Transaction>,
    /// Pages that may be older on the device than in the log.
    dirty_pages: BTreeSet<PageAddress>,
    /// Those of them that were dirty when the checkpoint ended: they may be torn, with their image
    /// before the checkpoint.
    dirty_at_checkpoint: BTreeSet<PageAddress>,
    /// Where redo has to begin.
    pub(super) redo_from: Lsn,
    checkpoint: Lsn,
    pub(super) last_transaction: u64,
    /// The last write of pages that a record calls durable; 0 if none does.
    pub(super) written: u64,
    pub(super) end: LogEnd,
}

/// Reads the log from its last complete checkpoint to its end, unless the database was closed.
///
/// # Errors
/// If the device fails or the log is damaged.
pub(super) fn analyse(
    log: &LogFile,
    torn_pages: TornPages,
    report: &mut RestartReport,
) -> Result<Analysis, StorageError> {
    let control = *log.control();
    if let Some(end) = log.clean_end() {
        return Ok(Analysis::of_closed(control.checkpoint, end));
    }
    let mut reader = log.scan(control.checkpoint)?;
    let mut losers = BTreeMap::new();
    let mut dirty_pages = BTreeSet::new();
    let mut dirty_at_checkpoint = BTreeSet::new();
    let mut redo_from = control.checkpoint;
    let (mut last_transaction, mut written) = (0, 0);
    let overlooked = if is_planted(EngineBug::LastRecordLost) { last_record(log)? } else { None };
    while let Some((lsn, record)) = reader.next_record()? {
        report.record_count += 1;
        if overlooked == Some(lsn) {
            continue;
        }
        match record {
            LogRecord::Action { transaction, changes, .. } => {
                note_loser(&mut losers, transaction, lsn, lsn);
                dirty_pages.extend(changes.iter().map(|(address, _)| address));
                last_transaction = last_transaction.max(transaction);
            }
            LogRecord::Compensation { transaction, undo_next, changes, .. } => {
                note_loser(&mut losers, transaction, lsn, undo_next);
                dirty_pages.extend(changes.iter().map(|(address, _)| address));
                last_transaction = last_transaction.max(transaction);
            }
            LogRecord::Abort { transaction, .. } => {
                if let Some(loser) = losers.get_mut(&transaction) {
                    loser.last = lsn;
                }
            }
            LogRecord::Commit { transaction, .. } | LogRecord::End { transaction, .. } => {
                losers.remove(&transaction);
                last_transaction = last_transaction.max(transaction);
            }
            LogRecord::BeginCheckpoint => {}
            LogRecord::EndCheckpoint(part) if part.begin == control.checkpoint => {
                for (address, first_change) in part.dirty_pages() {
                    dirty_at_checkpoint.insert(address);
                    redo_from = redo_from.min(first_change);
                }
                for entry in part.transactions() {
                    last_transaction = last_transaction.max(entry.id);
                    if entry.status != TransactionStatus::Committed {
                        losers.entry(entry.id).or_insert(Transaction::of_log(&entry));
                    }
                }
            }
            LogRecord::EndCheckpoint(_) => {}
            LogRecord::PagesDurable { written: until } => written = written.max(until),
        }
    }
    dirty_pages.extend(&dirty_at_checkpoint);
    if torn_pages == TornPages::LogImages && !dirty_at_checkpoint.is_empty() {
        redo_from = redo_from.min(control.previous_checkpoint.max(control.tail));
    }
    let end = reader.find_end()?;
    report.log_bytes = end.lsn.0 - redo_from.0;
    let checkpoint = control.checkpoint;
    Ok(Analysis {
        losers,
        dirty_pages,
        dirty_at_checkpoint,
        redo_from,
        checkpoint,
        last_transaction,
        written,
        end,
    })
}

/// The last record behind the checkpoint.
fn last_record(log: &LogFile) -> Result<Option<Lsn>, StorageError> {
    let mut reader = log.scan(log.control().checkpoint)?;
    let mut last = None;
    while let Some((lsn, _)) = reader.next_record()? {
        last = Some(lsn);
    }
    Ok(last)
}

/// A record of a transaction moves its last record and what is to be undone next.
fn note_loser(losers: &mut BTreeMap<u64, Transaction>, id: u64, lsn: Lsn, undo_next: Lsn) {
    let loser = losers.entry(id).or_insert(Transaction::new(id, lsn));
    loser.last = lsn;
    loser.undo_next = undo_next;
}

impl Engine {
    /// Brings the database to the state of its last committed transaction. `reader` stands where redo
    /// begins.
    pub(super) fn restart(
        &mut self,
        mut reader: LogReader,
        analysis: &Analysis,
        report: &mut RestartReport,
    ) -> Result<(), StorageError> {
        let mut redo = Redo::new(self, analysis);
        let mut is_more = true;
        while is_more {
            let watch = self.stopwatch();
            is_more = redo.fill_window(&mut reader)?;
            watch.charge(&mut report.log_scan);
            redo.read_pages(self, report)?;
            let watch = self.stopwatch();
            redo.apply_window(self, report)?;
            watch.charge(&mut report.apply);
            let watch = self.stopwatch();
            unless_full(self.pool.write_back(&WriteBack::default()).map(drop))?;
            watch.charge(&mut report.page_writes);
        }
        if let Some(&address) = redo.torn.first() {
            let files = self.files();
            let name = files.into_iter().find(|(file, _)| *file == address.file);
            let file = name.map_or_else(|| format!("file {}", address.file.0), |(_, name)| name);
            return Err(StorageError::ChecksumMismatch { file, address });
        }
        report.page_count = redo.seen.len() as u64;
        let watch = self.stopwatch();
        self.undo_losers(&analysis.losers, report)?;
        watch.charge(&mut report.apply);
        let watch = self.stopwatch();
        // Without room the database is as it was before the crash, in memory and in the log: it can be
        // read, and where something is taken away there is room again.
        unless_full(self.checkpoint_fully())?;
        watch.charge(&mut report.page_writes);
        Ok(())
    }

    fn undo_losers(
        &mut self,
        losers: &BTreeMap<u64, Transaction>,
        report: &mut RestartReport,
    ) -> Result<(), StorageError> {
        if is_planted(EngineBug::UndoSkipped) {
            return Ok(());
        }
        // One after the other: what they changed is apart, since each had it locked.
        let count = if is_planted(EngineBug::OneLoserUndone) { 1 } else { losers.len() };
        for loser in losers.values().take(count) {
            report.loser_count += 1;
            let records_before = self.log.counts().record_count;
            self.active = Some(*loser);
            self.undo_until(Lsn(0))?;
            report.undone_count += self.log.counts().record_count - records_before;
            let last = self.active.expect("it is active until it ends").last;
            self.log.append(&RecordBuilder::new().end(loser.id, last), Room::Reserved)?;
            self.active = None;
        }
        Ok(())
    }

    fn stopwatch(&self) -> Stopwatch {
        Stopwatch::start(&self.data_io, &self.log_io)
    }
}

/// Redo in windows of the log.
struct Redo<'a> {
    analysis: &'a Analysis,
    window: Window,
    /// Pages that a window may name, so that the pool holds them all.
    page_count_max: usize,
    /// Files that still exist, each with the first record that may speak of it. What the log says of
    /// others, or of one that had the number before, does not matter any more.
    files: BTreeMap<FileId, Lsn>,
    /// Torn pages whose image was not met yet.
    torn: BTreeSet<PageAddress>,
    seen: BTreeSet<PageAddress>,
}

/// Changes of a stretch of the log, copied out of it.
#[derive(Default)]
struct Window {
    changes: Vec<HeldChange>,
    bytes: Vec<u8>,
    pages: BTreeSet<PageAddress>,
}

struct HeldChange {
    lsn: Lsn,
    address: PageAddress,
    code: u8,
    operand: u32,
    first: Range<usize>,
    second: Range<usize>,
}

impl Window {
    fn hold(&mut self, lsn: Lsn, address: PageAddress, operation: &PageOperation<'_>) {
        self.pages.insert(address);
        let first = self.copy(operation.first);
        let second = self.copy(operation.second);
        let &PageOperation { code, operand, .. } = operation;
        self.changes.push(HeldChange { lsn, address, code, operand, first, second });
    }

    fn copy(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }
}

impl Analysis {
    /// Of a database that was closed: everything is in its place.
    const fn of_closed(checkpoint: Lsn, end: LogEnd) -> Self {
        Self {
            losers: BTreeMap::new(),
            dirty_pages: BTreeSet::new(),
            dirty_at_checkpoint: BTreeSet::new(),
            redo_from: checkpoint,
            checkpoint,
            last_transaction: 0,
            written: 0,
            end,
        }
    }

    /// Whether the device may lack the change at `lsn` to this page, or need it to mend the page.
    fn may_miss(&self, lsn: Lsn, address: PageAddress) -> bool {
        if lsn < self.checkpoint {
            self.dirty_at_checkpoint.contains(&address)
        } else {
            self.dirty_pages.contains(&address)
        }
    }
}

impl<'a> Redo<'a> {
    fn new(engine: &Engine, analysis: &'a Analysis) -> Self {
        Self {
            analysis,
            window: Window::default(),
            page_count_max: (engine.settings.frame_count() / 2).max(1) as usize,
            files: engine.records_from.clone(),
            torn: BTreeSet::new(),
            seen: BTreeSet::new(),
        }
    }

    /// Reads the log on until the window is full. False at its end.
    fn fill_window(&mut self, reader: &mut LogReader) -> Result<bool, StorageError> {
        let Self { window, analysis, page_count_max, files, .. } = self;
        window.changes.clear();
        window.bytes.clear();
        window.pages.clear();
        while window.bytes.len() < WINDOW_BYTES && window.pages.len() < *page_count_max {
            let Some((lsn, record)) = reader.next_record()? else { return Ok(false) };
            let (LogRecord::Action { changes, .. } | LogRecord::Compensation { changes, .. }) =
                record
            else {
                continue;
            };
            for (address, operation) in changes.iter() {
                let is_of_file = files.get(&address.file).is_some_and(|&first| lsn >= first);
                if is_of_file && analysis.may_miss(lsn, address) {
                    window.hold(lsn, address, &operation);
                }
            }
        }
        Ok(true)
    }

    /// Reads the window's pages in the order of their addresses, many at a time.
    fn read_pages(
        &mut self,
        engine: &mut Engine,
        report: &mut RestartReport,
    ) -> Result<(), StorageError> {
        let watch = engine.stopwatch();
        let mut pages: Vec<PageAddress> = self.window.pages.iter().copied().collect();
        self.seen.extend(&pages);
        let missing_count = pages.iter().filter(|&&page| engine.pool.find(page).is_none()).count();
        engine.pool.make_room_beside(&self.window.pages, missing_count);
        // A torn page is left out of the batch. It is read by itself, and mended, when the first
        // record that changed it is redone.
        loop {
            match engine.pool.read_batch(&pages, |_, _| ()) {
                Ok(()) => break,
                Err(StorageError::ChecksumMismatch { address, .. }) => {
                    pages.retain(|&page| page != address);
                }
                Err(error) => return Err(error),
            }
        }
        watch.charge(&mut report.page_reads);
        Ok(())
    }

    fn apply_window(
        &mut self,
        engine: &mut Engine,
        report: &mut RestartReport,
    ) -> Result<(), StorageError> {
        // The pages that the record at hand changes: all its changes to a page count, or none.
        let mut changed: Vec<(PageAddress, u32)> = Vec::new();
        let mut skipped: Vec<PageAddress> = Vec::new();
        let mut record = Lsn(0);
        let window = std::mem::take(&mut self.window);
        for change in &window.changes {
            if change.lsn != record {
                stamp(engine, &mut changed, record);
                skipped.clear();
                record = change.lsn;
            }
            if skipped.contains(&change.address) {
                report.skipped_count += 1;
                continue;
            }
            let operation = PageOperation {
                code: change.code,
                operand: change.operand,
                first: &window.bytes[change.first.clone()],
                second: &window.bytes[change.second.clone()],
            };
            let is_begun = changed.iter().any(|(address, _)| *address == change.address);
            if is_begun || self.is_due(engine, change, report)? {
                let mut page = engine.pool.page_mut(change.address)?;
                let usable = page.bytes().len() - TRAILER_BYTES;
                page.note_change(0..0);
                let frame = page.frame();
                let result = structure::apply(&mut page.bytes_mut()[..usable], &operation);
                if !is_begun {
                    changed.push((change.address, frame));
                }
                page.note_change(0..nandu_base::to_u32(usable as u64));
                drop(page);
                result.map_err(|error| not_as_logged(engine, change.address, error))?;
                report.redone_count += 1;
            } else {
                skipped.push(change.address);
                report.skipped_count += 1;
            }
        }
        stamp(engine, &mut changed, record);
        self.window = window;
        Ok(())
    }

    /// Whether a page lacks the change. A torn one lacks all from its image on.
    fn is_due(
        &mut self,
        engine: &mut Engine,
        change: &HeldChange,
        report: &mut RestartReport,
    ) -> Result<bool, StorageError> {
        let (mut page, is_torn) = engine.pool.page_mut_or_torn(change.address)?;
        if is_torn {
            page.bytes_mut().fill(0);
            self.torn.insert(change.address);
        }
        if self.torn.contains(&change.address) {
            let is_whole = matches!(change.code, PageOperation::IMAGE | PageOperation::CLEAR);
            if is_whole {
                self.torn.remove(&change.address);
                report.repaired_page_count += 1;
            }
            return Ok(is_whole);
        }
        let found = page_lsn(page.bytes());
        Ok(found < change.lsn || (found == change.lsn && is_planted(EngineBug::RedoAgain)))
    }
}

/// A change that cannot be made again: the page lost what came before it, as where a file was cut off.
fn not_as_logged(engine: &Engine, address: PageAddress, error: StorageError) -> StorageError {
    let StorageError::Corrupt { place, what } = error else { return error };
    let files = engine.files();
    let known = files.iter().find(|(file, _)| *file == address.file);
    let name = known.map_or_else(|| format!("file {}", address.file.0), |(_, name)| name.clone());
    StorageError::Corrupt {
        place: format!("page {} of {name}", address.page),
        what: format!(
            "it is not as the log left it ({place}: {what}); restore the database from a copy"
        ),
    }
}

/// The record is on these pages.
fn stamp(engine: &mut Engine, changed: &mut Vec<(PageAddress, u32)>, lsn: Lsn) {
    for (_, frame) in changed.drain(..) {
        engine.pool.frame_mut(frame).set_lsn(lsn);
    }
}

/// Time and requests of a step.
pub(super) struct Stopwatch {
    ios: [Io; 2],
    started: (Nanos, Counters, Counters),
}

impl Stopwatch {
    pub(super) fn start(data: &Io, log: &Io) -> Self {
        let ios = [data.clone(), log.clone()];
        let started = Self::look(&ios);
        Self { ios, started }
    }

    /// Adds what passed since the start to `step`.
    pub(super) fn charge(&self, step: &mut RestartStep) {
        let (now, data, log) = Self::look(&self.ios);
        let (then, data_then, log_then) = &self.started;
        step.time += now - *then;
        let mut add = |now: &Counters, then: &Counters| {
            step.request_count += requests(now) - requests(then);
            step.bytes += bytes(now) - bytes(then);
        };
        add(&data, data_then);
        if !self.ios[0].is_same(&self.ios[1]) {
            add(&log, log_then);
        }
    }

    fn look(ios: &[Io; 2]) -> (Nanos, Counters, Counters) {
        let counters = |io: &Io| io.counters();
        (ios[0].present(), counters(&ios[0]), counters(&ios[1]))
    }
}

fn requests(counters: &Counters) -> u64 {
    let Counters { reads, writes, trims, flushes, .. } = counters;
    [reads, writes, trims, flushes].iter().map(|operation| operation.request_count).sum()
}

fn bytes(counters: &Counters) -> u64 {
    counters.reads.byte_count + counters.writes.byte_count
}
