//! The buffer pool: a fixed number of frames for pages, shared by many readers or held by one writer.
//!
//! ```text
//!   read ──► table ──► frame, protected ──► look            a hit: no lock, no shared write
//!              │ miss
//!              ▼ lock
//!        free frame │ victim ──dirty──► batch: rule.ensure_durable, propagation.write
//!              │
//!              ▼
//!        propagation.locate ──► positional read, without the lock      one page, wall clock
//!        propagation.start_read … next_read, queue full                batches, prefetch, simulation
//!        plan … read … finish, the owner left meanwhile (`aside`)      readers of a database
//!        plan … write … land, the owner left meanwhile (`clean`)       dirty pages, before they leave
//!              │
//!              ▼ checksum, table, tag
//! ```
//!
//! Pages change only through `&mut Pool`, so no page changes while it is read or written
//! (decision 007). Locks are taken in this order: state, placing, I/O.
//!
//! 1. A frame is free, taken (a page is on its way into it), resident or lent; the table has exactly
//!    the resident ones, and so has the replacement.
//! 2. A page is written only after the log is durable up to its LSN, and never while a change to it
//!    has no LSN yet: such a frame is held, as a pinned one is.
//! 3. A page leaves its frame only when the device has what is in it. A write that fails changes
//!    nothing here: what goes to the device is a copy.
//! 4. Every page from the device is checked, unless its file is another program's.

mod aside;
mod clean;
mod exclusive;
mod fetch;
mod frame;
mod grant;
mod replacement;
mod table;
mod write;

pub(crate) use aside::{BATCH_COUNT_MAX, Flight, PageReader, Plan, Read};
pub(crate) use clean::{Cleaning, WantsCleaning};
pub use exclusive::FrameMut;
pub(crate) use frame::ResidentPage;
pub use grant::Grant;
pub use replacement::{Clock, Lru, ReferenceBits, Replacement, ReplacementKind, TwoQueue};
pub use write::WriteBack;

use crate::page::{Checksum, check_page_bytes};
use crate::propagation::{ChangedRanges, PageWatch, PageWrite, PlaceAnswers, Placement};
use crate::volume::Io;
use crate::{FileId, Lsn, PageAddress, StorageError};
use fetch::Misses;
use frame::Frames;
use grant::Lender;
use nandu_base::ByteCount;
use nandu_device::IoBuffer;
use nandu_workers::sync::{Condvar, Mutex, MutexGuard, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use table::PageTable;

/// The fewest frames that a pool has, and that grants leave in it.
pub const FRAME_COUNT_MIN: u32 = 3;
/// The most frames, so that no count overflows.
pub const FRAME_COUNT_MAX: u32 = 1 << 30;

/// The size and ways of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Bytes of a page with its trailer: a power of two from 512 to 65,536.
    pub page_bytes: u32,
    /// How many pages it holds at most, from 3 on.
    pub frame_count: u32,
    /// Which page leaves when another needs its frame.
    pub replacement: ReplacementKind,
}

impl PoolConfig {
    /// As many frames as fit into `memory_bytes`, and never fewer than 3.
    #[must_use]
    pub fn of_memory(page_bytes: u32, memory_bytes: u64, replacement: ReplacementKind) -> Self {
        let frames = memory_bytes / u64::from(page_bytes.max(1));
        let frames = frames.clamp(u64::from(FRAME_COUNT_MIN), u64::from(FRAME_COUNT_MAX));
        Self { page_bytes, frame_count: nandu_base::to_u32(frames), replacement }
    }
}

/// The write-ahead rule: what the log does before a page is written.
pub trait WriteAheadRule: Send + Sync {
    /// Returns when every record up to the one at `lsn` is durable. Must not touch the pool.
    ///
    /// # Errors
    /// If the log cannot be written; the page stays in the pool then.
    fn ensure_durable(&self, lsn: Lsn) -> Result<(), StorageError>;
}

/// For pages that no log knows.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLog;

impl WriteAheadRule for NoLog {
    fn ensure_durable(&self, _lsn: Lsn) -> Result<(), StorageError> {
        Ok(())
    }
}

/// What a pool has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounters {
    /// Pages that were wanted and in a frame.
    pub hit_count: u64,
    /// Pages that were wanted and not in a frame.
    pub miss_count: u64,
    /// Pages that left for another.
    pub eviction_count: u64,
    /// Pages read from the propagation, prefetched ones included.
    pub read_count: u64,
    /// Pages written to the propagation.
    pub write_count: u64,
    /// Calls that wrote them.
    pub write_batch_count: u64,
    /// Of these calls, how many were made while nobody held the pool.
    pub aside_batch_count: u64,
    /// Pages whose reading was begun by a prefetch.
    pub prefetch_count: u64,
    /// Prefetched pages that were wanted later.
    pub prefetch_hit_count: u64,
}

