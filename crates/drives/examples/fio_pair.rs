//! The half of `cargo xtask compare-fio` that is ours: one fio-like job on a file, as little around
//! the drive as a program that measures can have (a latency histogram, a random address, a changed
//! word per sector written, as fio has them by default).
//!
//! ```text
//!   fio_pair fill FILE BYTES
//!   fio_pair run FILE psync|io_uring randread|randwrite|read|write BYTES DEPTH SECONDS
//!   fio_pair machine FILE
//! ```
//!
//! Answers are one line of JSON on standard output.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

use nandu_base::{ByteCount, LatencyHistogram, Nanos, Rng};
use nandu_device::{Device, IoBuffer, Request};
use nandu_drives::file::{
    EngineKind, FileDrive, FileOptions, buffer_for, cpu_time, disk_description,
    machine_description, open_existing, scratch,
};
use serde_json::json;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

/// One job of fio's kind.
struct Job {
    random: bool,
    write: bool,
    block_bytes: u64,
    depth: u32,
    duration: Nanos,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let answer = match words[..] {
        ["fill", file, size] => make_filled(Path::new(file), size),
        ["run", file, engine, pattern, block, depth, seconds] => {
            measure(Path::new(file), engine, pattern, [block, depth, seconds])
        }
        ["machine", file] => Ok(json!({
            "machine": machine_description(),
            "slug": machine_description().slug(),
            "disk": disk_description(Path::new(file)),
        })),
        _ => Err("usage: fio_pair fill FILE BYTES | run FILE ENGINE PATTERN BYTES DEPTH SECONDS \
                  | machine FILE"
            .into()),
    };
    match answer {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

type Answer = Result<serde_json::Value, Box<dyn Error>>;

fn make_filled(path: &Path, size: &str) -> Answer {
    let size = ByteCount::parse(size)?;
    let file = std::fs::File::options().read(true).write(true).create_new(true).open(path)?;
    file.set_len(size.0)?;
    let mut drive = open_existing(path, true, FileOptions::default())?;
    scratch::fill(&mut drive, 1, &mut |_| {}, &|| false)?;
    Ok(json!({ "bytes": size.0 }))
}

fn measure(path: &Path, engine: &str, pattern: &str, numbers: [&str; 3]) -> Answer {
    let [block, depth, seconds] = numbers;
    let engine = match engine {
        "psync" => EngineKind::Psync,
        "io_uring" => EngineKind::IoUring,
        other => return Err(format!("`{other}` is no engine; use psync or io_uring").into()),
    };
    let job = Job {
        random: pattern.starts_with("rand"),
        write: pattern.ends_with("write"),
        block_bytes: ByteCount::parse(block)?.0,
        depth: depth.parse()?,
        duration: Nanos::from_seconds(seconds.parse()?),
    };
    let options = FileOptions { engine, queue_depth: job.depth, ..FileOptions::default() };
    let mut drive = open_existing(path, true, options)?;
    run(&mut drive, &job)
}

fn run(drive: &mut FileDrive, job: &Job) -> Answer {
    let sector_bytes = u64::from(drive.info().geometry.sector_bytes);
    let block_sectors = nandu_base::to_u32(job.block_bytes / sector_bytes);
    let block_count = drive.info().geometry.capacity().0 / job.block_bytes;
    let mut rng = Rng::new(1);
    let mut next_block = 0;
    let mut request_of = |id: u64, mut buffer: IoBuffer| {
        let block = if job.random { rng.below(block_count) } else { next_block };
        next_block = if block + 1 == block_count { 0 } else { block + 1 };
        let first = block * u64::from(block_sectors);
        if job.write {
            for sector in buffer.chunks_mut(512) {
                sector[..8].copy_from_slice(&id.to_le_bytes());
            }
            Request::write(id, first, block_sectors, Some(buffer))
        } else {
            Request::read(id, first, block_sectors, Some(buffer))
        }
    };
    let mut histogram = LatencyHistogram::new();
    let mut buffers = Vec::new();
    for _ in 0..job.depth {
        let mut buffer = buffer_for(drive, nandu_base::to_index(job.block_bytes));
        Rng::new(2).fill(&mut buffer);
        buffers.push(buffer);
    }
    let (started, cpu_before) = (drive.now(), cpu_time());
    let deadline = started + job.duration;
    let (mut id, mut ended) = (0, started);
    for buffer in buffers {
        id += 1;
        drive.submit(started, request_of(id, buffer))?;
    }
    while let Some(done) = drive.next_completion(Nanos::MAX) {
        histogram.record(done.latency());
        ended = done.completed_at;
        done.result?;
        if ended < deadline {
            id += 1;
            let buffer = done.buffer.expect("buffers come back");
            drive.submit(ended, request_of(id, buffer))?;
        }
    }
    let cpu = cpu_time().since(cpu_before);
    Ok(json!({
        "requests": histogram.count(),
        "seconds": (ended - started).as_seconds_f64(),
        "user_ns": cpu.user.0,
        "system_ns": cpu.system.0,
        "latency_median_ns": histogram.percentile(50.0).0,
    }))
}
