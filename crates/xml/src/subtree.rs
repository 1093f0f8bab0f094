//! Parts of a document, read by their labels: a node and all in it, into memory, and who is who there.
//!
//! ```text
//!   label ─► the containers from it to its end ─► Fragment     what expressions are answered over
//!                                             └─► labels       one for each node, for an `Editor`
//! ```
//!
//! 1. What is read are the containers of the node, whatever the size of the document.
//! 2. Texts that touch are one node of a fragment, with the label of the first.

use crate::document::{Document, DocumentNames};
use crate::error::XmlError;
use crate::label::Label;
use crate::locks::LockSettings;
use crate::record::{NodeKind, Record};
use crate::synopsis::ClassId;
use crate::walk::{NodeVisitor, walk, walk_in};
use crate::xpath::{Fragment, FragmentBuilder, Node, Places, QueryLimits};
use nandu_storage::FileId;
use nandu_storage::database::Tables;
use std::collections::BTreeSet;

/// Reads nodes of a document with all that is in them, one after the other.
#[derive(Debug)]
pub struct SubtreeReader {
    document: Document,
    /// The file of the catalogue that the document was opened from.
    file: FileId,
    builder: FragmentBuilder,
    places: Places,
    limits: QueryLimits,
    locks: LockSettings,
}

/// A node and all that is in it, in memory.
#[derive(Clone, Copy, Debug)]
pub struct Subtree<'s> {
    fragment: &'s Fragment,
    places: &'s Places,
}

impl SubtreeReader {
    /// Opens the document of that name.
    ///
    /// # Errors
    /// As [`Document::open`].
    pub fn open(tables: &Tables, name: &str) -> Result<Self, XmlError> {
        // Who locked the counts would keep others from changing the document.
        let document = match tables.is_locking() {
            true => Document::open_structure(tables, name)?,
            false => Document::open(tables, name)?,
        };
        let file = catalog_file(tables, name)?;
        let builder = FragmentBuilder::of(&document);
        let (places, limits) = (Places::default(), QueryLimits::default());
        Ok(Self { document, file, builder, places, limits, locks: LockSettings::default() })
    }

    /// Locks what is read as these settings say, in transactions that lock what they read.
    #[must_use]
    pub const fn with_locks(mut self, locks: LockSettings) -> Self {
        self.locks = locks;
        self
    }

    /// Follows the document to another moment, that of `tables`: takes names and paths that are new
    /// there. Costs four or five searches, where opening reads the whole catalogue. In a transaction that
    /// may be rolled back it belongs before the first change: what is new is kept.
    ///
    /// # Errors
    /// As [`Document::open`].
    pub fn renew(&mut self, tables: &Tables) -> Result<(), XmlError> {
        if catalog_file(tables, self.document.name())? != self.file {
            // Another document has its name.
            *self = Self::open(tables, self.document.name())?.with_locks(self.locks);
            return Ok(());
        }
        let name_count = self.document.vocabulary().names().len();
        self.document.renew(tables)?;
        if self.document.vocabulary().names().len() > name_count {
            self.builder = FragmentBuilder::of(&self.document);
        }
        Ok(())
    }

    /// The document, as of the moment at which it was opened or followed to last.
    #[must_use]
    pub const fn document(&self) -> &Document {
        &self.document
    }

    /// Reads a node and all that is in it; `None` if there is no such node. Forgets what was read
    /// before. A serializable transaction locks it, so that nobody changes it meanwhile.
    ///
    /// # Errors
    /// If a page cannot be read, the document is damaged, or the part is larger than
    /// [`QueryLimits`] have it.
    pub fn read(&mut self, tables: &Tables, node: &Label) -> Result<Option<Subtree<'_>>, XmlError> {
        self.builder.clear();
        self.places.clear();
        self.locks.lock_to_read(tables, self.document.name(), node)?;
        let Self { document, builder, places, limits, .. } = self;
        // The place that holds the rest stands for the element above.
        places.push(document, builder, node.parent().unwrap_or_default().as_bytes())?;
        let limit = limits.fragment_bytes;
        let mut collector = Collector { document, builder, places, limit };
        if !walk_in(tables, document, node, &mut collector)? {
            return Ok(None);
        }
        Ok(Some(Subtree { fragment: self.builder.fragment(), places: &self.places }))
    }
}

