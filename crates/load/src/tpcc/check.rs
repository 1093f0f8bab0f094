//! The twelve consistency conditions of TPC-C (clause 3.3.2).
//!
//! ```text
//!   history ─► sums by warehouse, district, customer
//!   district by district: orders, their lines, new orders, customers, side by side by ascending keys
//! ```
//!
//! 1. All is of one moment: that of the tables which it looks at.
//! 2. A district is looked at in one pass; in memory are its customers, and a sum for each customer of
//!    `history`.
//! 3. Rows that are lost are found by those that name them: payments to a warehouse, in a district or by a customer
//!    that is not there, orders of such a customer.
//!
//! Condition 11 of the specification holds for rows that were just loaded. Orders that were delivered since are
//! counted by their customers, so here those are taken off; then it holds at any time.

use super::TpccScale;
use super::schema::{
    TpccTable, customer, district, history, new_order, order_line, orders, warehouse,
};
use nandu_storage::StorageError;
use nandu_storage::database::{RowRange, RowScan, Tables};
use nandu_storage::sqlite::{RecordView, ValueRef};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// How many findings of a condition are told.
const FINDING_COUNT_MAX: usize = 5;

/// What each condition says, by number from 1.
const CONDITIONS: [&str; 12] = [
    "W_YTD = sum(D_YTD)",
    "D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)",
    "max(NO_O_ID) - min(NO_O_ID) + 1 = rows of NEW-ORDER",
    "sum(O_OL_CNT) = rows of ORDER-LINE",
    "O_CARRIER_ID is null where there is a row of NEW-ORDER, and only there",
    "O_OL_CNT = rows of ORDER-LINE of the order",
    "OL_DELIVERY_D is null where O_CARRIER_ID is, and only there",
    "W_YTD = sum(H_AMOUNT)",
    "D_YTD = sum(H_AMOUNT)",
    "C_BALANCE = sum(OL_AMOUNT) - sum(H_AMOUNT)",
    "rows of ORDER - rows of NEW-ORDER - sum(C_DELIVERY_CNT) = those delivered at first",
    "C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT)",
];

/// One of the conditions, and where it does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TpccCondition {
    /// Its number in clause 3.3.2.
    pub number: usize,
    /// What it says.
    pub what: &'static str,
    /// How many warehouses, districts, orders or customers were compared.
    pub compared_count: u64,
    /// For how many of these it does not hold.
    pub broken_count: u64,
    /// The first of these, in words.
    pub findings: Vec<String>,
}

/// What came of looking at all conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TpccCheck {
    /// Warehouses that were looked at.
    pub warehouse_count: u64,
    /// All conditions, by number.
    pub conditions: Vec<TpccCondition>,
}

impl TpccCheck {
    /// Whether all conditions hold.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.broken().next().is_none()
    }

    /// The conditions that do not hold.
    pub fn broken(&self) -> impl Iterator<Item = &TpccCondition> {
        self.conditions.iter().filter(|condition| condition.broken_count > 0)
    }

    /// Compares for condition `number`.
    fn compare(&mut self, number: usize, is_right: bool, told: impl FnOnce() -> String) {
        let condition = &mut self.conditions[number - 1];
        condition.compared_count += 1;
        if !is_right {
            condition.broken_count += 1;
            if condition.findings.len() < FINDING_COUNT_MAX {
                condition.findings.push(told());
            }
        }
    }
}

/// What was paid, by who paid and where.
#[derive(Default)]
struct Payments {
    by_warehouse: BTreeMap<i64, i64>,
    by_district: BTreeMap<(i64, i64), i64>,
    by_customer: BTreeMap<(i64, i64, i64), i64>,
}

/// What a pass over the orders of a district found.
#[derive(Default)]
struct OrderSums {
    order_count: i64,
    last_order: i64,
    line_count: i64,
    expected_line_count: i64,
    /// Amounts of delivered lines, by customer.
    delivered: BTreeMap<i64, i64>,
}

/// Looks at all conditions.
///
/// # Errors
/// If these are no tables of TPC-C, or a page cannot be read.
pub fn check(tables: &Tables) -> Result<TpccCheck, StorageError> {
    let condition = |(number, &what): (usize, &&'static str)| TpccCondition {
        number: number + 1,
        what,
        compared_count: 0,
        broken_count: 0,
        findings: Vec::new(),
    };
    let conditions = CONDITIONS.iter().enumerate().map(condition).collect();
    let mut check = TpccCheck { warehouse_count: 0, conditions };
    let mut payments = Payments::read(tables)?;
    let mut warehouses = tables.rows(TpccTable::Warehouse.name())?;
    while let Some((_, row)) = warehouses.next_row()? {
        let (id, paid) = (integer(row, warehouse::W_ID), integer(row, warehouse::W_YTD));
        check.warehouse_count += 1;
        let mut sum = 0;
        let key = [ValueRef::Integer(id)];
        let mut districts = tables.rows(RowRange::of(TpccTable::District.name()).within(&key))?;
        while let Some((_, row)) = districts.next_row()? {
            sum += integer(row, district::D_YTD);
            check_district(tables, &mut check, &mut payments, row)?;
        }
        check.compare(1, paid == sum, || format!("warehouse {id}: {paid} and {sum}"));
        let by_history = payments.by_warehouse.remove(&id).unwrap_or(0);
        let is_right = paid == by_history;
        check.compare(8, is_right, || format!("warehouse {id}: {paid} and {by_history}"));
    }
    payments.tell_left(&mut check);
    if check.warehouse_count == 0 {
        check.compare(1, false, || "there is no warehouse".to_owned());
    }
    Ok(check)
}

