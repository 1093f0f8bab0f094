//! What the processor takes for each kind of work, measured by running the operators over tables in memory
//! and solving for one unknown at a time.
//!
//! ```text
//!   scan of S                                        ─► Scan
//!   R hashed, one row probes      - Scan             ─► Build
//!   R hashed, S probes            - Scan - Build     ─► Probe + Emit
//!   R hashed, D probes            - Scan - Build     ─► Probe + Emit / 20: one in twenty rows finds a partner
//!   D hashed, one row probes      - Scan             ─► Build of a key's first row in a large table
//!   D hashed, D probes by another column - Scan - Build - Probe ─► Emit of that row
//!   S hashed, one row probes      - Scan - Build of first rows ─► Build of a key's further rows
//!   S hashed, R probes            - Scan - Build - Probe - Emit of first rows ─► Emit of those
//!   Grace hash, all in one bucket - as R hashed, S probes ─► Copy
//!   sort of S by runs of a tenth  - 2 Scan - Copy    ─► Compare
//!   scan of S in PAX pages        - Scan             ─► Assemble, for each of its values
//!   index of S, no key of S       - Scan - Copy      ─► Descend
//!   index of S, R looks up        - Scan - Copy - Descend - Emit ─► rows × Fetch + pages × visit,
//!                                   once with many rows of a page at a time, once with few
//! ```
//!
//! A table that no cache holds costs several times one that a cache does, row for row, so both are measured.
//! D is as large as S and its keys are all different; its other column has them in another order, so that rows are
//! not found one behind the other. What the device in memory takes for writing buckets and for forgetting them is
//! not counted: a drive does that without the processor. Lookups find their pages in the pool. What a request costs is not measured here; it stays as modelled.
//!
//! 1. Steps are measured in rounds, each step once, and the median of the rounds counts: a machine that is slow for
//!    a while slows all steps of that round alike, and joins meet it as often.

use super::scan::distinct_pages;
use super::{CpuCosts, LargeTable, RowCosts, comparisons_among};
use crate::execution::{Execution, Limits};
use crate::index::{RowBuffer, SecondaryIndex};
use crate::join::hash_table::HashTable;
use crate::join::{
    BlockNestedLoops, GraceHash, IndexNestedLoops, Join, JoinInput, JoinStream, JoinType, Side,
    block_nested_loops, grace_hash, index_nested_loops,
};
use crate::relation::stats::SORT_OVERHEAD_BYTES;
use crate::relation::{HeapRelation, PaxRelation, Relation, Span};
use crate::sort::{self, RunFormation, Sort};
use crate::work::Work;
use crate::{Key, QueryError, TupleStream};
use nandu_base::{Nanos, Permutation, to_index, to_u32};
use nandu_device::{
    Completion, Counters, Device, DeviceInfo, Geometry, MemoryConfig, MemoryDevice, Operation,
    Rejected, Request,
};
use nandu_storage::database::{
    Column, ColumnType, Database, FetchOrder, LoadOptions, NewTable, TableKind, Tables,
};
use nandu_storage::sqlite::ValueRef;
use nandu_storage::volume::{DeviceVolume, Io};
use nandu_storage::{Settings, Volumes};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Rows of R; S has as many for each of its keys as S001's orders have. R's table has the size of a cache, S's
/// is many times as large. What a program takes that is built to be debugged is nobody's cost: there a few
/// go the same way.
const ROW_COUNT: u64 = if cfg!(debug_assertions) { 5_000 } else { 30_000 };
const ROWS_EACH: u64 = 20;
/// Bytes of a row's filling, between those of S001's customers and orders.
const PAD_BYTES: usize = 110;
/// Bytes of a cell beside it: lengths, keys and header.
const CELL_BYTES: u64 = 16;
const PAGE_BYTES: u32 = 8192;
/// Steps of a round.
const STEP_COUNT: usize = 14;
/// Memory of the operators: all rows fit.
const MEMORY_PAGES: u32 = 32_000;
/// The pool: the rows of S and their index fit.
const POOL_BYTES: u64 = 160 << 20;
/// S in PAX pages, the pages that one spans, and its columns.
const PAX: &str = "pax";
const SPAN_PAGES: u32 = 64;
const COLUMN_COUNT: u64 = 3;
/// The index of S.
const INDEX: &str = "by_key";
/// Pages for rows of S: few of each of its pages, or all of them, at a time.
const FEW_PAGES: u32 = MEMORY_PAGES / 64;
const MANY_PAGES: u32 = MEMORY_PAGES / 2;
/// Pages of an input, large enough that requests do not count.
const INPUT_PAGES: u32 = 64;

