//! Cleaning: victims are emptied by copying and then erased; wear levelling is the same with another
//! choice of victim (flash reference 2.1.2, 2.7).
//!
//! 1. A victim's live units are read into memory, appended to a frontier, and only then is it erased:
//!    at once if nothing of it waits in an open row, else when that row is programmed.
//! 2. At most [`EMPTIED_MAX`] groups of a die wait; beyond it the row is padded.

use super::placement::{Place, Work, valid_counts};
use super::{CleaningFrontier, NO_GROUP, PageFtl, State};
use crate::FtlError;
use nandu_base::{Cause, to_u32};
use nandu_nand::{NandArray, NandError, RowRead, Ticket};

/// Emptied groups of a die that may wait for a row to fill, if the reserve has room for them.
const EMPTIED_MAX: usize = 2;
/// Steps of cleaning in a row without a free group after which emptied ones are not kept waiting.
const STEPS_IN_VAIN_MAX: u32 = 4;

impl PageFtl {
    /// Cleans until `die` has its reserve of free groups, and one more for the frontier of `stream` if
    /// that has none. Copies may open that very frontier; then the host goes on behind them at once,
    /// or copies and new data would never share a group.
    pub(super) fn clean(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        die: usize,
        stream: Option<usize>,
    ) -> Result<Ticket, FtlError> {
        let reserve = self.floor(nand);
        let lacks_group = |ftl: &Self| {
            let frontiers = &ftl.dies[die].frontiers;
            stream.is_some_and(|stream| frontiers[stream].group == NO_GROUP)
        };
        // A policy that is not greedy may pick full victims, but not for ever. With any other a step
        // gains a unit, unless padding takes it.
        let mut attempts = 2 * self.groups.len() / self.dies.len();
        let by_unit = self.config.victim.finds_the_emptiest();
        let vain_max = if by_unit { to_u32(self.slots.value()) } else { u32::MAX };
        let mut steps_in_vain = 0;
        let mut after = after;
        if self.dies[die].free.len() < reserve + usize::from(lacks_group(self)) {
            // Wear levelling takes a free group before it gives one back, so at most one move for
            // each call of cleaning.
            after = self.level_wear(nand, after, die)?;
        }
        loop {
            let wanted = reserve + usize::from(lacks_group(self));
            let free = self.dies[die].free.len();
            if free >= wanted {
                return Ok(after);
            }
            if attempts == 0 || steps_in_vain > vain_max {
                return self.clean_emptiest(nand, after, die, wanted, Cause::Cleaning);
            }
            attempts -= 1;
            after = match self.dies[die].emptied.first() {
                // Waiting for rows to fill is worth less than an end: on frontiers of several streams
                // each may take a row of its own, and gain nothing.
                Some(&(_, frontier)) if steps_in_vain >= STEPS_IN_VAIN_MAX => {
                    self.program(nand, after, (die, frontier), Cause::Cleaning)?
                }
                _ => self.clean_one(nand, after, die)?,
            };
            let gained = self.dies[die].free.len() > free;
            steps_in_vain = if gained { 0 } else { steps_in_vain + 1 };
        }
    }

    /// A step of cleaning, and before it one of wear levelling where that is due.
    pub(super) fn level_and_clean_one(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        die: usize,
    ) -> Result<Ticket, FtlError> {
        let after = self.level_wear(nand, after, die)?;
        self.clean_one(nand, after, die)
    }

    fn clean_one(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        die: usize,
    ) -> Result<Ticket, FtlError> {
        if self.dies[die].pace.victim != NO_GROUP
            && let Some(done) = self.finish_victim(nand, after, die)?
        {
            return Ok(done);
        }
        let Some(victim) = self.take_victim(die) else {
            return match self.dies[die].emptied.first() {
                Some(&(_, frontier)) => self.program(nand, after, (die, frontier), Cause::Cleaning),
                None => Err(FtlError::DeviceFull),
            };
        };
        let frontier = self.cleaning_frontier(victim);
        if !self.fits(nand, victim, (die, frontier)) {
            self.close(victim);
            return self.clean_one_emptiest(nand, after, die, Cause::Cleaning);
        }
        self.empty(nand, after, victim, (die, frontier), Cause::Cleaning)
    }

