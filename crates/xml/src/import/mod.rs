//! From the text of a document to its records, in constant memory: one of XML as a stream of
//! quick-xml's events, one of JSON as `json` has it.
//!
//! ```text
//!   Read ─► Source ─► quick-xml ─► Importer ─► TreeWriter ─► containers ─► raw tree, past the log
//!           lines     events        names, entities,  └─► entries ─► sorted ─► trees of indexes
//!                                   namespaces, text                 then the catalogue
//! ```
//!
//! 1. All is made in one transaction: after an error there is nothing of the document.
//! 2. Texts, sections of CDATA and what entities stand for become one text where they touch, as in
//!    the data model of XPath. White space outside of the outermost element is left out.
//! 3. Whatever is wrong with a text is told with its line and column.

mod dtd;
mod fragment;
mod json;
mod names;
mod source;
mod tag;
mod words;

pub use dtd::{ENTITY_BYTES_MAX, ENTITY_LEVEL_MAX};
pub(crate) use fragment::{Base, check_value, fragment};
pub(crate) use json::{JsonPart, json_fragment, leaf_of};
pub use source::PIECE_BYTES_MAX;
pub use words::NAME_BYTES_MAX;
pub(crate) use words::is_plain_name;

use self::dtd::Entities;
use self::names::{Names, ScopeId};
use self::source::{Source, TooLong};
use self::tag::{AttributePlace, Distinct};
use crate::compression::Compression;
use crate::counts::Totals;
use crate::document::{Catalog, DocumentNames};
use crate::error::{Place, XmlError};
use crate::format::DocumentFormat;
use crate::index::{self, Coverage, IndexDefinition, Indexer};
use crate::mapping::MappingKind;
use crate::record::NodeKind;
use crate::synopsis::StepKind;
use crate::tree_writer::{Counts, TooDeep, TreeWriter};
use crate::{container, label};
use nandu_storage::database::{LoadOptions, NewTable, RowOrder, WriteTransaction};
use nandu_storage::{ReadPages, StorageError};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use serde::Serialize;
use std::io::{self, BufRead, Read};
use std::sync::Arc;

/// How deep elements may be nested, as most programs allow.
pub const LEVEL_COUNT_MAX: usize = 256;
/// Events between two looks of the observer.
const EVENTS_PER_LOOK: u32 = 1024;

/// Who watches an import, and may end it.
pub trait ImportObserver {
    /// So many bytes of the text were read.
    fn bytes_read(&mut self, byte_count: u64) {
        let _ = byte_count;
    }

    /// Whether to stop; then nothing is stored.
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl ImportObserver for () {}

/// What an import made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    /// Bytes of the text.
    pub plain_bytes: u64,
    /// Bytes of the files that hold the document.
    pub file_bytes: u64,
    /// What the document has in it.
    #[serde(flatten)]
    pub counts: Counts,
}

/// Who takes the key of an entry, and the place of its index.
type EntrySink<'s> = dyn FnMut(usize, &[u8]) -> Result<(), Trouble> + 's;

/// Why an event is not taken; the place is added by whoever knows it.
#[derive(Debug)]
enum Trouble {
    What(String),
    Other(XmlError),
}

impl From<String> for Trouble {
    fn from(what: String) -> Self {
        Self::What(what)
    }
}

impl From<&str> for Trouble {
    fn from(what: &str) -> Self {
        Self::What(what.to_owned())
    }
}

impl From<StorageError> for Trouble {
    fn from(error: StorageError) -> Self {
        Self::Other(error.into())
    }
}

impl From<TooDeep> for Trouble {
    fn from(_: TooDeep) -> Self {
        let limit = label::LABEL_BYTES_MAX;
        Self::What(format!("elements are nested too deep: a label would pass {limit} bytes"))
    }
}

/// How a document is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// How its records are written.
    pub mapping: MappingKind,
    /// What its text is.
    pub format: DocumentFormat,
    /// Whether its containers are packed.
    pub compression: Compression,
    /// Which indexes it has.
    pub indexes: Vec<IndexDefinition>,
}

