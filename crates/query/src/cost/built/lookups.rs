//! The joins over indexes as `join::index_nested_loops` and `join::index_sort_merge` do them: keys
//! are drawn at random, and every page that the operator would ask for is asked of a pool without
//! pages. Large tables are drawn in small: tables, buffers and pool divided by one number, the
//! result multiplied by it. Rows lie in runs that are in the order of the key, as long as those of
//! the leaves that were looked at.
//!
//! ```text
//!   index nested loops   batch of R ─► levels ─► leaves ─► rows noted, until full ─► pages of the heap
//!   index sort-merge     leaves of R and S side by side ─► rows noted, until full ─► pages of both heaps
//! ```
//!
//! What opening a heap reads is in the pool when the join begins.
//!
//! 1. Equal questions draw equal keys.

use super::pool::{Batch, PoolInSmall};
use crate::cost::join::{IndexMemory, IndexMergeMemory};
use crate::cost::{
    CostModel, Estimate, JoinQuestion, JoinSide, Pattern, PoolShape, Restart, Tally, scale_up,
};
use crate::index::{FetchOrder, KEY_ORDER_ROWS, RowBuffer};
use crate::join::JoinType;
use crate::join::index_nested_loops::batch_row_count;
use crate::relation::heap::SAMPLE_COUNT;
use crate::work::Work;
use nandu_base::{Permutation, to_index};
use std::collections::BTreeMap;

/// Keys and rows that are drawn at most; more make tables smaller.
const LOOKS_MAX: u64 = 1 << 17;
/// Bytes of an entry of an inner node of an index, and of a heap.
const NODE_ENTRY_BYTES: [u64; 2] = [24, 10];
/// Leaves that a walk asks for ahead.
const AHEAD_COUNT: u64 = 32;
/// Leaves of one call of a search.
const LEAVES_PER_CALL: u64 = 256;
const MILLION: u64 = 1_000_000;

/// Pages of a tree that are wanted through the pool.
#[derive(Clone, Copy, Debug)]
struct Tree {
    /// Tells the pages of different trees apart.
    number: u64,
    leaf_count: u64,
    entry_count: u64,
    fanout: u64,
    /// Whether nodes above the leaves are wanted through the pool, too. In small they would be too many.
    has_nodes: bool,
}

impl Tree {
    const fn leaf(&self, entry: u64) -> u64 {
        entry * self.leaf_count / self.entry_count
    }

    const fn word(&self, level: u64, page: u64) -> u64 {
        (self.number << 60) | (level << 48) | page
    }

    /// Leaves that calls for so many at most ask for.
    fn want_leaves(&self, pool: &mut PoolInSmall, leaves: &[u64], call_max: u64) {
        pool.want(leaves.iter().map(|leaf| self.word(0, *leaf)), call_max);
    }

    /// Leaves below a node of each level, the lowest first.
    fn spans(&self) -> impl DoubleEndedIterator<Item = u64> + use<> {
        let (leaf_count, fanout) = (self.leaf_count, self.fanout);
        let first = (leaf_count > 1).then_some(fanout);
        let spans = std::iter::successors(first, move |span| {
            (*span < leaf_count).then(|| span.saturating_mul(fanout))
        });
        let spans: Vec<u64> = spans.collect();
        spans.into_iter()
    }

    /// Nodes above the leaves.
    fn node_count(&self) -> u64 {
        self.spans().map(|span| self.leaf_count.div_ceil(span)).sum()
    }

    /// All pages above some leaves, which rise, from the root down; each level is one call.
    fn descend(&self, pool: &mut PoolInSmall, leaves: &[u64]) {
        if !self.has_nodes {
            return;
        }
        let levels: Vec<(u64, u64)> = (1..).zip(self.spans()).collect();
        for &(level, span) in levels.iter().rev() {
            let mut pages: Vec<u64> = leaves.iter().map(|leaf| leaf / span).collect();
            pages.dedup();
            pool.want(pages.iter().map(|page| self.word(level, *page)), u64::MAX);
        }
    }
}

