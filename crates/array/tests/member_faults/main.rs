//! Arrays whose members fail, go stale and lose power return what was flushed or later written, or an
//! error: every short history of small arrays, then random ones. `examples/member_faults.rs` runs more.

mod adaptive;
mod exhaustive;
mod found;
mod random;
mod world;

use nandu_array::WriteReturn;
use world::Setup;

/// Random runs of the gate.
const SEED_COUNT: u64 = 400;

fn setup(code: (u8, u8, u8), write_return: WriteReturn) -> Setup {
    let (member_count, needed_count, written_count) = code;
    let (fragment_sectors, row_count) = (1, 1);
    Setup { member_count, needed_count, written_count, fragment_sectors, row_count, write_return }
}

#[test]
fn no_short_history_of_a_mirror_returns_what_was_never_to_be_read() {
    for write_return in [WriteReturn::Needed, WriteReturn::All] {
        let (count, tally) = exhaustive::search(&setup((2, 1, 2), write_return), 2).unwrap();
        assert!(count > 5000 && tally.rebuilt_count > 1000, "{count} histories, {tally:?}");
    }
}

#[test]
fn no_short_history_of_two_fragments_of_three_returns_what_was_never_to_be_read() {
    let (count, tally) = exhaustive::search(&setup((3, 2, 3), WriteReturn::Needed), 1).unwrap();
    assert!(count > 1000 && tally.rebuilt_count > 10, "{count} histories, {tally:?}");
}

#[test]
fn random_histories_return_what_was_flushed_or_written_later() {
    random_histories(random::run);
}

#[test]
fn random_histories_of_any_code_return_what_was_flushed_or_written_later() {
    random_histories(random::run_any);
}

fn random_histories(run: impl Fn(u64) -> Result<world::Tally, world::Violation>) {
    let mut all = world::Tally::default();
    for seed in 0..SEED_COUNT {
        match run(seed) {
            Ok(tally) => all.add(&tally),
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    assert!(all.cut_count > SEED_COUNT && all.rebuilt_count > SEED_COUNT / 4, "{all:?}");
}

#[test]
fn an_array_that_follows_the_load_returns_nothing_wrong_while_it_moves() {
    let (mut all, mut moved_count) = (world::Tally::default(), 0);
    for seed in 0..SEED_COUNT {
        match adaptive::run(seed) {
            Ok((tally, moved)) => {
                all.add(&tally);
                moved_count += moved;
            }
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    assert!(
        all.rebuilt_count > SEED_COUNT / 4 && moved_count > SEED_COUNT,
        "{all:?}, {moved_count}"
    );
}
