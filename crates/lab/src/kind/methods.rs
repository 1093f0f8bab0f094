//! Ways of placing pages, side by side over one chip: pages are read, changed and written (the experiments
//! of Kim, Whang and Song, SIGMOD 2010; flash reference 3.8, 3.10 and 4.3).
//!
//! ```text
//!   operation   a page at random ─► read ─► changed `updates_per_write` times ─► `written_together` with others
//!                                     └──── no more, of those that `update_percent` leaves
//! ```
//!
//! One step for each axis and variant, with series by the axis's quantity, for an operation:
//!
//! - `AXIS.VARIANT.us`, time, and of it `.read_us` for a page that is read and `.write_us` for one that is written;
//! - `.marked_us`, the same with a program for every flash page that becomes obsolete, where the variant `marks`;
//! - `.counted_us`, the commands of the chip by their times: the formula of the reference;
//! - `.reads`, `.programs` and `.erases`, commands of the chip; `.energy_uj`, what they take;
//! - `.reads_per_read`, flash pages that are read for a page, at the end, when nothing is written;
//! - `AXIS.conventional.us`, what copying an erase block for each write takes, by the chip's times.
//!
//! By time of a chip's read or program there are `.us` and `.marked_us` alone, by the commands of one run.
//!
//! 1. All variants have the same chip, with as many erase blocks, and see the same operations.
//! 2. Each page that is read is compared with what was written.
//! 3. One command at a time, on one die: times add up.
//! 4. Each operation before the measurement writes, so that there is something to read beside pages.

pub(super) mod chip;
mod store;
#[cfg(test)]
mod tests;

pub use chip::Method;

use super::Measurement;
use super::bench::Bench;
use super::site::check_cancelled;
use crate::error::LabError;
use crate::outcome::Series;
use chip::{BASE, Chip, Done, Room, conventional_us};
use nandu_base::{ByteCount, Nanos, Rng};
use nandu_nand::NandConfig;
use nandu_probe::text;
use nandu_storage::StorageError;
use nandu_storage::propagation::PropagationConfig;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::{PageStore, Times};

/// Pages that are read at the end.
const READ_COUNT_MAX: u64 = 1000;
/// Bounds of what an experiment may ask for.
const PAGE_COUNT: std::ops::RangeInclusive<u64> = 256..=1 << 20;
const ROUNDS_MAX: f64 = 1000.0;
const UPDATE_COUNT_MAX: f64 = 1000.0;
const TOGETHER_COUNT_MAX: u32 = 1024;

/// The keys of an experiment of the kind `methods`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Methods {
    /// Chip preset; one plane of one die.
    pub chip: String,
    /// Programs that a flash page takes between two erases, without any other law of the preset; the preset's
    /// laws if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs_per_erase: Option<u8>,
    /// Bytes of a page.
    #[serde(deserialize_with = "text::size")]
    pub page_bytes: ByteCount,
    /// Bytes of all pages.
    #[serde(deserialize_with = "text::size")]
    pub file: ByteCount,
    /// The chip's capacity beyond them, in percent of them.
    pub spare_percent: f64,
    /// Bytes that an update changes, in percent of a page.
    pub changed_percent: f64,
    /// Updates of a page that is read before it is written.
    #[serde(default = "one")]
    pub updates_per_write: u32,
    /// Operations that write, in percent.
    #[serde(default = "hundred")]
    pub update_percent: f64,
    /// Pages that are written in one call, as a pool does.
    #[serde(default = "one")]
    pub written_together: u32,
    /// Operations before the measurement, over the pages.
    pub warm_up_rounds: f64,
    /// Operations of the measurement, over the pages.
    pub rounds: f64,
    /// What is compared.
    pub variants: BTreeMap<String, Method>,
    /// What varies, one at a time.
    pub axes: BTreeMap<String, Axis>,
}

const fn one() -> u32 {
    1
}

const fn hundred() -> f64 {
    100.0
}

