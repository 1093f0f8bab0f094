//! Sorts records of which the size and the key are known only when the program runs: those of a file that
//! somebody names. What the compiler would know otherwise is known here, once for each size that there is;
//! whoever calls hands over many records at a time and pays one call for all of them.
//!
//! ```text
//!   bytes of many records ──► ByteSorter ──► one sort by its size: 8, 16, … ──► ByteSorted ──► bytes
//!                               key ──► two words ─┘ each eight bytes of a record, turned, shifted, masked
//! ```
//!
//! 1. Keys come in the order of their layout, records with equal keys in that of all their bytes.
//! 2. A record is sorted by the next size of [`SIZES`], the rest of it zeros, which do not come out.
//! 3. What comes out is whole records.

use super::{Division, RecordSize, SortedStream, Sorter};
use crate::error::Caught;
use crate::{ExternalError, KeptVector, Order, RecordStream, Store};
use nandu_base::words::counted;
use std::cmp::Ordering;
use std::fmt::Debug;

/// The longest key.
pub const KEY_BYTES_MAX: usize = 16;
/// The longest record.
pub const RECORD_BYTES_MAX: usize = SIZES[SIZES.len() - 1];

const WORD_BYTES: usize = 8;

/// How the bytes of a key compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// The first one counts most, as in numbers whose most significant byte comes first.
    Bytes,
    /// The last one counts most, as in numbers without a sign whose least significant byte comes first.
    LittleEndian,
}

/// Where the key of a record lies, and how it compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLayout {
    /// Bytes of the record before it.
    pub start: usize,
    /// Its bytes, [`KEY_BYTES_MAX`] at most; none if all bytes of the record decide alone.
    pub bytes: usize,
    /// How they compare.
    pub kind: KeyKind,
}

/// Up to eight bytes of a key as a number: eight bytes of the record, of which the others are shifted
/// and masked away.
#[derive(Clone, Copy, Debug)]
struct Word {
    /// Where the eight bytes begin.
    at: usize,
    /// Whether the first of them counts most.
    is_big_endian: bool,
    shift_bits: u32,
    mask: u64,
}

/// The order of a key, and of all bytes where keys are equal.
#[derive(Clone, Copy, Debug)]
struct ByKey {
    /// What of it counts most.
    high: Word,
    low: Word,
}

impl Word {
    /// Of `bytes` bytes, eight at most, from `start` on in a record of `record_bytes`.
    fn new((start, bytes): (usize, usize), kind: KeyKind, record_bytes: usize) -> Self {
        let is_big_endian = kind == KeyKind::Bytes;
        if bytes == 0 {
            return Self { at: 0, is_big_endian, shift_bits: 0, mask: 0 };
        }
        // A record that is shorter is filled up to so many before it is looked at.
        let at = start.min(record_bytes.max(WORD_BYTES) - WORD_BYTES);
        // What counts most becomes the highest byte.
        let above = if is_big_endian { start - at } else { WORD_BYTES - (start + bytes - at) };
        let bits = |bytes: usize| u32::try_from(8 * bytes).expect("a word has eight bytes");
        let mask = u64::MAX << bits(WORD_BYTES - bytes);
        Self { at, is_big_endian, shift_bits: bits(above), mask }
    }

    #[inline]
    fn of<const N: usize>(self, record: &[u8; N]) -> u64 {
        let bytes = if N < WORD_BYTES {
            let mut bytes = [0; WORD_BYTES];
            bytes[..N].copy_from_slice(record);
            bytes
        } else {
            let bytes = &record[self.at..self.at + WORD_BYTES];
            bytes.try_into().expect("a word has eight bytes")
        };
        let number = u64::from_le_bytes(bytes);
        let number = if self.is_big_endian { number.swap_bytes() } else { number };
        number << self.shift_bits & self.mask
    }
}

