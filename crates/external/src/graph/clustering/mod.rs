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

mod forest;
mod random;
mod tour;

use super::Graph;
use crate::store::misfit;
use crate::{
    ExternalError, KeptVector, Natural, RecordStream, SortedStream, Sorter, Store, Vector,
    VectorWriter,
};
use nandu_base::to_u32;
use random::Random;
use serde::{Deserialize, Serialize};
use tour::Tour;

/// Where the lists of a cluster lie: its first entry, and how many entries there are.
pub(super) type Span = (u64, u32);
/// A node that somebody is led to, and the span of its cluster.
pub(super) type Target = (u64, Span);
/// A node, one of its neighbours, and the span of that.
pub(super) type Entry = (u64, Target);

/// The cluster of a node without neighbours.
const NO_CLUSTER: u64 = u64::MAX;
/// Fewest blocks with which something is sorted here.
const SORT_BLOCK_COUNT: u64 = 4;
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
    /// Memory for a union-find of nodes, a word each, at most; what does not fit is contracted
    /// beyond memory. 0 has the spanning tree be made without anything that grows with the nodes.
    pub union_find_bytes: u64,
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

/// Each node with its cluster, counted from 0, and the span of each cluster.
type Measured = (Vector<(u64, u64)>, Vector<Span>);

/// A way to bring nodes into clusters.
trait Assign {
    /// The c that the model says, for `block_entries` entries that all volumes move at once.
    fn model_cluster_nodes(&self, graph: &Graph, block_entries: u64) -> u64;

    /// The number of the cluster of each node, [`NO_CLUSTER`] for one without neighbours. Numbers
    /// say in which order clusters are to lie.
    fn assign(&self, work: &Work<'_>) -> Result<Vector<u64>, ExternalError>;
}

/// What is done with which memory.
struct Work<'g> {
    graph: &'g Graph,
    source: u64,
    /// Where runs and what lies in between are written.
    store: &'g Store,
    bytes: u64,
    /// Memory of a stream: the most of all stores.
    stream_bytes: u64,
    cluster_nodes: u64,
    union_find_bytes: u64,
    seed: u64,
}

