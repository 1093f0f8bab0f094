//! The machine around the drives: a base load, and a processor that draws more while it computes.
//!
//! ```text
//!   E = base x T + idle x T + (max - idle) x busy / cores,    busy at most cores x T
//! ```
//!
//! A host is a file, as a profile is one, each figure with its source and its mark (`[S]` the paper,
//! `[C]` computed from it, `[M]` recalled or assumed). S004 measured the whole machine in table 2.
//!
//! 1. `./hosts/NAME.toml` comes before the host of that name inside the binary.
//! 2. Unknown keys are refused, and so is a host that draws less at work than idle.
//! 3. No processor draws more than its most, however long others say that it worked.

use include_dir::{Dir, include_dir};
use nandu_base::Nanos;
use nandu_base::words::{did_you_mean, nearest_expected};
use nandu_device::EnergyReport;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

static EMBEDDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../hosts");
const FOLDER: &str = "hosts";
/// The longest file: a host has some hundred bytes.
const FILE_BYTES_MAX: u64 = 1 << 16;
/// A megawatt: no machine draws that much.
const MILLIWATTS_MAX: u64 = 1_000_000_000;

/// A model of a machine without the drives under test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Host {
    /// The stem of its file.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// What it draws.
    pub power: HostConfig,
    /// Where each figure comes from, by its key.
    pub sources: BTreeMap<String, String>,
}

/// The `[host]` section of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// Fans, memory, power supply, the disk of the operating system: always.
    pub base_milliwatts: u64,
    /// Cores of the processor, at least 1.
    pub core_count: u32,
    /// The processor without work.
    pub processor_idle_milliwatts: u64,
    /// The processor with all cores at work, at least idle.
    pub processor_max_milliwatts: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostFile {
    title: String,
    host: HostConfig,
    #[serde(default)]
    sources: BTreeMap<String, String>,
}

/// How long a processor worked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorUse {
    /// The sum over its cores.
    pub busy: Nanos,
}

impl Host {
    /// The names of all hosts, embedded and in `./hosts`, sorted.
    #[must_use]
    pub fn list() -> Vec<String> {
        Self::list_in(Path::new(FOLDER))
    }

    fn list_in(folder: &Path) -> Vec<String> {
        let on_disk = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let paths = on_disk.map(|entry| entry.path());
        let embedded = EMBEDDED.files().map(|file| file.path().to_path_buf());
        let names: BTreeSet<String> = paths
            .chain(embedded)
            .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
            .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
            .collect();
        names.into_iter().collect()
    }

    /// The host called `name`, or in the file `name` where that ends in `.toml`.
    ///
    /// # Errors
    /// If there is none (naming the nearest), it cannot be read, or its content is wrong (naming the file,
    /// the line and the nearest valid key).
    pub fn load(name: &str) -> Result<Self, HostError> {
        Self::load_in(Path::new(FOLDER), name)
    }

    fn load_in(folder: &Path, name: &str) -> Result<Self, HostError> {
        if name.ends_with(".toml") {
            return Self::read(Path::new(name));
        }
        let file_name = format!("{name}.toml");
        let is_plain = !name.is_empty() && !name.contains(['/', '\\']);
        let on_disk = folder.join(&file_name);
        if is_plain && on_disk.is_file() {
            return Self::read(&on_disk);
        }
        if let Some(file) = EMBEDDED.get_file(&file_name).filter(|_| is_plain) {
            let text = file.contents_utf8().expect("cargo embeds our own hosts, which are UTF-8");
            return Self::parse(name, &format!("{FOLDER}/{file_name}"), text);
        }
        let known = Self::list_in(folder);
        let hint = did_you_mean(name, known.iter().map(String::as_str));
        let known = known.join(", ");
        Err(HostError { what: format!("there is no host `{name}`{hint}; there are {known}") })
    }

