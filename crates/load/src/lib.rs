//! Floor 4: rows from outside into tables: generated ones, CSV, Parquet, files of SQLite.
//!
//! ```text
//!   Dataset (TPC-H, S001, S000) ─┐
//!   CsvRows                      ├─► RowSource ─► load_tables ─► Database::write … load_table … commit
//!   ParquetRows, SqliteRows     ─┘                    └─► LoadObserver: how far, stop?
//! ```
//!
//! The tables of TPC-C (`tpcc`) are made in one pass (`Tpcc::store`). Documents of XML (`tpox`) are texts, or
//! documents of a database (`Tpox::store`).
//!
//! A simulated drive is loaded like a real one: the database is the caller's.
//!
//! ```
//! use nandu_load::{Dataset, Layout, RowWidth, TpchTable, load_tables};
//! # use nandu_device::{Geometry, MemoryConfig, MemoryDevice};
//! # use nandu_storage::{Database, Settings, Volumes, volume::DeviceVolume};
//! # let geometry = Geometry { sector_bytes: 512, sector_count: 96 << 11 };
//! # let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
//! # let data = Box::new(DeviceVolume::format(Box::new(device)).unwrap());
//! # let (log_bytes, checkpoint_bytes) = (4 << 20, 1 << 20);
//! # let settings = Settings { log_bytes, checkpoint_bytes, ..Settings::default() };
//! # let database = Database::create(Volumes::new(data, None), &settings, 1).unwrap();
//! // A hundredth of the tables that S001 joins, both in random order.
//! let dataset = Dataset::new(RowWidth::S001, 0.3);
//! let tables = [TpchTable::Customer, TpchTable::Orders];
//! let mut jobs = dataset.jobs(&tables, &Layout::default(), &Default::default())?;
//! let reports = load_tables(&database, &mut jobs, &mut ())?;
//! assert_eq!((reports[0].row_count, reports[1].row_count), (45_000, 450_000));
//! # Ok::<(), nandu_load::LoadError>(())
//! ```
//!
//! Absent on purpose: terminals, wall clocks, and any knowledge of what lies below a database.

pub mod csv_file;
pub mod dataset;
pub mod error;
pub mod job;
pub mod keyed;
pub mod parquet_file;
pub mod parquet_writer;
pub mod source;
pub mod sqlite_file;
mod text;
pub mod tpcc;
pub mod tpch;
pub mod tpox;

pub use csv_file::{CsvOptions, CsvRows};
pub use dataset::{Dataset, IndexOn, KeyOrder, Layout, LayoutKind, RowWidth};
pub use error::LoadError;
pub use job::{LoadJob, LoadObserver, load_tables};
pub use nandu_storage::database::{LoadOptions, LoadReport, NewTable, RowOrder};
pub use parquet_file::ParquetRows;
pub use parquet_writer::ParquetWriter;
pub use source::{RowSink, RowSource};
pub use sqlite_file::SqliteRows;
pub use tpcc::{Tpcc, TpccScale, TpccTable};
pub use tpch::{TpchComments, TpchTable};
pub use tpox::{Tpox, TpoxCollection, TpoxIndexes, TpoxObserver, TpoxText};
