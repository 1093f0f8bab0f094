//! `nandu crash`: the crash simulator of the storage engine, by seed.

use crate::Context;
use crate::failure::Failure;
use crate::progress::Progress;
use clap::{Args, ValueEnum};
use nandu_crashtest::{
    Lie, Outcome, RESTART_STEP, Scenario, Violation, WorldKind, cut_at_every_request,
    replay_command, run_seed,
};
use nandu_probe::table::Table;
use serde::Serialize;
use std::num::NonZeroUsize;

/// Cut the power under the storage engine, thousands of times, each replayable by its seed
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu crash                      a hundred seeds
  nandu crash --seeds 10000        the soak
  nandu crash --seed 195           one seed again, with its settings
  nandu crash --lie flushes-ignored   a planted bug, to see that it is found
  nandu crash --world ssd          whole simulated SSDs below, of every translation layer
  nandu crash --world ssd --seed 14 --every-request
                                   a small run, cut at each of its requests

Each seed chooses page size, pool, propagation, durability, tables and faults, runs transactions
against a model, cuts the power, fails a request or flips bits, opens the database again (perhaps
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
    /// What the database lies on
    #[arg(long, value_enum, default_value_t = WorldArgument::Memory)]
    world: WorldArgument,
    /// A small run of each seed, repeated and cut at each of its requests
    #[arg(long)]
    every_request: bool,
    /// After every so manieth of these cuts, cut the restart at each of its requests, too
    #[arg(long, value_name = "STEP", requires = "every_request")]
    restart_step: Option<NonZeroUsize>,
    /// A bug to plant in the device below
    #[arg(long, value_enum, default_value_t = LieArgument::None)]
    lie: LieArgument,
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
}

impl WorldArgument {
    const fn kind(self) -> WorldKind {
        match self {
            Self::Memory => WorldKind::Memory,
            Self::Ssd => WorldKind::Ssd,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LieArgument {
    /// Nothing
    None,
    /// Flushes are acknowledged and not done
    FlushesIgnored,
    /// Torn pages are not repaired
    TornPagesTrusted,
    /// Some writes are acknowledged and not done
    WritesLost,
    /// Some writes go to the wrong place
    WritesMisdirected,
    /// Bits flip, and checksums of pages fit even so
    ChecksumsForged,
}

impl LieArgument {
    const fn lie(self) -> Lie {
        match self {
            Self::None => Lie::None,
            Self::FlushesIgnored => Lie::FlushesIgnored,
            Self::TornPagesTrusted => Lie::TornPagesTrusted,
            Self::WritesLost => Lie::WritesLost,
            Self::WritesMisdirected => Lie::WritesMisdirected,
            Self::ChecksumsForged => Lie::ChecksumsForged,
        }
    }
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
    first_seed: u64,
    seed_count: u64,
    total: Outcome,
    violations: Vec<BrokenPromise>,
}

/// Runs the seeds.
pub(crate) fn run(arguments: &CrashArguments, context: &Context) -> Result<(), Failure> {
    let lie = arguments.lie.lie();
    let world = arguments.world.kind();
    let (first_seed, count) = match arguments.seed {
        Some(seed) => (seed, 1),
        None => (arguments.from, arguments.seeds),
    };
    if let (Some(seed), false) = (arguments.seed, arguments.json) {
        context.output.line(&format!("{:#?}", Scenario::of_seed(seed, world, lie)))?;
    }
    let progress = Progress::new(&context.interrupt, nandu_base::to_index(count));
    let mut campaign = Campaign {
        world,
        every_request: arguments.every_request,
        first_seed,
        seed_count: 0,
        total: Outcome::default(),
        violations: Vec::new(),
    };
    let restart_step = arguments.restart_step.map_or(RESTART_STEP, NonZeroUsize::get);
    let run = |seed| match arguments.every_request {
        true => cut_at_every_request(seed, world, lie, restart_step),
        false => run_seed(seed, world, lie),
    };
    let replay = |seed| {
        let every = if arguments.every_request { " --every-request" } else { "" };
        let step = arguments.restart_step;
        let step = step.map_or(String::new(), |step| format!(" --restart-step {step}"));
        format!("{}{every}{step}", replay_command(seed, world, lie))
    };
    // A panic inside a history is a violation, told like any other.
    std::panic::set_hook(Box::new(|_| {}));
    for seed in first_seed..first_seed.saturating_add(count) {
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
        context.output.json(&campaign)?;
    } else {
        show(&campaign, context)?;
    }
    if !campaign.violations.is_empty() {
        let count = campaign.violations.len();
        return Err(Failure::shape(format!("{count} seeds broke a promise")));
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
        refused_count,
        flip_count,
        told_count,
        load_count,
        failed_load_count,
        repaired_page_count,
        loser_count,
        program_count,
        erase_count,
        ..
    } = campaign.total;
    let mut table = Table::new(&["what happened", "times"]);
    for (what, times) in [
        ("seeds", campaign.seed_count),
        ("requests to devices", request_count),
        ("commits acknowledged", commit_count),
        ("power cuts", cut_count),
        ("operations that failed", error_count),
        ("changes refused for want of room", refused_count),
        ("bits flipped", flip_count),
        ("histories that ended with damage told", told_count),
        ("tables loaded past the log", load_count),
        ("of them cut short", failed_load_count),
        ("torn pages rebuilt", repaired_page_count),
        ("transactions rolled back at restart", loser_count),
        ("flash pages programmed", program_count),
        ("erase blocks erased", erase_count),
        ("promises broken", campaign.violations.len() as u64),
    ] {
        table.row(vec![what.to_owned(), times.to_string()]);
    }
    context.output.text(&table.render())?;
    for BrokenPromise { seed, what, replay } in &campaign.violations {
        context.output.line(&format!("seed {seed}: {what}\n  replay: {replay}"))?;
    }
    Ok(())
}