/// Pages in which S is sorted, and the bytes of a row there.
const WORKSPACE_PAGES: u32 = 512;
const SORTED_ROW_BYTES: u64 = CELL_BYTES + PAD_BYTES as u64 + SORT_OVERHEAD_BYTES;
/// Rows of a run of replacement selection, of those that fit at once.
const RUN_LENGTH: u64 = 2;
/// Bytes of the devices in memory, of tables and of buckets.
const TABLE_DEVICE_BYTES: u64 = 512 << 20;
const SPILL_DEVICE_BYTES: u64 = 192 << 20;

/// Says how much time has passed.
type Clock = Arc<dyn Fn() -> Nanos + Send + Sync>;

/// Two tables that are joined, and what measures the joins.
struct Bench<'a> {
    tables: &'a Tables,
    key: Key,
    clock: Clock,
    spill_io: Io,
    /// What the device of buckets has taken for writing.
    written_ns: Arc<AtomicU64>,
    /// Set when it should end.
    stop: Arc<AtomicBool>,
}

/// Measures the processor by a clock that says how much time has passed: every step `round_count` times,
/// of which the median counts, after a first time that only warms up. Nine rounds tell costs that
/// estimates can be made of; one round does for a look.
///
/// # Errors
/// [`QueryError::Cancelled`] soon after `stop` is set, or if an operator fails, which on a device in memory
/// none should.
pub fn measure_processor(
    clock: Clock,
    round_count: NonZeroUsize,
    stop: &Arc<AtomicBool>,
) -> Result<CpuCosts, QueryError> {
    let database = make_tables(stop)?;
    let tables = database.read();
    let mut bench = Bench::new(&tables, clock, stop)?;
    let (outer, inner) = (ROW_COUNT, ROW_COUNT * ROWS_EACH);
    let [scan_ns, hashed_ns, matched_ns, rarely_matched_ns, rest @ ..] =
        bench.medians(round_count)?;
    let [first_hashed_ns, first_matched_ns, lists_hashed_ns, lists_matched_ns, rest @ ..] = rest;
    let [grace_ns, sorted_ns, strange_ns, few_ns, many_ns, pax_ns] = rest;
    let of_scan = |rows: u64| scan_ns * rows / inner;
    let build_ns = hashed_ns.saturating_sub(of_scan(outer));
    let looked_up = |whole_ns: u64| whole_ns.saturating_sub(of_scan(outer + inner) + build_ns);
    let all_ns = looked_up(matched_ns);
    let rare_ns = looked_up(rarely_matched_ns);
    // All partners but one in twenty cost their difference.
    let emit_ns = (all_ns.saturating_sub(rare_ns) * ROWS_EACH / (ROWS_EACH - 1)).min(all_ns);
    let probe_ns = all_ns - emit_ns;
    let first_build_ns = first_hashed_ns.saturating_sub(of_scan(inner));
    let first_emit_ns =
        first_matched_ns.saturating_sub(of_scan(2 * inner) + first_build_ns + probe_ns);
    let lists_build_ns = lists_hashed_ns.saturating_sub(of_scan(inner));
    let lists_emit_ns = lists_matched_ns
        .saturating_sub(of_scan(outer + inner) + lists_build_ns + probe_ns / ROWS_EACH);
    // Buckets are read again, and every row is hashed once more to find its bucket.
    let copy_ns = grace_ns.saturating_sub(matched_ns).saturating_sub(of_scan(outer + inner));
    let sort_ns = sorted_ns.saturating_sub(2 * scan_ns + copy_ns * inner / (outer + inner));
    let looking =
        |whole_ns: u64| whole_ns.saturating_sub(of_scan(outer) + copy_ns * outer / (outer + inner));
    let descend_ns = looking(strange_ns);
    let found = |whole_ns: u64| looking(whole_ns).saturating_sub(descend_ns + emit_ns);
    let (few_ns, many_ns) = (found(few_ns), found(many_ns));
    let [few_visits, many_visits] = [bench.visits(FEW_PAGES)?, bench.visits(MANY_PAGES)?];
    let visits = few_visits.saturating_sub(many_visits).max(1);
    let visit_ns = |count: u64| few_ns.saturating_sub(many_ns) * count / visits;
    let fetch_ns = many_ns.saturating_sub(visit_ns(many_visits));
    let each = |work_ns: u64, count: u64| work_ns.saturating_mul(1000) / count.max(1);
    let costs = CpuCosts::MODELLED.work;
    let work = costs
        .with(Work::Scan, each(scan_ns, inner))
        .with(Work::Build, each(build_ns, outer))
        .with(Work::Probe, each(probe_ns, inner))
        .with(Work::Emit, each(emit_ns, inner))
        .with(Work::Copy, each(copy_ns, outer + inner))
        .with(Work::Descend, each(descend_ns, outer))
        .with(Work::Fetch, each(fetch_ns, inner))
        .with(Work::Assemble, each(pax_ns.saturating_sub(scan_ns), inner * COLUMN_COUNT))
        .with(Work::Compare, each(sort_ns, inner * comparisons_of_a_row(inner)));
    let table_bytes = |rows: u64| HashTable::bytes_of(rows, rows * (PAD_BYTES as u64 + CELL_BYTES));
    // Lists have as many first rows as R has keys.
    let further = |lists_ns: u64, first_ns: u64| lists_ns.saturating_sub(first_ns / ROWS_EACH);
    let large = LargeTable {
        small_bytes: table_bytes(outer),
        large_bytes: table_bytes(inner),
        first: RowCosts {
            build_ps: each(first_build_ns, inner),
            emit_ps: each(first_emit_ns, inner),
        },
        further: RowCosts {
            build_ps: each(further(lists_build_ns, first_build_ns), inner - outer),
            emit_ps: each(further(lists_emit_ns, first_emit_ns), inner - outer),
        },
    };
    let request_ps = CpuCosts::MODELLED.request_ps;
    let visit_ps = each(visit_ns(visits), visits);
    Ok(CpuCosts { work, request_ps, visit_ps, large: Some(large) })
}

