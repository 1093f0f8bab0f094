//! Floor 2: the storage engine, on anything that keeps the device contract.
//!
//! ```text
//!   database: tables, rows, indexes
//!      │
//!   btree   sqlite (heap tables)   pax          structures: see ReadPages and ChangePages only
//!      │ read, change │
//!      ▼              ▼
//!   engine: transactions, actions, recovery ──► log ──────────┐
//!      │                                                      │
//!      ▼                                                      ▼
//!   pool: frames, replacement ──► propagation ──► volume: named files ──► device::Device
//!                                 in place │ log-structured
//! ```
//!
//! How the parts fit and why: `docs/decisions/007-storage-engine.md`.
//!
//! Absent on purpose: any knowledge of what kind of drive lies below, and any operating system.

pub mod access;
pub mod btree;
pub mod database;
pub mod engine;
pub mod error;
pub mod hostile;
pub mod log;
pub mod page;
pub mod pax;
pub mod plant;
pub mod pool;
pub mod propagation;
pub mod sqlite;
pub mod tier;
pub mod volume;

pub use access::{ChangePages, ReadPages};
pub use database::Database;
pub use engine::{Engine, Settings, Volumes};
pub use error::StorageError;
pub use page::{Checksum, FileId, Lsn, PageAddress, PageOperation};
pub use pool::{Pool, PoolConfig};
pub use volume::{FileRequest, Volume};
