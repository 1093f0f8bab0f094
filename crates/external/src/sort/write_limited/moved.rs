//! Blocks that a sort of any kind moves, counted before it runs; which kind is cheapest.

use super::{LimitedDivision, SortKind, WHOLE};
use crate::sort::Division;
use crate::{ExternalError, Record, Store};

/// Blocks that a sort moves, its input among them; its result is handed on, and not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MovedBlocks {
    /// Blocks that it reads.
    pub read_count: u64,
    /// Blocks that it writes.
    pub write_count: u64,
}

/// Parts by merges that are looked at, in thousandths from one to the next.
const STEP: u64 = 25;

impl MovedBlocks {
    /// x + c y, in thousandths of a read.
    #[must_use]
    pub fn cost_thousandths(&self, write_weight_thousandths: u64) -> u128 {
        u128::from(self.read_count) * u128::from(WHOLE)
            + u128::from(self.write_count) * u128::from(write_weight_thousandths)
    }
}

impl SortKind {
    /// The blocks that a sort of `count` records within `bytes` moves.
    ///
    /// # Errors
    /// If memory is too little, or a block holds no record.
    pub fn moved_blocks<R: Record>(
        self,
        store: &Store,
        count: u64,
        bytes: u64,
    ) -> Result<MovedBlocks, ExternalError> {
        let per_block = store.per_block::<R>()?;
        let division = self.division::<R>(store, count, bytes)?;
        let mut moved = MovedBlocks::default();
        if division.sorter_bytes > 0 {
            let merged = Division::new::<R>(store, division.sorter_bytes)?;
            let written = written_by_merges(&merged, division.merged_count, per_block);
            moved.read_count = division.merged_count.div_ceil(per_block) + written;
            moved.write_count = written;
        }
        if let Some(picked_count) = division.picked_count {
            moved.add_passes(&division, count - division.merged_count, picked_count, per_block);
        }
        Ok(moved)
    }

    /// The kind that costs least where a write costs so many thousandths of a read, and what it moves;
    /// merge where others cost as much.
    ///
    /// # Errors
    /// If memory is too little for any, or a block holds no record.
    pub fn cheapest<R: Record>(
        store: &Store,
        count: u64,
        bytes: u64,
        write_weight_thousandths: u64,
    ) -> Result<(Self, MovedBlocks), ExternalError> {
        let segments =
            (1..WHOLE / STEP).map(|part| Self::Segment { merged_thousandths: part * STEP });
        let kinds = [Self::Selection, Self::Lazy { write_weight_thousandths }];
        let mut best =
            Self::Merge.moved_blocks::<R>(store, count, bytes).map(|moved| (Self::Merge, moved));
        for kind in kinds.into_iter().chain(segments) {
            // A kind for which memory is too little does not come into question.
            let Ok(moved) = kind.moved_blocks::<R>(store, count, bytes) else { continue };
            let cost = |moved: &MovedBlocks| moved.cost_thousandths(write_weight_thousandths);
            if best.as_ref().map_or(true, |(_, of_best)| cost(&moved) < cost(of_best)) {
                best = Ok((kind, moved));
            }
        }
        best
    }
}

impl MovedBlocks {
    /// Passes over `left` records, which begin with a block.
    fn add_passes(
        &mut self,
        division: &LimitedDivision,
        mut left: u64,
        picked_count: u64,
        per_block: u64,
    ) {
        let (mut source_blocks, mut pass) = (left.div_ceil(per_block), 0);
        while left > 0 {
            pass += 1;
            self.read_count += source_blocks;
            left = left.saturating_sub(picked_count);
            if division.writes(pass, left) {
                source_blocks = left.div_ceil(per_block);
                self.write_count += source_blocks;
                pass = 0;
            }
        }
    }
}

/// Memory for merges of so many records beside passes.
pub(super) fn bytes_for_merges<R: Record>(
    store: &Store,
    count: u64,
    bytes: u64,
) -> Result<u64, ExternalError> {
    let per_block = store.per_block::<R>()?;
    let written = |eighths: u64| -> Result<u64, ExternalError> {
        let division = Division::new::<R>(store, bytes / 8 * eighths)?;
        Ok(written_by_merges(&division, count, per_block))
    };
    // What is refused with the most is refused.
    let least = (1..7).filter_map(|eighths| written(eighths).ok()).fold(written(7)?, u64::min);
    let is_enough = |eighths: &u64| written(*eighths).is_ok_and(|it| it <= least + least / 16);
    Ok(bytes / 8 * (1..7).find(is_enough).unwrap_or(7))
}

/// Blocks of all runs, of the first ones and of merges in between; each is read once.
fn written_by_merges(division: &Division, count: u64, per_block: u64) -> u64 {
    let runs = division.runs(count);
    let blocks = |records: &u64| records.div_ceil(per_block);
    let formed: u64 = runs.iter().map(blocks).sum();
    formed + division.plan(runs.into_iter()).map(|merge| blocks(&merge.records)).sum::<u64>()
}
