//! Which page leaves the pool when another needs its frame: siblings behind one trait.
//!
//! ```text
//!   clock   second chance: one bit a page, a hand goes round
//!   two_q   pages wanted once leave by a short queue; those that come back stay (scan resistant)
//!   lru     exactly the least recently used; each hit takes a lock
//! ```
//!
//! 1. A kind knows exactly the frames that were admitted and not removed since.
//! 2. It names victims and removes nothing by itself: whether a page leaves is the pool's decision.

mod clock;
mod lru;
mod two_q;

use serde::{Deserialize, Serialize};

pub use clock::Clock;
pub use lru::Lru;
pub use two_q::TwoQueue;

/// The kinds of replacement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplacementKind {
    /// A hand goes round and passes over what was used since: [`Clock`].
    Clock,
    /// What is used once does not displace what is used often: [`TwoQueue`].
    #[default]
    TwoQ,
    /// What was not used for the longest time goes first: [`Lru`].
    Lru,
}

impl ReplacementKind {
    /// All kinds, for tests and sweeps.
    pub const ALL: [Self; 3] = [Self::Clock, Self::TwoQ, Self::Lru];

    /// A fresh instance for so many frames.
    #[must_use]
    pub fn build(self, frame_count: u32) -> Box<dyn Replacement> {
        match self {
            Self::Clock => Box::new(Clock::new(frame_count)),
            Self::TwoQ => Box::new(TwoQueue::new(frame_count)),
            Self::Lru => Box::new(Lru::new(frame_count)),
        }
    }

    /// Whether [`Replacement::touch`] must be called at each hit; elsewhere a bit is enough.
    #[must_use]
    pub const fn needs_every_hit(self) -> bool {
        matches!(self, Self::Lru)
    }
}

/// The bits that hits set.
pub trait ReferenceBits {
    /// Whether the page in `frame` was wanted since this was asked last.
    fn take_reference(&self, frame: u32) -> bool;
}

/// A way to choose victims. Pages are known by the word of their address.
pub trait Replacement: Send {
    /// A page came into `frame`.
    fn admit(&mut self, frame: u32, word: u64);

    /// The page in `frame` was wanted; only where [`ReplacementKind::needs_every_hit`].
    fn touch(&mut self, frame: u32);

    /// The page left `frame`: as a victim, or because it is no more.
    fn remove(&mut self, frame: u32, as_victim: bool);

    /// The page that should leave first among those that `may_leave`. It stays until removed.
    fn victim(
        &mut self,
        bits: &dyn ReferenceBits,
        may_leave: &mut dyn FnMut(u32) -> bool,
    ) -> Option<u32>;

    /// Lists the frames that are likely to be named soon, the next one first, at most `limit`.
    fn upcoming(&self, limit: usize, found: &mut Vec<u32>);

    /// Asserts the kind's numbered invariants.
    ///
    /// # Panics
    /// If one does not hold.
    fn audit(&self);
}

/// Frames in a doubly linked ring without allocation, oldest first; each frame is in one list at most.
#[derive(Debug)]
struct FrameLists {
    /// For each frame and then for the anchor of each list: the neighbours, and the list it is in.
    next: Vec<u32>,
    previous: Vec<u32>,
    list: Vec<u8>,
    counts: Vec<u32>,
    frame_count: u32,
}

/// Stands for a frame that is in no list.
const NO_LIST: u8 = u8::MAX;

impl FrameLists {
    fn new(frame_count: u32, list_count: u8) -> Self {
        let node_count = frame_count + u32::from(list_count);
        let nodes: Vec<u32> = (0..node_count).collect();
        Self {
            next: nodes.clone(),
            previous: nodes,
            list: vec![NO_LIST; frame_count as usize],
            counts: vec![0; usize::from(list_count)],
            frame_count,
        }
    }

    fn list_of(&self, frame: u32) -> Option<u8> {
        Some(self.list[frame as usize]).filter(|&list| list != NO_LIST)
    }

    fn count(&self, list: u8) -> u32 {
        self.counts[usize::from(list)]
    }

    /// Appends a frame that is in no list, as the youngest.
    fn append(&mut self, list: u8, frame: u32) {
        assert_eq!(self.list[frame as usize], NO_LIST, "a frame is in one list at most");
        let anchor = self.frame_count + u32::from(list);
        let last = self.previous[anchor as usize];
        self.next[last as usize] = frame;
        self.previous[frame as usize] = last;
        self.next[frame as usize] = anchor;
        self.previous[anchor as usize] = frame;
        self.list[frame as usize] = list;
        self.counts[usize::from(list)] += 1;
    }

    fn remove(&mut self, frame: u32) {
        let list = self.list_of(frame).expect("what is removed was admitted");
        let (next, previous) = (self.next[frame as usize], self.previous[frame as usize]);
        self.next[previous as usize] = next;
        self.previous[next as usize] = previous;
        self.list[frame as usize] = NO_LIST;
        self.counts[usize::from(list)] -= 1;
    }

    fn move_to_end(&mut self, list: u8, frame: u32) {
        self.remove(frame);
        self.append(list, frame);
    }

    /// The frames of a list, oldest first.
    fn iter(&self, list: u8) -> impl Iterator<Item = u32> + Clone {
        let anchor = self.frame_count + u32::from(list);
        let step = move |&frame: &u32| Some(self.next[frame as usize]);
        std::iter::successors(step(&anchor), step).take_while(move |&frame| frame != anchor)
    }

    fn audit(&self) {
        for (list, &count) in (0..).zip(&self.counts) {
            assert_eq!(self.iter(list).count(), count as usize, "the lists are counted");
            for frame in self.iter(list) {
                assert_eq!(self.list[frame as usize], list, "a frame knows its list");
            }
        }
        let listed = self.list.iter().filter(|&&list| list != NO_LIST).count();
        assert_eq!(listed, self.counts.iter().sum::<u32>() as usize, "all are listed");
    }
}

#[cfg(test)]
mod tests;
