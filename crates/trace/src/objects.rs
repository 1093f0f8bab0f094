//! Places for the objects of a trace that has ids in place of addresses: each its own, by first
//! touch.
//!
//! ```text
//!   touched   a 5000 │ b 300 │ a 5000 │ b 6000 │ c 100        bytes
//!   space     a a │ b │ b b │ c                               units of 4 KiB; b grew and moved
//! ```
//!
//! An id has no neighbours: it may be a hash. What is touched first one after the other lies side by
//! side, as a cache or a store would have written it. Where an object that grew has been is not
//! used again.
//!
//! 1. Places do not overlap, and lie before the end of the space.
//! 2. Memory is bounded by [`OBJECT_COUNT_MAX`] objects, at most 40 bytes each.

use nandu_base::FixedHashMap;

/// What places are multiples of, so that objects share no page.
const UNIT_BYTES: u64 = 4096;
/// Most objects of a trace: 2.5 GB of memory.
const OBJECT_COUNT_MAX: usize = 1 << 26;
/// Bits of a place that count its units: an object has less than 8 GiB.
const ROOM_BITS: u32 = 21;
const ROOM_UNITS_MAX: u64 = (1 << ROOM_BITS) - 1;
/// Units of the space at most.
const END_UNITS_MAX: u64 = 1 << (u64::BITS - ROOM_BITS);

/// First unit and units of an object, in one word since there are many.
#[derive(Clone, Copy, Debug)]
struct Place(u64);

impl Place {
    const fn new(first: u64, room: u64) -> Self {
        Self(first << ROOM_BITS | room)
    }

    const fn first(self) -> u64 {
        self.0 >> ROOM_BITS
    }

    const fn room(self) -> u64 {
        self.0 & ROOM_UNITS_MAX
    }
}

/// Where an object is, or is to be once that is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    place: Place,
    is_new: bool,
}

impl Found {
    /// Where the object begins, in bytes of the device.
    pub(crate) const fn offset_bytes(self) -> u64 {
        self.place.first() * UNIT_BYTES
    }
}

/// The objects of a trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    places: FixedHashMap<u64, Place>,
    end_units: u64,
}

impl Objects {
    /// A place of at least `length_bytes` for the object `id`.
    ///
    /// # Errors
    /// If there are too many objects, or they are too long.
    pub(crate) fn find(&self, id: u64, length_bytes: u64) -> Result<Found, String> {
        let units = length_bytes.div_ceil(UNIT_BYTES);
        let known = self.places.get(&id);
        if let Some(&place) = known.filter(|place| place.room() >= units) {
            return Ok(Found { place, is_new: false });
        }
        if known.is_none() && self.places.len() >= OBJECT_COUNT_MAX {
            return Err(format!(
                "object {id} is one too many, of {OBJECT_COUNT_MAX}; choose the address map modulo, \
                 which keeps none"
            ));
        }
        if units > ROOM_UNITS_MAX {
            return Err(format!("object {id} has {length_bytes} bytes, must be less than 8 GiB"));
        }
        if self.end_units + units > END_UNITS_MAX {
            return Err("the objects take more than 2^55 bytes".into());
        }
        Ok(Found { place: Place::new(self.end_units, units), is_new: true })
    }

    /// Keeps what was found for `id`, with no other object kept in between.
    pub(crate) fn keep(&mut self, id: u64, found: Found) {
        if found.is_new {
            assert_eq!(found.place.first(), self.end_units, "nothing was kept in between");
            self.end_units += found.place.room();
            self.places.insert(id, found.place);
        }
    }

    /// Asserts invariants 1 and 2.
    pub(crate) fn audit(&self) {
        let mut places: Vec<Place> = self.places.values().copied().collect();
        places.sort_unstable_by_key(|place| place.first());
        let mut end = 0;
        for place in &places {
            assert!(place.first() >= end, "two objects overlap");
            end = place.first() + place.room();
        }
        assert!(end <= self.end_units, "objects lie in the space");
        assert!(places.len() <= OBJECT_COUNT_MAX, "objects are counted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn touch(objects: &mut Objects, id: u64, length: u64) -> u64 {
        let found = objects.find(id, length).unwrap();
        objects.keep(id, found);
        objects.audit();
        found.offset_bytes()
    }

    #[test]
    fn an_object_keeps_its_place_until_it_outgrows_it() {
        let mut objects = Objects::default();
        assert_eq!(touch(&mut objects, u64::MAX, 5000), 0);
        assert_eq!(touch(&mut objects, 7, 300), 8192);
        assert_eq!(touch(&mut objects, u64::MAX, 8192), 0);
        assert_eq!(touch(&mut objects, 7, 4096), 8192);
        assert_eq!(touch(&mut objects, 7, 4097), 12_288);
        assert_eq!(touch(&mut objects, 7, 1), 12_288);
        assert_eq!(touch(&mut objects, 0, 1), 20_480);
    }

    #[test]
    fn what_is_found_and_not_kept_changes_nothing() {
        let mut objects = Objects::default();
        assert_eq!(objects.find(1, 4096).unwrap().offset_bytes(), 0);
        assert_eq!(touch(&mut objects, 2, 4096), 0);
        assert_eq!(touch(&mut objects, 1, 4096), 4096);
    }

    #[test]
    fn what_cannot_be_placed_is_refused() {
        let mut objects = Objects::default();
        assert_eq!(touch(&mut objects, 1, u64::from(u32::MAX)), 0);
        let error = objects.find(2, 8 << 30).unwrap_err();
        assert_eq!(error, "object 2 has 8589934592 bytes, must be less than 8 GiB");
        objects.end_units = END_UNITS_MAX - 1;
        assert!(objects.find(2, 4096).is_ok());
        assert!(objects.find(2, 4097).unwrap_err().contains("2^55"));
    }

    proptest! {
        #[test]
        fn objects_never_share_a_byte(
            touches in proptest::collection::vec((0_u64..20, 1_u64..40_000), 1..100),
        ) {
            let mut objects = Objects::default();
            let mut held = std::collections::BTreeMap::new();
            for (id, length) in touches {
                let offset = touch(&mut objects, id, length);
                prop_assert_eq!(offset % UNIT_BYTES, 0);
                let (at, longest) = held.get(&id).copied().unwrap_or((offset, 0));
                prop_assert!(at == offset || length > longest, "only one that grew moves");
                held.insert(id, (offset, length.max(if at == offset { longest } else { 0 })));
                let mut places: Vec<(u64, u64)> = held.values().copied().collect();
                places.sort_unstable();
                prop_assert!(places.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0));
            }
        }
    }
}
