//! The campaign of the gate, and that it finds what it should.

use super::*;
use nandu_ftl::FtlKind;
use nandu_storage::StorageError;
use nandu_storage::plant::EngineBug;

/// Seeds in the gate; a campaign by hand takes as many as it likes.
const SEED_COUNT: u64 = 120;
/// Over files that are synced one by one.
const FILES_SEED_COUNT: u64 = 60;
/// With pages on raw flash.
const CHIPS_SEED_COUNT: u64 = 60;
/// The same over a log on lines of a memory.
const LINES_SEED_COUNT: u64 = 80;
/// Over simulated SSDs: each of the layers six times.
const SSD_SEED_COUNT: u64 = 6 * LAYER_COUNT;
/// Page mapping, block mapping, BAST, and page mapping with a map on flash over two planes.
const EVERY_REQUEST_SEEDS: [u64; 4] = [0, 13, 14, 11];

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

pub(crate) fn seeds(otherwise: u64) -> u64 {
    from_environment("NANDU_CRASH_SEEDS").unwrap_or(otherwise)
}

/// How many cuts of a walk have one whose restart is cut at each request, too.
fn restart_step() -> usize {
    from_environment("NANDU_CUT_STEP").map_or(RESTART_STEP, nandu_base::to_index)
}

/// The first seeds of a workload in a world, so many of them; none breaks a promise.
fn run_all(workload: Workload, world: WorldKind, count: u64) -> Outcome {
    let mut total = Outcome::default();
    for seed in 0..count {
        let outcome = workload.run(seed, world, Bug::None);
        total.add(&outcome.unwrap_or_else(|Violation { seed, what }| {
            let replay = replay_command(seed, world, Bug::None, workload);
            panic!("{what}\nreplay: {replay}")
        }));
    }
    println!("{total:?}");
    total
}

fn run_seeds(world: WorldKind, count: u64) -> Outcome {
    run_all(Workload::Rows, world, count)
}

/// The same in some worlds, as many in each as the environment says or the world has beside it; all
/// together, and how many seeds that were.
fn run_worlds<const N: usize>(workload: Workload, worlds: [(WorldKind, u64); N]) -> (Outcome, u64) {
    let (mut all, mut seed_count) = (Outcome::default(), 0);
    for (world, otherwise) in worlds {
        let count = seeds(otherwise);
        all.add(&run_all(workload, world, count));
        seed_count += count;
    }
    (all, seed_count)
}

#[test]
fn nothing_committed_is_lost_and_nothing_uncommitted_is_seen() {
    let count = seeds(SEED_COUNT);
    let total = run_seeds(WorldKind::Memory, count);
    // The campaign is worth nothing if nothing happens in it.
    assert!(total.commit_count > 5 * count && 4 * total.cut_count > 3 * count, "{total:?}");
    assert!(total.loser_count > 0 && total.repaired_page_count > 0, "{total:?}");
    assert!(total.load_count > total.failed_load_count && total.failed_load_count > 0, "{total:?}");
    assert!(total.refused_count < total.commit_count, "most changes have room: {total:?}");
}

#[test]
fn the_same_holds_over_files_that_are_synced_one_by_one() {
    let count = seeds(FILES_SEED_COUNT);
    let total = run_seeds(WorldKind::Files, count);
    assert!(total.commit_count > 5 * count && total.cut_count > count / 2, "{total:?}");
    assert!(total.loser_count > 0 && total.repaired_page_count > 0, "{total:?}");
    assert!(total.failed_sync_count > 0 && total.failed_load_count > 0, "{total:?}");
    assert!(4 * total.failed_opening_count > count, "openings fail, too: {total:?}");
}

#[test]
fn the_same_holds_with_a_log_on_lines_of_a_memory() {
    let count = seeds(LINES_SEED_COUNT);
    let total = run_seeds(WorldKind::Lines, count);
    assert!(total.commit_count > 5 * count && 4 * total.cut_count > 3 * count, "{total:?}");
    assert!(total.loser_count > 0 && total.repaired_page_count > 0, "{total:?}");
    assert!(total.refused_count < total.commit_count, "most changes have room: {total:?}");
}

