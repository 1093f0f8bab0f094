//! Tests from outside, in one program: it is linked once, and those of several files run side by side.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod estimates;
mod late;
mod pools;
mod times;
mod trouble;
mod write_budget;
