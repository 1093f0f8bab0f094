//! The database as it was at one moment, for as long as somebody looks.
//!
//! ```text
//!   page ─► a copy here, without what was not committed ─► else the pool's, if its LSN is below S
//!                                                           └► else the version that S sees
//! ```
//!
//! At its moment S some transactions may have changed rows and not ended. Their changes are undone on
//! copies of the pages, by the same logical undos that a rollback would use; the copies of a file are made
//! when a page of it is wanted for the first time, and nobody else sees them. So whatever reads pages reads committed
//! rows only, and needs to know nothing of versions.
//!
//! 1. Every page is as at S: no action is seen in part, and none that came later.
//! 2. Readers hold the engine for one page at a time, so they wait for an action at most, never for a
//!    transaction; and nobody waits for them longer than a page takes.

use super::Shared;
use super::ahead::Ahead;
use super::core::Core;
use super::open_table::OpenTables;
use super::step::Step;
use crate::engine::structure;
use crate::engine::undos::Undos;
use crate::page::{TRAILER_BYTES, page_contents, page_is_sound, page_lsn, seal_page, set_page_lsn};
use crate::plant::{EngineBug, is_planted};
use crate::pool::{BATCH_COUNT_MAX, Grant, PoolCounters};
use crate::volume::Io;
use crate::{
    ChangePages, FileId, Lsn, PageAddress, PageOperation, ReadPages, Settings, StorageError,
};
use nandu_base::{Nanos, to_u32};
use nandu_device::Counters;
use nandu_workers::sync::{Mutex, RwLockReadGuard};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Pages as they were at one moment; clones are views of the same moment. Operators that read tables in
/// their own way get theirs from [`super::Tables::engine`].
#[derive(Clone)]
pub struct EngineView {
    state: Arc<ViewState>,
    /// Sees all changes whoever made them, since it looks where nobody has any that are not committed.
    sees_all: bool,
}

struct ViewState {
    shared: Arc<Shared>,
    /// Pages with a smaller LSN are as the view sees them; 0 before its moment is fixed.
    seen: AtomicU64,
    /// Whether no page has a copy here, so that nobody has to look.
    is_plain: AtomicBool,
    copies: Mutex<Copies>,
    ahead: Ahead,
}

/// What a view has beside the pages of all.
#[derive(Default)]
struct Copies {
    pages: BTreeMap<PageAddress, Arc<Vec<u8>>>,
    /// What is still to be undone in them, by file.
    undos: Undos,
    /// The copies as that made them, for a transaction that adds its own changes.
    committed: Option<BTreeMap<PageAddress, Arc<Vec<u8>>>>,
    /// Why the view cannot be had.
    lost: Option<StorageError>,
    /// Why the transaction's own changes are there in part.
    trouble: Option<StorageError>,
}

/// The pages at S, with all changes in them, and copies that can be changed.
struct ChangedCopies<'v> {
    state: &'v ViewState,
    pages: &'v mut BTreeMap<PageAddress, Arc<Vec<u8>>>,
}

impl std::fmt::Debug for EngineView {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "EngineView(at {})", self.state.seen.load(Ordering::Relaxed))
    }
}

impl EngineView {
    /// A view of what is committed now, and the tables at the same moment: between two, others may
    /// commit tables that the view does not see.
    pub(super) fn with_tables(shared: &Arc<Shared>) -> (Self, Arc<OpenTables>) {
        let core = shared.core.read();
        let engine = core.engine();
        let mut copies = Copies::default();
        if engine.has_uncommitted() && !is_planted(EngineBug::OpenRowsShown) {
            // Nobody looks at a table that is not committed, and its files may go before anybody looks.
            let unseen = core.changing.as_ref().map_or(&[][..], |changing| &changing.created_files);
            match engine.uncommitted(unseen, engine.settings().version_bytes) {
                Ok(Some(undos)) => copies.undos = undos,
                Ok(None) => {
                    let what = "a transaction under way has changed more than is kept".to_owned();
                    copies.lost = Some(StorageError::SnapshotTooOld { what });
                }
                Err(error) => copies.lost = Some(error),
            }
        }
        let seen = engine.log().next_lsn();
        shared.versions.begin(seen);
        let is_plain = AtomicBool::new(copies.undos.is_empty() && copies.lost.is_none());
        let (shared, seen) = (Arc::clone(shared), AtomicU64::new(seen.0));
        let open = Arc::clone(&core.committed);
        drop(core);
        let (copies, ahead) = (Mutex::new(copies), Ahead::default());
        (Self::over(ViewState { shared, seen, is_plain, copies, ahead }), open)
    }

