//! TPC-C: the same bits each time on a simulated drive, and the conditions afterwards.
//!
//! Districts have 40 customers and warehouses 500 items, so that tests are short; all else is TPC-C's.

#![allow(clippy::unwrap_used, reason = "a test whose database cannot be made has failed")]

use nandu_base::{ByteCount, Nanos};
use nandu_bench::tpcc::{
    CustomerChoice, Input, KINDS, LineInput, Terminal, TpccCounts, TpccRun, TransactionKind,
    execute,
};
use nandu_bench::{BenchError, Client, Clock, Load, Outcome, Plan, SwitchKind, Watch, run};
use nandu_drives::profile::{Profile, SimOptions};
use nandu_load::tpcc::{DISTRICT_COUNT, check};
use nandu_load::{LoadOptions, Tpcc, TpccScale, TpccTable};
use nandu_storage::database::Isolation;
use nandu_storage::engine::Settings;
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Database, Volumes};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

const SMALL: TpccScale = TpccScale { item_count: 500, customer_count: 40 };

fn small(warehouse_count: u32) -> Tpcc {
    Tpcc::with_scale(warehouse_count, SMALL, 11).unwrap()
}

fn mix(warehouse_count: u32) -> TpccRun {
    TpccRun {
        tpcc: small(warehouse_count),
        isolation: Isolation::default(),
        has_pauses: false,
        server_count: 2,
        seed: 5,
    }
}

fn plan(client_count: u32, operation_count: u64) -> Plan {
    Plan {
        operation_count,
        client_count,
        core_count: client_count,
        processor_time: Nanos::ZERO,
        think_time: Nanos::ZERO,
        switch_kind: SwitchKind::Coroutines,
    }
}

/// Tables on a simulated drive, none of their pages in memory.
fn loaded(tpcc: &Tpcc) -> Database {
    let profile = Profile::load("nvme-tlc-2024").unwrap();
    let capacity = Some(ByteCount::mib(256));
    let drive = profile.open(SimOptions { capacity, seed: 1, keep_data: true }).unwrap();
    let volume = DeviceVolume::format(drive).unwrap();
    let (pool_bytes, log_bytes, checkpoint_bytes) = (1 << 20, 8 << 20, 2 << 20);
    let settings = Settings { pool_bytes, log_bytes, checkpoint_bytes, ..Settings::default() };
    let database = Database::create(Volumes::new(Box::new(volume), None), &settings, 7).unwrap();
    tpcc.store(&database, &LoadOptions::default(), &mut ()).unwrap();
    database.drop_cached_pages().unwrap();
    database
}

fn run_all(database: &Database, load: &Arc<dyn Load>, plan: &Plan) -> Outcome {
    let clock: Clock = Arc::new(|| unreachable!("the drive has its own clock"));
    run(database, load, plan, &Arc::new(Watch::default()), &clock).unwrap()
}

/// The tables are sound, all conditions hold, and there are as many orders as were made.
fn check_all(database: &Database, tpcc: &Tpcc, counts: &TpccCounts) {
    let found = check(&database.read()).unwrap();
    assert!(found.is_sound(), "{:?}", found.broken().collect::<Vec<_>>());
    let report = database.read().check().unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let orders = row_count(database, TpccTable::Orders);
    assert_eq!(orders, tpcc.row_count(TpccTable::Orders) + counts.new_order_count);
    let left = row_count(database, TpccTable::NewOrder) + counts.delivered_order_count;
    assert_eq!(left, tpcc.row_count(TpccTable::NewOrder) + counts.new_order_count);
}

/// Runs a mix on a simulated drive, and checks what it leaves.
fn outcome(mix: &TpccRun, plan: &Plan) -> (Outcome, TpccCounts) {
    let database = loaded(&mix.tpcc);
    let load = mix.start();
    let shared: Arc<dyn Load> = Arc::new(Arc::clone(&load));
    let outcome = run_all(&database, &shared, plan);
    let counts = load.counts();
    check_all(&database, &mix.tpcc, &counts);
    (outcome, counts)
}

