//! Documents of TPoX in each storage mapping: how much they take, and how fast S004's mix goes on drives
//! (S004, sections 5.3 and 6).
//!
//! ```text
//!   [measure.variants.NAME]
//!   clients = 8            how many clients; absent: one
//!   processor = "50ms"     what a transaction computes; absent: no time
//!   lock_depth = 0         how deep writers lock the parts of a document apart; absent: as usual
//!   set = { … }            settings of the engine
//! ```
//!
//! Series by the size of the documents, in MB of the label that S004 gives them:
//!
//! - `MAPPING.COLLECTION.footprint` (bytes of the document's tree for one of the text), `.pages` (of that
//!   tree) and `.index_height` (its levels above the leaves);
//! - `DRIVE.VARIANT.MAPPING.MIX.tps`, `.faults` (pages read for a thousand transactions) and, of mixes with
//!   writers, `.log_bytes` (of the log for each transaction that changes something). `MIX` is `readers`, or
//!   `mix10` for 10 % of writers. Of drives with a host, `.watts` (mean, of both) and `.per_joule`
//!   (transactions).
//!
//! 1. All mappings, drives and variants get the same transactions, which follow from the seed, size and mix.
//! 2. The mixes of a size come one after the other to one database, by their share of writers. The pool is
//!    empty at the start of each, and so is the page cache before the drive, if there is one.
//! 3. What a client does takes no time but the drive's, and `processor`; all compute at once, or as many as
//!    the drive's host has cores.

use super::Measurement;
use super::bench::{Bench, LOCAL, check_processor};
use super::engine_set::EngineSet;
use super::site::{
    EngineVariant, Site, SiteDrive, SiteDrives, cancelled, check_cancelled, check_drives,
    step_targets, targets,
};
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::{ByteCount, Nanos, Rng};
use nandu_bench::tpox::TpoxRun;
use nandu_bench::{BenchError, Clock, Load, Plan, SwitchKind, Watch};
use nandu_device::{EnergyReport, Geometry, MemoryConfig, MemoryDevice};
use nandu_energy::{Host, ProcessorUse};
use nandu_load::{Tpox, TpoxCollection, TpoxIndexes, TpoxObserver};
use nandu_probe::text;
use nandu_storage::database::Isolation;
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Database, Settings, Volumes};
use nandu_xml::{Document, LockSettings, MappingKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pages unless `set` says otherwise.
const PAGE_BYTES: u32 = 4096;
/// Sectors of the memory that documents are measured in.
const SECTOR_BYTES: u32 = 512;
/// Memory of the pool and capacity of the log there, which decide nothing.
const POOL_BYTES: u64 = 4 << 20;
const LOG_BYTES: u64 = 4 << 20;

/// The keys of an experiment of the kind `tpox`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpoxMix {
    /// What the database lies on; none to measure how much documents take alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drives: SiteDrives,
    /// How long a transaction computes, with which settings of the engine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variants: BTreeMap<String, TpoxVariant>,
    /// Models of the machines around drives, by the drive's name; with it energy is told.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, String>,
    /// How documents are stored.
    pub mappings: Vec<MappingKind>,
    /// Sizes of the documents, rising.
    #[serde(deserialize_with = "text::sizes")]
    pub sizes: Vec<ByteCount>,
    /// Percent of transactions that change something, rising.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mixes: Vec<u8>,
    /// Transactions of a mix.
    #[serde(default)]
    pub transaction_count: u64,
    /// Memory of the pool.
    #[serde(default = "memory", deserialize_with = "text::size")]
    pub memory: ByteCount,
}

/// 4096 frames, as in S004.
const fn memory() -> ByteCount {
    ByteCount(4096 * PAGE_BYTES as u64)
}

/// The most clients.
const CLIENT_COUNT_MAX: u32 = 10_000;

