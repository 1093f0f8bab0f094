//! `nandu graph`: graphs that do not fit into memory, searched and made.

mod bfs;
mod foresight;
mod levels;
mod make;

use crate::Context;
use crate::failure::Failure;
use clap::{Args, Subcommand};
use nandu_external::graph::edge_list::EdgeListKind;

/// Search a graph that does not fit into memory, or make one
#[derive(Debug, Args)]
pub(crate) struct GraphArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Bfs(Box<bfs::BfsArguments>),
    Make(Box<make::MakeArguments>),
}

/// Does what the command line asks.
pub(crate) fn run(arguments: &GraphArguments, context: &Context) -> Result<(), Failure> {
    match &arguments.action {
        Action::Bfs(arguments) => bfs::run(arguments, context),
        Action::Make(arguments) => make::run(arguments, context),
    }
}

/// For clap: a format of edge lists.
fn parse_format(text: &str) -> Result<EdgeListKind, String> {
    EdgeListKind::named(text).ok_or_else(|| {
        let names = EdgeListKind::ALL.map(EdgeListKind::label).join(", ");
        format!("there is no format `{text}`; there are {names}")
    })
}
