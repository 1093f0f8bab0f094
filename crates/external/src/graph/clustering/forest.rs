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
//! limit nothing is swept: edges are read once, and one word of four bytes a node is in memory
//! (semi-external). Labels are of four bytes, too, where all nodes are: an edge that waits takes
//! 16 bytes then, and 32 otherwise.
//!
//! 1. An edge that waits stands for an edge of the graph between the parts of the graph that became
//!    one with its ends.
//! 2. Tree edges form no circle, and connect what the graph connects.
//! 3. One node of each part of the graph is a root; the source is the root of its part.

use super::Work;
use crate::{
    By, ExternalError, Natural, PriorityQueue, Record, RecordStream, Sorter, Vector, VectorWriter,
};
use nandu_base::{Permutation, Rng, to_index, to_u32};

/// The tree edges, and the roots.
pub(super) struct Forest {
    /// Each edge once.
    pub(super) edges: Vector<(u64, u64)>,
    /// The root of each part of the graph but the source's, ascending. Nodes without neighbours are
    /// such parts.
    pub(super) roots: Vector<u64>,
}

/// The greater label of an edge, the lesser one, and the edge of the graph.
pub(crate) type Waiting<L> = (L, L, (L, L));
/// The greatest label first, and the least neighbour of that.
type WaitingOrder<L> = By<fn(&Waiting<L>) -> (u64, u64)>;

/// A label or a node in as many bytes as they need.
trait Label: Record {
    fn of(number: u64) -> Self;
    fn number(self) -> u64;
}

impl Label for u32 {
    fn of(number: u64) -> Self {
        to_u32(number)
    }

    fn number(self) -> u64 {
        self.into()
    }
}

impl Label for u64 {
    fn of(number: u64) -> Self {
        number
    }

    fn number(self) -> u64 {
        self
    }
}

fn waiting_key<L: Label>(edge: &Waiting<L>) -> (u64, u64) {
    (u64::MAX - edge.0.number(), edge.1.number())
}

/// What is under way.
struct Sweep<L> {
    /// None where all labels lie below the limit.
    queue: Option<PriorityQueue<Waiting<L>, WaitingOrder<L>>>,
    below: UnionFind,
    edges: VectorWriter<(u64, u64)>,
}

/// Labels in memory that became one.
pub(super) struct UnionFind {
    parents: Vec<u32>,
}

/// More labels than this are not told apart by a word.
pub(super) const WORD_LIMIT: u64 = u32::MAX as u64;

/// A spanning forest of the graph of `work`.
pub(super) fn spanning_forest(work: &Work<'_>) -> Result<Forest, ExternalError> {
    match work.graph.node_count() <= WORD_LIMIT {
        true => sweep::<u32>(work),
        false => sweep::<u64>(work),
    }
}

fn sweep<L: Label>(work: &Work<'_>) -> Result<Forest, ExternalError> {
    let count = work.graph.node_count();
    // Two streams over the graph and one that writes edges; roots are written after the graph.
    let share = work.division.sort_share()?;
    let limit = work.division.labels_in_memory()?;
    let is_semi_external = limit == count;
    let order: WaitingOrder<L> = By(waiting_key);
    let queue = match is_semi_external {
        true => None,
        false => Some(PriorityQueue::with_bytes(work.store, order, share)?),
    };
    let memory = work.store.grant().take("a union-find", limit * 4)?;
    let below = UnionFind::new(limit);
    let edges = Vector::writer_of(work.store, count)?;
    let mut sweep: Sweep<L> = Sweep { queue, below, edges };
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
    drop((queue, below, memory));
    let roots = match labels {
        None => roots,
        Some(labels) => name_roots(work, roots, &labels)?,
    };
    Ok(Forest { edges, roots })
}

impl<L: Label> Sweep<L> {
    /// Has an edge between two labels wait, or joins them at once.
    fn add(&mut self, left: u64, right: u64, edge: (u64, u64)) -> Result<(), ExternalError> {
        let (high, low) = (left.max(right), left.min(right));
        match &mut self.queue {
            Some(queue) if high >= self.below.len() => {
                let edge = (L::of(edge.0), L::of(edge.1));
                queue.push((L::of(high), L::of(low), edge))
            }
            _ if self.below.unite(high, low) => self.edges.push(edge),
            _ => Ok(()),
        }
    }

    /// The edge that waits for `label` and leads to the least one.
    fn next_of(&mut self, label: u64) -> Result<Option<Waiting<u64>>, ExternalError> {
        let Some(queue) = &mut self.queue else { return Ok(None) };
        let Some((high, low, edge)) = queue.peek()?.filter(|edge| edge.0.number() == label) else {
            return Ok(None);
        };
        queue.pop()?;
        Ok(Some((high.number(), low.number(), (edge.0.number(), edge.1.number()))))
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
    /// So many labels, each by itself.
    pub(super) fn new(count: u64) -> Self {
        assert!(count <= WORD_LIMIT, "a word tells labels apart");
        Self { parents: (0..to_u32(count)).collect() }
    }

    const fn len(&self) -> u64 {
        self.parents.len() as u64
    }

    /// Who stands for a label; ways there are halved.
    fn find(&mut self, label: u64) -> u64 {
        let mut label = to_u32(label);
        loop {
            let parent = self.parents[at(label)];
            if parent == label {
                return label.into();
            }
            let above = self.parents[at(parent)];
            self.parents[at(label)] = above;
            label = above;
        }
    }

    /// Makes two labels one; false if they were.
    pub(super) fn unite(&mut self, left: u64, right: u64) -> bool {
        let (left, right) = (self.find(left), self.find(right));
        self.parents[to_index(left.max(right))] = to_u32(left.min(right));
        left != right
    }
}

fn at(label: u32) -> usize {
    to_index(u64::from(label))
}

/// The nodes whose labels `roots` has, descending; the nodes ascend.
fn name_roots(
    work: &Work<'_>,
    roots: Vector<u64>,
    labels: &Permutation,
) -> Result<Vector<u64>, ExternalError> {
    if roots.is_empty() {
        return Ok(roots);
    }
    let share = work.division.sort_share()?;
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
