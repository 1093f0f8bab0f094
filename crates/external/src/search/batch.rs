//! Searches for many keys at once. They go down together: in a round each block that one of them waits
//! for is read once, in the order of the blocks, as many in flight as the store's settings say.
//!
//! ```text
//!   waiting, by block ──► block ──► each search goes on while it stays there ──► answered
//!         ▲                                            └──► waits for another block ─┐
//!         └──────────────────────────── next round ◄─────────────────────────────────┘
//! ```

use super::{SearchTree, Walk};
use crate::store::{Buffers, ReadAhead};
use crate::vector::record_at;
use crate::{ExternalError, Record};
use nandu_base::to_index;

/// A search that waits for a block.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    block: u64,
    /// Which key.
    key: usize,
    walk: Walk,
}

impl<R: Record> SearchTree<R> {
    /// For each key the first record that does not come before it. Each block is read once a round, of
    /// which there are as many as a search for one key through one block of memory reads blocks.
    ///
    /// # Errors
    /// If there is no memory for the blocks in flight and some 100 bytes a key, or the device fails.
    pub fn first_from_each(&self, keys: &[R]) -> Result<Vec<Option<R>>, ExternalError> {
        let store = self.places.store();
        let each_bytes = size_of::<Option<R>>() + 2 * size_of::<Waiting>();
        let bytes = (keys.len() * each_bytes) as u64;
        let _memory = store.grant().take("a batch of searches", bytes)?;
        let mut answers = vec![None; keys.len()];
        let Some(walk) = self.layout.begin() else { return Ok(answers) };
        let per_block = store.per_block::<R>()?;
        let block = walk.at / per_block;
        let mut waiting: Vec<Waiting> =
            (0..keys.len()).map(|key| Waiting { block, key, walk }).collect();
        let mut later = Vec::with_capacity(keys.len());
        while !waiting.is_empty() {
            waiting.sort_unstable_by_key(|search| (search.block, search.key));
            self.go_round(keys, &waiting, &mut later, &mut answers)?;
            std::mem::swap(&mut waiting, &mut later);
            later.clear();
        }
        Ok(answers)
    }

    /// Reads each block that is waited for.
    fn go_round(
        &self,
        keys: &[R],
        waiting: &[Waiting],
        later: &mut Vec<Waiting>,
        answers: &mut [Option<R>],
    ) -> Result<(), ExternalError> {
        let store = self.places.store();
        let per_block = store.per_block::<R>()?;
        let mut groups = waiting.chunk_by(|left, right| left.block == right.block);
        let in_flight = u64::from(store.settings().in_flight);
        let count = (in_flight + 1).min(self.places.block_count());
        let mut ahead = ReadAhead::new(Buffers::new(store, "a batch of searches", count)?);
        let mut asked = groups.clone();
        while ahead.advance(|| asked.next().map(|group| self.places.place(group[0].block)))? {
            let group = groups.next().expect("blocks come as they were asked for");
            for &search in group {
                let next = self.go_on(search, ahead.block(), per_block, keys, answers);
                later.extend(next);
            }
        }
        Ok(())
    }

    /// Goes on with a search while it stays in its block; tells where it waits next.
    fn go_on(
        &self,
        search: Waiting,
        bytes: &[u8],
        per_block: u64,
        keys: &[R],
        answers: &mut [Option<R>],
    ) -> Option<Waiting> {
        let Waiting { block, key, mut walk } = search;
        loop {
            let record: R = record_at(bytes, to_index(walk.at % per_block));
            let is_before = record < keys[key];
            if !is_before {
                answers[key] = Some(record);
            }
            walk = self.layout.turn(walk, is_before)?;
            let next_block = walk.at / per_block;
            if next_block != block {
                return Some(Waiting { block: next_block, key, walk });
            }
        }
    }
}
