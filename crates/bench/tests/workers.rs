//! Many clients over one simulated drive: they overlap, and a run is the same bits each time.

#![allow(clippy::unwrap_used, reason = "a test whose database cannot be made has failed")]

use nandu_base::{ByteCount, Nanos};
use nandu_bench::tpox::{TpoxCounts, TpoxRun};
use nandu_bench::ycsb::{KeyChoice, WorkloadKind, Ycsb};
use nandu_bench::{Clock, Load, Outcome, Plan, Watch, run};
use nandu_drives::profile::{Profile, SimOptions};
use nandu_load::{Tpox, TpoxCollection};
use nandu_storage::database::Isolation;
use nandu_storage::engine::Settings;
use nandu_storage::pool::ReplacementKind;
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Database, Volumes};
use nandu_workers::SwitchKind;
use nandu_xml::{ClassId, Document, LockSettings, MappingKind, check};
use std::sync::Arc;

const RECORDS: u64 = 6000;

fn settings(pool_bytes: u64) -> Settings {
    Settings { pool_bytes, log_bytes: 8 << 20, checkpoint_bytes: 2 << 20, ..Settings::default() }
}

fn database(ycsb: &Ycsb, settings: &Settings) -> Database {
    let database = empty_database(settings);
    ycsb.load(&database, |_| true).unwrap();
    database.drop_cached_pages().unwrap();
    database
}

fn empty_database(settings: &Settings) -> Database {
    let profile = Profile::load("nvme-tlc-2024").unwrap();
    let capacity = Some(ByteCount::mib(256));
    let drive = profile.open(SimOptions { capacity, seed: 1, keep_data: true }).unwrap();
    let volume = DeviceVolume::format(drive).unwrap();
    let volumes = Volumes::new(Box::new(volume), None);
    Database::create(volumes, settings, 7).unwrap()
}

fn outcome(ycsb: &Ycsb, pool_bytes: u64, plan: &Plan) -> Outcome {
    outcome_with(ycsb, &settings(pool_bytes), plan)
}

fn outcome_with(ycsb: &Ycsb, settings: &Settings, plan: &Plan) -> Outcome {
    let database = database(ycsb, settings);
    let load: Arc<dyn Load> = Arc::new(ycsb.start());
    let clock: Clock = Arc::new(|| unreachable!("the drive has its own clock"));
    let outcome = run(&database, &load, plan, &Arc::new(Watch::default()), &clock).unwrap();
    let report = database.read().check().unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    database.close().unwrap();
    outcome
}

fn ycsb(workload: WorkloadKind) -> Ycsb {
    let key_choice = workload.key_choice();
    let isolation = Isolation::default();
    Ycsb { workload, key_choice, record_count: RECORDS, field_bytes: 100, isolation, seed: 5 }
}

fn plan(client_count: u32) -> Plan {
    Plan {
        operation_count: 1200,
        client_count,
        core_count: client_count,
        processor_time: Nanos::ZERO,
        think_time: Nanos::ZERO,
        switch_kind: SwitchKind::Coroutines,
    }
}

#[test]
fn every_workload_gives_the_same_history_by_both_ways_to_switch() {
    for workload in WorkloadKind::ALL {
        let plan = plan(6);
        let first = outcome(&ycsb(workload), 1 << 20, &plan);
        let again = outcome(&ycsb(workload), 1 << 20, &plan);
        let baton = Plan { switch_kind: SwitchKind::Baton, ..plan };
        let baton = outcome(&ycsb(workload), 1 << 20, &baton);
        assert_eq!(first.operation_count, 1200);
        assert_eq!(first.history, again.history, "{workload:?} again");
        assert_eq!(first.history, baton.history, "{workload:?} by threads");
        let other_seed = Ycsb { seed: 6, ..ycsb(workload) };
        assert_ne!(first.history, outcome(&other_seed, 1 << 20, &plan).history);
    }
}

#[test]
fn lookups_of_several_clients_wait_for_the_drive_together() {
    let uniform = Ycsb { key_choice: KeyChoice::Uniform, ..ycsb(WorkloadKind::C) };
    let rate = |clients| outcome(&uniform, 1 << 20, &plan(clients)).operations_per_second;
    let (one, four, sixteen) = (rate(1), rate(4), rate(16));
    assert!(four > 3.5 * one, "{four} of 4 clients, {one} of one");
    assert!(sixteen > 9.0 * one, "{sixteen} of 16 clients, {one} of one");
}

#[test]
fn cores_bound_what_many_clients_do() {
    let uniform = Ycsb { key_choice: KeyChoice::Uniform, ..ycsb(WorkloadKind::C) };
    let processor_time = Nanos(50_000);
    let on = |core_count| Plan { core_count, processor_time, ..plan(16) };
    let rate = |cores| outcome(&uniform, 1 << 20, &on(cores)).operations_per_second;
    let (one, four) = (rate(1), rate(4));
    assert!((15_000.0..20_001.0).contains(&one), "one core does 20,000 a second at most: {one}");
    assert!(four > 3.0 * one && four <= 80_001.0, "{four} of four cores");
}

#[test]
fn a_client_that_thinks_is_due_after_it_thought() {
    let thinking = Plan { think_time: Nanos::from_millis(10), ..plan(2) };
    let outcome = outcome(&ycsb(WorkloadKind::B), 64 << 20, &thinking);
    assert!(outcome.elapsed_ns >= 599 * 10_000_000);
    let read = &outcome.operations[0];
    assert!(read.latency_ns.p50 < 1_000_000, "thinking is no part of a latency: {read:?}");
}