impl ByKey {
    /// For a key that lies in records of `record_bytes`.
    fn new(key: KeyLayout, record_bytes: usize) -> Self {
        let KeyLayout { start, bytes, kind } = key;
        let (high_bytes, low_bytes) = (bytes.min(WORD_BYTES), bytes.saturating_sub(WORD_BYTES));
        let (high_start, low_start) = match kind {
            KeyKind::Bytes => (start, start + high_bytes),
            KeyKind::LittleEndian => (start + low_bytes, start),
        };
        let word = |part| Word::new(part, kind, record_bytes);
        Self { high: word((high_start, high_bytes)), low: word((low_start, low_bytes)) }
    }
}

impl<const N: usize> Order<[u8; N]> for ByKey {
    #[inline]
    fn prefix(&self, record: &[u8; N]) -> u64 {
        self.high.of(record)
    }

    #[inline]
    fn compare(&self, left: &[u8; N], right: &[u8; N]) -> Ordering {
        let by_key = |word: Word| word.of(left).cmp(&word.of(right));
        by_key(self.high).then_with(|| by_key(self.low)).then_with(|| left.cmp(right))
    }
}

/// How far a sort is, whatever the size of its records.
trait AnyRuns: Debug {
    fn len(&self) -> u64;
    fn run_count(&self) -> usize;
    fn written_count(&self) -> u64;
    fn merged_left_count(&self) -> u64;
    fn kept_runs(&self) -> Vec<KeptVector>;
}

/// A sort of records of some size.
trait AnySorter: Debug + Send {
    fn push_all(&mut self, records: &[u8]) -> Result<(), ExternalError>;
    fn runs(&self) -> &dyn AnyRuns;
    fn finish(self: Box<Self>, watch: &mut Watch<'_>) -> Result<Box<dyn AnySorted>, ExternalError>;
}

/// What it gives.
trait AnySorted: Debug + Send {
    /// Fills `target` with whole records, and says how many bytes of it.
    fn read(&mut self, target: &mut [u8]) -> Result<usize, ExternalError>;
}

type Watch<'w> = dyn FnMut(ByteRuns<'_>) -> Result<(), ExternalError> + 'w;

/// A sorter, or what it gives, of records of some size, of which those of the user have
/// `record_bytes`.
#[derive(Debug)]
struct OfSize<T> {
    inner: T,
    record_bytes: usize,
}

impl<const N: usize> AnyRuns for Sorter<[u8; N], ByKey> {
    fn len(&self) -> u64 {
        self.len()
    }

    fn run_count(&self) -> usize {
        self.run_count()
    }

    fn written_count(&self) -> u64 {
        self.written_count()
    }

    fn merged_left_count(&self) -> u64 {
        self.merged_left_count()
    }

    fn kept_runs(&self) -> Vec<KeptVector> {
        self.kept_runs()
    }
}

impl<const N: usize> AnySorter for OfSize<Sorter<[u8; N], ByKey>> {
    fn push_all(&mut self, records: &[u8]) -> Result<(), ExternalError> {
        if self.record_bytes == N {
            return self.inner.push_slice(records.as_chunks::<N>().0);
        }
        for bytes in records.chunks_exact(self.record_bytes) {
            let mut record = [0; N];
            record[..self.record_bytes].copy_from_slice(bytes);
            self.inner.push(record)?;
        }
        Ok(())
    }

    fn runs(&self) -> &dyn AnyRuns {
        &self.inner
    }

    fn finish(self: Box<Self>, watch: &mut Watch<'_>) -> Result<Box<dyn AnySorted>, ExternalError> {
        let Self { inner, record_bytes } = *self;
        let inner = inner.finish_watched(|inner| watch(ByteRuns(inner)))?;
        Ok(Box::new(OfSize { inner, record_bytes }))
    }
}

impl<const N: usize> AnySorted for OfSize<SortedStream<[u8; N], ByKey>> {
    fn read(&mut self, target: &mut [u8]) -> Result<usize, ExternalError> {
        let mut filled_bytes = 0;
        for place in target.chunks_exact_mut(self.record_bytes) {
            let Some(record) = self.inner.next_record()? else { break };
            match <&mut [u8; N]>::try_from(&mut *place) {
                // As an array, so that it is no call that copies.
                Ok(place) => *place = record,
                Err(_) => place.copy_from_slice(&record[..self.record_bytes]),
            }
            filled_bytes += self.record_bytes;
        }
        Ok(filled_bytes)
    }
}

