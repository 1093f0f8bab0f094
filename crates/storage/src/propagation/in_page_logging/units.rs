//! The units: what each is used for, where its next flash page is, which is free and least worn.
//!
//! ```text
//!   free ──► used ──► stale ──► free       stale: all that counts was moved, or none of it does
//!                       └─────► bad        the erase failed
//! ```
//!
//! 1. Flash pages of a unit in use are taken upwards, each once; a log page then by its sectors.
//! 2. The free unit that was erased least often is taken.
//! 3. A stale unit is erased before anything else is changed, so what it holds never counts again.

use super::Layout;
use crate::PageAddress;
use std::collections::{BTreeMap, BTreeSet};

/// A log sector, by its flash page's index in the unit and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SectorPlace {
    pub(super) index: u32,
    pub(super) sector: u32,
}

/// What a unit is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitState {
    Bad,
    /// Nothing in it counts; blank if it was erased since.
    Free {
        is_blank: bool,
    },
    Used,
    Stale,
}

/// A unit, and what of it is programmed.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) state: UnitState,
    pub(super) erase_count: u32,
    pub(super) sequence: u64,
    /// The sequence of the unit from which it was merged.
    pub(super) source: u64,
    /// Slots that a merge wrote, the first ones.
    pub(super) merged_count: u16,
    /// Everything from here on is blank.
    pub(super) next: u32,
    pub(super) log_page_count: u32,
    /// The log page with blank sectors, and the first of them.
    pub(super) open_log: Option<SectorPlace>,
    /// The pages that count, by their slots.
    pub(super) live: BTreeMap<u32, PageAddress>,
}

impl Unit {
    pub(super) const fn new(state: UnitState, erase_count: u32) -> Self {
        Self {
            state,
            erase_count,
            sequence: 0,
            source: 0,
            merged_count: 0,
            next: 0,
            log_page_count: 0,
            open_log: None,
            live: BTreeMap::new(),
        }
    }

    /// Log sectors that are left.
    pub(super) fn sectors_left(&self, layout: &Layout) -> usize {
        let open = self.open_log.map_or(0, |open| layout.sectors_per_page - open.sector);
        let pages = layout.log_pages_left(self.next, self.log_page_count);
        (open + pages * layout.sectors_per_page) as usize
    }

    /// Takes the next log sector, of those that are left.
    ///
    /// # Panics
    /// If none is.
    pub(super) fn take_sector(&mut self, layout: &Layout) -> SectorPlace {
        let taken = self.open_log.take().unwrap_or_else(|| {
            assert!(layout.log_pages_left(self.next, self.log_page_count) > 0, "there is one left");
            let index = layout.aligned(self.next);
            self.next = layout.aligned(index + 1);
            self.log_page_count += 1;
            SectorPlace { index, sector: 0 }
        });
        let sector = taken.sector + 1;
        self.open_log =
            (sector < layout.sectors_per_page).then_some(SectorPlace { sector, ..taken });
        taken
    }

    pub(super) fn has_slot(&self, layout: &Layout) -> bool {
        self.state == UnitState::Used && layout.has_slot_behind(self.next, self.log_page_count)
    }

    /// Takes the next slot.
    pub(super) const fn take_slot(&mut self, layout: &Layout) -> u32 {
        let slot = self.next;
        self.next += layout.slot_pages;
        slot
    }
}

/// All units of the chips.
#[derive(Clone, Debug, Default)]
pub(super) struct Units {
    units: Vec<Unit>,
    /// Those that are free, by how often they were erased.
    free: BTreeSet<(u32, u32)>,
    stale: Vec<u32>,
}

impl Units {
    /// Adds the unit that follows.
    pub(super) fn push(&mut self, unit: Unit) {
        let number = nandu_base::to_u32(self.units.len() as u64);
        match unit.state {
            UnitState::Free { .. } => _ = self.free.insert((unit.erase_count, number)),
            UnitState::Stale => self.stale.push(number),
            UnitState::Bad | UnitState::Used => {}
        }
        self.units.push(unit);
    }

    pub(super) fn get(&self, unit: u32) -> &Unit {
        &self.units[unit as usize]
    }

    pub(super) fn get_mut(&mut self, unit: u32) -> &mut Unit {
        &mut self.units[unit as usize]
    }

    pub(super) fn free_count(&self) -> usize {
        self.free.len()
    }

    /// Takes the free unit that is worn least, which is in no state then.
    pub(super) fn take_free(&mut self) -> Option<u32> {
        self.free.pop_first().map(|(_, unit)| unit)
    }

    /// Begins to use a unit that was taken and erased.
    pub(super) fn begin(&mut self, unit: u32, sequence: u64, (source, merged_count): (u64, u16)) {
        let erase_count = self.get(unit).erase_count;
        let new = Unit::new(UnitState::Used, erase_count);
        let begun = Unit { sequence, source, merged_count, ..new };
        *self.get_mut(unit) = begun;
    }

    /// Nothing in a unit counts any more.
    pub(super) fn retire(&mut self, unit: u32) {
        let erase_count = self.get(unit).erase_count;
        *self.get_mut(unit) = Unit::new(UnitState::Stale, erase_count);
        self.stale.push(unit);
    }

    /// The stale unit that is erased next.
    pub(super) fn stale(&self) -> Option<u32> {
        self.stale.last().copied()
    }

    /// A unit was erased; it is bad now, or free unless it was taken for a use.
    pub(super) fn note_erase(&mut self, unit: u32, succeeded: bool, is_taken: bool) {
        self.stale.retain(|&stale| stale != unit);
        let erase_count = self.get(unit).erase_count.saturating_add(1);
        let state = match succeeded {
            true => UnitState::Free { is_blank: true },
            false => UnitState::Bad,
        };
        *self.get_mut(unit) = Unit::new(state, erase_count);
        if succeeded && !is_taken {
            self.free.insert((erase_count, unit));
        }
    }

    /// Units in use, with their numbers.
    pub(super) fn used(&self) -> impl Iterator<Item = (u32, &Unit)> {
        (0..).zip(&self.units).filter(|(_, unit)| unit.state == UnitState::Used)
    }

    /// Has the next program of each unit destroy nothing that was programmed.
    pub(super) fn align(&mut self, layout: &Layout) {
        if layout.is_paired {
            self.units.iter_mut().for_each(|unit| unit.next = layout.aligned(unit.next));
        }
    }

    /// # Panics
    /// If an invariant does not hold.
    pub(super) fn audit(&self, layout: &Layout) {
        let free: BTreeSet<(u32, u32)> = (0..)
            .zip(&self.units)
            .filter(|(_, unit)| matches!(unit.state, UnitState::Free { .. }))
            .map(|(number, unit)| (unit.erase_count, number))
            .collect();
        assert_eq!(free, self.free, "what is free can be taken");
        for (number, unit) in (0..).zip(&self.units) {
            let is_stale = self.stale.contains(&number);
            assert_eq!(unit.state == UnitState::Stale, is_stale, "what is stale is erased");
            assert!(
                unit.state == UnitState::Used || unit.live.is_empty(),
                "only units in use count"
            );
            assert!(unit.next <= layout.flash_page_count, "a unit ends");
            assert!(unit.log_page_count <= layout.log_page_count_max, "a log region ends");
            assert!(unit.live.len() <= layout.slot_count() as usize, "a unit has so many pages");
            let is_behind = |&slot: &u32| slot + layout.slot_pages <= unit.next;
            assert!(unit.live.keys().all(is_behind), "invariant 1: slots were taken");
        }
    }
}
