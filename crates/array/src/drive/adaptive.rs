//! A layout for each object, chosen by its load: what S000 section 8.6 proposes, inside the device.
//!
//! ```text
//!   requests ─► workers, think times, addresses of each object, for a while
//!                    │ replayed over queues of the members, once for each layout
//!                    ▼
//!   the layout under which most requests end ─► the object's extents migrate (drive::migration)
//! ```
//!
//! Who issues is not known to a device, so workers are inferred: a request continues the worker that
//! has been idle longest among those of its object and operation. Which worker it was in truth does
//! not change the sum of think times, which is what the replay depends on.
//!
//! 1. The chooser knows what was requested since it last looked, and nothing of what comes.
//! 2. Targets change when what other layouts promised beyond those of now, look after look, has come
//!    to what the move costs: whoever rents skis buys them when the rent has reached their price. Noise
//!    between equal layouts moves nothing, a great gain is taken at once.
//! 3. Only extents that are in use move; others follow when they are.

use super::map::{Place, StripeMap};
use super::{ArrayConfig, WriteReturn};
use crate::{ArrayError, Layout};
use nandu_base::{Nanos, to_index};
use nandu_device::Operation;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Requests of one kind that are remembered between two looks.
const SAMPLE_COUNT_MAX: usize = 4096;
/// Requests that a replay ends at most.
const REPLAY_COUNT_MAX: u64 = 20_000;
/// Fewer requests than these are no reason for a choice.
const SAMPLE_COUNT_MIN: usize = 16;

/// How an array chooses layouts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdaptiveConfig {
    /// What may be chosen, 1 or more, for as many members as the array has. All objects begin with the
    /// array's own layout, which need not be among them.
    pub layouts: Vec<Layout>,
    /// Data sectors of a stripe in every layout.
    pub stripe_sector_count: u32,
    /// Stripes that migrate together, 1 or more.
    pub extent_stripe_count: u32,
    /// Sectors of each object, from sector 0 on, in whole extents; the rest is the last object's too.
    pub object_sector_counts: Vec<u64>,
    /// How long is observed before a choice.
    pub observe: Nanos,
    /// The least gain that counts; an object migrates when such gains have come to the price of it.
    pub gain_ppm: u32,
    /// Bandwidth of migration, in bytes of data.
    pub migration_bytes_per_second: u64,
    /// What a request takes on an idle member.
    pub member_times: MemberTimes,
}

/// What a request takes on an idle member, as a probe of one finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberTimes {
    /// What a read takes before its first sector.
    pub read_ns: Nanos,
    /// What each sector of a read adds.
    pub read_sector_ns: Nanos,
    /// Sectors that are read together, at multiples of their number, 1 or more: a flash page.
    pub read_unit_sectors: u32,
    /// What a write takes before its first sector.
    pub write_ns: Nanos,
    /// What each sector of a write adds.
    pub write_sector_ns: Nanos,
}

impl MemberTimes {
    /// What `sector_count` sectors from `first` on take.
    fn of(&self, operation: Operation, first: u64, sector_count: u64) -> u64 {
        let (fixed, each, count) = match operation {
            Operation::Read => {
                let unit = u64::from(self.read_unit_sectors);
                let units = (first + sector_count).div_ceil(unit) - first / unit;
                (self.read_ns, self.read_sector_ns, units * unit)
            }
            Operation::Write => (self.write_ns, self.write_sector_ns, sector_count),
            Operation::Trim | Operation::Flush => return 0,
        };
        fixed.0.saturating_add(each.0.saturating_mul(count))
    }
}

