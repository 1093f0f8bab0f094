//! Many clients over one simulated drive: they overlap, and a run is the same bits each time.

#![allow(clippy::unwrap_used, reason = "a test whose database cannot be made has failed")]

use nandu_base::{ByteCount, Nanos};
use nandu_bench::ycsb::{KeyChoice, WorkloadKind, Ycsb};
use nandu_bench::{Clock, Load, Outcome, Plan, Watch, run};
use nandu_drives::profile::{Profile, SimOptions};
use nandu_storage::database::Isolation;
use nandu_storage::engine::Settings;
use nandu_storage::pool::ReplacementKind;
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Database, Volumes};
use nandu_workers::SwitchKind;
use std::sync::Arc;

const RECORDS: u64 = 6000;

fn settings(pool_bytes: u64) -> Settings {
    Settings { pool_bytes, log_bytes: 8 << 20, checkpoint_bytes: 2 << 20, ..Settings::default() }
}

fn database(ycsb: &Ycsb, settings: &Settings) -> Database {
    let profile = Profile::load("nvme-tlc-2024").unwrap();
    let capacity = Some(ByteCount::mib(256));
    let drive = profile.open(SimOptions { capacity, seed: 1, keep_data: true }).unwrap();
    let volume = DeviceVolume::format(drive).unwrap();
    let volumes = Volumes::new(Box::new(volume), None);
    let database = Database::create(volumes, settings, 7).unwrap();
    ycsb.load(&database, |_| true).unwrap();
    database.drop_cached_pages().unwrap();
    database
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
