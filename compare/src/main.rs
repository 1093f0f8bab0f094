//! Nandu beside its peers, side by side in one run: its B+-tree, `cargo xtask compare-btree`, its joins,
//! `cargo xtask compare-joins`, its sorts and searches beyond memory, `cargo xtask compare-external`, its
//! XML documents, `cargo xtask compare-xml`, and TPC-C, `cargo xtask compare-tpcc`; the latter four are
//! the modules of these names.
//!
//! ```text
//!   plan: for each r, round, phase, engine ─► a process of its own, inside a memory limit
//!                                               └► phase: open, work, check, measure, close
//!         ─► medians ─► results/MACHINE/compare-btree/{meta.json, runs.csv, medians.json, table.md}
//! ```
//!
//! Outside the building: nothing uses this crate. What is measured and what must be installed
//! stands in `docs/compare.md`, `docs/compare-joins.md`, `docs/compare-external.md`,
//! `docs/compare-xml.md` and `docs/compare-tpcc.md`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

mod busy;
mod engine;
mod external;
mod joins;
mod left_out;
mod library;
mod limit;
mod measure;
mod phase;
mod plan;
mod postgresql;
mod process;
mod results;
mod runs;
mod stock;
mod table;
mod tpcc;
mod workload;
mod xml;

use clap::Parser;
use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// Why something did not come about.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum Failure {
    /// An engine is not installed; says how to install it.
    Missing(String),
    /// An engine gave a wrong answer: no figure of the run can be trusted.
    Wrong(String),
    /// An engine refused or broke.
    Engine(String),
    /// Anything around the engines.
    Run(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(text) => write!(formatter, "wrong answer: {text}"),
            Self::Missing(text) | Self::Engine(text) | Self::Run(text) => formatter.write_str(text),
        }
    }
}

/// The exit code of a phase that found a wrong answer.
const EXIT_WRONG: u8 = 3;

/// Writes what was found to stdout. A reader who went away is no error.
fn show(text: &str) {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("error: cannot write to stdout: {error}");
        }
        _ => {}
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let outcome = match arguments.as_slice() {
        [_, word, job] if word == phase::SUBCOMMAND => phase::run_as_process(job),
        [_, word, job] if word == joins::SUBCOMMAND => joins::run_as_process(job),
        [_, word, job] if word == external::SUBCOMMAND => external::run_as_process(job),
        [_, word, job] if word == tpcc::SUBCOMMAND => tpcc::run_as_process(job),
        [_, word, rest @ ..] if word == tpcc::COMPARISON => {
            let name = std::iter::once(word).chain(rest);
            tpcc::run(&tpcc::Options::parse_from(name))
        }
        [_, word, rest @ ..] if word == external::COMPARISON => {
            let name = std::iter::once(word).chain(rest);
            external::run(&external::Options::parse_from(name))
        }
        [_, word, rest @ ..] if word == xml::COMPARISON => {
            let name = std::iter::once(word).chain(rest);
            xml::run(&xml::Options::parse_from(name))
        }
        [_, word, rest @ ..] if word == joins::COMPARISON => {
            let name = std::iter::once(word).chain(rest);
            joins::run(&joins::Options::parse_from(name))
        }
        _ => plan::run(&plan::Options::parse()),
    };
    match outcome {
        Ok(text) => {
            show(&text);
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("error: {failure}");
            let is_wrong = matches!(failure, Failure::Wrong(_));
            if is_wrong { ExitCode::from(EXIT_WRONG) } else { ExitCode::FAILURE }
        }
    }
}
