//! Small integers in few bytes: LEB128, seven bits a byte, least significant first; and a reader that
//! never passes the end of its bytes.

/// Longest varint: 64 bits in groups of seven.
const VARINT_BYTES_MAX: u32 = 10;

/// Appends `value`, in as many bytes as it needs.
#[inline]
pub(super) fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value > 0x7F {
        bytes.push((value & 0x7F) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push((value & 0x7F) as u8);
}

/// Appends the length of `content`, then `content`.
#[inline]
pub(super) fn put_length_prefixed(bytes: &mut Vec<u8>, content: &[u8]) {
    put_varint(bytes, content.len() as u64);
    bytes.extend_from_slice(content);
}

/// What is still to be read. Everything is `None` where the bytes do not suffice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for group in 0..VARINT_BYTES_MAX {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            let shifted = bits << (7 * group);
            if shifted >> (7 * group) != bits {
                return None;
            }
            value |= shifted;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub(super) fn u32_le(&mut self) -> Option<u32> {
        let (first, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_le_bytes(*first))
    }

    pub(super) fn u64_le(&mut self) -> Option<u64> {
        let (first, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*first))
    }

    #[inline]
    pub(super) fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    #[inline]
    pub(super) fn length_prefixed(&mut self) -> Option<&'a [u8]> {
        let length = self.varint()?;
        self.take(length)
    }

    pub(super) fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// The bytes from here to `later`, a cursor that went on from this one.
    pub(super) fn until(&self, later: &Self) -> Option<&'a [u8]> {
        self.rest.get(..self.rest.len().checked_sub(later.rest.len())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_come_back_and_those_past_64_bits_are_refused() {
        let values = [0, 1, 127, 128, 16_383, 16_384, u64::MAX >> 1, u64::MAX];
        let mut bytes = Vec::new();
        for value in values {
            put_varint(&mut bytes, value);
        }
        let mut cursor = Cursor::new(&bytes);
        assert!(values.iter().all(|&value| cursor.varint() == Some(value)));
        assert!(cursor.is_empty() && cursor.varint().is_none());
        assert_eq!(Cursor::new(&[0xFF; 10]).varint(), None);
        assert_eq!(Cursor::new(&[0x80; 11]).varint(), None);
        assert_eq!(Cursor::new(&[0x80]).varint(), None);
    }
}
