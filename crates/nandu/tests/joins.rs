//! Joins through the short door, against pairs that a loop finds.

#![cfg(feature = "joins")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use nandu::join::JoinType;
use nandu::{
    Column, ColumnType, Database, DatabaseOptions, Flow, LoadOptions, NewTable, Row, StorageError,
    TableKind, TableLoad, Value,
};
use std::path::Path;

const CUSTOMERS: i64 = 60;
const ORDERS: i64 = 400;

/// A database with both tables in each of the three kinds, named by it; every third order has a customer
/// that is not there, every seventh none.
fn filled(directory: &Path) -> (Database, Vec<Row>, Vec<Row>) {
    let mut options = DatabaseOptions::default();
    options.settings.pool_bytes = 2 << 20;
    (options.settings.log_bytes, options.settings.checkpoint_bytes) = (4 << 20, 1 << 20);
    let database = nandu::create_database(directory, &options).unwrap();
    let customers: Vec<Row> = (0..CUSTOMERS)
        .map(|key| vec![Value::Integer(key), Value::Text(format!("customer {key}"))])
        .collect();
    let of = |number: i64| match number {
        _ if number % 7 == 0 => Value::Null,
        _ if number % 3 == 0 => Value::Integer(CUSTOMERS + number),
        _ => Value::Integer(number % CUSTOMERS / 2),
    };
    let orders: Vec<Row> =
        (0..ORDERS).map(|number| vec![Value::Integer(number), of(number)]).collect();
    let mut write = database.write().unwrap();
    for (suffix, kind) in [
        ("heap", TableKind::Heap),
        ("tree", TableKind::Clustered { key: vec![0] }),
        ("pax", TableKind::Pax { span_pages: 8 }),
    ] {
        let columns = [
            [("c_key", ColumnType::Integer), ("c_name", ColumnType::Text)],
            [("o_key", ColumnType::Integer), ("o_customer", ColumnType::Integer)],
        ];
        for ((name, columns), rows) in
            ["customer", "orders"].into_iter().zip(columns).zip([&customers, &orders])
        {
            let table = NewTable {
                name: format!("{name}_{suffix}"),
                columns: columns.map(|(name, kind)| Column::new(name, kind)).to_vec(),
                kind: kind.clone(),
                indexes: match suffix {
                    "heap" => vec![("by_key".to_owned(), vec![columns[0].0.to_owned()])],
                    _ => Vec::new(),
                },
            };
            let fill = |load: &mut TableLoad<'_>| -> Result<(), StorageError> {
                rows.iter().try_for_each(|row| {
                    load.push(&row.iter().map(Value::as_ref).collect::<Vec<_>>())
                })
            };
            write.load_table(&table, &LoadOptions::default(), fill).unwrap();
        }
    }
    write.commit().unwrap();
    (database, customers, orders)
}

type Pairs = Vec<(Option<Row>, Option<Row>)>;

fn sorted(mut pairs: Pairs) -> Pairs {
    pairs.sort_by_key(|pair| format!("{pair:?}"));
    pairs
}

fn looped(customers: &[Row], orders: &[Row], join_type: JoinType) -> Pairs {
    let is_pair = |customer: &Row, order: &Row| customer[0] == order[1];
    let some = |row: &Row| Some(row.clone());
    let mut pairs = Pairs::new();
    for customer in customers {
        let partners: Vec<&Row> = orders.iter().filter(|order| is_pair(customer, order)).collect();
        match join_type {
            JoinType::Semi if !partners.is_empty() => pairs.push((some(customer), None)),
            JoinType::Anti | JoinType::Left | JoinType::Full if partners.is_empty() => {
                pairs.push((some(customer), None));
            }
            JoinType::Semi | JoinType::Anti => {}
            _ => pairs.extend(partners.iter().map(|order| (some(customer), some(order)))),
        }
    }
    if matches!(join_type, JoinType::Right | JoinType::Full) {
        let alone = orders.iter().filter(|order| !customers.iter().any(|it| is_pair(it, order)));
        pairs.extend(alone.map(|order| (None, some(order))));
    }
    sorted(pairs)
}

#[test]
fn joins_of_all_types_and_kinds_of_tables_give_the_pairs_of_a_loop() {
    let place = tempfile::tempdir().unwrap();
    let (database, customers, orders) = filled(&place.path().join("shop"));
    let snapshot = database.snapshot();
    let types = [
        JoinType::Inner,
        JoinType::Left,
        JoinType::Right,
        JoinType::Full,
        JoinType::Semi,
        JoinType::Anti,
    ];
    for (left, right) in [("heap", "heap"), ("tree", "pax"), ("pax", "heap"), ("heap", "tree")] {
        for join_type in types {
            let (left, right) = (format!("customer_{left}"), format!("orders_{right}"));
            let join = nandu::join(&snapshot, &left, &right).on("c_key", "o_customer");
            let join = join.join_type(join_type).memory_bytes(512 << 10);
            let wanted = looped(&customers, &orders, join_type);
            for threads in [1, 3] {
                let pairs = sorted(join.clone().threads(threads).pairs().unwrap());
                assert_eq!(pairs, wanted, "{left} {right} {join_type:?} by {threads}");
            }
        }
    }
}

