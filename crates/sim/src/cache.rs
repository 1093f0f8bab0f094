//! The controller's cache: units between host and layer, written back when they have become the oldest
//! (least recently used), as textbooks have it.
//!
//! ```text
//!   read   held: no command            not held: read whole and kept clean
//!   write  held dirty: merged          else: kept dirty; programmed when evicted or flushed
//!
//!   newest ⇄ … ⇄ oldest ─▶ evicted: a clean one is forgotten, a dirty one goes to the layer
//! ```
//!
//! 1. Each unit is held once, and at most as many as there is room for.
//! 2. The dirty ones are in the list of dirty units, in the order in which they became so.
//! 3. Every write was merged, evicted, flushed or trimmed, or is held dirty.
//!
//! Lists run through flat arrays with a sentinel each, so no step allocates or searches. The hash table
//! has twice the room that it needs: then it is tidied in place, and never grows.

use nandu_base::{FixedHashMap, Lpn, to_u32};
use nandu_nand::{Content, Ticket};
use serde::{Deserialize, Serialize};

/// What a controller cache did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheUse {
    /// Units that it has room for.
    pub unit_count: u64,
    /// Reads of units that it held, those for writes of parts included.
    pub hits: u64,
    /// Reads of units that it did not hold.
    pub misses: u64,
    /// Writes to units that it held dirty, which cost no program.
    pub merged_writes: u64,
    /// Dirty units that made room for others, each written to the layer.
    pub evicted_writes: u64,
    /// Dirty units that a flush wrote to the layer.
    pub flushed_writes: u64,
    /// Dirty units that were trimmed, and written nowhere.
    pub trimmed_writes: u64,
    /// Dirty units that it holds at the end.
    pub dirty_units: u64,
}

impl CacheUse {
    /// Share of the reads that found their unit; 0 where nothing was read.
    #[must_use]
    pub fn hit_share(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }

    /// Units that were written to the layer.
    #[must_use]
    pub const fn layer_writes(&self) -> u64 {
        self.evicted_writes + self.flushed_writes
    }

    /// What happened since `earlier`; room and dirty units are those of now.
    pub(crate) const fn since(&self, earlier: &Self) -> Self {
        Self {
            unit_count: self.unit_count,
            hits: self.hits - earlier.hits,
            misses: self.misses - earlier.misses,
            merged_writes: self.merged_writes - earlier.merged_writes,
            evicted_writes: self.evicted_writes - earlier.evicted_writes,
            flushed_writes: self.flushed_writes - earlier.flushed_writes,
            trimmed_writes: self.trimmed_writes - earlier.trimmed_writes,
            dirty_units: self.dirty_units,
        }
    }
}

/// A unit that must be written to the layer.
#[derive(Clone, Debug)]
pub(crate) struct DirtyUnit {
    pub(crate) lpn: Lpn,
    pub(crate) content: Content,
    pub(crate) stream: u8,
    /// When its content is in the cache.
    pub(crate) ready: Ticket,
}

#[derive(Clone, Debug)]
struct Slot {
    unit: DirtyUnit,
    is_dirty: bool,
}

/// Units, the least recently used of which makes room.
#[derive(Clone, Debug)]
pub(crate) struct UnitCache {
    slots: Vec<Slot>,
    /// Slot of each unit that is held.
    places: FixedHashMap<u64, u32>,
    vacant: Vec<u32>,
    /// The slots in the order in which they were used.
    used: List,
    dirty: List,
    counts: CacheUse,
    write_count: u64,
}

impl UnitCache {
    /// An empty cache for `unit_count` units, 1 or more.
    pub(crate) fn new(unit_count: u32) -> Self {
        assert!(unit_count > 0, "a cache has room for at least one unit");
        let nothing = DirtyUnit { lpn: Lpn(0), content: None, stream: 0, ready: Ticket::READY };
        let room = unit_count as usize;
        let mut places = FixedHashMap::default();
        places.reserve(2 * room + 1);
        Self {
            slots: vec![Slot { unit: nothing, is_dirty: false }; room],
            places,
            vacant: (0..unit_count).rev().collect(),
            used: List::new(unit_count),
            dirty: List::new(unit_count),
            counts: CacheUse { unit_count: unit_count.into(), ..CacheUse::default() },
            write_count: 0,
        }
    }

    /// What it did so far.
    pub(crate) const fn counts(&self) -> CacheUse {
        self.counts
    }

    /// A unit that is held, and when its content is there. None is a miss.
    #[inline]
    pub(crate) fn read(&mut self, lpn: Lpn) -> Option<(Content, Ticket)> {
        let Some(&place) = self.places.get(&lpn.0) else {
            self.counts.misses += 1;
            return None;
        };
        self.counts.hits += 1;
        self.used.renew(place);
        let unit = &self.slots[place as usize].unit;
        Some((unit.content.clone(), unit.ready))
    }

