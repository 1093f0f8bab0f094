//! Indexes of a document, raw trees beside its nodes (S004 sections 5 and 6; the element and the
//! content-and-structure index of XTC): which elements there are of a path, and which nodes of a path
//! have a value.
//!
//! ```text
//!   elements://order      class, label           where the elements of a path are
//!   text://order/@id      class, text, label     which nodes of a path have a value, of
//!   number://price        class, number, label   elements all text in them
//!
//!   import ─► Indexer ─┐                                        ┌─► lookup ─► labels ─► queries
//!   create_index ──────┼─► entries ─► NAME-index-7, a raw tree ─┤
//!   Editor: old, new ──┘                                        └─► check, against all nodes
//! ```
//!
//! 1. An index has an entry for each node of its classes that it knows something of, and no other;
//!    it changes in the transaction that changes the nodes.
//! 2. Numbers of indexes go up, and none is given again while a higher one is there.

mod check;
mod entries;
mod key;
mod lookup;
mod pattern;

pub(crate) use self::check::IndexCheck;
pub(crate) use self::entries::{Entries, Indexer, Indexing};
pub(crate) use self::key::Beginning;
pub use self::key::Sought;
pub(crate) use self::lookup::collect;
pub use self::lookup::{Looked, find};
pub(crate) use self::pattern::Coverage;
pub use self::pattern::PathPattern;

use crate::counts::Totals;
use crate::document::{COUNTS, Catalog, Document, DocumentNames};
use crate::error::XmlError;
use crate::varint;
use crate::walk::walk;
use crate::xpath::Namespaces;
use nandu_storage::StorageError;
use nandu_storage::database::{LoadOptions, NewTable, WriteTransaction};
use std::fmt;

/// How many indexes a document may have.
pub const INDEX_COUNT_MAX: usize = 64;
/// Memory for sorting the entries of all new indexes: what an index of all elements of 50 MB takes beside
/// another one, without a run on the disk.
pub(crate) const SORT_BYTES: u64 = 128 << 20;

/// What an index knows of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IndexKind {
    /// Where elements are.
    Elements,
    /// The values of attributes, or of elements, as texts.
    Text,
    /// Those that are numbers, as numbers.
    Number,
}

/// An index that is or may be: what it knows, and of which nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDefinition {
    kind: IndexKind,
    pattern: PathPattern,
}

/// An index that a document has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredIndex {
    pub(crate) number: u32,
    pub(crate) definition: IndexDefinition,
}

impl IndexKind {
    /// All kinds, by their codes.
    pub const ALL: [Self; 3] = [Self::Elements, Self::Text, Self::Number];

    /// The word that users write.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Elements => "elements",
            Self::Text => "text",
            Self::Number => "number",
        }
    }
}

impl IndexDefinition {
    /// An index of a kind, over the nodes of a path.
    ///
    /// # Errors
    /// If it would be one of elements over attributes.
    pub fn new(kind: IndexKind, pattern: PathPattern) -> Result<Self, XmlError> {
        if kind == IndexKind::Elements && pattern.is_of_attributes() {
            let what = format!(
                "{}: an index of elements leads to elements; write text:{0} for the values of these",
                pattern.text()
            );
            return Err(XmlError::Invalid { what });
        }
        Ok(Self { kind, pattern })
    }

    /// As users write it: `elements`, `elements:PATH`, `text:PATH` or `number:PATH`.
    ///
    /// # Errors
    /// If it is none of them, or the path is none of an index.
    pub fn parse(text: &str, namespaces: &Namespaces) -> Result<Self, XmlError> {
        let (word, path) = text.split_once(':').unwrap_or((text, ""));
        let kind = IndexKind::ALL.into_iter().find(|kind| kind.label() == word);
        let (kind, path) = match (kind, path) {
            (Some(IndexKind::Elements), "") => (IndexKind::Elements, "//*"),
            (Some(kind), path) if !path.is_empty() => (kind, path),
            _ => {
                let what = format!(
                    "{text}: write elements, elements:PATH, text:PATH or number:PATH, such as \
                     text://order/@id"
                );
                return Err(XmlError::Invalid { what });
            }
        };
        Self::new(kind, PathPattern::parse(path, namespaces)?)
    }

    /// What it knows.
    #[must_use]
    pub const fn kind(&self) -> IndexKind {
        self.kind
    }

    /// The path of its nodes.
    #[must_use]
    pub const fn pattern(&self) -> &PathPattern {
        &self.pattern
    }

    /// Whether another one would have the same entries.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.pattern.is_same(&other.pattern)
    }

    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push(self.kind as u8);
        varint::put_bytes(self.pattern.text().as_bytes(), bytes);
        for (prefix, uri) in self.pattern.namespaces() {
            varint::put_bytes(prefix.as_bytes(), bytes);
            varint::put_bytes(uri.as_bytes(), bytes);
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&code, mut rest) = bytes.split_first()?;
        let kind = *IndexKind::ALL.get(usize::from(code))?;
        let mut part =
            || Some(std::str::from_utf8(varint::take_bytes(&mut rest)?).ok()?.to_owned());
        let text = part()?;
        let mut namespaces = Namespaces::new();
        while let Some(prefix) = part() {
            namespaces.insert(prefix, part()?);
        }
        if !rest.is_empty() {
            return None;
        }
        Self::new(kind, PathPattern::parse(&text, &namespaces).ok()?).ok()
    }
}

