//! What comparisons need before they start, made once and kept in a directory of the user's cache:
//! environments of Python, programs, inputs.
//!
//! 1. A file under its own name is whole: it is made under another and renamed, or written last.

use crate::Failure;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Environments of Python with peers at fixed versions.
pub(crate) mod python {
    use super::{complete, write};
    use crate::Failure;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// The interpreter of an environment.
    pub(crate) fn interpreter(environment: &Path) -> PathBuf {
        environment.join("bin/python")
    }

    /// Makes an environment with what `requirements` names, a line each, unless it is there.
    ///
    /// # Errors
    /// If Python, its `venv` or the registry are missing.
    pub(crate) fn install(environment: &Path, requirements: &str) -> Result<(), Failure> {
        let installed = environment.join("requirements.txt");
        if std::fs::read_to_string(&installed).is_ok_and(|text| text == requirements) {
            return Ok(());
        }
        eprintln!("installing the peers into {}", environment.display());
        let mut make = Command::new("python3");
        make.args(["-m", "venv", "--clear"]).arg(environment);
        complete(&mut make, "python3 -m venv (Debian: apt-get install python3-venv)")?;
        let mut install = Command::new(interpreter(environment));
        install
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(requirements.lines());
        complete(&mut install, "pip install")?;
        // Written last, so that half an environment is made anew.
        write(&installed, requirements)
    }
}

/// The user's directory for what `comparison` can make again.
///
/// # Errors
/// If there is no home directory.
pub(crate) fn default_directory(comparison: &str) -> Result<PathBuf, Failure> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("XDG_CACHE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("nandu").join(comparison))
        .ok_or_else(|| Failure::Run("there is no home directory; name one by --directory".into()))
}

/// Runs `command`, of which `what` tells when it fails.
///
/// # Errors
/// If it is missing, or fails.
pub(crate) fn complete(command: &mut Command, what: &str) -> Result<(), Failure> {
    let output = command.output().map_err(|error| Failure::Missing(format!("{what}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(Failure::Run(format!("{what}: {}: {}", output.status, errors.trim())))
}

/// Makes a directory, unless it is there.
///
/// # Errors
/// If the system refuses.
pub(crate) fn make_directory(path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(path).map_err(|error| failure_at(path, &error))
}

/// Writes a file.
///
/// # Errors
/// If the system refuses.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| failure_at(path, &error))
}

/// That something failed at a file or directory.
pub(crate) fn failure_at(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Run(format!("{}: {error}", path.display()))
}
