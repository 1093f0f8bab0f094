//! Flash in memory keeps the contract under all laws, and flash that breaks a rule is found out.

use super::*;
use crate::testing::check_raw_flash_contract;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn config() -> MemoryFlashConfig {
    MemoryFlashConfig { endurance: 5, bad_erase_blocks: vec![1, 6], ..Default::default() }
}

#[test]
fn flash_in_memory_keeps_the_contract_under_all_laws() {
    for programs_per_erase in [1, 2, 4] {
        for (is_ascending, has_paired_pages) in [(true, false), (false, false), (true, true)] {
            for endurance in [0, 5] {
                let config = MemoryFlashConfig {
                    programs_per_erase,
                    is_ascending,
                    has_paired_pages,
                    endurance,
                    ..config()
                };
                check_raw_flash_contract(&mut || Box::new(MemoryFlash::new(config.clone())));
            }
        }
    }
    let tiny = FlashGeometry {
        erase_block_count: 1,
        flash_pages_per_erase_block: 1,
        flash_page_bytes: 1,
        spare_bytes: 0,
        die_count: 1,
    };
    for queue_depth_max in [1, 11] {
        let config = MemoryFlashConfig { geometry: tiny, queue_depth_max, ..Default::default() };
        check_raw_flash_contract(&mut || Box::new(MemoryFlash::new(config.clone())));
    }
}

/// What an implementation may do wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bug {
    /// A program is lost: nobody stores it.
    LosesPrograms,
    LosesSpareAreas,
    LosesBuffers,
    CompletesTwice,
    NeverCompletes,
    SwapsCompletions,
    CompletesTooEarly,
    /// What was not programmed reads as zeros.
    BlankIsZero,
    KeepsWhatIsErased,
    ErasesTheNext,
    TakesPartsForTheWhole,
    /// Takes what breaks this law, and says that it was done.
    Takes(Law),
    NeverWearsOut,
    WearsOutTheNext,
    CountsNothing,
    CountsUnderOneCause,
    HasItsOwnTime,
    IsNeverTorn,
    TearsWholePages,
    /// What was in flight at the cut has happened in full.
    CutsTooLate,
    /// What was done before the cut is undone.
    CutsTooMuch,
    ForgetsWhatWasCut,
    ServesWithoutPower,
}

/// A law by the error that names it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Law {
    Order,
    Limit,
    Bits,
    Bad,
    Torn,
    TornEraseBlock,
    Range,
    Length,
    Queue,
}

impl Law {
    const ALL: [Self; 9] = [
        Self::Order,
        Self::Limit,
        Self::Bits,
        Self::Bad,
        Self::Torn,
        Self::TornEraseBlock,
        Self::Range,
        Self::Length,
        Self::Queue,
    ];

    fn of(error: &FlashError) -> Option<Self> {
        Some(match error {
            FlashError::ProgramOrder { .. } => Self::Order,
            FlashError::ProgramLimit { .. } => Self::Limit,
            FlashError::NotErased { .. } => Self::Bits,
            FlashError::BadEraseBlock { .. } => Self::Bad,
            FlashError::Torn { .. } => Self::Torn,
            FlashError::TornEraseBlock { .. } => Self::TornEraseBlock,
            FlashError::OutOfRange { .. } => Self::Range,
            FlashError::EmptyRequest => Self::Length,
            FlashError::QueueFull { .. } => Self::Queue,
            FlashError::WornOut { .. } | FlashError::PowerLost | FlashError::Internal { .. } => {
                return None;
            }
        })
    }
}

/// Flash in memory with a bug.
struct Planted {
    flash: MemoryFlash,
    bug: Bug,
    /// Completions that it makes up itself.
    own: VecDeque<FlashCompletion>,
    delay: Nanos,
    is_off: bool,
}

impl Planted {
    fn has(&self, bug: Bug) -> bool {
        self.bug == bug
    }

    /// What becomes of a request on its way in.
    fn bend(&self, request: &mut FlashRequest) {
        if self.has(Bug::CountsUnderOneCause) {
            request.cause = Cause::Host;
        }
        let next = |erase_block: u32| {
            let count = self.flash.info.geometry.erase_block_count;
            (1..count)
                .map(|step| (erase_block + step) % count)
                .find(|&block| !self.flash.is_bad(block))
                .expect("some are good")
        };
        match &mut request.command {
            FlashCommand::Program { flash_page, data, spare } => match self.bug {
                Bug::LosesSpareAreas if data.is_some() => *spare = None,
                Bug::TakesPartsForTheWhole => {
                    if let Some(part) = data.as_mut().filter(|part| part.first_byte > 0) {
                        part.first_byte = 0;
                    }
                }
                Bug::LosesPrograms => {
                    let (data, spare) = (data.take(), spare.take());
                    request.command = FlashCommand::Read { flash_page: *flash_page, data, spare };
                }
                _ => {}
            },
            FlashCommand::Erase { erase_block } => match self.bug {
                Bug::ErasesTheNext => *erase_block = next(*erase_block),
                Bug::KeepsWhatIsErased if !self.flash.is_bad(*erase_block) => {
                    let flash_page = self.flash.info.geometry.flash_page(*erase_block, 0);
                    let data = Some(FlashPart::room(0, 1));
                    request.command = FlashCommand::Read { flash_page, data, spare: None };
                }
                _ => {}
            },
            FlashCommand::Read { .. } => {}
        }
    }

