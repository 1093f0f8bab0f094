//! How a changed page gets from the pool to the device (the propagation of S000 chapter 6): siblings
//! behind one trait.
//!
//! ```text
//!   in_place           page n of a file lies at (n - 1) · page_bytes of it, always
//!   log_structured     pages are appended to segments; a map says where each lies last
//!   page_differential  so are base pages, and where pages differ from theirs; also on raw flash
//!   in_page_logging    pages have slots on raw flash, and what changes goes to a log beside them
//! ```
//!
//! 1. After [`Propagation::write`] a read gives the written page; after [`Propagation::sync`] it does
//!    so even if the power goes. Until then it gives that page, an older one, or one whose checksum
//!    fails, as the kind's head says.
//! 2. Pages are sealed just before they come to a propagation, and checked by the pool when they were
//!    read. Those of a kind that overwrites pages are copied beforehand, if the engine has a double
//!    write. Both is the work of a [`Placement`], and none of a kind's.
//! 3. A propagation owns its media, the volume of the data among them, but for what says whose a medium
//!    is (`claim`). Files that it makes on the data are those that its kind lists.

mod changes;
#[cfg(test)]
mod chips;
mod claim;
mod double_write;
pub mod in_page_logging;
pub mod in_place;
mod kind;
pub mod log_structured;
mod media;
pub mod page_differential;
#[cfg(test)]
mod page_versions;
mod placement;
mod raw_flash;
#[cfg(test)]
mod shared_flash;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tiered;
mod watch;

pub use changes::{CHANGED_RANGES_MAX, ChangedRanges};
#[cfg(test)]
pub use chips::{Chips, ChipsSettings};
pub(crate) use claim::{Claim, ClaimedMedium};
pub use double_write::DoubleWriteFile;
pub use in_page_logging::{InPageLogging, InPageLoggingSettings};
pub use in_place::InPlace;
pub use kind::{PropagationConfig, PropagationKind, PropagationSettings};
pub use log_structured::{LogStructured, LogStructuredSettings, StoredPage};
pub use media::{Media, Medium, MediumKind, OtherMedium};
pub use page_differential::{
    PageDifferential, PageDifferentialChipsSettings, PageDifferentialSettings,
};
pub(crate) use placement::PlaceAnswers;
pub use placement::Placement;
pub use raw_flash::FlashIo;
#[cfg(test)]
pub use tiered::Tiered;
pub use watch::PageWatch;

use crate::page::{TRAILER_BYTES, seal_page};
use crate::volume::Io;
use crate::{FileId, PageAddress, StorageError};
use nandu_base::to_u32;
use nandu_device::IoBuffer;

/// A page on its way to the device.
#[derive(Debug)]
pub struct PageWrite {
    /// Where the page belongs, which need not be where it is put.
    pub address: PageAddress,
    /// The whole page with its trailer; the LSN is set, the checksum is not yet.
    pub buffer: IoBuffer,
    /// What changed since the device had the page last, or since [`PageRead::changed`] began; empty
    /// where nobody kept track. A propagation that can write it leaves here what the next write has to
    /// cover again; the others clear it.
    pub changed: ChangedRanges,
    /// Whether it was not written since it was made, and the log tells its making: restart makes it
    /// anew if it is torn.
    pub is_new: bool,
}

/// A page that was asked for.
#[derive(Debug)]
pub struct PageRead {
    /// The page that was asked for.
    pub address: PageAddress,
    /// Filled, if `result` is good; a page never written is all zeros.
    pub buffer: IoBuffer,
    /// What its next write has to cover beside what changes from now on.
    pub changed: ChangedRanges,
    /// Whether it was read. Checksums are not checked yet.
    pub result: Result<(), StorageError>,
}

impl PageWrite {
    /// Seals the page; the seal is part of what changed.
    fn seal(&mut self) {
        seal_page(&mut self.buffer, self.address);
        if !self.changed.as_slice().is_empty() {
            let end = to_u32(self.buffer.len() as u64);
            self.changed.add(end - to_u32(TRAILER_BYTES as u64)..end);
        }
    }
}

/// Where a page lies on the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PagePlace {
    /// In one piece, on whole sectors.
    Whole {
        /// The file that holds it.
        file: FileId,
        /// Where it begins there.
        offset_bytes: u64,
    },
    /// In records, of which it has to be made.
    Records(StoredPage),
}

