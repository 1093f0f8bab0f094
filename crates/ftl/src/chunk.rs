//! Chunk mapping with replacement chunks: what S002 section 3.3.1 infers from small flash devices, and
//! S000 section 8.4 (256 to 512 KB) from its own; steps after flash reference 2.2.2.
//!
//! A chunk is several consecutive erase blocks, so it spans as many dies as it can. The unit is the
//! flash page. A chunk is rewritten from its beginning into a fresh one, its replacement:
//!
//! ```text
//! old  [0 1 2 3 4 5 6 7]   write 2: pages 0, 1 are copied (gap fill), 2 is appended
//! new  [0 1 2 . . . . .]   write 3: appended           next = 4
//!            ▲ next        write 1, or another chunk: 4..7 are copied, old is erased (finish)
//!                          write up to 7: old is erased without a copy (switch)
//! ```
//!
//! 1. An active replacement holds the present pages below `next`; the old chunk those from it on; the
//!    log has the newest copy of what it holds.
//! 2. Physical chunks are mapped, active, free, retired, the log's or the map's; none is two of them.
//! 3. A physical chunk is free only when all its erase blocks are erased.
//! 4. It is written again only after the last of them was: pages of two uses never stand side by side.
//! 5. An erase starts after everything programmed before is durable. Spare areas tell pages of the log,
//!    of replacements and of a recovery apart, as [`PageKind`] says.
//!
//! With [`MergeMode::AllAtOnce`] only streams get a replacement. Any other write of a chunk that was
//! written before goes to a log, and when that is full every chunk in it is rewritten in one go.
//!
//! The controller is single-threaded: a finish is waited for, with its erases, before the write goes
//! on, and a write that completes a switch ends with the erases of the old chunk. Copies run in
//! parallel over the dies that the chunk spans.

mod log;
mod recovery;

use crate::config::{LayerConfig, flash_pages_of, on_each_plane};
use crate::contract::check_range;
use crate::fast::LOG_PAGE_BYTES;
use crate::hybrid::block_map::PageKind;
use crate::settled::{Settled, end_of};
use crate::stock::{Condition, Stock};
use crate::{Ftl, FtlError, MergeCounts, ReadOutcome};
use nandu_base::{Cause, Lpn, Nanos, Ppn, to_index, to_u32};
use nandu_nand::{Content, Geometry, NandArray, NandError, Payload, Ticket};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

use log::ChunkLog;

/// A chunk, if nobody says how large: S000 section 8.4 has 256 to 512 KB.
const CHUNK_BYTES: u64 = 512 << 10;
const NONE: u32 = u32::MAX;
/// Bytes of a chunk's entry in a map page.
const MAP_ENTRY_BYTES: u32 = 4;

/// Parameters of [`ChunkFtl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChunkConfig {
    /// Bytes of a chunk, a multiple of the erase block.
    pub chunk_bytes: u64,
    /// Replacement chunks that may be open at once, 1 or more.
    #[serde(default = "one")]
    pub active_chunk_count: u32,
    /// Whether neighbouring pages of a chunk lie on different erase blocks, or fill one by one.
    #[serde(default = "yes")]
    pub interleave: bool,
    /// Whether copies stay inside the plane where source and destination share one (no bus).
    #[serde(default)]
    pub copy_back: bool,
    /// Whether every page that the host writes is followed by a program of mapping information.
    #[serde(default)]
    pub map_write_per_page_write: bool,
    /// Map pages that the controller holds, the least recently used one leaving; a miss costs one
    /// flash read. 0 = the whole map is in memory.
    #[serde(default)]
    pub map_cache_chunks: u32,
    /// What a write does that does not go on where the last one in its chunk ended.
    #[serde(default)]
    pub merge_mode: MergeMode,
    /// Pages of the log of [`MergeMode::AllAtOnce`], 1 or more; nothing elsewhere.
    #[serde(default = "log_page_count")]
    pub log_page_count: u32,
}

impl ChunkConfig {
    /// Chunks of so many bytes with one replacement, everything else as a profile leaves it out.
    #[must_use]
    pub const fn new(chunk_bytes: u64) -> Self {
        Self {
            chunk_bytes,
            active_chunk_count: one(),
            interleave: yes(),
            copy_back: false,
            map_write_per_page_write: false,
            map_cache_chunks: 0,
            merge_mode: MergeMode::Replacement,
            log_page_count: log_page_count(),
        }
    }