    /// Whether the copies of a victim find room without cleaning. They do as long as no erase block
    /// wears out, which may take the last free group.
    pub(super) fn fits(&self, nand: &NandArray, victim: u32, place: Place) -> bool {
        let is_sure = !self.dies[place.0].free.is_empty() && !nand.config().rules.paired_pages;
        is_sure || u64::from(self.groups[victim as usize].valid) <= self.room(nand, place)
    }

    /// Units that a frontier takes without cleaning.
    pub(super) fn room(&self, nand: &NandArray, (die, frontier): Place) -> u64 {
        let die = &self.dies[die];
        let frontier = &die.frontiers[frontier];
        let mut room = die.free.len() as u64 * self.slots.value();
        if frontier.group != NO_GROUP {
            let width = self.width;
            room += u64::from((self.rows - frontier.next_row) * width);
            room -= frontier.lpns.len() as u64;
            // The row that fills erases emptied groups, for which its partner is padded.
            let is_padded = nand.config().rules.paired_pages && !frontier.lpns.is_empty();
            room = room.saturating_sub(if is_padded { width.into() } else { 0 });
        }
        room
    }

    /// The next victim: of the pool that exceeds its share most, or where nothing is to gain there, of
    /// the next one.
    pub(super) fn take_victim(&mut self, die: usize) -> Option<u32> {
        let mut asked = 0;
        loop {
            let pool = self.fullest_pool(die, asked)?;
            asked |= 1 << pool;
            if let Some(victim) = self.take_victim_of(die, pool) {
                return Some(victim);
            }
        }
    }

    fn take_victim_of(&mut self, die: usize, pool: usize) -> Option<u32> {
        let die_count = self.dies.len();
        let valid_of = valid_counts(&self.groups, die, die_count);
        let record = &mut self.dies[die];
        let index = &mut record.pools[pool];
        let taken = index.take(&mut self.rng, self.sequence, valid_of);
        record.told_at = record.told_at.max(index.told_at());
        let local = taken?;
        let is_full = |local: u32| u64::from(valid_of(local)) == self.slots.value();
        // Another pool may have what this one has not; with a single one full victims take turns.
        let nothing_to_gain = is_full(local)
            && (self.config.victim.finds_the_emptiest()
                || self.config.has_pools() && index.groups().into_iter().all(is_full));
        if nothing_to_gain {
            index.insert(local, self.sequence, valid_of);
            return None;
        }
        Some(to_u32((local as usize * die_count + die) as u64))
    }

    /// The pool that exceeds its share of the die's groups most, or its only one without shares, of
    /// those whose bit in `asked` is clear.
    fn fullest_pool(&self, die: usize, asked: u64) -> Option<usize> {
        let shares = &self.config.stream_share_ppm;
        if shares.is_empty() {
            return (asked == 0).then_some(0);
        }
        let pools = &self.dies[die].pools;
        let ratio =
            |&pool: &usize| self.dies[die].held[pool] * 1_000_000_000 / u64::from(shares[pool]);
        let is_open = |&pool: &usize| asked >> pool & 1 == 0 && !pools[pool].is_empty();
        (0..pools.len()).filter(is_open).max_by_key(ratio)
    }

    pub(super) fn cleaning_frontier(&self, victim: u32) -> usize {
        let stream = usize::from(self.groups[victim as usize].stream);
        let streams = usize::from(self.config.stream_count);
        match self.config.cleaning_frontier {
            CleaningFrontier::Shared => stream.min(streams - 1),
            CleaningFrontier::One => streams,
            CleaningFrontier::PerStream => streams + stream,
        }
    }

    /// Copies what is valid in `victim`, which no index holds any more, and erases it when it may.
    fn empty(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        victim: u32,
        place: Place,
        cause: Cause,
    ) -> Result<Ticket, FtlError> {
        let mut time = after;
        self.groups[victim as usize].state = State::Emptied;
        if self.groups[victim as usize].valid > 0 {
            let mut scratch = std::mem::take(&mut self.scratch);
            let everything = (0, to_u32(self.slots.value()));
            self.gather(nand, victim, everything, &mut scratch);
            let read = self.read_gathered(nand, time, victim, &scratch, cause)?;
            time = self.append_copies(nand, read, place, scratch.copies(), cause)?;
            self.scratch = scratch;
        }
        self.let_go(nand, time, victim, place, cause)
    }

