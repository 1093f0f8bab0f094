//! What the processor takes to sort records of a size, measured before anything is sorted: a few million
//! bytes of random records on a device in memory, in few long runs and in more short ones.
//!
//! ```text
//!   rehearsal, 4 runs  ─► a record that is put in ─┐
//!                      ─► a record of a merge ─────┼─► Processor ──► Work of a phase ──► nanoseconds
//!   rehearsal, 12 runs ─► a record of a merge ─────┘     a line in the logarithm of the runs
//!   rehearsal of a walk ─► an element that a ranking goes past in memory
//!   rehearsal of lookups ─► a list of a search, a neighbour, one held against levels
//! ```
//!
//! 1. Time is what the clock that is given says; nothing else of the machine is looked at.
//! 2. What is rehearsed is the sort itself, with its threads: where it gains by them, so does this.
//! 3. Whatever else the machine does meanwhile, and memory that is touched for the first time, only makes a
//!    rehearsal longer: of some, each figure is that of the shortest.
//! 4. Nothing is known of the records that will be sorted: random ones are no longer or shorter work than
//!    others by much, but where nearly all keys are alike.

use crate::graph::Lookups;
use crate::list_ranking::Division;
use crate::sort::bytes::{ByteSorter, KeyKind, KeyLayout, sorted_bytes};
use crate::{ExternalError, Grant, Settings, Store};
use nandu_base::{Nanos, Rng, to_index};
use nandu_device::{Geometry, MemoryConfig, MemoryDevice};
use nandu_storage::volume::{DeviceVolume, Io};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Bytes of the records of a rehearsal.
const REHEARSED_BYTES: u64 = 24 << 20;
/// In how many runs they are sorted.
const RUN_COUNTS: [u64; 2] = [4, 12];
/// How often, each.
const REHEARSAL_COUNT: usize = 3;
/// What they are moved in; a run has two megabytes and more.
const BLOCK_BYTES: u32 = 64 << 10;
/// Pieces into which a sort divides memory of so much, and blocks by which it writes.
const PIECE_COUNT: u64 = 3;
const WRITE_BLOCKS: u64 = 5;
/// Memory of a rehearsal of lookups, more than its streams and levels take.
const LOOKUP_BLOCKS: u64 = 64;
/// Bytes that are put in or taken out between two looks at the clock.
const BATCH_BYTES: usize = 256 << 10;
const KEY_BYTES_MAX: usize = 8;

/// What the processor does in a phase, beside whatever the device does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Records that are put into a sorter, and written as runs.
    pub put_in_count: u64,
    /// Records that come out of merges.
    pub merged_count: u64,
    /// For each of these the logarithm to the base two of how many runs its merge has, added up.
    pub merged_levels: f64,
    /// Elements of a list that a walk in memory goes past.
    pub walked_count: u64,
    /// Lists of neighbours that are looked up.
    pub list_count: u64,
    /// Neighbours that are read from them.
    pub neighbour_count: u64,
    /// Sorted neighbours that are held against two levels.
    pub told_count: u64,
    /// Bytes that come from a file.
    pub read_bytes: u64,
    /// Bytes that go to one.
    pub written_bytes: u64,
}

/// What the processor takes, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Processor {
    /// A record that is put in.
    pub put_in_ps: f64,
    /// A record that comes out of a merge.
    pub merged_ps: f64,
    /// The same for each level of the merge's tree.
    pub level_ps: f64,
    /// An element that a walk goes past, where that was measured.
    pub walked_ps: f64,
    /// A list that is looked up, where that was measured.
    pub list_ps: f64,
    /// A neighbour that is read from one, where that was measured.
    pub neighbour_ps: f64,
    /// A neighbour that is held against two levels, where that was measured.
    pub told_ps: f64,
    /// A byte that is read from a file in the system's memory.
    pub read_byte_ps: f64,
    /// A byte that is written to such a file.
    pub written_byte_ps: f64,
}

impl Work {
    /// Records that come out of a merge of so many runs; of one or none they are read in order.
    #[must_use]
    pub fn merged(count: u64, run_count: u64) -> Self {
        let merged_levels = count as f64 * (run_count.max(1) as f64).log2();
        Self { merged_count: count, merged_levels, ..Self::default() }
    }

    /// So many elements are walked past.
    #[must_use]
    pub fn walked(count: u64) -> Self {
        Self { walked_count: count, ..Self::default() }
    }