/// Stores the text of an XML document, called `file` in errors, as a document of that name, without
/// indexes.
///
/// # Errors
/// As [`import_with`].
pub fn import(
    write: &mut WriteTransaction<'_>,
    document: &str,
    mapping: MappingKind,
    input: (&str, impl Read),
    observer: &mut dyn ImportObserver,
) -> Result<ImportReport, XmlError> {
    let options = ImportOptions { mapping, ..ImportOptions::default() };
    import_with(write, document, &options, input, observer)
}

/// Stores the text of a document, called `file` in errors, as a document of that name, with its
/// indexes, in one pass.
///
/// # Errors
/// If two of the indexes are the same, the text is no well-formed document, or passes a limit; there is
/// a document of that name; the pages of the database are too small for keys of labels; or the device has no room or fails.
pub fn import_with(
    write: &mut WriteTransaction<'_>,
    document: &str,
    options: &ImportOptions,
    (file, mut input): (&str, impl Read),
    observer: &mut dyn ImportObserver,
) -> Result<ImportReport, XmlError> {
    import_stream(write, document, options, (file, &mut input), observer)
}

/// As [`import_with`]. Of one kind of input, so that it is compiled here, with all that it calls, and
/// not in each crate that imports, however little that one is optimised.
fn import_stream(
    write: &mut WriteTransaction<'_>,
    document: &str,
    options: &ImportOptions,
    (file, input): (&str, &mut dyn Read),
    observer: &mut dyn ImportObserver,
) -> Result<ImportReport, XmlError> {
    let ImportOptions { mapping, format, compression, ref indexes } = *options;
    let usable_bytes = write.engine().usable_bytes();
    let container_bytes = container::container_bytes(usable_bytes).ok_or_else(|| {
        let what = "pages of this database are too small for labels: 2 KiB at least";
        XmlError::Invalid { what: what.to_owned() }
    })?;
    let mut catalog = Catalog::empty(mapping, container_bytes as u64);
    (catalog.format, catalog.compression) = (format, compression);
    let numbers: Vec<u32> =
        indexes.iter().map(|it| catalog.add_index(it)).collect::<Result<_, _>>()?;
    let names = DocumentNames::of(document);
    let mut ascending = LoadOptions { order: RowOrder::Ascending, ..LoadOptions::default() };
    (ascending.fill.low_permille, ascending.fill.high_permille) = (1000, 1000);
    let sorted = index::load_options(indexes.len());
    let nodes = NewTable::raw(&names.nodes);
    let trees = numbers.iter().map(|&number| NewTable::raw(&names.index(number)));
    let trees: Vec<NewTable> = trees.collect();
    let mut tables = vec![(&nodes, &ascending)];
    tables.extend(trees.iter().map(|tree| (tree, &sorted)));
    let mut made = None;
    let reports = write.load_tables(&tables, |loads| {
        let (nodes, indexes) = loads.split_first_mut().expect("nodes come first");
        let mut tree = TreeWriter::new(catalog.form(), container_bytes);
        tree.indexer = indexer(options);
        let mut put_entry =
            |place: usize, key: &[u8]| indexes[place].push_entry(key, &[]).map_err(Trouble::from);
        let sink = |key: &[u8], value: &[u8]| nodes.push_entry(key, value).map_err(Trouble::from);
        let put_entry = &mut put_entry;
        made = Some(match format {
            DocumentFormat::Xml => {
                Importer::new(tree, sink).read_all(file, input, observer, put_entry)?
            }
            DocumentFormat::Json => {
                json::Importer::new(tree, sink).read_all(file, input, observer, put_entry)?
            }
        });
        Ok::<_, XmlError>(())
    })?;
    let (tree, vocabulary, plain_bytes) = made.expect("the load was done");
    let counts = *tree.counts();
    let container_count = tree.container_count();
    (catalog.plain_bytes, catalog.totals) =
        (plain_bytes, Totals { container_count, change_count: 0, counts });
    (catalog.vocabulary, catalog.synopsis) = (vocabulary, tree.synopsis);
    let described = write.load_table(&NewTable::raw(&names.catalog), &ascending, |load| {
        catalog.entries().try_for_each(|(key, value)| load.push_entry(&key, &value))
    })?;
    let file_bytes = reports.iter().chain([&described]).map(|report| report.file_bytes).sum();
    Ok(ImportReport { plain_bytes, file_bytes, counts })
}

