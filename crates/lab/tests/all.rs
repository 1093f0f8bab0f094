//! Tests from outside, in one program: it is linked once, and those of several files run side by side.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod database;
mod experiment_keys;
mod joins;
mod report;
mod run;
