//! `--set KEY=VALUE`: any setting of the engine by its name, in parts with dots (`nandu::named_settings`).
//!
//! 1. What is fixed when a database is made is refused where the database has another value; it is never
//!    passed over. So is what a database that is made would not keep, since it is of another
//!    propagation than its own.

use crate::failure::Failure;
use nandu::named_settings::with_text;
use nandu::{PropagationKind, Settings};
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

/// The same for a database that is made with them.
///
/// # Errors
/// As [`set`], and if one is of another propagation than the one that is meant.
pub(crate) fn set_new(usual: &Settings, texts: &[String]) -> Result<Settings, Failure> {
    let settings = set(usual, texts)?;
    let meant = settings.propagation.kind;
    for text in texts {
        let first = text.split(['=', '.']).next().unwrap_or_default();
        let is_other = |kind: &&PropagationKind| **kind != meant && kind.name() == first;
        if let Some(other) = PropagationKind::ALL.iter().find(is_other) {
            return Err(Failure::input(format!(
                "--set {}: it is of another propagation than `{}`; leave it out, or add --set \
                 propagation={}",
                text.escape_debug(),
                meant.name(),
                other.name()
            )));
        }
    }
    Ok(settings)
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