/// Who makes the entries of these indexes, of a document that has nothing yet.
fn indexer(options: &ImportOptions) -> Indexer {
    let indexes = options.indexes.iter();
    let (kinds, patterns) = indexes.map(|it| (it.kind(), it.pattern().clone())).unzip();
    Indexer::new(kinds, Coverage::new(patterns), options.format)
}

/// An open element, or the document.
#[derive(Debug)]
struct Scope {
    id: ScopeId,
    binding_count: usize,
    line: u64,
}

/// See the module's head.
struct Importer<S> {
    tree: TreeWriter,
    sink: S,
    names: Names,
    entities: Entities,
    scopes: Vec<Scope>,
    /// The text that has come so far, and where it began.
    text: Vec<u8>,
    text_place: Place,
    place: Place,
    attributes: Vec<AttributePlace>,
    distinct: Distinct,
    value: Vec<u8>,
    has_begun: bool,
    has_root: bool,
}

impl<S: FnMut(&[u8], &[u8]) -> Result<(), Trouble>> Importer<S> {
    fn new(tree: TreeWriter, sink: S) -> Self {
        let place = Place { line: 1, column: 1 };
        Self {
            tree,
            sink,
            names: Names::default(),
            entities: Entities::default(),
            scopes: vec![Scope { id: 0, binding_count: 0, line: 1 }],
            text: Vec::new(),
            text_place: place,
            place,
            attributes: Vec::new(),
            distinct: Distinct::default(),
            value: Vec::new(),
            has_begun: false,
            has_root: false,
        }
    }

    /// Reads a document to its end, and hands on entries of indexes. Gives the tree, the names, and the
    /// bytes that were read.
    fn read_all(
        mut self,
        file: &str,
        input: &mut dyn Read,
        observer: &mut dyn ImportObserver,
        put_entry: &mut EntrySink<'_>,
    ) -> Result<(TreeWriter, crate::vocabulary::Vocabulary, u64), XmlError> {
        let told = |place: Place, trouble: Trouble| match trouble {
            Trouble::What(what) => XmlError::Input { file: file.to_owned(), place, what },
            Trouble::Other(error) => error,
        };
        let mut source = Source::new(input);
        let first = source.first_bytes();
        let first = first.map_err(|error| XmlError::Read { file: file.to_owned(), error })?;
        check_first(first).map_err(|trouble| told(self.place, trouble))?;
        let mut reader = new_reader(source);
        let mut buffer = Vec::new();
        let mut event_count = 0u32;
        loop {
            buffer.clear();
            let source = reader.get_mut();
            source.begin_piece();
            self.place = source.place();
            event_count = event_count.wrapping_add(1);
            if event_count.is_multiple_of(EVENTS_PER_LOOK) {
                observer.bytes_read(source.byte_count());
                if observer.is_cancelled() {
                    return Err(XmlError::Cancelled);
                }
            }
            let taken = match reader.read_event_into(&mut buffer) {
                Ok(Event::Eof) => break,
                Ok(event) => self.take(event, 0),
                Err(error) => Err(trouble_of(file, error)),
            };
            let entries = self.tree.indexer.entries_mut();
            let taken = match taken {
                Ok(()) if !entries.is_empty() => entries.drain(&mut *put_entry),
                taken => taken,
            };
            taken.map_err(|trouble| told(self.place, trouble))?;
        }
        self.end_all().map_err(|trouble| told(self.place, trouble))?;
        let byte_count = reader.get_mut().byte_count();
        observer.bytes_read(byte_count);
        if observer.is_cancelled() {
            return Err(XmlError::Cancelled);
        }
        Ok((self.tree, self.names.vocabulary, byte_count))
    }

