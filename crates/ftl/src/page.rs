//! Page mapping with cleaning: any unit may lie anywhere (S000 section 2.2, flash reference 2.1).
//!
//! A group is what is allocated, cleaned and erased: one erase block, or with `multi_plane` the erase
//! blocks of one (die, row), programmed together. Unit address = group * slots + row * width + slot,
//! where width = planes of a group * units of a flash page; width 1 is the classic page map.
//!
//! ```text
//! write ─▶ frontier of its stream, next die ─┐            per die: free list, frontiers,
//!           (a row waits until it is full)   ├─▶ group    victim index of each pool
//! clean ─▶ cleaning frontier of that die ────┘   Free ─▶ Open ─▶ Closed ─▶ Emptied ─▶ Free
//! ```
//!
//! 1. The map is injective; a unit's bit is set exactly where the map points (I1).
//! 2. A group's valid count is the number of its set bits; all counts sum up to the mapped units (I2, I3).
//! 3. After every call each die has at least its reserve of free groups, or under pacing one that copies give
//!    back without another, as long as none wears out (I5).
//! 4. A group is erased only after every unit that it held is durable elsewhere, so a power cut finds
//!    the old or the new data of every unit: a victim whose last copies wait in an open row is Emptied,
//!    and erased when the row is programmed.
//! 5. A row names a unit only if it holds its newest copy: what waits and is superseded is withdrawn, so
//!    that the highest sequence number finds the newest.
//! 6. Space is allocated before the old copy is invalidated: cleaning may move that copy.
//!
//! Dies take turns row by row; one that holds more than its share of live data is passed over, so
//! that no die fills up while others have room.

mod checkpoint;
mod cleaning;
mod config;
mod free_list;
mod metadata;
mod pace;
mod placement;
mod recovery;
mod run;
mod steady;
mod trim_journal;
mod valid_map;

pub use config::{CleaningFrontier, CleaningMode, DieChoice, DieOrder, PageConfig, TrimDurability};

use crate::contract::check_range;
use crate::settled::Settled;
use crate::stock::{Condition, Stock};
use crate::victim::{VictimIndex, VictimShape};
use crate::{Ftl, FtlError, ReadOutcome, StreamHold};
use free_list::FreeList;
use metadata::MetadataLog;
use nandu_base::{Cause, Lpn, Nanos, Rng, to_index, to_u32};
use nandu_nand::{Content, Divisor, Geometry, METADATA_TAG, NandArray, RowRead, Ticket};
use pace::Pace;
use valid_map::ValidMap;

const UNMAPPED: u32 = u32::MAX;
const NO_GROUP: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Open,
    Closed,
    /// Is being emptied a few units at a time.
    Victim,
    /// Without a valid unit, but copies of what it held are not yet programmed.
    Emptied,
    /// The group holds rows of the metadata log.
    Metadata,
    /// Never programmed or erased again. Where a power cut undid the copies, units are still live here.
    Bad,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    valid: u32,
    state: State,
    stream: u8,
}

/// Where the next row goes, and the units that wait for it to fill.
#[derive(Clone, Debug)]
struct Frontier {
    group: u32,
    next_row: u32,
    lpns: Vec<u32>,
    contents: Vec<Content>,
    /// Groups of the copies that the waiting units supersede.
    superseded: Vec<u32>,
    /// The same for the last row, on paired pages: the program of its partner may still destroy it.
    unpaired: Vec<u32>,
    /// What those who wrote the waiting units wait for.
    row: Ticket,
    /// The ticket that has to end before its first row is programmed.
    opened_after: Ticket,
}

#[derive(Clone, Debug)]
struct Die {
    free: FreeList,
    /// The host's by stream, then those of cleaning, then that of wear levelling.
    frontiers: Vec<Frontier>,
    /// One index, or one for each stream where streams have shares.
    pools: Vec<VictimIndex>,
    /// Emptied groups with the frontier that their copies wait in.
    emptied: Vec<(u32, usize)>,
    /// How many groups each stream has in use.
    held: Vec<u64>,
    pace: Pace,
    /// Ends when the die has erased what it was asked to: no group is opened before one that it counts on
    /// is free.
    last_erase: Ticket,
    /// Valid count of a closed group from which on downwards a pool wants to know of changes.
    told_at: u32,
    live: u64,
    usable: u64,
    erases_since_levelling: u32,
}

