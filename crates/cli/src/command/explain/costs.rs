//! What device and processor cost: from files that were measured, or assumed.

use crate::failure::Failure;
use crate::json;
use crate::output::{OutputFiles, read_file};
use crate::stopwatch::Stopwatch;
use nandu_base::Nanos;
use nandu_device::Operation;
use nandu_lab::drive_costs::measured_streams;
use nandu_probe::pattern::Access;
use nandu_probe::profile::DeviceProfile;
use nandu_query::QueryError;
use nandu_query::cost::{CpuCosts, DeviceCosts, MeasuredTime, Pattern, measure_processor};
use std::path::Path;
use std::sync::Arc;

/// The device that is assumed without a profile: a plain NVMe drive of the 2020s, not a measured one.
const ASSUMED_LATENCY_NS: u64 = 80_000;
const ASSUMED_READ_BYTES_PER_SECOND: u64 = 1_500_000_000;
const ASSUMED_WRITE_BYTES_PER_SECOND: u64 = 800_000_000;

/// The processor: measured now, as it was measured earlier, or modelled.
pub(super) fn processor(
    file: Option<&Path>,
    is_measured: bool,
    files: OutputFiles,
) -> Result<CpuCosts, Failure> {
    if is_measured {
        if let Some(path) = file {
            files.check(path)?;
        }
        let stopwatch = Stopwatch::start();
        let costs = measure_processor(Arc::new(move || Nanos(stopwatch.nanos())))?;
        if let Some(path) = file {
            files.write(path, format!("{}\n", json::plain(&costs)).as_bytes())?;
        }
        return Ok(costs);
    }
    let Some(path) = file else { return Ok(CpuCosts::MODELLED) };
    serde_json::from_str(&read_file(path)?).map_err(|error| {
        let path = path.display();
        Failure::input(format!("{path}: {error}; write it anew with --calibrate"))
    })
}

/// The device, and what it is called.
pub(super) fn device(profile: Option<&Path>) -> Result<(DeviceCosts, String), Failure> {
    let Some(path) = profile else {
        let costs = DeviceCosts::from_rates(
            0,
            ASSUMED_LATENCY_NS,
            ASSUMED_READ_BYTES_PER_SECOND,
            ASSUMED_WRITE_BYTES_PER_SECOND,
        );
        return Ok((costs, "an assumed NVMe drive; give --profile for yours".to_owned()));
    };
    let place = path.display().to_string();
    let profile = DeviceProfile::from_json(&place, &read_file(path)?)?;
    let points: Vec<MeasuredTime> = profile
        .points
        .iter()
        .map(|point| MeasuredTime {
            is_write: point.operation == Operation::Write,
            pattern: match point.access {
                Access::Sequential => Pattern::Sequential,
                Access::Random => Pattern::Random,
            },
            request_bytes: point.request_bytes,
            queue_depth: u64::from(point.queue_depth),
            time_ns: whole(point.time_per_request_ns),
        })
        .collect();
    let refused = |error: QueryError| Failure::input(format!("{place}: {error}; probe it again"));
    let mut costs = DeviceCosts::from_measured(&points).map_err(refused)?;
    if let Some(streams) = &profile.streams {
        let points = measured_streams(&streams.points);
        costs = costs.with_streams(&points, streams.sync_ns.unwrap_or(0)).map_err(refused)?;
    }
    Ok((costs, profile.device))
}

/// Nanoseconds without their fraction.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time is positive and far below the end of the range"
)]
const fn whole(nanos: f64) -> u64 {
    nanos as u64
}
