//! `nandu list`: the experiments.

use crate::Context;
use crate::failure::Failure;
use crate::output::Output;
use clap::Args;
use nandu_base::words::wrap;
use nandu_lab::ExperimentEntry;
use serde::Serialize;

/// Titles are not squeezed into less: they stand below the name then.
const TITLE_WIDTH_MIN: usize = 30;
/// Spaces before what stands below a name.
const INDENT: usize = 2;

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
    let name_width = entries.iter().map(|entry| entry.name.chars().count()).max().unwrap_or(0);
    for entry in &entries {
        for line in lines_of(entry, name_width, output) {
            output.line(&line)?;
        }
    }
    output.line(&format!("\n{}", output.faint("`nandu run NAME` runs one.")))
}

/// An experiment's name, its title beside it or, where there is no room, below it, and its question.
fn lines_of(entry: &ExperimentEntry, name_width: usize, output: Output) -> Vec<String> {
    let title = match &entry.title {
        Ok(title) => title.clone(),
        Err(error) => format!("cannot be read: {error}"),
    };
    let is_beside = output.text_width() >= name_width + 2 + TITLE_WIDTH_MIN;
    let indent = if is_beside { name_width + 2 } else { INDENT };
    let space = output.text_width() - indent;
    let titles = wrap(&title, space);
    let questions = wrap(&entry.question, space).into_iter().filter(|line| !line.is_empty());
    let texts = titles.into_iter().chain(questions.map(|line| output.faint(&line)));
    let mut lines: Vec<String> =
        texts.map(|text| format!("{}{text}", " ".repeat(indent))).collect();
    let name = &entry.name;
    if is_beside {
        let padding = " ".repeat(indent - name.chars().count());
        lines[0] = format!("{}{padding}{}", output.strong(name), lines[0].trim_start());
    } else {
        lines.insert(0, output.strong(name));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_stand_beside_names_or_where_there_is_no_room_below_them() {
        let entry = ExperimentEntry {
            name: "s000/a-name-of-some-length".into(),
            title: Ok("A title of an experiment that says what it is about".into()),
            question: "Does it cost more than it is worth, and on which device?".into(),
            origin: "embedded".into(),
        };
        let wide = lines_of(&entry, 30, Output::plain(80)).join("\n");
        assert!(wide.starts_with("s000/a-name-of-some-length      A title of an exp"), "{wide}");
        let narrow = lines_of(&entry, 30, Output::plain(40)).join("\n");
        assert!(narrow.starts_with("s000/a-name-of-some-length\n  A title of an"), "{narrow}");
        for (text, width) in [(wide, 80), (narrow, 40)] {
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            let words: Vec<&str> = text.split_whitespace().collect();
            assert!(words.join(" ").ends_with("on which device?"), "{text}");
        }
    }
}
