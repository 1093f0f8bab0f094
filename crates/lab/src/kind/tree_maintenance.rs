//! Inserts into a B+-tree and lookups from it: S000 section 4.1, figure 4-1.
//!
//! ```text
//!   load, by inserts, all in memory ─► close ─► open with the small pool
//!     ─► inserts: warm-up, timed ─► empty the pool ─► lookups: warm-up, timed
//! ```
//!
//! Keys are the next integer, or, with the probability that is called randomness, uniform over 64
//! bits; lookups ask for keys that are there, by the same rule. One step for each drive and variant,
//! with series by page size: `DRIVE.VARIANT.rNN.inserts_s` and `.lookups_s`, seconds for 10,000
//! operations at NN percent of randomness, `.insert_bytes`, written to the drive of the pages for one
//! insert, and `.record_bytes`, the tree's file over its records. A transaction is one insert.

use super::Measurement;
use super::bench::Bench;
use super::engine_set::Own;
use super::site::{
    EngineVariant, Site, SiteDrives, check_cancelled, check_drives, step_targets, targets,
};
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::{ByteCount, Rng, to_index, to_u32};
use nandu_probe::text;
use nandu_storage::btree::Tree;
use nandu_storage::engine::StructureKind;
use nandu_storage::{Engine, FileId, StorageError, Volumes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const TREE_FILE: &str = "records.tree";
/// Inserts of a transaction of the load.
const LOAD_BATCH: u64 = 1000;
/// Memory of the load for a record, more than a record ever takes.
const LOAD_BYTES_PER_RECORD: u64 = 512;
/// Results are for so many operations.
const REPORTED_COUNT: f64 = 10_000.0;

/// Settings of the engine that the measurement and its variants have keys for.
const OWN: [Own; 5] = [
    ("page_bytes", "page_bytes"),
    ("pool_bytes", "pool_bytes_per_record"),
    ("log_bytes", "log"),
    ("durability", "durability"),
    ("torn_pages", "torn_pages"),
];

/// The keys of an experiment of the kind `tree_maintenance`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeMaintenance {
    /// What the tree lies on.
    pub drives: SiteDrives,
    /// How the engine works.
    pub variants: BTreeMap<String, EngineVariant>,
    /// Records that are loaded.
    pub record_count: u64,
    /// Bytes of a record beside its key of eight.
    pub value_bytes: u32,
    /// Memory of the pool for each record that is loaded.
    pub pool_bytes_per_record: u64,
    /// Sizes of database pages in bytes, each measured.
    #[serde(deserialize_with = "text::sizes")]
    pub page_bytes: Vec<ByteCount>,
    /// Shares of random keys, in percent.
    pub randomness: Vec<u8>,
    /// Operations of each kind before the timed ones.
    pub warm_up_count: u64,
    /// Operations of each kind that are timed.
    pub operation_count: u64,
}

impl TreeMaintenance {
    fn series_of(&self, drive: &str, variant: &str) -> Vec<Series> {
        let of = |&percent: &u8| {
            let of = |suffix: &str, unit: &str| {
                Series::new(format!("{drive}.{variant}.r{percent}.{suffix}"), "B", unit)
            };
            [
                of("inserts_s", "s"),
                of("lookups_s", "s"),
                of("insert_bytes", "B"),
                of("record_bytes", "B"),
            ]
        };
        self.randomness.iter().flat_map(of).collect()
    }

    fn pairs(&self) -> Vec<(&str, &str)> {
        let of = |drive| self.variants.keys().map(move |variant| (drive, variant.as_str()));
        self.drives.keys().map(String::as_str).flat_map(of).collect()
    }
}

