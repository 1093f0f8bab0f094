//! The campaign of the gate, and that it finds what it should.

use super::*;

/// Seeds in the gate; a campaign by hand takes as many as it likes.
const SEED_COUNT: u64 = 200;

fn seeds() -> u64 {
    std::env::var("NANDU_CRASH_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEED_COUNT)
}

#[test]
fn nothing_committed_is_lost_and_nothing_uncommitted_is_seen() {
    let mut total = Outcome::default();
    for seed in 0..seeds() {
        let outcome = run_seed(seed, Lie::None).unwrap_or_else(|Violation { seed, what }| {
            panic!("{what}\nreplay: nandu crash --seed {seed}")
        });
        total.add(&outcome);
    }
    println!("{total:?}");
    // The campaign is worth nothing if nothing happens in it.
    assert!(total.commit_count > 5 * seeds() && total.cut_count > seeds(), "{total:?}");
    assert!(total.loser_count > 0 && total.repaired_page_count > 0, "{total:?}");
    assert!(total.load_count > total.failed_load_count && total.failed_load_count > 0, "{total:?}");
}

#[test]
fn the_same_seed_gives_the_same_requests() {
    for seed in [1, 7, 23, 42] {
        assert_eq!(run_seed(seed, Lie::None), run_seed(seed, Lie::None));
    }
    assert_ne!(run_seed(1, Lie::None).unwrap().trace, run_seed(2, Lie::None).unwrap().trace);
}

#[test]
fn planted_bugs_are_found() {
    let lies =
        [Lie::FlushesIgnored, Lie::TornPagesTrusted, Lie::WritesLost, Lie::WritesMisdirected];
    for lie in lies {
        let found = (0..100).find(|&seed| run_seed(seed, lie).is_err());
        assert!(found.is_some(), "{lie:?} goes unnoticed");
    }
}
