//! The page writes of TPC-C as this engine makes them, and what they say of logs and translation layers (S003,
//! "Skewed Write Patterns in OLTP", tables 2 to 4 and II, figures 1, 2, 3 and 7).
//!
//! ```text
//!   terminals ─► pool ─► recorder ─► page writes ─┬─► gaps between writes of a page, bytes that changed
//!                                                 └─► layers over a bare chip, a page for a flash page
//! ```
//!
//! One step, whose series are:
//!
//! - by a window in percent of the database's pages: `gap.absorbed`, percent of the writes whose page was
//!   written within so many writes before; `mean_gap.absorbed`, of the writes to pages whose mean gap is within
//!   it; `hottest.writes`, percent of the writes that go to so many percent of the pages;
//! - by the number of a write: `hot.gap` and `cold.gap`, the writes between two of a page, for the page that is
//!   written most, and the least written of those with enough writes;
//! - at 0: `trace.pages`, `.writes`, `.differential_bytes` (mean of what differs in a page that is written),
//!   `.differential_percent` (of a page), `.small_percent` (writes that differ in no more than a twentieth) and
//!   `.sequential_percent` (writes of the page behind the one before);
//! - by log space in percent of the pages: `LAYER.mean_ms`, `.stddev_ms` and `.write_amplification`;
//! - by thousands of writes, with the least log space: `LAYER.window_mean_ms` and `.window_max_ms`.
//!
//! 1. The first third of the writes warms up: windows are filled, layers are brought from a state like that of
//!    uniform writes to one of this trace. The rest is counted.
//! 2. A page that was not written before has no gap, and is not absorbed.
//! 3. Logs are not in the trace, and neither are copies that torn pages are mended from.

use super::super::simulation::{BareLayer, Metric, Watch};
use super::{
    Bench, EngineSet, EngineVariant, LabError, Measurement, PAGE_BYTES, Series,
    TRANSACTION_COUNT_MAX, TpccRows, cancelled, check_clients, no_clock, plan,
};
use nandu_base::{ByteCount, to_index, to_u32};
use nandu_bench::tpcc::TpccRun;
use nandu_bench::{BenchError, Load, PageRecorder};
use nandu_device::{Geometry, MemoryConfig, MemoryDevice, Operation};
use nandu_ftl::FtlConfig;
use nandu_load::Tpcc;
use nandu_probe::text;
use nandu_sim::SimError;
use nandu_storage::database::Isolation;
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{StorageError, Volumes};
use nandu_trace::engine_trace::{EngineTraceReader, PageEvent, PageLayout};
use nandu_trace::{Pacing, RequestSource, TraceError, TraceRequest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;

/// Sectors of the memory that the database lies in.
const SECTOR_BYTES: u32 = 512;
/// Bytes by which tables grow for a transaction, about.
const GROWTH_BYTES: u64 = 1500;
/// So many gaps of a page are shown.
const GAP_COUNT_MAX: usize = 60;
/// A page with fewer gaps than this is not shown as a cold one.
const GAP_COUNT_MIN: usize = 5;
/// Writes of a window of response times, and the most windows.
const WINDOW_WRITES: usize = 1000;
const WINDOW_COUNT_MAX: usize = 100;
/// Of so many parts of the writes one warms up.
const PARTS: usize = 3;

/// The keys of an experiment of the kind `tpcc_trace`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpccTrace {
    /// Which rows there are.
    pub rows: TpccRows,
    /// Memory of the pool.
    #[serde(deserialize_with = "text::size")]
    pub memory: ByteCount,
    /// Capacity of the log; there is a checkpoint after an eighth of it.
    #[serde(deserialize_with = "text::size")]
    pub log: ByteCount,
    /// How many terminals there are.
    pub clients: u32,
    /// Transactions of all terminals together.
    pub transaction_count: u64,
    /// Windows in percent of the pages, rising.
    pub window_percent: Vec<f64>,
    /// Chip preset of the layers; only its times count, and the pages of an erase block.
    pub chip: String,
    /// Log or spare space of the layers, in percent of the pages, rising.
    pub space_percent: Vec<f64>,
    /// What translates addresses, by name.
    pub layers: BTreeMap<String, FtlConfig>,
    /// Other settings of the engine.
    #[serde(default, skip_serializing_if = "EngineSet::is_empty")]
    pub set: EngineSet,
}

