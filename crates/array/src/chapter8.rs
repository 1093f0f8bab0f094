//! The simulator of Myers 2008 (S000), sections 8.4 and 8.5: what a layout is worth under closed
//! workers. Points that the thesis leaves open follow flash reference 7.5.
//!
//! ```text
//!   worker ─► block ─► fragments ─► members, one FIFO each ─► m-th fragment done ─► think ─┐
//!     ▲      uniform   placed once    busy until …              U[3/4, 3/2] of the base    │
//!     └─────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A member serves in order of arrival and its service times are known beforehand, so the end of a
//! request is known when it is issued: a member is the time until which it is busy, and the only
//! events are workers that issue.
//!
//! 1. A worker has one request at a time; requests are issued in order of time, ties by worker.
//! 2. A member is never idle while it has work, and never takes work back.
//! 3. A write ends with its m-th fragment; the others keep their members busy.
//! 4. Each worker has its own random stream, the same under every layout.
//! 5. A run has converged when the last of eight epochs in a row has a rate within 1 % of the first.

mod adaptive;
mod coding;
mod load;
mod on_device;
mod service;
mod summary;
mod sweep;

pub use adaptive::{Chooser, LayoutPolicy, Phase, PhaseSummary, ShiftingLoad};
pub use coding::{Coding, CodingMatrix};
pub use load::{DelayReading, Load};
pub use on_device::DeviceSetup;
pub use service::{Burst, Cleaning, DiskMember, FlashMember, Member, ProgramCharge, ServiceTimes};
pub use summary::{ClassSummary, EpochTally, Summary};
pub use sweep::run_all;

use crate::{ArrayError, Layout};
use nandu_base::{Nanos, Rng, to_index};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How many epochs have to agree before a run counts as steady.
pub const EPOCH_COUNT: usize = 8;
/// The most blocks, so that the placement of each fits into memory.
pub const BLOCK_COUNT_MAX: u32 = 1 << 24;

/// The most members here: their numbers fit four bits each in one word.
const SLOT_COUNT: usize = 16;

/// One array under one load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// How blocks lie on members.
    pub layout: Layout,
    /// What each member is.
    pub member: Member,
    /// Who asks, and how often.
    pub load: Load,
    /// Bytes of a virtual block.
    pub block_bytes: u32,
    /// Blocks in use, up to [`BLOCK_COUNT_MAX`].
    pub block_count: u32,
    /// Which copy is read, where there are several.
    pub replica_choice: ReplicaChoice,
    /// To which members the fragments of a write go.
    pub write_placement: WritePlacement,
    /// What coding costs; nothing in the thesis.
    pub coding: Option<Coding>,
    /// Length of an epoch; ten seconds in the thesis.
    pub epoch: Nanos,
    /// Epochs after which a run ends though it has not converged, 8 or more.
    pub epoch_count_max: u32,
}

/// Which members of those that hold a block are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplicaChoice {
    /// The members that are free first.
    #[default]
    LeastWork,
    /// Any of them, drawn at random.
    Random,
}

/// Where the fragments of a write go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WritePlacement {
    /// Where the block lies: drawn at random once.
    #[default]
    Fixed,
    /// To the members that are free first; reads follow.
    LeastWork,
}

impl Scenario {
    /// The thesis' array of four under `load`: 2 KB blocks, half of 64 MB in use.
    #[must_use]
    pub const fn of_thesis(layout: Layout, member: Member, load: Load) -> Self {
        Self {
            layout,
            member,
            load,
            block_bytes: 2048,
            block_count: 16_384,
            replica_choice: ReplicaChoice::LeastWork,
            write_placement: WritePlacement::Fixed,
            coding: None,
            epoch: Nanos::from_seconds(10),
            epoch_count_max: 64,
        }
    }

    /// Runs it; depends on `self` and `seed` only.
    ///
    /// # Errors
    /// [`ArrayError::Value`] names the value that is out of range.
    pub fn run(&self, seed: u64) -> Result<Summary, ArrayError> {
        self.check()?;
        let mut simulation = Simulation::new(self, seed)?;
        simulation.run();
        simulation.audit();
        Ok(simulation.summary())
    }

    /// Checks the values.
    ///
    /// # Errors
    /// [`ArrayError::Value`] names the one that is out of range.
    pub fn check(&self) -> Result<(), ArrayError> {
        let refuse = |name, what: &str| Err(ArrayError::Value { name, what: what.into() });
        if self.block_count == 0 || self.block_count > BLOCK_COUNT_MAX {
            return refuse("block_count", "must be 1 to 16777216");
        }
        if self.epoch == Nanos::ZERO || self.epoch > Nanos::from_seconds(3600) {
            return refuse("epoch", "must be above 0 and at most an hour");
        }
        if !(8..=100_000).contains(&self.epoch_count_max) {
            return refuse("epoch_count_max", "must be 8 to 100000");
        }
        check_member_count(self.layout)?;
        self.member.service_times(self.layout, self.block_bytes)?;
        self.coding.map_or(Ok(()), Coding::check)?;
        self.load.check()
    }

