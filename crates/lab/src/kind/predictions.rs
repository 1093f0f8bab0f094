//! What a drive was predicted to take, from a probe of it alone, over what it then took: S002 chapter 5, cost
//! models.
//!
//! A drive is probed as `nandu probe` does it, and used then, with all that the probe left in it: numbers of
//! eight bytes are written, scanned and sorted, some are read anywhere, and a list is ranked beyond memory.
//! Each is predicted before by `nandu_external::cost::predict` and the profile alone. One step for each drive,
//! with series by bytes of a block:
//!
//! - `DRIVE.write`, `DRIVE.scan`, `DRIVE.sort`, `DRIVE.random_read`, `DRIVE.rank`: predicted over taken;
//! - the same with `_blocks`: blocks that were predicted, over those that were moved.
//!
//! 1. Nothing of an algorithm is known but how many numbers or elements there are, and its memory.
//! 2. The ranks are those of a walk in memory.

use super::Measurement;
use super::bench::Bench;
use super::beyond::{check_drives, check_rising_blocks, is_block, on_device, outcome_of};
use super::drive::{DriveVariant, Drives, series_names, targets};
use super::site::cancelled;
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::{ByteCount, Nanos, Permutation, Rng, to_index, to_u32};
use nandu_device::{Device, MeteredDevice};
use nandu_drives::profile::SimOptions;
use nandu_external::basic::{Measured, measure, merge_sort, read_random, scan, write_random};
use nandu_external::cost::{Probed, Tally, predict};
use nandu_external::list_ranking::{END, rank, rank_in_memory};
use nandu_external::{ExternalError, Grant, Io, RecordStream, Settings, Store, Vector};
use nandu_probe::{
    DeviceProfile, ProbeError, QuickOptions, StreamOptions, derive, measure_streams, run_plan,
    series_quick, text,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What is predicted.
const OPERATIONS: [&str; 5] = ["write", "scan", "sort", "random_read", "rank"];
/// Streams are probed for a part of the time of a pattern, each.
const STREAM_SHARE: u64 = 10;

/// The keys of an experiment of the kind `predictions`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predictions {
    /// The drives that are probed and used.
    pub drives: Drives,
    /// Capacity that each is scaled to.
    #[serde(deserialize_with = "text::size")]
    pub capacity: ByteCount,
    /// Numbers that are written, scanned and sorted.
    pub number_count: u64,
    /// Elements of the list.
    pub list_count: u64,
    /// Memory of the sort, and of the ranking.
    #[serde(deserialize_with = "text::size")]
    pub memory: ByteCount,
    /// Numbers that are read anywhere.
    pub read_count: u64,
    /// Bytes of a block, rising.
    #[serde(deserialize_with = "text::sizes")]
    pub block_bytes: Vec<ByteCount>,
    /// Requests that a stream has in flight beside its block at hand, for each of these.
    pub in_flight: Vec<u32>,
    /// Requests of each pattern of the probe, at most.
    pub probe_request_count: u64,
    /// Bytes of a request of the probe's patterns.
    #[serde(deserialize_with = "text::sizes")]
    pub probe_request_bytes: Vec<ByteCount>,
    /// Requests in flight of the probe's patterns.
    pub queue_depths: Vec<u32>,
}

/// Predicted over taken: times, then blocks.
type Ratios = [[f64; OPERATIONS.len()]; 2];

impl Predictions {
    fn series_of(name: &str) -> Vec<Series> {
        let of_kind = |ending: &str| {
            OPERATIONS.map(|it| Series::new(format!("{name}.{it}{ending}"), "B", ""))
        };
        of_kind("").into_iter().chain(of_kind("_blocks")).collect()
    }

