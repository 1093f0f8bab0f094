//! The checker finds anomalies that are planted in histories and in the engine, and none where none is.

use super::moments::{Apart, Contents, Deed, Ending, Found, Step, check};
use super::*;

/// Seeds in the gate, in memory and over SSDs.
const SEED_COUNT: u64 = 40;

/// A history that is written down by hand: each transaction begins when the one before it has begun, and
/// they end in their order, unless said otherwise.
struct Script {
    before: Contents,
    deeds: Vec<Deed>,
    time: u64,
}

fn script() -> Script {
    Script { before: Contents::default(), deeds: Vec::new(), time: 0 }
}

fn append(list: u32, element: u32) -> Step {
    Step::Append { list, element }
}

fn list(list: u32, elements: &[u32]) -> Step {
    Step::ReadList { list, elements: elements.to_vec() }
}

fn add(bag: u32, element: u32) -> Step {
    Step::Add { bag, element }
}

fn bag(bag: u32, elements: &[u32]) -> Step {
    Step::ReadBag { bag, elements: elements.iter().copied().collect() }
}

impl Script {
    /// A transaction beside all others.
    fn deed(mut self, apart: Apart, steps: &[Step]) -> Self {
        let deed = Deed {
            apart,
            began: 1,
            begun: 2 + self.time,
            steps: steps.to_vec(),
            ending: Ending::Committed { at: 1000 + self.time },
        };
        self.time += 1;
        self.deeds.push(deed);
        self
    }

    fn serializable(self, steps: &[Step]) -> Self {
        self.deed(Apart::Serializable, steps)
    }

    fn snapshot(self, steps: &[Step]) -> Self {
        self.deed(Apart::Snapshot, steps)
    }

    /// The last one did not commit, or nobody knows.
    fn ended(mut self, ending: Ending) -> Self {
        self.deeds.last_mut().unwrap().ending = ending;
        self
    }

    /// The last one began after all before had ended.
    fn later(mut self) -> Self {
        let last = self.deeds.last_mut().unwrap();
        self.time += 2000;
        (last.began, last.begun) = (self.time, self.time + 1);
        last.ending = Ending::Committed { at: self.time + 2 };
        self
    }

    fn check_with(
        &self,
        lists: &[(u32, &[u32])],
        bags: &[(u32, &[u32])],
        durable_before: u64,
    ) -> Result<moments::Told, String> {
        let lists = lists.iter().map(|(list, elements)| (*list, elements.to_vec())).collect();
        let bags = bags.iter().map(|(bag, all)| (*bag, all.iter().copied().collect())).collect();
        let contents = Contents { lists, bags };
        check(&self.before, &self.deeds, &Found { contents, durable_before })
    }

    fn holds(&self, lists: &[(u32, &[u32])], bags: &[(u32, &[u32])]) {
        let told = self.check_with(lists, bags, u64::MAX);
        assert!(told.is_ok(), "{told:?}");
    }

    fn breaks(&self, lists: &[(u32, &[u32])], bags: &[(u32, &[u32])], how: &str) {
        let told = self.check_with(lists, bags, u64::MAX).unwrap_err();
        assert!(told.contains(how), "{told}");
    }
}

#[test]
fn what_came_one_after_the_other_holds() {
    let steps = |list_number, before: &[u32], element| {
        [list(list_number, before), append(list_number, element)]
    };
    for apart in [Apart::Snapshot, Apart::Serializable] {
        let script =
            script().deed(apart, &steps(1, &[], 1)).deed(apart, &steps(1, &[1], 2)).later();
        script.holds(&[(1, &[1, 2])], &[]);
    }
}

#[test]
fn reading_what_was_taken_back_is_found() {
    let refused = Ending::Refused { at: 999 };
    let script = script()
        .serializable(&[append(1, 1)])
        .ended(refused)
        .serializable(&[list(1, &[1]), append(2, 2)]);
    script.breaks(&[(2, &[2])], &[], "T1 read 1 of list 1, which T0 wrote and took back");
}

#[test]
fn reading_half_of_a_transaction_is_found() {
    let lists = script().serializable(&[append(1, 1), append(1, 2)]).snapshot(&[list(1, &[1])]);
    lists.breaks(&[(1, &[1, 2])], &[], "T1 read half of what T0 wrote to list 1");
    let bags = script().serializable(&[add(1, 1), add(1, 2)]).snapshot(&[bag(1, &[2])]);
    bags.breaks(&[], &[(1, &[1, 2])], "T1 read half of what T0 wrote to bag 1");
}