    /// A view whose moment is fixed by [`Self::refresh`], with all changes whoever made them.
    pub(super) fn unfixed(shared: &Arc<Shared>) -> Self {
        let (shared, seen) = (Arc::clone(shared), AtomicU64::new(0));
        Self::over(ViewState {
            shared,
            seen,
            is_plain: AtomicBool::new(true),
            copies: Mutex::default(),
            ahead: Ahead::default(),
        })
    }

    fn over(state: ViewState) -> Self {
        Self { state: Arc::new(state), sees_all: false }
    }

    /// The view for who looks at keys of a file's tree alone of which `is_wanted` is true: where nobody had
    /// changed one of them and not committed, nothing has to be undone for that. `None` if this one is as
    /// good, or the only one.
    pub(super) fn about(&self, file: FileId, is_wanted: impl Fn(&[u8]) -> bool) -> Option<Self> {
        if self.is_plain() {
            return None;
        }
        let copies = self.state.copies.lock();
        let undos = copies.undos.get(&file)?;
        let is_other =
            |undo: &Arc<[u8]>| structure::key_of(undo).is_some_and(|key| !is_wanted(key));
        let is_clean = copies.lost.is_none() && copies.trouble.is_none();
        let sees_all = is_clean && undos.iter().all(is_other);
        sees_all.then(|| Self { state: Arc::clone(&self.state), sees_all })
    }

    /// Whether pages of a file may have copies, so that somebody has to look.
    fn has_copies(&self, file: FileId) -> bool {
        if self.is_plain() {
            return false;
        }
        let copies = self.state.copies.lock();
        copies.lost.is_some()
            || copies.trouble.is_some()
            || copies.undos.contains_key(&file)
            || copies.pages.range(pages_of(file)).next().is_some()
    }

    /// Whether no page has a copy for it.
    fn is_plain(&self) -> bool {
        self.sees_all || self.state.is_plain()
    }

    /// A view of all changes up to now, whoever made them.
    ///
    /// # Errors
    /// If the engine has stopped.
    pub(super) fn present(shared: &Arc<Shared>) -> Result<Self, StorageError> {
        let view = Self::unfixed(shared);
        // Behind the locks of the caller, which another may have given back since its rollback failed.
        view.refresh()?;
        Ok(view)
    }

    /// Moves the moment to now. Whoever walks over pages meanwhile may find them not to belong together.
    ///
    /// # Errors
    /// If the engine has stopped; the moment is now all the same.
    pub(super) fn refresh(&self) -> Result<(), StorageError> {
        self.land_ahead();
        let ViewState { shared, seen, .. } = &*self.state;
        let core = shared.core.read();
        let now = core.engine().log().next_lsn();
        shared.versions.begin(now);
        let before = seen.swap(now.0, Ordering::AcqRel);
        if before > 0 {
            shared.versions.end(Lsn(before));
        }
        core.engine().check_usable()
    }

    /// Waits for what was begun ahead of time: for whoever may be about to remove a file that it is of.
    pub(super) fn land_ahead(&self) {
        self.state.ahead.clear(&self.state.shared.page_reader);
    }

    /// Does what a transaction did on the copies of its view, so that it sees it. After an error nothing
    /// can be seen before [`Self::redo`]: a step may be there in part.
    pub(super) fn apply(&self, steps: &[Step]) -> Result<(), StorageError> {
        if steps.is_empty() {
            return Ok(());
        }
        let state = &*self.state;
        let mut copies = state.copies.lock();
        steps.iter().try_for_each(|step| state.undo(&mut copies, step.file()))?;
        let Copies { pages, committed, trouble, .. } = &mut *copies;
        committed.get_or_insert_with(|| pages.clone());
        state.is_plain.store(false, Ordering::Release);
        let applied =
            steps.iter().try_for_each(|step| step.apply(&mut ChangedCopies { state, pages }));
        applied.inspect_err(|error| *trouble = Some(error.clone()))
    }

