//! Raw flash: the chips of a drive without its controller, its link and its translation layer.
//!
//! ```text
//!  submit ─► laws, cells: nand ─► ticket ─► its end, an event of the chips ─► completion
//! ```
//!
//! Dies, planes and channels work as they do inside a drive: this is the event core of `nand`
//! alone. Commands to several planes at once and copy-back, which raw flash may have, are left out.
//!
//! 1. A request in flight waits for one chip command, and for nothing else.
//! 2. What it finds is settled at submission, since the chips keep the commands of a plane group in
//!    order (rule 4 of the contract).
//! 3. Without power nothing is in flight on the chips.

#[cfg(test)]
mod tests;

use nandu_base::{Nanos, Ppn, VirtualClock, to_u32};
use nandu_device::raw_flash::{
    BLANK, FlashCommand, FlashCompletion, FlashError, FlashGeometry, FlashInfo, FlashPart,
    FlashRejected, FlashRequest, RawFlash,
};
use nandu_device::{CompletionQueue, DeviceError, FlashUse};
use nandu_nand::{
    NandArray, NandConfig, NandError, PagePart, Piece, ProgramOrder, Scheduling, Service, Ticket,
    Usage,
};

/// Most requests that may be in flight.
const QUEUE_DEPTH: u32 = 1024;

/// Simulated raw flash: see the module.
#[derive(Debug)]
pub struct NandFlash {
    info: FlashInfo,
    clock: VirtualClock,
    nand: NandArray,
    active: Vec<Option<Active>>,
    free_places: Vec<u32>,
    completions: CompletionQueue<FlashCompletion>,
    power_is_on: bool,
}

/// A request that waits for its chip command.
#[derive(Debug)]
struct Active {
    request: FlashRequest,
    issued_at: Nanos,
    result: Result<(), FlashError>,
}

impl NandFlash {
    /// Erased chips called `name` as `config` describes them, which keep content and can lose their
    /// power whatever it says of that. `seed` is added to that of the factory's bad erase blocks.
    ///
    /// # Errors
    /// If the configuration cannot be built, or the order of service is not that of dies and
    /// channels side by side.
    pub fn new(
        name: &str,
        mut config: NandConfig,
        scheduling: Scheduling,
        seed: u64,
    ) -> Result<Self, DeviceError> {
        let invalid = |what: String| DeviceError::InvalidGeometry { what };
        if scheduling.service != Service::Parallel {
            let what = "raw flash has no single server: dies and channels work side by side";
            return Err(invalid(what.into()));
        }
        (config.keep_content, config.power_cut_journal) = (true, true);
        config.units_per_flash_page = 1;
        let rules = &mut config.rules;
        rules.factory_bad_seed = rules.factory_bad_seed.wrapping_add(seed);
        let (shape, rules) = (config.geometry, config.rules);
        let mut nand = NandArray::new(config).map_err(|error| invalid(error.to_string()))?;
        nand.set_scheduling(scheduling);
        nand.forget_sequences();
        let geometry = FlashGeometry {
            erase_block_count: shape.erase_block_count(),
            flash_pages_per_erase_block: shape.flash_pages_per_erase_block,
            flash_page_bytes: shape.flash_page_bytes,
            spare_bytes: shape.spare_bytes,
            die_count: shape.die_count(),
        };
        let info = FlashInfo {
            name: name.into(),
            geometry,
            programs_per_erase: rules.programs_per_erase,
            is_ascending: rules.program_order == ProgramOrder::Ascending,
            has_paired_pages: rules.paired_pages,
            endurance: rules.endurance,
            queue_depth_max: QUEUE_DEPTH,
        };
        Ok(Self {
            info,
            clock: VirtualClock::new(),
            nand,
            active: Vec::new(),
            free_places: Vec::new(),
            completions: CompletionQueue::default(),
            power_is_on: true,
        })
    }

