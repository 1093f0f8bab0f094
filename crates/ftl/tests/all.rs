//! Tests from outside, in one program: it is linked once, and those of several files run side by side.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_blocks;
mod checkpoint;
mod cleaning;
mod common;
mod dftl;
mod hybrid_oracles;
mod limits;
mod mode_equality;
mod model;
mod oracles;
mod published_orders;
mod random_bursts;
mod runs;
