//! Sorts that write less and read more, for devices on which a write costs as much as several reads
//! (Viglas, PVLDB 7(5), 2014; S002, chapter 5, has the model x + c y).
//!
//! ```text
//!   merge      read all once, write runs, read them
//!   selection  read all again for each memory of records, of which the next ones are picked
//!   lazy       the same; what is left is written once reading over the rest has cost as much
//!   segment    a part by merges, the rest by selection, both merged as they come out
//! ```
//!
//! | kind, of n records, m of them picked in a pass | records read | records written |
//! | --- | --- | --- |
//! | merge | n (1 + merges) | n merges, 0 if all fit into memory |
//! | selection | n ceil(n / m) | 0 |
//! | lazy, a write costs c reads | n for each pass since n was written | n - i m in the pass i that writes |
//! | segment, x by merges | x n (1 + merges) + (1 - x) n ceil((1 - x) n / m) | x n merges |
//!
//! Pass i since the last writing writes what it does not pick, r records, if m i (i + 1) / 2 >= c r: so many
//! records were read in vain, or would be in the next pass.
//!
//! 1. What comes out is what the plain sort gives.
//! 2. Blocks that are moved follow from the number of records, memory and kind, never from what is in
//!    records: [`SortKind::moved_blocks`] tells them before.
//! 3. The input stays until the last pass over it. What lazy wrote and the runs of segment lie beside it
//!    meanwhile; merge gives the input's room to its runs.

mod moved;
mod passes;
mod segment;

pub use moved::MovedBlocks;

use super::{SortedStream, Sorter};
use crate::{ExternalError, Order, Record, RecordStream, Store, Vector};
use passes::Passes;
use segment::Segments;

/// All of something in thousandths.
const WHOLE: u64 = 1000;

/// How records are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortKind {
    /// By merges, as [`Sorter`] does.
    Merge,
    /// By passes that pick and write nothing.
    Selection,
    /// By passes that pick, and write what is left once that is worth it.
    Lazy {
        /// How many reads a write costs, in thousandths.
        write_weight_thousandths: u64,
    },
    /// A part by merges, the rest by passes in what memory merges do not need: they have as few eighths
    /// of it as do not make them write more by over a sixteenth.
    Segment {
        /// How much is merged, in thousandths of the records, down to whole blocks.
        merged_thousandths: u64,
    },
}

/// Records in order, from a sort of any kind.
#[derive(Debug)]
pub struct LimitedStream<R: Record, O: Order<R>> {
    source: Source<R, O>,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one of them for a sort")]
enum Source<R: Record, O: Order<R>> {
    Merge(SortedStream<R, O>),
    Passes(Passes<R, O>),
    Segments(Box<Segments<R, O>>),
}

impl SortKind {
    /// Sorts a vector within `bytes` of memory beside that of a scanner.
    ///
    /// # Errors
    /// If there is not so much memory, no room, or the device fails.
    pub fn sort<R: Record, O: Order<R>>(
        self,
        vector: Vector<R>,
        order: O,
        bytes: u64,
    ) -> Result<LimitedStream<R, O>, ExternalError> {
        let store = vector.store().clone();
        let division = self.division::<R>(&store, vector.len(), bytes)?;
        let mut memory = store.grant().take("a sort", bytes)?;
        let Some(picked_count) = division.picked_count else {
            let mut sorter = Sorter::new(&store, order, memory)?;
            sorter.push_all(vector.into_stream()?)?;
            return Ok(LimitedStream { source: Source::Merge(sorter.finish()?) });
        };
        let merged = (division.sorter_bytes > 0)
            .then(|| {
                let memory = memory.split_off(division.sorter_bytes);
                let mut sorter = Sorter::new(&store, order.clone(), memory)?;
                let in_flight = store.settings().in_flight;
                sorter.push_all(vector.scanner_of(0..division.merged_count, in_flight)?)?;
                sorter.finish()
            })
            .transpose()?;
        let passes = Passes::new(vector, order.clone(), memory, picked_count, &division)?;
        let source = match merged {
            Some(merged) => Source::Segments(Box::new(Segments::new(merged, passes, order))),
            None => Source::Passes(passes),
        };
        Ok(LimitedStream { source })
    }