    /// Does all that a transaction did and has not taken back, from its moment on.
    pub(super) fn redo(&self, steps: &[Step]) -> Result<(), StorageError> {
        {
            let mut copies = self.state.copies.lock();
            let Some(committed) = copies.committed.clone() else { return Ok(()) };
            copies.pages = committed;
            copies.trouble = None;
        }
        self.apply(steps)
    }

    /// The settings in force.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.state.shared.settings
    }

    /// The volume of the pages, for operators that read tables in larger pieces and keep files of
    /// their own there. They remove those files; what a crash leaves goes at the next opening.
    #[must_use]
    pub fn data_io(&self) -> Io {
        self.state.shared.data_io.clone()
    }

    /// The present, on the devices' clock.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.state.shared.data_io.present()
    }

    /// Frames of the pool as the memory of an operator.
    ///
    /// # Errors
    /// As [`crate::Pool::grant`].
    pub fn grant(&self, frame_count: u32) -> Result<Grant, StorageError> {
        self.state.shared.core.read().engine().grant(frame_count)
    }

    /// Brings the changed pages of a file to the volume, so that whoever reads there sees them. True
    /// if page n lies at (n - 1) · page bytes of the file then. A page that changes later, or had
    /// changed since the view's moment, is found by [`Self::mend`].
    ///
    /// # Errors
    /// If the log or the device fails.
    pub fn settle(&self, file: FileId) -> Result<bool, StorageError> {
        self.state.shared.core.read().engine().settle(file)
    }

    /// Puts the page as the view sees it in place of what was read from the volume after
    /// [`Self::settle`], if that is another.
    ///
    /// # Errors
    /// As [`ReadPages::read`].
    pub fn mend(&self, address: PageAddress, page: &mut [u8]) -> Result<(), StorageError> {
        let state = &*self.state;
        let seen = Lsn(state.seen.load(Ordering::Acquire));
        let versions = &state.shared.versions;
        let is_old = || page_lsn(page) < seen && !versions.has(address, seen);
        // One that is written meanwhile may come torn, with an LSN from before.
        let is_whole = || !versions.has_lost(seen) || page_is_sound(page, address);
        if !self.has_copies(address.file) && is_old() && is_whole() {
            return Ok(());
        }
        let usable_bytes = page.len() - TRAILER_BYTES;
        self.read(address, |bytes| page[..usable_bytes].copy_from_slice(bytes))?;
        page[usable_bytes..].fill(0);
        set_page_lsn(page, Lsn(0));
        seal_page(page, address);
        Ok(())
    }

    /// What the pool has done.
    #[must_use]
    pub fn pool_counters(&self) -> PoolCounters {
        self.state.shared.core.read().engine().pool_counters()
    }

    /// What the devices have done: that of the pages, and that of the log if it has its own.
    #[must_use]
    pub fn device_counters(&self) -> (Counters, Option<Counters>) {
        self.state.shared.core.read().engine().device_counters()
    }

    /// Where the next record of the log goes: the bytes of all that were written so far.
    #[must_use]
    pub fn log_end(&self) -> Lsn {
        self.state.shared.log.next_lsn()
    }

    /// All files of pages by name.
    #[must_use]
    pub fn files(&self) -> Vec<(FileId, String)> {
        self.state.shared.core.read().engine().files()
    }

    /// Bytes that a file takes on the volume: see [`crate::Engine::file_bytes`].
    #[must_use]
    pub fn file_bytes(&self, file: FileId) -> u64 {
        self.state.shared.core.read().engine().file_bytes(file)
    }

    /// Memory that earlier versions of pages take now, of all views.
    #[must_use]
    pub fn version_bytes(&self) -> u64 {
        self.state.shared.versions.bytes()
    }

    /// Asserts the numbered invariants of the engine and of the locks. Nobody else may be at work.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self) {
        self.state.shared.core.read().engine().audit();
        self.state.shared.locks.audit();
    }

    /// The engine held, for one walk from a root to a leaf of a file; `None` where its pages may have copies
    /// here.
    pub(super) fn hold(&self, file: FileId) -> Option<HeldView<'_>> {
        let state = &*self.state;
        (!self.has_copies(file)).then(|| {
            let core = state.shared.core.read();
            let seen = Lsn(state.seen.load(Ordering::Acquire));
            HeldView { state, file, seen, core: RefCell::new(Some(core)) }
        })
    }

    /// Pages of a file that have copies here.
    pub(super) fn copy_count(&self, file: FileId) -> u32 {
        if self.is_plain() {
            return 0;
        }
        // An error is told by whoever reads a page.
        let mut copies = self.state.copies.lock();
        let _ = self.state.undo(&mut copies, file);
        to_u32(copies.pages.range(pages_of(file)).count() as u64)
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.state.shared
    }
}

