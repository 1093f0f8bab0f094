//! Loads past the log: larger than it, sorted in runs, stopped in the middle, cut by a crash.

use super::*;
use crate::database::Tables;
use crate::database::{Database, Flow, Row};
use crate::engine::{Settings, TornPages, Volumes};
use crate::log::Durability;
use crate::propagation::PropagationKind;
use crate::sqlite::Value;
use crate::volume::DeviceVolume;
use nandu_base::Rng;
use nandu_device::{Geometry, MemoryConfig, MemoryDevice, SharedDevice};
use std::ops::Bound;

type TestDevice = SharedDevice<MemoryDevice>;

fn device() -> TestDevice {
    let geometry = Geometry { sector_bytes: 512, sector_count: 64 << 11 };
    SharedDevice::new(MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() }))
}

fn settings(propagation: PropagationKind, torn_pages: TornPages) -> Settings {
    Settings {
        page_bytes: 1024,
        pool_bytes: 64 << 10,
        log_bytes: 1 << 20,
        checkpoint_bytes: 128 << 10,
        propagation: propagation.into(),
        torn_pages,
        ..Settings::default()
    }
}

fn ways() -> [Settings; 4] {
    [
        settings(PropagationKind::InPlace, TornPages::LogImages),
        settings(PropagationKind::InPlace, TornPages::DoubleWrite),
        settings(PropagationKind::LogStructured, TornPages::Trust),
        settings(PropagationKind::PageDifferential, TornPages::Trust),
    ]
}

fn create(device: &TestDevice, settings: &Settings) -> Database {
    let data = Box::new(DeviceVolume::format(Box::new(device.clone())).unwrap());
    Database::create(Volumes::new(data, None), settings, 1).unwrap()
}

fn open(device: &TestDevice, settings: &Settings) -> Database {
    device.forget_completions();
    let data = Box::new(DeviceVolume::open(Box::new(device.clone())).unwrap());
    Database::open(Volumes::new(data, None), settings).unwrap().0
}

fn table(kind: TableKind, indexes: &[(&str, &[&str])]) -> NewTable {
    let index = |(name, columns): &(&str, &[&str])| {
        ((*name).to_owned(), columns.iter().map(|&column| column.to_owned()).collect())
    };
    NewTable {
        name: "things".to_owned(),
        columns: vec![
            Column::new("id", super::super::ColumnType::Integer).not_null(),
            Column::new("price", super::super::ColumnType::Real),
            Column::new("name", super::super::ColumnType::Text),
        ],
        kind,
        indexes: indexes.iter().map(index).collect(),
    }
}

fn model_rows(count: i64) -> Vec<Row> {
    let mut rng = Rng::for_part(9, "loads");
    let mut rows: Vec<Row> = (0..count)
        .map(|id| {
            let length = if rng.below(200) == 0 { 2500 } else { rng.below(300) };
            let name = "x".repeat(nandu_base::to_index(length));
            let price = if rng.below(5) == 0 { Value::Null } else { Value::Real(0.25) };
            vec![Value::Integer(id), price, Value::Text(name)]
        })
        .collect();
    rng.shuffle(&mut rows);
    rows
}

fn load(
    database: &Database,
    table: &NewTable,
    options: &LoadOptions,
    rows: &[Row],
) -> Result<LoadReport, StorageError> {
    let mut write = database.write()?;
    let report = write.load_table(table, options, |load| {
        rows.iter().try_for_each(|row| {
            let row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
            let pushed = load.push(&row);
            assert!(database.try_read().is_some(), "the engine is free between rows: {pushed:?}");
            pushed
        })
    })?;
    write.commit()?;
    Ok(report)
}

fn all_rows(tables: &Tables) -> Vec<Row> {
    let mut rows = Vec::new();
    let keep = |_, record: crate::sqlite::RecordView<'_>| {
        rows.push(super::super::tables::row_of(record));
        Flow::Continue(())
    };
    tables.scan("things", keep).unwrap();
    rows
}

fn file_names(tables: &Tables) -> Vec<String> {
    tables.engine().files().into_iter().map(|(_, name)| name).collect()
}

