//! Parts of a relation that a hash makes. Keys fall into parts at random, so a part of m rows with d rows of
//! each key has m rows on average, with a standard deviation of sqrt(m d (1 - p)). How many requests a part
//! takes, and whether it fits into memory, depends on its own size and not on the mean.
//!
//! 1. Both sides of a join are cut by the same keys, so a pair of parts is large or small together.

use crate::cost::{Estimate, Footprint, scale_up};

/// Eight sizes that are equally likely, as distances from the mean in thousandths of the deviation: the
/// middles of the eighths of a normal distribution.
const LIKELY: [i64; 8] = [-1534, -887, -489, -157, 157, 489, 887, 1534];
/// The mean alone, where parts of parts would make too many cases.
const MEAN: [i64; 1] = [0];

/// The part `numerator / denominator` of what qualifies, so many thousandths of a deviation from its mean,
/// as it lies in a spill file.
fn part(side: &Footprint, (numerator, denominator): (u64, u64), distance: i64) -> Footprint {
    let mean = side.spilled_part(numerator, denominator);
    if distance == 0 || mean.tuple_count == 0 {
        return mean;
    }
    let rest = scale_up(1_000_000, denominator.saturating_sub(numerator), denominator);
    let variance =
        u128::from(mean.tuple_count) * u128::from(side.tuples_per_key.max(1)) * u128::from(rest)
            / 1_000_000;
    let shift = i128::from(distance) * i128::try_from(variance.isqrt()).unwrap_or(0) / 1000;
    let tuples = i128::from(mean.tuple_count) + shift;
    let tuples = u64::try_from(tuples.max(0)).unwrap_or(u64::MAX);
    mean.spilled_part(tuples, mean.tuple_count)
}

/// What `count` parts of that share cost, by the cost of one pair of parts. Parts of the first level are
/// looked at in eight sizes, deeper ones in one.
pub(super) fn sum_over_parts(
    sides: [&Footprint; 2],
    (numerator, denominator): (u64, u64),
    count: u64,
    depth: u32,
    cost: impl Fn([&Footprint; 2]) -> Estimate,
) -> Estimate {
    let distances = if depth == 0 { LIKELY.as_slice() } else { MEAN.as_slice() };
    let mut sum = Estimate::default();
    for &distance in distances {
        let [outer, inner] = sides.map(|side| part(side, (numerator, denominator), distance));
        sum += cost([&outer, &inner]);
    }
    sum.share(count, distances.len() as u64)
}
