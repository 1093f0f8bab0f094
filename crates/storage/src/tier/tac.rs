//! Temperature-aware caching (Canim, Mihaila, Bhattacharjee, Ross and Lang, VLDB 2010): extents of pages
//! have a temperature, which rises by what a read would have been quicker had the page been in the tier.
//!
//! ```text
//!   read of a page ──► its extent is warmer: much if the read was random, little if sequential
//!   a page leaves ───► the tier, if it has a free slot, or the page's extent is warmer than the coldest
//!                      one that has copies: a page of that one makes room
//! ```
//!
//! In the paper a page comes into the tier when it is read from the disk; here, as with all kinds, when
//! it leaves the pool.
//!
//! 1. No copy is newer than the page's place: what is changed goes there first.
//! 2. An extent is in the heap if, and only if, it has copies.
//! 3. Temperatures fall by half at each ageing, of all extents alike.

use super::frames::Frames;
use super::heap::Heap;
use super::{Access, Arrival, Step, TierConfig, TierCopies, TierCopy, TierPolicy};
use nandu_base::{FixedHashMap, to_u32};

/// Pages of an extent, as in the paper.
const EXTENT_PAGES: u64 = 32;
/// What a read gains by a copy, of any unit: chosen, about what an arm needs to find a page, and to go on.
const RANDOM_GAIN: u64 = 64;
const SEQUENTIAL_GAIN: u64 = 1;
/// Temperatures are halved after so many reads for each frame: chosen.
const AGEING_READS_PER_FRAME: u64 = 8;

/// Copies of pages in warm extents.
#[derive(Debug)]
pub struct TemperatureAware {
    frames: Frames,
    /// By the number of the extent: which of `extents`.
    by_number: FixedHashMap<u64, u32>,
    extents: Vec<Extent>,
    /// Those that have copies, by temperature.
    cached: Heap,
    read_count: u64,
}

#[derive(Clone, Copy, Debug)]
struct Extent {
    number: u64,
    temperature: u64,
    /// A bit for each page that has a copy.
    copies: u32,
}

impl TemperatureAware {
    pub(super) fn new(config: &TierConfig) -> Self {
        let frames = Frames::new(config);
        Self {
            cached: Heap::new(frames.frame_count()),
            frames,
            by_number: FixedHashMap::default(),
            extents: Vec::new(),
            read_count: 0,
        }
    }

    /// The extent of a page.
    fn extent_of(&mut self, page: u64) -> u32 {
        let number = page / EXTENT_PAGES;
        let next = to_u32(self.extents.len() as u64);
        let extent = *self.by_number.entry(number).or_insert(next);
        if extent == next {
            self.extents.push(Extent { number, temperature: 0, copies: 0 });
        }
        extent
    }

    /// Has the heap know what became of an extent.
    fn place(&mut self, extent: u32) {
        let Extent { number, temperature, copies } = self.extents[extent as usize];
        match copies {
            0 => self.cached.remove(extent),
            _ => self.cached.set(extent, (temperature, number)),
        }
    }

    fn release(&mut self, page: u64) {
        let Some(frame) = self.frames.find(page) else { return };
        self.frames.release(frame);
        let extent = self.extent_of(page);
        self.extents[extent as usize].copies &= !bit_of(page);
        self.place(extent);
    }

    /// Whether there is room for a page of an extent, or was made.
    fn has_room_for(&mut self, extent: u32) -> bool {
        if !self.frames.is_full() {
            return true;
        }
        let coldest = self.cached.first().expect("a full tier has copies");
        let Extent { number, temperature, copies } = self.extents[coldest as usize];
        if self.extents[extent as usize].temperature <= temperature {
            return false;
        }
        self.release(number * EXTENT_PAGES + u64::from(copies.trailing_zeros()));
        true
    }
}

const fn bit_of(page: u64) -> u32 {
    1 << (page % EXTENT_PAGES)
}

impl TierPolicy for TemperatureAware {
    fn read(&mut self, page: u64, access: Access) -> Option<u32> {
        let extent = self.extent_of(page);
        self.extents[extent as usize].temperature += match access {
            Access::Random => RANDOM_GAIN,
            Access::Sequential => SEQUENTIAL_GAIN,
        };
        self.place(extent);
        self.read_count += 1;
        let ageing = AGEING_READS_PER_FRAME * u64::from(self.frames.frame_count());
        if self.read_count.is_multiple_of(ageing) {
            self.extents.iter_mut().for_each(|extent| extent.temperature /= 2);
            self.cached.halve();
        }
        self.frames.find(page).map(|frame| self.frames.get(frame).slot)
    }

    fn copies(&self) -> &dyn TierCopies {
        &self.frames
    }

    fn arrive(&mut self, arrival: Arrival, steps: &mut Vec<Step>) {
        let Arrival { page, is_changed, .. } = arrival;
        if is_changed {
            steps.push(Step::Write);
        }
        if let Some(frame) = self.frames.find(page) {
            if is_changed {
                let slot = self.frames.renew(frame, false);
                steps.push(Step::Fill { slot });
            }
            return;
        }
        let extent = self.extent_of(page);
        if self.has_room_for(extent) {
            let (_, slot) = self.frames.admit(page, false);
            self.extents[extent as usize].copies |= bit_of(page);
            self.place(extent);
            steps.push(Step::Fill { slot });
        }
    }

    fn forget(&mut self, page: u64) {
        self.release(page);
    }

    fn restore(&mut self, copies: &[TierCopy], _next_slot: u32) {
        for (_, copy) in self.frames.restore(copies) {
            let extent = self.extent_of(copy.page);
            self.extents[extent as usize].copies |= bit_of(copy.page);
            self.place(extent);
        }
    }

    fn audit(&self) {
        self.frames.audit();
        self.cached.audit();
        assert_eq!(self.frames.dirty_count(), 0, "copies are no newer than places");
        let mut count = 0;
        for (index, extent) in (0..).zip(&self.extents) {
            let is_in = self.cached.contains(index);
            assert_eq!(is_in, extent.copies != 0, "extents with copies are in the heap");
            let key = (extent.temperature, extent.number);
            assert!(!is_in || self.cached.key(index) == key, "by their temperature");
            count += extent.copies.count_ones();
        }
        assert_eq!(count, self.frames.count(), "each copy is of an extent");
    }
}
