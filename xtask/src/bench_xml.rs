//! What the store of XML documents does on this disk, beside what it is to do: several rounds of
//! `nandu bench tpox` and of the example `lookups`, with the disk's sync measured in between.
//!
//! ```text
//!   documents: nandu load tpox, nandu xml export ─► large/NAME.xml, small/NAME.xml
//!   each round: readers │ sync │ mix 30 │ sync │ writers at two sizes │ nandu xml import of each large
//!               document │ lookups and changes in each small one
//!         ─► medians with the least and the most, beside targets ─► OUT/targets.json
//! ```
//!
//! 1. Rounds alternate over all runs, so that a slow minute of the machine meets them all.
//! 2. What a sync allows is of the syncs right before and behind the run that it stands beside.
//! 3. What misses its target stands first.

use crate::compare_fio::{capture, json_of, number, spread};
use crate::kept;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The command line of the benchmark.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often everything runs.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Text of all three documents of readers and writers, as `nandu bench tpox` has it.
    #[arg(long, default_value = "250MB")]
    size: String,
    /// The sizes between which a writer's latency is to grow by less than a half.
    #[arg(long, num_args = 2, default_values = ["10MB", "1GB"])]
    grow: Vec<String>,
    /// The size at which each of the three documents in which parts are looked up has about 25 MB.
    #[arg(long, default_value = "62MB")]
    lookup_size: String,
    /// Seed of documents and transactions.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the directory bench-xml is made, which has the databases and goes at the end; on the disk that
    /// is measured.
    #[arg(long, default_value = "out")]
    directory: PathBuf,
    /// Where `targets.json` is kept, such as results/MACHINE/xml; without it figures are shown only.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// A document, what finds its parts, and a value of a part that is changed.
const DOCUMENTS: [[&str; 4]; 3] = [
    ["custacc", "/custacc/*", "id", "/*[local-name() = 'Mnemonic']/text()"],
    ["order", "/order/*/*", "ID", "/@Typ"],
    ["security", "/security/*", "id", "/*[local-name() = 'Symbol']/text()"],
];
/// Documents of a size in the directory of its name.
const LARGE: &str = "large";
const SMALL: &str = "small";
const PAGE_BYTES: usize = 4096;
const SYNC_COUNT: usize = 200;
/// What all runs of `nandu bench tpox` share: a pool that holds everything.
const SHARED: [&str; 4] = ["--memory", "2GiB", "--json", "-q"];

/// A target: its name, what is asked, whether more is better.
type Target = (&'static str, f64, bool);
const TARGETS: [Target; 7] = [
    ("readers_per_second", 5000.0, true),
    ("mix_30_over_sync_alone", 0.9, true),
    (MIX_AT_FAST_SYNC, 1000.0, true),
    ("writer_latency_growth", 1.5, false),
    ("import_with_indexes_mb_per_second", 40.0, true),
    ("lookup_by_id_ms", 1.0, false),
    ("one_word_update_beside_sync_ms", 1.0, false),
];

/// Transactions of mix 30 a second, of rounds in which a sync took no longer than [`FAST_SYNC_S`].
const MIX_AT_FAST_SYNC: &str = "mix_30_per_second_at_a_fast_sync";
const FAST_SYNC_S: f64 = 2.5e-3;

/// Values by name, one of each round.
type Figures = BTreeMap<String, Vec<f64>>;

/// Runs everything in `root`, shows medians beside targets, and keeps them.
///
/// # Errors
/// If something cannot be built or fails.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    if options.rounds == 0 {
        return Err("--rounds is 0, must be at least 1".into());
    }
    let bench = Bench::new(root, options)?;
    let mut figures = Figures::new();
    let mut loads = Vec::new();
    for round in 1..=options.rounds {
        println!("round {round}");
        loads.push(load_average());
        bench.round(&mut figures)?;
    }
    fs::remove_dir_all(&bench.directory).map_err(|error| bench.failure(&error))?;
    let targets = judged(&figures);
    for target in &targets {
        println!("{target}");
    }
    let all: BTreeMap<&String, Value> =
        figures.iter().map(|(name, values)| (name, told(values))).collect();
    println!("{:#}", json!(all));
    let Some(directory) = &options.out else { return Ok(()) };
    let kept = json!({
        "command": command_line(options),
        "commit": kept::commit_of(root)?,
        "date": capture(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]))?,
        "load_average_before_each_round": loads,
        "niceness": niceness(),
        "machine": nandu_drives::file::machine_description(),
        "disk": nandu_drives::file::disk_description(root),
        "seed": options.seed,
        "round_count": options.rounds,
        "targets": targets,
        "figures": all,
    });
    kept::store(&root.join(directory), "targets.json", &kept)
}

