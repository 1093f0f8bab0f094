//! Grace and hybrid hash beside looking at all pairs, what they write, and what they build when the planner
//! took the wrong side for the smaller one.

use super::shape;
use crate::cost::{CostModel, CpuCosts, DeviceCosts, RelationStats};
use crate::execution::Memory;
use crate::join::{GraceHash, HybridHash, JoinStream, JoinType, Side, grace_hash, hybrid_hash};
use crate::plan::{Budget, ChunkRule, Indexes, JoinQuestion, JoinSide, Plan, PoolShape, plans};
use crate::relation::{RelationSize, Rows, Span, TupleStream};
use crate::testing::{RowShape, collect, execution, expected, join, limits, random_rows};
use crate::{Execution, JoinKind, Key, Limits, QueryError, Relation, Work};
use nandu_base::Rng;
use proptest::prelude::*;

fn check(
    join_type: JoinType,
    shapes: (RowShape, RowShape),
    seed: u64,
    limits: Limits,
    open: impl for<'x> Fn(&'x Execution, crate::join::Join<'x>) -> Box<dyn JoinStream + 'x>,
) {
    let mut rng = Rng::new(seed);
    let left = random_rows("left", shapes.0, 1024, &mut rng);
    let right = random_rows("right", shapes.1, 1024, &mut rng);
    let key = Key::of(&[0]);
    let pages = limits.memory_pages;
    let execution = execution(limits);
    let io = execution.spill_io().clone();
    let mut stream = open(&execution, join(&left, &right, &key, join_type));
    match collect(stream.as_mut()) {
        Ok(pairs) => assert_eq!(pairs, expected(&left, &right, &key, join_type)),
        Err(QueryError::TooLittleMemory { needed_pages, .. }) => {
            assert!(needed_pages <= 6, "{needed_pages} pages are always enough");
        }
        Err(error) => panic!("{error}"),
    }
    drop(stream);
    execution.audit();
    assert_eq!(execution.free_pages(), pages, "all memory came back");
    drop(execution);
    assert!(io.files().is_empty(), "the spill file is gone");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]
    #[test]
    fn grace_hash_gives_what_looking_at_all_pairs_gives(
        shapes in (shape(), shape()),
        seed: u64,
        bucket_count in 1_u32..7,
        input_pages in 1_u32..4,
        output_pages in 1_u32..3,
        reads_ahead: bool,
        type_index in 0_usize..6,
    ) {
        let settings = grace_hash::Settings { bucket_count, input_pages, output_pages };
        let limits = Limits { reads_ahead, ..limits(512, settings.pages()) };
        check(JoinType::ALL[type_index], shapes, seed, limits, |execution, join| {
            Box::new(GraceHash::new(execution, join, settings).unwrap())
        });
    }

    #[test]
    fn hybrid_hash_gives_what_looking_at_all_pairs_gives(
        shapes in (shape(), shape()),
        seed: u64,
        pages in 3_u32..80,
        output_pages in 1_u32..3,
        bucket_count in 0_u32..7,
        resident_ppm in 0_u32..=1_000_000,
        build in prop_oneof![Just(Side::Left), Just(Side::Right)],
        reads_ahead: bool,
        type_index in 0_usize..6,
    ) {
        let input_pages = (pages / 8).max(1);
        let settings = hybrid_hash::Settings {
            build, pages, input_pages, output_pages, bucket_count, resident_ppm,
        };
        let limits = Limits { reads_ahead, ..limits(512, pages) };
        check(JoinType::ALL[type_index], shapes, seed, limits, |execution, join| {
            Box::new(HybridHash::new(execution, join, settings).unwrap())
        });
    }
}

fn rows_of(row_count: usize, key_count: u64) -> RowShape {
    let payload_bytes_max = 60;
    RowShape { row_count, key_count, is_skewed: false, null_percent: 0, payload_bytes_max }
}

#[test]
fn grace_hash_writes_every_row_once() {
    let mut rng = Rng::new(5);
    let left = random_rows("left", rows_of(3000, 4000), 1024, &mut rng);
    let right = random_rows("right", rows_of(9000, 4000), 1024, &mut rng);
    let key = Key::of(&[0]);
    let execution = execution(limits(1024, 40));
    let settings = grace_hash::Settings { bucket_count: 9, input_pages: 4, output_pages: 4 };
    let mut stream =
        GraceHash::new(&execution, join(&left, &right, &key, JoinType::Inner), settings).unwrap();
    while stream.advance().unwrap() {}
    let bytes = left.size().cell_bytes + right.size().cell_bytes;
    let written = execution.io_counts().write_bytes;
    // Nine buckets of either side, each with a last page that is not full.
    assert!(written >= bytes && written <= bytes * 102 / 100 + 18 * 1024, "{written} for {bytes}");
    assert_eq!(execution.io_counts().read_bytes, written, "each page is read once");
}