/// A quantity that varies, and what is another way meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Which quantity varies.
    pub of: Swept,
    /// Its values, rising.
    pub values: Vec<f64>,
    /// The variants that are compared; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<String>,
    /// Another chip preset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chip: Option<String>,
    /// Other programs of a flash page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs_per_erase: Option<u8>,
    /// Other pages.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "text::optional_size"
    )]
    pub page_bytes: Option<ByteCount>,
}

/// What an axis varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Swept {
    /// Bytes that an update changes, in percent of a page.
    ChangedPercent,
    /// Updates before a page is written.
    UpdatesPerWrite,
    /// Operations that write, in percent.
    UpdatePercent,
    /// Time of the chip's read.
    ReadUs,
    /// Time of the chip's program.
    ProgramUs,
    /// Bytes of a flash page; erase blocks stay as large.
    FlashPageBytes,
    /// Bytes of a unit's log region, of in-page logging.
    LogRegionBytes,
}

/// Everything that an axis may vary, at one of its points.
#[derive(Clone, Debug, PartialEq)]
struct Case {
    chip: Chip,
    page_bytes: u32,
    log_region_bytes: Option<u32>,
    changed_percent: f64,
    updates_per_write: u32,
    update_percent: f64,
}

/// What one run found.
struct Found {
    done: Done,
    reads: Times,
    writes: Times,
    reads_per_read: f64,
}

/// Of a series for each variant: its name, and its unit.
const METRICS: [(&str, &str); 10] = [
    ("us", "us"),
    ("marked_us", "us"),
    ("read_us", "us"),
    ("write_us", "us"),
    ("counted_us", "us"),
    ("reads", ""),
    ("programs", ""),
    ("erases", ""),
    ("energy_uj", "uJ"),
    ("reads_per_read", ""),
];
/// Those that follow from commands and times of the chip alone: the first ones.
const COMPUTED_METRIC_COUNT: usize = 2;
/// The series of copied erase blocks.
const CONVENTIONAL: &str = "conventional";

impl Swept {
    const fn unit(self) -> &'static str {
        match self {
            Self::ChangedPercent | Self::UpdatePercent => "%",
            Self::UpdatesPerWrite => "",
            Self::ReadUs | Self::ProgramUs => "us",
            Self::FlashPageBytes | Self::LogRegionBytes => "B",
        }
    }

    /// Whether the chip does the same whatever the value is, only in another time.
    const fn is_time(self) -> bool {
        matches!(self, Self::ReadUs | Self::ProgramUs)
    }

    /// Has the chip take that long, if this is a time.
    fn set_time(self, nand: &mut NandConfig, value: f64) {
        let time = Nanos::from_micros(count_of(value).into());
        match self {
            Self::ReadUs => nand.timing.read_ns = time,
            Self::ProgramUs => nand.timing.program_ns = time,
            _ => {}
        }
    }

    const fn range(self) -> std::ops::RangeInclusive<f64> {
        match self {
            Self::ChangedPercent => 0.01..=100.0,
            Self::UpdatePercent => 0.0..=100.0,
            Self::UpdatesPerWrite => 1.0..=UPDATE_COUNT_MAX,
            Self::ReadUs | Self::ProgramUs => 1.0..=1e6,
            Self::FlashPageBytes => 512.0..=65_536.0,
            Self::LogRegionBytes => 512.0..=1e9,
        }
    }

    fn is_whole(self, value: f64) -> bool {
        match self {
            Self::UpdatesPerWrite | Self::LogRegionBytes => value.fract() == 0.0,
            Self::FlashPageBytes => value.fract() == 0.0 && count_of(value).is_power_of_two(),
            _ => true,
        }
    }
}

/// A value of an axis that counts something.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "values were checked to be in a range of whole numbers"
)]
fn count_of(value: f64) -> u32 {
    value as u32
}

