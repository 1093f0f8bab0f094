//! Nandu beside its peers. The comparisons are a program of their own, `nandu-compare`, since it
//! builds other engines in; this only builds it with optimisation and hands the command line on.

use std::path::Path;
use std::process::Command;

/// The command line of a comparison of `nandu-compare`; `--help` shows it.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// As `--help` has them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Which of the comparisons is run.
#[derive(Clone, Copy)]
pub(crate) enum Comparison {
    /// The B+-tree beside storage engines.
    Btree,
    /// The joins beside query engines.
    Joins,
    /// Sorts and searches beyond memory beside others.
    External,
    /// XML documents beside others.
    Xml,
    /// TPC-C beside others.
    Tpcc,
}

/// Builds and runs the comparison in `root`.
///
/// # Errors
/// If it cannot be built or ends with an error, which it has told.
pub(crate) fn run(root: &Path, comparison: Comparison, options: &Options) -> Result<(), String> {
    let (name, words) = match comparison {
        Comparison::Btree => ("compare-btree", None),
        Comparison::Joins => ("compare-joins", Some("joins")),
        Comparison::External => ("compare-external", Some("external")),
        Comparison::Xml => ("compare-xml", Some("xml")),
        Comparison::Tpcc => ("compare-tpcc", Some("tpcc")),
    };
    if let Comparison::External = comparison {
        // The program takes part, beside the library.
        let build = ["build", "--quiet", "--release", "--package", "nandu-cli", "--manifest-path"];
        let built = Command::new("cargo").args(build).arg(root.join("Cargo.toml")).status();
        if !built.map_err(|error| format!("cargo does not start: {error}"))?.success() {
            return Err("nandu cannot be built".to_owned());
        }
    }
    let status = Command::new("cargo")
        .args(["run", "--quiet", "--release", "--package", "nandu-compare", "--manifest-path"])
        .arg(root.join("Cargo.toml"))
        .arg("--")
        .args(words)
        .args(&options.arguments)
        .status()
        .map_err(|error| format!("cargo does not start: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} ended with {status}")) }
}
