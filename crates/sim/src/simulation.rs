//! A translation layer straight over a chip array, fed by a source of requests: no controller, no
//! link, no host. What a request costs is what flash makes it cost.
//!
//! ```text
//!   RequestSource ─ batches ─▶ Driver (closed | event) ─▶ Engine ─▶ Ftl ─▶ NandArray
//!                                   ▲                                         │
//!               Recorder, Shadow ◀──┴──────── tickets that have ended ◀───────┘
//! ```
//!
//! 1. Every request that the source gives is served exactly once, or the run ends with an error.
//! 2. Requests reach the layer in the order of their arrival.
//! 3. What is measured starts when everything before it is done.

use crate::buffer::WriteBuffer;
use crate::cache::{CacheUse, UnitCache};
use crate::closed::SingleServer;
use crate::driver::{Driver, Timing};
use crate::engine::{Engine, HostCounts};
use crate::event::Window;
use crate::recorder::Recorder;
use crate::shadow::{Baseline, Shadow, audit};
use crate::utilisation::Books;
use crate::{Arrivals, CheckSummary, InitialState, Mode, Phase, RunConfig, SimError, SimObserver};
use nandu_base::{FlashCounters, LatencySummary, Nanos, to_u32};
use nandu_device::{EnergyParts, PowerCourse, WattsOverTime};
use nandu_ftl::{Ftl, MapCacheCounts, MergeCounts, StreamHold};
use nandu_nand::{NandArray, Scheduling, Service, Usage};
use nandu_trace::{Pacing, RequestSource, TraceRequest};
use std::collections::BTreeMap;

/// Requests that are fetched together.
const BATCH: usize = 1024;
/// Batches between two looks at the observer.
const BATCHES_PER_LOOK: u64 = 64;
/// Requests between two audits, where checks are on.
const AUDIT_PERIOD: u64 = 1 << 18;

/// A drive that is being simulated.
#[derive(Debug)]
pub struct Simulation {
    engine: Engine,
    config: RunConfig,
    /// Before it everything is done.
    now: Nanos,
    warm_up_units: u64,
    /// How dies and channels had been used when the last pass was done.
    usage: Usage,
    /// When the last request of the last pass was done.
    last_done: Nanos,
}

/// What was measured; [`crate::SimReport`] makes figures of it.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Requests of all kinds.
    pub request_count: u64,
    pub(crate) host: HostCounts,
    /// Commands to the chips, by operation and cause.
    pub counters: FlashCounters,
    /// Response times by operation.
    pub latency_ns: BTreeMap<String, LatencySummary>,
    /// Erases of each erase block.
    pub erase_counts: Vec<u64>,
    /// Energy of the chips, by part.
    pub energy: EnergyParts,
    /// How their power went; none where no time passed.
    pub watts_over_time: Option<WattsOverTime>,
    /// From the first start to the last completion.
    pub simulated: Nanos,
    /// Time that dies were busy, summed over the dies.
    pub busy: Nanos,
    /// How dies and channels were used in the event mode, until the last completion.
    pub usage: Usage,
    /// Merges, of a layer that merges.
    pub merges: Option<MergeCounts>,
    /// What a cached map did.
    pub map_cache: Option<MapCacheCounts>,
    /// What streams with shares hold at the end.
    pub stream_holds: Vec<StreamHold>,
    /// Requests in flight at most; 1 in the closed mode.
    pub queue_depth: u32,
    /// From the first arrival to the last, where arrivals count.
    pub arrival_span: Option<Nanos>,
    /// What the controller's cache did.
    pub cache: Option<CacheUse>,
    /// What the checks compared.
    pub checks: Option<CheckSummary>,
}

/// What a pass went through.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    request_count: u64,
    /// Where arrivals count.
    arrival_span: Option<Nanos>,
}

/// When a pass over a source ends, and what it is called.
#[derive(Clone, Copy)]
struct Pass {
    phase: Phase,
    arrivals: Arrivals,
    request_limit: u64,
    write_unit_limit: u64,
}

