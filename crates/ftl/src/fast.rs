//! FAST, fully-associative sector translation (Lee, Park, Chung, Lee, Park, Song, ACM TECS 6(3) 2007;
//! flash reference 2.4): all logical blocks share the log.
//!
//! ```text
//! sequential log block  [0 1 2 .]  of one logical block, from its first page on
//! ring of log blocks    [7 3 9 3] [1 8 . .]    any page, in the order of writing
//!                        ▲ oldest: when the ring is full, every logical block with a
//!                          valid page in it is merged in full, and it is erased
//! ```
//!
//! A write at the next page of the sequential block is appended there. One past it completes the block
//! with the page in its place (partial merge), one below it costs a full merge; full it is switched.
//!
//! 1. The ring holds its blocks in the order of their first program; all but the last are full, or were
//!    cut short by a power failure.
//! 2. Ring and sequential block together are at most the log blocks configured.
//! 3. After a full merge of a logical block no log block holds a valid page of it.
//! 4. Every readable page of the sequential block belongs to its owner and lies in its place.
//!
//! Opening a sequential block at every write of a first page is the original rule; under purely random
//! writes it costs a partial merge for one write in B. The two-page rule copies the first page from the
//! log (one read, one program) when the second follows it; it is this project's.

use crate::config::LayerConfig;
use crate::hybrid::block_map::{BlockMap, MERGE_RESERVE, NONE, PageKind};
use crate::hybrid::{HybridFtl, LogScheme, LogSpace, Survivors};
use crate::{Ftl, FtlError};
use nandu_base::Cause;
use nandu_nand::{Content, Geometry, NandArray, Ticket};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Bytes of a log page's entry: logical page and sequence.
pub(crate) const LOG_PAGE_BYTES: u64 = 8;

/// What opens a sequential log block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SequentialTrigger {
    /// A write of the first page of a logical block.
    #[default]
    Offset0,
    /// The second page of a logical block, written right after the first.
    Run2,
    /// Nothing does: there is no sequential log block.
    Off,
}

/// Parameters of [`FastFtl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FastConfig {
    /// Log blocks, the sequential one included; at least 2, without a sequential one 1.
    pub log_block_count: Option<u32>,
    /// Without `log_block_count`: log pages per million logical pages.
    pub log_ppm: u32,
    /// What opens the sequential log block.
    pub sw_trigger: SequentialTrigger,
}

impl Default for FastConfig {
    fn default() -> Self {
        Self { log_block_count: None, log_ppm: 30_000, sw_trigger: SequentialTrigger::Offset0 }
    }
}

impl FastConfig {
    fn log_space(&self) -> LogSpace {
        let least = if self.sw_trigger == SequentialTrigger::Off { 1 } else { 2 };
        LogSpace { block_count: self.log_block_count, ppm: self.log_ppm, least }
    }
}

impl LayerConfig for FastConfig {
    fn small(_: u64) -> Self {
        Self { log_block_count: Some(6), ..Self::default() }
    }

    fn blocks_aside(&self, shape: &Geometry, logical_bytes: u64) -> u64 {
        self.log_space().blocks_aside(shape, logical_bytes, MERGE_RESERVE)
    }

    fn build(
        &self,
        nand: &NandArray,
        unit_count: u64,
        _seed: u64,
    ) -> Result<Box<dyn Ftl>, FtlError> {
        Ok(Box::new(FastFtl::new(self, nand, unit_count)?))
    }
}

/// The ring and the sequential block.
#[derive(Clone, Debug)]
pub struct FullyAssociative {
    config: FastConfig,
    log_block_count: u32,
    ring_capacity: usize,
    ring: VecDeque<u32>,
    /// The logical block that is written in order, and the erase block that it goes to.
    sequential: Option<(u32, u32)>,
    last_lpn: u32,
}

/// A layer whose logical blocks share their log.
pub type FastFtl = HybridFtl<FullyAssociative>;