impl fmt::Display for IndexDefinition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.kind.label(), self.pattern.text())
    }
}

impl Catalog {
    /// Which indexes lead to which classes.
    pub(crate) fn coverage(&self) -> Coverage {
        let patterns = self.indexes.iter().map(|index| index.definition.pattern.clone()).collect();
        Coverage::of(patterns, &self.synopsis, &self.vocabulary)
    }

    /// An index that has nothing yet; says why there can be none.
    pub(crate) fn add_index(&mut self, definition: &IndexDefinition) -> Result<u32, XmlError> {
        if self.indexes.iter().any(|index| index.definition.is_same(definition)) {
            let what = format!("there is an index {definition}");
            return Err(XmlError::Invalid { what });
        }
        if self.indexes.len() >= INDEX_COUNT_MAX {
            let what = format!("a document has {INDEX_COUNT_MAX} indexes at most; drop one first");
            return Err(XmlError::Invalid { what });
        }
        let last = self.indexes.last().map_or(0, |last| last.number);
        let Some(number) = last.checked_add(1).filter(|&number| number < u32::MAX) else {
            let what = "the last number of an index is taken; drop that index first";
            return Err(XmlError::Invalid { what: what.to_owned() });
        };
        self.indexes.push(StoredIndex { number, definition: definition.clone() });
        Ok(number)
    }
}

/// How a tree of entries is loaded that come in any order.
pub(crate) fn load_options(index_count: usize) -> LoadOptions {
    LoadOptions { sort_bytes: SORT_BYTES / index_count.max(1) as u64, ..LoadOptions::default() }
}

/// Makes an index of a document, with an entry for each of its nodes. The document is read once.
///
/// # Errors
/// If there is one with the same entries, there are too many, there is no such document, the device
/// has no room or fails, or other transactions are in the way.
pub fn create_index(
    write: &mut WriteTransaction<'_>,
    document: &str,
    definition: &IndexDefinition,
) -> Result<(), XmlError> {
    let document = claimed(write, document)?;
    let mut catalog = document.catalog.clone();
    let number = catalog.add_index(definition)?;
    let names = DocumentNames::of(document.name());
    let (synopsis, vocabulary) = (document.synopsis(), document.vocabulary());
    let coverage = Coverage::of(vec![definition.pattern.clone()], synopsis, vocabulary);
    // The transaction sees its own changes; while the tree is loaded it makes no others.
    let tables = (**write).clone();
    let new = NewTable::raw(&names.index(number));
    write.load_table(&new, &load_options(1), |load| {
        let mut indexer = Indexer::new(vec![definition.kind], coverage, document.format());
        let mut put = |_: usize, key: &[u8]| Ok(load.push_entry(key, &[])?);
        walk(&tables, &document, &mut indexer.with_sink(&mut put), |_, _| Ok(()))
    })?;
    let mut bytes = Vec::new();
    definition.encode(&mut bytes);
    write.put_value(&names.catalog, &Catalog::index_key(number), &bytes)?;
    count_change(write, &document)
}

/// A document whose indexes are to be changed, and that nobody else changes meanwhile, or has since the
/// transaction sees it: all who change it say so by its counts.
fn claimed(write: &mut WriteTransaction<'_>, document: &str) -> Result<Document, XmlError> {
    match write.claim_value(&DocumentNames::of(document).catalog, &[COUNTS]) {
        // Which document is missing is the better answer.
        Ok(()) | Err(StorageError::NotFound { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Document::open(write, document)
}

/// Notes that the document was changed: whoever began before and would change its indexes, too, has to begin
/// again.
fn count_change(write: &mut WriteTransaction<'_>, document: &Document) -> Result<(), XmlError> {
    let mut totals = document.catalog.totals;
    totals.change_count = totals.change_count.wrapping_add(1);
    let names = DocumentNames::of(document.name());
    write.put_value(&names.catalog, &[COUNTS], &Totals::encode(totals))?;
    Ok(())
}

/// Removes an index of a document.
///
/// # Errors
/// If it has no such index, there is no such document, or other transactions are in the way.
pub fn drop_index(
    write: &mut WriteTransaction<'_>,
    document: &str,
    definition: &IndexDefinition,
) -> Result<(), XmlError> {
    let document = claimed(write, document)?;
    let names = DocumentNames::of(document.name());
    let indexes = &document.catalog.indexes;
    let Some(index) = indexes.iter().find(|index| index.definition.is_same(definition)) else {
        let known: Vec<String> = document.indexes().map(ToString::to_string).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let what =
            format!("document {} has no index {definition}; it has {known}", document.name());
        return Err(XmlError::Invalid { what });
    };
    write.drop_table(&names.index(index.number))?;
    write.delete_value(&names.catalog, &Catalog::index_key(index.number))?;
    count_change(write, &document)
}

/// Removes a document: its nodes, its names and its indexes.
///
/// # Errors
/// If there is no such document, or other transactions are in the way.
pub fn drop_document(write: &mut WriteTransaction<'_>, document: &str) -> Result<(), XmlError> {
    // An index that another one has made since would be left behind.
    let document = claimed(write, document)?;
    let names = DocumentNames::of(document.name());
    for index in &document.catalog.indexes {
        write.drop_table(&names.index(index.number))?;
    }
    write.drop_table(&names.nodes)?;
    write.drop_table(&names.catalog)?;
    Ok(())
}
