//! What else than the device may have decided a number, said before somebody believes it.
//!
//! The causes are those that users of fio, iotune and KDiskMark met: a generator bound by its CPU, the
//! page cache, a file smaller than a cache, a write cache, drift, the wrong sector size.

use crate::pattern::Access;
use crate::runner::{PatternResult, RunResult};
use crate::steady_state::SteadyState;
use crate::table::{throughput, time};
use nandu_base::{ByteCount, Nanos};
use nandu_device::{DeviceInfo, TimeSource};
use serde::{Deserialize, Serialize};

/// A generator above this share of one core decides the number itself.
const CPU_SHARE_MAX: f64 = 0.85;
/// A random read of 4 KiB or more from a device is never faster; from memory it is.
const READ_LATENCY_MIN_NS: f64 = 3_000.0;
/// Repetitions that differ by more are worth a word, and a warning.
const DRIFT_NOTE: f64 = 0.10;
const DRIFT_WARNING: f64 = 0.20;
/// Writes that start faster than they end by this factor met a cache.
const BURST_FACTOR: f64 = 1.5;
/// A flush that takes so many writes' time found something to flush.
const FLUSH_FACTOR: f64 = 10.0;
/// Small writes that reach less than this share of the next larger size's IOPS are rewritten inside.
const SECTOR_SHARE: f64 = 0.8;
/// Drives cache this much; a smaller file may never leave the cache.
const DRIVE_CACHE: ByteCount = ByteCount::gib(1);

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Note,
    /// The number may not be the device's.
    Warning,
}

/// One thing to know about the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What was seen and what to do about it.
    pub text: String,
}

/// Everything that a diagnosis looks at. What the caller does not know stays `None`.
#[derive(Clone, Copy, Debug)]
pub struct DiagnosisInput<'a> {
    /// What the device says of itself: its sizes, its queue and whose time it tells.
    pub info: &'a DeviceInfo,
    /// What was measured.
    pub results: &'a [PatternResult],
    /// Time on the processor that the program spent while measuring, user and system.
    pub cpu_time: Option<Nanos>,
    /// Real time meanwhile.
    pub wall_time: Option<Nanos>,
    /// Memory of the machine.
    pub memory: Option<ByteCount>,
    /// Whether the page cache was bypassed.
    pub direct: Option<bool>,
    /// The unit in which the device works, as the system reports it.
    pub physical_block_bytes: Option<u32>,
    /// What the steady-state rule said, where it was asked.
    pub steady_state: Option<&'a SteadyState>,
    /// Whether the drive answers writes from a cache, where that is known better than from the device,
    /// which says no more than whether a flush is worth while.
    pub write_cache: Option<bool>,
}

impl<'a> DiagnosisInput<'a> {
    /// A device and its results, nothing known of the machine.
    #[must_use]
    pub const fn new(info: &'a DeviceInfo, results: &'a [PatternResult]) -> Self {
        Self {
            info,
            results,
            cpu_time: None,
            wall_time: None,
            memory: None,
            direct: None,
            physical_block_bytes: None,
            steady_state: None,
            write_cache: None,
        }
    }

    fn is_real(&self) -> bool {
        self.info.time_source == TimeSource::Wall
    }
}

