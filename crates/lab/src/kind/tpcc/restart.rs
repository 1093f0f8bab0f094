//! A restart after a crash under TPC-C, by the four steps of S003, "A case for flash SSD in database recovery".
//!
//! ```text
//!   load ─► checkpoint ─► terminals ─► checkpoint ─► terminals ─► crash ─► restart ─► the next interval …
//!                         └─ interval of log ─┘      └─ interval ┘ each in a transaction
//! ```
//!
//! The crash comes as late as it can, just before the next checkpoint, with a transaction of each terminal open
//! that has changed what it changes; the drive forgets what it had read. Series as those of `restart`, by the
//! checkpoint interval in bytes of log, and `DRIVE.losers`, the transactions that were rolled back. One step for
//! each drive; its intervals are measured on one database, which grows meanwhile.
//!
//! The virtual clock knows the devices only, so what the processor does is charged by the record, as in `restart`.

use super::super::restart::{step_series, step_values};
use super::{
    Bench, EngineSet, EngineVariant, INTERVAL_MAX, LabError, Measurement, PAGE_BYTES, Series, Site,
    SiteDrives, TpccRows, check_cancelled, check_clients, check_drives, no_clock, plan,
    step_targets, targets,
};
use nandu_base::{ByteCount, Nanos, Rng};
use nandu_bench::tpcc::{Input, KINDS, Output, Terminal, attempt};
use nandu_bench::{BenchError, Client, Load, Watch};
use nandu_load::Tpcc;
use nandu_load::tpcc::{LOAD_MOMENT_US, check};
use nandu_probe::text;
use nandu_storage::database::Isolation;
use nandu_storage::engine::RestartReport;
use nandu_storage::{Database, Settings, StorageError};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Capacity of the log over the longest interval, so that none is cut short by a checkpoint that nobody asked
/// for.
const LOG_PER_INTERVAL: u64 = 8;
/// Less than any transaction that changes something has in the log.
const LOG_BYTES_MIN: u64 = 200;

/// The keys of an experiment of the kind `tpcc_restart`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpccRestart {
    /// What the database lies on.
    pub drives: SiteDrives,
    /// Which rows there are.
    pub rows: TpccRows,
    /// Memory of the pool.
    #[serde(deserialize_with = "text::size")]
    pub memory: ByteCount,
    /// How many terminals there are.
    pub clients: u32,
    /// Checkpoint intervals, in bytes of log, rising.
    #[serde(deserialize_with = "text::sizes")]
    pub intervals: Vec<ByteCount>,
    /// What the processor takes for a change that redo looks at.
    #[serde(deserialize_with = "text::duration")]
    pub record_cpu: Nanos,
    /// Other settings of the engine.
    #[serde(default, skip_serializing_if = "EngineSet::is_empty")]
    pub set: EngineSet,
}

/// Terminals until the log has grown.
struct Interval {
    tpcc: Tpcc,
    seed: u64,
    /// Where the log is to end.
    log_end: u64,
    /// Whether the last transaction of each stays open.
    is_left_open: bool,
    watch: Arc<Watch>,
}

struct IntervalClient {
    interval: Arc<Interval>,
    terminal: Terminal,
    moment_us: i64,
}

/// All clients have the same.
struct IntervalLoad(Arc<Interval>);

impl Load for IntervalLoad {
    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn client(&self, number: u32) -> Box<dyn Client> {
        let Interval { tpcc, seed, .. } = *self.0;
        let terminal = Terminal::new(&tpcc, number, seed);
        Box::new(IntervalClient { interval: Arc::clone(&self.0), terminal, moment_us: 0 })
    }
}

impl Client for IntervalClient {
    /// The next transaction that changes something, as often as it takes.
    fn operate(&mut self, database: &Database, _due: Nanos) -> Result<usize, BenchError> {
        let is_over = || log_end(database) >= self.interval.log_end;
        let input = loop {
            self.moment_us += 1;
            let input = self.terminal.next_input(LOAD_MOMENT_US + self.moment_us);
            if !matches!(input, Input::OrderStatus(_) | Input::StockLevel(_)) {
                break input;
            }
        };
        loop {
            let mut write = database.write_with(Isolation::Serializable)?;
            let done = attempt(&mut write, &input);
            if self.interval.is_left_open && is_over() {
                // It ends with the process, whatever it waits for.
                write.abandon();
                self.interval.watch.stop();
                break;
            }
            match done {
                Ok(Output::NewOrder(order)) if order.is_rolled_back => {
                    write.rollback()?;
                    break;
                }
                Ok(_) => {
                    write.commit()?;
                    if is_over() {
                        self.interval.watch.stop();
                    }
                    break;
                }
                Err(error) if error.is_transient() => write.rollback()?,
                Err(error) => return Err(error),
            }
        }
        Ok(input.kind() as usize)
    }
}

fn log_end(database: &Database) -> u64 {
    database.read().engine().log_end().0
}

impl TpccRestart {
    fn series_of(drive: &str) -> Vec<Series> {
        let mut series = step_series(drive);
        series.push(Series::new(format!("{drive}.losers"), "B", ""));
        series
    }