#[test]
fn hybrid_hash_writes_nothing_if_the_built_side_fits_and_little_if_it_nearly_does() {
    let mut rng = Rng::new(6);
    let left = random_rows("left", rows_of(3000, 4000), 1024, &mut rng);
    let right = random_rows("right", rows_of(9000, 4000), 1024, &mut rng);
    let key = Key::of(&[0]);
    let bytes = left.size().cell_bytes + right.size().cell_bytes;
    let written = |pages: u32| {
        let execution = execution(limits(1024, pages));
        let settings = hybrid_hash::Settings {
            build: Side::Left,
            pages,
            input_pages: 4,
            output_pages: 2,
            bucket_count: 0,
            resident_ppm: 1_000_000,
        };
        let join = join(&left, &right, &key, JoinType::Inner);
        let mut stream = HybridHash::new(&execution, join, settings).unwrap();
        while stream.advance().unwrap() {}
        execution.io_counts().write_bytes
    };
    let needed_bytes = left.size().cell_bytes + 3000 * 20;
    let fitting = u32::try_from(needed_bytes / 1024).unwrap();
    assert_eq!(written(fitting * 5 / 4 + 8), 0);
    let nearly = written(fitting * 4 / 5 + 8);
    assert!(nearly > 0 && nearly < bytes / 2, "{nearly} of {bytes}");
    assert!(written(fitting / 3) > nearly, "less memory, more written");
}

/// Rows whose statistics are those of other rows.
struct Misjudged<'r> {
    rows: &'r Rows,
    size: RelationSize,
}

impl Relation for Misjudged<'_> {
    fn name(&self) -> &str {
        self.rows.name()
    }

    fn size(&self) -> RelationSize {
        self.size
    }

    fn scan<'x>(
        &'x self,
        execution: &'x Execution,
        memory: Memory<'x>,
        span: Span,
    ) -> Result<Box<dyn TupleStream + 'x>, QueryError> {
        self.rows.scan(execution, memory, span)
    }
}

/// The plan of a kind for an inner join in so many pages of 1024 bytes.
fn plan_of(kind: JoinKind, sides: [&dyn Relation; 2], memory_pages: u32) -> Plan {
    let device = DeviceCosts::from_rates(0, 100_000, 500_000_000, 300_000_000);
    let model = CostModel { device: &device, processor: &CpuCosts::NONE, reads_ahead: false };
    let [left, right] =
        sides.map(|relation| JoinSide::new(RelationStats::of(relation.size(), 1024)));
    let question = JoinQuestion::new(left, right, 1);
    let budget = Budget {
        memory_pages: memory_pages.into(),
        write_bytes: None,
        pool: PoolShape::NONE,
        worker_count: 1,
    };
    let found = plans(&model, &question, &budget).feasible;
    *found.iter().find(|plan| plan.kind == kind).unwrap()
}

#[test]
fn the_side_that_is_smaller_is_built_although_the_planner_took_it_for_the_larger() {
    const MEMORY_PAGES: u32 = 60;
    let mut rng = Rng::new(8);
    let many = random_rows("many", rows_of(12_000, 15_000), 1024, &mut rng);
    let few = random_rows("few", rows_of(1500, 15_000), 1024, &mut rng);
    let key = Key::of(&[0]);
    let both_bytes = many.size().cell_bytes + few.size().cell_bytes;
    for many_is_left in [true, false] {
        let many = Misjudged { rows: &many, size: few.size() };
        let few = Misjudged { rows: &few, size: many.rows.size() };
        let sides: [&dyn Relation; 2] = if many_is_left { [&many, &few] } else { [&few, &many] };
        for kind in [JoinKind::GraceHash, JoinKind::HybridHash] {
            let plan = plan_of(kind, sides, MEMORY_PAGES);
            let built_by_plan = if many_is_left { Side::Left } else { Side::Right };
            assert_eq!(plan.outer_side(), built_by_plan, "{kind} takes many rows for few");
            let execution = execution(limits(1024, MEMORY_PAGES));
            let join = join(sides[0], sides[1], &key, JoinType::Inner);
            let mut stream =
                plan.open(&execution, join, Indexes::NONE, ChunkRule::ByBytes).unwrap();
            while stream.advance().unwrap() {}
            drop(stream);
            let told = format!("{kind}, many rows left: {many_is_left}");
            let built = execution.work_counts().get(Work::Build);
            let written = execution.io_counts().write_bytes;
            // Grace hash builds nothing but the small buckets. Hybrid hash begins with the side of the plan,
            // of which at most a table as large as memory stays.
            let resident = match kind {
                JoinKind::GraceHash => 0,
                _ => u64::from(MEMORY_PAGES) * 1024 / 40,
            };
            assert!(built <= few.rows.size().tuple_count + resident, "{told}: {built} rows built");
            // Each row once, and ends of pages: nothing was cut again.
            assert!(written <= both_bytes * 105 / 100, "{told}: {written} of {both_bytes} bytes");
        }
    }
}
