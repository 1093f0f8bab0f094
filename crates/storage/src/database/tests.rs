//! Tables against a model, across savepoints, rollbacks, crashes and openings.

use super::*;
use crate::sqlite::{RecordView, Value, ValueRef};
use crate::volume::DeviceVolume;
use nandu_base::Rng;
use nandu_device::{Geometry, MemoryConfig, MemoryDevice, SharedDevice};
use std::collections::BTreeMap;
use std::ops::Bound;

type TestDevice = SharedDevice<MemoryDevice>;

fn device() -> TestDevice {
    let geometry = Geometry { sector_bytes: 512, sector_count: 64 << 11 };
    SharedDevice::new(MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() }))
}

fn settings() -> Settings {
    Settings {
        page_bytes: 1024,
        pool_bytes: 64 << 10,
        log_bytes: 4 << 20,
        checkpoint_bytes: 128 << 10,
        ..Settings::default()
    }
}

fn create(device: &TestDevice) -> Database {
    let data = Box::new(DeviceVolume::format(Box::new(device.clone())).unwrap());
    Database::create(Volumes::new(data, None), &settings(), 1).unwrap()
}

fn open(device: &TestDevice) -> Database {
    device.forget_completions();
    let data = Box::new(DeviceVolume::open(Box::new(device.clone())).unwrap());
    Database::open(Volumes::new(data, None), &settings()).unwrap().0
}

fn columns() -> Vec<Column> {
    vec![
        Column::new("id", ColumnType::Integer).not_null(),
        Column::new("name", ColumnType::Text),
        Column::new("price", ColumnType::Real),
        Column::new("data", ColumnType::Blob),
    ]
}

fn row_for(rng: &mut Rng) -> Row {
    let id = Value::Integer(rng.below(50).cast_signed() - 25);
    let name = match rng.below(4) {
        0 => Value::Null,
        _ => Value::Text(format!("name {}", rng.below(20))),
    };
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let price = Value::Real(rng.below(1000) as f64 / 8.0);
    let long = if rng.below(10) == 0 { 3000 } else { 60 };
    let data = Value::Blob(vec![7; nandu_base::to_index(rng.below(long))]);
    vec![id, name, price, data]
}

fn refs(row: &Row) -> Vec<ValueRef<'_>> {
    row.iter().map(Value::as_ref).collect()
}

fn heap_rows(tables: &Tables) -> BTreeMap<i64, Row> {
    let mut rows = BTreeMap::new();
    let keep = |number, record: crate::sqlite::RecordView<'_>| {
        rows.insert(number, tables::row_of(record));
        Flow::Continue(())
    };
    tables.scan("things", keep).unwrap();
    rows
}

/// Checks everything: rows, the index in both orders, the database's own check.
fn assert_rows(tables: &Tables, model: &BTreeMap<i64, Row>) {
    assert_eq!(&heap_rows(tables), model);
    let report = tables.check().unwrap();
    assert_eq!(report.findings, [""; 0]);
    assert_eq!(report.row_count, model.len() as u64);
    let low = [ValueRef::Integer(-5)];
    let bounds: (Bound<&[ValueRef<'_>]>, Bound<&[ValueRef<'_>]>) =
        (Bound::Included(&low), Bound::Excluded(&[ValueRef::Integer(10)]));
    let in_range = |row: &Row| matches!(row[0], Value::Integer(id) if (-5..10).contains(&id));
    let wanted: BTreeMap<i64, Row> =
        model.iter().filter(|(_, row)| in_range(row)).map(|(n, row)| (*n, row.clone())).collect();
    for order in [FetchOrder::Key, FetchOrder::Address] {
        let mut found = BTreeMap::new();
        let keep = |number, record: crate::sqlite::RecordView<'_>| {
            found.insert(number, tables::row_of(record));
        };
        tables.index_rows("things", "by_id", bounds, order, keep).unwrap();
        assert_eq!(found, wanted);
    }
}

