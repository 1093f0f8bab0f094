//! `nandu trace`: traces of an engine's pages, summed up, done again over a propagation, and met by tiers.

mod replay;
mod stat;
mod tier;

use crate::Context;
use crate::failure::Failure;
use clap::{Args, Subcommand};

/// Sum up the trace of an engine's pages, replay it over another way of placing pages, or ask what a
/// tier of flash would find
#[derive(Debug, Args)]
pub(crate) struct TraceArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Stat(stat::StatArguments),
    Replay(Box<replay::ReplayArguments>),
    Tier(tier::TierArguments),
}

/// Does what the command line asks.
pub(crate) fn run(arguments: &TraceArguments, context: &Context) -> Result<(), Failure> {
    match &arguments.action {
        Action::Stat(arguments) => stat::run(arguments, context),
        Action::Replay(arguments) => replay::run(arguments, context),
        Action::Tier(arguments) => tier::run(arguments, context),
    }
}
