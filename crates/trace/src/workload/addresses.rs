//! Which slot is next. Each way is a type of its own, so that the loop over requests is compiled for
//! it and does not ask again for every request.
//!
//! Zipf here is exact and takes two draws: ranks lie in classes of nearly equal weight, the first 32
//! alone, those above in widths of a 32nd of their rank. A class is drawn by Walker's alias method
//! (1977) with the weight that it would have if all its ranks weighed as much as its first; a rank in
//! it is accepted with its true weight over that. All but one in thirty draws are accepted by a
//! stored bound, so the power is computed seldom.
//!
//! ```text
//!   weight │█                     envelope ▔ and true weight ▁ of a class
//!          │█▔▔
//!          │███▔▔▔▔
//!          │███████▔▔▔▔▔▔▔▔
//!          └┴┴─┴───┴───────── rank
//! ```
//!
//! 1. A slot is below the slot count.
//! 2. Floats are used in tables made at the start and in the rare exact test, nowhere else.

use super::{Class, WHOLE_PPB};
use nandu_base::{Permutation, Rng, to_index};
use std::ops::Range;

/// A way of choosing slots.
pub(super) trait Slots {
    /// The next slot and the stream it belongs to, for a request that covers `span` slots.
    fn next(&mut self, span: u64) -> (u64, u8);
}

/// Draws every slot with the same probability.
#[derive(Clone, Debug)]
pub(super) struct Uniform {
    rng: Rng,
    slot_count: u64,
}

impl Uniform {
    pub(super) fn new(slot_count: u64, rng: Rng) -> Self {
        Self { rng, slot_count }
    }
}

impl Slots for Uniform {
    #[inline]
    fn next(&mut self, _span: u64) -> (u64, u8) {
        (self.rng.below(self.slot_count), 0)
    }
}

/// One after the other.
#[derive(Clone, Debug)]
pub(super) struct Sequential {
    position: u64,
    slot_count: u64,
}

impl Sequential {
    pub(super) fn new(slot_count: u64) -> Self {
        Self { position: 0, slot_count }
    }
}

impl Slots for Sequential {
    #[inline]
    fn next(&mut self, span: u64) -> (u64, u8) {
        let slot = if self.position < self.slot_count { self.position } else { 0 };
        self.position = slot + span;
        (slot, 0)
    }
}

/// Every slot once, in an order that changes from pass to pass.
#[derive(Clone, Debug)]
pub(super) struct Permuted {
    permutation: Permutation,
    position: u64,
    rng: Rng,
}

impl Permuted {
    pub(super) fn new(slot_count: u64, mut rng: Rng) -> Self {
        Self { permutation: Permutation::new(slot_count, rng.next_u64()), position: 0, rng }
    }
}

impl Slots for Permuted {
    #[inline]
    fn next(&mut self, _span: u64) -> (u64, u8) {
        if self.position == self.permutation.len() {
            self.permutation = Permutation::new(self.permutation.len(), self.rng.next_u64());
            self.position = 0;
        }
        self.position += 1;
        (self.permutation.apply(self.position - 1), 0)
    }
}

/// Ranks spread over the slots, so that popular ones are no neighbours.
#[derive(Clone, Debug)]
pub(super) struct Spread<S> {
    pub(super) ranks: S,
    pub(super) permutation: Permutation,
}

impl<S: Slots> Slots for Spread<S> {
    #[inline]
    fn next(&mut self, span: u64) -> (u64, u8) {
        let (rank, stream) = self.ranks.next(span);
        (self.permutation.apply(rank), stream)
    }
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    /// The class is drawn where a draw lies below this, and not below that of the one before.
    below: u64,
    first_slot: u64,
    slot_count: u64,
    stream: u8,
}

/// Up to so many classes are compared one by one, more by halving.
const COUNTED_CLASS_MAX: usize = 16;

/// Classes, uniform inside each.
#[derive(Clone, Debug)]
pub(super) struct Zones {
    rng: Rng,
    /// Those that are accessed.
    zones: Vec<Zone>,
    /// The slots of every class.
    ranges: Vec<(Range<u64>, u8)>,
}