/// One side with its index and the order in which its rows lie.
#[derive(Debug)]
struct Indexed {
    index: Tree,
    heap: Tree,
    places: RowOrder,
    is_clustered: bool,
    /// Rows that are noted before they are fetched.
    item_count: u64,
    /// Rows of one fetch.
    window: usize,
    /// Leaves of the index that one call of a search asks for.
    leaves_per_call: u64,
    /// Leaves that were looked at when the heap was opened.
    sample_count: u64,
    /// Nodes above the leaves of both trees, before they were made smaller.
    node_count: u64,
}

impl Indexed {
    /// `pages` of memory, in a table so many times smaller.
    fn new(
        side: &JoinSide,
        number: u64,
        pages: u64,
        order: FetchOrder,
        scale: u64,
    ) -> Option<Self> {
        let index = side.index?;
        let small = |whole: u64| whole.div_ceil(scale).max(1);
        let stats = &side.stats;
        let row_bytes = match index.row_bytes {
            0 => stats.cell_bytes / stats.tuple_count.max(1),
            bytes => bytes,
        };
        let bytes = pages.saturating_mul(stats.page_bytes);
        let items = RowBuffer::item_count(to_index(bytes), to_index(row_bytes)) as u64;
        let rows = small(stats.tuple_count);
        let tree = |number: u64, leaf_count: u64, entry_bytes: u64| Tree {
            number,
            leaf_count,
            entry_count: rows,
            fanout: (stats.page_bytes / entry_bytes).max(2),
            has_nodes: scale == 1,
        };
        let trees = [
            tree(2 * number, index.leaf_page_count, NODE_ENTRY_BYTES[0]),
            tree(2 * number + 1, stats.page_count, NODE_ENTRY_BYTES[1]),
        ];
        let in_small = |tree: Tree| Tree { leaf_count: small(tree.leaf_count), ..tree };
        Some(Self {
            index: in_small(trees[0]),
            heap: in_small(trees[1]),
            node_count: trees.iter().map(Tree::node_count).sum(),
            places: RowOrder::new(rows, index.run_rows, 11 + number),
            is_clustered: index.is_clustered,
            item_count: small(items),
            leaves_per_call: small(LEAVES_PER_CALL).max(2),
            sample_count: small(SAMPLE_COUNT as u64),
            window: match order {
                FetchOrder::Key => to_index(small(KEY_ORDER_ROWS as u64)),
                FetchOrder::Address => usize::MAX,
            },
        })
    }

    /// What opening a heap has read: its inner nodes, and leaves evenly spread to estimate its rows.
    fn preload(&self, pool: &mut PoolInSmall) {
        if self.is_clustered {
            return;
        }
        if self.heap.has_nodes {
            for (level, span) in (1..).zip(self.heap.spans()) {
                let nodes = 0..self.heap.leaf_count.div_ceil(span);
                pool.preload(nodes.map(|node| self.heap.word(level, node)));
            }
        }
        let count = self.sample_count.min(self.heap.leaf_count);
        let leaves = (0..count).map(|index| index * self.heap.leaf_count / count);
        pool.preload(leaves.map(|leaf| self.heap.word(0, leaf)));
    }

    /// Fetches the rows of some entries.
    fn fetch(&self, pool: &mut PoolInSmall, entries: &mut Vec<u64>) {
        if !self.is_clustered {
            let length = self.window.min(entries.len()).max(1);
            for window in entries.chunks(length) {
                let pages = window.iter().map(|&entry| self.heap.leaf(self.places.apply(entry)));
                let mut pages: Vec<u64> = pages.collect();
                pages.sort_unstable();
                pages.dedup();
                pool.note_visits(pages.len() as u64);
                self.heap.descend(pool, &pages);
                self.heap.want_leaves(pool, &pages, u64::MAX);
            }
        }
        entries.clear();
    }
}

/// An order of rows: runs in any order, each in that of the rows.
#[derive(Debug)]
struct RowOrder {
    runs: Permutation,
    run_rows: u64,
    last: u64,
}

impl RowOrder {
    fn new(row_count: u64, run_rows: u64, seed: u64) -> Self {
        let run_rows = run_rows.clamp(1, row_count.max(1));
        let runs = Permutation::new(row_count.div_ceil(run_rows).max(1), seed);
        Self { runs, run_rows, last: row_count.saturating_sub(1) }
    }