    /// What a probe tells of a new drive; and the drive, with all that the probe left in it.
    fn probe(
        &self,
        (name, variant): (&str, &DriveVariant),
        bench: &mut Bench<'_>,
    ) -> Result<(DeviceProfile, Box<dyn Device + Send>), LabError> {
        let seed = Rng::for_part(bench.seed, name).next_u64();
        let profile = variant.profile(name).map_err(|error| LabError::step(name, &error))?;
        let options = SimOptions { capacity: Some(self.capacity), seed, keep_data: true };
        let device = profile.open(options).map_err(|error| LabError::step(name, &error))?;
        let mut device = MeteredDevice::tallied(device, bench.power.clone());
        let quick = QuickOptions {
            request_bytes: self.probe_request_bytes.clone(),
            queue_depths: self.queue_depths.clone(),
            request_count: Some(self.probe_request_count),
            seed,
            ..QuickOptions::default()
        };
        let failed = |error: ProbeError| match error {
            ProbeError::Cancelled => cancelled(),
            error => LabError::step(name, &error),
        };
        let info = device.info().clone();
        let plan = series_quick(&info, &quick);
        let mut results = Vec::new();
        let mut note = |result| results.push(result);
        run_plan(&mut device, &plan, &mut *bench.observer, &mut note).map_err(failed)?;
        let duration = Nanos(quick.duration.0 / STREAM_SHARE);
        let options = StreamOptions { duration, writes: true, seed };
        let streams = measure_streams(&mut device, &options, &mut *bench.observer);
        let streams = Some(streams.map_err(failed)?);
        let profile = derive(&info, &results, &[]).map_err(failed)?;
        Ok((DeviceProfile { streams, ..profile }, Box::new(device)))
    }

    fn predicted<'p>(
        &self,
        store: &Store,
        probed: &'p Probed,
    ) -> Result<[Tally<'p>; OPERATIONS.len()], ExternalError> {
        let (count, bytes) = (self.number_count, self.memory.0);
        let mut rng = Rng::new(1);
        let mut tallies = std::array::from_fn(|_| probed.tally());
        let [write, scan, sort, read, rank] = &mut tallies;
        predict::write::<u64>(store, count, write)?;
        predict::scan::<u64>(store, count, scan)?;
        predict::sort::<u64>(store, count, bytes, &mut rng, sort)?;
        predict::read_anywhere::<u64>(store, count, self.read_count, &mut rng, read)?;
        predict::rank(store, self.list_count, bytes, &mut rng, rank)?;
        Ok(tallies)
    }

    /// What it then takes.
    fn taken(
        &self,
        store: &Store,
        rng: &mut Rng,
    ) -> Result<[Measured<()>; OPERATIONS.len()], ExternalError> {
        let written = measure(store, || write_random(store, self.number_count, rng))?;
        let scanned = measure(store, || scan(&written.value))?;
        let (written, numbers) = parted(written);
        let sorted = measure(store, || merge_sort(numbers, self.memory.0))?;
        let (sorted, numbers) = parted(sorted);
        let mut paged = numbers.paged(1)?;
        let read = measure(store, || read_random(&mut paged, self.read_count, rng))?;
        drop(paged);
        let ranked = self.ranked(store, rng)?;
        Ok([written, parted(scanned).0, sorted, parted(read).0, ranked])
    }

    /// A list comes from elsewhere, is ranked, and its ranks are read.
    fn ranked(&self, store: &Store, rng: &mut Rng) -> Result<Measured<()>, ExternalError> {
        let count = self.list_count;
        let order = Permutation::new(count, rng.next_u64());
        let mut successors = vec![END; to_index(count)];
        for place in 1..count {
            successors[to_index(order.apply(place - 1))] = order.apply(place);
        }
        let head = order.apply(0);
        let ranks = rank_in_memory(&successors, head)?;
        measure(store, || {
            let mut writer = Vector::writer_of(store, count)?;
            successors.iter().try_for_each(|&successor| writer.push(successor))?;
            let ranked = rank(&writer.finish()?, head, self.memory.0, rng)?;
            let mut scanner = ranked.scanner()?;
            for &rank in &ranks {
                assert_eq!(scanner.next_record()?, Some(rank), "invariant 2");
            }
            Ok(())
        })
    }

    fn ratios(
        &self,
        (io, stop): (&Io, &Arc<AtomicBool>),
        profile: &DeviceProfile,
        settings: Settings,
        rng: &mut Rng,
    ) -> Result<Ratios, ExternalError> {
        let streams = 4 * u64::from(settings.in_flight + 1) * u64::from(settings.block_bytes);
        let grant = Grant::new(2 * self.memory.0 + streams);
        let store = Store::stoppable(std::slice::from_ref(io), settings, grant, Arc::clone(stop))?;
        let probed = Probed::new(profile, settings.in_flight)?;
        let predicted = self.predicted(&store, &probed)?;
        let taken = self.taken(&store, rng)?;
        let mut ratios = Ratios::default();
        for (number, (tally, taken)) in predicted.iter().zip(taken).enumerate() {
            let moved = taken.counts.read_blocks + taken.counts.write_blocks;
            ratios[0][number] = tally.time_ns() as f64 / taken.elapsed_ns.0.max(1) as f64;
            ratios[1][number] = tally.request_count() as f64 / moved.max(1) as f64;
        }
        Ok(ratios)
    }
}

