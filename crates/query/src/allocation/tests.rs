//! The worked numbers of S001's relations and devices, the invariants for any size, and searches over all
//! allocations that the closed forms have to meet.

use super::*;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const PAGE_BYTES: u64 = 8192;

/// The relations of S001 table 2: 730 MB of customers, 5 GB of orders.
const PAPER: JoinSizes = JoinSizes::new(93_440, 655_360, Fudge::PAPER);
const MEMORIES: [u64; 6] = [12_800, 25_600, 38_400, 51_200, 64_000, 76_800];

/// The disk of S001 table 2.
fn disk() -> RequestTimes {
    RequestTimes::from_rate(12_000_000, 5_560_000, PAGE_BYTES, 34 * MIB)
}

fn near(actual: f64, expected: f64, tolerance: f64) {
    assert!((actual - expected).abs() <= tolerance, "{actual} is not {expected}");
}

#[test]
fn the_page_of_the_disk_takes_a_quarter_of_a_millisecond() {
    assert_eq!(disk().page_transfer_ps, 229_779_412);
    let y = disk().latency_ps as f64 / disk().page_transfer_ps as f64;
    near(y, 24.1971, 0.0001);
    assert_eq!(PAPER.hash_pages(), 112_128);
}

#[test]
fn block_nested_loops_divides_memory_as_worked_by_hand() {
    let expected = [
        (532.847, 533, 12_267, 10_222, 10),
        (763.210, 764, 24_836, 20_696, 5),
        (940.024, 941, 37_459, 31_215, 3),
        (1089.102, 1090, 50_110, 41_758, 3),
        (1220.450, 1221, 62_779, 52_315, 2),
        (1339.202, 1340, 75_460, 62_883, 2),
    ];
    for (memory, (real, inner_pages, outer_pages, chunk_pages, chunk_count)) in
        MEMORIES.into_iter().zip(expected)
    {
        near(BlockNestedLoops::ideal_inner_pages(&PAPER, memory, &disk()), real, 0.001);
        assert_eq!(
            BlockNestedLoops::allocate(&PAPER, memory, &disk()).unwrap(),
            BlockNestedLoops { inner_pages, outer_pages, chunk_pages, chunk_count }
        );
    }
}

#[test]
fn sort_merge_divides_memory_as_worked_by_hand() {
    let expected = [
        (221.7108, 1021.647, 1022, 10_756, 17_926, 6, 37, 297),
        (110.8554, 2710.435, 2711, 20_178, 33_630, 3, 20, 1113),
        (73.9036, 4753.182, 4754, 28_892, 48_153, 2, 14, 2400),
        (55.4277, 7048.075, 7049, 37_102, 61_836, 2, 11, 3938),
        (44.3422, 9539.969, 9540, 44_920, 74_866, 2, 9, 5818),
        (36.9518, 12193.650, 12_194, 52_412, 87_353, 2, 8, 7680),
    ];
    for (memory, (z, real, io_pages, workspace, run_pages, outer, inner, merge)) in
        MEMORIES.into_iter().zip(expected)
    {
        let computed_z = SortMerge::seek_weight(&PAPER, memory, &disk(), RunSeeks::Free);
        near(computed_z, z, 0.0001);
        near(SortMerge::ideal_input_pages(memory, computed_z), real, 0.001);
        let found = SortMerge::allocate(&PAPER, memory, &disk(), RunSeeks::Free).unwrap();
        assert_eq!(
            found,
            SortMerge {
                input_pages: io_pages,
                output_pages: io_pages,
                workspace_pages: workspace,
                outer_run_count: outer,
                inner_run_count: inner,
                merge_pages: merge,
            }
        );
        assert_eq!(found.average_run_pages(Fudge::PAPER), run_pages);
        assert!(PAPER.sorts_in_two_passes(memory));
    }
}

