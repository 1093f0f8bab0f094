//! The rows of TPC-C (Standard Specification, revision 5.11, clauses 1.3 and 4.3): nine tables and two
//! indexes, whole or one warehouse by itself.
//!
//! ```text
//!   item ×100,000
//!   warehouse ─┬─ stock ×100,000
//!              └─ district ×10 ─┬─ customer ×3,000 ─── history ×1 each
//!                               └─ orders ×3,000 ─┬─ order_line ×5 to 15 each
//!                                                 └─ new_order, of the last 900
//!   customer_by_name: w, d, last, first, id        orders_by_customer: w, d, c, o
//! ```
//!
//! 1. The rows of a warehouse follow from seed and number alone, those of the items from the seed.
//! 2. A table's rows come by ascending keys, and one district is in memory, so a load of any size takes the
//!    same memory.
//! 3. What the specification says of a share of rows (a tenth is `ORIGINAL`, a tenth has bad credit) holds
//!    exactly, of rows that a seeded permutation chooses.
//!
//! Amounts are integers of cents, taxes and discounts integers of hundredths of a percent, dates integers of
//! microseconds since 1970: the engine has no decimals, and a double would not add up.

mod check;
mod draw;
mod rows;
pub mod schema;
mod store;
#[cfg(test)]
mod tests;

pub use check::{TpccCheck, TpccCondition, check};
pub use draw::{NurandConstants, last_name, nurand};
pub use rows::TpccSink;
pub use schema::TpccTable;
pub use store::{TpccObserver, TpccReport};

use crate::LoadError;

/// Districts of a warehouse.
pub const DISTRICT_COUNT: u32 = 10;
/// The moment at which all rows were made, in microseconds since 1970: the first of January 2026.
pub const LOAD_MOMENT_US: i64 = 1_767_225_600_000_000;
/// What a customer had paid when the rows were made, in cents.
const FIRST_PAYMENT_CENTS: i64 = 1000;
/// More warehouses than any disk holds.
const WAREHOUSE_COUNT_MAX: u32 = 1_000_000;
/// Different last names of customers.
const NAME_COUNT: u32 = 1000;

/// How many rows there are beside the number of warehouses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TpccScale {
    /// Items, and rows of stock in each warehouse.
    pub item_count: u32,
    /// Customers of a district, and its orders.
    pub customer_count: u32,
}

/// Which rows there are, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tpcc {
    warehouse_count: u32,
    scale: TpccScale,
    seed: u64,
    constants: NurandConstants,
}

impl TpccScale {
    /// What the specification says.
    pub const STANDARD: Self = Self { item_count: 100_000, customer_count: 3_000 };

    /// Orders of a district that were not delivered when the rows were made: the last ones.
    #[must_use]
    pub const fn new_order_count(self) -> u32 {
        self.customer_count / 10 * 3
    }

    /// Last names that customers have.
    #[must_use]
    pub const fn name_count(self) -> u32 {
        if self.customer_count < NAME_COUNT { self.customer_count } else { NAME_COUNT }
    }
}

impl Tpcc {
    /// The rows of so many warehouses.
    ///
    /// # Errors
    /// If there is no warehouse, or more than a million.
    pub fn new(warehouse_count: u32, seed: u64) -> Result<Self, LoadError> {
        Self::with_scale(warehouse_count, TpccScale::STANDARD, seed)
    }

    /// As [`Self::new`], with fewer rows than TPC-C has: for tests.
    ///
    /// # Errors
    /// As there; or if there are less than 100 items or ten customers, more than the standard has, or customers
    /// that are no multiple of ten.
    pub fn with_scale(
        warehouse_count: u32,
        scale: TpccScale,
        seed: u64,
    ) -> Result<Self, LoadError> {
        if !(1..=WAREHOUSE_COUNT_MAX).contains(&warehouse_count) {
            return Err(LoadError::invalid(format!(
                "{warehouse_count} warehouses make no sense; from 1 to {WAREHOUSE_COUNT_MAX} will do"
            )));
        }
        let TpccScale { item_count, customer_count } = scale;
        let standard = TpccScale::STANDARD;
        let fits = (100..=standard.item_count).contains(&item_count)
            && (10..=standard.customer_count).contains(&customer_count)
            && customer_count.is_multiple_of(10);
        if !fits {
            return Err(LoadError::invalid(format!(
                "{item_count} items and {customer_count} customers make no TPC-C; from 100 items and ten \
                 customers, in tens, to those of the standard will do"
            )));
        }
        let constants = NurandConstants::of_seed(seed);
        Ok(Self { warehouse_count, scale, seed, constants })
    }

    /// How many warehouses there are, numbered from 1.
    #[must_use]
    pub const fn warehouse_count(&self) -> u32 {
        self.warehouse_count
    }

    /// How many rows there are of a kind.
    #[must_use]
    pub const fn scale(&self) -> TpccScale {
        self.scale
    }

    /// What everything follows from.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The constants of what is drawn unevenly.
    #[must_use]
    pub const fn constants(&self) -> NurandConstants {
        self.constants
    }

    /// Rows of a table, in the mean where that is drawn.
    #[must_use]
    pub const fn row_count(&self, table: TpccTable) -> u64 {
        let TpccScale { item_count, customer_count } = self.scale;
        let (items, customers) = (item_count as u64, customer_count as u64);
        let (warehouses, districts) = (self.warehouse_count as u64, DISTRICT_COUNT as u64);
        match table {
            TpccTable::Item => items,
            TpccTable::Warehouse => warehouses,
            TpccTable::Stock => warehouses * items,
            TpccTable::District => warehouses * districts,
            TpccTable::OrderLine => warehouses * districts * customers * 10,
            TpccTable::NewOrder => warehouses * districts * self.scale.new_order_count() as u64,
            _ => warehouses * districts * customers,
        }
    }

    /// About how many bytes the tables take on disk.
    #[must_use]
    pub fn expected_bytes(&self) -> u64 {
        let bytes = |&table: &TpccTable| self.row_count(table) * table.row_bytes();
        TpccTable::ALL.iter().map(bytes).sum()
    }
}
