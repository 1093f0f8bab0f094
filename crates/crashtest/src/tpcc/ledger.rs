//! What the tables of TPC-C have to hold after what terminals did, without the engine's help.
//!
//! ```text
//!   new order ─► its row, lines and entry in the index, all with its moment or as it was asked for
//!   payment ───► one row of history
//!   delivery ──► carriers, and its moment on all lines of the orders that it took
//! ```
//!
//! 1. What was acknowledged is there, and stays; what was under way is there whole or not at all, and what is
//!    not there now never comes.
//! 2. Rows that nobody made are not there.
//! 3. The twelve conditions say nothing of the stock: what a row of it has follows from all lines since the load.
//! 4. A customer has as many payments as history has rows of him.

use nandu_bench::tpcc::{
    DeliveryInput, DeliveryOutput, Input, LineInput, NewOrderInput, NewOrderOutput, Output,
    PaymentInput,
};
use nandu_load::TpccTable;
use nandu_load::tpcc::schema::{customer, history, order_line, orders, stock};
use nandu_load::tpcc::{LOAD_MOMENT_US, check};
use nandu_storage::StorageError;
use nandu_storage::database::{Flow, Tables};
use nandu_storage::sqlite::{RecordView, ValueRef};
use std::collections::{BTreeMap, BTreeSet};

/// What is in stock after what is taken out, at least and at most (clause 2.4.2.2), and what is added below.
const STOCK_RANGE: std::ops::RangeInclusive<i64> = 10..=100;
const STOCK_ADDED: i64 = 91;

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Its commit was begun, and nobody knows.
    Unknown,
    /// Its commit was acknowledged.
    Committed,
}

/// The rows that a transaction leaves.
#[derive(Clone, Debug)]
pub(super) enum Left {
    Order { input: NewOrderInput, order: i64, amounts: Vec<i64> },
    Payment { input: PaymentInput, customer: i64 },
    Delivery { input: DeliveryInput, orders: Vec<Option<i64>> },
}

/// A transaction that is to leave rows.
#[derive(Clone, Debug)]
pub(super) struct Deed {
    pub(super) moment_us: i64,
    pub(super) left: Left,
    pub(super) ending: Ending,
}

/// What is there for good, and what there was to begin with.
#[derive(Default)]
pub(super) struct Ledger {
    deeds: Vec<Deed>,
    /// Quantities in stock when the tables were made, by warehouse and item.
    first_quantities: BTreeMap<[i64; 2], i64>,
}

/// Rows as far as they are compared, by their keys.
#[derive(Default)]
struct Found {
    orders: BTreeMap<[i64; 3], Order>,
    lines: BTreeMap<[i64; 4], Line>,
    /// By their moment.
    payments: BTreeMap<i64, Vec<Payment>>,
    payment_counts: BTreeMap<[i64; 3], i64>,
    /// What customers count themselves.
    told_payment_counts: BTreeMap<[i64; 3], i64>,
    stocks: BTreeMap<[i64; 2], Stock>,
    by_customer: BTreeSet<[i64; 4]>,
}

#[derive(Clone, Copy)]
struct Order {
    customer: i64,
    moment_us: i64,
    carrier: Option<i64>,
    line_count: i64,
    is_local: bool,
}

#[derive(Clone, Copy)]
struct Line {
    item: i64,
    supply_warehouse: i64,
    delivered_us: Option<i64>,
    quantity: i64,
    amount_cents: i64,
}

/// Customer, place and amount.
type Payment = [i64; 6];

/// Quantity, what was ordered of it, how often, and how often from elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stock {
    quantity: i64,
    ordered: i64,
    order_count: i64,
    remote_count: i64,
}

impl Left {
    /// What a transaction leaves that is to be committed; nothing if it is to be rolled back.
    pub(super) fn by(input: &Input, output: &Output) -> Option<Self> {
        Some(match (input, output) {
            (Input::NewOrder(input), Output::NewOrder(output)) => {
                let NewOrderOutput { order, lines, is_rolled_back, .. } = output;
                if *is_rolled_back {
                    return None;
                }
                let amounts = lines.iter().map(|line| line.amount_cents).collect();
                Self::Order { input: input.clone(), order: *order, amounts }
            }
            (Input::Payment(input), Output::Payment(output)) => {
                Self::Payment { input: input.clone(), customer: output.customer.number }
            }
            (Input::Delivery(input), Output::Delivery(DeliveryOutput { orders })) => {
                Self::Delivery { input: *input, orders: orders.clone() }
            }
            _ => return None,
        })
    }

