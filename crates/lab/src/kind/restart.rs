//! A restart after a crash, step by step: S003, "A case for flash SSD in database recovery".
//!
//! ```text
//!   load ─► close ─► open ─► full checkpoint ─► updates ─► checkpoint ─► updates ─► crash ─► restart
//!                                               └─ interval of log ─┘   └ interval ┘
//! ```
//!
//! The crash comes as late as it can, just before the next checkpoint; the drive forgets what it had
//! read. Updates replace the values of records drawn uniformly. One step for each drive, with series by
//! the checkpoint interval in bytes of log: for `log_scan`, `page_reads`, `apply`, `page_writes` and
//! their `total` the time `DRIVE.STEP_s`, the requests `.STEP_requests` and what they moved,
//! `.STEP_bytes`; `.pages`, the pages that redo changes; and `.log_bytes`, the log from where redo
//! begins.
//!
//! The virtual clock knows the devices only, so what the processor does is charged by the record:
//! `record_cpu` for each change that redo looks at, as part of the third step.

use super::Measurement;
use super::bench::Bench;
use super::engine_set::{EngineSet, Own};
use super::site::{
    EngineVariant, Site, SiteDrives, check_cancelled, check_drives, step_targets, targets,
};
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::{ByteCount, Nanos, Rng, to_index, to_u32};
use nandu_probe::text;
use nandu_storage::btree::Tree;
use nandu_storage::engine::{RestartReport, RestartStep, StructureKind, TornPages};
use nandu_storage::log::Durability;
use nandu_storage::{Engine, FileId, Settings, StorageError};
use serde::{Deserialize, Serialize};

const TREE_FILE: &str = "records.tree";
/// Fill of the loaded tree's nodes, in percent, so that updates split none.
const FILL_PERCENT: usize = 80;
/// Records of an action of the load.
const LOAD_BATCH: u64 = 100;
/// Commits that share a flush of the log.
const GROUP_COUNT: u32 = 100;
/// Capacity of the log over the longest interval: two intervals stay in it, and none is cut short by
/// a checkpoint that nobody asked for.
const LOG_PER_INTERVAL: u64 = 8;

/// Settings of the engine that keys of the measurement are for.
const OWN: [Own; 4] = [
    ("page_bytes", "page_bytes"),
    ("pool_bytes", "pool"),
    ("log_bytes", "intervals"),
    ("checkpoint_bytes", "intervals"),
];

/// The keys of an experiment of the kind `restart`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restart {
    /// What the database lies on.
    pub drives: SiteDrives,
    /// Records that are loaded.
    pub record_count: u64,
    /// Bytes of a record beside its key of eight.
    pub value_bytes: u32,
    /// Memory of the pool.
    #[serde(deserialize_with = "text::size")]
    pub pool: ByteCount,
    /// Bytes of a database page.
    #[serde(deserialize_with = "text::size")]
    pub page_bytes: ByteCount,
    /// Checkpoint intervals, in bytes of log.
    #[serde(deserialize_with = "text::sizes")]
    pub intervals: Vec<ByteCount>,
    /// What the processor takes for a change that redo looks at.
    #[serde(deserialize_with = "text::duration")]
    pub record_cpu: Nanos,
    /// Other settings of the engine.
    #[serde(default, skip_serializing_if = "EngineSet::is_empty")]
    pub set: EngineSet,
}

/// The series of the four steps on a drive, of all of it, and of what there was to do.
pub(super) fn step_series(drive: &str) -> Vec<Series> {
    let of = |suffix: &str, unit: &str| Series::new(format!("{drive}.{suffix}"), "B", unit);
    let of_step = |step: &str| {
        [("s", "s"), ("requests", ""), ("bytes", "B")]
            .map(|(what, unit)| of(&format!("{step}_{what}"), unit))
    };
    let steps = ["log_scan", "page_reads", "apply", "page_writes", "total"];
    let steps = steps.into_iter().flat_map(of_step);
    steps.chain([of("pages", ""), of("log_bytes", "B")]).collect()
}

/// What a restart has in them, in their order, where the processor takes so long for a change.
pub(super) fn step_values(report: &RestartReport, record_cpu: Nanos) -> Vec<f64> {
    let changes = report.redone_count + report.skipped_count;
    let RestartReport { log_scan, page_reads, mut apply, page_writes, .. } = *report;
    apply.time += record_cpu * changes;
    let mut steps = vec![log_scan, page_reads, apply, page_writes];
    let mut total = RestartStep::default();
    for step in &steps {
        total.time += step.time;
        total.request_count += step.request_count;
        total.bytes += step.bytes;
    }
    steps.push(total);
    let of_step = |step: &RestartStep| {
        [step.time.as_seconds_f64(), step.request_count as f64, step.bytes as f64]
    };
    let rest = [report.page_count as f64, report.log_bytes as f64];
    steps.iter().flat_map(of_step).chain(rest).collect()
}

impl Restart {
    fn variant(&self) -> EngineVariant {
        let durability = Durability::Grouped { commit_count: GROUP_COUNT };
        let variant = EngineVariant::new(false, durability, TornPages::LogImages);
        EngineVariant { set: self.set.clone(), ..variant }
    }

