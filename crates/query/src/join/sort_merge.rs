//! Sort-merge: both sides in order, then one walk along both (Blasgen and Eswaran 1977; S001 section 3.2).
//!
//! ```text
//!   pass 1   each side ─► runs, or in memory if it fits
//!   pass 2   │ a block for each run of both sides │ group │ others │ one page for spilled groups │
//!
//!   Seek ──equal keys──► Gather ──► Replay ──► Seek          the group: all rows of one key of one side
//!                           └─too large─► Block ⇄ Cross      spilled: read once for each block of others
//! ```
//!
//! Rows of a side that stayed in memory are lent from there; those of runs are copied, because their
//! page is turned while the pairs are still to be looked at.
//!
//! 1. Both sides move in the order of their keys; each pair of equal keys comes out once.
//! 2. A group that is larger than its buffer is written once, and released when its key is over.
//! 3. Nothing is written for a side that stays in memory.

mod input;

use super::roles::{Alone, Roles};
use super::{Join, JoinStream, Side};
use crate::execution::Memory;
use crate::relation::TupleStream;
use crate::sort::merge::{KeyRange, Merge, RunSet, reduce};
use crate::sort::runs::{SharedRuns, Sorted, SortedRows};
use crate::sort::workspace::ROW_OVERHEAD_BYTES;
use crate::sort::{self, SortCounts};
use crate::spill::{Bucket, SpillStream, SpillWriter};
use crate::tuple::{NO_TUPLE, PairBatch};
use crate::work::Work;
use crate::{Execution, QueryError};
use input::Input;
use std::cmp::Ordering;

const OPERATOR: &str = "sort-merge";
/// Pairs that are handed on at once; one row of a block may pass it.
const PAIR_COUNT_MAX: usize = 1024;
/// Pages for rows of one key at most.
const GROUP_PAGES_MAX: u32 = 16;
/// Rows that meet a page of a spilled group at once.
const BLOCK_COUNT_MAX: usize = 256;

/// How the memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The first pass. The second has all of its pages.
    pub sort: sort::Settings,
    /// The side whose rows of one key are kept together: that with fewer duplicates. A side that stays
    /// in memory is preferred.
    pub group: Side,
    /// Pages for such a group, and as many for rows of the other side, in the second pass.
    pub group_pages: u32,
}

/// Pages for rows of one key, of so many in all, where nobody knows better.
#[must_use]
pub fn group_pages(memory_pages: u32) -> u32 {
    (memory_pages / 64).clamp(1, GROUP_PAGES_MAX)
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Both sides are sorted.
    Begin,
    /// The side whose key is less goes on.
    Seek,
    /// The rest of the group is collected.
    Gather,
    /// Each row of the other side meets the group.
    Replay,
    /// Rows of the other side are collected for a spilled group.
    Block,
    /// They meet the pages of the group.
    Cross,
    End,
}

/// Which rows of a side make a group: places as [`Input::place`] gives them.
#[derive(Clone, Debug, Default)]
struct Group {
    key_bytes: Vec<u8>,
    start: u64,
    end: u64,
    /// The next row for the row of the other side at hand.
    next: u64,
}

/// A group that was written.
#[derive(Default)]
struct SpilledGroup<'x> {
    bucket: Option<Bucket>,
    stream: Option<SpillStream<'x>>,
    /// The next row of the stream's batch.
    next: usize,
    /// Rows of the other side.
    block: Vec<u64>,
}

/// Sort-merge join as a stream of pairs: see the module.
pub struct SortMerge<'x> {
    execution: &'x Execution,
    join: Join<'x>,
    settings: Settings,
    roles: Roles,
    group_side: Side,
    /// Memory that is not in use: all of it at first, then that of spilled groups and of copies.
    memory: Option<Memory<'x>>,
    _copies: Option<Memory<'x>>,
    first: Input<'x>,
    second: Input<'x>,
    group: Group,
    spilled: SpilledGroup<'x>,
    pairs: Vec<(u64, u64)>,
    stage: Stage,
    counts: SortCounts,
    compare_count: u64,
    copy_count: u64,
}

/// Pages of the second pass that do not read runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reserve {
    /// For rows of the group, and for those of the other side; with none, a row of each at a time.
    copy_pages: u32,
    /// For a spilled group.
    spill_pages: u32,
}

impl Reserve {
    /// What is set aside of so many free pages.
    fn of(free_pages: u32, group_pages: u32) -> Self {
        // Below, a run for each side leaves a page.
        let copy_pages = match free_pages {
            0..=4 => 0,
            _ => group_pages.clamp(1, (free_pages - 3) / 2),
        };
        Self { copy_pages, spill_pages: 1 }
    }

