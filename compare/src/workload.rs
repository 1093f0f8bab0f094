//! Workload W1, "B-tree maintenance" of S000 section 4.1: records of an 8-byte key and 100 random
//! bytes, keys of the distribution D(r): with probability r a uniform random key of 64 bits, else
//! the next successive integer.
//!
//! ```text
//!   D(r) draws   i i R i R R i ...        i: 0, 1, 2, 3    R: mix(seed, 0), mix(seed, 1), ...
//! ```
//!
//! 1. A random key is a bijective mix of its number: none comes twice, and a process finds any of
//!    them again without keeping them, so that the model takes no memory from the engine.
//! 2. A value is a function of its key, so every answer of an engine can be checked.
//! 3. Two processes with the same seed agree on every key, every value and every choice.

use crate::Failure;
use nandu_base::{AddressGenerator, Distribution, Rng, to_index};
use serde::{Deserialize, Serialize};

/// Bytes of a key.
pub(crate) const KEY_BYTES: u64 = 8;
/// Bytes of a value.
pub(crate) const VALUE_BYTES: usize = 100;
/// Bytes that a user hands over with a record.
pub(crate) const RECORD_BYTES: u64 = KEY_BYTES + VALUE_BYTES as u64;

/// The skew of YCSB.
const ZIPF_THETA: f64 = 0.99;

/// The payload of a record.
pub(crate) type Value = [u8; VALUE_BYTES];

/// A record that is stored, with its key.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    pub(crate) key: u64,
    pub(crate) value: Value,
}

/// A database of `record_count` records of D(r), and what is asked of it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Workload {
    pub(crate) seed: u64,
    /// r in parts per million.
    pub(crate) random_ppm: u32,
    pub(crate) record_count: u64,
}

/// Draws keys of D(r) one after the other, the build's first.
#[derive(Clone)]
pub(crate) struct Keys {
    workload: Workload,
    rng: Rng,
    integer_count: u64,
    random_count: u64,
}

impl Workload {
    /// From the first record on.
    pub(crate) fn keys(self) -> Keys {
        let rng = Rng::for_part(self.seed, "keys");
        Keys { workload: self, rng, integer_count: 0, random_count: 0 }
    }

    /// From behind the last record of the build on.
    pub(crate) fn keys_after_build(self) -> Keys {
        let mut keys = self.keys();
        for _ in 0..self.record_count {
            keys.draw();
        }
        keys
    }

    /// The random key of number `index`.
    fn random_key(self, index: u64) -> u64 {
        mix(self.seed.wrapping_add(index.wrapping_mul(GOLDEN)))
    }

    /// `count` keys of the build in the manner of D(r): a random one of the random keys, or the
    /// next of a run of successive integers.
    pub(crate) fn lookups(self, count: u64, round: u32) -> Vec<u64> {
        let Keys { integer_count, random_count, .. } = self.keys_after_build();
        let mut rng = Rng::for_part(self.seed, &format!("lookups {round}"));
        let mut next = if integer_count == 0 { 0 } else { rng.below(integer_count) };
        (0..count)
            .map(|_| {
                if integer_count == 0 || rng.chance_ppm(self.random_ppm) && random_count > 0 {
                    return self.random_key(rng.below(random_count));
                }
                next = (next + 1) % integer_count;
                next
            })
            .collect()
    }

    /// `count` keys of the build, each as likely as any other.
    pub(crate) fn uniform(self, count: u64, round: u32) -> Vec<u64> {
        let Keys { integer_count, random_count, .. } = self.keys_after_build();
        let mut rng = Rng::for_part(self.seed, &format!("uniform {round}"));
        (0..count)
            .map(|_| {
                let index = rng.below(integer_count + random_count);
                if index < integer_count { index } else { self.random_key(index - integer_count) }
            })
            .collect()
    }

