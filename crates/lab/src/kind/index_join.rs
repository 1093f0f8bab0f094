//! Joins that use indexes, and one that uses none, by selectivity: S000 chapter 5, figure 5-1.
//!
//! ```text
//!   SELECT * FROM customers c, orders o WHERE c.custkey = o.custkey AND c.custkey < x
//!
//!   queue   heaps, with an index of each on custkey
//!   tree    trees by primary key, filled in random order, and an index of the orders on custkey
//! ```
//!
//! One step for each drive and layout, with series by selectivity in percent, `DRIVE.LAYOUT.JOIN_s`:
//!
//! - `inl_s`: all orders are read; for each that qualifies its customer is looked up;
//! - `ism_s`: both indexes are walked up to x, the rows fetched as they come, one after the other;
//! - `hash_s`: Grace hash of what qualifies;
//!
//! and with one point at 0 each, in MB for each unit of the scale factor, the files: `.orders_mb`,
//! `.customer_mb`, `.orders_index_mb` and, of queues, `.customer_index_mb`.
//!
//! 1. All three find the same number of pairs.
//! 2. Each finds the pool empty.
//! 3. On a simulated drive the processor takes what `cpu` says ([`Cpu`]).

use super::Measurement;
use super::bench::Bench;
use super::engine_set::EngineSet;
use super::join::backed::metered_site;
use super::join::processor::{Cpu, Processor};
use super::site::{
    EngineVariant, LoadWatch, Site, SiteDrive, SiteDrives, cancelled, check_cancelled,
    check_drives, step_targets, targets,
};
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::{ByteCount, Nanos, Rng, to_u32};
use nandu_load::{
    Dataset, IndexOn, Layout, LayoutKind, LoadError, LoadOptions, RowWidth, TpchTable, load_tables,
};
use nandu_probe::text;
use nandu_query::allocation::{self, Fudge, JoinSizes};
use nandu_query::index::{ClusteredIndex, FetchOrder, IndexLookup, KeyRange, SecondaryIndex};
use nandu_query::join::{
    GraceHash, IndexNestedLoops, IndexSortMerge, Join, JoinInput, JoinStream, JoinType, Side,
    grace_hash, index_nested_loops, index_sort_merge,
};
use nandu_query::key::KeyColumn;
use nandu_query::relation::{ClusteredRelation, Filtered, HeapRelation};
use nandu_query::{Execution, Key, Limits, QueryError, Relation, Tuple};
use nandu_storage::Database;
use nandu_storage::database::Tables;
use nandu_storage::sqlite::{FillFactor, Value, ValueRef};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Bytes of memory for a row of the load, more than it ever takes.
const LOAD_BYTES_PER_ROW: u64 = 512;
/// Pages through which a heap is scanned: requests are pages anyway.
const INPUT_PAGES: u32 = 32;
/// Pages of rows that a walk of an index fetches together: as few as possible.
const ROW_PAGES: u32 = 2;
/// Memory of an execution beside that of Grace hash.
const SPARE_PAGES: u32 = 64;
/// The pool beside the memory of Grace hash.
const SMALL_POOL_BYTES: u64 = 2 << 20;

/// How the tables lie: in heaps or in trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableLayout {
    /// Heaps and indexes.
    Queue,
    /// Trees, and an index of the orders.
    Tree,
}

/// The keys of an experiment of the kind `index_join`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexJoin {
    /// What the tables lie on.
    pub drives: SiteDrives,
    /// How the tables lie, each layout by itself.
    pub layouts: Vec<TableLayout>,
    /// TPC-H's scale factor.
    pub scale_factor: f64,
    /// Memory of the pool, or of Grace hash.
    #[serde(deserialize_with = "text::size")]
    pub memory: ByteCount,
    /// Memory of the pool of index joins, if it is less than that.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "text::optional_size"
    )]
    pub pool: Option<ByteCount>,
    /// Page size, and that of all requests.
    #[serde(deserialize_with = "text::size")]
    pub page_bytes: ByteCount,
    /// Shares of the customers that qualify, in percent, rising.
    pub selectivities: Vec<f64>,
    /// The processor on simulated drives.
    #[serde(default, skip_serializing_if = "Cpu::is_none")]
    pub cpu: Cpu,
    /// Other settings of the engine.
    #[serde(default, skip_serializing_if = "EngineSet::is_empty")]
    pub set: EngineSet,
}