/// Comparisons for each of so many rows in [`Bench::sort`]: in its runs, then among them.
fn comparisons_of_a_row(row_count: u64) -> u64 {
    let at_once = u64::from(WORKSPACE_PAGES) * u64::from(PAGE_BYTES) / SORTED_ROW_BYTES;
    let run_count = row_count.div_ceil(RUN_LENGTH * at_once);
    comparisons_among(at_once.min(row_count)) + comparisons_among(run_count)
}

impl<'a> Bench<'a> {
    fn new(tables: &'a Tables, clock: Clock, stop: &Arc<AtomicBool>) -> Result<Self, QueryError> {
        let written_ns = Arc::new(AtomicU64::new(0));
        let device = SpillDevice {
            memory: memory_device(SPILL_DEVICE_BYTES),
            clock: Arc::clone(&clock),
            written_ns: Arc::clone(&written_ns),
        };
        let volume = DeviceVolume::format(Box::new(device))?;
        let spill_io = Io::new(Box::new(volume), Arc::default());
        let (key, stop) = (Key::of(&[0]), Arc::clone(stop));
        Ok(Self { tables, key, clock, spill_io, written_ns, stop })
    }

    fn execution(&self) -> Execution {
        let limits = Limits {
            page_bytes: PAGE_BYTES,
            memory_pages: MEMORY_PAGES,
            write_budget_bytes: None,
            reads_ahead: false,
            work_costs: None,
        };
        let io = self.tables.engine().data_io();
        Execution::new(limits, io, self.spill_io.clone(), None, Arc::clone(&self.stop))
    }

    /// Each step's median over the rounds.
    fn medians(&mut self, round_count: NonZeroUsize) -> Result<[u64; STEP_COUNT], QueryError> {
        let mut times: [Vec<u64>; STEP_COUNT] = Default::default();
        self.round()?;
        for _ in 0..round_count.get() {
            for (times, time_ns) in times.iter_mut().zip(self.round()?) {
                times.push(time_ns);
            }
        }
        Ok(times.map(|mut times| {
            times.sort_unstable();
            times[times.len() / 2]
        }))
    }

    /// Every step once, in the order of the drawing; a large table's before what needs other operators.
    fn round(&mut self) -> Result<[u64; STEP_COUNT], QueryError> {
        Ok([
            self.scan("inner")?,
            self.join("outer", "one")?,
            self.join("outer", "inner")?,
            self.join("outer", "distinct")?,
            self.join("distinct", "one")?,
            self.join_by("distinct", "distinct", &Key::of(&[1]))?,
            self.join("inner", "one")?,
            self.join("inner", "outer")?,
            self.grace()?,
            self.sort()?,
            self.look_up("strange", MANY_PAGES)?,
            self.look_up("outer", FEW_PAGES)?,
            self.look_up("outer", MANY_PAGES)?,
            self.scan_pax()?,
        ])
    }

