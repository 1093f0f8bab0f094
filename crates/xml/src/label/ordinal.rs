//! Ordinals: signed numbers as one to five bytes that compare as the numbers do, and of which none
//! begins as another does.
//!
//! ```text
//!   first byte  00 01 │ 02  03  04..06  07..26  27..36 │ 37..B6  B7..F6  F7..FA  FB FC   FD │ FE FF
//!   bytes       no    │ 5   4   3       2       1      │ 1       2       3       4       5  │ no
//!   numbers           │ … ..-204,817 -8,209 -17 ..-1   │ 0..     128..   16,512.. 278,656.. │
//! ```
//!
//! Small numbers from 0 on are the shortest, since children are numbered from there; numbers below
//! 0 are for what comes before the first. Four first bytes are no ordinals' and mark other things
//! in a label.

/// What a first byte says: from which one on, how many bytes follow, the smallest number.
struct Class {
    first_byte: u8,
    more_bytes: u8,
    smallest: i64,
}

const fn class(first_byte: u8, more_bytes: u8, smallest: i64) -> Class {
    Class { first_byte, more_bytes, smallest }
}

/// In the order of numbers; the last one begins where there are no numbers any more.
const CLASSES: [Class; 11] = [
    class(0x02, 4, ORDINAL_MIN),
    class(0x03, 3, -16 - (32 << 8) - (3 << 16) - (1 << 24)),
    class(0x04, 2, -16 - (32 << 8) - (3 << 16)),
    class(0x07, 1, -16 - (32 << 8)),
    class(0x27, 0, -16),
    class(0x37, 0, 0),
    class(0xB7, 1, 128),
    class(0xF7, 2, 128 + (64 << 8)),
    class(0xFB, 3, 128 + (64 << 8) + (4 << 16)),
    class(0xFD, 4, 128 + (64 << 8) + (4 << 16) + (2 << 24)),
    class(0xFE, 0, ORDINAL_MAX + 1),
];

/// The smallest number that there is.
pub const ORDINAL_MIN: i64 = -16 - (32 << 8) - (3 << 16) - (1 << 24) - (1 << 32);
/// The largest number that there is.
pub const ORDINAL_MAX: i64 = 128 + (64 << 8) + (4 << 16) + (2 << 24) + (1 << 32) - 1;
/// How many bytes an ordinal has at most.
pub const ORDINAL_BYTES_MAX: usize = 5;

/// Appends a number from [`ORDINAL_MIN`] to [`ORDINAL_MAX`].
#[inline]
pub(crate) fn encode(number: i64, bytes: &mut Vec<u8>) {
    if let Ok(small @ 0..128) = u8::try_from(number) {
        bytes.push(CLASSES[5].first_byte + small);
        return;
    }
    encode_long(number, bytes);
}

fn encode_long(number: i64, bytes: &mut Vec<u8>) {
    assert!((ORDINAL_MIN..=ORDINAL_MAX).contains(&number), "{number} is no ordinal");
    let next = CLASSES.iter().position(|class| class.smallest > number).expect("the last one is");
    let Class { first_byte, more_bytes, smallest } = CLASSES[next - 1];
    // The bytes after the first one and what is to be added to it, as one number.
    let offset = (number - smallest).cast_unsigned() + (u64::from(first_byte) << (8 * more_bytes));
    bytes.extend_from_slice(&offset.to_be_bytes()[7 - usize::from(more_bytes)..]);
}

/// How many bytes an ordinal has that begins with this one; `None` if none does.
#[inline]
pub(crate) fn byte_count(first_byte: u8) -> Option<usize> {
    Some(match first_byte {
        0x27..=0xB6 => 1,
        0x07..=0x26 | 0xB7..=0xF6 => 2,
        0x04..=0x06 | 0xF7..=0xFA => 3,
        0x03 | 0xFB | 0xFC => 4,
        0x02 | 0xFD => 5,
        0x00 | 0x01 | 0xFE | 0xFF => return None,
    })
}

/// The ordinal at the front, and how many bytes it has; `None` if there is none.
#[inline]
pub(crate) fn decode(bytes: &[u8]) -> Option<(i64, usize)> {
    let first = *bytes.first()?;
    let byte_count = byte_count(first)?;
    let own = bytes.get(..byte_count)?;
    let class = CLASSES.iter().rev().find(|class| class.first_byte <= first)?;
    let high = u64::from(first - class.first_byte);
    let offset = own[1..].iter().fold(high, |high, &byte| high << 8 | u64::from(byte));
    Some((class.smallest + offset.cast_signed(), byte_count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(number: i64) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(number, &mut bytes);
        bytes
    }

    #[test]
    fn numbers_at_the_edges_of_classes_have_their_bytes_for_ever() {
        for (number, bytes) in [
            (ORDINAL_MIN, &[0x02, 0, 0, 0, 0][..]),
            (-16_982_033, &[0x02, 0xFF, 0xFF, 0xFF, 0xFF]),
            (-16_982_032, &[0x03, 0, 0, 0]),
            (-204_817, &[0x03, 0xFF, 0xFF, 0xFF]),
            (-204_816, &[0x04, 0, 0]),
            (-8209, &[0x06, 0xFF, 0xFF]),
            (-8208, &[0x07, 0]),
            (-17, &[0x26, 0xFF]),
            (-16, &[0x27]),
            (-1, &[0x36]),
            (0, &[0x37]),
            (127, &[0xB6]),
            (128, &[0xB7, 0]),
            (16_511, &[0xF6, 0xFF]),
            (16_512, &[0xF7, 0, 0]),
            (278_655, &[0xFA, 0xFF, 0xFF]),
            (278_656, &[0xFB, 0, 0, 0]),
            (33_833_087, &[0xFC, 0xFF, 0xFF, 0xFF]),
            (33_833_088, &[0xFD, 0, 0, 0, 0]),
            (ORDINAL_MAX, &[0xFD, 0xFF, 0xFF, 0xFF, 0xFF]),
        ] {
            assert_eq!(bytes_of(number), bytes, "{number}");
            assert_eq!(decode(bytes), Some((number, bytes.len())));
        }
    }

    #[test]
    fn bytes_compare_as_numbers_do() {
        let edges = CLASSES.iter().flat_map(|class| class.smallest - 300..class.smallest + 300);
        let mut numbers: Vec<i64> =
            edges.filter(|number| (ORDINAL_MIN..=ORDINAL_MAX).contains(number)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for pair in numbers.windows(2) {
            let [one, other] = [bytes_of(pair[0]), bytes_of(pair[1])];
            assert!(one < other && !other.starts_with(&one), "{pair:?}");
        }
    }

    #[test]
    fn what_is_no_ordinal_is_told() {
        for bytes in [&[][..], &[0], &[1], &[0xFE, 1], &[0xFF], &[0xB7], &[0xFD, 1, 2, 3]] {
            assert_eq!(decode(bytes), None, "{bytes:?}");
        }
    }
}
