//! Clients at work: each has its own stream of operations, and they share a database.
//!
//! 1. Operations are dealt out evenly beforehand, so each client knows how many are its own.
//! 2. A client that fails ends the run: the others stop after the operation at hand.
//! 3. Servers do what clients leave to them, and end when all clients are gone and nothing is left. The run
//!    lasts until then.
//! 4. Rates, energy and what devices did are of one span: from the first operation that was due to the end of
//!    the last, or of what a server did last.

use crate::error::BenchError;
use nandu_base::words::counted;
use nandu_base::{FlashCounters, FlashOperation, LatencyHistogram, LatencySummary, Nanos};
use nandu_device::{Counters, EnergyParts, EnergyReport, PowerLog, TimeSource};
use nandu_storage::pool::PoolCounters;
use nandu_storage::{Database, StorageError};
use nandu_workers::{Schedule, SwitchKind, Work};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Parts of a run of which the rate is told, and of the time that passes in it.
const WINDOW_COUNT: usize = 20;
/// How long a thread thinks before it looks whether to stop.
const THOUGHT_NS_MAX: u64 = 50_000_000;

/// How often who looks on is asked whether to go on.
const LOOK: Duration = Duration::from_millis(50);

/// What clients do. One value serves all; each client has its own state.
pub trait Load: Send + Sync {
    /// The kinds of operation, by the number that [`Client::operate`] answers with.
    fn kinds(&self) -> &'static [&'static str];

    /// The client of this number, from 0.
    fn client(&self, number: u32) -> Box<dyn Client>;

    /// How many servers do what clients leave to them.
    fn server_count(&self) -> u32 {
        0
    }

    /// The server of this number, from 0.
    fn server(&self, number: u32) -> Box<dyn Server> {
        unreachable!("there is no server {number}")
    }

    /// All clients are gone: servers end with what is left.
    fn close(&self) {}
}

/// One client of a load.
pub trait Client: Send {
    /// Does its next operation, which is due at `due`, and says of which kind it was.
    ///
    /// # Errors
    /// If the database fails.
    fn operate(&mut self, database: &Database, due: Nanos) -> Result<usize, BenchError>;

    /// What it waits after the operation at hand, beside the plan's time to think.
    fn pause(&mut self) -> Nanos {
        Nanos::ZERO
    }
}

/// Who does what clients do not wait for.
pub trait Server: Send {
    /// Waits for the next thing to do and does it. Says of which kind it was, and since when it was due;
    /// `None` when nothing will come any more.
    ///
    /// # Errors
    /// If the database fails.
    fn serve(&mut self, database: &Database) -> Result<Option<(usize, Nanos)>, BenchError>;
}

/// How a load is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Operations of all clients together.
    pub operation_count: u64,
    /// How many clients there are, from 1.
    pub client_count: u32,
    /// How many of them compute at once, on a virtual clock.
    pub core_count: u32,
    /// What the processor takes for an operation, on a virtual clock.
    pub processor_time: Nanos,
    /// What a client waits between its operations. The next one is due then, whenever it comes to it.
    pub think_time: Nanos,
    /// How workers switch, on a virtual clock.
    pub switch_kind: SwitchKind,
}

/// How far a run is, and whether it should stop; shared with whoever looks on.
#[derive(Debug, Default)]
pub struct Watch {
    done_count: AtomicU64,
    should_stop: AtomicBool,
    power: Option<PowerLog>,
}

/// A wall clock, for databases on real disks.
pub type Clock = Arc<dyn Fn() -> Nanos + Send + Sync>;

/// What one kind of operation took.
#[derive(Clone, Debug, Serialize)]
pub struct OperationOutcome {
    /// Which kind of operation it was, as the load names it.
    pub kind: &'static str,
    /// From when each was due to its end, in nanoseconds.
    pub latency_ns: LatencySummary,
}

/// What the device of a log was asked, where no pages lie on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LogDeviceOutcome {
    /// Requests that wrote.
    pub write_count: u64,
    /// Bytes that they wrote.
    pub written_bytes: u64,
    /// How often it was made to flush; on a memory that is written by lines, fences.
    pub flush_count: u64,
    /// Of a memory that wears out: how often its lines were written.
    pub line_write_count: Option<u64>,
    /// How often the line was that was written most, since the drive was made.
    pub most_written_count: Option<u64>,
}

