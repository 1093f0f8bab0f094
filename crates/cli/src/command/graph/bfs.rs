//! `nandu graph bfs`: breadth-first search over a list of edges, in memory that is given.
//!
//! ```text
//!   FILE ─► sorted by node ─► adjacency arrays ─► levels        three steps, each with its requests
//! ```

use super::parse_format;
use crate::Context;
use crate::command::beyond::{BeyondArguments, Course, Means, Places, at_work, counts_of};
use crate::failure::Failure;
use crate::input::Input;
use crate::progress::Progress;
use crate::run_facts::RunFacts;
use clap::{Args, ValueEnum};
use nandu_base::ByteCount;
use nandu_base::words::counted;
use nandu_external::graph::edge_list::{EdgeList, EdgeListKind, EdgeListOptions, SelfLoops};
use nandu_external::graph::{Bfs, Graph, mr_bfs};
use nandu_external::{ExternalError, IoCounts, Store};
use nandu_probe::table::{Table, time};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// So many levels are told with their nodes; a graph may have as many as it has nodes.
const LEVELS_TOLD_MAX: usize = 1_000_000;
/// So many rows of levels are shown to people, those with most nodes.
const LEVELS_SHOWN: usize = 10;
/// Nodes between two words on how far a search is.
const NODES_PER_WORD: u64 = 1024;

const STEPS: [&str; 3] = ["reading edges", "writing the graph", "searching"];

/// Say how far each node of a graph is from one, by breadth-first search in given memory
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu graph bfs roads.txt.gz --memory 256MiB
  nandu graph bfs web.u64 --source 17 --device /mnt/ssd --json
  nandu graph bfs friends.mtx --device sim:nvme-tlc-2024
  zcat edges.gz | nandu graph bfs - --self-loops refuse

