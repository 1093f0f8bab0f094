//! What a report says about itself where its figures mislead: requests that wait though nothing is
//! busy, arrivals that outrun the drive, rows that are programmed half empty, streams that hold more
//! than their share.
//!
//! With `N` requests in flight over `D` dies, each on a die of its own choice, a die is held for
//! `N / (N + D - 1)` of the time (balanced closed network; Lazowska et al., Quantitative System
//! Performance, 1984, chapter 5). Much less, where requests take far longer than their commands do,
//! means that something else holds them up. Units of one row share a command, and do not wait.
//!
//! 1. The same measurement gives the same warnings.

use crate::Measurement;
use nandu_base::{Cause, FlashOperation, Nanos};
use nandu_ftl::StreamHold;
use nandu_nand::Waits;
use serde::{Deserialize, Serialize};

/// Requests below which times are too uncertain to judge.
const LEAST_REQUESTS: u64 = 500;
/// Dies and channels that are in use for a smaller share are not what requests wait for.
const BUSY_SHARE: f64 = 0.5;
/// Part of the time that dies would be held for by the requests in flight, below which something is odd.
const HELD_PART: f64 = 0.5;
/// A die or channel that is in use for more, and twice the mean, takes what others could.
const CROWDED_SHARE: f64 = 0.8;
/// Part of the time of requests above which they wait, rather than work.
const WAITING_PART: f64 = 0.25;
/// Part of the time of commands or writes above which one kind of waiting is the reason.
const REASON_PART: f64 = 0.25;
/// Part of the arrival span that a drive may lag behind at the end.
const LAG_PART: f64 = 0.05;
/// Requests that it may lag behind.
const LAG_REQUESTS: f64 = 100.0;
/// A lag that has grown over the whole run makes responses of half of it on average.
const LAG_RESPONSE_PART: f64 = 0.25;
/// Padding beside units that were written.
const PADDED_PART: f64 = 0.05;
/// Erase blocks, in parts per million of all, by which a stream may exceed its share.
const EXCESS_PPM: u32 = 50_000;
/// Write amplification from which on cleaning copies more than it gains.
const COSTLY_AMPLIFICATION: f64 = 2.0;

/// What is wrong with a run or its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// Requests wait, though neither dies nor channels are busy.
    WaitsThoughIdle,
    /// Requests arrive faster than the drive serves them.
    Overload,
    /// Rows are programmed with padding, because no more writes came to fill them.
    PaddedRows,
    /// A stream holds more erase blocks than its share, so that cleaning takes from it alone.
    StreamOverShare,
}

/// Something that makes the figures of a run doubtful, told beside them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// What is wrong.
    pub kind: WarningKind,
    /// In words, with figures and a remedy.
    pub text: String,
}

/// The warnings that a measurement gives rise to.
pub(crate) fn warnings_of(measured: &Measurement) -> Vec<Warning> {
    let overload = overload(measured);
    // Where requests arrive by the clock, the queue is as long as they happen to come.
    let is_kept_full = measured.arrival_span.is_none() || overload.is_some();
    let idle = if is_kept_full { waits_though_idle(measured) } else { None };
    let found = [
        (WarningKind::WaitsThoughIdle, idle),
        (WarningKind::Overload, overload),
        (WarningKind::PaddedRows, padded_rows(measured)),
        (WarningKind::StreamOverShare, stream_over_share(measured)),
    ];
    let said = found.into_iter().filter_map(|(kind, text)| Some(Warning { kind, text: text? }));
    said.collect()
}

/// Response times added up, in seconds.
fn response_seconds(measured: &Measurement) -> f64 {
    let all = measured.latency_ns.values();
    all.map(|latency| latency.mean * latency.count as f64 / 1e9).sum()
}

fn overload(measured: &Measurement) -> Option<String> {
    let span = measured.arrival_span?.as_seconds_f64();
    let took = measured.simulated.as_seconds_f64();
    let lag = took - span;
    let count = measured.request_count;
    let mean = response_seconds(measured) / count as f64;
    let has_grown = lag > LAG_PART * span
        && lag * count as f64 > LAG_REQUESTS * took
        && mean > LAG_RESPONSE_PART * lag;
    (count >= LEAST_REQUESTS && has_grown).then(|| {
        let part = (100.0 * span / took).floor();
        let rate = if part > 0.0 { format!("lower the rate to {part:.0} %, or ") } else { String::new() };
        format!(
            "arrivals outrun the drive: requests came for {} and took {}, so their responses say how \
             long the run was; {rate}take --arrivals closed",
            measured.arrival_span.unwrap_or_default(),
            measured.simulated,
        )
    })
}

fn waits_though_idle(measured: &Measurement) -> Option<String> {
    let dies = Load::of(&measured.usage.die_held, measured.simulated)?;
    let channels = Load::of(&measured.usage.channel_busy, measured.simulated)?;
    let in_flight = response_seconds(measured) / measured.simulated.as_seconds_f64();
    let in_flight = in_flight.min(f64::from(measured.queue_depth));
    let others = (dies.count - 1) as f64;
    let is_odd = dies.mean < HELD_PART * in_flight / (in_flight + others);
    let is_idle = dies.mean < BUSY_SHARE && channels.mean < BUSY_SHARE;
    let is_long = measured.request_count >= LEAST_REQUESTS && in_flight >= 1.0;
    (is_long && is_odd && is_idle && waiting_part(measured) > WAITING_PART).then(|| {
        format!(
            "requests wait though nothing is busy: {in_flight:.1} are in flight on average, but dies \
             are held for {:.1} % of the time and channels busy for {:.1} %; {}",
            dies.mean * 100.0,
            channels.mean * 100.0,
            likely_reason(measured, &dies, &channels)
        )
    })
}

