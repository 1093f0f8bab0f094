//! Translation layers straight over a chip, under the same writes, by one quantity that varies.
//!
//! ```text
//!   variant: layer, workload ─┐
//!   x of the sweep ───────────┴─► chip + layer ─► full, in steady state ─► warm-up ─► measured
//! ```
//!
//! One server, first come first served: a response time is what the flash commands of a write take.
//! The logical space keeps its size; spare space comes on top of it and is a log or over-provisioning,
//! as the layer has it. What a layer keeps aside to be able to clean at all comes on top of both, so
//! that the layers compare at equal spare space. All variants see the same requests.
//!
//! One step for each variant, with the series `VARIANT.METRIC` by x. Where writes are swept, one run is cut
//! into windows that end at x: response times as they go on. Closed forms may stand beside
//! them: `closed_form` is greedy cleaning under uniform writes at that spare space, with the times that
//! whole erase blocks cleaned at once give; `optimum` is the best division of the spare space among the
//! classes of the workload (flash reference 2.1.4 to 2.1.6).

mod bare;
mod cache;
mod metric;
mod theory;

pub(super) use bare::BareLayer;
pub use metric::Metric;
pub use theory::ClosedCurve;

use super::Measurement;
use super::bench::Bench;
use crate::error::LabError;
use crate::outcome::Series;
use crate::run::RunObserver;
use cache::WriteCache;
use metric::Measured;
use nandu_base::{Nanos, to_u32};
use nandu_ftl::FtlConfig;
use nandu_nand::{ChipOverrides, Geometry, NandArray, NandConfig, NandProfile, Timing};
use nandu_sim::{InitialState, Phase, RunConfig, SimError, SimObserver};
use nandu_trace::WorkloadSpec;
use nandu_trace::workload::Generator;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Spare space that a sweep may ask for, over the logical size.
const SPARE_MAX: f64 = 20.0;
/// Logical erase blocks of the smallest chip that has a steady state.
const ERASE_BLOCK_COUNT_MIN: u32 = 64;

/// The keys of an experiment of the kind `simulation`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulation {
    /// Chip preset; one plane of one die.
    pub chip: String,
    /// Flash pages of an erase block, where not the preset's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erase_block_page_count: Option<u32>,
    /// Time of a flash read, where not the preset's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ns: Option<Nanos>,
    /// Time of a program, where not the preset's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_ns: Option<Nanos>,
    /// Time of an erase, where not the preset's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erase_ns: Option<Nanos>,
    /// Logical size in erase blocks, at least 64.
    pub logical_erase_block_count: u32,
    /// Spare space over the logical size, in percent, where it is not swept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare_percent: Option<f64>,
    /// Writes of whole flash pages in the grammar of `nandu_trace`; `{x}` and `{1-x}` stand for the
    /// value of a sweep of workloads and for what it lacks of one.
    pub workload: String,
    /// Writes before the measurement, over those that cover the logical space.
    pub warm_up_rounds: f64,
    /// Writes of the measurement, over those that cover the logical space; a sweep of `writes` says them
    /// itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<f64>,
    /// The setting that varies, and its values.
    pub sweep: Sweep,
    /// What is compared.
    pub variants: BTreeMap<String, Variant>,
    /// What is reported.
    pub metrics: Vec<Metric>,
    /// Closed forms beside the variants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed_curves: Vec<ClosedCurve>,
}

/// A translation layer with what differs from the other variants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// The layer; its log takes the spare space if it has one.
    pub ftl: FtlConfig,
    /// Another workload than the common one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// The x at which the chip would be full of data, where it is not 1, in a sweep of the fill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_at: Option<f64>,
    /// The spare space over that of the sweep, where it is not 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare_factor: Option<f64>,
    /// Pages of a write cache before the layer that keeps what was written last, over the logical
    /// pages, in parts per million. What it absorbs counts as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_cache_ppm: Option<u32>,
}

/// The quantity that varies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Which quantity varies.
    pub of: SweptQuantity,
    /// Unit of x in tables of figures; percent of a spare space unless stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Its values, rising.
    pub values: Vec<f64>,
}

/// What the sweep of a simulation varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SweptQuantity {
    /// Spare space over the logical size, in percent.
    SparePercent,
    /// Logical size over what holds data or spare space.
    Fill,
    /// A parameter of the workload: what stands for `{x}`.
    Workload,
    /// Measured writes so far, in thousands: one run, of which each value is the end of a window.
    Writes,
}

