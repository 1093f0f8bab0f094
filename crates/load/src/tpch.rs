//! The rows of TPC-H by the crate `tpchgen`, which makes the text of dbgen, in key or random order.
//!
//! ```text
//!   unit u of n (an order with its lines, a part with its suppliers, else a row)
//!     key order:     parts of many units, one after the other
//!     random order:  unit permutation(0), permutation(1), …, each made by itself
//! ```
//!
//! 1. In both orders the same rows come; the random one is a seeded bijection of all units
//!    (`nandu_base::Permutation`), so neither table nor permutation is ever in memory. Rows of one unit
//!    stay together.
//! 2. Amounts are reals, dates are texts YYYY-MM-DD, keys and counts are integers.

use crate::dataset::KeyOrder;
use crate::text::parse_decimal;
use crate::{LoadError, RowSink, RowSource};
use nandu_base::Permutation;
use nandu_storage::database::{Column, ColumnType};
use nandu_storage::sqlite::ValueRef;
use std::borrow::Cow;
use std::fmt::{Display, Write};
use tpchgen::distribution::Distributions;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen::text::TextPool;

/// Units that are made together in key order.
const UNITS_AT_ONCE: i64 = 2048;
/// Units that are handed over together in random order.
const RANDOM_UNITS_AT_ONCE: i64 = 256;
/// Bytes of the pool of [`TpchComments::Short`].
const SHORT_POOL_BYTES: i32 = 1 << 20;
/// `lineitem` has most columns.
const COLUMN_COUNT_MAX: usize = 16;

/// A table of TPC-H.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TpchTable {
    /// 5 rows at any scale.
    Region,
    /// 25 rows at any scale.
    Nation,
    /// 200,000 rows at scale 1.
    Part,
    /// 10,000 rows at scale 1.
    Supplier,
    /// 800,000 rows at scale 1, four for each part.
    PartSupp,
    /// 150,000 rows at scale 1.
    Customer,
    /// 1,500,000 rows at scale 1; a third of the customers has none.
    Orders,
    /// About 6,000,000 rows at scale 1, one to seven for each order.
    LineItem,
}

/// Where comments are cut from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TpchComments {
    /// The text of the benchmark: 300 MiB that are made once in a process, in some seconds.
    #[default]
    Standard,
    /// The first MiB of it: comments differ from the benchmark's and repeat, all other values are the
    /// same. For tests.
    Short,
}

/// The rows of one table, as they are generated.
#[derive(Debug)]
pub struct TpchRows {
    table: TpchTable,
    scale_factor: f64,
    unit_count: i64,
    next_unit: i64,
    permutation: Option<Permutation>,
    comments: Cow<'static, TextPool>,
    line: String,
}

impl TpchTable {
    /// All tables, referenced ones first.
    pub const ALL: [Self; 8] = [
        Self::Region,
        Self::Nation,
        Self::Part,
        Self::Supplier,
        Self::PartSupp,
        Self::Customer,
        Self::Orders,
        Self::LineItem,
    ];

