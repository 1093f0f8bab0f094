//! Which segment is cleaned next: the policies of the translation layers, on segments, by bytes.
//!
//! ```text
//! greedy        fewest live bytes
//! cost_benefit  greatest age * (1 - u) / 2u
//! fifo          written first
//! windowed      fewest live bytes of those written first
//! random        any
//! d_choices     fewest live bytes of some drawn
//! ```
//!
//! 1. A policy only looks at what it is offered: segments that may be cleaned, in ascending order.

mod cost_benefit;
mod drawn;
mod fifo;
mod greedy;
mod windowed;

use cost_benefit::CostBenefit;
use drawn::Drawn;
use fifo::Fifo;
use greedy::Greedy;
use serde::{Deserialize, Serialize};
use windowed::Windowed;

/// The window of [`SegmentVictimKind::Windowed`]. An FTL's has 5 %; a file has fewer segments than a
/// drive has erase blocks.
const WINDOW_PERCENT: usize = 25;
/// Segments that [`SegmentVictimKind::DChoices`] draws, as many as an FTL does.
const CHOICE_COUNT: u32 = 10;

/// What a policy may know of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// The number of the segment.
    pub(super) segment: u32,
    /// Bytes of records that the map refers to.
    pub(super) live_bytes: u32,
    /// The last write into it, in writes of the volume.
    pub(super) written_at: u64,
    /// The last write that made one of its records obsolete, or the last into it.
    pub(super) changed_at: u64,
}

/// A way of choosing.
pub(super) trait VictimPolicy: Send + std::fmt::Debug {
    /// The segment to clean, of `candidates` with `segment_bytes` each, at the write `now`.
    fn choose(
        &self,
        candidates: &mut dyn Iterator<Item = Candidate>,
        segment_bytes: u32,
        now: u64,
    ) -> Option<u32>;
}

/// How a victim is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SegmentVictimKind {
    /// The fewest live bytes; among equals the one that was written first.
    #[default]
    Greedy,
    /// The greatest age * (1 - u) / 2u (Kawaguchi, Nishioka, Motoda 1995, after S000's reference 18).
    CostBenefit,
    /// The one that was written first.
    Fifo,
    /// The fewest live bytes among the quarter that was written first (Hu et al. 2009).
    Windowed,
    /// Any one (S000 section 2.2 on its reference 1).
    Random,
    /// The fewest live bytes of ten drawn at random (Van Houdt 2013).
    DChoices,
}

impl SegmentVictimKind {
    /// Every policy, in the order in which they are listed.
    pub const ALL: [Self; 6] =
        [Self::Greedy, Self::CostBenefit, Self::Fifo, Self::Windowed, Self::Random, Self::DChoices];

    pub(super) fn build(self) -> Box<dyn VictimPolicy> {
        match self {
            Self::Greedy => Box::new(Greedy),
            Self::CostBenefit => Box::new(CostBenefit),
            Self::Fifo => Box::new(Fifo),
            Self::Windowed => Box::new(Windowed { window_percent: WINDOW_PERCENT }),
            Self::Random => Box::new(Drawn { choice_count: 1 }),
            Self::DChoices => Box::new(Drawn { choice_count: CHOICE_COUNT }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn candidate(
        segment: u32,
        live_bytes: u32,
        written_at: u64,
        changed_at: u64,
    ) -> Candidate {
        Candidate { segment, live_bytes, written_at, changed_at }
    }

    #[test]
    fn each_policy_chooses_by_its_own_rule() {
        // An old one that is nearly full, a young one that is half empty, one in between.
        let candidates = [
            candidate(3, 900, 10, 11),
            candidate(4, 400, 95, 99),
            candidate(5, 500, 50, 60),
            candidate(6, 400, 94, 98),
        ];
        let choose = |kind: SegmentVictimKind| {
            kind.build().choose(&mut candidates.iter().copied(), 1000, 100)
        };
        assert_eq!(choose(SegmentVictimKind::Greedy), Some(6), "of equals the older one");
        assert_eq!(choose(SegmentVictimKind::Fifo), Some(3));
        assert_eq!(choose(SegmentVictimKind::CostBenefit), Some(5), "40 * 0.5 beats 1 * 1.5");
        assert_eq!(
            choose(SegmentVictimKind::Windowed),
            Some(3),
            "the oldest quarter is one of four"
        );
        let wide = Windowed { window_percent: 50 };
        let chosen = wide.choose(&mut candidates.iter().copied(), 1000, 100);
        assert_eq!(chosen, Some(5), "the emptier of the two oldest");
    }

    /// How often each of ten segments, of which segment n has n live bytes, is chosen in `draws`.
    fn frequencies(choice_count: u32, draws: u64) -> [u64; 10] {
        let candidates = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(|n| candidate(n, n, 1, 1));
        let mut counts = [0; 10];
        for now in 0..draws {
            let policy = Drawn { choice_count };
            let chosen = policy.choose(&mut candidates.into_iter(), 1000, now);
            counts[chosen.expect("there are candidates") as usize] += 1;
        }
        counts
    }

    #[test]
    fn draws_follow_their_closed_form() {
        const DRAWS: u64 = 20_000;
        for choice_count in [1, 2, 10] {
            let counts = frequencies(choice_count, DRAWS);
            assert_eq!(counts, frequencies(choice_count, DRAWS), "the same for the same writes");
            for (n, count) in counts.into_iter().enumerate() {
                // The best of d draws is n or above if all are: ((10 - n) / 10)^d.
                let above = |n: usize| ((10 - n) as f64 / 10.0).powi(choice_count.cast_signed());
                let expected = (above(n) - above(n + 1)) * DRAWS as f64;
                let deviation = 5.0 * expected.sqrt() + 1.0;
                let difference = (count as f64 - expected).abs();
                assert!(difference < deviation, "{choice_count} draws, {n}: {count}, {expected}");
            }
        }
        let none = SegmentVictimKind::Random.build().choose(&mut std::iter::empty(), 1000, 1);
        assert_eq!(none, None);
    }

    #[test]
    fn cost_benefit_takes_an_empty_segment_before_all_others() {
        let candidates = [candidate(1, 1, 1, 1), candidate(2, 0, 99, 99)];
        let policy = SegmentVictimKind::CostBenefit.build();
        assert_eq!(policy.choose(&mut candidates.into_iter(), 1000, 100), Some(2));
        assert_eq!(policy.choose(&mut std::iter::empty(), 1000, 100), None);
    }
}
