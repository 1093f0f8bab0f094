//! Searches beside a sorted slice; their blocks beside a count that lays the trees out on its own.

use super::*;
use crate::testing::{GRANT_BYTES, faulty_io, store, store_with};
use crate::{Grant, Settings};
use nandu_base::Rng;
use nandu_device::FaultPlan;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Records of a block of 512 bytes.
const PER_BLOCK: u64 = (512 - 8) / 8;

/// Numbers that some stream gives, which may or may not know how many.
struct Numbers {
    numbers: VecDeque<u64>,
    told: Option<u64>,
}

impl RecordStream for Numbers {
    type Record = u64;

    fn next_record(&mut self) -> Result<Option<u64>, ExternalError> {
        Ok(self.numbers.pop_front())
    }

    fn left_count(&self) -> Option<u64> {
        self.told
    }
}

fn stream_of(numbers: &[u64]) -> Numbers {
    Numbers { numbers: numbers.iter().copied().collect(), told: Some(numbers.len() as u64) }
}

fn expected(numbers: &[u64], key: u64) -> Option<u64> {
    numbers.get(numbers.partition_point(|&number| number < key)).copied()
}

/// Ranks of the records in the order in which they lie, and the places that a search looks at.
struct Oracle {
    ranks: Vec<Option<u64>>,
    looks: Vec<u64>,
}

/// A binary tree in memory, drawn by its definition.
struct Drawn {
    /// Nodes by level and number, with the ranks of their records.
    ranks: BTreeMap<(u32, u64), u64>,
    order: Vec<(u32, u64)>,
}

impl Drawn {
    fn new(len: u64) -> Self {
        let mut drawn = Self { ranks: BTreeMap::new(), order: Vec::new() };
        // Numbered as in a heap: the children of n are 2n and 2n + 1, and 1 to len are there.
        let mut next = 0;
        drawn.number(1, len, &mut next);
        let height = (0_u32..).find(|&height| (1_u64 << height) > len).unwrap();
        drawn.lay(0, 0, height);
        drawn
    }

    fn number(&mut self, heap: u64, len: u64, next: &mut u64) {
        if heap > len {
            return;
        }
        self.number(2 * heap, len, next);
        let depth = heap.ilog2();
        self.ranks.insert((depth, heap - (1 << depth)), *next);
        *next += 1;
        self.number(2 * heap + 1, len, next);
    }

    fn lay(&mut self, depth: u32, index: u64, height: u32) {
        if height == 0 || !self.ranks.contains_key(&(depth, index)) {
            return;
        }
        if height == 1 {
            return self.order.push((depth, index));
        }
        let top = height / 2;
        for below in 0..1_u64 << top {
            self.lay(depth + top, (index << top) + below, height - top);
        }
        self.lay(depth, index, top);
    }

    /// Where a search for the record number `rank` looks; one less than all for one after all.
    fn looks(&self, rank: u64) -> Vec<u64> {
        let (mut looks, mut node) = (Vec::new(), (0, 0));
        while let Some(&its_rank) = self.ranks.get(&node) {
            let place = self.order.iter().position(|&other| other == node).unwrap();
            looks.push(place as u64);
            node = (node.0 + 1, 2 * node.1 + u64::from(its_rank < rank));
        }
        looks
    }
}

/// Of a search for the record `rank` in `len`, by kind.
fn oracle(kind: SearchKind, len: u64, rank: u64) -> Oracle {
    match kind {
        SearchKind::VanEmdeBoas => {
            let drawn = Drawn::new(len);
            let ranks = drawn.order.iter().map(|node| Some(drawn.ranks[node])).collect();
            Oracle { ranks, looks: drawn.looks(rank) }
        }
        SearchKind::Halves => {
            let (mut low, mut high, mut looks) = (0, len, Vec::new());
            while low < high {
                let middle = (low + high) / 2;
                looks.push(middle);
                (low, high) = if middle < rank { (middle + 1, high) } else { (low, middle) };
            }
            Oracle { ranks: (0..len).map(Some).collect(), looks }
        }
        SearchKind::BTree { node_records } => b_tree_oracle(len, node_records, rank),
    }
}

