//! A fragment as it lies on a member: one sector that says what it is, then its bytes.
//!
//! ```text
//!   0        4        8         16        24         25        one sector           slot
//!   │ CRC32C │ magic  │ version │ stripe  │ fragment │ 0 …     │ data               │
//!   └ of all that follows
//! ```
//!
//! 1. A slot of zeros is an intact fragment of version 0: a member that was never written reads as
//!    zeros, and so does every fragment of a block of zeros.

use nandu_device::IoBuffer;
use nandu_ida::checksum;

const MAGIC: [u8; 4] = *b"nafr";
const CHECKSUM_BYTES: usize = 4;
const FIELDS_BYTES: usize = 25;

/// What an intact fragment holds.
#[derive(Clone, Debug)]
pub(super) struct Fragment {
    /// Which write of the stripe it belongs to; 0 before the first.
    pub(super) version: u64,
    /// Its bytes.
    pub(super) data: Vec<u8>,
}

/// The slot of fragment `number` of `stripe`.
pub(super) fn to_slot(
    version: u64,
    stripe: u64,
    number: u8,
    sector_bytes: usize,
    data: &[u8],
) -> IoBuffer {
    let mut slot = IoBuffer::zeroed(sector_bytes + data.len());
    slot[4..8].copy_from_slice(&MAGIC);
    slot[8..16].copy_from_slice(&version.to_le_bytes());
    slot[16..24].copy_from_slice(&stripe.to_le_bytes());
    slot[24] = number;
    slot[sector_bytes..].copy_from_slice(data);
    let sum = checksum(&slot[CHECKSUM_BYTES..]);
    slot[..CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());
    slot
}

/// What a slot holds, if it is intact and in its place.
pub(super) fn from_slot(
    slot: &[u8],
    stripe: u64,
    number: u8,
    sector_bytes: usize,
) -> Option<Fragment> {
    let (head, data) = slot.split_at_checked(sector_bytes)?;
    if slot.iter().all(|&byte| byte == 0) {
        return Some(Fragment { version: 0, data: data.to_vec() });
    }
    let word = |at: usize| head[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    let is_here = head.len() >= FIELDS_BYTES
        && head[..CHECKSUM_BYTES] == checksum(&slot[CHECKSUM_BYTES..]).to_le_bytes()
        && head[4..8] == MAGIC
        && word(16) == Some(stripe)
        && head[24] == number;
    if !is_here {
        return None;
    }
    Some(Fragment { version: word(8)?, data: data.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_flipped_byte_makes_a_fragment_lost() {
        let slot = to_slot(7, 3, 2, 512, &[0xA5; 512]);
        let fragment = from_slot(&slot, 3, 2, 512).unwrap();
        assert_eq!((fragment.version, fragment.data), (7, vec![0xA5; 512]));
        for at in 0..slot.len() {
            let mut wrong = slot.to_vec();
            wrong[at] ^= 0x10;
            assert!(from_slot(&wrong, 3, 2, 512).is_none(), "byte {at}");
        }
        assert!(from_slot(&slot, 4, 2, 512).is_none(), "another stripe's");
        assert!(from_slot(&slot, 3, 1, 512).is_none(), "another fragment");
    }

    #[test]
    fn a_slot_of_zeros_is_the_fragment_before_the_first_write() {
        assert_eq!(from_slot(&[0; 1024], 9, 1, 512).unwrap().version, 0);
    }
}
