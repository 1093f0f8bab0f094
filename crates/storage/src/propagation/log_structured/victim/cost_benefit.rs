//! Cost-benefit cleaning (Kawaguchi, Nishioka, Motoda 1995): the greatest age * (1 - u) / 2u, where u
//! is the live part of a segment and its age counts from the last change to what is live in it. A
//! nearly full segment of cold pages is worth cleaning once; a hot one soon empties by itself.
//!
//! 1. An empty segment comes before all others; among equals the first wins.

use super::{Candidate, VictimPolicy};

#[derive(Debug)]
pub(super) struct CostBenefit;

impl VictimPolicy for CostBenefit {
    fn choose(
        &self,
        candidates: &mut dyn Iterator<Item = Candidate>,
        segment_bytes: u32,
        now: u64,
    ) -> Option<u32> {
        let mut best: Option<(u32, u128, u128)> = None;
        for known in candidates {
            let age = u128::from(now.saturating_sub(known.changed_at)) + 1;
            // age * (1 - u) / 2u, as a fraction; at u = 0 it is infinite.
            let gain = age * u128::from(segment_bytes.saturating_sub(known.live_bytes));
            let cost = 2 * u128::from(known.live_bytes);
            let is_better =
                best.is_none_or(|(_, best_gain, best_cost)| gain * best_cost > best_gain * cost);
            if is_better {
                best = Some((known.segment, gain, cost));
            }
        }
        best.map(|(segment, ..)| segment)
    }
}
