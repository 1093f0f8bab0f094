//! Files behind a kernel's page cache, by their size and by that of a block: Härder and others 2009 (S004),
//! sections 3 and 4, figures 1 and 3.
//!
//! ```text
//!   file from the drive's first sector ─► caches empty, or the file read once in order (`hot`)
//!     ─► blocks anywhere, none twice, or in order ─► each synced before the next one, or not
//! ```
//!
//! One step for each drive, variant and block size, each with a drive of its own, whose file was
//! written once in order. Series by size of the file, `4k` standing for blocks of 4 KiB:
//!
//! ```text
//!   DRIVE.VARIANT.4k                MB/s
//!   DRIVE.VARIANT.4k.us             mean time of a block
//!   DRIVE.VARIANT.4k.of_smallest    MB/s over those of the smallest file
//!   DRIVE.VARIANT.4k.extra_percent  bytes read from the drive beyond the file's, of whole passes
//!   DRIVE.VARIANT.4k.watts          mean power of the drive, where its profile tells it
//!   DRIVE.VARIANT.4k.per_joule      blocks for a joule of it: blocks a second for a watt (section 2.2)
//!   DRIVE.VARIANT.4k.years          until the whole drive's erase blocks are worn out, if this went on
//!   DRIVE.VARIANT, .us              the largest file, by size of the block
//!   FORMULA.us                      t(b) = fixed + b / F, by size of the block
//! ```
//!
//! 1. Between two points nothing is left in the page cache or in the drive's own: time passes, and
//!    the drive reads elsewhere.
//! 2. What copying takes of the processor is time in which nothing else is asked for.
//! 3. A point that does not pass over the whole file finds the blocks of pointers in memory: of few
//!    requests they would be a larger share than of a pass.

use super::Measurement;
use super::bench::{AccessPattern, Bench};
use super::site::page_cache::Cached;
use super::site::{SiteDrive, SiteDrives, check_cancelled, check_drives};
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::{ByteCount, Nanos, Permutation, Rng, to_index, to_u32};
use nandu_device::{Counters, Device, EnergyReport, MeteredDevice, Request};
use nandu_drives::profile::{Profile, SimOptions};
use nandu_drives::wear::Endurance;
use nandu_drives::worth::YEAR_SECONDS;
use nandu_probe::{Area, Preparation, ProbeError, prepare, text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A page of the kernel.
const PAGE_BYTES: u64 = 4096;
/// How a file is read once in order before it is hot.
const HEATING_BYTES: u64 = 128 << 10;
/// Requests after which the observer is asked.
const REQUESTS_BETWEEN_LOOKS: u64 = 4096;
/// So long a drive is left alone before a point.
const SETTLING: Nanos = Nanos::from_seconds(10);
/// A second: no kernel takes as long to copy a page.
const PAGE_COPY_NS_MAX: u64 = 1_000_000_000;
/// The unit of formulas that the paper prints.
const MICROS: f64 = 1e6;

/// The keys of an experiment of the kind `file_system`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSystem {
    /// What the file lies on, behind a page cache each.
    pub drives: SiteDrives,
    /// What is done to the file.
    pub variants: BTreeMap<String, FileVariant>,
    /// Sizes of the file, rising.
    #[serde(deserialize_with = "text::sizes")]
    pub file_bytes: Vec<ByteCount>,
    /// Sizes of a block.
    #[serde(deserialize_with = "text::sizes")]
    pub block_bytes: Vec<ByteCount>,
    /// Access times to compute.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub formulas: BTreeMap<String, AccessTime>,
}

/// What is done to a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileVariant {
    /// Which blocks, in which order.
    pub pattern: AccessPattern,
    /// Whether the file was read once, so that what memory can hold of it is there.
    #[serde(default)]
    pub hot: bool,
    /// Whether a sync follows each write.
    #[serde(default)]
    pub sync: bool,
    /// What the kernel takes of the processor for each page, in ns.
    #[serde(default)]
    pub page_copy_ns: u64,
    /// Blocks of a point, at most; each of the file once unless stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_count_max: Option<u64>,
    /// Blocks before those, which fill what a drive sorts writes in.
    #[serde(default)]
    pub warm_up_count: u64,
    /// Other sizes of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "text::sizes")]
    pub file_bytes: Vec<ByteCount>,
    /// Other sizes of a block.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "text::sizes")]
    pub block_bytes: Vec<ByteCount>,
    /// The drives that it is done on; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<String>,
}

