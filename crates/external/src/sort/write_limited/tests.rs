//! Sorts of all kinds beside a sort in memory; their blocks beside a count of passes and merges that
//! knows no data.

use super::*;
use crate::testing::{GRANT_BYTES, faulty_io, read_all, store};
use crate::{By, Grant, Natural, Settings};
use nandu_base::Rng;
use nandu_device::FaultPlan;
use proptest::prelude::*;

type Pair = (u64, u32);

const BLOCK: u64 = 512;
const PER_BLOCK: u64 = (BLOCK - 8) / 12;
const RECORD_BYTES: u64 = size_of::<Pair>() as u64;

fn kinds() -> impl Strategy<Value = SortKind> {
    prop_oneof![
        Just(SortKind::Merge),
        Just(SortKind::Selection),
        (0_u64..20_000).prop_map(|weight| SortKind::Lazy { write_weight_thousandths: weight }),
        (0_u64..=1100).prop_map(|part| SortKind::Segment { merged_thousandths: part }),
    ]
}

/// Blocks that a merge sort of so much memory writes, and reads again (as told in the head of the sort).
fn merged(count: u64, bytes: u64, in_flight: u64) -> u64 {
    let blocks = bytes / BLOCK;
    let w = in_flight.min(blocks / 5);
    let pieces = if blocks < 64 { 1 } else { 3 };
    let per_run = (bytes - (1 + w) * BLOCK) / RECORD_BYTES / pieces;
    if count <= pieces * per_run {
        return 0;
    }
    let mut runs = vec![per_run; usize::try_from(count / per_run).unwrap()];
    runs.extend((!count.is_multiple_of(per_run)).then_some(count % per_run));
    let mut written: u64 = runs.iter().map(|run| run.div_ceil(PER_BLOCK)).sum();
    let (fan_in, last) = (blocks - 1 - 2 * w, blocks - w);
    while runs.len() as u64 > last {
        runs.sort_unstable();
        let too_many = runs.len() as u64 - last;
        let taken = match too_many % (fan_in - 1) {
            0 => fan_in,
            rest => rest + 1,
        };
        let run: u64 = runs.drain(..usize::try_from(taken).unwrap()).sum();
        written += run.div_ceil(PER_BLOCK);
        runs.push(run);
    }
    written
}

/// Reads and writes, as the table in the head of the module has them.
fn expected(kind: SortKind, count: u64, bytes: u64, in_flight: u64) -> (u64, u64) {
    let blocks_of = |records: u64| records.div_ceil(PER_BLOCK);
    match kind {
        SortKind::Merge => {
            let written = merged(count, bytes, in_flight);
            (blocks_of(count) + written, written)
        }
        SortKind::Selection => {
            let passes = count.div_ceil(bytes / RECORD_BYTES);
            (passes * blocks_of(count), 0)
        }
        SortKind::Lazy { write_weight_thousandths } => {
            let w = in_flight.min(bytes / BLOCK / 5);
            let m = (bytes - (1 + w) * BLOCK) / RECORD_BYTES;
            let (mut source, mut reads, mut writes) = (count, 0, 0);
            'sources: while source > 0 {
                let passes = source.div_ceil(m);
                for pass in 1..=passes {
                    reads += blocks_of(source);
                    let rest = source.saturating_sub(pass * m);
                    if rest > 0
                        && m * pass * (pass + 1) / 2 * 1000 >= write_weight_thousandths * rest
                    {
                        writes += blocks_of(rest);
                        source = rest;
                        continue 'sources;
                    }
                }
                source = 0;
            }
            (reads, writes)
        }
        SortKind::Segment { merged_thousandths } => {
            let first = match merged_thousandths {
                1000.. => return expected(SortKind::Merge, count, bytes, in_flight),
                part => count * part / 1000 / PER_BLOCK * PER_BLOCK,
            };
            match (first, count - first) {
                (0, _) if count == 0 => (0, 0),
                (0, _) => expected(SortKind::Selection, count, bytes, in_flight),
                (_, 0) => expected(SortKind::Merge, count, bytes, in_flight),
                (_, rest) => {
                    let of = |eighths: u64| merged(first, bytes / 8 * eighths, in_flight);
                    let fits = |eighths: &u64| bytes / 8 * eighths >= 3 * BLOCK;
                    let least = (1..=7).filter(fits).map(of).min().unwrap();
                    let is_enough = |eighths: &u64| of(*eighths) <= least + least / 16;
                    let eighths = (1..=7).filter(fits).find(is_enough).unwrap();
                    let written = of(eighths);
                    let passes = rest.div_ceil((bytes - bytes / 8 * eighths) / RECORD_BYTES);
                    (blocks_of(first) + written + passes * blocks_of(rest), written)
                }
            }
        }
    }
}

