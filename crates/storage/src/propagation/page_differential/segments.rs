//! The segments of the file, by what can be done with each.
//!
//! ```text
//!   free ─ opened ─► open ─ left, or a write failed ─► closed ─ nothing is live, and that is known ─► free
//!     ▲                └─ its first write failed ─┐
//!     └────────────────────────────────────────────┘
//! ```
//!
//! 1. A segment has as many live bytes as the base pages that the table of pages names there, and the
//!    room of the differentials, and as many notes as are known to lie there.
//! 2. What a free segment had is not needed, whatever of the latest writes a power cut leaves: of the
//!    writes there and those that emptied it a durable one says that they were durable, so that recovery
//!    does not have to follow them one by one.

use nandu_base::{to_index, to_u32};
use std::collections::BTreeSet;

/// What may be done with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentState {
    /// It can be written.
    Free,
    /// It is being written.
    Open,
    /// It is written.
    Closed,
    /// It has nothing and never will: a part of it is bad.
    Lost,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) state: SegmentState,
    /// The sequence of the first write there; 0 if there was none.
    pub(super) opened_at: u64,
    pub(super) used_bytes: u32,
    pub(super) live_bytes: u32,
    pub(super) note_count: u32,
    /// Behind the last write there, and not before the last that took something away.
    changed_at: u64,
    /// The sequence of the last write that failed there; 0 if none did.
    failed_at: u64,
    /// Cleaning copied what was live.
    pub(super) is_picked: bool,
}

#[derive(Debug)]
pub(super) struct Segments {
    segment_bytes: u32,
    segments: Vec<Segment>,
    /// By their turns.
    free: BTreeSet<(u64, u32)>,
    /// Closed ones where nothing is live.
    empty: BTreeSet<u32>,
}

impl Segment {
    /// Free segments are opened by their turns: that which was opened longest ago first, and one where a
    /// write failed behind all others.
    fn turn(&self) -> u64 {
        self.opened_at.max(self.failed_at)
    }
}

impl Segments {
    pub(super) const fn new(segment_bytes: u32) -> Self {
        Self { segment_bytes, segments: Vec::new(), free: BTreeSet::new(), empty: BTreeSet::new() }
    }

    pub(super) fn count(&self) -> u32 {
        to_u32(self.segments.len() as u64)
    }

    pub(super) fn get(&self, segment: u32) -> &Segment {
        &self.segments[segment as usize]
    }

    /// The segment in which a byte of the file lies.
    pub(super) fn of(&self, offset_bytes: u64) -> u32 {
        to_u32(offset_bytes / u64::from(self.segment_bytes))
    }

    /// How many can be written once what was written is durable.
    pub(super) fn supply_count(&self) -> u32 {
        to_u32((self.free.len() + self.empty.len()) as u64)
    }

    pub(super) fn free_count(&self) -> u32 {
        to_u32(self.free.len() as u64)
    }

    /// One more, as it was found: with the sequences of its first write and its last, 0 if there is none,
    /// and what is used of it.
    pub(super) fn push(&mut self, (opened_at, last_sequence): (u64, u64), used_bytes: u32) {
        let index = self.count();
        self.segments.push(Segment {
            state: SegmentState::Free,
            opened_at,
            used_bytes,
            live_bytes: 0,
            note_count: 0,
            changed_at: if last_sequence == 0 { 0 } else { last_sequence + 1 },
            failed_at: 0,
            is_picked: false,
        });
        self.free.insert((opened_at, index));
    }

    /// One more that can have nothing.
    pub(super) fn push_lost(&mut self) {
        self.push((0, 0), 0);
        let (opened_at, index) = (0, self.count() - 1);
        self.free.remove(&(opened_at, index));
        self.segments[index as usize].state = SegmentState::Lost;
    }

    /// An open one that nothing was written to can have nothing.
    pub(super) fn lose(&mut self, index: u32) {
        let segment = &mut self.segments[index as usize];
        (segment.state, segment.opened_at) = (SegmentState::Lost, 0);
    }

    /// Everything that is live is known: what holds some of it is closed, and so is what recovery might
    /// need once more, since nothing durable says more than that the writes up to `claimed_sequence` are.
    pub(super) fn settle(&mut self, claimed_sequence: u64) {
        for index in 0..self.count() {
            let segment = &mut self.segments[index as usize];
            let is_empty = segment.live_bytes == 0 && segment.note_count == 0;
            let is_lost = segment.state == SegmentState::Lost;
            if !is_lost && (!is_empty || segment.changed_at > claimed_sequence) {
                segment.state = SegmentState::Closed;
                self.free.remove(&(segment.turn(), index));
                self.note_if_empty(index);
            }
        }
    }

    /// Opens the free segment whose turn it is, unless no more than `kept_count` are free.
    pub(super) fn open(&mut self, kept_count: u32) -> Option<u32> {
        if self.free_count() <= kept_count {
            return None;
        }
        let (_, index) = self.free.pop_first()?;
        let segment = &mut self.segments[index as usize];
        segment.state = SegmentState::Open;
        segment.used_bytes = 0;
        segment.is_picked = false;
        Some(index)
    }

    /// A write ends at `used_bytes` of an open segment.
    pub(super) fn note_write(&mut self, index: u32, used_bytes: u32, sequence: u64) {
        let segment = &mut self.segments[index as usize];
        if segment.used_bytes == 0 {
            segment.opened_at = sequence;
        }
        segment.used_bytes = used_bytes;
        segment.changed_at = segment.changed_at.max(sequence + 1);
    }

    /// Nothing more is written there.
    pub(super) fn close(&mut self, index: u32) {
        self.segments[index as usize].state = SegmentState::Closed;
        self.note_if_empty(index);
    }

