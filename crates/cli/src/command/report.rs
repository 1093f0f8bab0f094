//! `nandu report`: one HTML file from the results in a directory.

use crate::Context;
use crate::failure::Failure;
use crate::output::OutputFiles;
use clap::Args;
use nandu_lab::write_report;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Write the report of all results in a directory: one HTML file that needs no network
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu report out                        everything that was run, in out/report.html
  nandu report out/tour --output t.html   a copy elsewhere")]
pub(crate) struct ReportArguments {
    /// Where `nandu run` left its results; report.html is written there
    directory: PathBuf,
    /// Write a copy here, too
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the path of the report as JSON, and nothing else on stdout
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    files: OutputFiles,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Written<'a> {
    report: &'a Path,
}

/// Writes it.
pub(crate) fn run(arguments: &ReportArguments, context: &Context) -> Result<(), Failure> {
    if !arguments.directory.is_dir() {
        return Err(Failure::input(format!(
            "{}: no such directory; name the one that `nandu run --out` wrote to, `out` unless told",
            arguments.directory.display()
        )));
    }
    if let Some(path) = &arguments.output {
        arguments.files.check(path)?;
    }
    let written = write_report(&arguments.directory)?;
    let mut shown = &written;
    if let Some(copy) = &arguments.output {
        let html = std::fs::read(&written).map_err(|error| {
            Failure::system(format!("cannot read {}", written.display()), &error)
        })?;
        arguments.files.write(copy, &html)?;
        shown = copy;
    }
    if arguments.json {
        return context.output.json("report", &Written { report: shown });
    }
    context.output.line(&shown.display().to_string())
}
