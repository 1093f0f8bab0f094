//! Joins: siblings of equal shape behind [`JoinStream`].
//!
//! ```text
//!   Join { left, right, kind of join, by which keys }
//!      │ open(JoinKind)
//!      ▼
//!   JoinStream ──advance()──► batch(): pairs of addresses into the rows of both sides
//! ```
//!
//! 1. Every kind gives the same pairs, each as often as SQL says, in an order of its own.
//! 2. NULL equals nothing: a row with a NULL in its key has no partner.
//! 3. A stream holds the memory of its settings at most, and for each of its inputs one row.

pub mod block_nested_loops;
pub(crate) mod buckets;
pub mod flash_join;
pub mod grace_hash;
pub(crate) mod hash_table;
pub mod hybrid_hash;
pub mod index_nested_loops;
pub mod index_sort_merge;
mod late;
pub mod nested_loops;
pub mod rare_join;
pub(crate) mod roles;
pub(crate) mod row_store;
pub mod sort_merge;
pub(crate) mod split;
pub(crate) mod workers;

pub use block_nested_loops::BlockNestedLoops;
pub use flash_join::FlashJoin;
pub use grace_hash::GraceHash;
pub use hybrid_hash::HybridHash;
pub use index_nested_loops::IndexNestedLoops;
pub use index_sort_merge::IndexSortMerge;
pub use nested_loops::NestedLoops;
pub use rare_join::RareJoin;
pub use sort_merge::SortMerge;
pub use workers::PairSink;
pub use workers::columns::{ColumnPairs, ColumnSink};

use crate::key::KeyColumn;
pub use crate::kind::JoinKind;
use crate::tuple::PairBatch;
pub use crate::tuple::Side;
use crate::{Key, QueryError, Relation};
use nandu_base::words::counted;
use nandu_storage::database::{ColumnType, TableDefinition};
use serde::{Deserialize, Serialize};

/// Which rows a join gives: pairs, or rows of one side with or without partners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JoinType {
    /// Pairs of rows whose keys are equal.
    #[default]
    Inner,
    /// Pairs, and rows of the left side without a partner.
    Left,
    /// Pairs, and rows of the right side without a partner.
    Right,
    /// Pairs, and rows of either side without a partner.
    Full,
    /// Rows of the left side with a partner, once each.
    Semi,
    /// Rows of the left side without a partner.
    Anti,
}

/// One side of a join.
#[derive(Clone, Copy)]
pub struct JoinInput<'r> {
    /// The relation whose rows are joined.
    pub relation: &'r dyn Relation,
    /// The columns of a row that are compared.
    pub key: &'r Key,
}

/// What is to be joined.
#[derive(Clone, Copy)]
pub struct Join<'r> {
    /// The left side.
    pub left: JoinInput<'r>,
    /// The right side.
    pub right: JoinInput<'r>,
    /// Which rows come out.
    pub join_type: JoinType,
}

/// Pairs as they come.
pub trait JoinStream {
    /// Goes on to the next pairs, perhaps none; false at the end.
    ///
    /// # Errors
    /// If the device fails, what it stores is damaged, the write budget is used up, or the user asked
    /// to stop.
    fn advance(&mut self) -> Result<bool, QueryError>;

    /// The pairs at hand: none before the first call of [`Self::advance`] and at the end.
    fn batch(&self) -> PairBatch<'_>;
}

impl JoinType {
    /// All types of join, in the order in which they are explained.
    pub const ALL: [Self; 6] =
        [Self::Inner, Self::Left, Self::Right, Self::Full, Self::Semi, Self::Anti];

    /// Whether pairs come out, not rows of the left side alone.
    #[must_use]
    pub const fn has_pairs(self) -> bool {
        !matches!(self, Self::Semi | Self::Anti)
    }

    /// Its name in explanations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inner => "inner",
            Self::Left => "left",
            Self::Right => "right",
            Self::Full => "full",
            Self::Semi => "semi",
            Self::Anti => "anti",
        }
    }
}

impl<'r> Join<'r> {
    /// The relation and key of one side of the join.
    #[must_use]
    pub const fn input(&self, side: Side) -> JoinInput<'r> {
        match side {
            Side::Left => self.left,
            Side::Right => self.right,
        }
    }

    /// The side with fewer pages.
    #[must_use]
    pub fn smaller_side(&self) -> Side {
        let bytes = |input: &JoinInput<'_>| input.relation.size().cell_bytes;
        if bytes(&self.left) <= bytes(&self.right) { Side::Left } else { Side::Right }
    }

    /// Whether rows of a side come out although they have no partner, so that a NULL in their key is no
    /// reason to drop them.
    pub(crate) const fn keeps_null_keys(&self, side: Side) -> bool {
        match side {
            Side::Left => {
                matches!(self.join_type, JoinType::Left | JoinType::Full | JoinType::Anti)
            }
            Side::Right => matches!(self.join_type, JoinType::Right | JoinType::Full),
        }
    }

    /// Checks that both keys have as many columns.
    ///
    /// # Errors
    /// If not.
    pub fn check(&self) -> Result<(), QueryError> {
        let counts = (self.left.key.column_count(), self.right.key.column_count());
        if counts.0 == counts.1 {
            return Ok(());
        }
        let left = counted(counts.0 as u64, "column");
        let what = format!("a join compares {left} on the left, {} on the right", counts.1);
        Err(QueryError::Invalid { what })
    }
}

/// Checks that keys of two tables hold what can be equal: numbers, texts or blobs on both sides. A join of
/// others would be carried out, and find no pair.
///
/// # Errors
/// The first pair of columns that is never equal.
///
/// # Panics
/// If a table has no such column.
pub fn check_comparable(
    (left, left_key): (&TableDefinition, &Key),
    (right, right_key): (&TableDefinition, &Key),
) -> Result<(), QueryError> {
    let described = |table: &TableDefinition, column: KeyColumn| match column {
        KeyColumn::RowNumber => (format!("the row number of {}", table.name), "numbers"),
        KeyColumn::Stored(column) => {
            let column = &table.columns[column];
            let kind = match column.column_type {
                ColumnType::Integer | ColumnType::Real => "numbers",
                ColumnType::Text => "texts",
                ColumnType::Blob => "blobs",
            };
            (format!("{}.{}", table.name, column.name), kind)
        }
    };
    for (&one, &other) in left_key.columns().iter().zip(right_key.columns()) {
        let ((one, holds), (other, partner_holds)) =
            (described(left, one), described(right, other));
        if holds != partner_holds {
            let what = format!(
                "{one} holds {holds}, {other} {partner_holds}: none of them are ever equal; compare \
                 columns of one kind"
            );
            return Err(QueryError::Invalid { what });
        }
    }
    Ok(())
}

impl std::str::FromStr for JoinType {
    type Err = QueryError;

    /// # Errors
    /// [`QueryError::Invalid`] with all names.
    fn from_str(name: &str) -> Result<Self, QueryError> {
        Self::ALL.into_iter().find(|join_type| join_type.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            QueryError::Invalid {
                what: format!("no join type is called `{name}`; there are {names}"),
            }
        })
    }
}

#[cfg(test)]
mod tests;
