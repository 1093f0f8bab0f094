//! The general flash model (Ajwani, Beckmann, Jacob, Meyer and Moruz, SEA 2009): a request costs what two
//! functions of its bytes say, one for reads and one for writes, wherever it lies.

use super::{CostModel, CostUnit, Trace, invalid};
use crate::ExternalError;
use nandu_base::Nanos;

/// Times of requests by their bytes: lines between points that were measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct General {
    /// Bytes of a read and its time; ascending, one at least.
    pub read_points: Vec<(u32, Nanos)>,
    /// Bytes of a write and its time; ascending, one at least.
    pub write_points: Vec<(u32, Nanos)>,
}

impl CostModel for General {
    fn unit(&self) -> CostUnit {
        CostUnit::Nanoseconds
    }

    fn cost(&self, trace: &Trace) -> Result<u64, ExternalError> {
        for points in [&self.read_points, &self.write_points] {
            let ascends = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
            if points.is_empty() || !ascends || points[0].0 == 0 {
                return invalid("the general flash model needs points of ascending bytes");
            }
        }
        let cost = |access: &super::Access| {
            let points = if access.is_write { &self.write_points } else { &self.read_points };
            time_of(points, access.byte_count)
        };
        Ok(trace.accesses().iter().map(cost).fold(0, u64::saturating_add))
    }
}

/// On the line between the points beside; beyond the last one as the last one goes for each byte, below
/// the first one as the first.
pub(super) fn time_of(points: &[(u32, Nanos)], byte_count: u32) -> u64 {
    let after = points.partition_point(|point| point.0 < byte_count);
    let (first, last) = (points[0], points[points.len() - 1]);
    if after == 0 {
        return first.1.0;
    }
    let share = |total: u64, part: u32, whole: u32| {
        u64::try_from(u128::from(total) * u128::from(part) / u128::from(whole)).unwrap_or(u64::MAX)
    };
    if after == points.len() {
        return share(last.1.0, byte_count, last.0);
    }
    let (low, high) = (points[after - 1], points[after]);
    let (part, whole) = (byte_count - low.0, high.0 - low.0);
    let rise = share(high.1.0.saturating_sub(low.1.0), part, whole);
    let fall = share(low.1.0.saturating_sub(high.1.0), part, whole);
    low.1.0 + rise - fall
}
