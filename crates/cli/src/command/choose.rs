//! `nandu choose`: which drive is the cheapest for a load, by simulation.

use super::bench::WorkloadArgument;
use super::trace_reading::ReadingArguments;
use super::{parse_duration, parse_size};
use crate::Context;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;
use crate::run_facts::RunFacts;
use crate::stopwatch::Stopwatch;
use clap::{ArgGroup, Args};
use nandu_base::units::figures;
use nandu_base::words::wrap;
use nandu_base::{ByteCount, Nanos};
use nandu_drives::merit::{KILOWATT_HOUR_CENTS, MeritWeights};
use nandu_drives::price::Prices;
use nandu_lab::choose::{
    Answer, Candidate, Load, Question, TraceLoad, Verdict, WhyMany, YcsbChoice,
};
use nandu_probe::table::{Table, rate, time};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The longest line of a sentence.
const LINE_WIDTH: usize = 100;
/// The rate, where nobody says one and no trace has its own.
const USUAL_RATE: f64 = 1000.0;

/// Find the drive that costs least for a load, and say why
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("load").required(true).args(["workload", "trace"]),
    after_help = "\
Examples:
  nandu choose --workload a --rate 2000 --data 100GB
  nandu choose --workload b --rate 20000 --data 1TB --budget 500 --latency 20ms
  nandu choose --trace volume.csv.gz --data 40GB --drives ocz-core,toshiba-320,device-a
  nandu choose --workload f --drives toshiba-320,toshiba-320+log=ocz-core,array:stripe:sim:toshiba-320*4
  nandu choose --workload a --prices my-prices.toml --json

Each drive is simulated under the load, as full as it would be, with 1, 4, 16 and 64 clients or requests in \
flight. From that follow how many of them are needed, how long they last, and what a year costs: drives \
by price and years, power where a profile knows it. Prices come with their date and source \
(prices.toml); many are recalled, so say yours with --prices."
)]
pub(crate) struct ChooseArguments {
    /// One of YCSB's workloads, over nandu's engine; a: 50 % updates, b: 5 %, c: none, d: 5 % inserts, e: scans,
    /// f: read-modify-writes
    #[arg(long, value_enum)]
    workload: Option<WorkloadArgument>,
    /// Requests that were recorded, of any format that `nandu sim` reads
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadingArguments,
    /// Candidates, with commas between them: NAME, NAME+log=NAME, array:LAYOUT:sim:NAME*N; all drives that have a
    /// price if not given
    #[arg(long, value_delimiter = ',', value_name = "DRIVE")]
    drives: Vec<String>,
    /// Bytes that have to be kept, of records or as the trace has them; those of the load if not given
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    data: Option<ByteCount>,
    /// Operations or requests in a second; those of the trace, or 1000, if not given
    #[arg(long, value_parser = parse_rate, value_name = "NUMBER")]
    rate: Option<f64>,
    /// What 99 of 100 of them may take
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    latency: Option<Nanos>,
    /// What all drives may cost to buy, in dollars
    #[arg(long, value_name = "DOLLARS", value_parser = parse_cents)]
    budget: Option<u64>,
    /// After how many years a drive is replaced that has not worn out
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    years: u32,
    /// What a kilowatt hour costs, in cents
    #[arg(long, default_value_t = KILOWATT_HOUR_CENTS, value_parser = clap::value_parser!(u64).range(..=10_000))]
    kilowatt_hour: u64,
    /// How much performance, cost, energy and endurance count in the figure of merit: exponents
    #[arg(long, value_parser = parse_merit, default_value = "1,1,0,1", value_name = "P,C,E,N")]
    merit: MeritWeights,
    /// A file of prices, before those that come with nandu
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Records of the database that is simulated
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    records: u64,
    /// Operations of each point
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(100..=1_000_000_000))]
    operations: u64,
    /// Memory of the buffer pool, in percent of the records
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    memory: u32,
    /// Seed of drives and loads
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// For clap: a rate above 0.
fn parse_rate(text: &str) -> Result<f64, String> {
    let rate: Option<f64> = text.trim().parse().ok();
    rate.filter(|rate| rate.is_finite() && (1e-6..=1e15).contains(rate))
        .ok_or_else(|| "give a number from 0.000001 to 10^15, such as 2000 or 0.5".to_owned())
}

/// For clap: dollars, with cents or without, as cents.
fn parse_cents(text: &str) -> Result<u64, String> {
    let digits = text.trim().trim_start_matches('$');
    let (dollars, cents) = digits.split_once('.').unwrap_or((digits, "0"));
    let cents = match cents.len() {
        1 => cents.parse().ok().map(|tenths: u64| tenths * 10),
        2 => cents.parse().ok(),
        _ => None,
    };
    let dollars = dollars.parse().ok().filter(|&dollars: &u64| dollars <= 10_000_000);
    let all = dollars.zip(cents).map(|(dollars, cents)| dollars * 100 + cents);
    all.filter(|&all| all > 0).ok_or_else(|| "give dollars up to 10000000, such as 500".to_owned())
}

/// For clap: four exponents from 0 to 9.
fn parse_merit(text: &str) -> Result<MeritWeights, String> {
    let parts: Option<Vec<u32>> =
        text.split(',').map(|part| part.trim().parse().ok().filter(|&it| it <= 9)).collect();
    match parts.as_deref() {
        Some(&[performance, cost, energy, endurance]) => {
            Ok(MeritWeights { performance, cost, energy, endurance })
        }
        _ => Err("give four numbers from 0 to 9, such as 1,1,0,1".to_owned()),
    }
}