    /// What kind of transaction it was, and how many rows name its moment: orders, payments or orders
    /// that were delivered.
    fn row_count(&self) -> u64 {
        match self {
            Self::Order { .. } | Self::Payment { .. } => 1,
            Self::Delivery { orders, .. } => orders.iter().flatten().count() as u64,
        }
    }
}

impl Ledger {
    /// Notes what there is after the load.
    ///
    /// # Errors
    /// If a page cannot be read.
    pub(super) fn begin(tables: &Tables) -> Result<Self, StorageError> {
        let found = Found::read(tables)?;
        let quantity = |(key, stock): (&[i64; 2], &Stock)| (*key, stock.quantity);
        let first_quantities = found.stocks.iter().map(quantity).collect();
        Ok(Self { deeds: Vec::new(), first_quantities })
    }

    /// Compares the tables with all that was there and with what was done since. Gives the first thing that
    /// is wrong.
    ///
    /// # Errors
    /// If a page cannot be read.
    pub(super) fn compare(
        &mut self,
        tables: &Tables,
        deeds: Vec<Deed>,
    ) -> Result<Option<String>, StorageError> {
        let found = Found::read(tables)?;
        if let Err(what) = self.settle(&found, deeds).and_then(|()| self.check_rest(&found)) {
            return Ok(Some(what));
        }
        let conditions = check(tables)?;
        let told = conditions.broken().next().map(|broken| {
            let first = broken.findings.first().map_or("", String::as_str);
            format!("condition {} ({}) does not hold: {first}", broken.number, broken.what)
        });
        Ok(told)
    }

    /// Takes what is there of `deeds`, and sees that all of it is whole.
    fn settle(&mut self, found: &Found, deeds: Vec<Deed>) -> Result<(), String> {
        let known = std::mem::take(&mut self.deeds);
        for mut deed in known.into_iter().chain(deeds) {
            let is_there = found.has(&deed)?;
            match (is_there, deed.ending) {
                (true, _) => {
                    deed.ending = Ending::Committed;
                    self.deeds.push(deed);
                }
                (false, Ending::Unknown) => {}
                (false, Ending::Committed) => {
                    return Err(format!("what was acknowledged is gone: {deed:?}"));
                }
            }
        }
        Ok(())
    }

    /// Sees that nothing else is there, and that stock and customers have what follows.
    fn check_rest(&self, found: &Found) -> Result<(), String> {
        let mut made = [0_u64; 3];
        for deed in &self.deeds {
            let kind = match deed.left {
                Left::Order { .. } => 0,
                Left::Payment { .. } => 1,
                Left::Delivery { .. } => 2,
            };
            made[kind] += deed.left.row_count();
        }
        let is_new = |moment_us: i64| moment_us > LOAD_MOMENT_US;
        let orders = found.orders.values().filter(|order| is_new(order.moment_us)).count() as u64;
        let payments =
            found.payments.range(LOAD_MOMENT_US + 1..).map(|(_, rows)| rows.len() as u64);
        let dated = |(key, line): (&[i64; 4], &Line)| {
            line.delivered_us.is_some_and(is_new).then_some([key[0], key[1], key[2]])
        };
        let delivered: BTreeSet<[i64; 3]> = found.lines.iter().filter_map(dated).collect();
        let there = [orders, payments.sum(), delivered.len() as u64];
        if there != made {
            return Err(format!(
                "there are {there:?} orders, payments and deliveries since the load, {made:?} were made"
            ));
        }
        if found.by_customer.len() != found.orders.len() {
            let (entries, orders) = (found.by_customer.len(), found.orders.len());
            return Err(format!("the index of orders has {entries} entries for {orders} orders"));
        }
        if let Some((key, told)) = found
            .told_payment_counts
            .iter()
            .find(|(key, told)| found.payment_counts.get(*key).copied().unwrap_or(0) != **told)
        {
            return Err(format!("customer {key:?} counts {told} payments, history does not"));
        }
        self.check_stock(found)
    }

