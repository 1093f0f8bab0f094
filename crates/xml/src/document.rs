//! A stored document: its two raw trees, and what is kept in memory while it is used.
//!
//! ```text
//!   NAME-nodes     containers (`container`)
//!   NAME-catalog   00           version, mapping, format, compression, sizes
//!                  01 name id   prefix, local name, namespace
//!                  02 class id  kind, class above, name
//!                  03 index     kind, path, what its prefixes stand for
//!                  04 …         counts (`counts`)
//!   NAME-index-7   entries of an index (`index`)
//! ```
//!
//! 1. What lies before the counts is the structure: it grows where a change has new names or paths, and stays as
//!    it is for a transaction that has begun to change the document.

use crate::compression::{Compression, CompressionStat};
use crate::container::{CONTAINER_BYTES_MAX, CONTAINER_BYTES_MIN, ContainerForm};
use crate::counts::{self, BYTES_MAX, Totals};
use crate::error::XmlError;
use crate::format::DocumentFormat;
use crate::index::{INDEX_COUNT_MAX, IndexDefinition, StoredIndex};
use crate::mapping::MappingKind;
use crate::synopsis::{ClassId, PathClass, StepKind, Synopsis};
use crate::tree_writer::Counts;
use crate::varint;
use crate::vocabulary::{Name, Vocabulary};
use nandu_storage::StorageError;
use nandu_storage::database::{EntryRange, TableStat, Tables};
use serde::Serialize;

/// The version of the format that is written and read.
const FORMAT_VERSION: u8 = 4;
/// The key of the catalogue's head.
const HEAD: u8 = 0;
/// The key, and the beginning of keys, of names. Who adds to the structure locks it by itself.
pub(crate) const NAME: u8 = 1;
const CLASS: u8 = 2;
const INDEX: u8 = 3;
/// The key, and the beginning of keys, of counts.
pub(crate) const COUNTS: u8 = 4;

/// What the trees of a document are called.
#[derive(Clone, Debug)]
pub(crate) struct DocumentNames {
    document: String,
    pub(crate) nodes: String,
    pub(crate) catalog: String,
}

impl DocumentNames {
    pub(crate) fn of(document: &str) -> Self {
        let [nodes, catalog] = ["nodes", "catalog"].map(|tree| format!("{document}-{tree}"));
        Self { document: document.to_owned(), nodes, catalog }
    }

    /// The tree of an index's entries.
    pub(crate) fn index(&self, number: u32) -> String {
        format!("{}-index-{number}", self.document)
    }
}

/// Which counts are those of the moment that the rest is of. Where others change the document, and for who
/// changes it, none are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exactness {
    /// None: they are of some moment.
    Nothing,
    /// Those of the document as a whole.
    Totals,
    /// Those of paths, too.
    Classes,
}

/// What is kept of a document beside its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Catalog {
    pub(crate) mapping: MappingKind,
    pub(crate) format: DocumentFormat,
    pub(crate) compression: Compression,
    pub(crate) container_bytes: u64,
    pub(crate) plain_bytes: u64,
    pub(crate) totals: Totals,
    pub(crate) vocabulary: Vocabulary,
    pub(crate) synopsis: Synopsis,
    pub(crate) exactness: Exactness,
    /// By their numbers.
    pub(crate) indexes: Vec<StoredIndex>,
}

/// What an editor changes of a catalogue, when it began.
#[derive(Debug)]
pub(crate) struct CatalogBegun {
    name_count: usize,
    class_count: usize,
}

/// A stored document.
#[derive(Clone, Debug)]
pub struct Document {
    name: String,
    pub(crate) catalog: Catalog,
}

/// How large a document is, and what it has in it.
#[derive(Clone, Debug, Serialize)]
pub struct DocumentStat {
    /// What it is made from and comes out as.
    pub format: &'static str,
    /// How it is stored.
    pub mapping: &'static str,
    /// How its containers are packed.
    pub compression: &'static str,
    /// Bytes of the text that it was made from.
    pub plain_bytes: u64,
    /// What it has in it.
    #[serde(flatten)]
    pub counts: Counts,
    /// Different paths of names.
    pub class_count: u64,
    /// Different names of elements, attributes and prefixes.
    pub name_count: u64,
    /// Containers when it was made.
    pub container_count: u64,
    /// The longest container, in bytes.
    pub container_bytes: u64,
    /// Pages of its nodes: leaves, and the document index above them.
    pub page_count: u64,
    /// Levels of that tree, the leaves included.
    pub height: u64,
    /// Bytes of those pages.
    pub file_bytes: u64,
    /// The indexes that it has.
    pub indexes: Vec<IndexStat>,
}

