//! `--set KEY=VALUE`: any setting of the engine by its name, in parts with dots (`nandu::named_settings`).
//!
//! 1. What is fixed when a database is made is refused where the database has another value; it is never
//!    passed over.

use crate::failure::Failure;
use nandu::Settings;
use nandu::named_settings::with_text;
use std::path::Path;

/// Settings with what `--set` says, one after the other. Sizes may have units.
///
/// # Errors
/// If there is no such setting, or it has no such value; that is said of each by itself.
pub(crate) fn set(usual: &Settings, texts: &[String]) -> Result<Settings, Failure> {
    texts.iter().try_fold(usual.clone(), |settings, text| {
        with_text(&settings, text)
            .map_err(|what| Failure::input(format!("--set {}: {what}", text.escape_debug())))
    })
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