    /// Where a row comes. The last run may be a shorter one.
    fn apply(&self, row: u64) -> u64 {
        let run = self.runs.apply(row / self.run_rows);
        (run * self.run_rows + row % self.run_rows).min(self.last)
    }
}

/// What was drawn.
#[derive(Clone, Debug)]
struct Drawn {
    /// Reads at once, and how many of each kind.
    batches: BTreeMap<Batch, u64>,
    read_count: u64,
    /// Those of the next page to the one before.
    neighbour_count: u64,
    /// Reads that are under way at once, on average.
    depth: u64,
    descent_count: u64,
    /// How often rows were taken from a page.
    visit_count: u64,
}

/// A pool for tables that are so many times smaller. Nodes above the leaves are in steady use and stay.
fn pool_in_small(pool: PoolShape, node_count: u64, scale: u64) -> PoolInSmall {
    let nodes = if scale == 1 { 0 } else { node_count.min(pool.page_count / 2) };
    PoolInSmall::new((pool.page_count - nodes) / scale, pool.replacement)
}

impl Drawn {
    fn new(pool: &PoolInSmall, (descent_count, node_count): (u64, u64), scale: u64) -> Self {
        let nodes = if scale == 1 { 0 } else { node_count };
        let read_count = pool.read_count().saturating_mul(scale).saturating_add(nodes);
        let mut batches: BTreeMap<Batch, u64> = BTreeMap::new();
        for (batch, &calls) in pool.calls() {
            let (large, parts) = batch.enlarged(scale);
            *batches.entry(large).or_insert(0) += calls.saturating_mul(parts);
        }
        if nodes > 0 {
            let (count, call_max) = (1, u64::MAX);
            let alone = Batch {
                span_pages: count,
                page_count: count,
                alone_count: count,
                run_count: 0,
                call_max,
            };
            *batches.entry(alone).or_insert(0) += nodes;
        }
        let neighbours = batches.iter().map(|(batch, calls)| batch.neighbour_count() * calls);
        let neighbour_count = neighbours.sum();
        let call_count: u64 = batches.values().sum();
        Self {
            batches,
            read_count,
            neighbour_count,
            depth: (read_count / call_count.max(1)).max(1),
            descent_count: descent_count.saturating_mul(scale),
            visit_count: pool.visit_count().saturating_mul(scale),
        }
    }

    fn book(&self, tally: &mut Tally<'_>) {
        let device = tally.model.device;
        if let Some(times) = device.streams.as_ref().and_then(|streams| streams.batch.as_ref()) {
            for (batch, &calls) in &self.batches {
                let Batch { span_pages, page_count, alone_count, run_count, .. } = *batch;
                let area_bytes = span_pages.saturating_mul(tally.page_bytes);
                // A device that reads ahead where two neighbours come takes a run of two quite differently
                // from two pages.
                let near_count = page_count - alone_count;
                // Pages that are alone are waited for while it works on runs: then only its pace counts.
                let alone_depth = if run_count > 0 { u64::MAX } else { page_count };
                for (runs, depth) in [
                    ((alone_count, alone_count), alone_depth),
                    ((near_count, run_count), page_count),
                ] {
                    let runs_ns = times.runs_ns(runs, tally.page_bytes, depth, area_bytes);
                    tally.scattered(calls.saturating_mul(runs.0), calls.saturating_mul(runs_ns));
                }
            }
            return;
        }
        let scattered = self.read_count.saturating_sub(self.neighbour_count);
        let mut reads = Tally::new(tally.model, tally.page_bytes);
        reads.read_requests(Pattern::Random, scattered, scattered);
        reads.seek(scattered);
        let gain_ppm = tally.model.device.queue_gain_ppm(self.depth);
        reads.estimate.io_ns = scale_up(reads.estimate.io_ns, MILLION, gain_ppm);
        let mut next = Tally::new(tally.model, tally.page_bytes);
        next.read_requests(Pattern::Sequential, self.neighbour_count, self.neighbour_count);
        tally.estimate += next.estimate;
        tally.estimate += reads.estimate;
    }
}