/// How large an index is.
#[derive(Clone, Debug, Serialize)]
pub struct IndexStat {
    /// What it knows, of which nodes, as users write it.
    pub index: String,
    /// The tree of its entries.
    pub tree: String,
    /// How many entries it has.
    pub entry_count: u64,
    /// Pages of its tree.
    pub page_count: u64,
    /// Levels of that tree, the leaves included.
    pub height: u64,
    /// Bytes of those pages.
    pub file_bytes: u64,
}

impl CatalogBegun {
    /// Whether a class was there.
    pub(crate) const fn has_class(&self, class: ClassId) -> bool {
        (class.0 as usize) < self.class_count
    }
}

impl Catalog {
    /// Of a document that has nothing yet.
    pub(crate) fn empty(mapping: MappingKind, container_bytes: u64) -> Self {
        Self {
            mapping,
            format: DocumentFormat::default(),
            compression: Compression::default(),
            container_bytes,
            plain_bytes: 0,
            totals: Totals::default(),
            vocabulary: Vocabulary::default(),
            synopsis: Synopsis::default(),
            exactness: Exactness::Classes,
            indexes: Vec::new(),
        }
    }

    /// How its containers are written.
    pub(crate) const fn form(&self) -> ContainerForm {
        ContainerForm { mapping: self.mapping, compression: self.compression }
    }

