//! Rebuilding the page map from the spare areas (flash reference 2.10, method A), or from the newest
//! checkpoint and the spare areas of what was programmed since (method B).
//!
//! ```text
//! first spare area of every group ─▶ metadata groups ─▶ checkpoint, trims
//!                                 └▶ other groups: rows after the checkpoint; all without one
//! ```
//!
//! 1. Of all copies of a unit the one with the highest sequence number wins, in one flash page the
//!    last slot.
//! 2. Torn flash pages are skipped; torn erase blocks are erased again. Worn-out groups are read too:
//!    the cut may have undone the copies that made their erase due. What is live there stays there, and
//!    nothing is programmed behind it. A device without space to gain still recovers what it holds.
//! 3. A second recovery finds the same map; sequence numbers go on above the highest seen.
//! 4. What a checkpoint says holds for groups that were not erased since, and gives way to what was
//!    programmed later; then trims forget what is older than they are.

use super::checkpoint::Checkpoint;
use super::metadata::Record;
use super::{Cause, FtlError, NandArray, PageFtl, State, Ticket, UNMAPPED};
use nandu_base::{Ppn, to_u32};
use nandu_nand::{METADATA_TAG, NandError};

/// What the spare areas say of one group.
struct Scan {
    programmed_rows: u32,
    torn: bool,
    done: Ticket,
}

/// What is known of the units while groups are scanned.
struct Survey {
    checkpoint: Option<Checkpoint>,
    /// Whether what the checkpoint says of a group holds.
    trusted: Vec<bool>,
    /// The sequence number of the copy that the map points at.
    newest: Vec<u64>,
}

/// Reads in flight after which a recovery waits before it goes on, so that memory stays bounded.
const OPEN_COUNT_MAX: u32 = 1 << 16;

/// The metadata that a recovery found.
struct Found {
    /// With the sequence number and the group of the row, in order.
    records: Vec<(u64, u32, Record)>,
    /// Metadata groups with their programmed rows.
    groups: Vec<(u32, u32)>,
    done: Ticket,
}

impl PageFtl {
    pub(super) fn rebuild(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
    ) -> Result<Ticket, FtlError> {
        self.reset(nand);
        let found = self.find_metadata(nand, after)?;
        let mut done = found.done;
        let records: Vec<Record> = found.records.iter().map(|(.., row)| row.clone()).collect();
        let mut survey = self.begin_survey(self.newest_checkpoint(&records));
        let mut touched = Vec::new();
        for group in 0..to_u32(self.groups.len() as u64) {
            let is_metadata = found.groups.iter().any(|&(other, _)| other == group);
            if is_metadata || !self.may_hold_data(nand, group) {
                continue;
            }
            let scan = self.scan(nand, found.done, group, &mut survey)?;
            nand.gather(&mut done, scan.done);
            if nand.open_count() > OPEN_COUNT_MAX {
                nand.finish(done);
            }
            if self.groups[group as usize].state == State::Bad {
                continue;
            }
            if scan.torn {
                let one = self.erase_again(nand, scan.done, group)?;
                nand.gather(&mut done, one);
            } else if scan.programmed_rows > 0 {
                touched.push((group, scan.programmed_rows));
            }
        }
        self.end_survey(&survey, &records);
        for (group, programmed_rows) in touched {
            self.adopt(group, programmed_rows);
        }
        let one = self.adopt_log(nand, done, &survey, found)?;
        nand.gather(&mut done, one);
        // Which groups the last rows superseded is not known any more: their partners come before any
        // group is erased.
        let one = self.complete_pairs(nand, done)?;
        nand.gather(&mut done, one);
        for die in 0..self.dies.len() {
            let reserve = self.config.reserve_count as usize;
            match self.clean_emptiest(nand, done, die, reserve, Cause::Recovery) {
                Ok(cleaned) => nand.gather(&mut done, cleaned),
                Err(FtlError::DeviceFull) => {}
                Err(error) => return Err(error),
            }
        }
        let one = self.complete_pairs(nand, done)?;
        nand.gather(&mut done, one);
        self.schedule_checkpoint();
        Ok(done)
    }