impl LogDeviceOutcome {
    fn between(before: &Counters, after: &Counters) -> Self {
        let line_writes = |counters: &Counters| counters.lines.map(|lines| lines.write_count);
        Self {
            write_count: after.writes.request_count - before.writes.request_count,
            written_bytes: after.writes.byte_count - before.writes.byte_count,
            flush_count: after.flushes.request_count - before.flushes.request_count,
            line_write_count: line_writes(after).zip(line_writes(before)).map(|(a, b)| a - b),
            most_written_count: after.lines.map(|lines| lines.most_written_count),
        }
    }
}

/// What came of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Operations that were done.
    pub operation_count: u64,
    /// From the first that was due to the end of the last, or of what was left to servers, in nanoseconds.
    pub elapsed_ns: u64,
    /// Operations per second.
    pub operations_per_second: f64,
    /// The same in each twentieth of the time.
    pub operations_per_second_over_time: Vec<f64>,
    /// Each kind of operation that there was.
    pub operations: Vec<OperationOutcome>,
    /// Pages that were wanted and in the pool.
    pub pool_hit_count: u64,
    /// Pages that were wanted and had to be read.
    pub pool_miss_count: u64,
    /// Bytes that the log grew by.
    pub log_bytes: u64,
    /// Bytes that the database read from its devices, the log included; on a disk without what threads
    /// read past the queue, which nobody counts.
    pub read_bytes: u64,
    /// Bytes that it wrote to them.
    pub written_bytes: u64,
    /// Requests that read, as `read_bytes` counts them.
    pub read_count: u64,
    /// Requests that wrote.
    pub write_count: u64,
    /// How often it made them flush.
    pub flush_count: u64,
    /// What of that was the log's, where it has a device of its own.
    pub log_device: Option<LogDeviceOutcome>,
    /// Energy that the devices took, where all of them model it, in picojoules; absent where these do not
    /// fit into 64 bits, from 18 MJ on: `energy` has them.
    pub energy_pj: Option<u64>,
    /// The same by part, with what it was good for.
    pub energy: Option<EnergyReport>,
    /// Flash pages that were programmed, erase blocks that were erased, and the former for each that the
    /// database wrote; absent without flash.
    pub flash: Option<FlashOutcome>,
    /// A hash of when each operation of each client ended: the same for the same run on a virtual clock.
    pub history: String,
    /// How often a worker got its turn, on a virtual clock.
    pub switch_count: Option<u64>,
    /// Whether it was stopped before all was done.
    pub was_stopped: bool,
}

/// What a run did to flash, copies and everything included.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FlashOutcome {
    /// Flash pages that were programmed.
    pub program_count: u64,
    /// Erase blocks that were erased.
    pub erase_count: u64,
    /// Flash pages programmed for each that the database wrote; absent where it wrote none.
    pub write_amplification: Option<f64>,
}

impl FlashOutcome {
    /// What these commands come to.
    pub(crate) fn of(commands: &FlashCounters) -> Self {
        Self {
            program_count: commands.programmed_pages(),
            erase_count: commands.total(FlashOperation::Erase),
            write_amplification: (commands.host_write_pages > 0)
                .then(|| commands.write_amplification()),
        }
    }
}

impl Watch {
    /// One that has a run tell watts over time, out of what a metered device tells `power`.
    #[must_use]
    pub fn with_power(power: PowerLog) -> Self {
        Self { power: Some(power), ..Self::default() }
    }

    /// How many operations were done.
    #[must_use]
    pub fn done_count(&self) -> u64 {
        self.done_count.load(Ordering::Relaxed)
    }

    /// Has all clients stop after the operation at hand.
    pub fn stop(&self) {
        self.should_stop.store(true, Ordering::Relaxed);
    }
}

/// What one client saw.
struct Seen {
    /// By kind, once there was one: a histogram takes more memory than many clients have.
    latencies: Vec<Option<LatencyHistogram>>,
    /// When each operation ended.
    ends: Vec<Nanos>,
    /// When each thing ended that a server did.
    served_ends: Vec<Nanos>,
    result: Result<(), BenchError>,
}

impl Seen {
    fn new(load: &dyn Load, own_count: u64) -> Self {
        Self {
            latencies: load.kinds().iter().map(|_| None).collect(),
            ends: Vec::with_capacity(nandu_base::to_index(own_count.min(1 << 16))),
            served_ends: Vec::new(),
            result: Ok(()),
        }
    }

