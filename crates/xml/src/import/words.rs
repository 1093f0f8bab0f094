//! Characters and names of XML 1.0 (fifth edition), as far as its parser leaves them unchecked.

/// Whether all characters of a text are allowed.
#[inline]
pub(super) fn is_text(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut has_control = false;
    let mut has_last = false;
    for &byte in bytes {
        has_control |= byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r');
        has_last |= byte == 0xEF;
    }
    !has_control
        && (!has_last || !text.chars().any(|letter| matches!(letter, '\u{FFFE}' | '\u{FFFF}')))
}

/// Why a text is none.
pub(super) const NO_CHARACTER: &str = "a character is none that XML allows";

/// Where the first character is that is not allowed; the end if all are.
pub(super) fn wrong_at(text: &str) -> usize {
    let is_wrong = |&(at, letter): &(usize, char)| !is_text(&text[at..at + letter.len_utf8()]);
    text.char_indices().find(is_wrong).map_or(text.len(), |(at, _)| at)
}

/// The character of a reference, `65` or `x41`. Says why there is none.
pub(super) fn char_of(number: &str) -> Result<char, String> {
    let (digits, radix) = match number.strip_prefix('x') {
        Some(digits) => (digits, 16),
        None => (number, 10),
    };
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    let code = u32::from_str_radix(digits, radix).ok().filter(|_| is_number);
    let letter = code.and_then(char::from_u32);
    let allowed = letter.filter(|&letter| is_text(letter.encode_utf8(&mut [0; 4])));
    allowed.ok_or_else(|| format!("&#{number}; is no character of XML"))
}

/// Says why a name is none.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    if name.len() > NAME_BYTES_MAX {
        let start = start_of(name);
        return Err(format!("the name {start}… is longer than {NAME_BYTES_MAX} bytes"));
    }
    let mut letters = name.chars();
    if letters.next().is_some_and(begins_name) && letters.all(is_in_name) {
        return Ok(());
    }
    Err(format!("`{name}` is no name"))
}

/// White space of XML.
pub(super) const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

/// What is in the quotes with which a text begins, of either kind, and what is behind them.
pub(super) fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    text[1..].split_once(quote)
}

/// So much of a text as says which one is meant.
pub(super) fn start_of(text: &str) -> String {
    text.chars().take(20).collect()
}

/// Says what is wrong with the declaration of XML, `xml version="1.0" encoding="…" standalone="…"`.
pub(super) fn check_declaration(declaration: &str) -> Result<(), String> {
    let mut rest = declaration.strip_prefix("xml").unwrap_or(declaration);
    for (name, is_needed) in [("version", true), ("encoding", false), ("standalone", false)] {
        let word = rest.trim_start_matches(SPACES);
        let is_apart = word.len() < rest.len();
        let value = word.strip_prefix(name).filter(|_| is_apart).and_then(|after| {
            let value = after.trim_start_matches(SPACES).strip_prefix('=')?;
            quoted(value.trim_start_matches(SPACES))
        });
        let Some((value, after)) = value else {
            match is_needed {
                true => return Err("the declaration of XML has no version".to_owned()),
                false => continue,
            }
        };
        let is_known = match name {
            "version" => value.strip_prefix("1.").is_some_and(|minor| {
                !minor.is_empty() && minor.bytes().all(|digit| digit.is_ascii_digit())
            }),
            "standalone" => matches!(value, "yes" | "no"),
            _ => true,
        };
        if !is_known {
            return Err(format!("the declaration of XML has the {name} `{value}`, which is none"));
        }
        rest = after;
    }
    match rest.trim_matches(SPACES) {
        "" => Ok(()),
        more => Err(format!("in the declaration of XML `{}` is not expected", start_of(more))),
    }
}

/// A name in its two parts, before and after the colon. Says why it is none.
pub(super) fn split_name(name: &str) -> Result<(&str, &str), String> {
    check_name(name)?;
    match name.split_once(':') {
        None => Ok(("", name)),
        Some((prefix, local)) if is_plain_name(prefix) && is_plain_name(local) => {
            Ok((prefix, local))
        }
        Some(_) => Err(format!("`{name}` is no name: a prefix, one colon and a name would be")),
    }
}

/// Whether a text is a name without a colon.
pub(crate) fn is_plain_name(name: &str) -> bool {
    !name.contains(':') && check_name(name).is_ok()
}

/// The longest name.
pub const NAME_BYTES_MAX: usize = 4096;

fn begins_name(letter: char) -> bool {
    matches!(letter,
        ':' | '_' | 'A'..='Z' | 'a'..='z' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}'
        | '\u{F8}'..='\u{2FF}' | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}'
        | '\u{200C}'..='\u{200D}' | '\u{2070}'..='\u{218F}' | '\u{2C00}'..='\u{2FEF}'
        | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}'
        | '\u{10000}'..='\u{EFFFF}')
}

fn is_in_name(letter: char) -> bool {
    begins_name(letter)
        || matches!(letter,
            '-' | '.' | '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_recommendation() {
        for name in ["a", "_", "a-b.c7", "ä", "x:y", "\u{10000}"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "1", "-a", "a b", "a<", "a\u{D7}"] {
            assert!(check_name(name).is_err(), "{name}");
        }
        assert!(check_name(&"a".repeat(NAME_BYTES_MAX + 1)).unwrap_err().len() < 80);
        assert_eq!(split_name("x:y"), Ok(("x", "y")));
        for name in [":y", "x:", "x:y:z", "x:1"] {
            assert!(split_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn characters_are_those_of_the_recommendation() {
        assert_eq!((char_of("65"), char_of("x1F600")), (Ok('A'), Ok('\u{1F600}')));
        for number in ["", "x", "0", "xD800", "x110000", "+65", "xFFFF", "1b", "99999999999"] {
            assert!(char_of(number).is_err(), "{number}");
        }
        assert!(is_text("\t\r\n a\u{EFFF}\u{FFFD}") && !is_text("a\u{1}") && !is_text("\u{FFFE}"));
    }
}