/// Who is at work, and what a transaction waits for beside the drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpoxVariant {
    /// How many clients share the transactions; one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// What it computes; no time if absent.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "text::optional_duration"
    )]
    pub processor: Option<Nanos>,
    /// The deepest level of a document that writers lock by itself; that of an engine that is not asked if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_depth: Option<u32>,
    /// Settings of the engine.
    #[serde(default, skip_serializing_if = "EngineSet::is_empty")]
    pub set: EngineSet,
}

impl TpoxVariant {
    fn locks(&self) -> LockSettings {
        let usual = LockSettings::default();
        LockSettings { depth: self.lock_depth.unwrap_or(usual.depth), ..usual }
    }

    fn engine(&self) -> EngineVariant {
        EngineVariant::writing(&self.set)
    }
}

/// A step: a mapping alone, or on a drive.
type Step<'a> = (MappingKind, Option<(&'a str, &'a SiteDrive, &'a str, &'a TpoxVariant)>);

/// The name of a mix in series.
fn mix_name(percent: u8) -> String {
    match percent {
        0 => "readers".to_owned(),
        percent => format!("mix{percent}"),
    }
}

/// Where a size stands in series.
fn megabytes(size: ByteCount) -> f64 {
    size.0 as f64 / 1e6
}

impl TpoxMix {
    /// The machine around drive `name`, if there is a model of it.
    pub(super) fn host_of(&self, name: &str) -> Result<Option<Host>, String> {
        let host = self.hosts.get(name).map(|host| Host::load(host)).transpose();
        host.map_err(|error| format!("`hosts`: {error}"))
    }

