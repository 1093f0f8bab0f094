//! Sorts beside a sort in memory; their blocks beside a count that knows the method and no data.

use super::*;
use crate::testing::{GRANT_BYTES, faulty_io, memory_io, read_all, store};
use crate::{By, Grant, Natural, Settings};
use nandu_base::Rng;
use nandu_device::FaultPlan;
use nandu_storage::StorageError;
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn collect<S: RecordStream>(mut stream: S) -> Vec<S::Record> {
    let mut records = Vec::new();
    while let Some(record) = stream.next_record().unwrap() {
        records.push(record);
    }
    assert_eq!(stream.next_record(), Ok(None));
    records
}

/// Blocks that a sort writes, which it reads again, each once: runs of full memory, then merges of
/// the smallest, the first of them as small as it may be. From the table in the head of the module.
fn expected_blocks(count: u64, memory: u64, block: u64, in_flight: u64, sizes: (u64, u64)) -> u64 {
    let (record_bytes, record_in_memory) = sizes;
    let blocks = memory / block;
    let w = in_flight.min(blocks / 5);
    let pieces = if blocks < 64 { 1 } else { 3 };
    let per_run = (memory - (1 + w) * block) / record_in_memory / pieces;
    let per_block = (block - 8) / record_bytes;
    if count <= pieces * per_run {
        return 0;
    }
    let mut runs = vec![per_run; usize::try_from(count / per_run).unwrap()];
    runs.extend((!count.is_multiple_of(per_run)).then_some(count % per_run));
    // Runs of a merge in parts have 16 records and more between two fences, in a third of a block.
    let room = block / record_in_memory;
    let is_cut = |runs: u64| room - room / 3 * 2 >= 16 * (runs + 1);
    let by_threads = if blocks >= 64 && is_cut(blocks - w - 8) { 8 } else { 0 };
    let (fan_in, last) = (blocks - 1 - 2 * w - by_threads, blocks - w - by_threads);
    let mut written: u64 = runs.iter().map(|run| run.div_ceil(per_block)).sum();
    while runs.len() as u64 > last {
        runs.sort_unstable();
        // The least number that lets full merges do the rest.
        let rest_is_full =
            |taken: u64| (runs.len() as u64 - (taken - 1) - last).is_multiple_of(fan_in - 1);
        let taken = (2..=fan_in)
            .find(|&taken| runs.len() as u64 - (taken - 1) >= last && rest_is_full(taken));
        let merged = runs.drain(..usize::try_from(taken.unwrap()).unwrap()).sum::<u64>();
        written += merged.div_ceil(per_block);
        runs.push(merged);
    }
    written
}

#[test]
fn a_sort_that_is_stopped_while_it_sorts_in_memory_says_so() {
    for memory_bytes in [16 << 10, 64 << 10] {
        let stop = Arc::new(AtomicBool::new(false));
        let its_stop = Arc::clone(&stop);
        let order = By(move |record: &u64| {
            its_stop.store(true, Ordering::Relaxed);
            *record
        });
        let volumes = [memory_io(1 << 20)];
        let settings = Settings { block_bytes: 512, in_flight: 1 };
        let grant = Grant::new(GRANT_BYTES);
        let store = Store::stoppable(&volumes, settings, grant, stop).unwrap();
        let mut sorter = Sorter::with_bytes(&store, order, memory_bytes).unwrap();
        (0..1000).for_each(|number| sorter.push(number * 7919 % 1009).unwrap());
        assert_eq!(sorter.run_count(), 0);
        assert_eq!(sorter.finish().err(), Some(ExternalError::Cancelled));
    }
}

