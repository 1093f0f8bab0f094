//! A hash table of values in memory that was granted, several of them with one key, in chains.
//!
//! ```text
//!   bucket of a key ──► slot ──► slot ──► slot ──► end          free ──► slot ──► slot ──► end
//!                       key 7    key 9    key 7
//! ```
//!
//! 1. Each slot is in one chain, or free. There are never more slots than memory was taken for, and
//!    the table is not rebuilt: what it takes is known when it is made.
//! 2. A chain has the keys of its bucket.

use crate::{ExternalError, Grant, Memory};
use nandu_base::hash::FixedHasher;
use nandu_base::{to_index, to_u32};
use std::hash::Hasher;

/// The end of a chain.
const END: u32 = u32::MAX;

/// Values by key.
#[derive(Debug)]
pub(super) struct Table<V> {
    /// The first slot of each chain: a power of two of them, none for a table without slots.
    buckets: Vec<u32>,
    slots: Vec<Slot<V>>,
    free: u32,
    len: u64,
    limit: u64,
    _memory: Memory,
}

#[derive(Debug)]
struct Slot<V> {
    key: u64,
    next: u32,
    value: V,
}

impl<V: Copy> Table<V> {
    /// What each value takes, with its part of the buckets.
    const SLOT_BYTES: u64 = (size_of::<Slot<V>>() + size_of::<u32>()) as u64;

    /// How many values there are at most in so many bytes.
    pub(super) fn limit_of(bytes: u64) -> u64 {
        (bytes / Self::SLOT_BYTES).min(u64::from(u32::MAX - 1))
    }

    /// One that takes up to `bytes`.
    pub(super) fn new(grant: &Grant, bytes: u64) -> Result<Self, ExternalError> {
        let limit = Self::limit_of(bytes);
        let memory = grant.take("a table", limit * Self::SLOT_BYTES)?;
        let bucket_count = limit.checked_ilog2().map_or(0, |bits| 1 << bits);
        let (mut buckets, mut slots) = (Vec::new(), Vec::new());
        let reserved = { buckets.try_reserve_exact(bucket_count) }
            .and_then(|()| slots.try_reserve_exact(to_index(limit)));
        reserved.map_err(|error| {
            let what = format!("no memory for a table of {limit}: {error}; grant less");
            ExternalError::Invalid { what }
        })?;
        buckets.resize(bucket_count, END);
        Ok(Self { buckets, slots, free: END, len: 0, limit, _memory: memory })
    }

    /// How many values it has.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// For how many more it has room.
    pub(super) const fn room(&self) -> u64 {
        self.limit - self.len
    }

    fn bucket(&self, key: u64) -> usize {
        let mut hasher = FixedHasher::default();
        hasher.write_u64(key);
        to_index(hasher.finish() & (self.buckets.len() as u64 - 1))
    }

    /// Puts a value in.
    ///
    /// # Panics
    /// If there is no room.
    pub(super) fn insert(&mut self, key: u64, value: V) {
        assert!(self.room() > 0, "who puts something in knows that there is room");
        let bucket = self.bucket(key);
        let slot = Slot { key, next: self.buckets[bucket], value };
        let index = match self.free {
            END => {
                self.slots.push(slot);
                to_u32(self.slots.len() as u64 - 1)
            }
            index => {
                let freed = std::mem::replace(&mut self.slots[index as usize], slot);
                self.free = freed.next;
                index
            }
        };
        self.buckets[bucket] = index;
        self.len += 1;
    }

    /// Whether a key has a value.
    pub(super) fn contains(&self, key: u64) -> bool {
        if self.len == 0 {
            return false;
        }
        let mut index = self.buckets[self.bucket(key)];
        while index != END {
            let slot = &self.slots[index as usize];
            if slot.key == key {
                return true;
            }
            index = slot.next;
        }
        false
    }

    /// Takes the values of a key out; how many there were.
    pub(super) fn take(
        &mut self,
        key: u64,
        mut emit: impl FnMut(V) -> Result<(), ExternalError>,
    ) -> Result<u64, ExternalError> {
        if self.len == 0 {
            return Ok(0);
        }
        let bucket = self.bucket(key);
        let (mut before, mut index, mut count) = (END, self.buckets[bucket], 0);
        while index != END {
            let slot = &self.slots[index as usize];
            let (is_taken, next, value) = (slot.key == key, slot.next, slot.value);
            if is_taken {
                match before {
                    END => self.buckets[bucket] = next,
                    before => self.slots[before as usize].next = next,
                }
                self.slots[index as usize].next = self.free;
                self.free = index;
                self.len -= 1;
                count += 1;
                emit(value)?;
            } else {
                before = index;
            }
            index = next;
        }
        Ok(count)
    }

    /// Takes all out.
    pub(super) fn clear(&mut self) {
        if self.len > 0 {
            self.buckets.fill(END);
        }
        self.slots.clear();
        (self.free, self.len) = (END, 0);
    }

    /// Asserts the invariants.
    pub(super) fn audit(&self) {
        let chain = |mut index: u32, bucket: Option<usize>| {
            let mut count = 0_u64;
            while index != END {
                let slot = &self.slots[index as usize];
                assert!(bucket.is_none_or(|bucket| self.bucket(slot.key) == bucket), "invariant 2");
                (index, count) = (slot.next, count + 1);
                assert!(count <= self.slots.len() as u64, "invariant 1: no circle");
            }
            count
        };
        let chained = |(bucket, &first): (usize, &u32)| chain(first, Some(bucket));
        let used: u64 = self.buckets.iter().enumerate().map(chained).sum();
        assert_eq!(used, self.len, "invariant 1");
        assert_eq!(used + chain(self.free, None), self.slots.len() as u64, "invariant 1");
        assert!(self.slots.len() as u64 <= self.limit, "invariant 1: memory");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_come_out_by_their_key(
            bytes in 0_u64..1500, steps in proptest::collection::vec((0_u8..3, 0_u64..40), 0..300),
        ) {
            let grant = Grant::new(2000);
            let mut table = Table::new(&grant, bytes).unwrap();
            let mut model: Vec<(u64, u32)> = Vec::new();
            for (index, (step, key)) in (0_u32..).zip(steps) {
                if step < 2 {
                    if table.room() > 0 {
                        table.insert(key, index);
                        model.push((key, index));
                    }
                } else {
                    let mut found = Vec::new();
                    let count = table.take(key, |value| {
                        found.push(value);
                        Ok(())
                    });
                    found.sort_unstable();
                    prop_assert_eq!(count, Ok(found.len() as u64));
                    let expected: Vec<u32> =
                        model.iter().filter(|pair| pair.0 == key).map(|pair| pair.1).collect();
                    prop_assert_eq!(found, expected);
                    model.retain(|pair| pair.0 != key);
                }
                table.audit();
                prop_assert_eq!(table.len(), model.len() as u64);
                prop_assert_eq!(table.contains(key), model.iter().any(|pair| pair.0 == key));
            }
            prop_assert!(grant.peak_bytes() <= bytes);
            table.clear();
            table.audit();
            prop_assert_eq!((table.len(), table.contains(1)), (0, false));
        }
    }
}