    fn read(path: &Path) -> Result<Self, HostError> {
        let file = path.display().to_string();
        let wrong = |error: &dyn fmt::Display| HostError { what: format!("{file}: {error}") };
        let bytes = std::fs::metadata(path).map_err(|error| wrong(&error))?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(wrong(&format!("has {bytes} bytes, must have at most {FILE_BYTES_MAX}")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
        let name = path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
        Self::parse(&name, &file, &text)
    }

    /// The host `name` from `text`; `origin` names the text in errors.
    ///
    /// # Errors
    /// If the content is wrong, with the line and, where a key is unknown, the nearest valid one.
    pub fn parse(name: &str, origin: &str, text: &str) -> Result<Self, HostError> {
        let parsed: Result<HostFile, toml::de::Error> = toml::from_str(text);
        let file = parsed.map_err(|error| {
            let line = error.span().map_or(1, |span| line_at(text, span.start));
            let hint = nearest_expected(error.message())
                .map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
            let message = error.message().trim_end();
            HostError { what: format!("{origin}:{line}: {message}{hint}") }
        })?;
        let HostFile { title, host: power, sources } = file;
        let at = |key: &str, what: &str| {
            let line = text.find(key).map_or(1, |at| line_at(text, at));
            HostError { what: format!("{origin}:{line}: `{key}` {what}") }
        };
        if power.core_count == 0 {
            return Err(at("core_count", "is zero"));
        }
        if power.processor_max_milliwatts < power.processor_idle_milliwatts {
            return Err(at("processor_max_milliwatts", "is below idle"));
        }
        for (key, milliwatts) in [
            ("base_milliwatts", power.base_milliwatts),
            ("processor_idle_milliwatts", power.processor_idle_milliwatts),
            ("processor_max_milliwatts", power.processor_max_milliwatts),
        ] {
            if milliwatts > MILLIWATTS_MAX {
                return Err(at(key, &format!("is {milliwatts}, must be at most {MILLIWATTS_MAX}")));
            }
        }
        Ok(Self { name: name.into(), title, power, sources })
    }

    /// What it draws without work, in watts.
    #[must_use]
    pub fn idle_watts(&self) -> f64 {
        (self.power.base_milliwatts + self.power.processor_idle_milliwatts) as f64 / 1e3
    }

    /// How long its processor can work in so many seconds, in seconds over all cores.
    #[must_use]
    pub fn busy_seconds_max(&self, seconds: f64) -> f64 {
        f64::from(self.power.core_count) * seconds
    }

    /// Joules of the parts `base` and `processor` in so many seconds, in which the processor worked as
    /// `used` says: with all cores at the most.
    #[must_use]
    pub fn joules(&self, seconds: f64, used: ProcessorUse) -> [(&'static str, f64); 2] {
        let power = &self.power;
        let above_idle = power.processor_max_milliwatts - power.processor_idle_milliwatts;
        let of_core = above_idle as f64 / f64::from(power.core_count);
        let busy_seconds = used.busy.as_seconds_f64().min(self.busy_seconds_max(seconds));
        let processor = power.processor_idle_milliwatts as f64 * seconds + of_core * busy_seconds;
        [("base", power.base_milliwatts as f64 * seconds / 1e3), ("processor", processor / 1e3)]
    }

    /// What drives used in a run of `operation_count` operations, with what the host used meanwhile.
    #[must_use]
    pub fn with_drives(
        &self,
        drives: EnergyReport,
        used: ProcessorUse,
        operation_count: u64,
    ) -> EnergyReport {
        let parts = self.joules(drives.seconds, used);
        parts
            .into_iter()
            .fold(drives, |report, (name, joules)| report.with_part(name, joules, operation_count))
    }
}

/// Trouble with a host, in words that name the file and the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostError {
    what: String,
}

impl fmt::Display for HostError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.what)
    }
}

impl std::error::Error for HostError {}

fn line_at(text: &str, byte: usize) -> usize {
    text.bytes().take(byte).filter(|&byte| byte == b'\n').count() + 1
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use nandu_device::EnergyParts;
    use nandu_device::energy::drawn;

    const TEXT: &str = "title = \"A machine\"\n[host]\nbase_milliwatts = 40000\ncore_count = 2\n\
                        processor_idle_milliwatts = 10000\nprocessor_max_milliwatts = 50000\n";

    #[test]
    fn every_host_that_ships_has_a_marked_source_for_each_figure() {
        let names = Host::list_in(Path::new("no such folder"));
        assert!(names.contains(&"s004-flash".to_owned()), "{names:?}");
        for name in names {
            let host = Host::load(&name).unwrap();
            for key in [
                "host.base_milliwatts",
                "host.core_count",
                "host.processor_idle_milliwatts",
                "host.processor_max_milliwatts",
            ] {
                let source = host.sources.get(key).unwrap_or_else(|| panic!("{name}: {key}"));
                assert!(["[S", "[V", "[C", "[M"].iter().any(|mark| source.starts_with(mark)));
            }
        }
    }

    #[test]
    fn an_idle_run_uses_idle_power_and_a_busy_one_what_its_cores_do() {
        let host = Host::parse("x", "x.toml", TEXT).unwrap();
        let hour = Nanos::from_seconds(3600);
        let drives = EnergyReport::of_model(
            &EnergyParts { idle: drawn(3_000, hour), ..EnergyParts::default() },
            hour,
            0,
        );
        let idle = host.with_drives(drives.clone(), ProcessorUse::default(), 0);
        assert!((idle.joules - 53.0 * 3600.0).abs() < 1e-6, "{idle:?}");
        assert_eq!((idle.operations_per_joule, host.idle_watts()), (Some(0.0), 50.0));
        // One of two cores for half of the time: a quarter of the 40 W between idle and all.
        let used = ProcessorUse { busy: Nanos::from_seconds(1800) };
        let busy = host.with_drives(drives, used, 7200);
        assert!((busy.joules - (53.0 + 10.0) * 3600.0).abs() < 1e-6, "{busy:?}");
        assert!((busy.operations_per_joule.unwrap() - 2.0 / 63.0).abs() < 1e-9);
    }

    #[test]
    fn a_processor_draws_its_most_at_the_most() {
        let host = Host::parse("x", "x.toml", TEXT).unwrap();
        let used = ProcessorUse { busy: Nanos::from_seconds(16) };
        assert_eq!(host.joules(1.0, used), [("base", 40.0), ("processor", 50.0)]);
        assert_eq!(host.busy_seconds_max(1.0), 2.0);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_the_nearest_word() {
        let error = |from: &str, to: &str| {
            let text = TEXT.replace(from, to);
            Host::parse("x", "x.toml", &text).unwrap_err().to_string()
        };
        let unknown = error("core_count", "cores_count");
        assert!(unknown.starts_with("x.toml:4:") && unknown.contains("`core_count`?"), "{unknown}");
        assert_eq!(error("core_count = 2", "core_count = 0"), "x.toml:4: `core_count` is zero");
        let below = error("= 50000", "= 9000");
        assert_eq!(below, "x.toml:6: `processor_max_milliwatts` is below idle");
        assert!(error("= 40000", "= 4000000000").starts_with("x.toml:3: `base_milliwatts` is"));
        let missing = Host::load("s004-flahs").unwrap_err().to_string();
        assert!(missing.contains("did you mean `s004-flash`?"), "{missing}");
    }
}
