//! What takes open transactions back, in memory for those who look at the database beside them: the log has
//! it, too, but on the device.
//!
//! 1. What is kept of a transaction is not undone, and the last change comes last. What was done before
//!    there was company, or past the bound, is in the log alone.

use super::structure;
use crate::{FileId, Lsn};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes that are kept of a transaction.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// What takes changes back, by the file that they are of; last change first in each transaction.
pub(crate) type Undos = BTreeMap<FileId, Vec<Arc<[u8]>>>;

/// Undos of open transactions.
#[derive(Debug, Default)]
pub(super) struct KeptUndos {
    of: BTreeMap<u64, Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    undos: Vec<KeptUndo>,
    bytes: usize,
}

/// The undo of one action.
#[derive(Debug)]
pub(super) struct KeptUndo {
    /// The record of the action.
    pub(super) lsn: Lsn,
    /// What is to be undone after it.
    pub(super) next: Lsn,
    pub(super) undo: Arc<[u8]>,
}

impl KeptUndos {
    /// Keeps the undo of what the record at `lsn` says, after which that at `next` is to be undone.
    pub(super) fn keep(&mut self, transaction: u64, (lsn, next): (Lsn, Lsn), undo: &[u8]) {
        let kept = self.of.entry(transaction).or_default();
        let bytes = undo.len() + size_of::<KeptUndo>();
        if kept.bytes + bytes <= KEPT_BYTES_MAX {
            kept.bytes += bytes;
            kept.undos.push(KeptUndo { lsn, next, undo: undo.into() });
        }
    }

    /// All up to the record at `undo_next` are left to be undone.
    pub(super) fn forget_behind(&mut self, transaction: u64, undo_next: Lsn) {
        let Some(kept) = self.of.get_mut(&transaction) else { return };
        while let Some(undone) = kept.undos.pop_if(|it| it.lsn > undo_next) {
            kept.bytes -= undone.undo.len() + size_of::<KeptUndo>();
        }
    }

    /// The transaction has ended.
    pub(super) fn end(&mut self, transaction: u64) {
        self.of.remove(&transaction);
    }

    /// What is kept of a transaction, the last change last.
    pub(super) fn of(&self, transaction: u64) -> &[KeptUndo] {
        self.of.get(&transaction).map_or(&[], |kept| &kept.undos)
    }

    /// Asserts the numbered invariants, where `is_left` says up to which record a transaction is not undone.
    ///
    /// # Panics
    /// If one does not hold.
    pub(super) fn audit(&self, undo_next: impl Fn(u64) -> Option<Lsn>) {
        for (&transaction, Kept { undos, bytes }) in &self.of {
            let undo_next = undo_next(transaction).expect("what is kept is of open transactions");
            assert!(undos.iter().all(|it| it.lsn <= undo_next && it.next < it.lsn), "invariant 1");
            assert!(undos.is_sorted_by(|one, other| one.lsn <= other.next), "invariant 1");
            let found: usize = undos.iter().map(|it| it.undo.len() + size_of::<KeptUndo>()).sum();
            assert_eq!(found, *bytes, "bytes are counted");
        }
    }
}

/// Adds an undo, unless it is of none of the files that somebody looks at. Gives the bytes that this takes.
pub(super) fn add_undo(undos: &mut Undos, undo: &Arc<[u8]>, unseen: &[FileId]) -> u64 {
    match structure::file_of(undo) {
        Some(file) if !unseen.contains(&file) => {
            undos.entry(file).or_default().push(Arc::clone(undo));
            (undo.len() + size_of::<Arc<[u8]>>()) as u64
        }
        _ => 0,
    }
}
