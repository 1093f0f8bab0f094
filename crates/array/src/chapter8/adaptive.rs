//! A layout for each object, chosen anew as the load shifts: what S000 section 8.6 proposes.
//!
//! ```text
//!   observe ─► rates, times, workers of each object ─► what if? ─► target layout of an object
//!     ▲                                               short runs      │
//!     └── writes take the target at once, a migration takes the rest ◄┘ under a bandwidth cap
//! ```
//!
//! 1. A block has one layout at any time: its object's target, or the one that it was written with.
//! 2. The chooser knows what has ended since it last looked and nothing of the phases to come. How
//!    many workers there are it takes from Little's law.
//! 3. An object's target changes only if a short run of the observed load promises more than the
//!    least gain, and only while the object is not being migrated.
//! 4. A migration reads and writes one block at a time, at even intervals, beside requests.

use super::{
    EpochTally, Load, Member, SLOT_COUNT, Scenario, Server, ServiceTimes, Worker, choose, pack,
    read, write,
};
use crate::{ArrayError, Layout};
use nandu_base::{Nanos, Rng, to_index, to_u32};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Rounds over all objects in which a chooser improves their layouts one by one.
const ROUND_COUNT: usize = 2;

/// Objects on one array under a load that shifts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShiftingLoad {
    /// What each member is.
    pub member: Member,
    /// How many members there are, 1 to 16.
    pub member_count: u8,
    /// Bytes of a virtual block.
    pub block_bytes: u32,
    /// Blocks of each object, 1 or more.
    pub object_block_count: u32,
    /// The phases in the order in which they happen.
    pub phases: Vec<Phase>,
}

/// Some time under one load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// How long the phase lasts.
    pub duration: Nanos,
    /// The workers of each object; every phase has the same number of objects.
    pub loads: Vec<Load>,
}

/// How layouts are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutPolicy {
    /// One layout for all objects, which never changes.
    Static(Layout),
    /// A layout for each object, chosen by its load.
    Adaptive(Chooser),
}

/// How a layout is chosen by load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chooser {
    /// The layout of all objects in the beginning.
    pub first: Layout,
    /// How long is observed before a choice.
    pub observe: Nanos,
    /// Length of the runs that compare layouts.
    pub what_if: Nanos,
    /// The least gain for which an object is migrated.
    pub gain_ppm: u32,
    /// Bandwidth of a migration, in bytes of blocks.
    pub migration_bytes_per_second: u64,
}

/// What a phase comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseSummary {
    /// Requests of the whole phase.
    pub request_count: u64,
    /// Requests of its second half, when layouts had time to follow.
    pub steady_request_count: u64,
    /// Blocks that were migrated.
    pub migrated_block_count: u64,
    /// The target of each object at the end.
    pub layouts: Vec<Layout>,
}

impl ShiftingLoad {
    /// Runs it under `policy`; depends on both and `seed` only.
    ///
    /// # Errors
    /// As [`ShiftingLoad::check`].
    pub fn run(&self, policy: LayoutPolicy, seed: u64) -> Result<Vec<PhaseSummary>, ArrayError> {
        self.check(policy)?;
        let first = match policy {
            LayoutPolicy::Static(layout) => layout,
            LayoutPolicy::Adaptive(chooser) => chooser.first,
        };
        let object_count = self.phases[0].loads.len();
        let mut engine = Engine::new(self, &vec![first; object_count], seed)?;
        let mut summaries = Vec::new();
        for phase in &self.phases {
            engine.begin(&phase.loads, seed);
            let start = engine.now;
            let (middle, end) = (start + phase.duration.0 / 2, start + phase.duration.0);
            let (counted, migrated) = (engine.request_count, engine.migrated_block_count);
            engine.run_observed(middle, policy, seed)?;
            let at_middle = engine.request_count;
            engine.run_observed(end, policy, seed)?;
            summaries.push(PhaseSummary {
                request_count: engine.request_count - counted,
                steady_request_count: engine.request_count - at_middle,
                migrated_block_count: engine.migrated_block_count - migrated,
                layouts: engine
                    .targets
                    .iter()
                    .map(|&target| engine.layouts[target].layout)
                    .collect(),
            });
            engine.audit();
        }
        Ok(summaries)
    }

