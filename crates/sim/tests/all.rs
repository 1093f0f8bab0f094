//! Tests from outside, in one program: it is linked once, and those of several files run side by side.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cache;
mod checks;
mod hostile_settings;
mod modes;
mod oracles;
mod page_types;
mod theory;
mod usage;
