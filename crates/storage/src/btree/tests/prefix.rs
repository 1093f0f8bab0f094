//! Searches for prefixes against a model, however often their user has no room.

use super::*;
use crate::btree::PrefixScan;
use std::ops::ControlFlow;

#[test]
fn each_entry_of_each_prefix_is_taken_once_however_often_there_is_no_room() {
    let mut rng = Rng::new(12);
    for page_bytes in [512, 1024, 4096] {
        let (mut pages, tree) = empty(page_bytes);
        let mut model = Model::new();
        for _ in 0..1500 {
            let prefix = u8::try_from(rng.below(40)).unwrap();
            // Prefix 7 has very many entries, those above 30 have values in chains now and then.
            let prefix = if rng.below(3) == 0 { 7 } else { prefix };
            let long = if prefix > 30 && rng.below(4) == 0 { 3000 } else { 60 };
            let mut key = vec![prefix, 0];
            key.extend(number(rng.next_u64() >> 20));
            let value = vec![prefix; nandu_base::to_index(rng.below(long))];
            tree.upsert(&mut pages, &key, &value, &mut Vec::new()).unwrap();
            model.insert(key, value);
        }
        let mut scan = PrefixScan::new(tree);
        for round in 0..60 {
            let mut wanted: Vec<Vec<u8>> =
                (0..50).filter(|_| rng.below(3) > 0).map(|prefix| vec![prefix, 0]).collect();
            wanted.truncate(nandu_base::to_index(rng.below(51)));
            let stops_at_first = round % 3 == 0;
            scan.begin(wanted.iter().map(Vec::as_slice), stops_at_first);
            let mut found = vec![Vec::new(); wanted.len()];
            let mut is_done = false;
            while !is_done {
                let mut room = 1 + rng.below(30);
                is_done = scan
                    .advance(&pages, |index, (key, value)| {
                        if room == 0 {
                            return ControlFlow::Break(());
                        }
                        room -= 1;
                        found[index].push((key.to_vec(), value.to_vec()));
                        ControlFlow::Continue(())
                    })
                    .unwrap();
            }
            for (prefix, found) in wanted.iter().zip(found) {
                let mut expected: Vec<_> = model
                    .range(prefix.clone()..)
                    .take_while(|(key, _)| key.starts_with(prefix))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                if stops_at_first {
                    expected.truncate(1);
                }
                assert_eq!(found, expected, "prefix {prefix:?} on pages of {page_bytes}");
            }
        }
    }
}

#[test]
fn a_scan_goes_on_from_the_place_where_another_stopped() {
    let (mut pages, tree) = empty(512);
    for key in 0..700 {
        tree.insert(&mut pages, &number(key), &[1; 20], &mut Vec::new()).unwrap();
    }
    let all = collect(tree.scan(everything(), Direction::Forward), &pages);
    for taken in 1..=700 {
        let mut cursor = tree.scan(everything(), Direction::Forward);
        assert_eq!(cursor.place(), None);
        for _ in 0..taken {
            cursor.next(&pages).unwrap();
        }
        assert_eq!(cursor.current().0, all[taken - 1].0);
        let Some(place) = cursor.place() else {
            assert_eq!(taken, 700, "only the end has no place");
            continue;
        };
        let rest = tree.scan_from(&pages, place, Bound::Unbounded).unwrap();
        assert_eq!(collect(rest, &pages), all[taken..]);
    }
}

#[test]
fn a_scan_goes_on_behind_leaves_that_lost_all_their_entries() {
    let (mut empty_leaf_count, mut seeds_with_empty) = (0, 0);
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let (mut pages, tree) = empty(512);
        let mut model = Model::new();
        for key in 0..700 {
            // Long keys make nodes with few children.
            let key = [&number(key)[..], &[0; 80]].concat();
            tree.insert(&mut pages, &key, &[1; 20], &mut Vec::new()).unwrap();
            model.insert(key, vec![1; 20]);
        }
        let everything_sorted: Vec<_> = model.keys().cloned().collect();
        // Some ranges go, from either end.
        for _ in 0..3 {
            let from = nandu_base::to_index(rng.below(700));
            let to = (from + nandu_base::to_index(rng.below(300))).min(700);
            let mut keys = everything_sorted[from..to].to_vec();
            if rng.below(2) == 0 {
                keys.reverse();
            }
            for key in keys {
                tree.delete(&mut pages, &key, &mut Vec::new()).unwrap();
                model.remove(&key);
            }
        }
        assert_same(&pages, &tree, &model);
        let all = collect(tree.scan(everything(), Direction::Forward), &pages);
        let mut cursor = tree.scan(everything(), Direction::Forward);
        let mut has_empty = false;
        for taken in 1..=all.len() {
            cursor.next(&pages).unwrap();
            let Some(place) = cursor.place() else {
                assert_eq!(taken, all.len(), "only the end has no place");
                continue;
            };
            let count = tree.node(&pages, place.page, |node| Ok(node.count())).unwrap();
            if place.slot as usize == count {
                empty_leaf_count += 1;
                has_empty = true;
            }
            let next = all.get(taken).map(|(key, _)| key.clone());
            assert_eq!(tree.key_at(&pages, place).unwrap(), next);
            let rest = tree.scan_from(&pages, place, Bound::Unbounded).unwrap();
            assert_eq!(collect(rest, &pages), all[taken..]);
        }
        seeds_with_empty += u32::from(has_empty);
    }
    assert!(empty_leaf_count > 0, "no leaf was empty: {seeds_with_empty}");
}
