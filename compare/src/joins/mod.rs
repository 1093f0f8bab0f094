//! Nandu's joins beside DuckDB, DataFusion and SQLite under memory limits, side by side in one run:
//! `cargo xtask compare-joins`. The join is that of S001 (TPC-H customer and orders, full tuples, both
//! in random order), the question whether what it found of disks holds against engines of today; three
//! other joins are such as column stores are good at.
//!
//! ```text
//!   stock: environment of Python ─► tables as generated ─► shuffled Parquet ─► databases
//!   plan: for each scale, query, headroom, threads, limit, repetition, contender
//!            └► a process inside a memory limit, on so many cores ─► one row, what it took
//!         ─► rows compared ─► medians ─► results/MACHINE/compare-joins/SCALE/QUERY
//! ```
//!
//! What is asked and how each contender is set stands in `docs/compare-joins.md`.

mod contender;
mod nandu;
mod plan;
mod process;
mod query;
mod results;
mod stock;
mod table;

pub(crate) use plan::{Options, run};
pub(crate) use process::run_as_process;

/// The first word of the command line of this comparison.
pub(crate) const COMPARISON: &str = "joins";
/// The first word of the command line of one of its runs; the second is the job.
pub(crate) const SUBCOMMAND: &str = "join";
