//! How many requests a second generators draw and readers read, on one core: the median of five.
//! Run by `cargo test` it only checks that it runs; a word behind `--` chooses the lines with it.

#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

use nandu_trace::{
    CompactWriter, RequestSource, TraceOptions, TraceRequest, WorkloadSpec, open_reader,
};
use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Cursor;
use std::time::Instant;

/// A drive of 1 TB whose slots are no power of two.
const CAPACITY_BYTES: u64 = 1_000_204_886_016;
const BATCH: usize = 1024;

fn main() {
    let measure = std::env::args().any(|argument| argument == "--bench");
    let chosen = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let is_chosen = |name: &str| chosen.as_ref().is_none_or(|word| name.contains(word.as_str()));
    let count = if measure { 20_000_000 } else { 20_000 };
    for workload in [
        "uniform",
        "uniform:read=30,rate=1000000",
        "uniform:rate=1000000,arrival=exponential",
        "sequential",
        "permuted",
        "zipf:0.9,clustered=yes",
        "zipf:0.9",
        "oltp",
        "jesd219",
    ] {
        if !is_chosen(workload) {
            continue;
        }
        let rate = median(|| {
            let spec = WorkloadSpec::parse(workload).expect("a valid workload");
            let mut source = spec.source(CAPACITY_BYTES, 4096, 1).expect("a drive of that size");
            drain(&mut source, count)
        });
        println!("{workload:<42} {rate:7.1} M requests/s");
    }
    let spec = WorkloadSpec::parse("zipf:0.9,read=30,rate=10000,arrival=exponential");
    let mut requests = Vec::new();
    spec.expect("a valid workload")
        .source(CAPACITY_BYTES, 4096, 1)
        .expect("a drive of that size")
        .next_batch(&mut requests, count / 10)
        .expect("a generator does not fail");
    for (name, write) in
        [("msr", msr as fn(&[TraceRequest]) -> Vec<u8>), ("mqsim", mqsim), ("compact", compact)]
    {
        if is_chosen(name) {
            parse(name, &write(&requests), requests.len());
        }
    }
}

fn parse(name: &str, bytes: &[u8], count: usize) {
    let size = bytes.len() as f64 / 1e6;
    let rate = median(|| {
        let stream = Cursor::new(bytes.to_vec());
        let mut source = open_reader(stream, name, &TraceOptions::default()).expect("a good trace");
        drain(&mut *source, count)
    });
    let megabytes = size * rate / (count as f64 / 1e6);
    println!("{name:<42} {rate:7.1} M lines/s, {megabytes:.0} MB/s");
}

/// Millions of requests a second.
fn drain(source: &mut dyn RequestSource, count: usize) -> f64 {
    let mut batch = Vec::with_capacity(BATCH);
    let start = Instant::now();
    let mut seen = 0;
    while seen < count {
        batch.clear();
        source.next_batch(&mut batch, BATCH).expect("good requests");
        assert!(!batch.is_empty(), "as many requests as were asked for");
        seen += batch.len();
        black_box(&batch);
    }
    seen as f64 / start.elapsed().as_secs_f64() / 1e6
}

fn median(mut run: impl FnMut() -> f64) -> f64 {
    let mut rates: Vec<f64> = (0..5).map(|_| run()).collect();
    rates.sort_by(f64::total_cmp);
    rates[2]
}

fn msr(requests: &[TraceRequest]) -> Vec<u8> {
    let mut text = String::new();
    for request in requests {
        let time = 128_166_372_003_061_629 + request.at.0 / 100;
        let kind = if request.operation.label() == "read" { "Read" } else { "Write" };
        let (offset, length) = (request.offset_bytes, request.length_bytes);
        writeln!(text, "{time},hm,0,{kind},{offset},{length},413").expect("a string");
    }
    text.into_bytes()
}

fn mqsim(requests: &[TraceRequest]) -> Vec<u8> {
    let mut text = String::new();
    for request in requests {
        let kind = u8::from(request.operation.label() == "read");
        let (sector, sectors) = (request.offset_bytes / 512, request.length_bytes / 512);
        writeln!(text, "{} 0 {sector} {sectors} {kind}", request.at.0).expect("a string");
    }
    text.into_bytes()
}

fn compact(requests: &[TraceRequest]) -> Vec<u8> {
    let mut writer = CompactWriter::new(Vec::new(), "bench").expect("memory takes it");
    for request in requests {
        writer.push(request).expect("memory takes it");
    }
    writer.finish().expect("memory takes it")
}