    /// Whether mapping information has a chunk of its own.
    const fn uses_map(&self) -> bool {
        self.map_write_per_page_write || self.map_cache_chunks > 0
    }

    /// Chunks that the log takes, of `pages` pages each.
    pub(crate) fn log_chunk_count(&self, pages: u64) -> u64 {
        match self.merge_mode {
            MergeMode::Replacement => 0,
            MergeMode::AllAtOnce => u64::from(self.log_page_count).div_ceil(pages.max(1)),
        }
    }
}

impl LayerConfig for ChunkConfig {
    fn small(erase_block_bytes: u64) -> Self {
        Self::new(4 * erase_block_bytes)
    }

    fn needed(erase_block_bytes: u64) -> Vec<(&'static str, u64)> {
        vec![("chunk_bytes", CHUNK_BYTES.next_multiple_of(erase_block_bytes.max(1)))]
    }

    /// It maps chunks of many units.
    fn memory_bytes_per_unit(&self) -> u64 {
        1
    }

    fn blocks_aside(&self, shape: &Geometry, _: u64) -> u64 {
        let chunk_blocks = self.chunk_bytes.div_ceil(shape.erase_block_bytes());
        let log_chunks = self.log_chunk_count(flash_pages_of(shape, self.chunk_bytes));
        let chunks = u64::from(self.active_chunk_count) + 3 + log_chunks;
        on_each_plane(shape, chunk_blocks.saturating_mul(chunks))
    }

    fn erase_blocks_merged_together(&self, erase_block_bytes: u64) -> u64 {
        self.chunk_bytes / erase_block_bytes.max(1)
    }

    fn build(
        &self,
        nand: &NandArray,
        unit_count: u64,
        _seed: u64,
    ) -> Result<Box<dyn Ftl>, FtlError> {
        Ok(Box::new(ChunkFtl::new(self, nand, unit_count)?))
    }
}

/// When chunks are rewritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeMode {
    /// One by one, at the write that needs it.
    #[default]
    Replacement,
    /// All that a log of `log_page_count` pages holds, when it is full.
    AllAtOnce,
}

const fn one() -> u32 {
    1
}

/// The period that S002 figure 3.2 shows.
const fn log_page_count() -> u32 {
    2000
}

const fn yes() -> bool {
    true
}

#[derive(Clone, Copy, Debug)]
struct Active {
    logical: u32,
    old: u32,
    new: u32,
    next: u32,
}

/// A translation layer that maps whole chunks: see the module.
#[derive(Clone, Debug)]
pub struct ChunkFtl {
    config: ChunkConfig,
    page_bytes: u32,
    blocks: u32,
    pages: u32,
    unit_count: u64,
    map: Vec<u32>,
    present: Vec<u64>,
    active: Vec<Active>,
    free: VecDeque<u32>,
    retired_count: u32,
    physical_count: u32,
    /// Ends with the erase of a physical chunk; it takes no page before (invariant 4).
    ready: Vec<Ticket>,
    /// Everything that was programmed so far (invariant 5).
    settled: Settled,
    /// Ends with the last merge or erase: the controller does nothing else meanwhile.
    busy: Ticket,
    map_chunk: u32,
    map_position: u32,
    map_cache: VecDeque<u32>,
    log: ChunkLog,
    sequence: u64,
    /// After a recovery for which too few chunks are left: where each unit lies. Nothing is written or
    /// moved any more.
    worn_out: Option<Vec<Ppn>>,
    host_reads: u64,
    host_writes: u64,
    merges: MergeCounts,
}

