//! Plain block mapping: every page has its place in the one data block of its logical block. The lower
//! bound of the family (S000 section 2.2, equation 2.1; flash reference 2.2.1).
//!
//! ```text
//! data [0 1 2 . . .]   write 4: in place, the gap 3 is lost     next = 5
//!                      write 1 or 3: fresh block, the others are copied, the old one is erased
//! ```
//!
//! 1. Every mapped page lies in its place in a data block.
//!
//! A rewrite of a full block costs B-1 reads, B programs and one erase.

use crate::config::{LayerConfig, on_each_plane};
use crate::hybrid::block_map::{BlockMap, MERGE_RESERVE, PageKind};
use crate::hybrid::{HybridFtl, LogScheme, Survivors};
use crate::{Ftl, FtlError};
use nandu_base::Cause;
use nandu_nand::{Content, Geometry, NandArray, Ticket};
use serde::{Deserialize, Serialize};

/// Parameters of [`BlockFtl`]: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BlockConfig {}

impl LayerConfig for BlockConfig {
    fn small(_: u64) -> Self {
        Self {}
    }

    fn blocks_aside(&self, shape: &Geometry, _: u64) -> u64 {
        on_each_plane(shape, MERGE_RESERVE.into())
    }

    fn build(
        &self,
        nand: &NandArray,
        unit_count: u64,
        _seed: u64,
    ) -> Result<Box<dyn Ftl>, FtlError> {
        Ok(Box::new(BlockFtl::new(self, nand, unit_count)?))
    }
}

/// No log at all.
#[derive(Clone, Debug)]
pub struct InPlace;

/// A layer that maps erase blocks and has no log.
pub type BlockFtl = HybridFtl<InPlace>;

impl BlockFtl {
    /// A layer of `unit_count` flash pages over a fresh `nand`.
    ///
    /// # Errors
    /// [`FtlError::Configuration`] if flash pages are shared by units, or the erase blocks do not hold
    /// the units and one more block.
    pub fn new(_: &BlockConfig, nand: &NandArray, unit_count: u64) -> Result<Self, FtlError> {
        Ok(Self::from_parts(BlockMap::new(nand, unit_count, 0, MERGE_RESERVE)?, InPlace))
    }
}

impl LogScheme for InPlace {
    fn write(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
        page: (u32, Content),
    ) -> Result<Ticket, FtlError> {
        match map.place_in_data(page.0)? {
            Some(place) => map.program(nand, after, place, page, (PageKind::Owned, Cause::Host)),
            None => map.merge_full(nand, after, map.split(page.0).0, Some(page)),
        }
    }

    fn adopt(
        &mut self,
        map: &mut BlockMap,
        nand: &mut NandArray,
        after: Ticket,
        survivors: Survivors,
    ) -> Result<Ticket, FtlError> {
        survivors.blocks().try_fold(after, |after, block| map.merge_all_of(nand, after, block))
    }

    fn log_map_bytes(&self, _map: &BlockMap) -> u64 {
        0
    }

    fn log_blocks(&self) -> Vec<u32> {
        Vec::new()
    }

    fn audit(&self, _map: &BlockMap, _nand: &NandArray) {}
}
