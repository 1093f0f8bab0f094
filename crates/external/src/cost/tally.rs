//! Requests counted by what their time depends on, as they come: nothing of them is kept, however many
//! there are. A prediction of a sort of terabytes takes some kilobytes.
//!
//! ```text
//!   request ──► goes on with a stream? with one of how many? ──► a count for each answer
//!                                                                   └─► time, when all have come
//! ```
//!
//! 1. The time is that of all requests by themselves, whatever their number: an area is known when
//!    all have come, and what does not depend on it is a key of the counts.
//! 2. Beside a processor a phase takes as long as the slower of both: streams are read and written
//!    while records are sorted.

use super::{Access, Probed, Processor, Requests, Work};
use std::collections::{BTreeMap, VecDeque};

/// Streams of one direction that are known at a time: as many as a merge has in 256 blocks of memory.
const STREAM_COUNT_MAX: usize = 256;
/// Requests by which it is told how many streams take turns.
const RECENT_COUNT: usize = 64;
/// A read of several on their way that passes over no more than so many goes on with its stream, though
/// not where that ended.
const GAP_COUNT_MAX: u64 = 64;

/// Phases that are told apart; those that come then are one.
const PHASE_COUNT_MAX: usize = 4096;

/// What the time of a request depends on, beside the area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Like {
    pub(super) is_write: bool,
    pub(super) byte_count: u32,
    /// Whether the volume read before it.
    pub(super) is_behind_read: bool,
    /// With one of how many streams it goes on; `None` for one anywhere.
    pub(super) stream_count: Option<u64>,
    /// How many are on their way together of those that are anywhere.
    pub(super) at_once: u32,
}

/// Requests that a drive is asked, counted; volumes are drives like this one.
#[derive(Clone, Debug)]
pub struct Tally<'p> {
    probed: &'p Probed,
    volumes: Vec<OfVolume>,
    phases: Vec<Phase>,
}

/// What was asked of each volume in a phase that has ended, and what the processor did.
#[derive(Clone, Debug)]
struct Phase {
    counts: Vec<Counts>,
    work: Work,
}

type Counts = BTreeMap<Like, u64>;

impl Phase {
    fn join(&mut self, other: Self) {
        self.work = self.work.and(other.work);
        self.counts.resize_with(self.counts.len().max(other.counts.len()), Counts::new);
        for (counts, others) in self.counts.iter_mut().zip(other.counts) {
            others.into_iter().for_each(|(like, count)| *counts.entry(like).or_default() += count);
        }
    }
}

/// What a volume was asked.
#[derive(Clone, Debug, Default)]
struct OfVolume {
    /// In the phase that goes on.
    counts: Counts,
    /// Where the last byte lies.
    area_bytes: u64,
    /// Streams of reads and of writes.
    streams: [Streams; 2],
    is_behind_read: bool,
}

/// Streams of one direction.
#[derive(Clone, Debug, Default)]
struct Streams {
    /// Where they ended, and their numbers; the last one used is last.
    ends: VecDeque<(u64, u64)>,
    /// Those of the last requests, and how many different ones there are.
    recent: VecDeque<u64>,
    recent_count: u64,
    next_number: u64,
}

impl<'p> Tally<'p> {
    pub(super) const fn new(probed: &'p Probed) -> Self {
        Self { probed, volumes: Vec::new(), phases: Vec::new() }
    }

    /// How many requests were counted.
    #[must_use]
    pub fn request_count(&self) -> u64 {
        let ended = self.phases.iter().flat_map(|phase| &phase.counts);
        let going_on = self.volumes.iter().map(|volume| &volume.counts);
        ended.chain(going_on).flat_map(Counts::values).sum()
    }

    /// How long they take, in nanoseconds.
    #[must_use]
    pub fn time_ns(&self) -> u64 {
        let of_volume = |(number, volume): (usize, &OfVolume)| {
            let ended = self.phases.iter().filter_map(|phase| phase.counts.get(number));
            let counts = ended.chain([&volume.counts]);
            counts.map(|counts| self.counts_ns(volume, counts)).fold(0, u64::saturating_add)
        };
        self.volumes.iter().enumerate().map(of_volume).max().unwrap_or(0)
    }

