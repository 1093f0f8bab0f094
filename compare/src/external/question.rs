//! What is asked: a sort of records, or a breadth-first search over a graph.

use super::contender::Contender;
use super::graph;
use super::{Checksum, key_of};
use crate::Failure;
use nandu_base::to_index;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Which question, on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Task {
    /// Records of 16 bytes are sorted.
    Sort,
    /// The levels of a graph are found, from node 0.
    Bfs,
}

/// What a graph is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum GraphName {
    /// Four edges a node, between nodes that are drawn.
    Random,
    /// Figure 4.1 of S002: paths from node 0, each of 512 nodes; nodes and edges in random order.
    Paths,
    /// Rows of as many nodes as there are rows, joined to those beside and below; in random order.
    Grid,
    /// Four edges a node, as webs have them; in random order, from the node with most.
    Web,
}

impl GraphName {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Paths => "paths",
            Self::Grid => "grid",
            Self::Web => "web",
        }
    }
}

/// A question with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "task")]
pub(crate) enum Question {
    /// So many records are sorted.
    Sort {
        /// How many.
        records: u64,
    },
    /// The levels of a graph are found.
    Bfs {
        /// Which graph.
        graph: GraphName,
        /// About how many nodes it has.
        nodes: u64,
    },
}

impl Question {
    /// A directory's name.
    pub(super) fn label(self) -> String {
        match self {
            Self::Sort { .. } => "sort".to_owned(),
            Self::Bfs { graph, nodes } => format!("bfs/{}-{nodes}", graph.label()),
        }
    }

    /// For the head of a table.
    pub(super) fn title(self, memory_mb: u64) -> String {
        match self {
            Self::Sort { records } => {
                format!("Sorting {records} records of 16 bytes in {memory_mb} MB")
            }
            Self::Bfs { graph, nodes } => {
                format!("Levels of a graph ({}, {nodes} nodes) in {memory_mb} MB", graph.label())
            }
        }
    }

    /// What about it, in a sentence or two.
    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::Sort { .. } => "Random keys of 8 bytes.",
            Self::Bfs { graph: GraphName::Random, .. } => {
                "Four times as many edges as nodes, drawn; levels from node 0."
            }
            Self::Bfs { graph: GraphName::Paths, .. } => {
                "Figure 4.1 of S002: paths of 512 nodes from node 0, nodes and edges in random order."
            }
            Self::Bfs { graph: GraphName::Grid, .. } => {
                "A square grid, nodes and edges in random order; levels from a corner."
            }
            Self::Bfs { graph: GraphName::Web, .. } => {
                "Four times as many edges as nodes, as in webs; levels from a node with very many."
            }
        }
    }

    /// Whose time the others' stand beside.
    pub(super) const fn ours(self) -> Contender {
        match self {
            Self::Sort { .. } => Contender::Nandu,
            Self::Bfs { .. } => Contender::NanduMm,
        }
    }

    /// The row of a right answer, found in memory from what lies in `data`.
    ///
    /// # Errors
    /// If the graph cannot be read.
    pub(super) fn expected_row(self, seed: u64, data: &Path) -> Result<Vec<String>, Failure> {
        match self {
            Self::Sort { records } => {
                let mut keys: Vec<u64> = Vec::with_capacity(to_index(records));
                keys.extend((0..records).map(|number| key_of(number, seed)));
                keys.sort_unstable();
                let mut checksum = Checksum::default();
                keys.iter().for_each(|&key| checksum.add(key));
                Ok(checksum.row())
            }
            Self::Bfs { graph, nodes } => {
                graph::levels_in_memory(graph::class_of(graph, nodes), data)
            }
        }
    }
}