/// A view while the engine is held, for a few pages of a file in a row. It is left while a page is read from the
/// device.
pub(super) struct HeldView<'v> {
    state: &'v ViewState,
    file: FileId,
    seen: Lsn,
    core: RefCell<Option<RwLockReadGuard<'v, Core>>>,
}

impl ReadPages for HeldView<'_> {
    fn usable_bytes(&self) -> usize {
        self.state.shared.settings.page_bytes as usize - TRAILER_BYTES
    }

    #[inline]
    fn read<R>(
        &self,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        debug_assert_eq!(address.file, self.file, "others may have copies");
        self.state.read_held(&mut self.core.borrow_mut(), self.seen, address, look)
    }
}

impl Drop for ViewState {
    fn drop(&mut self) {
        self.ahead.clear(&self.shared.page_reader);
        let seen = Lsn(*self.seen.get_mut());
        if seen > Lsn(0) {
            self.shared.end_view(seen);
        }
    }
}

impl ViewState {
    /// A page at S, with all changes in it.
    #[inline]
    fn read_whole<R>(
        &self,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        let seen = Lsn(self.seen.load(Ordering::Acquire));
        self.read_held(&mut None, seen, address, look)
    }

    /// As [`Self::read_whole`], with the engine held from now on, if it was not yet. It is left while the page is
    /// read from the device: whoever changes pages needs it alone.
    #[inline]
    fn read_held<'c, R>(
        &'c self,
        held: &mut Option<RwLockReadGuard<'c, Core>>,
        seen: Lsn,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        let core = held.get_or_insert_with(|| self.shared.core.read());
        let Some(page) = core.engine().resident_page(address) else {
            return self.read_elsewhere(held, seen, address, look);
        };
        if is_seen(page.lsn(), seen) {
            return Ok(look(page_contents(&page)));
        }
        drop(page);
        self.read_version(address, seen, look)
    }

    /// As [`Self::read_held`], of a page that is not in the pool.
    #[cold]
    fn read_elsewhere<'c, R>(
        &'c self,
        held: &mut Option<RwLockReadGuard<'c, Core>>,
        seen: Lsn,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        let mut look = Some(look);
        let looked = self.read_missing(held, address, |lsn, bytes| {
            is_seen(lsn, seen).then(|| look.take().expect("it is called once")(bytes))
        });
        match (looked?, look) {
            (Some(answer), _) => Ok(answer),
            (None, look) => self.read_version(address, seen, look.expect("it was not called")),
        }
    }

    /// A page that was changed since, as it is kept.
    #[cold]
    fn read_version<R>(
        &self,
        address: PageAddress,
        seen: Lsn,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        let version = self.shared.versions.find(address, seen).ok_or_else(|| too_old(address))?;
        Ok(look(page_contents(&version)))
    }

    /// A page that is not in the pool, with the engine left meanwhile.
    #[cold]
    fn read_missing<'c, R>(
        &'c self,
        held: &mut Option<RwLockReadGuard<'c, Core>>,
        address: PageAddress,
        look: impl FnOnce(Lsn, &[u8]) -> R,
    ) -> Result<R, StorageError> {
        let reader = &self.shared.page_reader;
        let core = held.as_ref().expect("the caller holds the engine");
        let read = if let Some(flight) = self.ahead.take(address) {
            *held = None;
            reader.land(flight)
        } else if let Some(plan) = core.engine().plan_aside(address) {
            *held = None;
            reader.read(plan)
        } else {
            return core.engine().read_with_lsn(address, look);
        };
        // This view is one of them.
        if self.shared.company_count() > 1 {
            self.shared.clean_ahead();
        }
        held.insert(self.shared.core.read()).engine().finish_aside(read, look)
    }

    /// Several pages at S, with all changes in them.
    fn read_batch_whole(
        &self,
        addresses: &[PageAddress],
        mut look: impl FnMut(usize, &[u8]),
    ) -> Result<(), StorageError> {
        let seen = Lsn(self.seen.load(Ordering::Acquire));
        let mut others = Vec::new();
        let mut look_if_old = |index, lsn: Lsn, bytes: &[u8]| {
            if lsn < seen {
                look(index, bytes);
            } else {
                others.push(index);
            }
        };
        // This view is one of them.
        if self.shared.company_count() > 1 && self.shared.page_reader.can_read() {
            self.read_batch_beside(addresses, &mut look_if_old)?;
        } else {
            let core = self.shared.core.read();
            core.engine().read_batch_with_lsn(addresses, look_if_old)?;
        }
        for index in others {
            self.read_whole(addresses[index], |bytes| look(index, bytes))?;
        }
        Ok(())
    }

    /// Several pages, with the engine left while they are read from the device.
    fn read_batch_beside(
        &self,
        addresses: &[PageAddress],
        look: &mut impl FnMut(usize, Lsn, &[u8]),
    ) -> Result<(), StorageError> {
        let mut rest = addresses.iter().copied().enumerate().peekable();
        while rest.peek().is_some() {
            let reader = &self.shared.page_reader;
            let (mut begun, mut plans) = (Vec::new(), Vec::new());
            let mut looked = Ok(());
            let core = self.shared.core.read();
            for (index, address) in rest.by_ref() {
                let engine = core.engine();
                if let Some(page) = engine.resident_page(address) {
                    look(index, page.lsn(), page_contents(&page));
                    continue;
                }
                if let Some(flight) = self.ahead.take(address) {
                    begun.push((index, flight));
                } else if let Some(plan) = engine.plan_aside(address) {
                    plans.push((index, plan));
                } else {
                    looked = engine.read_with_lsn(address, |lsn, page| look(index, lsn, page));
                }
                if looked.is_err() || begun.len() + plans.len() == BATCH_COUNT_MAX {
                    break;
                }
            }
            drop(core);
            begun.extend(plans.into_iter().map(|(index, plan)| (index, reader.begin(plan))));
            let land = |(index, flight)| (index, reader.land(flight));
            let reads: Vec<_> = begun.into_iter().map(land).collect();
            looked?;
            self.shared.clean_ahead();
            let core = self.shared.core.read();
            for (index, read) in reads {
                core.engine().finish_aside(read, |lsn, page| look(index, lsn, page))?;
            }
        }
        Ok(())
    }

    fn is_plain(&self) -> bool {
        self.is_plain.load(Ordering::Acquire)
    }

    /// A copy of a page, if there is one once all is undone that has to be.
    fn copy_of(&self, address: PageAddress) -> Result<Option<Arc<Vec<u8>>>, StorageError> {
        let mut copies = self.copies.lock();
        self.undo(&mut copies, address.file)?;
        Ok(copies.pages.get(&address).map(Arc::clone))
    }

    /// Undoes in the copies of a file what was not committed. An undo is of one file and reads no other.
    fn undo(&self, copies: &mut Copies, file: FileId) -> Result<(), StorageError> {
        let Copies { pages, undos, committed, lost, trouble } = copies;
        if let Some(error) = lost.as_ref().or(trouble.as_ref()) {
            return Err(error.clone());
        }
        let Some(undos) = undos.remove(&file) else { return Ok(()) };
        for undo in undos {
            let mut changed = ChangedCopies { state: self, pages };
            if let Err(error) = structure::apply_undo(&mut changed, &undo) {
                *lost = Some(error.clone());
                return Err(error);
            }
        }
        if let Some(committed) = committed {
            // The transaction has changed nothing in this file so far.
            let made = pages.range(pages_of(file));
            committed.extend(made.map(|(&address, copy)| (address, Arc::clone(copy))));
        }
        Ok(())
    }
}

