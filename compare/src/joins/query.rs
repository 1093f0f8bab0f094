//! What is asked: the join of S001 with full tuples, and three that a column store is good at.
//!
//! 1. Every query joins two tables by one integer and answers with one row; `peers/harness.py` has
//!    the SQL, [`super::nandu`] the same by hand.
//! 2. All but the wide one answer with the count of the pairs and a sum of money in cents, of one
//!    column of either table.

use serde::{Deserialize, Serialize};

/// A query.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Query {
    /// Customer and orders, every column of both.
    Wide,
    /// The same tables, one column of either beside the key.
    Narrow,
    /// Orders and lineitem, one column of either: the larger join, few columns of many.
    Lineitem,
    /// Customer and orders of few customers, one column of either.
    Skewed,
}

/// The tables that there are, in the order in which they are made.
pub(crate) const TABLES: [&str; 4] = ["customer", "orders", "lineitem", "skewed"];

impl Query {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Wide, Self::Narrow, Self::Lineitem, Self::Skewed];

    /// As it is called on the command line and in results.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Narrow => "narrow",
            Self::Lineitem => "lineitem",
            Self::Skewed => "skewed",
        }
    }

    /// The smaller table, then the other one.
    pub(crate) const fn tables(self) -> [&'static str; 2] {
        match self {
            Self::Wide | Self::Narrow => ["customer", "orders"],
            Self::Lineitem => ["orders", "lineitem"],
            Self::Skewed => ["customer", "skewed"],
        }
    }

    /// The places of the key in both tables.
    pub(crate) const fn keys(self) -> [usize; 2] {
        match self {
            Self::Wide | Self::Narrow | Self::Skewed => [0, 1],
            Self::Lineitem => [0, 0],
        }
    }

    /// The places of the money that is summed, in both tables.
    pub(crate) const fn money(self) -> [usize; 2] {
        match self {
            Self::Wide | Self::Narrow | Self::Skewed => [5, 3],
            Self::Lineitem => [3, 5],
        }
    }

    /// What it asks, for the head of a table.
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Wide => "every column of customer and orders",
            Self::Narrow => "customer and orders, the sum of one column of either",
            Self::Lineitem => "orders and lineitem, the sum of one column of either",
            Self::Skewed => {
                "customer and orders with few customers (o_custkey 1 + n u^4, u uniform), the sum of \
                 one column of either"
            }
        }
    }
}
