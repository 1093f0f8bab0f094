//! From the text of a document of JSON to its records (`crate::json` has what becomes of what).
//!
//! ```text
//!   Read ─► Tokens ─► Importer ─► TreeWriter ─► …
//!           words     values, keys
//! ```
//!
//! 1. A text has one value, and nothing but white space beside it.
//! 2. No object has a key twice: for each path the last object is known that had it.

mod fragment;
mod tokens;

pub(crate) use self::fragment::{JsonPart, json_fragment};

use self::tokens::{Token, Tokens, UNEXPECTED_END};
use super::{EVENTS_PER_LOOK, EntrySink, ImportObserver, LEVEL_COUNT_MAX, Names, Trouble};
use crate::error::{Place, XmlError};
use crate::json::{ITEM_NAME, ROOT_NAME};
use crate::record::{NodeKind, ValueType};
use crate::synopsis::StepKind;
use crate::tree_writer::TreeWriter;
use crate::vocabulary::Vocabulary;
use std::io::Read;

/// An object or array that has not ended.
#[derive(Clone, Copy, Debug)]
struct Open {
    is_array: bool,
    /// Its number among all of them.
    number: u64,
    is_empty: bool,
    line: u64,
}

/// See the module's head.
pub(super) struct Importer<S> {
    tree: TreeWriter,
    sink: S,
    names: Names,
    open: Vec<Open>,
    /// How many objects and arrays have begun.
    open_count: u64,
    /// By class: the object that had it last.
    last_object: Vec<u64>,
    has_root: bool,
}

impl<S: FnMut(&[u8], &[u8]) -> Result<(), Trouble>> Importer<S> {
    pub(super) fn new(tree: TreeWriter, sink: S) -> Self {
        Self {
            tree,
            sink,
            names: Names::of_keys(),
            open: Vec::new(),
            open_count: 0,
            last_object: Vec::new(),
            has_root: false,
        }
    }

    /// Reads a document to its end, and hands on entries of indexes. Gives the tree, the names, and the
    /// bytes that were read.
    pub(super) fn read_all(
        mut self,
        file: &str,
        input: &mut dyn Read,
        observer: &mut dyn ImportObserver,
        put_entry: &mut EntrySink<'_>,
    ) -> Result<(TreeWriter, Vocabulary, u64), XmlError> {
        let told = |place: Place, trouble: Trouble| match trouble {
            Trouble::What(what) => XmlError::Input { file: file.to_owned(), place, what },
            Trouble::Other(error) => error,
        };
        let mut tokens = Tokens::new(input);
        let mut token_count = 0_u32;
        loop {
            token_count = token_count.wrapping_add(1);
            if token_count.is_multiple_of(EVENTS_PER_LOOK) {
                look(observer, tokens.byte_count())?;
            }
            let token = match tokens.next(file) {
                Ok(Some(token)) => token,
                Ok(None) => break,
                Err(trouble) => return Err(told(tokens.place(), self.explained(trouble))),
            };
            let taken = self.take(token, tokens.text(), tokens.place().line);
            let entries = self.tree.indexer.entries_mut();
            let taken = match taken {
                Ok(()) if !entries.is_empty() => entries.drain(&mut *put_entry),
                taken => taken,
            };
            taken.map_err(|trouble| told(tokens.place(), trouble))?;
        }
        self.tree.finish(&mut self.sink).map_err(|trouble| told(tokens.place(), trouble))?;
        let byte_count = tokens.byte_count();
        look(observer, byte_count)?;
        Ok((self.tree, self.names.vocabulary, byte_count))
    }

    /// Takes a word, which begins in a line.
    #[inline]
    fn take(&mut self, token: Token, text: &str, line: u64) -> Result<(), Trouble> {
        match token {
            Token::BeginObject => self.begin(false, line),
            Token::BeginArray => self.begin(true, line),
            Token::EndObject | Token::EndArray => self.end(),
            Token::Key => self.key(text),
            Token::String => self.leaf(ValueType::Text, text),
            Token::Number => self.leaf(ValueType::Number, text),
            Token::Boolean(value) => {
                self.leaf(ValueType::Boolean, if value { "true" } else { "false" })
            }
            Token::Null => self.leaf(ValueType::Null, ""),
        }
    }

    /// A member begins with its key.
    fn key(&mut self, key: &str) -> Result<(), Trouble> {
        self.element(StepKind::Element, key)?;
        let object = self.open.last_mut().expect("the parser knows that keys are in objects");
        object.is_empty = false;
        let (number, place) = (object.number, self.tree.class().0 as usize);
        if self.last_object.len() <= place {
            self.last_object.resize(place + 1, 0);
        }
        if std::mem::replace(&mut self.last_object[place], number) == number {
            let key: String = key.chars().take(40).collect();
            return Err(format!("key `{key}` is there twice in one object").into());
        }
        Ok(())
    }

