//! DFTL: a page map that lies on flash and is cached on demand (Gupta, Kim and Urgaonkar, ASPLOS 2009;
//! steps after flash reference 2.6, 2.8 and 2.10 method C).
//!
//! A translation page holds the entries of consecutive units, 4 bytes each; the directory (GTD) says
//! in memory where each one lies. The cached mapping table (CMT) holds single entries.
//!
//! ```text
//! unit ─▶ CMT ──hit──▶ flash page            costs nothing
//!          └─miss─▶ a clean entry leaves      1 read: the unit's translation page
//!                   a dirty entry leaves      1 read, 1 program more: its translation page, with
//!                                             every dirty entry of that page
//! clean data ─▶ cached units: their entries become dirty; others: 1 read, 1 program for each
//!               translation page that names one
//! clean translation ─▶ pages are copied, the directory changes
//! ```
//!
//! 1. A mapped unit's flash page is valid and its tag names the unit; what is cached or stored of it
//!    follows the invariants of `MappingTable`.
//! 2. The directory names one valid translation page, tagged `unit_count` + its number, for every
//!    translation page with a mapped entry on flash. There are no other valid flash pages.
//! 3. An erase block's valid count is the number of its set bits; it holds one kind of page.
//! 4. After every call the reserve is free, as long as no erase block wore out. Cleaning never
//!    starts cleaning: a step takes at most two erase blocks before it gives one back.
//! 5. A victim is erased only after everything that was programmed before is durable.
//!
//! Every die has a frontier for data and one for translation pages (`separate_copies`: three), and dies take turns page by page; what
//! cleaning writes goes to the die of the victim, as long as there is no lack of space. A die without free erase
//! blocks takes those of others. Planes are programmed one by one.
//!
//! The map on flash is not needed after a power cut: spare areas carry unit and sequence number, so a
//! write is durable when it answers. A trim is volatile.

mod cleaning;
mod config;
mod recovery;
mod table;

pub use config::DftlConfig;

use crate::contract::check_range;
use crate::settled::Settled;
use crate::stock::Stock;
use crate::victim::Buckets;
use crate::{Ftl, FtlError, ReadOutcome};
use nandu_base::{Cause, Lpn, Nanos, Ppn, to_index, to_u32};
use nandu_nand::{Content, Divisor, Geometry, NO_LPN, NandArray, Payload, Ticket};
use std::collections::VecDeque;
use table::{MappingTable, UNMAPPED};

/// Bytes of an entry of a translation page and of the directory (flash reference 2.6.1).
const STORED_ENTRY_BYTES: u32 = 4;
/// Bytes of a cached entry: unit and flash page.
const CACHED_ENTRY_BYTES: u64 = 8;
/// The least reserve with which cleaning cannot come to a stop: two erase blocks that a step takes,
/// and one that the frontier it cleans for takes.
const LEAST_RESERVE: u32 = 3;
const NO_BLOCK: u32 = u32::MAX;

fn entries_per_page(shape: &Geometry) -> u32 {
    (shape.flash_page_bytes / STORED_ENTRY_BYTES).max(1)
}

/// What the cached mapping table did for the host, since the layer was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapCacheCounts {
    /// Translations that found their unit cached.
    pub hit_count: u64,
    /// Translations whose unit was not cached, so that the map was read.
    pub miss_count: u64,
    /// Misses for which a dirty entry was written back.
    pub dirty_eviction_count: u64,
    /// Translation pages that cleaning had to write, for units that were not cached.
    pub cleaning_update_count: u64,
}

impl MapCacheCounts {
    /// The counts of what was done after `earlier` was taken.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            hit_count: self.hit_count - earlier.hit_count,
            miss_count: self.miss_count - earlier.miss_count,
            dirty_eviction_count: self.dirty_eviction_count - earlier.dirty_eviction_count,
            cleaning_update_count: self.cleaning_update_count - earlier.cleaning_update_count,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageKind {
    Data,
    Translation,
}

/// What shares a frontier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    /// Data of the host, with the copies of cleaning where they are not separate.
    Host,
    Copies,
    Translation,
}

