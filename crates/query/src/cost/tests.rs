//! The totals of S001's model, searches over all allocations under it, and laws that hold for any question.

use super::join::*;
use super::scan::*;
use super::sort::{divide_sort, external_sort};
use super::*;
use crate::allocation::{
    BlockNestedLoops, Fudge, GraceHash, HYBRID_BUFFER_PPM, HybridHash, RunFormation, RunSeeks,
    SortMerge,
};
use crate::index::FetchOrder;
use crate::work::WorkCosts;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const PAGE_BYTES: u64 = 8192;
const MEMORIES: [u64; 6] = [12_800, 25_600, 38_400, 51_200, 64_000, 76_800];
const AS_BUILT: Convention = Convention::AsBuilt { reads_ahead: false };
const PAPER: Convention = Convention::AsInPaper { fudge: Fudge::PAPER };
/// The relations of S001 table 2.
fn customers_and_orders() -> JoinQuestion {
    let customers = RelationStats::heap(93_440, 4_500_000, 134, PAGE_BYTES);
    let orders = RelationStats::heap(655_360, 45_000_000, 94, PAGE_BYTES);
    JoinQuestion::new(JoinSide::new(customers), JoinSide::new(orders), 10)
}

/// The devices of S001 table 2.
fn disk() -> DeviceCosts {
    DeviceCosts::from_rates(12_000_000, 5_560_000, 34 * MIB, 34 * MIB)
}

fn flash() -> DeviceCosts {
    DeviceCosts::from_rates(0, 350_000, 120 * MIB, 80 * MIB)
}

fn model(device: &DeviceCosts, convention: Convention) -> CostModel<'_> {
    CostModel { device, processor: &CpuCosts::NONE, convention }
}

fn seconds(estimate: &Estimate) -> f64 {
    estimate.time().as_seconds_f64()
}

/// Estimates of the four joins of S001, with the memory divided as for the disk.
fn four_joins(device: &DeviceCosts, memory: u64) -> [Estimate; 4] {
    let question = customers_and_orders();
    let model = model(device, PAPER);
    let sizes = question.sizes(PAPER);
    let times = disk().request_times(PAGE_BYTES);
    let nested = BlockNestedLoops::allocate(&sizes, memory, &times).unwrap();
    let merge = SortMerge::allocate(&sizes, memory, &times, RunSeeks::Free).unwrap();
    let grace = GraceHash::allocate(&sizes, memory).unwrap();
    let hybrid = HybridHash::allocate(&sizes, memory, HYBRID_BUFFER_PPM).unwrap();
    [
        block_nested_loops(&model, &question, &nested),
        sort_merge(&model, &question, memory, &merge),
        grace_hash(&model, &question, memory, &grace),
        hybrid_hash(&model, &question, memory, &hybrid),
    ]
}

#[test]
fn the_totals_of_the_model_are_those_worked_by_hand() {
    let on_disk = [
        [1596.0, 586.0, 541.0, 694.0],
        [798.0, 538.0, 524.0, 574.0],
        [485.0, 527.0, 520.0, 504.0],
        [483.0, 523.0, 519.0, 443.0],
        [329.0, 521.0, 518.0, 389.0],
        [328.0, 520.0, 518.0, 339.0],
    ];
    let on_flash = [
        [437.0, 172.0, 171.0, 163.0],
        [221.0, 171.0, 171.0, 146.0],
        [135.0, 171.0, 171.0, 132.0],
        [135.0, 171.0, 171.0, 117.0],
        [92.0, 171.0, 171.0, 103.0],
        [92.0, 171.0, 171.0, 89.0],
    ];
    for (device, table) in [(disk(), on_disk), (flash(), on_flash)] {
        for (memory, row) in MEMORIES.into_iter().zip(table) {
            for (estimate, expected) in four_joins(&device, memory).iter().zip(row) {
                let found = seconds(estimate);
                // A percent, and half a second by which the table is rounded.
                assert!(
                    (found - expected).abs() <= expected * 0.01 + 0.5,
                    "{memory} pages: {found} s instead of {expected} s"
                );
            }
        }
    }
}

