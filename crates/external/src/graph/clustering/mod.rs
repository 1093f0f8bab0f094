//! The first phase of the search of Mehlhorn and Meyer (ESA 2002; S002 chapter 4): nodes that lie
//! near each other come into one cluster, whose adjacency lists lie together, so that one access
//! reads them all.
//!
//! ```text
//!   graph ──► kind: cluster of each node ──► sorts ──► entries   (node, neighbour, its span) …
//!             random: grown from masters              └─ cluster 0 ─┘└─ cluster 1 ─┘└─ …
//!             tour: pieces of an Euler tour    ──────► spans     where the cluster of node i lies
//! ```
//!
//! A cluster is named by its *span*: its first entry and how many it has. Each entry has the span
//! of the neighbour that it leads to, so whoever reaches a node knows what to read without looking
//! up anything; and how much, so several clusters are on their way at once.
//!
//! 1. Every node that has neighbours is in one cluster; nodes that have none are in none.
//! 2. Entries of a cluster lie together, by node and neighbour: a cluster is read whole, so the
//!    order within it costs nothing. Clusters lie in the order of their numbers.
//! 3. Any assignment gives a right search; the kinds differ in what it costs.
//! 4. What is searched is written once, in order, and read only after that.
//! 5. Where five words of four bytes for each node fit into memory, only entries are sorted; what
//!    comes out is the same.

mod arrange;
mod division;
mod forest;
mod random;
mod tour;
mod tree;

use super::Graph;
use crate::sort;
use crate::store::misfit;
use crate::{
    ExternalError, KeptVector, Memory, Natural, Record, RecordStream, SortedStream, Store, Vector,
};
pub(crate) use division::Division as ClusteringDivision;
use division::Division;
pub(crate) use forest::Waiting;
use nandu_base::words::counted;
use random::Random;
use serde::{Deserialize, Serialize};
use tour::Tour;

/// Where the lists of a cluster lie: its first entry, and how many entries there are.
pub(crate) type Span = (u64, u32);
/// A node that somebody is led to, and the span of its cluster.
pub(crate) type Target = (u64, Span);
/// A node, one of its neighbours, and the span of that.
pub(crate) type Entry = (u64, Target);

/// The cluster of a node without neighbours.
const NO_CLUSTER: u64 = u64::MAX;
/// Bytes of what is written for each end of an edge and for each node.
const ENTRY_BYTES: u64 = 28;
const SPAN_BYTES: u64 = 12;
/// What is read and written beside that where words do not fit: for each end of an edge two sorts,
/// of 28 and 36 bytes; for each node about so much.
const SORTED_BYTES: u64 = 2 * (28 + 36);
const MOVED_BYTES: u64 = 800;
/// Streams, and sorts, that are at work at once, at most.
const STREAM_COUNT: u64 = 3;
const SORT_COUNT: u64 = 2;

/// How nodes are brought into clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClusteringKind {
    /// Masters are drawn with probability 1 / c, and clusters grow around them in rounds.
    Random,
    /// Every c steps of an Euler tour of a spanning tree.
    #[default]
    Tour,
}

/// How a graph is clustered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusteringSettings {
    /// How nodes are brought into clusters.
    pub kind: ClusteringKind,
    /// The c of the kind, one at least; `None` for what the model says.
    pub cluster_nodes: Option<u64>,
    /// Memory for what grows with the nodes, at most: a word of four bytes each for a union-find,
    /// of which what does not fit is contracted beyond memory; five words each for a tree, its
    /// tour and the tables by which entries are laid, or none of them. 0 has nothing grow.
    pub node_bytes: u64,
    /// What is drawn follows from it: masters, coins of the list ranking, the order of a sweep.
    pub seed: u64,
}

/// A graph whose adjacency lists lie by clusters.
#[derive(Debug)]
pub struct Clustering {
    entries: Vector<Entry>,
    /// The cluster of each node; without entries for a node without neighbours.
    spans: Vector<Span>,
    cluster_count: u64,
    cluster_nodes: u64,
}

/// Clusters of a store that is kept ([`Store::keep`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptClustering {
    entries: KeptVector,
    spans: KeptVector,
    cluster_count: u64,
    cluster_nodes: u64,
}

impl KeptClustering {
    /// The vectors that they are made of.
    #[must_use]
    pub const fn vectors(&self) -> [&KeptVector; 2] {
        [&self.entries, &self.spans]
    }
}

/// A way to bring nodes into clusters.
trait Assign {
    /// The c that the model says of a graph of so many nodes and edges, for `block_entries` entries that
    /// all volumes move at once.
    fn model_cluster_nodes(&self, of_graph: (u64, u64), block_entries: u64) -> u64;

