//! List ranking by bridging out independent sets (Chiang, Goodrich, Grove, Tamassia, Vengroff and
//! Vitter, SODA 1995): O(sort(n)) blocks.
//!
//! ```text
//!   p ──w──► x ──v──► s        x has the coin 1 and s the coin 0: x goes, and nobody beside it
//!   p ───── w + v ───► s       rank of x, later: rank of p + w
//!
//!   arcs by element ═╦═ by successor ─► sorter by element ─► arcs of the next round: some 3/4
//!                    ╚════════════════► (x, p, w) of who went
//!   … until the arcs fit into memory: walk; then the rounds backwards: who went, by p, beside the
//!     ranks by element ─► sorter by x ─► both merged: the ranks of the round before
//! ```
//!
//! 1. Of two elements in a row at most one goes, the head and the last one never do.
//! 2. The arcs of a round are those of one list with the same ranks.
//! 3. A round costs two sorts and a scan on the way in, two sorts and two scans on the way out; no
//!    list is written but the arcs, who went, and the ranks.

use super::{END, check_element, circle, unreached};
use crate::{
    By, ExternalError, Memory, Natural, RecordStream, Sorter, Store, Vector, VectorWriter,
};
use nandu_base::hash::FixedHasher;
use nandu_base::{Rng, to_index};
use std::hash::Hasher;

/// An element, its successor, and how far that is.
type Arc = (u64, u64, u64);
/// The successor first.
type ArcBack = (u64, u64, u64);
/// An element that went, the one before it, and how far it was from there.
type Gone = (u64, u64, u64);
/// An element and its rank.
type Ranked = (u64, u64);

/// What stands for the successor of an element that was walked past.
const VISITED: u64 = END - 1;

/// What a run needs everywhere.
struct Run<'v> {
    store: &'v Store,
    successors: &'v Vector<u64>,
    head: u64,
    /// Memory of a sorter; there are two at a time.
    sort_bytes: u64,
}

/// The coins of a round.
#[derive(Clone, Copy)]
struct Coins {
    salt: u64,
    head: u64,
}

impl Coins {
    fn of(self, element: u64) -> bool {
        let mut hasher = FixedHasher::default();
        hasher.write_u64(element ^ self.salt);
        hasher.finish() & 1 == 1
    }

    /// Whether an element goes (invariant 1).
    fn is_gone(self, element: u64, successor: u64) -> bool {
        let has_end = element == self.head || successor == END;
        !has_end && self.of(element) && !self.of(successor)
    }
}

/// The rank of each element, within `bytes` of memory. The coins come from `rng`; the ranks do not
/// depend on them.
///
/// # Errors
/// If it is not a list, there is not so much memory or it is too little for two sorts and two
/// streams, or no room, or the device fails.
pub fn rank(
    successors: &Vector<u64>,
    head: u64,
    bytes: u64,
    rng: &mut Rng,
) -> Result<Vector<u64>, ExternalError> {
    let store = successors.store();
    let stream_bytes = store.stream_bytes();
    let sort_bytes = bytes.saturating_sub(2 * stream_bytes) / 2;
    if sort_bytes < 4 * store.block_bytes() {
        return Err(ExternalError::TooLittleMemory {
            operator: "list ranking".to_owned(),
            needed_bytes: 2 * (stream_bytes + 4 * store.block_bytes()),
            granted_bytes: bytes,
        });
    }
    if successors.is_empty() {
        return Vector::writer(store)?.finish();
    }
    check_element(head, successors.len(), None)?;
    let run = Run { store, successors, head, sort_bytes };
    run.rank(rng)
}

