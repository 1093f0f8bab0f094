//! Where units go: addresses, frontiers, rows that fill and are programmed.

use super::{
    CleaningFrontier, Copies, DieChoice, DieOrder, Frontier, Group, NO_GROUP, PageFtl, State,
    UNMAPPED,
};
use crate::FtlError;
use nandu_base::{Cause, Ppn, to_index, to_u32};
use nandu_nand::{Content, NO_LPN, NandArray, Payload, Ticket};
use std::hint::select_unpredictable;

/// Commands for a die, in rows and groups.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    pub(super) reads: u64,
    pub(super) programs: u64,
    pub(super) erases: u64,
}

/// A die and one of its frontiers.
pub(super) type Place = (usize, usize);

impl PageFtl {
    #[inline]
    pub(super) fn die_of(&self, group: u32) -> usize {
        to_index(self.die_count.div_rem(u64::from(group)).1)
    }

    #[inline]
    pub(super) fn group_of(&self, address: u32) -> u32 {
        to_u32(self.slots.div_rem(u64::from(address)).0)
    }

    #[inline]
    pub(super) fn first_block(&self, nand: &NandArray, group: u32) -> u32 {
        if self.planes == 1 {
            return group;
        }
        let (row, die) = self.die_count.div_rem(u64::from(group));
        nand.geometry().erase_block_at(to_u32(die), 0, to_u32(row))
    }

    /// Flash page and unit inside it of an address.
    #[inline]
    pub(super) fn place(&self, nand: &NandArray, address: u32) -> (Ppn, u32) {
        if self.width == 1 {
            return (Ppn(u64::from(address)), 0);
        }
        let (group, slot) = self.slots.div_rem(u64::from(address));
        let (row, slot) = (to_u32(slot) / self.width, to_u32(slot) % self.width);
        let (plane, unit) = (slot / self.units_per_page, slot % self.units_per_page);
        let stride = to_u32(self.die_count.value());
        let block = self.first_block(nand, to_u32(group)) + plane * stride;
        (nand.geometry().flash_page(block, row), unit)
    }

    /// Where a unit waits in an open row: its frontier and its slot in the row.
    #[inline]
    fn waits_at(&self, address: u32) -> Option<(Place, usize)> {
        if self.width == 1 {
            return None;
        }
        let (group, slot) = self.slots.div_rem(u64::from(address));
        if self.groups[to_index(group)].state != State::Open {
            return None;
        }
        let (row, slot) = (to_u32(slot) / self.width, to_u32(slot) % self.width);
        let here = |frontier: &Frontier| {
            u64::from(frontier.group) == group
                && frontier.next_row == row
                && frontier.lpns.len() > slot as usize
        };
        let die = self.die_of(to_u32(group));
        let index = self.dies[die].frontiers.iter().position(here)?;
        Some(((die, index), slot as usize))
    }

    /// Whether a unit waits in an open row, and what it holds.
    #[inline]
    pub(super) fn waiting(&self, address: u32) -> Option<Content> {
        let ((die, index), slot) = self.waits_at(address)?;
        Some(self.dies[die].frontiers[index].contents.get(slot).cloned().flatten())
    }

    /// A unit that waits at `address` is superseded or trimmed: its row, which may be programmed after
    /// that of its successor, must not name it any more. The groups that hold its last durable copy
    /// are those of the row, and now wait for `successor` as well.
    fn withdraw(&mut self, address: u32, successor: Option<Place>) {
        let Some(((die, index), slot)) = self.waits_at(address) else { return };
        self.dies[die].frontiers[index].lpns[slot] = NO_LPN;
        let Some(successor) = successor.filter(|&successor| successor != (die, index)) else {
            return;
        };
        let row = &self.dies[die];
        let emptied = row.emptied.iter().filter(|&&(_, waits_in)| waits_in == index);
        let mut groups = row.frontiers[index].superseded.clone();
        groups.extend(emptied.map(|&(group, _)| group));
        // Under paced cleaning a victim is emptied a few units at a time; copies of it may wait in
        // the same row.
        let victim = row.pace.victim;
        if victim != NO_GROUP && self.cleaning_frontier(victim) == index {
            groups.push(victim);
        }
        let successor = &mut self.dies[successor.0].frontiers[successor.1];
        groups.into_iter().for_each(|group| successor.supersede(group));
    }

    pub(super) fn unmap(&mut self, lpn: u64) {
        let old = std::mem::replace(&mut self.map[to_index(lpn)], UNMAPPED);
        if old != UNMAPPED {
            self.withdraw(old, None);
            self.invalidate(old);
        }
    }