/// What a layer tells by log space, and over time.
const METRICS: [Metric; 3] = [Metric::MeanMs, Metric::StddevMs, Metric::WriteAmplification];
const WINDOW_METRICS: [Metric; 2] = [Metric::MeanMs, Metric::MaxMs];

/// The writes of a trace.
#[derive(Default)]
struct Writes {
    /// Places of the pages that were written, in their order.
    places: Vec<u64>,
    /// Bytes in which each differs from what was there.
    changed_bytes: Vec<u32>,
    /// Places that there are.
    page_count: u64,
}

/// Page writes, one after the other.
struct WriteSource {
    writes: Arc<Writes>,
    next: usize,
    page_bytes: u64,
}

impl RequestSource for WriteSource {
    fn next_batch(
        &mut self,
        batch: &mut Vec<TraceRequest>,
        limit: usize,
    ) -> Result<(), TraceError> {
        let places = self.writes.places.get(self.next..).unwrap_or(&[]);
        let request = |&place: &u64| TraceRequest {
            at: nandu_base::Nanos::ZERO,
            operation: Operation::Write,
            offset_bytes: place * self.page_bytes,
            length_bytes: self.page_bytes,
            stream: 0,
        };
        let before = batch.len();
        batch.extend(places.iter().take(limit).map(request));
        self.next += batch.len() - before;
        Ok(())
    }

    fn pacing(&self) -> Pacing {
        Pacing::Closed { think_ns: nandu_base::Nanos::ZERO }
    }

    fn description(&self) -> String {
        "page writes of TPC-C".into()
    }
}

impl Writes {
    /// The writes in a recorded trace.
    fn read(trace: Vec<u8>) -> Result<Self, TraceError> {
        let mut reader = EngineTraceReader::new(Cursor::new(trace), "the trace of TPC-C")?;
        let mut layout = PageLayout::new(&reader.head().files);
        let mut writes = Self::default();
        while let Some(record) = reader.next_record()? {
            if record.event == PageEvent::Write {
                let place = layout.place(record.file, record.page);
                let place = place.expect("the database fits the memory of this run");
                writes.places.push(place);
                writes.changed_bytes.push(to_u32(record.changed_bytes()));
            }
        }
        writes.page_count = layout.page_count();
        Ok(writes)
    }

    /// How many writes warm up.
    const fn warm_up_count(&self) -> usize {
        self.places.len() / PARTS
    }

    /// How many are counted.
    const fn counted_count(&self) -> usize {
        self.places.len() - self.warm_up_count()
    }

    /// Of each counted write the place and how many writes ago the page was written, if it was.
    fn gaps(&self) -> Vec<(u64, Option<u64>)> {
        let mut last = vec![0_u64; to_index(self.page_count)];
        let mut gaps = Vec::with_capacity(self.places.len());
        for (number, &place) in (1..).zip(&self.places) {
            let before = std::mem::replace(&mut last[to_index(place)], number);
            gaps.push((place, (before > 0).then(|| number - before)));
        }
        gaps.split_off(self.warm_up_count())
    }
}

/// A part of a whole, in percent.
fn percent(part: u64, whole: usize) -> f64 {
    100.0 * part as f64 / (whole.max(1) as f64)
}

/// Percent of the writes that a log of each window absorbs, by each write's gap and by its page's mean gap.
fn absorbed(gaps: &[(u64, Option<u64>)], windows: &[f64]) -> [Vec<f64>; 2] {
    let mut of_pages: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (place, gap) in gaps {
        let sum = of_pages.entry(*place).or_default();
        sum.0 += gap.is_some() as u64;
        sum.1 += gap.unwrap_or(0);
    }
    let by_write = windows.iter().map(|window| {
        let within = gaps.iter().filter(|(_, gap)| gap.is_some_and(|gap| gap as f64 <= *window));
        percent(within.count() as u64, gaps.len())
    });
    let by_page = windows.iter().map(|window| {
        let within = of_pages.values().filter(|(count, sum)| *sum as f64 <= window * *count as f64);
        percent(within.map(|(count, _)| count).sum(), gaps.len())
    });
    [by_write.collect(), by_page.collect()]
}

