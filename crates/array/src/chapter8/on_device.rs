//! The shifting load of `adaptive` on an [`ArrayDevice`] over chips: queues, heads of fragments,
//! extents that migrate, instead of a placement for each block.
//!
//! ```text
//!   worker ─► request for one block ─► ArrayDevice ─► chips, one request at a time each
//!     ▲                                    │
//!     └───────── thinks ◄─ completion ─────┘
//! ```
//!
//! 1. A chip reads whole flash pages and writes by size, with cleaning averaged (S000 section 8.4).
//! 2. A block with its head sector is one flash page, larger than the chapter's so that the heads of
//!    fragments weigh little, and as fast: one copy costs a chip what it costs there.
//! 3. Fixed layouts are run on the same device with the same extents, and have nothing to choose.
//! 4. Requests that are in flight when a phase ends are counted in none.

use super::{LayoutPolicy, Load, Member, PhaseSummary, ShiftingLoad, Worker};
use crate::drive::{
    AdaptiveConfig, ArrayConfig, ArrayDevice, MemberDevice, MemberTimes, RECORD_SECTOR_COUNT,
};
use crate::{ArrayError, Layout, WriteReturn};
use nandu_base::{Nanos, Rng, VirtualClock, to_index, to_u32};
use nandu_device::queue::InFlight;
use nandu_device::{
    Completion, CompletionQueue, Counters, Device, DeviceInfo, Geometry, Operation, Rejected,
    Request, TimeSource,
};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const SECTOR_BYTES: u32 = 512;
/// More requests in flight than a load has workers.
const QUEUE_DEPTH: u32 = 20_000;

/// What an array of a [`ShiftingLoad`] is beside its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceSetup {
    /// Bytes of a flash page, a power of two from 2048 to 65536; a block has a sector of 512 less. It
    /// takes the time of the member's own page.
    pub page_bytes: u32,
    /// Blocks that migrate together; objects have a multiple of them.
    pub extent_block_count: u32,
}

impl DeviceSetup {
    fn block_sectors(self) -> u32 {
        self.page_bytes / SECTOR_BYTES - 1
    }
}

impl ShiftingLoad {
    /// Runs it under `policy` on an [`ArrayDevice`]; of the chooser, `what_if` is not used, since the
    /// device replays what it observed. Depends on the arguments only.
    ///
    /// # Errors
    /// As [`ShiftingLoad::check_on_device`].
    pub fn run_on_device(
        &self,
        policy: LayoutPolicy,
        setup: DeviceSetup,
        seed: u64,
    ) -> Result<Vec<PhaseSummary>, ArrayError> {
        self.check_on_device(policy, setup)?;
        let mut device = self.device(policy, setup)?;
        let mut summaries = Vec::new();
        for phase in &self.phases {
            let migrated = device.migrated_stripe_count();
            let workers = workers(&phase.loads, seed);
            let mut run = PhaseRun::new(self, setup, workers);
            run.run(&mut device, phase.duration);
            let extents = self.object_block_count / setup.extent_block_count;
            let layouts = device.layouts().step_by(extents as usize).take(phase.loads.len());
            summaries.push(PhaseSummary {
                request_count: run.request_count,
                steady_request_count: run.steady_request_count,
                migrated_block_count: device.migrated_stripe_count() - migrated,
                layouts: layouts.collect(),
            });
            device.audit();
        }
        Ok(summaries)
    }

    /// Checks the values for a run on a device.
    ///
    /// # Errors
    /// As [`ShiftingLoad::check`], and if members are no chips or extents do not divide objects.
    pub fn check_on_device(
        &self,
        policy: LayoutPolicy,
        setup: DeviceSetup,
    ) -> Result<(), ArrayError> {
        self.check(policy)?;
        let refuse = |name, what: &str| Err(ArrayError::Value { name, what: what.into() });
        let Member::Flash(chip) = self.member else {
            return refuse("member", "must be a flash chip; disks have no device here");
        };
        if self.block_bytes != chip.page_bytes {
            return refuse("block_bytes", "must be one flash page");
        }
        if !setup.page_bytes.is_power_of_two() || !(2048..=65_536).contains(&setup.page_bytes) {
            return refuse("page_bytes", "must be a power of two from 2048 to 65536");
        }
        let extent = setup.extent_block_count;
        if extent == 0 || !self.object_block_count.is_multiple_of(extent) {
            return refuse("extent_block_count", "must divide `object_block_count`");
        }
        Ok(())
    }

