//! Pages in place and in a log, by access pattern: S000 chapter 6, figure 6-1.
//!
//! ```text
//!   file of pages ─► written in order (in place) or `log_rounds` times at random (log-structured)
//!     ─► sequential reads ─► random reads ─► random writes ─► sequential writes
//! ```
//!
//! One step for each drive and variant. Series by page size, in MB/s: `DRIVE.VARIANT.PATTERN` with the
//! patterns of S000 chapter 3. One request at a time, each write made durable before the next unless the
//! variant says otherwise; no page is accessed twice by a random pattern. `DRIVE.VARIANT.written` has the bytes that the drive was
//! given for a byte of random writes.
//!
//! There is no pool and no log of changes: what is measured is the propagation.

use super::Measurement;
use super::bench::{AccessPattern, Bench};
use super::engine_set::EngineSet;
use super::site::{Site, SiteDrives, check_cancelled, check_drives, step_targets, targets};
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::{ByteCount, Nanos, Permutation, Rng, to_index, to_u32};
use nandu_device::IoBuffer;
use nandu_probe::text;
use nandu_storage::propagation::{
    ChangedRanges, LogStructuredSettings, Media, Medium, PageWrite, Placement, PropagationConfig,
    PropagationKind, PropagationSettings,
};
use nandu_storage::volume::Io;
use nandu_storage::{FileId, PageAddress, Settings, StorageError, Volumes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const FILE: &str = "pages";
/// Pages that are written together while the file is prepared.
const PREPARED_TOGETHER: usize = 64;

/// The keys of an experiment of the kind `propagation`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PropagationComparison {
    /// What the pages lie on.
    pub drives: SiteDrives,
    /// How they lie there.
    pub variants: BTreeMap<String, PropagationVariant>,
    /// Page sizes, which are those of requests.
    #[serde(deserialize_with = "text::sizes")]
    pub page_bytes: Vec<ByteCount>,
    /// Bytes of the file.
    #[serde(deserialize_with = "text::size")]
    pub file: ByteCount,
    /// How often a log-structured file is written beforehand, in a random order each time.
    pub log_rounds: u32,
    /// Requests of a point, at most one for each page.
    pub operation_count: u64,
}

/// A way to place pages, and whether writes are to survive a power cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PropagationVariant {
    /// Where a page goes when it is written.
    pub propagation: PropagationKind,
    /// How, if it is log-structured; `page_bytes` is replaced.
    #[serde(default)]
    pub log_structured: LogStructuredSettings,
    /// Settings of any other propagation, by the names that the engine has for them.
    #[serde(default, skip_serializing_if = "EngineSet::is_empty")]
    pub set: EngineSet,
    /// Whether a write is to survive a power cut before the next one, or stays where the propagation and
    /// the drive's cache leave it.
    #[serde(default = "yes")]
    pub durable: bool,
    /// Bytes that the propagation places at a time, if they are less than a request; the blocks of a
    /// request are read one after the other, and written together.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "text::optional_size"
    )]
    pub block: Option<ByteCount>,
    /// The drives that it is measured on; all if empty.
    #[serde(default)]
    pub drives: Vec<String>,
}

const fn yes() -> bool {
    true
}

