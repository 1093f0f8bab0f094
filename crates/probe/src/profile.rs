//! What is known about a device after probing: points, ratios and fitted models, as JSON. A planner
//! reads it to price an access.
//!
//! ```text
//!   results ──► points (operation, access, size, depth) ──► lines t(b) = t0 + b/F at depth 1
//!                    │                                  └─► penalties, best size
//!   misaligned ──────┴──► alignment unit          bursts ──► effect of history
//!   streams ──► as they were measured
//! ```
//!
//! The linear model is that of S004 (Härder et al. 2009), section 3.1, t_d = t_s + t_r + b/F, with
//! t0 for t_s + t_r, fitted separately for sequential and random reads and writes.
//!
//! 1. Points are in order of operation, access, size and depth, without duplicates.
//! 2. Only pure reads or writes without offset, think time, flush or skew become points.
//! 3. A profile that is read has no figure that nobody can have measured: sizes, depths and counts are
//!    1 at least, times longer than nothing and no longer than a day.

use crate::burst::BurstResult;
use crate::fit::fit_linear;
pub use crate::fit::{FIT_ERROR_MAX, LinearModel};
use crate::pattern::Access;
use crate::runner::{PatternResult, median};
use crate::streams::StreamProfile;
use crate::{ProbeError, figures, text};
use nandu_base::{ByteCount, Nanos};
use nandu_device::{DeviceInfo, Operation};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the JSON; readers refuse others.
pub const PROFILE_VERSION: u32 = 1;
/// A size is best once it reaches this share of the highest throughput.
const BEST_SHARE: f64 = 0.95;
/// A misaligned write this close to the aligned one counts as undisturbed.
const UNDISTURBED_SHARE: f64 = 0.9;

/// The measured speed of one operation, access, size and depth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfilePoint {
    /// Read or write.
    pub operation: Operation,
    /// Sequential or random.
    pub access: Access,
    /// Size of a request.
    #[serde(deserialize_with = "figures::request_bytes")]
    pub request_bytes: u64,
    /// Requests in flight.
    #[serde(deserialize_with = "figures::queue_depth")]
    pub queue_depth: u32,
    /// Bytes moved in a second of elapsed time.
    #[serde(deserialize_with = "figures::bytes_per_second")]
    pub bytes_per_second: f64,
    /// Requests per second.
    #[serde(deserialize_with = "figures::iops")]
    pub iops: f64,
    /// Elapsed time over requests, in ns.
    #[serde(deserialize_with = "figures::time_per_request_ns")]
    pub time_per_request_ns: f64,
    /// Mean latency in ns.
    pub latency_mean_ns: f64,
    /// Median latency in ns.
    pub latency_p50_ns: f64,
    /// 99th percentile of latency in ns.
    pub latency_p99_ns: f64,
}

/// A fitted line for one operation and access at queue depth 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredModel")]
pub struct ProfileModel {
    /// Read or write.
    pub operation: Operation,
    /// Sequential or random.
    pub access: Access,
    /// The time of a request in nanoseconds, as a line over its bytes.
    pub line: LinearModel,
    /// Whether the line describes what was measured, [`LinearModel::fits`]. A line that does not is no
    /// model of the device, and tables do not show it.
    fits: bool,
}

/// As it is stored; profiles that were made earlier do not say whether a line fits.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredModel {
    operation: Operation,
    access: Access,
    line: LinearModel,
    #[serde(default, rename = "fits")]
    _fits: bool,
}

impl ProfileModel {
    /// What a line is to a device.
    #[must_use]
    pub fn new(operation: Operation, access: Access, line: LinearModel) -> Self {
        Self { operation, access, line, fits: line.fits() }
    }
}

impl From<StoredModel> for ProfileModel {
    fn from(StoredModel { operation, access, line, .. }: StoredModel) -> Self {
        Self::new(operation, access, line)
    }
}

/// Random over sequential at one size and queue depth 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomPenalty {
    /// Read or write.
    pub operation: Operation,
    /// Size of a request.
    pub request_bytes: u64,
    /// Sequential throughput over random throughput; above 1 random is slower.
    pub ratio: f64,
}

/// Throughput of misaligned over that of aligned random writes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MisalignmentRatio {
    /// Size of a request.
    pub request_bytes: u64,
    /// How far it was moved.
    pub offset_bytes: u64,
    /// Below 1 where misalignment costs.
    pub ratio: f64,
}

