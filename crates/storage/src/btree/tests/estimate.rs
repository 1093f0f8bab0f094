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
