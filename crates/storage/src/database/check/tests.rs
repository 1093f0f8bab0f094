//! Planted damage of every kind: it is found, named by its place, and does not hide what lies beside.

use super::*;
use crate::database::change::{delete_entry, insert_entry, logged};
use crate::database::core::Core;
use crate::database::kind::TableKind;
use crate::database::load::{LoadOptions, NewTable};
use crate::database::schema::{Column, ColumnType};
use crate::engine::{Settings, StructureKind, Volumes};
use crate::sqlite::encode_record;
use crate::volume::{DeviceVolume, IoOwner};
use crate::{ChangePages, Database, PageAddress, PageOperation};
use nandu_device::{
    DeviceError, FaultPlan, FaultyDevice, Geometry, IoBuffer, MemoryConfig, MemoryDevice,
    Operation, SharedDevice,
};
use std::sync::Arc;

type TestDevice = SharedDevice<FaultyDevice<MemoryDevice>>;

const ROW_COUNT: i64 = 200;

/// A heap `things` with an index, some rows of it on overflow pages, and the clustered `ordered`.
fn database() -> (Database, TestDevice) {
    let geometry = Geometry { sector_bytes: 512, sector_count: 32 << 11 };
    let memory = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let device = SharedDevice::new(FaultyDevice::new(memory, FaultPlan::default()));
    let data = Box::new(DeviceVolume::format(Box::new(device.clone())).unwrap());
    let settings = Settings {
        page_bytes: 512,
        pool_bytes: 256 << 10,
        log_bytes: 4 << 20,
        checkpoint_bytes: 128 << 10,
        ..Settings::default()
    };
    let database = Database::create(Volumes::new(data, None), &settings, 1).unwrap();
    let columns = || {
        let id = Column::new("id", ColumnType::Integer).not_null();
        vec![id, Column::new("x", ColumnType::Text)]
    };
    let mut write = database.write().unwrap();
    write.create_table("things", columns(), TableKind::Heap).unwrap();
    write.create_index("things", "by_id", &["id"]).unwrap();
    write.create_table("ordered", columns(), TableKind::Clustered { key: vec![0] }).unwrap();
    for id in 0..ROW_COUNT {
        let text = "text".repeat(if id % 50 == 0 { 300 } else { 5 });
        let row = [ValueRef::Integer(10 * id), ValueRef::Text(text.as_bytes())];
        write.insert("things", &row).unwrap();
        write.insert("ordered", &row).unwrap();
    }
    write.commit().unwrap();
    assert_eq!(findings(&database), [""; 0]);
    (database, device)
}

fn findings(database: &Database) -> Vec<String> {
    database.read().check().unwrap().findings
}

/// Changes something behind the back of what keeps it in order.
fn plant(database: &Database, change: impl FnOnce(&mut Core)) {
    let mut write = database.write().unwrap();
    write.with_core(change);
    write.commit().unwrap();
}

fn files(tables: &Core) -> (FileId, FileId, FileId) {
    let things = &tables.table("things").unwrap().definition;
    (things.file, things.indexes[0].file, tables.table("ordered").unwrap().definition.file)
}

fn entry(id: i64, number: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in [id, number] {
        key::encode_key(ValueRef::Integer(value), &mut bytes);
    }
    bytes
}

/// Makes the first byte of a page one that no page begins with.
fn spoil(tables: &mut Core, file: FileId, page: u32) {
    let code = PageOperation::BYTES;
    let operation = PageOperation { code, operand: 0, first: &[0xEE], second: &[] };
    let address = PageAddress::new(file, page);
    tables.engine.act(|pages| pages.change(address, operation)).unwrap();
}