    fn device(&self, policy: LayoutPolicy, setup: DeviceSetup) -> Result<ArrayDevice, ArrayError> {
        let object_count = self.phases[0].loads.len();
        let block_sectors = setup.block_sectors();
        let (layout, layouts, observe, gain_ppm, migration_bytes_per_second) = match policy {
            LayoutPolicy::Static(layout) => (layout, vec![layout], Nanos::MAX, 0, 1),
            LayoutPolicy::Adaptive(chooser) => (
                chooser.first,
                Layout::all(self.member_count).collect(),
                chooser.observe,
                chooser.gain_ppm,
                chooser.migration_bytes_per_second,
            ),
        };
        let config = ArrayConfig {
            layout,
            fragment_sector_count: block_sectors,
            write_return: WriteReturn::Needed,
            queue_depth_max: QUEUE_DEPTH,
            member_error_count_max: 0,
            member_timeout: None,
            keeps_data: false,
        };
        let chip = ChipTimes::of(self, setup)?;
        let object_sectors = u64::from(self.object_block_count) * u64::from(block_sectors);
        let adaptive = AdaptiveConfig {
            layouts,
            stripe_sector_count: block_sectors,
            extent_stripe_count: setup.extent_block_count,
            object_sector_counts: vec![object_sectors; object_count],
            observe,
            gain_ppm,
            migration_bytes_per_second,
            member_times: chip.for_chooser(),
        };
        // One copy on every member is the layout that takes most; one extent more moves, and the array
        // keeps some sectors for itself.
        let extents =
            self.object_block_count / setup.extent_block_count * to_u32(object_count as u64);
        let extent_sectors = u64::from(setup.extent_block_count) * u64::from(block_sectors + 1);
        let sector_count = u64::from(extents + 1) * extent_sectors + RECORD_SECTOR_COUNT;
        let members = (0..self.member_count)
            .map(|_| Box::new(Chip::new(chip, sector_count)) as MemberDevice)
            .collect();
        ArrayDevice::create_adaptive(config, adaptive, members)
    }
}

/// The workers of one phase with their objects.
fn workers(loads: &[Load], seed: u64) -> Vec<(Worker, u64)> {
    let mut workers = Vec::new();
    for (load, object) in loads.iter().zip(0_u64..) {
        for number in 0..load.reader_count + load.writer_count {
            let reads = number < load.reader_count;
            let base = if reads { load.read_think_base } else { load.write_think_base };
            let rng = Rng::for_part(seed, &format!("object {object} worker {number}"));
            workers.push((Worker { rng, reads, think_base_ns: base.0 }, object));
        }
    }
    workers
}

struct PhaseRun {
    workers: Vec<(Worker, u64)>,
    object_blocks: u64,
    block_sectors: u32,
    /// When each worker that thinks issues next.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    request_count: u64,
    steady_request_count: u64,
}

impl PhaseRun {
    fn new(load: &ShiftingLoad, setup: DeviceSetup, workers: Vec<(Worker, u64)>) -> Self {
        Self {
            workers,
            object_blocks: u64::from(load.object_block_count),
            block_sectors: setup.block_sectors(),
            due: BinaryHeap::new(),
            request_count: 0,
            steady_request_count: 0,
        }
    }

    fn run(&mut self, device: &mut ArrayDevice, duration: Nanos) {
        let begin = device.now();
        let (middle, end) = (begin + Nanos(duration.0 / 2), begin + duration);
        for (number, (worker, _)) in self.workers.iter_mut().enumerate() {
            let phase = worker.rng.below(worker.think_base_ns * 3 / 2 + 1);
            self.due.push(Reverse((begin.0 + phase, number)));
        }
        loop {
            let next = self.due.peek().map_or(u64::MAX, |Reverse((time, _))| *time).min(end.0);
            if let Some(done) = device.next_completion(Nanos(next)) {
                assert!(done.result.is_ok(), "chips do not fail");
                self.request_count += u64::from(done.completed_at < end);
                let is_steady = done.completed_at >= middle && done.completed_at < end;
                self.steady_request_count += u64::from(is_steady);
                let (worker, _) = &mut self.workers[to_index(done.id)];
                let base = worker.think_base_ns;
                let think = base - base / 4 + worker.rng.below(base / 4 + base / 2 + 1);
                self.due.push(Reverse((done.completed_at.0 + think, to_index(done.id))));
            } else if next >= end.0 {
                break;
            } else {
                self.issue(device);
            }
        }
        while device.next_completion(Nanos::MAX).is_some() {}
        if device.now() < end {
            device.idle_until(end);
        }
    }