impl SweptQuantity {
    /// Whether the spare space is the same at every x.
    const fn keeps_spare(self) -> bool {
        matches!(self, Self::Workload | Self::Writes)
    }
}

impl Simulation {
    fn series(&self, name: &str) -> Vec<Series> {
        let x_unit = match (&self.sweep.unit, self.sweep.of) {
            (Some(unit), _) => unit,
            (None, SweptQuantity::SparePercent) => "%",
            (None, SweptQuantity::Writes) => "thousand",
            (None, _) => "",
        };
        let empty = |metric: &Metric| {
            Series::new(format!("{name}.{}", metric.label()), x_unit, metric.unit())
        };
        self.metrics.iter().map(empty).collect()
    }

    /// Spare over logical size at `x`, of a variant or of closed forms.
    fn spare(&self, variant: Option<&Variant>, x: f64) -> f64 {
        let spare = match self.sweep.of {
            SweptQuantity::SparePercent => x / 100.0,
            SweptQuantity::Fill => {
                variant.and_then(|variant| variant.full_at).unwrap_or(1.0) / x - 1.0
            }
            SweptQuantity::Workload | SweptQuantity::Writes => {
                self.spare_percent.unwrap_or_default() / 100.0
            }
        };
        spare * variant.and_then(|variant| variant.spare_factor).unwrap_or(1.0)
    }

    /// The workload of a variant, or the common one, at `x`.
    fn workload_at(&self, variant: Option<&Variant>, x: f64) -> Result<WorkloadSpec, String> {
        let text = variant.and_then(|variant| variant.workload.as_ref()).unwrap_or(&self.workload);
        let text = text.replace("{x}", &decimal(x)).replace("{1-x}", &decimal(1.0 - x));
        let spec = WorkloadSpec::parse(&text).map_err(|error| error.to_string())?;
        let is_plain = spec.sizes.is_empty() && spec.align_bytes.is_none();
        if !is_plain || spec.read_ppb > 0 || spec.trim_ppb > 0 || spec.request_count.is_some() {
            return Err(format!("workload `{text}` must write whole flash pages without an end"));
        }
        Ok(spec)
    }

    fn profile(&self, erase_block_count: u32) -> NandProfile {
        NandProfile {
            preset: self.chip.clone(),
            channel_count: 1,
            dies_per_channel: 1,
            planes_per_die: Some(1),
            erase_blocks_per_plane: erase_block_count,
            overrides: ChipOverrides {
                flash_pages_per_erase_block: self.erase_block_page_count,
                read_ns: self.read_ns,
                program_ns: self.program_ns,
                erase_ns: self.erase_ns,
                ..ChipOverrides::default()
            },
            ..NandProfile::default()
        }
    }

    /// Figures of the chip that the experiment need not say, by their key.
    pub(crate) fn chip_figures(&self) -> Vec<(&'static str, u64)> {
        let Ok(chip) = self.bare_chip() else { return Vec::new() };
        vec![
            ("read_ns", chip.timing.read_ns.0),
            ("program_ns", chip.timing.program_ns.0),
            ("erase_ns", chip.timing.erase_ns.0),
            ("erase_block_page_count", u64::from(chip.geometry.flash_pages_per_erase_block)),
        ]
    }

    /// A chip that just holds the logical space: its page and erase block, and its times.
    fn bare_chip(&self) -> Result<NandConfig, String> {
        self.profile(self.logical_erase_block_count).resolve().map_err(|error| error.to_string())
    }

    fn logical_page_count(&self, shape: &Geometry) -> u64 {
        u64::from(self.logical_erase_block_count) * u64::from(shape.flash_pages_per_erase_block)
    }

    /// Measures `variant` in a run of its own for each x, or in a run whose windows end there.
    fn measure_all(
        &self,
        variant: &Variant,
        seed: u64,
        watch: &mut Watch<'_>,
    ) -> Result<Vec<(f64, Measured)>, (f64, SimError)> {
        let values = &self.sweep.values;
        if self.sweep.of == SweptQuantity::Writes {
            return self.measure_windows(variant, seed, watch).map_err(|error| (values[0], error));
        }
        let mut all = Vec::with_capacity(values.len());
        for (done, &x) in values.iter().enumerate() {
            watch.done = done;
            let run = self.start(variant, x, seed, watch);
            let request_count =
                times(self.unit_count().unwrap_or(0), self.rounds.unwrap_or(1.0)).max(1);
            let measured = run.and_then(|mut run| run.measure(request_count, watch));
            all.push((x, measured.map_err(|error| (x, error))?));
        }
        Ok(all)
    }

