//! The metadata log: groups of rows that say what spare areas do not, for recovery alone.
//!
//! ```text
//! groups   [map 0][map 1][map 2][..rest..] [trims][trims][ . ][ . ]      . erased
//!          └── checkpoint, sequence S ───┘ └── journal since ────┘
//! ```
//!
//! 1. The log begins with a complete checkpoint, or with the journal where there was none yet.
//! 2. A checkpoint goes to groups that it finds erased. Those of the log before are erased when its
//!    last row is durable, and every row that it names was durable before its first.
//! 3. While a trim is not on flash the open group has erased rows for it, so that nothing has to be
//!    cleaned to write the journal.
//!
//! Every row carries its kind and, for a part of a map, the checkpoint's sequence number and its own.

use super::{NO_GROUP, PageFtl, State};
use crate::FtlError;
use crate::settled::Settled;
use nandu_base::{Cause, to_u32};
use nandu_nand::{NandArray, Ticket};
use std::sync::Arc;

/// Erased rows of the open group before a trim: it takes one or, with paired pages, two for a full
/// record, and the same for the next erase or flush.
pub(super) const LEAST_ROWS: u32 = 4;
/// Rows of a group with which a log works.
pub(super) const LEAST_GROUP_ROWS: u32 = 2 * LEAST_ROWS;
/// Bytes before the words of a row: kind, sequence number, part, parts.
const HEADER_BYTES: usize = 17;

/// Rows for `words` words of four bytes in rows of `row_bytes`.
fn row_count(words: u64, row_bytes: u64) -> u64 {
    words.div_ceil(words_per_row(row_bytes).max(1))
}

/// Words of four bytes that a row takes beside its header.
pub(super) const fn words_per_row(row_bytes: u64) -> u64 {
    row_bytes.saturating_sub(HEADER_BYTES as u64) / 4
}

/// Groups that the log of `words` words takes at most, with an old and a new checkpoint.
pub(super) fn group_count(words: u64, row_bytes: u64, rows: u64) -> u64 {
    2 * (row_count(words, row_bytes).div_ceil(rows) + 1)
}

/// What a row of metadata says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// Words of a checkpoint: its sequence number, which part of how many.
    Map { sequence: u64, part: u32, part_count: u32, words: Vec<u32> },
    /// Trims: words in fours, the sequence number in two, first unit, count.
    Trims { words: Vec<u32> },
}

impl Record {
    pub(super) fn encode(&self) -> Arc<[u8]> {
        let (kind, sequence, part, part_count, words) = match self {
            Self::Map { sequence, part, part_count, words } => {
                (1_u8, *sequence, *part, *part_count, words)
            }
            Self::Trims { words } => (2, 0, 0, 0, words),
        };
        let mut bytes = Vec::with_capacity(HEADER_BYTES + 4 * words.len());
        bytes.push(kind);
        bytes.extend(sequence.to_le_bytes());
        bytes.extend(part.to_le_bytes());
        bytes.extend(part_count.to_le_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.into()
    }

    /// None for padding, and for what this layer did not write.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (header, words) = bytes.split_at_checked(HEADER_BYTES)?;
        let word = |at: usize| Some(u32::from_le_bytes(header.get(at..at + 4)?.try_into().ok()?));
        let sequence = u64::from_le_bytes(header.get(1..9)?.try_into().ok()?);
        let words = words.chunks_exact(4).filter_map(|four| four.try_into().ok());
        let words = words.map(u32::from_le_bytes).collect();
        match header.first()? {
            1 => Some(Self::Map { sequence, part: word(9)?, part_count: word(13)?, words }),
            2 => Some(Self::Trims { words }),
            _ => None,
        }
    }
}

/// The log as the controller knows it.
#[derive(Clone, Debug)]
pub(super) struct MetadataLog {
    /// In the order of use; the last one is open.
    pub(super) groups: Vec<u32>,
    /// The row of the last group that is programmed next.
    pub(super) next_row: u32,
    /// The next checkpoint is due at this sequence number.
    pub(super) checkpoint_at: u64,
    /// The die on which the next group is opened.
    pub(super) next_die: usize,
    /// Trims that are in memory only and would be lost with the power.
    pub(super) pending: Vec<super::trim_journal::Trim>,
    /// The programs that record trims.
    pub(super) recorded: Settled,
}

