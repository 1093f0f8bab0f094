//! Sorts records in memory of which the prefixes are alike, by comparison: as fast as the sort of the
//! standard library, which ends only when all is sorted, but in steps between which it can be stopped.
//!
//! ```text
//!   records ──► before a pivot │ not before ──► each the same, while it is long
//!                                   └► where few are before: like the pivot │ behind it
//!   short ones ──► the standard library's sort
//! ```
//!
//! The pivot is the median of every 64th record. So a 128th of the records or more is like it or before
//! it, and as many are like it or behind it, whatever the records are.
//!
//! 1. The result is that of a sort by comparison; once it is stopped records are in any order.
//! 2. What is left to be divided is 127 of 128 parts of what it was, or less.
//! 3. Between two looks at whether to stop are a short sort, the choice of a pivot, or so many records
//!    as are compared with one.

use super::in_memory::{RECORDS_PER_LOOK, Task};
use crate::{Order, Record};

/// So many records are sorted by the standard library.
pub(super) const RECORDS_SHORT: usize = 1 << 14;
/// Of so many records one is looked at to choose a pivot.
const RECORDS_PER_SAMPLE: usize = 64;
/// Where fewer than this part of the records come before the pivot, those that are like it are put aside:
/// many of them would be divided again and again.
const FEW_PART: usize = 16;

/// Sorts `records` by comparison, unless it is to stop.
pub(super) fn sort_alike<R: Record, O: Order<R>>(mut records: &mut [R], task: &Task<'_, O>) {
    while records.len() > RECORDS_SHORT {
        let Some((before, behind)) = divide_by_pivot(records, task) else { return };
        let (rest, back) = records.split_at_mut(behind);
        let front = &mut rest[..before];
        let (shorter, longer) = if before < back.len() { (front, back) } else { (back, front) };
        // The shorter one first: so calls are as deep as the records' number has bits, at most.
        sort_alike(shorter, task);
        records = longer;
    }
    if !task.is_stopped() {
        records.sort_unstable_by(|left, right| task.order.compare(left, right));
    }
}

/// Puts records before and behind others that are alike; how many come before, and where those behind
/// begin. `None` if it is to stop.
fn divide_by_pivot<R: Record, O: Order<R>>(
    records: &mut [R],
    task: &Task<'_, O>,
) -> Option<(usize, usize)> {
    let pivot = pivot_of(records, task.order);
    let before = divide(records, |record| task.order.compare(record, &pivot).is_lt(), task)?;
    if before >= records.len() / FEW_PART {
        return Some((before, before));
    }
    let others = &mut records[before..];
    let alike = divide(others, |record| task.order.compare(record, &pivot).is_le(), task)?;
    Some((before, before + alike))
}

/// The median of some records, which come to the front.
fn pivot_of<R: Record, O: Order<R>>(records: &mut [R], order: &O) -> R {
    let count = records.len() / RECORDS_PER_SAMPLE;
    (0..count).for_each(|at| records.swap(at, at * RECORDS_PER_SAMPLE));
    let compare = |left: &R, right: &R| order.compare(left, right);
    *records[..count].select_nth_unstable_by(count / 2, compare).1
}

/// Puts records to the front of which something is true, and says how many; `None` if it is to stop.
fn divide<R: Record, O>(
    records: &mut [R],
    is_in_front: impl Fn(&R) -> bool,
    task: &Task<'_, O>,
) -> Option<usize> {
    let mut end = 0;
    for start in (0..records.len()).step_by(RECORDS_PER_LOOK) {
        if task.is_stopped() {
            return None;
        }
        for at in start..records.len().min(start + RECORDS_PER_LOOK) {
            let is_one = is_in_front(&records[at]);
            // Always, so that there is no jump that nobody foresees.
            records.swap(end, at);
            end += usize::from(is_one);
        }
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{By, Natural};
    use nandu_base::Rng;
    use proptest::prelude::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn records_are_sorted_as_by_comparison(
            count in 0_usize..6 * RECORDS_SHORT, kinds in prop_oneof![1_u64..4, 1_u64..1 << 40],
            sorted_part in 0_usize..5, seed: u64,
        ) {
            let mut rng = Rng::new(seed);
            let mut records: Vec<u64> = (0..count).map(|_| rng.below(kinds)).collect();
            records[..count / 4 * sorted_part].sort_unstable();
            let mut expected = records.clone();
            expected.sort_unstable();
            let stop = AtomicBool::default();
            sort_alike(&mut records, &Task { order: &Natural, stop: &stop });
            prop_assert!(records == expected);
        }
    }

    #[test]
    fn a_pivot_leaves_a_part_on_either_side_whatever_the_records_are() {
        let count = 4 * RECORDS_SHORT;
        let number = |n: usize| n as u64;
        let makes: [&dyn Fn(usize) -> u64; 6] = [
            &number,
            &|n| number(count - n),
            &|_| 3,
            &|n| number(n % 2),
            // What is looked at first is least, or most.
            &|n| if n.is_multiple_of(RECORDS_PER_SAMPLE) { 0 } else { number(n) },
            &|n| if n.is_multiple_of(RECORDS_PER_SAMPLE) { u64::MAX } else { number(n) },
        ];
        let stop = AtomicBool::default();
        for (case, make) in makes.iter().enumerate() {
            let mut records: Vec<u64> = (0..count).map(make).collect();
            let task = Task { order: &Natural, stop: &stop };
            let (before, behind) = divide_by_pivot(&mut records, &task).unwrap();
            let longest = before.max(count - behind);
            assert!(longest <= count - count / 128, "case {case}: {before}, {behind}");
        }
    }

    #[test]
    fn a_sort_of_records_that_are_alike_is_stopped_soon() {
        let count = 32 * RECORDS_SHORT;
        let mut rng = Rng::new(5);
        let records: Vec<(u64, u64)> = (0..count).map(|_| (7, rng.next_u64())).collect();
        let mut expected = records.clone();
        expected.sort_unstable();
        // A comparison looks at both keys. All of them are some twenty for each record.
        for stop_at in [1, count / 10, count, 4 * count, 10 * count, 20 * count] {
            let (looks, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let (its_looks, its_stop) = (Arc::clone(&looks), Arc::clone(&stop));
            let order = By(move |record: &(u64, u64)| {
                if its_looks.fetch_add(1, Ordering::Relaxed) == stop_at {
                    its_stop.store(true, Ordering::Relaxed);
                }
                record.0
            });
            let mut sorted = records.clone();
            super::super::in_memory::sort_in_memory(&mut sorted, &order, &stop);
            assert!(stop.load(Ordering::Relaxed), "it looks more often than {stop_at} times");
            let more = looks.load(Ordering::Relaxed) - stop_at;
            assert!(
                more < 2 * count,
                "{more} looks after the one at {stop_at}, of {count} records"
            );
            sorted.sort_unstable();
            assert!(sorted == expected, "no record is lost");
        }
    }
}
