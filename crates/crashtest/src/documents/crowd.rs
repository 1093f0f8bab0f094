//! Clients on one clock, all of them changing one document on a database that loses its power, each in its own
//! part: what is found afterwards has to go with what they were told.
//!
//! ```text
//!   open ─► clients, each a worker ─► cut, failure or closed ─► open ─► the parts, compared ─► check, audit
//! ```
//!
//! 1. Who runs when follows from the seed alone. Parts grow from some bytes to several containers, so at first
//!    clients meet in one of these, and later less.
//! 2. What a client does follows from its part: see `threads`.

use super::threads::{SurvivingDocument, Update, edits, number_of};
use super::tree::Element;
use super::{change_with, findings, of_engine, read};
use crate::crowd::Weather;
use crate::life::{End, Simulation, Stop, guarded};
use crate::{Bug, Outcome, Scenario, Violation, WorldKind};
use nandu_base::{Rng, to_index, to_u32};
use nandu_storage::database::Isolation;
use nandu_storage::{Database, StorageError};
use nandu_workers::{Schedule, SwitchKind, Work};
use nandu_xml::LockSettings;

/// Transactions of a client in one life, at most.
const TRANSACTION_COUNT_MAX: u64 = 12;
/// How often a client tries one that others are in the way of.
const ATTEMPT_COUNT_MAX: u32 = 8;

/// Runs the history of a seed with up to so many clients at once, at least two.
///
/// # Errors
/// The first promise that is broken; a panic is one.
pub(crate) fn run_document_crowd(
    seed: u64,
    world: WorldKind,
    bug: Bug,
    client_count_max: u32,
) -> Result<Outcome, Violation> {
    let scenario = Scenario::of_document_crowd(seed, world, bug);
    guarded(seed, || {
        let _planted = scenario.plant()?;
        let mut rng = Rng::for_part(seed, "document crowd");
        let client_count = to_u32(2 + rng.below(u64::from(client_count_max.max(2)) - 1));
        let core_count = [1, 2, 16][to_index(rng.below(3))];
        let locks = LockSettings {
            depth: [0, 2, 2, 3, 4, 9][to_index(rng.below(6))],
            escalate_at: [4, 30, 1024][to_index(rng.below(3))],
        };
        let isolation = Isolation::ALL[to_index(rng.below(2))];
        let apart = Apart { isolation, locks };
        let simulation = Simulation::new(&scenario);
        Lives { simulation, client_count, core_count, apart, document: None }.run()
    })
}

/// How clients are kept apart.
#[derive(Clone, Copy, Debug)]
struct Apart {
    isolation: Isolation,
    locks: LockSettings,
}

struct Lives<'s> {
    simulation: Simulation<'s>,
    client_count: u32,
    core_count: u32,
    apart: Apart,
    document: Option<SurvivingDocument>,
}

/// What one client did.
#[derive(Debug, Default)]
struct Seen {
    last: Option<Update>,
    commit_count: u64,
    gave_way_count: u64,
    edit_count: u64,
    error_count: u64,
    has_failed: bool,
}

/// Who a client is, and what its part of the document was when the life began.
#[derive(Clone)]
struct Client {
    seed: u64,
    number: u32,
    part: Element,
    count: u64,
    apart: Apart,
}

impl Client {
    /// Its transactions, to its end.
    fn work(mut self, database: &Database, weather: &Weather) -> Seen {
        let mut seen = Seen::default();
        for _ in 0..self.count {
            if weather.is_over() {
                break;
            }
            match self.transact(database, weather, &mut seen) {
                Ok(true) => weather.promise(),
                Ok(false) => {}
                Err(error) => {
                    seen.error_count += 1;
                    // What came of the last one is not known.
                    weather.allows(&error, false);
                    seen.has_failed = true;
                    break;
                }
            }
        }
        seen
    }

