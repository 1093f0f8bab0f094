//! The catalogue: a tree from the names of tables to their definitions, as JSON.
//!
//! ```text
//!   {"name": "keyed", …, "file": 4, "files_from": [6144]}
//!                            │                     └ the first record of the log that may speak of file 4
//!                            └ its number, which is another file's when the table is gone
//! ```
//!
//! 1. Names are unique, ignoring case; the definition keeps the spelling.
//! 2. A definition's files are those that it was stored with: a number with another first record is of a
//!    later file. A log that was damaged may lose the commit that dropped a table, and what lies in the new
//!    file must not pass for its rows. Entries without `files_from` are of an earlier version.

use super::schema::TableDefinition;
use crate::btree::{Direction, Tree};
use crate::engine::StructureKind;
use crate::{Engine, FileId, Lsn, StorageError};
use serde::Serialize;
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
        let wrong = |what| {
            let place = format!("the catalogue's entry {}", String::from_utf8_lossy(key));
            StorageError::Corrupt { place, what }
        };
        let (definition, files_from) = parse(value).map_err(|error| wrong(error.to_string()))?;
        definition.check()?;
        if let Some(files_from) = files_from {
            check_files(engine, &definition, &files_from).map_err(wrong)?;
        }
        definitions.push(definition);
    }
    Ok(definitions)
}

/// An entry as it is stored.
#[derive(Serialize)]
struct Entry<'e> {
    #[serde(flatten)]
    definition: &'e TableDefinition,
    /// See invariant 2: of each of [`TableDefinition::files`].
    files_from: Vec<Lsn>,
}

/// The definition of an entry and, if it has them, its [`Entry::files_from`].
fn parse(entry: &[u8]) -> serde_json::Result<(TableDefinition, Option<Vec<Lsn>>)> {
    let mut fields: serde_json::Map<_, _> = serde_json::from_slice(entry)?;
    let files_from = fields.remove("files_from").map(serde_json::from_value).transpose()?;
    Ok((serde_json::from_value(fields.into())?, files_from))
}

/// Whether the files of a definition are still those that it was stored with; what is wrong otherwise.
fn check_files(
    engine: &Engine,
    definition: &TableDefinition,
    files_from: &[Lsn],
) -> Result<(), String> {
    let count = definition.files().count();
    if files_from.len() != count {
        return Err(format!("it knows {} of its {count} files", files_from.len()));
    }
    for (file, &from) in definition.files().zip(files_from) {
        let state = match engine.records_from(file) {
            Some(found) if found == from => continue,
            Some(_) => "belongs to a later table",
            None => "is gone",
        };
        return Err(format!(
            "its file, number {}, {state}: the log seems to have lost the commit that dropped it; \
             restore the database from a copy",
            file.0
        ));
    }
    Ok(())
}

/// Stores a definition, in the active transaction.
pub(super) fn store(
    engine: &mut Engine,
    file: FileId,
    definition: &TableDefinition,
) -> Result<(), StorageError> {
    let files_from = definition
        .files()
        .map(|file| engine.records_from(file).expect("a definition has the files that were made"));
    let entry = Entry { definition, files_from: files_from.collect() };
    let value = serde_json::to_vec(&entry).expect("a definition is made of plain values");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_an_earlier_version_has_no_first_records() {
        let old = r#"{"name":"t","columns":[],"kind":"heap","file":4,"indexes":[]}"#;
        let (definition, files_from) = parse(old.as_bytes()).unwrap();
        assert_eq!((definition.file, files_from), (FileId(4), None), "invariant 2");
        let entry = Entry { definition: &definition, files_from: vec![Lsn(6144)] };
        let again = parse(&serde_json::to_vec(&entry).unwrap()).unwrap();
        assert_eq!(again, (definition, Some(vec![Lsn(6144)])));
        for wrong in ["", "[]", "{}", r#"{"name":"t","files_from":[1]}"#] {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
