//! Undirected graphs beyond memory, in adjacency arrays, and breadth-first search over them.
//!
//! ```text
//!   nodes    (0, 2) (2, 1) (3, 1) …       where the neighbours of node i begin, and how many
//!              │      │      │
//!   edges    1  2   0      0 …            neighbours, ascending; an edge is there from both ends
//! ```
//!
//! 1. The neighbours of node i are those from its offset on; offsets ascend without a gap.
//! 2. No node is a neighbour of its own, none is twice a neighbour of another.

mod clustering;
#[cfg(feature = "edge-lists")]
pub mod edge_list;
mod generate;
mod level;
mod lookups;
mod mm_bfs;
mod mr_bfs;

pub use clustering::{Clustering, ClusteringKind, ClusteringSettings, KeptClustering};
pub(crate) use clustering::{ClusteringDivision, Entry, Span, Target, Waiting};
pub use generate::{EdgeStream, GraphClass};
pub(crate) use lookups::Lookups;
pub(crate) use mm_bfs::{Held, Loaded, Memories, RUN_COUNT_MAX};
pub use mm_bfs::{MmBfs, MmSettings, PoolCounts, PoolSettings, best_cluster_nodes, mm_bfs};
pub(crate) use mr_bfs::searching_sort_bytes;
pub use mr_bfs::{Bfs, mr_bfs};

use crate::sort::Division;
use crate::{
    ExternalError, KeptVector, Natural, RecordStream, Scanner, SortedStream, Sorter, Store, Vector,
};
use nandu_base::ByteCount;
use nandu_base::words::counted;
use serde::{Deserialize, Serialize};

/// Bytes of a node in the array of nodes.
const NODE_BYTES: u64 = 16;

/// A graph of a store that is kept ([`Store::keep`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptGraph {
    nodes: KeptVector,
    edges: KeptVector,
}

impl KeptGraph {
    /// The vectors that it is made of.
    #[must_use]
    pub const fn vectors(&self) -> [&KeptVector; 2] {
        [&self.nodes, &self.edges]
    }
}

/// An undirected graph.
#[derive(Debug)]
pub struct Graph {
    /// Where the neighbours of a node begin, and how many there are.
    nodes: Vector<(u64, u64)>,
    edges: Vector<u64>,
}

impl Graph {
    /// Sorts `edges`, each given once or more, in either direction, within `bytes` of memory beside
    /// what the stream takes.
    ///
    /// # Errors
    /// If an edge leads from a node to itself or to none of the `node_count`; if the stream fails,
    /// there is no memory, no room, or the device fails.
    pub fn build<S: RecordStream<Record = (u64, u64)>>(
        store: &Store,
        node_count: u64,
        edges: S,
        bytes: u64,
    ) -> Result<Self, ExternalError> {
        Self::build_counted((store, store), edges, node_count, |_| Ok(node_count), bytes)
    }

    /// The same where only who has read all edges knows how many nodes there are: `node_count` is
    /// asked then, and is `node_limit` at most. The first of the stores has the arrays, which are
    /// read anywhere, the second what is sorted; both are of one grant.
    ///
    /// # Errors
    /// As [`Self::build`], and as `node_count`.
    pub fn build_counted<S: RecordStream<Record = (u64, u64)>>(
        (store, sort_store): (&Store, &Store),
        mut edges: S,
        node_limit: u64,
        node_count: impl FnOnce(&S) -> Result<u64, ExternalError>,
        bytes: u64,
    ) -> Result<Self, ExternalError> {
        let sort_bytes = building_sort_bytes(store, bytes);
        let sorter = Sorter::with_bytes(sort_store, Natural, sort_bytes);
        let sorter = sorter
            .map_err(|error| error.beside("building a graph", building_bytes(store), bytes))?;
        let mut both_ways = BothWays { sorter, node_limit, number: 0 };
        let mut batch = Vec::with_capacity(BATCH_COUNT);
        while let Some(edge) = edges.next_record()? {
            batch.push(edge);
            if batch.len() == BATCH_COUNT {
                both_ways.push_all(&batch)?;
                batch.clear();
            }
        }
        both_ways.push_all(&batch)?;
        let node_count = node_count(&edges)?;
        drop(edges);
        Self::of_sorted(store, node_count, both_ways.sorter.finish()?)
    }

