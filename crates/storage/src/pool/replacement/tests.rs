//! Each kind beside a model that is as plain as its paper, driven by a small cache.

#![allow(clippy::cast_possible_truncation, reason = "tests count small things")]

use super::*;
use nandu_base::Rng;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};

/// What a kind must do, in terms of pages rather than frames.
trait Model {
    fn hit(&mut self, page: u64);
    fn admit(&mut self, page: u64);
    /// Chooses among the pages that are not pinned, and removes it.
    fn evict(&mut self, pinned: &BTreeSet<u64>) -> Option<u64>;
    fn drop_page(&mut self, page: u64);
}

#[derive(Default)]
struct LruModel(Vec<u64>);

impl Model for LruModel {
    fn hit(&mut self, page: u64) {
        self.drop_page(page);
        self.0.push(page);
    }
    fn admit(&mut self, page: u64) {
        self.0.push(page);
    }
    fn evict(&mut self, pinned: &BTreeSet<u64>) -> Option<u64> {
        let place = self.0.iter().position(|page| !pinned.contains(page))?;
        Some(self.0.remove(place))
    }
    fn drop_page(&mut self, page: u64) {
        self.0.retain(|&other| other != page);
    }
}

/// The places of the frames, which CLOCK goes by, each with its page and bit.
struct ClockModel {
    places: Vec<Option<(u64, bool)>>,
    free: Vec<usize>,
    hand: usize,
}

impl ClockModel {
    fn new(frame_count: usize) -> Self {
        let free = (0..frame_count).rev().collect();
        Self { places: vec![None; frame_count], free, hand: 0 }
    }

    fn place_of(&self, page: u64) -> usize {
        let is_it = |place: &Option<(u64, bool)>| place.is_some_and(|(other, _)| other == page);
        self.places.iter().position(is_it).unwrap()
    }
}

impl Model for ClockModel {
    fn hit(&mut self, page: u64) {
        let place = self.place_of(page);
        self.places[place] = Some((page, true));
    }
    fn admit(&mut self, page: u64) {
        let place = self.free.pop().unwrap();
        self.places[place] = Some((page, false));
    }
    fn evict(&mut self, pinned: &BTreeSet<u64>) -> Option<u64> {
        for _ in 0..2 * self.places.len() {
            let here = self.hand;
            if let Some((page, false)) = self.places[here]
                && !pinned.contains(&page)
            {
                self.hand = (here + 1) % self.places.len();
                self.places[here] = None;
                self.free.push(here);
                return Some(page);
            }
            self.places[here] = self.places[here].map(|(page, _)| (page, false));
            self.hand = (here + 1) % self.places.len();
        }
        None
    }
    fn drop_page(&mut self, page: u64) {
        let place = self.place_of(page);
        self.places[place] = None;
        self.free.push(place);
    }
}

struct TwoQModel {
    recent: VecDeque<u64>,
    frequent: VecDeque<u64>,
    ghosts: VecDeque<u64>,
    bits: BTreeSet<u64>,
    frame_count: usize,
}

impl Model for TwoQModel {
    fn hit(&mut self, page: u64) {
        self.bits.insert(page);
    }
    fn admit(&mut self, page: u64) {
        match self.ghosts.iter().position(|&ghost| ghost == page) {
            Some(place) => {
                // Its place among the ghosts stays taken until it would have left.
                self.ghosts[place] = u64::MAX;
                self.frequent.push_back(page);
            }
            None => self.recent.push_back(page),
        }
    }
    fn evict(&mut self, pinned: &BTreeSet<u64>) -> Option<u64> {
        let oldest = |pages: &VecDeque<u64>| pages.iter().position(|page| !pinned.contains(page));
        let is_full = self.recent.len() >= (self.frame_count / 4).max(1);
        let mut from_recent = oldest(&self.recent).filter(|_| is_full);
        if from_recent.is_none() {
            for _ in 0..2 * self.frequent.len() {
                let page = self.frequent.pop_front().unwrap();
                if !self.bits.remove(&page) && !pinned.contains(&page) {
                    return Some(page);
                }
                self.frequent.push_back(page);
            }
            from_recent = oldest(&self.recent);
        }
        let page = self.recent.remove(from_recent?).unwrap();
        self.bits.remove(&page);
        self.ghosts.push_back(page);
        if self.ghosts.len() > (self.frame_count / 2).max(1) {
            self.ghosts.pop_front();
        }
        Some(page)
    }
    fn drop_page(&mut self, page: u64) {
        self.recent.retain(|&other| other != page);
        self.frequent.retain(|&other| other != page);
        self.bits.remove(&page);
    }
}

/// A cache of pages under one kind.
struct Cache {
    kind: ReplacementKind,
    replacement: Box<dyn Replacement>,
    frames: Vec<Option<u64>>,
    free: Vec<u32>,
    bits: Bits,
    pinned: BTreeSet<u64>,
}

struct Bits(RefCell<Vec<bool>>);

impl ReferenceBits for Bits {
    fn take_reference(&self, frame: u32) -> bool {
        std::mem::take(&mut self.0.borrow_mut()[frame as usize])
    }
}