/// What is printed as JSON. Between two runs all is equal but `run`.
#[derive(Serialize)]
struct Report<'a> {
    question: &'a Question,
    #[serde(flatten)]
    answer: &'a Answer,
    run: RunFacts,
}

/// Asks and answers.
pub(super) fn run(arguments: &ChooseArguments, context: &Context) -> Result<(), Failure> {
    let prices = match &arguments.prices {
        Some(path) => Prices::with_file(path)?,
        None => Prices::embedded(),
    };
    let candidates = arguments.candidates(&prices)?;
    let stopwatch = Stopwatch::start();
    let mut progress = Progress::new(context, candidates.len());
    let question = arguments.question(&progress)?;
    let answer = nandu_lab::choose::choose(&question, &candidates, &prices, &mut progress)?;
    drop(progress);
    if arguments.json {
        let report =
            Report { question: &question, answer: &answer, run: RunFacts::since(stopwatch) };
        return context.output.json("choose", &report);
    }
    tell(&question, &answer, &context.output)
}

impl ChooseArguments {
    fn candidates(&self, prices: &Prices) -> Result<Vec<Candidate>, Failure> {
        let names: Vec<String> = match self.drives.is_empty() {
            true => prices.names().map(str::to_owned).collect(),
            false => self.drives.clone(),
        };
        let mut seen = BTreeSet::new();
        let once = names.iter().filter(|name| seen.insert(name.as_str()));
        once.map(|name| Candidate::parse(name).map_err(Failure::from)).collect()
    }

    fn question(&self, progress: &Progress) -> Result<Question, Failure> {
        let (load, load_bytes, own_rate) = match (&self.trace, self.workload) {
            (Some(path), _) => {
                let trace = TraceLoad::read(path.clone(), self.reading.options()?, progress)?;
                let (bytes, rate) = (trace.touched_bytes, trace.own_rate());
                (Load::Trace(trace), bytes, rate)
            }
            (None, Some(workload)) => {
                let choice = self.ycsb(workload);
                let bytes = choice.record_bytes() * choice.record_count;
                // A simulated drive keeps what is on it in memory, and records take more room on pages.
                let what = format!("a simulated drive with --records {}", self.records);
                crate::memory::check_free(ByteCount(bytes), &what, "take fewer")?;
                (Load::Ycsb(choice), bytes, None)
            }
            (None, None) => unreachable!("one of both is required"),
        };
        Ok(Question {
            load,
            data_bytes: self.data.map_or(load_bytes, |data| data.0),
            rate: self.rate.or(own_rate).unwrap_or(USUAL_RATE),
            latency_limit_ns: self.latency.map(|limit| limit.0),
            budget_cents: self.budget,
            service_years: self.years,
            kilowatt_hour_cents: self.kilowatt_hour,
            merit: self.merit,
            seed: self.seed,
        })
    }

    const fn ycsb(&self, workload: WorkloadArgument) -> YcsbChoice {
        YcsbChoice {
            workload: workload.kind(),
            record_count: self.records,
            field_bytes: 100,
            operation_count: self.operations,
            memory_percent: self.memory,
        }
    }
}

fn tell(question: &Question, answer: &Answer, output: &Output) -> Result<(), Failure> {
    let limits = [
        question.latency_limit_ns.map(|limit| format!(", p99 {} at most", time(limit as f64))),
        question.budget_cents.map(|cents| format!(", a budget of ${}", cents as f64 / 100.0)),
    ];
    let head = format!(
        "{} of data, {} operations/s, {} years, {} cents a kilowatt hour{}",
        ByteCount(question.data_bytes),
        figures(question.rate),
        question.service_years,
        question.kilowatt_hour_cents,
        limits.into_iter().flatten().collect::<String>()
    );
    for line in wrap(&head, LINE_WIDTH) {
        output.line(&line)?;
    }
    let columns =
        ["drive", "count", "for", "to buy", "years", "W", "a year", "p99", "at once", "merit"];
    let mut table = Table::new(&columns);
    for verdict in &answer.verdicts {
        table.row(cells_of(verdict));
    }
    output.table(&table)?;
    for verdict in &answer.verdicts {
        if let Some(why) = &verdict.refused {
            for line in wrap(&format!("{} will not do: {why}", verdict.name), LINE_WIDTH) {
                output.line(&line)?;
            }
        }
    }
    for sentence in &answer.because {
        for line in wrap(sentence, LINE_WIDTH) {
            output.line(&line)?;
        }
    }
    Ok(())
}

fn cells_of(verdict: &Verdict) -> Vec<String> {
    let none = || "–".to_owned();
    let dollars = |cents: f64| format!("${:.2}", cents / 100.0);
    let why = match verdict.why_many {
        Some(WhyMany::Capacity) => "data",
        Some(WhyMany::Rate) => "rate",
        Some(WhyMany::Wear) => "life",
        Some(WhyMany::One) | None => "",
    };
    // Without its power it costs at least so much.
    let at_least = if verdict.watts.is_none() { "≥ " } else { "" };
    let a_year = verdict.cents_per_year.map(|cents| format!("{at_least}{}", dollars(cents)));
    vec![
        verdict.name.clone(),
        verdict.drive_count.map_or_else(none, |count| count.to_string()),
        why.to_owned(),
        verdict.purchase_cents.map_or_else(none, |cents| dollars(cents as f64)),
        verdict.years.map_or_else(none, |years| format!("{years:.1}")),
        verdict.watts.map_or_else(none, rate),
        a_year.unwrap_or_else(none),
        verdict.p99_ns.map_or_else(none, |nanos| time(nanos as f64)),
        verdict.depth.map_or_else(none, |depth| depth.to_string()),
        verdict.merit.map_or_else(none, rate),
    ]
}