    fn check_stock(&self, found: &Found) -> Result<(), String> {
        let mut taken: BTreeMap<[i64; 2], Stock> = BTreeMap::new();
        for (key, line) in &found.lines {
            let order = found.orders.get(&[key[0], key[1], key[2]]);
            if order.is_some_and(|order| order.moment_us > LOAD_MOMENT_US) {
                let sum = taken.entry([line.supply_warehouse, line.item]).or_default();
                sum.ordered += line.quantity;
                sum.order_count += 1;
                sum.remote_count += i64::from(line.supply_warehouse != key[0]);
            }
        }
        if found.stocks.len() != self.first_quantities.len() {
            return Err(format!("there are {} rows of stock", found.stocks.len()));
        }
        for (key, stock) in &found.stocks {
            let Some(first) = self.first_quantities.get(key) else {
                return Err(format!("nobody made the stock {key:?}"));
            };
            let expected = taken.get(key).copied().unwrap_or_default();
            let is_added_up = Stock { quantity: 0, ..*stock } == expected;
            let moved = stock.quantity + stock.ordered - first;
            if !is_added_up || moved % STOCK_ADDED != 0 || !STOCK_RANGE.contains(&stock.quantity) {
                return Err(format!(
                    "stock {key:?}: {stock:?}, first {first}, lines have {expected:?}"
                ));
            }
        }
        Ok(())
    }
}

impl Found {
    fn read(tables: &Tables) -> Result<Self, StorageError> {
        let mut found = Self::default();
        each(tables, TpccTable::Orders, |row| {
            let order = Order {
                customer: number(row, orders::O_C_ID),
                moment_us: number(row, orders::O_ENTRY_D),
                carrier: maybe(row, orders::O_CARRIER_ID),
                line_count: number(row, orders::O_OL_CNT),
                is_local: number(row, orders::O_ALL_LOCAL) == 1,
            };
            found.orders.insert(key(row), order);
        })?;
        each(tables, TpccTable::OrderLine, |row| {
            let line = Line {
                item: number(row, order_line::OL_I_ID),
                supply_warehouse: number(row, order_line::OL_SUPPLY_W_ID),
                delivered_us: maybe(row, order_line::OL_DELIVERY_D),
                quantity: number(row, order_line::OL_QUANTITY),
                amount_cents: number(row, order_line::OL_AMOUNT),
            };
            found.lines.insert(key(row), line);
        })?;
        each(tables, TpccTable::History, |row| {
            let payment = [
                history::H_C_W_ID,
                history::H_C_D_ID,
                history::H_C_ID,
                history::H_W_ID,
                history::H_D_ID,
                history::H_AMOUNT,
            ];
            let payment = payment.map(|column| number(row, column));
            found.payments.entry(number(row, history::H_DATE)).or_default().push(payment);
            *found.payment_counts.entry(key(row)).or_default() += 1;
        })?;
        each(tables, TpccTable::Customer, |row| {
            found.told_payment_counts.insert(key(row), number(row, customer::C_PAYMENT_CNT));
        })?;
        each(tables, TpccTable::Stock, |row| {
            let stock = Stock {
                quantity: number(row, stock::S_QUANTITY),
                ordered: number(row, stock::S_YTD),
                order_count: number(row, stock::S_ORDER_CNT),
                remote_count: number(row, stock::S_REMOTE_CNT),
            };
            found.stocks.insert(key(row), stock);
        })?;
        each(tables, TpccTable::OrdersByCustomer, |row| {
            found.by_customer.insert(key(row));
        })?;
        Ok(found)
    }

