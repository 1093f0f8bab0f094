//! Raw flash in memory with fixed times: for tests, and the plain reading of the contract.
//!
//! 1. Each die serves its requests in the order of submission; there is no bus.
//! 2. Cells change at submission. What they were before is remembered until the request is done, so
//!    that a power cut can put it back.

use super::{
    BLANK, FlashCommand, FlashCompletion, FlashError, FlashGeometry, FlashInfo, FlashPart,
    FlashRejected, FlashRequest, RawFlash,
};
use crate::{CompletionQueue, FlashUse};
use nandu_base::{Cause, FlashOperation, Nanos, Ppn, VirtualClock, WearSummary};
use std::ops::Range;

/// The laws and times of a [`MemoryFlash`].
#[derive(Clone, Debug)]
pub struct MemoryFlashConfig {
    /// How many of everything.
    pub geometry: FlashGeometry,
    /// Programs of a flash page between two erases, at least 1.
    pub programs_per_erase: u8,
    /// Whether flash pages are programmed upwards.
    pub is_ascending: bool,
    /// Whether a torn odd flash page tears the one before it.
    pub has_paired_pages: bool,
    /// Erases that an erase block stands; 0 = without limit.
    pub endurance: u32,
    /// Erase blocks that are bad from the factory.
    pub bad_erase_blocks: Vec<u32>,
    /// How long a read takes.
    pub read_ns: Nanos,
    /// How long a program takes.
    pub program_ns: Nanos,
    /// How long an erase takes.
    pub erase_ns: Nanos,
    /// Most requests in flight.
    pub queue_depth_max: u32,
}

impl Default for MemoryFlashConfig {
    fn default() -> Self {
        let geometry = FlashGeometry {
            erase_block_count: 16,
            flash_pages_per_erase_block: 8,
            flash_page_bytes: 2048,
            spare_bytes: 64,
            die_count: 4,
        };
        Self {
            geometry,
            programs_per_erase: 4,
            is_ascending: true,
            has_paired_pages: false,
            endurance: 0,
            bad_erase_blocks: Vec::new(),
            read_ns: Nanos::from_micros(20),
            program_ns: Nanos::from_micros(200),
            erase_ns: Nanos::from_micros(1500),
            queue_depth_max: 64,
        }
    }
}

/// What a flash page holds.
#[derive(Clone, Debug, Default)]
struct FlashPageCells {
    /// Data, then spare area; empty where nothing was programmed since the erase.
    bytes: Vec<u8>,
    program_count: u8,
    /// Undefined bytes, by the same numbers.
    torn: Vec<Range<usize>>,
}

#[derive(Clone, Debug)]
struct EraseBlockCells {
    flash_pages: Vec<FlashPageCells>,
    /// One more than the highest index that was programmed.
    next_index: u32,
    erase_count: u32,
    is_bad: bool,
    is_torn: bool,
}

/// What is under way and changes cells.
#[derive(Debug)]
struct Change {
    begun_at: Nanos,
    done_at: Nanos,
    erase_block: u32,
    before: EraseBlockCells,
    /// The index that is programmed and which bytes of it; none of an erase.
    program: Option<(u32, Vec<Range<usize>>)>,
}

/// Raw flash in memory.
#[derive(Debug)]
pub struct MemoryFlash {
    info: FlashInfo,
    config: MemoryFlashConfig,
    clock: VirtualClock,
    erase_blocks: Vec<EraseBlockCells>,
    die_free_at: Vec<Nanos>,
    completions: CompletionQueue<FlashCompletion>,
    changes: Vec<Change>,
    counters: FlashUse,
    power_is_on: bool,
}

