//! How addresses of a trace become addresses of the drive that replays it. What is done is stated,
//! never guessed: a trace of a larger drive is refused unless the user chooses.
//!
//! ```text
//!   trace   │  A   │      B      │ C │        untouched in between is dropped by compact
//!   strict  │  A   │      B      │ C │        as it stands; past the end is an error
//!   modulo  │ A,C │  B  │                    remainder by the capacity; may overlap
//!   compact │ A │ B │ C │                    extents in order of first touch
//! ```
//!
//! Objects, which have ids and no addresses, are placed one behind the other by strict and compact;
//! by modulo an id is the number of a sector, which keeps nothing and is right where it was one.
//!
//! 1. Pieces of a request add up to its length and end at or before the capacity.
//! 2. Compact gives every touched extent of every device a place of its own, for ever.

use crate::field::shown;
use crate::objects::Objects;
use nandu_base::FixedHashMap;
use serde::{Deserialize, Serialize};

/// What a request is cut to where it must be cut, and what a capacity is rounded down to for
/// [`AddressMap::Modulo`], so that aligned requests stay aligned.
const ALIGN_BYTES: u64 = 4096;
/// What the ids of objects count for [`AddressMap::Modulo`].
const SECTOR_BYTES: u64 = 512;

/// How addresses of a trace become addresses of the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
#[non_exhaustive]
pub enum AddressMap {
    /// As they stand; a request past the end is bad. Devices of one trace lie upon each other.
    #[default]
    Strict,
    /// The remainder by the capacity, which is rounded down to 4 KiB. Devices of one trace lie upon
    /// each other.
    Modulo,
    /// Extents in the order in which they are first touched, each device with its own. Memory grows
    /// with the extents touched, about 40 bytes for each.
    Compact {
        /// Size of an extent, a power of two of at least 4096: neighbours inside it stay neighbours.
        extent_bytes: u64,
    },
}

impl AddressMap {
    /// Compact with extents of 1 MiB.
    #[must_use]
    pub const fn compact() -> Self {
        Self::Compact { extent_bytes: 1 << 20 }
    }
}

/// An [`AddressMap`] at work.
#[derive(Clone, Debug)]
pub(crate) struct AddressMapper {
    map: AddressMap,
    capacity_bytes: u64,
    extents: FixedHashMap<(u32, u64), u64>,
    extent_count: u64,
    objects: Objects,
}

impl AddressMapper {
    /// # Errors
    /// If the capacity is missing or too small for `map`, or its extent makes no sense.
    pub(crate) fn new(map: AddressMap, capacity_bytes: Option<u64>) -> Result<Self, String> {
        let mut capacity = capacity_bytes.unwrap_or(u64::MAX);
        let mut extent_count = 0;
        match map {
            AddressMap::Strict => {}
            AddressMap::Modulo => {
                if capacity_bytes.is_none() {
                    return Err("address map modulo needs the capacity of the drive".into());
                }
                capacity -= capacity % ALIGN_BYTES;
                if capacity == 0 {
                    return Err("address map modulo needs a drive of at least 4096 bytes".into());
                }
            }
            AddressMap::Compact { extent_bytes } => {
                if !extent_bytes.is_power_of_two() || extent_bytes < ALIGN_BYTES {
                    return Err(format!(
                        "extent_bytes is {extent_bytes}, must be a power of two of at least 4096"
                    ));
                }
                extent_count = capacity / extent_bytes;
                if extent_count == 0 {
                    return Err(format!("the drive is smaller than one extent of {extent_bytes}"));
                }
            }
        }
        Ok(Self {
            map,
            capacity_bytes: capacity,
            extents: FixedHashMap::default(),
            extent_count,
            objects: Objects::default(),
        })
    }

    /// Asserts invariant 2: the places of the extents are those from zero on, each once; and those of
    /// the objects.
    pub(crate) fn audit(&self) {
        self.objects.audit();
        let mut places: Vec<u64> = self.extents.values().copied().collect();
        places.sort_unstable();
        assert!(places.iter().copied().eq(0..self.extents.len() as u64), "a place is taken twice");
        assert!(places.len() as u64 <= self.extent_count, "more extents than the drive has");
    }

