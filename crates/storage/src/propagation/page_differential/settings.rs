//! What may be chosen about page-differential logging.
//!
//! 1. Page and segment size are fixed when the propagation is created; everything else may change with
//!    each opening.

use super::summary;
use crate::StorageError;
use crate::page::check_page_bytes;
use crate::propagation::log_structured::settings::check_segments;
use nandu_base::{Rng, to_index};
use serde::{Deserialize, Serialize};

/// The settings of page-differential logging.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PageDifferentialSettings {
    /// Bytes of a page, a power of two from 512 to 65,536.
    pub page_bytes: u32,
    /// A page whose differential has more bytes than this, with what is told of it, is written as a new
    /// base page; at most a page. The paper measures 256 and 2048.
    pub difference_bytes_max: u32,
    /// Bytes of a segment, the unit of cleaning: a power of two from 16 pages to 64 MiB.
    pub segment_bytes: u32,
    /// Bytes that are gathered for one write, at most a segment.
    pub write_bytes: u32,
    /// The file of segments has so many per cent more than base pages need; 10 at least. Differentials
    /// fill half of it at most: then pages are written as base pages.
    pub spare_percent: u32,
    /// However few pages there are, the file may have so many segments more than that; 1024 at most.
    pub spare_segment_count: u32,
    /// Cleaning begins when so many segments or fewer can be written; 4 at least, and fewer than the
    /// spare ones.
    pub reserve_segment_count: u32,
}

impl Default for PageDifferentialSettings {
    fn default() -> Self {
        Self {
            page_bytes: 4096,
            difference_bytes_max: 256,
            segment_bytes: 1 << 20,
            write_bytes: 256 << 10,
            spare_percent: 60,
            spare_segment_count: 12,
            reserve_segment_count: 6,
        }
    }
}

/// A smaller differential does not hold what is told of it and one change.
pub(super) const DIFFERENCE_BYTES_MIN: u32 = 64;
/// Of a segment of fewer pages cleaning gains nothing where a volume is full: what it moves takes a summary
/// and the rest of a segment, a page or so each.
const SEGMENT_PAGE_COUNT_MIN: u32 = 16;
/// With less to spare cleaning gains next to nothing.
const SPARE_PERCENT_MIN: u32 = 10;
/// Fewest segments in reserve.
pub(super) const RESERVE_COUNT_MIN: u32 = 4;
/// Most spare segments: those in reserve are there from the first page on.
const SPARE_COUNT_MAX: u32 = 1024;

impl PageDifferentialSettings {
    /// These settings for pages of `page_bytes`. A page bounds what a differential may have.
    pub(crate) fn with_pages_of(&self, page_bytes: u32) -> Self {
        let difference_bytes_max = self.difference_bytes_max.min(page_bytes);
        Self { page_bytes, difference_bytes_max, ..self.clone() }
    }

    /// These settings, as far as they were fixed when the propagation was made, and the rest of `wanted`.
    pub(crate) fn with(&self, wanted: &Self) -> Self {
        let segment_bytes = self.segment_bytes;
        let write_bytes = wanted.write_bytes.min(segment_bytes);
        Self { segment_bytes, write_bytes, ..wanted.clone() }
    }

    /// Segments of a few pages, so that a small database fills them and has to clean.
    #[must_use]
    pub fn small(page_bytes: u32, seed: u64) -> Self {
        let mut rng = Rng::for_part(seed, "differentials");
        let mut one_of = |choices: &[u32]| choices[to_index(rng.below(choices.len() as u64))];
        let write_pages = one_of(&[4, 4, 8]);
        let segment_pages = (write_pages * one_of(&[1, 2, 4])).max(SEGMENT_PAGE_COUNT_MIN);
        Self {
            page_bytes,
            difference_bytes_max: one_of(&[128, 256, 256, page_bytes / 2]),
            segment_bytes: segment_pages * page_bytes,
            write_bytes: write_pages * page_bytes,
            spare_percent: one_of(&[10, 25, 60]),
            spare_segment_count: one_of(&[6, 8, 12]),
            reserve_segment_count: 4,
        }
    }

