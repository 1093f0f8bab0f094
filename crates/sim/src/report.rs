//! What a simulation found, for JSON, tables and sweeps. `docs/simulation.md` explains each field.
//!
//! 1. Every figure covers the measured requests alone, not the preparation.
//! 2. The same job with the same seed gives the same report, apart from `wall_ns`.

use crate::{CacheUse, CheckSummary, Job};
use nandu_base::{Cause, FlashCounters, FlashOperation, LatencySummary};
use nandu_drives::ssd::SsdConfig;
use nandu_nand::NandConfig;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The outcome of one simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimReport {
    /// What was simulated.
    pub config: ConfigEcho,
    /// Seed of everything random.
    pub seed: u64,
    /// Requests and bytes of the host, by operation.
    pub requests: BTreeMap<String, RequestCount>,
    /// Requests of all kinds.
    pub request_count: u64,
    /// Flash pages' worth of units that the host wrote, rounded up.
    pub host_write_pages: u64,
    /// Flash pages' worth of units that the host read, rounded up.
    pub host_read_pages: u64,
    /// Flash pages' worth of units that the host trimmed, rounded up.
    pub host_trim_pages: u64,
    /// Units that were read because a write covered them in part.
    pub modify_read_units: u64,
    /// Chip commands by operation and cause; cells of zero are left out.
    pub nand: BTreeMap<String, BTreeMap<String, u64>>,
    /// Programs over host pages written; 0 where the host wrote nothing.
    pub write_amplification: f64,
    /// Its parts, by cause.
    pub write_amplification_by_cause: BTreeMap<String, f64>,
    /// What theory says of the write amplification, where it says something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_form: Option<ClosedForm>,
    /// Response times, by operation.
    pub latency_ns: BTreeMap<String, LatencySummary>,
    /// Erases of each erase block since the preparation.
    pub erase_count: Spread,
    /// How long the drive lasts at this rate of wear; none without erases or endurance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Lifetime>,
    /// Energy of the chips; none where the chip's figures are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<EnergyUse>,
    /// Controller memory of the map.
    pub map_bytes: u64,
    /// Memory of the simulator for each flash page that the host sees.
    pub simulator_bytes_per_logical_page: f64,
    /// From the first request to the last completion.
    pub simulated_ns: u64,
    /// Requests per simulated second.
    pub requests_per_second: f64,
    /// Share of the time that dies were busy, over all dies.
    pub die_utilisation: f64,
    /// What the requests were: the format of a trace and how it was recognised, or the workload.
    pub source: String,
    /// Lines of the trace (chunks of a binary one) that were skipped because they made no sense.
    pub skipped_lines: u64,
    /// The first of them, with what is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_skipped: Option<String>,
    /// Requests of other devices than the one that was asked for.
    pub filtered_requests: u64,
    /// Requests whose time lay before that of the one above; they were given its time.
    pub reordered_requests: u64,
    /// What the controller's cache did, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheUse>,
    /// What the conservation checks compared, where they ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checks: Option<CheckSummary>,
    /// How long the simulation itself took, preparation included; set by whoever has a clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ns: Option<u64>,
}

/// What was asked for and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfigEcho {
    /// As asked for.
    pub job: Job,
    /// The drive with all settings in place.
    pub ssd: SsdConfig,
    /// The chips.
    pub nand: NandConfig,
    /// Bytes of a mapping unit.
    pub unit_bytes: u32,
    /// Flash pages' worth of units that the host sees.
    pub logical_pages: u64,
    /// Flash pages of the array.
    pub physical_pages: u64,
    /// Erase blocks of the array.
    pub physical_erase_blocks: u32,
    /// Logical over physical pages.
    pub utilisation: f64,
    /// Units written before anything counted.
    pub warm_up_units: u64,
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCount {
    /// How many.
    pub count: u64,
    /// Their lengths together.
    pub bytes: u64,
}

/// A distribution over erase blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The smallest.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub max: u64,
    /// The standard deviation of the population.
    pub stddev: f64,
}

impl Spread {
    /// Of `values`; all zero where there are none.
    #[must_use]
    pub fn of(values: impl Iterator<Item = u64>) -> Self {
        let (mut count, mut sum, mut squares) = (0_u64, 0_u128, 0_u128);
        let (mut min, mut max) = (u64::MAX, 0);
        for value in values {
            count += 1;
            sum += u128::from(value);
            squares += u128::from(value) * u128::from(value);
            (min, max) = (min.min(value), max.max(value));
        }
        if count == 0 {
            return Self::default();
        }
        let mean = sum as f64 / count as f64;
        let variance = squares as f64 / count as f64 - mean * mean;
        Self { min, mean, max, stddev: variance.max(0.0).sqrt() }
    }
}

