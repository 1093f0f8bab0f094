//! Many transactions at once: random histories against a model, replayed in the order of the commits, and
//! the anomalies that each isolation allows and forbids (Adya, Liskov and `O'Neil`, ICDE 2000; the suite
//! Hermitage of Kleppmann).
//!
//! One thread goes from one transaction to another. Where it would have to wait, it is told so at once
//! (`lock_timeout_ns` is 0) and goes on with another.

use super::*;
use crate::sqlite::{RecordView, Value, ValueRef};
use crate::volume::DeviceVolume;
use nandu_base::{Nanos, Rng};
use nandu_device::{FaultPlan, FaultyDevice, Geometry, MemoryConfig, MemoryDevice, SharedDevice};
use nandu_workers::{Schedule, Work};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

mod anomalies;
mod beside;
mod faults;
mod histories;
mod pending;
mod places;
mod tables;

type TestDevice = SharedDevice<FaultyDevice<MemoryDevice>>;

fn device() -> TestDevice {
    let geometry = Geometry { sector_bytes: 512, sector_count: 64 << 11 };
    let memory = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    SharedDevice::new(FaultyDevice::new(memory, FaultPlan::default()))
}

fn settings() -> Settings {
    Settings {
        page_bytes: 512,
        pool_bytes: 48 << 10,
        log_bytes: 4 << 20,
        checkpoint_bytes: 64 << 10,
        lock_timeout_ns: 0,
        ..Settings::default()
    }
}

/// A database with the clustered table `pairs` and the heap `things` with an index.
fn create(device: &TestDevice, settings: &Settings) -> Database {
    let data = Box::new(DeviceVolume::format(Box::new(device.clone())).unwrap());
    let database = Database::create(Volumes::new(data, None), settings, 1).unwrap();
    let columns = |first: &str| {
        let first = Column::new(first, ColumnType::Integer).not_null();
        vec![first, Column::new("text", ColumnType::Text)]
    };
    let mut write = database.write().unwrap();
    write.create_table("pairs", columns("key"), TableKind::Clustered { key: vec![0] }).unwrap();
    write.create_table("things", columns("id"), TableKind::Heap).unwrap();
    write.create_index("things", "by_id", &["id"]).unwrap();
    write.commit().unwrap();
    database
}

fn open(device: &TestDevice, settings: &Settings) -> (Database, RestartReport) {
    device.forget_completions();
    let data = Box::new(DeviceVolume::open(Box::new(device.clone())).unwrap());
    Database::open(Volumes::new(data, None), settings).unwrap()
}

fn text_of(record: RecordView<'_>) -> String {
    match record.get(1).to_value() {
        Value::Text(text) => text,
        other => panic!("{other:?} is no text"),
    }
}

fn integer_of(record: RecordView<'_>) -> i64 {
    match record.get(0) {
        ValueRef::Integer(number) => number,
        other => panic!("{other:?} is no integer"),
    }
}

fn get(tables: &Tables, key: i64) -> Result<Option<String>, StorageError> {
    tables.get_by_key("pairs", &[ValueRef::Integer(key)], text_of)
}

fn put(write: &mut WriteTransaction<'_>, key: i64, text: &str) -> Result<bool, StorageError> {
    write.put("pairs", &[ValueRef::Integer(key), ValueRef::Text(text.as_bytes())])
}

fn put_all(write: &mut WriteTransaction<'_>, keys: std::ops::Range<i64>, text: &str) {
    for key in keys {
        put(write, key, text).unwrap();
    }
}

fn range(tables: &Tables, from: i64, to: i64) -> Result<Vec<(i64, String)>, StorageError> {
    let (from, to) = ([ValueRef::Integer(from)], [ValueRef::Integer(to)]);
    let bounds = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
    let mut found = Vec::new();
    tables.scan_by_key("pairs", bounds, 2, |record| {
        found.push((integer_of(record), text_of(record)));
        Flow::Continue(())
    })?;
    Ok(found)
}

