//! The run: which engine does which phase when, each in a process of its own.
//!
//! ```text
//!   for each r:  for each round:  for each phase:  for each engine, another one first each round:
//!       drop its files from the page cache ─► process inside the limit ─► its answer
//! ```
//!
//! 1. Engines alternate within a phase, so that they meet the same weather of the disk.
//! 2. A run may be cut: by r, by round, by phases over databases that stay (`--databases`). What it
//!    measures joins what is kept already (`--add`), if that was measured alike.
//! 3. All phases of a round start from the database of the build; those that change it get a copy.
//! 4. A wrong answer ends the run. An engine that breaks is left out for the rest of that r, which
//!    the table says, and the run ends with an error after the table.

use crate::busy::Watch;
use crate::engine::EngineKind;
use crate::limit::{MemoryLimit, drop_caches};
use crate::phase::{Answer, Job, PhaseKind, SCAN_RECORDS, SUBCOMMAND, scan_starts};
use crate::results::{self, Row};
use crate::workload::Workload;
use crate::{EXIT_WRONG, Failure, left_out, table};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compare nandu's B+-tree with Berkeley DB, SQLite, LMDB, redb, RocksDB and fjall (workload of
/// S000 section 4.1), side by side in one run.
#[derive(clap::Parser)]
#[command(name = "compare-btree", bin_name = "cargo xtask compare-btree")]
pub(crate) struct Options {
    /// `full` is the comparison that is kept; `quick` takes about a minute, with a tenth of the
    /// records and less memory, at r = 1.
    #[arg(long, value_enum, default_value = "full")]
    pub(crate) scale: Scale,
    /// Records of a database [default: 2,000,000, quick: 200,000].
    #[arg(long)]
    records: Option<u64>,
    /// Inserts and lookups of a phase, of which the first half is discarded [default: 20,000,
    /// quick: 4,000].
    #[arg(long)]
    operations: Option<u64>,
    /// Engines, separated by commas [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    engines: Vec<EngineKind>,
    /// Shares of random keys, separated by commas [default: 0,0.33,1, quick: 1].
    #[arg(long, value_delimiter = ',')]
    r: Vec<f64>,
    /// Phases, separated by commas, in the order of the run whatever the order here [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    phases: Vec<PhaseKind>,
    /// How often each phase is measured [default: 3, quick: 1].
    #[arg(long)]
    rounds: Option<u32>,
    /// The number of the first round: what is looked up follows from it.
    #[arg(long, default_value_t = 1)]
    first_round: u32,
    /// In how many of the rounds the databases are built anew; at least the first.
    #[arg(long, default_value_t = 1)]
    build_rounds: u32,
    /// Memory of an engine's own cache in MiB [default: 32, quick: 8].
    #[arg(long)]
    cache: Option<u64>,
    /// Memory of a process in MiB, page cache included [default: 96, quick: 40].
    #[arg(long)]
    limit: Option<u64>,
    /// Bytes of a page, where the engine lets one choose.
    #[arg(long, default_value_t = 4096)]
    page: u32,
    /// What keys, values and choices follow from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where databases are made, some gigabytes; by default `out/` of the repository.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Where the built databases stay, and are read from where no phase builds them; by default they
    /// go with the run.
    #[arg(long)]
    databases: Option<PathBuf>,
    /// Add to the results that lie in `--out` already, in place of those of the same rounds.
    #[arg(long, requires = "out")]
    add: bool,
    /// Where results go; by default `results/MACHINE/compare-btree` for a full run of everything,
    /// else nowhere.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Why engines, phases or shares are left out; kept with the run and told in the table.
    #[arg(long, value_name = "REASON")]
    pub(crate) because: Option<String>,
    /// Print the medians as JSON in place of the table.
    #[arg(long)]
    json: bool,
}

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Scale {
    /// The workload as published.
    Full,
    /// A reduced run for trying.
    Quick,
}

/// The figure of every phase: the cores that others kept busy meanwhile.
pub(crate) const OTHERS_SHARE: &str = "others_share";

