//! Graphs that are made: lines, grids, random ones, such as webs are, and the class of figure 4.1 of
//! S002, on which every cluster is met in the first level.
//!
//! ```text
//!   figure 4.1: a source, and paths from it          line  0 ─ 1 ─ 2 ─ …
//!        ┌─ 1 ─ 4 ─ 7 …                              grid  0 ─ 1 ─ 2
//!     0 ─┼─ 2 ─ 5 ─ 8 …                                    │   │   │
//!        └─ 3 ─ 6 ─ 9 …                                    3 ─ 4 ─ 5
//! ```

use crate::{ExternalError, RecordStream};
use nandu_base::{Permutation, Rng};

/// What a graph is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphClass {
    /// Each node but the last is joined to the next one.
    Line {
        /// How many nodes there are, one at least.
        nodes: u64,
    },
    /// Rows of nodes, joined to those beside and below.
    Grid {
        /// Nodes of a row, one at least.
        width: u64,
        /// How many rows there are, one at least.
        height: u64,
    },
    /// Figure 4.1: paths that begin at node 0 and have nothing else in common.
    Paths {
        /// How many paths there are, one at least.
        paths: u64,
        /// Nodes of a path besides the source.
        levels: u64,
    },
    /// Edges between nodes that are drawn, perhaps some of them twice.
    Random {
        /// How many nodes there are, two at least where there are edges.
        nodes: u64,
        /// How many edges are drawn.
        edges: u64,
    },
    /// A few nodes with very many neighbours and many with few, as in webs: the recursive matrix of
    /// Chakrabarti, Zhan and Faloutsos (2004) with the shares of Graph500. Edges are drawn, perhaps
    /// some of them twice; nodes that no edge meets are many.
    Web {
        /// How many nodes there are, two at least where there are edges.
        nodes: u64,
        /// How many edges are drawn.
        edges: u64,
    },
}

/// Shares of the quarters of a web's matrix, in hundredths: above left, above right, below left. The
/// rest is below right.
const WEB_SHARES: [u64; 3] = [57, 19, 19];

/// Edges of a graph that is made, each once or more.
#[derive(Clone, Debug)]
pub struct EdgeStream {
    class: GraphClass,
    next: u64,
    count: u64,
    /// Which edge comes in which place, and which number a node has.
    order: Option<(Permutation, Permutation)>,
    rng: Rng,
}

impl GraphClass {
    /// How many nodes it has.
    #[must_use]
    pub const fn node_count(self) -> u64 {
        match self {
            Self::Line { nodes } | Self::Random { nodes, .. } | Self::Web { nodes, .. } => nodes,
            Self::Grid { width, height } => width * height,
            Self::Paths { paths, levels } => 1 + paths * levels,
        }
    }

    /// How many edges it has; those of a random one count as often as they were drawn.
    #[must_use]
    pub const fn edge_count(self) -> u64 {
        match self {
            Self::Line { nodes } => nodes.saturating_sub(1),
            Self::Random { edges, .. } | Self::Web { edges, .. } => edges,
            Self::Grid { width, height } => (width - 1) * height + width * (height - 1),
            Self::Paths { paths, levels } => paths * levels,
        }
    }

    /// Its edges, in an order that follows from the class.
    #[must_use]
    pub fn edges(self, seed: u64) -> EdgeStream {
        let rng = Rng::for_part(seed, "edges");
        EdgeStream { class: self, next: 0, count: self.edge_count(), order: None, rng }
    }

    /// Its edges in random order, between nodes whose numbers are permuted, too.
    #[must_use]
    pub fn shuffled_edges(self, seed: u64) -> EdgeStream {
        let mut rng = Rng::for_part(seed, "order of edges");
        let mut permutation = |len: u64| Permutation::new(len.max(1), rng.next_u64());
        let order = (permutation(self.edge_count()), permutation(self.node_count()));
        EdgeStream { order: Some(order), ..self.edges(seed) }
    }
}

impl EdgeStream {
    /// The number that a node of the class has here.
    #[must_use]
    pub fn node(&self, node: u64) -> u64 {
        self.order.as_ref().map_or(node, |(_, nodes)| nodes.apply(node))
    }

    /// That edges which are drawn have two nodes to lie between.
    fn check(&self) -> Result<(), ExternalError> {
        match self.class {
            GraphClass::Random { nodes: nodes @ ..2, .. }
            | GraphClass::Web { nodes: nodes @ ..2, .. } => {
                let what =
                    format!("{nodes} nodes have no edge between two of them; have more nodes");
                Err(ExternalError::Invalid { what })
            }
            _ => Ok(()),
        }
    }

    /// The edge `index` of the class.
    fn edge(&mut self, index: u64) -> (u64, u64) {
        match self.class {
            GraphClass::Line { .. } => (index, index + 1),
            GraphClass::Grid { width, height } => {
                let beside = (width - 1) * height;
                if index < beside {
                    let node = index / (width - 1) * width + index % (width - 1);
                    (node, node + 1)
                } else {
                    (index - beside, index - beside + width)
                }
            }
            GraphClass::Paths { paths, .. } => {
                let node = index + 1;
                (node.saturating_sub(paths), node)
            }
            GraphClass::Random { nodes, .. } => {
                let left = self.rng.below(nodes);
                let right = self.rng.below(nodes - 1);
                (left, right + u64::from(right >= left))
            }
            GraphClass::Web { nodes, .. } => self.web_edge(nodes),
        }
    }

    /// An edge of a web: a quarter of the matrix is drawn, then a quarter of that, down to a place.
    fn web_edge(&mut self, nodes: u64) -> (u64, u64) {
        let [first, second, third] = WEB_SHARES;
        loop {
            let (mut left, mut right) = (0, 0);
            for _ in 0..u64::BITS - (nodes - 1).leading_zeros() {
                let share = self.rng.below(100);
                let is_below = share >= first + second;
                let is_right =
                    (first..first + second).contains(&share) || share >= first + second + third;
                left = 2 * left + u64::from(is_below);
                right = 2 * right + u64::from(is_right);
            }
            // Places on the diagonal and beyond the nodes are no edges.
            if left != right && left < nodes && right < nodes {
                return (left, right);
            }
        }
    }
}

impl RecordStream for EdgeStream {
    type Record = (u64, u64);

    fn next_record(&mut self) -> Result<Option<(u64, u64)>, ExternalError> {
        if self.next == self.count {
            return Ok(None);
        }
        self.check()?;
        let index = match &self.order {
            Some((edges, _)) => edges.apply(self.next),
            None => self.next,
        };
        self.next += 1;
        let (left, right) = self.edge(index);
        Ok(Some((self.node(left), self.node(right))))
    }

    fn left_count(&self) -> Option<u64> {
        Some(self.count - self.next)
    }
}
