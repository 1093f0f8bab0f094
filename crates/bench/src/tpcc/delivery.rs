//! Delivery (clause 2.7): the oldest new order of each district of a warehouse goes out, all in one transaction.
//!
//! Which orders are the oldest is seen in a snapshot, and then their rows are locked, one after the other:
//! numbers of orders rise in the order of commits, since a new order holds its district until it commits, so
//! none that is older comes afterwards. Where one is gone by then, another snapshot tells. Where none is seen,
//! the range is locked, since the first may come any time.

use super::rows::{Fetched, fetch_all, fetch_to_change, integer_of, missing};
use super::{DeliveryInput, DeliveryOutput, TpccCounts};
use crate::error::BenchError;
use crate::retries::End;
use nandu_load::TpccTable;
use nandu_load::tpcc::DISTRICT_COUNT;
use nandu_load::tpcc::schema::{customer, new_order, order_line, orders};
use nandu_storage::database::{Isolation, RowRange, Tables, WriteTransaction};
use nandu_storage::sqlite::ValueRef::Integer;
use nandu_storage::{Database, StorageError};

/// How often an order that was seen may be gone when it is locked.
const LOOK_COUNT_MAX: u32 = 1000;

pub(super) fn delivery(
    database: &Database,
    isolation: Isolation,
    input: &DeliveryInput,
    counts: &mut TpccCounts,
) -> Result<DeliveryOutput, BenchError> {
    let output =
        counts.transact((database, isolation), |write| attempt(write, input).map(End::Commit))?;
    let delivered_count = output.orders.iter().flatten().count() as u64;
    counts.delivered_order_count += delivered_count;
    counts.skipped_district_count += u64::from(DISTRICT_COUNT) - delivered_count;
    Ok(output)
}

pub(super) fn attempt(
    write: &mut WriteTransaction<'_>,
    input: &DeliveryInput,
) -> Result<DeliveryOutput, BenchError> {
    let mut seen = Seen::default();
    let deliver = |district| deliver(write, &mut seen, input, district);
    let orders = (1..=i64::from(DISTRICT_COUNT)).map(deliver);
    Ok(DeliveryOutput { orders: orders.collect::<Result<_, _>>()? })
}

/// The oldest orders of the districts from some on, as a snapshot has them.
#[derive(Default)]
struct Seen {
    first_district: i64,
    oldest: Vec<Option<i64>>,
}

impl Seen {
    /// Looks at the districts from this one on.
    fn look(
        &mut self,
        write: &WriteTransaction<'_>,
        [warehouse, first_district]: [i64; 2],
    ) -> Result<(), BenchError> {
        self.first_district = first_district;
        let districts = first_district..=i64::from(DISTRICT_COUNT);
        self.oldest = match write.is_locking() {
            true => {
                let committed = write.committed();
                districts.map(|it| oldest(&committed, [warehouse, it])).collect::<Result<_, _>>()?
            }
            // It has a snapshot of its own, in which it misses what it took itself.
            false => {
                districts.map(|it| oldest(write, [warehouse, it])).collect::<Result<_, _>>()?
            }
        };
        Ok(())
    }

    /// The oldest of a district, if anybody looked and there was one.
    fn of(&self, district: i64) -> Option<Option<i64>> {
        let place = usize::try_from(district - self.first_district).ok()?;
        self.oldest.get(place).copied()
    }
}

/// Delivers the oldest order of a district, if there is one.
fn deliver(
    write: &mut WriteTransaction<'_>,
    seen: &mut Seen,
    input: &DeliveryInput,
    district: i64,
) -> Result<Option<i64>, BenchError> {
    let place = [input.warehouse, district];
    let Some(order) = take_oldest(write, seen, place)? else { return Ok(None) };
    let key = [input.warehouse, district, order];
    let row = fetch_to_change(write, TpccTable::Orders, key)?;
    let mut values = row.values();
    values[orders::O_CARRIER_ID] = Integer(input.carrier);
    write.put(TpccTable::Orders.name(), &values)?;
    let amount = date_lines(write, input, key, row.integer(orders::O_OL_CNT))?;
    let customer_key = [input.warehouse, district, row.integer(orders::O_C_ID)];
    let row = fetch_to_change(write, TpccTable::Customer, customer_key)?;
    let mut values = row.values();
    values[customer::C_BALANCE] = Integer(row.integer(customer::C_BALANCE) + amount);
    values[customer::C_DELIVERY_CNT] = Integer(row.integer(customer::C_DELIVERY_CNT) + 1);
    write.put(TpccTable::Customer.name(), &values)?;
    Ok(Some(order))
}

/// Removes the oldest row of a district's new orders, and says which order it was of.
fn take_oldest(
    write: &mut WriteTransaction<'_>,
    seen: &mut Seen,
    place: [i64; 2],
) -> Result<Option<i64>, BenchError> {
    for attempt in 0..LOOK_COUNT_MAX {
        if attempt > 0 || seen.of(place[1]).is_none() {
            seen.look(write, place)?;
        }
        let found = match seen.of(place[1]).flatten() {
            Some(order) => Some(order),
            None => oldest(write, place)?,
        };
        let Some(order) = found else { return Ok(None) };
        let key = [place[0], place[1], order].map(Integer);
        write.claim_by_key(TpccTable::NewOrder.name(), &key)?;
        if write.delete_by_key(TpccTable::NewOrder.name(), &key)? {
            return Ok(Some(order));
        }
    }
    let what = format!("the oldest order of district {place:?}");
    Err(StorageError::Conflict { what }.into())
}

fn oldest(tables: &Tables, place: [i64; 2]) -> Result<Option<i64>, BenchError> {
    let key = place.map(Integer);
    let range = RowRange::of(TpccTable::NewOrder.name()).within(&key).with_ahead_count(0);
    let mut rows = tables.rows(range)?;
    Ok(rows.next_row()?.and_then(|(_, row)| integer_of(row.get(new_order::NO_O_ID))))
}

/// Writes the moment to all lines of an order; what they come to, in cents.
fn date_lines(
    write: &mut WriteTransaction<'_>,
    input: &DeliveryInput,
    [warehouse, district, order]: [i64; 3],
    line_count: i64,
) -> Result<i64, BenchError> {
    let table = TpccTable::OrderLine;
    let keys: Vec<[i64; 4]> =
        (1..=line_count).map(|number| [warehouse, district, order, number]).collect();
    for key in &keys {
        write.claim_by_key(table.name(), &key.map(Integer))?;
    }
    let rows: Vec<Option<Fetched>> = fetch_all(write, table, &keys)?;
    let mut amount = 0;
    for (row, key) in rows.into_iter().zip(&keys) {
        let row = row.ok_or_else(|| missing(table, &format!("{key:?}")))?;
        amount += row.integer(order_line::OL_AMOUNT);
        let mut values = row.values();
        values[order_line::OL_DELIVERY_D] = Integer(input.moment_us);
        write.put(table.name(), &values)?;
    }
    Ok(amount)
}
