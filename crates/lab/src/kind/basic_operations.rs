//! Basic algorithms beyond memory: S002 chapter 2, table 2.1 and its list ranking.
//!
//! Numbers of eight bytes are written, scanned and sorted; of the sorted ones some are read anywhere,
//! and some are searched by halves. A list in random order is ranked by a walk that pages it in, and
//! in external memory. One step for each drive, with series of one point at 0:
//!
//! - `DRIVE.write_us`, `DRIVE.scan_us`, `DRIVE.sort_us`: for each number;
//! - `DRIVE.random_read_ms`, `DRIVE.search_ms`: for each read and each search;
//! - `DRIVE.rank_paged_us`, `DRIVE.rank_external_us`: for each element of the list.
//!
//! 1. The sorted numbers have the sum of those that were written; both rankings are that of a walk in
//!    memory.
//! 2. Large blocks serve what is read and written in order, small ones what is read anywhere.

use super::Measurement;
use super::bench::Bench;
use super::beyond::{check_drives, is_block, outcome_of, volumes};
use super::drive::{Drives, series_names, targets};
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::{ByteCount, Nanos, Permutation, Rng, to_index, to_u32};
use nandu_external::basic::{measure, merge_sort, read_random, scan, search, write_random};
use nandu_external::list_ranking::{END, rank, rank_in_memory, rank_paged};
use nandu_external::{ExternalError, Grant, Io, RecordStream, Settings, Store, Vector};
use nandu_probe::text;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The series of a drive, with the unit of each.
const SERIES: [(&str, &str); 7] = [
    ("write_us", "us"),
    ("scan_us", "us"),
    ("sort_us", "us"),
    ("random_read_ms", "ms"),
    ("search_ms", "ms"),
    ("rank_paged_us", "us"),
    ("rank_external_us", "us"),
];

/// The keys of an experiment of the kind `basic_operations`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BasicOperations {
    /// The drives that are measured.
    pub drives: Drives,
    /// Capacity that each is scaled to.
    #[serde(deserialize_with = "text::size")]
    pub capacity: ByteCount,
    /// Numbers that are written, scanned, sorted and searched.
    pub number_count: u64,
    /// Memory of a sort.
    #[serde(deserialize_with = "text::size")]
    pub memory: ByteCount,
    /// A block of what is read and written in order.
    #[serde(deserialize_with = "text::size")]
    pub stream_block_bytes: ByteCount,
    /// A block of what is read anywhere.
    #[serde(deserialize_with = "text::size")]
    pub random_block_bytes: ByteCount,
    /// Requests that a stream has in flight beside its block at hand.
    pub in_flight: u32,
    /// Small blocks that stay in memory while numbers are read anywhere and searched.
    pub frame_count: u32,
    /// Numbers that are read anywhere.
    pub read_count: u64,
    /// Numbers that are searched.
    pub search_count: u64,
    /// A block of what a ranking beyond memory reads and writes.
    #[serde(deserialize_with = "text::size")]
    pub list_block_bytes: ByteCount,
    /// Elements of the list.
    pub list_count: u64,
    /// Memory of a ranking; the walk has as much of it for small blocks.
    #[serde(deserialize_with = "text::size")]
    pub list_memory: ByteCount,
}

impl BasicOperations {
    fn series_of(name: &str) -> Vec<Series> {
        SERIES.map(|(what, unit)| Series::new(format!("{name}.{what}"), "", unit)).into()
    }

    fn store(
        &self,
        (io, stop): (&Io, &Arc<AtomicBool>),
        block_bytes: ByteCount,
    ) -> Result<Store, ExternalError> {
        let settings = Settings { block_bytes: to_u32(block_bytes.0), in_flight: self.in_flight };
        let most = self.memory.max(self.list_memory).0;
        let streams = 8 * (u64::from(self.in_flight) + 1) * block_bytes.0;
        let frames = (u64::from(self.frame_count) + 1) * 2 * block_bytes.0;
        let grant = Grant::new(2 * most + streams + frames);
        Store::stoppable(std::slice::from_ref(io), settings, grant, Arc::clone(stop))
    }

