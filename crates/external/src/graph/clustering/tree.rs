//! A spanning forest and its Euler tour in memory, five words of four bytes a node: semi-external.
//!
//! ```text
//!   union-find   1 word a node  ─┐                      pieces of the tour
//!   tree edges   2 ──────────────┴─► lists of the tree ─► cluster of each node
//!                                     1 and 2 words        1 word
//! ```
//!
//! The arc after (u, v) is the one that v has after u, in a circle; so a tour needs no stack, and
//! is the one that [`Tour`](super::tour::Tour) makes by sorts of the same tree.
//!
//! 1. Lists are ascending.
//! 2. At once there are two words a node for edges, one and two for lists; later one for clusters in
//!    place of those for edges.

use super::forest::UnionFind;
use super::{Table, Work};
use crate::{ExternalError, RecordStream, Store};
use nandu_base::{to_index, to_u32};

/// Memory for a node: two words for its edge, one and two for its list.
pub(super) const NODE_BYTES: u64 = 20;
/// No more nodes than this: arcs are numbered by a word.
pub(super) const NODE_COUNT_MAX: u64 = 1 << 31;
/// The cluster of a node without neighbours, or of one that was not visited.
pub(super) const NONE: u32 = u32::MAX;

/// Bytes of a step of a tour, as progress has them, and after how many it looks at whether to stop.
pub(super) const STEP_BYTES: u64 = 8;
const STEPS_PER_LOOK: u64 = 4096;
/// The same of edges that are brought into lists.
const EDGES_PER_LOOK: usize = 1 << 16;

/// The trees of a forest.
struct Trees {
    /// Where the list of each node begins, and the end of the last.
    starts: Vec<u32>,
    targets: Vec<u32>,
}

/// Cuts a tour into clusters.
struct Cutter {
    clusters: Vec<u32>,
    cluster_nodes: u64,
    /// Steps so far.
    position: u64,
    /// The piece of the node that was visited last, and its cluster.
    piece: u64,
    cluster: u32,
}

/// The clusters of a tour of the graph of `work`.
pub(super) fn cut(work: &Work<'_>) -> Result<Table, ExternalError> {
    let count = work.graph.node_count();
    let mut memory = work.store.grant().take("a tree in memory", count * NODE_BYTES)?;
    let trees = Trees::new(work)?;
    let clusters = vec![NONE; to_index(count)];
    let Work { source, cluster_nodes, .. } = *work;
    let mut cutter = Cutter { clusters, cluster_nodes, position: 0, piece: 0, cluster: 0 };
    for root in std::iter::once(source).chain(0..count) {
        if cutter.clusters[to_index(root)] == NONE {
            trees.tour(to_u32(root), &mut cutter, work.store)?;
        }
    }
    let memory = memory.split_off(count * 4);
    Ok(Table { clusters: cutter.clusters, _memory: memory })
}

impl Trees {
    fn new(work: &Work<'_>) -> Result<Self, ExternalError> {
        let count = to_index(work.graph.node_count());
        let mut parts = UnionFind::new(work.graph.node_count());
        let mut edges: Vec<(u32, u32)> = Vec::with_capacity(count);
        let mut pairs = work.graph.pairs()?;
        while let Some((node, neighbour)) = pairs.next_record()? {
            if node < neighbour && parts.unite(node, neighbour) {
                edges.push((to_u32(node), to_u32(neighbour)));
            }
        }
        drop((pairs, parts));
        // How long lists are, one place further; then where they begin.
        let mut starts = vec![0; count + 1];
        for edges in edges.chunks(EDGES_PER_LOOK) {
            work.store.check_stop()?;
            for &(left, right) in edges {
                starts[index(left) + 1] += 1;
                starts[index(right) + 1] += 1;
            }
        }
        let mut end = 0;
        for start in &mut starts {
            end += *start;
            *start = end;
        }
        // Edges come by their lesser ends, so those to lesser nodes come first, and all ascend.
        let mut targets = vec![0; 2 * edges.len()];
        for edges in edges.chunks(EDGES_PER_LOOK) {
            work.store.check_stop()?;
            for (from, to) in edges.iter().flat_map(|&(left, right)| [(left, right), (right, left)])
            {
                let place = &mut starts[index(from)];
                targets[index(*place)] = to;
                *place += 1;
            }
        }
        // Each is where the next begins now.
        starts.rotate_right(1);
        starts[0] = 0;
        Ok(Self { starts, targets })
    }

    fn list(&self, node: u32) -> &[u32] {
        let at = index(node);
        &self.targets[index(self.starts[at])..index(self.starts[at + 1])]
    }

    /// Goes round the tree of `root`.
    fn tour(&self, root: u32, cutter: &mut Cutter, store: &Store) -> Result<(), ExternalError> {
        let Some(&first) = self.list(root).first() else { return Ok(()) };
        cutter.visit(root, true);
        let (mut from, mut node) = (root, first);
        loop {
            cutter.position += 1;
            if cutter.position.is_multiple_of(STEPS_PER_LOOK) {
                store.work(STEPS_PER_LOOK * STEP_BYTES)?;
            }
            if cutter.clusters[index(node)] == NONE {
                cutter.visit(node, false);
            }
            let list = self.list(node);
            let slot = list.binary_search(&from).expect("an edge is there from both its ends");
            let next = match list.get(slot + 1) {
                Some(&next) => next,
                None if node == root => return Ok(()),
                None => list[0],
            };
            (from, node) = (node, next);
        }
    }
}

impl Cutter {
    fn visit(&mut self, node: u32, is_root: bool) {
        let piece = self.position / self.cluster_nodes;
        if self.position > 0 && (is_root || piece != self.piece) {
            self.cluster += 1;
        }
        self.piece = piece;
        self.clusters[index(node)] = self.cluster;
    }
}

fn index(number: u32) -> usize {
    to_index(u64::from(number))
}
