//! TPC-C on drives and arrays of them: new orders a minute by how many terminals there are, and for a dollar
//! (S003, "One FlashSSD beats Ten 15K rpm HDDs").
//!
//! One step for each drive, with series by the number of terminals:
//!
//! - `DRIVE.tpmc` (new orders a minute that were committed), `.transactions_s`, `.misses` (pages read for a
//!   transaction) and `.retries` (of a transaction);
//! - `DRIVE.per_dollar`, the first over the price, where `cents` has one.
//!
//! 1. All drives get the same rows and terminals, which follow from the seed.
//! 2. The points of a drive come one after the other to one database; so many transactions go before the first
//!    as each of them has.
//! 3. A transaction takes no time but the drive's, and nobody types or thinks: it is no result of the TPC.

pub mod methods;
pub mod restart;
#[cfg(test)]
mod tests;
pub mod trace;

use super::Measurement;
use super::bench::{Bench, LOCAL};
use super::engine_set::EngineSet;
use super::site::{
    EngineVariant, Site, SiteDrive, SiteDrives, cancelled, check_cancelled, check_drives,
    step_targets, targets,
};
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::{ByteCount, Nanos, Rng};
use nandu_bench::tpcc::TpccRun;
use nandu_bench::{BenchError, Clock, Load, Plan, SwitchKind, Watch};
use nandu_drives::price::CENTS_MAX;
use nandu_load::tpcc::TpccObserver;
use nandu_load::{LoadError, LoadOptions, Tpcc, TpccScale};
use nandu_probe::text;
use nandu_storage::database::Isolation;
use nandu_storage::{Database, Settings, Volumes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pages unless `set` says otherwise.
const PAGE_BYTES: u32 = 4096;
/// The most terminals.
const CLIENT_COUNT_MAX: u32 = 10_000;
/// The most transactions of a run, and the longest interval of log.
const TRANSACTION_COUNT_MAX: u64 = 1_000_000_000;
const INTERVAL_MAX: ByteCount = ByteCount::gib(1);
/// So many terminals have one server that delivers for them.
const CLIENTS_PER_SERVER: u32 = 5;
const CENTS_PER_DOLLAR: f64 = 100.0;

/// Which rows there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpccRows {
    /// Warehouses, each with ten districts.
    pub warehouses: u32,
    /// Items, and rows of stock in each warehouse; TPC-C has 100,000.
    #[serde(default = "items")]
    pub items: u32,
    /// Customers of a district, and its first orders; TPC-C has 3,000.
    #[serde(default = "customers")]
    pub customers: u32,
}

const fn items() -> u32 {
    TpccScale::STANDARD.item_count
}

const fn customers() -> u32 {
    TpccScale::STANDARD.customer_count
}

/// The keys of an experiment of the kind `tpcc`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpccMix {
    /// What the database lies on.
    pub drives: SiteDrives,
    /// What a drive, or all members of an array, cost, in cents, by the drive's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cents: BTreeMap<String, u64>,
    /// Which rows there are.
    pub rows: TpccRows,
    /// Memory of the pool.
    #[serde(deserialize_with = "text::size")]
    pub memory: ByteCount,
    /// How many terminals, rising.
    pub clients: Vec<u32>,
    /// Transactions of all terminals of a point together.
    pub transaction_count: u64,
    /// Settings of the engine.
    #[serde(default, skip_serializing_if = "EngineSet::is_empty")]
    pub set: EngineSet,
}

/// Ends a load when the run is to stop.
struct StoreWatch<'a, 'b>(&'a Bench<'b>);

impl TpccObserver for StoreWatch<'_, '_> {
    fn is_cancelled(&self) -> bool {
        self.0.observer.is_cancelled()
    }
}

impl TpccRows {
    fn tpcc(self, seed: u64) -> Result<Tpcc, LoadError> {
        let scale = TpccScale { item_count: self.items, customer_count: self.customers };
        Tpcc::with_scale(self.warehouses, scale, seed)
    }

    fn check(self) -> Result<(), String> {
        self.tpcc(0).map(|_| ()).map_err(|error| format!("`rows`: {error}"))
    }

    /// A database with these rows, none of them in memory.
    fn store(
        self,
        bench: &Bench<'_>,
        step: &str,
        (volumes, settings): (Volumes, &Settings),
    ) -> Result<(Database, Tpcc), LabError> {
        let seed = bench.seed;
        let tpcc = self.tpcc(seed).map_err(|error| LabError::step(step, &error))?;
        let made = (|| {
            let database = Database::create(volumes, settings, seed)?;
            tpcc.store(&database, &LoadOptions::default(), &mut StoreWatch(bench))?;
            database.checkpoint()?;
            database.drop_cached_pages()?;
            Ok(database)
        })();
        match made {
            Ok(database) => Ok((database, tpcc)),
            Err(LoadError::Cancelled) => Err(cancelled()),
            Err(error) => Err(LabError::step(step, &error)),
        }
    }
}

/// Checks that these may be numbers of terminals.
fn check_clients(clients: &[u32]) -> Result<(), String> {
    let rises = clients.windows(2).all(|pair| pair[0] < pair[1]);
    let is_count = |count: &u32| (1..=CLIENT_COUNT_MAX).contains(count);
    match !clients.is_empty() && rises && clients.iter().all(is_count) {
        true => Ok(()),
        false => Err(format!("`clients` must rise, from 1 to {CLIENT_COUNT_MAX}")),
    }
}

