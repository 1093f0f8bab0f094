//! Loads of many clients over one database: the same code on a real disk and on a simulated drive.
//!
//! ```text
//!   plan ─► load: rows past the log ─► clients: each draws, waits, does ─► outcome
//!                                        │                                   rates, latencies, bytes
//!               threads, on a wall clock ┴ workers, on a virtual one
//! ```
//!
//! 1. What clients ask follows from the seed and from what they find, not from the machine.
//! 2. On a virtual clock the outcome is the same for a seed, bit for bit, and so is its `history`.
//! 3. A latency runs from when the operation was due, not from when its client came to it.
//!
//! `ycsb`, `tpox` and `tpcc` are the loads there are; another is a sibling of them behind [`Load`]. Of any
//! of them [`PageRecorder`] writes down what the pool reads and writes, and [`PageReplay`] does that again
//! over a propagation; [`TierReplay`] asks what tiers would have had of it.

mod clients;
mod error;
pub mod page_recorder;
pub mod page_replay;
mod retries;
pub mod tier_replay;
pub mod tpcc;
pub mod tpox;
pub mod ycsb;

pub use clients::{
    Client, Clock, FlashOutcome, Load, LogDeviceOutcome, OperationOutcome, Outcome, Plan, Server,
    Watch, run, run_watched,
};
pub use error::BenchError;
pub use nandu_workers::SwitchKind;
pub use page_recorder::PageRecorder;
pub use page_replay::PageReplay;
pub use retries::Retries;
pub use tier_replay::TierReplay;
