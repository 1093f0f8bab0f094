//! A planner that knows its device: which of three access paths it takes, from what a few reads cost.
//!
//! ```text
//!   table scan      all pages                                                    at scan speed
//!   index scan      a page for each row, but those that the pool has by then     at random speed
//!   in address order  the pages of a batch of rows, batch by batch               at sorted speed
//! ```
//!
//! What a page costs in the order of addresses hangs on how close the wanted ones lie: arms move less, and
//! read-ahead helps or is in the way. So it is measured with few rows and with a whole batch.
//!
//!
//! Rows that are drawn at random meet P (1 - exp(-n / P)) of P pages (Cardenas 1975); once the pool's M
//! pages are full, a row finds its page there with probability M / P. What reads cost is measured with
//! rows that no query of the experiment wants.

/// A way to the rows that a query wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessMethod {
    /// All pages of the table are read.
    Table,
    /// Rows as the index has them.
    Index,
    /// Rows in the order of their addresses.
    Sorted,
}

/// A table on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Planner {
    /// Pages of the table.
    pub(super) page_count: f64,
    /// Pages that the pool holds.
    pub(super) pool_page_count: f64,
    /// Rows that are fetched in the order of their addresses at a time.
    pub(super) batch_row_count: f64,
    /// A table scan, for each page.
    pub(super) scan_page_s: f64,
    /// A page on its own.
    pub(super) random_page_s: f64,
    /// Pages of two batches in the order of addresses.
    pub(super) sorted: [SortedSample; 2],
}

/// What a batch in the order of addresses took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SortedSample {
    /// Rows of the batch.
    pub(super) row_count: f64,
    /// Its time, for each page that was met.
    pub(super) page_s: f64,
}

impl Planner {
    /// The method that ought to take least time for `row_count` rows.
    pub(super) fn choose(&self, row_count: f64) -> AccessMethod {
        use AccessMethod::{Index, Sorted, Table};
        let by_time = |left: &AccessMethod, right: &AccessMethod| {
            self.seconds(*left, row_count).total_cmp(&self.seconds(*right, row_count))
        };
        let methods = [Table, Index, Sorted];
        methods.into_iter().min_by(by_time).expect("there are three")
    }

    /// What `method` ought to take for `row_count` rows.
    pub(super) fn seconds(&self, method: AccessMethod, row_count: f64) -> f64 {
        match method {
            AccessMethod::Table => self.page_count * self.scan_page_s,
            AccessMethod::Index => self.read_count(row_count) * self.random_page_s,
            AccessMethod::Sorted => {
                let whole_batches = (row_count / self.batch_row_count).floor();
                let rest = row_count - whole_batches * self.batch_row_count;
                let batch_s = |rows: f64| self.met(rows) * self.sorted_page_s(rows);
                whole_batches * batch_s(self.batch_row_count) + batch_s(rest)
            }
        }
    }

    /// A page of a batch of `row_count` rows in the order of addresses: between the samples by how many
    /// pages are met, beyond them as the nearer one.
    fn sorted_page_s(&self, row_count: f64) -> f64 {
        let [few, many] = self.sorted;
        let [from, to] = [few, many].map(|sample| self.met(sample.row_count));
        if to <= from {
            return many.page_s;
        }
        let share = ((self.met(row_count) - from) / (to - from)).clamp(0.0, 1.0);
        few.page_s + share * (many.page_s - few.page_s)
    }

    /// Pages that `row_count` rows lie on.
    pub(super) fn met(&self, row_count: f64) -> f64 {
        self.page_count * (1.0 - (-row_count / self.page_count).exp())
    }

    /// Pages that are read for `row_count` rows, one after the other.
    fn read_count(&self, row_count: f64) -> f64 {
        let resident = (self.pool_page_count / self.page_count).min(1.0);
        let rows_until_full = -self.page_count * (1.0 - resident).ln();
        if row_count <= rows_until_full {
            return self.met(row_count);
        }
        self.pool_page_count + (row_count - rows_until_full) * (1.0 - resident)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> Planner {
        Planner {
            page_count: 100_000.0,
            pool_page_count: 20_000.0,
            batch_row_count: 4096.0,
            scan_page_s: 80e-6,
            random_page_s: 7.8e-3,
            sorted: at_any_density(3e-3),
        }
    }

    fn at_any_density(page_s: f64) -> [SortedSample; 2] {
        [1000.0, 4096.0].map(|row_count| SortedSample { row_count, page_s })
    }

    #[test]
    fn a_disk_is_scanned_beyond_a_thousandth_and_flash_beyond_some_hundredths() {
        // S000 section 4.2: 2,000,000 tuples, 8 s to scan, 7.8 ms or 0.46 ms for each by the index.
        let disk = Planner { sorted: at_any_density(1.0), ..disk() };
        assert_eq!(disk.choose(800.0), AccessMethod::Index);
        assert_eq!(disk.choose(1200.0), AccessMethod::Table);
        let flash = Planner { scan_page_s: 160e-6, random_page_s: 0.46e-3, ..disk };
        assert_eq!(flash.choose(38_000.0), AccessMethod::Index);
        assert_eq!(flash.choose(46_000.0), AccessMethod::Table);
    }

    #[test]
    fn order_is_worth_it_where_it_makes_reads_cheaper() {
        assert_eq!(disk().choose(1500.0), AccessMethod::Sorted);
        assert_eq!(disk().choose(100_000.0), AccessMethod::Table);
    }

    #[test]
    fn a_drive_on_which_close_pages_cost_more_is_scanned_where_few_rows_would_not_say_so() {
        // The drive of 2024, whose read-ahead is in the way of pages that lie close.
        let drive = Planner {
            page_count: 5263.0,
            pool_page_count: 976.0,
            scan_page_s: 3.5e-6,
            random_page_s: 53e-6,
            sorted: at_any_density(9e-6),
            ..disk()
        };
        assert_eq!(drive.choose(2000.0), AccessMethod::Sorted);
        let [few, many] = drive.sorted;
        let drive = Planner { sorted: [few, SortedSample { page_s: 27e-6, ..many }], ..drive };
        assert_eq!(drive.choose(2000.0), AccessMethod::Table);
        assert_eq!(drive.choose(1000.0), AccessMethod::Sorted);
        let between = drive.sorted_page_s(2000.0);
        assert!(between > 9e-6 && between < 27e-6, "{between}");
        assert_eq!([1.0, 9999.0].map(|rows| drive.sorted_page_s(rows)), [9e-6, 27e-6]);
    }

    #[test]
    fn no_more_pages_are_met_than_there_are_and_a_pool_of_all_reads_each_once() {
        let planner = disk();
        assert!((planner.met(10.0) - 10.0).abs() < 0.01);
        assert!(planner.met(1e9) <= planner.page_count);
        let roomy = Planner { pool_page_count: 1e6, ..planner };
        assert!((roomy.read_count(1e9) - planner.page_count).abs() < 1.0);
        let cramped = Planner { pool_page_count: 0.0, ..planner };
        assert!((cramped.read_count(500_000.0) - 500_000.0).abs() < 1e-6);
    }
}