impl Default for ClusteringSettings {
    fn default() -> Self {
        let kind = ClusteringKind::default();
        Self { kind, cluster_nodes: None, union_find_bytes: u64::MAX, seed: 1 }
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
        let method = settings.kind.method();
        let block_entries = clusters.per_block::<Entry>()? * clusters.volume_count();
        let cluster_nodes = { settings.cluster_nodes }
            .unwrap_or_else(|| method.model_cluster_nodes(graph, block_entries));
        let stream_bytes = { [graph.store(), clusters, scratch].into_iter() }
            .map(Store::stream_bytes)
            .max()
            .expect("there are stores");
        let work = Work {
            graph,
            source,
            store: scratch,
            bytes,
            stream_bytes,
            cluster_nodes,
            union_find_bytes: settings.union_find_bytes,
            seed: settings.seed,
        };
        let cluster_of = method.assign(&work)?;
        work.arrange(clusters, cluster_of)
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

impl Work<'_> {
    /// Memory for each of `sorts` sorters beside `streams` streams.
    fn share(&self, streams: u64, sorts: u64) -> Result<u64, ExternalError> {
        let least_bytes = SORT_BLOCK_COUNT * self.store.block_bytes();
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

    /// Lays the lists of all nodes by clusters, in the order of their numbers.
    fn arrange(
        &self,
        clusters: &Store,
        cluster_of: Vector<u64>,
    ) -> Result<Clustering, ExternalError> {
        let share = self.share(STREAM_COUNT, SORT_COUNT)?;
        let (spans, cluster_count) = self.find_spans(clusters, cluster_of, share)?;
        let mut by_node: Sorter<Entry, _> = Sorter::with_bytes(self.store, Natural, share)?;
        {
            // Seen from its other end, an edge tells a node's neighbour where the node lies.
            let (mut pairs, mut scanner) = (self.graph.pairs()?, spans.scanner()?.numbered());
            while let Some((node, neighbour)) = pairs.next_record()? {
                let span = scanner.at(node)?;
                by_node.push((neighbour, (node, span)))?;
            }
        }
        let mut by_place: Sorter<(u64, Entry), _> = Sorter::with_bytes(self.store, Natural, share)?;
        {
            let (mut stream, mut scanner) = (by_node.finish()?, spans.scanner()?.numbered());
            while let Some(entry) = stream.next_record()? {
                let (first, _) = scanner.at(entry.0)?;
                by_place.push((first, entry))?;
            }
        }
        let mut entries = Vector::writer_of(clusters, by_place.len())?;
        let mut stream = by_place.finish()?;
        while let Some((_, entry)) = stream.next_record()? {
            entries.push(entry)?;
        }
        let (entries, cluster_nodes) = (entries.finish()?, self.cluster_nodes);
        Ok(Clustering { entries, spans, cluster_count, cluster_nodes })
    }

    /// The span of each node's cluster, and how many clusters there are.
    fn find_spans(
        &self,
        clusters: &Store,
        cluster_of: Vector<u64>,
        share: u64,
    ) -> Result<(Vector<Span>, u64), ExternalError> {
        let mut by_cluster: Sorter<(u64, u64, u64), _> =
            Sorter::with_bytes(self.store, Natural, share)?;
        {
            let (mut cluster_of, mut nodes) =
                (cluster_of.into_stream()?, self.graph.nodes.scanner()?);
            let mut node = 0;
            while let Some(cluster) = cluster_of.next_record()? {
                let (_, degree) = nodes.next_record()?.expect("each node has a cluster or none");
                assert_eq!(degree == 0, cluster == NO_CLUSTER, "invariant 1");
                if cluster != NO_CLUSTER {
                    by_cluster.push((cluster, node, degree))?;
                }
                node += 1;
            }
        }
        let (members, sizes) = self.measure(by_cluster.finish()?)?;
        let cluster_count = sizes.len();
        let mut by_node: Sorter<(u64, Span), _> = Sorter::with_bytes(self.store, Natural, share)?;
        {
            let (mut members, mut sizes) =
                (members.into_stream()?, sizes.into_stream()?.numbered());
            while let Some((node, cluster)) = members.next_record()? {
                by_node.push((node, sizes.at(cluster)?))?;
            }
        }
        let mut stream = by_node.finish()?.ahead();
        let mut spans = Vector::writer_of(clusters, self.graph.node_count())?;
        for node in 0..self.graph.node_count() {
            let found = stream.peek()?.filter(|found| found.0 == node);
            if found.is_some() {
                stream.next_record()?;
            }
            spans.push(found.map_or((0, 0), |(_, span)| span))?;
        }
        Ok((spans.finish()?, cluster_count))
    }

    /// Counts clusters and their entries.
    fn measure(
        &self,
        mut by_cluster: SortedStream<(u64, u64, u64), Natural>,
    ) -> Result<Measured, ExternalError> {
        let count = by_cluster.left_count().unwrap_or(0);
        let mut members = Vector::writer_of(self.store, count)?;
        let mut sizes: VectorWriter<Span> = Vector::writer(self.store)?;
        let (mut last, mut first, mut end) = (None, 0, 0);
        while let Some((cluster, node, degree)) = by_cluster.next_record()? {
            if last.is_some_and(|last| last != cluster) {
                sizes.push(span(first, end)?)?;
                first = end;
            }
            last = Some(cluster);
            members.push((node, sizes.len()))?;
            end += degree;
        }
        if last.is_some() {
            sizes.push(span(first, end)?)?;
        }
        Ok((members.finish()?, sizes.finish()?))
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

fn span(first: u64, end: u64) -> Result<Span, ExternalError> {
    let count = end - first;
    if count > u64::from(u32::MAX) {
        let what = format!(
            "a cluster has {count} edges, 2^32 or more; make clusters of fewer nodes than these"
        );
        return Err(ExternalError::Invalid { what });
    }
    Ok((first, to_u32(count)))
}

/// A stream whose records are asked for by their numbers, which ascend.
struct Numbered<S: RecordStream> {
    stream: S,
    /// The record that was read last, and how many were read.
    last: Option<S::Record>,
    count: u64,
}

/// Gives a stream's records by number.
trait ByNumber: RecordStream + Sized {
    fn numbered(self) -> Numbered<Self> {
        Numbered { stream: self, last: None, count: 0 }
    }
}

impl<S: RecordStream> ByNumber for S {}

impl<S: RecordStream> Numbered<S> {
    /// The record `index`, which is not before the last that was asked for.
    fn at(&mut self, index: u64) -> Result<S::Record, ExternalError> {
        while self.count <= index {
            self.last = self.stream.next_record()?;
            self.count += 1;
        }
        Ok(self.last.expect("who asks knows how many records there are"))
    }
}

#[cfg(test)]
mod tests;
