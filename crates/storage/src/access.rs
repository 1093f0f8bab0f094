//! What structures (trees, tables) see of the engine: pages to read, and logged changes to them.
//!
//! The engine implements both traits; [`MemoryPages`] is the smallest thing that does, for the tests
//! of structures.
//!
//! 1. Slices hold the usable bytes of a page only; nobody but the engine sees the trailer.
//! 2. A change is applied and logged by the same call, with the same bytes: redo repeats history by
//!    calling the same function.
//! 3. All changes between two calls of the engine form one action: after a crash all or none of them
//!    are there. Whoever returns an error in the middle leaves the undoing to the engine.

use crate::page::TRAILER_BYTES;
use crate::{PageAddress, PageOperation, StorageError};
use std::cell::Cell;
use std::collections::BTreeMap;

/// Reading pages, through a buffer pool or whatever stands in for one.
pub trait ReadPages {
    /// Usable bytes of each page: the page size less the trailer.
    fn usable_bytes(&self) -> usize;

    /// Lends the usable bytes of a page to `look`, and gives back its answer. `look` must not read
    /// pages itself: it may run under protection that a second page would need, too.
    ///
    /// # Errors
    /// If the page cannot be read, or its checksum fails.
    fn read<R>(
        &self,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError>;

    /// Reads several pages with the device's queue full; `look` gets each page's index in
    /// `addresses`, in the order in which the pages arrive. Same rule for `look`.
    ///
    /// # Errors
    /// As [`Self::read`]; pages after the failed one may or may not have been looked at.
    fn read_batch(
        &self,
        addresses: &[PageAddress],
        mut look: impl FnMut(usize, &[u8]),
    ) -> Result<(), StorageError> {
        for (index, &address) in addresses.iter().enumerate() {
            self.read(address, |bytes| look(index, bytes))?;
        }
        Ok(())
    }

    /// Starts to read pages that are going to be wanted soon. A hint: errors show when they are read.
    fn prefetch(&self, addresses: &[PageAddress]) {
        let _ = addresses;
    }
}

/// Changing pages inside one action.
pub trait ChangePages: ReadPages {
    /// Applies `operation` to a page and books it for the log.
    ///
    /// # Errors
    /// If the page cannot be read, or the operation does not fit its bytes.
    fn change(
        &mut self,
        address: PageAddress,
        operation: PageOperation<'_>,
    ) -> Result<(), StorageError>;

    /// Makes a page of zeros, whatever the device holds there, without reading it.
    ///
    /// # Errors
    /// If no frame can be had.
    fn create(&mut self, address: PageAddress) -> Result<(), StorageError>;

    /// As [`Self::create`], of a page past all that its file ever had, so that nobody can still see it as it was.
    ///
    /// # Errors
    /// As there.
    fn create_at_end(&mut self, address: PageAddress) -> Result<(), StorageError> {
        self.create(address)
    }
}

/// Applies `operation` to the usable bytes of a page. Each structure hands in its own codes; those
/// below 0x10 are common.
///
/// # Errors
/// If the code is unknown or the operands do not fit.
pub fn apply_common(page: &mut [u8], operation: &PageOperation<'_>) -> Result<(), StorageError> {
    let PageOperation { code, operand, first, second } = *operation;
    let misfit = |what: &str| {
        let place = "a change to a page".to_owned();
        Err(StorageError::Corrupt { place, what: format!("operation {code:#04x}: {what}") })
    };
    let at = operand as usize;
    match code {
        PageOperation::BYTES => match page.get_mut(at..at + first.len()) {
            Some(target) => target.copy_from_slice(first),
            None => return misfit("bytes pass the end of the page"),
        },
        PageOperation::IMAGE => {
            if first.len() + at + second.len() != page.len() {
                return misfit("the image is not as long as the page");
            }
            page[..first.len()].copy_from_slice(first);
            page[first.len()..first.len() + at].fill(0);
            page[first.len() + at..].copy_from_slice(second);
        }
        PageOperation::CLEAR => page.fill(0),
        _ => return misfit("no structure knows it"),
    }
    Ok(())
}

/// Applies one structure's operations to the usable bytes of a page.
pub type ApplyOperation = fn(&mut [u8], &PageOperation<'_>) -> Result<(), StorageError>;

/// Pages in a map, without device, log or checksums.
#[derive(Debug)]
pub struct MemoryPages {
    usable_bytes: usize,
    apply: ApplyOperation,
    pages: BTreeMap<PageAddress, Vec<u8>>,
    read_count: Cell<u64>,
    change_count: u64,
}

impl MemoryPages {
    /// No pages yet, of `page_bytes` with their trailer. `apply` gets the operations whose code is
    /// 0x10 or higher.
    #[must_use]
    pub fn new(page_bytes: u32, apply: ApplyOperation) -> Self {
        let usable_bytes = page_bytes as usize - TRAILER_BYTES;
        let pages = BTreeMap::new();
        Self { usable_bytes, apply, pages, read_count: Cell::new(0), change_count: 0 }
    }

    /// How many pages were read, and how many changes were made.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.read_count.get(), self.change_count)
    }

    /// All pages, in the order of their addresses.
    pub fn pages(&self) -> impl Iterator<Item = (PageAddress, &[u8])> {
        self.pages.iter().map(|(&address, bytes)| (address, bytes.as_slice()))
    }
}

impl ReadPages for MemoryPages {
    fn usable_bytes(&self) -> usize {
        self.usable_bytes
    }

    fn read<R>(
        &self,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        self.read_count.set(self.read_count.get() + 1);
        match self.pages.get(&address) {
            Some(bytes) => Ok(look(bytes)),
            None => Ok(look(&vec![0; self.usable_bytes])),
        }
    }
}

impl ChangePages for MemoryPages {
    fn change(
        &mut self,
        address: PageAddress,
        operation: PageOperation<'_>,
    ) -> Result<(), StorageError> {
        self.change_count += 1;
        let empty = || vec![0; self.usable_bytes];
        let page = self.pages.entry(address).or_insert_with(empty);
        match operation.code {
            0x00..=0x0F => apply_common(page, &operation),
            _ => (self.apply)(page, &operation),
        }
    }

    fn create(&mut self, address: PageAddress) -> Result<(), StorageError> {
        self.pages.insert(address, vec![0; self.usable_bytes]);
        Ok(())
    }
}