/// Ranks of the records of each level, the leaves first; then from the root down.
fn b_tree_oracle(len: u64, node_records: Option<u64>, rank: u64) -> Oracle {
    let node = node_records.unwrap_or(PER_BLOCK);
    let mut levels: Vec<Vec<u64>> = vec![(0..len).collect()];
    while levels.last().unwrap().len() as u64 > node {
        let chunks = levels.last().unwrap().chunks(usize::try_from(node).unwrap());
        let above = chunks.map(|chunk| *chunk.last().unwrap()).collect();
        levels.push(above);
    }
    let (mut ranks, mut starts): (Vec<Option<u64>>, Vec<u64>) = (Vec::new(), Vec::new());
    for level in &levels {
        while !(ranks.len() as u64).is_multiple_of(PER_BLOCK) && !starts.is_empty() {
            ranks.push(None);
        }
        starts.push(ranks.len() as u64);
        ranks.extend(level.iter().map(|&rank| Some(rank)));
    }
    let mut looks = Vec::new();
    let (mut low, mut high) = (0, levels.last().unwrap().len() as u64);
    for (level, &start) in levels.iter().zip(&starts).rev() {
        while low < high {
            let middle = (low + high) / 2;
            looks.push(start + middle);
            let is_before = level[usize::try_from(middle).unwrap()] < rank;
            (low, high) = if is_before { (middle + 1, high) } else { (low, middle) };
        }
        if low == level.len() as u64 {
            break;
        }
        let number = levels.iter().position(|other| std::ptr::eq(other, level)).unwrap();
        if let Some(below) = number.checked_sub(1) {
            let len = levels[below].len() as u64;
            (low, high) = (low * node, ((low + 1) * node).min(len) - 1);
        }
    }
    Oracle { ranks, looks }
}

/// How often the block changes from one place to the next, none at hand before the first.
fn block_changes(looks: &[u64]) -> u64 {
    let blocks: Vec<u64> = looks.iter().map(|place| place / PER_BLOCK).collect();
    u64::from(!blocks.is_empty())
        + blocks.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64
}

fn kinds() -> impl Strategy<Value = SearchKind> {
    prop_oneof![
        Just(SearchKind::Halves),
        Just(SearchKind::VanEmdeBoas),
        Just(SearchKind::BTree { node_records: None }),
        (2_u64..100).prop_map(|records| SearchKind::BTree { node_records: Some(records) }),
    ]
}