#[test]
fn more_clients_than_frames_and_reader_slots_wait_for_each_other() {
    let uniform = Ycsb { key_choice: KeyChoice::Uniform, ..ycsb(WorkloadKind::B) };
    let crowd = plan(150);
    for replacement in [ReplacementKind::Lru, ReplacementKind::default()] {
        let settings = Settings { replacement, pool_bytes: 512 << 10, ..settings(1 << 20) };
        let outcome = outcome_with(&uniform, &settings, &crowd);
        assert_eq!(outcome.operation_count, 1200, "{replacement:?}");
    }
}

/// How many nodes of a path a document has, as its catalogue counts; the document is sound.
fn count_of(database: &Database, name: &str, path: &str) -> u64 {
    let read = database.read();
    let document = Document::open(&read, name).unwrap();
    let found = check(&read, &document).unwrap();
    assert!(found.findings.is_empty(), "{:?}", found.findings);
    let classes = document.synopsis().classes();
    let numbers = (0_u32..).zip(classes);
    let mut named = numbers.filter(|&(number, _)| document.path_of(ClassId(number)) == path);
    named.next().unwrap().1.node_count
}

const ORDERS: [&str; 2] = ["order", "/order/FIXML"];
const ACCOUNTS: [&str; 2] = ["custacc", "/custacc/Customer/Accounts/Account"];

/// Runs a mix, and holds the documents against what was done.
fn mix_of(mapping: MappingKind, write_percent: u8, plan: &Plan) -> (Outcome, TpoxCounts) {
    let apart = (Isolation::default(), LockSettings::default());
    mix_with(mapping, write_percent, plan, apart)
}

/// The same, with other locks.
fn mix_with(
    mapping: MappingKind,
    write_percent: u8,
    plan: &Plan,
    (isolation, locks): (Isolation, LockSettings),
) -> (Outcome, TpoxCounts) {
    let database = empty_database(&settings(512 << 10));
    let tpox = Tpox::new(60_000, 3).unwrap();
    let mix = TpoxRun { tpox, mapping, write_percent, isolation, locks, seed: 9, new_from: 0 };
    mix.load(&database, &mut ()).unwrap().unwrap();
    database.drop_cached_pages().unwrap();
    let counted = || [ORDERS, ACCOUNTS].map(|[name, path]| count_of(&database, name, path));
    let before = counted();
    assert_eq!(before[0], tpox.count(TpoxCollection::Order));
    let clock: Clock = Arc::new(|| unreachable!("the drive has its own clock"));
    let watch = Arc::new(Watch::default());
    let load = mix.start();
    let shared: Arc<dyn Load> = Arc::new(Arc::clone(&load));
    let outcome = run(&database, &shared, plan, &watch, &clock).unwrap();
    let done = |kind: &str| {
        let found = outcome.operations.iter().find(|it| it.kind.starts_with(kind));
        found.map_or(0, |it| it.latency_ns.count)
    };
    let after = counted();
    assert_eq!(after, [before[0] + done("wq2"), before[1] + done("wq1")]);
    count_of(&database, "security", "/security/Security");
    // A second run makes others.
    let second: Arc<dyn Load> = Arc::new(TpoxRun { new_from: plan.operation_count, ..mix }.start());
    run(&database, &second, &Plan { operation_count: 20, ..*plan }, &watch, &clock).unwrap();
    let counts = load.counts();
    assert_eq!(counts.write_transaction_count, done("wq1") + done("wq2") + done("wq3"));
    assert!(database.read().check().unwrap().findings.is_empty());
    (outcome, counts)
}

#[test]
fn the_mix_of_tpox_has_the_same_answers_in_every_mapping() {
    let of = |mapping, percent, count| {
        let plan = Plan { operation_count: count, ..plan(1) };
        mix_of(mapping, percent, &plan)
    };
    let (outcome, first) = of(MappingKind::Full, 30, 120);
    assert_eq!(outcome.operations.len(), 8, "each kind came");
    assert!(first.answer_bytes > 100_000, "{first:?}");
    assert!(outcome.pool_miss_count > 0 && outcome.write_count > 0, "{outcome:?}");
    for mapping in [MappingKind::Prefix, MappingKind::Elementless] {
        let (_, counts) = of(mapping, 30, 120);
        assert_eq!(counts, first, "{mapping:?}");
    }
    let (readers, counts) = of(MappingKind::Elementless, 0, 60);
    assert_eq!((readers.log_bytes, counts.write_transaction_count), (0, 0));
}

#[test]
fn writers_of_one_document_wait_for_each_other_and_lose_nothing() {
    let plan = Plan { operation_count: 240, ..plan(6) };
    let whole = LockSettings { depth: 0, ..LockSettings::default() };
    for locks in [LockSettings::default(), whole, LockSettings { escalate_at: 3, ..whole }] {
        for isolation in Isolation::ALL {
            let run = || mix_with(MappingKind::Elementless, 90, &plan, (isolation, locks));
            let (first, counts) = run();
            if isolation == Isolation::Serializable && locks.depth == 0 {
                assert_eq!(counts.retries.retry_count, 0, "{counts:?}");
            }
            let (again, same) = run();
            assert_eq!((first.history, counts), (again.history, same));
        }
    }
}
