//! `nandu graph bfs`: breadth-first search over a list of edges, in memory that is given.
//!
//! ```text
//!   FILE ─► sorted by node ─► adjacency arrays ─► levels        three steps, each with its requests
//! ```

use super::kept::{Asked, Kept, KeptSearch};
use super::parse_format;
use crate::Context;
use crate::command::beyond::{BeyondArguments, Course, Means, at_work, counts_of};
use crate::failure::Failure;
use crate::input::Input;
use crate::progress::Progress;
use crate::run_facts::RunFacts;
use clap::{Args, ValueEnum};
use nandu_base::ByteCount;
use nandu_base::words::counted;
use nandu_external::graph::edge_list::{EdgeList, EdgeListKind, EdgeListOptions, SelfLoops};
use nandu_external::graph::{
    Bfs, Clustering, ClusteringSettings, Graph, KeptGraph, PoolCounts, PoolSettings, mr_bfs,
};
use nandu_external::{ExternalError, IoCounts, KeptStore, Store};
use nandu_probe::table::{Table, time};
use serde::Serialize;
use serde_json::json;
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
const STEPS_OF_MM: [&str; 4] =
    ["reading edges", "writing the graph", "clustering nodes", "searching"];

/// Say how far each node of a graph is from one, by breadth-first search in given memory
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu graph bfs roads.txt.gz --memory 256MiB
  nandu graph bfs web.u64 --source 17 --device /mnt/ssd --json
  nandu graph bfs friends.mtx --device sim:nvme-tlc-2024
  zcat edges.gz | nandu graph bfs - --self-loops refuse
  nandu graph bfs web.u64 --keep run        and, whatever ended it:
  nandu graph bfs web.u64 --resume run

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
    /// Nodes of a cluster of `mm`, about; what the model says if not given
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    cluster_nodes: Option<u64>,
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
    /// Keep in this directory, which is made, what is needed to go on after an end in the middle
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    keep: Option<PathBuf>,
    /// Go on with what was kept in this directory; all else is asked as before, but for the memory
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum AlgorithmArgument {
    /// Munagala and Ranade: reads the neighbours of each node by themselves
    Mr,
    /// Mehlhorn and Meyer: reads clusters of nodes, for graphs with many levels
    Mm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
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
    was_resumed: bool,
    /// What was asked of the devices.
    building: IoCounts,
    searching: IoCounts,
    clusters: Option<&'a Clusters>,
    run: RunFacts,
}

/// What was built.
struct Built {
    kind: EdgeListKind,
    edge_count: u64,
    self_loop_count: u64,
    building: IoCounts,
    /// The graph, where it is kept.
    kept: Option<(KeptStore, KeptGraph)>,
}

/// What the work found.
struct Found {
    built: Built,
    node_count: u64,
    edge_count: u64,
    bfs: Bfs,
    levels: Vec<u64>,
    searching: IoCounts,
    clusters: Option<Clusters>,
}

/// What clusters a search by them had, and what it did with them.
#[derive(Clone, Copy, Serialize)]
struct Clusters {
    cluster_count: u64,
    /// Nodes of a cluster, about.
    cluster_nodes: u64,
    /// What was asked of the devices for them, before the search.
    clustering: IoCounts,
    pool: PoolCounts,
}

/// How a graph is searched, and from where.
#[derive(Clone, Copy)]
struct Search {
    algorithm: AlgorithmArgument,
    source: u64,
    cluster_nodes: Option<u64>,
    /// Whether the graph has to stay when its clusters are there.
    is_kept: bool,
}

/// What the work begins with.
enum Begun {
    List(Box<EdgeList>),
    Graph(Box<KeptSearch>),
}

/// Searches what the command names.
pub(super) fn run(arguments: &BfsArguments, context: &Context) -> Result<(), Failure> {
    arguments.beyond.check()?;
    let mut kept = arguments.kept()?;
    let outcome = find(arguments, kept.as_mut(), context);
    let (found, means) = outcome.map_err(|failure| match &kept {
        Some(kept) => kept.explain(failure),
        None => failure,
    })?;
    drop(kept);
    let report = arguments.report(&found, means, context);
    match arguments.json {
        true => context.output.json("graph bfs", &report),
        false => tell(&report, context),
    }
}

