//! Labels: a name for a node that says where it stands, and stays. SPLIDs of Härder, Haustein,
//! Mathis, Wagner, "Node labeling schemes for dynamic XML documents reconsidered" (2007), as S004
//! (section 5.2) uses them; the numbers below zero are those of ORDPATH (O'Neil et al., 2004).
//!
//! ```text
//!   label      division …                                              the document has none
//!   division   ordinal            a child of what is before it
//!              01 ordinal         an attribute of it, before all children
//!              FE ordinal         no level: a sibling right behind what is before it
//!
//!   <a>  37            <b> 37 37          inserted between <b> and <c>:   37 37 FE 37
//!    <b x=""/> <c/>    x   37 37 01 37    then before that one:           37 37 FE 26 D0
//!                      <c> 37 38          then before <b>:                37 36
//! ```
//!
//! 1. Bytes compare as nodes come in the document: an element, its attributes, its children, then
//!    what follows it. Of a label that begins another one, the other is a descendant, unless `FE`
//!    follows: then it is a later sibling.
//! 2. A label has at most [`LABEL_BYTES_MAX`] bytes. What would be longer is an error that leads to
//!    `crowd`: siblings that get new labels, with their descendants. Nobody else's label ever
//!    changes.
//! 3. No division begins with `00` or `FF`: what follows a label in a key may begin with the first
//!    one.

pub mod crowd;
pub mod growth;
mod insert;
mod ordinal;
pub mod range;
#[cfg(test)]
mod tests;

pub use ordinal::{ORDINAL_BYTES_MAX, ORDINAL_MAX, ORDINAL_MIN};

use std::fmt;

/// The longest label, in bytes: as many levels as anybody nests, and some hundred insertions into
/// ever smaller gaps. A key of it fits pages from 2 KiB on.
pub const LABEL_BYTES_MAX: usize = 480;

/// Before an attribute's ordinal.
const ATTRIBUTE: u8 = 0x01;
/// Before the ordinal of a sibling between two siblings.
const BESIDE: u8 = 0xFE;

/// The label of a node: its bytes; see the module's head.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Vec<u8>);

/// Why there is no label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LabelError {
    /// It would be longer than [`LABEL_BYTES_MAX`]: see [`crowd::Crowd`].
    Crowded,
    /// Bytes that are no label.
    Malformed,
    /// The two are no siblings, or not in the order that was said.
    NoSiblings,
}

/// A division of a label, and where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Division {
    kind: DivisionKind,
    ordinal: i64,
    start: usize,
    end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DivisionKind {
    Child,
    Attribute,
    Beside,
}

impl fmt::Display for LabelError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crowded => write!(
                formatter,
                "a label would be longer than {LABEL_BYTES_MAX} bytes: nodes around it need new ones"
            ),
            Self::Malformed => formatter.write_str("bytes are no label"),
            Self::NoSiblings => {
                formatter.write_str("two labels are not those of siblings in order")
            }
        }
    }
}

impl std::error::Error for LabelError {}

impl Label {
    /// The label of the document itself, above the outermost element.
    #[must_use]
    pub const fn document() -> Self {
        Self(Vec::new())
    }

    /// A label from its bytes.
    ///
    /// # Errors
    /// If they are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LabelError> {
        check(bytes)?;
        Ok(Self(bytes.to_vec()))
    }

    /// Its bytes, which compare as nodes come in the document.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// How many nodes are above it; 0 of the document, 1 of the outermost element.
    #[must_use]
    pub fn level(&self) -> usize {
        level(&self.0)
    }

    /// The node above it; none of the document.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        parent(&self.0).map(|bytes| Self(bytes.to_vec()))
    }

    /// The node at a level that it is or lies below; `None` where its own level is smaller.
    #[must_use]
    pub fn ancestor(&self, level: usize) -> Option<Self> {
        ancestor(&self.0, level).map(|bytes| Self(bytes.to_vec()))
    }

    /// The label of a node at or below one that had `old`, when that one has `new`.
    pub(crate) fn moved(&self, old: &Self, new: &Self) -> Self {
        Self([&new.0[..], &self.0[old.0.len()..]].concat())
    }

    /// Whether it is an attribute.
    #[must_use]
    pub fn is_attribute(&self) -> bool {
        let step =
            divisions(&self.0).filter(|division| division.kind != DivisionKind::Beside).last();
        step.is_some_and(|division| division.kind == DivisionKind::Attribute)
    }

    /// Whether it lies above `other`.
    #[must_use]
    pub fn is_ancestor_of(&self, other: &Self) -> bool {
        is_ancestor(&self.0, &other.0)
    }

    /// The first label behind it and all that lies below it: the end of a range of keys that begins
    /// with its own.
    #[must_use]
    pub fn end(&self) -> Vec<u8> {
        let mut end = self.0.clone();
        end.push(if end.is_empty() { 0xFF } else { BESIDE });
        end
    }
}

