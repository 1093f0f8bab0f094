//! Layouts that follow the load against fixed ones: what S000 section 8.6 proposes, by
//! `nandu_array::chapter8::ShiftingLoad`, in the chapter's simulator or on an `ArrayDevice`.
//!
//! One step for each scenario. POLICY is `adaptive`, `best_static`, or a layout such as `m3w4`:
//!
//! - `SCENARIO.POLICY.steady`, by phase from 1: operations per second in its second half; those of
//!   `best_static` are the best of any fixed layout in that phase;
//! - `SCENARIO.POLICY.overall`, at 1: operations per second over all phases; those of `best_static`
//!   are of the one fixed layout that is best over all;
//! - `SCENARIO.migrated`, by phase: blocks that were migrated in the background.

use super::Measurement;
use super::bench::Bench;
use super::dispersal::Case;
use crate::error::LabError;
use crate::outcome::Series;
use nandu_array::chapter8::{
    Chooser, DelayReading, DeviceSetup, LayoutPolicy, Member, Phase, PhaseSummary, ShiftingLoad,
};
use nandu_array::{ArrayError, Layout, StandardLayout};
use nandu_base::Nanos;
use nandu_probe::text;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Chips of the array.
const MEMBER_COUNT: u8 = 4;

type Policy = (String, LayoutPolicy);
type Runs = Result<Vec<PhaseSummary>, ArrayError>;

/// The keys of an experiment of the kind `shifting`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shifting {
    /// Whose delay varies.
    #[serde(default)]
    pub reading: DelayReading,
    /// Length of a phase.
    #[serde(deserialize_with = "text::duration")]
    pub phase: Nanos,
    /// Blocks of 2 KB of each object.
    pub object_block_count: u32,
    /// How long is observed before a choice.
    #[serde(deserialize_with = "text::duration")]
    pub observe: Nanos,
    /// Length of the runs that compare layouts.
    #[serde(deserialize_with = "text::duration")]
    pub what_if: Nanos,
    /// The least gain for which an object is migrated.
    pub gain_ppm: u32,
    /// Bandwidth of migrations.
    pub migration_bytes_per_second: u64,
    /// What the array is if the loads run on an `ArrayDevice` instead of the chapter's simulator.
    #[serde(default)]
    pub device: Option<DeviceSetup>,
    /// Workers by name.
    pub cases: BTreeMap<String, Case>,
    /// By name, phase by phase, the case of each object.
    pub scenarios: BTreeMap<String, Vec<Vec<String>>>,
}

impl Shifting {
    fn load(&self, phases: &[Vec<String>]) -> Result<ShiftingLoad, String> {
        let case = |name: &String| {
            let case = self.cases.get(name).ok_or_else(|| format!("no case is called `{name}`"))?;
            Ok(self.reading.load(case.reader_count, case.writer_count, case.delay))
        };
        let phase = |names: &Vec<String>| {
            let loads: Result<Vec<_>, String> = names.iter().map(case).collect();
            loads.map(|loads| Phase { duration: self.phase, loads })
        };
        let phases: Result<Vec<Phase>, String> = phases.iter().map(phase).collect();
        Ok(ShiftingLoad {
            member: Member::thesis_chip(),
            member_count: MEMBER_COUNT,
            block_bytes: 2048,
            object_block_count: self.object_block_count,
            phases: phases?,
        })
    }

    /// Names and policies, the adaptive one first.
    fn policies(&self) -> Vec<(String, LayoutPolicy)> {
        let first = StandardLayout::OneCopy.on(MEMBER_COUNT).expect("four members hold one copy");
        let chooser = Chooser {
            first,
            observe: self.observe,
            what_if: self.what_if,
            gain_ppm: self.gain_ppm,
            migration_bytes_per_second: self.migration_bytes_per_second,
        };
        let fixed = |layout: Layout| (layout.name(), LayoutPolicy::Static(layout));
        let adaptive = ("adaptive".to_owned(), LayoutPolicy::Adaptive(chooser));
        std::iter::once(adaptive).chain(Layout::all(MEMBER_COUNT).map(fixed)).collect()
    }