/// What of the options stays the same for all processes.
pub(crate) struct Plan {
    pub(crate) engines: Vec<EngineKind>,
    pub(crate) random_ppm: Vec<u32>,
    phases: Vec<PhaseKind>,
    pub(crate) record_count: u64,
    pub(crate) operation_count: u64,
    rounds: std::ops::RangeInclusive<u32>,
    pub(crate) build_rounds: u32,
    pub(crate) cache_bytes: u64,
    pub(crate) limit_bytes: u64,
    pub(crate) page_bytes: u32,
    pub(crate) seed: u64,
    /// Whether nothing was left out.
    is_whole: bool,
}

impl Options {
    fn plan(&self) -> Result<Plan, Failure> {
        let is_full = self.scale == Scale::Full;
        let or =
            |chosen: Option<u64>, full, quick| chosen.unwrap_or(if is_full { full } else { quick });
        let shares = match self.r.as_slice() {
            [] if is_full => vec![0.0, 0.33, 1.0],
            [] => vec![1.0],
            chosen => chosen.to_vec(),
        };
        let rounds = u32::try_from(or(self.rounds.map(u64::from), 3, 1)).unwrap_or(u32::MAX);
        if rounds == 0 || self.first_round == 0 {
            return Err(Failure::Run(
                "at least one round is needed, and the first is number 1".into(),
            ));
        }
        let plan = Plan {
            engines: match self.engines.as_slice() {
                [] => EngineKind::ALL.to_vec(),
                chosen => chosen.to_vec(),
            },
            random_ppm: shares
                .iter()
                .map(|&share| parts_per_million(share))
                .collect::<Result<_, _>>()?,
            phases: PhaseKind::ALL
                .into_iter()
                .filter(|phase| self.phases.is_empty() || self.phases.contains(phase))
                .collect(),
            record_count: or(self.records, 2_000_000, 200_000),
            operation_count: or(self.operations, 20_000, 4_000),
            rounds: self.first_round..=self.first_round.saturating_add(rounds - 1),
            build_rounds: self.build_rounds.clamp(1, rounds),
            cache_bytes: or(self.cache, 32, 8) << 20,
            limit_bytes: or(self.limit, 96, 40) << 20,
            page_bytes: self.page,
            seed: self.seed,
            is_whole: is_full
                && self.engines.is_empty()
                && self.r.is_empty()
                && self.phases.is_empty()
                && self.records.is_none()
                && self.operations.is_none(),
        };
        if plan.is_whole && self.because.is_some() {
            let remedy = "--because says why something is left out, and nothing is";
            return Err(Failure::Run(remedy.into()));
        }
        if plan.record_count < 1_000 || plan.operation_count < 400 {
            let remedy = "at least 1,000 records and 400 operations are needed";
            return Err(Failure::Run(remedy.into()));
        }
        Ok(plan)
    }
}

/// r as parts per million.
///
/// # Errors
/// If it is not a share.
pub(crate) fn parts_per_million(share: f64) -> Result<u32, Failure> {
    if !(0.0..=1.0).contains(&share) {
        return Err(Failure::Run(format!("r = {share} is not a share from 0 to 1")));
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and a million, as was checked"
    )]
    let ppm = (share * 1e6).round() as u32;
    Ok(ppm)
}

/// What was measured and what was left out.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) rows: Vec<Row>,
    pub(crate) notes: Vec<String>,
    is_broken: bool,
}

/// Runs the comparison and answers with its table.
///
/// # Errors
/// A wrong answer, an engine that broke, or results that cannot be written.
pub(crate) fn run(options: &Options) -> Result<String, Failure> {
    let plan = options.plan()?;
    let root = repository_root();
    let parent = options.dir.clone().unwrap_or_else(|| root.join("out"));
    let name = format!("compare-{}.nandu-scratch", std::process::id());
    let scratch = Scratch(parent.join(name));
    make_directory(&scratch.0)?;
    let limit = MemoryLimit::new(plan.limit_bytes);
    let mut outcome = Outcome::default();
    let mut engines = Vec::new();
    for &engine in &plan.engines {
        match engine.version() {
            Ok(version) => engines.push((engine, version)),
            Err(reason) => outcome.notes.push(format!("{} is left out: {reason}", engine.label())),
        }
    }
    let mut meta = results::meta(&root, &plan, &limit, &scratch.0, &engines);
    if let Some(reason) = &options.because {
        meta["runs"][0]["because"] = reason.as_str().into();
    }
    for &random_ppm in &plan.random_ppm {
        let workload = Workload { seed: plan.seed, random_ppm, record_count: plan.record_count };
        let name = format!("r{random_ppm}");
        let directory = options.databases.as_ref().unwrap_or(&scratch.0).join(&name);
        let copies = scratch.0.join(name).join("copy");
        let engines = engines.iter().map(|(engine, _)| *engine).collect();
        let mut run = Run { plan: &plan, limit: &limit, workload, directory, copies, engines };
        run.all_rounds(&mut outcome)?;
        remove_directory(&run.copies);
        if options.databases.is_none() {
            remove_directory(&run.directory);
        }
    }
    results::complete(&mut meta);
    report(options, &plan, &root, meta, outcome)
}