    fn each_step(&self) -> Vec<Step<'_>> {
        let mut steps: Vec<Step<'_>> =
            self.mappings.iter().map(|&mapping| (mapping, None)).collect();
        for (name, drive) in &self.drives {
            for (variant_name, variant) in &self.variants {
                let place = (name.as_str(), drive, variant_name.as_str(), variant);
                steps.extend(self.mappings.iter().map(|&mapping| (mapping, Some(place))));
            }
        }
        steps
    }

    fn series_of(&self, (mapping, place): Step<'_>) -> Vec<Series> {
        let of = |name: String, unit: &str| Series::new(name, "MB", unit);
        let mapping = mapping.label();
        let Some((drive, _, variant, _)) = place else {
            let of_collection = |collection: TpoxCollection| {
                let stem = format!("{mapping}.{}", collection.name());
                [
                    of(format!("{stem}.footprint"), ""),
                    of(format!("{stem}.pages"), ""),
                    of(format!("{stem}.index_height"), ""),
                ]
            };
            let mut series: Vec<Series> =
                TpoxCollection::ALL.into_iter().flat_map(of_collection).collect();
            series.push(of(format!("{mapping}.footprint"), ""));
            return series;
        };
        let mut series = Vec::new();
        for &mix in &self.mixes {
            let stem = format!("{drive}.{variant}.{mapping}.{}", mix_name(mix));
            series.push(of(format!("{stem}.tps"), "1/s"));
            series.push(of(format!("{stem}.faults"), ""));
            if mix > 0 {
                series.push(of(format!("{stem}.log_bytes"), "B"));
            }
            if self.hosts.contains_key(drive) {
                series.push(of(format!("{stem}.watts"), "W"));
                series.push(of(format!("{stem}.per_joule"), "1/J"));
            }
        }
        series
    }

    /// How much the documents of each size take.
    fn footprints(
        &self,
        bench: &Bench<'_>,
        step: &str,
        mapping: MappingKind,
    ) -> Result<Vec<Series>, LabError> {
        let mut series = self.series_of((mapping, None));
        for &size in &self.sizes {
            check_cancelled(bench)?;
            let error = |error: BenchError| LabError::step(step, &error);
            let found = footprint(bench, size, mapping).map_err(error)?.ok_or_else(cancelled)?;
            for (series, value) in series.iter_mut().zip(found) {
                series.points.push((megabytes(size), value));
            }
        }
        Ok(series)
    }

    /// All mixes of a size, over one database.
    fn measure(
        &self,
        bench: &Bench<'_>,
        step: &str,
        site: &Site,
        (size, mapping): (ByteCount, MappingKind),
        (variant, host): (&TpoxVariant, Option<&Host>),
    ) -> Result<Vec<f64>, LabError> {
        let error = |error: BenchError| LabError::step(step, &error);
        let engine = |error| LabError::step(step, &BenchError::Storage(error));
        let settings = variant.engine().settings(PAGE_BYTES, self.memory.0);
        let volumes = site.format().map_err(engine)?;
        let database = Database::create(volumes, &settings, bench.seed).map_err(engine)?;
        let run = |write_percent: u8, seed| TpoxRun {
            tpox: Tpox::new(size.0, bench.seed).expect("sizes were checked"),
            mapping,
            write_percent,
            isolation: Isolation::default(),
            locks: variant.locks(),
            seed,
            // What an earlier mix made stays.
            new_from: u64::from(write_percent) * self.transaction_count,
        };
        let stored = run(0, 0).load(&database, &mut StoreWatch(bench)).map_err(error)?;
        if stored.is_none() {
            return Err(cancelled());
        }
        let mut found = Vec::new();
        for &mix in &self.mixes {
            check_cancelled(bench)?;
            database.drop_cached_pages().map_err(engine)?;
            site.empty_cache();
            // Whatever mapping and drive, the same transactions.
            let part = format!("{} {}", size.0, mix_name(mix));
            let run = run(mix, Rng::for_part(bench.seed, &part).next_u64());
            found.extend(self.at_work(&database, &run, (variant, host)).map_err(error)?);
        }
        database.close().map_err(engine)?;
        Ok(found)
    }

    /// What one mix has in its series.
    fn at_work(
        &self,
        database: &Database,
        run: &TpoxRun,
        (variant, host): (&TpoxVariant, Option<&Host>),
    ) -> Result<Vec<f64>, BenchError> {
        let client_count = variant.clients.unwrap_or(1);
        let plan = Plan {
            operation_count: self.transaction_count,
            client_count,
            // On the host's cores, where there is one: its processor draws what those do.
            core_count: client_count.min(host.map_or(u32::MAX, |host| host.power.core_count)),
            processor_time: variant.processor.unwrap_or_default(),
            think_time: Nanos::ZERO,
            switch_kind: SwitchKind::default(),
        };
        let load = run.start();
        let shared: Arc<dyn Load> = Arc::new(Arc::clone(&load));
        let clock: Clock = Arc::new(|| unreachable!("a simulated drive has its own clock"));
        let watch = Arc::new(Watch::default());
        let outcome = nandu_bench::run(database, &shared, &plan, &watch, &clock)?;
        let count = outcome.operation_count as f64;
        let mut found =
            vec![outcome.operations_per_second, outcome.pool_miss_count as f64 * 1e3 / count];
        if run.write_percent > 0 {
            let write_count = load.counts().write_transaction_count.max(1);
            found.push(outcome.log_bytes as f64 / write_count as f64);
        }
        if let Some(host) = host {
            let busy = Nanos(plan.processor_time.0 * outcome.operation_count);
            let energy = outcome.energy.map(|drive| {
                host.with_drives(drive, ProcessorUse { busy }, outcome.operation_count)
            });
            // What is not told is no number, which the experiment shows as missing.
            let told = |of: fn(&EnergyReport) -> Option<f64>| {
                energy.as_ref().and_then(of).unwrap_or(f64::NAN)
            };
            found.push(told(|energy| energy.mean_watts));
            found.push(told(|energy| energy.operations_per_joule));
        }
        Ok(found)
    }
}

