//! A table scan against index scans, by selectivity: S000 section 4.2, figure 4-2.
//!
//! The query wants the rows whose integer, uniform over a tenth as many values as there are rows, is
//! small enough. One step for each drive, with series by selectivity in percent:
//!
//! - `DRIVE.table_s`: the whole table is read, the same at each selectivity;
//! - `DRIVE.index_s`: rows are fetched as the index has them;
//! - `DRIVE.sorted_s`: rows are fetched as they lie in the table, some thousands at a time;
//! - `DRIVE.row_ms`: the index scan, for each row;
//! - `DRIVE.chosen_s`: what a planner chooses that has measured the device (`planner`);
//! - `DRIVE.over_best`: that over the best of the three;
//!
//! and with one point at 0 each: `DRIVE.crossover` and `DRIVE.sorted_crossover`, the selectivity where
//! the index scan takes as long as the table scan, between two points by the logarithms of both.
//!
//! Each query finds the pool empty, but for the index and the inner nodes of the table: the thesis had
//! memory for the one, and its queue files have none of the other.

mod planner;

use super::Measurement;
use super::bench::Bench;
use super::engine_set::EngineSet;
use super::site::{
    EngineVariant, Site, SiteDrives, check_cancelled, check_drives, step_targets, targets,
};
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::{ByteCount, Nanos, Rng, to_index, to_u32};
use nandu_probe::text;
use nandu_storage::database::{Column, ColumnType, FetchOrder, Flow, TableKind, Tables};
use nandu_storage::sqlite::ValueRef;
use nandu_storage::{Database, StorageError};
use planner::{AccessMethod, Planner, SortedSample};
use serde::{Deserialize, Serialize};
use std::ops::Bound;

const TABLE: &str = "tuples";
const INDEX: &str = "by_integer";
/// Rows that have the same integer, on average.
const ROWS_PER_VALUE: u64 = 10;
/// Rows of a transaction of the load.
const LOAD_BATCH: u64 = 1000;
/// Memory of the load for a row, besides its bytes.
const LOAD_BYTES_PER_ROW: u64 = 256;
/// One row in so many is read beforehand: each inner node of a table of 4 KiB pages leads to more.
const ROWS_PER_INNER_NODE: u64 = 2000;

/// Rows that the engine fetches in the order of their addresses at a time.
const FETCH_BATCH_ROWS: f64 = 4096.0;
/// Share of the table that is scanned to learn what that costs.
const SAMPLE_SHARE: f64 = 0.05;
/// Rows that are fetched to learn what that costs as the index has them.
const SAMPLE_ROWS: u64 = 200;
/// The same by address: few, and nearly a whole batch.
const SORTED_SAMPLE_ROWS: [u64; 2] = [1000, 3800];

/// The keys of an experiment of the kind `access_path`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessPath {
    /// What the table lies on.
    pub drives: SiteDrives,
    /// Rows of the table.
    pub row_count: u64,
    /// Bytes of a row beside its integer.
    pub row_bytes: u32,
    /// Memory of the pool for each row.
    pub pool_bytes_per_row: u64,
    /// Bytes of a database page.
    #[serde(deserialize_with = "text::size")]
    pub page_bytes: ByteCount,
    /// Shares of the rows that queries want, in percent, rising.
    pub selectivities: Vec<f64>,
    /// Other settings of the engine.
    #[serde(default, skip_serializing_if = "EngineSet::is_empty")]
    pub set: EngineSet,
}

impl AccessPath {
    fn series_of(drive: &str) -> [Series; 8] {
        let of =
            |suffix: &str, x_unit, y_unit| Series::new(format!("{drive}.{suffix}"), x_unit, y_unit);
        [
            of("table_s", "%", "s"),
            of("index_s", "%", "s"),
            of("sorted_s", "%", "s"),
            of("row_ms", "%", "ms"),
            of("chosen_s", "%", "s"),
            of("over_best", "%", ""),
            of("crossover", "", "%"),
            of("sorted_crossover", "", "%"),
        ]
    }

