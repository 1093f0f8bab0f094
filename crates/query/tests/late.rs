//! Joins over tables in PAX pages: estimated requests and pages beside those of a run, for all of a table's rows
//! and for few, with all columns and with few; and what a damaged page and a user who stops come to.
//!
//! 1. Pages and requests are within 2 %, or within what chance decides: where buckets, runs and batches end, and which
//!    PAX pages have a row: one and a half deviations, and ten.
//! 2. Where something spills, pairs come bucket by bucket, and batches meet pages by chance: 8 %. In a sort a run more
//!    or less changes the block of each: a quarter of the requests.
//! 3. A late join whose kernel builds the larger side and spills is not compared: each pair of buckets decides anew
//!    which side it builds, and is skipped where one is empty.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{
    controlled_device, count_pairs, execution_on, limits, memory_device, plans_in,
};
use nandu_base::{Permutation, to_u32};
use nandu_device::Device;
use nandu_query::join::{Join, JoinInput, JoinType};
use nandu_query::plan::{ChunkRule, Division, Indexes, JoinQuestion, JoinSide, Plan};
use nandu_query::relation::PaxRelation;
use nandu_query::{JoinKind, Key, QueryError, Relation};
use nandu_storage::database::{
    Column, ColumnType, Database, LoadOptions, NewTable, TableKind, Tables, WriteTransaction,
};
use nandu_storage::sqlite::ValueRef;
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Settings, StorageError, Volumes};
use std::sync::atomic::Ordering;

const PAGE_BYTES: u32 = 4096;
const CUSTOMER_COUNT: u64 = 4000;
const ORDERS_EACH: u64 = 10;
/// Customers of the tables `customer_N`.
const PARTS: [u64; 4] = [4000, 200, 12, 1];
const PAD_BYTES: usize = 100;

/// Customers, or some of them, and all orders: a key, filling, and a date.
fn database(device: Box<dyn Device + Send>) -> Database {
    let data = Box::new(DeviceVolume::format(device).unwrap());
    let settings = Settings {
        page_bytes: PAGE_BYTES,
        pool_bytes: u64::from(PAGE_BYTES) * crate::common::POOL_PAGES,
        log_bytes: 4 << 20,
        checkpoint_bytes: 256 << 10,
        ..Settings::default()
    };
    let database = Database::create(Volumes::new(data, None), &settings, 1).unwrap();
    let mut writing = database.write().unwrap();
    for count in PARTS {
        load(&mut writing, &format!("customer_{count}"), count);
    }
    load(&mut writing, "orders", CUSTOMER_COUNT * ORDERS_EACH);
    writing.commit().unwrap();
    database.flush().unwrap();
    database
}

fn load(tables: &mut WriteTransaction<'_>, name: &str, count: u64) {
    let kinds = [ColumnType::Integer, ColumnType::Blob, ColumnType::Integer];
    let columns = ["key", "pad", "date"].into_iter().zip(kinds);
    let table = NewTable {
        name: name.to_owned(),
        columns: columns.map(|(name, kind)| Column::new(name, kind)).collect(),
        kind: TableKind::Pax { span_pages: 16 },
        indexes: Vec::new(),
    };
    // Some customers are any of them.
    let all = count.max(CUSTOMER_COUNT);
    let order = Permutation::new(all, 7 + all);
    let pad = [7; PAD_BYTES];
    let loaded = tables.load_table(&table, &LoadOptions::default(), |load| {
        for row in 0..count {
            let key = 1_000_000 + i64::from(to_u32(order.apply(row) % CUSTOMER_COUNT));
            let date = ValueRef::Integer(i64::from(to_u32(row)) % 30_000);
            load.push(&[ValueRef::Integer(key), ValueRef::Blob(&pad), date])?;
        }
        Ok::<_, StorageError>(())
    });
    loaded.unwrap();
}

/// Both sides, opened.
struct Inputs<'t> {
    sides: [PaxRelation<'t>; 2],
    key: Key,
}

impl<'t> Inputs<'t> {
    fn open(tables: &'t Tables, customer_count: u64, columns: Option<&[usize]>) -> Self {
        let key = Key::of(&[0]);
        let customers = format!("customer_{customer_count}");
        let open = |name: &str| PaxRelation::open(tables, name, &key, columns).unwrap();
        Self { sides: [open(&customers), open("orders")], key }
    }

    fn join(&self) -> Join<'_> {
        let input = |side: usize| JoinInput { relation: &self.sides[side], key: &self.key };
        Join { left: input(0), right: input(1), join_type: JoinType::Inner }
    }

    fn question(&self) -> JoinQuestion {
        let page_bytes = u64::from(PAGE_BYTES);
        let side = |it: &PaxRelation<'_>| JoinSide::of(it, page_bytes);
        JoinQuestion::new(side(&self.sides[0]), side(&self.sides[1]), ORDERS_EACH)
    }
}

/// Whether the kernel of a plan, or the join itself, spills.
fn spills(plan: &Plan) -> bool {
    match plan.division {
        Division::FlashJoin(parts) => parts.kernel.bucket_count > 0,
        _ => plan.estimate.pages_written > 0,
    }
}

