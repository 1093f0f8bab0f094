//! Expressions of `XPath` 1.0 (W3C, 1999) over stored documents.
//!
//! 1. Bad expressions are an error with a column; brackets may lie [`DEPTH_MAX`] deep, a text has
//!    [`TEXT_BYTES_MAX`] at most.
//! 2. What is printed of an expression reads as the same expression.

mod answer;
mod choose;
mod conditions;
mod evaluate;
mod fragment;
mod functions;
mod located;
mod parse;
mod plan;
mod reach;
mod show;
mod tree;
mod value;
mod words;
mod write;

pub use answer::{Found, QueryLimits, locate, query};
pub use choose::{ContainerCosts, FoundElements};
pub use evaluate::{Namespaces, Refusal, evaluate};
pub use fragment::{Fragment, FragmentBuilder, FragmentKind, Node};
pub(crate) use located::Places;
pub use located::{Content, Located};
pub use parse::{DEPTH_MAX, TEXT_BYTES_MAX, parse};
pub use plan::{Access, Fold, Place, QueryPlan};
pub use tree::{Axis, Comparison, Expression, Function, Name, NodeTest, Operator, Path, Step};

pub use value::Value;
pub(crate) use value::number_of;
pub use write::write_node;

use std::fmt;

/// An expression that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// The character where it goes wrong, from 1 on.
    pub column: usize,
    /// What is wrong there, and what would do.
    pub what: String,
}

impl ExpressionError {
    /// At a byte of `text`.
    fn at(text: &str, at: usize, what: String) -> Self {
        Self { column: text[..at].chars().count() + 1, what }
    }
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the expression, column {}: {}", self.column, self.what)
    }
}

impl std::error::Error for ExpressionError {}

#[cfg(test)]
mod tests;
