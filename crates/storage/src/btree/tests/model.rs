//! Whatever is done to a tree, it holds what a `BTreeMap` holds.

use super::*;
use nandu_base::Rng;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Act {
    Insert(Vec<u8>, Vec<u8>),
    Update(Vec<u8>, Vec<u8>),
    Upsert(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteNth(u16),
    Scan(Vec<u8>, Vec<u8>, bool),
}

/// Keys that often agree in many bytes, and are often there already.
fn any_key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(0_u8..3, 0..6),
        (0_u64..200).prop_map(|value| number(value).to_vec()),
        (0_usize..100, 0_u8..4).prop_map(|(length, byte)| vec![byte; length]),
        (prop::collection::vec(any::<u8>(), 0..12)),
        (0_usize..90, any::<u16>()).prop_map(|(length, tail)| {
            let mut key = vec![7; length];
            key.extend(tail.to_be_bytes());
            key
        }),
    ]
}

fn any_value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..40),
        3 => (0_usize..250, any::<u8>()).prop_map(|(length, byte)| vec![byte; length]),
        1 => (0_usize..3000, any::<u8>()).prop_map(|(length, byte)| vec![byte; length]),
    ]
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        10 => (any_key(), any_value()).prop_map(|(key, value)| Act::Insert(key, value)),
        2 => (any_key(), any_value()).prop_map(|(key, value)| Act::Update(key, value)),
        3 => (any_key(), any_value()).prop_map(|(key, value)| Act::Upsert(key, value)),
        2 => any_key().prop_map(Act::Delete),
        5 => any::<u16>().prop_map(Act::DeleteNth),
        1 => (any_key(), any_key(), any::<bool>())
            .prop_map(|(low, high, backward)| Act::Scan(low, high, backward)),
    ]
}

