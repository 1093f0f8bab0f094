//! What tables of every kind do alike, and what those that cannot do something say.

use super::*;
use crate::database::{Database, NewTable, Row, RowOrder};
use crate::sqlite::Value;
use crate::volume::DeviceVolume;
use crate::{Settings, Volumes};
use nandu_device::{Geometry, MemoryConfig, MemoryDevice, SharedDevice};

const ROW_COUNT: u64 = 500;

fn settings() -> Settings {
    Settings {
        page_bytes: 1024,
        pool_bytes: 64 << 10,
        log_bytes: 4 << 20,
        checkpoint_bytes: 128 << 10,
        ..Settings::default()
    }
}

/// A table of each kind, with the same columns, called as its kind is.
fn samples() -> Vec<NewTable> {
    let NewTable { columns, .. } = NewTable::raw("raw");
    let kinds = [
        TableKind::Heap,
        TableKind::Clustered { key: vec![0] },
        TableKind::Pax { span_pages: 8 },
        TableKind::Raw,
    ];
    let table = |kind: TableKind| NewTable {
        name: kind.label().to_owned(),
        columns: columns.clone(),
        kind,
        indexes: Vec::new(),
    };
    kinds.map(table).into()
}

/// Rows in an order of their own, whose keys differ.
fn rows() -> Vec<Row> {
    let row = |number: u64| {
        let key = (number * 7919 % 4001).to_be_bytes().to_vec();
        vec![Value::Blob(key), Value::Blob(vec![7; nandu_base::to_index(number % 90)])]
    };
    (0..ROW_COUNT).map(row).collect()
}

fn refs(row: &Row) -> Vec<ValueRef<'_>> {
    row.iter().map(Value::as_ref).collect()
}

fn assert_whole(database: &Database) {
    let tables = database.read();
    for NewTable { name, kind, .. } in samples() {
        let mut wanted = rows();
        if kind.has_order() {
            wanted.sort_by_key(|row| match &row[0] {
                Value::Blob(key) => key.clone(),
                other => panic!("{other:?} is no key"),
            });
        }
        let found: Vec<Row> = tables.rows(name.as_str()).unwrap().map(Result::unwrap).collect();
        assert_eq!(found, wanted, "{name}");
        assert_eq!(tables.definition(&name).unwrap().kind, kind);
    }
    let stats = tables.stat().unwrap();
    assert!(stats.iter().all(|stat| stat.kind == stat.name && stat.row_count == ROW_COUNT));
    assert_eq!(stats.len(), samples().len());
    let report = tables.check().unwrap();
    assert_eq!(report.findings, [""; 0]);
    assert_eq!(report.row_count, ROW_COUNT * stats.len() as u64);
}

#[test]
fn a_table_of_every_kind_is_loaded_read_measured_checked_and_opened_again() {
    let geometry = Geometry { sector_bytes: 512, sector_count: 64 << 11 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let device = SharedDevice::new(device);
    let data = Box::new(DeviceVolume::format(Box::new(device.clone())).unwrap());
    let database = Database::create(Volumes::new(data, None), &settings(), 1).unwrap();
    let mut write = database.write().unwrap();
    for table in samples() {
        let options = LoadOptions { order: RowOrder::Sort, ..LoadOptions::default() };
        let push = |load: &mut crate::database::TableLoad<'_>| {
            rows().iter().try_for_each(|row| load.push(&refs(row)))
        };
        let report = write.load_table(&table, &options, push).unwrap();
        assert_eq!(report.row_count, ROW_COUNT);
    }
    write.commit().unwrap();
    assert_whole(&database);
    database.close().unwrap();
    device.forget_completions();
    let data = Box::new(DeviceVolume::open(Box::new(device)).unwrap());
    assert_whole(&Database::open(Volumes::new(data, None), &settings()).unwrap().0);
}

#[test]
fn what_tables_of_a_kind_cannot_do_is_refused_and_names_the_table() {
    let geometry = Geometry { sector_bytes: 512, sector_count: 64 << 11 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let data = Box::new(DeviceVolume::format(Box::new(device)).unwrap());
    let database = Database::create(Volumes::new(data, None), &settings(), 1).unwrap();
    let rows = rows();
    for table in samples() {
        let mut write = database.write().unwrap();
        let NewTable { name, kind, columns, .. } = &table;
        let push = |load: &mut crate::database::TableLoad<'_>| load.push(&refs(&rows[0]));
        write.load_table(&table, &LoadOptions::default(), push).unwrap();
        let can = |answer: Result<(), StorageError>, is_able: bool| match answer {
            Err(StorageError::InvalidSetting { what }) => {
                assert!(!is_able && what.contains(name.as_str()), "{name}: {what}");
            }
            answer => assert!(answer.is_ok() && is_able, "{name}: {answer:?}"),
        };
        let has_key = !kind.key_columns().is_empty();
        can(write.get_by_key(name, &refs(&rows[0])[..1], |_| ()).map(drop), has_key);
        can(write.get(name, 1, |_| ()).map(drop), !has_key);
        can(write.rows(RowRange::of(name).backward()).map(drop), kind.has_order());
        can(write.heap_tree(name).map(drop), kind.read_as() == Some(ReadAs::Heap));
        can(write.clustered_tree(name).map(drop), kind.read_as() == Some(ReadAs::Clustered));
        can(write.pax_table(name).map(drop), kind.read_as() == Some(ReadAs::Pax));
        can(write.create_index(name, "by_value", &["value"]), kind.takes_indexes());
        can(write.insert(name, &refs(&rows[1])).map(drop), kind.takes_changes());
        can(write.put(name, &refs(&rows[2])).map(drop), kind.takes_changes() && has_key);
        can(write.insert_all(name, &rows[3..9]), kind.takes_changes());
        let other = format!("{name}-other");
        can(write.create_table(&other, columns.clone(), kind.clone()), kind.takes_changes());
        write.commit().unwrap();
    }
    assert_eq!(database.read().check().unwrap().findings, [""; 0]);
}
