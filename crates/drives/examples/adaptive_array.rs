//! An array that chooses layouts by load, beside each fixed layout, over simulated members: what S000
//! section 8.6 proposes, measured on the device itself and not on the chapter's simulator.
//!
//! ```text
//!   cargo run --release -p nandu-drives --example adaptive_array -- [--phase-ms N] [--out DIR]
//! ```
//!
//! Members are four memories with the times of S000's chip: 20 us a page of 2 KiB read, 466.875 us
//! written with its share of cleaning. A block has eight pages, so that the head sector of a fragment
//! weighs little; think times are eight times those of chapter 8. Closed workers read or write a random
//! block of their object, think for a time uniform in 3/4 to 3/2 of a base, and do it again.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example talks to people")]

use nandu_array::{
    AdaptiveConfig, ArrayConfig, ArrayDevice, Layout, MemberDevice, MemberTimes, WriteReturn,
};
use nandu_base::{Nanos, Rng, to_u32};
use nandu_device::{Device, Geometry, Request};
use nandu_drives::scm::{ScmConfig, StorageClassMemory};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::error::Error;

const MEMBER_COUNT: u8 = 4;
const BLOCK_SECTORS: u32 = 32;
const OBJECT_BLOCKS: u64 = 128;
const EXTENT_STRIPES: u32 = 16;
const READ_SECTOR_NS: Nanos = Nanos(20_000 / 4);
const WRITE_SECTOR_NS: Nanos = Nanos(466_875 / 4);
const READ_THINK_US: u64 = 8 * 775;

/// Workers on one object.
#[derive(Clone, Copy)]
struct Load {
    reader_count: u32,
    writer_count: u32,
    write_think_us: u64,
}

const WRITE_HEAVY: Load = Load { reader_count: 5, writer_count: 5, write_think_us: 8 * 200 };
const MIXED: Load = Load { reader_count: 25, writer_count: 5, write_think_us: 8 * 1500 };
const FLOOD: Load = Load { reader_count: 200, writer_count: 1, write_think_us: 8 * 3000 };
const READ_HEAVY: Load = Load { reader_count: 50, writer_count: 5, write_think_us: 8 * 3000 };

/// What a phase came to: requests of all of it, and of its second half.
#[derive(Clone, Copy, Default)]
struct Ended {
    all: u64,
    steady: u64,
}

struct Worker {
    rng: Rng,
    is_reader: bool,
    think_ns: u64,
    object: u64,
}

fn members() -> Result<Vec<MemberDevice>, Box<dyn Error>> {
    let config = ScmConfig {
        line_bytes: 512,
        read_line_ns: READ_SECTOR_NS,
        write_line_ns: WRITE_SECTOR_NS,
        bank_count: 1,
        read_bytes_per_second: 0,
        write_bytes_per_second: 0,
        overhead_ns: Nanos::ZERO,
        queue_depth: 256,
    };
    let geometry = Geometry::new(512, 20_000)?;
    let member = |_| -> Result<MemberDevice, Box<dyn Error>> {
        Ok(Box::new(StorageClassMemory::new("chip", config.clone(), geometry, false)?))
    };
    (0..MEMBER_COUNT).map(member).collect()
}

fn array(
    layout: Layout,
    layouts: Vec<Layout>,
    objects: usize,
) -> Result<ArrayDevice, Box<dyn Error>> {
    let config = ArrayConfig {
        layout,
        fragment_sector_count: BLOCK_SECTORS,
        write_return: WriteReturn::Needed,
        queue_depth_max: 256,
        member_error_count_max: 0,
        member_timeout: None,
        keeps_data: false,
    };
    let adaptive = AdaptiveConfig {
        layouts,
        stripe_sector_count: BLOCK_SECTORS,
        extent_stripe_count: EXTENT_STRIPES,
        object_sector_counts: vec![OBJECT_BLOCKS * u64::from(BLOCK_SECTORS); objects],
        observe: Nanos::from_millis(1000),
        gain_ppm: 10_000,
        migration_bytes_per_second: 4_000_000,
        member_times: MemberTimes {
            read_ns: Nanos::ZERO,
            read_sector_ns: READ_SECTOR_NS,
            write_ns: Nanos::ZERO,
            write_sector_ns: WRITE_SECTOR_NS,
        },
    };
    Ok(ArrayDevice::create_adaptive(config, adaptive, members()?)?)
}

fn workers(loads: &[Load], phase: usize) -> Vec<Worker> {
    let mut workers = Vec::new();
    for (load, object) in loads.iter().zip(0_u64..) {
        for number in 0..load.reader_count + load.writer_count {
            let is_reader = number < load.reader_count;
            let think_us = if is_reader { READ_THINK_US } else { load.write_think_us };
            let rng = Rng::for_part(1, &format!("phase {phase} object {object} worker {number}"));
            workers.push(Worker { rng, is_reader, think_ns: think_us * 1000, object });
        }
    }
    workers
}

