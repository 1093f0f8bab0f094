//! What the log-block layers share: where the newest copy of every page lies, the pool of erase blocks,
//! and the three merges (Kim et al. 2002, Lee et al. 2007; flash reference 2.3, 2.4 and 2.10).
//!
//! ```text
//! switch   log  [0 1 2 3]            becomes the data block                        1 erase
//! partial  log  [0 1 · ·] + 2 3      becomes the data block after B-k copies       1 erase
//! full     new  [0 1 2 3]            newest copies of all; old data block erased   1 erase,
//!                                    and one for the log block once it is empty
//! ```
//!
//! A controller needs a block map and the tags of its log pages to find the newest copy. The simulator
//! keeps the answer, a flat table, so that a look-up is one load; the layers report what a controller
//! would need ([`crate::Ftl::map_bytes`]).
//!
//! 1. A mapped page is programmed, its tag names it, and it lies in its place in the data block of
//!    its logical block, or in a log block.
//! 2. The valid count of an erase block is the number of mapped pages in it.
//! 3. Erase blocks are data, log, free or retired; none is two of them. Free ones are erased.
//! 4. An erase starts after everything programmed or erased before has ended, so the copies of what
//!    it destroys are durable, and erases happen in the order of their causes.
//! 5. Spare areas tell a page's kind in the two low bits of the sequence number: page of a shared
//!    log, page of an owned block, copy of a full merge, last copy of it. A full merge without its last
//!    copy never happened: recovery erases it, and by invariant 4 its sources are all there.
//!
//! With `paired_pages` a cut may also destroy an acknowledged neighbour, here as in every layer
//! without a copy of it.

use crate::settled::{Settled, end_of};
use crate::stock::Stock;
use crate::{FtlError, MergeCounts, ReadOutcome};
use nandu_base::{Cause, Ppn, to_index, to_u32};
use nandu_nand::{Content, Divisor, NO_LPN, NandArray, NandError, Payload, Ticket};
use std::collections::VecDeque;

/// Stands for the absence of an erase block or a page.
pub(crate) const NONE: u32 = u32::MAX;
/// Bytes of an entry of the block map.
const ENTRY_BYTES: u64 = 4;
/// Erase blocks that a full merge needs to work with.
pub(crate) const MERGE_RESERVE: u32 = 1;

/// What the spare area says of a page (invariant 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageKind {
    /// In a log block that logical blocks share.
    Shared,
    /// Written in place, or to a log block that one logical block owns.
    Owned,
    /// A copy that a full merge made.
    Merged,
    /// The last copy of a full merge, which makes it count.
    MergeEnd,
}

impl PageKind {
    pub(crate) const fn of(sequence: u64) -> Self {
        match sequence & 3 {
            0 => Self::Shared,
            1 => Self::Owned,
            2 => Self::Merged,
            _ => Self::MergeEnd,
        }
    }

