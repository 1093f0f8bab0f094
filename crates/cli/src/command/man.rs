//! `nandu man`: a page of the manual for each command.

use crate::failure::Failure;
use crate::output::OutputFiles;
use crate::{Arguments, Context};
use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// Write a page of the manual for each command
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu man ~/.local/share/man/man1     then `man nandu`, `man nandu-probe`, `man nandu-db-load`")]
pub(crate) struct ManArguments {
    /// Where the pages go; made if it is not there
    directory: PathBuf,
    /// Print the paths of the pages as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    files: OutputFiles,
}

#[derive(Serialize)]
struct Pages {
    pages: Vec<PathBuf>,
}

/// Writes the pages of the manual.
pub(crate) fn run(arguments: &ManArguments, context: &Context) -> Result<(), Failure> {
    let directory = &arguments.directory;
    fs::create_dir_all(directory)
        .map_err(|error| Failure::system(format!("cannot make {}", directory.display()), &error))?;
    let mut command = Arguments::command();
    command.build();
    let mut pages = Vec::new();
    page(&command, directory, &mut pages)?;
    for (path, _) in &pages {
        arguments.files.check(path)?;
    }
    for (path, page) in &pages {
        arguments.files.write(path, page, &context.interrupt)?;
    }
    let pages: Vec<PathBuf> = pages.into_iter().map(|(path, _)| path).collect();
    if arguments.json {
        return context.output.json("man", &Pages { pages });
    }
    context.output.line(&format!("{} pages in {}", pages.len(), directory.display()))
}

/// The page of a command and those of its own commands, which bear its name before theirs once the command
/// has been built: `nandu-db-load`.
fn page(
    command: &Command,
    directory: &Path,
    pages: &mut Vec<(PathBuf, Vec<u8>)>,
) -> Result<(), Failure> {
    let mut text = Vec::new();
    Man::new(command.clone())
        .render(&mut text)
        .map_err(|error| Failure::system("cannot write a page of the manual", &error))?;
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    pages.push((directory.join(format!("{name}.1")), text));
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        page(inner, directory, pages)?;
    }
    Ok(())
}
