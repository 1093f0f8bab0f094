//! Runs of records: what they add, what takes them back, and what they save.

use super::*;
use proptest::prelude::*;

type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// Adds all records whose keys are new, and gives the undo of each run and the length of each.
fn insert_all(
    pages: &mut impl ChangePages,
    tree: &Tree,
    model: &mut Model,
    records: &Records,
) -> (Vec<Vec<u8>>, Vec<usize>) {
    let (mut undos, mut counts) = (Vec::new(), Vec::new());
    let mut rest = records.as_slice();
    while let [(key, _), ..] = rest {
        let mut undo = Vec::new();
        let count = tree.insert_run(pages, rest, &mut undo).unwrap();
        assert_eq!(count == 0, model.contains_key(key), "a first key that is there gives none");
        assert_eq!(undo.is_empty(), count == 0);
        for (key, value) in &rest[..count] {
            assert_eq!(model.insert(key.clone(), value.clone()), None, "each key is new");
        }
        undos.extend((count > 0).then_some(undo));
        counts.push(count);
        rest = &rest[count.max(1)..];
    }
    (undos, counts)
}

fn any_records() -> impl Strategy<Value = Records> {
    let key = prop_oneof![
        4 => (0_u64..300).prop_map(|value| number(value).to_vec()),
        1 => prop::collection::vec(0_u8..3, 0..6),
        1 => (0_usize..90).prop_map(|length| vec![7; length]),
    ];
    let value = prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..30),
        1 => (0_usize..900).prop_map(|length| vec![1; length]),
    ];
    (prop::collection::vec((key, value), 0..60), any::<bool>()).prop_map(|(mut records, sorted)| {
        if sorted {
            records.sort();
        }
        records
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn runs_add_what_single_inserts_add_and_can_be_taken_back(
        batches in prop::collection::vec(any_records(), 1..12),
    ) {
        let (mut pages, tree) = empty(512);
        let mut model = Model::new();
        let mut history = Vec::new();
        for records in &batches {
            let before = model.clone();
            let (undos, _) = insert_all(&mut pages, &tree, &mut model, records);
            assert_same(&pages, &tree, &model);
            history.push((before, undos));
        }
        for (before, undos) in history.iter().rev() {
            for undo in undos.iter().rev() {
                apply_undo(&mut pages, FILE, undo).unwrap();
            }
            assert_same(&pages, &tree, before);
        }
        let report = assert_same(&pages, &tree, &Model::new());
        prop_assert_eq!(report.height(), 1, "an empty tree is a leaf");
    }

    #[test]
    fn hostile_runs_are_refused_and_change_nothing(
        slot in 0_u32..8,
        keys in prop::collection::vec(0_u8..5, 0..40),
        values in prop::collection::vec(0_u8..5, 0..40),
    ) {
        let (mut pages, tree) = empty(512);
        let mut model = Model::new();
        insert_all(&mut pages, &tree, &mut model, &sorted(0..4, 10));
        let address = PageAddress::new(FILE, 2);
        let before = pages.read(address, <[u8]>::to_vec).unwrap();
        let operation = PageOperation {
            code: super::super::operation::INSERT_RUN,
            operand: slot,
            first: &keys,
            second: &values,
        };
        if pages.change(address, operation).is_err() {
            prop_assert_eq!(pages.read(address, <[u8]>::to_vec).unwrap(), before);
        }
    }
}

fn sorted(keys: std::ops::Range<u64>, value_bytes: usize) -> Records {
    keys.map(|key| (number(key).to_vec(), vec![3; value_bytes])).collect()
}

#[test]
fn records_in_order_make_full_leaves_one_change_for_each() {
    let (mut pages, tree) = empty(4096);
    let mut model = Model::new();
    let (_, counts) = insert_all(&mut pages, &tree, &mut model, &sorted(0..5000, 100));
    let report = assert_same(&pages, &tree, &model);
    let leaf_count = report.levels[0].page_count;
    assert!(leaf_count <= 5000 / 34, "36 records fill a leaf: {leaf_count} leaves");
    // A prefix that gets shorter ends a run, once in 256 keys.
    assert!(counts.len() as u64 <= leaf_count + 2 * 5000 / 256 + 2, "{} runs", counts.len());
}

#[test]
fn a_run_ends_where_other_records_begin() {
    let (mut pages, tree) = empty(512);
    let mut model = Model::new();
    let odd: Records = (0..400).map(|index| (number(10 * index).to_vec(), vec![3; 20])).collect();
    insert_all(&mut pages, &tree, &mut model, &odd);
    let ordered: Records = (0..400)
        .flat_map(|index| [10 * index + 3, 10 * index + 4, 10 * index + 7])
        .map(|key| (number(key).to_vec(), vec![4; 20]))
        .collect();
    let (_, counts) = insert_all(&mut pages, &tree, &mut model, &ordered);
    assert!(counts.iter().all(|&count| count <= 3), "three records lie between two others");
    assert!(counts.contains(&3), "and most of them come at once");
    assert_same(&pages, &tree, &model);
}

#[test]
fn what_is_too_large_for_a_leaf_ends_a_run_and_is_stored_all_the_same() {
    let (mut pages, tree) = empty(512);
    let mut model = Model::new();
    let mut records = sorted(0..30, 10);
    records[20].1 = vec![5; 3000];
    insert_all(&mut pages, &tree, &mut model, &records);
    assert_same(&pages, &tree, &model);
    let long = vec![(vec![1; 500], Vec::new())];
    let refused = tree.insert_run(&mut pages, &long, &mut Vec::new());
    assert!(matches!(refused, Err(StorageError::TooLarge { .. })), "{refused:?}");
}
