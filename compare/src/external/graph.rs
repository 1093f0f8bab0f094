//! Graphs as files, for all who search them, and a search in memory that says what is right.
//!
//! ```text
//!   edges       two nodes of 4 bytes for each edge, in the order in which they were made
//!   adjacency   8 bytes for each node and one more: where its targets begin
//!               4 bytes for each target, nodes in order
//! ```

use super::question::GraphName;
use crate::Failure;
use crate::stock::failure_at;
use nandu_base::{to_index, to_u32};
use nandu_external::RecordStream as _;
use nandu_external::graph::GraphClass;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Nodes of a path of figure 4.1.
const PATH_NODES: u64 = 512;
/// Edges of a random graph and of a web for each node.
const EDGES_PER_NODE: u64 = 4;
const BUFFER_BYTES: usize = 1 << 20;

/// A graph of about so many nodes.
pub(super) const fn class_of(graph: GraphName, nodes: u64) -> GraphClass {
    match graph {
        GraphName::Random => GraphClass::Random { nodes, edges: EDGES_PER_NODE * nodes },
        GraphName::Paths => GraphClass::Paths { paths: nodes / PATH_NODES, levels: PATH_NODES },
        GraphName::Grid => GraphClass::Grid { width: nodes.isqrt(), height: nodes.isqrt() },
        GraphName::Web => GraphClass::Web { nodes, edges: EDGES_PER_NODE * nodes },
    }
}

pub(super) fn edges_of(data: &Path) -> PathBuf {
    data.join("edges")
}

pub(super) fn adjacency_of(data: &Path) -> PathBuf {
    data.join("adjacency")
}

/// Writes the edges of a graph; node 0 keeps its number, so that figure 4.1 begins there.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn make_edges(class: GraphClass, seed: u64, data: &Path) -> Result<(), Failure> {
    let path = edges_of(data);
    eprintln!("writing {}", path.display());
    let mut edges = class.shuffled_edges(seed);
    let source = edges.node(0);
    let exchange = |node: u64| match node {
        0 => source,
        node if node == source => 0,
        node => node,
    };
    write_whole(&path, |file| {
        while let Some((left, right)) = edges.next_record().expect("edges are made") {
            for node in [left, right] {
                file.write_all(&to_u32(exchange(node)).to_le_bytes())?;
            }
        }
        Ok(())
    })
}

fn write_whole(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let part = path.with_extension("part");
    let fail = |error: std::io::Error| failure_at(&part, &error);
    let mut file = BufWriter::with_capacity(BUFFER_BYTES, File::create(&part).map_err(fail)?);
    fill(&mut file).map_err(fail)?;
    file.into_inner().map_err(|error| fail(error.into_error()))?.sync_all().map_err(fail)?;
    std::fs::rename(&part, path).map_err(fail)
}

/// The edges of a file.
pub(super) struct EdgeFile {
    path: PathBuf,
    file: BufReader<File>,
}

impl EdgeFile {
    /// # Errors
    /// If it cannot be opened.
    pub(super) fn open(data: &Path) -> Result<Self, Failure> {
        let path = edges_of(data);
        let file = File::open(&path).map_err(|error| failure_at(&path, &error))?;
        Ok(Self { path, file: BufReader::with_capacity(BUFFER_BYTES, file) })
    }

    /// The next edge.
    ///
    /// # Errors
    /// If the file is cut, or cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<(u32, u32)>, Failure> {
        let mut bytes = [0; 8];
        let mut filled = 0;
        while filled < bytes.len() {
            let read = self.file.read(&mut bytes[filled..]);
            match read.map_err(|error| failure_at(&self.path, &error))? {
                0 if filled == 0 => return Ok(None),
                0 => {
                    return Err(Failure::Run(format!(
                        "{} ends within an edge",
                        self.path.display()
                    )));
                }
                count => filled += count,
            }
        }
        let number =
            |at: usize| u32::from_le_bytes([at, at + 1, at + 2, at + 3].map(|at| bytes[at]));
        Ok(Some((number(0), number(4))))
    }
}

