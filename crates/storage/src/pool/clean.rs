//! How dirty pages are written before their frames are needed, while nobody holds the pool or its owner.
//!
//! ```text
//!   lock held:   plan ──► copies of dirty pages that would leave soon; the propagation goes along
//!   no lock:     write ─► log durable, pages on the device; then laid down for whoever comes first
//!   lock held:   land ──► the propagation is back; what did not change meanwhile is clean
//! ```
//!
//! Else whoever misses and finds a dirty page in its way flushes the log and writes a batch with the
//! lock held, and all others who miss wait for that, and all who write for them.
//!
//! 1. One flight at a time, and only where places of pages follow from their addresses: they are still
//!    known while the propagation is away. One that hears of evictions is waited for by who evicts.
//! 2. A page that flies stays in its frame, and nobody else writes it. What changes it meanwhile is
//!    noted apart: when the flight lands, that is what the device lacks.
//!    A sync flies likewise, with no page.
//! 3. Whoever needs the propagation waits for the flight and lands it. The writer needs no lock for its
//!    part, so that ends.

use super::{Pool, State, WriteAheadRule};
use crate::page::page_lsn;
use crate::plant::{EngineBug, is_planted};
use crate::propagation::{ChangedRanges, PagePlace, PageWrite, Placement, Propagation};
use crate::volume::Io;
use crate::{Lsn, PageAddress, StorageError};
use nandu_workers::sync::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many evictions lie between two looks at what would leave next.
const LOOK_EVERY_EVICTION_COUNT: u32 = 16;
/// Of a batch of pages that would leave next so many parts are dirty when they are to be written.
const DIRTY_SHARE_DIVISOR: usize = 4;

/// Pages on their way to the device. The pool has one end, who writes them the other.
#[derive(Default)]
pub(super) struct Flight {
    landed: Mutex<Option<Landed>>,
    told: Condvar,
}

/// What comes back.
struct Landed {
    placement: Placement,
    writes: Vec<PageWrite>,
    result: Result<(), StorageError>,
}

/// A page that flies, as the pool knows it.
pub(super) struct Flying {
    frame: u32,
    /// Whether nothing of it was on the device before. Meanwhile the frame says no: what changes in it from
    /// here on has to be noted.
    was_new: bool,
    /// What the write was to cover.
    changed: ChangedRanges,
}

/// The flight that is out.
pub(super) struct Away {
    flight: Arc<Flight>,
    pages: Vec<Flying>,
}

/// Dirty pages that are to be written without the pool: see [`Pool::plan_cleaning`]. Or, without any, a sync
/// of all that were.
pub(crate) struct Cleaning {
    flight: Arc<Flight>,
    is_sync: bool,
    /// `None` once it has landed.
    load: Option<(Placement, Vec<PageWrite>)>,
    is_begun: bool,
    durable_to: Lsn,
    io: Io,
    rule: Arc<dyn WriteAheadRule>,
}

/// Says whether dirty pages should be written now; read without any lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct WantsCleaning(Arc<AtomicBool>);

impl WantsCleaning {
    /// Whether there are many of them among those that leave next.
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Cleaning {
    /// Writes them. Holds nothing that others need, but the propagation.
    ///
    /// # Errors
    /// If the log or the device fails; the pages stay dirty.
    pub(crate) fn write(mut self) -> Result<(), StorageError> {
        self.is_begun = true;
        let (placement, writes) = self.load.as_mut().expect("it has not landed");
        let result = if self.is_sync {
            placement.sync()
        } else {
            let durable = self.rule.ensure_durable(self.durable_to);
            durable.and_then(|()| placement.write(writes))
        };
        self.lay_down(result.clone());
        result
    }

    /// Does not write them, and says that it did: a planted bug.
    pub(crate) fn leave(mut self) -> Result<(), StorageError> {
        self.lay_down(Ok(()));
        Ok(())
    }

    fn lay_down(&mut self, result: Result<(), StorageError>) {
        let Some((placement, writes)) = self.load.take() else { return };
        *self.flight.landed.lock() = Some(Landed { placement, writes, result });
        self.flight.told.notify_all();
    }
}

impl Drop for Cleaning {
    /// Where the writer itself was ended, others must not wait for ever. What it had begun is in no state that
    /// the next writer could go on from.
    fn drop(&mut self) {
        if self.load.is_none() {
            return;
        }
        let cause = "a thread that wrote pages was ended".to_owned();
        if self.is_begun {
            self.io.stop(cause.clone());
        }
        self.lay_down(Err(StorageError::Poisoned { cause }));
    }
}

impl std::fmt::Debug for Cleaning {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let page_count = self.load.as_ref().map_or(0, |(_, writes)| writes.len());
        let Self { durable_to, is_sync, .. } = self;
        write!(formatter, "Cleaning({page_count} pages, log to {durable_to:?}, sync {is_sync})")
    }
}

