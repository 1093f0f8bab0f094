//! What clusters of a tour ask for (the first phase of the search of Mehlhorn and Meyer): a spanning tree,
//! its tour, and the lists of nodes laid by its pieces.
//!
//! ```text
//!   words of all nodes:  graph ─► tree and tour in memory ─► graph, sorted by cluster ─► entries
//!   a word, or less:     graph (─► edges that wait) ─► tree ─sorts─► tour ─ranks─► pieces ─sorts─► entries
//! ```
//!
//! 1. The graph is assumed to be connected: a tree edge for each node but one.
//! 2. Of edges that wait it is assumed that all go through runs, and that none becomes one with another:
//!    where k of n labels are left one that is contracted then belongs to 2 m / k others (Sibeyn).

use super::flow::{Pen, Reading, Writing, merge_of, rounded};
use super::ranking::rank_list;
use super::search::Arrays;
use super::sorting::{RUN_COUNT_MAX, Sort};
use crate::cost::{Requests, Work};
use crate::graph::{ClusteringDivision, ClusteringSettings, Entry, Span, Waiting};
use crate::priority_queue::QueueDivision;
use crate::{ExternalError, Record, Store};
use nandu_base::Rng;

/// Steps in which waiting edges are added up over the logarithm of what is left.
const SWEEP_STEPS: u32 = 64;

/// A clustering that is being predicted.
struct Run<'p, 'r> {
    pen: Pen<'r>,
    division: ClusteringDivision,
    arrays: Arrays,
    nodes: u64,
    /// Twice the edges, and twice those of the tree.
    ends: u64,
    arcs: u64,
    clusters: u64,
    rng: &'p mut Rng,
}

/// About how many clusters a tour has that is cut after so many steps.
pub(super) fn cluster_count(node_count: u64, cluster_nodes: u64) -> u64 {
    let arcs = node_count.saturating_sub(1).saturating_mul(2);
    arcs.div_ceil(cluster_nodes.max(1)).clamp(1, node_count.max(1))
}

/// A graph of so many nodes and edges, which is connected, becomes clusters by a tour within `bytes` of
/// memory, all on one store.
///
/// # Errors
/// If memory is too little, or the store is to stop.
pub fn cluster(
    store: &Store,
    (nodes, edges): (u64, u64),
    bytes: u64,
    settings: &ClusteringSettings,
    (rng, requests): (&mut Rng, &mut dyn Requests),
) -> Result<(), ExternalError> {
    let mut pen = Pen::new(store, requests);
    let arrays = Arrays::new(&mut pen, (nodes, edges))?;
    let division = ClusteringDivision::new([store; 3], nodes, bytes, settings.node_bytes);
    let clusters = cluster_count(nodes, settings.cluster_nodes((nodes, edges), store)?);
    let (ends, arcs) = (edges.saturating_mul(2), nodes.saturating_sub(1).saturating_mul(2));
    let mut run = Run { pen, division, arrays, nodes, ends, arcs, clusters, rng };
    match division.has_words() {
        true => run.in_memory(),
        false => run.beyond_memory(),
    }
}

impl Run<'_, '_> {
    fn graph(&self) -> [Reading; 2] {
        [self.arrays.nodes.read(), self.arrays.edges.read()]
    }

    fn row<R: Record>(&mut self, count: u64) -> Result<Writing, ExternalError> {
        self.pen.vector::<R>(count)
    }

    fn flow(
        &mut self,
        mut readings: Vec<Reading>,
        writings: Vec<Writing>,
        work: Work,
    ) -> Result<(), ExternalError> {
        self.pen.flow(&mut readings, writings, self.rng)?;
        self.pen.end_phase(work);
        Ok(())
    }

    /// What `readings` bring is sorted: the merge of so many records.
    fn sort<R: Record>(
        &mut self,
        readings: Vec<Reading>,
        count: u64,
        bytes: u64,
    ) -> Result<(Reading, Work), ExternalError> {
        let (sort, runs) = Sort::begin::<R>(&mut self.pen, count, bytes)?;
        self.flow(readings, vec![runs], sort.put_in())?;
        sort.finish(&mut self.pen, self.rng)
    }

