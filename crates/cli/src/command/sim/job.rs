//! The arguments of `nandu sim` as a job.

use super::super::trace_reading::ReadingArguments;
use super::SimArguments;
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use nandu_sim::{
    Arrivals, BusPolicy, DriveChoice, InitialState, Input, Job, Mode, RunConfig, SimError, Suspend,
};
use nandu_trace::{AddressMap, SpeedUp, TraceOptions};
use std::path::{Path, PathBuf};

/// What is simulated.
#[derive(Debug, Args)]
#[command(next_help_heading = "Drive")]
pub(super) struct DriveArguments {
    /// A profile, a TOML file of one, or a chip preset
    drive: String,
    /// Kind of translation layer: page, chunk, dftl, ...; its parameters are the defaults
    #[arg(long, value_name = "KIND")]
    ftl: Option<String>,
    /// Which erase block is cleaned next: greedy, fifo, random, ...
    #[arg(long, value_name = "POLICY")]
    victim: Option<String>,
    /// Flash pages of an erase block
    #[arg(long, value_name = "B")]
    erase_block_pages: Option<u32>,
    /// Erase blocks of the whole array
    #[arg(long, value_name = "T")]
    physical_erase_blocks: Option<u32>,
    /// Flash pages that the host sees
    #[arg(long, value_name = "L")]
    logical_pages: Option<u64>,
    /// Another value for a key of the profile; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_setting)]
    set: Vec<(String, String)>,
}

/// Where requests come from.
#[derive(Debug, Args)]
#[command(next_help_heading = "Requests")]
pub(super) struct SourceArguments {
    /// Replay a trace, plain or compressed with gzip or zstd; its format is recognised by content
    #[arg(long, value_name = "FILE", required_unless_present = "workload")]
    trace: Option<PathBuf>,
    /// Generate requests: uniform, sequential, zipf:0.9,read=30, ... (docs/workloads.md)
    #[arg(long, value_name = "SPEC", conflicts_with = "trace")]
    workload: Option<String>,
    /// Measure so many requests [workloads: 1000000, traces: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    #[command(flatten)]
    reading: ReadingArguments,
    /// Let the time of the trace run faster by this factor, such as 2, 0.5 or 3/2
    #[arg(long, value_name = "FACTOR", requires = "trace", conflicts_with = "workload")]
    speed_up: Option<String>,
    /// How addresses of the trace become addresses of the drive
    #[arg(long, value_enum, default_value_t = Remap::Strict, requires = "trace",
        conflicts_with = "workload")]
    remap: Remap,
}

impl SourceArguments {
    pub(super) fn trace(&self) -> Option<&Path> {
        self.trace.as_deref()
    }
}

