//! The buffer pool as an estimate sees it: the replacement that the real one has, fed with pages
//! that nobody reads. Which of them are still there decides what an index join costs, and no closed
//! form knows that of a replacement with two queues and of batches that are sorted each.
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
    /// More than so many are read by several calls.
    pub(super) call_max: u64,
}

impl Batch {
    /// The batch of tables so many times larger, and how many calls read a part of it each.
    pub(super) fn enlarged(self, scale: u64) -> (Self, u64) {
        let large = |small: u64| small.saturating_mul(scale);
        // Where one piece ends the next begins: of so many runs, some continue another one. A single run that is
        // so many times longer is one run yet.
        let all_count = (self.alone_count + self.run_count).max(1);
        let joined_count = (scale - 1) * self.run_count / all_count;
        let page_count = large(self.page_count);
        let calls = page_count.div_ceil(self.call_max).max(1);
        let large = Self {
            span_pages: large(self.span_pages) / calls,
            page_count: page_count / calls,
            alone_count: large(self.alone_count) / calls,
            run_count: (large(self.run_count) - joined_count).div_ceil(calls),
            call_max: self.call_max,
        };
        (large, calls)
    }

    /// Reads of the page behind the one before.
    pub(super) const fn neighbour_count(&self) -> u64 {
        self.page_count.saturating_sub(self.alone_count + self.run_count)
    }
}

/// A pool without pages.
pub(super) struct PoolInSmall {
    replacement: Box<dyn Replacement>,
    needs_every_hit: bool,
    bits: Bits,
    /// The page in each frame.
    words: Vec<u64>,
    frames: FixedHashMap<u64, u32>,
    frame_count: usize,
    read_count: u64,
    /// Pages that rows were taken from.
    visit_count: u64,
    calls: BTreeMap<Batch, u64>,
    missing: Vec<u64>,
}

impl PoolInSmall {
    /// A pool of `frame_count` frames that holds no page.
    pub(super) fn new(frame_count: u64, kind: ReplacementKind) -> Self {
        let frame_count = frame_count.clamp(FRAME_COUNT_MIN, 1 << 24);
        Self {
            replacement: kind.build(to_u32(frame_count)),
            needs_every_hit: kind.needs_every_hit(),
            bits: Bits(vec![Cell::new(false); to_index(frame_count)]),
            words: Vec::new(),
            frames: FixedHashMap::default(),
            frame_count: to_index(frame_count),
            read_count: 0,
            visit_count: 0,
            calls: BTreeMap::new(),
            missing: Vec::new(),
        }
    }

    /// Somebody wants some pages at once, of tables in full size at most so many: those that are there come first,
    /// then the others.
    pub(super) fn want(&mut self, words: impl Iterator<Item = u64>, call_max: u64) {
        let mut missing = std::mem::take(&mut self.missing);
        for word in words {
            match self.frames.get(&word) {
                Some(&frame) => {
                    self.bits.0[frame as usize].set(true);
                    if self.needs_every_hit {
                        self.replacement.touch(frame);
                    }
                }
                None => missing.push(word),
            }
        }
        if let (Some(first), Some(last)) = (missing.iter().min(), missing.iter().max()) {
            let mut batch = Batch {
                span_pages: last - first + 1,
                page_count: missing.len() as u64,
                alone_count: 0,
                run_count: 0,
                call_max,
            };
            for run in missing.chunk_by(|page, next| page + 1 == *next) {
                let runs =
                    if run.len() == 1 { &mut batch.alone_count } else { &mut batch.run_count };
                *runs += 1;
            }
            *self.calls.entry(batch).or_insert(0) += 1;
        }
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

    /// Calls that read, and how many of each kind.
    pub(super) const fn calls(&self) -> &BTreeMap<Batch, u64> {
        &self.calls
    }

    /// Calls in which some were.
    #[cfg(test)]
    fn call_count(&self) -> u64 {
        self.calls.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_read_and_what_left_is() {
        let mut pool = PoolInSmall::new(10, ReplacementKind::TwoQ);
        pool.want(0..10, u64::MAX);
        pool.want(0..10, u64::MAX);
        assert_eq!((pool.read_count(), pool.call_count()), (10, 1));
        for word in 10..30 {
            pool.want(std::iter::once(word), u64::MAX);
        }
        assert_eq!((pool.read_count(), pool.call_count()), (30, 21));
        assert_eq!((pool.frames.len(), pool.words.len()), (10, 10));
    }

    #[test]
    fn a_batch_in_small_stands_for_as_many_calls_as_read_it_in_full_size() {
        let batch = |page_count, alone_count, run_count, call_max| Batch {
            span_pages: page_count * 10,
            page_count,
            alone_count,
            run_count,
            call_max,
        };
        // One run is one run, however long; of many few meet.
        assert_eq!(batch(8, 0, 1, u64::MAX).enlarged(4), (batch(32, 0, 1, u64::MAX), 1));
        let (large, calls) = batch(100, 20, 20, u64::MAX).enlarged(4);
        assert_eq!((large.page_count, large.alone_count, large.run_count, calls), (400, 80, 79, 1));
        // Two leaves of a walk in small are the run of 128 that four calls read.
        let (large, calls) = batch(2, 0, 1, 32).enlarged(64);
        assert_eq!((large.page_count, large.alone_count, large.run_count, calls), (32, 0, 1, 4));
        assert_eq!(large.neighbour_count(), 31);
        // Where nobody reads ahead each page is a call.
        let (large, calls) = batch(1, 1, 0, 1).enlarged(64);
        assert_eq!((large.page_count, large.alone_count, calls), (1, 1, 64));
    }
}
