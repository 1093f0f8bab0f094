//! What is done for all while others work: checkpoints, and pages written before they stand in the way.

use super::*;
use crate::database::Mark;
use crate::log::Durability;
use crate::pool::PoolCounters;

/// Room for all pages, and a log in which nothing is due by itself.
fn roomy() -> Settings {
    Settings {
        pool_bytes: 4 << 20,
        log_bytes: 24 << 20,
        checkpoint_bytes: 6 << 20,
        lock_timeout_ns: 60_000_000_000,
        ..settings()
    }
}

fn since(start: Nanos) -> Nanos {
    nandu_workers::now().unwrap().saturating_sub(start)
}

/// What a checkpoint of many dirty pages took, and the longest that a writer of single rows waited
/// meanwhile.
fn checkpoint_beside_a_writer(has_company: bool) -> (Nanos, Nanos) {
    let device = device();
    let settings = roomy();
    let database = create(&device, &settings);
    let text = "a".repeat(100);
    let mut write = database.write().unwrap();
    (0..6000).for_each(|key| {
        put(&mut write, key, &text).unwrap();
    });
    write.commit().unwrap();
    // The next one writes what is dirty since before this one.
    database.checkpoint().unwrap();
    let snapshot = has_company.then(|| database.snapshot());
    let start = database.read().engine().data_io().now();
    let checkpoint = {
        let database = database.clone();
        move || {
            database.checkpoint().unwrap();
            since(start)
        }
    };
    let writer = {
        let database = database.clone();
        move || {
            nandu_workers::sleep_until(start + Nanos::from_micros(1));
            let mut longest = Nanos(0);
            for key in 0..200 {
                let before = nandu_workers::now().unwrap();
                let mut write = database.write().unwrap();
                put(&mut write, key, "b").unwrap();
                write.commit().unwrap();
                longest = longest.max(since(before));
            }
            longest
        }
    };
    let works: Vec<Work<Nanos>> = vec![Box::new(checkpoint), Box::new(writer)];
    let ran = Schedule { start, ..Schedule::default() }.run(works);
    drop(snapshot);
    let engine_is_sound = |database: &Database| {
        let read = database.read();
        read.engine().audit();
        assert_eq!(read.check().unwrap().findings, [""; 0]);
        for key in 0..6000 {
            let expected = if key < 200 { "b" } else { &text };
            assert_eq!(get(&read, key).unwrap().as_deref(), Some(expected), "key {key}");
        }
    };
    engine_is_sound(&database);
    // Not closed: a restart begins at that checkpoint and redoes what came during and after it.
    drop(database);
    let (database, _) = open(&device, &settings);
    engine_is_sound(&database);
    let [checkpoint, longest] = ran.values.try_into().unwrap();
    (checkpoint, longest)
}

#[test]
fn writers_go_on_while_a_checkpoint_writes_its_pages() {
    let (alone, waited) = checkpoint_beside_a_writer(false);
    assert!(2 * waited.0 > alone.0, "the engine is held: {waited:?} of {alone:?}");
    let (beside, waited) = checkpoint_beside_a_writer(true);
    assert!(8 * waited.0 < beside.0, "they wait for its ends alone: {waited:?} of {beside:?}");
}

#[test]
fn dirty_pages_are_written_aside_where_others_read() {
    let settings = Settings { pool_bytes: 64 << 10, ..roomy() };
    let database = create(&device(), &settings);
    let text = "a".repeat(100);
    for part in 0..20 {
        let mut write = database.write().unwrap();
        (0..100).for_each(|key| {
            put(&mut write, 100 * part + key, &text).unwrap();
        });
        write.commit().unwrap();
    }
    let counters = || database.read().engine().pool_counters();
    assert_eq!(counters().aside_batch_count, 0, "who is alone would wait for it all the same");
    let start = database.read().engine().data_io().now();
    let work = |worker: u64| -> Work<()> {
        let database = database.clone();
        Box::new(move || {
            let mut rng = Rng::new(worker);
            for _ in 0..400 {
                let key = i64::try_from(rng.below(2000)).unwrap();
                if rng.below(2) == 0 {
                    let change = |write: &mut WriteTransaction<'_>| put(write, key, "changed text");
                    database.transact(Isolation::Serializable, change).unwrap();
                } else {
                    assert!(get(&database.read(), key).unwrap().is_some());
                }
            }
        })
    };
    Schedule { start, ..Schedule::default() }.run((0..4).map(work).collect());
    let PoolCounters { write_batch_count, aside_batch_count, .. } = counters();
    assert!(aside_batch_count > 10, "{aside_batch_count} of {write_batch_count}");
    let read = database.read();
    read.engine().audit();
    assert_eq!(read.check().unwrap().findings, [""; 0]);
}

