//! SQLite's variable-length integers (sqlite.org, Database File Format, section 1.6).
//!
//! ```text
//!   1xxxxxxx … 0xxxxxxx    seven bits a byte, most significant first; bit 7 says that more follow
//!   the ninth byte gives all eight bits, so nine bytes hold any 64
//! ```

/// Most bytes of a varint.
pub const VARINT_BYTES_MAX: usize = 9;

/// The varint at the start of `bytes` and its length; `None` where it is cut off.
#[inline]
#[must_use]
pub fn read_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((u64::from(first), 1));
    }
    // Lengths of rows and of texts mostly take two bytes.
    match bytes.get(1) {
        Some(&second) if second < 0x80 => {
            Some((u64::from(first & 0x7F) << 7 | u64::from(second), 2))
        }
        _ => read_long(bytes),
    }
}

#[inline(never)]
fn read_long(bytes: &[u8]) -> Option<(u64, usize)> {
    let low = |byte: u8| u64::from(byte & 0x7F);
    match bytes.first_chunk() {
        Some(&[a, b, c, _]) if c < 0x80 => return Some((low(a) << 14 | low(b) << 7 | low(c), 3)),
        Some(&[a, b, c, d]) if d < 0x80 => {
            return Some((low(a) << 21 | low(b) << 14 | low(c) << 7 | low(d), 4));
        }
        _ => {}
    }
    let mut value = 0_u64;
    for (index, &byte) in bytes.iter().take(VARINT_BYTES_MAX).enumerate() {
        if index == VARINT_BYTES_MAX - 1 {
            return Some((value << 8 | u64::from(byte), VARINT_BYTES_MAX));
        }
        value = value << 7 | u64::from(byte & 0x7F);
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

/// How many bytes `value` takes.
#[inline]
#[must_use]
pub const fn varint_bytes(value: u64) -> usize {
    if value >> 56 != 0 {
        return VARINT_BYTES_MAX;
    }
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Writes `value` to the start of `out`, and gives back its length.
///
/// # Panics
/// If `out` is shorter than that.
#[inline]
pub fn write_varint(value: u64, out: &mut [u8]) -> usize {
    let length = varint_bytes(value);
    let mut rest = value;
    let mut end = length;
    if length == VARINT_BYTES_MAX {
        out[VARINT_BYTES_MAX - 1] = value.to_be_bytes()[7];
        rest >>= 8;
        end -= 1;
    }
    for index in (0..end).rev() {
        let more = if index + 1 == length { 0 } else { 0x80 };
        out[index] = rest.to_le_bytes()[0] & 0x7F | more;
        rest >>= 7;
    }
    length
}

/// Appends `value` to `out`.
#[inline]
pub fn push_varint(value: u64, out: &mut Vec<u8>) {
    if value < 0x80 {
        out.push(value.to_le_bytes()[0]);
        return;
    }
    let mut buffer = [0; VARINT_BYTES_MAX];
    let length = write_varint(value, &mut buffer);
    out.extend_from_slice(&buffer[..length]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_change_where_seven_bits_are_full() {
        for length in 1..=8_u32 {
            let first_longer = 1_u64 << (7 * length);
            assert_eq!(varint_bytes(first_longer - 1), length as usize);
            assert_eq!(varint_bytes(first_longer), length as usize + 1);
        }
        assert_eq!(varint_bytes(u64::MAX), 9);
        assert_eq!(varint_bytes(0), 1);
    }

    #[test]
    fn known_encodings() {
        for (value, bytes) in [
            (0x7F, &[0x7F][..]),
            (0x80, &[0x81, 0x00]),
            (0x3FFF, &[0xFF, 0x7F]),
            (0x4000, &[0x81, 0x80, 0x00]),
            (u64::MAX, &[0xFF; 9]),
        ] {
            let mut out = Vec::new();
            push_varint(value, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(read_varint(bytes), Some((value, bytes.len())));
            assert_eq!(read_varint(&bytes[..bytes.len() - 1]), None);
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(shift in 0_u32..64, value: u64) {
            let value = value >> shift;
            let mut out = Vec::new();
            push_varint(value, &mut out);
            prop_assert_eq!(out.len(), varint_bytes(value));
            prop_assert_eq!(read_varint(&out), Some((value, out.len())));
        }
    }
}