    /// Takes the unit at `address` from its group, which it answers.
    #[inline]
    pub(super) fn invalidate(&mut self, address: u32) -> u32 {
        self.valid.clear(address);
        let group = self.group_of(address);
        let entry = &mut self.groups[group as usize];
        entry.valid -= 1;
        let (valid, state, stream) = (entry.valid, entry.state, entry.stream);
        let (local, die) = self.die_count.div_rem(u64::from(group));
        let die = &mut self.dies[to_index(die)];
        die.live -= 1;
        self.total_live -= 1;
        if state == State::Victim {
            die.pace.grant += 1;
        }
        if state == State::Closed && valid <= die.told_at {
            let pool = if die.pools.len() == 1 { 0 } else { usize::from(stream) };
            die.pools[pool].lowered(to_u32(local), valid, self.sequence);
        }
        group
    }

    /// The die of the next unit of a stream: that of its row, as long as the row is not full, else the
    /// one that is chosen, unless it has too little room; the next one that has enough then.
    #[inline]
    fn choose_die(&mut self, nand: &NandArray, stream: usize, lpn: u32) -> usize {
        if self.dies.len() == 1 {
            return 0;
        }
        if self.has_chosen[stream] {
            let die = self.die_order[self.next_die[stream]];
            if !self.dies[die].frontiers[stream].lpns.is_empty() {
                return die;
            }
            // The row of the chosen die was programmed before it was full, such as for a flush.
            // That counts as the die's turn, so the next die is chosen.
            self.end_turn(stream);
        }
        let next = match self.config.die_choice {
            DieChoice::RoundRobin => self.next_die[stream],
            DieChoice::Static => lpn as usize % self.dies.len(),
            DieChoice::LeastWork => self.least(stream, &self.work_ns),
            DieChoice::LeastBacklog => self.least(stream, nand.backlog_ns()),
        };
        let count = self.dies.len();
        let takes = |&place: &usize| {
            let die = self.die_order[place];
            self.has_room(die) || !self.dies[die].frontiers[stream].lpns.is_empty()
        };
        let chosen = match takes(&next) {
            true => next,
            false => (next..next + count)
                .map(|place| if place < count { place } else { place - count })
                .find(takes)
                .unwrap_or(next),
        };
        self.next_die[stream] = chosen;
        self.has_chosen[stream] = true;
        self.die_order[chosen]
    }

    /// The place of the die with least of something, of equal ones the first from the turn of the stream
    /// on.
    #[inline]
    fn least(&self, stream: usize, amounts: &[u64]) -> usize {
        let first = self.next_die[stream];
        if self.config.die_order == DieOrder::ChannelFirst {
            let (before, from) = amounts.split_at(first);
            let least = earlier_least((u64::MAX, first), from.iter().copied(), first);
            return earlier_least(least, before.iter().copied(), 0).1;
        }
        let (before, from) = self.die_order.split_at(first);
        let amount_of = |&die: &usize| amounts[die];
        let least = earlier_least((u64::MAX, first), from.iter().map(amount_of), first);
        earlier_least(least, before.iter().map(amount_of), 0).1
    }

    /// A quarter of an even share of the room may be missing before a die is passed over.
    #[inline]
    fn has_room(&self, die: usize) -> bool {
        let headroom = self.total_usable.saturating_sub(self.total_live);
        let die = &self.dies[die];
        let own = die.usable.saturating_sub(die.live) * self.die_count.value();
        own > 0 && own * 4 >= headroom * 3
    }

    /// Why rows of a frontier are programmed.
    pub(super) fn cause_of(&self, frontier: usize) -> Cause {
        match frontier < usize::from(self.config.stream_count) {
            true => Cause::Host,
            false => Cause::Cleaning,
        }
    }

    /// Gives the frontier a free group.
    pub(super) fn open(&mut self, (die, frontier): Place) -> Result<(), FtlError> {
        let streams = usize::from(self.config.stream_count);
        let is_cold = frontier >= streams;
        let group = self.dies[die].free.pop(is_cold).ok_or(FtlError::DeviceFull)?;
        let entry = &mut self.groups[group as usize];
        entry.state = State::Open;
        self.superseded_by[group as usize] = Ticket::READY;
        // Isolated frontiers of cleaning follow the host's in the order of their streams.
        let isolated = self.config.cleaning_frontier == CleaningFrontier::PerStream;
        let stream = match (is_cold, isolated) {
            (false, _) => frontier,
            (true, true) => frontier - streams,
            (true, false) => 0,
        };
        entry.stream = u8::try_from(stream).expect("at most 64 streams");
        self.dies[die].held[stream] += 1;
        let last_erase = self.dies[die].last_erase;
        let frontier = &mut self.dies[die].frontiers[frontier];
        (frontier.group, frontier.next_row) = (group, 0);
        frontier.opened_after = last_erase;
        Ok(())
    }