impl Case {
    fn set(&mut self, of: Swept, value: f64) {
        match of {
            Swept::ChangedPercent => self.changed_percent = value,
            Swept::UpdatesPerWrite => self.updates_per_write = count_of(value),
            Swept::UpdatePercent => self.update_percent = value,
            Swept::FlashPageBytes => self.chip.flash_page_bytes = Some(count_of(value)),
            Swept::LogRegionBytes => self.log_region_bytes = Some(count_of(value)),
            Swept::ReadUs | Swept::ProgramUs => {}
        }
    }

    /// Bytes that an update changes.
    fn changed_bytes(&self) -> u32 {
        let bytes = f64::from(self.page_bytes) * self.changed_percent / 100.0;
        count_of(bytes.round()).max(1)
    }

    /// The propagation of a method here.
    fn config(&self, method: &Method) -> PropagationConfig {
        let mut propagation = method.settings().propagation;
        if let Some(bytes) = self.log_region_bytes {
            propagation.in_page_logging.log_region_bytes = bytes;
        }
        propagation.config()
    }
}

impl Methods {
    fn case(&self, axis: &Axis) -> Case {
        let page_bytes = axis.page_bytes.unwrap_or(self.page_bytes);
        let chip = Chip {
            preset: axis.chip.clone().unwrap_or_else(|| self.chip.clone()),
            programs_per_erase: axis.programs_per_erase.or(self.programs_per_erase),
            flash_page_bytes: None,
        };
        Case {
            chip,
            page_bytes: u32::try_from(page_bytes.0).unwrap_or(u32::MAX),
            log_region_bytes: None,
            changed_percent: self.changed_percent,
            updates_per_write: self.updates_per_write,
            update_percent: self.update_percent,
        }
    }

    fn page_count(&self, case: &Case) -> u64 {
        self.file.0 / u64::from(case.page_bytes.max(1))
    }

    fn room(&self, case: &Case) -> Room {
        let (page_bytes, spare_percent) = (case.page_bytes, self.spare_percent);
        Room { page_bytes, file_bytes: self.file.0, spare_percent }
    }

    /// Axis and variant of each step.
    fn pairs(&self) -> Vec<(&str, &str)> {
        let mut pairs = Vec::new();
        for (name, axis) in &self.axes {
            let is_on =
                |variant: &&String| axis.variants.is_empty() || axis.variants.contains(variant);
            let variants = self.variants.keys().filter(is_on);
            pairs.extend(variants.map(|variant| (name.as_str(), variant.as_str())));
        }
        pairs
    }

    fn series_of(&self, axis: &str, variant: &str) -> Vec<Series> {
        let of = self.axes[axis].of;
        let count = if of.is_time() { COMPUTED_METRIC_COUNT } else { METRICS.len() };
        let metrics = METRICS.iter().take(count);
        let series = |(name, unit): &(&str, &str)| {
            Series::new(format!("{axis}.{variant}.{name}"), of.unit(), unit)
        };
        metrics.map(series).collect()
    }

    fn conventional_series(&self, axis: &str) -> Series {
        Series::new(format!("{axis}.{CONVENTIONAL}.us"), self.axes[axis].of.unit(), "us")
    }

    /// A run of a variant.
    fn measure(
        &self,
        bench: &Bench<'_>,
        step: &str,
        method: &Method,
        case: &Case,
    ) -> Result<Found, LabError> {
        let site = case.chip.site(step, &self.room(case), (method, bench.seed))?;
        let page_count = self.page_count(case);
        let found = (|| {
            let pages = (case.page_bytes, page_count, self.written_together);
            let config = case.config(method);
            let mut store = PageStore::create(site.format()?, &config, pages, bench.seed)?;
            let mut rng = Rng::for_part(bench.seed, "operations");
            let warm_up_count = rounds_of(page_count, self.warm_up_rounds);
            let warming = Case { update_percent: 100.0, ..case.clone() };
            self.operate(&mut store, &warming, warm_up_count, &mut rng)?;
            let before = site.commands();
            store.forget_times();
            let operation_count = rounds_of(page_count, self.rounds).max(1);
            self.operate(&mut store, case, operation_count, &mut rng)?;
            let commands = site.commands().since(&before);
            let (reads, writes) = store.times();
            let read_count = page_count.min(READ_COUNT_MAX);
            let before = site.commands();
            (0..read_count).try_for_each(|_| store.read(rng.below(page_count)))?;
            let commands_of_reads = site.commands().since(&before);
            let read_only = Done { operation_count: read_count, commands: commands_of_reads };
            let reads_per_read = read_only.reads();
            store.audit();
            Ok(Found { done: Done { operation_count, commands }, reads, writes, reads_per_read })
        })();
        found.map_err(|error: StorageError| LabError::step(step, &error))
    }