proptest! {
    #[test]
    fn searches_find_what_a_sorted_slice_has(
        kind in kinds(), count in 0_usize..3000, spread in 1_u64..4000, frames in 1_u32..6,
        volumes in 1_usize..3, in_flight in 0_u32..4, is_told: bool, seed: u64,
    ) {
        let store = store(512, volumes, in_flight);
        let mut rng = Rng::new(seed);
        let mut numbers: Vec<u64> = (0..count).map(|_| 1 + rng.below(spread)).collect();
        numbers.sort_unstable();
        let told = is_told.then_some(count as u64);
        let stream = Numbers { numbers: numbers.iter().copied().collect(), told };
        let tree = kind.build(&store, stream).unwrap();
        tree.audit();
        prop_assert_eq!((tree.len(), tree.is_empty()), (count as u64, count == 0));
        let mut keys: Vec<u64> = (0..40).map(|_| rng.below(spread + 3)).collect();
        keys.extend([0, u64::MAX]);
        let answers: Vec<Option<u64>> = keys.iter().map(|&key| expected(&numbers, key)).collect();
        prop_assert_eq!(tree.first_from_each(&keys), Ok(answers.clone()));
        let mut searcher = tree.searcher(frames).unwrap();
        for (key, answer) in keys.iter().zip(answers) {
            prop_assert_eq!(searcher.first_from(key), Ok(answer));
        }
        let tree = searcher.into_tree().unwrap();
        tree.audit();
        drop(tree);
        prop_assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, GRANT_BYTES));
        store.audit();
    }

    #[test]
    fn blocks_that_a_search_reads_are_those_of_the_tree_as_it_is_defined(
        kind in kinds(), len in 1_u64..1500, seed: u64,
    ) {
        let store = store(512, 1, 2);
        // Even numbers, so that keys may lie between.
        let numbers: Vec<u64> = (0..len).map(|rank| 2 * rank).collect();
        let mut rng = Rng::new(seed);
        let tree = kind.build(&store, stream_of(&numbers)).unwrap();
        let ranks = oracle(kind, len, 0).ranks;
        let mut scanner = tree.places.scanner().unwrap();
        for rank in &ranks {
            let found = scanner.next_record().unwrap().unwrap();
            prop_assert!(rank.is_none_or(|rank| found == 2 * rank), "{found} {rank:?}");
        }
        prop_assert_eq!(scanner.next_record(), Ok(None));
        drop(scanner);
        let mut tree = tree;
        for _ in 0..20 {
            let key = rng.below(2 * len + 2);
            let expected = block_changes(&oracle(kind, len, key.div_ceil(2)).looks);
            // A searcher that begins, with one block of memory.
            let mut searcher = tree.searcher(1).unwrap();
            searcher.first_from(&key).unwrap();
            prop_assert_eq!(searcher.read_count(), expected, "{:?} {} {}", kind, len, key);
            tree = searcher.into_tree().unwrap();
        }
    }

    #[test]
    fn a_batch_reads_each_block_once_a_round(
        kind in kinds(), len in 1_u64..1500, key_count in 0_usize..60, seed: u64,
    ) {
        let store = store(512, 1, 3);
        let numbers: Vec<u64> = (0..len).map(|rank| 2 * rank).collect();
        let tree = kind.build(&store, stream_of(&numbers)).unwrap();
        let mut rng = Rng::new(seed);
        let keys: Vec<u64> = (0..key_count).map(|_| rng.below(2 * len + 2)).collect();
        let mut rounds: Vec<BTreeSet<u64>> = Vec::new();
        for key in &keys {
            let looks = oracle(kind, len, key.div_ceil(2)).looks;
            let mut blocks: Vec<u64> = looks.iter().map(|place| place / PER_BLOCK).collect();
            blocks.dedup();
            for (round, block) in blocks.into_iter().enumerate() {
                rounds.resize_with(rounds.len().max(round + 1), Default::default);
                rounds[round].insert(block);
            }
        }
        let expected = rounds.iter().map(|blocks| blocks.len() as u64).sum::<u64>();
        let before = store.counts();
        tree.first_from_each(&keys).unwrap();
        let counts = store.counts().since(&before);
        prop_assert_eq!((counts.read_blocks, counts.write_blocks), (expected, 0));
    }
}

#[test]
fn each_record_is_written_once_in_order() {
    for len in [1_u64, 62, 63, 64, 5000, 100_000] {
        for kind in SearchKind::ALL {
            let store = store_with(512, 1, 2, 1 << 20);
            let numbers: Vec<u64> = (0..len).collect();
            let tree = kind.build(&store, stream_of(&numbers)).unwrap();
            let mut levels = vec![len.div_ceil(PER_BLOCK)];
            while levels.last().unwrap() > &1
                && kind != SearchKind::VanEmdeBoas
                && kind != SearchKind::Halves
            {
                levels.push(levels.last().unwrap().div_ceil(PER_BLOCK));
            }
            let blocks: u64 = levels.iter().sum();
            // Upper levels of a B-tree wait in vectors of their own.
            let expected = blocks + levels[1..].iter().sum::<u64>();
            assert_eq!(tree.block_count(), blocks, "{kind:?} {len}");
            assert_eq!(store.counts().write_blocks, expected, "{kind:?} {len}");
        }
    }
}