    /// Checks the values.
    ///
    /// # Errors
    /// [`ArrayError`] names the value that is out of range.
    pub fn check(&self, policy: LayoutPolicy) -> Result<(), ArrayError> {
        let refuse = |name, what: &str| Err(ArrayError::Value { name, what: what.into() });
        let object_count = self.phases.first().map_or(0, |phase| phase.loads.len());
        if object_count == 0 || self.phases.iter().any(|phase| phase.loads.len() != object_count) {
            return refuse("loads", "must name the same objects in each phase, one or more");
        }
        let block_count = u64::from(self.object_block_count) * object_count as u64;
        if block_count == 0 || block_count > u64::from(super::BLOCK_COUNT_MAX) {
            return refuse("object_block_count", "must give 1 to 16777216 blocks in all");
        }
        let first = match policy {
            LayoutPolicy::Static(layout) => layout,
            LayoutPolicy::Adaptive(chooser) => {
                if chooser.observe == Nanos::ZERO || chooser.what_if == Nanos::ZERO {
                    return refuse("observe", "and `what_if` must be above 0");
                }
                if chooser.migration_bytes_per_second == 0 {
                    return refuse("migration_bytes_per_second", "must be above 0");
                }
                chooser.first
            }
        };
        if first.member_count() != self.member_count {
            return refuse("member_count", "must be that of the layout");
        }
        super::check_member_count(first)?;
        let loads = self.phases.iter().flat_map(|phase| &phase.loads);
        loads.filter(|load| !load.is_idle()).try_for_each(Load::check)?;
        self.member.service_times(first, self.block_bytes).map(|_| ())
    }
}

/// A layout with what it costs.
struct Priced {
    layout: Layout,
    scenario: Scenario,
    times: ServiceTimes,
}

impl Priced {
    /// Reads a block at `place`; says when it is there.
    fn read(&self, servers: &mut [Server; SLOT_COUNT], place: u64, now: u64, rng: &mut Rng) -> u64 {
        let members = choose(&self.scenario, servers, place, now, rng);
        let needed = usize::from(self.layout.needed_count());
        read(&self.times, servers, &members[..needed], now)
    }
}

struct Engine<'a> {
    shifting: &'a ShiftingLoad,
    /// All layouts of so many members.
    layouts: Vec<Priced>,
    servers: [Server; SLOT_COUNT],
    workers: Vec<(Worker, usize)>,
    queue: BinaryHeap<Reverse<(u64, u32)>>,
    /// The members of each block, object by object.
    places: Vec<u64>,
    /// The layout of each block.
    block_layouts: Vec<u8>,
    /// The layout of each object.
    targets: Vec<usize>,
    /// The block of each object that a migration comes to next.
    cursors: Vec<Option<u32>>,
    next_migration_at: u64,
    /// What ended since the chooser looked, by object.
    observed: Vec<EpochTally>,
    observed_since: u64,
    now: u64,
    request_count: u64,
    migrated_block_count: u64,
}

