//! The structures that the engine knows: who applies an operation, who undoes an action.
//!
//! To add one: a module with `apply` and `apply_undo`, a code here, a range of operation codes.
//!
//! 1. An undo starts with the code of its structure and the number of its file; the rest is the
//!    structure's.

use crate::access::apply_common;
use crate::{ChangePages, FileId, PageOperation, StorageError, btree, sqlite};

/// A kind of structure, as it stands in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StructureKind {
    /// A heap table in SQLite's format.
    Heap = 1,
    /// A B+-tree.
    Tree = 2,
}

/// Bytes of an undo before the structure's own.
const UNDO_HEAD_BYTES: usize = 3;

/// Applies any operation to the usable bytes of a page.
///
/// # Errors
/// If no structure knows the code, or the operands do not fit.
pub(crate) fn apply(page: &mut [u8], operation: &PageOperation<'_>) -> Result<(), StorageError> {
    match operation.code {
        0x10..=0x1F => sqlite::apply(page, operation),
        0x20..=0x2F => btree::apply(page, operation),
        _ => apply_common(page, operation),
    }
}

/// Starts an undo of `kind` on `file`; the structure appends what it needs.
pub(super) fn begin_undo(undo: &mut Vec<u8>, kind: StructureKind, file: FileId) {
    undo.clear();
    undo.push(kind as u8);
    undo.extend(file.0.to_be_bytes());
}

/// The file that an undo is about.
pub(super) fn file_of(undo: &[u8]) -> Option<FileId> {
    let &[_, high, low] = undo.first_chunk::<UNDO_HEAD_BYTES>()?;
    Some(FileId(u16::from_be_bytes([high, low])))
}

/// The only key that an undo changes, where it is about one of a tree.
pub(crate) fn key_of(undo: &[u8]) -> Option<&[u8]> {
    let (&[kind, _, _], rest) = undo.split_first_chunk::<UNDO_HEAD_BYTES>()?;
    match (kind == StructureKind::Tree as u8).then(|| btree::Undo::decode(rest))? {
        Ok(btree::Undo::Delete { key } | btree::Undo::Put { key, .. }) => Some(key),
        _ => None,
    }
}

/// Performs a logical undo.
///
/// # Errors
/// If it is of no known structure, or its pages cannot be read.
pub(crate) fn apply_undo<P: ChangePages>(pages: &mut P, undo: &[u8]) -> Result<(), StorageError> {
    let Some((&[kind, high, low], rest)) = undo.split_first_chunk::<UNDO_HEAD_BYTES>() else {
        return Err(corrupt("it is too short"));
    };
    let file = FileId(u16::from_be_bytes([high, low]));
    match kind {
        kind if kind == StructureKind::Heap as u8 => {
            let fill = sqlite::FillFactor::default();
            let place = format!("the heap in file {}", file.0);
            sqlite::HeapTable::open(pages, file, u64::MAX, fill, &place)?.apply_undo(pages, rest)
        }
        kind if kind == StructureKind::Tree as u8 => btree::apply_undo(pages, file, rest),
        _ => Err(corrupt("no structure has this code")),
    }
}

fn corrupt(what: &str) -> StorageError {
    StorageError::Corrupt { place: "an undo in the log".to_owned(), what: what.to_owned() }
}