/// Whether these are a label's bytes.
pub(crate) fn check(bytes: &[u8]) -> Result<(), LabelError> {
    if bytes.len() > LABEL_BYTES_MAX || bytes.first() == Some(&BESIDE) {
        return Err(LabelError::Malformed);
    }
    let end = divisions(bytes).last().map_or(0, |division| division.end);
    if end == bytes.len() { Ok(()) } else { Err(LabelError::Malformed) }
}

/// As [`Label::is_ancestor_of`] says.
#[inline]
pub(crate) fn is_ancestor(upper: &[u8], lower: &[u8]) -> bool {
    lower.len() > upper.len()
        && lower.starts_with(upper)
        && (upper.is_empty() || lower[upper.len()] != BESIDE)
}

/// As [`Label::level`] says.
pub(crate) fn level(bytes: &[u8]) -> usize {
    divisions(bytes).filter(|division| division.kind != DivisionKind::Beside).count()
}

/// As [`Label::parent`] says.
pub(crate) fn parent(bytes: &[u8]) -> Option<&[u8]> {
    let step = divisions(bytes).filter(|division| division.kind != DivisionKind::Beside).last()?;
    Some(&bytes[..step.start])
}

/// As [`Label::ancestor`] says.
pub(crate) fn ancestor(bytes: &[u8], level: usize) -> Option<&[u8]> {
    let mut starts = divisions(bytes)
        .filter(|division| division.kind != DivisionKind::Beside)
        .map(|division| division.start)
        .chain([bytes.len()]);
    starts.nth(level).map(|end| &bytes[..end])
}

/// Where the step after `from` ends, its siblings' divisions included: the label of the node one
/// level below the one of `bytes[..from]`, on the way to the whole.
#[inline]
pub(crate) fn step_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from + usize::from(*bytes.get(from)? == ATTRIBUTE);
    at += ordinal::byte_count(*bytes.get(at)?)?;
    while bytes.get(at) == Some(&BESIDE) {
        at += 1 + ordinal::byte_count(*bytes.get(at + 1)?)?;
    }
    (at <= bytes.len()).then_some(at)
}

/// The label of a child from its parent's and its number.
#[inline]
pub(crate) fn push_child(parent: &mut Vec<u8>, ordinal: i64) {
    ordinal::encode(ordinal, parent);
}

/// The label of an attribute from its element's and its number.
#[inline]
pub(crate) fn push_attribute(element: &mut Vec<u8>, ordinal: i64) {
    element.push(ATTRIBUTE);
    ordinal::encode(ordinal, element);
}

/// The divisions of a label, up to one that is none.
fn divisions(bytes: &[u8]) -> impl Iterator<Item = Division> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let (kind, mark_bytes) = match *bytes.get(start)? {
            ATTRIBUTE => (DivisionKind::Attribute, 1),
            BESIDE => (DivisionKind::Beside, 1),
            _ => (DivisionKind::Child, 0),
        };
        let (ordinal, byte_count) = ordinal::decode(&bytes[start + mark_bytes..])?;
        let end = start + mark_bytes + byte_count;
        let division = Division { kind, ordinal, start, end };
        start = end;
        Some(division)
    })
}