    /// The number of the cluster of each node, [`NO_CLUSTER`] for one without neighbours. Numbers
    /// say in which order clusters are to lie.
    fn assign(&self, work: &Work<'_>) -> Result<Assigned, ExternalError>;
}

/// The number of the cluster of each node.
enum Assigned {
    /// [`NO_CLUSTER`] for a node without neighbours.
    Outside(Vector<u64>),
    InMemory(Table),
}

/// The same in memory, [`tree::NONE`] for a node without neighbours.
struct Table {
    clusters: Vec<u32>,
    _memory: Memory,
}

/// What is done with which memory.
struct Work<'g> {
    graph: &'g Graph,
    source: u64,
    /// Where runs and what lies in between are written.
    store: &'g Store,
    division: Division,
    cluster_nodes: u64,
    seed: u64,
}

impl Default for ClusteringSettings {
    fn default() -> Self {
        let kind = ClusteringKind::default();
        Self { kind, cluster_nodes: None, node_bytes: u64::MAX, seed: 1 }
    }
}

impl ClusteringKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Random, Self::Tour];

    /// Its name, for people and for options.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Tour => "tour",
        }
    }

    fn method(self) -> &'static dyn Assign {
        match self {
            Self::Random => &Random,
            Self::Tour => &Tour,
        }
    }
}

impl Clustering {
    /// Clusters a graph for a search from `source`, within `bytes` of memory. The clusters go to
    /// the store `clusters`, on flash, say; what is sorted and dropped goes to `scratch`. Any node
    /// can be the source of a search; of `source` it is known that it is where a cluster begins.
    ///
    /// # Errors
    /// If there is no node `source`, clusters are to have no node, a cluster has 2^32 entries or
    /// more; if there is not so much memory or it is too little, no room, or a device fails.
    pub fn build(
        graph: &Graph,
        source: u64,
        (clusters, scratch): (&Store, &Store),
        bytes: u64,
        settings: ClusteringSettings,
    ) -> Result<Self, ExternalError> {
        graph.check_node(source)?;
        if settings.cluster_nodes == Some(0) {
            let what = "clusters have one node at least".to_owned();
            return Err(ExternalError::Invalid { what });
        }
        let work = Work::new(graph, source, (clusters, scratch), bytes, settings)?;
        work.check_room(clusters)?;
        let assigned = settings.kind.method().assign(&work)?;
        work.arrange(clusters, assigned)
    }

    /// Refuses clusters for which the stores have no room, before anything of them is written: for what is
    /// searched, which comes beside the graph, and for what is sorted for it, whatever the edges.
    ///
    /// # Errors
    /// As [`Self::build`], and as [`Store::check_room`]. Too little memory is no error here.
    pub fn check_room(
        graph: &Graph,
        (clusters, scratch): (&Store, &Store),
        bytes: u64,
        settings: ClusteringSettings,
    ) -> Result<(), ExternalError> {
        Work::new(graph, 0, (clusters, scratch), bytes, settings)?.check_room(clusters)
    }

    /// What [`Self::build`] reads and writes, in bytes, about: to see how far it is.
    ///
    /// # Errors
    /// If a block holds no entry.
    pub fn expected_bytes(
        graph: &Graph,
        source: u64,
        stores: (&Store, &Store),
        bytes: u64,
        settings: ClusteringSettings,
    ) -> Result<u64, ExternalError> {
        let work = Work::new(graph, source, stores, bytes, settings)?;
        let (nodes, ends) = (graph.node_count(), graph.edges.len());
        let graph_bytes = 16 * nodes + 8 * ends;
        let written = ENTRY_BYTES * ends + SPAN_BYTES * nodes;
        if !work.division.has_words() {
            // Two sorts of entries, and what trees, tours and rankings move of each node.
            return Ok(2 * graph_bytes + written + SORTED_BYTES * ends + MOVED_BYTES * nodes);
        }
        let sorted = arrange::SORTED_BYTES * ends;
        let moved = if sorted > work.division.room() { 2 * sorted } else { 0 };
        Ok(2 * graph_bytes + written + moved + 2 * tree::STEP_BYTES * nodes)
    }

    /// Where they lie, for [`Self::resume`] in a store that is kept.
    #[must_use]
    pub fn kept(&self) -> KeptClustering {
        let Self { cluster_count, cluster_nodes, .. } = *self;
        let (entries, spans) = (self.entries.kept(), self.spans.kept());
        KeptClustering { entries, spans, cluster_count, cluster_nodes }
    }

    /// Clusters that were kept, in a store that was resumed with their vectors.
    ///
    /// # Errors
    /// As [`Vector::resume`].
    pub fn resume(store: &Store, kept: &KeptClustering) -> Result<Self, ExternalError> {
        let KeptClustering { cluster_count, cluster_nodes, .. } = *kept;
        let entries = Vector::resume(store, &kept.entries)?;
        if cluster_count > entries.len() {
            return Err(misfit("there are more clusters than edges"));
        }
        let spans = Vector::resume(store, &kept.spans)?;
        Ok(Self { entries, spans, cluster_count, cluster_nodes })
    }

    /// How many clusters there are.
    #[must_use]
    pub const fn cluster_count(&self) -> u64 {
        self.cluster_count
    }

    /// The c with which they were made.
    #[must_use]
    pub const fn cluster_nodes(&self) -> u64 {
        self.cluster_nodes
    }