    /// The sequence number with the kind in its low bits.
    pub(crate) const fn tag(self, sequence: u64) -> u64 {
        let bits = match self {
            Self::Shared => 0,
            Self::Owned => 1,
            Self::Merged => 2,
            Self::MergeEnd => 3,
        };
        sequence << 2 | bits
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlockState {
    pub(super) valid: u32,
    pub(super) next: u32,
}

/// Newest copies, data blocks and the pool.
#[derive(Clone, Debug)]
pub(crate) struct BlockMap {
    page_bytes: u32,
    pub(super) pages: Divisor,
    pub(super) newest: Vec<u32>,
    pub(super) data: Vec<u32>,
    pub(super) blocks: Vec<BlockState>,
    pub(super) free: VecDeque<u32>,
    pub(super) retired_count: u32,
    pub(super) sequence: u64,
    /// Everything that was programmed or erased so far (invariant 4).
    pub(super) settled: Settled,
    /// Ends with the last merge or erase: the controller does nothing else meanwhile.
    pub(super) busy: Ticket,
    host_reads: u64,
    host_writes: u64,
    pub(super) merges: MergeCounts,
}

impl BlockMap {
    /// Over a fresh `nand`, or one that is recovered next, for `unit_count` pages and a layer that
    /// holds up to `log_count` log blocks
    /// and works with `reserve_count` more.
    pub(crate) fn new(
        nand: &NandArray,
        unit_count: u64,
        log_count: u32,
        reserve_count: u32,
    ) -> Result<Self, FtlError> {
        let geometry = nand.geometry();
        let fail = |text: String| Err(FtlError::Configuration(text));
        if unit_count == 0 {
            return fail("ftl: there are no units".into());
        }
        if nand.config().units_per_flash_page != 1 {
            let text = "ftl: block maps place whole flash pages; units_per_flash_page must be 1";
            return fail(text.into());
        }
        if geometry.flash_page_count() >= u64::from(NO_LPN) {
            let count = geometry.flash_page_count();
            return fail(format!("ftl: {count} flash pages are past 32-bit addresses"));
        }
        let pages = u64::from(geometry.flash_pages_per_erase_block);
        let logical = unit_count.div_ceil(pages);
        let free: VecDeque<u32> =
            (0..geometry.erase_block_count()).filter(|&block| !nand.is_bad(block)).collect();
        let aside = u64::from(log_count) + u64::from(reserve_count);
        let (needed, stock) = (logical + aside, Stock::of_blocks(nand));
        if needed > stock.usable_count() {
            return Err(stock.refusal(unit_count, (needed, aside), 1));
        }
        let total = geometry.erase_block_count();
        Ok(Self {
            page_bytes: geometry.flash_page_bytes,
            pages: Divisor::new(pages),
            newest: vec![NONE; to_index(unit_count)],
            data: vec![NONE; to_index(logical)],
            blocks: vec![BlockState::default(); total as usize],
            retired_count: total - to_u32(free.len() as u64),
            free,
            sequence: 0,
            settled: Settled::default(),
            busy: Ticket::READY,
            host_reads: 0,
            host_writes: 0,
            merges: MergeCounts::default(),
        })
    }

    pub(crate) const fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    pub(crate) const fn unit_count(&self) -> u64 {
        self.newest.len() as u64
    }

    /// Flash pages of an erase block.
    pub(crate) fn pages(&self) -> u32 {
        to_u32(self.pages.value())
    }

    /// How many logical blocks there are.
    pub(crate) const fn logical_count(&self) -> usize {
        self.data.len()
    }

    pub(crate) fn free_count(&self) -> usize {
        self.free.len()
    }

    /// Logical blocks that may still ask the pool for a data block.
    pub(crate) fn unowned_logical_count(&self) -> usize {
        self.data.iter().filter(|&&block| block == NONE).count()
    }

    /// Erase blocks that are no longer used.
    pub(crate) const fn worn_count(&self) -> u32 {
        self.retired_count
    }

    pub(crate) const fn host_pages(&self) -> (u64, u64) {
        (self.host_reads, self.host_writes)
    }

    pub(crate) const fn count_host_write(&mut self) {
        self.host_writes += 1;
    }

    pub(crate) const fn is_fresh(&self) -> bool {
        self.sequence == 0
    }

    /// Takes all that was written for done, after the cells were filled without taking time.
    pub(crate) const fn forget_times(&mut self) {
        self.settled = Settled::with(Ticket::READY);
        self.busy = Ticket::READY;
    }

    pub(crate) const fn block_map_bytes(&self) -> u64 {
        self.data.len() as u64 * ENTRY_BYTES
    }

    /// Logical block and offset of a page.
    #[inline]
    pub(crate) fn split(&self, lpn: u32) -> (u32, u32) {
        let (block, offset) = self.pages.div_rem(u64::from(lpn));
        (to_u32(block), to_u32(offset))
    }

    /// The page after the last one that was programmed.
    #[inline]
    pub(crate) fn next(&self, block: u32) -> u32 {
        self.blocks[block as usize].next
    }

    /// Whether an erase block takes no more pages.
    #[inline]
    pub(crate) fn is_full(&self, block: u32) -> bool {
        u64::from(self.next(block)) == self.pages.value()
    }

    pub(crate) fn valid(&self, block: u32) -> u32 {
        self.blocks[block as usize].valid
    }

    /// Where the newest copy of a page lies.
    #[inline]
    pub(crate) fn locate(&self, lpn: u32) -> Option<Ppn> {
        let page = self.newest[lpn as usize];
        (page != NONE).then_some(Ppn(u64::from(page)))
    }

    /// The erase block that holds the newest copy of a page, or [`NONE`].
    #[inline]
    pub(crate) fn holder(&self, lpn: u32) -> u32 {
        match self.newest[lpn as usize] {
            NONE => NONE,
            page => to_u32(self.pages.div_rem(u64::from(page)).0),
        }
    }

    /// The logical pages of a logical block.
    pub(crate) fn lpns(&self, logical: u32) -> std::ops::Range<u32> {
        let first = u64::from(logical) * self.pages.value();
        to_u32(first)..to_u32((first + self.pages.value()).min(self.unit_count()))
    }

    /// The logical page whose newest copy is at `index` of an erase block.
    pub(crate) fn valid_lpn(&self, nand: &NandArray, (block, index): (u32, u32)) -> Option<u32> {
        let page = nand.geometry().flash_page(block, index);
        let lpn = nand.spare(page)?.lpns[0];
        let newest = *self.newest.get(lpn as usize)?;
        (u64::from(newest) == page.0).then_some(lpn)
    }

    /// Whether every readable page of an erase block lies in its place in `logical`.
    pub(crate) fn lies_in_place(&self, nand: &NandArray, block: u32, logical: u32) -> bool {
        let first = self.lpns(logical).start;
        (0..self.next(block)).all(|index| {
            let spare = nand.spare(nand.geometry().flash_page(block, index));
            spare.is_none_or(|spare| [NO_LPN, first + index].contains(&spare.lpns[0]))
        })
    }

    pub(crate) fn read(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        lpn: u32,
        bytes: u32,
    ) -> Result<ReadOutcome, FtlError> {
        self.host_reads += 1;
        let Some(page) = self.locate(lpn) else {
            return Ok(ReadOutcome { done: after, content: None });
        };
        let done = nand.read(after, page, bytes.min(self.page_bytes), Cause::Host)?;
        Ok(ReadOutcome { done, content: nand.content(page, 0) })
    }

    /// Takes an erased block out of the pool.
    pub(crate) fn take(&mut self) -> Result<u32, FtlError> {
        self.free.pop_front().ok_or(FtlError::DeviceFull)
    }

    /// The place of a page in its data block, where that is still erased and the program order allows
    /// it; a logical block without a data block gets one.
    pub(crate) fn place_in_data(&mut self, lpn: u32) -> Result<Option<(u32, u32)>, FtlError> {
        let (logical, offset) = self.split(lpn);
        let mut block = self.data[logical as usize];
        if block == NONE {
            block = self.take()?;
            self.data[logical as usize] = block;
        }
        Ok((offset >= self.next(block)).then_some((block, offset)))
    }

    /// Programs a page and maps it there.
    #[inline]
    pub(crate) fn program(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        (block, index): (u32, u32),
        (lpn, content): (u32, Content),
        (kind, cause): (PageKind, Cause),
    ) -> Result<Ticket, FtlError> {
        self.sequence += 1;
        let page = nand.geometry().flash_page(block, index);
        let (lpns, contents) = ([lpn], [content]);
        let sequence = kind.tag(self.sequence);
        let payload = Payload { lpns: &lpns, sequence, contents: &contents };
        let done = nand.program(after, page, payload, cause)?;
        self.settled.add(nand, done);
        self.unmap(lpn);
        self.newest[lpn as usize] = to_u32(page.0);
        let state = &mut self.blocks[block as usize];
        (state.valid, state.next) = (state.valid + 1, index + 1);
        Ok(done)
    }

    #[inline]
    fn unmap(&mut self, lpn: u32) {
        let holder = self.holder(lpn);
        if holder != NONE {
            self.blocks[holder as usize].valid -= 1;
            self.newest[lpn as usize] = NONE;
        }
    }

    /// Copies the newest copy of a mapped page; the read waits for `after`.
    pub(crate) fn copy(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        lpn: u32,
        place: (u32, u32),
        (kind, cause): (PageKind, Cause),
    ) -> Result<Ticket, FtlError> {
        let source = self.locate(lpn).expect("only mapped pages are copied");
        let read = nand.read(after, source, self.page_bytes, cause)?;
        let content = nand.content(source, 0);
        self.program(nand, read, place, (lpn, content), (kind, cause))
    }

    /// Erases a block without valid pages and gives it back; one that is worn out is retired.
    pub(crate) fn release(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        block: u32,
        cause: Cause,
    ) -> Result<Ticket, FtlError> {
        assert_eq!(self.valid(block), 0, "erase block {block} has no valid page when it is erased");
        let start = self.settled.and(nand, after);
        self.blocks[block as usize].next = 0;
        match nand.erase(start, block, cause) {
            Ok(done) => {
                self.settled = Settled::with(done);
                self.busy = done;
                self.free.push_back(block);
                Ok(done)
            }
            Err(NandError::WornOut { .. } | NandError::BadEraseBlock { .. }) => {
                self.retired_count += 1;
                Ok(start)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Full merge: the newest copies of a logical block, `host` among them, go to a fresh data block,
    /// and the old one is erased. Log blocks of that logical block are left without valid pages.
    pub(crate) fn merge_full(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        logical: u32,
        mut host: Option<(u32, Content)>,
    ) -> Result<Ticket, FtlError> {
        let lpns = self.lpns(logical);
        let first = lpns.start;
        let host_lpn = host.as_ref().map_or(NONE, |&(lpn, _)| lpn);
        let exists = |lpn: u32| lpn == host_lpn || self.newest[lpn as usize] != NONE;
        let last = lpns.clone().rev().find(|&lpn| exists(lpn));
        let target = if last.is_some() { self.take()? } else { NONE };
        let mut done = Ticket::READY;
        for lpn in lpns.start..last.map_or(lpns.start, |last| last + 1) {
            let kind = if Some(lpn) == last { PageKind::MergeEnd } else { PageKind::Merged };
            let place = (target, lpn - first);
            let programmed = match host.take_if(|&mut (host_lpn, _)| host_lpn == lpn) {
                Some(page) => self.program(nand, after, place, page, (kind, Cause::Host))?,
                None if self.newest[lpn as usize] == NONE => continue,
                None => self.copy(nand, after, lpn, place, (kind, Cause::MergeFull))?,
            };
            nand.gather(&mut done, programmed);
        }
        let done = end_of(done, after);
        self.busy = done;
        self.merges.full_count += 1;
        let old = std::mem::replace(&mut self.data[logical as usize], target);
        if old == NONE { Ok(done) } else { self.release(nand, done, old, Cause::MergeFull) }
    }

    /// Whether the data block of `logical` holds no newest page below `next` of the log block, so that
    /// this one can take its place.
    pub(crate) fn supersedes_data(&self, logical: u32, log: u32) -> bool {
        let (lpns, old) = (self.lpns(logical), self.data[logical as usize]);
        let behind = (lpns.start + self.next(log)).min(lpns.end);
        old == NONE || (lpns.start..behind).all(|lpn| self.holder(lpn) != old)
    }

    /// Switch or partial merge: a log block whose pages lie in their places, owned by `logical`, gets
    /// the newest copies of the pages behind `next`, `host` among them, and becomes the data block. Where
    /// the old data block holds newer pages below `next`, it is a full merge after all.
    pub(crate) fn merge_owned(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        (logical, log): (u32, u32),
        mut host: Option<(u32, Content)>,
    ) -> Result<Ticket, FtlError> {
        let lpns = self.lpns(logical);
        let old = self.data[logical as usize];
        let behind = (lpns.start + self.next(log)).min(lpns.end);
        let host_lpn = host.as_ref().map_or(NONE, |&(lpn, _)| lpn);
        if host_lpn < behind || !self.supersedes_data(logical, log) {
            let merged = self.merge_full(nand, after, logical, host)?;
            return self.release(nand, merged, log, Cause::MergeFull);
        }
        let (mut done, mut cause) = (Ticket::READY, Cause::MergeSwitch);
        for lpn in behind..lpns.end {
            let place = (log, lpn - lpns.start);
            let programmed = match host.take_if(|&mut (host_lpn, _)| host_lpn == lpn) {
                Some(page) => {
                    self.program(nand, after, place, page, (PageKind::Owned, Cause::Host))?
                }
                None if self.newest[lpn as usize] == NONE => continue,
                None => {
                    cause = Cause::MergePartial;
                    self.copy(nand, after, lpn, place, (PageKind::Owned, cause))?
                }
            };
            nand.gather(&mut done, programmed);
        }
        let done = end_of(done, after);
        self.busy = done;
        match cause {
            Cause::MergePartial => self.merges.partial_count += 1,
            _ => self.merges.switch_count += 1,
        }
        self.data[logical as usize] = log;
        if old == NONE { Ok(done) } else { self.release(nand, done, old, cause) }
    }

    /// Full merges of every logical block with a valid page in a log block, in slot order, which leave
    /// it without valid pages; then it is erased.
    pub(crate) fn merge_all_of(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        log: u32,
    ) -> Result<Ticket, FtlError> {
        let mut after = after;
        for index in 0..self.next(log) {
            if let Some(lpn) = self.valid_lpn(nand, (log, index)) {
                after = self.merge_full(nand, after, self.split(lpn).0, None)?;
            }
        }
        self.release(nand, after, log, Cause::MergeFull)
    }

    /// Forgets the pages `first..end`; a data block without valid pages is erased at once.
    pub(crate) fn trim(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        (first, end): (u32, u32),
    ) -> Result<Ticket, FtlError> {
        let mut after = after;
        for lpn in first..end {
            self.unmap(lpn);
            let (logical, offset) = self.split(lpn);
            if lpn + 1 < end && offset + 1 < self.pages() {
                continue;
            }
            let block = self.data[logical as usize];
            if block != NONE && self.valid(block) == 0 && self.next(block) > 0 {
                self.data[logical as usize] = NONE;
                after = self.release(nand, after, block, Cause::Cleaning)?;
            }
        }
        Ok(after)
    }

    /// Asserts the invariants of this file; `log` are the erase blocks that the layer holds.
    pub(crate) fn audit(&self, nand: &NandArray, log: &[u32]) {
        let mut role = vec!['-'; self.blocks.len()];
        let data = self.data.iter().filter(|&&block| block != NONE).map(|&block| (block, 'd'));
        let log = log.iter().map(|&block| (block, 'l'));
        let free = self.free.iter().map(|&block| (block, 'f'));
        for (block, new) in data.chain(log).chain(free) {
            let old = std::mem::replace(&mut role[block as usize], new);
            assert_eq!(old, '-', "invariant 3: erase block {block} has one role, not also {new}");
        }
        let lost = role.iter().filter(|&&role| role == '-').count();
        assert_eq!(lost, self.retired_count as usize, "invariant 3: no erase block is lost");
        for &block in &self.free {
            let page = nand.geometry().flash_page(block, 0);
            assert_eq!(self.next(block), 0, "invariant 3: free erase block {block} is erased");
            assert!(nand.spare(page).is_none(), "invariant 3: free erase block {block} is erased");
        }
        let mut valid = vec![0; self.blocks.len()];
        for lpn in 0..to_u32(self.unit_count()) {
            let Some(page) = self.locate(lpn) else { continue };
            let spare = nand.spare(page).expect("invariant 1: a mapped page is programmed");
            assert_eq!(spare.lpns[0], lpn, "invariant 1: the tag names the page");
            let (block, index) = nand.geometry().locate(page);
            let (logical, offset) = self.split(lpn);
            let in_place = self.data[logical as usize] == block && index == offset;
            assert!(in_place || role[block as usize] == 'l', "invariant 1: page {lpn}");
            valid[block as usize] += 1;
        }
        for (block, state) in (0..).zip(&self.blocks) {
            assert_eq!(state.valid, valid[block], "invariant 2: erase block {block}");
        }
    }
}