impl<'a> Engine<'a> {
    fn new(shifting: &'a ShiftingLoad, targets: &[Layout], seed: u64) -> Result<Self, ArrayError> {
        let load = shifting.phases[0].loads[0];
        let priced = |layout| {
            let scenario = Scenario::of_thesis(layout, shifting.member, load);
            let times = shifting.member.service_times(layout, shifting.block_bytes)?;
            Ok(Priced { layout, scenario, times })
        };
        let layouts: Result<Vec<Priced>, ArrayError> =
            Layout::all(shifting.member_count).map(priced).collect();
        let layouts = layouts?;
        let position = |layout: &Layout| {
            let found = layouts.iter().position(|priced| priced.layout == *layout);
            found.expect("every layout of so many members is there")
        };
        let targets: Vec<usize> = targets.iter().map(position).collect();
        let per_object = shifting.object_block_count;
        let place = |block: u64| {
            let mut members = [0; SLOT_COUNT];
            layouts[0].layout.place(seed, block, &mut members);
            pack(&members)
        };
        let blocks = u64::from(per_object) * targets.len() as u64;
        let own = |&target: &usize| std::iter::repeat_n(small(target), per_object as usize);
        Ok(Self {
            shifting,
            servers: [Server::default(); SLOT_COUNT],
            workers: Vec::new(),
            queue: BinaryHeap::new(),
            places: (0..blocks).map(place).collect(),
            block_layouts: targets.iter().flat_map(own).collect(),
            cursors: vec![None; targets.len()],
            next_migration_at: 0,
            observed: vec![EpochTally::default(); targets.len()],
            observed_since: 0,
            now: 0,
            request_count: 0,
            migrated_block_count: 0,
            targets,
            layouts,
        })
    }

    /// The workers of `loads` come in place of those before, whose requests end by themselves.
    fn begin(&mut self, loads: &[Load], seed: u64) {
        self.workers.clear();
        self.queue.clear();
        for (object, load) in loads.iter().enumerate() {
            for number in 0..load.reader_count + load.writer_count {
                let reads = number < load.reader_count;
                let base = if reads { load.read_think_base } else { load.write_think_base };
                let mut rng = Rng::for_part(seed, &format!("object {object} worker {number}"));
                let phase = rng.below(base.0 * 3 / 2 + 1);
                let index = to_u32(self.workers.len() as u64);
                self.workers.push((Worker { rng, reads, think_base_ns: base.0 }, object));
                self.queue.push(Reverse((self.now + phase, index)));
            }
        }
    }

    fn run_observed(
        &mut self,
        end: u64,
        policy: LayoutPolicy,
        seed: u64,
    ) -> Result<(), ArrayError> {
        let LayoutPolicy::Adaptive(chooser) = policy else {
            self.run_until(end, 0);
            return Ok(());
        };
        let bytes = u64::from(self.shifting.block_bytes);
        let interval = Nanos::of_transfer(bytes, chooser.migration_bytes_per_second).0;
        while self.now < end {
            let look_at = self.observed_since + chooser.observe.0;
            self.run_until(look_at.min(end), interval);
            if self.now >= look_at {
                self.choose(&chooser, seed)?;
                self.observed.fill(EpochTally::default());
                self.observed_since = self.now;
            }
        }
        Ok(())
    }

    fn run_until(&mut self, end: u64, migration_interval: u64) {
        loop {
            let issue = self.queue.peek().map_or(u64::MAX, |Reverse((time, _))| *time);
            let is_migrating = self.cursors.iter().any(Option::is_some);
            let migrate = if is_migrating { self.next_migration_at } else { u64::MAX };
            if issue.min(migrate) >= end {
                self.now = end;
                return;
            }
            if migrate < issue {
                self.migrate(migrate);
                self.next_migration_at = migrate + migration_interval;
            } else {
                self.issue();
            }
        }
    }

    fn issue(&mut self) {
        let mut next = self.queue.peek_mut().expect("somebody issues now");
        let Reverse((now, number)) = *next;
        let (worker, object) = &mut self.workers[number as usize];
        let per_object = u64::from(self.shifting.object_block_count);
        let block = to_index(*object as u64 * per_object + worker.rng.below(per_object));
        let place = &mut self.places[block];
        let servers = &mut self.servers;
        let done = if worker.reads {
            let priced = &self.layouts[usize::from(self.block_layouts[block])];
            priced.read(servers, *place, now, &mut worker.rng)
        } else {
            let target = self.targets[*object];
            self.block_layouts[block] = small(target);
            let priced = &self.layouts[target];
            write(&priced.scenario, &priced.times, servers, place, now)
        };
        let base = worker.think_base_ns;
        let think = base - base / 4 + worker.rng.below(base / 4 + base / 2 + 1);
        *next = Reverse((done + think, number));
        self.observed[*object].count(worker.reads, done - now, think);
        self.request_count += 1;
    }