#[test]
fn the_same_holds_with_pages_on_raw_flash() {
    let count = seeds(CHIPS_SEED_COUNT);
    let total = run_seeds(WorldKind::Chips, count);
    assert!(total.commit_count > 5 * count && 2 * total.cut_count > count, "{total:?}");
    assert!(total.loser_count > 0 && total.erase_count > 10 * count, "{total:?}");
    assert!(total.refused_count < total.commit_count, "most changes have room: {total:?}");
}

#[test]
fn bugs_that_lose_what_was_on_raw_flash_are_found() {
    for bug in [EngineBug::NoWriteAheadRule, EngineBug::CommitWithoutFlush].map(Bug::OfEngine) {
        let found = find_planted(bug, WorldKind::Chips, 0, bound(WorldKind::Chips));
        println!("{bug:?}: {found:?}");
        assert!(found.first_seed.is_some(), "{bug:?}");
    }
}

#[test]
fn bugs_of_a_log_on_lines_are_found() {
    let of_log = [
        EngineBug::HolesPassedOver,
        EngineBug::CommitWithoutFlush,
        EngineBug::LogNeverSynced,
        EngineBug::LastRecordLost,
        EngineBug::NoWriteAheadRule,
    ];
    for bug in of_log.map(Bug::OfEngine).into_iter().chain([Bug::FlushesIgnored]) {
        let found = find_planted(bug, WorldKind::Lines, 0, bound(WorldKind::Lines));
        println!("{bug:?}: {found:?}");
        assert!(found.first_seed.is_some(), "{bug:?}");
    }
}

/// In the first a log loses the commit that dropped a table whose file number another table has by then, whose
/// rows were taken for those of the first. In the second the last segment of pages loses those of a table that
/// was loaded past the log; those of the one before it were shown.
#[test]
fn a_table_is_never_shown_as_one_that_had_its_file_number() {
    for seed in [1_106_715, 1_467_088] {
        let outcome = run_seed(seed, WorldKind::Memory, Bug::None).unwrap();
        let told = outcome.told_count;
        assert_eq!(told, 1, "seed {seed} has lost its story, find another: {outcome:?}");
    }
}

/// What only adds to values, as the counts of a document's paths, is written by the commit itself.
#[test]
fn a_commit_that_finds_no_room_in_the_log_took_nothing_of_it() {
    for seed in [3_200_019, 3_200_062] {
        let outcome = Workload::Document.run(seed, WorldKind::Memory, Bug::None).unwrap();
        assert!(outcome.refused_count > 0, "seed {seed} has lost its story: {outcome:?}");
    }
}

#[test]
fn documents_lose_nothing_either_and_their_indexes_know_all_nodes() {
    let worlds = [(WorldKind::Memory, 6), (WorldKind::Files, 3), (WorldKind::Ssd, 3)];
    let (all, seed_count) = run_worlds(Workload::Document, worlds);
    assert!(all.cut_count > seed_count / 3 && all.commit_count > 5 * seed_count, "{all:?}");
    assert!(all.document_change_count > 20 * seed_count, "{all:?}");
    assert!(10 * all.refused_count < all.commit_count, "changes have room: {all:?}");
    let run = |seed| Workload::Document.run(seed, WorldKind::Memory, Bug::None);
    assert_eq!(run(1), run(1));
    let lost =
        |bug| (0..50).find(|&seed| Workload::Document.run(seed, WorldKind::Memory, bug).is_err());
    for bug in [Bug::FlushesIgnored, Bug::OfEngine(EngineBug::UndoSkipped)] {
        assert!(lost(bug).is_some(), "{bug:?} is not found");
    }
}

