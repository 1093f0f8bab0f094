//! The words of an SQL statement (sqlite.org, SQL As Understood By SQLite; the tokenizer's rules).

use super::value::Value;
use std::borrow::Cow;

/// A piece of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A keyword, a bare name or a number.
    Word(&'a str),
    /// A name in double quotes, brackets or backticks, or a string in single quotes, without them.
    Quoted(char, &'a str),
    /// A blob literal, its hexadecimal digits.
    Blob(&'a str),
    /// Anything else, one character.
    Symbol(char),
}

impl Token<'_> {
    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self, Self::Word(found) if found.eq_ignore_ascii_case(word))
    }

    pub(super) fn is_symbol(&self, symbol: char) -> bool {
        *self == Token::Symbol(symbol)
    }

    /// Whether it is a decimal number.
    pub(super) fn is_number(&self) -> bool {
        let digit = |c: char| c.is_ascii_digit() || c == '.';
        let hexadecimal = |word: &str| word.starts_with("0x") || word.starts_with("0X");
        matches!(self, Self::Word(word) if word.starts_with(digit) && !hexadecimal(word))
    }

    /// What it says, without quotes.
    pub(super) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Word(word) | Self::Blob(word) => Cow::Borrowed(word),
            Self::Quoted('[', text) => Cow::Borrowed(text),
            Self::Quoted(quote, text) => {
                let (twice, once) = (format!("{quote}{quote}"), quote.to_string());
                Cow::Owned(text.replace(&twice, &once))
            }
            Self::Symbol(symbol) => Cow::Owned(symbol.to_string()),
        }
    }

    /// The name that it can be.
    pub(super) fn name(&self) -> Option<String> {
        match self {
            Self::Word(word) if !word.starts_with(|c: char| c.is_ascii_digit()) => {
                Some((*word).to_owned())
            }
            Self::Quoted(..) => Some(self.text().into_owned()),
            _ => None,
        }
    }

    /// The constant that it stands for, after a minus sign or without one.
    pub(super) fn literal(&self, negative: bool) -> Option<Value> {
        match self {
            Self::Word(word) if word.eq_ignore_ascii_case("NULL") => Some(Value::Null),
            Self::Word(word) if word.eq_ignore_ascii_case("TRUE") => Some(Value::Integer(1)),
            Self::Word(word) if word.eq_ignore_ascii_case("FALSE") => Some(Value::Integer(0)),
            Self::Word(word) if word.to_ascii_uppercase().starts_with("CURRENT_") => None,
            Self::Word(word) => Some(number_of(word, negative).unwrap_or(Value::from(*word))),
            Self::Quoted(..) => Some(Value::Text(self.text().into_owned())),
            Self::Blob(digits) => {
                let pairs = digits.as_bytes().chunks(2);
                let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
                pairs.map(byte).collect::<Option<Vec<_>>>().map(Value::Blob)
            }
            Self::Symbol(_) => None,
        }
    }
}

fn number_of(word: &str, negative: bool) -> Option<Value> {
    if let Some(digits) = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        let number = u64::from_str_radix(digits, 16).ok()?.cast_signed();
        return Some(Value::Integer(if negative { number.wrapping_neg() } else { number }));
    }
    let signed = if negative { format!("-{word}") } else { word.to_owned() };
    let first = word.chars().next()?;
    if !first.is_ascii_digit() && first != '.' {
        return None;
    }
    signed.parse().map(Value::Integer).or_else(|_| signed.parse().map(Value::Real)).ok()
}

/// Cuts a statement into tokens; spaces and comments are left out.
pub(super) fn tokens(sql: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_whitespace() {
            first.len_utf8()
        } else if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some((token, length)) = quoted(rest) {
            tokens.push(token);
            length
        } else if is_word_character(first) || first == '.' && starts_number(&rest[1..]) {
            let length = word_bytes(rest);
            tokens.push(Token::Word(&rest[..length]));
            length
        } else {
            tokens.push(Token::Symbol(first));
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$' || !character.is_ascii()
}

fn starts_number(text: &str) -> bool {
    text.starts_with(|character: char| character.is_ascii_digit())
}

/// A word's length; a number takes its dot and the sign of its exponent along.
fn word_bytes(rest: &str) -> usize {
    let number = rest.starts_with(|character: char| character.is_ascii_digit() || character == '.');
    let hexadecimal = rest.starts_with("0x") || rest.starts_with("0X");
    let mut before = ' ';
    for (at, character) in rest.char_indices() {
        let exponent = matches!(before, 'e' | 'E') && !hexadecimal;
        let of_number = character == '.' || exponent && matches!(character, '+' | '-');
        let inside = is_word_character(character) || number && of_number;
        if !inside {
            return at;
        }
        before = character;
    }
    rest.len()
}

/// A quoted token at the start of `rest`, and its length; a quote that never ends goes to the end.
fn quoted(rest: &str) -> Option<(Token<'_>, usize)> {
    let blob = rest.starts_with("x'") || rest.starts_with("X'");
    let start = usize::from(blob);
    let quote = rest[start..].chars().next()?;
    let close = match quote {
        '"' | '\'' | '`' => quote,
        '[' => ']',
        _ => return None,
    };
    let mut at = start + 1;
    loop {
        let Some(found) = rest[at..].find(close) else {
            return Some((Token::Quoted(quote, &rest[start + 1..]), rest.len()));
        };
        at += found + 1;
        if close != ']' && rest[at..].starts_with(close) {
            at += 1;
            continue;
        }
        let text = &rest[start + 1..at - 1];
        let token = if blob { Token::Blob(text) } else { Token::Quoted(quote, text) };
        return Some((token, at));
    }
}
