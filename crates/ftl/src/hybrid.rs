//! The frame of the layers that map whole erase blocks and log what changes: block mapping, BAST, FAST
//! and FASTer (flash reference 2.2.1 and 2.3 to 2.5). What they share lies in [`block_map`]; where a
//! page that changes goes is the [`LogScheme`] of each.
//!
//! ```text
//! host page ─▶ LogScheme ─▶ its place in the data block, while that is erased        block.rs
//!                 │         the log block of its logical block                       bast.rs
//!                 │         the sequential log block, or the ring of log blocks      fast.rs
//!                 │         the ring, its second chances, the isolation area         faster.rs
//!                 ▼
//!              BlockMap: newest copies, pool of erase blocks, full, partial and switch merges
//! ```
//!
//! The unit is the flash page. The controller is single-threaded: a write that causes a merge answers
//! when the merge is done, its erases included, and the next write begins then.

pub(crate) mod block_map;
mod recovery;

use crate::config::{flash_pages_of, on_each_plane};
use crate::contract::check_range;
use crate::{Ftl, FtlError, MergeCounts, ReadOutcome};
use block_map::BlockMap;
use nandu_base::{Lpn, Nanos, to_u32};
use nandu_nand::{Content, Geometry, NandArray, Ticket};
use std::fmt;

pub(crate) use recovery::Survivors;

/// Where a page that changes goes; [`BlockFtl`](crate::BlockFtl), [`BastFtl`](crate::BastFtl),
/// [`FastFtl`](crate::FastFtl) and [`FasterFtl`](crate::FasterFtl) differ in nothing else.
pub(crate) trait LogScheme: fmt::Debug + Send {
    /// Writes a page. The caller has made room for it.
    fn write(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
        page: (u32, Content),
    ) -> Result<Ticket, FtlError>;

    /// Works in the background until `until`.
    fn idle(&mut self, _map: &mut BlockMap, _nand: &mut NandArray, _now: Nanos, _until: Nanos) {}

    /// Forgets what it knew and takes over what a recovery found beside the data blocks.
    fn adopt(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
        survivors: Survivors,
    ) -> Result<Ticket, FtlError>;

    /// Bytes of controller memory for the log, besides the block map.
    fn log_map_bytes(&self, map: &BlockMap) -> u64;

    /// The erase blocks that it holds.
    fn log_blocks(&self) -> Vec<u32>;

    /// Asserts the scheme's own invariants.
    fn audit(&self, map: &BlockMap, nand: &NandArray);
}

/// A layer that maps erase blocks, with the log of scheme `S`.
#[derive(Clone, Debug)]
#[allow(private_bounds, reason = "the schemes are the four of this crate; their trait is no API")]
pub struct HybridFtl<S: LogScheme> {
    map: BlockMap,
    scheme: S,
    /// After a recovery for which too few erase blocks are left: those that hold pages besides data
    /// blocks. Nothing is written or moved any more; every page is read where it lies.
    worn_out: Option<Vec<u32>>,
}

#[allow(private_bounds, reason = "as for the type")]
impl<S: LogScheme> HybridFtl<S> {
    pub(crate) const fn from_parts(map: BlockMap, scheme: S) -> Self {
        Self { map, scheme, worn_out: None }
    }
}

/// How large the log of FAST and FASTer is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogSpace {
    /// How many log blocks there are; the layer's own choice if `None`.
    pub(crate) block_count: Option<u32>,
    /// Else this share of the logical pages, in parts per million.
    pub(crate) ppm: u32,
    /// The least that the scheme works with.
    pub(crate) least: u32,
}

impl LogSpace {
    /// Log blocks for `unit_count` pages. A share that comes out too small is rounded up to the least.
    pub(crate) fn resolve(self, unit_count: u64, pages_per_block: u32) -> u32 {
        let pages = u128::from(unit_count) * u128::from(self.ppm);
        let blocks = pages.div_ceil(1_000_000 * u128::from(pages_per_block.max(1)));
        let share = u32::try_from(blocks).unwrap_or(u32::MAX).max(self.least);
        self.block_count.unwrap_or(share)
    }

