//! Joins that put rows together late, and hash joins that do not, by how few rows qualify.
//!
//! ```text
//!   SELECT c_name, o_totalprice, o_orderdate FROM customer c, orders o
//!   WHERE c.c_custkey = o.o_custkey AND c.c_custkey < x        keys are in random order
//! ```
//!
//! One step for each drive, with series by the share of the customers in percent, `DRIVE.time_s.WAY` and
//! `DRIVE.pages.WAY`, what was read and written:
//!
//! - `rows`: hybrid hash over heaps, which read all columns;
//! - `columns`: hybrid hash over PAX pages, which read the five columns that are named;
//! - `flash`: FlashJoin, `rare`: RARE-join, both over PAX pages.
//!
//! 1. All four find the same number of pairs.
//! 2. Each divides its memory as the planner does, for a drive of round figures like this one.
//! 3. On a simulated drive the processor takes what `cpu` says ([`Cpu`]).

use super::Measurement;
use super::bench::{Bench, LOCAL};
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
    Dataset, Layout, LayoutKind, LoadError, LoadOptions, RowWidth, TpchTable, load_tables,
};
use nandu_probe::text;
use nandu_query::cost::{CostModel, CpuCosts, DeviceCosts, JoinQuestion, JoinSide};
use nandu_query::join::{Join, JoinInput, JoinType};
use nandu_query::key::KeyColumn;
use nandu_query::plan::{Budget, ChunkRule, Indexes, PoolShape, plans};
use nandu_query::relation::{Filtered, HeapRelation, PaxRelation};
use nandu_query::{Execution, JoinKind, Key, Limits, QueryError, Relation, Tuple};
use nandu_storage::Database;
use nandu_storage::database::Tables;
use nandu_storage::pax::check_span_pages;
use nandu_storage::sqlite::ValueRef;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The pool beside the memory of a join.
const POOL_BYTES: u64 = 4 << 20;
/// Columns that are wanted: the name of a customer; price and date of an order.
const CUSTOMER_COLUMNS: [usize; 1] = [1];
const ORDER_COLUMNS: [usize; 2] = [3, 4];
/// Where the key is, in both.
const KEYS: [usize; 2] = [0, 1];
/// Orders of a customer.
const ORDERS_EACH: u64 = 10;
/// What a queue gains on flash, in millionths, by its depth.
const QUEUE_GAIN: [(u64, u64); 2] = [(1, 1_000_000), (32, 8_000_000)];
/// What is compared, as its series are called, and by which join.
const WAYS: [(&str, JoinKind); 4] = [
    ("rows", JoinKind::HybridHash),
    ("columns", JoinKind::HybridHash),
    ("flash", JoinKind::FlashJoin),
    ("rare", JoinKind::RareJoin),
];

/// The keys of an experiment of the kind `late_join`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LateJoin {
    /// What the tables lie on.
    pub drives: SiteDrives,
    /// TPC-H's scale factor.
    pub scale_factor: f64,
    /// Memory of a join.
    #[serde(deserialize_with = "text::size")]
    pub memory: ByteCount,
    /// Bytes of a database page.
    #[serde(deserialize_with = "text::size")]
    pub page_bytes: ByteCount,
    /// Pages that a PAX page spans.
    pub span_pages: u32,
    /// Shares of the customers that qualify, in percent, rising.
    pub shares: Vec<f64>,
    /// The processor on simulated drives.
    #[serde(default, skip_serializing_if = "Cpu::is_none")]
    pub cpu: Cpu,
    /// Other settings of the engine.
    #[serde(default, skip_serializing_if = "EngineSet::is_empty")]
    pub set: EngineSet,
}

/// A join of one share.
struct Question<'t> {
    tables: &'t Tables,
    processor: &'t Processor,
    stop: Arc<AtomicBool>,
    device: &'t DeviceCosts,
    limit: i64,
    kept_ppm: u64,
    memory_pages: u32,
    page_bytes: u32,
}