/// Runs one phase from now on; requests of earlier workers have ended.
fn run_phase(device: &mut ArrayDevice, mut workers: Vec<Worker>, phase: Nanos) -> Ended {
    let begin = device.now();
    let (middle, end) = (begin + Nanos(phase.0 / 2), begin + phase);
    let mut due = BinaryHeap::new();
    for (worker, number) in workers.iter_mut().zip(0_usize..) {
        due.push(Reverse((begin.0 + worker.rng.below(worker.think_ns * 3 / 2), number)));
    }
    let mut ended = Ended::default();
    loop {
        let next = due.peek().map_or(u64::MAX, |Reverse((time, _))| *time).min(end.0);
        if let Some(done) = device.next_completion(Nanos(next)) {
            assert!(done.result.is_ok(), "members do not fail");
            ended.all += u64::from(done.completed_at < end);
            ended.steady += u64::from(done.completed_at >= middle && done.completed_at < end);
            let number = usize::try_from(done.id).expect("it was one");
            let worker = &mut workers[number];
            let base = worker.think_ns;
            let think = base - base / 4 + worker.rng.below(base * 3 / 4 + 1);
            due.push(Reverse((done.completed_at.0 + think, number)));
            continue;
        }
        if next >= end.0 {
            break;
        }
        let Some(Reverse((time, number))) = due.pop() else { break };
        let worker = &mut workers[number];
        let block = worker.object * OBJECT_BLOCKS + worker.rng.below(OBJECT_BLOCKS);
        let first = block * u64::from(BLOCK_SECTORS);
        let request = match worker.is_reader {
            true => Request::read(number as u64, first, BLOCK_SECTORS, None),
            false => Request::write(number as u64, first, BLOCK_SECTORS, None),
        };
        device.submit(Nanos(time), request).expect("the queue holds all workers");
    }
    while device.next_completion(Nanos::MAX).is_some() {}
    ended
}

fn run_all(device: &mut ArrayDevice, phases: &[Vec<Load>], phase: Nanos) -> Vec<Ended> {
    let mut ended = Vec::new();
    for (loads, number) in phases.iter().zip(0_usize..) {
        ended.push(run_phase(device, workers(loads, number), phase));
        device.audit();
    }
    ended
}

/// One scenario under every policy; the adaptive array's worst share of the best fixed layout in a
/// steady phase, and its share over all phases.
fn scenario(name: &str, phases: &[Vec<Load>], phase: Nanos) -> Result<Value, Box<dyn Error>> {
    let objects = phases[0].len();
    let one_copy = Layout::new(MEMBER_COUNT, 1, 1)?;
    let mut fixed = Vec::new();
    for layout in Layout::all(MEMBER_COUNT) {
        let ended = run_all(&mut array(layout, vec![layout], objects)?, phases, phase);
        println!("{name:>12} {:>8}: {}", layout.name(), in_words(&ended));
        fixed.push((layout.name(), ended));
    }
    let mut device = array(one_copy, Layout::all(MEMBER_COUNT).collect(), objects)?;
    let mut adaptive = Vec::new();
    let mut layouts = Vec::new();
    for (loads, number) in phases.iter().zip(0_usize..) {
        adaptive.push(run_phase(&mut device, workers(loads, number), phase));
        let extents = usize::try_from(OBJECT_BLOCKS)? / usize::try_from(EXTENT_STRIPES)?;
        let chosen: Vec<String> =
            device.layouts().step_by(extents).take(objects).map(Layout::name).collect();
        layouts.push(chosen);
    }
    println!("{name:>12} adaptive: {} {layouts:?}", in_words(&adaptive));
    let best_of = |phase: usize| fixed.iter().map(|(_, ended)| ended[phase].steady).max();
    let steady: Vec<f64> = (0..phases.len())
        .map(|phase| adaptive[phase].steady as f64 / best_of(phase).unwrap_or(1) as f64)
        .collect();
    let total = |ended: &[Ended]| ended.iter().map(|phase| phase.all).sum::<u64>();
    let best = fixed.iter().map(|(_, ended)| total(ended)).max().unwrap_or(1);
    let overall = total(&adaptive) as f64 / best as f64;
    println!("{name:>12} steady over the best fixed {steady:.3?}, overall {overall:.3}");
    let counts = |ended: &[Ended]| -> Vec<[u64; 2]> {
        ended.iter().map(|phase| [phase.all, phase.steady]).collect()
    };
    let fixed: serde_json::Map<String, Value> =
        fixed.iter().map(|(name, ended)| (name.clone(), json!(counts(ended)))).collect();
    Ok(json!({
        "fixed_requests_all_and_steady": fixed,
        "adaptive_requests_all_and_steady": counts(&adaptive),
        "layouts_at_the_end_of_each_phase": layouts,
        "migrated_stripe_count": device.migrated_stripe_count(),
        "steady_over_best_fixed": steady,
        "overall_over_best_fixed": overall,
    }))
}

fn in_words(ended: &[Ended]) -> String {
    let phases: Vec<String> = ended.iter().map(|phase| phase.steady.to_string()).collect();
    let total: u64 = ended.iter().map(|phase| phase.all).sum();
    format!("steady {} of {} in all", phases.join(" "), to_u32(total))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |key: &str| {
        let at = arguments.iter().position(|argument| argument == key)?;
        arguments.get(at + 1)
    };
    let phase_ms: u64 = value("--phase-ms").map_or(Ok(12_000), |text| text.parse())?;
    let phase = Nanos::from_millis(phase_ms);
    let alternating = [vec![WRITE_HEAVY], vec![FLOOD], vec![WRITE_HEAVY], vec![FLOOD]];
    let two_objects =
        [vec![WRITE_HEAVY, READ_HEAVY], vec![READ_HEAVY, WRITE_HEAVY], vec![MIXED, MIXED]];
    let report = json!({
        "what": "ArrayDevice over four simulated chips, adaptive beside every fixed layout",
        "phase_ms": phase_ms,
        "alternating": scenario("alternating", &alternating, phase)?,
        "two_objects": scenario("two objects", &two_objects, phase)?,
    });
    if let Some(directory) = value("--out") {
        std::fs::create_dir_all(directory)?;
        let path = std::path::Path::new(directory).join("adaptive-array.json");
        std::fs::write(&path, serde_json::to_string_pretty(&report)? + "\n")?;
    }
    Ok(())
}
