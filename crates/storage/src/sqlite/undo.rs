//! What takes a change of a table back, as the log keeps it.
//!
//! ```text
//!   │ kind 1 │ rowid 8 BE │ the old record, unless the row was inserted │
//! ```

use crate::StorageError;

const INSERTED: u8 = 1;
const UPDATED: u8 = 2;
const DELETED: u8 = 3;

/// A change that can be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undo<'a> {
    Inserted { rowid: i64 },
    Updated { rowid: i64, record: &'a [u8] },
    Deleted { rowid: i64, record: &'a [u8] },
}

pub(super) fn inserted(rowid: i64, out: &mut Vec<u8>) {
    push(INSERTED, rowid, &[], out);
}

pub(super) fn updated(rowid: i64, old: &[u8], out: &mut Vec<u8>) {
    push(UPDATED, rowid, old, out);
}

pub(super) fn deleted(rowid: i64, old: &[u8], out: &mut Vec<u8>) {
    push(DELETED, rowid, old, out);
}

fn push(kind: u8, rowid: i64, old: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&rowid.to_be_bytes());
    out.extend_from_slice(old);
}

impl<'a> Undo<'a> {
    /// # Errors
    /// If the bytes are none of the three.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, StorageError> {
        let parts = bytes.split_first().and_then(|(kind, rest)| {
            let (rowid, record) = rest.split_first_chunk::<8>()?;
            Some((*kind, i64::from_be_bytes(*rowid), record))
        });
        match parts {
            Some((INSERTED, rowid, [])) => Ok(Self::Inserted { rowid }),
            Some((UPDATED, rowid, record)) => Ok(Self::Updated { rowid, record }),
            Some((DELETED, rowid, record)) => Ok(Self::Deleted { rowid, record }),
            _ => Err(StorageError::Corrupt {
                place: "the undo of a change to a table".to_owned(),
                what: "its bytes are of no kind that is known".to_owned(),
            }),
        }
    }
}