    fn record(&mut self, kind: usize, latency: Nanos) {
        self.latencies[kind].get_or_insert_with(LatencyHistogram::new).record(latency);
    }
}

/// The clients that are at work: the last one that leaves closes the load.
struct Attendance {
    load: Arc<dyn Load>,
    client_count: AtomicU32,
}

/// A client that leaves when this is dropped, well or not.
struct Attending(Arc<Attendance>);

impl Drop for Attending {
    fn drop(&mut self) {
        if self.0.client_count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.load.close();
        }
    }
}

/// Runs `load` to its end, or until the watch stops it. `clock` is the present of a database whose
/// devices run on a wall clock; the others have their own.
///
/// # Errors
/// The first that a client met, by its number.
pub fn run(
    database: &Database,
    load: &Arc<dyn Load>,
    plan: &Plan,
    watch: &Arc<Watch>,
    clock: &Clock,
) -> Result<Outcome, BenchError> {
    let io = database.read().engine().data_io();
    let before = Levels::of(database);
    let is_virtual = io.time_source() == TimeSource::Virtual;
    let start = if is_virtual { io.now() } else { clock() };
    if let (Some(power), Some(energy)) = (&watch.power, before.energy()) {
        power.begin(start, energy.total());
    }
    let client_count = AtomicU32::new(plan.client_count);
    let attendance = Arc::new(Attendance { load: Arc::clone(load), client_count });
    let works = (0..plan.client_count + load.server_count()).map(|number| -> Work<Seen> {
        let (database, load, watch) = (database.clone(), Arc::clone(load), Arc::clone(watch));
        let (plan, clock) = (*plan, Arc::clone(clock));
        let attendance = Arc::clone(&attendance);
        Box::new(move || {
            let present: Clock = match is_virtual {
                true => Arc::new(|| nandu_workers::now().unwrap_or_default()),
                false => clock,
            };
            if number >= plan.client_count {
                return serve(&database, load.as_ref(), number, &plan, &watch, &present);
            }
            let _attending = Attending(attendance);
            work(&database, load.as_ref(), number, &plan, &watch, &present)
        })
    });
    let (seen, switch_count) = if is_virtual {
        let kind = plan.switch_kind;
        let schedule = Schedule { cores: plan.core_count, start, kind, ..Schedule::default() };
        let ran = schedule.run(works.collect());
        io.pass_until(ran.end);
        (ran.values, Some(ran.switch_count))
    } else {
        (on_threads(works, watch, load.as_ref())?, None)
    };
    let after = Levels::of(database);
    let mut outcome = told(load.kinds(), start, seen)?;
    outcome.switch_count = switch_count;
    outcome.was_stopped = outcome.operation_count < plan.operation_count;
    before.tell(&after, &mut outcome);
    let end = if is_virtual { io.now() } else { clock() };
    if let (Some(before), Some(after)) = (before.energy(), after.energy()) {
        let mut report = EnergyReport::of_model(
            &after.since(&before),
            end.saturating_sub(start),
            outcome.operation_count,
        );
        // Only the drive of the data is looked at in between.
        let power = watch.power.as_ref().filter(|_| outcome.log_device.is_none());
        report.watts_over_time = power.and_then(|power| power.end(end, after.total()));
        outcome.energy_pj = u64::try_from(after.since(&before).total().0).ok();
        outcome.energy = Some(report);
    }
    Ok(outcome)
}

/// As [`run`], on another thread, while `goes_on` is asked again and again: once it says no, all clients
/// stop after the operation at hand. That thread is gone when this returns, and its handle of the
/// database with it.
///
/// # Errors
/// As [`run`].
pub fn run_watched(
    database: &Database,
    load: Arc<dyn Load>,
    plan: Plan,
    (watch, clock): (&Arc<Watch>, &Clock),
    mut goes_on: impl FnMut() -> bool,
) -> Result<Outcome, BenchError> {
    let (tell, told) = channel();
    let clients = {
        let (database, watch, clock) = (database.clone(), Arc::clone(watch), Arc::clone(clock));
        std::thread::spawn(move || {
            // The other end waits for this; only a panic there could have closed it.
            let _ = tell.send(run(&database, &load, &plan, &watch, &clock));
        })
    };
    let outcome = loop {
        match told.recv_timeout(LOOK) {
            Ok(outcome) => break Some(outcome),
            Err(RecvTimeoutError::Timeout) => {
                if !goes_on() {
                    watch.stop();
                }
            }
            Err(RecvTimeoutError::Disconnected) => break None,
        }
    };
    if let Err(panic) = clients.join() {
        std::panic::resume_unwind(panic);
    }
    outcome.expect("clients that end tell their outcome")
}