impl Simulation {
    /// A simulation of `ftl` over the array that it was built on, prepared as `config` says (in
    /// order by default), but not warmed up. [`InitialState::ByStream`] leaves it empty for
    /// [`Self::fill_by_stream`]. Checks need an array that keeps content.
    ///
    /// # Errors
    /// [`SimError::Preparation`] if the layer cannot be filled, [`SimError::Setting`] if a setting is
    /// out of range.
    pub fn new(nand: NandArray, ftl: Box<dyn Ftl>, config: &RunConfig) -> Result<Self, SimError> {
        Self::check(config)?;
        if config.checks && !nand.config().keep_content {
            let text = "checks compare content, but the array does not keep it";
            return Err(SimError::Setting(text.into()));
        }
        let mut nand = nand;
        nand.set_scheduling(Scheduling {
            service: match config.mode {
                Mode::Closed => Service::SingleServer,
                Mode::Event => Service::Parallel,
            },
            read_priority: config.read_priority,
            suspend: config.suspend,
            bus: config.bus,
        });
        if !config.checks {
            nand.forget_sequences();
        }
        let mut engine = Engine::new(nand, ftl);
        if config.checks {
            engine.shadow = Some(Shadow::new(engine.ftl.unit_count()));
        }
        if config.write_buffer_units > 0 {
            engine.buffer = Some(WriteBuffer::new(config.write_buffer_units));
        }
        if config.cache_units > 0 {
            let unit_count = u32::try_from(engine.ftl.unit_count()).unwrap_or(u32::MAX);
            // More than the drive has can never be held.
            engine.cache = Some(UnitCache::new(config.cache_units.min(unit_count)));
        }
        let Engine { ftl, nand, .. } = &mut engine;
        let filled = match config.initial {
            Some(InitialState::Fresh | InitialState::ByStream) => Ok(()),
            None | Some(InitialState::Sequential) => ftl.initialise_sequential(nand),
            Some(InitialState::Steady) => ftl.initialise_steady(nand, config.seed),
        };
        filled.map_err(SimError::Preparation)?;
        let usage = engine.nand.usage();
        Ok(Self {
            engine,
            config: *config,
            now: Nanos::ZERO,
            warm_up_units: 0,
            usage,
            last_done: Nanos::ZERO,
        })
    }

    /// Whether settings make sense together, for any drive.
    pub(crate) fn check(config: &RunConfig) -> Result<(), SimError> {
        let fail = |text: &str| Err(SimError::Setting(text.into()));
        if config.queue_depth == 0 {
            return fail("queue_depth is 0, must be at least 1");
        }
        if config.mode == Mode::Closed && config.write_buffer_units > 0 {
            return fail("a write buffer needs the event mode; add --mode event");
        }
        if config.cache_units > 0 && config.write_buffer_units > 0 {
            return fail("the cache is a write buffer that merges; give one of both");
        }
        if config.mode == Mode::Closed && (config.read_priority || config.suspend.is_some()) {
            return fail("read priority and suspension need the event mode; add --mode event");
        }
        if config.suspend.is_some() && !config.read_priority {
            return fail("suspension is for reads that have priority; add --read-priority");
        }
        Ok(())
    }

    /// Fills an empty drive in order, each unit in its stream of `streams`, without time or counts.
    ///
    /// # Errors
    /// [`SimError::Preparation`] if the layer cannot be filled.
    pub fn fill_by_stream(&mut self, streams: &[u8]) -> Result<(), SimError> {
        let Engine { ftl, nand, .. } = &mut self.engine;
        ftl.initialise_by_stream(nand, streams).map_err(SimError::Preparation)?;
        self.usage = nand.usage();
        Ok(())
    }

    /// The layer's addressable space.
    #[must_use]
    pub const fn capacity_bytes(&self) -> u64 {
        self.engine.capacity_bytes()
    }

    /// Bytes of a mapping unit.
    #[must_use]
    pub const fn unit_bytes(&self) -> u32 {
        self.engine.unit_bytes()
    }

    /// The array of chips below the layer.
    #[must_use]
    pub const fn nand(&self) -> &NandArray {
        &self.engine.nand
    }

    /// The translation layer that is simulated.
    #[must_use]
    pub fn ftl(&self) -> &dyn Ftl {
        &*self.engine.ftl
    }

    /// Units written by [`Self::warm_up`].
    #[must_use]
    pub const fn warm_up_units(&self) -> u64 {
        self.warm_up_units
    }

    /// Runs requests of `source` until `unit_count` units have been written, or as long as it has
    /// some. A source that only reads ends at once, since reading changes nothing.
    ///
    /// # Errors
    /// As [`Self::measure`].
    pub fn warm_up(
        &mut self,
        source: &mut dyn RequestSource,
        unit_count: u64,
        observer: &mut dyn SimObserver,
    ) -> Result<(), SimError> {
        let before = self.engine.host.write_units;
        let pass = Pass {
            phase: Phase::WarmUp,
            arrivals: Arrivals::Closed,
            request_limit: u64::MAX,
            write_unit_limit: before.saturating_add(unit_count),
        };
        self.pass(source, pass, (&mut Recorder::default(), None), observer)?;
        self.warm_up_units += self.engine.host.write_units - before;
        Ok(())
    }

