//! Tables that are made, dropped, loaded and indexed while others write to other tables.

use super::*;

/// The table that nobody makes or drops.
const BESIDE: &str = "beside";

fn columns() -> Vec<Column> {
    let id = Column::new("id", ColumnType::Integer).not_null();
    vec![id, Column::new("text", ColumnType::Text)]
}

fn row(id: i64) -> [ValueRef<'static>; 2] {
    [ValueRef::Integer(id), ValueRef::Text(b"a text")]
}

/// As [`create`], with rows in its tables, and a heap with an index beside them.
fn create_three(device: &TestDevice, settings: &Settings) -> Database {
    let database = create(device, settings);
    let mut write = database.write().unwrap();
    write.create_table(BESIDE, columns(), TableKind::Heap).unwrap();
    write.create_index(BESIDE, "by_id", &["id"]).unwrap();
    put_all(&mut write, 0..20, "a text");
    insert(&mut write, "things", 0..20);
    insert(&mut write, BESIDE, 0..20);
    write.commit().unwrap();
    database
}

fn insert(write: &mut WriteTransaction<'_>, table: &str, ids: std::ops::Range<i64>) {
    ids.for_each(|id| {
        write.insert(table, &row(id)).unwrap();
    });
}

fn load(write: &mut WriteTransaction<'_>, table: &str, count: i64) -> Result<(), StorageError> {
    let kind = TableKind::Clustered { key: vec![0] };
    let (name, indexes) = (table.to_owned(), Vec::new());
    let new = NewTable { name, columns: columns(), kind, indexes };
    let rows = |load: &mut TableLoad<'_>| (0..count).try_for_each(|id| load.push(&row(id)));
    write.load_table(&new, &LoadOptions::default(), rows).map(drop)
}

fn ids(tables: &Tables, table: &str) -> Result<Vec<i64>, StorageError> {
    let mut ids = Vec::new();
    tables.scan(table, |_, record| {
        ids.push(integer_of(record));
        Flow::Continue(())
    })?;
    ids.sort_unstable();
    Ok(ids)
}

fn names(tables: &Tables) -> Vec<String> {
    tables.definitions().unwrap().map(|table| table.name.clone()).collect()
}

fn index_count(tables: &Tables, table: &str) -> usize {
    tables.definition(table).unwrap().indexes.len()
}

fn check(database: &Database) {
    let read = database.read();
    read.engine().audit();
    assert_eq!(read.check().unwrap().findings, [""; 0]);
}

#[track_caller]
fn is_excluded<T: std::fmt::Debug>(answer: Result<T, StorageError>) {
    assert!(matches!(answer, Err(StorageError::LockTimeout { .. })), "{answer:?}");
}

#[track_caller]
fn is_conflict<T: std::fmt::Debug>(answer: Result<T, StorageError>) {
    assert!(matches!(answer, Err(StorageError::Conflict { .. })), "{answer:?}");
}

/// Makes, loads, drops and indexes one table each, with rows.
fn change_tables(write: &mut WriteTransaction<'_>) {
    write.create_table("made", columns(), TableKind::Heap).unwrap();
    write.create_index("made", "by_id", &["id"]).unwrap();
    insert(write, "made", 0..5);
    load(write, "loaded", 30).unwrap();
    write.drop_table("pairs").unwrap();
    write.create_index("things", "by_text", &["text"]).unwrap();
    insert(write, "things", 20..30);
}

/// What is there once [`change_tables`] is committed, or taken back.
fn check_tables(database: &Database, is_committed: bool) {
    let read = database.read();
    let (mut expected, things, index_count_of_things) = match is_committed {
        true => (vec!["loaded", "made"], 30, 2),
        false => (vec!["pairs"], 20, 1),
    };
    expected.extend([BESIDE, "things"]);
    expected.sort_unstable();
    assert_eq!(names(&read), expected);
    assert_eq!(ids(&read, "things").unwrap(), (0..things).collect::<Vec<_>>());
    assert_eq!(index_count(&read, "things"), index_count_of_things);
    let files = read.engine().files().len();
    let known: usize = read.definitions().unwrap().map(|table| table.files().count()).sum();
    assert_eq!(files, known + 1, "the catalogue's, and of tables that are there");
    drop(read);
    check(database);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Commit,
    Rollback,
    PartialRollback,
    Crash,
    Close,
}

