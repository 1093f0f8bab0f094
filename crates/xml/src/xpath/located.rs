//! Nodes that an expression chooses, with their labels, so that they can be changed.
//!
//! 1. Texts that touch are one node of an expression and several of the document: all their labels are
//!    told.

use super::fragment::{Fragment, FragmentKind, Node};
use crate::label::Label;

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
pub(super) struct Places {
    bytes: Vec<u8>,
    /// The node, and where its label ends.
    items: Vec<(Node, usize)>,
}

impl Places {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
    }

    /// A label of the node that came last.
    pub(super) fn push(&mut self, node: Node, label: &[u8]) {
        self.bytes.extend_from_slice(label);
        self.items.push((node, self.bytes.len()));
    }

    /// How many bytes it takes, about.
    pub(super) fn byte_count(&self) -> usize {
        self.bytes.len() + self.items.len() * size_of::<(Node, usize)>()
    }

    /// The labels of a node.
    fn of(&self, node: Node) -> Vec<Label> {
        let first = self.items.partition_point(|&(other, _)| other < node);
        let mut start = first.checked_sub(1).map_or(0, |before| self.items[before].1);
        let mut labels = Vec::new();
        for &(_, end) in self.items[first..].iter().take_while(|&&(other, _)| other == node) {
            let label = Label::from_bytes(&self.bytes[start..end]);
            labels.push(label.expect("labels were checked when they were read"));
            start = end;
        }
        labels
    }

    /// What is to be told of a node.
    pub(super) fn located(&self, fragment: &Fragment, node: Node) -> Located {
        let kind = fragment.kind(node);
        let mut children = fragment.children(node);
        let content = match (kind, children.next(), children.next()) {
            (FragmentKind::Element, Some(text), None)
                if fragment.kind(text) == FragmentKind::Text =>
            {
                Content::Text(self.of(text))
            }
            (FragmentKind::Element, Some(_), _) => Content::Nodes,
            _ => Content::Nothing,
        };
        Located { kind, labels: self.of(node), content }
    }
}