    /// The weight that a lazy sort knows.
    const fn write_weight(self) -> Option<u64> {
        match self {
            Self::Lazy { write_weight_thousandths } => Some(write_weight_thousandths),
            _ => None,
        }
    }

    /// How memory and records are divided.
    fn division<R: Record>(
        self,
        store: &Store,
        count: u64,
        bytes: u64,
    ) -> Result<LimitedDivision, ExternalError> {
        let per_block = store.per_block::<R>()?;
        let merged_count = match self {
            Self::Merge => count,
            Self::Segment { merged_thousandths: WHOLE.. } => count,
            Self::Segment { merged_thousandths } => {
                let merged = u128::from(count) * u128::from(merged_thousandths) / u128::from(WHOLE);
                let merged = u64::try_from(merged).expect("a part of the records");
                merged / per_block * per_block
            }
            Self::Selection | Self::Lazy { .. } => 0,
        };
        let mut division = LimitedDivision {
            merged_count,
            sorter_bytes: 0,
            picked_count: None,
            write_blocks: 0,
            write_weight: self.write_weight(),
        };
        if merged_count == count && self.write_weight().is_none() && self != Self::Selection {
            division.sorter_bytes = bytes;
            return Ok(division);
        }
        if merged_count > 0 {
            division.sorter_bytes = moved::bytes_for_merges::<R>(store, merged_count, bytes)?;
        }
        if division.write_weight.is_some() {
            let blocks = bytes / store.block_bytes();
            division.write_blocks = 1 + u64::from(store.settings().in_flight).min(blocks / 5);
        }
        let taken = division.sorter_bytes + division.write_blocks * store.block_bytes();
        let record_bytes = size_of::<R>().max(1) as u64;
        let picked_count = bytes.saturating_sub(taken) / record_bytes;
        if picked_count == 0 {
            return Err(ExternalError::TooLittleMemory {
                operator: "a sort that writes less".to_owned(),
                needed_bytes: taken + record_bytes,
                granted_bytes: bytes,
            });
        }
        division.picked_count = Some(picked_count);
        Ok(division)
    }
}

/// How memory and records are divided between merges and passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LimitedDivision {
    /// Records that are merged, the first ones.
    merged_count: u64,
    sorter_bytes: u64,
    /// Records that a pass picks; `None` if there is no pass.
    picked_count: Option<u64>,
    /// Blocks by which a pass writes what is left.
    write_blocks: u64,
    /// How many reads a write costs, in thousandths, where passes may write.
    write_weight: Option<u64>,
}

impl LimitedDivision {
    /// Whether pass number `pass` since the last writing writes the `rest` that it does not pick.
    fn writes(&self, pass: u64, rest: u64) -> bool {
        let (Some(weight), Some(picked)) = (self.write_weight, self.picked_count) else {
            return false;
        };
        let pass = u128::from(pass);
        let in_vain = pass * (pass + 1) / 2 * u128::from(picked);
        rest > 0 && in_vain * u128::from(WHOLE) >= u128::from(weight) * u128::from(rest)
    }
}

impl<R: Record, O: Order<R>> RecordStream for LimitedStream<R, O> {
    type Record = R;

    #[inline]
    fn next_record(&mut self) -> Result<Option<R>, ExternalError> {
        match &mut self.source {
            Source::Merge(merge) => merge.next_record(),
            Source::Passes(passes) => passes.next_record(),
            Source::Segments(segments) => segments.next_record(),
        }
    }

    fn left_count(&self) -> Option<u64> {
        match &self.source {
            Source::Merge(merge) => merge.left_count(),
            Source::Passes(passes) => passes.left_count(),
            Source::Segments(segments) => segments.left_count(),
        }
    }
}

#[cfg(test)]
mod tests;