    /// How many nodes the graph has.
    #[must_use]
    pub const fn node_count(&self) -> u64 {
        self.spans.len()
    }

    /// How many entries there are: two for each edge.
    #[must_use]
    pub const fn entry_count(&self) -> u64 {
        self.entries.len()
    }

    /// The store in which they lie.
    #[must_use]
    pub const fn store(&self) -> &Store {
        self.entries.store()
    }

    pub(super) const fn entries(&self) -> &Vector<Entry> {
        &self.entries
    }

    /// Where the cluster of a node lies.
    pub(super) fn span_of(&self, node: u64) -> Result<Span, ExternalError> {
        let mut scanner = self.spans.scanner_of(node..node + 1, 0)?;
        Ok(scanner.next_record()?.expect("the range has a record"))
    }

    /// Asserts that its vectors are whole.
    ///
    /// # Panics
    /// If one is not.
    pub fn audit(&self) {
        self.entries.audit();
        self.spans.audit();
        assert!(self.cluster_count <= self.entries.len(), "invariant 1: no cluster is empty");
    }
}

impl<'g> Work<'g> {
    fn new(
        graph: &'g Graph,
        source: u64,
        (clusters, scratch): (&Store, &'g Store),
        bytes: u64,
        settings: ClusteringSettings,
    ) -> Result<Self, ExternalError> {
        let of_graph = (graph.node_count(), graph.edge_count());
        let cluster_nodes = settings.cluster_nodes(of_graph, clusters)?;
        let stores = [graph.store(), clusters, scratch];
        let division = Division::new(stores, graph.node_count(), bytes, settings.node_bytes);
        Ok(Self { graph, source, store: scratch, division, cluster_nodes, seed: settings.seed })
    }
}

impl ClusteringSettings {
    /// The c of a graph of so many nodes and edges, of which the clusters go to that store.
    pub(crate) fn cluster_nodes(
        &self,
        of_graph: (u64, u64),
        clusters: &Store,
    ) -> Result<u64, ExternalError> {
        let block_entries = clusters.per_block::<Entry>()? * clusters.volume_count();
        let model = || self.kind.method().model_cluster_nodes(of_graph, block_entries);
        Ok(self.cluster_nodes.unwrap_or_else(model))
    }
}

impl Work<'_> {
    /// Refuses clusters and tours for which the stores have no room, before anything of them is made.
    fn check_room(&self, clusters: &Store) -> Result<(), ExternalError> {
        let (ends, node_count) = (self.graph.edges.len(), self.graph.node_count());
        let entry_bytes = room_of::<Entry>(clusters, ends)?;
        let span_bytes = room_of::<Span>(clusters, node_count)?;
        // All runs are there before the first entry is written, and so are spans where these are in no
        // words. What entries are read from gives its room back.
        let has_words = self.division.has_words();
        let run_bytes = match has_words {
            true => {
                run_bytes::<(u32, u32, u32)>(self.store, self.division.entry_sort_bytes(0), ends)
            }
            false => {
                let share = self.division.sort_share().unwrap_or(0);
                run_bytes::<(u64, Entry)>(self.store, share, ends)
            }
        };
        let edges = counted(self.graph.edge_count(), "edge");
        let what = format!("clusters of a graph of {edges}");
        let searched_bytes = entry_bytes.saturating_add(span_bytes);
        if !clusters.is_same(self.store) {
            clusters.check_room(searched_bytes, &what)?;
            return self.store.check_room(run_bytes, &format!("sorting for {what}"));
        }
        let beside_bytes = if has_words { 0 } else { span_bytes };
        clusters.check_room(searched_bytes.max(run_bytes.saturating_add(beside_bytes)), &what)
    }

    /// The cluster of each node, from those that have one, by node.
    fn spread(
        &self,
        assigned: SortedStream<(u64, u64), Natural>,
    ) -> Result<Vector<u64>, ExternalError> {
        let mut assigned = assigned.ahead();
        let mut writer = Vector::writer_of(self.store, self.graph.node_count())?;
        for node in 0..self.graph.node_count() {
            let found = assigned.peek()?.filter(|found| found.0 == node);
            if found.is_some() {
                assigned.next_record()?;
            }
            writer.push(found.map_or(NO_CLUSTER, |(_, cluster)| cluster))?;
        }
        assert_eq!(assigned.peek()?, None, "each node has one cluster");
        writer.finish()
    }
}

/// The room of so many records in a store.
fn room_of<R: Record>(store: &Store, count: u64) -> Result<u64, ExternalError> {
    let blocks = count.div_ceil(store.per_block::<R>()?);
    Ok(blocks.saturating_mul(store.block_bytes()))
}

/// The room of the runs of so many records, which are all there before the first is merged; none where there
/// is too little memory.
fn run_bytes<R: Record>(store: &Store, sort_bytes: u64, count: u64) -> u64 {
    let division = sort::Division::new::<R>(store, sort_bytes);
    division.map_or(0, |division| division.run_bytes(store, count))
}

#[cfg(test)]
mod block_counts;
#[cfg(test)]
mod tests;
