//! FlashJoin (Tsirogiannis and others, SIGMOD 2009), for tables in PAX pages: a kernel joins the keys alone;
//! what else is asked for is fetched for the pairs that came out, batch by batch, each batch in the order of
//! pages, first of one side, then of the other. Nothing is written but what the kernel spills.
//!
//! ```text
//!   memory   │ kernel: hybrid hash over keys │ batch: pairs, rows of both sides │ slots to fetch by │
//!
//!   Fill ─► Left ─► Right ─► pairs ─┐
//!    ▲       ▲        ▲──── more ───┤     where rows fill the batch before its pairs are through,
//!    │       └─────── more ─────────┤     the rest waits
//!    └──── all were handed on ◄─────┘
//! ```
//!
//! The paper pipelines such joins into trees; one of them is a join kernel and a fetch kernel. Its choice of a
//! fetch by random access, by sorted row numbers or by temporary rows is left to the planner, as far as
//! [`super::RareJoin`] is the latter.
//!
//! 1. A page is fetched once for each batch at most, or once more where a batch was cut.
//! 2. Pairs and rows of a batch take the memory of the batch, but for one long row of each side.

use super::late::{JoinIndex, LateJoin, Places, distinct};
use super::{Join, JoinStream, Side, hybrid_hash};
use crate::execution::Memory;
use crate::relation::pax::PaxFetch;
use crate::tuple::{NO_TUPLE, PairBatch, RowArea};
use crate::work::Work;
use crate::{Execution, QueryError};

/// The operator's name in errors.
const OPERATOR: &str = "flash join";
/// What a pair of a batch takes beside its rows: their numbers and addresses, twice, and the pair.
pub(crate) const PAIR_BYTES: u64 = 64;

/// How the memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Of the kernel, with its pages.
    pub kernel: hybrid_hash::Settings,
    /// Pages of pairs and their rows.
    pub batch_pages: u32,
    /// Pages through which rows are fetched.
    pub fetch_pages: u32,
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Fill,
    Left,
    Right,
}

/// A pair on its way.
#[derive(Clone, Copy, Debug)]
struct Entry {
    rows: [i64; 2],
    left: u64,
}

/// FlashJoin as a stream of pairs: see the module.
pub struct FlashJoin<'x> {
    execution: &'x Execution,
    late: LateJoin<'x>,
    settings: Settings,
    index: JoinIndex<'x>,
    is_index_done: bool,
    entries: Vec<Entry>,
    entry_count_max: usize,
    /// Entries that were handed on, and those behind them whose left rows are here.
    done: usize,
    with_left: usize,
    areas: [RowArea; 2],
    /// Numbers of rows to be fetched, and where they were put.
    wanted: Vec<i64>,
    addresses: Vec<u64>,
    pairs: Vec<(u64, u64)>,
    stage: Stage,
    _memory: Memory<'x>,
}

/// How a batch of so many bytes is divided, where rows have about so many on each side: pairs, and bytes of rows
/// of each side.
pub(crate) fn batch_parts(bytes: u64, row_bytes: [u64; 2]) -> (u64, [u64; 2]) {
    let rows = row_bytes[0].saturating_add(row_bytes[1]);
    let count = (bytes / rows.saturating_add(PAIR_BYTES)).max(1);
    let rest = bytes.saturating_sub(count.saturating_mul(PAIR_BYTES));
    let left = u128::from(rest) * u128::from(row_bytes[0]) / u128::from(rows.max(1));
    let left = u64::try_from(left).unwrap_or(rest);
    (count, [left, rest - left])
}

impl<'x> FlashJoin<'x> {
    /// Begins.
    ///
    /// # Errors
    /// If a side cannot be read by columns, there is less memory than the settings say or than fetching takes, or
    /// the keys do not match.
    pub fn new(
        execution: &'x Execution,
        join: Join<'x>,
        settings: Settings,
    ) -> Result<Self, QueryError> {
        let late = LateJoin::of(&join, OPERATOR)?;
        let Settings { kernel, batch_pages, fetch_pages } = settings;
        let memory = execution.take(OPERATOR, batch_pages.max(1))?;
        drop(execution.take(OPERATOR, fetch_pages)?);
        late.check_fetch(OPERATOR, fetch_pages)?;
        let row_bytes = [Side::Left, Side::Right].map(|side| late.rows(side).row_bytes());
        let (count, area_bytes) = batch_parts(memory.bytes() as u64, row_bytes);
        let count = nandu_base::to_index(count);
        Ok(Self {
            execution,
            late,
            settings,
            index: JoinIndex::new(late.kernel(execution, join, kernel)?),
            is_index_done: false,
            entries: Vec::with_capacity(count),
            entry_count_max: count,
            done: 0,
            with_left: 0,
            areas: area_bytes.map(|bytes| RowArea::new(nandu_base::to_index(bytes))),
            wanted: Vec::with_capacity(count),
            addresses: Vec::with_capacity(count),
            pairs: Vec::with_capacity(count),
            stage: Stage::Fill,
            _memory: memory,
        })
    }

