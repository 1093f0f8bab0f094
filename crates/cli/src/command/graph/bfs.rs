//! `nandu graph bfs`: breadth-first search over a list of edges, in memory that is given.
//!
//! ```text
//!   FILE ─► sorted by node ─► adjacency arrays ───────────────► levels      each with its requests
//!                                    │ kept     └─► clusters ──►
//!                                    ▼                 │ kept
//!                        another process goes on ◄─────┘
//! ```

use super::foresight::{Foresight, SearchPrediction, sorted_sizes};
use super::levels::{LEVELS_SHOWN, Levels};
use super::parse_format;
use crate::Context;
use crate::command::beyond::{BeyondArguments, Course, Means, Places, Role, at_work, counts_of};
use crate::command::kept::{Asked, KeepArguments, Kept, asked_of};
use crate::command::prediction::{Probe, Taken};
use crate::failure::Failure;
use crate::input::Input;
use crate::output::complain;
use crate::progress::Progress;
use crate::run_facts::RunFacts;
use clap::{Args, ValueEnum};
use nandu_base::words::counted;
use nandu_base::{ByteCount, Nanos};
use nandu_external::graph::edge_list::{EdgeList, EdgeListKind, EdgeListOptions, SelfLoops};
use nandu_external::graph::{
    Bfs, Clustering, ClusteringKind, ClusteringSettings, Graph, KeptClustering, KeptGraph,
    PoolCounts, PoolSettings,
};
use nandu_external::{ExternalError, IoCounts, KeptStore, KeptVector, Store};
use nandu_probe::table::{Table, time};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
  nandu probe /mnt/ssd --queue-depth 1,4,5,10,32 --profile ssd.json
  nandu graph bfs web.u64 --device /mnt/ssd --predict ssd.json

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
    /// How `mm` makes clusters
    #[arg(long, value_enum, default_value_t = ClusteringArgument::Tour)]
    clustering: ClusteringArgument,
    /// Of what `mm` draws
    #[arg(long, default_value_t = 1)]
    seed: u64,
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
    /// Say before, from the profile of the device that `nandu probe --profile` wrote, how long building the
    /// graph, making clusters of it and searching it will take, and after how long they took
    #[arg(long, value_name = "PROFILE", conflicts_with = "resume")]
    predict: Option<PathBuf>,
    /// Levels that --predict assumes, each of as many nodes; those of a random graph if not given
    #[arg(long, value_name = "NUMBER", requires = "predict",
          value_parser = clap::value_parser!(u64).range(1..))]
    expect_levels: Option<u64>,
    #[command(flatten)]
    beyond: BeyondArguments,
    #[command(flatten)]
    keep: KeepArguments,
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
enum ClusteringArgument {
    /// Pieces of an Euler tour of a spanning tree
    Tour,
    /// Around nodes that are drawn, in rounds
    Random,
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
    format: &'a str,
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
    /// Levels behind these.
    levels_left_out_count: u64,
    #[serde(skip)]
    largest_later: &'a [(u64, u64)],
    was_resumed: bool,
    /// What was asked of the devices.
    building: IoCounts,
    searching: IoCounts,
    clusters: Option<&'a Clusters>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prediction: Option<&'a SearchPrediction>,
    run: RunFacts,
}

/// What was built.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Built {
    /// The name of the format.
    format: String,
    node_count: u64,
    edge_count: u64,
    /// Edges of the file.
    read_edge_count: u64,
    self_loop_count: u64,
    building: IoCounts,
}

/// A search that is kept: what its list told, and how far it came.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptSearch {
    store: KeptStore,
    built: Built,
    phase: KeptPhase,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum KeptPhase {
    Graph(KeptGraph),
    Clusters { clusters: KeptClustering, clustering: IoCounts },
}

impl KeptPhase {
    fn vectors(&self) -> [&KeptVector; 2] {
        match self {
            Self::Graph(graph) => graph.vectors(),
            Self::Clusters { clusters, .. } => clusters.vectors(),
        }
    }
}

