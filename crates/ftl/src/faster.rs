//! FASTer (Lim, Lee, Moon, SNAPI 2010, and S003; flash reference 2.5): FAST's ring with a second chance
//! for what is still valid, and an isolation area that merges cold pages little by little.
//!
//! ```text
//!  host ─▶ open log block ┐                          ┌─ valid in a host block: copied to the open
//!                         ├─▶ ring ─▶ oldest block ──┤  second-chance block, back into the ring
//!  copies ▶ second-chance ┘                          └─ valid a second time: isolation block, its
//!           block                                       logical block queued for a merge
//! ```
//!
//! The chance is spent by the block a page lies in: second-chance copies have open blocks of their own,
//! without which the published deviation of the variant without isolation does not appear. That deviation
//! is a fit, therefore, and no prediction (`s003/table-2-response-time`).
//! Merges of queued logical blocks are spread over the host writes until the next block is reclaimed;
//! idle time does them earlier. Without isolation they are all done at once.
//!
//! 1. A page gets at most one second chance: a host write puts it into a host block again.
//! 2. Ring and isolation area are at most the log blocks configured, the area at most its own share.
//! 3. Every valid page of the isolation area belongs to a queued logical block.
//! 4. Each logical block is queued at most once.
//! 5. The ring holds its blocks in the order in which they were opened.
//!
//! The size of the isolation area and the exact pace are not published; both are this project's, and so
//! is the rule that without a spare erase block pages are merged instead of given their chance.
//! There is no sequential log block; whether the experiments of S003 had one is not known.

use crate::config::LayerConfig;
use crate::fast::LOG_PAGE_BYTES;
use crate::hybrid::block_map::{BlockMap, MERGE_RESERVE, NONE, PageKind};
use crate::hybrid::{HybridFtl, LogScheme, LogSpace, Survivors};
use crate::{Ftl, FtlError};
use nandu_base::{Cause, Nanos, to_u32};
use nandu_nand::{Content, Geometry, NandArray, Ticket};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Reclaiming needs a block for its copies besides that of a merge.
const RESERVE: u32 = MERGE_RESERVE + 1;

/// Parameters of [`FasterFtl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FasterConfig {
    /// Log blocks, those of the isolation area included; at least 2 more than these.
    pub log_block_count: Option<u32>,
    /// Without `log_block_count`: log pages per million logical pages.
    pub log_ppm: u32,
    /// Whether pages that survive twice are isolated; else their logical blocks are merged at once.
    pub isolation: bool,
    /// Most erase blocks of the isolation area, 1 or more.
    pub isolation_block_count: u32,
    /// Host writes over which the merges of a reclaimed block are spread, in percent of the pages of an
    /// erase block, at most one with each.
    pub merge_span_percent: u32,
}

impl Default for FasterConfig {
    fn default() -> Self {
        Self {
            log_block_count: None,
            log_ppm: 30_000,
            isolation: true,
            isolation_block_count: 2,
            merge_span_percent: 100,
        }
    }
}

impl FasterConfig {
    const fn isolation_blocks(&self) -> u32 {
        if self.isolation { self.isolation_block_count } else { 0 }
    }

    const fn log_space(&self) -> LogSpace {
        let least = self.isolation_blocks().saturating_add(2);
        LogSpace { block_count: self.log_block_count, ppm: self.log_ppm, least }
    }
}

impl LayerConfig for FasterConfig {
    fn small(_: u64) -> Self {
        Self { log_block_count: Some(6), ..Self::default() }
    }

    fn blocks_aside(&self, shape: &Geometry, logical_bytes: u64) -> u64 {
        self.log_space().blocks_aside(shape, logical_bytes, RESERVE)
    }

    fn build(
        &self,
        nand: &NandArray,
        unit_count: u64,
        _seed: u64,
    ) -> Result<Box<dyn Ftl>, FtlError> {
        Ok(Box::new(FasterFtl::new(self, nand, unit_count)?))
    }
}

#[derive(Clone, Copy, Debug)]
struct LogBlock {
    block: u32,
    /// Whether its pages have had their second chance.
    second: bool,
}

