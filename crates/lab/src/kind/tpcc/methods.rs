//! Ways of placing pages under what passes between the pool and the propagation while TPC-C runs, by the memory of
//! the pool (Kim, Whang and Song, SIGMOD 2010; flash reference 3.10, E6).
//!
//! ```text
//!   terminals ─► pool of `memory` ─► recorder ─► trace ─┬─► a method over a chip: the same reads and writes
//!                                                       └─► another one over as large a chip
//! ```
//!
//! One step for each memory, with series by its bytes:
//!
//! - `VARIANT.us`, time for each page that the pool writes, and `.marked_us`, `.counted_us`, `.reads`,
//!   `.programs`, `.erases` and `.energy_uj` for one, as of the kind `methods`;
//! - `trace.pages` that there are, `trace.writes`, pages that it writes, `trace.reads_per_write`, and
//!   `trace.changed_bytes` of a page that is written.
//!
//! 1. All variants do what one trace tells, over chips with as many erase blocks.
//! 2. The first half of the writes warms up: chips are blank at first, and nothing is cleaned there.
//! 3. Reads count: what a page costs that is read is part of what a written one costs.
//! 4. The log is not in the trace.

use super::super::methods::Method;
use super::super::methods::chip::{BASE, Chip, Done, Room};
use super::trace::Recording;
use super::{
    Bench, EngineSet, EngineVariant, LabError, Measurement, PAGE_BYTES, Series,
    TRANSACTION_COUNT_MAX, TpccRows, cancelled, check_cancelled, check_clients,
};
use nandu_base::{ByteCount, FlashCounters, Rng};
use nandu_bench::page_replay::ReplayOutcome;
use nandu_bench::{BenchError, PageReplay};
use nandu_nand::NandConfig;
use nandu_probe::text;
use nandu_storage::PageAddress;
use nandu_trace::engine_trace::{EngineTraceReader, PageEvent, PageLayout};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;

const TRACE: &str = "trace";
/// Metrics of a variant, with their units.
const METRICS: [(&str, &str); 7] = [
    ("us", "us"),
    ("marked_us", "us"),
    ("counted_us", "us"),
    ("reads", ""),
    ("programs", ""),
    ("erases", ""),
    ("energy_uj", "uJ"),
];
const TRACE_METRICS: [(&str, &str); 4] =
    [("pages", ""), ("writes", ""), ("reads_per_write", ""), ("changed_bytes", "B")];

/// The keys of an experiment of the kind `tpcc_methods`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpccMethods {
    /// Which rows there are.
    pub rows: TpccRows,
    /// Memories of the pool, rising.
    #[serde(deserialize_with = "text::sizes")]
    pub memory: Vec<ByteCount>,
    /// Capacity of the log; there is a checkpoint after an eighth of it.
    #[serde(deserialize_with = "text::size")]
    pub log: ByteCount,
    /// How many terminals there are.
    pub clients: u32,
    /// Transactions of all terminals together.
    pub transaction_count: u64,
    /// Chip preset; one plane of one die.
    pub chip: String,
    /// Programs that a flash page takes between two erases, without any other law of the preset; the preset's
    /// laws if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs_per_erase: Option<u8>,
    /// The chip's capacity beyond the pages of the trace, in percent of them.
    pub spare_percent: f64,
    /// What is compared.
    pub variants: BTreeMap<String, Method>,
    /// Other settings of the engine.
    #[serde(default, skip_serializing_if = "EngineSet::is_empty")]
    pub set: EngineSet,
}

/// What a trace has in all.
#[derive(Clone, Copy, Debug, Default)]
struct Summary {
    page_count: u64,
    read_count: u64,
    write_count: u64,
    changed_bytes: u64,
}