/// What past random writes do to sequential ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryEffect {
    /// How long the random writes lasted.
    pub burst: Nanos,
    /// Throughput of the first sequential phase after the burst over that before it.
    pub first_phase_ratio: f64,
    /// Until 60 % of the median of the phases was reached.
    pub recovery_time: Nanos,
}

/// Everything known about a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceProfile {
    /// The version of the format, [`PROFILE_VERSION`] for what this code writes.
    pub version: u32,
    /// The device's name.
    pub device: String,
    /// Its capacity in bytes.
    pub capacity_bytes: u64,
    /// Its sector in bytes.
    pub sector_bytes: u32,
    /// Whether flushes matter.
    pub volatile_cache: bool,
    /// The measured speed at each operation, access, request size and depth.
    pub points: Vec<ProfilePoint>,
    /// Fitted lines, where two sizes or more were measured at depth 1.
    pub models: Vec<ProfileModel>,
    /// Random over sequential.
    pub penalties: Vec<RandomPenalty>,
    /// The smallest size that reads at 95 % of the best sequential throughput, at depth 1.
    pub best_read_bytes: Option<u64>,
    /// Likewise for writes.
    pub best_write_bytes: Option<u64>,
    /// Misaligned over aligned writes.
    pub misalignment: Vec<MisalignmentRatio>,
    /// The smallest measured offset that does not slow random writes down at any size.
    pub alignment_unit_bytes: Option<u64>,
    /// Sequential writes after random ones.
    pub history: Vec<HistoryEffect>,
    /// Streams side by side and batches; absent where they were not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<StreamProfile>,
}

/// Order of points, by operation, access, size and depth.
type PointKey = (Operation, Access, u64, u32);

/// Derives a profile from results of any patterns on one device. Where a point was measured more
/// than once the median counts. Patterns of other devices are left out.
///
/// # Errors
/// [`ProbeError::Insufficient`] where no result is a pure read or write of this device.
pub fn derive(
    info: &DeviceInfo,
    results: &[PatternResult],
    bursts: &[BurstResult],
) -> Result<DeviceProfile, ProbeError> {
    let own = || results.iter().filter(|result| result.device == info.name);
    let mut groups: BTreeMap<PointKey, Vec<ProfilePoint>> = BTreeMap::new();
    for point in own().filter_map(point_of) {
        groups.entry(key_of(&point)).or_default().push(point);
    }
    let points: Vec<ProfilePoint> =
        groups.into_values().map(|group| median_point(&group)).collect();
    if points.is_empty() {
        let message = format!(
            "no profile of {}: none of its results is a pure read or write without offset",
            info.name
        );
        return Err(ProbeError::Insufficient { message });
    }
    let misalignment = misalignment_ratios(results);
    let history = bursts.iter().map(|burst| HistoryEffect {
        burst: burst.options.burst,
        first_phase_ratio: burst.first_phase_ratio,
        recovery_time: burst.recovery_time,
    });
    let profile = DeviceProfile {
        version: PROFILE_VERSION,
        device: info.name.clone(),
        capacity_bytes: info.geometry.capacity().0,
        sector_bytes: info.geometry.sector_bytes,
        volatile_cache: info.volatile_cache,
        models: models_of(&points),
        penalties: penalties_of(&points),
        best_read_bytes: best_size(&points, Operation::Read),
        best_write_bytes: best_size(&points, Operation::Write),
        alignment_unit_bytes: alignment_unit(&misalignment),
        misalignment,
        history: history.collect(),
        streams: None,
        points,
    };
    profile.audit();
    Ok(profile)
}

fn key_of(point: &ProfilePoint) -> PointKey {
    (point.operation, point.access, point.request_bytes, point.queue_depth)
}

fn operation_of(result: &PatternResult) -> Option<Operation> {
    match result.pattern.read_percent {
        100 => Some(Operation::Read),
        0 => Some(Operation::Write),
        _ => None,
    }
}

/// Whether the pattern says something about the device rather than about itself.
fn is_plain(result: &PatternResult) -> bool {
    let pattern = &result.pattern;
    pattern.think_ns == Nanos::ZERO
        && pattern.flush_every == 0
        && pattern.distribution.is_none()
        && result.medians.bytes_per_second > 0.0
}