    /// Runs at most `request_limit` requests of `source` and measures them.
    ///
    /// # Errors
    /// If the source fails, a request ends past the drive, the layer refuses one, a check finds a
    /// fault, or the observer stops it.
    pub fn measure(
        &mut self,
        source: &mut dyn RequestSource,
        request_limit: u64,
        observer: &mut dyn SimObserver,
    ) -> Result<Measurement, SimError> {
        let baseline = Baseline::of(&self.engine);
        let erases_before = self.erase_counts();
        let (energy, busy) = (self.energy(), self.engine.nand.busy());
        let usage = self.engine.nand.usage();
        let (merges, map_cache) = (self.engine.ftl.merges(), self.engine.ftl.map_cache());
        let is_event = self.config.mode == Mode::Event;
        let books = (self.config.checks && is_event).then(|| Books::of(&mut self.engine));
        let started_at = self.now;
        let mut course = PowerCourse::begin(started_at, energy.total());
        let mut recorder = Recorder::default();
        let arrivals = self.config.arrivals;
        let phase = Phase::Measure;
        let pass = Pass { phase, arrivals, request_limit, write_unit_limit: u64::MAX };
        let passed = self.pass(source, pass, (&mut recorder, Some(&mut course)), observer)?;
        if self.config.checks {
            audit(&mut self.engine, &baseline).map_err(SimError::Check)?;
        }
        if let Some(earlier) = books {
            let books = Books::of(&mut self.engine);
            let checked = books.check_since(&earlier, self.engine.nand.config());
            checked.map_err(SimError::Check)?;
        }
        let erase_counts = self.erase_counts();
        Ok(Measurement {
            request_count: passed.request_count,
            host: self.engine.host.since(&baseline.host),
            counters: self.engine.nand.counters().since(&baseline.counters),
            latency_ns: recorder.summaries(),
            erase_counts: erase_counts.iter().zip(&erases_before).map(|(a, b)| a - b).collect(),
            energy: self.energy().since(&energy),
            watts_over_time: course.watts(self.last_done, self.energy().total()),
            simulated: self.last_done - started_at,
            busy: self.engine.nand.busy() - busy,
            usage: if is_event { self.usage.since(&usage) } else { Usage::default() },
            merges: self.engine.ftl.merges().zip(merges).map(|(now, then)| now.since(&then)),
            map_cache: self
                .engine
                .ftl
                .map_cache()
                .zip(map_cache)
                .map(|(now, then)| now.since(&then)),
            stream_holds: self.engine.ftl.stream_holds(),
            queue_depth: if is_event { self.config.queue_depth } else { 1 },
            arrival_span: passed.arrival_span,
            cache: self.engine.cache_use().map(|now| now.since(&baseline.cache)),
            checks: self.engine.shadow.as_ref().map(Shadow::summary),
        })
    }

    /// What the chips have used.
    fn energy(&self) -> EnergyParts {
        let chips = self.engine.nand.chip_energy();
        EnergyParts {
            cells: chips.cells,
            erase: chips.erase,
            transfer: chips.transfer,
            ..EnergyParts::default()
        }
    }

    /// Of all erase blocks but those that came bad, in order.
    fn erase_counts(&self) -> Vec<u64> {
        let nand = &self.engine.nand;
        let blocks = 0..to_u32(u64::from(nand.geometry().erase_block_count()));
        let came_bad = nand.config().rules.factory_bad();
        let usable = blocks.zip(came_bad).filter(|(_, bad)| !bad);
        usable.map(|(block, _)| u64::from(nand.erase_count(block))).collect()
    }

    fn pass(
        &mut self,
        source: &mut dyn RequestSource,
        pass: Pass,
        watchers: (&mut Recorder, Option<&mut PowerCourse>),
        observer: &mut dyn SimObserver,
    ) -> Result<Passed, SimError> {
        match self.config.mode {
            Mode::Closed => {
                let server = SingleServer::new(self.now);
                self.pass_through(server, source, pass, watchers, observer)
            }
            Mode::Event => {
                self.engine.nand.at(self.now);
                let window = Window::new(self.config.queue_depth, self.now, self.config.checks);
                self.pass_through(window, source, pass, watchers, observer)
            }
        }
    }