/// Index nested loops but for the pairs that come out; `None` without an index on S.
pub(in crate::cost) fn lookups(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    memory: &IndexMemory,
    order: FetchOrder,
) -> Option<Estimate> {
    let outer = question.outer.footprint();
    let mut tally = Tally::new(model, outer.page_bytes);
    let reads = tally.scan(&outer, memory.input_pages);
    tally.work(Work::Scan, outer.stored_tuples);
    tally.work(Work::Copy, outer.tuple_count);
    let pair_count = question.outer_pair_count();
    let scale = outer.tuple_count.saturating_add(pair_count).div_ceil(LOOKS_MAX).max(1);
    let inner = Indexed::new(&question.inner, 0, memory.inner_pages, order, scale)?;
    let batch_bytes = memory.batch_pages.saturating_mul(outer.page_bytes);
    let batch_rows = batch_row_count(to_index(batch_bytes), to_index(outer.mean_cell_bytes()));
    let per_key = to_nearest(pair_count, outer.tuple_count).max(1);
    let draw = LookupDraw {
        row_count: outer.tuple_count.div_ceil(scale),
        matched_count: (pair_count / per_key).div_ceil(scale),
        batch_rows: (batch_rows as u64).div_ceil(scale),
        per_key,
        fetches: question.join_type.has_pairs(),
        run_rows: question.outer.index.map_or(1, |index| index.run_rows),
    };
    let mut pool = pool_in_small(memory.pool, inner.node_count, scale);
    inner.preload(&mut pool);
    let (drawn, interrupted_count) = draw.run(&inner, pool, scale);
    let restart_count = reads.min(interrupted_count + 1);
    let run_length = reads / restart_count.max(1);
    let restart = Restart::of(model, &outer, memory.input_pages, run_length);
    tally.restart(&restart, restart_count);
    tally.work(Work::Descend, drawn.descent_count);
    tally.work(Work::Fetch, if draw.fetches { pair_count } else { 0 });
    tally.visit(drawn.visit_count);
    // The outer side is read ahead; for all others the join waits.
    tally.end_phase();
    drawn.book(&mut tally);
    Some(tally.estimate)
}

/// Rows of R and what they look up.
#[derive(Clone, Copy, Debug)]
struct LookupDraw {
    row_count: u64,
    /// Those that have partners.
    matched_count: u64,
    batch_rows: u64,
    /// Partners of each.
    per_key: u64,
    /// Whether partners are fetched; else it is enough that there is one.
    fetches: bool,
    /// Rows that come in the order of their keys.
    run_rows: u64,
}

impl LookupDraw {
    /// Answers in how many batches something was read, too.
    fn run(&self, inner: &Indexed, mut pool: PoolInSmall, scale: u64) -> (Drawn, u64) {
        let key_count = (inner.index.entry_count / self.per_key).max(1);
        let rows = RowOrder::new(self.row_count, self.run_rows, 3);
        // Which keys have partners does not follow from their order.
        let chosen = Permutation::new(key_count, 7);
        let (mut descent_count, mut interrupted_count) = (0, 0);
        let mut keys = Vec::new();
        for row in 0..self.row_count {
            let number = rows.apply(row);
            // Rows beside each other have neighbouring keys where they come in runs, and else any.
            let is_any = self.run_rows <= 1 && self.row_count >= key_count;
            let key = if is_any { number % key_count } else { number * key_count / self.row_count };
            keys.push((key, chosen.apply(key) * self.row_count < self.matched_count * key_count));
            if keys.len() as u64 == self.batch_rows.max(1) || row + 1 == self.row_count {
                keys.sort_unstable();
                keys.dedup_by_key(|(key, _)| *key);
                descent_count += keys.len() as u64;
                let before = pool.read_count();
                self.look_up(inner, &mut pool, &keys);
                interrupted_count += u64::from(pool.read_count() > before);
                keys.clear();
            }
        }
        (Drawn::new(&pool, (descent_count, inner.node_count), scale), interrupted_count)
    }

