//! Numbers out of bytes: decimal integers, and decimals with a fraction as integers of a smaller
//! unit, so that no time passes through a float.
//!
//! 1. Nothing here allocates unless it fails.

/// The field as text for a message, cut where it is long.
pub(crate) fn shown(field: &[u8]) -> String {
    const SHOWN_BYTES: usize = 40;
    let cut = &field[..field.len().min(SHOWN_BYTES)];
    let text = String::from_utf8_lossy(cut).into_owned();
    if cut.len() < field.len() { format!("{text}…") } else { text }
}

/// A decimal integer without sign.
///
/// # Errors
/// Names `what` and says what was found.
#[inline]
pub(crate) fn integer(field: &[u8], what: &str) -> Result<u64, String> {
    // Nineteen digits always fit, so that only longer ones need checked arithmetic.
    const SAFE_DIGITS: usize = 19;
    let mut value = 0_u64;
    if field.is_empty() || field.len() > SAFE_DIGITS {
        return long_integer(field, what);
    }
    let mut rest = field;
    while let Some((eight, tail)) = rest.split_first_chunk::<8>() {
        let Some(number) = eight_digits(*eight) else { return long_integer(field, what) };
        value = value * 100_000_000 + number;
        rest = tail;
    }
    for &byte in rest {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return long_integer(field, what);
        }
        value = value * 10 + u64::from(digit);
    }
    Ok(value)
}

/// Eight digits at once, by pairs of neighbours in one register (Lemire 2022); `None` where a byte is
/// no digit.
#[inline]
const fn eight_digits(bytes: [u8; 8]) -> Option<u64> {
    const NIBBLES: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    let word = u64::from_le_bytes(bytes);
    // Both the byte and the byte plus six have the high nibble of a digit.
    if (word & NIBBLES) | ((word.wrapping_add(0x0606_0606_0606_0606) & NIBBLES) >> 4)
        != 0x3333_3333_3333_3333
    {
        return None;
    }
    let digits = word - ZEROS;
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff)
}

#[cold]
fn long_integer(field: &[u8], what: &str) -> Result<u64, String> {
    if field.is_empty() {
        return Err(format!("{what} is missing"));
    }
    if field[0] == b'-' {
        return Err(format!("{what} `{}` is negative", shown(field)));
    }
    let mut value = 0_u64;
    for &byte in field {
        if !byte.is_ascii_digit() {
            return Err(format!("{what} `{}` is not a whole number", shown(field)));
        }
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(u64::from(byte - b'0')))
            .ok_or_else(|| format!("{what} `{}` is past 2^64", shown(field)))?;
    }
    Ok(value)
}

/// A decimal number, with or without a fraction, counted in units of `1 / unit`: `decimal("1.5",
/// 1000)` is 1500. Digits below the unit are cut off.
///
/// # Errors
/// Names `what` and says what was found.
#[inline]
pub(crate) fn decimal(field: &[u8], unit: u64, what: &str) -> Result<u64, String> {
    let point = field.iter().position(|&byte| byte == b'.').unwrap_or(field.len());
    let (whole, fraction) = field.split_at(point);
    if whole.is_empty() && fraction.len() < 2 {
        return Err(format!("{what} `{}` is not a number", shown(field)));
    }
    let whole = if whole.is_empty() { 0 } else { integer(whole, what)? };
    let mut value =
        whole.checked_mul(unit).ok_or_else(|| format!("{what} `{}` is too large", shown(field)))?;
    let mut weight = unit;
    for &byte in fraction.get(1..).unwrap_or_default() {
        if !byte.is_ascii_digit() {
            return Err(format!("{what} `{}` is not a number", shown(field)));
        }
        weight /= 10;
        value = value
            .checked_add(u64::from(byte - b'0') * weight)
            .ok_or_else(|| format!("{what} `{}` is too large", shown(field)))?;
    }
    Ok(value)
}

/// Bytes of `count` units.
///
/// # Errors
/// Names `what` where the product passes 2^64.
#[inline]
pub(crate) fn scaled(count: u64, unit: u64, what: &str) -> Result<u64, String> {
    count.checked_mul(unit).ok_or_else(|| format!("{what} {count} in units of {unit} is past 2^64"))
}

