//! Writes to a device until it fails or a goal is reached: for simulated drives, whose wear is free.
//!
//! S002 appendix A wears devices out with sequential writes of the whole address space, 1000 at a
//! time, and measures in between; here every pass is itself measured. A real device must be forced.

use crate::ProbeError;
use crate::pattern::{Access, Area, DataKind, Limit, Pattern};
use crate::runner::{Observer, run_pattern};
use nandu_base::{ByteCount, Nanos};
use nandu_device::{Device, DeviceError, TimeSource};
use serde::{Deserialize, Serialize};

/// How to wear a device out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EnduranceOptions {
    /// Sequential or random writes.
    pub access: Access,
    /// Size of a write.
    #[serde(deserialize_with = "crate::text::size")]
    pub request_bytes: ByteCount,
    /// Requests in flight.
    pub queue_depth: u32,
    /// How often the area is written in all.
    pub area_write_count: u32,
    /// Which part of the device.
    pub area: Area,
    /// Also on devices that live in real time. This uses up their flash.
    pub force: bool,
    /// Seed of the addresses.
    pub seed: u64,
}

impl Default for EnduranceOptions {
    fn default() -> Self {
        Self {
            access: Access::Sequential,
            request_bytes: ByteCount::mib(1),
            queue_depth: 1,
            area_write_count: 100,
            area: Area::default(),
            force: false,
            seed: 0,
        }
    }
}

/// One pass over the area.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndurancePoint {
    /// Bytes written since the start, this pass included.
    pub written_bytes: u64,
    /// Throughput of this pass.
    pub bytes_per_second: f64,
    /// 99th percentile of its latency, in ns.
    pub latency_p99_ns: u64,
    /// Most erases of an erase block so far, where the device tells.
    pub erase_count_max: Option<u64>,
}

/// What wear did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnduranceResult {
    /// What was done.
    pub options: EnduranceOptions,
    /// Pass by pass; the pass in which the device failed is not among them.
    pub points: Vec<EndurancePoint>,
    /// The error that ended it, or `None` where every pass succeeded.
    pub failure: Option<String>,
    /// The device's time over all passes.
    pub elapsed: Nanos,
}

/// Writes the area again and again.
///
/// # Errors
/// [`ProbeError::Refused`] on a real device unless forced; otherwise where the pattern does not fit
/// or the observer cancels. A device that wears out is a result, not an error.
pub fn run_endurance(
    device: &mut dyn Device,
    options: &EnduranceOptions,
    observer: &mut dyn Observer,
) -> Result<EnduranceResult, ProbeError> {
    if device.info().time_source == TimeSource::Wall && !options.force {
        let message = format!(
            "endurance runs use up the flash of {}; run them on a simulated drive, or force them",
            device.info().name
        );
        return Err(ProbeError::Refused { message });
    }
    let mut pattern = Pattern {
        label: "endurance".into(),
        queue_depth: options.queue_depth,
        area: options.area,
        data: DataKind::Age,
        ..Pattern::new(options.access, 0, options.request_bytes.0, Limit::requests(1))
    };
    pattern.limit = Limit::requests(pattern.slot_count(device.info()).max(1));
    let start = device.now();
    let mut result = EnduranceResult {
        options: options.clone(),
        points: Vec::new(),
        failure: None,
        elapsed: Nanos::ZERO,
    };
    let mut written_bytes = 0;
    for pass in 0..options.area_write_count {
        pattern.seed = options.seed.wrapping_add(u64::from(pass));
        let run = match run_pattern(device, &pattern, observer) {
            Ok(done) => done.runs.into_iter().next().expect("one repetition is one run"),
            Err(error) => {
                if !is_wear(&error) {
                    return Err(error);
                }
                result.failure = Some(error.to_string());
                break;
            }
        };
        written_bytes += run.byte_count;
        result.points.push(EndurancePoint {
            written_bytes,
            bytes_per_second: run.bytes_per_second,
            latency_p99_ns: run.write.p99,
            erase_count_max: device.counters().flash.map(|flash| flash.wear.erase_count_max),
        });
    }
    result.elapsed = device.now().saturating_sub(start);
    Ok(result)
}

/// Whether a device ended as worn-out flash does.
const fn is_wear(error: &ProbeError) -> bool {
    matches!(
        error,
        ProbeError::Device {
            error: DeviceError::ReadOnly | DeviceError::NoSpace | DeviceError::Media { .. },
            ..
        }
    )
}
