//! The catalogue: a tree from the names of tables to their definitions, as JSON.
//!
//! 1. Names are unique, ignoring case; the definition keeps the spelling.

use super::schema::TableDefinition;
use crate::btree::{Direction, Tree};
use crate::engine::StructureKind;
use crate::{Engine, FileId, StorageError};
use std::ops::Bound;

const CATALOG_FILE: &str = "catalog";

/// Makes an empty catalogue, durably.
pub(super) fn create(engine: &mut Engine) -> Result<(), StorageError> {
    let file = engine.create_file(CATALOG_FILE)?;
    engine.begin()?;
    engine.act(|pages| Tree::create(pages, file).map(|_| ()))?;
    if let Some(lsn) = engine.commit()? {
        engine.log().make_durable(lsn)?;
    }
    Ok(())
}

/// The catalogue of a database.
pub(super) fn find(engine: &Engine) -> Option<FileId> {
    engine.files().into_iter().find(|(_, name)| name == CATALOG_FILE).map(|(file, _)| file)
}

/// All definitions, by name.
pub(super) fn load(engine: &Engine, file: FileId) -> Result<Vec<TableDefinition>, StorageError> {
    let mut definitions = Vec::new();
    let mut scan = Tree::at(file).scan((Bound::Unbounded, Bound::Unbounded), Direction::Forward);
    while let Some((key, value)) = scan.next(engine)? {
        let place = || format!("the catalogue's entry {}", String::from_utf8_lossy(key));
        let definition: TableDefinition = serde_json::from_slice(value)
            .map_err(|error| StorageError::Corrupt { place: place(), what: error.to_string() })?;
        definition.check()?;
        definitions.push(definition);
    }
    Ok(definitions)
}

/// Stores a definition, in the active transaction.
pub(super) fn store(
    engine: &mut Engine,
    file: FileId,
    definition: &TableDefinition,
) -> Result<(), StorageError> {
    let value = serde_json::to_vec(definition).expect("a definition is made of plain values");
    engine.act(|pages| {
        let mut undo = pages.begin_undo(StructureKind::Tree, file);
        Tree::at(file).upsert(pages, &key_of(&definition.name), &value, &mut undo)?;
        pages.set_undo(undo);
        Ok(())
    })
}

/// Removes a definition, in the active transaction.
pub(super) fn remove(engine: &mut Engine, file: FileId, name: &str) -> Result<(), StorageError> {
    engine.act(|pages| {
        let mut undo = pages.begin_undo(StructureKind::Tree, file);
        Tree::at(file).delete(pages, &key_of(name), &mut undo)?;
        pages.set_undo(undo);
        Ok(())
    })
}

/// The key of a table.
pub(super) fn key_of(name: &str) -> Vec<u8> {
    name.to_lowercase().into_bytes()
}
