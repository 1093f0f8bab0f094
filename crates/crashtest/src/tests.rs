//! The campaign of the gate, and that it finds what it should.

use super::*;

/// Seeds in the gate; a campaign by hand takes as many as it likes.
const SEED_COUNT: u64 = 200;
/// Over simulated SSDs: each of the layers ten times.
const SSD_SEED_COUNT: u64 = 10 * LAYER_COUNT;
/// Page mapping, block mapping, BAST, and page mapping with a map on flash over two planes.
const EVERY_REQUEST_SEEDS: [u64; 4] = [0, 13, 14, 11];

fn seeds(otherwise: u64) -> u64 {
    std::env::var("NANDU_CRASH_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn run_seeds(world: WorldKind, count: u64) -> Outcome {
    let mut total = Outcome::default();
    for seed in 0..count {
        let outcome =
            run_seed(seed, world, Lie::None).unwrap_or_else(|Violation { seed, what }| {
                panic!("{what}\nreplay: {}", replay_command(seed, world))
            });
        total.add(&outcome);
    }
    println!("{total:?}");
    total
}

#[test]
fn nothing_committed_is_lost_and_nothing_uncommitted_is_seen() {
    let count = seeds(SEED_COUNT);
    let total = run_seeds(WorldKind::Memory, count);
    // The campaign is worth nothing if nothing happens in it.
    assert!(total.commit_count > 5 * count && total.cut_count > count, "{total:?}");
    assert!(total.loser_count > 0 && total.repaired_page_count > 0, "{total:?}");
    assert!(total.load_count > total.failed_load_count && total.failed_load_count > 0, "{total:?}");
}

#[test]
fn the_same_holds_over_simulated_ssds_of_every_layer() {
    let count = seeds(SSD_SEED_COUNT);
    let total = run_seeds(WorldKind::Ssd, count);
    assert!(total.commit_count > 5 * count && total.cut_count > count / 2, "{total:?}");
    assert!(total.loser_count > 0 && total.failed_load_count > 0, "{total:?}");
    assert!(total.erase_count > 100 * count, "their layers clean: {total:?}");
}

#[test]
fn a_cut_at_every_request_over_an_ssd_loses_nothing_either() {
    for seed in EVERY_REQUEST_SEEDS {
        let total = cut_at_every_request(seed, WorldKind::Ssd, Lie::None);
        let total = total.unwrap_or_else(|violation| panic!("{violation:?}"));
        println!("seed {seed}: {total:?}");
        assert!(total.cut_count > 200, "{total:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_requests() {
    for world in [WorldKind::Memory, WorldKind::Ssd] {
        for seed in [1, 7, 23, 42] {
            assert_eq!(run_seed(seed, world, Lie::None), run_seed(seed, world, Lie::None));
        }
        let trace = |seed| run_seed(seed, world, Lie::None).unwrap().trace;
        assert_ne!(trace(1), trace(2));
    }
}

#[test]
fn seeds_go_through_all_layers_and_share_their_workload_among_worlds() {
    let scenarios: Vec<Scenario> =
        (0..LAYER_COUNT).map(|seed| Scenario::of_seed(seed, WorldKind::Ssd, Lie::None)).collect();
    let mut layers: Vec<String> = scenarios
        .iter()
        .map(|scenario| format!("{:?}", scenario.drive.as_ref().unwrap().config.ftl.kind()))
        .collect();
    layers.sort_unstable();
    layers.dedup();
    assert_eq!(layers, ["Bast", "Block", "Chunk", "Dftl", "Fast", "Faster", "Page"]);
    for scenario in scenarios {
        let in_memory = Scenario::of_seed(scenario.seed, WorldKind::Memory, Lie::None);
        assert_eq!(in_memory.drive, None);
        assert_eq!(in_memory.settings.page_bytes, scenario.settings.page_bytes);
        assert_eq!(in_memory.faults, scenario.faults);
    }
}

#[test]
fn planted_bugs_are_found() {
    let lies =
        [Lie::FlushesIgnored, Lie::TornPagesTrusted, Lie::WritesLost, Lie::WritesMisdirected];
    for world in [WorldKind::Memory, WorldKind::Ssd] {
        for lie in lies {
            let found = (0..400).find(|&seed| run_seed(seed, world, lie).is_err());
            assert!(found.is_some(), "{lie:?} goes unnoticed in {world:?}");
        }
    }
}

#[test]
fn a_cut_at_every_request_finds_flushes_that_an_ssd_ignores() {
    let found = EVERY_REQUEST_SEEDS
        .into_iter()
        .find(|&seed| cut_at_every_request(seed, WorldKind::Ssd, Lie::FlushesIgnored).is_err());
    assert!(found.is_some());
}