    /// The time of a step.
    fn time(
        &mut self,
        step: impl FnOnce(&Self) -> Result<(), QueryError>,
    ) -> Result<u64, QueryError> {
        check(&self.stop)?;
        self.written_ns.store(0, Ordering::Relaxed);
        let before = (self.clock)();
        step(self)?;
        let time_ns = (self.clock)().saturating_sub(before).0;
        Ok(time_ns.saturating_sub(self.written_ns.load(Ordering::Relaxed)))
    }

    fn scan(&mut self, table: &str) -> Result<u64, QueryError> {
        self.time(|bench| {
            let relation = HeapRelation::open(bench.tables, table)?;
            let execution = bench.execution();
            let memory = execution.take("measuring", INPUT_PAGES)?;
            let mut stream = relation.scan(&execution, memory, Span::ALL)?;
            while stream.advance()? {}
            Ok(())
        })
    }

    fn scan_pax(&mut self) -> Result<u64, QueryError> {
        self.time(|bench| {
            let relation = PaxRelation::open(bench.tables, PAX, &bench.key, None)?;
            let execution = bench.execution();
            let memory = execution.take("measuring", INPUT_PAGES.max(relation.scan_pages_min()))?;
            let mut stream = relation.scan(&execution, memory, Span::ALL)?;
            while stream.advance()? {}
            Ok(())
        })
    }

    fn join(&mut self, built: &str, probing: &str) -> Result<u64, QueryError> {
        self.join_by(built, probing, &Key::of(&[0]))
    }

    /// Joins the first column of what is hashed to a column of what probes.
    fn join_by(&mut self, built: &str, probing: &str, probe_key: &Key) -> Result<u64, QueryError> {
        let settings = block_nested_loops::Settings {
            outer: Side::Left,
            table_pages: MEMORY_PAGES - INPUT_PAGES,
            input_pages: INPUT_PAGES,
            chunk_pages: None,
        };
        self.time(|bench| {
            let sides = bench.open(built, probing)?;
            let execution = bench.execution();
            let mut join = bench.of(&sides);
            join.right.key = probe_key;
            drain(&mut BlockNestedLoops::new(&execution, join, settings)?)
        })
    }

    fn grace(&mut self) -> Result<u64, QueryError> {
        let settings = grace_hash::Settings {
            bucket_count: 1,
            input_pages: MEMORY_PAGES - INPUT_PAGES,
            output_pages: INPUT_PAGES,
        };
        self.time(|bench| {
            let sides = bench.open("outer", "inner")?;
            let execution = bench.execution();
            drain(&mut GraceHash::new(&execution, bench.of(&sides), settings)?)
        })
    }

    /// Joins by the index of `inner`, with so many pages for its rows.
    fn look_up(&mut self, outer: &str, inner_pages: u32) -> Result<u64, QueryError> {
        let settings = index_nested_loops::Settings {
            outer: Side::Left,
            input_pages: INPUT_PAGES,
            batch_pages: MEMORY_PAGES / 4,
            inner_pages,
            batch_rows_max: None,
            order: FetchOrder::Address,
        };
        self.time(|bench| {
            let sides = bench.open(outer, "inner")?;
            let index = SecondaryIndex::open(bench.tables, "inner", INDEX, false)?;
            let execution = bench.execution();
            drain(&mut IndexNestedLoops::new(&execution, bench.of(&sides), &index, settings)?)
        })
    }

    /// How often it finds a page then: each window of rows has its pages once.
    fn visits(&self, inner_pages: u32) -> Result<u64, QueryError> {
        let relation = HeapRelation::open(self.tables, "inner")?;
        let size = relation.size();
        let bytes = to_index(u64::from(inner_pages) * u64::from(PAGE_BYTES));
        let row_bytes = to_index(size.cell_bytes / size.tuple_count.max(1));
        let window = (RowBuffer::item_count(bytes, row_bytes) as u64).clamp(1, size.tuple_count);
        Ok(distinct_pages(size.page_count, window) * size.tuple_count.div_ceil(window))
    }

    fn sort(&mut self) -> Result<u64, QueryError> {
        let settings = sort::Settings {
            input_pages: INPUT_PAGES,
            output_pages: INPUT_PAGES,
            workspace_pages: WORKSPACE_PAGES,
            formation: RunFormation::ReplacementSelection,
        };
        self.time(|bench| {
            let relation = HeapRelation::open(bench.tables, "inner")?;
            let execution = bench.execution();
            let mut sort = Sort::new(&execution, &relation, &bench.key, settings)?;
            while sort.advance()? {}
            Ok(())
        })
    }

