//! Each kind beside a model that is as plain as its paper, its steps taken on slots and places that know
//! versions, and what is known of it on paper.

#![allow(clippy::cast_possible_truncation, reason = "tests count small things")]

mod models;

use super::*;
use nandu_base::Rng;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A policy whose steps are taken, and what must be true then.
struct World {
    policy: Box<dyn TierPolicy>,
    config: TierConfig,
    /// The newest version of each page, what lies in its place, and what slots hold.
    newest: BTreeMap<u64, u64>,
    places: BTreeMap<u64, u64>,
    slots: BTreeMap<u32, (u64, u64)>,
    /// Slots in the order in which they were written.
    written: Vec<u32>,
    /// Pages in the order in which they were written to their places from the tier.
    written_back: Vec<u64>,
    steps: Vec<Step>,
}

impl World {
    fn new(config: TierConfig) -> Self {
        Self {
            policy: config.build(),
            config,
            newest: BTreeMap::new(),
            places: BTreeMap::new(),
            slots: BTreeMap::new(),
            written: Vec::new(),
            written_back: Vec::new(),
            steps: Vec::new(),
        }
    }

    fn of(policy: TierPolicyKind, slot_count: u32) -> Self {
        Self::new(TierConfig { policy, slot_count, ..TierConfig::default() })
    }

    fn read(&mut self, page: u64) -> bool {
        self.read_by(page, Access::Random)
    }

    fn read_by(&mut self, page: u64, access: Access) -> bool {
        let before = self.policy.copies().copy_of(page).map(|copy| copy.slot);
        let found = self.policy.read(page, access);
        assert_eq!(found, before, "a read moves nothing");
        found.is_some()
    }

    fn leave(&mut self, page: u64) {
        self.arrive(Arrival { page, is_changed: false, access: Access::Random });
    }

    fn change(&mut self, page: u64) {
        self.arrive(Arrival { page, is_changed: true, access: Access::Random });
    }

    fn arrive(&mut self, arrival: Arrival) {
        let Arrival { page, is_changed, .. } = arrival;
        *self.newest.entry(page).or_default() += u64::from(is_changed);
        let before: BTreeSet<u32> = self.copies().iter().map(|copy| copy.slot).collect();
        let mut steps = std::mem::take(&mut self.steps);
        steps.clear();
        self.policy.arrive(arrival, &mut steps);
        for &step in &steps {
            if let Step::Fill { slot } | Step::Move { to: slot, .. } = step {
                assert!(!before.contains(&slot), "{step:?}: the slot had a copy");
                assert!(slot < self.config.slot_count);
                self.written.push(slot);
            }
            match step {
                Step::WriteBack { page, slot } => {
                    assert_eq!(self.slots[&slot].0, page, "{step:?}");
                    self.places.insert(page, self.slots[&slot].1);
                    self.written_back.push(page);
                }
                Step::Move { page, from, to } => {
                    assert_eq!(self.slots[&from].0, page, "{step:?}");
                    self.slots.insert(to, self.slots[&from]);
                }
                Step::Fill { slot } => {
                    self.slots.insert(slot, (page, self.newest[&page]));
                }
                Step::Write => {
                    self.places.insert(page, self.newest[&page]);
                }
            }
        }
        self.steps = steps;
        self.check();
    }

    fn forget(&mut self, page: u64) {
        // It is gone from everywhere.
        self.newest.remove(&page);
        self.places.remove(&page);
        self.policy.forget(page);
        self.check();
    }

    fn copies(&self) -> Vec<TierCopy> {
        let mut copies = Vec::new();
        self.policy.copies().for_each(&mut |copy| copies.push(copy));
        copies.sort_unstable();
        copies
    }

    fn pages(&self) -> BTreeSet<u64> {
        self.copies().iter().map(|copy| copy.page).collect()
    }

