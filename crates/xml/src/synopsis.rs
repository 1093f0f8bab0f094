//! The path synopsis: each path of names once, as a class of nodes (S004 section 5.2, figure 4b).
//!
//! ```text
//!   class 0   document
//!   class 1   └─ bib                 element          a record names its class, so it names its path;
//!   class 2      └─ book             element          text belongs to the class of its element
//!   class 3         ├─ @year         attribute
//!   class 4         └─ title         element
//! ```
//!
//! 1. Class 0 is the document. A class comes after the one above it, and its number is never given
//!    again.
//! 2. No two classes have the same class above them, kind and name.

use crate::varint;
use crate::vocabulary::NameId;
use std::collections::BTreeMap;

/// How many classes a document may have: they are kept in memory.
pub const CLASS_COUNT_MAX: usize = 1 << 20;

/// The number of a class of paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u32);

impl ClassId {
    /// The class of the document itself.
    pub const DOCUMENT: Self = Self(0);
}

/// What the last step of a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepKind {
    /// The document, where all paths begin.
    Document,
    /// An element of a name; a member of an object of JSON.
    Element,
    /// An attribute of a name.
    Attribute,
    /// A declaration of a namespace; its name is the prefix.
    Namespace,
    /// An item of an array of JSON.
    Array,
}

/// Nodes with the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathClass {
    /// The class above it.
    pub parent: ClassId,
    /// What its last step is.
    pub kind: StepKind,
    /// What its last step is called.
    pub name: NameId,
    /// How many steps it has.
    pub level: u32,
    /// How many nodes there are. A document that is being changed has a number of some moment.
    pub node_count: u64,
}

/// All classes of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synopsis {
    classes: Vec<PathClass>,
    ids: BTreeMap<(ClassId, StepKind, NameId), ClassId>,
}

impl StepKind {
    /// All kinds, by their code.
    pub const ALL: [Self; 5] =
        [Self::Document, Self::Element, Self::Attribute, Self::Namespace, Self::Array];

    /// Whether it leads to an element: one of XML, or a value of JSON.
    #[must_use]
    #[inline]
    pub const fn is_element(self) -> bool {
        matches!(self, Self::Element | Self::Array)
    }

    const fn code(self) -> u8 {
        self as u8
    }
}

impl PathClass {
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push(self.kind.code());
        varint::put(u64::from(self.parent.0), bytes);
        varint::put(u64::from(self.name.0), bytes);
    }

    /// A class without its level, which follows from the one above, and its nodes, which are counted
    /// elsewhere.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&code, mut rest) = bytes.split_first()?;
        let kind = *StepKind::ALL.get(usize::from(code))?;
        let mut id = || u32::try_from(varint::take(&mut rest)?).ok();
        let (parent, name) = (ClassId(id()?), NameId(id()?));
        rest.is_empty().then_some(Self { parent, kind, name, level: 0, node_count: 0 })
    }
}

impl Default for Synopsis {
    fn default() -> Self {
        let (parent, name) = (ClassId::DOCUMENT, NameId(0));
        let document =
            PathClass { parent, kind: StepKind::Document, name, level: 0, node_count: 1 };
        Self { classes: vec![document], ids: BTreeMap::new() }
    }
}

impl Synopsis {
    /// The class of a step below another class, a new one if there is none; `None` if there are too
    /// many.
    pub(crate) fn step(
        &mut self,
        parent: ClassId,
        kind: StepKind,
        name: NameId,
    ) -> Option<ClassId> {
        if let Some(&id) = self.ids.get(&(parent, kind, name)) {
            return Some(id);
        }
        let level = self.get(parent)?.level + 1;
        self.add(PathClass { parent, kind, name, level, node_count: 0 })
    }

    /// Adds a class that is stored; `None` if it breaks a rule.
    pub(crate) fn add(&mut self, class: PathClass) -> Option<ClassId> {
        if self.classes.len() >= CLASS_COUNT_MAX || class.kind == StepKind::Document {
            return None;
        }
        let level = self.get(class.parent)?.level + 1;
        let id = ClassId(nandu_base::to_u32(self.classes.len() as u64));
        let other = self.ids.insert((class.parent, class.kind, class.name), id);
        self.classes.push(PathClass { level, ..class });
        other.is_none().then_some(id)
    }

    /// Forgets all classes from a number on, which nothing has.
    pub(crate) fn truncate(&mut self, count: usize) {
        for class in self.classes.drain(count.min(self.classes.len())..) {
            self.ids.remove(&(class.parent, class.kind, class.name));
        }
    }

    /// One more node of a class.
    #[inline]
    pub(crate) fn count(&mut self, class: ClassId) {
        self.classes[class.0 as usize].node_count += 1;
    }

    /// How many nodes each class has.
    pub(crate) fn node_counts(&self) -> Vec<u64> {
        self.classes.iter().map(|class| class.node_count).collect()
    }

    /// Takes counts of the classes from a number on; `None` if there is no such class.
    pub(crate) fn count_from(&mut self, first: usize, counts: &[u64]) -> Option<()> {
        let classes = self.classes.get_mut(first..first + counts.len())?;
        for (class, count) in classes.iter_mut().zip(counts) {
            class.node_count = *count;
        }
        Some(())
    }

    /// Takes the counts that there were once; what is new since has none.
    pub(crate) fn count_as(&mut self, counts: &[u64]) {
        let counts = counts.iter().copied().chain(std::iter::repeat(0));
        for (class, count) in self.classes.iter_mut().zip(counts) {
            class.node_count = count;
        }
    }

    /// The class of a number.
    #[must_use]
    #[inline]
    pub fn get(&self, id: ClassId) -> Option<&PathClass> {
        self.classes.get(id.0 as usize)
    }

    /// All classes, by their numbers.
    #[must_use]
    pub fn classes(&self) -> &[PathClass] {
        &self.classes
    }
}
