//! Who finds a customer, an order or a security by what identifies it: a raw tree beside each document,
//! from ids to labels of subtrees.
//!
//! 1. An entry is made in the transaction that makes its subtree.

use crate::error::BenchError;
use nandu_load::TpoxCollection;
use nandu_storage::Database;
use nandu_storage::database::{LoadOptions, NewTable, RowOrder, Tables, WriteTransaction};
use nandu_xml::{ClassId, Document, Label, XmlError, values_of};
use std::collections::BTreeSet;

/// The level of the subtrees below the outermost element.
const SUBTREE_LEVEL: usize = 2;

const fn table_of(collection: TpoxCollection) -> &'static str {
    match collection {
        TpoxCollection::Custacc => "custacc-ids",
        TpoxCollection::Order => "order-ids",
        TpoxCollection::Security => "security-ids",
    }
}

/// The path of what identifies a subtree.
const fn path_of(collection: TpoxCollection) -> &'static str {
    match collection {
        TpoxCollection::Custacc => "/custacc/Customer/@id",
        TpoxCollection::Order => "/order/FIXML/Order/@ID",
        TpoxCollection::Security => "/security/Security/Symbol",
    }
}

/// Makes the trees, of documents that are stored.
pub(super) fn make(database: &Database) -> Result<(), BenchError> {
    for collection in TpoxCollection::ALL {
        let snapshot = database.snapshot();
        let document = Document::open(&snapshot, collection.name())?;
        let classes: BTreeSet<ClassId> = (0..document.synopsis().classes().len() as u64)
            .map(|number| ClassId(nandu_base::to_u32(number)))
            .filter(|&class| document.path_of(class) == path_of(collection))
            .collect();
        let options = LoadOptions { order: RowOrder::Sort, ..LoadOptions::default() };
        let mut write = database.write()?;
        write.load_table(&NewTable::raw(table_of(collection)), &options, |load| {
            values_of(&snapshot, &document, &classes, &mut |label, _, value| {
                let subtree = label.ancestor(SUBTREE_LEVEL).unwrap_or_default();
                Ok(load.push_entry(value.as_bytes(), subtree.as_bytes())?)
            })
        })?;
        write.commit()?;
    }
    Ok(())
}

/// The label of the subtree that has an id.
pub(super) fn find(
    tables: &Tables,
    collection: TpoxCollection,
    id: &str,
) -> Result<Label, BenchError> {
    let found = tables.value(table_of(collection), id.as_bytes(), Label::from_bytes)?;
    let Some(Ok(label)) = found else {
        let what = format!("{} has nothing with the id {id}", collection.name());
        return Err(XmlError::Invalid { what }.into());
    };
    Ok(label)
}

/// Enters a subtree that is new.
pub(super) fn enter(
    write: &mut WriteTransaction<'_>,
    collection: TpoxCollection,
    id: &str,
    label: &Label,
) -> Result<(), BenchError> {
    Ok(write.insert_value(table_of(collection), id.as_bytes(), label.as_bytes())?)
}
