//! What a tier of flash did while clients worked: what it found, what it spared the disk, and what its own
//! device was asked for that.

use crate::clients::FlashOutcome;
use nandu_device::Counters;
use nandu_storage::propagation::TierCounters;
use serde::Serialize;

/// A tier of flash between the pool and the pages' places, and its device.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TierDeviceOutcome {
    /// Pages that the pool read.
    pub read_count: u64,
    /// Those of them that the tier had.
    pub hit_count: u64,
    /// Their share of the reads; `None` if there were none.
    pub hit_share: Option<f64>,
    /// Pages that the pool wrote.
    pub write_count: u64,
    /// Pages that were written to their places.
    pub disk_write_count: u64,
    /// Share of the pool's writes that their places were spared; `None` if there were none, less than zero
    /// if more were written.
    pub write_reduction: Option<f64>,
    /// Pages that were read from the tier: those that it had, and what it wrote elsewhere.
    pub tier_read_count: u64,
    /// Pages that were written to the tier.
    pub tier_write_count: u64,
    /// Those of them that came behind the one before, or to the first slot behind the last.
    pub sequential_write_count: u64,
    /// Maps of the tier that were written.
    pub map_count: u64,
    /// Bytes that its device was given, maps included.
    pub written_bytes: u64,
    /// How often its device was made to flush.
    pub flush_count: u64,
    /// What its device did to flash; `None` if it has none.
    pub flash: Option<FlashOutcome>,
}

/// What was done so far, by the tier and by its device.
pub(crate) type TierLevel = (TierCounters, Counters);

impl TierDeviceOutcome {
    /// What came between two moments.
    pub(crate) fn between(before: &TierLevel, after: &TierLevel) -> Self {
        let ((done_before, device_before), (done, device)) = (before, after);
        let since = |of: fn(&TierCounters) -> u64| of(done) - of(done_before);
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let (read_count, hit_count) = (since(|it| it.read_count), since(|it| it.hit_count));
        let write_count = since(|it| it.write_count);
        let disk_write_count = since(|it| it.disk_write_count);
        let flash = device_before.flash.as_ref().zip(device.flash.as_ref());
        Self {
            read_count,
            hit_count,
            hit_share: share(hit_count, read_count),
            write_count,
            disk_write_count,
            write_reduction: share(disk_write_count, write_count).map(|written| 1.0 - written),
            tier_read_count: since(|it| it.tier_read_count),
            tier_write_count: since(|it| it.tier_write_count),
            sequential_write_count: since(|it| it.sequential_write_count),
            map_count: since(|it| it.map_count),
            written_bytes: device.writes.byte_count - device_before.writes.byte_count,
            flush_count: device.flushes.request_count - device_before.flushes.request_count,
            flash: flash
                .map(|(before, after)| FlashOutcome::of(&after.commands.since(&before.commands))),
        }
    }
}