impl Flight {
    fn wait(&self) -> Landed {
        let mut landed = self.landed.lock();
        loop {
            match landed.take() {
                Some(landed) => return landed,
                None => landed = self.told.wait(landed),
            }
        }
    }
}

impl Pool {
    /// What tells whether [`Self::plan_cleaning`] would find something to do.
    pub(crate) fn wants_cleaning(&self) -> WantsCleaning {
        self.wants_cleaning.clone()
    }

    /// Plans to write dirty pages that would leave soon; `None` where there are few of them, or others
    /// are at it.
    pub(crate) fn plan_cleaning(&self) -> Option<Cleaning> {
        let mut state = self.lock();
        self.wants_cleaning.0.store(false, Ordering::Relaxed);
        // Reads that were begun through the propagation end through it.
        if state.away.is_some() || !state.in_flight.is_empty() {
            return None;
        }
        if !self.answers.places_by_address {
            return None;
        }
        let mut batch = std::mem::take(&mut state.batch);
        self.choose_leaving(&state, self.batch_count_max(), None, &mut batch);
        let cleaning = (!batch.is_empty()).then(|| self.take_off(&mut state, &batch, false));
        state.batch = batch;
        cleaning
    }

    /// Plans to write pages that a checkpoint wants on the device, at most [`Self::batch_count_max`] of those
    /// that [`Self::dirty_below`] found; `None` if none of them is dirty any more.
    pub(crate) fn plan_writing(&self, due: &[(u64, u32)]) -> Option<Cleaning> {
        let mut state = self.lock_home();
        let mut batch = std::mem::take(&mut state.batch);
        batch.clear();
        let is_still_due = |&&(word, frame): &&(u64, u32)| {
            let info = &state.infos[frame as usize];
            info.word == word && info.rec_lsn.is_some() && !info.is_held()
        };
        batch.extend(due.iter().filter(is_still_due).map(|&(_, frame)| frame));
        let cleaning = (!batch.is_empty()).then(|| self.take_off(&mut state, &batch, false));
        state.batch = batch;
        cleaning
    }

    /// Plans to make durable all that was written, and tells which pages were not, as
    /// [`Self::dirty_pages`] does, with the last write that is counted.
    pub(crate) fn plan_sync(&self) -> (Cleaning, Vec<(PageAddress, Lsn)>, u64) {
        let mut state = self.lock_home();
        let (dirty, last_write) = (state.dirty_pages(), state.propagation().last_write());
        (self.take_off(&mut state, &[], true), dirty, last_write)
    }

    /// Whether pages can be written without the pool at all. A flight that is out is brought home.
    pub(crate) fn writes_aside(&self) -> bool {
        self.land_cleaning();
        self.answers.places_by_address
    }

