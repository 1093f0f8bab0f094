//! Floor 6: a seeded simulator of workload, device and faults over the whole storage engine.
//!
//! ```text
//!   seed ─► Scenario: page size, pool, torn pages, durability, operations, faults, drive
//!             │
//!             ▼  several lives
//!   open ─► transactions on tables ─► cut, failed request, or closed in order ─► open …
//!             │                                                                   │
//!             └─► model: states that a reopening may show ─────────── compare, check, audit
//! ```
//!
//! 1. What happens follows from the seed alone: the same seed gives the same requests, byte by byte.
//! 2. A reopened database shows the state after some commit, and none older than the last that was
//!    promised to be durable.
//! 3. Nothing that was not committed is ever seen, and every page, tree and reference is sound.
//! 4. Nothing fails without a reason: a fault in the same life, or no room. Faults off, the database
//!    works again.
//! 5. Where bits flipped, rows are right or damage is told.
//!
//! Many clients at once are checked by what they saw ([`run_crowd`]), terminals of TPC-C by what they were to
//! leave.
//!
//! The database lies on sectors in memory, as a whole or file by file, or on simulated SSDs ([`WorldKind`]). Beside seeds
//! there is a walk that leaves no request out ([`cut_at_every_request`]).
//!
//! Bugs can be planted ([`Bug`]), in the device and in the engine, and a campaign has to find them
//! ([`find_planted`]).

mod bug;
mod crowd;
mod documents;
mod drive;
mod exhaustive;
mod fault;
mod files_apart;
mod life;
mod model;
mod outcome;
mod planted;
mod room;
mod scenario;
#[cfg(test)]
mod tests;
mod told;
mod tpcc;
mod watched;
mod workload;
mod world;

pub use bug::Bug;
pub use crowd::threads::{KilledLife, Survivor, Word, work_on_threads};
pub use crowd::{CLIENT_COUNT_MAX, run_crowd};
pub use documents::threads::{SurvivingDocument, Update, update_on_threads};
pub use drive::{Drive, LAYER_COUNT};
pub use exhaustive::{RESTART_STEP, cut_at_every_request};
pub use life::run_seed;
pub use outcome::{Outcome, Violation};
pub use planted::{PlantedBug, find_planted, run_planted};
pub use scenario::{Faults, Scenario};
pub use workload::{Workload, replay_command};
pub use world::WorldKind;
pub use world::chips::ChipLaws;
