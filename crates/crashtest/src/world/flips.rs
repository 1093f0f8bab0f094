//! Bits that are not as they were written: what a medium does on its own, and says nothing of.
//!
//! ```text
//!   write ─► sector is known, and whole again      flip ─► mask of a bit in a known sector
//!   read ──► sectors of the device, with the masks laid over them
//! ```
//!
//! 1. Only sectors that were written lose bits, and a sector that is written again is as written.
//! 2. A forged flip of a page's bit changes the page's checksum along with it. That takes no more than
//!    the place of the bit: CRCs are linear, so what a flip does to one does not depend on the page.

use nandu_base::{Rng, to_index};
use nandu_device::{Completion, Operation, Request};
use std::collections::{BTreeMap, BTreeSet};

/// Which bits are read wrong.
#[derive(Debug)]
pub(super) struct Flips {
    sector_bytes: u32,
    written: BTreeSet<u64>,
    /// Masks by sector, each with its place in it.
    masks: BTreeMap<u64, Vec<(usize, u8)>>,
    /// First sectors of the reads in flight, by request.
    reads: BTreeMap<u64, u64>,
}

impl Flips {
    pub(super) fn new(sector_bytes: u32) -> Self {
        let (written, masks, reads) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        Self { sector_bytes, written, masks, reads }
    }

    /// A request that the device took.
    pub(super) fn note(&mut self, id: u64, operation: Operation, first_sector: u64, count: u32) {
        let sectors = first_sector..first_sector + u64::from(count);
        match operation {
            Operation::Write => {
                self.masks.retain(|sector, _| !sectors.contains(sector));
                self.written.extend(sectors);
            }
            Operation::Trim => {
                self.masks.retain(|sector, _| !sectors.contains(sector));
                let gone: Vec<u64> = self.written.range(sectors).copied().collect();
                for sector in gone {
                    self.written.remove(&sector);
                }
            }
            Operation::Read => {
                self.reads.insert(id, first_sector);
            }
            Operation::Flush => {}
        }
    }

    /// What a read brings is what was written, but for the bits that flipped.
    pub(super) fn lay_over(&mut self, completion: &mut Completion) {
        let Some(first) = self.reads.remove(&completion.id) else { return };
        let Some(buffer) = &mut completion.buffer else { return };
        let sector_bytes = to_index(u64::from(self.sector_bytes));
        let end = first + (buffer.len() / sector_bytes) as u64;
        for (sector, masks) in self.masks.range(first..end) {
            let start = to_index(sector - first) * sector_bytes;
            for &(at, mask) in masks {
                buffer[start + at] ^= mask;
            }
        }
    }

    /// Flips a bit of some sector from `first_sector` on that was written; false if there is none.
    /// With `forged_page_bytes` the bit is one of a page of so many bytes, behind its checksum.
    pub(super) fn flip(
        &mut self,
        rng: &mut Rng,
        first_sector: u64,
        forged_page_bytes: Option<u32>,
    ) -> bool {
        let known = self.written.range(first_sector..);
        let count = known.clone().count() as u64;
        if count == 0 {
            return false;
        }
        let mut known = known.skip(to_index(rng.below(count)));
        let sector = *known.next().expect("there are so many");
        let sector_bytes = u64::from(self.sector_bytes);
        let byte = sector * sector_bytes + rng.below(sector_bytes);
        let mask = 1 << rng.below(8);
        self.lay(byte, mask);
        if let Some(page_bytes) = forged_page_bytes {
            self.forge(byte, mask, u64::from(page_bytes));
        }
        true
    }

    /// Makes the checksum at the end of the page of `byte` fit again.
    fn forge(&mut self, byte: u64, mask: u8, page_bytes: u64) {
        let start = byte - byte % page_bytes;
        let sum_at = page_bytes - 4;
        if byte - start >= sum_at {
            return;
        }
        let mut body = vec![0; to_index(sum_at)];
        let unchanged = crc32c::crc32c(&body);
        body[to_index(byte - start)] = mask;
        let change = crc32c::crc32c(&body) ^ unchanged;
        for (at, mask) in (start + sum_at..).zip(change.to_be_bytes()) {
            self.lay(at, mask);
        }
    }

    fn lay(&mut self, byte: u64, mask: u8) {
        let sector_bytes = u64::from(self.sector_bytes);
        let at = to_index(byte % sector_bytes);
        self.masks.entry(byte / sector_bytes).or_default().push((at, mask));
    }
}

/// What of a request counts here, before the device takes it.
pub(super) const fn parts(request: &Request) -> (u64, Operation, u64, u32) {
    (request.id, request.operation, request.first_sector.0, request.sector_count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Nanos;
    use nandu_device::IoBuffer;

    const SECTOR_BYTES: u32 = 512;

    fn read(flips: &mut Flips, first_sector: u64, bytes: &[u8]) -> Vec<u8> {
        let count = u32::try_from(bytes.len()).unwrap() / SECTOR_BYTES;
        flips.note(1, Operation::Read, first_sector, count);
        let mut completion = Completion {
            id: 1,
            operation: Operation::Read,
            issued_at: Nanos(0),
            completed_at: Nanos(0),
            result: Ok(()),
            buffer: Some(IoBuffer::copy_of(bytes)),
        };
        flips.lay_over(&mut completion);
        completion.buffer.unwrap().to_vec()
    }

    #[test]
    fn a_bit_of_a_written_sector_flips_until_the_sector_is_written_again() {
        let (mut flips, mut rng) = (Flips::new(SECTOR_BYTES), Rng::new(1));
        assert!(!flips.flip(&mut rng, 0, None), "nothing was written");
        flips.note(9, Operation::Write, 4, 2);
        assert!(!flips.flip(&mut rng, 6, None), "nothing was written from there on");
        assert!(flips.flip(&mut rng, 0, None));
        let zeros = [0; 2048];
        let found = read(&mut flips, 3, &zeros);
        assert_eq!(found.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
        assert!(found[..512].iter().chain(&found[1536..]).all(|&byte| byte == 0));
        flips.note(9, Operation::Write, 4, 2);
        assert_eq!(read(&mut flips, 3, &zeros), zeros);
    }

    #[test]
    fn a_forged_flip_leaves_the_page_with_a_checksum_that_fits() {
        let mut rng = Rng::new(2);
        for _ in 0..50 {
            let mut flips = Flips::new(SECTOR_BYTES);
            flips.note(9, Operation::Write, 4, 4);
            assert!(flips.flip(&mut rng, 0, Some(2048)));
            let mut page = vec![0; 2048];
            rng.fill(&mut page);
            let sum = crc32c::crc32c_append(77, &page[..2044]);
            page[2044..].copy_from_slice(&sum.to_be_bytes());
            let found = read(&mut flips, 4, &page);
            assert_ne!(found, page);
            let in_sum = found[..2044] == page[..2044];
            let sum = crc32c::crc32c_append(77, &found[..2044]);
            assert!(in_sum || found[2044..] == sum.to_be_bytes());
        }
    }
}