    /// The runs that can be merged at once with so many free pages.
    pub(crate) fn run_limit(free_pages: u32, group_pages: u32) -> u32 {
        let Self { copy_pages, spill_pages } = Self::of(free_pages, group_pages);
        free_pages.saturating_sub(2 * copy_pages + spill_pages)
    }
}

impl<'x> SortMerge<'x> {
    /// Begins; nothing is read yet.
    ///
    /// # Errors
    /// If there is less memory than the settings say, or the keys do not match.
    pub fn new(
        execution: &'x Execution,
        join: Join<'x>,
        settings: Settings,
    ) -> Result<Self, QueryError> {
        join.check()?;
        let memory = execution.take(OPERATOR, settings.sort.memory_pages())?;
        Ok(Self::at(execution, join, settings, (Stage::Begin, Some(memory), None)))
    }

    /// Joins a range of keys of what several workers have sorted, left and right, in so many pages.
    ///
    /// # Errors
    /// If there is less memory, a run is damaged, or the device fails.
    pub(crate) fn of_range(
        execution: &'x Execution,
        join: Join<'x>,
        settings: Settings,
        (sides, range): (&[SharedRuns; 2], KeyRange<'_>),
        free_pages: u32,
    ) -> Result<Self, QueryError> {
        let reserve = Reserve::of(free_pages, settings.group_pages);
        let copies = execution.take(OPERATOR, 2 * reserve.copy_pages)?;
        let memory = execution.take(OPERATOR, reserve.spill_pages)?;
        let copy_bytes = reserve.copy_pages as usize * execution.page_bytes();
        let run_limit = Reserve::run_limit(free_pages, settings.group_pages);
        let count = |side: &SharedRuns| nandu_base::to_u32(side.runs.len() as u64);
        let run_count: u32 = sides.iter().map(count).sum();
        let run_pages = run_limit.checked_div(run_count).unwrap_or(0);
        let open = |side: Side| {
            let (key, shared) = (join.input(side).key, &sides[usize::from(side == Side::Right)]);
            let memory = execution.take(OPERATOR, run_pages * count(shared))?;
            let merge = Merge::open_range(execution, key, shared, range, memory)?;
            Ok::<_, QueryError>(Input::of_runs(key, merge, copy_bytes))
        };
        let stage = (Stage::Seek, Some(memory), Some(copies));
        let mut join_of_range = Self::at(execution, join, settings, stage);
        join_of_range.first = open(settings.group)?;
        join_of_range.second = open(settings.group.other())?;
        Ok(join_of_range)
    }

    fn at(
        execution: &'x Execution,
        join: Join<'x>,
        settings: Settings,
        (stage, memory, copies): (Stage, Option<Memory<'x>>, Option<Memory<'x>>),
    ) -> Self {
        let key = join.left.key;
        Self {
            execution,
            join,
            settings,
            roles: Roles::of(join.join_type, settings.group),
            group_side: settings.group,
            memory,
            _copies: copies,
            first: Input::empty(key),
            second: Input::empty(key),
            group: Group::default(),
            spilled: SpilledGroup::default(),
            pairs: Vec::new(),
            stage,
            counts: SortCounts::default(),
            compare_count: 0,
            copy_count: 0,
        }
    }

    /// What the sorts of both sides did so far.
    #[must_use]
    pub const fn counts(&self) -> SortCounts {
        self.counts
    }

    /// Asserts what holds between two batches: the group is a range, its rows have its key, and a
    /// spilled one is read for a block only.
    ///
    /// # Panics
    /// If that does not hold.
    pub fn audit(&self) {
        let Group { start, end, next, .. } = self.group;
        let is_held = matches!(self.stage, Stage::Gather | Stage::Replay);
        assert!(start <= next && next <= end, "the group is a range");
        assert!(self.spilled.stream.is_none() || self.stage == Stage::Cross, "invariant 2");
        let is_spilled = matches!(self.stage, Stage::Block | Stage::Cross);
        assert_eq!(self.spilled.bucket.is_some(), is_spilled, "invariant 2");
        let mut place = start;
        while is_held && place < end {
            let (address, next) = self.first.row_at(place);
            let mut key_bytes = Vec::new();
            let tuple = self.first.area().tuple(address);
            self.join
                .input(self.group_side)
                .key
                .encode(tuple, &mut key_bytes)
                .expect("it was read");
            assert_eq!(key_bytes, self.group.key_bytes, "invariant 1");
            place = next;
        }
    }

    /// Sorts one side with `kept_pages` of the work space in use.
    fn form(&self, side: Side, kept_pages: u32) -> Result<Sorted<'x>, QueryError> {
        let input = self.join.input(side);
        let roles = Roles::of(self.join.join_type, side);
        let workspace_pages = self.settings.sort.workspace_pages.max(1) - kept_pages;
        let settings = sort::Settings { workspace_pages, ..self.settings.sort };
        sort::form(self.execution, (input.relation, input.key), settings, roles.keeps_null_keys())
    }