    /// Table 2.1: what a number, a read and a search take.
    fn numbers(
        &self,
        at: (&Io, &Arc<AtomicBool>),
        rng: &mut Rng,
    ) -> Result<[f64; 5], ExternalError> {
        let count = self.number_count;
        let streams = self.store(at, self.stream_block_bytes)?;
        let written = measure(&streams, || write_random(&streams, count, rng))?;
        let scanned = measure(&streams, || scan(&written.value))?;
        let sorted = measure(&streams, || merge_sort(written.value, self.memory.0))?;
        assert_eq!(scan(&sorted.value)?, scanned.value, "invariant 1");
        let anywhere = self.store(at, self.random_block_bytes)?;
        let mut writer = Vector::writer_of(&anywhere, count)?;
        let mut scanner = sorted.value.scanner()?;
        while let Some(number) = scanner.next_record()? {
            writer.push(number)?;
        }
        drop(scanner);
        let mut paged = writer.finish()?.paged(self.frame_count)?;
        let read = measure(&anywhere, || read_random(&mut paged, self.read_count, rng))?;
        let mut found = 0;
        let searched = measure(&anywhere, || {
            for _ in 0..self.search_count {
                found += search(&mut paged, rng.next_u64())?;
            }
            Ok(())
        })?;
        assert!(found > 0, "some key has numbers below");
        Ok([
            each(written.elapsed_ns, count, 1e3),
            each(scanned.elapsed_ns, count, 1e3),
            each(sorted.elapsed_ns, count, 1e3),
            each(read.elapsed_ns, self.read_count, 1e6),
            each(searched.elapsed_ns, self.search_count, 1e6),
        ])
    }

    /// What an element of a list takes that a walk pages in, and one that is ranked beyond memory.
    fn lists(&self, at: (&Io, &Arc<AtomicBool>), rng: &mut Rng) -> Result<[f64; 2], ExternalError> {
        let count = self.list_count;
        let order = Permutation::new(count, rng.next_u64());
        let mut successors = vec![END; to_index(count)];
        for place in 1..count {
            successors[to_index(order.apply(place - 1))] = order.apply(place);
        }
        let head = order.apply(0);
        let ranks = rank_in_memory(&successors, head)?;
        let write = |store: &Store| -> Result<Vector<u64>, ExternalError> {
            let mut writer = Vector::writer_of(store, count)?;
            successors.iter().try_for_each(|&successor| writer.push(successor))?;
            writer.finish()
        };
        let anywhere = self.store(at, self.random_block_bytes)?;
        let frames = to_u32(self.list_memory.0 / self.random_block_bytes.0);
        let mut paged = write(&anywhere)?.paged(frames)?;
        let walked = measure(&anywhere, || {
            rank_paged(&mut paged, head, |element, rank| {
                assert_eq!(ranks[to_index(element)], rank, "invariant 1");
            })
        })?;
        assert_eq!(walked.value, count, "invariant 1");
        drop(paged);
        let streams = self.store(at, self.list_block_bytes)?;
        let vector = write(&streams)?;
        let ranked = measure(&streams, || rank(&vector, head, self.list_memory.0, rng))?;
        let mut scanner = ranked.value.scanner()?;
        for rank in ranks {
            assert_eq!(scanner.next_record()?, Some(rank), "invariant 1");
        }
        Ok([each(walked.elapsed_ns, count, 1e3), each(ranked.elapsed_ns, count, 1e3)])
    }
}

/// Of `time`, what one of `count` takes, in units of so many nanoseconds.
fn each(time: Nanos, count: u64, unit_ns: f64) -> f64 {
    time.0 as f64 / count as f64 / unit_ns
}

impl Measurement for BasicOperations {
    fn check(&self) -> Result<(), String> {
        check_drives(&self.drives, self.capacity)?;
        let counts = [self.number_count, self.read_count, self.search_count, self.list_count];
        if counts.contains(&0) || self.frame_count == 0 {
            return Err(
                "counts of numbers, reads, searches, elements and frames must be above 0".into()
            );
        }
        let room = |count: u64| count.checked_mul(40).is_some_and(|bytes| bytes < self.capacity.0);
        if !room(self.number_count) || !room(self.list_count) {
            return Err("`capacity` must have 40 bytes for each number and each element".into());
        }
        let sizes = [self.stream_block_bytes, self.random_block_bytes, self.list_block_bytes];
        if !sizes.iter().all(is_block) {
            return Err("blocks must be of a power of two, from 512 to 16 MiB".into());
        }
        if self.in_flight > 64 {
            return Err("`in_flight` must be 64 at most".into());
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
        let mut rng = Rng::for_part(bench.seed, "numbers");
        let stop = bench.observer.stop_flag();
        let io = volumes(bench, name, &[(name.as_str(), variant)], self.capacity)?.swap_remove(0);
        let numbers = outcome_of(name, self.numbers((&io, &stop), &mut rng))?;
        let lists = outcome_of(name, self.lists((&io, &stop), &mut rng))?;
        let mut series = Self::series_of(name);
        for (series, value) in series.iter_mut().zip(numbers.into_iter().chain(lists)) {
            series.points.push((0.0, value));
        }
        Ok(series)
    }
}
