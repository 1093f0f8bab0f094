//! Page mapping with cleaning: any unit may lie anywhere (S000 section 2.2, flash reference 2.1).
//!
//! A group is what is allocated, cleaned and erased: one erase block, or with `multi_plane` the erase
//! blocks of one (die, row), programmed together. Unit address = group * slots + page * width + slot,
//! where width = planes of a group * units of a flash page; width 1 is the classic page map.
//!
//! ```text
//! write ─▶ host frontier of the next die ──┐            per die: free list, host frontier,
//!           (open page until it is full)   ├─▶ group    cleaning frontier, victim index
//! clean ─▶ cleaning frontier of that die ──┘   Free ─▶ Open ─▶ Closed ─▶ (victim) ─▶ Free
//! ```
//!
//! 1. The map is injective; a unit's bit is set exactly where the map points (I1).
//! 2. A group's valid count is the number of its set bits; all counts sum up to the mapped units (I2, I3).
//! 3. After every call each die has at least its reserve of free groups, as long as none wears out (I5).
//! 4. A victim is erased only after its copies are programmed, and no host unit waits in an open page
//!    then, so a power cut finds the old or the new data of every unit.
//! 5. Space is allocated before the old copy is invalidated: cleaning may move that copy.
//!
//! Dies take turns page by page; one that holds more than its share of live data is passed over, so
//! that no die fills up while others have room.

mod recovery;

use crate::contract::check_range;
use crate::victim::VictimIndex;
use crate::{Ftl, FtlError, ReadOutcome, VictimPolicy};
use nandu_base::{Cause, Lpn, Nanos, Ppn, Rng, to_index, to_u32};
use nandu_nand::{Content, Divisor, Geometry, NO_LPN, NandArray, NandError, Payload};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

const UNMAPPED: u32 = u32::MAX;
const NO_GROUP: u32 = u32::MAX;

/// Parameters of [`PageFtl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PageConfig {
    /// Bytes of a unit, a power of two up to the flash page; the flash page where absent.
    pub unit_bytes: Option<u32>,
    /// How victims are chosen.
    pub victim: VictimPolicy,
    /// Free groups that every die keeps after a call, 1 or more; cleaning works with them.
    pub reserve_count: u32,
    /// Free groups above the reserve that cleaning in idle time aims at; 0 = none.
    pub idle_clean_count: u32,
    /// Whether the planes of a die are programmed and erased together.
    pub multi_plane: bool,
}

impl Default for PageConfig {
    fn default() -> Self {
        Self {
            unit_bytes: None,
            victim: VictimPolicy::Greedy,
            reserve_count: 2,
            idle_clean_count: 0,
            multi_plane: true,
        }
    }
}

