//! Rebuilding the chunk map from the spare areas (flash reference 2.10, method A).
//!
//! Every spare area is read. Of all copies of a page the one with the highest sequence number counts.
//!
//! 1. A chunk that an earlier recovery was writing and did not end is erased: its sources are there. So
//!    is a chunk whose erase was interrupted: what it held was superseded.
//! 2. A logical chunk whose newest pages lie in their places in one physical chunk is mapped to it.
//! 3. Any other (a replacement was active, or the log holds pages) is copied to a fresh chunk, whose last
//!    page says that it is complete; only then are its sources erased.
//! 4. Whatever holds no newest page is erased, or retired where it is worn out; log and map start empty.
//!    What is worn out is read: the cut may have undone the copies that made its erase due.
//! 5. Where wear has left too few chunks for that, units are read where they are, and nothing is written
//!    any more.
//!
//! So a recovery works with the one free chunk that there always is, however often it is interrupted.

use super::{ChunkFtl, NONE};
use crate::FtlError;
use crate::hybrid::block_map::PageKind;
use crate::settled::{Settled, end_of, gather_scan};
use nandu_base::{Cause, Ppn, to_index, to_u32};
use nandu_nand::{NandArray, NandError, Ticket};

const NO_PAGE: Ppn = Ppn(u64::MAX);

/// What a physical chunk holds.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// Whether any of its pages is not erased.
    used: bool,
    /// An erase was interrupted: whatever it held is superseded.
    torn: bool,
    /// Whether it holds pages of the shared log.
    shared: bool,
    /// Copies of a recovery, and whether the last of them is there.
    merged: bool,
    ended: bool,
    /// How many of its pages are the newest of their units.
    newest: u32,
}

impl ChunkFtl {
    pub(super) fn rebuild(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
    ) -> Result<Ticket, FtlError> {
        self.forget();
        let mut found = vec![Found::default(); self.physical_count as usize];
        let done = self.scan_all(nand, after, &mut found)?;
        let newest = self.find_newest(nand, &mut found);
        let mut after = done;
        for chunk in 0..self.physical_count {
            let is_worn = self.is_worn(nand, chunk);
            if is_worn && found[chunk as usize].newest == 0 {
                self.retired_count += 1;
            } else if !found[chunk as usize].used {
                self.free.push_back(chunk);
            } else if found[chunk as usize].newest == 0 {
                after = self.release(nand, after, chunk, Cause::Recovery)?;
            }
        }
        for logical in 0..to_u32(self.map.len() as u64) {
            after = self.adopt(nand, after, logical, (&newest, &mut found))?;
        }
        self.complete_log()?;
        if self.config.uses_map() {
            self.map_chunk = self.free.pop_front().ok_or(FtlError::DeviceFull)?;
        }
        Ok(after)
    }

    /// Rule 5: sources are erased only after their copies are complete, so every unit is still there,
    /// whatever was done of rules 3 and 4.
    pub(super) fn rebuild_for_reading(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
    ) -> Result<Ticket, FtlError> {
        self.forget();
        let mut found = vec![Found::default(); self.physical_count as usize];
        let done = self.scan_all(nand, after, &mut found)?;
        self.worn_out = Some(self.find_newest(nand, &mut found));
        Ok(done)
    }

    /// Everything in memory as before the first write, and no physical chunk anywhere.
    fn forget(&mut self) {
        self.map.fill(NONE);
        self.present.fill(0);
        self.active.clear();
        self.free.clear();
        self.log.reset();
        self.map_cache.clear();
        (self.map_chunk, self.map_position, self.retired_count) = (NONE, 0, 0);
        self.ready.fill(Ticket::READY);
        self.settled = Settled::default();
        self.busy = Ticket::READY;
        self.worn_out = None;
    }

    fn is_worn(&self, nand: &NandArray, chunk: u32) -> bool {
        (0..self.blocks).any(|block| nand.is_bad(chunk * self.blocks + block))
    }

    fn scan_all(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        found: &mut [Found],
    ) -> Result<Ticket, FtlError> {
        let mut done = Ticket::READY;
        for (chunk, found) in (0..).zip(found) {
            self.scan(nand, after, (chunk, found), &mut done)?;
        }
        Ok(end_of(done, after))
    }