    fn in_memory(&mut self) -> Result<(), ExternalError> {
        let (graph, nodes) = (self.graph().to_vec(), self.arrays.nodes.read());
        // Each edge looks for both its ends in the union-find; the tour comes to each node twice.
        self.flow(graph.clone(), Vec::new(), Work::walked(self.ends))?;
        self.flow(Vec::new(), Vec::new(), Work::walked(self.arcs))?;
        self.flow(vec![nodes], Vec::new(), Work::default())?;
        let bytes = self.division.entry_sort_bytes(self.clusters);
        let (sorted, work) = self.sort::<(u32, u32, u32)>(graph, self.ends, bytes)?;
        let (spans, entries) = (self.row::<Span>(self.nodes)?, self.row::<Entry>(self.ends)?);
        self.flow(Vec::new(), vec![spans], Work::default())?;
        // Each looks for the cluster of the other end.
        self.flow(vec![sorted], vec![entries], work.and(Work::walked(self.ends)))
    }

    fn beyond_memory(&mut self) -> Result<(), ExternalError> {
        let share = self.division.sort_share()?;
        let tree = self.tree(share)?;
        let (arcs, ranks) = self.tour(tree, share)?;
        let (nodes, readings) = (self.nodes, vec![arcs.read(), ranks.read()]);
        // Cut by position, then by node.
        let (pieces, work) = self.sort::<(u64, u64, u8)>(readings, nodes, share)?;
        let (by_node, runs) = Sort::begin::<(u64, u64)>(&mut self.pen, nodes, share)?;
        self.flow(vec![pieces], vec![runs], work.and(by_node.put_in()))?;
        let (by_node, work) = by_node.finish(&mut self.pen, self.rng)?;
        let cluster_of = self.row::<u64>(nodes)?;
        self.flow(vec![by_node], vec![cluster_of], work)?;
        let spans = self.spans(cluster_of, share)?;
        // Entries by neighbour, then by place.
        let readings = self.graph().into_iter().chain([spans.read()]).collect();
        let (by_node, work) = self.sort::<Entry>(readings, self.ends, share)?;
        let (by_place, runs) = Sort::begin::<(u64, Entry)>(&mut self.pen, self.ends, share)?;
        self.flow(vec![by_node, spans.read()], vec![runs], work.and(by_place.put_in()))?;
        let (by_place, work) = by_place.finish(&mut self.pen, self.rng)?;
        let entries = self.row::<Entry>(self.ends)?;
        self.flow(vec![by_place], vec![entries], work)
    }

    /// The edges of a tree.
    fn tree(&mut self, share: u64) -> Result<Writing, ExternalError> {
        let limit = self.division.labels_in_memory()?;
        let (graph, tree) = (self.graph().to_vec(), self.row::<(u64, u64)>(self.arcs / 2)?);
        if limit == self.nodes {
            self.flow(graph, vec![tree], Work::walked(self.ends))?;
            return Ok(tree);
        }
        match u32::try_from(self.nodes) {
            Ok(_) => self.sweep::<Waiting<u32>>(graph, tree, limit, share)?,
            Err(_) => self.sweep::<Waiting<u64>>(graph, tree, limit, share)?,
        }
        Ok(tree)
    }