#[test]
fn the_printed_form_of_sort_merge_is_the_one_without_its_hole() {
    for z in [0.5_f64, 3.0, 7.9, 8.1, 36.9518, 221.7108] {
        let printed = ((2.0 * z).sqrt() - 4.0) * 12_800.0 / (z - 8.0);
        near(SortMerge::ideal_input_pages(12_800, z), printed, 1e-6 * printed);
    }
    near(SortMerge::ideal_input_pages(12_800, 8.0), 3200.0, 1e-6);
}

#[test]
fn one_spindle_leaves_more_room_for_the_buffers_of_runs() {
    for memory in MEMORIES {
        let free = SortMerge::allocate(&PAPER, memory, &disk(), RunSeeks::Free).unwrap();
        let charged = SortMerge::allocate(&PAPER, memory, &disk(), RunSeeks::Charged).unwrap();
        assert!(charged.input_pages > free.input_pages);
        let z = SortMerge::seek_weight(&PAPER, memory, &disk(), RunSeeks::Charged);
        near(z, 1.2 * 748_800.0 / memory as f64, 1e-9);
    }
}

#[test]
fn grace_hash_divides_memory_as_worked_by_hand() {
    let expected = [
        (9.6662, 10, 1163, 1170, 11_213, 1587),
        (5.2192, 6, 3657, 3658, 18_688, 6912),
        (3.7076, 4, 7680, 7680, 28_032, 10_368),
        (2.9359, 3, 12_800, 12_800, 37_376, 13_824),
        (2.4633, 3, 16_000, 16_000, 37_376, 26_624),
        (2.1417, 3, 19_200, 19_200, 37_376, 39_424),
    ];
    for (memory, (real, bucket_count, output_pages, input_pages, build_pages, probe_pages)) in
        MEMORIES.into_iter().zip(expected)
    {
        near(GraceHash::ideal_bucket_count(&PAPER, memory), real, 0.0001);
        let found = GraceHash::allocate(&PAPER, memory).unwrap();
        assert_eq!(
            found,
            GraceHash {
                bucket_count,
                output_pages,
                input_pages,
                build_pages,
                probe_pages,
                fits: true
            }
        );
    }
}

#[test]
fn hybrid_hash_divides_memory_as_worked_by_hand() {
    let expected = [
        (125, 8, 11_675, 12_557, 243, 0.1041),
        (176, 4, 24_720, 21_852, 3748, 0.2205),
        (216, 2, 37_752, 37_188, 1212, 0.3367),
        (249, 2, 50_453, 30_838, 20_362, 0.4500),
        (279, 1, 63_442, 48_686, 15_314, 0.5658),
        (305, 1, 76_190, 35_938, 40_862, 0.6795),
    ];
    for (memory, (buffer, bucket_count, workspace_pages, build_pages, probe_pages, resident)) in
        MEMORIES.into_iter().zip(expected)
    {
        let found = HybridHash::allocate(&PAPER, memory, HYBRID_BUFFER_PPM).unwrap();
        assert_eq!(
            found,
            HybridHash {
                bucket_count,
                input_pages: buffer,
                output_pages: buffer,
                workspace_pages,
                build_pages,
                probe_pages,
                fits: true,
            }
        );
        near(found.workspace_pages as f64 / 112_128.0, resident, 0.0001);
    }
}

#[test]
fn the_closed_form_of_block_nested_loops_is_the_minimum_of_its_cost() {
    // The cost that the form is derived from: chunks may be fractions, and a scan has no last request.
    let cost = |memory: u64, inner: u64| {
        let times = disk();
        let (latency, transfer) = (times.latency_ps as f64, times.page_transfer_ps as f64);
        112_128.0 / (memory - inner) as f64
            * (latency + latency * 655_360.0 / inner as f64 + 655_360.0 * transfer)
    };
    for memory in MEMORIES {
        let best = (1..memory)
            .min_by(|a, b| cost(memory, *a).total_cmp(&cost(memory, *b)))
            .expect("memory has two pages");
        let found = BlockNestedLoops::allocate(&PAPER, memory, &disk()).unwrap().inner_pages;
        assert!(found.abs_diff(best) <= 1, "{found} pages where {best} are best");
    }
}

