//! What the device costs: from a profile that was measured, or assumed.

use crate::failure::Failure;
use crate::output::read_file;
use nandu_device::Operation;
use nandu_lab::drive_costs::measured_streams;
use nandu_probe::pattern::Access;
use nandu_probe::profile::DeviceProfile;
use nandu_query::QueryError;
use nandu_query::cost::{DeviceCosts, MeasuredTime, Pattern};
use std::path::Path;

/// The device that is assumed without a profile: a plain NVMe drive of the 2020s, not a measured one.
const ASSUMED_LATENCY_NS: u64 = 80_000;
const ASSUMED_READ_BYTES_PER_SECOND: u64 = 1_500_000_000;
const ASSUMED_WRITE_BYTES_PER_SECOND: u64 = 800_000_000;

/// The device, and what it is called.
pub(in crate::command) fn device(profile: Option<&Path>) -> Result<(DeviceCosts, String), Failure> {
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
