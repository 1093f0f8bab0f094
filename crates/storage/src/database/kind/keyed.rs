//! What tables in trees have in common, whose rows are found by a key: changes, loads, sizes.
//!
//! ```text
//!   load  ascending: in bulk │ sort: sorted, in bulk │ insert: each where its key belongs
//! ```

use crate::btree::{BulkLoader, Tree};
use crate::database::change::{check_row_bytes, encode_row, logged};
use crate::database::core::Core;
use crate::database::load::{LoadOptions, NewRow, RowOrder, fill_tree, spill};
use crate::database::open_table::OpenTable;
use crate::database::schema::TableDefinition;
use crate::database::sorter::Sorter;
use crate::database::step::Step;
use crate::database::tables::Scratch;
use crate::database::turns::Turns;
use crate::engine::{StructureKind, UnloggedPages};
use crate::sqlite::ValueRef;
use crate::{Engine, FileId, StorageError};

/// A tree that is being filled.
pub(in crate::database) struct KeyedLoad {
    way: Way,
    key: Vec<u8>,
    undo: Vec<u8>,
}

/// How rows get to their places.
enum Way {
    Ascending(Box<BulkLoader>),
    Sort(Sorter),
    Insert(Tree),
}

impl KeyedLoad {
    /// Makes the tree.
    pub(super) fn begin(
        pages: &mut UnloggedPages<'_>,
        definition: &TableDefinition,
        options: &LoadOptions,
    ) -> Result<Self, StorageError> {
        let tree = Tree::create(pages, definition.file)?;
        let way = match options.order {
            RowOrder::Ascending => {
                Way::Ascending(Box::new(tree.bulk_load(pages, options.tree_fill_percent())?))
            }
            RowOrder::Sort => Way::Sort(Sorter::new(options.sort_bytes)),
            RowOrder::Insert => Way::Insert(tree),
        };
        Ok(Self { way, key: Vec::new(), undo: Vec::new() })
    }

    #[inline]
    pub(super) fn push(
        &mut self,
        turns: &mut Turns<'_>,
        definition: &TableDefinition,
        row: &NewRow<'_>,
    ) -> Result<i64, StorageError> {
        let Self { way, key, undo } = self;
        let (file, value) = (definition.file, row.value);
        key.clear();
        definition.encode_key(row.values, key);
        match way {
            Way::Sort(sorter) => {
                sorter.push(key, value);
                if sorter.is_full() {
                    spill(turns, sorter).map_err(|error| named(definition, error))?;
                }
            }
            Way::Ascending(loader) => {
                let push = |core: &mut Core| {
                    loader.push(&mut core.engine.unlogged_pages(file)?, key, value)
                };
                turns.step(push).map_err(|error| named(definition, error))?;
            }
            Way::Insert(tree) => {
                undo.clear();
                let insert = |core: &mut Core| {
                    tree.insert(&mut core.engine.unlogged_pages(file)?, key, value, undo)
                };
                if !turns.step(insert)? {
                    return Err(same_key(definition));
                }
            }
        }
        Ok(0)
    }

    pub(super) fn finish(
        self,
        turns: &mut Turns<'_>,
        definition: &TableDefinition,
        fill_percent: usize,
    ) -> Result<(), StorageError> {
        let file = definition.file;
        let loader = match self.way {
            Way::Sort(sorter) => {
                let filled = fill_tree(turns, file, sorter, fill_percent);
                return filled.map(drop).map_err(|error| named(definition, error));
            }
            Way::Ascending(loader) => Some(loader),
            Way::Insert(_) => None,
        };
        turns.step(|core| {
            if let Some(loader) = loader {
                loader.finish(&mut core.engine.unlogged_pages(file)?, &mut Vec::new())?;
            }
            core.engine.make_unlogged_durable(file)
        })
    }
}

/// What a tree says of two equal keys, in terms of the table.
fn named(definition: &TableDefinition, error: StorageError) -> StorageError {
    match error {
        StorageError::Exists { .. } => same_key(definition),
        other => other,
    }
}

fn same_key(definition: &TableDefinition) -> StorageError {
    StorageError::Exists { what: format!("a row with this key in table {}", definition.name) }
}

/// Makes an empty tree.
pub(super) fn create(
    engine: &mut Engine,
    definition: &TableDefinition,
) -> Result<(), StorageError> {
    engine.act(|pages| Tree::create(pages, definition.file).map(drop))
}

/// Does what [`super::TableRows::insert`] says.
pub(super) fn insert(
    core: &mut Core,
    tree: Tree,
    table: &OpenTable,
    row: &[ValueRef<'_>],
    value: &[u8],
) -> Result<i64, StorageError> {
    let definition = &table.definition;
    let file = definition.file;
    let mut key = std::mem::take(&mut core.scratch.key);
    key.clear();
    definition.encode_key(row, &mut key);
    let is_new = core.engine.act(|pages| {
        logged(pages, StructureKind::Tree, file, |pages, undo| {
            tree.insert(pages, &key, value, undo)
        })
    });
    core.note(|| Step::Put(file, key.clone(), value.to_vec()));
    core.scratch.key = key;
    match is_new? {
        true => Ok(0),
        false => Err(same_key(definition)),
    }
}

impl Core {
    /// See [`crate::database::WriteTransaction::put`]. The key is locked.
    pub(in crate::database) fn put_row(
        &mut self,
        open: &OpenTable,
        row: &[ValueRef<'_>],
    ) -> Result<bool, StorageError> {
        let (tree, file) = (open.keyed()?, open.definition.file);
        let mut row = row.to_vec();
        open.definition.conform(&mut row)?;
        let Scratch { mut record, mut key } = std::mem::take(&mut self.scratch);
        key.clear();
        open.definition.encode_key(&row, &mut key);
        let answer = encode_row(&self.engine, open, &row, &mut record)
            .and_then(|()| self.upsert(tree, file, &key, &record));
        self.scratch = Scratch { record, key };
        answer
    }

    /// See [`crate::database::WriteTransaction::put_value`]. The key is locked.
    pub(in crate::database) fn put_value(
        &mut self,
        open: &OpenTable,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, StorageError> {
        let limit_bytes = self.engine.settings().row_bytes_max();
        check_row_bytes(limit_bytes, &open.definition.name, value)?;
        self.upsert(open.keyed()?, open.definition.file, key, value)
    }

    fn upsert(
        &mut self,
        tree: Tree,
        file: FileId,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, StorageError> {
        let was_there = self.engine.act(|pages| {
            logged(pages, StructureKind::Tree, file, |pages, undo| {
                tree.upsert(pages, key, value, undo)
            })
        })?;
        self.note(|| Step::Put(file, key.to_vec(), value.to_vec()));
        Ok(was_there)
    }

    /// See [`crate::database::WriteTransaction::delete_by_key`]. The key is locked.
    pub(in crate::database) fn delete_key(
        &mut self,
        open: &OpenTable,
        key: &[u8],
    ) -> Result<bool, StorageError> {
        let (tree, file) = (open.keyed()?, open.definition.file);
        let was_there = self.engine.act(|pages| {
            logged(pages, StructureKind::Tree, file, |pages, undo| tree.delete(pages, key, undo))
        })?;
        self.note(|| Step::Delete(file, key.to_vec()));
        Ok(was_there)
    }
}