impl Question<'_> {
    /// Joins in one way; how many pairs, and how many pages were moved.
    fn answer(&self, is_pax: bool, kind: JoinKind) -> Result<(u64, u64), QueryError> {
        let keys = KEYS.map(|column| Key::of(&[column]));
        let open = |table: &str, side: usize, columns: &[usize]| {
            Ok::<Box<dyn Relation + '_>, QueryError>(match is_pax {
                true => {
                    Box::new(PaxRelation::open(self.tables, table, &keys[side], Some(columns))?)
                }
                false => Box::new(HeapRelation::open(self.tables, table)?),
            })
        };
        let customers = open("customer", 0, &CUSTOMER_COLUMNS)?;
        let orders = open("orders", 1, &ORDER_COLUMNS)?;
        let condition = |tuple: Tuple<'_>| {
            let value = KeyColumn::Stored(KEYS[0]).value(tuple)?;
            Ok(matches!(value, ValueRef::Integer(key) if key < self.limit))
        };
        let some = Filtered::by_key(customers.as_ref(), self.kept_ppm, &condition);
        let left = JoinInput { relation: &some, key: &keys[0] };
        let right = JoinInput { relation: orders.as_ref(), key: &keys[1] };
        let join = Join { left, right, join_type: JoinType::Inner };
        let page_bytes = u64::from(self.page_bytes);
        let side = |relation: &dyn Relation| JoinSide::of(relation, page_bytes);
        let question = JoinQuestion::new(side(&some), side(orders.as_ref()), ORDERS_EACH);
        let model =
            CostModel { device: self.device, processor: &CpuCosts::NONE, reads_ahead: true };
        let memory_pages = u64::from(self.memory_pages);
        let budget =
            Budget { memory_pages, write_bytes: None, pool: PoolShape::NONE, worker_count: 1 };
        let found = plans(&model, &question, &budget).feasible;
        let plan = found.iter().find(|plan| plan.kind == kind);
        let plan = plan.ok_or_else(|| QueryError::Invalid {
            what: format!("`memory` is too little for {kind}; give more, or smaller PAX pages"),
        })?;
        let limits = Limits {
            page_bytes: self.page_bytes,
            memory_pages: self.memory_pages,
            write_budget_bytes: None,
            reads_ahead: true,
            work_costs: self.processor.work_costs(),
        };
        let io = self.tables.engine().data_io();
        let execution = Execution::new(limits, io.clone(), io, None, Arc::clone(&self.stop));
        let mut stream = plan.open(&execution, join, Indexes::NONE, ChunkRule::ByBytes)?;
        let mut pair_count = 0;
        while stream.advance()? {
            pair_count += stream.batch().pairs.len() as u64;
        }
        drop(stream);
        let counts = execution.io_counts();
        Ok((pair_count, (counts.read_bytes + counts.write_bytes) / page_bytes))
    }
}

impl LateJoin {
    fn variant(&self) -> EngineVariant {
        EngineVariant::reading(&self.set)
    }

    fn series_of(drive: &str) -> Vec<Series> {
        let of = |(way, _): (&str, JoinKind)| {
            [("time_s", "s"), ("pages", "pages")]
                .map(|(what, unit)| Series::new(format!("{drive}.{what}.{way}"), "%", unit))
        };
        WAYS.into_iter().flat_map(of).collect()
    }

    /// A drive of round figures, by which memory is divided.
    fn device_costs(drive: &SiteDrive, name: &str) -> DeviceCosts {
        let has_arm = drive.base != LOCAL
            && drive.profile(name).is_ok_and(|profile| profile.has_arm() == Ok(true));
        match has_arm {
            true => DeviceCosts::from_rates(8_000_000, 0, 60_000_000, 60_000_000),
            false => DeviceCosts::from_rates(0, 150_000, 200_000_000, 100_000_000)
                .with_queue_gain(&QUEUE_GAIN)
                .expect("the points ascend"),
        }
    }

