//! Raw flash as a propagation holds it, with the engine's clock.
//!
//! 1. A request is issued at the present of whoever issues it: a worker's, else the engine's, which each
//!    completion brings forward. Whoever waits leaves the chips to others meanwhile.
//! 2. Every request is waited for once, by its ticket.
//! 3. Nothing waits in memory for its place, so nothing is lost unseen as after a sync that failed: a
//!    program that failed is told to its owner alone, and the chips stay in use.

use nandu_base::{Cause, Nanos};
use nandu_device::raw_flash::{
    FlashCommand, FlashCompletion, FlashError, FlashInfo, FlashRejected, FlashRequest,
};
use nandu_device::{Counters, FlashUse, RawFlash};
use nandu_workers::sync::{Mutex, MutexGuard};
use nandu_workers::{EventSource, is_worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Chips that parts of a propagation hold, and the engine's clock.
#[derive(Clone)]
pub struct FlashIo {
    shared: Arc<Shared>,
    /// The same, as workers wait for it.
    source: Arc<dyn EventSource>,
    /// So many erase blocks, the first ones, look bad by this handle.
    kept_count: u32,
}

struct Shared {
    state: Mutex<State>,
    info: FlashInfo,
    clock: Arc<AtomicU64>,
}

/// The chips, and the completions that nobody fetched yet.
struct State {
    chips: Box<dyn RawFlash + Send>,
    arrived: Vec<FlashCompletion>,
    next_ticket: u64,
}

impl std::fmt::Debug for FlashIo {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "FlashIo({})", self.info().name)
    }
}

impl EventSource for Shared {
    fn next_completion(&self, until: Nanos) -> Option<(u64, Nanos)> {
        self.fetch(&mut self.state.lock(), until)
    }
}

impl Shared {
    /// Takes in the completion that comes next, if one comes at or before `until`.
    fn fetch(&self, state: &mut State, until: Nanos) -> Option<(u64, Nanos)> {
        let completion = state.chips.next_completion(until)?;
        let told = (completion.id, completion.completed_at);
        self.clock.fetch_max(told.1.0, Ordering::Relaxed);
        state.arrived.push(completion);
        Some(told)
    }
}

impl FlashIo {
    /// Shares `chips`. All media of one engine have the same `clock`.
    #[must_use]
    pub fn new(chips: Box<dyn RawFlash + Send>, clock: Arc<AtomicU64>) -> Self {
        clock.fetch_max(chips.now().0, Ordering::Relaxed);
        let info = chips.info().clone();
        let state = Mutex::new(State { chips, arrived: Vec::new(), next_ticket: 0 });
        let shared = Arc::new(Shared { state, info, clock });
        Self { source: Arc::<Shared>::clone(&shared), shared, kept_count: 0 }
    }

    /// The same chips, of which so many erase blocks, the first ones, are somebody else's: by this handle
    /// they are bad.
    pub(super) fn without_first_blocks(self, kept_count: u32) -> Self {
        Self { kept_count, ..self }
    }

    /// What it is and by which laws.
    #[must_use]
    pub fn info(&self) -> &FlashInfo {
        &self.shared.info
    }

    /// Whether an erase block is bad: see [`RawFlash::is_bad`].
    #[must_use]
    pub fn is_bad(&self, erase_block: u32) -> bool {
        erase_block < self.kept_count || self.shared.state.lock().chips.is_bad(erase_block)
    }

    /// Commands by cause, and wear.
    #[must_use]
    pub fn counters(&self) -> FlashUse {
        self.shared.state.lock().chips.counters()
    }

    /// Adds what was done to the chips to what was done to the flash of a device. Nothing below the engine
    /// programs these by itself, so each flash page counts as written by it.
    pub fn add_to(&self, counters: &mut Counters) {
        let mut flash = self.counters();
        flash.commands.host_write_pages = flash.commands.programmed_pages();
        counters.flash = Some(counters.flash.map_or(flash, |other| other.with(&flash)));
    }

    /// The present: that of the worker who asks, or what the engine's clock says.
    #[must_use]
    pub fn now(&self) -> Nanos {
        let clock = || Nanos(self.shared.clock.load(Ordering::Relaxed));
        nandu_workers::now().unwrap_or_else(clock)
    }

    /// Issues a command, counted under `cause`, once there is room for it, and gives back the ticket to wait
    /// for.
    ///
    /// # Errors
    /// If it breaks a law of the chips, with the law and the command.
    pub fn submit(&self, cause: Cause, command: FlashCommand) -> Result<u64, FlashRejected> {
        if let Some(erase_block) = self.kept_block(&command) {
            let request = Box::new(FlashRequest { id: 0, cause, command });
            return Err(FlashRejected {
                request,
                error: FlashError::BadEraseBlock { erase_block },
            });
        }
        let mut state = self.shared.state.lock();
        while state.chips.in_flight() >= self.info().queue_depth_max {
            state = self.let_one_come(state, (0, 0));
        }
        state.next_ticket += 1;
        let id = state.next_ticket;
        let now = self.now();
        state.chips.submit(now, FlashRequest { id, cause, command })?;
        Ok(id)
    }