    /// One batch: its keys, and whether they are there.
    fn look_up(&self, inner: &Indexed, pool: &mut PoolInSmall, keys: &[(u64, bool)]) {
        let Indexed { index, item_count, leaves_per_call, .. } = inner;
        let first_entry = |key: u64| (key * self.per_key).min(index.entry_count - 1);
        let leaves: Vec<u64> = keys.iter().map(|(key, _)| index.leaf(first_entry(*key))).collect();
        index.descend(pool, &leaves);
        let mut open: Vec<Open> = Vec::with_capacity(keys.len());
        for &(key, is_matched) in keys {
            let entry = first_entry(key);
            let end = (entry + self.per_key).min(index.entry_count);
            let end = if is_matched && self.fetches { end } else { entry };
            open.push(Open { entry, end, is_done: false });
        }
        let mut noted = Vec::new();
        while !open.is_empty() {
            let (leaves, in_call) = leaves_of_call(index, &open, *leaves_per_call);
            index.want_leaves(pool, &leaves, LEAVES_PER_CALL);
            let mut is_full = false;
            for open in open.iter_mut().take(in_call) {
                let leaf = index.leaf(open.entry);
                while open.entry < open.end && index.leaf(open.entry) == leaf {
                    is_full = noted.len() as u64 >= *item_count;
                    if is_full {
                        break;
                    }
                    noted.push(open.entry);
                    open.entry += 1;
                }
                if is_full {
                    break;
                }
                // Where a leaf ends with the key, the next one may have more of it.
                open.is_done = open.entry >= index.entry_count || index.leaf(open.entry) == leaf;
            }
            open.retain(|open| !open.is_done);
            if is_full {
                inner.fetch(pool, &mut noted);
            }
        }
        inner.fetch(pool, &mut noted);
    }
}

/// The entries of a key that are still to be visited.
#[derive(Clone, Copy, Debug)]
struct Open {
    entry: u64,
    end: u64,
    is_done: bool,
}

/// The leaves that one call of a search reads, and of how many keys. All are read, whatever comes of them.
fn leaves_of_call(index: &Tree, open: &[Open], count_max: u64) -> (Vec<u64>, usize) {
    let mut leaves: Vec<u64> = Vec::new();
    for (at, open) in open.iter().enumerate() {
        let leaf = index.leaf(open.entry);
        if leaves.last() != Some(&leaf) {
            if leaves.len() as u64 == count_max {
                return (leaves, at);
            }
            leaves.push(leaf);
        }
    }
    (leaves, open.len())
}

/// Index sort-merge but for the pairs that come out; `None` without an index on both sides.
pub(in crate::cost) fn merged(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    memory: &IndexMergeMemory,
) -> Option<Estimate> {
    let (outer, inner) = (&question.outer, &question.inner);
    let counts = [outer.stats.tuple_count, inner.stats.tuple_count];
    let scale = (counts[0].saturating_add(counts[1])).div_ceil(LOOKS_MAX).max(1);
    let side = |side: &JoinSide, number: u64, pages: u64| {
        Indexed::new(side, number, pages.saturating_sub(1), FetchOrder::Address, scale)
    };
    let sides = [side(outer, 0, memory.outer_pages)?, side(inner, 1, memory.inner_pages)?];
    let pair_count = question.outer_pair_count();
    // Rows of one key: of R for each row of S, and of S for each row of R.
    let per_key = [to_nearest(pair_count, counts[1]), to_nearest(pair_count, counts[0])];
    let per_key = per_key.map(|count| count.max(1));
    let group_count = pair_count / (per_key[0] * per_key[1]);
    let node_count = sides[0].node_count + sides[1].node_count;
    let call_max = if model.reads_ahead { AHEAD_COUNT } else { 1 };
    let mut draw = MergeDraw {
        sides,
        per_key,
        group_count: group_count.div_ceil(scale),
        pool: pool_in_small(memory.pool, node_count, scale),
        noted: [Vec::new(), Vec::new()],
        join_type: question.join_type,
        call_max,
        leaves_per_call: call_max.div_ceil(scale).max(call_max.min(2)),
    };
    for side in &draw.sides {
        side.preload(&mut draw.pool);
    }
    draw.run();
    let drawn = Drawn::new(&draw.pool, (0, node_count), scale);
    let mut tally = Tally::new(model, outer.stats.page_bytes);
    tally.work(Work::Compare, counts[0].saturating_add(counts[1]));
    let fetched = per_key[0].saturating_add(per_key[1]).saturating_mul(group_count);
    tally.work(Work::Fetch, fetched);
    tally.visit(drawn.visit_count);
    drawn.book(&mut tally);
    Some(tally.estimate)
}