    fn check(&self) {
        self.policy.audit();
        let copies = self.copies();
        assert_eq!(copies.len(), self.policy.copies().count() as usize);
        let dirty = copies.iter().filter(|copy| copy.is_dirty).count();
        assert_eq!(dirty, self.policy.copies().dirty_count() as usize);
        let is_clean = self.config.writes_through || self.config.policy == TierPolicyKind::Tac;
        assert!(!is_clean || dirty == 0, "what is written through is clean");
        for copy in &copies {
            assert_eq!(self.policy.copies().copy_of(copy.page), Some(*copy));
            assert!(self.newest.contains_key(&copy.page), "what was forgotten has no copy");
        }
        for (page, newest) in &self.newest {
            let copy = self.policy.copies().copy_of(*page);
            if let Some(copy) = copy {
                assert_eq!(
                    self.slots[&copy.slot],
                    (*page, *newest),
                    "a copy is the newest version"
                );
            }
            if copy.is_none_or(|copy| !copy.is_dirty) {
                let place = self.places.get(page).copied().unwrap_or(0);
                assert_eq!(place, *newest, "{page}: what has no dirty copy is in its place");
            }
        }
    }
}

/// What may happen to a page.
#[derive(Clone, Copy, Debug)]
enum Event {
    Read(u64, Access),
    Leave(u64, Access),
    Change(u64, Access),
    Forget(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let access = prop_oneof![3 => Just(Access::Random), 1 => Just(Access::Sequential)];
    // Some pages more often than others, over three extents.
    let page = prop_oneof![3 => 0..8_u64, 2 => 0..90_u64];
    let event = (page, access, 0..20_u8).prop_map(|(page, access, what)| match what {
        0..7 => Event::Read(page, access),
        7..13 => Event::Leave(page, access),
        13..19 => Event::Change(page, access),
        _ => Event::Forget(page),
    });
    prop::collection::vec(event, 1..400)
}

fn configs(policy: TierPolicyKind) -> impl Strategy<Value = TierConfig> {
    (SLOT_COUNT_MIN..40, 1..12_u32, any::<bool>()).prop_map(
        move |(slot_count, group_page_count, writes_through)| TierConfig {
            policy,
            slot_count,
            group_page_count,
            writes_through,
        },
    )
}

/// Has the kind and its model do the same, and checks that both keep the same pages.
fn check_beside_model(config: TierConfig, events: &[Event]) {
    let mut world = World::new(config);
    let mut model = models::of(&config);
    for &event in events {
        match event {
            Event::Read(page, access) => {
                assert_eq!(world.read_by(page, access), model.pages().contains(&page));
                model.read(page, access);
            }
            Event::Leave(page, access) => {
                world.arrive(Arrival { page, is_changed: false, access });
                model.arrive(page, false, access);
            }
            Event::Change(page, access) => {
                world.arrive(Arrival { page, is_changed: true, access });
                model.arrive(page, true, access);
            }
            Event::Forget(page) => {
                world.forget(page);
                model.forget(page);
            }
        }
        assert_eq!(world.pages(), model.pages(), "{:?} after {event:?}", config.policy);
    }
}

macro_rules! keeps_what_its_model_keeps {
    ($($name:ident: $kind:ident,)*) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(120))]
            $(#[test]
            fn $name(config in configs(TierPolicyKind::$kind), events in events()) {
                check_beside_model(config, &events);
            })*
        }
    };
}

keeps_what_its_model_keeps! {
    lru_keeps_what_its_model_keeps: Lru,
    two_q_keeps_what_its_model_keeps: TwoQ,
    tac_keeps_what_its_model_keeps: Tac,
    lazy_cleaning_keeps_what_its_model_keeps: LazyCleaning,
    face_keeps_what_its_model_keeps: Face,
    face_gsc_keeps_what_its_model_keeps: FaceGsc,
}

/// Reads of a pool without frames: each page that was read leaves at once, and some were changed.
fn load(world: &mut World, seed: u64, count: usize, page_count: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let mut hit_count = 0;
    for _ in 0..count {
        // Low numbers are wanted more often.
        let page = (0..3).map(|_| rng.below(page_count)).min().unwrap();
        hit_count += u64::from(world.read(page));
        match rng.below(4) {
            0 => world.change(page),
            _ => world.leave(page),
        }
    }
    hit_count
}

