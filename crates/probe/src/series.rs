//! The standard series, as plans: what S002 and S000 ran on every device, and a quick one.
//!
//! ```text
//!   S002: for each size: fill ─► SR ─► RR ─► SW ─► RW     3 runs of 30 s each
//!   S000: fill once; for each size: RR ─► SR ─► RW ─► SW  1 run of 30 s each
//! ```
//!
//! Bursts and endurance need more than a plan and have their own modules. Durations and repetitions
//! can be scaled down; the order of the patterns is always the papers'.

use crate::pattern::{Access, Area, DataKind, Limit, Pattern};
use crate::plan::{Plan, Preparation, Step, SweepRequestBytes};
use nandu_base::{ByteCount, Nanos};
use nandu_device::DeviceInfo;
use serde::{Deserialize, Serialize};

/// Points on the timeline of a run of the quick series.
const TIMELINE_POINTS: u64 = 20;

/// How much of a standard series to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SeriesOptions {
    /// Smallest request; `None` is the paper's.
    #[serde(deserialize_with = "crate::text::optional_size")]
    pub request_bytes_min: Option<ByteCount>,
    /// Largest request; `None` is the paper's.
    #[serde(deserialize_with = "crate::text::optional_size")]
    pub request_bytes_max: Option<ByteCount>,
    /// Time limit of each run; `None` is the paper's 30 s.
    #[serde(deserialize_with = "crate::text::optional_duration")]
    pub duration: Option<Nanos>,
    /// A limit on requests beside the time limit, so that simulations end early.
    pub request_count: Option<u64>,
    /// Runs of each pattern; `None` is the paper's.
    pub repetitions: Option<u32>,
    /// Which part of the device; S000 used a file of 20 GB on disks of 32 GB.
    pub area: Area,
    /// Whether the area is filled sequentially before each size (S002) or the series (S000).
    pub fill: bool,
    /// Whether S002's series goes on past its largest size while throughput gains 2.5 %.
    pub self_scaling: bool,
    /// Seed of all patterns.
    pub seed: u64,
}

impl Default for SeriesOptions {
    fn default() -> Self {
        Self {
            request_bytes_min: None,
            request_bytes_max: None,
            duration: None,
            request_count: None,
            repetitions: None,
            area: Area::default(),
            fill: true,
            self_scaling: false,
            seed: 0,
        }
    }
}

impl SeriesOptions {
    fn sizes(&self, info: &DeviceInfo, smallest: u64, largest: u64) -> Vec<u64> {
        let sector = u64::from(info.geometry.sector_bytes);
        let from = self.request_bytes_min.map_or(smallest.max(sector), |size| size.0);
        let length = self.area.length_on(info.geometry.capacity());
        let to = self.request_bytes_max.unwrap_or(ByteCount(largest)).min(length);
        SweepRequestBytes { from: ByteCount(from), to }.sizes(info.geometry.sector_bytes)
    }

    fn limit(&self) -> Limit {
        let duration = Some(self.duration.unwrap_or(Nanos::from_seconds(30)));
        Limit { request_count: self.request_count, duration }
    }

    fn pattern(&self, access: Access, read_percent: u8, size: u64, repetitions: u32) -> Pattern {
        Pattern {
            repetitions: self.repetitions.unwrap_or(repetitions),
            area: self.area,
            seed: self.seed,
            ..Pattern::new(access, read_percent, size, self.limit())
        }
    }
}

/// S002 appendix A: four patterns at sizes from 512 B to 8 MB, three runs of 30 s each; before each
/// size the whole device is written sequentially. Bytes are 0x00 to 0xff, as there.
#[must_use]
pub fn series_s002(info: &DeviceInfo, options: &SeriesOptions) -> Plan {
    let order = [
        (Access::Sequential, 100),
        (Access::Random, 100),
        (Access::Sequential, 0),
        (Access::Random, 0),
    ];
    let sizes = options.sizes(info, 512, 8 << 20);
    let mut steps = Vec::new();
    for &size in &sizes {
        for (position, (access, read_percent)) in order.into_iter().enumerate() {
            let mut pattern = options.pattern(access, read_percent, size, 3);
            pattern.data = DataKind::Cyclic;
            let fill = options.fill && position == 0;
            let mut step = Step::new(pattern).prepared(fills(fill, options.area, DataKind::Cyclic));
            step.self_scaling = options.self_scaling && Some(&size) == sizes.last();
            steps.push(step);
        }
    }
    Plan { name: "S002 appendix A".into(), steps }
}

/// S000 chapter 3: four patterns at sizes from 1 KB to 1 MB, one run of 30 s each, on an area that
/// was filled with zeros, as `dd` did there. Requests are issued one at a time.
#[must_use]
pub fn series_s000(info: &DeviceInfo, options: &SeriesOptions) -> Plan {
    let order = [
        (Access::Random, 100),
        (Access::Sequential, 100),
        (Access::Random, 0),
        (Access::Sequential, 0),
    ];
    let mut steps = Vec::new();
    for size in options.sizes(info, 1024, 1 << 20) {
        for (access, read_percent) in order {
            let fill = options.fill && steps.is_empty();
            let pattern = options.pattern(access, read_percent, size, 1);
            steps.push(Step::new(pattern).prepared(fills(fill, options.area, DataKind::Zeros)));
        }
    }
    Plan { name: "S000 chapter 3".into(), steps }
}

