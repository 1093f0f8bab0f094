//! What the processor takes for that which a search of Munagala and Ranade does beside its sorts, measured
//! before: lists are looked up, and ascending neighbours are held against two levels.
//!
//! ```text
//!   lists of 2 neighbours  ─┐
//!                           ├─► a list, and a neighbour of one: a line in how many a list has
//!   lists of 16 neighbours ─┘
//!   ascending neighbours, two levels ─► a neighbour that is told or known
//! ```
//!
//! 1. What is rehearsed is what the search runs, over a graph that is none, in memory.
//! 2. How many neighbours a list has is drawn, as many on average as above, so that nobody foresees it.
//! 3. Of some rehearsals each figure is that of the shortest.

use super::level::Level;
use super::mr_bfs::tell_new;
use crate::{ExternalError, RecordStream, Store, Vector};
use nandu_base::{Nanos, Rng};
use std::hint::black_box;

/// Neighbours of a rehearsal.
const NEIGHBOUR_COUNT: u64 = 1 << 20;
/// How many a list has, on average.
const LIST_LENGTHS: [u64; 2] = [2, 16];
/// How often, each.
const REHEARSAL_COUNT: usize = 3;

/// What the processor takes, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lookups {
    /// A list that is looked up.
    pub(crate) list_ps: f64,
    /// A neighbour that is read from one.
    pub(crate) neighbour_ps: f64,
    /// A sorted neighbour that is held against two levels.
    pub(crate) told_ps: f64,
}

impl Lookups {
    /// Measures them on a store in memory, by `clock`.
    ///
    /// # Errors
    /// If the store has too little memory or room, or is to stop.
    pub(crate) fn measure(store: &Store, clock: &dyn Fn() -> Nanos) -> Result<Self, ExternalError> {
        let mut rehearsed = [Lists::UNKNOWN; LIST_LENGTHS.len()];
        let mut told_ps = f64::INFINITY;
        for _ in 0..REHEARSAL_COUNT {
            for (shortest, length) in rehearsed.iter_mut().zip(LIST_LENGTHS) {
                let its = rehearse_lists(store, length, clock)?;
                *shortest = if its.neighbour_ps < shortest.neighbour_ps { its } else { *shortest };
            }
            told_ps = told_ps.min(rehearse_telling(store, clock)?);
        }
        let [short, long] = rehearsed;
        let list_ps = (short.neighbour_ps - long.neighbour_ps) / (short.share - long.share);
        let list_ps = list_ps.max(0.0);
        let neighbour_ps = (long.neighbour_ps - list_ps * long.share).max(0.0);
        Ok(Self { list_ps, neighbour_ps, told_ps })
    }
}

/// What reading all lists took.
#[derive(Clone, Copy)]
struct Lists {
    /// Lists over neighbours.
    share: f64,
    /// All of it, for each neighbour.
    neighbour_ps: f64,
}

impl Lists {
    /// Longer than any.
    const UNKNOWN: Self = Self { share: 0.0, neighbour_ps: f64::INFINITY };
}

/// Looks lists up, one after the other, of so many neighbours on average.
fn rehearse_lists(
    store: &Store,
    mean_length: u64,
    clock: &dyn Fn() -> Nanos,
) -> Result<Lists, ExternalError> {
    let mut rng = Rng::new(mean_length);
    let mut nodes = Vector::writer(store)?;
    let mut edges = Vector::writer(store)?;
    let mut level = Level::new(store)?;
    while edges.len() < NEIGHBOUR_COUNT {
        let length = 1 + rng.below(2 * mean_length - 1);
        level.push(nodes.len())?;
        nodes.push((edges.len(), length))?;
        for _ in 0..length {
            edges.push(rng.next_u64())?;
        }
    }
    level.settle()?;
    let (nodes, edges) = (nodes.finish()?, edges.finish()?);
    let (mut node_gatherer, mut edge_gatherer) = (nodes.gatherer()?, edges.gatherer()?);
    let numbers = level.stream()?.map(|node| (node, 1));
    let mut neighbours = edge_gatherer.gather(node_gatherer.gather(numbers));
    let mut sum = 0_u64;
    let begin = clock();
    while let Some(neighbour) = neighbours.next_record()? {
        sum = sum.wrapping_add(neighbour);
    }
    let elapsed = clock().saturating_sub(begin);
    black_box(sum);
    let count = edges.len() as f64;
    Ok(Lists { share: nodes.len() as f64 / count, neighbour_ps: elapsed.0 as f64 * 1e3 / count })
}

