//! Floor 4: operators over stored tables: scans, sort, joins, what they cost, and which to take.
//!
//! What the parts are and why: `docs/decisions/008-query-operators.md`.
//!
//! Absent on purpose: SQL, Arrow, async, and any knowledge of what kind of drive lies below.

pub mod allocation;
pub mod columns;
pub mod cost;
pub mod error;
pub mod execution;
pub mod index;
pub mod join;
pub mod key;
mod kind;
pub mod plan;
pub mod relation;
pub mod sort;
pub mod spill;
pub mod testing;
pub mod tuple;
pub mod work;
mod workers;

pub use error::QueryError;
pub use execution::{Execution, Limits};
pub use key::Key;
pub use kind::JoinKind;
pub use relation::{Relation, TupleStream};
pub use sort::Sort;
pub use tuple::{Area, PairBatch, Tuple, TupleBatch};
pub use work::Work;
