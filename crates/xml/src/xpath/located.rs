//! Nodes that an expression chooses, with their labels, so that they can be changed.
//!
//! 1. Texts that touch are one node of an expression and several of the document: all their labels are
//!    told.

use super::fragment::{Fragment, FragmentBuilder, FragmentKind, Node};
use crate::document::Document;
use crate::error::XmlError;
use crate::label::{self, Label};

/// A node that an expression has chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// What it is.
    pub kind: FragmentKind,
    /// Its label; of texts that touch, that of each.
    pub labels: Vec<Label>,
    /// Of an element, what is in it.
    pub content: Content,
}

/// What is in an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing but attributes; and of what is no element.
    Nothing,
    /// One text, which may be several that touch.
    Text(Vec<Label>),
    /// Other nodes than one text.
    Nodes,
}

/// The labels of a fragment's nodes, in its order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    bytes: Vec<u8>,
    /// The node, and where its label ends.
    items: Vec<(Node, usize)>,
}

impl Places {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
    }

    /// A label of the node that came last.
    ///
    /// # Errors
    /// If it is none: then the document is damaged.
    pub(crate) fn push(
        &mut self,
        document: &Document,
        builder: &FragmentBuilder,
        label: &[u8],
    ) -> Result<(), XmlError> {
        if label::check(label).is_err() {
            return Err(document.damaged(format!("{label:02x?} is no label")));
        }
        let last = builder.node_count().saturating_sub(1);
        self.bytes.extend_from_slice(label);
        self.items.push((Node::try_from(last).unwrap_or(Node::MAX), self.bytes.len()));
        Ok(())
    }

    /// How many bytes it takes, about.
    pub(crate) fn byte_count(&self) -> usize {
        self.bytes.len() + self.items.len() * size_of::<(Node, usize)>()
    }

    /// The labels of a node: one, but for texts that touch.
    pub(crate) fn of(&self, node: Node) -> impl Iterator<Item = Label> {
        let first = self.items.partition_point(|&(other, _)| other < node);
        let mut start = first.checked_sub(1).map_or(0, |before| self.items[before].1);
        self.items[first..].iter().take_while(move |&&(other, _)| other == node).map(
            move |&(_, end)| {
                let label = Label::from_bytes(&self.bytes[start..end]);
                start = end;
                label.expect("labels were checked when they came")
            },
        )
    }

    /// What is to be told of a node.
    pub(super) fn located(&self, fragment: &Fragment, node: Node) -> Located {
        let kind = fragment.kind(node);
        let mut children = fragment.children(node);
        let content = match (kind, children.next(), children.next()) {
            (FragmentKind::Element, Some(text), None)
                if fragment.kind(text) == FragmentKind::Text =>
            {
                Content::Text(self.of(text).collect())
            }
            (FragmentKind::Element, Some(_), _) => Content::Nodes,
            _ => Content::Nothing,
        };
        Located { kind, labels: self.of(node).collect(), content }
    }
}
