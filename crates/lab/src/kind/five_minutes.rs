//! How long a page may rest before it is cheaper to read it again than to keep it: the five-minute rule (Gray
//! and Putzolu, SIGMOD 1987; Graefe, `DaMoN` 2007 and CACM 2009), for pairs of what keeps pages and what they
//! are read from.
//!
//! ```text
//!   a page a second    costs  price of a drive / pages that it reads in a second
//!   a page kept        costs  bytes of a page x price of the memory / bytes of the memory
//!   break-even         seconds between two uses at which both cost the same: their ratio
//!
//!   [measure.drives.NAME]     base, set, cents      simulated
//!                             access, cents         as somebody describes it: t(b) = fixed + b / F, one at a time
//!   [measure.memories.NAME]   bytes, cents, drives  `drives`: those that lie below it, all unless said
//! ```
//!
//! One step for each drive, with series by the size of a page, in KB:
//!
//! - `DRIVE.reads_s`: pages that it reads anywhere in a second, as it is simulated or described;
//! - `DRIVE.MEMORY.break_even_s`: the break-even, of each drive below that memory.
//!
//! 1. Prices stand in the experiment, each with its source; nothing costs by itself.
//! 2. A drive is either simulated or described; both go into one formula.

use super::Measurement;
use super::bench::{AccessPattern, Bench, PointOrder, Scale, check_requests};
use super::drive::DriveVariant;
use super::file_system::AccessTime;
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::ByteCount;
use nandu_drives::price::CENTS_MAX;
use nandu_probe::text;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The keys of an experiment of the kind `five_minutes`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FiveMinutes {
    /// What pages are read from.
    pub drives: BTreeMap<String, PricedDrive>,
    /// What keeps them.
    pub memories: BTreeMap<String, PricedMemory>,
    /// Sizes of a page, rising.
    #[serde(deserialize_with = "text::sizes")]
    pub page_bytes: Vec<ByteCount>,
    /// Reads in flight at once.
    pub queue_depth: u32,
    /// Reads that are timed at each size.
    pub request_count: u64,
    /// Capacity that a flash drive is scaled to.
    #[serde(deserialize_with = "text::size")]
    pub flash_capacity: ByteCount,
}

/// A drive and its price.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PricedDrive {
    /// Which one is simulated, as `sim:NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Keys of its profile with other values.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub set: toml::Table,
    /// How long it takes for a page, where somebody describes it and it is not simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessTime>,
    /// What the whole of it costs, in cents.
    pub cents: u64,
}

/// So much of a memory and its price.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PricedMemory {
    /// What costs as much as `cents`.
    #[serde(deserialize_with = "text::size")]
    pub bytes: ByteCount,
    /// What they cost, in cents.
    pub cents: u64,
    /// The drives that pages are read from where they are not kept here; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<String>,
}

impl PricedDrive {
    /// The drive that is simulated; none of one that is described.
    fn simulated(&self) -> Option<DriveVariant> {
        let base = self.base.clone()?;
        Some(DriveVariant { base, set: self.set.clone() })
    }

    fn check(&self, name: &str, flash_capacity: ByteCount) -> Result<(), String> {
        if !(1..=CENTS_MAX).contains(&self.cents) {
            let cents = self.cents;
            return Err(format!("`cents` of drive `{name}` is {cents}, must be 1 to {CENTS_MAX}"));
        }
        match (self.simulated(), &self.access) {
            (Some(drive), None) => {
                let whole = drive.profile(name)?.geometry.capacity();
                if flash_capacity < ByteCount::mib(4) || flash_capacity > whole {
                    let limits = format!("from 4 MiB to {whole}, of `{name}`");
                    return Err(format!("`flash_capacity` must be {limits}"));
                }
                Ok(())
            }
            (None, Some(access)) if access.is_sound() && self.set.is_empty() => Ok(()),
            (None, Some(_)) => {
                Err(format!("`access` of drive `{name}` has times and rates, and no `set` beside"))
            }
            _ => Err(format!("drive `{name}` has `base` or `access`, and not both")),
        }
    }
}