    fn engine(&self) -> EngineVariant {
        let longest = self.intervals.iter().map(|interval| interval.0).max().unwrap_or(0);
        let log =
            ByteCount((longest * LOG_PER_INTERVAL).max(EngineVariant::writing(&self.set).log.0));
        EngineVariant { log, ..EngineVariant::writing(&self.set) }
    }

    fn settings(&self) -> Settings {
        let settings = self.engine().settings(PAGE_BYTES, self.memory.0);
        // Later than the longest interval.
        Settings { checkpoint_bytes: settings.log_bytes / 4, ..settings }
    }

    /// Has all terminals work until the log grew by `interval`.
    fn work(
        &self,
        database: &Database,
        (tpcc, seed): (Tpcc, u64),
        interval: ByteCount,
        is_left_open: bool,
    ) -> Result<(), BenchError> {
        let watch = Arc::new(Watch::default());
        let log_end = log_end(database) + interval.0;
        let shared = Interval { tpcc, seed, log_end, is_left_open, watch: Arc::clone(&watch) };
        let load: Arc<dyn Load> = Arc::new(IntervalLoad(Arc::new(shared)));
        let most = interval.0 / LOG_BYTES_MIN + u64::from(self.clients);
        nandu_bench::run(database, &load, &plan(self.clients, most), &watch, &no_clock())?;
        Ok(())
    }

    /// One interval: gives the database as the restart left it, and what that did.
    fn crash(
        &self,
        site: &Site,
        database: Database,
        (tpcc, seed): (Tpcc, u64),
        interval: ByteCount,
    ) -> Result<(Database, RestartReport), BenchError> {
        let mut rng = Rng::for_part(seed, &format!("interval of {}", interval.0));
        database.checkpoint()?;
        self.work(&database, (tpcc, rng.next_u64()), interval, false)?;
        database.checkpoint()?;
        self.work(&database, (tpcc, rng.next_u64()), interval, true)?;
        database.flush()?;
        drop(database);
        site.forget_reads(seed);
        let (database, report) = Database::open(site.reopen()?, &self.settings())?;
        assert!(!report.was_closed, "it crashed");
        let conditions = check(&database.read())?;
        if let Some(broken) = conditions.broken().next() {
            let (place, what) = ("TPC-C".to_owned(), format!("{} after a restart", broken.what));
            return Err(StorageError::Corrupt { place, what }.into());
        }
        Ok((database, report))
    }
}

impl Measurement for TpccRestart {
    fn check(&self) -> Result<(), String> {
        check_drives(&self.drives)?;
        if let Some((name, _)) = self.drives.iter().find(|(_, drive)| drive.base == super::LOCAL) {
            return Err(format!("`{name}` must be simulated"));
        }
        self.rows.check()?;
        check_clients(&[self.clients])?;
        let rises = self.intervals.windows(2).all(|pair| pair[0] < pair[1]);
        let may_be = ByteCount::kib(64)..=INTERVAL_MAX;
        let fits = self.intervals.iter().all(|interval| may_be.contains(interval));
        if self.intervals.is_empty() || !rises || !fits {
            return Err(format!(
                "`intervals` must be some from 64 KiB to {INTERVAL_MAX}, and rise"
            ));
        }
        let intervals = "intervals";
        let own =
            [("pool_bytes", "memory"), ("log_bytes", intervals), ("checkpoint_bytes", intervals)];
        self.engine().check_with_media(PAGE_BYTES, &own)?;
        self.settings().check().map_err(|error| format!("`memory`: {error}"))
    }

    fn targets(&self) -> Vec<String> {
        targets(&self.drives)
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        let (_, drive) = self.drives.iter().nth(index).expect("a step is a drive");
        step_targets(drive)
    }

    fn series_names(&self) -> Vec<String> {
        let series = self.drives.keys().flat_map(|drive| Self::series_of(drive));
        series.map(|series| series.name).collect()
    }

    fn sums(&self) -> Vec<Vec<String>> {
        let steps = ["total", "log_scan", "page_reads", "apply", "page_writes"];
        let of = |drive: &String| steps.map(|step| format!("{drive}.{step}_s")).to_vec();
        self.drives.keys().map(of).collect()
    }

    fn steps(&self) -> Vec<String> {
        self.drives.keys().cloned().collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let (name, drive) = self.drives.iter().nth(index).expect("a step is a drive");
        let error = |error: BenchError| LabError::step(name, &error);
        let site = Site::prepare(bench, name, (name, drive), None)?;
        let site = site.expect("a simulated drive is always there");
        let propagation = self.settings().propagation.kind;
        let site = site.with_media_of(propagation, (name, drive), bench.seed)?;
        let volumes = site.format().map_err(|it| error(it.into()))?;
        let (mut database, tpcc) = self.rows.store(bench, name, (volumes, &self.settings()))?;
        let mut series = Self::series_of(name);
        for &interval in &self.intervals {
            check_cancelled(bench)?;
            let ready = (tpcc, bench.seed);
            let (left, report) = self.crash(&site, database, ready, interval).map_err(error)?;
            database = left;
            let mut values = step_values(&report, self.record_cpu);
            values.push(report.loser_count as f64);
            for (series, value) in series.iter_mut().zip(values) {
                series.points.push((interval.0 as f64, value));
            }
        }
        Ok(series)
    }
}