impl TableLayout {
    const fn label(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Tree => "tree",
        }
    }

    /// Series of sizes, and the files that have them.
    const fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Queue => &[
                ("orders_mb", "orders.sqlite"),
                ("customer_mb", "customer.sqlite"),
                ("orders_index_mb", "orders.o_custkey.tree"),
                ("customer_index_mb", "customer.c_custkey.tree"),
            ],
            Self::Tree => &[
                ("orders_mb", "orders.tree"),
                ("customer_mb", "customer.tree"),
                ("orders_index_mb", "orders_o_custkey.tree"),
            ],
        }
    }
}

/// The join with `custkey < limit`.
struct Question<'t> {
    tables: &'t Tables,
    processor: &'t Processor,
    stop: Arc<AtomicBool>,
    layout: TableLayout,
    limit: i64,
    kept_ppm: u64,
    memory_pages: u32,
    page_bytes: u32,
}

impl Question<'_> {
    fn execution(&self, memory_pages: u32) -> Execution {
        let limits = Limits {
            page_bytes: self.page_bytes,
            memory_pages,
            write_budget_bytes: None,
            reads_ahead: false,
            work_costs: self.processor.work_costs(),
        };
        let io = self.tables.engine().data_io();
        Execution::new(limits, io.clone(), io, None, Arc::clone(&self.stop))
    }

    fn relation(&self, table: &str) -> Result<Box<dyn Relation + '_>, QueryError> {
        Ok(match self.layout {
            TableLayout::Queue => Box::new(HeapRelation::open(self.tables, table)?),
            TableLayout::Tree => Box::new(ClusteredRelation::open(self.tables, table)?),
        })
    }

    /// The index of the customers by key; in a tree the customers themselves.
    fn customers_by_key(&self) -> Result<Box<dyn IndexLookup + '_>, QueryError> {
        Ok(match self.layout {
            TableLayout::Queue => {
                Box::new(SecondaryIndex::open(self.tables, "customer", "c_custkey", true)?)
            }
            TableLayout::Tree => Box::new(ClusteredIndex::open(self.tables, "customer")?),
        })
    }

    fn qualifies(&self, column: usize, tuple: Tuple<'_>) -> Result<bool, QueryError> {
        let value = KeyColumn::Stored(column).value(tuple)?;
        Ok(matches!(value, ValueRef::Integer(key) if key < self.limit))
    }

    fn index_nested_loops(&self) -> Result<u64, QueryError> {
        let (customers, orders) = (self.relation("customer")?, self.relation("orders")?);
        let condition = |tuple: Tuple<'_>| self.qualifies(1, tuple);
        let orders = Filtered::new(orders.as_ref(), self.kept_ppm, &condition);
        let index = self.customers_by_key()?;
        let keys = (Key::of(&[0]), Key::of(&[1]));
        let join = join((customers.as_ref(), &keys.0), (&orders, &keys.1));
        let settings = index_nested_loops::Settings {
            outer: Side::Right,
            input_pages: INPUT_PAGES,
            batch_pages: ROW_PAGES,
            inner_pages: ROW_PAGES,
            batch_rows_max: Some(1),
            order: FetchOrder::Key,
        };
        let execution = self.execution(SPARE_PAGES);
        count(&mut IndexNestedLoops::new(&execution, join, index.as_ref(), settings)?, |_| Ok(()))
    }

    fn index_sort_merge(&self) -> Result<u64, QueryError> {
        let range = || KeyRange::below(Value::Integer(self.limit));
        let settings = index_sort_merge::Settings {
            left_pages: ROW_PAGES,
            right_pages: ROW_PAGES,
            order: FetchOrder::Key,
            left_range: range(),
            right_range: range(),
        };
        let (customers, execution) = (self.customers_by_key()?, self.execution(SPARE_PAGES));
        match self.layout {
            TableLayout::Queue => {
                let orders = SecondaryIndex::open(self.tables, "orders", "o_custkey", false)?;
                let relations = (self.relation("customer")?, self.relation("orders")?);
                let keys = (Key::of(&[0]), Key::of(&[1]));
                let join = join((relations.0.as_ref(), &keys.0), (relations.1.as_ref(), &keys.1));
                let indexes: (&dyn IndexLookup, &dyn IndexLookup) = (customers.as_ref(), &orders);
                count(&mut IndexSortMerge::new(&execution, join, indexes, &settings)?, |_| Ok(()))
            }
            TableLayout::Tree => {
                // The index says which orders; they are fetched one by one.
                let entries = ClusteredIndex::open(self.tables, "orders_o_custkey")?;
                let relations = (self.relation("customer")?, self.relation("orders_o_custkey")?);
                let key = Key::of(&[0]);
                let join = join((relations.0.as_ref(), &key), (relations.1.as_ref(), &key));
                let indexes: (&dyn IndexLookup, &dyn IndexLookup) = (customers.as_ref(), &entries);
                let mut stream = IndexSortMerge::new(&execution, join, indexes, &settings)?;
                count(&mut stream, |entry| {
                    let order = KeyColumn::Stored(1).value(entry)?;
                    let found = self.tables.get_by_key("orders", &[order], |_| ())?;
                    assert!(found.is_some(), "an entry leads to an order");
                    Ok(())
                })
            }
        }
    }

    fn hash(&self) -> Result<u64, QueryError> {
        let (customers, orders) = (self.relation("customer")?, self.relation("orders")?);
        let pages = |relation: &dyn Relation| relation.size().page_count;
        let sizes = JoinSizes::new(pages(customers.as_ref()), pages(orders.as_ref()), Fudge::PAPER);
        let parts = allocation::GraceHash::allocate(&sizes, u64::from(self.memory_pages))?;
        let settings = grace_hash::Settings {
            bucket_count: to_u32(parts.bucket_count),
            input_pages: to_u32(parts.input_pages),
            output_pages: to_u32(parts.output_pages),
        };
        let conditions = (
            |tuple: Tuple<'_>| self.qualifies(0, tuple),
            |tuple: Tuple<'_>| self.qualifies(1, tuple),
        );
        let customers = Filtered::new(customers.as_ref(), self.kept_ppm, &conditions.0);
        let orders = Filtered::new(orders.as_ref(), self.kept_ppm, &conditions.1);
        let keys = (Key::of(&[0]), Key::of(&[1]));
        let execution = self.execution(self.memory_pages);
        let join = join((&customers, &keys.0), (&orders, &keys.1));
        count(&mut GraceHash::new(&execution, join, settings)?, |_| Ok(()))
    }
}