/// Frames for pages. See the module.
pub struct Pool {
    config: PoolConfig,
    frames: Frames,
    table: PageTable,
    needs_every_hit: bool,
    state: Mutex<State>,
    /// Told when a page that somebody reads without the lock has come or failed.
    arrived: Condvar,
    /// Held shared by whoever reads at a place that the propagation named, alone by whoever writes.
    placing: RwLock<()>,
    misses: Misses,
    /// What reads pages at their places, also while nobody holds the pool's owner.
    aside: PageReader,
    /// The volume of the data, where the propagation names places.
    io: Io,
    /// What the propagation says of its places, also while it is away.
    answers: PlaceAnswers,
    rule: Arc<dyn WriteAheadRule>,
    wants_cleaning: WantsCleaning,
    /// There was no room for the last dirty victim: clean pages leave before the next one.
    is_full: AtomicBool,
    lender: Arc<Lender>,
    buffer_alignment: usize,
    run: LogRun,
    /// Who is told of pages that come and go; those that are here are nobody's business.
    watch: Option<Arc<dyn PageWatch>>,
}

/// The run of the log in which pages are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogRun {
    /// Its number: pages carry that of the run that changed them last.
    pub(crate) epoch: u32,
    /// Where it began: pages of earlier runs are older.
    pub(crate) started_at: Lsn,
}

impl Default for LogRun {
    /// Of pages without a log: any may come.
    fn default() -> Self {
        Self { epoch: 0, started_at: Lsn(u64::MAX) }
    }
}

/// What is only touched under the lock.
struct State {
    infos: Vec<FrameInfo>,
    free: Vec<u32>,
    lent: Vec<u32>,
    /// How many frames are pinned or have a change without an LSN.
    held_count: u32,
    replacement: Box<dyn Replacement>,
    /// Not here while it is away with pages: see `clean`.
    placement: Option<Placement>,
    away: Option<clean::Away>,
    evictions_since_look: u32,
    /// Pages on their way through the propagation.
    in_flight: Vec<InFlight>,
    /// Pages that some thread reads without the lock.
    loading: Vec<u64>,
    /// How many threads wait for one of these.
    arrival_waiter_count: u32,
    /// What was written, for those who read pages without the pool.
    marks: aside::Marks,
    files: BTreeMap<FileId, PoolFile>,
    counters: PoolCounters,
    /// Copies for the device, and the lists that a batch needs; here so that they are made once.
    writes: Vec<PageWrite>,
    spare_buffers: Vec<IoBuffer>,
    batch: Vec<u32>,
}

/// A page on its way into a frame.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    word: u64,
    frame: u32,
    is_prefetch: bool,
}

/// A file, for messages and checks.
struct PoolFile {
    name: String,
    checksum: Checksum,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameUse {
    Free,
    Taken,
    Resident,
    Lent,
}

/// What the pool knows of a frame, besides its bytes.
#[derive(Debug)]
struct FrameInfo {
    /// The page's word, where there is a page.
    word: u64,
    frame_use: FrameUse,
    pin_count: u32,
    /// Whether there is a change that has no LSN yet.
    is_unlogged: bool,
    /// Whether it was made here and not written since.
    is_new: bool,
    /// The LSN of the first change that the device does not have.
    rec_lsn: Option<Lsn>,
    /// What the next write has to cover: see [`PageWrite::changed`].
    changed: ChangedRanges,
    /// Whether a copy of it is being written while nobody holds the pool.
    is_flying: bool,
    /// The LSN of the first change since that copy.
    changed_since: Option<Lsn>,
}

impl FrameInfo {
    const fn is_held(&self) -> bool {
        self.pin_count > 0 || self.is_unlogged
    }