    fn open(&self, left: &str, right: &str) -> Result<[HeapRelation<'_>; 2], QueryError> {
        Ok([HeapRelation::open(self.tables, left)?, HeapRelation::open(self.tables, right)?])
    }

    fn of<'r>(&'r self, [left, right]: &'r [HeapRelation<'r>; 2]) -> Join<'r> {
        Join {
            left: JoinInput { relation: left, key: &self.key },
            right: JoinInput { relation: right, key: &self.key },
            join_type: JoinType::Inner,
        }
    }
}

/// A device in memory that says how long it wrote and forgot.
struct SpillDevice {
    memory: MemoryDevice,
    clock: Clock,
    written_ns: Arc<AtomicU64>,
}

impl Device for SpillDevice {
    fn info(&self) -> &DeviceInfo {
        self.memory.info()
    }

    fn now(&self) -> Nanos {
        self.memory.now()
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        if request.operation == Operation::Read {
            return self.memory.submit(now, request);
        }
        let before = (self.clock)();
        let submitted = self.memory.submit(now, request);
        let time_ns = (self.clock)().saturating_sub(before).0;
        self.written_ns.fetch_add(time_ns, Ordering::Relaxed);
        submitted
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        self.memory.next_completion(until)
    }

    fn in_flight(&self) -> u32 {
        self.memory.in_flight()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.memory.idle_until(time)
    }

    fn counters(&self) -> Counters {
        self.memory.counters()
    }
}

fn memory_device(capacity_bytes: u64) -> MemoryDevice {
    let geometry = Geometry { sector_bytes: 512, sector_count: capacity_bytes / 512 };
    MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() })
}

fn drain(stream: &mut dyn JoinStream) -> Result<(), QueryError> {
    while stream.advance()? {}
    Ok(())
}

/// The tables `outer`, `inner`, `distinct`, `one`, `strange` and [`PAX`], in random order, on a device in memory. Two columns
/// have the same keys in two orders.
fn make_tables(stop: &AtomicBool) -> Result<Database, QueryError> {
    let device = memory_device(TABLE_DEVICE_BYTES);
    let data = Box::new(DeviceVolume::format(Box::new(device))?);
    let settings = Settings {
        page_bytes: PAGE_BYTES,
        pool_bytes: POOL_BYTES,
        log_bytes: 4 << 20,
        checkpoint_bytes: 1 << 20,
        ..Settings::default()
    };
    let database = Database::create(Volumes::new(data, None), &settings, 1)?;
    let mut writing = database.write()?;
    let many = ROW_COUNT * ROWS_EACH;
    let tables = [
        ("outer", ROW_COUNT, 0..ROW_COUNT),
        ("inner", many, 0..ROW_COUNT),
        ("distinct", many, 0..many),
        ("one", 1, 0..1),
        ("strange", ROW_COUNT, ROW_COUNT..2 * ROW_COUNT),
        (PAX, many, 0..ROW_COUNT),
    ];
    for (name, count, keys) in tables {
        let table = NewTable {
            name: name.to_owned(),
            columns: vec![
                Column::new("key", ColumnType::Integer),
                Column::new("other", ColumnType::Integer),
                Column::new("pad", ColumnType::Blob),
            ],
            kind: match name {
                PAX => TableKind::Pax { span_pages: SPAN_PAGES },
                _ => TableKind::Heap,
            },
            indexes: match name {
                "inner" => vec![(INDEX.to_owned(), vec!["key".to_owned()])],
                _ => Vec::new(),
            },
        };
        let orders = [count, count + 1].map(|seed| Permutation::new(count, seed));
        let pad = [7; PAD_BYTES];
        writing.load_table(&table, &LoadOptions::default(), |load| {
            for row in 0..count {
                check(stop)?;
                let [key, other] = orders.each_ref().map(|order| {
                    let key = keys.start + order.apply(row) % (keys.end - keys.start);
                    ValueRef::Integer(i64::from(to_u32(key)))
                });
                load.push(&[key, other, ValueRef::Blob(&pad)])?;
            }
            Ok::<_, QueryError>(())
        })?;
    }
    writing.commit()?;
    Ok(database)
}

/// Ends the work once it should end.
fn check(stop: &AtomicBool) -> Result<(), QueryError> {
    if stop.load(Ordering::Relaxed) { Err(QueryError::Cancelled) } else { Ok(()) }
}
