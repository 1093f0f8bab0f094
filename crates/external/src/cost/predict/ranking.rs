//! What list ranking asks for: the rounds of `list_ranking`, one after the other.
//!
//! ```text
//!   n elements ──► 3/4 n ──► 9/16 n … until memory holds them; a quarter goes in each round, and comes
//!   back in as many rounds
//! ```
//!
//! 1. How many go in a round is drawn by coins there, and a quarter here: of n elements it differs by
//!    the root of n.

use super::flow::{Pen, Reading, Writing};
use super::sorting::Sort;
use crate::cost::{Requests, Work};
use crate::list_ranking::Division;
use crate::{ExternalError, Store};
use nandu_base::Rng;

type Arc = (u64, u64, u64);
type Ranked = (u64, u64);

/// A ranking that is being predicted.
struct Run<'p, 'r> {
    pen: &'p mut Pen<'r>,
    division: Division,
    rng: &'p mut Rng,
}

/// A list of `count` elements comes from elsewhere, is ranked within `bytes` of memory, and the ranks
/// are read away: what `nandu external rank` does.
///
/// # Errors
/// If memory is too little, or the store is to stop.
pub fn rank(
    store: &Store,
    count: u64,
    bytes: u64,
    rng: &mut Rng,
    requests: &mut dyn Requests,
) -> Result<(), ExternalError> {
    let mut pen = Pen::new(store, requests);
    let list = pen.vector::<u64>(count)?;
    let files = |read: u64, written: u64| Work {
        read_bytes: 8 * read,
        written_bytes: 8 * written,
        ..Work::default()
    };
    pen.flow(&mut [], vec![list], rng)?;
    pen.end_phase(files(count, 0));
    let ranks = rank_list(&mut pen, list, count, bytes, rng)?;
    pen.flow(&mut [ranks.read()], Vec::new(), rng)?;
    pen.end_phase(files(0, count));
    Ok(())
}

/// A list of `count` elements that lies there is ranked within `bytes` of memory; where its ranks lie.
pub(super) fn rank_list(
    pen: &mut Pen<'_>,
    list: Writing,
    count: u64,
    bytes: u64,
    rng: &mut Rng,
) -> Result<Writing, ExternalError> {
    let division = Division::new(pen.store(), bytes)?;
    let mut run = Run { pen, division, rng };
    if count > 0 && !division.walks(count) {
        return run.rounds(list, count);
    }
    let ranks = run.pen.vector::<u64>(count)?;
    run.flow(&mut [list.read()], Vec::new(), Work::default())?;
    run.pen.end_phase(Work::walked(count));
    run.flow(&mut [], vec![ranks], Work::default())?;
    Ok(ranks)
}

impl Run<'_, '_> {
    /// A phase: streams side by side, and what the processor does.
    fn flow(
        &mut self,
        readings: &mut [Reading],
        writings: Vec<Writing>,
        work: Work,
    ) -> Result<(), ExternalError> {
        self.pen.flow(readings, writings, self.rng)?;
        self.pen.end_phase(work);
        Ok(())
    }

    fn sort<R: crate::Record>(&mut self, count: u64) -> Result<(Sort, Writing), ExternalError> {
        Sort::begin::<R>(self.pen, count, self.division.sort_bytes())
    }

    /// All rounds, there and back; where the ranks lie.
    fn rounds(&mut self, list: Writing, count: u64) -> Result<Writing, ExternalError> {
        let mut gone: Vec<(u64, Writing)> = Vec::new();
        let (mut by_successor, runs) = self.sort::<Arc>(count)?;
        self.flow(&mut [list.read()], vec![runs], by_successor.put_in())?;
        let (mut arcs, mut left) = (list, count);
        let mut ranks = loop {
            // A round: a quarter goes, what stays is sorted by element.
            let its_gone = left / 4;
            left -= its_gone;
            let (kept, kept_runs) = self.sort::<Arc>(left)?;
            let gone_row = self.pen.vector::<Arc>(its_gone)?;
            let (back, merging) = by_successor.finish(self.pen, self.rng)?;
            let work = merging.and(kept.put_in());
            self.flow(&mut [arcs.read(), back], vec![kept_runs, gone_row], work)?;
            gone.push((its_gone, gone_row));
            let (kept, merging) = kept.finish(self.pen, self.rng)?;
            if self.division.fits(left) {
                self.flow(&mut [kept], Vec::new(), merging)?;
                self.pen.end_phase(Work::walked(left));
                let ranks = self.pen.vector::<Ranked>(left)?;
                self.flow(&mut [], vec![ranks], Work::default())?;
                break ranks;
            }
            let runs;
            (by_successor, runs) = self.sort::<Arc>(left)?;
            arcs = self.pen.vector::<Arc>(left)?;
            self.flow(&mut [kept], vec![arcs, runs], merging.and(by_successor.put_in()))?;
        };
        while let Some((its_gone, row)) = gone.pop() {
            let (by_previous, runs) = self.sort::<Arc>(its_gone)?;
            self.flow(&mut [row.read()], vec![runs], by_previous.put_in())?;
            let (by_previous, merging) = by_previous.finish(self.pen, self.rng)?;
            let (by_element, runs) = self.sort::<Ranked>(its_gone)?;
            let work = merging.and(by_element.put_in());
            self.flow(&mut [by_previous, ranks.read()], vec![runs], work)?;
            let (by_element, merging) = by_element.finish(self.pen, self.rng)?;
            left += its_gone;
            let next = match gone.is_empty() {
                true => self.pen.vector::<u64>(left)?,
                false => self.pen.vector::<Ranked>(left)?,
            };
            self.flow(&mut [by_element, ranks.read()], vec![next], merging)?;
            ranks = next;
        }
        Ok(ranks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Access;
    use crate::testing::store_with;

    /// What phases say of walks.
    #[derive(Default)]
    struct Walks(Vec<u64>);

    impl Requests for Walks {
        fn note(&mut self, _: &Access) {}

        fn end_phase(&mut self, work: Work) {
            if work.walked_count > 0 {
                assert_eq!(work, Work::walked(work.walked_count), "nothing goes on beside it");
                self.0.push(work.walked_count);
            }
        }
    }

    #[test]
    fn a_ranking_ends_by_a_walk_past_what_memory_holds() {
        let store = store_with(4096, 1, 1, 1 << 20);
        let walks = |count| {
            let mut walks = Walks::default();
            rank(&store, count, 1 << 20, &mut Rng::new(1), &mut walks).unwrap();
            walks.0
        };
        assert!(walks(0).is_empty());
        assert_eq!(walks(100_000), [100_000]);
        // Arcs of a third or so of a megabyte, or three quarters of them.
        let [left] = walks(1_000_000)[..] else { panic!("one walk") };
        assert!((15_000..22_000).contains(&left), "{left}");
    }
}