    /// Makes room for a unit; answers the oldest one where it made way and is dirty.
    #[inline]
    pub(crate) fn evict(&mut self) -> Option<DirtyUnit> {
        if !self.vacant.is_empty() {
            return None;
        }
        let place = self.used.oldest().expect("a full cache holds units");
        let is_dirty = self.slots[place as usize].is_dirty;
        self.counts.evicted_writes += u64::from(is_dirty);
        let unit = self.forget(place);
        is_dirty.then_some(unit)
    }

    /// Keeps a unit that was read, for which [`Self::evict`] has made room.
    pub(crate) fn keep(&mut self, lpn: Lpn, content: Content, ready: Ticket) {
        self.hold(DirtyUnit { lpn, content, stream: 0, ready });
    }

    /// Takes a unit that was written; answers the one that makes way for it if that is dirty.
    #[inline]
    pub(crate) fn write(&mut self, unit: DirtyUnit) -> Option<DirtyUnit> {
        self.write_count += 1;
        if let Some(&place) = self.places.get(&unit.lpn.0) {
            self.slots[place as usize].unit = unit;
            self.used.renew(place);
            match self.slots[place as usize].is_dirty {
                true => self.counts.merged_writes += 1,
                false => self.soil(place),
            }
            return None;
        }
        let evicted = self.evict();
        let place = self.hold(unit);
        self.soil(place);
        evicted
    }

    /// The unit that has been dirty for longest, which a flush writes; it is clean then.
    pub(crate) fn clean_next(&mut self) -> Option<DirtyUnit> {
        let place = self.dirty.oldest()?;
        self.clean(place);
        self.counts.flushed_writes += 1;
        Some(self.slots[place as usize].unit.clone())
    }

    /// Forgets `count` units from `first` on.
    pub(crate) fn trim(&mut self, first: u64, count: u64) {
        if count <= self.places.len() as u64 {
            for lpn in first..first + count {
                if let Some(&place) = self.places.get(&lpn) {
                    self.drop_trimmed(place);
                }
            }
            return;
        }
        for place in 0..to_u32(self.slots.len() as u64) {
            let lpn = self.slots[place as usize].unit.lpn.0;
            let is_held = self.places.get(&lpn) == Some(&place);
            if is_held && (first..first + count).contains(&lpn) {
                self.drop_trimmed(place);
            }
        }
    }

    fn drop_trimmed(&mut self, place: u32) {
        self.counts.trimmed_writes += u64::from(self.slots[place as usize].is_dirty);
        self.forget(place);
    }

    /// Puts a unit into a vacant slot, as the newest.
    fn hold(&mut self, unit: DirtyUnit) -> u32 {
        let place = self.vacant.pop().expect("room was made");
        self.places.insert(unit.lpn.0, place);
        self.slots[place as usize].unit = unit;
        self.used.push(place);
        place
    }

    fn forget(&mut self, place: u32) -> DirtyUnit {
        if self.slots[place as usize].is_dirty {
            self.clean(place);
        }
        self.used.unlink(place);
        self.vacant.push(place);
        let unit = &mut self.slots[place as usize].unit;
        self.places.remove(&unit.lpn.0);
        DirtyUnit { content: unit.content.take(), ..*unit }
    }

    fn soil(&mut self, place: u32) {
        self.slots[place as usize].is_dirty = true;
        self.dirty.push(place);
        self.counts.dirty_units += 1;
    }

    fn clean(&mut self, place: u32) {
        self.slots[place as usize].is_dirty = false;
        self.dirty.unlink(place);
        self.counts.dirty_units -= 1;
    }

    /// Asserts the numbered invariants of this file.
    ///
    /// # Panics
    /// If one is broken.
    pub(crate) fn audit(&self) {
        let held: Vec<u32> = self.used.iter().collect();
        assert_eq!(held.len(), self.places.len(), "invariant 1: each unit is held once");
        assert_eq!(held.len() + self.vacant.len(), self.slots.len(), "invariant 1: room");
        for &place in &held {
            let lpn = self.slots[place as usize].unit.lpn.0;
            assert_eq!(self.places.get(&lpn), Some(&place), "invariant 1: found where it is");
        }
        let dirty = held.iter().filter(|&&place| self.slots[place as usize].is_dirty).count();
        assert_eq!(dirty, self.dirty.iter().count(), "invariant 2: no more in the list");
        for place in self.dirty.iter() {
            assert!(self.slots[place as usize].is_dirty, "invariant 2: all in the list");
        }
        let CacheUse { merged_writes, trimmed_writes, dirty_units, .. } = self.counts;
        assert_eq!(dirty_units, dirty as u64, "invariant 2: counted");
        let accounted = merged_writes + self.counts.layer_writes() + trimmed_writes + dirty_units;
        assert_eq!(accounted, self.write_count, "invariant 3");
    }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    newer: u32,
    older: u32,
}

/// Slots in an order; the last link is the sentinel between the newest and the oldest.
#[derive(Clone, Debug)]
struct List {
    links: Vec<Link>,
    sentinel: u32,
}

