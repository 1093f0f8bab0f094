//! Which layer, with which parameters: the variants a profile can name.

use crate::stock::lost_erase_blocks;
use crate::{
    BastConfig, BastFtl, BlockConfig, BlockFtl, ChunkConfig, ChunkFtl, Dftl, DftlConfig,
    FastConfig, FastFtl, FasterConfig, FasterFtl, Ftl, FtlError, PageConfig, PageFtl,
};
use nandu_nand::{Geometry, NandArray, NandConfig};
use serde::{Deserialize, Serialize};

/// Steps in which an array is enlarged for its bad erase blocks: each adds what the last one lost, at
/// most 15 of 16 where four planes work together and half of all erase blocks are bad.
const ENLARGING_STEPS: u32 = 400;

/// The kinds of layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FtlKind {
    /// [`PageFtl`].
    Page,
    /// [`ChunkFtl`].
    Chunk,
    /// [`Dftl`].
    Dftl,
    /// [`BlockFtl`].
    Block,
    /// [`BastFtl`].
    Bast,
    /// [`FastFtl`].
    Fast,
    /// [`FasterFtl`].
    Faster,
}

/// A layer with its parameters: `{ kind = "page", ... }`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FtlConfig {
    /// Any unit anywhere.
    Page(PageConfig),
    /// Chunks, replaced by copying.
    Chunk(ChunkConfig),
    /// Any unit anywhere, with the map on flash.
    Dftl(DftlConfig),
    /// Erase blocks, rewritten in whole.
    Block(BlockConfig),
    /// Erase blocks, a few of which own a log block.
    Bast(BastConfig),
    /// Erase blocks, which share a ring of log blocks.
    Fast(FastConfig),
    /// The same with second chances and an isolation area.
    Faster(FasterConfig),
}

impl FtlConfig {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> FtlKind {
        match self {
            Self::Page(_) => FtlKind::Page,
            Self::Chunk(_) => FtlKind::Chunk,
            Self::Dftl(_) => FtlKind::Dftl,
            Self::Block(_) => FtlKind::Block,
            Self::Bast(_) => FtlKind::Bast,
            Self::Fast(_) => FtlKind::Fast,
            Self::Faster(_) => FtlKind::Faster,
        }
    }

    /// Bytes of a unit on chips with that flash page.
    #[must_use]
    pub fn unit_bytes(&self, flash_page_bytes: u32) -> u32 {
        match self {
            Self::Page(config) => config.unit_bytes.unwrap_or(flash_page_bytes),
            Self::Chunk(_)
            | Self::Dftl(_)
            | Self::Block(_)
            | Self::Bast(_)
            | Self::Fast(_)
            | Self::Faster(_) => flash_page_bytes,
        }
    }

    /// What `NandConfig::units_per_flash_page` must be for it; at least 1.
    #[must_use]
    pub fn units_per_flash_page(&self, flash_page_bytes: u32) -> u32 {
        (flash_page_bytes / self.unit_bytes(flash_page_bytes).max(1)).max(1)
    }