    /// How long dies and channels worked, and what commands of the host waited for.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.nand.usage()
    }

    /// Asserts the invariants of this file and of the chips.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self) {
        self.nand.audit();
        let waiting = to_u32(self.active.iter().flatten().count() as u64);
        assert!(self.nand.open_count() >= waiting, "invariant 1: each waits for a command");
        assert!(self.power_is_on || waiting == 0, "invariant 3: nothing works without power");
        assert_eq!(
            waiting as usize + self.free_places.len(),
            self.active.len(),
            "invariant 1: places are given back"
        );
    }

    /// Has the chips do what the request asks for; answers the end and what it finds.
    fn issue(&mut self, request: &mut FlashRequest) -> Result<Issued, FlashError> {
        let cause = request.cause;
        match &mut request.command {
            FlashCommand::Read { flash_page, data, spare } => {
                let part = PagePart { data: range_of(data), spare: range_of(spare) };
                let ticket = self.nand.read_part(Ticket::READY, *flash_page, &part, cause);
                let ticket = ticket.map_err(flash_error)?;
                if self.nand.is_torn(*flash_page, &part) {
                    return Ok((ticket, Err(FlashError::Torn { flash_page: flash_page.0 })));
                }
                self.deliver(*flash_page, data.as_mut(), spare.as_mut());
                Ok((ticket, Ok(())))
            }
            FlashCommand::Program { flash_page, data, spare } => {
                let pieces = (piece_of(data), piece_of(spare));
                let ticket = self.nand.program_part(Ticket::READY, *flash_page, pieces, cause);
                Ok((ticket.map_err(flash_error)?, Ok(())))
            }
            FlashCommand::Erase { erase_block } => {
                let erase_block = *erase_block;
                let erased = self.nand.erase_or_wear_out(Ticket::READY, erase_block, cause);
                Ok(match erased.map_err(flash_error)? {
                    (ticket, true) => (ticket, Ok(())),
                    (ticket, false) => (ticket, Err(FlashError::WornOut { erase_block })),
                })
            }
        }
    }

    /// Fills the buffers of a read.
    fn deliver(
        &self,
        flash_page: Ppn,
        data: Option<&mut FlashPart>,
        spare: Option<&mut FlashPart>,
    ) {
        let content = self.nand.content(flash_page, 0);
        let areas = [(data, 0), (spare, self.info.geometry.flash_page_bytes as usize)];
        for (part, area) in areas {
            let Some(part) = part else { continue };
            match &content {
                Some(cells) => {
                    let first = area + part.first_byte as usize;
                    let count = part.buffer.len();
                    part.buffer.copy_from_slice(&cells[first..first + count]);
                }
                None => part.buffer.fill(BLANK),
            }
        }
    }

    /// A request waits for the end of its command.
    fn wait(&mut self, ticket: Ticket, active: Active) {
        let place = match self.free_places.pop() {
            Some(place) => place,
            None => {
                self.active.push(None);
                to_u32(self.active.len() as u64 - 1)
            }
        };
        self.active[place as usize] = Some(active);
        if !self.nand.watch(ticket, place) {
            self.complete(place);
        }
    }

    /// The command of a request has ended just now.
    fn complete(&mut self, place: u32) {
        let active = self.active[place as usize].take();
        let Active { request, issued_at, result } = active.expect("it waits for its end");
        self.free_places.push(place);
        let (FlashRequest { id, command, .. }, completed_at) = (request, self.nand.now());
        self.completions.push(FlashCompletion { id, command, issued_at, completed_at, result });
    }

    /// Handles the next event of the chips, if it comes by `until`.
    fn step_by(&mut self, until: Nanos) -> bool {
        if self.nand.next_event().is_none_or(|at| at > until) {
            return false;
        }
        self.nand.step();
        while let Some(place) = self.nand.take_finished() {
            self.complete(place);
        }
        true
    }

    /// Handles everything up to `time`, which becomes the present.
    fn pass_to(&mut self, time: Nanos) {
        while self.step_by(time) {}
        // What ended by now cannot be undone by a later power cut.
        self.nand.settle(time);
    }
}

