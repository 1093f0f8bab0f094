//! What a search is thought to take before it runs: its graph, where FILE says before it is read how
//! many nodes and edges there are, and its levels, when the graph is there.
//!
//! 1. Of levels nothing is known before they are searched: how many are assumed, and why, is told.

use crate::command::prediction::{Beside, Probe};
use crate::failure::Failure;
use nandu_base::Rng;
use nandu_base::words::counted;
use nandu_external::Store;
use nandu_external::cost::predict;
use nandu_external::cost::predict::AssumedLevels;
use serde::Serialize;

/// What is predicted of a search, as far as it came.
pub(super) struct Foresight {
    probe: Probe,
    assumed: AssumedLevels,
    building_ns: Option<u64>,
    searching_ns: u64,
    level_count: u64,
}

/// What was predicted, for JSON.
#[derive(Serialize)]
pub(super) struct SearchPrediction {
    /// The device of the profile.
    device: String,
    /// What is assumed of levels: those of a `random` graph, or `even` ones, as many as was said.
    assumed_levels: &'static str,
    assumed_level_count: u64,
    /// Where it was known before FILE was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    building: Option<Beside>,
    searching: Beside,
}

impl Foresight {
    /// By a drive that was measured, and levels that somebody expects.
    pub(super) const fn new(probe: Probe, expected_level_count: Option<u64>) -> Self {
        let assumed = match expected_level_count {
            Some(count) => AssumedLevels::Even(count),
            None => AssumedLevels::Random,
        };
        Self { probe, assumed, building_ns: None, searching_ns: 0, level_count: 0 }
    }

    /// Before edges are read: how long building will take, where nodes and edges are known; for people.
    pub(super) fn foresee_building(
        &mut self,
        store: &Store,
        known: Option<(u64, u64)>,
    ) -> Result<String, Failure> {
        let Some(of_graph) = known else {
            return Ok(
                "building the graph is not predicted: how many nodes and edges there are is not \
                       known before; --nodes and a FILE of plain .u32 or .u64 say it"
                    .to_owned(),
            );
        };
        let bytes = store.grant().free_bytes();
        let building_ns = self.probe.foresee(|requests| {
            predict::build_graph(store, of_graph, bytes, &mut Rng::new(1), requests)
        })?;
        self.building_ns = Some(building_ns);
        Ok(self.probe.line("building the graph", building_ns))
    }

    /// Before the search, of a graph with so many nodes and edges; for people.
    pub(super) fn foresee_search(
        &mut self,
        store: &Store,
        of_graph: (u64, u64),
    ) -> Result<String, Failure> {
        let (bytes, assumed) = (store.grant().free_bytes(), self.assumed);
        self.searching_ns = self.probe.foresee(|requests| {
            predict::search(store, of_graph, assumed, bytes, (&mut Rng::new(1), requests))
        })?;
        self.level_count = assumed.level_count(of_graph.0, of_graph.1);
        let levels = counted(self.level_count, "level");
        let why = match assumed {
            AssumedLevels::Random => format!("{levels} assumed, as a random graph has"),
            AssumedLevels::Even(_) => format!("{levels} assumed, with as many nodes each"),
        };
        let line = self.probe.line("the search", self.searching_ns);
        Ok(format!("{line} ({why}; nodes of a level lie anywhere)"))
    }

    /// Beside what building and searching took.
    pub(super) fn beside(&self, building_ns: u64, searching_ns: u64) -> SearchPrediction {
        let limit = self.probe.limit;
        SearchPrediction {
            device: self.probe.device().to_owned(),
            assumed_levels: match self.assumed {
                AssumedLevels::Random => "random",
                AssumedLevels::Even(_) => "even",
            },
            assumed_level_count: self.level_count,
            building: self.building_ns.map(|predicted_ns| limit.beside(predicted_ns, building_ns)),
            searching: limit.beside(self.searching_ns, searching_ns),
        }
    }
}

impl SearchPrediction {
    /// For people, after the work.
    pub(super) fn lines(&self) -> Vec<String> {
        let building = self.building.map(|beside| beside.outcome("building the graph"));
        building.into_iter().chain([self.searching.outcome("the search")]).collect()
    }
}
