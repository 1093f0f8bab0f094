//! Floor 2: several members as one store, as S000 chapter 8 has it. A block becomes fragments by
//! Rabin's dispersal; a [`Layout`] says how many, how many of them are needed, and where they lie.
//!
//! ```text
//!   Layout ── which code: one copy │ stripe │ replication │ parity │ any m of f over n
//!       │
//!       ├── chapter8   the thesis' simulator: closed workers over members that only take time
//!       └── drive      a device over devices, with checksums, failures and repairs
//! ```
//!
//! Absent on purpose: what a member is. It is a service time or a `Device`, and no more.

pub mod chapter8;
pub mod drive;

mod error;
mod layout;

pub use drive::{
    AdaptiveConfig, ArrayConfig, ArrayDevice, MemberDevice, MemberState, MemberTimes, WriteReturn,
};
pub use error::ArrayError;
pub use layout::{Layout, MEMBER_COUNT_MAX, StandardLayout};
