//! The chip array: cells, laws and commands (flash reference 1.1).
//!
//! 1. A refused command changes nothing, except that the erase that finds a block worn out marks it.
//! 2. Below `next_page` every flash page is programmed or was skipped; from it on all are erased
//!    (ascending order).
//! 3. Every command adds to one counter cell; a multi-plane command adds one for each plane.
//! 4. An erased flash page has erased tags and no content.

use crate::timeline::{Span, Timeline};
use crate::{Divisor, Energy, Geometry, NandError, ProgramOrder, Rules, Timing};
use nandu_base::{
    Cause, FixedHashMap, FlashCounters, FlashOperation, Nanos, Picojoules, Ppn, Rng, WearSummary,
    to_index, to_u32,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What one unit holds, where the array keeps content.
pub type Content = Option<Arc<[u8]>>;

/// Tag of a unit of an erased flash page.
pub const ERASED_TAG: u32 = u32::MAX;
/// Tag of a programmed unit that belongs to no logical page: padding and metadata.
pub const NO_LPN: u32 = u32::MAX - 1;

/// Everything that makes an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NandConfig {
    /// Its shape.
    pub geometry: Geometry,
    /// Its times.
    pub timing: Timing,
    /// Its energy.
    #[serde(default)]
    pub energy: Energy,
    /// Its laws.
    #[serde(default)]
    pub rules: Rules,
    /// Logical units that share a flash page, each with a tag in the spare area; a power of two.
    #[serde(default = "one")]
    pub units_per_flash_page: u32,
    /// Whether content is kept, so that reads return what was written.
    #[serde(default)]
    pub keep_content: bool,
    /// Whether unfinished commands are remembered, so that [`NandArray::power_cut`] can undo them.
    #[serde(default)]
    pub power_cut_journal: bool,
}

const fn one() -> u32 {
    1
}

/// What a program carries: one tag per unit, one or more planes' worth.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    /// Logical page of every unit, or [`NO_LPN`]; `units_per_flash_page` for each plane.
    pub lpns: &'a [u32],
    /// Sequence number of the program, rising inside an erase block.
    pub sequence: u64,
    /// Content of every unit, or empty.
    pub contents: &'a [Content],
}

/// The spare area of a programmed flash page, which every read of the page delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpareView<'a> {
    /// Logical page of every unit, or [`NO_LPN`].
    pub lpns: &'a [u32],
    /// Sequence number of the program.
    pub sequence: u64,
}

