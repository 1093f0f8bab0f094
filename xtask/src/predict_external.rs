//! What `nandu probe` of this disk says that work on records beyond memory will take, beside what it
//! takes: a sort, a list ranking, and searches without clusters and with them, with the building of the
//! graph.
//!
//! ```text
//!   once:       random.u64, a graph's edges and records of 16 bytes; list.u64, successors
//!   each round: nandu probe ─► profile.json ─► external sort │ external rank │ graph bfs, --predict
//!         ─► predicted over taken, medians with the least and the most ─► OUT/predictions.json
//! ```
//!
//! 1. Each round probes anew, before anything of it runs.
//! 2. What differs by more than the programs themselves allow stands first.

use crate::compare_fio::{capture, json_of, number, spread};
use crate::kept;
use nandu_base::Permutation;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The command line of the measurement.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often the disk is probed and everything runs.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Edges of the graph, and records of the sort; a fourth of them are its nodes and the list's elements.
    #[arg(long, default_value_t = 1 << 25, value_parser = clap::value_parser!(u64).range(4096..))]
    edges: u64,
    /// Memory of each.
    #[arg(long, default_value = "64MiB")]
    memory: String,
    /// Seed of the graph and the list.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the directory predict-external is made, which has inputs and temporary files and goes at
    /// the end; on the disk that is measured.
    #[arg(long, default_value = "out")]
    directory: PathBuf,
    /// Where `predictions.json` is kept, such as results/MACHINE/predict-external; without it figures are
    /// shown only.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Depths that a store with its usual requests in flight, and a search's two readers, ask of the disk.
const DEPTHS: &str = "1,4,5,10,32";

/// Predicted over taken by name, one of each round, and how many of them differ.
type Figures = BTreeMap<&'static str, (Vec<f64>, u64)>;

/// Runs everything, shows what was predicted over what was taken, and keeps it.
///
/// # Errors
/// If something cannot be built or fails.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    if options.rounds == 0 {
        return Err("--rounds is 0, must be at least 1".into());
    }
    let build = ["build", "--quiet", "--release", "--package", "nandu-cli"];
    capture(Command::new("cargo").current_dir(root).args(build))?;
    let directory = root.join(&options.directory).join("predict-external");
    let bench = Bench { options, nandu: root.join("target/release/nandu"), directory };
    bench.make_inputs()?;
    let (mut figures, mut runs) = (Figures::new(), Vec::new());
    for round in 1..=options.rounds {
        println!("round {round}");
        runs.push(bench.round(&mut figures)?);
    }
    fs::remove_dir_all(&bench.directory).map_err(|error| bench.failure(&error))?;
    let told = told(&figures);
    told.iter().for_each(|figure| println!("{figure}"));
    let Some(out) = &options.out else { return Ok(()) };
    let kept = json!({
        "command": command_line(options),
        "commit": kept::commit_of(root)?,
        "date": capture(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]))?,
        "machine": nandu_drives::file::machine_description(),
        "disk": nandu_drives::file::disk_description(root),
        "seed": options.seed,
        "round_count": options.rounds,
        "predicted_over_taken": told,
        "rounds": runs,
    });
    kept::store(&root.join(out), "predictions.json", &without_place(&kept, root)?)
}

/// The same, with places below the repository told from there: where it lies is nobody's business.
fn without_place(kept: &Value, root: &Path) -> Result<Value, String> {
    let text = kept.to_string().replace(&format!("{}/", root.display()), "");
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

fn command_line(options: &Options) -> String {
    let Options { rounds, edges, memory, seed, directory, out } = options;
    let out = out.as_ref().map_or(String::new(), |out| format!(" --out {}", out.display()));
    format!(
        "cargo xtask predict-external --rounds {rounds} --edges {edges} --memory {memory} --seed \
         {seed} --directory {}{out}",
        directory.display()
    )
}

/// Each ratio with how often it differed, the most often first.
fn told(figures: &Figures) -> Vec<Value> {
    let mut figures: Vec<_> = figures.iter().collect();
    figures.sort_by_key(|(_, (_, differs_count))| std::cmp::Reverse(*differs_count));
    let told = figures.into_iter().map(|(name, (ratios, differs_count))| {
        let [median, least, most] = spread(ratios.clone());
        json!({
            "name": name, "median": median, "least": least, "most": most,
            "differs_count": differs_count, "round_count": ratios.len(),
        })
    });
    told.collect()
}

/// The program, and where it works.
struct Bench<'o> {
    options: &'o Options,
    nandu: PathBuf,
    directory: PathBuf,
}

