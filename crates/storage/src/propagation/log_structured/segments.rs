//! The segments of the file: what state each is in, and how much of it is live.
//!
//! ```text
//!   free ──► named (a frontier goes there next) ──► open ──► closed ──► empty ──► free
//!     └──────────────────────────────────────────────┘         └ cleaned ┘
//! ```
//!
//! 1. Each segment's live bytes are those of the records in it that the map refers to.
//! 2. Free and named segments hold nothing live, and nobody could ever want them again: neither the
//!    durable map, nor the map that is rebuilt from it and the writes that are durable.
//! 3. So a segment that became empty is free only when the write that emptied it is durable, and when
//!    it is not part of the chain of writes since the last checkpoint.
//! 4. `free`, the counts and the states agree.

use super::record::Location;
use super::victim::Candidate;
use nandu_base::{to_index, to_u32};
use std::collections::BTreeSet;

/// What a segment is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentState {
    Free,
    Named,
    Open,
    Closed,
    Empty,
}

/// What is known of one segment: its state and its live bytes.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) state: SegmentState,
    pub(super) live_bytes: u32,
    /// Bytes of the partial segments in it.
    pub(super) used_bytes: u32,
    /// The last write into it.
    pub(super) written_at: u64,
    /// The last write that made a record of it obsolete.
    pub(super) changed_at: u64,
    /// All that was live was copied; it is empty when the copies are written.
    pub(super) is_cleaned: bool,
    /// It could not be read, and is not tried again before the next checkpoint.
    pub(super) is_stuck: bool,
}

/// All segments, by number, with those that can be written.
#[derive(Clone, Debug)]
pub(super) struct SegmentTable {
    segment_bytes: u32,
    segments: Vec<Segment>,
    free: BTreeSet<u32>,
    empty_count: u32,
    cleaned_count: u32,
    live_bytes: u64,
}

impl SegmentTable {
    /// A table without any segment yet.
    pub(super) const fn new(segment_bytes: u32) -> Self {
        Self {
            segment_bytes,
            segments: Vec::new(),
            free: BTreeSet::new(),
            empty_count: 0,
            cleaned_count: 0,
            live_bytes: 0,
        }
    }

    pub(super) fn count(&self) -> u32 {
        to_u32(self.segments.len() as u64)
    }

    /// Bytes of all records that the map refers to.
    pub(super) const fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub(super) fn free_count(&self) -> u32 {
        to_u32(self.free.len() as u64)
    }

    /// Segments that are free or will be without further cleaning.
    pub(super) fn supply_count(&self) -> u32 {
        self.free_count() + self.empty_count + self.cleaned_count
    }

    /// Segments that are empty, but not free yet.
    pub(super) const fn empty_count(&self) -> u32 {
        self.empty_count
    }

    pub(super) fn get(&self, segment: u32) -> &Segment {
        &self.segments[segment as usize]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter()
    }

    /// The segment that a record lies in.
    pub(super) fn of(&self, location: Location) -> u32 {
        to_u32(location.offset_bytes() / u64::from(self.segment_bytes))
    }

    /// One more segment, free, at the end.
    pub(super) fn grow(&mut self) {
        self.free.insert(self.count());
        self.segments.push(Segment {
            state: SegmentState::Free,
            live_bytes: 0,
            used_bytes: 0,
            written_at: 0,
            changed_at: 0,
            is_cleaned: false,
            is_stuck: false,
        });
    }

    /// Cuts free segments off the end, down to `count` at least; true if there were any.
    pub(super) fn cut(&mut self, count: u32) -> bool {
        let before = self.count();
        while self.count() > count && self.free.remove(&(self.count() - 1)) {
            self.segments.pop();
        }
        self.count() < before
    }

    /// Names a free segment for a frontier, the first in the file, if more than `kept` are free.
    pub(super) fn name(&mut self, kept: u32) -> Option<u32> {
        if self.free_count() <= kept {
            return None;
        }
        let segment = self.free.pop_first()?;
        self.segments[segment as usize].state = SegmentState::Named;
        Some(segment)
    }

