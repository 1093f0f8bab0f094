//! What may be chosen about log-structured propagation.
//!
//! 1. Page and segment size are fixed when the propagation is created; everything else may change with
//!    each opening.

use super::partial;
use super::record::{UNIT_BYTES, packed_bytes_max};
use super::victim::SegmentVictimKind;
use crate::StorageError;
use crate::page::check_page_bytes;
use nandu_base::{Rng, to_index, to_u32};
use serde::{Deserialize, Serialize};

/// How a page lies in a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PagePacking {
    /// Without its longest run of zeros, at any multiple of 16 bytes.
    #[default]
    Packed,
    /// As it is, on whole sectors, so that anybody may read it there.
    Whole,
}

/// The settings of log-structured propagation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogStructuredSettings {
    /// Bytes of a page, a power of two from 512 to 65,536.
    pub page_bytes: u32,
    /// Bytes of a segment, the unit of cleaning: a power of two from 4 pages to 64 MiB.
    pub segment_bytes: u32,
    /// Bytes that are gathered for one write, at most a segment.
    pub write_bytes: u32,
    /// How a page lies in a segment.
    pub packing: PagePacking,
    /// Of a page that changed since it was written as a whole, only the difference is written as long
    /// as that has at most so many per cent of a page; 0 for never.
    pub difference_percent_max: u32,
    /// Which segment is cleaned next.
    pub victim: SegmentVictimKind,
    /// Whether pages that cleaning moved go to segments of their own: what survived is cold.
    pub separate_cleaned: bool,
    /// The file of segments has at most this many per cent of the live bytes, above 100.
    pub file_percent_max: u32,
    /// However little is live, the file may have so many segments more than that; 1024 at most.
    pub spare_segment_count: u32,
    /// Cleaning begins when so many segments or fewer can be written; 4 at least, and fewer than the
    /// spare ones. The more, the fewer flushes cleaning needs, and the fuller the others are.
    pub reserve_segment_count: u32,
    /// The map is written after so many segments, or after 32 times its own length if that is more.
    pub checkpoint_segment_count: u32,
}

impl Default for LogStructuredSettings {
    fn default() -> Self {
        Self {
            page_bytes: 4096,
            segment_bytes: 1 << 20,
            write_bytes: 256 << 10,
            packing: PagePacking::default(),
            difference_percent_max: 30,
            victim: SegmentVictimKind::default(),
            separate_cleaned: true,
            file_percent_max: 160,
            spare_segment_count: 12,
            reserve_segment_count: 6,
            checkpoint_segment_count: 16,
        }
    }
}

/// The largest size of a segment, in bytes.
const SEGMENT_BYTES_MAX: u32 = 64 << 20;
/// Fewest segments in reserve: cleaning writes one, has the next one named, and so does whoever waits.
const RESERVE_COUNT_MIN: u32 = 4;
/// Most spare segments: those in reserve are there from the first page on.
const SPARE_COUNT_MAX: u32 = 1024;

impl LogStructuredSettings {
    /// The default settings for pages of `page_bytes`.
    #[must_use]
    pub fn for_pages_of(page_bytes: u32) -> Self {
        Self { page_bytes, ..Self::default() }
    }

    /// These settings for pages of `page_bytes`.
    pub(crate) fn with_pages_of(&self, page_bytes: u32) -> Self {
        Self { page_bytes, ..self.clone() }
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
        let mut rng = Rng::for_part(seed, "segments");
        let mut one_of = |choices: &[u32]| choices[to_index(rng.below(choices.len() as u64))];
        let write_pages = one_of(&[4, 4, 8]);
        let segment_pages = write_pages * one_of(&[1, 2, 4]);
        let victim = SegmentVictimKind::ALL[one_of(&[0, 1, 2, 3, 4, 5]) as usize];
        Self {
            page_bytes,
            segment_bytes: segment_pages * page_bytes,
            write_bytes: write_pages * page_bytes,
            packing: if one_of(&[0, 0, 1]) == 0 { PagePacking::Packed } else { PagePacking::Whole },
            difference_percent_max: one_of(&[0, 30, 30, 100]),
            victim,
            separate_cleaned: one_of(&[0, 1]) == 1,
            file_percent_max: one_of(&[110, 160]),
            spare_segment_count: one_of(&[5, 7, 12]),
            reserve_segment_count: 4,
            checkpoint_segment_count: one_of(&[1, 4, 16]),
        }
    }

    /// Bytes of records that a segment holds when it is written in the largest pieces, about: the rest
    /// is summaries, padding, and what the last record of each piece did not fit. It is never more than
    /// what pages of which nothing can be left out take of a segment.
    pub(super) fn record_bytes_max(&self, sector_bytes: u32) -> u32 {
        let Self { page_bytes, segment_bytes, write_bytes, .. } = *self;
        let dense_bytes =
            self.dense_page_count(sector_bytes) * self.dense_record_bytes(sector_bytes);
        let in_piece = write_bytes - 2 * page_bytes / 3 - write_bytes / page_bytes * 32;
        dense_bytes.min(segment_bytes / write_bytes * in_piece)
    }