    fn pass_through<D: Driver>(
        &mut self,
        mut driver: D,
        source: &mut dyn RequestSource,
        pass: Pass,
        (recorder, mut course): (&mut Recorder, Option<&mut PowerCourse>),
        observer: &mut dyn SimObserver,
    ) -> Result<Passed, SimError> {
        let baseline = self.config.checks.then(|| Baseline::of(&self.engine));
        let mut batch = Vec::with_capacity(BATCH);
        let (mut count, mut next_audit) = (0, AUDIT_PERIOD);
        let (mut timing, mut arrival_span) = (None, None);
        let writes_at_first = self.engine.host.write_units;
        for round in 0_u64.. {
            let left =
                usize::try_from(pass.request_limit.saturating_sub(count)).unwrap_or(usize::MAX);
            let units_left = pass.write_unit_limit.saturating_sub(self.engine.host.write_units);
            let units_left = usize::try_from(units_left).unwrap_or(usize::MAX);
            batch.clear();
            if left == 0 || units_left == 0 {
                break;
            }
            let taken = source.next_batch(&mut batch, BATCH.min(left).min(units_left));
            if (taken.is_err() || batch.is_empty()) && observer.is_cancelled() {
                return Err(SimError::Cancelled);
            }
            taken?;
            if batch.is_empty() {
                break;
            }
            let timing = *timing.get_or_insert_with(|| self.timing_of(source, &batch, pass));
            let is_late = |request: &TraceRequest| timing.arrival_of(request) > Nanos::HORIZON;
            if timing.arrivals_count
                && let Some(late) = batch.iter().position(is_late)
            {
                return Err(SimError::TooLate { request: count + late as u64 + 1 });
            }
            driver.run_batch(&mut self.engine, &batch, (timing, count), recorder)?;
            if driver.reached(&self.engine) > Nanos::HORIZON {
                return Err(SimError::TooLate { request: count + batch.len() as u64 });
            }
            count += batch.len() as u64;
            let reached = driver.reached(&self.engine);
            if let Some(course) = course.as_mut().filter(|course| course.is_due(reached)) {
                course.read(reached, self.engine.nand.energy());
            }
            if let (true, Some(last)) = (timing.arrivals_count, batch.last()) {
                arrival_span = Some(timing.arrival_of(last) - timing.origin);
            }
            if let Some(baseline) = baseline.as_ref().filter(|_| count >= next_audit) {
                audit(&mut self.engine, baseline).map_err(SimError::Check)?;
                next_audit = count + AUDIT_PERIOD;
            }
            if round % BATCHES_PER_LOOK == 0 {
                if observer.is_cancelled() {
                    return Err(SimError::Cancelled);
                }
                let (done, total) = match pass.phase {
                    Phase::WarmUp => {
                        let done = self.engine.host.write_units - writes_at_first;
                        (done, pass.write_unit_limit - writes_at_first)
                    }
                    Phase::Measure => (count, pass.request_limit),
                };
                observer.progress(pass.phase, done, if total == u64::MAX { 0 } else { total });
            }
            let only_reads = self.engine.host.write_units == writes_at_first;
            if pass.phase == Phase::WarmUp && only_reads && round == BATCHES_PER_LOOK {
                break;
            }
        }
        self.last_done = driver.drain(&mut self.engine, recorder)?.max(self.now);
        self.usage = self.engine.nand.usage();
        // Invariant 3: what goes on behind the last completion is none of the next pass.
        self.now = match self.config.mode {
            Mode::Closed => self.last_done,
            Mode::Event => self.engine.nand.idle_at().max(self.last_done),
        };
        Ok(Passed { request_count: count, arrival_span })
    }

    /// How the times of a source are taken, whose first requests are `first`.
    fn timing_of(&self, source: &dyn RequestSource, first: &[TraceRequest], pass: Pass) -> Timing {
        let (arrivals_count, think) = match (pass.arrivals, source.pacing()) {
            (Arrivals::Auto, Pacing::Closed { think_ns }) => (false, think_ns),
            (Arrivals::Closed, _) => (false, Nanos::ZERO),
            _ => (true, Nanos::ZERO),
        };
        let first_at = first.first().map_or(Nanos::ZERO, |request| request.at);
        let works_in_background = self.config.background && arrivals_count;
        Timing { origin: self.now, first_at, arrivals_count, think, works_in_background }
    }
}
