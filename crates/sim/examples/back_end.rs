//! The flash back end of the event mode under loads whose figures are known from elsewhere: reads, writes
//! and mixes without cleaning beside an event-driven model, and uniform writes with cleaning by its laws.
//! `cargo run --release -p nandu-sim --example back_end -- --out results/MACHINE/sim` keeps
//! `back-end.json` and `back-end.md`.

#![allow(clippy::print_stdout, reason = "an example talks to the terminal")]

use nandu_sim::{
    DriveChoice, InitialState, Input, Job, Mode, RunConfig, SimError, SimReport, Unwatched,
};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// Requests a second of a plain event-driven model of the same rules (prototypes of the reference,
/// measured there).
const LOADS: [(&str, u32, Option<f64>); 9] = [
    ("uniform:read=100", 1, Some(9_906.0)),
    ("uniform:read=100", 32, Some(138_700.0)),
    ("uniform:read=100", 64, Some(148_900.0)),
    ("uniform:read=100", 128, Some(151_900.0)),
    ("uniform:read=70", 1, Some(3_296.0)),
    ("uniform:read=70", 32, Some(66_900.0)),
    ("uniform:read=70", 64, Some(93_600.0)),
    ("uniform:read=70", 128, Some(98_500.0)),
    ("uniform", 32, Some(41_239.0)),
];

const CLEANING: [(&str, &str); 5] = [
    ("whole_victim", "round_robin"),
    ("whole_victim", "least_backlog"),
    ("paced", "round_robin"),
    ("paced", "least_work"),
    ("paced", "least_backlog"),
];

/// Uniform writes that arrive at random, so many a second, and how much cleaning gives way to them.
const ARRIVALS: [u64; 3] = [9_000, 11_000, 12_500];
const PUT_OFF_NS: [&str; 3] = ["0", "2000000", "20000000"];

/// 4 channels x 8 dies of `mqsim_mlc`, without pairs.
fn job(workload: &str, depth: u32, settings: &[(&str, &str)]) -> Job {
    let fixed = [
        ("channel_count", "4"),
        ("dies_per_channel", "8"),
        ("planes_per_die", "1"),
        ("chip_overrides.rules.paired_pages", "false"),
    ];
    let all = fixed.iter().chain(settings);
    Job {
        drive: DriveChoice {
            name: "mqsim_mlc".into(),
            settings: all.map(|&(key, value)| (key.into(), value.into())).collect(),
            ..DriveChoice::default()
        },
        input: Input::Workload(workload.into()),
        request_limit: None,
        run: RunConfig { mode: Mode::Event, queue_depth: depth, ..RunConfig::default() },
    }
}

fn without_cleaning(workload: &str, depth: u32) -> Result<SimReport, SimError> {
    let mut job = job(workload, depth, &[]);
    job.drive.physical_erase_blocks = Some(3200);
    job.drive.logical_pages = Some(409_600);
    job.run.initial = Some(InitialState::Sequential);
    job.run.warm_up = Some(0.0);
    job.request_limit = Some(300_000);
    job.run(&mut Unwatched)
}

