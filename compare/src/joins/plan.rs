//! The run: which contender joins under which limit when, each time in a process of its own.
//!
//! ```text
//!   for each scale factor and query:  make what is missing
//!     for each headroom, number of threads, limit, repetition:
//!       for each contender, another one first each repetition:
//!         drop the tables from the page cache ─► process inside the limit ─► row, what it took
//! ```
//!
//! 1. Contenders alternate within a repetition, so that they meet the same weather of the disk.
//! 2. A contender that fails under a limit is a result; one whose row differs from the others' is
//!    shown as wrong, and the run ends with an error after the table.

use super::contender::{Contender, Format, Means};
use super::process::{self, Job};
use super::query::Query;
use super::results::{self, Sample};
use super::stock::Stock;
use super::table;
use crate::Failure;
use crate::limit::{drop_caches, files_below};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Compare nandu's joins with DuckDB, DataFusion and SQLite under memory limits (TPC-H customer and
/// orders, full tuples, both in random order, as in S001), side by side in one run.
#[derive(clap::Parser)]
#[command(name = "compare-joins", bin_name = "cargo xtask compare-joins")]
pub(crate) struct Options {
    /// Scale factors of TPC-H, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "2")]
    scale_factor: Vec<f64>,
    /// Queries, separated by commas; `wide` is that of S001.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "wide,narrow,lineitem,skewed")]
    queries: Vec<Query>,
    /// Memory of an engine in MB, separated by commas; `none` leaves it alone.
    #[arg(long, value_delimiter = ',', default_value = "100,300,none")]
    limits: Vec<Limit>,
    /// Threads of an engine, and cores of its process, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<u32>,
    /// How often each join is run.
    #[arg(long, default_value_t = 3)]
    repetitions: u32,
    /// These contenders only, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Contender>,
    /// Whether the peers' tables are in the page cache when a join starts.
    #[arg(long, value_enum, default_value = "cold")]
    cache: Cache,
    /// What the group of a process may have beside the engine's memory, in MB, separated by commas:
    /// the program, its libraries, and the page cache. With little a spill has to go to the device,
    /// with much it stays in memory beside the limit, as on most machines.
    #[arg(long, value_delimiter = ',', default_value = "128,4000")]
    headroom: Vec<u64>,
    /// Seconds after which a join is given up.
    #[arg(long, default_value_t = 600)]
    timeout: u32,
    /// What the order of the rows follows from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where environment and tables are kept, 400 MB and some 300 MB for each unit of scale factor
    /// [default: nandu/compare-joins in the user's cache].
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Where results go [default: `results/MACHINE/compare-joins` for a run that leaves nothing out,
    /// else nowhere].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Why something is left out; kept with the run and told in its table.
    #[arg(long, value_name = "REASON")]
    because: Option<String>,
    /// Tell which joins would be run, and run none.
    #[arg(long)]
    list: bool,
    /// Print the medians as JSON in place of the tables.
    #[arg(long)]
    json: bool,
}

/// What a comparison has to have so as to leave nothing out.
pub(crate) const WHOLE_LIMITS: [Limit; 3] = [Limit::Mb(100), Limit::Mb(300), Limit::None];
/// Threads that such a comparison has to have.
pub(crate) const WHOLE_THREADS: [u32; 2] = [1, 2];
/// Room beside the limit, in MB, that such a comparison has to have.
pub(crate) const WHOLE_HEADROOM_MB: [u64; 2] = [128, 4000];

/// What lies in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Cache {
    /// Nothing of the tables.
    Cold,
    /// As much of the tables as goes in, outside the group, so that it costs a peer no memory.
    Warm,
}

/// An engine's memory, in MB of a million bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Limit {
    /// So many MB for the whole process.
    Mb(u64),
    /// The engine's default.
    None,
}

impl Limit {
    const MB: u64 = 1_000_000;

    /// In bytes, of [`Limit::None`] 0.
    fn memory_bytes(self) -> u64 {
        match self {
            Self::Mb(count) => count * Self::MB,
            Self::None => 0,
        }
    }