    /// Its entries, in the order of their keys.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        let head = std::iter::once((vec![HEAD], self.encode_head()));
        let (names, classes) = (self.name_entries(0), self.class_entries(1));
        let indexes = self.indexes.iter().map(|index| {
            let mut bytes = Vec::new();
            index.definition.encode(&mut bytes);
            (Self::index_key(index.number), bytes)
        });
        let totals = std::iter::once((vec![COUNTS], self.totals.encode()));
        let counts = totals.chain(counts::class_entries(&self.synopsis));
        head.chain(names).chain(classes).chain(indexes).chain(counts)
    }

    /// The entries of names from a number on.
    fn name_entries(&self, first: usize) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        self.vocabulary.names().iter().zip(0u32..).skip(first).map(|(name, id)| {
            let mut bytes = Vec::new();
            name.encode(&mut bytes);
            (key_of(NAME, id), bytes)
        })
    }

    /// The entries of classes from a number on.
    fn class_entries(&self, first: usize) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        let classes = self.synopsis.classes().iter().zip(0u32..).skip(first);
        classes.map(|(class, id)| {
            let mut bytes = Vec::new();
            class.encode(&mut bytes);
            (key_of(CLASS, id), bytes)
        })
    }

    /// What of it an editor changes, as it is now.
    pub(crate) fn as_begun(&self) -> CatalogBegun {
        let (name_count, class_count) =
            (self.vocabulary.names().len(), self.synopsis.classes().len());
        CatalogBegun { name_count, class_count }
    }

    /// Forgets names and paths that came since it was as `begun` says: nothing has them.
    pub(crate) fn forget_since(&mut self, begun: &CatalogBegun) {
        self.vocabulary.truncate(begun.name_count);
        self.synopsis.truncate(begun.class_count);
    }

    /// Whether there are names or paths that an editor added.
    pub(crate) fn has_grown(&self, begun: &CatalogBegun) -> bool {
        self.vocabulary.names().len() > begun.name_count
            || self.synopsis.classes().len() > begun.class_count
    }

    /// The entries that an editor added, in the order of their keys.
    pub(crate) fn added_entries(
        &self,
        begun: &CatalogBegun,
    ) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        self.name_entries(begun.name_count).chain(self.class_entries(begun.class_count))
    }

    /// The key of an index's definition.
    pub(crate) fn index_key(number: u32) -> Vec<u8> {
        key_of(INDEX, number)
    }

    fn encode_head(&self) -> Vec<u8> {
        let codes = [self.mapping.code(), self.format.code(), self.compression.code()];
        let mut bytes = vec![FORMAT_VERSION];
        bytes.extend_from_slice(&codes);
        varint::put(self.container_bytes, &mut bytes);
        varint::put(self.plain_bytes, &mut bytes);
        bytes
    }

    /// The head; says what is wrong with it.
    fn decode_head(bytes: &[u8]) -> Result<Self, &'static str> {
        let (&[_, mapping, format, compression], mut rest) =
            bytes.split_first_chunk().ok_or("its catalogue's head is too short")?;
        let mapping = MappingKind::of_code(mapping).ok_or("its mapping is not known")?;
        let format = DocumentFormat::of_code(format).ok_or("its format is not known")?;
        let compression = Compression::of_code(compression)
            .ok_or("how its containers are packed is not known")?;
        let mut number = || varint::take(&mut rest).ok_or("its catalogue's head is too short");
        let (container_bytes, plain_bytes) = (number()?, number()?);
        if plain_bytes > BYTES_MAX {
            return Err("its catalogue counts more than a device holds");
        }
        let known_bytes = CONTAINER_BYTES_MIN as u64..=CONTAINER_BYTES_MAX as u64;
        if !rest.is_empty() || !known_bytes.contains(&container_bytes) {
            return Err("its catalogue's head makes no sense");
        }
        let empty = Self::empty(mapping, container_bytes);
        Ok(Self { format, compression, plain_bytes, exactness: Exactness::Nothing, ..empty })
    }

    /// Takes counts; says what is wrong with them.
    fn add_counts(&mut self, key: &[u8], value: &[u8]) -> Result<(), &'static str> {
        let block = match key {
            [COUNTS] => {
                self.totals = Totals::decode(value).ok_or("its catalogue's counts are broken")?;
                return Ok(());
            }
            [COUNTS, block @ ..] => <[u8; 4]>::try_from(block).ok(),
            _ => None,
        };
        let block = block.ok_or("its catalogue has an entry of a kind that is not known")?;
        let first = u32::from_be_bytes(block) as usize * counts::BLOCK_CLASS_COUNT;
        let node_counts = counts::decode_block(value).ok_or("counts of its paths are broken")?;
        self.synopsis.count_from(first, &node_counts).ok_or("its catalogue counts unknown paths")
    }

    /// Takes a name, a class or an index; says what is wrong with it.
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), &'static str> {
        let ([kind], id) = key.split_first_chunk().ok_or("its catalogue has an empty key")?;
        if *kind == INDEX {
            let id = <[u8; 4]>::try_from(id).map_err(|_| "an index of it has no number")?;
            let number = u32::from_be_bytes(id);
            if number == u32::MAX {
                return Err("an index of it has a number that none has");
            }
            let definition =
                IndexDefinition::decode(value).ok_or("an index of its catalogue is broken")?;
            self.indexes.push(StoredIndex { number, definition });
            let is_known = self.indexes.len() <= INDEX_COUNT_MAX;
            return if is_known { Ok(()) } else { Err("its catalogue has too many indexes") };
        }
        let next = match *kind {
            NAME => self.vocabulary.names().len(),
            CLASS => self.synopsis.classes().len(),
            _ => return Err("its catalogue has an entry of a kind that is not known"),
        };
        if id != nandu_base::to_u32(next as u64).to_be_bytes() {
            return Err("its catalogue has a gap");
        }
        if *kind == NAME {
            let name = Name::decode(value).ok_or("a name of its catalogue is broken")?;
            self.vocabulary.id_of(name);
            let is_new = self.vocabulary.names().len() > next;
            return if is_new { Ok(()) } else { Err("a name of its catalogue is there twice") };
        }
        let class = PathClass::decode(value).ok_or("a path of its catalogue is broken")?;
        if self.vocabulary.get(class.name).is_none() {
            return Err("a path of its catalogue has no name");
        }
        self.synopsis.add(class).ok_or("a path of its catalogue leads nowhere")?;
        Ok(())
    }
}

/// A document's head, if its version is known.
fn decoded_head(document: &str, head: &[u8]) -> Result<Catalog, XmlError> {
    if let &[found, ..] = head
        && found != FORMAT_VERSION
    {
        let (document, known) = (document.to_owned(), FORMAT_VERSION);
        return Err(XmlError::Version { document, found, known });
    }
    let damaged =
        |what: &str| XmlError::Damaged { document: document.to_owned(), what: what.to_owned() };
    Catalog::decode_head(head).map_err(damaged)
}

impl Document {
    /// The document of that name, as a transaction or snapshot sees it. Of counts a transaction sees those
    /// that were committed: what it adds itself is added at its end.
    ///
    /// # Errors
    /// If there is none, or what is stored of it is damaged.
    pub fn open(tables: &Tables, name: &str) -> Result<Self, XmlError> {
        let mut document = Self::open_structure(tables, name)?;
        document.read_counts(tables)?;
        if !tables.is_writing() {
            document.catalog.exactness = Exactness::Classes;
        }
        Ok(document)
    }

