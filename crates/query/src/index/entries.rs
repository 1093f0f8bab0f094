//! The entries of an index in the order of their keys, with keys that those of another index can be
//! compared with.
//!
//! 1. For entries a and b of two cursors over columns of whatever types: key(a) < key(b) exactly if
//!    a's values come before b's, and they are equal exactly if SQL holds them equal, NULLs aside.

use super::IndexLookup;
use super::key::{ByteBounds, KeyRange};
use crate::key::encode_ordered;
use crate::{Execution, QueryError};
use nandu_storage::btree::{Cursor, Direction, Entry};
use nandu_storage::database::key::{decode_key, leading_values};
use std::ops::Bound;

/// Leaves that are asked for ahead.
const AHEAD_COUNT: usize = 32;

/// A cursor over the first columns of an index.
pub(crate) struct EntryCursor<'x> {
    index: &'x dyn IndexLookup,
    column_count: usize,
    /// Whether keys are written anew, as the other index has columns of other types.
    recodes: bool,
    upper: Bound<Vec<u8>>,
    ahead_count: usize,
    cursor: Cursor,
    key: Vec<u8>,
    prefix_bytes: usize,
    has_null: bool,
    is_at_end: bool,
}

impl<'x> EntryCursor<'x> {
    /// A cursor before the first entry of a range.
    ///
    /// # Errors
    /// If the range has more columns than the index.
    pub(crate) fn new(
        execution: &Execution,
        index: &'x dyn IndexLookup,
        (column_count, recodes): (usize, bool),
        range: &KeyRange,
    ) -> Result<Self, QueryError> {
        let bounds = index.key().bounds(range)?;
        let cursor = index.tree().scan(as_bytes(&bounds), Direction::Forward);
        let ahead_count = if execution.limits().reads_ahead { AHEAD_COUNT } else { 0 };
        Ok(Self {
            index,
            column_count,
            recodes,
            upper: bounds.1,
            ahead_count,
            cursor: cursor.with_ahead_count(ahead_count),
            key: Vec::new(),
            prefix_bytes: 0,
            has_null: false,
            is_at_end: false,
        })
    }

    /// Goes on to the next entry.
    ///
    /// # Errors
    /// If the device fails, or what it stores is damaged.
    pub(crate) fn advance(&mut self) -> Result<(), QueryError> {
        let Self { cursor, key, .. } = self;
        let Some((entry, _)) = cursor.next(self.index.engine())? else {
            self.is_at_end = true;
            return Ok(());
        };
        (self.prefix_bytes, self.has_null) = leading_values(entry, self.column_count)?;
        key.clear();
        if !self.recodes {
            key.extend_from_slice(&entry[..self.prefix_bytes]);
            return Ok(());
        }
        let mut rest = entry;
        for _ in 0..self.column_count {
            let (value, after) = decode_key(rest)?;
            encode_ordered(value.as_ref(), key);
            rest = after;
        }
        Ok(())
    }

    /// Goes back to the first entry that begins with `prefix`.
    ///
    /// # Errors
    /// As [`Self::advance`].
    pub(crate) fn restart(&mut self, prefix: &[u8]) -> Result<(), QueryError> {
        let bounds = (Bound::Included(prefix), self.upper.as_ref().map(Vec::as_slice));
        let cursor = self.index.tree().scan(bounds, Direction::Forward);
        self.cursor = cursor.with_ahead_count(self.ahead_count);
        self.is_at_end = false;
        self.advance()
    }

    /// The key of the entry at hand; `None` at the end.
    #[inline]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        (!self.is_at_end).then_some(&self.key)
    }

    /// Whether a value of the key is NULL.
    #[inline]
    pub(crate) fn has_null(&self) -> bool {
        self.has_null
    }

    /// The entry at hand.
    #[inline]
    pub(crate) fn entry(&self) -> Entry<'_> {
        self.cursor.current()
    }

    /// The bytes of the key as they are in the tree.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.entry().0[..self.prefix_bytes]
    }
}

/// Bounds as a tree takes them.
pub(crate) fn as_bytes(bounds: &ByteBounds) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (bounds.0.as_ref().map(Vec::as_slice), bounds.1.as_ref().map(Vec::as_slice))
}
