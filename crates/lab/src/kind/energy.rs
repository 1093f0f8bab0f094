//! What machines drew, and how much work that was for a joule: S004, section 6.3, table 2.
//!
//! ```text
//!   [measure.measured.NAME]   hours, idle_kwh, runs = { NAME = { operation_count, kwh } }
//!   [measure.simulated]       the keys of the kind `tpox`, with `hosts`
//! ```
//!
//! Series, at 1:
//!
//! - `measured.MACHINE.RUN.watts` (mean), `.per_joule` (work for a joule) and `.per_joule_as_published` (in
//!   the unit of S004's table 2, 3.6 times as much); `RUN` is `idle`, too;
//! - `rho` (power of the first of `compared` over that of the second, idle), `RUN.efficiency.idle_power`
//!   (work for a joule of the first over that of the second, as S004 computes it from rho) and
//!   `RUN.efficiency.energy` (the same from what both used at work).
//!
//! Of what is simulated, the series of `tpox`, and `DRIVE.idle.watts` and `DRIVE.idle.per_joule` of an hour
//! without work, at 1.
//!
//! 1. The arithmetic is that of `nandu_energy::model`; what it is applied to stands in the experiment.
//! 2. Every figure that follows is a number: figures that lead to none, or to an infinite one, are refused.

use super::Measurement;
use super::bench::Bench;
use super::tpox::TpoxMix;
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::Nanos;
use nandu_device::EnergyReport;
use nandu_energy::model::{efficiency_from_energy, efficiency_from_idle_power};
use nandu_energy::{ProcessorUse, RunEnergy};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How long an idle drive is simulated.
const IDLE: Nanos = Nanos::from_seconds(3600);
/// The name of a run without work.
const IDLE_RUN: &str = "idle";

/// The keys of an experiment of the kind `energy`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Energy {
    /// Machines whose energy somebody measured.
    pub measured: BTreeMap<String, MeasuredMachine>,
    /// Which two of them are compared: the first over the second.
    pub compared: [String; 2],
    /// To how many places rho is rounded before it is used; not at all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rho_places: Option<u8>,
    /// Simulated drives beside them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<TpoxMix>,
}

/// A machine whose energy somebody measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredMachine {
    /// How long each run was.
    pub hours: f64,
    /// Energy of a run without work.
    pub idle_kwh: f64,
    /// Runs with work, by name.
    pub runs: BTreeMap<String, MeasuredRun>,
}

/// A run whose energy somebody measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredRun {
    /// Transactions of the whole run.
    pub operation_count: f64,
    /// Energy of the whole run.
    pub kwh: f64,
}

impl MeasuredMachine {
    /// All runs by name, that without work first.
    fn all_runs(&self) -> Vec<(&str, RunEnergy)> {
        let idle = RunEnergy { operation_count: 0.0, kwh: self.idle_kwh };
        let with_work = self.runs.iter().map(|(name, run)| {
            (name.as_str(), RunEnergy { operation_count: run.operation_count, kwh: run.kwh })
        });
        std::iter::once((IDLE_RUN, idle)).chain(with_work).collect()
    }
}

impl Energy {
    /// The two machines that are compared, as `check` made sure.
    fn pair(&self) -> [&MeasuredMachine; 2] {
        [&self.measured[&self.compared[0]], &self.measured[&self.compared[1]]]
    }

    fn rho(&self) -> f64 {
        let [first, second] = self.pair();
        (first.idle_kwh / first.hours) / (second.idle_kwh / second.hours)
    }

    /// rho as it is used.
    fn rho_used(&self) -> f64 {
        self.rho_places.map_or_else(
            || self.rho(),
            |places| {
                let scale = 10_f64.powi(i32::from(places));
                (self.rho() * scale).round() / scale
            },
        )
    }

    /// Every figure that follows from what is in the experiment.
    fn arithmetic(&self) -> Vec<Series> {
        let mut series = Vec::new();
        let mut add = |name: String, unit: &str, value: f64| {
            series.push(Series { points: vec![(1.0, value)], ..Series::new(name, "", unit) });
        };
        for (machine, measured) in &self.measured {
            for (name, run) in measured.all_runs() {
                let stem = format!("measured.{machine}.{name}");
                add(format!("{stem}.watts"), "W", run.mean_watts(measured.hours));
                add(format!("{stem}.per_joule"), "1/J", run.operations_per_joule());
                let published = run.operations_per_joule_as_published();
                add(format!("{stem}.per_joule_as_published"), "1/J", published);
            }
        }
        add("rho".into(), "", self.rho());
        let [first, second] = self.pair();
        for (name, run) in &first.runs {
            let Some(other) = second.runs.get(name) else { continue };
            let energies = [run, other]
                .map(|run| RunEnergy { operation_count: run.operation_count, kwh: run.kwh });
            let rates = [run.operation_count / first.hours, other.operation_count / second.hours];
            let by_idle = efficiency_from_idle_power(rates[0], rates[1], self.rho_used());
            add(format!("{name}.efficiency.idle_power"), "", by_idle);
            let by_energy = efficiency_from_energy(energies[0], energies[1]);
            add(format!("{name}.efficiency.energy"), "", by_energy);
        }
        series
    }