#[test]
fn a_snapshot_sees_its_moment_whatever_comes() {
    let database = create(&device(), &settings());
    let before = database.snapshot();
    let mut write = database.write().unwrap();
    put(&mut write, 1, "one").unwrap();
    let during = database.snapshot();
    assert_eq!(get(&write, 1).unwrap().as_deref(), Some("one"), "its own change");
    write.commit().unwrap();
    let after = database.snapshot();
    let mut write = database.write().unwrap();
    put(&mut write, 1, "two").unwrap();
    write.commit().unwrap();
    for (snapshot, text) in [(&before, None), (&during, None), (&after, Some("one"))] {
        assert_eq!(get(snapshot, 1).unwrap().as_deref(), text);
        assert_eq!(snapshot.check().unwrap().findings, [""; 0]);
    }
    assert!(before.engine().version_bytes() > 0);
    drop((before, during, after));
    assert_eq!(database.read().engine().version_bytes(), 0, "without snapshots nothing is kept");
}

#[test]
fn a_snapshot_may_go_to_another_thread_and_outlive_the_handle() {
    let database = create(&device(), &settings());
    let mut write = database.write().unwrap();
    put(&mut write, 1, "one").unwrap();
    write.commit().unwrap();
    let snapshot = database.snapshot();
    let error = database.clone().close().unwrap_err();
    assert!(error.to_string().contains("snapshots are in use"), "{error}");
    let other = snapshot.clone();
    drop((snapshot, database));
    let read = std::thread::spawn(move || get(&other, 1)).join().unwrap().unwrap();
    assert_eq!(read.as_deref(), Some("one"));
}

#[test]
fn reading_inside_of_reading_works_with_a_writer_in_between() {
    let database = create(&device(), &settings());
    let mut write = database.write().unwrap();
    put_all(&mut write, 0..200, "text");
    write.commit().unwrap();
    let outer = database.read();
    let mut count = 0;
    let everything = |_: i64, record: RecordView<'_>| {
        let key = integer_of(record);
        let mut write = database.write().unwrap();
        put(&mut write, key, "other").unwrap();
        write.commit().unwrap();
        let inner = database.read();
        assert_eq!(get(&inner, key).unwrap().as_deref(), Some("other"));
        assert_eq!(get(&outer, key).unwrap().as_deref(), Some("text"));
        count += 1;
        Flow::Continue(())
    };
    outer.scan("pairs", everything).unwrap();
    assert_eq!(count, 200);
    // While a single row is lent, too.
    let touch = |key: i64| {
        let mut write = database.write().unwrap();
        put(&mut write, key, "third").unwrap();
        let row = [ValueRef::Integer(key), ValueRef::Text(b"thing")];
        let number = write.insert("things", &row).unwrap();
        write.commit().unwrap();
        number
    };
    let key = [ValueRef::Integer(7)];
    let number = outer.get_by_key("pairs", &key, |_| touch(7)).unwrap().unwrap();
    let later = database.read();
    assert_eq!(later.get("things", number, |_| touch(8)).unwrap(), Some(number + 1));
    let mut numbers = Vec::new();
    let scanned = later.scan("things", |_, record| {
        numbers.push(touch(integer_of(record)));
        Flow::Continue(())
    });
    scanned.unwrap();
    assert_eq!(numbers, [number + 2]);
}