impl MemoryFlash {
    /// Erased flash.
    ///
    /// # Panics
    /// If there is no die, no erase block or no program of a flash page.
    #[must_use]
    pub fn new(config: MemoryFlashConfig) -> Self {
        let geometry = config.geometry;
        assert!(geometry.die_count > 0, "somebody has to serve");
        assert!(geometry.erase_block_count > 0, "there is something to erase");
        assert!(config.programs_per_erase > 0, "something can be programmed");
        let blank = EraseBlockCells {
            flash_pages: vec![
                FlashPageCells::default();
                geometry.flash_pages_per_erase_block as usize
            ],
            next_index: 0,
            erase_count: 0,
            is_bad: false,
            is_torn: false,
        };
        let mut erase_blocks = vec![blank; geometry.erase_block_count as usize];
        for &erase_block in &config.bad_erase_blocks {
            erase_blocks[erase_block as usize].is_bad = true;
        }
        let info = FlashInfo {
            name: "memory".into(),
            geometry,
            programs_per_erase: config.programs_per_erase,
            is_ascending: config.is_ascending,
            has_paired_pages: config.has_paired_pages,
            endurance: config.endurance,
            queue_depth_max: config.queue_depth_max,
        };
        Self {
            info,
            clock: VirtualClock::new(),
            erase_blocks,
            die_free_at: vec![Nanos::ZERO; geometry.die_count as usize],
            completions: CompletionQueue::default(),
            changes: Vec::new(),
            counters: FlashUse::default(),
            power_is_on: true,
            config,
        }
    }

    /// Asserts that the laws hold for what the cells are.
    ///
    /// # Panics
    /// If not.
    pub fn audit(&self) {
        for cells in &self.erase_blocks {
            for (index, flash_page) in (0..).zip(&cells.flash_pages) {
                assert!(flash_page.program_count <= self.config.programs_per_erase, "rule 6");
                assert_eq!(flash_page.bytes.is_empty(), flash_page.program_count == 0, "rule 5");
                assert!(index < cells.next_index || flash_page.program_count == 0, "rule 6");
            }
        }
        assert!(self.power_is_on || self.changes.is_empty(), "rule 8: nothing goes on");
    }

    /// The bytes of a request, by their numbers in a flash page.
    fn ranges(&self, parts: [Option<&FlashPart>; 2]) -> Vec<Range<usize>> {
        let areas = [0, self.config.geometry.flash_page_bytes as usize];
        let range = |(part, area): (Option<&FlashPart>, usize)| {
            let first = area + part?.first_byte as usize;
            Some(first..first + part?.buffer.len())
        };
        parts.into_iter().zip(areas).filter_map(range).collect()
    }

    /// Serves on the die of `erase_block`; answers when that begins and ends.
    fn serve(&mut self, now: Nanos, erase_block: u32, service: Nanos) -> (Nanos, Nanos) {
        let die = self.config.geometry.die_of(erase_block) as usize;
        let begun_at = self.die_free_at[die].max(now);
        self.die_free_at[die] = begun_at + service;
        (begun_at, begun_at + service)
    }

    /// Does what the command says; answers when it is done and how.
    fn apply(&mut self, now: Nanos, request: &mut FlashRequest) -> Result<Done, FlashError> {
        let cause = request.cause;
        match &mut request.command {
            FlashCommand::Read { flash_page, data, spare } => {
                Ok(self.read(now, *flash_page, [data.as_mut(), spare.as_mut()], cause))
            }
            FlashCommand::Program { flash_page, data, spare } => {
                self.program(now, *flash_page, [data.as_ref(), spare.as_ref()], cause)
            }
            FlashCommand::Erase { erase_block } => self.erase(now, *erase_block, cause),
        }
    }

    fn read(
        &mut self,
        now: Nanos,
        flash_page: Ppn,
        parts: [Option<&mut FlashPart>; 2],
        cause: Cause,
    ) -> Done {
        let (erase_block, index) = self.config.geometry.locate(flash_page);
        let operation = match parts[0] {
            Some(_) => FlashOperation::Read,
            None => FlashOperation::SpareRead,
        };
        self.counters.commands.count(operation, cause);
        let (_, done_at) = self.serve(now, erase_block, self.config.read_ns);
        let ranges = self.ranges(parts.each_ref().map(|part| part.as_deref()));
        let cells = &self.erase_blocks[erase_block as usize];
        let held = &cells.flash_pages[index as usize];
        let overlaps = |one: &Range<usize>, two: &Range<usize>| {
            one.start.max(two.start) < one.end.min(two.end)
        };
        let is_torn = |range: &Range<usize>| held.torn.iter().any(|torn| overlaps(torn, range));
        if cells.is_torn || ranges.iter().any(is_torn) {
            return (done_at, Err(FlashError::Torn { flash_page: flash_page.0 }));
        }
        for (part, range) in parts.into_iter().flatten().zip(ranges) {
            match held.bytes.get(range) {
                Some(bytes) => part.buffer.copy_from_slice(bytes),
                None => part.buffer.fill(BLANK),
            }
        }
        (done_at, Ok(()))
    }