fn row_count(database: &Database, table: TpccTable) -> u64 {
    let stats = database.read().stat().unwrap();
    stats.iter().find(|stat| stat.name == table.name()).unwrap().row_count
}

fn count_of(outcome: &Outcome, kind: &str) -> u64 {
    let found = outcome.operations.iter().find(|operation| operation.kind == kind);
    found.map_or(0, |operation| operation.latency_ns.count)
}

#[test]
fn many_clients_leave_consistent_tables_and_the_same_history_each_time() {
    for isolation in Isolation::ALL {
        let (mix, plan) = (TpccRun { isolation, ..mix(2) }, plan(8, 1600));
        let (first, counts) = outcome(&mix, &plan);
        let (again, same) = outcome(&mix, &plan);
        assert_eq!((&first.history, counts), (&again.history, same));
        let by_threads = Plan { switch_kind: SwitchKind::Baton, ..plan };
        let (baton, same) = outcome(&mix, &by_threads);
        assert_eq!((&first.history, counts), (&baton.history, same));
        let (other, _) = outcome(&TpccRun { seed: 6, ..mix }, &plan);
        assert_ne!(first.history, other.history);
        // Two decks for each client.
        let wanted = [("new_order", 720), ("payment", 688), ("order_status", 64)];
        for (kind, count) in wanted.into_iter().chain([("delivery", 64), ("stock_level", 64)]) {
            assert_eq!(count_of(&first, kind), count, "{kind}");
        }
        assert_eq!(count_of(&first, "delivery_deferred"), 64);
        assert_eq!(counts.new_order_count + counts.rolled_back_count, 720);
        assert!((1..25).contains(&counts.rolled_back_count), "{counts:?}");
        assert!(counts.remote_order_count > 20 && counts.remote_payment_count > 60, "{counts:?}");
        if isolation == Isolation::Serializable {
            assert_eq!(counts.retries.retry_count, 0, "locks are taken in one order: {counts:?}");
        }
    }
}

/// Clients that deliver three times for each new order, so that districts run out of these.
struct Hungry {
    tpcc: Tpcc,
    counts: Mutex<TpccCounts>,
}

struct HungryClient {
    load: Arc<Hungry>,
    terminal: Terminal,
    done_count: u32,
}

/// All clients have the same.
struct HungryLoad(Arc<Hungry>);

impl Load for HungryLoad {
    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn client(&self, number: u32) -> Box<dyn Client> {
        let terminal = Terminal::new(&self.0.tpcc, number, 1);
        Box::new(HungryClient { load: Arc::clone(&self.0), terminal, done_count: 0 })
    }
}

impl Client for HungryClient {
    fn operate(&mut self, database: &Database, _due: Nanos) -> Result<usize, BenchError> {
        self.done_count += 1;
        let wanted = match self.done_count % 4 {
            0 => TransactionKind::NewOrder,
            _ => TransactionKind::Delivery,
        };
        let mut inputs = std::iter::repeat_with(|| self.terminal.next_input(1));
        let input = inputs.find(|input| input.kind() == wanted).unwrap();
        let mut counts = TpccCounts::default();
        execute(database, Isolation::Serializable, &input, &mut counts)?;
        let mut sum = self.load.counts.lock().unwrap();
        sum.new_order_count += counts.new_order_count;
        sum.delivered_order_count += counts.delivered_order_count;
        sum.skipped_district_count += counts.skipped_district_count;
        Ok(wanted as usize)
    }
}

#[test]
fn districts_that_run_out_of_orders_are_skipped_and_nothing_is_lost() {
    let database = loaded(&small(1));
    let load = Arc::new(Hungry { tpcc: small(1), counts: Mutex::default() });
    let shared: Arc<dyn Load> = Arc::new(HungryLoad(Arc::clone(&load)));
    run_all(&database, &shared, &plan(7, 560));
    let counts = *load.counts.lock().unwrap();
    check_all(&database, &small(1), &counts);
    assert!(counts.skipped_district_count > 1000, "{counts:?}");
    let visited = counts.delivered_order_count + counts.skipped_district_count;
    assert_eq!(visited, 420 * u64::from(DISTRICT_COUNT));
}