#[test]
fn a_load_larger_than_the_log_and_the_pool_survives_a_crash_and_can_be_changed() {
    for settings in ways() {
        let device = device();
        let database = create(&device, &settings);
        let rows = model_rows(12_000);
        let indexes: [(&str, &[&str]); 2] = [("by_id", &["id"]), ("by_price", &["price", "id"])];
        let table = table(TableKind::Heap, &indexes);
        let options = LoadOptions { sort_bytes: 64 << 10, ..LoadOptions::default() };
        let report = load(&database, &table, &options, &rows).unwrap();
        assert_eq!((report.row_count, report.index_entry_count), (12_000, 24_000));
        assert!(report.record_bytes > settings.log_bytes, "or it shows nothing");
        drop(database);
        let database = open(&device, &settings);
        assert_eq!(database.read().check().unwrap().findings, [""; 0]);
        assert_eq!(all_rows(&database.read()), rows);
        let low = [ValueRef::Integer(100)];
        let high = [ValueRef::Integer(103)];
        let mut found = Vec::new();
        let bounds = (Bound::Included(&low[..]), Bound::Excluded(&high[..]));
        let keep = |_, row: crate::sqlite::RecordView<'_>| found.push(row.get(0).to_value());
        database.read().index_rows("things", "by_id", bounds, Default::default(), keep).unwrap();
        assert_eq!(found, [Value::Integer(100), Value::Integer(101), Value::Integer(102)]);
        // Pages that the log never knew are changed, and the power goes.
        let mut write = database.write().unwrap();
        let new = [ValueRef::Integer(-7), ValueRef::Integer(3), ValueRef::Text(b"new")];
        let number = write.insert("things", &new).unwrap();
        assert_eq!(number, 12_001);
        write.delete("things", 1).unwrap();
        write.update("things", 6000, &new).unwrap();
        write.commit().unwrap();
        database.flush().unwrap();
        drop(database);
        let database = open(&device, &settings);
        assert_eq!(database.read().check().unwrap().findings, [""; 0]);
        assert_eq!(all_rows(&database.read()).len(), 12_000);
    }
}

#[test]
fn a_table_in_pax_pages_survives_a_crash_and_is_never_changed() {
    for settings in ways() {
        let device = device();
        let database = create(&device, &settings);
        let rows = model_rows(12_000);
        let mut table = table(TableKind::Pax { span_pages: 24 }, &[]);
        let report = load(&database, &table, &LoadOptions::default(), &rows).unwrap();
        assert_eq!(report.row_count, 12_000);
        assert!(report.record_bytes > settings.log_bytes, "or it shows nothing");
        drop(database);
        let database = open(&device, &settings);
        let tables = database.read();
        let checked = tables.check().unwrap();
        assert_eq!((checked.findings.as_slice(), checked.row_count), (&[][..], 12_000));
        assert_eq!(all_rows(&tables), rows);
        let stat = tables.stat().unwrap().pop().unwrap();
        assert_eq!((stat.kind, stat.row_count), ("pax", 12_000));
        for (number, place) in [(1, 0), (77, 76), (12_000, 11_999)] {
            let found = tables.get("things", number, super::super::tables::row_of).unwrap();
            assert_eq!(found.as_ref(), rows.get(place));
        }
        assert_eq!(tables.get("things", 12_001, |_| ()).unwrap(), None);
        drop(tables);
        let mut write = database.write().unwrap();
        let row = [ValueRef::Integer(1), ValueRef::Null, ValueRef::Null];
        let owned = vec![row.iter().map(|value| value.to_value()).collect::<Row>()];
        for refused in [
            write.insert("things", &row).map(drop),
            write.insert_all("things", &owned),
            write.update("things", 1, &row),
            write.delete("things", 1),
            write.create_index("things", "by_id", &["id"]),
        ] {
            let told = refused.unwrap_err().to_string();
            assert!(told.contains("in PAX pages, which are never changed"), "{told}");
        }
        assert!(write.put("things", &row).is_err());
        let told = write.create_table("empty", table.columns.clone(), table.kind.clone());
        assert!(told.unwrap_err().to_string().contains("load it with its rows"));
        table.indexes.push(("by_id".to_owned(), vec!["id".to_owned()]));
        table.name = "indexed".to_owned();
        let refused = write.load_table(&table, &LoadOptions::default(), |_| Ok(()));
        assert!(matches!(refused, Err(StorageError::InvalidSetting { .. })));
        write.drop_table("things").unwrap();
        write.commit().unwrap();
        let left = file_names(&database.read());
        assert!(left.iter().all(|name| !name.contains("things")), "{left:?}");
    }
}

#[test]
fn clustered_rows_come_in_any_order_and_lie_by_key() {
    let settings = Settings { durability: Durability::None, ..ways()[0].clone() };
    let shuffled = model_rows(4000);
    let mut sorted = shuffled.clone();
    sorted.sort_by_key(|row| match row[0] {
        Value::Integer(id) => id,
        _ => unreachable!("ids are integers"),
    });
    let table = table(TableKind::Clustered { key: vec![0] }, &[]);
    let mut page_counts = Vec::new();
    for order in [RowOrder::Ascending, RowOrder::Sort, RowOrder::Insert] {
        let database = create(&device(), &settings);
        let options = LoadOptions { order, sort_bytes: 100 << 10, ..LoadOptions::default() };
        let rows = if order == RowOrder::Ascending { &sorted } else { &shuffled };
        load(&database, &table, &options, rows).unwrap();
        let read = database.read();
        assert_eq!(all_rows(&read), sorted, "{order:?}");
        assert_eq!(file_names(&read), ["catalog", "things.tree"], "no run is left");
        let report = read.check().unwrap();
        assert_eq!(report.findings, [""; 0]);
        page_counts.push(report.page_count);
        drop(read);
        let mut twice = rows.clone();
        twice.push(rows[rows.len() - 1].clone());
        let other = NewTable { name: "twice".to_owned(), ..table.clone() };
        let error = load(&database, &other, &options, &twice).unwrap_err();
        assert_eq!(error.to_string(), "a row with this key in table twice exists already");
        assert_eq!(file_names(&database.read()), ["catalog", "things.tree"]);
    }
    assert_eq!(page_counts[0], page_counts[1], "sorted rows fill pages as ascending ones");
    assert!(page_counts[2] > page_counts[0], "splits leave room: {page_counts:?}");
}

