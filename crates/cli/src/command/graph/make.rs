//! `nandu graph make`: writes a graph of a class as a list of edges.

use super::parse_format;
use crate::Context;
use crate::failure::Failure;
use crate::output::{OutputFiles, cannot_write};
use crate::progress::Progress;
use clap::{Args, Subcommand};
use nandu_base::words::counted;
use nandu_external::RecordStream;
use nandu_external::graph::edge_list::{EdgeListKind, EdgeListWriter};
use nandu_external::graph::{EdgeStream, GraphClass};
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Edges between two looks at the progress.
const EDGES_PER_LOOK: u64 = 1 << 14;
/// Nodes and edges of a graph, at most: they are permuted.
const COUNT_MAX: u64 = 1 << 62;

/// Write a graph of some class as a list of edges
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu graph make grid --width 1000 --height 1000 grid.txt
  nandu graph make random --nodes 1000000 --edges 8000000 random.u32
  nandu graph make paths --paths 1000 --levels 1000 --shuffled paths.u64
  nandu graph make line --nodes 100 -              to standard output

The end of the file's name says its format: .u32 and .u64 are pairs of numbers, the least significant \
byte first, .mtx is Matrix Market, all else text.")]
pub(super) struct MakeArguments {
    #[command(subcommand)]
    class: ClassArgument,
}

#[derive(Debug, Subcommand)]
enum ClassArgument {
    /// Nodes in a row
    Line {
        /// How many nodes
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
        nodes: u64,
        #[command(flatten)]
        to: ToArguments,
    },
    /// Rows of nodes, joined to those beside and below
    Grid {
        /// Nodes of a row
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
        width: u64,
        /// How many rows
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
        height: u64,
        #[command(flatten)]
        to: ToArguments,
    },
    /// Paths that begin at one node, as in figure 4.1 of S002
    Paths {
        /// How many paths
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
        paths: u64,
        /// Nodes of a path besides the first
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
        levels: u64,
        #[command(flatten)]
        to: ToArguments,
    },
    /// Edges between nodes that are drawn
    Random {
        /// How many nodes
        #[arg(long, value_parser = clap::value_parser!(u64).range(2..))]
        nodes: u64,
        /// How many edges, some of them perhaps twice
        #[arg(long)]
        edges: u64,
        #[command(flatten)]
        to: ToArguments,
    },
    /// Edges as webs have them: a few nodes with very many, many with few or none
    Web {
        /// How many nodes
        #[arg(long, value_parser = clap::value_parser!(u64).range(2..))]
        nodes: u64,
        /// How many edges, some of them perhaps twice
        #[arg(long)]
        edges: u64,
        #[command(flatten)]
        to: ToArguments,
    },
}

#[derive(Debug, Args)]
struct ToArguments {
    /// The file, or - for standard output
    file: PathBuf,
    /// The format, if the file's name does not say it: text, u32, u64 or matrix-market
    #[arg(long, value_parser = parse_format, value_name = "FORMAT")]
    format: Option<EdgeListKind>,
    /// Give edges in random order, and nodes random numbers
    #[arg(long)]
    shuffled: bool,
    /// Of what is random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    files: OutputFiles,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Made<'a> {
    file: &'a Path,
    format: &'static str,
    node_count: u64,
    edge_count: u64,
    /// The number that the first node of the class has: the end of a line, the corner of a grid, where paths
    /// begin.
    first_node: u64,
}

