//! Cleaning of [`Dftl`] (flash reference 2.6.3): data and translation pages alike, one victim a step.
//!
//! 1. A step never starts another one, and begins only if the free erase blocks suffice for it.
//! 2. Entries of moved units change in the cache, where they are in it, and stay there as dirty;
//!    of the others each translation page is read and written once.
//! 3. No entry enters or leaves the cache.

use super::{Dftl, LEAST_RESERVE, PageKind, State, Stream};
use crate::FtlError;
use nandu_base::{Cause, Ppn, to_index, to_u32};
use nandu_nand::{NandArray, NandError, Ticket};

impl Dftl {
    /// The victim with the fewest valid pages. With little left the next translation page goes first,
    /// because cleaning it never takes more than it gives: translation pages written for data victims
    /// outdate others, and that space has to come back before the next data victim is affordable.
    fn choose_victim(&mut self) -> Result<(u32, PageKind), FtlError> {
        let pages = to_u32(self.pages.value());
        let data = self.data_victims.take();
        let translation = self.translation_victims.take();
        let valid =
            |victim: Option<u32>| victim.map_or(pages, |victim| self.blocks[victim as usize].valid);
        let (data_valid, translation_valid) = (valid(data), valid(translation));
        let scarce = self.free_count < LEAST_RESERVE && data_valid > 0;
        let data = (data, data_valid, PageKind::Data);
        let translation = (translation, translation_valid, PageKind::Translation);
        let order = if scarce || translation_valid <= data_valid {
            [translation, data]
        } else {
            [data, translation]
        };
        let gains =
            |&(_, valid, kind): &(_, u32, _)| valid < pages && self.is_affordable(valid, kind);
        let chosen = order.iter().position(gains);
        for (index, (victim, valid, kind)) in order.into_iter().enumerate() {
            if let (Some(victim), true) = (victim, chosen != Some(index)) {
                self.victims(kind).insert(victim, valid);
            }
        }
        let (victim, _, kind) = order[chosen.ok_or(FtlError::DeviceFull)?];
        Ok((victim.expect("one without pages to gain is not chosen"), kind))
    }

    /// Whether a victim can be moved with what is free. At most one translation page is written for
    /// each data page that moves.
    fn is_affordable(&self, valid: u32, kind: PageKind) -> bool {
        let lacks_room = |stream| {
            let rooms = (0..self.dies.len()).map(|die| u64::from(self.room_of(die, stream)));
            u64::from(valid) > rooms.sum()
        };
        let needed = u32::from(lacks_room(Stream::Translation))
            + u32::from(kind == PageKind::Data && lacks_room(self.stream_of_copies()));
        needed <= self.free_count
    }

    const fn stream_of_copies(&self) -> Stream {
        if self.config.separate_copies { Stream::Copies } else { Stream::Host }
    }

    /// Where a page goes that cleaning writes: to the die of the victim, unless that would open an erase
    /// block when few are free and another die has an open one.
    fn cleaning_die(&self, home: usize, stream: Stream) -> usize {
        if self.free_count >= LEAST_RESERVE || self.room_of(home, stream) > 0 {
            return home;
        }
        (0..self.dies.len()).find(|&die| self.room_of(die, stream) > 0).unwrap_or(home)
    }

    /// Frees one erase block.
    pub(super) fn clean_one(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
    ) -> Result<Ticket, FtlError> {
        let (victim, kind) = self.choose_victim()?;
        self.blocks[victim as usize].state = State::Open;
        let after = match kind {
            PageKind::Data => self.move_data(nand, after, victim)?,
            PageKind::Translation => self.move_translation(nand, after, victim)?,
        };
        assert_eq!(self.blocks[victim as usize].valid, 0, "invariant 3: all of a victim moved");
        let after = self.durable.and(nand, after);
        match nand.erase(after, victim, Cause::Cleaning) {
            Ok(done) => {
                self.blocks[victim as usize].state = State::Free;
                self.give_back(victim);
                Ok(done)
            }
            Err(NandError::WornOut { .. }) => {
                self.blocks[victim as usize].state = State::Bad;
                Ok(after)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Copies one valid page of a victim and answers its tag, its new place and the end of the copy.
    fn copy(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        (page, stream): (u32, Stream),
    ) -> Result<(u32, u32, Ticket), FtlError> {
        let source = Ppn(page.into());
        let read = nand.read(after, source, self.page_bytes, Cause::Cleaning)?;
        let tag = nand.spare(source).expect("a valid page was programmed").lpns[0];
        let die = self.cleaning_die(self.die_of(self.block_of(page)), stream);
        let unit = (tag, nand.content(source, 0));
        let (copy, done) = self.append(nand, read, (die, stream), unit, Cause::Cleaning)?;
        self.invalidate(page);
        Ok((tag, copy, done))
    }

    fn move_translation(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        victim: u32,
    ) -> Result<Ticket, FtlError> {
        let mut after = after;
        for page in self.pages_of(victim) {
            if self.is_valid(page) {
                let (tag, copy, done) = self.copy(nand, after, (page, Stream::Translation))?;
                let tvpn = to_index(u64::from(tag)) - self.table.unit_count();
                assert_eq!(self.directory[tvpn], page, "invariant 2: the directory names it");
                (self.directory[tvpn], self.directory_sequences[tvpn]) = (copy, self.sequence);
                after = done;
            }
        }
        Ok(after)
    }

    /// Moves a data victim: lazily where a unit is cached, else with its translation page.
    fn move_data(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        victim: u32,
    ) -> Result<Ticket, FtlError> {
        let mut after = after;
        let mut moved = std::mem::take(&mut self.moved);
        moved.clear();
        for page in self.pages_of(victim) {
            if !self.is_valid(page) {
                continue;
            }
            let (lpn, copy, done) = self.copy(nand, after, (page, self.stream_of_copies()))?;
            assert_eq!(self.table.page_of(lpn), page, "invariant 1: the map names unit {lpn}");
            after = done;
            match self.table.slot_of(lpn) {
                Some(slot) => self.table.set(slot, copy),
                None => moved.push((lpn, copy)),
            }
        }
        moved.sort_unstable();
        let home = self.die_of(victim);
        let entries = self.table.entries_per_page();
        let tvpn_of = |moved: &(u32, u32)| moved.0 / entries;
        let same_page = |one: &(u32, u32), other: &(u32, u32)| tvpn_of(one) == tvpn_of(other);
        for group in moved.chunk_by(same_page) {
            let tvpn = tvpn_of(&group[0]);
            let die = self.cleaning_die(home, Stream::Translation);
            after = self.write_back(nand, after, (die, tvpn))?;
            self.counts.cleaning_update_count += 1;
            // Only now: where the power fails before, flash still holds the old entries.
            for &(lpn, copy) in group {
                self.table.store(lpn, copy);
            }
        }
        self.moved = moved;
        Ok(after)
    }
}
