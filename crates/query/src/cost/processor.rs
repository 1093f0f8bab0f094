//! What the processor does for a row and for a request.

use crate::work::{Work, WorkCosts};
use serde::{Deserialize, Serialize};

/// Times of single steps. Measured on the machine, or modelled so that a run is bit-identical.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuCosts {
    /// Of each kind of work.
    pub work: WorkCosts,
    /// Issuing a request and taking its answer, in picoseconds.
    pub request_ps: u64,
}

impl CpuCosts {
    /// The processor takes no time.
    pub const NONE: Self = Self { work: WorkCosts::NONE, request_ps: 0 };

    /// Chosen, not measured and not published: the order of a server core of the 2020s, for runs that
    /// have to be the same everywhere.
    pub const MODELLED: Self = Self {
        work: WorkCosts::NONE
            .with(Work::Scan, 25_000)
            .with(Work::Build, 60_000)
            .with(Work::Probe, 45_000)
            .with(Work::Compare, 12_000)
            .with(Work::Copy, 20_000)
            .with(Work::Descend, 700_000)
            .with(Work::Emit, 10_000),
        request_ps: 6_000_000,
    };

    /// Nanoseconds of so many units of work, rounded up, at most the end of the range.
    #[must_use]
    pub fn work_ns(&self, work: Work, count: u64) -> u64 {
        picoseconds_to_ns(self.work.picoseconds(work), count)
    }

    /// Nanoseconds of so many requests, rounded up, at most the end of the range.
    #[must_use]
    pub fn request_ns(&self, count: u64) -> u64 {
        picoseconds_to_ns(self.request_ps, count)
    }
}

fn picoseconds_to_ns(each_ps: u64, count: u64) -> u64 {
    let ns = (u128::from(each_ps) * u128::from(count)).div_ceil(1000);
    u64::try_from(ns).unwrap_or(u64::MAX)
}
