//! Containers that take fewer bytes: the switch of a document, and what its entries then hold.
//!
//! ```text
//!   none   records                                    the value of the entry is the container
//!   lz4    00 │ records                               where packing would not make it smaller
//!          01 │ bytes of the records: varint │ a block of LZ4
//! ```
//!
//! 1. No stored number has memory taken for more than [`RECORD_BYTES_MAX`] bytes.

use crate::varint;
use serde::{Deserialize, Serialize};

/// The most bytes of records in one container, packed or not: the length of a value in it has two bytes.
pub(crate) const RECORD_BYTES_MAX: usize = (16 << 10) - 1;

const PLAIN: u8 = 0;
const PACKED: u8 = 1;

/// Whether the containers of a document are packed, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// They are as they are.
    #[default]
    None,
    /// Each is a block of LZ4, where that makes it smaller.
    Lz4,
}

/// How large containers are, as records and as values of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CompressionStat {
    /// Bytes of all records.
    pub record_bytes: u64,
    /// Bytes of the values that hold them.
    pub stored_bytes: u64,
    /// How many containers are packed.
    pub packed_count: u64,
}

impl Compression {
    /// All kinds, by their codes.
    pub const ALL: [Self; 2] = [Self::None, Self::Lz4];

    /// Its name in reports.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
        }
    }

    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// The value of the entry that holds these records; `packed` is a place for it.
    pub(crate) fn pack<'p>(self, records: &'p [u8], packed: &'p mut Vec<u8>) -> &'p [u8] {
        if self == Self::None {
            return records;
        }
        packed.clear();
        packed.push(PACKED);
        varint::put(records.len() as u64, packed);
        let head_bytes = packed.len();
        packed.resize(head_bytes + lz4_flex::block::get_maximum_output_size(records.len()), 0);
        let block_bytes = lz4_flex::block::compress_into(records, &mut packed[head_bytes..]);
        match block_bytes.map(|block_bytes| head_bytes + block_bytes) {
            Ok(byte_count) if byte_count <= records.len() => packed.truncate(byte_count),
            _ => {
                packed.clear();
                packed.push(PLAIN);
                packed.extend_from_slice(records);
            }
        }
        packed
    }

    /// The records that the value of an entry holds; `unpacked` is a place for them. Says what is wrong
    /// with it.
    #[inline]
    pub(crate) fn unpack<'p>(
        self,
        value: &'p [u8],
        unpacked: &'p mut Vec<u8>,
    ) -> Result<&'p [u8], &'static str> {
        if self == Self::None {
            return Ok(value);
        }
        let Head { is_packed, byte_count, rest } = Head::of(value)?;
        if !is_packed {
            return Ok(rest);
        }
        unpacked.resize(byte_count, 0);
        match lz4_flex::block::decompress_into(rest, unpacked) {
            Ok(found) if found == byte_count => Ok(unpacked),
            _ => Err("a packed container cannot be unpacked"),
        }
    }

    /// Counts the value of an entry. Says what is wrong with it.
    pub(crate) fn count(
        self,
        value: &[u8],
        stat: &mut CompressionStat,
    ) -> Result<(), &'static str> {
        let (mut is_packed, mut byte_count) = (false, value.len());
        if self != Self::None {
            Head { is_packed, byte_count, .. } = Head::of(value)?;
        }
        stat.record_bytes += byte_count as u64;
        stat.stored_bytes += value.len() as u64;
        stat.packed_count += u64::from(is_packed);
        Ok(())
    }
}

/// The beginning of the value of an entry.
struct Head<'v> {
    is_packed: bool,
    /// Of the records.
    byte_count: usize,
    rest: &'v [u8],
}

impl<'v> Head<'v> {
    /// Says what is wrong with it.
    #[inline]
    fn of(value: &'v [u8]) -> Result<Self, &'static str> {
        let (is_packed, byte_count, rest) = match value.split_first() {
            Some((&PLAIN, records)) => (false, records.len(), records),
            Some((&PACKED, mut rest)) => {
                let byte_count = varint::take(&mut rest).and_then(|it| usize::try_from(it).ok());
                (true, byte_count.ok_or("a packed container does not say its bytes")?, rest)
            }
            _ => return Err("whether a container is packed is not known"),
        };
        if byte_count > RECORD_BYTES_MAX {
            return Err("a container has more bytes than any may have");
        }
        Ok(Self { is_packed, byte_count, rest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_have_their_bytes_for_ever() {
        let mut packed = Vec::new();
        assert_eq!(Compression::None.pack(b"abc", &mut packed), b"abc");
        assert_eq!(Compression::Lz4.pack(b"abc", &mut packed), b"\0abc");
        // A block of LZ4 as its format has it: a letter, which is repeated, and the last five.
        let block = [0x1F, b'a', 1, 0, 26 - 1, 0x50, b'a', b'a', b'a', b'a', b'a'];
        let value = [&[1, 50][..], &block].concat();
        let mut unpacked = Vec::new();
        assert_eq!(Compression::Lz4.unpack(&value, &mut unpacked), Ok(&[b'a'; 50][..]));
    }

    #[test]
    fn records_come_back_and_damage_is_told_without_memory_for_it() {
        let texts = [Vec::new(), b"abc".to_vec(), vec![b'x'; 900], (0..=255).collect()];
        for records in texts {
            let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
            let value = Compression::Lz4.pack(&records, &mut packed).to_vec();
            assert!(value.len() <= records.len() + 1);
            assert_eq!(Compression::Lz4.unpack(&value, &mut unpacked), Ok(&records[..]));
            let mut stat = CompressionStat::default();
            Compression::Lz4.count(&value, &mut stat).unwrap();
            assert_eq!(
                (stat.record_bytes, stat.packed_count > 0),
                (records.len() as u64, records.len() == 900)
            );
            for at in 0..value.len() {
                for flip in [1, 0x40, 0x80, 0xFF] {
                    let mut broken = value.clone();
                    broken[at] ^= flip;
                    let _ = Compression::Lz4.unpack(&broken, &mut unpacked);
                    let _ = Compression::Lz4.unpack(&broken[..at], &mut unpacked);
                    assert!(unpacked.capacity() <= 2 * RECORD_BYTES_MAX);
                }
            }
        }
        let (huge, mut unpacked) =
            ([1, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0x1F, b'a', 1, 0], Vec::new());
        let said = Compression::Lz4.unpack(&huge, &mut unpacked).unwrap_err();
        assert!(said.contains("more bytes") && unpacked.capacity() == 0);
        for value in [&[][..], &[2, 0], &[1], &[1, 0x80]] {
            assert!(Compression::Lz4.unpack(value, &mut unpacked).is_err(), "{value:?}");
        }
    }
}