impl PageConfig {
    /// Erase blocks of a plane that the reserve and the two frontiers of a die take.
    pub(crate) fn kept_aside(&self, shape: &Geometry) -> u32 {
        let groups = self.reserve_count.saturating_add(2);
        if self.multi_plane { groups } else { groups.div_ceil(shape.planes_per_die.max(1)) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Open,
    Closed,
    Bad,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    valid: u32,
    state: State,
}

/// Where the next page goes, and the units that wait for it to fill.
#[derive(Clone, Debug)]
struct Frontier {
    group: u32,
    next_page: u32,
    lpns: Vec<u32>,
    contents: Vec<Content>,
}

#[derive(Clone, Debug)]
struct Die {
    free: VecDeque<u32>,
    host: Frontier,
    cleaning: Frontier,
    victims: VictimIndex,
    live: u64,
    usable: u64,
}

/// A page-mapping layer.
#[derive(Clone, Debug)]
pub struct PageFtl {
    config: PageConfig,
    unit_bytes: u32,
    units_per_page: u32,
    planes: u32,
    width: u32,
    pages: u32,
    die_count: u32,
    slots: Divisor,
    map: Vec<u32>,
    valid_bits: Vec<u64>,
    groups: Vec<Group>,
    dies: Vec<Die>,
    next_die: usize,
    total_live: u64,
    total_usable: u64,
    sequence: u64,
    /// When everything that was programmed so far is durable (invariant 4 at queue depth above 1).
    durable_at: Nanos,
    host_read_units: u64,
    host_write_units: u64,
    padded_units: u64,
    scratch: Vec<(u32, Content)>,
    rng: Rng,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Host,
    Cleaning,
}

impl PageFtl {
    /// A layer of `unit_count` units over a fresh `nand`.
    ///
    /// # Errors
    /// [`FtlError::Configuration`] if the unit does not fit the flash page, the array's spare areas are
    /// laid out for another unit, or reserve and frontiers leave less than `unit_count` units.
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
        if u64::from(unit_bytes) * u64::from(units_per_page) != u64::from(geometry.flash_page_bytes)
        {
            return fail(format!(
                "ftl: {units_per_page} units of {unit_bytes} bytes do not fill a flash page of {} bytes",
                geometry.flash_page_bytes
            ));
        }
        if config.reserve_count == 0 {
            return fail("ftl: reserve_count is 0, must be at least 1: cleaning needs room".into());
        }
        let planes = if config.multi_plane { geometry.planes_per_die } else { 1 };
        let width = units_per_page * planes;
        let slots = u64::from(geometry.flash_pages_per_erase_block) * u64::from(width);
        let group_count = geometry.erase_block_count() / planes;
        let address_count = slots * u64::from(group_count);
        if address_count >= u64::from(NO_LPN) || unit_count >= u64::from(NO_LPN) {
            return fail(format!(
                "ftl: {address_count} units are past 32-bit addresses; enlarge them"
            ));
        }
        let mut ftl = Self {
            config: *config,
            unit_bytes,
            units_per_page,
            planes,
            width,
            pages: geometry.flash_pages_per_erase_block,
            die_count: geometry.die_count(),
            slots: Divisor::new(slots),
            map: vec![UNMAPPED; to_index(unit_count)],
            valid_bits: vec![0; to_index(address_count.div_ceil(64))],
            groups: vec![Group { valid: 0, state: State::Free }; group_count as usize],
            dies: Vec::new(),
            next_die: 0,
            total_live: 0,
            total_usable: 0,
            sequence: 0,
            durable_at: Nanos::ZERO,
            host_read_units: 0,
            host_write_units: 0,
            padded_units: 0,
            scratch: Vec::new(),
            rng: Rng::for_part(seed, "victim"),
        };
        ftl.reset(nand);
        for die in &mut ftl.dies {
            let aside = u64::from(config.reserve_count) + 2;
            let kept = u64::from(to_u32(die.free.len() as u64)).saturating_sub(aside);
            // Padding may waste a page's width when a victim's copies end inside one.
            die.usable = kept * (slots - u64::from(width - 1));
        }
        ftl.total_usable = ftl.dies.iter().map(|die| die.usable).sum();
        if unit_count > ftl.total_usable || unit_count == 0 {
            return fail(format!(
                "ftl: {unit_count} units asked for, but {} fit beside reserve and frontiers",
                ftl.total_usable
            ));
        }
        Ok(ftl)
    }

    /// Slots that were programmed without a unit, because a page had to go out before it was full.
    #[must_use]
    pub const fn padded_units(&self) -> u64 {
        self.padded_units
    }

    /// Everything in memory as on a device where all good groups are erased.
    fn reset(&mut self, nand: &NandArray) {
        self.map.fill(UNMAPPED);
        self.valid_bits.fill(0);
        (self.total_live, self.next_die) = (0, 0);
        let frontier = Frontier {
            group: NO_GROUP,
            next_page: 0,
            lpns: Vec::with_capacity(self.width as usize),
            contents: Vec::new(),
        };
        let groups_per_die = to_u32(self.groups.len() as u64) / self.die_count;
        let usable: Vec<u64> = self.dies.iter().map(|die| die.usable).collect();
        self.dies = (0..self.die_count as usize)
            .map(|die| Die {
                free: VecDeque::new(),
                host: frontier.clone(),
                cleaning: frontier.clone(),
                victims: VictimIndex::new(
                    self.config.victim,
                    groups_per_die,
                    to_u32(self.slots.value()),
                ),
                live: 0,
                usable: usable.get(die).copied().unwrap_or(0),
            })
            .collect();
        for group in 0..to_u32(self.groups.len() as u64) {
            let bad = (0..self.planes)
                .any(|plane| nand.is_bad(self.first_block(nand, group) + plane * self.die_count));
            let state = if bad { State::Bad } else { State::Free };
            self.groups[group as usize] = Group { valid: 0, state };
            if !bad {
                self.dies[(group % self.die_count) as usize].free.push_back(group);
            }
        }
    }

    #[inline]
    fn first_block(&self, nand: &NandArray, group: u32) -> u32 {
        if self.planes == 1 {
            return group;
        }
        nand.geometry().erase_block_at(group % self.die_count, 0, group / self.die_count)
    }

    /// Flash page and unit inside it of an address.
    #[inline]
    fn place(&self, nand: &NandArray, address: u32) -> (Ppn, u32) {
        if self.width == 1 {
            return (Ppn(u64::from(address)), 0);
        }
        let (group, slot) = self.slots.div_rem(u64::from(address));
        let (page, slot) = (to_u32(slot) / self.width, to_u32(slot) % self.width);
        let (plane, unit) = (slot / self.units_per_page, slot % self.units_per_page);
        let block = self.first_block(nand, to_u32(group)) + plane * self.die_count;
        (nand.geometry().flash_page(block, page), unit)
    }

    #[inline]
    fn is_valid(&self, address: u32) -> bool {
        self.valid_bits[address as usize / 64] >> (address % 64) & 1 == 1
    }

    #[inline]
    fn set_valid(&mut self, address: u32, group: u32) {
        self.valid_bits[address as usize / 64] |= 1 << (address % 64);
        self.groups[group as usize].valid += 1;
        self.dies[(group % self.die_count) as usize].live += 1;
        self.total_live += 1;
    }

    #[inline]
    fn invalidate(&mut self, address: u32) {
        self.valid_bits[address as usize / 64] &= !(1 << (address % 64));
        let group = to_u32(self.slots.div_rem(u64::from(address)).0);
        let entry = &mut self.groups[group as usize];
        entry.valid -= 1;
        let (valid, state) = (entry.valid, entry.state);
        let die = &mut self.dies[(group % self.die_count) as usize];
        die.live -= 1;
        self.total_live -= 1;
        if state == State::Closed {
            die.victims.lowered(group / self.die_count, valid);
        }
    }

    /// Whether a unit waits in an open page, and what it holds.
    #[inline]
    fn waiting(&self, address: u32) -> Option<Content> {
        if self.width == 1 {
            return None;
        }
        let (group, slot) = self.slots.div_rem(u64::from(address));
        let (page, slot) = (to_u32(slot) / self.width, to_u32(slot) % self.width);
        let die = &self.dies[to_index(group) % self.die_count as usize];
        let here = |frontier: &&Frontier| {
            u64::from(frontier.group) == group
                && frontier.next_page == page
                && frontier.lpns.len() > slot as usize
        };
        let frontier = [&die.host, &die.cleaning].into_iter().find(here)?;
        Some(frontier.contents.get(slot as usize).cloned().flatten())
    }

    fn choose_die(&mut self) -> usize {
        let count = self.dies.len();
        if count == 1 {
            return 0;
        }
        let headroom = self.total_usable.saturating_sub(self.total_live);
        // A quarter of an even share may be missing before a die is passed over.
        for step in 0..count {
            let index = (self.next_die + step) % count;
            let die = &self.dies[index];
            let own = die.usable.saturating_sub(die.live) * count as u64;
            let waits = !die.host.lpns.is_empty();
            if waits || (own > 0 && own * 4 >= headroom * 3) {
                self.next_die = index;
                return index;
            }
        }
        self.next_die
    }

    fn frontier(&mut self, die: usize, stream: Stream) -> &mut Frontier {
        match stream {
            Stream::Host => &mut self.dies[die].host,
            Stream::Cleaning => &mut self.dies[die].cleaning,
        }
    }

    /// Makes sure that the frontier has a page; only the host's may have to wait for cleaning.
    fn open(
        &mut self,
        nand: &mut NandArray,
        now: Nanos,
        die: usize,
        stream: Stream,
    ) -> Result<Nanos, FtlError> {
        if self.frontier(die, stream).group != NO_GROUP {
            return Ok(now);
        }
        let mut now = now;
        if stream == Stream::Host {
            now = self.clean(nand, now, die, self.config.reserve_count as usize + 1)?;
        }
        let group = self.dies[die].free.pop_front().ok_or(FtlError::DeviceFull)?;
        self.groups[group as usize].state = State::Open;
        let frontier = self.frontier(die, stream);
        (frontier.group, frontier.next_page) = (group, 0);
        Ok(now)
    }

    /// Puts a unit behind the frontier, programs the page if that fills it, and moves the map.
    fn append(
        &mut self,
        nand: &mut NandArray,
        now: Nanos,
        (die, stream): (usize, Stream),
        (lpn, content): (u32, Content),
    ) -> Result<Nanos, FtlError> {
        let now = self.open(nand, now, die, stream)?;
        let (width, slots) = (self.width, to_u32(self.slots.value()));
        let keep = nand.config().keep_content;
        let frontier = self.frontier(die, stream);
        let group = frontier.group;
        let address =
            group * slots + frontier.next_page * width + to_u32(frontier.lpns.len() as u64);
        frontier.lpns.push(lpn);
        if keep {
            frontier.contents.push(content);
        }
        let full = frontier.lpns.len() == width as usize;
        let old = std::mem::replace(&mut self.map[lpn as usize], address);
        self.set_valid(address, group);
        if old != UNMAPPED {
            self.invalidate(old);
        }
        if full { self.program(nand, now, die, stream) } else { Ok(now) }
    }

    /// Programs the open page of a frontier, padded where it is not full.
    fn program(
        &mut self,
        nand: &mut NandArray,
        now: Nanos,
        die: usize,
        stream: Stream,
    ) -> Result<Nanos, FtlError> {
        let cause = if stream == Stream::Host { Cause::Host } else { Cause::Cleaning };
        self.sequence += 1;
        let (sequence, width, pages) = (self.sequence, self.width as usize, self.pages);
        let keep = nand.config().keep_content;
        let group = self.frontier(die, stream).group;
        let block = self.first_block(nand, group);
        let frontier = self.frontier(die, stream);
        let padding = width - frontier.lpns.len();
        frontier.lpns.resize(width, NO_LPN);
        if keep {
            frontier.contents.resize(width, None);
        }
        let page = nand.geometry().flash_page(block, frontier.next_page);
        let payload = Payload { lpns: &frontier.lpns, sequence, contents: &frontier.contents };
        let done = nand.program(now, page, payload, cause)?;
        frontier.lpns.clear();
        frontier.contents.clear();
        frontier.next_page += 1;
        if frontier.next_page == pages {
            frontier.group = NO_GROUP;
            self.close(group);
        }
        self.padded_units += padding as u64;
        self.durable_at = self.durable_at.max(done);
        if stream == Stream::Host && self.dies.len() > 1 {
            self.next_die = (die + 1) % self.dies.len();
        }
        Ok(done)
    }

    fn close(&mut self, group: u32) {
        let entry = &mut self.groups[group as usize];
        entry.state = State::Closed;
        let valid = entry.valid;
        let die = &mut self.dies[(group % self.die_count) as usize];
        die.victims.insert(group / self.die_count, valid);
    }

    /// Cleans until `die` has `wanted` free groups.
    fn clean(
        &mut self,
        nand: &mut NandArray,
        now: Nanos,
        die: usize,
        wanted: usize,
    ) -> Result<Nanos, FtlError> {
        let mut now = now;
        // A policy that is not greedy may pick full victims, but not for ever.
        let mut attempts = 2 * self.groups.len();
        while self.dies[die].free.len() < wanted {
            attempts = attempts.checked_sub(1).ok_or(FtlError::DeviceFull)?;
            now = self.clean_one(nand, now, die)?;
        }
        Ok(now)
    }

    fn clean_one(
        &mut self,
        nand: &mut NandArray,
        now: Nanos,
        die: usize,
    ) -> Result<Nanos, FtlError> {
        let local = self.dies[die].victims.take(&mut self.rng).ok_or(FtlError::DeviceFull)?;
        let victim = local * self.die_count + to_u32(die as u64);
        let slots = to_u32(self.slots.value());
        let valid = self.groups[victim as usize].valid;
        if self.config.victim == VictimPolicy::Greedy && valid == slots {
            self.dies[die].victims.insert(local, valid);
            return Err(FtlError::DeviceFull);
        }
        self.groups[victim as usize].state = State::Open;
        self.check_victim(nand, victim);
        let mut time = now;
        for page in 0..self.pages {
            if self.groups[victim as usize].valid == 0 {
                break;
            }
            time = self.move_page(nand, time, die, (victim, page))?;
        }
        if !self.dies[die].cleaning.lpns.is_empty() {
            time = self.program(nand, time, die, Stream::Cleaning)?;
        }
        let block = self.first_block(nand, victim);
        let time = time.max(self.durable_at);
        match nand.erase_planes(time, block, self.planes, Cause::Cleaning) {
            Ok(done) => {
                self.groups[victim as usize].state = State::Free;
                self.dies[die].free.push_back(victim);
                Ok(done)
            }
            Err(NandError::WornOut { .. }) => {
                self.groups[victim as usize].state = State::Bad;
                let lost = slots.into();
                self.dies[die].usable = self.dies[die].usable.saturating_sub(lost);
                self.total_usable = self.dies.iter().map(|die| die.usable).sum();
                Ok(time)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Asserts that the map points at every valid unit of a victim, before anything of it moves. The
    /// look-ups do not depend on each other, so their cache misses overlap, and the copies that
    /// follow find the map in the cache.
    fn check_victim(&self, nand: &NandArray, victim: u32) {
        let slots = to_u32(self.slots.value());
        let base = victim * slots;
        for address in (base..base + slots).filter(|&address| self.is_valid(address)) {
            let (page, unit) = self.place(nand, address);
            let lpn = nand.spare(page).map_or(NO_LPN, |spare| spare.lpns[unit as usize]);
            assert_eq!(self.map.get(lpn as usize), Some(&address), "invariant 1 of unit {lpn}");
        }
    }

    /// Copies the valid units of one page of a victim to the cleaning frontier.
    fn move_page(
        &mut self,
        nand: &mut NandArray,
        now: Nanos,
        die: usize,
        (victim, page): (u32, u32),
    ) -> Result<Nanos, FtlError> {
        let base = victim * to_u32(self.slots.value()) + page * self.width;
        let (mut mask, mut live) = (0_u32, 0);
        for slot in 0..self.width {
            if self.is_valid(base + slot) {
                mask |= 1 << (slot / self.units_per_page);
                live += 1;
            }
        }
        if live == 0 {
            return Ok(now);
        }
        let first = nand.geometry().flash_page(self.first_block(nand, victim), page);
        let mut time =
            nand.read_planes(now, first, mask, live * self.unit_bytes, Cause::Cleaning)?;
        let mut units = std::mem::take(&mut self.scratch);
        for slot in (0..self.width).filter(|slot| self.is_valid(base + slot)) {
            let (ppn, unit) = self.place(nand, base + slot);
            let spare = nand.spare(ppn).expect("a valid unit was programmed");
            units.push((spare.lpns[unit as usize], nand.content(ppn, unit)));
        }
        for unit in units.drain(..) {
            time = self.append(nand, time, (die, Stream::Cleaning), unit)?;
        }
        self.scratch = units;
        Ok(time)
    }

    fn unmap(&mut self, lpn: u64) {
        let old = std::mem::replace(&mut self.map[to_index(lpn)], UNMAPPED);
        if old != UNMAPPED {
            self.invalidate(old);
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
        now: Nanos,
        lpn: Lpn,
        bytes: u32,
    ) -> Result<ReadOutcome, FtlError> {
        check_range(lpn, 1, self.unit_count())?;
        self.host_read_units += 1;
        let address = self.map[to_index(lpn.0)];
        if address == UNMAPPED || self.waiting(address).is_some() {
            return Ok(ReadOutcome { done_at: now, content: self.peek(nand, lpn) });
        }
        let (page, unit) = self.place(nand, address);
        let done_at = nand.read(now, page, bytes.min(self.unit_bytes), Cause::Host)?;
        Ok(ReadOutcome { done_at, content: nand.content(page, unit) })
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
        now: Nanos,
        lpn: Lpn,
        content: Content,
    ) -> Result<Nanos, FtlError> {
        check_range(lpn, 1, self.unit_count())?;
        let die = self.choose_die();
        let done = self.append(nand, now, (die, Stream::Host), (to_u32(lpn.0), content))?;
        self.host_write_units += 1;
        Ok(done)
    }

    fn trim(
        &mut self,
        _nand: &mut NandArray,
        now: Nanos,
        first: Lpn,
        count: u64,
    ) -> Result<Nanos, FtlError> {
        check_range(first, count, self.unit_count())?;
        for lpn in first.0..first.0 + count {
            self.unmap(lpn);
        }
        Ok(now)
    }

    fn flush(&mut self, nand: &mut NandArray, now: Nanos) -> Result<Nanos, FtlError> {
        let mut done = now;
        for die in 0..self.dies.len() {
            if !self.dies[die].host.lpns.is_empty() {
                done = done.max(self.program(nand, now, die, Stream::Host)?);
            }
        }
        Ok(done)
    }

    fn idle(&mut self, nand: &mut NandArray, now: Nanos, until: Nanos) {
        let wanted = (self.config.reserve_count + self.config.idle_clean_count) as usize;
        if self.config.idle_clean_count == 0 || self.flush(nand, now).is_err() {
            return;
        }
        for die in 0..self.dies.len() {
            let mut time = now.max(nand.die_free_at(to_u32(die as u64)));
            while self.dies[die].free.len() < wanted && time < until {
                // A device without space to gain says so at the next write.
                let Ok(done) = self.clean_one(nand, time, die) else { break };
                time = done;
            }
        }
    }

    fn initialise_sequential(&mut self, nand: &mut NandArray) -> Result<(), FtlError> {
        if self.sequence > 0 || self.total_live > 0 {
            return Err(FtlError::NotFresh);
        }
        let accounting = nand.accounting();
        for lpn in 0..self.unit_count() {
            self.write(nand, Nanos::ZERO, Lpn(lpn), None)?;
        }
        self.flush(nand, Nanos::ZERO)?;
        nand.restore_accounting(accounting);
        self.durable_at = Nanos::ZERO;
        (self.host_write_units, self.padded_units) = (0, 0);
        Ok(())
    }

    fn recover(&mut self, nand: &mut NandArray, now: Nanos) -> Result<Nanos, FtlError> {
        self.rebuild(nand, now)
    }

    fn host_pages(&self) -> (u64, u64) {
        let units = u64::from(self.units_per_page);
        (self.host_read_units.div_ceil(units), self.host_write_units.div_ceil(units))
    }

    fn map_bytes(&self) -> u64 {
        self.map.len() as u64 * 4
    }

    fn audit(&self, nand: &NandArray) {
        let mut mapped = 0_u64;
        for (lpn, &address) in (0_u32..).zip(&self.map) {
            if address == UNMAPPED {
                continue;
            }
            mapped += 1;
            assert!(self.is_valid(address), "invariant 1: unit {lpn} is valid where mapped");
            if self.waiting(address).is_some() {
                continue;
            }
            let (page, unit) = self.place(nand, address);
            let spare = nand.spare(page).expect("invariant 1: a mapped unit is programmed");
            assert_eq!(spare.lpns[unit as usize], lpn, "invariant 1: the tag names the unit");
        }
        let bits: u64 = self.valid_bits.iter().map(|word| u64::from(word.count_ones())).sum();
        assert_eq!((bits, self.total_live), (mapped, mapped), "invariant 1: the map is injective");
        let slots = to_u32(self.slots.value());
        for (number, group) in (0_u32..).zip(&self.groups) {
            let valid = (0..slots).filter(|slot| self.is_valid(number * slots + slot)).count();
            assert_eq!(group.valid as usize, valid, "invariant 2: group {number}");
        }
        for (number, die) in (0_u32..).zip(&self.dies) {
            let own = |state| {
                let of_die = self.groups.iter().skip(number as usize).step_by(self.dies.len());
                of_die.filter(|group| group.state == state).count()
            };
            assert_eq!(own(State::Free), die.free.len(), "the free list holds the free groups");
            assert_eq!(own(State::Closed), die.victims.groups().len(), "all closed are victims");
            if own(State::Bad) == 0 {
                let reserve = self.config.reserve_count as usize;
                assert!(die.free.len() >= reserve, "invariant 3: die {number} keeps its reserve");
            }
        }
    }
}
