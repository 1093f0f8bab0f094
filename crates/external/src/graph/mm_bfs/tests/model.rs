//! The blocks that a search by clusters moves, and its counts, from a model that knows the rules of
//! the pool and has all in memory. The levels and sorts of these searches fit into memory.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// Blocks of 1024 bytes have 1016 for records.
const ROOM: u64 = 1016;
/// Bytes of an entry of a cluster and of one of the pool.
const ENTRY_BYTES: u64 = 28;
const HELD_BYTES: u64 = 32;
/// Memory of an entry of the table, and of a cluster that is known to be outside.
const TABLE_SLOT_BYTES: u64 = 52;
const KNOWN_SLOT_BYTES: u64 = 20;
/// Nodes of a level in memory: 1024 bytes, 24 each.
const LEVEL_NODES: usize = 42;

/// What the pool may keep, in entries, clusters and nodes.
#[derive(Clone, Copy, Debug)]
struct Limits {
    table: u64,
    known: u64,
    dead: u64,
    /// Blocks of clusters beside the one at hand.
    kept: u64,
}

struct Model<'p> {
    plain: &'p Plain,
    spans: Vec<Span>,
    limits: Limits,
    /// Nodes whose lists are in the table, and the runs, each of nodes.
    table: BTreeSet<u64>,
    runs: Vec<BTreeSet<u64>>,
    dead: BTreeSet<u64>,
    /// Clusters outside; `None` when there are too many.
    outside: Option<BTreeSet<u64>>,
    came: BTreeMap<u64, u64>,
    /// Blocks of clusters in memory, the last that was used at the end.
    blocks: Vec<u64>,
    counts: PoolCounts,
    cluster_reads: u64,
    pool_reads: u64,
    pool_writes: u64,
}

impl Model<'_> {
    fn entries<'n>(&self, nodes: impl IntoIterator<Item = &'n u64>) -> u64 {
        nodes.into_iter().map(|&node| self.plain.neighbours[to_index(node)].len() as u64).sum()
    }

    fn blocks(&self, nodes: &BTreeSet<u64>) -> u64 {
        self.entries(nodes).div_ceil(ROOM / HELD_BYTES)
    }

    fn live(&self) -> u64 {
        let in_runs: usize = self.runs.iter().map(BTreeSet::len).sum();
        (self.table.len() + in_runs - self.dead.len()) as u64
    }

    fn use_list(&mut self, node: u64, level: u64) {
        let residence = u32::try_from(level - self.came[&node]).unwrap();
        self.counts.residence_max = self.counts.residence_max.max(residence);
    }

    /// A level of the search.
    fn level(&mut self, nodes: &[u64], level: u64) {
        let lists_before = self.live();
        let (mut wanted, mut missing) = (BTreeSet::new(), Vec::new());
        for &node in nodes {
            let (first, count) = self.spans[to_index(node)];
            if count == 0 {
                continue;
            }
            let is_outside = || self.outside.as_ref().is_none_or(|known| known.contains(&first));
            let may_be_in_run = !self.runs.is_empty() && is_outside();
            if self.table.remove(&node) {
                self.use_list(node, level);
            } else if may_be_in_run {
                wanted.insert(node);
            } else {
                missing.push((first, count));
            }
        }
        if !wanted.is_empty() || self.runs.len() == 3 {
            self.scan(&wanted, level, &mut missing);
        }
        missing.sort_unstable();
        missing.dedup();
        let came = self.load(&missing, nodes, level);
        self.counts.pool_lists += lists_before + came;
        self.counts.pool_lists_max = self.counts.pool_lists_max.max(lists_before + came);
    }

    fn scan(&mut self, wanted: &BTreeSet<u64>, level: u64, missing: &mut Vec<Span>) {
        self.counts.scan_count += 1;
        let all: BTreeSet<u64> = self.runs.iter().flatten().copied().collect();
        self.pool_reads += self.runs.iter().map(|run| self.blocks(run)).sum::<u64>();
        self.counts.scanned_lists += all.len() as u64;
        let dead_count = (self.dead.len() + wanted.len()) as u64;
        let is_cleaned = self.runs.len() == 3
            || 2 * dead_count > all.len() as u64
            || dead_count > self.limits.dead;
        for &node in wanted {
            match all.contains(&node) {
                true => self.use_list(node, level),
                false => missing.push(self.spans[to_index(node)]),
            }
        }
        self.dead.extend(wanted.intersection(&all));
        if is_cleaned {
            let left: BTreeSet<u64> = all.difference(&self.dead).copied().collect();
            self.pool_writes += self.blocks(&left);
            self.dead.clear();
            self.runs = vec![left];
            self.forget_if_empty();
        }
    }

    fn forget_if_empty(&mut self) {
        if self.runs.iter().flatten().all(|node| self.dead.contains(node)) {
            self.runs.clear();
            self.dead.clear();
            self.outside = Some(BTreeSet::new());
        }
    }

    fn use_block(&mut self, block: u64) {
        match self.blocks.iter().position(|&other| other == block) {
            Some(index) => _ = self.blocks.remove(index),
            None => self.cluster_reads += 1,
        }
        self.blocks.push(block);
        if self.blocks.len() > to_index(self.limits.kept + 1) {
            self.blocks.remove(0);
        }
    }

    /// Reads clusters; how many lists came.
    fn load(&mut self, spans: &[Span], nodes: &[u64], level: u64) -> u64 {
        let mut room = self.limits.table - self.entries(&self.table);
        let (mut run, mut list_count) = (BTreeSet::new(), 0);
        for &(first, count) in spans {
            self.counts.cluster_loads += 1;
            for index in first..first + u64::from(count) {
                self.use_block(index / (ROOM / ENTRY_BYTES));
            }
            let is_outside = u64::from(count) > room;
            if !is_outside {
                room -= u64::from(count);
            } else if let Some(outside) = &mut self.outside {
                match (outside.len() as u64) < self.limits.known {
                    true => _ = outside.insert(first),
                    false => self.outside = None,
                }
            }
            for node in (0_u64..).zip(&self.spans).filter(|pair| *pair.1 == (first, count)) {
                list_count += 1;
                if !nodes.contains(&node.0) {
                    self.came.insert(node.0, level);
                    let lists = if is_outside { &mut run } else { &mut self.table };
                    lists.insert(node.0);
                }
            }
        }
        if !run.is_empty() {
            self.pool_writes += self.blocks(&run);
            self.runs.push(run);
        }
        self.forget_if_empty();
        list_count
    }
}

