//! What a transaction of TPC-C takes of real time: fifty clients on the simulated drive `nvme-tlc-2024`, and
//! one client over a device in memory that is given the inputs of all fifty terminals in turn. The medians of
//! some rounds, in each of which both go on with what they left. Run by `cargo test` it only checks that it
//! runs.
//!
//! ```text
//! cargo bench -p nandu-bench --bench tpcc -- --warehouses 10 --transactions 20000 --rounds 5
//! ```
//!
//! Beside the wall's time stands for how long this thread had a processor, which others at work on the same
//! machine change less: all clients are on this one thread.

#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

use nandu_base::{ByteCount, Nanos};
use nandu_bench::tpcc::{KINDS, Terminal, TpccCounts, TpccRun, execute};
use nandu_bench::{BenchError, Client, Clock, Load, Plan, SwitchKind, Watch, run};
use nandu_device::{Device, Geometry, MemoryConfig, MemoryDevice};
use nandu_drives::profile::{Profile, SimOptions};
use nandu_load::tpcc::{LOAD_MOMENT_US, check};
use nandu_load::{LoadOptions, Tpcc, TpccScale};
use nandu_storage::database::Isolation;
use nandu_storage::engine::Settings;
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Database, Volumes};
use std::sync::Arc;
use std::time::Instant;

const DRIVE: &str = "nvme-tlc-2024";
const CLIENT_COUNT: u32 = 50;
const SERVER_COUNT: u32 = 10;
const POOL_BYTES: u64 = 100 << 20;
/// By which tables grow for a transaction, at most.
const GROWTH_BYTES: u64 = 3000;

/// How much is done.
struct Extent {
    tpcc: Tpcc,
    transaction_count: u64,
    round_count: u64,
}

/// All terminals, at which one client sits in turn.
struct Turns {
    tpcc: Tpcc,
    seed: u64,
}

struct OneClient {
    terminals: Vec<Terminal>,
    next: usize,
}

/// What a transaction took.
struct Took {
    wall_us: f64,
    thread_us: Option<f64>,
    virtual_us: f64,
}

impl Load for Turns {
    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn client(&self, _number: u32) -> Box<dyn Client> {
        let terminal = |number| Terminal::new(&self.tpcc, number, self.seed);
        Box::new(OneClient { terminals: (0..CLIENT_COUNT).map(terminal).collect(), next: 0 })
    }
}

impl Client for OneClient {
    fn operate(&mut self, database: &Database, due: Nanos) -> Result<usize, BenchError> {
        let terminal = &mut self.terminals[self.next];
        self.next = (self.next + 1) % CLIENT_COUNT as usize;
        let input = terminal.next_input(LOAD_MOMENT_US + (due.0 / 1000).cast_signed());
        execute(database, Isolation::Serializable, &input, &mut TpccCounts::default())?;
        Ok(input.kind() as usize)
    }
}

impl Extent {
    fn of_arguments() -> Self {
        let arguments: Vec<String> = std::env::args().collect();
        if !arguments.iter().any(|argument| argument == "--bench") {
            let scale = TpccScale { item_count: 500, customer_count: 40 };
            let tpcc = Tpcc::with_scale(2, scale, 1).expect("it is small");
            return Self { tpcc, transaction_count: 200, round_count: 1 };
        }
        let number = |name: &str, usual: u64| {
            let place = arguments.iter().position(|argument| argument == name);
            let given = place.and_then(|place| arguments.get(place + 1));
            given.map_or(usual, |given| given.parse().expect("a number"))
        };
        let warehouse_count = u32::try_from(number("--warehouses", 10)).expect("not so many");
        Self {
            tpcc: Tpcc::new(warehouse_count, 1).expect("there are some warehouses"),
            transaction_count: number("--transactions", 20_000).max(1),
            round_count: number("--rounds", 5).max(1),
        }
    }

    /// Bytes of a device with room for all rounds.
    fn capacity(&self) -> u64 {
        let growth = self.transaction_count * self.round_count * GROWTH_BYTES;
        4 * (self.tpcc.expected_bytes() + growth + Settings::default().log_bytes)
    }

