//! Settings of the engine by their names, as a user writes them: `--set KEY=VALUE` of the program, `set =
//! { … }` of experiments.
//!
//! 1. [`Settings`] is the only list of what there is: a key is a field of it, in parts with dots, and a value
//!    is what that field takes. A field that is added there can be set here.
//! 2. A value is tried as it comes, so that an error is that of one key.

use nandu_base::ByteCount;
use nandu_base::words::{did_you_mean, nearest_expected};
use nandu_storage::Settings;
use serde_json::Value;

/// `settings` with another value of `key`. A text may be a size with its unit, where the key's unit is
/// bytes.
///
/// # Errors
/// If there is no such setting, or it has no such value: in words, without the key.
pub fn with_value(settings: &Settings, key: &str, value: Value) -> Result<Settings, String> {
    let mut all = serde_json::to_value(settings).expect("settings are JSON");
    let mut place = &mut all;
    for part in key.split('.') {
        let Value::Object(keys) = place else {
            return Err(format!("`{part}` is part of a value"));
        };
        if !keys.contains_key(part) {
            let meant = did_you_mean(part, keys.keys().map(String::as_str));
            return Err(format!("there is no setting `{part}`{meant}"));
        }
        place = keys.get_mut(part).expect("it was found");
    }
    let size = value.as_str().filter(|_| key.ends_with("_bytes"));
    *place = match size.and_then(|text| ByteCount::parse(text).ok()) {
        Some(size) => Value::from(size.0),
        None => value,
    };
    serde_json::from_value(all).map_err(|error| {
        let message = error.to_string();
        let meant = nearest_expected(&message).map(|word| format!("; did you mean `{word}`?"));
        message.clone() + &meant.unwrap_or_default()
    })
}

/// The same of a text `KEY=VALUE`, whose value is JSON, or else a word.
///
/// # Errors
/// As [`with_value`], and if it is no such text.
pub fn with_text(settings: &Settings, text: &str) -> Result<Settings, String> {
    let (key, given) = text.split_once('=').ok_or("write KEY=VALUE")?;
    let value = serde_json::from_str(given).unwrap_or_else(|_| Value::from(given));
    with_value(settings, key, value)
}

/// Whether `key` has parts of its own rather than a value: so `log_structured`.
#[must_use]
pub fn has_parts(key: &str) -> bool {
    let usual = serde_json::to_value(Settings::default()).expect("settings are JSON");
    key.split('.').try_fold(&usual, |place, part| place.get(part)).is_some_and(Value::is_object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_storage::log::Durability;
    use serde_json::json;

    #[test]
    fn what_a_setting_is_called_and_may_be_is_what_the_engine_has() {
        let usual = Settings::default();
        // Whatever there is can be set to what it is.
        let all = serde_json::to_value(&usual).unwrap();
        for (key, value) in all.as_object().unwrap() {
            assert_eq!(with_value(&usual, key, value.clone()).as_ref(), Ok(&usual), "{key}");
        }
        let set = |text: &str| with_text(&usual, text);
        assert_eq!(set("pool_bytes=2MiB").unwrap().pool_bytes, 2 << 20);
        assert_eq!(set("durability=none").unwrap().durability, Durability::None);
        let grouped = with_value(&usual, "durability", json!({ "grouped": { "commit_count": 5 } }));
        let grouped = grouped.unwrap();
        assert_eq!(grouped.durability, Durability::Grouped { commit_count: 5 });
        let more = with_text(&grouped, "durability.grouped.commit_count=6").unwrap();
        assert_eq!(more.durability, Durability::Grouped { commit_count: 6 });
        let segments = set("log_structured.segment_bytes=2MiB").unwrap();
        assert_eq!(segments.log_structured.segment_bytes, 2 << 20);
    }

    #[test]
    fn what_there_is_not_is_told_in_words() {
        let usual = Settings::default();
        for (text, told) in [
            ("pool_bytes", "write KEY=VALUE"),
            ("durabilty=none", "there is no setting `durabilty`; did you mean `durability`?"),
            ("log_structured.victm=fifo", "no setting `victm`; did you mean `victim`?"),
            ("durability.grouped=1", "`grouped` is part of a value"),
            ("durability=nome", "did you mean `none`?"),
            ("pool_bytes=much", "invalid type: string \"much\", expected u64"),
            ("page_bytes=5GiB", "expected u32"),
        ] {
            let error = with_text(&usual, text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn the_document_has_each_setting_with_its_default() {
        let document = include_str!("../../../docs/database.md");
        let section =
            document.split("## Settings\n").nth(1).unwrap().split("\n## ").next().unwrap();
        let mut usual = serde_json::to_value(Settings::default()).unwrap();
        let usual = usual.as_object_mut().unwrap();
        for row in section.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let value = usual.remove(cells[1].trim_matches('`')).expect(row);
            if cells[2] != "parts" {
                assert_eq!(
                    value,
                    serde_json::from_str::<Value>(cells[2].trim_matches('`')).unwrap()
                );
            }
        }
        assert!(usual.is_empty(), "not in the document: {usual:?}");
    }

    #[test]
    fn what_has_parts_is_no_value() {
        assert!(has_parts("log_structured"));
        for key in ["durability", "pool_bytes", "log_structured.victim", "nothing"] {
            assert!(!has_parts(key), "{key}");
        }
    }
}