    /// Puts a unit of the host behind the frontier of its stream, programs the row if that fills it,
    /// and moves the map.
    #[inline]
    pub(super) fn append(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        stream: usize,
        (lpn, content): (u32, Content),
    ) -> Result<Ticket, FtlError> {
        let die = self.choose_die(nand, stream, lpn);
        let mut cleaned = after;
        if self.dies[die].frontiers[stream].group == NO_GROUP {
            // The queue of the die keeps the row behind what was cleaned for it.
            cleaned = self.clean(nand, after, die, Some(stream))?;
            if self.dies[die].frontiers[stream].group == NO_GROUP {
                self.open((die, stream))?;
            }
        }
        if self.width == 1 {
            return self.append_page(nand, after, (die, stream), (lpn, content));
        }
        let frontier = &mut self.dies[die].frontiers[stream];
        if frontier.lpns.is_empty() {
            frontier.row = nand.promise();
        }
        let (group, row) = (frontier.group, frontier.row);
        let address = group * to_u32(self.slots.value())
            + frontier.next_row * self.width
            + to_u32(frontier.lpns.len() as u64);
        frontier.lpns.push(lpn);
        if nand.config().keep_content {
            frontier.contents.push(content);
        }
        let full = frontier.lpns.len() == self.width as usize;
        self.valid.set(address);
        self.add_valid(group, 1);
        let old = std::mem::replace(&mut self.map[lpn as usize], address);
        if old != UNMAPPED {
            self.withdraw(old, Some((die, stream)));
            let group = self.invalidate(old);
            self.dies[die].frontiers[stream].supersede(group);
        }
        if !full {
            return Ok(if nand.is_single_server() { cleaned } else { row });
        }
        let done = self.program(nand, after, (die, stream), Cause::Host)?;
        self.pass_turn(nand, (die, stream))?;
        Ok(done)
    }

    /// [`Self::append`] where a unit is a row: nothing ever waits.
    #[inline]
    fn append_page(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        (die, stream): Place,
        (lpn, content): (u32, Content),
    ) -> Result<Ticket, FtlError> {
        let record = &mut self.dies[die];
        let frontier = &mut record.frontiers[stream];
        let group = frontier.group;
        let address = group * self.rows + frontier.next_row;
        self.sequence += 1;
        let (lpns, contents) = ([lpn], [content]);
        let contents = if nand.config().keep_content { contents.as_slice() } else { &[] };
        let payload = Payload { lpns: &lpns, sequence: self.sequence, contents };
        let after = frontier.start(nand, after);
        let done = nand.program(after, Ppn(u64::from(address)), payload, Cause::Host)?;
        let is_paired = nand.config().rules.paired_pages;
        let row = frontier.next_row;
        frontier.next_row += 1;
        let is_full = frontier.next_row == self.rows;
        if is_full {
            frontier.group = NO_GROUP;
        }
        record.live += 1;
        self.total_live += 1;
        self.groups[group as usize].valid += 1;
        self.valid.set(address);
        if self.gathers {
            self.gathered.add(nand, done);
        }
        let old = std::mem::replace(&mut self.map[lpn as usize], address);
        if old != UNMAPPED {
            let group = self.invalidate(old);
            // Only with several dies: a single server does one thing after the other, so an erase
            // cannot come before the program of what superseded the data.
            if is_paired {
                self.dies[die].frontiers[stream].supersede(group);
            } else if !nand.is_single_server() {
                nand.gather(&mut self.superseded_by[group as usize], done);
            }
        }
        if is_paired {
            self.settle_row(nand, (die, stream), row, done);
        }
        if is_full {
            self.close(group);
        }
        self.pass_turn(nand, (die, stream))?;
        Ok(done)
    }

    /// Programs the open row of a frontier, padded where it is not full.
    pub(super) fn program(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        (die, index): Place,
        cause: Cause,
    ) -> Result<Ticket, FtlError> {
        self.sequence += 1;
        let block = self.first_block(nand, self.dies[die].frontiers[index].group);
        let width = self.width as usize;
        let frontier = &mut self.dies[die].frontiers[index];
        if frontier.lpns.len() < width {
            self.padded_units += (width - frontier.lpns.len()) as u64;
            frontier.lpns.resize(width, NO_LPN);
            if nand.config().keep_content {
                frontier.contents.resize(width, None);
            }
        }
        let page = nand.geometry().flash_page(block, frontier.next_row);
        let after = frontier.start(nand, after);
        let payload =
            Payload { lpns: &frontier.lpns, sequence: self.sequence, contents: &frontier.contents };
        let done = nand.program_rows(after, page, self.planes, payload, cause)?;
        frontier.lpns.clear();
        frontier.contents.clear();
        let row = frontier.next_row;
        nand.keep(std::mem::take(&mut frontier.row), done);
        self.settle_row(nand, (die, index), row, done);
        if self.gathers {
            self.gathered.add(nand, done);
        }
        self.advance((die, index), 1);
        if self.dies[die].emptied.is_empty() {
            return Ok(done);
        }
        self.erase_emptied(nand, done, (die, index))
    }

