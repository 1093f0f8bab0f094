//! Hash join by columns, where the built side fits into memory, or both sides are read a few times for a part of the
//! keys each: keys and what is wanted are columns, and nobody makes a row. By one worker or several.
//!
//! ```text
//!   built side ═batches═► keys hashed ─► columns of each range, of each worker
//!                                          │ a range is put together and linked by one worker
//!                                          ▼
//!   range:   columns │ slots: tag 32 │ row 32, linear probing, one slot a key │ next row of the same key
//!                                          ▲
//!   other side ═batches═► keys hashed ─► looked up, a range at a time ─► places in both: ColumnPairs
//! ```
//!
//! 1. Nothing is handed on before it is known that all of the built side fits, or what a pass has of it.
//! 2. Columns, slots and lists of all workers stay within their budget.
//! 3. Each key belongs to one pass, so every type of join is the sum of its passes.

mod passes;
mod table;

use self::passes::Pass;
use self::table::{Range, hash};
use super::{PairSink, RANGES_PER_WORKER, worker_count_in};
use crate::columns::{BATCH_BYTES, ColumnBatch, ColumnRows, Decoder, types_of};
use crate::join::hash_table::slot_index;
use crate::join::roles::{Alone, Roles};
use crate::join::{Join, JoinInput, Side};
use crate::key::KeyColumn;
use crate::relation::{Relation, known_types};
use crate::tuple::{PairBatch, Tuple};
use crate::work::Work;
use crate::workers::Morsels;
use crate::workers::{Barrier, run_workers};
use crate::{Execution, QueryError};
use nandu_base::to_u32;
use nandu_storage::database::ColumnType;
use nandu_workers::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The operator's name in errors.
const OPERATOR: &str = "a join by columns";
/// A slot without a row, and the hash of a key with a NULL.
const EMPTY: u64 = u64::MAX;
/// The end of a list.
const END: u32 = u32::MAX;
/// Most pairs that are handed on at once.
const PAIR_COUNT_MAX: usize = 4096;
/// As many places in memory a pair may touch on the built side: each is likely to be in no cache, where a row is in
/// two or three lines of one in all.
const TOUCHED_MAX: usize = 6;
/// Bytes of a column of texts at most, and rows: what offsets and places can tell.
const RANGE_MAX: usize = i32::MAX as usize;
/// Bytes of a row beside its columns: slots, a link, and its hash while it is linked.
const ROW_BYTES: usize = 16 + 4 + 8;

/// Rows of both sides that belong together, by place; one side is missing where rows come out by themselves.
#[derive(Clone, Copy, Debug)]
pub struct ColumnPairs<'a> {
    /// Those of the left side.
    pub left: Option<ColumnRows<'a>>,
    /// Those of the right side, as many.
    pub right: Option<ColumnRows<'a>>,
}

/// Who takes the pairs of one worker, by column.
pub trait ColumnSink: Send {
    /// Takes some. The rows are lent.
    ///
    /// # Errors
    /// Whatever is wrong; then the join ends with it.
    fn take(&mut self, pairs: ColumnPairs<'_>) -> Result<(), QueryError>;
}

impl ColumnPairs<'_> {
    /// How many there are.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.left.or(self.right).map_or(0, |rows| rows.places.len())
    }
}

/// A join whose built side is expected to fit.
pub(crate) struct ColumnJoin<'r> {
    join: Join<'r>,
    built: Side,
    roles: Roles,
    /// What is read of each side, left and right: what is wanted, then the key.
    columns: [Vec<KeyColumn>; 2],
    types: [Vec<ColumnType>; 2],
    keys: Keys,
    worker_count: usize,
    share_pages: u32,
    input_pages: u32,
    /// Whether the built side is not expected to fit as a whole.
    is_divided: bool,
    /// [`RANGE_MAX`], but in tests.
    pub(super) range_max: usize,
}

/// Where the keys are among the columns that are read, built side and other side.
#[derive(Clone, Debug)]
struct Keys {
    built: Vec<usize>,
    other: Vec<usize>,
    /// Whether there is one column, of integers on both sides.
    are_integers: bool,
}

/// What workers share while they read the built side.
#[derive(Default)]
struct Filling {
    used_bytes: AtomicUsize,
    is_full: AtomicBool,
}

