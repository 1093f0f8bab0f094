//! What is on the device of a page, so that somebody can read it who has not the propagation: which
//! sectors to read, and how the page is made of them.
//!
//! ```text
//!   sectors │ … record … │   and, of a page that changed little,   │ … difference … │
//!               └─ filled into the page ◄──────── laid over ─────────────┘
//! ```
//!
//! 1. It says where the page lay when it was asked for. Cleaning moves records and their segment is
//!    written again: whoever reads without the propagation checks the page's checksum, which the
//!    record that comes last holds.

use super::SEGMENTS_FILE;
use super::partial::EntryKind;
use super::record::{self, Location};
use crate::propagation::ChangedRanges;
use crate::{FileId, PageAddress, StorageError};
use nandu_base::to_index;
use nandu_device::IoBuffer;
use std::ops::Range;

/// A page that lies in records: at most two, of which the second is a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPage {
    pub(super) address: PageAddress,
    pub(super) file: FileId,
    pub(super) sector_bytes: u32,
    pub(super) base: Location,
    pub(super) difference: Option<Difference>,
}

/// The difference of a page from its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Difference {
    Stored(Location),
    /// It was not written yet.
    Waiting(Vec<u8>),
}

impl StoredPage {
    /// The file that holds the records.
    #[must_use]
    pub const fn file(&self) -> FileId {
        self.file
    }

    /// Where to read, on whole sectors.
    pub fn pieces(&self) -> impl Iterator<Item = Range<u64>> {
        let difference = match &self.difference {
            Some(Difference::Stored(location)) => Some(*location),
            _ => None,
        };
        let sector_bytes = self.sector_bytes;
        let locations = std::iter::once(self.base).chain(difference);
        locations.map(move |location| sectors_of(location, sector_bytes))
    }

    /// Makes the page of what was read, one buffer for each of [`Self::pieces`], and gives back what
    /// its next difference has to cover.
    ///
    /// # Errors
    /// If a record is none of a page.
    pub fn assemble(
        &self,
        pieces: &[IoBuffer],
        page: &mut [u8],
    ) -> Result<ChangedRanges, StorageError> {
        let kind = if self.base.is_whole() { EntryKind::Whole } else { EntryKind::Packed };
        let base = pieces.first().and_then(|sectors| self.record(sectors, self.base));
        base.and_then(|record| fill(kind, record, page))
            .ok_or_else(|| misfit(self.address, false))?;
        let difference = match &self.difference {
            None => return Ok(ChangedRanges::default()),
            Some(Difference::Waiting(record)) => Some(&record[..]),
            Some(Difference::Stored(location)) => {
                pieces.get(1).and_then(|sectors| self.record(sectors, *location))
            }
        };
        difference
            .and_then(|record| fill(EntryKind::Difference, record, page))
            .ok_or_else(|| misfit(self.address, true))
    }

    fn record<'s>(&self, sectors: &'s [u8], location: Location) -> Option<&'s [u8]> {
        record_within(sectors, location, self.sector_bytes)
    }
}

/// The sectors that hold a record.
pub(super) const fn sectors_of(location: Location, sector_bytes: u32) -> Range<u64> {
    let sector_bytes = sector_bytes as u64;
    let start = location.offset_bytes() / sector_bytes * sector_bytes;
    start..location.end().next_multiple_of(sector_bytes)
}

/// A record within the sectors that hold it.
pub(super) fn record_within(
    sectors: &[u8],
    location: Location,
    sector_bytes: u32,
) -> Option<&[u8]> {
    let skipped = to_index(location.offset_bytes() % u64::from(sector_bytes));
    sectors.get(skipped..skipped + location.stored_bytes() as usize)
}

/// Lays a record over a page, and gives back what its next difference has to cover; `None` where the
/// record makes no sense.
pub(super) fn fill(kind: EntryKind, record: &[u8], page: &mut [u8]) -> Option<ChangedRanges> {
    match kind {
        EntryKind::Packed => record::unpack(record, page)?,
        EntryKind::Whole => page.copy_from_slice(record.get(..page.len())?),
        EntryKind::Difference => return ChangedRanges::unpack(record, page),
        EntryKind::Truncate => return None,
    }
    Some(ChangedRanges::default())
}

/// What is said of a record that makes no page.
pub(super) fn misfit(address: PageAddress, is_difference: bool) -> StorageError {
    let place = format!("{address} in the file {SEGMENTS_FILE}");
    let record = if is_difference { "difference" } else { "record" };
    StorageError::Corrupt { place, what: format!("its {record} does not fit a page") }
}