FILE has undirected edges, as text (two numbers a line), pairs of numbers in binary (.u32, .u64) or \
Matrix Market, plain or packed by gzip or zstd. Nodes are 0, 1, 2 and so on; those of Matrix Market \
are told from 0, too.")]
pub(super) struct BfsArguments {
    /// The list of edges, or - for standard input
    file: PathBuf,
    /// The node where the search begins
    #[arg(long, default_value_t = 0, value_name = "NODE")]
    source: u64,
    /// How it is searched
    #[arg(long, value_enum, default_value_t = AlgorithmArgument::Mr)]
    algorithm: AlgorithmArgument,
    /// The format of FILE, if neither its bytes nor its name say it: text, u32, u64 or
    /// matrix-market
    #[arg(long, value_parser = parse_format, value_name = "FORMAT")]
    format: Option<EdgeListKind>,
    /// What becomes of edges from a node to itself
    #[arg(long, value_enum, default_value_t = SelfLoopsArgument::Drop)]
    self_loops: SelfLoopsArgument,
    /// How many nodes there are, if not as many as FILE has numbers for
    #[arg(long, value_name = "NUMBER")]
    nodes: Option<u64>,
    #[command(flatten)]
    beyond: BeyondArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum AlgorithmArgument {
    /// Munagala and Ranade: sorts the neighbours of each level
    Mr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SelfLoopsArgument {
    /// They are left out and counted: they change no distance
    Drop,
    /// The first one is an error, with its place
    Refuse,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Report<'a> {
    file: &'a Path,
    format: &'static str,
    algorithm: AlgorithmArgument,
    source: u64,
    #[serde(flatten)]
    means: Means,
    node_count: u64,
    edge_count: u64,
    /// Edges of the file, those that came twice as often as they came.
    read_edge_count: u64,
    self_loop_count: u64,
    reached_node_count: u64,
    level_count: u64,
    /// Nodes of each level, of the first million.
    levels: &'a [u64],
    /// What was asked of the devices.
    building: IoCounts,
    searching: IoCounts,
    run: RunFacts,
}

/// What was read.
#[derive(Clone, Copy)]
struct Read {
    kind: EdgeListKind,
    edge_count: u64,
    self_loop_count: u64,
}

/// What the work found.
struct Found {
    read: Read,
    node_count: u64,
    edge_count: u64,
    bfs: Bfs,
    levels: Vec<u64>,
    building: IoCounts,
    searching: IoCounts,
}

/// Searches what the command names.
pub(super) fn run(arguments: &BfsArguments, context: &Context) -> Result<(), Failure> {
    arguments.beyond.check()?;
    let (input, name) = Input::named(&arguments.file, &context.interrupt)?;
    let input_bytes = input.byte_count();
    let places = arguments.beyond.places(input_bytes.unwrap_or(0), &context.interrupt)?;
    let options = arguments.options(context);
    let list = EdgeList::open(input, &name, &options, places.grant())?;
    let progress = Progress::new(context, STEPS.len());
    let found = search(arguments, &places, (list, input_bytes), &progress)?;
    drop(progress);
    let Found { read, node_count, edge_count, bfs, levels, building, searching } = &found;
    let report = Report {
        file: &arguments.file,
        format: read.kind.label(),
        algorithm: arguments.algorithm,
        source: arguments.source,
        means: places.means(&arguments.beyond),
        node_count: *node_count,
        edge_count: *edge_count,
        read_edge_count: read.edge_count,
        self_loop_count: read.self_loop_count,
        reached_node_count: bfs.node_count,
        level_count: bfs.level_count,
        levels,
        building: *building,
        searching: *searching,
        run: RunFacts::since(context.started),
    };
    match arguments.json {
        true => context.output.json("graph bfs", &report),
        false => tell(&report, context),
    }
}

/// Does the work, and shows how far it is.
fn search(
    arguments: &BfsArguments,
    places: &Places,
    (list, input_bytes): (EdgeList, Option<u64>),
    progress: &Progress,
) -> Result<Found, Failure> {
    let stores = places.stores()?;
    let course = Arc::new(Course::default());
    course.expect(input_bytes.unwrap_or(0));
    let read_bytes = list.read_bytes();
    let (arrays, source) = (stores.0.clone(), arguments.source);
    let look = |step: u64| match step {
        0 => course.reach(read_bytes.load(Ordering::Relaxed)),
        1 => course.reach(arrays.counts().write_bytes),
        _ => {}
    };
    let work = {
        let course = Arc::clone(&course);
        move || Ok(build_and_search(list, &stores, source, &course)?)
    };
    at_work(progress, &STEPS, &course, look, work)
}

fn build_and_search(
    list: EdgeList,
    stores: &(Store, Store),
    source: u64,
    course: &Course,
) -> Result<Found, ExternalError> {
    let both = (&stores.0, &stores.1);
    let grant = stores.0.grant().clone();
    let mut read = None;
    // What the list takes of the grant is given back before the arrays are written.
    let bytes = grant.free_bytes();
    let count = |list: &EdgeList| {
        let node_count = list.node_count()?;
        let edge_count = list.edge_count();
        read =
            Some(Read { kind: list.kind(), edge_count, self_loop_count: list.self_loop_count() });
        let written = stores.0.counts().write_bytes;
        course.next_step(written + (node_count + edge_count) * 16);
        Ok(node_count)
    };
    let graph = Graph::build_counted(both, list, u64::MAX, count, bytes)?;
    let building = counts_of(both);
    course.next_step(graph.node_count());
    let (mut levels, mut seen) = (Vec::new(), 0_u64);
    let visit = |_: u64, level: u64| {
        let level = usize::try_from(level).unwrap_or(usize::MAX);
        if level < LEVELS_TOLD_MAX {
            if level == levels.len() {
                levels.push(0);
            }
            levels[level] += 1;
        }
        seen += 1;
        if seen.is_multiple_of(NODES_PER_WORD) {
            course.reach(seen);
        }
        Ok(())
    };
    let bfs = mr_bfs(&graph, source, grant.free_bytes(), visit)?;
    Ok(Found {
        read: read.expect("nodes are counted when all was read"),
        node_count: graph.node_count(),
        edge_count: graph.edge_count(),
        bfs,
        levels,
        building,
        searching: counts_of(both).since(&building),
    })
}

impl BfsArguments {
    fn options(&self, context: &Context) -> EdgeListOptions {
        let self_loops = match self.self_loops {
            SelfLoopsArgument::Drop => SelfLoops::Drop,
            SelfLoopsArgument::Refuse => SelfLoops::Refuse,
        };
        let stop = context.interrupt.flag();
        EdgeListOptions { kind: self.format, self_loops, node_count: self.nodes, stop }
    }
}

fn tell(report: &Report<'_>, context: &Context) -> Result<(), Failure> {
    let output = context.output;
    let edges = counted(report.edge_count, "edge");
    output.heading(&format!(
        "{}: {}, {edges}",
        report.file.display(),
        counted(report.node_count, "node")
    ))?;
    if report.self_loop_count > 0 {
        let loops = counted(report.self_loop_count, "edge");
        output.line(&format!("{loops} from a node to itself left out"))?;
    }
    output.line(&format!(
        "{} reached from node {}, in {}",
        counted(report.reached_node_count, "node"),
        report.source,
        counted(report.level_count, "level")
    ))?;
    let mut largest: Vec<usize> = (0..report.levels.len()).collect();
    largest.sort_by_key(|&level| std::cmp::Reverse(report.levels[level]));
    largest.truncate(LEVELS_SHOWN);
    largest.sort_unstable();
    let mut table = Table::new(&["level", "nodes"]);
    for level in largest {
        table.row(vec![level.to_string(), report.levels[level].to_string()]);
    }
    output.table(&table)?;
    let mut table = Table::new(&["", "read", "written", "requests", "waited"]);
    for (name, counts) in [("building", &report.building), ("searching", &report.searching)] {
        table.row(vec![
            name.to_owned(),
            ByteCount(counts.read_bytes).to_string(),
            ByteCount(counts.write_bytes).to_string(),
            (counts.read_blocks + counts.write_blocks).to_string(),
            time(counts.wait_ns as f64),
        ]);
    }
    output.table(&table)?;
    output.line(&report.means.line())
}