/// The columns that all workers have of one range.
type Parts = Mutex<Vec<ColumnBatch>>;

/// One worker, looking up.
#[derive(Default)]
struct Probe {
    hashes: Vec<u64>,
    /// The rows of the batch at hand, by range.
    by_range: Vec<Vec<u32>>,
    slots: Vec<u64>,
    /// The first built row of the key of each.
    found: Vec<u32>,
    built_rows: Vec<u32>,
    other_rows: Vec<u32>,
    alone: Vec<u32>,
}

impl<'r> ColumnJoin<'r> {
    /// A join of which these columns are wanted, left and right, by so many workers at most; `None` if the sides do not
    /// know their types, or the built side is not expected to fit in a few passes, or has so many columns that rows
    /// are better.
    pub(crate) fn new(
        execution: &Execution,
        join: Join<'r>,
        built: Side,
        wanted: [&[KeyColumn]; 2],
        worker_count: usize,
    ) -> Option<Self> {
        let sides = [join.left, join.right];
        let columns = [0, 1].map(|side| [wanted[side], sides[side].key.columns()].concat());
        let types =
            |side: usize| types_of(sides[side].relation.column_types()?, &columns[side]).ok();
        let types = [types(0)?, types(1)?];
        let places = |side: usize| wanted[side].len()..columns[side].len();
        let [of_built, of_other] = if built == Side::Left { [0, 1] } else { [1, 0] };
        let (built_keys, other_keys): (Vec<_>, Vec<_>) =
            (places(of_built).collect(), places(of_other).collect());
        let are_integers = built_keys.len() == 1
            && types[of_built][built_keys[0]] == ColumnType::Integer
            && types[of_other][other_keys[0]] == ColumnType::Integer;
        let pages = execution.limits().memory_pages;
        let worker_count = worker_count_in(worker_count, pages, &join);
        let share_pages = pages / to_u32(worker_count as u64);
        let least = sides.map(|input| input.relation.scan_pages_min());
        let input_pages = (share_pages / 8).max(least[0]).max(least[1]);
        if input_pages > share_pages / 2 {
            return None;
        }
        let keys = Keys { built: built_keys, other: other_keys, are_integers };
        let roles = Roles::of(join.join_type, built);
        let mut this = Self {
            join,
            built,
            roles,
            columns,
            types,
            keys,
            worker_count,
            share_pages,
            input_pages,
            is_divided: false,
            range_max: RANGE_MAX,
        };
        let pass_count = this.expected_pass_count(execution);
        this.is_divided = pass_count > 1;
        (this.is_narrow() && pass_count <= passes::PASS_COUNT_MAX).then_some(this)
    }

    /// How many workers there are.
    pub(crate) const fn worker_count(&self) -> usize {
        self.worker_count
    }

