//! How pages leave: evictions, the dirty-page writer, syncs.
//!
//! 1. A dirty victim takes other dirty pages along that would leave soon after, sorted by address, so
//!    that the device's queue is full and neighbours are written together.
//! 2. Where there is no room to write a dirty page, clean ones leave instead: who reads needs no room.
//! 3. Whoever cannot get a frame is told so only when all of them are held or lent; otherwise some
//!    other thread is about to be done with one.

use super::{FrameInfo, FrameUse, Pool, State};
use crate::page::{Checksum, page_lsn};
use crate::propagation::PageWrite;
use crate::{FileId, Lsn, PageAddress, StorageError};
use nandu_workers::sync::MutexGuard;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// Pages and bytes that go to the device in one call from a small pool, of which they may be a quarter.
const SMALL_BATCH_COUNT: usize = 64;
const SMALL_BATCH_BYTES: usize = 512 << 10;
/// From a large pool it is a sixteenth, up to so many bytes: what a batch waits for once, a flush of
/// the log, say, is then shared by that many evictions. As much is kept in copies beside the frames.
const LARGE_BATCH_BYTES: usize = 4 << 20;
const LARGE_BATCH_SHARE_DIVISOR: usize = 16;
/// How far a dirty victim looks for others, in batches.
const LOOK_AHEAD_BATCH_COUNT: usize = 2;

/// Which dirty pages to write. By default all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBack {
    /// Only those whose first change since they were clean is older than this, and in the log.
    pub rec_lsn_below: Option<Lsn>,
    /// Only those of this file.
    pub file: Option<FileId>,
    /// At most so many, those with the oldest changes first.
    pub page_count_max: usize,
}

impl Default for WriteBack {
    fn default() -> Self {
        Self { rec_lsn_below: None, file: None, page_count_max: usize::MAX }
    }
}

impl Pool {
    /// All pages that the device does not have as they are here, each with the LSN of the first change
    /// that it lacks, in the order of their addresses. Changes without an LSN, or past the log, are not among
    /// them.
    #[must_use]
    pub fn dirty_pages(&self) -> Vec<(PageAddress, Lsn)> {
        self.lock().dirty_pages()
    }

    /// The frames of all pages whose first change since they were clean is older than `limit`, each with
    /// its page's word, in the order of their addresses.
    pub(crate) fn dirty_below(&self, limit: Lsn) -> Vec<(u64, u32)> {
        let which = WriteBack { rec_lsn_below: Some(limit), ..WriteBack::default() };
        let due = self.lock_landed().due(&which);
        let mut due: Vec<(u64, u32)> =
            due.into_iter().map(|(_, word, frame)| (word, frame)).collect();
        due.sort_unstable();
        due
    }

    /// Writes dirty pages, sorted by address and with the queue full, and gives back how many. Pages
    /// with a change that has no LSN yet are passed over. Nothing is durable before [`Pool::sync`].
    ///
    /// # Errors
    /// If the log or the device fails; pages that were not written stay dirty.
    pub fn write_back(&self, which: &WriteBack) -> Result<u64, StorageError> {
        let mut wanted = self.lock_landed().due(which);
        if wanted.len() > which.page_count_max {
            wanted.select_nth_unstable(which.page_count_max);
            wanted.truncate(which.page_count_max);
        }
        wanted.sort_unstable_by_key(|&(_, word, _)| word);
        let mut written_count = 0;
        for part in wanted.chunks(self.batch_count_max()) {
            let mut state = self.lock_landed();
            let mut batch = std::mem::take(&mut state.batch);
            batch.clear();
            // Readers that missed may have written or evicted some meanwhile.
            let is_still_due = |&&(_, word, frame): &&(Lsn, u64, u32)| {
                let info = &state.infos[frame as usize];
                info.word == word && info.rec_lsn.is_some() && !info.is_unlogged
            };
            batch.extend(part.iter().filter(is_still_due).map(|&(_, _, frame)| frame));
            let result = self.write_frames(&mut state, &batch);
            written_count += batch.len() as u64;
            state.batch = batch;
            result?;
        }
        Ok(written_count)
    }

    /// Bytes of a file's pages on the device, where they do not follow from its length.
    pub(crate) fn stored_bytes(&self, file: FileId) -> Option<u64> {
        self.lock_landed().propagation().stored_bytes(file)
    }

    /// The files of which the propagation keeps where pages lie.
    pub(crate) fn stored_files(&self) -> Vec<FileId> {
        self.lock_landed().propagation().stored_files()
    }

