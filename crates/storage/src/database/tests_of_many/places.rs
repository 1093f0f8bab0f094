//! Entries around a place, values that several add to, and names: who waits for whom, and what is there
//! afterwards.

use super::*;
use crate::database::Around;

/// A raw tree with single letters as keys.
fn letters(keys: &str) -> (TestDevice, Database) {
    let device = device();
    let database = create(&device, &settings());
    let mut write = database.write().unwrap();
    write.create_raw_table("letters").unwrap();
    for key in keys.bytes() {
        write.put_value("letters", &[key], b"old").unwrap();
    }
    write.commit().unwrap();
    (device, database)
}

fn keys(scan: EntryScan<'_>) -> String {
    scan.map(|entry| char::from(entry.unwrap().0[0])).collect()
}

fn is_refused<T>(answer: &Result<T, StorageError>) -> bool {
    answer.as_ref().is_err_and(StorageError::is_transient)
}

#[test]
fn entries_around_a_place_are_the_last_before_it_and_those_up_to_the_next_behind() {
    let (_device, database) = letters("cfkm");
    let read = database.read();
    let around = |around| keys(read.entries_around("letters", around).unwrap());
    assert_eq!(around(Around::keys(b"g", b"h")), "f");
    assert_eq!(around(Around::keys(b"f", b"f")), "", "all before the end come before it");
    assert_eq!(around(Around::keys(b"f", b"g")), "f");
    assert_eq!(around(Around::keys(b"d", b"l")), "cfk");
    assert_eq!(around(Around::gap(b"f")), "c");
    assert_eq!(around(Around::gap(b"a")), "");
    assert_eq!(around(Around::gap(b"z")), "m");
    assert_eq!(around(Around::keys(b"a", b"z")), "cfkm");
    assert_eq!(around(Around::keys(b"g", b"h").with_next()), "fk");
    assert_eq!(around(Around::gap(b"z").with_next()), "m");
}

#[test]
fn who_looks_around_a_place_locks_it_and_no_more() {
    let (_device, database) = letters("cfkm");
    let reader = database.write().unwrap();
    assert_eq!(keys(reader.entries_around("letters", Around::gap(b"h")).unwrap()), "f");
    let mut other = database.write().unwrap();
    for key in [b"f", b"g", b"j"] {
        assert!(is_refused(&other.put_value("letters", key, b"new")), "{key:?}");
    }
    for key in [b"c", b"e", b"k", b"l"] {
        other.put_value("letters", key, b"new").unwrap();
    }
    other.commit().unwrap();
    assert_eq!(keys(reader.entries_around("letters", Around::gap(b"h")).unwrap()), "f");
}

#[test]
fn two_who_claim_the_same_place_come_one_after_the_other() {
    for isolation in Isolation::ALL {
        let (_device, database) = letters("cfkm");
        let begin = || database.write_with(isolation).unwrap();
        let (mut first, mut second, mut beside) = (begin(), begin(), begin());
        let gap = |place| Around::gap(place);
        assert_eq!(keys(first.claim_entries_around("letters", gap(b"h")).unwrap()), "f");
        assert!(is_refused(&second.claim_entries_around("letters", gap(b"j"))));
        assert_eq!(keys(beside.claim_entries_around("letters", gap(b"l")).unwrap()), "k");
        first.put_value("letters", b"h", b"new").unwrap();
        beside.put_value("letters", b"l", b"new").unwrap();
        first.commit().unwrap();
        beside.commit().unwrap();
        let found = second.claim_entries_around("letters", gap(b"j")).map(keys);
        match isolation {
            // What it would see is not what is there.
            Isolation::Snapshot => assert!(is_refused(&found)),
            Isolation::Serializable => assert_eq!(found.unwrap(), "h"),
        }
        second.rollback().unwrap();
        assert_eq!(keys(database.read().entries("letters").unwrap()), "cfhklm");
    }
}

#[test]
fn what_somebody_keeps_others_read_and_do_not_change() {
    for isolation in Isolation::ALL {
        let (_device, database) = letters("cf");
        let all = (Bound::Unbounded, Bound::Included(&b"f"[..]));
        let (first, mut second) =
            (database.write_with(isolation).unwrap(), database.write_with(isolation).unwrap());
        first.keep_entries("letters", all).unwrap();
        second.keep_entries("letters", all).unwrap();
        assert!(is_refused(&second.put_value("letters", b"d", b"new")));
        second.put_value("letters", b"g", b"new").unwrap();
        drop(first);
        let late = database.write_with(isolation).unwrap();
        second.put_value("letters", b"d", b"new").unwrap();
        second.commit().unwrap();
        // Of isolation `snapshot` what is kept is what it was.
        assert_eq!(
            is_refused(&late.keep_entries("letters", all)),
            isolation == Isolation::Snapshot
        );
    }
}

