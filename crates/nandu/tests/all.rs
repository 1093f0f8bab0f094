//! Tests from outside, in one program: it is linked once, and those of several files run side by side.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod back_up;
mod bad_places;
mod damaged_databases;
mod engine_on_files;
mod enough_by_itself;
mod external_leftovers;
mod joins;
mod log_size;
mod other_directories;
mod shared_directories;
mod simulated;
mod sqlite_reads_us;
