//! Order-Status (clause 2.6): what became of a customer's last order.

use super::rows::{fetch, find_customer, integer_of, missing};
use super::{OrderStatusInput, OrderStatusOutput, OrderedLine};
use crate::error::BenchError;
use nandu_load::TpccTable;
use nandu_load::tpcc::schema::{customer, order_line, orders, orders_by_customer};
use nandu_storage::database::{RowRange, Tables};
use nandu_storage::sqlite::ValueRef::Integer;

pub(super) fn order_status(
    tables: &Tables,
    input: &OrderStatusInput,
) -> Result<OrderStatusOutput, BenchError> {
    let OrderStatusInput { warehouse, district, .. } = *input;
    let number = find_customer(tables, (warehouse, district), input.customer)?;
    let customer = fetch(tables, TpccTable::Customer, [warehouse, district, number])?;
    let order = last_order(tables, [warehouse, district, number])?;
    let row = fetch(tables, TpccTable::Orders, [warehouse, district, order])?;
    let carrier = row.values()[orders::O_CARRIER_ID];
    Ok(OrderStatusOutput {
        customer: number,
        names: customer.texts(customer::C_FIRST),
        balance_cents: customer.integer(customer::C_BALANCE),
        order,
        moment_us: row.integer(orders::O_ENTRY_D),
        carrier: integer_of(carrier),
        lines: lines_of(tables, [warehouse, district, order])?,
    })
}

fn last_order(tables: &Tables, customer: [i64; 3]) -> Result<i64, BenchError> {
    let table = TpccTable::OrdersByCustomer;
    let key = customer.map(Integer);
    let range = RowRange::of(table.name()).within(&key).backward().with_ahead_count(0);
    let mut rows = tables.rows(range)?;
    let last =
        rows.next_row()?.and_then(|(_, row)| integer_of(row.get(orders_by_customer::OC_O_ID)));
    last.ok_or_else(|| missing(table, &format!("{customer:?}")))
}

fn lines_of(tables: &Tables, order: [i64; 3]) -> Result<Vec<OrderedLine>, BenchError> {
    let key = order.map(Integer);
    let range = RowRange::of(TpccTable::OrderLine.name()).within(&key).with_ahead_count(0);
    let mut rows = tables.rows(range)?;
    let mut lines = Vec::new();
    while let Some((_, row)) = rows.next_row()? {
        let integer = |column: usize| integer_of(row.get(column)).unwrap_or(0);
        lines.push(OrderedLine {
            item: integer(order_line::OL_I_ID),
            supply_warehouse: integer(order_line::OL_SUPPLY_W_ID),
            quantity: integer(order_line::OL_QUANTITY),
            amount_cents: integer(order_line::OL_AMOUNT),
            delivered_us: integer_of(row.get(order_line::OL_DELIVERY_D)),
        });
    }
    Ok(lines)
}