    /// What the units up to `row` superseded may be erased once `done` has ended; on paired pages that
    /// is the program of the odd row of a pair, which may still destroy the even one.
    fn settle_row(&mut self, nand: &mut NandArray, (die, index): Place, row: u32, done: Ticket) {
        let frontier = &mut self.dies[die].frontiers[index];
        // The last row of an odd number has no partner.
        let has_partner = row.is_multiple_of(2) && row + 1 < self.rows;
        if nand.config().rules.paired_pages && has_partner {
            frontier.unpaired.append(&mut frontier.superseded);
            return;
        }
        for &group in frontier.superseded.iter().chain(&frontier.unpaired) {
            nand.gather(&mut self.superseded_by[group as usize], done);
        }
        frontier.superseded.clear();
        frontier.unpaired.clear();
    }

    /// Appends copies of a victim to a frontier: whole rows go out at once, a rest waits.
    pub(super) fn append_copies(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        place: Place,
        copies: Copies<'_>,
        cause: Cause,
    ) -> Result<Ticket, FtlError> {
        let (die, index) = place;
        let (width, slots) = (self.width as usize, to_u32(self.slots.value()));
        let (mut after, mut next, mut agrees) = (after, 0, true);
        let victim = copies.from.first().map_or(NO_GROUP, |&address| self.group_of(address));
        while next < copies.lpns.len() {
            if self.dies[die].frontiers[index].group == NO_GROUP {
                self.open(place)?;
            }
            let frontier = &mut self.dies[die].frontiers[index];
            let (group, waiting) = (frontier.group, frontier.lpns.len());
            let room = (self.rows - frontier.next_row) as usize * width - waiting;
            // What fills the open row, or whole rows, or a rest that waits.
            let left = (copies.lpns.len() - next).min(room);
            let take = match (waiting, left / width) {
                (0, 0) => left,
                (0, rows) => rows * width,
                _ => left.min(width - waiting),
            };
            let base = group * slots + frontier.next_row * self.width + to_u32(waiting as u64);
            let units = &copies.lpns[next..next + take];
            let kept = copies.contents.get(next..next + take).unwrap_or(&[]);
            let whole_rows = waiting == 0 && take >= width;
            if !whole_rows {
                if waiting == 0 {
                    frontier.row = nand.promise();
                }
                frontier.lpns.extend_from_slice(units);
                if nand.config().rules.paired_pages {
                    frontier.supersede(victim);
                }
                frontier.contents.extend_from_slice(kept);
            }
            let fills = frontier.lpns.len() == width;
            // Without branches, so that the cache misses of the map overlap.
            let moves = units.iter().zip(&copies.from[next..]).zip(base..);
            for ((&lpn, &from), to) in moves {
                agrees &= std::mem::replace(&mut self.map[lpn as usize], to) == from;
            }
            self.valid.set_range(base, base + to_u32(take as u64));
            self.add_valid(group, to_u32(take as u64));
            if whole_rows {
                after = self.program_copies(nand, after, place, (units, kept, victim), cause)?;
            } else if fills {
                after = self.program(nand, after, place, cause)?;
            }
            next += take;
        }
        assert!(agrees, "invariant 1: the map pointed where the copies come from");
        let rows = copies.lpns.len().div_ceil(width) as u64;
        self.give_work(nand, die, Work { reads: rows, programs: rows, erases: 0 });
        Ok(after)
    }

    fn program_copies(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        (die, index): Place,
        (lpns, contents, victim): (&[u32], &[Content], u32),
        cause: Cause,
    ) -> Result<Ticket, FtlError> {
        let rows = to_u32((lpns.len() / self.width as usize) as u64);
        let block = self.first_block(nand, self.dies[die].frontiers[index].group);
        let frontier = &mut self.dies[die].frontiers[index];
        let page = nand.geometry().flash_page(block, frontier.next_row);
        let after = frontier.start(nand, after);
        let payload = Payload { lpns, sequence: self.sequence + 1, contents };
        let done = nand.program_rows(after, page, self.planes, payload, cause)?;
        self.sequence += u64::from(rows);
        if nand.config().rules.paired_pages {
            self.gathered.add(nand, done);
            let frontier = &mut self.dies[die].frontiers[index];
            frontier.supersede(victim);
            let last_row = frontier.next_row + rows - 1;
            self.settle_row(nand, (die, index), last_row, done);
        }
        self.advance((die, index), rows);
        Ok(done)
    }

