//! What the processor takes in a join: on the local disk what it takes, on a simulated drive what `cpu` says.
//!
//! ```text
//!   cpu = "none"         nothing; so it is without `cpu`, too
//!   cpu = "measured"     what the thread takes that joins, but for the simulation of the drive
//!   [measure.cpu]        so many nanoseconds for each row and request
//!   scan_ns = 500
//! ```
//!
//! 1. Modelled time passes on the drive's clock, too: it goes on meanwhile. A run is bit-identical.
//! 2. Measured time is added to the waits when the join is over, and differs from run to run.
//! 3. Other threads of the program, which may run other experiments, count for nothing that is measured on a
//!    simulated drive.

use nandu_base::Nanos;
use nandu_drives::file::{CpuTime, cpu_time, thread_cpu_time};
use nandu_query::Execution;
use nandu_query::cost::CpuCosts;
use nandu_query::work::{Work, WorkCosts};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The processor of joins on simulated drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cpu {
    /// It takes no time.
    #[default]
    None,
    /// It takes what it takes here.
    Measured,
    /// It takes so much for each row and request.
    Modelled(ModelledCpu),
}

/// Nanoseconds of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelledCpu {
    /// A row looked at on its page.
    pub scan_ns: u64,
    /// A row put into a hash table.
    pub build_ns: u64,
    /// A row looked up there.
    pub probe_ns: u64,
    /// Two keys compared.
    pub compare_ns: u64,
    /// A row copied to a bucket or run.
    pub copy_ns: u64,
    /// A request to a disk, in the kernel.
    pub disk_request_ns: u64,
    /// A request to flash.
    pub flash_request_ns: u64,
}

/// What the drive's simulation took of the thread's time.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    user_ns: AtomicU64,
    system_ns: AtomicU64,
}

/// The processor of one site.
#[derive(Clone, Debug)]
pub(crate) enum Processor {
    /// A real clock runs, and this process works for real.
    Real,
    /// A virtual clock runs; this thread works for real, and for the simulation as the meter says.
    Metered(Arc<Meter>),
    /// A virtual clock runs, and work has its costs.
    Modelled(CpuCosts),
}

/// When something began on the processor's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessorMark(CpuTime);

impl Cpu {
    /// Whether it takes no time, as without the key.
    pub(crate) const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// The processor beside a simulated drive, with an arm or without, `over` times smaller than the one of
    /// the paper.
    pub(crate) fn processor(&self, has_arm: bool, over: u32) -> Processor {
        match self {
            Self::None => Processor::Modelled(CpuCosts::NONE),
            Self::Measured => Processor::Metered(Arc::default()),
            Self::Modelled(cpu) => Processor::Modelled(cpu.costs(has_arm, over)),
        }
    }
}

impl ModelledCpu {
    /// Costs of rows, and of a request to such a drive, which are `over` times smaller.
    fn costs(&self, has_arm: bool, over: u32) -> CpuCosts {
        let request_ns = if has_arm { self.disk_request_ns } else { self.flash_request_ns };
        CpuCosts {
            work: WorkCosts::NONE
                .with(Work::Scan, self.scan_ns * 1000)
                .with(Work::Fetch, self.scan_ns * 1000)
                .with(Work::Build, self.build_ns * 1000)
                .with(Work::Probe, self.probe_ns * 1000)
                .with(Work::Compare, self.compare_ns * 1000)
                .with(Work::Copy, self.copy_ns * 1000),
            request_ps: request_ns * 1000 / u64::from(over),
            visit_ps: 0,
            large: None,
        }
    }
}

impl Meter {
    /// Does what a drive does, and notes how long that took the thread.
    pub(crate) fn note<R>(&self, call: impl FnOnce() -> R) -> R {
        let before = thread_cpu_time();
        let result = call();
        let used = thread_cpu_time().since(before);
        self.user_ns.fetch_add(used.user.0, Ordering::Relaxed);
        self.system_ns.fetch_add(used.system.0, Ordering::Relaxed);
        result
    }

    fn total(&self) -> CpuTime {
        let nanos = |count: &AtomicU64| Nanos(count.load(Ordering::Relaxed));
        CpuTime { user: nanos(&self.user_ns), system: nanos(&self.system_ns) }
    }
}

impl Processor {
    /// What notes the drive's part, where somebody has to.
    pub(crate) fn meter(&self) -> Option<Arc<Meter>> {
        match self {
            Self::Metered(meter) => Some(Arc::clone(meter)),
            Self::Real | Self::Modelled(_) => None,
        }
    }

    /// What operators let pass on the drive's clock.
    pub(crate) const fn work_costs(&self) -> Option<WorkCosts> {
        match self {
            Self::Modelled(costs) => Some(costs.work),
            Self::Real | Self::Metered(_) => None,
        }
    }

