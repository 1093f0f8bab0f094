//! Locks of a document's parts, by labels: who changes a node locks it with all that is in it, and says so at
//! the nodes above, which its label names without a look at the document (Härder and Haustein's taDOM, in
//! brief: intentions above, and a depth below which a part is locked as one).
//!
//! ```text
//!   level 0   document      IX                     depth 2: what lies deeper is locked at level 2
//!   level 1   └─ bib        IX      IR
//!   level 2      ├─ book 1  X        │     changed, or something in it is
//!   level 2      └─ book 2           R     read by who may change something else
//! ```
//!
//! 1. Labels say who waits for whom before anything is read. That what is read and changed holds is the business
//!    of the engine's locks on containers, gaps between them and entries of indexes, which are taken as well.
//! 2. Readers of a snapshot lock nothing.

use crate::document::DocumentNames;
use crate::error::XmlError;
use crate::label::Label;
use nandu_storage::database::{NameAccess, Tables, WriteTransaction};

/// How finely parts of a document are locked.
///
/// ```
/// use nandu_xml::LockSettings;
///
/// // The document as a whole: who changes it is alone.
/// let whole = LockSettings { depth: 0, ..LockSettings::default() };
/// # let _ = whole;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockSettings {
    /// The deepest level whose nodes have locks of their own: 0 is the document, 1 its outermost element. What
    /// lies deeper is locked with the node at this level that it is in.
    pub depth: u32,
    /// With so many locks a transaction locks the document in their place, if nobody else is in it.
    pub escalate_at: u32,
}

impl Default for LockSettings {
    fn default() -> Self {
        Self { depth: 4, escalate_at: 1024 }
    }
}

impl LockSettings {
    /// The labels from the document down to a node, or to the one above it that is locked in its place.
    fn path<'l>(&self, label: &'l Label) -> Vec<&'l [u8]> {
        let depth = usize::try_from(self.depth).unwrap_or(usize::MAX);
        let levels = (0..=depth).map_while(|level| crate::label::ancestor(label.as_bytes(), level));
        levels.collect()
    }

    /// Whether children of a node have locks of their own.
    fn has_children(&self, label: &Label) -> bool {
        u64::from(self.depth) > label.level() as u64
    }

    /// Locks a node with all in it, for who reads it; nothing where reading takes no locks.
    pub(crate) fn lock_to_read(
        &self,
        tables: &Tables,
        document: &str,
        label: &Label,
    ) -> Result<(), XmlError> {
        if tables.is_locking() {
            let nodes = DocumentNames::of(document).nodes;
            let count_before = tables.read_name_count(&nodes)?;
            tables.lock_path_to_read(&nodes, &self.path(label))?;
            if self.is_many(count_before, tables.read_name_count(&nodes)?) {
                tables.try_widen_read(&nodes, Label::document().as_bytes())?;
            }
        }
        Ok(())
    }

    /// Locks a node with all in it, to change it.
    pub(crate) fn lock(
        &self,
        write: &WriteTransaction<'_>,
        document: &str,
        label: &Label,
    ) -> Result<(), XmlError> {
        self.lock_path(write, document, (label, NameAccess::Change))
    }

    /// Locks a node so that something may come into it, or go: itself where that has no lock of its own.
    pub(crate) fn lock_for_children(
        &self,
        write: &WriteTransaction<'_>,
        document: &str,
        label: &Label,
    ) -> Result<(), XmlError> {
        let access = match self.has_children(label) {
            true => NameAccess::ChangeBelow,
            false => NameAccess::Change,
        };
        self.lock_path(write, document, (label, access))
    }

    /// Whether there are so many names now that the document is to be locked. Others may be in it; it is not
    /// tried for each further lock then.
    fn is_many(&self, count_before: usize, count: usize) -> bool {
        let limit = usize::try_from(self.escalate_at.max(1)).unwrap_or(usize::MAX);
        count / limit > count_before / limit
    }

    fn lock_path(
        &self,
        write: &WriteTransaction<'_>,
        document: &str,
        (label, access): (&Label, NameAccess),
    ) -> Result<(), XmlError> {
        let nodes = DocumentNames::of(document).nodes;
        let count_before = write.name_count(&nodes)?;
        write.lock_path(&nodes, &self.path(label), access)?;
        if self.is_many(count_before, write.name_count(&nodes)?) {
            write.try_widen(&nodes, Label::document().as_bytes())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_ends_at_the_node_or_at_the_depth() {
        let root = Label::document().first_child().unwrap();
        let child = root.first_child().unwrap().after().unwrap();
        let attribute = child.first_attribute().unwrap();
        let path = |depth, label: &Label| {
            let settings = LockSettings { depth, ..LockSettings::default() };
            settings.path(label).iter().map(|name| name.len()).collect::<Vec<_>>()
        };
        let lengths = [0, root.as_bytes().len(), child.as_bytes().len()];
        assert_eq!(path(0, &attribute), lengths[..1]);
        assert_eq!(path(2, &attribute), lengths);
        assert_eq!(path(9, &child), lengths);
        assert_eq!(path(9, &attribute).last(), Some(&attribute.as_bytes().len()));
        assert_eq!(path(9, &Label::document()), [0]);
        let whole = LockSettings { depth: 0, ..LockSettings::default() };
        assert!(!whole.has_children(&Label::document()));
        assert!(LockSettings { depth: 2, ..whole }.has_children(&root));
        assert!(!LockSettings { depth: 2, ..whole }.has_children(&child));
    }
}
