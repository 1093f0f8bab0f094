//! The chip array: cells, laws and commands (flash reference 1.1).
//!
//! 1. A refused command changes nothing, except that the erase that finds a block worn out marks it.
//! 2. Below `next_page` every flash page is programmed or was skipped; from it on all are erased
//!    (ascending order).
//! 3. Every command adds to one counter cell; a multi-plane command adds one for each plane. Energy
//!    follows from the counters and the bytes that crossed the bus.
//! 4. An erased flash page has erased tags and no content.

use crate::power::PowerFault;
use crate::schedule::Schedule;
use crate::{
    ChipEnergy, Divisor, Energy, Geometry, NandError, PagePart, ProgramOrder, Rules, Scheduling,
    Ticket, Timing, Usage,
};
use nandu_base::{
    FixedHashMap, FlashCounters, FlashOperation, Nanos, Picojoules, Ppn, WearSummary, to_index,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What one unit holds, where the array keeps content.
pub type Content = Option<Arc<[u8]>>;

/// Tag of a unit of an erased flash page.
pub const ERASED_TAG: u32 = u32::MAX;
/// Tag of a programmed unit that belongs to no logical page: padding and metadata.
pub const NO_LPN: u32 = u32::MAX - 1;

/// Tag of the units of a flash page that holds metadata which recovery reads back: the array keeps its
/// content even where it keeps no other ([`NandArray::program_metadata`]).
pub const METADATA_TAG: u32 = u32::MAX - 2;

/// Everything that makes an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NandConfig {
    /// How many channels, dies, planes, erase blocks and flash pages there are.
    pub geometry: Geometry,
    /// Times of the commands and the speed of a channel.
    pub timing: Timing,
    /// Energy of each command; all zero does not model it.
    #[serde(default)]
    pub energy: Energy,
    /// The laws by which chips refuse commands: order, endurance, partial programs.
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

impl Payload<'_> {
    /// The payload from `unit` on, which begins `row` rows after the first.
    pub(crate) fn part(&self, unit: usize, row: u64) -> Self {
        Self {
            lpns: &self.lpns[unit..],
            sequence: self.sequence + row,
            contents: self.contents.get(unit..).unwrap_or(&[]),
        }
    }
}

/// The spare area of a programmed flash page, which every read of the page delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpareView<'a> {
    /// Logical page of every unit, or [`NO_LPN`].
    pub lpns: &'a [u32],
    /// Sequence number of the program.
    pub sequence: u64,
}

/// Counters of an array before it was prepared: see [`NandArray::begin_preparation`].
#[derive(Clone, Debug)]
pub struct Accounting {
    counters: FlashCounters,
    transferred_bytes: u64,
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
    pub(crate) ticket: Ticket,
    /// When a single server began it.
    pub(crate) begun_at: Nanos,
    pub(crate) erase_block: u32,
    pub(crate) before: EraseBlock,
    /// The programmed index, or none for an erase.
    pub(crate) page: Option<u32>,
    /// Tags, sequences, contents and torn pages before an erase.
    pub(crate) saved: Option<Box<SavedBlock>>,
    /// Of a program of a part of a flash page, or of a further one.
    pub(crate) part: Option<Box<SavedPart>>,
}

