//! Many clients on one database that loses its power: what they saw has to allow an order of moments
//! ([`moments`]), and what was promised has to be there afterwards.
//!
//! ```text
//!   open ─► clients, each a worker on one clock ─► cut, failure, end of the process, or closed
//!     ▲         what each transaction did and saw               │
//!     └──── compare with what is found, check, audit ◄── open ──┘
//! ```
//!
//! 1. Who runs when follows from the seed alone.
//! 2. An error needs a reason: other transactions, or a fault that came in this life.

pub(crate) mod client;
pub(crate) mod moments;
mod passing;
#[cfg(test)]
mod tests;
pub(crate) mod threads;

use crate::life::{End, Simulation, Stop, guarded};
use crate::scenario::Crowd;
use crate::world::WorldDevice;
use crate::{Bug, Outcome, Scenario, Violation, WorldKind};
use client::{Came, Client, Scene};
use moments::{Contents, Deed, Found};
use nandu_base::{Rng, to_index};
use nandu_device::TimeSource;
use nandu_storage::{Database, StorageError};
use nandu_workers::{Schedule, SwitchKind, Work};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Runs the history of a seed with up to so many clients at once, at least two.
///
/// # Errors
/// The first promise that is broken; a panic is one.
pub fn run_crowd(
    seed: u64,
    world: WorldKind,
    bug: Bug,
    client_count_max: u32,
) -> Result<Outcome, Violation> {
    run_switched(seed, world, bug, client_count_max, SwitchKind::Coroutines)
}

/// As [`run_crowd`], by the given way to switch between clients.
fn run_switched(
    seed: u64,
    world: WorldKind,
    bug: Bug,
    client_count_max: u32,
    kind: SwitchKind,
) -> Result<Outcome, Violation> {
    let scenario = Scenario::of_crowd(seed, world, bug);
    guarded(seed, || {
        let _planted = scenario.plant()?;
        let crowd = Crowd::of_seed(&scenario, client_count_max);
        let simulation = Simulation::new(&scenario);
        let contents = Contents::default();
        Lives { simulation, crowd, kind, contents, element: 0 }.run()
    })
}

/// A database, and those who use it at once.
struct Lives<'s> {
    simulation: Simulation<'s>,
    crowd: Crowd,
    kind: SwitchKind,
    /// What was found at the last opening.
    contents: Contents,
    /// The last element that was used.
    element: u64,
}

/// What clients know of faults.
#[derive(Clone)]
pub(crate) struct Weather {
    devices: Vec<WorldDevice>,
    blackout: Arc<AtomicBool>,
    /// Requests that had failed when the life began.
    failed_before: u64,
    /// The power goes once so many commits more were acknowledged; 0 for never.
    promises_until_cut: Arc<AtomicU64>,
    /// The first error without a reason.
    broken: Arc<Mutex<Option<String>>>,
}

impl Weather {
    pub(crate) fn is_dark(&self) -> bool {
        self.blackout.load(Ordering::Relaxed)
    }

    fn fault_came(&self) -> bool {
        let failed = |device: &WorldDevice| device.lock().ground().failed().request_count;
        self.is_dark() || self.devices.iter().map(failed).sum::<u64>() > self.failed_before
    }

    /// Whether nothing more can come of what clients do.
    pub(crate) fn is_over(&self) -> bool {
        self.is_dark() || self.broken().is_some()
    }

    /// The first error without a reason.
    pub(crate) fn take_broken(&self) -> Option<String> {
        self.broken().take()
    }

    /// A commit was acknowledged, perhaps the last before the power goes.
    pub(crate) fn promise(&self) {
        let left = self.promises_until_cut.load(Ordering::Relaxed);
        if left > 0 {
            self.promises_until_cut.store(left - 1, Ordering::Relaxed);
        }
        if left == 1 {
            self.devices.iter().for_each(|device| device.lock().ground().cut_power());
            self.blackout.store(true, Ordering::Relaxed);
        }
    }

