//! Breadth-first search of Munagala and Ranade (SODA 1999), the baseline of S002 chapter 4.
//!
//! ```text
//!   level t - 1 ──► neighbours of its nodes ──► sorter ──► each once, not of t - 1, t - 2: level t
//! ```
//!
//! Neighbours of level t - 1 lie in the levels t - 2, t - 1 and t, since edges go both ways; so two
//! levels are enough to tell what is new. Levels are sorted: both differences are scans, and the
//! nodes of a level are looked up in ascending order.
//!
//! 1. Levels ascend and have no node in common.
//! 2. A level that fits into a block of memory is not written.
//! 3. It reads at most a block of nodes and the blocks of its neighbours for each node, and moves
//!    what sorting all neighbours moves.

use super::level::{Level, LevelStream};
use super::{Graph, Visit};
use crate::sort::Sorter;
use crate::stream::Ahead;
use crate::vector::LOOKAHEAD_BYTES;
use crate::{ExternalError, Natural, RecordStream, Store};

/// What a search found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bfs {
    /// Nodes that were reached, the source among them.
    pub node_count: u64,
    /// How many levels there are: one more than the greatest distance.
    pub level_count: u64,
}

/// The levels that are at hand: two, and the one that is being made.
const LEVEL_COUNT: u64 = 3;
/// What reads nodes and edges.
const GATHERER_COUNT: u64 = 2;

/// Memory in which a search of `bytes` sorts neighbours, of a graph in the first of these stores.
pub(crate) fn searching_sort_bytes(stores: (&Store, &Store), bytes: u64) -> u64 {
    bytes.saturating_sub(searching_bytes(stores))
}

/// Memory of a search beside what it sorts.
fn searching_bytes((arrays, store): (&Store, &Store)) -> u64 {
    // Two levels that are scanned and one that is written, where they are long.
    let levels = LEVEL_COUNT * (store.stream_bytes() + store.block_bytes());
    let gatherers = GATHERER_COUNT * (arrays.stream_bytes() + LOOKAHEAD_BYTES);
    levels + gatherers
}

/// As [`Graph::search`], all in the graph's store.
///
/// # Errors
/// As [`Graph::search`].
pub fn mr_bfs(
    graph: &Graph,
    source: u64,
    bytes: u64,
    visit: impl FnMut(u64, u64) -> Result<(), ExternalError>,
) -> Result<Bfs, ExternalError> {
    graph.search(source, graph.store(), bytes, visit)
}

impl Graph {
    /// Searches from `source` and tells `visit` of each node that is reached and of its level,
    /// levels in order, nodes of a level ascending. Levels and all that is sorted lie in `store`,
    /// on a disk, say, where the graph lies on flash. Takes `bytes` of memory, of the grants of
    /// both stores.
    ///
    /// # Errors
    /// If there is no node `source`, there is not so much memory or it is too little, no room, or
    /// a device fails; and as `visit`.
    pub fn search(
        &self,
        source: u64,
        store: &Store,
        bytes: u64,
        mut visit: impl FnMut(u64, u64) -> Result<(), ExternalError>,
    ) -> Result<Bfs, ExternalError> {
        search(self, source, store, bytes, &mut visit)
    }
}

fn search(
    graph: &Graph,
    source: u64,
    store: &Store,
    bytes: u64,
    visit: &mut Visit<'_>,
) -> Result<Bfs, ExternalError> {
    graph.check_node(source)?;
    let sort_bytes = searching_sort_bytes((graph.store(), store), bytes);
    let sorter = Sorter::with_bytes(store, Natural, sort_bytes);
    let beside_bytes = searching_bytes((graph.store(), store));
    let mut sorter = sorter.map_err(|error| error.beside("a search", beside_bytes, bytes))?;
    let (mut nodes, mut edges) = (graph.nodes.gatherer()?, graph.edges.gatherer()?);
    let (mut before, mut current, mut next) =
        (Level::new(store)?, Level::new(store)?, Level::new(store)?);
    current.push(source)?;
    visit(source, 0)?;
    let mut found = Bfs { node_count: 1, level_count: 1 };
    loop {
        let level = current.stream()?.map(|node| (node, 1));
        sorter.push_all(edges.gather(nodes.gather(level)))?;
        let mut neighbours = sorter.finish()?;
        let level = found.level_count;
        found.node_count +=
            tell_new(&mut neighbours, (&current, &before), &mut next, &mut |node| {
                visit(node, level)
            })?;
        sorter = neighbours.into_sorter();
        next.settle()?;
        if next.is_empty() {
            return Ok(found);
        }
        found.level_count += 1;
        before.clear();
        std::mem::swap(&mut before, &mut current);
        std::mem::swap(&mut current, &mut next);
    }
}

/// Tells of each of the ascending `neighbours` that is in neither of two levels, once, and has `next` have
/// it; how many those are.
pub(super) fn tell_new<S: RecordStream<Record = u64>>(
    neighbours: &mut S,
    (current, before): (&Level<u64>, &Level<u64>),
    next: &mut Level<u64>,
    tell: &mut dyn FnMut(u64) -> Result<(), ExternalError>,
) -> Result<u64, ExternalError> {
    let (mut current_ahead, mut before_ahead) =
        (current.stream()?.ahead(), before.stream()?.ahead());
    let (mut last, mut told_count) = (None, 0);
    while let Some(node) = neighbours.next_record()? {
        let is_known = last == Some(node)
            || contains(&mut current_ahead, node)?
            || contains(&mut before_ahead, node)?;
        last = Some(node);
        if !is_known {
            next.push(node)?;
            tell(node)?;
            told_count += 1;
        }
    }
    Ok(told_count)
}

/// Whether an ascending stream has a node; those before it are passed over.
fn contains(stream: &mut Ahead<LevelStream<'_, u64>>, node: u64) -> Result<bool, ExternalError> {
    Ok(stream.skip_while(|&other| other < node)? == Some(node))
}