impl Summary {
    fn of(trace: &Arc<[u8]>) -> Result<Self, BenchError> {
        let mut reader = EngineTraceReader::new(Cursor::new(Arc::clone(trace)), TRACE)?;
        let mut layout = PageLayout::new(&reader.head().files);
        let mut summary = Self::default();
        while let Some(record) = reader.next_record()? {
            match record.event {
                PageEvent::Read => summary.read_count += 1,
                PageEvent::Write => {
                    let place = layout.place(record.file, record.page);
                    place.expect("the database fits the memory of this run");
                    summary.write_count += 1;
                    summary.changed_bytes += record.changed_bytes();
                }
                PageEvent::Sync | PageEvent::Cut => {}
            }
        }
        summary.page_count = layout.page_count();
        Ok(summary)
    }

    /// In the order of [`TRACE_METRICS`].
    fn values(&self) -> [f64; 4] {
        let per_write = |count: u64| count as f64 / self.write_count.max(1) as f64;
        let counts = [self.page_count as f64, self.write_count as f64];
        [counts[0], counts[1], per_write(self.read_count), per_write(self.changed_bytes)]
    }
}

impl TpccMethods {
    fn engine(&self) -> EngineVariant {
        EngineVariant { log: self.log, ..EngineVariant::writing(&self.set) }
    }

    fn chip(&self) -> Chip {
        let (preset, programs_per_erase) = (self.chip.clone(), self.programs_per_erase);
        Chip { preset, programs_per_erase, flash_page_bytes: None }
    }

    fn recording(&self, memory: ByteCount) -> Recording {
        Recording {
            rows: self.rows,
            engine: self.engine(),
            memory,
            clients: self.clients,
            transaction_count: self.transaction_count,
        }
    }

    fn room(&self, page_bytes: u32, page_count: u64) -> Room {
        let file_bytes = page_count * u64::from(page_bytes);
        Room { page_bytes, file_bytes, spare_percent: self.spare_percent }
    }

    /// About as many pages as there will be.
    fn expected_pages(&self) -> u64 {
        let bytes = self.rows.tpcc(0).map_or(0, |tpcc| tpcc.expected_bytes());
        2 * bytes / u64::from(PAGE_BYTES)
    }

    fn all_series(&self) -> Vec<Series> {
        let of = |name: &str, (metric, unit): &(&str, &str)| {
            Series::new(format!("{name}.{metric}"), "B", unit)
        };
        let names = self.variants.keys();
        let of_variants = names.flat_map(|name| METRICS.iter().map(move |metric| of(name, metric)));
        let of_trace = TRACE_METRICS.iter().map(|metric| of(TRACE, metric));
        of_variants.chain(of_trace).collect()
    }

    /// What the trace takes over a method.
    fn replay(
        &self,
        bench: &Bench<'_>,
        (step, name): (&str, &str),
        (trace, summary): (&Arc<[u8]>, &Summary),
    ) -> Result<Vec<f64>, LabError> {
        let method = &self.variants[name];
        let (chip, seed) = (self.chip(), bench.seed);
        let failed = |error: BenchError| LabError::step(&format!("{step} {name}"), &error);
        let reader = EngineTraceReader::new(Cursor::new(Arc::clone(trace)), TRACE);
        let mut reader = reader.map_err(|error| failed(error.into()))?;
        let head = reader.head().clone();
        let room = self.room(head.page_bytes, summary.page_count);
        let site = chip.site(step, &room, (method, seed))?;
        let replayed = (|| {
            let first_pages = Box::new(move |address: PageAddress, page: &mut [u8]| {
                Rng::new(seed ^ address.to_word()).fill(page);
            });
            let config = method.settings().propagation.config();
            let goes_on = |_| !bench.observer.is_cancelled();
            let begun =
                PageReplay::begin(&head, &config, site.format()?, (first_pages, seed), goes_on)?;
            let Some(mut replay) = begun else { return Ok(None) };
            let (mut before, mut write_count) = (site.commands(), 0);
            while let Some(record) = reader.next_record()? {
                write_count += u64::from(record.event == PageEvent::Write);
                let is_warm = write_count == summary.write_count / 2;
                if is_warm && record.event == PageEvent::Write {
                    replay.forget()?;
                    before = site.commands();
                }
                replay.apply(record)?;
            }
            let outcome = replay.finish()?;
            replay.audit();
            Ok(Some((outcome, site.commands().since(&before))))
        })();
        let (outcome, commands) = replayed.map_err(failed)?.ok_or_else(cancelled)?;
        let nand = chip.nand().map_err(|error| LabError::step(step, &error))?;
        Ok(values(&outcome, commands, (&nand, method)))
    }
}