    /// The name in the benchmark.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Region => "region",
            Self::Nation => "nation",
            Self::Part => "part",
            Self::Supplier => "supplier",
            Self::PartSupp => "partsupp",
            Self::Customer => "customer",
            Self::Orders => "orders",
            Self::LineItem => "lineitem",
        }
    }

    /// The columns; none may be null.
    #[must_use]
    pub fn columns(self) -> Vec<Column> {
        let column =
            |&(name, column_type): &(&str, ColumnType)| Column::new(name, column_type).not_null();
        self.column_types().iter().map(column).collect()
    }

    /// The primary key's columns, by index.
    #[must_use]
    pub const fn key(self) -> &'static [usize] {
        match self {
            Self::PartSupp => &[0, 1],
            Self::LineItem => &[0, 3],
            _ => &[0],
        }
    }

    /// Orders of lines, parts of part suppliers, else rows.
    fn unit_count(self, scale_factor: f64) -> i64 {
        match self {
            Self::Region => 5,
            Self::Nation => 25,
            Self::Part | Self::PartSupp => PartGenerator::calculate_row_count(scale_factor, 1, 1),
            Self::Supplier => SupplierGenerator::calculate_row_count(scale_factor, 1, 1),
            Self::Customer => CustomerGenerator::calculate_row_count(scale_factor, 1, 1),
            Self::Orders | Self::LineItem => {
                OrderGenerator::calculate_row_count(scale_factor, 1, 1)
            }
        }
    }

    /// The same, where the generator reaches so far.
    pub(crate) fn units_at(self, scale_factor: f64) -> Result<i64, LoadError> {
        if !(scale_factor.is_finite() && scale_factor > 0.0) {
            return Err(LoadError::invalid(format!(
                "a scale factor of {scale_factor:?} makes no sense; 1 is about 1 GB"
            )));
        }
        let (unit_count, name) = (self.unit_count(scale_factor), self.name());
        if unit_count < 1 {
            return Err(LoadError::invalid(format!(
                "at scale factor {scale_factor:?} {name} has no rows; choose a larger one"
            )));
        }
        if unit_count > i64::from(i32::MAX) {
            return Err(LoadError::invalid(format!(
                "at scale factor {scale_factor:?} {name} has more than 2^31 rows; the generator \
                 reaches 1400"
            )));
        }
        Ok(unit_count)
    }

    #[rustfmt::skip]
    const fn column_types(self) -> &'static [(&'static str, ColumnType)] {
        use ColumnType::{Integer, Real, Text};
        match self {
            Self::Region => &[("r_regionkey", Integer), ("r_name", Text), ("r_comment", Text)],
            Self::Nation => &[
                ("n_nationkey", Integer), ("n_name", Text), ("n_regionkey", Integer),
                ("n_comment", Text),
            ],
            Self::Part => &[
                ("p_partkey", Integer), ("p_name", Text), ("p_mfgr", Text), ("p_brand", Text),
                ("p_type", Text), ("p_size", Integer), ("p_container", Text),
                ("p_retailprice", Real), ("p_comment", Text),
            ],
            Self::Supplier => &[
                ("s_suppkey", Integer), ("s_name", Text), ("s_address", Text),
                ("s_nationkey", Integer), ("s_phone", Text), ("s_acctbal", Real),
                ("s_comment", Text),
            ],
            Self::PartSupp => &[
                ("ps_partkey", Integer), ("ps_suppkey", Integer), ("ps_availqty", Integer),
                ("ps_supplycost", Real), ("ps_comment", Text),
            ],
            Self::Customer => &[
                ("c_custkey", Integer), ("c_name", Text), ("c_address", Text),
                ("c_nationkey", Integer), ("c_phone", Text), ("c_acctbal", Real),
                ("c_mktsegment", Text), ("c_comment", Text),
            ],
            Self::Orders => &[
                ("o_orderkey", Integer), ("o_custkey", Integer), ("o_orderstatus", Text),
                ("o_totalprice", Real), ("o_orderdate", Text), ("o_orderpriority", Text),
                ("o_clerk", Text), ("o_shippriority", Integer), ("o_comment", Text),
            ],
            Self::LineItem => &[
                ("l_orderkey", Integer), ("l_partkey", Integer), ("l_suppkey", Integer),
                ("l_linenumber", Integer), ("l_quantity", Integer), ("l_extendedprice", Real),
                ("l_discount", Real), ("l_tax", Real), ("l_returnflag", Text),
                ("l_linestatus", Text), ("l_shipdate", Text), ("l_commitdate", Text),
                ("l_receiptdate", Text), ("l_shipinstruct", Text), ("l_shipmode", Text),
                ("l_comment", Text),
            ],
        }
    }
}

impl TpchRows {
    /// The rows of `table`.
    ///
    /// # Errors
    /// If the scale is not a positive number, or has no row or more than 2^31 units.
    pub fn new(
        table: TpchTable,
        scale_factor: f64,
        order: KeyOrder,
        seed: u64,
        comments: TpchComments,
    ) -> Result<Self, LoadError> {
        let unit_count = table.units_at(scale_factor)?;
        let permutation = match order {
            KeyOrder::Key => None,
            KeyOrder::Random => {
                let seed = seed ^ nandu_base::fnv1a(table.name().as_bytes());
                Some(Permutation::new(unit_count.unsigned_abs(), seed))
            }
        };
        let comments = match comments {
            TpchComments::Standard => Cow::Borrowed(TextPool::get_or_init_default()),
            TpchComments::Short => {
                Cow::Owned(TextPool::new(SHORT_POOL_BYTES, Distributions::static_default()))
            }
        };
        let line = String::new();
        Ok(Self { table, scale_factor, unit_count, next_unit: 0, permutation, comments, line })
    }

