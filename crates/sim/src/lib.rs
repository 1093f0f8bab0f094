//! Floor 4: simulations of flash: a translation layer straight over a chip array, fed by a trace or a
//! generator, with accounts that add up.
//!
//! ```text
//!   Sweep ─▶ Job ─┬─ DriveChoice ─ resolve ─▶ Setup ─ build ─▶ NandArray + Ftl
//!                 ├─ Input: workload or trace ──────▶ RequestSource ─┐
//!                 └─ RunConfig: mode, warm-up, checks ──▶ Simulation ◀┘ ─▶ SimReport
//! ```
//!
//! Absent on purpose: the controller, the link and the host of a drive (those are
//! `nandu_drives::ssd`), and the wall clock.

mod buffer;
mod cache;
mod closed;
mod config;
mod driver;
mod engine;
mod error;
mod event;
mod job;
mod observer;
mod recorder;
mod report;
mod setup;
mod shadow;
mod simulation;
mod sweep;
mod tee;
mod utilisation;
mod warning;

pub use cache::CacheUse;
pub use config::{Arrivals, InitialState, Mode, RunConfig};
pub use error::SimError;
pub use job::{Input, Job};
pub use observer::{Phase, SimObserver, Unwatched};
pub use report::{
    ClosedForm, ConfigEcho, EnergyUse, Lifetime, MapCacheUse, Merges, RequestCount, SimReport,
    Spread, TimeShare, UniquePageUse, shares_of, time_shares_of,
};
pub use setup::{DriveChoice, Setup};
pub use shadow::CheckSummary;
pub use simulation::{Measurement, Simulation};
pub use sweep::{Axis, Clock, Sweep, SweepProgress};
pub use tee::Record;
pub use warning::{Warning, WarningKind};

// What this crate's own values hold.
pub use nandu_ftl::FtlError;
pub use nandu_nand::{BusPolicy, Suspend, Usage, Waits};
pub use nandu_trace::TraceError;
