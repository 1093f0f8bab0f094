//! Fits a flash profile to six figures of S002's table 3.1, as docs/device-model.md says ("Where a
//! flash drive was fitted"), and prints the lines to put into it. Random writes are not asked for: they
//! are what the fitted profile predicts. The last line has all eight figures as simulated.
//!
//! `cargo run --release -p nandu-drives --example fit_flash -- profiles/NAME.toml SR RR SW SR SW`,
//! in MB/s: sequential read, random read and sequential write of 512 B, then sequential read and
//! sequential write of 2 MB (random reads of 2 MB are printed as sequential ones).

use nandu_base::{ByteCount, Nanos, Rng};
use nandu_device::{Device, Operation, Request};
use nandu_drives::profile::{Profile, SimOptions};
use std::io::Write;

const SMALL: u64 = 512;
const LARGE: u64 = 2 << 20;
const SECTOR: u64 = 512;
/// Of the drive in small; a random access costs the same on the whole drive.
const CAPACITY: ByteCount = ByteCount::mib(64);
/// The SLC part of the presets programs a flash page in this time, and none in less.
const PROGRAM_NS_MIN: f64 = 200_000.0;
const FLASH_PAGE_BYTES: f64 = 2048.0;
const ROUND_COUNT: u32 = 12;

/// What is fitted, in nanoseconds and bytes per second.
struct Parameters {
    channel_count: i64,
    read_command: f64,
    write_command: f64,
    map_lookup: f64,
    program: f64,
    link_to_host: f64,
}

impl Parameters {
    /// The profile's text with these values.
    fn profile(&self, text: &str) -> Profile {
        let mut table: toml::Table = text.parse().expect("a profile is TOML");
        let ssd = table["ssd"].as_table_mut().expect("a flash drive");
        ssd.insert("channel_count".into(), toml::Value::Integer(self.channel_count));
        ssd.insert("read_command_ns".into(), whole(self.read_command));
        ssd.insert("write_command_ns".into(), whole(self.write_command));
        ssd.insert("map_lookup_ns".into(), whole(self.map_lookup));
        let chip = toml::Table::from_iter([("program_ns".to_owned(), whole(self.program))]);
        ssd.insert("chip_overrides".into(), chip.into());
        let key = match ssd.contains_key("link_to_host_bytes_per_second") {
            true => "link_to_host_bytes_per_second",
            false => "link_bytes_per_second",
        };
        ssd.insert(key.into(), whole(self.link_to_host));
        let text = toml::to_string(&table).expect("what was read can be written");
        Profile::parse("fitted", "fit_flash", &text).expect("the values are sound")
    }
}

#[allow(clippy::cast_possible_truncation, reason = "times and rates lie far below 2^63")]
fn whole(value: f64) -> toml::Value {
    toml::Value::Integer(value.round() as i64)
}

/// Mean time of a request in nanoseconds, on a drive that was written in order before.
fn mean_time(profile: &Profile, operation: Operation, is_random: bool, bytes: u64) -> f64 {
    let options = SimOptions { capacity: Some(CAPACITY), keep_data: false, seed: 1 };
    let mut device = profile.open(options).expect("the profile opens");
    for megabyte in 0..CAPACITY.0 >> 20 {
        request(device.as_mut(), Operation::Write, megabyte << 20, 1 << 20);
    }
    let slots = CAPACITY.0 / bytes;
    let count = if is_random && operation == Operation::Write { 200 } else { 4096 }.min(slots / 2);
    let mut rng = Rng::new(1);
    let begin = device.now();
    for number in 0..count {
        let slot = if is_random { rng.below(slots) } else { number };
        request(device.as_mut(), operation, slot * bytes, bytes);
    }
    (device.now() - begin).0 as f64 / count as f64
}