/// A way of placing pages on media.
///
/// What it answers about places holds as long as it lives; who asks does so once. No answer has a
/// default, so that each kind thinks of it.
pub trait Propagation: Send {
    /// The volume of the data, where the files are and the places that [`Self::locate`] names: there
    /// the pool reads by itself.
    fn data(&self) -> &Io;

    /// Where a page lies on the volume of the data, if it does and nothing else is in the way. The pool
    /// may read it there by itself as long as it writes nothing; later what is read there may be another
    /// page, or none.
    fn locate(&self, address: PageAddress) -> Option<PagePlace>;

    /// Whether a file needs room for a page before the page is written: pages lie in their files, so the
    /// file has to be long enough. Elsewhere [`Self::room_pages`] says what has room.
    fn needs_room_in_files(&self) -> bool;

    /// Whether the length of a file counts its pages: all that were ever written, and are not cut off, are
    /// in front of its end.
    fn counts_pages_by_length(&self) -> bool;

    /// Whether page n, once it was written and until it changes, is in its file at (n - 1) · page bytes as
    /// it is: there it may be read past the pool, and past this.
    fn lets_read_past_pool(&self) -> bool;

    /// Whether [`Self::locate`] names for every page, whatever happens, the place of page n at (n - 1) ·
    /// page bytes of its file. Then the pool needs nobody to find it, and lets the propagation go and
    /// write while others read.
    fn places_by_address(&self) -> bool;

    /// Whether what lies at the place of a page is never another page, or rests of some, however long ago
    /// that was looked up. Where it may be, a page that has no checksum is not read by the pool itself.
    fn keeps_places(&self) -> bool;

    /// Whether a page whose place is all zeros was never written. Else there may be zeros in the place
    /// that it had before.
    fn leaves_blank_what_was_never_written(&self) -> bool;

    /// Whether it makes use of what changed on a page: see [`PageWrite::changed`].
    fn uses_changes(&self) -> bool;

    /// Begins to read a page into `buffer`, one page long. A page is read once at a time.
    ///
    /// # Errors
    /// If the medium refuses.
    fn start_read(&mut self, address: PageAddress, buffer: IoBuffer) -> Result<(), StorageError>;

    /// Waits for the next page that was begun; `None` where there is none.
    fn next_read(&mut self) -> Option<PageRead>;

    /// Writes sealed pages with the device's queue full, and waits. All come back in their order, also
    /// with an error.
    ///
    /// # Errors
    /// If the device fails or has no room. Which of the pages were written is not known then.
    fn write(&mut self, pages: &mut [PageWrite]) -> Result<(), StorageError>;

    /// Makes everything written durable, and waits.
    ///
    /// # Errors
    /// If the device fails.
    fn sync(&mut self) -> Result<(), StorageError>;

    /// Forgets all pages of a file from `first_page` on. If that is the first, the file is gone from the
    /// volume: its removal is durable before its pages are forgotten, where that is a step of its own,
    /// and that they are is durable afterwards, since another file may have the number next.
    ///
    /// # Errors
    /// If the device fails.
    fn truncate(&mut self, file: FileId, first_page: u32) -> Result<(), StorageError>;

    /// How many pages that have no place yet can be written, or more than `wanted`; only asked where
    /// files need no room for them. Whoever else writes to the medium may take the room.
    ///
    /// # Errors
    /// If there is none for what has to be noted of them, or the device fails.
    fn room_pages(&mut self, _wanted: u64) -> Result<u64, StorageError> {
        Ok(u64::MAX)
    }

    /// The last write that was recovered or made since, where writes are counted from 1 and recovery
    /// may end before one that had been durable; 0 otherwise.
    fn last_write(&self) -> u64 {
        0
    }

    /// Bytes of a file's pages as they are stored, where they do not follow from the file's length.
    fn stored_bytes(&self, _file: FileId) -> Option<u64> {
        None
    }

    /// Files of which it knows where pages lie, where that does not follow from the file.
    fn stored_files(&self) -> Vec<FileId> {
        Vec::new()
    }

    /// Whether it wants to hear of pages that leave the pool unchanged.
    fn hears_of_clean_evictions(&self) -> bool {
        false
    }

    /// A page leaves the pool to make room, and is as it was read or written last; only told who wants to hear of it,
    /// perhaps between the begin and the end of a read of its own.
    /// `page` is whole, and its checksum may be of an earlier state. What goes wrong here is for nobody
    /// else to know: the page can be read as before.
    fn evicted_clean(&mut self, _address: PageAddress, _page: &[u8]) {}

    /// Asserts the kind's numbered invariants.
    ///
    /// # Panics
    /// If one does not hold.
    fn audit(&self);
}
