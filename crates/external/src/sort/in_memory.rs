//! Sorts records in memory: by the digits of their prefixes while there are many, then by comparison.
//!
//! ```text
//!   records ──► 256 parts, by the 8 highest bits in which prefixes differ, in place
//!                 └► each: the same while it is long
//!                      └► what fits into the processor's cache: 2048 parts, by 11 bits
//!                           └► each: by comparison
//! ```
//!
//! The parts are put in place as in ska sort (Skarupke 2016): each pass swaps every record that is
//! not in its part yet to the place that its part fills next. Swaps of a pass do not wait for each
//! other, those along a cycle of American flag sort (McIlroy, Bostic and McIlroy 1993) do. More
//! parts than 256 would each be another page of memory that the processor has to find; in its cache
//! many parts leave few records to be compared, where each comparison is a jump that nobody
//! foresees.
//!
//! The parts of the first level are shared by two threads where there are very many records. A part that
//! has nearly all of them is shared itself: one key far from the others puts all of those into one.
//!
//! 1. The result is that of a sort by comparison.
//! 2. Each level of parts takes eight bits of the prefix or more, so there are eight at most.
//! 3. Once the user wants to stop it ends soon, with records in any order: the caller looks at that, too.

use super::alike::sort_alike;
use crate::{Order, Record};
use nandu_base::to_index;
use std::sync::atomic::{AtomicBool, Ordering};

/// Fewest records that are worth parts.
const RECORDS_MIN: usize = 512;
/// From so many on they do not fit into the processor's cache.
const RECORDS_MANY: usize = 1 << 15;
const DIGIT_BITS: u32 = 8;
const PART_COUNT: usize = 1 << DIGIT_BITS;
/// Fewest records that are worth another thread.
const RECORDS_SHARED_MIN: usize = 1 << 17;
/// The same of records in the cache.
const CACHED_DIGIT_BITS: u32 = 11;
const CACHED_PART_COUNT: usize = 1 << CACHED_DIGIT_BITS;

/// Records between two looks at whether to stop.
pub(super) const RECORDS_PER_LOOK: usize = 1 << 16;

/// An order, and whether to stop.
pub(super) struct Task<'o, O> {
    pub(super) order: &'o O,
    pub(super) stop: &'o AtomicBool,
}

impl<O> Task<'_, O> {
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Sorts `records` by `order`, in place, unless `stop` is set.
pub(crate) fn sort_in_memory<R: Record, O: Order<R>>(
    records: &mut [R],
    order: &O,
    stop: &AtomicBool,
) {
    sort_by(records, &Task { order, stop });
}

fn sort_by<R: Record, O: Order<R>>(records: &mut [R], task: &Task<'_, O>) {
    if records.len() < RECORDS_MIN {
        return records.sort_unstable_by(|left, right| task.order.compare_by_prefix(left, right));
    }
    if task.is_stopped() {
        return;
    }
    match records.len() < RECORDS_MANY {
        true => sort_by_digits::<CACHED_PART_COUNT, R, O>(records, task, CACHED_DIGIT_BITS),
        false => sort_by_digits::<PART_COUNT, R, O>(records, task, DIGIT_BITS),
    }
}

/// The same with the help of another thread where that pays.
pub(super) fn sort_by_two<R: Record, O: Order<R>>(records: &mut [R], order: &O, stop: &AtomicBool) {
    let task = &Task { order, stop };
    if records.len() < RECORDS_SHARED_MIN {
        return sort_by(records, task);
    }
    let Some(ends) = parts::<PART_COUNT, R, O>(records, task, DIGIT_BITS) else { return };
    let start_of = |part: usize| part.checked_sub(1).map_or(0, |before| ends[before]);
    let largest = (0..PART_COUNT).max_by_key(|&part| ends[part] - start_of(part));
    let largest = largest.expect("there are parts");
    let (start, end) = (start_of(largest), ends[largest]);
    let count = records.len();
    // The largest part goes to one of the two whole, or both share it when the others are sorted.
    let longer = |middle: usize| middle.max(count - middle);
    if (end - start) / 2 + (count - (end - start)) < longer(start).min(longer(end)) {
        let (front, rest) = records.split_at_mut(start);
        let (alike, back) = rest.split_at_mut(end - start);
        sort_parts(front, ends[..largest].iter().copied(), task);
        sort_parts(back, ends[largest + 1..].iter().map(|its_end| its_end - end), task);
        return sort_by_two(alike, order, stop);
    }
    // As near to half of them each as parts allow.
    let cut = (0..PART_COUNT).min_by_key(|&part| longer(ends[part])).expect("there are parts");
    let middle = ends[cut];
    let (front_ends, back_ends) = ends.split_at(cut + 1);
    let (front, back) = records.split_at_mut(middle);
    let sort_back = |back: &mut [R], order: &O| {
        sort_parts(back, back_ends.iter().map(|end| end - middle), &Task { order, stop });
    };
    let is_shared = std::thread::scope(|scope| {
        let (back, its_order) = (&mut *back, order.clone());
        let thread = std::thread::Builder::new().name("sort".to_owned());
        let spawned = thread.spawn_scoped(scope, move || sort_back(back, &its_order));
        sort_parts(front, front_ends.iter().copied(), task);
        spawned.is_ok()
    });
    if !is_shared {
        sort_back(back, order);
    }
}