/// A sorter of records of a size, with runs that were kept where there are any.
type Make = fn(
    &Store,
    (usize, KeyLayout),
    u64,
    Option<&[KeptVector]>,
) -> Result<Box<dyn AnySorter>, ExternalError>;

fn sorter_of<const N: usize>(
    store: &Store,
    (record_bytes, key): (usize, KeyLayout),
    bytes: u64,
    kept: Option<&[KeptVector]>,
) -> Result<Box<dyn AnySorter>, ExternalError> {
    let order = ByKey::new(key, N);
    let inner: Sorter<[u8; N], ByKey> = match kept {
        Some(kept) => Sorter::resume(store, order, bytes, kept)?,
        None => Sorter::with_bytes(store, order, bytes)?,
    };
    Ok(Box::new(OfSize { inner, record_bytes }))
}

macro_rules! sizes {
    ($($bytes:literal),*) => {
        /// The sizes of records that are sorted, ascending.
        pub const SIZES: &[usize] = &[$($bytes),*];
        /// A sort for each of them.
        const SORTERS: &[Make] = &[$(sorter_of::<$bytes>),*];
    };
}

sizes!(
    4, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 100, 128, 160, 192, 256, 384, 512, 768, 1024,
    2048, 4096
);

/// Which of the sizes is that of so many bytes.
fn size_of_record(record_bytes: usize) -> Result<usize, ExternalError> {
    let size = SIZES.partition_point(|&bytes| bytes < record_bytes);
    if record_bytes > 0 && size < SIZES.len() {
        return Ok(size);
    }
    let what = format!(
        "records of {record_bytes} bytes are not sorted, those of 1 to {RECORD_BYTES_MAX} are"
    );
    Err(ExternalError::Invalid { what })
}

/// Bytes that a record of so many takes in memory and in a block.
///
/// # Errors
/// If there is no sort of such records.
pub fn sorted_bytes(record_bytes: usize) -> Result<usize, ExternalError> {
    size_of_record(record_bytes).map(|size| SIZES[size])
}

impl KeyLayout {
    /// That the key lies in records of `record_bytes`.
    fn check(self, record_bytes: usize) -> Result<(), ExternalError> {
        let Self { start, bytes, .. } = self;
        let what = if bytes > KEY_BYTES_MAX {
            format!("a key of {bytes} bytes is too long; the longest one has {KEY_BYTES_MAX}")
        } else if start.checked_add(bytes).is_none_or(|end| end > record_bytes) {
            format!(
                "a key of {bytes} bytes behind {start} others does not lie in records of \
                 {record_bytes} bytes"
            )
        } else {
            return Ok(());
        };
        Err(ExternalError::Invalid { what })
    }
}

/// Takes records as bytes, in any order.
#[derive(Debug)]
pub struct ByteSorter {
    sorter: Box<dyn AnySorter>,
    record_bytes: usize,
}

/// The runs of a sort that goes on.
#[derive(Clone, Copy, Debug)]
pub struct ByteRuns<'s>(&'s dyn AnyRuns);

/// Records in order, as bytes.
#[derive(Debug)]
pub struct ByteSorted {
    sorted: Box<dyn AnySorted>,
    record_bytes: usize,
}

impl ByteSorter {
    /// A sorter of records of `record_bytes` by `key`, with `bytes` of the store's grant.
    ///
    /// # Errors
    /// If there is no sort of such records, or no such key in them; and as [`Sorter::with_bytes`].
    pub fn with_bytes(
        store: &Store,
        record_bytes: usize,
        key: KeyLayout,
        bytes: u64,
    ) -> Result<Self, ExternalError> {
        Self::make(store, (record_bytes, key), bytes, None)
    }

    /// Refuses to sort `count` such records in `bytes` of memory where the store has no room for their runs:
    /// all of them are there before the first is merged.
    ///
    /// # Errors
    /// If there is no sort of such records, and as [`Store::check_room`]. Too little memory is no error
    /// here.
    pub fn check_room(
        store: &Store,
        record_bytes: usize,
        count: u64,
        bytes: u64,
    ) -> Result<(), ExternalError> {
        let size = RecordSize::stored(sorted_bytes(record_bytes)?);
        let Ok(division) = Division::of(store, size, bytes) else { return Ok(()) };
        let what = format!("sorting {}", counted(count, "record"));
        store.check_room(division.run_bytes(store, count), &what)
    }

