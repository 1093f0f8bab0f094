//! Scans and fetches of tables in PAX pages against the rows that were loaded: rows, requests, errors.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of a few rows fit anywhere"
)]

use super::*;
use crate::testing::limits;
use crate::testing::tables::{database, execution_on};
use nandu_device::{IoBuffer, Operation};
use nandu_storage::StorageError;
use nandu_storage::database::{Column, ColumnType, Database, LoadOptions, NewTable, TableKind};
use nandu_storage::propagation::PropagationKind;
use nandu_storage::sqlite::Value;
use nandu_storage::volume::IoOwner;

const ROW_COUNT: i64 = 3000;

fn row(number: i64) -> Vec<Value> {
    vec![
        Value::Integer(number * 7),
        Value::Text(format!("row {number}")),
        if number % 3 == 0 { Value::Null } else { Value::Real(number as f64) },
        Value::Blob(vec![number as u8; number as usize % 60]),
        Value::Integer(number),
    ]
}

fn stored(propagation: PropagationKind) -> Database {
    let database = database(1024, propagation);
    let kinds = [
        ColumnType::Integer,
        ColumnType::Text,
        ColumnType::Real,
        ColumnType::Blob,
        ColumnType::Integer,
    ];
    let columns = kinds.iter().zip(["a", "b", "c", "d", "e"]);
    let table = NewTable {
        name: "t".to_owned(),
        columns: columns.map(|(kind, name)| Column::new(name, *kind)).collect(),
        kind: TableKind::Pax { span_pages: 24 },
        indexes: Vec::new(),
    };
    let mut writing = database.write().unwrap();
    let load = |load: &mut nandu_storage::database::TableLoad<'_>| -> Result<(), StorageError> {
        (1..=ROW_COUNT).try_for_each(|number| {
            let row = row(number);
            load.push(&row.iter().map(Value::as_ref).collect::<Vec<_>>())
        })
    };
    writing.load_table(&table, &LoadOptions::default(), load).unwrap();
    writing.commit().unwrap();
    database
}

/// The row with NULL in all but these columns, up to the last of them.
fn narrowed(number: i64, columns: &[usize]) -> Vec<Value> {
    let end = columns.iter().max().map_or(0, |last| last + 1);
    let row = row(number).into_iter().take(end).enumerate();
    row.map(|(at, value)| if columns.contains(&at) { value } else { Value::Null }).collect()
}

fn values(tuple: Tuple<'_>) -> Vec<Value> {
    tuple.view().unwrap().columns().map(ValueRef::to_value).collect()
}

#[test]
fn a_scan_gives_what_is_wanted_and_reads_nothing_else() {
    for propagation in PropagationKind::all_on_data_alone() {
        let database = stored(propagation);
        let tables = database.read();
        for columns in [&[0_usize][..], &[4, 0], &[1, 2], &[0, 1, 2, 3, 4], &[3]] {
            let view = PaxView::open(&tables, "t", columns.to_vec()).unwrap();
            for (reads_ahead, spare) in [(false, 0), (true, 0), (true, 100)] {
                let memory_pages = view.scan_pages_min() + spare;
                let limits = crate::Limits { reads_ahead, ..limits(1024, memory_pages) };
                let execution = execution_on(&tables, limits);
                let memory = execution.take("a test", memory_pages).unwrap();
                let mut scan = view.scan(&execution, memory, Span::ALL).unwrap();
                let mut number = 0;
                while scan.advance().unwrap() {
                    for tuple in scan.batch().tuples() {
                        number += 1;
                        assert_eq!(tuple.row_number, number);
                        assert_eq!(values(tuple), narrowed(number, columns));
                    }
                }
                assert_eq!(number, ROW_COUNT);
                assert_eq!(scan.page_count(), view.size().page_count);
                drop(scan);
                if propagation == PropagationKind::InPlace {
                    let counts = execution.io_counts();
                    assert_eq!(counts.read_bytes, view.size().page_count * 1024);
                    let (pax_pages, runs, _) = view.shape();
                    assert_eq!(counts.read_requests, pax_pages * runs);
                }
                assert_eq!(execution.free_pages(), memory_pages);
            }
        }
    }
}

#[test]
fn parts_have_every_row_once_in_order() {
    let database = stored(PropagationKind::InPlace);
    let tables = database.read();
    let view = PaxView::open(&tables, "t", vec![0, 2]).unwrap();
    let pax_pages = view.shape().0;
    for count in [1, 2, 3, 1000] {
        let parts = view.parts(count);
        assert_eq!(parts.len() as u64, pax_pages.min(u64::from(count)));
        let mut number = 0;
        for part in parts {
            let execution = execution_on(&tables, limits(1024, 64));
            let memory = execution.take("a test", 64).unwrap();
            let mut scan = view.scan(&execution, memory, part).unwrap();
            while scan.advance().unwrap() {
                for tuple in scan.batch().tuples() {
                    number += 1;
                    assert_eq!(tuple.row_number, number, "{count} parts");
                }
            }
        }
        assert_eq!(number, ROW_COUNT);
    }
}