#[test]
fn changing_rows_while_those_of_a_batch_or_an_index_are_lent_works() {
    let room = Settings { pool_bytes: 8 << 20, log_bytes: 24 << 20, ..settings() };
    let database = create(&device(), &room);
    let mut write = database.write().unwrap();
    put_all(&mut write, 0..200, "text");
    // A third of them is read again, since not all are copied at once.
    let long = "long".repeat(3000);
    let row = |id: i64| [ValueRef::Integer(id), ValueRef::Text(long.as_bytes())];
    let numbers: Vec<i64> = (0..128).map(|id| write.insert("things", &row(id)).unwrap()).collect();
    write.commit().unwrap();
    let before = database.read();
    let mut seen = [0; 4];
    let touch = |key: i64| {
        let mut write = database.write().unwrap();
        put(&mut write, key % 200, "other").unwrap();
        write.update("things", numbers[usize::try_from(key % 128).unwrap()], &row(key)).unwrap();
        write.commit().unwrap();
        assert_eq!(get(&database.read(), key % 200).unwrap().as_deref(), Some("other"));
    };
    let everything: (Bound<&[ValueRef<'_>]>, Bound<&[ValueRef<'_>]>) =
        (Bound::Unbounded, Bound::Unbounded);
    for (place, order) in [FetchOrder::Key, FetchOrder::Address].into_iter().enumerate() {
        let look = |number: i64, record: RecordView<'_>| {
            assert_eq!(numbers[usize::try_from(integer_of(record)).unwrap()], number);
            assert_eq!(text_of(record), long);
            touch(number + 1000);
            seen[place] += 1;
        };
        before.index_rows("things", "by_id", everything, order, look).unwrap();
    }
    let look = |place: usize, record: RecordView<'_>| {
        assert_eq!((integer_of(record), text_of(record)), (place as i64, long.clone()));
        touch(1);
        seen[2] += 1;
    };
    before.get_batch("things", &numbers, look).unwrap();
    let keys: Vec<Row> = (0..200).rev().map(|key| vec![Value::Integer(key)]).collect();
    let look = |place: usize, record: RecordView<'_>| {
        assert_eq!((integer_of(record), text_of(record).as_str()), (199 - place as i64, "text"));
        touch(2);
        seen[3] += 1;
    };
    before.get_batch_by_key("pairs", &keys, look).unwrap();
    assert_eq!(seen, [128, 128, 128, 200]);
}

#[test]
fn a_snapshot_whose_pages_are_not_kept_is_told_so_and_the_writer_is_not() {
    let settings = Settings { version_bytes: 4 << 10, ..settings() };
    let database = create(&device(), &settings);
    let mut write = database.write().unwrap();
    put_all(&mut write, 0..500, "first");
    write.commit().unwrap();
    let snapshot = database.snapshot();
    let mut write = database.write().unwrap();
    put_all(&mut write, 0..500, "text");
    write.commit().unwrap();
    let error = get(&snapshot, 1).unwrap_err();
    assert!(matches!(error, StorageError::SnapshotTooOld { .. }), "{error}");
    assert!(error.to_string().ends_with("take a new one, or raise version_bytes"), "{error}");
    assert_eq!(get(&database.snapshot(), 1).unwrap().as_deref(), Some("text"));
    // A transaction under way that has changed more than is kept.
    let mut write = database.write().unwrap();
    put_all(&mut write, 0..500, "other");
    let error = get(&database.snapshot(), 1).unwrap_err();
    assert!(matches!(error, StorageError::SnapshotTooOld { .. }), "{error}");
    write.commit().unwrap();
    assert_eq!(get(&database.snapshot(), 1).unwrap().as_deref(), Some("other"));
}

