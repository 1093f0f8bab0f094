//! How the memory is divided in which a graph is clustered.

use super::{SORT_COUNT, STREAM_COUNT, arrange, forest, tree};
use crate::{ExternalError, Store};

/// Fewest blocks with which something is sorted here.
const SORT_BLOCK_COUNT: u64 = 4;

/// Memory beside streams, and what of the nodes fits into it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Division {
    pub(super) bytes: u64,
    /// Memory of a stream: the most of all stores.
    pub(super) stream_bytes: u64,
    /// Bytes of a block of the store in which is sorted.
    pub(super) block_bytes: u64,
    pub(super) node_count: u64,
    /// Memory for what grows with the nodes, at most.
    pub(super) node_bytes: u64,
}

impl Division {
    /// Of `bytes` for a graph of so many nodes, that lies in the first of three stores, has its clusters
    /// in the second, and is sorted in the third.
    pub(crate) fn new(stores: [&Store; 3], node_count: u64, bytes: u64, node_bytes: u64) -> Self {
        let stream_bytes = stores.into_iter().map(Store::stream_bytes).max();
        let stream_bytes = stream_bytes.expect("there are stores");
        let [.., scratch] = stores;
        Self { bytes, stream_bytes, block_bytes: scratch.block_bytes(), node_count, node_bytes }
    }

    /// All of it.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Memory beside all streams.
    pub(crate) const fn room(&self) -> u64 {
        self.bytes.saturating_sub(STREAM_COUNT * self.stream_bytes)
    }

    /// Whether the words of all nodes fit (invariant 5 of the module above).
    pub(crate) fn has_words(&self) -> bool {
        let bytes = self.node_count.saturating_mul(tree::NODE_BYTES);
        let left = SORT_BLOCK_COUNT * self.block_bytes;
        let fits = bytes <= self.room().min(self.node_bytes)
            && arrange::table_bytes(self.node_count) + left <= self.room();
        fits && self.node_count < tree::NODE_COUNT_MAX
    }

    /// Memory for each of `sorts` sorters beside `streams` streams.
    pub(crate) fn share(&self, streams: u64, sorts: u64) -> Result<u64, ExternalError> {
        let least_bytes = SORT_BLOCK_COUNT * self.block_bytes;
        let share = self.bytes.saturating_sub(streams * self.stream_bytes) / sorts;
        if share < least_bytes {
            return Err(ExternalError::TooLittleMemory {
                operator: "clustering".to_owned(),
                needed_bytes: streams * self.stream_bytes + sorts * least_bytes,
                granted_bytes: self.bytes,
            });
        }
        Ok(share)
    }

    /// Memory for each sorter of a step that has two.
    pub(crate) fn sort_share(&self) -> Result<u64, ExternalError> {
        self.share(STREAM_COUNT, SORT_COUNT)
    }

    /// Memory for the one sort of entries where the words of all nodes fit, beside the tables of so many
    /// clusters.
    pub(crate) const fn entry_sort_bytes(&self, cluster_count: u64) -> u64 {
        let held = self.node_count.saturating_mul(4);
        self.room().saturating_sub(held.saturating_add(cluster_count.saturating_add(1) * 8))
    }

    /// How many labels of a sweep have a word in memory: all nodes where nothing is swept.
    pub(crate) fn labels_in_memory(&self) -> Result<u64, ExternalError> {
        let share = self.sort_share()?;
        let words = |bytes: u64| (bytes.min(self.node_bytes) / 4).min(forest::WORD_LIMIT);
        let count = self.node_count;
        Ok(if words(2 * share) >= count { count } else { words(share).min(count) })
    }
}
