//! The unit-cost flash model (Ajwani, Beckmann, Jacob, Meyer and Moruz, SEA 2009): a byte costs one, and
//! bytes are moved in blocks, of B_R to read and of B_W to write.

use super::{CostModel, CostUnit, Trace, invalid};
use crate::ExternalError;

/// Counts bytes of whole blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitCost {
    /// B_R, in bytes.
    pub read_block_bytes: u32,
    /// B_W, in bytes.
    pub write_block_bytes: u32,
}

impl CostModel for UnitCost {
    fn unit(&self) -> CostUnit {
        CostUnit::Bytes
    }

    fn cost(&self, trace: &Trace) -> Result<u64, ExternalError> {
        if self.read_block_bytes == 0 || self.write_block_bytes == 0 {
            return invalid("the unit-cost model needs blocks of a byte at least");
        }
        let (read_bytes, write_bytes) =
            (u64::from(self.read_block_bytes), u64::from(self.write_block_bytes));
        let (read_count, write_count) = trace.touched_blocks(read_bytes, write_bytes);
        Ok(read_count * read_bytes + write_count * write_bytes)
    }
}
