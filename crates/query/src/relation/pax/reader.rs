//! What is wanted of PAX pages, read into slots: one request for each run of columns, all of them at once, and
//! as many PAX pages ahead as there are slots.
//!
//! ```text
//!   begin(7) begin(9) ──► slots under way: 7 │ 9 │ …        as many requests as the device has room for
//!   advance()         ──► at hand: 7, checked, its payloads put together
//!   release()         ──► its slot is free
//! ```
//!
//! 1. PAX pages come in the order in which they were begun.
//! 2. Buffers are as long as the longest run; slots are as many as the memory holds, at least one.

use super::PaxView;
use crate::execution::Memory;
use crate::relation::block_reader::copy_pages;
use crate::{Execution, QueryError};
use nandu_device::{IoBuffer, Operation};
use nandu_storage::page::{TRAILER_BYTES, page_is_sound};
use nandu_storage::pax::{MinipageView, payload_of};
use nandu_storage::volume::IoOwner;
use nandu_storage::{PageAddress, StorageError};
use std::collections::VecDeque;

/// PAX pages under way at most: more requests than that a device hardly gains from.
pub(crate) const SLOT_COUNT_MAX: u32 = 32;

/// A PAX page that is being read, with a buffer for each run.
#[derive(Debug)]
struct Slot {
    pax_page: usize,
    /// One for each run.
    buffers: Vec<Option<IoBuffer>>,
    tickets: Vec<Option<u64>>,
}

/// A reader of PAX pages.
pub(crate) struct PaxReader<'x> {
    execution: &'x Execution,
    view: &'x PaxView<'x>,
    under_way: VecDeque<Slot>,
    at_hand: Option<Slot>,
    free: Vec<Slot>,
    slot_count: usize,
    _memory: Memory<'x>,
}

/// Slots of a view that so many pages hold, if reading ahead is allowed.
pub(crate) fn slot_count(pages: u32, slot_pages: u32, reads_ahead: bool) -> u32 {
    let most = if reads_ahead { SLOT_COUNT_MAX } else { 1 };
    (pages / slot_pages.max(1)).clamp(1, most)
}

impl<'x> PaxReader<'x> {
    /// A reader in `memory`, which holds a slot at least.
    pub(crate) fn new(execution: &'x Execution, view: &'x PaxView<'x>, memory: Memory<'x>) -> Self {
        assert!(memory.pages() >= view.slot_pages(), "whoever reads PAX pages has room for one");
        let reads_ahead = execution.limits().reads_ahead;
        let slot_count = slot_count(memory.pages(), view.slot_pages(), reads_ahead) as usize;
        Self {
            execution,
            view,
            under_way: VecDeque::with_capacity(slot_count),
            at_hand: None,
            free: Vec::with_capacity(slot_count),
            slot_count,
            _memory: memory,
        }
    }

    /// Whether another PAX page may be begun.
    pub(crate) fn has_room(&self) -> bool {
        self.under_way.len() + usize::from(self.at_hand.is_some()) < self.slot_count
    }

    /// The PAX page at hand.
    pub(crate) fn pax_page(&self) -> Option<usize> {
        self.at_hand.as_ref().map(|slot| slot.pax_page)
    }