impl Bench<'_> {
    fn failure(&self, error: &std::io::Error) -> String {
        format!("{}: {error}", self.directory.display())
    }

    fn node_count(&self) -> u64 {
        self.options.edges / 4
    }

    /// The list, of all elements in an order that is drawn.
    fn order(&self) -> Permutation {
        Permutation::new(self.node_count(), self.options.seed)
    }

    fn make_inputs(&self) -> Result<(), String> {
        fs::create_dir_all(&self.directory).map_err(|error| self.failure(&error))?;
        let Options { edges, seed, .. } = self.options;
        let mut make = Command::new(&self.nandu);
        make.args(["graph", "make", "random", "-q", "--nodes", &self.node_count().to_string()]);
        make.args(["--edges", &edges.to_string(), "--seed", &seed.to_string()]);
        capture(make.arg(self.directory.join("random.u64")))?;
        self.make_list().map_err(|error| self.failure(&error))
    }

    fn make_list(&self) -> std::io::Result<()> {
        let (order, count) = (self.order(), self.node_count());
        let mut successors = vec![u64::MAX; usize::try_from(count).unwrap_or(usize::MAX)];
        let mut element = order.apply(0);
        for place in 1..count {
            let next = order.apply(place);
            successors[usize::try_from(element).unwrap_or(usize::MAX)] = next;
            element = next;
        }
        let mut file = BufWriter::new(File::create(self.directory.join("list.u64"))?);
        for successor in successors {
            file.write_all(&successor.to_le_bytes())?;
        }
        file.flush()
    }

    /// Probes and runs everything once; what each told.
    fn round(&self, figures: &mut Figures) -> Result<Value, String> {
        let profile = self.directory.join("profile.json");
        let mut probe = Command::new(&self.nandu);
        probe
            .args(["probe", "-q", "--overwrite", "--queue-depth", DEPTHS, "--profile"])
            .arg(&profile);
        capture(probe.arg(&self.directory))?;
        let (nodes, head) = (self.node_count().to_string(), self.order().apply(0).to_string());
        let little_endian =
            ["--record-bytes", "16", "--key-bytes", "8", "--key-type", "little-endian"];
        let sort =
            self.predicted(&profile, &["external", "sort"], "random.u64", &little_endian, true)?;
        let rank =
            self.predicted(&profile, &["external", "rank"], "list.u64", &["--head", &head], true)?;
        let bfs =
            self.predicted(&profile, &["graph", "bfs"], "random.u64", &["--nodes", &nodes], false)?;
        let options = ["--nodes", &nodes, "--algorithm", "mm"];
        let mm = self.predicted(&profile, &["graph", "bfs"], "random.u64", &options, false)?;
        let besides = [
            ("external sort", &sort["prediction"]),
            ("external rank", &rank["prediction"]),
            ("graph bfs, building", &bfs["prediction"]["building"]),
            ("graph bfs, searching", &bfs["prediction"]["searching"]),
            ("graph bfs, mm, making clusters", &mm["prediction"]["clustering"]),
            ("graph bfs, mm, searching", &mm["prediction"]["searching"]),
        ];
        for (name, beside) in besides {
            let ratio = number(&beside["predicted_ns"])? / number(&beside["elapsed_ns"])?;
            let differs = beside["differs"].as_bool().ok_or("it is not told whether it differs")?;
            println!("  {name}: {ratio:.3}{}", if differs { ", differs" } else { "" });
            let (ratios, differs_count) = figures.entry(name).or_default();
            ratios.push(ratio);
            *differs_count += u64::from(differs);
        }
        Ok(json!({ "sort": sort, "rank": rank, "bfs": bfs, "mm": mm }))
    }

    fn predicted(
        &self,
        profile: &Path,
        what: &[&str],
        input: &str,
        options: &[&str],
        has_output: bool,
    ) -> Result<Value, String> {
        let mut command = Command::new(&self.nandu);
        command.args(what).arg(self.directory.join(input)).args(options);
        command.args(["--json", "-q", "--memory", &self.options.memory, "--device"]);
        command.arg(&self.directory).arg("--predict").arg(profile);
        let output = self.directory.join("output");
        if has_output {
            command.arg("-o").arg(&output);
        }
        let mut told = json_of(&mut command)?;
        if has_output {
            fs::remove_file(&output).map_err(|error| self.failure(&error))?;
        }
        // The places say where the measurement was made, and nothing else.
        for place in ["file", "output"] {
            if let Some(object) = told.as_object_mut() {
                object.remove(place);
            }
        }
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_from_the_repository_on() {
        let kept = json!({ "device": "/somewhere/nandu/out/it", "count": 3 });
        let told = without_place(&kept, Path::new("/somewhere/nandu"));
        assert_eq!(told, Ok(json!({ "device": "out/it", "count": 3 })));
    }

    #[test]
    fn what_differs_comes_first() {
        let figures =
            Figures::from([("a", (vec![1.0, 1.1, 0.9], 0)), ("b", (vec![2.0, 0.5, 1.0], 2))]);
        let told = told(&figures);
        assert_eq!((&told[0]["name"], &told[0]["differs_count"]), (&json!("b"), &json!(2)));
        assert_eq!((&told[1]["median"], &told[1]["most"]), (&json!(1.0), &json!(1.1)));
    }
}
