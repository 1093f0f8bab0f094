//! How long a page may rest before it is cheaper to read it again than to keep it: the five-minute rule (Gray
//! and Putzolu, SIGMOD 1987; Graefe, `DaMoN` 2007), for every pair of what keeps pages and what they are
//! read from.
//!
//! ```text
//!   a page a second    costs  price of a drive / pages that it reads in a second
//!   a page kept        costs  bytes of a page x price of the memory / bytes of the memory
//!   break-even         seconds between two uses at which both cost the same: their ratio
//! ```
//!
//! One step for each drive, with series by the size of a page, in KB:
//!
//! - `DRIVE.reads_s`: pages that it reads anywhere in a second, as it is simulated;
//! - `DRIVE.MEMORY.break_even_s`: the break-even.
//!
//! 1. Prices stand in the experiment, each with its source; nothing costs by itself.

use super::Measurement;
use super::bench::{AccessPattern, Bench, PointOrder, Scale};
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::{ByteCount, Nanos};
use nandu_drives::profile::Profile;
use nandu_probe::text;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Reads in flight, at most: no drive here has more.
const DEPTH_MAX: u32 = 1024;
/// The largest page.
const PAGE_BYTES_MAX: u64 = 16 << 20;

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

/// A simulated drive and its price.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PricedDrive {
    /// Which one, as `sim:NAME`.
    pub base: String,
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
}

impl PricedDrive {
    fn profile(&self, name: &str) -> Result<Profile, String> {
        let stem = self.base.strip_prefix("sim:").ok_or_else(|| {
            format!("`base` of drive `{name}` is `{}`; write sim:NAME", self.base)
        })?;
        Profile::load(stem).map_err(|error| error.to_string())
    }
}

impl PricedMemory {
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
        let of = |memory: &String| Series::new(format!("{drive}.{memory}.break_even_s"), "KB", "s");
        series.extend(self.memories.keys().map(of));
        series
    }
}

impl Measurement for FiveMinutes {
    fn check(&self) -> Result<(), String> {
        if self.drives.is_empty() || self.memories.is_empty() {
            return Err("`drives` and `memories` must have one each at least".into());
        }
        for (name, drive) in &self.drives {
            let whole = drive.profile(name)?.geometry.capacity();
            if drive.cents == 0 {
                return Err(format!("`cents` of drive `{name}` is 0; nothing is free"));
            }
            if self.flash_capacity < ByteCount::mib(4) || self.flash_capacity > whole {
                return Err(format!("`flash_capacity` must be from 4 MiB to {whole}, of `{name}`"));
            }
        }
        if let Some((name, _)) =
            self.memories.iter().find(|(_, it)| it.cents == 0 || it.bytes == ByteCount::ZERO)
        {
            return Err(format!("`cents` and `bytes` of memory `{name}` must be above 0"));
        }
        let rises = self.page_bytes.windows(2).all(|pair| pair[0] < pair[1]);
        let fits = |size: &ByteCount| {
            (512..=PAGE_BYTES_MAX).contains(&size.0) && size.0.is_multiple_of(512)
        };
        if self.page_bytes.is_empty() || !rises || !self.page_bytes.iter().all(fits) {
            return Err("`page_bytes` must rise, in sectors of 512, up to 16 MiB".into());
        }
        if !(1..=DEPTH_MAX).contains(&self.queue_depth) || self.request_count == 0 {
            return Err(format!("`queue_depth` is from 1 to {DEPTH_MAX}, `request_count` above 0"));
        }
        Ok(())
    }

    fn targets(&self) -> Vec<String> {
        self.drives.values().map(|drive| drive.base.clone()).collect()
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        vec![self.targets().swap_remove(index)]
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
        let profile = drive.profile(name).map_err(|error| LabError::step(name, &error))?;
        let scale = Scale {
            flash_capacity: self.flash_capacity,
            disk_capacity: None,
            request_count: self.request_count,
            disk_request_count: None,
            point_bytes: ByteCount(u64::MAX),
            local_duration: Nanos::from_seconds(1),
            disk_file: None,
        };
        let sizes = self.page_bytes.clone();
        let queue_depth = self.queue_depth;
        let rates = bench.with_profile(name, &profile, &scale, |subject, observer| {
            let mut rates = Vec::new();
            for size in sizes {
                let pattern = AccessPattern::RandomRead;
                let order = PointOrder { pattern, request_bytes: size.0, queue_depth };
                rates.push(subject.measure(order, &scale, observer)?.medians.iops);
            }
            Ok(rates)
        })?;
        let mut series = self.series_of(name);
        for (&size, reads_s) in self.page_bytes.iter().zip(rates) {
            let x = size.0 as f64 / 1024.0;
            series[0].points.push((x, reads_s));
            for (series, memory) in series[1..].iter_mut().zip(self.memories.values()) {
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
        let memory = PricedMemory { bytes: ByteCount(1 << 20), cents: 500_000 };
        let seconds = memory.break_even_s(ByteCount(4096), 3_000_000, 15.0);
        assert!((seconds - 102.4).abs() < 0.1, "{seconds}");
        // Pages of 1 KB, the size that they have for records.
        let seconds = memory.break_even_s(ByteCount(1024), 3_000_000, 15.0);
        assert!((seconds - 409.6).abs() < 0.1, "{seconds}");
    }
}