    fn measure_windows(
        &self,
        variant: &Variant,
        seed: u64,
        watch: &mut Watch<'_>,
    ) -> Result<Vec<(f64, Measured)>, SimError> {
        let mut run = self.start(variant, self.sweep.values[0], seed, watch)?;
        let mut all = Vec::with_capacity(self.sweep.values.len());
        let mut written = 0;
        for (done, &x) in self.sweep.values.iter().enumerate() {
            watch.done = done;
            let end = times(1000, x);
            all.push((x, run.measure(end - written, watch)?));
            written = end;
        }
        Ok(all)
    }

    fn unit_count(&self) -> Result<u64, String> {
        Ok(self.logical_page_count(&self.bare_chip()?.geometry))
    }

    /// `variant` at `x`, warmed up.
    fn start(
        &self,
        variant: &Variant,
        x: f64,
        seed: u64,
        watch: &mut Watch<'_>,
    ) -> Result<Run, SimError> {
        let wrong = |text: String| SimError::Setting(text);
        let (mut simulation, config) =
            self.build(&variant.ftl, self.spare(Some(variant), x), seed)?;
        let shape = config.geometry;
        let unit_count = self.logical_page_count(&shape);
        let logical_bytes = unit_count * u64::from(shape.flash_page_bytes);
        let spec = self.workload_at(Some(variant), x).map_err(wrong)?;
        let page_bytes = u64::from(shape.flash_page_bytes);
        let source = spec.source(logical_bytes, page_bytes, seed)?;
        let room = unit_count * u64::from(variant.write_cache_ppm.unwrap_or(0)) / 1_000_000;
        let mut source = WriteCache::new(source, room);
        simulation.warm_up(&mut source, times(unit_count, self.warm_up_rounds), watch)?;
        let chip = (config.timing, shape.flash_pages_per_erase_block);
        Ok(Run { simulation, source, chip })
    }

    /// A layer over a chip with so much spare space over the logical size, in a steady state.
    fn build(
        &self,
        ftl: &FtlConfig,
        spare: f64,
        seed: u64,
    ) -> Result<(nandu_sim::Simulation, NandConfig), SimError> {
        let fail = |error: &dyn std::fmt::Display| SimError::Setting(error.to_string());
        let shape = self.bare_chip().map_err(SimError::Setting)?.geometry;
        let unit_count = self.logical_page_count(&shape);
        let logical_bytes = unit_count * u64::from(shape.flash_page_bytes);
        let (ftl, over_provisioning_ppm) = self.with_spare(ftl, parts_per_million(spare));
        let count = ftl.erase_blocks_per_plane(&shape, logical_bytes, over_provisioning_ppm);
        let config = self.profile(count).resolve().map_err(|error| fail(&error))?;
        let nand = NandArray::new(config).map_err(|error| fail(&error))?;
        let layer = ftl.build(&nand, unit_count, seed).map_err(|error| fail(&error))?;
        let run = RunConfig { seed, initial: Some(InitialState::Steady), ..RunConfig::default() };
        Ok((nandu_sim::Simulation::new(nand, layer, &run)?, config))
    }

    /// The layer with a log of that size, if it has one, and the over-provisioning that is left.
    fn with_spare(&self, ftl: &FtlConfig, spare_ppm: u32) -> (FtlConfig, u32) {
        let mut ftl = ftl.clone();
        match &mut ftl {
            FtlConfig::Bast(config) => {
                let blocks = u64::from(self.logical_erase_block_count) * u64::from(spare_ppm);
                config.log_block_count = to_u32(blocks.div_ceil(1_000_000));
            }
            FtlConfig::Fast(config) => config.log_ppm = spare_ppm,
            FtlConfig::Faster(config) => config.log_ppm = spare_ppm,
            _ => return (ftl, spare_ppm),
        }
        (ftl, 0)
    }