/// Merges that wait, and how fast they are done.
#[derive(Clone, Debug)]
struct MergeQueue {
    logical: VecDeque<u32>,
    /// By logical block; an entry of the queue without its flag is stale.
    queued: Vec<bool>,
    count: u32,
    /// Merges due per span of host writes, and what is due so far, in parts of the span.
    rate: u32,
    due: u32,
    /// Host writes over which they are spread, 1 or more.
    span: u32,
}

/// Ring, isolation area and the queue of merges.
#[derive(Clone, Debug)]
pub struct SecondChance {
    config: FasterConfig,
    log_block_count: u32,
    ring_capacity: usize,
    ring: VecDeque<LogBlock>,
    /// Open blocks of the ring, or none.
    host: u32,
    second: u32,
    /// Erase blocks of the isolation area, oldest first; the last one may be open.
    isolation: VecDeque<u32>,
    queue: MergeQueue,
}

/// A layer whose logical blocks share their log, with second chances and an isolation area.
pub type FasterFtl = HybridFtl<SecondChance>;

impl FasterFtl {
    /// A layer of `unit_count` flash pages over a fresh `nand`.
    ///
    /// # Errors
    /// [`FtlError::Configuration`] with too few log blocks, an isolation area without blocks, if flash
    /// pages are shared by units, or if the erase blocks do not hold units, log and two more blocks.
    pub fn new(config: &FasterConfig, nand: &NandArray, unit_count: u64) -> Result<Self, FtlError> {
        if config.isolation && config.isolation_block_count == 0 {
            let text = "ftl: isolation_block_count is 0, must be at least 1; or isolation = false";
            return Err(FtlError::Configuration(text.into()));
        }
        config.log_space().check()?;
        let pages = nand.geometry().flash_pages_per_erase_block;
        let count = config.log_space().resolve(unit_count, pages);
        let map = BlockMap::new(nand, unit_count, count, RESERVE)?;
        let scheme = SecondChance {
            config: *config,
            log_block_count: count,
            ring_capacity: (count - config.isolation_blocks()) as usize,
            ring: VecDeque::with_capacity(count as usize + 2),
            host: NONE,
            second: NONE,
            isolation: VecDeque::with_capacity(config.isolation_blocks() as usize),
            queue: MergeQueue {
                logical: VecDeque::new(),
                queued: vec![false; map.logical_count()],
                count: 0,
                rate: 0,
                due: 0,
                span: (pages * config.merge_span_percent.min(10_000) / 100).max(1),
            },
        };
        Ok(Self::from_parts(map, scheme))
    }
}

impl MergeQueue {
    fn push(&mut self, logical: u32) {
        if !std::mem::replace(&mut self.queued[logical as usize], true) {
            self.logical.push_back(logical);
            self.count += 1;
        }
    }

    fn forget(&mut self, logical: u32) {
        if std::mem::replace(&mut self.queued[logical as usize], false) {
            self.count -= 1;
        }
    }

    /// The next logical block that still waits.
    fn pop(&mut self) -> Option<u32> {
        while let Some(logical) = self.logical.pop_front() {
            if self.queued[logical as usize] {
                self.forget(logical);
                return Some(logical);
            }
        }
        None
    }

    /// A block was reclaimed: what waits is spread over the next host writes.
    fn pace(&mut self) {
        (self.rate, self.due) = (self.count, 0);
    }

    /// Whether a merge is due after a host write; at most one is.
    fn is_due(&mut self) -> bool {
        self.due += self.rate;
        if self.due < self.span {
            return false;
        }
        self.due = (self.due - self.span).min(self.span);
        true
    }
}

impl SecondChance {
    /// A place in the open block of the host; the oldest blocks of the ring make room.
    fn host_place(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
    ) -> Result<((u32, u32), Ticket), FtlError> {
        let mut after = after;
        if self.host == NONE || map.is_full(self.host) {
            self.host = NONE;
            while self.ring.len() >= self.ring_capacity {
                after = self.reclaim(map, nand, after)?;
            }
            self.host = map.take()?;
            self.ring.push_back(LogBlock { block: self.host, second: false });
        }
        Ok(((self.host, map.next(self.host)), after))
    }