fn limits() -> impl Strategy<Value = Limits> {
    let limit = || prop_oneof![2 => Just(0), 2 => 0_u64..40, 1 => 0_u64..2000];
    (limit(), limit(), limit(), 0_u64..4).prop_map(|(table, known, dead, kept)| Limits {
        table,
        known,
        dead,
        kept,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn blocks_and_counts_are_those_of_a_model(
        class in classes(), limits in limits(), cluster_nodes in 1_u64..40, seed: u64,
        kind in proptest::sample::select(ClusteringKind::ALL.as_slice()),
    ) {
        // Nothing ahead of what is used where blocks are kept: what is asked for early goes early.
        let flash = store(1024, 1, if limits.kept == 0 { 2 } else { 0 });
        let disk = store(1024, 1, 1);
        let source = Rng::new(seed).below(class.node_count());
        let plain = Plain::new(class.node_count(), class.shuffled_edges(seed), source);
        let by_level = plain.by_level();
        prop_assume!(by_level.iter().all(|nodes| nodes.len() <= LEVEL_NODES));
        let bytes = 900 << 10;
        let graph =
            Graph::build(&disk, class.node_count(), class.shuffled_edges(seed), bytes).unwrap();
        let cluster_nodes = Some(cluster_nodes);
        let clustering = ClusteringSettings { kind, cluster_nodes, seed, ..Default::default() };
        let clusters =
            Clustering::build(&graph, source, (&flash, &disk), bytes, clustering).unwrap();
        let spans = (0..class.node_count()).map(|node| clusters.span_of(node).unwrap()).collect();
        let mut model = Model {
            plain: &plain,
            spans,
            limits,
            table: BTreeSet::new(),
            runs: Vec::new(),
            dead: BTreeSet::new(),
            outside: Some(BTreeSet::new()),
            came: BTreeMap::new(),
            blocks: Vec::new(),
            counts: PoolCounts::default(),
            cluster_reads: 0,
            pool_reads: 0,
            pool_writes: 0,
        };
        for (level, nodes) in (0_u64..).zip(&by_level) {
            model.level(nodes, level);
        }
        let pool = PoolSettings {
            table_bytes: limits.table * TABLE_SLOT_BYTES,
            known_bytes: limits.known * KNOWN_SLOT_BYTES,
            dead_bytes: limits.dead * 8,
            kept_bytes: limits.kept * (1024 + 128),
        };
        let before = (flash.counts(), disk.counts());
        let (found, counts) = found_by_level(|visit| {
            clusters.search(source, &disk, bytes, pool, visit).unwrap()
        });
        prop_assert_eq!(found, by_level);
        prop_assert_eq!(counts, model.counts);
        let (flash, disk) = (flash.counts().since(&before.0), disk.counts().since(&before.1));
        // One block says where the source's cluster lies.
        prop_assert_eq!((flash.read_blocks, flash.write_blocks), (model.cluster_reads + 1, 0));
        let expected = (model.pool_reads, model.pool_writes);
        prop_assert_eq!((disk.read_blocks, disk.write_blocks), expected);
    }
}