/// t(b) = fixed + b / F, the access time of S004 sections 3.1 and 3.2.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessTime {
    /// What does not depend on the block: the processor's part, seek and half a revolution, in us.
    pub fixed_us: f64,
    /// The rate F, at which the block itself is moved.
    pub bytes_per_second: f64,
}

impl AccessTime {
    /// Whether such a time can be.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.fixed_us.is_finite() && self.fixed_us >= 0.0 && self.bytes_per_second > 0.0
    }

    /// The time of a block, in us.
    #[must_use]
    pub fn of(&self, block: ByteCount) -> f64 {
        self.fixed_us + block.0 as f64 / self.bytes_per_second * MICROS
    }
}

/// The names of the series of a step, without points.
struct StepSeries {
    by_file: [Series; 7],
    by_block: [Series; 2],
}

impl StepSeries {
    fn of(stem: &str, block: ByteCount) -> Self {
        let by_file = format!("{stem}.{}k", block.0 >> 10);
        let series = |name: String, unit: &str| Series::new(name, "B", unit);
        Self {
            by_file: [
                series(by_file.clone(), "MB/s"),
                series(format!("{by_file}.us"), "us"),
                series(format!("{by_file}.of_smallest"), ""),
                series(format!("{by_file}.extra_percent"), "%"),
                series(format!("{by_file}.watts"), "W"),
                series(format!("{by_file}.per_joule"), "1/J"),
                series(format!("{by_file}.years"), "years"),
            ],
            by_block: [series(stem.to_owned(), "MB/s"), series(format!("{stem}.us"), "us")],
        }
    }

    fn into_list(self) -> Vec<Series> {
        self.by_file.into_iter().chain(self.by_block).collect()
    }
}

/// What a point found.
struct Point {
    bytes: u64,
    requests: u64,
    elapsed: Nanos,
    /// Bytes read from the drive, if all of the file's were asked for.
    read: Option<u64>,
    /// What the drive alone drew, if its profile tells.
    energy: Option<EnergyReport>,
    /// Years until its erase blocks are worn out, of writes to flash.
    years: Option<f64>,
}

struct FileStep<'a> {
    drive: (&'a str, &'a SiteDrive),
    variant: &'a FileVariant,
    stem: String,
    block: ByteCount,
}

impl FileStep<'_> {
    fn label(&self) -> String {
        format!("{} {}", self.stem, self.block)
    }
}

impl FileSystem {
    fn each_step(&self) -> Vec<FileStep<'_>> {
        let mut steps = Vec::new();
        for (drive_name, drive) in &self.drives {
            for (name, variant) in &self.variants {
                if !variant.drives.is_empty() && !variant.drives.contains(drive_name) {
                    continue;
                }
                for &block in self.blocks_of(variant) {
                    let stem = format!("{drive_name}.{name}");
                    steps.push(FileStep { drive: (drive_name, drive), variant, stem, block });
                }
            }
        }
        steps
    }

    fn blocks_of<'a>(&'a self, variant: &'a FileVariant) -> &'a [ByteCount] {
        if variant.block_bytes.is_empty() { &self.block_bytes } else { &variant.block_bytes }
    }

    fn files_of<'a>(&'a self, variant: &'a FileVariant) -> &'a [ByteCount] {
        if variant.file_bytes.is_empty() { &self.file_bytes } else { &variant.file_bytes }
    }

    fn check_variant(&self, name: &str, variant: &FileVariant) -> Result<(), String> {
        let wrong = |what: String| Err(format!("variant `{name}`: {what}"));
        if let Some(drive) = variant.drives.iter().find(|name| !self.drives.contains_key(*name)) {
            return wrong(format!("`{drive}` is no drive here"));
        }
        let (blocks, files) = (self.blocks_of(variant), self.files_of(variant));
        if blocks.is_empty() || files.is_empty() || variant.request_count_max == Some(0) {
            return wrong("`block_bytes`, `file_bytes` and `request_count_max` are above 0".into());
        }
        if !files.is_sorted() {
            return wrong("`file_bytes` rises".into());
        }
        if files[0].0 == 0 {
            return wrong("`file_bytes` has a file of 0 B; each must hold a block".into());
        }
        if variant.page_copy_ns > PAGE_COPY_NS_MAX {
            let (found, most) = (variant.page_copy_ns, PAGE_COPY_NS_MAX);
            return wrong(format!("`page_copy_ns` is {found}, must be at most {most}"));
        }
        for block in blocks {
            if block.0 == 0 || !block.0.is_multiple_of(PAGE_BYTES) {
                return wrong(format!("a block of {block} is not whole pages of 4 KiB"));
            }
            if let Some(file) = files.iter().find(|file| !file.0.is_multiple_of(block.0)) {
                return wrong(format!("a file of {file} is not whole blocks of {block}"));
            }
        }
        if variant.sync && !variant.pattern.writes() {
            return wrong("`sync` is for writes".into());
        }
        Ok(())
    }

    fn check_drive(&self, name: &str, drive: &SiteDrive) -> Result<(), String> {
        if drive.member_count != 1 || drive.page_cache.is_none() {
            return Err(format!("drive `{name}` is one simulated drive with a `page_cache`"));
        }
        let whole = drive.profile(name)?.geometry.capacity();
        let capacity = drive.capacity.unwrap_or(whole);
        let is_on = |variant: &&FileVariant| {
            variant.drives.is_empty() || variant.drives.iter().any(|on| on == name)
        };
        let files = self.variants.values().filter(is_on).flat_map(|variant| self.files_of(variant));
        match files.max() {
            Some(&largest) if largest > capacity => {
                Err(format!("a file of {largest} does not fit drive `{name}` of {capacity}"))
            }
            _ => Ok(()),
        }
    }
}