impl Zones {
    /// Classes of `slot_count` slots, from the first to the last.
    ///
    /// # Errors
    /// If a class that is accessed would have no slot.
    pub(super) fn new(classes: &[Class], slot_count: u64, rng: Rng) -> Result<Self, String> {
        let part = |ppb: u64, of: u64| {
            let product = u128::from(ppb) * u128::from(of) + u128::from(WHOLE_PPB / 2);
            u64::try_from(product / u128::from(WHOLE_PPB)).expect("a part is below its whole")
        };
        let (mut space, mut access) = (0_u64, 0_u64);
        let (mut zones, mut ranges) = (Vec::new(), Vec::new());
        for (number, class) in classes.iter().enumerate() {
            let first_slot = part(space, slot_count);
            space += u64::from(class.space_ppb);
            access += u64::from(class.access_ppb);
            let slots = part(space, slot_count).min(slot_count) - first_slot;
            let stream = u8::try_from(number).expect("the grammar allows 256 classes");
            ranges.push((first_slot..first_slot + slots, stream));
            if class.access_ppb == 0 {
                continue;
            }
            if slots == 0 {
                return Err(format!(
                    "class {number} would have no slot of the {slot_count} on this drive; make it \
                     larger"
                ));
            }
            let below = part(access, u64::MAX);
            zones.push(Zone { below, first_slot, slot_count: slots, stream });
        }
        let last = zones.last_mut().ok_or("no class is accessed")?;
        last.below = u64::MAX;
        Ok(Self { rng, zones, ranges })
    }

    /// Every slot with the stream of its class, accessed or not.
    pub(super) fn slots(&self) -> impl Iterator<Item = (u64, u8)> + '_ {
        self.ranges.iter().flat_map(|(range, stream)| range.clone().map(|slot| (slot, *stream)))
    }
}

impl Slots for Zones {
    #[inline]
    fn next(&mut self, _span: u64) -> (u64, u8) {
        let point = self.rng.next_u64();
        let (_, before_last) = self.zones.split_last().expect("there is a class");
        // Nobody can predict the class, so few are counted without a branch.
        let index = if before_last.len() <= COUNTED_CLASS_MAX {
            before_last.iter().map(|zone| usize::from(point >= zone.below)).sum()
        } else {
            before_last.partition_point(|zone| point >= zone.below)
        };
        let zone = self.zones[index];
        (zone.first_slot + self.rng.below(zone.slot_count), zone.stream)
    }
}

/// Ranks of one envelope weight.
#[derive(Clone, Copy, Debug)]
struct RankClass {
    /// Counted from 0.
    first: u64,
    width: u64,
    /// A draw below this is accepted whatever the rank.
    surely_below: u64,
    /// Of the alias method: a draw below this keeps the class, another takes the other.
    keep_below: u64,
    other: usize,
}

/// The slot of rank k (from 1) with weight k^-theta.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    rng: Rng,
    theta: f64,
    classes: Vec<RankClass>,
}

/// 2^64, to turn a chance into a bound for a draw.
const TWO_POW_64: f64 = 18_446_744_073_709_551_616.0;

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a chance is not negative, and the cast saturates at one"
)]
fn bound_of(chance: f64) -> u64 {
    (chance * TWO_POW_64) as u64
}

impl Zipf {
    pub(super) fn new(slot_count: u64, theta_ppm: u32, rng: Rng) -> Self {
        const WIDTH_SHIFT: u32 = 5;
        let theta = f64::from(theta_ppm) / 1e6;
        let mut classes = Vec::new();
        let mut weights = Vec::new();
        let mut first = 0;
        while first < slot_count {
            let width = ((first + 1) >> WIDTH_SHIFT).max(1).min(slot_count - first);
            let lowest = (first + 1) as f64;
            let surely = (lowest / (first + width) as f64).powf(theta);
            weights.push(width as f64 * lowest.powf(-theta));
            let surely_below = if width == 1 { u64::MAX } else { bound_of(surely) };
            classes.push(RankClass { first, width, surely_below, keep_below: 0, other: 0 });
            first += width;
        }
        fill_aliases(&mut classes, &weights);
        Self { rng, theta, classes }
    }

    #[inline]
    fn draw(&mut self) -> u64 {
        loop {
            let (index, point) = multiply(self.rng.next_u64(), self.classes.len() as u64);
            let index = to_index(index);
            // Which of the two it is nobody can predict, so it is computed rather than branched to.
            let kept = &self.classes[index];
            let class = &self.classes
                [std::hint::select_unpredictable(point < kept.keep_below, index, kept.other)];
            if class.width == 1 {
                return class.first;
            }
            let (offset, point) = multiply(self.rng.next_u64(), class.width);
            if point < class.surely_below || self.accepts(class, offset, point) {
                return class.first + offset;
            }
        }
    }

    #[cold]
    fn accepts(&self, class: &RankClass, offset: u64, point: u64) -> bool {
        let ratio = (class.first + 1) as f64 / (class.first + offset + 1) as f64;
        (point as f64) < ratio.powf(self.theta) * TWO_POW_64
    }
}

impl Slots for Zipf {
    #[inline]
    fn next(&mut self, _span: u64) -> (u64, u8) {
        (self.draw(), 0)
    }
}

/// A number below `bound` and what remains of the draw, itself a uniform draw: the two halves of a
/// product. The bias is below `bound / 2^64`.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the two halves are what is asked for")]
const fn multiply(draw: u64, bound: u64) -> (u64, u64) {
    let product = draw as u128 * bound as u128;
    ((product >> 64) as u64, product as u64)
}