impl Stream {
    const fn kind(self) -> PageKind {
        match self {
            Self::Host | Self::Copies => PageKind::Data,
            Self::Translation => PageKind::Translation,
        }
    }
}

const STREAM_COUNT: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Open,
    Closed(PageKind),
    Bad,
}

#[derive(Clone, Copy, Debug)]
struct BlockRecord {
    valid: u32,
    state: State,
}

#[derive(Clone, Copy, Debug)]
struct Frontier {
    erase_block: u32,
    next_page: u32,
}

const CLOSED: Frontier = Frontier { erase_block: NO_BLOCK, next_page: 0 };

#[derive(Clone, Debug)]
struct Die {
    free: VecDeque<u32>,
    frontiers: [Frontier; STREAM_COUNT],
}

/// A layer with a page map on flash.
#[derive(Clone, Debug)]
pub struct Dftl {
    config: DftlConfig,
    page_bytes: u32,
    pages: Divisor,
    table: MappingTable,
    /// The global translation directory, and the sequence numbers of what it names.
    directory: Vec<u32>,
    directory_sequences: Vec<u64>,
    valid_bits: Vec<u64>,
    blocks: Vec<BlockRecord>,
    dies: Vec<Die>,
    free_count: u32,
    data_victims: Buckets,
    translation_victims: Buckets,
    next_dies: [usize; STREAM_COUNT],
    sequence: u64,
    /// Everything that was programmed so far (invariant 5).
    durable: Settled,
    host_reads: u64,
    host_writes: u64,
    /// After a recovery for which too little space is left: the map is read where the spare areas gave
    /// it, and nothing is written or moved any more.
    worn_out: bool,
    counts: MapCacheCounts,
    /// Units of a victim whose translation pages have to be written, and where they lie now.
    moved: Vec<(u32, u32)>,
}

impl Dftl {
    /// A layer of `unit_count` flash pages over a fresh `nand`, or one that is recovered next.
    ///
    /// # Errors
    /// [`FtlError::Configuration`] if a parameter is out of its range, flash pages are shared by units,
    /// or units, map, reserve and frontiers do not fit the array.
    pub fn new(config: &DftlConfig, nand: &NandArray, unit_count: u64) -> Result<Self, FtlError> {
        let geometry = nand.geometry();
        validate(config, nand, unit_count)?;
        let tvpn_count = unit_count.div_ceil(u64::from(entries_per_page(geometry)));
        let pages = geometry.flash_pages_per_erase_block;
        let block_count = geometry.erase_block_count();
        let index = || Buckets::new(block_count, pages);
        let segments = (config.cached_entry_count, config.protected_entry_count());
        let mut dftl = Self {
            config: *config,
            page_bytes: geometry.flash_page_bytes,
            pages: Divisor::new(u64::from(pages)),
            table: MappingTable::new(to_index(unit_count), entries_per_page(geometry), segments),
            directory: vec![UNMAPPED; to_index(tvpn_count)],
            directory_sequences: vec![0; to_index(tvpn_count)],
            valid_bits: vec![0; to_index(geometry.flash_page_count().div_ceil(64))],
            blocks: vec![BlockRecord { valid: 0, state: State::Free }; block_count as usize],
            dies: Vec::new(),
            free_count: 0,
            data_victims: index(),
            translation_victims: index(),
            next_dies: [0; STREAM_COUNT],
            sequence: 0,
            durable: Settled::default(),
            host_reads: 0,
            host_writes: 0,
            worn_out: false,
            counts: MapCacheCounts::default(),
            moved: Vec::with_capacity(pages as usize),
        };
        dftl.reset(nand);
        let stock = Stock::of_blocks(nand);
        let blocks_for = |page_count: u64| page_count.div_ceil(u64::from(pages));
        let frontiers = config.reserve_and_frontiers(geometry);
        let needed = blocks_for(unit_count + tvpn_count) + frontiers;
        if needed > stock.usable_count() {
            let aside = needed - blocks_for(unit_count);
            return Err(stock.refusal(unit_count, (needed, aside), 1));
        }
        Ok(dftl)
    }

