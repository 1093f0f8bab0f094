//! Clients at work: each is a terminal with a session of its own, on a thread of its own.
//!
//! 1. Clients share a count of transactions: when it is used up, the phase ends.
//! 2. The clock of inputs is their number, so that one client asks the same, whoever answers.
//! 3. With one client what the terminal shows is summed up.

use super::contender::{Session, Store};
use crate::Failure;
use crate::measure::{micros, percentile};
use nandu_base::to_u32;
use nandu_bench::tpcc::{KINDS, Output, Terminal};
use nandu_load::Tpcc;
use nandu_load::tpcc::LOAD_MOMENT_US;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Kinds of transaction.
const KIND_COUNT: usize = 5;
const PERCENTS: [u64; 3] = [50, 95, 99];

/// What clients are to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) tpcc: Tpcc,
    pub(super) client_count: u32,
    /// Transactions before the clock runs.
    pub(super) warm_up_count: u64,
    /// Transactions that are measured.
    pub(super) transaction_count: u64,
    pub(super) seed: u64,
}

/// What clients did.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Done {
    /// Orders that were committed, those of the warm-up, too.
    pub(super) order_count: u64,
    /// By name; the unit is the end of the name.
    pub(super) figures: BTreeMap<String, f64>,
    /// Of all that the terminal of one client showed.
    pub(super) digest: u64,
}

struct Client<'s> {
    terminal: Terminal,
    session: Box<dyn Session + 's>,
    input_count: u64,
    digest: Option<u64>,
    /// Of the phase under way.
    latencies_us: [Vec<f64>; KIND_COUNT],
    order_count: u64,
    rolled_back_count: u64,
}

impl Client<'_> {
    /// Works until `left` is used up.
    fn work(&mut self, left: &AtomicU64) -> Result<(), Failure> {
        let take = || {
            let less = |left: u64| left.checked_sub(1);
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
        };
        while take() {
            self.input_count += 1;
            let moment_us = LOAD_MOMENT_US + 1000 * self.input_count.cast_signed();
            let input = self.terminal.next_input(moment_us);
            let started = Instant::now();
            let output = self.session.execute(&input)?;
            self.latencies_us[input.kind() as usize].push(micros(started.elapsed()));
            if let Output::NewOrder(order) = &output {
                let count = match order.is_rolled_back {
                    true => &mut self.rolled_back_count,
                    false => &mut self.order_count,
                };
                *count += 1;
            }
            if let Some(digest) = &mut self.digest {
                *digest = sum_up(*digest, &shown(&output));
            }
        }
        Ok(())
    }
}

/// What a terminal shows. Of an order that is rolled back that is its number and the customer
/// (clause 2.4.3.4).
pub(super) fn shown(output: &Output) -> String {
    match output {
        Output::NewOrder(order) if order.is_rolled_back => {
            format!("{} {} {}", order.order, order.customer_last, order.customer_credit)
        }
        output => format!("{output:?}"),
    }
}

/// A sum of texts by FNV-1a, in their order.
fn sum_up(digest: u64, text: &str) -> u64 {
    const PRIME: u64 = 0x0100_0000_01b3;
    text.bytes().fold(digest, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// Has clients work on a store.
///
/// # Errors
/// If the engine fails one of them.
pub(super) fn work(store: &dyn Store, work: &Work) -> Result<Done, Failure> {
    let mut clients = Vec::new();
    for number in 0..work.client_count {
        clients.push(Client {
            terminal: Terminal::new(&work.tpcc, number, work.seed),
            session: store.session(number)?,
            input_count: 0,
            digest: (work.client_count == 1).then_some(0),
            latencies_us: Default::default(),
            order_count: 0,
            rolled_back_count: 0,
        });
    }
    phase(&mut clients, work.warm_up_count)?;
    let warm_count: u64 = clients.iter().map(|it| it.order_count).sum();
    let retry_count = |clients: &[Client<'_>]| -> u64 {
        clients.iter().map(|client| client.session.retry_count()).sum()
    };
    let warm_retry_count = retry_count(&clients);
    for client in &mut clients {
        client.latencies_us = Default::default();
        (client.order_count, client.rolled_back_count) = (0, 0);
    }
    let started = Instant::now();
    phase(&mut clients, work.transaction_count)?;
    let seconds = started.elapsed().as_secs_f64();
    let order_count: u64 = clients.iter().map(|it| it.order_count).sum();
    let rolled_back_count: u64 = clients.iter().map(|it| it.rolled_back_count).sum();
    let float = crate::measure::as_float;
    let mut figures = latencies(&mut clients);
    for (name, value) in [
        ("tpmc", float(order_count) * 60.0 / seconds),
        ("transactions_per_s", float(work.transaction_count) / seconds),
        ("measured_s", seconds),
        ("retries", float(retry_count(&clients) - warm_retry_count)),
        ("orders", float(order_count)),
        ("rolled_back", float(rolled_back_count)),
    ] {
        figures.insert(name.to_owned(), value);
    }
    let digest = clients.first().and_then(|client| client.digest).unwrap_or_default();
    Ok(Done { order_count: warm_count + order_count, figures, digest })
}

/// Percentiles by kind, of all clients.
fn latencies(clients: &mut [Client<'_>]) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    for (kind, name) in KINDS.iter().enumerate().take(KIND_COUNT) {
        let lists = clients.iter_mut().map(|client| std::mem::take(&mut client.latencies_us[kind]));
        let mut values: Vec<f64> = lists.flatten().collect();
        if values.is_empty() {
            continue;
        }
        for percent in PERCENTS {
            figures.insert(format!("{name}_p{percent}_us"), percentile(&mut values, percent));
        }
    }
    figures
}

/// All clients at once, until so many transactions are done.
fn phase(clients: &mut [Client<'_>], transaction_count: u64) -> Result<(), Failure> {
    let left = AtomicU64::new(transaction_count);
    let outcomes: Vec<Result<(), Failure>> = std::thread::scope(|scope| {
        let left = &left;
        let start = |client| scope.spawn(move || Client::work(client, left));
        let threads: Vec<_> = clients.iter_mut().map(start).collect();
        let join = |it: std::thread::ScopedJoinHandle<'_, _>| it.join().expect("a client panicked");
        threads.into_iter().map(join).collect()
    });
    outcomes.into_iter().collect()
}

/// The number of terminals that warehouses have at most.
pub(super) fn terminal_count(tpcc: &Tpcc) -> u32 {
    to_u32(u64::from(tpcc.warehouse_count()) * u64::from(nandu_load::tpcc::DISTRICT_COUNT))
}
