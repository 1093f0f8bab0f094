//! Floor 1: a NAND chip array with its laws, its time and its energy.
//!
//! Whose ideas: S000 section 2.1 and S002 section 3.1 for the laws, manufacturers' data sheets for
//! program order, partial programs, multi-plane commands and copy-back. The array has no translation
//! layer. A command changes cells when it is issued and answers a ticket; the schedule says when it ends.
//!
//! ```text
//! NandProfile ── resolve ──▶ NandConfig ── new ──▶ NandArray
//!  (preset + overrides)       geometry, timing,      ├─ cells     laws, tags, wear
//!                             energy, rules          ├─ timeline  dies, channels, scheduling
//!                                                    └─ journal   what a power cut undoes
//! ```

mod array;
mod commands;
mod error;
mod events;
mod geometry;
mod power;
mod presets;
mod rules;
mod schedule;
mod scheduling;
mod ticket;
mod timing;

pub use array::{
    Accounting, Content, ERASED_TAG, METADATA_TAG, NO_LPN, NandArray, NandConfig, Payload,
    SpareView,
};
pub use commands::{PagePart, Piece, RowRead};
pub use error::NandError;
pub use events::{BusPolicy, Usage, Waits};
pub use geometry::{Divisor, Geometry};
pub use presets::{ChipOverrides, ChipPreset, NandProfile, preset, presets};
pub use rules::{ProgramOrder, Rules};
pub use scheduling::{Scheduling, Service, Suspend};
pub use ticket::Ticket;
pub use timing::{ChipEnergy, Energy, PageTypes, Supply, Timing};