/// All findings, warnings first.
#[must_use]
pub fn diagnose(input: &DiagnosisInput<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if input.is_real() {
        findings.extend(processor(input));
        findings.extend(page_cache(input));
        findings.extend(small_file(input));
    }
    findings.extend(write_cache(input));
    findings.extend(drift(input));
    findings.extend(steady_state(input));
    findings.extend(sector_size(input));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

const fn warning(text: String) -> Finding {
    Finding { severity: Severity::Warning, text }
}

const fn note(text: String) -> Finding {
    Finding { severity: Severity::Note, text }
}

fn processor(input: &DiagnosisInput<'_>) -> Option<Finding> {
    let (cpu, wall) = (input.cpu_time?, input.wall_time.filter(|wall| *wall > Nanos::ZERO)?);
    let share = cpu.0 as f64 / wall.0 as f64;
    (share > CPU_SHARE_MAX).then(|| {
        warning(format!(
            "the generator used {:.0} % of a processor: it may have decided the numbers, not the \
             device; use larger requests or a lower queue depth to see the device",
            share * 100.0
        ))
    })
}

fn page_cache(input: &DiagnosisInput<'_>) -> Option<Finding> {
    if input.direct == Some(false) {
        let text = "direct I/O was not possible here, so the page cache answered: the numbers are \
                    those of memory; put the file on another file system";
        return Some(warning(text.into()));
    }
    input
        .results
        .iter()
        .filter(|result| {
            result.pattern.access == Access::Random
                && result.pattern.read_percent == 100
                && result.pattern.request_bytes >= ByteCount::kib(4)
                && result.pattern.queue_depth == 1
        })
        .find(|result| {
            let latency = result.medians.latency_mean_ns;
            latency > 0.0 && latency < READ_LATENCY_MIN_NS
        })
        .map(|result| {
            warning(format!(
                "`{}` took {} on average, which no disk or flash does: memory answered, a cache or the \
                 device itself",
                result.pattern.name(),
                time(result.medians.latency_mean_ns)
            ))
        })
}

fn small_file(input: &DiagnosisInput<'_>) -> Option<Finding> {
    let capacity = input.info.geometry.capacity();
    if let Some(memory) = input.memory.filter(|memory| capacity < *memory)
        && input.direct != Some(true)
    {
        return Some(warning(format!(
            "{} fits the memory of {memory}: the page cache may hold all of it; use a larger file",
            capacity
        )));
    }
    (capacity < DRIVE_CACHE).then(|| {
        note(format!(
            "only {capacity} were measured, which a cache in the drive or the host may hold; use \
             {DRIVE_CACHE} or more"
        ))
    })
}

fn write_cache(input: &DiagnosisInput<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let writes = || input.results.iter().filter(|result| result.pattern.writes());
    let fading = writes().find_map(|result| {
        let run = result.runs.first()?;
        let (first, last) = first_and_last_quarter(run)?;
        (first > BURST_FACTOR * last).then_some((result, first, last))
    });
    if let Some((result, first, last)) = fading {
        let why = match (input.write_cache, input.info.volatile_cache) {
            (Some(false), _) => {
                "it has no write cache, so that it had clean flash at first and came to clean"
            }
            (Some(true), _) | (None, true) => "a write cache took the beginning",
            (None, false) => {
                "clean flash, or a cache that survives a power cut, took the beginning"
            }
        };
        findings.push(warning(format!(
            "`{}` began at {} and ended at {}: {why}; run longer, or write the device full first",
            result.pattern.name(),
            throughput(first),
            throughput(last)
        )));
    }
    let slow_flush = writes().find(|result| {
        result.runs.iter().any(|run| {
            run.flush.count > 0 && run.flush.mean > FLUSH_FACTOR * run.write.mean.max(1.0)
        })
    });
    let has_cache = input.write_cache.unwrap_or(input.info.volatile_cache);
    if let Some(result) = slow_flush {
        let why = match has_cache {
            true => "writes are answered from a volatile cache",
            false => {
                "it has no volatile cache, so a flush writes more than data, such as a journal"
            }
        };
        findings.push(note(format!(
            "in `{}` a flush took over {FLUSH_FACTOR} times as long as a write: {why}",
            result.pattern.name()
        )));
    } else if has_cache
        && input.info.volatile_cache
        && writes().any(|result| result.pattern.flush_every == 0)
    {
        findings.push(note(
            "writes were flushed at the end of each point only, which throughput counts: their \
             response times are those of the drive's write cache, not of durable writes"
                .into(),
        ));
    }
    findings
}

/// Bytes per second of the first and the last quarter of a run's timeline, where it is long enough.
/// The last period may be cut short and is left out.
fn first_and_last_quarter(run: &RunResult) -> Option<(f64, f64)> {
    let points = run.timeline.split_last()?.1;
    let quarter = points.len() / 4;
    let (first, last) = (points.get(..quarter)?, points.get(points.len() - quarter..)?);
    let period = run.timeline_period.as_seconds_f64();
    let speed = |points: &[crate::runner::TimelinePoint], from: f64, to: f64| {
        points.iter().map(|point| point.byte_count as f64).sum::<f64>() / (to - from)
    };
    let first_speed = speed(first, 0.0, first.last()?.second + period);
    let last_speed = speed(last, last.first()?.second, last.last()?.second + period);
    Some((first_speed, last_speed))
}

fn drift(input: &DiagnosisInput<'_>) -> Option<Finding> {
    // Rounds that look for the steady state are no repetitions; its own rule judges them.
    if input.steady_state.is_some() {
        return None;
    }
    let worst = input
        .results
        .iter()
        .filter(|result| result.runs.len() > 1)
        .max_by(|left, right| left.medians.spread.total_cmp(&right.medians.spread))?;
    let spread = worst.medians.spread;
    let text = format!(
        "repetitions of `{}` differ by {:.0} %: compare only numbers that differ by more, or \
         repeat on a quiet machine",
        worst.pattern.name(),
        spread * 100.0
    );
    match spread {
        spread if spread > DRIFT_WARNING => Some(warning(text)),
        spread if spread > DRIFT_NOTE => Some(note(text)),
        _ => None,
    }
}

fn steady_state(input: &DiagnosisInput<'_>) -> Option<Finding> {
    let state = input.steady_state.filter(|state| !state.reached)?;
    Some(warning(format!(
        "the steady state was not reached: over the last {} rounds throughput varied by {:.0} % \
         and its trend moved by {:.0} %; run more rounds, or write the device full first",
        state.window.len(),
        state.excursion * 100.0,
        state.rise * 100.0
    )))
}

fn sector_size(input: &DiagnosisInput<'_>) -> Option<Finding> {
    let sector = input.info.geometry.sector_bytes;
    let smallest = || input.results.iter().map(|result| result.pattern.request_bytes).min();
    if let Some(block) = input.physical_block_bytes.filter(|block| *block > sector)
        && smallest().is_some_and(|size| size.0 < u64::from(block))
    {
        return Some(note(format!(
            "the device addresses {sector} bytes but works in {block}: smaller requests read and \
             rewrite a whole unit"
        )));
    }
    let iops_at = |bytes: u64| {
        input
            .results
            .iter()
            .find(|result| {
                result.pattern.access == Access::Random
                    && result.pattern.read_percent == 0
                    && result.pattern.queue_depth == 1
                    && result.pattern.alignment_offset_bytes == ByteCount::ZERO
                    && result.pattern.request_bytes.0 == bytes
            })
            .map(|result| result.medians.iops)
    };
    let (small, large) = (iops_at(512)?, iops_at(4096)?);
    (small < SECTOR_SHARE * large).then(|| {
        note(format!(
            "512-byte writes reach {:.0} % of the rate of 4 KiB writes: the device works in larger \
             units than the {sector}-byte sectors it shows",
            small / large * 100.0
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{Limit, Pattern};
    use crate::runner::TimelinePoint;
    use nandu_base::LatencySummary;
    use nandu_device::Geometry;

    fn info(time_source: TimeSource, capacity: ByteCount) -> DeviceInfo {
        DeviceInfo {
            name: "/dev/test".into(),
            geometry: Geometry::new(512, capacity.0 / 512).unwrap(),
            queue_depth_max: 64,
            time_source,
            needs_buffers: true,
            buffer_alignment: 4096,
            volatile_cache: false,
            supports_trim: true,
        }
    }

    /// Runs with the given throughputs, 100 us per request, and a timeline as given.
    fn result(read_percent: u8, size: u64, speeds: &[f64], timeline: &[u64]) -> PatternResult {
        let points = (0_u32..)
            .zip(timeline)
            .map(|(second, &byte_count)| TimelinePoint { second: f64::from(second), byte_count });
        let timeline: Vec<TimelinePoint> = points.collect();
        let summary = LatencySummary { count: 10, mean: 1e5, p50: 100_000, ..Default::default() };
        let (read, write) = match read_percent {
            100 => (summary, LatencySummary::default()),
            _ => (LatencySummary::default(), summary),
        };
        let runs = speeds.iter().map(|&bytes_per_second| RunResult {
            request_count: 10,
            byte_count: 10 * size,
            elapsed: Nanos::from_seconds(1),
            processor_time: None,
            read,
            write,
            flush: LatencySummary::default(),
            bytes_per_second,
            iops: bytes_per_second / size as f64,
            timeline_period: Nanos::from_seconds(1),
            timeline: timeline.clone(),
        });
        let pattern = Pattern::new(Access::Random, read_percent, size, Limit::requests(10));
        PatternResult::new("/dev/test".into(), pattern, runs.collect())
    }

    fn texts(input: &DiagnosisInput<'_>) -> Vec<String> {
        diagnose(input).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn a_quiet_measurement_of_a_large_disk_has_no_findings() {
        let info = info(TimeSource::Wall, ByteCount::gib(100));
        let results =
            [result(100, 4096, &[1e8, 1.05e8], &[1; 20]), result(0, 4096, &[1e8], &[1; 20])];
        let input = DiagnosisInput {
            cpu_time: Some(Nanos::from_seconds(1)),
            wall_time: Some(Nanos::from_seconds(10)),
            memory: Some(ByteCount::gib(8)),
            direct: Some(true),
            physical_block_bytes: Some(512),
            ..DiagnosisInput::new(&info, &results)
        };
        assert_eq!(texts(&input), [""; 0]);
    }

    #[test]
    fn the_machine_is_named_where_it_decided() {
        let info = info(TimeSource::Wall, ByteCount::mib(256));
        let mut fast = result(100, 4096, &[1e9], &[]);
        fast.medians.latency_mean_ns = 800.0;
        let results = [fast];
        let mut input = DiagnosisInput::new(&info, &results);
        input.cpu_time = Some(Nanos::from_millis(950));
        input.wall_time = Some(Nanos::from_seconds(1));
        input.memory = Some(ByteCount::gib(4));
        let found = texts(&input).join("\n");
        for expected in ["95 % of a processor", "no disk or flash does", "fits the memory of 4 GiB"]
        {
            assert!(found.contains(expected), "{found} lacks {expected}");
        }
        input.direct = Some(false);
        assert!(texts(&input).join("\n").contains("page cache answered"));
        input.direct = Some(true);
        let small = diagnose(&input).pop().unwrap();
        assert_eq!(small.severity, Severity::Note, "warnings come first");
        assert!(small.text.contains("only 256 MiB"), "{}", small.text);
        // The same of a simulation says nothing about this machine.
        let simulated = DeviceInfo { time_source: TimeSource::Virtual, ..info.clone() };
        assert_eq!(texts(&DiagnosisInput { info: &simulated, ..input }), [""; 0]);
    }

    #[test]
    fn write_caches_show_in_time_and_in_flushes() {
        let info = info(TimeSource::Virtual, ByteCount::gib(100));
        let fading: Vec<u64> = [vec![1000; 6], vec![300; 18]].concat();
        let results = [result(0, 4096, &[1e8], &fading)];
        let found = texts(&DiagnosisInput::new(&info, &results)).join("\n");
        assert!(found.contains("began at 1.00 kB/s and ended at 300 B/s"), "{found}");
        let mut flushed = result(0, 4096, &[1e8], &[5; 24]);
        flushed.runs[0].flush = LatencySummary { count: 3, mean: 2e6, ..Default::default() };
        let results = [flushed];
        let found = texts(&DiagnosisInput::new(&info, &results)).join("\n");
        assert!(found.contains("it has no volatile cache"), "{found}");
        let cached = DeviceInfo { volatile_cache: true, ..info };
        let found = texts(&DiagnosisInput::new(&cached, &results)).join("\n");
        assert!(found.contains("answered from a volatile cache"), "{found}");
        let plain = [result(0, 4096, &[1e8], &[5; 24])];
        let found = texts(&DiagnosisInput::new(&cached, &plain)).join("\n");
        assert!(found.contains("not of durable writes"), "{found}");
    }

    #[test]
    fn a_drive_without_a_write_cache_is_said_to_have_none() {
        // Its map may be lost in a power cut, so that a flush is worth while.
        let info =
            DeviceInfo { volatile_cache: true, ..info(TimeSource::Virtual, ByteCount::gib(100)) };
        let said = |results: &[PatternResult], write_cache| {
            let input = DiagnosisInput { write_cache, ..DiagnosisInput::new(&info, results) };
            texts(&input).join("\n")
        };
        let plain = [result(0, 4096, &[1e8], &[5; 24])];
        assert!(said(&plain, None).contains("the drive's write cache"));
        assert_eq!(said(&plain, Some(false)), "");
        let fading = [result(0, 4096, &[1e8], &[vec![1000; 6], vec![300; 18]].concat())];
        let found = said(&fading, Some(false));
        assert!(found.contains("no write cache") && found.contains("came to clean"), "{found}");
        assert!(said(&fading, Some(true)).contains("a write cache took the beginning"));
    }

    #[test]
    fn drift_is_noted_above_ten_percent_and_warned_of_above_twenty() {
        let info = info(TimeSource::Virtual, ByteCount::gib(100));
        let severity = |speeds: &[f64]| {
            let results = [result(100, 4096, speeds, &[])];
            diagnose(&DiagnosisInput::new(&info, &results)).first().map(|f| f.severity)
        };
        assert_eq!(severity(&[100.0, 105.0, 109.0]), None);
        assert_eq!(severity(&[100.0, 105.0, 115.0]), Some(Severity::Note));
        assert_eq!(severity(&[100.0, 105.0, 130.0]), Some(Severity::Warning));
    }

    #[test]
    fn small_sectors_and_unsteady_states_are_named() {
        let info = info(TimeSource::Virtual, ByteCount::gib(100));
        let results =
            [result(0, 512, &[512.0 * 100.0], &[]), result(0, 4096, &[4096.0 * 400.0], &[])];
        let mut input = DiagnosisInput::new(&info, &results);
        let found = texts(&input).join("\n");
        assert!(found.contains("512-byte writes reach 25 %"), "{found}");
        input.physical_block_bytes = Some(4096);
        assert!(texts(&input).join("\n").contains("works in 4096"));
        let state = crate::steady_state::detect(&[1.0, 2.0, 3.0, 4.0, 5.0], &Default::default());
        input.steady_state = Some(&state);
        let found = diagnose(&input).remove(0);
        assert_eq!(found.severity, Severity::Warning);
        assert!(found.text.contains("varied by 133 %"), "{}", found.text);
    }
}