    /// Edges wait in a queue for the greater of their labels.
    fn sweep<W: Record>(
        &mut self,
        graph: Vec<Reading>,
        tree: Writing,
        limit: u64,
        share: u64,
    ) -> Result<(), ExternalError> {
        let QueueDivision { heap_limit, fan_in, .. } =
            QueueDivision::of::<W>(self.pen.store(), share)?;
        let waits = rounded(waits(self.nodes, self.ends / 2, limit));
        let run_count = waits.saturating_sub(heap_limit).div_ceil(heap_limit);
        if run_count > RUN_COUNT_MAX {
            let what = format!(
                "{waits} edges wait in {run_count} runs, of which no more than {RUN_COUNT_MAX} are \
                 predicted; give more memory"
            );
            return Err(ExternalError::Invalid { what });
        }
        let mut runs = Vec::new();
        for _ in 0..run_count {
            runs.push(self.row::<W>(heap_limit)?);
        }
        let written = runs.clone();
        let work = Work { put_in_count: waits, ..Work::merged(waits, run_count.max(1)) };
        // Those of a full group become one.
        let full = nandu_base::to_index(run_count / fan_in.max(1) * fan_in);
        let mut merged = Vec::new();
        for group in runs[..full].chunks(nandu_base::to_index(fan_in)) {
            let blocks = group.iter().map(Writing::block_count).sum();
            merged.push((merge_of(group.to_vec()), self.pen.row(blocks)));
        }
        self.flow(graph, written, Work::default())?;
        let mut left = runs.split_off(full);
        for (group, row) in merged {
            self.flow(vec![group], vec![row], Work::default())?;
            left.push(row);
        }
        self.flow(vec![merge_of(left)], vec![tree], work)
    }

    /// The tour of a tree: its arcs in order, and their ranks.
    fn tour(&mut self, tree: Writing, share: u64) -> Result<(Writing, Writing), ExternalError> {
        let count = self.arcs;
        let (sorted, work) = self.sort::<(u64, u64)>(vec![tree.read()], count, share)?;
        let (following, runs) = Sort::begin::<((u64, u64), u64)>(&mut self.pen, count, share)?;
        let arcs = self.row::<(u64, u64)>(count)?;
        self.flow(vec![sorted], vec![runs, arcs], work.and(following.put_in()))?;
        let (following, work) = following.finish(&mut self.pen, self.rng)?;
        let successors = self.row::<u64>(count)?;
        self.flow(vec![following], vec![successors], work)?;
        let bytes = self.division.bytes();
        let ranks = rank_list(&mut self.pen, successors, count, bytes, self.rng)?;
        Ok((arcs, ranks))
    }

    /// The span of each node, by way of the members of clusters.
    fn spans(&mut self, cluster_of: Writing, share: u64) -> Result<Writing, ExternalError> {
        let (nodes, clusters) = (self.nodes, self.clusters);
        let readings = vec![cluster_of.read(), self.arrays.nodes.read()];
        let (by_cluster, work) = self.sort::<(u64, u64, u64)>(readings, nodes, share)?;
        let (members, sizes) = (self.row::<(u64, u64)>(nodes)?, self.row::<Span>(clusters)?);
        self.flow(vec![by_cluster], vec![members, sizes], work)?;
        let readings = vec![members.read(), sizes.read()];
        let (by_node, work) = self.sort::<(u64, Span)>(readings, nodes, share)?;
        let spans = self.row::<Span>(nodes)?;
        self.flow(vec![by_node], vec![spans], work)?;
        Ok(spans)
    }
}

/// How often edges wait that are swept down to `limit` of so many labels.
fn waits(nodes: u64, edges: u64, limit: u64) -> f64 {
    let (nodes, edges, limit) = (nodes as f64, edges as f64, limit.max(1) as f64);
    // One waits unless both its labels lie below the limit.
    let waiting = |labels: f64| 1.0 - (limit / labels).min(1.0).powi(2);
    let step = (nodes / limit).ln() / f64::from(SWEEP_STEPS);
    let again = (0..SWEEP_STEPS).map(|at| {
        let labels = nodes * (-step * (f64::from(at) + 0.5)).exp();
        // One goes with each label, and no more are left than there are pairs.
        let left = (edges - (nodes - labels)).clamp(0.0, labels * (labels - 1.0).max(0.0) / 2.0);
        2.0 * left * waiting(labels) * step
    });
    edges * waiting(nodes) + again.sum::<f64>()
}