impl Payments {
    fn read(tables: &Tables) -> Result<Self, StorageError> {
        let mut payments = Self::default();
        let mut rows = tables.rows(TpccTable::History.name())?;
        while let Some((_, row)) = rows.next_row()? {
            let [c_warehouse, c_district, c_id, w_id, d_id] = [
                history::H_C_W_ID,
                history::H_C_D_ID,
                history::H_C_ID,
                history::H_W_ID,
                history::H_D_ID,
            ]
            .map(|column| integer(row, column));
            let amount = integer(row, history::H_AMOUNT);
            *payments.by_warehouse.entry(w_id).or_default() += amount;
            *payments.by_district.entry((w_id, d_id)).or_default() += amount;
            *payments.by_customer.entry((c_warehouse, c_district, c_id)).or_default() += amount;
        }
        Ok(payments)
    }

    /// What is left belongs to rows that nobody met.
    fn tell_left(&self, check: &mut TpccCheck) {
        for id in self.by_warehouse.keys() {
            check.compare(8, false, || format!("payments to warehouse {id}, which there is not"));
        }
        for (warehouse, id) in self.by_district.keys() {
            let told =
                || format!("payments in district {id} of warehouse {warehouse}, no such row");
            check.compare(9, false, told);
        }
        for (warehouse, district, id) in self.by_customer.keys() {
            check.compare(10, false, || {
                format!(
                    "payments by customer {id} of district {district} of warehouse {warehouse}, no such row"
                )
            });
        }
    }
}

/// Looks at one district, of which `row` is the row.
fn check_district(
    tables: &Tables,
    check: &mut TpccCheck,
    payments: &mut Payments,
    row: RecordView<'_>,
) -> Result<(), StorageError> {
    let place = (integer(row, district::D_W_ID), integer(row, district::D_ID));
    let [next, paid] = [district::D_NEXT_O_ID, district::D_YTD].map(|at| integer(row, at));
    let told = |what: String| format!("district {} of warehouse {}: {what}", place.1, place.0);
    let by_history = payments.by_district.remove(&place).unwrap_or(0);
    check.compare(9, paid == by_history, || told(format!("{paid} and {by_history}")));
    let new = new_orders(tables, place)?;
    let sums = check_orders(tables, check, place, &new)?;
    let last = sums.last_order;
    // Not of a district where all orders were delivered (clauses 3.3.2.2 and 3.3.2.3).
    let last_new = new.last().copied().unwrap_or(last);
    check.compare(2, next - 1 == last && last == last_new, || {
        told(format!("{} and {last} and {last_new}", next - 1))
    });
    if let (Some(first), Some(last)) = (new.first(), new.last()) {
        let (span, count) = (last - first + 1, new.len());
        let is_right = u64::try_from(span) == Ok(count as u64);
        check.compare(3, is_right, || told(format!("{span} and {count}")));
    }
    let OrderSums { expected_line_count, line_count, order_count, .. } = sums;
    check.compare(4, expected_line_count == line_count, || {
        told(format!("{expected_line_count} and {line_count}"))
    });
    let (customer_count, delivery_count) =
        check_customers(tables, check, (place, payments), sums.delivered)?;
    let customer_count = u32::try_from(customer_count).unwrap_or(u32::MAX);
    let scale = TpccScale { customer_count, ..TpccScale::STANDARD };
    let at_first = i64::from(customer_count - scale.new_order_count());
    let now = order_count - i64::try_from(new.len()).unwrap_or(i64::MAX) - delivery_count;
    check.compare(11, now == at_first, || told(format!("{now} and {at_first}")));
    Ok(())
}

fn new_orders(tables: &Tables, place: (i64, i64)) -> Result<BTreeSet<i64>, StorageError> {
    let mut rows = rows_of(tables, TpccTable::NewOrder, place)?;
    let mut new = BTreeSet::new();
    while let Some((_, row)) = rows.next_row()? {
        new.insert(integer(row, new_order::NO_O_ID));
    }
    Ok(new)
}

