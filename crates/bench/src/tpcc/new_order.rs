//! New-Order (clause 2.4): five to fifteen items leave the stock, and a customer's order is written down.

use super::rows::{Fetched, fetch, fetch_all, fetch_to_change, missing};
use super::{LineInput, LineOutput, NewOrderInput, NewOrderOutput, TpccCounts};
use crate::error::BenchError;
use crate::retries::End;
use nandu_base::to_index;
use nandu_load::TpccTable;
use nandu_load::tpcc::schema::{customer, district, item, stock, warehouse};
use nandu_storage::Database;
use nandu_storage::database::{Isolation, WriteTransaction};
use nandu_storage::sqlite::ValueRef::{self, Integer, Null};

/// A line whose item there is.
struct Known<'i> {
    /// Its number in the order, from 1.
    number: i64,
    line: &'i LineInput,
    item: &'i Fetched,
}

/// A row of stock under way.
struct Stock {
    row: Fetched,
    quantity: i64,
    ordered: i64,
    order_count: i64,
    remote_count: i64,
}

pub(super) fn new_order(
    database: &Database,
    isolation: Isolation,
    input: &NewOrderInput,
    counts: &mut TpccCounts,
) -> Result<NewOrderOutput, BenchError> {
    let output = counts.transact((database, isolation), |write| {
        let output = attempt(write, input)?;
        Ok(match output.is_rolled_back {
            true => End::RollBack(output),
            false => End::Commit(output),
        })
    })?;
    match output.is_rolled_back {
        true => counts.rolled_back_count += 1,
        false => counts.new_order_count += 1,
    }
    counts.remote_order_count += u64::from(!is_local(input));
    Ok(output)
}

fn is_local(input: &NewOrderInput) -> bool {
    input.lines.iter().all(|line| line.supply_warehouse == input.warehouse)
}

pub(super) fn attempt(
    write: &mut WriteTransaction<'_>,
    input: &NewOrderInput,
) -> Result<NewOrderOutput, BenchError> {
    let item_keys: Vec<[i64; 1]> = input.lines.iter().map(|line| [line.item]).collect();
    let items = fetch_all(write, TpccTable::Item, &item_keys)?;
    let numbered = (1..).zip(&input.lines).zip(&items);
    let known: Vec<Known<'_>> = numbered
        .filter_map(|((number, line), item)| Some(Known { number, line, item: item.as_ref()? }))
        .collect();
    let (lines, infos) = take_stock(write, input, &known)?;
    let customer_key = [input.warehouse, input.district, input.customer];
    let customer = fetch(write, TpccTable::Customer, customer_key)?;
    let district_key = [input.warehouse, input.district];
    let district = fetch_to_change(write, TpccTable::District, district_key)?;
    let order = district.integer(district::D_NEXT_O_ID);
    let mut values = district.values();
    values[district::D_NEXT_O_ID] = Integer(order + 1);
    write.put(TpccTable::District.name(), &values)?;
    write_down(write, input, order)?;
    for ((known, output), info) in known.iter().zip(&lines).zip(&infos) {
        insert_line(write, (input, order), known, (output.amount_cents, info))?;
    }
    let warehouse = fetch(write, TpccTable::Warehouse, [input.warehouse])?;
    let discount = customer.integer(customer::C_DISCOUNT);
    let warehouse_tax = warehouse.integer(warehouse::W_TAX);
    let district_tax = district.integer(district::D_TAX);
    let sum: i64 = lines.iter().map(|line| line.amount_cents).sum();
    let is_rolled_back = lines.len() < input.lines.len();
    Ok(NewOrderOutput {
        order,
        customer_last: customer.text(customer::C_LAST),
        customer_credit: customer.text(customer::C_CREDIT),
        discount,
        warehouse_tax,
        district_tax,
        lines,
        total_cents: total_cents(sum, discount, warehouse_tax + district_tax),
        is_rolled_back,
    })
}

/// With discount and taxes, both in hundredths of a percent, to the nearest cent.
const fn total_cents(sum: i64, discount: i64, tax: i64) -> i64 {
    const WHOLE: i64 = 10_000;
    (sum * (WHOLE - discount) * (WHOLE + tax) + WHOLE * WHOLE / 2) / (WHOLE * WHOLE)
}