    /// Migrates the next block that has not the layout of its object.
    fn migrate(&mut self, now: u64) {
        let per_object = self.shifting.object_block_count;
        for object in 0..self.cursors.len() {
            while let Some(cursor) = self.cursors[object] {
                self.cursors[object] = Some(cursor + 1).filter(|next| *next < per_object);
                let block = object * per_object as usize + cursor as usize;
                let target = self.targets[object];
                let old =
                    usize::from(std::mem::replace(&mut self.block_layouts[block], small(target)));
                if old == target {
                    continue;
                }
                let (place, servers) = (&mut self.places[block], &mut self.servers);
                // No choice of replicas here is random, so this stream is never drawn from.
                let mut rng = Rng::new(0);
                let (old, new) = (&self.layouts[old], &self.layouts[target]);
                old.read(servers, *place, now, &mut rng);
                write(&new.scenario, &new.times, servers, place, now);
                self.migrated_block_count += 1;
                return;
            }
        }
    }

    /// Gives objects other targets where that promises enough.
    fn choose(&mut self, chooser: &Chooser, seed: u64) -> Result<(), ArrayError> {
        let window = Nanos(self.now - self.observed_since);
        let loads: Vec<Load> = self.observed.iter().map(|seen| seen.load(window)).collect();
        if loads.iter().all(Load::is_idle) {
            return Ok(());
        }
        let phases = vec![Phase { duration: chooser.what_if, loads }];
        let question = ShiftingLoad { phases, ..self.shifting.clone() };
        let promise = |targets: &[usize]| -> Result<u64, ArrayError> {
            let layouts: Vec<Layout> =
                targets.iter().map(|&target| self.layouts[target].layout).collect();
            let mut engine = Engine::new(&question, &layouts, seed)?;
            engine.begin(&question.phases[0].loads, seed);
            engine.run_until(chooser.what_if.0, 0);
            Ok(engine.request_count)
        };
        let mut best = self.targets.clone();
        let mut best_promise = promise(&best)?;
        let least = |promise: u64| promise + promise * u64::from(chooser.gain_ppm) / 1_000_000;
        for _ in 0..ROUND_COUNT {
            for object in 0..best.len() {
                if self.cursors[object].is_some() {
                    continue;
                }
                let kept = best[object];
                let (mut choice, mut choice_promise) = (kept, best_promise);
                for other in (0..self.layouts.len()).filter(|other| *other != kept) {
                    best[object] = other;
                    let promised = promise(&best)?;
                    if promised > choice_promise && promised >= least(best_promise) {
                        (choice, choice_promise) = (other, promised);
                    }
                }
                (best[object], best_promise) = (choice, choice_promise);
            }
        }
        for (object, target) in best.into_iter().enumerate() {
            if target != self.targets[object] {
                self.targets[object] = target;
                self.cursors[object] = Some(0);
            }
        }
        self.next_migration_at = self.next_migration_at.max(self.now);
        Ok(())
    }

    /// Checks invariant 1 where nothing is being migrated.
    fn audit(&self) {
        let per_object = self.shifting.object_block_count as usize;
        let objects = self.block_layouts.chunks(per_object).zip(&self.targets).zip(&self.cursors);
        for ((blocks, &target), cursor) in objects {
            let done = cursor.map_or(per_object, |cursor| cursor as usize);
            assert!(blocks[..done].iter().all(|layout| usize::from(*layout) == target));
        }
    }
}