/// Two indexes side by side.
struct MergeDraw {
    sides: [Indexed; 2],
    per_key: [u64; 2],
    /// Keys that both sides have.
    group_count: u64,
    pool: PoolInSmall,
    noted: [Vec<u64>; 2],
    /// Leaves that a walk asks for at once, and how many that is in small: some are neighbours yet.
    call_max: u64,
    leaves_per_call: u64,
    join_type: JoinType,
}

impl MergeDraw {
    fn run(&mut self) {
        let key_count = [0, 1]
            .map(|side| self.sides[side].index.entry_count.div_ceil(self.per_key[side]))
            .into_iter()
            .max()
            .unwrap_or(0);
        // Which keys have partners does not follow their order.
        let chosen = Permutation::new(key_count.max(1), 5);
        for side in &self.sides {
            side.index.descend(&mut self.pool, &[0]);
        }
        let mut last = [None; 2];
        for key in 0..key_count {
            let is_group = chosen.apply(key) < self.group_count;
            for (side, last) in last.iter_mut().enumerate() {
                let first = key * self.per_key[side];
                let end = (first + self.per_key[side]).min(self.sides[side].index.entry_count);
                for entry in first..end {
                    self.visit(side, entry, last);
                    if self.notes(side, is_group) {
                        self.note(side, entry);
                    }
                }
            }
        }
        self.fetch();
    }

    /// Wants the leaf of an entry when the walk gets there.
    fn visit(&mut self, side: usize, entry: u64, last: &mut Option<u64>) {
        let index = self.sides[side].index;
        let leaf = index.leaf(entry);
        if last.replace(leaf) == Some(leaf) {
            return;
        }
        if leaf.is_multiple_of(index.fanout) {
            index.descend(&mut self.pool, &[leaf]);
        }
        if leaf.is_multiple_of(self.leaves_per_call) {
            let end = (leaf + self.leaves_per_call).min(index.leaf_count);
            let ahead: Vec<u64> = (leaf..end).collect();
            index.want_leaves(&mut self.pool, &ahead, self.call_max);
        }
    }

    /// Whether rows of a side come out, of keys that both sides have or of others.
    const fn notes(&self, side: usize, is_group: bool) -> bool {
        match self.join_type {
            JoinType::Inner => is_group,
            JoinType::Left => is_group || side == 0,
            JoinType::Right => is_group || side == 1,
            JoinType::Full => true,
            JoinType::Semi => is_group && side == 0,
            JoinType::Anti => !is_group && side == 0,
        }
    }

    /// Notes a row; where there is no room, what was noted is fetched first.
    fn note(&mut self, side: usize, entry: u64) {
        if self.noted[side].len() as u64 >= self.sides[side].item_count {
            let is_within_group = side == 1 && !entry.is_multiple_of(self.per_key[1]);
            let group = entry / self.per_key[side] * self.per_key[0];
            self.fetch();
            if is_within_group {
                // The rows of R that the group has are fetched again for the rest of it.
                let rows = group..(group + self.per_key[0]).min(self.sides[0].index.entry_count);
                self.noted[0].extend(rows);
            }
        }
        self.noted[side].push(entry);
    }

    fn fetch(&mut self) {
        for (side, noted) in self.noted.iter_mut().enumerate() {
            self.sides[side].fetch(&mut self.pool, noted);
        }
    }
}

const fn to_nearest(numerator: u64, denominator: u64) -> u64 {
    match denominator {
        0 => 0,
        some => numerator.saturating_add(some / 2) / some,
    }
}
