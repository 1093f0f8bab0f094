//! `nandu completions`: what a shell needs to complete the words of a command line.

use crate::failure::Failure;
use crate::{Arguments, Context};
use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};
use serde::Serialize;

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu completions bash > ~/.local/share/bash-completion/completions/nandu
  nandu completions zsh > ~/.zfunc/_nandu             with ~/.zfunc in fpath
  nandu completions fish > ~/.config/fish/completions/nandu.fish")]
pub(crate) struct CompletionsArguments {
    /// The shell that reads them
    #[arg(value_enum)]
    shell: Shell,
    /// Print the script inside JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Script {
    shell: String,
    script: String,
}

/// Prints the completions for a shell.
pub(crate) fn run(arguments: &CompletionsArguments, context: &Context) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(arguments.shell, &mut Arguments::command(), "nandu", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    if arguments.json {
        let shell = arguments.shell.to_string();
        return context.output.json("completions", &Script { shell, script });
    }
    context.output.text(&script)
}
