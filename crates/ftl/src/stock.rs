//! The erase blocks that an array has for a layer: which are good, and how a layer that needs more of
//! them is refused, in the same words by every kind.
//!
//! 1. What is used together (the erase blocks of a group over planes, or of a chunk) is as good as
//!    its worst one.
//! 2. Worn-out erase blocks count as good for a layer that is made anew: over chips that were in use a
//!    recovery comes next. It finds what they hold, and what is left takes writes or refuses them.

use crate::FtlError;
use nandu_nand::{NandArray, NandConfig};

/// Whether erase blocks that are used together can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Good,
    /// Some are worn out: they can be read.
    Worn,
    /// Some are marked bad.
    Bad,
}

impl Condition {
    pub(crate) fn of(nand: &NandArray, mut blocks: impl Iterator<Item = u32>) -> Self {
        let worse = |worst, block| match (nand.is_bad(block), nand.erase_count(block)) {
            (false, _) => Some(worst),
            (true, 0) => None,
            (true, _) => Some(Self::Worn),
        };
        blocks.try_fold(Self::Good, worse).unwrap_or(Self::Bad)
    }
}

/// How many groups of erase blocks are in which condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stock {
    good_count: u64,
    worn_count: u64,
    bad_count: u64,
}

impl Stock {
    pub(crate) fn of(conditions: impl Iterator<Item = Condition>) -> Self {
        conditions.fold(Self::default(), |mut stock, condition| {
            match condition {
                Condition::Good => stock.good_count += 1,
                Condition::Worn => stock.worn_count += 1,
                Condition::Bad => stock.bad_count += 1,
            }
            stock
        })
    }

    /// Of every erase block by itself.
    pub(crate) fn of_blocks(nand: &NandArray) -> Self {
        let blocks = 0..nand.geometry().erase_block_count();
        Self::of(blocks.map(|block| Condition::of(nand, std::iter::once(block))))
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            good_count: self.good_count + other.good_count,
            worn_count: self.worn_count + other.worn_count,
            bad_count: self.bad_count + other.bad_count,
        }
    }

    /// What a layer that is made anew may count on (invariant 2).
    pub(crate) const fn usable_count(self) -> u64 {
        self.good_count + self.worn_count
    }

    /// Why a layer of `unit_count` units is refused that needs `needed` groups of `width` erase blocks,
    /// `aside` of them for what is not data.
    pub(crate) fn refusal(
        self,
        unit_count: u64,
        (needed, aside): (u64, u64),
        width: u32,
    ) -> FtlError {
        let blocks = |count: u64| count.saturating_mul(u64::from(width));
        let together = if width > 1 { format!(" ({width} are used together)") } else { "".into() };
        FtlError::Configuration(format!(
            "ftl: {unit_count} units need {} good erase blocks, {} of them for reserve, frontiers, \
             log and map, but of {} erase blocks {} are good{together}; fewer units or more erase \
             blocks fit",
            blocks(needed),
            blocks(aside),
            blocks(self.good_count + self.worn_count + self.bad_count),
            blocks(self.good_count)
        ))
    }
}

/// Erase blocks of an array that come bad or, where `of_group` says which ones are used together,
/// share a group with one that does.
pub(crate) fn lost_erase_blocks(nand: &NandConfig, of_group: impl Fn(u32) -> u32) -> u64 {
    let is_sound = nand.rules.validate().and(nand.geometry.validate()).is_ok();
    if nand.rules.factory_bad_ppm == 0 || !is_sound {
        return 0;
    }
    let count = nand.geometry.erase_block_count();
    let mut is_lost = vec![false; count as usize];
    for (block, bad) in (0..count).zip(nand.rules.factory_bad()) {
        if bad {
            is_lost[of_group(block) as usize] = true;
        }
    }
    (0..count).filter(|&block| is_lost[of_group(block) as usize]).count() as u64
}
