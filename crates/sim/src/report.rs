//! What a simulation found, for JSON, tables and sweeps. `docs/simulation.md` explains each field.
//!
//! 1. Every figure covers the measured requests alone, not the preparation.
//! 2. The same job with the same seed gives the same report, apart from `wall_ns`, which no file gets.

use crate::{CacheUse, CheckSummary, Job, Measurement, Warning};
use nandu_base::{Cause, FlashCounters, FlashOperation, LatencySummary, Nanos};
use nandu_device::EnergyReport;
use nandu_drives::ssd::SsdConfig;
use nandu_ftl::{MapCacheCounts, MergeCounts};
use nandu_nand::{NandConfig, Usage, Waits};
use nandu_trace::UniquePages;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The outcome of one simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimReport {
    /// What was asked for, and the drive that came of it.
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
    /// The parts of the write amplification, by the cause of the programs.
    pub write_amplification_by_cause: BTreeMap<String, f64>,
    /// What theory says of the write amplification, where it says something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_form: Option<ClosedForm>,
    /// Response times, by operation.
    pub latency_ns: BTreeMap<String, LatencySummary>,
    /// Erases of each erase block since the preparation.
    pub erase_count: Spread,
    /// How long the drive lasts at this rate of wear; none where nothing wore, and without endurance.
    #[serde(default)]
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
    /// What the host's chip commands waited for and took, by operation, in the event mode.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub time_shares: BTreeMap<String, TimeShare>,
    /// Of each die, the share of the time in which it was held by a command; event mode.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub die_held_share: Vec<f64>,
    /// Of each channel, the share of the time in which it moved data; event mode.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channel_busy_share: Vec<f64>,
    /// How many different pages a trace touches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_pages: Option<UniquePageUse>,
    /// Merges by kind, of a layer that merges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merges: Option<Merges>,
    /// What a cached map did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_cache: Option<MapCacheUse>,
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
    /// What to know before the figures are believed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// How long the simulation itself took, preparation included; set by whoever has a clock.
    #[serde(skip)]
    pub wall_ns: Option<u64>,
}

/// What was asked for and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfigEcho {
    /// The job as it was asked for.
    pub job: Job,
    /// The drive with all settings in place.
    pub ssd: SsdConfig,
    /// The chips with all settings in place.
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
    /// How many requests there were.
    pub count: u64,
    /// Bytes that these requests have together.
    pub bytes: u64,
}

/// What chip commands of the host waited for and took, on average over those that began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeShare {
    /// How many; one of several planes is one.
    pub command_count: u64,
    /// For commands that must come first: of a map on flash, a merge, an erase, or a read of what a
    /// write covers in part.
    pub held_back_ns: f64,
    /// In the queue of the die, behind others of the host.
    pub die_ns: f64,
    /// In the queue of the die, behind copies, erases and other work of the layer.
    pub cleaning_ns: f64,
    /// Time spent waiting for the channel, in nanoseconds.
    pub channel_ns: f64,
    /// Time of command cycles and of the array of cells, in nanoseconds.
    pub array_ns: f64,
    /// Time of the data on the channel, in nanoseconds.
    pub transfer_ns: f64,
}

impl TimeShare {
    /// None where no command began.
    fn of(waits: &Waits) -> Option<Self> {
        let count = waits.command_count;
        let mean = |time: Nanos| time.0 as f64 / count as f64;
        (count > 0).then(|| Self {
            command_count: count,
            held_back_ns: mean(waits.held_back),
            die_ns: mean(waits.die),
            cleaning_ns: mean(waits.cleaning),
            channel_ns: mean(waits.channel),
            array_ns: mean(waits.array),
            transfer_ns: mean(waits.transfer),
        })
    }

    /// From issue to end.
    #[must_use]
    pub fn total_ns(&self) -> f64 {
        self.parts().iter().sum()
    }

    /// The parts in the order of their names above.
    #[must_use]
    pub const fn parts(&self) -> [f64; 6] {
        let Self { held_back_ns, die_ns, cleaning_ns, channel_ns, array_ns, transfer_ns, .. } =
            *self;
        [held_back_ns, die_ns, cleaning_ns, channel_ns, array_ns, transfer_ns]
    }
}

/// Different flash pages' worth of the logical space that requests touch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UniquePageUse {
    /// Flash pages' worth that is read at least once.
    pub read: u64,
    /// Flash pages' worth that is written at least once.
    pub write: u64,
    /// Flash pages' worth that is read or written at least once.
    pub touched: u64,
    /// Flash pages' worth that is both read and written.
    pub shared: u64,
}

impl From<&UniquePages> for UniquePageUse {
    fn from(pages: &UniquePages) -> Self {
        let counts = pages.counts();
        Self {
            read: counts.read_count,
            write: counts.write_count,
            touched: counts.touched_count,
            shared: counts.shared_count(),
        }
    }
}

/// Merges, by what was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merges {
    /// Merges that copied every page that was still current.
    pub full: u64,
    /// The pages behind those that the host wrote.
    pub partial: u64,
    /// Merges that copied nothing: the log block took the place of the data block.
    pub switch: u64,
}

impl From<MergeCounts> for Merges {
    fn from(counts: MergeCounts) -> Self {
        let MergeCounts { full_count, partial_count, switch_count } = counts;
        Self { full: full_count, partial: partial_count, switch: switch_count }
    }
}

/// Look-ups of a map that is cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapCacheUse {
    /// Look-ups that found their entry cached.
    pub hits: u64,
    /// Look-ups that did not, and read it from flash.
    pub misses: u64,
}

