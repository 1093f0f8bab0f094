//! Terminals of TPC-C on one clock, over a database that loses its power: what was acknowledged has to be there
//! afterwards, all else whole or not at all, and the twelve conditions have to hold.
//!
//! ```text
//!   load ─► terminals, each a worker ─► cut, failure, end of the process, or closed
//!     ▲      what each is about to commit, and what was acknowledged      │
//!     └──── ledger, conditions, check, audit ◄── open ────────────────────┘
//! ```
//!
//! 1. Who runs when follows from the seed alone.
//! 2. Each transaction has a moment that no other one has, and writes it to the rows that it leaves.
//! 3. An error needs a reason: other transactions, or a fault that came in this life.

mod ledger;
#[cfg(test)]
mod tests;

use crate::crowd::Weather;
use crate::crowd::client::Came;
use crate::life::{End, Simulation, Stop, guarded};
use crate::{Bug, Outcome, Scenario, Violation, WorldKind};
use ledger::{Deed, Ending, Ledger, Left};
use nandu_base::{Nanos, Rng, to_index, to_u32};
use nandu_bench::BenchError;
use nandu_bench::tpcc::{Input, Terminal, TpccCounts, attempt, execute};
use nandu_load::tpcc::LOAD_MOMENT_US;
use nandu_load::{LoadError, LoadOptions, Tpcc, TpccScale};
use nandu_storage::database::Isolation;
use nandu_storage::{Database, StorageError};
use nandu_workers::{Schedule, SwitchKind, Work};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Less than TPC-C has, so that a database is made in no time and pages leave a small pool.
const SCALE: TpccScale = TpccScale { item_count: 100, customer_count: 10 };
/// Transactions of a terminal in one life, at most.
const TRANSACTION_COUNTS_MAX: [u64; 3] = [4, 12, 30];
/// How often a terminal tries one that others are in the way of.
const ATTEMPT_COUNT_MAX: u32 = 8;
/// Of so many transactions one is a checkpoint or a flush instead.
const SAVE_PERIOD: u64 = 40;
/// Most that a terminal waits between two transactions, in nanoseconds.
const PAUSE_NS_MAX: u64 = 60_000;

/// Runs the history of a seed with up to so many terminals at once, at least two.
///
/// # Errors
/// The first promise that is broken; a panic is one.
pub(crate) fn run_tpcc(
    seed: u64,
    world: WorldKind,
    bug: Bug,
    client_count_max: u32,
) -> Result<Outcome, Violation> {
    let scenario = Scenario::of_tpcc(seed, world, bug);
    guarded(seed, || {
        let _planted = scenario.plant()?;
        let mut rng = Rng::for_part(seed, "terminals");
        let tpcc = Tpcc::with_scale(scenario.warehouse_count, SCALE, seed);
        let tpcc = tpcc.map_err(|error| error.to_string())?;
        let lives = Lives {
            simulation: Simulation::new(&scenario),
            tpcc,
            client_count_max: client_count_max.max(2),
            transaction_count_max: TRANSACTION_COUNTS_MAX[to_index(rng.below(3))],
            core_count: [1, 2, 16][to_index(rng.below(3))],
            isolation: Isolation::ALL[to_index(rng.below(2))],
            moment: 0,
            ledger: Ledger::default(),
        };
        lives.run()
    })
}

struct Lives<'s> {
    simulation: Simulation<'s>,
    tpcc: Tpcc,
    client_count_max: u32,
    transaction_count_max: u64,
    core_count: u32,
    isolation: Isolation,
    /// The last moment that was used.
    moment: u64,
    ledger: Ledger,
}

/// What terminals share beside the database.
struct Scene {
    moment: AtomicU64,
    /// The process ends with this moment.
    dies_at: u64,
}

impl Scene {
    /// A moment of its own, in microseconds behind that of the rows that were loaded.
    fn next_moment(&self) -> i64 {
        let number = self.moment.fetch_add(1, Ordering::SeqCst) + 1;
        LOAD_MOMENT_US + number.cast_signed()
    }

    fn has_ended(&self) -> bool {
        self.moment.load(Ordering::SeqCst) >= self.dies_at
    }
}

