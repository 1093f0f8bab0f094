//! What the processor costs: measured at the first use and kept, measured anew, of a file, or chosen.
//!
//! ```text
//!   --calibrate ──► measure ──► FILE of --processor, or the cache
//!   --processor FILE ─────────► FILE
//!   --no-calibrate ───────────► constants that are the same everywhere
//!   none of them ──► the cache, or measure ──► the cache
//! ```
//!
//! 1. The cache is a file for each kind of machine, version and way of building. What it says of another
//!    one, or cannot be read, is measured anew.
//! 2. A cache that cannot be written is no error: it is measured again the next time.

use super::ExplainArguments;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::json::plain;
use crate::output::{OutputFiles, complain, read_file};
use crate::stopwatch::Stopwatch;
use nandu_base::Nanos;
use nandu_lab::machine::Machine;
use nandu_query::QueryError;
use nandu_query::cost::{CpuCosts, measure_processor};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How often each step of the measurement is repeated. Costs of a program that is built to be debugged
/// are several times those of the one that people use, whatever their median: there, once is enough.
const ROUND_COUNT: NonZeroUsize = match cfg!(debug_assertions) {
    true => NonZeroUsize::MIN,
    false => NonZeroUsize::new(9).expect("nine is not zero"),
};

/// Costs, and whose they are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Processor {
    pub(super) costs: CpuCosts,
    pub(super) origin: Origin,
}

/// Where costs come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Origin {
    source: Source,
    /// Where they are kept.
    file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Source {
    /// Measured by this command.
    Measured,
    /// Measured by an earlier one at its first use.
    Kept,
    /// Of the file that was named.
    File,
    /// Constants, the same on every machine.
    Chosen,
}

/// What measured costs hold for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Scope {
    /// Model of the processor.
    processor: String,
    thread_count: usize,
    version: String,
    /// Programs that are built to be debugged are several times slower.
    is_debug_build: bool,
}

/// The file of the cache.
#[derive(Serialize, Deserialize)]
struct Kept {
    scope: Scope,
    costs: CpuCosts,
}

impl Origin {
    const fn of(source: Source, file: Option<PathBuf>) -> Self {
        Self { source, file }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let file = self.file.as_ref().map(|file| file.display().to_string());
        match (self.source, file) {
            (Source::Measured, Some(file)) => write!(formatter, "measured now, kept in {file}"),
            (Source::Measured, None) => write!(formatter, "measured now"),
            (Source::Kept, file) => {
                let file = file.unwrap_or_default();
                write!(formatter, "as measured earlier ({file}); --calibrate measures anew")
            }
            (Source::File, file) => write!(formatter, "as in {}", file.unwrap_or_default()),
            (Source::Chosen, _) => {
                write!(formatter, "chosen constants; without --no-calibrate it is measured")
            }
        }
    }
}

impl Scope {
    fn here() -> Self {
        let Machine { processor, thread_count, .. } = Machine::here();
        Self {
            processor,
            thread_count,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            is_debug_build: cfg!(debug_assertions),
        }
    }

    /// A name that says what it holds for, of signs that every file system takes.
    fn file_name(&self) -> String {
        let Self { processor, thread_count, version, is_debug_build } = self;
        let plain: String = processor
            .chars()
            .map(|sign| if sign.is_ascii_alphanumeric() { sign.to_ascii_lowercase() } else { '-' })
            .take(64)
            .collect();
        let build = if *is_debug_build { "-debug" } else { "" };
        format!("processor-{version}{build}-{plain}-{thread_count}.json")
    }
}

/// The processor of the file that the arguments name, unless it is to be measured into it.
pub(super) fn named(arguments: &ExplainArguments) -> Result<Option<Processor>, Failure> {
    let Some(file) = arguments.processor.as_deref().filter(|_| !arguments.calibrate) else {
        return Ok(None);
    };
    let origin = Origin::of(Source::File, Some(file.to_owned()));
    Ok(Some(Processor { costs: read(file)?, origin }))
}