    fn program(
        &mut self,
        now: Nanos,
        flash_page: Ppn,
        parts: [Option<&FlashPart>; 2],
        cause: Cause,
    ) -> Result<Done, FlashError> {
        let (erase_block, index) = self.config.geometry.locate(flash_page);
        let ranges = self.ranges(parts);
        let before = &self.erase_blocks[erase_block as usize];
        self.check_program(before, flash_page.0, (erase_block, index))?;
        let mut cells = before.clone();
        let held = &mut cells.flash_pages[index as usize];
        let geometry = &self.config.geometry;
        held.bytes.resize((geometry.flash_page_bytes + geometry.spare_bytes) as usize, BLANK);
        for (part, range) in parts.into_iter().flatten().zip(&ranges) {
            for (cell, &byte) in held.bytes[range.clone()].iter_mut().zip(&part.buffer[..]) {
                if *cell & byte != byte {
                    return Err(FlashError::NotErased { flash_page: flash_page.0 });
                }
                *cell = byte;
            }
        }
        let operation = match held.program_count {
            0 => FlashOperation::Program,
            _ => FlashOperation::PartialProgram,
        };
        held.program_count += 1;
        cells.next_index = cells.next_index.max(index + 1);
        self.counters.commands.count(operation, cause);
        let (begun_at, done_at) = self.serve(now, erase_block, self.config.program_ns);
        self.change((begun_at, done_at), erase_block, cells, Some((index, ranges)));
        Ok((done_at, Ok(())))
    }

    fn check_program(
        &self,
        cells: &EraseBlockCells,
        flash_page: u64,
        (erase_block, index): (u32, u32),
    ) -> Result<(), FlashError> {
        let held = &cells.flash_pages[index as usize];
        let (limit, next_index) = (self.config.programs_per_erase, cells.next_index);
        if cells.is_bad {
            Err(FlashError::BadEraseBlock { erase_block })
        } else if cells.is_torn {
            Err(FlashError::TornEraseBlock { erase_block })
        } else if !held.torn.is_empty() {
            Err(FlashError::Torn { flash_page })
        } else if self.config.is_ascending && held.program_count == 0 && index < next_index {
            Err(FlashError::ProgramOrder { flash_page, next_index })
        } else if held.program_count >= limit {
            Err(FlashError::ProgramLimit { flash_page, limit })
        } else {
            Ok(())
        }
    }

    fn erase(&mut self, now: Nanos, erase_block: u32, cause: Cause) -> Result<Done, FlashError> {
        let cells = &mut self.erase_blocks[erase_block as usize];
        if cells.is_bad {
            return Err(FlashError::BadEraseBlock { erase_block });
        }
        let endurance = self.config.endurance;
        cells.is_bad = endurance > 0 && cells.erase_count >= endurance;
        let is_worn_out = cells.is_bad;
        let erase_count = cells.erase_count;
        let times = self.serve(now, erase_block, self.config.erase_ns);
        if is_worn_out {
            return Ok((times.1, Err(FlashError::WornOut { erase_block })));
        }
        self.counters.commands.count(FlashOperation::Erase, cause);
        let count = self.config.geometry.flash_pages_per_erase_block as usize;
        let blank = EraseBlockCells {
            flash_pages: vec![FlashPageCells::default(); count],
            next_index: 0,
            erase_count: erase_count + 1,
            is_bad: false,
            is_torn: false,
        };
        self.change(times, erase_block, blank, None);
        Ok((times.1, Ok(())))
    }

    fn change(
        &mut self,
        (begun_at, done_at): (Nanos, Nanos),
        erase_block: u32,
        cells: EraseBlockCells,
        program: Option<(u32, Vec<Range<usize>>)>,
    ) {
        let held = &mut self.erase_blocks[erase_block as usize];
        let before = std::mem::replace(held, cells);
        self.changes.push(Change { begun_at, done_at, erase_block, before, program });
    }

