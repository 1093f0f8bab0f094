//! Records: a node or a part of its value, as it lies in a container.
//!
//! ```text
//!   tag 1 │ label: as the mapping writes it │ class: varint │ value length: varint │ value
//!     │     not of the first in a container     the element's,     not of an element
//!     │     whose key it is                     for text
//!     0..2 kind │ 3 the value goes on in the next container │ 4..6 type of the value │ 7 zero
//! ```
//!
//! 1. Codes of kinds and types are for ever.

use crate::synopsis::ClassId;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeKind {
    /// An element. Elementless documents have records of empty ones only.
    Element,
    /// An attribute, with its value.
    Attribute,
    /// A declaration of a namespace, with the namespace.
    Namespace,
    /// Text of an element.
    Text,
    /// A comment.
    Comment,
    /// A processing instruction: its target, and what follows.
    Instruction,
    /// The document type, as it is written.
    Doctype,
}

/// What a value is. XML has text; the others are JSON's (`json`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueType {
    /// Characters.
    Text,
    /// A number as it is written.
    Number,
    /// True or false.
    Boolean,
    /// Nothing.
    Null,
    /// An object without members: one that has some is known by these.
    EmptyObject,
    /// An array without items.
    EmptyArray,
}

/// A node, or a part of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'r> {
    /// Who it is.
    pub(crate) label: &'r [u8],
    /// What it is.
    pub(crate) kind: NodeKind,
    /// What its value is.
    pub(crate) value_type: ValueType,
    /// Its class; of what has no name, that of the element or document above.
    pub(crate) class: ClassId,
    /// Its value, or a part of it.
    pub(crate) value: &'r [u8],
    /// Whether parts of the value came before.
    pub(crate) is_continued: bool,
    /// Whether parts of the value follow.
    pub(crate) goes_on: bool,
}

/// The bit of a tag for [`Record::goes_on`].
const GOES_ON: u8 = 0x08;

impl NodeKind {
    /// All kinds, by their codes.
    pub const ALL: [Self; 7] = [
        Self::Element,
        Self::Attribute,
        Self::Namespace,
        Self::Text,
        Self::Comment,
        Self::Instruction,
        Self::Doctype,
    ];

    /// Its name in reports, for many.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Element => "elements",
            Self::Attribute => "attributes",
            Self::Namespace => "namespace declarations",
            Self::Text => "texts",
            Self::Comment => "comments",
            Self::Instruction => "processing instructions",
            Self::Doctype => "document types",
        }
    }
}

impl ValueType {
    const ALL: [Self; 6] =
        [Self::Text, Self::Number, Self::Boolean, Self::Null, Self::EmptyObject, Self::EmptyArray];
}

/// The first byte of a record.
#[inline]
pub(crate) const fn tag(kind: NodeKind, value_type: ValueType, goes_on: bool) -> u8 {
    kind as u8 | (value_type as u8) << 4 | if goes_on { GOES_ON } else { 0 }
}

/// What a first byte says; `None` if it is none.
#[inline]
pub(crate) fn untag(tag: u8) -> Option<(NodeKind, ValueType, bool)> {
    let kind = *NodeKind::ALL.get(usize::from(tag & 0x07))?;
    let value_type = *ValueType::ALL.get(usize::from(tag >> 4))?;
    Some((kind, value_type, tag & GOES_ON != 0))
}
