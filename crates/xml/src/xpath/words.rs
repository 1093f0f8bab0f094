//! The words of an expression, as `XPath` 1.0 cuts them (section 3.7).
//!
//! A name or a star means different things by what is before and after it:
//!
//! | what | where |
//! | --- | --- |
//! | `*`, `and`, `or`, `div`, `mod` are operators | after a word that may end an operand |
//! | a name is that of an axis | before `::` |
//! | a name is that of a function or of a kind of nodes | before `(` |

use super::ExpressionError;

/// A word of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Word<'t> {
    /// A bracket, a comma, an operator, `@`, `.`, `..`, `/`, `//`, `|`, or a star that is a test.
    Sign(&'static str),
    /// A star, `and`, `or`, `div`, `mod` where it is an operator.
    Operator(&'static str),
    /// A name: a prefix, and the rest, which may be a star.
    Name(Option<&'t str>, &'t str),
    /// A name before `::`, which is read, too.
    Axis(&'t str),
    /// A name before `(`, which is not read.
    Called(Option<&'t str>, &'t str),
    Text(&'t str),
    Number(f64),
}

/// A word, and where it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed<'t> {
    pub(super) word: Word<'t>,
    /// The byte with which it begins.
    pub(super) at: usize,
}

/// Signs, of which a longer one comes before its beginning.
const SIGNS: [&str; 20] = [
    "//", "..", "!=", "<=", ">=", "(", ")", "[", "]", "@", ",", "/", "|", "+", "-", "=", "<", ">",
    ".", "*",
];
const NAMED_OPERATORS: [&str; 4] = ["and", "or", "div", "mod"];

/// Cuts an expression into words.
pub(super) fn words(text: &str) -> Result<Vec<Placed<'_>>, ExpressionError> {
    let mut words: Vec<Placed<'_>> = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        let at = text.len() - rest.len();
        let ends_operand = words.last().is_some_and(|last| last.word.may_end_operand());
        let (word, length) = word(rest, ends_operand)
            .map_err(|what| ExpressionError::at(text, at, what.to_owned()))?;
        words.push(Placed { word, at });
        rest = rest[length..].trim_start_matches(is_space);
    }
    Ok(words)
}

const fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

impl Word<'_> {
    /// Whether an operand may end with it, so that a star or a name after it is an operator.
    const fn may_end_operand(self) -> bool {
        match self {
            Self::Sign(sign) => matches!(sign.as_bytes(), b")" | b"]" | b"." | b".." | b"*"),
            Self::Name(..) | Self::Text(_) | Self::Number(_) => true,
            Self::Operator(_) | Self::Axis(_) | Self::Called(..) => false,
        }
    }
}

/// The first word, and its bytes.
fn word(rest: &str, ends_operand: bool) -> Result<(Word<'_>, usize), &'static str> {
    let first = rest.chars().next().expect("something is left");
    if first == '"' || first == '\'' {
        let Some((text, _)) = rest[1..].split_once(first) else {
            return Err("a string begins here and does not end");
        };
        return Ok((Word::Text(text), text.len() + 2));
    }
    if let Some(length) = number_length(rest) {
        let number = rest[..length].parse().map_err(|_| "this is no number")?;
        return Ok((Word::Number(number), length));
    }
    if rest.starts_with('*') && ends_operand {
        return Ok((Word::Operator("*"), 1));
    }
    if let Some(sign) = SIGNS.iter().find(|&&sign| rest.starts_with(sign)) {
        return Ok((Word::Sign(sign), sign.len()));
    }
    let length = name_length(rest);
    match length {
        0 if first == '$' => Err("variables are not known here; write the value"),
        0 => Err("no word begins so"),
        _ => Ok(named(rest, length, ends_operand)),
    }
}

/// What a name of so many bytes is.
fn named(rest: &str, length: usize, ends_operand: bool) -> (Word<'_>, usize) {
    let (name, after) = rest.split_at(length);
    if ends_operand && let Some(operator) = NAMED_OPERATORS.iter().find(|&&it| it == name) {
        return (Word::Operator(operator), length);
    }
    let behind = after.trim_start_matches(is_space);
    if behind.starts_with("::") {
        return (Word::Axis(name), rest.len() - behind.len() + 2);
    }
    // No space is allowed in a name with a prefix.
    let local_length = after
        .strip_prefix(':')
        .map_or(0, |after| if after.starts_with('*') { 1 } else { name_length(after) });
    let (prefix, local, length) = match local_length {
        0 => (None, name, length),
        more => (Some(name), &after[1..=more], length + 1 + more),
    };
    let is_called = local != "*" && rest[length..].trim_start_matches(is_space).starts_with('(');
    match is_called {
        true => (Word::Called(prefix, local), length),
        false => (Word::Name(prefix, local), length),
    }
}

/// Bytes of the number with which `rest` begins: `12`, `12.`, `1.5`, `.5`.
fn number_length(rest: &str) -> Option<usize> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(rest);
    match rest[whole..].strip_prefix('.') {
        Some(after) if whole + digits(after) > 0 => Some(whole + 1 + digits(after)),
        _ => (whole > 0).then_some(whole),
    }
}

/// Bytes of the name without colons with which `rest` begins; 0 without one.
fn name_length(rest: &str) -> usize {
    let mut length = 0;
    for character in rest.chars() {
        let fits = if length == 0 { is_name_start(character) } else { is_name_part(character) };
        if !fits {
            break;
        }
        length += character.len_utf8();
    }
    length
}

/// A character with which a name begins (XML 1.0, production 4, without the colon).
const fn is_name_start(character: char) -> bool {
    matches!(character,
        'A'..='Z' | 'a'..='z' | '_' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}'
        | '\u{F8}'..='\u{2FF}' | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}'
        | '\u{200C}'..='\u{200D}' | '\u{2070}'..='\u{218F}' | '\u{2C00}'..='\u{2FEF}'
        | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}'
        | '\u{10000}'..='\u{EFFFF}')
}

/// A character within a name (production 4a).
const fn is_name_part(character: char) -> bool {
    is_name_start(character)
        || matches!(character,
            '-' | '.' | '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}