impl Cache {
    fn new(kind: ReplacementKind, frame_count: u32) -> Self {
        Self {
            kind,
            replacement: kind.build(frame_count),
            frames: vec![None; frame_count as usize],
            free: (0..frame_count).rev().collect(),
            bits: Bits(RefCell::new(vec![false; frame_count as usize])),
            pinned: BTreeSet::new(),
        }
    }

    fn frame_of(&self, page: u64) -> Option<u32> {
        self.frames.iter().position(|&held| held == Some(page)).map(|frame| frame as u32)
    }

    /// Reads a page; says whether it was a hit, and which page left.
    fn read(&mut self, page: u64) -> (bool, Option<u64>) {
        if let Some(frame) = self.frame_of(page) {
            self.bits.0.borrow_mut()[frame as usize] = true;
            if self.kind.needs_every_hit() {
                self.replacement.touch(frame);
            }
            return (true, None);
        }
        let mut victim = None;
        if self.free.is_empty() {
            let (frames, pinned) = (&self.frames, &self.pinned);
            let mut may_leave = |frame: u32| !pinned.contains(&frames[frame as usize].unwrap());
            let Some(frame) = self.replacement.victim(&self.bits, &mut may_leave) else {
                return (false, None);
            };
            victim = self.frames[frame as usize];
            self.leave(frame, true);
        }
        let frame = self.free.pop().unwrap();
        self.frames[frame as usize] = Some(page);
        self.bits.0.borrow_mut()[frame as usize] = false;
        self.replacement.admit(frame, page);
        (false, victim)
    }

    fn leave(&mut self, frame: u32, as_victim: bool) {
        self.replacement.remove(frame, as_victim);
        self.frames[frame as usize] = None;
        self.free.push(frame);
    }

    fn audit(&self) {
        self.replacement.audit();
        let mut known = Vec::new();
        self.replacement.upcoming(usize::MAX, &mut known);
        known.sort_unstable();
        let occupied = (0..).zip(&self.frames).filter(|(_, page)| page.is_some());
        assert_eq!(known, occupied.map(|(frame, _)| frame).collect::<Vec<u32>>());
    }
}

/// A read, a pin for a while or a page that is forgotten.
fn steps() -> impl Strategy<Value = Vec<(u64, u8)>> {
    proptest::collection::vec((0_u64..20, 0_u8..16), 0..400)
}

fn behaves_like(
    kind: ReplacementKind,
    frame_count: u32,
    model: &mut dyn Model,
    steps: &[(u64, u8)],
) -> Result<(), TestCaseError> {
    let mut cache = Cache::new(kind, frame_count);
    for &(page, action) in steps {
        let held = cache.frame_of(page);
        match (action, held) {
            (0, Some(frame)) if !cache.pinned.contains(&page) => {
                cache.leave(frame, false);
                model.drop_page(page);
            }
            (1, Some(_)) => {
                cache.pinned.insert(page);
            }
            (2 | 3, _) => {
                cache.pinned.remove(&page);
            }
            _ => {
                let is_full = cache.free.is_empty();
                let (was_hit, victim) = cache.read(page);
                prop_assert_eq!(was_hit, held.is_some());
                if was_hit {
                    model.hit(page);
                } else {
                    let expected = if is_full { model.evict(&cache.pinned) } else { None };
                    prop_assert_eq!(victim, expected);
                    if cache.frame_of(page).is_some() {
                        model.admit(page);
                    }
                }
            }
        }
        cache.audit();
    }
    Ok(())
}

proptest! {
    #[test]
    fn lru_evicts_exactly_the_least_recently_used(steps in steps(), frames in 1_u32..9) {
        behaves_like(ReplacementKind::Lru, frames, &mut LruModel::default(), &steps)?;
    }

    #[test]
    fn clock_gives_second_chances(steps in steps(), frames in 1_u32..9) {
        let mut model = ClockModel::new(frames as usize);
        behaves_like(ReplacementKind::Clock, frames, &mut model, &steps)?;
    }

    #[test]
    fn two_q_keeps_its_queues(steps in steps(), frames in 1_u32..9) {
        let mut model = TwoQModel {
            recent: VecDeque::new(),
            frequent: VecDeque::new(),
            ghosts: VecDeque::new(),
            bits: BTreeSet::new(),
            frame_count: frames as usize,
        };
        behaves_like(ReplacementKind::TwoQ, frames, &mut model, &steps)?;
    }
}

/// How many of 40 hot pages are still there after a scan, when every other page was cold before it.
fn hot_pages_left_by_a_scan(kind: ReplacementKind) -> usize {
    let mut cache = Cache::new(kind, 64);
    let mut rng = Rng::new(1);
    let mut cold_pages = 1000..;
    for _ in 0..4000 {
        cache.read(rng.below(40));
        cache.read(cold_pages.next().unwrap());
    }
    cold_pages.take(1000).for_each(|page| {
        cache.read(page);
    });
    (0..40).filter(|&page| cache.frame_of(page).is_some()).count()
}

#[test]
fn a_scan_pushes_hot_pages_out_of_lru_and_clock_but_not_out_of_two_q() {
    assert_eq!(hot_pages_left_by_a_scan(ReplacementKind::TwoQ), 40);
    assert_eq!(hot_pages_left_by_a_scan(ReplacementKind::Lru), 0);
    assert_eq!(hot_pages_left_by_a_scan(ReplacementKind::Clock), 0);
}