    /// Opens a named segment for writing.
    pub(super) fn open(&mut self, segment: u32) {
        let known = &mut self.segments[segment as usize];
        assert_eq!(known.state, SegmentState::Named, "a segment is named before it is opened");
        known.state = SegmentState::Open;
        known.used_bytes = 0;
    }

    /// Ends an open segment.
    pub(super) fn close(&mut self, segment: u32) {
        let known = &mut self.segments[segment as usize];
        assert_eq!(known.state, SegmentState::Open, "only an open segment is closed");
        known.state = SegmentState::Closed;
        self.settle(segment);
    }

    /// Notes a partial segment that ends at `used_bytes`, in the write `sequence`.
    pub(super) fn note_write(&mut self, segment: u32, used_bytes: u32, sequence: u64) {
        let known = &mut self.segments[segment as usize];
        known.used_bytes = used_bytes;
        known.written_at = sequence;
        known.changed_at = sequence;
    }

    /// Takes over what a checkpoint knows of a segment; `None` of one that it does not know. Until
    /// [`Self::set_states`] all are open.
    pub(super) fn restore(&mut self, known: Option<(u32, u64, u64)>) {
        let segment = self.count();
        self.grow();
        self.free.remove(&segment);
        let restored = &mut self.segments[segment as usize];
        restored.state = SegmentState::Open;
        if let Some((used_bytes, written_at, changed_at)) = known {
            (restored.used_bytes, restored.written_at) = (used_bytes, written_at);
            restored.changed_at = changed_at;
        }
    }

    /// After all was restored: the open and the named segments of the frontiers; the others are closed.
    pub(super) fn set_states(&mut self, open: &[u32], named: &[u32]) {
        for segment in 0..self.count() {
            let state = if open.contains(&segment) {
                SegmentState::Open
            } else if named.contains(&segment) {
                SegmentState::Named
            } else {
                SegmentState::Closed
            };
            self.segments[segment as usize].state = state;
            self.settle(segment);
        }
    }

    pub(super) fn add_live(&mut self, location: Location) {
        let segment = self.of(location);
        self.segments[segment as usize].live_bytes += location.stored_bytes();
        self.live_bytes += u64::from(location.stored_bytes());
    }

    /// Whether a record that an image names can lie where it says.
    pub(super) fn has_room_for(&self, location: Location) -> bool {
        let file_bytes = u64::from(self.count()) * u64::from(self.segment_bytes);
        let live_bytes = || self.get(self.of(location)).live_bytes;
        location.end() <= file_bytes && live_bytes() + location.stored_bytes() <= self.segment_bytes
    }

    /// A record became obsolete through the write `sequence`.
    pub(super) fn remove_live(&mut self, location: Location, sequence: u64) {
        let segment = self.of(location);
        let known = &mut self.segments[segment as usize];
        let left = known.live_bytes.checked_sub(location.stored_bytes());
        known.live_bytes = left.expect("invariant 1: the record was live");
        known.changed_at = sequence;
        self.live_bytes -= u64::from(location.stored_bytes());
        self.settle(segment);
    }

    /// Calls a closed segment empty when it is.
    pub(super) fn settle(&mut self, segment: u32) {
        let known = &mut self.segments[segment as usize];
        if known.state == SegmentState::Closed && known.live_bytes == 0 {
            known.state = SegmentState::Empty;
            self.empty_count += 1;
            self.cleaned_count -= u32::from(known.is_cleaned);
            known.is_cleaned = false;
        }
    }

    /// Notes that all that is live in a segment was copied.
    pub(super) fn note_cleaned(&mut self, segment: u32) {
        let known = &mut self.segments[segment as usize];
        if known.state == SegmentState::Closed && !known.is_cleaned {
            known.is_cleaned = true;
            self.cleaned_count += 1;
        }
    }

