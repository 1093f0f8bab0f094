//! `nandu trace`: traces of an engine's pages, summed up and done again over a propagation.

mod replay;
mod stat;

use crate::Context;
use crate::failure::Failure;
use clap::{Args, Subcommand};

/// Sum up the trace of an engine's pages, or replay it over another way of placing pages
#[derive(Debug, Args)]
pub(crate) struct TraceArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Stat(stat::StatArguments),
    Replay(Box<replay::ReplayArguments>),
}

/// Does what the command line asks.
pub(crate) fn run(arguments: &TraceArguments, context: &Context) -> Result<(), Failure> {
    match &arguments.action {
        Action::Stat(arguments) => stat::run(arguments, context),
        Action::Replay(arguments) => replay::run(arguments, context),
    }
}
