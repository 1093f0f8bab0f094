//! `nandu trace tier`: what tiers of flash between pool and disk would find of a trace's pages.

use crate::Context;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;
use crate::run_facts::RunFacts;
use clap::Args;
use nandu_base::{FixedHashMap, to_u32};
use nandu_bench::TierReplay;
use nandu_bench::tier_replay::{SLOT_COUNT_MIN, TierConfig, TierOutcome, TierPolicyKind};
use nandu_probe::table::Table;
use nandu_trace::EngineTraceReader;
use nandu_trace::engine_trace::PageEvent;
use serde::Serialize;
use std::path::PathBuf;

/// How often whoever waits is asked, in records.
const LOOK_EVERY: u64 = 1 << 14;
/// No tier of a replay has more slots: each takes some words of memory.
const SLOT_COUNT_MAX: u64 = 1 << 26;

/// Say what a tier of flash between pool and disk would find of a trace's pages, by its size and by
/// what it keeps
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu bench tpcc --scale 100,10 --device sim:nvme-tlc-2024 --record pages
  nandu trace tier pages
  nandu trace tier pages --size 1,4,16 --policy lru,face_gsc --json

Sizes are in percent of the database's pages. docs/tier.md says what each policy keeps, and what \
such a replay cannot know.")]
pub(super) struct TierArguments {
    /// What `nandu bench --record` wrote, plain or compressed with gzip or zstd
    file: PathBuf,
    /// Sizes of the tier, in percent of the pages of the database
    #[arg(long, value_name = "PERCENT,..", value_delimiter = ',', default_value = "4,8,16,28",
        value_parser = clap::value_parser!(u32).range(1..=100))]
    size: Vec<u32>,
    /// What is kept: lru, two_q, tac, lazy_cleaning, face or face_gsc; all if not given
    #[arg(long, value_name = "POLICY,..", value_delimiter = ',')]
    policy: Vec<TierPolicyKind>,
    /// How many pages leave, or are written to the disk, at a time
    #[arg(long, value_name = "PAGES", default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    group: u32,
    /// Changed pages go to the disk at once, and not only to the tier
    #[arg(long)]
    write_through: bool,
    /// A page is taken to leave the pool when so many others came behind it, no more than the pool
    /// had frames; one of a hundred pages of the database if not given
    #[arg(long, value_name = "PAGES", value_parser = clap::value_parser!(u32).range(1..))]
    pool_pages: Option<u32>,
    /// How much of the records fills the tiers before anything counts, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 33,
        value_parser = clap::value_parser!(u32).range(0..=99))]
    warm_up: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct TierReport {
    file: String,
    database_page_count: u64,
    pool_page_count: u32,
    group_page_count: u32,
    writes_through: bool,
    warm_up_percent: u32,
    tiers: Vec<SizedOutcome>,
    run: RunFacts,
}

#[derive(Serialize)]
struct SizedOutcome {
    percent: u32,
    #[serde(flatten)]
    outcome: TierOutcome,
}

/// What has to be known of a trace before tiers meet it.
struct Survey {
    record_count: u64,
    page_count: u64,
}

/// Reads the trace twice and tells.
pub(super) fn run(arguments: &TierArguments, context: &Context) -> Result<(), Failure> {
    let progress = Progress::new(context, 2);
    let report = context.interrupt.at_any_time(|| {
        let Some(survey) = survey(arguments, &progress)? else { return Ok(None) };
        progress.step_done();
        let sized = arguments.configs(&survey)?;
        let configs: Vec<TierConfig> = sized.iter().map(|(_, config)| *config).collect();
        let Some(outcomes) = replayed(arguments, &survey, &configs, &progress)? else {
            return Ok(None);
        };
        let sized = sized.iter().zip(outcomes);
        let sized = sized.map(|(&(percent, _), outcome)| SizedOutcome { percent, outcome });
        Ok::<_, Failure>(Some(TierReport {
            file: arguments.file.display().to_string(),
            database_page_count: survey.page_count,
            pool_page_count: arguments.pool_page_count(&survey),
            group_page_count: arguments.group,
            writes_through: arguments.write_through,
            warm_up_percent: arguments.warm_up,
            tiers: sized.collect(),
            run: RunFacts::since(context.started),
        }))
    })?;
    let Some(report) = report else {
        return Err(Failure::interrupted("stopped; run it again to start over"));
    };
    drop(progress);
    match arguments.json {
        true => context.output.json("trace tier", &report),
        false => tell(&report, &context.output),
    }
}

impl TierArguments {
    fn pool_page_count(&self, survey: &Survey) -> u32 {
        let usual = || to_u32((survey.page_count / 100).clamp(1, SLOT_COUNT_MAX));
        self.pool_pages.unwrap_or_else(usual)
    }

