//! Rows out of their pages, so that whoever looks at them holds nothing that others need, and may
//! use the database meanwhile.
//!
//! 1. A copy of one row is as long as that row; one of a batch has at most [`BATCH_BYTES_MAX`].
//! 2. A thread keeps the memory of one row and of one small batch, and uses it again.

use crate::StorageError;
use crate::sqlite::RecordView;
use std::cell::Cell;
use std::ops::Range;

/// Bytes of a batch's rows that are copied before they are lent.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Memory of a batch that is larger is given back.
const SPARE_BATCH_BYTES_MAX: usize = 64 << 10;

/// A row's bytes. Each thread has some memory for them that is used again.
pub(super) struct RecordCopy(Vec<u8>);

thread_local! {
    static SPARE_COPY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static SPARE_BATCH: Cell<Batch> = const { Cell::new(Batch::new()) };
}

/// Rows of a leaf or of a PAX page, shown one after the other.
#[derive(Default)]
pub(super) struct RowCopies {
    bytes: Vec<u8>,
    places: Vec<(i64, Range<usize>)>,
    /// How many were shown.
    shown_count: usize,
}

/// Rows of a batch, the first ones that come.
pub(super) struct BatchCopy {
    batch: Batch,
    /// Places of rows for which there was no room.
    left: Vec<usize>,
}

/// The rows that were copied.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Where each row's bytes end, and its place in the batch.
    ends: Vec<(usize, usize)>,
}

impl Batch {
    const fn new() -> Self {
        Self { bytes: Vec::new(), ends: Vec::new() }
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<(usize, usize)>()
    }
}

impl RecordCopy {
    pub(super) fn take() -> Self {
        Self(SPARE_COPY.take())
    }

    pub(super) fn set(&mut self, bytes: &[u8]) {
        self.0.clear();
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for RecordCopy {
    fn drop(&mut self) {
        // After the thread's own has gone there is nobody to keep it for.
        let _ = SPARE_COPY.try_with(|spare| spare.set(std::mem::take(&mut self.0)));
    }
}

impl BatchCopy {
    /// A batch without rows.
    pub(super) fn take() -> Self {
        Self { batch: SPARE_BATCH.take(), left: Vec::new() }
    }

    /// Copies the row at a place of the batch, or leaves it to be read again.
    pub(super) fn add(&mut self, place: usize, bytes: &[u8]) {
        let Batch { bytes: copied, ends } = &mut self.batch;
        if copied.len() + bytes.len() > BATCH_BYTES_MAX {
            self.left.push(place);
        } else {
            copied.extend_from_slice(bytes);
            ends.push((copied.len(), place));
        }
    }

    /// Lends all rows: those that were copied and, one by one, those for which there was no room, which
    /// `read` reads again; false if there is none any more.
    pub(super) fn lend(
        &self,
        read: impl Fn(usize, &mut RecordCopy) -> Result<bool, StorageError>,
        mut look: impl FnMut(usize, &[u8]) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let mut start = 0;
        for &(end, place) in &self.batch.ends {
            look(place, &self.batch.bytes[start..end])?;
            start = end;
        }
        let mut copy = RecordCopy::take();
        for &place in &self.left {
            if read(place, &mut copy)? {
                look(place, copy.bytes())?;
            }
        }
        Ok(())
    }
}

impl Drop for BatchCopy {
    fn drop(&mut self) {
        if self.batch.memory_bytes() > SPARE_BATCH_BYTES_MAX {
            return;
        }
        self.batch.bytes.clear();
        self.batch.ends.clear();
        let _ = SPARE_BATCH.try_with(|spare| spare.set(std::mem::take(&mut self.batch)));
    }
}

impl RowCopies {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
        self.shown_count = 0;
    }

    pub(super) fn add(&mut self, number: i64, record: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(record);
        self.places.push((number, start..self.bytes.len()));
    }

    /// Goes to the next row; false if there is none.
    pub(super) fn show_next(&mut self, row_number: &mut i64) -> bool {
        let Some((number, _)) = self.places.get(self.shown_count) else { return false };
        *row_number = *number;
        self.shown_count += 1;
        true
    }

    pub(super) fn shown(&self) -> &[u8] {
        &self.bytes[self.places[self.shown_count - 1].1.clone()]
    }
}

/// A record that was copied.
pub(super) fn copied(bytes: &[u8]) -> RecordView<'_> {
    RecordView::new(bytes).expect("it was one when it was copied")
}