    /// A victim holds nothing any more: it is erased when its copies are programmed.
    pub(super) fn let_go(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        victim: u32,
        (die, frontier): Place,
        cause: Cause,
    ) -> Result<Ticket, FtlError> {
        self.dies[die].emptied.push((victim, frontier));
        let may_wait = EMPTIED_MAX.min(self.config.reserve_count as usize - 1);
        if self.dies[die].frontiers[frontier].lpns.is_empty() {
            self.erase_emptied(nand, after, (die, frontier))
        } else if self.dies[die].emptied.len() > may_wait {
            self.program(nand, after, (die, frontier), cause)
        } else {
            Ok(after)
        }
    }

    /// Reads what was gathered of a victim.
    pub(super) fn read_gathered(
        &self,
        nand: &mut NandArray,
        after: Ticket,
        victim: u32,
        scratch: &super::Scratch,
        cause: Cause,
    ) -> Result<Ticket, FtlError> {
        let first = self.first_block(nand, victim);
        if self.width > 1 {
            return Ok(nand.read_rows(after, first, scratch.rows.iter().copied(), cause)?);
        }
        let base = victim * to_u32(self.slots.value());
        let row = |&from| RowRead { index: from - base, plane_mask: 1, unit_count: 1 };
        Ok(nand.read_rows(after, first, scratch.from.iter().map(row), cause)?)
    }

    /// Collects valid units of a victim from slot `next` on and the reads that fetch them, and takes them
    /// off its books: rows until they hold `count` units. Answers the slot behind them. The spare
    /// areas name the units; that the map agrees is asserted when they have moved.
    pub(super) fn gather(
        &mut self,
        nand: &NandArray,
        victim: u32,
        (next, count): (u32, u32),
        scratch: &mut super::Scratch,
    ) -> u32 {
        let super::Scratch { lpns, from, contents, rows } = scratch;
        lpns.clear();
        from.clear();
        contents.clear();
        rows.clear();
        let keep = nand.config().keep_content;
        let slots = to_u32(self.slots.value());
        let base = victim * slots;
        let first = self.first_block(nand, victim);
        let (width, units_per_page) = (self.width, self.units_per_page);
        let stride = to_u32(self.die_count.value());
        let tags = nand.tags(first);
        let end = match count < self.groups[victim as usize].valid {
            true => self.valid.end_of(base + next, count).next_multiple_of(width),
            false => base + slots,
        };
        if width == 1 && !keep {
            from.resize(slots as usize, 0);
            let mut count = 0;
            self.valid.take_range(base + next, end, |address| {
                from[count] = address;
                count += 1;
            });
            from.truncate(count);
            lpns.extend(from.iter().map(|&address| tags[(address - base) as usize]));
            self.take_off_books(victim, count as u64);
            return end - base;
        }
        self.valid.take_range(base + next, end, |address| {
            let offset = address - base;
            from.push(address);
            let slot = offset % width;
            let (row, plane, unit) = (offset / width, slot / units_per_page, slot % units_per_page);
            let tag = row * units_per_page + unit;
            let lpn = match plane {
                0 => tags[tag as usize],
                _ => nand.tags(first + plane * stride)[tag as usize],
            };
            lpns.push(lpn);
            if keep {
                let page = nand.geometry().flash_page(first + plane * stride, row);
                contents.push(nand.content(page, unit));
            }
            match rows.last_mut() {
                Some(last) if last.index == row => {
                    last.plane_mask |= 1 << plane;
                    last.unit_count += 1;
                }
                _ => rows.push(RowRead { index: row, plane_mask: 1 << plane, unit_count: 1 }),
            }
        });
        self.take_off_books(victim, lpns.len() as u64);
        end - base
    }

