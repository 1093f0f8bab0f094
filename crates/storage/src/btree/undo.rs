//! What takes a change to a tree back: logically, since the pages may look otherwise by then.
//!
//! ```text
//!   kind │ key length (4) │ key │ old value            of a run: no key, its keys for a value
//! ```

use super::Tree;
use crate::{ChangePages, FileId, StorageError};
use nandu_base::{to_index, to_u32};

const DELETE: u8 = 1;
const PUT: u8 = 2;
const CLEAR: u8 = 3;
const DELETE_RUN: u8 = 4;

/// The inverse of one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undo<'a> {
    /// Undoes an insert: the key goes away.
    Delete {
        /// The key that was inserted and is deleted again.
        key: &'a [u8],
    },
    /// Of an update or a delete.
    Put {
        /// The key that gets its value back.
        key: &'a [u8],
        /// The value that the key had before.
        value: &'a [u8],
    },
    /// Of the insert of a run.
    DeleteRun {
        /// Its keys, as the log has them.
        keys: &'a [u8],
    },
    /// Of a bulk load: the tree was empty.
    Clear,
}

impl<'a> Undo<'a> {
    /// Appends its bytes to `target`.
    pub fn encode(&self, target: &mut Vec<u8>) {
        let (kind, key, value): (u8, &[u8], &[u8]) = match *self {
            Self::Delete { key } => (DELETE, key, &[]),
            Self::Put { key, value } => (PUT, key, value),
            Self::DeleteRun { keys } => (DELETE_RUN, &[], keys),
            Self::Clear => (CLEAR, &[], &[]),
        };
        target.reserve(5 + key.len() + value.len());
        Self::encode_head(kind, key, target);
        target.extend_from_slice(value);
    }

    /// Appends all but the value of a [`Self::Put`] to `target`; the value is to follow.
    pub(super) fn encode_put(key: &[u8], target: &mut Vec<u8>) {
        Self::encode_head(PUT, key, target);
    }

    fn encode_head(kind: u8, key: &[u8], target: &mut Vec<u8>) {
        target.push(kind);
        target.extend_from_slice(&to_u32(key.len() as u64).to_be_bytes());
        target.extend_from_slice(key);
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// If the bytes are no such thing.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, StorageError> {
        let broken = || StorageError::Corrupt {
            place: "the undo of a change to a tree".to_owned(),
            what: "its bytes are not as a tree writes them".to_owned(),
        };
        let (head, rest) = bytes.split_first_chunk::<5>().ok_or_else(broken)?;
        let key_bytes = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let key_bytes = to_index(u64::from(key_bytes));
        let (key, value) = rest.split_at_checked(key_bytes).ok_or_else(broken)?;
        match (head[0], key, value) {
            (DELETE, _, []) => Ok(Self::Delete { key }),
            (PUT, ..) => Ok(Self::Put { key, value }),
            (DELETE_RUN, [], keys) => Ok(Self::DeleteRun { keys }),
            (CLEAR, [], []) => Ok(Self::Clear),
            _ => Err(broken()),
        }
    }
}

/// Takes back the change to the tree in `file` whose undo is `bytes`.
///
/// # Errors
/// If the bytes are not as a tree wrote them, a key that was inserted is gone, or pages cannot be read
/// or changed.
pub fn apply_undo<P: ChangePages>(
    pages: &mut P,
    file: FileId,
    bytes: &[u8],
) -> Result<(), StorageError> {
    let tree = Tree::at(file);
    let mut redo = Vec::new();
    match Undo::decode(bytes)? {
        Undo::Delete { key } => {
            if !tree.delete(pages, key, &mut redo)? {
                let what = "a key that is to be taken back".to_owned();
                return Err(StorageError::NotFound { what });
            }
        }
        Undo::Put { key, value } => {
            tree.upsert(pages, key, value, &mut redo)?;
        }
        Undo::DeleteRun { keys } => tree.delete_run(pages, keys)?,
        Undo::Clear => tree.clear(pages)?,
    }
    Ok(())
}