#[test]
fn a_larger_tier_of_lru_has_all_that_a_smaller_one_has() {
    let mut rng = Rng::new(3);
    let mut worlds: Vec<World> =
        (SLOT_COUNT_MIN..60).map(|slots| World::of(TierPolicyKind::Lru, slots)).collect();
    for _ in 0..600 {
        let page = rng.below(80).min(rng.below(80));
        let is_changed = rng.below(3) == 0;
        for world in &mut worlds {
            world.read(page);
            world.arrive(Arrival { page, is_changed, access: Access::Random });
        }
        for pair in worlds.windows(2) {
            assert!(pair[0].pages().is_subset(&pair[1].pages()), "LRU is a stack algorithm");
        }
    }
}

#[test]
fn a_page_that_comes_back_to_two_q_outlives_a_scan() {
    let mut world = World::of(TierPolicyKind::TwoQ, 16);
    (1..=17).for_each(|page| world.leave(page));
    assert!(world.policy.copies().copy_of(1).is_none(), "fifteen frames, the first two have left");
    world.leave(1);
    (100..200).for_each(|page| world.leave(page));
    assert!(world.policy.copies().copy_of(1).is_some(), "it came back, so it stays");
    assert!(world.policy.copies().copy_of(17).is_none(), "it came once");
}

#[test]
fn what_face_writes_lies_one_behind_the_other() {
    for kind in [TierPolicyKind::Face, TierPolicyKind::FaceGsc] {
        for slot_count in [8, 33, 100] {
            let mut world = World::of(kind, slot_count);
            load(&mut world, 5, 2000, 150);
            let expected = (0..slot_count).cycle();
            assert!(world.written.iter().copied().eq(expected.take(world.written.len())));
            assert!(world.written.len() > 3 * slot_count as usize, "it went round");
        }
    }
}

#[test]
fn a_page_that_is_changed_all_the_time_never_goes_from_face_to_its_place() {
    let mut world = World::of(TierPolicyKind::Face, 8);
    (0..100).for_each(|_| world.change(1));
    assert_eq!((world.written.len(), world.written_back.len()), (100, 0));
    assert_eq!(world.policy.copies().count(), 1, "one version counts");
}

#[test]
fn a_second_chance_keeps_what_is_wanted_and_face_does_not() {
    let kept = |kind| {
        let mut world = World::of(kind, 32);
        world.leave(1);
        (100..400).all(|page| {
            let is_there = world.read(1);
            world.leave(page);
            is_there
        })
    };
    assert!(kept(TierPolicyKind::FaceGsc));
    assert!(!kept(TierPolicyKind::Face));
}

#[test]
fn where_all_are_wanted_a_second_chance_lets_one_of_each_group_go() {
    let mut world = World::of(TierPolicyKind::FaceGsc, 32);
    for page in 0..200 {
        world.leave(page);
        let all = world.pages();
        all.iter().for_each(|&page| assert!(world.read(page)));
    }
    assert!(world.policy.copies().count() >= 23, "no more than a gap and the group are missing");
}

#[test]
fn lazy_cleaning_writes_neighbours_together_and_keeps_what_is_wanted_again() {
    let mut world = World::of(TierPolicyKind::LazyCleaning, 64);
    // Forty pages are changed, of which thirty may be dirty.
    (0..40).for_each(|page| world.change(page ^ 5));
    let mut written = world.written_back.clone();
    assert!(written.len() > 9, "{written:?}");
    assert!(written.windows(2).any(|pair| pair[0] + 1 == pair[1]), "{written:?}");
    written.sort_unstable();
    written.dedup();
    assert_eq!(written.len(), world.written_back.len(), "each once");

    let mut world = World::of(TierPolicyKind::LazyCleaning, 32);
    world.leave(1);
    (0..2).for_each(|_| assert!(world.read(1)));
    (100..300).for_each(|page| world.leave(page));
    assert!(world.policy.copies().copy_of(1).is_some(), "the others were used once");
}

