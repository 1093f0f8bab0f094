//! `nandu trace replay`: what another way of placing pages asks of a drive for the same page writes.

use crate::Context;
use crate::command::parse_size;
use crate::engine_settings;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;
use crate::run_facts::RunFacts;
use clap::Args;
use nandu::simulated::SimulatedMedia;
use nandu::{DeviceVolume, PropagationKind, Settings, Volumes};
use nandu_base::{ByteCount, Rng};
use nandu_bench::PageReplay;
use nandu_bench::page_replay::{FirstPages, ReplayOutcome};
use nandu_drives::profile::{Profile, SimOptions};
use nandu_probe::table::time;
use nandu_trace::EngineTraceReader;
use serde::Serialize;
use std::path::PathBuf;

/// How often whoever waits is asked, in records.
const LOOK_EVERY: u64 = 1 << 10;

/// Write the changed bytes of a trace into pages that are placed in another way, and count what that
/// asks of a simulated drive
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu trace replay pages --device sim:nvme-tlc-2024
  nandu trace replay pages --device sim:nvme-tlc-2024 \\
      --set propagation=log_structured
  nandu trace replay pages --device sim:device-a --capacity 512MiB --json \\
      --set propagation=log_structured --set log_structured.packing=whole

Pages begin with drawn bytes, which cannot be packed; so do changed bytes, unless the trace has them \
(bench --record-bytes). Each page that is read is compared with what was written last.")]
pub(super) struct ReplayArguments {
    /// What `nandu bench --record` wrote, plain or compressed with gzip or zstd
    file: PathBuf,
    /// A simulated drive, sim:NAME
    #[arg(long, value_name = "TARGET")]
    device: String,
    /// Capacity that it is scaled to; four times the pages if not given
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    capacity: Option<ByteCount>,
    /// How pages are placed: propagation=KIND, and settings of that kind
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seed of everything that is drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ReplayReport<'a> {
    file: String,
    device: &'a str,
    capacity_bytes: u64,
    seed: u64,
    propagation: PropagationKind,
    page_bytes: u32,
    /// Whether the bytes that changed are those of the trace.
    has_bytes: bool,
    #[serde(flatten)]
    outcome: ReplayOutcome,
    /// Bytes written to the device for each of a page that was written.
    written_per_page_byte: Option<f64>,
    run: RunFacts,
}

/// Replays the trace and tells.
pub(super) fn run(arguments: &ReplayArguments, context: &Context) -> Result<(), Failure> {
    let settings = engine_settings::set_new(&Settings::default(), &arguments.set)?;
    let mut reader = context.interrupt.before_work(|| EngineTraceReader::open(&arguments.file))?;
    let (volumes, capacity) = arguments.volumes(&reader, settings.propagation.kind, context)?;
    let progress = Progress::new(context, 2);
    let first_pages = first_pages(arguments.seed);
    let head = reader.head().clone();
    let page_count: u64 = head.files.iter().map(|file| u64::from(file.page_count)).sum();
    let config = settings.propagation.config();
    let done = context.interrupt.at_any_time(|| {
        let replay =
            PageReplay::begin(&head, &config, volumes, (first_pages, arguments.seed), |count| {
                progress.show(count as f64 / page_count.max(1) as f64, "writing the first pages");
                !progress.is_interrupted()
            })?;
        progress.step_done();
        match replay {
            Some(replay) => replayed(replay, &mut reader, &progress),
            None => Ok(None),
        }
    });
    let Some(outcome) = done? else {
        return Err(Failure::interrupted("stopped; run it again to start over"));
    };
    drop(progress);
    let page_bytes = outcome.counts.page_write_count * u64::from(head.page_bytes);
    let report = ReplayReport {
        file: arguments.file.display().to_string(),
        device: &arguments.device,
        capacity_bytes: capacity.0,
        seed: arguments.seed,
        propagation: settings.propagation.kind,
        page_bytes: head.page_bytes,
        has_bytes: head.keeps_bytes,
        outcome,
        written_per_page_byte: (page_bytes > 0)
            .then(|| outcome.written_bytes as f64 / page_bytes as f64),
        run: RunFacts::since(context.started),
    };
    match arguments.json {
        true => context.output.json("trace replay", &report),
        false => tell(&report, &context.output),
    }
}