/// A translation layer that maps single pages: see the module.
#[derive(Clone, Debug)]
pub struct PageFtl {
    config: PageConfig,
    unit_bytes: u32,
    units_per_page: u32,
    planes: u32,
    width: u32,
    rows: u32,
    die_count: Divisor,
    slots: Divisor,
    map: Vec<u32>,
    valid: ValidMap,
    groups: Vec<Group>,
    /// Ends when every unit that superseded one of a group is durable, as far as it was programmed
    /// (invariant 4).
    superseded_by: Vec<Ticket>,
    dies: Vec<Die>,
    /// By die: work that it was given, in ns; kept where it decides who takes a row.
    work_ns: Vec<u64>,
    /// The die of the next row of each stream, as its place in `die_order`.
    next_die: Vec<usize>,
    /// The dies in the order in which they follow each other, and the place of each.
    die_order: Vec<usize>,
    is_paced: bool,
    /// Whether a stream goes on with the die that it chose, whose row is not full.
    has_chosen: Vec<bool>,
    total_live: u64,
    total_usable: u64,
    /// Units that a group holds at most where cleaning must gain something from the emptiest.
    group_capacity: u64,
    sequence: u64,
    /// Whether a program may decide over units that were acknowledged before it was issued: they
    /// waited in its row, or its flash pages share cells with theirs.
    gathers: bool,
    /// All such programs.
    gathered: Settled,
    host_read_units: u64,
    host_write_units: u64,
    padded_units: u64,
    metadata: MetadataLog,
    /// Lent to one cleaning at a time, so that none allocates.
    scratch: Scratch,
    rng: Rng,
}

#[derive(Clone, Debug, Default)]
struct Scratch {
    lpns: Vec<u32>,
    /// Where each unit lay.
    from: Vec<u32>,
    contents: Vec<Content>,
    rows: Vec<RowRead>,
}

/// Valid units of a victim, in the order in which they lay.
#[derive(Clone, Copy)]
struct Copies<'a> {
    lpns: &'a [u32],
    from: &'a [u32],
    /// Empty where content is not kept.
    contents: &'a [Content],
}

impl Scratch {
    fn copies(&self) -> Copies<'_> {
        Copies { lpns: &self.lpns, from: &self.from, contents: &self.contents }
    }
}

impl PageFtl {
    /// A layer of `unit_count` units over a fresh `nand`, or one that is recovered next.
    ///
    /// # Errors
    /// [`FtlError::Configuration`] if a parameter is out of range, the unit does not fit the flash page,
    /// the array's spare areas are laid out for another unit, or reserve and frontiers leave less than
    /// `unit_count` units.
    pub fn new(
        config: &PageConfig,
        nand: &NandArray,
        unit_count: u64,
        seed: u64,
    ) -> Result<Self, FtlError> {
        let geometry = nand.geometry();
        let unit_bytes = config.unit_bytes.unwrap_or(geometry.flash_page_bytes);
        let units_per_page = nand.config().units_per_flash_page;
        let fail = |text: String| Err(FtlError::Configuration(text));
        if unit_count == 0 {
            return fail("ftl: there are no units".into());
        }
        if u64::from(unit_bytes) * u64::from(units_per_page) != u64::from(geometry.flash_page_bytes)
        {
            return fail(format!(
                "ftl: {units_per_page} units of {unit_bytes} bytes do not fill a flash page of {} bytes",
                geometry.flash_page_bytes
            ));
        }
        config.check().map_err(FtlError::Configuration)?;
        let planes = if config.multi_plane { geometry.planes_per_die } else { 1 };
        let width = units_per_page * planes;
        let slots = u64::from(geometry.flash_pages_per_erase_block) * u64::from(width);
        let group_count = geometry.erase_block_count() / planes;
        let address_count = slots * u64::from(group_count);
        let address_end = u64::from(METADATA_TAG);
        if address_count >= address_end || unit_count >= address_end {
            return fail(format!(
                "ftl: {address_count} units are past 32-bit addresses; enlarge them"
            ));
        }
        let padded_rows = 1 + u32::from(nand.config().rules.paired_pages);
        let fresh = Group { valid: 0, state: State::Free, stream: 0 };
        let mut ftl = Self {
            config: config.clone(),
            unit_bytes,
            units_per_page,
            planes,
            width,
            rows: geometry.flash_pages_per_erase_block,
            die_count: Divisor::new(geometry.die_count().into()),
            slots: Divisor::new(slots),
            map: vec![UNMAPPED; to_index(unit_count)],
            valid: ValidMap::new(address_count),
            groups: vec![fresh; group_count as usize],
            superseded_by: vec![Ticket::READY; group_count as usize],
            dies: Vec::new(),
            work_ns: Vec::new(),
            next_die: Vec::new(),
            die_order: die_order(config.die_order, geometry),
            is_paced: config.cleaning == CleaningMode::Paced,
            has_chosen: Vec::new(),
            total_live: 0,
            total_usable: 0,
            // Padding may waste a row's width when copies have to go out before it is full, and on
            // paired pages the row after it.
            group_capacity: slots.saturating_sub(u64::from(width * padded_rows - 1)),
            sequence: 0,
            gathers: width > 1 || nand.config().rules.paired_pages,
            gathered: Settled::default(),
            host_read_units: 0,
            host_write_units: 0,
            padded_units: 0,
            metadata: MetadataLog::new(config.checkpoint_interval_rows),
            scratch: Scratch::default(),
            rng: Rng::for_part(seed, "victim"),
        };
        ftl.check_metadata().map_err(FtlError::Configuration)?;
        ftl.reset(nand);
        ftl.check_room(nand)?;
        Ok(ftl)
    }