    /// Hits and misses of the cached mapping table.
    #[must_use]
    pub const fn map_cache_counts(&self) -> MapCacheCounts {
        self.counts
    }

    /// Everything in memory as on a device where all good erase blocks are erased.
    fn reset(&mut self, nand: &NandArray) {
        self.table.reset();
        self.directory.fill(UNMAPPED);
        self.directory_sequences.fill(0);
        self.valid_bits.fill(0);
        (self.next_dies, self.free_count) = ([0; STREAM_COUNT], 0);
        let pages = to_u32(self.pages.value());
        let block_count = to_u32(self.blocks.len() as u64);
        self.data_victims = Buckets::new(block_count, pages);
        self.translation_victims = self.data_victims.clone();
        let die = Die { free: VecDeque::new(), frontiers: [CLOSED; STREAM_COUNT] };
        self.dies = vec![die; nand.geometry().die_count() as usize];
        for erase_block in 0..block_count {
            let bad = nand.is_bad(erase_block);
            let state = if bad { State::Bad } else { State::Free };
            self.blocks[erase_block as usize] = BlockRecord { valid: 0, state };
            if !bad {
                self.give_back(erase_block);
            }
        }
    }

    fn die_of(&self, erase_block: u32) -> usize {
        erase_block as usize % self.dies.len()
    }

    fn give_back(&mut self, erase_block: u32) {
        let die = self.die_of(erase_block);
        self.dies[die].free.push_back(erase_block);
        self.free_count += 1;
    }

    #[inline]
    fn is_valid(&self, page: u32) -> bool {
        self.valid_bits[page as usize / 64] >> (page % 64) & 1 == 1
    }

    #[inline]
    fn block_of(&self, page: u32) -> u32 {
        to_u32(self.pages.div_rem(u64::from(page)).0)
    }

    #[inline]
    fn set_valid(&mut self, page: u32) {
        self.valid_bits[page as usize / 64] |= 1 << (page % 64);
        let erase_block = self.block_of(page);
        self.blocks[erase_block as usize].valid += 1;
    }

    #[inline]
    fn invalidate(&mut self, page: u32) {
        self.valid_bits[page as usize / 64] &= !(1 << (page % 64));
        let erase_block = self.block_of(page);
        let record = &mut self.blocks[erase_block as usize];
        record.valid -= 1;
        let valid = record.valid;
        match record.state {
            State::Closed(PageKind::Data) => self.data_victims.lower(erase_block, valid),
            State::Closed(PageKind::Translation) => {
                self.translation_victims.lower(erase_block, valid);
            }
            _ => {}
        }
    }

    fn victims(&mut self, kind: PageKind) -> &mut Buckets {
        match kind {
            PageKind::Data => &mut self.data_victims,
            PageKind::Translation => &mut self.translation_victims,
        }
    }

    /// Flash pages that are left of a frontier.
    fn room_of(&self, die: usize, stream: Stream) -> u32 {
        let frontier = self.dies[die].frontiers[stream as usize];
        match frontier.erase_block {
            NO_BLOCK => 0,
            _ => to_u32(self.pages.value()) - frontier.next_page,
        }
    }

    /// Makes sure that the next page of a stream can be programmed without cleaning, and answers its die.
    fn make_room(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        stream: Stream,
    ) -> Result<(usize, Ticket), FtlError> {
        let die = self.next_dies[stream as usize];
        let mut after = after;
        let mut attempts = 4 * self.blocks.len();
        // Cleaning may open the very frontier that it makes room for.
        while self.free_count
            < self.config.reserve_count + u32::from(self.room_of(die, stream) == 0)
        {
            attempts = attempts.checked_sub(1).ok_or(FtlError::DeviceFull)?;
            after = self.clean_one(nand, after)?;
        }
        self.next_dies[stream as usize] = (die + 1) % self.dies.len();
        Ok((die, after))
    }