impl PropagationComparison {
    fn pairs(&self) -> Vec<(&str, &str)> {
        let of = |drive: &'_ String| {
            let is_on = |variant: &&PropagationVariant| {
                variant.drives.is_empty() || variant.drives.contains(drive)
            };
            let names = self.variants.iter().filter(|(_, variant)| is_on(variant));
            names.map(|(name, _)| name.as_str()).collect::<Vec<_>>()
        };
        let drives = self.drives.keys();
        drives.flat_map(|drive| of(drive).into_iter().map(|name| (drive.as_str(), name))).collect()
    }

    fn series_of(drive: &str, variant: &str) -> [Series; 5] {
        let of = |suffix: &str, unit: &str| {
            Series::new(format!("{drive}.{variant}.{suffix}"), "B", unit)
        };
        let [first, second, third, fourth] = MEASURED.map(|pattern| of(pattern.label(), "MB/s"));
        [first, second, third, fourth, of("written", "")]
    }

    fn check_variant(&self, name: &str, variant: &PropagationVariant) -> Result<(), String> {
        if let Some(drive) = variant.drives.iter().find(|name| !self.drives.contains_key(*name)) {
            return Err(format!("variant `{name}` is on `{drive}`, which is no drive here"));
        }
        variant.check_set().map_err(|error| format!("variant `{name}`: {error}"))?;
        for page_bytes in &self.page_bytes {
            if page_bytes.0 == 0 || self.file.0 / page_bytes.0 < self.operation_count {
                let count = self.operation_count;
                return Err(format!("`file` has fewer than {count} pages of {page_bytes}"));
            }
            let block_bytes = variant.block_bytes(to_u32(page_bytes.0));
            if !page_bytes.0.is_multiple_of(u64::from(block_bytes.max(1))) {
                return Err(format!("variant `{name}`: {page_bytes} is no multiple of its block"));
            }
            let checked = variant.config().check(block_bytes, 512);
            checked.map_err(|error| format!("variant `{name}`: {error}"))?;
        }
        Ok(())
    }

    /// One point of all series.
    fn measure(
        &self,
        site: &Site,
        variant: &PropagationVariant,
        page_bytes: u32,
        seed: u64,
    ) -> Result<[f64; 5], StorageError> {
        let block_bytes = variant.block_bytes(page_bytes);
        let mut store = PageStore::create(site, variant, block_bytes)?;
        let page_count = self.file.0 / u64::from(block_bytes);
        let blocks = u64::from(page_bytes / block_bytes);
        store.prepare(page_count, 1, None)?;
        if !variant.propagation.overwrites_pages() {
            for round in 0..self.log_rounds {
                let seed = Rng::for_part(seed, &format!("round {round}")).next_u64();
                store.prepare(page_count, round + 2, Some(seed))?;
            }
        }
        let mut found = [0.0; 5];
        for (pattern, found) in MEASURED.into_iter().zip(&mut found) {
            let seed = Rng::for_part(seed, pattern.label()).next_u64();
            site.empty_cache();
            let order = Permutation::new(page_count / blocks, seed);
            let is_random =
                matches!(pattern, AccessPattern::RandomRead | AccessPattern::RandomWrite);
            let start = store.now();
            for index in 0..self.operation_count {
                let first = blocks * if is_random { order.apply(index) } else { index };
                if pattern.writes() {
                    store.write(&(first..first + blocks).collect::<Vec<_>>(), 0)?;
                    if variant.durable {
                        store.sync()?;
                    }
                } else {
                    (first..first + blocks).try_for_each(|block| store.read(block))?;
                }
            }
            let bytes = self.operation_count as f64 * f64::from(page_bytes);
            *found = bytes / 1e6 / (store.now() - start).as_seconds_f64();
        }
        found[4] =
            store.written_for_a_byte(page_count, self.operation_count.min(page_count), seed)?;
        store.placement.audit();
        Ok(found)
    }
}

/// The patterns in the order in which they are measured: reads find what the preparation left.
const MEASURED: [AccessPattern; 4] = [
    AccessPattern::SequentialRead,
    AccessPattern::RandomRead,
    AccessPattern::RandomWrite,
    AccessPattern::SequentialWrite,
];

impl PropagationVariant {
    fn block_bytes(&self, page_bytes: u32) -> u32 {
        self.block.map_or(page_bytes, |block| to_u32(block.0).min(page_bytes))
    }

    /// The engine's settings, as far as they are not `set`.
    fn own_settings(&self) -> Settings {
        let mut propagation = PropagationSettings::from(self.propagation);
        propagation.log_structured = self.log_structured.clone();
        Settings { propagation, ..Settings::default() }
    }

    fn config(&self) -> PropagationConfig {
        self.set.apply(self.own_settings()).propagation.config()
    }

    /// Whether what is `set` can be, and is about propagations.
    fn check_set(&self) -> Result<(), String> {
        self.set.check_of_propagation(&self.own_settings())?;
        self.check_own()
    }

    /// Whether what is said of a propagation is said of this one, and in one place.
    fn check_own(&self) -> Result<(), String> {
        let meant = self.propagation;
        let has_key = self.log_structured != LogStructuredSettings::default();
        for &kind in PropagationKind::ALL {
            let name = kind.name();
            let key_is_of_it = has_key && kind == PropagationKind::LogStructured;
            let (set, key) = (self.set.says(&name), key_is_of_it);
            if (set || key) && kind != meant {
                let said = if set { format!("set.{name}") } else { name.clone() };
                return Err(format!(
                    "`{said}` is of another propagation than `{}`; leave it out, or say \
                     `propagation = \"{name}\"`",
                    meant.name()
                ));
            }
            if set && key {
                return Err(format!(
                    "`set.{name}` stands beside `{name}`; say all of it in one of them"
                ));
            }
        }
        Ok(())
    }
}

/// A file of pages.
struct PageStore {
    io: Io,
    /// What the propagation has beside it.
    others: Vec<Medium>,
    placement: Placement,
    file: FileId,
    page_bytes: u32,
    alignment: usize,
}

impl PageStore {
    fn create(
        site: &Site,
        variant: &PropagationVariant,
        page_bytes: u32,
    ) -> Result<Self, StorageError> {
        let Volumes { data, others, .. } = site.format()?;
        let clock = Arc::new(AtomicU64::new(0));
        let io = Io::new(data, Arc::clone(&clock));
        let file = io.create(FILE)?;
        let media = Media::with_clock(io.clone(), others, &clock);
        let others = media.others().cloned().collect();
        let (placement, _) = variant.config().build(page_bytes, media, None, true)?;
        let alignment = placement.buffer_alignment() as usize;
        Ok(Self { io, others, placement, file, page_bytes, alignment })
    }