/// Puts a record into the heap, under its number if there is such a row, and past its index.
fn put_record(tables: &mut Core, number: Option<i64>, values: &[ValueRef<'_>]) -> i64 {
    let mut record = Vec::new();
    encode_record(values.iter().copied(), &mut record);
    let file = files(tables).0;
    let Core { engine, heaps, .. } = tables;
    let heap = heaps.get_mut(&file).unwrap();
    let put = engine.act(|pages| {
        logged(pages, StructureKind::Heap, file, |pages, undo| match number {
            None => heap.append(pages, &record, undo),
            Some(number) => heap.update(pages, number, &record, undo).map(|()| number),
        })
    });
    put.unwrap()
}

fn put_clustered(tables: &mut Core, key: &[u8], value: &[u8]) {
    let file = files(tables).2;
    let put = tables.engine.act(|pages| {
        logged(pages, StructureKind::Tree, file, |pages, undo| {
            Tree::at(file).upsert(pages, key, value, undo)
        })
    });
    put.unwrap();
}

#[test]
fn an_entry_without_a_row_is_found() {
    let (database, _device) = database();
    plant(&database, |tables| {
        let index = files(tables).1;
        insert_entry(&mut tables.engine, index, &entry(55, 9999)).unwrap();
    });
    let wanted = ["row 9999 does not exist", "201 entries for 200 rows"];
    assert_eq!(findings(&database), wanted.map(|what| format!("index by_id of things: {what}")));
}

#[test]
fn a_row_without_an_entry_is_named() {
    let (database, _device) = database();
    plant(&database, |tables| {
        let index = files(tables).1;
        delete_entry(&mut tables.engine, index, &entry(70, 8)).unwrap();
    });
    let wanted = ["199 entries for 200 rows", "row 8 has no entry"];
    assert_eq!(findings(&database), wanted.map(|what| format!("index by_id of things: {what}")));
}

#[test]
fn an_entry_of_another_value_is_found_though_the_counts_agree() {
    let (database, _device) = database();
    plant(&database, |tables| {
        put_record(tables, Some(8), &[ValueRef::Integer(71), ValueRef::Null]);
    });
    assert_eq!(findings(&database), ["index by_id of things: row 8 has other values"]);
    plant(&database, |tables| {
        let index = files(tables).1;
        // Two for one row, none for the other.
        delete_entry(&mut tables.engine, index, &entry(70, 8)).unwrap();
        insert_entry(&mut tables.engine, index, &entry(7, 9)).unwrap();
    });
    assert_eq!(findings(&database), ["index by_id of things: row 9 has other values"]);
}

#[test]
fn an_entry_that_is_none_is_found() {
    let (database, _device) = database();
    plant(&database, |tables| {
        let index = files(tables).1;
        insert_entry(&mut tables.engine, index, b"no key").unwrap();
    });
    let found = findings(&database);
    assert!(found[0].starts_with("index by_id of things: an index entry is corrupt"), "{found:?}");
}

#[test]
fn a_heap_row_that_does_not_fit_its_table_is_found() {
    let (database, _device) = database();
    plant(&database, |tables| {
        let id = ValueRef::Integer(5);
        put_record(tables, Some(1), &[ValueRef::Integer(0)]);
        put_record(tables, Some(2), &[ValueRef::Integer(10), ValueRef::Blob(b"x")]);
        let long = [7; 2000];
        put_record(tables, Some(3), &[ValueRef::Integer(20), ValueRef::Blob(&long)]);
        for values in [&[ValueRef::Null, ValueRef::Null][..], &[id, ValueRef::Null, id]] {
            let number = put_record(tables, None, values);
            let mut record = Vec::new();
            encode_record(values.iter().copied(), &mut record);
            let index = tables.table("things").unwrap().definition.indexes[0].clone();
            let entry = entry_key(&index, RecordView::new(&record).unwrap(), number);
            insert_entry(&mut tables.engine, index.file, &entry).unwrap();
        }
        put_record(tables, Some(4), &[ValueRef::Integer(30), ValueRef::Text(b"B\xe4r")]);
    });
    let mut found = findings(&database);
    found.sort();
    let wanted = [
        "row 4: column x holds a text that is not UTF-8, and is TEXT",
        "row 1: it has 1 value, the table 2 columns",
        "row 201: column id holds null, and is INT NOT NULL",
        "row 202: it has 3 values, the table 2 columns",
        "row 2: column x holds a blob, and is TEXT",
        "row 3: column x holds a blob, and is TEXT",
    ];
    let mut wanted = wanted.map(|what| format!("table things: {what}"));
    wanted.sort();
    assert_eq!(found, wanted);
}

#[test]
fn a_clustered_row_that_does_not_fit_its_key_or_table_is_found() {
    let (database, _device) = database();
    plant(&database, |tables| {
        let record = |values: &[ValueRef<'_>]| {
            let mut bytes = Vec::new();
            encode_record(values.iter().copied(), &mut bytes);
            bytes
        };
        let key = |id: i64| {
            let mut bytes = Vec::new();
            key::encode_key(ValueRef::Integer(id), &mut bytes);
            bytes
        };
        let other = record(&[ValueRef::Integer(31), ValueRef::Null]);
        put_clustered(tables, &key(30), &other);
        put_clustered(tables, &key(50), &record(&[ValueRef::Text(b"50"), ValueRef::Null]));
        put_clustered(tables, &key(70), &[0xFF; 3]);
        put_clustered(tables, b"?", &record(&[ValueRef::Integer(9), ValueRef::Null]));
    });
    let found = findings(&database);
    assert_eq!(found.len(), 4, "{found:?}");
    let row = |what: &str| format!("table ordered: the row with key {what}");
    assert_eq!(found[0], row("30: its columns say 31"));
    assert_eq!(found[1], row("50: column id holds a text, and is INT NOT NULL"));
    assert!(found[2].starts_with(&row("70: a row of a clustered table is corrupt")), "{found:?}");
    assert_eq!(found[3], row("that cannot be read (1 byte): its columns say 9"));
}

#[test]
fn damaged_heap_pages_are_named_and_hide_neither_each_other_nor_the_index() {
    let (database, _device) = database();
    plant(&database, |tables| {
        let (things, index, _) = files(tables);
        // Two leaves, and an entry that leads nowhere.
        let heap = tables.table("things").unwrap().heap().unwrap().tree();
        let leaves: Vec<u32> =
            heap.leaf_runs(&tables.engine, 1).unwrap().into_iter().flatten().collect();
        assert!(leaves.len() > 8);
        insert_entry(&mut tables.engine, index, &entry(55, 9999)).unwrap();
        spoil(tables, things, leaves[2]);
        spoil(tables, things, leaves[6]);
    });
    let report = database.read().check().unwrap();
    let found = &report.findings;
    assert_eq!(found.len(), 3, "{found:?}");
    for finding in &found[..2] {
        assert!(finding.starts_with("table things: page "), "{finding}");
        let end = " of things.sqlite is corrupt: it is no page of a tree";
        assert!(finding.ends_with(end), "{finding}");
    }
    assert_eq!(found[2], "index by_id of things: row 9999 does not exist");
    assert!((150..200).contains(&(report.row_count - 200)), "{report:?}");
    assert_eq!(report.index_entry_count, 201);
    // Readers of such a page are told its file, too.
    let said = database.read().scan("things", |_, _| crate::database::Flow::Continue(()));
    let said = said.unwrap_err().to_string();
    assert!(said.contains(" of things.sqlite is corrupt"), "{said}");
    let said = database.read().stat().unwrap_err().to_string();
    assert!(said.contains(" of things.sqlite is corrupt"), "{said}");
}

#[test]
fn a_page_of_the_heap_that_nothing_uses_is_found() {
    let (database, _device) = database();
    plant(&database, |tables| {
        let file = files(tables).0;
        let Core { engine, heaps, .. } = &mut *tables;
        let heap = heaps.get_mut(&file).unwrap();
        let page_count = heap.page_counts().0;
        let words = [0; 8];
        let operation = PageOperation {
            code: crate::sqlite::edit::SET_HEADER,
            operand: page_count + 1,
            first: &words,
            second: &[],
        };
        let added = engine.act(|pages| {
            pages.create(PageAddress::new(file, page_count + 1))?;
            pages.change(PageAddress::new(file, 1), operation)
        });
        added.unwrap();
        tables.refresh(tables.engine.active_transaction()).unwrap();
    });
    let found = findings(&database);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].ends_with(" of things.sqlite is corrupt: it is not used"), "{found:?}");
}

