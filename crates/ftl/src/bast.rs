//! BAST, block-associative sector translation (Kim, Kim, Noh, Min, Cho, IEEE TCE 48(2) 2002; flash
//! reference 2.3): every log block belongs to one logical block.
//!
//! ```text
//! data of 7  [0 1 2 3]          write 2 of 7: appended to the log block of 7
//! log of 7   [2 0 2 .]          log full, or evicted for another logical block: merge
//! ```
//!
//! A log block whose slot i holds page i from the beginning is sequential: full it is switched, evicted
//! it is completed (partial merge). Any other costs a full merge, and under random writes nearly every
//! write evicts a log block that holds a page or two (thrashing).
//!
//! 1. A logical block owns at most one log block, of at most `log_block_count` in all.
//! 2. The pages of a log block belong to its owner; it is full only inside a call, which ends with its
//!    merge: a write that fills it is refused where that merge cannot be.
//! 3. In a sequential log block every readable page lies in its place.
//! 4. All log blocks stand once in the order of eviction.

use crate::config::{LayerConfig, on_each_plane};
use crate::hybrid::block_map::{BlockMap, MERGE_RESERVE, NONE, PageKind};
use crate::hybrid::{HybridFtl, LogScheme, Survivors};
use crate::{Ftl, FtlError};
use nandu_base::Cause;
use nandu_nand::{Content, Geometry, NandArray, Ticket};
use serde::{Deserialize, Serialize};

/// Bytes of a log block's own entry, and of a slot's: which page it holds.
const LOG_ENTRY_BYTES: u64 = 8;
const SLOT_BYTES: u64 = 2;

/// Which log block makes room for another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogEviction {
    /// The one that was written least recently.
    #[default]
    Lru,
    /// The log block that was opened first.
    Fifo,
}

/// Parameters of [`BastFtl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BastConfig {
    /// Log blocks, 1 or more.
    pub log_block_count: u32,
    /// Which log block is merged when another one is needed.
    pub victim: LogEviction,
}

impl Default for BastConfig {
    fn default() -> Self {
        Self { log_block_count: 8, victim: LogEviction::Lru }
    }
}

impl LayerConfig for BastConfig {
    fn small(_: u64) -> Self {
        Self { log_block_count: 4, ..Self::default() }
    }

    fn blocks_aside(&self, shape: &Geometry, _: u64) -> u64 {
        on_each_plane(shape, u64::from(self.log_block_count) + u64::from(MERGE_RESERVE))
    }

    fn build(
        &self,
        nand: &NandArray,
        unit_count: u64,
        _seed: u64,
    ) -> Result<Box<dyn Ftl>, FtlError> {
        Ok(Box::new(BastFtl::new(self, nand, unit_count)?))
    }
}

#[derive(Clone, Copy, Debug)]
struct Log {
    block: u32,
    logical: u32,
    sequential: bool,
    older: u32,
    newer: u32,
}

/// The log blocks, each with its owner.
#[derive(Clone, Debug)]
pub struct Associative {
    config: BastConfig,
    /// By slot; the last one is the anchor of the circular order of eviction.
    logs: Vec<Log>,
    vacant: Vec<u32>,
    slot_of: Vec<u32>,
}

/// A layer with log blocks that one logical block each owns.
pub type BastFtl = HybridFtl<Associative>;

impl BastFtl {
    /// A layer of `unit_count` flash pages over a fresh `nand`.
    ///
    /// # Errors
    /// [`FtlError::Configuration`] without log blocks, if flash pages are shared by units, or if the
    /// erase blocks do not hold units, log and one more block.
    pub fn new(config: &BastConfig, nand: &NandArray, unit_count: u64) -> Result<Self, FtlError> {
        if config.log_block_count == 0 {
            let text = "ftl: log_block_count is 0, must be at least 1";
            return Err(FtlError::Configuration(text.into()));
        }
        let map = BlockMap::new(nand, unit_count, config.log_block_count, MERGE_RESERVE)?;
        let scheme = Associative::new(*config, map.logical_count());
        Ok(Self::from_parts(map, scheme))
    }
}

impl Associative {
    fn new(config: BastConfig, logical_count: usize) -> Self {
        let count = config.log_block_count;
        let anchor =
            Log { block: NONE, logical: NONE, sequential: false, older: count, newer: count };
        Self {
            config,
            logs: vec![anchor; count as usize + 1],
            vacant: (0..count).rev().collect(),
            slot_of: vec![NONE; logical_count],
        }
    }

    fn anchor(&self) -> u32 {
        self.config.log_block_count
    }

    fn unlink(&mut self, slot: u32) {
        let Log { older, newer, .. } = self.logs[slot as usize];
        self.logs[older as usize].newer = newer;
        self.logs[newer as usize].older = older;
    }

    /// Puts a slot last in the order of eviction.
    fn link(&mut self, slot: u32) {
        let anchor = self.anchor();
        let last = std::mem::replace(&mut self.logs[anchor as usize].older, slot);
        self.logs[last as usize].newer = slot;
        (self.logs[slot as usize].older, self.logs[slot as usize].newer) = (last, anchor);
    }

