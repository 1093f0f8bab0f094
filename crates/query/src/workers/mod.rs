//! Several workers on one operator: where they meet, and how they divide what they read.
//!
//! ```text
//!   morsels.rs   a side of a join, or what is sorted, in parts that are taken one after the other
//!   barrier.rs   threads that go through the same steps, and what each has for the others
//! ```

mod barrier;
mod morsels;

pub(crate) use barrier::{Barrier, run_workers};
pub(crate) use morsels::{Morsels, Part};
