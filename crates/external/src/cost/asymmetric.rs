//! x + c y (S002, chapter 5): x blocks are read, y are written, and a write costs as much as c reads.

use super::{CostModel, CostUnit, Trace, invalid};
use crate::ExternalError;

/// Counts blocks, those written more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asymmetric {
    /// Bytes of a block.
    pub block_bytes: u32,
    /// How many reads a write costs, in thousandths.
    pub write_weight_thousandths: u64,
}

impl CostModel for Asymmetric {
    fn unit(&self) -> CostUnit {
        CostUnit::Blocks
    }

    fn cost(&self, trace: &Trace) -> Result<u64, ExternalError> {
        if self.block_bytes == 0 {
            return invalid("the asymmetric model needs blocks of a byte at least");
        }
        let bytes = u64::from(self.block_bytes);
        let (read_count, write_count) = trace.touched_blocks(bytes, bytes);
        let weighed = u128::from(write_count) * u128::from(self.write_weight_thousandths) / 1000;
        Ok(read_count.saturating_add(u64::try_from(weighed).unwrap_or(u64::MAX)))
    }
}