/// Makes what the command names.
pub(super) fn run(arguments: &MakeArguments, context: &Context) -> Result<(), Failure> {
    let (class, to) = arguments.class.class();
    check_counts(class)?;
    let name = to.file.to_string_lossy();
    if let Some(end) = EdgeListKind::packed_end(&name) {
        return Err(Failure::input(format!(
            "{name}: a list is written as it is; name it without {end} and pack it afterwards"
        )));
    }
    let of_name = || EdgeListKind::of_name(&name);
    let kind = to.format.or_else(of_name).unwrap_or(EdgeListKind::Text);
    kind.check(class.node_count())?;
    if to.file == Path::new("-") {
        if to.json {
            return Err(Failure::input("--json prints what was made; name a file for the edges"));
        }
        return context.interrupt.at_any_time(|| {
            let progress = Progress::new(context, 1);
            write(class, kind, to, &progress, io::stdout().lock(), &|error| {
                Failure::system("cannot write to stdout", error)
            })
        });
    }
    to.files.check(&to.file)?;
    let progress = Progress::new(context, 1);
    let partial = to.files.begin(&to.file, &context.interrupt)?;
    let failed = |error: &io::Error| cannot_write(&to.file, error);
    write(class, kind, to, &progress, partial.as_file(), &failed)?;
    to.files.finish(partial, &to.file)?;
    drop(progress);
    let (node_count, edge_count) = (class.node_count(), class.edge_count());
    let first_node = edges_of(class, to).node(0);
    if to.json {
        let (file, format) = (to.file.as_path(), kind.label());
        let made = Made { file, format, node_count, edge_count, first_node };
        return context.output.json("graph make", &made);
    }
    let (nodes, edges) = (counted(node_count, "node"), counted(edge_count, "edge"));
    context.output.line(&format!("{nodes}, {edges}; the first one of its class is {first_node}"))
}

fn edges_of(class: GraphClass, to: &ToArguments) -> EdgeStream {
    if to.shuffled { class.shuffled_edges(to.seed) } else { class.edges(to.seed) }
}

fn write(
    class: GraphClass,
    kind: EdgeListKind,
    to: &ToArguments,
    progress: &Progress,
    out: impl Write,
    failed: &dyn Fn(&io::Error) -> Failure,
) -> Result<(), Failure> {
    let all = class.edge_count();
    let mut writer = EdgeListWriter::begin(kind, class.node_count(), all, out)
        .map_err(|error| failed(&error))?;
    let mut edges = edges_of(class, to);
    let mut written = 0_u64;
    while let Some(edge) = edges.next_record()? {
        if written.is_multiple_of(EDGES_PER_LOOK) {
            progress.show(written as f64 / all as f64, "writing edges");
            if progress.is_interrupted() {
                return Err(Failure::interrupted("no file was left behind"));
            }
        }
        writer.push(edge).map_err(|error| failed(&error))?;
        written += 1;
    }
    writer.finish().map_err(|error| failed(&error))
}

impl ClassArgument {
    const fn class(&self) -> (GraphClass, &ToArguments) {
        match self {
            Self::Line { nodes, to } => (GraphClass::Line { nodes: *nodes }, to),
            Self::Grid { width, height, to } => {
                (GraphClass::Grid { width: *width, height: *height }, to)
            }
            Self::Paths { paths, levels, to } => {
                (GraphClass::Paths { paths: *paths, levels: *levels }, to)
            }
            Self::Random { nodes, edges, to } => {
                (GraphClass::Random { nodes: *nodes, edges: *edges }, to)
            }
            Self::Web { nodes, edges, to } => {
                (GraphClass::Web { nodes: *nodes, edges: *edges }, to)
            }
        }
    }
}

/// Refuses graphs whose nodes and edges cannot be counted.
fn check_counts(class: GraphClass) -> Result<(), Failure> {
    let product =
        |left: u64, right: u64| left.checked_mul(right).map(|count| count.saturating_mul(2));
    let most = match class {
        GraphClass::Line { nodes } => Some(nodes),
        GraphClass::Random { nodes, edges } | GraphClass::Web { nodes, edges } => {
            Some(nodes.max(edges))
        }
        GraphClass::Grid { width, height } => product(width, height),
        GraphClass::Paths { paths, levels } => product(paths, levels),
    };
    match most.filter(|&count| count <= COUNT_MAX) {
        Some(_) => Ok(()),
        None => {
            Err(Failure::input("the graph has more than 2^62 nodes or edges; make a smaller one"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_that_cannot_be_counted_are_refused() {
        assert!(check_counts(GraphClass::Grid { width: 1000, height: 1000 }).is_ok());
        assert!(check_counts(GraphClass::Grid { width: 1 << 40, height: 1 << 40 }).is_err());
        assert!(check_counts(GraphClass::Paths { paths: 1 << 31, levels: 1 << 31 }).is_err());
        assert!(check_counts(GraphClass::Random { nodes: 2, edges: u64::MAX }).is_err());
    }
}