    /// Hands over part `part` of `part_count`, both as the generators count them.
    fn emit_part(
        &mut self,
        part: i32,
        part_count: i32,
        sink: &mut RowSink<'_>,
    ) -> Result<(), LoadError> {
        let Self { table, scale_factor, comments, line, .. } = self;
        let (sf, pool) = (*scale_factor, comments.as_ref());
        let lists = Distributions::static_default();
        let types = table.column_types();
        // `region` and `nation` are generated as a whole whatever the number of parts: each part
        // takes the one row that has its number.
        let (skipped, taken) = match part_count {
            1 => (0, usize::MAX),
            _ => (nandu_base::to_index(u64::from(part.unsigned_abs())) - 1, 1),
        };
        match table {
            TpchTable::Region => {
                let all = RegionGenerator::new_with_distributions_and_text_pool(lists, pool);
                emit(all.iter().skip(skipped).take(taken), types, line, sink)
            }
            TpchTable::Nation => {
                let all = NationGenerator::new_with_distributions_and_text_pool(lists, pool);
                emit(all.iter().skip(skipped).take(taken), types, line, sink)
            }
            TpchTable::Part => {
                let all = PartGenerator::new_with_distributions_and_text_pool(
                    sf, part, part_count, lists, pool,
                );
                emit(all.iter(), types, line, sink)
            }
            TpchTable::Supplier => {
                let all = SupplierGenerator::new_with_distributions_and_text_pool(
                    sf, part, part_count, lists, pool,
                );
                emit(all.iter(), types, line, sink)
            }
            TpchTable::Customer => {
                let all = CustomerGenerator::new_with_distributions_and_text_pool(
                    sf, part, part_count, lists, pool,
                );
                emit(all.iter(), types, line, sink)
            }
            TpchTable::Orders => {
                let all = OrderGenerator::new_with_distributions_and_text_pool(
                    sf, part, part_count, lists, pool,
                );
                emit(all.iter(), types, line, sink)
            }
            TpchTable::LineItem => {
                let all = LineItemGenerator::new_with_distributions_and_text_pool(
                    sf, part, part_count, lists, pool,
                );
                emit(all.iter(), types, line, sink)
            }
            TpchTable::PartSupp => {
                let all = PartSuppGenerator::new_with_text_pool(sf, part, part_count, pool);
                emit(all.iter(), types, line, sink)
            }
        }
    }
}

impl RowSource for TpchRows {
    fn next_rows(&mut self, sink: &mut RowSink<'_>) -> Result<bool, LoadError> {
        let part_of = |unit: i64| i32::try_from(unit + 1).expect("checked when it was made");
        let Some(permutation) = self.permutation.clone() else {
            // The last part has what is left over, so its units are at most twice as many.
            let part_count = (self.unit_count / UNITS_AT_ONCE).max(1);
            let part = self.next_unit;
            self.next_unit += 1;
            self.emit_part(part_of(part), part_of(part_count - 1), sink)?;
            return Ok(self.next_unit < part_count);
        };
        let end = (self.next_unit + RANDOM_UNITS_AT_ONCE).min(self.unit_count);
        while self.next_unit < end {
            let unit = permutation.apply(self.next_unit.unsigned_abs()).cast_signed();
            self.next_unit += 1;
            self.emit_part(part_of(unit), part_of(self.unit_count - 1), sink)?;
        }
        Ok(self.next_unit < self.unit_count)
    }

    fn fraction(&self) -> f64 {
        let step_count = match self.permutation {
            Some(_) => self.unit_count,
            None => (self.unit_count / UNITS_AT_ONCE).max(1),
        };
        self.next_unit as f64 / step_count as f64
    }
}

/// Hands rows over by way of their text: `value|value|…|`.
fn emit<R: Display>(
    rows: impl Iterator<Item = R>,
    types: &[(&str, ColumnType)],
    line: &mut String,
    sink: &mut RowSink<'_>,
) -> Result<(), LoadError> {
    for row in rows {
        line.clear();
        write!(line, "{row}").expect("a string takes any text");
        let mut values = [ValueRef::Null; COLUMN_COUNT_MAX];
        let fields = line.as_bytes().split(|&byte| byte == b'|');
        for ((value, &(_, column_type)), field) in values.iter_mut().zip(types).zip(fields) {
            *value = match column_type {
                ColumnType::Integer => ValueRef::Integer(parse_integer(field)),
                ColumnType::Real => ValueRef::Real(parse_decimal(field)),
                ColumnType::Text | ColumnType::Blob => ValueRef::Text(field),
            };
        }
        sink(&values[..types.len()])?;
    }
    Ok(())
}

/// A number that the generator wrote: digits only.
fn parse_integer(field: &[u8]) -> i64 {
    field.iter().fold(0, |number, &digit| number * 10 + i64::from(digit - b'0'))
}

#[cfg(test)]
mod tests;