#[test]
fn a_tier_of_temperatures_is_not_displaced_by_a_scan_but_by_what_is_warmer() {
    let mut world = World::of(TierPolicyKind::Tac, 16);
    let scan = |world: &mut World| {
        for page in 1000..1200 {
            world.read_by(page, Access::Sequential);
            world.arrive(Arrival { page, is_changed: false, access: Access::Sequential });
        }
    };
    for page in 0..15 {
        world.read(page);
        world.leave(page);
    }
    let before = world.pages();
    assert_eq!(before.len(), 15, "the tier is full");
    scan(&mut world);
    assert_eq!(world.pages(), before);
    for _ in 0..40 {
        world.read(500);
    }
    world.leave(500);
    assert!(world.policy.copies().copy_of(500).is_some(), "its extent is the warmest");
}

#[test]
fn more_slots_find_more() {
    let hits = |policy, slot_count| {
        let config = TierConfig { policy, slot_count, group_page_count: 4, writes_through: false };
        load(&mut World::new(config), 7, 4000, 400)
    };
    for kind in TierPolicyKind::ALL {
        let found = [16, 64, 256].map(|slots| hits(kind, slots));
        assert!(found.is_sorted() && found[0] > 0, "{kind}: {found:?}");
    }
}

#[test]
fn a_tier_that_writes_back_writes_pages_to_their_places_less_often_than_they_change() {
    for kind in TierPolicyKind::ALL {
        let mut world = World::of(kind, 200);
        load(&mut world, 9, 3000, 300);
        let changed: u64 = world.newest.values().sum();
        let back = world.written_back.len() as u64;
        assert!(back < changed, "{kind}: {back} of {changed}");
    }
}

#[test]
fn a_tier_goes_on_with_the_copies_that_another_had() {
    for kind in TierPolicyKind::ALL {
        for seed in 0..20 {
            let mut world = World::of(kind, 16 + seed as u32);
            load(&mut world, seed, 300, 60);
            let copies = world.copies();
            let next_slot = world.written.last().map_or(0, |slot| slot + 1);
            world.policy = world.config.build();
            world.policy.restore(&copies, next_slot % world.config.slot_count);
            assert_eq!(world.copies(), copies, "{kind}");
            world.check();
            load(&mut world, seed + 100, 300, 60);
        }
    }
}

#[test]
fn nothing_is_allocated_for_the_copies_of_a_full_tier() {
    // Growth would show in the capacity of the map that has them by page.
    let config = TierConfig { slot_count: 64, ..TierConfig::default() };
    let mut frames = frames::Frames::new(&config);
    let before = frames.capacity();
    for page in 0..20_000 {
        if frames.is_full() {
            frames.release(frames.find(page - 59).unwrap());
        }
        frames.admit(page, false);
    }
    assert!(frames.capacity() <= before, "{} and {before}", frames.capacity());
}

#[test]
fn settings_without_a_tier_are_refused() {
    let few = TierConfig { slot_count: SLOT_COUNT_MIN - 1, ..TierConfig::default() };
    assert!(few.check().unwrap_err().to_string().contains("slot_count is 7"));
    let none = TierConfig { group_page_count: 0, ..TierConfig::default() };
    assert!(none.check().unwrap_err().to_string().contains("group_page_count is 0"));
    for kind in TierPolicyKind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
    }
    assert!("fifo".parse::<TierPolicyKind>().is_err());
}

#[test]
fn reads_one_behind_the_other_are_sequential_in_several_streams_at_once() {
    let mut sequences = Sequences::default();
    assert_eq!(sequences.read(1), Access::Random);
    for step in 1..50 {
        let firsts = [0, 1000, 2000].map(|first| sequences.read(first + 1 + step));
        let expected = if step == 1 { [true, false, false] } else { [true; 3] };
        assert_eq!(firsts.map(|access| access == Access::Sequential), expected);
    }
    let mut rng = Rng::new(1);
    let mut is_sequential = |_| sequences.read(1 + rng.below(1 << 40)) == Access::Sequential;
    assert_eq!((0..1000).filter(|&step: &u32| is_sequential(step)).count(), 0);
}
