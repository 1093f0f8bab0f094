//! What a request to an array takes of the processor, over members in memory: whole stripes and parts
//! of them written, parts read, and whole ones with a flush behind each eighth. For one copy, two
//! copies, a stripe, 3 of 4 and 2 of 5. Processor time, the median of nine rounds; a word as argument
//! chooses arrays whose name has it. Run by `cargo test` it only checks that it runs.

#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

use nandu_array::{ArrayConfig, ArrayDevice, Layout, MemberDevice, WriteReturn};
use nandu_base::{Nanos, Rng, to_u32};
use nandu_device::{
    Device, Geometry, IoBuffer, MemoryConfig, MemoryDevice, Request, testing::buffer_for,
};
use std::time::Instant;

const SECTOR_BYTES: u32 = 512;
/// Fragments of 4 KiB.
const FRAGMENT_SECTORS: u32 = 8;
const MEMBER_SECTORS: u64 = 16_384;
/// Members, needed, written.
const CODES: [(&str, u8, u8, u8); 5] = [
    ("one copy", 4, 1, 1),
    ("two copies", 2, 1, 2),
    ("stripe", 4, 4, 4),
    ("3 of 4", 4, 3, 4),
    ("2 of 5", 5, 2, 5),
];
const NAMES: [&str; 4] = ["stripe written", "part written", "part read", "stripe, some flushed"];

fn main() {
    let measure = std::env::args().any(|argument| argument == "--bench");
    let words: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let (count, rounds) = if measure { (20_000, 9) } else { (50, 1) };
    for (name, n, m, f) in CODES {
        if !words.is_empty() && !words.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        let mut times = NAMES.map(|_| Vec::new());
        for _ in 0..rounds {
            for (all, time) in times.iter_mut().zip(run(n, m, f, count)) {
                all.push(time);
            }
        }
        let medians = NAMES.iter().zip(&mut times).map(|(name, times)| {
            times.sort_by(f64::total_cmp);
            format!("{name} {:.0} ns", times[times.len() / 2])
        });
        println!("{name}: {}", medians.collect::<Vec<_>>().join(", "));
    }
}

/// Nanoseconds of a request of each kind of [`NAMES`].
fn run(n: u8, m: u8, f: u8, count: u64) -> [f64; 4] {
    let mut array = array(n, m, f);
    let sector_count = array.info().geometry.sector_count;
    let stripe = FRAGMENT_SECTORS * u32::from(m);
    let mut rng = Rng::new(1);
    let mut buffer = Some(buffer_for(&array, stripe));
    for first in (0..sector_count / u64::from(stripe)).map(|index| index * u64::from(stripe)) {
        ask(&mut array, &mut buffer, |buffer| Request::write(1, first, stripe, buffer));
    }
    let mut place =
        |sectors: u32| rng.below(sector_count / u64::from(sectors)) * u64::from(sectors);
    let whole = time(count, |_| {
        let first = place(stripe);
        ask(&mut array, &mut buffer, |buffer| Request::write(1, first, stripe, buffer));
    });
    let mut small = Some(buffer_for(&array, 2));
    let part = time(count, |_| {
        let first = place(2);
        ask(&mut array, &mut small, |buffer| Request::write(1, first, 2, buffer));
    });
    let read = time(count, |_| {
        let first = place(2);
        ask(&mut array, &mut small, |buffer| Request::read(1, first, 2, buffer));
    });
    let flushed = time(count, |index| {
        let first = place(stripe);
        ask(&mut array, &mut buffer, |buffer| Request::write(1, first, stripe, buffer));
        if index % 8 == 7 {
            ask(&mut array, &mut None, |_| Request::flush(1));
        }
    });
    [whole, part, read, flushed]
}

fn array(n: u8, m: u8, f: u8) -> ArrayDevice {
    let geometry = Geometry { sector_bytes: SECTOR_BYTES, sector_count: MEMBER_SECTORS };
    let memory = || MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let config = ArrayConfig {
        layout: Layout::new(n, m, f).expect("a layout of the list"),
        fragment_sector_count: FRAGMENT_SECTORS,
        write_return: WriteReturn::All,
        queue_depth_max: 32,
        member_error_count_max: 3,
        member_timeout: Some(Nanos::from_millis(50)),
        keeps_data: true,
    };
    let members = (0..n).map(|_| Box::new(memory()) as MemberDevice).collect();
    ArrayDevice::create(config, members).expect("blank members of one size")
}

fn ask(
    array: &mut ArrayDevice,
    buffer: &mut Option<IoBuffer>,
    request: impl FnOnce(Option<IoBuffer>) -> Request,
) {
    array.submit(array.now(), request(buffer.take())).expect("a sound request");
    let done = array.next_completion(Nanos::MAX).expect("a request is under way");
    done.result.expect("members without faults");
    *buffer = done.buffer;
}

/// Nanoseconds of one of `count` steps: those that this thread ran, where the kernel tells them, so
/// that what else the machine does counts less.
fn time(count: u64, mut step: impl FnMut(u64)) -> f64 {
    let ran = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    let (wall, start) = (Instant::now(), ran());
    for index in 0..count {
        step(index);
    }
    let wall_ns = wall.elapsed().as_nanos() as f64;
    let ran_ns = start.zip(ran()).map(|(start, end)| (end - start) as f64);
    ran_ns.unwrap_or(wall_ns) / f64::from(to_u32(count))
}
