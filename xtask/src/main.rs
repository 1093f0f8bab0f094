//! Chores of the repository, outside the building: `cargo xtask tidy` checks the rules that neither
//! rustfmt nor clippy knows, `cargo xtask ci` runs every check in turn.
//!
//! One module per chore. A chore answers with an error text; only this file ends the process.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to the terminal")]

mod bench_storage;
mod bench_xml;
mod ci;
mod compare;
mod compare_fio;
mod fail_calls;
mod fuzz;
mod kept;
mod miri;
mod predict_external;
mod tidy;
mod xml_footprints;

use clap::{Parser, Subcommand};
use compare::Comparison;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Chores of the nandu repository.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

/// What to do.
#[derive(Subcommand)]
enum Chore {
    /// Check floors, file heads, documents, links, manifests and banned words.
    Tidy,
    /// Run formatting, lints, tidy, tests and the documentation build; stop at the first failure.
    Ci {
        /// Leave out the tests of the default members, for a caller that has just run them.
        #[arg(long)]
        skip_tests: bool,
    },
    /// Run the same jobs with nandu and with fio in alternation and keep the ratios in results/.
    CompareFio(compare_fio::Options),
    /// Run the B+-tree and its peers side by side and keep the table in results/.
    CompareBtree(compare::Options),
    /// Run the joins and their peers side by side under memory limits and keep the tables in
    /// results/.
    CompareJoins(compare::Options),
    /// Run the sort or the search beyond memory and its peers side by side and keep the table in
    /// results/.
    CompareExternal(compare::Options),
    /// Import, look up and change an XML document beside its peers and keep the table in results/.
    CompareXml(compare::Options),
    /// Run TPC-C on this disk beside other databases and keep the table in results/.
    CompareTpcc(compare::Options),
    /// Run the benchmarks of the storage engine several times and keep the medians.
    BenchStorage(bench_storage::Options),
    /// Measure the store of XML documents on this disk several times, beside its targets, and keep the
    /// medians.
    BenchXml(bench_xml::Options),
    /// Store documents in each mapping and keep what they take beside their text.
    XmlFootprints(xml_footprints::Options),
    /// Probe this disk, and hold what that says of sorts, rankings and searches beside what they take.
    PredictExternal(predict_external::Options),
    /// Run Miri over the unsafe code that it can run; needs a nightly compiler with Miri.
    Miri(miri::Options),
    /// Have single system calls of commands on a database fail, under strace, and check what is left.
    FailCalls(fail_calls::Options),
    /// Run the fuzz targets one after another, each for the same time, and keep what they did.
    Fuzz(fuzz::Options),
}

fn main() -> ExitCode {
    let root = repository_root();
    let outcome = match Arguments::parse().chore {
        Chore::Tidy => tidy::report(&root),
        Chore::Ci { skip_tests } => ci::run(&root, skip_tests),
        Chore::CompareFio(options) => compare_fio::run(&root, &options),
        Chore::CompareBtree(options) => compare::run(&root, Comparison::Btree, &options),
        Chore::BenchStorage(options) => bench_storage::run(&root, &options),
        Chore::BenchXml(options) => bench_xml::run(&root, &options),
        Chore::XmlFootprints(options) => xml_footprints::run(&root, &options),
        Chore::PredictExternal(options) => predict_external::run(&root, &options),
        Chore::Miri(options) => miri::run(&root, &options),
        Chore::FailCalls(options) => fail_calls::run(&root, &options),
        Chore::Fuzz(options) => fuzz::run(&root, &options),
        Chore::CompareJoins(options) => compare::run(&root, Comparison::Joins, &options),
        Chore::CompareExternal(options) => compare::run(&root, Comparison::External, &options),
        Chore::CompareXml(options) => compare::run(&root, Comparison::Xml, &options),
        Chore::CompareTpcc(options) => compare::run(&root, Comparison::Tpcc, &options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The directory above this crate when cargo runs it, else the current one.
fn repository_root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .and_then(|directory| Path::new(&directory).parent().map(Path::to_path_buf))
        .unwrap_or_else(|| PathBuf::from("."))
}
