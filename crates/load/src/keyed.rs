//! Rows of the joins of S001 and S000: keys as in TPC-H, and padding of a fixed length instead of the
//! other columns.
//!
//! ```text
//!   S001, section 4.1: 150,000 · scale customers (c_custkey, 130 bytes), 1,500,000 · scale orders
//!     (o_custkey, 90 bytes); the paper takes scale 30: 4,500,000 and 45,000,000
//!   S000, chapter 5:   (c_custkey, 216 bytes), (o_orderkey, o_custkey, 128 bytes) at scale 2:
//!     300,000 and 3,000,000
//! ```
//!
//! The widths of S000 are not published. They are derived from table 5.1: queues of 66 MB and 405 MB
//! on pages of 4 KB hold 18 and 29 records a page, so of about 220 and 136 bytes.
//!
//! 1. A row follows from the seed and its key alone, so both orders have the same rows.
//! 2. As in TPC-H a customer whose key is a multiple of three has no orders; the others are equally
//!    likely. Padding is random bytes, which nothing compresses.

use crate::dataset::{KeyOrder, RowWidth};
use crate::tpch::TpchTable;
use crate::{LoadError, RowSink, RowSource};
use nandu_base::{Permutation, Rng};
use nandu_storage::database::{Column, ColumnType};
use nandu_storage::sqlite::ValueRef;

/// Rows that are handed over together.
const ROWS_AT_ONCE: u64 = 1024;
/// The longest padding.
const PAD_BYTES_MAX: usize = 216;

/// The two tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedTable {
    /// Which keys come before the padding.
    keys: Keys,
    pad_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    /// Of a customer.
    Customer,
    /// Of the customer of an order.
    OrderCustomer,
    /// Of an order and its customer.
    OrderAndCustomer,
}

/// The rows of one of the tables, as they are generated.
#[derive(Debug)]
pub struct KeyedRows {
    table: KeyedTable,
    customer_count: u64,
    row_count: u64,
    next: u64,
    permutation: Option<Permutation>,
    seed: u64,
}

impl KeyedTable {
    /// The table of that name in the data of a paper; `None` where the paper has none.
    #[must_use]
    pub const fn of(width: RowWidth, table: TpchTable) -> Option<Self> {
        let (keys, pad_bytes) = match (width, table) {
            (RowWidth::S001, TpchTable::Customer) => (Keys::Customer, 130),
            (RowWidth::S001, TpchTable::Orders) => (Keys::OrderCustomer, 90),
            (RowWidth::S000, TpchTable::Customer) => (Keys::Customer, PAD_BYTES_MAX),
            (RowWidth::S000, TpchTable::Orders) => (Keys::OrderAndCustomer, 128),
            _ => return None,
        };
        Some(Self { keys, pad_bytes })
    }

    /// Customers and rows at this scale, if there are some and not too many.
    pub(crate) fn counts(self, scale_factor: f64) -> Result<(u64, u64), LoadError> {
        let customer_count = scaled(150_000, scale_factor)?;
        let row_count = match self.keys {
            Keys::Customer => customer_count,
            Keys::OrderCustomer | Keys::OrderAndCustomer => scaled(1_500_000, scale_factor)?,
        };
        Ok((customer_count, row_count))
    }

    /// The columns; none may be null.
    #[must_use]
    pub fn columns(self) -> Vec<Column> {
        use ColumnType::{Blob, Integer};
        let columns: &[(&str, ColumnType)] = match self.keys {
            Keys::Customer => &[("c_custkey", Integer), ("c_pad", Blob)],
            Keys::OrderCustomer => &[("o_custkey", Integer), ("o_pad", Blob)],
            Keys::OrderAndCustomer => {
                &[("o_orderkey", Integer), ("o_custkey", Integer), ("o_pad", Blob)]
            }
        };
        let column =
            |&(name, column_type): &(&str, ColumnType)| Column::new(name, column_type).not_null();
        columns.iter().map(column).collect()
    }

    /// The primary key's columns, by index; none where rows have no key of their own.
    #[must_use]
    pub const fn key(self) -> &'static [usize] {
        match self.keys {
            Keys::OrderCustomer => &[],
            Keys::Customer | Keys::OrderAndCustomer => &[0],
        }
    }
}

impl KeyedRows {
    /// The rows of `table`.
    ///
    /// # Errors
    /// If the scale is not a positive number, or has no row or more than 2^40.
    pub fn new(
        table: KeyedTable,
        scale_factor: f64,
        order: KeyOrder,
        seed: u64,
    ) -> Result<Self, LoadError> {
        let (customer_count, row_count) = table.counts(scale_factor)?;
        let seed = seed ^ table.pad_bytes as u64;
        let permutation = match order {
            KeyOrder::Key => None,
            KeyOrder::Random => Some(Permutation::new(row_count, seed)),
        };
        Ok(Self { table, customer_count, row_count, next: 0, permutation, seed })
    }

    fn emit(&self, number: u64, sink: &mut RowSink<'_>) -> Result<(), LoadError> {
        let key = ValueRef::Integer((number + 1).cast_signed());
        let mut rng = Rng::new(self.seed.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let mut bytes = [0; PAD_BYTES_MAX];
        let pad = &mut bytes[..self.table.pad_bytes];
        let customer = match self.table.keys {
            Keys::Customer => 0,
            Keys::OrderCustomer | Keys::OrderAndCustomer => {
                // Keys 1, 2, 4, 5, 7, 8, …: the k-th from 0 is k + k / 2 + 1.
                let with_orders = self.customer_count - self.customer_count / 3;
                let chosen = rng.below(with_orders);
                (chosen + chosen / 2 + 1).cast_signed()
            }
        };
        rng.fill(pad);
        let (customer, pad) = (ValueRef::Integer(customer), ValueRef::Blob(pad));
        match self.table.keys {
            Keys::Customer => sink(&[key, pad])?,
            Keys::OrderCustomer => sink(&[customer, pad])?,
            Keys::OrderAndCustomer => sink(&[key, customer, pad])?,
        }
        Ok(())
    }
}

impl RowSource for KeyedRows {
    fn next_rows(&mut self, sink: &mut RowSink<'_>) -> Result<bool, LoadError> {
        let end = (self.next + ROWS_AT_ONCE).min(self.row_count);
        while self.next < end {
            let number = match &self.permutation {
                Some(permutation) => permutation.apply(self.next),
                None => self.next,
            };
            self.next += 1;
            self.emit(number, sink)?;
        }
        Ok(self.next < self.row_count)
    }

    fn fraction(&self) -> f64 {
        self.next as f64 / self.row_count as f64
    }
}

fn scaled(base: u32, scale_factor: f64) -> Result<u64, LoadError> {
    let count = f64::from(base) * scale_factor;
    if !(count.is_finite() && (1.0..1.0995e12).contains(&count)) {
        return Err(LoadError::invalid(format!(
            "a scale factor of {scale_factor:?} makes no sense; from 0.00001 to 700,000 will do"
        )));
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to lie between 1 and 2^40"
    )]
    Ok(count as u64)
}

#[cfg(test)]
mod tests;
