//! Rebuilding the map of [`Dftl`] from the spare areas (flash reference 2.10, method A for the data
//! and method C's order for the map: data first, translation pages brought up to date after it).
//!
//! 1. Of all copies of a unit, or of a translation page, the one with the highest sequence number wins.
//! 2. Torn flash pages are skipped; torn erase blocks are erased again, and so is an erase block that
//!    holds nothing but torn flash pages, which do not even tell their kind. A worn-out erase block is
//!    read too: the cut may have undone the copies that made its erase due. What is live there stays.
//! 3. Every translation page that survived is read and compared with the map that the data gave; one
//!    that differs, or is missing, is written. The cache is empty then.
//!    Where wear has left no space for it, the map stays in memory, and nothing is written any more.
//! 4. A second recovery finds the same map; sequence numbers go on above the highest seen.
//!
//! The array does not store what a translation page says. The last one issued says what the layer
//! remembers of it; an older one that a cut brought back is taken to differ.

use super::{Dftl, Frontier, PageKind, State, Stream, UNMAPPED};
use crate::FtlError;
use crate::settled::{end_of, gather_scan};
use nandu_base::{Cause, to_index, to_u32};
use nandu_nand::{NO_LPN, NandArray, NandError, Ticket};

/// What the spare areas say of one erase block.
struct Scan {
    programmed_pages: u32,
    /// What the page holds; `None` where nothing can be read.
    kind: Option<PageKind>,
    torn: bool,
    /// The ticket that ends with the last of the reads.
    done: Ticket,
}

impl Dftl {
    pub(super) fn rebuild(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
    ) -> Result<Ticket, FtlError> {
        let unit_count = self.table.unit_count();
        let known: Vec<u32> =
            (0..to_u32(unit_count as u64)).map(|lpn| self.table.stored_page_of(lpn)).collect();
        let known_sequences = self.directory_sequences.clone();
        self.reset(nand);
        self.worn_out = false;
        let tag_count = unit_count + self.directory.len();
        // By tag: the sequence number and the place of the newest copy.
        let mut newest = vec![(0_u64, UNMAPPED); tag_count];
        let mut done = after;
        let mut touched = Vec::new();
        for erase_block in 0..to_u32(self.blocks.len() as u64) {
            let is_bad = self.blocks[erase_block as usize].state == State::Bad;
            if is_bad && nand.erase_count(erase_block) == 0 {
                continue;
            }
            let scan = self.scan(nand, after, erase_block, &mut newest)?;
            let scanned = end_of(scan.done, after);
            done = nand.both(done, scanned);
            if is_bad {
                continue;
            }
            match scan.kind {
                Some(kind) if !scan.torn => touched.push((erase_block, kind, scan)),
                None if !scan.torn && scan.programmed_pages == 0 => {}
                _ => {
                    let erased = self.erase_again(nand, scanned, erase_block)?;
                    done = nand.both(done, erased);
                }
            }
        }
        let (units, translations) = newest.split_at(unit_count);
        for (lpn, &(_, page)) in (0_u32..).zip(units) {
            if page != UNMAPPED {
                self.table.store(lpn, page);
                self.set_valid(page);
            }
        }
        for (tvpn, &(sequence, page)) in translations.iter().enumerate() {
            if page != UNMAPPED {
                self.set_valid(page);
                (self.directory[tvpn], self.directory_sequences[tvpn]) = (page, sequence);
            }
        }
        for (erase_block, kind, scan) in touched {
            self.adopt(erase_block, kind, scan.programmed_pages);
        }
        let stale: Vec<bool> = (0_u32..)
            .zip(translations)
            .map(|(tvpn, &(sequence, page))| {
                let mut units = self.table.units_of(tvpn);
                if page == UNMAPPED {
                    return units.any(|lpn| self.table.page_of(lpn) != UNMAPPED);
                }
                sequence != known_sequences[tvpn as usize]
                    || units.any(|lpn| self.table.page_of(lpn) != known[lpn as usize])
            })
            .collect();
        // A recovery that is cut short must not take them for current at the next try.
        for (sequence, _) in
            self.directory_sequences.iter_mut().zip(&stale).filter(|(_, stale)| **stale)
        {
            *sequence = 0;
        }
        match self.refresh_translations(nand, done, &stale) {
            Err(FtlError::DeviceFull) => {
                self.worn_out = true;
                Ok(done)
            }
            refreshed => refreshed,
        }
    }