    /// The PAX pages under way, in order.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = usize> {
        self.under_way.iter().map(|slot| slot.pax_page)
    }

    /// Begins to read a PAX page.
    ///
    /// # Errors
    /// If the device fails.
    pub(crate) fn begin(&mut self, pax_page: usize) -> Result<(), QueryError> {
        let Self { execution, view, .. } = *self;
        let run_count = view.runs.len();
        let mut slot = self.free.pop().unwrap_or_else(|| Slot {
            pax_page,
            buffers: view.run_pages.iter().map(|&pages| Some(execution.buffer(pages))).collect(),
            tickets: vec![None; run_count],
        });
        slot.pax_page = pax_page;
        match self.submit(&mut slot) {
            Ok(()) => {
                self.under_way.push_back(slot);
                Ok(())
            }
            Err(error) => {
                // Requests of this slot that were submitted before the failure are waited for; what
                // they bring is dropped with the slot.
                let _ = self.arrive(&mut slot);
                Err(error)
            }
        }
    }

    /// Makes all requests of a slot.
    fn submit(&self, slot: &mut Slot) -> Result<(), QueryError> {
        let Self { execution, view, .. } = *self;
        let pax_page = slot.pax_page;
        let page_bytes = execution.page_bytes();
        let file = view.table.file();
        for (index, run) in view.runs.iter().enumerate() {
            let pages = view.pages_of(pax_page, run);
            if pages.is_empty() {
                continue;
            }
            let length = pages.len() * page_bytes;
            let mut buffer = slot.buffers[index].take().expect("each run has one");
            buffer.resize(length);
            if !view.is_in_place {
                let read = execution.through_pool(view.engine, || {
                    copy_pages(view.engine, file, pages, &mut buffer)
                });
                slot.buffers[index] = Some(buffer);
                read?;
                continue;
            }
            let offset = (u64::from(pages.start) - 1) * page_bytes as u64;
            let io = &view.io;
            let owner = IoOwner::Operator;
            let ticket = io.submit_ahead(owner, file, Operation::Read, offset, buffer)?;
            slot.tickets[index] = Some(ticket);
            execution.note_request(false, file.0, offset, length as u64);
        }
        Ok(())
    }

    /// Makes the PAX page that was begun first the one at hand; false if there is none.
    ///
    /// # Errors
    /// If the device fails, a page is damaged, or the user asked to stop.
    pub(crate) fn advance(&mut self) -> Result<bool, QueryError> {
        self.execution.check_stop()?;
        self.release();
        let Some(mut slot) = self.under_way.pop_front() else { return Ok(false) };
        // Only a slot of which every part arrived and is sound becomes `at_hand`; an error ends
        // here before that.
        self.arrive(&mut slot)?;
        self.tidy(&mut slot)?;
        self.at_hand = Some(slot);
        Ok(true)
    }

    /// Goes on to the next of the PAX pages up to `end`, of which `next` is the first that was not begun, and begins
    /// as many after it as there is room for; false at the end.
    ///
    /// # Errors
    /// As [`Self::advance`].
    pub(crate) fn turn(&mut self, next: &mut usize, end: usize) -> Result<bool, QueryError> {
        self.release();
        while *next < end && self.has_room() {
            self.begin(*next)?;
            *next += 1;
        }
        self.advance()
    }

    /// Gives the slot of the PAX page at hand back.
    pub(crate) fn release(&mut self) {
        self.free.extend(self.at_hand.take());
    }

    /// Forgets what is under way.
    pub(crate) fn discard(&mut self) {
        while let Some(mut slot) = self.under_way.pop_front() {
            // The data are not needed, so an error in them is not told either; the slot is reused
            // only if nothing went wrong with it.
            if self.arrive(&mut slot).is_ok() {
                self.free.push(slot);
            }
        }
    }

    /// Waits for all requests of a slot.
    fn arrive(&self, slot: &mut Slot) -> Result<(), QueryError> {
        let mut failed = Ok(());
        for index in 0..slot.tickets.len() {
            let Some(ticket) = slot.tickets[index].take() else { continue };
            let completion = self.execution.wait(&self.view.io, ticket);
            if let Err(error) = completion.result {
                let pages = self.view.pages_of(slot.pax_page, &self.view.runs[index]);
                let (first, last) = (pages.start, pages.end - 1);
                let what = format!("cannot read pages {first} to {last} of {}", self.view.name);
                failed = Err(StorageError::Device { what, error }.into());
            }
            // A request that fails brings its buffer back, too.
            slot.buffers[index] = completion.buffer;
        }
        failed
    }

    /// Checks the pages of a slot and puts their payloads together.
    fn tidy(&self, slot: &mut Slot) -> Result<(), QueryError> {
        let Self { view, .. } = *self;
        let page_bytes = self.execution.page_bytes();
        for (index, run) in view.runs.iter().enumerate() {
            let first_page = view.pages_of(slot.pax_page, run).start;
            let Some(buffer) = slot.buffers[index].as_mut() else { continue };
            for &column in &view.columns[run.clone()] {
                let minipage = view.table.minipage(slot.pax_page, column);
                let base = (minipage.first_page - first_page) as usize * page_bytes;
                for page in 0..minipage.page_count {
                    let at = base + page as usize * page_bytes;
                    let address = PageAddress::new(view.table.file(), minipage.first_page + page);
                    if view.is_in_place && !page_is_sound(&buffer[at..at + page_bytes], address) {
                        let file = view.name.clone();
                        return Err(StorageError::ChecksumMismatch { file, address }.into());
                    }
                    let payload =
                        payload_of(&buffer[at..at + page_bytes - TRAILER_BYTES], address)?;
                    let length = payload.len();
                    buffer.copy_within(at..at + length, base + page as usize * length);
                }
            }
        }
        Ok(())
    }

    /// The values at hand, one view for each column that is wanted.
    ///
    /// # Errors
    /// If the directory contradicts itself.
    ///
    /// # Panics
    /// If no PAX page is at hand.
    pub(crate) fn views(&self) -> Result<Vec<MinipageView<'_>>, QueryError> {
        let slot = self.at_hand.as_ref().expect("a PAX page is at hand");
        let (view, page_bytes) = (self.view, self.execution.page_bytes());
        let mut views = Vec::with_capacity(view.columns.len());
        for (index, run) in view.runs.iter().enumerate() {
            let first_page = view.pages_of(slot.pax_page, run).start;
            let buffer = slot.buffers[index].as_ref().expect("it has arrived");
            for &column in &view.columns[run.clone()] {
                let minipage = view.table.minipage(slot.pax_page, column);
                let base = (minipage.first_page - first_page) as usize * page_bytes;
                let bytes = match minipage.byte_count {
                    0 => &[][..],
                    count => &buffer[base..base + count as usize],
                };
                views.push(view.table.view(slot.pax_page, column, bytes)?);
            }
        }
        Ok(views)
    }
}

impl Drop for PaxReader<'_> {
    fn drop(&mut self) {
        self.discard();
    }
}
