//! Sorts that write less beside merges, where a write costs several reads: S002 chapter 5, x + c y.
//!
//! Numbers of eight bytes are sorted and handed on, in a part of as much memory, by merges and by the kind
//! that costs least by x + c y, where c is what the drive takes to write blocks over what it takes to scan
//! them. One step for each drive and one for the model; series of one point at 0, by how many times the memory
//! the numbers take:
//!
//! - `DRIVE.timesN.time`, `DRIVE.timesN.cost`: time and x + c y of the chosen kind over those of merges;
//! - `DRIVE.timesN.picked`: the part of the numbers that passes pick, in percent: none of merges;
//! - `DRIVE.write_weight`: c;
//! - `weightC.timesN.cost`, `weightC.timesN.picked`: the same by the model alone, for each c of a list;
//!   `weightC.timesN.lazy`: the cost of the lazy kind over that of merges.
//!
//! 1. Each sort hands on all numbers in order, and moves as many blocks as were counted before.

use super::Measurement;
use super::bench::Bench;
use super::beyond::{check_drives, is_block, memory, outcome_of, volumes};
use super::drive::{Drives, series_names, targets};
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::{ByteCount, Rng, to_u32};
use nandu_external::basic::{measure, scan, write_random};
use nandu_external::sort::SortKind;
use nandu_external::{ExternalError, Grant, Io, Natural, RecordStream, Settings, Store};
use nandu_probe::text;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The step of the model.
const MODEL: &str = "the model";
/// How much of a write a weight counts.
const THOUSANDTHS: u64 = 1000;
/// How many times the memory numbers may take: passes read them as often.
const FACTOR_MAX: u64 = 64;

/// The keys of an experiment of the kind `sort_kinds`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SortKinds {
    /// The drives on which is sorted.
    pub drives: Drives,
    /// Capacity that each is scaled to.
    #[serde(deserialize_with = "text::size")]
    pub capacity: ByteCount,
    /// Numbers that are sorted.
    pub number_count: u64,
    /// How many times the memory they take, rising.
    pub factors: Vec<u64>,
    /// How many reads a write costs, for the model alone, rising.
    pub weights: Vec<u64>,
    /// A block of numbers and of runs.
    #[serde(deserialize_with = "text::size")]
    pub block_bytes: ByteCount,
    /// Requests that a stream has in flight beside its block at hand.
    pub in_flight: u32,
}

/// Where and with what is sorted.
type At<'a> = (&'a Io, &'a Arc<AtomicBool>, u64);

impl SortKinds {
    fn series_of(&self, name: &str) -> Vec<Series> {
        let weight = Series::new(format!("{name}.write_weight"), "", "");
        let of_factors = self.factors.iter().flat_map(|&factor| of_factor(name, factor, "time"));
        of_factors.chain([weight]).collect()
    }

    fn series_of_weight(&self, weight: u64) -> Vec<Series> {
        let name = format!("weight{weight}");
        self.factors.iter().flat_map(|&factor| of_factor(&name, factor, "lazy")).collect()
    }

    const fn memory_bytes(&self, factor: u64) -> u64 {
        8 * self.number_count / factor
    }

    fn store(
        &self,
        (io, stop): (&Io, &Arc<AtomicBool>),
        bytes: u64,
    ) -> Result<Store, ExternalError> {
        let block_bytes = to_u32(self.block_bytes.0);
        let settings = Settings { block_bytes, in_flight: self.in_flight };
        let streams = 4 * (u64::from(self.in_flight) + 1) * self.block_bytes.0;
        let grant = Grant::new(bytes + streams);
        Store::stoppable(std::slice::from_ref(io), settings, grant, Arc::clone(stop))
    }

    /// How many thousandths of a scan of as much writing takes.
    fn write_weight(
        &self,
        at: (&Io, &Arc<AtomicBool>),
        rng: &mut Rng,
    ) -> Result<u64, ExternalError> {
        let store = self.store(at, 0)?;
        let written = measure(&store, || write_random(&store, self.number_count, rng))?;
        let scanned = measure(&store, || scan(&written.value))?;
        Ok(THOUSANDTHS * written.elapsed_ns.0 / scanned.elapsed_ns.0.max(1))
    }