#[test]
fn who_writes_and_does_not_read_is_never_told_that_a_moment_is_not_kept() {
    let settings = Settings { version_bytes: 0, pool_bytes: 64 << 10, ..roomy() };
    let database = create(&device(), &settings);
    let text = "a".repeat(100);
    let mut write = database.write().unwrap();
    for key in 0..2000 {
        put(&mut write, key, &text).unwrap();
        write.insert("things", &[ValueRef::Integer(key * 37 % 2000), ValueRef::Null]).unwrap();
    }
    write.commit().unwrap();
    let start = database.read().engine().data_io().now();
    let work = |worker: i64| -> Work<()> {
        let (database, text) = (database.clone(), text.clone());
        Box::new(move || {
            let mut rng = Rng::new(worker.cast_unsigned());
            for round in 0..150 {
                let row = |key| vec![Value::Integer(key), Value::Text("new".to_owned())];
                let rows = [row(3000 + 8 * round + worker), row(9000 + 8 * round + worker)];
                let mut key = || i64::try_from(rng.below(2000)).unwrap();
                let (pair, thing, id) = (key(), 1 + key(), key());
                let changed = database.transact(Isolation::Serializable, |write| {
                    put(write, pair, &text)?;
                    write.update("things", thing, &[ValueRef::Integer(id), ValueRef::Null])?;
                    write.insert_all("pairs", &rows)
                });
                changed.unwrap();
            }
        })
    };
    Schedule { start, ..Schedule::default() }.run((0..8).map(work).collect());
    let read = database.read();
    read.engine().audit();
    assert_eq!(read.check().unwrap().findings, [""; 0]);
}

/// How long in all somebody waits to have the engine alone while another worker does `work` with cold pages, and how
/// long that took. (Who reads may have to undo what is not committed, and so waits for pages of his own.)
fn beside_cold_pages(work: impl Fn(&Database) + Send + 'static) -> (Nanos, Nanos) {
    let database = create(&device(), &Settings { durability: Durability::None, ..roomy() });
    let mut write = database.write().unwrap();
    let text = "a".repeat(100);
    for key in 0..2000 {
        put(&mut write, key, &text).unwrap();
        // Entries of rows that follow each other lie apart.
        let id = ValueRef::Integer(key * 37 % 2000);
        write.insert("things", &[id, ValueRef::Text(text.as_bytes())]).unwrap();
    }
    write.commit().unwrap();
    database.drop_cached_pages().unwrap();
    let mut write = database.write().unwrap();
    // Of the heap that page is there which all who change it look at.
    write.insert("things", &[ValueRef::Integer(0), ValueRef::Null]).unwrap();
    write.commit().unwrap();
    let start = database.read().engine().data_io().now();
    let waiter = {
        let database = database.clone();
        move || {
            let mut waited = Nanos(0);
            for round in 1..600 {
                nandu_workers::sleep_until(start + Nanos::from_micros(round));
                let before = nandu_workers::now().unwrap();
                drop(database.shared.core.write());
                waited += since(before);
            }
            waited
        }
    };
    let misser = {
        let database = database.clone();
        move || {
            work(&database);
            since(start)
        }
    };
    // So that the worker is in company.
    let snapshot = database.snapshot();
    let works: Vec<Work<Nanos>> = vec![Box::new(waiter), Box::new(misser)];
    let ran = Schedule { start, ..Schedule::default() }.run(works);
    drop(snapshot);
    let read = database.read();
    read.engine().audit();
    assert_eq!(read.check().unwrap().findings, [""; 0]);
    let [waited, took] = ran.values.try_into().unwrap();
    (waited, took)
}

