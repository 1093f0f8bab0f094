//! Heap files in SQLite's file format: a table is a database file that `sqlite3` opens, and any
//! rowid table that `sqlite3` wrote can be read (sqlite.org, Database File Format).
//!
//! ```text
//!   file: header, schema ──► schema: columns       heap: rows changed      bulk: rows loaded
//!     │                                              │ insert, space         │
//!     ▼                                              ▼                       ▼
//!   tree, scan: rows read ──► tree_page ──► record  edit: operations on one page (codes 0x10..)
//! ```
//!
//! 1. The engine's trailer lies in the bytes that SQLite leaves to others (header byte 20).
//! 2. After every action the pages are a valid database: `PRAGMA integrity_check` finds nothing.

pub mod affinity;
pub mod bulk;
pub mod check;
pub mod edit;
pub mod file;
mod grow;
pub mod header;
pub mod heap;
mod path;
pub mod record;
pub mod scan;
pub mod schema;
mod shrink;
mod space;
mod sql;
pub mod tree;
pub mod tree_page;
mod undo;
pub mod value;
pub mod varint;

pub use affinity::Affinity;
pub use bulk::BulkLoad;
pub use check::TableStat;
pub use edit::apply;
pub use file::{SchemaEntry, SqliteFile};
pub use header::{FileHeader, TextEncoding, check_beside, lock_byte_page};
pub use heap::{FillFactor, HeapTable};
pub(crate) use record::value_bytes;
pub use record::{RecordColumns, RecordView, encode_record, serial_type_bytes};
pub use scan::Scan;
pub use schema::{Column, TableSchema};
pub use tree::TableTree;
pub use tree_page::{LeafCell, TreePage};
pub use value::{Value, ValueRef, exact_real, real_in};