    /// Programs the next page of a frontier, which is valid from now on.
    fn append(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        (die, stream): (usize, Stream),
        (tag, content): (u32, Content),
        cause: Cause,
    ) -> Result<(u32, Ticket), FtlError> {
        if self.room_of(die, stream) == 0 {
            let erase_block = self.take_free(die)?;
            self.dies[die].frontiers[stream as usize] = Frontier { erase_block, next_page: 0 };
        }
        let Frontier { erase_block, next_page } = self.dies[die].frontiers[stream as usize];
        let page = nand.geometry().flash_page(erase_block, next_page);
        self.sequence += 1;
        let contents = [content];
        let payload = Payload { lpns: &[tag], sequence: self.sequence, contents: &contents };
        let done = nand.program(after, page, payload, cause)?;
        self.durable.add(nand, done);
        let page = to_u32(page.0);
        self.set_valid(page);
        let frontier = &mut self.dies[die].frontiers[stream as usize];
        frontier.next_page += 1;
        if u64::from(frontier.next_page) == self.pages.value() {
            *frontier = CLOSED;
            self.close(erase_block, stream.kind());
        }
        Ok((page, done))
    }

    fn take_free(&mut self, die: usize) -> Result<u32, FtlError> {
        let count = self.dies.len();
        let mut candidates = (die..die + count).map(|die| die % count);
        let from = candidates.find(|&die| !self.dies[die].free.is_empty());
        let from = from.ok_or(FtlError::DeviceFull)?;
        let erase_block = self.dies[from].free.pop_front().expect("it was not empty");
        self.free_count -= 1;
        self.blocks[erase_block as usize].state = State::Open;
        Ok(erase_block)
    }

    fn close(&mut self, erase_block: u32, kind: PageKind) {
        let record = &mut self.blocks[erase_block as usize];
        record.state = State::Closed(kind);
        let valid = record.valid;
        self.victims(kind).insert(erase_block, valid);
    }

    /// Reads the translation page of `tvpn`, where there is one.
    fn read_translation(
        &self,
        nand: &mut NandArray,
        after: Ticket,
        tvpn: u32,
        cause: Cause,
    ) -> Result<Ticket, FtlError> {
        match self.directory[tvpn as usize] {
            UNMAPPED => Ok(after),
            page => Ok(nand.read(after, Ppn(page.into()), self.page_bytes, cause)?),
        }
    }

    /// Programs a translation page anew on `die`; its dirty entries are clean then.
    fn program_translation(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        (die, tvpn): (usize, u32),
        cause: Cause,
    ) -> Result<Ticket, FtlError> {
        let tag = to_u32(self.table.unit_count() as u64) + tvpn;
        let target = (die, Stream::Translation);
        let (page, done) = self.append(nand, after, target, (tag, None), cause)?;
        let old = std::mem::replace(&mut self.directory[tvpn as usize], page);
        self.directory_sequences[tvpn as usize] = self.sequence;
        if old != UNMAPPED {
            self.invalidate(old);
        }
        Ok(done)
    }

    /// Brings a translation page up to date: one read, one program.
    fn write_back(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        (die, tvpn): (usize, u32),
    ) -> Result<Ticket, FtlError> {
        let after = self.read_translation(nand, after, tvpn, Cause::MapRead)?;
        let after = self.program_translation(nand, after, (die, tvpn), Cause::MapWrite)?;
        self.table.clean(tvpn);
        Ok(after)
    }

    /// Evicts entries, if it has to, until one more fits into the cache.
    fn make_cache_room(&mut self, nand: &mut NandArray, after: Ticket) -> Result<Ticket, FtlError> {
        let mut after = after;
        match self.table.victim() {
            None => return Ok(after),
            Some((_, false)) => {}
            Some((_, true)) => {
                let (die, ready) = self.make_room(nand, after, Stream::Translation)?;
                after = ready;
                // Cleaning may have written that translation page already.
                if let Some((lpn, true)) = self.table.victim() {
                    after = self.write_back(nand, after, (die, self.table.tvpn_of(lpn)))?;
                    self.counts.dirty_eviction_count += 1;
                }
            }
        }
        let (lpn, _) = self.table.victim().expect("the cache is full");
        self.table.evict(lpn);
        Ok(after)
    }