/// Holds ascending neighbours against two levels: of the nodes, each of which is two neighbours on average,
/// a quarter is in either, and half are new. What one takes, in picoseconds.
fn rehearse_telling(store: &Store, clock: &dyn Fn() -> Nanos) -> Result<f64, ExternalError> {
    let mut rng = Rng::new(1);
    let (mut current, mut before, mut next) =
        (Level::new(store)?, Level::new(store)?, Level::new(store)?);
    let mut neighbours = Vector::writer(store)?;
    let mut node = 0_u64;
    while neighbours.len() < NEIGHBOUR_COUNT {
        match rng.below(4) {
            0 => current.push(node)?,
            1 => before.push(node)?,
            _ => {}
        }
        for _ in 0..=rng.below(3) {
            neighbours.push(node)?;
        }
        node += 1;
    }
    current.settle()?;
    before.settle()?;
    let neighbours = neighbours.finish()?;
    let mut ascending = neighbours.scanner()?;
    let mut sum = 0_u64;
    let begin = clock();
    let told = tell_new(&mut ascending, (&current, &before), &mut next, &mut |node| {
        sum = sum.wrapping_add(node);
        Ok(())
    })?;
    let elapsed = clock().saturating_sub(begin);
    black_box((sum, told));
    Ok(elapsed.0 as f64 * 1e3 / neighbours.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{memory_ios, ticking_clock};
    use crate::{Grant, Settings};
    use std::cell::Cell;

    /// With room for the longest lists.
    fn store() -> Store {
        let settings = Settings { block_bytes: 4096, in_flight: 1 };
        Store::new(&memory_ios(1, 48 << 20), settings, Grant::new(1 << 20)).unwrap()
    }

    #[test]
    fn times_are_those_of_the_clock_that_is_given() {
        let found = Lookups::measure(&store(), &ticking_clock()).unwrap();
        // All lists take a millisecond, short or long: it is for neighbours.
        let each_ps = 1e9 / NEIGHBOUR_COUNT as f64;
        assert!(found.list_ps < each_ps / 1000.0, "{found:?}");
        assert!((found.neighbour_ps / each_ps - 1.0).abs() < 1e-3, "{found:?}");
        assert!((found.told_ps / each_ps - 1.0).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn what_short_lists_take_longer_is_for_lists() {
        // Looks come in pairs: short lists, long lists, telling, three times. The first round was disturbed.
        let (looks, now) = (Cell::new(0_usize), Cell::new(0_u64));
        let clock = || {
            let taken_ms = [90, 5, 7, 9, 2, 4, 9, 2, 4][looks.get() / 2];
            now.set(now.get() + if looks.get() % 2 == 1 { taken_ms * 1_000_000 } else { 1 });
            looks.set(looks.get() + 1);
            Nanos(now.get())
        };
        let found = Lookups::measure(&store(), &clock).unwrap();
        // 9 ms are half a list and a neighbour, 2 ms a sixteenth of one and a neighbour: 16 and 1 for all.
        let each_ps = 1e9 / NEIGHBOUR_COUNT as f64;
        assert!((found.list_ps / each_ps / 16.0 - 1.0).abs() < 0.01, "{found:?}");
        assert!((found.neighbour_ps / each_ps - 1.0).abs() < 0.02, "{found:?}");
        assert!((found.told_ps / each_ps / 4.0 - 1.0).abs() < 1e-3, "{found:?}");
        assert_eq!(looks.get(), 2 * 3 * REHEARSAL_COUNT);
    }
}
