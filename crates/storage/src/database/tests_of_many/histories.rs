//! Random histories of many transactions, both isolations mixed, with savepoints, snapshots, checkpoints
//! and crashes in between.
//!
//! 1. A serializable transaction is replayed when it commits: everything that it saw and did must come
//!    out the same over what was committed before it.
//! 2. A transaction of isolation `snapshot` must see what was committed when it began, and its own changes.
//! 3. A snapshot must have the whole state of its moment, however long it lives.
//! 4. After a crash there is what was committed and nothing else.

use super::*;
use crate::propagation::{PropagationKind, PropagationSettings};
use nandu_base::Rng;
use proptest::prelude::{ProptestConfig, proptest};

/// What is in both tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pairs: BTreeMap<i64, String>,
    things: BTreeMap<i64, (i64, String)>,
}

/// Something that a transaction saw or did, with what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Got(i64, Option<String>),
    Ranged(i64, i64, Vec<(i64, String)>),
    Put(i64, String, bool),
    Deleted(i64, bool),
    Row(i64, Option<(i64, String)>),
    Indexed(i64, i64, Vec<i64>),
    Added(i64, i64, String),
    Changed(i64, i64, String),
    Removed(i64),
}

impl Event {
    /// Whether it comes out the same over `state`, which it changes.
    pub(super) fn replay(&self, state: &mut State) -> bool {
        let State { pairs, things } = state;
        match self {
            Self::Got(key, text) => pairs.get(key) == text.as_ref(),
            Self::Ranged(from, to, rows) => {
                let found = pairs.range(from..to).map(|(&key, text)| (key, text.clone()));
                found.eq(rows.iter().cloned())
            }
            Self::Put(key, text, was) => pairs.insert(*key, text.clone()).is_some() == *was,
            Self::Deleted(key, was) => pairs.remove(key).is_some() == *was,
            Self::Row(number, row) => things.get(number) == row.as_ref(),
            Self::Indexed(from, to, numbers) => {
                let mut found: Vec<(i64, i64)> = things
                    .iter()
                    .filter(|(_, (id, _))| (from..to).contains(&id))
                    .map(|(&number, &(id, _))| (id, number))
                    .collect();
                found.sort_unstable();
                found.into_iter().map(|(_, number)| number).eq(numbers.iter().copied())
            }
            Self::Added(number, id, text) => things.insert(*number, (*id, text.clone())).is_none(),
            Self::Changed(number, id, text) => {
                things.insert(*number, (*id, text.clone())).is_some()
            }
            Self::Removed(number) => things.remove(number).is_some(),
        }
    }

    pub(super) const fn is_change(&self) -> bool {
        !matches!(self, Self::Got(..) | Self::Ranged(..) | Self::Row(..) | Self::Indexed(..))
    }
}

/// A transaction under way.
pub(super) struct Actor<'d> {
    pub(super) write: WriteTransaction<'d>,
    pub(super) events: Vec<Event>,
    /// Of isolation `snapshot`, what it has to see.
    pub(super) own: Option<State>,
    pub(super) mark: Option<(crate::database::Mark, usize, Option<State>)>,
}

fn thing(record: RecordView<'_>) -> (i64, String) {
    (integer_of(record), text_of(record))
}