/// A run of TPC-C in memory whose pages are recorded.
pub(super) struct Recording {
    pub(super) rows: TpccRows,
    pub(super) engine: EngineVariant,
    pub(super) memory: ByteCount,
    pub(super) clients: u32,
    pub(super) transaction_count: u64,
}

impl Recording {
    /// Runs TPC-C and gives back the trace of its pages.
    pub(super) fn record(&self, bench: &Bench<'_>, step: &str) -> Result<Vec<u8>, LabError> {
        let error = |error: BenchError| LabError::step(step, &error);
        let tpcc = self.rows.tpcc(bench.seed).map_err(|error| LabError::step(step, &error))?;
        let volumes = self.volumes(&tpcc).map_err(|it| error(it.into()))?;
        let settings = self.engine.settings(PAGE_BYTES, self.memory.0);
        let (database, tpcc) = self.rows.store(bench, step, (volumes, &settings))?;
        let recorded = (|| {
            let recorder = PageRecorder::begin(&database, Vec::new(), "the trace of TPC-C", false)?;
            let isolation = Isolation::default();
            let server_count = self.clients.div_ceil(super::CLIENTS_PER_SERVER);
            let seed = bench.seed;
            let load = TpccRun { tpcc, isolation, has_pauses: false, server_count, seed }.start();
            let shared: Arc<dyn Load> = Arc::new(load);
            let plan = plan(self.clients, self.transaction_count);
            let watch = Arc::new(nandu_bench::Watch::default());
            nandu_bench::run(&database, &shared, &plan, &watch, &no_clock())?;
            recorder.finish(&database)
        })();
        recorded.map(|(trace, _)| trace).map_err(error)
    }

    fn volumes(&self, tpcc: &Tpcc) -> Result<Volumes, StorageError> {
        let growth_bytes = self.transaction_count * GROWTH_BYTES;
        let bytes = 2 * (tpcc.expected_bytes() + growth_bytes + self.engine.log.0) + (64 << 20);
        let sector_count = bytes / u64::from(SECTOR_BYTES);
        let geometry = Geometry { sector_bytes: SECTOR_BYTES, sector_count };
        let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
        Ok(Volumes::new(Box::new(DeviceVolume::format(Box::new(device))?), None))
    }
}

impl TpccTrace {
    fn engine(&self) -> EngineVariant {
        EngineVariant { log: self.log, ..EngineVariant::writing(&self.set) }
    }

    /// Runs TPC-C in memory and reads what was recorded of it.
    fn record(&self, bench: &Bench<'_>, step: &str) -> Result<Writes, LabError> {
        let recording = Recording {
            rows: self.rows,
            engine: self.engine(),
            memory: self.memory,
            clients: self.clients,
            transaction_count: self.transaction_count,
        };
        let trace = recording.record(bench, step)?;
        Writes::read(trace).map_err(|error| LabError::step(step, &error))
    }

