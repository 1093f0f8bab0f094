//! An XML document that a database has beside its tables: what happens to it happens to a [`tree`], too,
//! and what is stored has to be one of those that a reopening may show.
//!
//! 1. What is stored is compared as text, nodes by nodes with their indexes by the check of the document.
//! 2. Elements are found by their keys, through the index of keys where the planner takes it.

pub(crate) mod crowd;
pub(crate) mod threads;
pub(crate) mod tree;
#[cfg(test)]
mod writers;

use crate::life::{Simulation, Stop};
use crate::model::State;
use nandu_base::{Rng, to_index};
use nandu_storage::StorageError;
use nandu_storage::database::{Tables, WriteTransaction};
use nandu_xml::xpath::{Namespaces, QueryLimits, QueryPlan, locate, parse};
use nandu_xml::{
    Document, Editor, ImportOptions, IndexDefinition, Label, LockSettings, MappingKind, XmlError,
    check, export, import_with,
};
use tree::{Edit, Element, Spot};

/// The name of the document.
const NAME: &str = "tree";
/// Most changes of one editor.
const EDIT_COUNT_MAX: u64 = 3;
/// Its indexes, one of each kind and one more; without the last one, writers of texts in different elements
/// do not meet in the entries of those above.
const INDEXES: [&str; 4] = ["elements", "text://n/@k", "number://n/@k", "text://n"];
/// Text of the smallest element, elements above one, and bytes of an entry in an index, about.
const ELEMENT_BYTES_MIN: usize = 20;
const ABOVE_COUNT: usize = 10;
const ENTRY_BYTES: usize = 300;

/// Stores a document, with an index of each kind.
///
/// # Errors
/// If there is no room, or a device fails.
pub(crate) fn store(
    write: &mut WriteTransaction<'_>,
    mapping: MappingKind,
    tree: &Element,
) -> Result<(), XmlError> {
    store_with(write, mapping, tree, &INDEXES)
}

fn store_with(
    write: &mut WriteTransaction<'_>,
    mapping: MappingKind,
    tree: &Element,
    indexes: &[&str],
) -> Result<(), XmlError> {
    let indexes = indexes.iter().map(|index| IndexDefinition::parse(index, &Namespaces::new()));
    let indexes = indexes.collect::<Result<_, _>>()?;
    let options = ImportOptions { mapping, indexes, ..ImportOptions::default() };
    let text = tree.text();
    import_with(write, NAME, &options, ("a tree", text.as_bytes()), &mut ())?;
    Ok(())
}

/// What is stored.
///
/// # Errors
/// If a page cannot be read, or it is none of these trees.
pub(crate) fn read(tables: &Tables) -> Result<Element, XmlError> {
    let document = Document::open(tables, NAME)?;
    let mut bytes = Vec::new();
    export(tables, &document, &mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // The first line is a declaration.
    let tree = text.split_once('\n').and_then(|(_, text)| Element::parse(text.trim_end()));
    tree.ok_or_else(|| {
        let what = format!("its text is no tree: {text}");
        XmlError::Damaged { document: NAME.to_owned(), what }
    })
}

/// Every rule that the stored document breaks.
///
/// # Errors
/// If a page cannot be read.
pub(crate) fn findings(tables: &Tables) -> Result<Vec<String>, XmlError> {
    Ok(check(tables, &Document::open(tables, NAME)?)?.findings)
}

/// Makes changes to what is stored, in one go.
///
/// # Errors
/// If an element is not there that the changes name, or the engine refuses.
pub(crate) fn change(write: &mut WriteTransaction<'_>, edits: &[Edit]) -> Result<(), XmlError> {
    change_with(write, edits, LockSettings::default())
}

fn change_with(
    write: &mut WriteTransaction<'_>,
    edits: &[Edit],
    locks: LockSettings,
) -> Result<(), XmlError> {
    let mut editor = Editor::begin_with(write, NAME, locks)?;
    edits.iter().try_for_each(|edit| change_one(&mut editor, edit))?;
    editor.finish()?;
    Ok(())
}

fn change_one(editor: &mut Editor<'_, '_>, edit: &Edit) -> Result<(), XmlError> {
    let done = match edit {
        Edit::Insert { at, spot, element } => {
            let label = one(editor, &format!("//n[@k = '{at}']"))?;
            let first = match spot {
                Spot::First => labels(editor, &format!("//n[@k = '{at}']/n"))?.into_iter().next(),
                _ => None,
            };
            let spot = match (spot, first) {
                (Spot::First, Some(child)) => nandu_xml::Spot::Before(child),
                // A value comes before it.
                (Spot::First | Spot::Last, _) => nandu_xml::Spot::LastIn(label),
                (Spot::Before, _) => nandu_xml::Spot::Before(label),
                (Spot::Behind, _) => nandu_xml::Spot::Behind(label),
            };
            editor.insert(&spot, &element.text())?.len() == 1
        }
        Edit::Delete { key } => {
            let label = one(editor, &format!("//n[@k = '{key}']"))?;
            editor.delete(&label)?
        }
        Edit::SetKey { key, new } => {
            let label = one(editor, &format!("//n[@k = '{key}']/@k"))?;
            editor.set_value(&label, new)?
        }
        Edit::SetValue { key, value } => {
            let label = one(editor, &format!("//n[@k = '{key}']"))?;
            let texts = labels(editor, &format!("//n[@k = '{key}']/text()"))?;
            match (&texts[..], value.is_empty()) {
                ([], true) => true,
                ([], false) => editor.insert(&nandu_xml::Spot::FirstIn(label), value)?.len() == 1,
                ([text], true) => editor.delete(text)?,
                ([text], false) => editor.set_value(text, value)?,
                _ => false,
            }
        }
    };
    if done { Ok(()) } else { Err(damaged(editor.document(), &format!("{edit:?} cannot be made"))) }
}

/// The label of the only node that an expression chooses.
fn one(editor: &Editor<'_, '_>, expression: &str) -> Result<Label, XmlError> {
    match <[Label; 1]>::try_from(labels(editor, expression)?) {
        Ok([label]) => Ok(label),
        Err(labels) => {
            let what = format!("{expression} chooses {} nodes", labels.len());
            Err(damaged(editor.document(), &what))
        }
    }
}

/// The labels of all nodes that an expression chooses.
fn labels(editor: &Editor<'_, '_>, expression: &str) -> Result<Vec<Label>, XmlError> {
    let (tables, document) = (editor.tables(), editor.document());
    let parsed = parse(expression).map_err(|error| damaged(document, &error.to_string()))?;
    let namespaces = Namespaces::new();
    let plan = QueryPlan::new(&parsed, document, &namespaces)?;
    let plan = plan.choose(tables, document, &namespaces)?;
    let with = (&namespaces, QueryLimits::default());
    let nodes = locate(tables, document, &plan, with, &|| false)?;
    Ok(nodes.into_iter().flat_map(|node| node.labels).collect())
}

fn damaged(document: &Document, what: &str) -> XmlError {
    XmlError::Damaged { document: document.name().to_owned(), what: what.to_owned() }
}

/// Trouble with a document as trouble of the engine.
pub(crate) fn of_engine(error: XmlError) -> StorageError {
    match error {
        XmlError::Storage(error) => error,
        XmlError::Missing { document } => {
            StorageError::NotFound { what: format!("document {document}") }
        }
        error => StorageError::Corrupt { place: "a document".to_owned(), what: error.to_string() },
    }
}

/// The indexes of a document that several change, by its seed.
fn indexes_of(seed: u64) -> &'static [&'static str] {
    &INDEXES[..INDEXES.len() - to_index(seed % 2)]
}

