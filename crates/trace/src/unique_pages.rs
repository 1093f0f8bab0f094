//! How many different pages requests touch, counted exactly.
//!
//! ```text
//!   chunks  │ none │ read bits, write bits │ none │ …     one for 32768 pages, made when touched
//! ```
//!
//! 1. Memory is at most two bits for each page of the space, and a word for each chunk.
//! 2. The counts are those of the bits that are set.

use crate::TraceRequest;
use nandu_base::to_index;
use nandu_device::Operation;
use serde::{Deserialize, Serialize};

const WORD_BITS: u64 = 64;
const CHUNK_WORDS: usize = 512;
const CHUNK_PAGES: u64 = CHUNK_WORDS as u64 * WORD_BITS;

/// Pages touched at least once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UniquePageCounts {
    /// Pages that were read.
    pub read_count: u64,
    /// Pages that were written.
    pub write_count: u64,
    /// Pages that were read or written.
    pub touched_count: u64,
}

impl UniquePageCounts {
    /// Pages that were both read and written.
    #[must_use]
    pub const fn shared_count(self) -> u64 {
        self.read_count + self.write_count - self.touched_count
    }
}

/// A read and a write bit of every page of a chunk.
#[derive(Clone, Debug)]
struct Chunk {
    reads: [u64; CHUNK_WORDS],
    writes: [u64; CHUNK_WORDS],
}

/// The pages that were touched in a space of bytes.
#[derive(Clone, Debug)]
pub struct UniquePages {
    page_bytes: u64,
    capacity_bytes: u64,
    chunks: Vec<Option<Box<Chunk>>>,
    counts: UniquePageCounts,
}

impl UniquePages {
    /// No page of `page_bytes` touched, in a space of `capacity_bytes`.
    ///
    /// # Panics
    /// If a page has no bytes.
    #[must_use]
    pub const fn new(page_bytes: u64, capacity_bytes: u64) -> Self {
        assert!(page_bytes > 0, "a page has bytes");
        let counts = UniquePageCounts { read_count: 0, write_count: 0, touched_count: 0 };
        Self { page_bytes, capacity_bytes, chunks: Vec::new(), counts }
    }

    /// Bytes of a page.
    #[must_use]
    pub const fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// The pages touched so far.
    #[must_use]
    pub const fn counts(&self) -> UniquePageCounts {
        self.counts
    }

    /// Notes a request of a source.
    ///
    /// # Panics
    /// As [`Self::note`].
    pub fn note_request(&mut self, request: &TraceRequest) {
        self.note(request.operation, request.offset_bytes, request.length_bytes);
    }

    /// Notes that these bytes are read or written, and with them every page that they lie in. Trims
    /// and flushes touch none.
    ///
    /// # Panics
    /// If they end past the space. Sources of requests check that before they give one.
    #[inline]
    pub fn note(&mut self, operation: Operation, offset_bytes: u64, length_bytes: u64) {
        if length_bytes == 0 || !matches!(operation, Operation::Read | Operation::Write) {
            return;
        }
        let end = offset_bytes.checked_add(length_bytes);
        let end = end.filter(|&end| end <= self.capacity_bytes).expect("requests end in the space");
        let mut page = offset_bytes / self.page_bytes;
        let last = (end - 1) / self.page_bytes;
        while page <= last {
            // All pages of the request whose bits lie in the same word of 64 are set at once.
            let word_last = last.min(page | (WORD_BITS - 1));
            let ones = u64::MAX >> (WORD_BITS - 1 - (word_last - page));
            self.set(operation, page, ones << (page % WORD_BITS));
            page = word_last + 1;
        }
    }