/// What the work found.
struct Found {
    built: Built,
    bfs: Bfs,
    levels: Levels,
    searching: IoCounts,
    clusters: Option<Clusters>,
    prediction: Option<SearchPrediction>,
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

/// What the work begins with.
enum Begun {
    List(Box<EdgeList>),
    Kept(Box<KeptSearch>),
}

/// What is searched.
enum Ground {
    Graph(Graph),
    /// Clusters, and what was asked of the devices for them.
    Clusters(Clustering, IoCounts),
}

impl Ground {
    fn kept(&self) -> KeptPhase {
        match self {
            Self::Graph(graph) => KeptPhase::Graph(graph.kept()),
            Self::Clusters(clusters, clustering) => {
                KeptPhase::Clusters { clusters: clusters.kept(), clustering: *clustering }
            }
        }
    }
}

/// The work: where it is done, and how far it is.
struct Work<'w> {
    stores: (Store, Store),
    course: Arc<Course>,
    progress: Progress,
    steps: &'static [&'static str],
    arguments: &'w BfsArguments,
}

/// Searches what the command names.
pub(super) fn run(arguments: &BfsArguments, context: &Context) -> Result<(), Failure> {
    arguments.beyond.check()?;
    arguments.check_source()?;
    let foresight = arguments.foresight(context)?;
    let asked = || arguments.asked();
    let mut kept = arguments.keep.kept(&arguments.file, Role::Flash, asked)?;
    let outcome = find(arguments, foresight, kept.as_mut(), context);
    let outcome = outcome.map_err(|failure| arguments.beyond.explain(failure));
    let told = outcome.and_then(|(found, means)| {
        let report = arguments.report(&found, means, context);
        match arguments.json {
            true => context.output.json("graph bfs", &report),
            false => tell(&report, context),
        }
    });
    let Some(kept) = kept else { return told };
    kept.end(told, || {
        let has_clusters = matches!(
            kept.reached::<KeptSearch>(),
            Ok(Some(KeptSearch { phase: KeptPhase::Clusters { .. }, .. }))
        );
        if has_clusters { "its clusters are" } else { "the graph is" }
    })
}

/// Does the work. What is not kept is gone when this returns.
fn find(
    arguments: &BfsArguments,
    mut foresight: Option<Foresight>,
    mut kept: Option<&mut Kept>,
    context: &Context,
) -> Result<(Found, Means), Failure> {
    let searched = kept.as_ref().map(|kept| kept.reached::<KeptSearch>()).transpose()?.flatten();
    let opened = match searched {
        Some(_) => None,
        None => Some(Input::named(&arguments.file, &context.interrupt)?),
    };
    let known_bytes = opened.as_ref().and_then(|(input, _)| input.byte_count());
    let input_bytes = known_bytes.unwrap_or(0);
    let places = {
        let keeping = kept.as_ref().map(|kept| kept.keeping());
        arguments.beyond.places(input_bytes, keeping.as_ref(), &context.interrupt)?
    };
    let (begun, stores) = begun_of(arguments, (searched, opened), &places, context)?;
    let steps: &[&str] = match arguments.algorithm {
        AlgorithmArgument::Mr => &STEPS,
        AlgorithmArgument::Mm => &STEPS_OF_MM,
    };
    let (progress, course) =
        (Progress::of_unlike_steps(context, steps.len()), Arc::<Course>::default());
    course.expect(input_bytes);
    let work = Work { stores, course, progress, steps, arguments };
    let was_begun = matches!(begun, Begun::List(_));
    if let (Begun::List(list), Some(foresight)) = (&begun, &mut foresight) {
        let known = list.known_counts(known_bytes);
        work.say(foresight.foresee_building(&work.stores.0, known)?, context)?;
    }
    let begin = work.at();
    let (ground, built) = work.build(begun)?;
    let building = work.taken_since(begin);
    if was_begun {
        work.keep(&mut kept, &ground, &built)?;
    }
    // Another source may be asked for of a graph that is kept.
    arguments.check_source_of(built.node_count)?;
    let of_graph = (built.node_count, built.edge_count);
    if let (Ground::Graph(_), Some(foresight)) = (&ground, &mut foresight)
        && let Some(line) = foresight.foresee_clustering(&work.stores.0, of_graph)?
    {
        work.say(line, context)?;
    }
    let begin = work.at();
    let ground = match (arguments.algorithm, ground) {
        (AlgorithmArgument::Mm, Ground::Graph(graph)) => {
            let (graph, ground) = work.cluster(graph)?;
            work.keep(&mut kept, &ground, &built)?;
            // Its room is of use, and nobody begins with it again.
            drop(graph);
            ground
        }
        (_, ground) => ground,
    };
    let clustering = work.taken_since(begin);
    if let Some(foresight) = &mut foresight {
        work.say(foresight.foresee_search(&work.stores.0, of_graph, context)?, context)?;
    }
    let begin = work.at();
    let (bfs, levels, searching, clusters) = work.search(ground, built.node_count)?;
    let search = work.taken_since(begin);
    let prediction = foresight.map(|foresight| foresight.beside([building, clustering, search]));
    let found = Found { built, bfs, levels, searching, clusters, prediction };
    Ok((found, places.means(&arguments.beyond)))
}

