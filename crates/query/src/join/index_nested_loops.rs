//! Index nested loops: for each outer row the index of the inner side is descended (S000 chapter
//! 5). Outer rows are taken in batches; the keys of a batch go down the index together and its
//! inner rows are fetched together, so that the device always has a queue of requests.
//!
//! ```text
//!   memory:  │ input: outer pages │ batch: outer rows, their keys in order │ inner rows │
//!
//!   Load ─► Find ─► Fetch ─► Emit ─┐          Find stops where the inner memory is full
//!    ▲       ▲        ▲─── more ───┤
//!    │       └─────── more ────────┤
//!    └── next batch ── Alone ◄─────┘
//! ```
//!
//! 1. Each distinct key of a batch is looked up once.
//! 2. Only rows of the outer side can come out alone.

use super::hash_table::PAIR_COUNT_MAX;
use super::roles::{Alone, Roles};
use super::{Join, JoinStream, Side};
use crate::execution::Memory;
use crate::index::{FetchOrder, IndexLookup, RowBuffer};
use crate::key::KeyColumn;
use crate::relation::{Span, TupleStream};
use crate::tuple::{Area, NO_TUPLE, PairBatch, Tuple};
use crate::work::Work;
use crate::{Execution, Key, QueryError};
use nandu_storage::btree::PrefixScan;
use std::ops::ControlFlow;

/// How the memory is divided, and how the index is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The side that is scanned.
    pub outer: Side,
    /// Pages through which it is read.
    pub input_pages: u32,
    /// Pages of a batch of its rows.
    pub batch_pages: u32,
    /// Pages for rows that were fetched of the inner side.
    pub inner_pages: u32,
    /// Rows of a batch at most. With 1 each lookup waits for the one before it, as in S000.
    pub batch_rows_max: Option<u32>,
    /// In which order inner rows are fetched that do not lie in the index itself.
    pub order: FetchOrder,
}

/// What a row of a batch takes beside its cell: its address, group and pair, its key here and in
/// the search, and the ends and places of those.
const ROW_EXTRA_BYTES: usize = 144;
/// What of that is for its key.
const KEY_BYTES: usize = 24;
/// The group of a row that is looked up nowhere.
const NO_GROUP: u32 = u32::MAX;

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Load,
    Find,
    Fetch,
    Emit,
    Alone,
    End,
}

/// Index nested loops as a stream of pairs: see the module.
pub struct IndexNestedLoops<'x> {
    execution: &'x Execution,
    settings: Settings,
    roles: Roles,
    index: &'x dyn IndexLookup,
    outer_key: &'x Key,
    /// The columns of the outer key in the order of the index.
    outer_columns: Vec<KeyColumn>,
    outer: Box<dyn TupleStream + 'x>,
    /// The first row of the outer stream's batch that is in no batch of ours yet.
    next_outer: usize,
    batch: Batch,
    search: PrefixScan,
    is_search_done: bool,
    inner: RowBuffer,
    /// Where emitting goes on: among inner rows, and among the outer rows of that one's group.
    emitted: (usize, usize),
    _memory: Memory<'x>,
    pairs: Vec<(u64, u64)>,
    stage: Stage,
}

/// Outer rows, and their keys.
#[derive(Debug)]
struct Batch {
    area: Vec<u8>,
    area_bytes: usize,
    cells: Vec<u64>,
    /// For each row its group, [`NO_GROUP`] without a key that could be found.
    groups: Vec<u32>,
    keys: Vec<u8>,
    key_bytes_max: usize,
    /// For each row that has one, where its key ends; and the row.
    keyed: Vec<(u32, u32)>,
    /// The same sorted by key, as indexes of `keyed`.
    order: Vec<u32>,
    /// Where each group begins in `order`.
    group_starts: Vec<u32>,
    is_matched: Vec<bool>,
    row_count_max: usize,
}