    /// So many lists are looked up, which have so many neighbours together.
    #[must_use]
    pub fn looked_up(list_count: u64, neighbour_count: u64) -> Self {
        Self { list_count, neighbour_count, ..Self::default() }
    }

    /// So many sorted neighbours are held against two levels.
    #[must_use]
    pub fn told(count: u64) -> Self {
        Self { told_count: count, ..Self::default() }
    }

    /// What both are together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            put_in_count: self.put_in_count.saturating_add(other.put_in_count),
            merged_count: self.merged_count.saturating_add(other.merged_count),
            merged_levels: self.merged_levels + other.merged_levels,
            walked_count: self.walked_count.saturating_add(other.walked_count),
            list_count: self.list_count.saturating_add(other.list_count),
            neighbour_count: self.neighbour_count.saturating_add(other.neighbour_count),
            told_count: self.told_count.saturating_add(other.told_count),
            read_bytes: self.read_bytes.saturating_add(other.read_bytes),
            written_bytes: self.written_bytes.saturating_add(other.written_bytes),
        }
    }
}

impl Processor {
    /// Measures what records of `record_bytes` take, by `clock`. What files take is not measured.
    ///
    /// # Errors
    /// If there is no sort of such records, or `stop` is set.
    pub fn measure(
        record_bytes: usize,
        clock: &dyn Fn() -> Nanos,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, ExternalError> {
        let mut rehearsed = [Rehearsed::UNKNOWN; RUN_COUNTS.len()];
        for _ in 0..REHEARSAL_COUNT {
            for (shortest, run_count) in rehearsed.iter_mut().zip(RUN_COUNTS) {
                *shortest = shortest.or_shorter(rehearse(record_bytes, run_count, clock, stop)?);
            }
        }
        let [few, many] = rehearsed;
        let [few_levels, many_levels] = rehearsed.map(|it| (it.run_count.max(2) as f64).log2());
        let level_ps = (many.merged_ps - few.merged_ps) / (many_levels - few_levels).max(1.0);
        let level_ps = level_ps.max(0.0);
        Ok(Self {
            put_in_ps: f64::midpoint(few.put_in_ps, many.put_in_ps),
            merged_ps: (few.merged_ps - level_ps * few_levels).max(0.0),
            level_ps,
            ..Self::default()
        })
    }

    /// The same with the walk by which [`rank`](crate::list_ranking::rank) of a list of `count` elements
    /// ends within `bytes` of memory, measured by `clock`: some of it is walked, over a list that jumps
    /// about in as much memory, 64 MiB of it at most.
    ///
    /// # Errors
    /// If memory is too little for a ranking, or the store is to stop.
    pub fn with_walk(
        self,
        (store, count, bytes): (&Store, u64, u64),
        clock: &dyn Fn() -> Nanos,
    ) -> Result<Self, ExternalError> {
        let division = Division::new(store, bytes)?;
        Ok(Self { walked_ps: division.rehearse_walk(store, count, clock)?, ..self })
    }

    /// The same with lists of neighbours that a search of Munagala and Ranade looks up and with neighbours
    /// that it holds against two levels, measured by `clock` over others in memory.
    ///
    /// # Errors
    /// If `stop` is set.
    pub fn with_lookups(
        self,
        clock: &dyn Fn() -> Nanos,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, ExternalError> {
        let grant = Grant::new(LOOKUP_BLOCKS * u64::from(BLOCK_BYTES));
        let settings = Settings { block_bytes: BLOCK_BYTES, in_flight: 4 };
        let store = Store::stoppable(&[in_memory()?], settings, grant, Arc::clone(stop))?;
        let Lookups { list_ps, neighbour_ps, told_ps } = Lookups::measure(&store, clock)?;
        Ok(Self { list_ps, neighbour_ps, told_ps, ..self })
    }

    /// How long it takes for that.
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast ends at the ends of the range, and times are not negative"
    )]
    pub fn time_ns(&self, work: &Work) -> u64 {
        let picoseconds = self.put_in_ps * work.put_in_count as f64
            + self.merged_ps * work.merged_count as f64
            + self.level_ps * work.merged_levels
            + self.walked_ps * work.walked_count as f64
            + self.list_ps * work.list_count as f64
            + self.neighbour_ps * work.neighbour_count as f64
            + self.told_ps * work.told_count as f64
            + self.read_byte_ps * work.read_bytes as f64
            + self.written_byte_ps * work.written_bytes as f64;
        (picoseconds / 1e3).round() as u64
    }
}