impl FastFtl {
    /// A layer of `unit_count` flash pages over a fresh `nand`.
    ///
    /// # Errors
    /// [`FtlError::Configuration`] with too few log blocks, if flash pages are shared by units, or if
    /// the erase blocks do not hold units, log and one more block.
    pub fn new(config: &FastConfig, nand: &NandArray, unit_count: u64) -> Result<Self, FtlError> {
        config.log_space().check()?;
        let pages = nand.geometry().flash_pages_per_erase_block;
        let count = config.log_space().resolve(unit_count, pages);
        let map = BlockMap::new(nand, unit_count, count, MERGE_RESERVE)?;
        let sequential = usize::from(config.sw_trigger != SequentialTrigger::Off);
        let scheme = FullyAssociative {
            config: *config,
            log_block_count: count,
            ring_capacity: count as usize - sequential,
            ring: VecDeque::with_capacity(count as usize + 1),
            sequential: None,
            last_lpn: NONE,
        };
        Ok(Self::from_parts(map, scheme))
    }
}

impl FullyAssociative {
    /// Appends to the ring; the oldest block makes room.
    fn append(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
        page: (u32, Content),
    ) -> Result<Ticket, FtlError> {
        let mut after = after;
        let block = match self.ring.back() {
            Some(&open) if !map.is_full(open) => open,
            _ => {
                while self.ring.len() >= self.ring_capacity {
                    after = self.reclaim(map, nand, after)?;
                }
                let block = map.take()?;
                self.ring.push_back(block);
                block
            }
        };
        let place = (block, map.next(block));
        map.program(nand, after, place, page, (PageKind::Shared, Cause::Host))
    }

    /// Merges every logical block with a valid page in the oldest block of the ring, and erases it.
    fn reclaim(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
    ) -> Result<Ticket, FtlError> {
        let oldest = *self.ring.front().expect("a ring that is full has an oldest block");
        let mut after = after;
        for index in 0..map.next(oldest) {
            if let Some(lpn) = map.valid_lpn(nand, (oldest, index)) {
                after = self.merge(map, nand, after, lpn)?;
            }
        }
        after = map.release(nand, after, oldest, Cause::MergeFull)?;
        self.ring.pop_front();
        Ok(after)
    }

    /// Merges the logical block of a page in the ring. Where it owns the sequential block and the page
    /// lies behind, completing that block is enough.
    fn merge(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
        lpn: u32,
    ) -> Result<Ticket, FtlError> {
        let (logical, offset) = map.split(lpn);
        match self.sequential {
            Some((owner, block)) if owner == logical && offset >= map.next(block) => {
                self.close(map, nand, after, None)
            }
            Some((owner, _)) if owner == logical => self.close_in_full(map, nand, after, None),
            _ => map.merge_full(nand, after, logical, None),
        }
    }

    /// Makes the sequential block, if there is one, the data block; `host` is put in its place.
    fn close(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
        host: Option<(u32, Content)>,
    ) -> Result<Ticket, FtlError> {
        let Some(owned) = self.sequential else { return Ok(after) };
        let done = map.merge_owned(nand, after, owned, host)?;
        self.sequential = None;
        Ok(done)
    }

    /// Merges sequential block and data block into a fresh one.
    fn close_in_full(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
        host: Option<(u32, Content)>,
    ) -> Result<Ticket, FtlError> {
        let Some((logical, block)) = self.sequential else { return Ok(after) };
        let merged = map.merge_full(nand, after, logical, host)?;
        let done = map.release(nand, merged, block, Cause::MergeFull)?;
        self.sequential = None;
        Ok(done)
    }

    /// Opens a sequential block for a page that claims it; the page before it is copied there.
    fn open_sequential(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
        lpn: u32,
    ) -> Result<Ticket, FtlError> {
        let mut after = self.close(map, nand, after, None)?;
        let (logical, offset) = map.split(lpn);
        let block = map.take()?;
        self.sequential = Some((logical, block));
        if offset > 0 && map.locate(lpn - 1).is_some() {
            let kind = (PageKind::Owned, Cause::MergePartial);
            after = map.copy(nand, after, lpn - 1, (block, offset - 1), kind)?;
        }
        Ok(after)
    }