    /// Whether a group was ever programmed as far as this is known: not one that came bad.
    fn may_hold_data(&self, nand: &NandArray, group: u32) -> bool {
        let erased_before = || nand.erase_count(self.first_block(nand, group)) > 0;
        self.groups[group as usize].state != State::Bad || erased_before()
    }

    fn begin_survey(&mut self, checkpoint: Option<Checkpoint>) -> Survey {
        let mut newest = vec![0; self.map.len()];
        if let Some(checkpoint) = &checkpoint {
            self.map.copy_from_slice(&checkpoint.map);
            newest.fill(checkpoint.sequence);
            self.sequence = self.sequence.max(checkpoint.sequence);
        }
        Survey { checkpoint, trusted: vec![false; self.groups.len()], newest }
    }

    /// Rule 4, and the books of what is mapped.
    fn end_survey(&mut self, survey: &Survey, records: &[Record]) {
        let since = survey.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.sequence);
        if survey.checkpoint.is_some() {
            for lpn in 0..self.map.len() {
                let address = self.map[lpn];
                let said = address != UNMAPPED && survey.newest[lpn] == since;
                if said && !survey.trusted[self.group_of(address) as usize] {
                    self.map[lpn] = UNMAPPED;
                }
            }
        }
        // Trims from before the checkpoint forget nothing that it maps: that counts as newest at the
        // checkpoint's number, which is higher than theirs, or equal if nothing was written in between.
        self.replay_trims(records, &survey.newest);
        for lpn in 0..self.map.len() {
            let address = self.map[lpn];
            if address != UNMAPPED {
                let group = self.group_of(address);
                self.valid.set(address);
                self.add_valid(group, 1);
            }
        }
    }

    /// Reads the first spare area of every group, and all rows of those that hold metadata.
    fn find_metadata(&mut self, nand: &mut NandArray, after: Ticket) -> Result<Found, FtlError> {
        let mut found = Found { records: Vec::new(), groups: Vec::new(), done: after };
        if !self.config.writes_metadata() {
            return Ok(found);
        }
        for group in 0..to_u32(self.groups.len() as u64) {
            if !self.may_hold_data(nand, group) {
                continue;
            }
            let first = nand.geometry().flash_page(self.first_block(nand, group), 0);
            for row in 0..self.rows {
                let page = Ppn(first.0 + u64::from(row));
                match nand.spare_read(after, page, Cause::Recovery) {
                    Ok(done) => nand.gather(&mut found.done, done),
                    Err(NandError::Torn { .. }) => continue,
                    Err(NandError::TornEraseBlock { .. }) => break,
                    Err(error) => return Err(error.into()),
                }
                if nand.spare(page).is_some_and(|spare| spare.lpns[0] == METADATA_TAG) {
                    self.read_metadata(nand, after, group, &mut found)?;
                }
                break;
            }
        }
        found.records.sort_by_key(|(sequence, ..)| *sequence);
        Ok(found)
    }

    fn read_metadata(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        group: u32,
        found: &mut Found,
    ) -> Result<(), FtlError> {
        let first = nand.geometry().flash_page(self.first_block(nand, group), 0);
        let bytes = to_u32(self.row_bytes());
        let planes = u32::MAX >> (u32::BITS - self.planes);
        let mut programmed_rows = 0;
        for row in 0..self.rows {
            let page = Ppn(first.0 + u64::from(row));
            match nand.read_planes(after, page, planes, bytes, Cause::Recovery) {
                Ok(done) => nand.gather(&mut found.done, done),
                Err(NandError::Torn { .. }) => {
                    programmed_rows = row + 1;
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            let Some(spare) = nand.spare(page) else { break };
            programmed_rows = row + 1;
            let sequence = spare.sequence;
            self.sequence = self.sequence.max(sequence);
            let record = nand.metadata(page).and_then(|content| Record::decode(&content));
            found.records.extend(record.map(|record| (sequence, group, record)));
        }
        found.groups.push((group, programmed_rows));
        Ok(())
    }

    /// Goes on with the log that the checkpoint began, and erases every other metadata group.
    fn adopt_log(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        survey: &Survey,
        found: Found,
    ) -> Result<Ticket, FtlError> {
        let since = survey.checkpoint.as_ref().map(|checkpoint| checkpoint.sequence);
        let lives = |(sequence, group, record): &(u64, u32, Record)| {
            let current = match record {
                Record::Map { sequence, .. } => Some(*sequence) == since,
                Record::Trims { .. } => since.is_none_or(|since| *sequence > since),
            };
            current.then_some(*group)
        };
        let mut live: Vec<u32> = found.records.iter().filter_map(lives).collect();
        live.dedup();
        let mut done = after;
        for &(group, programmed_rows) in &found.groups {
            if live.contains(&group) {
                let die = self.die_of(group);
                self.dies[die].free.remove(group);
                let entry = &mut self.groups[group as usize];
                let worn = entry.state == State::Bad;
                entry.state = State::Metadata;
                if live.last() == Some(&group) {
                    self.metadata.next_row = if worn { self.rows } else { programmed_rows };
                    self.metadata.next_die = (die + 1) % self.dies.len();
                }
            } else if self.groups[group as usize].state != State::Bad {
                let one = self.erase_again(nand, after, group)?;
                nand.gather(&mut done, one);
            }
        }
        self.metadata.groups = live;
        Ok(done)
    }

    /// Erases a group that counts as free so far. The erase that was cut short counts: the group may
    /// have worn out with it.
    fn erase_again(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        group: u32,
    ) -> Result<Ticket, FtlError> {
        let die = self.die_of(group);
        self.dies[die].free.remove(group);
        self.erase_group(nand, after, group, Cause::Recovery)
    }

    /// A group that was open goes on as a frontier, cleaning first because it cannot wait for space;
    /// any other is closed. Which stream it belonged to is not on flash: it is counted to the first.
    fn adopt(&mut self, group: u32, programmed_rows: u32) {
        let die = self.die_of(group);
        let die = &mut self.dies[die];
        die.free.remove(group);
        die.held[0] += 1;
        self.groups[group as usize].state = State::Open;
        let open =
            die.frontiers.iter_mut().rev().find(|frontier| frontier.group == super::NO_GROUP);
        match open {
            Some(frontier) if programmed_rows < self.rows => {
                (frontier.group, frontier.next_row) = (group, programmed_rows);
            }
            _ => self.close(group),
        }
    }

    fn scan(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        group: u32,
        survey: &mut Survey,
    ) -> Result<Scan, FtlError> {
        let base = group * to_u32(self.slots.value());
        let mut scan = Scan { programmed_rows: 0, torn: false, done: after };
        let mut known_rows = None;
        let mut page = 0;
        while page < self.rows {
            let mut erased_planes = 0;
            for plane in 0..self.planes {
                let first = base + page * self.width + plane * self.units_per_page;
                let (ppn, _) = self.place(nand, first);
                match nand.spare_read(after, ppn, Cause::Recovery) {
                    Ok(done) => nand.gather(&mut scan.done, done),
                    Err(NandError::Torn { .. }) => continue,
                    Err(NandError::TornEraseBlock { .. }) => {
                        return Ok(Scan { torn: true, ..scan });
                    }
                    Err(error) => return Err(error.into()),
                }
                let Some(spare) = nand.spare(ppn) else {
                    erased_planes += 1;
                    continue;
                };
                self.sequence = self.sequence.max(spare.sequence);
                let known =
                    *known_rows.get_or_insert_with(|| survey.known_rows(group, spare.sequence));
                if page < known {
                    break;
                }
                for (address, &lpn) in (first..).zip(spare.lpns) {
                    let Some(newest) = survey.newest.get_mut(lpn as usize) else { continue };
                    if spare.sequence >= *newest {
                        *newest = spare.sequence;
                        self.map[lpn as usize] = address;
                    }
                }
            }
            if erased_planes == self.planes {
                break;
            }
            page = (page + 1).max(known_rows.unwrap_or(0));
            scan.programmed_rows = page;
        }
        Ok(scan)
    }
}

impl Survey {
    /// How many rows of `group`, whose first readable row has this number, the checkpoint covers.
    fn known_rows(&mut self, group: u32, first_sequence: u64) -> u32 {
        let Some(checkpoint) = &self.checkpoint else { return 0 };
        let rows = checkpoint.rows[group as usize];
        if first_sequence > checkpoint.sequence || rows == 0 {
            return 0;
        }
        self.trusted[group as usize] = true;
        rows
    }
}