    fn check_sweep(&self) -> Result<(), String> {
        let values = &self.sweep.values;
        if values.is_empty() || values.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err("`values` of the sweep must be some, and rise".into());
        }
        if self.sweep.of.keeps_spare() != self.spare_percent.is_some() {
            return Err(
                "`spare_percent` belongs to a sweep of `workload` or `writes`, and to no other"
                    .into(),
            );
        }
        let sweeps_writes = self.sweep.of == SweptQuantity::Writes;
        if sweeps_writes == self.rounds.is_some() || sweeps_writes && values[0] < 0.001 {
            return Err(
                "`rounds` belongs to every sweep but that of `writes`, whose windows are above 0"
                    .into(),
            );
        }
        let variants = self.variants.values();
        for (variant, &x) in variants.flat_map(|of| values.iter().map(move |x| (of, x))) {
            let spare = self.spare(Some(variant), x);
            if !(0.001..=SPARE_MAX).contains(&spare) {
                return Err(format!(
                    "at {x} the spare space is {spare:.4} of the logical size, must be 0.001 to \
                     {SPARE_MAX}"
                ));
            }
        }
        Ok(())
    }
}

impl Measurement for Simulation {
    fn check(&self) -> Result<(), String> {
        let shape = self.bare_chip()?.geometry;
        if self.logical_erase_block_count < ERASE_BLOCK_COUNT_MIN {
            return Err(format!(
                "`logical_erase_block_count` must be at least {ERASE_BLOCK_COUNT_MIN}"
            ));
        }
        if self.variants.is_empty() || self.metrics.is_empty() {
            return Err("`variants` and `metrics` need at least one each".into());
        }
        if !(0.0..=1000.0).contains(&self.warm_up_rounds)
            || !(0.01..=1000.0).contains(&self.rounds.unwrap_or(1.0))
        {
            return Err("`warm_up_rounds` must be 0 to 1000, `rounds` 0.01 to 1000".into());
        }
        self.check_sweep()?;
        for (name, variant) in &self.variants {
            if self.closed_curves.iter().any(|curve| curve.label() == name) {
                return Err(format!("variant `{name}` has the name of a closed form"));
            }
            if variant.write_cache_ppm.is_some_and(|ppm| ppm > 100_000) {
                return Err(format!(
                    "variant `{name}`: `write_cache_ppm` is above 100000, a tenth"
                ));
            }
            if variant.ftl.units_per_flash_page(shape.flash_page_bytes) != 1 {
                return Err(format!("variant `{name}`: a unit must be a flash page"));
            }
            for &x in &self.sweep.values {
                self.workload_at(Some(variant), x).map_err(|error| format!("{name}: {error}"))?;
            }
        }
        self.check_curves()
    }

    fn series_names(&self) -> Vec<String> {
        let variants = self.variants.keys().flat_map(|name| self.series(name));
        let curves = self.closed_curves.iter().flat_map(|curve| self.curve_series(*curve));
        variants.chain(curves).map(|series| series.name).collect()
    }

    fn steps(&self) -> Vec<String> {
        let curves = self.closed_curves.iter().map(|curve| curve.label().to_owned());
        self.variants.keys().cloned().chain(curves).collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let Some((name, variant)) = self.variants.iter().nth(index) else {
            return Ok(self.draw_curve(self.closed_curves[index - self.variants.len()]));
        };
        let mut series = self.series(name);
        let point_count = self.sweep.values.len();
        let mut watch = Watch { name, observer: &mut *bench.observer, done: 0, point_count };
        let measured = match self.measure_all(variant, bench.seed, &mut watch) {
            Ok(measured) => measured,
            Err((_, SimError::Cancelled)) => {
                return Err(LabError::Cancelled { finished_count: 0, step_count: 0 });
            }
            Err((x, error)) => {
                return Err(LabError::step(name, &format!("at {}: {error}", decimal(x))));
            }
        };
        for (series, metric) in series.iter_mut().zip(&self.metrics) {
            series.points = measured.iter().map(|(x, of)| (*x, metric.of(of))).collect();
        }
        Ok(series)
    }
}

/// A variant under way.
struct Run {
    simulation: nandu_sim::Simulation,
    source: WriteCache<Generator>,
    /// Times, and pages of an erase block.
    chip: (Timing, u32),
}

