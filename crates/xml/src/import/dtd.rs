//! The document type: which entities it declares. It is stored as it is written; what it says of
//! attributes is for whoever reads the export.
//!
//! 1. Nothing outside of the document is ever fetched.
//! 2. What entities stand for is bounded, in levels and in bytes for a whole document.
//! 3. The frame is checked: the name of the type, where the rest of it is, which declarations there are, and
//!    entities. What is declared of elements, attributes and notations is not.

use super::words::{SPACES, check_name, quoted, start_of};
use std::collections::BTreeMap;
use std::rc::Rc;

/// How many bytes entities of a document may stand for in all.
pub const ENTITY_BYTES_MAX: u64 = 8 << 20;
/// How deep entities may refer to each other.
pub const ENTITY_LEVEL_MAX: usize = 16;

/// What an entity stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entity {
    /// This text.
    Text(Rc<str>),
    /// A file, which nobody fetches.
    Outside,
}

/// The entities of a document, and how much was made of them.
#[derive(Debug, Default)]
pub(super) struct Entities {
    entities: BTreeMap<String, Entity>,
    byte_count: u64,
}

impl Entities {
    /// Those that a document type declares. Says what is wrong with it.
    pub(super) fn declared(doctype: &str) -> Result<Self, String> {
        let mut entities = BTreeMap::new();
        let Some(subset) = subset_of(doctype)? else { return Ok(Self::default()) };
        let mut rest = subset.trim_start_matches(SPACES);
        let end = loop {
            rest = if let Some(comment) = rest.strip_prefix("<!--") {
                past(comment, "-->")?
            } else if let Some(instruction) = rest.strip_prefix("<?") {
                past(instruction, "?>")?
            } else if let Some(reference) = rest.strip_prefix('%') {
                let (name, after) = reference.split_once(';').ok_or_else(|| stray(rest))?;
                check_name(name)?;
                after
            } else if let Some(end) = rest.strip_prefix(']') {
                break end;
            } else {
                declaration(rest, &mut entities)?
            };
            rest = rest.trim_start_matches(SPACES);
        };
        match end.trim_matches(SPACES) {
            "" => Ok(Self { entities, byte_count: 0 }),
            more => Err(stray(more)),
        }
    }

    /// What an entity stands for, counted. Says why there is nothing.
    pub(super) fn expand(&mut self, name: &str, level: usize) -> Result<Rc<str>, String> {
        let text = match self.entities.get(name) {
            Some(Entity::Text(text)) => Rc::clone(text),
            Some(Entity::Outside) => {
                return Err(format!(
                    "entity &{name}; lies outside of the document and is not read"
                ));
            }
            None => return Err(format!("there is no entity &{name};")),
        };
        if level >= ENTITY_LEVEL_MAX {
            let limit = ENTITY_LEVEL_MAX;
            return Err(format!("entity &{name}; is more than {limit} levels deep in others"));
        }
        self.byte_count += text.len() as u64 + 1;
        if self.byte_count > ENTITY_BYTES_MAX {
            let mib = ENTITY_BYTES_MAX >> 20;
            return Err(format!("entities stand for more than {mib} MiB, which is the limit"));
        }
        Ok(text)
    }
}

/// Takes a declaration; gives what is behind it.
fn declaration<'t>(
    text: &'t str,
    entities: &mut BTreeMap<String, Entity>,
) -> Result<&'t str, String> {
    let known = ["<!ENTITY", "<!ELEMENT", "<!ATTLIST", "<!NOTATION"];
    let Some((word, rest)) =
        known.iter().find_map(|&word| text.strip_prefix(word).map(|rest| (word, rest)))
    else {
        return Err(stray(text));
    };
    let end = declaration_end(rest)?;
    let content = &rest[..end];
    if !content.starts_with(SPACES) {
        return Err(stray(text));
    }
    if word == known[0] {
        declare(content, entities)?;
    }
    Ok(&rest[end + 1..])
}

/// That something does not belong there.
fn stray(text: &str) -> String {
    format!("in the document type `{}` is not expected", start_of(text))
}

/// `name "text"`, `name SYSTEM "file"`, `% name …`.
fn declare(declaration: &str, entities: &mut BTreeMap<String, Entity>) -> Result<(), String> {
    let rest = declaration.trim_start();
    if rest.len() == declaration.len() {
        return Err("an entity's declaration has no name".to_owned());
    }
    if rest.starts_with('%') {
        // What it may declare is missed by whoever refers to it.
        return Ok(());
    }
    let name_end = rest.find(|letter: char| letter.is_ascii_whitespace()).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(name_end);
    check_name(name)?;
    let rest = rest.trim_start();
    let entity = match rest.chars().next() {
        Some('"' | '\'') => {
            let (text, after) = quoted(rest).ok_or_else(|| stray(rest))?;
            if !after.trim_matches(SPACES).is_empty() {
                return Err(stray(after));
            }
            Entity::Text(literal(text)?.into())
        }
        Some('S' | 'P') => Entity::Outside,
        _ => return Err(format!("entity {name} stands for nothing")),
    };
    // The first declaration counts.
    entities.entry(name.to_owned()).or_insert(entity);
    Ok(())
}