impl<'x> IndexNestedLoops<'x> {
    /// Begins; of `join`, the relation of the inner side is not read, but `index` is.
    ///
    /// # Errors
    /// If there is less memory than the settings say, the keys do not match, the inner key is not
    /// made of the first columns of the index, rows of the inner side would have to come out alone,
    /// or the device fails.
    pub fn new(
        execution: &'x Execution,
        join: Join<'x>,
        index: &'x dyn IndexLookup,
        settings: Settings,
    ) -> Result<Self, QueryError> {
        const NAME: &str = "index nested loops";
        join.check()?;
        execution.check_page_bytes(index.engine())?;
        let roles = Roles::of(join.join_type, settings.outer.other());
        roles.check_probe_only(NAME, join.join_type, settings.outer)?;
        let outer = join.input(settings.outer);
        let order = columns_by_index(index, join.input(settings.outer.other()).key)?;
        let outer_columns = order.iter().map(|&place| outer.key.columns()[place]).collect();
        let input_memory = execution.take(NAME, settings.input_pages.max(1))?;
        let mut memory = execution.take(NAME, settings.batch_pages.max(1))?;
        let inner_memory = execution.take(NAME, settings.inner_pages.max(1))?;
        let size = outer.relation.size();
        let row_bytes = nandu_base::to_index(size.cell_bytes / size.tuple_count.max(1));
        let batch = Batch::new(memory.bytes(), row_bytes, settings.batch_rows_max);
        let inner = RowBuffer::for_index(index, &inner_memory);
        memory.join(inner_memory);
        Ok(Self {
            execution,
            settings,
            roles,
            index,
            outer_key: outer.key,
            outer_columns,
            outer: outer.relation.scan(execution, input_memory, Span::ALL)?,
            next_outer: 0,
            batch,
            search: PrefixScan::new(index.tree()),
            is_search_done: false,
            inner,
            emitted: (0, 0),
            _memory: memory,
            pairs: Vec::new(),
            stage: Stage::Load,
        })
    }

    /// Fills a batch with outer rows and begins to look up their keys; false if there are none.
    fn load(&mut self) -> Result<bool, QueryError> {
        self.batch.clear();
        'rows: loop {
            let rows = self.outer.batch();
            while let Some(&cell) = rows.cells.get(self.next_outer) {
                let tuple = rows.area.tuple(cell);
                if !self.batch.push(tuple, self.index, &self.outer_columns)? {
                    break 'rows;
                }
                self.next_outer += 1;
            }
            self.next_outer = 0;
            if !self.outer.advance()? {
                break;
            }
        }
        self.batch.group();
        self.execution.work(Work::Copy, self.batch.cells.len() as u64);
        self.execution.work(Work::Descend, self.batch.is_matched.len() as u64);
        // Whether there is a partner is all that semi and anti joins want to know.
        let stops_at_first =
            !self.roles.pairs || self.index.key().is_unique(self.outer_columns.len());
        self.search.begin(self.batch.group_keys(), stops_at_first);
        self.is_search_done = false;
        Ok(!self.batch.cells.is_empty())
    }

    /// Looks for entries until there is no more room for the rows that they name.
    fn find(&mut self) -> Result<(), QueryError> {
        let Self { execution, search, index, inner, batch, roles, .. } = self;
        inner.clear();
        let mut trouble = None;
        let engine = index.engine();
        self.is_search_done = execution.through_pool(engine, || {
            search.advance(engine, |group, entry| {
                batch.is_matched[group] = true;
                if !roles.pairs {
                    return ControlFlow::Continue(());
                }
                match index.take(entry, nandu_base::to_u32(group as u64), inner) {
                    Ok(true) => ControlFlow::Continue(()),
                    Ok(false) => ControlFlow::Break(()),
                    Err(error) => {
                        trouble = Some(error);
                        ControlFlow::Break(())
                    }
                }
            })
        })?;
        trouble.map_or(Ok(()), Err)
    }

    /// Pairs the inner rows in memory with the outer rows of their groups; true when all were.
    fn emit(&mut self) -> bool {
        let Self { batch, inner, pairs, emitted: (item, outer), .. } = self;
        while let Some(row) = inner.items().get(*item) {
            if row.is_loaded() {
                for &row_index in batch.rows_of(row.group()).iter().skip(*outer) {
                    if pairs.len() >= PAIR_COUNT_MAX {
                        return false;
                    }
                    let keyed = batch.keyed[row_index as usize];
                    pairs.push((batch.cells[keyed.1 as usize], row.address));
                    *outer += 1;
                }
            }
            (*item, *outer) = (*item + 1, 0);
        }
        true
    }

    /// Rows of the batch that come out by themselves.
    fn emit_alone(&mut self) {
        let Self { batch, roles, pairs, .. } = self;
        let wanted = match roles.probe {
            Alone::Never => return,
            Alone::Matched => true,
            Alone::Unmatched => false,
        };
        for (&cell, &group) in batch.cells.iter().zip(&batch.groups) {
            let is_matched = group != NO_GROUP && batch.is_matched[group as usize];
            if is_matched == wanted {
                pairs.push((cell, NO_TUPLE));
            }
        }
    }

    /// What the outer side is compared by.
    #[must_use]
    pub const fn outer_key(&self) -> &Key {
        self.outer_key
    }
}