    const fn is_dirty(&self) -> bool {
        self.is_unlogged || self.rec_lsn.is_some()
    }
}

/// Refuses a pool that no memory holds: an allocation that is refused later ends the process.
fn check_memory(frame_count: u32, page_bytes: u32) -> Result<(), StorageError> {
    // Beside the pages, what is known of each; and where a large page may begin.
    let frame_bytes = u64::from(page_bytes) + size_of::<FrameInfo>() as u64 + 64;
    let byte_count = u64::from(frame_count) * frame_bytes + (4 << 20);
    if nandu_base::has_room(byte_count) { Ok(()) } else { Err(no_memory(frame_count, page_bytes)) }
}

fn no_memory(frame_count: u32, page_bytes: u32) -> StorageError {
    let pool = ByteCount(u64::from(frame_count) * u64::from(page_bytes));
    let what = format!(
        "a buffer pool of {pool} takes memory that the system does not give; take a smaller one \
         (pool_bytes, --memory), or allow this process more (ulimit -v)"
    );
    StorageError::InvalidSetting { what }
}

impl Pool {
    /// A pool without pages, whose pages lie where `placement` places them.
    ///
    /// # Errors
    /// If the page size or the number of frames is out of range.
    pub fn new(
        config: PoolConfig,
        placement: Placement,
        rule: Box<dyn WriteAheadRule>,
    ) -> Result<Self, StorageError> {
        check_page_bytes(config.page_bytes)?;
        let frame_count = config.frame_count;
        if !(FRAME_COUNT_MIN..=FRAME_COUNT_MAX).contains(&frame_count) {
            let what = format!("a pool of {frame_count} frames is not from 3 to 2^30");
            return Err(StorageError::InvalidSetting { what });
        }
        let io = placement.get().data().clone();
        let answers = PlaceAnswers::of(placement.get());
        let (reader, buffer_alignment) = (io.past_queue(), placement.buffer_alignment() as usize);
        check_memory(frame_count, config.page_bytes)?;
        // Another thread may have taken some meanwhile.
        let frames = Frames::new(frame_count, config.page_bytes, buffer_alignment)
            .ok_or_else(|| no_memory(frame_count, config.page_bytes))?;
        let info = |_| FrameInfo {
            word: 0,
            frame_use: FrameUse::Free,
            pin_count: 0,
            is_unlogged: false,
            is_new: false,
            rec_lsn: None,
            changed: ChangedRanges::default(),
            is_flying: false,
            changed_since: None,
        };
        let state = State {
            infos: (0..frame_count).map(info).collect(),
            free: (0..frame_count).rev().collect(),
            lent: Vec::new(),
            held_count: 0,
            replacement: config.replacement.build(frame_count),
            placement: Some(placement),
            away: None,
            evictions_since_look: 0,
            in_flight: Vec::new(),
            loading: Vec::new(),
            arrival_waiter_count: 0,
            marks: aside::Marks::default(),
            files: BTreeMap::new(),
            counters: PoolCounters::default(),
            writes: Vec::new(),
            spare_buffers: Vec::new(),
            batch: Vec::new(),
        };
        let aside = PageReader::new(reader, io.clone(), config.page_bytes, buffer_alignment);
        Ok(Self {
            config,
            frames,
            table: PageTable::new(frame_count),
            needs_every_hit: config.replacement.needs_every_hit(),
            state: Mutex::new(state),
            arrived: Condvar::new(),
            placing: RwLock::new(()),
            misses: Misses::default(),
            aside,
            io,
            answers,
            rule: rule.into(),
            wants_cleaning: WantsCleaning::default(),
            is_full: AtomicBool::new(false),
            lender: Arc::default(),
            buffer_alignment,
            run: LogRun::default(),
            watch: None,
        })
    }

    /// Has `watch` told of what passes between this pool and the propagation from now on, or nobody. Whoever
    /// begins to watch sees an empty pool, but for held pages.
    ///
    /// # Errors
    /// If pages that were changed before cannot be written.
    pub fn set_watch(&mut self, watch: Option<Arc<dyn PageWatch>>) -> Result<(), StorageError> {
        if watch.is_some() {
            self.drop_all()?;
        }
        self.lock_landed().placement().set_watch(watch.clone());
        self.watch = watch;
        Ok(())
    }

    /// Says which run of the log changes pages from now on. Pages of earlier runs that come with a
    /// change from its start or later are refused.
    pub(crate) const fn set_run(&mut self, run: LogRun) {
        self.run = run;
    }

    /// What the propagation says of its places.
    pub(crate) const fn place_answers(&self) -> PlaceAnswers {
        self.answers
    }

    /// Bytes of a page with its trailer.
    #[must_use]
    pub const fn page_bytes(&self) -> u32 {
        self.config.page_bytes
    }

    /// All frames, the lent ones included.
    #[must_use]
    pub const fn frame_count(&self) -> u32 {
        self.config.frame_count
    }

    /// Says how a file is called in errors, and whether its pages carry the trailer. A file that is
    /// not named here is called by its number, and its pages carry it.
    pub fn name_file(&mut self, file: FileId, name: &str, checksum: Checksum) {
        let entry = PoolFile { name: name.to_owned(), checksum };
        self.state_mut().files.insert(file, entry);
    }