    /// The same without its counts, which somebody may be changing.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_structure(tables: &Tables, name: &str) -> Result<Self, XmlError> {
        let names = DocumentNames::of(name);
        let range = EntryRange::of(&names.catalog).less_than(&[COUNTS]);
        let mut entries = match tables.entries(range) {
            Err(StorageError::NotFound { .. }) => {
                return Err(XmlError::Missing { document: name.to_owned() });
            }
            entries => entries?,
        };
        let damaged = |what: String| XmlError::Damaged { document: name.to_owned(), what };
        let mut catalog = match entries.next_entry()? {
            Some((&[HEAD], head)) => decoded_head(name, head)?,
            _ => return Err(damaged("its catalogue has no head".to_owned())),
        };
        while let Some((key, value)) = entries.next_entry()? {
            catalog.add(key, value).map_err(|what| damaged(what.to_owned()))?;
        }
        Ok(Self { name: name.to_owned(), catalog })
    }

    /// The document one of whose trees `tree` is, if it is a tree of one that can be read.
    #[must_use]
    pub fn of_tree(tables: &Tables, tree: &str) -> Option<Self> {
        let of_index = || {
            let (document, number) = tree.rsplit_once("-index-")?;
            number.parse::<u32>().is_ok().then_some(document)
        };
        let ends = ["-nodes", "-catalog"];
        let document = ends.iter().find_map(|end| tree.strip_suffix(end)).or_else(of_index)?;
        let found = Self::open_structure(tables, document).ok()?;
        let names = DocumentNames::of(document);
        let is_its = tree == names.nodes
            || tree == names.catalog
            || found.catalog.indexes.iter().any(|index| names.index(index.number) == tree);
        is_its.then_some(found)
    }

    /// Reads the counts, exact or not.
    fn read_counts(&mut self, tables: &Tables) -> Result<(), XmlError> {
        let catalog = DocumentNames::of(&self.name).catalog;
        let mut entries = tables.entries(EntryRange::of(&catalog).at_least(&[COUNTS]))?;
        while let Some((key, value)) = entries.next_entry()? {
            self.catalog.add_counts(key, value).map_err(|what| self.damaged(what))?;
        }
        Ok(())
    }

    /// Takes the counts that are committed, about: by these it is chosen how expressions are answered. What was
    /// not there at the last commit has none.
    pub(crate) fn estimate_counts(&mut self, tables: &Tables) {
        // Of a document that is new, or has grown, not all is there.
        let _ = self.read_counts(&tables.committed());
    }

    /// Takes the names, paths and indexes that came since it was opened, and what is counted of the whole; of
    /// paths the counts of then stay, and all where reading would keep others from changing them.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn renew(&mut self, tables: &Tables) -> Result<(), XmlError> {
        let catalog = DocumentNames::of(&self.name).catalog;
        let head = tables.value(&catalog, &[HEAD], <[u8]>::to_vec)?.unwrap_or_default();
        let head = decoded_head(&self.name, &head)?;
        self.catalog.indexes.clear();
        for kind in [NAME, CLASS, INDEX] {
            let next = match kind {
                NAME => self.vocabulary().names().len(),
                CLASS => self.synopsis().classes().len(),
                _ => 0,
            };
            let (first, end) = (key_of(kind, nandu_base::to_u32(next as u64)), [kind + 1]);
            let range = EntryRange::of(&catalog).at_least(&first).less_than(&end);
            let mut entries = tables.entries(range.with_ahead_count(0))?;
            while let Some((key, value)) = entries.next_entry()? {
                self.catalog.add(key, value).map_err(|what| self.damaged(what))?;
            }
        }
        let own = &mut self.catalog;
        (own.mapping, own.container_bytes) = (head.mapping, head.container_bytes);
        (own.plain_bytes, own.exactness) = (head.plain_bytes, Exactness::Nothing);
        if !tables.is_writing() {
            let totals = tables.value(&catalog, &[COUNTS], Totals::decode)?.flatten();
            self.catalog.totals =
                totals.ok_or_else(|| self.damaged("its catalogue's counts are broken"))?;
            self.catalog.exactness = Exactness::Totals;
        }
        Ok(())
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How its containers are written.
    #[inline]
    pub(crate) const fn form(&self) -> ContainerForm {
        self.catalog.form()
    }

    /// Whether its containers are packed, and how.
    #[must_use]
    pub const fn compression(&self) -> Compression {
        self.catalog.compression
    }

    /// How it is stored.
    #[must_use]
    pub const fn mapping(&self) -> MappingKind {
        self.catalog.mapping
    }

    /// What it is made from and comes out as.
    #[must_use]
    pub const fn format(&self) -> DocumentFormat {
        self.catalog.format
    }

    /// The names of its elements, attributes and prefixes.
    #[must_use]
    pub const fn vocabulary(&self) -> &Vocabulary {
        &self.catalog.vocabulary
    }

    /// The indexes that it has.
    pub fn indexes(&self) -> impl Iterator<Item = &IndexDefinition> {
        self.catalog.indexes.iter().map(|index| &index.definition)
    }

    /// The path of names of a class: `/bib/book/@year`, `/json/tags/_`. A key of JSON that is no name
    /// of XML is written as `*[name() = "…"]`.
    #[must_use]
    pub fn path_of(&self, class: ClassId) -> String {
        let mut steps = Vec::new();
        let mut at = class;
        while let Some(class) = self.synopsis().get(at).filter(|it| it.kind != StepKind::Document) {
            let name = self.vocabulary().get(class.name).map_or_else(String::new, Name::written);
            steps.push(match class.kind {
                StepKind::Attribute => format!("@{name}"),
                StepKind::Namespace => format!("namespace::{name}"),
                StepKind::Element if self.is_odd_key(&name) => format!("*[name() = \"{name}\"]"),
                _ => name,
            });
            at = class.parent;
        }
        steps.iter().rev().map(|step| format!("/{step}")).collect()
    }

    /// Whether a key of JSON cannot be a step of an expression.
    fn is_odd_key(&self, key: &str) -> bool {
        self.format() == DocumentFormat::Json && !crate::import::is_plain_name(key)
    }

    /// Which paths of names there are.
    #[must_use]
    pub const fn synopsis(&self) -> &Synopsis {
        &self.catalog.synopsis
    }

    /// How large its containers are, packed and not. Reads all of them.
    ///
    /// # Errors
    /// If a page cannot be read, or the document is damaged.
    pub fn compression_stat(&self, tables: &Tables) -> Result<CompressionStat, XmlError> {
        let mut stat = CompressionStat::default();
        let mut entries = tables.entries(DocumentNames::of(&self.name).nodes.as_str())?;
        while let Some((_, value)) = entries.next_entry()? {
            let counted = self.compression().count(value, &mut stat);
            counted.map_err(|what| self.damaged(what))?;
        }
        Ok(stat)
    }

    /// How large it is.
    ///
    /// # Errors
    /// If its pages cannot be read.
    pub fn stat(&self, tables: &Tables) -> Result<DocumentStat, XmlError> {
        let names = DocumentNames::of(&self.name);
        let stats: Vec<TableStat> = tables.stat()?;
        let find = |tree: &str, missing: &str| {
            stats.iter().find(|stat| stat.name == tree).ok_or_else(|| self.damaged(missing))
        };
        let stat = find(&names.nodes, "its nodes are missing")?;
        let catalog = &self.catalog;
        let indexes = catalog.indexes.iter().map(|index| {
            let tree = names.index(index.number);
            let stat = find(&tree, "the entries of an index are missing")?;
            Ok(IndexStat {
                index: index.definition.to_string(),
                tree,
                entry_count: stat.row_count,
                page_count: stat.page_count,
                height: u64::from(stat.level_count),
                file_bytes: stat.file_bytes,
            })
        });
        Ok(DocumentStat {
            format: catalog.format.label(),
            mapping: catalog.mapping.label(),
            compression: catalog.compression.label(),
            plain_bytes: catalog.plain_bytes,
            counts: catalog.totals.counts,
            class_count: catalog.synopsis.classes().len() as u64,
            name_count: catalog.vocabulary.names().len() as u64,
            container_count: catalog.totals.container_count,
            container_bytes: catalog.container_bytes,
            page_count: stat.page_count,
            height: u64::from(stat.level_count),
            file_bytes: stat.file_bytes,
            indexes: indexes.collect::<Result<_, XmlError>>()?,
        })
    }

    pub(crate) fn damaged(&self, what: impl Into<String>) -> XmlError {
        XmlError::Damaged { document: self.name.clone(), what: what.into() }
    }
}

pub(crate) fn key_of(kind: u8, id: u32) -> Vec<u8> {
    let mut key = vec![kind];
    key.extend_from_slice(&id.to_be_bytes());
    key
}
