//! The energy counters of processors (RAPL), as Linux shows them under `/sys/class/powercap`.
//!
//! ```text
//!   intel-rapl:0/    name = package-0   energy_uj   max_energy_range_uj
//!   intel-rapl:0:0/  name = core        a part of the package, not added
//!   intel-rapl:0:1/  name = dram        beside the package
//!   intel-rapl:1/    name = psys        the package and more, not added
//! ```
//!
//! The files may be there and unreadable: since 2020 only root reads them. A meter that cannot be read
//! is none, and says why.
//!
//! 1. Zones are known by their `name`; those that are added do not overlap. One without a name that can be read is
//!    left out, and told by its directory: nobody knows whether it lies within another one.
//! 2. A counter that is lower than before has begun anew after `max_energy_range_uj`.
//! 3. Where so much time passed between two samples that a wrap may have been missed, the energy is not
//!    told. Who looks every [`Rapl::interval`] misses none.
//! 4. Where a counter grew faster than any zone draws, it was reset and did not wrap: no energy is told.
//! 5. It sees processors and memory, no drive.

use nandu_base::{Nanos, Picojoules};
use nandu_device::{EnergyReport, EnergySource, PowerCourse};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Where Linux has them.
pub const ROOT: &str = "/sys/class/powercap";
/// At least so often samples are wanted.
const INTERVAL_MAX: Nanos = Nanos::from_seconds(1);
/// Counters are brought up to date now and then: so much longer than from sample to sample they may have grown.
const UPDATE_MAX: Nanos = Nanos::from_millis(10);
/// No zone draws more: so long a counter lasts at the least.
const WATTS_MAX: u64 = 10_000;

/// Why no joules are told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RaplError {
    /// No package and no memory has a zone.
    NoZone {
        /// Where they would be.
        root: PathBuf,
    },
    /// A zone has a file that cannot be read, or holds no number.
    Unreadable {
        /// Which file.
        file: PathBuf,
        /// The system's words, or ours.
        message: String,
    },
    /// So much time passed between two samples that a counter may have gone around unseen.
    Missed {
        /// How much.
        passed: Nanos,
        /// How much is no trouble.
        lasts: Nanos,
    },
    /// A counter grew faster than any zone draws.
    Reset {
        /// The name of its zone.
        zone: String,
    },
}

impl fmt::Display for RaplError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoZone { root } => {
                write!(formatter, "{} has no zone of RAPL", root.display())
            }
            Self::Unreadable { file, message } => {
                write!(formatter, "{}: {message}; as a rule only root may read it", file.display())
            }
            Self::Missed { passed, lasts } => write!(
                formatter,
                "two samples of RAPL are {passed} apart, and counters may go around in {lasts}"
            ),
            Self::Reset { zone } => write!(
                formatter,
                "the counter of {zone} grew by more than {} kW: it was reset",
                WATTS_MAX / 1000
            ),
        }
    }
}

impl std::error::Error for RaplError {}

/// A zone that is read.
#[derive(Clone, Debug)]
struct Zone {
    name: String,
    energy_file: PathBuf,
    range_uj: u64,
    last_uj: u64,
    used_uj: u64,
}

/// A meter of the processor's packages and memory.
#[derive(Clone, Debug)]
pub struct Rapl {
    zones: Vec<Zone>,
    /// The directories of zones that nobody knows the name of.
    nameless: Vec<String>,
    /// How long it takes the counters to go around, at the least.
    lasts: Nanos,
    begun_at: Nanos,
    last_at: Nanos,
    /// What went wrong first.
    trouble: Option<RaplError>,
    course: PowerCourse,
}

