//! A spanning forest beyond memory: the sweep of Sibeyn that Dementiev, Sanders, Schultes and he
//! have in "Engineering an external memory minimum spanning tree algorithm" (TCS 2004), here
//! without weights.
//!
//! ```text
//!   labels   n-1 … v ………… limit-1 … 0         nodes in random order
//!            ◄──────── sweep              below the limit: union-find in memory
//!   v: edges to lesser labels  w  a  b     (v, w) joins the tree; v becomes one with w:
//!                              └──┴──┴───► edges (a, w), (b, w) for those who come later
//! ```
//!
//! An edge waits, in a priority queue, for the greater of its ends. Where all labels lie below the
//! limit nothing is swept: edges are read once, and one word a node is in memory (semi-external).
//!
//! 1. An edge that waits stands for an edge of the graph between the parts of the graph that became
//!    one with its ends.
//! 2. Tree edges form no circle, and connect what the graph connects.
//! 3. One node of each part of the graph is a root; the source is the root of its part.

use super::{STREAM_COUNT, Work};
use crate::{
    By, ExternalError, Memory, Natural, PriorityQueue, RecordStream, Sorter, Vector, VectorWriter,
};
use nandu_base::{Permutation, Rng, to_index};

/// The tree edges, and the roots.
pub(super) struct Forest {
    /// Each edge once.
    pub(super) edges: Vector<(u64, u64)>,
    /// The root of each part of the graph but the source's, ascending. Nodes without neighbours are
    /// such parts.
    pub(super) roots: Vector<u64>,
}

/// The greater label of an edge, the lesser one, and the edge of the graph.
type Waiting = (u64, u64, (u64, u64));
/// The greatest label first, and the least neighbour of that.
type WaitingOrder = By<fn(&Waiting) -> (u64, u64)>;

const fn waiting_key(edge: &Waiting) -> (u64, u64) {
    (u64::MAX - edge.0, edge.1)
}

/// What is under way.
struct Sweep {
    /// None where all labels lie below the limit.
    queue: Option<PriorityQueue<Waiting, WaitingOrder>>,
    below: UnionFind,
    edges: VectorWriter<(u64, u64)>,
}

/// Labels in memory that became one.
struct UnionFind {
    parents: Vec<u64>,
    _memory: Memory,
}

/// A spanning forest of the graph of `work`.
pub(super) fn spanning_forest(work: &Work<'_>) -> Result<Forest, ExternalError> {
    let count = work.graph.node_count();
    // Two streams over the graph and one that writes edges; roots are written after the graph.
    let share = work.share(STREAM_COUNT, 2)?;
    let words = |bytes: u64| bytes.min(work.union_find_bytes) / 8;
    let is_semi_external = words(2 * share) >= count;
    let limit = if is_semi_external { count } else { words(share).min(count) };
    let order: WaitingOrder = By(waiting_key);
    let queue = match is_semi_external {
        true => None,
        false => Some(PriorityQueue::with_bytes(work.store, order, share)?),
    };
    let below = UnionFind::new(work, limit)?;
    let edges = Vector::writer_of(work.store, count)?;
    let mut sweep = Sweep { queue, below, edges };
    let seed = Rng::for_part(work.seed, "sweep").next_u64();
    let labels = (!is_semi_external).then(|| Permutation::new(count, seed));
    let label = |node: u64| labels.as_ref().map_or(node, |labels| labels.apply(node));
    {
        let mut pairs = work.graph.pairs()?;
        while let Some((node, neighbour)) = pairs.next_record()? {
            if node < neighbour {
                sweep.add(label(node), label(neighbour), (node, neighbour))?;
            }
        }
    }
    let roots = sweep.run(work, limit..count, label(work.source))?;
    let Sweep { queue, below, edges } = sweep;
    let edges = edges.finish()?;
    drop((queue, below));
    let roots = match labels {
        None => roots,
        Some(labels) => name_roots(work, roots, &labels)?,
    };
    Ok(Forest { edges, roots })
}