/// Does the work. What is not kept is gone when this returns.
fn find(
    arguments: &BfsArguments,
    mut kept: Option<&mut Kept>,
    context: &Context,
) -> Result<(Found, Means), Failure> {
    let searched = kept.as_ref().and_then(|kept| kept.searched().cloned());
    let opened = match searched {
        Some(_) => None,
        None => Some(Input::named(&arguments.file, &context.interrupt)?),
    };
    let input_bytes = opened.as_ref().and_then(|(input, _)| input.byte_count()).unwrap_or(0);
    let places = {
        let keeping = kept.as_ref().map(|kept| kept.keeping());
        arguments.beyond.places_kept(input_bytes, keeping.as_ref(), &context.interrupt)?
    };
    let (begun, stores) = match (searched, opened) {
        (Some(searched), _) => {
            let stores = places.stores_resumed((&searched.store, &searched.graph.vectors()))?;
            (Begun::Graph(Box::new(searched)), stores)
        }
        (None, opened) => {
            let (input, name) = opened.expect("what is not kept was opened");
            let options = arguments.options(context);
            let list = EdgeList::open(input, &name, &options, places.grant())?;
            (Begun::List(Box::new(list)), places.stores()?)
        }
    };
    let steps: &[&str] = match arguments.algorithm {
        AlgorithmArgument::Mr => &STEPS,
        AlgorithmArgument::Mm => &STEPS_OF_MM,
    };
    let progress = Progress::new(context, steps.len());
    let course = Arc::new(Course::default());
    course.expect(input_bytes);
    let (graph, built) =
        build_watched(begun, &stores, kept.is_some(), (&course, &progress, steps))?;
    if let (Some(kept), Some((store, graph))) = (&mut kept, &built.kept) {
        kept.note_graph(KeptSearch {
            store: store.clone(),
            graph: graph.clone(),
            format: built.kind.label().to_owned(),
            edge_count: built.edge_count,
            self_loop_count: built.self_loop_count,
            building: built.building,
        })?;
    }
    let (node_count, edge_count) = (graph.node_count(), graph.edge_count());
    let before = counts_of((&stores.0, &stores.1));
    let walk = {
        let (course, stores) = (Arc::clone(&course), stores.clone());
        let search = arguments.search(kept.is_some());
        move || Ok(walk(graph, &stores, search, &course)?)
    };
    let (bfs, levels, clusters) = at_work(&progress, steps, &course, |_| {}, walk)?;
    let mut searching = counts_of((&stores.0, &stores.1)).since(&before);
    if let Some(clusters) = &clusters {
        searching = searching.since(&clusters.clustering);
    }
    if let Some(kept) = kept {
        kept.finish();
    }
    let found = Found { built, node_count, edge_count, bfs, levels, searching, clusters };
    Ok((found, places.means(&arguments.beyond)))
}

/// Builds the graph, and shows how far that is.
fn build_watched(
    begun: Begun,
    stores: &(Store, Store),
    is_kept: bool,
    (course, progress, steps): (&Arc<Course>, &Progress, &[&str]),
) -> Result<(Graph, Built), Failure> {
    let read_bytes = match &begun {
        Begun::List(list) => list.read_bytes(),
        Begun::Graph(_) => Arc::default(),
    };
    let look = |step: u64| match step {
        0 => course.reach(read_bytes.load(Ordering::Relaxed)),
        1 => course.reach(stores.0.counts().write_bytes),
        _ => {}
    };
    let work = {
        let (course, stores) = (Arc::clone(course), stores.clone());
        move || {
            let (graph, mut built) = build(begun, &stores, &course)?;
            if is_kept {
                built.kept = Some((stores.0.keep()?, graph.kept()));
            }
            course.next_step(graph.node_count());
            Ok((graph, built))
        }
    };
    at_work(progress, steps, course, look, work)
}

fn build(
    begun: Begun,
    stores: &(Store, Store),
    course: &Course,
) -> Result<(Graph, Built), ExternalError> {
    let list = match begun {
        Begun::List(list) => *list,
        Begun::Graph(kept) => {
            course.next_step(0);
            let KeptSearch { graph, format, edge_count, self_loop_count, building, .. } = *kept;
            let kind = EdgeListKind::named(&format).unwrap_or(EdgeListKind::Text);
            let built = Built { kind, edge_count, self_loop_count, building, kept: None };
            return Ok((Graph::resume(&stores.0, &graph)?, built));
        }
    };
    let both = (&stores.0, &stores.1);
    let (kind, mut counts) = (list.kind(), (0, 0));
    // What the list takes of the grant is given back before the arrays are written.
    let bytes = stores.0.grant().free_bytes();
    let count = |list: &EdgeList| {
        counts = (list.edge_count(), list.self_loop_count());
        let node_count = list.node_count()?;
        let written = stores.0.counts().write_bytes;
        course.next_step(written + (node_count + counts.0) * 16);
        Ok(node_count)
    };
    let graph = Graph::build_counted(both, list, u64::MAX, count, bytes)?;
    let (edge_count, self_loop_count) = counts;
    let building = counts_of(both);
    Ok((graph, Built { kind, edge_count, self_loop_count, building, kept: None }))
}

