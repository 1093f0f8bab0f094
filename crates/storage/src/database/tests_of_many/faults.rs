//! The same histories over a device that fails: syncs that lose what they were to make durable, writes that
//! tear, reads that fail once or for good, a device that is full, and power cuts, in the middle of many
//! transactions, of snapshots and of openings.
//!
//! 1. What is answered without an error is right, as without faults: the steps of transactions, replayed in
//!    the order of the commits, and what snapshots see.
//! 2. An error has a reason: a request of this life that failed or found no room, or a sector that cannot
//!    be read any more.
//! 3. After the next opening there is what was committed last, or what a commit that ended with an error
//!    was to bring.

use super::histories::{Actor, Event, State, state_of, step};
use super::*;
use crate::engine::TornPages;
use crate::propagation::{PropagationKind, PropagationSettings};
use nandu_device::{Failure, FaultPlan, UnflushedFate};

/// Histories in the gate.
const SEED_COUNT: u64 = 60;
const STEP_COUNT: u32 = 150;

/// What happened, so that a test that tests nothing is found.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    commits: u32,
    seen: u32,
    errors: u32,
    uncertain: u32,
    brought: u32,
    failed_openings: u32,
    losers: u64,
    damaged: u32,
}

/// A history from one opening to the next.
struct Life<'d> {
    seed: u64,
    device: TestDevice,
    failed_before: u64,
    is_full: bool,
    database: &'d Database,
    committed: State,
    /// What commits were to bring that ended with an error.
    uncertain: Vec<State>,
    actors: Vec<Actor<'d>>,
    /// With what each may see: the last commit, or one that ended with an error.
    snapshots: Vec<(Snapshot, Vec<State>)>,
    counts: Counts,
    /// What was told, for whoever looks for the reason of a failure.
    errors: Vec<String>,
}

impl Life<'_> {
    /// Holds an error against rule 2.
    fn excuse(&mut self, what: &str, error: &StorageError) {
        if matches!(error, StorageError::SnapshotTooOld { .. }) {
            return;
        }
        let device = self.device.lock();
        let came = device.failed().request_count > self.failed_before
            || self.is_full
            || !device.is_powered()
            || device.unreadable_count() > 0;
        assert!(came, "seed {}: {what} failed without a fault: {error}", self.seed);
        drop(device);
        self.errors.push(format!("{what}: {error}"));
        self.counts.errors += 1;
    }

    fn live(&mut self, rng: &mut Rng) {
        for _ in 0..STEP_COUNT {
            let done = match rng.below(20) {
                0..=2 if self.actors.len() < 6 => self.begin(rng),
                3 if self.snapshots.len() < 4 => {
                    let states = self.uncertain.iter().chain([&self.committed]).cloned().collect();
                    self.snapshots.push((self.database.snapshot(), states));
                    Ok(())
                }
                4 if !self.snapshots.is_empty() => self.look_back(rng),
                5 if rng.below(4) == 0 => self.database.checkpoint(),
                6 if rng.below(4) == 0 => self.database.drop_cached_pages(),
                7 | 8 if !self.actors.is_empty() => self.end(rng),
                _ if !self.actors.is_empty() => self.go_on(rng),
                _ => Ok(()),
            };
            if let Err(error) = done {
                self.excuse("a step", &error);
            }
        }
    }

    fn begin(&mut self, rng: &mut Rng) -> Result<(), StorageError> {
        let isolation = Isolation::ALL[nandu_base::to_index(rng.below(2))];
        let write = self.database.write_with(isolation)?;
        if !self.uncertain.is_empty() {
            // What it sees is as uncertain as the commit that ended with an error.
            return write.rollback();
        }
        let own = (isolation == Isolation::Snapshot).then(|| self.committed.clone());
        self.actors.push(Actor { write, events: Vec::new(), own, mark: None });
        Ok(())
    }

    fn look_back(&mut self, rng: &mut Rng) -> Result<(), StorageError> {
        let at = nandu_base::to_index(rng.below(self.snapshots.len() as u64));
        let (snapshot, expected) = self.snapshots.swap_remove(at);
        let state = state_of(&snapshot)?;
        assert!(expected.contains(&state), "seed {}: {state:?} is none of {expected:?}", self.seed);
        self.counts.seen += 1;
        Ok(())
    }

    fn end(&mut self, rng: &mut Rng) -> Result<(), StorageError> {
        let at = nandu_base::to_index(rng.below(self.actors.len() as u64));
        let Actor { write, events, .. } = self.actors.swap_remove(at);
        if rng.below(4) == 0 {
            return write.rollback();
        }
        let is_serializable = write.isolation() == Isolation::Serializable;
        let has_changes = events.iter().any(Event::is_change);
        let answer = write.commit();
        // After a commit that ended with an error others may have seen what it was to bring.
        let replay = |base: &State| {
            let mut after = base.clone();
            let mut told = events.iter().filter(|event| is_serializable || event.is_change());
            told.all(|event| event.replay(&mut after)).then_some(after)
        };
        let after = self.uncertain.iter().rev().chain([&self.committed]).find_map(replay);
        if answer.is_ok() && (has_changes || self.uncertain.is_empty()) {
            assert!(after.is_some(), "seed {}: rule 1: {events:?}\n{:?}", self.seed, self.errors);
        }
        match (answer, after) {
            (Ok(()), Some(after)) if has_changes => {
                self.committed = after;
                self.uncertain.clear();
                self.counts.commits += 1;
                Ok(())
            }
            (Err(error), after) => {
                self.uncertain.extend(after);
                Err(error)
            }
            (Ok(()), _) => Ok(()),
        }
    }

    fn go_on(&mut self, rng: &mut Rng) -> Result<(), StorageError> {
        let at = nandu_base::to_index(rng.below(self.actors.len() as u64));
        let actor = &mut self.actors[at];
        let went = match (rng.below(16), actor.mark.take()) {
            (0, _) => {
                let mark = actor.write.savepoint();
                actor.mark = Some((mark, actor.events.len(), actor.own.clone()));
                return Ok(());
            }
            (1, Some((mark, event_count, own))) => {
                actor.events.truncate(event_count);
                actor.own = own;
                let back = actor.write.rollback_to(mark);
                if back.is_err() {
                    // It is half way back: nothing but its end is left to it.
                    self.actors.swap_remove(at).write.rollback().or(back)?;
                    return Ok(());
                }
                back
            }
            (_, mark) => {
                actor.mark = mark;
                step(actor, rng).map(|event| {
                    let Some(event) = event else { return };
                    if let Some(own) = &mut actor.own {
                        let is_same = event.replay(own);
                        assert!(is_same, "seed {}: rule 1: {event:?}", self.seed);
                    }
                    actor.events.push(event);
                })
            }
        };
        match went {
            Err(error) if error.is_transient() => Ok(()),
            Err(StorageError::SnapshotTooOld { .. }) => {
                self.actors.swap_remove(at).write.rollback()
            }
            // Half of the users give up, and the others go on as if nothing had been.
            Err(error) if rng.below(2) == 0 => {
                self.excuse("a step", &error);
                self.actors.swap_remove(at).write.rollback()
            }
            went => went,
        }
    }
}