    /// Refuses a graph of so many nodes, whatever its edges, for which the store has no room.
    ///
    /// # Errors
    /// As [`Store::check_room`], and if no store has so much.
    pub fn check_room(store: &Store, node_count: u64) -> Result<(), ExternalError> {
        Self::check_room_beside(store, node_count, 0)
    }

    /// The same where so many bytes are given back while it is written.
    fn check_room_beside(
        store: &Store,
        node_count: u64,
        given_back_bytes: u64,
    ) -> Result<(), ExternalError> {
        let Some(bytes) = node_count.checked_mul(NODE_BYTES) else {
            let what = format!(
                "a graph of {node_count} nodes is larger than any device; say how many nodes there are"
            );
            return Err(ExternalError::Invalid { what });
        };
        let mut what = format!("a graph of {node_count} nodes");
        if given_back_bytes > 0 {
            what += &format!(", in more than the {} of its edges,", ByteCount(given_back_bytes));
        }
        store.check_room(bytes.saturating_sub(given_back_bytes), &what)
    }

    /// Refuses so many edges, for the runs of which the store has no room where a graph is built in `bytes`
    /// of memory: each edge is written from both its ends, also one that comes again, and all runs are
    /// there before the first is merged.
    ///
    /// # Errors
    /// As [`Store::check_room`]. Too little memory is no error here.
    pub fn check_sorting_room(
        store: &Store,
        edge_count: u64,
        bytes: u64,
    ) -> Result<(), ExternalError> {
        let division = Division::new::<(u64, u64)>(store, building_sort_bytes(store, bytes));
        let Ok(division) = division else { return Ok(()) };
        let run_bytes = division.run_bytes(store, edge_count.saturating_mul(2));
        store.check_room(run_bytes, &format!("sorting {}", counted(edge_count, "edge")))
    }

    /// Writes the arrays of edges that come sorted, each from both its ends.
    fn of_sorted(
        store: &Store,
        node_count: u64,
        sorted: SortedStream<(u64, u64), Natural>,
    ) -> Result<Self, ExternalError> {
        let target_count = sorted.left_count().unwrap_or(0);
        // What is read away gives its room back, which the arrays have then.
        let is_one_store = sorted.store().is_same(store);
        let given_back_bytes = if is_one_store { sorted.stored_bytes() } else { 0 };
        Self::check_room_beside(store, node_count, given_back_bytes)?;
        let mut sorted = sorted.ahead();
        let mut nodes = Vector::writer_of(store, node_count)?;
        let mut targets = Vector::writer_of(store, target_count)?;
        for node in 0..node_count {
            let offset = targets.len();
            let mut last = None;
            while let Some((_, target)) = sorted.peek()?.filter(|&(source, _)| source == node) {
                sorted.next_record()?;
                if last != Some(target) {
                    targets.push(target)?;
                    last = Some(target);
                }
            }
            nodes.push((offset, targets.len() - offset))?;
        }
        assert!(sorted.peek()?.is_none(), "whoever counts nodes counts those of all edges");
        Ok(Self { nodes: nodes.finish()?, edges: targets.finish()? })
    }

    /// Where it lies, for [`Self::resume`] in a store that is kept.
    #[must_use]
    pub fn kept(&self) -> KeptGraph {
        KeptGraph { nodes: self.nodes.kept(), edges: self.edges.kept() }
    }

    /// A graph that was kept, in a store that was resumed with its vectors.
    ///
    /// # Errors
    /// As [`Vector::resume`].
    pub fn resume(store: &Store, kept: &KeptGraph) -> Result<Self, ExternalError> {
        let (nodes, edges) = (&kept.nodes, &kept.edges);
        Ok(Self { nodes: Vector::resume(store, nodes)?, edges: Vector::resume(store, edges)? })
    }

