//! How many requests a second a simulation serves in steady state under uniform page writes: closed
//! on one die, event at queue depth 32 on 32 dies, and the loop alone over a layer that does nothing.
//! The median of five. Run by `cargo test` it only checks that it runs.
//!
//! ```text
//! cargo bench -p nandu-sim --bench requests -- --out results/MACHINE/sim
//! cargo bench -p nandu-sim --bench requests -- --case "closed, GEO-A, 85 %"
//! ```
//!
//! GEO-A is the 8 GiB drive on which other simulators were measured (simulators reference 3.3, 3.4):
//! 8 channels of 4 dies of 2 planes of 128 erase blocks of 256 flash pages of 4 KiB. Their figures, of
//! another day on a machine of this kind, stand beside ours; they are not of the same run.

#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

use nandu_base::{Lpn, Nanos};
use nandu_ftl::{Ftl, FtlError, ReadOutcome};
use nandu_nand::{Content, NandArray, Ticket};
use nandu_sim::{DriveChoice, Mode, RunConfig, Simulation, Suspend, Unwatched};
use nandu_trace::WorkloadSpec;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// A layer that does nothing, to measure what surrounds it.
#[derive(Debug)]
struct Nothing {
    unit_bytes: u32,
    unit_count: u64,
}

impl Ftl for Nothing {
    fn unit_bytes(&self) -> u32 {
        self.unit_bytes
    }

    fn unit_count(&self) -> u64 {
        self.unit_count
    }

    fn read(
        &mut self,
        _nand: &mut NandArray,
        after: Ticket,
        _lpn: Lpn,
        _bytes: u32,
    ) -> Result<ReadOutcome, FtlError> {
        Ok(ReadOutcome { done: after, content: None })
    }

    fn peek(&self, _nand: &NandArray, _lpn: Lpn) -> Content {
        None
    }

    fn write(
        &mut self,
        _nand: &mut NandArray,
        after: Ticket,
        lpn: Lpn,
        _content: Content,
    ) -> Result<Ticket, FtlError> {
        // Now and then another time, so that recording is not flattered.
        let length = if lpn.0.is_multiple_of(16) { 1_500_000 + lpn.0 } else { 200_000 };
        Ok(Ticket::of_time(Nanos(after.time().0 + length)))
    }

    fn trim(
        &mut self,
        _nand: &mut NandArray,
        after: Ticket,
        _first: Lpn,
        _count: u64,
    ) -> Result<Ticket, FtlError> {
        Ok(after)
    }

    fn flush(&mut self, _nand: &mut NandArray, after: Ticket) -> Result<Ticket, FtlError> {
        Ok(after)
    }

    fn idle(&mut self, _nand: &mut NandArray, _now: Nanos, _until: Nanos) {}

    fn initialise_sequential(&mut self, _nand: &mut NandArray) -> Result<(), FtlError> {
        Ok(())
    }

    fn recover(&mut self, _nand: &mut NandArray, after: Ticket) -> Result<Ticket, FtlError> {
        Ok(after)
    }

    fn host_pages(&self) -> (u64, u64) {
        (0, 0)
    }

    fn map_bytes(&self) -> u64 {
        0
    }

    fn audit(&self, _nand: &NandArray) {}
}

/// What is simulated.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    mode: Mode,
    /// Channels, dies on each, planes of each, erase blocks in all and flash pages of each.
    shape: [u32; 5],
    flash_page_bytes: u32,
    utilisation_percent: u64,
    workload: &'static str,
    /// In flight at most, in the event mode.
    depth: u32,
    /// Further settings of the drive, and whether reads go first and suspend.
    settings: &'static [(&'static str, &'static str)],
    reads_first: bool,
}

const SMALL: [u32; 5] = [1, 1, 1, 8192, 64];
const LARGE_BLOCKS: [u32; 5] = [1, 1, 1, 2048, 256];
const MANY_DIES: [u32; 5] = [8, 4, 1, 8192, 64];
const GEO_A: [u32; 5] = [8, 4, 2, 8192, 256];
/// 1 Mi logical pages on one die, and over 32.
const MEBI: [u32; 5] = [1, 1, 1, 19_275, 64];
const MEBI_OVER_32: [u32; 5] = [4, 8, 1, 4832, 256];
/// Four channels, eight dies on each, and a bus.
const BUS: [u32; 5] = [4, 8, 1, 20_480, 64];

/// 75 / 750 / 3800 us, 25.946 us a transfer.
const MLC: &[(&str, &str)] = &[
    ("chip_overrides.read_ns", "75000"),
    ("chip_overrides.program_ns", "750000"),
    ("chip_overrides.erase_ns", "3800000"),
    ("chip_overrides.bus_bytes_per_second", "162800000"),
    ("ftl.cleaning", "paced"),
    ("ftl.die_choice", "least_backlog"),
];