impl List {
    fn new(slot_count: u32) -> Self {
        let sentinel = Link { newer: slot_count, older: slot_count };
        Self { links: vec![sentinel; slot_count as usize + 1], sentinel: slot_count }
    }

    fn oldest(&self) -> Option<u32> {
        let oldest = self.links[self.sentinel as usize].newer;
        (oldest != self.sentinel).then_some(oldest)
    }

    fn push(&mut self, place: u32) {
        let newest = std::mem::replace(&mut self.links[self.sentinel as usize].older, place);
        self.links[newest as usize].newer = place;
        self.links[place as usize] = Link { newer: self.sentinel, older: newest };
    }

    fn unlink(&mut self, place: u32) {
        let Link { newer, older } = self.links[place as usize];
        self.links[newer as usize].older = older;
        self.links[older as usize].newer = newer;
    }

    /// Makes it the newest.
    #[inline]
    fn renew(&mut self, place: u32) {
        if self.links[place as usize].newer != self.sentinel {
            self.unlink(place);
            self.push(place);
        }
    }

    /// From the oldest on.
    fn iter(&self) -> impl Iterator<Item = u32> {
        let next = |&place: &u32| {
            let newer = self.links[place as usize].newer;
            (newer != self.sentinel).then_some(newer)
        };
        std::iter::successors(self.oldest(), next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Rng;
    use std::collections::VecDeque;

    fn unit(lpn: u64, stream: u8) -> DirtyUnit {
        DirtyUnit { lpn: Lpn(lpn), content: None, stream, ready: Ticket::READY }
    }

    /// A list that is searched: newest first, with the stream of the last write of dirty units.
    #[derive(Default)]
    struct Naive {
        held: VecDeque<(u64, Option<u8>)>,
        /// In the order in which they became dirty.
        dirty: VecDeque<u64>,
    }

    impl Naive {
        /// Takes a unit out; answers whether it was held, and its stream if it was dirty.
        fn take(&mut self, lpn: u64) -> Option<Option<u8>> {
            let index = self.held.iter().position(|&(held, _)| held == lpn)?;
            self.held.remove(index).map(|(_, stream)| stream)
        }

        fn put(&mut self, lpn: u64, stream: Option<u8>, room: usize) -> Option<(u64, u8)> {
            let full = self.held.len() == room;
            let (old, was) = if full { self.held.pop_back().unwrap() } else { (0, None) };
            self.held.push_front((lpn, stream));
            self.dirty.retain(|&dirty| was.is_none() || dirty != old);
            was.map(|was| (old, was))
        }

        fn write(&mut self, lpn: u64, stream: u8, room: usize) -> Option<(u64, u8)> {
            let was = self.take(lpn);
            let evicted = self.put(lpn, Some(stream), room);
            if was.flatten().is_none() {
                self.dirty.push_back(lpn);
            }
            evicted
        }
    }

    #[test]
    fn the_cache_does_what_a_list_that_is_searched_does() {
        for room in [1, 2, 7, 40] {
            let mut cache = UnitCache::new(room);
            let mut naive = Naive::default();
            let room = room as usize;
            let table_room = cache.places.capacity();
            let mut rng = Rng::new(room as u64);
            for step in 0..20_000_u64 {
                let lpn = rng.below(60);
                let shown = |unit: Option<DirtyUnit>| unit.map(|unit| (unit.lpn.0, unit.stream));
                match rng.below(1000) {
                    0..450 => {
                        let stream = u8::try_from(step % 256).unwrap();
                        let evicted = shown(cache.write(unit(lpn, stream)));
                        assert_eq!(evicted, naive.write(lpn, stream, room));
                    }
                    450..980 => {
                        let was = naive.take(lpn);
                        assert_eq!(cache.read(Lpn(lpn)).is_some(), was.is_some());
                        let mut evicted = None;
                        if was.is_none() {
                            evicted = shown(cache.evict());
                            cache.keep(Lpn(lpn), None, Ticket::READY);
                        }
                        assert_eq!(evicted, naive.put(lpn, was.flatten(), room));
                    }
                    980..995 => {
                        let count = 1 + rng.below(50);
                        cache.trim(lpn, count);
                        let trimmed = lpn..lpn + count;
                        naive.held.retain(|(held, _)| !trimmed.contains(held));
                        naive.dirty.retain(|dirty| !trimmed.contains(dirty));
                    }
                    _ => {
                        while let Some((lpn, stream)) = shown(cache.clean_next()) {
                            assert_eq!(naive.dirty.pop_front(), Some(lpn));
                            let held = naive.held.iter_mut().find(|held| held.0 == lpn).unwrap();
                            assert_eq!(held.1.take(), Some(stream));
                        }
                        assert!(naive.dirty.is_empty());
                    }
                }
                cache.audit();
            }
            assert_eq!(cache.places.capacity(), table_room, "nothing was allocated");
        }
    }
}