impl Rapl {
    /// Begins to measure `now` what lies in `root`, which is [`ROOT`] on a real machine.
    ///
    /// # Errors
    /// Where there is no zone whose name is known, or one of these cannot be read.
    pub fn begin(root: &Path, now: Nanos) -> Result<Self, RaplError> {
        let none = || RaplError::NoZone { root: root.into() };
        let entries = fs::read_dir(root).map_err(|_| none())?;
        let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        folders.sort();
        let (mut zones, mut nameless) = (Vec::new(), Vec::new());
        let mut unreadable = None;
        for folder in folders {
            let called = folder.file_name().and_then(|name| name.to_str());
            let Some(called) = called.filter(|name| name.starts_with("intel-rapl:")) else {
                continue;
            };
            let name = match text_in(&folder.join("name")) {
                Ok(name) => name,
                Err(error) => {
                    nameless.push(called.to_owned());
                    unreadable.get_or_insert(error);
                    continue;
                }
            };
            if !(name.starts_with("package") || name == "dram") {
                continue;
            }
            let energy_file = folder.join("energy_uj");
            let range_uj = number_in(&folder.join("max_energy_range_uj"))?;
            let last_uj = number_in(&energy_file)?;
            zones.push(Zone { name, energy_file, range_uj, last_uj, used_uj: 0 });
        }
        let shortest = zones.iter().map(|zone| zone.range_uj).min();
        let shortest = shortest.ok_or_else(|| unreadable.unwrap_or_else(none))?;
        // Microjoules over watts are microseconds.
        let lasts = Nanos::from_micros(shortest / WATTS_MAX);
        if lasts == Nanos::ZERO {
            return Err(RaplError::Missed { passed: INTERVAL_MAX, lasts });
        }
        let course = PowerCourse::begin(now, Picojoules::ZERO);
        Ok(Self { zones, nameless, lasts, begun_at: now, last_at: now, trouble: None, course })
    }

    /// What is not in its joules though it may belong there, in words; `None` where nothing is left out.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let (verb, name) = match self.nameless.len() {
            0 => return None,
            1 => ("is", "a name"),
            _ => ("are", "names"),
        };
        let zones = self.nameless.join(", ");
        Some(format!("{zones} {verb} left out: without {name} that can be read"))
    }

    /// How long to wait between samples, at most.
    #[must_use]
    pub fn interval(&self) -> Nanos {
        INTERVAL_MAX.min(Nanos(self.lasts.0 / 2))
    }

    /// Takes a sample, if it is time for one.
    pub fn look(&mut self, now: Nanos) {
        if now.saturating_sub(self.last_at) >= self.interval() {
            self.sample(now);
        }
    }

    /// Takes a sample.
    pub fn sample(&mut self, now: Nanos) {
        let passed = now.saturating_sub(self.last_at);
        self.last_at = now;
        if let Err(trouble) = self.add(passed) {
            self.trouble.get_or_insert(trouble);
            return;
        }
        self.course.read(now, self.total());
    }

    /// Adds what was used in the time that `passed`.
    fn add(&mut self, passed: Nanos) -> Result<(), RaplError> {
        // Watts times microseconds are microjoules.
        let most_uj =
            u128::from(WATTS_MAX) * u128::from(passed.saturating_add(UPDATE_MAX).0) / 1000;
        for zone in &mut self.zones {
            let energy_uj = number_in(&zone.energy_file)?;
            let grown_uj = grown(zone.last_uj, energy_uj, zone.range_uj);
            zone.used_uj = zone.used_uj.saturating_add(grown_uj);
            zone.last_uj = energy_uj;
            if passed <= self.lasts && u128::from(grown_uj) > most_uj {
                return Err(RaplError::Reset { zone: zone.name.clone() });
            }
        }
        if passed > self.lasts {
            return Err(RaplError::Missed { passed, lasts: self.lasts });
        }
        Ok(())
    }

    /// What was used from the beginning to `now`, for `operation_count` operations.
    ///
    /// # Errors
    /// If a sample failed, a counter was reset, or a wrap may have been missed.
    pub fn end(mut self, now: Nanos, operation_count: u64) -> Result<EnergyReport, RaplError> {
        self.sample(now);
        if let Some(trouble) = self.trouble {
            return Err(trouble);
        }
        let mut parts: BTreeMap<String, f64> = BTreeMap::new();
        for zone in &self.zones {
            *parts.entry(zone.name.clone()).or_insert(0.0) += zone.used_uj as f64 / 1e6;
        }
        let time = now.saturating_sub(self.begun_at);
        let mut report = EnergyReport::of_parts(EnergySource::Meter, parts, time, operation_count);
        let total = self.total();
        report.watts_over_time = self.course.watts(now, total);
        Ok(report)
    }

    fn total(&self) -> Picojoules {
        let used_uj = self.zones.iter().fold(0_u64, |sum, zone| sum.saturating_add(zone.used_uj));
        Picojoules(u128::from(used_uj) * 1_000_000)
    }
}

