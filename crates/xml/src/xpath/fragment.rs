//! Nodes in memory, in the order of the document: what expressions are answered over.
//!
//! ```text
//!   <a x="1">t<b/></a>        0 document │ 1 a │ 2 @x │ 3 "t" │ 4 b │
//!                             end:     5       5      3       4     5     below i: i + 1 .. end of i
//! ```
//!
//! 1. A node comes before those below it, an element's attributes and declarations directly after it.
//! 2. Below node *i* are those after it up to its end; a parent comes before its children.

use crate::document::Document;
use crate::error::XmlError;
use crate::format::DocumentFormat;
use crate::record::{NodeKind, Record, ValueType};
use crate::synopsis::{ClassId, StepKind, Synopsis};
use crate::vocabulary::{Name, NameId, Vocabulary};

/// A node: its place in the order of the document.
pub type Node = u32;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentKind {
    /// Where the document begins, or what holds a part of one.
    Document,
    /// An element.
    Element,
    /// An attribute.
    Attribute,
    /// A declaration of a namespace, which expressions do not see.
    Namespace,
    /// Text between tags.
    Text,
    /// A comment.
    Comment,
    /// A processing instruction, whose name is its target.
    Instruction,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    kind: FragmentKind,
    /// What its own text is.
    value_type: ValueType,
    /// Whether it is an item of an array.
    is_item: bool,
    name: NameId,
    /// The class of an element.
    class: ClassId,
    parent: Node,
    end: Node,
    /// Of its own text.
    text: (usize, usize),
}

/// A document, or a part of one.
#[derive(Clone, Debug, Default)]
pub struct Fragment {
    nodes: Vec<Entry>,
    names: Vocabulary,
    text: String,
    format: DocumentFormat,
}

/// Makes a fragment, node by node in the order of the document.
#[derive(Debug)]
pub struct FragmentBuilder {
    fragment: Fragment,
    /// Of what has no name.
    no_name: NameId,
    open: Vec<Node>,
    /// The first bytes of a character whose others come with the next part of its value.
    cut: Vec<u8>,
}

impl FragmentBuilder {
    /// One with names that are known; the nodes' names are others or these.
    #[must_use]
    pub fn with_names(names: Vocabulary) -> Self {
        let mut fragment = Fragment { names, ..Fragment::default() };
        let no_name = fragment.names.id_of(Name::default());
        fragment.nodes.push(Entry::new(FragmentKind::Document, no_name, (0, 1), (0, 0)));
        Self { fragment, no_name, open: vec![0], cut: Vec::new() }
    }

    /// One for parts of a document.
    pub(crate) fn of(document: &Document) -> Self {
        let mut builder = Self::with_names(document.vocabulary().clone());
        builder.fragment.format = document.format();
        builder
    }

    /// The name of what has none.
    #[must_use]
    pub const fn no_name(&self) -> NameId {
        self.no_name
    }

    /// The number of a name.
    pub fn id_of(&mut self, name: Name) -> NameId {
        self.fragment.names.id_of(name)
    }

    /// Forgets all nodes.
    pub fn clear(&mut self) {
        self.fragment.nodes.truncate(1);
        self.fragment.nodes[0].end = 1;
        self.fragment.text.clear();
        self.open.truncate(1);
        self.cut.clear();
    }

    /// An element begins.
    pub fn open(&mut self, name: NameId, class: ClassId) {
        let node = self.add(FragmentKind::Element, name, "");
        self.fragment.nodes[node as usize].class = class;
        self.open.push(node);
    }

    /// An element of a class begins.
    pub(crate) fn open_class(&mut self, class: ClassId, synopsis: &Synopsis) {
        self.open(self.name_of(class, synopsis), class);
        if let Some(node) = self.fragment.nodes.last_mut() {
            node.is_item = synopsis.get(class).is_some_and(|it| it.kind == StepKind::Array);
        }
    }

    /// The innermost element ends; the document does not.
    pub fn close(&mut self) {
        let end = self.fragment.next();
        if self.open.len() > 1 {
            let node = self.open.pop().expect("an element is open");
            self.fragment.nodes[node as usize].end = end;
        }
    }

