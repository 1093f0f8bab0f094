//! How a page that is not there comes into a frame: alone, in batches, ahead of time.
//!
//! 1. A page is on its way at most once, by whichever way.
//! 2. Whoever waits for the device under the lock admits whatever comes, also for others.
//! 3. While misses are refused no page is read that could be read aside.
//! 4. A batch looks at each of its pages once, also where seeking a frame for one brings in another.

use super::frame::{Claim, ResidentPage};
use super::{FrameUse, InFlight, LogRun, Pool, State};
use crate::page::{Checksum, page_epoch, page_is_sound, page_lsn};
use crate::plant::{EngineBug, is_planted};
use crate::propagation::PagePlace;
use crate::{PageAddress, StorageError};
use nandu_device::IoBuffer;
use nandu_workers::sync::MutexGuard;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A page that was brought into a frame, with the lock still held so that it stays there.
pub(super) struct Brought<'a> {
    pub(super) state: MutexGuard<'a, State>,
    pub(super) frame: u32,
    /// The checksum fails, and the caller takes the page even so.
    pub(super) is_torn: bool,
}

/// Whether a page that is not there is read by whoever wants it, or refused and noted, so that it is fetched
/// without what he holds. Whoever says so holds the pool alone.
#[derive(Debug, Default)]
pub(super) struct Misses {
    are_refused: AtomicBool,
    /// The one that was refused; 0 for none, which is no page's word.
    missed: AtomicU64,
}

impl Misses {
    fn are_refused(&self) -> bool {
        self.are_refused.load(Ordering::Relaxed)
    }

    /// Notes the page. The error is for no user: whoever refused misses does what failed again. It is one
    /// after which a transaction is tried again, should one ever see it.
    #[cold]
    fn refuse(&self, address: PageAddress) -> StorageError {
        self.missed.store(address.to_word(), Ordering::Relaxed);
        StorageError::Conflict { what: format!("{address}, which was not in memory") }
    }
}

/// What to do about a page whose checksum fails.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum IfTorn {
    Refuse,
    Take,
}

impl Pool {
    /// Lends several pages to `look`, with the device's queue full: each page's index in `addresses`
    /// and its bytes with the trailer, in the order in which they arrive. `look` must not use the pool.
    ///
    /// # Errors
    /// As [`Pool::read`]; pages after the failed one may or may not have been looked at.
    pub fn read_batch(
        &self,
        addresses: &[PageAddress],
        mut look: impl FnMut(usize, &[u8]),
    ) -> Result<(), StorageError> {
        let mut missing = VecDeque::new();
        for (index, address) in addresses.iter().enumerate() {
            match self.resident_page(*address) {
                Some(page) => look(index, &page),
                None => missing.push_back((index, address.to_word())),
            }
        }
        while !missing.is_empty() {
            let mut state = self.lock();
            self.read_queued(&mut state, &mut missing, &mut look)?;
            if !missing.is_empty() {
                drop(self.let_others_move(state));
            }
        }
        Ok(())
    }

    /// Starts to read pages that are going to be wanted soon, as many as frames and the device's queue
    /// take. Errors show when the pages are read.
    pub fn prefetch(&self, addresses: &[PageAddress]) {
        let mut state = self.lock();
        for address in addresses {
            let word = address.to_word();
            if self.resident(word).is_some() || state.is_on_its_way(word) {
                continue;
            }
            if !self.try_start(&mut state, word, true).unwrap_or(false) {
                return;
            }
            state.counters.prefetch_count += 1;
        }
    }

    /// Refuses from now on to read pages that can be read aside, until [`Self::take_missed`].
    pub(crate) fn refuse_misses(&mut self) {
        *self.misses.are_refused.get_mut() = true;
    }

    /// Whether they are refused.
    pub(crate) fn refuses_misses(&self) -> bool {
        self.misses.are_refused()
    }

    /// Reads pages again, and tells the page that was refused, if any was.
    pub(crate) fn take_missed(&mut self) -> Option<PageAddress> {
        *self.misses.are_refused.get_mut() = false;
        let word = std::mem::take(self.misses.missed.get_mut());
        (word != 0).then(|| PageAddress::from_word(word))
    }