/// How far a counter went that wraps after `range`.
const fn grown(before: u64, now: u64, range: u64) -> u64 {
    if now >= before { now - before } else { now + range.saturating_sub(before) }
}

fn text_in(file: &Path) -> Result<String, RaplError> {
    let unreadable = |message| RaplError::Unreadable { file: file.into(), message };
    let text = fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
    Ok(text.trim().to_owned())
}

fn number_in(file: &Path) -> Result<u64, RaplError> {
    let unreadable =
        |_| RaplError::Unreadable { file: file.into(), message: "it holds no number".into() };
    text_in(file)?.parse().map_err(unreadable)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use tempfile::TempDir;

    const RANGE_UJ: u64 = 262_143_328_850;

    /// A zone as the kernel shows it.
    fn zone(root: &Path, folder: &str, name: &str, energy_uj: u64) {
        let folder = root.join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("name"), format!("{name}\n")).unwrap();
        fs::write(folder.join("max_energy_range_uj"), format!("{RANGE_UJ}\n")).unwrap();
        set(root, folder.file_name().unwrap().to_str().unwrap(), energy_uj);
    }

    fn set(root: &Path, folder: &str, energy_uj: u64) {
        fs::write(root.join(folder).join("energy_uj"), format!("{energy_uj}\n")).unwrap();
    }

    fn machine() -> TempDir {
        let root = tempfile::tempdir().unwrap();
        zone(root.path(), "intel-rapl:0", "package-0", 1_000_000);
        zone(root.path(), "intel-rapl:0:0", "core", 7_000_000);
        zone(root.path(), "intel-rapl:0:1", "dram", 500_000);
        zone(root.path(), "intel-rapl:1", "psys", 90_000_000);
        zone(root.path(), "intel-rapl-mmio:0", "package-0", 1_000_000);
        fs::create_dir(root.path().join("intel-rapl")).unwrap();
        root
    }

    const fn seconds(count: u64) -> Nanos {
        Nanos::from_seconds(count)
    }

    #[test]
    fn packages_and_memory_are_added_and_their_parts_are_not() {
        let root = machine();
        let meter = Rapl::begin(root.path(), seconds(5)).unwrap();
        for (folder, energy_uj) in [
            ("intel-rapl:0", 31_000_000),
            ("intel-rapl:0:0", 27_000_000),
            ("intel-rapl:0:1", 4_500_000),
            ("intel-rapl:1", 190_000_000),
        ] {
            set(root.path(), folder, energy_uj);
        }
        let report = meter.end(seconds(7), 68).unwrap();
        assert_eq!(report.source, EnergySource::Meter);
        assert_eq!(report.joules, 34.0);
        assert_eq!(report.part_joules["package-0"], 30.0);
        assert_eq!(report.part_joules["dram"], 4.0);
        assert_eq!((report.mean_watts, report.operations_per_joule), (Some(17.0), Some(2.0)));
    }

    #[test]
    fn a_zone_without_a_name_is_left_out_with_a_word() {
        let root = machine();
        let begin = || Rapl::begin(root.path(), Nanos::ZERO).unwrap();
        assert_eq!(begin().note(), None);
        fs::remove_file(root.path().join("intel-rapl:0:1/name")).unwrap();
        let meter = begin();
        let told = "intel-rapl:0:1 is left out: without a name that can be read";
        assert_eq!(meter.note().as_deref(), Some(told));
        set(root.path(), "intel-rapl:0", 31_000_000);
        set(root.path(), "intel-rapl:0:1", 4_500_000);
        let report = meter.end(seconds(1), 0).unwrap();
        assert_eq!((report.joules, report.part_joules.len()), (30.0, 1));
        // What no text is, is no name.
        fs::write(root.path().join("intel-rapl:1/name"), [0xff, 0xfe]).unwrap();
        let note = begin().note().unwrap();
        assert!(note.starts_with("intel-rapl:0:1, intel-rapl:1 are left out"), "{note}");
    }

    #[test]
    fn a_counter_that_begins_anew_goes_on() {
        let root = machine();
        set(root.path(), "intel-rapl:0", RANGE_UJ - 10_000_000);
        let mut meter = Rapl::begin(root.path(), seconds(0)).unwrap();
        set(root.path(), "intel-rapl:0", 20_000_000);
        meter.look(seconds(1));
        // Twice around, with samples in between: 130 kJ in 20 s each.
        set(root.path(), "intel-rapl:0", RANGE_UJ / 2);
        meter.look(seconds(21));
        set(root.path(), "intel-rapl:0", RANGE_UJ - 1_000_000);
        meter.look(seconds(41));
        set(root.path(), "intel-rapl:0", 3_000_000);
        let joules = meter.end(seconds(42), 0).unwrap().joules;
        let range = RANGE_UJ as f64 / 1e6;
        assert!((joules - (30.0 + (range - 1.0 - 20.0) + 4.0)).abs() < 1e-6, "{joules} J");
        assert_eq!(grown(5, 5, 100), 0);
        assert_eq!(grown(95, 3, 100), 8);
    }

    #[test]
    fn a_counter_that_was_reset_is_no_figure() {
        let root = machine();
        set(root.path(), "intel-rapl:0", 90_000_000_000);
        let mut meter = Rapl::begin(root.path(), seconds(0)).unwrap();
        set(root.path(), "intel-rapl:0", 90_020_000_000);
        meter.look(seconds(1));
        assert!(meter.clone().end(seconds(1), 0).is_ok());
        // After 20 J in a second, 172 kJ to the end of the counter and 3 J more in the next.
        set(root.path(), "intel-rapl:0", 3_000_000);
        meter.look(seconds(2));
        let trouble = meter.end(seconds(3), 0).unwrap_err();
        assert_eq!(
            trouble.to_string(),
            "the counter of package-0 grew by more than 10 kW: it was reset"
        );
    }

    #[test]
    fn a_wrap_that_may_have_been_missed_is_no_figure() {
        let root = machine();
        let mut meter = Rapl::begin(root.path(), seconds(0)).unwrap();
        assert_eq!(meter.interval(), seconds(1));
        // 262 kJ last 26 s at 10 kW.
        meter.look(seconds(20));
        assert!(meter.clone().end(seconds(40), 0).is_ok());
        let trouble = meter.end(seconds(60), 0).unwrap_err().to_string();
        assert!(trouble.starts_with("two samples of RAPL are 40"), "{trouble}");
    }

    #[test]
    fn what_cannot_be_read_is_no_meter_and_says_why() {
        let began = |root: &Path| Rapl::begin(root, Nanos::ZERO).map(|_| ()).unwrap_err();
        let nowhere = Path::new("/no such folder");
        assert_eq!(began(nowhere), RaplError::NoZone { root: nowhere.into() });
        let empty = tempfile::tempdir().unwrap();
        let said = began(empty.path()).to_string();
        assert!(said.ends_with(" has no zone of RAPL"), "{said}");
        for broken in ["energy_uj", "max_energy_range_uj"] {
            let root = machine();
            let file = root.path().join("intel-rapl:0:1").join(broken);
            fs::remove_file(&file).unwrap();
            let said = began(root.path()).to_string();
            assert!(said.starts_with(&format!("{}: ", file.display())), "{said}");
            assert!(said.contains("only root may read it"), "{said}");
        }
        let root = tempfile::tempdir().unwrap();
        zone(root.path(), "intel-rapl:0", "package-0", 1_000_000);
        let name = root.path().join("intel-rapl:0/name");
        fs::remove_file(&name).unwrap();
        let said = began(root.path()).to_string();
        assert!(said.starts_with(&format!("{}: ", name.display())), "nothing is left: {said}");
        let root = machine();
        fs::write(root.path().join("intel-rapl:0/energy_uj"), "many\n").unwrap();
        assert!(began(root.path()).to_string().contains("energy_uj: it holds no number"));
        let root = machine();
        let meter = Rapl::begin(root.path(), Nanos::ZERO).unwrap();
        let file = root.path().join("intel-rapl:0/energy_uj");
        fs::remove_file(&file).unwrap();
        let trouble = meter.end(seconds(1), 0).unwrap_err();
        assert!(matches!(trouble, RaplError::Unreadable { file: of, .. } if of == file));
    }
}
