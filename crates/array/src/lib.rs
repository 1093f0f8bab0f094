//! Floor 2: several members as one store, as S000 chapter 8 has it. A block becomes fragments by
//! Rabin's dispersal; a [`Layout`] says how many, how many of them are needed, and where they lie.
//!
//! ```text
//!   Layout ── which code: one copy │ stripe │ replication │ parity │ any m of f over n
//!   Placement ── which members hold a block's fragments
//!       │
//!   chapter8 ── the thesis' simulator: closed workers over members that only take time
//! ```
//!
//! Absent on purpose: what a member is. Here it is a service time; above, it is a device.

pub mod chapter8;

mod error;
mod layout;

pub use error::ArrayError;
pub use layout::{Layout, MEMBER_COUNT_MAX, Placement, StandardLayout};
