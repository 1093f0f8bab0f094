//! The external memory model (Aggarwal and Vitter, CACM 1988): a block costs one, whether it is read or
//! written, wherever it lies.

use super::{CostModel, CostUnit, Trace, invalid};
use crate::ExternalError;

/// Counts the blocks that are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExternalMemory {
    /// B, in bytes.
    pub block_bytes: u32,
}

impl CostModel for ExternalMemory {
    fn unit(&self) -> CostUnit {
        CostUnit::Blocks
    }

    fn cost(&self, trace: &Trace) -> Result<u64, ExternalError> {
        if self.block_bytes == 0 {
            return invalid("the external memory model needs blocks of a byte at least");
        }
        let bytes = u64::from(self.block_bytes);
        let (read_count, write_count) = trace.touched_blocks(bytes, bytes);
        Ok(read_count + write_count)
    }
}
