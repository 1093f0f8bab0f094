//! Records as they are sorted. A search looks at the one in the middle of those that may be the answer.

use super::{InOrder, Layout, Walk};
use crate::{ExternalError, RecordStream, Store, Vector};

/// So many records in their order.
#[derive(Debug)]
pub(super) struct Halves {
    len: u64,
}

impl Halves {
    pub(super) const fn new(len: u64) -> Self {
        Self { len }
    }
}

/// The middle of the records from `low` on that come before `high`.
fn between(low: u64, high: u64) -> Option<Walk> {
    (low < high).then(|| Walk { at: low + (high - low) / 2, level: 0, low, high })
}

impl Layout for Halves {
    fn begin(&self) -> Option<Walk> {
        between(0, self.len)
    }

    fn turn(&self, walk: Walk, is_before: bool) -> Option<Walk> {
        if is_before { between(walk.at + 1, walk.high) } else { between(walk.low, walk.at) }
    }

    fn audit(&self, len: u64, place_count: u64) {
        assert_eq!((self.len, self.len), (len, place_count), "a place for each record");
    }

    fn write<S: RecordStream>(
        &self,
        store: &Store,
        records: &mut InOrder<S>,
    ) -> Result<Vector<S::Record>, ExternalError> {
        let mut writer = Vector::writer_of(store, self.len)?;
        for _ in 0..self.len {
            writer.push(records.next()?)?;
        }
        writer.finish()
    }
}
