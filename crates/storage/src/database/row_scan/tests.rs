//! Ranges against a model, forward and backward, in snapshots and in transactions.

use super::*;
use crate::database::{Column, ColumnType, Database, Isolation, LoadOptions, NewTable, TableKind};
use crate::sqlite::Value;
use crate::volume::DeviceVolume;
use crate::{Settings, Volumes};
use nandu_base::Rng;
use nandu_device::{Geometry, MemoryConfig, MemoryDevice};

const LOW: i64 = -20;
const HIGH: i64 = 20;

/// A database with the clustered table `pairs` of the key (real, id), the heap `things` with an index on
/// the same columns, and `packed` in PAX pages, all of the same rows: their columns are text, id, real.
fn filled() -> (Database, Vec<Row>) {
    let geometry = Geometry { sector_bytes: 512, sector_count: 64 << 11 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let data = Box::new(DeviceVolume::format(Box::new(device)).unwrap());
    let settings = Settings {
        page_bytes: 512,
        pool_bytes: 64 << 10,
        log_bytes: 4 << 20,
        checkpoint_bytes: 128 << 10,
        lock_timeout_ns: 0,
        ..Settings::default()
    };
    let database = Database::create(Volumes::new(data, None), &settings, 1).unwrap();
    let mut rng = Rng::for_part(3, "rows");
    let mut rows = Vec::new();
    for real in LOW..HIGH {
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let real = Value::Real(real as f64);
        for id in 0..rng.below(6) {
            let text = "t".repeat(nandu_base::to_index(rng.below(90)));
            rows.push(vec![Value::Text(text), Value::Integer(id.cast_signed()), real.clone()]);
        }
    }
    let columns = || {
        vec![
            Column::new("text", ColumnType::Text),
            Column::new("id", ColumnType::Integer),
            Column::new("real", ColumnType::Real),
        ]
    };
    let mut arriving = rows.clone();
    rng.shuffle(&mut arriving);
    let mut write = database.write().unwrap();
    write.create_table("pairs", columns(), TableKind::Clustered { key: vec![2, 1] }).unwrap();
    write.create_table("things", columns(), TableKind::Heap).unwrap();
    write.create_index("things", "by_real", &["real", "id"]).unwrap();
    for row in &arriving {
        write.insert("pairs", &refs(row)).unwrap();
        write.insert("things", &refs(row)).unwrap();
    }
    let (name, kind) = ("packed".to_owned(), TableKind::Pax { span_pages: 8 });
    let packed = NewTable { name, columns: columns(), kind, indexes: Vec::new() };
    let fill = |load: &mut crate::database::TableLoad<'_>| -> Result<(), StorageError> {
        arriving.iter().try_for_each(|row| load.push(&refs(row)))
    };
    write.load_table(&packed, &LoadOptions::default(), fill).unwrap();
    write.commit().unwrap();
    (database, rows)
}

fn refs(row: &Row) -> Vec<ValueRef<'_>> {
    row.iter().map(Value::as_ref).collect()
}

fn all(scan: RowScan<'_>) -> Vec<Row> {
    scan.collect::<Result<_, _>>().unwrap()
}

/// A bound of the first one or two columns of the key.
fn bound(rng: &mut Rng) -> Bound<Vec<Value>> {
    let real = Value::Integer(LOW - 2 + rng.below(44).cast_signed());
    let mut values = vec![real];
    if rng.below(2) == 0 {
        values.push(Value::Integer(rng.below(6).cast_signed()));
    }
    match rng.below(3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(values),
        _ => Bound::Excluded(values),
    }
}

/// Whether a row lies behind a lower bound, or before an upper one.
fn is_within(row: &Row, bound: &Bound<Vec<Value>>, is_lower: bool) -> bool {
    let compare = |values: &[Value]| {
        let key = [&row[2], &row[1]];
        let orders =
            values.iter().zip(key).map(|(value, key)| key.as_ref().compare(&value.as_ref()));
        orders.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    };
    let order =
        |values: &[Value]| if is_lower { compare(values) } else { compare(values).reverse() };
    match bound {
        Bound::Unbounded => true,
        Bound::Included(values) => order(values).is_ge(),
        Bound::Excluded(values) => order(values).is_gt(),
    }
}

