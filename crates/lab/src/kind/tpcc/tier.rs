//! TPC-C with a tier of flash between pool and disks, by its size and by what it keeps (S003, "Flash as extended
//! buffer"; Kang, Lee and Moon, PVLDB 5(11), 2012).
//!
//! ```text
//!   pages on      disk:  the disks alone     flash:  the tier's drive alone     POLICY:  disks, and a tier
//!   each          load ─► terminals, not counted ─► terminals ─► checkpoint ─► terminals ─► crash ─► restart
//! ```
//!
//! One step for each of them, with series by the size of the tier, in percent of what the tables take:
//!
//! - `STEP.tpmc`, new orders a minute that were committed; `STEP.restart_s`; both of `disk` and `flash` are the
//!   same at each size;
//! - `POLICY.hit_percent`, of the pages that the pool reads those that the tier has;
//! - `POLICY.write_reduction_percent`, of the pages that the pool writes those that the disks are spared;
//! - `POLICY.sequential_percent`, of the pages that are written to the tier those behind the one before.
//!
//! 1. All get the same rows and terminals, which follow from the seed.
//! 2. The log lies on a drive that costs next to nothing, so that what is measured is pages.
//! 3. A restart has as many transactions of log to go through in each step.
//! 4. Neither a transaction nor a restart takes any time but that of the drives.

use super::super::restart::step_values;
use super::super::site::{TierDrive, check_drives};
use super::{
    Bench, CLIENTS_PER_SERVER, EngineSet, EngineVariant, LabError, Measurement, PAGE_BYTES, Series,
    Site, SiteDrive, TRANSACTION_COUNT_MAX, TpccRows, check_cancelled, check_clients, no_clock,
    plan, step_targets,
};
use nandu::{PropagationKind, TierPolicyKind, TieredSettings};
use nandu_base::{ByteCount, Nanos, Rng};
use nandu_bench::tpcc::TpccRun;
use nandu_bench::{BenchError, Load, Outcome, Watch};
use nandu_load::Tpcc;
use nandu_probe::text;
use nandu_storage::database::Isolation;
use nandu_storage::engine::TornPages;
use nandu_storage::log::Durability;
use nandu_storage::{Database, Settings};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Steps without a tier.
const DISK: &str = "disk";
const FLASH: &str = "flash";
/// Of so many transactions that are counted one more is done between checkpoint and crash.
const PARTS_OF_RESTART: u64 = 2;
/// Where `step_values` has the time of a whole restart.
const TOTAL_SECONDS_AT: usize = 12;

/// The keys of an experiment of the kind `tpcc_tier`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpccTier {
    /// What pages lie on.
    pub disk: SiteDrive,
    /// What the tier lies on, or all pages.
    pub flash: TierDrive,
    /// Which rows there are.
    pub rows: TpccRows,
    /// Memory of the pool.
    #[serde(deserialize_with = "text::size")]
    pub memory: ByteCount,
    /// Capacity of the log; there is a checkpoint after an eighth of it.
    #[serde(deserialize_with = "text::size")]
    pub log: ByteCount,
    /// How many terminals there are.
    pub clients: u32,
    /// Transactions of all terminals together that are counted, and as many before.
    pub transaction_count: u64,
    /// Sizes of the tier in percent of what the tables take, rising.
    pub size_percent: Vec<f64>,
    /// What tiers keep.
    pub policies: Vec<TierPolicyKind>,
    /// Other settings of the engine.
    #[serde(default, skip_serializing_if = "EngineSet::is_empty")]
    pub set: EngineSet,
}

/// What one database came to, in the order of its series.
struct Point {
    tpmc: f64,
    restart_s: f64,
    /// Of a tier: hits, writes that were spared, writes that came in order, in percent.
    of_tier: Option<[f64; 3]>,
}

impl Point {
    fn new(outcome: &Outcome, new_order_count: u64, restart_s: f64) -> Self {
        let minutes = outcome.elapsed_ns.max(1) as f64 / 60e9;
        let of_tier = outcome.tier_device.map(|tier| {
            let in_order = tier.sequential_write_count as f64 / tier.tier_write_count.max(1) as f64;
            let shares = [
                tier.hit_share.unwrap_or_default(),
                tier.write_reduction.unwrap_or_default(),
                in_order,
            ];
            shares.map(|share| 100.0 * share)
        });
        Self { tpmc: new_order_count as f64 / minutes, restart_s, of_tier }
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        [self.tpmc, self.restart_s].into_iter().chain(self.of_tier.into_iter().flatten())
    }
}