fn fills(wanted: bool, area: Area, data: DataKind) -> Vec<Preparation> {
    let request_bytes = ByteCount::mib(1);
    let fill = Preparation::SequentialFill { request_bytes, area, data, passes: 1 };
    if wanted { vec![fill] } else { Vec::new() }
}

/// How far writes are moved off their boundary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MisalignmentOptions {
    /// Offsets; S002 uses 2, 16 and 32 KB.
    #[serde(deserialize_with = "crate::text::sizes")]
    pub offsets: Vec<ByteCount>,
    /// Request sizes; S002 uses those of the main series.
    #[serde(deserialize_with = "crate::text::sizes")]
    pub request_bytes: Vec<ByteCount>,
    /// What this series shares with the others: area, durations, repetitions.
    pub series: SeriesOptions,
}

impl Default for MisalignmentOptions {
    fn default() -> Self {
        Self {
            offsets: [2, 16, 32].map(ByteCount::kib).to_vec(),
            request_bytes: [2, 4, 8, 16, 32, 64, 128].map(ByteCount::kib).to_vec(),
            series: SeriesOptions::default(),
        }
    }
}

/// S002 section 3.3.4 and appendix A: aligned random writes, then the same moved by each offset,
/// three runs of 30 s each. An offset that is a multiple of the request is aligned and left out.
#[must_use]
pub fn series_misalignment(info: &DeviceInfo, options: &MisalignmentOptions) -> Plan {
    let sector = u64::from(info.geometry.sector_bytes);
    let series = &options.series;
    let mut steps = Vec::new();
    for size in options.request_bytes.iter().filter(|size| size.0.is_multiple_of(sector)) {
        let moved = options.offsets.iter().filter(|offset| {
            offset.0 > 0 && offset.0.is_multiple_of(sector) && !offset.0.is_multiple_of(size.0)
        });
        for (position, &offset) in std::iter::once(&ByteCount::ZERO).chain(moved).enumerate() {
            let mut pattern = series.pattern(Access::Random, 0, size.0, 3);
            pattern.alignment_offset_bytes = offset;
            let fill = series.fill && position == 0;
            steps.push(Step::new(pattern).prepared(fills(fill, series.area, DataKind::Cyclic)));
        }
    }
    Plan { name: "S002 misalignment".into(), steps }
}

/// What the quick series covers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuickOptions {
    /// Request sizes; those that are no multiple of the sector are left out.
    #[serde(deserialize_with = "crate::text::sizes")]
    pub request_bytes: Vec<ByteCount>,
    /// Queue depths; each is cut to what the device takes.
    pub queue_depths: Vec<u32>,
    /// Time limit of each run.
    #[serde(deserialize_with = "crate::text::duration")]
    pub duration: Nanos,
    /// A limit on requests beside it, so that simulations end early.
    pub request_count: Option<u64>,
    /// Runs of each pattern.
    pub repetitions: u32,
    /// Which part of the device.
    pub area: Area,
    /// Whether the area is filled first. A fresh device must be, or reads meet nothing.
    pub fill: bool,
    /// Whether to write at all.
    pub writes: bool,
    /// Seed of all patterns.
    pub seed: u64,
}

impl Default for QuickOptions {
    fn default() -> Self {
        Self {
            request_bytes: [512, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20]
                .map(ByteCount)
                .to_vec(),
            queue_depths: vec![1, 32],
            duration: Nanos::from_millis(500),
            request_count: None,
            repetitions: 1,
            area: Area::default(),
            fill: true,
            writes: true,
            seed: 0,
        }
    }
}

/// A few seconds per pattern: enough for a profile of an unknown device, not for its steady state.
/// Reads come first, so that writes do not disturb them.
#[must_use]
pub fn series_quick(info: &DeviceInfo, options: &QuickOptions) -> Plan {
    let sector = u64::from(info.geometry.sector_bytes);
    let length = options.area.length_on(info.geometry.capacity());
    let mut depths: Vec<u32> =
        options.queue_depths.iter().map(|&depth| depth.clamp(1, info.queue_depth_max)).collect();
    depths.dedup();
    let mut steps = Vec::new();
    let limit = Limit { request_count: options.request_count, duration: Some(options.duration) };
    for read_percent in if options.writes { &[100, 0][..] } else { &[100] } {
        for access in [Access::Sequential, Access::Random] {
            for size in options.request_bytes.iter().filter(|size| size.0.is_multiple_of(sector)) {
                if *size > length {
                    continue;
                }
                for &queue_depth in &depths {
                    let mut pattern = Pattern::new(access, *read_percent, size.0, limit);
                    pattern.timeline_period_ns =
                        Nanos((options.duration.0 / TIMELINE_POINTS).max(1));
                    (pattern.queue_depth, pattern.repetitions) = (queue_depth, options.repetitions);
                    (pattern.area, pattern.seed) = (options.area, options.seed);
                    let fill = options.fill && options.writes && steps.is_empty();
                    let prepare = fills(fill, options.area, DataKind::Random);
                    steps.push(Step::new(pattern).prepared(prepare));
                }
            }
        }
    }
    Plan { name: "quick".into(), steps }
}
