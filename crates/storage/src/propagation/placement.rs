//! A propagation at work: what every kind needs and none does by itself.
//!
//! ```text
//!   write ──► seal ──► copies, durable ──► propagation.write       kinds that overwrite pages
//!         └─► seal ──────────────────────► propagation.write       the others, or without copies
//! ```
//!
//! 1. What comes to the propagation is sealed.
//! 2. With a double write no page goes to its place before its copy is durable, whatever the kind, and a
//!    lap of copies ends only after all pages are durable in their places ([`double_write`]).
//! 3. Pages come and go in memory that is aligned for the strictest medium.
//!
//! [`double_write`]: super::double_write

use super::double_write::{Batch, DoubleWrite};
use super::{DoubleWriteFile, PageRead, PageWatch, PageWrite, Propagation};
use crate::plant::{EngineBug, is_planted};
use crate::{FileId, PageAddress, StorageError};
use nandu_device::IoBuffer;
use std::collections::VecDeque;
use std::sync::Arc;

/// A propagation, and the double write before it.
pub struct Placement {
    propagation: Box<dyn Propagation>,
    double_write: Option<DoubleWrite>,
    /// Whether a write in place failed, and may have torn pages, since the lap began.
    has_failed: bool,
    /// Pages that came while torn ones were looked for, and are for whoever asked for them.
    arrived: VecDeque<PageRead>,
    buffer_alignment: u32,
    watch: Option<Arc<dyn PageWatch>>,
}

/// What a propagation says of its places: see the methods of [`Propagation`] by these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlaceAnswers {
    pub(crate) needs_room_in_files: bool,
    pub(crate) counts_pages_by_length: bool,
    pub(crate) lets_read_past_pool: bool,
    pub(crate) places_by_address: bool,
    pub(crate) keeps_places: bool,
    pub(crate) leaves_blank_what_was_never_written: bool,
    pub(crate) hears_of_clean_evictions: bool,
}

impl PlaceAnswers {
    pub(crate) fn of(propagation: &dyn Propagation) -> Self {
        Self {
            needs_room_in_files: propagation.needs_room_in_files(),
            counts_pages_by_length: propagation.counts_pages_by_length(),
            lets_read_past_pool: propagation.lets_read_past_pool(),
            places_by_address: propagation.places_by_address(),
            keeps_places: propagation.keeps_places(),
            leaves_blank_what_was_never_written: propagation.leaves_blank_what_was_never_written(),
            hears_of_clean_evictions: propagation.hears_of_clean_evictions(),
        }
    }
}

impl std::fmt::Debug for Placement {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Placement(double write {:?})", self.double_write)
    }
}

impl Placement {
    /// Pages of `page_bytes`, aligned in memory for the volume of the data. With a `double_write` copies
    /// go to that file of the data first, but for pages that the log can make anew.
    #[must_use]
    pub fn new(
        propagation: Box<dyn Propagation>,
        page_bytes: u32,
        double_write: Option<DoubleWriteFile>,
    ) -> Self {
        let copies_of = |file| DoubleWrite::new(propagation.data().clone(), page_bytes, file);
        let double_write = double_write.map(copies_of);
        let buffer_alignment = propagation.data().buffer_alignment().max(1);
        let arrived = VecDeque::new();
        let (has_failed, watch) = (false, None);
        Self { propagation, double_write, has_failed, arrived, buffer_alignment, watch }
    }

    /// The same with pages aligned in memory to `buffer_alignment` bytes, for a medium beside the data that
    /// is stricter.
    #[must_use]
    pub fn aligned_to(self, buffer_alignment: u32) -> Self {
        let double_write = self.double_write.map(|copies| copies.aligned_to(buffer_alignment));
        Self { double_write, buffer_alignment, ..self }
    }

    /// The alignment in memory of pages that are read and written.
    #[must_use]
    pub const fn buffer_alignment(&self) -> u32 {
        self.buffer_alignment
    }

    /// The propagation, to ask it.
    #[must_use]
    pub fn get(&self) -> &dyn Propagation {
        &*self.propagation
    }

