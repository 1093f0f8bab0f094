//! Checkpoints of the page map (flash reference 2.10, method B): a snapshot on flash, after which
//! recovery reads the spare areas only of what was programmed since.
//!
//! 1. A checkpoint holds where every unit lies, and how many rows of every group were programmed, at
//!    its sequence number S. Nothing waits in a row then, and all that it names is durable.
//! 2. A group whose first readable row has a number up to S was not erased since, because numbers
//!    rise: what the checkpoint says of its rows holds. Of any other group it says nothing, because
//!    what lay there was moved, overwritten or trimmed before the erase.

use super::metadata::{LEAST_ROWS, Record};
use super::{NO_GROUP, PageFtl, State};
use crate::FtlError;
use nandu_base::{Cause, to_u32};
use nandu_nand::{NandArray, Ticket};

/// A checkpoint read back.
#[derive(Debug)]
pub(super) struct Checkpoint {
    pub(super) sequence: u64,
    /// Where every unit lay.
    pub(super) map: Vec<u32>,
    /// Rows of every group that it covers.
    pub(super) rows: Vec<u32>,
}

impl PageFtl {
    /// Writes a checkpoint and erases the log before it. Answers when that is done; nobody has to wait.
    pub(super) fn checkpoint(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
    ) -> Result<Ticket, FtlError> {
        let words_per_row = self.words_of_row();
        let part_count = (self.map.len() + self.groups.len()).div_ceil(words_per_row);
        let mut after = after;
        let mut fresh = Vec::new();
        for _ in 0..part_count.div_ceil(self.rows as usize) + 1 {
            match self.take_metadata_group(nand, after) {
                Ok((group, done)) => {
                    fresh.push(group);
                    after = done;
                }
                Err(error) => {
                    fresh.iter().for_each(|&group| self.give_back(nand, group));
                    return Err(error);
                }
            }
        }
        self.program_waiting(nand, after)?;
        // The checkpoint is programmed after everything that was issued so far, which includes
        // every copy that it names.
        let everything = nand.everything();
        let settled = nand.both(after, everything);
        let sequence = self.sequence;
        let words = self.snapshot();
        let before = std::mem::take(&mut self.metadata.groups);
        self.metadata.next_row = self.rows;
        let mut unused = fresh.into_iter();
        let mut done = settled;
        let part_count = to_u32(part_count as u64);
        for (part, words) in (0..).zip(words.chunks(words_per_row)) {
            self.open_next(&mut unused, 1);
            let record = Record::Map { sequence, part, part_count, words: words.to_vec() };
            // A cut that takes one of the earlier parts leaves the checkpoint incomplete anyway, so
            // that the last one alone brings the row along that shares its cells.
            let programmed = if part + 1 < part_count {
                self.program_metadata(nand, settled, record.encode())?
            } else {
                self.append_metadata(nand, settled, &record)?
            };
            nand.gather(&mut done, programmed);
        }
        if !self.metadata.pending.is_empty() {
            self.metadata.pending.clear();
            self.metadata.recorded.add(nand, done);
        }
        self.open_next(&mut unused, LEAST_ROWS + 1);
        unused.for_each(|group| self.give_back(nand, group));
        for group in before {
            done = self.erase_group(nand, done, group, Cause::MapWrite)?;
        }
        self.schedule_checkpoint();
        Ok(done)
    }

    /// The periodic checkpoint: a device that is too full for it, as wear makes it, goes on without.
    pub(super) fn checkpoint_if_it_fits(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
    ) -> Result<(), FtlError> {
        self.schedule_checkpoint();
        match self.checkpoint(nand, after) {
            Ok(_) | Err(FtlError::DeviceFull) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The next checkpoint is due an interval from here.
    pub(super) fn schedule_checkpoint(&mut self) {
        if self.config.checkpoint_interval_rows > 0 {
            self.metadata.checkpoint_at = self.sequence + self.config.checkpoint_interval_rows;
        }
    }

    /// Goes on to the next fresh group where the open one has fewer than `rows` left.
    fn open_next(&mut self, fresh: &mut impl Iterator<Item = u32>, rows: u32) {
        if self.metadata_room() < rows
            && let Some(group) = fresh.next()
        {
            self.metadata.groups.push(group);
            self.metadata.next_row = 0;
        }
    }

    /// Puts an erased group back among the free ones.
    pub(super) fn give_back(&mut self, nand: &NandArray, group: u32) {
        self.groups[group as usize].state = State::Free;
        let (die, block) = (self.die_of(group), self.first_block(nand, group));
        self.dies[die].free.push(group, nand.erase_count(block));
    }

    /// Programs every row that waits, those of cleaning included.
    fn program_waiting(&mut self, nand: &mut NandArray, after: Ticket) -> Result<Ticket, FtlError> {
        let mut done = after;
        for die in 0..self.dies.len() {
            for index in 0..self.dies[die].frontiers.len() {
                if !self.dies[die].frontiers[index].lpns.is_empty() {
                    let cause = self.cause_of(index);
                    let one = self.program(nand, after, (die, index), cause)?;
                    nand.gather(&mut done, one);
                }
            }
        }
        let pairs = self.complete_pairs(nand, done)?;
        nand.gather(&mut done, pairs);
        Ok(done)
    }

    /// The map, then the rows of every group.
    fn snapshot(&self) -> Vec<u32> {
        let mut words = self.map.clone();
        let from = words.len();
        words.extend(self.groups.iter().map(|group| match group.state {
            State::Closed | State::Victim | State::Bad => self.rows,
            State::Free | State::Open | State::Emptied | State::Metadata => 0,
        }));
        for frontier in self.dies.iter().flat_map(|die| &die.frontiers) {
            if frontier.group != NO_GROUP {
                words[from + frontier.group as usize] = frontier.next_row;
            }
        }
        words
    }

    /// The newest checkpoint of which every part is there.
    pub(super) fn newest_checkpoint(&self, records: &[Record]) -> Option<Checkpoint> {
        let mut sequences: Vec<u64> = records
            .iter()
            .filter_map(|record| match record {
                Record::Map { sequence, .. } => Some(*sequence),
                Record::Trims { .. } => None,
            })
            .collect();
        sequences.sort_unstable();
        sequences.dedup();
        sequences.into_iter().rev().find_map(|wanted| self.assemble(records, wanted))
    }

    fn assemble(&self, records: &[Record], wanted: u64) -> Option<Checkpoint> {
        let mut map = Vec::new();
        for record in records {
            if let Record::Map { sequence, part, words, .. } = record
                && *sequence == wanted
            {
                // Parts were programmed in order; one that is missing ends it.
                if *part as usize * self.words_of_row() != map.len() {
                    return None;
                }
                map.extend_from_slice(words);
            }
        }
        if map.len() != self.map.len() + self.groups.len() {
            return None;
        }
        let rows = map.split_off(self.map.len());
        Some(Checkpoint { sequence: wanted, map, rows })
    }
}