const CASES: [Case; 12] = [
    case("closed, 1 die, 64 pages, 1 Mi", Mode::Closed, MEBI, 4096, 85),
    case("closed, 32 dies, 256 pages, 1 Mi", Mode::Closed, MEBI_OVER_32, 4096, 85),
    Case {
        workload: "uniform:read=70",
        depth: 64,
        settings: MLC,
        ..case(
            "event, 32 dies and bus, 70/30, no cleaning",
            Mode::Event,
            [4, 8, 1, 98_304, 256],
            4096,
            4,
        )
    },
    Case {
        depth: 64,
        settings: MLC,
        ..case("event, 32 dies and bus, writes, paced", Mode::Event, BUS, 4096, 80)
    },
    Case {
        workload: "uniform:read=70",
        depth: 64,
        settings: MLC,
        reads_first: true,
        ..case("event, 32 dies and bus, 70/30, paced, suspended", Mode::Event, BUS, 4096, 80)
    },
    case("closed, 1 die", Mode::Closed, SMALL, 2048, 85),
    case("closed, 1 die, 256 pages", Mode::Closed, LARGE_BLOCKS, 2048, 85),
    case("event, 32 dies", Mode::Event, MANY_DIES, 2048, 85),
    case("closed, GEO-A, 85 %", Mode::Closed, GEO_A, 4096, 85),
    case("event, GEO-A, 85 %", Mode::Event, GEO_A, 4096, 85),
    case("closed, GEO-A, 70 %", Mode::Closed, GEO_A, 4096, 70),
    case("event, GEO-A, 70 %", Mode::Event, GEO_A, 4096, 70),
];

/// What the peers did (simulators reference 3.3), in requests or pages a second.
const PEERS: [(&str, &str, f64); 4] = [
    ("MQSim", "GEO-A, 70 %, cleaning active, with timing", 26_480.0),
    ("MQSim", "GEO-A, half full, 30 % writes, cleaning rare", 72_921.0),
    ("SimpleSSD", "sample device, random writes, with timing", 4_317.0),
    ("SSD-iq", "8 GB, 70 %, write amplification only, without a clock", 2_707_003.0),
];

const fn case(
    name: &'static str,
    mode: Mode,
    shape: [u32; 5],
    flash_page_bytes: u32,
    utilisation_percent: u64,
) -> Case {
    Case {
        name,
        mode,
        shape,
        flash_page_bytes,
        utilisation_percent,
        workload: "uniform",
        depth: 32,
        settings: &[],
        reads_first: false,
    }
}

impl Case {
    fn choice(&self, measure: bool) -> DriveChoice {
        let [channels, dies, planes, erase_blocks, pages] = self.shape;
        let erase_blocks = if measure { erase_blocks } else { erase_blocks / 16 };
        let page_count = u64::from(erase_blocks) * u64::from(pages);
        DriveChoice {
            name: "myers_slc".into(),
            physical_erase_blocks: Some(erase_blocks),
            erase_block_pages: Some(pages),
            logical_pages: Some(page_count * self.utilisation_percent / 100),
            settings: self.settings_of(channels, dies, planes),
            ..DriveChoice::default()
        }
    }

    fn settings_of(&self, channels: u32, dies: u32, planes: u32) -> Vec<(String, String)> {
        let mut settings = vec![
            ("channel_count".into(), channels.to_string()),
            ("dies_per_channel".into(), dies.to_string()),
            ("planes_per_die".into(), planes.to_string()),
            ("chip_overrides.flash_page_bytes".into(), self.flash_page_bytes.to_string()),
            ("ftl.multi_plane".into(), "false".into()),
        ];
        let own = self.settings.iter().map(|&(key, value)| (key.to_string(), value.to_string()));
        settings.extend(own);
        settings
    }

    fn run_config(&self) -> RunConfig {
        RunConfig {
            mode: self.mode,
            queue_depth: self.depth,
            read_priority: self.reads_first,
            suspend: self.reads_first.then_some(Suspend::MQSIM),
            ..RunConfig::default()
        }
    }

    /// Requests a second, write amplification and simulator bytes per logical page.
    fn run(&self, measure: bool) -> (f64, f64, f64) {
        let request_count = if measure { 4_000_000 } else { 10_000 };
        let setup = self.choice(measure).resolve(false).expect("a drive");
        let config = self.run_config();
        let (nand, ftl) = setup.build(1).expect("a drive");
        let simulation = Simulation::new(nand, ftl, &config).expect("a drive");
        let pages = simulation.capacity_bytes() / u64::from(simulation.unit_bytes());
        let bytes = simulation.nand().memory_bytes() + simulation.ftl().memory_bytes();
        let (rate, amplification) = rate(simulation, self.workload, request_count);
        (rate, amplification, bytes as f64 / pages as f64)
    }

