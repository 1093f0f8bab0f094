//! The journal of trims (flash reference 2.8): without it an old copy of a trimmed unit is the newest
//! that a recovery finds, and returns.
//!
//! 1. A trim is recorded with the sequence number at which it came: it forgets every copy with that
//!    number or a lower one, and none that is programmed later.
//! 2. It is on flash before a flush answers, and before any group is erased: else an older copy than
//!    the one it forgot could return.
//! 3. A checkpoint makes the journal before it superfluous.

use super::PageFtl;
use super::config::TrimDurability;
use super::metadata::{LEAST_ROWS, Record};
use crate::FtlError;
use nandu_base::{to_index, to_u32};
use nandu_nand::{NandArray, Ticket};

/// Words of a trim in a record.
const WORDS: usize = 4;

/// A trim of `count` units from `first` on, at a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trim {
    pub(super) sequence: u64,
    pub(super) first: u32,
    pub(super) count: u32,
}

impl Trim {
    fn words(self) -> [u32; WORDS] {
        let low = to_u32(self.sequence & u64::from(u32::MAX));
        [low, to_u32(self.sequence >> 32), self.first, self.count]
    }

    pub(super) fn of_words(words: &[u32]) -> impl Iterator<Item = Self> + '_ {
        words.chunks_exact(WORDS).map(|words| Self {
            sequence: u64::from(words[0]) | u64::from(words[1]) << 32,
            first: words[2],
            count: words[3],
        })
    }
}

impl PageFtl {
    const fn journals(&self) -> bool {
        matches!(self.config.trim_durability, TrimDurability::Journaled)
    }

    /// Makes room in the log for a trim and what follows, before the trim is carried out.
    pub(super) fn prepare_trim(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
    ) -> Result<Ticket, FtlError> {
        if self.journals() && self.metadata_room() < LEAST_ROWS {
            return self.checkpoint(nand, after);
        }
        Ok(after)
    }

    /// Notes a trim that was just carried out in memory.
    pub(super) fn note_trim(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        (first, count): (u64, u64),
    ) -> Result<Ticket, FtlError> {
        if !self.journals() || count == 0 {
            return Ok(after);
        }
        let trim = Trim { sequence: self.sequence, first: to_u32(first), count: to_u32(count) };
        let pending = &mut self.metadata.pending;
        let continues = |last: &&mut Trim| {
            last.sequence == trim.sequence && u64::from(last.first) + u64::from(last.count) == first
        };
        match pending.last_mut().filter(continues) {
            Some(last) => last.count += trim.count,
            None => pending.push(trim),
        }
        if self.metadata.pending.len() >= self.words_of_row() / WORDS {
            self.write_trims(nand, after)?;
        }
        Ok(after)
    }

    /// Writes the trims that are not yet on flash, for which the log has room; answers when all are
    /// durable.
    pub(super) fn write_trims(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
    ) -> Result<Ticket, FtlError> {
        if self.metadata.pending.is_empty() {
            return Ok(self.metadata.recorded.and(nand, after));
        }
        let trims = std::mem::take(&mut self.metadata.pending);
        let words = trims.iter().flat_map(|trim| trim.words()).collect();
        let done = self.append_metadata(nand, after, &Record::Trims { words })?;
        self.metadata.recorded.add(nand, done);
        Ok(self.metadata.recorded.and(nand, Ticket::READY))
    }

    /// Forgets what was trimmed after its newest copy was programmed, in `newest` by unit.
    pub(super) fn replay_trims(&mut self, records: &[Record], newest: &[u64]) {
        let trims = records.iter().filter_map(|record| match record {
            Record::Trims { words } => Some(words),
            Record::Map { .. } => None,
        });
        for trim in trims.flat_map(|words| Trim::of_words(words)) {
            let first = trim.first as usize;
            let end = to_index(u64::from(trim.first) + u64::from(trim.count)).min(self.map.len());
            let first = first.min(end);
            for (address, &newest) in self.map[first..end].iter_mut().zip(&newest[first..end]) {
                if newest <= trim.sequence {
                    *address = super::UNMAPPED;
                }
            }
        }
    }
}