/// In the order of [`METRICS`].
fn values(
    outcome: &ReplayOutcome,
    commands: FlashCounters,
    (nand, method): (&NandConfig, &Method),
) -> Vec<f64> {
    let operation_count = outcome.counts.page_write_count.max(1);
    let done = Done { operation_count, commands };
    let us = outcome.elapsed_ns as f64 / 1e3 / operation_count as f64;
    vec![
        us,
        us + done.marks_us(nand, method),
        done.counted_us(nand),
        done.reads(),
        done.programs(),
        done.erases(),
        done.energy_uj(nand),
    ]
}

impl Measurement for TpccMethods {
    fn check(&self) -> Result<(), String> {
        self.rows.check()?;
        check_clients(&[self.clients])?;
        let transactions = u64::from(self.clients)..=TRANSACTION_COUNT_MAX;
        if !transactions.contains(&self.transaction_count) || self.variants.is_empty() {
            return Err(format!(
                "`transaction_count` must be from {} to {TRANSACTION_COUNT_MAX}; name a variant",
                self.clients
            ));
        }
        if self.variants.contains_key(TRACE) {
            return Err(format!("`{TRACE}` is the name of a series; rename the variant"));
        }
        let rises = self.memory.windows(2).all(|pair| pair[0] < pair[1]);
        if self.memory.is_empty() || !rises {
            return Err("`memory` must be some sizes, rising".into());
        }
        let own = [("pool_bytes", "memory"), ("log_bytes", "log")];
        self.engine().check([PAGE_BYTES], &own)?;
        for memory in &self.memory {
            let settings = self.engine().settings(PAGE_BYTES, memory.0);
            settings.check().map_err(|error| format!("`memory`, `log`: {error}"))?;
        }
        let page_bytes = self.engine().settings(PAGE_BYTES, self.memory[0].0).page_bytes;
        let room = self.room(page_bytes, self.expected_pages());
        for (name, method) in &self.variants {
            let wrong = |error: String| format!("variant `{name}`: {error}");
            method.check().map_err(wrong)?;
            self.chip().check(&room, method).map_err(wrong)?;
            let config = method.settings().propagation.config();
            let checked = config.check(page_bytes, page_bytes);
            checked.map_err(|error| wrong(error.to_string()))?;
        }
        Ok(())
    }

    fn targets(&self) -> Vec<String> {
        vec![BASE.to_owned()]
    }

    fn series_names(&self) -> Vec<String> {
        self.all_series().into_iter().map(|series| series.name).collect()
    }

    fn steps(&self) -> Vec<String> {
        self.memory.iter().map(ToString::to_string).collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let memory = self.memory[index];
        let step = memory.to_string();
        let trace = Arc::from(self.recording(memory).record(bench, &step)?);
        let summary = Summary::of(&trace).map_err(|error| LabError::step(&step, &error))?;
        let mut values = Vec::new();
        for name in self.variants.keys() {
            check_cancelled(bench)?;
            values.extend(self.replay(bench, (&step, name), (&trace, &summary))?);
        }
        values.extend(summary.values());
        let mut all = self.all_series();
        for (series, value) in all.iter_mut().zip(values) {
            series.points.push((memory.0 as f64, value));
        }
        Ok(all)
    }
}
