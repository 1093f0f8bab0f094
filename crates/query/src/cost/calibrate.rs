//! What the processor takes for each kind of work, measured by running the operators over tables in memory
//! and solving for one unknown at a time.
//!
//! ```text
//!   scan of S                                        ─► Scan
//!   R hashed, one row probes      - Scan             ─► Build
//!   R hashed, S probes            - Scan - Build     ─► Probe + Emit
//!   R hashed, H probes            - Scan - Build     ─► Probe + Emit / 2: half of H's rows find a partner
//!   S hashed, one row probes      - Scan             ─► Build in a large table
//!   S hashed, R probes            - Scan - Build - Probe ─► Emit there: the rows of a key one after the other
//!   Grace hash, all in one bucket - as R hashed, S probes ─► Copy
//!   sort of S in memory           - Scan             ─► Compare
//!   index of S, no key of S       - Scan - Copy      ─► Descend
//!   index of S, R looks up        - Scan - Copy - Descend - Emit ─► rows × Fetch + pages × visit,
//!                                   once with many rows of a page at a time, once with few
//! ```
//!
//! A table that no cache holds costs several times one that a cache does, row for row, so both are measured.
//! Lookups find their pages in the pool. What a request costs is not measured here; it stays as modelled.
//!
//! 1. Every step is measured several times; the fastest counts, since all else is disturbance.

use super::scan::distinct_pages;
use super::{CpuCosts, LargeTable, comparisons_among};
use crate::execution::{Execution, Limits};
use crate::index::{RowBuffer, SecondaryIndex};
use crate::join::hash_table::HashTable;
use crate::join::{
    BlockNestedLoops, GraceHash, IndexNestedLoops, Join, JoinInput, JoinStream, JoinType, Side,
    block_nested_loops, grace_hash, index_nested_loops,
};
use crate::relation::{HeapRelation, Position, Relation};
use crate::sort::{self, RunFormation, Sort};
use crate::work::Work;
use crate::{Key, QueryError, TupleStream};
use nandu_base::{Nanos, Permutation, to_index, to_u32};
use nandu_device::{Geometry, MemoryConfig, MemoryDevice};
use nandu_storage::database::{
    Column, ColumnType, Database, FetchOrder, LoadOptions, NewTable, TableKind, Tables,
};
use nandu_storage::sqlite::ValueRef;
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Settings, StorageError, Volumes};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Rows of R; S has as many for each of its keys as S001's orders have. R's table has the size of a cache, S's
/// is many times as large.
const ROW_COUNT: u64 = 30_000;
const ROWS_EACH: u64 = 20;
/// Bytes of a row's filling, between those of S001's customers and orders.
const PAD_BYTES: usize = 110;
/// Bytes of a cell beside it: lengths, key and header.
const CELL_BYTES: u64 = 12;
const PAGE_BYTES: u32 = 8192;
/// How often each step is measured.
const REPETITIONS: u32 = 3;
/// Memory of the operators: all rows fit.
const MEMORY_PAGES: u32 = 32_000;
/// The pool: the rows of S and their index fit.
const POOL_BYTES: u64 = 160 << 20;
/// The index of S.
const INDEX: &str = "by_key";
/// Pages for rows of S: few of each of its pages, or all of them, at a time.
const FEW_PAGES: u32 = MEMORY_PAGES / 64;
const MANY_PAGES: u32 = MEMORY_PAGES / 2;
/// Pages of an input, large enough that requests do not count.
const INPUT_PAGES: u32 = 64;

/// What is joined.
struct Bench<'a> {
    tables: &'a Tables,
    key: Key,
    clock: &'a mut dyn FnMut() -> Nanos,
}

/// Measures the processor by a clock that says how much time has passed.
///
/// # Errors
/// If an operator fails, which on a device in memory none should.
pub fn measure_processor(clock: &mut dyn FnMut() -> Nanos) -> Result<CpuCosts, QueryError> {
    let database = make_tables()?;
    let tables = database.read();
    let mut bench = Bench { tables: &tables, key: Key::of(&[0]), clock };
    let (outer, inner) = (ROW_COUNT, ROW_COUNT * ROWS_EACH);
    let scan_ns = bench.scan("inner")?;
    let of_scan = |rows: u64| scan_ns * rows / inner;
    let build_ns = bench.join("outer", "one")?.saturating_sub(of_scan(outer));
    let looked_up = |whole_ns: u64| whole_ns.saturating_sub(of_scan(outer + inner) + build_ns);
    let matched_ns = bench.join("outer", "inner")?;
    let all_ns = looked_up(matched_ns);
    let half_ns = looked_up(bench.join("outer", "half")?);
    // Half of the partners cost their difference.
    let emit_ns = (2 * all_ns.saturating_sub(half_ns)).min(all_ns);
    let probe_ns = all_ns - emit_ns;
    let large_build_ns = bench.join("inner", "one")?.saturating_sub(of_scan(inner));
    let large_all_ns = bench
        .join("inner", "outer")?
        .saturating_sub(of_scan(outer + inner))
        .saturating_sub(large_build_ns);
    let large_emit_ns = large_all_ns.saturating_sub(probe_ns / ROWS_EACH);
    let grace_ns = bench.grace()?;
    // Buckets are read again, and every row is hashed once more to find its bucket.
    let copy_ns = grace_ns.saturating_sub(matched_ns).saturating_sub(of_scan(outer + inner));
    let sort_ns = bench.sort()?.saturating_sub(scan_ns);
    let looking =
        |whole_ns: u64| whole_ns.saturating_sub(of_scan(outer) + copy_ns * outer / (outer + inner));
    let descend_ns = looking(bench.look_up("strange", MANY_PAGES)?);
    let found = |whole_ns: u64| looking(whole_ns).saturating_sub(descend_ns + emit_ns);
    let few_ns = found(bench.look_up("outer", FEW_PAGES)?);
    let many_ns = found(bench.look_up("outer", MANY_PAGES)?);
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
        .with(Work::Compare, each(sort_ns, inner * comparisons_among(inner)));
    let table_bytes = |rows: u64| HashTable::bytes_of(rows, rows * (PAD_BYTES as u64 + CELL_BYTES));
    let large = LargeTable {
        small_bytes: table_bytes(outer),
        large_bytes: table_bytes(inner),
        build_ps: each(large_build_ns, inner),
        emit_ps: each(large_emit_ns, inner),
    };
    let request_ps = CpuCosts::MODELLED.request_ps;
    let visit_ps = each(visit_ns(visits), visits);
    Ok(CpuCosts { work, request_ps, visit_ps, large: Some(large) })
}