impl ChunkFtl {
    /// A layer of `unit_count` flash pages over a fresh `nand`.
    ///
    /// # Errors
    /// [`FtlError::Configuration`] if the chunk is no multiple of the erase block or the array has too
    /// few chunks.
    pub fn new(config: &ChunkConfig, nand: &NandArray, unit_count: u64) -> Result<Self, FtlError> {
        let geometry = nand.geometry();
        let fail = |text: String| Err(FtlError::Configuration(text));
        let block_bytes = geometry.erase_block_bytes();
        if config.chunk_bytes == 0 || !config.chunk_bytes.is_multiple_of(block_bytes) {
            return fail(format!(
                "ftl: chunk_bytes is {}, must be a multiple of the erase block of {block_bytes} bytes",
                config.chunk_bytes
            ));
        }
        if nand.config().units_per_flash_page != 1 {
            return fail(
                "ftl: chunks map whole flash pages; units_per_flash_page must be 1".into(),
            );
        }
        if config.active_chunk_count == 0 {
            return fail("ftl: active_chunk_count is 0, must be at least 1".into());
        }
        if config.merge_mode == MergeMode::AllAtOnce && config.log_page_count == 0 {
            return fail("ftl: log_page_count is 0, must be at least 1".into());
        }
        if unit_count == 0 {
            return fail("ftl: there are no units".into());
        }
        let wide_blocks = config.chunk_bytes / block_bytes;
        let physical = u64::from(geometry.erase_block_count()) / wide_blocks;
        let chunk_pages = config.chunk_bytes / u64::from(geometry.flash_page_bytes);
        let logical = unit_count.div_ceil(chunk_pages);
        let uses_map = config.uses_map();
        let blocks = to_u32(wide_blocks.min(u64::from(geometry.erase_block_count())));
        let condition = |chunk: u32| Condition::of(nand, chunk * blocks..(chunk + 1) * blocks);
        let is_good = |&chunk: &u32| condition(chunk) == Condition::Good;
        let mut free: VecDeque<u32> = (0..to_u32(physical)).filter(is_good).collect();
        let retired_count = to_u32(physical - free.len() as u64);
        let log_chunks = config.log_chunk_count(chunk_pages);
        let aside = u64::from(config.active_chunk_count) + 1 + u64::from(uses_map) + log_chunks;
        let (needed, stock) = (logical + aside, Stock::of((0..to_u32(physical)).map(condition)));
        if needed > stock.usable_count() {
            return Err(stock.refusal(unit_count, (needed, aside), blocks));
        }
        let map_chunk = if uses_map { free.pop_front().unwrap_or(NONE) } else { NONE };
        let mut log = ChunkLog::new(config, unit_count);
        log.chunks.extend(free.drain(..to_index(log_chunks).min(free.len())));
        Ok(Self {
            config: *config,
            page_bytes: geometry.flash_page_bytes,
            blocks,
            pages: to_u32(chunk_pages),
            unit_count,
            map: vec![NONE; to_index(logical)],
            present: vec![0; to_index(unit_count.div_ceil(64))],
            active: Vec::with_capacity(config.active_chunk_count as usize),
            free,
            retired_count,
            physical_count: to_u32(physical),
            ready: vec![Ticket::READY; to_index(physical)],
            settled: Settled::default(),
            busy: Ticket::READY,
            map_chunk,
            map_position: 0,
            map_cache: VecDeque::new(),
            log,
            sequence: 0,
            worn_out: None,
            host_reads: 0,
            host_writes: 0,
            merges: MergeCounts::default(),
        })
    }

    fn split(&self, lpn: u64) -> (u32, u32) {
        let pages = u64::from(self.pages);
        (to_u32(lpn / pages), to_u32(lpn % pages))
    }

    fn is_present(&self, lpn: u64) -> bool {
        self.present[to_index(lpn / 64)] >> (lpn % 64) & 1 == 1
    }

    fn page_at(&self, nand: &NandArray, chunk: u32, offset: u32) -> Ppn {
        let per_block = nand.geometry().flash_pages_per_erase_block;
        let (block, index) = if self.config.interleave {
            (offset % self.blocks, offset / self.blocks)
        } else {
            (offset / per_block, offset % per_block)
        };
        nand.geometry().flash_page(chunk * self.blocks + block, index)
    }

    /// Where a present page lies (invariant 1).
    fn locate(&self, nand: &NandArray, lpn: u64) -> Option<Ppn> {
        if !self.is_present(lpn) {
            return None;
        }
        if let Some(places) = &self.worn_out {
            return Some(places[to_index(lpn)]);
        }
        if let Some(slot) = self.log.slot(lpn) {
            return Some(self.log_page(nand, slot));
        }
        let (logical, offset) = self.split(lpn);
        let active = self.active.iter().find(|active| active.logical == logical);
        let chunk = match active {
            Some(active) if offset < active.next => active.new,
            Some(active) => active.old,
            None => self.map[logical as usize],
        };
        Some(self.page_at(nand, chunk, offset))
    }

