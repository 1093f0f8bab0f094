//! Cleaning in order: the segment that was written first, as a log that runs round and round would.
//!
//! 1. The choice does not depend on what is live.

use super::{Candidate, VictimPolicy};

#[derive(Debug)]
pub(super) struct Fifo;

impl VictimPolicy for Fifo {
    fn choose(
        &self,
        candidates: &mut dyn Iterator<Item = Candidate>,
        _segment_bytes: u32,
        _now: u64,
    ) -> Option<u32> {
        candidates.min_by_key(|known| known.written_at).map(|best| best.segment)
    }
}
