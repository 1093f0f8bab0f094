//! Settings of the engine by their names, as a user writes them: `--set KEY=VALUE` of the program, `set =
//! { … }` of experiments.
//!
//! 1. [`Settings`] is the only list of what there is: a key is a field of it, in parts with dots, and a value
//!    is what that field takes. A field that is added there can be set here.
//! 2. A value is tried as it comes, so that an error is that of one key.
//! 3. What is accepted counts: a part that would be passed over is refused.

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
    if let Some((_, of_all)) = key.rsplit_once('.').filter(|(_, part)| all.get(part).is_some()) {
        return Err(format!("it is that of the database: say `{of_all}`"));
    }
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

/// The names of all settings that have a value of their own, in the order of their fields.
#[must_use]
pub fn names() -> Vec<String> {
    fn add(before: &str, value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(parts) => {
                parts.iter().for_each(|(key, value)| add(&format!("{before}.{key}"), value, found));
            }
            _ => found.push(before[1..].to_owned()),
        }
    }
    let usual = serde_json::to_value(Settings::default()).expect("settings are JSON");
    let mut found = Vec::new();
    add("", &usual, &mut found);
    // The same of the database and of a part is one setting.
    let is_of_all = |part: &str| usual.get(part).is_some();
    found.retain(|name| !name.rsplit_once('.').is_some_and(|(_, part)| is_of_all(part)));
    found
}

/// Settings in which `key` alone has another value than usual, and that value, found by trying: so that a
/// test can ask of each setting whether it can be reached. `None` if nothing that was tried makes sense.
#[must_use]
pub fn with_another_value(key: &str) -> Option<(Settings, Value)> {
    let usual = Settings::default();
    let all = serde_json::to_value(&usual).expect("settings are JSON");
    let now = key.split('.').try_fold(&all, |place, part| place.get(part))?;
    let tried: Vec<Value> = match now {
        Value::Bool(is_so) => vec![Value::from(!is_so)],
        Value::Number(number) => {
            let number = number.as_u64()?;
            vec![Value::from(number * 2), Value::from(number / 2), Value::from(number + 1)]
        }
        Value::Null => vec![Value::from(1 << 20)],
        // Serde says which words there are.
        _ => {
            let said = with_value(&usual, key, Value::from("no such word")).err()?;
            let quoted = said.split('`').skip(3).step_by(2);
            quoted.map(Value::from).filter(|word| word != now).collect()
        }
    };
    let tried = tried.into_iter().map(|value| (with_value(&usual, key, value.clone()), value));
    let mut sound = tried.filter_map(|(settings, value)| Some((settings.ok()?, value)));
    sound.find(|(settings, _)| *settings != usual && settings.check().is_ok())
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
        assert_eq!(segments.propagation.log_structured.segment_bytes, 2 << 20);
    }

    #[test]
    fn each_setting_has_a_name_and_another_value() {
        let names = names();
        for name in ["page_bytes", "durability", "double_write_bytes", "log_structured.victim"] {
            assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
        }
        assert!(!names.iter().any(|name| name == "log_structured.page_bytes"));
        for name in names {
            let (settings, value) = with_another_value(&name).expect(&name);
            let text = format!("{name}={value}");
            assert_eq!(with_text(&Settings::default(), &text), Ok(settings), "{text}");
        }
        assert_eq!(with_another_value("nothing"), None);
    }

    #[test]
    fn what_there_is_not_is_told_in_words() {
        let usual = Settings::default();
        for (text, told) in [
            ("pool_bytes", "write KEY=VALUE"),
            ("durabilty=none", "there is no setting `durabilty`; did you mean `durability`?"),
            ("log_structured.victm=fifo", "no setting `victm`; did you mean `victim`?"),
            ("log_structured={\"victm\":\"fifo\"}", "unknown field `victm`"),
            ("log_structured={\"victm\":\"fifo\"}", "did you mean `victim`?"),
            ("propagaton=in_place", "no setting `propagaton`; did you mean `propagation`?"),
            ("propagation=in_plac", "did you mean `in_place`?"),
            ("propagation.kind=in_place", "`kind` is part of a value"),
            ("durability.grouped=1", "`grouped` is part of a value"),
            ("durability=nome", "did you mean `none`?"),
            ("pool_bytes=much", "invalid type: string \"much\", expected u64"),
            ("page_bytes=5GiB", "expected u32"),
            ("log_structured.page_bytes=512", "it is that of the database: say `page_bytes`"),
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
