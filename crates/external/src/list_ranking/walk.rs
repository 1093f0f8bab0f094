//! The walks in memory by which a ranking ends, and what a step of them takes, measured before.
//!
//! ```text
//!   words   a word for each element of the list as it was given: its successor, then its rank
//!   arcs    what rounds have left, by element: each step seeks its element by halves
//! ```
//!
//! Each step waits for the last one, and where elements lie in no order it waits for memory.
//!
//! 1. What is rehearsed are the walks themselves, over a list that jumps about in as many places.

use super::{END, circle, unreached};
use crate::ExternalError;
use nandu_base::{Nanos, to_index, to_u32};

/// An element, its successor, and how far that is.
pub(super) type Arc = (u64, u64, u64);

/// What follows the last element where a word tells elements apart.
pub(super) const WORD_END: u32 = u32::MAX;
/// After so many elements a walk looks at whether to stop.
pub(super) const ELEMENTS_PER_LOOK: u64 = 4096;
/// What stands for the successor of an element that was walked past.
pub(super) const VISITED: u64 = END - 1;

/// Bytes of what is rehearsed on, at most.
const REHEARSED_BYTES: u64 = 64 << 20;
/// Steps of a rehearsal, at most.
const REHEARSED_COUNT: u64 = 1 << 19;

/// Who is asked whether to stop.
type Look<'l> = &'l mut dyn FnMut() -> Result<(), ExternalError>;

/// Memory of a walk over words: one and a bit an element.
pub(super) const fn word_bytes(count: u64) -> u64 {
    count.saturating_mul(4).saturating_add(count.div_ceil(64) * 8)
}

/// A list as it was given, a word an element: its successor before it is passed and its rank then.
pub(super) struct Words {
    pub(super) words: Vec<u32>,
    passed: Vec<u64>,
}

impl Words {
    /// Of such successors, [`WORD_END`] behind the last one.
    pub(super) fn new(words: Vec<u32>) -> Self {
        let passed = vec![0; words.len().div_ceil(64)];
        Self { words, passed }
    }

    /// Walks from `head` to the end, or past `limit` elements; how many it passed.
    pub(super) fn walk(
        &mut self,
        head: u32,
        limit: u64,
        look: Look<'_>,
    ) -> Result<u64, ExternalError> {
        let Self { words, passed } = self;
        let (mut element, mut rank) = (head, 0_u32);
        while element != WORD_END && u64::from(rank) < limit {
            let at = to_index(u64::from(element));
            let (word, bit) = (&mut passed[at / 64], 1 << (at % 64));
            if *word & bit != 0 {
                return Err(circle(element.into()));
            }
            *word |= bit;
            element = std::mem::replace(&mut words[at], rank);
            rank += 1;
            if u64::from(rank).is_multiple_of(ELEMENTS_PER_LOOK) {
                look()?;
            }
        }
        Ok(rank.into())
    }

    /// The first element that was not passed.
    pub(super) fn first_left(&self) -> Option<usize> {
        (0..self.words.len()).find(|at| self.passed[at / 64] & 1 << (at % 64) == 0)
    }
}

/// Walks arcs, which ascend by element, from `head` to the end, or past `limit` of them: each has its rank
/// in place of the distance then, and [`VISITED`] in that of the successor.
pub(super) fn walk_arcs(
    arcs: &mut [Arc],
    head: u64,
    limit: u64,
    look: Look<'_>,
) -> Result<(), ExternalError> {
    let (mut element, mut rank, mut count) = (head, 0, 0_u64);
    while element != END && count < limit {
        count += 1;
        if count.is_multiple_of(ELEMENTS_PER_LOOK) {
            look()?;
        }
        let index = arcs
            .binary_search_by_key(&element, |&(element, _, _)| element)
            .map_err(|_| unreached(element, head))?;
        let (_, successor, distance) = arcs[index];
        if successor == VISITED {
            return Err(circle(element));
        }
        arcs[index] = (element, VISITED, rank);
        rank += distance;
        element = successor;
    }
    Ok(())
}

/// A circle through places that jumps about: the numbers of a generator of full period (Hull and Dobell
/// 1962), and where each lies.
#[derive(Clone, Copy)]
struct Jumps {
    place_count: u64,
    bits: u32,
}

