//! `nandu report`: one HTML file from the results in a directory, without running anything.

use crate::Context;
use crate::failure::Failure;
use crate::output::OutputFiles;
use clap::Args;
use nandu_lab::report::found::{KEPT, newest_machine};
use nandu_lab::write_report;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Write the report of all results in a directory: one HTML file that needs no network
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu report                            results/ of the newest machine
  nandu report out                        all that was run, in out/report.html
  nandu report out/tour --output t.html   a copy elsewhere

Nothing is run. Results that the experiment of their name does not ask for any more are told as stale; \
`nandu verify --kept DIR` compares each simulated point with what the code finds. Figures lie beside \
the page as SVG files, in figures/.")]
pub(crate) struct ReportArguments {
    /// Where `nandu run` left its results, or where some are kept; report.html is written there
    /// [default: the machine in results/ whose results are the newest, else out]
    directory: Option<PathBuf>,
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
    stale: Vec<Reason<'a>>,
    skipped: Vec<Skipped<'a>>,
}

/// A result that the experiment of its name does not ask for any more.
#[derive(Serialize)]
struct Reason<'a> {
    result: &'a str,
    reason: &'a str,
}

/// A folder whose results no experiment explains.
#[derive(Serialize)]
struct Skipped<'a> {
    folder: &'a Path,
    reason: &'a str,
}

/// Writes the report and tells what is stale.
pub(crate) fn run(arguments: &ReportArguments, context: &Context) -> Result<(), Failure> {
    let directory = arguments.directory.clone().unwrap_or_else(|| {
        newest_machine(Path::new(KEPT)).unwrap_or_else(|| Path::new("out").into())
    });
    if !directory.is_dir() {
        return Err(Failure::input(format!(
            "{}: no such directory; name the one that `nandu run --out` wrote to, `out` unless told",
            directory.display()
        )));
    }
    if let Some(path) = &arguments.output {
        arguments.files.check(path)?;
    }
    let report = write_report(&directory)?;
    let mut shown = &report.path;
    if let Some(copy) = &arguments.output {
        let html = std::fs::read(&report.path).map_err(|error| {
            Failure::system(format!("cannot read {}", report.path.display()), &error)
        })?;
        arguments.files.write(copy, &html, &context.interrupt)?;
        shown = copy;
    }
    if arguments.json {
        let written = Written {
            report: shown,
            stale: report.stale.iter().map(|(result, reason)| Reason { result, reason }).collect(),
            skipped: report
                .skipped
                .iter()
                .map(|(folder, reason)| Skipped { folder, reason })
                .collect(),
        };
        return context.output.json("report", &written);
    }
    context.output.line(&shown.display().to_string())?;
    for (name, why) in &report.stale {
        context.output.line(&format!("stale: {name}: {why}"))?;
    }
    for (folder, why) in &report.skipped {
        context.output.line(&format!("left out: {}: {why}", folder.display()))?;
    }
    Ok(())
}