    fn log_page(&self, nand: &NandArray, slot: u32) -> Ppn {
        let chunk = self.log.chunks[(slot / self.pages) as usize];
        self.page_at(nand, chunk, slot % self.pages)
    }

    /// Copies the present pages `from..to` of an active chunk to its replacement, all waiting for `after`.
    fn copy(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        active: Active,
        (from, to, cause): (u32, u32, Cause),
    ) -> Result<Ticket, FtlError> {
        let mut done = Ticket::READY;
        let stride = nand.geometry().die_count() * nand.geometry().planes_per_die;
        for offset in from..to {
            let lpn = u64::from(active.logical) * u64::from(self.pages) + u64::from(offset);
            let logged = lpn < self.unit_count && self.log.slot(lpn).is_some();
            if lpn >= self.unit_count || !logged && active.old == NONE || !self.is_present(lpn) {
                continue;
            }
            let Some(source) = self.locate(nand, lpn) else { continue };
            let target = self.page_at(nand, active.new, offset);
            let same_plane = active.old * self.blocks % stride == active.new * self.blocks % stride;
            let copied = if self.config.copy_back && same_plane && !logged {
                self.sequence += 1;
                let sequence = PageKind::Owned.tag(self.sequence);
                let copied = nand.copy_back(after, (source, target), sequence, cause)?;
                self.settled.add(nand, copied);
                copied
            } else {
                let read = nand.read(after, source, self.page_bytes, cause)?;
                let page = (to_u32(lpn), nand.content(source, 0));
                self.program(nand, read, target, page, (PageKind::Owned, cause))?
            };
            self.log.forget(lpn);
            nand.gather(&mut done, copied);
        }
        Ok(end_of(done, after))
    }

    fn program(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        target: Ppn,
        (lpn, content): (u32, Content),
        (kind, cause): (PageKind, Cause),
    ) -> Result<Ticket, FtlError> {
        self.sequence += 1;
        let (lpns, contents) = ([lpn], [content]);
        let sequence = kind.tag(self.sequence);
        let payload = Payload { lpns: &lpns, sequence, contents: &contents };
        let done = nand.program(after, target, payload, cause)?;
        self.settled.add(nand, done);
        Ok(done)
    }

