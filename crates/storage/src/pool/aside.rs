//! How a page is read while nobody holds the pool's owner: planned under the owner's lock, read without
//! it, and brought into a frame under it again, if it is still what the device has.
//!
//! ```text
//!   lock held:   plan ──► where the page lies, what was written so far
//!   no lock:     read ──► a buffer of its own
//!   lock held:   finish ─► nothing written there meanwhile: into a frame │ else the usual way
//! ```
//!
//! So a writer, who needs the owner alone, waits for no device that readers wait for.
//!
//! 1. A page comes into a frame this way only if, since the plan, neither it (nor one with the same mark)
//!    was written nor any file cut. What was changed meanwhile is resident, or was written.
//! 2. Whatever is wrong with what was read, the usual way reads it again and says so.

use super::fetch::IfTorn;
use super::{InFlight, Pool, State};
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
    file: FileId,
    offset_bytes: u64,
    marks: (u32, u32),
}

/// A page that was read.
#[derive(Debug)]
pub(crate) struct Read {
    plan: Plan,
    /// `None` if reading failed.
    buffer: Option<IoBuffer>,
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
        let spare = self.spare_buffers.lock().pop();
        let mut buffer = spare.unwrap_or_else(|| self.empty_buffer());
        let is_read = self.read_at(plan.file, plan.offset_bytes, &mut buffer).is_ok();
        Read { plan, buffer: is_read.then_some(buffer) }
    }

    /// Reads what was planned, all at once as far as the device's queue takes it.
    pub(crate) fn read_all(&self, plans: Vec<Plan>) -> Vec<Read> {
        let begin = |plan: Plan| {
            let spare = self.spare_buffers.lock().pop();
            let buffer = spare.unwrap_or_else(|| self.empty_buffer());
            let Plan { file, offset_bytes, .. } = plan;
            let begun =
                self.io.submit(IoOwner::PageLoad, file, Operation::Read, offset_bytes, buffer);
            (plan, begun)
        };
        let begun: Vec<_> = plans.into_iter().map(begin).collect();
        let finish = |(plan, begun): (Plan, Result<u64, StorageError>)| {
            let completion = begun.ok().map(|ticket| self.io.wait(ticket));
            let whole = completion.filter(|completion| completion.result.is_ok());
            Read { plan, buffer: whole.and_then(|completion| completion.buffer) }
        };
        begun.into_iter().map(finish).collect()
    }

    /// Whether it can read here: by places, or for a worker that lets others run meanwhile.
    pub(crate) fn can_read(&self) -> bool {
        self.reader.is_some() || nandu_workers::is_worker()
    }

    /// Reads a page at its place. The buffer is one page long before and after.
    pub(super) fn read_at(
        &self,
        file: FileId,
        offset_bytes: u64,
        buffer: &mut IoBuffer,
    ) -> Result<(), StorageError> {
        if let Some(reader) = &self.reader {
            return reader.read_at(file, offset_bytes, buffer);
        }
        let taken = std::mem::replace(buffer, IoBuffer::with_alignment(0, 1));
        let begun = self.io.submit(IoOwner::PageLoad, file, Operation::Read, offset_bytes, taken);
        let completion = match begun {
            Ok(ticket) => self.io.wait(ticket),
            Err(error) => {
                *buffer = self.empty_buffer();
                return Err(error);
            }
        };
        *buffer = completion.buffer.unwrap_or_else(|| self.empty_buffer());
        completion.result.map_err(|error| {
            let what = format!("reading byte {offset_bytes} of file {}", file.0);
            StorageError::Device { what, error }
        })
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
        if !self.aside.can_read() {
            return None;
        }
        let word = address.to_word();
        let mut state = self.lock();
        if self.resident(word).is_some() || state.is_on_its_way(word) {
            return None;
        }
        let (file, offset_bytes) = state.locate(address, self.config.page_bytes)?;
        state.counters.miss_count += 1;
        Some(Plan { word, file, offset_bytes, marks: state.marks.of(word) })
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
        let Read { plan, buffer } = read;
        let mut state = self.lock();
        if let Some(buffer) = buffer
            && let Some(frame) = self.admit_aside(&mut state, &plan, buffer)?
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
    ) -> Result<Option<u32>, StorageError> {
        let is_current = state.marks.of(plan.word) == plan.marks;
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
            Ok(_) => Ok(Some(frame)),
            Err(_) => {
                state.give_back(frame);
                Ok(None)
            }
        }
    }
}