/// How the simulation runs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Simulation")]
pub(super) struct RunArguments {
    /// How time passes; operation counts are the same unless the layer asks for the time
    #[arg(long, value_enum, default_value_t = ModeName::Closed)]
    mode: ModeName,
    /// Requests in flight at most, in the event mode
    #[arg(long, value_name = "N", default_value_t = 32,
        value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    queue_depth: u32,
    /// What arrival times mean [as the source says]
    #[arg(long, value_enum, default_value_t = ArrivalsName::Auto)]
    arrivals: ArrivalsName,
    /// Units of a write buffer before the layer, in the event mode
    #[arg(long, value_name = "N", default_value_t = 0)]
    write_buffer_units: u32,
    /// Units of a controller cache that merges writes and answers reads, least recently used out first
    #[arg(long, value_name = "N", default_value_t = 0)]
    cache_units: u32,
    /// The host's reads go before what has not begun, in the event mode
    #[arg(long)]
    read_priority: bool,
    /// They also suspend programs (100 us) and erases (700 us)
    #[arg(long, requires = "read_priority")]
    suspend: bool,
    /// Whose transfer a channel takes first, in the event mode
    #[arg(long, value_enum, default_value_t = BusName::InOrder)]
    bus: BusName,
    /// The layer works in the background where nothing has arrived; counts then depend on time
    #[arg(long)]
    background: bool,
    /// What the drive holds before the first request [workloads: steady, of several streams: by-stream, traces: sequential]
    #[arg(long, value_enum)]
    initial: Option<InitialName>,
    /// Write the logical space so many times before anything counts [until steady; traces: 0]
    #[arg(long, value_name = "TIMES")]
    warm_up: Option<f64>,
    /// Check that data read are data last written, and that all sums agree; slow
    #[arg(long)]
    check: bool,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeName {
    /// One request at a time, as in the papers
    Closed,
    /// Dies and channels side by side, several requests in flight
    Event,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BusName {
    /// Who was ready first
    InOrder,
    /// Data that are read before data that are written
    ReadsFirst,
    /// The dies of the channel in turn
    Fair,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ArrivalsName {
    /// As the source says
    Auto,
    /// Requests arrive at their time
    Open,
    /// The next request comes when there is room
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum InitialName {
    /// Nothing
    Fresh,
    /// Everything, written once in order
    Sequential,
    /// Everything, as a long run of uniform random writes leaves it
    Steady,
    /// Everything, written once in order, each unit in the stream in which the workload writes it
    ByStream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Remap {
    /// As they stand; past the end is an error
    Strict,
    /// The remainder by the capacity
    Modulo,
    /// Extents of 1 MiB in the order of their first use
    Compact,
}

/// For clap: `key=value`.
fn parse_setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().into(), value.trim().into()))
        }
        _ => Err(format!("`{text}` is no setting; write for example ssd.channel_count=8")),
    }
}

/// The job that the arguments describe.
pub(super) fn of(arguments: &SimArguments) -> Result<Job, Failure> {
    let SimArguments { drive, source, run, .. } = arguments;
    let input = match (&source.trace, &source.workload) {
        (Some(path), _) => {
            Input::Trace { file: path.display().to_string(), options: options_of(source)? }
        }
        (None, Some(text)) => Input::Workload(text.clone()),
        (None, None) => return Err(Failure::input("give --trace FILE or --workload SPEC")),
    };
    Ok(Job {
        drive: DriveChoice {
            name: drive.drive.clone(),
            ftl: drive.ftl.clone(),
            victim: drive.victim.clone(),
            erase_block_pages: drive.erase_block_pages,
            physical_erase_blocks: drive.physical_erase_blocks,
            logical_pages: drive.logical_pages,
            settings: drive.set.clone(),
        },
        input,
        request_limit: source.requests,
        run: RunConfig {
            mode: match run.mode {
                ModeName::Closed => Mode::Closed,
                ModeName::Event => Mode::Event,
            },
            queue_depth: run.queue_depth,
            arrivals: match run.arrivals {
                ArrivalsName::Auto => Arrivals::Auto,
                ArrivalsName::Open => Arrivals::Open,
                ArrivalsName::Closed => Arrivals::Closed,
            },
            write_buffer_units: run.write_buffer_units,
            cache_units: run.cache_units,
            read_priority: run.read_priority,
            suspend: run.suspend.then_some(Suspend::MQSIM),
            bus: match run.bus {
                BusName::InOrder => BusPolicy::InOrder,
                BusName::ReadsFirst => BusPolicy::ReadsFirst,
                BusName::Fair => BusPolicy::Fair,
            },
            background: run.background,
            initial: run.initial.map(|initial| match initial {
                InitialName::Fresh => InitialState::Fresh,
                InitialName::Sequential => InitialState::Sequential,
                InitialName::Steady => InitialState::Steady,
                InitialName::ByStream => InitialState::ByStream,
            }),
            warm_up: run.warm_up,
            checks: run.check,
            seed: run.seed,
        },
    })
}

fn options_of(source: &SourceArguments) -> Result<TraceOptions, Failure> {
    let speed_up = source.speed_up.as_deref().map(SpeedUp::parse).transpose();
    Ok(TraceOptions {
        speed_up: speed_up.map_err(SimError::from)?.unwrap_or_default(),
        address_map: match source.remap {
            Remap::Strict => AddressMap::Strict,
            Remap::Modulo => AddressMap::Modulo,
            Remap::Compact => AddressMap::compact(),
        },
        ..source.reading.options()?
    })
}