fn change(tables: &mut WriteTransaction<'_>, rng: &mut Rng, model: &mut BTreeMap<i64, Row>) {
    let existing = model.keys().nth(nandu_base::to_index(rng.below(model.len().max(1) as u64)));
    match (rng.below(4), existing.copied()) {
        (0, Some(number)) => {
            tables.delete("things", number).unwrap();
            model.remove(&number);
        }
        (1, Some(number)) => {
            let row = row_for(rng);
            tables.update("things", number, &refs(&row)).unwrap();
            model.insert(number, row);
        }
        _ => {
            let row = row_for(rng);
            let number = tables.insert("things", &refs(&row)).unwrap();
            assert!(model.insert(number, row).is_none(), "numbers of rows differ");
        }
    }
}

#[test]
fn a_heap_with_an_index_is_a_map_across_rollbacks_crashes_and_openings() {
    let device = device();
    let mut database = create(&device);
    let mut rng = Rng::for_part(5, "database");
    let mut model = BTreeMap::new();
    let mut writer = database.write().unwrap();
    writer.create_table("things", columns(), TableKind::Heap).unwrap();
    for _ in 0..30 {
        change(&mut writer, &mut rng, &mut model);
    }
    writer.create_index("things", "by_id", &["id", "name"]).unwrap();
    writer.commit().unwrap();
    for round in 0..60 {
        let mut writer = database.write().unwrap();
        let mut inside = model.clone();
        for _ in 0..rng.below(15) {
            change(&mut writer, &mut rng, &mut inside);
        }
        let (savepoint, kept) = (writer.savepoint(), inside.clone());
        for _ in 0..rng.below(15) {
            change(&mut writer, &mut rng, &mut inside);
        }
        if rng.below(3) == 0 {
            writer.rollback_to(savepoint).unwrap();
            inside = kept;
            change(&mut writer, &mut rng, &mut inside);
        }
        match rng.below(4) {
            0 => drop(writer),
            1 => writer.rollback().unwrap(),
            _ => {
                writer.commit().unwrap();
                model = inside;
            }
        }
        assert_rows(&database.read(), &model);
        match round % 9 {
            3 => {
                database.close().unwrap();
                database = open(&device);
            }
            6 => {
                drop(database);
                database = open(&device);
            }
            _ => {}
        }
        assert_rows(&database.read(), &model);
    }
}

#[test]
fn a_clustered_table_keeps_its_rows_by_key() {
    let device = device();
    let database = create(&device);
    let mut writer = database.write().unwrap();
    let kind = TableKind::Clustered { key: vec![1, 0] };
    writer.create_table("things", columns(), kind).unwrap();
    let mut rng = Rng::for_part(6, "database");
    let mut model: BTreeMap<Vec<u8>, Row> = BTreeMap::new();
    for _ in 0..400 {
        let row = row_for(&mut rng);
        let mut key = Vec::new();
        row[..2].iter().rev().for_each(|value| key::encode_key(value.as_ref(), &mut key));
        if rng.below(4) == 0 {
            let found =
                writer.delete_by_key("things", &[row[1].as_ref(), row[0].as_ref()]).unwrap();
            assert_eq!(found, model.remove(&key).is_some());
        } else if rng.below(2) == 0 {
            assert_eq!(
                writer.put("things", &refs(&row)).unwrap(),
                model.insert(key, row).is_some()
            );
        } else {
            match writer.insert("things", &refs(&row)) {
                Ok(_) => assert!(model.insert(key, row).is_none()),
                Err(StorageError::Exists { .. }) => assert!(model.contains_key(&key)),
                Err(error) => panic!("{error}"),
            }
        }
    }
    writer.commit().unwrap();
    drop(database);
    let database = open(&device);
    let reader = database.read();
    let mut rows = Vec::new();
    let keep = |_, record: crate::sqlite::RecordView<'_>| {
        rows.push(tables::row_of(record));
        Flow::Continue(())
    };
    reader.scan("things", keep).unwrap();
    assert_eq!(rows, model.into_values().collect::<Vec<_>>());
    assert_eq!(reader.check().unwrap().findings, [""; 0]);
}