    /// The slot of a unit, cached now if it was not.
    fn translate(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        lpn: u32,
    ) -> Result<(u32, Ticket), FtlError> {
        if let Some(slot) = self.table.slot_of(lpn) {
            self.counts.hit_count += 1;
            self.table.touch(slot);
            return Ok((slot, after));
        }
        self.counts.miss_count += 1;
        let after = self.make_cache_room(nand, after)?;
        let after = self.read_translation(nand, after, self.table.tvpn_of(lpn), Cause::MapRead)?;
        Ok((self.table.insert(lpn), after))
    }
}

impl Dftl {
    /// Writes every unit in order, and each translation page after its units.
    fn fill(&mut self, nand: &mut NandArray) -> Result<(), FtlError> {
        for tvpn in 0..to_u32(self.directory.len() as u64) {
            for lpn in self.table.units_of(tvpn) {
                let (die, after) = self.make_room(nand, Ticket::READY, Stream::Host)?;
                let target = (die, Stream::Host);
                let (page, _) = self.append(nand, after, target, (lpn, None), Cause::Host)?;
                self.table.store(lpn, page);
            }
            let (die, after) = self.make_room(nand, Ticket::READY, Stream::Translation)?;
            self.program_translation(nand, after, (die, tvpn), Cause::MapWrite)?;
        }
        Ok(())
    }

    /// Trims a unit in memory alone, where nothing is cached or written any more.
    fn forget(&mut self, lpn: u32) {
        let old = self.table.page_of(lpn);
        if old != UNMAPPED {
            self.table.store(lpn, UNMAPPED);
            self.invalidate(old);
        }
    }

    fn pages_of(&self, erase_block: u32) -> std::ops::Range<u32> {
        let pages = to_u32(self.pages.value());
        erase_block * pages..(erase_block + 1) * pages
    }

    /// Asserts invariants 3 and 4.
    fn audit_blocks(&self, nand: &NandArray) {
        let mut free_count = 0;
        for (number, record) in (0_u32..).zip(&self.blocks) {
            let valid = self.pages_of(number).filter(|&page| self.is_valid(page)).count();
            assert_eq!(record.valid as usize, valid, "invariant 3: erase block {number}");
            free_count += u32::from(record.state == State::Free);
            let State::Closed(kind) = record.state else { continue };
            for page in self.pages_of(number).filter(|&page| self.is_valid(page)) {
                let tag = nand.spare(Ppn(page.into())).map_or(NO_LPN, |spare| spare.lpns[0]);
                let is_data = tag < to_u32(self.table.unit_count() as u64);
                assert_eq!(is_data, kind == PageKind::Data, "invariant 3: one kind in {number}");
            }
        }
        let listed: usize = self.dies.iter().map(|die| die.free.len()).sum();
        assert_eq!((listed, self.free_count), (free_count as usize, free_count), "free lists");
        let closed = |kind| {
            let is_closed = |record: &&BlockRecord| record.state == State::Closed(kind);
            self.blocks.iter().filter(is_closed).count()
        };
        let indexed = [self.data_victims.groups().len(), self.translation_victims.groups().len()];
        let kinds = [PageKind::Data, PageKind::Translation];
        assert_eq!(kinds.map(closed), indexed, "all closed erase blocks are victims");
        if self.blocks.iter().all(|record| record.state != State::Bad) {
            assert!(free_count >= self.config.reserve_count, "invariant 4: the reserve is free");
        }
    }
}