/// What a power cut needs to know of a program of a part.
#[derive(Clone, Debug)]
pub(crate) struct SavedPart {
    /// What is undefined if the program is interrupted.
    pub(crate) torn: PagePart,
    /// What the flash page held before.
    pub(crate) content: Content,
    /// Whether it was erased before.
    pub(crate) is_first: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct SavedBlock {
    pub(crate) tags: Vec<u32>,
    pub(crate) sequences: Vec<u32>,
    pub(crate) contents: Vec<(u64, Arc<[u8]>)>,
    /// How often the flash pages were programmed again.
    pub(crate) counts: Vec<u8>,
    pub(crate) torn: Vec<(u64, PagePart)>,
}

/// An array of flash chips: see the module.
#[derive(Clone, Debug)]
pub struct NandArray {
    pub(crate) config: NandConfig,
    pub(crate) units: usize,
    /// Whether programs ascend and nothing but tags is kept, as in a simulation without faults.
    pub(crate) is_plain: bool,
    pub(crate) pages: Divisor,
    pub(crate) dies: Divisor,
    /// Transfer times of 0 to all units of a row of planes.
    pub(crate) unit_transfer_ns: Vec<u64>,
    pub(crate) blocks: Vec<EraseBlock>,
    pub(crate) tags: Vec<u32>,
    /// Sequence number of each flash page after the first of its erase block; empty once forgotten.
    pub(crate) sequences: Vec<u32>,
    /// Programs of each flash page after the first; empty where only one is allowed.
    pub(crate) partial_counts: Vec<u8>,
    pub(crate) contents: FixedHashMap<u64, Arc<[u8]>>,
    /// Flash pages that a power cut left undefined, and which part of each.
    pub(crate) torn_pages: std::collections::BTreeMap<u64, PagePart>,
    /// How many erase blocks have `torn` set.
    pub(crate) torn_block_count: u32,
    pub(crate) journal: Vec<JournalEntry>,
    pub(crate) power_fault: Option<PowerFault>,
    pub(crate) schedule: Schedule,
    pub(crate) group_count: usize,
    pub(crate) transferred_bytes: u64,
    /// Whether commands of cleaning begin only when nothing else of their die waits.
    pub(crate) cleaning_yields: bool,
}

/// Whether there is memory for the state of all flash pages and erase blocks.
fn check_room(config: &NandConfig) -> Result<(), NandError> {
    let NandConfig { geometry, rules, units_per_flash_page, .. } = config;
    let pages = geometry.flash_page_count();
    let counted = u64::from(rules.programs_per_erase > 1);
    let page_bytes = 4 * u64::from(*units_per_flash_page) + 4 + counted;
    let blocks = u64::from(geometry.erase_block_count()) * size_of::<EraseBlock>() as u64;
    let bytes = pages.saturating_mul(page_bytes).saturating_add(blocks);
    if nandu_base::has_room(bytes) {
        return Ok(());
    }
    Err(NandError::Configuration(format!(
        "an array of {pages} flash pages takes {} of memory, which the system does not give; take \
         fewer or larger ones",
        nandu_base::ByteCount(bytes)
    )))
}

impl NandArray {
    /// An erased array.
    ///
    /// # Errors
    /// [`NandError::Configuration`] names the field that cannot be, or says how much memory the array
    /// would take that the system does not give.
    pub fn new(config: NandConfig) -> Result<Self, NandError> {
        let geometry = config.geometry;
        geometry.validate()?;
        config.rules.validate()?;
        config.timing.validate()?;
        config.energy.validate()?;
        let units = config.units_per_flash_page;
        if !units.is_power_of_two() || units > geometry.flash_page_bytes {
            let text = format!(
                "units_per_flash_page is {units}, must be a power of two up to flash_page_bytes"
            );
            return Err(NandError::Configuration(text));
        }
        let page_count = to_index(geometry.flash_page_count());
        let counted = config.rules.programs_per_erase > 1;
        let unit_bytes = geometry.flash_page_bytes / units;
        let transfer_ns = |unit_count: u32| {
            let bus_bytes = match unit_count {
                count if count == units => geometry.bus_bytes(geometry.flash_page_bytes),
                count => geometry.bus_bytes(unit_bytes) * u64::from(count),
            };
            Nanos::of_transfer(bus_bytes, config.timing.bus_bytes_per_second).0
        };
        let unit_transfer_ns: Vec<u64> =
            (0..=units * geometry.planes_per_die).map(transfer_ns).collect();
        if geometry.die_count() > u32::from(u16::MAX) {
            let count = geometry.die_count();
            let text = format!("geometry: {count} dies, must be at most {}", u16::MAX);
            return Err(NandError::Configuration(text));
        }
        if unit_transfer_ns.last().is_some_and(|&longest| longest > u64::from(u32::MAX)) {
            let text = "timing: bus_bytes_per_second is too low: a transfer would take over 4 s";
            return Err(NandError::Configuration(text.into()));
        }
        check_room(&config)?;
        let group_count = geometry.erase_block_count() as usize / geometry.planes_per_die as usize;
        let blocks = config.rules.factory_bad().take(geometry.erase_block_count() as usize);
        Ok(Self {
            config,
            units: units as usize,
            is_plain: config.rules.program_order == ProgramOrder::Ascending
                && !config.keep_content
                && !config.power_cut_journal,
            pages: Divisor::new(u64::from(geometry.flash_pages_per_erase_block)),
            dies: Divisor::new(u64::from(geometry.die_count())),
            unit_transfer_ns,
            blocks: blocks.map(|bad| EraseBlock { bad, ..EraseBlock::default() }).collect(),
            tags: vec![ERASED_TAG; geometry.page_slots(units)],
            sequences: vec![0; page_count],
            partial_counts: vec![0; if counted { page_count } else { 0 }],
            contents: FixedHashMap::default(),
            torn_pages: std::collections::BTreeMap::new(),
            torn_block_count: 0,
            journal: Vec::new(),
            power_fault: None,
            schedule: Schedule::new(
                (geometry.die_count() as usize, geometry.channel_count as usize, group_count),
                config.timing.cache_register,
            ),
            group_count,
            transferred_bytes: 0,
            cleaning_yields: false,
        })
    }