    /// Takes an event; `level` says how many entities it is in.
    #[inline]
    fn take(&mut self, event: Event<'_>, level: usize) -> Result<(), Trouble> {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        match event {
            Event::Start(tag) => self.start(&tag, level),
            Event::Empty(tag) => {
                self.start(&tag, level)?;
                self.end()
            }
            Event::End(_) => self.end(),
            Event::Text(text) => self.characters(&text, level),
            Event::CData(text) => self.section(&text, level),
            Event::GeneralRef(name) => self.reference(&name, level),
            Event::Comment(text) => self.leaf(NodeKind::Comment, &text, level),
            Event::PI(text) => {
                let target = text.target();
                words::check_name(target)?;
                if target.eq_ignore_ascii_case("xml") || target.contains(':') {
                    return Err(format!("`{target}` is no target of an instruction").into());
                }
                self.leaf(NodeKind::Instruction, &text, level)
            }
            Event::Decl(_) if !is_first || level > 0 => {
                Err("a declaration of XML stands at the very beginning only".into())
            }
            Event::Decl(declaration) => {
                words::check_declaration(&declaration)?;
                match declaration.encoding() {
                    None => Ok(()),
                    Some(name) => check_encoding(&name.map_err(|error| error.to_string())?),
                }
            }
            Event::DocType(text) => self.doctype(&text, level),
            Event::Eof => Ok(()),
        }
    }

    fn start(&mut self, tag: &BytesStart<'_>, level: usize) -> Result<(), Trouble> {
        self.end_text()?;
        if self.tree.depth() == 0 && std::mem::replace(&mut self.has_root, true) {
            return Err("a document has one outermost element, and this is a second".into());
        }
        if self.tree.level() >= LEVEL_COUNT_MAX {
            return Err(format!("elements are nested deeper than {LEVEL_COUNT_MAX} levels").into());
        }
        let name = tag.name().0;
        let text = tag.attributes_raw();
        self.attributes.clear();
        let found = tag::find_attributes(text, &mut self.attributes);
        found
            .map_err(|(at, what)| behind(&mut self.place, level, ["<", name, &text[..at]], what))?;
        let outer = self.scopes.last().expect("the document has a scope").id;
        let binding_count = self.names.binding_count();
        let id = match self.attributes.iter().any(|attribute| attribute.prefix(text).is_some()) {
            false => outer,
            true => {
                let mut declarations = Vec::new();
                for attribute in &self.attributes {
                    let Some(prefix) = attribute.prefix(text) else { continue };
                    self.value.clear();
                    let value = attribute.value(text);
                    let expanded = tag::expand(value, &mut self.entities, level, &mut self.value);
                    expanded.map_err(|(at, what)| {
                        let before = &text[..attribute.value_at() + at];
                        behind(&mut self.place, level, ["<", name, before], what)
                    })?;
                    let namespace = String::from_utf8_lossy(&self.value).into_owned();
                    declarations.push((prefix, namespace));
                }
                self.names.declare(outer, &declarations)?
            }
        };
        self.scopes.push(Scope { id, binding_count, line: self.place.line });
        let (above, step) = (self.tree.class(), (id, StepKind::Element, name));
        let class = self.names.class_of(&mut self.tree.synopsis, above, step)?;
        self.cover_new_classes();
        self.tree.open(class, &mut self.sink)?;
        if self.attributes.is_empty() { Ok(()) } else { self.put_attributes((name, text), level) }
    }

    /// Has the indexes know classes that are new.
    #[inline]
    fn cover_new_classes(&mut self) {
        let TreeWriter { indexer, synopsis, .. } = &mut self.tree;
        if indexer.is_active() && indexer.class_count() < synopsis.classes().len() {
            indexer.coverage_mut().extend(synopsis, &self.names.vocabulary);
        }
    }

    /// Stores the attributes of a tag of that name, which stand in what follows it.
    fn put_attributes(&mut self, (tag, text): (&str, &str), level: usize) -> Result<(), Trouble> {
        let scope = self.scopes.last().expect("the document has a scope").id;
        let element = self.tree.class();
        let attributes = std::mem::take(&mut self.attributes);
        self.distinct.begin();
        for attribute in &attributes {
            let (node, step, name) = match attribute.prefix(text) {
                Some(prefix) => (NodeKind::Namespace, StepKind::Namespace, prefix),
                None => (NodeKind::Attribute, StepKind::Attribute, attribute.name(text)),
            };
            let before = &text[..attribute.name_at()];
            let class = (scope, step, name);
            let class = self.names.class_of(&mut self.tree.synopsis, element, class);
            let class =
                class.map_err(|what| behind(&mut self.place, level, ["<", tag, before], what))?;
            self.cover_new_classes();
            let added = self.distinct.add(class, name);
            added.map_err(|what| behind(&mut self.place, level, ["<", tag, before], what))?;
            self.value.clear();
            let value = attribute.value(text);
            if tag::is_plain(value) {
                self.tree.attribute(node, class, value.as_bytes(), &mut self.sink)?;
            } else {
                let expanded = tag::expand(value, &mut self.entities, level, &mut self.value);
                expanded.map_err(|(at, what)| {
                    let before = &text[..attribute.value_at() + at];
                    behind(&mut self.place, level, ["<", tag, before], what)
                })?;
                self.tree.attribute(node, class, &self.value, &mut self.sink)?;
            }
        }
        self.distinct.check(&self.tree.synopsis, &self.names.vocabulary)?;
        self.attributes = attributes;
        Ok(())
    }

    #[inline]
    fn end(&mut self) -> Result<(), Trouble> {
        self.end_text()?;
        let scope = self.scopes.pop().expect("the parser knows that an element is open");
        self.names.forget(scope.binding_count);
        self.tree.close(&mut self.sink)
    }

    #[inline]
    fn characters(&mut self, text: &str, level: usize) -> Result<(), Trouble> {
        self.check_text("", text, level)?;
        if memchr::memchr(b']', text.as_bytes()).is_some()
            && let Some(at) = text.find("]]>")
        {
            let what = "`]]>` is not allowed in text; write `]]&gt;`";
            return Err(behind(&mut self.place, level, ["", "", &text[..at]], what));
        }
        self.begin_text();
        tag::put_lines(text, level, &mut self.text);
        self.limit_text()
    }

    fn section(&mut self, text: &str, level: usize) -> Result<(), Trouble> {
        if self.tree.depth() == 0 {
            return Err("there is text outside of the outermost element".into());
        }
        self.check_text("<![CDATA[", text, level)?;
        self.begin_text();
        tag::put_lines(text, level, &mut self.text);
        self.limit_text()
    }

    /// `&name;` or `&#65;`, between tags.
    fn reference(&mut self, name: &str, level: usize) -> Result<(), Trouble> {
        if self.tree.depth() == 0 {
            return Err("there is text outside of the outermost element".into());
        }
        self.begin_text();
        if tag::put_known(name, &mut self.text)? {
            return self.limit_text();
        }
        words::check_name(name)?;
        let text = self.entities.expand(name, level)?;
        if memchr::memchr2(b'<', b'&', text.as_bytes()).is_none() {
            return self.characters(&text, level + 1);
        }
        let depth = self.tree.depth();
        let mut reader = new_reader(text.as_bytes());
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            match reader.read_event_into(&mut buffer) {
                Ok(Event::Eof) => break,
                Ok(Event::DocType(_)) => return Err("a document type in an entity".into()),
                Ok(event) => self.take(event, level + 1)?,
                Err(error) => return Err(format!("in entity &{name};: {error}").into()),
            }
        }
        if self.tree.depth() != depth {
            return Err(format!("entity &{name}; has a tag without its other").into());
        }
        Ok(())
    }

    /// A node without a name.
    fn leaf(&mut self, kind: NodeKind, text: &str, level: usize) -> Result<(), Trouble> {
        self.end_text()?;
        let opening = match kind {
            NodeKind::Comment => "<!--",
            NodeKind::Instruction => "<?",
            // How much white space there is before the text, nobody says.
            _ => "",
        };
        self.check_text(opening, text, level)?;
        self.value.clear();
        tag::put_lines(text, level, &mut self.value);
        self.tree.child(kind, &self.value, &mut self.sink)
    }

    /// Refuses a character that XML does not allow, in a text behind `opening`.
    #[inline]
    fn check_text(&mut self, opening: &str, text: &str, level: usize) -> Result<(), Trouble> {
        if words::is_text(text) {
            return Ok(());
        }
        let before = &text[..words::wrong_at(text)];
        Err(behind(&mut self.place, level, ["", opening, before], words::NO_CHARACTER))
    }

    fn doctype(&mut self, text: &str, level: usize) -> Result<(), Trouble> {
        if self.has_root || level > 0 || self.tree.counts().doctype_count > 0 {
            return Err("a document type stands once, before the outermost element".into());
        }
        self.value.clear();
        tag::put_lines(text, level, &mut self.value);
        self.entities = Entities::declared(&String::from_utf8_lossy(&self.value))?;
        self.leaf(NodeKind::Doctype, text, level)
    }

    #[inline]
    fn begin_text(&mut self) {
        if self.text.is_empty() {
            self.text_place = self.place;
        }
    }

    /// Text comes in pieces without a tag in between, without an end where a file has none.
    #[inline]
    fn limit_text(&self) -> Result<(), Trouble> {
        if self.text.len() as u64 > PIECE_BYTES_MAX {
            return Err(TooLong.to_string().into());
        }
        Ok(())
    }

    /// Stores the text that has come so far.
    #[inline]
    fn end_text(&mut self) -> Result<(), Trouble> {
        if self.text.is_empty() {
            return Ok(());
        }
        if self.tree.depth() > 0 {
            self.tree.child(NodeKind::Text, &self.text, &mut self.sink)?;
        } else if !self.text.iter().all(|&byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
            self.place = self.text_place;
            return Err("there is text outside of the outermost element".into());
        }
        self.text.clear();
        Ok(())
    }

    fn end_all(&mut self) -> Result<(), Trouble> {
        if self.tree.depth() > 0 {
            let class = self.tree.synopsis.get(self.tree.class());
            let name = class.and_then(|class| self.names.vocabulary.get(class.name));
            let name = name.expect("an open element has a name").written();
            let line = self.scopes.last().expect("it is open").line;
            return Err(
                format!("the text ends inside of <{name}>, which began in line {line}").into()
            );
        }
        self.end_text()?;
        if !self.has_root {
            return Err("the text ends before there was an element".into());
        }
        self.tree.finish(&mut self.sink)
    }
}