#[test]
fn the_closed_form_of_sort_merge_is_the_minimum_of_its_cost() {
    // Requests of run formation without seeks, requests of the merge with them.
    let cost = |memory: u64, input: u64| {
        let data = 748_800.0_f64;
        let workspace = (memory - 2 * input) as f64;
        2.0 * 5.56 * data / input as f64
            + 17.56 * 1.2 * data * data / (2.0 * memory as f64 * workspace)
    };
    for memory in MEMORIES {
        let best = (1..memory / 2)
            .min_by(|a, b| cost(memory, *a).total_cmp(&cost(memory, *b)))
            .expect("memory has two pages");
        let found = SortMerge::allocate(&PAPER, memory, &disk(), RunSeeks::Free).unwrap();
        assert!(found.input_pages.abs_diff(best) <= 1, "{found:?} where {best} are best");
    }
}

#[test]
fn whole_scans_of_a_hundred_megabytes_are_nine_and_not_ten() {
    let plain = BlockNestedLoops::allocate(&PAPER, 12_800, &disk()).unwrap();
    let whole = BlockNestedLoops::allocate_whole_scans(&PAPER, 12_800, &disk()).unwrap();
    assert_eq!((whole.chunk_count, whole.inner_pages), (9, 340));
    let saved = 1.0 - whole.cost_ps(&PAPER, &disk()) as f64 / plain.cost_ps(&PAPER, &disk()) as f64;
    near(saved, 0.08, 0.01);
}

#[test]
fn whole_scans_are_within_a_percent_of_the_best_of_all_allocations() {
    let flash = RequestTimes::from_rate(0, 350_000, PAGE_BYTES, 120 * MIB);
    for times in [disk(), flash] {
        for memory in [500, 1500, 12_800, 25_600, 38_400, 76_800, 110_000, 130_000] {
            let best = (1..memory)
                .map(|inner| BlockNestedLoops::with_inner(&PAPER, memory, inner).unwrap())
                .map(|it| it.cost_ps(&PAPER, &times))
                .min()
                .expect("memory has two pages");
            let found = BlockNestedLoops::allocate_whole_scans(&PAPER, memory, &times).unwrap();
            let cost = found.cost_ps(&PAPER, &times);
            assert!(cost as f64 <= best as f64 * 1.01, "{memory} pages: {cost}, at best {best}");
        }
    }
}

#[test]
fn the_bounds_of_two_passes_are_the_square_roots() {
    // sqrt(1.2 * 655360) = 886.8 and sqrt(112128) = 334.9.
    assert!(!PAPER.sorts_in_two_passes(886));
    assert!(PAPER.sorts_in_two_passes(887));
    assert!(!PAPER.hashes_in_two_phases(334));
    assert!(PAPER.hashes_in_two_phases(335));
    assert!(JoinSizes::new(u64::MAX, u64::MAX, Fudge::PAPER).hashes_in_two_phases(u64::MAX));
}

#[test]
fn buckets_fit_down_to_the_square_root_and_not_much_below() {
    // One page of each side is needed besides, so the bound is met within a few pages.
    assert!(GraceHash::allocate(&PAPER, 337).unwrap().fits);
    assert!(HybridHash::allocate(&PAPER, 340, HYBRID_BUFFER_PPM).unwrap().fits);
    assert!(!GraceHash::allocate(&PAPER, 320).unwrap().fits);
    assert!(!HybridHash::allocate(&PAPER, 320, HYBRID_BUFFER_PPM).unwrap().fits);
}