    /// A victim has lost `live` of its valid units.
    fn take_off_books(&mut self, victim: u32, live: u64) {
        self.groups[victim as usize].valid -= to_u32(live);
        let die = self.die_of(victim);
        self.dies[die].live -= live;
        self.total_live -= live;
    }

    /// Erases the emptied groups whose copies went through a frontier that now has none waiting.
    pub(super) fn erase_emptied(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        (die, frontier): Place,
    ) -> Result<Ticket, FtlError> {
        let mut done = after;
        let mut index = 0;
        while let Some(&(group, waits_in)) = self.dies[die].emptied.get(index) {
            if waits_in != frontier {
                index += 1;
                continue;
            }
            self.dies[die].emptied.swap_remove(index);
            done = self.erase(nand, done, group)?;
        }
        Ok(done)
    }

    fn erase(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        group: u32,
    ) -> Result<Ticket, FtlError> {
        if self.width > 1 {
            self.program_successors(nand, after, group)?;
        }
        let die = self.die_of(group);
        let stream = usize::from(self.groups[group as usize].stream);
        self.dies[die].held[stream] -= 1;
        let trims = self.write_trims(nand, after)?;
        self.complete_pairs_over(nand, after, group)?;
        let superseded = std::mem::take(&mut self.superseded_by[group as usize]);
        let safe = nand.both(trims, superseded);
        let done = self.erase_group(nand, safe, group, Cause::Cleaning)?;
        self.dies[die].last_erase = done;
        self.give_work(nand, die, Work { erases: 1, ..Work::default() });
        if self.groups[group as usize].state == State::Free {
            self.dies[die].erases_since_levelling += 1;
        }
        Ok(done)
    }