impl Measurement for TreeMaintenance {
    fn check(&self) -> Result<(), String> {
        check_drives(&self.drives)?;
        let Self { variants, page_bytes, randomness, .. } = self;
        if variants.is_empty() || page_bytes.is_empty() || randomness.is_empty() {
            return Err("`variants`, `page_bytes` and `randomness` need a value each".into());
        }
        if let Some(percent) = randomness.iter().find(|percent| **percent > 100) {
            return Err(format!("`randomness` is in percent; {percent} is above 100"));
        }
        if self.record_count == 0 || self.operation_count == 0 {
            return Err("`record_count` and `operation_count` must be above 0".into());
        }
        let is_page =
            |size: &ByteCount| size.0.is_power_of_two() && (512..=65536).contains(&size.0);
        match page_bytes.iter().find(|size| !is_page(size)) {
            Some(size) => {
                Err(format!("`page_bytes` is {size}; it is a power of two, 512 to 64 KiB"))
            }
            None => variants.values().try_for_each(|variant| {
                variant.check(page_bytes.iter().map(|size| to_u32(size.0)), &OWN)
            }),
        }
    }

    fn targets(&self) -> Vec<String> {
        targets(&self.drives)
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        step_targets(&self.drives[self.pairs()[index].0])
    }

    fn series_names(&self) -> Vec<String> {
        let series = self.pairs().into_iter().flat_map(|(drive, name)| self.series_of(drive, name));
        series.map(|series| series.name).collect()
    }

    fn steps(&self) -> Vec<String> {
        self.pairs().into_iter().map(|(drive, variant)| format!("{drive} {variant}")).collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let (drive, variant) = self.pairs()[index];
        let step = format!("{drive} {variant}");
        let mut series = self.series_of(drive, variant);
        for page_bytes in &self.page_bytes {
            for (&percent, series) in self.randomness.iter().zip(series.chunks_mut(4)) {
                check_cancelled(bench)?;
                let log_apart = self.variants[variant].log_apart();
                let drive = (drive, &self.drives[drive]);
                let Some(site) = Site::prepare(bench, &step, drive, log_apart)? else {
                    return Ok(Vec::new());
                };
                let keys = Keys::new(percent, bench.seed);
                let work = Work { order: self, variant: &self.variants[variant], keys };
                let found = work.run(&site, to_u32(page_bytes.0));
                let found = found.map_err(|error| LabError::step(&step, &error))?;
                let Some(found) = found else {
                    bench.notes.push(format!("{}: no pages below a sector", drive.0));
                    continue;
                };
                for (series, value) in series.iter_mut().zip(found) {
                    series.points.push((page_bytes.0 as f64, value));
                }
            }
        }
        Ok(series)
    }
}

/// The distribution of keys.
struct Keys {
    percent: u64,
    rng: Rng,
    /// The integer that comes next.
    next: u64,
    /// The integer that is looked up next.
    next_wanted: u64,
    random: Vec<u64>,
}

impl Keys {
    fn new(percent: u8, seed: u64) -> Self {
        let rng = Rng::for_part(seed, "keys");
        Self { percent: u64::from(percent), rng, next: 0, next_wanted: 0, random: Vec::new() }
    }

    fn is_random(&mut self) -> bool {
        self.rng.below(100) < self.percent
    }

    fn next_inserted(&mut self) -> u64 {
        if self.is_random() {
            let key = self.rng.next_u64();
            self.random.push(key);
            return key;
        }
        self.next += 1;
        self.next - 1
    }

    fn next_looked_up(&mut self) -> u64 {
        if self.is_random() && !self.random.is_empty() {
            return self.random[to_index(self.rng.below(self.random.len() as u64))];
        }
        self.next_wanted += 1;
        (self.next_wanted - 1) % self.next.max(1)
    }
}

/// One point of all series of a randomness.
struct Work<'a> {
    order: &'a TreeMaintenance,
    variant: &'a EngineVariant,
    keys: Keys,
}

