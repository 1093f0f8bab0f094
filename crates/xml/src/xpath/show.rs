//! Prints expressions, with axes written out.
//!
//! Brackets are set wherever an operand has operators, so that precedence need not be known.

use super::tree::{Comparison, Expression, Name, NodeTest, Operator, Path, Step};
use std::fmt;

/// An operand: in brackets, if it has operators of its own.
struct Operand<'e>(&'e Expression);

impl fmt::Display for Operand<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // A star after it would be a step.
            Expression::Path(path) if path.steps.is_empty() => write!(formatter, "({})", self.0),
            Expression::Path(_)
            | Expression::From { .. }
            | Expression::Call(..)
            | Expression::Text(_)
            | Expression::Number(_) => self.0.fmt(formatter),
            _ => write!(formatter, "({})", self.0),
        }
    }
}

fn list(formatter: &mut fmt::Formatter<'_>, operands: &[Expression], between: &str) -> fmt::Result {
    for (number, operand) in operands.iter().enumerate() {
        let before = if number == 0 { "" } else { between };
        write!(formatter, "{before}{}", Operand(operand))?;
    }
    Ok(())
}

fn steps(formatter: &mut fmt::Formatter<'_>, steps: &[Step]) -> fmt::Result {
    for (number, step) in steps.iter().enumerate() {
        let before = if number == 0 { "" } else { "/" };
        write!(formatter, "{before}{step}")?;
    }
    Ok(())
}

impl fmt::Display for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Or(operands) => list(formatter, operands, " or "),
            Self::And(operands) => list(formatter, operands, " and "),
            Self::Union(operands) => list(formatter, operands, " | "),
            Self::Compare(first, others) => {
                write!(formatter, "{}", Operand(first))?;
                { others.iter() }.try_for_each(|(comparison, other)| {
                    write!(formatter, " {} {}", comparison.sign(), Operand(other))
                })
            }
            Self::Arithmetic(first, others) => {
                write!(formatter, "{}", Operand(first))?;
                { others.iter() }.try_for_each(|(operator, other)| {
                    write!(formatter, " {} {}", operator.sign(), Operand(other))
                })
            }
            Self::Negated(operand) => write!(formatter, "-{}", Operand(operand)),
            Self::Path(Path { from_document, steps: its }) => {
                formatter.write_str(if *from_document { "/" } else { "" })?;
                steps(formatter, its)
            }
            Self::From { start, predicates, steps: its } => {
                write!(formatter, "({start})")?;
                predicates.iter().try_for_each(|it| write!(formatter, "[{it}]"))?;
                formatter.write_str(if its.is_empty() { "" } else { "/" })?;
                steps(formatter, its)
            }
            Self::Call(function, arguments) => {
                write!(formatter, "{}(", function.label())?;
                for (number, argument) in arguments.iter().enumerate() {
                    let before = if number == 0 { "" } else { ", " };
                    write!(formatter, "{before}{argument}")?;
                }
                formatter.write_str(")")
            }
            Self::Text(text) => {
                let quote = if text.contains('"') { '\'' } else { '"' };
                write!(formatter, "{quote}{text}{quote}")
            }
            // A literal with more digits than any number has; no shorter one reads as infinity.
            Self::Number(number) if number.is_infinite() => write!(formatter, "1{:0<309}", ""),
            Self::Number(number) => write!(formatter, "{number}"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}::{}", self.axis.label(), self.test)?;
        self.predicates.iter().try_for_each(|it| write!(formatter, "[{it}]"))
    }
}

impl fmt::Display for NodeTest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(formatter),
            Self::AnyName => formatter.write_str("*"),
            Self::AnyOf { prefix } => write!(formatter, "{prefix}:*"),
            Self::Node => formatter.write_str("node()"),
            Self::Text => formatter.write_str("text()"),
            Self::Comment => formatter.write_str("comment()"),
            Self::Instruction(None) => formatter.write_str("processing-instruction()"),
            Self::Instruction(Some(target)) => {
                let quote = if target.contains('"') { '\'' } else { '"' };
                write!(formatter, "processing-instruction({quote}{target}{quote})")
            }
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.prefix {
            Some(prefix) => write!(formatter, "{prefix}:{}", self.local),
            None => formatter.write_str(&self.local),
        }
    }
}

impl Comparison {
    const fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Unequal => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

impl Operator {
    const fn sign(self) -> &'static str {
        match self {
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Times => "*",
            Self::Divided => "div",
            Self::Remainder => "mod",
        }
    }
}