    /// The state, with the propagation at home and nothing that it has begun.
    fn lock_home(&self) -> nandu_workers::sync::MutexGuard<'_, State> {
        let mut state = self.lock_landed();
        self.finish_reads(&mut state);
        state
    }

    fn take_off(&self, state: &mut State, batch: &[u32], is_sync: bool) -> Cleaning {
        let flight = Arc::<Flight>::default();
        let mut writes = Vec::with_capacity(batch.len());
        let mut pages = Vec::with_capacity(batch.len());
        let mut durable_to = Lsn::default();
        for &frame in batch {
            let write = self.copy_for_device(state, frame);
            durable_to = durable_to.max(page_lsn(&write.buffer));
            let info = &mut state.infos[frame as usize];
            info.is_flying = true;
            let was_new = std::mem::take(&mut info.is_new);
            let changed = std::mem::take(&mut info.changed);
            pages.push(Flying { frame, was_new, changed });
            writes.push(write);
        }
        let placement = state.placement.take().expect("it is here while no flight is out");
        state.away = Some(Away { flight: Arc::clone(&flight), pages });
        let (io, rule) = (self.io.clone(), Arc::clone(&self.rule));
        let load = Some((placement, writes));
        Cleaning { flight, is_sync, load, is_begun: false, durable_to, io, rule }
    }

    /// Brings the flight that is out home, once its writer is done.
    pub(crate) fn land_cleaning(&self) {
        self.land(&mut self.lock());
    }

    /// The same, with the lock held.
    pub(super) fn land(&self, state: &mut State) {
        let Some(Away { flight, pages }) = state.away.take() else { return };
        let Landed { placement, writes, result } = flight.wait();
        state.placement = Some(placement);
        let is_written = result.is_ok();
        let page_count = pages.len() as u64;
        for (Flying { frame, was_new, changed }, write) in pages.into_iter().zip(writes) {
            let info = &mut state.infos[frame as usize];
            assert!(info.is_flying, "a page that flies stays in its frame");
            assert_eq!(info.word, write.address.to_word(), "pages come back in their order");
            info.is_flying = false;
            let since = info.changed_since.take();
            let lacking = if is_written { write.changed } else { changed };
            lacking.as_slice().iter().for_each(|range| info.changed.add(range.clone()));
            if is_written {
                info.rec_lsn = since.filter(|_| !is_planted(EngineBug::FlightChangesForgotten));
            } else {
                info.is_new = was_new;
            }
            if write.buffer.len() == self.config.page_bytes as usize {
                state.spare_buffers.push(write.buffer);
            }
        }
        // Who writes them for want of a frame gets the error, if it comes again.
        if is_written && page_count > 0 {
            state.counters.write_count += page_count;
            state.counters.write_batch_count += 1;
            state.counters.aside_batch_count += 1;
        }
    }

    /// After an eviction: now and then looks whether dirty pages come next.
    pub(super) fn look_ahead(&self, state: &mut State) {
        state.evictions_since_look += 1;
        if state.evictions_since_look < LOOK_EVERY_EVICTION_COUNT {
            return;
        }
        state.evictions_since_look = 0;
        if state.away.is_some() || self.wants_cleaning.is_set() || !self.answers.places_by_address {
            return;
        }
        let limit = self.batch_count_max();
        let mut next = std::mem::take(&mut state.batch);
        next.clear();
        state.replacement.upcoming(limit, &mut next);
        let is_dirty = |frame: &&u32| {
            let info = &state.infos[**frame as usize];
            info.is_dirty() && !info.is_held()
        };
        let dirty_count = next.iter().filter(is_dirty).count();
        state.batch = next;
        if dirty_count > limit / DIRTY_SHARE_DIVISOR {
            self.wants_cleaning.0.store(true, Ordering::Relaxed);
        }
    }
}

impl State {
    pub(super) fn dirty_pages(&self) -> Vec<(PageAddress, Lsn)> {
        let dirty = |info: &super::FrameInfo| {
            let first_change = info.rec_lsn.filter(|&lsn| lsn > Lsn::default())?;
            Some((PageAddress::from_word(info.word), first_change))
        };
        let mut pages: Vec<(PageAddress, Lsn)> = self.infos.iter().filter_map(dirty).collect();
        pages.sort_unstable();
        pages
    }

    /// The propagation with what is around it, while no flight is out.
    pub(super) const fn placement(&mut self) -> &mut Placement {
        self.placement.as_mut().expect("it is here while no flight is out")
    }

    /// The propagation, while no flight is out.
    pub(super) fn propagation(&mut self) -> &mut dyn Propagation {
        self.placement().get_mut()
    }

    /// Where a page lies, as [`Propagation::locate`] says.
    pub(super) fn locate(&self, address: PageAddress, page_bytes: u32) -> Option<PagePlace> {
        match &self.placement {
            Some(placement) => placement.get().locate(address),
            None => {
                let offset_bytes = address.offset_bytes(page_bytes);
                Some(PagePlace::Whole { file: address.file, offset_bytes })
            }
        }
    }
}