    /// What becomes of a completion on its way out.
    fn tell(&mut self, mut completion: FlashCompletion) -> FlashCompletion {
        let blank_is_zero = self.has(Bug::BlankIsZero);
        let loses_buffers = self.has(Bug::LosesBuffers);
        if let FlashCommand::Read { data, spare, .. } = &mut completion.command {
            for part in [&mut *data, spare].into_iter().flatten() {
                if blank_is_zero && part.buffer.iter().all(|&byte| byte == BLANK) {
                    part.buffer.fill(0);
                }
            }
            *data = data.take().filter(|_| !loses_buffers);
        }
        match &completion.result {
            Err(FlashError::WornOut { .. }) if self.has(Bug::NeverWearsOut) => {
                completion.result = Ok(());
            }
            Err(FlashError::Torn { .. }) if self.has(Bug::IsNeverTorn) => {
                completion.result = Ok(());
            }
            Ok(()) if self.has(Bug::TearsWholePages) => {
                if let FlashCommand::Read { flash_page, .. } = completion.command {
                    let (block, index) = self.flash.config.geometry.locate(flash_page);
                    let cells = &self.flash.erase_blocks[block as usize];
                    if !cells.flash_pages[index as usize].torn.is_empty() {
                        let flash_page = flash_page.0;
                        completion.result = Err(FlashError::Torn { flash_page });
                    }
                }
            }
            _ => {}
        }
        completion
    }

    fn make_up(&mut self, request: FlashRequest) {
        let (now, result) = (self.flash.now(), Ok(()));
        let FlashRequest { id, command, .. } = request;
        let completion = FlashCompletion { id, command, issued_at: now, completed_at: now, result };
        self.own.push_back(completion);
    }

    fn run_out(&mut self) -> Vec<FlashCompletion> {
        std::iter::from_fn(|| self.flash.next_completion(Nanos::MAX)).collect()
    }
}

impl RawFlash for Planted {
    fn info(&self) -> &FlashInfo {
        self.flash.info()
    }

    fn now(&self) -> Nanos {
        self.flash.now()
    }

    fn submit(&mut self, now: Nanos, mut request: FlashRequest) -> Result<(), FlashRejected> {
        if self.has(Bug::ServesWithoutPower) && self.is_off {
            self.make_up(request);
            return Ok(());
        }
        // What it takes against the law it takes as it came; its inside never sees the worst.
        self.bend(&mut request);
        match self.flash.submit(now + self.delay, request) {
            Err(rejected)
                if Law::of(&rejected.error).is_some_and(|it| self.has(Bug::Takes(it))) =>
            {
                self.make_up(*rejected.request);
                Ok(())
            }
            answer => answer,
        }
    }

    fn next_completion(&mut self, until: Nanos) -> Option<FlashCompletion> {
        if let Some(completion) = self.own.pop_front() {
            return Some(completion);
        }
        match self.bug {
            Bug::CompletesTooEarly => {
                let completion = self.flash.next_completion(Nanos::MAX)?;
                Some(self.tell(completion))
            }
            Bug::SwapsCompletions => {
                let first = self.flash.next_completion(until)?;
                match self.flash.next_completion(until) {
                    Some(second) => {
                        self.own.push_back(first);
                        Some(second)
                    }
                    None => Some(first),
                }
            }
            Bug::CompletesTwice => {
                let completion = self.flash.next_completion(until)?;
                let FlashCompletion { id, issued_at, completed_at, .. } = completion;
                let command = FlashCommand::Erase { erase_block: 0 };
                let result = Ok(());
                let again = FlashCompletion { id, command, issued_at, completed_at, result };
                self.own.push_back(again);
                Some(completion)
            }
            Bug::NeverCompletes => {
                let completion = self.flash.next_completion(until)?;
                match completion.command {
                    FlashCommand::Erase { .. } => self.flash.next_completion(until),
                    _ => Some(completion),
                }
            }
            _ => {
                let completion = self.flash.next_completion(until)?;
                Some(self.tell(completion))
            }
        }
    }

    fn in_flight(&self) -> u32 {
        self.flash.in_flight() + nandu_base::to_u32(self.own.len() as u64)
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.flash.idle_until(time)
    }