    /// Sets the bits of `mask` in the word of `page`.
    fn set(&mut self, operation: Operation, page: u64, mask: u64) {
        let index = to_index(page / CHUNK_PAGES);
        if index >= self.chunks.len() {
            self.chunks.resize(index + 1, None);
        }
        let chunk = self.chunks[index].get_or_insert_with(|| {
            Box::new(Chunk { reads: [0; CHUNK_WORDS], writes: [0; CHUNK_WORDS] })
        });
        let word = to_index(page % CHUNK_PAGES / WORD_BITS);
        let (reads, writes) = (&mut chunk.reads[word], &mut chunk.writes[word]);
        self.counts.touched_count += u64::from((mask & !(*reads | *writes)).count_ones());
        let (bits, count) = match operation {
            Operation::Write => (writes, &mut self.counts.write_count),
            _ => (reads, &mut self.counts.read_count),
        };
        *count += u64::from((mask & !*bits).count_ones());
        *bits |= mask;
    }

    /// Asserts the invariants.
    ///
    /// # Panics
    /// If they do not hold.
    pub fn audit(&self) {
        let chunk_count = self.capacity_bytes.div_ceil(self.page_bytes).div_ceil(CHUNK_PAGES);
        assert!(self.chunks.len() as u64 <= chunk_count, "chunks are those of the space");
        let mut counts = UniquePageCounts::default();
        for chunk in self.chunks.iter().flatten() {
            for (reads, writes) in chunk.reads.iter().zip(&chunk.writes) {
                counts.read_count += u64::from(reads.count_ones());
                counts.write_count += u64::from(writes.count_ones());
                counts.touched_count += u64::from((reads | writes).count_ones());
            }
        }
        assert_eq!(counts, self.counts, "the counts are those of the bits");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Operation::{Flush, Read, Trim, Write};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn counts(pages: &UniquePages) -> (u64, u64, u64) {
        pages.audit();
        let counts = pages.counts();
        (counts.read_count, counts.write_count, counts.touched_count)
    }

    #[test]
    fn a_page_counts_once_for_each_kind_and_once_in_all() {
        let mut pages = UniquePages::new(4096, 1 << 40);
        pages.note(Read, 0, 4096);
        pages.note(Read, 100, 200);
        assert_eq!(counts(&pages), (1, 0, 1));
        // One byte of each of two pages.
        pages.note(Write, 4095, 2);
        assert_eq!(counts(&pages), (1, 2, 2));
        assert_eq!(pages.counts().shared_count(), 1);
        pages.note(Write, (1 << 40) - 1, 1);
        pages.note(Trim, 1 << 30, 8192);
        pages.note(Flush, 0, 0);
        pages.note(Read, 1 << 39, 0);
        assert_eq!(counts(&pages), (1, 3, 3));
    }

    #[test]
    fn memory_is_taken_where_pages_are_touched() {
        let mut pages = UniquePages::new(4096, 1 << 50);
        pages.note(Write, (1 << 30) - 4096, 1 << 30);
        assert_eq!(counts(&pages), (0, 1 << 18, 1 << 18));
        assert_eq!(pages.chunks.iter().flatten().count(), 9);
        pages.note(Read, 0, 1 << 31);
        assert_eq!(counts(&pages), (1 << 19, 1 << 18, 1 << 19));
    }

    proptest! {
        #[test]
        fn the_counts_are_those_of_sets(
            page_bytes in prop_oneof![Just(512_u64), Just(4096), Just(5000)],
            requests in proptest::collection::vec(
                (prop_oneof![Just(Read), Just(Write), Just(Trim)], 0_u64..1 << 28, 1_u64..1 << 20),
                1..40,
            ),
        ) {
            let mut pages = UniquePages::new(page_bytes, 1 << 29);
            let mut sets = [BTreeSet::new(), BTreeSet::new()];
            for (operation, offset, length) in requests {
                pages.note(operation, offset, length);
                if operation != Trim {
                    let range = offset / page_bytes..=(offset + length - 1) / page_bytes;
                    sets[usize::from(operation == Write)].extend(range);
                }
            }
            let touched = sets[0].union(&sets[1]).count() as u64;
            let expected = (sets[0].len() as u64, sets[1].len() as u64, touched);
            prop_assert_eq!(counts(&pages), expected);
        }
    }
}