    /// Empties the oldest block of the ring and erases it.
    fn reclaim(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
    ) -> Result<Ticket, FtlError> {
        let oldest = *self.ring.front().expect("a ring that is full has an oldest block");
        if self.second == oldest.block {
            self.second = NONE;
        }
        let mut after = after;
        for index in 0..map.next(oldest.block) {
            let Some(lpn) = map.valid_lpn(nand, (oldest.block, index)) else { continue };
            after = match (oldest.second, self.config.isolation) {
                (false, _) => self.give_chance(map, nand, after, lpn)?,
                (true, true) => self.isolate(map, nand, after, lpn)?,
                (true, false) => self.merge(map, nand, after, map.split(lpn).0)?,
            };
        }
        let cause = match (oldest.second, self.config.isolation) {
            (false, _) => Cause::SecondChance,
            (true, true) => Cause::Isolation,
            (true, false) => Cause::MergeFull,
        };
        after = map.release(nand, after, oldest.block, cause)?;
        self.ring.pop_front();
        self.queue.pace();
        Ok(after)
    }

    /// Copies a page to the open second-chance block.
    fn give_chance(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
        lpn: u32,
    ) -> Result<Ticket, FtlError> {
        if self.second == NONE || map.is_full(self.second) {
            if map.free_count() <= MERGE_RESERVE as usize {
                return self.merge(map, nand, after, map.split(lpn).0);
            }
            self.second = map.take()?;
            self.ring.push_back(LogBlock { block: self.second, second: true });
        }
        let place = (self.second, map.next(self.second));
        map.copy(nand, after, lpn, place, (PageKind::Shared, Cause::SecondChance))
    }

    /// Copies a page to the open isolation block and queues its logical block.
    fn isolate(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
        lpn: u32,
    ) -> Result<Ticket, FtlError> {
        let logical = map.split(lpn).0;
        let mut after = after;
        let mut open = self.isolation.back().copied().filter(|&block| !map.is_full(block));
        if open.is_none() {
            after = self.make_isolation_room(map, nand, after)?;
            // Making room merges blocks. A merge may have copied this very page already, which then
            // no longer lies in the oldest log block.
            let moved = map.locate(lpn).is_none_or(|page| {
                let oldest = self.ring.front().map(|oldest| oldest.block);
                oldest != Some(nand.geometry().locate(page).0)
            });
            if moved {
                return Ok(after);
            }
            if map.free_count() <= MERGE_RESERVE as usize {
                return self.merge(map, nand, after, logical);
            }
            let block = map.take()?;
            self.isolation.push_back(block);
            open = Some(block);
        }
        let block = open.expect("opened above where none was");
        let place = (block, map.next(block));
        let done = map.copy(nand, after, lpn, place, (PageKind::Shared, Cause::Isolation))?;
        self.queue.push(logical);
        Ok(done)
    }

    /// Merges from the queue until the area has room for a block.
    fn make_isolation_room(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
    ) -> Result<Ticket, FtlError> {
        let capacity = self.config.isolation_blocks() as usize;
        let mut after = self.release_isolated(map, nand, after)?;
        while self.isolation.len() >= capacity {
            after = self.merge_next(map, nand, after)?;
            after = self.release_isolated(map, nand, after)?;
        }
        Ok(after)
    }

    /// Erases full isolation blocks without valid pages.
    fn release_isolated(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
    ) -> Result<Ticket, FtlError> {
        let mut after = after;
        let mut position = 0;
        while let Some(&block) = self.isolation.get(position) {
            if map.valid(block) == 0 && map.is_full(block) {
                after = map.release(nand, after, block, Cause::Isolation)?;
                self.isolation.remove(position);
            } else {
                position += 1;
            }
        }
        Ok(after)
    }

    /// Merges the first queued logical block that still has an isolated page.
    fn merge_next(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
    ) -> Result<Ticket, FtlError> {
        while let Some(logical) = self.queue.pop() {
            let isolated = |lpn: u32| self.isolation.contains(&map.holder(lpn));
            if map.lpns(logical).any(isolated) {
                let merged = self.merge(map, nand, after, logical);
                if merged.is_err() {
                    self.queue.push(logical);
                }
                return merged;
            }
        }
        Ok(after)
    }

    fn merge(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
        logical: u32,
    ) -> Result<Ticket, FtlError> {
        let done = map.merge_full(nand, after, logical, None)?;
        self.queue.forget(logical);
        Ok(done)
    }
}

