//! What a drive was predicted to take, from a probe of it alone, over what it then took: the table of
//! [docs/external.md](../../../docs/external.md#predictions).
//!
//! `cargo run --release -p nandu-external --example predictions`

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

#[path = "../tests/probed/mod.rs"]
mod probed;

use nandu_base::{ByteCount, Nanos};
use nandu_external::{ExternalError, Settings};
use nandu_probe::QuickOptions;
use probed::{OPERATIONS, SEED, Work, probe};
use std::process::ExitCode;

/// Blocks of bytes, and requests in flight.
const SETTINGS: [(u32, u32); 2] = [(64 << 10, 1), (256 << 10, 4)];
const DRIVES: [&str; 12] = [
    "hama",
    "supertalent-ssd-16g",
    "ocz-core",
    "memorex-td-classic-4g",
    "device-a",
    "device-b",
    "nvme-tlc-2024",
    "qlc-2024",
    "optane-like",
    "pcm",
    "barracuda-7200-11",
    "wd2000jb",
];

fn main() -> ExitCode {
    let settings = SETTINGS.map(|(bytes, in_flight)| {
        format!("blocks of {}, {in_flight} in flight", ByteCount(bytes.into()))
    });
    println!("Predicted over taken, {}:\n", settings.join(", then "));
    println!("| drive | {} |", OPERATIONS.join(" | "));
    println!("| --- | ---: | ---: | ---: | ---: |");
    for drive in DRIVES {
        match SETTINGS.iter().map(|&settings| ratios(drive, settings)).collect() {
            Ok::<Vec<[f64; 4]>, _>(ratios) => {
                let cell = |index: usize| {
                    let each =
                        ratios.iter().map(|of_settings| format!("{:.2}", of_settings[index]));
                    each.collect::<Vec<_>>().join(", ")
                };
                let cells: [String; 4] = std::array::from_fn(cell);
                println!("| {drive} | {} |", cells.join(" | "));
            }
            Err(error) => {
                eprintln!("{drive}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Predicted over taken, from what `nandu probe sim:DRIVE --size 512MiB --queue-depth 1,2,4,5,32 --profile
/// FILE` tells.
fn ratios(drive: &str, (block_bytes, in_flight): (u32, u32)) -> Result<[f64; 4], ExternalError> {
    let quick = QuickOptions {
        queue_depths: vec![1, 2, 4, 5, 32],
        request_count: Some(4000),
        seed: SEED,
        ..QuickOptions::default()
    };
    let stream_duration = Nanos(quick.duration.0 / 10);
    let probed = probe(drive, ByteCount(512 << 20), &quick, stream_duration);
    let settings = Settings { block_bytes, in_flight };
    let work = Work { number_count: 16 << 20, memory_bytes: 8 << 20, settings };
    probed::ratios(probed, work)
}
