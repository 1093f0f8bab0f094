//! How a page is read while nobody holds the pool's owner: planned under the owner's lock, read without
//! it, and brought into a frame under it again, if it is still what the device has.
//!
//! ```text
//!   lock held:   plan ──► where the page lies, what was written so far
//!   no lock:     begin, land ──► a buffer of its own
//!   lock held:   finish ─► nothing written there meanwhile: into a frame │ else the usual way
//! ```
//!
//! So a writer, who needs the owner alone, waits for no device that readers wait for.
//!
//! 1. A page comes into a frame this way only if, since the plan, neither it (nor one with the same mark)
//!    was written nor any file cut. What was changed meanwhile is resident, or was written.
//! 2. Whatever is wrong with what was read, the usual way reads it again and says so. Where a page may
//!    lie elsewhere by then and another one, or the zeros between two, in its place, only one with a
//!    checksum is read this way, and zeros are not taken for a page that was never written.

use super::fetch::IfTorn;
use super::{InFlight, Pool, State};
use crate::page::{Checksum, page_is_blank};
use crate::propagation::{ChangedRanges, PagePlace, StoredPage};
use crate::volume::{Io, IoOwner, PastQueue};
use crate::{FileId, PageAddress, StorageError};
use nandu_device::{IoBuffer, Operation};
use nandu_workers::sync::Mutex;
use std::sync::Arc;

/// Pages share marks by their addresses: writing one makes readers of about so few others try again.
const MARK_COUNT: usize = 1024;
/// Pages that are read together.
pub(crate) const BATCH_COUNT_MAX: usize = 64;
/// Buffers that are kept for the next reads.
const SPARE_COUNT_MAX: usize = BATCH_COUNT_MAX;

/// What was written so far, as far as readers aside have to know.
#[derive(Debug)]
pub(super) struct Marks {
    written: Vec<u32>,
    /// How often files were cut or discarded.
    cut_count: u32,
}

impl Default for Marks {
    fn default() -> Self {
        Self { written: vec![0; MARK_COUNT], cut_count: 0 }
    }
}

impl Marks {
    /// A page is about to be written.
    pub(super) fn note_write(&mut self, word: u64) {
        let mark = &mut self.written[mark_of(word)];
        *mark = mark.wrapping_add(1);
    }

    /// Pages of a file go.
    pub(super) const fn note_cut(&mut self) {
        self.cut_count = self.cut_count.wrapping_add(1);
    }

    fn of(&self, word: u64) -> (u32, u32) {
        (self.written[mark_of(word)], self.cut_count)
    }
}

fn mark_of(word: u64) -> usize {
    // Neighbours differ in the lowest bits, files in those above.
    nandu_base::to_index((word ^ (word >> 29)) % MARK_COUNT as u64)
}

/// Where a page lies, and what was written when that was looked up.
#[derive(Debug)]
pub(crate) struct Plan {
    word: u64,
    place: PagePlace,
    marks: (u32, u32),
    /// Nobody wants the page yet.
    is_prefetch: bool,
}

/// A page that is being read. Its requests count as the volume's until it is landed.
#[must_use = "what is in flight has to be landed"]
pub(crate) struct Flight {
    plan: Plan,
    begun: Vec<Result<Begun, StorageError>>,
}

impl Flight {
    /// The page that it brings.
    pub(crate) const fn address(&self) -> PageAddress {
        PageAddress::from_word(self.plan.word)
    }
}

/// A page that was read.
#[derive(Debug)]
pub(crate) struct Read {
    plan: Plan,
    /// The page, and what its next write has to cover; `None` if reading failed.
    page: Option<(IoBuffer, ChangedRanges)>,
}

/// A request that was begun.
struct Begun {
    ticket: u64,
    file: FileId,
    offset_bytes: u64,
}

/// What reads pages without the pool.
#[derive(Clone)]
pub(crate) struct PageReader {
    reader: Option<Arc<dyn PastQueue>>,
    io: Io,
    page_bytes: usize,
    alignment: usize,
    spare_buffers: Arc<Mutex<Vec<IoBuffer>>>,
}

impl PageReader {
    pub(super) fn new(
        reader: Option<Arc<dyn PastQueue>>,
        io: Io,
        page_bytes: u32,
        alignment: usize,
    ) -> Self {
        let spare_buffers = Arc::default();
        Self { reader, io, page_bytes: page_bytes as usize, alignment, spare_buffers }
    }

    /// Reads what was planned.
    pub(crate) fn read(&self, plan: Plan) -> Read {
        let mut buffer = self.page_buffer();
        let changed = self.read_place(&plan.place, &mut buffer);
        Read { plan, page: changed.ok().map(|changed| (buffer, changed)) }
    }