    fn loop_alone(&self, measure: bool) -> f64 {
        let request_count = if measure { 4_000_000 } else { 10_000 };
        let setup = self.choice(measure).resolve(false).expect("a drive");
        let config = self.run_config();
        let (nand, ftl) = setup.build(1).expect("a drive");
        let nothing = Nothing { unit_bytes: ftl.unit_bytes(), unit_count: ftl.unit_count() };
        let simulation = Simulation::new(nand, Box::new(nothing), &config).expect("a drive");
        rate(simulation, self.workload, request_count).0
    }
}

/// Requests a second, the median of five after a warm-up of one drive write, and the write
/// amplification of the last.
fn rate(mut simulation: Simulation, workload: &str, request_count: u64) -> (f64, f64) {
    let (capacity, unit) = (simulation.capacity_bytes(), u64::from(simulation.unit_bytes()));
    let spec = WorkloadSpec::parse(workload).expect("a workload");
    let mut source = spec.source(capacity, unit, 1).expect("it fits the drive");
    simulation.warm_up(&mut source, capacity / unit, &mut Unwatched).expect("a sound drive");
    let mut amplification = 0.0;
    let mut rates: Vec<f64> = (0..5)
        .map(|_| {
            let start = Instant::now();
            let measured = simulation.measure(&mut source, request_count, &mut Unwatched);
            let rate = request_count as f64 / start.elapsed().as_secs_f64();
            let counters = measured.expect("a sound drive").counters;
            amplification = counters.programmed_pages() as f64 / request_count as f64;
            rate
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    (rates[2], amplification)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let measure = arguments.iter().any(|argument| argument == "--bench");
    let value_of = |name: &str| {
        let index = arguments.iter().position(|argument| argument == name)?;
        arguments.get(index + 1)
    };
    let (out, only) = (value_of("--out"), value_of("--case"));
    let mut table = String::from(
        "| simulated | M requests/s | write amplification | bytes per logical page |\n\
         |---|---:|---:|---:|\n",
    );
    let mut measurements = Vec::new();
    for case in CASES.into_iter().filter(|case| only.is_none_or(|only| case.name == only)) {
        let (rate, amplification, bytes) = case.run(measure);
        println!("{}: {:.2} M requests/s, {amplification:.3}, {bytes:.1} B", case.name, rate / 1e6);
        let name = case.name;
        let row = format!("| {name} | {:.2} | {amplification:.3} | {bytes:.1} |\n", rate / 1e6);
        table.push_str(&row);
        measurements.push(json!({
            "case": name,
            "requests_per_second": rate.round(),
            "write_amplification": amplification,
            "bytes_per_logical_page": bytes,
        }));
    }
    let alone = CASES[0].loop_alone(measure);
    println!("the loop alone: {:.2} M requests/s", alone / 1e6);
    let _ = writeln!(table, "| the loop alone, closed | {:.2} | | |", alone / 1e6);
    if let Some(directory) = out {
        keep(directory, &table, measurements, alone);
    }
}

/// Writes `speed.json` and `table.md` into `directory`, below the repository's root.
fn keep(directory: &str, table: &str, measurements: Vec<Value>, alone: f64) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(directory);
    let said_by = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().ok();
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let peers = PEERS.map(|(name, what, rate)| {
        json!({ "simulator": name, "what": what, "per_second": rate, "source": "reference 3.3 [V]" })
    });
    let document = json!({
        "command": format!("cargo bench -p nandu-sim --bench requests -- --out {directory}"),
        "commit": said_by("git", &["rev-parse", "HEAD"]),
        "date": said_by("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
        "seed": 1,
        "measurements": measurements,
        "loop_alone_per_second": alone.round(),
        "peers_of_another_day": peers,
    });
    let mut text = format!(
        "# Speed of the simulator\n\nUniform page requests in steady state, one core: medians of five \
         runs of 4 M requests; machine and command\nstand in speed.json.\n\n{table}\n\
         Other simulators, measured on another day on a machine of this kind:\n\n\
         | simulator | what | requests/s |\n|---|---|---:|\n"
    );
    for (name, what, rate) in PEERS {
        let _ = writeln!(text, "| {name} | {what} | {rate:.0} |");
    }
    let json = serde_json::to_string_pretty(&document).expect("plain values");
    std::fs::create_dir_all(&path).expect("a directory for the results");
    std::fs::write(path.join("speed.json"), json + "\n").expect("a writable directory");
    std::fs::write(path.join("table.md"), text).expect("a writable directory");
}