    /// Checks that rho is above 0, also rounded, and invariant 2.
    fn check_arithmetic(&self) -> Result<(), String> {
        let (rho, used) = (self.rho(), self.rho_used());
        if !(used.is_finite() && used > 0.0) {
            return Err(match self.rho_places {
                Some(places) => {
                    format!("`rho_places` is {places}, which makes {used} of rho = {rho}")
                }
                None => format!("`idle_kwh`: rho is {rho}, must be above 0"),
            });
        }
        let infinite = |series: &Series| series.points.iter().any(|(_, value)| !value.is_finite());
        self.arithmetic().into_iter().find(infinite).map_or(Ok(()), |series| {
            Err(format!("`measured`: `{}` is no finite number with these figures", series.name))
        })
    }

    /// Names of drives that are simulated idle.
    fn idle_drives(&self) -> Vec<&str> {
        self.simulated.iter().flat_map(|mix| mix.drives.keys()).map(String::as_str).collect()
    }

    /// An hour of drive `name` and its host without work.
    fn idle(&self, name: &str, bench: &Bench<'_>, step: &str) -> Result<Vec<Series>, LabError> {
        let mix = self.simulated.as_ref().expect("a drive is of what is simulated");
        let wrong = |what: &str| LabError::Step { step: step.into(), message: what.into() };
        let mut drive = mix.drives[name].open(name, bench.seed).map_err(|what| wrong(&what))?;
        let (begun_at, before) = (drive.now(), drive.counters().energy);
        let end = drive.idle_until(begun_at + IDLE);
        let used = drive.counters().energy.zip(before).map(|(after, before)| after.since(&before));
        let used = used.ok_or_else(|| wrong("the drive tells no energy"))?;
        let mut report = EnergyReport::of_model(&used, end - begun_at, 0);
        if let Some(host) = mix.host_of(name).map_err(|what| wrong(&what))? {
            report = host.with_drives(report, ProcessorUse::default(), 0);
        }
        let series = |what: &str, unit: &str, value: Option<f64>| Series {
            points: value.map(|value| (1.0, value)).into_iter().collect(),
            ..Series::new(format!("{name}.{IDLE_RUN}.{what}"), "", unit)
        };
        Ok(vec![
            series("watts", "W", report.mean_watts),
            series("per_joule", "1/J", report.operations_per_joule),
        ])
    }
}

fn above_zero(key: &str, value: f64) -> Result<(), String> {
    match value.is_finite() && value > 0.0 {
        true => Ok(()),
        false => Err(format!("`{key}` is {value}; it must be above 0")),
    }
}

impl Measurement for Energy {
    fn check(&self) -> Result<(), String> {
        if let Some(name) = self.compared.iter().find(|name| !self.measured.contains_key(*name)) {
            return Err(format!("`compared` names `{name}`, which `measured` has not"));
        }
        if self.compared[0] == self.compared[1] {
            return Err(format!("`compared` names `{}` twice", self.compared[0]));
        }
        for machine in self.measured.values() {
            above_zero("hours", machine.hours)?;
            above_zero("idle_kwh", machine.idle_kwh)?;
            if machine.runs.contains_key(IDLE_RUN) {
                return Err("`runs` has one called `idle`, which is that without work".into());
            }
            for run in machine.runs.values() {
                above_zero("operation_count", run.operation_count)?;
                above_zero("kwh", run.kwh)?;
            }
        }
        self.check_arithmetic()?;
        self.simulated.as_ref().map_or(Ok(()), |mix| {
            if mix.drives.is_empty() {
                return Err("`simulated` has no `drives`; name at least one".into());
            }
            mix.check()
        })
    }

    fn targets(&self) -> Vec<String> {
        self.simulated.as_ref().map_or_else(Vec::new, TpoxMix::targets)
    }

    fn hosts(&self) -> Vec<String> {
        self.simulated.as_ref().map_or_else(Vec::new, TpoxMix::hosts)
    }

    fn tells_energy(&self) -> bool {
        true
    }

    fn series_names(&self) -> Vec<String> {
        let arithmetic = self.arithmetic().into_iter().map(|series| series.name);
        let idle = self.idle_drives().into_iter().flat_map(|drive| {
            ["watts", "per_joule"].map(|what| format!("{drive}.{IDLE_RUN}.{what}"))
        });
        let simulated = self.simulated.iter().flat_map(TpoxMix::series_names);
        arithmetic.chain(idle).chain(simulated).collect()
    }