#[test]
fn clients_without_servers_deliver_themselves() {
    let mix = TpccRun { server_count: 0, ..mix(1) };
    let (outcome, counts) = outcome(&mix, &plan(3, 300));
    assert_eq!((count_of(&outcome, "delivery"), counts.undeferred_count), (12, 12));
    assert_eq!(count_of(&outcome, "delivery_deferred"), 0);
}

#[test]
fn users_who_type_and_think_do_as_much_as_the_specification_lets_them() {
    let mix = TpccRun { has_pauses: true, ..mix(1) };
    let (outcome, _) = outcome(&mix, &plan(10, 1000));
    // A cycle takes 21 s in the mean: 18 + 12 of a new order, 3 + 12 of a payment and so on.
    let seconds = outcome.elapsed_ns as f64 / 1e9 / 100.0;
    assert!((18.0..26.0).contains(&seconds), "{seconds} s for a cycle");
    let order = &outcome.operations[0];
    assert!(order.latency_ns.p50 < 100_000_000, "pauses are no part of a latency: {order:?}");
}

#[test]
fn a_terminal_draws_what_the_specification_says() {
    let tpcc = small(4);
    let mut terminal = Terminal::new(&tpcc, 6, 1);
    let (mut lines, mut remote_lines, mut orders, mut wrong) = (0_u32, 0_u32, 0_u32, 0_u32);
    let (mut payments, mut remote, mut by_name) = (0_u32, 0_u32, 0_u32);
    let mut kinds = [0_u32; KINDS.len()];
    let mut districts = BTreeSet::new();
    for number in 0..20_000 {
        let input = terminal.next_input(number);
        kinds[input.kind() as usize] += 1;
        match input {
            Input::NewOrder(order) => {
                orders += 1;
                assert_eq!((order.warehouse, order.moment_us), (3, number));
                assert!((5..=15).contains(&order.lines.len()));
                districts.insert(order.district);
                lines += u32::try_from(order.lines.len()).unwrap();
                let is_remote = |line: &&LineInput| line.supply_warehouse != 3;
                remote_lines +=
                    u32::try_from(order.lines.iter().filter(is_remote).count()).unwrap();
                let (last, others) = order.lines.split_last().unwrap();
                assert!(others.iter().all(|line| (1..=500).contains(&line.item)));
                assert!(order.lines.iter().all(|line| (1..=10).contains(&line.quantity)));
                wrong += u32::from(last.item == 501);
            }
            Input::Payment(payment) => {
                payments += 1;
                remote += u32::from(payment.customer_warehouse != 3);
                by_name += u32::from(matches!(payment.customer, CustomerChoice::LastName(_)));
                assert!((100..=500_000).contains(&payment.amount_cents));
            }
            Input::StockLevel(level) => {
                assert_eq!((level.warehouse, level.district), (3, 2));
                assert!((10..=20).contains(&level.threshold));
            }
            Input::Delivery(delivery) => assert!((1..=10).contains(&delivery.carrier)),
            Input::OrderStatus(_) => {}
        }
    }
    assert_eq!(kinds[..5], [9000, 8600, 800, 800, 800]);
    assert_eq!(districts.len(), 10);
    let near = |part: u32, whole: u32, percent: f64, error: f64| {
        let found = 100.0 * f64::from(part) / f64::from(whole);
        assert!((found - percent).abs() < error, "{found} % and not {percent} %");
    };
    near(remote_lines, lines, 1.0, 0.2);
    near(wrong, orders, 1.0, 0.4);
    near(remote, payments, 15.0, 1.5);
    near(by_name, payments, 60.0, 2.0);
    let cards: usize = TransactionKind::DECK.iter().map(|(_, count)| count).sum();
    assert_eq!(cards, 100);
}
