//! Where the blocks of a structure lie that nobody writes: for who asks drives what an algorithm would ask,
//! and has nothing to put into the blocks.
//!
//! 1. Blocks are where those of a structure of a store would be that grew and went the same way.

use super::{Blocks, Store};
use crate::ExternalError;

/// The blocks of one structure, first to last.
#[derive(Debug)]
pub struct Layout {
    blocks: Blocks,
}

impl Layout {
    /// Without blocks, in the room of `store`.
    #[must_use]
    pub fn new(store: &Store) -> Self {
        Self { blocks: Blocks::new(store, 0) }
    }

    /// How many blocks there are.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.blocks.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number in the store of the block `index`, counted from the first that there is.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn block(&self, index: u64) -> u64 {
        self.blocks.place(index).block
    }

    /// Appends a block, and says which it is.
    ///
    /// # Errors
    /// If a store has no more.
    pub fn push_back(&mut self) -> Result<u64, ExternalError> {
        self.blocks.push_back().map(|place| place.block)
    }

    /// Gives the first block back.
    ///
    /// # Panics
    /// If there is none.
    pub fn pop_front(&mut self) {
        self.blocks.pop_front();
    }

    /// Gives back what was taken to grow: nothing will be appended.
    pub fn finish(&mut self) {
        self.blocks.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::store;
    use crate::{RecordStream, Vector};

    #[test]
    fn blocks_lie_where_those_of_vectors_do() {
        let (store, other) = (store(512, 2, 1), store(512, 2, 1));
        let per_block = store.per_block::<u64>().unwrap();
        let mut vectors = Vec::new();
        let mut layouts = Vec::new();
        for count in [1, 5, 17, 3, 40] {
            let mut writer = Vector::<u64>::writer(&store).unwrap();
            (0..count * per_block).for_each(|number| writer.push(number).unwrap());
            vectors.push(writer.finish().unwrap());
            let mut layout = Layout::new(&other);
            (0..count).for_each(|_| _ = layout.push_back().unwrap());
            layout.finish();
            layouts.push(layout);
        }
        // One goes, in front of what comes then.
        let mut stream = vectors.remove(2).into_stream().unwrap();
        while stream.next_record().unwrap().is_some() {}
        drop(stream);
        let mut gone = layouts.remove(2);
        (0..17).for_each(|_| gone.pop_front());
        drop(gone);
        let mut writer = Vector::<u64>::writer(&store).unwrap();
        (0..9 * per_block).for_each(|number| writer.push(number).unwrap());
        vectors.push(writer.finish().unwrap());
        let mut layout = Layout::new(&other);
        let grown: Vec<u64> = (0..9).map(|_| layout.push_back().unwrap()).collect();
        layout.finish();
        assert!(grown.iter().any(|&block| block < 20), "room is used again: {grown:?}");
        layouts.push(layout);
        for (vector, layout) in vectors.iter().zip(&layouts) {
            let blocks = (0..layout.len()).map(|index| layout.block(index));
            assert!(vector.block_numbers().eq(blocks), "{vector:?}, {layout:?}");
        }
        assert_eq!(store.used_blocks(), other.used_blocks());
    }
}