#[test]
fn clients_who_change_one_document_lose_nothing_of_it() {
    let workload = Workload::DocumentCrowd { client_count_max: 6 };
    let worlds = [(WorldKind::Memory, 6), (WorldKind::Files, 2), (WorldKind::Ssd, 3)];
    let (all, seed_count) = run_worlds(workload, worlds);
    assert!(all.cut_count > seed_count / 3 && all.commit_count > 10 * seed_count, "{all:?}");
    let run = |seed| workload.run(seed, WorldKind::Memory, Bug::None);
    assert_eq!(run(1), run(1));
    let lost = |bug| (0..50).find(|&seed| workload.run(seed, WorldKind::Memory, bug).is_err());
    for bug in [Bug::FlushesIgnored, Bug::OfEngine(EngineBug::UndoSkipped)] {
        assert!(lost(bug).is_some(), "{bug:?} is not found");
    }
}

/// In each a transaction could not read the differential of a page, and nobody can from then on: nothing else
/// has what it says. The opening is refused, and has to find everything once its sector can be read again.
#[test]
fn a_page_whose_differential_cannot_be_read_is_not_lost_by_a_refused_opening() {
    for seed in [7_100_216, 7_101_232, 7_103_967] {
        let workload = Workload::Tpcc { client_count_max: 8 };
        let outcome = workload.run(seed, WorldKind::Memory, Bug::None).unwrap();
        assert!(outcome.failed_opening_count > 0, "seed {seed} has lost its story: {outcome:?}");
    }
}

#[test]
fn terminals_of_tpcc_find_what_they_left_and_all_conditions_hold() {
    let workload = Workload::Tpcc { client_count_max: 6 };
    let worlds = [(WorldKind::Memory, 6), (WorldKind::Files, 3), (WorldKind::Ssd, 3)];
    let (all, seed_count) = run_worlds(workload, worlds);
    assert!(all.cut_count > seed_count / 3 && all.commit_count > 20 * seed_count, "{all:?}");
    assert!(all.tpcc_count >= all.commit_count && all.loser_count > 0, "{all:?}");
    let run = |seed| workload.run(seed, WorldKind::Memory, Bug::None);
    assert_eq!(run(1), run(1));
    for bug in [
        Bug::FlushesIgnored,
        Bug::WritesLost,
        Bug::TornPagesTrusted,
        Bug::OfEngine(EngineBug::CommitWithoutFlush),
        Bug::OfEngine(EngineBug::UndoSkipped),
        Bug::OfEngine(EngineBug::OneLoserUndone),
        Bug::OfEngine(EngineBug::FlightChangesForgotten),
    ] {
        let found = (0..50).find_map(|seed| workload.run(seed, WorldKind::Memory, bug).err());
        println!("{bug:?} is found by {found:?}");
        assert!(found.is_some(), "{bug:?} is not found");
    }
}

#[test]
fn flipped_bits_are_told_or_do_no_harm() {
    for world in [WorldKind::Memory, WorldKind::Ssd] {
        let (mut total, mut count) = (Outcome::default(), 0);
        let flips = |seed: &u64| Scenario::of_seed(*seed, world, Bug::None).faults.flipped_bits;
        for seed in (0..).filter(flips).take(60) {
            let outcome = run_seed(seed, world, Bug::None);
            total.add(&outcome.unwrap_or_else(|violation| panic!("{violation:?}")));
            count += 1;
        }
        println!("{world:?}: {total:?}");
        assert!(total.flip_count > 2 * count, "{total:?}");
        assert!(total.told_count > count / 4, "damage is told where it is read: {total:?}");
        assert!(total.told_count < count, "what nobody needs does no harm: {total:?}");
        assert_eq!((total.cut_count, total.error_count), (0, 0), "nothing else goes wrong");
    }
}