impl Sweep {
    /// Has an edge between two labels wait, or joins them at once.
    fn add(&mut self, left: u64, right: u64, edge: (u64, u64)) -> Result<(), ExternalError> {
        let (high, low) = (left.max(right), left.min(right));
        match &mut self.queue {
            Some(queue) if high >= self.below.len() => queue.push((high, low, edge)),
            _ if self.below.unite(high, low) => self.edges.push(edge),
            _ => Ok(()),
        }
    }

    /// The edge that waits for `label` and leads to the least one.
    fn next_of(&mut self, label: u64) -> Result<Option<Waiting>, ExternalError> {
        let Some(queue) = &mut self.queue else { return Ok(None) };
        match queue.peek()?.filter(|edge| edge.0 == label) {
            Some(_) => queue.pop(),
            None => Ok(None),
        }
    }

    /// Contracts the labels `swept`, the greatest first; the labels of the roots but that of the
    /// source's part, descending where something was swept, else ascending.
    fn run(
        &mut self,
        work: &Work<'_>,
        swept: std::ops::Range<u64>,
        mut source: u64,
    ) -> Result<Vector<u64>, ExternalError> {
        let mut roots = Vector::writer(work.store)?;
        let limit = swept.start;
        for label in swept.rev() {
            let Some((_, target, edge)) = self.next_of(label)? else {
                if label != source {
                    roots.push(label)?;
                }
                continue;
            };
            self.edges.push(edge)?;
            if label == source {
                source = target;
            }
            let mut last = target;
            while let Some((_, other, edge)) = self.next_of(label)? {
                if other != last {
                    self.add(other, target, edge)?;
                    last = other;
                }
            }
        }
        let source = if source < limit { self.below.find(source) } else { source };
        let is_descending = self.queue.is_some();
        for index in 0..limit {
            let label = if is_descending { limit - 1 - index } else { index };
            if label != source && self.below.find(label) == label {
                roots.push(label)?;
            }
        }
        roots.finish()
    }
}

impl UnionFind {
    fn new(work: &Work<'_>, count: u64) -> Result<Self, ExternalError> {
        let memory = work.store.grant().take("a union-find", count * 8)?;
        Ok(Self { parents: (0..count).collect(), _memory: memory })
    }

    const fn len(&self) -> u64 {
        self.parents.len() as u64
    }

    /// Who stands for a label; ways there are halved.
    fn find(&mut self, mut label: u64) -> u64 {
        loop {
            let parent = self.parents[to_index(label)];
            if parent == label {
                return label;
            }
            let above = self.parents[to_index(parent)];
            self.parents[to_index(label)] = above;
            label = above;
        }
    }

    /// Makes two labels one; false if they were.
    fn unite(&mut self, left: u64, right: u64) -> bool {
        let (left, right) = (self.find(left), self.find(right));
        self.parents[to_index(left.max(right))] = left.min(right);
        left != right
    }
}

/// The nodes whose labels `roots` has, descending; the nodes ascend.
fn name_roots(
    work: &Work<'_>,
    roots: Vector<u64>,
    labels: &Permutation,
) -> Result<Vector<u64>, ExternalError> {
    let share = work.share(STREAM_COUNT, 2)?;
    let descending = By(|&(label, _): &(u64, u64)| u64::MAX - label);
    let mut by_label = Sorter::with_bytes(work.store, descending, share)?;
    (0..work.graph.node_count()).try_for_each(|node| by_label.push((labels.apply(node), node)))?;
    let mut by_node = Sorter::with_bytes(work.store, Natural, share)?;
    {
        let (mut nodes, mut roots) = (by_label.finish()?.ahead(), roots.into_stream()?);
        while let Some(root) = roots.next_record()? {
            let named = nodes.skip_while(|&(label, _)| label > root)?;
            by_node.push(named.expect("each label is a node's").1)?;
        }
    }
    by_node.finish()?.store_in(work.store)
}

#[cfg(test)]
mod tests;