fn validate(config: &DftlConfig, nand: &NandArray, unit_count: u64) -> Result<(), FtlError> {
    let geometry = nand.geometry();
    let fail = |text: String| Err(FtlError::Configuration(text));
    if nand.config().units_per_flash_page != 1 {
        return fail("ftl: dftl maps whole flash pages; units_per_flash_page must be 1".into());
    }
    if config.cached_entry_count == 0 {
        return fail("ftl: cached_entry_count is 0, must be at least 1".into());
    }
    if config.protected_ppm >= 1_000_000 {
        let ppm = config.protected_ppm;
        return fail(format!("ftl: protected_ppm is {ppm}, must be less than 1000000"));
    }
    if config.reserve_count < LEAST_RESERVE {
        let reserve = config.reserve_count;
        return fail(format!(
            "ftl: reserve_count is {reserve}, must be at least {LEAST_RESERVE}: cleaning takes two \
             erase blocks before it gives one back"
        ));
    }
    if unit_count == 0 {
        return fail("ftl: there are no units".into());
    }
    let limit = u64::from(UNMAPPED.min(NO_LPN));
    if geometry.flash_page_count() >= limit || u64::from(config.cached_entry_count) >= limit {
        return fail(format!("ftl: dftl takes fewer than {limit} flash pages and cached entries"));
    }
    Ok(())
}

impl Ftl for Dftl {
    fn unit_bytes(&self) -> u32 {
        self.page_bytes
    }

    fn unit_count(&self) -> u64 {
        self.table.unit_count() as u64
    }

    fn read(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        lpn: Lpn,
        bytes: u32,
    ) -> Result<ReadOutcome, FtlError> {
        check_range(lpn, 1, self.unit_count())?;
        self.host_reads += 1;
        let translated = match self.worn_out {
            true => Err(FtlError::DeviceFull),
            false => self.translate(nand, after, to_u32(lpn.0)),
        };
        let (page, after) = match translated {
            Ok((slot, after)) => (self.table.page_at(slot), after),
            // No entry can leave the cache for it; what is stored stays readable.
            Err(FtlError::DeviceFull) => (self.table.page_of(to_u32(lpn.0)), after),
            Err(error) => return Err(error),
        };
        if page == UNMAPPED {
            return Ok(ReadOutcome { done: after, content: None });
        }
        let page = Ppn(page.into());
        let done = nand.read(after, page, bytes.min(self.page_bytes), Cause::Host)?;
        Ok(ReadOutcome { done, content: nand.content(page, 0) })
    }

    fn peek(&self, nand: &NandArray, lpn: Lpn) -> Content {
        if lpn.0 >= self.unit_count() {
            return None;
        }
        match self.table.page_of(to_u32(lpn.0)) {
            UNMAPPED => None,
            page => nand.content(Ppn(page.into()), 0),
        }
    }

    fn write(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        lpn: Lpn,
        content: Content,
    ) -> Result<Ticket, FtlError> {
        check_range(lpn, 1, self.unit_count())?;
        if self.worn_out {
            return Err(FtlError::DeviceFull);
        }
        let lpn = to_u32(lpn.0);
        let (slot, after) = self.translate(nand, after, lpn)?;
        // Cleaning may move the old copy, but takes no entry out of the cache.
        let (die, after) = self.make_room(nand, after, Stream::Host)?;
        let target = (die, Stream::Host);
        let (page, done) = self.append(nand, after, target, (lpn, content), Cause::Host)?;
        let old = self.table.page_at(slot);
        self.table.set(slot, page);
        if old != UNMAPPED {
            self.invalidate(old);
        }
        self.host_writes += 1;
        Ok(done)
    }