    /// What it was built from.
    #[must_use]
    pub const fn config(&self) -> &NandConfig {
        &self.config
    }

    /// How many channels, dies, planes, erase blocks and pages it has.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.config.geometry
    }

    /// Commands so far, by operation and cause.
    #[must_use]
    pub const fn counters(&self) -> &FlashCounters {
        &self.schedule.core.counters
    }

    /// For the translation layer, which counts the host's pages.
    pub const fn counters_mut(&mut self) -> &mut FlashCounters {
        &mut self.schedule.core.counters
    }

    /// Energy of all commands so far.
    #[must_use]
    pub fn energy(&self) -> Picojoules {
        self.chip_energy().total()
    }

    /// The same by what it was used for.
    #[must_use]
    pub fn chip_energy(&self) -> ChipEnergy {
        let energy = &self.config.energy;
        let counters = self.counters();
        let count = |operation| counters.total(operation);
        let reads = count(FlashOperation::Read)
            + count(FlashOperation::SpareRead)
            + count(FlashOperation::CopyBack);
        let programs = counters.programmed_pages();
        ChipEnergy {
            cells: energy.read_picojoules * reads + energy.program_picojoules * programs,
            erase: energy.erase_picojoules * count(FlashOperation::Erase),
            transfer: energy.transfer_picojoules_per_byte * self.transferred_bytes,
        }
    }

    /// Sets the order of service, before the first command.
    ///
    /// # Panics
    /// If commands were issued already.
    pub fn set_scheduling(&mut self, scheduling: Scheduling) {
        assert_eq!(
            self.busy(),
            Nanos::ZERO,
            "the order of service is set before the first command"
        );
        self.schedule.schedule(scheduling, self.group_count);
    }

    /// Forgets the sequence numbers of all spare areas, for simulations after which nobody recovers:
    /// a quarter less memory to move through. From then on [`Self::spare_read`] is refused.
    pub fn forget_sequences(&mut self) {
        self.sequences = Vec::new();
    }

    /// Whether programs of consecutive flash pages may be issued together without a difference:
    /// nothing but tags is kept, no power cut is to come, one command follows the other, and all take
    /// [`Self::program_ns`].
    #[inline]
    #[must_use]
    pub const fn takes_runs(&self) -> bool {
        self.is_plain
            && self.is_single_server()
            && !self.awaits_power_failure()
            && self.config.timing.program_type_ns.is_empty()
    }

    /// What a program takes with its transfer, if nothing is in its way; the mean over the types of
    /// flash pages.
    #[must_use]
    pub fn program_ns(&self) -> Nanos {
        let timing = &self.config.timing;
        let transfer_ns = self.unit_transfer_ns[self.units];
        Nanos(timing.command_ns.0 + transfer_ns + timing.program_ns.0)
    }