    fn broken(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a client may go on after this error.
    pub(crate) fn allows(&self, error: &StorageError, may_be_too_old: bool) -> bool {
        match error {
            StorageError::SnapshotTooOld { .. } if may_be_too_old => true,
            _ if self.fault_came() => !self.is_dark(),
            error => {
                self.broken().get_or_insert_with(|| format!("failed without a fault: {error}"));
                false
            }
        }
    }
}

/// What one client did.
#[derive(Debug, Default)]
struct Seen {
    deeds: Vec<Deed>,
    gave_way_count: u64,
    error_count: u64,
    /// Whether something stopped it before its time.
    has_failed: bool,
    has_died: bool,
}

impl Seen {
    /// The first time a transaction is told before its commit, the second time after it.
    fn note(&mut self, deed: &Deed) {
        match self.deeds.last_mut().filter(|last| last.began == deed.began) {
            Some(last) => last.ending = deed.ending,
            None => self.deeds.push(deed.clone()),
        }
    }
}

/// A client's transactions, to its end.
fn work(
    database: &Database,
    scene: &Scene,
    weather: &Weather,
    rng: Rng,
    count: u64,
    may_be_too_old: bool,
) -> Seen {
    let mut seen = Seen::default();
    let mut client = Client { scene, rng };
    for _ in 0..count {
        if weather.broken().is_some() {
            break;
        }
        let came = client.transact(database, &mut |deed| seen.note(deed));
        match came {
            Came::Done => weather.promise(),
            Came::GaveWay => seen.gave_way_count += 1,
            Came::Failed(error) => {
                seen.error_count += 1;
                if !weather.allows(&error, may_be_too_old) {
                    seen.has_failed = true;
                    break;
                }
            }
            Came::Stopped(error) => {
                seen.error_count += 1;
                weather.allows(&error, false);
                seen.has_failed = true;
                break;
            }
            Came::Died => {
                seen.has_died = true;
                break;
            }
        }
    }
    seen
}

impl Lives<'_> {
    fn run(mut self) -> Result<Outcome, String> {
        let ended = self.run_all();
        self.simulation.outcome_of(ended)
    }

    fn run_all(&mut self) -> Result<(), Stop> {
        let made = self.simulation.create();
        let database = made.and_then(|database| {
            client::create_tables(&database)?;
            database.flush()?;
            Ok(database)
        });
        let mut database = database.map_err(|error| format!("creation failed: {error}"))?;
        for life in 1..=self.simulation.scenario.life_count {
            let when = format!("in life {life}");
            self.simulation.plan_fault(life);
            database = self.live(database).map_err(|stop| stop.at(&when))?;
        }
        self.simulation.restore()?;
        let database = self.live(database).map_err(|stop| stop.at("without faults"))?;
        drop(database);
        Ok(())
    }

    /// One life, its end, and what the next opening finds.
    fn live(&mut self, database: Database) -> Result<Database, Stop> {
        let rng = &mut self.simulation.rng;
        let client_count = 2 + rng.below(u64::from(self.crowd.client_count_max) - 1);
        let count = 1 + rng.below(self.crowd.transaction_count_max);
        let dies_at = match rng.below(4) {
            0 => 1 + rng.below(client_count * count),
            _ => u64::MAX,
        };
        let closes = rng.below(2) == 0;
        let scene = Arc::new(Scene::new(self.crowd.mix, self.element, dies_at));
        let weather = self.simulation.weather();
        let seen = self.work(&database, &scene, &weather, client_count, count);
        self.element = scene.last_element();
        if let Some(what) = weather.take_broken() {
            return Err(Stop::Broken(what));
        }
        let mut deeds: Vec<Deed> = Vec::new();
        let (mut has_failed, mut has_died) = (false, false);
        for one in seen {
            has_failed |= one.has_failed;
            has_died |= one.has_died;
            self.simulation.outcome.conflict_count += one.gave_way_count;
            self.simulation.outcome.error_count += one.error_count;
            deeds.extend(one.deeds);
        }
        let is_over = has_failed || has_died || weather.is_dark();
        let end = if is_over || !closes { End::Died } else { End::Closed };
        let end = self.simulation.end(database, end)?;
        let durable_before = match end {
            End::Closed => u64::MAX,
            End::Died | End::Crashed => scene.durable_before(),
        };
        let database = self.simulation.reopen(&end).map_err(|stop| stop.at("afterwards"))?;
        self.compare(&database, &deeds, durable_before)?;
        Ok(database)
    }

