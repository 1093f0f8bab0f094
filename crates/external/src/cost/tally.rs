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

use super::{Access, Probed, Requests};
use std::collections::{BTreeMap, VecDeque};

/// Streams of one direction that are known at a time: as many as a merge has in 256 blocks of memory.
const STREAM_COUNT_MAX: usize = 256;
/// Requests by which it is told how many streams take turns.
const RECENT_COUNT: usize = 64;
/// A read of several on their way that passes over no more than so many goes on with its stream, though
/// not where that ended.
const GAP_COUNT_MAX: u64 = 64;

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
}

/// What a volume was asked.
#[derive(Clone, Debug, Default)]
struct OfVolume {
    counts: BTreeMap<Like, u64>,
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
        Self { probed, volumes: Vec::new() }
    }

    /// How many requests were counted.
    #[must_use]
    pub fn request_count(&self) -> u64 {
        self.volumes.iter().flat_map(|volume| volume.counts.values()).sum()
    }

    /// How long they take, in nanoseconds.
    #[must_use]
    pub fn time_ns(&self) -> u64 {
        let of_volume = |volume: &OfVolume| {
            let time_of = |(like, &count): (&Like, &u64)| {
                self.probed.time_ns(like, volume.area_bytes).saturating_mul(count)
            };
            volume.counts.iter().map(time_of).fold(0, u64::saturating_add)
        };
        self.volumes.iter().map(of_volume).max().unwrap_or(0)
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
    /// Notes a request. Where it goes on with a stream, says how many take turns.
    fn note(&mut self, access: &Access, may_pass_over: bool) -> Option<u64> {
        let offset = access.offset_bytes;
        let mut found = self.ends.iter().rposition(|&(end, _)| end == offset);
        let goes_on = found.is_some();
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
        goes_on.then_some(self.recent_count)
    }
}