    /// A node without nodes below it. An element's attributes come before what is in it; text after
    /// text is part of it.
    pub fn leaf(&mut self, kind: FragmentKind, name: NameId, text: &str) {
        if kind == FragmentKind::Text {
            if text.is_empty() {
                return;
            }
            let parent = self.innermost();
            if let Some(last) = self.fragment.nodes.last_mut()
                && last.kind == FragmentKind::Text
                && last.parent == parent
            {
                self.fragment.text.push_str(text);
                last.text.1 = self.fragment.text.len();
                return;
            }
        }
        self.add(kind, name, text);
    }

    /// The name of a class.
    pub(crate) fn name_of(&self, class: ClassId, synopsis: &Synopsis) -> NameId {
        synopsis.get(class).map_or(self.no_name, |class| class.name)
    }

    /// A stored node, or a part of one, that is no element.
    pub(crate) fn leaf_of(
        &mut self,
        record: &Record<'_>,
        synopsis: &Synopsis,
    ) -> Result<(), XmlError> {
        if matches!(record.kind, NodeKind::Element | NodeKind::Doctype) {
            return Ok(());
        }
        let joined;
        let bytes = if self.cut.is_empty() {
            record.value
        } else {
            self.cut.extend_from_slice(record.value);
            joined = std::mem::take(&mut self.cut);
            &joined
        };
        // A part of a long value may end within a character.
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => Some(text),
            Err(error) if error.error_len().is_none() => {
                let (whole, cut) = bytes.split_at(error.valid_up_to());
                self.cut.extend_from_slice(cut);
                std::str::from_utf8(whole).ok()
            }
            Err(_) => None,
        };
        let text = text.ok_or_else(|| XmlError::Invalid { what: "a value is no UTF-8".to_owned() });
        let text = text?;
        let (kind, name, text) = match record.kind {
            NodeKind::Element | NodeKind::Doctype => return Ok(()),
            _ if record.is_continued => {
                self.append(text);
                return Ok(());
            }
            NodeKind::Attribute => {
                (FragmentKind::Attribute, self.name_of(record.class, synopsis), text)
            }
            NodeKind::Namespace => {
                (FragmentKind::Namespace, self.name_of(record.class, synopsis), text)
            }
            NodeKind::Text if self.fragment.format == DocumentFormat::Json => {
                // Each is one value of its type, also where it has no characters.
                let node = self.add(FragmentKind::Text, self.no_name, text);
                self.fragment.nodes[node as usize].value_type = record.value_type;
                return Ok(());
            }
            NodeKind::Text => (FragmentKind::Text, self.no_name, text),
            NodeKind::Comment => (FragmentKind::Comment, self.no_name, text),
            NodeKind::Instruction => {
                const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];
                let (target, rest) = text.split_once(BLANKS).unwrap_or((text, ""));
                let rest = rest.trim_start_matches(BLANKS);
                let name = Name { local: target.to_owned(), ..Name::default() };
                (FragmentKind::Instruction, self.id_of(name), rest)
            }
        };
        self.leaf(kind, name, text);
        Ok(())
    }

    /// More of the text of the node that came last.
    pub fn append(&mut self, text: &str) {
        if let Some(last) = self.fragment.nodes.last_mut() {
            self.fragment.text.push_str(text);
            last.text.1 = self.fragment.text.len();
        }
    }

    /// How many nodes there are so far.
    pub(crate) const fn node_count(&self) -> usize {
        self.fragment.nodes.len()
    }

    /// How many bytes it takes, about.
    #[must_use]
    pub fn byte_count(&self) -> usize {
        size_of::<Entry>() * self.fragment.nodes.len() + self.fragment.text.len()
    }

    fn innermost(&self) -> Node {
        *self.open.last().expect("the document is open")
    }

    fn add(&mut self, kind: FragmentKind, name: NameId, text: &str) -> Node {
        let parent = self.innermost();
        let begin = self.fragment.text.len();
        self.fragment.text.push_str(text);
        let node = self.fragment.next();
        let text = (begin, self.fragment.text.len());
        self.fragment.nodes.push(Entry::new(kind, name, (parent, node + 1), text));
        node
    }

    /// The fragment so far; what is open ends with it.
    pub fn fragment(&mut self) -> &Fragment {
        let end = self.fragment.next();
        for &node in &self.open {
            self.fragment.nodes[node as usize].end = end;
        }
        &self.fragment
    }
}