    fn input(&self, side: Side) -> JoinInput<'r> {
        self.join.input(side)
    }

    /// What is read of a side.
    fn columns_of(&self, side: Side) -> &[KeyColumn] {
        &self.columns[usize::from(side == Side::Right)]
    }

    fn types_of(&self, side: Side) -> &[ColumnType] {
        &self.types[usize::from(side == Side::Right)]
    }

    fn budget_bytes(&self, execution: &Execution) -> usize {
        (self.share_pages - self.input_pages) as usize * execution.page_bytes() * self.worker_count
    }

    /// Whether the built side has few enough columns: the values of a pair lie apart, where those of a row are together.
    fn is_narrow(&self) -> bool {
        let touched = |column: &ColumnType| match column {
            ColumnType::Integer | ColumnType::Real => 1,
            ColumnType::Text | ColumnType::Blob => 2,
        };
        let touched: usize = self.types_of(self.built).iter().map(touched).sum();
        touched <= TOUCHED_MAX
    }

    /// In how many passes the built side fits, as far as is known: vectors are up to a quarter longer than what is in
    /// them.
    fn expected_pass_count(&self, execution: &Execution) -> u64 {
        let size = self.input(self.built).relation.size();
        let row_bytes = size.cell_bytes / size.tuple_count.max(1);
        let of_column = |column: &ColumnType| match column {
            ColumnType::Integer | ColumnType::Real => 8,
            ColumnType::Text | ColumnType::Blob => 4 + row_bytes,
        };
        let columns: u64 = self.types_of(self.built).iter().map(of_column).sum();
        // Of all copies the largest is that of a vector that grows, or of a range for each worker.
        let long = columns + columns / 4;
        let copies = if self.worker_count == 1 { columns } else { long / RANGES_PER_WORKER as u64 };
        let bytes = size.tuple_count.saturating_mul(long + copies + ROW_BYTES as u64);
        bytes.div_ceil((self.budget_bytes(execution) as u64).max(1)).max(1)
    }

    /// Does the join, with a worker for each sink; false if the built side does not fit after all, and nothing was
    /// handed on.
    ///
    /// # Errors
    /// As [`crate::join::JoinStream::advance`], and what a sink returns.
    pub(crate) fn run<S: ColumnSink>(
        &self,
        execution: &Execution,
        sinks: &mut [S],
    ) -> Result<bool, QueryError> {
        self.join.check()?;
        let side = |side: Side| {
            Morsels::of_relation(self.input(side).relation, self.worker_count, self.input_pages)
        };
        let sides = (&side(self.built), &side(self.built.other()));
        if !self.is_divided {
            if self.run_pass(execution, sides, &Pass::all(), sinks)? {
                return Ok(true);
            }
            sides.0.rewind();
        }
        let Some(passes) = self.passes(execution, sides.0)? else { return Ok(false) };
        for pass in &passes {
            sides.0.rewind();
            sides.1.rewind();
            let is_done = self.run_pass(execution, sides, pass, sinks)?;
            assert!(is_done, "its rows were counted");
        }
        Ok(true)
    }

    /// Joins the rows with the keys of one pass; false if they do not fit, where that was not known.
    fn run_pass<S: ColumnSink>(
        &self,
        execution: &Execution,
        (built, other): (&Morsels, &Morsels),
        pass: &Pass,
        sinks: &mut [S],
    ) -> Result<bool, QueryError> {
        let filling = Filling::default();
        run_workers(execution, sinks, |execution, barrier, number, sink| {
            let memory = execution.take(OPERATOR, self.share_pages - self.input_pages)?;
            let mine = self.load(execution, built, (&filling, pass))?;
            let parts = barrier.meet(number, mine, by_range)?;
            if filling.is_full.load(Ordering::Relaxed) {
                return Ok(());
            }
            let ranges = self.build(execution, barrier, number, &parts)?;
            let mut take = |pairs: ColumnPairs<'_>| sink.take(pairs);
            self.probe(execution, &ranges, (other, pass), &mut take)?;
            barrier.wait(number)?;
            self.walk(execution, &ranges, number, &mut take)?;
            drop(ranges);
            drop(memory);
            Ok(())
        })?;
        Ok(!filling.is_full.load(Ordering::Relaxed))
    }

    fn range_count(&self) -> usize {
        if self.worker_count == 1 { 1 } else { self.worker_count * RANGES_PER_WORKER }
    }

    /// Reads parts of the built side, until there are none or somebody found that it does not fit.
    fn load(
        &self,
        execution: &Execution,
        morsels: &Morsels,
        (filling, pass): (&Filling, &Pass),
    ) -> Result<Vec<ColumnBatch>, QueryError> {
        let budget_bytes = self.budget_bytes(execution);
        let (input, columns) = (self.input(self.built), self.columns_of(self.built));
        let empty = ColumnBatch::new(self.types_of(self.built));
        let mut mine = vec![empty; self.range_count()];
        let (mut probe, mut claimed_bytes) = (Probe::new(self.range_count()), 0);
        let keeps_null_keys = self.roles.keeps_null_keys();
        let range_max = self.range_max / self.worker_count;
        while let Some(part) = morsels.next() {
            let memory = execution.take(OPERATOR, self.input_pages)?;
            let mut stream = part.scan_columns(input.relation, execution, memory, columns)?;
            while stream.advance()? {
                let batch = stream.batch();
                hash(batch, &self.keys.built, &mut probe.hashes);
                probe.divide(pass, keeps_null_keys);
                // The parts of all workers are one range in the end.
                if !pass.is_counted
                    && mine.iter().any(|range| !range.has_room_for(batch, range_max))
                {
                    filling.is_full.store(true, Ordering::Relaxed);
                    return Ok(Vec::new());
                }
                if !pass.is_counted {
                    let bytes = self.bytes_with(&mine, batch, &probe.by_range);
                    let more = bytes.saturating_sub(claimed_bytes);
                    let used_bytes = filling.used_bytes.fetch_add(more, Ordering::Relaxed) + more;
                    claimed_bytes = bytes.max(claimed_bytes);
                    if used_bytes > budget_bytes {
                        filling.is_full.store(true, Ordering::Relaxed);
                    }
                    if filling.is_full.load(Ordering::Relaxed) {
                        return Ok(Vec::new());
                    }
                }
                for (range, places) in mine.iter_mut().zip(&probe.by_range) {
                    range.append(ColumnRows { batch, places });
                }
            }
        }
        Ok(mine)
    }

    /// What one worker's rows take at most when those at some places of a batch have been appended.
    fn bytes_with(
        &self,
        mine: &[ColumnBatch],
        batch: &ColumnBatch,
        by_range: &[Vec<u32>],
    ) -> usize {
        let (mut moved_bytes, mut row_count) = (0, 0);
        let columns = mine.iter().zip(by_range).map(|(range, places)| {
            let (bytes, moved) = range.bytes_with(ColumnRows { batch, places });
            moved_bytes = moved_bytes.max(moved);
            row_count += range.row_count() + places.len();
            bytes as u64
        });
        let columns: Vec<u64> = columns.collect();
        let bytes = bytes_with_copies(columns, moved_bytes as u64, self.worker_count);
        nandu_base::to_index(bytes) + row_count * ROW_BYTES
    }

    /// Builds ranges that nobody has; gives all of them.
    fn build(
        &self,
        execution: &Execution,
        barrier: &Barrier,
        number: usize,
        parts: &[Parts],
    ) -> Result<std::sync::Arc<Vec<Range>>, QueryError> {
        let mut built = Vec::new();
        let has_marks = self.roles.build != Alone::Never;
        for range in (number..parts.len()).step_by(self.worker_count) {
            let parts = std::mem::take(&mut *parts[range].lock());
            let range = Range::build(parts, &self.keys, has_marks);
            execution.work(Work::Build, range.batch.row_count() as u64);
            built.push(range);
        }
        barrier.meet(number, built, |all| {
            // One of each worker after the other, as they were dealt.
            let mut all: Vec<_> = all.into_iter().map(Vec::into_iter).collect();
            let count = all.len();
            (0..).map_while(|place| all[place % count].next()).collect()
        })
    }

    /// Looks parts of the other side up until there are none.
    fn probe(
        &self,
        execution: &Execution,
        ranges: &[Range],
        (morsels, pass): (&Morsels, &Pass),
        sink: Sink<'_>,
    ) -> Result<(), QueryError> {
        let side = self.built.other();
        let (input, columns) = (self.input(side), self.columns_of(side));
        let mut probe = Probe::new(ranges.len());
        while let Some(part) = morsels.next() {
            let memory = execution.take(OPERATOR, self.input_pages)?;
            let mut stream = part.scan_columns(input.relation, execution, memory, columns)?;
            while stream.advance()? {
                let batch = stream.batch();
                execution.work(Work::Probe, batch.row_count() as u64);
                hash(batch, &self.keys.other, &mut probe.hashes);
                probe.divide(pass, true);
                for (number, range) in ranges.iter().enumerate() {
                    self.look_up(execution, (range, batch), (&mut probe, number), sink)?;
                }
            }
        }
        Ok(())
    }

    /// Looks up the rows of a batch that belong to one range.
    fn look_up(
        &self,
        execution: &Execution,
        (range, batch): (&Range, &ColumnBatch),
        (probe, number): (&mut Probe, usize),
        sink: Sink<'_>,
    ) -> Result<(), QueryError> {
        range.find(&self.keys, batch, probe, number);
        let Probe { by_range, found, built_rows, other_rows, alone, .. } = probe;
        alone.clear();
        for (&place, &first) in by_range[number].iter().zip(found.iter()) {
            match (first, self.roles.probe) {
                (END, Alone::Unmatched) => alone.push(place),
                (row, Alone::Matched) if row != END => alone.push(place),
                _ => {}
            }
            let mut row = if self.walks_lists(range, first) { first } else { END };
            while row != END {
                if self.roles.pairs {
                    built_rows.push(row);
                    other_rows.push(place);
                    if built_rows.len() == PAIR_COUNT_MAX {
                        self.emit(execution, (range, built_rows), (batch, other_rows), sink)?;
                    }
                }
                range.mark(row);
                row = range.next.get(row as usize).copied().unwrap_or(END);
            }
        }
        self.emit(execution, (range, built_rows), (batch, other_rows), sink)?;
        if !alone.is_empty() {
            execution.work(Work::Emit, alone.len() as u64);
            sink(self.pairs(None, Some(ColumnRows { batch, places: alone })))?;
        }
        Ok(())
    }

    /// Whether the rows of a list, of which this is the first, are of interest: for pairs, or since none of them was
    /// met yet. The first one is marked before the others, by who goes through all of them.
    fn walks_lists(&self, range: &Range, first: u32) -> bool {
        let marks = self.roles.build != Alone::Never && first != END;
        self.roles.pairs || marks && !range.is_met(first)
    }

    /// Hands pairs on and forgets them.
    fn emit(
        &self,
        execution: &Execution,
        (range, built_rows): (&Range, &mut Vec<u32>),
        (batch, other_rows): (&ColumnBatch, &mut Vec<u32>),
        sink: Sink<'_>,
    ) -> Result<(), QueryError> {
        if built_rows.is_empty() {
            return Ok(());
        }
        execution.work(Work::Emit, built_rows.len() as u64);
        let built = ColumnRows { batch: &range.batch, places: built_rows };
        let other = ColumnRows { batch, places: other_rows };
        sink(self.pairs(Some(built), Some(other)))?;
        built_rows.clear();
        other_rows.clear();
        Ok(())
    }

    const fn pairs<'a>(
        &self,
        built: Option<ColumnRows<'a>>,
        other: Option<ColumnRows<'a>>,
    ) -> ColumnPairs<'a> {
        match self.built {
            Side::Left => ColumnPairs { left: built, right: other },
            Side::Right => ColumnPairs { left: other, right: built },
        }
    }

    /// Hands on this worker's share of the built rows that come out by themselves.
    fn walk(
        &self,
        execution: &Execution,
        ranges: &[Range],
        number: usize,
        sink: Sink<'_>,
    ) -> Result<(), QueryError> {
        if self.roles.build == Alone::Never {
            return Ok(());
        }
        let wants_met = self.roles.build == Alone::Matched;
        let mut places = Vec::new();
        for range in ranges.iter().skip(number).step_by(self.worker_count) {
            let rows = 0..to_u32(range.batch.row_count() as u64);
            let mut alone = rows.filter(|&row| range.is_met(row) == wants_met);
            loop {
                places.clear();
                places.extend(alone.by_ref().take(PAIR_COUNT_MAX));
                if places.is_empty() {
                    break;
                }
                execution.work(Work::Emit, places.len() as u64);
                let built = ColumnRows { batch: &range.batch, places: &places };
                sink(self.pairs(Some(built), None))?;
            }
        }
        Ok(())
    }
}

