//! Windowed greedy cleaning (Hu et al. 2009): the fewest live bytes among the segments that were
//! written first. What was written lately is left alone, since more of it is about to become
//! obsolete.
//!
//! 1. The window has its share of the candidates, at least one.
//! 2. Among equals the one that was written first wins.

use super::{Candidate, VictimPolicy};

#[derive(Debug)]
pub(super) struct Windowed {
    /// The share of the candidates in the window, in per cent, 1 to 100.
    pub(super) window_percent: usize,
}

impl VictimPolicy for Windowed {
    fn choose(
        &self,
        candidates: &mut dyn Iterator<Item = Candidate>,
        _segment_bytes: u32,
        _now: u64,
    ) -> Option<u32> {
        let mut candidates: Vec<Candidate> = candidates.collect();
        candidates.sort_by_key(|known| known.written_at);
        let count = (candidates.len() * self.window_percent).div_ceil(100);
        let window = candidates.iter().take(count);
        let best = window.min_by_key(|known| (known.live_bytes, known.written_at));
        best.map(|best| best.segment)
    }
}
