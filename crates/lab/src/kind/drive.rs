//! Simulated drives of an experiment's own: a profile, and what differs from it.
//!
//! ```text
//!   [measure.drives.paged-stick]
//!   base = "sim:toshiba-transmemory-1g"
//!   set = { ssd = { over_provisioning_ppm = 50000, ftl = { kind = "page" } } }
//! ```
//!
//! 1. Tables are merged key by key, but one that names a `kind` replaces the other as a whole.
//! 2. A drive is opened afresh for every step, with a seed of the step's own.

use super::bench::Bench;
use crate::error::LabError;
use crate::outcome::Series;
use crate::run::RunObserver;
use nandu_base::{ByteCount, Rng};
use nandu_device::{Device, MeteredDevice, TimeSource};
use nandu_drives::profile::{Profile, SimOptions};
use nandu_probe::{Access, Limit, Pattern, Preparation, ProbeError, prepare, run_pattern};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A simulated drive: a profile, and keys of it with other values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveVariant {
    /// The drive that is changed, as `sim:NAME`.
    pub base: String,
    /// Keys of the profile with other values.
    #[serde(default)]
    pub set: toml::Table,
}

/// Drives by the name that they have in series.
pub type Drives = BTreeMap<String, DriveVariant>;

impl DriveVariant {
    /// The profile with what differs in place.
    ///
    /// # Errors
    /// Says which profile is missing or which key is wrong.
    pub fn profile(&self, name: &str) -> Result<Profile, String> {
        let stem = self.base.strip_prefix("sim:").ok_or_else(|| {
            format!("`base` of drive `{name}` is `{}`; write sim:NAME", self.base)
        })?;
        let base = Profile::load(stem).map_err(|error| error.to_string())?;
        if self.set.is_empty() {
            return Ok(base);
        }
        let mut table: toml::Table = base.text.parse().expect("a loaded profile is TOML");
        merge(&mut table, &self.set);
        // What was fitted is the other drive, and may not even be a figure of this one.
        table.remove("fitted");
        let text = toml::to_string(&table).map_err(|error| format!("drive `{name}`: {error}"))?;
        let origin = format!("drive `{name}`, which is {} with other values", self.base);
        Profile::parse(name, &origin, &text).map_err(|error| error.to_string())
    }
}

/// Merges `from` into `into` as invariant 1 says.
pub(crate) fn merge(into: &mut toml::Table, from: &toml::Table) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new))
                if !new.contains_key("kind") =>
            {
                merge(old, new);
            }
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Checks that there are drives, that each is one, and that each is flash of `capacity` at least.
pub(crate) fn check_drives(drives: &Drives, capacity: ByteCount) -> Result<(), String> {
    if drives.is_empty() {
        return Err("`drives` is empty; name at least one".into());
    }
    for (name, variant) in drives {
        let profile = variant.profile(name)?;
        if !profile.counts_flash() {
            return Err(format!("`{}` of drive `{name}` is no flash drive", variant.base));
        }
        let whole = profile.geometry.capacity();
        if capacity > whole || capacity < ByteCount::mib(4) {
            return Err(format!("`capacity` is {capacity}; `{name}` has 4 MiB to {whole}"));
        }
    }
    Ok(())
}

/// Names of all series, those of each drive given by `series_of`.
pub(crate) fn series_names<I: IntoIterator<Item = Series>>(
    drives: &Drives,
    series_of: impl Fn(&str) -> I,
) -> Vec<String> {
    drives.keys().flat_map(|name| series_of(name)).map(|series| series.name).collect()
}

/// The targets behind `drives`, whose profiles decide the results.
pub(crate) fn targets(drives: &Drives) -> Vec<String> {
    drives.values().map(|variant| variant.base.clone()).collect()
}