proptest! {
    #[test]
    fn what_comes_out_is_what_went_in_in_order(
        (count, memory_blocks) in prop_oneof![
            (0_usize..3000, 3_u64..20), (0_usize..12_000, 62_u64..80)
        ],
        key_count in 1_u64..5000, shape in 0_u8..3, odd in 0_u64..512, volumes in 1_usize..3, in_flight in 0_u32..5,
        seed: u64,
    ) {
        let store = store(512, volumes, in_flight);
        let mut rng = Rng::new(seed);
        let mut records: Vec<(u64, u32)> =
            (0..count).map(|n| (rng.below(key_count), u32::try_from(n).unwrap())).collect();
        match shape {
            0 => {}
            1 => records.sort_unstable(),
            _ => records.sort_unstable_by(|left, right| right.cmp(left)),
        }
        let bytes = memory_blocks * 512 + odd;
        let mut sorter = Sorter::with_bytes(&store, Natural, bytes).unwrap();
        records.iter().for_each(|&record| sorter.push(record).unwrap());
        sorter.audit();
        prop_assert_eq!(sorter.len(), count as u64);
        let stream = sorter.finish().unwrap();
        prop_assert_eq!(stream.left_count(), Some(count as u64));
        let sorted = collect(stream);
        records.sort_unstable();
        prop_assert_eq!(sorted, records);
        let sizes = (12, size_of::<(u64, u32)>() as u64);
        let expected = expected_blocks(count as u64, bytes, 512, u64::from(in_flight), sizes);
        let counts = store.counts();
        prop_assert_eq!((counts.write_blocks, counts.read_blocks), (expected, expected));
        prop_assert!(store.grant().peak_bytes() <= bytes);
        prop_assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, GRANT_BYTES));
        store.audit();
    }

    #[test]
    fn an_order_by_a_key_sorts_by_it(values in vec(any::<(u16, u64)>(), 0..500)) {
        let store = store(512, 1, 1);
        let order = By(|record: &(u16, u64)| record.1 % 8);
        let mut sorter = Sorter::with_bytes(&store, order, 2048).unwrap();
        values.iter().for_each(|&value| sorter.push(value).unwrap());
        let mut expected = values;
        expected.sort_unstable_by_key(|&record| (record.1 % 8, record));
        prop_assert_eq!(collect(sorter.finish().unwrap()), expected);
    }
}

#[test]
fn a_sort_of_ten_times_the_memory_reads_and_writes_twice() {
    // As in table 2.1: runs are written and merged once, the input and the result are vectors.
    let store = store(4096, 1, 2);
    let mut rng = Rng::new(7);
    let mut writer = Vector::writer(&store).unwrap();
    let memory = 64 * 4096;
    let count = 10 * memory / 8;
    (0..count).for_each(|_| writer.push(rng.next_u64()).unwrap());
    let input = writer.finish().unwrap();
    let (before, blocks) = (store.counts(), input.block_count());
    let sorted = sort(input, Natural, memory).unwrap().store_in(&store).unwrap();
    let counts = store.counts().since(&before);
    let runs = count.div_ceil((memory - 3 * 4096) / 8 / 3);
    assert!((2 * blocks..2 * blocks + runs).contains(&counts.read_blocks), "{counts:?}");
    assert_eq!(counts.read_blocks, counts.write_blocks);
    // The input's room went to the runs, theirs to nobody: it comes free here and there.
    assert!(store.peak_blocks() <= 2 * blocks + blocks / 4, "{} of {blocks}", store.peak_blocks());
    assert_eq!(sorted.len(), count);
}

#[test]
fn merges_in_between_take_as_much_room_again_at_most() {
    // From runs that the last merge takes to those of which each is merged twice before.
    for count in [5_000_u64, 9_000, 12_000, 20_000, 40_000] {
        let store = store(512, 1, 1);
        let mut sorter = Sorter::with_bytes(&store, Natural, 12 * 512).unwrap();
        let mut rng = Rng::new(count);
        (0..count).for_each(|_| sorter.push(rng.next_u64()).unwrap());
        let mut stream = sorter.finish().unwrap();
        while stream.next_record().unwrap().is_some() {}
        let (peak, data) = (store.peak_blocks(), count.div_ceil(63));
        // Blocks of runs that are read come free in pieces, which a long result does not use.
        assert!((data..=2 * data).contains(&peak), "{peak} for {data}");
    }
}

#[test]
fn a_sorter_is_used_again() {
    let store = store(512, 1, 1);
    let mut sorter = Sorter::with_bytes(&store, Natural, 4096).unwrap();
    for count in [100_u64, 3000, 0, 10, 400, 5] {
        (0..count).for_each(|n| sorter.push(count - n).unwrap());
        let mut stream = sorter.finish().unwrap();
        for n in 0..count {
            assert_eq!(stream.next_record(), Ok(Some(n + 1)));
        }
        assert_eq!(stream.next_record(), Ok(None));
        sorter = stream.into_sorter();
        sorter.audit();
        assert!(sorter.is_empty() && store.used_blocks() == 0);
        assert_eq!(store.grant().free_bytes(), GRANT_BYTES - 4096);
    }
    // Also with memory in pieces: one of them, all of them, more.
    let mut in_pieces = Sorter::with_bytes(&store, Natural, 64 * 512).unwrap();
    for count in [100_u64, 4000, 20_000, 3000, 0, 5] {
        (0..count).for_each(|n| in_pieces.push(count - n).unwrap());
        in_pieces.audit();
        let mut stream = in_pieces.finish().unwrap();
        assert!((0..count).all(|n| stream.next_record() == Ok(Some(n + 1))));
        in_pieces = stream.into_sorter();
        in_pieces.audit();
    }
    drop(in_pieces);
    // Also one of which not all was taken.
    (0..3000).for_each(|n| sorter.push(n).unwrap());
    assert_eq!(sorter.finish().unwrap().into_sorter().len(), 0);
    assert_eq!(store.used_blocks(), 0);
}