    /// The slow way of [`Pool::read`].
    #[cold]
    pub(super) fn read_missing(
        &self,
        address: PageAddress,
    ) -> Result<ResidentPage<'_>, StorageError> {
        self.protected(address, self.bring(address, IfTorn::Refuse)?)
    }

    /// As [`Self::read_missing`], of a page that was counted as missing.
    pub(super) fn read_counted(
        &self,
        address: PageAddress,
    ) -> Result<ResidentPage<'_>, StorageError> {
        self.protected(address, self.bring_or_count(address, IfTorn::Refuse, true)?)
    }

    fn protected(
        &self,
        address: PageAddress,
        brought: Brought<'_>,
    ) -> Result<ResidentPage<'_>, StorageError> {
        let page = self.frames.protect(brought.frame, address.to_word());
        drop(brought.state);
        Ok(page.expect("a resident page stays while the lock is held"))
    }

    /// Makes a page resident.
    pub(super) fn bring(
        &self,
        address: PageAddress,
        if_torn: IfTorn,
    ) -> Result<Brought<'_>, StorageError> {
        self.bring_or_count(address, if_torn, false)
    }

    fn bring_or_count(
        &self,
        address: PageAddress,
        if_torn: IfTorn,
        mut is_counted: bool,
    ) -> Result<Brought<'_>, StorageError> {
        let word = address.to_word();
        let mut state = self.lock();
        loop {
            if let Some(frame) = self.resident(word) {
                if !is_counted && let Some(page) = self.frames.protect(frame, word) {
                    page.note_hit();
                    state.replacement.touch(frame);
                }
                return Ok(Brought { state, frame, is_torn: false });
            }
            if if_torn == IfTorn::Refuse
                && self.misses.are_refused()
                && self.aside.can_read()
                && state.locate(address, self.config.page_bytes).is_some()
            {
                return Err(self.misses.refuse(address));
            }
            if !is_counted {
                state.counters.miss_count += 1;
                is_counted = true;
            }
            if state.loading.contains(&word) {
                state = self.let_others_move(state);
                continue;
            }
            if state.want_in_flight(word) {
                match self.finish_read(&mut state, (word, if_torn)) {
                    (done, Ok(is_torn)) if done.word == word => {
                        let frame = done.frame;
                        return Ok(Brought { state, frame, is_torn });
                    }
                    (done, Err(error)) if done.word == word => return Err(error),
                    _ => continue,
                }
            }
            let Some(frame) = self.take_frame(&mut state)? else {
                state = self.let_others_move(state);
                continue;
            };
            match state.locate(address, self.config.page_bytes) {
                Some(place) if self.aside.can_read() => {
                    return self.load(state, address, frame, place, if_torn);
                }
                _ => self.start(&mut state, word, frame, false)?,
            }
        }
    }

    /// Lets others move, who read the page that is wanted or have the frames that it needs: until one that is
    /// being read has arrived. Where none is, frames are held by who looks at pages and waits for nothing.
    pub(super) fn let_others_move<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        if state.loading.is_empty() {
            drop(state);
            nandu_workers::yield_now();
            return self.lock();
        }
        state.arrival_waiter_count += 1;
        state = self.arrived.wait(state);
        state.arrival_waiter_count -= 1;
        state
    }

    /// The frame of a resident page. Under the lock.
    pub(super) fn resident(&self, word: u64) -> Option<u32> {
        self.table.find(word, |frame| self.is_in(frame, word))
    }

    /// Waits for all pages that are on their way through the propagation.
    pub(super) fn finish_reads(&self, state: &mut State) {
        while !state.in_flight.is_empty() {
            let _ = self.finish_read(state, (u64::MAX, IfTorn::Refuse));
        }
    }

    /// Waits for one page through the propagation, and admits it if it is sound or is the page that
    /// `torn` names and takes as it is; says then whether it is torn.
    pub(super) fn finish_read(
        &self,
        state: &mut State,
        torn: (u64, IfTorn),
    ) -> (InFlight, Result<bool, StorageError>) {
        let read = state.placement().next_read();
        let read = read.expect("a page that was begun arrives");
        let word = read.address.to_word();
        let place = state.in_flight.iter().position(|page| page.word == word);
        let page = state.in_flight.swap_remove(place.expect("only pages that were begun arrive"));
        let mut claim = self.frames.try_claim(page.frame).expect("an empty frame is nobody's");
        let is_whole = read.buffer.len() == self.config.page_bytes as usize;
        *claim.buffer_mut() = if is_whole { read.buffer } else { self.empty_buffer() };
        let if_torn = if torn.0 == word { torn.1 } else { IfTorn::Refuse };
        let result = read.result.and_then(|()| self.admit(state, page, claim, if_torn));
        match result {
            Ok(_) => state.infos[page.frame as usize].changed = read.changed,
            Err(_) => state.give_back(page.frame),
        }
        (page, result)
    }

    /// Checks the page in a claimed frame and makes it resident. Says whether it is torn.
    pub(super) fn admit(
        &self,
        state: &mut State,
        page: InFlight,
        mut claim: Claim<'_>,
        if_torn: IfTorn,
    ) -> Result<bool, StorageError> {
        let address = PageAddress::from_word(page.word);
        let is_torn = state.checksum(address.file) == Checksum::Trailer
            && !page_is_sound(claim.buffer_mut(), address)
            && !is_planted(EngineBug::ChecksumIgnored);
        if is_torn && if_torn == IfTorn::Refuse {
            let file = state.file_name(address.file);
            return Err(StorageError::ChecksumMismatch { file, address });
        }
        if !is_torn && state.checksum(address.file) == Checksum::Trailer {
            self.refuse_unknown_change(state, address, claim.buffer_mut())?;
        }
        state.counters.read_count += 1;
        if let Some(watch) = &self.watch {
            watch.page_read(self.io.present(), address, claim.buffer_mut());
        }
        self.settle(state, page, claim);
        Ok(is_torn)
    }

    /// Refuses a page with a change that an earlier run logged, but that is not in the log: of that
    /// the end was lost, though it had been durable.
    fn refuse_unknown_change(
        &self,
        state: &State,
        address: PageAddress,
        page: &[u8],
    ) -> Result<(), StorageError> {
        let (lsn, LogRun { started_at, epoch }) = (page_lsn(page), self.run);
        if lsn < started_at || page_epoch(page) == epoch {
            return Ok(());
        }
        let place = format!("page {} of {}", address.page, state.file_name(address.file));
        let what = format!(
            "it was changed at LSN {}, but what was logged before this run ends at LSN {}: the log \
             has lost its end; restore the database from a copy",
            lsn.0, started_at.0
        );
        Err(StorageError::Corrupt { place, what })
    }

    /// Makes whatever is in a claimed frame resident.
    pub(super) fn settle(&self, state: &mut State, page: InFlight, claim: Claim<'_>) {
        let info = &mut state.infos[page.frame as usize];
        assert_eq!(info.frame_use, FrameUse::Taken, "a page comes into a frame taken for it");
        info.frame_use = FrameUse::Resident;
        info.word = page.word;
        info.is_new = false;
        info.changed.clear();
        self.frames.set_flags(page.frame, page.is_prefetch);
        claim.publish(page.word);
        self.table.insert(page.word, page.frame);
        state.replacement.admit(page.frame, page.word);
    }

    /// Reads one page at its place while other threads go on.
    fn load<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        address: PageAddress,
        frame: u32,
        place: PagePlace,
        if_torn: IfTorn,
    ) -> Result<Brought<'a>, StorageError> {
        let page = InFlight { word: address.to_word(), frame, is_prefetch: false };
        let mut claim = self.frames.try_claim(frame).expect("an empty frame is nobody's");
        state.loading.push(page.word);
        // Taken before the lock is left, so that nothing is written between locate and the read.
        let placing = self.placing.read();
        drop(state);
        let result = self.aside.read_place(&place, claim.buffer_mut());
        drop(placing);
        let mut state = self.lock();
        state.loading.retain(|&word| word != page.word);
        let result = result.and_then(|changed| {
            let is_torn = self.admit(&mut state, page, claim, if_torn)?;
            state.infos[frame as usize].changed = changed;
            Ok(is_torn)
        });
        if state.arrival_waiter_count > 0 {
            self.arrived.notify_all();
        }
        match result {
            Ok(is_torn) => Ok(Brought { state, frame, is_torn }),
            Err(error) => {
                state.give_back(frame);
                Err(error)
            }
        }
    }

    /// Begins to read a page into a frame that was taken for it.
    fn start(
        &self,
        state: &mut State,
        word: u64,
        frame: u32,
        is_prefetch: bool,
    ) -> Result<(), StorageError> {
        self.land(state);
        let mut claim = self.frames.try_claim(frame).expect("an empty frame is nobody's");
        let nothing = IoBuffer::with_alignment(0, 1);
        let buffer = std::mem::replace(claim.buffer_mut(), nothing);
        let address = PageAddress::from_word(word);
        match state.placement().start_read(address, buffer) {
            Ok(()) => {
                state.in_flight.push(InFlight { word, frame, is_prefetch });
                Ok(())
            }
            Err(error) => {
                *claim.buffer_mut() = self.empty_buffer();
                drop(claim);
                state.give_back(frame);
                Err(error)
            }
        }
    }

    /// Begins to read a page if a frame and room in the device's queue can be had at once.
    fn try_start(
        &self,
        state: &mut State,
        word: u64,
        is_prefetch: bool,
    ) -> Result<bool, StorageError> {
        // A frame whose page is being read cannot be given to another page. Half of the frames at
        // most are in that state, so that there is always one to evict.
        let in_flight_max = (self.config.frame_count as usize / 2).max(1);
        let is_full = state.in_flight.len() >= in_flight_max;
        if is_full || (!self.io.has_room() && !state.in_flight.is_empty()) {
            return Ok(false);
        }
        let Some(frame) = self.take_frame(state)? else { return Ok(false) };
        self.start(state, word, frame, is_prefetch)?;
        Ok(true)
    }

    /// Reads `missing` with the queue full, as long as nobody else must move first.
    fn read_queued(
        &self,
        state: &mut State,
        missing: &mut VecDeque<(usize, u64)>,
        look: &mut impl FnMut(usize, &[u8]),
    ) -> Result<(), StorageError> {
        let mut waiting = Vec::new();
        loop {
            while let Some(&(index, word)) = missing.front() {
                if let Some(frame) = self.resident(word) {
                    let page = self.frames.protect(frame, word);
                    let page = page.expect("a resident page stays while the lock is held");
                    page.note_hit();
                    state.replacement.touch(frame);
                    look(index, &page);
                } else if state.want_in_flight(word)
                    || (!state.loading.contains(&word) && self.try_start(state, word, false)?)
                {
                    state.counters.miss_count += 1;
                    waiting.push((index, word));
                } else {
                    break;
                }
                missing.pop_front();
            }
            self.look_at_arrived(state, &mut waiting, missing, look);
            if state.in_flight.is_empty() {
                return Ok(());
            }
            let (page, result) = self.finish_read(state, (u64::MAX, IfTorn::Refuse));
            let bytes = match result {
                Ok(_) => self.frames.protect(page.frame, page.word),
                Err(error) if waiting.iter().any(|&(_, word)| word == page.word) => {
                    return Err(error);
                }
                Err(_) => continue,
            };
            let bytes = bytes.expect("a resident page stays while the lock is held");
            waiting.retain(|&(index, word)| {
                let is_mine = word == page.word;
                if is_mine {
                    look(index, &bytes);
                }
                !is_mine
            });
            if waiting.is_empty() && missing.is_empty() {
                return Ok(());
            }
        }
    }

    /// Looks at pages that are waited for and have come already: whoever seeks a frame takes in what arrives, and
    /// the next one may be theirs. What did not come is missing again.
    fn look_at_arrived(
        &self,
        state: &mut State,
        waiting: &mut Vec<(usize, u64)>,
        missing: &mut VecDeque<(usize, u64)>,
        look: &mut impl FnMut(usize, &[u8]),
    ) {
        waiting.retain(|&(index, word)| {
            if state.in_flight.iter().any(|page| page.word == word) {
                return true;
            }
            match self.resident(word) {
                Some(frame) => {
                    let page = self.frames.protect(frame, word);
                    look(index, &page.expect("a resident page stays while the lock is held"));
                }
                None => {
                    state.counters.miss_count -= 1;
                    missing.push_front((index, word));
                }
            }
            false
        });
    }
}

impl State {
    /// Whether a page is being read.
    pub(super) fn is_on_its_way(&self, word: u64) -> bool {
        self.loading.contains(&word) || self.in_flight.iter().any(|page| page.word == word)
    }

    /// Whether a page is on its way through the propagation, now that it is wanted.
    fn want_in_flight(&mut self, word: u64) -> bool {
        let Some(page) = self.in_flight.iter_mut().find(|page| page.word == word) else {
            return false;
        };
        self.counters.prefetch_hit_count += u64::from(page.is_prefetch);
        page.is_prefetch = false;
        true
    }

    /// Frees a frame that was taken for a page that did not come.
    pub(super) fn give_back(&mut self, frame: u32) {
        self.infos[frame as usize].frame_use = FrameUse::Free;
        self.free.push(frame);
    }
}
