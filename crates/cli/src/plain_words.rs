//! Words of the libraries that read TOML and JSON, in those of whoever wrote the file: `expected struct
//! SsdConfig` is a table that is missing, `expected u32` a whole number.
//!
//! 1. A text that has none of these words stays as it is.

/// How a phrase behind "expected" may end.
const ENDS: [&str; 4] = [", ", ";", " at line", "\n"];
/// What was found, as the libraries say it, and as a user does.
const FOUND: [(&str, &str); 8] = [
    ("invalid type: sequence", "invalid type: a list"),
    ("invalid type: map", "invalid type: a table"),
    ("invalid type: unit", "invalid type: nothing"),
    ("invalid type: floating point", "invalid type: the number"),
    ("invalid type: integer", "invalid type: the number"),
    ("invalid value: integer", "invalid value: the number"),
    ("` as i128", "`"),
    ("` as u128", "`"),
];
const UNTAGGED: &str = "data did not match any variant of untagged enum ";

/// `text` without names of Rust's types.
pub(crate) fn in_plain_words(text: &str) -> String {
    let mut plain = text.to_owned();
    for (said, meant) in FOUND {
        plain = plain.replace(said, meant);
    }
    if let Some((before, rest)) = plain.split_once(UNTAGGED) {
        let rest = rest.trim_start_matches(|letter: char| letter.is_alphanumeric());
        plain = format!("{before}the value has none of the forms that it may have{rest}");
    }
    let mut parts = plain.split("expected ");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = ENDS.iter().filter_map(|end| part.find(end)).min().unwrap_or(part.len());
        let (phrase, rest) = part.split_at(end);
        whole += &format!("expected {}{rest}", expectation(phrase).unwrap_or(phrase));
    }
    whole
}

/// What a phrase behind "expected" means, if it is Rust's.
fn expectation(phrase: &str) -> Option<&'static str> {
    let starts = |start: &str| phrase.starts_with(start);
    Some(match phrase {
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number in range",
        "f32" | "f64" => "a number",
        "bool" | "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a table",
        _ if is_unsigned(phrase) => "a whole number, 0 or more and in range",
        _ if starts("nonzero ") || starts("a nonzero ") => "a whole number above 0",
        _ if starts("struct ") => "a table",
        _ if starts("internally tagged enum ") => "a table that says its kind",
        _ if starts("tuple struct ") || starts("a tuple ") || starts("an array ") => {
            "a list of as many values as there are places"
        }
        _ if starts("enum ") || starts("adjacently tagged enum ") => "one of the known values",
        _ => return None,
    })
}

fn is_unsigned(phrase: &str) -> bool {
    ["u8", "u16", "u32", "u64", "u128", "usize"].contains(&phrase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types_become_words() {
        for (said, meant) in [
            (
                "p:1: invalid type: integer `1`, expected struct SsdConfig",
                "p:1: invalid type: the number `1`, expected a table",
            ),
            (
                "invalid type: string \"x\", expected u32 at line 1 column 14",
                "invalid type: string \"x\", expected a whole number, 0 or more and in range at line 1 \
                 column 14",
            ),
            (
                "invalid length 0, expected struct CpuCosts with 4 elements at line 1",
                "invalid length 0, expected a table at line 1",
            ),
            (
                "e:13: data did not match any variant of untagged enum Places; look",
                "e:13: the value has none of the forms that it may have; look",
            ),
            (
                "invalid type: integer `3`, expected internally tagged enum FtlConfig",
                "invalid type: the number `3`, expected a table that says its kind",
            ),
        ] {
            assert_eq!(in_plain_words(said), meant);
        }
        for text in ["unknown field `x`, expected one of `a`, `b`", "table t: 3 rows", ""] {
            assert_eq!(in_plain_words(text), text);
        }
    }
}