/// Outer rows of which a batch of `bytes` is made.
pub(crate) const fn batch_row_count(bytes: usize, row_bytes: usize) -> usize {
    match bytes / (row_bytes + ROW_EXTRA_BYTES) {
        0 => 1,
        count => count,
    }
}

/// For each of the index's first columns its place in `key`.
pub(super) fn columns_by_index(
    index: &dyn IndexLookup,
    key: &Key,
) -> Result<Vec<usize>, QueryError> {
    let columns = index.key().columns();
    let first = &columns[..key.column_count().min(columns.len())];
    let place_of = |&column: &usize| {
        key.columns().iter().position(|&wanted| wanted == KeyColumn::Stored(column))
    };
    let places: Option<Vec<usize>> = first.iter().map(place_of).collect();
    // Columns have numbers only here; users count from 1.
    let listed = |columns: &mut dyn Iterator<Item = KeyColumn>| {
        let name = |column| match column {
            KeyColumn::Stored(column) => format!("column {}", column + 1),
            KeyColumn::RowNumber => "the row's number".to_owned(),
        };
        columns.map(name).collect::<Vec<_>>().join(", ")
    };
    places.filter(|places| places.len() == key.column_count()).ok_or_else(|| {
        let what = format!(
            "index {} begins with {} and does not serve a join by {}",
            index.name(),
            listed(&mut first.iter().map(|&column| KeyColumn::Stored(column))),
            listed(&mut key.columns().iter().copied())
        );
        QueryError::Invalid { what }
    })
}

impl Batch {
    fn new(bytes: usize, row_bytes: usize, row_count_max: Option<u32>) -> Self {
        let fitting = batch_row_count(bytes, row_bytes);
        let row_count_max =
            fitting.min(row_count_max.map_or(usize::MAX, |max| max.max(1) as usize));
        let area_bytes = bytes.saturating_sub(row_count_max * ROW_EXTRA_BYTES);
        Self {
            area: Vec::with_capacity(area_bytes),
            area_bytes,
            cells: Vec::with_capacity(row_count_max),
            groups: Vec::with_capacity(row_count_max),
            keys: Vec::with_capacity(row_count_max * KEY_BYTES),
            key_bytes_max: row_count_max * KEY_BYTES,
            keyed: Vec::with_capacity(row_count_max),
            order: Vec::with_capacity(row_count_max),
            group_starts: Vec::with_capacity(row_count_max),
            is_matched: Vec::with_capacity(row_count_max),
            row_count_max,
        }
    }

    fn clear(&mut self) {
        if self.area.capacity() > self.area_bytes {
            // A row that was too long for the batch does not stay in memory.
            self.area = Vec::with_capacity(self.area_bytes);
        }
        self.area.clear();
        self.cells.clear();
        self.groups.clear();
        self.keys.clear();
        self.keyed.clear();
        self.order.clear();
        self.group_starts.clear();
        self.is_matched.clear();
    }

