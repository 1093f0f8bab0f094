//! TPC-C (Standard Specification, revision 5.11) over tables of `nandu_load::tpcc`: five transactions, each
//! drawn apart from being done.
//!
//! ```text
//!   terminal ── deck of 100 cards ─► Input ─► execute ─► Output
//!                 45 new-order                 stock, customer, district, rows that are new, warehouse
//!                 43 payment                   customer, district, warehouse, history
//!                  4 order-status              a snapshot
//!                  4 delivery ─► queue ─► servers: district by district
//!                  4 stock-level               a snapshot
//! ```
//!
//! 1. What a terminal asks follows from seed and number alone; only moments are of the clock.
//! 2. Transactions lock in one order: stock by key, customer, district, new rows, warehouse last, since most
//!    wait for that. So none stops another, but for deliveries of a district that has nothing to deliver.
//! 3. A row that is changed is locked before it is read.
//! 4. Transactions that only read do so in a snapshot. Those that change something commit in the order of
//!    their locks, so a snapshot is what all before some commit left: all are serializable together.
//! 5. A new order of which an item is unknown is done to its end and rolled back (clause 2.4.2.3).

mod client;
mod delivery;
mod input;
mod new_order;
mod order_status;
mod output;
mod payment;
mod rows;
mod stock_level;

pub use client::{TpccLoad, TpccRun};
pub use input::{
    CustomerChoice, DeliveryInput, Input, LineInput, NewOrderInput, OrderStatusInput, PaymentInput,
    StockLevelInput, Terminal, TransactionKind,
};
pub use output::{
    DeliveryOutput, LineOutput, NewOrderOutput, OrderStatusOutput, OrderedLine, Output,
    PaymentOutput, Person, StockLevelOutput,
};

use crate::error::BenchError;
use crate::retries::{End, Retries};
use nandu_storage::database::{Isolation, Tables, WriteTransaction};
use nandu_storage::{Database, StorageError};
use serde::Serialize;

/// The kinds of operation, by number: transactions as terminals see them, and deliveries as servers do.
pub const KINDS: [&str; 6] =
    ["new_order", "payment", "order_status", "delivery", "stock_level", "delivery_deferred"];
/// What a server does: a delivery, from when it was put into the queue to its end.
const DEFERRED: usize = 5;
/// How often a look at a snapshot is begun again.
const LOOK_COUNT_MAX: u32 = 1000;

/// What clients and servers did and met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TpccCounts {
    /// Transactions that were done again.
    #[serde(flatten)]
    pub retries: Retries,
    /// Looks and transactions that were begun again, since what they read was not kept for so long.
    pub snapshot_retry_count: u64,
    /// New orders that were committed.
    pub new_order_count: u64,
    /// New orders that were rolled back, for an item that is not there.
    pub rolled_back_count: u64,
    /// New orders with an item of another warehouse.
    pub remote_order_count: u64,
    /// Payments of a customer of another warehouse.
    pub remote_payment_count: u64,
    /// Orders that were delivered.
    pub delivered_order_count: u64,
    /// Districts that had nothing to deliver.
    pub skipped_district_count: u64,
    /// Deliveries that a client did itself, since too many were waiting.
    pub undeferred_count: u64,
}

impl TpccCounts {
    /// Runs a transaction, as often as it takes.
    fn transact<T>(
        &mut self,
        place: (&Database, Isolation),
        body: impl FnMut(&mut WriteTransaction<'_>) -> Result<End<T>, BenchError>,
    ) -> Result<T, BenchError> {
        self.retries.transact_unless(&mut self.snapshot_retry_count, place, body)
    }

    fn add(&mut self, other: &Self) {
        self.retries.add(&other.retries);
        self.snapshot_retry_count += other.snapshot_retry_count;
        self.new_order_count += other.new_order_count;
        self.rolled_back_count += other.rolled_back_count;
        self.remote_order_count += other.remote_order_count;
        self.remote_payment_count += other.remote_payment_count;
        self.delivered_order_count += other.delivered_order_count;
        self.skipped_district_count += other.skipped_district_count;
        self.undeferred_count += other.undeferred_count;
    }
}

/// Does one transaction, as often as it takes.
///
/// # Errors
/// If the database fails, or its tables are not those of TPC-C.
pub fn execute(
    database: &Database,
    isolation: Isolation,
    input: &Input,
    counts: &mut TpccCounts,
) -> Result<Output, BenchError> {
    Ok(match input {
        Input::NewOrder(input) => {
            Output::NewOrder(new_order::new_order(database, isolation, input, counts)?)
        }
        Input::Payment(input) => {
            Output::Payment(Box::new(payment::payment(database, isolation, input, counts)?))
        }
        Input::OrderStatus(input) => {
            let status = look(database, counts, |tables| order_status::order_status(tables, input));
            Output::OrderStatus(status?)
        }
        Input::Delivery(input) => {
            Output::Delivery(delivery::delivery(database, isolation, input, counts)?)
        }
        Input::StockLevel(input) => {
            let level = look(database, counts, |tables| stock_level::stock_level(tables, input));
            Output::StockLevel(level?)
        }
    })
}

/// Does one transaction within `write`, once, and leaves its end to the caller: a new order that says that it
/// is rolled back has to be.
///
/// # Errors
/// If the database fails, others are in the way, or its tables are not those of TPC-C.
pub fn attempt(write: &mut WriteTransaction<'_>, input: &Input) -> Result<Output, BenchError> {
    Ok(match input {
        Input::NewOrder(input) => Output::NewOrder(new_order::attempt(write, input)?),
        Input::Payment(input) => Output::Payment(Box::new(payment::attempt(write, input)?)),
        Input::OrderStatus(input) => Output::OrderStatus(order_status::order_status(write, input)?),
        Input::Delivery(input) => Output::Delivery(delivery::attempt(write, input)?),
        Input::StockLevel(input) => Output::StockLevel(stock_level::stock_level(write, input)?),
    })
}

/// Reads in a snapshot; in a new one where it gets too old.
fn look<T>(
    database: &Database,
    counts: &mut TpccCounts,
    read: impl Fn(&Tables) -> Result<T, BenchError>,
) -> Result<T, BenchError> {
    let mut look_count = 0;
    loop {
        look_count += 1;
        match read(&database.read()) {
            Err(BenchError::Storage(StorageError::SnapshotTooOld { .. }))
                if look_count < LOOK_COUNT_MAX =>
            {
                counts.snapshot_retry_count += 1;
                nandu_workers::yield_now();
            }
            answer => return answer,
        }
    }
}