fn vector_of(store: &Store, records: &[Pair]) -> Vector<Pair> {
    let mut writer = Vector::writer_of(store, records.len() as u64).unwrap();
    records.iter().for_each(|&record| writer.push(record).unwrap());
    writer.finish().unwrap()
}

fn collect<S: RecordStream>(mut stream: S) -> Vec<S::Record> {
    let mut records = Vec::new();
    while let Some(record) = stream.next_record().unwrap() {
        records.push(record);
    }
    assert_eq!(stream.next_record(), Ok(None));
    records
}

proptest! {
    #[test]
    fn every_kind_gives_what_a_sort_in_memory_gives_and_moves_what_it_says(
        kind in kinds(), count in 0_u64..3000, memory_blocks in 6_u64..40, odd in 0_u64..512,
        key_count in 1_u64..5000, shape in 0_u8..3, volumes in 1_usize..3, in_flight in 0_u32..4, seed: u64,
    ) {
        let store = store(512, volumes, in_flight);
        let mut rng = Rng::new(seed);
        // Some records are equal as a whole.
        let mut records: Vec<Pair> =
            (0..count).map(|n| (rng.below(key_count), u32::try_from(n % 7).unwrap())).collect();
        match shape {
            0 => {}
            1 => records.sort_unstable(),
            _ => records.sort_unstable_by(|left, right| right.cmp(left)),
        }
        let vector = vector_of(&store, &records);
        let bytes = memory_blocks * BLOCK + odd;
        let before = store.counts();
        let moved = kind.moved_blocks::<Pair>(&store, count, bytes).unwrap();
        let stream = kind.sort(vector, Natural, bytes).unwrap();
        prop_assert_eq!(stream.left_count(), Some(count));
        let sorted = collect(stream);
        records.sort_unstable();
        prop_assert_eq!(sorted, records);
        let counts = store.counts().since(&before);
        let found = (counts.read_blocks, counts.write_blocks);
        prop_assert_eq!(found, expected(kind, count, bytes, u64::from(in_flight)));
        prop_assert_eq!(found, (moved.read_count, moved.write_count));
        let scanner_bytes = (u64::from(in_flight) + 1) * BLOCK;
        prop_assert!(store.grant().peak_bytes() <= bytes + scanner_bytes);
        prop_assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, GRANT_BYTES));
        store.audit();
    }

    #[test]
    fn every_kind_sorts_by_a_key(kind in kinds(), count in 0_u64..1500, seed: u64) {
        let store = store(512, 1, 1);
        let mut rng = Rng::new(seed);
        let records: Vec<Pair> =
            (0..count).map(|_| (rng.below(50), u32::try_from(rng.below(9)).unwrap())).collect();
        let order = By(|record: &Pair| record.1 % 4);
        let sorted = collect(kind.sort(vector_of(&store, &records), order, 6 * BLOCK).unwrap());
        let mut expected = records;
        expected.sort_unstable_by_key(|&record| (record.1 % 4, record));
        prop_assert_eq!(sorted, expected);
    }

    #[test]
    fn the_cheapest_kind_is_the_cheapest(
        count in 0_u64..200_000, memory_blocks in 3_u64..400, weight in 0_u64..30_000,
    ) {
        let store = store(512, 1, 2);
        let bytes = memory_blocks * BLOCK;
        let (kind, moved) = SortKind::cheapest::<Pair>(&store, count, bytes, weight).unwrap();
        prop_assert_eq!(kind.moved_blocks::<Pair>(&store, count, bytes).unwrap(), moved);
        for other in [
            SortKind::Merge,
            SortKind::Selection,
            SortKind::Lazy { write_weight_thousandths: weight },
            SortKind::Segment { merged_thousandths: 500 },
        ] {
            let Ok(of_other) = other.moved_blocks::<Pair>(&store, count, bytes) else { continue };
            prop_assert!(moved.cost_thousandths(weight) <= of_other.cost_thousandths(weight));
        }
    }
}