#[test]
fn a_load_that_stops_leaves_nothing_whether_by_error_rollback_or_crash() {
    for settings in ways() {
        let device = device();
        let database = create(&device, &settings);
        let table = table(TableKind::Heap, &[("by_id", &["id"])]);
        let options = LoadOptions { sort_bytes: 64 << 10, ..LoadOptions::default() };
        let mut rows = model_rows(5000);
        let good = rows.clone();
        rows.push(vec![Value::Text("seven".to_owned()), Value::Null, Value::Null]);
        let error = load(&database, &table, &options, &rows).unwrap_err().to_string();
        assert!(error.contains("does not fit column id"), "{error}");
        assert_eq!(file_names(&database.read()), ["catalog"]);

        let mut write = database.write().unwrap();
        write.load_table(&table, &options, |_| Ok::<(), StorageError>(())).unwrap();
        write.rollback().unwrap();
        assert_eq!(file_names(&database.read()), ["catalog"]);

        // What is on the device in the middle of a load is what a crash leaves.
        let mut write = database.write().unwrap();
        let result = write.load_table(&table, &options, |load| {
            for row in &good {
                let row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
                load.push(&row)?;
            }
            let after_crash = open(&device, &settings);
            assert!(after_crash.read().definition("things").is_err());
            assert_eq!(file_names(&after_crash.read()), ["catalog"]);
            load_again(&after_crash, &table, &options, &good);
            Err(StorageError::NotFound { what: "way back".to_owned() })
        });
        assert!(result.is_err());
        // The device belongs to the second opening now.
        write.abandon();
    }
}

fn load_again(database: &Database, table: &NewTable, options: &LoadOptions, rows: &[Row]) {
    load(database, table, options, rows).unwrap();
    assert_eq!(all_rows(&database.read()), rows);
    let mut write = database.write().unwrap();
    write.drop_table("things").unwrap();
    write.commit().unwrap();
}

#[test]
fn an_index_of_many_rows_is_made_past_the_log() {
    let settings = ways()[0].clone();
    let device = device();
    let database = create(&device, &settings);
    let rows = model_rows(12_000);
    load(&database, &table(TableKind::Heap, &[]), &LoadOptions::default(), &rows).unwrap();
    let mut write = database.write().unwrap();
    write.create_index("things", "by_price", &["price", "id"]).unwrap();
    let new = [ValueRef::Integer(-7), ValueRef::Null, ValueRef::Text(b"new")];
    write.insert("things", &new).unwrap();
    write.commit().unwrap();
    drop(database);
    let database = open(&device, &settings);
    let report = database.read().check().unwrap();
    assert_eq!((report.findings.len(), report.index_entry_count), (0, 12_001));
}

#[test]
fn tables_that_are_loaded_together_come_all_or_none() {
    for settings in ways() {
        let device = device();
        let database = create(&device, &settings);
        let [one, other] = ["one", "other"].map(NewTable::raw);
        let ascending = LoadOptions { order: RowOrder::Ascending, ..LoadOptions::default() };
        let sorted = LoadOptions { sort_bytes: 16 << 10, ..LoadOptions::default() };
        let before = file_names(&database.read());
        let load = |write: &mut super::super::WriteTransaction<'_>, fails: bool| {
            write.load_tables(&[(&one, &ascending), (&other, &sorted)], |loads| {
                for number in 0..3000_u32 {
                    loads[0].push_entry(&number.to_be_bytes(), b"value")?;
                    let shuffled = number.wrapping_mul(2_654_435_761);
                    loads[1].push_entry(&shuffled.to_be_bytes(), &number.to_be_bytes())?;
                }
                let what = "as said".to_owned();
                if fails { Err(StorageError::InvalidSetting { what }) } else { Ok(()) }
            })
        };
        let mut write = database.write().unwrap();
        assert!(load(&mut write, true).is_err());
        let twice = write.load_tables(&[(&one, &ascending), (&one, &ascending)], |_| Ok(()));
        assert!(matches!(twice, Err(StorageError::Exists { .. })), "{twice:?}");
        write.commit().unwrap();
        assert_eq!(file_names(&database.read()), before);
        let mut write = database.write().unwrap();
        let reports = load(&mut write, false).unwrap();
        assert_eq!(reports.iter().map(|report| report.row_count).collect::<Vec<_>>(), [3000; 2]);
        write.commit().unwrap();
        drop(database);
        let database = open(&device, &settings);
        let read = database.read();
        let keys: Vec<u32> = { read.entries("other").unwrap() }
            .map(|entry| u32::from_be_bytes(entry.unwrap().0.try_into().unwrap()))
            .collect();
        assert!(keys.len() == 3000 && keys.is_sorted());
        assert_eq!(read.entries("one").unwrap().count(), 3000);
        assert_eq!(read.check().unwrap().findings, Vec::<String>::new());
    }
}