/// What something took, and what it gave.
fn parted<T>(measured: Measured<T>) -> (Measured<()>, T) {
    let Measured { value, counts, elapsed_ns } = measured;
    (Measured { value: (), counts, elapsed_ns }, value)
}

impl Measurement for Predictions {
    fn check(&self) -> Result<(), String> {
        check_drives(&self.drives, self.capacity)?;
        check_rising_blocks(&self.block_bytes)?;
        if self.probe_request_bytes.is_empty() || !self.probe_request_bytes.iter().all(is_block) {
            return Err("`probe_request_bytes` must be powers of two from 512 to 16 MiB".into());
        }
        if self.in_flight.len() != self.block_bytes.len()
            || self.in_flight.iter().any(|count| *count > 64)
        {
            return Err("`in_flight` must have a count of 64 at most for each block".into());
        }
        let counts =
            [self.number_count, self.list_count, self.read_count, self.probe_request_count];
        if counts.contains(&0) || self.queue_depths.is_empty() || self.queue_depths.contains(&0) {
            return Err(
                "counts of numbers, elements, reads, requests and depths must be above 0".into()
            );
        }
        let room = |count: u64, each: u64| {
            count.checked_mul(each).is_some_and(|bytes| bytes < self.capacity.0)
        };
        if !room(self.number_count, 24) || !room(self.list_count, 120) {
            return Err(
                "`capacity` must have 24 bytes for each number, and 120 for each element".into()
            );
        }
        Ok(())
    }

    fn targets(&self) -> Vec<String> {
        targets(&self.drives)
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        vec![targets(&self.drives).swap_remove(index)]
    }

    fn series_names(&self) -> Vec<String> {
        series_names(&self.drives, Self::series_of)
    }

    fn steps(&self) -> Vec<String> {
        self.drives.keys().cloned().collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let (name, variant) = self.drives.iter().nth(index).expect("a step is a drive");
        let stop = bench.observer.stop_flag();
        let mut rng = Rng::for_part(bench.seed, "numbers");
        let mut series = Self::series_of(name);
        for (&block_bytes, &in_flight) in self.block_bytes.iter().zip(&self.in_flight) {
            let settings = Settings { block_bytes: to_u32(block_bytes.0), in_flight };
            let (profile, device) = self.probe((name, variant), bench)?;
            let io = on_device(name, device)?;
            let at = (&io, &stop);
            let ratios = outcome_of(name, self.ratios(at, &profile, settings, &mut rng))?;
            for (series, ratio) in series.iter_mut().zip(ratios.into_iter().flatten()) {
                series.points.push((block_bytes.0 as f64, ratio));
            }
        }
        Ok(series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::beyond::{plain_drives, values_of};

    fn small() -> Predictions {
        Predictions {
            drives: plain_drives(&["optane-like"]),
            capacity: ByteCount::mib(64),
            number_count: 131_072,
            list_count: 65_536,
            memory: ByteCount(256 << 10),
            read_count: 100,
            block_bytes: vec![ByteCount(8192)],
            in_flight: vec![1],
            probe_request_bytes: vec![ByteCount(8192)],
            probe_request_count: 100,
            queue_depths: vec![1, 2],
        }
    }

    #[test]
    fn what_a_drive_without_memory_takes_is_foreseen() {
        let found = values_of(&small(), 0, 8192.0);
        for operation in OPERATIONS {
            for name in [operation.to_owned(), format!("{operation}_blocks")] {
                let ratio = found[&format!("optane-like.{name}")];
                assert!((0.8..1.25).contains(&ratio), "{name}: {found:?}");
            }
        }
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let refused = |kind: Predictions| kind.check().unwrap_err();
        let blocks = Predictions { block_bytes: vec![ByteCount(100)], ..small() };
        assert!(refused(blocks).contains("block_bytes"));
        assert!(refused(Predictions { in_flight: vec![1, 2], ..small() }).contains("in_flight"));
        assert!(refused(Predictions { queue_depths: vec![0], ..small() }).contains("depths"));
        let sizes = Predictions { probe_request_bytes: vec![], ..small() };
        assert!(refused(sizes).contains("probe_request_bytes"));
        assert!(refused(Predictions { list_count: 1 << 50, ..small() }).contains("capacity"));
    }
}