#[test]
fn a_relation_that_fits_stays_in_memory() {
    let small = JoinSizes::new(100, 100_000, Fudge::PAPER);
    let found = HybridHash::allocate(&small, 1000, HYBRID_BUFFER_PPM).unwrap();
    assert_eq!(found.bucket_count, 0);
    assert_eq!(found.input_pages + found.workspace_pages, 1000);
    let found = BlockNestedLoops::allocate_whole_scans(&small, 1000, &disk()).unwrap();
    assert_eq!((found.chunk_count, found.inner_pages), (1, 880));
}

#[test]
fn a_device_without_latency_reads_by_single_pages() {
    let times = RequestTimes { seek_ps: 0, latency_ps: 0, page_transfer_ps: 1000 };
    let found = BlockNestedLoops::allocate(&PAPER, 12_800, &times).unwrap();
    assert_eq!(found.inner_pages, 1);
    let times = RequestTimes { seek_ps: 1000, ..times };
    let found = SortMerge::allocate(&PAPER, 12_800, &times, RunSeeks::Free).unwrap();
    assert_eq!(found.input_pages, 1);
}

#[test]
fn too_little_memory_is_refused_with_what_is_needed() {
    let sizes = PAPER;
    let told = BlockNestedLoops::allocate(&sizes, 1, &disk()).unwrap_err();
    assert_eq!(told.to_string(), "block nested loops needs 2 pages of memory and was given 1");
    assert!(SortMerge::allocate(&sizes, 2, &disk(), RunSeeks::Free).is_err());
    assert!(GraceHash::allocate(&sizes, 2).is_err());
    assert!(HybridHash::allocate(&sizes, 2, HYBRID_BUFFER_PPM).is_err());
}

#[test]
fn a_fudge_factor_is_a_ratio_rounded_up() {
    assert_eq!(Fudge::of_ratio(6, 5), Fudge::PAPER);
    assert_eq!(Fudge::of_ratio(1, 3).ppm(), 333_334);
    assert_eq!(Fudge::of_ratio(7, 0).ppm(), 1_000_000);
    assert_eq!(Fudge::from_ppm(0).ppm(), 1);
    assert_eq!(Fudge::PAPER.memory_pages(10_223), 12_268);
    assert_eq!(Fudge::PAPER.data_pages(12_267), 10_222);
}

/// Any sizes, any memory that is enough for all, any device.
fn anything() -> impl Strategy<Value = (JoinSizes, u64, RequestTimes)> {
    let pages = || prop_oneof![0..200_u64, 0..2_000_000_u64, 0..u64::from(u32::MAX)];
    let memory = prop_oneof![3..40_u64, 3..100_000_u64, 3..u64::from(u32::MAX)];
    let picoseconds = || prop_oneof![Just(0_u64), 0..20_000_000_000_u64];
    let times = (picoseconds(), picoseconds(), picoseconds()).prop_map(
        |(seek_ps, latency_ps, page_transfer_ps)| RequestTimes {
            seek_ps,
            latency_ps,
            page_transfer_ps,
        },
    );
    let fudge = || (100_000..3_000_000_u64).prop_map(Fudge::from_ppm);
    (pages(), pages(), fudge(), fudge(), memory, times).prop_map(
        |(outer_pages, inner_pages, outer_fudge, inner_fudge, memory, times)| {
            (JoinSizes { outer_pages, inner_pages, outer_fudge, inner_fudge }, memory, times)
        },
    )
}