    /// How long a sort takes, in nanoseconds.
    fn sort_ns(
        &self,
        (io, stop, bytes): At<'_>,
        kind: SortKind,
        rng: &mut Rng,
    ) -> Result<u64, ExternalError> {
        let store = self.store((io, stop), bytes)?;
        let numbers = write_random(&store, self.number_count, rng)?;
        let expected = kind.moved_blocks::<u64>(&store, self.number_count, bytes)?;
        let sorted = measure(&store, || {
            let mut sorted = kind.sort(numbers, Natural, bytes)?;
            let (mut last, mut count) = (0, 0);
            while let Some(number) = sorted.next_record()? {
                assert!(number >= last, "invariant 1");
                (last, count) = (number, count + 1);
            }
            Ok(count)
        })?;
        assert_eq!(sorted.value, self.number_count, "invariant 1");
        let moved = (sorted.counts.read_blocks, sorted.counts.write_blocks);
        assert_eq!(moved, (expected.read_count, expected.write_count), "invariant 1");
        Ok(sorted.elapsed_ns.0)
    }

    /// The cheapest kind where a write costs so many thousandths of a read, and its x + c y over that of
    /// merges.
    fn cheapest(
        &self,
        store: &Store,
        bytes: u64,
        weight: u64,
    ) -> Result<(SortKind, f64), ExternalError> {
        let (kind, _) = SortKind::cheapest::<u64>(store, self.number_count, bytes, weight)?;
        Ok((kind, self.cost(store, bytes, weight, kind)?))
    }

    /// x + c y of a kind over that of merges.
    fn cost(
        &self,
        store: &Store,
        bytes: u64,
        weight: u64,
        kind: SortKind,
    ) -> Result<f64, ExternalError> {
        let cost = |kind: SortKind| -> Result<f64, ExternalError> {
            let moved = kind.moved_blocks::<u64>(store, self.number_count, bytes)?;
            Ok(moved.cost_thousandths(weight) as f64)
        };
        Ok(cost(kind)? / cost(SortKind::Merge)?)
    }

    fn model(&self, stop: &Arc<AtomicBool>) -> Result<Vec<Series>, ExternalError> {
        let io = memory(self.capacity)?;
        let mut all = Vec::new();
        for &weight in &self.weights {
            let mut values = Vec::new();
            for &factor in &self.factors {
                let bytes = self.memory_bytes(factor);
                let store = self.store((&io, stop), bytes)?;
                let weight = THOUSANDTHS * weight;
                let (kind, cost) = self.cheapest(&store, bytes, weight)?;
                let lazy = SortKind::Lazy { write_weight_thousandths: weight };
                let lazy = self.cost(&store, bytes, weight, lazy)?;
                values.extend([lazy, cost, picked_percent(kind)]);
            }
            all.extend(with_values(self.series_of_weight(weight), values));
        }
        Ok(all)
    }

    fn on_drive(&self, name: &str, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let variant = &self.drives[name];
        let stop = bench.observer.stop_flag();
        let mut rng = Rng::for_part(bench.seed, "numbers");
        let mut fresh = || -> Result<Io, LabError> {
            Ok(volumes(bench, name, &[(name, variant)], self.capacity)?.swap_remove(0))
        };
        let io = fresh()?;
        let weight = outcome_of(name, self.write_weight((&io, &stop), &mut rng))?;
        let mut values = Vec::new();
        for &factor in &self.factors {
            let bytes = self.memory_bytes(factor);
            let store = outcome_of(name, self.store((&io, &stop), bytes))?;
            let (kind, cost) = outcome_of(name, self.cheapest(&store, bytes, weight))?;
            let mut sort = |kind| {
                let io = fresh()?;
                outcome_of(name, self.sort_ns((&io, &stop, bytes), kind, &mut rng))
            };
            let (merge_ns, its_ns) = (sort(SortKind::Merge)?, sort(kind)?);
            values.extend([its_ns as f64 / merge_ns.max(1) as f64, cost, picked_percent(kind)]);
        }
        values.push(weight as f64 / THOUSANDTHS as f64);
        Ok(with_values(self.series_of(name), values))
    }
}

/// The three series of numbers that take so many times the memory, the first with a name of its own.
fn of_factor(name: &str, factor: u64, first: &str) -> [Series; 3] {
    [(first, ""), ("cost", ""), ("picked", "%")]
        .map(|(what, unit)| Series::new(format!("{name}.times{factor}.{what}"), "", unit))
}

/// Each series with its value at 0.
fn with_values(mut all: Vec<Series>, values: Vec<f64>) -> Vec<Series> {
    assert_eq!(all.len(), values.len(), "each series has a value");
    all.iter_mut().zip(values).for_each(|(series, value)| series.points.push((0.0, value)));
    all
}