/// Runs each client on a thread of its own, to the ends of all.
fn on_threads(
    works: impl Iterator<Item = Work<Seen>>,
    watch: &Watch,
    load: &dyn Load,
) -> Result<Vec<Seen>, BenchError> {
    let mut threads = Vec::new();
    let mut refused = None;
    for work in works {
        match std::thread::Builder::new().spawn(work) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                let what = format!(
                    "the system gives no more than {} ({error}); take fewer clients",
                    counted(threads.len() as u64, "thread")
                );
                refused = Some(StorageError::InvalidSetting { what });
                watch.stop();
                // Clients that never come do not leave either.
                load.close();
                break;
            }
        }
    }
    let ends: Vec<_> = threads
        .into_iter()
        .map(|thread| {
            let end = thread.join();
            if end.is_err() {
                watch.stop();
            }
            end
        })
        .collect();
    if let Some(error) = refused {
        return Err(error.into());
    }
    let value = |end: std::thread::Result<Seen>| match end {
        Ok(seen) => seen,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    Ok(ends.into_iter().map(value).collect())
}

/// Waits until the next operation is due.
fn think(due: Nanos, watch: &Watch, present: &Clock) {
    if nandu_workers::is_worker() {
        return nandu_workers::sleep_until(due);
    }
    loop {
        let left = due.saturating_sub(present());
        if left == Nanos::ZERO || watch.should_stop.load(Ordering::Relaxed) {
            return;
        }
        // Nobody unparks it; this is how a thread waits for a time, and looks up now and then.
        std::thread::park_timeout(Duration::from_nanos(left.0.min(THOUGHT_NS_MAX)));
    }
}

/// The work of one client.
fn work(
    database: &Database,
    load: &dyn Load,
    number: u32,
    plan: &Plan,
    watch: &Watch,
    present: &Clock,
) -> Seen {
    let own_count = share_of(plan.operation_count, plan.client_count, number);
    let mut seen = Seen::new(load, own_count);
    let mut client = load.client(number);
    let mut due = present();
    for number in 1..=own_count {
        if watch.should_stop.load(Ordering::Relaxed) {
            break;
        }
        nandu_workers::spend(plan.processor_time);
        let kind = match client.operate(database, due) {
            Ok(kind) => kind,
            Err(error) => {
                watch.stop();
                seen.result = Err(error);
                break;
            }
        };
        let end = present();
        seen.record(kind, end.saturating_sub(due));
        seen.ends.push(end);
        watch.done_count.fetch_add(1, Ordering::Relaxed);
        due = end + plan.think_time + client.pause();
        // The run is over with its last operation: nobody waits for a next one.
        if number < own_count {
            think(due, watch, present);
        }
    }
    seen
}

/// The work of one server, whose number follows those of the clients.
fn serve(
    database: &Database,
    load: &dyn Load,
    number: u32,
    plan: &Plan,
    watch: &Watch,
    present: &Clock,
) -> Seen {
    let mut seen = Seen::new(load, 0);
    let mut server = load.server(number - plan.client_count);
    loop {
        match server.serve(database) {
            Ok(Some((kind, due))) => {
                nandu_workers::spend(plan.processor_time);
                let end = present();
                seen.record(kind, end.saturating_sub(due));
                seen.served_ends.push(end);
            }
            Ok(None) => break,
            Err(error) => {
                watch.stop();
                seen.result = Err(error);
                break;
            }
        }
    }
    seen
}

/// How many of `total` operations this client does.
const fn share_of(total: u64, client_count: u32, number: u32) -> u64 {
    let (count, number) = (client_count as u64, number as u64);
    total / count + (number < total % count) as u64
}