/// The processor as the arguments want it that name no file of it.
pub(super) fn processor(
    arguments: &ExplainArguments,
    interrupt: &Interrupt,
) -> Result<Processor, Failure> {
    let cache = cache_directory(|name| std::env::var_os(name).map(PathBuf::from));
    let choice = Choice {
        file: arguments.processor.as_deref(),
        is_measured_anew: arguments.calibrate,
        is_chosen: arguments.no_calibrate,
        files: arguments.files,
        interrupt: Some(interrupt),
    };
    choice.costs(cache.as_deref(), &Scope::here(), || measure(&interrupt.flag()))
}

/// As it is measured anew for a further memory of a sweep.
pub(super) fn again(
    arguments: &ExplainArguments,
    interrupt: &Interrupt,
) -> Result<Processor, Failure> {
    let choice = Choice {
        file: arguments.processor.as_deref(),
        is_measured_anew: true,
        is_chosen: false,
        files: arguments.files.again(),
        interrupt: Some(interrupt),
    };
    choice.costs(None, &Scope::here(), || measure(&interrupt.flag()))
}

fn measure(stop: &Arc<AtomicBool>) -> Result<CpuCosts, Failure> {
    let stopwatch = Stopwatch::start();
    match measure_processor(Arc::new(move || Nanos(stopwatch.nanos())), ROUND_COUNT, stop) {
        Err(QueryError::Cancelled) => Err(Failure::interrupted(
            "the processor is not measured; --no-calibrate does without, with chosen costs",
        )),
        measured => Ok(measured?),
    }
}

/// Which costs are wanted.
struct Choice<'a> {
    /// Where it is measured into.
    file: Option<&'a Path>,
    is_measured_anew: bool,
    is_chosen: bool,
    files: OutputFiles,
    /// Of who waits for a reader of the file.
    interrupt: Option<&'a Interrupt>,
}

impl Choice<'_> {
    fn costs(
        &self,
        cache: Option<&Path>,
        scope: &Scope,
        measure: impl FnOnce() -> Result<CpuCosts, Failure>,
    ) -> Result<Processor, Failure> {
        let of = |costs, source, file| Processor { costs, origin: Origin::of(source, file) };
        if let Some(file) = self.file {
            self.files.check(file)?;
            let costs = measure()?;
            let interrupt = self.interrupt.cloned().unwrap_or_default();
            self.files.write(file, format!("{}\n", plain(&costs)).as_bytes(), &interrupt)?;
            return Ok(of(costs, Source::Measured, Some(file.to_owned())));
        }
        if self.is_chosen {
            return Ok(of(CpuCosts::MODELLED, Source::Chosen, None));
        }
        let cached = cache.map(|cache| cache.join(scope.file_name()));
        if !self.is_measured_anew {
            if let Some(costs) = cached.as_deref().and_then(|file| read_kept(file, scope)) {
                return Ok(of(costs, Source::Kept, cached));
            }
            complain("measuring the processor once for this machine, which takes half a minute");
        }
        let costs = measure()?;
        let is_kept = cached.as_deref().is_some_and(|file| keep(file, scope, &costs).is_ok());
        Ok(of(costs, Source::Measured, cached.filter(|_| is_kept)))
    }
}

/// Costs of a file that was named.
fn read(path: &Path) -> Result<CpuCosts, Failure> {
    serde_json::from_str(&read_file(path)?).map_err(|error| {
        let path = path.display();
        Failure::input(format!("{path}: {error}; write it anew with --calibrate"))
    })
}

/// What the cache says of this machine, if it does.
fn read_kept(path: &Path, scope: &Scope) -> Option<CpuCosts> {
    let kept: Kept = serde_json::from_str(&read_file(path).ok()?).ok()?;
    (kept.scope == *scope).then_some(kept.costs)
}

