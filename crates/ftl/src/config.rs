//! Which layer, with which parameters: the variants a profile can name.
//!
//! 1. There is one list of layers, `layers!`. Both enums follow from it, and the tests that every layer
//!    has to pass go through [`FtlKind::ALL`].
//! 2. What differs between layers stands beside each, as its `LayerConfig`.

use crate::stock::lost_erase_blocks;
use crate::{
    BastConfig, BlockConfig, ChunkConfig, DftlConfig, FastConfig, FasterConfig, Ftl, FtlError,
    PageConfig,
};
use nandu_nand::{Geometry, NandArray, NandConfig};
use serde::{Deserialize, Serialize};

/// Steps in which an array is enlarged for its bad erase blocks: each adds what the last one lost, at
/// most 15 of 16 where four planes work together and half of all erase blocks are bad.
const ENLARGING_STEPS: u32 = 400;

/// What a layer holds in memory for each unit, roughly: where it is, and whether that is valid.
const MAP_BYTES_PER_UNIT: u64 = 8;

/// What the parameters of a layer say of it: how much of an array it takes, and how it is made. Each
/// layer says it in its own file.
pub(crate) trait LayerConfig {
    /// Parameters for arrays of a few dozen erase blocks of so many bytes: what the layer holds in memory
    /// or in a log is so small that a short history cleans, merges and evicts.
    fn small(erase_block_bytes: u64) -> Self
    where
        Self: Sized;

