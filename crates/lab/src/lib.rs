//! Floor 6: experiments. A question in a TOML file becomes measurements, figures beside published
//! points, and verdicts.
//!
//! ```text
//!   experiments/*.toml ─► Experiment ─► kind: steps ─► StepResult ─┐   <out>/NAME/steps/NNN.json
//!                            │                                     ▼
//!                            └─ published, derived, shapes ──► Outcome ──► outcome.json, series.csv,
//!                                                                  │       table.md, meta.json
//!                                                              report.html
//! ```
//!
//! A new kind of measurement is a sibling in [`kind`]; a new claim is a variant of
//! [`claim::Claim`].
//!
//! Absent on purpose: the terminal. Progress goes to a [`RunObserver`], text comes back as strings.

mod catalog;
pub mod choose;
pub mod claim;
pub mod drive_costs;
pub mod error;
pub mod experiment;
pub mod fitted;
pub mod kept;
pub mod kind;
pub mod machine;
pub mod outcome;
pub mod perturb;
pub mod points;
mod product;
mod profile_text;
pub mod report;
pub mod run;
pub mod shape;
mod worth;

pub use catalog::{ExperimentEntry, list, load};
pub use error::LabError;
pub use experiment::{Experiment, Published};
pub use kind::ExperimentKind;
pub use outcome::{Outcome, Series, Verdict};
pub use report::{Report, write_report};
pub use run::{LocalTarget, Meta, RunObserver, RunOptions, Unwatched, keep, run, run_seeds};
pub use shape::{Class, Shape};
