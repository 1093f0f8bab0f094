//! LRU and 2Q (Johnson and Shasha, VLDB 1994) over the pages that leave the pool: the replacements of the
//! pool itself, which hear of other uses here.
//!
//! ```text
//!   arrive ──► a frame and a slot; what leaves for it is written to its place before, if it is dirty,
//!              and so are dirty ones of those that would leave next
//!   read, arrive again ──► a use
//! ```
//!
//! 1. The replacement knows exactly the frames that have a copy.

use super::frames::Frames;
use super::{Access, Arrival, Step, TierConfig, TierCopies, TierCopy, TierPolicy};
use crate::pool::{ReferenceBits, Replacement, ReplacementKind};
use std::cell::Cell;

/// Dirty copies are looked for among so many times as many as may be written at a time.
const LOOK_FACTOR: u32 = 4;

/// Copies that leave as pages leave a pool.
pub struct ByReplacement {
    frames: Frames,
    replacement: Box<dyn Replacement>,
    needs_every_hit: bool,
    used: Bits,
    group: u32,
    writes_through: bool,
    upcoming: Vec<u32>,
}

/// Whether each frame was wanted since it was asked.
#[derive(Debug)]
struct Bits(Vec<Cell<bool>>);

impl ReferenceBits for Bits {
    fn take_reference(&self, frame: u32) -> bool {
        self.0[frame as usize].take()
    }
}

impl std::fmt::Debug for ByReplacement {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "ByReplacement({:?})", self.frames)
    }
}

impl ByReplacement {
    pub(super) fn new(kind: ReplacementKind, config: &TierConfig) -> Self {
        let frames = Frames::new(config);
        Self {
            replacement: kind.build(frames.frame_count()),
            needs_every_hit: kind.needs_every_hit(),
            used: Bits(vec![Cell::new(false); frames.frame_count() as usize]),
            group: config.group(),
            writes_through: config.writes_through,
            upcoming: Vec::with_capacity((LOOK_FACTOR * config.group()) as usize),
            frames,
        }
    }

    fn note_use(&mut self, frame: u32) {
        match self.needs_every_hit {
            true => self.replacement.touch(frame),
            false => self.used.0[frame as usize].set(true),
        }
    }

    fn make_room(&mut self, steps: &mut Vec<Step>) {
        if !self.frames.is_full() {
            return;
        }
        let victim = self.replacement.victim(&self.used, &mut |_| true);
        let victim = victim.expect("a full tier has copies, all of which may leave");
        if self.frames.get(victim).is_dirty {
            self.write_back(victim, steps);
        }
        self.replacement.remove(victim, true);
        self.frames.release(victim);
    }

    /// Has a copy written to its place, and others that will have to be soon.
    fn write_back(&mut self, victim: u32, steps: &mut Vec<Step>) {
        self.upcoming.clear();
        let look_count = (LOOK_FACTOR * self.group) as usize;
        self.replacement.upcoming(look_count, &mut self.upcoming);
        let others = self.upcoming.iter().copied().filter(|&frame| frame != victim);
        let mut left = self.group;
        for frame in std::iter::once(victim).chain(others) {
            let held = self.frames.get(frame);
            if left > 0 && held.is_dirty {
                steps.push(Step::WriteBack { page: held.page, slot: held.slot });
                self.frames.mark(frame, false);
                left -= 1;
            }
        }
    }
}

impl TierPolicy for ByReplacement {
    fn read(&mut self, page: u64, _access: Access) -> Option<u32> {
        let frame = self.frames.find(page)?;
        self.note_use(frame);
        Some(self.frames.get(frame).slot)
    }

    fn copies(&self) -> &dyn TierCopies {
        &self.frames
    }

    fn arrive(&mut self, arrival: Arrival, steps: &mut Vec<Step>) {
        let Arrival { page, is_changed, .. } = arrival;
        let is_dirty = is_changed && !self.writes_through;
        if is_changed && self.writes_through {
            steps.push(Step::Write);
        }
        match self.frames.find(page) {
            Some(_) if !is_changed => {}
            Some(frame) => {
                self.note_use(frame);
                let slot = self.frames.renew(frame, is_dirty);
                steps.push(Step::Fill { slot });
            }
            None => {
                self.make_room(steps);
                let (frame, slot) = self.frames.admit(page, is_dirty);
                self.used.0[frame as usize].set(false);
                self.replacement.admit(frame, page);
                steps.push(Step::Fill { slot });
            }
        }
    }

    fn forget(&mut self, page: u64) {
        if let Some(frame) = self.frames.find(page) {
            self.replacement.remove(frame, false);
            self.frames.release(frame);
        }
    }

    fn restore(&mut self, copies: &[TierCopy], _next_slot: u32) {
        for (frame, copy) in self.frames.restore(copies) {
            self.replacement.admit(frame, copy.page);
        }
    }

    fn audit(&self) {
        self.frames.audit();
        self.replacement.audit();
        let mut known = Vec::new();
        self.replacement.upcoming(self.frames.frame_count() as usize, &mut known);
        known.sort_unstable();
        known.dedup();
        assert_eq!(known.len(), self.frames.count() as usize, "the replacement knows all copies");
        for frame in known {
            let page = self.frames.get(frame).page;
            assert_eq!(self.frames.find(page), Some(frame), "and no others");
        }
    }
}