    /// A value begins: of an array or of the document it is an element that begins here; that of a
    /// member has begun with its key.
    fn value(&mut self) -> Result<(), Trouble> {
        match self.open.last_mut() {
            Some(Open { is_array: true, is_empty, .. }) => {
                *is_empty = false;
                self.element(StepKind::Array, ITEM_NAME)
            }
            Some(_) => Ok(()),
            None => {
                self.has_root = true;
                self.element(StepKind::Element, ROOT_NAME)
            }
        }
    }

    fn element(&mut self, kind: StepKind, name: &str) -> Result<(), Trouble> {
        if self.tree.level() >= LEVEL_COUNT_MAX {
            return Err(format!("values are nested deeper than {LEVEL_COUNT_MAX} levels").into());
        }
        let above = self.tree.class();
        let class = self.names.class_of(&mut self.tree.synopsis, above, (0, kind, name))?;
        let TreeWriter { indexer, synopsis, .. } = &mut self.tree;
        if indexer.is_active() && indexer.class_count() < synopsis.classes().len() {
            indexer.coverage_mut().extend(synopsis, &self.names.vocabulary);
        }
        self.tree.open(class, &mut self.sink)
    }

    fn begin(&mut self, is_array: bool, line: u64) -> Result<(), Trouble> {
        self.value()?;
        self.open_count += 1;
        self.open.push(Open { is_array, number: self.open_count, is_empty: true, line });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Trouble> {
        let Open { is_array, is_empty, .. } =
            self.open.pop().expect("the parser knows that it is open");
        if is_empty {
            let value_type = if is_array { ValueType::EmptyArray } else { ValueType::EmptyObject };
            return self.text(value_type, "");
        }
        self.tree.close(&mut self.sink)
    }

    fn leaf(&mut self, value_type: ValueType, text: &str) -> Result<(), Trouble> {
        self.value()?;
        self.text(value_type, text)
    }

    /// The text of the innermost element, which ends.
    fn text(&mut self, value_type: ValueType, text: &str) -> Result<(), Trouble> {
        let kind = (NodeKind::Text, value_type);
        self.tree.typed_child(kind, text.as_bytes(), &mut self.sink)?;
        self.tree.close(&mut self.sink)
    }

    /// Trouble of the parser, where more is known of it.
    fn explained(&self, trouble: Trouble) -> Trouble {
        let Trouble::What(what) = trouble else { return trouble };
        let what = match (self.open.last(), &*what) {
            (Some(open), UNEXPECTED_END) => {
                let what = if open.is_array { "an array" } else { "an object" };
                format!("the text ends inside of {what}, which began in line {}", open.line)
            }
            (None, UNEXPECTED_END) if !self.has_root => {
                "the text ends before there was a value".to_owned()
            }
            (None, _) if self.has_root => {
                "a document has one value, and there is more behind it; of several values jq -s . \
                 makes an array"
                    .to_owned()
            }
            _ => what,
        };
        Trouble::What(what)
    }
}

/// Tells the observer, and asks it whether to stop.
fn look(observer: &mut dyn ImportObserver, byte_count: u64) -> Result<(), XmlError> {
    observer.bytes_read(byte_count);
    if observer.is_cancelled() { Err(XmlError::Cancelled) } else { Ok(()) }
}

/// The type and the text of a value that has no members or items. Says why there is none.
pub(crate) fn leaf_of(text: &str) -> Result<(ValueType, String), String> {
    let mut tokens = Tokens::new(text.as_bytes());
    let mut next =
        || tokens.next("").map(|token| token.map(|token| (token, tokens.text().to_owned())));
    let words = (next(), next(), next());
    let none = || {
        let begin: String = text.chars().take(40).collect();
        format!(
            "{begin} is no value of JSON without others in it: these are numbers, true, false, null, {{}} \
             and [], and strings, in their quotes"
        )
    };
    let (first, second, third) = match words {
        (Ok(Some(first)), Ok(second), Ok(third)) => (first, second, third),
        _ => return Err(none()),
    };
    let (token, text) = first;
    let value_type = match (token, second.map(|(token, _)| token)) {
        (Token::String, None) => ValueType::Text,
        (Token::Number, None) => ValueType::Number,
        (Token::Null, None) => return Ok((ValueType::Null, String::new())),
        (Token::Boolean(value), None) => return Ok((ValueType::Boolean, value.to_string())),
        (Token::BeginObject, Some(Token::EndObject)) => {
            return Ok((ValueType::EmptyObject, String::new()));
        }
        (Token::BeginArray, Some(Token::EndArray)) => {
            return Ok((ValueType::EmptyArray, String::new()));
        }
        _ => return Err(none()),
    };
    if third.is_some() { Err(none()) } else { Ok((value_type, text)) }
}
