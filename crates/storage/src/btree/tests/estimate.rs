//! Estimates against what a scan counts.

use super::*;
use nandu_base::Rng;

#[test]
fn an_estimate_is_exact_where_it_says_so_and_close_elsewhere() {
    let (mut pages, tree) = empty(512);
    let mut rng = Rng::new(4);
    let mut keys: Vec<u64> = (0..6000).map(|_| rng.below(1 << 40)).collect();
    for key in &keys {
        tree.upsert(&mut pages, &number(*key), &[1; 30], &mut Vec::new()).unwrap();
    }
    keys.sort_unstable();
    keys.dedup();
    assert!(check(&pages, FILE).height() >= 3);
    for _ in 0..300 {
        let low = usize::try_from(rng.below(keys.len() as u64)).unwrap();
        let bits = 1 + rng.below(11);
        let count = usize::try_from(rng.below(1 << bits)).unwrap();
        let high = (low + count).min(keys.len() - 1);
        let (lower, upper) = (number(keys[low]), number(keys[high]));
        let range = (Bound::Excluded(&lower[..]), Bound::Included(&upper[..]));
        let estimate = usize::try_from(tree.estimate(&pages, range).unwrap()).unwrap();
        let truth = high - low;
        if truth < 3 {
            assert_eq!(estimate, truth, "the ends lie in leaves side by side");
        }
        assert!(estimate <= truth * 3 && truth <= estimate * 3, "{estimate} for {truth}");
    }
    let all = usize::try_from(tree.estimate(&pages, everything()).unwrap()).unwrap();
    assert!(all > keys.len() / 3 && all < keys.len() * 3, "{all} for {}", keys.len());
    let key = number(keys[9]);
    let later = number(keys[90]);
    let backwards = (Bound::Included(&later[..]), Bound::Excluded(&key[..]));
    assert_eq!(tree.estimate(&pages, backwards).unwrap(), 0);
    let (empty_pages, empty_tree) = empty(512);
    assert_eq!(empty_tree.estimate(&empty_pages, everything()).unwrap(), 0);
}

#[test]
fn a_sample_is_exact_for_one_leaf_and_close_for_many() {
    let mut rng = Rng::new(8);
    for count in [0, 5, 4000] {
        let (mut pages, tree) = empty(512);
        let mut value_bytes = 0;
        for key in 0..count {
            let value =
                vec![3; nandu_base::to_index(rng.below(if key % 50 == 0 { 900 } else { 60 }))];
            value_bytes += value.len() as u64;
            let key = number(mix(key));
            tree.insert(&mut pages, &key, &value, &mut Vec::new()).unwrap();
        }
        let report = check(&pages, FILE);
        let sample = tree.sample(&pages, 16).unwrap();
        let is_close = |guess: u64, truth: u64| guess * 4 >= truth * 3 && guess * 3 <= truth * 4;
        let used = tree.used_page_count(&pages).unwrap();
        if count == 4000 {
            assert!(is_close(sample.entry_count, count), "{sample:?}");
            assert!(is_close(sample.value_bytes, value_bytes), "{sample:?} for {value_bytes}");
            assert!(is_close(sample.leaf_count, report.levels[0].page_count), "{sample:?}");
        } else {
            assert_eq!((sample.entry_count, sample.value_bytes), (count, value_bytes));
            assert_eq!(sample.leaf_count, 1);
        }
        assert!(u64::from(used) >= report.levels.iter().map(|level| level.page_count).sum());
        assert!(used < tree.page_count(&pages).unwrap());
    }
}

/// Spreads successive keys over all numbers.
fn mix(key: u64) -> u64 {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