    /// The erase block that a command would change, if it is somebody else's.
    fn kept_block(&self, command: &FlashCommand) -> Option<u32> {
        let geometry = &self.info().geometry;
        match command {
            FlashCommand::Read { .. } => None,
            FlashCommand::Program { flash_page, .. } => {
                let is_kept = flash_page.0 < geometry.flash_page(self.kept_count, 0).0;
                is_kept.then(|| geometry.locate(*flash_page).0)
            }
            FlashCommand::Erase { erase_block } => {
                (*erase_block < self.kept_count).then_some(*erase_block)
            }
        }
    }

    /// Waits for the command with this ticket.
    ///
    /// # Panics
    /// If nothing with this ticket is in flight: somebody waits twice.
    #[must_use]
    pub fn wait(&self, ticket: u64) -> FlashCompletion {
        let mut state = self.shared.state.lock();
        loop {
            if let Some(index) = state.arrived.iter().position(|arrived| arrived.id == ticket) {
                return state.arrived.swap_remove(index);
            }
            assert!(state.chips.in_flight() > 0, "whoever waits has a command in flight");
            state = self.let_one_come(state, (ticket, u64::MAX));
        }
    }

    /// Waits for a completion, a worker for one whose ticket has those bits that the mask, the second half of
    /// `ticket`, names.
    fn let_one_come<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        ticket: (u64, u64),
    ) -> MutexGuard<'a, State> {
        if is_worker() {
            drop(state);
            nandu_workers::wait_for(&self.source, ticket.0, ticket.1);
            return self.shared.state.lock();
        }
        self.shared.fetch(&mut state, Nanos::MAX);
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::propagation::shared_flash::SharedFlash;
    use nandu_base::Ppn;
    use nandu_device::raw_flash::FlashPart;
    use nandu_workers::{Schedule, Work};

    fn program(page: u64, byte: u8) -> FlashCommand {
        let data = Some(FlashPart::copy_of(0, &[byte; 512]));
        FlashCommand::Program { flash_page: Ppn(page), data, spare: None }
    }

    fn read(page: u64) -> FlashCommand {
        FlashCommand::Read {
            flash_page: Ppn(page),
            data: Some(FlashPart::room(0, 512)),
            spare: None,
        }
    }

    fn first_byte(done: FlashCompletion) -> u8 {
        done.result.unwrap();
        let FlashCommand::Read { data, .. } = done.command else { panic!("it was a read") };
        data.unwrap().buffer[0]
    }

    #[test]
    fn whoever_waits_gets_his_own_and_the_engine_s_clock_goes_along() {
        let clock = Arc::new(AtomicU64::new(5_000));
        let chips = FlashIo::new(Box::new(SharedFlash::new()), Arc::clone(&clock));
        let tickets = [0, 8, 16].map(|page| chips.submit(Cause::Log, program(page.into(), page)));
        for ticket in tickets.into_iter().rev() {
            let done = chips.wait(ticket.unwrap());
            assert_eq!((done.issued_at, done.result), (Nanos(5_000), Ok(())));
            assert!(chips.now() >= done.completed_at);
        }
        assert!(clock.load(Ordering::Relaxed) > 5_000);
        let tickets = [16, 0].map(|page| chips.submit(Cause::Log, read(page)).unwrap());
        assert_eq!(tickets.map(|ticket| first_byte(chips.wait(ticket))), [16, 0]);
        let refused = chips.submit(Cause::Log, program(1 << 40, 0)).unwrap_err();
        assert!(matches!(refused.error, FlashError::OutOfRange { .. }), "{refused}");
    }

    #[test]
    fn more_than_the_queue_holds_waits_for_room() {
        let chips = FlashIo::new(Box::new(SharedFlash::new()), Arc::default());
        let count = u64::from(chips.info().queue_depth_max) * 3;
        let tickets: Vec<u64> =
            (0..count).map(|page| chips.submit(Cause::Host, program(page, 1)).unwrap()).collect();
        tickets.into_iter().for_each(|ticket| assert_eq!(chips.wait(ticket).result, Ok(())));
    }

    #[test]
    fn workers_wait_beside_each_other() {
        let run = |worker_count: u64| {
            let chips = FlashIo::new(Box::new(SharedFlash::new()), Arc::default());
            let work = |worker: u64| -> Work<()> {
                let chips = chips.clone();
                Box::new(move || {
                    for page in worker * 8..worker * 8 + 4 {
                        let ticket = chips.submit(Cause::Host, program(page, 1)).unwrap();
                        assert_eq!(chips.wait(ticket).result, Ok(()));
                    }
                })
            };
            let schedule = Schedule { cores: 1, ..Schedule::default() };
            schedule.run((0..worker_count).map(work).collect()).end
        };
        assert!(run(1) > Nanos::ZERO);
        assert_eq!(run(2), run(1), "two dies work at once");
        assert_eq!(run(4), Nanos(2 * run(1).0), "and two workers share each");
    }
}