    /// Log blocks for so many bytes and `reserve` more, in erase blocks of each plane.
    pub(crate) fn blocks_aside(self, shape: &Geometry, logical_bytes: u64, reserve: u32) -> u64 {
        let unit_count = flash_pages_of(shape, logical_bytes);
        let log = self.resolve(unit_count, shape.flash_pages_per_erase_block);
        on_each_plane(shape, u64::from(log) + u64::from(reserve))
    }

    /// Refuses a count below the least.
    pub(crate) fn check(self) -> Result<(), FtlError> {
        match self.block_count {
            Some(count) if count < self.least => Err(FtlError::Configuration(format!(
                "ftl: log_block_count is {count}, must be at least {}",
                self.least
            ))),
            _ => Ok(()),
        }
    }
}

impl<S: LogScheme> Ftl for HybridFtl<S> {
    fn unit_bytes(&self) -> u32 {
        self.map.page_bytes()
    }

    fn unit_count(&self) -> u64 {
        self.map.unit_count()
    }

    fn read(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        lpn: Lpn,
        bytes: u32,
    ) -> Result<ReadOutcome, FtlError> {
        check_range(lpn, 1, self.map.unit_count())?;
        self.map.read(nand, after, to_u32(lpn.0), bytes)
    }

    fn peek(&self, nand: &NandArray, lpn: Lpn) -> Content {
        if lpn.0 >= self.map.unit_count() {
            return None;
        }
        self.map.locate(to_u32(lpn.0)).and_then(|page| nand.content(page, 0))
    }

    fn write(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        lpn: Lpn,
        content: Content,
    ) -> Result<Ticket, FtlError> {
        check_range(lpn, 1, self.map.unit_count())?;
        if self.worn_out.is_some() {
            return Err(FtlError::DeviceFull);
        }
        let after = nand.both(after, self.map.busy);
        let done = self.scheme.write(&mut self.map, nand, after, (to_u32(lpn.0), content))?;
        self.map.count_host_write();
        Ok(done)
    }

    fn trim(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        first: Lpn,
        count: u64,
    ) -> Result<Ticket, FtlError> {
        check_range(first, count, self.map.unit_count())?;
        self.map.trim(nand, after, (to_u32(first.0), to_u32(first.0 + count)))
    }

    fn flush(&mut self, _nand: &mut NandArray, after: Ticket) -> Result<Ticket, FtlError> {
        Ok(after)
    }

    fn idle(&mut self, nand: &mut NandArray, now: Nanos, until: Nanos) {
        if self.worn_out.is_none() {
            self.scheme.idle(&mut self.map, nand, now, until);
        }
    }

    fn initialise_sequential(&mut self, nand: &mut NandArray) -> Result<(), FtlError> {
        if !self.map.is_fresh() {
            return Err(FtlError::NotFresh);
        }
        let accounting = nand.begin_preparation();
        let filled = (0..to_u32(self.map.unit_count())).try_for_each(|lpn| {
            self.scheme.write(&mut self.map, nand, Ticket::READY, (lpn, None))?;
            Ok(())
        });
        nand.end_preparation(accounting);
        self.map.forget_times();
        filled
    }

    fn recover(&mut self, nand: &mut NandArray, after: Ticket) -> Result<Ticket, FtlError> {
        self.worn_out = None;
        let survivors = self.map.rebuild(nand, after)?;
        let after = survivors.done;
        match self.scheme.adopt(&mut self.map, nand, after, survivors) {
            Err(FtlError::DeviceFull) => {
                // What was merged so far is complete; the rest lies where it lay.
                let survivors = self.map.rebuild(nand, after)?;
                self.worn_out = Some(survivors.blocks().collect());
                Ok(survivors.done)
            }
            adopted => adopted,
        }
    }

    fn host_pages(&self) -> (u64, u64) {
        self.map.host_pages()
    }

    fn merges(&self) -> Option<MergeCounts> {
        Some(self.map.merges)
    }

    fn map_bytes(&self) -> u64 {
        self.map.block_map_bytes() + self.scheme.log_map_bytes(&self.map)
    }

    fn audit(&self, nand: &NandArray) {
        if let Some(blocks) = &self.worn_out {
            return self.map.audit(nand, blocks);
        }
        self.map.audit(nand, &self.scheme.log_blocks());
        self.scheme.audit(&self.map, nand);
    }
}