/// What a rehearsal took, for each record.
#[derive(Clone, Copy, Debug)]
struct Rehearsed {
    run_count: u64,
    put_in_ps: f64,
    merged_ps: f64,
}

impl Rehearsed {
    /// Longer than any.
    const UNKNOWN: Self = Self { run_count: 0, put_in_ps: f64::INFINITY, merged_ps: f64::INFINITY };

    /// What is shorter in either of two rehearsals of the same.
    fn or_shorter(self, other: Self) -> Self {
        Self {
            run_count: other.run_count,
            put_in_ps: self.put_in_ps.min(other.put_in_ps),
            merged_ps: self.merged_ps.min(other.merged_ps),
        }
    }
}

/// Sorts random records in about so many runs.
fn rehearse(
    record_bytes: usize,
    run_count: u64,
    clock: &dyn Fn() -> Nanos,
    stop: &Arc<AtomicBool>,
) -> Result<Rehearsed, ExternalError> {
    let block_bytes = u64::from(BLOCK_BYTES);
    let memory_bytes = (REHEARSED_BYTES / run_count * PIECE_COUNT).next_multiple_of(block_bytes)
        + WRITE_BLOCKS * block_bytes;
    let settings = Settings { block_bytes: BLOCK_BYTES, in_flight: 4 };
    let grant = Grant::new(memory_bytes);
    let store = Store::stoppable(&[in_memory()?], settings, grant, Arc::clone(stop))?;
    let key = KeyLayout { start: 0, bytes: record_bytes.min(KEY_BYTES_MAX), kind: KeyKind::Bytes };
    let mut sorter = ByteSorter::with_bytes(&store, record_bytes, key, memory_bytes)?;
    let count = REHEARSED_BYTES / sorted_bytes(record_bytes)? as u64;
    let mut batch = vec![0; (BATCH_BYTES / record_bytes).max(1) * record_bytes];
    let (mut rng, mut put_in_ns, mut left) = (Rng::new(1), 0, count);
    while left > 0 {
        let its_count = left.min((batch.len() / record_bytes) as u64);
        let records = &mut batch[..to_index(its_count) * record_bytes];
        rng.fill(records);
        left -= its_count;
        let begin = clock();
        sorter.push_all(records)?;
        put_in_ns += clock().saturating_sub(begin).0;
    }
    let begin = clock();
    let (mut all_put_in, mut runs) = (begin, 0);
    let mut sorted = sorter.finish_watched(|its_runs| {
        (all_put_in, runs) = (clock(), its_runs.run_count() as u64);
        Ok::<(), ExternalError>(())
    })?;
    while sorted.read(&mut batch)? > 0 {
        store.check_stop()?;
    }
    put_in_ns += all_put_in.saturating_sub(begin).0;
    let merged_ns = clock().saturating_sub(all_put_in).0;
    let each_ps = |nanos: u64| nanos as f64 * 1e3 / count.max(1) as f64;
    let (put_in_ps, merged_ps) = (each_ps(put_in_ns), each_ps(merged_ns));
    Ok(Rehearsed { run_count: runs, put_in_ps, merged_ps })
}