/// Part of the time of reads and writes in which no command of theirs works, if each has one.
fn waiting_part(measured: &Measurement) -> f64 {
    let kinds = [("read", &measured.usage.reads), ("write", &measured.usage.programs)];
    let (mut responses, mut services) = (0.0, 0.0);
    for (kind, waits) in kinds {
        let Some(latency) = measured.latency_ns.get(kind) else { continue };
        let service = (waits.array + waits.transfer).0 as f64 / waits.command_count.max(1) as f64;
        responses += latency.mean * latency.count as f64;
        services += service.min(latency.mean) * latency.count as f64;
    }
    if responses > 0.0 { 1.0 - services / responses } else { 0.0 }
}

/// How much a set of dies or channels is in use.
struct Load {
    count: usize,
    mean: f64,
    busiest: usize,
    most: f64,
}

impl Load {
    /// None where nothing was measured.
    fn of(times: &[Nanos], simulated: Nanos) -> Option<Self> {
        let whole = simulated.as_seconds_f64();
        let (busiest, most) = times.iter().enumerate().max_by_key(|&(_, time)| time)?;
        let sum: f64 = times.iter().map(|time| time.as_seconds_f64()).sum();
        let (count, most) = (times.len(), most.as_seconds_f64() / whole);
        (whole > 0.0).then(|| Self { count, mean: sum / whole / count as f64, busiest, most })
    }

    fn is_crowded(&self) -> bool {
        self.most > CROWDED_SHARE && self.most > 2.0 * self.mean
    }
}

fn likely_reason(measured: &Measurement, dies: &Load, channels: &Load) -> String {
    let (held_back_part, held_back) = held_back(&measured.usage.reads, &measured.usage.programs);
    let row_part = row_waiting_part(measured);
    if dies.is_crowded() {
        format!(
            "die {} is held for {:.0} %, so most requests go to it alone",
            dies.busiest,
            dies.most * 100.0
        )
    } else if channels.is_crowded() {
        format!("channel {} is busy for {:.0} %", channels.busiest, channels.most * 100.0)
    } else if held_back_part > REASON_PART {
        let what = match (measured.merges.is_some(), measured.map_cache.is_some()) {
            (true, _) => "merges, which come one after the other",
            (false, true) => "the map on flash, and by cleaning that frees space",
            (false, false) => "cleaning that frees space",
        };
        format!("commands of the host are held back for {held_back} each by {what}")
    } else if row_part > REASON_PART {
        let percent = row_part * 100.0;
        format!("writes wait for {percent:.0} % of their time for others that fill their row")
    } else {
        "what commands wait for is in `time_shares`".into()
    }
}

/// Part of the time of the host's commands for which they were held back, and how long each was.
fn held_back(reads: &Waits, programs: &Waits) -> (f64, Nanos) {
    let both = [reads, programs];
    let sum = |of: fn(&Waits) -> Nanos| both.iter().map(|&waits| of(waits)).sum::<Nanos>();
    let held_back = sum(|waits| waits.held_back);
    let other =
        sum(|of| of.die + of.cleaning + of.channel + of.array + of.transfer).as_seconds_f64();
    let whole = held_back.as_seconds_f64() + other;
    let count: u64 = both.iter().map(|waits| waits.command_count).sum();
    let part = if whole > 0.0 { held_back.as_seconds_f64() / whole } else { 0.0 };
    (part, Nanos(held_back.0 / count.max(1)))
}

/// Part of the time of writes that is none of their programs, from issue to end.
fn row_waiting_part(measured: &Measurement) -> f64 {
    let of = &measured.usage.programs;
    let sum = of.held_back + of.die + of.cleaning + of.channel + of.array + of.transfer;
    let program_ns = sum.0 as f64 / of.command_count.max(1) as f64;
    match measured.latency_ns.get("write") {
        Some(latency) if latency.mean > 0.0 => 1.0 - program_ns / latency.mean,
        _ => 0.0,
    }
}

fn padded_rows(measured: &Measurement) -> Option<String> {
    let (padded, written) = (measured.host.padded_units, measured.host.write_units);
    (padded as f64 > PADDED_PART * written as f64 && written >= LEAST_REQUESTS).then(|| {
        format!(
            "rows were programmed padded, because no more writes came to fill them: {padded} units \
             of padding beside {written} written; raise --queue-depth or --write-buffer-units"
        )
    })
}

fn stream_over_share(measured: &Measurement) -> Option<String> {
    let holds = measured.stream_holds.iter().enumerate();
    let excess = |hold: &StreamHold| hold.held_ppm.saturating_sub(hold.share_ppm);
    let (stream, hold) = holds.max_by_key(|(_, hold)| excess(hold))?;
    let written = measured.counters.get(FlashOperation::Program, Cause::Host) as f64;
    let is_costly = measured.counters.programmed_pages() as f64 > COSTLY_AMPLIFICATION * written;
    let is_long = measured.host.write_units >= LEAST_REQUESTS;
    (excess(hold) > EXCESS_PPM && is_costly && is_long).then(|| {
        format!(
            "stream {stream} holds {:.1} % of the erase blocks, and its share is {:.1} %, so cleaning \
             takes from it alone, however little that gains: data of other streams lie in it, or its \
             own need more; fill the drive with --initial by-stream, or raise its stream_share_ppm",
            f64::from(hold.held_ppm) / 1e4,
            f64::from(hold.share_ppm) / 1e4
        )
    })
}