    /// Writes the translation pages that differ or are missing (invariant 3).
    fn refresh_translations(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        stale: &[bool],
    ) -> Result<Ticket, FtlError> {
        let mut done = Ticket::READY;
        for tvpn in 0..to_u32(stale.len() as u64) {
            if self.directory[tvpn as usize] != UNMAPPED {
                let read = self.read_translation(nand, after, tvpn, Cause::Recovery)?;
                gather_scan(nand, &mut done, read);
            }
        }
        done = end_of(done, after);
        for (tvpn, _) in (0_u32..).zip(stale).filter(|&(_, &stale)| stale) {
            let (die, ready) = self.make_room(nand, done, Stream::Translation)?;
            done = self.program_translation(nand, ready, (die, tvpn), Cause::Recovery)?;
        }
        // Frontiers that a cut left without room are opened by the next write, within the reserve.
        while self.free_count < self.config.reserve_count {
            done = self.clean_one(nand, done)?;
        }
        Ok(done)
    }

    /// Erases what a cut left without sense; an erase block that wears out by it is retired.
    fn erase_again(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        erase_block: u32,
    ) -> Result<Ticket, FtlError> {
        match nand.erase(after, erase_block, Cause::Recovery) {
            Err(NandError::WornOut { .. }) => {
                self.take_out(erase_block);
                self.blocks[erase_block as usize].state = State::Bad;
                Ok(after)
            }
            other => Ok(other?),
        }
    }

    /// Takes an erase block out of the free ones.
    fn take_out(&mut self, erase_block: u32) {
        let home = self.die_of(erase_block);
        self.dies[home].free.retain(|&free| free != erase_block);
        self.free_count -= 1;
    }

    /// An erase block that was open goes on as a frontier of its kind, of its own die where that one
    /// has none; any other is closed.
    fn adopt(&mut self, erase_block: u32, kind: PageKind, programmed_pages: u32) {
        let home = self.die_of(erase_block);
        self.take_out(erase_block);
        self.blocks[erase_block as usize].state = State::Open;
        let streams: &[Stream] = match kind {
            PageKind::Translation => &[Stream::Translation],
            PageKind::Data if self.config.separate_copies => &[Stream::Copies, Stream::Host],
            PageKind::Data => &[Stream::Host],
        };
        let count = self.dies.len();
        let open = (home..home + count)
            .flat_map(|die| streams.iter().map(move |&stream| (die % count, stream)))
            .find(|&(die, stream)| self.room_of(die, stream) == 0);
        match open {
            Some((die, stream)) if u64::from(programmed_pages) < self.pages.value() => {
                let next_page = programmed_pages;
                self.dies[die].frontiers[stream as usize] = Frontier { erase_block, next_page };
            }
            _ => self.close(erase_block, kind),
        }
    }

    fn scan(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        erase_block: u32,
        newest: &mut [(u64, u32)],
    ) -> Result<Scan, FtlError> {
        let unit_count = self.table.unit_count();
        let mut scan = Scan { programmed_pages: 0, kind: None, torn: false, done: Ticket::READY };
        for index in 0..to_u32(self.pages.value()) {
            let page = nand.geometry().flash_page(erase_block, index);
            match nand.spare_read(after, page, Cause::Recovery) {
                Ok(read) => gather_scan(nand, &mut scan.done, read),
                Err(NandError::Torn { .. }) => {
                    scan.programmed_pages = index + 1;
                    continue;
                }
                Err(NandError::TornEraseBlock { .. }) => return Ok(Scan { torn: true, ..scan }),
                Err(error) => return Err(error.into()),
            }
            let Some(spare) = nand.spare(page) else { break };
            scan.programmed_pages = index + 1;
            self.sequence = self.sequence.max(spare.sequence);
            let tag = spare.lpns[0];
            if tag == NO_LPN {
                continue;
            }
            let tag = to_index(u64::from(tag));
            let is_data = tag < unit_count;
            scan.kind = Some(if is_data { PageKind::Data } else { PageKind::Translation });
            if spare.sequence >= newest[tag].0 {
                newest[tag] = (spare.sequence, to_u32(page.0));
            }
        }
        Ok(scan)
    }
}