    fn issue(&mut self, device: &mut ArrayDevice) {
        let Reverse((time, number)) = self.due.pop().expect("somebody issues now");
        let (worker, object) = &mut self.workers[number];
        let block = *object * self.object_blocks + worker.rng.below(self.object_blocks);
        let (first, count) = (block * u64::from(self.block_sectors), self.block_sectors);
        let request = match worker.reads {
            true => Request::read(number as u64, first, count, None),
            false => Request::write(number as u64, first, count, None),
        };
        device.submit(Nanos(time), request).expect("the queue holds all workers");
    }
}

/// What a chip takes.
#[derive(Clone, Copy, Debug)]
struct ChipTimes {
    page_sectors: u64,
    read_page_ns: Nanos,
    write_page_ns: Nanos,
}

impl ChipTimes {
    fn of(load: &ShiftingLoad, setup: DeviceSetup) -> Result<Self, ArrayError> {
        let whole = Layout::new(load.member_count, 1, 1)?;
        let times = load.member.service_times(whole, load.block_bytes)?;
        Ok(Self {
            page_sectors: u64::from(setup.page_bytes / SECTOR_BYTES),
            read_page_ns: times.read,
            write_page_ns: times.write,
        })
    }

    fn for_chooser(self) -> MemberTimes {
        MemberTimes {
            read_ns: Nanos::ZERO,
            read_sector_ns: Nanos(self.read_page_ns.0 / self.page_sectors),
            read_unit_sectors: to_u32(self.page_sectors),
            write_ns: Nanos::ZERO,
            write_sector_ns: Nanos(self.write_page_ns.0 / self.page_sectors),
        }
    }

    fn service(self, request: &Request) -> Nanos {
        let (first, count) = (request.first_sector.0, u64::from(request.sector_count));
        match request.operation {
            Operation::Read => {
                let pages = (first + count).div_ceil(self.page_sectors) - first / self.page_sectors;
                self.read_page_ns * pages
            }
            Operation::Write => Nanos((self.write_page_ns * count).0 / self.page_sectors),
            Operation::Trim | Operation::Flush => Nanos::ZERO,
        }
    }
}

/// A chip of invariant 1 that holds no data.
struct Chip {
    times: ChipTimes,
    info: DeviceInfo,
    clock: VirtualClock,
    free_at: Nanos,
    completions: CompletionQueue,
    counters: Counters,
}

impl Chip {
    fn new(times: ChipTimes, sector_count: u64) -> Self {
        let info = DeviceInfo {
            name: "chip".into(),
            geometry: Geometry { sector_bytes: SECTOR_BYTES, sector_count },
            queue_depth_max: QUEUE_DEPTH,
            time_source: TimeSource::Virtual,
            needs_buffers: false,
            buffer_alignment: 1,
            volatile_cache: false,
            supports_trim: false,
        };
        Self {
            times,
            info,
            clock: VirtualClock::new(),
            free_at: Nanos::ZERO,
            completions: CompletionQueue::default(),
            counters: Counters::default(),
        }
    }
}