/// The end of a chip command, and what it finds.
type Issued = (Ticket, Result<(), FlashError>);

impl RawFlash for NandFlash {
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
        let now = self.clock.advance_to(now);
        if !self.power_is_on {
            let FlashRequest { id, command, .. } = request;
            let result = Err(FlashError::PowerLost);
            let (issued_at, completed_at) = (now, now);
            let completion = FlashCompletion { id, command, issued_at, completed_at, result };
            self.completions.push(completion);
            return Ok(());
        }
        self.pass_to(now);
        match self.issue(&mut request) {
            Ok((ticket, result)) => {
                self.wait(ticket, Active { request, issued_at: now, result });
                Ok(())
            }
            Err(error) => Err(FlashRejected { request: Box::new(request), error }),
        }
    }

    fn next_completion(&mut self, until: Nanos) -> Option<FlashCompletion> {
        while self.completions.is_empty() {
            if !self.step_by(until) {
                return None;
            }
        }
        let completion = self.completions.pop(until)?;
        self.clock.advance_to(completion.completed_at);
        Some(completion)
    }

    fn in_flight(&self) -> u32 {
        let active = self.active.len() - self.free_places.len();
        self.completions.len() + to_u32(active as u64)
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        assert_eq!(self.in_flight(), 0, "nothing may be in flight while idle");
        self.clock.advance_to(time)
    }

    fn is_bad(&self, erase_block: u32) -> bool {
        self.nand.is_bad(erase_block)
    }

    fn counters(&self) -> FlashUse {
        FlashUse { commands: *self.nand.counters(), wear: self.nand.wear() }
    }

    fn power_cut(&mut self, at: Nanos) {
        let at = self.clock.advance_to(at);
        if !self.power_is_on {
            return;
        }
        self.pass_to(at);
        self.nand.power_cut(at).expect("the chips keep a journal");
        self.free_places.clear();
        for active in self.active.drain(..).flatten() {
            let Active { request: FlashRequest { id, command, .. }, issued_at, .. } = active;
            let result = Err(FlashError::PowerLost);
            let completion = FlashCompletion { id, command, issued_at, completed_at: at, result };
            self.completions.push(completion);
        }
        self.power_is_on = false;
    }

    fn power_on(&mut self, now: Nanos) {
        self.clock.advance_to(now);
        self.power_is_on = true;
    }
}

fn range_of(part: &Option<FlashPart>) -> std::ops::Range<u32> {
    let range =
        |part: &FlashPart| part.first_byte..part.first_byte + to_u32(part.buffer.len() as u64);
    part.as_ref().map_or(0..0, range)
}

fn piece_of(part: &Option<FlashPart>) -> Piece<'_> {
    part.as_ref().map_or_else(Piece::default, |part| Piece {
        first_byte: part.first_byte,
        bytes: &part.buffer,
    })
}

/// The law of the chips in the words of the contract.
fn flash_error(error: NandError) -> FlashError {
    let number = |erase_block: u64| to_u32(erase_block);
    match error {
        NandError::OutOfRange { what, index, count } => {
            FlashError::OutOfRange { what, index, count }
        }
        NandError::NotErased { flash_page } => FlashError::NotErased { flash_page },
        NandError::ProgramOrder { flash_page, next_index } => {
            FlashError::ProgramOrder { flash_page, next_index }
        }
        NandError::PartialProgramLimit { flash_page, limit } => {
            FlashError::ProgramLimit { flash_page, limit }
        }
        NandError::BadEraseBlock { erase_block } => {
            FlashError::BadEraseBlock { erase_block: number(erase_block) }
        }
        NandError::WornOut { erase_block, .. } => {
            FlashError::WornOut { erase_block: number(erase_block) }
        }
        NandError::Torn { flash_page } => FlashError::Torn { flash_page },
        NandError::TornEraseBlock { erase_block } => {
            FlashError::TornEraseBlock { erase_block: number(erase_block) }
        }
        NandError::PowerLost => FlashError::PowerLost,
        other => FlashError::Internal { what: other.to_string() },
    }
}
