//! The targets of `fuzz/`, one after another, each for the same time from the same seed, and what came of
//! it in a file (docs/fuzzing.md).
//!
//! ```text
//!   build with coverage, stable compiler ─► samples of each target, in a scratch directory
//!     for each file of fuzz/fuzz_targets ─► run it ─► its last lines ─► campaigns.json
//! ```
//!
//! 1. Every target runs: what lies in `fuzz/fuzz_targets` is the list.
//! 2. An input that crashes its target is kept in `fuzz/artifacts`, and the run goes on and then fails.

use crate::compare_fio::capture;
use crate::kept;
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What has the stable compiler count edges, which `cargo fuzz` asks a nightly one for.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cdebug-assertions \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table";
/// The bounds of each input. The time is by the clock: a machine that others use needs some.
const LIMITS: [&str; 3] = ["-rss_limit_mb=2048", "-timeout=30", "-max_len=32768"];
/// Crates whose example `fuzz_corpus` makes samples.
const SAMPLING_PACKAGES: [&str; 2] = ["nandu-storage", "nandu-load"];
/// Samples of the targets that no example makes any for.
const SAMPLES: [(&str, &str, &[u8]); 16] = [
    // The first byte says in which mapping, and with indexes below 128.
    (
        "xml_document",
        "names",
        b"\x00<a:b xmlns:a='u' xmlns='v' c='1' a:d='&lt;'>t<e/>&#65;<![CDATA[<x>]]></a:b>",
    ),
    (
        "xml_document",
        "head",
        b"\x01<?xml version='1.0'?><!DOCTYPE r [<!ENTITY e 'x<y>z</y>'>]><r>&e;<!--c--><?p d?></r>",
    ),
    ("xml_document", "plain", b"\x82<r><o id='7'>12.5</o>\r\n<o id='8'/></r>\n"),
    (
        "json_document",
        "values",
        b"\x00{\"a\": [1.50, -2e9, null], \"b c\": {\"\": \"\\u00e4\\ud83d\\ude00\"}}",
    ),
    ("json_document", "empty", b"\x82\xEF\xBB\xBF[[], {}, \"\", true]\n"),
    ("xpath", "path", b"//order[@id = '17' or price > 3.5]/item[last()]"),
    ("xpath", "call", b"concat(string(//order[2]/@p:kind), ' ', sum(//price[. < 9]) div 2)"),
    ("manifest", "one-file", b"nandu volume 2\nmade 1\nfile 3 0 a\n"),
    ("setting", "capacity", b"capacity=64 MiB\nsector_bytes=512\n"),
    ("setting", "ssd", b"ssd.over_provisioning_ppm=70000\nssd.ftl.unit_bytes=4096\n"),
    (
        "engine_trace",
        "few",
        &[
            0x6e, 0x61, 0x6e, 0x64, 0x75, 0x65, 0x67, 0x31, 0x24, 0x00, 0x00, 0x00, 0x59, 0x87,
            0xe6, 0x53, 0x9f, 0x81, 0xa2, 0x6f, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x02, 0x00, 0x00, 0x00, 0x02, 0x00, 0x03, 0x00, 0x00, 0x00, 0x05, 0x73, 0x74, 0x6f,
            0x63, 0x6b, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0x6f, 0x72, 0x64, 0x65, 0x72,
            0x1e, 0x00, 0x00, 0x00, 0x06, 0x00, 0x00, 0x00, 0xcf, 0x50, 0x7f, 0x9e, 0x9b, 0x5d,
            0x09, 0x6b, 0x1c, 0x05, 0x02, 0x04, 0x15, 0xff, 0x06, 0x05, 0x02, 0x00, 0x01, 0xee,
            0x03, 0x0f, 0x41, 0x00, 0x39, 0x07, 0xd2, 0x04, 0x01, 0x01, 0xfe, 0x03, 0x06, 0x32,
            0x17, 0x01, 0xc7, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x06, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        ],
    ),
    // The first byte says of which kind, 4 that the rest tells it.
    ("edge_list", "text", b"\x04# nodes\n0 1\n1\t2\n2,3\n"),
    (
        "edge_list",
        "matrix-market",
        b"\x04%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n",
    ),
    ("edge_list", "u32", b"\x01\0\0\0\0\x01\0\0\0\x01\0\0\0\x02\0\0\0"),
    (
        "edge_list",
        "gzip",
        &[
            0x04, 0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x33, 0x50, 0x30,
            0xe4, 0x32, 0x54, 0x30, 0xe2, 0x02, 0x00, 0x6a, 0x1d, 0xbb, 0xd7, 0x08, 0x00, 0x00,
            0x00,
        ],
    ),
    (
        "edge_list",
        "zstd",
        &[
            0x04, 0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x41, 0x00, 0x00, 0x30, 0x20, 0x31, 0x0a,
            0x31, 0x20, 0x32, 0x0a, 0x50, 0xbb, 0xb4, 0x4b,
        ],
    ),
];

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where `campaigns.json` is kept, such as results/MACHINE/fuzz; without it the outcome is shown
    /// only.
    #[arg(long)]
    out: Option<PathBuf>,
    /// How long each target runs, by the clock.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// What the mutations are drawn from; not 0, for which libFuzzer takes the time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    seed: u32,
}