    /// One transaction. False if others were in the way too often.
    fn transact(
        &mut self,
        database: &Database,
        weather: &Weather,
        seen: &mut Seen,
    ) -> Result<bool, StorageError> {
        let damaged = |what: String| StorageError::Corrupt { place: "a document".to_owned(), what };
        let number = number_of(&self.part).map_err(damaged)? + 1;
        let edits = edits(self.seed, self.number, number, &self.part);
        for _ in 0..ATTEMPT_COUNT_MAX {
            let mut write = database.write_with(self.apart.isolation)?;
            let changed = change_with(&mut write, &edits, self.apart.locks).map_err(of_engine);
            match changed {
                Ok(()) => {}
                Err(error) if error.is_transient() && !weather.is_over() => {
                    write.rollback()?;
                    seen.gave_way_count += 1;
                    nandu_workers::yield_now();
                    continue;
                }
                Err(error) => return Err(error),
            }
            let told = |has_committed| Update::new(self.number, number, has_committed);
            seen.last = Some(told(false));
            write.commit()?;
            seen.last = Some(told(true));
            seen.commit_count += 1;
            seen.edit_count += edits.len() as u64;
            edits.iter().for_each(|edit| {
                self.part.apply(edit);
            });
            return Ok(true);
        }
        Ok(false)
    }
}

impl Lives<'_> {
    fn run(mut self) -> Result<Outcome, String> {
        let ended = self.run_all();
        self.simulation.outcome_of(ended)
    }

    fn run_all(&mut self) -> Result<(), Stop> {
        let (seed, client_count) = (self.simulation.scenario.seed, self.client_count);
        let made = self.simulation.create().and_then(|database| {
            self.document = Some(SurvivingDocument::begin(&database, seed, client_count)?);
            Ok(database)
        });
        let mut database = made.map_err(|error| format!("creation failed: {error}"))?;
        for life in 1..=self.simulation.scenario.life_count {
            let when = format!("in life {life}");
            self.simulation.plan_fault(life);
            database = self.live(database).map_err(|stop| stop.at(&when))?;
        }
        self.simulation.restore()?;
        self.live(database).map_err(|stop| stop.at("without faults"))?;
        Ok(())
    }

    /// One life, its end, and what the next opening finds.
    fn live(&mut self, database: Database) -> Result<Database, Stop> {
        let closes = self.simulation.rng.below(2) == 0;
        let count = 1 + self.simulation.rng.below(TRANSACTION_COUNT_MAX);
        let weather = self.simulation.weather();
        let seen = self.work(&database, &weather, count);
        if let Some(what) = weather.take_broken() {
            return Err(Stop::Broken(what));
        }
        let outcome = &mut self.simulation.outcome;
        for one in &seen {
            outcome.commit_count += one.commit_count;
            outcome.conflict_count += one.gave_way_count;
            outcome.error_count += one.error_count;
            outcome.document_change_count += one.edit_count;
        }
        let is_over = seen.iter().any(|one| one.has_failed) || weather.is_dark();
        let end = if is_over || !closes { End::Died } else { End::Closed };
        let end = self.simulation.end(database, end)?;
        let database = self.simulation.reopen(&end).map_err(|stop| stop.at("afterwards"))?;
        self.compare(&database, seen.into_iter().filter_map(|one| one.last))?;
        Ok(database)
    }

    /// Has all clients do their transactions.
    fn work(&mut self, database: &Database, weather: &Weather, count: u64) -> Vec<Seen> {
        let document = self.document.as_ref().expect("it was made");
        let (seed, apart) = (self.simulation.scenario.seed, self.apart);
        let works = document.parts().zip(0..).map(|(part, number)| -> Work<Seen> {
            let client = Client { seed, number, part: part.clone(), count, apart };
            let (database, weather) = (database.clone(), weather.clone());
            Box::new(move || client.work(&database, &weather))
        });
        let works: Vec<_> = works.collect();
        let io = database.read().engine().data_io();
        let (cores, kind) = (self.core_count, SwitchKind::Coroutines);
        let schedule = Schedule { cores, start: io.now(), kind, ..Schedule::default() };
        let ran = schedule.run(works);
        io.pass_until(ran.end);
        ran.values
    }

    /// Whether what is found goes with what clients were told, and is sound.
    fn compare(
        &mut self,
        database: &Database,
        updates: impl Iterator<Item = Update>,
    ) -> Result<(), Stop> {
        let tables = database.read();
        let simulation = &mut self.simulation;
        let found = read(&tables).map_err(of_engine);
        let found = found.map_err(|error| simulation.judge("reading it", &error))?;
        let document = self.document.as_mut().expect("it was made");
        document.take(&found, updates)?;
        let wrong = findings(&tables).map_err(of_engine);
        let wrong = wrong.map_err(|error| simulation.judge("the check of the document", &error))?;
        if let Some(finding) = wrong.first() {
            return Err(match simulation.is_damage_told() {
                true => Stop::Told,
                false => Stop::Broken(format!("the check of the document found: {finding}")),
            });
        }
        simulation.check_soundness(&tables)
    }
}
