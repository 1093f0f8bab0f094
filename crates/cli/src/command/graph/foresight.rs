//! What a search is thought to take before it runs: its graph, where FILE says before it is read how
//! many nodes and edges there are, and its clusters and levels, when the graph is there.
//!
//! 1. Of levels nothing is known before they are searched: how many are assumed, and why, is told.

use crate::Context;
use crate::command::prediction::{Beside, Foreseen, Probe, Taken};
use crate::failure::Failure;
use nandu_base::Rng;
use nandu_base::words::counted;
use nandu_external::Store;
use nandu_external::cost::predict;
use nandu_external::cost::predict::AssumedLevels;
use nandu_external::graph::ClusteringSettings;
use serde::Serialize;

/// Bytes of what is sorted: edges to build a graph, neighbours to search it, and about those of what is
/// sorted of clusters, 12 to 36.
const EDGE_BYTES: usize = 16;
const NODE_BYTES: usize = 8;
const CLUSTERED_BYTES: usize = 24;

/// What is predicted of a search, as far as it came.
pub(super) struct Foresight {
    probe: Probe,
    assumed: AssumedLevels,
    /// How nodes are brought into clusters, where they are.
    clustered: Option<ClusteringSettings>,
    building: Option<Foreseen>,
    clustering: Option<Foreseen>,
    searching: Option<Foreseen>,
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
    /// Of `mm`, where it began with a graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    clustering: Option<Beside>,
    searching: Beside,
}

/// Bytes of what is sorted by a search with clusters, or without.
pub(super) const fn sorted_sizes(has_clusters: bool) -> [usize; 2] {
    [EDGE_BYTES, if has_clusters { CLUSTERED_BYTES } else { NODE_BYTES }]
}

impl Foresight {
    /// By a drive that was measured, and levels that somebody expects; with clusters, or without.
    pub(super) const fn new(
        probe: Probe,
        expected_level_count: Option<u64>,
        clustered: Option<ClusteringSettings>,
    ) -> Self {
        let assumed = match expected_level_count {
            Some(count) => AssumedLevels::Even(count),
            None => AssumedLevels::Random,
        };
        let (building, clustering, searching) = (None, None, None);
        Self { probe, assumed, clustered, building, clustering, searching, level_count: 0 }
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
        let building = self.probe.foresee(EDGE_BYTES, |requests| {
            predict::build_graph(store, of_graph, bytes, &mut Rng::new(1), requests)
        })?;
        self.building = Some(building);
        Ok(self.probe.line("building the graph", &building))
    }

    /// Before the search, of a graph with so many nodes and edges; for people.
    pub(super) fn foresee_search(
        &mut self,
        store: &Store,
        of_graph: (u64, u64),
        context: &Context,
    ) -> Result<String, Failure> {
        if self.clustered.is_none() {
            self.probe.measure_lookups(NODE_BYTES, context)?;
        }
        let (bytes, assumed) = (store.grant().free_bytes(), self.assumed);
        let mut rng = Rng::new(1);
        let searching = match &self.clustered {
            None => self.probe.foresee(NODE_BYTES, |requests| {
                predict::search(store, of_graph, assumed, bytes, (&mut rng, requests))
            }),
            Some(settings) => self.probe.foresee(CLUSTERED_BYTES, |requests| {
                let means = (assumed, settings);
                predict::search_by_clusters(store, of_graph, means, bytes, (&mut rng, requests))
            }),
        }?;
        self.level_count = assumed.level_count(of_graph.0, of_graph.1);
        let levels = counted(self.level_count, "level");
        let why = match assumed {
            AssumedLevels::Random => format!("{levels} assumed, as a random graph has"),
            AssumedLevels::Even(_) => format!("{levels} assumed, with as many nodes each"),
        };
        self.searching = Some(searching);
        let line = self.probe.line("the search", &searching);
        let anywhere =
            if self.clustered.is_some() { "its clusters lie" } else { "nodes of a level lie" };
        Ok(format!("{line} ({why}; {anywhere} anywhere)"))
    }

    /// Before clusters are made of a graph with so many nodes and edges; for people.
    pub(super) fn foresee_clustering(
        &mut self,
        store: &Store,
        of_graph: (u64, u64),
    ) -> Result<Option<String>, Failure> {
        let Some(settings) = &self.clustered else { return Ok(None) };
        let bytes = store.grant().free_bytes();
        // Trees, tours and the pool go about in memory as a walk does.
        self.probe.measure_walk((store, of_graph.0, bytes))?;
        let clustering = self.probe.foresee(CLUSTERED_BYTES, |requests| {
            predict::cluster(store, of_graph, bytes, settings, (&mut Rng::new(1), requests))
        })?;
        self.clustering = Some(clustering);
        Ok(Some(self.probe.line("making clusters", &clustering)))
    }

    /// Beside what building, making clusters and searching took.
    pub(super) fn beside(&self, [building, clustering, searching]: [Taken; 3]) -> SearchPrediction {
        let limit = self.probe.limit;
        let foreseen = self.searching.expect("a search is foreseen before it is done");
        SearchPrediction {
            device: self.probe.device().to_owned(),
            assumed_levels: match self.assumed {
                AssumedLevels::Random => "random",
                AssumedLevels::Even(_) => "even",
            },
            assumed_level_count: self.level_count,
            building: self.building.map(|foreseen| limit.beside(foreseen, building)),
            clustering: self.clustering.map(|foreseen| limit.beside(foreseen, clustering)),
            searching: limit.beside(foreseen, searching),
        }
    }
}

impl SearchPrediction {
    /// For people, after the work.
    pub(super) fn lines(&self) -> Vec<String> {
        let building = self.building.map(|beside| beside.outcome("building the graph"));
        let clustering = self.clustering.map(|beside| beside.outcome("making clusters"));
        let searching = self.searching.outcome("the search");
        building.into_iter().chain(clustering).chain([searching]).collect()
    }
}
