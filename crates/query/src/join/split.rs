//! Which bucket a row belongs to: hash space cut into pieces, by another hash at every level, so that
//! the rows of one bucket spread over all buckets of the next level.
//!
//! ```text
//!   0 ├ tier ┼ tier ┼ tier ┤├──── bucket ────┼──── bucket ────┤ 2^64
//!      to stay in memory     to be written
//! ```

use crate::key::mix;

/// A division of hash space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Split {
    seed: u64,
    tier_count: usize,
    tier_width: u64,
    tiers_end: u64,
    bucket_width: u64,
    piece_count: usize,
}

impl Split {
    /// So many equal buckets.
    pub(crate) const fn even(level: u32, bucket_count: usize) -> Self {
        Self::with_tiers(level, 0, 0, bucket_count)
    }

    /// `tier_count` tiers that share `resident_ppm` millionths of the space, then buckets that share the
    /// rest.
    pub(crate) const fn with_tiers(
        level: u32,
        resident_ppm: u64,
        tier_count: usize,
        bucket_count: usize,
    ) -> Self {
        let tiers_end = match (tier_count, bucket_count) {
            (0, _) => 0,
            (_, 0) => u64::MAX,
            _ => u64::MAX / 1_000_000 * resident_ppm,
        };
        let tier_width =
            if tier_count == 0 { 1 } else { (tiers_end / tier_count as u64).saturating_add(1) };
        let rest = u64::MAX - tiers_end;
        let bucket_width =
            if bucket_count == 0 { 1 } else { (rest / bucket_count as u64).saturating_add(1) };
        Self {
            seed: mix(level as u64),
            tier_count,
            tier_width,
            tiers_end,
            bucket_width,
            piece_count: tier_count + bucket_count,
        }
    }

    /// How many pieces there are.
    pub(crate) const fn piece_count(&self) -> usize {
        self.piece_count
    }

    /// The piece of a row with this hash. Rows without a key are together in the first.
    #[inline]
    pub(crate) fn piece(&self, hash: Option<u64>) -> usize {
        let Some(hash) = hash else { return 0 };
        let word = mix(hash ^ self.seed);
        let piece = match word.checked_sub(self.tiers_end) {
            Some(rest) if self.piece_count > self.tier_count => {
                self.tier_count + nandu_base::to_index(rest / self.bucket_width)
            }
            _ => nandu_base::to_index(word / self.tier_width),
        };
        piece.min(self.piece_count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_get_their_share_at_every_level() {
        for (level, ppm, tiers, buckets) in
            [(0, 0, 0, 7), (1, 250_000, 4, 3), (2, 1_000_000, 5, 0), (3, 500_000, 1, 9)]
        {
            let split = Split::with_tiers(level, ppm, tiers, buckets);
            let mut counts = vec![0_u64; split.piece_count()];
            let row_count = 100_000;
            for number in 0..row_count {
                counts[split.piece(Some(mix(number)))] += 1;
            }
            let resident = if buckets == 0 { 1_000_000 } else { ppm };
            for (piece, &count) in counts.iter().enumerate() {
                let share = match piece < tiers {
                    true => row_count * resident / 1_000_000 / tiers as u64,
                    false => row_count * (1_000_000 - resident) / 1_000_000 / buckets as u64,
                };
                assert!(count.abs_diff(share) < share / 10, "piece {piece}: {count}, not {share}");
            }
        }
    }

    #[test]
    fn a_bucket_spreads_over_all_buckets_of_the_next_level() {
        let (first, second) = (Split::even(0, 8), Split::even(1, 8));
        let mut counts = [0; 8];
        for hash in (0..80_000).map(mix).filter(|&hash| first.piece(Some(hash)) == 3) {
            counts[second.piece(Some(hash))] += 1;
        }
        assert!(counts.iter().all(|count| (1000..1500).contains(count)), "{counts:?}");
    }
}