#[test]
fn whoever_misses_pages_leaves_the_engine_to_others() {
    type Change = fn(&mut WriteTransaction<'_>, i64) -> Result<(), StorageError>;
    fn thing(id: i64) -> [ValueRef<'static>; 2] {
        [ValueRef::Integer(id), ValueRef::Text(b"b")]
    }
    let changes: [(&str, Change); 6] = [
        ("put", |write, key| put(write, key, "b").map(drop)),
        ("delete by key", |write, key| {
            write.delete_by_key("pairs", &[ValueRef::Integer(key)]).map(drop)
        }),
        ("insert", |write, key| write.insert("things", &thing(key)).map(drop)),
        ("update", |write, key| write.update("things", key, &thing(2000 - key))),
        ("delete", |write, key| write.delete("things", key)),
        ("rows at once", |write, key| {
            let row = |key| vec![Value::Integer(key), Value::Text("c".to_owned())];
            write.insert_all("pairs", &[row(2000 + key), row(4000 + key)])
        }),
    ];
    for isolation in Isolation::ALL {
        for (name, change) in changes {
            let (waited, took) = beside_cold_pages(move |database| {
                for key in 1..30 {
                    let change = |write: &mut WriteTransaction<'_>| change(write, key * 61);
                    database.transact(isolation, change).unwrap();
                }
            });
            assert!(took > Nanos::from_micros(30), "{name}: it reads: {took:?}");
            // A step that is taken back may have to read what it did not need to go forwards.
            let isolation = isolation.label();
            assert!(20 * waited.0 < took.0, "{name}, {isolation}: {waited:?} of {took:?}");
        }
    }
    type Scan = fn(&ReadTransaction<'_>);
    let scans: [(&str, Scan); 2] = [
        ("a scan by key", |read| assert_eq!(range(read, 100, 1900).unwrap().len(), 1800)),
        ("a scan of a heap", |read| {
            let mut count = 0;
            let count_row = |_, _: RecordView<'_>| {
                count += 1;
                Flow::Continue(())
            };
            read.scan("things", count_row).unwrap();
            assert_eq!(count, 2001);
        }),
    ];
    for (name, scan) in scans {
        let (waited, took) = beside_cold_pages(move |database| scan(&database.read()));
        assert!(took > Nanos::from_micros(100), "{name} reads: {took:?}");
        assert_eq!(waited, Nanos(0), "{name} took {took:?}");
    }
}

/// What `work` took by its own measure, and the longest that somebody waited to have the engine alone since it
/// set its flag.
fn beside_a_waiter(
    database: &Database,
    work: impl FnOnce(&Database, &AtomicBool) -> Nanos + Send + 'static,
) -> (Nanos, Nanos) {
    let start = database.read().engine().data_io().now();
    let [counts, is_done] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let worker = {
        let (database, counts, is_done) =
            (database.clone(), Arc::clone(&counts), Arc::clone(&is_done));
        move || {
            let took = work(&database, &counts);
            is_done.store(true, Ordering::Relaxed);
            took
        }
    };
    let waiter = {
        let database = database.clone();
        move || {
            let mut longest = Nanos(0);
            // Bounded for a worker that panics.
            for _ in 0..20_000 {
                if is_done.load(Ordering::Relaxed) {
                    break;
                }
                nandu_workers::sleep_until(nandu_workers::now().unwrap() + Nanos::from_micros(7));
                let (before, counts) =
                    (nandu_workers::now().unwrap(), counts.load(Ordering::Relaxed));
                drop(database.shared.core.write());
                if counts {
                    longest = longest.max(since(before));
                }
            }
            longest
        }
    };
    // So that the worker is in company.
    let snapshot = database.snapshot();
    let works: Vec<Work<Nanos>> = vec![Box::new(worker), Box::new(waiter)];
    let ran = Schedule { start, ..Schedule::default() }.run(works);
    drop(snapshot);
    let read = database.read();
    read.engine().audit();
    assert_eq!(read.check().unwrap().findings, [""; 0]);
    let [took, longest] = ran.values.try_into().unwrap();
    (took, longest)
}

/// Undoing many changes of cold pages: see [`beside_a_waiter`].
fn undo_beside(undo: fn(WriteTransaction<'_>, Mark) -> Result<(), StorageError>) -> (Nanos, Nanos) {
    let database = create(&device(), &Settings { durability: Durability::None, ..roomy() });
    let text = "a".repeat(100);
    let mut write = database.write().unwrap();
    (0..2000).for_each(|key| assert!(!put(&mut write, key, &text).unwrap()));
    write.commit().unwrap();
    let waited = beside_a_waiter(&database, move |database, counts| {
        let mut write = database.write().unwrap();
        let mark = write.savepoint();
        for key in 0..400 {
            put(&mut write, key * 5, "b").unwrap();
        }
        database.drop_cached_pages().unwrap();
        let before = nandu_workers::now().unwrap();
        counts.store(true, Ordering::Relaxed);
        undo(write, mark).unwrap();
        since(before)
    });
    let left = range(&database.read(), 0, 2000).unwrap();
    assert!(left.len() == 2000 && left.iter().all(|(_, found)| *found == text));
    waited
}

#[test]
fn others_go_on_while_much_is_taken_back() {
    type Undo = fn(WriteTransaction<'_>, Mark) -> Result<(), StorageError>;
    let ways: [(&str, Undo); 2] = [
        ("a rollback", |write, _| write.rollback()),
        ("a rollback to a savepoint", |mut write, mark| {
            write.rollback_to(mark)?;
            write.commit()
        }),
    ];
    for (name, undo) in ways {
        let (took, longest) = undo_beside(undo);
        assert!(took > Nanos::from_micros(100), "{name} reads: {took:?}");
        assert!(longest > Nanos(0) && 16 * longest.0 < took.0, "{name}: {longest:?} of {took:?}");
    }
}

/// What is made in a transaction of its own over a table with many cold pages: see [`beside_a_waiter`].
fn make_beside(make: fn(&mut WriteTransaction<'_>)) -> (Nanos, Nanos) {
    // Less memory than the table and its new index take, so that the making writes and reads all along.
    let database = create(
        &device(),
        &Settings { durability: Durability::None, pool_bytes: 64 << 10, ..roomy() },
    );
    let text = "a".repeat(100);
    let mut write = database.write().unwrap();
    for key in 0..4000 {
        let id = ValueRef::Integer(key * 37 % 4000);
        write.insert("things", &[id, ValueRef::Text(text.as_bytes())]).unwrap();
    }
    write.commit().unwrap();
    database.drop_cached_pages().unwrap();
    beside_a_waiter(&database, move |database, counts| {
        let before = nandu_workers::now().unwrap();
        counts.store(true, Ordering::Relaxed);
        let mut write = database.write().unwrap();
        make(&mut write);
        let took = since(before);
        write.commit().unwrap();
        took
    })
}

#[test]
fn others_go_on_while_an_index_is_made() {
    let (took, longest) = make_beside(|write| {
        write.create_index("things", "again_by_id", &["id"]).unwrap();
    });
    assert!(took > Nanos::from_micros(100), "it reads: {took:?}");
    assert!(longest > Nanos(0) && 16 * longest.0 < took.0, "{longest:?} of {took:?}");
}

#[test]
fn whoever_waits_while_the_engine_stops_is_told() {
    let database = create(&device(), &Settings { lock_timeout_ns: 10_000, ..settings() });
    let stopper = {
        let database = database.clone();
        move || {
            let mut write = database.write().unwrap();
            write.drop_table("things").unwrap();
            nandu_workers::sleep_until(nandu_workers::now().unwrap() + Nanos::from_micros(5));
            let what = StorageError::NotFound { what: "the device".to_owned() };
            write.with_core(|core| core.engine.poison::<()>(what)).unwrap_err();
            nandu_workers::sleep_until(nandu_workers::now().unwrap() + Nanos::from_micros(50));
            drop(write);
        }
    };
    let mut works: Vec<Work<()>> = vec![Box::new(stopper)];
    for number in 1..4 {
        let database = database.clone();
        works.push(Box::new(move || {
            nandu_workers::sleep_until(nandu_workers::now().unwrap() + Nanos(number));
            let mut write = database.write().unwrap();
            write.insert("things", &[ValueRef::Integer(1), ValueRef::Null]).unwrap_err();
        }));
    }
    Schedule::default().run(works);
}

#[test]
fn a_sync_beside_one_that_fails_is_not_taken_at_its_word() {
    let device = device();
    let database = create(&device, &settings());
    let io = database.read().engine().data_io();
    let file = io.files()[0].0;
    let start = io.now();
    let fail_flush = Some(device.lock().submitted_flush_count() + 2);
    device.lock().set_plan(FaultPlan { fail_flush, ..FaultPlan::default() });
    let work = |_: u32| -> Work<Result<(), StorageError>> {
        let io = io.clone();
        Box::new(move || io.sync(file))
    };
    let ran = Schedule { start, ..Schedule::default() }.run((0..2).map(work).collect());
    let [first, second] = ran.values.try_into().unwrap();
    // The device did what the first asked for; but the other may have lost what that was to cover.
    assert!(matches!(first, Err(StorageError::Poisoned { .. })), "{first:?}");
    assert!(matches!(second, Err(StorageError::Device { .. })), "{second:?}");
}

#[test]
fn a_checkpoint_that_was_overtaken_by_one_that_failed_does_not_count() {
    let device = device();
    let database = create(&device, &roomy());
    let mut write = database.write().unwrap();
    put(&mut write, 1, "one").unwrap();
    write.commit().unwrap();
    // So that the one that overtakes has a page to write.
    database.checkpoint().unwrap();
    let mut core = database.shared.core.write();
    let engine = core.engine_mut();
    let begun = engine.begin_checkpoint().unwrap().unwrap();
    assert_eq!(engine.begin_checkpoint().unwrap(), None, "one at a time");
    let (sync, found) = engine.plan_sync();
    sync.write().unwrap();
    engine.land_cleaning();
    let at = device.lock().submitted_count() + 1;
    device.lock().set_plan(FaultPlan { fail_requests: vec![at], ..FaultPlan::default() });
    engine.checkpoint().unwrap_err();
    assert!(engine.end_checkpoint(begun, &found).unwrap().is_none());
    // Nothing is left of either.
    assert!(engine.begin_checkpoint().unwrap().is_some());
    engine.checkpoint().unwrap();
    engine.audit();
}