#[test]
fn joins_over_pax_pages_read_and_write_as_much_as_estimated() {
    let database = database(memory_device(64 << 20));
    let tables = database.read();
    let (mut wrong, mut late_count) = (Vec::new(), 0);
    for (customer_count, columns) in
        PARTS[..3].iter().copied().flat_map(|count| [(count, None), (count, Some(&[2_usize][..]))])
    {
        let inputs = Inputs::open(&tables, customer_count, columns);
        for (memory_pages, reads_ahead) in
            [90, 150, 400, 1500].into_iter().flat_map(|pages| [(pages, false), (pages, true)])
        {
            for plan in plans_in(&inputs.question(), memory_pages, reads_ahead) {
                let is_late = matches!(plan.kind, JoinKind::FlashJoin | JoinKind::RareJoin);
                let is_left_out = is_late && plan.is_swapped && spills(&plan);
                if plan.kind == JoinKind::NestedLoops || is_left_out {
                    continue;
                }
                let execution =
                    execution_on(&tables, limits(PAGE_BYTES, memory_pages, reads_ahead));
                let mut stream = plan
                    .open(&execution, inputs.join(), Indexes::NONE, ChunkRule::ByBytes)
                    .unwrap();
                let pairs = count_pairs(stream.as_mut()).unwrap();
                assert_eq!(pairs, customer_count * ORDERS_EACH);
                drop(stream);
                execution.audit();
                late_count += u64::from(is_late);
                let (counts, estimate) = (execution.io_counts(), plan.estimate);
                for (what, actual, estimated) in [
                    ("requests", counts.read_requests, estimate.read_requests),
                    ("pages", counts.read_bytes / u64::from(PAGE_BYTES), estimate.pages_read),
                    (
                        "pages written",
                        counts.write_bytes / u64::from(PAGE_BYTES),
                        estimate.pages_written,
                    ),
                ] {
                    let percent = match (spills(&plan), plan.kind) {
                        (true, JoinKind::RareJoin) if what == "requests" => 25,
                        (true, _) => 8,
                        (false, _) => 2,
                    };
                    let chance = 10 + actual.isqrt() * 3 / 2;
                    if actual.abs_diff(estimated) > actual * percent / 100 + chance {
                        wrong.push(format!(
                            "{} (swapped: {}) of {customer_count} by {columns:?} in {memory_pages} \
                             pages, ahead: {reads_ahead}: {actual} {what}, estimated {estimated}",
                            plan.kind, plan.is_swapped
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(late_count >= 60, "{late_count} runs of joins that fetch late");
}

#[test]
fn few_rows_of_few_columns_are_read_without_the_rest() {
    let database = database(memory_device(64 << 20));
    let tables = database.read();
    let inputs = Inputs::open(&tables, 1, Some(&[1]));
    let whole: u64 = inputs.sides.iter().map(|side| side.size().page_count).sum();
    let plans = plans_in(&inputs.question(), 150, true);
    let best = plans.first().unwrap();
    assert!(matches!(best.kind, JoinKind::FlashJoin | JoinKind::RareJoin), "{}", best.kind);
    assert!(best.estimate.pages_read * 2 < whole, "of {whole} pages {best:?}");
}

#[test]
fn a_damaged_page_and_a_user_who_stops_end_a_join_that_fetches_late() {
    let (device, control) = controlled_device(64 << 20);
    let database = database(device);
    let tables = database.read();
    let inputs = Inputs::open(&tables, 200, None);
    let plans = plans_in(&inputs.question(), 60, true);
    let is_late = |plan: &&Plan| matches!(plan.kind, JoinKind::FlashJoin | JoinKind::RareJoin);
    for plan in plans.iter().filter(is_late) {
        let run = || {
            let mut execution = execution_on(&tables, limits(PAGE_BYTES, 60, true));
            let result = plan
                .open(&execution, inputs.join(), Indexes::NONE, ChunkRule::ByBytes)
                .and_then(|mut stream| count_pairs(stream.as_mut()));
            assert_eq!(execution.free_pages(), 60, "all memory came back");
            let requests = execution.io_counts().read_requests;
            execution.audit();
            drop(std::mem::replace(
                &mut execution,
                execution_on(&tables, limits(PAGE_BYTES, 60, true)),
            ));
            (result, requests)
        };
        let (whole, requests) = run();
        assert_eq!(whole.unwrap(), 2000);
        let mut damaged_count = 0;
        for read in (1..=requests).step_by(nandu_base::to_index(requests / 40 + 1)) {
            control.damaged_read.store(read, Ordering::Relaxed);
            let (result, _) = run();
            control.damaged_read.store(0, Ordering::Relaxed);
            match result {
                Err(QueryError::Storage(StorageError::ChecksumMismatch { .. })) => {
                    damaged_count += 1;
                }
                // Gaps between what is wanted are not looked at; what was spilled has a sum of its own.
                Err(QueryError::Storage(StorageError::Corrupt { .. })) | Ok(2000) => {}
                other => panic!("{}: read {read} of {requests}: {other:?}", plan.kind),
            }
        }
        assert!(damaged_count > 10, "{}: {damaged_count} of {requests}", plan.kind);
        let files = tables.engine().files().len();
        assert_eq!(files, 1 + PARTS.len() + 1, "no spill file is left");
    }
}