/// What goes wrong in a life, from now on.
fn plan(device: &TestDevice, rng: &mut Rng) -> (FaultPlan, bool) {
    let (now, flushes) = {
        let device = device.lock();
        (device.submitted_count(), device.submitted_flush_count())
    };
    let fates = [UnflushedFate::Dropped, UnflushedFate::Kept, UnflushedFate::Torn];
    let torn = nandu_base::to_u32(rng.below(5));
    let mut plan = FaultPlan {
        failure: if rng.below(4) == 0 { Failure::DamagesForEver } else { Failure::Damages },
        unflushed: fates[nandu_base::to_index(rng.below(3))],
        torn_sector_count: (torn > 0).then_some(torn),
        seed: rng.next_u64(),
        ..FaultPlan::default()
    };
    match rng.below(6) {
        0 => {}
        1 => plan.power_cut_at_request = Some(now + 1 + rng.below(300)),
        2 => plan.fail_flush = Some(flushes + 1 + rng.below(20)),
        3 => plan.fail_requests = vec![now + 1 + rng.below(300)],
        4 => plan.fail_requests = (0..6).map(|_| now + 1 + rng.below(300)).collect(),
        _ => plan.full_from_request = Some(now + 1 + rng.below(200)),
    }
    let is_full = plan.full_from_request.is_some();
    (plan, is_full)
}

fn settings_of(rng: &mut Rng) -> Settings {
    let propagation = match rng.below(4) {
        0 => PropagationKind::LogStructured.into(),
        1 => PropagationSettings::small(PropagationKind::PageDifferential, 512, rng.next_u64()),
        _ => PropagationKind::InPlace.into(),
    };
    let torn_pages = match rng.below(2) {
        0 => TornPages::LogImages,
        _ => TornPages::DoubleWrite,
    };
    let version_bytes = if rng.below(3) == 0 { 8 << 10 } else { 16 << 20 };
    Settings { propagation, torn_pages, version_bytes, checkpoint_bytes: 16 << 10, ..settings() }
}

