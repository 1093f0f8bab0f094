//! A fragment as it lies on a member: one sector that says what it is, then its bytes.
//!
//! ```text
//!   0        4        8        12        14         15   16        24        32     one sector   slot
//!   │ CRC32C │ magic  │ epoch  │ present │ fragment │ *  │ counter │ stripe  │ 0 … │            │ data
//!   └ of all that follows         └ epoch, present, counter: which write it belongs to; * are the
//!                                   members from 16 on that were present
//! ```
//!
//! 1. Two writes never have one [`WriteId`], on whichever members they were and whatever power was
//!    lost between them: fragments of equal ids are of one write, and give back one block.
//! 2. A slot of zeros is no fragment. It says that the member was never written there since it became
//!    a member, which is evidence on a member that is current, and on no other ([`super::record`]).

use nandu_device::IoBuffer;
use nandu_ida::checksum;

const MAGIC: [u8; 4] = *b"nafs";
/// Of a slot whose stripe was lost when its member was rebuilt.
const LOST_MAGIC: [u8; 4] = *b"nalo";
const CHECKSUM_BYTES: usize = 4;
const FIELDS_BYTES: usize = 32;

/// Which write a fragment belongs to. Later writes to a stripe have greater ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WriteId {
    /// The epoch in which the array was opened ([`super::record`]).
    pub(super) epoch: u32,
    /// Which write since then, from 1 on.
    pub(super) counter: u64,
    /// The members that were there, as bits: without one of them in common, two may have opened the
    /// array in one epoch.
    pub(super) present: u32,
}

impl WriteId {
    /// Before the first write of a stripe.
    pub(super) const NEVER: Self = Self { epoch: 0, counter: 0, present: 0 };
}

/// What an intact fragment holds.
#[derive(Clone, Debug)]
pub(super) struct Fragment {
    /// The write that it belongs to.
    pub(super) id: WriteId,
    /// The bytes that the fragment holds, without its header.
    pub(super) data: Vec<u8>,
}

/// The slot of fragment `number` of `stripe`.
pub(super) fn to_slot(
    id: WriteId,
    stripe: u64,
    number: u8,
    sector_bytes: usize,
    data: &[u8],
) -> IoBuffer {
    let mut slot = IoBuffer::zeroed(sector_bytes + data.len());
    slot[4..8].copy_from_slice(&MAGIC);
    slot[8..12].copy_from_slice(&id.epoch.to_le_bytes());
    let [low, middle, high, none] = id.present.to_le_bytes();
    assert_eq!(none, 0, "an array has at most 24 members");
    slot[12..16].copy_from_slice(&[low, middle, number, high]);
    slot[16..24].copy_from_slice(&id.counter.to_le_bytes());
    slot[24..32].copy_from_slice(&stripe.to_le_bytes());
    slot[sector_bytes..].copy_from_slice(data);
    let sum = checksum(&slot[CHECKSUM_BYTES..]);
    slot[..CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());
    slot
}

/// A slot that is neither a fragment nor blank, whatever lay there.
pub(super) fn lost_slot(slot_bytes: usize) -> IoBuffer {
    let mut slot = IoBuffer::zeroed(slot_bytes);
    slot[4..8].copy_from_slice(&LOST_MAGIC);
    slot
}

/// What a slot holds, if it is intact and in its place. What was written before the epoch `created`,
/// in which the array was made, was never written in it.
pub(super) fn from_slot(
    slot: &[u8],
    stripe: u64,
    number: u8,
    sector_bytes: usize,
    created: u32,
) -> Option<Fragment> {
    let (head, data) = slot.split_at_checked(sector_bytes)?;
    let never = || Fragment { id: WriteId::NEVER, data: vec![0; data.len()] };
    if slot.iter().all(|&byte| byte == 0) {
        return Some(never());
    }
    let word = |at: usize| head[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    let is_here = head.len() >= FIELDS_BYTES
        && head[..CHECKSUM_BYTES] == checksum(&slot[CHECKSUM_BYTES..]).to_le_bytes()
        && head[4..8] == MAGIC
        && word(24) == Some(stripe)
        && head[14] == number;
    if !is_here {
        return None;
    }
    let epoch = u32::from_le_bytes(head[8..12].try_into().ok()?);
    let present = u32::from_le_bytes([head[12], head[13], head[15], 0]);
    let id = WriteId { epoch, counter: word(16)?, present };
    if id != WriteId::NEVER && epoch < created {
        return Some(never());
    }
    Some(Fragment { id, data: data.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: WriteId = WriteId { epoch: 5, counter: 7, present: 0x0080_000B };

    #[test]
    fn any_flipped_byte_makes_a_fragment_lost() {
        let slot = to_slot(ID, 3, 2, 512, &[0xA5; 512]);
        let fragment = from_slot(&slot, 3, 2, 512, 5).unwrap();
        assert_eq!((fragment.id, fragment.data), (ID, vec![0xA5; 512]));
        for at in 0..slot.len() {
            let mut wrong = slot.to_vec();
            wrong[at] ^= 0x10;
            assert!(from_slot(&wrong, 3, 2, 512, 5).is_none(), "byte {at}");
        }
        assert!(from_slot(&slot, 4, 2, 512, 5).is_none(), "another stripe's");
        assert!(from_slot(&slot, 3, 1, 512, 5).is_none(), "another fragment");
    }

    #[test]
    fn what_lay_on_a_member_before_the_array_was_made_was_never_written() {
        let slot = to_slot(ID, 3, 2, 512, &[0xA5; 512]);
        let fragment = from_slot(&slot, 3, 2, 512, 6).unwrap();
        assert_eq!((fragment.id, fragment.data), (WriteId::NEVER, vec![0; 512]));
        assert_eq!(from_slot(&[0; 1024], 9, 1, 512, 6).unwrap().id, WriteId::NEVER);
    }

    #[test]
    fn a_slot_that_was_lost_is_no_fragment() {
        assert!(from_slot(&lost_slot(1024), 9, 1, 512, 1).is_none());
    }
}
