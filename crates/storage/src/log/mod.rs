//! The write-ahead log (ARIES: Mohan et al., TODS 1992; choices: `docs/decisions/007-storage-engine.md`).
//!
//! ```text
//!   LogFile::create ──────────────────────────────► SharedLog: append, make_durable, checkpoints
//!   LogFile::open ──► scan ──► LogReader ──► end ──► resume ──► SharedLog
//! ```
//!
//! 1. What was durable when the power went is read back, in order; behind it comes a prefix of what
//!    was appended, and nothing else.
//! 2. Durable bytes at or behind the tail are never written again.
//! 3. The log knows a volume and a file of it. That may be another volume than the pages'.
//! 4. Sectors may be lines of a memory, from 64 bytes on: each keeps what it has or what was written last.

use crate::volume::Io;
use crate::{FileId, Lsn, StorageError, page};
use nandu_base::to_index;
use serde::{Deserialize, Serialize};

mod area;
mod frame;
mod master;
mod reader;
mod record;
mod sealed_lines;
mod shared;
#[cfg(test)]
mod test_volume;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_limits;
#[cfg(test)]
mod tests_of_lines;
mod varint;
mod writer;

pub use master::{LOG_FORMAT_VERSION, Master};
pub use reader::{LogEnd, LogReader};
pub use record::{
    Changes, CheckpointPart, DirtyPageEntry, EncodedRecord, LogRecord, RecordBuilder,
    TransactionEntry, TransactionStatus, decode_record,
};
pub use shared::{RecordBuffer, SharedLog};
pub use writer::Room;

/// The largest buffer for the end of the log.
const BUFFER_BYTES_MAX: u32 = 64 << 20;

/// How durable a commit is when it returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// It survives a power cut.
    #[default]
    EveryCommit,
    /// It survives a power cut once so many commits have come together, or their records fill the
    /// buffer.
    Grouped {
        /// How many commits have to come together, from 1.
        commit_count: u32,
    },
    /// It survives a power cut some time later: when the buffer is full, at a checkpoint, or when
    /// one of its pages is written.
    None,
}

/// How records get from memory to the device of the log. May differ at each opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogWritingKind {
    /// They are collected in memory, and written together when somebody has to wait for one of them.
    #[default]
    Buffered,
    /// Each goes to the device as it comes, on sectors of its own: for memory whose sectors are lines.
    Direct,
}

/// So many times a database may be opened while somebody copies it.
const RUNS_LEFT_TO_ORIGINAL: u32 = 4096;

/// The sizes of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// Bytes of log between the tail and the end, a multiple of the device's sectors, at least 16
    /// of them. Counts when the log is made.
    pub capacity_bytes: u64,
    /// Bytes that are collected in memory before they are flushed unasked, from 4096 to 64 MiB.
    pub buffer_bytes: u32,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { capacity_bytes: 256 << 20, buffer_bytes: 1 << 20 }
    }
}

/// What was appended and flushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Records that were appended, durable or not.
    pub record_count: u64,
    /// Their bytes, frames included.
    pub record_bytes: u64,
    /// Flushes that became durable.
    pub flush_count: u64,
    /// Their bytes, padding included.
    pub flush_bytes: u64,
}

/// A log that nobody writes yet.
#[derive(Debug)]
pub struct LogFile {
    area: area::LogArea,
    master: Master,
}

impl LogFile {
    /// Makes an empty log in `file`, whatever it held, and opens it.
    ///
    /// # Errors
    /// If a size makes no sense, the volume has no room, or the device fails.
    pub fn create(
        io: Io,
        file: FileId,
        config: &LogConfig,
        page_bytes: u32,
        database_id: u64,
    ) -> Result<SharedLog, StorageError> {
        page::check_page_bytes(page_bytes)?;
        let sector_bytes = u64::from(io.sector_bytes());
        let layout = frame::Layout::new(sector_bytes, config.capacity_bytes, database_id);
        layout.check()?;
        check_buffer(config)?;
        io.set_byte_count(file, layout.file_bytes())?;
        let area = area::LogArea::new(io, file, layout);
        let mut master =
            master::first_master(&layout, page_bytes, database_id, config.buffer_bytes);
        master::clear_other_block(&area, &master)?;
        master.write(&area)?;
        Ok(start(area, master, config, master.durable))
    }