/// Decodes what is wanted of pairs of rows.
pub(crate) struct PairDecoder<'s, S> {
    decoders: [Decoder; 2],
    batches: [ColumnBatch; 2],
    places: Vec<u32>,
    /// Bytes of the records of the rows at hand.
    held_bytes: usize,
    sink: &'s mut S,
}

impl<'s, S: ColumnSink> PairDecoder<'s, S> {
    /// Of a join of which these columns are wanted, left and right.
    ///
    /// # Errors
    /// If one is not there, or a relation does not know the types of its columns.
    pub(crate) fn new(
        join: &Join<'_>,
        wanted: [&[KeyColumn]; 2],
        sink: &'s mut S,
    ) -> Result<Self, QueryError> {
        let decoder = |relation: &dyn Relation, wanted: &[KeyColumn]| {
            Decoder::new(known_types(relation)?, wanted)
        };
        let decoders =
            [decoder(join.left.relation, wanted[0])?, decoder(join.right.relation, wanted[1])?];
        let batches = [decoders[0].batch(), decoders[1].batch()];
        Ok(Self { decoders, batches, places: Vec::new(), held_bytes: 0, sink })
    }

    /// Hands on the rows that were decoded, of both sides or of one.
    fn hand_on(&mut self, [has_left, has_right]: [bool; 2]) -> Result<(), QueryError> {
        let Self { batches, places, sink, .. } = self;
        let count = batches[usize::from(!has_left)].row_count();
        if count == 0 {
            return Ok(());
        }
        places.clear();
        places.extend(0..to_u32(count as u64));
        let rows = |side: usize| ColumnRows { batch: &batches[side], places };
        let pairs =
            ColumnPairs { left: has_left.then(|| rows(0)), right: has_right.then(|| rows(1)) };
        sink.take(pairs)?;
        batches.iter_mut().for_each(ColumnBatch::clear);
        self.held_bytes = 0;
        Ok(())
    }
}