/// Clocks and counters of an array, apart from its cells: see [`NandArray::accounting`].
#[derive(Clone, Debug)]
pub struct Accounting {
    counters: FlashCounters,
    timeline: Timeline,
    energy: Picojoules,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EraseBlock {
    pub(crate) first_sequence: u64,
    pub(crate) erase_count: u32,
    pub(crate) next_page: u32,
    pub(crate) bad: bool,
    pub(crate) torn: bool,
}

/// What a power cut needs to know of a command.
#[derive(Clone, Debug)]
pub(crate) struct JournalEntry {
    pub(crate) span: Span,
    pub(crate) erase_block: u32,
    pub(crate) before: EraseBlock,
    /// The programmed index, or none for an erase.
    pub(crate) page: Option<u32>,
    /// Tags, sequences, contents and torn pages before an erase.
    pub(crate) saved: Option<Box<SavedBlock>>,
}

#[derive(Clone, Debug)]
pub(crate) struct SavedBlock {
    pub(crate) tags: Vec<u32>,
    pub(crate) sequences: Vec<u32>,
    pub(crate) contents: Vec<(u64, Arc<[u8]>)>,
    pub(crate) torn: Vec<u64>,
}

/// A chip array.
#[derive(Clone, Debug)]
pub struct NandArray {
    pub(crate) config: NandConfig,
    pub(crate) units: usize,
    pages: Divisor,
    dies: Divisor,
    channels: Divisor,
    full_transfer_ns: u64,
    pub(crate) blocks: Vec<EraseBlock>,
    pub(crate) tags: Vec<u32>,
    pub(crate) sequences: Vec<u32>,
    pub(crate) program_counts: Vec<u8>,
    pub(crate) contents: FixedHashMap<u64, Arc<[u8]>>,
    pub(crate) torn_pages: std::collections::BTreeSet<u64>,
    pub(crate) journal: Vec<JournalEntry>,
    pub(crate) timeline: Timeline,
    counters: FlashCounters,
    energy: Picojoules,
}

impl NandArray {
    /// An erased array.
    ///
    /// # Errors
    /// [`NandError::Configuration`] names the field that cannot be.
    pub fn new(config: NandConfig) -> Result<Self, NandError> {
        let geometry = config.geometry;
        geometry.validate()?;
        config.rules.validate()?;
        let units = config.units_per_flash_page;
        if !units.is_power_of_two() || units > geometry.flash_page_bytes {
            let text = format!(
                "units_per_flash_page is {units}, must be a power of two up to flash_page_bytes"
            );
            return Err(NandError::Configuration(text));
        }
        let page_count = to_index(geometry.flash_page_count());
        let counted = config.rules.programs_per_erase > 1;
        let bus_bytes = geometry.bus_bytes(geometry.flash_page_bytes);
        let mut rng = Rng::new(config.rules.factory_bad_seed);
        let mut block = || EraseBlock {
            bad: config.rules.factory_bad_ppm > 0 && rng.chance_ppm(config.rules.factory_bad_ppm),
            ..EraseBlock::default()
        };
        Ok(Self {
            config,
            units: units as usize,
            pages: Divisor::new(u64::from(geometry.flash_pages_per_erase_block)),
            dies: Divisor::new(u64::from(geometry.die_count())),
            channels: Divisor::new(u64::from(geometry.channel_count)),
            full_transfer_ns: Nanos::of_transfer(bus_bytes, config.timing.bus_bytes_per_second).0,
            blocks: (0..geometry.erase_block_count()).map(|_| block()).collect(),
            tags: vec![ERASED_TAG; geometry.page_slots(units)],
            sequences: vec![0; page_count],
            program_counts: vec![0; if counted { page_count } else { 0 }],
            contents: FixedHashMap::default(),
            torn_pages: std::collections::BTreeSet::new(),
            journal: Vec::new(),
            timeline: Timeline::new(
                geometry.die_count() as usize,
                geometry.channel_count as usize,
                config.timing.cache_register,
            ),
            counters: FlashCounters::default(),
            energy: Picojoules::ZERO,
        })
    }

    /// What it was built from.
    #[must_use]
    pub const fn config(&self) -> &NandConfig {
        &self.config
    }

    /// Its shape.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.config.geometry
    }

    /// Commands so far, by operation and cause.
    #[must_use]
    pub const fn counters(&self) -> &FlashCounters {
        &self.counters
    }

    /// For the translation layer, which counts the host's pages.
    pub const fn counters_mut(&mut self) -> &mut FlashCounters {
        &mut self.counters
    }

    /// Energy of all commands so far.
    #[must_use]
    pub const fn energy(&self) -> Picojoules {
        self.energy
    }

    /// Time that dies were busy, summed over the dies.
    #[must_use]
    pub fn busy(&self) -> Nanos {
        self.timeline.busy()
    }

    /// When everything that was issued so far is done.
    #[must_use]
    pub fn idle_at(&self) -> Nanos {
        self.timeline.all_free_at()
    }

    /// When `die` can start its next command.
    #[must_use]
    pub fn die_free_at(&self, die: u32) -> Nanos {
        self.timeline.die_free_at(die as usize)
    }

    /// Clocks and counters as they are, to be put back after a preparation that takes no time.
    #[must_use]
    pub fn accounting(&self) -> Accounting {
        Accounting { counters: self.counters, timeline: self.timeline.clone(), energy: self.energy }
    }

    /// Puts clocks and counters back; cells and wear stay, and nothing counts as unfinished.
    pub fn restore_accounting(&mut self, accounting: Accounting) {
        self.counters = accounting.counters;
        self.timeline = accounting.timeline;
        self.energy = accounting.energy;
        self.journal.clear();
    }

    /// Whether an erase block may not be used.
    #[must_use]
    pub fn is_bad(&self, erase_block: u32) -> bool {
        self.blocks[erase_block as usize].bad
    }

    /// How often an erase block was erased.
    #[must_use]
    pub fn erase_count(&self, erase_block: u32) -> u32 {
        self.blocks[erase_block as usize].erase_count
    }

    /// Wear over all erase blocks; takes time in proportion to them.
    #[must_use]
    pub fn wear(&self) -> WearSummary {
        let counts = || self.blocks.iter().map(|block| u64::from(block.erase_count));
        WearSummary {
            erase_count_min: counts().min().unwrap_or(0),
            erase_count_sum: counts().sum(),
            erase_count_max: counts().max().unwrap_or(0),
            erase_block_count: self.blocks.len() as u64,
            bad_erase_block_count: self.blocks.iter().filter(|block| block.bad).count() as u64,
        }
    }