impl Device for Chip {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        if let Err(error) = self.info.check(&request, self.in_flight()) {
            return Err(Rejected { request, error });
        }
        let now = self.clock.advance_to(now);
        let service = self.times.service(&request);
        self.free_at = self.free_at.max(now) + service;
        self.counters.busy += service;
        let bytes = self.info.geometry.bytes_of(request.sector_count);
        self.counters.count(request.operation, bytes, true);
        self.completions.push(InFlight::of(request, now).complete(self.free_at, Ok(())));
        Ok(())
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        let completion = self.completions.pop(until)?;
        self.clock.advance_to(completion.completed_at);
        Some(completion)
    }

    fn in_flight(&self) -> u32 {
        self.completions.len()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        assert!(self.completions.is_empty(), "nothing may be in flight while idle");
        self.clock.advance_to(time)
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StandardLayout;
    use crate::chapter8::{Chooser, DelayReading, Phase};

    const SETUP: DeviceSetup = DeviceSetup { page_bytes: 16_384, extent_block_count: 8 };

    fn shifting(phases: &[&[Load]]) -> ShiftingLoad {
        let duration = Nanos::from_millis(500);
        let phases = phases.iter().map(|loads| Phase { duration, loads: loads.to_vec() });
        ShiftingLoad {
            member: Member::thesis_chip(),
            member_count: 4,
            block_bytes: 2048,
            object_block_count: 64,
            phases: phases.collect(),
        }
    }

    fn adaptive(gain_ppm: u32) -> LayoutPolicy {
        LayoutPolicy::Adaptive(Chooser {
            first: StandardLayout::OneCopy.on(4).unwrap(),
            observe: Nanos::from_millis(20),
            what_if: Nanos::from_millis(20),
            gain_ppm,
            migration_bytes_per_second: 16_000_000,
        })
    }

    fn write_heavy() -> Load {
        Load::write_heavy(DelayReading::Calibrated)
    }

    fn read_heavy() -> Load {
        Load::read_heavy(DelayReading::Calibrated)
    }

    /// The steady half of each phase over that of the best of some fixed layouts. All of them, and
    /// whole phases, has the experiment s000/chapter-8-adaptive-array.
    fn steady_shares(load: &ShiftingLoad, ours: &[PhaseSummary]) -> Vec<f64> {
        let fixed = |layout: StandardLayout| {
            let policy = LayoutPolicy::Static(layout.on(4).unwrap());
            load.run_on_device(policy, SETUP, 1).unwrap()
        };
        let others: Vec<Vec<PhaseSummary>> = StandardLayout::ALL.map(fixed).into();
        let share = |(phase, summary): (usize, &PhaseSummary)| {
            let best = others.iter().map(|other| other[phase].steady_request_count).max().unwrap();
            summary.steady_request_count as f64 / best as f64
        };
        ours.iter().enumerate().map(share).collect()
    }

    #[test]
    fn an_array_follows_a_load_that_alternates() {
        let load = shifting(&[&[write_heavy()], &[read_heavy()], &[write_heavy()]]);
        let ours = load.run_on_device(adaptive(10_000), SETUP, 1).unwrap();
        let shares = steady_shares(&load, &ours);
        assert!(shares.iter().all(|share| *share >= 0.95), "{shares:?}");
        let names: Vec<String> = ours.iter().map(|phase| phase.layouts[0].name()).collect();
        assert_eq!((&*names[0], &*names[2]), ("m4w4", "m4w4"));
        assert_eq!(ours[1].layouts[0].needed_count(), 1, "whole blocks for readers");
    }

    #[test]
    fn objects_of_different_loads_have_their_own_layouts_in_the_device() {
        let load = shifting(&[&[write_heavy(), read_heavy()], &[read_heavy(), write_heavy()]]);
        let ours = load.run_on_device(adaptive(10_000), SETUP, 1).unwrap();
        let shares = steady_shares(&load, &ours);
        assert!(shares.iter().all(|share| *share >= 0.95), "{shares:?}");
        assert!(ours[0].layouts[0] != ours[0].layouts[1]);
    }

    #[test]
    fn of_two_copies_the_one_that_is_free_first_is_read() {
        // By bytes a member that writes a block looks as busy as one that reads it.
        let load = shifting(&[&[read_heavy()]]);
        let steady = |layout: StandardLayout| {
            let policy = LayoutPolicy::Static(layout.on(4).unwrap());
            load.run_on_device(policy, SETUP, 1).unwrap()[0].steady_request_count as f64
        };
        let share = steady(StandardLayout::Replication) / steady(StandardLayout::OneCopy);
        assert!(share > 0.992, "{share}");
    }

    #[test]
    fn layouts_that_are_nearly_equal_do_not_make_an_array_move_to_and_fro() {
        // Readers hardly care whether a block has one copy or two; the replay's noise says either.
        let load = shifting(&[&[read_heavy()], &[read_heavy()], &[read_heavy()]]);
        let ours = load.run_on_device(adaptive(1), SETUP, 1).unwrap();
        let migrated: u64 = ours.iter().map(|phase| phase.migrated_block_count).sum();
        assert!(migrated <= 2 * 64, "{migrated} of 64 blocks");
        assert_eq!(load.run_on_device(adaptive(1), SETUP, 1).unwrap(), ours, "of one seed");
    }

    #[test]
    fn setups_out_of_range_are_named() {
        let load = shifting(&[&[write_heavy()]]);
        let refusal = |setup| load.run_on_device(adaptive(1), setup, 1).unwrap_err().to_string();
        assert!(refusal(DeviceSetup { page_bytes: 3000, ..SETUP }).starts_with("`page_bytes`"));
        let refused = refusal(DeviceSetup { extent_block_count: 7, ..SETUP });
        assert!(refused.starts_with("`extent_block_count`"), "{refused}");
        let disks = ShiftingLoad { member: Member::thesis_disk(), ..load.clone() };
        assert!(disks.run_on_device(adaptive(1), SETUP, 1).is_err());
    }
}
