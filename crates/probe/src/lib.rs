//! Floor 2: characterises any device from outside, through the contract alone.
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

pub mod burst;
pub mod diagnosis;
pub mod endurance;
pub mod error;
pub mod figures;
mod fio_job;
mod fio_refused;
mod fit;
mod io_loop;
pub mod parquet;
pub mod pattern;
pub mod plan;
pub mod profile;
pub mod runner;
pub mod series;
pub mod steady_state;
pub mod streams;
pub mod table;
pub mod text;

pub use burst::{BurstOptions, BurstResult, run_burst};
pub use diagnosis::{DiagnosisInput, Finding, Severity, diagnose};
pub use endurance::{EnduranceOptions, EndurancePoint, EnduranceResult, run_endurance};
pub use error::ProbeError;
pub use fio_job::{CachePath, FioJobs, FioNote, FioNoteKind, parse_fio_job};
pub use pattern::{Access, Area, DataKind, Limit, Pattern};
pub use plan::{Plan, Preparation, Step, SweepRequestBytes, run_plan, run_self_scaling, run_step};
pub use profile::{DeviceProfile, derive};
pub use runner::{
    Medians, Observer, PatternResult, RunResult, Silent, TimelinePoint, empty_cache, prepare,
    run_pattern,
};
pub use series::{
    MisalignmentOptions, QuickOptions, SeriesOptions, series_misalignment, series_quick,
    series_s000, series_s002,
};
pub use steady_state::{SteadyState, SteadyStateOptions, detect, run_until_steady};
pub use streams::{StreamKind, StreamOptions, StreamPoint, StreamProfile, measure_streams};

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
