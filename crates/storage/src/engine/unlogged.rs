//! Pages of a file to which nothing durable refers yet, made and changed without the log: bulk loads.
//!
//! ```text
//!   create_file ─► UnloggedPages: create, change ─► make_unlogged_durable ─► catalogue entry, logged
//!        └──────────── a crash in here leaves a file that the next opening removes ┘
//! ```
//!
//! 1. What a load wrote is durable before the log holds anything that refers to it; so redo never
//!    needs a page that the device does not have.
//! 2. These pages carry LSN 0: the first logged change to one of them is newer than it, and puts its
//!    image into the log where torn pages are repaired from there. The same load makes the same bytes.
//! 3. Others log actions meanwhile, and take checkpoints. These pass over such a page: no restart needs it
//!    before the log refers to it, and by then it is durable.
//! 4. Where recovery finds pages by what was written last, the log says how far that was durable, before
//!    anything that refers to the pages: they are in no other record, so a damaged end of what was written
//!    would leave older pages in their places, as of a file that had the number before.

use super::{Engine, structure};
use crate::log::{RecordBuilder, Room};
use crate::page::TRAILER_BYTES;
use crate::pool::WriteBack;
use crate::{ChangePages, FileId, Lsn, PageAddress, PageOperation, ReadPages, StorageError};
use nandu_base::to_u32;

/// The LSN of pages that the log does not know.
const UNLOGGED: Lsn = Lsn(0);

/// The pages of one new file, to be filled.
#[derive(Debug)]
pub struct UnloggedPages<'e> {
    engine: &'e mut Engine,
    file: FileId,
}

impl Engine {
    /// The pages of a file that was made by [`Engine::create_file`] and is unknown to the log. There is
    /// no undo: after any error the file has to be removed.
    ///
    /// # Errors
    /// If an earlier failure stopped the engine.
    pub fn unlogged_pages(&mut self, file: FileId) -> Result<UnloggedPages<'_>, StorageError> {
        self.check_usable()?;
        Ok(UnloggedPages { engine: self, file })
    }

    /// Writes the pages of `file` that are only in memory, and makes all of them durable.
    ///
    /// # Errors
    /// If the device fails.
    pub fn make_unlogged_durable(&mut self, file: FileId) -> Result<(), StorageError> {
        self.check_usable()?;
        self.pool.write_back(&WriteBack { file: Some(file), ..WriteBack::default() })?;
        self.pool.sync()?;
        let written = self.pool.last_write();
        if written > 0 {
            self.log.append(&RecordBuilder::new().pages_durable(written), Room::Free)?;
        }
        Ok(())
    }
}

impl ReadPages for UnloggedPages<'_> {
    fn usable_bytes(&self) -> usize {
        self.engine.usable_bytes()
    }

    fn read<R>(
        &self,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        self.engine.read(address, look)
    }

    fn read_batch(
        &self,
        addresses: &[PageAddress],
        look: impl FnMut(usize, &[u8]),
    ) -> Result<(), StorageError> {
        self.engine.read_batch(addresses, look)
    }

    fn prefetch(&self, addresses: &[PageAddress]) {
        self.engine.prefetch(addresses);
    }
}

impl ChangePages for UnloggedPages<'_> {
    fn change(
        &mut self,
        address: PageAddress,
        operation: PageOperation<'_>,
    ) -> Result<(), StorageError> {
        assert_eq!(address.file, self.file, "a load changes its own file only");
        let mut page = self.engine.pool.page_mut(address)?;
        let usable = page.bytes().len() - TRAILER_BYTES;
        page.note_change(0..to_u32(usable as u64));
        let applied = structure::apply(&mut page.bytes_mut()[..usable], &operation);
        page.set_lsn(UNLOGGED);
        applied
    }

    fn create(&mut self, address: PageAddress) -> Result<(), StorageError> {
        assert_eq!(address.file, self.file, "a load makes pages of its own file only");
        self.engine.make_room(address)?;
        let mut page = self.engine.pool.create(address)?;
        let usable = page.bytes().len() - TRAILER_BYTES;
        page.note_change(0..to_u32(usable as u64));
        page.set_lsn(UNLOGGED);
        Ok(())
    }
}