/// Of each collection what is stored for a byte of text, the pages and the height of the index; of all
/// together the first. `None` if the run is to stop.
fn footprint(
    bench: &Bench<'_>,
    size: ByteCount,
    mapping: MappingKind,
) -> Result<Option<Vec<f64>>, BenchError> {
    let tpox = Tpox::new(size.0, bench.seed).expect("sizes were checked");
    let (pool_bytes, log_bytes) = (POOL_BYTES, LOG_BYTES);
    let checkpoint_bytes = log_bytes / 4;
    let settings = Settings { pool_bytes, log_bytes, checkpoint_bytes, ..Settings::default() };
    let text_bytes: u64 = TpoxCollection::ALL.map(|it| tpox.expected_bytes(it)).iter().sum();
    let sector_count = (2 * text_bytes + 2 * settings.log_bytes) / u64::from(SECTOR_BYTES);
    let geometry = Geometry { sector_bytes: SECTOR_BYTES, sector_count };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let volumes = Volumes::new(Box::new(DeviceVolume::format(Box::new(device))?), None);
    let database = Database::create(volumes, &settings, bench.seed)?;
    let mut write = database.write()?;
    let reports =
        match tpox.store(&mut write, (mapping, TpoxIndexes::Without), &mut StoreWatch(bench)) {
            Err(nandu_xml::XmlError::Cancelled) => return Ok(None),
            reports => reports?,
        };
    write.commit()?;
    let read = database.read();
    let mut found = Vec::new();
    let (mut stored, mut plain) = (0, 0);
    for (collection, report) in TpoxCollection::ALL.into_iter().zip(reports) {
        let stat = Document::open(&read, collection.name())?.stat(&read)?;
        // A file has room to grow, which is not the document's.
        let tree_bytes = stat.page_count * u64::from(PAGE_BYTES);
        found.push(tree_bytes as f64 / report.plain_bytes as f64);
        found.push(stat.page_count as f64);
        found.push(stat.height.saturating_sub(1) as f64);
        (stored, plain) = (stored + tree_bytes, plain + report.plain_bytes);
    }
    found.push(stored as f64 / plain as f64);
    Ok(Some(found))
}

impl Measurement for TpoxMix {
    fn check(&self) -> Result<(), String> {
        let rises = self.sizes.windows(2).all(|pair| pair[0] < pair[1]);
        if self.sizes.is_empty() || !rises {
            return Err("`sizes` must rise, and have one at least".into());
        }
        for size in &self.sizes {
            Tpox::new(size.0, 1).map_err(|error| format!("`sizes`: {error}"))?;
        }
        let mut mappings = self.mappings.clone();
        mappings.sort_unstable();
        mappings.dedup();
        if mappings.is_empty() || mappings.len() < self.mappings.len() {
            return Err("`mappings` has one at least, and none twice".into());
        }
        if self.drives.is_empty() {
            return match self.variants.is_empty() && self.mixes.is_empty() {
                true => Ok(()),
                false => {
                    Err("`variants` and `mixes` are of `drives`, of which there is none".into())
                }
            };
        }
        check_drives(&self.drives)?;
        for name in self.hosts.keys() {
            let Some(drive) = self.drives.get(name) else {
                return Err(format!("`hosts` names `{name}`, which `drives` has not"));
            };
            self.host_of(name)?;
            if !drive.tells_energy(name)? {
                return Err(format!("`hosts` has one for `{name}`, whose profile has no power"));
            }
        }
        if let Some((name, _)) = self.drives.iter().find(|(_, drive)| drive.base == LOCAL) {
            return Err(format!("`{name}` must be simulated; on disks `nandu bench tpox` runs it"));
        }
        let rises = self.mixes.windows(2).all(|pair| pair[0] < pair[1]);
        if self.mixes.is_empty() || !rises || self.mixes.iter().any(|&mix| mix > 100) {
            return Err("`mixes` must rise, from 0 to 100 percent".into());
        }
        if self.transaction_count == 0 {
            return Err("`transaction_count` must be above 0".into());
        }
        if self.variants.is_empty() {
            return Err("`variants` is empty; name at least one".into());
        }
        for variant in self.variants.values() {
            check_processor(variant.processor, self.transaction_count)?;
            if variant.clients.is_some_and(|count| !(1..=CLIENT_COUNT_MAX).contains(&count)) {
                return Err(format!("`clients` must be from 1 to {CLIENT_COUNT_MAX}"));
            }
            let engine = variant.engine();
            engine.check([PAGE_BYTES], &[("pool_bytes", "memory")])?;
            let checked = engine.settings(PAGE_BYTES, self.memory.0).check();
            checked.map_err(|error| format!("`memory`: {error}"))?;
        }
        Ok(())
    }