    fn append_sequential(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
        page: (u32, Content),
    ) -> Result<Ticket, FtlError> {
        let (_, block) = self.sequential.expect("the caller found or opened it");
        let place = (block, map.split(page.0).1);
        let done = map.program(nand, after, place, page, (PageKind::Owned, Cause::Host))?;
        if map.is_full(block) { self.close(map, nand, done, None) } else { Ok(done) }
    }
}

impl LogScheme for FullyAssociative {
    fn write(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
        page: (u32, Content),
    ) -> Result<Ticket, FtlError> {
        let last_lpn = std::mem::replace(&mut self.last_lpn, page.0);
        if let Some(place) = map.place_in_data(page.0)? {
            return map.program(nand, after, place, page, (PageKind::Owned, Cause::Host));
        }
        let (logical, offset) = map.split(page.0);
        let own = self.sequential.filter(|&(owner, _)| owner == logical);
        let next = own.map(|(_, block)| map.next(block));
        let claims = match self.config.sw_trigger {
            SequentialTrigger::Offset0 => offset == 0,
            SequentialTrigger::Run2 => {
                offset == 1 && last_lpn.wrapping_add(1) == page.0 && next != Some(1)
            }
            SequentialTrigger::Off => false,
        };
        if claims {
            let after = self.open_sequential(map, nand, after, page.0)?;
            return self.append_sequential(map, nand, after, page);
        }
        match next {
            Some(next) if offset == next => self.append_sequential(map, nand, after, page),
            Some(next) if offset > next => self.close(map, nand, after, Some(page)),
            // A first page may begin the next run: it waits in the ring for the second.
            Some(_) if offset > 0 => self.close_in_full(map, nand, after, Some(page)),
            _ => self.append(map, nand, after, page),
        }
    }

    fn adopt(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
        mut survivors: Survivors,
    ) -> Result<Ticket, FtlError> {
        (self.sequential, self.last_lpn) = (None, NONE);
        let mut after = after;
        if self.config.sw_trigger != SequentialTrigger::Off {
            self.sequential = survivors.owned.pop_if(|&mut (logical, block)| {
                !map.is_full(block) && map.lies_in_place(nand, block, logical)
            });
        }
        self.ring.clear();
        for &(logical, block) in &survivors.owned {
            if map.lies_in_place(nand, block, logical) {
                after = map.merge_owned(nand, after, (logical, block), None)?;
            } else {
                self.ring.push_back(block);
            }
        }
        self.ring.extend(&survivors.shared);
        while self.ring.len() > self.ring_capacity {
            after = self.reclaim(map, nand, after)?;
        }
        Ok(after)
    }

    fn log_map_bytes(&self, map: &BlockMap) -> u64 {
        u64::from(self.log_block_count) * u64::from(map.pages()) * LOG_PAGE_BYTES
    }

    fn log_blocks(&self) -> Vec<u32> {
        self.ring.iter().copied().chain(self.sequential.map(|(_, block)| block)).collect()
    }

    fn audit(&self, map: &BlockMap, nand: &NandArray) {
        let mut last_sequence = 0;
        for &block in &self.ring {
            let pages = (0..map.next(block)).map(|index| nand.geometry().flash_page(block, index));
            let Some(spare) = pages.filter_map(|page| nand.spare(page)).next() else { continue };
            let owned = PageKind::of(spare.sequence) != PageKind::Shared;
            assert!(owned || spare.sequence > last_sequence, "invariant 1: the order of the ring");
            last_sequence = if owned { last_sequence } else { spare.sequence };
        }
        let count = self.log_blocks().len();
        assert!(count <= self.log_block_count as usize, "invariant 2: {count} log blocks");
        assert!(self.ring.len() <= self.ring_capacity, "invariant 2: the ring");
        if let Some((logical, block)) = self.sequential {
            assert!(map.lies_in_place(nand, block, logical), "invariant 4: erase block {block}");
        }
        let idle = self.log_block_count as usize - count;
        let needed = map.unowned_logical_count() + idle + MERGE_RESERVE as usize;
        let worn = map.worn_count() as usize;
        assert!(map.free_count() + worn >= needed, "the pool covers what may be asked of it");
    }
}
