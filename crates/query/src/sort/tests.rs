//! Sorts against sorting in memory, lengths of runs against Knuth's, and pages against their closed form.

use super::merge::Merge;
use super::runs::Sorted;
use super::{RunFormation, Settings, Sort, SortCounts, form, sort_by_workers};
use crate::relation::{Relation, Rows, TupleStream};
use crate::spill::CHECKSUM_BYTES;
use crate::testing::{RowShape, execution, limits, random_rows};
use crate::tuple::{Tuple, TupleBatch};
use crate::{Execution, Key, Limits, QueryError};
use nandu_base::Rng;
use nandu_storage::sqlite::Value;
use proptest::prelude::*;

const BOTH: [RunFormation; 2] = [RunFormation::ReplacementSelection, RunFormation::Quicksort];

/// Rows with these keys that take as much room each, whatever their number.
fn rows_of(keys: impl Iterator<Item = i64>) -> Rows {
    let mut rows = Rows::new("rows", 1024);
    for key in keys {
        rows.push(&[Value::Integer((1 << 40) + key), Value::Blob(vec![7; 57])]);
    }
    rows
}

/// Rows in each run.
fn run_lengths(rows: &Rows, formation: RunFormation) -> Vec<u64> {
    let execution = execution(limits(1024, 120));
    let key = Key::of(&[0]);
    let settings = Settings { input_pages: 1, output_pages: 1, workspace_pages: 118, formation };
    match form(&execution, (rows, &key), settings, true).unwrap() {
        Sorted::Runs(runs) => runs.iter().map(crate::spill::Bucket::tuple_count).collect(),
        Sorted::Rows(_) => panic!("it does not fit"),
    }
}

#[test]
fn runs_have_the_lengths_that_knuth_gives() {
    let mut rng = Rng::new(5);
    let random = rows_of((0..14_000).map(|_| rng.below(1 << 30).cast_signed()));
    let stored = run_lengths(&random, RunFormation::Quicksort);
    let held = stored[0];
    assert!((1000..=1300).contains(&held), "the work space holds {held} rows");
    let (last, full) = stored.split_last().unwrap();
    assert!(full.iter().all(|&length| length == held) && *last <= held, "{stored:?}");

    // e - 1, e^2 - 2e, then nearly 2.
    let selected = run_lengths(&random, RunFormation::ReplacementSelection);
    for (length, expected) in selected.iter().zip([1.718, 1.952, 1.996, 2.0]) {
        let ratio = *length as f64 / held as f64;
        assert!((ratio - expected).abs() < 0.1, "{ratio} instead of {expected}: {selected:?}");
    }

    let sorted = run_lengths(&rows_of(0..5000), RunFormation::ReplacementSelection);
    assert_eq!(sorted, [5000]);
    let equal = run_lengths(&rows_of((0..5000).map(|_| 3)), RunFormation::ReplacementSelection);
    assert_eq!(equal, [5000]);
    let reversed = rows_of((0..3 * held.cast_signed()).rev());
    let reversed = run_lengths(&reversed, RunFormation::ReplacementSelection);
    assert_eq!(reversed, [held; 3]);
}

/// Key, number and record.
type PlainRow = (Vec<u8>, i64, Vec<u8>);

/// All rows of a sort, by key and then by number.
fn sorted_rows(sort: &mut Sort<'_>, key: &Key) -> Result<Vec<PlainRow>, QueryError> {
    let mut rows = Vec::new();
    while sort.advance()? {
        sort.audit();
        rows.extend(sort.batch().tuples().map(|tuple| described(tuple, key)));
    }
    assert!(rows.iter().is_sorted_by_key(|(bytes, ..)| bytes), "invariant 1");
    rows.sort();
    Ok(rows)
}