/// A mapping, each as often as the others.
pub(crate) fn mapping(rng: &mut Rng) -> MappingKind {
    MappingKind::ALL[to_index(rng.below(MappingKind::ALL.len() as u64))]
}

impl Simulation<'_> {
    /// Makes the document, in the transaction that makes the tables. What it is belongs to what a
    /// reopening may show.
    pub(crate) fn store_document(
        &self,
        write: &mut WriteTransaction<'_>,
        mapping: MappingKind,
    ) -> Result<Element, StorageError> {
        let tree = Element::new("0", "");
        store(write, mapping, &tree).map_err(of_engine)?;
        Ok(tree)
    }

    /// A few changes to the document and to the model. True: what was there cannot be wrong and go
    /// unnoticed, since elements are found by their keys.
    pub(crate) fn change_document(
        &mut self,
        write: &mut WriteTransaction<'_>,
        state: &mut State,
    ) -> Result<bool, StorageError> {
        let Some(tree) = &mut state.document else { return Ok(false) };
        let mut edits = Vec::new();
        for _ in 0..=self.rng.below(EDIT_COUNT_MAX) {
            let edit = tree.draw(&mut self.rng, self.scenario.value_bytes_max);
            let bytes_before = tree.text().len();
            if !tree.apply(&edit) {
                return Ok(false);
            }
            let moved_bytes = bytes_before.abs_diff(tree.text().len()) + edit.byte_count();
            // The containers around it and the catalogue; old and new entries of what comes or goes, and
            // of the elements above, which have all text in them.
            let page_bytes = to_index(self.scenario.settings.page_bytes.into());
            self.room.ask(1, 2 * page_bytes + moved_bytes);
            let element_count = moved_bytes / ELEMENT_BYTES_MIN + ABOVE_COUNT;
            for _ in INDEXES {
                self.room.ask(2 * element_count as u64, ENTRY_BYTES.min(page_bytes / 8));
            }
            edits.push(edit);
        }
        self.outcome.document_change_count += edits.len() as u64;
        change(write, &edits).map_err(of_engine)?;
        Ok(true)
    }

    /// Checks nodes, names and indexes of the document.
    pub(crate) fn check_document(&self, tables: &Tables) -> Result<(), Stop> {
        if self.scenario.document.is_none() {
            return Ok(());
        }
        let found = findings(tables).map_err(of_engine);
        let found = found.map_err(|error| self.judge("the check of the document", &error))?;
        match found.first() {
            None => Ok(()),
            Some(_) if self.is_damage_told() => Err(Stop::Told),
            Some(finding) => {
                Err(Stop::Broken(format!("the check of the document found: {finding}")))
            }
        }
    }
}