fn with_cleaning(
    (workload, depth): (&str, u32),
    pages: u32,
    settings: &[(&str, &str)],
) -> Result<SimReport, SimError> {
    let mut job = job(workload, depth, settings);
    job.drive.erase_block_pages = Some(pages);
    job.drive.physical_erase_blocks = Some(819_200 / pages);
    job.drive.logical_pages = Some(819_200 * 8 / 10);
    job.run.warm_up = Some(1.0);
    job.request_limit = Some(1_000_000);
    job.run(&mut Unwatched)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let out = arguments.iter().position(|argument| argument == "--out");
    let mut table = String::from(
        "| load, depth | event-driven model | nandu | |\n| --- | ---: | ---: | ---: |\n",
    );
    let mut loads = Vec::new();
    for (workload, depth, expected) in LOADS {
        let report = without_cleaning(workload, depth)?;
        let found = report.requests_per_second;
        let expected_text = expected.map_or_else(String::new, |rate| format!("{rate:.0}"));
        let apart = expected.map_or(0.0, |rate| 100.0 * (found / rate - 1.0));
        writeln!(table, "| {workload}, {depth} | {expected_text} | {found:.0} | {apart:+.1} % |")?;
        loads.push(json!({
            "workload": workload, "queue_depth": depth, "event_driven_model_per_second": expected,
            "requests_per_second": found, "latency_ns": report.latency_ns,
        }));
    }
    let mut cleaning_table = String::from(
        "| cleaning, die choice | pages | requests/s | dies busy | longest write | amplification |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let mut cleaning = Vec::new();
    for pages in [64, 256] {
        for (mode, choice) in CLEANING {
            let settings = [("ftl.cleaning", mode), ("ftl.die_choice", choice)];
            let report = with_cleaning(("uniform", 64), pages, &settings)?;
            let held = report.die_utilisation;
            let longest_ms = report.latency_ns["write"].max as f64 / 1e6;
            writeln!(
                cleaning_table,
                "| `{mode}`, `{choice}` | {pages} | {:.0} | {:.1} % | {longest_ms:.1} ms | {:.3} |",
                report.requests_per_second,
                100.0 * held,
                report.write_amplification
            )?;
            cleaning.push(json!({
                "cleaning": mode, "die_choice": choice, "flash_pages_per_erase_block": pages,
                "requests_per_second": report.requests_per_second, "die_utilisation": held,
                "write_amplification": report.write_amplification,
                "latency_ns": report.latency_ns,
            }));
        }
    }
    let (put_off_table, put_off) = put_off()?;
    println!("{table}\n{cleaning_table}\n{put_off_table}");
    if let Some(directory) = out.and_then(|place| arguments.get(place + 1)) {
        let tables = [table.as_str(), &cleaning_table, &put_off_table];
        keep(directory, tables, [loads, cleaning, put_off])?;
    }
    Ok(())
}

/// Paced cleaning that gives way to writes that arrive, and to a queue that is always full.
fn put_off() -> Result<(String, Vec<Value>), Box<dyn std::error::Error>> {
    let mut table = String::from(
        "| writes a second | put off up to | mean write | p99 | longest | dies busy |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let mut rows = Vec::new();
    let arrival = |rate: &u64| {
        (rate.to_string(), format!("uniform:arrival=exponential,rate={rate}"), 1_000_000)
    };
    let mut loads: Vec<(String, String, u32)> = ARRIVALS.iter().map(arrival).collect();
    loads.push(("depth 64".into(), "uniform".into(), 64));
    for (load, workload, depth) in &loads {
        for put_off_ns in PUT_OFF_NS {
            let settings = [
                ("ftl.cleaning", "paced"),
                ("ftl.die_choice", "least_backlog"),
                ("ftl.pace_put_off_ns", put_off_ns),
            ];
            let report = with_cleaning((workload, *depth), 64, &settings)?;
            let write = &report.latency_ns["write"];
            let put_off_ms = put_off_ns.parse::<f64>()? / 1e6;
            writeln!(
                table,
                "| {load} | {put_off_ms} ms | {:.2} ms | {:.2} ms | {:.1} ms | {:.1} % |",
                write.mean / 1e6,
                write.p99 as f64 / 1e6,
                write.max as f64 / 1e6,
                100.0 * report.die_utilisation,
            )?;
            rows.push(json!({
                "workload": workload, "queue_depth": depth, "pace_put_off_ns": put_off_ns,
                "requests_per_second": report.requests_per_second,
                "die_utilisation": report.die_utilisation,
                "write_amplification": report.write_amplification,
                "latency_ns": report.latency_ns,
            }));
        }
    }
    Ok((table, rows))
}

fn keep(
    directory: &str,
    [loads_table, cleaning_table, put_off_table]: [&str; 3],
    [loads, cleaning, put_off]: [Vec<Value>; 3],
) -> Result<(), Box<dyn std::error::Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(directory);
    let commit = Command::new("git").args(["rev-parse", "HEAD"]).output()?;
    let command =
        format!("cargo run --release -p nandu-sim --example back_end -- --out {directory}");
    let document = json!({
        "command": command,
        "commit": String::from_utf8_lossy(&commit.stdout).trim(),
        "seed": 1,
        "drive": "mqsim_mlc, 4 channels x 8 dies, 1 plane, no pairs: 75 / 750 / 3800 us, 25.946 us a transfer",
        "source_of_the_model": "a plain event-driven model of the same rules, measured as a prototype",
        "without_cleaning": loads,
        "cleaning": cleaning,
        "cleaning_that_gives_way": put_off,
    });
    let text = format!(
        "# The flash back end in the event mode\n\n4 channels x 8 dies, 75 / 750 / 3800 us, 25.946 us a \
         transfer. Requests a second without cleaning,\nbeside a plain event-driven model of the same \
         rules:\n\n{loads_table}\nUniform writes at 80 % utilisation, depth 64:\n\n{cleaning_table}\n\
         Paced cleaning that gives way, 64 pages an erase block:\n\n{put_off_table}\n\
         `{command}`\n"
    );
    std::fs::create_dir_all(&path)?;
    std::fs::write(path.join("back-end.json"), serde_json::to_string_pretty(&document)? + "\n")?;
    std::fs::write(path.join("back-end.md"), text)?;
    Ok(())
}