#[test]
fn the_counts_of_the_model_are_those_of_the_formulas() {
    let [nested, merge, grace, hybrid] = four_joins(&disk(), 12_800);
    assert_eq!(nested.seeks, 20);
    assert_eq!(nested.read_requests, 10 * (1 + 655_360_u64.div_ceil(533)));
    assert_eq!((nested.pages_read, nested.pages_written), (93_440 + 10 * 655_360, 0));

    let first_pass = 93_440_u64.div_ceil(1022) + 655_360_u64.div_ceil(1022);
    assert_eq!(merge.write_requests, first_pass);
    assert!(merge.read_requests.abs_diff(first_pass + 748_800_u64.div_ceil(297)) <= 1);
    assert_eq!(merge.seeks, merge.request_count());
    assert_eq!((merge.pages_read, merge.pages_written), (2 * 748_800, 748_800));

    let written = 93_440_u64.div_ceil(1163) + 655_360_u64.div_ceil(1163);
    assert_eq!(grace.write_requests, written);
    assert_eq!((grace.pages_read, grace.pages_written), (2 * 748_800, 748_800));
    let read = 93_440_u64.div_ceil(1170) + 655_360_u64.div_ceil(1170);
    assert_eq!(grace.read_requests, read + 10 + 10 * 65_536_u64.div_ceil(1587));
    assert_eq!(grace.seeks, read + written + 20);

    let spilled = (1.0 - 11_675.0 / 112_128.0) * 748_800.0;
    assert!((hybrid.pages_written as f64 - spilled).abs() <= 2.0);
    // A part of a page more in each of eight buckets.
    assert!((hybrid.pages_read as f64 - 748_800.0 - spilled).abs() <= 16.0);
}

