//! The commands: one sibling file each, with its arguments and its `run`.

mod bench;
mod beyond;
mod choose;
mod completions;
mod crash;
mod db;
mod drives;
mod explain;
mod external;
mod graph;
mod inside;
mod kept;
mod list;
mod load;
mod man;
mod outcome_text;
mod prediction;
mod probe;
mod report;
mod run;
mod sim;
mod stays;
mod trace;
mod trace_reading;
mod verify;
mod xml;

use crate::Context;
use crate::failure::Failure;
use clap::Subcommand;
use nandu_base::{ByteCount, Nanos};

/// One of the commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::RunArguments),
    List(list::ListArguments),
    Verify(verify::VerifyArguments),
    Report(report::ReportArguments),
    Probe(Box<probe::ProbeArguments>),
    Sim(Box<sim::SimArguments>),
    Trace(trace::TraceArguments),
    Drives(drives::DrivesArguments),
    Bench(bench::BenchArguments),
    Choose(Box<choose::ChooseArguments>),
    Crash(crash::CrashArguments),
    Db(db::DbArguments),
    Load(Box<load::LoadArguments>),
    Explain(explain::ExplainArguments),
    Graph(graph::GraphArguments),
    External(external::ExternalArguments),
    Xml(xml::XmlArguments),
    Completions(completions::CompletionsArguments),
    Man(man::ManArguments),
}

impl Command {
    /// Does what the command line asks.
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Run(arguments) => run::run(arguments, context),
            Self::List(arguments) => {
                context.interrupt.before_work(|| list::run(arguments, context))
            }
            Self::Verify(arguments) => verify::run(arguments, context),
            Self::Report(arguments) => report::run(arguments, context),
            Self::Probe(arguments) => probe::run(arguments, context),
            Self::Sim(arguments) => sim::run(arguments, context),
            Self::Trace(arguments) => trace::run(arguments, context),
            Self::Drives(arguments) => {
                context.interrupt.before_work(|| drives::run(arguments, context))
            }
            Self::Bench(arguments) => bench::run(arguments, context),
            Self::Choose(arguments) => choose::run(arguments, context),
            Self::Crash(arguments) => crash::run(arguments, context),
            Self::Db(arguments) => db::run(arguments, context),
            Self::Load(arguments) => load::run(arguments, context),
            Self::Explain(arguments) => explain::run(arguments, context),
            Self::Graph(arguments) => graph::run(arguments, context),
            Self::External(arguments) => external::run(arguments, context),
            Self::Xml(arguments) => xml::run(arguments, context),
            Self::Completions(arguments) => completions::run(arguments, context),
            Self::Man(arguments) => man::run(arguments, context),
        }
    }
}

/// For clap: `4096`, `4KiB`, `1GiB`; zero is no size.
fn parse_size(text: &str) -> Result<ByteCount, String> {
    match ByteCount::parse(text)? {
        ByteCount::ZERO => Err("a size must be at least 1 byte".into()),
        size => Ok(size),
    }
}

/// For clap: `500ms`, `30s`; zero is no duration, and a bare number is refused.
fn parse_duration(text: &str) -> Result<Nanos, String> {
    if text.ends_with(|last: char| last.is_ascii_digit()) {
        return Err(format!("`{text}` has no unit; write {text}s, {text}ms or {text}min"));
    }
    match nandu_probe::text::parse_duration(text)? {
        Nanos::ZERO => Err("a duration must be longer than zero".into()),
        duration => Ok(duration),
    }
}

/// The command line as the user could type it again.
pub(crate) fn command_line() -> String {
    let mut words = vec!["nandu".to_string()];
    for word in std::env::args_os().skip(1) {
        let word = word.to_string_lossy().into_owned();
        let is_plain = !word.is_empty()
            && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=,+%@".contains(c));
        words.push(if is_plain { word } else { format!("'{}'", word.replace('\'', "'\\''")) });
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_of_zero_are_refused() {
        assert_eq!(parse_size("4KiB"), Ok(ByteCount(4096)));
        assert!(parse_size("0").is_err());
        assert_eq!(parse_duration("0.5s"), Ok(Nanos::from_millis(500)));
        assert!(parse_duration("0s").is_err());
        assert!(parse_duration("30").unwrap_err().contains("30s"));
    }
}
