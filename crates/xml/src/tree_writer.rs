//! Records of a document from its nodes, as they come: labels by numbers of children, classes by
//! the caller.
//!
//! 1. Nodes come in document order, attributes right after their element.
//! 2. Memory holds a container, the elements that are open, the synopsis, and the entries of indexes
//!    until the caller takes them.

use crate::container::{ContainerForm, ContainerWriter};
use crate::index::Indexer;
use crate::label;
use crate::mapping::MappingKind;
use crate::record::{NodeKind, Record, ValueType};
use crate::synopsis::{ClassId, Synopsis};
use serde::Serialize;

/// What a document has in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Elements, empty ones too.
    pub element_count: u64,
    /// Attributes, without declarations of namespaces.
    pub attribute_count: u64,
    /// Declarations of namespaces.
    pub namespace_count: u64,
    /// Texts between tags.
    pub text_count: u64,
    /// Comments, outside of the outermost element too.
    pub comment_count: u64,
    /// Processing instructions, likewise.
    pub instruction_count: u64,
    /// Document types: one or none.
    pub doctype_count: u64,
    /// Levels of elements.
    pub level_count: u64,
    /// Bytes of values.
    pub value_bytes: u64,
}

impl Counts {
    pub(crate) fn of_kind(&mut self, kind: NodeKind) -> &mut u64 {
        match kind {
            NodeKind::Element => &mut self.element_count,
            NodeKind::Attribute => &mut self.attribute_count,
            NodeKind::Namespace => &mut self.namespace_count,
            NodeKind::Text => &mut self.text_count,
            NodeKind::Comment => &mut self.comment_count,
            NodeKind::Instruction => &mut self.instruction_count,
            NodeKind::Doctype => &mut self.doctype_count,
        }
    }

    /// Nodes of all kinds.
    #[must_use]
    pub fn node_count(mut self) -> u64 {
        NodeKind::ALL.map(|kind| *self.of_kind(kind)).iter().sum()
    }
}

/// An element that has not ended, or the document.
#[derive(Debug)]
struct Open {
    label_bytes: usize,
    class: ClassId,
    next_child: i64,
    next_attribute: i64,
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct TreeWriter {
    mapping: MappingKind,
    containers: ContainerWriter,
    /// The label of the innermost open element.
    label: Vec<u8>,
    open: Vec<Open>,
    /// Levels above the first element that is open.
    base_level: usize,
    pub(crate) synopsis: Synopsis,
    /// Makes entries of indexes, which the caller takes.
    pub(crate) indexer: Indexer,
    counts: Counts,
}

/// A label is too long.
#[derive(Debug)]
pub(crate) struct TooDeep;

impl TreeWriter {
    pub(crate) fn new(form: ContainerForm, container_bytes: usize) -> Self {
        let document =
            Open { label_bytes: 0, class: ClassId::DOCUMENT, next_child: 0, next_attribute: 0 };
        Self {
            mapping: form.mapping,
            containers: ContainerWriter::new(form, container_bytes),
            label: Vec::new(),
            open: vec![document],
            base_level: 0,
            synopsis: Synopsis::default(),
            indexer: Indexer::default(),
            counts: Counts::default(),
        }
    }

    /// How many elements are open.
    #[inline]
    pub(crate) fn depth(&self) -> usize {
        self.open.len() - 1
    }

    /// Begins inside of an element that is stored already, as if it had no children.
    pub(crate) fn begin_in(
        &mut self,
        label: &[u8],
        level: usize,
        class: ClassId,
        synopsis: Synopsis,
    ) {
        self.label = label.to_vec();
        let label_bytes = label.len();
        self.open.push(Open { label_bytes, class, next_child: 0, next_attribute: 0 });
        self.base_level = level - 1;
        self.synopsis = synopsis;
    }

    /// How many children the outermost open element has so far.
    pub(crate) fn child_count(&self) -> usize {
        self.open.get(1).map_or(0, |open| usize::try_from(open.next_child).unwrap_or_default())
    }

    /// How many levels of elements there are above what comes next.
    #[inline]
    pub(crate) fn level(&self) -> usize {
        self.base_level + self.depth()
    }

    /// The class of the innermost open element, or the document's.
    #[inline]
    pub(crate) fn class(&self) -> ClassId {
        self.innermost().class
    }