impl AdaptiveConfig {
    /// Checks the values for an array of `member_count`.
    ///
    /// # Errors
    /// [`ArrayError`] names the value that is out of range.
    pub fn check(&self, member_count: u8) -> Result<(), ArrayError> {
        let refuse = |name, what: &str| Err(ArrayError::Value { name, what: what.into() });
        if self.layouts.is_empty()
            || self.layouts.iter().any(|layout| layout.member_count() != member_count)
        {
            return refuse("layouts", "must be one or more, for as many members as there are");
        }
        if !(1..=65_536).contains(&self.stripe_sector_count) || self.extent_stripe_count == 0 {
            return refuse("stripe_sector_count", "and `extent_stripe_count` must be 1 to 65536");
        }
        if self.observe == Nanos::ZERO || self.migration_bytes_per_second == 0 {
            return refuse("observe", "and `migration_bytes_per_second` must be above 0");
        }
        if self.member_times.read_unit_sectors == 0 {
            return refuse("read_unit_sectors", "must be above 0");
        }
        let extent = u64::from(self.stripe_sector_count) * u64::from(self.extent_stripe_count);
        let is_whole = |sectors: &u64| *sectors > 0 && sectors.is_multiple_of(extent);
        if self.object_sector_counts.is_empty() || !self.object_sector_counts.iter().all(is_whole) {
            return refuse("object_sector_counts", "must be whole extents, one or more");
        }
        Ok(())
    }
}

/// One request as it was seen.
#[derive(Clone, Copy, Debug)]
struct Sample {
    think: u64,
    stripe: u64,
    first_sector: u32,
    sector_count: u32,
}

/// The requests of one object and operation.
#[derive(Debug, Default)]
struct Stream {
    samples: Vec<Sample>,
    /// When each worker that waits became idle, the longest first.
    idle_since: VecDeque<Nanos>,
    busy_count: u32,
}

/// Observes, and says what to change.
#[derive(Debug)]
pub(super) struct Chooser {
    config: AdaptiveConfig,
    /// What was seen of each object's reads and of its writes, in this order.
    streams: Vec<[Stream; 2]>,
    /// The shape of each object.
    pub(super) targets: Vec<usize>,
    /// Requests to each extent, those before the last look by half, and so on.
    heats: Vec<u32>,
    /// Requests that better layouts promised beyond those of now, in looks in a row.
    regret: u64,
    look_at: Nanos,
}

impl Chooser {
    pub(super) fn new(config: AdaptiveConfig, extent_count: usize) -> Self {
        let count = config.object_sector_counts.len();
        let streams = (0..count).map(|_| [Stream::default(), Stream::default()]).collect();
        let look_at = config.observe;
        let heats = vec![0; extent_count];
        Self { config, streams, targets: vec![0; count], heats, regret: 0, look_at }
    }

    pub(super) fn migration_interval(&self, stripe_bytes: u64) -> Nanos {
        Nanos::of_transfer(stripe_bytes, self.config.migration_bytes_per_second)
    }

    /// What a request takes on an idle member.
    pub(super) fn service(&self, operation: Operation, first: u64, sector_count: u64) -> Nanos {
        Nanos(self.config.member_times.of(operation, first, sector_count))
    }

    /// The object that holds `sector`.
    pub(super) fn object_of(&self, sector: u64) -> usize {
        let mut end = 0;
        let ends = self.config.object_sector_counts.iter().position(|count| {
            end += count;
            sector < end
        });
        ends.unwrap_or(self.config.object_sector_counts.len() - 1)
    }

    pub(super) fn note_issue(&mut self, now: Nanos, sector: u64, count: u32, is_write: bool) {
        let object = self.object_of(sector);
        let stripe_sectors = u64::from(self.config.stripe_sector_count);
        let stream = &mut self.streams[object][usize::from(is_write)];
        let think = stream.idle_since.pop_front().map_or(0, |since| now.saturating_sub(since).0);
        stream.busy_count += 1;
        let extent = sector / (stripe_sectors * u64::from(self.config.extent_stripe_count));
        let heat = &mut self.heats[to_index(extent)];
        *heat = heat.saturating_add(1);
        if stream.samples.len() < SAMPLE_COUNT_MAX {
            let first_sector = nandu_base::to_u32(sector % stripe_sectors);
            let sector_count = count.min(self.config.stripe_sector_count - first_sector);
            let stripe = sector / stripe_sectors;
            stream.samples.push(Sample { think, stripe, first_sector, sector_count });
        }
    }

    pub(super) fn note_end(&mut self, now: Nanos, sector: u64, is_write: bool) {
        let object = self.object_of(sector);
        let stream = &mut self.streams[object][usize::from(is_write)];
        stream.busy_count = stream.busy_count.saturating_sub(1);
        stream.idle_since.push_back(now);
    }