/// Searches, and counts the nodes of each level.
fn walk(
    graph: Graph,
    (arrays, sorted): &(Store, Store),
    search: Search,
    course: &Course,
) -> Result<(Bfs, Vec<u64>, Option<Clusters>), ExternalError> {
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
    let Search { algorithm, source, cluster_nodes, is_kept } = search;
    let free_bytes = || arrays.grant().free_bytes();
    if algorithm == AlgorithmArgument::Mr {
        let bfs = mr_bfs(&graph, source, free_bytes(), visit)?;
        return Ok((bfs, levels, None));
    }
    let both = (arrays, sorted);
    let (before, node_count) = (counts_of(both), graph.node_count());
    let settings = ClusteringSettings { cluster_nodes, ..ClusteringSettings::default() };
    let clustering = Clustering::build(&graph, source, both, free_bytes(), settings)?;
    // Its room is of use, unless somebody may have to begin with it again.
    let graph = Some(graph).filter(|_| is_kept);
    let counts = counts_of(both).since(&before);
    course.next_step(node_count);
    let settings = PoolSettings::default();
    let found = clustering.search(source, sorted, free_bytes(), settings, visit)?;
    drop(graph);
    let clusters = Clusters {
        cluster_count: clustering.cluster_count(),
        cluster_nodes: clustering.cluster_nodes(),
        clustering: counts,
        pool: found.counts,
    };
    Ok((found.bfs, levels, Some(clusters)))
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

    const fn search(&self, is_kept: bool) -> Search {
        let Self { algorithm, source, cluster_nodes, .. } = *self;
        Search { algorithm, source, cluster_nodes, is_kept }
    }

    /// What is kept, or was, if any is asked for.
    fn kept(&self) -> Result<Option<Kept>, Failure> {
        match (&self.keep, &self.resume) {
            (Some(directory), _) => Kept::begin(directory, &self.file, self.asked()?).map(Some),
            (None, Some(directory)) => {
                Kept::resume(directory, &self.file, &self.asked()?).map(Some)
            }
            (None, None) => Ok(None),
        }
    }

    /// What has to be the same when a search goes on.
    fn asked(&self) -> Result<Asked, Failure> {
        let (devices, block_bytes) = self.beyond.of_kept()?;
        let file = std::fs::canonicalize(&self.file).unwrap_or_else(|_| self.file.clone());
        let pairs = [
            ("file", json!(file.to_string_lossy())),
            ("--source", json!(self.source)),
            ("--algorithm", json!(self.algorithm)),
            ("--cluster-nodes", json!(self.cluster_nodes)),
            ("--format", json!(self.format.map(EdgeListKind::label))),
            ("--self-loops", json!(self.self_loops)),
            ("--nodes", json!(self.nodes)),
            ("--device", devices),
            ("--block-size", json!(block_bytes)),
        ];
        Ok(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    fn report<'a>(&'a self, found: &'a Found, means: Means, context: &Context) -> Report<'a> {
        Report {
            file: &self.file,
            format: found.built.kind.label(),
            algorithm: self.algorithm,
            source: self.source,
            means,
            node_count: found.node_count,
            edge_count: found.edge_count,
            read_edge_count: found.built.edge_count,
            self_loop_count: found.built.self_loop_count,
            reached_node_count: found.bfs.node_count,
            level_count: found.bfs.level_count,
            levels: &found.levels,
            was_resumed: self.resume.is_some(),
            building: found.built.building,
            searching: found.searching,
            clusters: found.clusters.as_ref(),
            run: RunFacts::since(context.started),
        }
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
    let clustering = report.clusters.map(|clusters| ("clustering", &clusters.clustering));
    let steps =
        [Some(("building", &report.building)), clustering, Some(("searching", &report.searching))];
    for (name, counts) in steps.into_iter().flatten() {
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