    /// Copies a row; false if it does not fit. A first row always does.
    fn push(
        &mut self,
        tuple: Tuple<'_>,
        index: &dyn IndexLookup,
        columns: &[KeyColumn],
    ) -> Result<bool, QueryError> {
        let is_first = self.cells.is_empty();
        let bytes = self.area.len() + tuple.cell_bytes();
        let is_full = bytes > self.area_bytes || self.cells.len() >= self.row_count_max;
        if !is_first && (is_full || self.keys.len() >= self.key_bytes_max) {
            return Ok(false);
        }
        let row = nandu_base::to_u32(self.cells.len() as u64);
        let start = self.keys.len();
        let mut can_match = true;
        for (place, column) in columns.iter().enumerate() {
            can_match &= index.key().encode(place, column.value(tuple)?, &mut self.keys);
        }
        if can_match {
            self.keyed.push((nandu_base::to_u32(self.keys.len() as u64), row));
        } else {
            self.keys.truncate(start);
        }
        self.cells.push(self.area.len() as u64);
        tuple.push_cell(&mut self.area);
        Ok(true)
    }

    /// Sorts the rows by key and finds those with equal keys.
    fn group(&mut self) {
        let Self { keyed, order, groups, group_starts, is_matched, cells, .. } = self;
        order.extend(0..nandu_base::to_u32(keyed.len() as u64));
        let keys = &self.keys;
        let key = |index: u32| key_of(keys, keyed, index);
        order.sort_unstable_by(|&one, &other| key(one).cmp(key(other)));
        groups.resize(cells.len(), NO_GROUP);
        for (place, &index) in order.iter().enumerate() {
            if place == 0 || key(order[place - 1]) != key(index) {
                group_starts.push(nandu_base::to_u32(place as u64));
                is_matched.push(false);
            }
            let group = nandu_base::to_u32(group_starts.len() as u64 - 1);
            groups[keyed[index as usize].1 as usize] = group;
        }
    }

    /// The distinct keys, in order.
    fn group_keys(&self) -> impl Iterator<Item = &[u8]> {
        let first = |&start: &u32| self.order[start as usize];
        self.group_starts.iter().map(move |start| key_of(&self.keys, &self.keyed, first(start)))
    }

    /// The rows of a group, as indexes of `keyed`.
    fn rows_of(&self, group: u32) -> &[u32] {
        let start = self.group_starts[group as usize] as usize;
        let end = self.group_starts.get(group as usize + 1).map(|&end| end as usize);
        &self.order[start..end.unwrap_or(self.order.len())]
    }
}

/// The key of the keyed row with this index.
fn key_of<'k>(keys: &'k [u8], keyed: &[(u32, u32)], index: u32) -> &'k [u8] {
    let start = if index == 0 { 0 } else { keyed[index as usize - 1].0 as usize };
    &keys[start..keyed[index as usize].0 as usize]
}

impl JoinStream for IndexNestedLoops<'_> {
    fn advance(&mut self) -> Result<bool, QueryError> {
        self.pairs.clear();
        while self.pairs.is_empty() {
            self.stage = match self.stage {
                Stage::Load => {
                    if self.load()? {
                        Stage::Find
                    } else {
                        Stage::End
                    }
                }
                Stage::End => return Ok(false),
                Stage::Find => {
                    self.execution.check_stop()?;
                    self.find()?;
                    Stage::Fetch
                }
                Stage::Fetch => {
                    self.emitted = (0, 0);
                    let order = self.settings.order;
                    if self.index.load(self.execution, order, &mut self.inner)? {
                        let rows = self.inner.batch().cells.len();
                        self.execution.work(Work::Fetch, rows as u64);
                        Stage::Emit
                    } else if self.is_search_done {
                        Stage::Alone
                    } else {
                        Stage::Find
                    }
                }
                Stage::Emit => {
                    if self.emit() {
                        Stage::Fetch
                    } else {
                        Stage::Emit
                    }
                }
                Stage::Alone => {
                    self.emit_alone();
                    Stage::Load
                }
            };
        }
        self.execution.work(Work::Emit, self.pairs.len() as u64);
        Ok(true)
    }

    fn batch(&self) -> PairBatch<'_> {
        let (first, second) = (Area::Piece(&self.batch.area), self.inner.area());
        PairBatch { first, second, first_side: self.settings.outer, pairs: &self.pairs }
    }
}