/// A closed form beside the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClosedForm {
    /// Write amplification in theory.
    pub write_amplification: f64,
    /// Physical over logical size, without what the layer keeps aside.
    pub effective_alpha: f64,
    /// Simulated over theoretical, less 1.
    pub deviation: f64,
}

/// How long a drive lasts (flash reference 2.7).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lifetime {
    /// Erases that an erase block stands.
    pub endurance: u32,
    /// Times that the whole logical space can be written, if all erase blocks wear alike.
    pub drive_writes: f64,
    /// The same for each day of five years.
    pub drive_writes_per_day: f64,
    /// As `drive_writes_per_day`, until the erase block that wears fastest is worn out.
    pub drive_writes_per_day_unlevelled: f64,
}

const LIFETIME_DAYS: f64 = 5.0 * 365.0;

impl Lifetime {
    /// For erase blocks that wore as `erases` says while the logical space was written
    /// `drive_writes` times; none where nothing wore.
    #[must_use]
    pub fn of(endurance: u32, erases: &Spread, drive_writes: f64) -> Option<Self> {
        if endurance == 0 || erases.max == 0 || drive_writes <= 0.0 {
            return None;
        }
        let per_erase = f64::from(endurance) * drive_writes;
        let levelled = per_erase / erases.mean;
        Some(Self {
            endurance,
            drive_writes: levelled,
            drive_writes_per_day: levelled / LIFETIME_DAYS,
            drive_writes_per_day_unlevelled: per_erase / erases.max as f64 / LIFETIME_DAYS,
        })
    }
}

/// Energy of the chips.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnergyUse {
    /// In all.
    pub joules: f64,
    /// For each byte that the host read or wrote; 0 where there was none.
    pub nanojoules_per_host_byte: f64,
}

/// Counters as JSON has them.
pub(crate) fn cells_of(counters: &FlashCounters) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut cells: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for (operation, cause, count) in counters.cells() {
        let row = cells.entry(operation.label().into()).or_default();
        row.insert(cause.label().into(), count);
    }
    cells
}

/// Programs of any sort by cause, each over `host_pages`; nothing where that is zero.
pub(crate) fn amplification_by_cause(
    counters: &FlashCounters,
    host_pages: f64,
) -> BTreeMap<String, f64> {
    let kinds = [FlashOperation::Program, FlashOperation::PartialProgram, FlashOperation::CopyBack];
    let parts = Cause::ALL.iter().map(|&cause| {
        let pages: u64 = kinds.iter().map(|&kind| counters.get(kind, cause)).sum();
        (cause.label().to_string(), pages)
    });
    let parts = parts.filter(|(_, pages)| *pages > 0 && host_pages > 0.0);
    parts.map(|(cause, pages)| (cause, pages as f64 / host_pages)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_that_of_the_population() {
        let spread = Spread::of([2, 4, 4, 4, 5, 5, 7, 9].into_iter());
        assert_eq!((spread.min, spread.max), (2, 9));
        assert!((spread.mean - 5.0).abs() < 1e-12 && (spread.stddev - 2.0).abs() < 1e-12);
        assert_eq!(Spread::of(std::iter::empty()), Spread::default());
    }

    #[test]
    fn lifetime_is_endurance_over_the_erases_of_a_drive_write() {
        // Ten drive writes at 20 erases a block: 3000 erases are 1500 drive writes.
        let erases = Spread { min: 10, mean: 20.0, max: 40, stddev: 1.0 };
        let lifetime = Lifetime::of(3000, &erases, 10.0).unwrap();
        assert!((lifetime.drive_writes - 1500.0).abs() < 1e-9);
        assert!((lifetime.drive_writes_per_day - 1500.0 / 1825.0).abs() < 1e-12);
        assert!((lifetime.drive_writes_per_day_unlevelled - 750.0 / 1825.0).abs() < 1e-12);
        assert_eq!(Lifetime::of(0, &erases, 10.0), None);
        assert_eq!(Lifetime::of(3000, &Spread::default(), 10.0), None);
    }
}
