//! Floor 4: characterises any device from outside, through the contract alone.
//!
//! ```text
//!   plan, series, fio_job ──► Pattern ──► runner ──► PatternResult ──► profile, diagnosis
//!                                            │              └────────► table, parquet, JSON
//!                                         Device (real or simulated)
//! ```
//!
//! The experiment language is that of Ajwani et al. 2008 (S002), appendix A; the second standard
//! series is that of Myers 2008 (S000), chapter 3; the steady-state rule is SNIA's PTS.
//!
//! Absent on purpose: wall clocks, files and threads. Text comes in as strings, results go out
//! through writers, time is the device's.

pub mod error;
mod io_loop;
pub mod pattern;
pub mod plan;
pub mod runner;
pub mod text;

pub use error::ProbeError;
pub use pattern::{Access, Area, DataKind, Limit, Pattern};
pub use plan::{Plan, Preparation, Step, SweepRequestBytes, run_plan, run_self_scaling, run_step};
pub use runner::{
    Medians, Observer, PatternResult, RunResult, Silent, TimelinePoint, prepare, run_pattern,
};

#[cfg(test)]
mod tests;