    /// The write of that sequence failed there, and may be there or not: nothing is written behind it. If it
    /// was the first of the segment, that is as free as it was; what it had before may be there, too.
    pub(super) fn spoil(&mut self, index: u32, sequence: u64) {
        let segment = &mut self.segments[index as usize];
        segment.failed_at = sequence;
        if segment.opened_at == 0 {
            segment.opened_at = sequence;
        }
        if segment.used_bytes == 0 {
            segment.state = SegmentState::Free;
            self.free.insert((segment.turn(), index));
        } else {
            segment.changed_at = segment.changed_at.max(sequence + 1);
            self.close(index);
        }
    }

    fn note_if_empty(&mut self, index: u32) {
        let segment = &self.segments[index as usize];
        let is_empty = segment.state == SegmentState::Closed
            && segment.live_bytes == 0
            && segment.note_count == 0;
        if is_empty {
            self.empty.insert(index);
        }
    }

    pub(super) fn add_live(&mut self, offset_bytes: u64, bytes: u32) {
        let index = self.of(offset_bytes);
        self.segments[index as usize].live_bytes += bytes;
        self.empty.remove(&index);
    }

    pub(super) fn remove_live(&mut self, offset_bytes: u64, bytes: u32, sequence: u64) {
        let index = self.of(offset_bytes);
        let segment = &mut self.segments[index as usize];
        segment.live_bytes -= bytes;
        segment.changed_at = segment.changed_at.max(sequence);
        self.note_if_empty(index);
    }

    pub(super) fn add_note(&mut self, index: u32) {
        self.segments[index as usize].note_count += 1;
        self.empty.remove(&index);
    }

    pub(super) fn remove_note(&mut self, index: u32, sequence: u64) {
        let segment = &mut self.segments[index as usize];
        segment.note_count -= 1;
        segment.changed_at = segment.changed_at.max(sequence);
        self.note_if_empty(index);
    }

    pub(super) fn set_picked(&mut self, index: u32) {
        self.segments[index as usize].is_picked = true;
    }

    /// It may be cleaned again.
    pub(super) fn unpick(&mut self, index: u32) {
        self.segments[index as usize].is_picked = false;
    }

    /// Frees what is empty, and was so before a write of which a later one, which is durable, says that it
    /// was.
    pub(super) fn release(&mut self, claimed_sequence: u64) {
        let Self { segments, empty, free, .. } = self;
        empty.retain(|&index| {
            let segment = &mut segments[index as usize];
            let is_needed = segment.changed_at > claimed_sequence;
            if !is_needed {
                segment.state = SegmentState::Free;
                free.insert((segment.turn(), index));
            }
            is_needed
        });
    }

    /// What was written into any segment was written at or after this sequence.
    pub(super) fn oldest_sequence(&self) -> u64 {
        let opened = self.segments.iter().map(|segment| segment.opened_at);
        opened.filter(|&opened_at| opened_at > 0).min().unwrap_or(u64::MAX)
    }

    /// The closed segment that was opened longest ago.
    pub(super) fn oldest_closed(&self) -> Option<u32> {
        self.candidates().min_by_key(|&index| self.get(index).opened_at)
    }

    /// The segment where cleaning gains most, if it gains so many bytes.
    pub(super) fn emptiest(&self, live_bytes_max: u32) -> Option<u32> {
        let gains = |index: &u32| self.get(*index).live_bytes <= live_bytes_max;
        self.candidates().filter(gains).min_by_key(|&index| self.get(index).live_bytes)
    }

    fn candidates(&self) -> impl Iterator<Item = u32> {
        let is_candidate = |segment: &Segment| {
            segment.state == SegmentState::Closed
                && !segment.is_picked
                && (segment.live_bytes > 0 || segment.note_count > 0)
        };
        (0..).zip(&self.segments).filter(move |(_, it)| is_candidate(it)).map(|(index, _)| index)
    }

    /// Takes the last segment away, if it is free.
    pub(super) fn cut(&mut self, count_max: u32) -> bool {
        let Some(last) = self.segments.last() else { return false };
        let is_cut = self.count() > count_max && last.state == SegmentState::Free;
        if is_cut {
            self.free.remove(&(last.turn(), self.count() - 1));
            self.segments.pop();
        }
        is_cut
    }

    /// Asserts the invariants; `live` are the places of all that is live, with their bytes, `notes` the
    /// segments of all notes.
    ///
    /// # Panics
    /// If one does not hold.
    pub(super) fn audit(
        &self,
        live: impl Iterator<Item = (u64, u32)>,
        notes: impl Iterator<Item = u32>,
    ) {
        let mut counts = vec![(0, 0); self.segments.len()];
        live.for_each(|(offset, bytes)| counts[to_index(self.of(offset).into())].0 += bytes);
        notes.for_each(|segment| counts[to_index(segment.into())].1 += 1);
        for (index, (segment, (live_bytes, note_count))) in
            (0..).zip(self.segments.iter().zip(counts))
        {
            assert_eq!(segment.live_bytes, live_bytes, "invariant 1: segment {index}");
            assert_eq!(segment.note_count, note_count, "invariant 1: segment {index}");
            let is_free = segment.state == SegmentState::Free;
            assert_eq!(is_free, self.free.contains(&(segment.turn(), index)));
            let has_none = is_free || segment.state == SegmentState::Lost;
            assert!(!has_none || live_bytes == 0 && note_count == 0, "invariant 2: {index}");
            let is_empty = segment.state == SegmentState::Closed && live_bytes + note_count == 0;
            assert_eq!(is_empty, self.empty.contains(&index), "empty segments are known");
        }
    }
}
