//! What experiments beyond memory lie on: drives of their own, all on one clock.
//!
//! 1. Flash was written full before it gets its volume.
//! 2. A drive that is used twice in one name's place is opened twice, with seeds of their own.
//! 3. The processor takes no time.

use super::bench::Bench;
use super::drive::{DriveVariant, Drives};
use super::site::{cancelled, fill};
use crate::error::LabError;
use nandu_base::{ByteCount, Rng};
use nandu_device::{Device, Geometry, MemoryConfig, MemoryDevice, MeteredDevice, OneClock};
use nandu_drives::profile::SimOptions;
use nandu_external::{ExternalError, Io, on_one_clock};
use nandu_storage::Volume;
use nandu_storage::volume::DeviceVolume;
#[cfg(test)]
use std::collections::BTreeMap;

/// Checks that there are drives, and that each can be scaled to `capacity`.
pub(super) fn check_drives(drives: &Drives, capacity: ByteCount) -> Result<(), String> {
    if drives.is_empty() {
        return Err("`drives` is empty; name at least one".into());
    }
    for (name, variant) in drives {
        let whole = variant.profile(name)?.geometry.capacity();
        if capacity > whole || capacity < ByteCount::mib(16) {
            return Err(format!("`capacity` is {capacity}; `{name}` has 16 MiB to {whole}"));
        }
    }
    Ok(())
}

/// Whether a stream can have blocks of this size: a power of two, from 512 to 16 MiB.
pub(super) fn is_block(size: &ByteCount) -> bool {
    (512..=1 << 24).contains(&size.0) && size.0.is_power_of_two()
}

/// Checks that sizes of blocks rise, and that a stream can have each.
pub(super) fn check_rising_blocks(sizes: &[ByteCount]) -> Result<(), String> {
    let rises = sizes.is_sorted_by(|left, right| left < right);
    if sizes.is_empty() || !rises || !sizes.iter().all(is_block) {
        return Err("`block_bytes` must rise, powers of two from 512 to 16 MiB".into());
    }
    Ok(())
}

/// How drives are opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// What those are scaled to that are written full before.
    pub(super) flash: ByteCount,
    /// What the others are scaled to; `None` for whole ones.
    pub(super) disk: Option<ByteCount>,
    /// Whether what is written can be read.
    pub(super) keeps_data: bool,
}

/// Fresh drives of `capacity`, each with a volume, on one clock.
pub(super) fn volumes(
    bench: &mut Bench<'_>,
    step: &str,
    drives: &[(&str, &DriveVariant)],
    capacity: ByteCount,
) -> Result<Vec<Io>, LabError> {
    let scale = Scale { flash: capacity, disk: Some(capacity), keeps_data: true };
    volumes_of(bench, step, drives, scale)
}

/// Fresh drives, each with a volume, on one clock.
pub(super) fn volumes_of(
    bench: &mut Bench<'_>,
    step: &str,
    drives: &[(&str, &DriveVariant)],
    scale: Scale,
) -> Result<Vec<Io>, LabError> {
    let mut seeds = Rng::for_part(bench.seed, step);
    let clock = OneClock::default();
    let mut volumes: Vec<Box<dyn Volume>> = Vec::new();
    for (name, variant) in drives {
        let failed = |why: String| LabError::step(step, &why);
        let profile = variant.profile(name).map_err(failed)?;
        let is_filled = profile.needs_filling().map_err(|error| LabError::step(step, &error))?;
        let capacity = if is_filled { Some(scale.flash) } else { scale.disk };
        let options = SimOptions { capacity, seed: seeds.next_u64(), keep_data: scale.keeps_data };
        let device = profile.open(options).map_err(|error| LabError::step(step, &error))?;
        let log = bench.power.clone();
        let mut device: Box<dyn Device + Send> =
            Box::new(MeteredDevice::tallied_beside(device, log, clock.clone()));
        if is_filled {
            fill(device.as_mut(), step, bench.observer)?;
        }
        let volume = DeviceVolume::format(device).map_err(|error| LabError::step(step, &error))?;
        volumes.push(Box::new(volume));
    }
    Ok(on_one_clock(volumes))
}

/// A device that gets a volume.
pub(super) fn on_device(step: &str, device: Box<dyn Device + Send>) -> Result<Io, LabError> {
    let volume = DeviceVolume::format(device).map_err(|error| LabError::step(step, &error))?;
    Ok(on_one_clock(vec![Box::new(volume)]).swap_remove(0))
}

/// A volume in memory, for what is counted only.
pub(super) fn memory(capacity: ByteCount) -> Result<Io, ExternalError> {
    let geometry = Geometry { sector_bytes: 512, sector_count: capacity.0 / 512 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let volume = DeviceVolume::format(Box::new(device))?;
    Ok(on_one_clock(vec![Box::new(volume)]).swap_remove(0))
}

/// What went wrong in a step, or that the run was to stop.
pub(super) fn outcome_of<T>(step: &str, result: Result<T, ExternalError>) -> Result<T, LabError> {
    result.map_err(|error| match error {
        ExternalError::Cancelled => cancelled(),
        error => LabError::step(step, &error),
    })
}

/// What a step of a kind in a test gives: the value of each series at a place.
#[cfg(test)]
pub(super) fn values_of(
    kind: &dyn super::Measurement,
    step: usize,
    at: f64,
) -> BTreeMap<String, f64> {
    let mut bench = Bench {
        seed: 1,
        local: None,
        local_subject: None,
        observer: &mut crate::run::Unwatched,
        notes: Vec::new(),
        power: nandu_device::PowerLog::default(),
    };
    assert_eq!(kind.check(), Ok(()));
    let series = kind.run_step(step, &mut bench).expect("the step is sound");
    let names = kind.series_names();
    assert!(series.iter().all(|series| names.contains(&series.name)), "{names:?}");
    series.iter().filter_map(|series| Some((series.name.clone(), series.at(at)?))).collect()
}

/// Drives as they are, by these names.
#[cfg(test)]
pub(super) fn plain_drives(names: &[&str]) -> Drives {
    let plain = |name: &&str| {
        let variant = DriveVariant { base: format!("sim:{name}"), set: toml::Table::new() };
        ((*name).to_owned(), variant)
    };
    names.iter().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Unwatched;
    use nandu_device::PowerLog;

    #[test]
    fn drives_on_one_clock_tell_what_they_use_together() {
        let variant = DriveVariant { base: "sim:wd800aajs".into(), set: toml::Table::new() };
        let mut bench = Bench {
            seed: 1,
            local: None,
            local_subject: None,
            observer: &mut Unwatched,
            notes: Vec::new(),
            power: PowerLog::default(),
        };
        let drives = [("one", &variant), ("other", &variant)];
        let volumes = volumes(&mut bench, "a step", &drives, ByteCount::mib(64)).unwrap();
        assert_eq!(bench.power.of_gone(), None, "they are at work");
        drop(volumes);
        let report = bench.power.of_gone().unwrap();
        // Each idles with 7.5 W all the time, and draws 12.5 at most.
        let watts = report.mean_watts.unwrap();
        assert!(report.seconds > 0.0 && (15.0..25.0).contains(&watts), "{report:?}");
        let course = report.watts_over_time.unwrap();
        assert!(course.watts.iter().all(|watts| (14.9..25.0).contains(watts)), "{course:?}");
        assert_eq!(bench.power.uses().len(), 1, "both have one name");
    }
}