impl Run {
    fn measure(&mut self, request_count: u64, watch: &mut Watch<'_>) -> Result<Measured, SimError> {
        let before = self.source.write_count;
        let measured = self.simulation.measure(&mut self.source, request_count, watch)?;
        let host_pages = self.source.write_count - before;
        self.simulation.ftl().audit(self.simulation.nand());
        Ok(Measured::new(&measured, self.chip, host_pages))
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to lie in 0.001..=20"
)]
fn parts_per_million(share: f64) -> u32 {
    (share * 1e6).round() as u32
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounds are checked to lie in 0..=1000, and a chip has fewer than 2^40 pages"
)]
fn times(unit_count: u64, rounds: f64) -> u64 {
    (unit_count as f64 * rounds).round() as u64
}

/// A number as workloads write it: without an exponent, and without the dust of binary fractions.
fn decimal(x: f64) -> String {
    let text = format!("{x:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Passes progress on to whoever watches the run.
pub(super) struct Watch<'a> {
    pub(super) name: &'a str,
    pub(super) observer: &'a mut dyn RunObserver,
    /// Points that are done, and all of the step.
    pub(super) done: usize,
    pub(super) point_count: usize,
}

impl SimObserver for Watch<'_> {
    fn progress(&mut self, phase: Phase, done: u64, total: u64) {
        let part = done as f64 / total.max(1) as f64;
        let of_point = if phase == Phase::WarmUp { 0.5 * part } else { 0.5 + 0.5 * part };
        let fraction = (self.done as f64 + of_point) / self.point_count as f64;
        self.observer.progress(fraction.clamp(0.0, 1.0), self.name);
    }

    fn is_cancelled(&self) -> bool {
        self.observer.is_cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Unwatched;

    const SMALL: &str = "
        chip = 'myers_slc'
        logical_erase_block_count = 128
        workload = 'uniform'
        warm_up_rounds = 1
        rounds = 1
        metrics = ['mean_ms', 'stddev_ms', 'copy_ms', 'write_amplification', 'programs_thousand']
        closed_curves = ['closed_form']
        sweep = { of = 'spare_percent', values = [10, 25] }
        [variants.page]
        ftl = { kind = 'page', cleaning_frontier = 'shared' }
        [variants.fast]
        ftl = { kind = 'fast', sw_trigger = 'off' }
    ";

    fn simulation(text: &str) -> Simulation {
        toml::from_str(text).unwrap()
    }

    fn error_of(old: &str, new: &str) -> String {
        assert!(SMALL.contains(old));
        simulation(&SMALL.replace(old, new)).check().unwrap_err()
    }

    fn series(simulation: &Simulation, seed: u64) -> BTreeMap<String, Series> {
        simulation.check().unwrap();
        let mut observer = Unwatched;
        let mut bench = Bench {
            seed,
            local: None,
            local_subject: None,
            observer: &mut observer,
            notes: Vec::new(),
            power: nandu_device::PowerLog::default(),
        };
        let steps = 0..simulation.steps().len();
        let all = steps.flat_map(|step| simulation.run_step(step, &mut bench).unwrap());
        all.map(|series| (series.name.clone(), series)).collect()
    }

    #[test]
    fn a_page_map_and_fast_cost_what_their_closed_forms_say() {
        let measured = series(&simulation(SMALL), 3);
        let at = |name: &str, x: f64| measured[name].at(x).unwrap();
        for metric in ["write_amplification", "mean_ms", "stddev_ms"] {
            let ratio =
                at(&format!("page.{metric}"), 25.0) / at(&format!("closed_form.{metric}"), 25.0);
            // A hundred erase blocks are few, and one of them more or less counts.
            assert!((0.92..1.05).contains(&ratio), "{metric}: {ratio}");
        }
        // A log block costs k full merges and its erase, for k as in flash reference 2.4.3.
        let merges = nandu_ftl::closed_form::fast_merges_per_log_block(64.0, 0.25);
        let mean_ms = 0.2 + (merges * (64.0 * 0.22 + 1.5) + 1.5) / 64.0;
        let ratio = at("fast.mean_ms", 25.0) / mean_ms;
        assert!((0.93..1.07).contains(&ratio), "FAST {ratio}");
        // A read and a program, found again in mean and deviation of the page map.
        assert!((at("page.copy_ms", 25.0) / 0.22 - 1.0).abs() < 0.02);
        // All that is programmed for 8192 writes.
        let thousand = at("fast.write_amplification", 10.0) * 8.192;
        assert!((at("fast.programs_thousand", 10.0) / thousand - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_seed_decides_everything() {
        let simulation = simulation(SMALL);
        assert_eq!(series(&simulation, 3), series(&simulation, 3));
        assert_ne!(series(&simulation, 3), series(&simulation, 4));
    }

    #[test]
    fn every_measured_series_was_announced() {
        let simulation = simulation(SMALL);
        let announced = simulation.series_names();
        assert!(series(&simulation, 1).keys().all(|name| announced.contains(name)));
        assert!(!announced.contains(&"closed_form.programs_thousand".to_owned()));
    }

    #[test]
    fn a_sweep_of_workloads_fills_in_both_shares() {
        let text = SMALL
            .replace("'uniform'", "'zones:s{1-x}f{x}+s{x}f{1-x}'\nspare_percent = 25")
            .replace("'closed_form'", "'optimum'")
            .replace(
                "of = 'spare_percent', values = [10, 25]",
                "of = 'workload', values = [0.5, 0.9]",
            );
        let simulation = simulation(&text);
        let spec = simulation.workload_at(None, 0.9).unwrap();
        assert_eq!(spec, WorkloadSpec::parse("zones:s0.1f0.9+s0.9f0.1").unwrap());
        let measured = series(&simulation, 2);
        let optimum = &measured["optimum.write_amplification"];
        // Without skew the optimum is FIFO cleaning of one pool; with skew it is cheaper.
        let fifo = nandu_ftl::closed_form::fifo_write_amplification(1.25);
        assert!((optimum.at(0.5).unwrap() / fifo - 1.0).abs() < 1e-6);
        assert!(optimum.at(0.9).unwrap() < 0.8 * fifo);
    }

    #[test]
    fn a_fill_is_logical_over_physical_size_or_over_a_stated_one() {
        let text = SMALL
            .replace("of = 'spare_percent', values = [10, 25]", "of = 'fill', values = [0.5, 0.8]");
        let simulation = simulation(&text);
        assert!((simulation.spare(None, 0.8) - 0.25).abs() < 1e-12);
        let mut variant = simulation.variants["page"].clone();
        (variant.full_at, variant.spare_factor) = (Some(1000.0), Some(2.0));
        assert!((simulation.spare(Some(&variant), 400.0) - 3.0).abs() < 1e-12);
    }

    #[test]
    fn windows_of_writes_are_parts_of_one_run() {
        let text = SMALL
            .replace("closed_curves = ['closed_form']", "spare_percent = 10")
            .replace("'stddev_ms'", "'max_ms'")
            .replace("rounds = 1\n        metrics", "metrics")
            .replace(
                "of = 'spare_percent', values = [10, 25]",
                "of = 'writes', values = [2, 8.192]",
            );
        let (windows, whole) = (series(&simulation(&text), 3), series(&simulation(SMALL), 3));
        for layer in ["page", "fast"] {
            let at = |metric: &str, x: f64| windows[&format!("{layer}.{metric}")].at(x).unwrap();
            let mean = (2.0 * at("mean_ms", 2.0) + 6.192 * at("mean_ms", 8.192)) / 8.192;
            let expected = whole[&format!("{layer}.mean_ms")].at(10.0).unwrap();
            assert!((mean / expected - 1.0).abs() < 1e-9, "{layer} {mean} {expected}");
            assert!(at("max_ms", 2.0) > at("mean_ms", 2.0));
        }
        let rounds = text.replace("metrics", "rounds = 1\n        metrics");
        assert!(simulation(&rounds).check().unwrap_err().contains("`rounds` belongs"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        assert!(error_of("'myers_slc'", "'myers'").contains("myers"));
        assert!(error_of("= 128", "= 12").contains("logical_erase_block_count"));
        assert!(error_of("'uniform'", "'uniform:read=30'").contains("whole flash pages"));
        assert!(error_of("'uniform'", "'unifrom'").contains("did you mean `uniform`"));
        assert!(error_of("[10, 25]", "[25, 10]").contains("rise"));
        assert!(error_of("[10, 25]", "[0, 25]").contains("spare space is"));
        assert!(
            error_of("closed_curves", "spare_percent = 3\nclosed_curves").contains("spare_percent")
        );
        assert!(error_of("variants.fast", "variants.closed_form").contains("closed form"));
        let sequential =
            SMALL.replace("'uniform'", "'sequential'").replace("'closed_form'", "'optimum'");
        assert!(simulation(&sequential).check().unwrap_err().contains("no optimum"));
    }
}