impl MetadataLog {
    pub(super) fn new(interval_rows: u64) -> Self {
        let checkpoint_at = if interval_rows == 0 { u64::MAX } else { interval_rows };
        Self {
            groups: Vec::new(),
            next_row: 0,
            checkpoint_at,
            next_die: 0,
            pending: Vec::new(),
            recorded: Settled::default(),
        }
    }
}

impl PageFtl {
    pub(super) fn row_bytes(&self) -> u64 {
        u64::from(self.unit_bytes) * u64::from(self.width)
    }

    /// Erased rows of the open group.
    pub(super) fn metadata_room(&self) -> u32 {
        let log = &self.metadata;
        if log.groups.is_empty() { 0 } else { self.rows - log.next_row }
    }

    /// Takes a free group for metadata, from the dies in turn, cleaning where that is needed; a die
    /// without space to gain is passed over.
    pub(super) fn take_metadata_group(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
    ) -> Result<(u32, Ticket), FtlError> {
        let (next, count) = (self.metadata.next_die, self.dies.len());
        let wanted = self.config.reserve_count as usize + 1;
        for die in (next..next + count).map(|die| die % count) {
            let done = match self.clean_emptiest(nand, after, die, wanted, Cause::Cleaning) {
                Err(FtlError::DeviceFull) => continue,
                cleaned => cleaned?,
            };
            let group = self.dies[die].free.pop(true).ok_or(FtlError::DeviceFull)?;
            self.groups[group as usize].state = State::Metadata;
            self.metadata.next_die = (die + 1) % count;
            return Ok((group, done));
        }
        Err(FtlError::DeviceFull)
    }

    /// Programs a record behind the log, whose open group has room; on chips with paired pages, with
    /// the row that shares its cells, so that no later cut can take it.
    pub(super) fn append_metadata(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        record: &Record,
    ) -> Result<Ticket, FtlError> {
        let done = self.program_metadata(nand, after, record.encode())?;
        // The last row of an odd number has no partner.
        let has_partner = self.metadata.next_row % 2 == 1 && self.metadata_room() > 0;
        if nand.config().rules.paired_pages && has_partner {
            return self.program_metadata(nand, done, Arc::from([]));
        }
        Ok(done)
    }

    /// Programs a row behind the log, whose open group has room.
    pub(super) fn program_metadata(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        content: Arc<[u8]>,
    ) -> Result<Ticket, FtlError> {
        let group = self.metadata.groups.last().copied().unwrap_or(NO_GROUP);
        assert!(self.metadata_room() > 0, "invariant 3: the open group of the log has room");
        self.sequence += 1;
        let block = self.first_block(nand, group);
        let page = nand.geometry().flash_page(block, self.metadata.next_row);
        let content = (self.sequence, content);
        let done = nand.program_metadata(after, page, self.planes, content, Cause::MapWrite)?;
        self.metadata.next_row += 1;
        Ok(done)
    }

    pub(super) fn audit_metadata(&self) {
        let log = &self.metadata;
        let count = self.groups.iter().filter(|group| group.state == State::Metadata).count();
        assert_eq!(count, log.groups.len(), "metadata: the log knows its groups");
        let covered = log.pending.is_empty() || self.metadata_room() > 0;
        assert!(covered, "metadata, invariant 3: the journal has room");
        assert!(log.next_die < self.dies.len(), "metadata: the next die exists");
    }

    /// Groups that the log takes at most, spread over the dies.
    pub(super) fn metadata_groups_per_die(&self) -> u64 {
        if !self.config.writes_metadata() {
            return 0;
        }
        let words = (self.map.len() + self.groups.len()) as u64;
        group_count(words, self.row_bytes(), u64::from(self.rows)).div_ceil(self.die_count.value())
    }

    /// Why the log does not fit the chips.
    pub(super) fn check_metadata(&self) -> Result<(), String> {
        if !self.config.writes_metadata() {
            return Ok(());
        }
        if self.rows < LEAST_GROUP_ROWS || words_per_row(self.row_bytes()) < 8 {
            return Err(format!(
                "ftl: checkpoints and the journal of trims need erase blocks of {LEAST_GROUP_ROWS} \
                 flash pages and rows of 49 bytes or more; these have {} and {}",
                self.rows,
                self.row_bytes()
            ));
        }
        Ok(())
    }

    /// Words of a row, as an index.
    pub(super) fn words_of_row(&self) -> usize {
        to_u32(words_per_row(self.row_bytes())) as usize
    }
}