    /// What each policy comes to. Runs know nothing of each other, so each has its thread.
    fn run_policies(&self, load: &ShiftingLoad, seed: u64) -> Vec<(Policy, Runs)> {
        let run = |policy| match self.device {
            Some(setup) => load.run_on_device(policy, setup, seed),
            None => load.run(policy, seed),
        };
        std::thread::scope(|scope| {
            let policies = self.policies().into_iter();
            let threads: Vec<_> = policies
                .map(|(name, policy)| ((name, policy), scope.spawn(move || run(policy))))
                .collect();
            let join = |(policy, thread): (Policy, std::thread::ScopedJoinHandle<'_, Runs>)| {
                (policy, thread.join().expect("a run returns its errors"))
            };
            threads.into_iter().map(join).collect()
        })
    }

    fn series(&self, scenario: &str, name: &str, runs: &[PhaseSummary]) -> [Series; 2] {
        let [mut steady, mut overall] = empty(scenario, name);
        let half_s = self.phase.as_seconds_f64() / 2.0;
        for (phase, number) in runs.iter().zip(1_u32..) {
            steady.points.push((f64::from(number), phase.steady_request_count as f64 / half_s));
        }
        let total: u64 = runs.iter().map(|phase| phase.request_count).sum();
        overall.points.push((1.0, total as f64 / (2.0 * half_s * runs.len() as f64)));
        [steady, overall]
    }
}

fn empty(scenario: &str, name: &str) -> [Series; 2] {
    ["steady", "overall"].map(|what| Series::new(format!("{scenario}.{name}.{what}"), "", "ops/s"))
}

impl Measurement for Shifting {
    fn check(&self) -> Result<(), String> {
        if self.scenarios.is_empty() || self.phase == Nanos::ZERO {
            return Err("`scenarios` is empty or `phase` is 0; something has to happen".into());
        }
        for phases in self.scenarios.values() {
            let (_, adaptive) = self.policies().swap_remove(0);
            let load = self.load(phases)?;
            let checked = match self.device {
                Some(setup) => load.check_on_device(adaptive, setup),
                None => load.check(adaptive),
            };
            checked.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn series_names(&self) -> Vec<String> {
        let policies: Vec<String> = self.policies().into_iter().map(|(name, _)| name).collect();
        let mut names = Vec::new();
        for scenario in self.scenarios.keys() {
            let all = policies.iter().map(String::as_str).chain(["best_static"]);
            names.extend(all.flat_map(|name| empty(scenario, name)).map(|series| series.name));
            names.push(format!("{scenario}.migrated"));
        }
        names
    }

    fn steps(&self) -> Vec<String> {
        self.scenarios.keys().cloned().collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let (scenario, phases) = self.scenarios.iter().nth(index).expect("a step is a scenario");
        let load = self.load(phases).map_err(|error| LabError::step(scenario, &error))?;
        let mut all = Vec::new();
        let [mut best_steady, mut best_overall] = empty(scenario, "best_static");
        for ((name, policy), runs) in self.run_policies(&load, bench.seed) {
            let runs = runs.map_err(|error| LabError::step(scenario, &error))?;
            let [steady, overall] = self.series(scenario, &name, &runs);
            if let LayoutPolicy::Adaptive(_) = policy {
                let migrated = Series::new(format!("{scenario}.migrated"), "", "");
                let counts = runs.iter().zip(1_u32..);
                let points = counts
                    .map(|(phase, x)| (f64::from(x), phase.migrated_block_count as f64))
                    .collect();
                all.push(Series { points, ..migrated });
            } else {
                raise(&mut best_steady, &steady);
                raise(&mut best_overall, &overall);
            }
            all.extend([steady, overall]);
        }
        all.extend([best_steady, best_overall]);
        Ok(all)
    }
}

/// Makes each point of `best` the higher of both.
fn raise(best: &mut Series, other: &Series) {
    if best.points.is_empty() {
        best.points.clone_from(&other.points);
    }
    for (best, other) in best.points.iter_mut().zip(&other.points) {
        best.1 = best.1.max(other.1);
    }
}
