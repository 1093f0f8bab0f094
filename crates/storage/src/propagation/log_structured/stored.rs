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

use super::partial::EntryKind;
use super::record::{self, Location};
use crate::propagation::ChangedRanges;
use crate::{FileId, PageAddress, StorageError};
use nandu_base::to_index;
use nandu_device::IoBuffer;
use std::ops::Range;

/// A page that is made of records: at most two, of which the second is a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPage {
    pub(super) address: PageAddress,
    pub(super) file: FileId,
    pub(super) file_name: &'static str,
    pub(super) sector_bytes: u32,
    pub(super) base: Record,
    pub(super) difference: Option<Record>,
}

/// A record, or where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::propagation) enum Record {
    Stored(Location),
    /// It was not written yet.
    Waiting(Waiting),
}

/// A record in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::propagation) struct Waiting {
    pub(super) kind: EntryKind,
    pub(super) bytes: Vec<u8>,
}

impl Record {
    /// A difference that was not written yet.
    pub(in crate::propagation) const fn waiting_difference(bytes: Vec<u8>) -> Self {
        Self::Waiting(Waiting { kind: EntryKind::Difference, bytes })
    }
}

impl StoredPage {
    /// A page that was written as it is to `base`, with a difference laid over it.
    pub(in crate::propagation) const fn of_two(
        address: PageAddress,
        (file, file_name): (FileId, &'static str),
        sector_bytes: u32,
        base: Location,
        difference: Option<Record>,
    ) -> Self {
        let base = Record::Stored(base);
        Self { address, file, file_name, sector_bytes, base, difference }
    }

    /// The file that holds the records.
    #[must_use]
    pub const fn file(&self) -> FileId {
        self.file
    }

    /// Where to read, on whole sectors.
    pub fn pieces(&self) -> impl Iterator<Item = Range<u64>> {
        let sectors = |record: &Record| match record {
            Record::Stored(location) => Some(sectors_of(*location, self.sector_bytes)),
            Record::Waiting(_) => None,
        };
        self.records().filter_map(sectors)
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
        let mut pieces = pieces.iter();
        let mut changed = ChangedRanges::default();
        for (record, is_difference) in self.records().zip([false, true]) {
            let laid = match record {
                Record::Waiting(Waiting { kind, bytes }) => fill(*kind, bytes, page),
                Record::Stored(location) => {
                    let kind = match (is_difference, location.is_whole()) {
                        (true, _) => EntryKind::Difference,
                        (false, true) => EntryKind::Whole,
                        (false, false) => EntryKind::Packed,
                    };
                    let sectors = pieces.next();
                    let bytes = sectors
                        .and_then(|sectors| record_within(sectors, *location, self.sector_bytes));
                    bytes.and_then(|bytes| fill(kind, bytes, page))
                }
            };
            changed = laid.ok_or_else(|| {
                let place = format!("{} in the file {}", self.address, self.file_name);
                let record = if is_difference { "difference" } else { "record" };
                StorageError::Corrupt { place, what: format!("its {record} does not fit a page") }
            })?;
        }
        Ok(changed)
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        std::iter::once(&self.base).chain(&self.difference)
    }
}

/// The sectors that hold a record.
const fn sectors_of(location: Location, sector_bytes: u32) -> Range<u64> {
    let sector_bytes = sector_bytes as u64;
    let start = location.offset_bytes() / sector_bytes * sector_bytes;
    start..location.end().next_multiple_of(sector_bytes)
}

/// A record within the sectors that hold it.
fn record_within(sectors: &[u8], location: Location, sector_bytes: u32) -> Option<&[u8]> {
    let skipped = to_index(location.offset_bytes() % u64::from(sector_bytes));
    sectors.get(skipped..skipped + location.stored_bytes() as usize)
}

/// Lays a record over a page, and gives back what its next difference has to cover; `None` where the
/// record makes no sense.
fn fill(kind: EntryKind, record: &[u8], page: &mut [u8]) -> Option<ChangedRanges> {
    match kind {
        EntryKind::Packed => record::unpack(record, page)?,
        EntryKind::Whole => page.copy_from_slice(record.get(..page.len())?),
        EntryKind::Difference => return ChangedRanges::unpack(record, page),
        EntryKind::Truncate => return None,
    }
    Some(ChangedRanges::default())
}