    /// What the group may have in all.
    fn group_bytes(self, headroom_mb: u64) -> u64 {
        /// More than any machine has, in whole pages.
        const UNLIMITED_BYTES: u64 = 1 << 50;
        match self {
            Self::Mb(count) => (count + headroom_mb) * Self::MB,
            Self::None => UNLIMITED_BYTES,
        }
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "none" => Ok(Self::None),
            Ok(count) if (1..=1 << 30).contains(&count) => Ok(Self::Mb(count)),
            _ => Err(format!("`{text}` is neither a number of MB nor `none`")),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mb(count) => write!(formatter, "{count} MB"),
            Self::None => formatter.write_str("no limit"),
        }
    }
}

/// One join that is to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) headroom_mb: u64,
    pub(crate) thread_count: u32,
    pub(crate) limit: Limit,
    pub(crate) repetition: u32,
    pub(crate) contender: Contender,
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { headroom_mb, thread_count, limit, repetition, contender } = self;
        let label = contender.label();
        write!(
            formatter,
            "headroom {headroom_mb} MB, threads {thread_count}, {limit}, repetition {repetition}: {label}"
        )
    }
}

/// What is the same for all joins of a scale factor, as it stands beside the results.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Setting {
    pub(crate) scale_factor: f64,
    pub(crate) query: Query,
    pub(crate) seed: u64,
    pub(crate) repetitions: u32,
    pub(crate) cache: Cache,
    pub(crate) timeout_s: u32,
    /// Why something is left out, if whoever runs it said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) because: Option<String>,
}

impl Options {
    fn contenders(&self, query: Query) -> Vec<Contender> {
        let is_chosen = |it: &Contender| self.only.is_empty() || self.only.contains(it);
        Contender::ALL.into_iter().filter(is_chosen).filter(|it| it.answers(query)).collect()
    }

    /// All joins of a query at a scale factor, in the order in which they run.
    fn steps(&self, query: Query) -> Vec<Step> {
        let mut steps = Vec::new();
        for &headroom_mb in &self.headroom {
            for &thread_count in &self.threads {
                for &limit in &self.limits {
                    // Without a limit there is nothing to have room beside.
                    if limit == Limit::None && headroom_mb != self.headroom[0] {
                        continue;
                    }
                    for repetition in 1..=self.repetitions {
                        let mut order = self.contenders(query);
                        order.retain(|it| thread_count == 1 || !it.is_serial());
                        let first = (repetition as usize - 1) % order.len().max(1);
                        order.rotate_left(first);
                        steps.extend(order.into_iter().map(|contender| Step {
                            headroom_mb,
                            thread_count,
                            limit,
                            repetition,
                            contender,
                        }));
                    }
                }
            }
        }
        steps
    }

    fn check(&self) -> Result<(), Failure> {
        let refuse = |what: &str| Err(Failure::Run(what.into()));
        if self.scale_factor.iter().any(|it| !(0.001..=1000.0).contains(it)) {
            return refuse("a scale factor is a number from 0.001 to 1000");
        }
        if self.repetitions == 0 || self.threads.contains(&0) || self.timeout == 0 {
            return refuse("repetitions, threads and the timeout are at least 1");
        }
        if self.is_whole() && self.because.is_some() {
            return refuse("--because says why something is left out, and nothing is");
        }
        Ok(())
    }

    /// Whether nothing of the comparison is left out.
    fn is_whole(&self) -> bool {
        self.only.is_empty()
            && self.cache == Cache::Cold
            && Query::ALL.iter().all(|it| self.queries.contains(it))
            && WHOLE_LIMITS.iter().all(|it| self.limits.contains(it))
            && WHOLE_THREADS.iter().all(|it| self.threads.contains(it))
            && WHOLE_HEADROOM_MB.iter().all(|it| self.headroom.contains(it))
            && self.scale_factor.iter().all(|&it| it >= 1.0)
    }

    fn setting(&self, scale_factor: f64, query: Query) -> Setting {
        Setting {
            scale_factor,
            query,
            seed: self.seed,
            repetitions: self.repetitions,
            cache: self.cache,
            timeout_s: self.timeout,
            because: self.because.clone(),
        }
    }

