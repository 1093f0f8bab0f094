//! Which segment is cleaned next: the policies of the translation layers, on segments, by bytes.
//!
//! ```text
//! greedy        fewest live bytes
//! cost_benefit  greatest age * (1 - u) / 2u
//! fifo          written first
//! ```
//!
//! 1. A policy only looks at what it is offered: segments that may be cleaned, in ascending order.

mod cost_benefit;
mod fifo;
mod greedy;

use cost_benefit::CostBenefit;
use fifo::Fifo;
use greedy::Greedy;
use serde::{Deserialize, Serialize};

/// What a policy may know of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Which one.
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
}

impl SegmentVictimKind {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::Greedy, Self::CostBenefit, Self::Fifo];

    pub(super) fn build(self) -> Box<dyn VictimPolicy> {
        match self {
            Self::Greedy => Box::new(Greedy),
            Self::CostBenefit => Box::new(CostBenefit),
            Self::Fifo => Box::new(Fifo),
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
    }

    #[test]
    fn cost_benefit_takes_an_empty_segment_before_all_others() {
        let candidates = [candidate(1, 1, 1, 1), candidate(2, 0, 99, 99)];
        let policy = SegmentVictimKind::CostBenefit.build();
        assert_eq!(policy.choose(&mut candidates.into_iter(), 1000, 100), Some(2));
        assert_eq!(policy.choose(&mut std::iter::empty(), 1000, 100), None);
    }
}