impl Entry {
    fn new(
        kind: FragmentKind,
        name: NameId,
        (parent, end): (Node, Node),
        text: (usize, usize),
    ) -> Self {
        let (value_type, is_item, class) = (ValueType::Text, false, ClassId::DOCUMENT);
        Self { kind, value_type, is_item, name, class, parent, end, text }
    }
}

impl Fragment {
    fn next(&self) -> Node {
        Node::try_from(self.nodes.len()).expect("a fragment has less than 2^32 nodes")
    }

    /// How many nodes there are.
    #[must_use]
    pub const fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// What the document is made from, of which it is a part.
    #[must_use]
    pub const fn format(&self) -> DocumentFormat {
        self.format
    }

    /// What the text of a node is.
    #[must_use]
    pub fn value_type(&self, node: Node) -> ValueType {
        self.nodes[node as usize].value_type
    }

    /// Whether a node is an item of an array.
    #[must_use]
    pub fn is_item(&self, node: Node) -> bool {
        self.nodes[node as usize].is_item
    }

    /// The number that a string is in its document; not a number, if it is none.
    pub(crate) fn number_of(&self, text: &str) -> f64 {
        super::number_of(text, self.format)
    }

    /// What a node is.
    #[must_use]
    pub fn kind(&self, node: Node) -> FragmentKind {
        self.nodes[node as usize].kind
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self, node: Node) -> &Name {
        self.names.get(self.nodes[node as usize].name).expect("names of nodes are known")
    }

    /// The class of an element; that of the document for all else.
    #[must_use]
    pub fn class(&self, node: Node) -> ClassId {
        self.nodes[node as usize].class
    }

    /// Whether it is an attribute or a declaration, which lie beside what is below an element.
    #[must_use]
    pub fn is_beside(&self, node: Node) -> bool {
        matches!(self.kind(node), FragmentKind::Attribute | FragmentKind::Namespace)
    }

    /// The node above; none above the document.
    #[must_use]
    pub fn parent(&self, node: Node) -> Option<Node> {
        (node > 0).then(|| self.nodes[node as usize].parent)
    }

    /// The first node after all that is below.
    #[must_use]
    pub fn end(&self, node: Node) -> Node {
        self.nodes[node as usize].end
    }

    /// The attributes and declarations of an element, in the order in which they were written.
    pub fn beside(&self, node: Node) -> impl Iterator<Item = Node> {
        (node + 1..self.end(node)).take_while(|&it| self.is_beside(it))
    }

    /// The attributes of an element.
    pub fn attributes(&self, node: Node) -> impl Iterator<Item = Node> {
        self.beside(node).filter(|&it| self.kind(it) == FragmentKind::Attribute)
    }

    /// The nodes directly below, without attributes.
    pub fn children(&self, node: Node) -> impl Iterator<Item = Node> {
        let first = node + 1 + Node::try_from(self.beside(node).count()).unwrap_or(0);
        let end = self.end(node);
        let next = move |&child: &Node| Some(self.end(child)).filter(|&next| next < end);
        std::iter::successors(Some(first).filter(|&first| first < end), next)
    }

    /// Its own text: that of an attribute, a text, a comment, an instruction.
    #[must_use]
    pub fn own_text(&self, node: Node) -> &str {
        let (begin, end) = self.nodes[node as usize].text;
        &self.text[begin..end]
    }

    /// The string of a node: of elements and the document, all text below one after the other.
    #[must_use]
    pub fn string(&self, node: Node) -> String {
        match self.kind(node) {
            FragmentKind::Document | FragmentKind::Element => (node..self.end(node))
                .filter(|&below| self.kind(below) == FragmentKind::Text)
                .map(|below| self.own_text(below))
                .collect(),
            _ => self.own_text(node).to_owned(),
        }
    }

    /// Asserts the invariants.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self) {
        for (node, entry) in (0..).zip(&self.nodes) {
            assert!(entry.end > node && entry.end <= self.next(), "invariant 2");
            if node > 0 {
                let parent = &self.nodes[entry.parent as usize];
                assert!(entry.parent < node && entry.end <= parent.end, "invariant 2");
                let is_first = self.beside(entry.parent).any(|beside| beside == node);
                assert_eq!(self.is_beside(node), is_first, "invariant 1");
            }
        }
    }
}