    /// Lends a whole page, trailer included, to `look`. Any number of threads at once.
    ///
    /// # Errors
    /// If the page cannot be read, its checksum fails, or no frame can be had for it.
    #[inline]
    pub fn read<R>(
        &self,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        if let Some(page) = self.resident_page(address) {
            return Ok(look(&page));
        }
        let page = self.read_missing(address)?;
        Ok(look(&page))
    }

    /// The page, held in place, if it is here. Whoever holds it waits for nothing.
    #[inline]
    pub(crate) fn resident_page(&self, address: PageAddress) -> Option<ResidentPage<'_>> {
        let word = address.to_word();
        let frame = self.table.find(word, |_| true)?;
        // Before the page is held in place: whoever holds a reader's slot waits for nothing.
        if self.needs_every_hit {
            self.touch(frame, word);
        }
        let page = self.frames.protect(frame, word)?;
        page.note_hit();
        Some(page)
    }

    /// What was done so far.
    #[must_use]
    pub fn counters(&self) -> PoolCounters {
        let counters = self.lock().counters;
        let (hit_count, prefetch_hit_count) = self.frames.hit_counts();
        let prefetch_hit_count = counters.prefetch_hit_count + prefetch_hit_count;
        PoolCounters { hit_count, prefetch_hit_count, ..counters }
    }

    /// Asserts the numbered invariants. No other thread may be in the pool.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self) {
        let mut state = self.lock();
        self.land(&mut state);
        self.frames.audit();
        state.replacement.audit();
        state.placement().audit();
        let is_flying = |info: &FrameInfo| info.is_flying || info.changed_since.is_some();
        assert!(!state.infos.iter().any(is_flying), "no flight is out");
        let count = |wanted| state.infos.iter().filter(|info| info.frame_use == wanted).count();
        assert_eq!(count(FrameUse::Free), state.free.len(), "free frames are listed");
        assert_eq!(count(FrameUse::Lent), state.lent.len(), "lent frames are listed");
        assert_eq!(count(FrameUse::Taken), state.in_flight.len(), "a page comes into each");
        assert!(state.loading.is_empty(), "nobody reads");
        let held = state.infos.iter().filter(|info| info.is_held()).count();
        assert_eq!(held, state.held_count as usize, "held frames are counted");
        let mut listed: Vec<u32> = self.table.frames().collect();
        listed.sort_unstable();
        let mut expected = Vec::new();
        for (frame, info) in (0..).zip(&state.infos) {
            let is_resident = info.frame_use == FrameUse::Resident;
            assert!(is_resident || !info.is_dirty(), "what changed is in a frame");
            assert!(is_resident || !info.is_held(), "what is held is in a frame");
            let word = is_resident.then_some(info.word);
            assert_eq!(self.frames.word(frame), word, "tags say what is resident");
            if is_resident {
                expected.push(frame);
                let found = self.table.find(info.word, |frame| self.is_in(frame, info.word));
                assert_eq!(found, Some(frame), "each page is found");
            }
        }
        assert_eq!(listed, expected, "the table has the resident pages");
        let mut replaceable = Vec::new();
        state.replacement.upcoming(usize::MAX, &mut replaceable);
        replaceable.sort_unstable();
        assert_eq!(replaceable, expected, "so has the replacement");
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock calls what may panic in between two changes that belong together.
        self.state.lock()
    }

    fn state_mut(&mut self) -> &mut State {
        self.state.get_mut()
    }

    /// Whether `frame` holds the page of `word`.
    fn is_in(&self, frame: u32, word: u64) -> bool {
        self.frames.word(frame) == Some(word)
    }

    /// Tells a hit to a replacement that wants to know each.
    #[cold]
    fn touch(&self, frame: u32, word: u64) {
        let mut state = self.lock();
        let info = &state.infos[frame as usize];
        if info.frame_use == FrameUse::Resident && info.word == word {
            state.replacement.touch(frame);
        }
    }

    /// Tells who watches, if anybody does, that a page is here no more.
    fn tell_of_leaving(&self, word: u64) {
        if let Some(watch) = &self.watch {
            watch.page_left(PageAddress::from_word(word));
        }
    }

    fn empty_buffer(&self) -> IoBuffer {
        IoBuffer::with_alignment(self.config.page_bytes as usize, self.buffer_alignment)
    }
}

impl State {
    fn file_name(&self, file: FileId) -> String {
        match self.files.get(&file) {
            Some(file) => file.name.clone(),
            None => format!("file {}", file.0),
        }
    }

    fn checksum(&self, file: FileId) -> Checksum {
        self.files.get(&file).map_or(Checksum::Trailer, |file| file.checksum)
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Pool({:?}, {:?})", self.config, self.counters())
    }
}

#[cfg(test)]
pub(crate) mod tests;