#[test]
fn a_clustered_table_is_read_from_key_to_key() {
    let database = create(&device());
    let mut writer = database.write().unwrap();
    let kind = TableKind::Clustered { key: vec![0] };
    writer.create_table("things", columns(), kind).unwrap();
    for id in (0..300).rev().map(|id| id * 2) {
        let (name, price) = (Value::Text("n".repeat(40)), Value::Real(0.5));
        writer
            .insert("things", &refs(&vec![Value::Integer(id), name, price, Value::Null]))
            .unwrap();
    }
    writer.commit().unwrap();
    let reader = database.read();
    let ids = |lower: Bound<i64>, upper: Bound<i64>, ahead_count, most: usize| {
        let values = |bound: Bound<i64>| bound.map(|id| [ValueRef::Integer(id)]);
        let (lower, upper) = (values(lower), values(upper));
        let bounds =
            (lower.as_ref().map(<[_; 1]>::as_slice), upper.as_ref().map(<[_; 1]>::as_slice));
        let mut ids = Vec::new();
        let look = |record: RecordView<'_>| {
            ids.push(record.get(0).to_value());
            if ids.len() < most { Flow::Continue(()) } else { Flow::Break(()) }
        };
        reader.scan_by_key("things", bounds, ahead_count, look).unwrap();
        ids
    };
    let even = |from: i64, to: i64| -> Vec<Value> {
        (from..to).filter(|id| id % 2 == 0).map(Value::Integer).collect()
    };
    for ahead_count in [0, 3] {
        let all = usize::MAX;
        let from = Bound::Included(101);
        assert_eq!(ids(from, Bound::Unbounded, ahead_count, all), even(101, 600));
        assert_eq!(ids(from, Bound::Excluded(400), ahead_count, all), even(101, 400));
        assert_eq!(
            ids(Bound::Excluded(100), Bound::Included(102), ahead_count, all),
            even(102, 103)
        );
        assert_eq!(ids(Bound::Unbounded, Bound::Unbounded, ahead_count, 5), even(0, 10));
    }
    assert!(
        reader
            .scan_by_key("nothing", (Bound::Unbounded, Bound::Unbounded), 0, |_| panic!())
            .is_err()
    );
}

#[test]
fn a_clustered_table_refuses_an_index_and_says_what_would_do() {
    let database = create(&device());
    let mut writer = database.write().unwrap();
    writer.create_table("ordered", columns(), TableKind::Clustered { key: vec![0] }).unwrap();
    let said = writer.create_index("ordered", "by_name", &["name"]).unwrap_err().to_string();
    assert!(said.starts_with("table ordered is clustered: its rows have no numbers"), "{said}");
    assert!(said.contains("a second table, clustered by the indexed columns"), "{said}");
    assert_eq!(writer.definition("ordered").unwrap().indexes, []);
    writer.commit().unwrap();
    let files: Vec<String> =
        database.read().engine().files().into_iter().map(|(_, name)| name).collect();
    assert_eq!(files, ["catalog", "ordered.tree"]);
}

#[test]
fn all_rows_of_a_batch_are_inserted_or_none_of_them() {
    let device = device();
    let database = create(&device);
    let mut writer = database.write().unwrap();
    writer.create_table("ordered", columns(), TableKind::Clustered { key: vec![0] }).unwrap();
    writer.create_table("things", columns(), TableKind::Heap).unwrap();
    writer.create_index("things", "by_id", &["id", "name"]).unwrap();
    let row = |id: i64| {
        let data = Value::Blob(vec![1; if id % 50 == 0 { 3000 } else { 40 }]);
        vec![Value::Integer(id), Value::Text(format!("name {id}")), Value::Null, data]
    };
    let mut ids: Vec<i64> = (0..500).collect();
    Rng::for_part(7, "database").shuffle(&mut ids);
    let rows: Vec<Row> = ids.iter().map(|&id| row(id)).collect();
    for table in ["ordered", "things"] {
        writer.insert_all(table, &rows[..300]).unwrap();
        assert_eq!(writer.insert_from(table, rows[300..].iter().cloned()), Ok(200));
        writer.insert_all(table, &[]).unwrap();
    }
    // The last row of this batch is refused, and all before it are taken back.
    let mut bad: Vec<Row> = (1000..1100).map(row).collect();
    bad.push(row(250));
    let error = writer.insert_all("ordered", &bad).unwrap_err();
    assert!(matches!(error, StorageError::Exists { .. }), "{error}");
    bad[100][0] = Value::Null;
    for table in ["ordered", "things"] {
        writer.insert_all(table, &bad).unwrap_err();
    }
    writer.commit().unwrap();
    drop(database);
    let database = open(&device);
    let reader = database.read();
    for table in ["ordered", "things"] {
        let mut found = Vec::new();
        let keep = |_, record: crate::sqlite::RecordView<'_>| {
            found.push(tables::row_of(record));
            Flow::Continue(())
        };
        reader.scan(table, keep).unwrap();
        match table {
            "ordered" => assert_eq!(found, (0..500).map(row).collect::<Vec<_>>()),
            _ => assert_eq!(found, rows),
        }
    }
    assert_eq!(reader.check().unwrap().findings, [""; 0]);
}