#[test]
fn writes_that_cost_as_much_as_reads_are_not_worth_sparing() {
    let store = store(512, 1, 2);
    let (count, bytes) = (1 << 20, 400 * BLOCK);
    let kind_at = |weight| SortKind::cheapest::<Pair>(&store, count, bytes, weight).unwrap().0;
    assert_eq!(kind_at(1000), SortKind::Merge);
    // Of twice the memory half is merged, or nothing is written, if writes are dear.
    let twice = 2 * bytes / RECORD_BYTES;
    let (kind, moved) = SortKind::cheapest::<Pair>(&store, twice, bytes, 3000).unwrap();
    assert_eq!((kind, moved.write_count), (SortKind::Selection, 0));
}

#[test]
fn segments_write_less_the_less_is_merged() {
    let store = store(512, 1, 1);
    let moved = |part| {
        let kind = SortKind::Segment { merged_thousandths: part };
        kind.moved_blocks::<Pair>(&store, 100_000, 100 * BLOCK).unwrap()
    };
    let all: Vec<MovedBlocks> = (0..=10).map(|part| moved(100 * part)).collect();
    assert!(all.windows(2).all(|pair| pair[0].write_count < pair[1].write_count), "{all:?}");
    // A little that is merged takes memory from the passes.
    assert!(all[1].read_count > all[0].read_count, "{all:?}");
    assert!(all[1..].windows(2).all(|pair| pair[0].read_count > pair[1].read_count), "{all:?}");
    let merge = SortKind::Merge.moved_blocks::<Pair>(&store, 100_000, 100 * BLOCK).unwrap();
    assert_eq!(all[10], merge);
}

#[test]
fn too_little_memory_is_refused() {
    let store = store(512, 1, 4);
    let refused = |kind: SortKind, bytes| {
        let vector = vector_of(&store, &[(1, 1); 500]);
        kind.sort(vector, Natural, bytes).map(drop).unwrap_err().to_string()
    };
    let lazy = SortKind::Lazy { write_weight_thousandths: 5000 };
    for (kind, bytes) in [(SortKind::Selection, 15), (lazy, 512)] {
        let error = refused(kind, bytes);
        assert!(error.contains("a sort that writes less needs"), "{error}");
    }
    let error = refused(SortKind::Segment { merged_thousandths: 500 }, 3 * BLOCK);
    assert!(error.contains("a sort needs"), "{error}");
    assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, GRANT_BYTES));
}

#[test]
fn a_device_that_fails_anywhere_ends_in_an_error_and_gives_all_back() {
    let mut failed_count = 0;
    let kinds = [
        SortKind::Selection,
        SortKind::Lazy { write_weight_thousandths: 1500 },
        SortKind::Segment { merged_thousandths: 600 },
    ];
    for (kind, request) in
        kinds.into_iter().flat_map(|kind| (0..400).step_by(9).map(move |at| (kind, at)))
    {
        let plan = FaultPlan { fail_requests: vec![request], ..FaultPlan::default() };
        let Ok(io) = faulty_io(1 << 20, plan) else { continue };
        let settings = Settings { block_bytes: 512, in_flight: 2 };
        let io = std::slice::from_ref(&io);
        let Ok(store) = Store::new(io, settings, Grant::new(1 << 20)) else { continue };
        let mut given = Vec::new();
        let mut run = || -> Result<(), ExternalError> {
            let mut writer = Vector::writer(&store)?;
            let mut rng = Rng::new(request);
            (0..3000).try_for_each(|_| writer.push(rng.below(1000)))?;
            let mut stream = kind.sort(writer.finish()?, Natural, 8 * BLOCK)?;
            read_all(&mut stream, &mut given)
        };
        let outcome = run();
        failed_count += u64::from(outcome.is_err());
        assert!(outcome.is_err() || given.len() == 3000);
        assert!(given.is_sorted());
        assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, 1 << 20));
    }
    assert!(failed_count > 80, "{failed_count} runs met a failure");
}
