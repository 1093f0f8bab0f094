//! Who works on the database of a seed, and the command that runs the seed again.

use crate::documents::crowd::run_document_crowd;
use crate::tpcc::run_tpcc;
use crate::{Bug, Outcome, Scenario, Violation, WorldKind, life, run_crowd, run_seed};

/// Who works on a database, and on what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workload {
    /// One client, on tables.
    #[default]
    Rows,
    /// One client, on tables and an XML document.
    Document,
    /// Clients at once on tables, at least two.
    Crowd {
        /// So many at most.
        client_count_max: u32,
    },
    /// Clients at once on one XML document, at least two.
    DocumentCrowd {
        /// So many at most.
        client_count_max: u32,
    },
    /// Terminals of TPC-C at once, at least two.
    Tpcc {
        /// So many at most.
        client_count_max: u32,
    },
}

impl Workload {
    /// What a seed means.
    #[must_use]
    pub fn scenario(self, seed: u64, world: WorldKind, bug: Bug) -> Scenario {
        match self {
            Self::Rows => Scenario::of_seed(seed, world, bug),
            Self::Document => Scenario::of_document(seed, world, bug),
            Self::Crowd { .. } => Scenario::of_crowd(seed, world, bug),
            Self::DocumentCrowd { .. } => Scenario::of_document_crowd(seed, world, bug),
            Self::Tpcc { .. } => Scenario::of_tpcc(seed, world, bug),
        }
    }

    /// Runs the history of a seed.
    ///
    /// # Errors
    /// The first promise that is broken; a panic is one.
    pub fn run(self, seed: u64, world: WorldKind, bug: Bug) -> Result<Outcome, Violation> {
        match self {
            Self::Rows => run_seed(seed, world, bug),
            Self::Document => life::run_scenario(&self.scenario(seed, world, bug)),
            Self::Crowd { client_count_max } => run_crowd(seed, world, bug, client_count_max),
            Self::DocumentCrowd { client_count_max } => {
                run_document_crowd(seed, world, bug, client_count_max)
            }
            Self::Tpcc { client_count_max } => run_tpcc(seed, world, bug, client_count_max),
        }
    }
}

/// What repeats a seed on the command line.
#[must_use]
pub fn replay_command(seed: u64, world: WorldKind, bug: Bug, workload: Workload) -> String {
    let world = match world {
        WorldKind::Memory => "",
        WorldKind::Ssd => " --world ssd",
        WorldKind::Files => " --world files",
        WorldKind::Chips => " --world chips",
        WorldKind::Lines => " --world lines",
    };
    let plant = match bug {
        Bug::None => String::new(),
        bug => format!(" --plant {}", bug.label()),
    };
    let workload = match workload {
        Workload::Rows => String::new(),
        Workload::Document => " --document".to_owned(),
        Workload::Crowd { client_count_max } => format!(" --clients {client_count_max}"),
        Workload::DocumentCrowd { client_count_max } => {
            format!(" --document --clients {client_count_max}")
        }
        Workload::Tpcc { client_count_max } => format!(" --tpcc --clients {client_count_max}"),
    };
    format!("nandu crash{world}{workload}{plant} --seed {seed}")
}