#[test]
fn damaged_pages_of_trees_are_named_with_their_files() {
    let (database, _device) = database();
    plant(&database, |tables| {
        let (_, index, ordered) = files(tables);
        spoil(tables, index, 3);
        spoil(tables, ordered, 4);
        let catalog = tables.catalog;
        spoil(tables, catalog, 2);
    });
    let found = findings(&database);
    for (what, place) in [
        ("the catalogue: ", "page 2 of catalog: "),
        ("table ordered: ", "page 4 of ordered.tree: "),
        ("index by_id of things: ", "page 3 of things.by_id.tree: "),
    ] {
        let is_it = |finding: &String| finding.starts_with(&format!("{what}{place}"));
        assert!(found.iter().any(is_it), "{what}{place}: {found:?}");
    }
    assert!(!found.iter().any(|finding| finding.contains("table things: ")), "{found:?}");
    let said = database.read().stat().unwrap_err().to_string();
    assert!(said.contains("ordered") && said.contains("ordered.tree"), "{said}");
}

#[test]
fn a_sector_that_cannot_be_read_is_a_finding_and_a_device_without_power_an_error() {
    let (database, device) = database();
    database.checkpoint().unwrap();
    database.drop_cached_pages().unwrap();
    let clean_count = {
        let first = device.lock().submitted_count();
        assert_eq!(findings(&database), [""; 0]);
        device.lock().submitted_count() - first
    };
    let mut found_count = 0;
    for nth in 1..=clean_count {
        database.drop_cached_pages().unwrap();
        let at = device.lock().submitted_count() + nth;
        device.lock().set_plan(FaultPlan { fail_requests: vec![at], ..FaultPlan::default() });
        found_count += usize::from(!findings(&database).is_empty());
    }
    // What failed ahead of its time is read again when it is wanted.
    assert!(found_count > 3, "{found_count} of {clean_count}");
    database.drop_cached_pages().unwrap();
    device.lock().cut_power();
    let error = database.read().check().unwrap_err();
    let is_power = matches!(&error, StorageError::Device { error: DeviceError::PowerLost, .. });
    assert!(is_power, "{error}");
}

