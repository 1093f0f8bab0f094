//! Search trees by the size of blocks, and what it costs not to know it: S002 chapter 5, cache-oblivious
//! trees beside B-trees.
//!
//! Even numbers of eight bytes are written so that they can be searched: in order, as a B-tree whose nodes
//! are blocks, as one whose nodes are smaller, and in the order of van Emde Boas. Keys anywhere are searched
//! one after the other. One step for each drive, with series by bytes of a block:
//!
//! - `DRIVE.halves_us`, `DRIVE.b_tree_us`, `DRIVE.small_nodes_us`, `DRIVE.van_emde_boas_us`: a search; and the
//!   same with `_reads`: blocks that it reads;
//! - `DRIVE.best.b_tree_kib`, `DRIVE.best.van_emde_boas_kib`: the block with which a search takes least;
//!   `DRIVE.best.b_tree_us`, `DRIVE.best.van_emde_boas_us`: how long it takes with it; `DRIVE.best.ratio`: the
//!   latter over the former; one point at 0 each.
//!
//! 1. Each search finds the first number that is not less than its key.

use super::Measurement;
use super::bench::Bench;
use super::beyond::{check_drives, check_rising_blocks, is_block, outcome_of, volumes};
use super::drive::{Drives, series_names, targets};
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::{ByteCount, Rng, to_u32};
use nandu_external::basic::{EvenNumbers, measure, search_tree};
use nandu_external::search::SearchKind;
use nandu_external::{ExternalError, Grant, Io, Settings, Store};
use nandu_probe::text;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The layouts, by their part of a series name; the second is the B-tree with blocks for nodes, the last
/// one knows no block.
const LAYOUTS: [&str; 4] = ["halves", "b_tree", "small_nodes", "van_emde_boas"];
/// Of the best blocks, with the unit of each.
const BEST: [(&str, &str); 5] = [
    ("b_tree_kib", "KiB"),
    ("van_emde_boas_kib", "KiB"),
    ("b_tree_us", "us"),
    ("van_emde_boas_us", "us"),
    ("ratio", ""),
];
/// Searches before the measurement, of as many: what is read often is in memory then.
const WARM_UP_SHARE: u64 = 4;

/// The keys of an experiment of the kind `search_trees`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchTrees {
    /// The drives on which trees lie.
    pub drives: Drives,
    /// Capacity that each is scaled to.
    #[serde(deserialize_with = "text::size")]
    pub capacity: ByteCount,
    /// Numbers of a tree.
    pub number_count: u64,
    /// Memory for blocks of a tree while it is searched.
    #[serde(deserialize_with = "text::size")]
    pub memory: ByteCount,
    /// Bytes of a block, rising.
    #[serde(deserialize_with = "text::sizes")]
    pub block_bytes: Vec<ByteCount>,
    /// A node of the B-tree with smaller nodes.
    #[serde(deserialize_with = "text::size")]
    pub small_node_bytes: ByteCount,
    /// Searches that are measured.
    pub search_count: u64,
}

impl SearchTrees {
    fn series_of(name: &str) -> Vec<Series> {
        let of_layout = |what: &str, unit| {
            LAYOUTS.map(|layout| Series::new(format!("{name}.{layout}_{what}"), "B", unit))
        };
        let whole = BEST.map(|(what, unit)| Series::new(format!("{name}.best.{what}"), "", unit));
        of_layout("us", "us").into_iter().chain(of_layout("reads", "")).chain(whole).collect()
    }

    fn kinds(&self) -> [SearchKind; LAYOUTS.len()] {
        // A block has a stamp of eight bytes.
        let small = (self.small_node_bytes.0 - 8) / 8;
        [
            SearchKind::Halves,
            SearchKind::BTree { node_records: None },
            SearchKind::BTree { node_records: Some(small) },
            SearchKind::VanEmdeBoas,
        ]
    }

    /// Microseconds of a search, and blocks that it reads.
    fn search(
        &self,
        (io, stop): (&Io, &Arc<AtomicBool>),
        block_bytes: ByteCount,
        kind: SearchKind,
        rng: &mut Rng,
    ) -> Result<[f64; 2], ExternalError> {
        let settings = Settings { block_bytes: to_u32(block_bytes.0), in_flight: 1 };
        // A layout is written through some streams; van Emde Boas keeps about 3 sqrt(n) records.
        let building = 16 * block_bytes.0 + 64 * self.number_count.isqrt();
        let grant = Grant::new(self.memory.0 + building + (1 << 20));
        let store = Store::stoppable(std::slice::from_ref(io), settings, grant, Arc::clone(stop))?;
        let tree = kind.build(&store, EvenNumbers::new(self.number_count))?;
        let mut searcher = tree.searcher(to_u32(self.memory.0 / block_bytes.0))?;
        let mut search =
            |searches: u64| search_tree(&mut searcher, self.number_count, searches, rng);
        search(self.search_count / WARM_UP_SHARE)?;
        let found = measure(&store, || search(self.search_count))?;
        let each = |all: u64| all as f64 / self.search_count as f64;
        Ok([each(found.elapsed_ns.0) / 1e3, each(found.counts.read_blocks)])
    }

