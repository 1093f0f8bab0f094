//! The joins by name, and how each divides its memory.
//!
//! 1. There is one list of joins, `joins!`. Both enums follow from it, and the tests that every join has to
//!    pass go through [`JoinKind::ALL`] and the planner.
//! 2. What differs between joins stands beside each, as its [`JoinPlan`].

use crate::QueryError;
use crate::allocation;
use crate::cost::join::{FlashMemory, IndexMergeMemory, RareMemory};
use crate::cost::{CostModel, Estimate, JoinQuestion};
use crate::join::{JoinType, Side};
use crate::plan::joins::{IndexLoopsMemory, JoinPlan, LoopsMemory};
use crate::plan::{Budget, Rejection};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Makes both enums out of the one list of joins.
macro_rules! joins {
    ($($(#[$doc:meta])* $kind:ident($division:ty) = $name:literal;)+) => {
        /// A way to join two tables.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum JoinKind {
            $($(#[$doc])* #[serde(rename = $name)] $kind,)+
        }

        /// How a plan divides its memory among the parts of its join.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        pub enum Division {
            $($(#[$doc])* #[serde(rename = $name)] $kind($division),)+
        }

        impl JoinKind {
            /// All joins, in the order in which they are explained.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$kind,)+];

            /// The name that users write and read.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }

            /// Whether it does a type of join with this side as outer one.
            #[must_use]
            pub fn does(self, join_type: JoinType, outer: Side) -> bool {
                match self {
                    $(Self::$kind => <$division as JoinPlan>::does(join_type, outer),)+
                }
            }

            /// Whether several workers can divide it.
            #[must_use]
            pub fn is_shared(self) -> bool {
                match self {
                    $(Self::$kind => <$division as JoinPlan>::is_shared(),)+
                }
            }

            /// Whether it is tried with the sides as they are, swapped, or both.
            pub(crate) fn roles(self, question: &JoinQuestion) -> &'static [bool] {
                match self {
                    $(Self::$kind => <$division as JoinPlan>::roles(question),)+
                }
            }

            /// Divisions of the budget's memory that are worth a look, each with its cost.
            pub(crate) fn candidates(
                self,
                model: &CostModel<'_>,
                question: &JoinQuestion,
                budget: &Budget,
            ) -> Result<Vec<(Division, Estimate)>, Rejection> {
                match self {
                    $(Self::$kind => {
                        let found = <$division as JoinPlan>::candidates(model, question, budget)?;
                        let named = found.into_iter();
                        Ok(named.map(|(parts, cost)| (Division::$kind(parts), cost)).collect())
                    })+
                }
            }
        }

        impl Division {
            /// What the join says of it.
            pub(crate) const fn join(&self) -> &dyn JoinPlan {
                match self {
                    $(Self::$kind(parts) => parts,)+
                }
            }
        }
    };
}

// Plans of equal cost come in this order.
joins! {
    /// The inner table is scanned for each outer tuple.
    NestedLoops(LoopsMemory) = "nested_loops";
    /// The inner table is scanned for each chunk of hashed outer tuples.
    BlockNestedLoops(allocation::BlockNestedLoops) = "block_nested_loops";
    /// The inner table's index is descended for each outer tuple.
    IndexNestedLoops(IndexLoopsMemory) = "index_nested_loops";
    /// The indexes of both tables are walked side by side.
    IndexSortMerge(IndexMergeMemory) = "index_sort_merge";
    /// Both tables are sorted, then merged.
    SortMerge(allocation::SortMerge) = "sort_merge";
    /// Both tables are partitioned, then joined bucket by bucket.
    GraceHash(allocation::GraceHash) = "grace_hash";
    /// As Grace hash, but one bucket never leaves memory.
    HybridHash(allocation::HybridHash) = "hybrid_hash";
    /// The keys are joined; what else is wanted is fetched for the pairs, batch by batch.
    FlashJoin(FlashMemory) = "flash_join";
    /// The same, fetched in one pass over each table.
    RareJoin(RareMemory) = "rare_join";
}

impl Division {
    /// Into how many runs or buckets the join writes; 0 if it never does.
    #[must_use]
    pub fn part_count(&self) -> u64 {
        self.join().part_count()
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