fn add(number: u8) -> impl FnOnce(Option<&[u8]>) -> Result<Vec<u8>, StorageError> {
    move |old| Ok(vec![old.map_or(0, |old| old[0]) + number])
}

fn sum_of(tables: &Tables) -> Option<u8> {
    tables.value("letters", b"sum", |value| value[0]).unwrap()
}

#[test]
fn several_add_to_a_value_at_once_and_nobody_reads_it_meanwhile() {
    for isolation in Isolation::ALL {
        let (device, database) = letters("");
        let begin = || database.write_with(isolation).unwrap();
        let (mut first, mut second, mut third) = (begin(), begin(), begin());
        first.merge_value("letters", b"sum", add(1)).unwrap();
        second.merge_value("letters", b"sum", add(2)).unwrap();
        let mark = second.savepoint();
        second.merge_value("letters", b"sum", add(4)).unwrap();
        second.rollback_to(mark).unwrap();
        second.merge_value("letters", b"sum", add(8)).unwrap();
        third.merge_value("letters", b"sum", add(16)).unwrap();
        let reader = database.write().unwrap();
        assert!(is_refused(&reader.value("letters", b"sum", |_| ())));
        let mut changer = begin();
        assert!(is_refused(&changer.put_value("letters", b"sum", b"x")));
        drop((reader, changer));
        first.commit().unwrap();
        assert_eq!(sum_of(&database.read()), Some(1));
        third.rollback().unwrap();
        second.commit().unwrap();
        assert_eq!(sum_of(&database.read()), Some(11));
        // Who has read it keeps others from adding, but for itself.
        let mut reader = database.write().unwrap();
        assert_eq!(sum_of(&reader), Some(11));
        let mut other = begin();
        assert!(is_refused(&other.announce_merge("letters", b"sum")));
        reader.merge_value("letters", b"sum", add(1)).unwrap();
        reader.commit().unwrap();
        drop(other);
        drop(database);
        let (database, _) = open(&device, &settings());
        assert_eq!(sum_of(&database.read()), Some(12), "all of it is durable");
    }
}

#[test]
fn a_merge_that_fails_takes_the_transaction_back() {
    let (_device, database) = letters("c");
    let mut write = database.write().unwrap();
    write.put_value("letters", b"c", b"new").unwrap();
    write.merge_value("letters", b"sum", add(1)).unwrap();
    let refused = |_: Option<&[u8]>| Err(StorageError::InvalidSetting { what: "no".to_owned() });
    write.merge_value("letters", b"sum", refused).unwrap();
    assert!(write.commit().is_err());
    let read = database.read();
    assert_eq!(sum_of(&read), None);
    assert_eq!(read.value("letters", b"c", <[u8]>::to_vec).unwrap().unwrap(), b"old");
    drop(read);
    let mut write = database.write().unwrap();
    write.put_value("letters", b"sum", b"x").unwrap();
    write.commit().unwrap();
}

#[test]
fn names_are_locked_as_finely_as_wanted() {
    for isolation in Isolation::ALL {
        let (_device, database) = letters("");
        let begin = || database.write_with(isolation).unwrap();
        let (first, second) = (begin(), begin());
        let lock = |write: &WriteTransaction<'_>, path: &[&[u8]], access| {
            write.lock_path("letters", path, access)
        };
        lock(&first, &[b"", b"a"], NameAccess::Change).unwrap();
        lock(&second, &[b"", b"b"], NameAccess::Change).unwrap();
        lock(&second, &[b""], NameAccess::ChangeBelow).unwrap();
        assert!(is_refused(&lock(&second, &[b"", b"a"], NameAccess::Change)));
        assert!(is_refused(&lock(&second, &[b""], NameAccess::Read)));
        assert!(!second.try_widen("letters", b"").unwrap());
        assert_eq!(second.name_count("letters").unwrap(), 2);
        // Who reads without locks needs none of a name.
        let read = second.lock_path_to_read("letters", &[b"", b"a"]);
        assert_eq!(is_refused(&read), isolation == Isolation::Serializable);
        database.read().lock_path_to_read("letters", &[b"", b"a"]).unwrap();
        first.rollback().unwrap();
        assert!(second.try_widen("letters", b"").unwrap());
        assert_eq!(second.name_count("letters").unwrap(), 1);
        assert!(is_refused(&lock(&begin(), &[b"", b"c"], NameAccess::Change)));
    }
}