#[test]
fn who_writes_to_other_tables_goes_on_beside_one_that_changes_tables() {
    for isolation in Isolation::ALL {
        for end in [End::Commit, End::Rollback, End::PartialRollback, End::Crash, End::Close] {
            let (device, settings) = (device(), settings());
            let mut database = create_three(&device, &settings);
            // One from before that ends behind, one from before that is taken back, and those in between.
            let mut longest = database.write_with(isolation).unwrap();
            let mut in_vain = database.write_with(isolation).unwrap();
            longest.insert(BESIDE, &row(100)).unwrap();
            in_vain.insert(BESIDE, &row(200)).unwrap();
            let mut changer = database.write().unwrap();
            let mark = changer.savepoint();
            change_tables(&mut changer);
            let mut between = database.write_with(isolation).unwrap();
            between.insert(BESIDE, &row(300)).unwrap();
            between.commit().unwrap();
            longest.insert(BESIDE, &row(101)).unwrap();
            in_vain.rollback().unwrap();
            let mut unended = database.write_with(isolation).unwrap();
            unended.insert(BESIDE, &row(400)).unwrap();
            match end {
                End::Commit => changer.commit().unwrap(),
                End::Rollback => changer.rollback().unwrap(),
                End::PartialRollback => {
                    changer.rollback_to(mark).unwrap();
                    assert_eq!(names(&changer), [BESIDE, "pairs", "things"]);
                    assert_eq!(ids(&changer, "things").unwrap().len(), 20);
                    changer.commit().unwrap();
                }
                End::Crash | End::Close => changer.abandon(),
            }
            longest.insert(BESIDE, &row(102)).unwrap();
            longest.commit().unwrap();
            let expected: Vec<i64> = (0..20).chain([100, 101, 102, 300]).collect();
            assert_eq!(ids(&database.read(), BESIDE).unwrap(), expected, "{isolation:?}, {end:?}");
            // After a crash there are several losers; who closes takes them back.
            unended.abandon();
            database.flush().unwrap();
            match end {
                End::Close => database.close().unwrap(),
                _ => drop(database),
            }
            database = open(&device, &settings).0;
            check_tables(&database, end == End::Commit);
            assert_eq!(ids(&database.read(), BESIDE).unwrap(), expected, "{isolation:?}, {end:?}");
        }
    }
}

#[test]
fn what_takes_a_table_back_takes_back_nothing_of_others() {
    let database = create_three(&device(), &settings());
    let mut writer = database.write().unwrap();
    let number = writer.insert(BESIDE, &row(100)).unwrap();
    let mut changer = database.write().unwrap();
    change_tables(&mut changer);
    changer.rollback().unwrap();
    // What is cached of the heap, and of its numbers, is that of the writer still.
    writer.delete(BESIDE, number).unwrap();
    let snapshot = database.snapshot();
    assert!(writer.insert(BESIDE, &row(101)).unwrap() > number);
    writer.commit().unwrap();
    assert_eq!(ids(&snapshot, BESIDE).unwrap().len(), 20);
    assert_eq!(ids(&database.read(), BESIDE).unwrap().last(), Some(&101));
    check_tables(&database, false);
}