fn command_line(options: &Options) -> String {
    let Options { rounds, size, grow, lookup_size, seed, directory, out } = options;
    let out = out.as_ref().map_or(String::new(), |out| format!(" --out {}", out.display()));
    format!(
        "cargo xtask bench-xml --rounds {rounds} --size {size} --grow {} {} --lookup-size \
         {lookup_size} --seed {seed} --directory {}{out}",
        grow[0],
        grow[1],
        directory.display()
    )
}

fn load_average() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}

/// How willing this process is to let others go first, as whoever ran it said by `nice`.
fn niceness() -> Option<i64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // After the name in brackets, which may have spaces, comes field 3; this is field 19.
    stat.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse().ok()
}

fn told(values: &[f64]) -> Value {
    let [median, least, most] = spread(values.to_vec());
    json!({ "median": median, "least": least, "most": most })
}

/// Each target with its figure; those that are missed come first.
fn judged(figures: &Figures) -> Vec<Value> {
    let mut targets: Vec<(bool, Value)> = TARGETS
        .into_iter()
        .filter_map(|(name, target, more_is_better)| {
            let values = figures.get(name)?;
            let median = spread(values.clone())[0];
            let is_met = if more_is_better { median >= target } else { median <= target };
            let asked = if more_is_better { "at_least" } else { "at_most" };
            let value = json!({
                "name": name, asked: target, "is_met": is_met, "figure": told(values),
            });
            Some((is_met, value))
        })
        .collect();
    targets.sort_by_key(|(is_met, _)| *is_met);
    targets.into_iter().map(|(_, value)| value).collect()
}

/// The programs and documents.
struct Bench<'o> {
    options: &'o Options,
    directory: PathBuf,
    nandu: PathBuf,
    lookups: PathBuf,
}

impl<'o> Bench<'o> {
    /// Builds the programs and makes the documents.
    fn new(root: &Path, options: &'o Options) -> Result<Self, String> {
        for part in [&["--package", "nandu-cli"][..], &["-p", "nandu-xml", "--example", "lookups"]]
        {
            let mut command = Command::new("cargo");
            capture(command.current_dir(root).args(["build", "--quiet", "--release"]).args(part))?;
        }
        let built = root.join("target/release");
        let (nandu, lookups) = (built.join("nandu"), built.join("examples/lookups"));
        // Of its own: it is removed at the end, and what else lies beside it is not.
        let directory = root.join(&options.directory).join("bench-xml");
        let bench = Self { options, directory, nandu, lookups };
        for (size, set) in [(&options.size, LARGE), (&options.lookup_size, SMALL)] {
            bench.make_documents(size, set)?;
        }
        Ok(bench)
    }

    /// Writes the three documents of a size.
    fn make_documents(&self, size: &str, set: &str) -> Result<(), String> {
        let fail = |error| self.failure(&error);
        fs::create_dir_all(self.directory.join(set)).map_err(fail)?;
        let database = self.directory.join("documents");
        let load = [
            "load",
            "tpox",
            "-q",
            "--index",
            "none",
            "--size",
            size,
            "--seed",
            &self.options.seed.to_string(),
        ];
        capture(Command::new(&self.nandu).args(load).arg(&database))?;
        for [name, ..] in DOCUMENTS {
            let file = File::create(self.document(set, name)).map_err(fail)?;
            let mut export = Command::new(&self.nandu);
            export.args(["xml", "export", "-q", "--name", name]).arg(&database);
            let status = export.stdout(file).status().map_err(fail)?;
            if !status.success() {
                return Err(format!("nandu xml export ended with {status}"));
            }
        }
        fs::remove_dir_all(&database).map_err(fail)
    }