/// A step of a transaction, drawn; `None` where others were in the way or there was nothing to do.
pub(super) fn step(actor: &mut Actor<'_>, rng: &mut Rng) -> Result<Option<Event>, StorageError> {
    let write = &mut actor.write;
    let key = |rng: &mut Rng| rng.below(24).cast_signed();
    let text = |rng: &mut Rng| {
        let length = if rng.below(12) == 0 { 700 } else { rng.below(60) };
        format!("{}{}", rng.below(1000), "x".repeat(nandu_base::to_index(length)))
    };
    let (from, to) = (key(rng), key(rng));
    let (from, to) = (from.min(to), from.max(to) + 1);
    let number = 1 + rng.below(16).cast_signed();
    Ok(Some(match rng.below(12) {
        0 | 1 => Event::Got(from, get(write, from)?),
        2 => Event::Ranged(from, to, range(write, from, to)?),
        3 | 4 => {
            let text = text(rng);
            let was = put(write, from, &text)?;
            Event::Put(from, text, was)
        }
        5 => Event::Deleted(from, write.delete_by_key("pairs", &[ValueRef::Integer(from)])?),
        6 => Event::Row(number, write.get("things", number, thing)?),
        7 => {
            let bounds = ([ValueRef::Integer(from)], [ValueRef::Integer(to)]);
            let bounds = (Bound::Included(&bounds.0[..]), Bound::Excluded(&bounds.1[..]));
            let mut numbers = Vec::new();
            write.index_scan("things", "by_id", bounds, |number| {
                numbers.push(number);
                Flow::Continue(())
            })?;
            Event::Indexed(from, to, numbers)
        }
        8 | 9 => {
            let text = text(rng);
            let row = [ValueRef::Integer(from), ValueRef::Text(text.as_bytes())];
            let number = write.insert("things", &row)?;
            Event::Added(number, from, text)
        }
        10 => {
            let text = text(rng);
            let row = [ValueRef::Integer(from), ValueRef::Text(text.as_bytes())];
            match write.update("things", number, &row) {
                Ok(()) => Event::Changed(number, from, text),
                Err(StorageError::NotFound { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        _ => match write.delete("things", number) {
            Ok(()) => Event::Removed(number),
            Err(StorageError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        },
    }))
}

pub(super) fn state_of(tables: &Tables) -> Result<State, StorageError> {
    let mut state = State::default();
    tables.scan("pairs", |_, record| {
        state.pairs.insert(integer_of(record), text_of(record));
        Flow::Continue(())
    })?;
    tables.scan("things", |number, record| {
        state.things.insert(number, thing(record));
        Flow::Continue(())
    })?;
    Ok(state)
}

/// A history under way, from one opening to the next.
struct Life<'d> {
    seed: u64,
    database: &'d Database,
    committed: State,
    actors: Vec<Actor<'d>>,
    snapshots: Vec<(Snapshot, State)>,
    counts: Counts,
}

/// What happened, so that a test that tests nothing is found.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    seen: u32,
    too_old: u32,
    commits: u32,
    refused: u32,
}

impl Life<'_> {
    fn live(&mut self, rng: &mut Rng, step_count: u32) {
        for _ in 0..step_count {
            match rng.below(20) {
                0 | 1 if self.actors.len() < 6 => self.begin(rng),
                2 if self.snapshots.len() < 4 => {
                    self.snapshots.push((self.database.snapshot(), self.committed.clone()));
                }
                3 if !self.snapshots.is_empty() => self.look_back(rng),
                4 if rng.below(8) == 0 => self.database.checkpoint().unwrap(),
                5 if rng.below(8) == 0 => self.database.drop_cached_pages().unwrap(),
                6 | 7 if !self.actors.is_empty() => self.end(rng),
                _ if !self.actors.is_empty() => self.go_on(rng),
                _ => {}
            }
        }
    }

    fn begin(&mut self, rng: &mut Rng) {
        let isolation = Isolation::ALL[nandu_base::to_index(rng.below(2))];
        let write = self.database.write_with(isolation).unwrap();
        let own = (isolation == Isolation::Snapshot).then(|| self.committed.clone());
        self.actors.push(Actor { write, events: Vec::new(), own, mark: None });
    }

    /// Everybody ends in the middle; several may have changed something.
    fn cut_off(self) -> (State, Counts) {
        self.actors.into_iter().for_each(|actor| actor.write.abandon());
        (self.committed, self.counts)
    }

    /// Rule 3: a snapshot is as it was.
    fn look_back(&mut self, rng: &mut Rng) {
        let at = nandu_base::to_index(rng.below(self.snapshots.len() as u64));
        let (snapshot, expected) = self.snapshots.swap_remove(at);
        let seed = self.seed;
        let looked = state_of(&snapshot).and_then(|state| {
            assert_eq!(state, expected, "seed {seed}: rule 3");
            snapshot.check()
        });
        match looked {
            Ok(report) => {
                assert_eq!(report.findings, [""; 0], "seed {seed}");
                self.counts.seen += 1;
            }
            Err(StorageError::SnapshotTooOld { .. }) => self.counts.too_old += 1,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }

    /// Rule 1, or a rollback.
    fn end(&mut self, rng: &mut Rng) {
        let at = nandu_base::to_index(rng.below(self.actors.len() as u64));
        let Actor { write, events, .. } = self.actors.swap_remove(at);
        if rng.below(4) == 0 {
            return write.rollback().unwrap();
        }
        let is_serializable = write.isolation() == Isolation::Serializable;
        write.commit().unwrap();
        self.counts.commits += 1;
        for event in &events {
            if is_serializable || event.is_change() {
                let is_same = event.replay(&mut self.committed);
                assert!(is_same, "seed {}: rule 1: {event:?} of {events:?}", self.seed);
            }
        }
    }

    /// A step of a transaction, a savepoint, or the way back to one.
    fn go_on(&mut self, rng: &mut Rng) {
        let at = nandu_base::to_index(rng.below(self.actors.len() as u64));
        let actor = &mut self.actors[at];
        let went = match (rng.below(16), actor.mark.take()) {
            (0, _) => {
                let mark = actor.write.savepoint();
                actor.mark = Some((mark, actor.events.len(), actor.own.clone()));
                return;
            }
            (1, Some((mark, event_count, own))) => {
                // What was read in between was true all the same, but not of rows of its own.
                actor.events.truncate(event_count);
                actor.own = own;
                actor.write.rollback_to(mark)
            }
            (_, mark) => {
                actor.mark = mark;
                step(actor, rng).map(|event| {
                    let Some(event) = event else { return };
                    if let Some(own) = &mut actor.own {
                        let is_same = event.replay(own);
                        assert!(is_same, "seed {}: rule 2: {event:?}", self.seed);
                    }
                    actor.events.push(event);
                })
            }
        };
        match went {
            Ok(()) => {}
            Err(error) if error.is_transient() => self.counts.refused += 1,
            Err(StorageError::SnapshotTooOld { .. }) => {
                self.counts.too_old += 1;
                self.actors.swap_remove(at).write.rollback().unwrap();
            }
            Err(error) => panic!("seed {}: {error}", self.seed),
        }
    }
}

/// Runs a history; `version_bytes` may be too few for the snapshots.
fn history(seed: u64, step_count: u32, version_bytes: u64, propagation: PropagationKind) {
    let rng = &mut Rng::new(seed);
    let propagation = match propagation {
        // Small, so that it cleans.
        PropagationKind::PageDifferential => PropagationSettings::small(propagation, 512, seed),
        _ => propagation.into(),
    };
    let settings = Settings { version_bytes, propagation, ..settings() };
    let device = device();
    let mut database = create(&device, &settings);
    let (mut committed, mut counts) = (State::default(), Counts::default());
    for _ in 0..3 {
        let (actors, snapshots) = (Vec::new(), Vec::new());
        let mut life = Life { seed, database: &database, committed, actors, snapshots, counts };
        life.live(rng, step_count);
        (committed, counts) = life.cut_off();
        database.flush().unwrap();
        drop(database);
        database = open(&device, &settings).0;
        assert_eq!(state_of(&database.read()).unwrap(), committed, "seed {seed}: rule 4");
        assert_eq!(database.read().check().unwrap().findings, [""; 0], "seed {seed}");
        database.read().engine().audit();
    }
    let Counts { seen, commits, refused, .. } = counts;
    assert!(seen > 3 && commits > 20 && refused > 20, "seed {seed}: {counts:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 36, ..ProptestConfig::default() })]
    #[test]
    fn histories_hold_for_any_seed(seed: u64, kind in 0_usize..3, tight: bool) {
        let propagation = [
            PropagationKind::InPlace,
            PropagationKind::LogStructured,
            PropagationKind::PageDifferential,
        ][kind];
        history(seed, 600, if tight { 8 << 10 } else { 16 << 20 }, propagation);
    }
}