/// Keeps what was measured, where that is wanted, and answers with the table.
fn report(
    options: &Options,
    plan: &Plan,
    root: &Path,
    mut meta: serde_json::Value,
    mut outcome: Outcome,
) -> Result<String, Failure> {
    let kept = match &options.out {
        Some(directory) => Some(directory.clone()),
        None if plan.is_whole => {
            Some(root.join("results").join(results::machine_slug()).join("compare-btree"))
        }
        None => None,
    };
    if let (Some(directory), true) = (&kept, options.add) {
        results::add_to(directory, &mut meta, &mut outcome.rows)?;
    }
    results::derive_gains(&mut outcome.rows);
    outcome.notes.extend(left_out::notes(&outcome.rows, &results::reasons_in(&meta)));
    let medians = results::medians(&outcome.rows);
    let table = table::whole(&medians, &meta, &outcome.notes);
    if let Some(directory) = kept {
        results::write(&directory, &meta, &outcome.rows, &medians, &table)?;
        eprintln!("kept in {}", directory.display());
    }
    if outcome.is_broken {
        crate::show(&table);
        return Err(Failure::Run("an engine broke; the notes above the table say which".into()));
    }
    Ok(if options.json { results::json_of(&meta, &medians) } else { table })
}

/// The run at one r.
struct Run<'a> {
    plan: &'a Plan,
    limit: &'a MemoryLimit,
    workload: Workload,
    /// The directory under which each engine has its database.
    directory: PathBuf,
    /// Databases that a phase changes.
    copies: PathBuf,
    /// Those that have not broken.
    engines: Vec<EngineKind>,
}

