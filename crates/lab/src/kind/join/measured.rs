//! The two tables, and one join of them.

use super::super::bench::Bench;
use super::super::site::{EngineVariant, LoadWatch, Site, cancelled};
use super::POOL_BYTES;
use super::formulas::Formulas;
use super::parts::{Scale, divide};
use super::processor::Processor;
use crate::error::LabError;
use nandu_base::{ByteCount, Nanos, Rng, to_u32};
use nandu_device::Counters;
use nandu_load::{Dataset, Layout, LoadError, LoadOptions, RowWidth, TpchTable, load_tables};
use nandu_query::allocation::{Fudge, JoinSizes};
use nandu_query::cost::join::{grace_hash, hybrid_hash, sort_merge};
use nandu_query::cost::{
    CostModel, CpuCosts, DeviceCosts, Estimate, JoinQuestion, JoinSide, RelationStats,
};
use nandu_query::join::{Join, JoinInput, JoinType};
use nandu_query::plan::{ChunkRule, Division, Indexes, Plan};
use nandu_query::relation::HeapRelation;
use nandu_query::{Execution, JoinKind, Key, Limits, QueryError, Relation};
use nandu_storage::Database;
use nandu_storage::database;
use nandu_storage::sqlite::FillFactor;

/// The joins of S001.
pub(super) const JOINS: [JoinKind; 4] =
    [JoinKind::BlockNestedLoops, JoinKind::SortMerge, JoinKind::GraceHash, JoinKind::HybridHash];
/// Orders of a customer.
const DUPLICATES: u64 = 10;

/// What a join did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    pub(super) total_ns: u64,
    pub(super) io_ns: u64,
    pub(super) user_ns: u64,
    pub(super) kernel_ns: u64,
    /// Of `io_ns`, that until the last write was over.
    pub(super) phase_1_ns: u64,
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    /// `io_ns` as the model has it.
    pub(super) model_ns: Option<u64>,
}

impl Measured {
    /// Of several runs; counts are those of the first.
    pub(super) fn mean(runs: &[Self]) -> Self {
        let count = runs.len() as u64;
        let of = |time: fn(&Self) -> u64| runs.iter().map(time).sum::<u64>() / count;
        Self {
            total_ns: of(|run| run.total_ns),
            io_ns: of(|run| run.io_ns),
            user_ns: of(|run| run.user_ns),
            kernel_ns: of(|run| run.kernel_ns),
            phase_1_ns: of(|run| run.phase_1_ns),
            ..runs[0]
        }
    }
}

/// The two tables, loaded, with their keys.
pub(super) struct Tables {
    _site: Site,
    database: Database,
    scale: Scale,
}

impl Tables {
    /// Loads the tables of S001, in random order.
    pub(super) fn load(
        bench: &Bench<'_>,
        step: &str,
        site: Site,
        scale: Scale,
        (scale_factor, fill_percent): (f64, u32),
        variant: &EngineVariant,
    ) -> Result<Self, LabError> {
        let settings = variant.settings(to_u32(scale.page_bytes), POOL_BYTES);
        let error = |error: &dyn std::fmt::Display| LabError::step(step, error);
        let volumes = site.format().map_err(|found| error(&found))?;
        let database = Database::create(volumes, &settings, 1).map_err(|found| error(&found))?;
        let mut dataset = Dataset::new(RowWidth::S001, scale_factor);
        dataset.seed = Rng::for_part(bench.seed, "rows").next_u64();
        let tables = [TpchTable::Customer, TpchTable::Orders];
        let permille = fill_percent * 10;
        let fill = FillFactor { low_permille: permille, high_permille: permille, seed: 0 };
        let options = LoadOptions { fill, ..LoadOptions::default() };
        let jobs = dataset.jobs(&tables, &Layout::default(), &options);
        let mut jobs = jobs.map_err(|found| error(&found))?;
        load_tables(&database, &mut jobs, &mut LoadWatch(bench)).map_err(|found| match found {
            LoadError::Cancelled => cancelled(),
            other => error(&other),
        })?;
        database.checkpoint().map_err(|found| error(&found))?;
        Ok(Self { _site: site, database, scale })
    }

