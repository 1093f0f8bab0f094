//! Read-ahead and the segments it leaves behind.
//!
//! ```text
//!   segment  ├──────────┤                    what an earlier run left, oldest replaced first
//!   stream   ├──────────┬──────────┤         first .. cursor (time known) .. limit (time known)
//!                    host is here   └ the head stops reading ahead here
//! ```
//!
//! 1. Sectors of a stream before its cursor have passed under the head by the cursor's time, those
//!    before its limit by the limit's.
//! 2. Reading ahead costs nothing: whatever needs the arm ends it and keeps what has passed.
//! 3. A written sector is in no segment.
//! 4. A segment is at most twice as long as the head reads ahead.
//! 5. What passes under the head counts once, whether somebody waits for it or nobody: from the moment a
//!    stream begins to its limit, or to when the arm is needed.

use super::surface::Surface;
use nandu_base::Nanos;
use std::collections::VecDeque;

/// Sectors that the head is passing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stream {
    first: u64,
    /// How long sectors passed in the stretches before this one, and when this one begins.
    passed: Nanos,
    passes_from: Nanos,
    /// The next sector and when it begins.
    cursor: (u64, Nanos),
    /// The sector where read-ahead stops, and when it would begin.
    limit: (u64, Nanos),
}

impl Stream {
    /// Whether the head stands at the limit, which the platter has passed.
    fn is_stalled(&self, now: Nanos) -> bool {
        self.limit.1 < now
    }

    /// How long its sectors passed by `time`.
    fn passed_by(&self, time: Nanos) -> Nanos {
        self.passed + self.limit.1.min(time).saturating_sub(self.passes_from)
    }

    /// Reads on up to `target`, beyond the limit. A head that stands there has to wait until the
    /// platter comes round.
    fn reach(&mut self, surface: &Surface, target: u64, now: Nanos) {
        let (limit, mut begin) = self.limit;
        if limit >= target {
            return;
        }
        if self.is_stalled(now) {
            self.passed = self.passed_by(now);
            begin = now + surface.rotational_wait(&surface.locate(limit), now);
            self.passes_from = begin;
            self.cursor = (limit, begin);
        }
        let passed = surface.pass(limit, target - limit, begin);
        self.limit = (target, surface.begin_after(passed, target));
    }
}

/// The read side of a disk's cache.
#[derive(Clone, Debug)]
pub(crate) struct ReadCache {
    segment_count_max: usize,
    ahead: u64,
    device_end: u64,
    segments: VecDeque<(u64, u64)>,
    stream: Option<Stream>,
    /// How long sectors passed in streams that are over.
    passed: Nanos,
}

impl ReadCache {
    /// A cache of `segment_count_max` segments; read-ahead goes `ahead` sectors beyond a request.
    pub(crate) fn new(segment_count_max: u32, ahead: u64, device_end: u64) -> Self {
        let segment_count_max = segment_count_max as usize;
        let (segments, stream, passed) = (VecDeque::new(), None, Nanos::ZERO);
        Self { segment_count_max, ahead, device_end, segments, stream, passed }
    }

    /// How long sectors passed ahead of requests by `time`.
    pub(crate) fn passed_by(&self, time: Nanos) -> Nanos {
        self.passed + self.stream.map_or(Nanos::ZERO, |stream| stream.passed_by(time))
    }

    /// When the head comes to the end of its read-ahead, if nothing needs the arm before.
    pub(crate) fn streams_until(&self) -> Nanos {
        self.stream.map_or(Nanos::ZERO, |stream| stream.limit.1)
    }