#[test]
fn too_little_memory_is_refused() {
    let store = store(512, 1, 4);
    let error = Sorter::<u64, _>::with_bytes(&store, Natural, 1535).unwrap_err();
    assert!(error.to_string().contains("a sort needs"), "{error}");
    assert!(Sorter::<u64, _>::with_bytes(&store, Natural, 3 * 512).is_ok());
    assert!(Sorter::<[u8; 600], _>::with_bytes(&store, Natural, 4096).is_err());
}

#[test]
fn a_full_volume_ends_a_sort_and_gives_its_room_back() {
    let io = memory_io(64 << 10);
    let settings = Settings { block_bytes: 512, in_flight: 2 };
    let store = Store::new(std::slice::from_ref(&io), settings, Grant::new(1 << 20)).unwrap();
    let mut sorter = Sorter::with_bytes(&store, Natural, 4096).unwrap();
    let error = (0..1 << 20).find_map(|n: u64| sorter.push(n).err()).unwrap();
    assert!(matches!(error, ExternalError::Storage(StorageError::NoSpace { .. })), "{error}");
    assert_eq!(sorter.push(1), Err(error.clone()));
    assert_eq!(sorter.finish().map(drop), Err(error));
    assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, 1 << 20));
}

#[test]
fn requests_do_not_depend_on_when_a_thread_is_done() {
    /// Takes longer for some records than for others.
    fn slow_key(record: &u64, is_slow: bool) -> u64 {
        if is_slow && record.is_multiple_of(64) {
            std::thread::yield_now();
        }
        *record
    }
    let traces: Vec<_> = [false, true, false]
        .into_iter()
        .map(|is_slow| {
            let store = store(512, 2, 3);
            let order = By(move |record: &u64| slow_key(record, is_slow));
            let mut sorter = Sorter::with_bytes(&store, order, 64 * 512).unwrap();
            let mut rng = Rng::new(1);
            let mut counts = Vec::new();
            for _ in 0..15_000 {
                sorter.push(rng.next_u64()).unwrap();
                counts.push((store.counts(), store.now()));
            }
            let mut stream = sorter.finish().unwrap();
            while stream.next_record().unwrap().is_some() {
                counts.push((store.counts(), store.now()));
            }
            counts
        })
        .collect();
    assert!(traces[0] == traces[1] && traces[1] == traces[2]);
    // A run goes out a block at a time, while the next piece comes in.
    let written: Vec<u64> =
        traces[0][..15_000].iter().map(|(counts, _)| counts.write_blocks).collect();
    let quiet = written.windows(2).filter(|pair| pair[0] == pair[1]).count();
    let most = written.windows(2).skip(5000).map(|pair| pair[1] - pair[0]).max();
    assert!(quiet > 14_000 && most <= Some(5), "{quiet}, {most:?}");
}

#[test]
fn a_device_that_fails_anywhere_ends_a_sort_in_an_error() {
    let mut failed_count = 0;
    // Merged alone, in one piece and in pieces; and in parts.
    let ways = [(9000, 512, 5), (9000, 512, 64), (200_000, 8192, 64)];
    for (request, (count, block_bytes, blocks)) in (0..400).step_by(7).zip(ways.into_iter().cycle())
    {
        let plan = FaultPlan { fail_requests: vec![request], ..FaultPlan::default() };
        let Ok(io) = faulty_io(8 << 20, plan) else { continue };
        let settings = Settings { block_bytes, in_flight: 2 };
        let Ok(store) = Store::new(std::slice::from_ref(&io), settings, Grant::new(1 << 20)) else {
            continue;
        };
        let mut given = Vec::new();
        let mut run = || -> Result<(), ExternalError> {
            let bytes = blocks * u64::from(block_bytes);
            let mut sorter = Sorter::with_bytes(&store, Natural, bytes)?;
            let mut rng = Rng::new(request);
            (0..count).try_for_each(|_| sorter.push(rng.below(1000)))?;
            let mut stream = sorter.finish()?;
            read_all(&mut stream, &mut given)
        };
        let outcome = run();
        failed_count += u64::from(outcome.is_err());
        assert!(outcome.is_err() || given.len() == count);
        assert!(given.is_sorted());
        assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, 1 << 20));
    }
    assert!(failed_count > 40, "{failed_count} runs met a failure");
}
