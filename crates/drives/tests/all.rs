//! Tests from outside, in one program: it is linked once, and those of several files run side by side.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod energy;
mod every_make;
mod raw_flash;
mod ssd_power;
