//! `nandu trace stat`: how page writes are spread over pages and time, and how much they change.

use crate::Context;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;
use crate::run_facts::RunFacts;
use clap::Args;
use nandu_base::{ByteCount, Nanos};
use nandu_probe::table::{Table, time};
use nandu_trace::page_writes::ChangedStatistics;
use nandu_trace::{EngineTraceReader, PageWriteOptions, PageWriteStatistics, page_writes};
use serde::Serialize;
use std::path::PathBuf;

/// Say how the page writes of a trace are spread over pages and time, and how much they change
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu bench ycsb --workload a --device sim:nvme-tlc-2024 --record pages
  nandu trace stat pages
  nandu trace stat pages --log-space 5,10,20,30 --warm-up 50 --json

A log space absorbs a page write if its page is written again before the log has gone round. \
docs/workloads.md says what each figure counts.")]
pub(super) struct StatArguments {
    /// What `nandu bench --record` wrote, plain or compressed with gzip or zstd
    file: PathBuf,
    /// Log spaces, in percent of the pages of the database
    #[arg(long, value_name = "PERCENT,..", value_delimiter = ',', default_value = "10,20,30",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    log_space: Vec<u32>,
    /// How much of the page writes comes before intervals count, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 33,
        value_parser = clap::value_parser!(u32).range(0..=99))]
    warm_up: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct StatReport<'a> {
    file: String,
    #[serde(flatten)]
    statistics: &'a PageWriteStatistics,
    run: RunFacts,
}

/// Reads the trace and tells.
pub(super) fn run(arguments: &StatArguments, context: &Context) -> Result<(), Failure> {
    let options = PageWriteOptions {
        warm_up_percent: arguments.warm_up,
        log_percents: arguments.log_space.clone(),
    };
    let progress = Progress::new(context, 1);
    let mut goes_on = |done: f64| {
        progress.show(done, "reading");
        !progress.is_interrupted()
    };
    let mut open = || EngineTraceReader::open(&arguments.file);
    let statistics =
        context.interrupt.at_any_time(|| page_writes(&mut open, &options, &mut goes_on))?;
    let Some(statistics) = statistics else {
        return Err(Failure::interrupted("stopped while reading"));
    };
    drop(progress);
    if arguments.json {
        let file = arguments.file.display().to_string();
        let run = RunFacts::since(context.started);
        let report = StatReport { file, statistics: &statistics, run };
        return context.output.json("trace stat", &report);
    }
    tell(&statistics, &context.output)
}

fn tell(statistics: &PageWriteStatistics, output: &Output) -> Result<(), Failure> {
    let of = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    let writes = statistics.write_count;
    output.heading(&format!(
        "{} pages of {} in {}",
        statistics.database_page_count,
        ByteCount(u64::from(statistics.page_bytes)),
        time(Nanos(statistics.duration_ns).0 as f64)
    ))?;
    output.line(&format!(
        "{} reads of {} pages, {writes} writes of {} pages in {} calls, {} syncs, {} cuts",
        statistics.read_count,
        statistics.read_page_count,
        statistics.written_page_count,
        statistics.write_call_count,
        statistics.sync_count,
        statistics.cut_count
    ))?;
    output.line(&format!(
        "{:.1} % of the writes are of new pages, {:.1} % of the page behind the one before",
        of(statistics.fresh_write_count, writes),
        of(statistics.sequential_write_count, writes)
    ))?;
    tell_changed(&statistics.changed, output)?;
    output.heading("Where writes go")?;
    let mut table = Table::new(&[">hottest pages", ">% of the writes"]);
    for share in &statistics.hottest {
        let percent = format!("{:.1}", 100.0 * share.write_share);
        table.row(vec![format!("{} %", share.page_percent), percent]);
    }
    output.table(&table)?;
    tell_intervals(statistics, output)?;
    output.heading("By file")?;
    let mut table = Table::new(&["file", ">pages", ">reads", ">writes", ">bytes changed, mean"]);
    for file in &statistics.files {
        let name = file.name.clone().unwrap_or_else(|| format!("file {}", file.number));
        let counts = [file.page_count, file.read_count, file.write_count];
        let mut cells = vec![name.escape_debug().to_string()];
        cells.extend(counts.map(|count| count.to_string()));
        cells.push(format!("{:.0}", file.mean_changed_bytes));
        table.row(cells);
    }
    output.table(&table)
}

fn tell_changed(changed: &ChangedStatistics, output: &Output) -> Result<(), Failure> {
    output.heading("What a write changes, of pages that are not new")?;
    output.line(&format!(
        "{:.0} bytes in {:.1} ranges on average; p50 {}, p90 {}, p99 {}, at most {}",
        changed.mean_bytes,
        changed.mean_range_count,
        changed.p50_bytes,
        changed.p90_bytes,
        changed.p99_bytes,
        changed.max_bytes
    ))?;
    let all: u64 = changed.counts.iter().map(|count| count.write_count).sum();
    let mut table = Table::new(&[">up to bytes", ">writes", ">%"]);
    for count in changed.counts.iter().filter(|count| count.write_count > 0) {
        let percent = 100.0 * count.write_count as f64 / all as f64;
        let cells = [count.up_to_bytes.to_string(), count.write_count.to_string()];
        table.row(cells.into_iter().chain([format!("{percent:.1}")]).collect());
    }
    output.table(&table)
}

fn tell_intervals(statistics: &PageWriteStatistics, output: &Output) -> Result<(), Failure> {
    output.heading("Page writes since the same page was written before")?;
    output.line(&format!(
        "behind the first {} writes; {} of the others were the first of their page",
        statistics.warm_up_write_count, statistics.first_write_count
    ))?;
    let mut table = Table::new(&[">up to", ">of the hottest tenth", ">of the others"]);
    for count in &statistics.intervals {
        let counts = [count.up_to_writes, count.hot_count, count.cold_count];
        table.row(counts.map(|count| count.to_string()).to_vec());
    }
    output.table(&table)?;
    output.heading("Page writes that a log space absorbs")?;
    let heads = [">log space", ">page writes", ">% by interval", ">% by mean interval of the page"];
    let mut table = Table::new(&heads);
    for space in &statistics.absorbed {
        table.row(vec![
            format!("{} %", space.percent),
            space.log_pages.to_string(),
            format!("{:.1}", 100.0 * space.by_interval_share),
            format!("{:.1}", 100.0 * space.by_mean_interval_share),
        ]);
    }
    output.table(&table)
}