    /// The integer below which `percent` of the rows lie.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count that was checked to be small"
    )]
    fn limit(&self, percent: f64) -> i64 {
        let value_count = (self.row_count / ROWS_PER_VALUE) as f64;
        ((value_count * percent / 100.0).round() as u64).cast_signed()
    }

    fn variant(&self) -> EngineVariant {
        EngineVariant::reading(&self.set)
    }

    fn measure(&self, site: &Site, seed: u64, drive: &str) -> Result<[Series; 8], StorageError> {
        self.load(site, seed)?;
        let page_bytes = to_u32(self.page_bytes.0);
        let pool_bytes = self.row_count * self.pool_bytes_per_row;
        let settings = self.variant().settings(page_bytes, pool_bytes);
        let (database, _) = Database::open(site.reopen()?, &settings)?;
        let planner = self.planner(&database)?;
        let mut all = Self::series_of(drive);
        let [table, index, sorted, row, chosen, over_best, crossover, sorted_crossover] = &mut all;
        let table_s = self.table_scan(&database, self.row_count)?.as_seconds_f64();
        for &percent in &self.selectivities {
            let wanted = (Bound::Unbounded, Bound::Excluded(self.limit(percent)));
            let (index_time, row_count) = self.index_scan(&database, wanted, FetchOrder::Key)?;
            let (sorted_time, _) = self.index_scan(&database, wanted, FetchOrder::Address)?;
            let (index_s, sorted_s) = (index_time.as_seconds_f64(), sorted_time.as_seconds_f64());
            table.points.push((percent, table_s));
            index.points.push((percent, index_s));
            sorted.points.push((percent, sorted_s));
            row.points.push((percent, index_s * 1e3 / row_count.max(1) as f64));
            let chosen_s = match planner.choose(row_count as f64) {
                AccessMethod::Table => table_s,
                AccessMethod::Index => index_s,
                AccessMethod::Sorted => sorted_s,
            };
            chosen.points.push((percent, chosen_s));
            over_best.points.push((percent, chosen_s / table_s.min(index_s).min(sorted_s)));
        }
        let cross = |series: &Series| {
            let point = |&(percent, seconds): &(f64, f64)| (percent, seconds / table_s);
            let ratios: Vec<_> = series.points.iter().map(point).collect();
            crossing(&ratios).map(|percent| (0.0, percent))
        };
        crossover.points.extend(cross(index));
        sorted_crossover.points.extend(cross(sorted));
        Ok(all)
    }

    /// A planner that has read a part of the table, and some of the rows with the largest integers.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of a count that was checked to be small"
    )]
    fn planner(&self, database: &Database) -> Result<Planner, StorageError> {
        let row_count = self.row_count as f64;
        let page_count = row_count * f64::from(self.row_bytes) / self.page_bytes.0 as f64;
        let scanned = (row_count * SAMPLE_SHARE).ceil();
        let scan = self.table_scan(database, scanned as u64)?;
        let value_count = (self.row_count / ROWS_PER_VALUE).cast_signed();
        let planner = Planner {
            page_count,
            pool_page_count: row_count * self.pool_bytes_per_row as f64 / self.page_bytes.0 as f64,
            batch_row_count: FETCH_BATCH_ROWS,
            scan_page_s: scan.as_seconds_f64() / (page_count * scanned / row_count),
            random_page_s: 0.0,
            sorted: [SortedSample { row_count: 0.0, page_s: 0.0 }; 2],
        };
        let sample = |rows: u64, order: FetchOrder| {
            let least = value_count - (rows / ROWS_PER_VALUE).cast_signed();
            let bounds = (Bound::Included(least.max(0)), Bound::Unbounded);
            let (time, row_count) = self.index_scan(database, bounds, order)?;
            let row_count = row_count as f64;
            let page_s = time.as_seconds_f64() / planner.met(row_count);
            Ok::<_, StorageError>(SortedSample { row_count, page_s })
        };
        let random_page_s = sample(SAMPLE_ROWS, FetchOrder::Key)?.page_s;
        let [few, many] = SORTED_SAMPLE_ROWS;
        let sorted = [sample(few, FetchOrder::Address)?, sample(many, FetchOrder::Address)?];
        Ok(Planner { random_page_s, sorted, ..planner })
    }

    fn load(&self, site: &Site, seed: u64) -> Result<(), StorageError> {
        let page_bytes = to_u32(self.page_bytes.0);
        let memory = self.row_count * (u64::from(self.row_bytes) + LOAD_BYTES_PER_ROW);
        let settings = self.variant().settings(page_bytes, memory);
        let database = Database::create(site.format()?, &settings, 1)?;
        let columns = vec![
            Column::new("integer", ColumnType::Integer).not_null(),
            Column::new("rest", ColumnType::Blob),
        ];
        let mut writer = database.write()?;
        writer.create_table(TABLE, columns, TableKind::Heap)?;
        // Made beforehand, so that no transaction is as long as the table.
        writer.create_index(TABLE, INDEX, &["integer"])?;
        let mut rng = Rng::for_part(seed, "rows");
        let rest = vec![0x5A; to_index(u64::from(self.row_bytes))];
        for count in 1..=self.row_count {
            let integer = rng.below(self.row_count / ROWS_PER_VALUE).cast_signed();
            writer.insert(TABLE, &[ValueRef::Integer(integer), ValueRef::Blob(&rest)])?;
            if count % LOAD_BATCH == 0 {
                writer.commit()?;
                writer = database.write()?;
            }
        }
        writer.commit()?;
        database.close()
    }

    /// Reads the first `row_count` rows.
    fn table_scan(&self, database: &Database, row_count: u64) -> Result<Nanos, StorageError> {
        database.drop_cached_pages()?;
        let reader = database.read();
        warm_inner_nodes(&reader, self.row_count)?;
        let start = reader.engine().now();
        let mut found = 0;
        reader.scan(TABLE, |_, _| {
            found += 1;
            if found < row_count { Flow::Continue(()) } else { Flow::Break(()) }
        })?;
        assert_eq!(found, row_count, "a table scan finds each row");
        Ok(reader.engine().now() - start)
    }

    /// Fetches the rows whose integers lie between `bounds`; the time, and how many there are.
    fn index_scan(
        &self,
        database: &Database,
        bounds: (Bound<i64>, Bound<i64>),
        fetch_order: FetchOrder,
    ) -> Result<(Nanos, u64), StorageError> {
        database.drop_cached_pages()?;
        let reader = database.read();
        let key = |bound: Bound<i64>| bound.map(|value| [ValueRef::Integer(value)]);
        let (lower, upper) = (key(bounds.0), key(bounds.1));
        let bounds =
            (lower.as_ref().map(<[_; 1]>::as_slice), upper.as_ref().map(<[_; 1]>::as_slice));
        let mut wanted = 0;
        reader.index_scan(TABLE, INDEX, bounds, |_| {
            wanted += 1;
            Flow::Continue(())
        })?;
        warm_inner_nodes(&reader, self.row_count)?;
        let start = reader.engine().now();
        let mut found = 0;
        reader.index_rows(TABLE, INDEX, bounds, fetch_order, |_, _| found += 1)?;
        assert_eq!(found, wanted, "each entry leads to a row");
        Ok((reader.engine().now() - start, found))
    }
}

