//! Fragments: what a text of JSON has in it, as what an element that is stored already has or gets.
//!
//! ```text
//!   Items     1, {"a": 2}          read as [1, {"a": 2}], without the array
//!   Members   "a": 1, "b": []      read as {"a": 1, "b": []}, without the object
//!   Value     {"a": 1}             the element's own value: its members, items, or text
//! ```
//!
//! 1. Places in errors are those of the text that was given.

use super::tokens::{Token, Tokens, UNEXPECTED_END};
use super::{Importer, Open};
use crate::document::Catalog;
use crate::error::{Place, XmlError};
use crate::import::fragment::{Base, Entries, Inside, put_inside};
use crate::import::{Names, Trouble};
use crate::record::{NodeKind, ValueType};
use std::io::Read;

/// What a text of JSON is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonPart {
    /// Items of an array.
    Items,
    /// Members of an object.
    Members,
    /// The value of an element.
    Value,
}

/// The nodes of a text as containers of records that are numbered as the only children of the base, and how
/// many children these are. New keys and paths go to the catalogue.
pub(crate) fn json_fragment(
    catalog: &mut Catalog,
    base: &Base<'_>,
    part: JsonPart,
    text: &str,
) -> Result<(Entries, usize), XmlError> {
    put_inside(catalog, base, |tree, vocabulary, sink| {
        let mut importer = Importer::new(tree, sink);
        importer.names = Names::of_keys_in(vocabulary);
        let answer = importer.read_part(part, text);
        Inside { tree: importer.tree, vocabulary: importer.names.vocabulary, answer }
    })
}

impl JsonPart {
    /// The brackets around the text.
    const fn brackets(self) -> (&'static [u8], &'static [u8]) {
        match self {
            Self::Items => (b"[", b"]"),
            Self::Members => (b"{", b"}"),
            Self::Value => (b"", b""),
        }
    }

    /// A place in the text from one in what is read.
    const fn place(self, mut place: Place) -> Place {
        let before = self.brackets().0.len() as u64;
        if place.line == 1 && place.column > before {
            place.column -= before;
        }
        place
    }
}

impl<S: FnMut(&[u8], &[u8]) -> Result<(), Trouble>> Importer<S> {
    fn read_part(&mut self, part: JsonPart, text: &str) -> Result<(), (Place, Trouble)> {
        let (begin, end) = part.brackets();
        let mut tokens = Tokens::new(begin.chain(text.as_bytes()).chain(end));
        loop {
            let last = tokens.place();
            let token = match tokens.next("the fragment") {
                Ok(Some(token)) => token,
                Ok(None) => break,
                Err(trouble) => {
                    let mut place = tokens.place();
                    if part != JsonPart::Value && self.is_over() {
                        // It is the bracket that is one too many.
                        place = last;
                    } else if matches!(&trouble, Trouble::What(what) if what == UNEXPECTED_END) {
                        place.column -= end.len() as u64;
                    }
                    return Err((part.place(place), self.explained_of_part(trouble, part, text)));
                }
            };
            let taken = self.take_of_part(token, part, (tokens.text(), tokens.place().line));
            taken.map_err(|trouble| (part.place(tokens.place()), trouble))?;
        }
        let finished = self.tree.finish(&mut self.sink);
        finished.map_err(|trouble| (part.place(tokens.place()), trouble))
    }

    /// Whether what the text is put into has ended.
    const fn is_over(&self) -> bool {
        self.open.is_empty() && self.has_root
    }

    /// Takes a word. The outermost object or array is the element itself: no element begins or ends with it.
    fn take_of_part(
        &mut self,
        token: Token,
        part: JsonPart,
        (text, line): (&str, u64),
    ) -> Result<(), Trouble> {
        let leaf = match token {
            Token::BeginObject | Token::BeginArray if self.open.is_empty() => {
                let is_array = token == Token::BeginArray;
                self.has_root = true;
                self.open_count += 1;
                self.open.push(Open { is_array, number: self.open_count, is_empty: true, line });
                return Ok(());
            }
            Token::EndObject | Token::EndArray if self.open.len() == 1 => {
                let open = self.open.pop().expect("there is one");
                match (open.is_empty && part == JsonPart::Value, open.is_array) {
                    (false, _) => return Ok(()),
                    (true, true) => (ValueType::EmptyArray, ""),
                    (true, false) => (ValueType::EmptyObject, ""),
                }
            }
            token if !self.open.is_empty() => return self.take(token, text, line),
            Token::String => (ValueType::Text, text),
            Token::Number => (ValueType::Number, text),
            Token::Boolean(value) => (ValueType::Boolean, if value { "true" } else { "false" }),
            _ => (ValueType::Null, ""),
        };
        self.has_root = true;
        let (value_type, text) = leaf;
        self.tree.typed_child((NodeKind::Text, value_type), text.as_bytes(), &mut self.sink)
    }

    fn explained_of_part(&self, trouble: Trouble, part: JsonPart, text: &str) -> Trouble {
        let Trouble::What(what) = trouble else { return trouble };
        let begins_as_object = text.trim_start().starts_with('{');
        match (part, &*what) {
            (JsonPart::Members, _) if begins_as_object && self.open.len() == 1 => {
                "members of an object are written without its braces: \"key\": value".into()
            }
            (JsonPart::Value, _) if self.is_over() => {
                "a value is set to one other, and there is more behind it".into()
            }
            _ if self.is_over() => "the text goes on behind the end of what it is put into".into(),
            (JsonPart::Value, UNEXPECTED_END) => self.explained(Trouble::What(what)),
            (_, UNEXPECTED_END) => "the text ends inside of a value".into(),
            _ => Trouble::What(what),
        }
    }
}