    /// The spare area that the last read of this flash page delivered; none where it is erased.
    #[inline]
    #[must_use]
    pub fn spare(&self, flash_page: Ppn) -> Option<SpareView<'_>> {
        let page = to_index(flash_page.0);
        let lpns = &self.tags[page * self.units..(page + 1) * self.units];
        let (block, _) = self.pages.div_rem(flash_page.0);
        let first = self.blocks[to_index(block)].first_sequence;
        let sequence = first + u64::from(self.sequences[page]);
        (lpns[0] != ERASED_TAG).then_some(SpareView { lpns, sequence })
    }

    /// Content of unit `unit` of the flash page that was last read.
    #[must_use]
    pub fn content(&self, flash_page: Ppn, unit: u32) -> Content {
        if !self.config.keep_content {
            return None;
        }
        self.contents.get(&(flash_page.0 * self.units as u64 + u64::from(unit))).cloned()
    }

    /// Reads `bytes` of one flash page; an erased one is legal.
    ///
    /// # Errors
    /// If the address is out of range, or the page or its erase block torn.
    #[inline]
    pub fn read(
        &mut self,
        now: Nanos,
        page: Ppn,
        bytes: u32,
        cause: Cause,
    ) -> Result<Nanos, NandError> {
        self.read_planes(now, page, 1, bytes, cause)
    }

    /// Reads the same index in several planes of a die in one array time. Bit `p` of `plane_mask`
    /// asks for the plane `p` after the one of `first`; `bytes` is the transfer of all together.
    ///
    /// # Errors
    /// If an address is out of range, or a page or its erase block torn.
    pub fn read_planes(
        &mut self,
        now: Nanos,
        first: Ppn,
        plane_mask: u32,
        bytes: u32,
        cause: Cause,
    ) -> Result<Nanos, NandError> {
        let planes = u64::from(plane_mask.count_ones());
        let die = self.check_planes(first, u32::BITS - plane_mask.leading_zeros())?;
        let page_bytes = self.config.geometry.flash_page_bytes;
        if u64::from(bytes) > u64::from(page_bytes) * planes {
            let count = u64::from(page_bytes) * planes;
            return Err(NandError::OutOfRange { what: "byte", index: u64::from(bytes), count });
        }
        let stride = self.plane_stride();
        let mut rest = plane_mask;
        while rest != 0 {
            self.check_torn(first.0 + u64::from(rest.trailing_zeros()) * stride)?;
            rest &= rest - 1;
        }
        let timing = &self.config.timing;
        let mut array = timing.command_ns.0 + timing.read_ns.0;
        // Neighbouring units of one flash page are sensed once: the page register still holds them.
        let shares_pages = self.config.units_per_flash_page > 1;
        if shares_pages && self.timeline.register_holds(die.0, first.0) {
            array = timing.command_ns.0;
        } else {
            self.counters.add(FlashOperation::Read, cause, planes);
        }
        let transfer = self.transfer_ns(bytes);
        let span = self.timeline.array_then_bus(die, now, array, transfer);
        if shares_pages {
            self.timeline.load_register(die.0, first.0);
        }
        self.spend(self.config.energy.read_picojoules, planes, bytes);
        Ok(span.end)
    }

    /// Reads the spare area alone; the array time is that of a read.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn spare_read(&mut self, now: Nanos, page: Ppn, cause: Cause) -> Result<Nanos, NandError> {
        let die = self.check_planes(page, 1)?;
        self.check_torn(page.0)?;
        let timing = &self.config.timing;
        let array = timing.command_ns.0 + timing.read_ns.0;
        let spare_bytes = u64::from(self.config.geometry.spare_bytes);
        let transfer = Nanos::of_transfer(spare_bytes, timing.bus_bytes_per_second).0;
        let span = self.timeline.array_then_bus(die, now, array, transfer);
        self.counters.count(FlashOperation::SpareRead, cause);
        self.spend(self.config.energy.read_picojoules, 1, self.config.geometry.spare_bytes);
        Ok(span.end)
    }

    /// Programs one flash page, or with a longer payload the same index of the planes that follow, in
    /// one array time.
    ///
    /// # Errors
    /// If a law forbids it or the payload does not fit.
    #[inline]
    pub fn program(
        &mut self,
        now: Nanos,
        first: Ppn,
        payload: Payload<'_>,
        cause: Cause,
    ) -> Result<Nanos, NandError> {
        let planes = payload.lpns.len() / self.units;
        if planes == 0 || planes * self.units != payload.lpns.len() {
            let units_per_flash_page = self.config.units_per_flash_page;
            let length = payload.lpns.len();
            return Err(NandError::PayloadLength { length, units_per_flash_page });
        }
        let planes = to_u32(planes as u64);
        let die = self.check_planes(first, planes)?;
        let stride = self.plane_stride();
        for plane in 0..planes {
            self.check_program(first.0 + u64::from(plane) * stride, payload.sequence)?;
        }
        let timing = &self.config.timing;
        let transfer = self.full_transfer_ns * u64::from(planes);
        let times = (timing.command_ns.0, transfer, timing.program_ns.0);
        let span = self.timeline.bus_then_array(die, now, times);
        for plane in 0..planes {
            let from = plane as usize * self.units;
            let contents = payload.contents.get(from..from + self.units).unwrap_or(&[]);
            let page = first.0 + u64::from(plane) * stride;
            self.store(
                span,
                page,
                &payload.lpns[from..from + self.units],
                payload.sequence,
                contents,
            );
        }
        self.counters.add(FlashOperation::Program, cause, u64::from(planes));
        let page_bytes = self.config.geometry.flash_page_bytes;
        self.spend(self.config.energy.program_picojoules, u64::from(planes), page_bytes * planes);
        Ok(span.end)
    }

    /// Programs a flash page again without an erase, at most `programs_per_erase` times in all; the
    /// caller merges old and new content, `bytes` cross the bus.
    ///
    /// # Errors
    /// If it was never programmed, or programmed too often.
    pub fn partial_program(
        &mut self,
        now: Nanos,
        page: Ppn,
        bytes: u32,
        content: Content,
        cause: Cause,
    ) -> Result<Nanos, NandError> {
        let die = self.check_planes(page, 1)?;
        self.check_torn(page.0)?;
        let index = to_index(page.0);
        if self.tags[index * self.units] == ERASED_TAG {
            return Err(NandError::NotProgrammed { flash_page: page.0 });
        }
        let limit = self.config.rules.programs_per_erase;
        match self.program_counts.get_mut(index) {
            Some(count) if *count < limit => *count += 1,
            _ => return Err(NandError::PartialProgramLimit { flash_page: page.0, limit }),
        }
        if let (true, Some(content)) = (self.config.keep_content, content) {
            self.contents.insert(page.0 * self.units as u64, content);
        }
        let timing = &self.config.timing;
        let times = (timing.command_ns.0, self.transfer_ns(bytes), timing.program_ns.0);
        let span = self.timeline.bus_then_array(die, now, times);
        self.counters.count(FlashOperation::PartialProgram, cause);
        self.spend(self.config.energy.program_picojoules, 1, bytes);
        Ok(span.end)
    }

    /// Moves a flash page inside its plane: array read and array program, nothing over the bus. The
    /// tags move along, the sequence number is new.
    ///
    /// # Errors
    /// If the planes differ or a law forbids the read or the program.
    pub fn copy_back(
        &mut self,
        now: Nanos,
        (from, to): (Ppn, Ppn),
        sequence: u64,
        cause: Cause,
    ) -> Result<Nanos, NandError> {
        let die = self.check_planes(from, 1)?;
        self.check_planes(to, 1)?;
        let stride = self.config.geometry.die_count() * self.config.geometry.planes_per_die;
        let blocks = [from, to].map(|page| to_u32(self.pages.div_rem(page.0).0));
        if blocks[0] % stride != blocks[1] % stride {
            return Err(NandError::DifferentPlane { from: from.0, to: to.0 });
        }
        self.check_torn(from.0)?;
        let Some(tags) = self.spare(from).map(|spare| spare.lpns.to_vec()) else {
            return Err(NandError::NotProgrammed { flash_page: from.0 });
        };
        self.check_program(to.0, sequence)?;
        let units = self.config.units_per_flash_page;
        let contents: Vec<Content> = match self.config.keep_content {
            true => (0..units).map(|unit| self.content(from, unit)).collect(),
            false => Vec::new(),
        };
        let timing = &self.config.timing;
        let array = timing.command_ns.0 + timing.read_ns.0 + timing.program_ns.0;
        let span = self.timeline.array_then_bus(die, now, array, 0);
        self.store(span, to.0, &tags, sequence, &contents);
        self.counters.count(FlashOperation::CopyBack, cause);
        self.spend(self.config.energy.read_picojoules, 1, 0);
        self.spend(self.config.energy.program_picojoules, 1, 0);
        Ok(span.end)
    }

    /// Erases one erase block.
    ///
    /// # Errors
    /// If it is bad, worn out (then it is bad from now on) or out of range.
    pub fn erase(&mut self, now: Nanos, block: u32, cause: Cause) -> Result<Nanos, NandError> {
        self.erase_planes(now, block, 1, cause)
    }

    /// Erases the erase blocks of `plane_count` planes of a row, from `first` on, in one array time.
    ///
    /// # Errors
    /// As [`Self::erase`]; none is erased then.
    pub fn erase_planes(
        &mut self,
        now: Nanos,
        first: u32,
        plane_count: u32,
        cause: Cause,
    ) -> Result<Nanos, NandError> {
        let die = self.check_planes(self.config.geometry.flash_page(first, 0), plane_count)?;
        let stride = self.config.geometry.die_count();
        let endurance = self.config.rules.endurance;
        for plane in 0..plane_count {
            let erase_block = first + plane * stride;
            let block = &mut self.blocks[erase_block as usize];
            if block.bad {
                return Err(NandError::BadEraseBlock { erase_block: u64::from(erase_block) });
            }
            if endurance > 0 && block.erase_count >= endurance {
                block.bad = true;
                let erase_block = u64::from(erase_block);
                return Err(NandError::WornOut { erase_block, endurance });
            }
        }
        let timing = &self.config.timing;
        let array = timing.command_ns.0 + timing.erase_ns.0;
        let span = self.timeline.array_then_bus(die, now, array, 0);
        for plane in 0..plane_count {
            self.clear(span, first + plane * stride);
        }
        self.counters.add(FlashOperation::Erase, cause, u64::from(plane_count));
        self.spend(self.config.energy.erase_picojoules, u64::from(plane_count), 0);
        Ok(span.end)
    }

    /// Asserts the numbered invariants of this file.
    ///
    /// # Panics
    /// If one is broken.
    pub fn audit(&self) {
        let pages = self.config.geometry.flash_pages_per_erase_block;
        for (number, block) in (0..).zip(&self.blocks) {
            assert!(block.next_page <= pages, "program pointer inside the erase block");
            for index in 0..pages {
                let page = to_index(self.config.geometry.flash_page(number, index).0);
                let tags = &self.tags[page * self.units..(page + 1) * self.units];
                let erased = tags.iter().filter(|&&tag| tag == ERASED_TAG).count();
                assert!(erased == 0 || erased == self.units, "a page is erased as a whole");
                if self.config.rules.program_order == ProgramOrder::Ascending {
                    assert!(index < block.next_page || erased > 0, "invariant 2");
                }
                for unit in 0..self.units {
                    let key = (page * self.units + unit) as u64;
                    assert!(erased == 0 || !self.contents.contains_key(&key), "invariant 4");
                }
            }
        }
    }

    /// Distance between the same index of neighbouring planes, in flash pages.
    #[inline]
    fn plane_stride(&self) -> u64 {
        self.dies.value() * self.pages.value()
    }

    /// Checks `plane_count` planes from the flash page on; answers its die and channel.
    #[inline]
    fn check_planes(&self, page: Ppn, planes: u32) -> Result<(usize, usize), NandError> {
        let count = self.config.geometry.flash_page_count();
        if page.0 >= count {
            return Err(NandError::OutOfRange { what: "flash page", index: page.0, count });
        }
        let (block, _) = self.pages.div_rem(page.0);
        let (in_die, die) = self.dies.div_rem(block);
        if planes != 1 {
            let plane = in_die % u64::from(self.config.geometry.planes_per_die);
            let (index, count) = (plane + u64::from(planes), self.config.geometry.planes_per_die);
            if planes == 0 || index > u64::from(count) {
                return Err(NandError::OutOfRange { what: "plane", index, count: count.into() });
            }
        }
        Ok((to_index(die), to_index(self.channels.div_rem(die).1)))
    }

    fn check_torn(&self, page: u64) -> Result<(), NandError> {
        let (block, _) = self.pages.div_rem(page);
        if self.blocks[to_index(block)].torn {
            return Err(NandError::TornEraseBlock { erase_block: block });
        }
        if !self.torn_pages.is_empty() && self.torn_pages.contains(&page) {
            return Err(NandError::Torn { flash_page: page });
        }
        Ok(())
    }

    #[inline]
    fn check_program(&self, page: u64, sequence: u64) -> Result<(), NandError> {
        let (erase_block, index) = self.pages.div_rem(page);
        let block = &self.blocks[to_index(erase_block)];
        if block.bad {
            return Err(NandError::BadEraseBlock { erase_block });
        }
        if block.torn {
            return Err(NandError::TornEraseBlock { erase_block });
        }
        if self.tags[to_index(page) * self.units] != ERASED_TAG || self.torn_pages.contains(&page) {
            return Err(NandError::NotErased { flash_page: page });
        }
        let ascending = self.config.rules.program_order == ProgramOrder::Ascending;
        if ascending && index < u64::from(block.next_page) {
            return Err(NandError::ProgramOrder { flash_page: page, next_index: block.next_page });
        }
        let first_sequence = block.first_sequence;
        if block.next_page > 0
            && (sequence < first_sequence || sequence - first_sequence > u64::from(u32::MAX))
        {
            return Err(NandError::Sequence { flash_page: page, sequence, first_sequence });
        }
        Ok(())
    }

    #[inline]
    fn store(&mut self, span: Span, page: u64, lpns: &[u32], sequence: u64, contents: &[Content]) {
        let (erase_block, index) = self.pages.div_rem(page);
        let (erase_block, index) = (to_u32(erase_block), to_u32(index));
        let block = &mut self.blocks[erase_block as usize];
        if self.config.power_cut_journal {
            let before = *block;
            let page = Some(index);
            self.journal.push(JournalEntry { span, erase_block, before, page, saved: None });
        }
        if block.next_page == 0 {
            block.first_sequence = sequence;
        }
        block.next_page = block.next_page.max(index + 1);
        let slot = to_index(page);
        self.sequences[slot] = to_u32(sequence - block.first_sequence);
        self.tags[slot * self.units..(slot + 1) * self.units].copy_from_slice(lpns);
        if let Some(count) = self.program_counts.get_mut(slot) {
            *count = 1;
        }
        if self.config.keep_content {
            for (key, content) in (page * self.units as u64..).zip(contents) {
                if let Some(content) = content {
                    self.contents.insert(key, Arc::clone(content));
                }
            }
        }
    }

    fn clear(&mut self, span: Span, erase_block: u32) {
        let first = self.config.geometry.flash_page(erase_block, 0).0;
        let end = first + self.pages.value();
        let range = to_index(first)..to_index(end);
        let tag_range = range.start * self.units..range.end * self.units;
        if self.config.power_cut_journal {
            let keys = tag_range.clone().map(|key| key as u64);
            let held = |key| self.contents.get(&key).map(|content| (key, Arc::clone(content)));
            let saved = SavedBlock {
                tags: self.tags[tag_range.clone()].to_vec(),
                sequences: self.sequences[range.clone()].to_vec(),
                contents: keys.filter_map(held).collect(),
                torn: self.torn_pages.range(first..end).copied().collect(),
            };
            let before = self.blocks[erase_block as usize];
            let saved = Some(Box::new(saved));
            self.journal.push(JournalEntry { span, erase_block, before, page: None, saved });
        }
        let block = &mut self.blocks[erase_block as usize];
        block.erase_count += 1;
        (block.next_page, block.first_sequence, block.torn) = (0, 0, false);
        self.tags[tag_range.clone()].fill(ERASED_TAG);
        if let Some(counts) = self.program_counts.get_mut(range) {
            counts.fill(0);
        }
        if !self.torn_pages.is_empty() {
            self.torn_pages.retain(|page| !(first..end).contains(page));
        }
        if !self.contents.is_empty() {
            for key in tag_range {
                self.contents.remove(&(key as u64));
            }
        }
    }

    #[inline]
    fn transfer_ns(&self, bytes: u32) -> u64 {
        if bytes == self.config.geometry.flash_page_bytes {
            return self.full_transfer_ns;
        }
        let bus_bytes = self.config.geometry.bus_bytes(bytes);
        Nanos::of_transfer(bus_bytes, self.config.timing.bus_bytes_per_second).0
    }

    #[inline]
    fn spend(&mut self, array: Picojoules, count: u64, bytes: u32) {
        let energy = &self.config.energy;
        self.energy += array * count + energy.transfer_picojoules_per_byte * u64::from(bytes);
    }
}
