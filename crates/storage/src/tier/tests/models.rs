//! What each kind keeps, in terms of pages alone, as its paper says it.

use super::super::{Access, TierConfig, TierPolicyKind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a kind must keep.
pub(super) trait Model {
    fn read(&mut self, page: u64, access: Access);
    fn arrive(&mut self, page: u64, is_changed: bool, access: Access);
    fn forget(&mut self, page: u64);
    fn pages(&self) -> BTreeSet<u64>;
}

pub(super) fn of(config: &TierConfig) -> Box<dyn Model> {
    let slots = config.slot_count as usize;
    // One slot of sixteen is free.
    let frames = slots - slots.div_ceil(16);
    let group = (config.group_page_count as usize).min(slots / 4).max(1);
    let is_back = !config.writes_through;
    match config.policy {
        TierPolicyKind::Lru => Box::new(Lru { frames, pages: VecDeque::new() }),
        TierPolicyKind::TwoQ => Box::new(TwoQ { frames, ..TwoQ::default() }),
        TierPolicyKind::Tac => Box::new(Tac { frames, ..Tac::default() }),
        TierPolicyKind::LazyCleaning => {
            Box::new(LazyCleaning { frames, group, is_back, ..LazyCleaning::default() })
        }
        TierPolicyKind::Face => Box::new(Face { slots, group, gap: 1, ..Face::default() }),
        TierPolicyKind::FaceGsc => {
            Box::new(Face { slots, group, gap: group, has_chance: true, ..Face::default() })
        }
    }
}

struct Lru {
    frames: usize,
    pages: VecDeque<u64>,
}

impl Model for Lru {
    fn read(&mut self, page: u64, _: Access) {
        if let Some(place) = self.pages.iter().position(|&other| other == page) {
            self.pages.remove(place);
            self.pages.push_back(page);
        }
    }

    fn arrive(&mut self, page: u64, is_changed: bool, access: Access) {
        if self.pages.contains(&page) {
            if is_changed {
                self.read(page, access);
            }
            return;
        }
        if self.pages.len() == self.frames {
            self.pages.pop_front();
        }
        self.pages.push_back(page);
    }

    fn forget(&mut self, page: u64) {
        self.pages.retain(|&other| other != page);
    }

    fn pages(&self) -> BTreeSet<u64> {
        self.pages.iter().copied().collect()
    }
}

#[derive(Default)]
struct TwoQ {
    frames: usize,
    recent: VecDeque<u64>,
    frequent: VecDeque<u64>,
    /// Those that came back have left an empty place.
    ghosts: VecDeque<Option<u64>>,
    used: BTreeSet<u64>,
}

impl TwoQ {
    fn evict(&mut self) {
        if self.recent.len() < (self.frames / 4).max(1) {
            for _ in 0..2 * self.frequent.len() {
                let page = self.frequent.pop_front().unwrap();
                if !self.used.remove(&page) {
                    return;
                }
                self.frequent.push_back(page);
            }
        }
        let page = self.recent.pop_front().unwrap();
        self.used.remove(&page);
        self.ghosts.push_back(Some(page));
        if self.ghosts.len() > (self.frames / 2).max(1) {
            self.ghosts.pop_front();
        }
    }
}

impl Model for TwoQ {
    fn read(&mut self, page: u64, _: Access) {
        if self.pages().contains(&page) {
            self.used.insert(page);
        }
    }

    fn arrive(&mut self, page: u64, is_changed: bool, access: Access) {
        if self.pages().contains(&page) {
            if is_changed {
                self.read(page, access);
            }
            return;
        }
        if self.recent.len() + self.frequent.len() == self.frames {
            self.evict();
        }
        match self.ghosts.iter_mut().find(|ghost| **ghost == Some(page)) {
            Some(ghost) => {
                *ghost = None;
                self.frequent.push_back(page);
            }
            None => self.recent.push_back(page),
        }
    }

    fn forget(&mut self, page: u64) {
        self.recent.retain(|&other| other != page);
        self.frequent.retain(|&other| other != page);
        self.used.remove(&page);
    }

    fn pages(&self) -> BTreeSet<u64> {
        self.recent.iter().chain(&self.frequent).copied().collect()
    }
}

#[derive(Default)]
struct Tac {
    frames: usize,
    pages: BTreeSet<u64>,
    temperatures: BTreeMap<u64, u64>,
    reads: usize,
}

impl Tac {
    fn temperature(&self, extent: u64) -> u64 {
        self.temperatures.get(&extent).copied().unwrap_or(0)
    }
}

impl Model for Tac {
    fn read(&mut self, page: u64, access: Access) {
        let gain = if access == Access::Random { 64 } else { 1 };
        *self.temperatures.entry(page / 32).or_default() += gain;
        self.reads += 1;
        if self.reads.is_multiple_of(8 * self.frames) {
            self.temperatures.values_mut().for_each(|temperature| *temperature /= 2);
        }
    }

    fn arrive(&mut self, page: u64, _: bool, _: Access) {
        if self.pages.contains(&page) {
            return;
        }
        if self.pages.len() == self.frames {
            let by_warmth = |&page: &u64| (self.temperature(page / 32), page);
            let coldest = self.pages.iter().copied().min_by_key(by_warmth).unwrap();
            if self.temperature(page / 32) <= self.temperature(coldest / 32) {
                return;
            }
            self.pages.remove(&coldest);
        }
        self.pages.insert(page);
    }

    fn forget(&mut self, page: u64) {
        self.pages.remove(&page);
    }

    fn pages(&self) -> BTreeSet<u64> {
        self.pages.clone()
    }
}

#[derive(Default)]
struct LazyCleaning {
    frames: usize,
    group: usize,
    is_back: bool,
    /// The last use but one, the last, whether it is dirty.
    pages: BTreeMap<u64, (u64, u64, bool)>,
    now: u64,
}

impl LazyCleaning {
    fn first(&self, is_dirty: bool) -> Option<u64> {
        let of_it = self.pages.iter().filter(|(_, held)| held.2 == is_dirty);
        of_it.min_by_key(|(_, held)| (held.0, held.1)).map(|(&page, _)| page)
    }

    fn is_dirty(&self, page: u64) -> bool {
        self.pages.get(&page).is_some_and(|held| held.2)
    }

    fn clean(&mut self) {
        let Some(first) = self.first(true) else { return };
        // Behind the page first, then in front of it.
        let mut cleaned = VecDeque::from([first]);
        while cleaned.len() < self.group && self.is_dirty(cleaned.back().unwrap() + 1) {
            cleaned.push_back(cleaned.back().unwrap() + 1);
        }
        while cleaned.len() < self.group
            && cleaned[0].checked_sub(1).is_some_and(|page| self.is_dirty(page))
        {
            cleaned.push_front(cleaned[0] - 1);
        }
        cleaned.iter().for_each(|page| self.pages.get_mut(page).unwrap().2 = false);
    }
}

impl Model for LazyCleaning {
    fn read(&mut self, page: u64, _: Access) {
        if let Some(held) = self.pages.get_mut(&page) {
            self.now += 1;
            (held.0, held.1) = (held.1, self.now);
        }
    }

    fn arrive(&mut self, page: u64, is_changed: bool, access: Access) {
        let is_dirty = is_changed && self.is_back;
        if self.pages.contains_key(&page) {
            if !is_changed {
                return;
            }
            self.read(page, access);
            self.pages.get_mut(&page).unwrap().2 = is_dirty;
        } else {
            let is_filled = self.pages.len() * 100 >= self.frames * 95;
            if access == Access::Sequential && is_filled {
                return;
            }
            if self.pages.len() == self.frames {
                if self.first(false).is_none() {
                    self.clean();
                }
                let victim = self.first(false).unwrap();
                self.pages.remove(&victim);
            }
            self.now += 1;
            self.pages.insert(page, (0, self.now, is_dirty));
        }
        while self.pages.values().filter(|held| held.2).count() * 100 > self.frames * 50 {
            self.clean();
        }
    }

    fn forget(&mut self, page: u64) {
        self.pages.remove(&page);
    }

    fn pages(&self) -> BTreeSet<u64> {
        self.pages.keys().copied().collect()
    }
}

#[derive(Default)]
struct Face {
    slots: usize,
    group: usize,
    /// Slots that stay free.
    gap: usize,
    has_chance: bool,
    /// Versions; those that do not count any more have no page.
    queue: VecDeque<(Option<u64>, bool)>,
}

impl Model for Face {
    fn read(&mut self, page: u64, _: Access) {
        let version = self.queue.iter_mut().find(|version| version.0 == Some(page));
        version.into_iter().for_each(|version| version.1 = true);
    }

    fn arrive(&mut self, page: u64, is_changed: bool, _: Access) {
        if !is_changed && self.pages().contains(&page) {
            return;
        }
        self.forget(page);
        if self.slots - self.queue.len() <= self.gap {
            let leaving: Vec<_> = self.queue.drain(..self.group).collect();
            let again =
                leaving.into_iter().filter(|&(page, is_wanted)| page.is_some() && is_wanted);
            let again_max = if self.has_chance { self.group - 1 } else { 0 };
            let again: Vec<_> = again.take(again_max).map(|(page, _)| (page, false)).collect();
            self.queue.extend(again);
        }
        self.queue.push_back((Some(page), false));
    }

    fn forget(&mut self, page: u64) {
        let version = self.queue.iter_mut().find(|version| version.0 == Some(page));
        version.into_iter().for_each(|version| version.0 = None);
    }

    fn pages(&self) -> BTreeSet<u64> {
        self.queue.iter().filter_map(|version| version.0).collect()
    }
}