    /// Pages of which nothing can be left out that a segment holds when it is written in the largest
    /// pieces.
    pub(super) fn dense_page_count(&self, sector_bytes: u32) -> u32 {
        let record_bytes = self.dense_record_bytes(sector_bytes) as usize;
        let alignment = if self.is_whole(sector_bytes) { sector_bytes } else { UNIT_BYTES };
        let start = partial::HEADER_BYTES.next_multiple_of(alignment as usize);
        let sealed_bytes =
            |count: usize| partial::sealed_bytes(start + count * record_bytes, count, sector_bytes);
        let mut count = (self.write_bytes as usize - start) / record_bytes;
        while sealed_bytes(count) > self.write_bytes as usize {
            count -= 1;
        }
        self.segment_bytes / self.write_bytes * to_u32(count as u64)
    }

    fn dense_record_bytes(&self, sector_bytes: u32) -> u32 {
        let is_whole = self.is_whole(sector_bytes);
        if is_whole { self.page_bytes } else { packed_bytes_max(self.page_bytes) }
    }

    /// Whether pages lie as they are, on sectors of their own.
    pub(super) fn is_whole(&self, sector_bytes: u32) -> bool {
        self.packing == PagePacking::Whole && self.page_bytes.is_multiple_of(sector_bytes)
    }

    /// Checks that the settings can work together, on sectors of `sector_bytes`.
    ///
    /// # Errors
    /// The first that cannot, with what would do.
    pub fn check(&self, sector_bytes: u32) -> Result<(), StorageError> {
        let invalid = |what: String| Err(StorageError::InvalidSetting { what });
        check_page_bytes(self.page_bytes)?;
        let Self { page_bytes, segment_bytes, write_bytes, .. } = *self;
        check_segments((page_bytes, sector_bytes), segment_bytes, write_bytes)?;
        if self.difference_percent_max > 100 {
            let found = self.difference_percent_max;
            return invalid(format!("difference_percent_max {found} is more than a page"));
        }
        if self.file_percent_max <= 100 {
            let found = self.file_percent_max;
            return invalid(format!("file_percent_max {found} leaves no room; choose 160, say"));
        }
        if self.reserve_segment_count < RESERVE_COUNT_MIN {
            let found = self.reserve_segment_count;
            return invalid(format!("reserve_segment_count {found} is below {RESERVE_COUNT_MIN}"));
        }
        if self.spare_segment_count > SPARE_COUNT_MAX {
            let found = self.spare_segment_count;
            return invalid(format!("spare_segment_count {found} is above {SPARE_COUNT_MAX}"));
        }
        if self.spare_segment_count <= self.reserve_segment_count {
            let (spare, reserve) = (self.spare_segment_count, self.reserve_segment_count);
            return invalid(format!(
                "spare_segment_count {spare} is not above reserve_segment_count {reserve}"
            ));
        }
        if self.checkpoint_segment_count == 0 {
            return invalid("checkpoint_segment_count is 0; choose 16, say".to_owned());
        }
        Ok(())
    }
}

/// Checks the lengths of segments and of writes to them, for pages and sectors of so many bytes.
///
/// # Errors
/// The first that cannot be, with what would do.
pub(in crate::propagation) fn check_segments(
    (page_bytes, sector_bytes): (u32, u32),
    segment_bytes: u32,
    write_bytes: u32,
) -> Result<(), StorageError> {
    let invalid = |what: String| Err(StorageError::InvalidSetting { what });
    let least = 4 * page_bytes.max(sector_bytes);
    if !segment_bytes.is_power_of_two() || !(least..=SEGMENT_BYTES_MAX).contains(&segment_bytes) {
        return invalid(format!(
            "segment_bytes {segment_bytes} is not a power of two from {least} (4 pages or \
             sectors) to {SEGMENT_BYTES_MAX}"
        ));
    }
    if !(least..=segment_bytes).contains(&write_bytes) || !write_bytes.is_multiple_of(sector_bytes)
    {
        return invalid(format!(
            "write_bytes {write_bytes} is not a multiple of {sector_bytes} from {least} to \
             segment_bytes {segment_bytes}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_work_are_refused() {
        LogStructuredSettings::default().check(4096).unwrap();
        for page_bytes in [512, 4096, 65_536] {
            LogStructuredSettings::for_pages_of(page_bytes).check(512).unwrap();
        }
        let mut bad = vec![LogStructuredSettings::default(); 9];
        bad[0].page_bytes = 1000;
        bad[1].segment_bytes = 3 << 19;
        bad[2].segment_bytes = 8192;
        bad[3].write_bytes = 2 << 20;
        bad[4].file_percent_max = 100;
        bad[5].reserve_segment_count = 3;
        bad[6].spare_segment_count = 6;
        bad[7].checkpoint_segment_count = 0;
        (bad[8].spare_segment_count, bad[8].reserve_segment_count) = (100_001, 100_000);
        for settings in bad {
            let answer = settings.check(512);
            assert!(matches!(answer, Err(StorageError::InvalidSetting { .. })), "{settings:?}");
        }
    }
}
