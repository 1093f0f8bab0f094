//! What the processor does for a row and for a request.

use super::scale_up;
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
    /// The first row of its key, to which the directory leads.
    pub first: RowCosts,
    /// Each further row of a key, to which the one before it leads.
    pub further: RowCosts,
}

/// What one row of a hash table costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowCosts {
    /// Picoseconds of [`Work::Build`].
    pub build_ps: u64,
    /// Picoseconds of [`Work::Emit`].
    pub emit_ps: u64,
}

/// Hash tables that are filled one after the other, as far as their costs depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashTables {
    /// Rows of all of them.
    pub row_count: u64,
    /// Keys of each, summed.
    pub key_count: u64,
    /// Bytes of one.
    pub bytes: u64,
}

impl LargeTable {
    /// Of the touches of a table that is t times as long as the small one, all but a part in t miss what holds
    /// the small one: that part of what a row costs more in the large table.
    fn picoseconds(&self, large_ps: u64, small_ps: u64, table_bytes: u64) -> u64 {
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
            .with(Work::Fetch, 25_000)
            .with(Work::Assemble, 8_000),
        request_ps: 6_000_000,
        visit_ps: 0,
        large: None,
    };

    /// What each of so many workers takes for its part of the work, as far as work can be divided.
    #[must_use]
    pub fn shared_by(&self, worker_count: u32) -> Self {
        let part = |all_ps: u64| all_ps.div_ceil(u64::from(worker_count.max(1)));
        let row =
            |of: RowCosts| RowCosts { build_ps: part(of.build_ps), emit_ps: part(of.emit_ps) };
        Self {
            work: self.work.map(part),
            request_ps: part(self.request_ps),
            visit_ps: part(self.visit_ps),
            large: self.large.map(|large| LargeTable {
                first: row(large.first),
                further: row(large.further),
                ..large
            }),
        }
    }

    /// Nanoseconds of so many units of work, rounded up, at most the end of the range.
    #[must_use]
    pub fn work_ns(&self, work: Work, count: u64) -> u64 {
        picoseconds_to_ns(self.work.picoseconds(work), count)
    }

    /// Nanoseconds of filling hash tables.
    #[must_use]
    pub fn build_ns(&self, tables: &HashTables) -> u64 {
        self.in_tables_ns(Work::Build, tables.row_count, tables, |row| row.build_ps)
    }

    /// Nanoseconds of handing on so many rows that were found in hash tables, together with what found them.
    #[must_use]
    pub fn emit_ns(&self, pair_count: u64, tables: &HashTables) -> u64 {
        self.in_tables_ns(Work::Emit, pair_count, tables, |row| row.emit_ps)
    }

    /// The same of work on so many rows, of which as large a part comes first of its key as in the tables.
    fn in_tables_ns(
        &self,
        work: Work,
        count: u64,
        tables: &HashTables,
        of_row: impl Fn(&RowCosts) -> u64,
    ) -> u64 {
        let Some(large) = &self.large else {
            return self.work_ns(work, count);
        };
        let small_ps = self.work.picoseconds(work);
        let first = scale_up(count, tables.key_count, tables.row_count).min(count);
        let ns = |row: &RowCosts, count: u64| {
            picoseconds_to_ns(large.picoseconds(of_row(row), small_ps, tables.bytes), count)
        };
        ns(&large.first, first).saturating_add(ns(&large.further, count - first))
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
        let costs = CpuCosts { large: Some(LARGE), ..CpuCosts::MODELLED };
        let table = |bytes: u64| HashTables { row_count: 1, key_count: 1, bytes };
        let build_ns = |bytes: u64| costs.build_ns(&table(bytes));
        assert_eq!([0, 1_000_000].map(build_ns), [60, 60]);
        assert_eq!(build_ns(10_000_000), 500);
        // Half of 2 MB is not held, where nine tenths of 10 MB are not; of a huge one nearly all is not.
        assert_eq!(build_ns(2_000_000), 60 + 440 * 5 / 9 + 1);
        assert_eq!(build_ns(u64::MAX), 549);
        // Nothing is cheaper for being large.
        assert_eq!(costs.emit_ns(1, &table(10_000_000)), 10);
        assert_eq!(CpuCosts::MODELLED.build_ns(&table(u64::MAX)), 60);
    }

    #[test]
    fn rows_that_follow_another_of_their_key_have_a_price_of_their_own() {
        let costs = CpuCosts { large: Some(LARGE), ..CpuCosts::MODELLED };
        let lists = HashTables { row_count: 40, key_count: 10, bytes: 10_000_000 };
        assert_eq!(costs.build_ns(&lists), 10 * 500 + 30 * 700);
        // Of the pairs as many are first ones as of the rows.
        assert_eq!(costs.emit_ns(8, &lists), 2 * 10 + 6 * 90);
        let empty = HashTables { row_count: 0, key_count: 0, bytes: 0 };
        assert_eq!((costs.build_ns(&empty), costs.emit_ns(0, &empty)), (0, 0));
    }

    const LARGE: LargeTable = LargeTable {
        small_bytes: 1_000_000,
        large_bytes: 10_000_000,
        first: RowCosts { build_ps: 500_000, emit_ps: 5000 },
        further: RowCosts { build_ps: 700_000, emit_ps: 90_000 },
    };
}
