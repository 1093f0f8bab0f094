//! Changes to rows as a transaction with a view of its own repeats them on its copies of pages.
//!
//! 1. Repeated in their order on the pages at the transaction's moment, they give what it sees.

use crate::btree::Tree;
use crate::sqlite::{FillFactor, HeapTable};
use crate::{ChangePages, FileId, StorageError};

/// A change to one row or entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A row of a heap gets its number, and a record.
    InsertNumber(FileId, i64, Vec<u8>),
    /// A row of a heap gets another record.
    UpdateNumber(FileId, i64, Vec<u8>),
    /// A row of a heap goes.
    DeleteNumber(FileId, i64),
    /// A key of a tree gets a value.
    Put(FileId, Vec<u8>, Vec<u8>),
    /// A key of a tree goes.
    Delete(FileId, Vec<u8>),
}

impl Step {
    /// The file in which it changes something.
    pub(super) const fn file(&self) -> FileId {
        match self {
            Self::InsertNumber(file, ..)
            | Self::UpdateNumber(file, ..)
            | Self::DeleteNumber(file, _)
            | Self::Put(file, ..)
            | Self::Delete(file, _) => *file,
        }
    }

    /// Does it on other pages.
    pub(super) fn apply<P: ChangePages>(&self, pages: &mut P) -> Result<(), StorageError> {
        // Nobody takes these copies back: they go as a whole.
        let mut undo = Vec::new();
        match self {
            Self::InsertNumber(file, number, record) => {
                heap(pages, *file)?.insert(pages, *number, record, &mut undo)
            }
            Self::UpdateNumber(file, number, record) => {
                heap(pages, *file)?.update(pages, *number, record, &mut undo)
            }
            Self::DeleteNumber(file, number) => {
                heap(pages, *file)?.delete(pages, *number, &mut undo)
            }
            Self::Put(file, key, value) => {
                Tree::at(*file).upsert(pages, key, value, &mut undo).map(drop)
            }
            Self::Delete(file, key) => Tree::at(*file).delete(pages, key, &mut undo).map(drop),
        }
    }
}

fn heap<P: ChangePages>(pages: &P, file: FileId) -> Result<HeapTable, StorageError> {
    let place = format!("the heap in file {}", file.0);
    HeapTable::open(pages, file, u64::MAX, FillFactor::default(), &place)
}