    /// So many operations, and all of them made durable.
    fn operate(
        &self,
        store: &mut PageStore,
        case: &Case,
        count: u64,
        rng: &mut Rng,
    ) -> Result<(), StorageError> {
        let page_count = self.page_count(case);
        for _ in 0..count {
            let page = rng.below(page_count);
            let is_update = rng.unit() * 100.0 < case.update_percent;
            store.read(page)?;
            if is_update {
                store.update(page, (case.changed_bytes(), case.updates_per_write), rng)?;
            }
        }
        store.sync()
    }

    /// All points of a step.
    fn points(
        &self,
        bench: &Bench<'_>,
        step: &str,
        (axis, method): (&Axis, &Method),
    ) -> Result<Vec<(f64, Vec<f64>)>, LabError> {
        let wrong = |error: String| LabError::step(step, &error);
        let mut case = self.case(axis);
        if axis.of.is_time() {
            let mut nand = case.chip.nand().map_err(wrong)?;
            let found = self.measure(bench, step, method, &case)?;
            let point = |&value: &f64| {
                axis.of.set_time(&mut nand, value);
                let us = found.done.counted_us(&nand);
                (value, vec![us, us + found.done.marks_us(&nand, method)])
            };
            return Ok(axis.values.iter().map(point).collect());
        }
        let mut points = Vec::new();
        for &value in &axis.values {
            check_cancelled(bench)?;
            case.set(axis.of, value);
            let nand = case.chip.nand().map_err(wrong)?;
            let found = self.measure(bench, step, method, &case)?;
            points.push((value, found.values(&nand, method)));
        }
        Ok(points)
    }

    fn check_axis(&self, name: &str, axis: &Axis) -> Result<(), String> {
        let rises = axis.values.windows(2).all(|pair| pair[0] < pair[1]);
        let is_good = |value: &f64| axis.of.range().contains(value) && axis.of.is_whole(*value);
        if axis.values.is_empty() || !rises || !axis.values.iter().all(is_good) {
            let range = axis.of.range();
            return Err(format!(
                "`values` of axis `{name}` must rise, from {} to {}",
                range.start(),
                range.end()
            ));
        }
        if let Some(variant) = axis.variants.iter().find(|name| !self.variants.contains_key(*name))
        {
            return Err(format!("axis `{name}` has `{variant}`, which is no variant here"));
        }
        if self.variants.contains_key(CONVENTIONAL) {
            return Err(format!("`{CONVENTIONAL}` is the name of a series; rename the variant"));
        }
        let mut case = self.case(axis);
        if !PAGE_COUNT.contains(&self.page_count(&case)) {
            return Err(format!(
                "`file` has {} pages of {} bytes, and must have {} to {}",
                self.page_count(&case),
                case.page_bytes,
                PAGE_COUNT.start(),
                PAGE_COUNT.end()
            ));
        }
        for &value in &axis.values {
            case.set(axis.of, value);
            let pairs = self.pairs().into_iter().filter(|(axis, _)| *axis == name);
            for (_, variant) in pairs {
                let checked = self.check_at(&case, &self.variants[variant]);
                checked.map_err(|error| format!("variant `{variant}` on `{name}`: {error}"))?;
            }
        }
        Ok(())
    }

