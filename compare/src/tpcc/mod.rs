//! TPC-C beside SQLite and PostgreSQL, on this disk: `cargo xtask compare-tpcc`. The same five transactions
//! of the same terminals, serializable, each commit synced.
//!
//! ```text
//!   Tpcc ─► a database of each store, loaded once
//!             └► each round: a copy ─► a process inside the control group
//!                  sessions ─► warm-up ─► measured ─► twelve conditions ─► close
//!         ─► medians ─► results/MACHINE/compare-tpcc
//! ```
//!
//! 1. Inputs are drawn by `nandu_bench::tpcc::Terminal`, the same for all.
//! 2. A run counts only if all twelve conditions hold after it and as many orders are there as were
//!    committed; else the comparison ends with an error.
//! 3. With one client all contenders have shown the same on their terminals, or it ends, too.
//! 4. Contenders alternate: each round begins with another one.
//!
//! How each is set stands in `docs/compare-tpcc.md`.

mod clients;
mod conditions;
mod contender;
mod functions;
mod libpq;
mod nandu;
mod plan;
mod postgresql;
mod process;
mod sql;
mod sqlite;
mod table;
#[cfg(test)]
mod tests;
mod transactions;

pub(crate) use plan::{Options, run};
pub(crate) use process::run_as_process;

/// The first word of the command line of this comparison.
pub(crate) const COMPARISON: &str = "tpcc";
/// The first word of the command line of one of its processes.
pub(crate) const SUBCOMMAND: &str = "tpcc-run";