/// Runs `work` on a fresh drive of `capacity`.
pub(crate) fn on_drive<T>(
    bench: &mut Bench<'_>,
    step: &str,
    (name, variant): (&str, &DriveVariant),
    capacity: ByteCount,
    work: impl FnOnce(&mut Subject<'_>) -> Result<T, ProbeError>,
) -> Result<T, LabError> {
    let seed = Rng::for_part(bench.seed, step).next_u64();
    let profile = variant.profile(name).map_err(|error| LabError::step(step, &error))?;
    let options = SimOptions { capacity: Some(capacity), seed, keep_data: false };
    let device = profile.open(options).map_err(|error| LabError::step(step, &error))?;
    let mut device = MeteredDevice::tallied(device, bench.power.clone());
    assert_eq!(device.info().time_source, TimeSource::Virtual, "simulated drives only");
    let mut subject = Subject { device: &mut device, observer: bench.observer, seed };
    match work(&mut subject) {
        Ok(value) => Ok(value),
        Err(ProbeError::Cancelled) => Err(LabError::Cancelled { finished_count: 0, step_count: 0 }),
        Err(error) => Err(LabError::step(step, &error)),
    }
}

/// A drive under test, who watches, and the seed of the step.
pub(crate) struct Subject<'a> {
    pub(crate) device: &'a mut dyn Device,
    pub(crate) observer: &'a mut dyn RunObserver,
    pub(crate) seed: u64,
}

impl Subject<'_> {
    /// Writes the whole drive in order.
    pub(crate) fn fill(&mut self) -> Result<(), ProbeError> {
        let fill = Preparation::fill_of(nandu_probe::Area::default());
        prepare(self.device, &fill, &mut *self.observer).map(drop)
    }

    /// A pattern over the whole drive, one request at a time.
    pub(crate) fn pattern(
        &self,
        (access, read_percent): (Access, u8),
        request_bytes: u64,
        limit: Limit,
    ) -> Pattern {
        let mut pattern = Pattern::new(access, read_percent, request_bytes, limit);
        pattern.seed = self.seed;
        pattern
    }

    /// The throughput of `pattern`, in MB/s.
    pub(crate) fn mb_per_s(&mut self, pattern: &Pattern) -> Result<f64, ProbeError> {
        let result = run_pattern(self.device, pattern, &mut *self.observer)?;
        Ok(result.medians.bytes_per_second / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(text: &str) -> DriveVariant {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn what_differs_is_merged_and_a_table_with_a_kind_replaced() {
        let same = variant("base = 'sim:toshiba-transmemory-1g'").profile("stick").unwrap();
        let other = variant(
            "base = 'sim:toshiba-transmemory-1g'\n\
             set = { ssd = { channel_count = 2, ftl = { kind = 'page' } } }",
        )
        .profile("stick")
        .unwrap();
        assert_eq!(same.geometry, other.geometry);
        let nandu_drives::profile::DriveConfig::Ssd(ssd) = other.drive else {
            panic!("flash stays flash")
        };
        assert_eq!((ssd.channel_count, ssd.dies_per_channel), (2, 1));
        assert_eq!(ssd.ftl.kind(), nandu_ftl::FtlKind::Page, "no key of chunks is left");
        assert!(!same.fitted.is_empty());
        assert!(other.fitted.is_empty(), "nothing was fitted to this drive");
    }

    #[test]
    fn wrong_drives_are_refused_by_name() {
        let wrong = |text: &str| {
            let drives = Drives::from([("stick".into(), variant(text))]);
            check_drives(&drives, ByteCount::mib(64)).unwrap_err()
        };
        assert!(wrong("base = 'hama'").contains("sim:NAME"));
        assert!(wrong("base = 'sim:hamma'").contains("hama"));
        assert!(wrong("base = 'sim:wd2000jb'").contains("no flash drive"));
        let error = wrong("base = 'sim:hama'\nset = { ssd = { chanel_count = 1 } }");
        assert!(error.contains("drive `stick`") && error.contains("chanel_count"), "{error}");
        assert!(check_drives(&Drives::new(), ByteCount::mib(64)).is_err());
    }
}
