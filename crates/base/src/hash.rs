//! Hash maps whose iteration order is the same in every run, and FNV-1a for labels.
//!
//! `std::collections::HashMap` seeds itself from the operating system; a simulator that iterates one
//! would give different bits each time, so clippy bans it in favour of these.

#![allow(clippy::disallowed_types, reason = "this module makes the replacement")]

use std::hash::{BuildHasherDefault, Hasher};

/// A hash map with a fixed seed.
pub type FixedHashMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<FixedHasher>>;
/// A hash set with a fixed seed.
pub type FixedHashSet<K> = std::collections::HashSet<K, BuildHasherDefault<FixedHasher>>;

/// Multiply-and-fold over 64-bit words: fast for the integer keys that simulators use. Not for keys
/// that a stranger chooses.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedHasher {
    state: u64,
}

const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

impl Hasher for FixedHasher {
    fn finish(&self) -> u64 {
        let mut x = self.state;
        crate::random::split_mix(&mut x)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word) ^ (chunk.len() as u64) << 56);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.state = (self.state.rotate_left(5) ^ value).wrapping_mul(MULTIPLIER);
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

/// FNV-1a, 64 bits: a stable name for a label, a seed or a golden trace.
#[must_use]
pub const fn fnv1a(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut position = 0;
    while position < bytes.len() {
        hash = (hash ^ bytes[position] as u64).wrapping_mul(0x0100_0000_01b3);
        position += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_matches_its_published_vectors() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn iteration_order_repeats() {
        let order = || {
            let map: FixedHashMap<u64, ()> = (0..1000).map(|key| (key * 7919, ())).collect();
            map.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(order(), order());
    }
}