    fn listing(&self) -> String {
        let mut lines = Vec::new();
        for scale_factor in &self.scale_factor {
            for &query in &self.queries {
                let of = format!("scale factor {scale_factor}, {}", query.label());
                lines.extend(self.steps(query).iter().map(|step| format!("{of}, {step}")));
            }
        }
        lines.push(format!("{} joins", lines.len()));
        lines.join("\n")
    }
}

/// Runs the comparison and answers with its tables.
///
/// # Errors
/// Peers that cannot be installed, tables that cannot be made, a wrong row, or results that cannot
/// be written.
pub(crate) fn run(options: &Options) -> Result<String, Failure> {
    options.check()?;
    if options.list {
        return Ok(options.listing());
    }
    let directory = match &options.directory {
        Some(directory) => directory.clone(),
        None => crate::stock::default_directory("compare-joins")?,
    };
    let stock = Stock::open(&directory)?;
    let root = crate::plan::repository_root();
    let mut texts = Vec::new();
    let mut is_wrong = false;
    for &scale_factor in &options.scale_factor {
        for &query in &options.queries {
            let setting = options.setting(scale_factor, query);
            let (text, has_wrong) = one_query(options, &stock, &root, &setting)?;
            texts.push(text);
            is_wrong |= has_wrong;
        }
    }
    let text = texts.join("\n");
    if is_wrong {
        crate::show(&text);
        return Err(Failure::Wrong("rows differ; the notes below the tables say whose".into()));
    }
    Ok(text)
}

/// Runs one query at one scale factor; its table, and whether a row was wrong.
fn one_query(
    options: &Options,
    stock: &Stock,
    root: &Path,
    setting: &Setting,
) -> Result<(String, bool), Failure> {
    let Setting { scale_factor, query, .. } = *setting;
    let formats: BTreeSet<Format> =
        options.contenders(query).into_iter().map(Contender::format).collect();
    stock.make_tables(scale_factor, options.seed, query, &formats)?;
    let meta = results::meta(setting, stock.directory());
    let mut samples = all_samples(options, stock, setting)?;
    let row = results::settle_row(&mut samples);
    let is_wrong = samples.iter().any(|sample| sample.is_wrong);
    let medians = results::medians(&samples);
    let table = table::whole(&medians, setting, row.as_deref());
    let kept = match &options.out {
        Some(directory) => Some(directory.clone()),
        None if options.is_whole() => {
            Some(root.join("results").join(crate::results::machine_slug()).join("compare-joins"))
        }
        None => None,
    };
    if let Some(directory) = kept {
        let directory = directory.join(format!("sf{scale_factor}")).join(query.label());
        results::write(&directory, &meta, &samples, &medians, &table)?;
        eprintln!("kept in {}", directory.display());
    }
    let text = if options.json { crate::results::json_of(&meta, &medians) } else { table };
    Ok((text, is_wrong))
}

fn all_samples(
    options: &Options,
    stock: &Stock,
    setting: &Setting,
) -> Result<Vec<Sample>, Failure> {
    let data = stock.data(setting.scale_factor, setting.seed);
    let steps = options.steps(setting.query);
    let mut samples = Vec::with_capacity(steps.len());
    for (number, step) in steps.iter().enumerate() {
        let sample = one(*step, stock, setting, &data)?;
        let figures = ["seconds", "cpu_s", "peak_rss_mb", "written_mb", "others_share"]
            .map(|name| format!("{name} {:.2}", sample.metrics.get(name).unwrap_or(&0.0)));
        let ending = match &sample.outcome {
            Ok(_) => String::new(),
            Err(reason) => format!(", FAILED: {reason}"),
        };
        let of = steps.len();
        let query = setting.query.label();
        eprintln!("{query} {} of {of}: {step}: {}{ending}", number + 1, figures.join(", "));
        samples.push(sample);
    }
    Ok(samples)
}

