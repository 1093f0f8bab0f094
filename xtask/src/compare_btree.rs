//! Nandu's B+-tree beside its peers. The comparison is a program of its own, `nandu-compare`, since
//! it builds other engines in; this only builds it with optimisation and hands the command line on.

use std::path::Path;
use std::process::Command;

/// The command line of `nandu-compare`; `--help` shows it.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// As `cargo xtask compare-btree --help` has them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds and runs the comparison in `root`.
///
/// # Errors
/// If it cannot be built or ends with an error, which it has told.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    let status = Command::new("cargo")
        .args(["run", "--quiet", "--release", "--package", "nandu-compare", "--manifest-path"])
        .arg(root.join("Cargo.toml"))
        .arg("--")
        .args(&options.arguments)
        .status()
        .map_err(|error| format!("cargo does not start: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("compare-btree ended with {status}")) }
}