#[test]
fn ranges_are_those_of_a_model_by_key_and_by_index_in_both_directions() {
    let (database, rows) = filled();
    let (snapshot, write) = (database.snapshot(), database.write().unwrap());
    let mut rng = Rng::for_part(4, "ranges");
    for _ in 0..300 {
        let (lower, upper) = (bound(&mut rng), bound(&mut rng));
        let mut wanted: Vec<Row> = rows
            .iter()
            .filter(|row| is_within(row, &lower, true) && is_within(row, &upper, false))
            .cloned()
            .collect();
        let (lower, upper) = (lower.as_ref().map(refs), upper.as_ref().map(refs));
        let bounds = (lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice));
        let ahead_count = nandu_base::to_index(rng.below(4));
        let by_key = RowRange::of("pairs").between(bounds).with_ahead_count(ahead_count);
        let by_index = RowRange::of("things").by_index("by_real").between(bounds);
        for range in [by_key, by_index] {
            assert_eq!(all(snapshot.rows(range).unwrap()), wanted, "{range:?}");
            assert_eq!(all(write.rows(range).unwrap()), wanted, "{range:?}");
        }
        wanted.reverse();
        for range in [by_key.backward(), by_index.backward()] {
            assert_eq!(all(snapshot.rows(range).unwrap()), wanted, "{range:?}");
        }
    }
}

#[test]
fn any_number_of_leaves_may_be_asked_for_ahead() {
    let (database, rows) = filled();
    let snapshot = database.snapshot();
    for count in [0, 1, usize::MAX - 1, usize::MAX] {
        let range = RowRange::of("pairs").with_ahead_count(count);
        assert_eq!(all(snapshot.rows(range).unwrap()), rows, "{count}");
        let mut back = all(snapshot.rows(range.backward()).unwrap());
        back.reverse();
        assert_eq!(back, rows, "{count}");
        let range = RowRange::of("things").by_index("by_real").with_ahead_count(count);
        assert_eq!(all(snapshot.rows(range).unwrap()), rows, "{count}");
        for table in ["things", "packed"] {
            let range = RowRange::of(table).with_ahead_count(count);
            assert_eq!(all(snapshot.rows(range).unwrap()).len(), rows.len(), "{table} {count}");
        }
    }
}

#[test]
fn a_whole_table_comes_with_the_numbers_that_get_knows() {
    let (database, rows) = filled();
    let read = database.read();
    assert_eq!(all(read.rows("pairs").unwrap()), rows);
    for table in ["things", "packed"] {
        let mut scan = read.rows(table).unwrap();
        let mut numbers = Vec::new();
        while let Some(row) = scan.next() {
            let number = scan.row_number();
            assert_eq!(read.row(table, number).unwrap(), Some(row.unwrap()));
            numbers.push(number);
        }
        assert_eq!(numbers, (1..=rows.len() as i64).collect::<Vec<_>>(), "{table}");
        assert!(scan.next().is_none(), "an end is an end");
    }
}

#[test]
fn rows_of_a_snapshot_go_to_another_thread_and_outlive_it() {
    const fn assert_is_free<T: Send + Sync + 'static>(_: &T) {}
    let (database, rows) = filled();
    let snapshot = database.snapshot();
    let scans = ["pairs", "things"].map(|table| snapshot.rows(table).unwrap());
    assert_is_free(&scans);
    drop(snapshot);
    let mut write = database.write().unwrap();
    for row in &rows {
        write.delete_by_key("pairs", &[row[2].as_ref(), row[1].as_ref()]).unwrap();
    }
    write.commit().unwrap();
    let handle = database.clone();
    let counts = std::thread::spawn(move || {
        drop(handle);
        scans.map(|scan| all(scan).len())
    });
    assert_eq!(counts.join().unwrap(), [rows.len(); 2]);
    assert!(all(database.snapshot().rows("pairs").unwrap()).is_empty());
    let scan = database.snapshot().rows("things").unwrap();
    let refused = database.clone().close().unwrap_err();
    assert!(refused.to_string().contains("in use"), "{refused}");
    drop(scan);
    database.close().unwrap();
}

#[test]
fn a_transaction_sees_its_own_changes_at_either_level() {
    for isolation in Isolation::ALL {
        let (database, rows) = filled();
        let mut write = database.write_with(isolation).unwrap();
        let new = vec![Value::from("new"), Value::Integer(0), Value::Real(100.0)];
        write.put("pairs", &refs(&new)).unwrap();
        write.insert("things", &refs(&new)).unwrap();
        let from = [ValueRef::Integer(HIGH)];
        for range in [RowRange::of("pairs"), RowRange::of("things").by_index("by_real")] {
            let found = all(write.rows(range.at_least(&from)).unwrap());
            assert_eq!(found, std::slice::from_ref(&new), "{isolation:?}");
            assert_eq!(all(write.rows(range).unwrap()).len(), rows.len() + 1);
        }
        drop(write);
        assert_eq!(all(database.read().rows("things").unwrap()).len(), rows.len());
    }
}