    /// The propagation, for what is neither reading nor writing.
    pub(crate) fn get_mut(&mut self) -> &mut dyn Propagation {
        &mut *self.propagation
    }

    /// Has `watch` told of what is written and synced from now on, or nobody.
    pub(crate) fn set_watch(&mut self, watch: Option<Arc<dyn PageWatch>>) {
        self.watch = watch;
    }

    /// Whether anybody makes use of what changed on a page.
    pub(crate) fn uses_changes(&self) -> bool {
        self.double_write.is_some() || self.propagation.uses_changes()
    }

    /// Begins to read a page, as [`Propagation::start_read`] does.
    ///
    /// # Errors
    /// As there.
    pub fn start_read(
        &mut self,
        address: PageAddress,
        buffer: IoBuffer,
    ) -> Result<(), StorageError> {
        self.propagation.start_read(address, buffer)
    }

    /// As [`Propagation::next_read`], with what came while torn pages were looked for.
    pub fn next_read(&mut self) -> Option<PageRead> {
        self.arrived.pop_front().or_else(|| self.propagation.next_read())
    }

    /// Seals pages, copies them if they might be torn, and writes them as [`Propagation::write`] does.
    ///
    /// # Errors
    /// As there.
    pub fn write(&mut self, pages: &mut [PageWrite]) -> Result<(), StorageError> {
        pages.iter_mut().for_each(PageWrite::seal);
        if let Some(watch) = &self.watch {
            watch.pages_written(self.propagation.data().present(), pages);
        }
        let Some(part_count_max) = self.double_write.as_ref().map(DoubleWrite::batch_count_max)
        else {
            return self.propagation.write(pages);
        };
        pages.chunks_mut(part_count_max).try_for_each(|part| self.write_twice(part))
    }

    fn write_twice(&mut self, part: &mut [PageWrite]) -> Result<(), StorageError> {
        let copied = part.iter().filter(|page| !page.is_new);
        let double_write = self.double_write.as_mut().expect("pages are copied");
        let is_due = double_write.is_lap_due();
        if double_write.prepare(copied) == Batch::HasNoRoom || is_due {
            if is_planted(EngineBug::LapUnsynced) {
                double_write.end_lap();
            } else {
                self.make_durable()?;
            }
        }
        let double_write = self.double_write.as_mut().expect("pages are copied");
        double_write.write()?;
        double_write.note_writes(part);
        self.propagation.write(part).inspect_err(|_| self.has_failed = true)
    }

    /// Makes everything written durable, and waits.
    ///
    /// # Errors
    /// If the device fails.
    pub fn sync(&mut self) -> Result<(), StorageError> {
        if let Some(watch) = &self.watch {
            watch.synced(self.propagation.data().present());
        }
        self.make_durable()
    }

    fn make_durable(&mut self) -> Result<(), StorageError> {
        self.propagation.sync()?;
        if self.double_write.is_none() {
            return Ok(());
        }
        // Pages that could not be written in their places have their only good copies in the lap that
        // ends here: put them back before it is overwritten.
        if self.has_failed {
            self.recover()?;
            self.has_failed = false;
        }
        self.double_write.as_mut().expect("it is there").end_lap();
        Ok(())
    }

    /// Puts torn pages together again, to be called before redo, and gives back how many there were.
    /// Without a double write there is nothing to do.
    ///
    /// # Errors
    /// If the device fails.
    pub fn recover(&mut self) -> Result<u32, StorageError> {
        let Self { propagation, double_write, arrived, .. } = self;
        let Some(double_write) = double_write else { return Ok(0) };
        arrived.extend(std::iter::from_fn(|| propagation.next_read()));
        double_write.recover(&mut **propagation)
    }

    /// Forgets the pages of a file from `first_page` on, as [`Propagation::truncate`] does.
    ///
    /// # Errors
    /// As there.
    pub fn truncate(&mut self, file: FileId, first_page: u32) -> Result<(), StorageError> {
        self.propagation.truncate(file, first_page)
    }

    /// Asserts the numbered invariants of the kind.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self) {
        self.propagation.audit();
    }
}