/// What the work begins with, and where it goes on.
fn begun_of(
    arguments: &BfsArguments,
    (searched, opened): (Option<KeptSearch>, Option<(Input, String)>),
    places: &Places,
    context: &Context,
) -> Result<(Begun, (Store, Store)), Failure> {
    if let Some(searched) = searched {
        let vectors = searched.phase.vectors();
        let stores = places.stores_resumed(Role::Flash, (&searched.store, &vectors))?;
        return Ok((Begun::Kept(Box::new(searched)), stores));
    }
    let (input, name) = opened.expect("what is not kept was opened");
    let options = arguments.options(context);
    let known_bytes = input.byte_count();
    let list = EdgeList::open(input, &name, &options, places.grant())?;
    list.known_node_count().map_or(Ok(()), |count| arguments.check_source_of(count))?;
    let stores = places.stores()?;
    arguments.check_room(&list, known_bytes, &stores)?;
    Ok((Begun::List(Box::new(list)), stores))
}

impl Work<'_> {
    /// Where it stands: the time, and what was asked of the devices.
    fn at(&self) -> (Nanos, IoCounts) {
        (self.stores.0.now(), counts_of((&self.stores.0, &self.stores.1)))
    }

    fn taken_since(&self, (begin, before): (Nanos, IoCounts)) -> Taken {
        let (end, counts) = self.at();
        Taken::between((begin, &before), (end, &counts))
    }

    /// Builds the graph, or has again what was kept.
    fn build(&self, begun: Begun) -> Result<(Ground, Built), Failure> {
        let read_bytes = match &begun {
            Begun::List(list) => list.read_bytes(),
            Begun::Kept(_) => Arc::default(),
        };
        let look = |step: u64| match step {
            0 => self.course.reach(read_bytes.load(Ordering::Relaxed)),
            1 => self.course.reach(self.stores.0.counts().write_bytes),
            _ => {}
        };
        let work = {
            let (course, stores) = (Arc::clone(&self.course), self.stores.clone());
            move || {
                let (ground, built) = match begun {
                    Begun::List(list) => build(*list, &stores, &course)?,
                    Begun::Kept(kept) => {
                        course.next_step(0);
                        let KeptSearch { built, phase, .. } = *kept;
                        (resume(&phase, &stores.0)?, built)
                    }
                };
                course.next_step(built.node_count);
                Ok((ground, built))
            }
        };
        self.watched(look, work)
    }

    /// Brings the nodes of a graph into clusters.
    fn cluster(&self, graph: Graph) -> Result<(Graph, Ground), Failure> {
        let source = self.arguments.source;
        let (stores, settings) = (self.stores.clone(), self.arguments.clustering());
        let both = (&self.stores.0, &self.stores.1);
        let (before, bytes) = (counts_of(both), both.0.grant().free_bytes());
        self.course.expect(Clustering::expected_bytes(&graph, source, both, bytes, settings)?);
        let look = |_| {
            let moved = counts_of(both).since(&before);
            self.course.reach(moved.read_bytes + moved.write_bytes + both.0.worked_bytes());
        };
        self.watched(look, move || {
            let both = (&stores.0, &stores.1);
            let clusters = Clustering::build(&graph, source, both, bytes, settings)?;
            let clustering = counts_of(both).since(&before);
            Ok((graph, Ground::Clusters(clusters, clustering)))
        })
    }

    /// Searches, and counts the nodes of each level.
    fn search(
        &self,
        ground: Ground,
        node_count: u64,
    ) -> Result<(Bfs, Levels, IoCounts, Option<Clusters>), Failure> {
        let both = (&self.stores.0, &self.stores.1);
        let before = counts_of(both);
        if let Ground::Clusters(..) = ground {
            self.course.next_step(node_count);
        }
        let (bfs, levels, clusters) = self.watched(|_| {}, {
            let (course, stores) = (Arc::clone(&self.course), self.stores.clone());
            let source = self.arguments.source;
            move || Ok(walk(&ground, &stores, source, &course)?)
        })?;
        Ok((bfs, levels, counts_of(both).since(&before), clusters))
    }

    /// Has another process go on from here.
    fn keep(
        &self,
        kept: &mut Option<&mut Kept>,
        ground: &Ground,
        built: &Built,
    ) -> Result<(), Failure> {
        let Some(kept) = kept else { return Ok(()) };
        let store = self.stores.0.keep()?;
        kept.note(&KeptSearch { store, built: built.clone(), phase: ground.kept() })
    }

    /// Tells people a line between two steps.
    fn say(&self, line: String, context: &Context) -> Result<(), Failure> {
        match self.arguments.json {
            true => Ok(()),
            false => self.progress.aside(|| context.output.line(&line)),
        }
    }

    fn watched<T: Send + 'static>(
        &self,
        look: impl Fn(u64),
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        at_work(&self.progress, self.steps, &self.course, look, work)
    }
}