    /// What the cost model reckons with.
    pub(crate) const fn costs(&self) -> CpuCosts {
        match self {
            Self::Modelled(costs) => *costs,
            Self::Real | Self::Metered(_) => CpuCosts::NONE,
        }
    }

    /// Whether the clock of the drive goes on by itself.
    pub(crate) const fn is_real(&self) -> bool {
        matches!(self, Self::Real)
    }

    fn now(&self) -> CpuTime {
        match self {
            Self::Real => cpu_time(),
            Self::Metered(meter) => thread_cpu_time().since(meter.total()),
            Self::Modelled(_) => CpuTime::default(),
        }
    }

    /// Notes when a join begins.
    pub(crate) fn begin(&self) -> ProcessorMark {
        ProcessorMark(self.now())
    }

    /// What a join took that made so many requests.
    pub(crate) fn used(
        &self,
        since: ProcessorMark,
        execution: &Execution,
        request_count: u64,
    ) -> CpuTime {
        match self {
            Self::Real | Self::Metered(_) => self.now().since(since.0),
            Self::Modelled(costs) => CpuTime {
                user: costs.work.total(&execution.work_counts()),
                system: Nanos(costs.request_ns(request_count)),
            },
        }
    }

    /// What a join with so many requests took beside what passed on the drive's clock: of modelled time only that
    /// of requests.
    pub(crate) fn beside_the_clock(&self, since: ProcessorMark, request_count: u64) -> Nanos {
        match self {
            Self::Real => Nanos::ZERO,
            Self::Metered(_) => self.now().since(since.0).total(),
            Self::Modelled(costs) => Nanos(costs.request_ns(request_count)),
        }
    }
}

impl Serialize for Cpu {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_str("none"),
            Self::Measured => serializer.serialize_str("measured"),
            Self::Modelled(cpu) => cpu.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Cpu {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CpuVisitor)
    }
}

/// A word or a table.
struct CpuVisitor;

impl<'de> Visitor<'de> for CpuVisitor {
    type Value = Cpu;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("\"none\", \"measured\", or a table of nanoseconds such as `scan_ns`")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Cpu, E> {
        match word {
            "none" => Ok(Cpu::None),
            "measured" => Ok(Cpu::Measured),
            other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Cpu, A::Error> {
        ModelledCpu::deserialize(MapAccessDeserializer::new(table)).map(Cpu::Modelled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Parameters {
        #[serde(default)]
        cpu: Cpu,
    }

    fn parsed(text: &str) -> Result<Cpu, String> {
        let found: Result<Parameters, _> = toml::from_str(text);
        found.map(|found| found.cpu).map_err(|error| error.to_string())
    }

    const TABLE: &str = "[cpu]\nscan_ns = 1\nbuild_ns = 2\nprobe_ns = 3\ncompare_ns = 4\ncopy_ns = 5\n\
                         disk_request_ns = 6\nflash_request_ns = 7\n";

    #[test]
    fn a_word_or_a_table_is_a_processor_and_comes_back() {
        assert_eq!(parsed(""), Ok(Cpu::None));
        assert_eq!(parsed("cpu = 'none'"), Ok(Cpu::None));
        assert_eq!(parsed("cpu = 'measured'"), Ok(Cpu::Measured));
        let modelled = parsed(TABLE).unwrap();
        assert!(matches!(modelled, Cpu::Modelled(ModelledCpu { copy_ns: 5, .. })));
        for cpu in [Cpu::None, Cpu::Measured, modelled] {
            let text = toml::to_string(&Parameters { cpu }).unwrap();
            assert_eq!(parsed(&text), Ok(cpu), "{text}");
        }
        assert_eq!(toml::to_string(&Parameters { cpu: modelled }).unwrap(), TABLE, "as before");
    }

    #[test]
    fn what_is_none_is_told_with_what_would_do() {
        let told = parsed("cpu = 'mesured'").unwrap_err();
        assert!(told.contains("measured") && told.contains("scan_ns"), "{told}");
        let told = parsed(&TABLE.replace("copy_ns", "copied_ns")).unwrap_err();
        assert!(told.contains("copied_ns") && told.contains("copy_ns"), "{told}");
        assert!(parsed("cpu = 7").unwrap_err().contains("scan_ns"));
    }

    #[test]
    fn what_a_drive_takes_is_not_the_processors_of_a_join() {
        let work = |millis: u64| {
            let (begin, mut rng, mut bytes) =
                (thread_cpu_time(), nandu_base::Rng::new(1), [0; 4096]);
            while thread_cpu_time().since(begin).total() < Nanos::from_millis(millis) {
                rng.fill(&mut bytes);
            }
        };
        let processor = Cpu::Measured.processor(false, 1);
        let meter = processor.meter().expect("it is measured");
        let begin = processor.begin();
        work(8);
        meter.note(|| work(40));
        let used = processor.now().since(begin.0).total();
        assert!(used >= Nanos::from_millis(7) && used < Nanos::from_millis(30), "{used}");
    }
}