impl Run<'_> {
    fn all_rounds(&mut self, outcome: &mut Outcome) -> Result<(), Failure> {
        let first_round = *self.plan.rounds.start();
        for round in self.plan.rounds.clone() {
            for &phase in &self.plan.phases {
                if phase.is_build() && round - first_round >= self.plan.build_rounds {
                    continue;
                }
                let mut order = self.engines.clone();
                let first = (round as usize - 1) % order.len().max(1);
                order.rotate_left(first);
                for engine in order {
                    if phase.is_batch() && !engine.has_batches() {
                        continue;
                    }
                    self.one(engine, phase, round, outcome)?;
                }
            }
        }
        Ok(())
    }

    /// One phase of one engine, with its rows.
    fn one(
        &mut self,
        engine: EngineKind,
        phase: PhaseKind,
        round: u32,
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        let r = f64::from(self.workload.random_ppm) / 1e6;
        let (engine_label, phase_label) = (engine.label(), phase.label());
        let last = self.plan.rounds.end();
        let place = format!("r {r} round {round} of {last} {phase_label} {engine_label}");
        match self.answer(engine, phase, round) {
            Ok(answer) => {
                let figures: Vec<String> = answer
                    .metrics
                    .iter()
                    .map(|(name, value)| format!("{name} {value:.2}"))
                    .collect();
                eprintln!("{place}: {}", figures.join(", "));
                outcome.rows.extend(answer.metrics.into_iter().map(|(metric, value)| Row {
                    random_ppm: self.workload.random_ppm,
                    round,
                    phase,
                    engine,
                    metric,
                    value,
                }));
                Ok(())
            }
            Err(Failure::Wrong(text)) => Err(Failure::Wrong(format!("{place}: {text}"))),
            Err(failure) => {
                eprintln!("{place}: FAILED: {failure}");
                outcome
                    .notes
                    .push(format!("{place} failed, the rest of it is left out: {failure}"));
                outcome.is_broken = true;
                self.engines.retain(|&other| other != engine);
                Ok(())
            }
        }
    }

    fn answer(&self, engine: EngineKind, phase: PhaseKind, round: u32) -> Result<Answer, Failure> {
        let built = self.directory.join(engine.label());
        let directory = match phase {
            PhaseKind::Build => {
                remove_directory(&built);
                make_directory(&built)?;
                built
            }
            PhaseKind::BuildSorted => {
                let sorted = self.copies.join("sorted");
                remove_directory(&sorted);
                make_directory(&sorted)?;
                sorted
            }
            _ if !built.is_dir() => {
                return Err(Failure::Engine(format!(
                    "{} is not built; name the phase build, or --databases where it is",
                    built.display()
                )));
            }
            _ if phase.changes() => {
                let copy = self.copies.join("database");
                remove_directory(&copy);
                copy_directory(&built, &copy)?;
                drop_caches(&built)?;
                copy
            }
            _ => built,
        };
        drop_caches(&directory)?;
        self.limit.reclaim();
        let job = Job {
            engine,
            phase,
            directory,
            processes_file: self.limit.processes_file(),
            workload: self.workload,
            round,
            operation_count: self.plan.operation_count,
            cache_bytes: self.plan.cache_bytes,
            limit_bytes: self.plan.limit_bytes,
            page_bytes: self.plan.page_bytes,
        };
        let answer = run_process(&job)?;
        if let Some(digest) = answer.digest
            && digest != self.workload.scan_digest(&scan_starts(&job), SCAN_RECORDS)
        {
            return Err(Failure::Wrong("the scans did not visit the records of the model".into()));
        }
        Ok(answer)
    }
}

fn run_process(job: &Job) -> Result<Answer, Failure> {
    let fail = |error: &dyn std::fmt::Display| Failure::Run(format!("the phase: {error}"));
    let program = std::env::current_exe().map_err(|error| fail(&error))?;
    let text = serde_json::to_string(job).map_err(|error| fail(&error))?;
    let watch = Watch::start();
    let output =
        Command::new(program).args([SUBCOMMAND, &text]).output().map_err(|error| fail(&error))?;
    if output.status.success() {
        let mut answer: Answer =
            serde_json::from_slice(&output.stdout).map_err(|error| fail(&error))?;
        answer.metrics.insert(OTHERS_SHARE.into(), watch.others_share());
        return Ok(answer);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let errors = errors.trim().trim_start_matches("error: ").to_string();
    match output.status.code() {
        Some(code) if code == i32::from(EXIT_WRONG) => Err(Failure::Wrong(errors)),
        Some(_) => Err(Failure::Engine(errors)),
        None => Err(Failure::Engine(format!(
            "{}; the memory limit ends a process that needs more {errors}",
            output.status
        ))),
    }
}

/// A directory that goes when this goes.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        remove_directory(&self.0);
    }
}

/// The directory above this crate when cargo runs it, else the current one.
pub(crate) fn repository_root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .and_then(|directory| Path::new(&directory).parent().map(Path::to_path_buf))
        .unwrap_or_else(|| PathBuf::from("."))
}

fn make_directory(path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(path)
        .map_err(|error| Failure::Run(format!("{}: cannot be made: {error}", path.display())))
}

fn remove_directory(path: &Path) {
    // It may not exist; what cannot be removed now is removed with the scratch directory.
    let _ = std::fs::remove_dir_all(path);
}

/// Copies what lies in `source`; where a file has holes, the copy has them, too.
fn copy_directory(source: &Path, target: &Path) -> Result<(), Failure> {
    make_directory(target)?;
    let output = Command::new("cp")
        .args(["--recursive", "--no-target-directory", "--sparse=always"])
        .args([source, target])
        .output()
        .map_err(|error| Failure::Run(format!("cp: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(Failure::Run(format!("{}: {}", target.display(), errors.trim())))
}