    /// How long the processor takes for all phases, by itself, in nanoseconds.
    #[must_use]
    pub fn work_ns(&self, processor: &Processor) -> u64 {
        let of_phase = |phase: &Phase| processor.time_ns(&phase.work);
        self.phases.iter().map(of_phase).fold(0, u64::saturating_add)
    }

    /// How long all takes beside a processor, in nanoseconds: each phase as long as the slower of both.
    #[must_use]
    pub fn time_beside_ns(&self, processor: &Processor) -> u64 {
        let volumes_ns = |counts: &mut dyn Iterator<Item = &Counts>| {
            let pairs = self.volumes.iter().zip(counts);
            pairs.map(|(volume, counts)| self.counts_ns(volume, counts)).max().unwrap_or(0)
        };
        let of_phase = |phase: &Phase| {
            volumes_ns(&mut phase.counts.iter()).max(processor.time_ns(&phase.work))
        };
        let ended_ns = self.phases.iter().map(of_phase).fold(0, u64::saturating_add);
        let going_on = &mut self.volumes.iter().map(|volume| &volume.counts);
        ended_ns.saturating_add(volumes_ns(going_on))
    }

    fn counts_ns(&self, volume: &OfVolume, counts: &Counts) -> u64 {
        let time_of = |(like, &count): (&Like, &u64)| {
            self.probed.time_ns(like, volume.area_bytes).saturating_mul(count)
        };
        counts.iter().map(time_of).fold(0, u64::saturating_add)
    }
}

impl Requests for Tally<'_> {
    fn note(&mut self, access: &Access) {
        self.note_of(access, 1);
    }

    fn note_of(&mut self, access: &Access, at_once: u32) {
        let volume = access.volume as usize;
        if self.volumes.len() <= volume {
            self.volumes.resize(volume + 1, OfVolume::default());
        }
        self.volumes[volume].note(access, at_once);
    }

    fn end_phase(&mut self, work: Work) {
        let counts = self.volumes.iter_mut().map(|volume| std::mem::take(&mut volume.counts));
        let phase = Phase { counts: counts.collect(), work };
        let is_full = self.phases.len() >= PHASE_COUNT_MAX;
        match self.phases.last_mut().filter(|_| is_full) {
            Some(last) => last.join(phase),
            None => self.phases.push(phase),
        }
    }
}

impl OfVolume {
    fn note(&mut self, access: &Access, at_once: u32) {
        let Access { is_write, byte_count, .. } = *access;
        self.area_bytes = self.area_bytes.max(access.end_bytes());
        // Of reads it makes no difference.
        let is_behind_read = std::mem::replace(&mut self.is_behind_read, !is_write) && is_write;
        let stream_count = self.streams[usize::from(is_write)].note(access, at_once > 1);
        let at_once = if stream_count.is_none() { at_once.max(1) } else { 1 };
        let like = Like { is_write, byte_count, is_behind_read, stream_count, at_once };
        *self.counts.entry(like).or_default() += 1;
    }
}

impl Streams {
    /// Notes a request. Where it goes on with a stream, says how many take turns: one where the last request
    /// was of the same.
    fn note(&mut self, access: &Access, may_pass_over: bool) -> Option<u64> {
        let offset = access.offset_bytes;
        let mut found = self.ends.iter().rposition(|&(end, _)| end == offset);
        let goes_on = found.is_some();
        let is_same = found.is_some_and(|at| at + 1 == self.ends.len());
        if !goes_on && may_pass_over {
            let gap_max = GAP_COUNT_MAX * u64::from(access.byte_count);
            let is_behind = |&(end, _): &(u64, u64)| end < offset && offset - end <= gap_max;
            found = self.ends.iter().rposition(is_behind);
        }
        let number = match found {
            Some(at) => self.ends.remove(at).expect("it was found").1,
            None => {
                self.next_number += 1;
                self.next_number
            }
        };
        if self.ends.len() == STREAM_COUNT_MAX {
            self.ends.pop_front();
        }
        self.ends.push_back((access.end_bytes(), number));
        if self.recent.len() == RECENT_COUNT
            && let Some(oldest) = self.recent.pop_front()
        {
            self.recent_count -= u64::from(!self.recent.contains(&oldest));
        }
        self.recent_count += u64::from(!self.recent.contains(&number));
        self.recent.push_back(number);
        goes_on.then_some(if is_same { 1 } else { self.recent_count })
    }
}