fn series_of(step: &str) -> Vec<Series> {
    let of = |suffix: &str, unit: &str| Series::new(format!("{step}.{suffix}"), "%", unit);
    let mut series = vec![of("tpmc", "1/min"), of("restart_s", "s")];
    if ![DISK, FLASH].contains(&step) {
        let of_tier = ["hit_percent", "write_reduction_percent", "sequential_percent"];
        series.extend(of_tier.map(|suffix| of(suffix, "%")));
    }
    series
}

impl TpccTier {
    /// Durable, and pages do not tear: a tier that writes back has a copy of each page that may.
    fn engine(&self) -> EngineVariant {
        let engine = EngineVariant::new(true, Durability::EveryCommit, TornPages::Trust);
        EngineVariant { log: self.log, set: self.set.clone(), ..engine }
    }

    fn settings(&self) -> Settings {
        self.engine().settings(PAGE_BYTES, self.memory.0)
    }

    /// The same with a tier of a size.
    fn tiered(&self, tpcc: &Tpcc, policy: TierPolicyKind, percent: f64) -> Settings {
        let mut settings = self.settings();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of the bytes of a database"
        )]
        let size_bytes = (tpcc.expected_bytes() as f64 * percent / 100.0) as u64;
        let tiered = TieredSettings { policy, size_bytes, ..settings.propagation.tiered };
        (settings.propagation.kind, settings.propagation.tiered) =
            (PropagationKind::Tiered, tiered);
        settings
    }

    /// The tier's drive with all pages on it.
    fn flash_alone(&self) -> SiteDrive {
        let TierDrive { base, set, capacity } = self.flash.clone();
        SiteDrive { base, set, capacity, member_count: 1, page_cache: None, tier: None }
    }

    fn work(
        &self,
        bench: &Bench<'_>,
        (database, tpcc): (&Database, Tpcc),
        (part, transaction_count): (&str, u64),
    ) -> Result<(Outcome, u64), BenchError> {
        let seed = Rng::for_part(bench.seed, part).next_u64();
        let server_count = self.clients.div_ceil(CLIENTS_PER_SERVER);
        let isolation = Isolation::default();
        let load = TpccRun { tpcc, isolation, has_pauses: false, server_count, seed }.start();
        let shared: Arc<dyn Load> = Arc::new(Arc::clone(&load));
        let watch = Arc::new(Watch::default());
        let plan = plan(self.clients, transaction_count);
        let outcome = nandu_bench::run(database, &shared, &plan, &watch, &no_clock())?;
        Ok((outcome, load.counts().new_order_count))
    }

    /// One database from its making to its restart.
    fn measure(
        &self,
        bench: &mut Bench<'_>,
        (step, site): (&str, &Site),
        settings: &Settings,
    ) -> Result<Point, LabError> {
        let volumes = site.format().map_err(|error| LabError::step(step, &error))?;
        let (database, tpcc) = self.rows.store(bench, step, (volumes, settings))?;
        check_cancelled(bench)?;
        let counted = self.transaction_count;
        let measured = (|| {
            let ready = (&database, tpcc);
            self.work(bench, ready, ("before", counted))?;
            let found = self.work(bench, ready, ("counted", counted))?;
            database.checkpoint()?;
            self.work(bench, ready, ("to be lost", counted / PARTS_OF_RESTART))?;
            database.flush()?;
            Ok::<_, BenchError>(found)
        })();
        drop(database);
        let (outcome, new_order_count) = measured.map_err(|error| LabError::step(step, &error))?;
        site.forget_reads(bench.seed);
        let reopened = site.reopen().and_then(|volumes| Database::open(volumes, settings));
        let (database, report) = reopened.map_err(|error| LabError::step(step, &error))?;
        assert!(!report.was_closed, "it crashed");
        database.close().map_err(|error| LabError::step(step, &error))?;
        let restart_s = step_values(&report, Nanos::ZERO)[TOTAL_SECONDS_AT];
        Ok(Point::new(&outcome, new_order_count, restart_s))
    }

    fn site(
        &self,
        bench: &mut Bench<'_>,
        (step, drive): (&str, &SiteDrive),
        kind: PropagationKind,
    ) -> Result<Site, LabError> {
        let site = Site::prepare(bench, step, (step, drive), self.engine().log_apart())?;
        let site = site.expect("a simulated drive is always there");
        site.with_media_of(kind, (step, drive), bench.seed)
    }

    fn check_places(&self) -> Result<(), String> {
        if self.disk.tier.is_some() {
            return Err("`disk` has a `tier`; say `flash`, which stands beside it".into());
        }
        let drives = [(DISK, self.disk.clone()), (FLASH, self.flash_alone())];
        if let Some((name, _)) = drives.iter().find(|(_, drive)| drive.base == super::LOCAL) {
            return Err(format!("`{name}` must be simulated"));
        }
        check_drives(&drives.into_iter().map(|(name, drive)| (name.to_owned(), drive)).collect())
    }
}

