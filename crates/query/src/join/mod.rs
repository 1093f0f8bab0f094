//! The seven joins.

pub mod kind;

pub use kind::JoinKind;