/// The text of an entity, with characters in place of their numbers; other references stay.
fn literal(text: &str) -> Result<String, String> {
    if text.contains('%') {
        return Err("an entity refers to a parameter entity, which is not allowed here".to_owned());
    }
    let mut literal = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("&#") {
        literal.push_str(&rest[..at]);
        let (number, after) =
            rest[at + 2..].split_once(';').ok_or("a reference has no end: `;` is missing")?;
        literal.push(super::words::char_of(number)?);
        rest = after;
    }
    literal.push_str(rest);
    Ok(literal)
}

/// What follows the first `end`.
fn past<'t>(text: &'t str, end: &str) -> Result<&'t str, String> {
    match text.split_once(end) {
        Some((_, rest)) => Ok(rest),
        None => Err(format!("in the document type `{end}` is missing")),
    }
}

/// Where a declaration ends, quotes left out.
fn declaration_end(text: &str) -> Result<usize, String> {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Ok(at),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    Err("in the document type a declaration has no end: `>` is missing".to_owned())
}

/// What is behind the bracket of a document type, if it has one, after its name and where the rest of it is.
fn subset_of(doctype: &str) -> Result<Option<&str>, String> {
    let text = doctype.trim_start_matches(SPACES);
    let is_end = |letter: char| SPACES.contains(&letter) || letter == '[';
    let (name, rest) = text.split_at(text.find(is_end).unwrap_or(text.len()));
    check_name(name)?;
    let after = rest.trim_start_matches(SPACES);
    let literal_count = match () {
        () if after.starts_with("SYSTEM") => 1,
        () if after.starts_with("PUBLIC") => 2,
        () => 0,
    };
    let mut rest = if literal_count > 0 { &after["SYSTEM".len()..] } else { after };
    for _ in 0..literal_count {
        let literal = rest.trim_start_matches(SPACES);
        let inside = if literal.len() < rest.len() { quoted(literal) } else { None };
        rest = inside.ok_or("in the document type a name of a file in quotes is missing")?.1;
    }
    let rest = rest.trim_start_matches(SPACES);
    match rest.strip_prefix('[') {
        Some(subset) => Ok(Some(subset)),
        None if rest.is_empty() => Ok(None),
        None => Err(stray(rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bracket_in_quotes_begins_nothing() {
        let subset = subset_of("a SYSTEM 'http://[::1]/x' [<!ENTITY e 'v'>]");
        assert_eq!(subset, Ok(Some("<!ENTITY e 'v'>]")));
        let none = ["a", "a SYSTEM '['", "a PUBLIC \"-//x\" '[' ", " a:b\n"].map(subset_of);
        assert_eq!(none, [Ok(None), Ok(None), Ok(None), Ok(None)]);
    }

    #[test]
    fn entities_are_found_among_other_declarations() {
        let mut entities = Entities::declared(
            "a [<!-- <!ENTITY no 'x'> --><!ELEMENT a (b|c)*><!ENTITY one \"1 > 0 &#38;#60; &#x41;\">\
             <?p <!ENTITY no 'y'> ?><!ENTITY one 'again'><!ENTITY far SYSTEM 'file:///etc/passwd'>\
             <!ENTITY % parameter 'z'> %parameter; <!ATTLIST a b CDATA '>'><!ENTITY two '&one;'>]",
        )
        .unwrap();
        assert_eq!(&*entities.expand("one", 0).unwrap(), "1 > 0 &#60; A");
        assert_eq!(&*entities.expand("two", 0).unwrap(), "&one;");
        assert!(entities.expand("no", 0).unwrap_err().contains("no entity &no;"));
        assert!(entities.expand("far", 0).unwrap_err().contains("not read"));
        assert!(entities.expand("one", ENTITY_LEVEL_MAX).unwrap_err().contains("levels"));
        assert_eq!(entities.entities.len(), 3);
        assert!(Entities::declared("a SYSTEM '[<!ENTITY x \"\">'").unwrap().entities.is_empty());
    }

    #[test]
    fn what_does_not_belong_into_a_document_type_is_told() {
        for (broken, word) in [
            ("1a", "is no name"),
            ("a b", "`b` is not expected"),
            ("a PUBLIC 'x'", "in quotes is missing"),
            ("a SYSTEM'x'", "in quotes is missing"),
            ("a SYSTEM x", "in quotes is missing"),
            ("a [garbage]", "`garbage]`"),
            ("a [<!FOO>]", "`<!FOO>]`"),
            ("a [<!ENTITYx 'y'>]", "is not expected"),
            ("a [<!ENTITY x 'y' z>]", "` z` is not expected"),
            ("a [<!ELEMENT a ANY>] b", "`b` is not expected"),
            ("a [%b]", "is not expected"),
            ("a [<!ELEMENT a ANY>", "is not expected"),
        ] {
            let said = Entities::declared(broken).unwrap_err();
            assert!(said.contains(word), "{broken}: {said}");
        }
    }

    #[test]
    fn what_entities_stand_for_is_bounded() {
        let mut entities = Entities::declared("a [<!ENTITY x '12345678901234567890'>]").unwrap();
        let error = loop {
            if let Err(error) = entities.expand("x", 0) {
                break error;
            }
        };
        assert!(error.contains("8 MiB"), "{error}");
        for broken in
            ["a [<!ENTITY", "a [<!ENTITY x", "a [<!ENTITY x>", "a [<!-- ", "a [<!ENTITY 1 ''>"]
        {
            assert!(Entities::declared(broken).is_err(), "{broken}");
        }
    }
}