    fn hosts(&self) -> Vec<String> {
        self.hosts.values().cloned().collect()
    }

    fn tells_energy(&self) -> bool {
        !self.hosts.is_empty()
    }

    fn targets(&self) -> Vec<String> {
        if self.drives.is_empty() { Vec::new() } else { targets(&self.drives) }
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        self.each_step()[index].1.map_or_else(Vec::new, |(_, drive, ..)| step_targets(drive))
    }

    fn series_names(&self) -> Vec<String> {
        let series = self.each_step().into_iter().flat_map(|step| self.series_of(step));
        series.map(|series| series.name).collect()
    }

    fn steps(&self) -> Vec<String> {
        let label = |(mapping, place): Step<'_>| match place {
            None => format!("{} footprint", mapping.label()),
            Some((drive, _, variant, _)) => format!("{drive} {variant} {}", mapping.label()),
        };
        self.each_step().into_iter().map(label).collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let (mapping, place) = self.each_step()[index];
        let step = &self.steps()[index];
        let Some((name, drive, _, variant)) = place else {
            return self.footprints(bench, step, mapping);
        };
        let mut series = self.series_of((mapping, place));
        let host =
            self.host_of(name).map_err(|message| LabError::Step { step: step.clone(), message })?;
        for &size in &self.sizes {
            check_cancelled(bench)?;
            let site = Site::prepare(bench, step, (name, drive), None)?;
            let site = site.expect("a simulated drive is always there");
            let found =
                self.measure(bench, step, &site, (size, mapping), (variant, host.as_ref()))?;
            for (series, value) in series.iter_mut().zip(found) {
                series.points.push((megabytes(size), value));
            }
        }
        Ok(series)
    }
}

/// Ends a load of documents when the run is to stop.
struct StoreWatch<'a, 'b>(&'a Bench<'b>);

impl TpoxObserver for StoreWatch<'_, '_> {
    fn is_cancelled(&self) -> bool {
        self.0.observer.is_cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Unwatched;

    #[test]
    fn clients_compute_on_the_cores_of_the_host_whose_processor_draws_its_most_at_the_most() {
        let text = "mappings = ['prefix']\nsizes = ['1MB']\nmixes = [0]\ntransaction_count = 200\n\
                    hosts = { flash = 's004-flash' }\n\
                    [drives.flash]\nbase = 'sim:supertalent-duradrive'\ncapacity = '128MiB'\n\
                    [variants.many]\nclients = 16\nprocessor = '10ms'\n";
        let kind: TpoxMix = toml::from_str(text).unwrap();
        assert_eq!(kind.check(), Ok(()));
        let endless: TpoxMix = toml::from_str(&text.replace("10ms", "100000h")).unwrap();
        assert!(endless.check().unwrap_err().contains("`processor` would take more than 100"));
        let mut bench = Bench {
            seed: 1,
            local: None,
            local_subject: None,
            observer: &mut Unwatched,
            notes: Vec::new(),
            power: nandu_device::PowerLog::default(),
        };
        let found = kind.run_step(1, &mut bench).unwrap();
        let value = |what: &str| {
            let name = format!("flash.many.prefix.readers.{what}");
            found.iter().find(|series| series.name == name).unwrap().points[0].1
        };
        // Two cores, 10 ms for each: 43 W of the machine and 45 of its processor, the drive 0.9 at most.
        assert!((100.0..=200.0).contains(&value("tps")), "{}", value("tps"));
        assert!((70.0..=88.9).contains(&value("watts")), "{}", value("watts"));
    }
}
