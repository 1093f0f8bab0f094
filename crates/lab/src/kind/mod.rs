//! The kinds of measurement, siblings of equal shape: one file, one variant of [`ExperimentKind`].
//!
//! 1. A measurement is a list of steps that do not depend on each other, so a run may stop between
//!    any two and go on later with the same result.
//! 2. A step on simulated devices depends on its label, the seed and the configuration only.

pub mod access_path;
pub mod aging;
pub mod basic_operations;
pub mod bench;
mod beyond;
pub mod bfs_placement;
pub mod burst;
pub mod clients;
pub mod closed_form;
pub mod dispersal;
pub mod drive;
pub mod energy;
pub mod engine_set;
pub mod file_system;
pub mod five_minutes;
pub mod index_join;
pub mod intervals;
pub mod jobs;
pub mod join;
pub mod late_join;
pub mod log_devices;
pub mod methods;
pub mod misalignment;
pub mod money;
pub mod predictions;
pub mod probe;
pub mod propagation;
pub mod restart;
pub mod rewrite;
pub mod search_trees;
pub mod shifting;
pub mod simulation;
pub mod site;
pub mod sort_kinds;
pub mod spare;
pub mod stalls;
pub mod tour;
pub mod tpcc;
pub mod tpox;
pub mod tree_maintenance;

use crate::error::LabError;
use crate::outcome::Series;
use bench::Bench;
use serde::{Deserialize, Serialize};

/// What an experiment measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ExperimentKind {
    /// A table scan against index scans.
    AccessPath(access_path::AccessPath),
    /// Speed by whole-drive writes.
    Aging(aging::Aging),
    /// Basic algorithms beyond memory.
    BasicOperations(basic_operations::BasicOperations),
    /// A search by clusters, with clusters and pool on one drive or several.
    BfsPlacement(bfs_placement::BfsPlacement),
    /// Sequential writes after bursts of random ones.
    Burst(burst::Burst),
    /// Many clients over one database.
    Clients(clients::Clients),
    /// The cost of a page write by the formulas of S000.
    ClosedForm(closed_form::ClosedForm),
    /// Layouts of blocks over several chips or disks.
    Dispersal(dispersal::Dispersal),
    /// What machines drew, and work for a joule.
    Energy(energy::Energy),
    /// How long a page may rest in memory, by prices.
    FiveMinutes(five_minutes::FiveMinutes),
    /// Files behind a kernel's page cache.
    FileSystem(file_system::FileSystem),
    /// Joins that use indexes, by selectivity.
    IndexJoin(index_join::IndexJoin),
    /// How soon workloads write a page again.
    Intervals(intervals::Intervals),
    /// Runs of `nandu sim` by one of its settings.
    Jobs(jobs::Jobs),
    /// Joins of two heap tables.
    Join(join::JoinComparison),
    /// Joins that fetch late, by how few rows qualify.
    LateJoin(late_join::LateJoin),
    /// Devices of a log.
    LogDevices(log_devices::LogDevices),
    /// Ways of placing pages, side by side over one chip.
    Methods(methods::Methods),
    /// Random writes off their natural places.
    Misalignment(misalignment::Misalignment),
    /// What drives do for their price.
    Money(money::Money),
    /// What drives were predicted to take beyond memory, beside what they took.
    Predictions(predictions::Predictions),
    /// Access patterns over request sizes on several devices.
    Probe(probe::Probe),
    /// Pages in place and in a log.
    Propagation(propagation::PropagationComparison),
    /// A restart after a crash.
    Restart(restart::Restart),
    /// The time to write a whole drive after bursts of random writes.
    Rewrite(rewrite::Rewrite),
    /// Search trees by the size of blocks.
    SearchTrees(search_trees::SearchTrees),
    /// Sorts that write less.
    SortKinds(sort_kinds::SortKinds),
    /// Translation layers over a bare chip.
    Simulation(simulation::Simulation),
    /// Layouts that follow the load.
    Shifting(shifting::Shifting),
    /// Writes by spare space.
    Spare(spare::Spare),
    /// Pauses among random writes.
    Stalls(stalls::Stalls),
    /// All that matters about a device, in little time.
    Tour(tour::Tour),
    /// TPC-C on drives and arrays.
    Tpcc(tpcc::TpccMix),
    /// Ways of placing pages under the page writes of TPC-C.
    TpccMethods(tpcc::methods::TpccMethods),
    /// A restart after a crash under TPC-C.
    TpccRestart(tpcc::restart::TpccRestart),
    /// The page writes of TPC-C.
    TpccTrace(tpcc::trace::TpccTrace),
    /// XML documents of TPoX in each storage mapping.
    Tpox(tpox::TpoxMix),
    /// Inserts into a B+-tree and lookups from it.
    TreeMaintenance(tree_maintenance::TreeMaintenance),
}

/// A kind of measurement.
pub trait Measurement {
    /// Checks the parameters.
    ///
    /// # Errors
    /// Says which is wrong and what it may be.
    fn check(&self) -> Result<(), String>;

