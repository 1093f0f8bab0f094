//! How the memory of a search by clusters is divided.
//!
//! | what | how much, with blocks of P and w in flight in the pool's store |
//! | --- | --- |
//! | four levels | P each |
//! | five streams: runs, a level, what is written | (w + 1) P each |
//! | clusters on their way | as a gatherer takes, in the clusters' store |
//! | three sorters | 4 P each, then 1, 3 and 4 parts of 8 of what is left |
//! | table, blocks of clusters | as the settings say: up to 3/8, 1/8 of what is more |
//! | known clusters, dead lists | as the settings say: up to 1/16 each of what is more |
//!
//! 1. All parts together are the bytes of the search, or less.

use super::pool::{Held, InTable, RUN_COUNT_MAX};
use super::table::Table;
use crate::graph::clustering::{Entry, Target};
use crate::vector::{KEPT_BYTES, LOOKAHEAD_BYTES, RANGE_COUNT_MAX};
use crate::{ExternalError, Store};

/// Levels that are at hand.
const LEVEL_COUNT: u64 = 4;
/// Streams at once: all runs of the pool, a level, and what is written.
const STREAM_COUNT: u64 = RUN_COUNT_MAX as u64 + 2;
/// Sorters, and the blocks that each has at least.
const SORT_COUNT: u64 = 3;
const SORT_BLOCK_COUNT: u64 = 4;
/// Clusters on their way of which it is noted where they go, and the memory for that.
pub(super) const FATE_COUNT: u64 = RANGE_COUNT_MAX as u64 + 1;
pub(super) const FATES_BYTES: u64 = FATE_COUNT * size_of::<(u32, bool)>() as u64;

/// What the pool keeps in memory, at most: sorts and streams come first, so a search that has
/// little memory has less of this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// Memory for lists that are not written. 0: all lists are outside.
    pub table_bytes: u64,
    /// Memory for the numbers of clusters that are outside, so that what is outside is scanned only
    /// for nodes of these. 0: it is scanned for each level with nodes that are not in the table.
    pub known_bytes: u64,
    /// Memory for the numbers of nodes whose lists are outside and were used, so that what is
    /// outside need not be written at each scan, but when half of it was used. 0: it is.
    pub dead_bytes: u64,
    /// Memory for blocks of clusters that were read, so that a block in which clusters of several
    /// levels lie is read once while it is there. 0: only the last one is.
    pub kept_bytes: u64,
}

/// The parts that a search's memory is divided into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memories {
    pub(super) table_bytes: u64,
    pub(super) known_bytes: u64,
    pub(super) dead_bytes: u64,
    /// Blocks of clusters.
    pub(crate) kept_count: u64,
    pub(crate) spans_bytes: u64,
    pub(crate) loaded_bytes: u64,
    pub(crate) neighbours_bytes: u64,
}

impl Default for PoolSettings {
    /// As much of all as is good.
    fn default() -> Self {
        let most = u64::MAX;
        Self { table_bytes: most, known_bytes: most, dead_bytes: most, kept_bytes: most }
    }
}

impl PoolSettings {
    /// The pool as Mehlhorn and Meyer have it: all of it outside, scanned and written at each
    /// level.
    pub const PLAIN: Self = Self { table_bytes: 0, known_bytes: 0, dead_bytes: 0, kept_bytes: 0 };
}

impl Memories {
    /// Divides the `bytes` of a search.
    pub(crate) fn new(
        clusters: &Store,
        store: &Store,
        bytes: u64,
        settings: PoolSettings,
    ) -> Result<Self, ExternalError> {
        // What is known of a block that is too small, before anything is made.
        clusters.per_block::<Entry>()?;
        store.per_block::<Held>()?;
        store.per_block::<Target>()?;
        let block_bytes = store.block_bytes();
        let least_sort_bytes = SORT_BLOCK_COUNT * block_bytes;
        let needed_bytes = LEVEL_COUNT * block_bytes
            + STREAM_COUNT * store.stream_bytes()
            + clusters.stream_bytes()
            + LOOKAHEAD_BYTES
            + FATES_BYTES
            + SORT_COUNT * least_sort_bytes;
        let Some(more) = bytes.checked_sub(needed_bytes) else {
            let operator = "a search by clusters".to_owned();
            return Err(ExternalError::TooLittleMemory {
                operator,
                needed_bytes,
                granted_bytes: bytes,
            });
        };
        let table_bytes = settings.table_bytes.min(more / 8 * 3);
        let known_bytes = settings.known_bytes.min(more / 16);
        let dead_bytes = settings.dead_bytes.min(more / 16);
        let kept_block_bytes = clusters.block_bytes() + KEPT_BYTES;
        let kept_count = settings.kept_bytes.min(more / 8) / kept_block_bytes;
        let kept_bytes = kept_count * kept_block_bytes;
        let rest = more - table_bytes - known_bytes - dead_bytes - kept_bytes;
        Ok(Self {
            table_bytes,
            known_bytes,
            dead_bytes,
            kept_count,
            spans_bytes: least_sort_bytes + rest / 8,
            loaded_bytes: least_sort_bytes + rest / 8 * 3,
            neighbours_bytes: least_sort_bytes + (rest - rest / 8 * 4),
        })
    }

    /// Entries of the table, at most.
    pub(crate) fn table_entries(&self) -> u64 {
        Table::<InTable>::limit_of(self.table_bytes)
    }

    /// Clusters that are outside and known, at most.
    pub(crate) fn known_clusters(&self) -> u64 {
        Table::<()>::limit_of(self.known_bytes)
    }

    /// Lists that were used and are not written out of the runs, at most.
    pub(crate) const fn dead_lists(&self) -> u64 {
        self.dead_bytes / 8
    }
}
