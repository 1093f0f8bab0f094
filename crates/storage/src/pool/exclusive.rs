//! The one writer's way to pages. `&mut Pool` keeps readers out, so nothing here needs a lock or a
//! note, and a frame that was found stays until the pool is asked for another page; one that is held
//! stays longer.
//!
//! ```text
//!   page_mut, create ──► FrameMut ──note_change──► held ──set_lsn───► dirty, may be written
//!                                                   └────restore──► as it was before
//! ```

use super::fetch::IfTorn;
use super::{FrameInfo, InFlight, Pool};
use crate::page::{Checksum, TRAILER_BYTES, page_lsn, set_page_epoch, set_page_lsn};
use crate::{FileId, Lsn, PageAddress, StorageError};
use std::ops::Range;

/// A page in its frame, for the one writer.
#[derive(Debug)]
pub struct FrameMut<'a> {
    frame: u32,
    page: &'a mut [u8],
    /// Beside the page in its frame: see [`Frames`](super::frame::Frames).
    lsn: &'a mut u64,
    /// The number of the run of the log, for the trailers of changed pages.
    epoch: u32,
    info: &'a mut FrameInfo,
    held_count: &'a mut u32,
}

impl Pool {
    /// A page to change; reads it if it is not there.
    ///
    /// # Errors
    /// As [`Pool::read`]; or if the file is another program's.
    pub fn page_mut(&mut self, address: PageAddress) -> Result<FrameMut<'_>, StorageError> {
        let (page, _) = self.fetch_mut(address, IfTorn::Refuse)?;
        Ok(page)
    }

    /// As [`Pool::page_mut`], for redo: a page whose checksum fails comes as it was read, and the
    /// answer's second half is true. It must be overwritten as a whole, or discarded.
    ///
    /// # Errors
    /// As [`Pool::page_mut`], but for the checksum.
    pub fn page_mut_or_torn(
        &mut self,
        address: PageAddress,
    ) -> Result<(FrameMut<'_>, bool), StorageError> {
        self.fetch_mut(address, IfTorn::Take)
    }

    /// A page of zeros that is not read, whatever the device holds. One that is resident becomes zeros.
    /// Nothing is noted as changed yet. The log must tell of it: until it is written for the first
    /// time, restart can make it anew, and no copy is kept against tearing.
    ///
    /// # Errors
    /// If no frame can be had, or the file is another program's.
    pub fn create(&mut self, address: PageAddress) -> Result<FrameMut<'_>, StorageError> {
        self.refuse_foreign(address.file)?;
        let word = address.to_word();
        let (frame, is_new) = match self.resident(word) {
            Some(frame) => (frame, false),
            None => (self.make_room(word)?, true),
        };
        let mut page = self.frame_mut(frame);
        page.info.is_new |= is_new;
        page.bytes_mut().fill(0);
        Ok(page)
    }

    /// The frame of a page, if it has one; for [`Pool::frame_mut`].
    #[must_use]
    pub fn find(&self, address: PageAddress) -> Option<u32> {
        self.resident(address.to_word())
    }

    /// A page by its frame, as long as it is held.
    ///
    /// # Panics
    /// If there is no page in the frame.
    pub fn frame_mut(&mut self, frame: u32) -> FrameMut<'_> {
        assert!(self.frames.word(frame).is_some(), "a page that is held stays in its frame");
        let state = self.state.get_mut();
        let (page, lsn) = self.frames.page_mut(frame);
        let info = &mut state.infos[frame as usize];
        let epoch = self.run.epoch;
        FrameMut { frame, page, lsn, epoch, info, held_count: &mut state.held_count }
    }

    /// Drops a page without writing it, changed or not: one that was created in vain.
    ///
    /// # Panics
    /// If it is pinned.
    pub fn discard(&mut self, address: PageAddress) {
        if let Some(frame) = self.find(address) {
            let mut state = self.lock();
            self.land(&mut state);
            self.discard_frame(&mut state, frame);
        }
    }

    fn fetch_mut(
        &mut self,
        address: PageAddress,
        if_torn: IfTorn,
    ) -> Result<(FrameMut<'_>, bool), StorageError> {
        self.refuse_foreign(address.file)?;
        let word = address.to_word();
        let (frame, is_torn) = match self.resident(word) {
            Some(frame) => {
                self.frames.note_hit_exclusive(frame);
                if self.needs_every_hit {
                    self.state_mut().replacement.touch(frame);
                }
                (frame, false)
            }
            None => {
                let brought = self.bring(address, if_torn)?;
                (brought.frame, brought.is_torn)
            }
        };
        Ok((self.frame_mut(frame), is_torn))
    }

    /// A frame for a page that is not resident, its bytes as they happen to be.
    fn make_room(&self, word: u64) -> Result<u32, StorageError> {
        let mut state = self.lock();
        if state.in_flight.iter().any(|page| page.word == word) {
            self.finish_reads(&mut state);
            if let Some(frame) = self.resident(word) {
                return Ok(frame);
            }
        }
        loop {
            // Without readers a frame that is neither held nor lent is had in a few rounds: pages on
            // their way arrive.
            if let Some(frame) = self.take_frame(&mut state)? {
                let claim = self.frames.try_claim(frame).expect("an empty frame is nobody's");
                let page = InFlight { word, frame, is_prefetch: false };
                self.settle(&mut state, page, claim);
                return Ok(frame);
            }
        }
    }

    fn refuse_foreign(&mut self, file: FileId) -> Result<(), StorageError> {
        let state = self.state_mut();
        match state.checksum(file) {
            Checksum::Trailer => Ok(()),
            Checksum::None => Err(StorageError::ReadOnly { place: state.file_name(file) }),
        }
    }
}