    /// `count` keys of the build for one thread, few of them often, as YCSB's Zipf with 0.99 chooses,
    /// and whether the record is changed, which half are.
    pub(crate) fn skewed(self, count: u64, round: u32, thread: u32) -> Vec<(u64, bool)> {
        let Keys { integer_count, random_count, .. } = self.keys_after_build();
        let zipf = Distribution::Zipf { theta: ZIPF_THETA, clustered: false };
        // All threads and rounds have the same favourites.
        let item_count = integer_count + random_count;
        let mut ranks = AddressGenerator::new(&zipf, item_count, self.seed)
            .expect("there are records, and the skew is a number");
        let part = format!("skewed {round} {thread}");
        ranks.reseed(Rng::for_part(self.seed, &part));
        let mut rng = Rng::for_part(self.seed, &format!("{part} changes"));
        (0..count)
            .map(|_| {
                let index = ranks.next_item();
                let key = match index.checked_sub(integer_count) {
                    Some(index) => self.random_key(index),
                    None => index,
                };
                (key, rng.chance_ppm(500_000))
            })
            .collect()
    }

    /// About `count` keys that lie beside each other in the order of keys, in random order.
    pub(crate) fn neighbours(self, count: u64) -> Vec<u64> {
        let Keys { integer_count, random_count, .. } = self.keys_after_build();
        let mut keys: Vec<u64> = if integer_count >= count {
            (0..count).collect()
        } else {
            let below = u64::MAX / random_count.max(1) * count.min(random_count);
            (0..random_count).map(|index| self.random_key(index)).filter(|&it| it < below).collect()
        };
        Rng::for_part(self.seed, "neighbours").shuffle(&mut keys);
        keys
    }

    /// What scans of `length` records from `starts` must visit, as [`digest_of`] sees it. Takes
    /// eight bytes of memory for each record of the build.
    pub(crate) fn scan_digest(self, starts: &[u64], length: u64) -> u64 {
        let mut draws = self.keys();
        let mut keys: Vec<u64> = (0..self.record_count).map(|_| draws.draw()).collect();
        keys.sort_unstable();
        starts.iter().fold(0, |digest, &start| {
            let first = keys.partition_point(|&key| key < start);
            let end = keys.len().min(first + to_index(length));
            keys[first..end].iter().fold(digest, |digest, &key| digest_of(digest, key))
        })
    }
}

impl Keys {
    /// The next key.
    pub(crate) fn draw(&mut self) -> u64 {
        if self.rng.chance_ppm(self.workload.random_ppm) {
            self.random_count += 1;
            return self.workload.random_key(self.random_count - 1);
        }
        self.integer_count += 1;
        self.integer_count - 1
    }

    /// The next `count` records.
    pub(crate) fn records(&mut self, count: u64) -> Vec<Record> {
        let record = |key| Record { key, value: value_of(key) };
        (0..count).map(|_| record(self.draw())).collect()
    }
}

/// The value that belongs to a key: 100 bytes that no compression makes smaller.
pub(crate) fn value_of(key: u64) -> Value {
    let mut value = [0; VALUE_BYTES];
    let mut state = mix(key ^ GOLDEN);
    for chunk in value.chunks_mut(8) {
        state = state.wrapping_add(GOLDEN);
        chunk.copy_from_slice(&mix(state).to_le_bytes()[..chunk.len()]);
    }
    value
}

/// What a record's value becomes by its change of number `version`, which stands at its beginning.
pub(crate) fn updated_value(key: u64, version: u64) -> Value {
    let mut value = value_of(key ^ mix(version));
    value[..8].copy_from_slice(&version.to_le_bytes());
    value
}

/// Compares what an engine answered for a record that may have been changed with what it was given.
///
/// # Errors
/// If it is neither the value of the build nor one of a change.
pub(crate) fn check_current(key: u64, value: &[u8]) -> Result<(), Failure> {
    if let Some(version) = value.first_chunk()
        && value == updated_value(key, u64::from_le_bytes(*version))
    {
        return Ok(());
    }
    check_value(key, value)
}

/// Compares what an engine answered with what it was given.
///
/// # Errors
/// If they differ.
pub(crate) fn check_value(key: u64, value: &[u8]) -> Result<(), Failure> {
    if value == value_of(key) {
        return Ok(());
    }
    let bytes = value.len();
    Err(Failure::Wrong(format!("key {key:#018x} has another value, of {bytes} bytes")))
}

/// A running digest of keys, in order.
pub(crate) fn digest_of(digest: u64, key: u64) -> u64 {
    mix(digest.rotate_left(1) ^ key)
}