#[test]
fn a_torn_page_is_not_taken_for_an_old_one_whose_version_was_not_kept() {
    use crate::page::page_is_sound;
    use crate::volume::IoOwner;
    use crate::{PageAddress, ReadPages};
    use nandu_device::{IoBuffer, Operation};
    let settings = Settings { version_bytes: 4 << 10, ..settings() };
    let database = create(&device(), &settings);
    let mut write = database.write().unwrap();
    put_all(&mut write, 0..500, "first");
    write.commit().unwrap();
    let snapshot = database.snapshot();
    let (engine, io) = (snapshot.engine(), database.shared.data_io.clone());
    let file = snapshot.definition("pairs").unwrap().file;
    let page_bytes = settings.page_bytes as usize;
    let read_past_pool = |address: PageAddress| {
        assert!(engine.settle(file).unwrap());
        let (buffer, offset) = (IoBuffer::zeroed(page_bytes), address.offset_bytes(512));
        let read = io.submit(IoOwner::Operator, file, Operation::Read, offset, buffer).unwrap();
        io.wait(read).buffer.unwrap()
    };
    let pages = (1..=20).map(|page| PageAddress::new(file, page));
    let before: Vec<_> = pages.map(|address| (address, read_past_pool(address))).collect();
    let mut write = database.write().unwrap();
    put_all(&mut write, 0..500, "other");
    write.commit().unwrap();
    let is_too_old =
        |address| matches!(engine.read(address, |_| ()), Err(StorageError::SnapshotTooOld { .. }));
    let (address, old) = before.into_iter().find(|(address, _)| is_too_old(*address)).unwrap();
    let new = read_past_pool(address);
    // The first half of the page is written, the other is not yet.
    let mut torn = new.to_vec();
    torn[page_bytes / 2..].copy_from_slice(&old[page_bytes / 2..]);
    assert!(!page_is_sound(&torn, address), "both halves changed");
    let refused = engine.mend(address, &mut torn);
    assert!(matches!(refused, Err(StorageError::SnapshotTooOld { .. })), "{refused:?}");
    let mut mended = old.to_vec();
    engine.mend(address, &mut mended).unwrap();
    assert!(mended == *old, "one that was read before is whole");
}

#[test]
fn a_dropped_table_stays_for_older_snapshots_and_goes_after_them() {
    let database = create(&device(), &settings());
    let mut write = database.write().unwrap();
    put(&mut write, 1, "one").unwrap();
    write.commit().unwrap();
    let snapshot = database.snapshot();
    let mut write = database.write().unwrap();
    write.drop_table("pairs").unwrap();
    write.commit().unwrap();
    assert!(database.read().definition("pairs").is_err());
    assert_eq!(get(&snapshot, 1).unwrap().as_deref(), Some("one"));
    let has_file = || database.read().engine().files().iter().any(|(_, name)| name == "pairs.tree");
    assert!(has_file());
    drop(snapshot);
    assert!(!has_file());
}

