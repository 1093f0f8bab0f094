//! What the rows of TPC-C keep to, and that each condition is found broken.

use super::schema::{customer, district, item, new_order, order_line, orders, stock, warehouse};
use super::*;
use nandu_base::Rng;
use nandu_device::{Geometry, MemoryConfig, MemoryDevice};
use nandu_storage::database::{LoadOptions, WriteTransaction};
use nandu_storage::sqlite::{Value, ValueRef};
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Database, Settings, Volumes};
use std::collections::BTreeMap;

/// Less than TPC-C has, so that tests are short.
const SMALL: TpccScale = TpccScale { item_count: 500, customer_count: 40 };

type Rows = BTreeMap<TpccTable, Vec<Vec<Value>>>;

fn small(warehouse_count: u32) -> Tpcc {
    Tpcc::with_scale(warehouse_count, SMALL, 7).unwrap()
}

fn rows_of(fill: impl FnOnce(&mut TpccSink<'_>) -> Result<(), LoadError>) -> Rows {
    let mut rows = Rows::new();
    fill(&mut |table, row| {
        let row = row.iter().map(|value| value.to_value()).collect();
        rows.entry(table).or_default().push(row);
        Ok(())
    })
    .unwrap();
    rows
}

fn number(row: &[Value], column: usize) -> i64 {
    match row[column] {
        Value::Integer(number) => number,
        ref other => panic!("no number: {other:?}"),
    }
}

fn text(row: &[Value], column: usize) -> &str {
    match &row[column] {
        Value::Text(text) => text,
        other => panic!("no text: {other:?}"),
    }
}

fn empty_database() -> Database {
    let geometry = Geometry { sector_bytes: 512, sector_count: 64 << 11 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let data = Box::new(DeviceVolume::format(Box::new(device)).unwrap());
    let settings =
        Settings { log_bytes: 8 << 20, checkpoint_bytes: 2 << 20, ..Settings::default() };
    Database::create(Volumes::new(data, None), &settings, 1).unwrap()
}

fn database(tpcc: &Tpcc) -> Database {
    let database = empty_database();
    tpcc.store(&database, &LoadOptions::default(), &mut ()).unwrap();
    database
}

#[test]
fn a_warehouse_by_itself_has_the_rows_that_it_has_among_others() {
    let all = rows_of(|sink| small(3).rows(sink));
    let alone = rows_of(|sink| small(2).warehouse(2, sink));
    for (table, rows) in &alone {
        let of_second: Vec<_> =
            all[table].iter().filter(|row| number(row, 0) == 2).cloned().collect();
        assert_eq!(&of_second, rows, "{}", table.name());
    }
    assert_eq!(alone.len(), TpccTable::ALL.len() - 1, "all but the items");
}

#[test]
fn the_standard_has_the_rows_of_clause_4_3_3() {
    let tpcc = Tpcc::new(1, 3).unwrap();
    let mut counts = BTreeMap::<TpccTable, u64>::new();
    let (mut original_items, mut original_stocks, mut bad_credits) = (0, 0, 0);
    let (mut last_key, mut name_counts) = (BTreeMap::new(), BTreeMap::<String, u32>::new());
    tpcc.rows(&mut |table, row| {
        *counts.entry(table).or_default() += 1;
        let of = |column: usize| match row[column] {
            ValueRef::Text(text) => std::str::from_utf8(text).unwrap(),
            _ => panic!("no text"),
        };
        match table {
            TpccTable::Item => original_items += u32::from(of(item::I_DATA).contains("ORIGINAL")),
            TpccTable::Stock => {
                original_stocks += u32::from(of(stock::S_DATA).contains("ORIGINAL"));
            }
            TpccTable::Customer => {
                bad_credits += u32::from(of(customer::C_CREDIT) == "BC");
                *name_counts.entry(of(customer::C_LAST).to_owned()).or_default() += 1;
                assert!((300..=500).contains(&of(customer::C_DATA).len()));
            }
            _ => {}
        }
        let key: Vec<Value> =
            row[..table.key_column_count()].iter().map(|value| value.to_value()).collect();
        if let Some(last) = last_key.insert(table, key.clone()) {
            let rises = key.is_empty() || is_less(&last, &key);
            assert!(rises, "{}: {last:?} before {key:?}", table.name());
        }
        Ok(())
    })
    .unwrap();
    let lines = counts.remove(&TpccTable::OrderLine).unwrap();
    assert!((295_000..305_000).contains(&lines), "{lines}");
    for (&table, &count) in &counts {
        assert_eq!(count, tpcc.row_count(table), "{}", table.name());
    }
    let wanted = [(TpccTable::NewOrder, 9_000), (TpccTable::Stock, 100_000)];
    for (table, count) in wanted.into_iter().chain([(TpccTable::Orders, 30_000)]) {
        assert_eq!(counts[&table], count);
    }
    assert_eq!((original_items, original_stocks, bad_credits), (10_000, 10_000, 3_000));
    assert_eq!(name_counts.len(), 1000);
    assert!(name_counts.values().all(|&count| count >= 10), "each once in ten districts");
}

fn is_less(left: &[Value], right: &[Value]) -> bool {
    let order = left.iter().zip(right).map(|(one, other)| one.as_ref().compare(&other.as_ref()));
    order.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then).is_lt()
}

#[test]
fn each_customer_of_a_district_has_one_order_and_the_last_are_new() {
    let rows = rows_of(|sink| small(1).rows(sink));
    let of_first = |table: TpccTable| -> Vec<&Vec<Value>> {
        rows[&table].iter().filter(|row| number(row, 1) == 1).collect()
    };
    let mut customers: Vec<i64> =
        of_first(TpccTable::Orders).iter().map(|row| number(row, orders::O_C_ID)).collect();
    assert!(!customers.is_sorted(), "a permutation");
    customers.sort_unstable();
    assert_eq!(customers, (1..=40).collect::<Vec<_>>());
    let new: Vec<i64> =
        of_first(TpccTable::NewOrder).iter().map(|row| number(row, new_order::NO_O_ID)).collect();
    assert_eq!(new, (29..=40).collect::<Vec<_>>());
    for row in of_first(TpccTable::OrderLine) {
        let is_new = number(row, order_line::OL_O_ID) >= 29;
        assert_eq!(row[order_line::OL_DELIVERY_D] == Value::Null, is_new);
        assert_eq!(number(row, order_line::OL_AMOUNT) == 0, !is_new);
        assert_eq!(text(row, order_line::OL_DIST_INFO).len(), 24);
    }
    let zip = text(&rows[&TpccTable::Warehouse][0], warehouse::W_ZIP);
    assert!(zip.len() == 9 && zip.ends_with("11111"), "{zip}");
    assert_eq!(number(&rows[&TpccTable::District][0], district::D_NEXT_O_ID), 41);
}

#[test]
fn names_and_uneven_numbers_are_those_of_the_specification() {
    assert_eq!(last_name(371), "PRICALLYOUGHT");
    assert_eq!((last_name(0), last_name(40)), ("BARBARBAR".into(), "BARPRESBAR".into()));
    for seed in 0..200 {
        let NurandConstants { name_load, name_run, customer, item } =
            NurandConstants::of_seed(seed);
        let delta = name_load.abs_diff(name_run);
        assert!((65..=119).contains(&delta) && delta != 96 && delta != 112, "{delta}");
        assert!(name_load.max(name_run) <= 255 && customer <= 1023 && item <= 8191);
    }
    // The bits of both draws are united, so numbers of many ones come often.
    let mut rng = Rng::new(1);
    let mut counts = [0_u32; 1000];
    for _ in 0..1_000_000 {
        counts[nandu_base::to_index(nurand(&mut rng, (255, 0), 0, 999))] += 1;
    }
    assert!(counts.iter().all(|&count| count > 0));
    assert!(counts[255] > 20 * counts[256], "{} and {}", counts[255], counts[256]);
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    for count in [0, 1_000_001] {
        let said = Tpcc::new(count, 1).unwrap_err().to_string();
        assert!(said.contains("make no sense; from 1 to 1000000"), "{said}");
    }
    for (item_count, customer_count) in [(99, 10), (100, 15), (100, 0), (100_001, 10)] {
        let scale = TpccScale { item_count, customer_count };
        assert!(Tpcc::with_scale(1, scale, 1).is_err(), "{scale:?}");
    }
}

#[test]
fn loaded_tables_are_sound_and_all_conditions_hold() {
    let database = database(&small(2));
    let report = database.read().check().unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let found = check(&database.read()).unwrap();
    assert!(found.is_sound(), "{found:?}");
    let compared: Vec<u64> =
        found.conditions.iter().map(|condition| condition.compared_count).collect();
    let lines = compared[6];
    assert_eq!(compared, [2, 20, 20, 20, 800, 800, lines, 2, 20, 800, 20, 800]);
    assert!(lines > 4000, "{lines}");
    let said = small(2).store(&database, &LoadOptions::default(), &mut ()).unwrap_err();
    assert!(said.to_string().contains("table item"), "{said}");
}

#[test]
fn a_load_that_is_cancelled_leaves_no_table() {
    struct Tired(u32);
    impl TpccObserver for Tired {
        fn warehouses_stored(&mut self, _warehouse_count: f64) {
            self.0 += 1;
        }
        fn is_cancelled(&self) -> bool {
            self.0 == 3
        }
    }
    let database = empty_database();
    let answer = small(1).store(&database, &LoadOptions::default(), &mut Tired(0));
    assert!(matches!(answer, Err(LoadError::Cancelled)), "{answer:?}");
    assert_eq!(database.read().definitions().unwrap().count(), 0);
}

/// Changes a column of the row with a key.
fn set(write: &mut WriteTransaction<'_>, table: TpccTable, key: &[i64], column: usize, to: Value) {
    let key: Vec<ValueRef<'_>> = key.iter().map(|&number| ValueRef::Integer(number)).collect();
    let row = write.get_by_key(table.name(), &key, |row| {
        row.columns().map(ValueRef::to_value).collect::<Vec<_>>()
    });
    let mut row = row.unwrap().unwrap();
    row[column] = to;
    let row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
    write.put(table.name(), &row).unwrap();
}

fn delete(write: &mut WriteTransaction<'_>, table: TpccTable, key: &[i64]) {
    let key: Vec<ValueRef<'_>> = key.iter().map(|&number| ValueRef::Integer(number)).collect();
    assert!(write.delete_by_key(table.name(), &key).unwrap());
}

/// Which conditions are broken by a change.
fn broken_by(
    database: &Database,
    change: impl FnOnce(&mut WriteTransaction<'_>),
) -> Vec<(usize, u64)> {
    let mut write = database.write().unwrap();
    change(&mut write);
    let found = check(&write).unwrap();
    write.rollback().unwrap();
    for condition in found.broken() {
        assert!(!condition.findings.is_empty(), "{condition:?}");
    }
    found.broken().map(|condition| (condition.number, condition.broken_count)).collect()
}

#[test]
fn each_condition_is_found_broken_and_named() {
    use TpccTable::{Customer, District, NewOrder, OrderLine, Orders, Warehouse};
    let database = &database(&small(1));
    let integer = Value::Integer;
    let broken = broken_by(database, |write| {
        set(write, Warehouse, &[1], warehouse::W_YTD, integer(399_999));
    });
    assert_eq!(broken, [(1, 1), (8, 1)]);
    // Paid in one district, and booked in another.
    let broken = broken_by(database, |write| {
        set(write, District, &[1, 3], district::D_YTD, integer(39_000));
        set(write, District, &[1, 4], district::D_YTD, integer(41_000));
    });
    assert_eq!(broken, [(9, 2)]);
    let broken = broken_by(database, |write| {
        set(write, District, &[1, 3], district::D_NEXT_O_ID, integer(42));
    });
    assert_eq!(broken, [(2, 1)]);
    let broken = broken_by(database, |write| delete(write, NewOrder, &[1, 2, 30]));
    assert_eq!(broken, [(3, 1), (5, 1), (11, 1)]);
    // An order that was delivered, and is still listed.
    let broken = broken_by(database, |write| {
        set(write, Orders, &[1, 2, 30], orders::O_CARRIER_ID, integer(1));
        let mut number = 1;
        while write
            .get_by_key(OrderLine.name(), &[1, 2, 30, number].map(ValueRef::Integer), |_| ())
            .unwrap()
            .is_some()
        {
            let key = [1, 2, 30, number];
            set(write, OrderLine, &key, order_line::OL_AMOUNT, integer(0));
            set(write, OrderLine, &key, order_line::OL_DELIVERY_D, integer(LOAD_MOMENT_US));
            number += 1;
        }
    });
    assert_eq!(broken, [(5, 1)]);
    // The first lines of two orders: one that is delivered has no amount.
    let broken = broken_by(database, |write| delete(write, OrderLine, &[1, 1, 1, 1]));
    assert_eq!(broken, [(4, 1), (6, 1)]);
    let broken = broken_by(database, |write| {
        set(write, OrderLine, &[1, 1, 1, 1], order_line::OL_DELIVERY_D, Value::Null);
    });
    assert_eq!(broken, [(7, 1)]);
    let broken = broken_by(database, |write| {
        set(write, Customer, &[1, 5, 6], customer::C_BALANCE, integer(-1001));
    });
    assert_eq!(broken, [(10, 1), (12, 1)]);
    let broken = broken_by(database, |write| {
        set(write, Customer, &[1, 5, 6], customer::C_DELIVERY_CNT, integer(1));
    });
    assert_eq!(broken, [(11, 1)]);
    let broken = broken_by(database, |write| {
        set(write, Customer, &[1, 5, 6], customer::C_YTD_PAYMENT, integer(2000));
    });
    assert_eq!(broken, [(12, 1)]);
}

#[test]
fn a_line_without_an_order_and_a_lost_payment_are_found() {
    let database = &database(&small(1));
    let broken = broken_by(database, |write| {
        let line = [1, 10, 99, 1, 1, 1].map(ValueRef::Integer);
        let mut row = line.to_vec();
        row.extend([ValueRef::Null, ValueRef::Integer(5), ValueRef::Integer(0)]);
        row.push(ValueRef::Text(b"x"));
        write.insert(TpccTable::OrderLine.name(), &row).unwrap();
    });
    assert_eq!(broken, [(4, 1), (7, 1)]);
    let broken = broken_by(database, |write| write.delete(TpccTable::History.name(), 1).unwrap());
    assert_eq!(broken, [(8, 1), (9, 1), (10, 1)]);
}

#[test]
fn rows_that_are_lost_are_found_by_those_that_name_them() {
    let database = &database(&small(2));
    let broken = broken_by(database, |write| delete(write, TpccTable::Warehouse, &[2]));
    let customers = u64::from(SMALL.customer_count) * 10;
    assert_eq!(broken, [(8, 1), (9, 10), (10, customers)]);
    let broken = broken_by(database, |write| delete(write, TpccTable::Customer, &[1, 1, 7]));
    assert!(broken.contains(&(10, 1)) && broken.contains(&(12, 1)), "{broken:?}");
    let broken = broken_by(database, |write| {
        delete(write, TpccTable::Warehouse, &[1]);
        delete(write, TpccTable::Warehouse, &[2]);
    });
    assert_eq!(broken, [(1, 1), (8, 2), (9, 20), (10, 2 * customers)]);
}