fn catalog_file(tables: &Tables, name: &str) -> Result<FileId, XmlError> {
    Ok(tables.definition(&DocumentNames::of(name).catalog)?.file)
}

impl<'s> Subtree<'s> {
    /// Its nodes: the first one, number 0, stands for the element above, and the node that was asked
    /// for is number 1.
    #[must_use]
    pub const fn fragment(&self) -> &'s Fragment {
        self.fragment
    }

    /// The label of a node; that of the element above for number 0.
    ///
    /// # Panics
    /// If the fragment has no such node.
    #[must_use]
    pub fn label(&self, node: Node) -> Label {
        self.places.of(node).next().expect("each node of a fragment has come with its label")
    }
}

struct Collector<'c> {
    document: &'c Document,
    builder: &'c mut FragmentBuilder,
    places: &'c mut Places,
    limit: usize,
}

impl Collector<'_> {
    /// Looks how large all is that has come.
    fn check(&self) -> Result<(), XmlError> {
        let bytes = self.builder.byte_count() + self.places.byte_count();
        if bytes > self.limit {
            let what = format!(
                "a part of the document has more than {} bytes in memory; read a smaller one",
                self.limit
            );
            return Err(XmlError::Invalid { what });
        }
        Ok(())
    }
}

impl NodeVisitor for Collector<'_> {
    fn open(&mut self, _class: ClassId) -> Result<(), XmlError> {
        unreachable!("elements come with their labels")
    }

    fn open_at(&mut self, class: ClassId, label: &[u8]) -> Result<(), XmlError> {
        self.builder.open_class(class, self.document.synopsis());
        self.places.push(self.document, self.builder, label)?;
        self.check()
    }

    fn close(&mut self, _class: ClassId) -> Result<(), XmlError> {
        self.builder.close();
        Ok(())
    }

    fn leaf(&mut self, record: &Record<'_>) -> Result<(), XmlError> {
        self.builder.leaf_of(record, self.document.synopsis())?;
        if !record.is_continued && record.kind != NodeKind::Doctype {
            self.places.push(self.document, self.builder, record.label)?;
        }
        self.check()
    }
}

/// Who hears of a value: the label of its node, the class, and the text.
pub type ValueTeller<'t> = dyn FnMut(&Label, ClassId, &str) -> Result<(), XmlError> + 't;

/// Tells of all attributes of these classes, and of the texts of elements of these classes, in the
/// order of the document, which is read once. A text is told with the label of its element; each by
/// itself, where other nodes stand between them.
///
/// # Errors
/// Whatever `tell` returns; if a page cannot be read, or the document is damaged.
pub fn values_of(
    tables: &Tables,
    document: &Document,
    classes: &BTreeSet<ClassId>,
    tell: &mut ValueTeller<'_>,
) -> Result<(), XmlError> {
    let (label, value) = (Vec::new(), Vec::new());
    let mut values = Values { document, classes, tell, label, value };
    walk(tables, document, &mut values, |_, _| Ok(()))
}

struct Values<'v, 't> {
    document: &'v Document,
    classes: &'v BTreeSet<ClassId>,
    tell: &'v mut ValueTeller<'t>,
    label: Vec<u8>,
    value: Vec<u8>,
}

impl NodeVisitor for Values<'_, '_> {
    fn open(&mut self, _class: ClassId) -> Result<(), XmlError> {
        Ok(())
    }

    fn close(&mut self, _class: ClassId) -> Result<(), XmlError> {
        Ok(())
    }

    fn leaf(&mut self, record: &Record<'_>) -> Result<(), XmlError> {
        let is_value = matches!(record.kind, NodeKind::Attribute | NodeKind::Text);
        if !is_value || !self.classes.contains(&record.class) {
            return Ok(());
        }
        if !record.is_continued {
            self.label.clear();
            self.label.extend_from_slice(record.label);
            self.value.clear();
        }
        self.value.extend_from_slice(record.value);
        if record.goes_on {
            return Ok(());
        }
        let damaged = |what: &str| self.document.damaged(format!("{what} of {:02x?}", self.label));
        let label = Label::from_bytes(&self.label).map_err(|_| damaged("the label"))?;
        let label = match record.kind {
            NodeKind::Text => label.parent().unwrap_or_default(),
            _ => label,
        };
        let value = std::str::from_utf8(&self.value).map_err(|_| damaged("the value"))?;
        (self.tell)(&label, record.class, value)
    }
}
