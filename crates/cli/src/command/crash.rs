//! `nandu crash`: the crash simulator of the storage engine, by seed.

mod kill;

use crate::Context;
use crate::failure::Failure;
use crate::progress::Progress;
use clap::{Args, ValueEnum, ValueHint};
use nandu_base::words::counted;
use nandu_crashtest::{
    Bug, CLIENT_COUNT_MAX, Outcome, PlantedBug, RESTART_STEP, Violation, Workload, WorldKind,
    cut_at_every_request, find_planted, replay_command,
};
use nandu_probe::table::Table;
use serde::Serialize;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Cut the power under the storage engine, thousands of times, each replayable by its seed
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu crash                      a hundred seeds
  nandu crash --seeds 10000        the soak
  nandu crash --seed 195           one seed again, with its settings
  nandu crash --plant flushes-ignored
                                   a planted bug, to see that it is found
  nandu crash --plant all --seeds 200
                                   the first seed that finds each planted bug
  nandu crash --clients 16         many at once, and what each of them saw
  nandu crash --document           an XML document and its indexes beside the tables
  nandu crash --document --clients 8
                                   many at once that change one document
  nandu crash --tpcc               terminals of TPC-C, and the twelve conditions after each cut
  nandu crash --kill . --seeds 20  threads over real files, and SIGKILL
  nandu crash --world ssd          whole simulated SSDs below, of every layer
  nandu crash --world ssd --seed 14 --every-request
                                   a small run, cut at each of its requests

Each seed chooses page size, pool, propagation, durability, tables and faults, runs transactions \
against a model, cuts the power, fails a request or flips bits, opens the database again (perhaps \
cutting that, too), compares every row and checks every page. Exit code 1 if a promise was broken.")]
pub(crate) struct CrashArguments {
    /// How many seeds
    #[arg(long, default_value_t = 100, conflicts_with = "seed")]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// One seed only, with the settings that it stands for
    #[arg(long, conflicts_with = "from")]
    seed: Option<u64>,
    /// What the database lies on [default: memory, with `--plant all` each but lines]
    #[arg(long, value_enum)]
    world: Option<WorldArgument>,
    /// Clients at once, two up to so many; what each transaction read and wrote is checked against all
    /// others
    #[arg(long, value_name = "COUNT", conflicts_with = "every_request",
        value_parser = clap::value_parser!(u32).range(2..=CLIENT_COUNT_LIMIT))]
    clients: Option<u32>,
    /// An XML document beside the tables, with indexes; with --clients or --kill, one instead of them
    /// that all clients change
    #[arg(long)]
    document: bool,
    /// Terminals of TPC-C, two up to --clients or eight: what was acknowledged has to be there, all else whole
    /// or not at all, and the twelve conditions have to hold
    #[arg(long, conflicts_with_all = ["document", "every_request", "kill"])]
    tpcc: bool,
    /// A small run of each seed, repeated and cut at each of its requests
    #[arg(long)]
    every_request: bool,
    /// After every so manieth of these cuts, cut the restart at each of its requests, too
    #[arg(long, value_name = "STEP", requires = "every_request")]
    restart_step: Option<NonZeroUsize>,
    /// Instead: databases in this directory, clients on threads, and their process killed once for each seed
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath,
        conflicts_with_all = ["seed", "world", "every_request", "plant"])]
    kill: Option<PathBuf>,
    /// The process that is to be killed
    #[arg(long, hide = true, requires = "kill")]
    killed_from: Option<u32>,
    /// A bug to plant, by its name; `all` looks for each of them, in all worlds but chips and lines where none is named, and
    /// tells the first seed that finds it
    #[arg(long, value_name = "BUG", default_value = "none")]
    plant: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WorldArgument {
    /// Sectors in memory, which a cut drops, keeps or tears
    Memory,
    /// A simulated SSD: buffer, translation layer, chips
    Ssd,
    /// Sectors in memory under files that are synced one by one, as in a directory
    Files,
    /// Sectors in memory, the pages on raw flash
    Chips,
    /// Sectors in memory, the log on lines of a memory that is written directly
    Lines,
}

impl WorldArgument {
    const fn kind(self) -> WorldKind {
        match self {
            Self::Memory => WorldKind::Memory,
            Self::Ssd => WorldKind::Ssd,
            Self::Files => WorldKind::Files,
            Self::Chips => WorldKind::Chips,
            Self::Lines => WorldKind::Lines,
        }
    }
}

/// Terminals of TPC-C, if nobody says.
const TERMINAL_COUNT_MAX: u32 = 8;
/// Clients that a small drive has room for.
const CLIENT_COUNT_LIMIT: i64 = 64;

/// The name that stands for each bug.
const ALL_BUGS: &str = "all";