    fn scan(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        (chunk, found): (u32, &mut Found),
        scanned: &mut Ticket,
    ) -> Result<(), FtlError> {
        for offset in 0..self.pages {
            let page = self.page_at(nand, chunk, offset);
            match nand.spare_read(after, page, Cause::Recovery) {
                Ok(read) => gather_scan(nand, scanned, read),
                Err(NandError::Torn { .. }) => {
                    found.used = true;
                    continue;
                }
                Err(NandError::TornEraseBlock { .. }) => {
                    (found.used, found.torn) = (true, true);
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            let Some(spare) = nand.spare(page) else { continue };
            let kind = PageKind::of(spare.sequence);
            self.sequence = self.sequence.max(spare.sequence >> 2);
            found.used = true;
            found.shared |= kind == PageKind::Shared;
            found.merged |= matches!(kind, PageKind::Merged | PageKind::MergeEnd);
            found.ended |= kind == PageKind::MergeEnd;
        }
        Ok(())
    }

    /// Where the newest copy of every unit lies, not counting chunks that rule 1 erases.
    fn find_newest(&mut self, nand: &NandArray, found: &mut [Found]) -> Vec<Ppn> {
        let mut newest = vec![(0_u64, NO_PAGE); to_index(self.unit_count)];
        for chunk in 0..self.physical_count {
            let Found { used, torn, merged, ended, .. } = found[chunk as usize];
            if !used || torn || merged && !ended {
                continue;
            }
            for offset in 0..self.pages {
                let page = self.page_at(nand, chunk, offset);
                let Some(spare) = nand.spare(page) else { continue };
                let Some(entry) = newest.get_mut(spare.lpns[0] as usize) else { continue };
                if spare.sequence >= entry.0 {
                    *entry = (spare.sequence, page);
                }
            }
        }
        for (lpn, &(_, page)) in (0_u64..).zip(&newest) {
            if page != NO_PAGE {
                self.present[to_index(lpn / 64)] |= 1 << (lpn % 64);
                found[self.chunk_of(nand, page) as usize].newest += 1;
            }
        }
        newest.into_iter().map(|(_, page)| page).collect()
    }

    fn chunk_of(&self, nand: &NandArray, page: Ppn) -> u32 {
        nand.geometry().locate(page).0 / self.blocks
    }

    /// Rules 2 and 3 for one logical chunk.
    fn adopt(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        logical: u32,
        (newest, found): (&[Ppn], &mut [Found]),
    ) -> Result<Ticket, FtlError> {
        let first = u64::from(logical) * u64::from(self.pages);
        let end = (first + u64::from(self.pages)).min(self.unit_count);
        let pages = &newest[to_index(first)..to_index(end)];
        let Some(last) = pages.iter().rposition(|&page| page != NO_PAGE) else { return Ok(after) };
        let home = self.chunk_of(nand, pages[last]);
        let in_place = (0_u32..)
            .zip(pages)
            .all(|(offset, &page)| page == NO_PAGE || page == self.page_at(nand, home, offset));
        if in_place && !found[home as usize].shared {
            self.map[logical as usize] = home;
            return Ok(after);
        }
        let target = self.free.pop_front().ok_or(FtlError::DeviceFull)?;
        let ready = nand.both(after, self.ready[target as usize]);
        let mut copied = Ticket::READY;
        for (offset, &source) in (0_u32..).zip(pages) {
            if source == NO_PAGE {
                continue;
            }
            let is_last = offset as usize == last;
            let kind = if is_last { PageKind::MergeEnd } else { PageKind::Merged };
            let read = nand.read(ready, source, self.page_bytes, Cause::Recovery)?;
            let content = nand.content(source, 0);
            let page = self.page_at(nand, target, offset);
            let tagged = (to_u32(first) + offset, content);
            let programmed = self.program(nand, read, page, tagged, (kind, Cause::Recovery))?;
            nand.gather(&mut copied, programmed);
        }
        let mut after = end_of(copied, ready);
        self.map[logical as usize] = target;
        for &source in pages.iter().filter(|&&source| source != NO_PAGE) {
            let chunk = self.chunk_of(nand, source);
            let left = &mut found[chunk as usize].newest;
            *left -= 1;
            if *left == 0 {
                after = self.release(nand, after, chunk, Cause::Recovery)?;
            }
        }
        Ok(after)
    }
}