impl<S: ColumnSink> PairSink for PairDecoder<'_, S> {
    fn take(&mut self, pairs: PairBatch<'_>) -> Result<(), QueryError> {
        for has in [[true, true], [true, false], [false, true]] {
            let wanted = |pair: &(Option<Tuple<'_>>, Option<Tuple<'_>>)| {
                [pair.0.is_some(), pair.1.is_some()] == has
            };
            for (left, right) in pairs.tuples().filter(wanted) {
                for (side, row) in [left, right].into_iter().enumerate() {
                    if let Some(row) = row {
                        self.decoders[side].push(row, &mut self.batches[side])?;
                        self.held_bytes += row.record.len();
                    }
                }
                // A long row is lent for many pairs, and is there as often here.
                if self.held_bytes >= BATCH_BYTES {
                    self.hand_on(has)?;
                }
            }
            self.hand_on(has)?;
        }
        Ok(())
    }
}

/// Where pairs go.
type Sink<'s> = &'s mut dyn FnMut(ColumnPairs<'_>) -> Result<(), QueryError>;

/// Bytes of the columns of all ranges, with copies: a vector that grows, or, later, while several workers put a range
/// together, what each of them has. Whose these are nobody knows before; the largest are the worst.
fn bytes_with_copies(mut ranges: Vec<u64>, moved_bytes: u64, worker_count: usize) -> u64 {
    ranges.sort_unstable();
    let copied_count = if worker_count == 1 { 0 } else { worker_count };
    let copied_bytes: u64 = ranges.iter().rev().take(copied_count).sum();
    ranges.iter().sum::<u64>() + copied_bytes.max(moved_bytes)
}

/// The range of so many in which a key is; keys with a NULL are in the first.
#[inline]
fn range_of(hash: u64, range_count: usize) -> usize {
    // Slots follow the high bits.
    if hash == EMPTY { 0 } else { slot_index(hash.rotate_left(32), range_count) }
}

/// What all workers have, range by range.
fn by_range(all: Vec<Vec<ColumnBatch>>) -> Vec<Parts> {
    let range_count = all.iter().map(Vec::len).max().unwrap_or(0);
    let mut ranges: Vec<Vec<ColumnBatch>> = (0..range_count).map(|_| Vec::new()).collect();
    for mine in all {
        ranges.iter_mut().zip(mine).for_each(|(range, part)| range.push(part));
    }
    ranges.into_iter().map(Mutex::new).collect()
}

impl Probe {
    fn new(range_count: usize) -> Self {
        Self { by_range: vec![Vec::new(); range_count], ..Self::default() }
    }

    /// Divides the rows of a pass among ranges by their hashes; rows without one are in the first, if they are wanted.
    fn divide(&mut self, pass: &Pass, keeps_null_keys: bool) {
        let count = self.by_range.len();
        self.by_range.iter_mut().for_each(Vec::clear);
        for (row, &hash) in (0..).zip(&self.hashes) {
            if !pass.has(hash) {
                continue;
            }
            if hash == EMPTY && !keeps_null_keys {
                continue;
            }
            self.by_range[range_of(hash, count)].push(row);
        }
    }
}