    /// Moves a frontier past rows that were programmed; a full group is closed.
    #[inline]
    fn advance(&mut self, (die, index): Place, rows: u32) {
        let frontier = &mut self.dies[die].frontiers[index];
        frontier.next_row += rows;
        if frontier.next_row == self.rows {
            let group = std::mem::replace(&mut frontier.group, NO_GROUP);
            self.close(group);
        }
    }

    pub(super) fn close(&mut self, group: u32) {
        self.groups[group as usize].state = State::Closed;
        let pool = self.pool_of(group);
        let (local, die) = self.die_count.div_rem(u64::from(group));
        let die = to_index(die);
        let valid_of = valid_counts(&self.groups, die, self.dies.len());
        self.dies[die].pools[pool].insert(to_u32(local), self.sequence, valid_of);
    }

    /// Books work that a die was given, where that decides who takes a row.
    #[inline]
    pub(super) fn give_work(&mut self, nand: &NandArray, die: usize, work: Work) {
        if self.config.die_choice == DieChoice::LeastWork {
            let timing = &nand.config().timing;
            self.work_ns[die] += work.reads * timing.read_ns.0
                + work.programs * timing.program_ns.0
                + work.erases * timing.erase_ns.0;
        }
    }

    /// A row of the stream was programmed: the next goes to another die, and cleaning follows.
    #[inline]
    fn pass_turn(&mut self, nand: &mut NandArray, (die, stream): Place) -> Result<(), FtlError> {
        self.end_turn(stream);
        self.follow_row(nand, die)
    }

    fn end_turn(&mut self, stream: usize) {
        let next = self.next_die[stream] + 1;
        self.next_die[stream] = if next == self.dies.len() { 0 } else { next };
        self.has_chosen[stream] = false;
    }

    /// A row of the host was programmed on `die`, full or padded: cleaning follows.
    #[inline]
    pub(super) fn follow_row(&mut self, nand: &mut NandArray, die: usize) -> Result<(), FtlError> {
        self.give_work(nand, die, Work { programs: 1, ..Work::default() });
        if self.is_paced {
            self.pace(nand, die, self.width)?;
        }
        Ok(())
    }

    /// Books `count` units that became valid in a group; their bits are set by the caller.
    #[inline]
    pub(super) fn add_valid(&mut self, group: u32, count: u32) {
        self.groups[group as usize].valid += count;
        let die = self.die_of(group);
        self.dies[die].live += u64::from(count);
        self.total_live += u64::from(count);
    }

    pub(super) fn pool_of(&self, group: u32) -> usize {
        if self.config.stream_share_ppm.is_empty() {
            return 0;
        }
        usize::from(self.groups[group as usize].stream)
    }
}

/// The least amount and its place: `least`, or the first of `amounts`, which begin at place `first`, that
/// is less. Who has least cannot be foretold, so there is no branch to foretell.
#[inline]
fn earlier_least(
    mut least: (u64, usize),
    amounts: impl Iterator<Item = u64>,
    first: usize,
) -> (u64, usize) {
    for (amount, place) in amounts.zip(first..) {
        let is_less = amount < least.0;
        least.0 = select_unpredictable(is_less, amount, least.0);
        least.1 = select_unpredictable(is_less, place, least.1);
    }
    least
}

impl Frontier {
    /// What a row of it waits for, besides `after`.
    #[inline]
    fn start(&mut self, nand: &mut NandArray, after: Ticket) -> Ticket {
        if self.opened_after == Ticket::READY {
            return after;
        }
        let opened_after = std::mem::take(&mut self.opened_after);
        nand.both(after, opened_after)
    }

    /// A unit that waits in the row has its last durable copy in `group`. Kept once for each group: two
    /// streams that write the same unit in turn would fill memory otherwise.
    fn supersede(&mut self, group: u32) {
        if !self.superseded.contains(&group) {
            self.superseded.push(group);
        }
    }
}

/// Valid counts of a die's groups by their number inside the die, as the victim indices have them.
pub(super) fn valid_counts(
    groups: &[Group],
    die: usize,
    die_count: usize,
) -> impl Fn(u32) -> u32 + Copy {
    move |local| groups[local as usize * die_count + die].valid
}
