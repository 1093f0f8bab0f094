//! One request of a workload, and where requests come from: a trace or a generator.
//!
//! ```text
//!   file ─► lines ─► format ─► replay ─┐
//!                                      ├─► RequestSource ─► simulator, probe
//!   WorkloadSpec ─► generator ─────────┘
//! ```
//!
//! 1. `at` never falls from one request of a source to the next; the first is at zero.
//! 2. A read, write or trim has a length and ends at or before the capacity that its source was
//!    made for; a flush has offset and length zero.
//! 3. A source that ended, or failed, gives no more requests.

use crate::TraceError;
use nandu_base::Nanos;
use nandu_device::Operation;
use serde::{Deserialize, Serialize};

/// One request to a storage device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceRequest {
    /// When it arrives, since the first request.
    pub at: Nanos,
    /// Whether it reads, writes, trims or flushes.
    pub operation: Operation,
    /// Where it begins, in bytes from the start of the device.
    pub offset_bytes: u64,
    /// How many bytes it has.
    pub length_bytes: u64,
    /// Which of the host's streams it belongs to: the number of a trace's device in order of first
    /// appearance (the last one shared by all from 255 on), or a class of a generator.
    pub stream: u8,
}

/// Whether the times of a source mean anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Pacing {
    /// Requests arrive at their time, whether or not the device keeps up.
    #[default]
    Open,
    /// All times are zero: a request is issued when an earlier one is done and the host has thought.
    Closed {
        /// From a completion to the next request.
        think_ns: Nanos,
    },
}

/// What happened to the lines of a trace so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceStatistics {
    /// Requests given out, after filtering and splitting.
    pub request_count: u64,
    /// Lines (of a binary trace: chunks) read.
    pub line_count: u64,
    /// Bad lines left out, or requests of a bad chunk; without `skip_bad` the first one is an error.
    pub skipped_count: u64,
    /// The first of them, with its line.
    pub first_skipped: Option<String>,
    /// Requests left out by the device filter.
    pub filtered_count: u64,
    /// Requests whose time lay before that of the one above; they were given its time.
    pub reordered_count: u64,
    /// Devices or volumes seen.
    pub device_count: u64,
}

/// A stream of requests.
pub trait RequestSource: Send {
    /// Appends up to `limit` requests to `batch`; none appended means the end. A request that had to
    /// be split may take its source past `limit` by its further parts.
    ///
    /// # Errors
    /// Input that cannot be understood, with its line. Requests before it have been appended.
    fn next_batch(&mut self, batch: &mut Vec<TraceRequest>, limit: usize)
    -> Result<(), TraceError>;

    /// Whether requests come at their times or after completions.
    fn pacing(&self) -> Pacing {
        Pacing::Open
    }

    /// What this is, in words: the format and how it was recognised, or the workload.
    fn description(&self) -> String {
        "requests".into()
    }

    /// Asserts the numbered invariants of the source, as far as they can be seen from inside.
    fn audit(&self) {}

    /// What happened so far.
    fn statistics(&self) -> SourceStatistics {
        SourceStatistics::default()
    }
}
