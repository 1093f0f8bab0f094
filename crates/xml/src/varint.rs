//! Numbers of few bytes: seven bits a byte, the lowest first; the highest bit says that more
//! follow.

/// Appends a number.
#[inline]
pub(crate) fn put(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push((number & 0x7F) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push((number & 0x7F) as u8);
}

/// Takes a number from the front; `None` where there is none.
#[inline]
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7F);
        if shift > 63 || (shift == 63 && part > 1) {
            return None;
        }
        number |= part << shift;
        if byte < 0x80 {
            return Some(number);
        }
        shift += 7;
    }
}

/// Appends bytes after their number.
pub(crate) fn put_bytes(part: &[u8], bytes: &mut Vec<u8>) {
    put(part.len() as u64, bytes);
    bytes.extend_from_slice(part);
}

/// Takes bytes after their number.
#[inline]
pub(crate) fn take_bytes<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let count = usize::try_from(take(bytes)?).ok()?;
    let (part, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_have_the_bytes_that_were_said() {
        let numbers = [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (u64::MAX, 10)];
        for (number, byte_count) in numbers {
            let mut bytes = Vec::new();
            put(number, &mut bytes);
            assert_eq!(bytes.len(), byte_count, "{number}");
            let mut rest = &bytes[..];
            assert_eq!((take(&mut rest), rest.len()), (Some(number), 0));
        }
        assert_eq!(take(&mut &[0x80, 0x80][..]), None);
        assert_eq!(take(&mut &[0xFF; 11][..]), None);
        assert_eq!(take_bytes(&mut &[3, 1, 2][..]), None);
    }
}