impl ReplayArguments {
    /// An empty volume on the drive, with room for the pages of the trace, and what the propagation needs
    /// beside it.
    fn volumes(
        &self,
        reader: &EngineTraceReader,
        propagation: PropagationKind,
        context: &Context,
    ) -> Result<(Volumes, ByteCount), Failure> {
        let Some(name) = self.device.strip_prefix("sim:") else {
            let what = format!(
                "--device {}: a trace is replayed on a simulated drive; say sim:nvme-tlc-2024",
                self.device.escape_debug()
            );
            return Err(Failure::input(what));
        };
        let profile = context.interrupt.before_work(|| Profile::load(name))?;
        let whole = profile.geometry.capacity();
        let head = reader.head();
        let page_count: u64 = head.files.iter().map(|file| u64::from(file.page_count)).sum();
        let page_bytes = page_count.saturating_mul(u64::from(head.page_bytes));
        let usual = page_bytes.saturating_mul(4).max(256 << 20).min(whole.0);
        let capacity = self.capacity.unwrap_or(ByteCount(usual));
        if capacity > whole {
            let what = format!("--capacity {capacity}: {} has {whole}", self.device);
            return Err(Failure::input(what));
        }
        let options = SimOptions { capacity: Some(capacity), seed: self.seed, keep_data: true };
        let data = Box::new(DeviceVolume::format(profile.open(options)?)?);
        let others = SimulatedMedia::new(propagation, &profile, options)?.format()?;
        Ok((Volumes { others, ..Volumes::new(data, None) }, capacity))
    }
}

/// Pages of bytes that are drawn, the same whenever they are asked for.
fn first_pages(seed: u64) -> FirstPages {
    Box::new(move |address, page| {
        Rng::for_part(seed ^ address.to_word(), "first pages").fill(page);
    })
}

fn replayed(
    mut replay: PageReplay,
    reader: &mut EngineTraceReader,
    progress: &Progress,
) -> Result<Option<ReplayOutcome>, Failure> {
    let mut record_count = 0_u64;
    while let Some(record) = reader.next_record()? {
        replay.apply(record)?;
        record_count += 1;
        if record_count.is_multiple_of(LOOK_EVERY) {
            progress.show(0.0, &format!("replaying, {record_count} records"));
            if progress.is_interrupted() {
                return Ok(None);
            }
        }
    }
    let outcome = replay.finish()?;
    replay.audit();
    Ok(Some(outcome))
}

fn tell(report: &ReplayReport<'_>, output: &Output) -> Result<(), Failure> {
    let outcome = &report.outcome;
    let counts = &outcome.counts;
    output.heading(&format!(
        "{} page writes {} on {}",
        counts.page_write_count,
        report.propagation.told(),
        report.device.escape_debug()
    ))?;
    output.line(&format!(
        "trace: {} page reads, {} page writes that change {}, {} syncs",
        counts.page_read_count,
        counts.page_write_count,
        ByteCount(counts.changed_bytes),
        counts.sync_count
    ))?;
    let each = report
        .written_per_page_byte
        .map_or(String::new(), |factor| format!(", {factor:.3} for each byte of a written page"));
    output.line(&format!(
        "device: {} read in {} requests, {} written in {}{each}; {} flushes; {}",
        ByteCount(outcome.read_bytes),
        outcome.read_count,
        ByteCount(outcome.written_bytes),
        outcome.write_count,
        outcome.flush_count,
        time(outcome.elapsed_ns as f64)
    ))?;
    let Some(flash) = &outcome.flash else { return Ok(()) };
    let amplification = flash
        .write_amplification
        .map_or(String::new(), |factor| format!(", write amplification {factor:.2}"));
    output.line(&format!(
        "flash: {} pages programmed, {} blocks erased{amplification}",
        flash.program_count, flash.erase_count
    ))
}