#[test]
fn tables_come_and_go_with_their_transaction() {
    let device = device();
    let database = create(&device);
    let mut writer = database.write().unwrap();
    writer.create_table("Kept", columns(), TableKind::Heap).unwrap();
    writer.commit().unwrap();
    let mut writer = database.write().unwrap();
    writer.drop_table("kept").unwrap();
    writer.create_table("kept", columns(), TableKind::Clustered { key: vec![0] }).unwrap();
    writer.create_table("passing", columns(), TableKind::Heap).unwrap();
    writer.rollback().unwrap();
    assert_eq!(database.read().definition("KEPT").unwrap().kind, TableKind::Heap);
    assert!(matches!(database.read().definition("passing"), Err(StorageError::NotFound { .. })));
    let mut writer = database.write().unwrap();
    writer.drop_table("kept").unwrap();
    writer.create_table("kept", columns(), TableKind::Clustered { key: vec![0] }).unwrap();
    writer.create_table("lost", columns(), TableKind::Heap).unwrap();
    let error = writer.create_table("LOST", columns(), TableKind::Heap).unwrap_err();
    assert_eq!(error.to_string(), "table LOST exists already");
    writer.commit().unwrap();
    // A crash in the middle of a transaction that made and dropped tables.
    let mut writer = database.write().unwrap();
    writer.drop_table("kept").unwrap();
    writer.create_table("never", columns(), TableKind::Heap).unwrap();
    database.flush().unwrap();
    writer.abandon();
    let database = open(&device);
    let reader = database.read();
    let names: Vec<&str> = reader.definitions().unwrap().map(|table| table.name.as_str()).collect();
    assert_eq!(names, ["kept", "lost"]);
    let files: Vec<String> = reader.engine().files().into_iter().map(|(_, name)| name).collect();
    assert_eq!(files, ["catalog", "kept.tree", "lost.sqlite"]);
}

#[test]
fn what_a_transaction_made_and_took_back_leaves_no_file_when_it_commits() {
    let database = create(&device());
    let mut writer = database.write().unwrap();
    writer.create_table("kept", columns(), TableKind::Heap).unwrap();
    let mark = writer.savepoint();
    writer.create_index("kept", "by_id", &["id"]).unwrap();
    writer.create_table("passing", columns(), TableKind::Heap).unwrap();
    writer.rollback_to(mark).unwrap();
    writer.create_table("later", columns(), TableKind::Clustered { key: vec![0] }).unwrap();
    writer.commit().unwrap();
    let names: Vec<_> = database.read().engine().files().into_iter().map(|it| it.1).collect();
    assert_eq!(names, ["catalog", "kept.sqlite", "later.tree"]);
    let mut writer = database.write().unwrap();
    let mark = writer.savepoint();
    writer.create_table("passing", columns(), TableKind::Heap).unwrap();
    writer.rollback_to(mark).unwrap();
    writer.commit().unwrap();
    assert_eq!(database.read().engine().files().len(), 3);
    assert_eq!(database.read().check().unwrap().findings, [""; 0]);
}

