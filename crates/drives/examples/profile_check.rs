//! Prints the hard disk and storage-class memory profiles beside the figures that they were made
//! after, as the table of docs/device-model.md. Run it again after a change of a profile:
//! `cargo run --release -p nandu-drives --example profile_check`.
//!
//! Every figure is measured from outside, through the contract, by one request at a time unless the
//! row says otherwise. Rates are decimal MB/s. Random accesses are uniform over the span.

use nandu_base::{ByteCount, Nanos, Rng};
use nandu_device::{Device, Operation, Request};
use nandu_drives::profile::{Profile, SimOptions};
use std::io::Write;

/// What a row measures.
#[derive(Clone, Copy)]
enum Figure {
    /// Mean time of a request, in milliseconds.
    MeanMillis,
    /// The same in microseconds.
    MeanMicros,
    /// Decimal megabytes per second.
    MegabytesPerSecond,
    /// Mean time over that of the sequential run.
    Slowdown,
}

/// One line of the table.
pub(crate) struct Row {
    pub(crate) profile: &'static str,
    pub(crate) what: &'static str,
    operation: Operation,
    is_random: bool,
    request_bytes: u64,
    /// Which part of the drive is used, from its beginning; zero for all.
    span: ByteCount,
    figure: Figure,
    /// The published figure and where it stands; none where the paper has none.
    pub(crate) published: Option<(f64, &'static str)>,
}

const KIB: u64 = 1 << 10;
const ALL: ByteCount = ByteCount::ZERO;

macro_rules! row {
    ($profile:literal, $what:literal, $operation:ident, $order:ident, $bytes:expr, $span:expr,
     $figure:ident, $published:expr) => {
        Row {
            profile: $profile,
            what: $what,
            operation: Operation::$operation,
            is_random: $order,
            request_bytes: $bytes,
            span: $span,
            figure: Figure::$figure,
            published: $published,
        }
    };
}

#[allow(non_upper_case_globals, reason = "the rows read better with words than with booleans")]
const random: bool = true;
#[allow(non_upper_case_globals, reason = "the rows read better with words than with booleans")]
const sequential: bool = false;

/// All rows that the profiles are checked against.
#[rustfmt::skip]
pub(crate) fn rows() -> Vec<Row> {
    let two_mb = 2_000_384; // 2 MB in whole sectors
    let s000 = "S000 table 3.2";
    let s002 = "S002 table 3.1";
    vec![
        row!("wd2000jb", "4 KiB sequential read", Read, sequential, 4 * KIB, ALL, MeanMicros, None),
        row!("wd2000jb", "4 KiB random read", Read, random, 4 * KIB, ALL, MeanMillis, None),
        row!("wd2000jb", "4 KiB random read, slowdown", Read, random, 4 * KIB, ALL, Slowdown, Some((205.40, s000))),
        row!("wd2000jb", "the same over the first 20 GB, no file system", Read, random, 4 * KIB, ByteCount(20_000_000_000), Slowdown, None),
        row!("wd2000jb", "4 KiB random write, slowdown", Write, random, 4 * KIB, ALL, Slowdown, Some((108.86, s000))),
        row!("toshiba-320", "4 KiB random read", Read, random, 4 * KIB, ALL, MeanMillis, Some((17.56, "S001 table 2, seek + latency"))),
        row!("toshiba-320", "1 MiB sequential read", Read, sequential, 1024 * KIB, ALL, MegabytesPerSecond, Some((34.0, "S001 table 2"))),
        row!("barracuda-7200-11", "512 B sequential read", Read, sequential, 512, ALL, MegabytesPerSecond, Some((6.2, s002))),
        row!("barracuda-7200-11", "512 B random read", Read, random, 512, ALL, MegabytesPerSecond, Some((0.063, s002))),
        row!("barracuda-7200-11", "512 B sequential write", Write, sequential, 512, ALL, MegabytesPerSecond, Some((5.1, s002))),
        row!("barracuda-7200-11", "512 B random write", Write, random, 512, ALL, MegabytesPerSecond, Some((0.12, s002))),
        row!("barracuda-7200-11", "2 MB sequential read", Read, sequential, two_mb, ALL, MegabytesPerSecond, Some((87.5, s002))),
        row!("barracuda-7200-11", "2 MB random read", Read, random, two_mb, ALL, MegabytesPerSecond, Some((69.6, s002))),
        row!("barracuda-7200-11", "2 MB sequential write", Write, sequential, two_mb, ALL, MegabytesPerSecond, Some((88.1, s002))),
        row!("barracuda-7200-11", "2 MB random write", Write, random, two_mb, ALL, MegabytesPerSecond, Some((71.7, s002))),
        row!("wd800aajs", "4 KiB random read in the first 2 GB", Read, random, 4 * KIB, ByteCount(2_000_000_000), MeanMillis, Some((6.2, "S004 3.2, 2 ms of seek + 4.2 ms of latency"))),
        row!("wd800aajs", "4 KiB random read over all", Read, random, 4 * KIB, ALL, MeanMillis, Some((20.0, "S004 footnote 6"))),
        row!("wd800aajs", "256 KiB sequential read from the start", Read, sequential, 256 * KIB, ByteCount(2_000_000_000), MegabytesPerSecond, Some((60.0, "S004 3.2"))),
        row!("ibm-3330", "4 KiB read", Read, random, 4 * KIB, ALL, MeanMillis, Some((43.9, "S004 footnote 4"))),
        row!("pcm", "4 KiB random read", Read, random, 4 * KIB, ALL, MeanMicros, None),
        row!("pcm", "4 KiB random write", Write, random, 4 * KIB, ALL, MeanMicros, None),
        row!("optane-like", "4 KiB random read", Read, random, 4 * KIB, ALL, MeanMicros, None),
        row!("optane-like", "4 KiB random write", Write, random, 4 * KIB, ALL, MeanMicros, None),
        row!("dram-like", "4 KiB random read", Read, random, 4 * KIB, ALL, MeanMicros, None),
        row!("dram-like", "4 KiB random write", Write, random, 4 * KIB, ALL, MeanMicros, None),
    ]
}

/// Mean time of a request. Sequential runs start at several places of the span, as in S002, and the
/// beginning of every run is left out of the count, so that caches have settled.
fn mean_time(row: &Row, is_random: bool) -> Nanos {
    let profile = Profile::load(row.profile).expect("the profile is embedded");
    let options = SimOptions { keep_data: false, ..SimOptions::default() };
    let mut device = profile.open(options).expect("an embedded profile opens");
    let geometry = device.info().geometry;
    let per_request = row.request_bytes / u64::from(geometry.sector_bytes);
    let span = if row.span == ALL { geometry.capacity() } else { row.span };
    let slots = span.0 / row.request_bytes;
    let mut rng = Rng::new(1);
    let (run_count, warm_up, counted) = if is_random { (1, 200, 2000) } else { (24, 300, 600) };
    let mut total = Nanos::ZERO;
    for run in 0..run_count {
        let length = warm_up + counted;
        let start = slots.saturating_sub(length) * run / run_count;
        let mut begin = Nanos::ZERO;
        for step in 0..length {
            if step == warm_up {
                begin = device.now();
            }
            let slot = if is_random { rng.below(slots) } else { start + step % slots };
            request(device.as_mut(), row.operation, slot * per_request, per_request);
        }
        total += device.now() - begin;
        let rested = device.now() + Nanos::from_seconds(10);
        device.idle_until(rested);
    }
    Nanos(total.0 / (run_count * counted))
}

fn request(device: &mut dyn Device, operation: Operation, first: u64, count: u64) {
    let count = nandu_base::to_u32(count);
    let request = match operation {
        Operation::Write => Request::write(0, first, count, None),
        _ => Request::read(0, first, count, None),
    };
    device.submit(device.now(), request).expect("the request is valid");
    let done = device.next_completion(Nanos::MAX).expect("a request in flight completes");
    done.result.expect("no fault was planned");
}

/// The simulated figure of a row.
pub(crate) fn measure(row: &Row) -> f64 {
    let mean = mean_time(row, row.is_random);
    match row.figure {
        Figure::MeanMillis => mean.as_micros_f64() / 1e3,
        Figure::MeanMicros => mean.as_micros_f64(),
        Figure::MegabytesPerSecond => row.request_bytes as f64 / mean.as_micros_f64(),
        Figure::Slowdown => mean.0 as f64 / mean_time(row, false).0 as f64,
    }
}

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "| profile | figure | simulated | published | ratio | source |")?;
    writeln!(out, "|---|---|---|---|---|---|")?;
    for row in rows() {
        let simulated = measure(&row);
        let unit = match row.figure {
            Figure::MeanMillis => "ms",
            Figure::MeanMicros => "us",
            Figure::MegabytesPerSecond => "MB/s",
            Figure::Slowdown => "times",
        };
        let (published, ratio, source) = row.published.map_or_else(
            || ("-".into(), "-".into(), "-"),
            |(figure, source)| (digits(figure), format!("{:.2}", simulated / figure), source),
        );
        writeln!(
            out,
            "| {} | {} | {} {unit} | {published} | {ratio} | {source} |",
            row.profile,
            row.what,
            digits(simulated)
        )?;
    }
    Ok(())
}

/// Three significant digits, below 1 too.
fn digits(value: f64) -> String {
    match value {
        x if x >= 0.995 => nandu_base::units::three_digits(x),
        x if x >= 0.0995 => format!("{x:.3}"),
        x => format!("{x:.4}"),
    }
}