impl Jumps {
    /// Among so many places, of which half or more are on the circle.
    fn new(place_count: u64) -> Self {
        let place_count = place_count.clamp(1, 1 << 30);
        Self { place_count, bits: place_count.ilog2() }
    }

    const fn length(self) -> u64 {
        1 << self.bits
    }

    const fn place(self, number: u64) -> u64 {
        (number * self.place_count) >> self.bits
    }

    /// The places on the circle, ascending, each with the one that follows it.
    fn steps(self) -> impl Iterator<Item = (u64, u64)> {
        // The factor of Knuth's MMIX, of which only the last bits count here.
        let next = move |number: u64| {
            number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1) % self.length()
        };
        (0..self.length()).map(move |number| (self.place(number), self.place(next(number))))
    }
}

/// What a step over the words of a list of so many elements takes, in picoseconds.
pub(super) fn rehearse_words(
    count: u64,
    clock: &dyn Fn() -> Nanos,
    look: Look<'_>,
) -> Result<f64, ExternalError> {
    let jumps = Jumps::new(count.min(REHEARSED_BYTES / 4));
    let mut words = vec![WORD_END; to_index(jumps.place_count)];
    for (place, next) in jumps.steps() {
        words[to_index(place)] = to_u32(next);
    }
    let mut words = Words::new(words);
    timed(jumps, clock, |limit| words.walk(0, limit, look).map(drop))
}

/// What a step over so many arcs takes, in picoseconds.
pub(super) fn rehearse_arcs(
    count: u64,
    clock: &dyn Fn() -> Nanos,
    look: Look<'_>,
) -> Result<f64, ExternalError> {
    let jumps = Jumps::new(count.min(REHEARSED_BYTES / size_of::<Arc>() as u64));
    let mut arcs: Vec<Arc> = (0..jumps.place_count).map(|place| (place, END, 1)).collect();
    for (place, next) in jumps.steps() {
        arcs[to_index(place)].1 = next;
    }
    timed(jumps, clock, |limit| walk_arcs(&mut arcs, 0, limit, look))
}

fn timed(
    jumps: Jumps,
    clock: &dyn Fn() -> Nanos,
    walk: impl FnOnce(u64) -> Result<(), ExternalError>,
) -> Result<f64, ExternalError> {
    let step_count = jumps.length().min(REHEARSED_COUNT);
    let begin = clock();
    walk(step_count)?;
    let elapsed = clock().saturating_sub(begin);
    Ok(elapsed.0 as f64 * 1e3 / step_count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ticking_clock;

    #[test]
    fn a_rehearsal_jumps_to_each_place_of_its_circle_once() {
        for place_count in [1, 2, 3, 1000, 4096, 100_000] {
            let jumps = Jumps::new(place_count);
            let mut words = vec![WORD_END; to_index(place_count)];
            for (place, next) in jumps.steps() {
                words[to_index(place)] = to_u32(next);
            }
            let far = jumps.steps().filter(|(place, next)| place.abs_diff(*next) > 64).count();
            assert!(place_count < 1000 || far as u64 > jumps.length() * 4 / 5, "{far} jumps");
            let mut words = Words::new(words);
            let passed = words.walk(0, jumps.length(), &mut || Ok(()));
            assert_eq!(passed, Ok(jumps.length()), "{place_count} places: no circle before that");
            assert!(2 * jumps.length() > place_count);
        }
    }

    #[test]
    fn a_step_takes_its_part_of_the_time_of_the_clock_that_is_given() {
        let clock = ticking_clock();
        for count in [REHEARSED_COUNT, 1000] {
            let each_ps = 1e9 / count.min(1 << count.ilog2()) as f64;
            assert_eq!(rehearse_words(count, &clock, &mut || Ok(())), Ok(each_ps));
            assert_eq!(rehearse_arcs(count, &clock, &mut || Ok(())), Ok(each_ps));
        }
        let mut stop = || Err(ExternalError::Cancelled);
        let stopped = rehearse_words(100_000, &clock, &mut stop);
        assert_eq!(stopped, Err(ExternalError::Cancelled));
        let stopped = rehearse_arcs(100_000, &clock, &mut stop);
        assert_eq!(stopped, Err(ExternalError::Cancelled));
    }
}