#[test]
fn a_mark_that_is_not_there_is_refused_and_nothing_is_taken_back() {
    let database = create(&device());
    let mut writer = database.write().unwrap();
    writer.create_table("kept", columns(), TableKind::Heap).unwrap();
    writer.commit().unwrap();
    let of_another = database.write().unwrap().savepoint();
    for isolation in Isolation::ALL {
        let mut writer = database.write_with(isolation).unwrap();
        let row = |id| [ValueRef::Integer(id), ValueRef::Null, ValueRef::Null, ValueRef::Null];
        let count = |writer: &WriteTransaction<'_>| writer.rows("kept").unwrap().count();
        let refused = |writer: &mut WriteTransaction<'_>, mark, told| {
            let before = count(writer);
            let error = writer.rollback_to(mark).unwrap_err();
            assert!(matches!(error, StorageError::InvalidSetting { .. }), "{error}");
            assert!(error.to_string().contains(told), "{error}");
            assert_eq!(count(writer), before, "{}", isolation.label());
        };
        let first = writer.savepoint();
        writer.insert("kept", &row(1)).unwrap();
        refused(&mut writer, of_another, "is of transaction");
        let gone = writer.savepoint();
        writer.insert("kept", &row(2)).unwrap();
        writer.rollback_to(gone).unwrap();
        writer.rollback_to(gone).unwrap();
        assert_eq!(count(&writer), 1, "a mark stays that was rolled back to");
        writer.rollback_to(first).unwrap();
        let told = "was itself taken back";
        refused(&mut writer, gone, told);
        // Also where what was done since lies behind it in the log.
        writer.insert("kept", &row(3)).unwrap();
        writer.insert("kept", &row(4)).unwrap();
        refused(&mut writer, gone, told);
        let later = writer.savepoint();
        writer.insert("kept", &row(5)).unwrap();
        writer.rollback_to(later).unwrap();
        refused(&mut writer, gone, told);
        assert_eq!(count(&writer), 2);
        writer.rollback_to(first).unwrap();
        assert_eq!(count(&writer), 0);
        refused(&mut writer, later, told);
        writer.insert("kept", &row(6)).unwrap();
        writer.rollback_to(first).unwrap();
        writer.commit().unwrap();
    }
    assert_eq!(database.read().check().unwrap().findings, [""; 0]);
}