    fn trace_series(&self, writes: &Writes) -> Vec<Series> {
        let mut all = Self::empty_trace_series();
        let gaps = writes.gaps();
        let windows: Vec<f64> =
            self.window_percent.iter().map(|it| it / 100.0 * writes.page_count as f64).collect();
        let [by_write, by_page] = absorbed(&gaps, &windows);
        let mut of_pages: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut write_counts: BTreeMap<u64, u64> = BTreeMap::new();
        for (place, gap) in &gaps {
            *write_counts.entry(*place).or_default() += 1;
            of_pages.entry(*place).or_default().extend(gap);
        }
        let mut counts: Vec<u64> = write_counts.into_values().collect();
        counts.sort_unstable_by(|one, other| other.cmp(one));
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of the pages of a database"
        )]
        let to_hottest = |window: &f64| counts.iter().take(window.round() as usize).sum::<u64>();
        let hottest = windows.iter().map(|window| percent(to_hottest(window), gaps.len()));
        for (series, values) in all.iter_mut().zip([by_write, by_page, hottest.collect()]) {
            series.points = self.window_percent.iter().copied().zip(values).collect();
        }
        let hot = of_pages.values().max_by_key(|gaps| gaps.len());
        let enough = of_pages.values().filter(|gaps| gaps.len() >= GAP_COUNT_MIN);
        let cold = enough.min_by_key(|gaps| gaps.len());
        for (series, gaps) in all[3..5].iter_mut().zip([hot, cold]) {
            let shown = gaps.into_iter().flatten().take(GAP_COUNT_MAX);
            series.points =
                (1..).zip(shown).map(|(at, gap)| (f64::from(at), *gap as f64)).collect();
        }
        let page_bytes = self.engine().settings(PAGE_BYTES, self.memory.0).page_bytes;
        let counted = &writes.changed_bytes[writes.warm_up_count()..];
        let changed: u64 = counted.iter().map(|bytes| u64::from(*bytes)).sum();
        let mean = changed as f64 / counted.len().max(1) as f64;
        let small = counted.iter().filter(|bytes| **bytes <= page_bytes / 20).count() as u64;
        let places = &writes.places[writes.warm_up_count()..];
        let follows = places.windows(2).filter(|pair| pair[1] == pair[0] + 1).count() as u64;
        let told = [
            writes.page_count as f64,
            writes.places.len() as f64,
            mean,
            100.0 * mean / f64::from(page_bytes),
            percent(small, counted.len()),
            percent(follows, places.len()),
        ];
        for (series, value) in all[5..].iter_mut().zip(told) {
            series.points.push((0.0, value));
        }
        all
    }

    fn empty_trace_series() -> Vec<Series> {
        let of = |name: &str, x_unit: &str, unit: &str| Series::new(name.to_owned(), x_unit, unit);
        vec![
            of("gap.absorbed", "%", "%"),
            of("mean_gap.absorbed", "%", "%"),
            of("hottest.writes", "%", "%"),
            of("hot.gap", "", ""),
            of("cold.gap", "", ""),
            of("trace.pages", "", ""),
            of("trace.writes", "", ""),
            of("trace.differential_bytes", "", "B"),
            of("trace.differential_percent", "", "%"),
            of("trace.small_percent", "", "%"),
            of("trace.sequential_percent", "", "%"),
        ]
    }

    fn empty_layer_series(name: &str) -> Vec<Series> {
        let by_space = METRICS
            .iter()
            .map(|metric| Series::new(format!("{name}.{}", metric.label()), "%", metric.unit()));
        let over_time = WINDOW_METRICS.iter().map(|metric| {
            Series::new(format!("{name}.window_{}", metric.label()), "thousand", metric.unit())
        });
        by_space.chain(over_time).collect()
    }

    /// All of a layer, by log space and over time.
    fn layer_series(
        &self,
        bench: &mut Bench<'_>,
        (name, ftl): (&str, &FtlConfig),
        writes: &Arc<Writes>,
    ) -> Result<Vec<Series>, LabError> {
        let seed = bench.seed;
        let mut all = Self::empty_layer_series(name);
        let (by_space, over_time) = all.split_at_mut(METRICS.len());
        let point_count = self.space_percent.len() + 1;
        let mut watch = Watch { name, observer: &mut *bench.observer, done: 0, point_count };
        let failed = |error: SimError| match error {
            SimError::Cancelled => cancelled(),
            error => LabError::step(name, &error),
        };
        for &space in &self.space_percent {
            let warmed = self.warmed(ftl, (space, seed), writes, &mut watch);
            let (mut layer, mut source) = warmed.map_err(failed)?;
            let count = writes.counted_count() as u64;
            let values = layer.measure(&mut source, count, (&METRICS, &mut watch));
            for (series, value) in by_space.iter_mut().zip(values.map_err(failed)?) {
                series.points.push((space, value));
            }
            watch.done += 1;
        }
        let least = self.space_percent[0];
        let warmed = self.warmed(ftl, (least, seed), writes, &mut watch);
        let (mut layer, mut source) = warmed.map_err(failed)?;
        let window_count = (writes.counted_count() / WINDOW_WRITES).min(WINDOW_COUNT_MAX);
        for number in 1..=window_count {
            let count = WINDOW_WRITES as u64;
            let values = layer.measure(&mut source, count, (&WINDOW_METRICS, &mut watch));
            for (series, value) in over_time.iter_mut().zip(values.map_err(failed)?) {
                series.points.push((number as f64, value));
            }
        }
        Ok(all)
    }

    /// A layer that has the first of the writes behind it, and the others.
    fn warmed(
        &self,
        ftl: &FtlConfig,
        (space, seed): (f64, u64),
        writes: &Arc<Writes>,
        watch: &mut Watch<'_>,
    ) -> Result<(BareLayer, WriteSource), SimError> {
        let order = (self.chip.as_str(), writes.page_count, space / 100.0);
        let mut layer = BareLayer::build(order, ftl, seed)?;
        let page_bytes = layer.page_bytes();
        let mut source = WriteSource { writes: Arc::clone(writes), next: 0, page_bytes };
        layer.warm_up(&mut source, writes.warm_up_count() as u64, watch)?;
        Ok((layer, source))
    }

    fn check_percents(&self) -> Result<(), String> {
        let rises = |values: &[f64]| values.windows(2).all(|pair| pair[0] < pair[1]);
        let is_some = |values: &[f64]| values.first().is_some_and(|first| *first > 0.0);
        for (name, values) in
            [("window_percent", &self.window_percent), ("space_percent", &self.space_percent)]
        {
            let is_too_much = values.last().is_some_and(|last| *last > 1000.0);
            if !is_some(values) || !rises(values) || is_too_much {
                return Err(format!("`{name}` must be some values, above 0, rising, to 1000"));
            }
        }
        Ok(())
    }
}

