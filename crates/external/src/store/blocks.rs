//! The blocks of one structure, first to last, in extents that grow with it.
//!
//! ```text
//!   head ─────────────────────────────── tail          counted from when it was made
//!   [ e e e h h ][ . . . . . . ][ . . t t t t ]        extents: the first begun, the last not full
//! ```
//!
//! 1. Extents hold the blocks from head to tail in order, without a gap; no extent is without one
//!    of them.
//! 2. What the structure does not hold any more is given back: at the front block by block (where
//!    blocks go round several volumes, round by round), at the back extent by extent, the rest when
//!    it is dropped.

use super::{Extent, Store};
use crate::ExternalError;
use std::collections::VecDeque;

/// Extents are not made longer than this.
const EXTENT_BYTES_MAX: u64 = 64 << 20;

/// Where a block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its number in the store.
    pub(crate) block: u64,
    /// The stamp of its extent.
    pub(crate) stamp: u32,
}

/// An extent, and the number in the structure of the block with which it begins.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: u64,
    extent: Extent,
}

impl Piece {
    const fn end(&self) -> u64 {
        self.start + self.extent.count
    }
}

/// The blocks of one structure.
#[derive(Debug)]
pub(crate) struct Blocks {
    store: Store,
    pieces: VecDeque<Piece>,
    head: u64,
    tail: u64,
    /// How many blocks there will be, as far as is known.
    expected: u64,
}

impl Blocks {
    /// None yet, of the `expected` that there will be, 0 if nobody knows.
    pub(crate) fn new(store: &Store, expected: u64) -> Self {
        let (store, pieces) = (store.clone(), VecDeque::new());
        Self { store, pieces, head: 0, tail: 0, expected }
    }

    /// Those of a structure that was kept, if these extents have so many.
    pub(crate) fn kept(store: &Store, extents: &[Extent], count: u64) -> Option<Self> {
        let (mut blocks, mut start) = (Self::new(store, 0), 0_u64);
        for &extent in extents {
            if start >= count {
                return None;
            }
            blocks.pieces.push_back(Piece { start, extent });
            start = start.checked_add(extent.count)?;
        }
        blocks.tail = count;
        (count..count + blocks.unit()).contains(&start).then_some(blocks)
    }

    /// Where they lie, first to last.
    pub(crate) fn extents(&self) -> Vec<Extent> {
        assert_eq!(self.head, 0, "what is kept was not read away");
        self.pieces.iter().map(|piece| piece.extent).collect()
    }

    pub(crate) const fn store(&self) -> &Store {
        &self.store
    }

    /// How many there are.
    pub(crate) const fn len(&self) -> u64 {
        self.tail - self.head
    }

    /// Where the block `index` lies, counted from the first that there is.
    pub(crate) fn place(&self, index: u64) -> Place {
        assert!(index < self.len(), "a structure asks for blocks that it has");
        let at = self.head + index;
        let after = self.pieces.partition_point(|piece| piece.start <= at);
        let piece = &self.pieces[after - 1];
        Place { block: piece.extent.first + (at - piece.start), stamp: piece.extent.stamp }
    }

    /// Appends a block.
    pub(crate) fn push_back(&mut self) -> Result<Place, ExternalError> {
        if self.pieces.back().is_none_or(|piece| piece.end() == self.tail) {
            let longest = (EXTENT_BYTES_MAX / self.store.block_bytes()).max(1);
            let wanted = match self.expected.checked_sub(self.tail) {
                Some(left @ 1..) => left,
                _ => self.len(),
            };
            let extent = self.store.allocate(wanted.clamp(1, longest))?;
            self.pieces.push_back(Piece { start: self.tail, extent });
        }
        self.tail += 1;
        Ok(self.place(self.len() - 1))
    }

    /// Removes the last block, whose place it says, and may be the next to be given out again.
    pub(crate) fn pop_back(&mut self) -> Option<Place> {
        let last = self.len().checked_sub(1)?;
        let place = self.place(last);
        self.tail -= 1;
        self.release_back();
        Some(place)
    }

    /// Removes the first block.
    pub(crate) fn pop_front(&mut self) {
        assert!(self.len() > 0, "a structure removes blocks that it has");
        self.head += 1;
        let unit = self.unit();
        let front = self.pieces.front_mut().expect("blocks lie in extents");
        let Extent { first, count, stamp } = front.extent;
        if self.head - front.start >= unit {
            self.store.release(Extent { first, count: unit, stamp });
            front.start += unit;
            front.extent = Extent { first: first + unit, count: count - unit, stamp };
            if front.extent.count == 0 {
                self.pieces.pop_front();
            }
        }
        self.release_back();
    }

    /// Extents have a multiple of so many blocks.
    fn unit(&self) -> u64 {
        self.store.shared.lanes.len() as u64
    }

    /// Gives back the rest of the last extent: nothing will be appended.
    pub(crate) fn finish(&mut self) {
        let unit = self.unit();
        let Some(piece) = self.pieces.back_mut() else { return };
        let used = (self.tail - piece.start).next_multiple_of(unit);
        let rest = Extent {
            first: piece.extent.first + used,
            count: piece.extent.count - used,
            stamp: piece.extent.stamp,
        };
        piece.extent.count = used;
        self.store.release(rest);
    }

    fn release_back(&mut self) {
        let is_unused = |piece: &Piece| piece.start >= self.tail || self.head == self.tail;
        if self.pieces.back().is_some_and(is_unused) {
            let piece = self.pieces.pop_back().expect("there is a last one");
            self.store.release(piece.extent);
        }
    }

    /// Asserts invariant 1.
    pub(crate) fn audit(&self) {
        assert!(self.head <= self.tail, "invariant 1");
        let mut at = None;
        for piece in &self.pieces {
            assert!(at.is_none_or(|at| at == piece.start), "invariant 1: no gap");
            assert!(piece.start < self.tail && self.head < piece.end(), "invariant 1: in use");
            at = Some(piece.end());
        }
        let first = self.pieces.front().map(|piece| piece.start);
        assert!(first.is_none_or(|first| first <= self.head), "invariant 1: from the head");
        assert!(
            self.len() == 0 || at.is_some_and(|end| end >= self.tail),
            "invariant 1: to the tail"
        );
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        for piece in &self.pieces {
            self.store.release(piece.extent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::store;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_come_and_go_at_both_ends(
            volumes in 1_usize..4, expected in 0_u64..40,
            steps in proptest::collection::vec((0_u8..4, 1_u64..12), 0..60),
        ) {
            let store = store(512, volumes, 0);
            let mut blocks = Blocks::new(&store, expected);
            let mut model = VecDeque::new();
            for (step, count) in steps {
                for _ in 0..count {
                    match step {
                        0 | 1 => model.push_back(blocks.push_back().unwrap()),
                        2 => prop_assert_eq!(blocks.pop_back(), model.pop_back()),
                        _ if model.pop_front().is_some() => blocks.pop_front(),
                        _ => {}
                    }
                    blocks.audit();
                }
                let places = (0..blocks.len()).map(|index| blocks.place(index));
                prop_assert!(places.eq(model.iter().copied()));
                store.audit();
                prop_assert!(store.used_blocks() >= blocks.len());
            }
            blocks.finish();
            blocks.audit();
            drop(blocks);
            prop_assert_eq!(store.used_blocks(), 0);
        }
    }
}