    /// What a worker takes to encode before it writes.
    fn encode(&self) -> u64 {
        self.coding.map_or(0, |coding| coding.encode(self.layout, self.block_bytes).0)
    }

    /// What a worker takes to decode what it read from `members`, where the block lies at `place`.
    fn decode(&self, place: u64, members: &[u8]) -> u64 {
        let Some(coding) = self.coding else { return 0 };
        let data = &unpack(place)[..members.len()];
        let is_coded = |member: &&u8| !data.contains(member);
        let coded_count = members.iter().filter(is_coded).count();
        let coded_count = u8::try_from(coded_count).expect("at most 16 members are simulated");
        coding.decode(self.layout, self.block_bytes, coded_count).0
    }
}

/// Refuses what has more members than a simulation has servers.
fn check_member_count(layout: Layout) -> Result<(), ArrayError> {
    if usize::from(layout.member_count()) > SLOT_COUNT {
        let what = "has more than 16 members, the most that are simulated".into();
        return Err(ArrayError::Value { name: "layout", what });
    }
    Ok(())
}

/// What a member has done and taken on.
#[derive(Clone, Copy, Debug, Default)]
struct Server {
    busy_until: u64,
    /// Work done or taken on.
    work_ns: u64,
    /// Idle time before `busy_until`.
    idle_ns: u64,
    /// Space used since the last burst of cleaning.
    used_space: u64,
}

impl Server {
    /// Takes on `service_ns` at `now`; says when it is done.
    fn serve(&mut self, now: u64, service_ns: u64) -> u64 {
        let start = self.busy_until.max(now);
        self.idle_ns += start - self.busy_until;
        self.work_ns += service_ns;
        self.busy_until = start + service_ns;
        self.busy_until
    }
}

#[derive(Debug)]
struct Worker {
    rng: Rng,
    reads: bool,
    think_base_ns: u64,
}

struct Simulation<'a> {
    scenario: &'a Scenario,
    times: ServiceTimes,
    servers: [Server; SLOT_COUNT],
    workers: Vec<Worker>,
    /// When each worker issues next, the earliest on top.
    queue: BinaryHeap<Reverse<(u64, u32)>>,
    /// The members of each block, four bits each, the first lowest.
    places: Vec<u64>,
    epochs: Vec<EpochTally>,
}

impl<'a> Simulation<'a> {
    fn new(scenario: &'a Scenario, seed: u64) -> Result<Self, ArrayError> {
        let load = &scenario.load;
        let times = scenario.member.service_times(scenario.layout, scenario.block_bytes)?;
        let worker = |reads: bool, number: u32| {
            let (class, base) = if reads {
                ("reader", load.read_think_base)
            } else {
                ("writer", load.write_think_base)
            };
            let rng = Rng::for_part(seed, &format!("{class} {number}"));
            Worker { rng, reads, think_base_ns: base.0 }
        };
        let readers = (0..load.reader_count).map(|number| worker(true, number));
        let writers = (0..load.writer_count).map(|number| worker(false, number));
        let mut workers: Vec<Worker> = readers.chain(writers).collect();
        let encode = scenario.encode();
        let first = |(worker, number): (&mut Worker, u32)| {
            let phase = worker.rng.below(worker.think_base_ns * 3 / 2 + 1);
            Reverse((phase + if worker.reads { 0 } else { encode }, number))
        };
        let queue = workers.iter_mut().zip(0..).map(first).collect();
        let place = |block: u32| {
            let mut members = [0; SLOT_COUNT];
            scenario.layout.place(seed, u64::from(block), &mut members);
            pack(&members)
        };
        // Chips that all began clean would clean together, which flatters a stripe.
        let mut servers = [Server::default(); SLOT_COUNT];
        let mut phases = Rng::for_part(seed, "cleaning");
        for server in &mut servers {
            server.used_space = times.burst.map_or(0, |burst| phases.below(burst.space_per_burst));
        }
        Ok(Self {
            scenario,
            times,
            servers,
            workers,
            queue,
            places: (0..scenario.block_count).map(place).collect(),
            epochs: vec![EpochTally::default(); scenario.epoch_count_max as usize + 1],
        })
    }

    fn run(&mut self) {
        let mut end = 0;
        for epoch in 1..=self.scenario.epoch_count_max as usize {
            end += self.scenario.epoch.0;
            self.run_until(end);
            if epoch >= EPOCH_COUNT
                && summary::has_converged(&self.epochs[epoch - EPOCH_COUNT..epoch])
            {
                self.epochs.truncate(epoch);
                return;
            }
        }
        self.epochs.pop();
    }