impl From<MapCacheCounts> for MapCacheUse {
    fn from(counts: MapCacheCounts) -> Self {
        Self { hits: counts.hit_count, misses: counts.miss_count }
    }
}

/// A distribution over erase blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The smallest value that an erase block has.
    pub min: u64,
    /// The mean over all erase blocks.
    pub mean: f64,
    /// The largest value that an erase block has.
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

/// How long a drive lasts (flash reference 2.7). Erase blocks count as worn when they are erased, or by what was
/// programmed, if that is more: each flash page that is programmed is erased some day.
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
    /// Years until all erase blocks are worn out, if they wear alike and the run goes on as it was.
    #[serde(default)]
    pub years: f64,
}

const LIFETIME_DAYS: f64 = 5.0 * 365.0;
const YEAR_SECONDS: f64 = 8766.0 * 3600.0;

impl Lifetime {
    /// For erase blocks that were erased as `erases` says and programmed `programmed` times over on average while
    /// the logical space was written `drive_writes` times, in so many seconds; none where nothing wore.
    #[must_use]
    pub fn of(
        endurance: u32,
        (erases, programmed): (&Spread, f64),
        drive_writes: f64,
        seconds: f64,
    ) -> Option<Self> {
        let worn = erases.mean.max(programmed);
        if endurance == 0 || worn <= 0.0 || drive_writes <= 0.0 {
            return None;
        }
        let per_erase = f64::from(endurance) * drive_writes;
        let levelled = per_erase / worn;
        Some(Self {
            endurance,
            drive_writes: levelled,
            drive_writes_per_day: levelled / LIFETIME_DAYS,
            drive_writes_per_day_unlevelled: per_erase
                / worn.max(erases.max as f64)
                / LIFETIME_DAYS,
            years: f64::from(endurance) / worn * seconds / YEAR_SECONDS,
        })
    }
}

/// Energy of the chips.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnergyUse {
    /// Energy in all and by part, over time, and what it was good for.
    #[serde(flatten)]
    pub report: EnergyReport,
    /// For each byte that the host read or wrote; 0 where there was none.
    pub nanojoules_per_host_byte: f64,
}

impl EnergyUse {
    /// What was measured; none where the chip's figures are not known.
    pub(crate) fn of(measured: &Measurement, host_bytes: u64) -> Option<Self> {
        let Measurement { energy, simulated, request_count, .. } = measured;
        if energy.total().0 == 0 {
            return None;
        }
        let mut report = EnergyReport::of_model(energy, *simulated, *request_count);
        report.watts_over_time.clone_from(&measured.watts_over_time);
        let nanojoules = energy.total().0 as f64 / 1e3;
        let nanojoules_per_host_byte =
            if host_bytes > 0 { nanojoules / host_bytes as f64 } else { 0.0 };
        Some(Self { report, nanojoules_per_host_byte })
    }
}

/// What commands of the host waited for and took, by operation of the chip.
#[must_use]
pub fn time_shares_of(usage: &Usage) -> BTreeMap<String, TimeShare> {
    let kinds = [(FlashOperation::Read, &usage.reads), (FlashOperation::Program, &usage.programs)];
    let shares = kinds.into_iter().filter_map(|(operation, waits)| {
        Some((operation.label().to_string(), TimeShare::of(waits)?))
    });
    shares.collect()
}

/// Each of `times` over `whole`; nothing where that is zero.
#[must_use]
pub fn shares_of(times: &[Nanos], whole: Nanos) -> Vec<f64> {
    let whole = whole.as_seconds_f64();
    let shares = times.iter().filter(|_| whole > 0.0);
    shares.map(|time| time.as_seconds_f64() / whole).collect()
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
        let lifetime = Lifetime::of(3000, (&erases, 19.0), 10.0, 8766.0 * 36.0).unwrap();
        assert!((lifetime.drive_writes - 1500.0).abs() < 1e-9);
        assert!((lifetime.drive_writes_per_day - 1500.0 / 1825.0).abs() < 1e-12);
        assert!((lifetime.drive_writes_per_day_unlevelled - 750.0 / 1825.0).abs() < 1e-12);
        // 20 of 3000 erases in a hundredth of a year.
        assert!((lifetime.years - 1.5).abs() < 1e-12);
        assert_eq!(Lifetime::of(0, (&erases, 19.0), 10.0, 1.0), None);
        assert_eq!(Lifetime::of(3000, (&Spread::default(), 0.0), 10.0, 1.0), None);
    }

    #[test]
    fn what_was_programmed_and_not_yet_erased_wears_too() {
        let of = |erases: &Spread, programmed: f64| {
            Lifetime::of(3000, (erases, programmed), 10.0, 8766.0 * 36.0).unwrap()
        };
        let fresh = of(&Spread::default(), 20.0);
        assert!((fresh.years - 1.5).abs() < 1e-12, "{fresh:?}");
        assert_eq!(fresh.drive_writes_per_day, fresh.drive_writes_per_day_unlevelled);
        let begun = of(&Spread { min: 0, mean: 5.0, max: 60, stddev: 1.0 }, 20.0);
        assert_eq!((begun.years, begun.drive_writes), (fresh.years, fresh.drive_writes));
        let unlevelled = begun.drive_writes_per_day_unlevelled;
        assert!((unlevelled * 3.0 - begun.drive_writes_per_day).abs() < 1e-12, "{begun:?}");
    }
}
