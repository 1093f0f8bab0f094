//! Deterministic clusters (Mehlhorn and Meyer, ESA 2002; S002 chapter 4): every c steps of an Euler
//! tour of a spanning tree. Nodes of a cluster are fewer than c edges from each other.
//!
//! ```text
//!      s        arcs      0:(s,a) 1:(s,b) 2:(a,s) 3:(b,s)   tree edges both ways, sorted
//!     ╱ ╲       follows   0 ► 2 ► 1 ► 3     after (u, v) the arc that v has after (v, u)
//!    a   b      ranks     0   2   1   3     by list ranking
//!               position  s 0, a 1, b 3     the least rank of the arcs that leave
//! ```
//!
//! A tour that comes to a node for the first time leaves it by its next arc, so positions need no
//! sort.
//! A graph that is not connected has a tree for each of its parts, and one tour goes through all,
//! the source's first.
//!
//! 1. The tour of the source's part begins at position 0, at the source.
//! 2. A cluster has positions k c to k c + c - 1 of one part of the graph; the root of a part
//!    begins a cluster.

use super::forest::{Forest, spanning_forest};
use super::{Assign, Assigned, NO_CLUSTER, Work, room_of, run_bytes, tree};
use crate::list_ranking::{END, rank, room_bytes};
use crate::stream::Ahead;
use crate::{Drain, ExternalError, Natural, RecordStream, Sorter, Vector};
use nandu_base::Rng;
use nandu_base::words::counted;

/// An end of a tree edge, and the other one.
type Arc = (u64, u64);
/// An arc, and the number of the one that follows.
type Following = (Arc, u64);

/// Pieces of an Euler tour.
pub(super) struct Tour;

/// Arcs in order, who follows each of them, and with which the tour begins; none without arcs.
struct List {
    arcs: Vector<Arc>,
    successors: Vector<u64>,
    head: Option<u64>,
}

/// Joins the tours of all parts of the graph.
struct Joints<'t> {
    source: u64,
    following: &'t mut Sorter<Following, Natural>,
    /// The first arc of the source and the arc with which its tour ends.
    source_first: Option<u64>,
    source_last: Option<Arc>,
    /// The first arc of the first other root; the arc with which the tour of the last one ends.
    other_first: Option<u64>,
    other_last: Option<Arc>,
}

impl Assign for Tour {
    fn model_cluster_nodes(&self, (nodes, edges): (u64, u64), block_entries: u64) -> u64 {
        // 1 / mu, where mu = sqrt(scan(n + m) / n).
        let (nodes, edges) = (u128::from(nodes), u128::from(edges));
        let square = nodes * u128::from(block_entries) / (nodes + edges).max(1);
        u64::try_from(square.isqrt()).unwrap_or(u64::MAX).max(1)
    }

    fn assign(&self, work: &Work<'_>) -> Result<Assigned, ExternalError> {
        if work.division.has_words() {
            return tree::cut(work).map(Assigned::InMemory);
        }
        let Forest { edges, roots } = spanning_forest(work)?;
        work.check_tour_room(&edges)?;
        let List { arcs, successors, head } = work.tour(edges, &roots)?;
        let Some(head) = head else {
            let none = Vector::filled(work.store, work.graph.node_count(), NO_CLUSTER)?;
            return Ok(Assigned::Outside(none));
        };
        let mut rng = Rng::for_part(work.seed, "list ranking");
        let ranks = rank(&successors, head, work.division.bytes, &mut rng)?;
        drop(successors);
        let by_node = work.cut(arcs, ranks, roots)?;
        work.spread(by_node.finish()?).map(Assigned::Outside)
    }
}