/// Looks at the orders of a district beside their lines.
fn check_orders(
    tables: &Tables,
    check: &mut TpccCheck,
    place: (i64, i64),
    new: &BTreeSet<i64>,
) -> Result<OrderSums, StorageError> {
    let mut sums = OrderSums::default();
    let mut lines = rows_of(tables, TpccTable::OrderLine, place)?;
    let mut line = next_line(&mut lines)?;
    let mut rows = rows_of(tables, TpccTable::Orders, place)?;
    let of_order = |id: i64, what: &str| {
        format!("order {id} of district {} of warehouse {}: {what}", place.1, place.0)
    };
    while let Some((_, row)) = rows.next_row()? {
        let [id, customer, expected] =
            [orders::O_ID, orders::O_C_ID, orders::O_OL_CNT].map(|at| integer(row, at));
        let is_delivered = !row.get(orders::O_CARRIER_ID).is_null();
        let is_new = new.contains(&id);
        check.compare(5, is_new != is_delivered, || match is_new {
            true => of_order(id, "a carrier, and a row of NEW-ORDER"),
            false => of_order(id, "no carrier, and no row of NEW-ORDER"),
        });
        let (mut count, mut delivered) = (0, 0);
        while let Some(found) = line.filter(|line| line.order <= id) {
            sums.line_count += 1;
            let is_own = found.order == id;
            let is_right = is_own && found.is_delivered == is_delivered;
            check.compare(7, is_right, || match is_own {
                true => of_order(id, "lines that say otherwise than it"),
                false => of_order(found.order, "lines, but no order"),
            });
            if is_own {
                count += 1;
                delivered += if found.is_delivered { found.amount } else { 0 };
            }
            line = next_line(&mut lines)?;
        }
        check.compare(6, count == expected, || of_order(id, &format!("{expected} and {count}")));
        sums.order_count += 1;
        sums.last_order = id;
        sums.expected_line_count += expected;
        *sums.delivered.entry(customer).or_default() += delivered;
    }
    while let Some(found) = line {
        sums.line_count += 1;
        check.compare(7, false, || of_order(found.order, "lines, but no order"));
        line = next_line(&mut lines)?;
    }
    Ok(sums)
}

/// Looks at the customers of a district; how many there are, and their deliveries.
fn check_customers(
    tables: &Tables,
    check: &mut TpccCheck,
    (place, payments): ((i64, i64), &mut Payments),
    mut delivered: BTreeMap<i64, i64>,
) -> Result<(u64, i64), StorageError> {
    let (mut count, mut delivery_count) = (0, 0);
    let mut rows = rows_of(tables, TpccTable::Customer, place)?;
    while let Some((_, row)) = rows.next_row()? {
        let [id, balance, paid, deliveries] = [
            customer::C_ID,
            customer::C_BALANCE,
            customer::C_YTD_PAYMENT,
            customer::C_DELIVERY_CNT,
        ]
        .map(|column| integer(row, column));
        count += 1;
        delivery_count += deliveries;
        let ordered = delivered.remove(&id).unwrap_or(0);
        let key = (place.0, place.1, id);
        let by_history = payments.by_customer.remove(&key).unwrap_or(0);
        let told = |right: i64, left: i64| {
            format!(
                "customer {id} of district {} of warehouse {}: {left} and {right}",
                place.1, place.0
            )
        };
        let expected = ordered - by_history;
        check.compare(10, balance == expected, || told(expected, balance));
        check.compare(12, balance + paid == ordered, || told(ordered, balance + paid));
    }
    for id in delivered.keys() {
        let of = || format!("orders of customer {id} of district {}, no such row", place.1);
        check.compare(12, false, of);
    }
    Ok((count, delivery_count))
}

/// A row of ORDER-LINE, as far as it is looked at.
#[derive(Clone, Copy)]
struct Line {
    order: i64,
    amount: i64,
    is_delivered: bool,
}

fn next_line(lines: &mut RowScan<'_>) -> Result<Option<Line>, StorageError> {
    let row = lines.next_row()?;
    Ok(row.map(|(_, row)| Line {
        order: integer(row, order_line::OL_O_ID),
        amount: integer(row, order_line::OL_AMOUNT),
        is_delivered: !row.get(order_line::OL_DELIVERY_D).is_null(),
    }))
}

/// The rows of a district, by ascending keys.
fn rows_of(
    tables: &Tables,
    table: TpccTable,
    (warehouse, district): (i64, i64),
) -> Result<RowScan<'_>, StorageError> {
    let key = [warehouse, district].map(ValueRef::Integer);
    tables.rows(RowRange::of(table.name()).within(&key))
}

/// A column of integers; 0 where a table of that name has something else.
fn integer(row: RecordView<'_>, column: usize) -> i64 {
    match row.get(column) {
        ValueRef::Integer(number) => number,
        _ => 0,
    }
}
