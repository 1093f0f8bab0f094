//! Payment (clause 2.5): a customer pays, and warehouse, district and history have it.

use super::rows::{Fetched, fetch_to_change, find_customer};
use super::{PaymentInput, PaymentOutput, Person, TpccCounts};
use crate::error::BenchError;
use crate::retries::End;
use nandu_load::TpccTable;
use nandu_load::tpcc::schema::{customer, district, warehouse};
use nandu_storage::Database;
use nandu_storage::database::{Isolation, WriteTransaction};
use nandu_storage::sqlite::ValueRef::{self, Integer};

/// Signs of a customer's data at most.
const DATA_LENGTH_MAX: usize = 500;
/// Signs of it that are shown.
const SHOWN_LENGTH: usize = 200;

pub(super) fn payment(
    database: &Database,
    isolation: Isolation,
    input: &PaymentInput,
    counts: &mut TpccCounts,
) -> Result<PaymentOutput, BenchError> {
    let output =
        counts.transact((database, isolation), |write| attempt(write, input).map(End::Commit))?;
    counts.remote_payment_count += u64::from(input.customer_warehouse != input.warehouse);
    Ok(output)
}

pub(super) fn attempt(
    write: &mut WriteTransaction<'_>,
    input: &PaymentInput,
) -> Result<PaymentOutput, BenchError> {
    let place = (input.customer_warehouse, input.customer_district);
    let number = find_customer(write, place, input.customer)?;
    let (customer, data) = pay(write, input, number)?;
    let district_key = [input.warehouse, input.district];
    let district = fetch_to_change(write, TpccTable::District, district_key)?;
    add(write, TpccTable::District, (&district, district::D_YTD), input.amount_cents)?;
    let warehouse = fetch_to_change(write, TpccTable::Warehouse, [input.warehouse])?;
    add(write, TpccTable::Warehouse, (&warehouse, warehouse::W_YTD), input.amount_cents)?;
    let [warehouse, district]: [[String; 6]; 2] =
        [warehouse.texts(warehouse::W_NAME), district.texts(district::D_NAME)];
    let noted = format!("{}    {}", warehouse[0], district[0]);
    let keys = [place.0, place.1, number, input.warehouse, input.district];
    let mut row = keys.map(Integer).to_vec();
    row.extend([input.moment_us, input.amount_cents].map(Integer));
    row.push(ValueRef::Text(noted.as_bytes()));
    write.insert(TpccTable::History.name(), &row)?;
    Ok(PaymentOutput { warehouse, district, customer, data })
}

/// Adds the amount to what a warehouse or a district took.
fn add(
    write: &mut WriteTransaction<'_>,
    table: TpccTable,
    (row, column): (&Fetched, usize),
    amount_cents: i64,
) -> Result<(), BenchError> {
    let mut values = row.values();
    values[column] = Integer(row.integer(column) + amount_cents);
    write.put(table.name(), &values)?;
    Ok(())
}

/// The customer pays. Gives what is shown of customer and data.
fn pay(
    write: &mut WriteTransaction<'_>,
    input: &PaymentInput,
    number: i64,
) -> Result<(Person, Option<String>), BenchError> {
    let key = [input.customer_warehouse, input.customer_district, number];
    let row = fetch_to_change(write, TpccTable::Customer, key)?;
    let balance_cents = row.integer(customer::C_BALANCE) - input.amount_cents;
    let paid = row.integer(customer::C_YTD_PAYMENT) + input.amount_cents;
    let credit = row.text(customer::C_CREDIT);
    let data = (credit == "BC").then(|| noted_before(&row, input, number));
    let mut values = row.values();
    values[customer::C_BALANCE] = Integer(balance_cents);
    values[customer::C_YTD_PAYMENT] = Integer(paid);
    values[customer::C_PAYMENT_CNT] = Integer(row.integer(customer::C_PAYMENT_CNT) + 1);
    if let Some(data) = &data {
        values[customer::C_DATA] = ValueRef::Text(data.as_bytes());
    }
    write.put(TpccTable::Customer.name(), &values)?;
    let person = Person {
        number,
        names: row.texts(customer::C_FIRST),
        address: row.texts(customer::C_STREET_1),
        phone: row.text(customer::C_PHONE),
        since_us: row.integer(customer::C_SINCE),
        credit,
        credit_limit_cents: row.integer(customer::C_CREDIT_LIM),
        discount: row.integer(customer::C_DISCOUNT),
        balance_cents,
    };
    let shown = data.map(|mut data| {
        data.truncate(SHOWN_LENGTH);
        data
    });
    Ok((person, shown))
}

/// The data of a customer with bad credit, the payment before what was there.
fn noted_before(row: &Fetched, input: &PaymentInput, number: i64) -> String {
    let PaymentInput { warehouse, district, amount_cents, .. } = input;
    let (units, cents) = (amount_cents / 100, amount_cents % 100);
    let (of_warehouse, of_district) = (input.customer_warehouse, input.customer_district);
    let mut data =
        format!("{number} {of_district} {of_warehouse} {district} {warehouse} {units}.{cents:02} ");
    data.push_str(&row.text(customer::C_DATA));
    data.truncate(DATA_LENGTH_MAX);
    data
}
