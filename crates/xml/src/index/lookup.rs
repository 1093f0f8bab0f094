//! Where nodes are that an index knows: their labels, in the order of the document.
//!
//! 1. What is found by a value is all that has it, and perhaps some that do not: values beyond 64 bytes
//!    and labels beyond some hundred are not told apart. Who needs to know reads the node.

use super::key::{self, KeyRange, Sought};
use super::{IndexDefinition, IndexKind};
use crate::document::{Document, DocumentNames};
use crate::error::XmlError;
use crate::label::Label;
use crate::synopsis::ClassId;
use nandu_storage::database::{EntryRange, Tables};

/// What a lookup found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// The nodes' labels, in the order of the document.
    pub labels: Vec<Label>,
    /// Whether there are more than were asked for.
    pub is_cut: bool,
}

/// Looks for nodes in an index of a document: all elements that it has, or what has the value that is
/// sought; `limit` of them at most.
///
/// # Errors
/// If the document has no such index, or one that does not know such values; if a page cannot be read.
pub fn find(
    tables: &Tables,
    document: &Document,
    definition: &IndexDefinition,
    sought: Option<Sought<'_>>,
    limit: usize,
) -> Result<Looked, XmlError> {
    let catalog = &document.catalog;
    let place = { catalog.indexes.iter() }.position(|it| it.definition.is_same(definition));
    let place = place.ok_or_else(|| XmlError::Invalid {
        what: format!("document {} has no index {definition}", document.name()),
    })?;
    let is_known = match sought {
        None => definition.kind() == IndexKind::Elements,
        Some(sought) => key::is_known(definition.kind(), sought),
    };
    if !is_known {
        let what = format!("the index {definition} does not know what is sought");
        return Err(XmlError::Invalid { what });
    }
    let coverage = catalog.coverage();
    let classes = 0..nandu_base::to_u32(coverage.class_count() as u64);
    let covered = classes.map(ClassId).filter(|&class| coverage.mask(class) & (1 << place) != 0);
    let mut looked = Looked::default();
    for class in covered {
        collect(tables, document, (place, class), sought, limit, &mut looked)?;
    }
    looked.labels.sort_unstable();
    Ok(looked)
}

/// Adds what the index at a place has of a class, up to `limit` labels in all.
pub(crate) fn collect(
    tables: &Tables,
    document: &Document,
    (place, class): (usize, ClassId),
    sought: Option<Sought<'_>>,
    limit: usize,
    looked: &mut Looked,
) -> Result<(), XmlError> {
    let index = &document.catalog.indexes[place];
    let tree = DocumentNames::of(document.name()).index(index.number);
    let ranges = match sought {
        None => vec![key::elements(class)],
        Some(sought) => key::values(class, sought).to_vec(),
    };
    let kind = index.definition.kind();
    for KeyRange { lower, upper } in &ranges {
        if lower >= upper || looked.is_cut {
            continue;
        }
        let range = EntryRange::of(&tree).at_least(lower).less_than(upper);
        let mut entries = tables.entries(range.with_ahead_count(0))?;
        while let Some((key, _)) = entries.next_entry()? {
            if looked.labels.len() >= limit {
                looked.is_cut = true;
                break;
            }
            let label = key::label_of(kind, key).and_then(|label| Label::from_bytes(label).ok());
            let label = label.ok_or_else(|| {
                let what = format!("an entry of index {} has no label", index.definition);
                document.damaged(what)
            })?;
            looked.labels.push(label);
        }
    }
    Ok(())
}