impl FrameMut<'_> {
    /// The frame's number, for [`Pool::frame_mut`] while the page is held.
    #[must_use]
    pub const fn frame(&self) -> u32 {
        self.frame
    }

    /// Which page this is.
    #[must_use]
    pub const fn address(&self) -> PageAddress {
        PageAddress::from_word(self.info.word)
    }

    /// The whole page with its trailer.
    #[must_use]
    pub const fn bytes(&self) -> &[u8] {
        self.page
    }

    /// The whole page with its trailer, to change. Say what changed by [`FrameMut::note_change`].
    pub const fn bytes_mut(&mut self) -> &mut [u8] {
        self.page
    }

    /// Whether the device does not have the page as it is here.
    #[must_use]
    pub const fn is_dirty(&self) -> bool {
        self.info.is_dirty()
    }

    /// Whether it was made by [`Pool::create`] and not written since.
    #[must_use]
    pub const fn is_new(&self) -> bool {
        self.info.is_new
    }

    /// Notes which bytes changed. The page is held until [`FrameMut::set_lsn`] or
    /// [`FrameMut::restore`].
    pub fn note_change(&mut self, range: Range<u32>) {
        self.info.changed.add(range);
        if !self.info.is_unlogged {
            self.hold(|info| info.is_unlogged = true);
        }
    }

    /// Stores the LSN of the record that holds the noted changes; the page may be written from now on.
    ///
    /// # Panics
    /// If the page's LSN would fall.
    pub fn set_lsn(&mut self, lsn: Lsn) {
        assert!(page_lsn(self.page) <= lsn, "the LSN of a page never falls");
        set_page_lsn(self.page, lsn);
        set_page_epoch(self.page, self.epoch);
        let end = nandu_base::to_u32(self.page.len() as u64);
        self.info.changed.add(end - nandu_base::to_u32(TRAILER_BYTES as u64)..end);
        self.info.rec_lsn.get_or_insert(lsn);
        if self.info.is_flying {
            self.info.changed_since.get_or_insert(lsn);
        }
        self.hold(|info| info.is_unlogged = false);
    }

    /// Takes back the noted changes that have no LSN: `image` is the whole page as it was before them.
    ///
    /// # Panics
    /// If the image is not as long as the page.
    pub fn restore(&mut self, image: &[u8]) {
        self.page.copy_from_slice(image);
        self.hold(|info| info.is_unlogged = false);
    }

    /// Keeps the page in its frame until as many calls of [`FrameMut::unpin`].
    pub fn pin(&mut self) {
        self.hold(|info| info.pin_count += 1);
    }

    /// Ends one [`FrameMut::pin`].
    ///
    /// # Panics
    /// If there was none.
    pub fn unpin(&mut self) {
        assert!(self.info.pin_count > 0, "what is unpinned was pinned");
        self.hold(|info| info.pin_count -= 1);
    }

    fn hold(&mut self, change: impl FnOnce(&mut FrameInfo)) {
        *self.held_count -= u32::from(self.info.is_held());
        change(self.info);
        *self.held_count += u32::from(self.info.is_held());
    }
}

impl Drop for FrameMut<'_> {
    fn drop(&mut self) {
        *self.lsn = page_lsn(self.page).0;
    }
}