#[test]
fn an_error_without_a_fault_is_a_broken_promise() {
    let scenario = (0..)
        .map(|seed| Scenario::of_seed(seed, WorldKind::Memory, Bug::None))
        .find(|scenario| scenario.faults.failed_requests && !scenario.faults.power_cuts)
        .unwrap();
    let mut simulation = life::Simulation::new(&scenario);
    let database = simulation.create().unwrap();
    let error = || Err::<(), _>(StorageError::NotFound { what: "row".to_owned() });
    assert!(matches!(simulation.accept("a read", error()), Err(life::Stop::Broken(_))));
    let damage = || Err::<(), _>(StorageError::Corrupt { place: "log".into(), what: "?".into() });
    assert!(matches!(simulation.accept("a read", damage()), Err(life::Stop::Broken(_))));
    // Once the planned request has failed, anything may.
    simulation.plan_fault(2);
    while simulation.accept("a read", error()).is_err() {
        simulation.live(&database).unwrap();
    }
    simulation.restore().unwrap();
    assert!(simulation.accept("a read", error()).is_err(), "the next life has no fault yet");
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
        let total = cut_at_every_request(
            &Scenario::of_seed(seed, WorldKind::Ssd, Bug::None),
            restart_step(),
        );
        let total = total.unwrap_or_else(|violation| panic!("{violation:?}"));
        println!("seed {seed}: {total:?}");
        assert!(total.cut_count > 200, "{total:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_requests() {
    for world in WorldKind::ALL {
        for seed in [1, 7, 23, 42] {
            assert_eq!(run_seed(seed, world, Bug::None), run_seed(seed, world, Bug::None));
        }
        let trace = |seed| run_seed(seed, world, Bug::None).unwrap().trace;
        assert_ne!(trace(1), trace(2));
    }
}

#[test]
fn seeds_go_through_all_layers_and_share_their_workload_among_worlds() {
    let scenarios: Vec<Scenario> =
        (0..LAYER_COUNT).map(|seed| Scenario::of_seed(seed, WorldKind::Ssd, Bug::None)).collect();
    let kinds: Vec<FtlKind> = scenarios
        .iter()
        .map(|scenario| scenario.drive.as_ref().unwrap().config.ftl.kind())
        .collect();
    assert!(FtlKind::ALL.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
    let raw_count = scenarios.iter().filter(|scenario| scenario.keyed_is_raw).count();
    assert!((1..scenarios.len()).contains(&raw_count), "clustered and raw trees");
    let page_bytes = |seed| in_memory_settings(seed).page_bytes;
    let sizes: std::collections::BTreeSet<u32> = (0..400).map(page_bytes).collect();
    assert_eq!(sizes, (9..=16).map(|log2| 1 << log2).collect(), "all page sizes");
    for seed in 0..400 {
        in_memory_settings(seed).check().unwrap();
        Scenario::of_seed(seed, WorldKind::Ssd, Bug::None).settings.check().unwrap();
    }
    for scenario in scenarios {
        let in_memory = Scenario::of_seed(scenario.seed, WorldKind::Memory, Bug::None);
        assert_eq!(in_memory.drive, None);
        assert_eq!(in_memory.settings.page_bytes, scenario.settings.page_bytes);
        assert_eq!(in_memory.faults, scenario.faults);
    }
}

/// Seeds among which each planted bug is found.
const fn bound(world: WorldKind) -> u64 {
    match world {
        WorldKind::Memory | WorldKind::Files | WorldKind::Chips | WorldKind::Lines => 50,
        WorldKind::Ssd => 120,
    }
}

/// The seed that finds a bug first, by the table that is kept.
fn kept_seed(bug: Bug, world: WorldKind) -> Option<u64> {
    let table = include_str!("../../../results/amd-epyc-2core/crash/planted.json");
    let table: serde_json::Value = serde_json::from_str(table).unwrap();
    let is_it = |line: &&serde_json::Value| {
        line["bug"] == bug.label() && line["world"] == serde_json::to_value(world).unwrap()
    };
    table["bugs"].as_array().unwrap().iter().find(is_it)?["first_seed"].as_u64()
}

fn kept(name: &str) -> serde_json::Value {
    let path = format!("{}/../../results/amd-epyc-2core/crash/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn the_document_tells_planted_bugs_as_they_are_kept() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/crash-simulation.md");
    let document = std::fs::read_to_string(path).unwrap();
    let has = |row: String| assert!(document.lines().any(|line| line == row), "no row {row}");
    let told = |seed: &serde_json::Value| match seed.as_u64() {
        Some(seed) => seed.to_string(),
        None => "none".to_owned(),
    };
    let named = kept("planted.json");
    for bug in Bug::all().filter(|bug| !bug.is_of_lines()) {
        let seeds = WorldKind::PLANTED.map(|world| {
            let world = serde_json::to_value(world).unwrap();
            let lines = named["bugs"].as_array().unwrap();
            let line = lines
                .iter()
                .find(|line| line["bug"] == bug.label() && line["world"] == world)
                .unwrap_or_else(|| panic!("{} was not looked for in {world}", bug.label()));
            told(&line["first_seed"])
        });
        has(format!("| `{}` | {} |", bug.label(), seeds.join(" | ")));
    }
    let by_hand = kept("planted-by-hand.json");
    for bug in by_hand["bugs"].as_array().unwrap() {
        let (name, first) = (bug["bug"].as_str().unwrap(), &bug["first_seeds"]);
        let seeds = ["memory", "ssd", "files"].map(|world| told(&first[world]));
        let seeds = match seeds.iter().all(|seed| seed == "none") {
            _ if first.is_null() => String::new(),
            true => " none".to_owned(),
            false => format!(" {}", seeds.join(", ")),
        };
        let test = bug["test"].as_str().map_or(String::new(), |test| format!(" {test}"));
        has(format!("| {name} |{seeds} |{test} |"));
    }
    for bug in by_hand["seen_by_a_test_written_for_them"].as_array().unwrap() {
        let (name, test) = (bug["bug"].as_str().unwrap(), bug["test"].as_str().unwrap());
        has(format!("| {name} | {test} |"));
    }
}

/// What seeds do not find so soon, and what cannot be seen where everything is synced at once
/// (`docs/crash-simulation.md`).
fn is_found_late(bug: Bug, world: WorldKind) -> bool {
    use EngineBug::{ControlBlockUnsynced, FoundUnsynced};
    match bug {
        Bug::OfEngine(ControlBlockUnsynced) => true,
        Bug::OfEngine(FoundUnsynced) => world != WorldKind::Files,
        _ => false,
    }
}

#[test]
fn each_planted_bug_is_found_within_its_bound() {
    let mut unnoticed = Vec::new();
    for world in WorldKind::PLANTED {
        let known = Bug::all().filter(|bug| !bug.is_of_lines());
        for bug in known.filter(|bug| !is_found_late(*bug, world)) {
            let kept = kept_seed(bug, world).filter(|seed| *seed < bound(world));
            // The kept seed first; after a change it may be another one.
            let is_found = kept.is_some_and(|seed| run_planted(seed, world, bug).is_err())
                || find_planted(bug, world, 0, bound(world)).first_seed.is_some();
            if !is_found {
                unnoticed.push((bug, world));
            }
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}

#[test]
fn a_cut_at_every_request_finds_flushes_that_an_ssd_ignores() {
    let found = EVERY_REQUEST_SEEDS
        .into_iter()
        .map(|seed| Scenario::of_seed(seed, WorldKind::Ssd, Bug::FlushesIgnored))
        .map(|scenario| cut_at_every_request(&scenario, RESTART_STEP))
        .find(Result::is_err);
    assert!(found.is_some());
}

fn in_memory_settings(seed: u64) -> nandu_storage::Settings {
    Scenario::of_seed(seed, WorldKind::Memory, Bug::None).settings
}