    /// Takes back what had not begun at `at` and tears what was under way, the latest first.
    fn take_back(&mut self, at: Nanos) {
        while let Some(change) = self.changes.pop() {
            if change.done_at <= at {
                continue;
            }
            let cells = &mut self.erase_blocks[change.erase_block as usize];
            let after = std::mem::replace(cells, change.before);
            if change.begun_at >= at {
                cells.is_bad = after.is_bad;
                continue;
            }
            let Some((index, ranges)) = change.program else {
                *cells = EraseBlockCells { is_torn: true, ..after };
                continue;
            };
            let held = after.flash_pages[index as usize].clone();
            let torn = &mut cells.flash_pages[index as usize];
            torn.bytes.resize(held.bytes.len(), BLANK);
            (torn.torn, torn.program_count) = (ranges, held.program_count);
            (cells.next_index, cells.is_bad) = (after.next_index, after.is_bad);
            if self.config.has_paired_pages && index % 2 == 1 {
                let partner = &mut cells.flash_pages[index as usize - 1];
                if partner.program_count > 0 {
                    partner.torn = std::iter::once(0..partner.bytes.len()).collect();
                }
            }
        }
    }
}

/// When a request is done, and how.
type Done = (Nanos, Result<(), FlashError>);

impl RawFlash for MemoryFlash {
    fn info(&self) -> &FlashInfo {
        &self.info
    }

    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn submit(&mut self, now: Nanos, mut request: FlashRequest) -> Result<(), FlashRejected> {
        if let Err(error) = self.info.check(&request, self.in_flight()) {
            return Err(FlashRejected { request: Box::new(request), error });
        }
        let issued_at = self.clock.now().max(now);
        let applied = match self.power_is_on {
            true => self.apply(issued_at, &mut request),
            false => Ok((issued_at, Err(FlashError::PowerLost))),
        };
        let (completed_at, result) = match applied {
            Ok(done) => done,
            Err(error) => return Err(FlashRejected { request: Box::new(request), error }),
        };
        self.clock.advance_to(now);
        self.changes.retain(|change| change.done_at > issued_at);
        let FlashRequest { id, command, .. } = request;
        self.completions.push(FlashCompletion { id, command, issued_at, completed_at, result });
        Ok(())
    }

    fn next_completion(&mut self, until: Nanos) -> Option<FlashCompletion> {
        let completion = self.completions.pop(until)?;
        self.clock.advance_to(completion.completed_at);
        Some(completion)
    }

    fn in_flight(&self) -> u32 {
        self.completions.len()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        assert!(self.completions.is_empty(), "nothing may be in flight while idle");
        self.clock.advance_to(time)
    }

    fn is_bad(&self, erase_block: u32) -> bool {
        self.erase_blocks[erase_block as usize].is_bad
    }

    fn counters(&self) -> FlashUse {
        let counts = || self.erase_blocks.iter().map(|cells| u64::from(cells.erase_count));
        let wear = WearSummary {
            erase_count_min: counts().min().unwrap_or(0),
            erase_count_sum: counts().sum(),
            erase_count_max: counts().max().unwrap_or(0),
            erase_block_count: self.erase_blocks.len() as u64,
            bad_erase_block_count: self.erase_blocks.iter().filter(|cells| cells.is_bad).count()
                as u64,
        };
        FlashUse { wear, ..self.counters }
    }

    fn power_cut(&mut self, at: Nanos) {
        let at = self.clock.advance_to(at);
        if !self.power_is_on {
            return;
        }
        self.take_back(at);
        let mut done = Vec::new();
        while let Some(completion) = self.completions.pop(at) {
            done.push(completion);
        }
        while let Some(completion) = self.completions.pop(Nanos::MAX) {
            let result = Err(FlashError::PowerLost);
            done.push(FlashCompletion { completed_at: at, result, ..completion });
        }
        done.into_iter().for_each(|completion| self.completions.push(completion));
        self.die_free_at.fill(at);
        self.power_is_on = false;
    }

    fn power_on(&mut self, now: Nanos) {
        self.clock.advance_to(now);
        self.power_is_on = true;
    }
}

#[cfg(test)]
mod tests;
