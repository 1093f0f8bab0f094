//! What a power cut leaves behind (flash reference 1.1, "power loss").
//!
//! Commands change cells when they are issued, though they end later. The journal remembers what they
//! changed, until [`NandArray::settle`] says that no cut can come before their end.
//!
//! 1. A command that would have started at the cut or later has not happened.
//! 2. A program that was under way leaves a torn flash page, an erase a torn erase block; with
//!    `paired_pages` a torn odd flash page also destroys the even one before it.
//! 3. A command that was done stays. Counters and energy keep what was issued.

use crate::array::JournalEntry;
use crate::{ERASED_TAG, NO_LPN, NandArray, NandError};
use nandu_base::{Nanos, to_index};

impl NandArray {
    /// No power cut comes before `now`: commands that ended by then are final.
    pub fn settle(&mut self, now: Nanos) {
        if !self.journal.is_empty() {
            self.journal.retain(|entry| entry.span.end > now);
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
        let mut journal = std::mem::take(&mut self.journal);
        while let Some(entry) = journal.pop() {
            if entry.span.start >= at {
                self.undo(entry);
            } else if entry.span.end > at {
                self.tear(&entry);
            }
        }
        self.timeline.cut(at);
        Ok(())
    }

    fn undo(&mut self, entry: JournalEntry) {
        let first = self.config.geometry.flash_page(entry.erase_block, 0).0;
        self.blocks[entry.erase_block as usize] = entry.before;
        if let Some(index) = entry.page {
            let page = first + u64::from(index);
            self.wipe(page, ERASED_TAG);
            if let Some(count) = self.partial_counts.get_mut(to_index(page)) {
                *count = 0;
            }
            return;
        }
        let saved = entry.saved.expect("an erase saves what it destroys");
        let start = to_index(first);
        let slot = start * self.units;
        self.sequences[start..start + saved.sequences.len()].copy_from_slice(&saved.sequences);
        self.tags[slot..slot + saved.tags.len()].copy_from_slice(&saved.tags);
        self.contents.extend(saved.contents);
        self.torn_pages.extend(saved.torn);
    }

    fn tear(&mut self, entry: &JournalEntry) {
        let first = self.config.geometry.flash_page(entry.erase_block, 0).0;
        let Some(index) = entry.page else {
            self.blocks[entry.erase_block as usize].torn = true;
            return;
        };
        let page = first + u64::from(index);
        self.destroy(page);
        let pair = page.wrapping_sub(1);
        let programmed = |page: u64| self.tags[to_index(page) * self.units] != ERASED_TAG;
        if self.config.rules.paired_pages && index % 2 == 1 && programmed(pair) {
            self.destroy(pair);
        }
    }

    fn destroy(&mut self, page: u64) {
        self.wipe(page, NO_LPN);
        self.torn_pages.insert(page);
    }

    fn wipe(&mut self, page: u64, tag: u32) {
        let slot = to_index(page) * self.units;
        self.tags[slot..slot + self.units].fill(tag);
        for unit in 0..self.units {
            self.contents.remove(&((slot + unit) as u64));
        }
    }
}