    /// Erases the old chunk and gives it back; one that wears out is retired.
    fn release(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        chunk: u32,
        cause: Cause,
    ) -> Result<Ticket, FtlError> {
        if chunk == NONE {
            return Ok(after);
        }
        let start = self.settled.and(nand, after);
        let mut done = Ticket::READY;
        for block in 0..self.blocks {
            match nand.erase(start, chunk * self.blocks + block, cause) {
                Ok(erased) => nand.gather(&mut done, erased),
                Err(NandError::WornOut { .. } | NandError::BadEraseBlock { .. }) => {
                    self.retired_count += 1;
                    return Ok(end_of(done, start));
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.ready[chunk as usize] = done;
        self.busy = done;
        self.free.push_back(chunk);
        Ok(done)
    }

    /// Ends an active chunk: its rest is copied, its old chunk erased.
    fn finish(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        (index, cause): (usize, Cause),
    ) -> Result<Ticket, FtlError> {
        let active = self.active[index];
        let copied = self.copy(nand, after, active, (active.next, self.pages, cause))?;
        self.busy = copied;
        self.active.remove(index);
        self.map[active.logical as usize] = active.new;
        self.count_merge(active, cause);
        self.release(nand, copied, active.old, cause)
    }

    /// A chunk that replaces none is no merge.
    const fn count_merge(&mut self, active: Active, cause: Cause) {
        if active.old == NONE {
            return;
        }
        match cause {
            Cause::MergeFull => self.merges.full_count += 1,
            Cause::MergePartial => self.merges.partial_count += 1,
            _ => self.merges.switch_count += 1,
        }
    }

    /// Whether a write goes to the log: its chunk was written before, and it neither goes on where the
    /// replacement ended nor belongs to a stream.
    fn is_logged(&mut self, lpn: u64, (logical, offset): (u32, u32)) -> bool {
        if !self.log.is_on() || self.log.is_stream(lpn, (offset, self.pages)) {
            return false;
        }
        match self.active.iter().find(|active| active.logical == logical) {
            Some(active) => {
                let is_gap = offset > active.next && active.old == NONE;
                offset != active.next && !is_gap
            }
            None => self.map[logical as usize] != NONE,
        }
    }

    /// Appends to the log; one that is full is emptied first.
    fn write_log(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        (lpn, content): (u32, Content),
    ) -> Result<Ticket, FtlError> {
        let after = if self.log.is_full() { self.empty_log(nand, after)? } else { after };
        // Wear may have left too few for a whole log when it was emptied.
        self.complete_log()?;
        let page = self.log_page(nand, self.log.used);
        let chunk = self.log.chunks[(self.log.used / self.pages) as usize];
        let after = nand.both(after, self.ready[chunk as usize]);
        let kind = (PageKind::Shared, Cause::Host);
        let done = self.program(nand, after, page, (lpn, content), kind)?;
        self.log.put(lpn);
        Ok(done)
    }

    /// Rewrites every chunk with a logged page and erases the log.
    fn empty_log(&mut self, nand: &mut NandArray, after: Ticket) -> Result<Ticket, FtlError> {
        let mut after = after;
        while !self.active.is_empty() {
            after = self.finish(nand, after, (0, Cause::MergePartial))?;
        }
        for logical in self.log.logged_chunks(self.pages) {
            let (index, ready) = self.open(nand, after, logical)?;
            after = self.finish(nand, ready, (index, Cause::MergeFull))?;
        }
        let used_chunks = self.log.used.div_ceil(self.pages);
        self.log.clear();
        for _ in 0..used_chunks {
            let chunk = self.log.chunks.remove(0);
            after = self.release(nand, after, chunk, Cause::MergeFull)?;
        }
        self.complete_log()?;
        Ok(after)
    }

    /// Gives the log the chunks that it lacks.
    fn complete_log(&mut self) -> Result<(), FtlError> {
        let wanted = self.config.log_chunk_count(u64::from(self.pages));
        while (self.log.chunks.len() as u64) < wanted {
            let chunk = self.free.pop_front().ok_or(FtlError::DeviceFull)?;
            self.log.chunks.push(chunk);
        }
        Ok(())
    }

    fn open(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        logical: u32,
    ) -> Result<(usize, Ticket), FtlError> {
        let old = self.map[logical as usize];
        let stride = nand.geometry().die_count() * nand.geometry().planes_per_die;
        let aligned = |chunk: &u32| {
            u64::from(*chunk) * u64::from(self.blocks) % u64::from(stride)
                == u64::from(old) * u64::from(self.blocks) % u64::from(stride)
        };
        let wants_alignment = self.config.copy_back && old != NONE;
        let choice = if wants_alignment { self.free.iter().position(aligned) } else { None };
        let new = self.free.remove(choice.unwrap_or(0)).ok_or(FtlError::DeviceFull)?;
        self.active.push(Active { logical, old, new, next: 0 });
        Ok((self.active.len() - 1, nand.both(after, self.ready[new as usize])))
    }

    /// The active record that takes a write at `offset` of `logical` next, other ones finished.
    fn prepare(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        (logical, offset): (u32, u32),
    ) -> Result<(usize, Ticket), FtlError> {
        let mut after = after;
        if let Some(index) = self.active.iter().position(|active| active.logical == logical) {
            if offset >= self.active[index].next {
                // The most recently used one stands last.
                let active = self.active.remove(index);
                self.active.push(active);
                // The erases that its first page waited for may still be under way.
                after = nand.both(after, self.ready[active.new as usize]);
                return Ok((self.active.len() - 1, after));
            }
            after = self.finish(nand, after, (index, Cause::MergePartial))?;
        } else if self.active.len() == self.config.active_chunk_count as usize {
            after = self.finish(nand, after, (0, Cause::MergePartial))?;
        }
        self.open(nand, after, logical)
    }

    /// Reads the map page of a chunk where the controller does not hold it.
    fn look_up(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        logical: u32,
    ) -> Result<Ticket, FtlError> {
        // Wear may have left no chunk for the map.
        if self.config.map_cache_chunks == 0 || self.map_chunk == NONE {
            return Ok(after);
        }
        let map_page = logical / (self.page_bytes / MAP_ENTRY_BYTES).max(1);
        if let Some(position) = self.map_cache.iter().position(|&held| held == map_page) {
            self.map_cache.remove(position);
            self.map_cache.push_back(map_page);
            return Ok(after);
        }
        if self.map_cache.len() == self.config.map_cache_chunks as usize {
            self.map_cache.pop_front();
        }
        self.map_cache.push_back(map_page);
        let page = self.page_at(nand, self.map_chunk, map_page % self.pages);
        Ok(nand.read(after, page, self.page_bytes, Cause::MapRead)?)
    }

    /// The map's page for a page that the host wrote, where the controller writes one.
    fn after_write(&mut self, nand: &mut NandArray, done: Ticket) -> Result<Ticket, FtlError> {
        if self.config.map_write_per_page_write { self.write_map(nand, done) } else { Ok(done) }
    }

    /// Programs the next page of the map's own chunk, which is given back for another when it is full.
    fn write_map(&mut self, nand: &mut NandArray, after: Ticket) -> Result<Ticket, FtlError> {
        let mut after = after;
        if self.map_position == self.pages {
            let full = std::mem::replace(&mut self.map_chunk, NONE);
            after = self.release(nand, after, full, Cause::MapWrite)?;
            self.map_chunk = self.free.pop_front().ok_or(FtlError::DeviceFull)?;
            self.map_position = 0;
        }
        after = nand.both(after, self.ready[self.map_chunk as usize]);
        let page = self.page_at(nand, self.map_chunk, self.map_position);
        self.map_position += 1;
        let kind = (PageKind::Owned, Cause::MapWrite);
        self.program(nand, after, page, (nandu_nand::NO_LPN, None), kind)
    }
}

impl Ftl for ChunkFtl {
    fn unit_bytes(&self) -> u32 {
        self.page_bytes
    }

    fn unit_count(&self) -> u64 {
        self.unit_count
    }

    fn read(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        lpn: Lpn,
        bytes: u32,
    ) -> Result<ReadOutcome, FtlError> {
        check_range(lpn, 1, self.unit_count)?;
        self.host_reads += 1;
        let after = match self.worn_out {
            Some(_) => after,
            None => self.look_up(nand, after, self.split(lpn.0).0)?,
        };
        let Some(page) = self.locate(nand, lpn.0) else {
            return Ok(ReadOutcome { done: after, content: None });
        };
        let done = nand.read(after, page, bytes.min(self.page_bytes), Cause::Host)?;
        Ok(ReadOutcome { done, content: nand.content(page, 0) })
    }

    fn peek(&self, nand: &NandArray, lpn: Lpn) -> Content {
        if lpn.0 >= self.unit_count {
            return None;
        }
        self.locate(nand, lpn.0).and_then(|page| nand.content(page, 0))
    }

    fn write(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        lpn: Lpn,
        content: Content,
    ) -> Result<Ticket, FtlError> {
        check_range(lpn, 1, self.unit_count)?;
        if self.worn_out.is_some() {
            return Err(FtlError::DeviceFull);
        }
        let (logical, offset) = self.split(lpn.0);
        // One thing at a time: a merge ends before the next write begins.
        let after = nand.both(after, self.busy);
        let after = self.look_up(nand, after, logical)?;
        if self.is_logged(lpn.0, (logical, offset)) {
            let done = self.write_log(nand, after, (to_u32(lpn.0), content))?;
            self.present[to_index(lpn.0 / 64)] |= 1 << (lpn.0 % 64);
            self.host_writes += 1;
            return self.after_write(nand, done);
        }
        let (index, after) = self.prepare(nand, after, (logical, offset))?;
        let active = self.active[index];
        let after = self.copy(nand, after, active, (active.next, offset, Cause::MergePartial))?;
        let page = self.page_at(nand, active.new, offset);
        let kind = (PageKind::Owned, Cause::Host);
        let mut done = self.program(nand, after, page, (to_u32(lpn.0), content), kind)?;
        self.present[to_index(lpn.0 / 64)] |= 1 << (lpn.0 % 64);
        self.log.forget(lpn.0);
        self.active[index].next = offset + 1;
        self.host_writes += 1;
        done = self.after_write(nand, done)?;
        if offset + 1 == self.pages {
            self.active.remove(index);
            self.map[logical as usize] = active.new;
            self.count_merge(active, Cause::MergeSwitch);
            done = self.release(nand, done, active.old, Cause::MergeSwitch)?;
        }
        Ok(done)
    }

    fn moves_others(&self, lpn: Lpn) -> bool {
        let (logical, offset) = self.split(lpn.0);
        match self.active.iter().find(|active| active.logical == logical) {
            Some(active) => offset < active.next,
            None => self.active.len() == self.config.active_chunk_count as usize,
        }
    }

    fn trim(
        &mut self,
        _nand: &mut NandArray,
        after: Ticket,
        first: Lpn,
        count: u64,
    ) -> Result<Ticket, FtlError> {
        check_range(first, count, self.unit_count)?;
        for lpn in first.0..first.0 + count {
            self.present[to_index(lpn / 64)] &= !(1 << (lpn % 64));
            self.log.forget(lpn);
        }
        Ok(after)
    }

    fn flush(&mut self, _nand: &mut NandArray, after: Ticket) -> Result<Ticket, FtlError> {
        Ok(after)
    }

    fn idle(&mut self, _nand: &mut NandArray, _now: Nanos, _until: Nanos) {}

    fn initialise_sequential(&mut self, nand: &mut NandArray) -> Result<(), FtlError> {
        if self.sequence > 0 {
            return Err(FtlError::NotFresh);
        }
        let accounting = nand.begin_preparation();
        let filled = self.fill(nand);
        nand.end_preparation(accounting);
        filled?;
        self.settled = Settled::default();
        self.busy = Ticket::READY;
        self.ready.fill(Ticket::READY);
        self.host_writes = 0;
        self.map_cache.clear();
        Ok(())
    }

    fn recover(&mut self, nand: &mut NandArray, after: Ticket) -> Result<Ticket, FtlError> {
        match self.rebuild(nand, after) {
            Err(FtlError::DeviceFull) => self.rebuild_for_reading(nand, after),
            rebuilt => rebuilt,
        }
    }

    fn host_pages(&self) -> (u64, u64) {
        (self.host_reads, self.host_writes)
    }

    fn merges(&self) -> Option<MergeCounts> {
        Some(self.merges)
    }

    fn map_bytes(&self) -> u64 {
        let log_bytes = u64::from(self.log.page_count) * LOG_PAGE_BYTES;
        self.map.len() as u64 * u64::from(MAP_ENTRY_BYTES) + log_bytes
    }

    fn audit(&self, nand: &NandArray) {
        if self.worn_out.is_none() {
            self.audit_chunks(nand);
        }
        for lpn in 0..self.unit_count {
            if let Some(page) = self.locate(nand, lpn) {
                let spare = nand.spare(page).expect("invariant 1: a present page is programmed");
                assert_eq!(u64::from(spare.lpns[0]), lpn, "invariant 1: the tag names the unit");
            }
        }
    }
}

impl ChunkFtl {
    /// Writes every unit in order.
    fn fill(&mut self, nand: &mut NandArray) -> Result<(), FtlError> {
        for lpn in 0..self.unit_count {
            self.write(nand, Ticket::READY, Lpn(lpn), None)?;
        }
        while !self.active.is_empty() {
            self.finish(nand, Ticket::READY, (0, Cause::MergePartial))?;
        }
        Ok(())
    }

    /// Invariants 2 and 3.
    fn audit_chunks(&self, nand: &NandArray) {
        let mut used = vec![0_u32; self.physical_count as usize];
        let active = self.active.iter().map(|active| active.new);
        let own = self.log.chunks.iter().copied().chain([self.map_chunk]);
        for chunk in self.map.iter().copied().chain(active).chain(own) {
            if chunk != NONE {
                used[chunk as usize] += 1;
            }
        }
        for &chunk in &self.free {
            used[chunk as usize] += 1;
            for offset in 0..self.pages {
                let page = self.page_at(nand, chunk, offset);
                assert!(nand.spare(page).is_none(), "invariant 3: chunk {chunk} is erased");
            }
        }
        assert!(used.iter().all(|&count| count <= 1), "invariant 2: no chunk has two roles");
        let unused = used.iter().filter(|&&count| count == 0).count();
        assert_eq!(unused, self.retired_count as usize, "invariant 2: no chunk is lost");
    }
}