impl Run<'_> {
    fn rank(&self, rng: &mut Rng) -> Result<Vector<u64>, ExternalError> {
        let mut rounds: Vec<Vector<Gone>> = Vec::new();
        let count = self.successors.len();
        if self.fits(count) {
            let (ranked, _memory) = self.walk(count, First::new(self)?)?;
            let mut writer = Vector::writer_of(self.store, count)?;
            ranked.iter().try_for_each(|&(_, _, rank)| writer.push(rank))?;
            return writer.finish();
        }
        let mut by_successor = self.sorter()?;
        let mut first = First::new(self)?;
        while let Some((element, successor, distance)) = first.next_record()? {
            by_successor.push((successor, element, distance))?;
        }
        drop(first);
        let (mut kept, gone) = self.contract(First::new(self)?, by_successor, rng.next_u64())?;
        rounds.push(gone);
        let mut ranks = loop {
            if self.fits(kept.len()) {
                let count = kept.len();
                let (ranked, _memory) = self.walk(count, kept.finish()?)?;
                break self.store_walked(&ranked)?;
            }
            // One pass makes the arcs and sorts them the other way.
            let (mut arcs, mut by_successor) =
                (Vector::writer_of(self.store, kept.len())?, self.sorter()?);
            let mut stream = kept.finish()?;
            while let Some((element, successor, distance)) = stream.next_record()? {
                arcs.push((element, successor, distance))?;
                by_successor.push((successor, element, distance))?;
            }
            drop(stream);
            let arcs = arcs.finish()?.into_stream()?;
            let (next, gone) = self.contract(arcs, by_successor, rng.next_u64())?;
            kept = next;
            rounds.push(gone);
        };
        while let Some(gone) = rounds.pop() {
            if rounds.is_empty() {
                let mut writer = Vector::writer_of(self.store, count)?;
                self.expand(gone, &ranks, |(_, rank)| writer.push(rank))?;
                return writer.finish();
            }
            let mut writer = Vector::writer_of(self.store, ranks.len() + gone.len())?;
            self.expand(gone, &ranks, |ranked| writer.push(ranked))?;
            ranks = writer.finish()?;
        }
        unreachable!("the first round is the last to be expanded");
    }

    fn sorter(&self) -> Result<Sorter<Arc, Natural>, ExternalError> {
        Sorter::with_bytes(self.store, Natural, self.sort_bytes)
    }

    /// Whether so many arcs fit into the memory of one sorter, while the other one gives them.
    fn fits(&self, count: u64) -> bool {
        count <= self.sort_bytes / size_of::<Arc>() as u64
    }

    /// A round: the arcs that stay, and who went. `arcs` come by element.
    fn contract<S: RecordStream<Record = Arc>>(
        &self,
        mut arcs: S,
        by_successor: Sorter<ArcBack, Natural>,
        salt: u64,
    ) -> Result<(Sorter<Arc, Natural>, Vector<Gone>), ExternalError> {
        let coins = Coins { salt, head: self.head };
        let mut back = by_successor.finish()?.ahead();
        let mut kept = self.sorter()?;
        let mut gone: VectorWriter<Gone> = Vector::writer(self.store)?;
        while let Some((element, successor, distance)) = arcs.next_record()? {
            let before = back.peek()?.filter(|&(target, _, _)| target == element);
            let Some((_, previous, gap)) = before else {
                if element == self.head {
                    continue;
                }
                return Err(unreached(element, self.head));
            };
            back.next_record()?;
            if let Some((target, other, _)) = back.peek()?
                && target == element
            {
                return Err(meeting(previous, other, element));
            }
            if element == self.head || element == successor {
                return Err(circle(element));
            }
            if coins.is_gone(element, successor) {
                kept.push((previous, successor, gap + distance))?;
                gone.push((element, previous, gap))?;
            } else if !coins.is_gone(previous, element) {
                kept.push((previous, element, gap))?;
            }
        }
        while let Some((target, element, distance)) = back.next_record()? {
            // Successors that no element is were refused before; the first round refuses two ends.
            assert_eq!(target, END, "arcs lead to elements of the list");
            kept.push((element, END, distance))?;
        }
        Ok((kept, gone.finish()?))
    }

    /// Walks `count` arcs in memory; gives them back by element, the rank in place of the distance.
    fn walk<S: RecordStream<Record = Arc>>(
        &self,
        count: u64,
        mut stream: S,
    ) -> Result<(Vec<Arc>, Memory), ExternalError> {
        let memory = self.store.grant().take("list ranking", count * size_of::<Arc>() as u64)?;
        let mut arcs = Vec::with_capacity(to_index(count));
        while let Some(arc) = stream.next_record()? {
            arcs.push(arc);
        }
        let (mut element, mut rank) = (self.head, 0);
        while element != END {
            let index = arcs
                .binary_search_by_key(&element, |&(element, _, _)| element)
                .map_err(|_| unreached(element, self.head))?;
            let (_, successor, distance) = arcs[index];
            if successor == VISITED {
                return Err(circle(element));
            }
            arcs[index] = (element, VISITED, rank);
            rank += distance;
            element = successor;
        }
        match { arcs.iter() }.find(|&&(_, successor, _)| successor != VISITED) {
            Some(&(element, _, _)) => Err(unreached(element, self.head)),
            None => Ok((arcs, memory)),
        }
    }

    fn store_walked(&self, arcs: &[Arc]) -> Result<Vector<Ranked>, ExternalError> {
        let mut writer = Vector::writer_of(self.store, arcs.len() as u64)?;
        arcs.iter().try_for_each(|&(element, _, rank)| writer.push((element, rank)))?;
        writer.finish()
    }

    /// A round backwards: `ranks` and those of who went, by element, to `emit`.
    fn expand(
        &self,
        gone: Vector<Gone>,
        ranks: &Vector<Ranked>,
        mut emit: impl FnMut(Ranked) -> Result<(), ExternalError>,
    ) -> Result<(), ExternalError> {
        let order = By(|&(_, previous, _): &Gone| previous);
        let mut by_previous = Sorter::with_bytes(self.store, order, self.sort_bytes)?;
        by_previous.push_all(gone.into_stream()?)?;
        let mut by_element = Sorter::with_bytes(self.store, Natural, self.sort_bytes)?;
        {
            let mut stream = by_previous.finish()?;
            let mut known = ranks.scanner()?.ahead();
            while let Some((element, previous, gap)) = stream.next_record()? {
                let before = known.skip_while(|&(element, _)| element < previous)?;
                let (_, rank) = before.expect("the element before one that went has a rank");
                by_element.push((element, rank + gap))?;
            }
        }
        let mut found = by_element.finish()?.ahead();
        let mut known = ranks.scanner()?;
        while let Some(ranked) = known.next_record()? {
            while let Some(other) = found.peek()?.filter(|other| other.0 < ranked.0) {
                emit(other)?;
                found.next_record()?;
            }
            emit(ranked)?;
        }
        while let Some(other) = found.next_record()? {
            emit(other)?;
        }
        Ok(())
    }
}

/// The arcs of the list as it was given.
struct First<'v> {
    scanner: crate::Scanner<'v, u64>,
    element: u64,
    count: u64,
}

impl<'v> First<'v> {
    fn new(run: &Run<'v>) -> Result<Self, ExternalError> {
        let count = run.successors.len();
        Ok(Self { scanner: run.successors.scanner()?, element: 0, count })
    }
}

impl RecordStream for First<'_> {
    type Record = Arc;

    fn next_record(&mut self) -> Result<Option<Arc>, ExternalError> {
        let Some(successor) = self.scanner.next_record()? else { return Ok(None) };
        let element = self.element;
        self.element += 1;
        if successor != END {
            check_element(successor, self.count, Some(element))?;
        }
        Ok(Some((element, successor, 1)))
    }
}

fn meeting(left: u64, right: u64, element: u64) -> ExternalError {
    let what = format!("elements {left} and {right} of the list are both followed by {element}");
    ExternalError::Invalid { what }
}
