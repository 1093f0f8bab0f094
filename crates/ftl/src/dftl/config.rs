//! Parameters of the layer whose map lies on flash, and what they take of an array.

use super::entries_per_page;
use crate::config::{LayerConfig, flash_pages_of, on_each_plane};
use crate::{Dftl, Ftl, FtlError};
use nandu_base::to_u32;
use nandu_nand::{Geometry, NandArray};
use serde::{Deserialize, Serialize};

/// Parameters of [`Dftl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DftlConfig {
    /// Entries of the cached mapping table, 1 or more, of 8 bytes each.
    pub cached_entry_count: u32,
    /// Part of them, per million, that the protected segment may hold; less than 1000000.
    pub protected_ppm: u32,
    /// Free erase blocks of the whole array that are kept after a call, 3 or more.
    pub reserve_count: u32,
    /// Free erase blocks above the reserve that cleaning in idle time aims at; 0 = none.
    pub idle_clean_count: u32,
    /// Whether copies of cleaning have erase blocks of their own, as under [`crate::PageFtl`]; in the
    /// paper they share those of the host.
    pub separate_copies: bool,
}

impl Default for DftlConfig {
    /// 8192 entries, 6552 of them protected, as in the authors' simulator (flash reference 2.6.1).
    fn default() -> Self {
        Self {
            cached_entry_count: 8192,
            protected_ppm: 799_805,
            reserve_count: 4,
            idle_clean_count: 0,
            separate_copies: false,
        }
    }
}

impl DftlConfig {
    pub(super) fn reserve_and_frontiers(&self, shape: &Geometry) -> u64 {
        let streams = 2 + u64::from(self.separate_copies);
        u64::from(self.reserve_count) + streams * u64::from(shape.die_count())
    }

    pub(super) fn protected_entry_count(&self) -> u32 {
        let scaled = u64::from(self.cached_entry_count) * u64::from(self.protected_ppm);
        to_u32(scaled / 1_000_000)
    }
}

impl LayerConfig for DftlConfig {
    fn small(_: u64) -> Self {
        Self { cached_entry_count: 64, ..Self::default() }
    }

    /// Reserve, frontiers and the map.
    fn blocks_aside(&self, shape: &Geometry, logical_bytes: u64) -> u64 {
        let entries = u64::from(entries_per_page(shape));
        let translation_pages = flash_pages_of(shape, logical_bytes).div_ceil(entries);
        let map = translation_pages.div_ceil(u64::from(shape.flash_pages_per_erase_block.max(1)));
        on_each_plane(shape, self.reserve_and_frontiers(shape) + map)
    }

    fn build(
        &self,
        nand: &NandArray,
        unit_count: u64,
        _seed: u64,
    ) -> Result<Box<dyn Ftl>, FtlError> {
        Ok(Box::new(Dftl::new(self, nand, unit_count)?))
    }
}
