//! Stock-Level (clause 2.8): how many items of a district's last twenty orders run low.

use super::rows::{fetch, fetch_all, integer_of};
use super::{StockLevelInput, StockLevelOutput};
use crate::error::BenchError;
use nandu_load::TpccTable;
use nandu_load::tpcc::schema::{district, order_line, stock};
use nandu_storage::database::{RowRange, Tables};
use nandu_storage::sqlite::ValueRef::Integer;

/// So many orders are looked at.
const ORDER_COUNT: i64 = 20;
/// Leaves of lines that are asked for ahead: the lines of twenty orders are on some.
const AHEAD_COUNT: usize = 4;

pub(super) fn stock_level(
    tables: &Tables,
    input: &StockLevelInput,
) -> Result<StockLevelOutput, BenchError> {
    let StockLevelInput { warehouse, district, threshold } = *input;
    let row = fetch(tables, TpccTable::District, [warehouse, district])?;
    let next = row.integer(district::D_NEXT_O_ID);
    let first = [warehouse, district, next - ORDER_COUNT].map(Integer);
    let last = [warehouse, district, next - 1].map(Integer);
    let range = RowRange::of(TpccTable::OrderLine.name()).at_least(&first).at_most(&last);
    let mut rows = tables.rows(range.with_ahead_count(AHEAD_COUNT))?;
    let mut keys = Vec::new();
    while let Some((_, row)) = rows.next_row()? {
        keys.extend(integer_of(row.get(order_line::OL_I_ID)).map(|item| [warehouse, item]));
    }
    keys.sort_unstable();
    keys.dedup();
    let stocks = fetch_all(tables, TpccTable::Stock, &keys)?;
    let is_low = |row: &&super::rows::Fetched| row.integer(stock::S_QUANTITY) < threshold;
    let low_count = stocks.iter().flatten().filter(is_low).count() as u64;
    Ok(StockLevelOutput { low_count })
}
