//! Fragments: what a text has in it, as nodes inside of an element that is stored already.

use super::{Importer, Names, Trouble, new_reader, words};
use crate::document::Catalog;
use crate::error::{Place, XmlError};
use crate::record::NodeKind;
use crate::synopsis::ClassId;
use crate::tree_writer::TreeWriter;
use crate::vocabulary::Vocabulary;
use quick_xml::events::Event;

/// Entries of a raw tree.
pub(crate) type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// The element that a fragment goes into.
#[derive(Debug)]
pub(crate) struct Base<'b> {
    pub(crate) label: &'b [u8],
    pub(crate) level: usize,
    pub(crate) class: ClassId,
    /// Prefixes and what they stand for there, the innermost last.
    pub(crate) bindings: Vec<(String, String)>,
}

/// The nodes of a text as containers of records that are numbered as the only children of the base,
/// and how many children these are. New names and paths go to the catalogue.
pub(crate) fn fragment(
    catalog: &mut Catalog,
    base: &Base<'_>,
    text: &str,
) -> Result<(Entries, usize), XmlError> {
    put_inside(catalog, base, |tree, vocabulary, sink| {
        let mut importer = Importer::new(tree, sink);
        importer.names = Names::within(vocabulary, base.bindings.clone());
        let answer = importer.read_fragment(text);
        let answer = answer.map_err(|trouble| (importer.place, trouble));
        Inside { tree: importer.tree, vocabulary: importer.names.vocabulary, answer }
    })
}

/// Who takes the containers of a fragment.
pub(super) type Sink<'s> = dyn FnMut(&[u8], &[u8]) -> Result<(), Trouble> + 's;

/// What came of reading a fragment.
pub(super) struct Inside {
    pub(super) tree: TreeWriter,
    pub(super) vocabulary: Vocabulary,
    pub(super) answer: Result<(), (Place, Trouble)>,
}

/// What [`fragment`] does, by whoever reads the text. Of a text that is refused the catalogue keeps nothing.
pub(super) fn put_inside(
    catalog: &mut Catalog,
    base: &Base<'_>,
    read: impl FnOnce(TreeWriter, Vocabulary, &mut Sink<'_>) -> Inside,
) -> Result<(Entries, usize), XmlError> {
    let begun = catalog.as_begun();
    let container_bytes = usize::try_from(catalog.container_bytes).unwrap_or(usize::MAX);
    let mut tree = TreeWriter::new(catalog.form(), container_bytes);
    let counts = catalog.synopsis.node_counts();
    tree.begin_in(base.label, base.level, base.class, std::mem::take(&mut catalog.synopsis));
    let mut entries = Entries::new();
    let mut sink = |key: &[u8], value: &[u8]| {
        entries.push((key.to_vec(), value.to_vec()));
        Ok::<(), Trouble>(())
    };
    let Inside { tree, vocabulary, answer } =
        read(tree, std::mem::take(&mut catalog.vocabulary), &mut sink);
    let child_count = tree.child_count();
    (catalog.synopsis, catalog.vocabulary) = (tree.synopsis, vocabulary);
    // Who puts the records into the document counts them.
    catalog.synopsis.count_as(&counts);
    let Err((place, trouble)) = answer else { return Ok((entries, child_count)) };
    catalog.forget_since(&begun);
    match trouble {
        Trouble::What(what) => {
            Err(XmlError::Input { file: "the fragment".to_owned(), place, what })
        }
        Trouble::Other(error) => Err(error),
    }
}

impl<S: FnMut(&[u8], &[u8]) -> Result<(), Trouble>> Importer<S> {
    fn read_fragment(&mut self, text: &str) -> Result<(), Trouble> {
        let (mut source, mut buffer) = (new_reader(text.as_bytes()), Vec::new());
        let depth = self.tree.depth();
        let mut passed_bytes = 0;
        (self.has_begun, self.has_root) = (true, true);
        loop {
            buffer.clear();
            let at = usize::try_from(source.buffer_position()).unwrap_or(usize::MAX);
            // From one event to the next, since from the beginning a long fragment would take forever.
            let passed = text.get(passed_bytes..at).unwrap_or_default();
            self.place = self.place.behind(passed);
            passed_bytes += passed.len();
            match source.read_event_into(&mut buffer) {
                Ok(Event::Eof) => break,
                Ok(event) => self.take(event, 0)?,
                Err(error) => return Err(error.to_string().into()),
            }
        }
        if self.tree.depth() != depth {
            return Err("the fragment ends inside of an element".into());
        }
        self.end_text()?;
        self.tree.finish(&mut self.sink)
    }
}

impl Place {
    /// The place behind a text that begins here.
    fn behind(self, text: &str) -> Self {
        let line = text.rsplit('\n').next().unwrap_or_default();
        let line_count = text.matches('\n').count() as u64;
        let from = if line_count == 0 { self.column } else { 1 };
        Self { line: self.line + line_count, column: from + line.chars().count() as u64 }
    }
}

/// Says why a node of some kind cannot have a value.
pub(crate) fn check_value(kind: NodeKind, value: &str) -> Result<(), &'static str> {
    let target = value.split(|letter: char| letter.is_ascii_whitespace()).next();
    let target = target.unwrap_or_default();
    let has_target = words::check_name(target).is_ok() && !target.eq_ignore_ascii_case("xml");
    match kind {
        _ if !words::is_text(value) => Err(words::NO_CHARACTER),
        NodeKind::Text if value.is_empty() => Err("a text has characters; remove the node instead"),
        NodeKind::Comment if value.contains("--") || value.ends_with('-') => {
            Err("a comment has no `--`, and no `-` at its end")
        }
        NodeKind::Instruction if value.contains("?>") || !has_target => {
            Err("an instruction has a target at its beginning and no `?>`")
        }
        _ => Ok(()),
    }
}
