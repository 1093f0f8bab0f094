//! What stands in a tag, and characters that stand for others.

use super::dtd::Entities;
use super::words;
use crate::synopsis::{ClassId, Synopsis};
use crate::vocabulary::Vocabulary;
use std::ops::Range;

/// Where an attribute stands in the text of its tag.
#[derive(Clone, Debug)]
pub(super) struct AttributePlace {
    name: Range<usize>,
    value: Range<usize>,
}

impl AttributePlace {
    /// Where its name begins.
    pub(super) const fn name_at(&self) -> usize {
        self.name.start
    }

    /// Where its value begins, behind the quote.
    pub(super) const fn value_at(&self) -> usize {
        self.value.start
    }

    #[inline]
    pub(super) fn name<'t>(&self, text: &'t str) -> &'t str {
        &text[self.name.clone()]
    }

    #[inline]
    pub(super) fn value<'t>(&self, text: &'t str) -> &'t str {
        &text[self.value.clone()]
    }

    /// The prefix that it declares, empty for elements without one; `None` if it declares none.
    #[inline]
    pub(super) fn prefix<'t>(&self, text: &'t str) -> Option<&'t str> {
        match self.name(text).strip_prefix("xmlns")? {
            "" => Some(""),
            rest => rest.strip_prefix(':'),
        }
    }
}

/// Finds the attributes of a tag in what follows its name. Says behind how many bytes what is wrong.
#[inline]
pub(super) fn find_attributes(
    text: &str,
    places: &mut Vec<AttributePlace>,
) -> Result<(), (usize, String)> {
    let bytes = text.as_bytes();
    let skip_space = |mut at: usize| {
        while bytes.get(at).is_some_and(|&byte| is_space(byte)) {
            at += 1;
        }
        at
    };
    let mut end = 0;
    loop {
        let start = skip_space(end);
        if start == bytes.len() {
            return Ok(());
        }
        if start == end {
            return Err((start, "between attributes there is a space".to_owned()));
        }
        let rest = &bytes[start..];
        let name_bytes = rest.iter().position(|&byte| byte == b'=' || is_space(byte));
        let name = start..start + name_bytes.unwrap_or(rest.len());
        let equals = skip_space(name.end);
        if bytes.get(equals) != Some(&b'=') {
            return Err((start, format!("attribute `{}` has no value", &text[name])));
        }
        let opening = skip_space(equals + 1);
        let Some(&quote @ (b'"' | b'\'')) = bytes.get(opening) else {
            let what = format!("the value of attribute `{}` has no quotes", &text[name]);
            return Err((opening, what));
        };
        let value_bytes = memchr::memchr(quote, &bytes[opening + 1..]);
        let Some(value_bytes) = value_bytes else {
            let what = format!("the value of attribute `{}` has no end", &text[name]);
            return Err((opening, what));
        };
        let value = opening + 1..opening + 1 + value_bytes;
        end = value.end + 1;
        places.push(AttributePlace { name, value });
    }
}

/// Whether a value is stored as it is written.
#[inline]
pub(super) fn is_plain(value: &str) -> bool {
    let mut is_other = false;
    for &byte in value.as_bytes() {
        is_other |= byte < 0x20 || byte == b'&' || byte == b'<' || byte == 0xEF;
    }
    !is_other
}