#[test]
fn a_search_over_all_bucket_counts_confirms_the_rule_of_grace_hash() {
    let question = customers_and_orders();
    let sizes = question.sizes(PAPER);
    for (device, memory, is_exact) in [
        (disk(), 12_800, true),
        (disk(), 38_400, true),
        (disk(), 76_800, false),
        (flash(), 12_800, false),
    ] {
        let model = model(&device, PAPER);
        let cost = |buckets: u64| {
            let parts = GraceHash::with_buckets(&sizes, memory, buckets).unwrap();
            parts.fits.then(|| seconds(&grace_hash(&model, &question, memory, &parts)))
        };
        let rule = GraceHash::allocate(&sizes, memory).unwrap().bucket_count;
        let (best, best_seconds) = (1..200)
            .filter_map(|buckets| Some((buckets, cost(buckets)?)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap();
        let rule_seconds = cost(rule).unwrap();
        assert!(rule_seconds <= best_seconds * 1.001, "{rule_seconds} s, at best {best_seconds} s");
        assert!(rule.abs_diff(best) <= u64::from(!is_exact), "{rule} buckets, best are {best}");
    }
}

#[test]
fn the_buffers_of_hybrid_hash_suit_flash_and_are_too_small_for_the_disk() {
    let question = customers_and_orders();
    let sizes = question.sizes(PAPER);
    let best_of = |device: &DeviceCosts, memory: u64| {
        let model = model(device, PAPER);
        let cost = |parts: &HybridHash| seconds(&hybrid_hash(&model, &question, memory, parts));
        let published = HybridHash::allocate(&sizes, memory, HYBRID_BUFFER_PPM).unwrap();
        let (best, best_seconds) = (1..4000)
            .map(|pages| HybridHash::with_buffer(&sizes, memory, pages).unwrap())
            .map(|parts| (parts.input_pages, cost(&parts)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap();
        (best as f64 / (memory as f64).sqrt(), 1.0 - best_seconds / cost(&published))
    };
    for (memory, factor, saved) in [(12_800, 7.3, 0.22), (38_400, 6.9, 0.14), (76_800, 6.1, 0.11)] {
        let (found, found_saved) = best_of(&disk(), memory);
        assert!((found - factor).abs() < 0.8, "{memory} pages: c = {found}");
        assert!((found_saved - saved).abs() < 0.02, "{memory} pages: {found_saved} saved");
        let (found, found_saved) = best_of(&flash(), memory);
        assert!((1.1..2.5).contains(&found), "{memory} pages: c = {found}");
        assert!(found_saved < 0.01, "{memory} pages: {found_saved} saved");
    }
}

#[test]
fn a_search_over_all_buffers_confirms_the_form_of_sort_merge_with_one_spindle() {
    let question = customers_and_orders();
    let sizes = question.sizes(PAPER);
    let (device, times) = (disk(), disk().request_times(PAGE_BYTES));
    let model = model(&device, PAPER);
    for memory in [12_800, 38_400, 76_800] {
        let cost = |parts: &SortMerge| seconds(&sort_merge(&model, &question, memory, parts));
        let best = (1..memory / 2)
            .step_by(7)
            .map(|input| {
                SortMerge::with_input(&sizes, memory, input, RunFormation::default()).unwrap()
            })
            .map(|parts| cost(&parts))
            .min_by(f64::total_cmp)
            .unwrap();
        let form = SortMerge::allocate(&sizes, memory, &times, RunSeeks::Charged).unwrap();
        assert!(cost(&form) <= best * 1.005, "{} s, at best {best} s", cost(&form));
    }
}

#[test]
fn as_built_block_nested_loops_reads_by_the_buffer_of_the_inner_side() {
    // 4000 cells of 80 bytes, 100 bytes each in memory, 40 to a page. An area of 100 pages of 4096 bytes has
    // room for as many as 102 pages of the table, in segments of 12800 bytes.
    let outer = JoinSide::new(RelationStats::heap(1000, 40_000, 80, 4096));
    let inner = JoinSide::new(RelationStats::heap(50, 500, 84, 4096));
    let device = DeviceCosts::from_rates(7, 100, 0, 0);
    let question = JoinQuestion::new(outer, inner, 1);
    let sizes = question.sizes(AS_BUILT);
    let at = |convention: Convention| {
        let parts = BlockNestedLoops::with_inner(&sizes, 104, 4).unwrap();
        block_nested_loops(&model(&device, convention), &question, &parts)
    };
    // A block of 4 pages takes 16000 bytes; after 23 of them one of 16384 bytes and its links, in three
    // segments, is not sure to fit: 250 blocks make 11 chunks.
    let found = at(AS_BUILT);
    assert_eq!(found.read_requests, 250 + 11 * 13);
    assert_eq!(found.pages_read, 1000 + 11 * 50);
    assert_eq!(found.seeks, 22);
    assert_eq!(found.io_ns, found.read_requests * 100 + 22 * 7);
    assert_eq!((found.write_requests, found.pages_written), (0, 0));
    // Reading ahead, blocks have half the buffer, and each chunk but the last has begun one too many.
    let found = at(Convention::AsBuilt { reads_ahead: true });
    let chunk_count = found.seeks / 2;
    assert!((10..=12).contains(&chunk_count), "{chunk_count} chunks");
    assert_eq!(found.read_requests, 500 + (chunk_count - 1) + chunk_count * 25);
    assert_eq!(found.pages_read, 1000 + 2 * (chunk_count - 1) + chunk_count * 50);
}

#[test]
fn a_block_that_does_not_fit_is_read_for_several_chunks() {
    let outer = JoinSide::new(RelationStats::heap(100, 4000, 80, 4096));
    let question = JoinQuestion::new(outer, outer, 1);
    let device = flash();
    let parts = BlockNestedLoops::with_inner(&question.sizes(AS_BUILT), 24, 20).unwrap();
    let found = block_nested_loops(&model(&device, AS_BUILT), &question, &parts);
    // Each of 5 blocks has 800 rows, of which 163 fit at a time, and is a little fuller at times: 6 chunks.
    assert_eq!(found.seeks, 60);
    assert_eq!(found.read_requests, 30 + 30 * 5);
}

#[test]
fn as_built_joins_spill_full_pages() {
    // 80 % filled: 10 000 cells of 103 bytes on 154 pages spill to 126 pages.
    let side = JoinSide::new(RelationStats::heap(154, 10_000, 103, PAGE_BYTES));
    let question = JoinQuestion::new(side, side, 1);
    let device = flash();
    let model = model(&device, AS_BUILT);
    let sizes = question.sizes(AS_BUILT);
    let bytes = 1_030_000_u64;
    let pages = bytes.div_ceil(PAGE_BYTES - 4);

    let grace = GraceHash::allocate(&sizes, 40).unwrap();
    let found = grace_hash(&model, &question, 40, &grace);
    // Each bucket ends within a page.
    let ends = grace.bucket_count;
    assert!(found.pages_written.abs_diff(2 * pages + ends) <= ends / 2, "{found:?}");
    assert_eq!(found.pages_read, 2 * 154 + found.pages_written);

    let times = device.request_times(PAGE_BYTES);
    let merge = SortMerge::allocate(&sizes, 40, &times, RunSeeks::Charged).unwrap();
    let found = sort_merge(&model, &question, 40, &merge);
    let ends = merge.outer_run_count / 2 + merge.inner_run_count / 2;
    assert!(found.pages_written.abs_diff(2 * pages + ends) <= ends + 1, "{found:?}");
    assert_eq!(found.pages_read, 2 * 154 + found.pages_written);
}

#[test]
fn hybrid_hash_that_fits_reads_both_once() {
    let question = customers_and_orders();
    let device = disk();
    for convention in [PAPER, AS_BUILT] {
        let model = model(&device, convention);
        let sizes = question.sizes(convention);
        let parts = HybridHash::allocate(&sizes, 130_000, HYBRID_BUFFER_PPM).unwrap();
        let found = hybrid_hash(&model, &question, 130_000, &parts);
        assert_eq!((found.pages_read, found.pages_written), (748_800, 0));
        assert_eq!(found.seeks, 2);
    }
}

#[test]
fn buckets_that_do_not_fit_are_cut_again() {
    let question = customers_and_orders();
    let device = flash();
    let model = model(&device, PAPER);
    let sizes = question.sizes(PAPER);
    // 112128 pages of hash table: one cut down to 335 pages, two down to 49, three to 19.
    for (memory, cuts) in [(400, 1), (100, 2), (30, 3)] {
        let parts = GraceHash::allocate(&sizes, memory).unwrap();
        assert_eq!(parts.fits, cuts == 1);
        let found = grace_hash(&model, &question, memory, &parts);
        let written = found.pages_written as f64 / 748_800.0;
        assert!((written - f64::from(cuts)).abs() < 0.05, "{memory} pages: {written} times");
        let parts = HybridHash::allocate(&sizes, memory, HYBRID_BUFFER_PPM).unwrap();
        let found = hybrid_hash(&model, &question, memory, &parts);
        let written = found.pages_written as f64 / 748_800.0;
        assert!((written - f64::from(cuts)).abs() < 0.05, "{memory} pages: {written} times");
    }
}

#[test]
fn runs_that_are_too_many_are_merged_before() {
    let relation = RelationStats::heap(10_000, 100_000, 816, PAGE_BYTES);
    let device = flash();
    let model = model(&device, PAPER);
    let footprint = Footprint::new(&relation, 1_000_000, PAPER);
    let written = |memory: u64, formation: RunFormation| {
        let parts = divide_sort(&model, &footprint, memory, formation).unwrap();
        let found = external_sort(&model, &footprint, memory, &parts);
        found.pages_written as f64 / 10_000.0
    };
    // In memory with a page to read and one to write by; in two passes; with merges in between.
    assert!(written(12_002, RunFormation::ReplacementSelection) < 0.001);
    assert!(written(12_001, RunFormation::ReplacementSelection) > 0.999);
    assert!((written(400, RunFormation::ReplacementSelection) - 1.0).abs() < 0.001);
    let replacement = written(20, RunFormation::ReplacementSelection);
    let quicksort = written(20, RunFormation::Quicksort);
    assert!((2.0..4.0).contains(&replacement), "{replacement} times");
    assert!(quicksort > replacement, "{quicksort} times");
    assert!(divide_sort(&model, &footprint, 2, RunFormation::Quicksort).is_err());
}

#[test]
fn merging_in_between_moves_the_fewest_pages() {
    // 6 runs of 10 pages with buffers for 3 in the end and fan-in 3: two of them first, then three.
    let relation = RelationStats::heap(60, 600, 100, PAGE_BYTES);
    let device = flash();
    let model = model(&device, PAPER);
    let footprint = Footprint::new(&relation, 1_000_000, PAPER);
    let memory = super::sort::MergeMemory { memory_pages: 4, run_count_max: 3 };
    let (found, left) = super::sort::merge_runs(&model, &footprint, 6, &memory);
    assert_eq!((left, found.pages_written, found.pages_read), (3, 20 + 30, 50));
}

#[test]
fn distinct_pages_are_those_of_the_closed_form() {
    assert_eq!(distinct_pages(1000, 0), 0);
    assert_eq!(distinct_pages(1000, 1), 1);
    assert_eq!(distinct_pages(1, 50), 1);
    assert_eq!(distinct_pages(0, 50), 0);
    for (pages, accesses) in [(1000_u64, 1000_u64), (50_000, 10_000), (1000, 5000)] {
        let expected = pages as f64 * (1.0 - (-(accesses as f64) / pages as f64).exp());
        let found = distinct_pages(pages, accesses) as f64;
        assert!((found - expected).abs() <= expected * 0.001 + 1.0, "{found} for {expected}");
    }
}

#[test]
fn a_cache_that_is_too_small_is_read_into_again() {
    // A cache simulated page by page, least recently used.
    let (pages, accesses, cache) = (500_u64, 4000_u64, 100_u64);
    let mut random = nandu_base::Rng::for_part(7, "cache");
    let mut held: std::collections::VecDeque<u64> = std::collections::VecDeque::new();
    let mut reads = 0_u64;
    for _ in 0..accesses {
        let page = random.below(pages);
        if let Some(at) = held.iter().position(|it| *it == page) {
            held.remove(at);
        } else {
            reads += 1;
            if held.len() as u64 == cache {
                held.pop_front();
            }
        }
        held.push_back(page);
    }
    let found = cached_reads(pages, accesses, cache);
    assert!(found.abs_diff(reads) * 50 <= reads, "{found} reads, simulated {reads}");
    assert_eq!(cached_reads(pages, accesses, pages), distinct_pages(pages, accesses));
    assert_eq!(cached_reads(pages, accesses, 0), accesses);
}

#[test]
fn scans_by_an_index_read_leaves_and_pages() {
    let relation = RelationStats::heap(1000, 100_000, 70, PAGE_BYTES);
    let index = IndexStats {
        leaf_page_count: 200,
        height: 2,
        entry_count: 100_000,
        order: PageOrder::Contiguous,
        is_clustered: false,
        row_bytes: 0,
    };
    let device = DeviceCosts::from_rates(1000, 100, 0, 0)
        .with_queue_gain(&[(1, 1_000_000), (16, 8_000_000)])
        .unwrap();
    let model = model(&device, AS_BUILT);
    let alone = index_only_scan(&model, &index, 1000, PAGE_BYTES);
    assert_eq!((alone.pages_read, alone.seeks), (2 + 2, 3));

    let keyed = index_scan(&model, &relation, &index, 1000, 10);
    assert_eq!(keyed.pages_read, 4 + cached_reads(1000, 1000, 10));

    let mut memory = AddressMemory { list_pages: 1, request_pages: 1, queue_depth: 1 };
    let sorted = address_order_scan(&model, &relation, &index, 1000, &memory);
    assert_eq!(sorted.pages_read, 4 + distinct_pages(1000, 1000));
    assert_eq!(sorted.read_requests, sorted.pages_read);
    memory.queue_depth = 16;
    let queued = address_order_scan(&model, &relation, &index, 1000, &memory);
    assert_eq!(queued.pages_read, sorted.pages_read);
    assert_eq!(queued.io_ns - alone.io_ns, (sorted.io_ns - alone.io_ns).div_ceil(8));
    memory.request_pages = 64;
    memory.list_pages = 10;
    let grouped = address_order_scan(&model, &relation, &index, 10_000, &memory);
    assert!(grouped.read_requests < 100, "all 1000 pages are neighbours");

    // 100 000 addresses are 98 times what a page holds.
    memory.request_pages = 1;
    memory.list_pages = 1;
    let batched = address_order_scan(&model, &relation, &index, 100_000, &memory);
    let full = distinct_pages(1000, 1024);
    assert_eq!(batched.pages_read, 202 + 97 * full + distinct_pages(1000, 100_000 - 97 * 1024));
}

#[test]
fn a_scattered_table_costs_a_seek_for_each_page() {
    let mut stats = RelationStats::heap(1000, 100_000, 70, PAGE_BYTES);
    let device = disk();
    let model = model(&device, AS_BUILT);
    let ordered = table_scan(&model, &Footprint::new(&stats, 1_000_000, model.convention), 100);
    assert_eq!((ordered.read_requests, ordered.seeks), (10, 1));
    stats.order = PageOrder::Scattered;
    let scattered = table_scan(&model, &Footprint::new(&stats, 1_000_000, model.convention), 100);
    assert_eq!((scattered.read_requests, scattered.seeks), (1000, 1000));
}

#[test]
fn index_joins_read_what_qualifies() {
    let index = |leaf_page_count, entry_count| IndexStats {
        leaf_page_count,
        height: 1,
        entry_count,
        order: PageOrder::Contiguous,
        is_clustered: false,
        row_bytes: 0,
    };
    let customers = JoinSide::new(RelationStats::heap(1000, 50_000, 130, PAGE_BYTES))
        .with_index(index(100, 50_000));
    let orders = JoinSide::new(RelationStats::heap(8000, 500_000, 104, PAGE_BYTES))
        .with_index(index(1000, 500_000));
    let question = JoinQuestion::new(customers, orders, 10).with_key_range(1000);
    let device = flash();
    let model = model(&device, AS_BUILT);
    let merging = IndexMergeMemory { outer_pages: 1000, inner_pages: 1000, pool_pages: 0 };
    // 50 customers, 500 orders; a leaf of each index and its root.
    let merged = index_sort_merge(&model, &question, &merging).unwrap();
    let expected = 2 + 2 + distinct_pages(1000, 50) + distinct_pages(8000, 500);
    assert_eq!(merged.pages_read, expected);
    let memory =
        IndexMemory { input_pages: 10, batch_pages: 1000, inner_pages: 1000, pool_pages: 0 };
    let cost = |question: &JoinQuestion, access| {
        index_nested_loops(&model, question, access, &memory, FetchOrder::Key)
    };
    let by_key = cost(&question, OuterAccess::KeyOrder).unwrap().pages_read;
    let scanned = cost(&question, OuterAccess::TableScan).unwrap().pages_read;
    assert!(by_key < 700 && scanned > 1000 + 500, "{by_key} and {scanned} pages");
    let without = JoinQuestion { inner: JoinSide::new(orders.stats), ..question };
    assert_eq!(index_sort_merge(&model, &without, &merging), None);
    assert_eq!(cost(&without, OuterAccess::TableScan), None);
}

#[test]
fn nested_loops_reads_the_inner_side_for_each_tuple() {
    let outer = JoinSide::new(RelationStats::heap(10, 300, 100, PAGE_BYTES));
    let inner = JoinSide::new(RelationStats::heap(20, 600, 100, PAGE_BYTES));
    let question = JoinQuestion::new(outer, inner, 2);
    let device = flash();
    let model = model(&device, AS_BUILT);
    assert_eq!(nested_loops(&model, &question, 20).pages_read, 10 + 300 * 20);
    assert_eq!(nested_loops(&model, &question, 20).read_requests, 10 + 300 * 2);
    assert_eq!(nested_loops(&model, &question, 21).read_requests, 10 + 300);
}

#[test]
fn the_processor_is_charged_for_tuples_and_requests() {
    let work = WorkCosts::NONE.with(Work::Scan, 1_000_000_000);
    let processor = CpuCosts { work, request_ps: 1000, visit_ps: 0, large: None };
    let device = flash();
    let model = CostModel { device: &device, processor: &processor, convention: PAPER };
    let relation = Footprint::new(&customers_and_orders().outer.stats, 1_000_000, PAPER);
    let found = table_scan(&model, &relation, 1000);
    assert_eq!(found.cpu_ns, 4_500_000 * 1_000_000 + 94);
}

#[test]
fn what_leaves_the_range_stays_at_its_end() {
    let huge = JoinSide::new(RelationStats::heap(u64::MAX, u64::MAX, u64::MAX, u64::MAX));
    let question = JoinQuestion::new(huge, huge, u64::MAX);
    let device = disk();
    let model = CostModel { device: &device, processor: &CpuCosts::MODELLED, convention: AS_BUILT };
    assert_eq!(nested_loops(&model, &question, 3).io_ns, u64::MAX);
}

/// Any two relations, from none to a million tuples.
fn any_question() -> impl Strategy<Value = JoinQuestion> {
    let side = || {
        (0..1_000_000_u64, 20..500_u64, 50..=100_u64).prop_map(|(tuples, bytes, fill)| {
            let pages = (tuples * bytes * 100).div_ceil(fill * PAGE_BYTES);
            JoinSide::new(RelationStats::heap(pages, tuples, bytes, PAGE_BYTES))
        })
    };
    (side(), side(), 1..20_u64)
        .prop_map(|(outer, inner, duplicates)| JoinQuestion::new(outer, inner, duplicates))
}

fn any_convention() -> impl Strategy<Value = Convention> {
    prop_oneof![Just(AS_BUILT), Just(PAPER)]
}

#[test]
fn with_more_memory_sort_merge_does_not_write_the_larger_side_for_the_smaller_one() {
    let device = flash();
    let model = model(&device, Convention::AsBuilt { reads_ahead: false });
    let side = |page_count, tuple_count, cell_bytes| {
        let stats = RelationStats::heap(page_count, tuple_count, 0, PAGE_BYTES);
        JoinSide::new(RelationStats { cell_bytes, ..stats })
    };
    let outer = side(1535, 23_713, 6_283_945);
    let question = JoinQuestion::new(outer, side(481, 98_305, 1_966_100), 4);
    let sizes = question.sizes(model.convention);
    let times = device.request_times(PAGE_BYTES);
    let written = |memory: u64| {
        let parts = SortMerge::allocate(&sizes, memory, &times, RunSeeks::Charged).unwrap();
        sort_merge(&model, &question, memory, &parts).pages_written
    };
    let [little, much] = [7438, 2 * 7438].map(written);
    assert!(much <= little, "{much} pages and {little}");
}

proptest! {
    #[test]
    fn each_join_reads_both_sides_and_writes_only_what_it_reads_again(
        question in any_question(), convention in any_convention(), memory in 3..20_000_u64
    ) {
        let device = disk();
        let model = model(&device, convention);
        let sizes = question.sizes(convention);
        let times = device.request_times(PAGE_BYTES);
        let both = question.outer.stats.page_count + question.inner.stats.page_count;
        let nested = BlockNestedLoops::allocate_whole_scans(&sizes, memory, &times).unwrap();
        let nested = block_nested_loops(&model, &question, &nested);
        prop_assert_eq!(nested.pages_written, 0);
        let merge = SortMerge::allocate(&sizes, memory, &times, RunSeeks::Charged).unwrap();
        let grace = GraceHash::allocate(&sizes, memory).unwrap();
        let hybrid = HybridHash::allocate(&sizes, memory, HYBRID_BUFFER_PPM).unwrap();
        let fits = hybrid.fits;
        let merge = sort_merge(&model, &question, memory, &merge);
        let grace = grace_hash(&model, &question, memory, &grace);
        let hybrid = hybrid_hash(&model, &question, memory, &hybrid);
        for found in [merge, grace, hybrid] {
            prop_assert!(found.pages_read >= both, "{:?}", found);
            // But for the ends of runs.
            let read = found.pages_read + found.pages_read / 20 + 20;
            prop_assert!(read >= both + found.pages_written, "{:?}", found);
            prop_assert!(found.request_count() <= found.page_count(), "{:?}", found);
        }
        // Grace hash writes everything; hybrid hash never more, but for ends of pages.
        prop_assert!(
            !fits || hybrid.pages_written <= grace.pages_written + grace.pages_written / 20 + 60,
            "{:?} and {:?}", hybrid, grace
        );
    }

    #[test]
    fn more_memory_never_costs_much_more(
        question in any_question(), convention in any_convention(), memory in 100..20_000_u64
    ) {
        let device = flash();
        let model = model(&device, convention);
        let sizes = question.sizes(convention);
        let times = device.request_times(PAGE_BYTES);
        let at = |memory: u64| {
            let nested = BlockNestedLoops::allocate(&sizes, memory, &times).unwrap();
            let merge = SortMerge::allocate(&sizes, memory, &times, RunSeeks::Charged).unwrap();
            let grace = GraceHash::allocate(&sizes, memory).unwrap();
            let hybrid = HybridHash::allocate(&sizes, memory, HYBRID_BUFFER_PPM).unwrap();
            [
                block_nested_loops(&model, &question, &nested),
                sort_merge(&model, &question, memory, &merge),
                grace_hash(&model, &question, memory, &grace),
                hybrid_hash(&model, &question, memory, &hybrid),
            ]
        };
        // Close to the square root, one pass by single pages costs more than two by many: not asked.
        let is_ample = sizes.hashes_in_two_phases(memory / 4) && sizes.sorts_in_two_passes(memory / 4);
        prop_assume!(is_ample);
        // Rounding up of runs, buckets and last requests makes small steps the other way.
        for (little, much) in at(memory).into_iter().zip(at(memory * 2)) {
            prop_assert!(
                seconds(&much) <= seconds(&little) * 1.1 + 0.02,
                "{:?} with twice the memory of {:?}", much, little
            );
        }
    }
}