impl Measurement for FileSystem {
    fn check(&self) -> Result<(), String> {
        check_drives(&self.drives)?;
        if self.variants.is_empty() {
            return Err("`variants` is empty; name at least one".into());
        }
        self.variants.iter().try_for_each(|(name, variant)| self.check_variant(name, variant))?;
        self.drives.iter().try_for_each(|(name, drive)| self.check_drive(name, drive))?;
        for (name, formula) in &self.formulas {
            if !formula.is_sound() || self.drives.contains_key(name) {
                return Err(format!("formula `{name}` has times and rates, and no drive's name"));
            }
        }
        Ok(())
    }

    fn targets(&self) -> Vec<String> {
        self.drives.values().map(|drive| drive.base.clone()).collect()
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        let steps = self.each_step();
        steps.get(index).map_or_else(Vec::new, |step| vec![step.drive.1.base.clone()])
    }

    fn series_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for step in self.each_step() {
            for series in StepSeries::of(&step.stem, step.block).into_list() {
                if !names.contains(&series.name) {
                    names.push(series.name);
                }
            }
        }
        names.extend(self.formulas.keys().map(|name| format!("{name}.us")));
        names
    }

    fn steps(&self) -> Vec<String> {
        let mut labels: Vec<String> = self.each_step().iter().map(FileStep::label).collect();
        if !self.formulas.is_empty() {
            labels.push("formulas".into());
        }
        labels
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let steps = self.each_step();
        let Some(step) = steps.get(index) else {
            let curve = |(name, formula): (&String, &AccessTime)| {
                let blocks = self.block_bytes.iter();
                let points = blocks.map(|&block| (block.0 as f64, formula.of(block))).collect();
                Series { points, ..Series::new(format!("{name}.us"), "B", "us") }
            };
            return Ok(self.formulas.iter().map(curve).collect());
        };
        let files = self.files_of(step.variant);
        let mut subject = Subject::prepare(bench, step, *files.last().expect("it was checked"))?;
        let mut found = StepSeries::of(&step.stem, step.block);
        let mut first = None;
        for &file in files {
            let point = subject.measure(bench, step, file)?;
            let Point { bytes, requests, elapsed, read, ref energy, years } = point;
            let rate = bytes as f64 / 1e6 / elapsed.as_seconds_f64();
            let micros = elapsed.0 as f64 / 1e3 / requests as f64;
            let first = *first.get_or_insert(rate);
            let extra = read.map(|read| (read as f64 / bytes as f64 - 1.0) * 100.0);
            let watts = energy.as_ref().and_then(|energy| energy.mean_watts);
            let per_joule = energy.as_ref().and_then(|energy| energy.operations_per_joule);
            let values =
                [Some(rate), Some(micros), Some(rate / first), extra, watts, per_joule, years];
            for (series, value) in found.by_file.iter_mut().zip(values) {
                series.points.extend(value.map(|value| (file.0 as f64, value)));
            }
            let x = step.block.0 as f64;
            found.by_block[0].points = vec![(x, rate)];
            found.by_block[1].points = vec![(x, micros)];
        }
        Ok(found.into_list())
    }
}

