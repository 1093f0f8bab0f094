//! Floor 2: what is asked of a drive. Traces of many formats, read in constant memory; generators;
//! a compact trace of our own and the device that records it; the trace of an engine's pages.
//!
//! A [`RequestSource`] gives [`TraceRequest`]s; who uses it does not know whether they were recorded
//! or made up. [`open_trace`] reads a file of any [`TraceFormat`], recognised by content;
//! [`WorkloadSpec`] is a generator as a line of text.
//!
//! Absent on purpose: what a drive does with a request.

pub mod address_map;
pub mod compact;
pub mod compression;
pub mod engine_trace;
pub mod error;
mod field;
pub mod format;
pub mod lines;
mod objects;
pub mod options;
pub mod page_writes;
mod records;
pub mod replay;
pub mod request;
pub mod trace_recorder;
pub mod unique_pages;
pub mod workload;

pub use address_map::AddressMap;
pub use compact::CompactWriter;
pub use engine_trace::{EngineTraceReader, EngineTraceWriter};
pub use error::TraceError;
pub use format::TraceFormat;
pub use options::{SpeedUp, TraceOptions};
pub use page_writes::{PageWriteOptions, PageWriteStatistics, page_writes};
pub use replay::{open_reader, open_trace};
pub use request::{Pacing, RequestSource, SourceStatistics, TraceRequest};
pub use trace_recorder::TraceRecorder;
pub use unique_pages::UniquePages;
pub use workload::WorkloadSpec;