    /// Begins to read what was planned, once the device's queue has room.
    pub(crate) fn begin(&self, plan: Plan) -> Flight {
        let begun = match &plan.place {
            &PagePlace::Whole { file, offset_bytes } => {
                vec![self.submit(file, offset_bytes, self.page_buffer())]
            }
            PagePlace::Records(stored) => self.begin_pieces(stored),
        };
        Flight { plan, begun }
    }

    /// Sees to it that what was begun is under way.
    pub(crate) fn hand_over(&self) {
        self.io.hand_over();
    }

    /// Waits for what was begun.
    pub(crate) fn land(&self, flight: Flight) -> Read {
        let Flight { plan, begun } = flight;
        let pieces = self.finish_pieces(begun);
        let page = pieces.and_then(|mut pieces| match &plan.place {
            PagePlace::Whole { .. } => {
                Ok((pieces.pop().expect("one was begun"), ChangedRanges::default()))
            }
            PagePlace::Records(stored) => {
                let mut page = self.page_buffer();
                stored.assemble(&pieces, &mut page).map(|changed| (page, changed))
            }
        });
        Read { plan, page: page.ok() }
    }

    /// Waits for what was begun, and forgets it: nobody wanted it.
    pub(crate) fn drop_flight(&self, flight: Flight) {
        if let Some((buffer, _)) = self.land(flight).page {
            self.keep(buffer);
        }
    }

    /// Whether it can read here: by places, or for a worker that lets others run meanwhile.
    pub(crate) fn can_read(&self) -> bool {
        self.reader.is_some() || nandu_workers::is_worker()
    }

    /// Reads a page at its place, and gives back what its next write has to cover. The buffer is one
    /// page long before and after.
    pub(super) fn read_place(
        &self,
        place: &PagePlace,
        page: &mut IoBuffer,
    ) -> Result<ChangedRanges, StorageError> {
        match place {
            &PagePlace::Whole { file, offset_bytes } => {
                self.read_at(file, offset_bytes, page).map(|()| ChangedRanges::default())
            }
            PagePlace::Records(stored) => stored.assemble(&self.read_pieces(stored)?, page),
        }
    }

    /// Reads into `buffer`, which is as long after as before, or one page if that fails.
    fn read_at(
        &self,
        file: FileId,
        offset_bytes: u64,
        buffer: &mut IoBuffer,
    ) -> Result<(), StorageError> {
        if let Some(reader) = &self.reader {
            return reader.read_at(file, offset_bytes, buffer);
        }
        let taken = std::mem::replace(buffer, IoBuffer::with_alignment(0, 1));
        let (filled, result) = match self.submit(file, offset_bytes, taken) {
            Ok(begun) => self.finish(&begun),
            Err(error) => (None, Err(error)),
        };
        *buffer = filled.unwrap_or_else(|| self.empty_buffer());
        result
    }

    /// Reads the sectors that hold a page's records: one request as any page, two at once.
    fn read_pieces(&self, stored: &StoredPage) -> Result<Vec<IoBuffer>, StorageError> {
        let mut pieces = stored.pieces();
        match (pieces.next(), pieces.next()) {
            (Some(piece), None) => {
                let mut buffer = self.buffer_of(piece.end - piece.start);
                self.read_at(stored.file(), piece.start, &mut buffer)?;
                Ok(vec![buffer])
            }
            _ => self.finish_pieces(self.begin_pieces(stored)),
        }
    }

    fn begin_pieces(&self, stored: &StoredPage) -> Vec<Result<Begun, StorageError>> {
        let begin = |piece: std::ops::Range<u64>| {
            let buffer = self.buffer_of(piece.end - piece.start);
            self.submit(stored.file(), piece.start, buffer)
        };
        stored.pieces().map(begin).collect()
    }

    /// Waits for all that was begun, also where one of it failed.
    fn finish_pieces(
        &self,
        begun: Vec<Result<Begun, StorageError>>,
    ) -> Result<Vec<IoBuffer>, StorageError> {
        let finish = |begun: Result<Begun, StorageError>| {
            let (buffer, result) = self.finish(&begun?);
            result.map(|()| buffer.unwrap_or_else(|| self.empty_buffer()))
        };
        let finished: Vec<_> = begun.into_iter().map(finish).collect();
        finished.into_iter().collect()
    }

    fn submit(
        &self,
        file: FileId,
        offset_bytes: u64,
        buffer: IoBuffer,
    ) -> Result<Begun, StorageError> {
        let (owner, operation) = (IoOwner::PageLoad, Operation::Read);
        let ticket = self.io.submit(owner, file, operation, offset_bytes, buffer)?;
        Ok(Begun { ticket, file, offset_bytes })
    }