fn resume(phase: &KeptPhase, store: &Store) -> Result<Ground, ExternalError> {
    match phase {
        KeptPhase::Graph(graph) => Graph::resume(store, graph).map(Ground::Graph),
        KeptPhase::Clusters { clusters, clustering } => {
            let clusters = Clustering::resume(store, clusters)?;
            Ok(Ground::Clusters(clusters, *clustering))
        }
    }
}

fn build(
    list: EdgeList,
    stores: &(Store, Store),
    course: &Course,
) -> Result<(Ground, Built), ExternalError> {
    let both = (&stores.0, &stores.1);
    let (format, mut counts) = (list.kind().label().to_owned(), (0, 0));
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
    let built = Built {
        format,
        node_count: graph.node_count(),
        edge_count: graph.edge_count(),
        read_edge_count: counts.0,
        self_loop_count: counts.1,
        building: counts_of(both),
    };
    Ok((Ground::Graph(graph), built))
}

/// Searches, and counts the nodes of each level.
fn walk(
    ground: &Ground,
    (arrays, sorted): &(Store, Store),
    source: u64,
    course: &Course,
) -> Result<(Bfs, Levels, Option<Clusters>), ExternalError> {
    let (mut levels, mut seen) = (Levels::default(), 0_u64);
    let visit = |_: u64, level: u64| {
        levels.add_node(level);
        seen += 1;
        if seen.is_multiple_of(NODES_PER_WORD) {
            course.reach(seen);
        }
        Ok(())
    };
    let bytes = arrays.grant().free_bytes();
    match ground {
        Ground::Graph(graph) => {
            let bfs = graph.search(source, sorted, bytes, visit)?;
            Ok((bfs, levels, None))
        }
        Ground::Clusters(clustering, counts) => {
            let settings = PoolSettings::default();
            let found = clustering.search(source, sorted, bytes, settings, visit)?;
            let clusters = Clusters {
                cluster_count: clustering.cluster_count(),
                cluster_nodes: clustering.cluster_nodes(),
                clustering: *counts,
                pool: found.counts,
            };
            Ok((found.bfs, levels, Some(clusters)))
        }
    }
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

    /// What predicts the search, if anybody wants that.
    fn foresight(&self, context: &Context) -> Result<Option<Foresight>, Failure> {
        let Some(profile) = &self.predict else { return Ok(None) };
        let clustered = (self.algorithm == AlgorithmArgument::Mm).then(|| self.clustering());
        let probe = Probe::of(profile, &self.beyond)?;
        let sizes = sorted_sizes(clustered.is_some());
        let probe = probe.beside_processor(&sizes, None, context)?;
        Ok(Some(Foresight::new(probe, self.expect_levels, clustered)))
    }

    fn clustering(&self) -> ClusteringSettings {
        let kind = match self.clustering {
            ClusteringArgument::Tour => ClusteringKind::Tour,
            ClusteringArgument::Random => ClusteringKind::Random,
        };
        let (cluster_nodes, seed) = (self.cluster_nodes, self.seed);
        ClusteringSettings { kind, cluster_nodes, seed, ..Default::default() }
    }

    /// Refuses a source that is none of the nodes, where it is said how many there are.
    fn check_source(&self) -> Result<(), Failure> {
        let is_random = self.clustering == ClusteringArgument::Random;
        if self.algorithm == AlgorithmArgument::Mr && (is_random || self.cluster_nodes.is_some()) {
            let what = "`mr` makes no clusters; leave --cluster-nodes and --clustering out, or ask for \
                        --algorithm mm";
            return Err(Failure::input(what));
        }
        if is_random && self.predict.is_some() {
            return Err(Failure::input("--predict: of clusters only those of --clustering tour"));
        }
        match self.nodes {
            Some(nodes) if self.source >= nodes => Err(Failure::input(format!(
                "--source {}: of --nodes {nodes}, counted from 0, none has that number",
                self.source
            ))),
            _ => Ok(()),
        }
    }

    /// The same where the graph is there.
    fn check_source_of(&self, node_count: u64) -> Result<(), Failure> {
        if self.source < node_count {
            return Ok(());
        }
        Err(Failure::input(format!(
            "--source {}: {} has {}, counted from 0, none has that number",
            self.source,
            self.file.display(),
            counted(node_count, "node")
        )))
    }

    /// Refuses a graph that has no room, as far as it is known before its edges are read. Edges from a node
    /// to itself are known only then: where these are left out, and there would be too little room if there
    /// were none, that is said and the work begins.
    fn check_room(
        &self,
        list: &EdgeList,
        known_bytes: Option<u64>,
        stores: &(Store, Store),
    ) -> Result<(), Failure> {
        if let Some(node_count) = list.known_node_count() {
            Graph::check_room(&stores.0, node_count)?;
        }
        let Some(edge_count) = list.known_edge_count(known_bytes) else { return Ok(()) };
        let memory_bytes = stores.0.grant().free_bytes();
        let Err(error) = Graph::check_sorting_room(&stores.1, edge_count, memory_bytes) else {
            return Ok(());
        };
        let failure = self.beyond.explain(error.into());
        if self.self_loops == SelfLoopsArgument::Refuse {
            return Err(failure);
        }
        complain(&format!(
            "{}: {}, unless many edges lead from a node to itself",
            self.file.display(),
            failure.in_one_line()
        ));
        Ok(())
    }

    /// What has to be the same when a search goes on. Any node can be the source in a graph that is kept,
    /// and in its clusters.
    fn asked(&self) -> Result<Asked, Failure> {
        let (devices, block_bytes) = self.beyond.of_kept()?;
        let options = [
            ("--algorithm", json!(self.algorithm)),
            ("--cluster-nodes", json!(self.cluster_nodes)),
            ("--clustering", json!(self.clustering)),
            ("--seed", json!(self.seed)),
            ("--format", json!(self.format.map(EdgeListKind::label))),
            ("--self-loops", json!(self.self_loops)),
            ("--nodes", json!(self.nodes)),
            ("--device", devices),
            ("--block-size", json!(block_bytes)),
        ];
        Ok(asked_of("graph bfs", &self.file, options))
    }

    fn report<'a>(&'a self, found: &'a Found, means: Means, context: &Context) -> Report<'a> {
        Report {
            file: &self.file,
            format: &found.built.format,
            algorithm: self.algorithm,
            source: self.source,
            means,
            node_count: found.built.node_count,
            edge_count: found.built.edge_count,
            read_edge_count: found.built.read_edge_count,
            self_loop_count: found.built.self_loop_count,
            reached_node_count: found.bfs.node_count,
            level_count: found.bfs.level_count,
            levels: &found.levels.counts,
            levels_left_out_count: found.bfs.level_count - found.levels.counts.len() as u64,
            largest_later: &found.levels.later,
            was_resumed: self.keep.is_resumed(),
            building: found.built.building,
            searching: found.searching,
            clusters: found.clusters.as_ref(),
            prediction: found.prediction.as_ref(),
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
    let told = (0..).zip(report.levels.iter().copied());
    let mut largest: Vec<(u64, u64)> = told.chain(report.largest_later.iter().copied()).collect();
    largest.sort_by_key(|&(level, count)| (std::cmp::Reverse(count), level));
    if largest.len() > LEVELS_SHOWN {
        largest.truncate(LEVELS_SHOWN);
        let all = match report.levels_left_out_count {
            0 => "all".to_owned(),
            _ => format!("the first {}", report.levels.len()),
        };
        output.line(&format!("The {LEVELS_SHOWN} levels with most nodes, {all} with --json:"))?;
    }
    largest.sort_unstable();
    let mut table = Table::new(&["level", "nodes"]);
    for (level, count) in largest {
        table.row(vec![level.to_string(), count.to_string()]);
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
    for line in report.prediction.map_or_else(Vec::new, SearchPrediction::lines) {
        output.line(&line)?;
    }
    output.line(&report.means.line())
}
