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
    /// Finding a page of the buffer pool to which an index leads, in picoseconds; its rows are
    /// [`Work::Fetch`] each.
    #[serde(default)]
    pub visit_ps: u64,
    /// What grows with a hash table. Without it a table of any size costs the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub large: Option<LargeTable>,
}

/// What a row costs in a hash table that no cache holds, where the costs of [`CpuCosts::work`] are those of a
/// small one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LargeTable {
    /// Bytes of the small table.
    pub small_bytes: u64,
    /// Bytes of the large one.
    pub large_bytes: u64,
    /// Picoseconds of [`Work::Build`] in the large one.
    pub build_ps: u64,
    /// The same of [`Work::Emit`] where many rows have a key: each leads to the next one.
    pub emit_ps: u64,
}

impl LargeTable {
    /// Picoseconds of a unit in a table of so many bytes. Of the touches of a table that is t times as long as
    /// the small one, all but a part in t miss what holds the small one.
    fn picoseconds(&self, work: Work, small_ps: u64, table_bytes: u64) -> u64 {
        let large_ps = match work {
            Work::Build => self.build_ps,
            Work::Emit => self.emit_ps,
            _ => return small_ps,
        };
        let missed = |bytes: u64| {
            let beyond = bytes.saturating_sub(self.small_bytes);
            u128::from(beyond) * 1_000_000 / u128::from(bytes.max(1))
        };
        let more = u128::from(large_ps.saturating_sub(small_ps)) * missed(table_bytes)
            / missed(self.large_bytes).max(1);
        small_ps.saturating_add(u64::try_from(more).unwrap_or(u64::MAX))
    }
}

impl CpuCosts {
    /// The processor takes no time.
    pub const NONE: Self = Self { work: WorkCosts::NONE, request_ps: 0, visit_ps: 0, large: None };

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
            .with(Work::Emit, 10_000)
            .with(Work::Fetch, 25_000),
        request_ps: 6_000_000,
        visit_ps: 0,
        large: None,
    };

    /// Nanoseconds of so many units of work, rounded up, at most the end of the range.
    #[must_use]
    pub fn work_ns(&self, work: Work, count: u64) -> u64 {
        picoseconds_to_ns(self.work.picoseconds(work), count)
    }

    /// The same of work on a hash table of so many bytes.
    #[must_use]
    pub fn work_in_table_ns(&self, work: Work, count: u64, table_bytes: u64) -> u64 {
        let small_ps = self.work.picoseconds(work);
        let each_ps = match &self.large {
            Some(large) => large.picoseconds(work, small_ps, table_bytes),
            None => small_ps,
        };
        picoseconds_to_ns(each_ps, count)
    }

    /// Nanoseconds of so many pages of the pool, rounded up, at most the end of the range.
    #[must_use]
    pub fn visit_ns(&self, count: u64) -> u64 {
        picoseconds_to_ns(self.visit_ps, count)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_costs_more_the_more_of_its_table_no_cache_holds() {
        let large = LargeTable {
            small_bytes: 1_000_000,
            large_bytes: 10_000_000,
            build_ps: 500_000,
            emit_ps: 5000,
        };
        let costs = CpuCosts { large: Some(large), ..CpuCosts::MODELLED };
        let build_ns = |bytes: u64| costs.work_in_table_ns(Work::Build, 1, bytes);
        assert_eq!([0, 1_000_000].map(build_ns), [60, 60]);
        assert_eq!(build_ns(10_000_000), 500);
        // Half of 2 MB is not held, where nine tenths of 10 MB are not; of a huge one nearly all is not.
        assert_eq!(build_ns(2_000_000), 60 + 440 * 5 / 9 + 1);
        assert_eq!(build_ns(u64::MAX), 549);
        // Nothing is cheaper for being large, and other work does not depend on it.
        assert_eq!(costs.work_in_table_ns(Work::Emit, 1, 10_000_000), 10);
        assert_eq!(costs.work_in_table_ns(Work::Probe, 1, 10_000_000), 45);
        assert_eq!(CpuCosts::MODELLED.work_in_table_ns(Work::Build, 1, u64::MAX), 60);
    }
}