    /// Erases a group without anything of value, which is free or worn out afterwards.
    pub(super) fn erase_group(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        group: u32,
        cause: Cause,
    ) -> Result<Ticket, FtlError> {
        let block = self.first_block(nand, group);
        match nand.erase_planes(after, block, self.planes, cause) {
            Ok(done) => {
                self.give_back(nand, group);
                Ok(done)
            }
            // One that is bad already held metadata when a cut found it worn out.
            Err(error @ (NandError::WornOut { .. } | NandError::BadEraseBlock { .. })) => {
                self.groups[group as usize].state = State::Bad;
                if matches!(error, NandError::WornOut { .. }) {
                    let die = self.die_of(group);
                    let usable = &mut self.dies[die].usable;
                    *usable = usable.saturating_sub(self.group_capacity);
                    self.total_usable = self.dies.iter().map(|die| die.usable).sum();
                }
                Ok(after)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// On chips whose neighbouring pages share cells (`paired_pages`), programs the partner of every
    /// last row that superseded units of `group`: a cut of that program could still destroy the row.
    fn complete_pairs_over(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        group: u32,
    ) -> Result<(), FtlError> {
        if !nand.config().rules.paired_pages {
            return Ok(());
        }
        for die in 0..self.dies.len() {
            for index in 0..self.dies[die].frontiers.len() {
                if self.dies[die].frontiers[index].unpaired.contains(&group) {
                    let cause = self.cause_of(index);
                    self.program(nand, after, (die, index), cause)?;
                }
            }
        }
        Ok(())
    }

    /// Programs the partner of every last row on such chips. Ends when no program is under way that
    /// could destroy another row.
    pub(super) fn complete_pairs(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
    ) -> Result<Ticket, FtlError> {
        let mut done = after;
        if !nand.config().rules.paired_pages {
            return Ok(done);
        }
        for die in 0..self.dies.len() {
            for index in 0..self.dies[die].frontiers.len() {
                let frontier = &self.dies[die].frontiers[index];
                if frontier.group != NO_GROUP && frontier.next_row % 2 == 1 {
                    let cause = self.cause_of(index);
                    let one = self.program(nand, after, (die, index), cause)?;
                    nand.gather(&mut done, one);
                }
            }
        }
        Ok(self.gathered.and(nand, done))
    }

    /// Programs the rows in which units of the host wait whose last durable copy is in `group`.
    fn program_successors(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        group: u32,
    ) -> Result<(), FtlError> {
        for die in 0..self.dies.len() {
            for stream in 0..usize::from(self.config.stream_count) {
                if self.dies[die].frontiers[stream].superseded.contains(&group) {
                    self.program(nand, after, (die, stream), Cause::Host)?;
                }
            }
        }
        Ok(())
    }

    /// Static wear levelling: moves the data of the least worn group of a die to the most worn free one,
    /// when the wear of the die has spread too far.
    fn level_wear(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        die: usize,
    ) -> Result<Ticket, FtlError> {
        let threshold = self.config.static_wear_threshold;
        let due = self.dies[die].erases_since_levelling >= self.config.static_wear_interval;
        // The move takes a free group before it gives one back.
        let has_room = self.dies[die].free.len() >= self.config.reserve_count as usize;
        if threshold == 0 || !due || !has_room {
            return Ok(after);
        }
        self.dies[die].erases_since_levelling = 0;
        let wear = |group: u32| nand.erase_count(self.first_block(nand, group));
        let own = (die..self.groups.len()).step_by(self.dies.len());
        let own = own.map(|group| to_u32(group as u64));
        let good = own.filter(|&group| self.groups[group as usize].state != State::Bad);
        let most = good.clone().map(wear).max().unwrap_or(0);
        let closed = good.filter(|&group| self.groups[group as usize].state == State::Closed);
        let Some(coldest) = closed.min_by_key(|&group| wear(group)) else { return Ok(after) };
        if most - wear(coldest) <= threshold {
            return Ok(after);
        }
        self.empty_closed(nand, after, coldest, Cause::WearLevel)
    }

    /// Empties a closed group that no policy chose.
    fn empty_closed(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        group: u32,
        cause: Cause,
    ) -> Result<Ticket, FtlError> {
        let (pool, die) = (self.pool_of(group), self.die_of(group));
        let valid_of = valid_counts(&self.groups, die, self.dies.len());
        let local = to_u32(self.die_count.div_rem(u64::from(group)).0);
        self.dies[die].pools[pool].remove(local, valid_of);
        let frontier = match cause == Cause::WearLevel && self.config.has_wear_frontier() {
            true => self.dies[die].frontiers.len() - 1,
            false => self.cleaning_frontier(group),
        };
        self.empty(nand, after, group, (die, frontier), cause)
    }

    /// Cleans until `die` has `wanted` free groups, the emptiest first whatever the policy. Power cuts
    /// leave half-copied victims and torn rows behind, which a policy that does not look for them would
    /// let grow until there is no free group left.
    pub(super) fn clean_emptiest(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        die: usize,
        wanted: usize,
        cause: Cause,
    ) -> Result<Ticket, FtlError> {
        let mut after = after;
        // Padding may eat up what a step gains.
        let mut attempts = 2 * self.groups.len();
        while self.dies[die].free.len() < wanted {
            attempts = attempts.checked_sub(1).ok_or(FtlError::DeviceFull)?;
            after = self.clean_one_emptiest(nand, after, die, cause)?;
        }
        Ok(after)
    }

    /// Erases what was emptied before, or else cleans the emptiest closed group whose copies have room:
    /// where little is to gain, groups that wait for a row to fill could take all of it.
    fn clean_one_emptiest(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        die: usize,
        cause: Cause,
    ) -> Result<Ticket, FtlError> {
        if let Some(&(_, frontier)) = self.dies[die].emptied.first() {
            return self.program(nand, after, (die, frontier), cause);
        }
        if self.dies[die].pace.victim != NO_GROUP
            && let Some(done) = self.finish_victim(nand, after, die)?
        {
            return Ok(done);
        }
        let own = (die..self.groups.len()).step_by(self.dies.len());
        let own = own.map(|group| to_u32(group as u64));
        let valid = |group: u32| self.groups[group as usize].valid;
        let movable = own.filter(|&group| {
            self.groups[group as usize].state == State::Closed
                && u64::from(valid(group)) < self.slots.value()
                && self.fits(nand, group, (die, self.cleaning_frontier(group)))
        });
        let emptiest = movable.min_by_key(|&group| valid(group)).ok_or(FtlError::DeviceFull)?;
        self.empty_closed(nand, after, emptiest, cause)
    }
}
