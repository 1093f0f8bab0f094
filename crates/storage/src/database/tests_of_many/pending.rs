//! What open transactions cost those who look at the database beside them.

use super::*;

/// Keys beside each other are in leaves of their own, with many between.
const FAR: i64 = 400;

fn filled(settings: &Settings) -> Database {
    let database = create(&device(), settings);
    let mut write = database.write().unwrap();
    put_all(&mut write, 0..500, "first");
    for number in 0..500 {
        write.insert("things", &[ValueRef::Integer(number), ValueRef::Text(b"thing")]).unwrap();
    }
    write.commit().unwrap();
    database
}

#[test]
fn an_old_snapshot_keeps_one_version_of_a_page_however_often_that_changes() {
    let settings = Settings { version_bytes: 16 << 10, ..settings() };
    let database = filled(&settings);
    let old = database.snapshot();
    for round in 0..1000 {
        let mut write = database.write().unwrap();
        // Both statements have a view, as those of any serializable transaction.
        assert!(get(&write, 7).unwrap().is_some());
        put(&mut write, 7, &format!("round {round}")).unwrap();
        assert!(get(&write, 7).unwrap().is_some());
        write.commit().unwrap();
        old.engine().audit();
    }
    assert_eq!(get(&old, 7).unwrap().as_deref(), Some("first"));
    let kept_count = old.engine().version_bytes() / u64::from(settings.page_bytes);
    assert!(kept_count < 8, "{kept_count} versions of few pages");
}

/// Pages that `look` wanted.
fn pages_of<T>(database: &Database, look: impl FnOnce() -> T) -> (T, u64) {
    let wanted = || {
        let counters = database.read().engine().pool_counters();
        counters.hit_count + counters.miss_count
    };
    let before = wanted();
    let answer = look();
    (answer, wanted() - before)
}

#[test]
fn who_looks_at_one_table_undoes_nothing_in_another() {
    let database = filled(&settings());
    let mut write = database.write().unwrap();
    for number in 1..=200 {
        write.update("things", number, &[ValueRef::Integer(-number), ValueRef::Null]).unwrap();
    }
    let snapshot = database.snapshot();
    let (found, page_count) = pages_of(&database, || range(&snapshot, 0, 500).unwrap());
    assert_eq!(found.len(), 500);
    assert!(page_count < 100, "{page_count} pages for 500 rows");
    let (found, page_count) =
        pages_of(&database, || snapshot.get("things", 1, integer_of).unwrap());
    assert_eq!(found, Some(0));
    assert!(page_count > 200, "{page_count} pages for 200 rows that have to be undone");
    write.commit().unwrap();
}

#[test]
fn who_looks_at_some_keys_undoes_nothing_where_none_of_them_changed() {
    let database = filled(&settings());
    let mut write = database.write().unwrap();
    put_all(&mut write, 0..300, "a text that is so long that leaves are split");
    put_all(&mut write, 1000..1100, "another");
    let snapshot = database.snapshot();
    let text = Some("first");
    let (_, page_count) = pages_of(&database, || {
        assert_eq!(get(&snapshot, FAR).unwrap().as_deref(), text);
        assert_eq!(range(&snapshot, 300, 500).unwrap().len(), 200);
        let keys: Vec<_> = (350..450).map(|key| vec![Value::Integer(key)]).collect();
        let mut seen_count = 0;
        snapshot.get_batch_by_key("pairs", &keys, |_, _| seen_count += 1).unwrap();
        assert_eq!(seen_count, 100);
    });
    assert!(page_count < 200, "{page_count} pages for 200 rows");
    let (found, page_count) = pages_of(&database, || range(&snapshot, 250, 310).unwrap());
    assert!(found.len() == 60 && found.iter().all(|(_, text)| text == "first"), "{found:?}");
    assert!(page_count > 400, "{page_count} pages for 400 rows that have to be undone");
    assert_eq!(range(&snapshot, 0, 2000).unwrap().len(), 500);
    write.commit().unwrap();
}

#[test]
fn a_snapshot_takes_what_it_undoes_out_of_memory() {
    let settings = Settings { pool_bytes: 1 << 20, ..settings() };
    let database = filled(&settings);
    let company = database.write().unwrap();
    let mut write = database.write().unwrap();
    put_all(&mut write, 0..200, "second");
    let mark = write.savepoint();
    put_all(&mut write, 100..300, "third");
    write.rollback_to(mark).unwrap();
    put_all(&mut write, 200..220, "fourth");
    // The log is on the device, and no buffer has it any more.
    database.flush().unwrap();
    let read_count = || database.read().engine().device_counters().0.reads.request_count;
    let before = read_count();
    let snapshot = database.snapshot();
    assert_eq!(range(&snapshot, 0, 500).unwrap().len(), 500);
    for key in [0, 150, 210, 299] {
        assert_eq!(get(&snapshot, key).unwrap().as_deref(), Some("first"), "key {key}");
    }
    assert_eq!(read_count(), before, "nothing is read from the device");
    snapshot.engine().audit();
    write.commit().unwrap();
    drop(company);
    for (key, text) in [(0, "second"), (150, "second"), (210, "fourth"), (299, "first")] {
        assert_eq!(get(&database.read(), key).unwrap().as_deref(), Some(text), "key {key}");
    }
}

#[test]
fn what_was_done_alone_is_undone_from_the_log() {
    let database = filled(&settings());
    let mut write = database.write().unwrap();
    put_all(&mut write, 0..100, "alone");
    let before = database.snapshot();
    put_all(&mut write, 50..150, "beside");
    database.flush().unwrap();
    let after = database.snapshot();
    for key in [0, 75, 149] {
        for snapshot in [&before, &after] {
            assert_eq!(get(snapshot, key).unwrap().as_deref(), Some("first"), "key {key}");
        }
    }
    write.rollback().unwrap();
    assert_eq!(get(&database.read(), 75).unwrap().as_deref(), Some("first"));
    before.engine().audit();
}

#[test]
fn the_log_has_room_again_once_the_transaction_has_ended_that_filled_it() {
    let settings = Settings { log_bytes: 256 << 10, ..settings() };
    let database = create(&device(), &settings);
    let mut old = database.write().unwrap();
    put(&mut old, 1, "old").unwrap();
    let text = "a".repeat(100);
    let change = |key: i64| {
        let mut write = database.write()?;
        (0..10).try_for_each(|part| put(&mut write, 10 * key + part, &text).map(drop))?;
        write.commit()
    };
    let full = (1..1000).find_map(|key| change(key).err());
    assert!(full.unwrap().to_string().contains("since a transaction began that has not ended"));
    assert!(change(1).is_err(), "as long as it is open");
    old.commit().unwrap();
    for key in 1..200 {
        change(key).unwrap();
    }
    database.read().engine().audit();
}
