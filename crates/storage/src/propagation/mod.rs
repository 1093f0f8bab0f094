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

mod changes;
mod double_write;
pub mod in_place;
mod kind;
pub mod log_structured;

pub use changes::{CHANGED_RANGES_MAX, ChangedRanges};
pub use in_place::{DoubleWriteFile, InPlace};
pub use kind::PropagationKind;
pub use log_structured::{LogStructured, LogStructuredSettings, StoredPage};

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

/// A way of placing pages on a volume.
pub trait Propagation: Send {
    /// Where a page lies, if it does and nothing else is in the way. The pool may read it there by
    /// itself as long as it writes nothing; later what is read there may be another page, or none.
    fn locate(&self, address: PageAddress) -> Option<PagePlace>;

    /// Whether the place of every page follows from its address.
    fn places_by_address(&self) -> bool;

    /// Begins to read a page into `buffer`, one page long.
    ///
    /// # Errors
    /// If the volume refuses.
    fn start_read(
        &mut self,
        io: &Io,
        address: PageAddress,
        buffer: IoBuffer,
    ) -> Result<(), StorageError>;

    /// Waits for the next page that was begun; `None` where there is none.
    fn next_read(&mut self, io: &Io) -> Option<PageRead>;

    /// Writes pages with the device's queue full, seals them before, and waits. All come back in their
    /// order, also with an error.
    ///
    /// # Errors
    /// If the device fails or has no room. Which of the pages were written is not known then.
    fn write(&mut self, io: &Io, pages: &mut Vec<PageWrite>) -> Result<(), StorageError>;

    /// Makes everything written durable, and waits.
    ///
    /// # Errors
    /// If the device fails.
    fn sync(&mut self, io: &Io) -> Result<(), StorageError>;

    /// Forgets all pages of a file from `first_page` on. If that is the first, the file is gone from the
    /// volume: its removal is durable before its pages are forgotten, where that is a step of its own,
    /// and that they are is durable afterwards, since another file may have the number next.
    ///
    /// # Errors
    /// If the device fails.
    fn truncate(&mut self, io: &Io, file: FileId, first_page: u32) -> Result<(), StorageError>;

    /// How many pages that have no place yet can be written, or more than `wanted`; only asked where no
    /// place follows from an address. Whoever else writes to the medium may take the room.
    ///
    /// # Errors
    /// If there is none for what has to be noted of them, or the device fails.
    fn room_pages(&mut self, _io: &Io, _wanted: u64) -> Result<u64, StorageError> {
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

    /// Asserts the kind's numbered invariants.
    ///
    /// # Panics
    /// If one does not hold.
    fn audit(&self);
}