fn join<'r>(left: (&'r dyn Relation, &'r Key), right: (&'r dyn Relation, &'r Key)) -> Join<'r> {
    let input = |(relation, key)| JoinInput { relation, key };
    Join { left: input(left), right: input(right), join_type: JoinType::Inner }
}

/// Counts the pairs, and shows the right row of each.
fn count(
    stream: &mut dyn JoinStream,
    mut show: impl FnMut(Tuple<'_>) -> Result<(), QueryError>,
) -> Result<u64, QueryError> {
    let mut pair_count = 0;
    while stream.advance()? {
        for (_, right) in stream.batch().tuples() {
            show(right.expect("pairs of an inner join are whole"))?;
            pair_count += 1;
        }
    }
    Ok(pair_count)
}

impl IndexJoin {
    fn variant(&self) -> EngineVariant {
        EngineVariant::reading(&self.set)
    }

    fn series_of(drive: &str, layout: TableLayout) -> Vec<Series> {
        let of = |suffix: &str, x_unit: &str, y_unit: &str| {
            Series::new(format!("{drive}.{}.{suffix}", layout.label()), x_unit, y_unit)
        };
        let times = ["inl_s", "ism_s", "hash_s"].map(|join| of(join, "%", "s"));
        let sizes = layout.files().iter().map(|(suffix, _)| of(suffix, "", "MB"));
        times.into_iter().chain(sizes).collect()
    }

    /// The files, in the order of [`TableLayout::files`].
    fn sizes(&self, site: &Site, layout: TableLayout) -> Result<Vec<f64>, QueryError> {
        let settings = self.variant().settings(to_u32(self.page_bytes.0), SMALL_POOL_BYTES);
        let (database, _) = Database::open(site.reopen()?, &settings)?;
        let sizes = {
            let tables = database.read();
            let files = tables.engine().files();
            let size_of = |&(_, name): &(&str, &str)| {
                let file = files.iter().find(|(_, found)| found == name);
                let (file, _) = file.unwrap_or_else(|| panic!("{name} is among {files:?}"));
                tables.engine().file_bytes(*file) as f64 / 1e6 / self.scale_factor
            };
            layout.files().iter().map(size_of).collect()
        };
        database.close()?;
        Ok(sizes)
    }

    fn pairs(&self) -> Vec<(&str, TableLayout)> {
        let of = |drive| self.layouts.iter().map(move |&layout| (drive, layout));
        self.drives.keys().map(String::as_str).flat_map(of).collect()
    }

    fn site(
        &self,
        bench: &mut Bench<'_>,
        step: &str,
        (name, drive): (&str, &SiteDrive),
    ) -> Result<Option<(Site, Processor)>, LabError> {
        let log = self.variant().log_apart();
        metered_site(bench, step, (name, drive), log, (Some(to_u32(self.page_bytes.0)), &self.cpu))
    }

    fn load(&self, bench: &Bench<'_>, site: &Site, layout: TableLayout) -> Result<(), LoadError> {
        let page_bytes = to_u32(self.page_bytes.0);
        let mut dataset = Dataset::new(RowWidth::S000, self.scale_factor);
        dataset.seed = Rng::for_part(bench.seed, "rows").next_u64();
        let on = |table: &str, column: &str| IndexOn { table: table.into(), column: column.into() };
        let mut indexes = vec![on("orders", "o_custkey")];
        if layout == TableLayout::Queue {
            indexes.push(on("customer", "c_custkey"));
        }
        let kind = match layout {
            TableLayout::Tree => LayoutKind::Clustered,
            TableLayout::Queue => LayoutKind::Heap,
        };
        let layout = Layout { kind, indexes };
        let fill = FillFactor { low_permille: 1000, high_permille: 1000, seed: 0 };
        let options = LoadOptions { fill, ..LoadOptions::default() };
        let tables = [TpchTable::Customer, TpchTable::Orders];
        let mut jobs = dataset.jobs(&tables, &layout, &options)?;
        let row_count = self.customer_count() * 11;
        let settings = self.variant().settings(page_bytes, row_count * LOAD_BYTES_PER_ROW);
        let database = Database::create(site.format()?, &settings, 1)?;
        load_tables(&database, &mut jobs, &mut LoadWatch(bench))?;
        Ok(database.close()?)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count that was checked to be small"
    )]
    fn customer_count(&self) -> u64 {
        (150_000.0 * self.scale_factor).round() as u64
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count that was checked to be small"
    )]
    fn question<'t>(
        &self,
        tables: &'t Tables,
        (processor, stop): (&'t Processor, &Arc<AtomicBool>),
        layout: TableLayout,
        percent: f64,
    ) -> Question<'t> {
        let limit = (self.customer_count() as f64 * percent / 100.0).round() as u64 + 1;
        Question {
            tables,
            processor,
            stop: Arc::clone(stop),
            layout,
            limit: limit.cast_signed(),
            kept_ppm: (percent * 10_000.0).round() as u64,
            memory_pages: to_u32(self.memory.0 / self.page_bytes.0),
            page_bytes: to_u32(self.page_bytes.0),
        }
    }

    /// The times of one selectivity.
    fn point(
        &self,
        (site, processor): (&Site, &Processor),
        stop: &Arc<AtomicBool>,
        layout: TableLayout,
        percent: f64,
    ) -> Result<[Nanos; 3], QueryError> {
        let mut times = [Nanos(0); 3];
        let mut pair_counts = [0; 3];
        for (index, time) in times.iter_mut().enumerate() {
            let pool_bytes =
                if index == 2 { SMALL_POOL_BYTES } else { self.pool.unwrap_or(self.memory).0 };
            let settings = self.variant().settings(to_u32(self.page_bytes.0), pool_bytes);
            let (database, _) = Database::open(site.reopen()?, &settings)?;
            {
                let tables = database.read();
                let question = self.question(&tables, (processor, stop), layout, percent);
                let io = tables.engine().data_io();
                let requests = || {
                    let counters = io.counters();
                    counters.reads.request_count + counters.writes.request_count
                };
                let (start, begun, mark) = (tables.engine().now(), requests(), processor.begin());
                pair_counts[index] = match index {
                    0 => question.index_nested_loops()?,
                    1 => question.index_sort_merge()?,
                    _ => question.hash()?,
                };
                let beside = processor.beside_the_clock(mark, requests() - begun);
                *time = tables.engine().now() - start + beside;
            }
            database.close()?;
        }
        let [first, ..] = pair_counts;
        assert!(pair_counts.iter().all(|&count| count == first), "invariant 1: {pair_counts:?}");
        Ok(times)
    }
}

