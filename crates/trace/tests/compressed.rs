//! Compressed traces: read in constant memory, and what is cut is named with its line.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use flate2::write::GzEncoder;
use nandu_trace::{TraceError, TraceOptions, TraceRequest, open_reader};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::fmt::Write as _;
use std::io::{Cursor, Read, Write as _};

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &str) -> Vec<u8> {
    compress_to_vec(text.as_bytes(), CompressionLevel::Fastest)
}

fn msr_lines(count: u64) -> String {
    (0..count).fold(String::new(), |mut text, number| {
        let (time, offset) = (128_166_372_003_061_629 + number * 977, number * 7919 % 65_521 * 512);
        writeln!(text, "{time},hm,0,Write,{offset},4096,413").unwrap();
        text
    })
}

/// The same bytes again and again, as members or frames that follow each other.
struct Repeated {
    bytes: Vec<u8>,
    position: usize,
    left: u32,
}

impl Read for Repeated {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.position == self.bytes.len() {
            self.left -= 1;
            self.position = 0;
        }
        if self.left == 0 {
            return Ok(0);
        }
        let count = buffer.len().min(self.bytes.len() - self.position);
        buffer[..count].copy_from_slice(&self.bytes[self.position..self.position + count]);
        self.position += count;
        Ok(count)
    }
}

/// The most memory that this process ever had, where the system tells.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[test]
fn memory_does_not_grow_with_the_trace() {
    let lines = msr_lines(20_000);
    for (bytes, name) in [(gzip(&lines), "gzip"), (zstd(&lines), "zstd")] {
        let run = |times: u32| {
            let stream = Repeated { bytes: bytes.clone(), position: 0, left: times };
            let mut source = open_reader(stream, "t", &TraceOptions::default()).unwrap();
            assert!(source.description().starts_with(&format!("trace t: {name}, msr")));
            let mut batch: Vec<TraceRequest> = Vec::with_capacity(256);
            let mut seen = 0;
            loop {
                batch.clear();
                source.next_batch(&mut batch, 256).unwrap();
                if batch.is_empty() {
                    return seen;
                }
                seen += batch.len();
            }
        };
        assert_eq!(run(2), 40_000);
        let before = peak_bytes();
        // About 30 MB of text.
        assert_eq!(run(30), 600_000);
        if let (Some(before), Some(after)) = (before, peak_bytes()) {
            // The system counts in steps: a peak may seem to fall a little.
            let grown = after.saturating_sub(before);
            assert!(grown < 8 << 20, "{name}: {before} bytes became {after}");
        }
    }
}

#[test]
fn compressed_data_that_end_early_are_named_with_the_line_or_counted() {
    let lines = msr_lines(20_000);
    for (bytes, name) in [(gzip(&lines), "gzip"), (zstd(&lines), "zstd")] {
        let cut = bytes[..bytes.len() / 2].to_vec();
        let drain = |skip_bad: bool| {
            let options = TraceOptions { skip_bad, ..TraceOptions::default() };
            let mut source = open_reader(Cursor::new(cut.clone()), "t", &options).unwrap();
            let mut requests = Vec::new();
            let outcome = source.next_batch(&mut requests, usize::MAX);
            (requests.len(), outcome, source.statistics())
        };
        let (count, outcome, _) = drain(false);
        assert!(count > 1000, "what comes before the cut is given out");
        let expected = format!(
            "t:{}: the {name} data ends early; the file was cut, fetch it again",
            count + 1
        );
        assert_eq!(outcome.unwrap_err().to_string(), expected);
        let (skipped_count, outcome, statistics) = drain(true);
        assert_eq!((skipped_count, outcome, statistics.skipped_count), (count, Ok(()), 1));
    }
}

#[test]
fn compressed_data_that_end_before_the_first_line_are_bad_input_at_that_line() {
    let lines = msr_lines(20_000);
    for (bytes, name) in [(gzip(&lines), "gzip"), (zstd(&lines), "zstd")] {
        for length in [4, 9, 20] {
            let cut = Cursor::new(bytes[..length].to_vec());
            let error = open_reader(cut, "t", &TraceOptions::default()).err().unwrap();
            let expected =
                format!("t:1: the {name} data ends early; the file was cut, fetch it again");
            assert_eq!(error.to_string(), expected);
            assert!(matches!(error, TraceError::Line { .. }), "it is the file, not the drive");
        }
    }
}