    /// Pages for which there is room beside those that have a place: see [`Propagation::room_pages`].
    ///
    /// [`Propagation::room_pages`]: crate::propagation::Propagation::room_pages
    pub(crate) fn room_pages(&self, wanted: u64) -> Result<u64, StorageError> {
        self.lock_landed().propagation().room_pages(wanted)
    }

    /// Whether there was no room for the last dirty page that was to leave.
    #[inline]
    pub(crate) fn lacks_room(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Pages that the device does not have as they are here, those among them whose change has no LSN yet.
    pub(crate) fn dirty_count(&self) -> u64 {
        self.lock().infos.iter().filter(|info| info.is_dirty()).count() as u64
    }

    /// The last write that the propagation counts: see [`Propagation::last_write`].
    ///
    /// [`Propagation::last_write`]: crate::propagation::Propagation::last_write
    pub(crate) fn last_write(&self) -> u64 {
        self.lock_landed().propagation().last_write()
    }

    /// Empties clean frames, those first that would leave next, until so many pages have room without
    /// anything leaving. Pages in `kept` stay.
    pub(crate) fn make_room_beside(&mut self, kept: &BTreeSet<PageAddress>, page_count: usize) {
        let mut state = self.lock_landed();
        self.finish_reads(&mut state);
        let mut order = Vec::new();
        state.replacement.upcoming(usize::MAX, &mut order);
        for frame in order {
            if state.free.len() >= page_count {
                return;
            }
            let info = &state.infos[frame as usize];
            let is_kept = kept.contains(&PageAddress::from_word(info.word));
            if info.frame_use == FrameUse::Resident
                && !is_kept
                && !info.is_held()
                && !info.is_dirty()
            {
                if self.answers.hears_of_clean_evictions {
                    let mut claim = self.frames.try_claim(frame).expect("no reader is in the pool");
                    self.tell_of_eviction(&mut state, frame, claim.buffer_mut());
                }
                self.discard_frame(&mut state, frame);
            }
        }
    }

    /// Makes all pages that were written durable.
    ///
    /// # Errors
    /// If the device fails; what is durable is not known then.
    pub fn sync(&self) -> Result<(), StorageError> {
        self.lock_landed().placement().sync()
    }

    /// Forgets the pages of a file from `first_page` on, changed or not, and cuts the file there.
    ///
    /// # Errors
    /// If the device fails.
    ///
    /// # Panics
    /// If one of the pages is pinned.
    pub fn forget(&mut self, file: FileId, first_page: u32) -> Result<(), StorageError> {
        self.discard_from(file, first_page);
        if let Some(watch) = &self.watch {
            watch.cut(self.io.present(), file, first_page);
        }
        self.lock_landed().propagation().truncate(file, first_page)
    }

    /// Drops the pages of a file that are in memory, changed or not, and lets nothing of it be in
    /// flight.
    ///
    /// # Panics
    /// If one of the pages is pinned.
    pub fn discard_file(&mut self, file: FileId) {
        self.discard_from(file, 1);
    }

    fn discard_from(&mut self, file: FileId, first_page: u32) {
        let mut state = self.lock_landed();
        state.marks.note_cut();
        self.finish_reads(&mut state);
        let first = PageAddress::new(file, first_page).to_word();
        let last = PageAddress::new(file, u32::MAX).to_word();
        for frame in 0..self.config.frame_count {
            let info = &state.infos[frame as usize];
            if info.frame_use == FrameUse::Resident && (first..=last).contains(&info.word) {
                self.discard_frame(&mut state, frame);
            }
        }
    }

    /// Writes all dirty pages and empties the pool, so that what comes next starts cold. Held pages
    /// stay.
    ///
    /// # Errors
    /// If the log or the device fails.
    pub fn drop_all(&mut self) -> Result<(), StorageError> {
        self.write_back(&WriteBack::default())?;
        let mut state = self.lock_landed();
        self.finish_reads(&mut state);
        for frame in 0..self.config.frame_count {
            let info = &state.infos[frame as usize];
            if info.frame_use == FrameUse::Resident && !info.is_held() {
                self.discard_frame(&mut state, frame);
            }
        }
        // The policy is made anew with the pages that stay, since it also remembers pages that
        // left, such as in a ghost queue.
        let mut kept = Vec::new();
        state.replacement.upcoming(usize::MAX, &mut kept);
        state.replacement = self.config.replacement.build(self.config.frame_count);
        for frame in kept {
            let word = state.infos[frame as usize].word;
            state.replacement.admit(frame, word);
        }
        Ok(())
    }

    /// An empty frame; `None` where another thread is about to be done with one.
    pub(super) fn take_frame(&self, state: &mut State) -> Result<Option<u32>, StorageError> {
        self.take_returned(state);
        let frame = match state.free.pop() {
            Some(frame) => frame,
            None => match self.evict(state)? {
                Some(frame) => frame,
                None => return Ok(None),
            },
        };
        state.infos[frame as usize].frame_use = FrameUse::Taken;
        Ok(Some(frame))
    }

    /// Empties a frame without writing. No reader may be in the pool.
    pub(super) fn discard_frame(&self, state: &mut State, frame: u32) {
        let claim = self.frames.try_claim(frame).expect("no reader is in the pool");
        let info = &mut state.infos[frame as usize];
        assert_eq!(info.pin_count, 0, "a page that is discarded is not pinned");
        if info.is_unlogged {
            info.is_unlogged = false;
            state.held_count -= 1;
        }
        let info = &mut state.infos[frame as usize];
        info.rec_lsn = None;
        info.changed.clear();
        let word = info.word;
        self.table.remove(word, frame, |frame| state.infos[frame as usize].word);
        state.replacement.remove(frame, false);
        self.tell_of_leaving(word);
        drop(claim);
        state.give_back(frame);
    }

    fn evict(&self, state: &mut State) -> Result<Option<u32>, StorageError> {
        let mut has_clean = true;
        loop {
            let mut claim = None;
            let is_away = state.away.is_some();
            let spares_dirty = has_clean && self.lacks_room();
            let State { replacement, infos, .. } = &mut *state;
            let victim = replacement.victim(&self.frames, &mut |frame| {
                let info = &infos[frame as usize];
                // A page that flies is dirty until it has landed.
                if info.is_held() || ((is_away || spares_dirty) && info.is_dirty()) {
                    return false;
                }
                if !info.is_dirty() {
                    claim = self.frames.try_claim(frame);
                }
                info.is_dirty() || claim.is_some()
            });
            let Some(frame) = victim else {
                if is_away {
                    self.land(state);
                    continue;
                }
                if spares_dirty {
                    has_clean = false;
                    continue;
                }
                return self.wait_for_frame(state);
            };
            let Some(mut claim) = claim else {
                match self.write_with_others(state, frame) {
                    Err(StorageError::NoSpace { .. }) if has_clean => {
                        self.is_full.store(true, Ordering::Relaxed);
                    }
                    answer => {
                        answer?;
                        self.is_full.store(false, Ordering::Relaxed);
                    }
                }
                continue;
            };
            let word = state.infos[frame as usize].word;
            if self.answers.hears_of_clean_evictions {
                self.tell_of_eviction(state, frame, claim.buffer_mut());
            }
            self.table.remove(word, frame, |frame| state.infos[frame as usize].word);
            state.replacement.remove(frame, true);
            self.tell_of_leaving(word);
            drop(claim);
            state.counters.eviction_count += 1;
            self.look_ahead(state);
            return Ok(Some(frame));
        }
    }

    /// Tells the propagation, once it is here, of a clean page that leaves. It may move pages, so nobody
    /// reads at a place meanwhile.
    #[cold]
    fn tell_of_eviction(&self, state: &mut State, frame: u32, page: &[u8]) {
        let FrameInfo { word, is_new, .. } = state.infos[frame as usize];
        let address = PageAddress::from_word(word);
        // One that was made in vain is on no device, and another program's has no room for a seal.
        if !is_new && state.checksum(address.file) == Checksum::Trailer {
            self.land(state);
            let _alone = self.placing.write();
            state.propagation().evicted_clean(address, page);
        }
    }

    /// What to do when nothing may leave.
    fn wait_for_frame(&self, state: &mut State) -> Result<Option<u32>, StorageError> {
        let gone_count = state.held_count as usize + state.lent.len();
        if gone_count >= self.config.frame_count as usize {
            return Err(StorageError::PoolExhausted { frame_count: self.config.frame_count });
        }
        if !state.in_flight.is_empty() {
            let _ = self.finish_read(state, (u64::MAX, super::fetch::IfTorn::Refuse));
        }
        Ok(state.free.pop())
    }

    /// Writes a dirty victim, and with it others that would follow soon.
    fn write_with_others(&self, state: &mut State, victim: u32) -> Result<(), StorageError> {
        let mut batch = std::mem::take(&mut state.batch);
        self.choose_leaving(state, self.batch_count_max(), Some(victim), &mut batch);
        let result = self.write_frames(state, &batch);
        state.batch = batch;
        result
    }

    /// The dirty pages that would leave soon, at most `limit` with the one that has to be among them, in the
    /// order of their addresses.
    pub(super) fn choose_leaving(
        &self,
        state: &State,
        limit: usize,
        victim: Option<u32>,
        batch: &mut Vec<u32>,
    ) {
        batch.clear();
        state.replacement.upcoming(limit * LOOK_AHEAD_BATCH_COUNT, batch);
        batch.retain(|&frame| {
            let info = &state.infos[frame as usize];
            Some(frame) != victim && info.is_dirty() && !info.is_held()
        });
        batch.truncate(limit - usize::from(victim.is_some()));
        batch.extend(victim);
        batch.sort_unstable_by_key(|&frame| state.infos[frame as usize].word);
    }

    /// A copy of a dirty page for the device.
    pub(super) fn copy_for_device(&self, state: &mut State, frame: u32) -> PageWrite {
        let mut buffer = state.spare_buffers.pop().unwrap_or_else(|| self.empty_buffer());
        let info = &state.infos[frame as usize];
        let page = self.frames.protect(frame, info.word);
        buffer.copy_from_slice(&page.expect("a resident page stays while the lock is held"));
        state.marks.note_write(info.word);
        let address = PageAddress::from_word(info.word);
        PageWrite { address, buffer, changed: info.changed.clone(), is_new: info.is_new }
    }

    /// The state, with the propagation at home.
    pub(super) fn lock_landed(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        self.land(&mut state);
        state
    }

    /// Writes what is in `frames`, at most one batch.
    fn write_frames(&self, state: &mut State, frames: &[u32]) -> Result<(), StorageError> {
        let mut durable_to = Lsn::default();
        for &frame in frames {
            let write = self.copy_for_device(state, frame);
            durable_to = durable_to.max(page_lsn(&write.buffer));
            state.writes.push(write);
        }
        let result = self.rule.ensure_durable(durable_to).and_then(|()| {
            let _alone = self.placing.write();
            let State { placement, writes, .. } = &mut *state;
            let placement = placement.as_mut().expect("it is here while no flight is out");
            placement.write(writes)
        });
        let State { writes, infos, spare_buffers, .. } = &mut *state;
        for (&frame, write) in frames.iter().zip(writes.drain(..)) {
            if write.buffer.len() == self.config.page_bytes as usize {
                spare_buffers.push(write.buffer);
            }
            if result.is_ok() {
                let info = &mut infos[frame as usize];
                assert_eq!(info.word, write.address.to_word(), "pages come back in their order");
                info.rec_lsn = None;
                info.is_new = false;
                info.changed = write.changed;
            }
        }
        result?;
        state.counters.write_count += frames.len() as u64;
        state.counters.write_batch_count += u64::from(!frames.is_empty());
        Ok(())
    }

    /// How many pages go to the device in one call.
    pub(crate) fn batch_count_max(&self) -> usize {
        let frame_count = self.config.frame_count as usize;
        let page_bytes = self.config.page_bytes as usize;
        let small =
            SMALL_BATCH_COUNT.min(SMALL_BATCH_BYTES / page_bytes).min(frame_count.div_ceil(4));
        let large = (LARGE_BATCH_BYTES / page_bytes).min(frame_count / LARGE_BATCH_SHARE_DIVISOR);
        small.max(large).max(1)
    }
}

impl State {
    /// The dirty pages that `which` asks for, however many: first change, word and frame of each.
    fn due(&self, which: &WriteBack) -> Vec<(Lsn, u64, u32)> {
        let chosen = |(frame, info): (u32, &super::FrameInfo)| {
            let rec_lsn = info.rec_lsn.filter(|_| !info.is_unlogged)?;
            let file = PageAddress::from_word(info.word).file;
            let is_older = |limit| rec_lsn > Lsn::default() && rec_lsn < limit;
            let is_wanted = which.rec_lsn_below.is_none_or(is_older)
                && which.file.is_none_or(|wanted| wanted == file);
            is_wanted.then_some((rec_lsn, info.word, frame))
        };
        (0..).zip(&self.infos).filter_map(chosen).collect()
    }
}
