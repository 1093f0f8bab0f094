//! A permutation of `0..n` without a table, for any `n` up to 2^63.
//!
//! A four-round Feistel network over the next even number of bits permutes a slightly larger range;
//! results outside `0..n` are fed back until they fall inside (cycle walking, Black and Rogaway
//! 2002). S002 appendix A and S000 chapter 3 ask for random accesses that never repeat an address.
//!
//! 1. `apply` is a bijection of `0..n`.

use crate::random::split_mix;

const ROUND_COUNT: usize = 4;

/// A seeded bijection of `0..len`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    keys: [u64; ROUND_COUNT],
}

impl Permutation {
    /// The permutation of `0..len` that belongs to `seed`.
    ///
    /// # Panics
    /// If `len` is zero or above 2^62.
    #[must_use]
    pub fn new(len: u64, seed: u64) -> Self {
        assert!(len > 0 && len <= 1 << 62, "a permutation needs 1 to 2^62 elements");
        let bits = 64 - (len - 1).leading_zeros();
        let half_bits = bits.div_ceil(2).max(1);
        let mut state = seed;
        Self { len, half_bits, keys: std::array::from_fn(|_| split_mix(&mut state)) }
    }

    /// How many elements are permuted.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Never true: a permutation has at least one element.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Where `index` goes.
    ///
    /// # Panics
    /// If `index` is not below the length.
    #[must_use]
    pub fn apply(&self, index: u64) -> u64 {
        assert!(index < self.len, "index past the permutation");
        let mut value = self.encrypt(index);
        // At most four times the range is walked, so two rounds on average at worst.
        while value >= self.len {
            value = self.encrypt(value);
        }
        value
    }

    fn encrypt(&self, value: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let mut left = value >> self.half_bits;
        let mut right = value & mask;
        for key in self.keys {
            let mut mixed = right ^ key;
            let next = left ^ (split_mix(&mut mixed) & mask);
            left = right;
            right = next;
        }
        (left << self.half_bits) | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_ranges_are_permuted_exhaustively() {
        for len in 1..=300_u64 {
            let permutation = Permutation::new(len, len * 31);
            let mut seen = vec![false; crate::to_index(len)];
            for index in 0..len {
                let slot = &mut seen[crate::to_index(permutation.apply(index))];
                assert!(!*slot, "two indices of {len} meet");
                *slot = true;
            }
        }
    }

    proptest! {
        #[test]
        fn huge_ranges_stay_inside_and_do_not_collide(len in 1_u64 << 40..1 << 62, seed: u64) {
            let permutation = Permutation::new(len, seed);
            let mut images: Vec<u64> = (0..200).map(|i| permutation.apply(len - 1 - i)).collect();
            prop_assert!(images.iter().all(|&image| image < len));
            images.sort_unstable();
            images.dedup();
            prop_assert_eq!(images.len(), 200);
        }
    }
}