    /// Issues everything that is issued before `end`.
    fn run_until(&mut self, end: u64) {
        let encode = self.scenario.encode();
        while let Some(mut next) = self.queue.peek_mut() {
            let Reverse((now, number)) = *next;
            if now >= end {
                return;
            }
            let worker = &mut self.workers[number as usize];
            let block = to_index(worker.rng.below(self.places.len() as u64));
            let place = &mut self.places[block];
            // A writer encoded before now, a reader decodes after its last fragment.
            let (issued, encode, done) = if worker.reads {
                let rng = &mut worker.rng;
                let members = choose(self.scenario, &self.servers, *place, now, rng);
                let members = &members[..usize::from(self.scenario.layout.needed_count())];
                let done = read(&self.times, &mut self.servers, members, now);
                (now, 0, done + self.scenario.decode(*place, members))
            } else {
                let done = write(self.scenario, &self.times, &mut self.servers, place, now);
                (now - encode, encode, done)
            };
            let base = worker.think_base_ns;
            let least = base - base / 4;
            let think = least + worker.rng.below(base + base / 2 - least + 1);
            *next = Reverse((done + think + encode, number));
            drop(next);
            // Requests that end past the last epoch are counted nowhere.
            let epoch = to_index(done / self.scenario.epoch.0).min(self.epochs.len() - 1);
            self.epochs[epoch].count(worker.reads, done - issued, think);
        }
    }

    /// Checks invariant 2: a member's past is work or idleness, and nothing else.
    fn audit(&self) {
        for server in &self.servers {
            assert_eq!(server.busy_until, server.work_ns + server.idle_ns);
            assert!(server.work_ns > 0 || server.busy_until == server.idle_ns);
        }
        assert_eq!(self.queue.len(), self.workers.len(), "a worker has one request");
    }

    fn summary(&self) -> Summary {
        let end = self.scenario.epoch * self.epochs.len() as u64;
        let members = usize::from(self.scenario.layout.member_count());
        let backlog = self.servers[..members].iter().map(|server| server.busy_until);
        let backlog = Nanos(backlog.max().unwrap_or(0)).saturating_sub(end);
        Summary::new(&self.epochs, self.scenario.epoch, backlog)
    }
}

/// The members of those at `place` from which m fragments are read, as the first m.
#[inline]
fn choose(
    scenario: &Scenario,
    servers: &[Server; SLOT_COUNT],
    place: u64,
    now: u64,
    rng: &mut Rng,
) -> [u8; SLOT_COUNT] {
    let needed = usize::from(scenario.layout.needed_count());
    let written = usize::from(scenario.layout.written_count());
    let mut members = unpack(place);
    if needed < written {
        match scenario.replica_choice {
            ReplicaChoice::LeastWork => {
                move_least_busy(&mut members[..written], needed, servers, now);
            }
            ReplicaChoice::Random => {
                for slot in 0..needed {
                    let other = slot + to_index(rng.below((written - slot) as u64));
                    members.swap(slot, other);
                }
            }
        }
    }
    members
}

/// Reads a fragment from each of `members`; says when the last has arrived.
#[inline]
fn read(times: &ServiceTimes, servers: &mut [Server; SLOT_COUNT], members: &[u8], now: u64) -> u64 {
    let serve = |&member: &u8| servers[usize::from(member)].serve(now, times.read.0);
    members.iter().map(serve).fold(now, u64::max)
}

/// Writes f fragments; says when the m-th is on its member.
#[inline]
fn write(
    scenario: &Scenario,
    times: &ServiceTimes,
    servers: &mut [Server; SLOT_COUNT],
    place: &mut u64,
    now: u64,
) -> u64 {
    let needed = usize::from(scenario.layout.needed_count());
    let written = usize::from(scenario.layout.written_count());
    let mut members = unpack(*place);
    if scenario.write_placement == WritePlacement::LeastWork {
        let all = usize::from(scenario.layout.member_count());
        move_least_busy(&mut members[..all], written, servers, now);
        *place = pack(&members);
    }
    let mut ends = [0; SLOT_COUNT];
    for (end, &member) in ends.iter_mut().zip(&members[..written]) {
        let server = &mut servers[usize::from(member)];
        let mut service = times.write.0;
        if let Some(burst) = &times.burst {
            server.used_space += burst.space_per_write;
            if server.used_space >= burst.space_per_burst {
                server.used_space -= burst.space_per_burst;
                service += burst.time.0;
            }
        }
        *end = server.serve(now, service);
    }
    let ends = &mut ends[..written];
    if needed < written {
        ends.sort_unstable();
        return ends[needed - 1];
    }
    ends.iter().copied().fold(0, u64::max)
}

/// Moves the `count` members that are free first to the front; of equals those that come first.
#[inline]
fn move_least_busy(members: &mut [u8], count: usize, servers: &[Server; SLOT_COUNT], now: u64) {
    let free_at = |member: u8| servers[usize::from(member)].busy_until.max(now);
    for slot in 0..count {
        let mut best = slot;
        for other in slot + 1..members.len() {
            if free_at(members[other]) < free_at(members[best]) {
                best = other;
            }
        }
        members.swap(slot, best);
    }
}

fn pack(members: &[u8; SLOT_COUNT]) -> u64 {
    members.iter().rev().fold(0, |word, &member| word << 4 | u64::from(member))
}

#[inline]
fn unpack(word: u64) -> [u8; SLOT_COUNT] {
    // Bytes hold two members each.
    let bytes = word.to_le_bytes();
    std::array::from_fn(|slot| bytes[slot / 2] >> (4 * (slot % 2)) & 15)
}

#[cfg(test)]
mod tests;