    /// Writes a side that is in memory after all.
    fn spill(&self, rows: SortedRows<'x>) -> Result<Vec<Bucket>, QueryError> {
        let output_pages = self.settings.sort.output_pages.max(1);
        rows.spill(self.execution, self.execution.take(OPERATOR, output_pages)?, None)
    }

    /// Pass 1: the smaller side first, which stays in memory if it leaves enough of that to the other.
    fn sort_both(&mut self) -> Result<(Sorted<'x>, Sorted<'x>), QueryError> {
        let smaller = self.join.smaller_side();
        let workspace_pages = self.settings.sort.workspace_pages.max(1);
        let mut small = self.form(smaller, 0)?;
        let mut kept_pages = 0;
        if let Sorted::Rows(rows) = small {
            let pages = rows.pages();
            let size = self.join.input(smaller.other()).relation.size();
            let other_bytes = size.cell_bytes + size.tuple_count * ROW_OVERHEAD_BYTES as u64;
            let page_bytes = self.execution.page_bytes() as u64;
            let rest_pages = workspace_pages.saturating_sub(pages);
            let fits = |pages: u32| other_bytes < u64::from(pages) * page_bytes;
            // Rather than the other side, which would fit alone, the smaller one is written.
            let is_kept = pages <= workspace_pages / 2 && !fits(workspace_pages);
            small = if is_kept || fits(rest_pages) {
                kept_pages = pages;
                Sorted::Rows(rows)
            } else {
                Sorted::Runs(self.spill(rows)?)
            };
        }
        let mut large = self.form(smaller.other(), kept_pages)?;
        // What stays in memory must not make merges in between necessary.
        for is_large in [true, false] {
            let run_count = small.run_count() + large.run_count();
            let free_pages = self.settings.sort.memory_pages() - small.pages() - large.pages();
            let limit = Reserve::run_limit(free_pages, self.settings.group_pages);
            if run_count == 0 || run_count <= limit as usize {
                break;
            }
            let side = if is_large { &mut large } else { &mut small };
            if let Sorted::Rows(_) = side {
                let Sorted::Rows(rows) = std::mem::replace(side, Sorted::Runs(Vec::new())) else {
                    continue;
                };
                *side = Sorted::Runs(self.spill(rows)?);
            }
        }
        self.counts.run_count = (small.run_count() + large.run_count()) as u64;
        Ok(if smaller == Side::Left { (small, large) } else { (large, small) })
    }

    /// Both passes up to the first row of each side.
    fn begin(&mut self) -> Result<(), QueryError> {
        // It is taken again in parts.
        self.memory = None;
        let (left, right) = self.sort_both()?;
        let all_pages = self.settings.sort.memory_pages();
        let free_pages = all_pages - left.pages() - right.pages();
        let group_pages = self.settings.group_pages;
        let is_kept = |sorted: &Sorted<'_>| matches!(sorted, Sorted::Rows(_));
        self.group_side = match (is_kept(&left), is_kept(&right)) {
            (true, false) => Side::Left,
            (false, true) => Side::Right,
            _ => self.settings.group,
        };
        self.roles = Roles::of(self.join.join_type, self.group_side);
        let (left_rows, left_runs) = left.into_parts();
        let (right_rows, right_runs) = right.into_parts();
        let mut sets = [
            RunSet { key: self.join.left.key, runs: left_runs, fence_bytes: None },
            RunSet { key: self.join.right.key, runs: right_runs, fence_bytes: None },
        ];
        let limit = Reserve::run_limit(free_pages, group_pages) as usize;
        self.counts.merge_count = reduce(self.execution, &mut sets, limit, free_pages)?;
        let [left_set, right_set] = sets;
        let run_count = nandu_base::to_u32((left_set.runs.len() + right_set.runs.len()) as u64);
        let reserve = Reserve::of(free_pages, group_pages);
        let mut copy_pages = 0;
        if run_count > 0 {
            copy_pages = reserve.copy_pages;
            let copies = self.execution.take(OPERATOR, 2 * copy_pages)?;
            self._copies = Some(copies);
            self.memory = Some(self.execution.take(OPERATOR, reserve.spill_pages)?);
        }
        let run_pages = Reserve::run_limit(free_pages, group_pages).checked_div(run_count);
        let copy_bytes = copy_pages as usize * self.execution.page_bytes();
        let open = |rows: Option<SortedRows<'x>>, set: RunSet<'x>| {
            if let Some(rows) = rows {
                return Input::of_rows(set.key, rows);
            }
            let count = nandu_base::to_u32(set.runs.len() as u64);
            let memory = self.execution.take(OPERATOR, run_pages.unwrap_or(0) * count)?;
            let merge = Merge::open(self.execution, set.key, set.runs, memory)?;
            Ok(Input::of_runs(set.key, merge, copy_bytes))
        };
        let (left, right) = (open(left_rows, left_set)?, open(right_rows, right_set)?);
        (self.first, self.second) = match self.group_side {
            Side::Left => (left, right),
            Side::Right => (right, left),
        };
        self.stage = Stage::Seek;
        Ok(())
    }

