//! What a processor takes to code a block, which S000 section 8.4 leaves out.
//!
//! ```text
//!   write   think ─► encode ─► fragments ─► m-th done
//!   read    think ─► fragments ─► m-th done ─► decode
//! ```
//!
//! 1. A fragment that is computed costs a pass over the whole block: m fragments of 1/m of it.
//! 2. Where one fragment gives a block back, fragments are copies and nothing is computed.
//! 3. [`CodingMatrix::Systematic`]: the first m fragments are the data. A write computes the others, a
//!    read as many as it reads of the others.
//! 4. [`CodingMatrix::Dense`]: every fragment is coded. A write computes all f, a read all m.
//! 5. Each worker has a processor to itself; nobody waits for one.

use crate::{ArrayError, Layout};
use nandu_base::Nanos;
use serde::{Deserialize, Serialize};

/// What it costs to encode and decode fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coding {
    /// Which fragments are coded.
    pub matrix: CodingMatrix,
    /// Bytes of blocks that are passed over a second, above 0.
    pub bytes_per_second: u64,
}

/// Which fragments are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CodingMatrix {
    /// Those past the first m: Cauchy's matrix below the identity.
    Systematic,
    /// All: the matrix of S000 section 8.3.
    Dense,
}

impl Coding {
    /// What a write takes before its fragments go out.
    pub(super) fn encode(self, layout: Layout, block_bytes: u32) -> Nanos {
        let (needed, written) = (layout.needed_count(), layout.written_count());
        let computed_count = match self.matrix {
            CodingMatrix::Systematic => written - needed,
            CodingMatrix::Dense => written,
        };
        self.time(layout, block_bytes, computed_count)
    }

    /// What a read takes after its fragments came, `coded_count` of them past the first m.
    pub(super) fn decode(self, layout: Layout, block_bytes: u32, coded_count: u8) -> Nanos {
        let computed_count = match self.matrix {
            CodingMatrix::Systematic => coded_count,
            CodingMatrix::Dense => layout.needed_count(),
        };
        self.time(layout, block_bytes, computed_count)
    }

    fn time(self, layout: Layout, block_bytes: u32, computed_count: u8) -> Nanos {
        if layout.needed_count() == 1 {
            return Nanos::ZERO;
        }
        let bytes = u64::from(block_bytes) * u64::from(computed_count);
        Nanos::of_transfer(bytes, self.bytes_per_second)
    }

    pub(super) fn check(self) -> Result<(), ArrayError> {
        if self.bytes_per_second == 0 {
            let what = "must be above 0; leave `coding` out where it costs nothing".into();
            return Err(ArrayError::Value { name: "bytes_per_second", what });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Microseconds of encoding and decoding, `coded_count` fragments read being coded ones.
    fn times(matrix: CodingMatrix, (needed, written): (u8, u8), coded_count: u8) -> (u64, u64) {
        let layout = Layout::new(4, needed, written).unwrap();
        let coding = Coding { matrix, bytes_per_second: 2_048_000_000 };
        let (encode, decode) =
            (coding.encode(layout, 2048), coding.decode(layout, 2048, coded_count));
        (encode.0 / 1000, decode.0 / 1000)
    }

    #[test]
    fn a_systematic_code_computes_what_is_not_data() {
        assert_eq!(times(CodingMatrix::Systematic, (3, 4), 0), (1, 0));
        assert_eq!(times(CodingMatrix::Systematic, (2, 4), 2), (2, 2));
        assert_eq!(times(CodingMatrix::Systematic, (4, 4), 0), (0, 0));
    }

    #[test]
    fn a_dense_code_computes_everything_and_copies_nothing() {
        assert_eq!(times(CodingMatrix::Dense, (4, 4), 0), (4, 4));
        assert_eq!(times(CodingMatrix::Dense, (3, 4), 0), (4, 3));
        assert_eq!(times(CodingMatrix::Dense, (1, 4), 0), (0, 0));
    }
}