impl Work<'_> {
    /// Refuses a tour for which there is no room, before anything of it is written: its arcs lie beside who
    /// follows each of them, and later beside the list and what ranking that takes.
    fn check_tour_room(&self, edges: &Vector<(u64, u64)>) -> Result<(), ExternalError> {
        let arc_count = 2 * edges.len();
        let share = self.division.sort_share()?;
        let following_bytes = run_bytes::<Following>(self.store, share, arc_count);
        let ranking_bytes = room_bytes(self.store, arc_count, self.division.bytes)?;
        let arc_bytes = room_of::<Arc>(self.store, arc_count)?;
        let bytes = arc_bytes.saturating_add(following_bytes.max(ranking_bytes));
        // The tree is read away before that.
        let given_back_bytes = room_of::<(u64, u64)>(self.store, edges.len())?;
        let what = format!("a tour of {}", counted(edges.len(), "edge"));
        self.store.check_room(bytes.saturating_sub(given_back_bytes), &what)
    }

    /// The tour as a linked list.
    fn tour(&self, edges: Vector<(u64, u64)>, roots: &Vector<u64>) -> Result<List, ExternalError> {
        let share = self.division.sort_share()?;
        let mut sorter: Sorter<Arc, _> = Sorter::with_bytes(self.store, Natural, share)?;
        let mut edges = edges.into_stream()?;
        while let Some((left, right)) = edges.next_record()? {
            sorter.push((left, right))?;
            sorter.push((right, left))?;
        }
        drop(edges);
        let mut following = Sorter::with_bytes(self.store, Natural, share)?;
        let mut joints = Joints::new(self.source, &mut following);
        let mut arcs = Vector::writer_of(self.store, sorter.len())?;
        let mut roots = roots.scanner()?.ahead();
        let mut sorted = sorter.finish()?.ahead();
        while let Some((node, mut other)) = sorted.next_record()? {
            let first = arcs.len();
            arcs.push((node, other))?;
            while let Some(arc) = sorted.peek()?.filter(|arc| arc.0 == node) {
                sorted.next_record()?;
                joints.following.push(((other, node), arcs.len()))?;
                arcs.push(arc)?;
                other = arc.1;
            }
            let is_root =
                node == self.source || roots.skip_while(|&root| root < node)? == Some(node);
            joints.turn(node, (other, node), first, is_root)?;
        }
        let head = joints.end()?;
        drop((sorted, roots));
        let arcs = arcs.finish()?;
        let mut successors = Vector::writer_of(self.store, arcs.len())?;
        let mut stream = following.finish()?;
        while let Some((_, number)) = stream.next_record()? {
            successors.push(number)?;
        }
        Ok(List { arcs, successors: successors.finish()?, head })
    }

    /// Cuts the tour into clusters: nodes with their clusters.
    fn cut(
        &self,
        arcs: Vector<Arc>,
        ranks: Vector<u64>,
        roots: Vector<u64>,
    ) -> Result<Sorter<(u64, u64), Natural>, ExternalError> {
        let share = self.division.sort_share()?;
        let mut by_position: Sorter<(u64, u64, u8), _> =
            Sorter::with_bytes(self.store, Natural, share)?;
        {
            let (mut arcs, mut ranks) = (arcs.into_stream()?, ranks.into_stream()?);
            let mut roots = roots.into_stream()?.ahead();
            let mut first: Option<(u64, u64)> = None;
            while let Some((node, _)) = arcs.next_record()? {
                let rank = ranks.next_record()?.expect("each arc has a rank");
                if let Some((position, earlier)) = &mut first
                    && *earlier == node
                {
                    *position = rank.min(*position);
                } else {
                    mark(first.replace((rank, node)), &mut roots, &mut by_position)?;
                }
            }
            mark(first, &mut roots, &mut by_position)?;
        }
        let mut by_node = Sorter::with_bytes(self.store, Natural, share)?;
        let mut stream = by_position.finish()?;
        let (mut piece, mut cluster) = (0, 0);
        while let Some((position, node, is_root)) = stream.next_record()? {
            if position > 0 && (is_root == 1 || position / self.cluster_nodes != piece) {
                cluster += 1;
            }
            piece = position / self.cluster_nodes;
            by_node.push((node, cluster))?;
        }
        Ok(by_node)
    }
}

/// Says of a node at its position whether it is a root. Nodes ascend.
fn mark(
    node: Option<(u64, u64)>,
    roots: &mut Ahead<Drain<u64>>,
    by_position: &mut Sorter<(u64, u64, u8), Natural>,
) -> Result<(), ExternalError> {
    let Some((position, node)) = node else { return Ok(()) };
    let is_root = roots.skip_while(|&root| root < node)? == Some(node);
    by_position.push((position, node, u8::from(is_root)))
}

impl<'t> Joints<'t> {
    fn new(source: u64, following: &'t mut Sorter<Following, Natural>) -> Self {
        let (source_first, source_last, other_first, other_last) = (None, None, None, None);
        Self { source, following, source_first, source_last, other_first, other_last }
    }

    /// Says what follows the arc `last`, the one to `node` from its last neighbour: its first arc,
    /// or, where the tour of a part ends, that of the next part.
    fn turn(
        &mut self,
        node: u64,
        last: Arc,
        first: u64,
        is_root: bool,
    ) -> Result<(), ExternalError> {
        if !is_root {
            return self.following.push((last, first));
        }
        if node == self.source {
            (self.source_first, self.source_last) = (Some(first), Some(last));
            return Ok(());
        }
        match self.other_last.replace(last) {
            Some(earlier) => self.following.push((earlier, first))?,
            None => self.other_first = Some(first),
        }
        Ok(())
    }

    /// Ends the tour; the arc with which it begins.
    fn end(self) -> Result<Option<u64>, ExternalError> {
        if let Some(last) = self.source_last {
            self.following.push((last, self.other_first.unwrap_or(END)))?;
        }
        if let Some(last) = self.other_last {
            self.following.push((last, END))?;
        }
        Ok(self.source_first.or(self.other_first))
    }
}