impl Measurement for TpccTier {
    fn check(&self) -> Result<(), String> {
        self.check_places()?;
        self.rows.check()?;
        check_clients(&[self.clients])?;
        let least = PARTS_OF_RESTART * u64::from(self.clients);
        if !(least..=TRANSACTION_COUNT_MAX).contains(&self.transaction_count) {
            return Err(format!(
                "`transaction_count` must be from {least}, two for each terminal, to \
                 {TRANSACTION_COUNT_MAX}"
            ));
        }
        let rises = self.size_percent.windows(2).all(|pair| pair[0] < pair[1]);
        let is_percent = |percent: &f64| *percent > 0.0 && *percent <= 100.0;
        if self.size_percent.is_empty() || !rises || !self.size_percent.iter().all(is_percent) {
            return Err("`size_percent` must be some above 0, at most 100, and rise".into());
        }
        let mut known = self.policies.clone();
        known.sort_unstable();
        known.dedup();
        if known.is_empty() || known.len() < self.policies.len() {
            return Err("`policies` must name some, each once".into());
        }
        let own = [
            ("pool_bytes", "memory"),
            ("log_bytes", "log"),
            ("propagation", "policies"),
            ("tiered.policy", "policies"),
            ("tiered.size_bytes", "size_percent"),
        ];
        self.engine().check([PAGE_BYTES], &own)?;
        self.settings().check().map_err(|error| format!("`memory`, `log`: {error}"))?;
        let tpcc = self.rows.tpcc(0).map_err(|error| format!("`rows`: {error}"))?;
        let smallest = self.tiered(&tpcc, self.policies[0], self.size_percent[0]);
        smallest.check().map_err(|error| format!("`size_percent`: {error}"))
    }

    fn targets(&self) -> Vec<String> {
        let flash = self.flash.base.clone();
        step_targets(&self.disk).into_iter().chain([flash]).collect()
    }

    fn series_names(&self) -> Vec<String> {
        let series = self.steps().into_iter().flat_map(|step| series_of(&step));
        series.map(|series| series.name).collect()
    }

    fn steps(&self) -> Vec<String> {
        let policies = self.policies.iter().map(|policy| policy.name());
        [DISK, FLASH].into_iter().chain(policies).map(str::to_owned).collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let steps = self.steps();
        let step = steps[index].as_str();
        let mut series = series_of(step);
        let mut add = |percent: f64, point: &Point| {
            for (series, value) in series.iter_mut().zip(point.values()) {
                series.points.push((percent, value));
            }
        };
        let Some(&policy) = index.checked_sub(2).and_then(|index| self.policies.get(index)) else {
            let drive = if index == 0 { self.disk.clone() } else { self.flash_alone() };
            let site = self.site(bench, (step, &drive), PropagationKind::default())?;
            let point = self.measure(bench, (step, &site), &self.settings())?;
            self.size_percent.iter().for_each(|&percent| add(percent, &point));
            return Ok(series);
        };
        let drive = SiteDrive { tier: Some(self.flash.clone()), ..self.disk.clone() };
        let tpcc = self.rows.tpcc(bench.seed).map_err(|error| LabError::step(step, &error))?;
        for &percent in &self.size_percent {
            let settings = self.tiered(&tpcc, policy, percent);
            let site = self.site(bench, (step, &drive), PropagationKind::Tiered)?;
            let point = self.measure(bench, (step, &site), &settings)?;
            add(percent, &point);
        }
        Ok(series)
    }
}
