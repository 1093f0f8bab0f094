//! Lays the lists of nodes by clusters, once it is known which node is in which.
//!
//! ```text
//!   words in memory:  pairs ──► (cluster, node, neighbour) ──sort──► entries, spans looked up
//!   beyond memory:    pairs, spans of nodes ──sort by neighbour──► beside spans ──sort by place──► entries
//! ```
//!
//! 1. Both ways give the same entries.

use super::tree::NONE;
use super::{Assigned, Clustering, Entry, NO_CLUSTER, Span, Table, Work};
use crate::{
    ExternalError, Memory, Natural, RecordStream, SortedStream, Sorter, Store, Vector, VectorWriter,
};
use nandu_base::{to_index, to_u32};

/// Each node with its cluster, counted from 0, and the span of each cluster.
type Measured = (Vector<(u64, u64)>, Vector<Span>);

/// Bytes of what is sorted where words of nodes are in memory.
pub(super) const SORTED_BYTES: u64 = 12;

/// Bytes of tables for so many nodes, at most: the cluster of each, and where each cluster begins.
pub(super) const fn table_bytes(node_count: u64) -> u64 {
    node_count.saturating_mul(12).saturating_add(16)
}

/// The spans of clusters, in memory.
struct Spans {
    /// The first entry of each cluster, and the end of the last one.
    firsts: Vec<u64>,
    _memory: Memory,
}

impl Spans {
    fn new(work: &Work<'_>, clusters: &[u32]) -> Result<Self, ExternalError> {
        let numbers = clusters.iter().filter(|&&cluster| cluster != NONE);
        let count = numbers.max().map_or(0, |&last| to_index(u64::from(last)) + 1);
        let bytes = (count as u64 + 1) * 8;
        let memory = work.store.grant().take("a table of clusters", bytes)?;
        let mut firsts = vec![0; count + 1];
        let mut nodes = work.graph.nodes.scanner()?;
        for &cluster in clusters {
            let (_, degree) = nodes.next_record()?.expect("each node has a cluster or none");
            assert_eq!(degree == 0, cluster == NONE, "invariant 1");
            if cluster != NONE {
                firsts[to_index(u64::from(cluster)) + 1] += degree;
            }
        }
        let mut end = 0;
        for first in &mut firsts {
            span(end, end + *first)?;
            end += *first;
            *first = end;
        }
        Ok(Self { firsts, _memory: memory })
    }

    fn of(&self, cluster: u32) -> Span {
        if cluster == NONE {
            return (0, 0);
        }
        let at = to_index(u64::from(cluster));
        let (first, end) = (self.firsts[at], self.firsts[at + 1]);
        (first, to_u32(end - first))
    }

    /// How many clusters there are: numbers without a node do not count.
    fn cluster_count(&self) -> u64 {
        self.firsts.windows(2).filter(|pair| pair[0] < pair[1]).count() as u64
    }
}

impl Work<'_> {
    /// Lays the lists of all nodes by clusters, in the order of their numbers.
    pub(super) fn arrange(
        &self,
        clusters: &Store,
        assigned: Assigned,
    ) -> Result<Clustering, ExternalError> {
        match assigned {
            Assigned::InMemory(table) => self.arrange_by_table(clusters, &table),
            Assigned::Outside(cluster_of) if self.division.has_words() => {
                let table = self.load(cluster_of)?;
                self.arrange_by_table(clusters, &table)
            }
            Assigned::Outside(cluster_of) => self.arrange_by_sorts(clusters, cluster_of),
        }
    }

    fn load(&self, cluster_of: Vector<u64>) -> Result<Table, ExternalError> {
        let memory = self.store.grant().take("a table of nodes", cluster_of.len() * 4)?;
        let mut clusters = Vec::with_capacity(to_index(cluster_of.len()));
        let mut stream = cluster_of.into_stream()?;
        while let Some(cluster) = stream.next_record()? {
            clusters.push(if cluster == NO_CLUSTER { NONE } else { to_u32(cluster) });
        }
        Ok(Table { clusters, _memory: memory })
    }

    fn arrange_by_table(
        &self,
        clusters: &Store,
        table: &Table,
    ) -> Result<Clustering, ExternalError> {
        let of = |node: u64| table.clusters[to_index(node)];
        let spans = Spans::new(self, &table.clusters)?;
        let sort_bytes = self.division.entry_sort_bytes(spans.firsts.len() as u64 - 1);
        let mut by_cluster: Sorter<(u32, u32, u32), _> =
            Sorter::with_bytes(self.store, Natural, sort_bytes)?;
        let mut pairs = self.graph.pairs()?;
        while let Some((node, neighbour)) = pairs.next_record()? {
            by_cluster.push((of(node), to_u32(node), to_u32(neighbour)))?;
        }
        drop(pairs);
        let mut of_nodes = Vector::writer_of(clusters, self.graph.node_count())?;
        table.clusters.iter().try_for_each(|&cluster| of_nodes.push(spans.of(cluster)))?;
        let of_nodes = of_nodes.finish()?;
        let mut entries = Vector::writer_of(clusters, by_cluster.len())?;
        let mut stream = by_cluster.finish()?;
        while let Some((_, node, neighbour)) = stream.next_record()? {
            let (node, neighbour) = (u64::from(node), u64::from(neighbour));
            entries.push((node, (neighbour, spans.of(of(neighbour)))))?;
        }
        let (entries, cluster_count) = (entries.finish()?, spans.cluster_count());
        let cluster_nodes = self.cluster_nodes;
        Ok(Clustering { entries, spans: of_nodes, cluster_count, cluster_nodes })
    }

    fn arrange_by_sorts(
        &self,
        clusters: &Store,
        cluster_of: Vector<u64>,
    ) -> Result<Clustering, ExternalError> {
        let share = self.division.sort_share()?;
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