#[test]
fn a_snapshot_sees_the_tables_of_its_moment_beside_those_who_change_them() {
    const ROUNDS: i64 = if cfg!(miri) { 5 } else { 300 };
    let database = create(&device(), &settings());
    let mut write = database.write().unwrap();
    put(&mut write, 0, "without").unwrap();
    write.commit().unwrap();
    let is_over = AtomicBool::new(false);
    let look = || {
        while !is_over.load(Ordering::Relaxed) {
            let snapshot = database.snapshot();
            let told = get(&snapshot, 0).unwrap();
            let has_table = snapshot.definition("third").is_ok();
            assert_eq!(has_table, told.as_deref() == Some("with"), "{told:?}");
            if has_table {
                let mut count = 0;
                let every = |_: i64, _: RecordView<'_>| {
                    count += 1;
                    Flow::Continue(())
                };
                snapshot.scan("third", every).unwrap();
                assert_eq!(count, 1);
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = [scope.spawn(look), scope.spawn(look)];
        for _ in 0..ROUNDS {
            let mut write = database.write().unwrap();
            let columns = vec![Column::new("id", ColumnType::Integer)];
            write.create_table("third", columns, TableKind::Heap).unwrap();
            write.insert("third", &[ValueRef::Integer(1)]).unwrap();
            put(&mut write, 0, "with").unwrap();
            write.commit().unwrap();
            let mut write = database.write().unwrap();
            write.drop_table("third").unwrap();
            put(&mut write, 0, "without").unwrap();
            write.commit().unwrap();
            if threads.iter().any(std::thread::ScopedJoinHandle::is_finished) {
                break;
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_table_is_dropped_and_made_again_as_often_as_one_likes_while_somebody_looks() {
    let database = create(&device(), &settings());
    let snapshot = database.snapshot();
    for _ in 0..150 {
        let mut write = database.write().unwrap();
        let columns = vec![Column::new("id", ColumnType::Integer)];
        write.create_table("third", columns, TableKind::Heap).unwrap();
        write.commit().unwrap();
        let mut write = database.write().unwrap();
        write.drop_table("third").unwrap();
        write.commit().unwrap();
    }
    assert!(snapshot.definition("third").is_err());
    drop(snapshot);
    database.close().unwrap();
}

#[test]
fn who_drops_a_table_excludes_who_uses_it_and_nobody_else() {
    let database = create(&device(), &settings());
    let thing = [ValueRef::Integer(1), ValueRef::Null];
    let mut first = database.write().unwrap();
    first.insert("things", &thing).unwrap();
    let mut second = database.write().unwrap();
    let error = second.drop_table("things").unwrap_err();
    assert!(matches!(error, StorageError::LockTimeout { .. }), "{error}");
    assert!(error.to_string().starts_with("table things is locked"), "{error}");
    first.commit().unwrap();
    second.drop_table("things").unwrap();
    let mut third = database.write().unwrap();
    put(&mut third, 1, "one").unwrap();
    let error = third.insert("things", &thing).unwrap_err();
    assert!(matches!(error, StorageError::LockTimeout { .. }), "{error}");
    third.commit().unwrap();
    assert!(database.read().definition("things").is_ok(), "not yet");
    assert!(second.definition("things").is_err());
    second.rollback().unwrap();
    assert!(database.write().unwrap().definition("things").is_ok());
}

#[test]
fn a_circle_of_waiting_ends_and_a_thousand_transfers_lose_nothing() {
    let settings = Settings { lock_timeout_ns: 60_000_000_000, ..settings() };
    let database = create(&device(), &settings);
    let mut write = database.write().unwrap();
    put_all(&mut write, 0..10, "100");
    write.commit().unwrap();
    let number = |text: Option<String>| text.unwrap().parse::<i64>().unwrap();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let database = &database;
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                for _ in 0..250 {
                    let isolation = Isolation::ALL[nandu_base::to_index(rng.below(2))];
                    let from = rng.below(10).cast_signed();
                    let to = (from + 1 + rng.below(9).cast_signed()) % 10;
                    let moved = database.transact(isolation, |write| {
                        let (here, there) = (number(get(write, from)?), number(get(write, to)?));
                        put(write, from, &(here - 1).to_string())?;
                        put(write, to, &(there + 1).to_string())
                    });
                    assert!(moved.unwrap());
                    let rows = range(&database.read(), 0, 10).unwrap();
                    let sum: i64 = rows.iter().map(|(_, text)| text.parse::<i64>().unwrap()).sum();
                    assert_eq!(sum, 1000, "{rows:?}");
                }
            });
        }
    });
    database.read().engine().audit();
}

/// The drive's clock stands still while the only thread there is waits for itself.
#[test]
fn a_thread_that_waits_on_a_virtual_clock_gives_up() {
    let settings = Settings { lock_timeout_ns: 20_000_000, ..settings() };
    let database = create(&device(), &settings);
    let mut first = database.write().unwrap();
    put(&mut first, 1, "one").unwrap();
    let mut second = database.write().unwrap();
    let error = put(&mut second, 1, "two").unwrap_err();
    assert!(matches!(error, StorageError::LockTimeout { .. }), "{error}");
    second.rollback().unwrap();
    first.commit().unwrap();
    assert_eq!(get(&database.write().unwrap(), 1).unwrap().as_deref(), Some("one"));
}

#[test]
fn locks_of_many_rows_become_one() {
    let database = create(&device(), &Settings { log_bytes: 16 << 20, ..settings() });
    let mut write = database.write().unwrap();
    let rows: Vec<Row> =
        (0..5000).map(|key| vec![Value::Integer(key), Value::Text("text".to_owned())]).collect();
    write.insert_all("pairs", &rows).unwrap();
    let mut other = database.write().unwrap();
    let error = put(&mut other, 9999, "other").unwrap_err();
    assert!(matches!(error, StorageError::LockTimeout { .. }), "{error}");
    drop(other);
    write.commit().unwrap();
    database.read().engine().audit();
}

