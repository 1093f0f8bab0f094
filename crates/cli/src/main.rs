//! Floor 7: the program `nandu`. It parses, calls and prints; nothing is measured or simulated here.
//!
//! ```text
//!   arguments ─► command::{db, load, drives, probe, sim, run, verify, …} ─► stdout: results
//!                     │            ▲                                   stderr: progress, errors
//!                     ▼            │ observers ask
//!        nandu, load, drives, probe, sim, lab    interrupt ◄── Ctrl-C
//! ```
//!
//! 1. With `--json`, which every command takes, stdout holds one JSON document and nothing else.
//! 2. Every way out has its exit code, which the help states.

mod command;
mod database;
mod engine_settings;
mod failure;
mod input;
mod interrupt;
mod json;
mod memory;
mod meter;
mod output;
mod plain_words;
mod progress;
mod run_facts;
mod stopwatch;

use clap::Parser;
use failure::{Failure, FailureKind};
use interrupt::Interrupt;
use nandu_lab::machine::COMMIT;
use output::Output;
use std::io::Write;
use std::process::ExitCode;
use std::sync::LazyLock;
use stopwatch::Stopwatch;

/// What every command gets.
struct Context {
    interrupt: Interrupt,
    output: Output,
    /// Nobody wants to see how far the work is.
    is_quiet: bool,
    /// When the command began.
    started: Stopwatch,
}

const AFTER_HELP: &str = "\
Examples:
  nandu run tour             measure this disk beside four simulated drives
  nandu probe .              characterise the disk under this directory
  nandu probe sim:device-a   characterise a flash disk of 2007
  nandu sim myers_slc --workload uniform
                             write amplification and response times of a chip
  nandu verify               check what papers published against simulations

Devices:
  DIRECTORY   a scratch file in it, which has no name and never stays behind
  FILE        a file or block device that exists; writing needs --destroy-data
  sim:NAME    a simulated drive; `nandu drives` lists them

Exit codes:
  0    done
  1    a shape or a check that must hold does not
  2    wrong usage or input, or refused for the safety of data
  3    a device, a file or the system failed
  130  interrupted";

/// What flash does to a database: measures storage devices, real and simulated, with the same code.
#[derive(Debug, Parser)]
#[command(name = "nandu", version = version(), after_help = AFTER_HELP, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: command::Command,
    /// Tell no progress; warnings and errors are told all the same
    #[arg(long, short, global = true)]
    quiet: bool,
}

/// What `--version` says: with the commit that the program was built from, where there was one.
fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| match COMMIT {
        "unknown" => env!("CARGO_PKG_VERSION").to_owned(),
        commit => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
    });
    &VERSION
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(told) => return tell(&told),
    };
    let outcome = Interrupt::install().and_then(|interrupt| {
        let (started, is_quiet) = (Stopwatch::start(), arguments.quiet);
        let context = Context { interrupt, output: Output::new(), is_quiet, started };
        arguments.command.run(&context)
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => finish(&failure),
    }
}

/// Tells what clap has to say: the help, the version, or what is wrong with the command line. Help that
/// nobody could write down is an error like any other.
fn tell(told: &clap::Error) -> ExitCode {
    match told.print().and_then(|()| std::io::stdout().flush()) {
        Err(error) if !told.use_stderr() => {
            finish(&Failure::system("cannot write to stdout", &error))
        }
        _ => ExitCode::from(if told.use_stderr() { FailureKind::Input.exit_code() } else { 0 }),
    }
}

/// Says what went wrong, unless there is nobody left to tell.
fn finish(failure: &Failure) -> ExitCode {
    if let Some(text) = failure.report() {
        output::complain(&text);
    }
    ExitCode::from(failure.exit_code())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }
}