    /// How many nodes it has.
    #[must_use]
    pub const fn node_count(&self) -> u64 {
        self.nodes.len()
    }

    /// How many edges it has, each counted once.
    #[must_use]
    pub const fn edge_count(&self) -> u64 {
        self.edges.len() / 2
    }

    /// The store in which it lies.
    #[must_use]
    pub const fn store(&self) -> &Store {
        self.nodes.store()
    }

    /// That there is a node of this number.
    fn check_node(&self, node: u64) -> Result<(), ExternalError> {
        let count = self.node_count();
        match node < count {
            true => Ok(()),
            false => {
                let what = "a graph".to_owned();
                Err(ExternalError::OutOfRange { what, index: node, count })
            }
        }
    }

    /// Each node with each of its neighbours, both ascending: every edge from both its ends.
    fn pairs(&self) -> Result<Pairs<'_>, ExternalError> {
        let (nodes, edges) = (self.nodes.scanner()?, self.edges.scanner()?);
        Ok(Pairs { nodes, edges, next_node: 0, left: 0 })
    }

    /// Asserts that its vectors are whole.
    ///
    /// # Panics
    /// If one is not.
    pub fn audit(&self) {
        self.nodes.audit();
        self.edges.audit();
        assert!(self.edges.len().is_multiple_of(2), "an edge is there from both its ends");
    }
}

/// Who is told of a node that is reached, and of its level.
type Visit<'v> = dyn FnMut(u64, u64) -> Result<(), ExternalError> + 'v;

/// So many edges are handed on at a time: whatever stream they come from, what sorts them is
/// compiled once.
const BATCH_COUNT: usize = 256;

/// Edges that are sorted from both their ends.
struct BothWays {
    sorter: Sorter<(u64, u64), Natural>,
    node_limit: u64,
    number: u64,
}

impl BothWays {
    fn push_all(&mut self, edges: &[(u64, u64)]) -> Result<(), ExternalError> {
        for &(left, right) in edges {
            check_edge(self.number, (left, right), self.node_limit)?;
            self.sorter.push((left, right))?;
            self.sorter.push((right, left))?;
            self.number += 1;
        }
        Ok(())
    }
}

/// Memory in which a graph of this store sorts its edges, of `bytes`: beside it both arrays are
/// written.
pub(crate) fn building_sort_bytes(store: &Store, bytes: u64) -> u64 {
    bytes.saturating_sub(building_bytes(store))
}

/// Memory of what writes both arrays.
fn building_bytes(store: &Store) -> u64 {
    2 * store.stream_bytes()
}

/// Edges from both their ends, by the node from which they are seen.
#[derive(Debug)]
struct Pairs<'g> {
    nodes: Scanner<'g, (u64, u64)>,
    edges: Scanner<'g, u64>,
    /// The node after the one whose neighbours are given, and how many of these are left.
    next_node: u64,
    left: u64,
}

impl RecordStream for Pairs<'_> {
    type Record = (u64, u64);

    #[inline]
    fn next_record(&mut self) -> Result<Option<(u64, u64)>, ExternalError> {
        while self.left == 0 {
            let Some((_, count)) = self.nodes.next_record()? else { return Ok(None) };
            self.next_node += 1;
            self.left = count;
        }
        self.left -= 1;
        Ok(self.edges.next_record()?.map(|neighbour| (self.next_node - 1, neighbour)))
    }

    fn left_count(&self) -> Option<u64> {
        self.edges.left_count()
    }
}

fn check_edge(
    number: u64,
    (left, right): (u64, u64),
    node_count: u64,
) -> Result<(), ExternalError> {
    let what = if left == right {
        format!("edge {number}, from 0, leads from node {left} to itself")
    } else if left.max(right) >= node_count {
        let none = if left >= node_count { left } else { right };
        format!("edge {number}, from 0, has node {none}; there are {node_count}, from 0")
    } else {
        return Ok(());
    };
    Err(ExternalError::Invalid { what })
}

#[cfg(test)]
mod tests;