    /// An entry that is not cached comes in with one read of its translation page for all units of
    /// it; what is unmapped already stays as it is.
    fn trim(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        first: Lpn,
        count: u64,
    ) -> Result<Ticket, FtlError> {
        check_range(first, count, self.unit_count())?;
        let (mut after, mut in_buffer) = (after, None);
        for lpn in to_u32(first.0)..to_u32(first.0 + count) {
            if self.worn_out {
                self.forget(lpn);
                continue;
            }
            let slot = match self.table.slot_of(lpn) {
                Some(slot) => slot,
                None => {
                    let tvpn = self.table.tvpn_of(lpn);
                    if in_buffer.replace(tvpn) != Some(tvpn) {
                        after = self.read_translation(nand, after, tvpn, Cause::MapRead)?;
                    }
                    if self.table.page_of(lpn) == UNMAPPED {
                        continue;
                    }
                    after = self.make_cache_room(nand, after)?;
                    self.table.insert(lpn)
                }
            };
            let old = self.table.page_at(slot);
            if old != UNMAPPED {
                self.table.set(slot, UNMAPPED);
                self.invalidate(old);
            }
        }
        Ok(after)
    }

    /// Nothing waits in memory that the spare areas do not tell.
    fn flush(&mut self, _nand: &mut NandArray, after: Ticket) -> Result<Ticket, FtlError> {
        Ok(after)
    }

    fn idle(&mut self, nand: &mut NandArray, now: Nanos, until: Nanos) {
        if self.config.idle_clean_count == 0 || self.worn_out {
            return;
        }
        let reserve = self.config.reserve_count;
        let wanted = reserve.saturating_add(self.config.idle_clean_count);
        nand.at(now);
        let mut time = now.max(nand.idle_at());
        // A step that took more than it gave is followed by others, even past the end.
        while self.free_count < reserve || (self.free_count < wanted && time < until) {
            // An error here means that cleaning found nothing to gain. Idle time ends; the next
            // write that needs space reports it.
            let start = nand.at(time);
            let Ok(done) = self.clean_one(nand, start) else { return };
            time = nand.finish(done);
        }
    }

    fn initialise_sequential(&mut self, nand: &mut NandArray) -> Result<(), FtlError> {
        if self.sequence > 0 {
            return Err(FtlError::NotFresh);
        }
        let accounting = nand.begin_preparation();
        let filled = self.fill(nand);
        nand.end_preparation(accounting);
        self.durable = Settled::default();
        filled
    }

    fn recover(&mut self, nand: &mut NandArray, after: Ticket) -> Result<Ticket, FtlError> {
        self.rebuild(nand, after)
    }

    fn host_pages(&self) -> (u64, u64) {
        (self.host_reads, self.host_writes)
    }

    /// The cached mapping table and the directory.
    fn map_cache(&self) -> Option<MapCacheCounts> {
        Some(self.counts)
    }

    fn map_bytes(&self) -> u64 {
        let directory = self.directory.len() as u64 * u64::from(STORED_ENTRY_BYTES);
        u64::from(self.table.capacity()) * CACHED_ENTRY_BYTES + directory
    }

    fn audit(&self, nand: &NandArray) {
        self.table.audit();
        let unit_count = to_u32(self.table.unit_count() as u64);
        let mut valid_count = 0;
        let mut check = |page: u32, tag: u32, what: &str| {
            assert!(self.is_valid(page), "{what}: flash page {page} of tag {tag} is valid");
            let spare = nand.spare(Ppn(page.into()));
            assert_eq!(spare.map(|spare| spare.lpns[0]), Some(tag), "{what}: the tag");
            valid_count += 1_u64;
        };
        for lpn in (0..unit_count).filter(|&lpn| self.table.page_of(lpn) != UNMAPPED) {
            check(self.table.page_of(lpn), lpn, "invariant 1");
        }
        for (tvpn, &page) in (0_u32..).zip(&self.directory) {
            if page == UNMAPPED {
                let mut units = self.table.units_of(tvpn);
                let unknown = units.all(|lpn| self.table.stored_page_of(lpn) == UNMAPPED);
                assert!(
                    unknown || self.worn_out,
                    "invariant 2: translation page {tvpn} is on flash"
                );
            } else {
                check(page, unit_count + tvpn, "invariant 2");
            }
        }
        let bits: u64 = self.valid_bits.iter().map(|word| u64::from(word.count_ones())).sum();
        assert_eq!(bits, valid_count, "invariant 2: nothing else is valid");
        self.audit_blocks(nand);
    }
}