/// Sorts parts that end there.
fn sort_parts<R: Record, O: Order<R>>(
    records: &mut [R],
    ends: impl Iterator<Item = usize>,
    task: &Task<'_, O>,
) {
    let mut start = 0;
    for end in ends {
        sort_by(&mut records[start..end], task);
        start = end;
    }
}

/// The same by `P` parts, of digits of so many bits.
fn sort_by_digits<const P: usize, R: Record, O: Order<R>>(
    records: &mut [R],
    task: &Task<'_, O>,
    digit_bits: u32,
) {
    if let Some(ends) = parts::<P, R, O>(records, task, digit_bits) {
        sort_parts(records, ends.into_iter(), task);
    }
}

/// Puts records into `P` parts and says where each ends; sorts them if their prefixes are alike. `None`
/// if there is no more to do.
fn parts<const P: usize, R: Record, O: Order<R>>(
    records: &mut [R],
    task: &Task<'_, O>,
    digit_bits: u32,
) -> Option<[usize; P]> {
    let order = task.order;
    let Some(shift) = digit_shift(records, order, digit_bits) else {
        sort_alike(records, task);
        return None;
    };
    place(records, |record| to_index((order.prefix(record) >> shift) % P as u64), task)
}

/// Where the digit lies that tells most of the records apart; `None` if prefixes are alike.
fn digit_shift<R: Record, O: Order<R>>(records: &[R], order: &O, digit_bits: u32) -> Option<u32> {
    let (mut least, mut most) = (u64::MAX, 0);
    for record in records {
        let prefix = order.prefix(record);
        least = least.min(prefix);
        most = most.max(prefix);
    }
    let different_bits = u64::BITS - (least ^ most).leading_zeros();
    (different_bits > 0).then(|| different_bits.saturating_sub(digit_bits))
}