fn described(tuple: Tuple<'_>, key: &Key) -> PlainRow {
    let mut bytes = Vec::new();
    key.encode(tuple, &mut bytes).unwrap();
    (bytes, tuple.row_number, tuple.record.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn any_rows_come_in_order_in_any_memory(
        (row_count, key_count, payload_bytes_max) in (0_usize..400, 1_u64..500, 0_u64..1500),
        seed: u64,
        (input_pages, output_pages, workspace_pages) in (1_u32..4, 1_u32..4, 1_u32..60),
        formation in prop_oneof![Just(BOTH[0]), Just(BOTH[1])],
        reads_ahead: bool,
    ) {
        let shape = RowShape {
            row_count, key_count, is_skewed: false, null_percent: 5, payload_bytes_max,
        };
        let rows = random_rows("rows", shape, 512, &mut Rng::new(seed));
        let key = Key::of(&[0]);
        let settings = Settings { input_pages, output_pages, workspace_pages, formation };
        let pages = settings.memory_pages();
        let execution = execution(Limits { reads_ahead, ..limits(512, pages) });
        let io = execution.spill_io().clone();
        let mut sort = Sort::new(&execution, &rows, &key, settings).unwrap();
        let mut expected: Vec<_> = rows.tuples().map(|tuple| described(tuple, &key)).collect();
        expected.sort();
        prop_assert_eq!(sorted_rows(&mut sort, &key).unwrap(), expected);
        prop_assert_eq!(sort.counts().run_count == 0, execution.io_counts().write_bytes == 0);
        drop(sort);
        execution.audit();
        prop_assert_eq!(execution.free_pages(), pages);
        drop(execution);
        prop_assert!(io.files().is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn workers_give_any_rows_in_order_in_any_memory(
        (row_count, key_count, payload_bytes_max) in (0_usize..600, 1_u64..500, 0_u64..1500),
        seed: u64,
        is_skewed: bool,
        wanted_count in 1_usize..6,
        (input_pages, output_pages, workspace_pages) in (1_u32..8, 1_u32..8, 1_u32..300),
        formation in prop_oneof![Just(BOTH[0]), Just(BOTH[1])],
        reads_ahead: bool,
    ) {
        let shape = RowShape { row_count, key_count, is_skewed, null_percent: 5, payload_bytes_max };
        let rows = random_rows("rows", shape, 512, &mut Rng::new(seed));
        let key = Key::of(&[0]);
        let settings = Settings { input_pages, output_pages, workspace_pages, formation };
        let pages = settings.memory_pages();
        let execution = execution(Limits { reads_ahead, ..limits(512, pages) });
        let io = execution.spill_io().clone();
        let mut sorted = vec![Vec::new(); wanted_count];
        let worker_count = {
            let mut sinks: Vec<_> = sorted.iter_mut().map(|rows| { let key = &key; move |batch: TupleBatch<'_>| {
                rows.extend(batch.tuples().map(|tuple| described(tuple, key)));
                Ok(())
            }}).collect();
            sort_by_workers(&execution, &rows, &key, settings, &mut sinks).unwrap()
        };
        prop_assert!((1..=wanted_count).contains(&worker_count));
        prop_assert!(sorted[worker_count..].iter().all(Vec::is_empty));
        let mut all = sorted.concat();
        prop_assert!(all.is_sorted_by_key(|(bytes, ..)| bytes), "not in order");
        all.sort();
        let mut expected: Vec<_> = rows.tuples().map(|tuple| described(tuple, &key)).collect();
        expected.sort();
        prop_assert_eq!(all, expected);
        execution.audit();
        prop_assert_eq!(execution.free_pages(), pages);
        drop(execution);
        prop_assert!(io.files().is_empty());
    }
}

/// How many rows each of so many workers gives, and how many workers there were.
fn rows_of_workers(
    execution: &Execution,
    rows: &Rows,
    settings: Settings,
    wanted_count: usize,
) -> Result<(usize, Vec<usize>), QueryError> {
    let mut counts = vec![0_usize; wanted_count];
    let mut sinks: Vec<_> = counts
        .iter_mut()
        .map(|count| {
            move |batch: TupleBatch<'_>| {
                *count += batch.cells.len();
                Ok(())
            }
        })
        .collect();
    let used = sort_by_workers(execution, rows, &Key::of(&[0]), settings, &mut sinks)?;
    drop(sinks);
    Ok((used, counts))
}

#[test]
fn each_worker_gets_about_its_part_of_the_rows_in_memory_and_from_runs() {
    let mut rng = Rng::new(4);
    let rows = rows_of((0..20_000).map(|_| rng.below(1 << 30).cast_signed()));
    for (worker_count, workspace_pages) in [(2, 4000), (2, 200), (3, 300), (4, 400)] {
        for formation in BOTH {
            let settings = Settings { input_pages: 8, output_pages: 8, workspace_pages, formation };
            let part = 20_000 / worker_count;
            let mut spread_least = usize::MAX;
            // A worker that sorts nearly all of it, since the others got no core, has only its own pages for
            // fences: so few that its ranges are less even.
            for _ in 0..5 {
                let execution = execution(limits(1024, settings.memory_pages()));
                let (used, counts) =
                    rows_of_workers(&execution, &rows, settings, worker_count).unwrap();
                assert_eq!(used, worker_count);
                let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                assert!(*most < part * 3 / 2, "{counts:?} in {workspace_pages}");
                spread_least = spread_least.min(most - least);
                let is_written = execution.io_counts().write_bytes > 0;
                assert_eq!(is_written, workspace_pages < 4000);
            }
            assert!(spread_least < part / 5, "{spread_least} of {part} in {workspace_pages}");
        }
    }
}

/// Sorts rows, and gives back what was done.
fn sort_counts(rows: &Rows, settings: Settings) -> (SortCounts, Execution) {
    let execution = execution(limits(1024, settings.memory_pages()));
    let key = Key::of(&[0]);
    let mut sort = Sort::new(&execution, rows, &key, settings).unwrap();
    assert_eq!(sorted_rows(&mut sort, &key).unwrap().len(), rows.tuples().count());
    let counts = sort.counts();
    drop(sort);
    (counts, execution)
}

#[test]
fn two_passes_write_and_read_each_page_of_each_run_once() {
    let mut rng = Rng::new(3);
    let rows = rows_of((0..20_000).map(|_| rng.below(1 << 30).cast_signed()));
    for formation in BOTH {
        let settings =
            Settings { input_pages: 4, output_pages: 4, workspace_pages: 112, formation };
        let (counts, execution) = sort_counts(&rows, settings);
        assert!(counts.run_count > 5);
        assert_eq!(counts.merge_count, 0);
        let io = execution.io_counts();
        let page_bytes = 1024 - CHECKSUM_BYTES as u64;
        let least = rows.size().cell_bytes.div_ceil(page_bytes);
        let pages = io.write_bytes / 1024;
        assert!((least..least + counts.run_count).contains(&pages), "{pages} pages, not {least}");
        assert_eq!(io.read_bytes, io.write_bytes);
        // All requests but the last of each run are as large as the buffer.
        let requests = pages.div_ceil(4)..=pages.div_ceil(4) + counts.run_count;
        assert!(requests.contains(&io.write_requests), "{} requests", io.write_requests);
        assert_eq!(execution.peak_pages(), 120);
    }
}

#[test]
fn rows_that_fit_are_not_written() {
    let rows = rows_of((0..900).rev());
    for formation in BOTH {
        let settings =
            Settings { input_pages: 1, output_pages: 1, workspace_pages: 118, formation };
        let (counts, execution) = sort_counts(&rows, settings);
        assert_eq!(counts, SortCounts::default());
        assert_eq!(execution.io_counts().write_bytes, 0);
    }
}

#[test]
fn merges_in_between_move_only_what_they_must() {
    // Runs of the work space, 8 pages; 12 pages merge 11 runs at once.
    let mut rng = Rng::new(9);
    let rows = rows_of((0..1300).map(|_| rng.below(1 << 30).cast_signed()));
    let formation = RunFormation::Quicksort;
    let settings = Settings { input_pages: 2, output_pages: 2, workspace_pages: 8, formation };
    let (counts, execution) = sort_counts(&rows, settings);
    let excess = counts.run_count - 11;
    assert!(excess > 0 && excess < 11, "{excess} runs too many");
    assert_eq!(counts.merge_count, 1);
    let data_pages = rows.size().cell_bytes.div_ceil(1020);
    let run_pages = data_pages.div_ceil(counts.run_count - 1) + 1;
    let most = data_pages + counts.run_count + (excess + 1) * run_pages;
    let written = execution.io_counts().write_bytes / 1024;
    assert!(written > data_pages && written <= most, "{written} pages of {data_pages}");
}

#[test]
fn forecasts_begin_each_block_before_it_is_needed() {
    let mut rng = Rng::new(8);
    let (rows, key) = (rows_of((0..9000).map(|_| rng.below(1 << 30).cast_signed())), Key::of(&[0]));
    let execution = execution(Limits { reads_ahead: true, ..limits(1024, 120) });
    let formation = RunFormation::Quicksort;
    let settings = Settings { input_pages: 1, output_pages: 1, workspace_pages: 118, formation };
    let Sorted::Runs(runs) = form(&execution, (&rows, &key), settings, true).unwrap() else {
        panic!("it does not fit");
    };
    let run_count = runs.len() as u64;
    let block_count: u64 = runs.iter().map(|run| run.page_count().div_ceil(7)).sum();
    // Seven pages for each run, and for the forecast.
    let pages = nandu_base::to_u32(7 * (run_count + 1));
    let memory = execution.take("test", pages).unwrap();
    let before = execution.io_counts().read_requests;
    let mut merge = Merge::open(&execution, &key, runs, memory).unwrap();
    while merge.tuple().is_some() {
        merge.audit();
        merge.advance().unwrap();
    }
    assert_eq!(execution.io_counts().read_requests - before, block_count);
    assert!(block_count > 5 * run_count, "{block_count} blocks");
    // Nothing tells when the first block of each run is needed.
    let misses = merge.miss_count() - run_count;
    assert!(misses * 50 < block_count, "{misses} of {block_count} blocks");
}

#[test]
fn the_write_budget_stops_a_sort() {
    let rows = rows_of((0..5000).rev());
    let key = Key::of(&[0]);
    let settings = Settings {
        input_pages: 1,
        output_pages: 1,
        workspace_pages: 8,
        formation: RunFormation::default(),
    };
    let execution = execution(Limits { write_budget_bytes: Some(50_000), ..limits(1024, 10) });
    let mut sort = Sort::new(&execution, &rows, &key, settings).unwrap();
    let error = sorted_rows(&mut sort, &key).unwrap_err();
    assert!(matches!(error, QueryError::WriteBudget { budget_bytes: 50_000, .. }), "{error}");
    drop(sort);
    execution.audit();
    assert_eq!(execution.free_pages(), 10);
}

#[test]
fn workers_sort_no_rows_and_one() {
    for row_count in 0..2 {
        let rows = rows_of(0..row_count);
        for formation in BOTH {
            for (wanted_count, workspace_pages) in [(1, 8), (2, 8), (3, 60), (5, 4)] {
                let settings =
                    Settings { input_pages: 1, output_pages: 1, workspace_pages, formation };
                let execution = execution(limits(1024, settings.memory_pages()));
                let (_, counts) =
                    rows_of_workers(&execution, &rows, settings, wanted_count).unwrap();
                let sum: usize = counts.into_iter().sum();
                assert_eq!(sum as i64, row_count);
            }
        }
    }
}

#[test]
fn a_heavy_key_is_one_workers_and_the_rest_the_others() {
    let mut rng = Rng::new(5);
    for (heavy, name) in [(0, "first"), (2000, "middle"), (3999, "last")] {
        let keys = (0..20_000).map(|_| match rng.below(10) {
            0..5 => heavy,
            _ => rng.below(4000).cast_signed(),
        });
        let rows = rows_of(keys);
        for workspace_pages in [4000, 300] {
            for worker_count in [2, 3, 4] {
                let formation = RunFormation::ReplacementSelection;
                let settings =
                    Settings { input_pages: 8, output_pages: 8, workspace_pages, formation };
                let execution = execution(limits(1024, settings.memory_pages()));
                let (used, counts) =
                    rows_of_workers(&execution, &rows, settings, worker_count).unwrap();
                assert_eq!(used, worker_count);
                // Half of the rows have one key; its range may have some more.
                let most = *counts.iter().max().unwrap();
                let limit = if heavy == 2000 && worker_count == 2 { 16_000 } else { 12_000 };
                assert!(most < limit, "{name}: {counts:?} in {workspace_pages}");
            }
        }
    }
}

#[test]
fn keys_that_begin_alike_are_divided_and_long_ones_in_bounded_memory() {
    let mut rows = Rows::new("rows", 1024);
    let mut rng = Rng::new(6);
    for _ in 0..6000 {
        let text = format!("{}{:020}", "https://example.org/".repeat(5), rng.below(1 << 40));
        rows.push(&[Value::Text(text), Value::Null]);
    }
    for workspace_pages in [4000, 300] {
        let formation = RunFormation::ReplacementSelection;
        let settings = Settings { input_pages: 8, output_pages: 8, workspace_pages, formation };
        let execution = execution(limits(1024, settings.memory_pages()));
        let (used, counts) = rows_of_workers(&execution, &rows, settings, 3).unwrap();
        assert_eq!(used, 3);
        assert!(counts.iter().all(|count| (1500..2500).contains(count)), "{counts:?}");
    }
}

#[test]
fn who_asks_workers_to_stop_need_not_wait_for_the_end() {
    let rows = rows_of((0..20_000).map(|number| number * 7 % 20_000));
    let formation = RunFormation::ReplacementSelection;
    let settings = Settings { input_pages: 8, output_pages: 8, workspace_pages: 4000, formation };
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let io = crate::testing::memory_io(64 << 20);
    let limits = limits(1024, settings.memory_pages());
    let execution = Execution::new(limits, io.clone(), io, None, std::sync::Arc::clone(&stop));
    let mut sinks: Vec<_> = (0..2)
        .map(|_| {
            let (stop, mut count) = (&stop, 0);
            move |_: TupleBatch<'_>| {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
                count += 1;
                assert!(count < 3, "it was asked to stop");
                Ok(())
            }
        })
        .collect();
    let answer = sort_by_workers(&execution, &rows, &Key::of(&[0]), settings, &mut sinks);
    assert_eq!(answer, Err(QueryError::Cancelled));
}