    /// Refuses more units than fit beside what every die keeps aside.
    fn check_room(&self, nand: &NandArray) -> Result<(), FtlError> {
        let aside = self.groups_aside();
        let (mut stock, mut room) = (Stock::default(), 0);
        for die in 0..self.dies.len() {
            let own = (die..self.groups.len()).step_by(self.dies.len());
            let of_die = Stock::of(own.map(|group| self.condition(nand, to_u32(group as u64))));
            room += of_die.usable_count().saturating_sub(aside) * self.group_capacity;
            stock = stock.plus(of_die);
        }
        if self.unit_count() <= room {
            return Ok(());
        }
        let aside = aside * self.die_count.value();
        let needed = self.unit_count().div_ceil(self.group_capacity.max(1)) + aside;
        Err(stock.refusal(self.unit_count(), (needed, aside), self.planes))
    }

    /// Groups that every die keeps aside: reserve, frontiers and metadata.
    fn groups_aside(&self) -> u64 {
        u64::from(self.config.groups_aside()) + self.metadata_groups_per_die()
    }

    fn condition(&self, nand: &NandArray, group: u32) -> Condition {
        let (first, stride) = (self.first_block(nand, group), to_u32(self.die_count.value()));
        Condition::of(nand, (0..self.planes).map(|plane| first + plane * stride))
    }

    /// Slots that were programmed without a unit, because a row had to go out before it was full.
    #[must_use]
    pub const fn padded_units(&self) -> u64 {
        self.padded_units
    }

    /// Free groups over all dies.
    #[must_use]
    pub fn free_groups(&self) -> u64 {
        self.dies.iter().map(|die| die.free.len() as u64).sum()
    }

    /// The frontier of what the host calls `stream`; those that the layer does not tell apart share one.
    fn stream_of(&self, stream: u8) -> usize {
        usize::from(stream.min(self.config.stream_count - 1))
    }

