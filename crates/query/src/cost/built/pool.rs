//! The buffer pool as an estimate sees it: the replacement of the real one, fed with pages that nobody reads.
//! Which of them are still there decides what an index join costs, and no closed form knows that of a
//! replacement with two queues and of batches that are sorted each.
//!
//! 1. As many pages are resident as have frames, and each once.

use nandu_base::{FixedHashMap, to_index, to_u32};
use nandu_storage::pool::{ReferenceBits, Replacement, ReplacementKind};
use std::cell::Cell;
use std::collections::BTreeMap;

/// Frames of the smallest pool.
const FRAME_COUNT_MIN: u64 = 3;

/// Which frames were wanted since the replacement looked last.
struct Bits(Vec<Cell<bool>>);

impl ReferenceBits for Bits {
    fn take_reference(&self, frame: u32) -> bool {
        self.0[frame as usize].replace(false)
    }
}

/// Pages that are read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Batch {
    /// From the first to the last.
    pub(super) span_pages: u64,
    pub(super) page_count: u64,
    /// Those that have no neighbour.
    pub(super) alone_count: u64,
    /// The others, in so many runs of neighbours.
    pub(super) run_count: u64,
}

/// A pool without pages.
pub(super) struct PoolInSmall {
    replacement: Box<dyn Replacement>,
    bits: Bits,
    /// The page in each frame.
    words: Vec<u64>,
    frames: FixedHashMap<u64, u32>,
    frame_count: usize,
    read_count: u64,
    /// Pages that rows were taken from.
    visit_count: u64,
    call_count: u64,
    neighbour_count: u64,
    calls: BTreeMap<Batch, u64>,
    missing: Vec<u64>,
}

impl PoolInSmall {
    /// An empty one.
    pub(super) fn new(frame_count: u64) -> Self {
        let frame_count = frame_count.clamp(FRAME_COUNT_MIN, 1 << 24);
        Self {
            replacement: ReplacementKind::default().build(to_u32(frame_count)),
            bits: Bits(vec![Cell::new(false); to_index(frame_count)]),
            words: Vec::new(),
            frames: FixedHashMap::default(),
            frame_count: to_index(frame_count),
            read_count: 0,
            visit_count: 0,
            call_count: 0,
            neighbour_count: 0,
            calls: BTreeMap::new(),
            missing: Vec::new(),
        }
    }

    /// Somebody wants some pages at once: those that are there come first, then the others.
    pub(super) fn want(&mut self, words: impl Iterator<Item = u64>) {
        let mut missing = std::mem::take(&mut self.missing);
        for word in words {
            match self.frames.get(&word) {
                Some(&frame) => self.bits.0[frame as usize].set(true),
                None => missing.push(word),
            }
        }
        if let (Some(first), Some(last)) = (missing.iter().min(), missing.iter().max()) {
            self.call_count += 1;
            let mut batch = Batch {
                span_pages: last - first + 1,
                page_count: missing.len() as u64,
                alone_count: 0,
                run_count: 0,
            };
            for run in missing.chunk_by(|page, next| page + 1 == *next) {
                let runs =
                    if run.len() == 1 { &mut batch.alone_count } else { &mut batch.run_count };
                *runs += 1;
            }
            *self.calls.entry(batch).or_insert(0) += 1;
        }
        let neighbours = missing.windows(2).filter(|pair| pair[0] + 1 == pair[1]);
        self.neighbour_count += neighbours.count() as u64;
        for word in missing.drain(..) {
            self.read(word);
        }
        self.missing = missing;
    }

    /// Rows are taken from so many pages.
    pub(super) const fn note_visits(&mut self, count: u64) {
        self.visit_count += count;
    }

    /// How often rows were taken from a page.
    pub(super) const fn visit_count(&self) -> u64 {
        self.visit_count
    }

    /// Somebody read pages before.
    pub(super) fn preload(&mut self, words: impl Iterator<Item = u64>) {
        for word in words {
            if !self.frames.contains_key(&word) {
                self.admit(word);
            }
        }
    }

    fn read(&mut self, word: u64) {
        self.read_count += 1;
        self.admit(word);
    }

    fn admit(&mut self, word: u64) {
        let frame = if self.words.len() < self.frame_count {
            self.words.push(word);
            to_u32(self.words.len() as u64 - 1)
        } else {
            let victim = self.replacement.victim(&self.bits, &mut |_| true);
            let frame = victim.expect("every page may leave");
            self.replacement.remove(frame, true);
            self.frames.remove(&self.words[frame as usize]);
            self.words[frame as usize] = word;
            frame
        };
        self.bits.0[frame as usize].set(false);
        self.frames.insert(word, frame);
        self.replacement.admit(frame, word);
    }

    /// Pages that were read.
    pub(super) const fn read_count(&self) -> u64 {
        self.read_count
    }

    /// Those of them that lie behind the page that was read before, in one call.
    pub(super) const fn neighbour_count(&self) -> u64 {
        self.neighbour_count
    }

    /// Calls that read, and how many of each kind.
    pub(super) const fn calls(&self) -> &BTreeMap<Batch, u64> {
        &self.calls
    }

    /// Calls in which some were.
    pub(super) const fn call_count(&self) -> u64 {
        self.call_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_read_and_what_left_is() {
        let mut pool = PoolInSmall::new(10);
        pool.want(0..10);
        pool.want(0..10);
        assert_eq!((pool.read_count(), pool.call_count()), (10, 1));
        for word in 10..30 {
            pool.want(std::iter::once(word));
        }
        assert_eq!((pool.read_count(), pool.call_count()), (30, 21));
        assert_eq!((pool.frames.len(), pool.words.len()), (10, 10));
    }
}
