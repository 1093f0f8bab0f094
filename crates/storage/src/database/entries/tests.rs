//! Raw trees against a map, across transactions, rollbacks, crashes and openings.

use super::*;
use crate::database::{Database, Flow, Isolation, LoadOptions, RowOrder, RowRange};
use crate::sqlite::Value;
use crate::volume::DeviceVolume;
use crate::{ReadPages, Settings, Volumes};
use nandu_device::{Geometry, MemoryConfig, MemoryDevice, SharedDevice};
use proptest::prelude::*;
use std::collections::BTreeMap;

type TestDevice = SharedDevice<MemoryDevice>;
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A quarter of a page of 1,024 bytes, about.
const KEY_BYTES_MAX: usize = 200;

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

/// What a history does to the tree.
#[derive(Clone, Debug)]
enum Step {
    Put(Vec<u8>, Vec<u8>),
    Insert(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    /// Takes the changes since the last end back, or keeps them; the next ones have this isolation.
    End(bool, bool),
    /// Marks a place, or goes back to it.
    Mark,
    Back,
    /// Closes the database and opens it, or crashes first.
    Reopen(bool),
}

/// Keys that have much in common, and no bytes, and as many as there may be.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    let byte = || prop_oneof![Just(0_u8), Just(1), Just(0xFF), any::<u8>()];
    prop_oneof![
        6 => proptest::collection::vec(byte(), 0..4),
        2 => proptest::collection::vec(byte(), 0..30),
        1 => (byte(), 0..=KEY_BYTES_MAX).prop_map(|(byte, length)| vec![byte; length]),
    ]
}

/// Values of no bytes, of a few, and such as take pages of their own.
fn values() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..20),
        1 => (any::<u8>(), 0..6000_usize).prop_map(|(byte, length)| vec![byte; length]),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (keys(), values()).prop_map(|(key, value)| Step::Put(key, value)),
        4 => (keys(), values()).prop_map(|(key, value)| Step::Insert(key, value)),
        6 => keys().prop_map(Step::Delete),
        2 => any::<(bool, bool)>().prop_map(|(keeps, is_snapshot)| Step::End(keeps, is_snapshot)),
        1 => Just(Step::Mark),
        1 => Just(Step::Back),
        1 => any::<bool>().prop_map(Step::Reopen),
    ]
}

fn as_row(bound: Bound<&[u8]>) -> Bound<[ValueRef<'_>; 1]> {
    bound.map(|key| [ValueRef::Blob(key)])
}

/// Both directions, a range, a prefix, rows, a batch of keys, and the database's own check.
fn assert_entries(tables: &Tables, model: &Model, probe: &[u8]) {
    let all = tables.entries("raw").unwrap().map(Result::unwrap);
    assert!(all.eq(model.clone()));
    let back = tables.entries(EntryRange::of("raw").backward()).unwrap().map(Result::unwrap);
    assert!(back.eq(model.clone().into_iter().rev()));
    for bounds in [
        (Bound::Included(probe), Bound::Unbounded),
        (Bound::Excluded(probe), Bound::Unbounded),
        (Bound::Unbounded, Bound::Included(probe)),
        (Bound::Unbounded, Bound::Excluded(probe)),
    ] {
        let found: Model = tables
            .entries(EntryRange::of("raw").between(bounds))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let wanted =
            model.range::<[u8], _>(bounds).map(|(key, value)| (key.clone(), value.clone()));
        assert_eq!(found, wanted.collect::<Model>());
        let (lower, upper) = (as_row(bounds.0), as_row(bounds.1));
        let (lower, upper) =
            (lower.as_ref().map(|row| &row[..]), upper.as_ref().map(|row| &row[..]));
        let range = RowRange::of("raw").between((lower, upper));
        let rows = tables.rows(range).unwrap().map(Result::unwrap);
        let rows = rows.map(|row| match <[Value; 2]>::try_from(row).unwrap() {
            [Value::Blob(key), Value::Blob(value)] => (key, value),
            other => panic!("{other:?} are no two blobs"),
        });
        assert_eq!(rows.collect::<Model>(), found);
    }
    let prefix = &probe[..probe.len() / 2];
    let range = EntryRange::of("raw").with_prefix(prefix);
    let found: Model = tables.entries(range).unwrap().map(Result::unwrap).collect();
    let wanted = model.iter().filter(|(key, _)| key.starts_with(prefix));
    let wanted = wanted.map(|(key, value)| (key.clone(), value.clone()));
    assert_eq!(found, wanted.collect::<Model>());
    let mut wanted: Vec<&[u8]> = model.keys().step_by(3).map(Vec::as_slice).collect();
    wanted.push(probe);
    let mut found = vec![None; wanted.len()];
    tables.values("raw", &wanted, |place, value| found[place] = Some(value.to_vec())).unwrap();
    for (key, found) in wanted.iter().zip(found) {
        assert_eq!(found.as_ref(), model.get(*key));
        assert_eq!(tables.value("raw", key, <[u8]>::to_vec).unwrap(), found);
        let value = tables.get_by_key("raw", &[ValueRef::Blob(key)], |row| row.get(1).to_value());
        assert_eq!(value.unwrap(), found.map(Value::Blob));
    }
    let report = tables.check().unwrap();
    assert_eq!(report.findings, [""; 0]);
    assert_eq!(report.row_count, model.len() as u64);
}