    fn is_bad(&self, erase_block: u32) -> bool {
        match self.bug {
            Bug::WearsOutTheNext => {
                let count = self.flash.info.geometry.erase_block_count;
                let factory = self.flash.config.bad_erase_blocks.contains(&erase_block);
                let before = (erase_block + count - 1) % count;
                let is_worn = |block| {
                    self.flash.is_bad(block) && !self.flash.config.bad_erase_blocks.contains(&block)
                };
                factory || is_worn(before)
            }
            _ => self.flash.is_bad(erase_block),
        }
    }

    fn counters(&self) -> FlashUse {
        match self.bug {
            Bug::CountsNothing => FlashUse::default(),
            _ => self.flash.counters(),
        }
    }

    fn power_cut(&mut self, at: Nanos) {
        self.is_off = true;
        match self.bug {
            Bug::CutsTooLate => {
                let at = at.max(self.flash.now());
                for mut completion in self.run_out() {
                    if completion.completed_at > at {
                        completion.result = Err(FlashError::PowerLost);
                        completion.completed_at = at;
                    }
                    self.own.push_back(completion);
                }
                self.flash.power_cut(at);
            }
            Bug::CutsTooMuch => {
                self.flash.power_cut(at);
                for cells in &mut self.flash.erase_blocks {
                    let last = cells.flash_pages.iter_mut().rfind(|it| it.program_count > 0);
                    if let Some(flash_page) = last.filter(|it| it.torn.is_empty()) {
                        flash_page.bytes.fill(BLANK);
                    }
                }
            }
            Bug::ForgetsWhatWasCut => {
                self.flash.power_cut(at);
                let done = self.run_out().into_iter().filter(|it| it.result.is_ok());
                self.own.extend(done);
            }
            _ => self.flash.power_cut(at),
        }
    }

    fn power_on(&mut self, now: Nanos) {
        self.is_off = false;
        self.flash.power_on(now);
    }
}

/// Under which config a bug can show itself, and what the suite says of it.
fn found(bug: Bug, config: &MemoryFlashConfig) -> Option<String> {
    let mut made_count = 0;
    let mut make = || {
        made_count += 1;
        let delay = Nanos(if bug == Bug::HasItsOwnTime { made_count } else { 0 });
        let flash = MemoryFlash::new(config.clone());
        let planted = Planted { flash, bug, own: VecDeque::new(), delay, is_off: false };
        Box::new(planted) as Box<dyn RawFlash>
    };
    let told = catch_unwind(AssertUnwindSafe(|| check_raw_flash_contract(&mut make))).err()?;
    let text = told.downcast_ref::<String>().cloned();
    text.or_else(|| told.downcast_ref::<&str>().map(|text| (*text).to_owned()))
}

#[test]
fn every_planted_bug_is_found() {
    let own = [
        Bug::LosesPrograms,
        Bug::LosesSpareAreas,
        Bug::LosesBuffers,
        Bug::CompletesTwice,
        Bug::NeverCompletes,
        Bug::SwapsCompletions,
        Bug::CompletesTooEarly,
        Bug::BlankIsZero,
        Bug::KeepsWhatIsErased,
        Bug::ErasesTheNext,
        Bug::TakesPartsForTheWhole,
        Bug::NeverWearsOut,
        Bug::WearsOutTheNext,
        Bug::CountsNothing,
        Bug::CountsUnderOneCause,
        Bug::HasItsOwnTime,
        Bug::IsNeverTorn,
        Bug::TearsWholePages,
        Bug::CutsTooLate,
        Bug::CutsTooMuch,
        Bug::ForgetsWhatWasCut,
        Bug::ServesWithoutPower,
    ];
    let missed: Vec<Bug> = own
        .into_iter()
        .chain(Law::ALL.map(Bug::Takes))
        .filter(|&bug| {
            let said = found(bug, &config());
            println!("{bug:?}: {said:?}");
            said.is_none()
        })
        .collect();
    assert!(missed.is_empty(), "the suite lets pass: {missed:?}");
}

#[test]
fn dies_work_side_by_side_and_each_in_order() {
    let mut flash = MemoryFlash::new(MemoryFlashConfig::default());
    for (id, block) in [0, 4, 1].into_iter().enumerate() {
        flash.submit(Nanos::ZERO, FlashRequest::erase(id as u64, block)).unwrap();
    }
    let ends: Vec<(u64, u64)> = std::iter::from_fn(|| flash.next_completion(Nanos::MAX))
        .map(|completion| (completion.id, completion.completed_at.0 / 1000))
        .collect();
    assert_eq!(ends, [(0, 1500), (2, 1500), (1, 3000)], "erase blocks 0 and 4 share a die");
    flash.audit();
}
