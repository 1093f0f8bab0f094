//! `nandu external`: records of a fixed size that do not fit into memory, sorted, and lists, ranked.

mod rank;
mod records;
mod sort;

use crate::Context;
use crate::command::beyond::{BeyondArguments, Places};
use crate::command::kept::{Kept, locked};
use crate::failure::Failure;
use clap::{Args, Subcommand};
use std::sync::{Arc, Mutex};

/// Sort records that do not fit into memory, or rank the elements of a list
#[derive(Debug, Args)]
pub(crate) struct ExternalArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Sort(Box<sort::SortArguments>),
    Rank(Box<rank::RankArguments>),
}

/// Does what the command line asks.
pub(crate) fn run(arguments: &ExternalArguments, context: &Context) -> Result<(), Failure> {
    match &arguments.action {
        Action::Sort(arguments) => sort::run(arguments, context),
        Action::Rank(arguments) => rank::run(arguments, context),
    }
}

/// Volumes for files about so much as the input has bytes, with what was kept on them.
fn places_of(
    beyond: &BeyondArguments,
    kept: Option<&Arc<Mutex<Kept>>>,
    input_bytes: u64,
    context: &Context,
) -> Result<Places, Failure> {
    let kept = kept.map(|kept| locked(kept));
    let keeping = kept.as_deref().map(Kept::keeping);
    beyond.places(input_bytes, keeping.as_ref(), &context.interrupt)
}