#[test]
fn who_uses_a_table_and_who_changes_it_exclude_each_other() {
    type Act = fn(&mut WriteTransaction<'_>) -> Result<(), StorageError>;
    let uses: [(Act, bool); 5] = [
        (|write| write.insert("things", &row(50)).map(drop), true),
        (|write| write.update("things", 1, &row(51)), true),
        (|write| write.claim("THINGS", 2), true),
        (|write| write.get("things", 3, |_| ()).map(drop), false),
        (|write| write.scan("things", |_, _| Flow::Break(())), false),
    ];
    let changes: [Act; 4] = [
        |write| write.create_index("things", "by_text", &["text"]),
        |write| write.drop_table("things"),
        |write| write.create_table("things", columns(), TableKind::Heap),
        |write| load(write, "Things", 3),
    ];
    let database = create_three(&device(), &settings());
    for change in changes {
        for (act, writes) in uses {
            for isolation in Isolation::ALL {
                let is_locked = writes || isolation == Isolation::Serializable;
                let mut user = database.write_with(isolation).unwrap();
                act(&mut user).unwrap();
                let mut changer = database.write().unwrap();
                if is_locked {
                    is_excluded(change(&mut changer));
                    user.rollback().unwrap();
                }
                let changed = change(&mut changer);
                let is_there = matches!(changed, Err(StorageError::Exists { .. }));
                assert!(changed.is_ok() || is_there, "{changed:?}");
                let mut user = database.write_with(isolation).unwrap();
                match is_locked {
                    true => is_excluded(act(&mut user)),
                    false => act(&mut user).unwrap(),
                }
                drop(user);
                changer.rollback().unwrap();
            }
        }
    }
    check(&database);
}

#[test]
fn one_transaction_changes_tables_at_a_time() {
    let database = create_three(&device(), &settings());
    let (mut first, mut second) = (database.write().unwrap(), database.write().unwrap());
    first.create_table("made", columns(), TableKind::Heap).unwrap();
    is_excluded(second.create_table("made", columns(), TableKind::Heap));
    is_excluded(second.drop_table("things"));
    // It may go on otherwise.
    second.insert("things", &row(30)).unwrap();
    is_excluded(first.drop_table("things"));
    first.rollback().unwrap();
    second.create_table("made", columns(), TableKind::Heap).unwrap();
    second.commit().unwrap();
    let mut third = database.write().unwrap();
    let made = third.create_table("Made", columns(), TableKind::Heap);
    assert!(matches!(made, Err(StorageError::Exists { .. })), "{made:?}");
    third.commit().unwrap();
    assert_eq!(names(&database.read()), [BESIDE, "made", "pairs", "things"]);
    check(&database);
}

/// Somebody to whom the clock goes on: a rollback lets others go first.
fn ticker() -> Work<bool> {
    Box::new(|| {
        for _ in 0..100 {
            nandu_workers::sleep_until(nandu_workers::now().unwrap() + Nanos::from_micros(5));
        }
        false
    })
}

#[test]
fn of_two_that_make_a_table_the_second_waits_and_is_told() {
    for commits in [true, false] {
        let settings = Settings { lock_timeout_ns: 60_000_000_000, ..settings() };
        let database = create_three(&device(), &settings);
        let first = {
            let database = database.clone();
            move || {
                let mut write = database.write().unwrap();
                write.create_table("made", columns(), TableKind::Heap).unwrap();
                nandu_workers::sleep_until(nandu_workers::now().unwrap() + Nanos::from_micros(90));
                match commits {
                    true => write.commit().unwrap(),
                    false => write.rollback().unwrap(),
                }
                true
            }
        };
        let second = {
            let database = database.clone();
            move || {
                nandu_workers::sleep_until(nandu_workers::now().unwrap() + Nanos::from_micros(20));
                let mut write = database.write().unwrap();
                let made = write.create_table("made", columns(), TableKind::Heap);
                if let Err(error) = &made {
                    assert!(matches!(error, StorageError::Exists { .. }), "{error}");
                }
                write.commit().unwrap();
                made.is_ok()
            }
        };
        let start = database.read().engine().data_io().now();
        let works: Vec<Work<bool>> = vec![Box::new(first), Box::new(second), ticker()];
        let made = Schedule { start, ..Schedule::default() }.run(works).values;
        assert_eq!(made, [true, !commits, false]);
        assert_eq!(names(&database.read()), [BESIDE, "made", "pairs", "things"]);
        check(&database);
    }
}

#[test]
fn names_of_tables_and_rows_may_close_a_circle() {
    let settings = Settings { lock_timeout_ns: 60_000_000_000, ..settings() };
    let database = create_three(&device(), &settings);
    let nap = || nandu_workers::sleep_until(nandu_workers::now().unwrap() + Nanos::from_micros(50));
    let work = |changes: bool| -> Work<bool> {
        let database = database.clone();
        Box::new(move || {
            let mut write = database.write().unwrap();
            let answer = if changes {
                write.claim(BESIDE, 1).unwrap();
                nap();
                write.create_index("things", "by_text", &["text"])
            } else {
                write.claim("things", 1).unwrap();
                nap();
                write.claim(BESIDE, 1)
            };
            match answer {
                Ok(()) => write.commit().unwrap(),
                Err(StorageError::Deadlock { .. }) => write.rollback().unwrap(),
                Err(error) => panic!("{error}"),
            }
            answer.is_ok()
        })
    };
    let start = database.read().engine().data_io().now();
    let works = vec![work(true), work(false), ticker()];
    let went = Schedule { start, ..Schedule::default() }.run(works).values;
    assert_eq!(went.iter().filter(|&&went| went).count(), 1, "{went:?}");
    check(&database);
}

#[test]
fn a_snapshot_has_the_tables_of_its_moment_whoever_changes_them_beside_writers() {
    let database = create_three(&device(), &settings());
    let before = database.snapshot();
    let mut changer = database.write().unwrap();
    change_tables(&mut changer);
    let mut writer = database.write().unwrap();
    writer.insert(BESIDE, &row(100)).unwrap();
    let during = database.snapshot();
    writer.commit().unwrap();
    changer.commit().unwrap();
    for (snapshot, name) in [(&before, "before"), (&during, "during")] {
        assert_eq!(names(snapshot), [BESIDE, "pairs", "things"], "{name}");
        assert_eq!(ids(snapshot, BESIDE).unwrap().len(), 20, "{name}");
        assert_eq!(ids(snapshot, "pairs").unwrap().len(), 20, "{name}");
        assert_eq!(ids(snapshot, "things").unwrap().len(), 20, "{name}");
        assert_eq!(snapshot.check().unwrap().findings, [""; 0], "{name}");
    }
    drop((before, during));
    check_tables(&database, true);
}

#[test]
fn a_snapshot_does_not_look_for_files_of_tables_that_were_taken_back_since() {
    let database = create_three(&device(), &settings());
    let mut changer = database.write().unwrap();
    change_tables(&mut changer);
    let snapshot = database.snapshot();
    let mut of_level_snapshot = database.write_with(Isolation::Snapshot).unwrap();
    changer.rollback().unwrap();
    assert_eq!(ids(&snapshot, BESIDE).unwrap().len(), 20);
    assert_eq!(snapshot.check().unwrap().findings, [""; 0]);
    of_level_snapshot.insert("things", &row(30)).unwrap();
    assert_eq!(ids(&of_level_snapshot, "things").unwrap().len(), 21);
    of_level_snapshot.rollback().unwrap();
    check_tables(&database, false);
}

#[test]
fn a_snapshot_sees_all_pages_of_a_heap_that_grows_under_a_new_index() {
    let settings = Settings { pool_bytes: 1 << 20, ..settings() };
    let database = create_three(&device(), &settings);
    let mut changer = database.write().unwrap();
    changer.create_index("things", "by_text", &["text"]).unwrap();
    insert(&mut changer, "things", 20..2000);
    let snapshot = database.snapshot();
    changer.commit().unwrap();
    assert_eq!(ids(&snapshot, "things").unwrap().len(), 20);
    assert_eq!(snapshot.check().unwrap().findings, [""; 0]);
    drop(snapshot);
    check(&database);
}

#[test]
fn a_serializable_transaction_uses_tables_as_they_are_when_it_comes_to_them() {
    let database = create_three(&device(), &settings());
    let mut write = database.write().unwrap();
    let mut changer = database.write().unwrap();
    change_tables(&mut changer);
    changer.commit().unwrap();
    assert!(matches!(get(&write, 1), Err(StorageError::NotFound { .. })), "dropped");
    assert_eq!(ids(&write, "made").unwrap().len(), 5);
    assert_eq!(ids(&write, "loaded").unwrap().len(), 30);
    // Its rows have entries in the index that it did not see at its beginning.
    insert(&mut write, "things", 30..40);
    insert(&mut write, "made", 5..10);
    assert_eq!(names(&write), [BESIDE, "loaded", "made", "things"]);
    write.commit().unwrap();
    assert_eq!(ids(&database.read(), "things").unwrap().len(), 40);
    assert_eq!(ids(&database.read(), "made").unwrap().len(), 10);
    check(&database);
}

#[test]
fn a_transaction_of_level_snapshot_writes_to_no_table_that_is_another_since() {
    let database = create_three(&device(), &settings());
    let mut write = database.write_with(Isolation::Snapshot).unwrap();
    let mut changer = database.write().unwrap();
    change_tables(&mut changer);
    changer.commit().unwrap();
    // It reads what was there, without waiting.
    assert_eq!(names(&write), [BESIDE, "pairs", "things"]);
    assert_eq!(get(&write, 1).unwrap().as_deref(), Some("a text"));
    assert_eq!(ids(&write, "things").unwrap().len(), 20);
    assert!(matches!(ids(&write, "made"), Err(StorageError::NotFound { .. })));
    // An index that it does not know would lack its rows.
    is_conflict(write.insert("things", &row(30)));
    is_conflict(write.update("things", 1, &row(30)));
    is_conflict(put(&mut write, 1, "one"));
    is_conflict(write.insert("made", &row(30)));
    is_conflict(write.create_table("made", columns(), TableKind::Heap));
    is_conflict(write.drop_table("pairs"));
    write.insert(BESIDE, &row(100)).unwrap();
    write.create_index(BESIDE, "by_text", &["text"]).unwrap();
    assert_eq!(names(&write), [BESIDE, "pairs", "things"]);
    assert_eq!((index_count(&write, BESIDE), index_count(&write, "things")), (2, 1));
    write.commit().unwrap();
    assert_eq!(ids(&database.read(), BESIDE).unwrap().len(), 21);
    check_tables(&database, true);
}

#[test]
fn a_name_that_was_looked_up_in_vain_stays_without_a_table() {
    let database = create_three(&device(), &settings());
    let reader = database.write().unwrap();
    assert!(matches!(ids(&reader, "made"), Err(StorageError::NotFound { .. })));
    let mut changer = database.write().unwrap();
    is_excluded(changer.create_table("made", columns(), TableKind::Heap));
    is_excluded(load(&mut changer, "Made", 3));
    changer.create_table("other", columns(), TableKind::Heap).unwrap();
    assert!(matches!(ids(&reader, "MADE"), Err(StorageError::NotFound { .. })));
    is_excluded(ids(&reader, "other"));
    reader.commit().unwrap();
    changer.create_table("made", columns(), TableKind::Heap).unwrap();
    changer.commit().unwrap();
    check(&database);
}

#[test]
fn who_lists_tables_serializably_keeps_others_from_changing_any() {
    let database = create_three(&device(), &settings());
    type List = fn(&Tables) -> Result<(), StorageError>;
    let lists: [List; 3] = [
        |tables| tables.definitions().map(drop),
        |tables| tables.stat().map(drop),
        |tables| tables.check().map(drop),
    ];
    for list in lists {
        let (reader, mut changer) = (database.write().unwrap(), database.write().unwrap());
        list(&reader).unwrap();
        is_excluded(changer.create_table("made", columns(), TableKind::Heap));
        reader.commit().unwrap();
        changer.create_table("made", columns(), TableKind::Heap).unwrap();
        is_excluded(list(&database.write().unwrap()));
        list(&database.write_with(Isolation::Snapshot).unwrap()).unwrap();
        list(&changer).unwrap();
        changer.rollback().unwrap();
    }
    check(&database);
}

#[test]
fn who_uses_very_many_tables_uses_all() {
    let database = create_three(&device(), &Settings { pool_bytes: 256 << 10, ..settings() });
    let name = |number: i64| format!("t{number}");
    let mut write = database.write().unwrap();
    for number in 0..40 {
        write.create_table(&name(number), columns(), TableKind::Heap).unwrap();
        insert(&mut write, &name(number), 0..number);
    }
    write.commit().unwrap();
    for isolation in Isolation::ALL {
        let mut write = database.write_with(isolation).unwrap();
        let mut changer = database.write().unwrap();
        for round in 0..2 {
            for number in 0..31 {
                insert(&mut write, &name(number), 100 + round..101 + round);
            }
        }
        changer.drop_table("t39").unwrap();
        changer.drop_table("t38").unwrap();
        is_excluded(changer.drop_table("t30"));
        write.insert("t31", &row(100)).unwrap();
        is_excluded(write.insert("t32", &row(100)).map(drop));
        is_excluded(write.insert("t38", &row(100)).map(drop));
        changer.rollback().unwrap();
        insert(&mut write, "t32", 100..101);
        insert(&mut write, "t39", 100..101);
        let mut changer = database.write().unwrap();
        is_excluded(changer.drop_table("t38"));
        for number in [0, 5, 30, 31, 32, 39] {
            let expected = usize::try_from(number).unwrap() + if number < 31 { 2 } else { 1 };
            assert_eq!(ids(&write, &name(number)).unwrap().len(), expected, "{isolation:?}");
        }
        write.rollback().unwrap();
    }
    check(&database);
}

#[test]
fn a_rollback_of_tables_that_fails_stops_the_engine_and_nobody_else() {
    let device = device();
    let database = create_three(&device, &settings());
    let mut writer = database.write().unwrap();
    writer.insert(BESIDE, &row(100)).unwrap();
    let mut changer = database.write().unwrap();
    change_tables(&mut changer);
    let fail_flush = Some(device.lock().submitted_flush_count() + 1);
    device.lock().set_plan(FaultPlan { fail_flush, ..FaultPlan::default() });
    database.checkpoint().unwrap_err();
    let mut other = database.write();
    changer.rollback().unwrap_err();
    let refused = [
        writer.create_table("other", columns(), TableKind::Heap),
        writer.insert(BESIDE, &row(101)).map(drop),
        other.as_mut().map_or(Ok(()), |other| other.drop_table("things")),
        database.write().map(drop),
    ];
    for (way, refused) in refused.into_iter().enumerate() {
        let is_told = matches!(refused, Err(StorageError::Poisoned { .. }));
        assert!(is_told || (way == 2 && refused.is_ok()), "{way}: {refused:?}");
    }
    drop((writer, other));
    drop(database);
    let (database, _) = open(&device, &settings());
    check_tables(&database, false);
    assert_eq!(ids(&database.read(), BESIDE).unwrap().len(), 20);
}

/// Loads a table past the log beside a writer, so that checkpoints come in between, and ends.
fn load_beside_a_writer(pool_bytes: u64, fails: bool) -> (Database, TestDevice, Settings) {
    let device = device();
    let settings = Settings {
        pool_bytes,
        log_bytes: 1 << 20,
        checkpoint_bytes: 24 << 10,
        lock_timeout_ns: 60_000_000_000,
        ..settings()
    };
    let database = create_three(&device, &settings);
    let loader = {
        let database = database.clone();
        move || {
            let mut write = database.write().unwrap();
            let kind = TableKind::Heap;
            let (name, indexes) =
                ("loaded".to_owned(), vec![("by_id".to_owned(), vec!["id".to_owned()])]);
            let new = NewTable { name, columns: columns(), kind, indexes };
            let loaded = write.load_table(&new, &LoadOptions::default(), |load| {
                for id in 0..2000 {
                    load.push(&row(id))?;
                    if id % 10 == 0 {
                        let now = nandu_workers::now().unwrap();
                        nandu_workers::sleep_until(now + Nanos::from_micros(3));
                    }
                }
                match fails {
                    true => Err(StorageError::NotFound { what: "the rest".to_owned() }),
                    false => Ok(()),
                }
            });
            assert_eq!(loaded.is_err(), fails);
            write.commit().unwrap();
        }
    };
    let writer = {
        let database = database.clone();
        move || {
            for id in 100..500 {
                let write = |write: &mut WriteTransaction<'_>| write.insert(BESIDE, &row(id));
                database.transact(Isolation::Serializable, write).unwrap();
            }
        }
    };
    let start = database.read().engine().data_io().now();
    let works: Vec<Work<()>> = vec![Box::new(loader), Box::new(writer)];
    Schedule { start, ..Schedule::default() }.run(works);
    (database, device, settings)
}

#[test]
fn checkpoints_pass_over_what_is_loaded_beside_them() {
    for pool_bytes in [48 << 10, 4 << 20] {
        for fails in [true, false] {
            let (database, device, settings) = load_beside_a_writer(pool_bytes, fails);
            for is_restarted in [false, true] {
                let database = match is_restarted {
                    false => database.clone(),
                    true => open(&device, &settings).0,
                };
                let read = database.read();
                assert_eq!(ids(&read, BESIDE).unwrap().len(), 420);
                match fails {
                    true => assert_eq!(names(&read), [BESIDE, "pairs", "things"]),
                    false => assert_eq!(ids(&read, "loaded").unwrap().len(), 2000),
                }
                drop(read);
                check(&database);
            }
        }
    }
}

#[test]
fn a_checkpoint_beside_a_load_leaves_its_pages_alone() {
    let database = create_three(&device(), &Settings { pool_bytes: 1 << 20, ..settings() });
    let mut changer = database.write().unwrap();
    let kind = TableKind::Heap;
    let (name, indexes) = ("loaded".to_owned(), Vec::new());
    let new = NewTable { name, columns: columns(), kind, indexes };
    let loaded = changer.load_table::<StorageError>(&new, &LoadOptions::default(), |load| {
        (0..500).try_for_each(|id| load.push(&row(id)))?;
        database.transact(Isolation::Serializable, |write| write.insert(BESIDE, &row(100)))?;
        // Twice, since the second one writes what is dirty since before the first.
        for _ in 0..2 {
            let written = |database: &Database| database.read().engine().pool_counters();
            let before = written(&database).write_count;
            assert!(database.shared.checkpoint_beside()?, "it completes");
            assert!(written(&database).write_count - before < 20, "pages of the log's alone");
        }
        (500..600).try_for_each(|id| load.push(&row(id)))
    });
    loaded.unwrap();
    changer.commit().unwrap();
    assert_eq!(ids(&database.read(), "loaded").unwrap().len(), 600);
    check(&database);
}