    fn on_drive(&self) -> Database {
        let profile = Profile::load(DRIVE).expect("it is one of ours");
        let capacity = self.capacity().min(profile.geometry.capacity().0);
        let options = SimOptions { capacity: Some(ByteCount(capacity)), seed: 1, keep_data: true };
        self.loaded(profile.open(options).expect("it can be so small"))
    }

    fn in_memory(&self) -> Database {
        let sector_bytes = 512;
        let sector_count = self.capacity() / u64::from(sector_bytes);
        let geometry = Geometry { sector_bytes, sector_count };
        self.loaded(Box::new(MemoryDevice::new(MemoryConfig { geometry, ..Default::default() })))
    }

    /// A database with all tables, none of their pages in its memory.
    fn loaded(&self, device: Box<dyn Device + Send>) -> Database {
        let volume = DeviceVolume::format(device).expect("the device is there");
        let settings = Settings { pool_bytes: POOL_BYTES, ..Settings::default() };
        let volumes = Volumes::new(Box::new(volume), None);
        let database = Database::create(volumes, &settings, 1).expect("there is room");
        self.tpcc.store(&database, &LoadOptions::default(), &mut ()).expect("there is room");
        database.checkpoint().expect("there is room");
        database.drop_cached_pages().expect("there is room");
        database
    }

    /// One round of one of both.
    fn run(&self, database: &Database, load: &Arc<dyn Load>, client_count: u32) -> Took {
        let plan = Plan {
            operation_count: self.transaction_count,
            client_count,
            core_count: 1,
            processor_time: Nanos::ZERO,
            think_time: Nanos::ZERO,
            switch_kind: SwitchKind::default(),
        };
        let clock: Clock = Arc::new(|| unreachable!("the device has its own clock"));
        let watch = Arc::new(Watch::default());
        let (begun, before_ns) = (Instant::now(), thread_ns());
        let outcome = run(database, load, &plan, &watch, &clock).expect("nothing fails here");
        let wall_us = begun.elapsed().as_secs_f64() * 1e6;
        let thread = before_ns.zip(thread_ns()).map(|(before, after)| after - before);
        let count = self.transaction_count as f64;
        Took {
            wall_us: wall_us / count,
            thread_us: thread.map(|ns| ns as f64 / 1e3 / count),
            virtual_us: outcome.elapsed_ns as f64 / 1e3 / count,
        }
    }
}

fn main() {
    let extent = Extent::of_arguments();
    let (drive, memory) = (extent.on_drive(), extent.in_memory());
    let mut rounds = Vec::new();
    for seed in 1..=extent.round_count {
        let mix = TpccRun {
            tpcc: extent.tpcc,
            isolation: Isolation::Serializable,
            has_pauses: false,
            server_count: SERVER_COUNT,
            seed,
        };
        let many: Arc<dyn Load> = Arc::new(mix.start());
        let one: Arc<dyn Load> = Arc::new(Turns { tpcc: extent.tpcc, seed });
        rounds.push([extent.run(&drive, &many, CLIENT_COUNT), extent.run(&memory, &one, 1)]);
    }
    for database in [&drive, &memory] {
        assert!(check(&database.read()).expect("it can be read").is_sound(), "a condition fails");
    }
    tell(&rounds);
}

fn tell(rounds: &[[Took; 2]]) {
    let of = |what: &dyn Fn(&[Took; 2]) -> f64| median(rounds.iter().map(what).collect());
    let wall = |took: &Took| took.wall_us;
    let thread = |took: &Took| took.thread_us.unwrap_or(f64::NAN);
    let names = [format!("{CLIENT_COUNT} clients on {DRIVE}"), "one client in memory".to_owned()];
    for (side, name) in names.iter().enumerate() {
        println!(
            "{name}: {:.1} us a transaction, {:.1} us of a processor, {:.1} us of virtual time",
            of(&|round| wall(&round[side])),
            of(&|round| thread(&round[side])),
            of(&|round| round[side].virtual_us)
        );
    }
    println!(
        "ratio: {:.2} of real time, {:.2} of a processor; real time is {:.2} of the drive's virtual time",
        of(&|[drive, memory]| wall(drive) / wall(memory)),
        of(&|[drive, memory]| thread(drive) / thread(memory)),
        of(&|[drive, _]| drive.wall_us / drive.virtual_us)
    );
}

/// For how long this thread had a processor, where the system tells.
fn thread_ns() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    told.split_whitespace().next()?.parse().ok()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