    /// Parameters that have to be given, with what stands for them where a user names the layer alone, on a
    /// drive of such erase blocks.
    fn needed(_erase_block_bytes: u64) -> Vec<(&'static str, u64)>
    where
        Self: Sized,
    {
        Vec::new()
    }

    /// Bytes of a unit on chips with that flash page.
    fn unit_bytes(&self, flash_page_bytes: u32) -> u32 {
        flash_page_bytes
    }

    /// Bytes of memory for each unit of the array: the map, and what filling the array needs.
    fn memory_bytes_per_unit(&self) -> u64 {
        5
    }

    /// Neighbours by number that one merge rewrites, and that are lost together, on chips with erase
    /// blocks of so many bytes.
    fn erase_blocks_merged_together(&self, _erase_block_bytes: u64) -> u64 {
        1
    }

    /// Erase blocks of each plane that hold no data when `logical_bytes` are held. `shape` gives
    /// everything but the erase block count.
    fn blocks_aside(&self, shape: &Geometry, logical_bytes: u64) -> u64;

    /// Erase blocks of `nand` that the layer cannot use: those that come bad, and those that it uses
    /// together with one of them.
    fn lost_erase_blocks(&self, nand: &NandConfig) -> u64 {
        let together = self.erase_blocks_merged_together(nand.geometry.erase_block_bytes());
        let together = u32::try_from(together).unwrap_or(u32::MAX).max(1);
        lost_erase_blocks(nand, |block| block / together)
    }

    /// The layer over `nand`, with `unit_count` units for the host. `seed` drives random policies.
    ///
    /// # Errors
    /// [`FtlError::Configuration`] if it does not fit the array.
    fn build(&self, nand: &NandArray, unit_count: u64, seed: u64)
    -> Result<Box<dyn Ftl>, FtlError>;
}

/// Flash pages that hold so many bytes.
pub(crate) fn flash_pages_of(shape: &Geometry, logical_bytes: u64) -> u64 {
    logical_bytes.div_ceil(u64::from(shape.flash_page_bytes.max(1)))
}

/// So many erase blocks of the whole array, in erase blocks of each plane.
pub(crate) fn on_each_plane(shape: &Geometry, erase_block_count: u64) -> u64 {
    erase_block_count.div_ceil(u64::from(shape.die_count()) * u64::from(shape.planes_per_die))
}

/// Makes both enums out of the one list of layers.
macro_rules! layers {
    ($($(#[$doc:meta])* $kind:ident($config:ty) = $name:literal;)+) => {
        /// The kinds of layer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FtlKind {
            $($(#[$doc])* $kind,)+
        }

        /// A layer with its parameters: `{ kind = "page", ... }`.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "kind")]
        pub enum FtlConfig {
            $($(#[$doc])* #[serde(rename = $name)] $kind($config),)+
        }

        impl FtlKind {
            /// All of them, which every test of layers goes through.
            pub const ALL: &[Self] = &[$(Self::$kind,)+];

            /// Its name in profiles and commands.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }

            /// With parameters for arrays of a few dozen erase blocks of so many bytes: a short history
            /// has it clean, merge and evict.
            #[must_use]
            pub fn small(self, erase_block_bytes: u64) -> FtlConfig {
                match self {
                    $(Self::$kind => FtlConfig::$kind(<$config>::small(erase_block_bytes)),)+
                }
            }

            /// Parameters that a profile has to give, with what stands for them where a user names the
            /// layer alone, on a drive of erase blocks of so many bytes.
            #[must_use]
            pub fn needed(self, erase_block_bytes: u64) -> Vec<(&'static str, u64)> {
                match self {
                    $(Self::$kind => <$config>::needed(erase_block_bytes),)+
                }
            }
        }

        impl FtlConfig {
            /// Which of the layers these parameters are for.
            #[must_use]
            pub const fn kind(&self) -> FtlKind {
                match self {
                    $(Self::$kind(_) => FtlKind::$kind,)+
                }
            }

            fn layer(&self) -> &dyn LayerConfig {
                match self {
                    $(Self::$kind(config) => config,)+
                }
            }
        }
    };
}

// The crash simulator goes through them in this order: another one changes what its seeds stand for.
layers! {
    /// [`crate::PageFtl`]: any unit anywhere.
    Page(PageConfig) = "page";
    /// [`crate::BlockFtl`]: erase blocks, rewritten in whole.
    Block(BlockConfig) = "block";
    /// [`crate::BastFtl`]: erase blocks, a few of which own a log block.
    Bast(BastConfig) = "bast";
    /// [`crate::FastFtl`]: erase blocks, which share a ring of log blocks.
    Fast(FastConfig) = "fast";
    /// [`crate::FasterFtl`]: the same with second chances and an isolation area.
    Faster(FasterConfig) = "faster";
    /// [`crate::Dftl`]: any unit anywhere, with the map on flash.
    Dftl(DftlConfig) = "dftl";
    /// [`crate::ChunkFtl`]: chunks, replaced by copying.
    Chunk(ChunkConfig) = "chunk";
}

impl FtlConfig {
    /// Bytes of a unit on chips with that flash page.
    #[must_use]
    pub fn unit_bytes(&self, flash_page_bytes: u32) -> u32 {
        self.layer().unit_bytes(flash_page_bytes)
    }

    /// Bytes of memory that it comes to take for each unit of the array.
    #[must_use]
    pub fn memory_bytes_per_unit(&self) -> u64 {
        self.layer().memory_bytes_per_unit()
    }

    /// Neighbours by number that one merge rewrites, on chips with erase blocks of so many bytes; 1
    /// where nothing is merged.
    #[must_use]
    pub fn erase_blocks_merged_together(&self, erase_block_bytes: u64) -> u64 {
        self.layer().erase_blocks_merged_together(erase_block_bytes)
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
        let aside = u128::from(self.layer().blocks_aside(shape, logical_bytes));
        u32::try_from(blocks + aside).unwrap_or(u32::MAX)
    }

    /// Erase blocks of `nand` that this layer cannot use: those that come bad, and those that it uses
    /// together with one of them.
    #[must_use]
    pub fn lost_erase_blocks(&self, nand: &NandConfig) -> u64 {
        self.layer().lost_erase_blocks(nand)
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
    /// [`FtlError::Configuration`] if it does not fit the array, or takes memory that the system does
    /// not give.
    pub fn build(
        &self,
        nand: &NandArray,
        unit_count: u64,
        seed: u64,
    ) -> Result<Box<dyn Ftl>, FtlError> {
        let bytes = unit_count.saturating_mul(MAP_BYTES_PER_UNIT);
        if !nandu_base::has_room(bytes) {
            return Err(FtlError::Configuration(format!(
                "a layer over {unit_count} units takes {} of memory, which the system does not \
                 give; take a smaller drive or larger units",
                nandu_base::ByteCount(bytes)
            )));
        }
        self.layer().build(nand, unit_count, seed)
    }
}