    fn document(&self, set: &str, name: &str) -> PathBuf {
        self.directory.join(set).join(name).with_extension("xml")
    }

    /// Megabytes of text a second that `nandu xml import` takes in, with an index of all elements and one
    /// of ids, into a new database.
    fn import_mb_s(&self, [name, path, attribute, _]: [&str; 4]) -> Result<f64, String> {
        let (file, database) = (self.document(LARGE, name), self.directory.join("imported"));
        let ids = format!("text:{path}/@{attribute}");
        let mut command = Command::new(&self.nandu);
        command.args(["xml", "import", "--json", "-q", "--index", "elements", "--index", &ids]);
        let seconds = number(&json_of(command.arg(&file).arg(&database))?["seconds"])?;
        let bytes = fs::metadata(&file).map_err(|error| self.failure(&error))?.len();
        fs::remove_dir_all(&database).map_err(|error| self.failure(&error))?;
        Ok(bytes as f64 / 1e6 / seconds)
    }

    fn failure(&self, error: &std::io::Error) -> String {
        format!("{}: {error}", self.directory.display())
    }

    /// Seconds that a sync takes after a page was written again, the mean of many.
    fn sync_s(&self) -> Result<f64, String> {
        let fail = |error| self.failure(&error);
        let path = self.directory.join("synced");
        let file = File::create(&path).map_err(fail)?;
        file.write_all_at(&vec![1; SYNC_COUNT * PAGE_BYTES], 0).map_err(fail)?;
        file.sync_all().map_err(fail)?;
        let begun = Instant::now();
        for number in 0..SYNC_COUNT {
            file.write_all_at(&[2; PAGE_BYTES], (number * PAGE_BYTES) as u64).map_err(fail)?;
            file.sync_data().map_err(fail)?;
        }
        let seconds = begun.elapsed().as_secs_f64() / SYNC_COUNT as f64;
        fs::remove_file(&path).map_err(fail)?;
        Ok(seconds)
    }

    /// A run of `nandu bench tpox`.
    fn tpox(&self, mix: &str, size: &str, [warm_up, count]: [&str; 2]) -> Result<Value, String> {
        let mut command = Command::new(&self.nandu);
        command.args(["bench", "tpox", "--mix", mix, "--size", size, "--warm-up", warm_up]);
        command.args(["--transactions", count, "--seed", &self.options.seed.to_string()]);
        command.args(SHARED).arg("--device").arg(&self.directory);
        json_of(&mut command)
    }

