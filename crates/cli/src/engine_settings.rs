//! `--set KEY=VALUE`: any setting of the engine by its name, in parts with dots.
//!
//! 1. What is fixed when a database is made is refused where the database has another value; it is never
//!    passed over.

use crate::failure::Failure;
use nandu::Settings;
use nandu_base::ByteCount;
use nandu_base::words::did_you_mean;
use serde_json::Value;
use std::path::Path;

/// Settings with what `--set` says, one after the other. Sizes may have units.
///
/// # Errors
/// If there is no such setting, or it has no such value; that is said of each by itself.
pub(crate) fn set(usual: &Settings, texts: &[String]) -> Result<Settings, Failure> {
    let mut value = serde_json::to_value(usual).expect("settings are JSON");
    for text in texts {
        let wrong = |what: String| Failure::input(format!("--set {}: {what}", text.escape_debug()));
        let Some((key, given)) = text.split_once('=') else {
            return Err(wrong("write KEY=VALUE".into()));
        };
        let mut place = &mut value;
        for part in key.split('.') {
            let Value::Object(keys) = place else {
                return Err(wrong(format!("`{part}` is part of a value")));
            };
            if !keys.contains_key(part) {
                let meant = did_you_mean(part, keys.keys().map(String::as_str));
                return Err(wrong(format!("there is no setting `{part}`{meant}")));
            }
            place = keys.get_mut(part).expect("it was found");
        }
        let size = ByteCount::parse(given).ok().filter(|_| key.ends_with("_bytes"));
        *place = match size {
            Some(size) => Value::from(size.0),
            None => serde_json::from_str(given).unwrap_or_else(|_| Value::from(given)),
        };
        serde_json::from_value::<Settings>(value.clone())
            .map_err(|error| wrong(error.to_string()))?;
    }
    Ok(serde_json::from_value(value).expect("each was tried"))
}

/// Whether a database that is open has what `--set` says.
///
/// # Errors
/// With the first setting that is another there, since it stays as it was when the database was made.
pub(crate) fn check(directory: &Path, actual: &Settings, texts: &[String]) -> Result<(), Failure> {
    for text in texts {
        if set(actual, std::slice::from_ref(text))? != *actual {
            return Err(Failure::input(format!(
                "--set {}: {} was made with another value, which stays; leave it out, or name a new \
                 directory",
                text.escape_debug(),
                directory.display()
            )));
        }
    }
    Ok(())
}