#[test]
fn reading_twice_what_changed_in_between_is_found() {
    let script = script().snapshot(&[append(1, 1)]).snapshot(&[list(1, &[]), list(1, &[1])]);
    script.breaks(&[(1, &[1])], &[], "T1: it read list 1 as [] and then as [1]");
}

#[test]
fn not_reading_what_one_wrote_is_found() {
    let script = script().snapshot(&[append(1, 1), list(1, &[])]);
    script.breaks(&[(1, &[1])], &[], "where it had written [1]");
}

#[test]
fn a_lost_update_is_found() {
    // Both read the empty list; the second overwrote what the first had put there.
    let both =
        script().snapshot(&[list(1, &[]), append(1, 1)]).snapshot(&[list(1, &[]), append(1, 2)]);
    both.breaks(&[(1, &[2])], &[], "T0 read list 1 as [1], others as [2]");
    // Of bags nothing is overwritten; a list with both, of which one was not seen.
    let behind =
        script().snapshot(&[list(1, &[]), append(1, 1)]).snapshot(&[append(1, 2), list(1, &[2])]);
    behind.breaks(&[(1, &[1, 2])], &[], "others as");
}

#[test]
fn circles_of_writing_and_reading_are_found() {
    let writes = script()
        .serializable(&[append(1, 1), append(2, 2)])
        .serializable(&[append(1, 3), append(2, 4)]);
    writes.breaks(&[(1, &[1, 3]), (2, &[4, 2])], &[], "there is no order of these: T");
    let reads =
        script().snapshot(&[append(1, 1), list(2, &[2])]).snapshot(&[append(2, 2), list(1, &[1])]);
    reads.breaks(&[(1, &[1]), (2, &[2])], &[], "there is no order of these: T");
}

#[test]
fn a_snapshot_of_two_moments_is_found() {
    // Read skew: the first list before a transaction, the second one behind it.
    let skew = |apart| {
        script()
            .serializable(&[append(1, 1), append(2, 2)])
            .deed(apart, &[list(1, &[]), list(2, &[2])])
    };
    for apart in [Apart::Snapshot, Apart::Serializable] {
        skew(apart).breaks(&[(1, &[1]), (2, &[2])], &[], "did not see list 1 by");
    }
    // Two snapshots see two transactions in different orders.
    let fork = script()
        .serializable(&[append(1, 1)])
        .serializable(&[append(2, 2)])
        .snapshot(&[list(1, &[1]), list(2, &[])])
        .snapshot(&[list(1, &[]), list(2, &[2])]);
    fork.breaks(&[(1, &[1]), (2, &[2])], &[], "there is no order of these");
}

#[test]
fn write_skew_is_found_where_the_level_forbids_it() {
    let skew = |first, second| {
        script()
            .deed(first, &[list(2, &[]), append(1, 1)])
            .deed(second, &[list(1, &[]), append(2, 2)])
    };
    let found: [(u32, &[u32]); 2] = [(1, &[1]), (2, &[2])];
    let (snapshot, serializable) = (Apart::Snapshot, Apart::Serializable);
    skew(snapshot, snapshot).holds(&found, &[]);
    skew(snapshot, serializable).holds(&found, &[]);
    skew(serializable, serializable).breaks(&found, &[], "did not see list");
}

#[test]
fn a_phantom_is_found_where_the_level_forbids_it() {
    let phantom = |apart| {
        script().deed(apart, &[bag(1, &[]), add(2, 1)]).deed(apart, &[bag(2, &[]), add(1, 2)])
    };
    let found: [(u32, &[u32]); 2] = [(1, &[2]), (2, &[1])];
    phantom(Apart::Snapshot).holds(&[], &found);
    phantom(Apart::Serializable).breaks(&[], &found, "did not see bag");
}

#[test]
fn overwriting_what_changed_since_the_snapshot_is_found() {
    // It saw nothing of the first, and wrote behind it.
    let script = script()
        .serializable(&[append(1, 1), append(2, 2)])
        .snapshot(&[list(2, &[]), append(1, 3)]);
    script.breaks(&[(1, &[1, 3]), (2, &[2])], &[], "T0 wrote list 1, overwritten by");
}