impl LogScheme for SecondChance {
    fn write(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
        page: (u32, Content),
    ) -> Result<Ticket, FtlError> {
        if let Some(place) = map.place_in_data(page.0)? {
            return map.program(nand, after, place, page, (PageKind::Owned, Cause::Host));
        }
        let (place, after) = self.host_place(map, nand, after)?;
        let done = map.program(nand, after, place, page, (PageKind::Shared, Cause::Host))?;
        if self.queue.count > 0 && self.queue.is_due() {
            return self.merge_next(map, nand, done);
        }
        Ok(done)
    }

    fn idle(&mut self, map: &mut BlockMap, nand: &mut NandArray, now: Nanos, until: Nanos) {
        nand.at(now);
        let mut time = now.max(nand.idle_at());
        while self.queue.count > 0 && time < until {
            // An error here means that cleaning found nothing to gain. Idle time ends; the next
            // write that needs space reports it.
            let start = nand.at(time);
            let Ok(done) = self.merge_next(map, nand, start) else { break };
            time = nand.finish(done);
        }
    }

    fn adopt(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
        survivors: Survivors,
    ) -> Result<Ticket, FtlError> {
        self.queue.logical.clear();
        self.queue.queued.fill(false);
        (self.queue.count, self.queue.rate, self.queue.due) = (0, 0, 0);
        self.isolation.clear();
        self.ring.clear();
        // Whether a block holds pages in their second chance is kept in memory only. After a power
        // cut all are taken as in their first.
        let blocks = survivors.blocks().map(|block| LogBlock { block, second: false });
        self.ring.extend(blocks);
        (self.host, self.second) = (NONE, NONE);
        if let Some(last) = self.ring.back().filter(|last| !map.is_full(last.block)) {
            self.host = last.block;
        }
        let mut after = after;
        while self.ring.len() > self.ring_capacity {
            if self.ring.front().is_some_and(|oldest| oldest.block == self.host) {
                self.host = NONE;
            }
            after = self.reclaim(map, nand, after)?;
        }
        Ok(after)
    }

    fn log_map_bytes(&self, map: &BlockMap) -> u64 {
        let log_pages = u64::from(self.log_block_count) * u64::from(map.pages());
        log_pages * LOG_PAGE_BYTES + log_pages.div_ceil(8)
    }

    fn log_blocks(&self) -> Vec<u32> {
        let ring = self.ring.iter().map(|log| log.block);
        ring.chain(self.isolation.iter().copied()).collect()
    }

    fn audit(&self, map: &BlockMap, nand: &NandArray) {
        for log in self.ring.iter().filter(|log| log.second) {
            for index in 0..map.next(log.block) {
                let page = nand.geometry().flash_page(log.block, index);
                let shared = nand.spare(page).map(|spare| PageKind::of(spare.sequence));
                assert!(shared.is_none_or(|kind| kind == PageKind::Shared), "invariant 1");
            }
        }
        let capacity = self.config.isolation_blocks() as usize;
        assert!(self.isolation.len() <= capacity, "invariant 2: the isolation area");
        assert!(self.ring.len() <= self.ring_capacity, "invariant 2: the ring");
        for &block in &self.isolation {
            for index in 0..map.next(block) {
                let Some(lpn) = map.valid_lpn(nand, (block, index)) else { continue };
                let logical = map.split(lpn).0;
                assert!(self.queue.queued[logical as usize], "invariant 3: page {lpn}");
            }
        }
        let flags = self.queue.queued.iter().filter(|&&queued| queued).count();
        let mut waiting: Vec<u32> = self.queue.logical.iter().copied().collect();
        waiting.retain(|&logical| self.queue.queued[logical as usize]);
        waiting.sort_unstable();
        waiting.dedup();
        assert_eq!((flags, waiting.len()), (self.queue.count as usize, flags), "invariant 4");
        let open = [self.host, self.second];
        for log in self.ring.iter().skip(1) {
            let partial = !map.is_full(log.block) && !open.contains(&log.block);
            assert!(
                !partial || !log.second,
                "only a recovery, or reclaiming the oldest, seals blocks early"
            );
        }
        let used = to_u32(self.log_blocks().len() as u64);
        let needed = map.unowned_logical_count() + (self.log_block_count - used) as usize;
        let free = map.free_count() + map.worn_count() as usize;
        assert!(free >= needed + RESERVE as usize, "the pool covers what may be asked of it");
    }
}
