//! Differentials: of the flash page that holds them, and of those that wait for one.
//!
//! ```text
//!   flash page    differential │ differential … │ zeros
//!   differential  address 8 │ stamp 8 │ stamp of the base page 8 │ record bytes 4 │ zero 4 │
//!                 record of changed ranges │ pad to 16
//! ```
//!
//! 1. A page has one differential at most that waits.

use super::super::log_structured::record::UNIT_BYTES;
use crate::{FileId, PageAddress};
use nandu_base::to_u32;
use std::collections::BTreeMap;

/// What is told of a differential in front of it.
pub(super) const HEADER_BYTES: usize = 32;
pub(super) const HEADER_BYTES_U32: u32 = 32;

/// A differential that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) stamp: u64,
    /// The base page that it is laid over, and no other.
    pub(super) base_stamp: u64,
    /// The record of the changed ranges.
    pub(super) record: Vec<u8>,
}

/// The differential write buffer: what fills one flash page.
#[derive(Debug, Default)]
pub(super) struct WriteBuffer {
    waiting: BTreeMap<PageAddress, Waiting>,
    used_bytes: usize,
}

/// A differential of a flash page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found<'a> {
    pub(super) address: PageAddress,
    pub(super) stamp: u64,
    pub(super) base_stamp: u64,
    /// Where its record begins in the flash page.
    pub(super) at: usize,
    pub(super) record: &'a [u8],
}

/// Bytes that a differential with such a record takes.
pub(super) const fn stored_bytes(record_bytes: usize) -> usize {
    (HEADER_BYTES + record_bytes).next_multiple_of(UNIT_BYTES as usize)
}

impl Waiting {
    fn stored_bytes(&self) -> usize {
        stored_bytes(self.record.len())
    }
}

impl WriteBuffer {
    pub(super) fn get(&self, address: PageAddress) -> Option<&Waiting> {
        self.waiting.get(&address)
    }

    /// Takes a differential in; an older one of the page gives way.
    pub(super) fn insert(&mut self, address: PageAddress, waiting: Waiting) {
        self.used_bytes += waiting.stored_bytes();
        let before = self.waiting.insert(address, waiting);
        self.used_bytes -= before.map_or(0, |before| before.stored_bytes());
    }

    pub(super) fn remove(&mut self, address: PageAddress) {
        let before = self.waiting.remove(&address);
        self.used_bytes -= before.map_or(0, |before| before.stored_bytes());
    }

    /// Forgets the pages of a file from `first` on.
    pub(super) fn truncate(&mut self, file: FileId, first: u32) {
        self.waiting.retain(|address, _| address.file != file || address.page < first);
        self.used_bytes = self.waiting.values().map(Waiting::stored_bytes).sum();
    }

    /// Bytes that the differentials take.
    pub(super) const fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// The same, but for that of one page.
    pub(super) fn used_bytes_without(&self, address: PageAddress) -> usize {
        self.used_bytes - self.get(address).map_or(0, Waiting::stored_bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes out the first differentials that fill `flash_page`, each with where its record is there.
    pub(super) fn pack(&mut self, flash_page: &mut [u8]) -> Vec<(PageAddress, Waiting, u32)> {
        let mut packed = Vec::new();
        let mut start = 0;
        while let Some(first) = self.waiting.first_entry() {
            let (address, bytes) = (*first.key(), first.get().stored_bytes());
            let Some(place) = flash_page.get_mut(start..start + bytes) else { break };
            let waiting = first.remove();
            place[..8].copy_from_slice(&address.to_word().to_be_bytes());
            place[8..16].copy_from_slice(&waiting.stamp.to_be_bytes());
            place[16..24].copy_from_slice(&waiting.base_stamp.to_be_bytes());
            let record_bytes = to_u32(waiting.record.len() as u64);
            place[24..28].copy_from_slice(&record_bytes.to_be_bytes());
            place[HEADER_BYTES..HEADER_BYTES + waiting.record.len()]
                .copy_from_slice(&waiting.record);
            packed.push((address, waiting, to_u32((start + HEADER_BYTES) as u64)));
            start += bytes;
            self.used_bytes -= bytes;
        }
        packed
    }

    /// # Panics
    /// If the account of bytes is wrong.
    pub(super) fn audit(&self) {
        let used_bytes: usize = self.waiting.values().map(Waiting::stored_bytes).sum();
        assert_eq!(used_bytes, self.used_bytes, "the write buffer knows how full it is");
    }
}

/// The differentials of a flash page, which may say anything; those up to the first that makes no sense.
pub(super) fn differentials_of(flash_page: &[u8]) -> impl Iterator<Item = Found<'_>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let header = flash_page.get(start..start + HEADER_BYTES)?;
        let long = |at: usize| header[at..].first_chunk().map(|word| u64::from_be_bytes(*word));
        let address = PageAddress::from_word(long(0)?);
        let record_bytes = u32::from_be_bytes(*header[24..].first_chunk()?) as usize;
        let at = start + HEADER_BYTES;
        let record = flash_page.get(at..at.checked_add(record_bytes)?)?;
        start += stored_bytes(record_bytes);
        let found = Found { address, stamp: long(8)?, base_stamp: long(16)?, at, record };
        (address.page > 0 && !record.is_empty()).then_some(found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn waiting(stamp: u64, bytes: usize) -> Waiting {
        Waiting { stamp, base_stamp: stamp / 2, record: vec![7; bytes] }
    }

    #[test]
    fn what_is_packed_is_found_and_what_does_not_fit_waits_on() {
        let mut buffer = WriteBuffer::default();
        let address = |page| PageAddress::new(FileId(2), page);
        for page in 1..=6 {
            buffer.insert(address(page), waiting(u64::from(page), 60));
        }
        buffer.insert(address(2), waiting(9, 50));
        buffer.remove(address(3));
        buffer.truncate(FileId(2), 6);
        buffer.audit();
        assert_eq!(buffer.used_bytes(), 4 * 96);
        let mut flash_page = vec![0; 300];
        let packed = buffer.pack(&mut flash_page);
        buffer.audit();
        assert_eq!(packed.len(), 3);
        assert!(buffer.get(address(5)).is_some() && !buffer.is_empty());
        let found: Vec<Found<'_>> = differentials_of(&flash_page).collect();
        for ((address, waiting, at), found) in packed.iter().zip(&found) {
            assert_eq!((found.address, found.stamp), (*address, waiting.stamp));
            assert_eq!((found.at, found.record), (*at as usize, &waiting.record[..]));
        }
        assert_eq!(found.len(), 3);
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(0_u8..3, 0..256)) {
            let _ = differentials_of(&bytes).count();
        }
    }
}