impl Measurement for IndexJoin {
    fn check(&self) -> Result<(), String> {
        check_drives(&self.drives)?;
        let rises = self.selectivities.windows(2).all(|pair| pair[0] < pair[1]);
        let is_share = |percent: &f64| *percent > 0.0 && *percent <= 100.0;
        if self.selectivities.is_empty() || !rises || !self.selectivities.iter().all(is_share) {
            return Err("`selectivities` must rise, above 0 to 100 percent".into());
        }
        if !(self.scale_factor >= 0.001 && self.scale_factor <= 100.0) || self.layouts.is_empty() {
            return Err("`scale_factor` must be 0.001 to 100, and `layouts` not empty".into());
        }
        let is_page = self.page_bytes.0.is_power_of_two();
        if !is_page || !(512..=65_536).contains(&self.page_bytes.0) {
            return Err("`page_bytes` must be a power of two, 512 to 64 KiB".into());
        }
        if self.memory.0 < 256 * self.page_bytes.0 {
            return Err("`memory` must be 256 pages or more".into());
        }
        let own = [("page_bytes", "page_bytes"), ("pool_bytes", "pool")];
        self.variant().check([to_u32(self.page_bytes.0)], &own)
    }

    fn targets(&self) -> Vec<String> {
        targets(&self.drives)
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        step_targets(&self.drives[self.pairs()[index].0])
    }