#[test]
fn findings_of_a_structure_are_told_up_to_a_hundred() {
    let (database, _device) = database();
    plant(&database, |tables| {
        let index = files(tables).1;
        for number in 1000..1150 {
            insert_entry(&mut tables.engine, index, &entry(5, number)).unwrap();
        }
    });
    let found = findings(&database);
    assert_eq!(found.len(), FINDING_COUNT_MAX + 1);
    assert_eq!(found[FINDING_COUNT_MAX], "index by_id of things: there is more");
}

/// Adds the table `columns`, in PAX pages.
fn add_columns(database: &Database) -> (FileId, u32) {
    let mut write = database.write().unwrap();
    let table = NewTable {
        name: "columns".to_owned(),
        columns: vec![Column::new("id", ColumnType::Integer), Column::new("x", ColumnType::Text)],
        kind: TableKind::Pax { span_pages: 4 },
        indexes: Vec::new(),
    };
    write
        .load_table(&table, &LoadOptions::default(), |load| -> Result<(), StorageError> {
            (0..1000)
                .try_for_each(|id| load.push(&[ValueRef::Integer(id), ValueRef::Text(b"text")]))
        })
        .unwrap();
    let pax = write.pax_table("columns").unwrap();
    let place = (pax.file(), pax.page_count());
    write.commit().unwrap();
    assert_eq!(findings(database), [""; 0]);
    place
}

#[test]
fn a_value_that_passes_its_minipage_is_found_with_its_page() {
    let (database, _) = database();
    add_columns(&database);
    plant(&database, |tables| {
        let table = Arc::clone(tables.table("columns").unwrap());
        let pax = table.rows.pax().expect("columns lie in PAX pages");
        let (text, file) = (pax.minipage(0, 1), table.definition.file);
        spoil(tables, file, text.first_page);
    });
    let found = findings(&database);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("table columns: ") && found[0].contains("passes its end"),
        "{found:?}"
    );
    assert!(found[0].contains("page 3 of columns.pax"), "{found:?}");
}

/// Reads or writes a page of the volume, past pool and log.
fn transfer(
    database: &Database,
    operation: Operation,
    address: PageAddress,
    buffer: IoBuffer,
) -> IoBuffer {
    let io = database.read().engine().data_io();
    let (file, offset) = (address.file, address.offset_bytes(512));
    let ticket = io.submit(IoOwner::Operator, file, operation, offset, buffer).unwrap();
    let done = io.wait(ticket);
    done.result.unwrap();
    done.buffer.unwrap()
}

#[test]
fn each_page_of_a_table_in_pax_pages_that_was_lost_is_found() {
    let (database, _) = database();
    let (file, page_count) = add_columns(&database);
    assert!(page_count > 20);
    database.checkpoint().unwrap();
    for page in 1..=page_count {
        let address = PageAddress::new(file, page);
        let written = transfer(&database, Operation::Read, address, IoBuffer::zeroed(512));
        transfer(&database, Operation::Write, address, IoBuffer::zeroed(512));
        database.drop_cached_pages().unwrap();
        let found = findings(&database);
        let place = format!("table columns: page {page} of columns.pax is corrupt: ");
        assert!(found.iter().any(|finding| finding.starts_with(&place)), "{page}: {found:?}");
        transfer(&database, Operation::Write, address, written);
        database.drop_cached_pages().unwrap();
        assert_eq!(findings(&database), [""; 0]);
    }
}