/// Splits a line at `separator` into exactly `N` fields; the last one takes no separator, unless
/// `open_ended`, where what follows the first `N` is left out.
///
/// # Errors
/// Says how many fields were expected and found.
#[inline]
pub(crate) fn split<const N: usize>(
    line: &[u8],
    separator: u8,
    open_ended: bool,
) -> Result<[&[u8]; N], String> {
    let mut fields: [&[u8]; N] = [&[]; N];
    let mut start = 0;
    let mut count = 0;
    for position in memchr::memchr_iter(separator, line) {
        if count == N {
            break;
        }
        fields[count] = trim(&line[start..position]);
        count += 1;
        start = position + 1;
        if count == N {
            if open_ended {
                return Ok(fields);
            }
            break;
        }
    }
    if count + 1 == N {
        fields[count] = trim(&line[start..]);
        return Ok(fields);
    }
    let name = char::from(separator);
    let found = 1 + line.iter().filter(|&&byte| byte == separator).count();
    let least = if open_ended { "at least " } else { "" };
    Err(format!("expected {least}{N} fields between `{name}`, found {found}"))
}

/// The fields of a line that are separated by blanks and tabs.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b' ' || byte == b'\t').filter(|word| !word.is_empty())
}

/// Exactly `N` words, or at least `N` if `open_ended`.
///
/// # Errors
/// Says how many fields were expected and found.
#[inline]
pub(crate) fn split_words<const N: usize>(
    line: &[u8],
    open_ended: bool,
) -> Result<[&[u8]; N], String> {
    let mut fields: [&[u8]; N] = [&[]; N];
    let mut found = 0;
    for word in words(line) {
        if found < N {
            fields[found] = word;
        }
        found += 1;
        if open_ended && found == N {
            break;
        }
    }
    if found == N {
        return Ok(fields);
    }
    let least = if open_ended { "at least " } else { "" };
    Err(format!("expected {least}{N} fields between blanks, found {found}"))
}

/// Without blanks around it.
#[inline]
pub(crate) fn trim(mut field: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\r', rest @ ..] = field {
        field = rest;
    }
    while let [rest @ .., b' ' | b'\t' | b'\r'] = field {
        field = rest;
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_to_the_last_value_and_refused_past_it() {
        assert_eq!(integer(b"0", "size"), Ok(0));
        assert_eq!(integer(b"18446744073709551615", "size"), Ok(u64::MAX));
        assert_eq!(
            integer(b"18446744073709551616", "size").unwrap_err(),
            "size `18446744073709551616` is past 2^64"
        );
        assert_eq!(integer(b"-1", "size").unwrap_err(), "size `-1` is negative");
        assert_eq!(integer(b"", "size").unwrap_err(), "size is missing");
        assert!(integer(b"1x", "size").is_err());
    }

    #[test]
    fn eight_digits_at_once_are_those_one_by_one() {
        for number in (0_u64..100_000_000).step_by(99_991) {
            let text = format!("{number:08}");
            assert_eq!(integer(text.as_bytes(), "n"), Ok(number), "{text}");
            for position in 0..8 {
                for wrong in [b'/', b':', b'a', 0, 0xff, b'0' ^ 0x80] {
                    let mut bytes = text.clone().into_bytes();
                    bytes[position] = wrong;
                    assert!(integer(&bytes, "n").is_err(), "{text} {position} {wrong}");
                }
            }
        }
        assert_eq!(integer(b"1234567890123456789", "n"), Ok(1_234_567_890_123_456_789));
    }

    #[test]
    fn decimals_keep_every_digit_of_the_unit() {
        assert_eq!(decimal(b"1456095145.133076001", 1_000_000_000, "t"), Ok(1456095145133076001));
        assert_eq!(decimal(b"0.5", 1_000, "t"), Ok(500));
        assert_eq!(decimal(b".25", 1_000, "t"), Ok(250));
        assert_eq!(decimal(b"7", 1_000, "t"), Ok(7_000));
        assert_eq!(decimal(b"7.", 1_000, "t"), Ok(7_000));
        assert_eq!(decimal(b"1.9999", 1_000, "t"), Ok(1_999));
        for text in [&b"."[..], b"", b"-0.5", b"1.-5", b"1e9", b"99999999999999999999"] {
            assert!(decimal(text, 1_000, "t").is_err(), "{}", shown(text));
        }
    }

    #[test]
    fn a_line_splits_into_exactly_the_fields_it_must_have() {
        assert_eq!(split::<3>(b"a, b,c\r", b',', false).unwrap(), [b"a", b"b", b"c"]);
        assert_eq!(split::<2>(b"a,b,c", b',', true).unwrap(), [b"a", b"b"]);
        assert!(split::<2>(b"a,b,c", b',', false).unwrap_err().ends_with("found 3"));
        assert!(split::<4>(b"a,b,c", b',', true).is_err());
        assert_eq!(split_words::<2>(b" a\t b", false).unwrap(), [b"a", b"b"]);
        assert!(split_words::<1>(b"a b", false).is_err());
    }
}