    fn attach(&mut self, logical: u32, block: u32, sequential: bool) -> u32 {
        let slot = self.vacant.pop().expect("a log block was merged to make room");
        let log = &mut self.logs[slot as usize];
        (log.block, log.logical, log.sequential) = (block, logical, sequential);
        self.link(slot);
        self.slot_of[logical as usize] = slot;
        slot
    }

    /// A log block for a logical block without one; the next in the order of eviction makes room.
    fn open(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
        logical: u32,
    ) -> Result<(u32, Ticket), FtlError> {
        let mut after = after;
        if self.vacant.is_empty() {
            let oldest = self.logs[self.anchor() as usize].newer;
            after = self.merge(map, nand, after, oldest)?;
        }
        let block = map.take()?;
        Ok((self.attach(logical, block, true), after))
    }

    fn merge(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
        slot: u32,
    ) -> Result<Ticket, FtlError> {
        let Log { block, logical, sequential, .. } = self.logs[slot as usize];
        let done = if sequential {
            map.merge_owned(nand, after, (logical, block), None)?
        } else {
            let merged = map.merge_full(nand, after, logical, None)?;
            map.release(nand, merged, block, Cause::MergeFull)?
        };
        self.unlink(slot);
        self.slot_of[logical as usize] = NONE;
        self.vacant.push(slot);
        Ok(done)
    }

    fn occupied(&self) -> impl Iterator<Item = (u32, &Log)> {
        let slots = (0_u32..).zip(&self.logs);
        slots.filter(|(slot, log)| {
            self.slot_of.get(log.logical as usize).is_some_and(|own| own == slot)
        })
    }
}

impl LogScheme for Associative {
    fn write(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
        page: (u32, Content),
    ) -> Result<Ticket, FtlError> {
        let kind = (PageKind::Owned, Cause::Host);
        if let Some(place) = map.place_in_data(page.0)? {
            return map.program(nand, after, place, page, kind);
        }
        let (logical, offset) = map.split(page.0);
        let (slot, after) = match self.slot_of[logical as usize] {
            NONE => self.open(map, nand, after, logical)?,
            slot => (slot, after),
        };
        let log = &mut self.logs[slot as usize];
        let (block, index) = (log.block, map.next(log.block));
        let sequential = log.sequential && index == offset;
        let fills = index + 1 == map.pages();
        // Invariant 2: wear may have left nothing to merge into, and a full block takes no more pages.
        let switches = sequential && map.supersedes_data(logical, block);
        if fills && !switches && map.free_count() < MERGE_RESERVE as usize {
            return Err(FtlError::DeviceFull);
        }
        log.sequential = sequential;
        let done = map.program(nand, after, (block, index), page, kind)?;
        if self.config.victim == LogEviction::Lru {
            self.unlink(slot);
            self.link(slot);
        }
        if map.is_full(block) { self.merge(map, nand, done, slot) } else { Ok(done) }
    }

    fn adopt(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
        survivors: Survivors,
    ) -> Result<Ticket, FtlError> {
        *self = Self::new(self.config, map.logical_count());
        let mut after = after;
        for &(logical, block) in &survivors.owned {
            let owns = self.slot_of[logical as usize] != NONE;
            if owns || self.vacant.is_empty() || map.is_full(block) {
                after = map.merge_all_of(nand, after, block)?;
            } else {
                let sequential = map.lies_in_place(nand, block, logical);
                self.attach(logical, block, sequential);
            }
        }
        survivors
            .shared
            .iter()
            .try_fold(after, |after, &block| map.merge_all_of(nand, after, block))
    }

    fn log_map_bytes(&self, map: &BlockMap) -> u64 {
        let slots = u64::from(map.pages()) * SLOT_BYTES;
        u64::from(self.config.log_block_count) * (LOG_ENTRY_BYTES + slots)
    }

    fn log_blocks(&self) -> Vec<u32> {
        self.occupied().map(|(_, log)| log.block).collect()
    }

    fn audit(&self, map: &BlockMap, nand: &NandArray) {
        let count = self.occupied().count();
        let in_use = self.anchor() as usize - self.vacant.len();
        assert_eq!(count, in_use, "invariant 1: every log block in use has one owner");
        let owners = self.slot_of.iter().filter(|&&slot| slot != NONE).count();
        assert_eq!(owners, count, "invariant 1: every owner has its log block");
        for (_, log) in self.occupied() {
            assert!(!map.is_full(log.block), "invariant 2: log block {} is not full", log.block);
            for index in 0..map.next(log.block) {
                let Some(lpn) = map.valid_lpn(nand, (log.block, index)) else { continue };
                assert_eq!(map.split(lpn).0, log.logical, "invariant 2: log block {}", log.block);
            }
            let in_place = map.lies_in_place(nand, log.block, log.logical);
            assert!(!log.sequential || in_place, "invariant 3: log block {}", log.block);
        }
        let (mut slot, mut linked) = (self.logs[self.anchor() as usize].newer, 0);
        while slot != self.anchor() {
            (slot, linked) = (self.logs[slot as usize].newer, linked + 1);
            assert!(linked <= count, "invariant 4: the order has no short cycle");
        }
        assert_eq!(linked, count, "invariant 4: every log block stands in the order");
        let free_needed = map.unowned_logical_count() + self.vacant.len() + 1;
        let worn = map.worn_count() as usize;
        assert!(map.free_count() + worn >= free_needed, "the pool covers what may be asked of it");
    }
}
