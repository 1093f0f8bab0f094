//! The table of anomalies in docs/database.md, line by line. Names of Adya's phenomena (G0, G1a, …) and
//! of Hermitage's tests. Every test has the rows 1 → "10" and 2 → "20".
//!
//! "Refused" means that some step got an error that says to try again: the anomaly did not happen.

use super::*;

fn two_rows() -> Database {
    let database = create(&device(), &settings());
    let mut write = database.write().unwrap();
    put(&mut write, 1, "10").unwrap();
    put(&mut write, 2, "20").unwrap();
    write.commit().unwrap();
    database
}

fn begin(database: &Database, isolation: Isolation) -> WriteTransaction<'_> {
    database.write_with(isolation).unwrap()
}

fn is_refused<T: std::fmt::Debug>(answer: &Result<T, StorageError>) -> bool {
    answer.as_ref().is_err_and(StorageError::is_transient)
}

fn rows(database: &Database) -> Vec<(i64, String)> {
    range(&database.read(), 0, 100).unwrap()
}

fn pairs(expected: &[(i64, &str)]) -> Vec<(i64, String)> {
    expected.iter().map(|&(key, text)| (key, text.to_owned())).collect()
}

#[test]
fn g0_dirty_writes_do_not_happen() {
    for isolation in Isolation::ALL {
        let database = two_rows();
        let (mut first, mut second) = (begin(&database, isolation), begin(&database, isolation));
        put(&mut first, 1, "11").unwrap();
        assert!(is_refused(&put(&mut second, 1, "12")), "{isolation:?}");
        put(&mut first, 2, "21").unwrap();
        second.rollback().unwrap();
        first.commit().unwrap();
        assert_eq!(rows(&database), pairs(&[(1, "11"), (2, "21")]));
    }
}

#[test]
fn g1a_what_was_taken_back_is_never_read() {
    for isolation in Isolation::ALL {
        let database = two_rows();
        let (mut first, second) = (begin(&database, isolation), begin(&database, isolation));
        put(&mut first, 1, "101").unwrap();
        let seen = get(&second, 1);
        assert!(is_refused(&seen) || seen.unwrap().unwrap() == "10", "{isolation:?}");
        first.rollback().unwrap();
        assert_eq!(get(&second, 1).unwrap().unwrap(), "10");
        assert_eq!(get(&database.read(), 1).unwrap().unwrap(), "10");
    }
}

#[test]
fn g1a_sizes_of_tables_are_those_of_what_was_committed() {
    for isolation in Isolation::ALL {
        let database = two_rows();
        let (mut first, second) = (begin(&database, isolation), begin(&database, isolation));
        put(&mut first, 3, "30").unwrap();
        let row_count = |stats: Vec<TableStat>| {
            stats.iter().find(|stat| stat.name == "pairs").map(|stat| stat.row_count)
        };
        let seen = second.stat();
        assert!(is_refused(&seen) || row_count(seen.unwrap()) == Some(2), "{isolation:?}");
        first.rollback().unwrap();
        assert_eq!(row_count(second.stat().unwrap()), Some(2));
    }
}

#[test]
fn g1b_what_comes_between_is_never_read() {
    for isolation in Isolation::ALL {
        let database = two_rows();
        let (mut first, second) = (begin(&database, isolation), begin(&database, isolation));
        put(&mut first, 1, "101").unwrap();
        let seen = get(&second, 1);
        assert!(is_refused(&seen) || seen.unwrap().unwrap() == "10", "{isolation:?}");
        let snapshot = database.snapshot();
        put(&mut first, 1, "11").unwrap();
        first.commit().unwrap();
        assert_eq!(get(&snapshot, 1).unwrap().unwrap(), "10");
        let later = if isolation == Isolation::Snapshot { "10" } else { "11" };
        assert_eq!(get(&second, 1).unwrap().unwrap(), later);
    }
}

#[test]
fn g1c_information_does_not_flow_in_circles() {
    for isolation in Isolation::ALL {
        let database = two_rows();
        let (mut first, mut second) = (begin(&database, isolation), begin(&database, isolation));
        put(&mut first, 1, "11").unwrap();
        put(&mut second, 2, "22").unwrap();
        for seen in [get(&first, 2), get(&second, 1)] {
            let old = ["20", "10"];
            assert!(is_refused(&seen) || old.contains(&seen.unwrap().unwrap().as_str()));
        }
    }
}