/// The part of the records that passes pick.
const fn picked_percent(kind: SortKind) -> f64 {
    match kind {
        SortKind::Merge => 0.0,
        SortKind::Selection | SortKind::Lazy { .. } => 100.0,
        SortKind::Segment { merged_thousandths } => 100.0 - merged_thousandths as f64 / 10.0,
    }
}

/// Whether numbers of a list rise, from one of at least `least` on.
fn rises(numbers: &[u64], least: u64) -> bool {
    numbers.first().is_some_and(|&first| first >= least) && numbers.is_sorted_by(|a, b| a < b)
}

impl Measurement for SortKinds {
    fn check(&self) -> Result<(), String> {
        check_drives(&self.drives, self.capacity)?;
        if !rises(&self.factors, 1) || self.factors.iter().any(|&factor| factor > FACTOR_MAX) {
            return Err(format!("`factors` must rise, from 1 or more to {FACTOR_MAX} at most"));
        }
        if !rises(&self.weights, 1) || self.weights.iter().any(|&weight| weight > 1000) {
            return Err("`weights` must rise, from 1 or more to 1000 at most".into());
        }
        if !is_block(&self.block_bytes) {
            return Err("`block_bytes` must be a power of two, from 512 to 16 MiB".into());
        }
        if self.in_flight > 64 {
            return Err("`in_flight` must be 64 at most".into());
        }
        let bytes = self.number_count.checked_mul(8).filter(|&bytes| bytes <= self.capacity.0 / 4);
        let Some(bytes) = bytes else {
            return Err("`capacity` must have 32 bytes for each number".into());
        };
        let least = self.factors.last().map_or(0, |factor| bytes / factor);
        if least < 8 * self.block_bytes.0 {
            return Err("the least memory must have 8 blocks".into());
        }
        Ok(())
    }

    fn targets(&self) -> Vec<String> {
        targets(&self.drives)
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        targets(&self.drives).into_iter().nth(index).into_iter().collect()
    }

    fn series_names(&self) -> Vec<String> {
        let of_model = self.weights.iter().flat_map(|&weight| self.series_of_weight(weight));
        let mut names = series_names(&self.drives, |name| self.series_of(name));
        names.extend(of_model.map(|series| series.name));
        names
    }

    fn steps(&self) -> Vec<String> {
        self.drives.keys().cloned().chain([MODEL.to_owned()]).collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        match self.drives.keys().nth(index) {
            Some(name) => self.on_drive(name, bench),
            None => outcome_of(MODEL, self.model(&bench.observer.stop_flag())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::beyond::{plain_drives, values_of};

    fn small() -> SortKinds {
        SortKinds {
            drives: plain_drives(&["pcm"]),
            capacity: ByteCount::mib(16),
            number_count: 65_536,
            factors: vec![2, 8],
            weights: vec![1, 20],
            block_bytes: ByteCount(4096),
            in_flight: 1,
        }
    }

    #[test]
    fn where_writes_are_dear_passes_that_write_nothing_gain() {
        let kind = small();
        let on_drive = values_of(&kind, 0, 0.0);
        // Of twice the memory all is read twice, and nothing is written.
        assert_eq!(on_drive["pcm.times2.picked"], 100.0);
        assert!((0.05..0.9).contains(&on_drive["pcm.times2.time"]), "{on_drive:?}");
        assert!(on_drive["pcm.write_weight"] > 2.0, "{on_drive:?}");
        let model = values_of(&kind, 1, 0.0);
        assert_eq!(model["weight20.times8.picked"], 100.0);
        // 8 reads of all, over 2 and a write that costs 20.
        assert!((model["weight20.times8.cost"] / (8.0 / 22.0) - 1.0).abs() < 0.1, "{model:?}");
        for weight in [1, 20] {
            let of = |what: &str| model[&format!("weight{weight}.times8.{what}")];
            assert!(of("cost") <= 1.0 && of("cost") <= of("lazy"), "{model:?}");
        }
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let refused = |kind: SortKinds| kind.check().unwrap_err();
        assert!(refused(SortKinds { factors: vec![4, 2], ..small() }).contains("factors"));
        assert!(refused(SortKinds { factors: vec![], ..small() }).contains("factors"));
        assert!(refused(SortKinds { weights: vec![0, 2], ..small() }).contains("weights"));
        assert!(refused(SortKinds { number_count: u64::MAX, ..small() }).contains("capacity"));
        let blocks = SortKinds { block_bytes: ByteCount(5000), ..small() };
        assert!(refused(blocks).contains("block_bytes"));
        let few = SortKinds { block_bytes: ByteCount::mib(1), ..small() };
        assert!(refused(few).contains("memory"));
    }
}