/// Sums up what the clients saw.
fn told(
    kinds: &'static [&'static str],
    start: Nanos,
    seen: Vec<Seen>,
) -> Result<Outcome, BenchError> {
    let mut latencies: Vec<LatencyHistogram> =
        kinds.iter().map(|_| LatencyHistogram::new()).collect();
    let mut ends: Vec<u64> = Vec::new();
    let mut history = Vec::new();
    let mut last_served_ns = 0;
    for (number, one) in (0_u64..).zip(seen) {
        one.result?;
        for (sum, latency) in latencies.iter_mut().zip(&one.latencies) {
            if let Some(latency) = latency {
                sum.merge(latency);
            }
        }
        history.extend_from_slice(&number.to_le_bytes());
        for end in one.ends {
            history.extend_from_slice(&end.0.to_le_bytes());
            ends.push(end.saturating_sub(start).0);
        }
        for end in one.served_ends {
            history.extend_from_slice(&end.0.to_le_bytes());
            last_served_ns = last_served_ns.max(end.saturating_sub(start).0);
        }
    }
    let operation_count = ends.len() as u64;
    let elapsed_ns = ends.iter().copied().max().unwrap_or(0).max(last_served_ns);
    let mut windows = [0_u64; WINDOW_COUNT];
    for end in &ends {
        let window = u128::from(end.saturating_sub(1)) * WINDOW_COUNT as u128;
        windows[usize::try_from(window / u128::from(elapsed_ns.max(1))).unwrap_or(0)] += 1;
    }
    let seconds = elapsed_ns.max(1) as f64 / 1e9;
    let rate = |count: u64, seconds: f64| count as f64 / seconds;
    let of_kind = |(&kind, latency): (&&'static str, &LatencyHistogram)| {
        let latency_ns = latency.summary();
        (latency_ns.count > 0).then_some(OperationOutcome { kind, latency_ns })
    };
    Ok(Outcome {
        operation_count,
        elapsed_ns,
        operations_per_second: rate(operation_count, seconds),
        operations_per_second_over_time: windows
            .iter()
            .map(|&count| rate(count, seconds / WINDOW_COUNT as f64))
            .collect(),
        operations: kinds.iter().zip(&latencies).filter_map(of_kind).collect(),
        pool_hit_count: 0,
        pool_miss_count: 0,
        log_bytes: 0,
        read_bytes: 0,
        written_bytes: 0,
        read_count: 0,
        write_count: 0,
        flush_count: 0,
        log_device: None,
        energy_pj: None,
        energy: None,
        flash: None,
        history: format!("{:016x}", nandu_base::fnv1a(&history)),
        switch_count: None,
        was_stopped: false,
    })
}

/// What was done at each level so far.
struct Levels {
    pool: PoolCounters,
    log_bytes: u64,
    devices: Vec<Counters>,
}

impl Levels {
    fn of(database: &Database) -> Self {
        let tables = database.read();
        let engine = tables.engine();
        let (data, log) = engine.device_counters();
        Self {
            pool: engine.pool_counters(),
            log_bytes: engine.log_end().0,
            devices: std::iter::once(data).chain(log).collect(),
        }
    }

    /// What all devices used, where each of them says.
    fn energy(&self) -> Option<EnergyParts> {
        self.devices
            .iter()
            .try_fold(EnergyParts::default(), |sum, device| Some(sum + device.energy?))
    }

    /// Tells what came between this and `after`.
    fn tell(&self, after: &Self, outcome: &mut Outcome) {
        outcome.pool_hit_count = after.pool.hit_count - self.pool.hit_count;
        outcome.pool_miss_count = after.pool.miss_count - self.pool.miss_count;
        outcome.log_bytes = after.log_bytes - self.log_bytes;
        if let ([_, before], [_, after]) = (&self.devices[..], &after.devices[..]) {
            outcome.log_device = Some(LogDeviceOutcome::between(before, after));
        }
        let mut commands: Option<FlashCounters> = None;
        for (before, after) in self.devices.iter().zip(&after.devices) {
            outcome.read_bytes += after.reads.byte_count - before.reads.byte_count;
            outcome.written_bytes += after.writes.byte_count - before.writes.byte_count;
            outcome.read_count += after.reads.request_count - before.reads.request_count;
            outcome.write_count += after.writes.request_count - before.writes.request_count;
            outcome.flush_count += after.flushes.request_count - before.flushes.request_count;
            // Of the pages alone, where the log has a drive of its own.
            if let (Some(before), Some(after), None) = (&before.flash, &after.flash, &commands) {
                commands = Some(after.commands.since(&before.commands));
            }
        }
        outcome.flash = commands.as_ref().map(FlashOutcome::of);
    }
}