fn play(pages: &mut impl ChangePages, tree: &Tree, model: &mut Model, act: &Act) {
    let mut undo = Vec::new();
    match act {
        Act::Insert(key, value) => {
            let fresh = !model.contains_key(key);
            assert_eq!(tree.insert(pages, key, value, &mut undo).unwrap(), fresh);
            assert_eq!(undo.is_empty(), !fresh);
            model.entry(key.clone()).or_insert_with(|| value.clone());
        }
        Act::Update(key, value) => {
            let there = model.contains_key(key);
            assert_eq!(tree.update(pages, key, value, &mut undo).unwrap(), there);
            if there {
                model.insert(key.clone(), value.clone());
            }
        }
        Act::Upsert(key, value) => {
            let there = model.insert(key.clone(), value.clone()).is_some();
            assert_eq!(tree.upsert(pages, key, value, &mut undo).unwrap(), there);
        }
        Act::Delete(key) => {
            let there = model.remove(key).is_some();
            assert_eq!(tree.delete(pages, key, &mut undo).unwrap(), there);
        }
        Act::DeleteNth(index) => {
            let key = model.keys().nth(usize::from(*index) % model.len().max(1)).cloned();
            if let Some(key) = key {
                play(pages, tree, model, &Act::Delete(key));
            }
        }
        Act::Scan(low, high, backward) => {
            let (low, high) = (low.min(high), low.max(high));
            let range = (Bound::Excluded(low.as_slice()), Bound::Included(high.as_slice()));
            let direction = if *backward { Direction::Backward } else { Direction::Forward };
            let mut found = collect(tree.scan(range, direction).with_ahead_count(3), pages);
            if *backward {
                found.reverse();
            }
            let wanted: Vec<_> = match low == high {
                true => Vec::new(),
                false => model
                    .range::<[u8], _>(range)
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect(),
            };
            assert_eq!(found, wanted);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_of_tiny_pages_does_what_a_map_does(acts in prop::collection::vec(any_act(), 1..250)) {
        let (mut pages, tree) = empty(512);
        let mut model = Model::new();
        for (index, act) in acts.iter().enumerate() {
            play(&mut pages, &tree, &mut model, act);
            if index % 32 == 0 {
                assert_same(&pages, &tree, &model);
            }
        }
        for key in model.keys() {
            assert_eq!(get(&pages, &tree, key).as_ref(), model.get(key));
        }
        assert_same(&pages, &tree, &model);
        for key in model.keys() {
            assert!(tree.delete(&mut pages, key, &mut Vec::new()).unwrap());
        }
        let report = assert_same(&pages, &tree, &Model::new());
        prop_assert_eq!(report.height(), 1, "an empty tree is a leaf");
    }

    #[test]
    fn batches_find_what_single_lookups_find(
        acts in prop::collection::vec(any_act(), 1..150),
        keys in prop::collection::vec(any_key(), 0..60),
    ) {
        let (mut pages, tree) = empty(512);
        let mut model = Model::new();
        for act in &acts {
            play(&mut pages, &tree, &mut model, act);
        }
        let mut keys = keys;
        keys.extend(model.keys().step_by(2).cloned());
        let mut found = vec![None; keys.len()];
        tree.get_batch(&pages, &keys, |index, value| {
            assert!(found[index].is_none(), "each key is looked up once");
            found[index] = Some(value.map(<[u8]>::to_vec));
        }).unwrap();
        for (key, found) in keys.iter().zip(found) {
            prop_assert_eq!(found, Some(model.get(key).cloned()));
        }
    }
}

#[test]
fn all_orders_of_a_few_long_keys_give_the_same_contents() {
    // Four cells of this size fill a page, so that every order splits elsewhere.
    let keys: Vec<Vec<u8>> =
        (0_u8..6).map(|index| [vec![index % 2; 60], vec![index]].concat()).collect();
    let mut order: Vec<usize> = (0..keys.len()).collect();
    permute(&mut order, 0, &mut |order| {
        let (mut pages, tree) = empty(512);
        let mut model = Model::new();
        for &index in order {
            play(&mut pages, &tree, &mut model, &Act::Insert(keys[index].clone(), vec![1; 60]));
        }
        assert_same(&pages, &tree, &model);
        for &index in order.iter().rev() {
            play(&mut pages, &tree, &mut model, &Act::Delete(keys[index].clone()));
            assert_eq!(check(&pages, FILE).findings, Vec::<String>::new());
        }
        assert_same(&pages, &tree, &model);
    });
}

fn permute(items: &mut [usize], from: usize, visit: &mut impl FnMut(&[usize])) {
    if from == items.len() {
        return visit(items);
    }
    for index in from..items.len() {
        items.swap(from, index);
        permute(items, from + 1, visit);
        items.swap(from, index);
    }
}

#[test]
fn every_page_size_takes_its_longest_keys_and_large_values() {
    for page_bytes in page_sizes() {
        let (mut pages, tree) = empty(page_bytes);
        let longest = Tree::key_bytes_max(pages.usable_bytes());
        let mut model = Model::new();
        let mut rng = Rng::new(u64::from(page_bytes));
        for index in 0..60_u8 {
            let mut key = vec![index / 20; longest];
            rng.fill(&mut key[longest - 20..]);
            let length = rng.below(u64::from(page_bytes) * 3);
            let value = vec![index; usize::try_from(length).unwrap()];
            play(&mut pages, &tree, &mut model, &Act::Insert(key, value));
        }
        assert_same(&pages, &tree, &model);
        let keys: Vec<_> = model.keys().cloned().collect();
        for key in keys.iter().step_by(2).chain(keys.iter().skip(1).step_by(2)) {
            play(&mut pages, &tree, &mut model, &Act::Delete(key.clone()));
        }
        let report = assert_same(&pages, &tree, &model);
        assert_eq!(report.free_page_count + 2, u64::from(report.page_count), "all are free");
    }
}

#[test]
fn keys_and_values_past_the_limit_are_refused() {
    let (mut pages, tree) = empty(512);
    let longest = Tree::key_bytes_max(pages.usable_bytes());
    assert!((90..=124).contains(&longest), "{longest} is about a quarter of a page");
    let refused = tree.insert(&mut pages, &vec![1; longest + 1], &[], &mut Vec::new());
    let what = "a key".to_owned();
    let (found_bytes, limit_bytes) = (longest as u64 + 1, longest as u64);
    assert_eq!(refused, Err(StorageError::TooLarge { what, found_bytes, limit_bytes }));
    let huge = vec![0; super::super::VALUE_BYTES_MAX + 1];
    let refused = tree.upsert(&mut pages, b"key", &huge, &mut Vec::new());
    assert!(matches!(refused, Err(StorageError::TooLarge { .. })));
    assert_same(&pages, &tree, &Model::new());
}

#[test]
fn a_value_of_many_megabytes_comes_back_and_its_pages_are_used_again() {
    let (mut pages, tree) = empty(65_536);
    let mut value = vec![0; 20 << 20];
    Rng::new(5).fill(&mut value);
    tree.insert(&mut pages, b"large", &value, &mut Vec::new()).unwrap();
    assert_eq!(get(&pages, &tree, b"large").as_ref(), Some(&value));
    let page_count = tree.page_count(&pages).unwrap();
    let mut undo = Vec::new();
    tree.delete(&mut pages, b"large", &mut undo).unwrap();
    apply_undo(&mut pages, FILE, &undo).unwrap();
    assert_eq!(get(&pages, &tree, b"large").as_ref(), Some(&value));
    assert_eq!(tree.page_count(&pages).unwrap(), page_count);
}

#[test]
fn sorted_records_fill_their_pages_and_random_ones_about_two_thirds() {
    let (mut pages, tree) = empty(4096);
    for index in 0..20_000_u64 {
        tree.insert(&mut pages, &number(index), &[7; 100], &mut Vec::new()).unwrap();
    }
    let report = check(&pages, FILE);
    assert_eq!(report.findings, Vec::<String>::new());
    assert!(report.levels[0].fill_ppm() > 950_000, "{:?}", report.levels);

    let (mut pages, tree) = empty(4096);
    let mut rng = Rng::new(3);
    for _ in 0..30_000_u64 {
        let key = number(rng.next_u64());
        assert!(tree.insert(&mut pages, &key, &[7; 100], &mut Vec::new()).unwrap());
    }
    let report = check(&pages, FILE);
    assert_eq!(report.findings, Vec::<String>::new());
    // ln 2, Yao, "On Random 2-3 Trees" (1978).
    assert!((650_000..730_000).contains(&report.levels[0].fill_ppm()), "{:?}", report.levels);

    // Ascending keys in a gap between others.
    let (mut pages, tree) = empty(4096);
    for index in 0..20_000_u64 {
        for key in [index, u64::MAX - 1 - index.wrapping_mul(0x9E37_79B9_7F4A_7C15) / 2] {
            if index % 10 == 0 || key == index {
                tree.insert(&mut pages, &number(key), &[7; 100], &mut Vec::new()).unwrap();
            }
        }
    }
    let report = check(&pages, FILE);
    assert_eq!(report.findings, Vec::<String>::new());
    assert!(report.levels[0].fill_ppm() > 900_000, "{:?}", report.levels);
}

#[test]
fn deletes_leave_no_nearly_empty_pages() {
    let (mut pages, tree) = empty(1024);
    let mut rng = Rng::new(9);
    let mut keys: Vec<u64> = (0..8000).collect();
    rng.shuffle(&mut keys);
    for &key in &keys {
        tree.insert(&mut pages, &number(key), &[7; 40], &mut Vec::new()).unwrap();
    }
    rng.shuffle(&mut keys);
    let full_count = tree.page_count(&pages).unwrap();
    for (index, &key) in keys.iter().enumerate() {
        assert!(tree.delete(&mut pages, &number(key), &mut Vec::new()).unwrap());
        if [4000, 6000, 7000, 7900].contains(&index) {
            let report = check(&pages, FILE);
            assert_eq!(report.findings, Vec::<String>::new());
            assert!(report.levels[0].fill_ppm() > 500_000, "{index}: {:?}", report.levels);
        }
    }
    for &key in &keys {
        tree.insert(&mut pages, &number(key), &[7; 40], &mut Vec::new()).unwrap();
    }
    let page_count = tree.page_count(&pages).unwrap();
    assert!(page_count <= full_count + full_count / 20, "{page_count} after {full_count}");
}

#[test]
fn undo_in_reverse_restores_the_contents() {
    for seed in 0..8 {
        let mut rng = Rng::new(seed);
        let (mut pages, tree) = empty(512);
        let mut model = Model::new();
        let mut undos: Vec<Vec<u8>> = Vec::new();
        let mut states = Vec::new();
        for step in 0..400 {
            if step % 100 == 0 {
                states.push((undos.len(), model.clone()));
            }
            let key = number(rng.below(120));
            let value =
                vec![1; usize::try_from(rng.below(if step % 9 == 0 { 2000 } else { 90 })).unwrap()];
            let mut undo = Vec::new();
            if rng.below(3) == 0 {
                tree.delete(&mut pages, &key, &mut undo).unwrap();
                model.remove(key.as_slice());
            } else {
                tree.upsert(&mut pages, &key, &value, &mut undo).unwrap();
                model.insert(key.to_vec(), value);
            }
            if !undo.is_empty() {
                undos.push(undo);
            }
        }
        for (count, state) in states.into_iter().rev() {
            while undos.len() > count {
                apply_undo(&mut pages, FILE, &undos.pop().unwrap()).unwrap();
            }
            assert_same(&pages, &tree, &state);
        }
    }
}