    /// Erase blocks per plane that hold `logical_bytes` with `over_provisioning_ppm` more and what
    /// the layer itself keeps aside. `shape` gives everything but the erase block count. Factory bad
    /// erase blocks come on top: [`Self::erase_blocks_per_plane_with_bad`].
    #[must_use]
    pub fn erase_blocks_per_plane(
        &self,
        shape: &Geometry,
        logical_bytes: u64,
        over_provisioning_ppm: u32,
    ) -> u32 {
        let block_bytes = u128::from(shape.erase_block_bytes());
        let planes = u128::from(shape.die_count()) * u128::from(shape.planes_per_die);
        let wanted = u128::from(logical_bytes) * (1_000_000 + u128::from(over_provisioning_ppm));
        let blocks = wanted.div_ceil(1_000_000).div_ceil(block_bytes).div_ceil(planes);
        let unit_count = logical_bytes.div_ceil(u64::from(shape.flash_page_bytes.max(1)));
        let log_for = (unit_count, shape.flash_pages_per_erase_block);
        let aside = match self {
            Self::Page(config) => {
                let unit_bytes = self.unit_bytes(shape.flash_page_bytes).max(1);
                let unit_count = logical_bytes.div_ceil(u64::from(unit_bytes));
                u128::from(config.kept_aside(shape, unit_count))
            }
            Self::Chunk(config) => {
                let chunk_blocks = u128::from(config.chunk_bytes).div_ceil(block_bytes);
                let page_bytes = u64::from(shape.flash_page_bytes.max(1));
                let log_chunks = config.log_chunk_count(config.chunk_bytes / page_bytes);
                let chunks = u128::from(config.active_chunk_count) + 3 + u128::from(log_chunks);
                (chunk_blocks * chunks).div_ceil(planes)
            }
            Self::Dftl(config) => {
                let unit_count = logical_bytes / u64::from(shape.flash_page_bytes.max(1));
                u128::from(config.kept_aside(shape, unit_count)).div_ceil(planes)
            }
            Self::Block(_) => u128::from(BlockConfig::kept_aside()).div_ceil(planes),
            Self::Bast(config) => u128::from(config.kept_aside()).div_ceil(planes),
            Self::Fast(config) => u128::from(config.kept_aside(log_for)).div_ceil(planes),
            Self::Faster(config) => u128::from(config.kept_aside(log_for)).div_ceil(planes),
        };
        u32::try_from(blocks + aside).unwrap_or(u32::MAX)
    }

    /// Erase blocks of `nand` that this layer cannot use: those that come bad, and those that it uses
    /// together with one of them.
    #[must_use]
    pub fn lost_erase_blocks(&self, nand: &NandConfig) -> u64 {
        let shape = &nand.geometry;
        let dies = shape.die_count();
        let of_row = dies * shape.planes_per_die;
        let chunk_blocks = match self {
            Self::Chunk(config) => config.chunk_bytes / shape.erase_block_bytes().max(1),
            _ => 1,
        };
        let together = u32::try_from(chunk_blocks).unwrap_or(u32::MAX).max(1);
        match self {
            Self::Page(config) if config.multi_plane => {
                lost_erase_blocks(nand, |block| block / of_row * dies + block % dies)
            }
            _ => lost_erase_blocks(nand, |block| block / together),
        }
    }

    /// Erase blocks per plane so that besides those that this layer cannot use there are as many as
    /// `nand` has now.
    #[must_use]
    pub fn erase_blocks_per_plane_with_bad(&self, nand: &NandConfig) -> u32 {
        let planes = nand.geometry.die_count() * nand.geometry.planes_per_die;
        let wanted = nand.geometry.erase_blocks_per_plane;
        let mut enlarged = *nand;
        for _ in 0..ENLARGING_STEPS {
            let lost = self.lost_erase_blocks(&enlarged).div_ceil(u64::from(planes));
            let count = u32::try_from(u64::from(wanted) + lost).unwrap_or(u32::MAX);
            if count <= enlarged.geometry.erase_blocks_per_plane {
                break;
            }
            enlarged.geometry.erase_blocks_per_plane = count;
        }
        enlarged.geometry.erase_blocks_per_plane
    }

    /// The layer over `nand`, with `unit_count` units for the host. `seed` drives random policies.
    ///
    /// # Errors
    /// [`FtlError::Configuration`] if it does not fit the array.
    pub fn build(
        &self,
        nand: &NandArray,
        unit_count: u64,
        seed: u64,
    ) -> Result<Box<dyn Ftl>, FtlError> {
        Ok(match self {
            Self::Page(config) => Box::new(PageFtl::new(config, nand, unit_count, seed)?),
            Self::Chunk(config) => Box::new(ChunkFtl::new(config, nand, unit_count)?),
            Self::Dftl(config) => Box::new(Dftl::new(config, nand, unit_count)?),
            Self::Block(config) => Box::new(BlockFtl::new(config, nand, unit_count)?),
            Self::Bast(config) => Box::new(BastFtl::new(config, nand, unit_count)?),
            Self::Fast(config) => Box::new(FastFtl::new(config, nand, unit_count)?),
            Self::Faster(config) => Box::new(FasterFtl::new(config, nand, unit_count)?),
        })
    }
}
