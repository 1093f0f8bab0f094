//! What `nandu_probe` measured, as the cost model of `nandu_query` takes it: neither knows the other.

use nandu_probe::{StreamKind, StreamPoint};
use nandu_query::cost;

/// Streams side by side, restarts and batches.
#[must_use]
pub fn measured_streams(points: &[StreamPoint]) -> Vec<cost::MeasuredStream> {
    let measured = |point: &StreamPoint| cost::MeasuredStream {
        kind: match point.kind {
            StreamKind::Read => cost::StreamKind::Read,
            StreamKind::Write => cost::StreamKind::Write,
            StreamKind::Restart => cost::StreamKind::Restart,
            StreamKind::Batch => cost::StreamKind::Batch,
            StreamKind::Back => cost::StreamKind::Back,
            StreamKind::Scan => cost::StreamKind::Scan,
        },
        request_bytes: point.request_bytes,
        count: u64::from(point.count),
        run_length: u64::from(point.run_length),
        area_bytes: point.area_bytes,
        time_ns: point.time_ns,
    };
    points.iter().map(measured).collect()
}