#[test]
fn a_step_that_its_own_transaction_cannot_see_is_taken_back() {
    let settings = Settings { version_bytes: 4096, ..settings() };
    let database = create(&device(), &settings);
    let mut write = database.write_with(Isolation::Snapshot).unwrap();
    put(&mut write, 1, "one").unwrap();
    // So long a row takes more copies of pages than there is room for.
    let text = [b'x'; 6000];
    let row = [ValueRef::Integer(7), ValueRef::Text(&text)];
    let refused = write.insert("things", &row);
    assert!(matches!(refused, Err(StorageError::SnapshotTooOld { .. })), "{refused:?}");
    assert_eq!(get(&write, 1).unwrap().as_deref(), Some("one"), "what it did before is there");
    write.commit().unwrap();
    let after = database.read();
    assert_eq!(get(&after, 1).unwrap().as_deref(), Some("one"));
    let mut thing_count = 0;
    after
        .scan("things", |_, _| {
            thing_count += 1;
            Flow::Continue(())
        })
        .unwrap();
    assert_eq!(thing_count, 0);
    assert_eq!(after.check().unwrap().findings, [""; 0]);
}

#[test]
fn a_panic_in_the_middle_of_an_action_is_one_panic() {
    use crate::{ChangePages, PageAddress};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let database = create(&device(), &settings());
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let mut write = database.write().unwrap();
        put(&mut write, 1, "one").unwrap();
        write.with_core(|core| {
            let root = PageAddress::new(core.catalog, 1);
            core.engine_mut().act(|action| -> Result<(), StorageError> {
                action.create(root)?;
                panic!("in the middle");
            })
        })
    }));
    assert!(caught.is_err(), "a second panic, in the rollback, would have ended the process");
}

#[test]
fn a_rollback_after_which_a_heap_cannot_be_read_stops_the_engine() {
    let (device, settings) = (device(), settings());
    let database = create(&device, &settings);
    let mut write = database.write().unwrap();
    let row = [ValueRef::Integer(7), ValueRef::Text(b"seven")];
    write.insert("things", &row).unwrap();
    write.commit().unwrap();
    database.drop_cached_pages().unwrap();
    let mut write = database.write().unwrap();
    put(&mut write, 1, "one").unwrap();
    let at = device.lock().submitted_count() + 1;
    device.lock().set_plan(FaultPlan { fail_requests: vec![at], ..FaultPlan::default() });
    let error = write.rollback().unwrap_err();
    assert!(error.is_damage(), "what the heap caches is read again: {error}");
    // What is cached of the heap may be of before the rollback: nobody may change it by that.
    let refused = database.write().map(drop);
    assert!(matches!(refused, Err(StorageError::Poisoned { .. })), "{refused:?}");
    drop(database);
    let (database, _) = open(&device, &settings);
    assert_eq!(get(&database.read(), 1).unwrap(), None);
    assert_eq!(database.read().check().unwrap().findings, [""; 0]);
}

#[test]
fn a_row_is_claimed_of_a_heap_that_grew_while_the_claim_waited() {
    let settings = Settings { lock_timeout_ns: 60_000_000_000, ..settings() };
    let database = create(&device(), &settings);
    let mut write = database.write().unwrap();
    let thing = |id: i64| [ValueRef::Integer(id), ValueRef::Text(b"a thing of some length")];
    let number = write.insert("things", &thing(0)).unwrap();
    write.commit().unwrap();
    let grower = {
        let database = database.clone();
        move || {
            let mut write = database.write().unwrap();
            write.update("things", number, &thing(1)).unwrap();
            nandu_workers::sleep_until(nandu_workers::now().unwrap() + Nanos::from_micros(500));
            (2..500).for_each(|id| {
                write.insert("things", &thing(id)).unwrap();
            });
            write.commit().unwrap();
        }
    };
    let claimer = |isolation| {
        let database = database.clone();
        move || {
            nandu_workers::sleep_until(nandu_workers::now().unwrap() + Nanos::from_micros(200));
            let mut write = database.write_with(isolation).unwrap();
            match write.claim("things", number) {
                Err(StorageError::Conflict { .. }) => assert_eq!(isolation, Isolation::Snapshot),
                other => other.unwrap(),
            }
            write.rollback().unwrap();
        }
    };
    let start = database.read().engine().data_io().now();
    let works: Vec<Work<()>> = vec![
        Box::new(grower),
        Box::new(claimer(Isolation::ALL[0])),
        Box::new(claimer(Isolation::ALL[1])),
    ];
    Schedule { start, ..Schedule::default() }.run(works);
    database.read().engine().audit();
}