    /// Fills a database with heaps, or with tables in PAX pages.
    fn load(&self, bench: &Bench<'_>, site: &Site, is_pax: bool) -> Result<(), LoadError> {
        let mut dataset = Dataset::new(RowWidth::Tpch, self.scale_factor);
        dataset.seed = Rng::for_part(bench.seed, "rows").next_u64();
        let kind = match is_pax {
            true => LayoutKind::Pax { span_pages: self.span_pages },
            false => LayoutKind::Heap,
        };
        let layout = Layout { kind, indexes: Vec::new() };
        let tables = [TpchTable::Customer, TpchTable::Orders];
        let mut jobs = dataset.jobs(&tables, &layout, &LoadOptions::default())?;
        let settings = self.variant().settings(to_u32(self.page_bytes.0), POOL_BYTES);
        let database = Database::create(site.format()?, &settings, 1)?;
        load_tables(&database, &mut jobs, &mut LoadWatch(bench))?;
        Ok(database.close()?)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count that was checked to be small"
    )]
    fn limit(&self, percent: f64) -> (i64, u64) {
        let limit = (1500.0 * self.scale_factor * percent).round() as i64 + 1;
        (limit, (percent * 10_000.0).round() as u64)
    }

    /// Time and pages of one share in one way, and how many pairs there are.
    fn point(
        &self,
        (site, processor): (&Site, &Processor),
        stop: &Arc<AtomicBool>,
        device: &DeviceCosts,
        (way, percent): (usize, f64),
    ) -> Result<(Nanos, u64, u64), QueryError> {
        let page_bytes = to_u32(self.page_bytes.0);
        let settings = self.variant().settings(page_bytes, POOL_BYTES);
        let (database, _) = Database::open(site.reopen()?, &settings)?;
        let answer = {
            let tables = database.read();
            let (limit, kept_ppm) = self.limit(percent);
            let question = Question {
                tables: &tables,
                processor,
                stop: Arc::clone(stop),
                device,
                limit,
                kept_ppm,
                memory_pages: to_u32(self.memory.0 / self.page_bytes.0),
                page_bytes,
            };
            let io = tables.engine().data_io();
            let requests = || {
                let counters = io.counters();
                counters.reads.request_count + counters.writes.request_count
            };
            let (start, begun, mark) = (tables.engine().now(), requests(), processor.begin());
            let (pairs, pages) = question.answer(way > 0, WAYS[way].1)?;
            let beside = processor.beside_the_clock(mark, requests() - begun);
            (tables.engine().now() - start + beside, pages, pairs)
        };
        database.close()?;
        Ok(answer)
    }
}

impl Measurement for LateJoin {
    fn check(&self) -> Result<(), String> {
        check_drives(&self.drives)?;
        let rises = self.shares.windows(2).all(|pair| pair[0] < pair[1]);
        let is_share = |percent: &f64| *percent > 0.0 && *percent <= 100.0;
        if self.shares.is_empty() || !rises || !self.shares.iter().all(is_share) {
            return Err("`shares` must rise, above 0 to 100 percent".into());
        }
        if !(self.scale_factor >= 0.001 && self.scale_factor <= 100.0) {
            return Err("`scale_factor` must be 0.001 to 100".into());
        }
        let is_page = self.page_bytes.0.is_power_of_two();
        if !is_page || !(512..=65_536).contains(&self.page_bytes.0) {
            return Err("`page_bytes` must be a power of two, 512 to 64 KiB".into());
        }
        check_span_pages(self.span_pages).map_err(|error| error.to_string())?;
        if self.memory.0 < 4 * u64::from(self.span_pages) * self.page_bytes.0 {
            return Err("`memory` must be four PAX pages or more".into());
        }
        self.variant().check([to_u32(self.page_bytes.0)], &[("page_bytes", "page_bytes")])
    }

    fn targets(&self) -> Vec<String> {
        targets(&self.drives)
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        let (_, drive) = self.drives.iter().nth(index).expect("a step is a drive");
        step_targets(drive)
    }

    fn series_names(&self) -> Vec<String> {
        let of = |drive: &String| Self::series_of(drive);
        self.drives.keys().flat_map(of).map(|series| series.name).collect()
    }

    fn steps(&self) -> Vec<String> {
        self.drives.keys().cloned().collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let (name, drive) = self.drives.iter().nth(index).expect("there is a step for each drive");
        let (log, cpu) = (self.variant().log_apart(), (None, &self.cpu));
        let device = Self::device_costs(drive, name);
        let stop = bench.observer.stop_flag();
        let mut series = Self::series_of(name);
        let mut pair_counts: Vec<Vec<u64>> = vec![Vec::new(); self.shares.len()];
        for (is_pax, ways) in [(false, 0..1), (true, 1..WAYS.len())] {
            let prepared = metered_site(bench, name, (name, drive), log, cpu)?;
            let Some((site, processor)) = prepared else { return Ok(Vec::new()) };
            self.load(bench, &site, is_pax).map_err(|error| match error {
                LoadError::Cancelled => cancelled(),
                other => LabError::step(name, &other),
            })?;
            for way in ways {
                for (place, &percent) in self.shares.iter().enumerate() {
                    check_cancelled(bench)?;
                    let point = self.point((&site, &processor), &stop, &device, (way, percent));
                    let (time, pages, pairs) = point.map_err(|error| match error {
                        QueryError::Cancelled => cancelled(),
                        other => LabError::step(name, &other),
                    })?;
                    series[2 * way].points.push((percent, time.as_seconds_f64()));
                    series[2 * way + 1].points.push((percent, pages as f64));
                    pair_counts[place].push(pairs);
                }
            }
        }
        for counts in pair_counts {
            assert!(counts.iter().all(|count| *count == counts[0]), "invariant 1: {counts:?}");
        }
        Ok(series)
    }
}