fn point_of(result: &PatternResult) -> Option<ProfilePoint> {
    let (pattern, medians) = (&result.pattern, &result.medians);
    let operation = operation_of(result)?;
    let plain = is_plain(result) && pattern.alignment_offset_bytes == ByteCount::ZERO;
    plain.then_some(ProfilePoint {
        operation,
        access: pattern.access,
        request_bytes: pattern.request_bytes.0,
        queue_depth: pattern.queue_depth,
        bytes_per_second: medians.bytes_per_second,
        iops: medians.iops,
        time_per_request_ns: medians.time_per_request_ns,
        latency_mean_ns: medians.latency_mean_ns,
        latency_p50_ns: medians.latency_p50_ns,
        latency_p99_ns: medians.latency_p99_ns,
    })
}

fn median_point(group: &[ProfilePoint]) -> ProfilePoint {
    let over = |figure: &dyn Fn(&ProfilePoint) -> f64| median(group.iter().map(figure).collect());
    ProfilePoint {
        bytes_per_second: over(&|point| point.bytes_per_second),
        iops: over(&|point| point.iops),
        time_per_request_ns: over(&|point| point.time_per_request_ns),
        latency_mean_ns: over(&|point| point.latency_mean_ns),
        latency_p50_ns: over(&|point| point.latency_p50_ns),
        latency_p99_ns: over(&|point| point.latency_p99_ns),
        ..group[0]
    }
}

const CLASSES: [(Operation, Access); 4] = [
    (Operation::Read, Access::Sequential),
    (Operation::Read, Access::Random),
    (Operation::Write, Access::Sequential),
    (Operation::Write, Access::Random),
];

fn class_at_depth_one(
    points: &[ProfilePoint],
    operation: Operation,
    access: Access,
) -> impl Iterator<Item = &ProfilePoint> {
    points.iter().filter(move |point| {
        (point.operation, point.access, point.queue_depth) == (operation, access, 1)
    })
}

fn models_of(points: &[ProfilePoint]) -> Vec<ProfileModel> {
    let model = |(operation, access)| {
        let times: Vec<(u64, f64)> = class_at_depth_one(points, operation, access)
            .map(|point| (point.request_bytes, point.time_per_request_ns))
            .collect();
        fit_linear(&times).map(|line| ProfileModel::new(operation, access, line))
    };
    CLASSES.into_iter().filter_map(model).collect()
}

fn penalties_of(points: &[ProfilePoint]) -> Vec<RandomPenalty> {
    let mut penalties = Vec::new();
    for operation in [Operation::Read, Operation::Write] {
        for sequential in class_at_depth_one(points, operation, Access::Sequential) {
            let request_bytes = sequential.request_bytes;
            penalties.extend(
                class_at_depth_one(points, operation, Access::Random)
                    .find(|random| random.request_bytes == request_bytes)
                    .map(|random| RandomPenalty {
                        operation,
                        request_bytes,
                        ratio: sequential.bytes_per_second / random.bytes_per_second,
                    }),
            );
        }
    }
    penalties
}

fn best_size(points: &[ProfilePoint], operation: Operation) -> Option<u64> {
    let class = || class_at_depth_one(points, operation, Access::Sequential);
    let best = class().map(|point| point.bytes_per_second).fold(0.0, f64::max);
    class().find(|point| point.bytes_per_second >= BEST_SHARE * best).map(|p| p.request_bytes)
}

/// Misaligned over aligned random writes, for every size and depth that was measured both ways.
#[must_use]
pub fn misalignment_ratios(results: &[PatternResult]) -> Vec<MisalignmentRatio> {
    let plain_writes = || {
        results.iter().filter(|result| {
            is_plain(result)
                && operation_of(result) == Some(Operation::Write)
                && result.pattern.access == Access::Random
        })
    };
    let mut ratios = Vec::new();
    for moved in plain_writes().filter(|r| r.pattern.alignment_offset_bytes > ByteCount::ZERO) {
        let twin = plain_writes().find(|aligned| {
            aligned.device == moved.device
                && aligned.pattern.alignment_offset_bytes == ByteCount::ZERO
                && aligned.pattern.request_bytes == moved.pattern.request_bytes
                && aligned.pattern.queue_depth == moved.pattern.queue_depth
        });
        ratios.extend(twin.map(|aligned| MisalignmentRatio {
            request_bytes: moved.pattern.request_bytes.0,
            offset_bytes: moved.pattern.alignment_offset_bytes.0,
            ratio: moved.medians.bytes_per_second / aligned.medians.bytes_per_second,
        }));
    }
    ratios
}

