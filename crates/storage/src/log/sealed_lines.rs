//! A block of bytes in sectors that are shorter than it, lines of a memory: a power cut may keep any of them
//! and lose the others, so each says of which write it is.
//!
//! ```text
//!   line  │ payload │ sequence u64 │ CRC-32C of the whole block u32 │ CRC-32C of payload, seal, place u32 │
//! ```
//!
//! 1. Lines of one write have the same sequence and sum of the block. Sealed lines of two writes are what a
//!    power cut leaves of the later one; a line whose own sum is wrong is damaged, which no cut does.

use nandu_base::to_u32;

/// Bytes of a seal.
const SEAL_BYTES: usize = 16;

/// What is found where a block was written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lines {
    /// The block, filled up with zeros.
    Whole(Vec<u8>),
    /// Nothing was ever written there.
    Empty,
    /// A write that did not come to its end, over an earlier one or none.
    Torn,
    Damaged,
}

/// Bytes of all lines of a block.
pub(super) const fn sealed_bytes(block_bytes: usize, line_bytes: usize) -> usize {
    block_bytes.div_ceil(line_bytes - SEAL_BYTES) * line_bytes
}

/// The lines of a block.
pub(super) fn seal(block: &[u8], sequence: u64, line_bytes: usize) -> Vec<u8> {
    let block_sum = crc32c::crc32c(block);
    let payload_bytes = line_bytes - SEAL_BYTES;
    let mut lines = Vec::with_capacity(sealed_bytes(block.len(), line_bytes));
    for (place, payload) in block.chunks(payload_bytes).enumerate() {
        let start = lines.len();
        lines.extend_from_slice(payload);
        lines.resize(start + payload_bytes, 0);
        lines.extend_from_slice(&sequence.to_le_bytes());
        lines.extend_from_slice(&block_sum.to_le_bytes());
        let sum = line_sum(&lines[start..], place);
        lines.extend_from_slice(&sum.to_le_bytes());
    }
    lines
}

/// Reads the block of `block_bytes` whose lines these are.
pub(super) fn open(lines: &[u8], block_bytes: usize, line_bytes: usize) -> Lines {
    let mut block = Vec::new();
    let mut first = None;
    let (mut is_torn, mut empty_count) = (false, 0);
    let lines = lines.chunks_exact(line_bytes);
    let line_count = lines.len();
    for (place, line) in lines.enumerate() {
        if line.iter().all(|&byte| byte == 0) {
            empty_count += 1;
            continue;
        }
        let (sealed, sum) = line.split_at(line_bytes - 4);
        if sum != line_sum(sealed, place).to_le_bytes() {
            return Lines::Damaged;
        }
        let (payload, write) = sealed.split_at(line_bytes - SEAL_BYTES);
        is_torn |= *first.get_or_insert(write) != write;
        block.extend_from_slice(payload);
    }
    let Some(write) = first else { return Lines::Empty };
    if is_torn || empty_count > 0 {
        return Lines::Torn;
    }
    assert_eq!(block.len(), line_count * (line_bytes - SEAL_BYTES), "no line was passed over");
    block.truncate(block_bytes);
    match write[8..] == crc32c::crc32c(&block).to_le_bytes() {
        true => Lines::Whole(block),
        false => Lines::Damaged,
    }
}

fn line_sum(sealed: &[u8], place: usize) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(sealed), &to_u32(place as u64).to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(fill: u8) -> Vec<u8> {
        (0..93).map(|index| index ^ fill).collect()
    }

    #[test]
    fn a_block_is_read_back_from_lines_of_any_length() {
        for line_bytes in [64, 128, 256] {
            let lines = seal(&block(7), 3, line_bytes);
            assert_eq!(lines.len(), sealed_bytes(93, line_bytes));
            assert_eq!(open(&lines, 93, line_bytes), Lines::Whole(block(7)));
            assert_eq!(open(&vec![0; lines.len()], 93, line_bytes), Lines::Empty);
        }
    }

    #[test]
    fn lines_of_two_writes_are_torn_and_a_flipped_bit_is_damage() {
        let (earlier, later) = (seal(&block(1), 3, 64), seal(&block(2), 5, 64));
        let same_number = seal(&block(3), 5, 64);
        for other in [&earlier, &same_number] {
            let mixed = [&later[..64], &other[64..]].concat();
            assert_eq!(open(&mixed, 93, 64), Lines::Torn);
        }
        assert_eq!(open(&[&later[..64], &[0; 64]].concat(), 93, 64), Lines::Torn);
        for bit in 0..8 * later.len() {
            let mut flipped = later.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(&flipped, 93, 64), Lines::Damaged, "bit {bit}");
        }
        // Both lines are sound, and each stands in the other's place.
        assert_eq!(open(&[&later[64..], &later[..64]].concat(), 93, 64), Lines::Damaged);
    }
}