    /// The tiers that are asked for, each with its size in percent.
    fn configs(&self, survey: &Survey) -> Result<Vec<(u32, TierConfig)>, Failure> {
        let mut configs = Vec::new();
        let policies = match &self.policy[..] {
            [] => &TierPolicyKind::ALL[..],
            given => given,
        };
        for &percent in &self.size {
            let slots = survey.page_count.saturating_mul(u64::from(percent)) / 100;
            if slots < u64::from(SLOT_COUNT_MIN) {
                let what = format!(
                    "--size {percent}: {percent} % of {} pages are {slots}, and a tier has \
                     {SLOT_COUNT_MIN} at least; give a larger size, or record a larger database",
                    survey.page_count
                );
                return Err(Failure::input(what));
            }
            if slots > SLOT_COUNT_MAX {
                let what = format!(
                    "--size {percent}: {percent} % of {} pages are {slots}, and a tier has at most \
                     {SLOT_COUNT_MAX} here; give a smaller size",
                    survey.page_count
                );
                return Err(Failure::input(what));
            }
            configs.extend(policies.iter().map(|&policy| {
                let config = TierConfig {
                    policy,
                    slot_count: to_u32(slots),
                    group_page_count: self.group,
                    writes_through: self.write_through,
                };
                (percent, config)
            }));
        }
        Ok(configs)
    }
}

/// Counts records and pages: those that the files had at first, or that are touched in them.
fn survey(arguments: &TierArguments, progress: &Progress) -> Result<Option<Survey>, Failure> {
    let mut reader = EngineTraceReader::open(&arguments.file)?;
    let files = reader.head().files.iter();
    let mut pages: FixedHashMap<u16, u32> =
        files.map(|file| (file.number, file.page_count)).collect();
    let mut record_count = 0_u64;
    while let Some(record) = reader.next_record()? {
        record_count += 1;
        if matches!(record.event, PageEvent::Read | PageEvent::Write) {
            let known = pages.entry(record.file).or_default();
            *known = record.page.max(*known);
        }
        if record_count.is_multiple_of(LOOK_EVERY) {
            progress.show(0.0, "counting pages");
            if progress.is_interrupted() {
                return Ok(None);
            }
        }
    }
    let page_count = pages.values().map(|&count| u64::from(count)).sum();
    Ok(Some(Survey { record_count, page_count }))
}

fn replayed(
    arguments: &TierArguments,
    survey: &Survey,
    configs: &[TierConfig],
    progress: &Progress,
) -> Result<Option<Vec<TierOutcome>>, Failure> {
    let mut reader = EngineTraceReader::open(&arguments.file)?;
    let mut replay = TierReplay::new(configs, arguments.pool_page_count(survey));
    let warm_up_count = survey.record_count.saturating_mul(u64::from(arguments.warm_up)) / 100;
    let mut seen_count = 0_u64;
    while let Some(record) = reader.next_record()? {
        if seen_count == warm_up_count {
            replay.end_warm_up();
        }
        replay.apply(record);
        seen_count += 1;
        if seen_count.is_multiple_of(LOOK_EVERY) {
            progress.show(seen_count as f64 / survey.record_count.max(1) as f64, "replaying");
            if progress.is_interrupted() {
                return Ok(None);
            }
        }
    }
    replay.audit();
    Ok(Some(replay.outcomes()))
}

fn tell(report: &TierReport, output: &Output) -> Result<(), Failure> {
    output.heading(&format!(
        "Tiers below a pool of {} pages, over {} pages",
        report.pool_page_count, report.database_page_count
    ))?;
    if let Some(SizedOutcome { outcome, .. }) = report.tiers.first() {
        output.line(&format!(
            "{} page reads and {} page writes behind the first {} % of the trace",
            outcome.counts.read_count, outcome.counts.write_count, report.warm_up_percent
        ))?;
    }
    let heads = [
        ">size",
        "policy",
        ">slots",
        ">% found",
        ">% of writes spared",
        ">disk reads",
        ">disk writes",
        ">tier writes",
    ];
    let mut table = Table::new(&heads);
    let percent = |share: Option<f64>| {
        share.map_or_else(|| "–".to_owned(), |share| format!("{:.1}", 100.0 * share))
    };
    for SizedOutcome { percent: size, outcome } in &report.tiers {
        let counts = &outcome.counts;
        table.row(vec![
            format!("{size} %"),
            outcome.policy.to_string(),
            outcome.slot_count.to_string(),
            percent(outcome.hit_share),
            percent(outcome.write_reduction),
            counts.disk_read_count.to_string(),
            counts.disk_write_count.to_string(),
            counts.tier_write_count.to_string(),
        ]);
    }
    output.table(&table)
}
