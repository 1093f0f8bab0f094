//! `nandu list`: the experiments.

use crate::Context;
use crate::failure::Failure;
use crate::output::wrap;
use clap::Args;
use nandu_lab::ExperimentEntry;
use serde::Serialize;

/// Titles are not squeezed into less.
const TITLE_WIDTH_MIN: usize = 30;

/// List the experiments that `nandu run` knows
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu list
  nandu list --json

Experiments are found in ./experiments first, then in the program itself.")]
pub(crate) struct ListArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    title: Option<&'a str>,
    question: &'a str,
    origin: &'a str,
    error: Option<&'a str>,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Entries<'a> {
    experiments: Vec<Entry<'a>>,
}

impl<'a> Entry<'a> {
    fn of(entry: &'a ExperimentEntry) -> Self {
        let (title, error) = match &entry.title {
            Ok(title) => (Some(title.as_str()), None),
            Err(error) => (None, Some(error.as_str())),
        };
        let ExperimentEntry { name, question, origin, .. } = entry;
        Self { name, title, question, origin, error }
    }
}

/// Prints the experiments.
pub(crate) fn run(arguments: &ListArguments, context: &Context) -> Result<(), Failure> {
    let entries = nandu_lab::list();
    if arguments.json {
        let experiments = entries.iter().map(Entry::of).collect();
        return context.output.json("list", &Entries { experiments });
    }
    let output = context.output;
    let width = entries.iter().map(|entry| entry.name.chars().count()).max().unwrap_or(0);
    for entry in &entries {
        let name = output.strong(&format!("{:<width$}", entry.name));
        let title = match &entry.title {
            Ok(title) => title.clone(),
            Err(error) => format!("cannot be read: {error}"),
        };
        let space = output.text_width().saturating_sub(width + 2).max(TITLE_WIDTH_MIN);
        let indent = " ".repeat(width + 2);
        let mut lines = wrap(&title, space).into_iter();
        output.line(&format!("{name}  {}", lines.next().unwrap_or_default()))?;
        for line in lines {
            output.line(&format!("{indent}{line}"))?;
        }
        for line in wrap(&entry.question, space).iter().filter(|line| !line.is_empty()) {
            output.line(&format!("{indent}{}", output.faint(line)))?;
        }
    }
    output.line(&format!("\n{}", output.faint("`nandu run NAME` runs one.")))
}