    /// Opens the log in `file` for reading, after making durable what it holds: it may be more than
    /// what was durable when the last run ended.
    ///
    /// # Errors
    /// If there is no log, it is of another version or device, or the device fails.
    pub fn open(io: Io, file: FileId) -> Result<Self, StorageError> {
        {
            if !io.is_read_only() {
                io.sync(file)?;
            }
        }
        let master = Master::read(&io, file)?;
        let area = area::LogArea::new(io, file, master.layout());
        Ok(Self { area, master })
    }

    /// What restart has to know.
    #[must_use]
    pub const fn control(&self) -> &Master {
        &self.master
    }

    /// Where the log ends, if the database was closed in order: nothing has to be read for that.
    #[must_use]
    pub fn clean_end(&self) -> Option<LogEnd> {
        let Master { is_clean, durable, epoch, .. } = self.master;
        is_clean.then_some(LogEnd { lsn: durable, epoch })
    }

    /// Reads the log from the record at `from` on: a checkpoint, or the tail; `Lsn(0)` is the tail.
    ///
    /// # Errors
    /// If no record can be there.
    pub fn scan(&self, from: Lsn) -> Result<LogReader, StorageError> {
        LogReader::new(self.area.clone(), &self.master, from)
    }

    /// Leaves numbers of runs to the database of which this one is a copy: pages that it wrote since are not
    /// taken for those of a run of this one.
    pub(crate) const fn skip_runs(&mut self) {
        self.master.epoch = self.master.epoch.saturating_add(RUNS_LEFT_TO_ORIGINAL);
    }

    /// The run that opening the log for writing begins, behind the end that a scan has found.
    pub(crate) fn next_run(&self, end: LogEnd) -> u32 {
        self.master.epoch.max(end.epoch).saturating_add(1)
    }

    /// Opens the log for writing, behind the end that a scan has found.
    ///
    /// # Errors
    /// If a size makes no sense, or the device fails.
    pub fn resume(self, end: LogEnd, config: &LogConfig) -> Result<SharedLog, StorageError> {
        check_buffer(config)?;
        let next_run = self.next_run(end);
        let Self { area, mut master } = self;
        master.epoch = next_run;
        master.is_clean = false;
        master.durable = end.lsn;
        master.buffer_bytes = master.buffer_bytes.max(config.buffer_bytes);
        master.write(&area)?;
        Ok(start(area, master, config, end.lsn))
    }

    /// The log of a database that is only read: nothing is ever appended to it.
    pub(crate) fn rest(self, end: LogEnd, config: &LogConfig) -> SharedLog {
        let Self { area, master } = self;
        start(area, master, config, end.lsn)
    }
}

/// Bytes of the log that a record of so many takes, its frame included.
#[must_use]
pub fn frame_bytes(record_bytes: u64) -> u64 {
    frame::frame_bytes(to_index(record_bytes)) as u64
}

fn start(area: area::LogArea, master: Master, config: &LogConfig, end: Lsn) -> SharedLog {
    let writer =
        writer::LogWriter::new(area.layout, master.epoch, config.buffer_bytes, master.tail, end);
    SharedLog::new(area, master, writer)
}

/// Checks the size of a buffer, by the name that settings of a database have for it.
pub(crate) fn check_buffer(config: &LogConfig) -> Result<(), StorageError> {
    if (4096..=BUFFER_BYTES_MAX).contains(&config.buffer_bytes) {
        return Ok(());
    }
    let found = config.buffer_bytes;
    let what = format!("log_buffer_bytes {found} is not from 4096 to {BUFFER_BYTES_MAX}");
    Err(StorageError::InvalidSetting { what })
}