#[test]
fn reading_what_is_older_than_the_beginning_is_found() {
    for apart in [Apart::Snapshot, Apart::Serializable] {
        let script = script().serializable(&[append(1, 1)]).deed(apart, &[list(1, &[])]).later();
        script.breaks(&[(1, &[1])], &[], "(time)");
    }
    // And what is newer than the snapshot.
    let newer = script().snapshot(&[list(1, &[1])]).serializable(&[append(1, 1)]).later();
    newer.breaks(&[(1, &[1])], &[], "(time)");
}

#[test]
fn what_a_crash_may_not_do_is_found() {
    let two = script().serializable(&[append(1, 1)]).serializable(&[list(1, &[1]), append(2, 2)]);
    two.breaks(&[(1, &[1])], &[], "T1 was promised to be durable and is gone");
    // Nothing was promised: the last ones may go, not the first.
    assert_eq!(two.check_with(&[(1, &[1])], &[], 0).unwrap().lost_count, 1);
    assert_eq!(two.check_with(&[], &[], 0).unwrap().lost_count, 2);
    let told = two.check_with(&[(2, &[2])], &[], 0).unwrap_err();
    assert_eq!(told, "T1 is there, and what came before it is not");
    let half = script().serializable(&[append(1, 1), add(1, 2)]);
    let told = half.check_with(&[(1, &[1])], &[], 0).unwrap_err();
    assert_eq!(told, "half of what T0 wrote is there");
    let refused = script().serializable(&[append(1, 1)]).ended(Ending::Refused { at: 999 });
    refused.breaks(
        &[(1, &[1])],
        &[],
        "the last look read 1 of list 1, which T0 wrote and took back",
    );
    let unknown = script().serializable(&[append(1, 1)]).ended(Ending::Unknown);
    unknown.holds(&[(1, &[1])], &[]);
    unknown.holds(&[], &[]);
    let mut before = script();
    before.before.lists.insert(1, vec![7]);
    before.breaks(&[], &[], "7 was there before and is gone");
    let missed = before.snapshot(&[list(1, &[])]);
    missed.breaks(&[(1, &[7])], &[], "T0 read list 1 without all that was there before");
}

fn seeds(otherwise: u64) -> u64 {
    let text = std::env::var("NANDU_CRASH_SEEDS").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn replayed(world: WorldKind, Violation { seed, what }: Violation) -> Outcome {
    let workload = crate::Workload::Crowd { client_count_max: CLIENT_COUNT_MAX };
    let replay = crate::replay_command(seed, world, Bug::None, workload);
    panic!("{what}\nreplay: {replay}")
}

#[test]
fn many_clients_lose_nothing_and_see_nothing_half_done() {
    for world in WorldKind::ALL {
        let count = seeds(SEED_COUNT);
        let mut total = Outcome::default();
        for seed in 0..count {
            let outcome = run_crowd(seed, world, Bug::None, CLIENT_COUNT_MAX);
            total.add(&outcome.unwrap_or_else(|violation| replayed(world, violation)));
        }
        println!("{world:?}: {total:?}");
        assert!(total.deed_count > 100 * count && total.commit_count > 40 * count, "{total:?}");
        assert!(total.conflict_count > 5 * count && total.cut_count > count / 2, "{total:?}");
        assert!(total.loser_count > count / 4, "restarts undo several: {total:?}");
        assert!(total.lost_count > 0, "what nobody promised goes: {total:?}");
    }
}

#[test]
fn the_same_seed_is_the_same_history_whatever_switches() {
    for seed in 0..4 {
        let run = |kind| run_switched(seed, WorldKind::Memory, Bug::None, 16, kind).unwrap();
        let first = run(SwitchKind::Coroutines);
        assert_eq!(first, run(SwitchKind::Coroutines), "seed {seed}");
        assert_eq!(first, run(SwitchKind::Baton), "seed {seed}");
    }
}

#[test]
fn bugs_that_only_many_can_meet_are_found_by_what_they_saw() {
    for bug in Bug::all().filter(|bug| bug.is_of_many()) {
        let found = crate::find_planted(bug, WorldKind::Memory, 0, 50);
        let what = found.what.unwrap_or_else(|| panic!("{} is not found", found.bug));
        assert!(!what.starts_with("panicked"), "{}: {what}", found.bug);
        let alone = run_crowd(found.first_seed.unwrap(), WorldKind::Memory, Bug::None, 16);
        assert!(alone.is_ok(), "{alone:?}");
    }
}