    /// The head has read `first..end` for a request and is past it at `time`.
    pub(crate) fn start(&mut self, surface: &Surface, first: u64, end: u64, time: Nanos) {
        if self.segment_count_max == 0 {
            return;
        }
        self.forget(first, end, time);
        let limit = (end + self.ahead).min(self.device_end);
        let begin = surface.begin_after(time, end);
        let limit_time = surface.begin_after(surface.pass(end, limit - end, begin), limit);
        // A segment has a fixed size: of a request that is longer it keeps the last sectors.
        let first = first.max(end.saturating_sub(self.ahead));
        self.stream = Some(Stream {
            first,
            passed: Nanos::ZERO,
            passes_from: begin,
            cursor: (end, begin),
            limit: (limit, limit_time),
        });
    }

    /// When the last of the sectors `first..end` is in the cache, if it is or will be so at once;
    /// `patience` is how long a later sector is worth waiting for.
    pub(crate) fn hit(
        &mut self,
        surface: &Surface,
        first: u64,
        end: u64,
        now: Nanos,
        patience: Nanos,
    ) -> Option<Nanos> {
        if self.segments.iter().any(|&(start, stop)| start <= first && end <= stop) {
            return Some(now);
        }
        let stream = self.stream.as_mut()?;
        if first < stream.first || first > stream.limit.0 {
            return None;
        }
        if end <= stream.cursor.0 {
            return Some(now);
        }
        if end > stream.limit.0 {
            stream.reach(surface, end, now);
        }
        let (cursor, begin) = stream.cursor;
        let skipped = surface.pass(cursor, first.saturating_sub(cursor), begin);
        if skipped > now + patience {
            return None;
        }
        let available = surface.pass(cursor, end - cursor, begin);
        self.follow(surface, end, available, now);
        Some(available)
    }

    /// The host has read up to `end`, which had passed at `available`: read-ahead goes on from there.
    fn follow(&mut self, surface: &Surface, end: u64, available: Nanos, now: Nanos) {
        let stream = self.stream.expect("only a stream is followed");
        let target = (end + self.ahead).min(self.device_end);
        let mut moved = stream;
        moved.first = stream.first.max(end.saturating_sub(self.ahead));
        moved.cursor = (end, surface.begin_after(available, end));
        let runs_low = stream.limit.0 - end < self.ahead / 2;
        if moved.limit.0 < target && (!moved.is_stalled(now) || runs_low) {
            moved.reach(surface, target, now);
        }
        self.stream = Some(moved);
    }

    /// The arm is needed at `now`: the stream becomes a segment of what has passed. Returns the
    /// sector that the head stands before, if it was streaming.
    pub(crate) fn stop(&mut self, surface: &Surface, now: Nanos) -> Option<u64> {
        let stream = self.stream.take()?;
        self.passed += stream.passed_by(now);
        let (cursor, begin) = stream.cursor;
        let reached = cursor + surface.passed_by(cursor, stream.limit.0 - cursor, begin, now);
        self.segments.push_back((stream.first, reached));
        if self.segments.len() >= self.segment_count_max {
            self.segments.pop_front();
        }
        Some(reached)
    }

    /// Forgets `first..end`, because it was written or is read anew; a stream over them ends at `time`. When
    /// what passed at last began to, if there was one.
    pub(crate) fn forget(&mut self, first: u64, end: u64, time: Nanos) -> Option<Nanos> {
        self.segments.retain(|&(start, stop)| stop <= first || end <= start);
        let is_over = |stream: &mut Stream| first < stream.limit.0 && stream.first < end;
        let stream = self.stream.take_if(is_over)?;
        self.passed += stream.passed_by(time);
        Some(stream.passes_from)
    }

    /// Asserts invariant 1 and the bounds.
    pub(crate) fn audit(&self) {
        assert!(self.segments.len() <= self.segment_count_max);
        let longest = self.segments.iter().map(|(first, end)| end - first).max().unwrap_or(0);
        assert!(longest <= 2 * self.ahead, "invariant 4");
        if let Some(stream) = &self.stream {
            assert!(stream.first <= stream.cursor.0 && stream.cursor.0 <= stream.limit.0);
            assert!(stream.cursor.1 <= stream.limit.1, "the head passes the limit last");
            assert!(stream.limit.0 <= self.device_end);
        }
    }
}