fn try_to_open(
    device: &TestDevice,
    settings: &Settings,
) -> Result<(Database, RestartReport), StorageError> {
    device.lock().power_on();
    device.forget_completions();
    let data = Box::new(DeviceVolume::open(Box::new(device.clone()))?);
    Database::open(Volumes::new(data, None), settings)
}

/// Opens the database, perhaps after openings that fail; `None` if what cannot be read any more is told.
fn open_again(
    device: &TestDevice,
    settings: &Settings,
    rng: &mut Rng,
    counts: &mut Counts,
) -> Option<Database> {
    let mut planned = rng.below(3);
    loop {
        let plan = if planned > 0 { plan(device, rng).0 } else { FaultPlan::default() };
        let failed_before = device.lock().failed().request_count;
        let is_full = plan.full_from_request.is_some();
        device.lock().set_plan(plan);
        let error = match try_to_open(device, settings) {
            Ok((database, report)) => {
                counts.losers += report.loser_count;
                device.lock().set_plan(FaultPlan::default());
                return Some(database);
            }
            Err(error) => error,
        };
        if device.lock().unreadable_count() > 0 && planned == 0 {
            counts.damaged += 1;
            return None;
        }
        let came = device.lock().failed().request_count > failed_before;
        let is_dark = !device.lock().is_powered();
        let is_unreadable = device.lock().unreadable_count() > 0;
        assert!(came || is_dark || is_full || is_unreadable, "no fault at opening: {error}");
        counts.failed_openings += 1;
        planned = planned.saturating_sub(1);
    }
}

/// A life with a fault, or without. Gives what was committed last, and what is uncertain.
fn live(
    seed: u64,
    device: &TestDevice,
    database: &Database,
    committed: State,
    rng: &mut Rng,
    total: &mut Counts,
) -> (State, Vec<State>) {
    let (plan, is_full) = plan(device, rng);
    let failed_before = device.lock().failed().request_count;
    device.lock().set_plan(plan);
    let mut life = Life {
        seed,
        device: device.clone(),
        failed_before,
        is_full,
        database,
        committed,
        uncertain: Vec::new(),
        actors: Vec::new(),
        snapshots: Vec::new(),
        counts: *total,
        errors: Vec::new(),
    };
    life.live(rng);
    let is_dropped = rng.below(2) == 0;
    for actor in std::mem::take(&mut life.actors) {
        if is_dropped { drop(actor) } else { actor.write.abandon() }
    }
    *total = life.counts;
    (life.committed, life.uncertain)
}

fn history(seed: u64, total: &mut Counts) {
    let rng = &mut Rng::for_part(seed, "histories with faults");
    let (device, settings) = (device(), settings_of(rng));
    let mut database = create(&device, &settings);
    let mut committed = State::default();
    for _ in 0..4 {
        let (last, mut uncertain) = live(seed, &device, &database, committed, rng, total);
        drop(database);
        if rng.below(2) == 0 {
            device.lock().cut_power();
        }
        let Some(opened) = open_again(&device, &settings, rng, total) else { return };
        database = opened;
        let found = match state_of(&database.read()) {
            Ok(found) => found,
            Err(error) => {
                let is_told = device.lock().unreadable_count() > 0 && error.is_damage();
                assert!(is_told, "seed {seed}: {error}");
                total.damaged += 1;
                return;
            }
        };
        total.uncertain += nandu_base::to_u32(uncertain.len() as u64);
        if found != last {
            let is_one = uncertain.drain(..).any(|state| state == found);
            assert!(is_one, "seed {seed}: rule 3: {found:?} in place of {last:?}");
            total.brought += 1;
        }
        if device.lock().unreadable_count() == 0 {
            assert_eq!(database.read().check().unwrap().findings, [""; 0], "seed {seed}");
        }
        database.read().engine().audit();
        committed = found;
    }
}

#[test]
fn histories_hold_over_a_device_that_fails() {
    let count = std::env::var("NANDU_HISTORY_SEEDS").ok().and_then(|text| text.parse().ok());
    let first = std::env::var("NANDU_HISTORY_FIRST").ok().and_then(|text| text.parse().ok());
    let first: u64 = first.unwrap_or(0);
    let mut total = Counts::default();
    for seed in first..first + count.unwrap_or(SEED_COUNT) {
        history(seed, &mut total);
    }
    println!("{total:?}");
    let Counts { commits, seen, errors, uncertain, failed_openings, losers, .. } = total;
    assert!(commits > 300 && seen > 100 && errors > 100 && uncertain > 0, "{total:?}");
    assert!(failed_openings > 5 && losers > 100, "{total:?}");
}