impl PricedMemory {
    /// Whether drive `name` lies below it.
    fn lies_over(&self, name: &str) -> bool {
        self.drives.is_empty() || self.drives.iter().any(|below| below == name)
    }

    /// Seconds after which a page that is read `reads_s` times a second from a drive of `drive_cents` is
    /// cheaper to read than to keep.
    fn break_even_s(&self, page: ByteCount, drive_cents: u64, reads_s: f64) -> f64 {
        let read_cents = drive_cents as f64 / reads_s;
        let kept_cents = page.0 as f64 * self.cents as f64 / self.bytes.0 as f64;
        read_cents / kept_cents
    }
}

impl FiveMinutes {
    fn series_of(&self, drive: &str) -> Vec<Series> {
        let mut series = vec![Series::new(format!("{drive}.reads_s"), "KB", "1/s")];
        let of = |(memory, _): (&String, &PricedMemory)| {
            Series::new(format!("{drive}.{memory}.break_even_s"), "KB", "s")
        };
        series.extend(self.memories_over(drive).map(of));
        series
    }

    /// The memories that keep what lies on `drive`.
    fn memories_over(&self, drive: &str) -> impl Iterator<Item = (&String, &PricedMemory)> {
        self.memories.iter().filter(move |(_, memory)| memory.lies_over(drive))
    }

    /// Pages of each size that a drive reads in a second, one that is simulated.
    fn simulate(
        &self,
        name: &str,
        drive: &DriveVariant,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<f64>, LabError> {
        let profile = drive.profile(name).map_err(|error| LabError::step(name, &error))?;
        let scale = Scale::of_simulated(self.flash_capacity, self.request_count);
        bench.with_profile(name, &profile, &scale, |subject, observer| {
            let mut rates = Vec::new();
            for size in &self.page_bytes {
                let pattern = AccessPattern::RandomRead;
                let order =
                    PointOrder { pattern, request_bytes: size.0, queue_depth: self.queue_depth };
                rates.push(subject.measure(order, &scale, observer)?.medians.iops);
            }
            Ok(rates)
        })
    }
}

impl Measurement for FiveMinutes {
    fn check(&self) -> Result<(), String> {
        if self.drives.is_empty() || self.memories.is_empty() {
            return Err("`drives` and `memories` must have one each at least".into());
        }
        for (name, drive) in &self.drives {
            drive.check(name, self.flash_capacity)?;
        }
        for (name, memory) in &self.memories {
            if let Some(below) = memory.drives.iter().find(|it| !self.drives.contains_key(*it)) {
                return Err(format!(
                    "`drives` of memory `{name}` has `{below}`, which is no drive"
                ));
            }
        }
        let is_odd =
            |it: &PricedMemory| !(1..=CENTS_MAX).contains(&it.cents) || it.bytes == ByteCount::ZERO;
        if let Some((name, _)) = self.memories.iter().find(|(_, it)| is_odd(it)) {
            return Err(format!(
                "`cents` of memory `{name}` must be 1 to {CENTS_MAX}, `bytes` above 0"
            ));
        }
        let sizes = ("page_bytes", &self.page_bytes[..]);
        check_requests(sizes, self.queue_depth, self.request_count)
    }

    fn targets(&self) -> Vec<String> {
        self.drives.values().filter_map(|drive| drive.base.clone()).collect()
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        let drive = self.drives.values().nth(index).expect("a step is a drive");
        drive.base.iter().cloned().collect()
    }

    fn series_names(&self) -> Vec<String> {
        let series = self.drives.keys().flat_map(|drive| self.series_of(drive));
        series.map(|series| series.name).collect()
    }

