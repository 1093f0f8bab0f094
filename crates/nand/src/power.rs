//! What a power cut leaves behind (flash reference 1.1, "power loss").
//!
//! Commands change cells when they are issued, though they end later. The journal remembers what they
//! changed, until they have ended and [`NandArray::settle`] says that no cut can come before.
//!
//! 1. A command that has not begun by the cut has not happened.
//! 2. A program that was under way leaves a torn flash page, an erase a torn erase block; with
//!    `paired_pages` a torn odd flash page also destroys the even one before it.
//! 3. A command that was done stays. Counters and energy keep what was issued.
//!
//! Beside the cut at a time there is the cut at a command, which needs no journal and reaches every
//! step of a layer: [`NandArray::fail_power_after`].
//!
//! 4. From the failing command on every command answers [`NandError::PowerLost`] and changes nothing,
//!    except that the failing one tears what it was about to change, if that was asked for.

use crate::array::{EraseBlock, JournalEntry, SavedPart};
use crate::events::Progress;
use crate::{Content, ERASED_TAG, NO_LPN, NandArray, NandError, PagePart};
use nandu_base::{Nanos, to_index};

/// A power failure that waits for its command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PowerFault {
    /// Commands that change cells and still succeed.
    command_count: u64,
    /// Whether the command after them is interrupted, rather than never begun.
    tear: bool,
    failed: bool,
}

/// How a command that changes cells ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Power {
    Holds,
    FailsInside,
}

impl NandArray {
    /// Lets `command_count` more commands that change cells (programs, erases, copy-backs) succeed
    /// and fails the power at the next: in the middle of it with `tear`, before it without. A row of a
    /// batch and a multi-plane command count as one. [`Self::power_on`] ends the failure.
    pub const fn fail_power_after(&mut self, command_count: u64, tear: bool) {
        self.power_fault = Some(PowerFault { command_count, tear, failed: false });
    }

    /// Restores the power, or forgets a failure that has not come yet.
    pub const fn power_on(&mut self) {
        self.power_fault = None;
    }

    /// Whether commands are served: false once [`Self::fail_power_after`] has come true.
    #[must_use]
    pub fn power_is_on(&self) -> bool {
        self.check_power().is_ok()
    }

    /// Refuses while the power is off.
    #[inline]
    pub(crate) const fn check_power(&self) -> Result<(), NandError> {
        match &self.power_fault {
            Some(fault) if fault.failed => Err(NandError::PowerLost),
            _ => Ok(()),
        }
    }

    /// Whether a failure of the power is on its way or came.
    #[inline]
    pub(crate) const fn awaits_power_failure(&self) -> bool {
        self.power_fault.is_some()
    }

    /// Takes one command that changes cells from what is left before the failure. After
    /// [`Power::FailsInside`] the caller carries it out, tears it and answers `PowerLost`.
    #[inline]
    pub(crate) const fn draw_power(&mut self) -> Result<Power, NandError> {
        let Some(fault) = &mut self.power_fault else { return Ok(Power::Holds) };
        if fault.failed {
            return Err(NandError::PowerLost);
        }
        if fault.command_count > 0 {
            fault.command_count -= 1;
            return Ok(Power::Holds);
        }
        fault.failed = true;
        if fault.tear { Ok(Power::FailsInside) } else { Err(NandError::PowerLost) }
    }

    /// No power cut comes before `now`: commands that ended by then are final.
    pub fn settle(&mut self, now: Nanos) {
        self.schedule.at(now);
        if !self.journal.is_empty() {
            let schedule = &self.schedule;
            self.journal
                .retain(|entry| schedule.progress(entry.ticket, entry.begun_at, now).is_some());
        }
    }

    /// Cuts the power at `at`, which is no earlier than the last [`Self::settle`].
    ///
    /// # Errors
    /// [`NandError::NoJournal`] if the array was built without one.
    pub fn power_cut(&mut self, at: Nanos) -> Result<(), NandError> {
        if !self.config.power_cut_journal {
            return Err(NandError::NoJournal);
        }
        self.schedule.at(at);
        let mut journal = std::mem::take(&mut self.journal);
        while let Some(entry) = journal.pop() {
            match self.schedule.progress(entry.ticket, entry.begun_at, at) {
                Some(Progress::Parked | Progress::Queued) => self.undo(entry),
                Some(Progress::Begun) => self.tear(&entry),
                None => {}
            }
        }
        self.schedule.cut(at);
        Ok(())
    }