/// The bug of a name that this build can plant.
fn bug_of(label: &str) -> Result<Bug, Failure> {
    let Some(bug) = Bug::of_label(label) else {
        let known: Vec<&str> = Bug::all().map(Bug::label).collect();
        let what =
            format!("there is no bug {label}; there are {} and {ALL_BUGS}", known.join(", "));
        return Err(Failure::input(what));
    };
    if !bug.is_built_in() {
        let what = format!(
            "{label} is a bug of the engine, which this build does not have; take one that does: \
             cargo run --release --features plant -- crash --plant {label}"
        );
        return Err(Failure::input(what));
    }
    Ok(bug)
}

/// All planted bugs, and which seeds find them.
#[derive(Serialize)]
struct Hunt {
    from: u64,
    seed_count_max: u64,
    bugs: Vec<PlantedBug>,
}

fn find_all(arguments: &CrashArguments, context: &Context) -> Result<(), Failure> {
    let is_other = arguments.clients.is_some() || arguments.document || arguments.tpcc;
    if is_other || arguments.every_request {
        let what =
            "--plant all has clients where a bug needs them, and no other cuts than the seeds';";
        let leave = "leave out --clients, --document, --tpcc and --every-request";
        return Err(Failure::input(format!("{what} {leave}")));
    }
    let (from, seed_count_max) = seeds_of(arguments)?;
    let worlds = match arguments.world {
        Some(world) => vec![world.kind()],
        None => WorldKind::PLANTED.to_vec(),
    };
    let bugs: Vec<Bug> = Bug::all().filter(|bug| bug.is_built_in()).collect();
    let progress = Progress::new(context, worlds.len() * bugs.len());
    let mut hunt = Hunt { from, seed_count_max, bugs: Vec::new() };
    std::panic::set_hook(Box::new(|_| {}));
    for bug in bugs {
        for &world in &worlds {
            if !progress.is_interrupted() {
                hunt.bugs.push(find_planted(bug, world, from, seed_count_max));
                progress.step_done();
            }
        }
    }
    let _ = std::panic::take_hook();
    drop(progress);
    if arguments.json {
        return context.output.json("crash --plant all", &hunt);
    }
    let mut table = Table::new(&["planted bug", "over", "first seed"]);
    for found in &hunt.bugs {
        let world = found.world.label();
        let seed = found.first_seed.map_or("none".to_owned(), |seed| seed.to_string());
        table.row(vec![found.bug.to_owned(), world.to_owned(), seed]);
    }
    context.output.table(&table)
}

/// A violation, and what shows it again.
#[derive(Serialize)]
struct BrokenPromise {
    seed: u64,
    what: String,
    replay: String,
}

#[derive(Serialize)]
struct Campaign {
    world: WorldKind,
    every_request: bool,
    client_count_max: Option<u32>,
    has_document: bool,
    has_tpcc: bool,
    first_seed: u64,
    seed_count: u64,
    total: Outcome,
    violations: Vec<BrokenPromise>,
}

/// The first seed, and how many there are from it on.
fn seeds_of(arguments: &CrashArguments) -> Result<(u64, u64), Failure> {
    let (first_seed, count) = match arguments.seed {
        Some(seed) => (seed, 1),
        None => (arguments.from, arguments.seeds),
    };
    if count > 0 && first_seed.checked_add(count - 1).is_none() {
        let (last, many) = (u64::MAX, u64::MAX - first_seed + 1);
        return Err(Failure::input(format!(
            "--seeds {count}: from {first_seed} on there are {many}, the last is {last}"
        )));
    }
    Ok((first_seed, count))
}

impl CrashArguments {
    /// Who works on the databases, if this bug is planted.
    const fn workload(&self, bug: Bug) -> Workload {
        match self.clients {
            clients if self.tpcc => {
                let client_count_max = match clients {
                    Some(count) => count,
                    None => TERMINAL_COUNT_MAX,
                };
                Workload::Tpcc { client_count_max }
            }
            Some(client_count_max) if self.document => Workload::DocumentCrowd { client_count_max },
            Some(client_count_max) => Workload::Crowd { client_count_max },
            None if self.document => Workload::Document,
            None if bug.is_of_many() => Workload::Crowd { client_count_max: CLIENT_COUNT_MAX },
            None => Workload::Rows,
        }
    }
}

/// Does what is asked for.
pub(crate) fn run(arguments: &CrashArguments, context: &Context) -> Result<(), Failure> {
    if let Some(place) = &arguments.kill {
        return match arguments.killed_from {
            Some(last_element) => kill::be_killed(place, arguments, last_element),
            None => kill::run(place, arguments, context),
        };
    }
    if arguments.plant == ALL_BUGS {
        return find_all(arguments, context);
    }
    run_seeds(arguments, context)
}