#[test]
fn nobody_reads_what_a_rollback_that_failed_has_left() {
    let device = device();
    let database = create(&device, &settings());
    let mut write = database.write().unwrap();
    put(&mut write, 1, "one").unwrap();
    write.commit().unwrap();
    let reader = database.write().unwrap();
    let mut write = database.write().unwrap();
    put(&mut write, 1, "two").unwrap();
    let fail_flush = Some(device.lock().submitted_flush_count() + 1);
    device.lock().set_plan(FaultPlan { fail_flush, ..FaultPlan::default() });
    database.checkpoint().unwrap_err();
    write.rollback().unwrap_err();
    let error = get(&reader, 1).unwrap_err();
    assert!(matches!(error, StorageError::Poisoned { .. }), "{error}");
    assert_ne!(get(&database.snapshot(), 1).ok().flatten().as_deref(), Some("two"));
}

/// Flushes of the devices, and what time it took workers to commit ten rows each, one a little after the
/// other.
fn commit_side_by_side(
    worker_count: i64,
    (commit_delay_ns, commit_group_count): (u64, u32),
) -> (u64, Nanos) {
    let settings = Settings {
        commit_delay_ns,
        commit_group_count,
        lock_timeout_ns: 60_000_000_000,
        log_bytes: 8 << 20,
        ..settings()
    };
    let database = create(&device(), &settings);
    let flush_count = || database.read().engine().device_counters().0.flushes.request_count;
    let before = flush_count();
    let work = |worker: i64| -> Work<()> {
        let database = database.clone();
        Box::new(move || {
            for row in 0..10 {
                let now = nandu_workers::now().unwrap();
                nandu_workers::sleep_until(now + Nanos::from_micros(50 * worker.unsigned_abs()));
                let mut write = database.write().unwrap();
                put(&mut write, 100 * worker + row, "text").unwrap();
                write.commit().unwrap();
            }
        })
    };
    let start = database.read().engine().data_io().now();
    let ran = Schedule { start, ..Schedule::default() }.run((0..worker_count).map(work).collect());
    (flush_count() - before, ran.end.saturating_sub(start))
}

#[test]
fn commits_that_wait_for_each_other_share_flushes() {
    let (at_once, _) = commit_side_by_side(8, (0, 0));
    let (gathered, _) = commit_side_by_side(8, (500_000, 0));
    assert!(2 * gathered < at_once, "{gathered} beside {at_once}");
    let (alone, waited) = (commit_side_by_side(1, (0, 0)), commit_side_by_side(1, (500_000, 0)));
    assert_eq!(alone.0, waited.0, "nobody comes");
    assert_eq!(waited.1, alone.1 + Nanos(10 * 500_000));
}

#[test]
fn commits_that_make_a_whole_group_wait_no_longer() {
    let of_group = |count: u32| commit_side_by_side(8, (500_000, count));
    let (unlimited, all, half, never) = (of_group(0), of_group(8), of_group(4), of_group(9));
    assert!(all.1 < unlimited.1, "{all:?} beside {unlimited:?}");
    assert!(all.0 <= unlimited.0 + 2, "{all:?} beside {unlimited:?}");
    assert!(3 * half.0 > 4 * all.0, "{half:?} beside {all:?}");
    assert_eq!(never, unlimited, "so many never come");
    assert_eq!(commit_side_by_side(1, (500_000, 1)), commit_side_by_side(1, (0, 0)));
}
