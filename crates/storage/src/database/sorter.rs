//! Sorts keys with values in bounded memory, for trees that are loaded from sorted keys.
//!
//! ```text
//!   push ─► arena ──full──► sorted run, a tree in a file of its own ─┐
//!             └───────────────── nothing was full ───────────────────┴─► merge ─► sink, ascending
//! ```
//!
//! 1. The arena and its list take at most the memory that was granted: a run is written when half of
//!    it is in use, since vectors double.
//! 2. Runs are unlogged files to which nothing refers, so a crash leaves nothing of them.

use super::turns::Turns;
use crate::btree::{Cursor, Direction, Tree};
use crate::{Engine, FileId, StorageError};
use nandu_base::{to_index, to_u32};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Bound;

/// The arena is addressed by 32 bits.
const MEMORY_BYTES_MAX: u64 = 4 << 30;
/// Bytes before each key that say how long its value is.
const LENGTH_BYTES: usize = 4;

/// What is still to be sorted, and the runs that are.
#[derive(Debug)]
pub(super) struct Sorter {
    memory_bytes: usize,
    /// The length of a value, the key, the value; back to back.
    arena: Vec<u8>,
    items: Vec<Item>,
    /// How many bytes all keys of the arena begin with in common.
    common_bytes: usize,
    runs: Vec<FileId>,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    /// The eight bytes after what is common, while sorting.
    prefix: u64,
    start: u32,
    key_bytes: u32,
}

impl Sorter {
    pub(super) fn new(memory_bytes: u64) -> Self {
        Self {
            memory_bytes: to_index(memory_bytes.min(MEMORY_BYTES_MAX)),
            arena: Vec::new(),
            items: Vec::new(),
            common_bytes: 0,
            runs: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.common_bytes = match self.items.first() {
            None => key.len(),
            Some(&first) => {
                let first = &key_of(&self.arena, first)[..self.common_bytes];
                first.iter().zip(key).take_while(|(left, right)| left == right).count()
            }
        };
        let start = to_u32(self.arena.len() as u64);
        self.arena.extend_from_slice(&to_u32(value.len() as u64).to_le_bytes());
        self.arena.extend_from_slice(key);
        self.arena.extend_from_slice(value);
        self.items.push(Item { prefix: 0, start, key_bytes: to_u32(key.len() as u64) });
    }

    /// Whether [`Self::spill`] has to come before the next push.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.arena.len() + self.items.len() * size_of::<Item>() >= self.memory_bytes / 2
    }

    /// Runs that were written.
    pub(super) fn runs(&self) -> &[FileId] {
        &self.runs
    }

    /// Writes what is in memory as a run into a new file.
    pub(super) fn spill(
        &mut self,
        turns: &mut Turns<'_>,
        file: FileId,
    ) -> Result<(), StorageError> {
        turns.leave();
        self.sort();
        self.runs.push(file);
        let mut run = turns.step(|core| {
            let pages = &mut core.engine.unlogged_pages(file)?;
            Tree::create(pages, file)?.bulk_load(pages, 100)
        })?;
        for &item in &self.items {
            let (key, value) = parts_of(&self.arena, item);
            turns.step(|core| run.push(&mut core.engine.unlogged_pages(file)?, key, value))?;
        }
        turns.step(|core| run.finish(&mut core.engine.unlogged_pages(file)?, &mut Vec::new()))?;
        self.arena.clear();
        self.items.clear();
        Ok(())
    }

    /// Hands everything to `sink` in the order of the keys. If there are runs, the last part must have
    /// been spilled, too.
    pub(super) fn drain(
        mut self,
        turns: &mut Turns<'_>,
        mut sink: impl FnMut(&mut Engine, &[u8], &[u8]) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        if self.runs.is_empty() {
            turns.leave();
            self.sort();
            for &item in &self.items {
                let (key, value) = parts_of(&self.arena, item);
                turns.step(|core| sink(&mut core.engine, key, value))?;
            }
            return Ok(());
        }
        assert!(self.items.is_empty(), "what is in memory is spilled before runs are merged");
        drop(std::mem::take(&mut self.arena));
        merge(&self.runs, turns, sink)
    }

    fn sort(&mut self) {
        let Self { arena, items, common_bytes, .. } = self;
        for item in items.iter_mut() {
            let rest = &key_of(arena, *item)[*common_bytes..];
            let mut prefix = [0; 8];
            let length = rest.len().min(8);
            prefix[..length].copy_from_slice(&rest[..length]);
            item.prefix = u64::from_be_bytes(prefix);
        }
        // Numbers alone first: keys that begin alike stay as they came, and often came in their order, such
        // as entries of one column's value by row. Then a look at each is enough.
        items.sort_unstable_by_key(|item| (item.prefix, item.start));
        for alike in items.chunk_by_mut(|left, right| left.prefix == right.prefix) {
            if !alike.is_sorted_by(|left, right| key_of(arena, *left) <= key_of(arena, *right)) {
                alike.sort_unstable_by(|left, right| {
                    key_of(arena, *left).cmp(key_of(arena, *right))
                });
            }
        }
    }
}

fn merge(
    runs: &[FileId],
    turns: &mut Turns<'_>,
    mut sink: impl FnMut(&mut Engine, &[u8], &[u8]) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    let everything = (Bound::Unbounded, Bound::Unbounded);
    let mut cursors: Vec<Cursor> = Vec::with_capacity(runs.len());
    let mut values: Vec<Vec<u8>> = vec![Vec::new(); runs.len()];
    let mut heads = BinaryHeap::with_capacity(runs.len());
    for (index, &file) in runs.iter().enumerate() {
        cursors.push(Tree::at(file).scan(everything, Direction::Forward));
        let (cursor, value) = (&mut cursors[index], &mut values[index]);
        turns.step(|core| advance(&core.engine, cursor, index, Vec::new(), value, &mut heads))?;
    }
    while let Some(Reverse((key, index))) = heads.pop() {
        let (cursor, value) = (&mut cursors[index], &mut values[index]);
        turns.step(|core| {
            sink(&mut core.engine, &key, value)?;
            advance(&core.engine, cursor, index, key, value, &mut heads)
        })?;
    }
    Ok(())
}

/// Takes the next entry of a run; `key` is a buffer that is used again.
fn advance(
    engine: &Engine,
    cursor: &mut Cursor,
    index: usize,
    mut key: Vec<u8>,
    value: &mut Vec<u8>,
    heads: &mut BinaryHeap<Reverse<(Vec<u8>, usize)>>,
) -> Result<(), StorageError> {
    if let Some((next_key, next_value)) = cursor.next(engine)? {
        key.clear();
        key.extend_from_slice(next_key);
        value.clear();
        value.extend_from_slice(next_value);
        heads.push(Reverse((key, index)));
    }
    Ok(())
}

fn key_of(arena: &[u8], item: Item) -> &[u8] {
    let start = item.start as usize + LENGTH_BYTES;
    &arena[start..start + item.key_bytes as usize]
}

fn parts_of(arena: &[u8], item: Item) -> (&[u8], &[u8]) {
    let (length, rest) =
        arena[item.start as usize..].split_first_chunk().expect("a length is before each key");
    let (key, rest) = rest.split_at(item.key_bytes as usize);
    (key, &rest[..u32::from_le_bytes(*length) as usize])
}