    /// Everything in memory as on a device where all good groups are erased.
    fn reset(&mut self, nand: &NandArray) {
        self.map.fill(UNMAPPED);
        self.valid.clear_all();
        self.superseded_by.fill(Ticket::READY);
        self.total_live = 0;
        self.gathered = Settled::default();
        self.metadata = MetadataLog::new(self.config.checkpoint_interval_rows);
        self.next_die = vec![0; usize::from(self.config.stream_count)];
        self.has_chosen = vec![false; usize::from(self.config.stream_count)];
        let frontier = Frontier {
            group: NO_GROUP,
            next_row: 0,
            lpns: Vec::with_capacity(self.width as usize),
            contents: Vec::new(),
            superseded: Vec::new(),
            unpaired: Vec::new(),
            row: Ticket::READY,
            opened_after: Ticket::READY,
        };
        let die_count = self.die_count.value();
        let shape = VictimShape {
            policy: self.config.victim,
            choices: self.config.victim_choices,
            window_ppm: self.config.victim_window_ppm,
            group_count: to_u32(self.groups.len() as u64 / die_count),
            units_per_group: to_u32(self.slots.value()),
        };
        let pool = VictimIndex::new(&shape);
        let die = Die {
            told_at: pool.told_at(),
            free: FreeList::new(self.config.levels_by_wear()),
            frontiers: vec![frontier; self.config.frontier_count()],
            pools: vec![pool; self.config.stream_share_ppm.len().max(1)],
            emptied: Vec::new(),
            held: vec![0; usize::from(self.config.stream_count)],
            pace: Pace::NONE,
            last_erase: Ticket::READY,
            live: 0,
            usable: 0,
            erases_since_levelling: 0,
        };
        self.dies = vec![die; to_index(die_count)];
        self.work_ns = vec![0; to_index(die_count)];
        for group in 0..to_u32(self.groups.len() as u64) {
            let is_good = self.condition(nand, group) == Condition::Good;
            let state = if is_good { State::Free } else { State::Bad };
            self.groups[group as usize] = Group { valid: 0, state, stream: 0 };
            if is_good {
                let (die, first) = (self.die_of(group), self.first_block(nand, group));
                self.dies[die].free.push(group, nand.erase_count(first));
            }
        }
        let aside = self.groups_aside();
        for die in &mut self.dies {
            die.usable = (die.free.len() as u64).saturating_sub(aside) * self.group_capacity;
        }
        self.total_usable = self.dies.iter().map(|die| die.usable).sum();
    }
}

/// The dies in the order in which they follow each other.
fn die_order(order: DieOrder, geometry: &Geometry) -> Vec<usize> {
    let channels = geometry.channel_count as usize;
    let dies = geometry.die_count() as usize;
    match order {
        DieOrder::ChannelFirst => (0..dies).collect(),
        DieOrder::WayFirst => {
            (0..channels).flat_map(|channel| (channel..dies).step_by(channels)).collect()
        }
    }
}

impl Ftl for PageFtl {
    fn unit_bytes(&self) -> u32 {
        self.unit_bytes
    }

    fn unit_count(&self) -> u64 {
        self.map.len() as u64
    }

    fn read(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        lpn: Lpn,
        bytes: u32,
    ) -> Result<ReadOutcome, FtlError> {
        check_range(lpn, 1, self.unit_count())?;
        self.host_read_units += 1;
        let address = self.map[to_index(lpn.0)];
        if address == UNMAPPED || self.waiting(address).is_some() {
            return Ok(ReadOutcome { done: after, content: self.peek(nand, lpn) });
        }
        let (page, unit) = self.place(nand, address);
        let done = nand.read(after, page, bytes.min(self.unit_bytes), Cause::Host)?;
        Ok(ReadOutcome { done, content: nand.content(page, unit) })
    }

    fn peek(&self, nand: &NandArray, lpn: Lpn) -> Content {
        let address = *self.map.get(to_index(lpn.0))?;
        if address == UNMAPPED {
            return None;
        }
        if let Some(content) = self.waiting(address) {
            return content;
        }
        let (page, unit) = self.place(nand, address);
        nand.content(page, unit)
    }

    fn write(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        lpn: Lpn,
        content: Content,
    ) -> Result<Ticket, FtlError> {
        self.write_to_stream(nand, after, lpn, content, 0)
    }

    fn write_to_stream(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        lpn: Lpn,
        content: Content,
        stream: u8,
    ) -> Result<Ticket, FtlError> {
        check_range(lpn, 1, self.unit_count())?;
        let stream = self.stream_of(stream);
        let done = self.append(nand, after, stream, (to_u32(lpn.0), content))?;
        self.host_write_units += 1;
        if self.sequence >= self.metadata.checkpoint_at {
            // Not behind this write, which may wait for the row that the checkpoint programs.
            self.checkpoint_if_it_fits(nand, after)?;
        }
        Ok(done)
    }

    fn write_in_turn(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        lpns: &[Lpn],
        stream: u8,
        done: &mut Vec<Ticket>,
    ) -> Result<(), FtlError> {
        let frontier = self.stream_of(stream);
        let (mut after, mut rest) = (after, lpns);
        while let Some((&first, others)) = rest.split_first() {
            let count = self.run_length(nand, rest, frontier);
            if count < 2 {
                after = self.write_to_stream(nand, after, first, None, stream)?;
                done.push(after);
                rest = others;
            } else {
                after = self.append_run(nand, after, frontier, &rest[..count], done)?;
                rest = &rest[count..];
            }
        }
        Ok(())
    }

