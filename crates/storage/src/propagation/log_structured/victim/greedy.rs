//! Greedy cleaning: the segment with the fewest live bytes, the cheapest to clean right now.
//!
//! 1. Among equals the one that was written first wins, so that no segment is passed over for ever.

use super::{Candidate, VictimPolicy};

#[derive(Debug)]
pub(super) struct Greedy;

impl VictimPolicy for Greedy {
    fn choose(
        &self,
        candidates: &mut dyn Iterator<Item = Candidate>,
        _segment_bytes: u32,
        _now: u64,
    ) -> Option<u32> {
        let best = candidates.min_by_key(|known| (known.live_bytes, known.written_at));
        best.map(|best| best.segment)
    }
}