/// An index of a layout in a byte: there are at most 136.
fn small(layout: usize) -> u8 {
    u8::try_from(layout).expect("sixteen members have 136 layouts")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StandardLayout;
    use crate::chapter8::DelayReading;

    const IDLE: Load = Load {
        reader_count: 0,
        writer_count: 0,
        read_think_base: Nanos::ZERO,
        write_think_base: Nanos::ZERO,
    };

    fn shifting(phases: &[&[Load]]) -> ShiftingLoad {
        let duration = Nanos::from_millis(3500);
        let phases = phases.iter().map(|loads| Phase { duration, loads: loads.to_vec() });
        ShiftingLoad {
            member: Member::thesis_chip(),
            member_count: 4,
            block_bytes: 2048,
            object_block_count: 512,
            phases: phases.collect(),
        }
    }

    fn adaptive() -> LayoutPolicy {
        LayoutPolicy::Adaptive(Chooser {
            first: StandardLayout::OneCopy.on(4).unwrap(),
            observe: Nanos::from_millis(250),
            what_if: Nanos::from_millis(50),
            gain_ppm: 10_000,
            migration_bytes_per_second: 2_000_000,
        })
    }

    /// Adaptive over the best static layout, in the steady half of each phase, and in all.
    fn against_static(load: &ShiftingLoad) -> (Vec<f64>, f64) {
        let ours = load.run(adaptive(), 1).unwrap();
        let others: Vec<Vec<PhaseSummary>> = Layout::all(4)
            .map(|layout| load.run(LayoutPolicy::Static(layout), 1).unwrap())
            .collect();
        let steady = ours.iter().enumerate().map(|(phase, summary)| {
            let best = others.iter().map(|other| other[phase].steady_request_count).max().unwrap();
            summary.steady_request_count as f64 / best as f64
        });
        let total = |run: &[PhaseSummary]| run.iter().map(|phase| phase.request_count).sum::<u64>();
        let best = others.iter().map(|other| total(other)).max().unwrap();
        (steady.collect(), total(&ours) as f64 / best as f64)
    }

    #[test]
    fn a_layout_that_follows_the_load_beats_every_fixed_one() {
        let writes = Load::write_heavy(DelayReading::Calibrated);
        let reads = Load::read_heavy(DelayReading::Calibrated);
        let load = shifting(&[&[writes], &[reads], &[writes], &[reads]]);
        let (steady, total) = against_static(&load);
        assert!(steady.iter().all(|share| *share >= 0.95), "{steady:?}");
        assert!(total > 1.0, "{total}");
    }

    #[test]
    fn objects_of_different_loads_have_different_layouts() {
        let writes = Load::write_heavy(DelayReading::Calibrated);
        let reads = Load::read_heavy(DelayReading::Calibrated);
        let load = shifting(&[&[writes, reads], &[reads, writes]]);
        let (steady, total) = against_static(&load);
        assert!(steady.iter().all(|share| *share >= 0.95), "{steady:?}");
        assert!(total > 1.0, "{total}");
    }

    #[test]
    fn a_steady_load_is_followed_once_and_idleness_changes_nothing() {
        let writes = Load::write_heavy(DelayReading::Calibrated);
        let runs = shifting(&[&[writes], &[writes], &[IDLE]]).run(adaptive(), 1).unwrap();
        assert!(runs[0].migrated_block_count <= 512);
        assert_eq!((runs[1].migrated_block_count, runs[2].migrated_block_count), (0, 0));
        assert_eq!(runs[2].layouts, [StandardLayout::Stripe.on(4).unwrap()]);
        assert_eq!(runs[2].request_count, 0);
    }

    #[test]
    fn equal_seeds_give_equal_runs() {
        let writes = Load::write_heavy(DelayReading::Literal);
        let load = shifting(&[&[writes]]);
        assert_eq!(load.run(adaptive(), 4).unwrap(), load.run(adaptive(), 4).unwrap());
        assert!(shifting(&[&[writes], &[]]).run(adaptive(), 4).is_err());
        assert!(shifting(&[]).run(adaptive(), 4).is_err());
    }
}