    fn steps(&self) -> Vec<String> {
        self.drives.keys().cloned().collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let (name, drive) = self.drives.iter().nth(index).expect("a step is a drive");
        let rates = match (drive.simulated(), &drive.access) {
            (Some(simulated), _) => self.simulate(name, &simulated, bench)?,
            (None, access) => {
                let access = access.as_ref().expect("it was checked");
                self.page_bytes.iter().map(|&size| 1e6 / access.of(size)).collect()
            }
        };
        let mut series = self.series_of(name);
        for (&size, reads_s) in self.page_bytes.iter().zip(rates) {
            let x = size.0 as f64 / 1024.0;
            series[0].points.push((x, reads_s));
            for (series, (_, memory)) in series[1..].iter_mut().zip(self.memories_over(name)) {
                series.points.push((x, memory.break_even_s(size, drive.cents, reads_s)));
            }
        }
        Ok(series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_minutes_of_1987() {
        // Gray and Putzolu, as recalled: a disk of 15 accesses a second with its share of controller for 30,000
        // dollars, memory for 5,000 dollars a megabyte, pages of 4 KB; they round to five minutes.
        let memory = PricedMemory { bytes: ByteCount(1 << 20), cents: 500_000, drives: Vec::new() };
        let seconds = memory.break_even_s(ByteCount(4096), 3_000_000, 15.0);
        assert!((seconds - 102.4).abs() < 0.1, "{seconds}");
        // Pages of 1 KB, the size that they have for records.
        let seconds = memory.break_even_s(ByteCount(1024), 3_000_000, 15.0);
        assert!((seconds - 409.6).abs() < 0.1, "{seconds}");
    }

    const TEXT: &str = "page_bytes = ['1KiB', '4KiB']\nqueue_depth = 1\nrequest_count = 10\n\
        flash_capacity = '64MiB'\n\
        [drives.flash]\nbase = 'sim:device-a'\ncents = 51200\n\
        [drives.said]\naccess = { fixed_us = 12000.0, bytes_per_second = 300000000.0 }\ncents = 8000\n\
        [memories.dram]\nbytes = '64MiB'\ncents = 300\n\
        [memories.on-flash]\nbytes = '32GiB'\ncents = 99900\ndrives = ['said']\n";

    #[test]
    fn a_drive_is_simulated_or_described_and_lies_below_what_is_said() {
        let kind: FiveMinutes = toml::from_str(TEXT).unwrap();
        assert_eq!(kind.check(), Ok(()));
        assert_eq!(kind.targets(), ["sim:device-a"]);
        assert_eq!(kind.step_targets(0), ["sim:device-a"]);
        assert!(kind.step_targets(1).is_empty());
        let names = kind.series_names();
        assert!(names.contains(&"said.on-flash.break_even_s".to_owned()), "{names:?}");
        assert!(!names.contains(&"flash.on-flash.break_even_s".to_owned()), "{names:?}");
        // By hand, in Graefe's figures of 2007: 80 dollars over 83.25 reads a second are 96.1 cents; 256 pages of a
        // megabyte, which costs 4.6875 cents.
        let reads_s = 1e6 / kind.drives["said"].access.unwrap().of(ByteCount(4096));
        let seconds = kind.memories["dram"].break_even_s(ByteCount(4096), 8000, reads_s);
        assert!((seconds / 5248.0 - 1.0).abs() < 0.001, "{seconds}");
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let wrong = |from: &str, to: &str| {
            let kind: FiveMinutes = toml::from_str(&TEXT.replace(from, to)).unwrap();
            kind.check().unwrap_err()
        };
        assert!(wrong("cents = 8000", "cents = 0").contains("`said`"));
        assert!(wrong("cents = 8000", "cents = 9223372036854775807").contains("`said`"));
        assert!(wrong("cents = 300", "cents = 1000000001").contains("`dram`"));
        assert!(wrong("base = 'sim:device-a'\n", "").contains("`flash` has `base` or `access`"));
        assert!(
            wrong("bytes_per_second = 300000000.0", "bytes_per_second = 0.0").contains("`said`")
        );
        assert!(wrong("drives = ['said']", "drives = ['sad']").contains("`sad`"));
    }
}
