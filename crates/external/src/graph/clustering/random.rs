//! Randomised clusters (Mehlhorn and Meyer, ESA 2002; S002 chapter 4): masters are drawn, and their
//! clusters grow side by side, by one edge a round.
//!
//! ```text
//!   masters ──► fringe: (node, cluster) ──sort──┐
//!                 ▲                             ▼ nodes of the fringe that have no cluster yet
//!                 └── their neighbours ◄── pairs of nodes without a cluster ──► what is left
//! ```
//!
//! A cluster has a radius of O(c log n) with high probability, and n / c clusters are expected. A
//! round reads what has no cluster yet, and writes what is left.
//!
//! 1. The source is a master, of cluster 0; others have numbers in the order of their nodes.
//! 2. A node that several clusters reach in one round goes to the one with the least number.
//! 3. Nodes that no master reaches, since none is in their part of the graph, become clusters of
//!    their own. Such a part has c nodes or so, and no path leads there from the source.

use super::{Assign, Assigned, STREAM_COUNT, Work};
use crate::{ExternalError, Natural, RecordStream, SortedStream, Sorter, Vector, VectorWriter};
use nandu_base::Rng;

/// A node, and the cluster that reaches for it or has it.
type Reached = (u64, u64);
/// The fringe, the next one, and who has a cluster.
const SORT_COUNT: u64 = 3;

/// Clusters around masters that are drawn.
pub(super) struct Random;

/// What a round changes.
struct Round<'r> {
    fringe: SortedStream<Reached, Natural>,
    next: &'r mut Sorter<Reached, Natural>,
    assigned: &'r mut Sorter<Reached, Natural>,
}

impl Assign for Random {
    fn model_cluster_nodes(&self, (nodes, edges): (u64, u64), block_entries: u64) -> u64 {
        // 1 / mu, where mu = sqrt(scan(n + m) log n / n).
        let (nodes, edges) = (u128::from(nodes), u128::from(edges));
        let rounds = u128::from(nodes.max(2).ilog2());
        let square = nodes * u128::from(block_entries) / ((nodes + edges) * rounds).max(1);
        u64::try_from(square.isqrt()).unwrap_or(u64::MAX).max(1)
    }

    fn assign(&self, work: &Work<'_>) -> Result<Assigned, ExternalError> {
        let share = work.division.share(STREAM_COUNT, SORT_COUNT)?;
        let sorter = || Sorter::with_bytes(work.store, Natural, share);
        let (mut fringe, mut next, mut assigned) = (sorter()?, sorter()?, sorter()?);
        let mut count = draw_masters(work, &mut fringe)?;
        let mut round =
            Round { fringe: fringe.finish()?, next: &mut next, assigned: &mut assigned };
        let mut left = round.run(work, work.graph.pairs()?)?;
        let mut spare = round.fringe.into_sorter();
        while !left.is_empty() && !next.is_empty() {
            let fringe = std::mem::replace(&mut next, spare).finish()?;
            let mut round = Round { fringe, next: &mut next, assigned: &mut assigned };
            left = round.run(work, left.into_stream()?)?;
            spare = round.fringe.into_sorter();
        }
        drop((next, spare));
        let mut last = None;
        let mut unreached = left.into_stream()?;
        while let Some((node, _)) = unreached.next_record()? {
            if last.replace(node) != Some(node) {
                assigned.push((node, count))?;
                count += 1;
            }
        }
        drop(unreached);
        work.spread(assigned.finish()?).map(Assigned::Outside)
    }
}

/// Puts the masters into the fringe; how many there are.
fn draw_masters(
    work: &Work<'_>,
    fringe: &mut Sorter<Reached, Natural>,
) -> Result<u64, ExternalError> {
    let mut rng = Rng::for_part(work.seed, "masters");
    let mut nodes = work.graph.nodes.scanner()?;
    let (mut node, mut count) = (0, 1);
    while let Some((_, degree)) = nodes.next_record()? {
        // One draw a node: who is a master does not depend on which other nodes have neighbours.
        let is_drawn = rng.below(work.cluster_nodes) == 0;
        if node == work.source {
            fringe.push((node, 0))?;
        } else if is_drawn && degree > 0 {
            fringe.push((node, count))?;
            count += 1;
        }
        node += 1;
    }
    Ok(count)
}

impl Round<'_> {
    /// Gives the nodes of the fringe to their clusters and reaches for their neighbours; what has
    /// no cluster after that.
    fn run<S: RecordStream<Record = (u64, u64)>>(
        &mut self,
        work: &Work<'_>,
        mut pairs: S,
    ) -> Result<Vector<(u64, u64)>, ExternalError> {
        let mut left: VectorWriter<(u64, u64)> = Vector::writer(work.store)?;
        let mut reached: Option<Reached> = None;
        let (mut owner, mut cluster) = (None, None);
        while let Some((node, neighbour)) = pairs.next_record()? {
            if owner.replace(node) != Some(node) {
                while reached.is_none_or(|reached| reached.0 < node) {
                    reached = self.fringe.next_record()?;
                    if reached.is_none() {
                        break;
                    }
                }
                cluster = reached.filter(|reached| reached.0 == node).map(|(_, cluster)| cluster);
                if let Some(cluster) = cluster {
                    self.assigned.push((node, cluster))?;
                }
            }
            match cluster {
                Some(cluster) => self.next.push((neighbour, cluster))?,
                None => left.push((node, neighbour))?,
            }
        }
        left.finish()
    }
}
