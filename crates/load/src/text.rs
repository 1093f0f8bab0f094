//! Numbers from text, and text for messages.

use nandu_base::words::visible;

/// An amount with two digits after the point, as TPC-H writes them: the double nearest to it.
pub(crate) fn parse_decimal(field: &[u8]) -> f64 {
    let mut hundredths: i64 = 0;
    let (is_negative, digits) = match field.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, field),
    };
    for &digit in digits.iter().filter(|&&byte| byte != b'.') {
        hundredths = hundredths * 10 + i64::from(digit - b'0');
    }
    #[expect(clippy::cast_precision_loss, reason = "amounts are below 2^53 hundredths")]
    let amount = hundredths as f64 / 100.0;
    if is_negative { -amount } else { amount }
}

/// The beginning of a field, for messages: without control characters.
pub(crate) fn shorten(field: &[u8]) -> String {
    const CHARACTERS: usize = 40;
    let text = String::from_utf8_lossy(field);
    match text.char_indices().nth(CHARACTERS) {
        None => visible(&text).into_owned(),
        Some((end, _)) => format!("{}…", visible(&text[..end])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_the_nearest_doubles() {
        for text in ["0.00", "12.34", "-999.99", "-0.05", "104949.50", "9999999999.99"] {
            assert_eq!(parse_decimal(text.as_bytes()), text.parse::<f64>().unwrap());
        }
    }
}