/// What one target did.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Campaign {
    target: String,
    seed: u32,
    sample_count: u64,
    run_count: u64,
    seconds: u64,
    covered_edge_count_of_samples: u64,
    covered_edge_count: u64,
    feature_count: u64,
    is_crashed: bool,
}

/// Runs all targets in `root`.
///
/// # Errors
/// If they cannot be built or started, or one crashed.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    let root = std::path::absolute(root).map_err(|error| error.to_string())?;
    // Before the runs: what is built is this commit, whatever is committed meanwhile.
    let commit = kept::commit_of(&root)?;
    let programs = build(&root)?;
    let corpora = root.join("out").join(format!("fuzz-{}", std::process::id()));
    let outcome = make_corpora(&root, &corpora)
        .and_then(|()| run_targets(&root, &programs, &corpora, options));
    // A directory that stays behind is seen and does no harm.
    let _ = std::fs::remove_dir_all(&corpora);
    let campaigns = outcome?;
    if let Some(directory) = &options.out {
        let Options { seconds, seed, .. } = options;
        let place = directory.display();
        let kept = json!({
            "command": format!("cargo xtask fuzz --seconds {seconds} --seed {seed} --out {place}"),
            "target_command":
                format!("TARGET CORPUS -max_total_time={seconds} {}", LIMITS.join(" ")),
            "commit": commit,
            "campaigns": campaigns,
        });
        kept::store(&root.join(directory), "campaigns.json", &kept)?;
    }
    let crashed: Vec<&str> =
        campaigns.iter().filter(|it| it.is_crashed).map(|it| it.target.as_str()).collect();
    if crashed.is_empty() {
        return Ok(());
    }
    Err(format!("{} crashed; the inputs are in fuzz/artifacts", crashed.join(", ")))
}