    /// Gives `place` the pieces of a request in order, as offset and length on the drive. Nothing is
    /// placed where it fails.
    ///
    /// # Errors
    /// If the request passes the end of the drive, or the drive is full.
    #[inline]
    pub(crate) fn map(
        &mut self,
        device: u32,
        offset_bytes: u64,
        length_bytes: u64,
        mut place: impl FnMut(u64, u64),
    ) -> Result<(), String> {
        let end = offset_bytes.checked_add(length_bytes).ok_or_else(|| {
            format!("offset {offset_bytes} and length {length_bytes} pass 2^64 bytes")
        })?;
        match self.map {
            AddressMap::Strict if end <= self.capacity_bytes => {
                place(offset_bytes, length_bytes);
                Ok(())
            }
            AddressMap::Strict => Err(format!(
                "the request ends at byte {end}, past the drive's {}; choose the address map \
                 modulo or compact, or a larger drive",
                self.capacity_bytes
            )),
            AddressMap::Modulo if length_bytes > self.capacity_bytes => Err(format!(
                "the request's {length_bytes} bytes are more than the drive's {}",
                self.capacity_bytes
            )),
            AddressMap::Modulo => {
                let first = offset_bytes % self.capacity_bytes;
                let before_end = length_bytes.min(self.capacity_bytes - first);
                place(first, before_end);
                if before_end < length_bytes {
                    place(0, length_bytes - before_end);
                }
                Ok(())
            }
            AddressMap::Compact { extent_bytes } => {
                self.map_extents(extent_bytes, device, offset_bytes..end, place)
            }
        }
    }

    /// Does as [`Self::map`] for `length_bytes` of an object, from its first byte on.
    ///
    /// # Errors
    /// Likewise.
    #[inline]
    pub(crate) fn map_object(
        &mut self,
        id: u64,
        length_bytes: u64,
        mut place: impl FnMut(u64, u64),
    ) -> Result<(), String> {
        if self.map == AddressMap::Modulo {
            let offset = u128::from(id) * u128::from(SECTOR_BYTES);
            let offset = offset % u128::from(self.capacity_bytes);
            let offset = u64::try_from(offset).expect("less than the capacity");
            return self.map(0, offset, length_bytes, place);
        }
        let found = self.objects.find(id, length_bytes)?;
        let offset = found.offset_bytes();
        if offset.checked_add(length_bytes).is_none_or(|end| end > self.capacity_bytes) {
            return Err(format!(
                "the objects take more than the drive's {} bytes; choose the address map modulo, or \
                 a larger drive",
                self.capacity_bytes
            ));
        }
        self.objects.keep(id, found);
        place(offset, length_bytes);
        Ok(())
    }

    fn map_extents(
        &mut self,
        extent_bytes: u64,
        device: u32,
        range: std::ops::Range<u64>,
        mut place: impl FnMut(u64, u64),
    ) -> Result<(), String> {
        let wanted = (range.end - 1) / extent_bytes - range.start / extent_bytes + 1;
        if wanted > self.extent_count {
            return Err(format!(
                "the request's {} bytes are more than the drive's {}",
                range.end - range.start,
                self.capacity_bytes
            ));
        }
        for extent in range.start / extent_bytes..=(range.end - 1) / extent_bytes {
            let next = self.extents.len() as u64;
            if next >= self.extent_count && !self.extents.contains_key(&(device, extent)) {
                return Err(format!(
                    "the trace touches more than the drive's {} bytes, in extents of \
                     {extent_bytes}; choose smaller extents or a larger drive",
                    self.capacity_bytes
                ));
            }
            self.extents.entry((device, extent)).or_insert(next);
        }
        let mut piece = (0, 0);
        let mut at = range.start;
        while at < range.end {
            let length = (extent_bytes - at % extent_bytes).min(range.end - at);
            let offset =
                self.extents[&(device, at / extent_bytes)] * extent_bytes + at % extent_bytes;
            if piece.1 > 0 && piece.0 + piece.1 == offset {
                piece.1 += length;
            } else {
                if piece.1 > 0 {
                    place(piece.0, piece.1);
                }
                piece = (offset, length);
            }
            at += length;
        }
        place(piece.0, piece.1);
        Ok(())
    }
}

/// The devices of a trace, numbered in order of appearance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Devices {
    numbers: std::collections::BTreeMap<Box<[u8]>, u32>,
    last: (Box<[u8]>, u32),
}

/// Most devices of one trace.
const DEVICE_COUNT_MAX: usize = 1 << 16;

impl Devices {
    pub(crate) fn count(&self) -> u64 {
        self.numbers.len() as u64
    }

