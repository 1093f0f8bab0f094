//! What every command prints with `--json`: one object, whose key `nandu` says how to read the others
//! (`docs/json.md`, `docs/nandu.schema.json`).
//!
//! ```text
//!   { "nandu": { "schema_version": 2, "version": "0.1.0", "command": "db stat" }, ...what it found }
//! ```
//!
//! 1. `command` alone decides which keys follow; where an option asks for others, it is part of it.
//! 2. A key that exists keeps its name and its meaning for as long as the version of the schema is the same.

use serde::Serialize;

/// The version of the schema.
const SCHEMA_VERSION: u32 = 2;

/// What stands under the key `nandu`.
#[derive(Serialize)]
struct Head {
    schema_version: u32,
    /// Of the program.
    version: &'static str,
    command: &'static str,
}

#[derive(Serialize)]
struct Document<'a, T: Serialize> {
    nandu: Head,
    #[serde(flatten)]
    value: &'a T,
}

/// The key `nandu` of what a command prints.
fn head_of(command: &'static str) -> Head {
    Head { schema_version: SCHEMA_VERSION, version: env!("CARGO_PKG_VERSION"), command }
}

/// What a command found, as indented JSON without a newline behind it. `value` is an object: a struct or
/// a map, since a list has no room for the key `nandu`.
pub(crate) fn document(command: &'static str, value: &impl Serialize) -> String {
    plain(&Document { nandu: head_of(command), value })
}

/// The beginning of a document whose last key is the list `rows`, which is written as it comes: behind it
/// stand the rows, with commas between them, and `]}`.
pub(crate) fn begin_rows(command: &'static str, value: &impl Serialize) -> String {
    let whole = document(command, value);
    let open = whole.trim_end().strip_suffix('}').expect("a document is an object").trim_end();
    format!("{open},\n  \"rows\": [")
}

/// Indented JSON without the key `nandu`, for files that the program reads again.
pub(crate) fn plain(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value);
    harmless(text.expect("our own types have string keys and finite numbers"))
}

/// The same JSON without control characters from U+007F to U+009F, which JSON lets stand and terminals obey.
pub(crate) fn harmless(text: String) -> String {
    let is_control = |character: char| ('\u{7f}'..='\u{9f}').contains(&character);
    if !text.contains(is_control) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        // Outside of strings JSON has none of them.
        if is_control(character) {
            escaped += &format!("\\u{:04x}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn the_head_comes_first_and_the_value_keeps_its_keys() {
        let text = document("list", &json!({ "experiments": [1] }));
        assert!(text.starts_with("{\n  \"nandu\": {\n    \"schema_version\": 2,"), "{text}");
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&read["nandu"]["command"], &read["experiments"][0]),
            (&"list".into(), &1.into())
        );
    }

    #[test]
    fn no_control_character_stands_in_a_document() {
        let value = json!({ "a\u{9b}": "\u{1b}[2J\u{7f}ä\u{85}" });
        let text = plain(&value);
        assert!(!text.contains(|one: char| one.is_control() && one != '\n'), "{text:?}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn rows_follow_the_keys_before_them() {
        let text = begin_rows("db scan", &json!({ "table": "t" })) + "{\"a\":1}]}";
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&read["table"], &read["rows"][0]["a"]), (&"t".into(), &1.into()));
    }
}