/// Builds the targets; the directory of their programs.
fn build(root: &Path) -> Result<PathBuf, String> {
    let version = capture(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or("rustc -vV names no host")?;
    println!("fuzz: building the targets");
    let place = root.join("fuzz").join("target");
    let mut command = Command::new("cargo");
    command.current_dir(root.join("fuzz")).env("RUSTFLAGS", FLAGS);
    command.args(["build", "--quiet", "--release", "--target", host, "--target-dir"]).arg(&place);
    capture(&mut command)?;
    Ok(place.join(host).join("release"))
}

/// Makes the samples that each target begins with, in a directory of `corpora` by its name.
fn make_corpora(root: &Path, corpora: &Path) -> Result<(), String> {
    for package in SAMPLING_PACKAGES {
        let mut command = Command::new("cargo");
        command.current_dir(root).args(["run", "--quiet", "--package", package]);
        capture(command.args(["--example", "fuzz_corpus", "--"]).arg(corpora))?;
    }
    let put = |target: &str, name: &str, bytes: &[u8]| {
        let directory = corpora.join(target);
        std::fs::create_dir_all(&directory)
            .and_then(|()| std::fs::write(directory.join(name), bytes))
            .map_err(|error| format!("{}: {error}", directory.display()))
    };
    for (target, name, text) in SAMPLES {
        put(target, name, text)?;
    }
    for (target, directory) in [("profile", "profiles"), ("experiment", "experiments")] {
        for path in files_below(&root.join(directory), "toml")? {
            let bytes =
                std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            // Experiments in two directories may have one name.
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            put(target, &name.replace('/', "-"), &bytes)?;
        }
    }
    Ok(())
}

/// Files with this extension in `directory` and below, in the order of their names.
fn files_below(directory: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_dir() {
            files.extend(files_below(&entry.path(), extension)?);
        } else if entry.path().extension().is_some_and(|it| it == extension) {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

fn run_targets(
    root: &Path,
    programs: &Path,
    corpora: &Path,
    options: &Options,
) -> Result<Vec<Campaign>, String> {
    let mut campaigns = Vec::new();
    for source in files_below(&root.join("fuzz/fuzz_targets"), "rs")? {
        let target = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (corpus, artifacts) =
            (corpora.join(&target), root.join("fuzz/artifacts").join(&target));
        for directory in [&corpus, &artifacts] {
            std::fs::create_dir_all(directory)
                .map_err(|error| format!("{}: {error}", directory.display()))?;
        }
        let samples = std::fs::read_dir(&corpus).map_err(|error| error.to_string())?.count();
        let mut command = Command::new(programs.join(&target));
        command.current_dir(corpora).arg(&corpus).args(LIMITS).arg("-print_final_stats=1");
        command.arg(format!("-max_total_time={}", options.seconds));
        command.arg(format!("-seed={}", options.seed));
        command.arg(format!("-artifact_prefix={}/", artifacts.display()));
        let started = std::time::Instant::now();
        let output = command.output().map_err(|error| format!("{target}: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let campaign = Campaign {
            sample_count: samples as u64,
            seconds: started.elapsed().as_secs(),
            is_crashed: !output.status.success(),
            ..campaign_of(&target, options.seed, &said)
                .ok_or_else(|| format!("{target} ended with {}: {said}", output.status))?
        };
        println!("fuzz: {target}: {} runs", campaign.run_count);
        if campaign.is_crashed {
            let fault = said.lines().find(|line| line.starts_with("SUMMARY:"));
            println!("fuzz: {target} crashed: {}", fault.unwrap_or("without a word"));
        }
        campaigns.push(campaign);
    }
    Ok(campaigns)
}

/// The counts in what a target printed, if it ran at all.
fn campaign_of(target: &str, seed: u32, said: &str) -> Option<Campaign> {
    let after = |line: &str, word: &str| {
        line.split_whitespace().skip_while(|it| *it != word).nth(1)?.parse::<u64>().ok()
    };
    // A target that crashes by a sample has no such line.
    let initial = said.lines().find(|line| line.contains("\tINITED")).unwrap_or_default();
    let last = |word| said.lines().filter_map(|line| after(line, word)).next_back();
    Some(Campaign {
        target: target.to_owned(),
        seed,
        sample_count: 0,
        run_count: last("stat::number_of_executed_units:")?,
        seconds: 0,
        covered_edge_count_of_samples: after(initial, "cov:").unwrap_or(0),
        covered_edge_count: last("cov:").unwrap_or(0),
        feature_count: last("ft:").unwrap_or(0),
        is_crashed: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_first_and_the_last_line() {
        let said = "INFO: Seed: 7\n#3\tINITED cov: 27 ft: 30 corp: 2/88b exec/s: 0 rss: 38Mb\n\
                    #9\tNEW    cov: 30 ft: 41 corp: 3/99b lim: 4 exec/s: 0 rss: 38Mb L: 4/4\n\
                    #2048\tDONE   cov: 31 ft: 45 corp: 4/120b lim: 21 exec/s: 0 rss: 39Mb\n\
                    Done 2048 runs in 2 second(s)\n\
                    stat::number_of_executed_units: 2048\nstat::average_exec_per_sec:     1024\n";
        let expected = Campaign {
            target: "profile".into(),
            seed: 7,
            sample_count: 0,
            run_count: 2048,
            seconds: 0,
            covered_edge_count_of_samples: 27,
            covered_edge_count: 31,
            feature_count: 45,
            is_crashed: false,
        };
        assert_eq!(campaign_of("profile", 7, said), Some(expected));
        assert_eq!(campaign_of("profile", 7, "error while loading shared libraries\n"), None);
    }

    #[test]
    fn each_target_is_built() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let manifest = std::fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
        let targets = files_below(&root.join("fuzz/fuzz_targets"), "rs").unwrap();
        assert!(!targets.is_empty());
        for target in targets {
            let name = target.file_name().unwrap().to_str().unwrap();
            let line = format!("path = \"fuzz_targets/{name}\"\n");
            assert!(manifest.contains(&line), "{name} is not built");
        }
    }
}