/// Vose's construction (1991) of Walker's tables.
fn fill_aliases(classes: &mut [RankClass], weights: &[f64]) {
    let total: f64 = weights.iter().sum();
    let count = classes.len() as f64;
    let mut scaled: Vec<f64> = weights.iter().map(|weight| weight * count / total).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..classes.len()).partition(|&index| scaled[index] < 1.0);
    while let (Some(&low), Some(&high)) = (small.last(), large.last()) {
        small.pop();
        classes[low].keep_below = bound_of(scaled[low]);
        classes[low].other = high;
        scaled[high] -= 1.0 - scaled[low];
        if scaled[high] < 1.0 {
            large.pop();
            small.push(high);
        }
    }
    for index in small.into_iter().chain(large) {
        classes[index].keep_below = u64::MAX;
        classes[index].other = index;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(slots: &mut impl Slots, slot_count: usize, draws: u32) -> Vec<f64> {
        let mut counts = vec![0.0; slot_count];
        for _ in 0..draws {
            counts[to_index(slots.next(1).0)] += 1.0 / f64::from(draws);
        }
        counts
    }

    #[test]
    fn zipf_follows_its_law_at_every_rank() {
        let (slot_count, draws) = (300, 1_000_000);
        for theta_ppm in [0, 500_000, 900_000, 1_000_000, 1_500_000, 4_000_000] {
            let measured = shares(&mut Zipf::new(slot_count, theta_ppm, Rng::new(5)), 300, draws);
            let weight = |rank: u64| (rank as f64).powf(-f64::from(theta_ppm) / 1e6);
            let total: f64 = (1..=slot_count).map(weight).sum();
            let mut chi_square = 0.0;
            for (rank, share) in (1..=slot_count).zip(&measured) {
                let expected = weight(rank) / total;
                let tolerance = 5.5 * (expected / f64::from(draws)).sqrt() + 5e-6;
                assert!((share - expected).abs() < tolerance, "theta {theta_ppm} rank {rank}");
                chi_square += (share - expected).powi(2) / expected * f64::from(draws);
            }
            // 299 degrees of freedom: mean 299, deviation 24.5; far ranks of 4.0 are too rare.
            assert!(theta_ppm > 2_000_000 || chi_square < 299.0 + 4.0 * 24.5, "{chi_square}");
        }
    }

    #[test]
    fn zipf_of_a_huge_drive_needs_a_small_table_and_keeps_the_tail() {
        let slot_count = 1 << 40;
        let mut zipf = Zipf::new(slot_count, 1_000_000, Rng::new(1));
        assert!(zipf.classes.len() < 1_000, "{}", zipf.classes.len());
        let draws = 400_000;
        let head = (0..draws).filter(|_| zipf.draw() < 1 << 20).count() as f64 / f64::from(draws);
        // Harmonic numbers: ln n + 0.5772.
        let harmonic = |n: f64| n.ln() + 0.577_215_66;
        let expected = harmonic((1 << 20) as f64) / harmonic(slot_count as f64);
        assert!((head - expected).abs() < 0.003, "{head} {expected}");
    }

    #[test]
    fn zones_get_their_shares_of_space_and_accesses() {
        let class = |space_ppb, access_ppb| Class { space_ppb, access_ppb };
        let classes = [class(40_000_000, 450_000_000), class(160_000_000, 400_000_000)];
        let classes = [&classes[..], &[class(800_000_000, 150_000_000)]].concat();
        let mut zones = Zones::new(&classes, 1000, Rng::new(2)).unwrap();
        let measured = shares(&mut zones, 1000, 1_000_000);
        for (range, access) in [(0..40, 0.45), (40..200, 0.40), (200..1000, 0.15)] {
            let found: f64 = measured[range.clone()].iter().sum();
            assert!((found - access).abs() < 0.002, "{range:?} {found}");
            let expected = access / range.len() as f64;
            for share in &measured[range] {
                assert!((share - expected).abs() < 6.0 * (expected / 1e6).sqrt());
            }
        }
        assert!(Zones::new(&classes, 5, Rng::new(2)).is_err());
    }

    #[test]
    fn permuted_visits_every_slot_once_and_then_in_another_order() {
        let mut permuted = Permuted::new(100, Rng::new(3));
        let mut pass = || (0..100).map(|_| permuted.next(1).0).collect::<Vec<_>>();
        let (first, second) = (pass(), pass());
        assert_ne!(first, second);
        for mut order in [first, second] {
            order.sort_unstable();
            assert_eq!(order, (0..100).collect::<Vec<_>>());
        }
    }

    #[test]
    fn sequential_starts_again_where_the_next_request_does_not_fit() {
        let mut sequential = Sequential::new(5);
        let slots: Vec<u64> = [2, 2, 2, 1, 4].iter().map(|&span| sequential.next(span).0).collect();
        assert_eq!(slots, [0, 2, 4, 0, 1]);
    }
}