    /// Has all clients do their transactions.
    fn work(
        &mut self,
        database: &Database,
        scene: &Arc<Scene>,
        weather: &Weather,
        client_count: u64,
        count: u64,
    ) -> Vec<Seen> {
        let io = database.read().engine().data_io();
        assert_eq!(io.time_source(), TimeSource::Virtual, "the devices are simulated");
        let may_be_too_old = self.crowd.may_be_too_old;
        let works = (0..client_count).map(|_| -> Work<Seen> {
            let (database, scene, weather) = (database.clone(), Arc::clone(scene), weather.clone());
            let rng = Rng::new(self.simulation.rng.next_u64());
            Box::new(move || work(&database, &scene, &weather, rng, count, may_be_too_old))
        });
        let works: Vec<_> = works.collect();
        let (cores, kind) = (self.crowd.core_count, self.kind);
        let schedule = Schedule { cores, start: io.now(), kind, ..Schedule::default() };
        let ran = schedule.run(works);
        io.pass_until(ran.end);
        ran.values
    }

    /// Whether all clients saw can be so, with what is found now; and whether that is sound.
    fn compare(
        &mut self,
        database: &Database,
        deeds: &[Deed],
        durable_before: u64,
    ) -> Result<(), Stop> {
        let tables = database.read();
        let contents = client::contents(&tables)
            .map_err(|error| self.simulation.judge("reading it", &error))?;
        let found = Found { contents: contents.clone(), durable_before };
        let told = moments::check(&self.contents, deeds, &found)?;
        self.simulation.outcome.commit_count += told.committed_count;
        self.simulation.outcome.deed_count += deeds.len() as u64;
        self.simulation.outcome.lost_count += told.lost_count;
        self.contents = contents;
        self.simulation.check_soundness(&tables)
    }
}

/// How many clients there are at most, if nobody says.
pub const CLIENT_COUNT_MAX: u32 = 16;

impl Crowd {
    fn of_seed(scenario: &Scenario, client_count_max: u32) -> Self {
        let mut rng = Rng::for_part(scenario.seed, "crowd");
        let mut one_of = |choices: &[u64]| choices[to_index(rng.below(choices.len() as u64))];
        let isolation = match one_of(&[0, 1, 2, 2]) {
            2 => None,
            at => Some(nandu_storage::database::Isolation::ALL[to_index(at)]),
        };
        let mix = client::Mix {
            step_count_max: one_of(&[2, 4, 8]),
            value_bytes_max: scenario.value_bytes_max.min(one_of(&[0, 100, 300])),
            rolls_back: scenario.rolls_back,
            changes_catalog: scenario.changes_catalog,
            has_bags: scenario.has_heap,
            isolation,
            is_durable: scenario.settings.durability == nandu_storage::log::Durability::EveryCommit,
        };
        Self {
            client_count_max: client_count_max.max(2),
            core_count: nandu_base::to_u32(one_of(&[1, 2, 16])),
            transaction_count_max: one_of(&[4, 12, 30]),
            may_be_too_old: scenario.settings.version_bytes
                < nandu_storage::Settings::default().version_bytes,
            mix,
        }
    }
}

impl Simulation<'_> {
    pub(crate) fn weather(&mut self) -> Weather {
        Weather {
            devices: self.devices().cloned().collect(),
            blackout: Arc::clone(&self.blackout),
            failed_before: self.failed_before,
            promises_until_cut: Arc::new(AtomicU64::new(
                self.promises_until_cut.take().unwrap_or(0),
            )),
            broken: Arc::default(),
        }
    }
}