#[test]
fn a_row_that_does_not_fit_its_table_is_refused_and_changes_nothing() {
    let device = device();
    let database = create(&device);
    let mut writer = database.write().unwrap();
    writer.create_table("things", columns(), TableKind::Heap).unwrap();
    writer.create_index("things", "by_id", &["id"]).unwrap();
    let cases: [(&[ValueRef<'_>], &str); 3] = [
        (&[ValueRef::Null; 4], "null does not fit column id of things, which is INT NOT NULL"),
        (&[ValueRef::Integer(1); 3], "table things has 4 columns, the row 3"),
        (&[ValueRef::Integer(1); 4], "1 does not fit column name of things, which is TEXT"),
    ];
    for (row, message) in cases {
        let error = writer.insert("things", row).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    let error = writer.update("things", 5, &[ValueRef::Integer(1)]).unwrap_err();
    assert_eq!(error.to_string(), "there is no row 5 in table things");
    writer.commit().unwrap();
    assert!(heap_rows(&database.read()).is_empty());
}

#[test]
fn a_name_that_would_end_at_a_zero_byte_is_refused_on_every_way_in() {
    let device = device();
    let database = create(&device);
    let mut writer = database.write().unwrap();
    let columns =
        vec![Column::new("a\nb", ColumnType::Text), Column::new("a\0b", ColumnType::Text)];
    let table = NewTable {
        name: "loaded".to_owned(),
        columns: columns.clone(),
        kind: TableKind::Heap,
        indexes: Vec::new(),
    };
    let made = writer.create_table("made", columns.clone(), TableKind::Heap);
    let loaded = writer.load_table(&table, &LoadOptions::default(), |_| Ok::<_, StorageError>(()));
    for error in [made.unwrap_err(), loaded.unwrap_err()] {
        let told = r#"the name of column "a\0b" has a zero byte; leave it out"#;
        assert_eq!(error.to_string(), told);
    }
    writer.create_table("made", columns[..1].to_vec(), TableKind::Heap).unwrap();
    writer.commit().unwrap();
}

#[test]
fn files_of_the_engine_are_not_taken_for_tables_that_nobody_knows() {
    use crate::engine::TornPages;
    use crate::propagation::PropagationKind;
    let ways = [
        (PropagationKind::InPlace, TornPages::LogImages),
        (PropagationKind::InPlace, TornPages::DoubleWrite),
        (PropagationKind::LogStructured, TornPages::Trust),
        (PropagationKind::PageDifferential, TornPages::Trust),
    ];
    for (propagation, torn_pages) in ways {
        let settings = Settings { propagation: propagation.into(), torn_pages, ..settings() };
        let device = device();
        let data = Box::new(DeviceVolume::format(Box::new(device.clone())).unwrap());
        let database = Database::create(Volumes::new(data, None), &settings, 1).unwrap();
        let mut write = database.write().unwrap();
        write.create_table("kept", columns(), TableKind::Heap).unwrap();
        write.commit().unwrap();
        let names = |database: &Database| {
            let io = database.read().engine().data_io();
            let files = io.files();
            files.into_iter().map(|(_, name)| name).collect::<Vec<String>>()
        };
        let before = names(&database);
        assert!(before.len() >= 4, "log, settings, catalogue and table: {before:?}");
        drop(database);
        for _ in 0..2 {
            device.forget_completions();
            let data = Box::new(DeviceVolume::open(Box::new(device.clone())).unwrap());
            let (database, _) = Database::open(Volumes::new(data, None), &settings).unwrap();
            assert_eq!(names(&database), before, "{propagation:?}, {torn_pages:?}");
            database.close().unwrap();
        }
    }
}

#[test]
fn a_batch_finds_what_single_lookups_find_in_less_than_half_the_time() {
    const ROW_COUNT: i64 = 3000;
    let geometry = Geometry { sector_bytes: 512, sector_count: 64 << 11 };
    let config = MemoryConfig { geometry, server_count: 16, ..MemoryConfig::default() };
    let device = SharedDevice::new(MemoryDevice::new(config));
    let data = Box::new(DeviceVolume::format(Box::new(device)).unwrap());
    let database = Database::create(Volumes::new(data, None), &settings(), 1).unwrap();
    let mut write = database.write().unwrap();
    let columns =
        || vec![Column::new("key", ColumnType::Integer), Column::new("x", ColumnType::Blob)];
    write.create_table("tree", columns(), TableKind::Clustered { key: vec![0] }).unwrap();
    write.create_table("heap", columns(), TableKind::Heap).unwrap();
    for number in 0..ROW_COUNT {
        let row = [ValueRef::Integer(number), ValueRef::Blob(&[3; 100])];
        write.put("tree", &row).unwrap();
        write.insert("heap", &row).unwrap();
        if number % 500 == 499 {
            write.commit().unwrap();
            write = database.write().unwrap();
        }
    }
    write.commit().unwrap();
    let key_of = |record: RecordView<'_>| match record.get(0) {
        ValueRef::Integer(key) => key,
        other => panic!("{other:?} is no key"),
    };
    let mut rng = Rng::new(4);
    // Some past the end, where there are no rows.
    let wanted: Vec<i64> = (0..400).map(|_| 1 + rng.below(3100).cast_signed()).collect();
    let keys: Vec<Row> = wanted.iter().map(|&key| vec![Value::Integer(key)]).collect();
    let cold = || {
        database.drop_cached_pages().unwrap();
        database.read().engine().now()
    };
    let start = cold();
    let mut single = [vec![None; 400], vec![None; 400]];
    let tables = database.read();
    for (place, &number) in wanted.iter().enumerate() {
        single[0][place] = tables.get_by_key("tree", &[ValueRef::Integer(number)], key_of).unwrap();
    }
    let alone_ns = tables.engine().now() - start;
    for (place, &number) in wanted.iter().enumerate() {
        single[1][place] = tables.get("heap", number, key_of).unwrap();
    }
    drop(tables);
    let start = cold();
    let mut batched = [vec![None; 400], vec![None; 400]];
    let tables = database.read();
    for first in (0..400).step_by(8) {
        let look = |place: usize, record: RecordView<'_>| {
            batched[0][first + place] = Some(key_of(record));
        };
        tables.get_batch_by_key("tree", &keys[first..first + 8], look).unwrap();
    }
    let batched_ns = tables.engine().now() - start;
    tables
        .get_batch("heap", &wanted, |place, record| batched[1][place] = Some(key_of(record)))
        .unwrap();
    assert_eq!(single, batched);
    assert!(single[0].iter().any(Option::is_none) && single[0].iter().any(Option::is_some));
    assert!(alone_ns.0 > 2 * batched_ns.0, "{alone_ns:?} alone, {batched_ns:?} in eights");
    drop(tables);
    // What was fetched needs no read any more.
    database.drop_cached_pages().unwrap();
    let tables = database.read();
    tables.fetch_by_key("tree", &keys[..8]).unwrap();
    let reads = || tables.engine().device_counters().0.reads.request_count;
    let before = reads();
    for &number in &wanted[..8] {
        tables.get_by_key("tree", &[ValueRef::Integer(number)], key_of).unwrap();
    }
    assert_eq!(reads(), before);
}

#[test]
fn values_that_no_column_holds_as_they_are_get_refused_on_every_way_in() {
    const WILD: &[u8] = b"B\xe4r";
    /// 2^53 + 1, which no double is.
    const ODD: i64 = 9_007_199_254_740_993;
    let device = device();
    let database = create(&device);
    let row = |name, price| [ValueRef::Integer(1), name, price, ValueRef::Null];
    let good = row(ValueRef::Text("Bär".as_bytes()), ValueRef::Integer(ODD - 1));
    let wrong = [
        (row(ValueRef::Text(WILD), ValueRef::Null), "a text that is not UTF-8"),
        (row(ValueRef::Null, ValueRef::Real(f64::NAN)), "NaN, which is no value"),
        (row(ValueRef::Null, ValueRef::Integer(ODD)), "9007199254740993, which no double is"),
        (row(ValueRef::Null, ValueRef::Integer(-ODD)), "-9007199254740993, which no double is"),
    ];
    let mut write = database.write().unwrap();
    let clustered = TableKind::Clustered { key: vec![0] };
    write.create_table("things", columns(), TableKind::Heap).unwrap();
    write.create_table("ordered", columns(), clustered.clone()).unwrap();
    let number = write.insert("things", &good).unwrap();
    for (row, why) in &wrong {
        let kinds = [TableKind::Heap, clustered.clone(), TableKind::Pax { span_pages: 8 }];
        let mut refusals = vec![
            write.insert("things", row).map(drop),
            write.insert("ordered", row).map(drop),
            write.put("ordered", row).map(drop),
            write.update("things", number, row),
        ];
        for kind in kinds {
            let table = NewTable {
                name: "loaded".to_owned(),
                columns: columns(),
                kind,
                indexes: Vec::new(),
            };
            let options = LoadOptions::default();
            let loaded: Result<_, StorageError> =
                write.load_table(&table, &options, |load| load.push(row));
            refusals.push(loaded.map(drop));
        }
        for (way, refused) in refusals.into_iter().enumerate() {
            let told = refused.unwrap_err().to_string();
            assert!(told.contains(why) && told.contains(" does not fit column "), "{way}: {told}");
        }
    }
    let stored = write.row("things", number).unwrap().unwrap();
    assert_eq!(stored[2], Value::Real(9_007_199_254_740_992.0));
    write.commit().unwrap();
    assert_eq!(database.read().check().unwrap().findings, [""; 0]);
}

#[test]
fn whoever_does_not_want_to_wait_is_told_that_others_are_at_work() {
    let database = create(&device());
    let _reader = database.read();
    let mut writer = database.try_write().unwrap().unwrap();
    assert!(database.try_write().unwrap().is_some(), "beside a reader and a writer");
    writer.create_table("things", columns(), TableKind::Heap).unwrap();
    let table_count = |tables: &Tables| tables.definitions().unwrap().count();
    assert_eq!(table_count(&database.try_read().unwrap()), 0);
    assert!(database.try_write().unwrap().is_some(), "beside one that changes tables");
    let step = database.shared.core.write();
    assert!(database.try_write().unwrap().is_none(), "somebody is at a step");
    drop(step);
    writer.commit().unwrap();
    assert_eq!(table_count(&database.try_read().unwrap()), 1);
}