    fn now(&self) -> Nanos {
        self.io.present()
    }

    fn address(&self, page: u64) -> PageAddress {
        PageAddress::new(self.file, to_u32(page + 1))
    }

    /// Writes all pages, in order or in that of a `seed`.
    fn prepare(
        &mut self,
        page_count: u64,
        round: u32,
        seed: Option<u64>,
    ) -> Result<(), StorageError> {
        let order = seed.map(|seed| Permutation::new(page_count, seed));
        let place = |index| order.as_ref().map_or(index, |order| order.apply(index));
        let pages: Vec<u64> = (0..page_count).map(place).collect();
        pages.chunks(PREPARED_TOGETHER).try_for_each(|pages| self.write(pages, round))?;
        self.sync()
    }

    fn write(&mut self, pages: &[u64], round: u32) -> Result<(), StorageError> {
        let write = |&page: &u64| {
            let length = to_index(u64::from(self.page_bytes));
            let mut buffer = IoBuffer::with_alignment(length, self.alignment);
            buffer.fill(0x5A ^ round.to_le_bytes()[0]);
            PageWrite {
                address: self.address(page),
                buffer,
                changed: ChangedRanges::default(),
                is_new: false,
            }
        };
        let mut writes: Vec<PageWrite> = pages.iter().map(write).collect();
        self.placement.write(&mut writes)
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        self.placement.sync()
    }

    fn read(&mut self, page: u64) -> Result<(), StorageError> {
        let address = self.address(page);
        let buffer = IoBuffer::with_alignment(to_index(u64::from(self.page_bytes)), self.alignment);
        self.placement.start_read(address, buffer)?;
        let read = self.placement.next_read().expect("one was begun");
        read.result?;
        assert!(read.buffer.iter().any(|&byte| byte != 0), "each page was written");
        Ok(())
    }

    /// Bytes that the drive is given for a byte of random writes, each made durable.
    fn written_for_a_byte(
        &mut self,
        page_count: u64,
        operation_count: u64,
        seed: u64,
    ) -> Result<f64, StorageError> {
        let order = Permutation::new(page_count, Rng::for_part(seed, "written").next_u64());
        let before = self.written_bytes();
        for index in 0..operation_count {
            self.write(&[order.apply(index)], 1)?;
            self.sync()?;
        }
        let written = self.written_bytes() - before;
        Ok(written as f64 / (operation_count as f64 * f64::from(self.page_bytes)))
    }

    /// Bytes that the volumes were given, and of flash pages that were programmed on chips.
    fn written_bytes(&self) -> u64 {
        let of_medium = |medium: &Medium| match medium {
            Medium::Volume(io) => io.counters().writes.byte_count,
            Medium::RawFlash(chips) => {
                let flash_page_bytes = u64::from(chips.info().geometry.flash_page_bytes);
                chips.counters().commands.programmed_pages() * flash_page_bytes
            }
        };
        let others = self.others.iter().map(of_medium).sum::<u64>();
        self.io.counters().writes.byte_count + others
    }
}

impl Measurement for PropagationComparison {
    fn check(&self) -> Result<(), String> {
        check_drives(&self.drives)?;
        if self.variants.is_empty() || self.page_bytes.is_empty() || self.operation_count == 0 {
            return Err("`variants`, `page_bytes` and `operation_count` need a value".into());
        }
        self.variants.iter().try_for_each(|(name, variant)| self.check_variant(name, variant))
    }

    fn targets(&self) -> Vec<String> {
        targets(&self.drives)
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        step_targets(&self.drives[self.pairs()[index].0])
    }

    fn series_names(&self) -> Vec<String> {
        let series =
            self.pairs().into_iter().flat_map(|(drive, name)| Self::series_of(drive, name));
        series.map(|series| series.name).collect()
    }

    fn steps(&self) -> Vec<String> {
        self.pairs().into_iter().map(|(drive, variant)| format!("{drive} {variant}")).collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let (drive, variant) = self.pairs()[index];
        let step = format!("{drive} {variant}");
        let mut series = Self::series_of(drive, variant);
        for page_bytes in &self.page_bytes {
            check_cancelled(bench)?;
            let place = (drive, &self.drives[drive]);
            let Some(site) = Site::prepare(bench, &step, place, None)? else {
                return Ok(Vec::new());
            };
            let variant = &self.variants[variant];
            let site = site.with_media_of(variant.propagation, place, bench.seed)?;
            let size = to_u32(page_bytes.0);
            let found = self.measure(&site, variant, size, bench.seed);
            let found = found.map_err(|error| LabError::step(&step, &error))?;
            for (series, value) in series.iter_mut().zip(found) {
                series.points.push((page_bytes.0 as f64, value));
            }
        }
        Ok(series.into())
    }
}
