//! Rebuilding block map and log from the spare areas (flash reference 2.10, method A and the last rule).
//!
//! Every spare area is read, because blocks may have gaps. Then, erase block by erase block:
//!
//! 1. Nothing readable, or a full merge without its last copy: erased.
//! 2. A complete full merge supersedes every older block that its logical block owns: those are erased.
//! 3. Of the blocks that a logical block owns, the oldest whose pages lie in their places is the data
//!    block; younger ones and those out of place are owned log blocks.
//! 4. Blocks of shared pages are log blocks, oldest first.
//! 5. Of all copies of a page the one with the highest sequence number is mapped. A second recovery
//!    finds the same; sequence numbers go on above the highest seen.
//! 6. A worn-out block is read too: the cut may have undone the copies that made its erase due. Where it
//!    has mapped pages it stays in use, full; else it is retired.

use super::block_map::{BlockMap, BlockState, NONE, PageKind};
use crate::FtlError;
use crate::settled::{Settled, end_of, gather_scan};
use nandu_base::{Cause, to_u32};
use nandu_nand::{NO_LPN, NandArray, NandError, Ticket};

/// What a recovery found besides data blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Survivors {
    /// Ends with it.
    pub(crate) done: Ticket,
    /// (logical block, erase block) of owned log blocks, oldest first.
    pub(crate) owned: Vec<(u32, u32)>,
    /// Log blocks of shared pages, oldest first.
    pub(crate) shared: Vec<u32>,
}

impl Survivors {
    /// The erase blocks of all logs.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = u32> {
        self.owned.iter().map(|&(_, block)| block).chain(self.shared.iter().copied())
    }
}

#[derive(Clone, Copy, Debug)]
struct Found {
    block: u32,
    next: u32,
    kind: PageKind,
    first_sequence: u64,
    logical: u32,
    in_place: bool,
    ended: bool,
}

impl BlockMap {
    /// Reads all spare areas and maps what they tell.
    pub(super) fn rebuild(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
    ) -> Result<Survivors, FtlError> {
        self.newest.fill(NONE);
        self.data.fill(NONE);
        self.free.clear();
        self.blocks.fill(BlockState::default());
        (self.retired_count, self.settled) = (0, Settled::with(after));
        self.busy = after;
        let mut found = Vec::new();
        let mut erasable = Vec::new();
        let mut survivors = Survivors::default();
        for block in 0..to_u32(self.blocks.len() as u64) {
            let (scan, readable) = self.scan(nand, after, block, &mut survivors.done)?;
            match scan {
                Some(scan) => found.push(scan),
                None if nand.is_bad(block) => self.retired_count += 1,
                None if readable => self.free.push_back(block),
                None => erasable.push(block),
            }
        }
        found.sort_unstable_by_key(|scan| scan.first_sequence);
        let kept = self.keep(&found, &mut erasable);
        self.map_newest(nand, &kept);
        self.classify(nand, kept, &mut survivors);
        let scanned = end_of(survivors.done, after);
        survivors.done = scanned;
        for block in erasable {
            // Each erase waits for the one before, since all of them follow `survivors.done`.
            survivors.done = self.release(nand, scanned, block, Cause::Recovery)?;
        }
        Ok(survivors)
    }

    /// What the spare areas of a block say; none if there is nothing to read, and then whether it is
    /// erased.
    fn scan(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        block: u32,
        scanned: &mut Ticket,
    ) -> Result<(Option<Found>, bool), FtlError> {
        let (mut found, mut erased) = (None::<Found>, true);
        for index in 0..self.pages() {
            let page = nand.geometry().flash_page(block, index);
            match nand.spare_read(after, page, Cause::Recovery) {
                Ok(read) => gather_scan(nand, scanned, read),
                Err(NandError::Torn { .. }) => {
                    erased = false;
                    if let Some(found) = &mut found {
                        found.next = index + 1;
                    }
                    continue;
                }
                Err(NandError::TornEraseBlock { .. }) => return Ok((None, false)),
                Err(error) => return Err(error.into()),
            }
            let Some(spare) = nand.spare(page) else { continue };
            let (kind, lpn) = (PageKind::of(spare.sequence), spare.lpns[0]);
            erased = false;
            self.sequence = self.sequence.max(spare.sequence >> 2);
            if lpn == NO_LPN || u64::from(lpn) >= self.unit_count() {
                continue;
            }
            let (logical, offset) = self.split(lpn);
            let found = found.get_or_insert(Found {
                block,
                next: 0,
                kind,
                first_sequence: spare.sequence,
                logical,
                in_place: true,
                ended: false,
            });
            found.next = index + 1;
            found.in_place &= offset == index && logical == found.logical;
            found.ended |= kind == PageKind::MergeEnd;
        }
        Ok((found, erased))
    }

    /// Rules 1 and 2; `found` and the answer are sorted by age.
    fn keep(&self, found: &[Found], erasable: &mut Vec<u32>) -> Vec<Found> {
        // Young to old, so that a complete merge is seen before what it supersedes.
        let mut superseded = vec![false; self.data.len()];
        let mut kept = Vec::with_capacity(found.len());
        for scan in found.iter().rev() {
            let merged = matches!(scan.kind, PageKind::Merged | PageKind::MergeEnd);
            let shared = scan.kind == PageKind::Shared;
            if !shared && (superseded[scan.logical as usize] || merged && !scan.ended) {
                erasable.push(scan.block);
                continue;
            }
            superseded[scan.logical as usize] |= merged;
            kept.push(*scan);
        }
        kept.reverse();
        kept
    }

    /// Rules 3, 4 and 6; `kept` is sorted by age.
    fn classify(&mut self, nand: &NandArray, kept: Vec<Found>, survivors: &mut Survivors) {
        for scan in kept {
            let worn = nand.is_bad(scan.block);
            if worn && self.valid(scan.block) == 0 {
                self.retired_count += 1;
                continue;
            }
            // A worn-out block keeps its valid pages and is taken as full, so that no page is
            // programmed into it.
            self.blocks[scan.block as usize].next = if worn { self.pages() } else { scan.next };
            let data = &mut self.data[scan.logical as usize];
            match scan.kind {
                PageKind::Shared => survivors.shared.push(scan.block),
                _ if *data == NONE && scan.in_place => *data = scan.block,
                _ => survivors.owned.push((scan.logical, scan.block)),
            }
        }
    }

    /// Rule 5, over the blocks that are kept.
    fn map_newest(&mut self, nand: &NandArray, kept: &[Found]) {
        let mut highest = vec![0; self.newest.len()];
        for scan in kept {
            for index in 0..scan.next {
                let page = nand.geometry().flash_page(scan.block, index);
                let Some(spare) = nand.spare(page) else { continue };
                let lpn = spare.lpns[0] as usize;
                if lpn < highest.len() && spare.sequence >= highest[lpn] {
                    highest[lpn] = spare.sequence;
                    self.newest[lpn] = to_u32(page.0);
                }
            }
        }
        for lpn in 0..to_u32(self.unit_count()) {
            let holder = self.holder(lpn);
            if holder != NONE {
                self.blocks[holder as usize].valid += 1;
            }
        }
    }
}