#[test]
fn a_join_sees_its_snapshot_and_gives_its_memory_back() {
    let place = tempfile::tempdir().unwrap();
    let (database, customers, orders) = filled(&place.path().join("shop"));
    let snapshot = database.snapshot();
    let mut write = database.write().unwrap();
    write.delete_by_key_as("customer_tree", &1).unwrap();
    write.insert_as("orders_heap", &(ORDERS, 2)).unwrap();
    // Of the transaction: one customer less, one order more.
    let join = nandu::join(&write, "customer_tree", "orders_heap").on("c_key", "o_customer");
    let wanted = |key: i64| {
        let row = |row: &&Row| row[1] == Value::Integer(key);
        orders.iter().filter(row).count()
    };
    let all = looped(&customers, &orders, JoinType::Inner).len();
    assert_eq!(join.pairs().unwrap().len(), all - wanted(1) + 1);
    write.commit().unwrap();
    let join = nandu::join(&snapshot, "customer_tree", "orders_heap").on("c_key", "o_customer");
    for _ in 0..20 {
        assert_eq!(join.pairs().unwrap().len(), all, "half of the pool, again and again");
    }
    let mut count = 0;
    let kind = join.for_each(|_, _| {
        count += 1;
        if count < 3 { Flow::Continue(()) } else { Flow::Break(()) }
    });
    assert_eq!((kind.unwrap(), count), (join.plan().unwrap().kind, 3), "it is broken off");
}

#[test]
fn threads_share_a_join_and_end_together() {
    let place = tempfile::tempdir().unwrap();
    let (database, customers, orders) = filled(&place.path().join("shop"));
    let snapshot = database.snapshot();
    let all = looped(&customers, &orders, JoinType::Inner).len();
    let join = nandu::join(&snapshot, "customer_pax", "orders_pax").on("c_key", "o_customer");
    let join = join.memory_bytes(512 << 10);
    for threads in [0, 1, 2, 3, 1000, u32::MAX] {
        let join = join.clone().threads(threads);
        let counts = join
            .fold(
                || 0,
                |count, _, _| {
                    *count += 1;
                    Flow::Continue(())
                },
            )
            .unwrap();
        assert_eq!(counts.iter().sum::<usize>(), all, "{threads} threads");
        // A closure is never in two threads at a time, and not called any more once it broke off.
        let mut count = 0;
        let answer = join.for_each(|_, _| {
            count += 1;
            if count < 5 { Flow::Continue(()) } else { Flow::Break(()) }
        });
        assert_eq!((answer, count), (Ok(join.plan().unwrap().kind), 5), "{threads} threads");
        assert_eq!(join.pairs().unwrap().len(), all, "the memory came back");
    }
    // More threads are worth it where the processor counts.
    let [alone, shared] = [1, 2].map(|threads| join.clone().threads(threads).plan().unwrap());
    assert!(shared.time < alone.time, "{shared:?}, {alone:?}");
}

#[test]
fn what_is_no_join_is_told_in_words() {
    let place = tempfile::tempdir().unwrap();
    let (database, ..) = filled(&place.path().join("shop"));
    let mut write = database.write().unwrap();
    write.create_raw_table("raw").unwrap();
    write.commit().unwrap();
    let snapshot = database.snapshot();
    let join = |left: &str, right: &str| nandu::join(&snapshot, left, right);
    let heaps = || join("customer_heap", "orders_heap");
    for (join, told) in [
        (heaps(), "compares nothing; name columns with `on`"),
        (join("customer", "orders_heap").on("c_key", "o_key"), "table customer"),
        (
            heaps().on("c_kee", "o_key"),
            "column c_kee in table customer_heap; did you mean `c_key`?",
        ),
        (heaps().on("c_name", "o_key"), "c_name"),
        (heaps().on("c_key", "o_key").memory_bytes(4096), "no join can be done in 4 KiB of memory"),
        (heaps().on("c_key", "o_key").memory_bytes(1 << 40), "frames"),
        // Neither are sinks made for so many threads before the memory is there.
        (heaps().on("c_key", "o_key").memory_bytes(u64::MAX).threads(u32::MAX), "512 frames"),
        (join("customer_heap", "raw").on("c_key", "key"), "table raw is "),
        (join("raw", "orders_heap").on("value", "o_key"), "joins do not read it"),
    ] {
        let error = join.pairs().unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
        let error = join.for_each(|_, _| Flow::Continue(())).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}
