//! What an algorithm costs by the models that chapters 1 and 5 of S002 name, from one trace of its
//! requests: counts for theory, times for a drive.
//!
//! ```text
//!   algorithm ──► requests of a store ─┐
//!                                      ├─► Trace ──► CostModel ──► blocks, bytes or nanoseconds
//!   predict: the same by rule, before ─┤
//!                                      └─► Tally, which keeps no request ──► nanoseconds
//!   predict: what is done beside, by phase ──► Processor, measured before ──► nanoseconds
//! ```
//!
//! | model | cost |
//! | --- | --- |
//! | external memory (Aggarwal and Vitter 1988) | blocks of B bytes that are moved |
//! | asymmetric (S002, 5) | x + c y, where a write costs c reads |
//! | two blocks (S002, 5) | a x + b y, reads of B_R bytes, writes of B_W > B_R |
//! | unit cost (Ajwani, Beckmann, Jacob, Meyer, Moruz 2009) | x B_R + y B_W bytes |
//! | general flash (the same) | any function of a request's bytes, for reads and for writes |
//! | affine | a setup where a request does not go on from the last one, and so much a byte |
//! | probed | a request by what the drive was measured to take for such, and for streams side by side |
//! | drive | what a drive takes that is asked the same: all of them are guesses at it |
//!
//! 1. With c = 1 the asymmetric model counts what external memory does, and with B_R = B_W = B unit
//!    cost is B times that.
//! 2. No model knows what is in a block, and none but the drive knows what came before the trace.

mod affine;
mod asymmetric;
mod drive;
mod external_memory;
mod general;
pub mod predict;
#[cfg(feature = "probed")]
mod probed;
mod processor;
#[cfg(feature = "probed")]
mod tally;
mod trace;
mod two_blocks;
mod unit_cost;

pub use affine::{Affine, Line};
pub use asymmetric::Asymmetric;
pub use drive::Drive;
pub use external_memory::ExternalMemory;
pub use general::General;
#[cfg(feature = "probed")]
pub use probed::Probed;
pub use processor::{Processor, Work};
#[cfg(feature = "probed")]
pub use tally::Tally;
pub use trace::{Access, Requests, Trace};
pub use two_blocks::TwoBlocks;
pub use unit_cost::UnitCost;

use crate::ExternalError;
use std::fmt::{self, Debug, Display, Formatter};

/// In what a cost is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostUnit {
    /// Blocks, those written weighed by the model.
    Blocks,
    /// Bytes that are moved.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
}

impl Display for CostUnit {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Blocks => "blocks",
            Self::Bytes => "bytes",
            Self::Nanoseconds => "ns",
        })
    }
}

/// A model of what requests cost.
pub trait CostModel: Debug {
    /// In what it tells.
    fn unit(&self) -> CostUnit;

    /// What all requests of `trace` cost.
    ///
    /// # Errors
    /// If the model's parameters make no sense for them, or a drive fails.
    fn cost(&self, trace: &Trace) -> Result<u64, ExternalError>;
}

fn invalid<T>(what: &str) -> Result<T, ExternalError> {
    Err(ExternalError::Invalid { what: what.to_owned() })
}

#[cfg(test)]
mod tests;