    /// As [`Self::with_bytes`] with runs that were kept, in a store that was resumed with them, as
    /// [`Sorter::resume`].
    ///
    /// # Errors
    /// As [`Self::with_bytes`], and as [`Sorter::resume`].
    pub fn resume(
        store: &Store,
        record_bytes: usize,
        key: KeyLayout,
        bytes: u64,
        kept: &[KeptVector],
    ) -> Result<Self, ExternalError> {
        Self::make(store, (record_bytes, key), bytes, Some(kept))
    }

    fn make(
        store: &Store,
        (record_bytes, key): (usize, KeyLayout),
        bytes: u64,
        kept: Option<&[KeptVector]>,
    ) -> Result<Self, ExternalError> {
        let size = size_of_record(record_bytes)?;
        key.check(record_bytes)?;
        let sorter = SORTERS[size](store, (record_bytes, key), bytes, kept)?;
        Ok(Self { sorter, record_bytes })
    }

    /// Puts whole records in, one behind the other.
    ///
    /// # Errors
    /// As [`Sorter::push`].
    ///
    /// # Panics
    /// If a record is not whole.
    pub fn push_all(&mut self, records: &[u8]) -> Result<(), ExternalError> {
        assert!(records.len().is_multiple_of(self.record_bytes), "records are whole");
        self.sorter.push_all(records)
    }

    /// How far it is.
    #[must_use]
    pub fn runs(&self) -> ByteRuns<'_> {
        ByteRuns(self.sorter.runs())
    }

    /// All records in order; calls `watch` as [`Sorter::finish_watched`] does.
    ///
    /// # Errors
    /// As [`Sorter::finish_watched`].
    pub fn finish_watched<E: From<ExternalError>>(
        self,
        mut watch: impl FnMut(ByteRuns<'_>) -> Result<(), E>,
    ) -> Result<ByteSorted, E> {
        let Self { sorter, record_bytes } = self;
        let mut caught = Caught::default();
        let sorted = sorter.finish(&mut |runs| caught.note(watch(runs)));
        Ok(ByteSorted { sorted: caught.out(sorted)?, record_bytes })
    }

    /// All records in order.
    ///
    /// # Errors
    /// As [`Sorter::finish`].
    pub fn finish(self) -> Result<ByteSorted, ExternalError> {
        self.finish_watched(|_| Ok(()))
    }
}

impl ByteRuns<'_> {
    /// How many records were put in.
    #[must_use]
    pub fn record_count(self) -> u64 {
        self.0.len()
    }

    /// How many runs were written so far, as [`Sorter::run_count`] says.
    #[must_use]
    pub fn run_count(self) -> usize {
        self.0.run_count()
    }

    /// How many records they have, as [`Sorter::written_count`] says.
    #[must_use]
    pub fn written_count(self) -> u64 {
        self.0.written_count()
    }

    /// How many records merges in between still write, as [`Sorter::merged_left_count`] says.
    #[must_use]
    pub fn merged_left_count(self) -> u64 {
        self.0.merged_left_count()
    }

    /// Where the runs lie, as [`Sorter::kept_runs`] says.
    #[must_use]
    pub fn kept_runs(self) -> Vec<KeptVector> {
        self.0.kept_runs()
    }
}

impl ByteSorted {
    /// Fills `target` with as many of the next records as it has room for, from its beginning on, and
    /// says how many bytes they have: 0 at the end. After a failure nothing of it counts.
    ///
    /// # Errors
    /// As [`SortedStream`] does.
    ///
    /// # Panics
    /// If there is no room for a record.
    pub fn read(&mut self, target: &mut [u8]) -> Result<usize, ExternalError> {
        assert!(target.len() >= self.record_bytes, "there is room for a record");
        self.sorted.read(target)
    }
}

#[cfg(test)]
mod tests;