    fn undo(&mut self, entry: JournalEntry) {
        let first = self.config.geometry.flash_page(entry.erase_block, 0).0;
        self.put_back(entry.erase_block, entry.before);
        if let Some(index) = entry.page {
            let page = first + u64::from(index);
            if let Some(part) = entry.part.filter(|part| !part.is_first) {
                self.put_content(page, part.content);
                self.partial_counts[to_index(page)] -= 1;
                return;
            }
            self.wipe(page, ERASED_TAG);
            if let Some(count) = self.partial_counts.get_mut(to_index(page)) {
                *count = 0;
            }
            return;
        }
        let saved = entry.saved.expect("an erase saves what it destroys");
        let start = to_index(first);
        let slot = start * self.units;
        if let Some(sequences) = self.sequences.get_mut(start..start + saved.sequences.len()) {
            sequences.copy_from_slice(&saved.sequences);
        }
        self.tags[slot..slot + saved.tags.len()].copy_from_slice(&saved.tags);
        if let Some(counts) = self.partial_counts.get_mut(start..start + saved.counts.len()) {
            counts.copy_from_slice(&saved.counts);
        }
        self.contents.extend(saved.contents);
        self.torn_pages.extend(saved.torn);
    }

    fn tear(&mut self, entry: &JournalEntry) {
        match entry.page {
            Some(index) => {
                let page = self.config.geometry.flash_page(entry.erase_block, index).0;
                match &entry.part {
                    Some(part) => self.tear_part(page, part),
                    None => self.tear_page(page),
                }
            }
            None => self.tear_block(entry.erase_block),
        }
    }

    pub(crate) fn tear_block(&mut self, erase_block: u32) {
        let torn = EraseBlock { torn: true, ..self.blocks[erase_block as usize] };
        self.put_back(erase_block, torn);
    }

    fn put_back(&mut self, erase_block: u32, block: EraseBlock) {
        let place = &mut self.blocks[erase_block as usize];
        self.torn_block_count += u32::from(block.torn);
        self.torn_block_count -= u32::from(place.torn);
        *place = block;
    }

    pub(crate) fn tear_page(&mut self, page: u64) {
        self.destroy(page);
        self.tear_partner(page);
        self.forget_sequence(page);
    }

    /// The program of a part is interrupted: what else the flash page held stays.
    pub(crate) fn tear_part(&mut self, page: u64, saved: &SavedPart) {
        if saved.torn == PagePart::WHOLE {
            self.tear_page(page);
            return;
        }
        self.put_content(page, saved.content.clone());
        self.torn_pages.insert(page, saved.torn.clone());
        self.tear_partner(page);
        self.forget_sequence(page);
    }

    fn put_content(&mut self, page: u64, content: Content) {
        let key = page * self.units as u64;
        match content {
            Some(content) => self.contents.insert(key, content),
            None => self.contents.remove(&key),
        };
    }

    /// The interrupted program of an odd flash page destroys the one with which it shares cells.
    fn tear_partner(&mut self, page: u64) {
        let odd = self.pages.div_rem(page).1 % 2 == 1;
        if self.config.rules.paired_pages && odd && self.is_programmed(page - 1) {
            self.destroy(page - 1);
        }
    }

    /// Nobody can read the sequence number of a torn flash page. Where an erase block holds no other,
    /// numbers that restart below it are legal again.
    fn forget_sequence(&mut self, page: u64) {
        let (erase_block, index) = self.pages.div_rem(page);
        let first = page - index;
        if (first..page)
            .all(|page| !self.is_programmed(page) || self.torn_pages.contains_key(&page))
        {
            let block = &mut self.blocks[to_index(erase_block)];
            block.first_sequence = block.first_sequence.saturating_sub(1 << 31);
        }
    }

    pub(crate) fn is_programmed(&self, page: u64) -> bool {
        self.tags[to_index(page) * self.units] != ERASED_TAG
    }

    fn destroy(&mut self, page: u64) {
        self.wipe(page, NO_LPN);
        self.torn_pages.insert(page, PagePart::WHOLE);
    }

    fn wipe(&mut self, page: u64, tag: u32) {
        let slot = to_index(page) * self.units;
        self.tags[slot..slot + self.units].fill(tag);
        for unit in 0..self.units {
            self.contents.remove(&((slot + unit) as u64));
        }
    }
}