    pub(crate) const fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(crate) const fn container_count(&self) -> u64 {
        self.containers.container_count()
    }

    /// An element begins.
    #[inline]
    pub(crate) fn open<E: From<TooDeep>>(
        &mut self,
        class: ClassId,
        sink: &mut impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let parent = self.open.last_mut().expect("the document is always open");
        label::push_child(&mut self.label, parent.next_child);
        parent.next_child += 1;
        let label_bytes = self.label.len();
        // Room for the mark and the number of an attribute, or for the number of a child.
        if label_bytes + 1 + label::ORDINAL_BYTES_MAX > label::LABEL_BYTES_MAX {
            return Err(TooDeep.into());
        }
        self.open.push(Open { label_bytes, class, next_child: 0, next_attribute: 0 });
        self.synopsis.count(class);
        self.counts.element_count += 1;
        self.counts.level_count = self.counts.level_count.max(self.depth() as u64);
        if self.indexer.is_active() {
            self.indexer.open(class, &self.label);
        }
        if self.mapping.has_elements() {
            let record = new_record(&self.label, NodeKind::Element, class, &[]);
            self.containers.push(&record, sink)?;
        }
        Ok(())
    }

    /// The innermost open element ends.
    #[inline]
    pub(crate) fn close<E>(
        &mut self,
        sink: &mut impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Open { class, next_child, next_attribute, .. } =
            self.open.pop().expect("the caller opened it");
        if self.indexer.is_active() {
            self.indexer.close();
        }
        if next_child == 0 && next_attribute == 0 && !self.mapping.has_elements() {
            let record = new_record(&self.label, NodeKind::Element, class, &[]);
            self.containers.push(&record, sink)?;
        }
        let label_bytes = self.innermost().label_bytes;
        self.label.truncate(label_bytes);
        Ok(())
    }

    /// An attribute, or a declaration of a namespace, of the innermost open element.
    #[inline]
    pub(crate) fn attribute<E>(
        &mut self,
        kind: NodeKind,
        class: ClassId,
        value: &[u8],
        sink: &mut impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let element = self.open.last_mut().expect("the document is always open");
        label::push_attribute(&mut self.label, element.next_attribute);
        element.next_attribute += 1;
        self.synopsis.count(class);
        self.leaf((kind, ValueType::Text), class, value, sink)
    }

    /// A node without a name in the innermost open element, or in the document.
    #[inline]
    pub(crate) fn child<E>(
        &mut self,
        kind: NodeKind,
        value: &[u8],
        sink: &mut impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.typed_child((kind, ValueType::Text), value, sink)
    }

    /// The same of a value that may be other than text.
    #[inline]
    pub(crate) fn typed_child<E>(
        &mut self,
        kind: (NodeKind, ValueType),
        value: &[u8],
        sink: &mut impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let parent = self.open.last_mut().expect("the document is always open");
        let class = parent.class;
        label::push_child(&mut self.label, parent.next_child);
        parent.next_child += 1;
        self.leaf(kind, class, value, sink)
    }

    /// Hands on the last container.
    pub(crate) fn finish<E>(
        &mut self,
        sink: &mut impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.containers.finish(sink)
    }

    /// Writes the node whose label was just made.
    #[inline]
    fn leaf<E>(
        &mut self,
        (kind, value_type): (NodeKind, ValueType),
        class: ClassId,
        value: &[u8],
        sink: &mut impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        *self.counts.of_kind(kind) += 1;
        self.counts.value_bytes += value.len() as u64;
        if self.indexer.is_active() {
            match kind {
                NodeKind::Text => self.indexer.text(value),
                NodeKind::Attribute => {
                    self.indexer.attribute(class, &self.label, (value, false, false));
                }
                _ => {}
            }
        }
        let record = Record { value_type, ..new_record(&self.label, kind, class, value) };
        self.containers.push(&record, sink)?;
        let label_bytes = self.innermost().label_bytes;
        self.label.truncate(label_bytes);
        Ok(())
    }

    #[inline]
    fn innermost(&self) -> &Open {
        self.open.last().expect("the document is always open")
    }
}

#[inline]
fn new_record<'r>(label: &'r [u8], kind: NodeKind, class: ClassId, value: &'r [u8]) -> Record<'r> {
    let value_type = ValueType::Text;
    Record { label, kind, value_type, class, value, is_continued: false, goes_on: false }
}
