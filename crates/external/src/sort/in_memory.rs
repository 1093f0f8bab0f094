//! Sorts records in memory: by the digits of their prefixes while there are many, then by comparison.
//!
//! ```text
//!   records ──► 256 parts, by the 8 highest bits in which prefixes differ, in place
//!                 └► each: the same while it is long ──► by comparison, in the processor's cache
//! ```
//!
//! The parts are put in place as in ska sort (Skarupke 2016): each pass swaps every record that is
//! not in its part yet to the place that its part fills next. Swaps of a pass do not wait for each
//! other, those along a cycle of American flag sort (McIlroy, Bostic and McIlroy 1993) do.
//!
//! 1. The result is that of a sort by comparison.
//! 2. Each level of parts takes eight bits of the prefix or more, so there are eight at most.

use crate::{Order, Record};
use nandu_base::to_index;

/// Fewest records that are worth parts; fewer fit into the processor's cache.
const RECORDS_MIN: usize = 4096;
const DIGIT_BITS: u32 = 8;
const PART_COUNT: usize = 1 << DIGIT_BITS;

/// Sorts `records` by `order`, in place.
pub(super) fn sort_in_memory<R: Record, O: Order<R>>(records: &mut [R], order: &O) {
    let Some(shift) = digit_shift(records, order) else {
        records.sort_unstable_by(|left, right| order.compare_by_prefix(left, right));
        return;
    };
    let ends = place(records, |record| digit(order.prefix(record), shift));
    let mut start = 0;
    for end in ends {
        sort_in_memory(&mut records[start..end], order);
        start = end;
    }
}

/// Where the digit lies that tells most of the records apart; `None` if they are few or alike.
fn digit_shift<R: Record, O: Order<R>>(records: &[R], order: &O) -> Option<u32> {
    if records.len() < RECORDS_MIN {
        return None;
    }
    let (mut least, mut most) = (u64::MAX, 0);
    for record in records {
        let prefix = order.prefix(record);
        least = least.min(prefix);
        most = most.max(prefix);
    }
    let different_bits = u64::BITS - (least ^ most).leading_zeros();
    (different_bits > 0).then(|| different_bits.saturating_sub(DIGIT_BITS))
}

/// Of prefixes that are alike above the digit.
fn digit(prefix: u64, shift: u32) -> usize {
    to_index((prefix >> shift) % PART_COUNT as u64)
}

/// Puts records into the order of their digits, and says where each part ends.
fn place<R: Record>(records: &mut [R], digit_of: impl Fn(&R) -> usize) -> [usize; PART_COUNT] {
    let mut next = [0; PART_COUNT];
    for record in &*records {
        next[digit_of(record)] += 1;
    }
    let mut ends = [0; PART_COUNT];
    let mut end = 0;
    for (next, its_end) in next.iter_mut().zip(&mut ends) {
        end += *next;
        *its_end = end;
        *next = end - *next;
    }
    loop {
        let mut is_placed = true;
        for part in 0..PART_COUNT {
            for at in next[part]..ends[part] {
                let place = &mut next[digit_of(&records[at])];
                records.swap(at, *place);
                *place += 1;
            }
            is_placed &= next[part] == ends[part];
        }
        if is_placed {
            return ends;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{By, Natural};
    use nandu_base::Rng;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn records_are_sorted_as_by_comparison(
            count in 0_usize..40_000, bits in 0_u32..=64, high: u64, skew in 1_u32..5, seed: u64,
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
            sort_in_memory(&mut sorted, &Natural);
            prop_assert!(sorted == expected);
            let order = By(|record: &(u64, u64)| record.1);
            let mut sorted = records;
            sort_in_memory(&mut sorted, &order);
            expected.sort_unstable_by_key(|&record| (record.1, record));
            prop_assert!(sorted == expected);
        }
    }

    #[test]
    fn a_digit_is_taken_where_records_differ() {
        let numbers = |of: fn(u64) -> u64| (0..5000_u64).map(of).collect::<Vec<_>>();
        assert_eq!(digit_shift(&numbers(|n| n), &Natural), Some(13 - 8));
        assert_eq!(digit_shift(&numbers(|n| n % 16), &Natural), Some(0));
        assert_eq!(digit_shift(&numbers(|_| 7), &Natural), None);
        assert_eq!(digit_shift(&numbers(|n| n)[..4000], &Natural), None);
        assert_eq!(digit_shift(&numbers(|n| n << 51 | 1), &Natural), Some(64 - 8));
    }
}