/// The clock of a simulated drive is its own.
fn no_clock() -> Clock {
    Arc::new(|| unreachable!("a simulated drive has its own clock"))
}

/// A plan for so many terminals, each of which has a core.
const fn plan(client_count: u32, operation_count: u64) -> Plan {
    Plan {
        operation_count,
        client_count,
        core_count: client_count,
        processor_time: Nanos::ZERO,
        think_time: Nanos::ZERO,
        switch_kind: SwitchKind::Coroutines,
    }
}

impl TpccMix {
    fn engine(&self) -> EngineVariant {
        EngineVariant::writing(&self.set)
    }

    fn series_of(&self, drive: &str) -> Vec<Series> {
        let of = |suffix: &str, unit: &str| Series::new(format!("{drive}.{suffix}"), "", unit);
        let mut series = vec![
            of("tpmc", "1/min"),
            of("transactions_s", "1/s"),
            of("misses", ""),
            of("retries", ""),
        ];
        if self.cents.contains_key(drive) {
            series.push(of("per_dollar", "1/min/$"));
        }
        series
    }

    fn step(&self, index: usize) -> (&str, &SiteDrive) {
        let (name, drive) = self.drives.iter().nth(index).expect("a step is a drive");
        (name, drive)
    }

    /// What one point has in its series.
    fn at_work(
        &self,
        database: &Database,
        (tpcc, seed): (Tpcc, u64),
        client_count: u32,
        cents: Option<u64>,
    ) -> Result<Vec<f64>, BenchError> {
        let server_count = client_count.div_ceil(CLIENTS_PER_SERVER);
        let isolation = Isolation::default();
        let load = TpccRun { tpcc, isolation, has_pauses: false, server_count, seed }.start();
        let shared: Arc<dyn Load> = Arc::new(Arc::clone(&load));
        let plan = plan(client_count, self.transaction_count);
        let watch = Arc::new(Watch::default());
        let outcome = nandu_bench::run(database, &shared, &plan, &watch, &no_clock())?;
        let (counts, count) = (load.counts(), outcome.operation_count as f64);
        let tpmc = counts.new_order_count as f64 / (outcome.elapsed_ns.max(1) as f64 / 60e9);
        let mut values = vec![
            tpmc,
            outcome.operations_per_second,
            outcome.pool_miss_count as f64 / count,
            counts.retries.retry_count as f64 / count,
        ];
        values.extend(cents.map(|cents| tpmc / (cents as f64 / CENTS_PER_DOLLAR)));
        Ok(values)
    }
}

impl Measurement for TpccMix {
    fn check(&self) -> Result<(), String> {
        check_drives(&self.drives)?;
        if let Some((name, _)) = self.drives.iter().find(|(_, drive)| drive.base == LOCAL) {
            return Err(format!("`{name}` must be simulated; on disks `nandu bench tpcc` runs"));
        }
        if let Some(name) = self.cents.keys().find(|name| !self.drives.contains_key(*name)) {
            return Err(format!("`cents` has `{name}`, which is none of the drives"));
        }
        if self.cents.values().any(|cents| !(1..=CENTS_MAX).contains(cents)) {
            return Err(format!("`cents` must be 1 to {CENTS_MAX}"));
        }
        self.rows.check()?;
        check_clients(&self.clients)?;
        let most = self.clients.last().copied().unwrap_or(1);
        if !(u64::from(most)..=TRANSACTION_COUNT_MAX).contains(&self.transaction_count) {
            return Err(format!(
                "`transaction_count` must be from {most}, one for each, to {TRANSACTION_COUNT_MAX}"
            ));
        }
        self.engine().check_with_media(PAGE_BYTES, &[("pool_bytes", "memory")])?;
        let settings = self.engine().settings(PAGE_BYTES, self.memory.0);
        settings.check().map_err(|error| format!("`memory`: {error}"))
    }

    fn targets(&self) -> Vec<String> {
        targets(&self.drives)
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        step_targets(self.step(index).1)
    }

    fn series_names(&self) -> Vec<String> {
        let series = self.drives.keys().flat_map(|drive| self.series_of(drive));
        series.map(|series| series.name).collect()
    }

    fn steps(&self) -> Vec<String> {
        self.drives.keys().cloned().collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        check_cancelled(bench)?;
        let (name, drive) = self.step(index);
        let error = |error: BenchError| LabError::step(name, &error);
        let site = Site::prepare(bench, name, (name, drive), None)?;
        let site = site.expect("a simulated drive is always there");
        let settings = self.engine().settings(PAGE_BYTES, self.memory.0);
        let site = site.with_media_of(settings.propagation.kind, (name, drive), bench.seed)?;
        let volumes = site.format().map_err(|it| error(it.into()))?;
        let (database, tpcc) = self.rows.store(bench, name, (volumes, &settings))?;
        let cents = self.cents.get(name).copied();
        let work = |part: &str, client_count| {
            check_cancelled(bench)?;
            let seed = Rng::for_part(bench.seed, part).next_u64();
            self.at_work(&database, (tpcc, seed), client_count, cents).map_err(error)
        };
        work("before", self.clients[0])?;
        let mut series = self.series_of(name);
        for &client_count in &self.clients {
            let values = work(&format!("{client_count} terminals"), client_count)?;
            for (series, value) in series.iter_mut().zip(values) {
                series.points.push((f64::from(client_count), value));
            }
        }
        Ok(series)
    }
}