fn request(device: &mut dyn Device, operation: Operation, first: u64, bytes: u64) {
    let (first, count) = (first / SECTOR, nandu_base::to_u32(bytes / SECTOR));
    let request = match operation {
        Operation::Write => Request::write(0, first, count, None),
        _ => Request::read(0, first, count, None),
    };
    device.submit(device.now(), request).expect("the request is valid");
    let done = device.next_completion(Nanos::MAX).expect("a request in flight completes");
    done.result.expect("no fault was planned");
}

/// The rate per chip that the part allows, and the least power of two of chips that carries `rate`.
fn chips_for(rate: f64) -> i64 {
    let (bus, erase) = (52_800.0, 1_500_000.0 / 64.0);
    let of_one = FLASH_PAGE_BYTES * 1e3 / (PROGRAM_NS_MIN + bus + erase);
    let mut count = 1;
    while of_one * (count as f64) < rate {
        count *= 2;
    }
    count
}

fn fit(text: &str, published: &[f64; 5]) -> Parameters {
    let [read, random_read, write] = [0, 1, 2].map(|i| SMALL as f64 * 1e3 / published[i]);
    let [large_read, large_write] = [3, 4].map(|i| LARGE as f64 * 1e3 / published[i]);
    let chips = chips_for(published[4]);
    let mut now = Parameters {
        channel_count: chips,
        read_command: read / 2.0,
        write_command: write / 2.0,
        map_lookup: 0.0,
        program: PROGRAM_NS_MIN,
        link_to_host: published[3] * 1e6,
    };
    for _ in 0..ROUND_COUNT {
        let profile = now.profile(text);
        let ours = |operation, random, bytes| mean_time(&profile, operation, random, bytes);
        let sequential = ours(Operation::Read, false, SMALL);
        now.map_lookup += (random_read - ours(Operation::Read, true, SMALL)) - (read - sequential);
        now.map_lookup = now.map_lookup.max(0.0);
        now.read_command = (now.read_command + read - sequential).max(0.0);
        now.write_command += write - ours(Operation::Write, false, SMALL);
        now.write_command = now.write_command.max(0.0);
        let pages_of_a_chip = LARGE as f64 / FLASH_PAGE_BYTES / chips as f64;
        now.program += (large_write - ours(Operation::Write, false, LARGE)) / pages_of_a_chip;
        now.program = now.program.max(PROGRAM_NS_MIN);
        let on_link = LARGE as f64 / now.link_to_host * 1e9 + large_read
            - ours(Operation::Read, false, LARGE);
        now.link_to_host = LARGE as f64 * 1e9 / on_link;
    }
    now
}

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("usage: fit_flash PROFILE.toml SR RR SW SR SW");
    let text = std::fs::read_to_string(path)?;
    let published: Vec<f64> =
        arguments.map(|argument| argument.parse().expect("a rate in MB/s")).collect();
    let published: [f64; 5] = published.try_into().expect("five rates");
    let fitted = fit(&text, &published);
    let mut out = std::io::stdout().lock();
    writeln!(out, "channel_count = {}", fitted.channel_count)?;
    writeln!(out, "chip_overrides = {{ program_ns = {:.0} }}", fitted.program)?;
    writeln!(out, "read_command_ns = {:.0}", fitted.read_command)?;
    writeln!(out, "write_command_ns = {:.0}", fitted.write_command)?;
    writeln!(out, "map_lookup_ns = {:.0}", fitted.map_lookup)?;
    writeln!(out, "link_to_host = {:.0}", fitted.link_to_host)?;
    write!(out, "#")?;
    let profile = fitted.profile(&text);
    for bytes in [SMALL, LARGE] {
        for (operation, random) in [
            (Operation::Read, false),
            (Operation::Read, true),
            (Operation::Write, false),
            (Operation::Write, true),
        ] {
            let rate = bytes as f64 * 1e3 / mean_time(&profile, operation, random, bytes);
            write!(out, " {rate:.4}")?;
        }
    }
    writeln!(out)
}