    fn series_names(&self) -> Vec<String> {
        let of = |(drive, layout): (&str, TableLayout)| Self::series_of(drive, layout);
        self.pairs().into_iter().flat_map(of).map(|series| series.name).collect()
    }

    fn steps(&self) -> Vec<String> {
        let name = |(drive, layout): (&str, TableLayout)| format!("{drive} {}", layout.label());
        self.pairs().into_iter().map(name).collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let (name, layout) = self.pairs()[index];
        let step = format!("{name} {}", layout.label());
        let prepared = self.site(bench, &step, (name, &self.drives[name]))?;
        let Some((site, processor)) = prepared else { return Ok(Vec::new()) };
        self.load(bench, &site, layout).map_err(|error| match error {
            LoadError::Cancelled => cancelled(),
            other => LabError::step(&step, &other),
        })?;
        let stop = bench.observer.stop_flag();
        let mut series = Self::series_of(name, layout);
        let sizes = self.sizes(&site, layout).map_err(|error| LabError::step(&step, &error))?;
        for (series, size) in series[3..].iter_mut().zip(sizes) {
            series.points.push((0.0, size));
        }
        for &percent in &self.selectivities {
            check_cancelled(bench)?;
            let times = self.point((&site, &processor), &stop, layout, percent);
            let times = times.map_err(|error| match error {
                QueryError::Cancelled => cancelled(),
                other => LabError::step(&step, &other),
            })?;
            for (series, time) in series.iter_mut().zip(times) {
                series.points.push((percent, time.as_seconds_f64()));
            }
        }
        Ok(series)
    }
}