    /// Lets a segment be, or tries all again.
    pub(super) fn set_stuck(&mut self, segment: u32) {
        self.segments[segment as usize].is_stuck = true;
    }

    pub(super) fn clear_stuck(&mut self) {
        for segment in &mut self.segments {
            segment.is_stuck = false;
        }
    }

    /// Frees the empty segments that nobody could want again (invariant 3): emptied by a write up to
    /// `durable_sequence`, and themselves last written before `checkpoint_sequence`.
    pub(super) fn release(&mut self, durable_sequence: u64, checkpoint_sequence: u64) {
        if self.empty_count == 0 {
            return;
        }
        for (index, known) in (0_u64..).zip(&mut self.segments) {
            if known.state == SegmentState::Empty
                && known.changed_at <= durable_sequence
                && known.written_at < checkpoint_sequence
            {
                known.state = SegmentState::Free;
                self.empty_count -= 1;
                self.free.insert(to_u32(index));
            }
        }
    }

    /// The segments that may be cleaned and have at most `live_bytes_max`.
    pub(super) fn candidates(&self, live_bytes_max: u32) -> impl Iterator<Item = Candidate> {
        let is_candidate = move |known: &Segment| {
            known.state == SegmentState::Closed
                && !known.is_cleaned
                && !known.is_stuck
                && known.live_bytes <= live_bytes_max
        };
        (0_u64..).zip(&self.segments).filter(move |(_, known)| is_candidate(known)).map(
            |(index, known)| Candidate {
                segment: to_u32(index),
                live_bytes: known.live_bytes,
                written_at: known.written_at,
                changed_at: known.changed_at,
            },
        )
    }

    /// # Panics
    /// If an invariant does not hold; `locations` are those of the map, and the last checkpoint came before the
    /// write `checkpoint_sequence`.
    pub(super) fn audit(
        &self,
        locations: impl Iterator<Item = Location>,
        checkpoint_sequence: u64,
    ) {
        let mut live = vec![0_u64; self.segments.len()];
        let mut sorted: Vec<Location> = locations.collect();
        sorted.sort_unstable();
        for pair in sorted.windows(2) {
            assert!(pair[0].end() <= pair[1].offset_bytes(), "invariant 1: no record is shared");
        }
        for location in sorted {
            let segment = to_index(location.offset_bytes() / u64::from(self.segment_bytes));
            live[segment] += u64::from(location.stored_bytes());
        }
        let (mut empty_count, mut cleaned_count) = (0, 0);
        for (index, known) in (0_u64..).zip(&self.segments) {
            let found = live[to_index(index)];
            assert_eq!(found, u64::from(known.live_bytes), "invariant 1: segment {index}");
            let is_free = self.free.contains(&to_u32(index));
            assert_eq!(is_free, known.state == SegmentState::Free, "invariant 4: segment {index}");
            let is_in_chain = known.written_at >= checkpoint_sequence;
            let is_ready = matches!(known.state, SegmentState::Free | SegmentState::Named);
            assert!(!is_ready || !is_in_chain, "invariant 3: segment {index} is in the chain");
            match known.state {
                SegmentState::Free | SegmentState::Named | SegmentState::Empty => {
                    assert_eq!(found, 0, "invariant 2: segment {index}");
                }
                SegmentState::Closed => assert!(found > 0, "invariant 4: {index} is empty"),
                SegmentState::Open => {}
            }
            empty_count += u32::from(known.state == SegmentState::Empty);
            cleaned_count += u32::from(known.is_cleaned);
        }
        assert_eq!(empty_count, self.empty_count, "invariant 4: empty ones are counted");
        assert_eq!(cleaned_count, self.cleaned_count, "invariant 4: cleaned ones are counted");
        assert_eq!(live.iter().sum::<u64>(), self.live_bytes, "invariant 1: the sum");
    }
}
