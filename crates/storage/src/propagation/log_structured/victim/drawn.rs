//! A victim drawn at random, or the best of some drawn (Van Houdt 2013, "d-choices"): one draw is
//! cleaning that knows nothing, many draws are greedy cleaning.
//!
//! 1. What is drawn follows from the write at which a victim is needed: no state, the same after a
//!    restart.
//! 2. Draws are with replacement, so one segment may be drawn again.

use super::{Candidate, VictimPolicy};
use nandu_base::Rng;

#[derive(Debug)]
pub(super) struct Drawn {
    /// How many are drawn, 1 or more.
    pub(super) choice_count: u32,
}

impl VictimPolicy for Drawn {
    fn choose(
        &self,
        candidates: &mut dyn Iterator<Item = Candidate>,
        _segment_bytes: u32,
        now: u64,
    ) -> Option<u32> {
        let candidates: Vec<Candidate> = candidates.collect();
        let mut rng = Rng::new(now);
        let mut draw = || candidates.get(nandu_base::to_index(rng.below(candidates.len() as u64)));
        if candidates.is_empty() {
            return None;
        }
        let drawn = (0..self.choice_count).filter_map(|_| draw());
        drawn.min_by_key(|known| known.live_bytes).map(|best| best.segment)
    }
}