/// What is wrong behind these parts of the piece that is being read, and the place of that. In what an
/// entity stands for the place is that of the reference to it.
#[cold]
fn behind(place: &mut Place, level: usize, passed: [&str; 3], what: impl Into<Trouble>) -> Trouble {
    if level == 0 {
        passed.iter().for_each(|part| place.pass(part.as_bytes()));
    }
    what.into()
}

fn new_reader<R: BufRead>(source: R) -> Reader<R> {
    let mut reader = Reader::from_reader(source);
    let config = reader.config_mut();
    config.check_end_names = true;
    config.check_comments = true;
    reader
}

/// Refuses what begins as another encoding.
fn check_first(first: &[u8]) -> Result<(), Trouble> {
    match first {
        [0xFE, 0xFF, ..] | [0xFF, 0xFE, ..] | [0, b'<', ..] | [b'<', 0, ..] => {
            check_encoding("UTF-16")
        }
        _ => Ok(()),
    }
}

fn check_encoding(name: &str) -> Result<(), Trouble> {
    let known = ["utf-8", "utf8", "us-ascii", "ascii"];
    if known.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    let name: String = name.chars().take(40).collect();
    Err(format!(
        "its encoding is {name}, and only UTF-8 is read; convert it (iconv -f {name} -t UTF-8) and \
         leave out what it says of its encoding"
    )
    .into())
}

/// An error of the parser, or of reading.
fn trouble_of(file: &str, error: quick_xml::Error) -> Trouble {
    match error {
        quick_xml::Error::Io(error) => {
            if error.get_ref().is_some_and(|inner| inner.is::<TooLong>()) {
                return Trouble::What(TooLong.to_string());
            }
            // Nobody else has it, so it comes back as the reader gave it.
            let again = |error: Arc<io::Error>| io::Error::new(error.kind(), error.to_string());
            let error = Arc::try_unwrap(error).unwrap_or_else(again);
            Trouble::Other(XmlError::Read { file: file.to_owned(), error })
        }
        quick_xml::Error::Encoding(_) => {
            "from here on there are bytes that are no UTF-8, the only encoding that is read".into()
        }
        error => Trouble::What(error.to_string()),
    }
}