impl ReadPages for EngineView {
    fn usable_bytes(&self) -> usize {
        self.state.shared.settings.page_bytes as usize - TRAILER_BYTES
    }

    #[inline]
    fn read<R>(
        &self,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        if !self.is_plain()
            && let Some(copy) = self.state.copy_of(address)?
        {
            return Ok(look(&copy));
        }
        self.state.read_whole(address, look)
    }

    fn read_batch(
        &self,
        addresses: &[PageAddress],
        mut look: impl FnMut(usize, &[u8]),
    ) -> Result<(), StorageError> {
        let state = &*self.state;
        if self.is_plain() {
            return state.read_batch_whole(addresses, look);
        }
        let mut left = Vec::new();
        for (index, &address) in addresses.iter().enumerate() {
            match state.copy_of(address)? {
                Some(copy) => look(index, &copy),
                None => left.push(index),
            }
        }
        let left_addresses: Vec<PageAddress> = left.iter().map(|&index| addresses[index]).collect();
        state.read_batch_whole(&left_addresses, |at, bytes| look(left[at], bytes))
    }

    fn prefetch(&self, addresses: &[PageAddress]) {
        let ViewState { shared, ahead, .. } = &*self.state;
        // This view is one of them.
        if shared.company_count() <= 1 || !shared.page_reader.can_read() {
            return shared.core.read().engine().prefetch(addresses);
        }
        let plans: Vec<_> = {
            let core = shared.core.read();
            let wanted = addresses.iter().filter(|&&address| !ahead.has(address));
            wanted.filter_map(|&address| core.engine().plan_ahead(address)).collect()
        };
        let reader = &shared.page_reader;
        ahead.add(plans.into_iter().map(|plan| reader.begin(plan)).collect(), reader);
        reader.hand_over();
    }
}

