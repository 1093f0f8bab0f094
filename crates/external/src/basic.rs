//! The basic operations whose times table 2.1 of S002 gives for a hard disk and for a flash disk:
//! writing random numbers, scanning and sorting them, reading one anywhere, searching one by
//! halves. The number is eight bytes, a double there.
//!
//! Each works on a vector and says what it found; [`measure`] says what it took.

use crate::search::Searcher;
use crate::sort::sort;
use crate::{ExternalError, IoCounts, Natural, PagedVector, RecordStream, Store, Vector};
use nandu_base::{Nanos, Rng};

/// What an operation took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured<T> {
    /// What it gave.
    pub value: T,
    /// The blocks that it moved.
    pub counts: IoCounts,
    /// Time that passed on the volumes' clock.
    pub elapsed_ns: Nanos,
}

/// Runs `operation` and says what it took.
///
/// # Errors
/// As `operation`.
pub fn measure<T>(
    store: &Store,
    operation: impl FnOnce() -> Result<T, ExternalError>,
) -> Result<Measured<T>, ExternalError> {
    let (counts_before, before) = (store.counts(), store.now());
    let value = operation()?;
    let elapsed_ns = store.now().saturating_sub(before);
    Ok(Measured { value, counts: store.counts().since(&counts_before), elapsed_ns })
}

/// Writes `count` random numbers.
///
/// # Errors
/// If there is no memory for a writer, no room, or the device fails.
pub fn write_random(
    store: &Store,
    count: u64,
    rng: &mut Rng,
) -> Result<Vector<u64>, ExternalError> {
    let mut writer = Vector::writer_of(store, count)?;
    for _ in 0..count {
        writer.push(rng.next_u64())?;
    }
    writer.finish()
}

/// Scans all numbers and gives their sum, which wraps.
///
/// # Errors
/// If there is no memory for a scanner, or the device fails.
pub fn scan(vector: &Vector<u64>) -> Result<u64, ExternalError> {
    let mut scanner = vector.scanner()?;
    let mut sum = 0_u64;
    while let Some(number) = scanner.next_record()? {
        sum = sum.wrapping_add(number);
    }
    Ok(sum)
}

/// Sorts all numbers into another vector, within `bytes` of memory beside that of a scanner and a
/// writer.
///
/// # Errors
/// If there is no memory, no room, or the device fails.
pub fn merge_sort(vector: Vector<u64>, bytes: u64) -> Result<Vector<u64>, ExternalError> {
    let store = vector.store().clone();
    sort(vector, Natural, bytes)?.store_in(&store)
}

/// Reads `count` numbers anywhere and gives their sum, which wraps.
///
/// # Errors
/// If there are no numbers, or the device fails.
pub fn read_random(
    vector: &mut PagedVector<u64>,
    count: u64,
    rng: &mut Rng,
) -> Result<u64, ExternalError> {
    if vector.is_empty() {
        let what = "of a vector without numbers none can be read".to_owned();
        return Err(ExternalError::Invalid { what });
    }
    let mut sum = 0_u64;
    for _ in 0..count {
        sum = sum.wrapping_add(vector.get(rng.below(vector.len()))?);
    }
    Ok(sum)
}

