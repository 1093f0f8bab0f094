//! Paced cleaning: a victim is emptied a few units at a time, behind the host's own programs, so that
//! no write waits for a whole erase block to be moved.
//!
//! ```text
//! host   P . . P . . P . . P            the law, for each die: a victim of v valid units in a group of
//! copies   c c   c c   c c   c ─▶ E     B pays for g = B - v units of the host; behind each of them v / g
//! ```                                   copies are due, then g - 1 units are left
//!
//! 1. A victim is opened when the rows that a die has free fall to `pace_start_groups` groups. What is
//!    free then never falls by more than the group that the victim gives back.
//! 2. What the host overwrites in the victim need not be copied, and pays for one unit more.
//! 3. A victim without a valid unit is erased at once.
//! 4. The host goes before copies that have not begun, up to `pace_put_off_ns` of work for each die.
//! 5. Where free groups run out all the same, the rest of the victim is moved in one go.
//! 6. Copies are taken off the books only when there is room for them: a victim without is given up.

use super::{NO_GROUP, PageFtl, State};
use crate::FtlError;
use nandu_base::{Cause, to_u32};
use nandu_nand::{NandArray, Ticket};

/// Units that are copied together, where that many are due: fewer and larger steps cost less to plan.
const BATCH_UNITS: u32 = 4;

/// The victim that a die is emptying.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) victim: u32,
    /// Units of it before this one were copied, or are not valid.
    pub(super) next: u32,
    /// Units of the host that it still pays for.
    pub(super) grant: u32,
    /// Units that are due to be copied.
    owed: u32,
}

impl Pace {
    pub(super) const NONE: Self = Self { victim: NO_GROUP, next: 0, grant: 0, owed: 0 };
}

impl PageFtl {
    /// Cleans behind `unit_count` units of the host that were programmed on `die`.
    #[inline]
    pub(super) fn pace(
        &mut self,
        nand: &mut NandArray,
        die: usize,
        unit_count: u32,
    ) -> Result<(), FtlError> {
        if self.dies[die].pace.victim == NO_GROUP && !self.open_victim(nand, die) {
            return Ok(());
        }
        for _ in 0..unit_count {
            let Pace { victim, grant, owed, .. } = self.dies[die].pace;
            if victim == NO_GROUP {
                return Ok(());
            }
            let valid = self.groups[victim as usize].valid;
            let left = valid.saturating_sub(owed);
            let owed = owed + left.checked_div(grant).unwrap_or(left);
            let pace = &mut self.dies[die].pace;
            (pace.grant, pace.owed) = (grant.saturating_sub(1), owed);
            if owed >= BATCH_UNITS || owed >= valid {
                let is_put_off = nand.put_off_ns(to_u32(die as u64)) < self.config.pace_put_off_ns;
                nand.let_cleaning_yield(is_put_off);
                let copied = self.copy_some(nand, Ticket::READY, die, owed.min(valid));
                nand.let_cleaning_yield(false);
                copied?;
            }
        }
        Ok(())
    }

    /// Opens a victim where rows run short; false where none is open then.
    fn open_victim(&mut self, nand: &NandArray, die: usize) -> bool {
        let record = &self.dies[die];
        let open = record.frontiers.iter().filter(|frontier| frontier.group != NO_GROUP);
        let open_rows: u32 = open.map(|frontier| self.rows - frontier.next_row).sum();
        let free_rows = record.free.len() as u64 * u64::from(self.rows) + u64::from(open_rows);
        // Of the groups that are kept free, all but the first are for copies: the host cannot use
        // them, so they are added to the level at which a victim is opened.
        let start = u64::from(self.config.pace_start_groups) + self.floor(nand) as u64 - 1;
        if free_rows > start * u64::from(self.rows) {
            return false;
        }
        let Some(victim) = self.take_victim(die) else { return false };
        if !self.fits(nand, victim, (die, self.cleaning_frontier(victim))) {
            self.close(victim);
            return false;
        }
        let valid = self.groups[victim as usize].valid;
        self.groups[victim as usize].state = State::Victim;
        let grant = to_u32(self.slots.value()) - valid;
        self.dies[die].pace = Pace { victim, next: 0, grant, owed: 0 };
        self.touch_victim(nand, victim);
        true
    }

    /// Fetches what the copies of a victim will look up, for all of them at once: one by one each would
    /// wait for memory.
    fn touch_victim(&self, nand: &NandArray, victim: u32) {
        if self.width > 1 {
            return;
        }
        let mut seen = 0_u32;
        let slots = to_u32(self.slots.value());
        let tags = nand.tags(victim);
        for (tag, address) in tags.iter().zip(victim * slots..) {
            if self.valid.get(address) {
                seen ^= self.map[*tag as usize];
            }
        }
        std::hint::black_box(seen);
    }

    /// Copies the next units of the victim, at least `count` where it has them, and whole rows of it;
    /// erases it once it holds nothing. `None` where they have no room any more, which erase blocks that wore
    /// out and rows that were padded took: then the victim is given up.
    fn copy_some(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        die: usize,
        count: u32,
    ) -> Result<Option<Ticket>, FtlError> {
        let Pace { victim, next, .. } = self.dies[die].pace;
        self.dies[die].pace.owed = 0;
        let place = (die, self.cleaning_frontier(victim));
        let mut done = after;
        if count > 0 {
            let most = (count + self.width - 1).min(self.groups[victim as usize].valid);
            if u64::from(most) > self.room(nand, place) {
                self.dies[die].pace = Pace::NONE;
                self.close(victim);
                return Ok(None);
            }
            let mut scratch = std::mem::take(&mut self.scratch);
            self.dies[die].pace.next = self.gather(nand, victim, (next, count), &mut scratch);
            let read = self.read_gathered(nand, after, victim, &scratch, Cause::Cleaning)?;
            done = self.append_copies(nand, read, place, scratch.copies(), Cause::Cleaning)?;
            self.scratch = scratch;
        }
        if self.groups[victim as usize].valid > 0 {
            return Ok(Some(done));
        }
        self.dies[die].pace = Pace::NONE;
        self.groups[victim as usize].state = State::Emptied;
        self.let_go(nand, done, victim, place, Cause::Cleaning).map(Some)
    }

    /// Moves what is left of the victim that a die is emptying; `None` where that was given up.
    pub(super) fn finish_victim(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        die: usize,
    ) -> Result<Option<Ticket>, FtlError> {
        let victim = self.dies[die].pace.victim;
        let valid = self.groups[victim as usize].valid;
        self.copy_some(nand, after, die, valid)
    }

    /// Free groups that a die keeps: under pacing one for the copies, and on paired pages another, since pairs that
    /// are padded take room behind the copies.
    pub(super) fn floor(&self, nand: &NandArray) -> usize {
        match (self.is_paced, nand.config().rules.paired_pages) {
            (true, is_paired) => 1 + usize::from(is_paired),
            (false, _) => self.config.reserve_count as usize,
        }
    }
}
