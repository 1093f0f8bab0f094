//! What holds of each element in which an expression finds anything: paths from it to values, and what
//! these are.
//!
//! ```text
//!   self::node()[@id = 7 and total > 5]/child::item[name = "nut" or name = "bolt"]/…
//!     1  attribute::id = 7
//!     2  child::total > 5
//!     3  child::item/child::name = "nut"   or   child::item/child::name = "bolt"
//! ```
//!
//! 1. Each condition is necessary, none of them or all of them sufficient. Predicates within a path of a
//!    condition are left out of it.

use super::tree::{Axis, Comparison, Expression, Function, NodeTest, Step};
use super::value::number_of;
use crate::format::DocumentFormat;
use crate::index::Sought;
use std::ops::Bound;

/// One of several things, of which one holds: from the element to values by these steps, and what one of
/// these is.
#[derive(Clone, Debug)]
pub(super) struct Alternative<'e> {
    pub(super) path: Vec<&'e Step>,
    pub(super) sought: Sought<'e>,
}

/// The conditions of a path from an element: of each one some alternative holds.
pub(super) fn conditions(steps: &[Step], format: DocumentFormat) -> Vec<Vec<Alternative<'_>>> {
    let mut conditions = Vec::new();
    let mut path: Vec<&Step> = Vec::new();
    for step in steps {
        if !leads_down(step) {
            break;
        }
        path.push(step);
        for predicate in &step.predicates {
            put_conditions(predicate, (&path, format), &mut conditions);
        }
    }
    conditions
}

/// Whether a step leads down from a node, or stays there.
const fn leads_down(step: &Step) -> bool {
    matches!(
        step.axis,
        Axis::Attribute | Axis::Child | Axis::Descendant | Axis::DescendantOrSelf | Axis::SelfNode
    )
}

fn put_conditions<'e>(
    predicate: &'e Expression,
    place: (&[&'e Step], DocumentFormat),
    conditions: &mut Vec<Vec<Alternative<'e>>>,
) {
    match predicate {
        Expression::And(operands) => {
            operands.iter().for_each(|operand| put_conditions(operand, place, conditions));
        }
        Expression::Or(operands) => {
            let alternatives = operands.iter().map(|operand| alternative(operand, place));
            conditions.extend(alternatives.collect::<Option<Vec<_>>>());
        }
        operand => conditions.extend(alternative(operand, place).map(|it| vec![it])),
    }
}

/// What a comparison says of a value.
fn alternative<'e>(
    operand: &'e Expression,
    (path, format): (&[&'e Step], DocumentFormat),
) -> Option<Alternative<'e>> {
    let (value, sought) = match operand {
        Expression::Compare(left, others) => {
            let [(comparison, right)] = &others[..] else { return None };
            sought(left, (*comparison, format), right)
                .or_else(|| sought(right, (comparison.turned(), format), left))?
        }
        Expression::Call(Function::StartsWith, arguments) => match &arguments[..] {
            [value, Expression::Text(text)] if !text.is_empty() => (value, Sought::Beginning(text)),
            _ => return None,
        },
        _ => return None,
    };
    let Expression::Path(own) = value else { return None };
    if own.from_document || !own.steps.iter().all(leads_down) {
        return None;
    }
    let path = path.iter().copied().chain(&own.steps).collect();
    Some(Alternative { path, sought })
}

/// A value, and what it is if it compares so with a literal.
fn sought<'e>(
    value: &'e Expression,
    (comparison, format): (Comparison, DocumentFormat),
    literal: &'e Expression,
) -> Option<(&'e Expression, Sought<'e>)> {
    if let (Comparison::Equal, Expression::Text(text)) = (comparison, literal) {
        return Some((value, Sought::Text(text)));
    }
    let number = match literal {
        Expression::Number(number) => *number,
        // Which is less is a question of numbers.
        Expression::Text(text) => number_of(text, format),
        Expression::Negated(negated) => match **negated {
            Expression::Number(number) => -number,
            _ => return None,
        },
        _ => return None,
    };
    if number.is_nan() {
        return None;
    }
    let (least, greatest) = match comparison {
        Comparison::Equal => (Bound::Included(number), Bound::Included(number)),
        Comparison::Less => (Bound::Unbounded, Bound::Excluded(number)),
        Comparison::LessOrEqual => (Bound::Unbounded, Bound::Included(number)),
        Comparison::Greater => (Bound::Excluded(number), Bound::Unbounded),
        Comparison::GreaterOrEqual => (Bound::Included(number), Bound::Unbounded),
        Comparison::Unequal => return None,
    };
    Some((value, Sought::Numbers(least, greatest)))
}

/// Whether a step leads to texts.
pub(super) fn is_of_texts(step: &Step) -> bool {
    step.axis == Axis::Child && step.test == NodeTest::Text
}