    /// Whether one command follows the other, whatever their dies.
    #[inline]
    #[must_use]
    pub const fn is_single_server(&self) -> bool {
        self.schedule.is_single_server()
    }

    /// Time that dies and channels worked, summed over the commands that have begun.
    #[must_use]
    pub fn busy(&self) -> Nanos {
        self.schedule.busy()
    }

    /// How dies and channels were used; empty counts with a single server.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.schedule.core.usage()
    }

    /// A ticket of the moment `now`: what waits for it is issued then. Everything that ends up to `now`
    /// has ended afterwards. Time never runs backwards: past `now` it is the present.
    #[inline]
    pub fn at(&mut self, now: Nanos) -> Ticket {
        self.schedule.at(now)
    }

    /// Lets time pass until `ticket` has ended; answers when that was, or the present where it had
    /// ended before. A promise that nobody has kept does not end.
    pub fn finish(&mut self, ticket: Ticket) -> Nanos {
        self.schedule.finish(ticket)
    }

    /// Lets time pass until `ticket` has ended, but not past `until`; answers the time then, which is at
    /// least `until` where it has not ended. A single server answers its end.
    pub fn finish_by(&mut self, ticket: Ticket, until: Nanos) -> Nanos {
        self.schedule.finish_by(ticket, until)
    }

    /// Lets time pass until everything that was issued has ended; answers when that was.
    pub fn idle_at(&mut self) -> Nanos {
        let everything = self.schedule.everything();
        self.schedule.finish(everything)
    }

    /// When everything will have ended that was issued, if nothing else is; the array stays as it is.
    #[must_use]
    pub fn will_idle_at(&self) -> Nanos {
        self.schedule.will_end_at()
    }

    /// A ticket of everything that was issued and has not ended.
    pub fn everything(&mut self) -> Ticket {
        self.schedule.everything()
    }

    /// The later of two ends.
    #[inline]
    pub fn both(&mut self, one: Ticket, other: Ticket) -> Ticket {
        self.schedule.both(one, other)
    }

    /// Adds an end to those that `all` stands for: `all = both(all, one)` for many, at the cost of one.
    /// Copies of `all` for which nobody waits yet may stand for the new end, too.
    #[inline]
    pub fn gather(&mut self, all: &mut Ticket, one: Ticket) {
        self.schedule.gather(all, one);
    }

    /// A ticket that ends when the one does that [`Self::keep`] names. With a single server, which has
    /// nobody to wait meanwhile, it has ended already.
    pub fn promise(&mut self) -> Ticket {
        match self.schedule.is_single_server() || self.schedule.is_preparing() {
            true => Ticket::READY,
            false => self.schedule.core.promise(),
        }
    }

    /// A promise ends when `ticket` does. Each is kept once.
    pub fn keep(&mut self, promise: Ticket, ticket: Ticket) {
        if !self.schedule.is_single_server() {
            self.schedule.core.keep(promise, ticket);
        }
    }

    /// The present of the event core; a single server has none beside its tickets.
    #[inline]
    #[must_use]
    pub const fn now(&self) -> Nanos {
        self.schedule.core.now()
    }

    /// When something ends or begins next, if anything is in flight.
    #[inline]
    #[must_use]
    pub fn next_event(&self) -> Option<Nanos> {
        self.schedule.core.next_event()
    }

    /// Lets time pass to the next event and handles it; false if there is none.
    #[inline]
    pub fn step(&mut self) -> bool {
        self.schedule.core.step()
    }

    /// Handles events until something that is watched has ended; false if nothing is left that could end.
    #[inline]
    pub fn step_to_watched(&mut self) -> bool {
        self.schedule.core.step_to_watched()
    }

    /// Has [`Self::take_finished`] tell `watcher`, below `u32::MAX`, when `ticket` ends; false where it
    /// has ended.
    #[inline]
    pub fn watch(&mut self, ticket: Ticket, watcher: u32) -> bool {
        self.schedule.core.watch(ticket, watcher)
    }

    /// The next watcher whose ticket has ended, in the order of the ends.
    #[inline]
    pub fn take_finished(&mut self) -> Option<u32> {
        self.schedule.core.take_finished()
    }

    /// Whether a ticket has ended. Not for a single server.
    #[inline]
    #[must_use]
    pub fn is_done(&self, ticket: Ticket) -> bool {
        self.schedule.core.is_done(ticket)
    }

    /// By die: work that it has accepted and not ended, in ns; a single server keeps none.
    #[inline]
    #[must_use]
    pub fn backlog_ns(&self) -> &[u64] {
        self.schedule.core.backlog_ns()
    }

    /// From here on commands of cleaning yield, or do so no more: they begin when nothing else of their
    /// die waits. A command that does not yield and is not the host's brings those of its die forward.
    /// A single server takes everything in turn.
    #[inline]
    pub const fn let_cleaning_yield(&mut self, yields: bool) {
        self.cleaning_yields = yields;
    }

    /// Work of `die` that waits because it yields, in ns.
    #[inline]
    #[must_use]
    pub fn put_off_ns(&self, die: u32) -> u64 {
        self.schedule.core.put_off_ns(die as usize)
    }

    /// Commands and waits in flight.
    #[must_use]
    pub const fn open_count(&self) -> u32 {
        self.schedule.core.open_count()
    }

    /// From here on commands take no time, until [`Self::end_preparation`].
    #[must_use]
    pub fn begin_preparation(&mut self) -> Accounting {
        self.schedule.prepare(true);
        Accounting { counters: *self.counters(), transferred_bytes: self.transferred_bytes }
    }

    /// Puts counters back; cells and wear stay, and nothing counts as unfinished.
    pub fn end_preparation(&mut self, accounting: Accounting) {
        *self.counters_mut() = accounting.counters;
        self.transferred_bytes = accounting.transferred_bytes;
        self.schedule.prepare(false);
        self.journal.clear();
    }

    /// Memory of this process that grows with the array: tags, sequence numbers and erase blocks,
    /// without content.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let bytes = size_of_val(&self.tags[..])
            + size_of_val(&self.sequences[..])
            + size_of_val(&self.partial_counts[..])
            + size_of_val(&self.blocks[..]);
        bytes as u64
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
        let sequence = first + u64::from(self.sequences.get(page).copied().unwrap_or(0));
        (lpns[0] != ERASED_TAG).then_some(SpareView { lpns, sequence })
    }

    /// The tags of all units of an erase block, as the spare areas have them.
    #[inline]
    #[must_use]
    pub fn tags(&self, erase_block: u32) -> &[u32] {
        let per_block = to_index(self.pages.value()) * self.units;
        &self.tags[erase_block as usize * per_block..][..per_block]
    }

    /// What [`Self::program_metadata`] wrote to the row of this flash page, which was read before; none
    /// where the page is no metadata, torn or erased.
    #[must_use]
    pub fn metadata(&self, flash_page: Ppn) -> Content {
        let slot = to_index(flash_page.0) * self.units;
        let is_metadata = self.tags.get(slot) == Some(&METADATA_TAG);
        let content = || self.contents.get(&(slot as u64)).cloned();
        is_metadata.then(content).flatten()
    }

    /// Content of unit `unit` of the flash page that was last read.
    #[must_use]
    pub fn content(&self, flash_page: Ppn, unit: u32) -> Content {
        if !self.config.keep_content {
            return None;
        }
        self.contents.get(&(flash_page.0 * self.units as u64 + u64::from(unit))).cloned()
    }

    /// Asserts the numbered invariants of this file.
    ///
    /// # Panics
    /// If one is broken.
    pub fn audit(&self) {
        self.schedule.core.audit();
        let pages = self.config.geometry.flash_pages_per_erase_block;
        let torn = self.blocks.iter().filter(|block| block.torn).count();
        assert_eq!(torn, self.torn_block_count as usize, "torn erase blocks are counted");
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
}