    /// Takes pairs of row numbers until the batch is full.
    fn fill(&mut self) -> Result<(), QueryError> {
        let Self { index, entries, entry_count_max, .. } = self;
        entries.clear();
        self.is_index_done = index.advance(|rows| {
            if entries.len() == *entry_count_max {
                return Ok(false);
            }
            entries.push(Entry { rows, left: NO_TUPLE });
            Ok(true)
        })?;
        (self.done, self.with_left) = (0, 0);
        entries.sort_unstable_by_key(|entry| entry.rows);
        Ok(())
    }

    /// Fetches left rows of what was not handed on, as many as there is room for.
    fn fetch_left(&mut self) -> Result<(), QueryError> {
        let entries = &self.entries[self.done..];
        distinct(entries.iter().map(|entry| entry.rows[0]), &mut self.wanted);
        let taken = self.fetch(Side::Left)?;
        let Self { entries, wanted, addresses, done, .. } = self;
        // Those without a left row come first.
        let end = match wanted.get(taken) {
            Some(next) => entries.partition_point(|entry| entry.rows[0] < *next),
            None => entries.len(),
        };
        let mut places = Places::default();
        for entry in &mut entries[*done..end] {
            entry.left = places.address(entry.rows[0], addresses);
        }
        entries[*done..end].sort_unstable_by_key(|entry| entry.rows[1]);
        self.with_left = end;
        Ok(())
    }

    /// Fetches right rows for pairs whose left rows are here, as many as there is room for, and makes pairs.
    fn fetch_right(&mut self) -> Result<(), QueryError> {
        let entries = &self.entries[self.done..self.with_left];
        distinct(entries.iter().map(|entry| entry.rows[1]), &mut self.wanted);
        let taken = self.fetch(Side::Right)?;
        let Self { entries, wanted, addresses, done, with_left, pairs, .. } = self;
        let next = wanted.get(taken).copied();
        let mut places = Places::default();
        while let Some(entry) = entries[..*with_left].get(*done) {
            let row = entry.rows[1];
            if Some(row) == next {
                break;
            }
            pairs.push((entry.left, places.address(row, addresses)));
            *done += 1;
        }
        Ok(())
    }

    /// Puts the rows that are wanted of one side into its area; how many.
    fn fetch(&mut self, side: Side) -> Result<usize, QueryError> {
        let Self { execution, late, settings, areas, wanted, addresses, .. } = self;
        let area = &mut areas[side as usize];
        area.clear();
        addresses.clear();
        if wanted.is_empty() {
            return Ok(0);
        }
        let memory = execution.take(OPERATOR, settings.fetch_pages)?;
        let mut fetch = PaxFetch::new(execution, late.rows(side), memory)?;
        fetch.fetch(wanted, |_, tuple| {
            let address = area.push(tuple);
            addresses.extend(address);
            Ok(address.is_some())
        })
    }

    /// Asserts invariant 2; with debug assertions after every batch.
    ///
    /// # Panics
    /// If it does not hold.
    pub fn audit(&self) {
        assert!(self.entries.len() <= self.entry_count_max, "invariant 2");
        assert!(self.done <= self.with_left && self.with_left <= self.entries.len(), "in order");
    }
}

impl JoinStream for FlashJoin<'_> {
    fn advance(&mut self) -> Result<bool, QueryError> {
        self.pairs.clear();
        loop {
            match self.stage {
                Stage::Fill if self.is_index_done => return Ok(false),
                Stage::Fill => {
                    self.fill()?;
                    self.stage = Stage::Left;
                }
                Stage::Left if self.done == self.entries.len() => self.stage = Stage::Fill,
                Stage::Left => {
                    self.fetch_left()?;
                    self.stage = Stage::Right;
                }
                Stage::Right if self.done == self.with_left => self.stage = Stage::Left,
                Stage::Right => {
                    self.fetch_right()?;
                    if cfg!(debug_assertions) {
                        self.audit();
                    }
                    self.execution.work(Work::Emit, self.pairs.len() as u64);
                    return Ok(true);
                }
            }
        }
    }

    fn batch(&self) -> PairBatch<'_> {
        PairBatch {
            first: self.areas[0].area(),
            second: self.areas[1].area(),
            first_side: Side::Left,
            pairs: &self.pairs,
        }
    }
}
