//! Searches for one key after the other, through a few blocks in memory.

use super::{Layout, SearchTree};
use crate::{ExternalError, PagedVector, Record};

/// A search tree, some blocks of it in memory.
#[derive(Debug)]
pub struct Searcher<R> {
    layout: Box<dyn Layout>,
    places: PagedVector<R>,
    len: u64,
}

impl<R: Record> Searcher<R> {
    pub(super) fn new(tree: SearchTree<R>, frames: u32) -> Result<Self, ExternalError> {
        let SearchTree { layout, places, len } = tree;
        Ok(Self { layout, places: places.paged(frames)?, len })
    }

    /// The first record that does not come before `key`.
    ///
    /// # Errors
    /// If the device fails or gives back other bytes than were written; then for good.
    pub fn first_from(&mut self, key: &R) -> Result<Option<R>, ExternalError> {
        let mut found = None;
        let mut next = self.layout.begin();
        while let Some(walk) = next {
            let record = self.places.get(walk.at)?;
            let is_before = record < *key;
            if !is_before {
                found = Some(record);
            }
            next = self.layout.turn(walk, is_before);
        }
        Ok(found)
    }

    /// How many blocks were read so far.
    #[must_use]
    pub const fn read_count(&self) -> u64 {
        self.places.miss_count()
    }

    /// The tree, and its memory given back.
    ///
    /// # Errors
    /// If the device failed.
    pub fn into_tree(self) -> Result<SearchTree<R>, ExternalError> {
        let Self { layout, places, len } = self;
        Ok(SearchTree { layout, places: places.into_vector()?, len })
    }
}