    fn check_at(&self, case: &Case, method: &Method) -> Result<(), String> {
        method.check()?;
        case.chip.check(&self.room(case), method)?;
        let checked = case.config(method).check(case.page_bytes, case.page_bytes);
        checked.map_err(|error| error.to_string())
    }
}

/// Operations of so many rounds.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounds and pages were checked to be few"
)]
fn rounds_of(page_count: u64, rounds: f64) -> u64 {
    (page_count as f64 * rounds) as u64
}

impl Found {
    /// In the order of [`METRICS`].
    fn values(&self, nand: &NandConfig, method: &Method) -> Vec<f64> {
        let done = &self.done;
        let us = |time: Nanos, count: u64| time.0 as f64 / 1e3 / count.max(1) as f64;
        let all_us = us(self.reads.1 + self.writes.1, done.operation_count);
        vec![
            all_us,
            all_us + done.marks_us(nand, method),
            us(self.reads.1, self.reads.0),
            us(self.writes.1, self.writes.0),
            done.counted_us(nand),
            done.reads(),
            done.programs(),
            done.erases(),
            done.energy_uj(nand),
            self.reads_per_read,
        ]
    }
}

impl Measurement for Methods {
    fn check(&self) -> Result<(), String> {
        if self.variants.is_empty() || self.axes.is_empty() {
            return Err("`variants` and `axes` need a value".into());
        }
        let is_round = |rounds: f64| (0.0..=ROUNDS_MAX).contains(&rounds);
        if !is_round(self.warm_up_rounds) || !is_round(self.rounds) || self.rounds == 0.0 {
            return Err(format!("`rounds` and `warm_up_rounds` must be above 0, to {ROUNDS_MAX}"));
        }
        if !(1..=TOGETHER_COUNT_MAX).contains(&self.written_together) {
            return Err(format!("`written_together` must be from 1 to {TOGETHER_COUNT_MAX}"));
        }
        let own = [
            ("changed_percent", Swept::ChangedPercent, self.changed_percent),
            ("update_percent", Swept::UpdatePercent, self.update_percent),
            ("updates_per_write", Swept::UpdatesPerWrite, self.updates_per_write.into()),
        ];
        for (key, of, value) in own {
            if !of.range().contains(&value) {
                let range = of.range();
                return Err(format!("`{key}` must be from {} to {}", range.start(), range.end()));
            }
        }
        self.axes.iter().try_for_each(|(name, axis)| self.check_axis(name, axis))
    }

    fn targets(&self) -> Vec<String> {
        vec![BASE.to_owned()]
    }

    fn series_names(&self) -> Vec<String> {
        let pairs = self.pairs().into_iter();
        let of_pairs = pairs.flat_map(|(axis, variant)| self.series_of(axis, variant));
        let of_axes = self.axes.keys().map(|axis| self.conventional_series(axis));
        of_pairs.chain(of_axes).map(|series| series.name).collect()
    }

    fn steps(&self) -> Vec<String> {
        self.pairs().into_iter().map(|(axis, variant)| format!("{axis} {variant}")).collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let (axis_name, variant) = self.pairs()[index];
        let step = format!("{axis_name} {variant}");
        let (axis, method) = (&self.axes[axis_name], &self.variants[variant]);
        let mut all = self.series_of(axis_name, variant);
        for (x, values) in self.points(bench, &step, (axis, method))? {
            for (series, value) in all.iter_mut().zip(values) {
                series.points.push((x, value));
            }
        }
        let is_first = self.pairs().iter().position(|(name, _)| *name == axis_name) == Some(index);
        if is_first {
            let mut series = self.conventional_series(axis_name);
            let mut case = self.case(axis);
            for &x in &axis.values {
                case.set(axis.of, x);
                let nand = case.chip.nand();
                let mut nand = nand.map_err(|error| LabError::step(&step, &error))?;
                axis.of.set_time(&mut nand, x);
                series.points.push((x, conventional_us(&nand)));
            }
            all.push(series);
        }
        Ok(all)
    }
}
