//! The papers' rows: how many, how wide, whose orders.

use super::*;
use std::collections::BTreeMap;

type Rows = Vec<(Vec<i64>, Vec<u8>)>;

fn rows(width: RowWidth, table: TpchTable, scale_factor: f64, order: KeyOrder, seed: u64) -> Rows {
    let table = KeyedTable::of(width, table).unwrap();
    let mut source = KeyedRows::new(table, scale_factor, order, seed).unwrap();
    let mut rows = Vec::new();
    let mut keep = |row: &[ValueRef<'_>]| {
        let (pad, keys) = row.split_last().unwrap();
        let ValueRef::Blob(pad) = pad else { panic!("padding is bytes") };
        let key = |value: &ValueRef<'_>| match value {
            ValueRef::Integer(key) => *key,
            other => panic!("{other:?} is no key"),
        };
        rows.push((keys.iter().map(key).collect(), pad.to_vec()));
        Ok(())
    };
    while source.next_rows(&mut keep).unwrap() {}
    assert_eq!(source.fraction(), 1.0);
    rows
}

#[test]
fn both_orders_have_the_same_rows_and_a_seed_makes_others() {
    for table in [TpchTable::Customer, TpchTable::Orders] {
        let by_key = rows(RowWidth::S000, table, 0.01, KeyOrder::Key, 7);
        let random = rows(RowWidth::S000, table, 0.01, KeyOrder::Random, 7);
        assert!(by_key.is_sorted_by_key(|row| row.0[0]));
        assert!(!random.is_sorted_by_key(|row| row.0[0]));
        assert_eq!(random, rows(RowWidth::S000, table, 0.01, KeyOrder::Random, 7));
        let mut sorted = random;
        sorted.sort();
        assert_eq!(sorted, by_key);
        assert_ne!(by_key, rows(RowWidth::S000, table, 0.01, KeyOrder::Key, 8));
    }
}

#[test]
fn widths_and_counts_are_those_of_the_papers() {
    let customers = rows(RowWidth::S001, TpchTable::Customer, 0.3, KeyOrder::Random, 1);
    let orders = rows(RowWidth::S001, TpchTable::Orders, 0.3, KeyOrder::Random, 1);
    assert_eq!((customers.len(), orders.len()), (45_000, 450_000));
    assert!(customers.iter().all(|(keys, pad)| keys.len() == 1 && pad.len() == 130));
    assert!(orders.iter().all(|(keys, pad)| keys.len() == 1 && pad.len() == 90));
    let orders = rows(RowWidth::S000, TpchTable::Orders, 0.001, KeyOrder::Key, 1);
    assert!(orders.iter().all(|(keys, pad)| keys.len() == 2 && pad.len() == 128));
}

#[test]
fn every_customer_has_about_as_many_orders_but_a_third_that_has_none() {
    let customer_count = 1500;
    let mut counts = BTreeMap::new();
    for (keys, _) in rows(RowWidth::S000, TpchTable::Orders, 0.01, KeyOrder::Key, 3) {
        *counts.entry(keys[1]).or_insert(0_u32) += 1;
    }
    assert_eq!(counts.len(), 1000);
    assert!(counts.keys().all(|key| key % 3 != 0 && (1..=customer_count).contains(key)));
    // 15 on average, so Poisson's 3 to 35 with near certainty.
    assert!(counts.values().all(|count| (2..=40).contains(count)), "{counts:?}");
}

#[test]
fn scales_without_rows_are_refused() {
    let table = KeyedTable::of(RowWidth::S001, TpchTable::Customer).unwrap();
    for scale_factor in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-9] {
        assert!(KeyedRows::new(table, scale_factor, KeyOrder::Key, 1).is_err());
    }
    assert!(KeyedTable::of(RowWidth::S001, TpchTable::Part).is_none());
}