    /// Whether what a transaction leaves is there.
    fn has(&self, deed: &Deed) -> Result<bool, String> {
        match &deed.left {
            Left::Order { input, order, amounts } => self.has_order(deed, (input, *order), amounts),
            Left::Payment { input, customer } => {
                let PaymentInput { customer_warehouse, customer_district, .. } = *input;
                let PaymentInput { warehouse, district, amount_cents, .. } = *input;
                let of_customer = [customer_warehouse, customer_district, *customer];
                let [w, d, c] = of_customer;
                let expected = [w, d, c, warehouse, district, amount_cents];
                match self.payments.get(&deed.moment_us).map(Vec::as_slice) {
                    None => Ok(false),
                    Some([payment]) if *payment == expected => Ok(true),
                    Some(payments) => Err(format!("{payments:?} is left of {deed:?}")),
                }
            }
            Left::Delivery { input, orders } => self.has_delivery(deed, input, orders),
        }
    }

    fn has_order(
        &self,
        deed: &Deed,
        (input, number): (&NewOrderInput, i64),
        amounts: &[i64],
    ) -> Result<bool, String> {
        let NewOrderInput { warehouse, district, customer, lines, .. } = input;
        let key = [*warehouse, *district, number];
        let order = self.orders.get(&key).filter(|order| order.moment_us == deed.moment_us);
        let Some(order) = order else { return Ok(false) };
        let is_local = lines.iter().all(|line| line.supply_warehouse == *warehouse);
        let entry = [*warehouse, *district, *customer, number];
        let is_right = order.customer == *customer
            && order.is_local == is_local
            && usize::try_from(order.line_count) == Ok(lines.len())
            && lines.len() == amounts.len()
            && self.by_customer.contains(&entry);
        let asked = (1..).zip(lines.iter().zip(amounts));
        let has_line = |(place, (asked, amount)): (i64, (&LineInput, &i64))| {
            self.lines.get(&[key[0], key[1], key[2], place]).is_some_and(|line| {
                let LineInput { item, supply_warehouse, quantity } = *asked;
                (line.item, line.supply_warehouse, line.quantity, line.amount_cents)
                    == (item, supply_warehouse, quantity, *amount)
            })
        };
        match is_right && asked.into_iter().all(has_line) {
            true => Ok(true),
            false => Err(format!("an order is not as it was asked for: {deed:?}")),
        }
    }

    fn has_delivery(
        &self,
        deed: &Deed,
        input: &DeliveryInput,
        orders: &[Option<i64>],
    ) -> Result<bool, String> {
        let (mut dated_count, mut line_count) = (0_u64, 0_u64);
        for (district, order) in (1..).zip(orders) {
            let Some(order) = *order else { continue };
            let first = [input.warehouse, district, order, 0];
            let last = [input.warehouse, district, order, i64::MAX];
            let mut is_dated = false;
            for line in self.lines.range(first..=last).map(|(_, line)| line) {
                line_count += 1;
                is_dated = line.delivered_us == Some(deed.moment_us);
                dated_count += u64::from(is_dated);
            }
            let carrier = self.orders.get(&[input.warehouse, district, order]);
            if is_dated && carrier.and_then(|order| order.carrier) != Some(input.carrier) {
                return Err(format!(
                    "order {order} of district {district} has not the carrier of {deed:?}"
                ));
            }
        }
        // Lines are there whoever delivers them, but for orders that went with a crash.
        match dated_count {
            0 => Ok(orders.iter().flatten().next().is_none()),
            _ if dated_count == line_count => Ok(true),
            _ => Err(format!("{dated_count} of {line_count} lines are dated by {deed:?}")),
        }
    }
}

fn each(
    tables: &Tables,
    table: TpccTable,
    mut take: impl FnMut(RecordView<'_>),
) -> Result<(), StorageError> {
    tables.scan(table.name(), |_, row| {
        take(row);
        Flow::Continue(())
    })
}

/// The first columns.
fn key<const N: usize>(row: RecordView<'_>) -> [i64; N] {
    std::array::from_fn(|column| number(row, column))
}

fn maybe(row: RecordView<'_>, column: usize) -> Option<i64> {
    match row.get(column) {
        ValueRef::Integer(number) => Some(number),
        _ => None,
    }
}

/// A number; one that no row has where there is something else.
fn number(row: RecordView<'_>, column: usize) -> i64 {
    maybe(row, column).unwrap_or(i64::MIN)
}