    /// The targets that it opens: `sim:NAME` or `local`.
    fn targets(&self) -> Vec<String> {
        Vec::new()
    }

    /// Those of step `index`, whose profiles decide its result.
    fn step_targets(&self, _index: usize) -> Vec<String> {
        self.targets()
    }

    /// Models of machines that it adds to what drives draw, which decide its results, too.
    fn hosts(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether a series of it is energy, so that what drives draw decides it, too.
    fn tells_energy(&self) -> bool {
        false
    }

    /// Names of all series that it may measure.
    fn series_names(&self) -> Vec<String>;

    /// Which of them are sums: each list has a whole, and behind it all of its parts.
    fn sums(&self) -> Vec<Vec<String>> {
        Vec::new()
    }

    /// Labels of its steps, in order.
    fn steps(&self) -> Vec<String>;

    /// Measures step `index`.
    ///
    /// # Errors
    /// Where a device cannot be opened or fails, or the observer cancels.
    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError>;
}

impl ExperimentKind {
    /// The kind behind its trait.
    #[must_use]
    pub fn as_measurement(&self) -> &dyn Measurement {
        match self {
            Self::AccessPath(kind) => kind,
            Self::Aging(kind) => kind,
            Self::BasicOperations(kind) => kind,
            Self::BfsPlacement(kind) => kind,
            Self::Burst(kind) => kind,
            Self::Clients(kind) => kind,
            Self::ClosedForm(kind) => kind,
            Self::Dispersal(kind) => kind,
            Self::Energy(kind) => kind,
            Self::FiveMinutes(kind) => kind,
            Self::FileSystem(kind) => kind,
            Self::IndexJoin(kind) => kind,
            Self::Intervals(kind) => kind,
            Self::Jobs(kind) => kind,
            Self::Join(kind) => kind,
            Self::LateJoin(kind) => kind,
            Self::LogDevices(kind) => kind,
            Self::Methods(kind) => kind,
            Self::Misalignment(kind) => kind,
            Self::Money(kind) => kind,
            Self::Predictions(kind) => kind,
            Self::Probe(kind) => kind,
            Self::Propagation(kind) => kind,
            Self::Restart(kind) => kind,
            Self::Rewrite(kind) => kind,
            Self::SearchTrees(kind) => kind,
            Self::SortKinds(kind) => kind,
            Self::Simulation(kind) => kind,
            Self::Shifting(kind) => kind,
            Self::Spare(kind) => kind,
            Self::Stalls(kind) => kind,
            Self::Tour(kind) => kind,
            Self::Tpcc(kind) => kind,
            Self::TpccMethods(kind) => kind,
            Self::TpccRestart(kind) => kind,
            Self::TpccTrace(kind) => kind,
            Self::Tpox(kind) => kind,
            Self::TreeMaintenance(kind) => kind,
        }
    }

    /// The word in the experiment's file.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::AccessPath(_) => "access_path",
            Self::Aging(_) => "aging",
            Self::BasicOperations(_) => "basic_operations",
            Self::BfsPlacement(_) => "bfs_placement",
            Self::Burst(_) => "burst",
            Self::Clients(_) => "clients",
            Self::ClosedForm(_) => "closed_form",
            Self::Dispersal(_) => "dispersal",
            Self::Energy(_) => "energy",
            Self::FiveMinutes(_) => "five_minutes",
            Self::FileSystem(_) => "file_system",
            Self::IndexJoin(_) => "index_join",
            Self::Intervals(_) => "intervals",
            Self::Jobs(_) => "jobs",
            Self::Join(_) => "join",
            Self::LateJoin(_) => "late_join",
            Self::LogDevices(_) => "log_devices",
            Self::Methods(_) => "methods",
            Self::Misalignment(_) => "misalignment",
            Self::Money(_) => "money",
            Self::Predictions(_) => "predictions",
            Self::Probe(_) => "probe",
            Self::Propagation(_) => "propagation",
            Self::Restart(_) => "restart",
            Self::Rewrite(_) => "rewrite",
            Self::SearchTrees(_) => "search_trees",
            Self::SortKinds(_) => "sort_kinds",
            Self::Simulation(_) => "simulation",
            Self::Shifting(_) => "shifting",
            Self::Spare(_) => "spare",
            Self::Stalls(_) => "stalls",
            Self::Tour(_) => "tour",
            Self::Tpcc(_) => "tpcc",
            Self::TpccMethods(_) => "tpcc_methods",
            Self::TpccRestart(_) => "tpcc_restart",
            Self::TpccTrace(_) => "tpcc_trace",
            Self::Tpox(_) => "tpox",
            Self::TreeMaintenance(_) => "tree_maintenance",
        }
    }
}

/// The name of a target in series: `device-a` of `sim:device-a`.
pub(crate) fn series_prefix(target: &str) -> &str {
    target.strip_prefix("sim:").unwrap_or(target)
}