#[test]
fn sizes_are_those_of_the_rows() {
    let database = stored(PropagationKind::InPlace);
    let tables = database.read();
    for columns in [vec![0], vec![1, 3], vec![0, 1, 2, 3, 4]] {
        let view = PaxView::open(&tables, "t", columns.clone()).unwrap();
        let execution = execution_on(&tables, limits(1024, 64));
        let memory = execution.take("a test", 64).unwrap();
        let mut scan = view.scan(&execution, memory, Span::ALL).unwrap();
        let mut bytes = 0;
        while scan.advance().unwrap() {
            bytes += scan.batch().tuples().map(|it| it.cell_bytes() as u64).sum::<u64>();
        }
        let known = view.size().cell_bytes;
        assert!(known.abs_diff(bytes) * 50 <= bytes, "{columns:?}: {known} and not {bytes}");
    }
}

#[test]
fn a_fetch_reads_each_pax_page_once_and_goes_on_where_it_stopped() {
    let database = stored(PropagationKind::InPlace);
    let tables = database.read();
    let view = PaxView::open(&tables, "t", vec![1, 4]).unwrap();
    let numbers: Vec<i64> = (1..=ROW_COUNT).filter(|number| number % 37 == 5).collect();
    let met = |numbers: &[i64]| {
        let mut pages: Vec<usize> =
            numbers.iter().map(|&number| view.table.place_of(number).unwrap().0).collect();
        pages.dedup();
        pages.len() as u64
    };
    for (reads_ahead, step) in [(false, usize::MAX), (true, usize::MAX), (true, 7), (false, 1)] {
        let limits = crate::Limits { reads_ahead, ..limits(1024, 60) };
        let execution = execution_on(&tables, limits);
        let memory = execution.take("a test", 60).unwrap();
        let mut fetch = PaxFetch::new(&execution, &view, memory).unwrap();
        let mut done = 0;
        while done < numbers.len() {
            let mut here = 0;
            let taken = fetch.fetch(&numbers[done..], |place, tuple| {
                if here == step {
                    return Ok(false);
                }
                here += 1;
                assert_eq!(tuple.row_number, numbers[done + place]);
                assert_eq!(values(tuple), narrowed(tuple.row_number, &[1, 4]));
                Ok(true)
            });
            done += taken.unwrap();
        }
        assert_eq!(execution.io_counts().read_requests, 2 * met(&numbers), "{reads_ahead} {step}");
        // Another round from the beginning.
        assert_eq!(fetch.fetch(&[1, 2, ROW_COUNT], |_, _| Ok(true)).unwrap(), 3);
        let told = fetch.fetch(&[ROW_COUNT + 1], |_, _| Ok(true)).unwrap_err().to_string();
        assert!(told.contains(&format!("no row {}", ROW_COUNT + 1)), "{told}");
    }
}

#[test]
fn a_page_that_was_lost_is_an_error_and_no_rows() {
    let database = stored(PropagationKind::InPlace);
    database.checkpoint().unwrap();
    let tables = database.read();
    let view = PaxView::open(&tables, "t", vec![0, 4]).unwrap();
    let all_rows = || {
        let execution = execution_on(&tables, limits(1024, 64));
        let memory = execution.take("a test", 64).unwrap();
        let mut scan = view.scan(&execution, memory, Span::ALL).unwrap();
        let mut row_count = 0;
        while scan.advance()? {
            row_count += scan.batch().tuples().count();
        }
        Ok::<_, QueryError>(row_count)
    };
    assert_eq!(all_rows().unwrap() as i64, ROW_COUNT);
    // Zeros, as of a page that no write reached: its checksum is in order.
    let lost = view.table.minipage(1, 4).first_page;
    let io = tables.engine().data_io();
    let (file, offset) = (view.table.file(), u64::from(lost - 1) * 1024);
    let zeros = IoBuffer::zeroed(1024);
    let ticket = io.submit(IoOwner::Operator, file, Operation::Write, offset, zeros).unwrap();
    io.wait(ticket).result.unwrap();
    let told = all_rows().unwrap_err().to_string();
    assert!(told.contains(&format!("page {lost} ")) && told.contains("never written"), "{told}");
}

#[test]
fn what_makes_no_sense_is_an_error() {
    let database = stored(PropagationKind::InPlace);
    let tables = database.read();
    let told = PaxView::open(&tables, "t", vec![9]).unwrap_err().to_string();
    assert!(told.contains("no column 9"), "{told}");
    let view = PaxView::open(&tables, "t", vec![0, 1, 2, 3, 4]).unwrap();
    let execution = execution_on(&tables, limits(1024, 5));
    let memory = execution.take("a test", 5).unwrap();
    let refused = view.scan(&execution, memory, Span::ALL).map(|_| ()).unwrap_err();
    assert!(matches!(refused, QueryError::TooLittleMemory { granted_pages: 5, .. }), "{refused}");
}