/// What one terminal did.
#[derive(Default)]
struct Seen {
    deeds: Vec<Deed>,
    gave_way_count: u64,
    error_count: u64,
    has_failed: bool,
    has_died: bool,
}

/// A terminal at work.
struct Client {
    terminal: Terminal,
    rng: Rng,
    scene: Arc<Scene>,
    isolation: Isolation,
}

impl Client {
    /// Its transactions, to its end.
    fn work(mut self, database: &Database, weather: &Weather, count: u64) -> Seen {
        let mut seen = Seen::default();
        for _ in 0..count {
            if weather.is_over() || seen.has_failed || seen.has_died {
                break;
            }
            match self.transact(database, weather, &mut seen) {
                Came::Done => weather.promise(),
                Came::GaveWay => seen.gave_way_count += 1,
                Came::Failed(error) => {
                    seen.error_count += 1;
                    seen.has_failed = !weather.allows(&error, false);
                }
                Came::Stopped(error) => {
                    seen.error_count += 1;
                    weather.allows(&error, false);
                    seen.has_failed = true;
                }
                Came::Died => seen.has_died = true,
            }
        }
        seen
    }

    /// The next card of its deck, or something that makes commits durable.
    fn transact(&mut self, database: &Database, weather: &Weather, seen: &mut Seen) -> Came {
        let pause = Nanos(self.rng.below(PAUSE_NS_MAX));
        if let Some(now) = nandu_workers::now() {
            nandu_workers::sleep_until(now + pause);
        }
        if self.rng.below(SAVE_PERIOD) == 0 {
            let saved = match self.rng.below(2) {
                0 => database.checkpoint(),
                _ => database.flush(),
            };
            return saved.map_or_else(Came::Failed, |()| Came::Done);
        }
        let moment_us = self.scene.next_moment();
        let input = self.terminal.next_input(moment_us);
        if let Input::OrderStatus(_) | Input::StockLevel(_) = input {
            let looked = execute(database, self.isolation, &input, &mut TpccCounts::default());
            return looked.map_or_else(|error| Came::Failed(of_engine(error)), |_| Came::Done);
        }
        for _ in 0..ATTEMPT_COUNT_MAX {
            let came = self.change(database, (&input, moment_us), &mut seen.deeds);
            if !matches!(came, Came::GaveWay) || weather.is_over() {
                return came;
            }
            seen.gave_way_count += 1;
            nandu_workers::yield_now();
        }
        Came::GaveWay
    }

    /// Does a transaction once. Before the commit it is noted, and behind its answer, that it came.
    fn change(
        &self,
        database: &Database,
        (input, moment_us): (&Input, i64),
        deeds: &mut Vec<Deed>,
    ) -> Came {
        let mut write = match database.write_with(self.isolation) {
            Ok(write) => write,
            Err(error) => return by(error),
        };
        let output = attempt(&mut write, input).map_err(of_engine);
        if self.scene.has_ended() {
            write.abandon();
            return Came::Died;
        }
        let left = match output {
            Ok(output) => Left::by(input, &output),
            Err(error) => return write.rollback().map_or_else(Came::Stopped, |()| by(error)),
        };
        let Some(left) = left else {
            return write.rollback().map_or_else(Came::Stopped, |()| Came::Done);
        };
        deeds.push(Deed { moment_us, left, ending: Ending::Unknown });
        match write.commit() {
            Ok(()) => {
                deeds.last_mut().expect("it was pushed").ending = Ending::Committed;
                Came::Done
            }
            Err(error) => Came::Stopped(error),
        }
    }
}

/// How a transaction came out of which nothing is left, by this error.
fn by(error: StorageError) -> Came {
    if error.is_transient() { Came::GaveWay } else { Came::Failed(error) }
}

/// The error of the engine; there are no documents and traces here.
fn of_engine(error: BenchError) -> StorageError {
    match error {
        BenchError::Storage(error) => error,
        other => StorageError::Corrupt { place: "TPC-C".to_owned(), what: other.to_string() },
    }
}