    fn round(&self, figures: &mut Figures) -> Result<(), String> {
        let mut keep = |name: &str, value: f64| {
            println!("  {name}: {value:.3}");
            figures.entry(name.to_owned()).or_default().push(value);
        };
        let size = &self.options.size;
        let readers = self.tpox("readers", size, ["100000", "50000"])?;
        keep("readers_per_second", number(&readers["operations_per_second"])?);
        let before_s = self.sync_s()?;
        let mixed = self.tpox("30", size, ["100000", "10000"])?;
        let sync_s = f64::midpoint(before_s, self.sync_s()?);
        let per_second = number(&mixed["operations_per_second"])?;
        keep("sync_ms", sync_s * 1e3);
        keep("mix_30_per_second", per_second);
        keep("mix_30_log_bytes_per_transaction", number(&mixed["log_bytes_per_transaction"])?);
        keep("mix_30_over_sync_alone", per_second * 0.3 * sync_s);
        if sync_s <= FAST_SYNC_S {
            keep(MIX_AT_FAST_SYNC, per_second);
        }
        let mut latencies_s = Vec::new();
        for (size, name) in self.options.grow.iter().zip(["small", "large"]) {
            let latency_s = writer_latency_s(&self.tpox("30", size, ["100000", "5000"])?)?;
            keep(&format!("writer_latency_{name}_ms"), latency_s * 1e3);
            latencies_s.push(latency_s);
        }
        keep("writer_latency_growth", latencies_s[1] / latencies_s[0]);
        let mut worst: BTreeMap<&str, f64> = BTreeMap::new();
        for document in DOCUMENTS {
            let [name, path, attribute, text] = document;
            let speed = self.import_mb_s(document)?;
            let mut command = Command::new(&self.lookups);
            command.arg(self.document(SMALL, name)).args([path, attribute, text, "elements"]);
            let told = json_of(command.env("TMPDIR", &self.directory))?;
            let us = |name: &str| number(&told["answers"][name]["median"]);
            let lookup_ms = us("lookup_us")? / 1e3;
            // A sync may end with a tick of the disk, whatever was computed before.
            let (before_us, whole_us) =
                (us("update_before_commit_us")?, us("update_with_commit_us")?);
            let beside_ms = before_us.max(whole_us - us("sync_us")?) / 1e3;
            keep(&format!("{name}_import_with_indexes_mb_per_second"), speed);
            keep(&format!("{name}_lookup_by_id_ms"), lookup_ms);
            keep(&format!("{name}_update_beside_sync_ms"), beside_ms);
            keep(&format!("{name}_update_with_commit_ms"), whole_us / 1e3);
            keep(&format!("{name}_sync_ms"), us("sync_us")? / 1e3);
            let mut take = |name, value: f64, worse: fn(f64, f64) -> f64| {
                let worst = worst.entry(name).or_insert(value);
                *worst = worse(*worst, value);
            };
            take("import_with_indexes_mb_per_second", speed, f64::min);
            take("lookup_by_id_ms", lookup_ms, f64::max);
            take("one_word_update_beside_sync_ms", beside_ms, f64::max);
        }
        // Of the document that is the worst.
        worst.into_iter().for_each(|(name, value)| keep(name, value));
        Ok(())
    }
}

/// The mean latency of what changes something.
fn writer_latency_s(run: &Value) -> Result<f64, String> {
    let operations = run["operations"].as_array().ok_or("there are no operations")?;
    let (mut count, mut sum_ns) = (0.0, 0.0);
    for operation in operations {
        if operation["kind"].as_str().is_some_and(|kind| kind.starts_with("wq")) {
            let latency = &operation["latency_ns"];
            let of_kind = number(&latency["count"])?;
            count += of_kind;
            sum_ns += of_kind * number(&latency["mean"])?;
        }
    }
    Ok(sum_ns / count / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_misses_its_target_comes_first() {
        let figures = Figures::from([
            ("readers_per_second".to_owned(), vec![9000.0, 4000.0, 6000.0]),
            ("lookup_by_id_ms".to_owned(), vec![2.0]),
        ]);
        let targets = judged(&figures);
        assert_eq!(targets.len(), 2);
        assert_eq!(
            (&targets[0]["name"], &targets[0]["is_met"]),
            (&json!("lookup_by_id_ms"), &json!(false))
        );
        assert_eq!(
            (&targets[1]["figure"]["median"], &targets[1]["at_least"]),
            (&json!(6000.0), &json!(5000.0))
        );
    }

    #[test]
    fn a_writer_is_the_mean_of_all_changes() {
        let of = |kind: &str, count: u32, mean: f64| json!({ "kind": kind, "latency_ns": { "count": count, "mean": mean } });
        let run =
            json!({ "operations": [of("rq1", 9, 1.0), of("wq1", 1, 1e9), of("wq3", 3, 5e9)] });
        assert!((writer_latency_s(&run).unwrap() - 4.0).abs() < 1e-12);
    }
}