/// Takes all items out of the stock. Gives what the terminal shows, and each line's text for the district.
fn take_stock(
    write: &mut WriteTransaction<'_>,
    input: &NewOrderInput,
    known: &[Known<'_>],
) -> Result<(Vec<LineOutput>, Vec<Vec<u8>>), BenchError> {
    let mut keys: Vec<[i64; 2]> =
        known.iter().map(|it| [it.line.supply_warehouse, it.line.item]).collect();
    // All lock them in this order.
    keys.sort_unstable();
    keys.dedup();
    for key in &keys {
        write.claim_by_key(TpccTable::Stock.name(), &key.map(Integer))?;
    }
    let mut stocks = Vec::with_capacity(keys.len());
    for (row, key) in fetch_all(write, TpccTable::Stock, &keys)?.into_iter().zip(&keys) {
        stocks.push(Stock::new(row.ok_or_else(|| missing(TpccTable::Stock, &format!("{key:?}")))?));
    }
    let info_column = stock::S_DIST_01 + to_index(input.district.unsigned_abs()) - 1;
    let (mut lines, mut infos) = (Vec::new(), Vec::new());
    for Known { line, item, .. } in known {
        let place = keys.binary_search(&[line.supply_warehouse, line.item]);
        let stock = &mut stocks[place.expect("its key is one of them")];
        stock.take(line.quantity, line.supply_warehouse != input.warehouse);
        let price_cents = item.integer(item::I_PRICE);
        infos.push(stock.row.bytes_of(info_column).to_vec());
        lines.push(LineOutput {
            item_name: item.text(item::I_NAME),
            stock_quantity: stock.quantity,
            is_brand: item.is_original(item::I_DATA) && stock.row.is_original(stock::S_DATA),
            price_cents,
            amount_cents: price_cents * line.quantity,
        });
    }
    for stock in &stocks {
        write.put(TpccTable::Stock.name(), &stock.values())?;
    }
    Ok((lines, infos))
}

impl Stock {
    fn new(row: Fetched) -> Self {
        let [quantity, ordered, order_count, remote_count] =
            [stock::S_QUANTITY, stock::S_YTD, stock::S_ORDER_CNT, stock::S_REMOTE_CNT]
                .map(|column| row.integer(column));
        Self { row, quantity, ordered, order_count, remote_count }
    }

    /// Clause 2.4.2.2: what falls below ten is filled up.
    const fn take(&mut self, quantity: i64, is_remote: bool) {
        self.quantity -= quantity;
        if self.quantity < 10 {
            self.quantity += 91;
        }
        self.ordered += quantity;
        self.order_count += 1;
        self.remote_count += is_remote as i64;
    }

    fn values(&self) -> Vec<ValueRef<'_>> {
        let mut values = self.row.values();
        values[stock::S_QUANTITY] = Integer(self.quantity);
        values[stock::S_YTD] = Integer(self.ordered);
        values[stock::S_ORDER_CNT] = Integer(self.order_count);
        values[stock::S_REMOTE_CNT] = Integer(self.remote_count);
        values
    }
}

/// The order, as new, and among those of its customer.
fn write_down(
    write: &mut WriteTransaction<'_>,
    input: &NewOrderInput,
    order: i64,
) -> Result<(), BenchError> {
    let NewOrderInput { warehouse, district, customer, moment_us, lines } = input;
    let line_count = i64::try_from(lines.len()).expect("there are fifteen lines at most");
    let key = [*warehouse, *district, order].map(Integer);
    let mut row = key.to_vec();
    row.extend([Integer(*customer), Integer(*moment_us), Null, Integer(line_count)]);
    row.push(Integer(i64::from(is_local(input))));
    write.insert(TpccTable::Orders.name(), &row)?;
    write.insert(TpccTable::NewOrder.name(), &key)?;
    let entry = [*warehouse, *district, *customer, order].map(Integer);
    write.insert(TpccTable::OrdersByCustomer.name(), &entry)?;
    Ok(())
}

fn insert_line(
    write: &mut WriteTransaction<'_>,
    (input, order): (&NewOrderInput, i64),
    Known { number, line, .. }: &Known<'_>,
    (amount_cents, info): (i64, &[u8]),
) -> Result<(), BenchError> {
    let key = [input.warehouse, input.district, order, *number];
    let mut row = key.map(Integer).to_vec();
    row.extend([line.item, line.supply_warehouse].map(Integer));
    row.extend([Null, Integer(line.quantity), Integer(amount_cents), ValueRef::Text(info)]);
    write.insert(TpccTable::OrderLine.name(), &row)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_rounded_to_the_nearest_cent() {
        // 100.00 less a tenth, with 5.5 % of tax: 94.95.
        assert_eq!(total_cents(10_000, 1000, 550), 9495);
        assert_eq!((total_cents(1, 5000, 0), total_cents(1, 5001, 0)), (1, 0));
    }
}