/// A drive behind its page cache, and the present.
struct Subject {
    device: Cached,
    profile: Profile,
    now: Nanos,
    /// Bytes of a file that a block of pointers maps; 0 where there are none.
    mapped_bytes: u64,
    sector_bytes: u64,
    seed: u64,
    label: String,
}

impl Subject {
    /// A fresh drive with a file of `file` bytes, written once in order if the drive needs that.
    fn prepare(
        bench: &mut Bench<'_>,
        step: &FileStep<'_>,
        file: ByteCount,
    ) -> Result<Self, LabError> {
        let label = step.label();
        let seed = Rng::for_part(bench.seed, &label).next_u64();
        let (name, drive) = step.drive;
        let failed = |why: String| LabError::step(&label, &why);
        let profile = drive.profile(name).map_err(failed)?;
        let options = SimOptions { capacity: drive.capacity, seed, keep_data: false };
        let device = profile.open(options).map_err(|error| failed(error.to_string()))?;
        let mut device: Box<dyn Device + Send> =
            Box::new(MeteredDevice::tallied(device, bench.power.clone()));
        if profile.needs_filling().map_err(|error| failed(error.to_string()))? {
            let area = Area { length: Some(file), ..Area::default() };
            match prepare(device.as_mut(), &Preparation::fill_of(area), &mut *bench.observer) {
                Ok(_) => {}
                Err(ProbeError::Cancelled) => check_cancelled(bench)?,
                Err(error) => return Err(failed(error.to_string())),
            }
        }
        let sector_bytes = u64::from(device.info().geometry.sector_bytes);
        let order = drive.page_cache.as_ref().expect("it was checked");
        let device = order.before(device, false).map_err(failed)?;
        let (now, mapped_bytes) = (device.now(), order.indirect_maps.0);
        Ok(Self { device, profile, now, mapped_bytes, sector_bytes, seed, label })
    }

    fn measure(
        &mut self,
        bench: &Bench<'_>,
        step: &FileStep<'_>,
        file: ByteCount,
    ) -> Result<Point, LabError> {
        let FileStep { variant, block, .. } = step;
        let block_count = file.0 / block.0;
        let timed_from = variant.warm_up_count.min(block_count / 2);
        let wanted = timed_from.saturating_add(variant.request_count_max.unwrap_or(u64::MAX));
        let end = block_count.min(wanted);
        let is_whole = timed_from == 0 && end == block_count;
        self.empty_caches(file)?;
        if variant.hot {
            for start in (0..file.0).step_by(to_index(HEATING_BYTES)) {
                self.read(start, HEATING_BYTES.min(file.0 - start))?;
            }
        } else if !is_whole && self.mapped_bytes > 0 {
            for start in (0..file.0).step_by(to_index(self.mapped_bytes)) {
                self.read(start, PAGE_BYTES)?;
            }
        }
        let order = Permutation::new(block_count, self.seed ^ file.0);
        let copying = Nanos(variant.page_copy_ns * (block.0 / PAGE_BYTES));
        let (mut start, before) = (self.now, self.read_bytes());
        let mut before_timed = self.counters();
        for index in 0..end {
            if index.is_multiple_of(REQUESTS_BETWEEN_LOOKS) {
                check_cancelled(bench)?;
            }
            if index == timed_from {
                (start, before_timed) = (self.now, self.counters());
            }
            let place = match variant.pattern {
                AccessPattern::SequentialRead | AccessPattern::SequentialWrite => index,
                AccessPattern::RandomRead | AccessPattern::RandomWrite => order.apply(index),
            };
            if variant.pattern.writes() {
                self.write(place * block.0, block.0)?;
            } else {
                self.read(place * block.0, block.0)?;
            }
            self.now = self.now.saturating_add(copying);
            if variant.sync {
                self.ask(Request::flush(0))?;
            }
        }
        let elapsed = self.now.saturating_sub(start);
        let is_read = is_whole && !variant.pattern.writes();
        let read = is_read.then(|| self.read_bytes() - before);
        let requests = end - timed_from;
        let after = self.counters();
        let energies = after.energy.zip(before_timed.energy);
        let energy = energies.map(|(after, before)| {
            EnergyReport::of_model(&after.since(&before), elapsed, requests)
        });
        let years = self.years(elapsed, &before_timed, &after);
        Ok(Point { bytes: requests * block.0, requests, elapsed, read, energy, years })
    }