/// Puts costs into the cache: as a whole or not at all, since other commands may read it.
fn keep(path: &Path, scope: &Scope, costs: &CpuCosts) -> std::io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    writeln!(file, "{}", plain(&Kept { scope: scope.clone(), costs: *costs }))?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Where caches go by the XDG base directory specification; `None` where there is no home.
fn cache_directory(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let named = |name| variable(name).filter(|path| path.is_absolute());
    let caches = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
    caches.map(|caches| caches.join("nandu"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Choice<'_> = Choice {
        file: None,
        is_measured_anew: false,
        is_chosen: false,
        files: OutputFiles::NEW,
        interrupt: None,
    };

    fn scope(processor: &str) -> Scope {
        let (version, is_debug_build) = ("1.2.3".to_owned(), false);
        Scope { processor: processor.to_owned(), thread_count: 2, version, is_debug_build }
    }

    fn costs(request_ps: u64) -> CpuCosts {
        CpuCosts { request_ps, ..CpuCosts::MODELLED }
    }

    fn never() -> Result<CpuCosts, Failure> {
        panic!("it is not measured")
    }

    #[test]
    fn the_first_use_measures_and_later_ones_take_that_until_it_is_measured_anew() {
        let place = tempfile::tempdir().unwrap();
        let (cache, scope) = (place.path().join("not/yet"), scope("A & B: 3/4 GHz"));
        let cache = Some(cache.as_path());
        let first = USUAL.costs(cache, &scope, || Ok(costs(1))).unwrap();
        assert_eq!((first.costs, first.origin.source), (costs(1), Source::Measured));
        assert!(first.origin.to_string().contains("-a---b--3-4-ghz-2.json"), "{}", first.origin);
        let second = USUAL.costs(cache, &scope, never).unwrap();
        assert_eq!((second.costs, second.origin.source), (costs(1), Source::Kept));
        assert_eq!(second.origin.file, first.origin.file);
        let anew = Choice { is_measured_anew: true, ..USUAL };
        anew.costs(cache, &scope, || Ok(costs(2))).unwrap();
        assert_eq!(USUAL.costs(cache, &scope, never).unwrap().costs, costs(2));
        // Chosen ones are neither measured nor kept.
        let chosen = Choice { is_chosen: true, ..USUAL };
        assert_eq!(chosen.costs(cache, &scope, never).unwrap().origin.source, Source::Chosen);
    }

    #[test]
    fn what_was_measured_for_another_machine_or_version_or_is_damaged_does_not_count() {
        let place = tempfile::tempdir().unwrap();
        let (cache, here) = (Some(place.path()), scope("here"));
        let others = [
            scope("there"),
            Scope { thread_count: 3, ..scope("here") },
            Scope { version: "1.2.4".to_owned(), ..scope("here") },
            Scope { is_debug_build: true, ..scope("here") },
        ];
        for (number, other) in (10..).zip(&others) {
            USUAL.costs(cache, other, || Ok(costs(number))).unwrap();
        }
        let measured = USUAL.costs(cache, &here, || Ok(costs(1))).unwrap();
        assert_eq!(measured.origin.source, Source::Measured);
        let file = measured.origin.file.unwrap();
        // A file of that name that speaks of another machine.
        std::fs::copy(place.path().join(others[0].file_name()), &file).unwrap();
        assert_eq!(USUAL.costs(cache, &here, || Ok(costs(2))).unwrap().costs, costs(2));
        std::fs::write(&file, "{").unwrap();
        assert_eq!(USUAL.costs(cache, &here, || Ok(costs(3))).unwrap().costs, costs(3));
        assert_eq!(USUAL.costs(cache, &here, never).unwrap().costs, costs(3));
    }

    #[test]
    fn a_cache_that_cannot_be_written_or_is_nowhere_is_no_error() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        std::fs::write(&file, "").unwrap();
        for cache in [Some(file.as_path()), Some(Path::new("/proc/nandu")), None] {
            let measured = USUAL.costs(cache, &scope("here"), || Ok(costs(1))).unwrap();
            assert_eq!(measured.origin.to_string(), "measured now");
        }
    }

    #[test]
    fn caches_lie_where_xdg_says() {
        let with = |cache: Option<&str>, home: Option<&str>| {
            let variables = [("XDG_CACHE_HOME", cache), ("HOME", home)];
            cache_directory(|name| {
                variables.iter().find(|(known, _)| *known == name)?.1.map(PathBuf::from)
            })
        };
        let expect = |path: &str| Some(PathBuf::from(path));
        assert_eq!(with(Some("/c"), Some("/h")), expect("/c/nandu"));
        for none in [None, Some(""), Some("relative")] {
            assert_eq!(with(none, Some("/h")), expect("/h/.cache/nandu"));
        }
        assert_eq!(with(None, None), None);
    }
}