    fn steps(&self) -> Vec<String> {
        let idle = self.idle_drives().into_iter().map(|drive| format!("{drive} {IDLE_RUN}"));
        let simulated = self.simulated.iter().flat_map(TpoxMix::steps);
        std::iter::once("arithmetic".to_owned()).chain(idle).chain(simulated).collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let Some(index) = index.checked_sub(1) else { return Ok(self.arithmetic()) };
        let idle = self.idle_drives();
        match (idle.get(index), &self.simulated) {
            (Some(drive), _) => self.idle(drive, bench, &format!("{drive} {IDLE_RUN}")),
            (None, Some(mix)) => mix.run_step(index - idle.len(), bench),
            (None, None) => unreachable!("there are no other steps"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "compared = ['flash', 'disk']\nrho_places = 2\n\
        [measured.flash]\nhours = 1\nidle_kwh = 0.053\nruns = { io = { operation_count = 72240, kwh = 0.085 } }\n\
        [measured.disk]\nhours = 1\nidle_kwh = 0.055\nruns = { io = { operation_count = 22810, kwh = 0.062 } }\n";

    #[test]
    fn table_2_has_both_efficiencies_and_both_units() {
        let kind: Energy = toml::from_str(TEXT).unwrap();
        assert_eq!(kind.check(), Ok(()));
        let series = kind.arithmetic();
        let value = |name: &str| {
            let found = series.iter().find(|series| series.name == name);
            found.unwrap_or_else(|| panic!("no series {name}")).points[0].1
        };
        assert!((value("io.efficiency.idle_power") - 3.299).abs() < 1e-3);
        assert!((value("io.efficiency.energy") - 2.310).abs() < 1e-3);
        assert!((value("measured.flash.io.per_joule_as_published") - 0.850).abs() < 1e-3);
        assert!((value("measured.flash.io.per_joule") - 0.236).abs() < 1e-3);
        assert_eq!(value("measured.flash.idle.per_joule"), 0.0);
        assert!((value("measured.flash.idle.watts") - 53.0).abs() < 1e-9);
        assert_eq!(kind.series_names().len(), series.len());
    }

    /// That the table was typed in as it is printed: each mean power lies between the least and the most that it
    /// prints, and a kWh of it is 3.6 of its units.
    #[test]
    fn the_means_of_table_2_lie_between_the_least_and_the_most_power() {
        let experiment = crate::catalog::load("s004/table-2").unwrap();
        let crate::kind::ExperimentKind::Energy(kind) = &experiment.measure else {
            panic!("another kind")
        };
        let series = kind.arithmetic();
        let value = |name: &str| {
            let found = series.iter().find(|series| series.name == name);
            found.unwrap_or_else(|| panic!("no series {name}")).points[0].1
        };
        for (run, [least, most]) in [
            ("flash.idle", [52.1, 55.0]),
            ("flash.cpu", [49.5, 84.6]),
            ("flash.io", [48.8, 92.8]),
            ("disk.idle", [53.9, 65.0]),
            ("disk.cpu", [53.7, 87.9]),
            ("disk.io", [53.7, 94.7]),
        ] {
            let watts = value(&format!("measured.{run}.watts"));
            assert!((least..=most).contains(&watts), "{run}: {watts}");
            let [right, as_published] = ["per_joule", "per_joule_as_published"]
                .map(|unit| value(&format!("measured.{run}.{unit}")));
            assert!((as_published - 3.6 * right).abs() < 1e-9, "{run}: {as_published}, {right}");
        }
    }

    #[test]
    fn machines_and_figures_that_make_no_sense_are_named() {
        let wrong = |from: &str, to: &str| {
            let kind: Energy = toml::from_str(&TEXT.replace(from, to)).unwrap();
            kind.check().unwrap_err()
        };
        assert!(wrong("['flash', 'disk']", "['flash', 'tape']").contains("`tape`"));
        assert!(wrong("['flash', 'disk']", "['flash', 'flash']").contains("`flash` twice"));
        assert!(wrong("kwh = 0.085", "kwh = 0").contains("`kwh` is 0"));
        // Less than half as much idle is no rho without a place behind the point.
        let text = TEXT.replace("rho_places = 2", "rho_places = 0").replace("= 0.053", "= 0.02");
        let kind: Energy = toml::from_str(&text).unwrap();
        assert!(kind.check().unwrap_err().starts_with("`rho_places` is 0, which makes 0 of rho"));
        assert!(wrong("idle_kwh = 0.053", "idle_kwh = 1e-320").contains("`rho_places`"));
        let far =
            wrong("operation_count = 72240, kwh = 0.085", "operation_count = 1e300, kwh = 1e-300");
        assert!(far.contains("no finite number"), "{far}");
        assert!(
            wrong("{ io = { operation_count = 22810", "{ idle = { operation_count = 1")
                .contains("idle")
        );
    }
}