    fn on_drive(
        &self,
        name: &str,
        at: (&Io, &Arc<AtomicBool>),
        seed: u64,
    ) -> Result<Vec<Series>, ExternalError> {
        let mut series = Self::series_of(name);
        for &block_bytes in &self.block_bytes {
            for (layout, kind) in self.kinds().into_iter().enumerate() {
                // The same keys for all.
                let mut rng = Rng::for_part(seed, "keys");
                let [time_us, reads] = self.search(at, block_bytes, kind, &mut rng)?;
                let x = block_bytes.0 as f64;
                series[layout].points.push((x, time_us));
                series[LAYOUTS.len() + layout].points.push((x, reads));
            }
        }
        let best = |layout: usize| {
            let points = series[layout].points.iter().copied();
            points.min_by(|left, right| left.1.total_cmp(&right.1)).expect("there are blocks")
        };
        let ((block, time_us), (its_block, its_time_us)) = (best(1), best(3));
        let ratio = its_time_us / time_us;
        let whole = [block / 1024.0, its_block / 1024.0, time_us, its_time_us, ratio];
        for (series, value) in series.iter_mut().skip(2 * LAYOUTS.len()).zip(whole) {
            series.points.push((0.0, value));
        }
        Ok(series)
    }
}

impl Measurement for SearchTrees {
    fn check(&self) -> Result<(), String> {
        check_drives(&self.drives, self.capacity)?;
        check_rising_blocks(&self.block_bytes)?;
        if !is_block(&self.small_node_bytes) {
            return Err("`small_node_bytes` must be a power of two from 512 to 16 MiB".into());
        }
        if self.block_bytes.last().is_some_and(|most| *most > self.memory) {
            return Err("`memory` must have a block of each size".into());
        }
        if self.number_count == 0 || self.search_count < WARM_UP_SHARE {
            return Err("`number_count` must be above 0, `search_count` 4 or more".into());
        }
        let room = |count: u64| count.checked_mul(24).is_some_and(|bytes| bytes < self.capacity.0);
        if !room(self.number_count) {
            return Err("`capacity` must have 24 bytes for each number".into());
        }
        Ok(())
    }

    fn targets(&self) -> Vec<String> {
        targets(&self.drives)
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        vec![targets(&self.drives).swap_remove(index)]
    }

    fn series_names(&self) -> Vec<String> {
        series_names(&self.drives, Self::series_of)
    }

    fn steps(&self) -> Vec<String> {
        self.drives.keys().cloned().collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let (name, variant) = self.drives.iter().nth(index).expect("a step is a drive");
        let stop = bench.observer.stop_flag();
        let io = volumes(bench, name, &[(name.as_str(), variant)], self.capacity)?.swap_remove(0);
        outcome_of(name, self.on_drive(name, (&io, &stop), bench.seed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::beyond::{plain_drives, values_of};

    fn small() -> SearchTrees {
        SearchTrees {
            drives: plain_drives(&["optane-like"]),
            capacity: ByteCount::mib(16),
            number_count: 65_536,
            memory: ByteCount(16 << 10),
            block_bytes: vec![ByteCount(512), ByteCount(4096)],
            small_node_bytes: ByteCount(512),
            search_count: 200,
        }
    }

    #[test]
    fn a_tree_reads_fewer_blocks_than_halves_do() {
        for at in [512.0, 4096.0] {
            let found = values_of(&small(), 0, at);
            let reads = |layout: &str| found[&format!("optane-like.{layout}_reads")];
            assert!(reads("b_tree") < reads("halves") / 1.5, "{found:?}");
            let range = reads("b_tree")..reads("halves");
            assert!(range.contains(&reads("van_emde_boas")), "{found:?}");
            let time = |layout: &str| found[&format!("optane-like.{layout}_us")];
            assert!(time("b_tree") < time("halves"), "{found:?}");
        }
        let best = values_of(&small(), 0, 0.0);
        assert!([0.5, 4.0].contains(&best["optane-like.best.b_tree_kib"]), "{best:?}");
        assert!((1.0..3.0).contains(&best["optane-like.best.ratio"]), "{best:?}");
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let refused = |kind: SearchTrees| kind.check().unwrap_err();
        let blocks = SearchTrees { block_bytes: vec![], ..small() };
        assert!(refused(blocks).contains("block_bytes"));
        let node = SearchTrees { small_node_bytes: ByteCount(8), ..small() };
        assert!(refused(node).contains("small_node_bytes"));
        assert!(refused(SearchTrees { memory: ByteCount(2048), ..small() }).contains("memory"));
        let many = SearchTrees { number_count: 1 << 40, ..small() };
        assert!(refused(many).contains("capacity"));
        assert!(refused(SearchTrees { search_count: 3, ..small() }).contains("search_count"));
    }
}