    /// Whether it is time for a look.
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        now >= self.look_at
    }

    /// How many requests went to `extent` lately.
    pub(super) fn heat(&self, extent: usize) -> u32 {
        self.heats[extent]
    }

    /// Looks at what was seen, changes targets where that has become worth its price, and forgets it.
    pub(super) fn choose(&mut self, now: Nanos, array: &ArrayConfig, map: &StripeMap) {
        let sample_count: usize = self.streams.iter().flatten().map(|s| s.samples.len()).sum();
        if sample_count >= SAMPLE_COUNT_MIN {
            let promised = self.replay(&self.targets, array, map);
            let (better, best) = self.best_targets(promised, array, map);
            let least = promised + promised * u64::from(self.config.gain_ppm) / 1_000_000;
            self.regret = if better > least { self.regret + (better - promised) } else { 0 };
            if self.regret > 0 && self.regret >= self.price(&best, better, array, map) {
                self.targets = best;
                self.regret = 0;
            }
        }
        self.forget(now);
    }

    /// Requests that do not end because members copy what has not the shapes `targets`, if `rate` of
    /// them end in the observed time.
    fn price(&self, targets: &[usize], rate: u64, array: &ArrayConfig, map: &StripeMap) -> u64 {
        let times = &self.config.member_times;
        let extent_sectors = map.stripes_per_extent * map.stripe_sectors;
        let copy_ns = |(extent, place): (usize, &Place)| {
            let target = targets[self.object_of(extent as u64 * extent_sectors)];
            if self.heats[extent] == 0 || place.shape == target {
                return 0;
            }
            let (from, to) = (&map.shapes[place.shape], &map.shapes[target]);
            let read_count = u64::from(from.layout.needed_count());
            let write_count = u64::from(to.layout.written_count());
            let read_ns = times.of(Operation::Read, 0, from.slot_sectors());
            let write_ns = times.of(Operation::Write, 0, to.slot_sectors());
            let read_ns = read_ns.saturating_mul(read_count);
            let write_ns = write_ns.saturating_mul(write_count);
            read_ns.saturating_add(write_ns).saturating_mul(map.stripes_per_extent)
        };
        let busy_ns = map.places.iter().enumerate().map(copy_ns).fold(0, u64::saturating_add);
        let each_ns = busy_ns / u64::from(array.layout.member_count());
        let lost = u128::from(each_ns) * u128::from(rate) / u128::from(self.config.observe.0);
        u64::try_from(lost).unwrap_or(u64::MAX)
    }

    /// Begins to observe anew: what was seen before says too little about the load of now.
    pub(super) fn forget(&mut self, now: Nanos) {
        let forgotten = now.saturating_sub(self.config.observe);
        self.heats.iter_mut().for_each(|heat| *heat /= 2);
        for stream in self.streams.iter_mut().flatten() {
            stream.samples.clear();
            stream.idle_since.retain(|since| *since >= forgotten);
        }
        self.look_at = now.saturating_add(self.config.observe);
    }

    /// The shapes of all objects that promise most, with what they promise; those of now promise `now`.
    /// One shape for all is tried too, since objects in different ones hinder each other: what waits for
    /// one member holds up what waits for all.
    fn best_targets(&self, now: u64, array: &ArrayConfig, map: &StripeMap) -> (u64, Vec<usize>) {
        let mut best = (now, self.targets.clone());
        let mut uniform = best.clone();
        for shape in 0..map.shapes.len() {
            let targets = vec![shape; self.targets.len()];
            uniform = uniform.max((self.replay(&targets, array, map), targets));
        }
        if self.targets.len() == 1 {
            return uniform;
        }
        for mut start in [best.clone(), uniform] {
            for _ in 0..start.1.len() {
                let next = self.best_step(start.clone(), array, map);
                if next == start {
                    break;
                }
                start = next;
            }
            best = best.max(start);
        }
        best
    }

    /// `start` with another shape for the object for which that promises most. Taking objects one by
    /// one instead would let the first have a shape that keeps the second from a greater gain.
    fn best_step(
        &self,
        start: (u64, Vec<usize>),
        array: &ArrayConfig,
        map: &StripeMap,
    ) -> (u64, Vec<usize>) {
        let mut best = start.clone();
        for object in 0..start.1.len() {
            for shape in (0..map.shapes.len()).filter(|shape| *shape != start.1[object]) {
                let mut targets = start.1.clone();
                targets[object] = shape;
                best = best.max((self.replay(&targets, array, map), targets));
            }
        }
        best
    }

    /// Requests that end within the observed time if objects have the shapes `targets`.
    fn replay(&self, targets: &[usize], array: &ArrayConfig, map: &StripeMap) -> u64 {
        let mut free_at = vec![0_u64; usize::from(array.layout.member_count())];
        let mut queue = BinaryHeap::new();
        let mut cursors = vec![[0_usize; 2]; self.streams.len()];
        for (object, streams) in self.streams.iter().enumerate() {
            for (stream, operation) in streams.iter().zip(0_usize..) {
                let workers = stream.idle_since.len() + stream.busy_count as usize;
                for sample in stream.samples.iter().cycle().take(workers) {
                    queue.push(Reverse((sample.think, object, operation)));
                }
            }
        }
        let mut ended_count = 0;
        while let Some(Reverse((time, object, operation))) = queue.pop() {
            if time >= self.config.observe.0 {
                break;
            }
            if ended_count >= REPLAY_COUNT_MAX {
                // The replay is cut off here: the requests of the whole window are extrapolated
                // from those that ended so far.
                let whole = u128::from(ended_count) * u128::from(self.config.observe.0);
                return u64::try_from(whole / u128::from(time.max(1))).unwrap_or(u64::MAX);
            }
            let samples = &self.streams[object][operation].samples;
            let cursor = &mut cursors[object][operation];
            let sample = samples[*cursor % samples.len()];
            *cursor += 1;
            let place = Place { shape: targets[object], cell: 0 };
            let done = self.serve(&mut free_at, time, sample, operation == 1, place, array, map);
            let next = samples[*cursor % samples.len()].think;
            ended_count += u64::from(done < self.config.observe.0);
            queue.push(Reverse((done.saturating_add(next), object, operation)));
        }
        ended_count
    }

    /// When a request that comes at `time` is done, by the rules of the array.
    #[allow(clippy::too_many_arguments, reason = "the state of the replay, used once")]
    fn serve(
        &self,
        free_at: &mut [u64],
        time: u64,
        sample: Sample,
        is_write: bool,
        place: Place,
        array: &ArrayConfig,
        map: &StripeMap,
    ) -> u64 {
        let shape = &map.shapes[place.shape];
        let (needed, written) = (shape.layout.needed_count(), shape.layout.written_count());
        let slot_of = |number| map.slot(place, sample.stripe, number);
        let ask = |free_at: &mut [u64], time: u64, (member, first): (usize, u64), operation| {
            let service = self.config.member_times.of(operation, first, shape.slot_sectors());
            free_at[member] = free_at[member].max(time) + service;
            free_at[member]
        };
        let is_whole = u64::from(sample.sector_count) == map.stripe_sectors;
        let mut ready = time;
        if needed == 1 && !(is_write && is_whole) {
            let least = (0..written).map(slot_of).min_by_key(|(member, _)| free_at[*member]);
            let least = least.expect("a layout writes a fragment or more");
            ready = ask(free_at, time, least, Operation::Read);
        } else if !(is_write && is_whole) {
            let end = sample.first_sector + sample.sector_count - 1;
            let wanted = match is_write {
                false => {
                    sample.first_sector / shape.fragment_sector_count
                        ..=end / shape.fragment_sector_count
                }
                true => 0..=u32::from(needed) - 1,
            };
            for number in wanted.filter_map(|number| u8::try_from(number).ok()) {
                ready = ready.max(ask(free_at, time, slot_of(number), Operation::Read));
            }
        }
        if !is_write {
            return ready;
        }
        let slots = (0..written).map(slot_of);
        let mut ends: Vec<u64> =
            slots.map(|slot| ask(free_at, ready, slot, Operation::Write)).collect();
        ends.sort_unstable();
        match array.write_return {
            WriteReturn::Needed => ends[usize::from(needed) - 1],
            WriteReturn::All => ends[ends.len() - 1],
        }
    }
}