/// Adjacency arrays in memory.
struct Adjacency {
    offsets: Vec<u64>,
    targets: Vec<u32>,
}

impl Adjacency {
    fn of(class: GraphClass, data: &Path) -> Result<Self, Failure> {
        let node_count = to_index(class.node_count());
        let mut offsets = vec![0_u64; node_count + 1];
        let mut file = EdgeFile::open(data)?;
        while let Some((left, right)) = file.next()? {
            for node in [left, right] {
                offsets[node as usize + 1] += 1;
            }
        }
        for node in 0..node_count {
            offsets[node + 1] += offsets[node];
        }
        let mut next = offsets.clone();
        let mut targets = vec![0_u32; to_index(offsets[node_count])];
        let mut file = EdgeFile::open(data)?;
        while let Some((left, right)) = file.next()? {
            for (node, target) in [(left, right), (right, left)] {
                let place = &mut next[node as usize];
                targets[to_index(*place)] = target;
                *place += 1;
            }
        }
        Ok(Self { offsets, targets })
    }

    fn targets_of(&self, node: u32) -> &[u32] {
        let at = |node: usize| to_index(self.offsets[node]);
        &self.targets[at(node as usize)..at(node as usize + 1)]
    }
}

/// Writes adjacency arrays.
///
/// # Errors
/// If edges cannot be read, or the file cannot be written.
pub(super) fn make_adjacency(class: GraphClass, data: &Path) -> Result<(), Failure> {
    let path = adjacency_of(data);
    eprintln!("writing {}", path.display());
    let adjacency = Adjacency::of(class, data)?;
    write_whole(&path, |file| {
        adjacency.offsets.iter().try_for_each(|offset| file.write_all(&offset.to_le_bytes()))?;
        adjacency.targets.iter().try_for_each(|target| file.write_all(&target.to_le_bytes()))
    })
}

/// What a search tells: nodes that were reached, levels, and a sum that knows who is in which level.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Levels {
    node_count: u64,
    level_count: u64,
    sum: u64,
}

impl Levels {
    /// A node of a level was reached.
    pub(super) fn add(&mut self, node: u64, level: u64) {
        self.node_count += 1;
        self.level_count = self.level_count.max(level + 1);
        self.sum = self.sum.wrapping_add((node + 1).wrapping_mul(level + 1));
    }

    pub(super) fn row(self) -> Vec<String> {
        [self.node_count, self.level_count, self.sum].map(|number| number.to_string()).into()
    }
}

/// The row of a right search from node 0.
///
/// # Errors
/// If edges cannot be read.
pub(super) fn levels_in_memory(class: GraphClass, data: &Path) -> Result<Vec<String>, Failure> {
    let adjacency = Adjacency::of(class, data)?;
    let mut is_known = vec![false; to_index(class.node_count())];
    is_known[0] = true;
    let (mut levels, mut level, mut current) = (Levels::default(), 0, vec![0_u32]);
    while !current.is_empty() {
        let mut next = Vec::new();
        for &node in &current {
            levels.add(u64::from(node), level);
            for &target in adjacency.targets_of(node) {
                if !std::mem::replace(&mut is_known[target as usize], true) {
                    next.push(target);
                }
            }
        }
        current = next;
        level += 1;
    }
    Ok(levels.row())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_from_node_0_are_found_in_their_files() {
        let directory = tempfile::tempdir().unwrap();
        let class = GraphClass::Paths { paths: 3, levels: 4 };
        make_edges(class, 7, directory.path()).unwrap();
        make_adjacency(class, directory.path()).unwrap();
        let row = levels_in_memory(class, directory.path()).unwrap();
        assert_eq!(row[..2], ["13".to_string(), "5".to_string()]);
        let bytes = std::fs::metadata(adjacency_of(directory.path())).unwrap().len();
        assert_eq!(bytes, 8 * 14 + 4 * 24);
        std::fs::write(edges_of(directory.path()), [1, 0, 0, 0, 2]).unwrap();
        let error = levels_in_memory(class, directory.path()).unwrap_err().to_string();
        assert!(error.ends_with("ends within an edge"), "{error}");
    }
}