    fn touch(&self, nand: &NandArray, read: &[Lpn], written: &[Lpn]) {
        let mut seen = 0_u64;
        for lpn in read {
            seen ^= u64::from(self.map.get(to_index(lpn.0)).copied().unwrap_or(UNMAPPED));
        }
        for lpn in written {
            let address = self.map.get(to_index(lpn.0)).copied().unwrap_or(UNMAPPED);
            if address != UNMAPPED {
                let group = to_index(self.slots.div_rem(u64::from(address)).0);
                seen ^= self.valid.word(address) ^ u64::from(self.groups[group].valid);
                if !nand.is_single_server() {
                    seen ^= u64::from(self.superseded_by[group] == Ticket::READY);
                }
            }
        }
        std::hint::black_box(seen);
    }

    fn trim(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        first: Lpn,
        count: u64,
    ) -> Result<Ticket, FtlError> {
        check_range(first, count, self.unit_count())?;
        let after = self.prepare_trim(nand, after)?;
        for lpn in first.0..first.0 + count {
            self.unmap(lpn);
        }
        self.note_trim(nand, after, (first.0, count))
    }

    fn flush(&mut self, nand: &mut NandArray, after: Ticket) -> Result<Ticket, FtlError> {
        // Units that were acknowledged while they waited may still be on their way to the cells.
        let mut done = self.gathered.and(nand, after);
        for die in 0..self.dies.len() {
            for stream in 0..usize::from(self.config.stream_count) {
                if !self.dies[die].frontiers[stream].lpns.is_empty() {
                    let one = self.program(nand, after, (die, stream), Cause::Host)?;
                    nand.gather(&mut done, one);
                    self.follow_row(nand, die)?;
                }
            }
        }
        let one = self.write_trims(nand, after)?;
        nand.gather(&mut done, one);
        self.complete_pairs(nand, done)
    }