    /// Forgets the last pairs, and the copies that only they needed.
    fn begin_batch(&mut self) {
        self.pairs.clear();
        match self.stage {
            Stage::Gather | Stage::Replay => {
                let moved = self.first.keep_from(self.group.start);
                for place in [&mut self.group.start, &mut self.group.end, &mut self.group.next] {
                    *place -= moved;
                }
                self.second.release_copies();
            }
            Stage::Cross => {}
            _ => {
                self.first.release_copies();
                self.second.release_copies();
            }
        }
    }

    /// Goes along both sides up to equal keys; true if the batch is full.
    fn seek(&mut self) -> Result<bool, QueryError> {
        let Self { first, second, roles, pairs, .. } = self;
        let mut step_count = 0_u64;
        while pairs.len() < PAIR_COUNT_MAX {
            // Of rows in memory, nobody else asks.
            if step_count.is_multiple_of(1024) {
                self.execution.check_stop()?;
            }
            step_count += 1;
            let order = match (first.key(), second.key()) {
                (None, None) => {
                    self.stage = Stage::End;
                    return Ok(false);
                }
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((one, has_null)), Some((other, _))) => {
                    self.compare_count += 1;
                    let order = one.cmp(other);
                    if has_null && order == Ordering::Equal { Ordering::Less } else { order }
                }
            };
            let (input, alone, is_first) = match order {
                Ordering::Less => (&mut *first, roles.build == Alone::Unmatched, true),
                Ordering::Greater => (&mut *second, roles.probe == Alone::Unmatched, false),
                Ordering::Equal if roles.pairs => {
                    let Some((key_bytes, _)) = first.key() else { continue };
                    self.group.key_bytes.clear();
                    self.group.key_bytes.extend_from_slice(key_bytes);
                    self.group.start = first.place();
                    self.group.end = self.group.start;
                    self.group.next = self.group.start;
                    self.stage = Stage::Gather;
                    return Ok(false);
                }
                // A semi or anti join: rows of the left side, one after the other.
                Ordering::Equal if self.group_side == Side::Left => {
                    (&mut *first, roles.build == Alone::Matched, true)
                }
                Ordering::Equal => (&mut *second, roles.probe == Alone::Matched, false),
            };
            if alone {
                let Some(address) = input.hold() else { return Ok(true) };
                pairs.push(if is_first { (address, NO_TUPLE) } else { (NO_TUPLE, address) });
            }
            input.advance()?;
        }
        Ok(true)
    }

    /// Collects the rest of the group; true if the batch must go before there is room.
    fn gather(&mut self) -> Result<bool, QueryError> {
        let Self { first, group, .. } = self;
        while first.has_key(&group.key_bytes) {
            if first.hold().is_none() {
                if group.start > 0 || !self.pairs.is_empty() {
                    return Ok(true);
                }
                self.spill_group()?;
                self.stage = Stage::Block;
                return Ok(false);
            }
            first.advance()?;
            group.end = first.place();
        }
        self.stage = Stage::Replay;
        Ok(false)
    }

    /// Writes the group, of which the first rows are held.
    fn spill_group(&mut self) -> Result<(), QueryError> {
        let memory = self.spill_memory()?;
        let Self { first, group, .. } = self;
        let expected_pages = 2 * group.end / self.execution.page_bytes() as u64;
        let mut writer = SpillWriter::new(self.execution, memory, expected_pages)?;
        let mut place = group.start;
        while place < group.end {
            let (address, next) = first.row_at(place);
            writer.push(first.area().tuple(address))?;
            place = next;
        }
        while first.has_key(&group.key_bytes) {
            writer.push(first.tuple().expect("it has a key"))?;
            first.advance()?;
        }
        first.release_copies();
        self.copy_count += writer.tuple_count();
        let (bucket, memory) = writer.finish()?;
        self.memory = Some(memory);
        self.spilled.bucket = Some(bucket);
        Ok(())
    }

    /// The memory of spilled groups; it comes back when their reader is dropped.
    fn spill_memory(&mut self) -> Result<Memory<'x>, QueryError> {
        match self.memory.take() {
            Some(memory) => Ok(memory),
            None => self.execution.take(OPERATOR, 1),
        }
    }

    /// Pairs rows of the other side with the group; true if the batch is full.
    fn replay(&mut self) -> Result<bool, QueryError> {
        let Self { first, second, group, pairs, .. } = self;
        while second.has_key(&group.key_bytes) {
            let Some(other) = second.hold() else { return Ok(true) };
            while group.next < group.end {
                if pairs.len() >= PAIR_COUNT_MAX {
                    return Ok(true);
                }
                let (address, next) = first.row_at(group.next);
                pairs.push((address, other));
                group.next = next;
            }
            second.advance()?;
            group.next = group.start;
            self.compare_count += 1;
        }
        self.stage = Stage::Seek;
        Ok(false)
    }

    /// Collects rows of the other side for a spilled group; true if the batch must go first.
    fn collect_block(&mut self) -> Result<bool, QueryError> {
        if !self.pairs.is_empty() {
            return Ok(true);
        }
        let Self { second, group, spilled, .. } = self;
        second.release_copies();
        spilled.block.clear();
        while spilled.block.len() < BLOCK_COUNT_MAX && second.has_key(&group.key_bytes) {
            let Some(address) = second.hold() else { break };
            spilled.block.push(address);
            second.advance()?;
        }
        if spilled.block.is_empty() {
            if let Some(bucket) = spilled.bucket.take() {
                bucket.release(self.execution);
            }
            self.stage = Stage::Seek;
            return Ok(false);
        }
        let memory = self.spill_memory()?;
        let bucket = self.spilled.bucket.as_ref().expect("the group was spilled");
        self.spilled.stream = Some(bucket.scan(self.execution, memory)?);
        self.spilled.next = 0;
        self.stage = Stage::Cross;
        Ok(false)
    }

    /// Pairs a block with a page of the spilled group; true if there are pairs.
    fn cross(&mut self) -> Result<bool, QueryError> {
        let SpilledGroup { stream, next, block, .. } = &mut self.spilled;
        let reader = stream.as_mut().expect("a block meets a reader");
        if *next >= reader.batch().cells.len() {
            if !reader.advance()? {
                *stream = None;
                self.stage = Stage::Block;
                return Ok(false);
            }
            *next = 0;
        }
        // A page stays at hand until its pairs were looked at.
        for &cell in &reader.batch().cells[*next..] {
            if self.pairs.len() >= PAIR_COUNT_MAX {
                break;
            }
            self.pairs.extend(block.iter().map(|&other| (cell, other)));
            *next += 1;
        }
        Ok(true)
    }

    fn book_work(&mut self) {
        let merged = self.first.take_compare_count() + self.second.take_compare_count();
        let compare_count = std::mem::take(&mut self.compare_count) + merged;
        let copied = self.first.take_copy_count() + self.second.take_copy_count();
        let copy_count = std::mem::take(&mut self.copy_count) + copied;
        self.execution.work(Work::Compare, compare_count);
        self.execution.work(Work::Copy, copy_count);
        self.execution.work(Work::Emit, self.pairs.len() as u64);
    }
}

impl JoinStream for SortMerge<'_> {
    fn advance(&mut self) -> Result<bool, QueryError> {
        self.begin_batch();
        loop {
            let has_batch = match self.stage {
                Stage::Begin => {
                    self.begin()?;
                    false
                }
                Stage::Seek => self.seek()?,
                Stage::Gather => self.gather()?,
                Stage::Replay => self.replay()?,
                Stage::Block => self.collect_block()?,
                Stage::Cross => self.cross()?,
                Stage::End => break,
            };
            if has_batch {
                break;
            }
        }
        self.book_work();
        Ok(!self.pairs.is_empty() || self.stage != Stage::End)
    }

    fn batch(&self) -> PairBatch<'_> {
        let first = match &self.spilled.stream {
            Some(stream) => stream.batch().area,
            None => self.first.area(),
        };
        let (second, first_side) = (self.second.area(), self.group_side);
        PairBatch { first, second, first_side, pairs: &self.pairs }
    }
}
