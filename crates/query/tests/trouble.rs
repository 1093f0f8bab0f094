//! What ends a join early: a full disk, a damaged page, Ctrl-C. Each says so, leaves no spill file, and
//! leaves the database to others.

use crate::common::{Inputs, Scale, controlled_device, count_pairs, database, plans_in};
use nandu_query::join::JoinType;
use nandu_query::plan::{ChunkRule, Plan};
use nandu_query::{Execution, JoinKind, QueryError};
use nandu_storage::database::{Database, Tables};
use nandu_storage::sqlite::ValueRef;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const PAGE_BYTES: u32 = 4096;
const MEMORY_PAGES: u32 = 40;
const SCALE: Scale = Scale { customer_count: 2000, orders_each: 10, page_bytes: PAGE_BYTES };
const PAIR_COUNT: u64 = 20_000;

/// Runs a plan with a flag that stops it.
fn run(tables: &Tables, plan: &Plan, stop: Arc<AtomicBool>) -> Result<u64, QueryError> {
    let inputs = Inputs::open(tables)?;
    // A leaf that was asked for ahead and came damaged once is read again, and good then.
    let reads_ahead = plan.kind != JoinKind::IndexSortMerge;
    let limits = crate::common::limits(PAGE_BYTES, MEMORY_PAGES, reads_ahead);
    let io = tables.engine().data_io();
    let execution = Execution::new(limits, io.clone(), io, None, stop);
    let join = inputs.join(JoinType::Inner);
    let mut stream = plan.open(&execution, join, inputs.indexes(), ChunkRule::ByBytes)?;
    count_pairs(stream.as_mut())
}

/// All plans; the nested loops of tuples is waited for only until it is stopped.
fn plans_of(tables: &Tables) -> Vec<Plan> {
    let inputs = Inputs::open(tables).expect("it was loaded");
    plans_in(&inputs.question(SCALE), MEMORY_PAGES, true)
}

/// Asserts that nothing is left of a run, and that the database works: it is read, and written.
fn assert_usable(database: &Database, plan: &Plan) {
    let names = |database: &Database| -> Vec<String> {
        let io = database.read().engine().data_io();
        io.files().into_iter().map(|(_, name)| name).collect()
    };
    let left: Vec<String> =
        names(database).into_iter().filter(|name| name.starts_with("spill")).collect();
    assert!(left.is_empty(), "{}: {left:?}", plan.kind);
    let tables = database.read();
    let plans = plans_of(&tables);
    let without_spill = plans.iter().find(|plan| plan.kind == JoinKind::BlockNestedLoops);
    let without_spill = without_spill.expect("it needs little memory");
    let pairs = run(&tables, without_spill, Arc::default()).expect("nothing is wrong any more");
    assert_eq!(pairs, PAIR_COUNT, "after {}", plan.kind);
    drop(tables);
    let mut writing = database.write().expect("nobody else writes");
    let row = [ValueRef::Integer(1), ValueRef::Blob(&[1])];
    let number = writing.insert("customer", &row).expect("there is room");
    writing.delete("customer", number).expect("it is there");
    writing.commit().expect("the device is sound");
}

#[test]
fn a_full_disk_ends_what_spills_and_nothing_else() {
    let (device, _) = controlled_device(19 << 19);
    let database = database(device, SCALE);
    let plans = plans_of(&database.read());
    let mut full_count = 0;
    for plan in plans.iter().filter(|plan| plan.kind != JoinKind::NestedLoops) {
        match run(&database.read(), plan, Arc::default()) {
            Ok(pairs) => assert_eq!(pairs, PAIR_COUNT, "{}", plan.kind),
            Err(error) => {
                full_count += 1;
                assert!(plan.written.0 > 0, "{} does not write: {error}", plan.kind);
                assert!(error.to_string().contains("space"), "{}: {error}", plan.kind);
            }
        }
        assert_usable(&database, plan);
    }
    assert!(full_count >= 3, "{full_count} of {} joins spilled too much", plans.len());
}

/// A request close to the end of a run. That of nested loops is not waited for, and how many requests joins
/// by index make follows from the pool.
fn late_request(plan: &Plan, requests: u64) -> u64 {
    match plan.kind {
        JoinKind::NestedLoops => requests.min(500),
        JoinKind::IndexNestedLoops | JoinKind::IndexSortMerge => requests * 4 / 5,
        _ => requests,
    }
}

#[test]
fn a_damaged_page_under_a_scan_is_told_by_every_join() {
    let (device, control) = controlled_device(64 << 20);
    let database = database(device, SCALE);
    let plans = plans_of(&database.read());
    for plan in plans {
        // What statistics read comes before; damage hits early scans, and what is read in the end.
        for read in [40, late_request(&plan, plan.estimate.read_requests) - 4] {
            database.drop_cached_pages().unwrap();
            control.damaged_read.store(read, Ordering::Relaxed);
            let result = run(&database.read(), &plan, Arc::default());
            let said = match result {
                Ok(_) => panic!("{} at {read} of {}", plan.kind, plan.estimate.read_requests),
                Err(error) => error.to_string(),
            };
            assert!(said.contains("checksum"), "{}: {said}", plan.kind);
            assert_usable(&database, &plan);
        }
    }
}

#[test]
fn every_join_stops_when_asked_to() {
    let (device, control) = controlled_device(64 << 20);
    let database = database(device, SCALE);
    let plans = plans_of(&database.read());
    for plan in plans {
        let requests = plan.estimate.request_count();
        for request in [1, requests / 2, requests * 9 / 10] {
            let request = request.min(late_request(&plan, requests));
            database.drop_cached_pages().unwrap();
            control.stop.store(false, Ordering::Relaxed);
            control.stopping_request.store(request.max(1), Ordering::Relaxed);
            let tables = database.read();
            let error = run(&tables, &plan, Arc::clone(&control.stop));
            assert_eq!(error, Err(QueryError::Cancelled), "{} at {request}", plan.kind);
            drop(tables);
            assert_usable(&database, &plan);
        }
    }
}