fn warm_inner_nodes(tables: &Tables, row_count: u64) -> Result<(), StorageError> {
    for number in (1..row_count).step_by(to_index(ROWS_PER_INNER_NODE)) {
        tables.get(TABLE, number.cast_signed(), |_| ())?;
    }
    Ok(())
}

/// Where `ratios` rise above 1 first.
fn crossing(ratios: &[(f64, f64)]) -> Option<f64> {
    let above = ratios.iter().position(|point| point.1 > 1.0)?;
    let [before, after] = [ratios[above.checked_sub(1)?], ratios[above]];
    let share = before.1.ln() / (before.1.ln() - after.1.ln());
    Some((before.0.ln() + share * (after.0.ln() - before.0.ln())).exp())
}

impl Measurement for AccessPath {
    fn check(&self) -> Result<(), String> {
        check_drives(&self.drives)?;
        let rises = self.selectivities.windows(2).all(|pair| pair[0] < pair[1]);
        let lowest = 100.0 * ROWS_PER_VALUE as f64 / self.row_count.max(1) as f64;
        let is_share = |percent: &f64| (lowest..=100.0).contains(percent);
        if self.selectivities.is_empty() || !rises || !self.selectivities.iter().all(is_share) {
            return Err(format!("`selectivities` must rise, from {lowest} to 100 percent"));
        }
        if self.row_count < ROWS_PER_INNER_NODE {
            return Err(format!("`row_count` must be {ROWS_PER_INNER_NODE} or more"));
        }
        let own = [("page_bytes", "page_bytes"), ("pool_bytes", "pool_bytes_per_row")];
        self.variant().check([to_u32(self.page_bytes.0)], &own)
    }

    fn targets(&self) -> Vec<String> {
        targets(&self.drives)
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        let (_, drive) = self.drives.iter().nth(index).expect("a step is a drive");
        step_targets(drive)
    }

    fn series_names(&self) -> Vec<String> {
        let series = self.drives.keys().flat_map(|drive| Self::series_of(drive));
        series.map(|series| series.name).collect()
    }

    fn steps(&self) -> Vec<String> {
        self.drives.keys().cloned().collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        check_cancelled(bench)?;
        let (name, drive) = self.drives.iter().nth(index).expect("a step is a drive");
        let Some(site) = Site::prepare(bench, name, (name, drive), self.variant().log_apart())?
        else {
            return Ok(Vec::new());
        };
        let series = self.measure(&site, bench.seed, name);
        Ok(series.map_err(|error| LabError::step(name, &error))?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crossing_lies_between_its_neighbours_by_their_logarithms() {
        assert_eq!(crossing(&[(1.0, 0.5), (2.0, 0.9)]), None);
        assert_eq!(crossing(&[(1.0, 1.5), (2.0, 1.9)]), None);
        let place = crossing(&[(0.5, 0.1), (1.0, 0.5), (4.0, 2.0), (8.0, 4.0)]).unwrap();
        assert!((place - 2.0).abs() < 1e-9, "{place}");
    }
}
