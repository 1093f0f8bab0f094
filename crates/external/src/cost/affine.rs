//! The affine model (Andrews, Bender, Zhang 2002; Bender and others 2021): a request takes a setup and
//! then as long as its bytes; one that goes on where the last one of its volume ended takes its bytes
//! alone. A disk has one arm, which reads and writes move; on flash what is written goes on also where
//! something was read in between.

use super::{CostModel, CostUnit, Trace};
use crate::ExternalError;
use nandu_base::Nanos;

/// Times of requests of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// What it takes to begin, beside its bytes.
    pub setup_ns: Nanos,
    /// Picoseconds for each byte: 1000 are 1 GB/s.
    pub byte_ps: u64,
}

/// A setup and so much a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Affine {
    /// What requests take that read.
    pub read: Line,
    /// What requests take that write.
    pub write: Line,
    /// Whether a request of the other direction in between makes a setup, as on a disk.
    pub one_arm: bool,
}

impl Line {
    /// The line through what a request takes anywhere and what one takes that goes on from the last.
    #[must_use]
    pub fn through(anywhere_ns: Nanos, going_on_ns: Nanos, byte_count: u32) -> Self {
        let byte_ps = going_on_ns.0.saturating_mul(1000) / u64::from(byte_count.max(1));
        Self { setup_ns: anywhere_ns.saturating_sub(going_on_ns), byte_ps }
    }
}

impl CostModel for Affine {
    fn unit(&self) -> CostUnit {
        CostUnit::Nanoseconds
    }

    fn cost(&self, trace: &Trace) -> Result<u64, ExternalError> {
        // Where the last request ended, of each direction.
        let mut ends = vec![[None; 2]; trace.volume_count() as usize];
        let (mut setup_ns, mut moved_ps) = (0_u64, 0_u128);
        for access in trace.accesses() {
            let line = if access.is_write { self.write } else { self.read };
            let ends = &mut ends[access.volume as usize];
            if ends[usize::from(access.is_write)] != Some(access.offset_bytes) {
                setup_ns = setup_ns.saturating_add(line.setup_ns.0);
            }
            moved_ps += u128::from(line.byte_ps) * u128::from(access.byte_count);
            if self.one_arm {
                ends[usize::from(!access.is_write)] = None;
            }
            ends[usize::from(access.is_write)] = Some(access.end_bytes());
        }
        let moved_ns = u64::try_from(moved_ps / 1000).unwrap_or(u64::MAX);
        Ok(setup_ns.saturating_add(moved_ns))
    }
}