impl Work<'_> {
    /// Runs it, unless a sector is larger than a page.
    fn run(mut self, site: &Site, page_bytes: u32) -> Result<Option<[f64; 4]>, StorageError> {
        let volumes = site.format()?;
        if volumes.data.sector_bytes() > page_bytes {
            return Ok(None);
        }
        self.load(volumes, page_bytes)?;
        let pool_bytes = self.order.pool_bytes_per_record * self.order.record_count;
        let settings = self.variant.settings(page_bytes, pool_bytes);
        let (mut engine, _) = Engine::open(site.reopen()?, &settings)?;
        let files = engine.files();
        let (file, _) = *files.iter().find(|(_, name)| name == TREE_FILE).expect("it was made");
        let file_bytes = engine.file_bytes(file) as f64 / self.order.record_count as f64;
        let value = vec![0xA5; to_index(u64::from(self.order.value_bytes))];
        let mut start = (engine.now(), 0);
        for count in 0..self.order.warm_up_count + self.order.operation_count {
            if count == self.order.warm_up_count {
                start = (engine.now(), engine.device_counters().0.writes.byte_count);
            }
            engine.begin()?;
            insert(&mut engine, file, self.keys.next_inserted(), &value)?;
            if let Some(commit) = engine.commit()? {
                engine.log().make_commit_durable(commit, settings.durability)?;
            }
        }
        let inserts = (engine.now() - start.0).as_seconds_f64();
        let bytes = engine.device_counters().0.writes.byte_count - start.1;
        engine.drop_cached_pages()?;
        site.empty_cache();
        let mut start = engine.now();
        for count in 0..self.order.warm_up_count + self.order.operation_count {
            if count == self.order.warm_up_count {
                start = engine.now();
            }
            let key = self.keys.next_looked_up().to_be_bytes();
            let found = Tree::at(file).get(&engine, &key, |_| ())?;
            assert!(found.is_some(), "only keys that are there are looked up");
        }
        let lookups = (engine.now() - start).as_seconds_f64();
        let count = self.order.operation_count as f64;
        let of_reported = REPORTED_COUNT / count;
        let bytes = bytes as f64 / count;
        Ok(Some([inserts * of_reported, lookups * of_reported, bytes, file_bytes]))
    }

    /// Makes the tree in memory and writes it.
    fn load(&mut self, volumes: Volumes, page_bytes: u32) -> Result<(), StorageError> {
        let memory = self.order.record_count * LOAD_BYTES_PER_RECORD;
        let settings = self.variant.settings(page_bytes, memory);
        let mut engine = Engine::create(volumes, &settings, 1)?;
        let file = engine.create_file(TREE_FILE)?;
        engine.begin()?;
        engine.act(|pages| Tree::create(pages, file))?;
        let value = vec![0x5A; to_index(u64::from(self.order.value_bytes))];
        for count in 1..=self.order.record_count {
            let key = self.keys.next_inserted();
            insert(&mut engine, file, key, &value)?;
            if count % LOAD_BATCH == 0 {
                engine.commit()?;
                engine.begin()?;
            }
        }
        engine.commit()?;
        engine.close()
    }
}

/// Random keys meet again once in billions of runs; then the record gets its value anew.
fn insert(engine: &mut Engine, file: FileId, key: u64, value: &[u8]) -> Result<(), StorageError> {
    engine.act(|pages| {
        let mut undo = pages.begin_undo(StructureKind::Tree, file);
        Tree::at(file).upsert(pages, &key.to_be_bytes(), value, &mut undo)?;
        pages.set_undo(undo);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_successive_random_or_both_and_lookups_find_them() {
        for (percent, low, high) in [(0, 0, 0), (33, 250, 420), (100, 1000, 1000)] {
            let mut keys = Keys::new(percent, 1);
            let inserted: Vec<u64> = (0..1000).map(|_| keys.next_inserted()).collect();
            assert!((low..=high).contains(&keys.random.len()), "{percent} %");
            let successive: Vec<u64> =
                inserted.iter().copied().filter(|key| !keys.random.contains(key)).collect();
            assert!(successive.iter().copied().eq(0..successive.len() as u64));
            for _ in 0..2000 {
                let key = keys.next_looked_up();
                assert!(inserted.contains(&key));
            }
        }
    }
}
