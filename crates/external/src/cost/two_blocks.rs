//! Two sizes of blocks (S002, chapter 5): a x + b y, where x blocks of B_R bytes are read and y larger
//! ones of B_W are written.

use super::{CostModel, CostUnit, Trace, invalid};
use crate::ExternalError;

/// Counts blocks of two sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoBlocks {
    /// B_R, in bytes.
    pub read_block_bytes: u32,
    /// B_W, in bytes; not smaller.
    pub write_block_bytes: u32,
    /// a: what a block that is read costs.
    pub read_weight: u64,
    /// b: what a block that is written costs.
    pub write_weight: u64,
}

impl CostModel for TwoBlocks {
    fn unit(&self) -> CostUnit {
        CostUnit::Blocks
    }

    fn cost(&self, trace: &Trace) -> Result<u64, ExternalError> {
        if self.read_block_bytes == 0 || self.write_block_bytes < self.read_block_bytes {
            return invalid("blocks that are written are not smaller than those that are read");
        }
        let (read_count, write_count) =
            trace.touched_blocks(self.read_block_bytes.into(), self.write_block_bytes.into());
        let read_cost = read_count.saturating_mul(self.read_weight);
        Ok(read_cost.saturating_add(write_count.saturating_mul(self.write_weight)))
    }
}