/// Appends the value of an attribute: references become what they stand for, white space becomes
/// spaces. Says behind how many bytes what is wrong; in an entity that is where it is referred to.
pub(super) fn expand(
    value: &str,
    entities: &mut Entities,
    level: usize,
    bytes: &mut Vec<u8>,
) -> Result<(), (usize, String)> {
    if !words::is_text(value) {
        return Err((words::wrong_at(value), words::NO_CHARACTER.to_owned()));
    }
    if let Some(at) = value.find('<') {
        let what = "`<` is not allowed in the value of an attribute; write `&lt;`";
        return Err((at, what.to_owned()));
    }
    let mut start = 0;
    while let Some(before) = value[start..].find('&') {
        let at = start + before;
        let wrong = |what: String| (at, what);
        put_spaces(&value[start..at], level, bytes);
        let Some(end) = value[at..].find(';') else {
            return Err(wrong("after `&` a `;` is missing; write `&amp;` for it".to_owned()));
        };
        let name = &value[at + 1..at + end];
        start = at + end + 1;
        if !put_known(name, bytes).map_err(wrong)? {
            words::check_name(name).map_err(wrong)?;
            let text = entities.expand(name, level).map_err(wrong)?;
            expand(&text, entities, level + 1, bytes).map_err(|(_, what)| wrong(what))?;
        }
    }
    put_spaces(&value[start..], level, bytes);
    Ok(())
}

/// Appends what a number or one of the five names of XML stands for; false for another name.
pub(super) fn put_known(name: &str, bytes: &mut Vec<u8>) -> Result<bool, String> {
    let letter = match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "apos" => '\'',
        "quot" => '"',
        name => match name.strip_prefix('#') {
            Some(number) => words::char_of(number)?,
            None => return Ok(false),
        },
    };
    bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(true)
}

/// Appends text, with ends of lines as XML has them. In entities they are so already.
#[inline]
pub(super) fn put_lines(text: &str, level: usize, bytes: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    if level == 0 {
        while let Some(at) = memchr::memchr(b'\r', rest) {
            bytes.extend_from_slice(&rest[..at]);
            bytes.push(b'\n');
            rest = &rest[at + 1..];
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
    }
    bytes.extend_from_slice(rest);
}

/// Appends a part of a value: a space for each end of a line, and for each tab. In entities ends of lines
/// are one character already, and a return is one that was written as a number.
fn put_spaces(text: &str, level: usize, bytes: &mut Vec<u8>) {
    let mut before = 0;
    for &byte in text.as_bytes() {
        match byte {
            b'\n' if before == b'\r' && level == 0 => {}
            b'\n' | b'\r' | b'\t' => bytes.push(b' '),
            byte => bytes.push(byte),
        }
        before = byte;
    }
}

#[inline]
const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// The attributes of an element: none twice, by name or by what its prefix stands for.
#[derive(Debug, Default)]
pub(super) struct Distinct {
    /// By class: the last element that had it, so one look says if this one has it already. An
    /// element of FIXML has seventy attributes, and comparing their names took a third of an import.
    last_element: Vec<u64>,
    element: u64,
    /// Only two of these can be one attribute under two names: what has no prefix has no namespace.
    prefixed: Vec<ClassId>,
}

impl Distinct {
    /// Begins with another element.
    pub(super) fn begin(&mut self) {
        self.element += 1;
        self.prefixed.clear();
    }

    /// One more. Says if its name is twice there.
    #[inline]
    pub(super) fn add(&mut self, class: ClassId, name: &str) -> Result<(), String> {
        let place = class.0 as usize;
        if self.last_element.len() <= place {
            self.last_element.resize(place + 1, 0);
        }
        if std::mem::replace(&mut self.last_element[place], self.element) == self.element {
            return Err(format!("attribute `{name}` is there twice"));
        }
        if name.contains(':') {
            self.prefixed.push(class);
        }
        Ok(())
    }

    /// Says if one is twice there under two prefixes.
    #[inline]
    pub(super) fn check(&self, synopsis: &Synopsis, vocabulary: &Vocabulary) -> Result<(), String> {
        if self.prefixed.len() < 2 {
            return Ok(());
        }
        let mut names = Vec::with_capacity(self.prefixed.len());
        for &class in &self.prefixed {
            let class = synopsis.get(class).expect("it was just made");
            let name = vocabulary.get(class.name).expect("a class has a name");
            names.push((&name.local, &name.namespace));
        }
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            None => Ok(()),
            Some(pair) => Err(format!("attribute `{}` is there twice", pair[0].0)),
        }
    }
}