impl Bench<'_> {
    fn execution(&self) -> Execution {
        let limits = Limits {
            page_bytes: PAGE_BYTES,
            memory_pages: MEMORY_PAGES,
            write_budget_bytes: None,
            reads_ahead: false,
            work_costs: None,
        };
        let io = self.tables.engine().data_io();
        Execution::new(limits, io.clone(), io, None, Arc::new(AtomicBool::new(false)))
    }

    /// The least time of some runs of `step`.
    fn least(
        &mut self,
        mut step: impl FnMut(&Self) -> Result<(), QueryError>,
    ) -> Result<u64, QueryError> {
        let mut least_ns = u64::MAX;
        for _ in 0..REPETITIONS {
            let before = (self.clock)();
            step(self)?;
            least_ns = least_ns.min((self.clock)().saturating_sub(before).0);
        }
        Ok(least_ns)
    }

    fn scan(&mut self, table: &str) -> Result<u64, QueryError> {
        self.least(|bench| {
            let relation = HeapRelation::open(bench.tables, table)?;
            let execution = bench.execution();
            let memory = execution.take("measuring", INPUT_PAGES)?;
            let mut stream = relation.scan(&execution, memory, Position::default())?;
            while stream.advance()? {}
            Ok(())
        })
    }

    fn join(&mut self, built: &str, probing: &str) -> Result<u64, QueryError> {
        let settings = block_nested_loops::Settings {
            outer: Side::Left,
            table_pages: MEMORY_PAGES - INPUT_PAGES,
            input_pages: INPUT_PAGES,
            chunk_pages: None,
        };
        self.least(|bench| {
            let sides = bench.open(built, probing)?;
            let execution = bench.execution();
            drain(&mut BlockNestedLoops::new(&execution, bench.of(&sides), settings)?)
        })
    }

    fn grace(&mut self) -> Result<u64, QueryError> {
        let settings = grace_hash::Settings {
            bucket_count: 1,
            input_pages: MEMORY_PAGES - INPUT_PAGES,
            output_pages: INPUT_PAGES,
        };
        self.least(|bench| {
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
        self.least(|bench| {
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
            output_pages: 1,
            workspace_pages: MEMORY_PAGES - INPUT_PAGES - 1,
            formation: RunFormation::ReplacementSelection,
        };
        self.least(|bench| {
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

fn drain(stream: &mut dyn JoinStream) -> Result<(), QueryError> {
    while stream.advance()? {}
    Ok(())
}

/// The tables `outer`, `inner`, `half`, `one` and `strange`, in random order, on a device in memory.
fn make_tables() -> Result<Database, QueryError> {
    let geometry = Geometry { sector_bytes: 512, sector_count: 384 << 11 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let data = Box::new(DeviceVolume::format(Box::new(device))?);
    let settings = Settings {
        page_bytes: PAGE_BYTES,
        pool_bytes: POOL_BYTES,
        log_bytes: 4 << 20,
        checkpoint_bytes: 1 << 20,
        ..Settings::default()
    };
    let database = Database::create(Volumes { data, log: None }, &settings, 1)?;
    let mut writing = database.write()?;
    let many = ROW_COUNT * ROWS_EACH;
    let tables = [
        ("outer", ROW_COUNT, 0..ROW_COUNT),
        ("inner", many, 0..ROW_COUNT),
        ("half", many, 0..2 * ROW_COUNT),
        ("one", 1, 0..1),
        ("strange", ROW_COUNT, ROW_COUNT..2 * ROW_COUNT),
    ];
    for (name, count, keys) in tables {
        let table = NewTable {
            name: name.to_owned(),
            columns: vec![
                Column::new("key", ColumnType::Integer),
                Column::new("pad", ColumnType::Blob),
            ],
            kind: TableKind::Heap,
            indexes: match name {
                "inner" => vec![(INDEX.to_owned(), vec!["key".to_owned()])],
                _ => Vec::new(),
            },
        };
        let order = Permutation::new(count, count);
        let pad = [7; PAD_BYTES];
        writing.load_table(&table, &LoadOptions::default(), |load| {
            for row in 0..count {
                let key =
                    i64::from(to_u32(keys.start + order.apply(row) % (keys.end - keys.start)));
                load.push(&[ValueRef::Integer(key), ValueRef::Blob(&pad)])?;
            }
            Ok::<_, StorageError>(())
        })?;
    }
    writing.commit()?;
    Ok(database)
}