#[test]
fn a_range_is_locked_before_its_first_row_is_read_and_nothing_beside_it() {
    let (database, _) = filled();
    let thing = |real| [ValueRef::Null, ValueRef::Integer(9), ValueRef::Real(real)];
    let (from, to) = ([ValueRef::Integer(3)], [ValueRef::Integer(5)]);
    for range in [RowRange::of("pairs"), RowRange::of("things").by_index("by_real")] {
        let (first, mut second) = (database.write().unwrap(), database.write().unwrap());
        let scan = first.rows(range.at_least(&from).less_than(&to)).unwrap();
        for table in ["pairs", "things"] {
            let is_kept_out =
                second.insert(table, &thing(4.0)).is_err_and(|error| error.is_transient());
            assert_eq!(is_kept_out, table == scan.definition().name, "{range:?}");
        }
        second.insert(&scan.definition().name.clone(), &thing(5.0)).unwrap();
    }
}

#[test]
fn a_row_of_an_index_is_read_as_it_is_once_it_is_locked() {
    let (database, _) = filled();
    let key = [ValueRef::Integer(100)];
    let mut write = database.write().unwrap();
    let row = |text| [ValueRef::Text(text), ValueRef::Integer(0), ValueRef::Real(100.0)];
    let number = write.insert("things", &row(b"before")).unwrap();
    write.commit().unwrap();
    let (first, mut second) = (database.write().unwrap(), database.write().unwrap());
    let range = RowRange::of("things").by_index("by_real").within(&key);
    let mut scan = first.rows(range).unwrap();
    // Its key stays, so the range does not keep the other out.
    second.update("things", number, &row(b"after")).unwrap();
    second.commit().unwrap();
    assert_eq!(scan.next().unwrap().unwrap()[0], Value::from("after"));
    assert_eq!(scan.row_number(), number);
}

#[test]
fn an_integer_is_a_key_of_reals_wherever_keys_are_given() {
    let (database, _) = filled();
    let mut write = database.write().unwrap();
    write.put("pairs", &[ValueRef::Null, ValueRef::Integer(1), ValueRef::Integer(50)]).unwrap();
    let key = [ValueRef::Integer(50), ValueRef::Integer(1)];
    write.claim_by_key("pairs", &key).unwrap();
    assert!(write.get_by_key("pairs", &key, |_| ()).unwrap().is_some());
    let mut found = 0;
    let keys = [vec![Value::Integer(50), Value::Integer(1)]];
    write.get_batch_by_key("pairs", &keys, |_, _| found += 1).unwrap();
    assert_eq!(found, 1);
    let bounds = (Bound::Included(&key[..1]), Bound::Unbounded);
    write
        .scan_by_key("pairs", bounds, 0, |_| {
            found += 1;
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(found, 2);
    assert!(write.delete_by_key("pairs", &key).unwrap());
}

#[test]
fn what_is_no_range_is_told_with_table_and_column() {
    let (database, _) = filled();
    let read = database.read();
    let (text, one) = ([ValueRef::Text(b"x")], [ValueRef::Integer(1)]);
    let (three, odd) = ([ValueRef::Integer(1); 3], [ValueRef::Integer((1 << 53) + 1)]);
    let things = RowRange::of("things");
    for (range, told) in [
        (RowRange::of("pears"), "table pears; did you mean `pairs`?"),
        (things.by_index("by_id"), "index by_id of things"),
        (RowRange::of("pairs").by_index("by_id"), "table pairs is clustered"),
        (
            RowRange::of("pairs").at_least(&text),
            "a text of 1 byte does not fit column real of pairs",
        ),
        (things.by_index("by_real").at_most(&text), "does not fit column real of things"),
        (
            RowRange::of("pairs").within(&three),
            "the key of table pairs is of 2 columns (real, id), but there are 3 values",
        ),
        (RowRange::of("pairs").at_least(&odd), "9007199254740993, which no double is exactly"),
        (things.at_least(&one), "table things is stored in the order of arrival"),
        (RowRange::of("packed").backward(), "table packed is stored in the order of arrival"),
    ] {
        let error = read.rows(range).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
    let error = read.get_by_key("pairs", &one, |_| ()).unwrap_err().to_string();
    assert!(error.contains("is of 2 columns (real, id), but there is 1 value"), "{error}");
}