/// How many numbers of a sorted vector are less than `key`, by halves.
///
/// # Errors
/// If the device fails.
pub fn search(vector: &mut PagedVector<u64>, key: u64) -> Result<u64, ExternalError> {
    let (mut low, mut high) = (0, vector.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if vector.get(middle)? < key {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// The even numbers below twice as many, in order: what trees are built of that are measured.
#[derive(Clone, Debug)]
pub struct EvenNumbers {
    next: u64,
    count: u64,
}

impl EvenNumbers {
    /// So many of them.
    #[must_use]
    pub const fn new(count: u64) -> Self {
        Self { next: 0, count }
    }
}

impl RecordStream for EvenNumbers {
    type Record = u64;

    fn next_record(&mut self) -> Result<Option<u64>, ExternalError> {
        if self.next == self.count {
            return Ok(None);
        }
        self.next += 1;
        Ok(Some(2 * (self.next - 1)))
    }

    fn left_count(&self) -> Option<u64> {
        Some(self.count - self.next)
    }
}

/// Searches a tree of so many [`EvenNumbers`] for `search_count` keys anywhere, one after the other,
/// and gives the sum of what was found.
///
/// # Errors
/// If there are no numbers, or the device fails.
pub fn search_tree(
    searcher: &mut Searcher<u64>,
    count: u64,
    search_count: u64,
    rng: &mut Rng,
) -> Result<u64, ExternalError> {
    if count == 0 {
        let what = "a tree without numbers is not measured".to_owned();
        return Err(ExternalError::Invalid { what });
    }
    let mut sum = 0_u64;
    for _ in 0..search_count {
        let found = searcher.first_from(&rng.below(2 * count - 1))?;
        sum = sum.wrapping_add(found.unwrap_or(0));
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::SearchKind;
    use crate::testing::store_with;

    #[test]
    fn the_operations_of_table_2_1_move_as_many_blocks_as_they_should() {
        let (block, per_block) = (4096, 511_u64);
        let store = store_with(4096, 1, 2, 1 << 20);
        let mut rng = Rng::new(5);
        let count = 200 * per_block;
        let written = measure(&store, || write_random(&store, count, &mut rng)).unwrap();
        assert_eq!((written.counts.write_blocks, written.counts.read_blocks), (200, 0));
        assert!(written.elapsed_ns.0 > 0 && written.counts.wait_ns <= written.elapsed_ns.0);
        let vector = written.value;

        let scanned = measure(&store, || scan(&vector)).unwrap();
        assert_eq!((scanned.counts.write_blocks, scanned.counts.read_blocks), (0, 200));

        // Runs of 13 of 16 blocks of memory, of 16 runs 14 are merged last: three are merged
        // before.
        let sorted = measure(&store, || merge_sort(vector, 16 * block)).unwrap();
        let (value, counts) = (sorted.value, sorted.counts);
        let runs = count.div_ceil(13 * block / 8);
        assert_eq!(runs, 16);
        let twice = 2 * 200..=2 * 200 + 3 * 14 + runs;
        assert!(twice.contains(&counts.write_blocks), "{counts:?}");
        assert_eq!(counts.read_blocks, counts.write_blocks);
        assert_eq!(scan(&value), Ok(scanned.value));

        let mut paged = value.paged(1).unwrap();
        let read = measure(&store, || read_random(&mut paged, 1000, &mut rng)).unwrap();
        // One frame is right for one of 200 reads.
        assert!((980..=1000).contains(&read.counts.read_blocks), "{read:?}");

        let all: Vec<u64> = (0..count).map(|index| paged.get(index).unwrap()).collect();
        assert!(all.is_sorted());
        // Halves of 200 blocks: about 8 reads, the last ones within a block.
        for key in
            [0, all[0], all[777], all[777] + 1, all[usize::try_from(count).unwrap() - 1], u64::MAX]
        {
            let found = measure(&store, || search(&mut paged, key)).unwrap();
            assert_eq!(found.value, all.partition_point(|&number| number < key) as u64);
            assert!(found.counts.read_blocks <= 9, "{found:?}");
        }
    }

    #[test]
    fn a_tree_is_searched_for_keys_that_it_has_and_for_others() {
        let store = store_with(4096, 1, 2, 1 << 20);
        let tree = SearchKind::VanEmdeBoas.build(&store, EvenNumbers::new(100_000)).unwrap();
        let mut searcher = tree.searcher(4).unwrap();
        let sum = search_tree(&mut searcher, 100_000, 300, &mut Rng::new(9)).unwrap();
        let mut rng = Rng::new(9);
        let keys = (0..300).map(|_| rng.below(199_999).next_multiple_of(2));
        assert_eq!(sum, keys.sum::<u64>());
        assert!(search_tree(&mut searcher, 0, 1, &mut rng).is_err());
    }

    #[test]
    fn a_vector_without_numbers_has_none_to_read() {
        let store = store_with(4096, 1, 2, 1 << 20);
        let vector = write_random(&store, 0, &mut Rng::new(1)).unwrap();
        assert_eq!(scan(&vector), Ok(0));
        let mut paged = vector.paged(1).unwrap();
        assert_eq!(search(&mut paged, 5), Ok(0));
        assert!(read_random(&mut paged, 1, &mut Rng::new(1)).is_err());
    }
}