    /// Rule 1: what is dirty is written, and the drive's own cache holds what lies behind the file.
    fn empty_caches(&mut self, file: ByteCount) -> Result<(), LabError> {
        self.ask(Request::flush(0))?;
        let capacity = self.device.info().geometry.capacity();
        let elsewhere = file.0.min(capacity.0 - PAGE_BYTES);
        self.now = self.device.idle_until(self.now.saturating_add(SETTLING));
        self.read(elsewhere / PAGE_BYTES * PAGE_BYTES, PAGE_BYTES)?;
        self.device.lock().drop_pages();
        self.device.lock().audit();
        self.now = self.now.max(self.device.lock().drive().now());
        Ok(())
    }

    fn read(&mut self, start: u64, byte_count: u64) -> Result<(), LabError> {
        let sectors = self.sectors(byte_count);
        self.ask(Request::read(0, start / self.sector_bytes, sectors, None))
    }

    fn write(&mut self, start: u64, byte_count: u64) -> Result<(), LabError> {
        let sectors = self.sectors(byte_count);
        self.ask(Request::write(0, start / self.sector_bytes, sectors, None))
    }

    fn sectors(&self, byte_count: u64) -> u32 {
        to_u32(byte_count / self.sector_bytes)
    }

    fn ask(&mut self, request: Request) -> Result<(), LabError> {
        let failed = |error: &dyn std::fmt::Display| LabError::step(&self.label, error);
        self.device.submit(self.now, request).map_err(|rejected| failed(&rejected.error))?;
        let done = self.device.next_completion(Nanos::MAX).expect("a request completes");
        done.result.map_err(|error| failed(&error))?;
        self.now = done.completed_at;
        Ok(())
    }

    /// What the drive has counted so far.
    fn counters(&self) -> Counters {
        self.device.lock().drive().counters()
    }

    /// Years until all erase blocks of the whole drive are worn out, if all went on as in `elapsed`.
    fn years(&self, elapsed: Nanos, before: &Counters, after: &Counters) -> Option<f64> {
        let endurance = Endurance::of(&self.profile);
        let worn = endurance.worn_between(before, after).filter(|worn| *worn > 0.0)?;
        Some(endurance.worn_in_all()? / worn * elapsed.as_seconds_f64() / YEAR_SECONDS)
    }