impl Measurement for TpccTrace {
    fn check(&self) -> Result<(), String> {
        self.rows.check()?;
        check_clients(&[self.clients])?;
        self.check_percents()?;
        let transactions = u64::from(self.clients)..=TRANSACTION_COUNT_MAX;
        if !transactions.contains(&self.transaction_count) || self.layers.is_empty() {
            return Err(format!(
                "`transaction_count` must be from {} to {TRANSACTION_COUNT_MAX}; name a layer",
                self.clients
            ));
        }
        if ["gap", "mean_gap", "hottest", "hot", "cold", "trace"]
            .iter()
            .any(|name| self.layers.contains_key(*name))
        {
            return Err("`layers` has the name of a series of the trace".into());
        }
        for (name, ftl) in &self.layers {
            BareLayer::check(&self.chip, ftl)
                .map_err(|error| format!("layer `{name}`: {error}"))?;
        }
        let own = [("pool_bytes", "memory"), ("log_bytes", "log")];
        self.engine().check([PAGE_BYTES], &own)?;
        let settings = self.engine().settings(PAGE_BYTES, self.memory.0);
        settings.check().map_err(|error| format!("`memory`, `log`: {error}"))
    }

    fn series_names(&self) -> Vec<String> {
        let layers = self.layers.keys().flat_map(|name| Self::empty_layer_series(name));
        Self::empty_trace_series().into_iter().chain(layers).map(|series| series.name).collect()
    }

    fn steps(&self) -> Vec<String> {
        vec!["trace".to_owned()]
    }

    fn run_step(&self, _index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let writes = Arc::new(self.record(bench, "trace")?);
        let mut series = self.trace_series(&writes);
        for (name, ftl) in &self.layers {
            series.extend(self.layer_series(bench, (name, ftl), &writes)?);
        }
        Ok(series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(places: &[u64]) -> Writes {
        Writes { places: places.to_vec(), changed_bytes: vec![10; places.len()], page_count: 10 }
    }

    #[test]
    fn a_gap_counts_the_writes_since_and_the_first_third_only_fills() {
        let writes = writes(&[1, 2, 1, 1, 3, 2, 1, 4, 3]);
        let gaps = [(1, Some(1)), (3, None), (2, Some(4)), (1, Some(3)), (4, None), (3, Some(4))];
        assert_eq!(writes.gaps(), gaps);
        let [by_write, by_page] = absorbed(&gaps, &[2.0, 3.0, 4.0]);
        let sixth = 100.0 / 6.0;
        assert_eq!(by_write, [sixth, 2.0 * sixth, 4.0 * sixth]);
        // Of page 1 the mean is 2, so both of its writes are within that.
        assert_eq!(by_page, [2.0 * sixth, 2.0 * sixth, 4.0 * sixth]);
    }
}
