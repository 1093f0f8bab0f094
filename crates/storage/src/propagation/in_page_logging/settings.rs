//! What may be chosen about in-page logging.
//!
//! 1. What a unit looks like is fixed when the propagation is created; everything else may change with
//!    each opening.

use crate::StorageError;
use nandu_base::{Rng, to_index};
use serde::{Deserialize, Serialize};

/// The settings of in-page logging.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InPageLoggingSettings {
    /// Erase blocks of a unit, the paper's erase unit; 1 to 64.
    pub erase_blocks_per_unit: u32,
    /// Bytes of a unit's log region, on whole flash pages; up to 64 MiB, and two log sectors at least.
    /// The paper measures 8 to 64 KiB of 128.
    pub log_region_bytes: u32,
    /// Bytes of a log sector, 256 to 65,536, where flash pages take so many programs; a flash page that
    /// takes fewer has fewer and larger ones.
    pub log_sector_bytes: u32,
    /// Units that are kept free, so that one can be merged; 2 to 1024.
    pub reserve_unit_count: u32,
    /// Most pages whose log sectors wait in memory to be filled; 1 at least.
    pub waiting_sector_count_max: u32,
}

impl Default for InPageLoggingSettings {
    fn default() -> Self {
        Self {
            erase_blocks_per_unit: 1,
            log_region_bytes: 8 << 10,
            log_sector_bytes: 512,
            reserve_unit_count: 2,
            waiting_sector_count_max: 1024,
        }
    }
}

const BLOCK_COUNT_MAX: u32 = 64;
const REGION_BYTES_MAX: u32 = 64 << 20;
const SECTOR_BYTES_MIN: u32 = 256;
const SECTOR_BYTES_MAX: u32 = 64 << 10;
/// One takes the pages of a merge, and another is there if an erase block dies meanwhile.
const RESERVE_COUNT_MIN: u32 = 2;
const RESERVE_COUNT_MAX: u32 = 1024;
/// Of small settings: pages that a unit holds at least, on erase blocks of so many bytes at least.
const SMALL_SLOT_COUNT: u32 = 4;
const SMALL_BLOCK_BYTES: u32 = 8 << 10;

impl InPageLoggingSettings {
    /// These settings, as far as they were fixed when the propagation was made, and the rest of `wanted`.
    pub(crate) fn with(&self, wanted: &Self) -> Self {
        let Self { erase_blocks_per_unit, log_region_bytes, log_sector_bytes, .. } = *self;
        Self { erase_blocks_per_unit, log_region_bytes, log_sector_bytes, ..wanted.clone() }
    }

    /// Units of some pages on chips of small erase blocks, so that merges happen often.
    #[must_use]
    pub fn small(page_bytes: u32, seed: u64) -> Self {
        let mut rng = Rng::for_part(seed, "in-page logs");
        let mut one_of = |choices: &[u32]| choices[to_index(rng.below(choices.len() as u64))];
        let log_region_bytes = one_of(&[8 << 10, 8 << 10, 12 << 10]);
        // Twice the log where every second flash page of it stays blank.
        let unit_bytes = 2 * log_region_bytes + SMALL_SLOT_COUNT * page_bytes.max(4 << 10);
        Self {
            erase_blocks_per_unit: unit_bytes.div_ceil(SMALL_BLOCK_BYTES),
            log_region_bytes,
            log_sector_bytes: one_of(&[256, 512]),
            reserve_unit_count: 2,
            waiting_sector_count_max: one_of(&[1, 8, 1024]),
        }
    }

    /// Checks that the settings can work together, on whatever chips.
    ///
    /// # Errors
    /// The first that cannot, with what would do.
    pub fn check(&self) -> Result<(), StorageError> {
        let Self { log_region_bytes, log_sector_bytes, .. } = *self;
        let ranges = [
            ("erase_blocks_per_unit", self.erase_blocks_per_unit, 1..=BLOCK_COUNT_MAX),
            ("log_sector_bytes", log_sector_bytes, SECTOR_BYTES_MIN..=SECTOR_BYTES_MAX),
            ("log_region_bytes", log_region_bytes, 2 * SECTOR_BYTES_MIN..=REGION_BYTES_MAX),
            ("reserve_unit_count", self.reserve_unit_count, RESERVE_COUNT_MIN..=RESERVE_COUNT_MAX),
            ("waiting_sector_count_max", self.waiting_sector_count_max, 1..=u32::MAX),
        ];
        let bad = ranges.into_iter().find(|(_, value, range)| !range.contains(value));
        if let Some((name, value, range)) = bad {
            let what = format!("{name} {value} is not from {} to {}", range.start(), range.end());
            return Err(StorageError::InvalidSetting { what });
        }
        if log_region_bytes < 2 * log_sector_bytes {
            let what = format!(
                "log_region_bytes {log_region_bytes} is below two log sectors of {log_sector_bytes}"
            );
            return Err(StorageError::InvalidSetting { what });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_work_are_refused() {
        InPageLoggingSettings::default().check().unwrap();
        for seed in 0..100 {
            for page_bytes in [512, 4096, 65_536] {
                InPageLoggingSettings::small(page_bytes, seed).check().unwrap();
            }
        }
        let mut bad = vec![InPageLoggingSettings::default(); 9];
        bad[0].erase_blocks_per_unit = 0;
        bad[1].erase_blocks_per_unit = 65;
        bad[2].log_region_bytes = 511;
        bad[3].log_region_bytes = (64 << 20) + 1;
        bad[4].log_sector_bytes = 255;
        bad[5].log_sector_bytes = 8192;
        bad[6].reserve_unit_count = 1;
        bad[7].reserve_unit_count = 1025;
        bad[8].waiting_sector_count_max = 0;
        for settings in bad {
            let answer = settings.check();
            assert!(matches!(answer, Err(StorageError::InvalidSetting { .. })), "{settings:?}");
        }
    }

    #[test]
    fn what_a_unit_looks_like_stays() {
        let made = InPageLoggingSettings { log_region_bytes: 16 << 10, ..Default::default() };
        let wanted = InPageLoggingSettings {
            waiting_sector_count_max: 7,
            erase_blocks_per_unit: 3,
            ..InPageLoggingSettings::default()
        };
        let opened = made.with(&wanted);
        assert_eq!(opened, InPageLoggingSettings { waiting_sector_count_max: 7, ..made });
    }
}