#[test]
fn otv_a_transaction_does_not_vanish_once_it_was_observed() {
    for isolation in Isolation::ALL {
        let database = two_rows();
        let mut first = begin(&database, isolation);
        put(&mut first, 1, "11").unwrap();
        put(&mut first, 2, "19").unwrap();
        let third = begin(&database, isolation);
        let mut second = begin(&database, isolation);
        assert!(is_refused(&put(&mut second, 1, "12")));
        second.rollback().unwrap();
        first.commit().unwrap();
        let seen = (get(&third, 1).unwrap().unwrap(), get(&third, 2).unwrap().unwrap());
        let whole = [("11", "19"), ("10", "20")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert!(whole.contains(&seen), "{isolation:?}: {seen:?}");
    }
}

#[test]
fn pmp_rows_that_a_condition_finds_do_not_appear_between_two_looks() {
    for isolation in Isolation::ALL {
        let database = two_rows();
        let (first, mut second) = (begin(&database, isolation), begin(&database, isolation));
        assert_eq!(range(&first, 3, 100).unwrap(), []);
        let added = put(&mut second, 3, "30");
        match isolation {
            Isolation::Serializable => assert!(is_refused(&added)),
            Isolation::Snapshot => second.commit().unwrap(),
        }
        assert_eq!(range(&first, 3, 100).unwrap(), []);
    }
}

#[test]
fn p4_no_update_is_lost() {
    for isolation in Isolation::ALL {
        let database = two_rows();
        let (mut first, mut second) = (begin(&database, isolation), begin(&database, isolation));
        assert_eq!(get(&first, 1).unwrap().unwrap(), "10");
        assert_eq!(get(&second, 1).unwrap().unwrap(), "10");
        let written = put(&mut first, 1, "11");
        if isolation == Isolation::Serializable {
            // The other has read it: the first waits, and who comes second closes the circle.
            assert!(is_refused(&written));
            first.rollback().unwrap();
            put(&mut second, 1, "11").unwrap();
            second.commit().unwrap();
        } else {
            written.unwrap();
            first.commit().unwrap();
            let late = put(&mut second, 1, "11");
            assert!(matches!(late, Err(StorageError::Conflict { .. })), "{late:?}");
        }
        assert_eq!(rows(&database), pairs(&[(1, "11"), (2, "20")]));
    }
}

#[test]
fn g_single_no_row_is_read_from_before_and_another_from_after() {
    for isolation in Isolation::ALL {
        let database = two_rows();
        let (first, mut second) = (begin(&database, isolation), begin(&database, isolation));
        assert_eq!(get(&first, 1).unwrap().unwrap(), "10");
        let written = put(&mut second, 1, "12").and_then(|_| put(&mut second, 2, "18"));
        match isolation {
            Isolation::Serializable => {
                assert!(is_refused(&written));
                second.rollback().unwrap();
            }
            Isolation::Snapshot => second.commit().unwrap(),
        }
        assert_eq!(get(&first, 2).unwrap().unwrap(), "20");
    }
}

#[test]
fn g2_item_write_skew_happens_between_snapshots_and_not_if_serializable() {
    for isolation in Isolation::ALL {
        let database = two_rows();
        let (mut first, mut second) = (begin(&database, isolation), begin(&database, isolation));
        for write in [&first, &second] {
            assert_eq!(range(write, 1, 3).unwrap(), pairs(&[(1, "10"), (2, "20")]));
        }
        let skew = [put(&mut first, 1, "11"), put(&mut second, 2, "21")];
        match isolation {
            Isolation::Serializable => assert!(skew.iter().all(is_refused), "{skew:?}"),
            Isolation::Snapshot => {
                first.commit().unwrap();
                second.commit().unwrap();
                assert_eq!(rows(&database), pairs(&[(1, "11"), (2, "21")]), "it is allowed");
            }
        }
    }
}

#[test]
fn g2_phantoms_of_two_who_each_add_a_row_that_the_other_looked_for() {
    for isolation in Isolation::ALL {
        let database = two_rows();
        let (mut first, mut second) = (begin(&database, isolation), begin(&database, isolation));
        for write in [&first, &second] {
            assert_eq!(range(write, 3, 100).unwrap(), []);
        }
        let skew = [put(&mut first, 3, "30"), put(&mut second, 4, "42")];
        match isolation {
            Isolation::Serializable => assert!(skew.iter().all(is_refused), "{skew:?}"),
            Isolation::Snapshot => {
                first.commit().unwrap();
                second.commit().unwrap();
                assert_eq!(rows(&database).len(), 4, "it is allowed");
            }
        }
    }
}

#[test]
fn phantoms_of_an_index_and_of_a_whole_table_are_kept_out() {
    let database = two_rows();
    let bound = [ValueRef::Integer(5)];
    let by_index = |tables: &Tables| {
        let mut numbers = Vec::new();
        let bounds = (Bound::Included(&bound[..]), Bound::Unbounded);
        let scan = tables.index_scan("things", "by_id", bounds, |number| {
            numbers.push(number);
            Flow::Continue(())
        });
        scan.map(|()| numbers)
    };
    let thing = |id| [ValueRef::Integer(id), ValueRef::Text(b"thing")];
    let (first, mut second) = (database.write().unwrap(), database.write().unwrap());
    assert_eq!(by_index(&first).unwrap(), [0; 0]);
    assert!(is_refused(&second.insert("things", &thing(7))), "the entry lies in the range");
    assert_eq!(second.insert("things", &thing(3)), Ok(2), "this one does not");
    second.commit().unwrap();
    assert_eq!(by_index(&first).unwrap(), [0; 0]);
    first.commit().unwrap();

    let (first, mut second) = (database.write().unwrap(), database.write().unwrap());
    let mut count = 0;
    let scanned = first.scan("things", |_, _| {
        count += 1;
        Flow::Continue(())
    });
    scanned.unwrap();
    assert_eq!(count, 1);
    assert!(is_refused(&second.insert("things", &thing(3))), "the whole table is locked");
    assert!(is_refused(&second.delete("things", 2)));
}

#[test]
fn a_read_only_snapshot_between_two_serializable_writers_sees_an_order_of_them() {
    // The anomaly of Fekete, O'Neil and O'Neil (SIGMOD Record 33(3), 2004) needs a reader that sees the
    // second commit and not the first, though the first read what the second overwrote.
    let database = two_rows();
    let (mut first, mut second) = (database.write().unwrap(), database.write().unwrap());
    assert_eq!(get(&first, 1).unwrap().unwrap(), "10");
    assert!(is_refused(&put(&mut second, 1, "30")), "the first has read it");
    put(&mut first, 2, "9").unwrap();
    first.commit().unwrap();
    put(&mut second, 1, "30").unwrap();
    second.commit().unwrap();
    assert_eq!(rows(&database), pairs(&[(1, "30"), (2, "9")]));
}