#[test]
fn a_tree_that_knows_no_block_reads_few_of_any_size() {
    let count = 200_000;
    let mean_reads = |kind: SearchKind, block_bytes| {
        let store = store_with(block_bytes, 1, 2, 2 << 20);
        let numbers: Vec<u64> = (0..count).collect();
        let tree = kind.build(&store, stream_of(&numbers)).unwrap();
        // Nothing of one search is left for the next one.
        let mut searcher = tree.searcher(1).unwrap();
        let mut rng = Rng::new(3);
        for _ in 0..500 {
            searcher.first_from(&rng.below(count)).unwrap();
        }
        searcher.read_count() as f64 / 500.0
    };
    for block_bytes in [512, 2048, 8192, 32_768] {
        let halves = mean_reads(SearchKind::Halves, block_bytes);
        let b_tree = mean_reads(SearchKind::BTree { node_records: None }, block_bytes);
        let oblivious = mean_reads(SearchKind::VanEmdeBoas, block_bytes);
        let what = format!("{block_bytes}: {halves} {b_tree} {oblivious}");
        assert!(b_tree <= oblivious && oblivious < 2.2 * b_tree, "{what}");
        assert!(oblivious < 0.75 * halves, "{what}");
    }
    // Nodes for small blocks gain less from large ones.
    let small = SearchKind::BTree { node_records: Some(PER_BLOCK) };
    assert!(mean_reads(small, 32_768) > mean_reads(SearchKind::VanEmdeBoas, 32_768));
}

#[test]
fn what_is_not_sorted_or_of_another_length_is_refused() {
    for kind in SearchKind::ALL {
        let store = store(512, 1, 1);
        let fails = |numbers: &[u64], told: u64| {
            let numbers = numbers.iter().copied().collect();
            let error = kind.build(&store, Numbers { numbers, told: Some(told) }).unwrap_err();
            assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, GRANT_BYTES));
            error.to_string()
        };
        assert!(fails(&[1, 2, 5, 4], 4).contains("at record 3 of 4: that comes before"));
        assert!(fails(&[1, 2], 3).contains("at record 2 of 3: it ends there"));
        assert!(fails(&[1, 2, 3], 2).contains("at record 2 of 2: it goes on there"));
    }
    let store = store(512, 1, 1);
    let kind = SearchKind::BTree { node_records: Some(1) };
    assert!(kind.build(&store, stream_of(&[1])).is_err());
}

#[test]
fn too_little_memory_is_refused() {
    let store = store_with(512, 1, 0, 4 * 512);
    let numbers: Vec<u64> = (0..1 << 16).collect();
    let error = SearchKind::VanEmdeBoas.build(&store, stream_of(&numbers)).unwrap_err();
    assert!(error.to_string().contains("building a search tree needs"), "{error}");
    let tree = SearchKind::Halves.build(&store, stream_of(&numbers)).unwrap();
    let error = tree.first_from_each(&[7; 1000]).unwrap_err();
    assert!(error.to_string().contains("a batch of searches needs"), "{error}");
    assert!(tree.searcher(8).is_err());
}

#[test]
fn a_device_that_fails_anywhere_ends_in_an_error_and_gives_all_back() {
    let mut failed_count = 0;
    for kind in SearchKind::ALL {
        for request in (0..150).step_by(5) {
            let plan = FaultPlan { fail_requests: vec![request], ..FaultPlan::default() };
            let Ok(io) = faulty_io(1 << 20, plan) else { continue };
            let settings = Settings { block_bytes: 512, in_flight: 2 };
            let io = std::slice::from_ref(&io);
            let Ok(store) = Store::new(io, settings, Grant::new(1 << 20)) else { continue };
            let numbers: Vec<u64> = (0..3000).collect();
            let run = || -> Result<(), ExternalError> {
                let tree = kind.build(&store, stream_of(&numbers))?;
                let keys: Vec<u64> = (0..50).map(|number| number * 60).collect();
                let answers = tree.first_from_each(&keys)?;
                assert!(answers.iter().zip(&keys).all(|(answer, key)| answer == &Some(*key)));
                let mut searcher = tree.searcher(2)?;
                for key in keys {
                    assert_eq!(searcher.first_from(&key)?, Some(key));
                }
                Ok(())
            };
            failed_count += u64::from(run().is_err());
            assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, 1 << 20));
        }
    }
    assert!(failed_count > 60, "{failed_count} met a failure");
}