impl Lives<'_> {
    fn run(mut self) -> Result<Outcome, String> {
        let ended = self.run_all();
        self.simulation.outcome_of(ended)
    }

    fn run_all(&mut self) -> Result<(), Stop> {
        let mut database = self.make().map_err(|error| format!("creation failed: {error}"))?;
        for life in 1..=self.simulation.scenario.life_count {
            let when = format!("in life {life}");
            self.simulation.plan_fault(life);
            database = self.live(database, true).map_err(|stop| stop.at(&when))?;
        }
        self.simulation.restore()?;
        self.live(database, false).map_err(|stop| stop.at("without faults"))?;
        Ok(())
    }

    /// A database with the tables of TPC-C.
    fn make(&mut self) -> Result<Database, LoadError> {
        let database = self.simulation.create()?;
        self.tpcc.store(&database, &LoadOptions::default(), &mut ())?;
        database.flush()?;
        self.ledger = Ledger::begin(&database.read())?;
        Ok(database)
    }

    /// One life, its end, and what the next opening finds.
    fn live(&mut self, database: Database, may_die: bool) -> Result<Database, Stop> {
        let rng = &mut self.simulation.rng;
        let client_count = to_u32(2 + rng.below(u64::from(self.client_count_max) - 1));
        let count = 1 + rng.below(self.transaction_count_max);
        let dies_at = match rng.below(4) {
            0 if may_die => self.moment + 1 + rng.below(u64::from(client_count) * count),
            _ => u64::MAX,
        };
        let closes = rng.below(2) == 0;
        let scene = Arc::new(Scene { moment: AtomicU64::new(self.moment), dies_at });
        let weather = self.simulation.weather();
        let seen = self.work(&database, &scene, &weather, (client_count, count));
        self.moment = scene.moment.load(Ordering::SeqCst);
        if let Some(what) = weather.take_broken() {
            return Err(Stop::Broken(what));
        }
        let (mut deeds, mut is_over) = (Vec::new(), weather.is_dark());
        for one in seen {
            is_over |= one.has_failed || one.has_died;
            self.simulation.outcome.conflict_count += one.gave_way_count;
            self.simulation.outcome.error_count += one.error_count;
            deeds.extend(one.deeds);
        }
        let end = if is_over || !closes { End::Died } else { End::Closed };
        let end = self.simulation.end(database, end)?;
        let database = self.simulation.reopen(&end).map_err(|stop| stop.at("afterwards"))?;
        self.compare(&database, deeds)?;
        Ok(database)
    }

    /// Has all terminals do their transactions.
    fn work(
        &mut self,
        database: &Database,
        scene: &Arc<Scene>,
        weather: &Weather,
        (client_count, count): (u32, u64),
    ) -> Vec<Seen> {
        let seed = self.simulation.rng.next_u64();
        let works = (0..client_count).map(|number| -> Work<Seen> {
            let terminal = Terminal::new(&self.tpcc, number, seed);
            let rng = Rng::new(self.simulation.rng.next_u64());
            let (scene, isolation) = (Arc::clone(scene), self.isolation);
            let client = Client { terminal, rng, scene, isolation };
            let (database, weather) = (database.clone(), weather.clone());
            Box::new(move || client.work(&database, &weather, count))
        });
        let works: Vec<_> = works.collect();
        let io = database.read().engine().data_io();
        let (cores, kind) = (self.core_count, SwitchKind::Coroutines);
        let schedule = Schedule { cores, start: io.now(), kind, ..Schedule::default() };
        let ran = schedule.run(works);
        io.pass_until(ran.end);
        ran.values
    }

    /// Whether what is found goes with what terminals were told, and is sound.
    fn compare(&mut self, database: &Database, deeds: Vec<Deed>) -> Result<(), Stop> {
        let tables = database.read();
        let simulation = &mut self.simulation;
        let acknowledged = |deed: &&Deed| deed.ending == Ending::Committed;
        simulation.outcome.commit_count += deeds.iter().filter(acknowledged).count() as u64;
        simulation.outcome.tpcc_count += deeds.len() as u64;
        let compared = self.ledger.compare(&tables, deeds);
        let wrong = compared.map_err(|error| simulation.judge("reading it", &error))?;
        if let Some(what) = wrong {
            return Err(match simulation.is_damage_told() {
                true => Stop::Told,
                false => Stop::Broken(what),
            });
        }
        simulation.check_soundness(&tables)
    }
}