proptest! {
    #[test]
    fn parts_add_up_to_the_memory_and_none_is_empty((sizes, memory, times) in anything()) {
        for found in [
            BlockNestedLoops::allocate(&sizes, memory, &times).unwrap(),
            BlockNestedLoops::allocate_whole_scans(&sizes, memory, &times).unwrap(),
        ] {
            prop_assert_eq!(found.inner_pages + found.outer_pages, memory);
            prop_assert!(found.inner_pages >= 1 && found.outer_pages >= 1);
            prop_assert!(
                found.chunk_pages == 1
                    || sizes.outer_fudge.memory_pages(found.chunk_pages) <= found.outer_pages
            );
            prop_assert!(found.chunk_pages * found.chunk_count >= sizes.outer_pages);
        }
        for seeks in [RunSeeks::Free, RunSeeks::Charged] {
            let found = SortMerge::allocate(&sizes, memory, &times, seeks).unwrap();
            let parts = found.input_pages + found.output_pages + found.workspace_pages;
            prop_assert_eq!(parts, memory);
            prop_assert!(found.input_pages >= 1 && found.workspace_pages >= 1);
            prop_assert!(
                found.merge_pages == 1 || found.merge_pages * found.run_count() <= memory
            );
        }
        let found = GraceHash::allocate(&sizes, memory).unwrap();
        prop_assert_eq!(found.bucket_count * found.output_pages + found.input_pages, memory);
        prop_assert_eq!(found.build_pages + found.probe_pages, memory);
        prop_assert!(found.output_pages >= 1 && found.input_pages >= 1 && found.bucket_count >= 1);
        prop_assert!(found.build_pages >= 1 && found.probe_pages >= 1);
        let found = HybridHash::allocate(&sizes, memory, HYBRID_BUFFER_PPM).unwrap();
        prop_assert_eq!(
            found.input_pages + found.bucket_count * found.output_pages + found.workspace_pages,
            memory
        );
        prop_assert!(found.workspace_pages >= 1 && found.output_pages >= 1);
        if found.bucket_count > 0 {
            prop_assert_eq!(found.build_pages + found.probe_pages, memory);
            prop_assert!(found.build_pages >= 1 && found.probe_pages >= 1);
        } else {
            prop_assert!(sizes.hash_pages() <= found.workspace_pages);
        }
    }

    #[test]
    fn knowing_that_scans_come_whole_never_costs((sizes, memory, times) in anything()) {
        let plain = BlockNestedLoops::allocate(&sizes, memory, &times).unwrap();
        let whole = BlockNestedLoops::allocate_whole_scans(&sizes, memory, &times).unwrap();
        prop_assert!(whole.cost_ps(&sizes, &times) <= plain.cost_ps(&sizes, &times));
    }

    #[test]
    fn grace_takes_the_fewest_buckets_that_fit_beside_a_buffer_of_their_size(
        (sizes, memory, _) in anything()
    ) {
        let found = GraceHash::allocate(&sizes, memory).unwrap();
        // F|R|/k <= B - B/(k+1), without fractions.
        let enough = |buckets: u64| {
            u128::from(memory) * u128::from(buckets).pow(2) * MILLION
                >= sizes.hash_ppm() * (u128::from(buckets) + 1)
        };
        prop_assert!(enough(found.bucket_count) || found.bucket_count == memory - 1);
        prop_assert!(found.bucket_count == 1 || !enough(found.bucket_count - 1));
    }

    #[test]
    fn more_memory_never_makes_more_chunks_runs_or_buckets(
        (sizes, memory, times) in anything(), more in 1..1000_u64
    ) {
        let at = |memory| (
            BlockNestedLoops::allocate(&sizes, memory, &times).unwrap().chunk_count,
            SortMerge::allocate(&sizes, memory, &times, RunSeeks::Free).unwrap().run_count(),
            GraceHash::allocate(&sizes, memory).unwrap(),
        );
        let (little, much) = (at(memory), at(memory + more));
        // Rounding gives one page from the area to the buffer, which may cost the last chunk or run.
        let slack = |count: u64, pages: u64| 1 + count / pages.max(1);
        prop_assert!(much.0 <= little.0 + slack(little.0, memory));
        prop_assert!(much.1 <= little.1 + slack(little.1, memory));
        if little.2.fits {
            prop_assert!(much.2.fits && much.2.bucket_count <= little.2.bucket_count);
        }
    }
}
