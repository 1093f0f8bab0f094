//! Lines cut into fields, and numbers of nodes.

use nandu_trace::lines::{LINE_BYTES_MAX, Line, LineReader};

/// So much of what is wrong is shown.
const SHOWN_BYTES_MAX: usize = 40;

/// The next line; `None` at the end.
pub(super) fn next_line(lines: &mut LineReader) -> Result<Option<&[u8]>, String> {
    match lines.next_line() {
        Line::Text(line) => Ok(Some(line)),
        Line::TooLong => Err(format!(
            "the line is longer than {} KiB; a line has one edge, so this may be another format",
            LINE_BYTES_MAX >> 10
        )),
        Line::Broken(what) => Err(what),
        Line::End => Ok(None),
    }
}

/// The fields of a line: spaces, tabs and commas stand between them. What follows `#` or `%` is a
/// comment where a field may begin.
pub(super) fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let parts = line.split(|byte| b" \t,".contains(byte)).filter(|part| !part.is_empty());
    parts.take_while(|part| !is_comment(part))
}

fn is_comment(part: &[u8]) -> bool {
    matches!(part.first(), Some(b'#' | b'%'))
}

/// A number without a sign.
pub(super) fn number(field: &[u8]) -> Result<u64, String> {
    let mut value = 0_u64;
    for &byte in field {
        if !byte.is_ascii_digit() {
            return Err(format!(
                "{} is no number of a node; these are 0, 1, 2 and so on",
                shown(field)
            ));
        }
        let digit = u64::from(byte - b'0');
        let longer = value.checked_mul(10).and_then(|value| value.checked_add(digit));
        value = longer
            .ok_or_else(|| format!("{} is too large; a number is below 2^64", shown(field)))?;
    }
    Ok(value)
}

/// A field for people, cut where it is long.
pub(super) fn shown(field: &[u8]) -> String {
    let cut = &field[..field.len().min(SHOWN_BYTES_MAX)];
    let more = if cut.len() < field.len() { "…" } else { "" };
    format!("`{}{more}`", String::from_utf8_lossy(cut).escape_debug())
}