fn run_seeds(arguments: &CrashArguments, context: &Context) -> Result<(), Failure> {
    let bug = bug_of(&arguments.plant)?;
    let world = arguments.world.map_or(WorldKind::Memory, WorldArgument::kind);
    let (first_seed, count) = seeds_of(arguments)?;
    let workload = arguments.workload(bug);
    if let (Some(seed), false) = (arguments.seed, arguments.json) {
        let mut table = Table::new(&["what the seed chose", "how it is"]);
        for (what, how) in workload.scenario(seed, world, bug).told() {
            table.row(vec![what.to_owned(), how]);
        }
        context.output.table(&table)?;
        context.output.line("")?;
    }
    let progress = Progress::new(context, nandu_base::to_index(count));
    let mut campaign = Campaign {
        world,
        every_request: arguments.every_request,
        client_count_max: match workload {
            Workload::Crowd { client_count_max }
            | Workload::DocumentCrowd { client_count_max }
            | Workload::Tpcc { client_count_max } => Some(client_count_max),
            Workload::Rows | Workload::Document => None,
        },
        has_document: arguments.document,
        has_tpcc: arguments.tpcc,
        first_seed,
        seed_count: 0,
        total: Outcome::default(),
        violations: Vec::new(),
    };
    let restart_step = arguments.restart_step.map_or(RESTART_STEP, NonZeroUsize::get);
    let run = |seed| match arguments.every_request {
        true => cut_at_every_request(&workload.scenario(seed, world, bug), restart_step),
        false => workload.run(seed, world, bug),
    };
    let replay = |seed| {
        let every = if arguments.every_request { " --every-request" } else { "" };
        let step = arguments.restart_step;
        let step = step.map_or(String::new(), |step| format!(" --restart-step {step}"));
        format!("{}{every}{step}", replay_command(seed, world, bug, workload))
    };
    // A panic inside a history is a violation, told like any other.
    std::panic::set_hook(Box::new(|_| {}));
    for seed in (0..count).map(|number| first_seed + number) {
        if progress.is_interrupted() {
            break;
        }
        match run(seed) {
            Ok(outcome) => campaign.total.add(&outcome),
            Err(Violation { seed, what }) => {
                campaign.violations.push(BrokenPromise { seed, what, replay: replay(seed) });
            }
        }
        campaign.seed_count += 1;
        progress.step_done();
    }
    let _ = std::panic::take_hook();
    drop(progress);
    if arguments.json {
        context.output.json("crash", &campaign)?;
    } else {
        show(&campaign, context)?;
    }
    if !campaign.violations.is_empty() {
        let count = campaign.violations.len();
        return Err(Failure::shape(format!("{} broke a promise", counted(count as u64, "seed"))));
    }
    if campaign.seed_count < count {
        let next = first_seed + campaign.seed_count;
        return Err(Failure::interrupted(format!("stopped; go on with --from {next}")));
    }
    Ok(())
}

fn show(campaign: &Campaign, context: &Context) -> Result<(), Failure> {
    let Outcome {
        request_count,
        commit_count,
        cut_count,
        error_count,
        failed_request_count,
        failed_sync_count,
        failed_opening_count,
        refused_count,
        flip_count,
        told_count,
        load_count,
        failed_load_count,
        repaired_page_count,
        loser_count,
        program_count,
        erase_count,
        deed_count,
        conflict_count,
        document_change_count,
        tpcc_count,
        lost_count,
        ..
    } = campaign.total;
    let mut table = Table::new(&["what happened", "times"]);
    for (what, times) in [
        ("seeds", campaign.seed_count),
        ("requests to devices", request_count),
        ("commits acknowledged", commit_count),
        ("power cuts", cut_count),
        ("requests that failed", failed_request_count),
        ("of them syncs", failed_sync_count),
        ("operations that failed", error_count),
        ("openings that failed", failed_opening_count),
        ("changes refused for want of room", refused_count),
        ("bits flipped", flip_count),
        ("histories that ended with damage told", told_count),
        ("tables loaded past the log", load_count),
        ("of them cut short", failed_load_count),
        ("torn pages rebuilt", repaired_page_count),
        ("transactions rolled back at restart", loser_count),
        ("flash pages programmed", program_count),
        ("erase blocks erased", erase_count),
        ("transactions checked against others", deed_count),
        ("transactions that gave way to others", conflict_count),
        ("changes of documents", document_change_count),
        ("transactions of TPC-C looked for", tpcc_count),
        ("commits lost that nobody had promised", lost_count),
        ("promises broken", campaign.violations.len() as u64),
    ] {
        table.row(vec![what.to_owned(), times.to_string()]);
    }
    context.output.table(&table)?;
    for BrokenPromise { seed, what, replay } in &campaign.violations {
        context.output.line(&format!("seed {seed}: {what}\n  replay: {replay}"))?;
    }
    Ok(())
}
