//! How a changed page gets from the pool to the device (the propagation of S000 chapter 6): siblings
//! behind one trait.
//!
//! ```text
//!   in_place        page n of a file lies at (n - 1) · page_bytes of it, always
//!   log_structured  pages are appended to segments; a map says where each lies last
//! ```
//!
//! 1. After [`Propagation::write`] a read gives the written page; after [`Propagation::sync`] it does
//!    so even if the power goes. Until then it gives that page, an older one, or one whose checksum
//!    fails, as the kind's head says.
//! 2. Pages are sealed by the propagation just before they are written, and checked by the pool when
//!    they were read.

mod double_write;
pub mod in_place;
mod kind;
pub mod log_structured;

pub use in_place::{DoubleWriteFile, InPlace};
pub use kind::PropagationKind;
pub use log_structured::{LogStructured, LogStructuredSettings};

use crate::volume::Io;
use crate::{FileId, PageAddress, StorageError};
use nandu_device::IoBuffer;
use std::ops::Range;

/// Most byte ranges that are told apart; more grow together.
pub const CHANGED_RANGES_MAX: usize = 8;

/// Which bytes of a page changed since it was last read or written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedRanges {
    ranges: Vec<Range<u32>>,
}

/// A page on its way to the device.
#[derive(Debug)]
pub struct PageWrite {
    /// Which page.
    pub address: PageAddress,
    /// The whole page with its trailer; the LSN is set, the checksum is not yet.
    pub buffer: IoBuffer,
    /// What changed since the device had the page last, for a propagation that makes use of that;
    /// empty where nobody kept track.
    pub changed: ChangedRanges,
    /// Whether it was not written since it was made, and the log tells its making: restart makes it
    /// anew if it is torn.
    pub is_new: bool,
}

/// A page that was asked for.
#[derive(Debug)]
pub struct PageRead {
    /// Which page.
    pub address: PageAddress,
    /// Filled, if `result` is good; a page never written is all zeros.
    pub buffer: IoBuffer,
    /// Whether it was read. Checksums are not checked yet.
    pub result: Result<(), StorageError>,
}

/// A way of placing pages on a volume.
pub trait Propagation: Send {
    /// Where a page lies in one piece, if it does: file and offset. The pool may read it there by
    /// itself as long as it writes nothing.
    fn locate(&self, address: PageAddress) -> Option<(FileId, u64)>;

    /// Begins to read a page into `buffer`, one page long.
    ///
    /// # Errors
    /// If the volume refuses.
    fn start_read(
        &mut self,
        io: &mut Io,
        address: PageAddress,
        buffer: IoBuffer,
    ) -> Result<(), StorageError>;

    /// Waits for the next page that was begun; `None` where there is none.
    fn next_read(&mut self, io: &mut Io) -> Option<PageRead>;

    /// Writes pages with the device's queue full, seals them before, and waits. All come back, in
    /// any order, also with an error.
    ///
    /// # Errors
    /// If the device fails or has no room. Which of the pages were written is not known then.
    fn write(&mut self, io: &mut Io, pages: &mut Vec<PageWrite>) -> Result<(), StorageError>;

    /// Makes everything written durable, and waits.
    ///
    /// # Errors
    /// If the device fails.
    fn sync(&mut self, io: &mut Io) -> Result<(), StorageError>;

    /// Forgets all pages of a file from `first_page` on.
    ///
    /// # Errors
    /// If the device fails.
    fn truncate(&mut self, io: &mut Io, file: FileId, first_page: u32) -> Result<(), StorageError>;

    /// Bytes of a file's pages as they are stored, where they do not follow from the file's length.
    fn stored_bytes(&self, _file: FileId) -> Option<u64> {
        None
    }

    /// Asserts the kind's numbered invariants.
    ///
    /// # Panics
    /// If one does not hold.
    fn audit(&self);
}

impl ChangedRanges {
    /// Notes that `range` changed. Ranges that touch grow together, and so do the two nearest ones
    /// when there are too many.
    pub fn add(&mut self, range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        let first = self.ranges.partition_point(|known| known.end < range.start);
        let last = self.ranges.partition_point(|known| known.start <= range.end);
        if first == last {
            self.ranges.insert(first, range);
        } else {
            let start = self.ranges[first].start.min(range.start);
            let end = self.ranges[last - 1].end.max(range.end);
            self.ranges.splice(first..last, std::iter::once(start..end));
        }
        if self.ranges.len() > CHANGED_RANGES_MAX {
            let gap = |index: &usize| self.ranges[index + 1].start - self.ranges[*index].end;
            let nearest = (0..self.ranges.len() - 1).min_by_key(gap).expect("there are several");
            self.ranges[nearest].end = self.ranges[nearest + 1].end;
            self.ranges.remove(nearest + 1);
        }
    }

    /// The ranges, ascending, with gaps between them.
    #[must_use]
    pub fn as_slice(&self) -> &[Range<u32>] {
        &self.ranges
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn changed_ranges_cover_what_was_added_and_stay_few(
            added in proptest::collection::vec((0_u32..500, 0_u32..40), 0..60)
        ) {
            let mut ranges = ChangedRanges::default();
            for &(start, length) in &added {
                ranges.add(start..start + length);
                prop_assert!(ranges.as_slice().len() <= CHANGED_RANGES_MAX);
                let apart = |pair: &[Range<u32>]| pair[0].end < pair[1].start;
                prop_assert!(ranges.as_slice().windows(2).all(apart));
            }
            for (start, length) in added {
                let inside =
                    |known: &Range<u32>| known.start <= start && start + length <= known.end;
                prop_assert!(length == 0 || ranges.as_slice().iter().any(inside));
            }
        }
    }
}