/// Puts records into the order of their digits, and says where each part ends; `None` if it stopped.
fn place<const P: usize, R: Record, O>(
    records: &mut [R],
    digit_of: impl Fn(&R) -> usize,
    task: &Task<'_, O>,
) -> Option<[usize; P]> {
    let mut next = [0; P];
    for some in records.chunks(RECORDS_PER_LOOK) {
        if task.is_stopped() {
            return None;
        }
        for record in some {
            next[digit_of(record)] += 1;
        }
    }
    let is_long = records.len() >= RECORDS_MANY;
    let mut ends = [0; P];
    let mut end = 0;
    for (next, its_end) in next.iter_mut().zip(&mut ends) {
        end += *next;
        *its_end = end;
        *next = end - *next;
    }
    loop {
        let mut is_placed = true;
        for part in 0..P {
            if is_long && task.is_stopped() {
                return None;
            }
            for at in next[part]..ends[part] {
                let place = &mut next[digit_of(&records[at])];
                records.swap(at, *place);
                *place += 1;
            }
            is_placed &= next[part] == ends[part];
        }
        if is_placed {
            return Some(ends);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{By, Natural};
    use nandu_base::Rng;
    use proptest::prelude::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn records_are_sorted_as_by_comparison(
            count in prop_oneof![0_usize..1000, 0_usize..50_000], bits in 0_u32..=64, high: u64, skew in 1_u32..5, seed: u64,
        ) {
            let mut rng = Rng::new(seed);
            // Low bits differ, or those of some records only, above which all are alike.
            let mask = u64::MAX.checked_shr(64 - bits).unwrap_or(0);
            let mut number = || {
                let spread = (0..skew).fold(u64::MAX, |least, _| least.min(rng.next_u64()));
                (high & !mask | spread & mask, rng.below(3))
            };
            let records: Vec<(u64, u64)> = (0..count).map(|_| number()).collect();
            let mut expected = records.clone();
            expected.sort_unstable();
            let mut sorted = records.clone();
            sort_in_memory(&mut sorted, &Natural, &AtomicBool::default());
            prop_assert!(sorted == expected);
            let order = By(|record: &(u64, u64)| record.1);
            let mut sorted = records;
            sort_in_memory(&mut sorted, &order, &AtomicBool::default());
            expected.sort_unstable_by_key(|&record| (record.1, record));
            prop_assert!(sorted == expected);
        }
    }

    #[test]
    fn two_threads_sort_as_one() {
        let mut rng = Rng::new(1);
        // Spread, alike, mostly alike at either end, ascending, and with one far away.
        for shape in 0..6 {
            let mut number = |n: u64| match (shape, rng.next_u64()) {
                (0, spread) => spread,
                (1, _) => 7,
                (2, spread) => {
                    if spread % 10 > 0 {
                        0
                    } else {
                        spread
                    }
                }
                (3, spread) => {
                    if spread % 10 > 0 {
                        u64::MAX
                    } else {
                        spread
                    }
                }
                (5, spread) => {
                    if n == 77 {
                        1 << 60
                    } else {
                        spread >> 40
                    }
                }
                _ => n,
            };
            let count = (RECORDS_SHARED_MIN + 1) as u64;
            let mut records: Vec<(u64, u64)> = (0..count).map(|n| (number(n), n % 5)).collect();
            let mut expected = records.clone();
            expected.sort_unstable();
            sort_by_two(&mut records, &Natural, &AtomicBool::default());
            assert!(records == expected, "shape {shape}");
        }
    }

    #[test]
    fn a_key_far_from_the_others_leaves_work_for_two() {
        // Who looks at a key says on which thread.
        let mut rng = Rng::new(3);
        let here = std::thread::current().id();
        let count = 2 * RECORDS_SHARED_MIN;
        for far in [vec![1 << 60], vec![1 << 60, 1 << 50], vec![]] {
            let looks: Arc<[AtomicUsize; 2]> = Arc::default();
            let its_looks = Arc::clone(&looks);
            let order = By(move |record: &u64| {
                let is_other = std::thread::current().id() != here;
                its_looks[usize::from(is_other)].fetch_add(1, Ordering::Relaxed);
                *record
            });
            let mut records: Vec<u64> = (0..count).map(|_| rng.next_u64() >> 40).collect();
            records.extend(&far);
            let mut expected = records.clone();
            expected.sort_unstable();
            sort_by_two(&mut records, &order, &AtomicBool::default());
            assert!(records == expected, "{far:?}");
            // Once all are in parts each of the two sorts half, for which it looks at each three times
            // and at some more often; one that sorted all would look twice as often and more.
            let of_other = looks[1].load(Ordering::Relaxed);
            assert!((count..3 * count).contains(&of_other), "{far:?}: {of_other} for {count}");
        }
    }

    #[test]
    fn a_sort_that_is_stopped_ends_soon() {
        // Many are looked at three times on each level of parts, of which there are some.
        let count = 8 * RECORDS_MANY;
        let mut rng = Rng::new(5);
        let records: Vec<u64> = (0..count).map(|_| rng.next_u64()).collect();
        let sorts: [fn(&mut [u64], &_, &AtomicBool); 2] = [sort_in_memory, sort_by_two];
        for sort in sorts {
            for stop_at in [1, count + 10, 2 * count + 10, 3 * count, 4 * count] {
                let (looks, stop) =
                    (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
                let (its_looks, its_stop) = (Arc::clone(&looks), Arc::clone(&stop));
                let order = By(move |record: &u64| {
                    if its_looks.fetch_add(1, Ordering::Relaxed) == stop_at {
                        its_stop.store(true, Ordering::Relaxed);
                    }
                    *record
                });
                let mut sorted = records.clone();
                sort(&mut sorted, &order, &stop);
                let more = looks.load(Ordering::Relaxed) - stop_at;
                assert!(more <= count, "{more} looks after the one at {stop_at}, of {count}");
                sorted.sort_unstable();
                let mut expected = records.clone();
                expected.sort_unstable();
                assert!(sorted == expected, "no record is lost");
            }
        }
    }

    #[test]
    fn a_digit_is_taken_where_records_differ() {
        let numbers = |of: fn(u64) -> u64| (0..5000_u64).map(of).collect::<Vec<_>>();
        assert_eq!(digit_shift(&numbers(|n| n), &Natural, 8), Some(13 - 8));
        assert_eq!(digit_shift(&numbers(|n| n), &Natural, 11), Some(13 - 11));
        assert_eq!(digit_shift(&numbers(|n| n % 16), &Natural, 8), Some(0));
        assert_eq!(digit_shift(&numbers(|_| 7), &Natural, 8), None);
        assert_eq!(digit_shift(&numbers(|n| n << 51 | 1), &Natural, 8), Some(64 - 8));
    }
}
