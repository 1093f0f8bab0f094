//! Closed forms that stand beside simulated layers.

use super::{Metric, Simulation};
use crate::outcome::Series;
use nandu_base::HotColdClass;
use nandu_ftl::closed_form::{
    cleaned_write_time, greedy_write_amplification, separated_write_amplification, zipf_classes,
};
use nandu_trace::WorkloadSpec;
use nandu_trace::workload::WorkloadKind;
use serde::{Deserialize, Serialize};

/// A curve without a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosedCurve {
    /// Greedy cleaning of uniform writes (Desnoyers, SYSTOR 2012), whatever the workload is; whole
    /// erase blocks are cleaned at once.
    ClosedForm,
    /// The least write amplification that keeping the classes of the workload apart can reach.
    Optimum,
}

impl ClosedCurve {
    /// Its part of a series name.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::ClosedForm => "closed_form",
            Self::Optimum => "optimum",
        }
    }

    /// Whether it has a value for that metric.
    const fn knows(self, metric: Metric) -> bool {
        match self {
            Self::ClosedForm => {
                matches!(metric, Metric::WriteAmplification | Metric::MeanMs | Metric::StddevMs)
            }
            Self::Optimum => matches!(metric, Metric::WriteAmplification),
        }
    }
}

impl Simulation {
    pub(super) fn curve_series(&self, curve: ClosedCurve) -> Vec<Series> {
        let known = self.metrics.iter().map(|metric| curve.knows(*metric));
        let series = self.series(curve.label()).into_iter().zip(known);
        series.filter(|(_, known)| *known).map(|(series, _)| series).collect()
    }

    pub(super) fn check_curves(&self) -> Result<(), String> {
        for &curve in &self.closed_curves {
            if self.curve_series(curve).is_empty() {
                return Err(format!("`{}` has none of the `metrics`", curve.label()));
            }
            if curve == ClosedCurve::Optimum {
                for &x in &self.sweep.values {
                    classes_of(&self.workload_at(None, x)?)?;
                }
            }
        }
        let is_common = self.variants.values().all(|variant| variant.full_at.is_none());
        if !is_common && !self.closed_curves.is_empty() {
            return Err("with `full_at` of its own a variant has no common closed form".into());
        }
        Ok(())
    }

    pub(super) fn draw_curve(&self, curve: ClosedCurve) -> Vec<Series> {
        let mut series = self.curve_series(curve);
        let metrics = self.metrics.iter().copied().filter(|metric| curve.knows(*metric));
        for (series, metric) in series.iter_mut().zip(metrics) {
            let points = self.sweep.values.iter().map(|&x| (x, self.curve_at(curve, metric, x)));
            series.points = points.collect();
        }
        series
    }

    fn curve_at(&self, curve: ClosedCurve, metric: Metric, x: f64) -> f64 {
        let chip = self.bare_chip().expect("the chip was checked");
        let alpha = 1.0 + self.spare(None, x);
        let pages = f64::from(chip.geometry.flash_pages_per_erase_block);
        match curve {
            ClosedCurve::ClosedForm => {
                let amplification = greedy_write_amplification(alpha, pages);
                let timing = chip.timing;
                let [read, write, erase] =
                    [timing.read_ns, timing.program_ns, timing.erase_ns].map(|t| t.0 as f64 / 1e6);
                let (mean, stddev) = cleaned_write_time(amplification, read, write, erase, pages);
                match metric {
                    Metric::MeanMs => mean,
                    Metric::StddevMs => stddev,
                    _ => amplification,
                }
            }
            ClosedCurve::Optimum => {
                let spec = self.workload_at(None, x).expect("workloads were checked");
                let mut classes = classes_of(&spec).expect("workloads were checked");
                if let WorkloadKind::Zipf { theta_ppm } = spec.kind {
                    let unit_count = self.logical_page_count(&chip.geometry);
                    classes = zipf_classes(f64::from(theta_ppm) / 1e6, unit_count);
                }
                separated_write_amplification(1.0 / alpha, &classes)
            }
        }
    }
}

/// The classes of a workload; of a Zipf distribution any, since they depend on the drive.
fn classes_of(spec: &WorkloadSpec) -> Result<Vec<HotColdClass>, String> {
    let whole = vec![HotColdClass { access_share: 1.0, item_share: 1.0 }];
    match &spec.kind {
        WorkloadKind::Zones { classes } => {
            let class = |class: &nandu_trace::workload::Class| HotColdClass {
                access_share: f64::from(class.access_ppb) / 1e9,
                item_share: f64::from(class.space_ppb) / 1e9,
            };
            Ok(classes.iter().map(class).collect())
        }
        WorkloadKind::Uniform | WorkloadKind::Zipf { .. } => Ok(whole),
        _ => Err(format!("no optimum is known for the workload `{spec}`")),
    }
}
