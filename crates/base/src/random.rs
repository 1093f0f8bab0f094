//! Seeded randomness: xoshiro256++ (Blackman and Vigna 2019), seeded through SplitMix64.
//!
//! Our own, because a library upgrade must not change a golden table.
//!
//! 1. The same seed gives the same sequence for ever; `golden_sequence` pins it.

/// A fast seeded generator. Not for secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator whose whole future follows from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        let state = std::array::from_fn(|_| split_mix(&mut x));
        Self { state }
    }

    /// A generator for one part of a run, independent of how much the other parts draw.
    #[must_use]
    pub fn for_part(seed: u64, part: &str) -> Self {
        Self::new(seed ^ crate::fnv1a(part.as_bytes()))
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// Uniform in `0..bound` (Lemire's multiplication with rejection, so without bias).
    ///
    /// # Panics
    /// If `bound` is zero.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number lies below zero");
        let mut product = u128::from(self.next_u64()) * u128::from(bound);
        if low(product) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while low(product) < threshold {
                product = u128::from(self.next_u64()) * u128::from(bound);
            }
        }
        high(product)
    }

    /// Uniform in `[0, 1)` with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// True with the given chance, stated in parts per million so that configuration stays integer.
    #[inline]
    pub fn chance_ppm(&mut self, parts_per_million: u32) -> bool {
        self.below(1_000_000) < u64::from(parts_per_million)
    }

    /// Fills `bytes` with incompressible data.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let mut chunks = bytes.chunks_exact_mut(8);
        for chunk in &mut chunks {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes());
        }
        let rest = chunks.into_remainder();
        let last = self.next_u64().to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }

    /// Fisher and Yates's shuffle.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            let other = crate::to_index(self.below(end as u64 + 1));
            items.swap(end, other);
        }
    }
}

/// One step of SplitMix64 (Steele, Lea and Flood 2014): also a good 64-bit mixer.
pub(crate) fn split_mix(x: &mut u64) -> u64 {
    *x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *x;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[allow(clippy::cast_possible_truncation, reason = "the low half is what is asked for")]
const fn low(product: u128) -> u64 {
    product as u64
}

#[allow(clippy::cast_possible_truncation, reason = "the high half fits by construction")]
const fn high(product: u128) -> u64 {
    (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_sequence() {
        let mut rng = Rng::new(1);
        let first: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        // Invariant 1: if this changes, every golden table changes with it.
        assert_eq!(first, [0xcfc5_d07f_6f03_c29b, 0xbf42_4132_963f_e08d, 0x19a3_7d57_57aa_f520]);
    }

    #[test]
    fn below_is_uniform() {
        let mut rng = Rng::new(7);
        let mut counts = [0_u32; 6];
        for _ in 0..60_000 {
            counts[crate::to_index(rng.below(6))] += 1;
        }
        // Chi-square with 5 degrees of freedom: 20.5 is the 0.1 % point.
        let chi: f64 = counts.iter().map(|&n| (f64::from(n) - 1e4).powi(2) / 1e4).sum();
        assert!(chi < 20.5, "chi-square {chi}");
    }

    #[test]
    fn fill_covers_every_length() {
        for length in 0..40 {
            let mut bytes = vec![0; length];
            Rng::new(3).fill(&mut bytes);
            assert!(length < 16 || bytes.iter().filter(|&&b| b == 0).count() < 8);
        }
    }

    #[test]
    fn shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..100).collect();
        Rng::new(9).shuffle(&mut items);
        assert_ne!(items[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
