//! Floor 3: records that do not fit into memory, on one volume or several. What graph algorithms
//! and sorts need of a library such as STXXL (Dementiev, Kettner, Sanders, 2008): vectors and
//! streams over blocks of temporary files, with memory from one account and requests in flight.
//!
//! ```text
//!   algorithms        your loop over streams
//!   structures        Vector, its scanner, writer and pages
//!   blocks            Store: files on volumes, extents, flights, checksums
//!   memory            Grant: every buffer comes from it
//! ```
//!
//! Absent on purpose: tables, keys of rows, kinds of drives, clocks of its own. What an algorithm
//! costs in blocks follows from its input and its memory alone; what it costs in time is the
//! device's answer.

pub mod basic;
pub mod cost;
mod error;
pub mod graph;
pub mod list_ranking;
mod loser_tree;
mod memory;
mod priority_queue;
mod queue;
mod record;
pub mod search;
pub mod sort;
mod stack;
mod store;
mod stream;
pub mod testing;
pub mod tournament;
mod vector;
mod volumes;

pub use error::ExternalError;
pub use memory::{Grant, Memory};
pub use nandu_storage::volume::Io;
pub use priority_queue::PriorityQueue;
pub use queue::Queue;
pub use record::{By, Natural, Order, Record};
pub use sort::{SortedStream, Sorter};
pub use stack::Stack;
pub use store::{
    FileKind, IoCounts, KeptStore, KeptVector, Layout, Settings, Store, TRAILER_BYTES,
    TemporaryFile,
};
pub use stream::{Ahead, Mapped, RecordStream};
pub use vector::{Drain, Gathered, Gatherer, PagedVector, Scanner, Vector, VectorWriter};
pub use volumes::on_one_clock;
