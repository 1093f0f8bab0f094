//! Which blocks are best for a search tree on which drive, and how close a tree comes that knows no block: the
//! table of [docs/external.md](../../../docs/external.md#search-trees).
//!
//! `cargo run --release -p nandu-external --example search_trees`

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use nandu_base::{ByteCount, Rng};
use nandu_drives::profile::{Profile, SimOptions};
use nandu_external::basic::{EvenNumbers, measure, search_tree};
use nandu_external::search::SearchKind;
use nandu_external::{ExternalError, Grant, Settings, Store};
use nandu_storage::volume::{DeviceVolume, Io};
use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const CAPACITY_BYTES: u64 = 256 << 20;
/// Numbers of eight bytes.
const NUMBER_COUNT: u64 = 4 << 20;
const MEMORY_BYTES: u64 = 512 << 10;
const SEARCH_COUNT: u64 = 1000;
const BLOCK_BYTES: [u32; 8] =
    [2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10];
/// Numbers of a node for blocks of 4 KiB.
const SMALL_NODE: u64 = (4096 - 8) / 8;
const DRIVES: [&str; 7] = [
    "barracuda-7200-11",
    "memorex-td-classic-4g",
    "hama",
    "supertalent-ssd-16g",
    "nvme-tlc-2024",
    "optane-like",
    "pcm",
];
const KINDS: [(&str, SearchKind); 4] = [
    ("halves", SearchKind::Halves),
    ("B-tree, nodes of 4 KiB", SearchKind::BTree { node_records: Some(SMALL_NODE) }),
    ("B-tree, nodes as blocks", SearchKind::BTree { node_records: None }),
    ("van Emde Boas", SearchKind::VanEmdeBoas),
];

fn main() -> ExitCode {
    println!("Microseconds a search (blocks that it reads):\n");
    let mut lines = Vec::new();
    for drive in DRIVES {
        match table(drive) {
            Ok(line) => lines.push(line),
            Err(error) => {
                eprintln!("{drive}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("Microseconds of B-trees with nodes as blocks (B) and of van Emde Boas (V):\n");
    println!("| drive | best blocks of B | B | V, same blocks | best blocks of V | V | V / B |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    println!("{}", lines.join("\n"));
    ExitCode::SUCCESS
}

/// What a search took, and the blocks that it read.
#[derive(Clone, Copy)]
struct Cell {
    time_us: f64,
    reads: f64,
}

impl Display for Cell {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({:.1})", three_digits(self.time_us), self.reads)
    }
}

fn three_digits(number: f64) -> String {
    let digits = [0, 1, 2][usize::from(number < 100.0) + usize::from(number < 10.0)];
    format!("{number:.digits$}")
}

/// Prints the lines of a drive, and gives that of the summary.
fn table(drive: &str) -> Result<String, ExternalError> {
    let sizes = BLOCK_BYTES.map(|bytes| ByteCount(bytes.into()).to_string()).join(" | ");
    println!("| {drive} | {sizes} |\n| --- |{}", " ---: |".repeat(BLOCK_BYTES.len()));
    let mut rows = Vec::new();
    for (name, kind) in KINDS {
        let cells = { BLOCK_BYTES.iter() }.map(|&bytes| cell(drive, kind, bytes));
        let cells: Vec<Cell> = cells.collect::<Result<_, _>>()?;
        let texts: Vec<String> = cells.iter().map(Cell::to_string).collect();
        println!("| {name} | {} |", texts.join(" | "));
        rows.push(cells);
    }
    println!();
    let [b_tree, oblivious] = [&rows[2], &rows[3]];
    let best = |row: &[Cell]| {
        let times = row.iter().map(|cell| cell.time_us);
        times.enumerate().min_by(|left, right| left.1.total_cmp(&right.1)).expect("there are sizes")
    };
    let ((size, time_us), (its_size, its_time_us)) = (best(b_tree), best(oblivious));
    let block = |size: usize| ByteCount(BLOCK_BYTES[size].into());
    Ok(format!(
        "| {drive} | {} | {} | {} | {} | {} | {:.2} |",
        block(size),
        three_digits(time_us),
        three_digits(oblivious[size].time_us),
        block(its_size),
        three_digits(its_time_us),
        its_time_us / time_us
    ))
}

fn cell(drive: &str, kind: SearchKind, block_bytes: u32) -> Result<Cell, ExternalError> {
    let profile = Profile::load(drive).expect("it is built in");
    let capacity = Some(ByteCount(CAPACITY_BYTES));
    let device = profile.open(SimOptions { capacity, seed: 1, keep_data: true });
    let volume = DeviceVolume::format(device.expect("it can be as small"));
    let io = Io::new(Box::new(volume.expect("it is empty")), Arc::new(AtomicU64::new(0)));
    let settings = Settings { block_bytes, in_flight: 1 };
    let store = Store::new(&[io], settings, Grant::new(8 << 20))?;
    let tree = kind.build(&store, EvenNumbers::new(NUMBER_COUNT))?;
    let frames = u32::try_from(MEMORY_BYTES).expect("memory is small") / block_bytes;
    let mut searcher = tree.searcher(frames)?;
    let mut rng = Rng::new(1);
    // What is read often is in memory then.
    search_tree(&mut searcher, NUMBER_COUNT, SEARCH_COUNT / 4, &mut rng)?;
    let found =
        measure(&store, || search_tree(&mut searcher, NUMBER_COUNT, SEARCH_COUNT, &mut rng))?;
    let time_us = found.elapsed_ns.0 as f64 / SEARCH_COUNT as f64 / 1000.0;
    let reads = found.counts.read_blocks as f64 / SEARCH_COUNT as f64;
    Ok(Cell { time_us, reads })
}