impl ReadPages for ChangedCopies<'_> {
    fn usable_bytes(&self) -> usize {
        self.state.shared.settings.page_bytes as usize - TRAILER_BYTES
    }

    fn read<R>(
        &self,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        match self.pages.get(&address) {
            Some(copy) => Ok(look(copy)),
            None => self.state.read_whole(address, look),
        }
    }
}

impl ChangePages for ChangedCopies<'_> {
    fn change(
        &mut self,
        address: PageAddress,
        operation: PageOperation<'_>,
    ) -> Result<(), StorageError> {
        if !self.pages.contains_key(&address) {
            let copy = self.state.read_whole(address, <[u8]>::to_vec)?;
            self.grow(address, copy)?;
        }
        let copy = self.pages.get_mut(&address).expect("it was just made");
        structure::apply(Arc::<Vec<u8>>::make_mut(copy), &operation)
    }

    fn create(&mut self, address: PageAddress) -> Result<(), StorageError> {
        self.grow(address, vec![0; self.usable_bytes()])
    }
}

impl ChangedCopies<'_> {
    /// Adds a copy, if there is memory for it.
    fn grow(&mut self, address: PageAddress, copy: Vec<u8>) -> Result<(), StorageError> {
        let settings = &self.state.shared.settings;
        let page_count = to_u32(self.pages.len() as u64) + 1;
        if u64::from(page_count) * u64::from(settings.page_bytes) > settings.version_bytes {
            let what = "transactions under way have changed more than is kept".to_owned();
            return Err(StorageError::SnapshotTooOld { what });
        }
        self.pages.insert(address, Arc::new(copy));
        Ok(())
    }
}

/// All pages of a file.
const fn pages_of(file: FileId) -> std::ops::RangeInclusive<PageAddress> {
    PageAddress::new(file, 0)..=PageAddress::new(file, u32::MAX)
}

/// Whether a view of the moment `seen` sees a page as it is.
#[inline]
fn is_seen(lsn: Lsn, seen: Lsn) -> bool {
    lsn < seen || is_planted(EngineBug::NewerPagesShown)
}

fn too_old(address: PageAddress) -> StorageError {
    let what = format!("{address} was changed since it was taken, and is not kept as it was");
    StorageError::SnapshotTooOld { what }
}