/// Runs steps up to the end of a transaction; gives what ended it.
fn run(
    database: &Database,
    steps: &mut impl Iterator<Item = Step>,
    model: &mut Model,
    isolation: Isolation,
) -> Option<Step> {
    let mut write = database.write_with(isolation).unwrap();
    let mut own = model.clone();
    let mut mark = None;
    for step in steps {
        match step {
            Step::Put(key, value) => {
                let was_there = write.put_value("raw", &key, &value).unwrap();
                assert_eq!(was_there, own.insert(key, value).is_some());
            }
            Step::Insert(key, value) => match write.insert_value("raw", &key, &value) {
                Ok(()) => assert!(own.insert(key, value).is_none()),
                Err(StorageError::Exists { .. }) => assert!(own.contains_key(&key)),
                Err(error) => panic!("{error}"),
            },
            Step::Delete(key) => {
                let was_there = write.delete_value("raw", &key).unwrap();
                assert_eq!(was_there, own.remove(&key).is_some());
            }
            Step::Mark => mark = Some((write.savepoint(), own.clone())),
            Step::Back => {
                if let Some((place, then)) = mark.take() {
                    write.rollback_to(place).unwrap();
                    own = then;
                }
            }
            end @ (Step::End(..) | Step::Reopen(_)) => {
                assert!(write.entries("raw").unwrap().map(Result::unwrap).eq(own.clone()));
                match end {
                    Step::End(true, _) => {
                        write.commit().unwrap();
                        *model = own;
                    }
                    Step::Reopen(true) => write.abandon(),
                    _ => write.rollback().unwrap(),
                }
                return Some(end);
            }
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_raw_tree_is_a_map_across_rollbacks_crashes_and_openings(
        steps in proptest::collection::vec(steps(), 1..150),
        probe in keys(),
    ) {
        let device = device();
        let mut database = create(&device);
        let make = |write: &mut WriteTransaction<'_>| write.create_raw_table("raw");
        database.transact(Isolation::Serializable, make).unwrap();
        let (mut steps, mut model) = (steps.into_iter(), Model::new());
        let mut isolation = Isolation::Serializable;
        while let Some(end) = run(&database, &mut steps, &mut model, isolation) {
            match end {
                Step::End(_, true) => isolation = Isolation::Snapshot,
                Step::Reopen(is_crash) => {
                    if is_crash {
                        drop(database);
                    } else {
                        database.close().unwrap();
                    }
                    database = open(&device);
                }
                _ => isolation = Isolation::Serializable,
            }
            assert_entries(&database.read(), &model, &probe);
        }
        assert_entries(&database.read(), &model, &probe);
    }

    #[test]
    fn a_loaded_raw_tree_has_what_was_pushed(
        model in proptest::collection::btree_map(keys(), values(), 0..200),
        probe in keys(),
        order in 0..3_usize,
    ) {
        let order = [RowOrder::Ascending, RowOrder::Sort, RowOrder::Insert][order];
        let mut entries: Vec<(&Vec<u8>, &Vec<u8>)> = model.iter().collect();
        if order != RowOrder::Ascending {
            entries.sort_by_key(|(key, value)| (value.len(), key.len(), *key));
        }
        let device = device();
        let database = create(&device);
        let mut write = database.write().unwrap();
        let options = LoadOptions { order, sort_bytes: 16 << 10, ..LoadOptions::default() };
        let loaded = write.load_table(&NewTable::raw("raw"), &options, |load| {
            entries.iter().try_for_each(|(key, value)| load.push_entry(key, value))
        });
        prop_assert_eq!(loaded.unwrap().row_count, model.len() as u64);
        write.commit().unwrap();
        assert_entries(&database.read(), &model, &probe);
        drop(database);
        assert_entries(&open(&device).read(), &model, &probe);
    }
}

#[test]
fn an_entry_as_long_as_there_may_be_fits_and_a_longer_one_is_refused() {
    let database = create(&device());
    let mut write = database.write().unwrap();
    write.create_raw_table("raw").unwrap();
    let usable_bytes = write.engine().usable_bytes();
    let key_bytes = Tree::key_bytes_max(usable_bytes);
    assert!(key_bytes >= KEY_BYTES_MAX, "{key_bytes}");
    let value_bytes = nandu_base::to_index(settings().row_bytes_max());
    let (key, value) = (vec![7; key_bytes + 1], vec![8; value_bytes + 1]);
    write.put_value("raw", &key[1..], &value[1..]).unwrap();
    let is_refused = |put: Result<bool, StorageError>| {
        assert!(matches!(put, Err(StorageError::TooLarge { .. })), "{put:?}")
    };
    is_refused(write.put_value("raw", &key, b""));
    is_refused(write.put_value("raw", b"", &value));
    is_refused(write.insert_value("raw", &key, b"").map(|()| false));
    is_refused(write.insert_value("raw", b"", &value).map(|()| false));
    let model = Model::from([(key[1..].to_vec(), value[1..].to_vec())]);
    assert_entries(&write, &model, b"\x07");
}

#[test]
fn rows_of_a_raw_tree_are_two_blobs_and_nothing_else() {
    let database = create(&device());
    let mut write = database.write().unwrap();
    write.create_raw_table("raw").unwrap();
    let [key, value] = [ValueRef::Blob(b"key"), ValueRef::Blob(b"value")];
    assert!(!write.put("raw", &[key, value]).unwrap());
    assert_eq!(write.value("raw", b"key", <[u8]>::to_vec).unwrap().unwrap(), b"value");
    let is_invalid = |wrong: Result<(), StorageError>, why: &str| match wrong {
        Err(StorageError::InvalidSetting { what }) => assert!(what.contains(why), "{what}"),
        other => panic!("{other:?} does not say {why}"),
    };
    for row in [&[key, ValueRef::Null][..], &[ValueRef::Integer(7), value], &[key]] {
        is_invalid(write.insert("raw", row).map(drop), "");
        is_invalid(write.put("raw", row).map(drop), "");
    }
    is_invalid(write.get_by_key("raw", &[ValueRef::Null], |_| ()).map(drop), "null does not fit");
    is_invalid(write.get_by_key("raw", &[key, value], |_| ()).map(drop), "2 values");
    is_invalid(write.get("raw", 1, |_| ()).map(drop), "found by key");
    is_invalid(write.clustered_tree("raw").map(drop), "its entries are no rows");
    is_invalid(write.create_index("raw", "by_value", &["value"]), "rows have no numbers");
    let columns = NewTable::raw("other").columns;
    is_invalid(write.create_table("other", columns[..1].to_vec(), TableKind::Raw), "is raw");
    write.create_table("clustered", columns, TableKind::Clustered { key: vec![0] }).unwrap();
    is_invalid(write.put_value("clustered", b"", b"").map(drop), "no raw tree");
    is_invalid(write.value("clustered", b"", |_| ()).map(drop), "no raw tree");
    is_invalid(write.entries("clustered").map(drop), "no raw tree");
    let mut found = Vec::new();
    let keep = |_, row: crate::sqlite::RecordView<'_>| {
        found.push((row.get(0).to_value(), row.get(1).to_value()));
        Flow::Continue(())
    };
    write.scan("raw", keep).unwrap();
    assert_eq!(found, [(Value::Blob(b"key".to_vec()), Value::Blob(b"value".to_vec()))]);
    let kinds = write.stat().unwrap().into_iter().map(|stat| (stat.kind, stat.row_count));
    assert!(kinds.eq([("clustered", 0), ("raw", 1)]));
}

#[test]
fn what_others_changed_since_is_not_overwritten_and_a_scanned_range_is_locked() {
    let mut settings = settings();
    settings.lock_timeout_ns = 0;
    let data = Box::new(DeviceVolume::format(Box::new(device())).unwrap());
    let database = Database::create(Volumes::new(data, None), &settings, 1).unwrap();
    let make = |write: &mut WriteTransaction<'_>| {
        write.create_raw_table("raw")?;
        write.put_value("raw", b"b", b"1").map(drop)
    };
    database.transact(Isolation::Serializable, make).unwrap();
    let mut late = database.write_with(Isolation::Snapshot).unwrap();
    let before = database.snapshot();
    let mut early = database.write_with(Isolation::Snapshot).unwrap();
    early.put_value("raw", b"b", b"2").unwrap();
    assert!(late.put_value("raw", b"b", b"3").unwrap_err().is_transient());
    early.commit().unwrap();
    let error = late.put_value("raw", b"b", b"3").unwrap_err();
    assert!(matches!(error, StorageError::Conflict { .. }), "{error}");
    late.put_value("raw", b"c", b"3").unwrap();
    late.rollback().unwrap();
    let value = |tables: &Tables| tables.value("raw", b"b", <[u8]>::to_vec).unwrap().unwrap();
    assert_eq!((value(&before), value(&database.read())), (b"1".to_vec(), b"2".to_vec()));
    // A serializable scan keeps others out of its range, but not from beside it.
    let reader = database.write().unwrap();
    let range = EntryRange::of("raw").at_least(b"a").less_than(b"c");
    assert_eq!(reader.entries(range).unwrap().count(), 1);
    let mut writer = database.write().unwrap();
    assert!(writer.insert_value("raw", b"bb", b"").unwrap_err().is_transient());
    writer.insert_value("raw", b"c", b"").unwrap();
}