    fn finish(&self, begun: &Begun) -> (Option<IoBuffer>, Result<(), StorageError>) {
        let completion = self.io.wait(begun.ticket);
        let result = completion.result.map_err(|error| {
            let what = format!("reading byte {} of file {}", begun.offset_bytes, begun.file.0);
            StorageError::Device { what, error }
        });
        (completion.buffer, result)
    }

    fn page_buffer(&self) -> IoBuffer {
        let spare = self.spare_buffers.lock().pop();
        spare.unwrap_or_else(|| self.empty_buffer())
    }

    fn buffer_of(&self, byte_count: u64) -> IoBuffer {
        IoBuffer::with_alignment(nandu_base::to_index(byte_count), self.alignment)
    }

    fn empty_buffer(&self) -> IoBuffer {
        IoBuffer::with_alignment(self.page_bytes, self.alignment)
    }

    fn keep(&self, buffer: IoBuffer) {
        let mut spare = self.spare_buffers.lock();
        if buffer.len() == self.page_bytes && spare.len() < SPARE_COUNT_MAX {
            spare.push(buffer);
        }
    }
}

impl Pool {
    /// What reads pages without the pool.
    pub(crate) fn page_reader(&self) -> PageReader {
        self.aside.clone()
    }

    /// Plans to read a page that is not here; `None` where [`Pool::read`] is the way, since it is here or
    /// on its way, or does not lie in one piece.
    #[cold]
    pub(crate) fn plan_aside(&self, address: PageAddress) -> Option<Plan> {
        self.plan(address, false)
    }

    /// As [`Self::plan_aside`], of a page that nobody wants yet.
    pub(crate) fn plan_ahead(&self, address: PageAddress) -> Option<Plan> {
        self.plan(address, true)
    }

    fn plan(&self, address: PageAddress, is_prefetch: bool) -> Option<Plan> {
        if !self.aside.can_read() {
            return None;
        }
        let word = address.to_word();
        let mut state = self.lock();
        if self.resident(word).is_some() || state.is_on_its_way(word) {
            return None;
        }
        let place = state.locate(address, self.config.page_bytes)?;
        if !self.answers.keeps_places && state.checksum(address.file) == Checksum::None {
            return None;
        }
        match is_prefetch {
            true => state.counters.prefetch_count += 1,
            false => state.counters.miss_count += 1,
        }
        Some(Plan { word, place, marks: state.marks.of(word), is_prefetch })
    }

    /// Brings what was read into a frame, unless it is not current any more, and lends it to `look`.
    ///
    /// # Errors
    /// As [`Pool::read`].
    pub(crate) fn finish_aside<R>(
        &self,
        read: Read,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        let Read { plan, page } = read;
        let mut state = self.lock();
        if plan.is_prefetch {
            state.counters.miss_count += 1;
            state.counters.prefetch_hit_count += 1;
        }
        if let Some((buffer, changed)) = page
            && let Some(frame) = self.admit_aside(&mut state, &plan, buffer, changed)?
        {
            let page = self.frames.protect(frame, plan.word);
            drop(state);
            return Ok(look(&page.expect("a resident page stays while the lock is held")));
        }
        drop(state);
        let page = self.read_counted(PageAddress::from_word(plan.word))?;
        Ok(look(&page))
    }

    /// The frame that it came into.
    fn admit_aside(
        &self,
        state: &mut State,
        plan: &Plan,
        buffer: IoBuffer,
        changed: ChangedRanges,
    ) -> Result<Option<u32>, StorageError> {
        let is_page = self.answers.leaves_blank_what_was_never_written || !page_is_blank(&buffer);
        let is_current = is_page && state.marks.of(plan.word) == plan.marks;
        if !is_current || self.resident(plan.word).is_some() || state.is_on_its_way(plan.word) {
            self.aside.keep(buffer);
            return Ok(None);
        }
        let Some(frame) = self.take_frame(state)? else {
            self.aside.keep(buffer);
            return Ok(None);
        };
        let mut claim = self.frames.try_claim(frame).expect("an empty frame is nobody's");
        let before = std::mem::replace(claim.buffer_mut(), buffer);
        self.aside.keep(before);
        let page = InFlight { word: plan.word, frame, is_prefetch: false };
        match self.admit(state, page, claim, IfTorn::Refuse) {
            Ok(_) => {
                state.infos[frame as usize].changed = changed;
                Ok(Some(frame))
            }
            Err(_) => {
                state.give_back(frame);
                Ok(None)
            }
        }
    }
}