/// A volume of twice the records' bytes.
fn in_memory() -> Result<Io, ExternalError> {
    let geometry = Geometry { sector_bytes: 512, sector_count: 2 * REHEARSED_BYTES / 512 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let volume = DeviceVolume::format(Box::new(device))?;
    Ok(Io::new(Box::new(volume), Arc::new(AtomicU64::new(0))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ticking_clock;
    use std::sync::atomic::Ordering;

    #[test]
    fn times_are_those_of_the_clock_that_is_given() {
        let clock = ticking_clock();
        let processor = Processor::measure(1000, &clock, &Arc::default()).unwrap();
        let count = REHEARSED_BYTES / 1024;
        let batches = count.div_ceil(BATCH_BYTES as u64 / 1000);
        // A look before and behind each batch; one more until the runs are written, one for the merge.
        let each_ps = |looks: u64| looks as f64 * 1e9 / count as f64;
        assert_eq!(processor.put_in_ps, each_ps(batches + 1));
        assert_eq!((processor.merged_ps, processor.level_ps), (each_ps(1), 0.0));
        let work = Work { put_in_count: count, ..Work::merged(count, 8) };
        assert_eq!(processor.time_ns(&work), (batches + 2) * 1_000_000);
    }

    #[test]
    fn a_rehearsal_that_was_disturbed_does_not_count() {
        let looks = std::cell::Cell::new(0_u64);
        // All of the first round takes five times as long.
        let disturbed_looks = 2 * (2 * (REHEARSED_BYTES / 1024).div_ceil(262) + 3);
        let now = std::cell::Cell::new(0_u64);
        let clock = || {
            looks.set(looks.get() + 1);
            let tick = if looks.get() <= disturbed_looks { 5_000_000 } else { 1_000_000 };
            now.set(now.get() + tick);
            Nanos(now.get())
        };
        let processor = Processor::measure(1000, &clock, &Arc::default()).unwrap();
        let quiet = Processor::measure(1000, &ticking_clock(), &Arc::default()).unwrap();
        assert!(looks.get() > disturbed_looks);
        assert_eq!(processor, quiet);
    }

    #[test]
    fn work_takes_what_its_parts_take() {
        let processor = Processor {
            put_in_ps: 30_000.0,
            merged_ps: 20_000.0,
            level_ps: 5000.0,
            walked_ps: 150_000.0,
            list_ps: 60_000.0,
            neighbour_ps: 7000.0,
            told_ps: 11_000.0,
            read_byte_ps: 100.0,
            written_byte_ps: 500.0,
        };
        let put_in = Work { put_in_count: 1000, read_bytes: 16_000, ..Work::default() };
        let merged = Work { written_bytes: 16_000, ..Work::merged(1000, 16) };
        assert_eq!(processor.time_ns(&put_in), 30_000 + 1600);
        assert_eq!(processor.time_ns(&merged), 20_000 + 4 * 5000 + 8000);
        assert_eq!(processor.time_ns(&put_in.and(merged)), 30_000 + 1600 + 48_000);
        let walked = Work::walked(1000).and(Work::walked(200));
        assert_eq!(processor.time_ns(&walked), 1200 * 150);
        let looked_up = Work::looked_up(100, 800).and(Work::looked_up(10, 20));
        assert_eq!(processor.time_ns(&looked_up), 110 * 60 + 820 * 7);
        assert_eq!(processor.time_ns(&Work::told(30).and(Work::told(3))), 33 * 11);
    }

    #[test]
    fn a_measurement_is_stopped() {
        let stop = Arc::new(AtomicBool::new(false));
        stop.store(true, Ordering::Relaxed);
        let stopped = Processor::measure(16, &|| Nanos(0), &stop);
        assert_eq!(stopped, Err(ExternalError::Cancelled));
    }

    #[test]
    fn lookups_are_measured_beside_what_is_known() {
        let sorting = Processor { put_in_ps: 7.0, walked_ps: 3.0, ..Processor::default() };
        let processor = sorting.with_lookups(&ticking_clock(), &Arc::default()).unwrap();
        assert!(processor.neighbour_ps > 900.0 && processor.told_ps > 900.0, "{processor:?}");
        assert_eq!(
            Processor { neighbour_ps: 0.0, told_ps: 0.0, list_ps: 0.0, ..processor },
            sorting
        );
        let stopped = sorting.with_lookups(&|| Nanos(0), &Arc::new(AtomicBool::new(true)));
        assert_eq!(stopped, Err(ExternalError::Cancelled));
    }

    #[test]
    fn a_walk_is_measured_in_memory_of_either_kind() {
        let clock = ticking_clock();
        let settings = Settings { block_bytes: 4096, in_flight: 1 };
        let store = Store::new(&[in_memory().unwrap()], settings, Grant::new(1 << 20)).unwrap();
        // Words of 10 000 elements fit; of a million as many arcs are walked as fit into a third or so.
        for (count, step_count) in [(10_000, 8192), (1_000_000, 16_384)] {
            let walk = (&store, count, 1 << 20);
            let processor = Processor::default().with_walk(walk, &clock).unwrap();
            assert_eq!(processor.walked_ps, 1e9 / f64::from(step_count), "{count}");
        }
        let too_little = Processor::default().with_walk((&store, 1000, 4096), &clock);
        assert!(matches!(too_little, Err(ExternalError::TooLittleMemory { .. })));
    }
}