    /// Bytes that the drive has read.
    fn read_bytes(&self) -> u64 {
        self.counters().reads.byte_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Unwatched;

    const SMALL: &str = "
        file_bytes = ['8MiB', '16MiB']
        block_bytes = ['4KiB', '64KiB']
        [drives.flash]
        base = 'sim:supertalent-duradrive'
        capacity = '64MiB'
        page_cache = { bytes = '12MiB', flushes_drive = true }
        [drives.disk]
        base = 'sim:wd800aajs'
        page_cache = { bytes = '12MiB' }
        [variants.cold]
        pattern = 'random_read'
        [variants.hot]
        pattern = 'random_read'
        hot = true
        page_copy_ns = 5000
        block_bytes = ['4KiB']
        [variants.few]
        pattern = 'random_write'
        sync = true
        request_count_max = 20
        warm_up_count = 40
        drives = ['disk']
        [variants.worn]
        pattern = 'random_write'
        sync = true
        request_count_max = 100
        warm_up_count = 64
        block_bytes = ['4KiB']
        drives = ['flash']
        [formulas.textbook]
        fixed_us = 230.0
        bytes_per_second = 65000000.0
    ";

    fn run_all(kind: &FileSystem) -> BTreeMap<String, Series> {
        let mut observer = Unwatched;
        let mut bench = Bench {
            seed: 1,
            local: None,
            local_subject: None,
            observer: &mut observer,
            notes: Vec::new(),
            power: nandu_device::PowerLog::default(),
        };
        let mut all: BTreeMap<String, Series> = BTreeMap::new();
        for index in 0..kind.steps().len() {
            for series in kind.run_step(index, &mut bench).unwrap() {
                let known = all
                    .entry(series.name.clone())
                    .or_insert_with(|| Series { points: Vec::new(), ..series.clone() });
                known.points.extend(series.points);
            }
        }
        all
    }

    #[test]
    fn figures_that_no_run_could_take_are_named() {
        for (from, to, said) in [
            ("['8MiB', '16MiB']", "['0B']", "`file_bytes` has a file of 0 B"),
            ("page_copy_ns = 5000", "page_copy_ns = 9000000000000000000", "`page_copy_ns` is 9"),
            ("page_copy_ns = 5000", "page_copy_ns = 4611686018427387904", "`page_copy_ns` is 46"),
        ] {
            let kind: FileSystem = toml::from_str(&SMALL.replace(from, to)).unwrap();
            let refused = kind.check().unwrap_err();
            assert!(refused.contains(said), "{to}: {refused}");
        }
    }

    #[test]
    fn files_are_read_and_written_by_size_and_block() {
        let kind: FileSystem = toml::from_str(SMALL).unwrap();
        assert_eq!(kind.check(), Ok(()));
        assert_eq!(kind.steps().len(), 2 * 3 + 2 + 1 + 1, "two drives, writes on each, formulas");
        let all = run_all(&kind);
        let names: Vec<String> = all.keys().cloned().collect();
        let mut said = kind.series_names();
        said.sort();
        assert_eq!(names, said);
        let at = |name: &str, x: u64| all[name].at(x as f64);
        // The printed formula, and the drive that was made after it.
        let formula = at("textbook.us", 4096).unwrap();
        assert!((formula - (230.0 + 4.096 / 0.065)).abs() < 1e-9, "{formula}");
        let found = at("flash.cold.us", 4096).unwrap();
        assert!((0.95..1.05).contains(&(found / formula)), "{found} for {formula}");
        // 8 MiB have two blocks of pointers and one of pointers to these.
        let extra = at("flash.cold.4k.extra_percent", 8 << 20).unwrap();
        assert!((extra - 100.0 * 3.0 / 2048.0).abs() < 1e-9, "{extra}");
        // In memory the drive makes no difference; beyond it, it does.
        assert_eq!(at("flash.hot.4k.us", 8 << 20), Some(5.0));
        assert_eq!(at("disk.hot.4k.us", 8 << 20), Some(5.0));
        assert!(at("disk.hot.4k.us", 16 << 20) > at("flash.hot.4k.us", 16 << 20));
        assert_eq!(at("disk.few.4k.extra_percent", 16 << 20), None, "no whole pass");
        assert_eq!(at("disk.few.4k.of_smallest", 8 << 20), Some(1.0));
        // Flash draws its 0.9 W whenever it reads; a disk draws no less than idle and no more than seeking.
        let watts = at("flash.cold.4k.watts", 16 << 20).unwrap();
        assert!((0.85..=0.9 + 1e-6).contains(&watts), "{watts}");
        let joules = found * 1e-6 * at("flash.cold.4k.watts", 16 << 20).unwrap();
        let per_joule = at("flash.cold.4k.per_joule", 16 << 20).unwrap();
        assert!((per_joule * joules - 1.0).abs() < 1e-6, "{per_joule} blocks, {joules} J for one");
        assert_eq!(at("flash.cold.4k.years", 16 << 20), None, "reads wear nothing");
        assert_eq!(at("disk.few.4k.years", 16 << 20), None, "nor does a disk wear");
        // A chunk of 1 MiB for each write, of a drive of 32 GB whose erase blocks stand 100,000 erases.
        let seconds = at("flash.worn.4k.us", 16 << 20).unwrap() / 1e6;
        let oracle = 32e9 * 1.04 / f64::from(1 << 20) * 1e5 * seconds / YEAR_SECONDS;
        let years = at("flash.worn.4k.years", 16 << 20).unwrap();
        assert!((0.85..1.2).contains(&(years / oracle)), "{years} for {oracle}");
        let watts = at("disk.few.4k.watts", 16 << 20).unwrap();
        assert!((7.5..=12.5).contains(&watts), "{watts}");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let wrong = |from: &str, to: &str| {
            let kind: FileSystem = toml::from_str(&SMALL.replace(from, to)).unwrap();
            kind.check().unwrap_err()
        };
        assert!(wrong("'64KiB']", "'6KiB']").contains("whole pages"));
        assert!(wrong("'16MiB']", "'128MiB']").contains("does not fit"));
        assert!(wrong("['8MiB', '16MiB']", "['16MiB', '8MiB']").contains("rises"));
        assert!(wrong("drives = ['disk']", "drives = ['dsik']").contains("no drive here"));
        assert!(wrong("'random_write'", "'random_read'").contains("for writes"));
        assert!(wrong("page_cache = { bytes = '12MiB' }", "").contains("page_cache"));
        assert!(wrong("formulas.textbook", "formulas.disk").contains("formula"));
    }
}
