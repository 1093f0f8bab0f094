//! Values of expressions, and how one kind becomes another (sections 3.4, 4.2 to 4.4).

use super::fragment::{Fragment, Node};
use super::tree::Comparison;
use crate::format::DocumentFormat;

/// What an expression is worth.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nodes, in the order of the document, each once.
    Nodes(Vec<Node>),
    /// True or false.
    Boolean(bool),
    /// A number of double precision, perhaps none.
    Number(f64),
    /// A string.
    Text(String),
}

impl Value {
    /// Which kind of value it is.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Nodes(_) => "nodes",
            Self::Boolean(_) => "boolean",
            Self::Number(_) => "number",
            Self::Text(_) => "string",
        }
    }

    /// As true or false.
    #[must_use]
    pub fn boolean(&self) -> bool {
        match self {
            Self::Nodes(nodes) => !nodes.is_empty(),
            Self::Boolean(boolean) => *boolean,
            Self::Number(number) => *number != 0.0 && !number.is_nan(),
            Self::Text(text) => !text.is_empty(),
        }
    }

    /// As a number.
    #[must_use]
    pub fn number(&self, fragment: &Fragment) -> f64 {
        match self {
            Self::Nodes(_) => fragment.number_of(&self.text(fragment)),
            Self::Boolean(boolean) => f64::from(u8::from(*boolean)),
            Self::Number(number) => *number,
            Self::Text(text) => fragment.number_of(text),
        }
    }

    /// As a string: of nodes, that of the first.
    #[must_use]
    pub fn text(&self, fragment: &Fragment) -> String {
        match self {
            Self::Nodes(nodes) => {
                nodes.first().map_or_else(String::new, |&first| fragment.string(first))
            }
            Self::Boolean(boolean) => boolean.to_string(),
            Self::Number(number) => text_of(*number),
            Self::Text(text) => text.clone(),
        }
    }

    /// Whether `self` and `other` compare so; of nodes one is enough.
    #[must_use]
    pub fn compares(&self, comparison: Comparison, other: &Self, fragment: &Fragment) -> bool {
        let strings = |nodes: &[Node]| -> Vec<String> {
            nodes.iter().map(|&node| fragment.string(node)).collect()
        };
        match (self, other) {
            // Nodes beside true or false are one value.
            (Self::Nodes(_), Self::Boolean(_)) | (Self::Boolean(_), Self::Nodes(_)) => {
                comparison.of_booleans(self.boolean(), other.boolean())
            }
            (Self::Nodes(left), Self::Nodes(right)) => {
                let right = strings(right);
                { left.iter() }.any(|&node| {
                    let left = fragment.string(node);
                    right.iter().any(|right| comparison.of_texts((&left, right), fragment))
                })
            }
            (Self::Nodes(nodes), Self::Number(number)) => { nodes.iter() }.any(|&node| {
                comparison.of_numbers(fragment.number_of(&fragment.string(node)), *number)
            }),
            (Self::Number(number), Self::Nodes(nodes)) => { nodes.iter() }.any(|&node| {
                comparison.of_numbers(*number, fragment.number_of(&fragment.string(node)))
            }),
            (Self::Nodes(nodes), Self::Text(text)) => nodes
                .iter()
                .any(|&node| comparison.of_texts((&fragment.string(node), text), fragment)),
            (Self::Text(text), Self::Nodes(nodes)) => nodes
                .iter()
                .any(|&node| comparison.of_texts((text, &fragment.string(node)), fragment)),
            // Which is less is a question of numbers (section 3.4).
            (Self::Boolean(_), _) | (_, Self::Boolean(_))
                if matches!(comparison, Comparison::Equal | Comparison::Unequal) =>
            {
                comparison.of_booleans(self.boolean(), other.boolean())
            }
            (Self::Text(left), Self::Text(right)) => comparison.of_texts((left, right), fragment),
            _ => comparison.of_numbers(self.number(fragment), other.number(fragment)),
        }
    }
}

impl Comparison {
    #[allow(clippy::float_cmp, reason = "numbers are equal where they are the same")]
    fn of_numbers(self, left: f64, right: f64) -> bool {
        match self {
            Self::Equal => left == right,
            Self::Unequal => left != right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        }
    }

    /// Only whether they are the same is a question of strings; which is less, of numbers.
    fn of_texts(self, (left, right): (&str, &str), fragment: &Fragment) -> bool {
        match self {
            Self::Equal => left == right,
            Self::Unequal => left != right,
            _ => self.of_numbers(fragment.number_of(left), fragment.number_of(right)),
        }
    }

    fn of_booleans(self, left: bool, right: bool) -> bool {
        self.of_numbers(f64::from(u8::from(left)), f64::from(u8::from(right)))
    }
}

/// The number that a string is; not a number, if it is none. There is no plus, and an exponent only in
/// documents of JSON, whose numbers have some.
#[must_use]
pub(crate) fn number_of(text: &str, format: DocumentFormat) -> f64 {
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match format {
        DocumentFormat::Xml => (digits, None),
        DocumentFormat::Json => match digits.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (digits, None),
        },
    };
    let has_digits = |text: &str| text.bytes().any(|byte| byte.is_ascii_digit());
    let is_number = mantissa.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && has_digits(mantissa)
        && exponent.is_none_or(has_digits);
    match is_number {
        // It has only characters of numbers before the exponent, so it is no other word for one.
        true => text.parse().unwrap_or(f64::NAN),
        false => f64::NAN,
    }
}

/// A number as a string: without an exponent, and zero without a sign.
#[must_use]
pub(super) fn text_of(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() }
    } else if number == 0.0 {
        "0".to_owned()
    } else {
        number.to_string()
    }
}