    /// Bytes of a flash page: a page on whole sectors.
    pub(super) const fn slot_bytes(&self, sector_bytes: u32) -> u32 {
        self.page_bytes.next_multiple_of(sector_bytes)
    }

    /// Flash pages that a segment holds when it is written in the largest pieces.
    pub(super) fn dense_slot_count(&self, sector_bytes: u32) -> u32 {
        let slot_bytes = self.slot_bytes(sector_bytes);
        let bytes = |count: u32| {
            let front = summary::front_bytes(count as usize, sector_bytes);
            front + u64::from(count) * u64::from(slot_bytes)
        };
        let mut count = self.write_bytes / slot_bytes;
        while count > 1 && bytes(count) > u64::from(self.write_bytes) {
            count -= 1;
        }
        self.segment_bytes / self.write_bytes * count
    }

    /// Checks that the settings can work together, on sectors of `sector_bytes`.
    ///
    /// # Errors
    /// The first that cannot, with what would do.
    pub fn check(&self, sector_bytes: u32) -> Result<(), StorageError> {
        let invalid = |what: String| Err(StorageError::InvalidSetting { what });
        check_page_bytes(self.page_bytes)?;
        let Self { page_bytes, segment_bytes, write_bytes, difference_bytes_max, .. } = *self;
        check_segments((page_bytes, sector_bytes), segment_bytes, write_bytes)?;
        let least = SEGMENT_PAGE_COUNT_MIN * self.slot_bytes(sector_bytes);
        if segment_bytes < least {
            return invalid(format!(
                "segment_bytes {segment_bytes} is less than {SEGMENT_PAGE_COUNT_MIN} pages, so cleaning \
                 would gain nothing; choose {least} or more"
            ));
        }
        if !(DIFFERENCE_BYTES_MIN..=page_bytes).contains(&difference_bytes_max) {
            return invalid(format!(
                "difference_bytes_max {difference_bytes_max} is not from {DIFFERENCE_BYTES_MIN} to a \
                 page of {page_bytes}; choose 256, say"
            ));
        }
        let Self { spare_percent, spare_segment_count, reserve_segment_count, .. } = *self;
        if spare_percent < SPARE_PERCENT_MIN {
            return invalid(format!("spare_percent {spare_percent} is below {SPARE_PERCENT_MIN}"));
        }
        if reserve_segment_count < RESERVE_COUNT_MIN {
            return invalid(format!(
                "reserve_segment_count {reserve_segment_count} is below {RESERVE_COUNT_MIN}"
            ));
        }
        if spare_segment_count > SPARE_COUNT_MAX {
            return invalid(format!(
                "spare_segment_count {spare_segment_count} is above {SPARE_COUNT_MAX}"
            ));
        }
        if spare_segment_count <= reserve_segment_count {
            return invalid(format!(
                "spare_segment_count {spare_segment_count} is not above reserve_segment_count \
                 {reserve_segment_count}"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_work_are_refused() {
        PageDifferentialSettings::default().check(4096).unwrap();
        for page_bytes in [512, 4096, 65_536] {
            PageDifferentialSettings::default().with_pages_of(page_bytes).check(512).unwrap();
        }
        for seed in 0..100 {
            PageDifferentialSettings::small(1024, seed).check(512).unwrap();
        }
        let mut bad = vec![PageDifferentialSettings::default(); 11];
        bad[0].page_bytes = 1000;
        bad[1].segment_bytes = 3 << 19;
        bad[2].segment_bytes = 8192;
        bad[3].write_bytes = 2 << 20;
        bad[4].spare_percent = 9;
        bad[5].reserve_segment_count = 3;
        bad[6].spare_segment_count = 6;
        bad[7].difference_bytes_max = 63;
        bad[8].difference_bytes_max = 4097;
        (bad[9].spare_segment_count, bad[9].reserve_segment_count) = (100_001, 100_000);
        (bad[10].segment_bytes, bad[10].write_bytes) = (8 * 4096, 8 * 4096);
        for settings in bad {
            let answer = settings.check(512);
            assert!(matches!(answer, Err(StorageError::InvalidSetting { .. })), "{settings:?}");
        }
    }
}