/// 2^64 over the golden ratio, odd: the step of `SplitMix64`.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of `SplitMix64` (Steele, Lea and Flood 2014), a bijection of 64 bits.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn workload(random_ppm: u32) -> Workload {
        Workload { seed: 7, random_ppm, record_count: 10_000 }
    }

    fn built(workload: Workload) -> BTreeSet<u64> {
        let mut keys = workload.keys();
        (0..workload.record_count).map(|_| keys.draw()).collect()
    }

    #[test]
    fn no_key_comes_twice_and_the_mix_of_random_and_successive_is_that_of_r() {
        for (random_ppm, least, most) in
            [(0, 0, 0), (330_000, 3_100, 3_500), (1_000_000, 9_990, 10_000)]
        {
            let keys = built(workload(random_ppm));
            assert_eq!(keys.len(), 10_000);
            let random_count = keys.iter().filter(|&&key| key >= 10_000).count();
            assert!((least..=most).contains(&random_count), "{random_count} at {random_ppm}");
        }
    }

    #[test]
    fn everything_that_is_looked_up_was_built() {
        for random_ppm in [0, 330_000, 1_000_000] {
            let workload = workload(random_ppm);
            let keys = built(workload);
            for asked in
                [workload.lookups(5_000, 3), workload.uniform(5_000, 3), workload.neighbours(500)]
            {
                assert!(asked.len() > 400, "{}", asked.len());
                assert!(asked.iter().all(|key| keys.contains(key)), "r = {random_ppm} ppm");
            }
        }
    }

    #[test]
    fn inserts_go_on_where_the_build_ended() {
        let workload = workload(330_000);
        let keys = built(workload);
        let added = workload.keys_after_build().records(1_000);
        assert!(added.iter().all(|record| !keys.contains(&record.key)));
    }

    #[test]
    fn a_spoilt_value_is_found() {
        let mut value = value_of(12);
        assert!(check_value(12, &value).is_ok());
        assert!(check_value(13, &value).is_err());
        value[99] ^= 1;
        assert!(check_value(12, &value).is_err());
        assert!(check_value(12, &[]).is_err());
    }

    #[test]
    fn a_changed_value_is_known_by_its_key_and_its_number() {
        let value = updated_value(12, 7);
        assert_ne!(value, updated_value(12, 8));
        assert!(check_current(12, &value).is_ok() && check_current(12, &value_of(12)).is_ok());
        assert!(check_current(13, &value).is_err());
        for place in [0, 8, 99] {
            let mut spoilt = value;
            spoilt[place] ^= 1;
            assert!(check_current(12, &spoilt).is_err(), "byte {place}");
        }
    }

    #[test]
    fn few_keys_are_chosen_often_and_half_of_the_choices_are_changes() {
        let workload = workload(330_000);
        let keys = built(workload);
        let [one, other] = [0, 1].map(|thread| workload.skewed(10_000, 2, thread));
        assert_ne!(one, other);
        let favourite = |choices: &[(u64, bool)]| {
            let mut counts = std::collections::BTreeMap::new();
            for (key, _) in choices {
                *counts.entry(*key).or_insert(0) += 1;
            }
            counts.into_iter().max_by_key(|&(_, count)| count).unwrap()
        };
        // The first of 10,000 ranks has 0.1 of the weight at 0.99.
        let (key, count) = favourite(&one);
        assert!((850..1_150).contains(&count), "{count}");
        assert_eq!(favourite(&other).0, key, "threads have the same favourites");
        assert!(one.iter().all(|(key, _)| keys.contains(key)));
        let change_count = one.iter().filter(|it| it.1).count();
        assert!((4_700..5_300).contains(&change_count), "{change_count}");
    }

    #[test]
    fn a_scan_that_leaves_a_record_out_has_another_digest() {
        let workload = workload(1_000_000);
        let keys: Vec<u64> = built(workload).into_iter().collect();
        let starts = [keys[17], keys[9_950]];
        let visited = |left_out| {
            keys[17..117]
                .iter()
                .chain(&keys[9_950..])
                .filter(|&&key| Some(key) != left_out)
                .fold(0, |digest, &key| digest_of(digest, key))
        };
        assert_eq!(workload.scan_digest(&starts, 100), visited(None));
        assert_ne!(workload.scan_digest(&starts, 100), visited(Some(keys[60])));
    }
}