    /// Joins them in `memory_pages`, with buffers of so many percent of the formula's.
    pub(super) fn join(
        &self,
        bench: &Bench<'_>,
        step: &str,
        (kind, buffer_percent): (JoinKind, u32),
        memory_pages: u64,
        (device, processor): (Option<&DeviceCosts>, &Processor),
    ) -> Result<Measured, LabError> {
        let text = |error: String| LabError::step(step, &format!("{kind}: {error}"));
        let query = |error: QueryError| text(error.to_string());
        let tables = self.database.read();
        let left = HeapRelation::open(&tables, "customer").map_err(query)?;
        let right = HeapRelation::open(&tables, "orders").map_err(query)?;
        let side = |relation: &HeapRelation<'_>| {
            JoinSide::new(RelationStats::of(relation.size(), self.scale.page_bytes))
        };
        let question = JoinQuestion::new(side(&left), side(&right), DUPLICATES);
        let division =
            divide((kind, buffer_percent), &question, memory_pages, self.scale).map_err(text)?;
        let plan = Plan {
            kind,
            is_swapped: false,
            division,
            estimate: Estimate::default(),
            time: Nanos(0),
            written: ByteCount::ZERO,
        };
        let model_ns = device.map(|device| {
            let model = (device, &processor.costs());
            estimate(&division, &question, memory_pages, model).io_ns
        });
        let key = Key::of(&[0]);
        let join = Join {
            left: JoinInput { relation: &left, key: &key },
            right: JoinInput { relation: &right, key: &key },
            join_type: JoinType::Inner,
        };
        let limits = Limits {
            page_bytes: to_u32(self.scale.page_bytes),
            memory_pages: to_u32(memory_pages),
            write_budget_bytes: None,
            reads_ahead: false,
            work_costs: processor.work_costs(),
        };
        let mut found =
            run(bench, &tables, (&plan, join), limits, processor).map_err(|error| match error {
                QueryError::Cancelled => cancelled(),
                other => query(other),
            })?;
        found.model_ns = model_ns;
        Ok(found)
    }
}

/// Runs a plan and counts.
fn run(
    bench: &Bench<'_>,
    tables: &database::Tables,
    (plan, join): (&Plan, Join<'_>),
    limits: Limits,
    processor: &Processor,
) -> Result<Measured, QueryError> {
    let io = tables.engine().data_io();
    let device = || -> (Counters, Nanos) {
        // The engine asks the volume for the time: nobody else may hold it then.
        let counters = io.counters();
        (counters, tables.engine().now())
    };
    let (before, begin) = device();
    let mark = processor.begin();
    let stop = bench.observer.stop_flag();
    let execution = Execution::new(limits, io.clone(), io.clone(), None, stop);
    let mut stream = plan.open(&execution, join, Indexes::NONE, ChunkRule::ByPages)?;
    let mut pair_count = 0;
    while stream.advance()? {
        pair_count += stream.batch().pairs.len() as u64;
    }
    drop(stream);
    let (after, end) = device();
    let requests =
        |counters: &Counters| (counters.reads.request_count, counters.writes.request_count);
    let ((reads_before, writes_before), (reads, writes)) = (requests(&before), requests(&after));
    let (reads, writes) = (reads - reads_before, writes - writes_before);
    let used = processor.used(mark, &execution, reads + writes);
    execution.audit();
    let order_count = join.right.relation.size().tuple_count;
    assert!(pair_count.abs_diff(order_count) <= order_count / 50, "each order has a customer");
    let counts = execution.io_counts();
    let at_last_write = execution.io_counts_at_last_write();
    let (user_ns, kernel_ns) = (used.user.0, used.system.0);
    let total_ns = match processor.is_real() {
        true => (end - begin).0,
        false => counts.wait_ns + user_ns + kernel_ns,
    };
    Ok(Measured {
        total_ns,
        io_ns: counts.wait_ns,
        user_ns,
        kernel_ns,
        phase_1_ns: at_last_write.wait_ns,
        reads,
        writes,
        read_bytes: counts.read_bytes,
        written_bytes: counts.write_bytes,
        model_ns: None,
    })
}

/// What the model says of a division.
fn estimate(
    division: &Division,
    question: &JoinQuestion,
    pages: u64,
    (device, processor): (&DeviceCosts, &CpuCosts),
) -> Estimate {
    let model = CostModel { device, processor, reads_ahead: false };
    match division {
        Division::BlockNestedLoops(parts) => {
            // By the formula, so that there are as many chunks as in the paper.
            let [outer, inner] = [question.outer.stats, question.inner.stats];
            let sizes = JoinSizes::new(outer.page_count, inner.page_count, Fudge::PAPER);
            let formulas = Formulas { device, sizes, page_bytes: outer.page_bytes };
            formulas.block_nested_loops(parts)
        }
        Division::SortMerge(parts) => sort_merge(&model, question, pages, parts),
        Division::GraceHash(parts) => grace_hash(&model, question, pages, parts),
        Division::HybridHash(parts) => hybrid_hash(&model, question, pages, parts),
        other => unreachable!("S001 has no such join: {other:?}"),
    }
}
