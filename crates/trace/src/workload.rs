//! A workload as one line of text: `zipf:0.9,read=30,size=4KiB,rate=10000`.
//!
//! ```text
//!   workload = kind [":" item {"," item}]
//!   item     = key "=" value            common keys: see KEYS
//!            | value                    what the kind is about: theta, classes, variant
//! ```
//!
//! Kinds: uniform, permuted, sequential, zipf (Gray et al. 1994 and SSD-iq's shuffled form), zones
//! (classes as SSD-iq writes them, `s` for the share of the space and `f` for that of the accesses),
//! oltp (three clustered classes chosen by a published row of FAST), jesd219.
//!
//! 1. All shares are integers in parts per billion; no float takes part in drawing, but for Zipf.
//! 2. Text and value agree: parsing what a spec displays gives the spec.

mod addresses;
mod arrivals;
mod generator;
mod grammar;

pub use generator::Generator;

use crate::TraceError;
use nandu_base::{Nanos, to_index};
use serde::{Deserialize, Serialize};

/// One whole, in parts per billion.
pub(crate) const WHOLE_PPB: u32 = 1_000_000_000;

/// A class of slots: a share of the accesses falls on a share of the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Part of all slots, in parts per billion; all classes add up to one whole.
    pub space_ppb: u32,
    /// Part of all accesses, in parts per billion; all classes add up to one whole.
    pub access_ppb: u32,
}

/// Which slot is next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkloadKind {
    /// Every slot is as likely as any other.
    Uniform,
    /// Every slot once in random order, then again in another order.
    Permuted,
    /// One after the other, from the first again after the last.
    Sequential,
    /// The slot of rank k with weight 1 / k^theta.
    Zipf {
        /// Skew in parts per million; 0 is uniform.
        theta_ppm: u32,
    },
    /// Classes, uniform inside each; the stream of a request is the number of its class.
    Zones {
        /// From the first slots to the last, at most 256.
        classes: Vec<Class>,
    },
}

/// When requests arrive: by a clock of their own, or after completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Arrival {
    /// All at zero; see [`crate::Pacing::Closed`].
    Closed {
        /// From a completion to the next request.
        think_ns: Nanos,
    },
    /// Evenly, so many in a second.
    Fixed {
        /// How many requests arrive in a second.
        per_second: u64,
    },
    /// With exponential gaps (a Poisson process), so many in a second on average.
    Exponential {
        /// How many requests arrive in a second, on average.
        per_second: u64,
    },
}

/// A share of the requests that has one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeShare {
    /// Bytes of the request.
    pub size_bytes: u64,
    /// Part of the requests in percent; all add up to 100.
    pub percent: u8,
}

/// A generator's description. Made by [`WorkloadSpec::parse`]; serialised as its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WorkloadSpec {
    /// How the slot of the next request is chosen.
    pub kind: WorkloadKind,
    /// Whether popular slots, or slots of one class, are neighbours. Without meaning for uniform,
    /// permuted and sequential.
    pub clustered: bool,
    /// Part of the requests that read, in parts per billion.
    pub read_ppb: u32,
    /// Part of the requests that trim, in parts per billion; the rest writes.
    pub trim_ppb: u32,
    /// Sizes with their shares; empty means the drive's unit.
    pub sizes: Vec<SizeShare>,
    /// Distance of slots; absent means the size where there is one, else the drive's unit.
    pub align_bytes: Option<u64>,
    /// Byte at which the used part of the drive starts.
    pub start_bytes: u64,
    /// Length of the used part; absent means up to the end.
    pub area_bytes: Option<u64>,
    /// When requests arrive.
    pub arrival: Arrival,
    /// A flush follows every so many writes; 0 for none. It is a request beyond those counted here.
    pub flush_every: u64,
    /// How many requests there are before the end; absent means no end.
    pub request_count: Option<u64>,
}

impl WorkloadSpec {
    /// Reads a workload; docs/workloads.md has the grammar.
    ///
    /// # Errors
    /// [`TraceError::Workload`] with the nearest valid kind or key.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        grammar::parse(text).map_err(|message| TraceError::Workload { text: text.into(), message })
    }

    /// The requests of this workload to a drive of `capacity_bytes`, whose smallest unit that makes
    /// sense to write is `unit_bytes`. The same seed gives the same requests for ever.
    ///
    /// # Errors
    /// [`TraceError::Workload`] if the drive is too small for a request or a class.
    pub fn source(
        &self,
        capacity_bytes: u64,
        unit_bytes: u64,
        seed: u64,
    ) -> Result<Generator, TraceError> {
        Generator::new(self, capacity_bytes, unit_bytes, seed)
            .map_err(|message| TraceError::Workload { text: self.to_string(), message })
    }

    /// How many streams its requests are of.
    #[must_use]
    pub fn stream_count(&self) -> usize {
        match &self.kind {
            WorkloadKind::Zones { classes } => classes.len(),
            _ => 1,
        }
    }

    /// The stream in which the same [`Self::source`] writes each unit of the drive, or would if the
    /// class of the unit were accessed; 0 outside the part that it uses. Where slots of several streams
    /// lie in one unit, that of the last in rank.
    ///
    /// # Errors
    /// As [`Self::source`].
    pub fn unit_streams(
        &self,
        capacity_bytes: u64,
        unit_bytes: u64,
        seed: u64,
    ) -> Result<Vec<u8>, TraceError> {
        let source = self.source(capacity_bytes, unit_bytes, seed)?;
        let mut streams = vec![0; to_index(capacity_bytes / unit_bytes)];
        source.each_slot(&mut |bytes, stream| {
            let end = bytes.end.div_ceil(unit_bytes).min(streams.len() as u64);
            streams[to_index(bytes.start / unit_bytes)..to_index(end)].fill(stream);
        });
        Ok(streams)
    }
}

impl std::str::FromStr for WorkloadSpec {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for WorkloadSpec {
    type Error = TraceError;

    fn try_from(text: String) -> Result<Self, TraceError> {
        Self::parse(&text)
    }
}

impl From<WorkloadSpec> for String {
    fn from(spec: WorkloadSpec) -> Self {
        spec.to_string()
    }
}
