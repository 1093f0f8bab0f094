//! Floor 4: operators over stored tables: scans, sort, seven joins, what they cost, and which to take.
//!
//! Absent on purpose: SQL, Arrow, async, and any knowledge of what kind of drive lies below.

pub mod allocation;
pub mod error;
pub mod join;

pub use error::QueryError;
pub use join::JoinKind;
