//! Floor 5: the engine for those who embed it, with the operating system under it.
//!
//! ```text
//!   your program ──► nandu ──► storage (the engine) ──► Volume ◄── DirectoryVolume ──► files
//!                                                              ◄── DeviceVolume ──► any Device
//! ```
//!
//! The engine knows neither files nor processes. Here are the directory that holds a database, the
//! lock against a second process, and direct I/O through io_uring.
//!
//! | feature | brings |
//! | --- | --- |
//! | `joins`, on by default | joins of two tables (`nandu::join`), by the cheapest plan in given memory |
//! | `simulated` | databases over simulated drives; without it no simulator is compiled |
//!
//! Rows are slices of values, or types of the program: tuples, or structs that serde knows (the example
//! `typed_rows`).

pub mod back_up;
pub mod directory_volume;
pub mod hostile;
#[cfg(feature = "joins")]
pub mod join;
pub mod named_settings;
pub mod open;
#[cfg(feature = "simulated")]
pub mod simulated;

pub use back_up::{BackUpOptions, BackUpProgress, BackUpReport, back_up, back_up_watched};
pub use directory_volume::{DirectIo, DirectoryOptions, DirectoryVolume};
#[cfg(feature = "joins")]
pub use join::join;
pub use nandu_base::{ByteCount, Nanos};
/// What a device is: the contract, for a [`DeviceVolume`] over one of your own.
pub use nandu_device as device;
pub use nandu_device::DeviceError;
pub use nandu_drives::file::EngineKind;
pub use nandu_storage::btree::Entry;
pub use nandu_storage::database::{
    Around, CheckReport, Column, ColumnType, Database, EngineView, EntryRange, EntryScan,
    FetchOrder, Flow, IndexDefinition, Isolation, LoadOptions, LoadReport, Mark, NameAccess,
    NewTable, ReadAs, ReadTransaction, Row, RowOrder, RowRange, RowScan, Snapshot, TableDefinition,
    TableKind, TableLoad, TableStat, Tables, TypedRows, WriteTransaction, check_name, values_of,
};
pub use nandu_storage::engine::{RestartReport, RestartStep, Settings, TornPages, Volumes};
pub use nandu_storage::log::{Durability, LogWritingKind};
pub use nandu_storage::pax::SPAN_PAGES_MAX;
pub use nandu_storage::pool::{PoolCounters, ReplacementKind};
pub use nandu_storage::propagation::log_structured::{PagePacking, SegmentVictimKind};
pub use nandu_storage::propagation::{
    ChangedRanges, InPageLoggingSettings, LogStructuredSettings, MediumKind, OtherMedium,
    PageDifferentialChipsSettings, PageDifferentialSettings, PageWatch, PageWrite,
    PropagationConfig, PropagationKind, PropagationSettings,
};
pub use nandu_storage::sqlite::{FillFactor, RecordColumns, RecordView, Value, ValueRef, real_in};
pub use nandu_storage::volume::{DeviceVolume, Volume};
pub use nandu_storage::{FileId, Lsn, PageAddress, StorageError};
pub use open::{DatabaseOptions, NewDatabase, create_database, open_database};
