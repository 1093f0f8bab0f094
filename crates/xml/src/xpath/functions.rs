//! The core library of functions (section 4), but `id`, which needs a document type.

use super::evaluate::{Context, Question, Refusal, invalid};
use super::fragment::{FragmentKind, Node};
use super::tree::{Expression, Function};
use super::value::Value;
use crate::vocabulary::Name;

type Answer<T> = Result<T, Refusal>;

/// What a function gives for its arguments, of which there are as many as it takes.
pub(super) fn call(
    question: &Question<'_>,
    function: Function,
    arguments: &[Expression],
    at: Context,
) -> Answer<Value> {
    let text = |number: usize| question.text(&arguments[number], at);
    let number = |argument: usize| question.number(&arguments[argument], at);
    // The first argument, or the node at hand.
    let own_text = || match arguments {
        [] => Ok(question.fragment.string(at.node)),
        _ => text(0),
    };
    Ok(match function {
        Function::Last => Value::Number(at.size as f64),
        Function::Position => Value::Number(at.position as f64),
        Function::Count => Value::Number(question.nodes(&arguments[0], at)?.len() as f64),
        Function::LocalName | Function::NamespaceUri | Function::Name => {
            Value::Text(named(question, function, arguments, at)?)
        }
        Function::String => Value::Text(own_text()?),
        Function::Concat => {
            let texts = arguments.iter().map(|argument| question.text(argument, at));
            Value::Text(texts.collect::<Answer<String>>()?)
        }
        Function::StartsWith => Value::Boolean(text(0)?.starts_with(&text(1)?)),
        Function::Contains => Value::Boolean(text(0)?.contains(&text(1)?)),
        Function::SubstringBefore => {
            let (whole, part) = (text(0)?, text(1)?);
            Value::Text(whole.split_once(&part).map_or(String::new(), |(before, _)| before.into()))
        }
        Function::SubstringAfter => {
            let (whole, part) = (text(0)?, text(1)?);
            Value::Text(whole.split_once(&part).map_or(String::new(), |(_, after)| after.into()))
        }
        Function::Substring => {
            let length = if arguments.len() == 3 { Some(number(2)?) } else { None };
            Value::Text(substring(&text(0)?, number(1)?, length))
        }
        Function::StringLength => Value::Number(own_text()?.chars().count() as f64),
        Function::NormalizeSpace => {
            let words = |text: &str| {
                let is_space = |it: char| matches!(it, ' ' | '\t' | '\r' | '\n');
                text.split(is_space).filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" ")
            };
            Value::Text(words(&own_text()?))
        }
        Function::Translate => Value::Text(translate(&text(0)?, &text(1)?, &text(2)?)),
        Function::Boolean => Value::Boolean(question.value(&arguments[0], at)?.boolean()),
        Function::Not => Value::Boolean(!question.value(&arguments[0], at)?.boolean()),
        Function::True => Value::Boolean(true),
        Function::False => Value::Boolean(false),
        Function::Lang => Value::Boolean(is_in_language(question, at.node, &text(0)?)),
        Function::Number => Value::Number(match arguments {
            [] => question.fragment.number_of(&question.fragment.string(at.node)),
            _ => number(0)?,
        }),
        Function::Sum => {
            let nodes = question.nodes(&arguments[0], at)?;
            let fragment = question.fragment;
            let numbers = nodes.iter().map(|&node| fragment.number_of(&fragment.string(node)));
            // A sum of none is no negative zero.
            Value::Number(numbers.fold(0.0, |sum, it| sum + it))
        }
        Function::Floor => Value::Number(number(0)?.floor()),
        Function::Ceiling => Value::Number(number(0)?.ceil()),
        Function::Round => Value::Number(round(number(0)?)),
    })
}

/// Parts of the name of the first node of the argument, or of the node at hand.
fn named(
    question: &Question<'_>,
    function: Function,
    arguments: &[Expression],
    at: Context,
) -> Answer<String> {
    let node = match arguments {
        [] => Some(at.node),
        [nodes, ..] => question.nodes(nodes, at)?.first().copied(),
    };
    let Some(node) = node else { return Ok(String::new()) };
    let name = question.fragment.name(node);
    Ok(match function {
        Function::LocalName => name.local.clone(),
        Function::NamespaceUri => name.namespace.clone(),
        Function::Name => name.written(),
        _ => return invalid("no other function tells names"),
    })
}

/// Characters from one place on, for so many; both are rounded, places count from 1.
fn substring(text: &str, from: f64, length: Option<f64>) -> String {
    let begin = round(from);
    let end = length.map_or(f64::INFINITY, |length| begin + round(length));
    let is_in = |place: f64| place >= begin && place < end;
    { text.chars().zip(1_u32..) }
        .filter(|&(_, place)| is_in(f64::from(place)))
        .map(|(character, _)| character)
        .collect()
}

/// The nearest integer, the greater one of two; a zero keeps the sign of what is rounded.
fn round(number: f64) -> f64 {
    // A half that is added to what has no fraction could round up.
    match number.fract() {
        0.0 => number,
        _ => (number + 0.5).floor().copysign(number),
    }
}

/// Characters of `from` become those of `to` in the same place, or go where there are none.
fn translate(text: &str, from: &str, to: &str) -> String {
    let to: Vec<char> = to.chars().collect();
    { text.chars() }
        .filter_map(|character| match from.chars().position(|it| it == character) {
            Some(place) => to.get(place).copied(),
            None => Some(character),
        })
        .collect()
}

/// Whether the nearest `xml:lang` is `language`, or a language of it.
fn is_in_language(question: &Question<'_>, node: Node, language: &str) -> bool {
    let fragment = question.fragment;
    let is_lang = |&attribute: &Node| {
        let Name { prefix, local, .. } = fragment.name(attribute);
        prefix == "xml" && local == "lang"
    };
    let mut at = Some(node);
    while let Some(node) = at {
        if fragment.kind(node) == FragmentKind::Element
            && let Some(attribute) = fragment.attributes(node).find(is_lang)
        {
            let (own, wanted) =
                (fragment.own_text(attribute).to_lowercase(), language.to_lowercase());
            return own == wanted || own.starts_with(&format!("{wanted}-"));
        }
        at = fragment.parent(node);
    }
    false
}