fn one(step: Step, stock: &Stock, setting: &Setting, data: &Path) -> Result<Sample, Failure> {
    match setting.cache {
        Cache::Cold => drop_caches(data)?,
        Cache::Warm => read_all(data)?,
    }
    let (variant, slice_count) = match step.contender.means() {
        Means::Script { variant, slice_count, .. } => (variant, slice_count),
        Means::Nandu(_) => ("", 0),
    };
    let job = Job {
        contender: step.contender,
        query: setting.query,
        tables: setting.query.tables().map(String::from).into(),
        data: data.to_path_buf(),
        temp: stock.temporary(),
        memory_bytes: step.limit.memory_bytes(),
        thread_count: step.thread_count,
        timeout_s: setting.timeout_s,
        processes_file: None,
        python: stock.python(),
        scripts: stock.scripts(),
        variant: variant.into(),
        slice_count,
    };
    let run = process::run(&job, step.limit.group_bytes(step.headroom_mb))?;
    // A process that was killed leaves what it spilled.
    stock.clear_temporary()?;
    Ok(Sample { step, outcome: run.outcome, plan: run.plan, metrics: run.metrics, is_wrong: false })
}

/// Brings every file below `directory` into the page cache.
fn read_all(directory: &Path) -> Result<(), Failure> {
    for path in files_below(directory)? {
        std::fs::File::open(&path)
            .and_then(|mut file| io::copy(&mut file, &mut io::sink()))
            .map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn options(words: &[&str]) -> Options {
        Options::try_parse_from([&["compare-joins"], words].concat()).unwrap()
    }

    #[test]
    fn limits_are_megabytes_or_none() {
        assert_eq!("300".parse(), Ok(Limit::Mb(300)));
        assert_eq!("none".parse(), Ok(Limit::None));
        for bad in ["", "0", "-3", "3MB", "None", "99999999999"] {
            let error = bad.parse::<Limit>().unwrap_err();
            assert!(error.contains("neither a number of MB nor `none`"), "{error}");
        }
        assert_eq!(Limit::Mb(300).memory_bytes(), 300_000_000);
        assert_eq!(Limit::Mb(300).group_bytes(128), 428_000_000);
        assert_eq!(Limit::None.memory_bytes(), 0);
    }

    #[test]
    fn every_contender_joins_under_every_limit_as_often_as_asked() {
        let options = options(&["--threads", "1,2", "--limits", "32,none", "--repetitions", "3"]);
        for query in Query::ALL {
            let steps = options.steps(query);
            for contender in Contender::ALL {
                let count = steps.iter().filter(|step| step.contender == contender).count();
                let thread_counts = if contender.is_serial() { 1 } else { 2 };
                // A limit with little room beside it and with much, and none.
                let wanted = if contender.answers(query) { 3 * 3 * thread_counts } else { 0 };
                assert_eq!(count, wanted, "{} {}", query.label(), contender.label());
            }
        }
    }

    #[test]
    fn another_contender_is_first_each_repetition() {
        let options = options(&[
            "--limits",
            "100",
            "--only",
            "sqlite,duckdb",
            "--threads",
            "1",
            "--headroom",
            "128",
            "--queries",
            "wide",
        ]);
        let labels: Vec<&str> =
            options.steps(Query::Wide).iter().map(|it| it.contender.label()).collect();
        assert_eq!(labels, ["duckdb", "sqlite", "sqlite", "duckdb", "duckdb", "sqlite"]);
        assert!(options.listing().ends_with("\n6 joins"));
    }

    #[test]
    fn a_run_that_leaves_something_out_is_not_kept_by_itself() {
        assert!(options(&[]).is_whole());
        assert!(options(&["--scale-factor", "2,10", "--repetitions", "1"]).is_whole());
        for words in [
            ["--only", "duckdb"],
            ["--limits", "100"],
            ["--cache", "warm"],
            ["--queries", "wide,narrow,lineitem"],
            ["--threads", "1"],
            ["--headroom", "128"],
            ["--scale-factor", "0.01"],
        ] {
            assert!(!options(&words).is_whole(), "{words:?}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_anything_is_installed() {
        for words in [
            ["--scale-factor", "0"],
            ["--scale-factor", "nan"],
            ["--repetitions", "0"],
            ["--threads", "0"],
            ["--timeout", "0"],
            ["--because", "nothing is left out"],
        ] {
            assert!(run(&options(&words)).is_err(), "{words:?}");
        }
        assert!(Options::try_parse_from(["compare-joins", "--only", "oracle"]).is_err());
    }
}