    fn settings(&self, pool_bytes: u64) -> Settings {
        let longest = self.intervals.iter().map(|interval| interval.0).max().unwrap_or(0);
        let log_bytes = longest * LOG_PER_INTERVAL;
        Settings {
            log_bytes,
            checkpoint_bytes: log_bytes / 4,
            ..self.variant().settings(to_u32(self.page_bytes.0), pool_bytes)
        }
    }

    fn measure(
        &self,
        site: &Site,
        seed: u64,
        interval: ByteCount,
    ) -> Result<RestartReport, StorageError> {
        self.load(site)?;
        let settings = self.settings(self.pool.0);
        let (mut engine, _) = Engine::open(site.reopen()?, &settings)?;
        let files = engine.files();
        let (file, _) = *files.iter().find(|(_, name)| name == TREE_FILE).expect("it was made");
        let mut rng = Rng::for_part(seed, "updates");
        engine.checkpoint_fully()?;
        self.update(&mut engine, file, &mut rng, interval)?;
        engine.checkpoint()?;
        self.update(&mut engine, file, &mut rng, interval)?;
        engine.log().flush()?;
        drop(engine);
        site.forget_reads(seed);
        let (engine, report) = Engine::open(site.reopen()?, &settings)?;
        assert!(!report.was_closed, "it crashed");
        engine.close()?;
        Ok(report)
    }

    fn load(&self, site: &Site) -> Result<(), StorageError> {
        let memory = self.record_count * (u64::from(self.value_bytes) + 64);
        let mut engine = Engine::create(site.format()?, &self.settings(memory), 1)?;
        let file = engine.create_file(TREE_FILE)?;
        engine.begin()?;
        let mut loader = engine.act(|pages| {
            let tree = Tree::create(pages, file)?;
            tree.bulk_load(pages, FILL_PERCENT)
        })?;
        let value = vec![0x5A; to_index(u64::from(self.value_bytes))];
        let mut next = 0;
        while next < self.record_count {
            let batch = next..self.record_count.min(next + LOAD_BATCH);
            next = batch.end;
            engine.act(|pages| {
                batch.clone().try_for_each(|key| loader.push(pages, &key.to_be_bytes(), &value))
            })?;
            engine.commit()?;
            engine.begin()?;
        }
        engine.act(|pages| {
            let mut undo = pages.begin_undo(StructureKind::Tree, file);
            loader.finish(pages, &mut undo)?;
            pages.set_undo(undo);
            Ok(())
        })?;
        engine.commit()?;
        engine.close()
    }

    /// Updates until the log grew by `interval`.
    fn update(
        &self,
        engine: &mut Engine,
        file: FileId,
        rng: &mut Rng,
        interval: ByteCount,
    ) -> Result<(), StorageError> {
        let log = engine.log();
        let end = log.next_lsn().0 + interval.0;
        let mut value = vec![0; to_index(u64::from(self.value_bytes))];
        while log.next_lsn().0 < end {
            let key = rng.below(self.record_count).to_be_bytes();
            value.fill(rng.next_u64().to_be_bytes()[0]);
            engine.begin()?;
            engine.act(|pages| {
                let mut undo = pages.begin_undo(StructureKind::Tree, file);
                let was_there = Tree::at(file).update(pages, &key, &value, &mut undo)?;
                assert!(was_there, "only records that are there are updated");
                pages.set_undo(undo);
                Ok(())
            })?;
            if let Some(commit) = engine.commit()? {
                log.make_commit_durable(commit, engine.settings().durability)?;
            }
        }
        Ok(())
    }
}

impl Measurement for Restart {
    fn check(&self) -> Result<(), String> {
        check_drives(&self.drives)?;
        if self.intervals.is_empty() || self.record_count == 0 {
            return Err("`intervals` and `record_count` need a value".into());
        }
        match self.intervals.iter().find(|interval| **interval < ByteCount::kib(64)) {
            Some(interval) => Err(format!("`intervals` has {interval}; 64 KiB is the least")),
            None => self.variant().check([to_u32(self.page_bytes.0)], &OWN),
        }
    }

    fn targets(&self) -> Vec<String> {
        targets(&self.drives)
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        let (_, drive) = self.drives.iter().nth(index).expect("a step is a drive");
        step_targets(drive)
    }

    fn series_names(&self) -> Vec<String> {
        let series = self.drives.keys().flat_map(|drive| step_series(drive));
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
        let mut series = step_series(name);
        for &interval in &self.intervals {
            check_cancelled(bench)?;
            let Some(site) = Site::prepare(bench, name, (name, drive), None)? else {
                return Ok(Vec::new());
            };
            let report = self.measure(&site, bench.seed, interval);
            let report = report.map_err(|error| LabError::step(name, &error))?;
            for (series, value) in series.iter_mut().zip(step_values(&report, self.record_cpu)) {
                series.points.push((interval.0 as f64, value));
            }
        }
        Ok(series)
    }
}