    /// The number of `name`.
    ///
    /// # Errors
    /// At one device more than 65,536.
    #[inline]
    pub(crate) fn number(&mut self, name: &[u8]) -> Result<u32, String> {
        if *self.last.0 == *name && !self.numbers.is_empty() {
            return Ok(self.last.1);
        }
        let number = match self.numbers.get(name) {
            Some(&number) => number,
            None if self.numbers.len() >= DEVICE_COUNT_MAX => {
                return Err(format!("device `{}` is one too many, of 65536", shown(name)));
            }
            None => {
                let number = u32::try_from(self.numbers.len()).expect("65536 at most");
                self.numbers.insert(name.into(), number);
                number
            }
        };
        if self.last.0.len() == name.len() {
            self.last.0.copy_from_slice(name);
        } else {
            self.last.0 = name.into();
        }
        self.last.1 = number;
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(
        mapper: &mut AddressMapper,
        device: u32,
        offset: u64,
        length: u64,
    ) -> Result<Vec<(u64, u64)>, String> {
        let mut pieces = Vec::new();
        mapper.map(device, offset, length, |offset, length| pieces.push((offset, length)))?;
        Ok(pieces)
    }

    #[test]
    fn strict_takes_addresses_as_they_stand_up_to_the_last_byte() {
        let mut mapper = AddressMapper::new(AddressMap::Strict, Some(8192)).unwrap();
        assert_eq!(pieces(&mut mapper, 0, 4096, 4096), Ok(vec![(4096, 4096)]));
        assert!(pieces(&mut mapper, 0, 4096, 4097).unwrap_err().contains("past the drive's 8192"));
        assert!(pieces(&mut mapper, 0, u64::MAX, 2).unwrap_err().contains("2^64"));
    }

    #[test]
    fn modulo_wraps_at_the_capacity_rounded_to_4_kib() {
        let mut mapper = AddressMapper::new(AddressMap::Modulo, Some(10_000)).unwrap();
        assert_eq!(pieces(&mut mapper, 0, 8192, 512), Ok(vec![(0, 512)]));
        assert_eq!(pieces(&mut mapper, 0, 7680, 1024), Ok(vec![(7680, 512), (0, 512)]));
        assert!(pieces(&mut mapper, 0, 0, 8193).is_err());
        assert!(AddressMapper::new(AddressMap::Modulo, None).is_err());
        assert!(AddressMapper::new(AddressMap::Modulo, Some(100)).is_err());
    }

    #[test]
    fn compact_places_extents_by_first_touch_and_keeps_devices_apart() {
        let map = AddressMap::Compact { extent_bytes: 4096 };
        let mut mapper = AddressMapper::new(map, Some(4 * 4096)).unwrap();
        let far = 1 << 40;
        assert_eq!(pieces(&mut mapper, 0, far, 512), Ok(vec![(0, 512)]));
        assert_eq!(pieces(&mut mapper, 1, far, 512), Ok(vec![(4096, 512)]));
        // Spans one extent that is known and one that is new; their images are apart.
        assert_eq!(pieces(&mut mapper, 0, far + 2048, 4096), Ok(vec![(2048, 2048), (8192, 2048)]));
        assert_eq!(pieces(&mut mapper, 1, 0, 512), Ok(vec![(12_288, 512)]));
        assert!(pieces(&mut mapper, 1, 4096, 512).unwrap_err().contains("touches more"));
        assert_eq!(pieces(&mut mapper, 0, far, 512), Ok(vec![(0, 512)]));
        assert!(pieces(&mut mapper, 0, 0, 1 << 50).unwrap_err().contains("more than the drive"));
        let odd = AddressMap::Compact { extent_bytes: 5000 };
        assert!(AddressMapper::new(odd, None).is_err());
    }

    #[test]
    fn objects_are_packed_or_by_modulo_sectors() {
        let objects = |map, capacity| {
            let mut mapper = AddressMapper::new(map, Some(capacity)).unwrap();
            let touches = [(u64::MAX, 512), (9, 8192), (u64::MAX, 512), (8, 1)];
            touches.map(|(id, length)| {
                let mut pieces = Vec::new();
                let outcome = mapper.map_object(id, length, |at, bytes| pieces.push((at, bytes)));
                mapper.audit();
                outcome.map(|()| pieces)
            })
        };
        for map in [AddressMap::Strict, AddressMap::compact()] {
            let expected = [(0, 512), (4096, 8192), (0, 512), (12_288, 1)];
            assert_eq!(objects(map, 1 << 20), expected.map(|piece| Ok(vec![piece])));
        }
        let [first, second, again, _] = objects(AddressMap::Strict, 8192);
        assert_eq!((first.as_ref(), again.as_ref()), (Ok(&vec![(0, 512)]), Ok(&vec![(0, 512)])));
        assert!(second.unwrap_err().starts_with("the objects take more than the drive's 8192"));
        let [first, second, again, last] = objects(AddressMap::Modulo, 8192);
        assert_eq!((&first, &last), (&Ok(vec![(7680, 512)]), &Ok(vec![(4096, 1)])));
        assert_eq!((second, again), (Ok(vec![(4608, 3584), (0, 4608)]), first));
    }

    proptest! {
        #[test]
        fn pieces_add_up_and_stay_on_the_drive(
            requests in proptest::collection::vec((0_u32..3, 0_u64..1 << 30, 1_u64..40_000), 1..60),
            which in 0_usize..2,
        ) {
            let capacity = 1 << 20;
            let map = [AddressMap::Modulo, AddressMap::Compact { extent_bytes: 8192 }][which];
            let mut mapper = AddressMapper::new(map, Some(capacity)).unwrap();
            for (device, offset, length) in requests {
                let Ok(pieces) = pieces(&mut mapper, device, offset, length) else { continue };
                prop_assert_eq!(pieces.iter().map(|piece| piece.1).sum::<u64>(), length);
                prop_assert!(pieces.iter().all(|piece| piece.0 + piece.1 <= capacity));
                prop_assert_eq!(pieces[0].0 % 512, offset % 512);
            }
        }
    }
}