    fn complete_rows(&mut self, nand: &mut NandArray) -> Result<bool, FtlError> {
        let host_count = usize::from(self.config.stream_count);
        let frontier_count = self.config.frontier_count();
        // Rows of copies only where none of the host holds anything up: nobody else waits for them.
        for frontiers in [0..host_count, host_count..frontier_count] {
            let mut any = false;
            for die in 0..self.dies.len() {
                for index in frontiers.clone() {
                    if !self.dies[die].frontiers[index].lpns.is_empty() {
                        let cause = self.cause_of(index);
                        self.program(nand, Ticket::READY, (die, index), cause)?;
                        if index < host_count {
                            self.follow_row(nand, die)?;
                        }
                        any = true;
                    }
                }
            }
            if any {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn idle(&mut self, nand: &mut NandArray, now: Nanos, until: Nanos) {
        let wanted = (self.config.reserve_count + self.config.idle_clean_count) as usize;
        if self.config.idle_clean_count == 0 {
            return;
        }
        let mut time = now;
        let mut rests = vec![false; self.dies.len()];
        // Dies work side by side, a step of each at a time.
        while time < until && rests.contains(&false) {
            let start = nand.at(time);
            let mut done = start;
            for (die, rests) in rests.iter_mut().enumerate() {
                if *rests || self.dies[die].free.len() >= wanted {
                    *rests = true;
                    continue;
                }
                // An error here means that cleaning found nothing to gain. Idle time ends for this
                // die; the next write that needs space reports it.
                match self.level_and_clean_one(nand, start, die) {
                    Ok(step) => nand.gather(&mut done, step),
                    Err(_) => *rests = true,
                }
            }
            time = nand.finish_by(done, until);
        }
        // A victim whose last copies wait gives its space back only with the next one.
        let start = nand.at(time);
        for die in 0..self.dies.len() {
            let _ = self.clean(nand, start, die, None);
        }
    }

    fn initialise_sequential(&mut self, nand: &mut NandArray) -> Result<(), FtlError> {
        self.initialise(nand, |ftl, nand| {
            (0..ftl.unit_count()).try_for_each(|lpn| {
                ftl.write(nand, Ticket::READY, Lpn(lpn), None)?;
                Ok(())
            })
        })
    }

    fn initialise_steady(&mut self, nand: &mut NandArray, seed: u64) -> Result<(), FtlError> {
        self.initialise(nand, |ftl, nand| ftl.fill_as_after_random_writes(nand, seed))
    }

    fn stream_count(&self) -> u8 {
        self.config.stream_count
    }

    fn initialise_by_stream(
        &mut self,
        nand: &mut NandArray,
        streams: &[u8],
    ) -> Result<(), FtlError> {
        assert_eq!(streams.len() as u64, self.unit_count(), "every unit has a stream");
        self.initialise(nand, |ftl, nand| {
            (0..).zip(streams).try_for_each(|(lpn, &stream)| {
                ftl.write_to_stream(nand, Ticket::READY, Lpn(lpn), None, stream)?;
                Ok(())
            })
        })
    }

    fn stream_holds(&self) -> Vec<StreamHold> {
        let group_count = self.groups.len() as u64;
        let held = |stream: usize| self.dies.iter().map(|die| die.held[stream]).sum::<u64>();
        let shares = self.config.stream_share_ppm.iter().enumerate();
        let hold = |(stream, &share_ppm)| {
            let held_ppm = to_u32(held(stream) * 1_000_000 / group_count);
            StreamHold { held_ppm, share_ppm }
        };
        shares.map(hold).collect()
    }

    fn recover(&mut self, nand: &mut NandArray, after: Ticket) -> Result<Ticket, FtlError> {
        self.rebuild(nand, after)
    }

    fn host_pages(&self) -> (u64, u64) {
        let units = u64::from(self.units_per_page);
        (self.host_read_units.div_ceil(units), self.host_write_units.div_ceil(units))
    }

    fn padded_units(&self) -> u64 {
        self.padded_units
    }

    fn map_bytes(&self) -> u64 {
        self.map.len() as u64 * 4
    }

    fn memory_bytes(&self) -> u64 {
        let groups = size_of_val(&self.groups[..]) + size_of_val(&self.superseded_by[..]);
        self.map_bytes() + self.valid.memory_bytes() + groups as u64
    }

    fn audit(&self, nand: &NandArray) {
        let mut mapped = 0_u64;
        for (lpn, &address) in (0_u32..).zip(&self.map) {
            if address == UNMAPPED {
                continue;
            }
            mapped += 1;
            assert!(self.valid.get(address), "invariant 1: unit {lpn} is valid where mapped");
            if self.waiting(address).is_some() {
                continue;
            }
            let (page, unit) = self.place(nand, address);
            let spare = nand.spare(page).expect("invariant 1: a mapped unit is programmed");
            assert_eq!(spare.lpns[unit as usize], lpn, "invariant 1: the tag names the unit");
        }
        let counts = (self.valid.count(), self.total_live);
        assert_eq!(counts, (mapped, mapped), "invariant 1: the map is injective");
        let slots = to_u32(self.slots.value());
        for (number, group) in (0_u32..).zip(&self.groups) {
            let valid = self.valid.count_range(number * slots, (number + 1) * slots);
            assert_eq!(group.valid, valid, "invariant 2: group {number}");
            let live_is_held =
                matches!(group.state, State::Open | State::Closed | State::Victim | State::Bad);
            assert!(live_is_held || valid == 0, "invariant 2: group {number} holds nothing");
        }
        self.audit_metadata();
        for (number, die) in self.dies.iter().enumerate() {
            let own = |state| {
                let of_die = self.groups.iter().skip(number).step_by(self.dies.len());
                of_die.filter(|group| group.state == state).count()
            };
            assert_eq!(own(State::Free), die.free.len(), "the free list holds the free groups");
            let closed: usize = die.pools.iter().map(|pool| pool.groups().len()).sum();
            assert_eq!(own(State::Closed), closed, "all closed are victims");
            assert_eq!(own(State::Emptied), die.emptied.len(), "invariant 4: none is forgotten");
            let victims = usize::from(die.pace.victim != NO_GROUP);
            assert_eq!(own(State::Victim), victims, "one victim at a time");
            if own(State::Bad) == 0 {
                // Paced copies may take the group that is kept for them: their victim, or one that waits for
                // its last row, gives it back.
                let gives_back = match die.pace.victim {
                    NO_GROUP => self.is_paced && !die.emptied.is_empty(),
                    victim => {
                        let place = (number, self.cleaning_frontier(victim));
                        u64::from(self.groups[victim as usize].valid) <= self.room(nand, place)
                    }
                };
                let least = if self.is_paced { 1 } else { self.floor(nand) };
                let is_reserve_kept = die.free.len() >= least || gives_back;
                assert!(is_reserve_kept, "invariant 3: die {number} keeps its reserve");
            }
        }
    }
}
