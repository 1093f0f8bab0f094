//! The joins by name.

use super::roles::{Alone, Roles};
use super::{JoinType, Side};
use crate::QueryError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A way to join two tables. To add one: a sibling file here, its cost, and a line in each function below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JoinKind {
    /// The inner table is scanned for each outer tuple.
    NestedLoops,
    /// The inner table is scanned for each chunk of hashed outer tuples.
    BlockNestedLoops,
    /// The inner table's index is descended for each outer tuple.
    IndexNestedLoops,
    /// The indexes of both tables are walked side by side.
    IndexSortMerge,
    /// Both tables are sorted, then merged.
    SortMerge,
    /// Both tables are partitioned, then joined bucket by bucket.
    GraceHash,
    /// As Grace hash, but one bucket never leaves memory.
    HybridHash,
    /// The keys are joined; what else is wanted is fetched for the pairs, batch by batch.
    FlashJoin,
    /// The same, fetched in one pass over each table.
    RareJoin,
}

impl JoinKind {
    /// All joins, in the order in which they are explained.
    pub const ALL: [Self; 9] = [
        Self::NestedLoops,
        Self::BlockNestedLoops,
        Self::IndexNestedLoops,
        Self::IndexSortMerge,
        Self::SortMerge,
        Self::GraceHash,
        Self::HybridHash,
        Self::FlashJoin,
        Self::RareJoin,
    ];

    /// Whether it does a type of join with this side as outer one: joins that look rows of the other side up,
    /// or meet them again for each chunk, do not know which of those nobody met.
    #[must_use]
    pub fn does(self, join_type: JoinType, outer: Side) -> bool {
        match self {
            Self::NestedLoops | Self::BlockNestedLoops | Self::IndexNestedLoops => {
                Roles::of(join_type, outer.other()).build == Alone::Never
            }
            Self::IndexSortMerge
            | Self::SortMerge
            | Self::GraceHash
            | Self::HybridHash
            | Self::FlashJoin
            | Self::RareJoin => true,
        }
    }

    /// The name that users write and read.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NestedLoops => "nested_loops",
            Self::BlockNestedLoops => "block_nested_loops",
            Self::IndexNestedLoops => "index_nested_loops",
            Self::IndexSortMerge => "index_sort_merge",
            Self::SortMerge => "sort_merge",
            Self::GraceHash => "grace_hash",
            Self::HybridHash => "hybrid_hash",
            Self::FlashJoin => "flash_join",
            Self::RareJoin => "rare_join",
        }
    }
}

impl fmt::Display for JoinKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for JoinKind {
    type Err = QueryError;

    /// # Errors
    /// [`QueryError::Invalid`] with all names.
    fn from_str(name: &str) -> Result<Self, QueryError> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
            QueryError::Invalid {
                what: format!("no join is called `{name}`; there are {}", names.join(", ")),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_join_is_found_by_its_name() {
        for kind in JoinKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert_eq!(kind.to_string(), kind.name());
        }
    }

    #[test]
    fn an_unknown_join_is_answered_with_all_names() {
        let told = "hash".parse::<JoinKind>().unwrap_err().to_string();
        assert!(told.starts_with("no join is called `hash`; there are nested_loops, "));
        for kind in JoinKind::ALL {
            assert!(told.contains(kind.name()));
        }
    }
}
