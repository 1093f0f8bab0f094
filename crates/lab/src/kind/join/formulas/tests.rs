//! The totals of S001's model, searches over all allocations under it, and who wins.

use super::Formulas;
use nandu_query::allocation::{
    BlockNestedLoops, Fudge, GraceHash, HYBRID_BUFFER_PPM, HybridHash, JoinSizes, RunFormation,
    RunSeeks, SortMerge,
};
use nandu_query::cost::{DeviceCosts, Estimate};

const MIB: u64 = 1 << 20;
const PAGE_BYTES: u64 = 8192;
const MEMORIES: [u64; 6] = [12_800, 25_600, 38_400, 51_200, 64_000, 76_800];
/// The relations of S001 table 2: 730 MB of customers, 5 GB of orders.
const SIZES: JoinSizes = JoinSizes::new(93_440, 655_360, Fudge::PAPER);

/// The devices of S001 table 2, and one whose writes cost ten times its reads.
fn disk() -> DeviceCosts {
    DeviceCosts::from_rates(12_000_000, 5_560_000, 34 * MIB, 34 * MIB)
}

fn flash() -> DeviceCosts {
    DeviceCosts::from_rates(0, 350_000, 120 * MIB, 80 * MIB)
}

fn slow_writer() -> DeviceCosts {
    DeviceCosts::from_rates(0, 350_000, 120 * MIB, 12 * MIB)
}

fn formulas(device: &DeviceCosts) -> Formulas<'_> {
    Formulas { device, sizes: SIZES, page_bytes: PAGE_BYTES }
}

fn seconds(estimate: &Estimate) -> f64 {
    estimate.time().as_seconds_f64()
}

/// Estimates of the four joins of S001, with the memory divided as for the disk.
fn four_joins(device: &DeviceCosts, memory: u64) -> [Estimate; 4] {
    let times = disk().request_times(PAGE_BYTES);
    let nested = BlockNestedLoops::allocate(&SIZES, memory, &times).unwrap();
    let merge = SortMerge::allocate(&SIZES, memory, &times, RunSeeks::Free).unwrap();
    let grace = GraceHash::allocate(&SIZES, memory).unwrap();
    let hybrid = HybridHash::allocate(&SIZES, memory, HYBRID_BUFFER_PPM).unwrap();
    let formulas = formulas(device);
    [
        formulas.block_nested_loops(&nested),
        formulas.sort_merge(memory, &merge),
        formulas.grace_hash(memory, &grace),
        formulas.hybrid_hash(memory, &hybrid),
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
    for (device, memory, is_exact) in [
        (disk(), 12_800, true),
        (disk(), 38_400, true),
        (disk(), 76_800, false),
        (flash(), 12_800, false),
    ] {
        let formulas = formulas(&device);
        let cost = |buckets: u64| {
            let parts = GraceHash::with_buckets(&SIZES, memory, buckets).unwrap();
            parts.fits.then(|| seconds(&formulas.grace_hash(memory, &parts)))
        };
        let rule = GraceHash::allocate(&SIZES, memory).unwrap().bucket_count;
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
    let best_of = |device: &DeviceCosts, memory: u64| {
        let formulas = formulas(device);
        let cost = |parts: &HybridHash| seconds(&formulas.hybrid_hash(memory, parts));
        let published = HybridHash::allocate(&SIZES, memory, HYBRID_BUFFER_PPM).unwrap();
        let (best, best_seconds) = (1..4000)
            .map(|pages| HybridHash::with_buffer(&SIZES, memory, pages).unwrap())
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
    let (device, times) = (disk(), disk().request_times(PAGE_BYTES));
    let formulas = formulas(&device);
    for memory in [12_800, 38_400, 76_800] {
        let cost = |parts: &SortMerge| seconds(&formulas.sort_merge(memory, parts));
        let best = (1..memory / 2)
            .step_by(7)
            .map(|input| {
                SortMerge::with_input(&SIZES, memory, input, RunFormation::default()).unwrap()
            })
            // Where runs need more buffers than there are, merges in between only make it dearer.
            .filter(|parts| parts.run_count() <= memory)
            .map(|parts| cost(&parts))
            .min_by(f64::total_cmp)
            .unwrap();
        let form = SortMerge::allocate(&SIZES, memory, &times, RunSeeks::Charged).unwrap();
        assert!(cost(&form) <= best * 1.005, "{} s, at best {best} s", cost(&form));
    }
}

#[test]
fn buckets_that_do_not_fit_are_cut_again() {
    let device = flash();
    let formulas = formulas(&device);
    // 112128 pages of hash table: one cut down to 335 pages, two down to 49, three to 19.
    for (memory, cuts) in [(400, 1), (100, 2), (30, 3)] {
        let parts = GraceHash::allocate(&SIZES, memory).unwrap();
        assert_eq!(parts.fits, cuts == 1);
        let found = formulas.grace_hash(memory, &parts);
        let written = found.pages_written as f64 / 748_800.0;
        assert!((written - f64::from(cuts)).abs() < 0.05, "{memory} pages: {written} times");
        let parts = HybridHash::allocate(&SIZES, memory, HYBRID_BUFFER_PPM).unwrap();
        let found = formulas.hybrid_hash(memory, &parts);
        let written = found.pages_written as f64 / 748_800.0;
        assert!((written - f64::from(cuts)).abs() < 0.05, "{memory} pages: {written} times");
    }
}

#[test]
fn hybrid_hash_that_fits_reads_both_once() {
    let device = disk();
    let parts = HybridHash::allocate(&SIZES, 130_000, HYBRID_BUFFER_PPM).unwrap();
    let found = formulas(&device).hybrid_hash(130_000, &parts);
    assert_eq!((found.pages_read, found.pages_written), (748_800, 0));
    assert_eq!(found.seeks, 2);
}

#[test]
fn hybrid_hash_wins_where_writes_are_cheap_and_block_nested_loops_where_they_are_not() {
    const NESTED: usize = 0;
    const HYBRID: usize = 3;
    let best = |device: &DeviceCosts, mib: u64| {
        let times = four_joins(device, mib * MIB / PAGE_BYTES).map(|estimate| estimate.time());
        (0..4).min_by_key(|&join| times[join]).unwrap()
    };
    for mib in [100, 200] {
        assert_eq!(best(&flash(), mib), HYBRID, "{mib} MiB");
    }
    for mib in [300, 400, 500] {
        assert_eq!(best(&slow_writer(), mib), NESTED, "{mib} MiB");
    }
}