fn alignment_unit(ratios: &[MisalignmentRatio]) -> Option<u64> {
    let mut worst: BTreeMap<u64, f64> = BTreeMap::new();
    for ratio in ratios {
        let entry = worst.entry(ratio.offset_bytes).or_insert(f64::INFINITY);
        *entry = entry.min(ratio.ratio);
    }
    worst.into_iter().find(|(_, ratio)| *ratio >= UNDISTURBED_SHARE).map(|(offset, _)| offset)
}

impl DeviceProfile {
    /// Whether anything was found that a profile tells beside what the device says of itself.
    #[must_use]
    pub fn has_findings(&self) -> bool {
        let sizes = [self.best_read_bytes, self.best_write_bytes, self.alignment_unit_bytes];
        sizes.iter().any(Option::is_some) || !self.penalties.is_empty() || !self.history.is_empty()
    }

    /// Reads a profile; `file` is named in errors.
    ///
    /// # Errors
    /// [`ProbeError::Parse`] where the JSON is not a profile of this version.
    pub fn from_json(file: &str, json: &str) -> Result<Self, ProbeError> {
        /// The version alone, so that a later format is named as such.
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let Versioned { version } = text::parse_json(file, json)?;
        if version != PROFILE_VERSION {
            let message = format!(
                "the profile has version {version}, this program reads {PROFILE_VERSION}; \
                 measure the device again"
            );
            return Err(ProbeError::Parse { file: file.into(), line: 1, message });
        }
        text::parse_json(file, json)
    }

    /// The profile as JSON, indented, with a final newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json =
            serde_json::to_string_pretty(self).expect("a profile holds nothing JSON cannot");
        json.push('\n');
        json
    }

    /// Asserts invariant 1.
    ///
    /// # Panics
    /// If the points are not in order.
    pub fn audit(&self) {
        let ordered = self.points.windows(2).all(|pair| key_of(&pair[0]) < key_of(&pair[1]));
        assert!(ordered, "invariant 1: points are in order, without duplicates");
    }

    /// The fitted line of an operation and access.
    #[must_use]
    pub fn model(&self, operation: Operation, access: Access) -> Option<&LinearModel> {
        self.models
            .iter()
            .find(|model| (model.operation, model.access) == (operation, access))
            .map(|model| &model.line)
    }

    /// The time in ns that a request of `bytes` takes at queue depth 1, by the fitted line. `None`
    /// where that was not measured at two sizes or more.
    #[must_use]
    pub fn time_ns(&self, operation: Operation, access: Access, bytes: u64) -> Option<f64> {
        self.model(operation, access).map(|line| line.time_ns(bytes))
    }

    /// How many times faster requests of `bytes` complete with `queue_depth` in flight than one at
    /// a time, from the nearest measured size and the largest measured depth up to `queue_depth`;
    /// 1 where nothing was measured.
    #[must_use]
    pub fn parallelism(
        &self,
        operation: Operation,
        access: Access,
        bytes: u64,
        queue_depth: u32,
    ) -> f64 {
        let class = || {
            self.points
                .iter()
                .filter(|point| (point.operation, point.access) == (operation, access))
        };
        let distance = |size: u64| (size.max(1) as f64 / bytes.max(1) as f64).ln().abs();
        let nearest = class()
            .map(|point| point.request_bytes)
            .min_by(|left, right| distance(*left).total_cmp(&distance(*right)));
        let at_depths = || class().filter(|point| Some(point.request_bytes) == nearest);
        let single = at_depths().find(|point| point.queue_depth == 1);
        let deep = at_depths().rfind(|point| point.queue_depth <= queue_depth);
        match (single, deep) {
            (Some(single), Some(deep)) => deep.iops / single.iops,
            _ => 1.0,
        }
    }

    /// The throughput at a measured point.
    #[must_use]
    pub fn bytes_per_second(
        &self,
        operation: Operation,
        access: Access,
        request_bytes: u64,
        queue_depth: u32,
    ) -> Option<f64> {
        let key = (operation, access, request_bytes, queue_depth);
        self.points.iter().find(|point| key_of(point) == key).map(|point| point.bytes_per_second)
    }
}
