//! Outcomes that go into results/: of which commit they are, and as JSON in a file.

use crate::compare_fio::capture;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The commit of what lies in `root`.
///
/// # Errors
/// If git does not say.
pub(crate) fn commit_of(root: &Path) -> Result<String, String> {
    capture(Command::new("git").current_dir(root).args(["rev-parse", "HEAD"]))
}

/// Writes `kept` as the file `name` of `directory`, which is made if it is not there, and says where.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn store(directory: &Path, name: &str, kept: &Value) -> Result<(), String> {
    let path = directory.join(name);
    let text = format!("{kept:#}\n");
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|error| format!("{}: cannot be written: {error}", path.display()))?;
    println!("kept in {}", path.display());
    Ok(())
}
