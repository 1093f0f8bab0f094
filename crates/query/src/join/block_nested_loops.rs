//! Block nested loops: a chunk of the outer side in a hash table, all of the inner side past it, the next
//! chunk (Bratbergsengen 1984; S001 section 3.1). It writes nothing, and reads in long sequences only.
//!
//! ```text
//!   memory:  │ table: a chunk of the outer rows, found by key │ input: blocks of either side │
//!
//!   for each chunk:  outer ═blocks═► table      inner ═blocks═► look up ─► pairs
//! ```
//!
//! 1. Each outer row is in exactly one chunk; each chunk meets every inner row once.
//! 2. A chunk ends between two blocks of the outer side where it can, so that nothing is read twice.

use super::hash_table::{HashTable, Lookup, Walk};
use super::roles::{Alone, Roles};
use super::{Join, JoinStream, JoinType, Side};
use crate::execution::Memory;
use crate::relation::{Position, Span, TupleStream};
use crate::tuple::{Area, PairBatch};
use crate::work::Work;
use crate::{Execution, QueryError};

/// How the memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The side of which chunks are made.
    pub outer: Side,
    /// Pages of the chunk's table.
    pub table_pages: u32,
    /// Pages through which both sides are read.
    pub input_pages: u32,
    /// Pages of the outer side that make a chunk, as S001 counts them; `None` for as many rows as the
    /// table holds.
    pub chunk_pages: Option<u32>,
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Load,
    Probe,
    Walk,
    End,
}

/// Block nested loops as a stream of pairs: see the module.
pub struct BlockNestedLoops<'x> {
    execution: &'x Execution,
    join: Join<'x>,
    settings: Settings,
    roles: Roles,
    table: HashTable,
    _table_memory: Memory<'x>,
    input_memory: Option<Memory<'x>>,
    /// Where the next chunk begins, and how many rows behind that are in the last one already.
    position: Position,
    skipped_rows: usize,
    is_last_chunk: bool,
    inner: Option<Box<dyn TupleStream + 'x>>,
    lookup: Lookup,
    has_batch: bool,
    walk: Walk,
    pairs: Vec<(u64, u64)>,
    stage: Stage,
}

impl<'x> BlockNestedLoops<'x> {
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
        let table_memory = execution.take("block nested loops", settings.table_pages.max(1))?;
        let input_memory = execution.take("block nested loops", settings.input_pages.max(1))?;
        Ok(Self {
            execution,
            join,
            settings,
            roles: Roles::of(join.join_type, settings.outer),
            table: HashTable::new(table_memory.bytes()),
            _table_memory: table_memory,
            input_memory: Some(input_memory),
            position: Position::default(),
            skipped_rows: 0,
            is_last_chunk: false,
            inner: None,
            lookup: Lookup::default(),
            has_batch: false,
            walk: Walk::default(),
            pairs: Vec::new(),
            stage: Stage::Load,
        })
    }

    /// The memory of the input, for a scan; it comes back when the scan is dropped.
    fn input_memory(&mut self) -> Result<Memory<'x>, QueryError> {
        match self.input_memory.take() {
            Some(memory) => Ok(memory),
            None => self.execution.take("block nested loops", self.settings.input_pages.max(1)),
        }
    }

    /// Fills the table with the next chunk.
    fn load(&mut self) -> Result<(), QueryError> {
        self.table.clear();
        let outer = self.join.input(self.settings.outer);
        let mut memory = self.input_memory()?;
        let limit = self.settings.chunk_pages.map(|chunk| {
            // Blocks that divide a chunk, so that it ends with one.
            let chunk = chunk.max(1);
            let block_count = chunk.div_ceil(memory.pages());
            let least = outer.relation.scan_pages_min();
            let block_pages = (chunk / block_count).max(least).min(memory.pages());
            (block_pages, u64::from(block_pages * block_count))
        });
        let spare = limit.map(|(block_pages, _)| memory.split_off(memory.pages() - block_pages));
        let block_bytes = memory.bytes();
        let mut stream = outer.relation.scan(self.execution, memory, Span::from(self.position))?;
        let (mut rows_since_boundary, mut block_rows_max) = (0_usize, 0_usize);
        self.is_last_chunk = true;
        'load: while stream.advance()? {
            let batch = stream.batch();
            for tuple in batch.tuples() {
                rows_since_boundary += 1;
                if rows_since_boundary <= self.skipped_rows {
                    continue;
                }
                if !self.roles.keeps_null_keys() && outer.key.hash(tuple)?.is_none() {
                    continue;
                }
                if !self.table.push(tuple) {
                    self.skipped_rows = rows_since_boundary - 1;
                    self.is_last_chunk = false;
                    break 'load;
                }
            }
            let Some(position) = stream.position() else { continue };
            self.position = position;
            self.skipped_rows = 0;
            block_rows_max = block_rows_max.max(rows_since_boundary);
            rows_since_boundary = 0;
            let links = block_rows_max * 8;
            let is_full = match limit {
                Some((_, page_limit)) => stream.page_count() >= page_limit,
                None => !self.table.has_room_for(block_bytes + links, block_rows_max),
            };
            if is_full {
                self.is_last_chunk = false;
                break;
            }
        }
        drop(stream);
        drop(spare);
        self.table.build(outer.key)?;
        self.execution.work(Work::Build, self.table.row_count() as u64);
        if !self.is_last_chunk && self.roles.probe != Alone::Never {
            return Err(no_chunks(self.join.join_type, self.settings.outer));
        }
        Ok(())
    }

    /// Looks rows of the inner side up until there are pairs; false at its end.
    fn probe(&mut self) -> Result<bool, QueryError> {
        let inner_key = self.join.input(self.settings.outer.other()).key;
        let outer_key = self.join.input(self.settings.outer).key;
        let Some(inner) = &mut self.inner else { return Ok(false) };
        loop {
            if !self.has_batch {
                if !inner.advance()? {
                    return Ok(false);
                }
                let batch = inner.batch();
                self.lookup.clear();
                self.lookup.push_all(inner_key, batch)?;
                self.lookup.begin(&self.table);
                self.execution.work(Work::Probe, batch.cells.len() as u64);
                self.has_batch = true;
            }
            let batch = inner.batch();
            let is_done = self.table.look_up(
                (inner_key, outer_key),
                batch.area,
                self.roles,
                &mut self.lookup,
                &mut self.pairs,
            )?;
            // A batch that gave pairs stays at hand until the next call.
            self.has_batch = !is_done;
            if !self.pairs.is_empty() {
                return Ok(true);
            }
        }
    }
}

/// That a side cannot come in chunks: rows of the other one may come out alone, and meet each chunk.
pub(crate) fn no_chunks(join_type: JoinType, outer: Side) -> QueryError {
    let what = format!(
        "block nested loops cannot do a {} join with the {} side in chunks; make chunks of the other \
         side, or take a hash join",
        join_type.name(),
        outer.name()
    );
    QueryError::Invalid { what }
}

impl JoinStream for BlockNestedLoops<'_> {
    fn advance(&mut self) -> Result<bool, QueryError> {
        self.pairs.clear();
        loop {
            match self.stage {
                Stage::Load => {
                    self.load()?;
                    if self.table.row_count() == 0 && self.roles.probe != Alone::Unmatched {
                        // A chunk of rows with a NULL in their key is empty, and not the end.
                        self.stage = if self.is_last_chunk { Stage::End } else { Stage::Load };
                        continue;
                    }
                    let memory = self.input_memory()?;
                    let inner = self.join.input(self.settings.outer.other()).relation;
                    self.inner = Some(inner.scan(self.execution, memory, Span::ALL)?);
                    self.has_batch = false;
                    self.stage = Stage::Probe;
                }
                Stage::Probe => {
                    if self.probe()? {
                        break;
                    }
                    self.inner = None;
                    self.walk = Walk::default();
                    self.stage = Stage::Walk;
                }
                Stage::Walk => {
                    if self.table.walk(self.roles.build, &mut self.walk, &mut self.pairs) {
                        self.stage = if self.is_last_chunk { Stage::End } else { Stage::Load };
                    }
                    if !self.pairs.is_empty() {
                        break;
                    }
                }
                Stage::End => return Ok(false),
            }
        }
        self.execution.work(Work::Emit, self.pairs.len() as u64);
        Ok(true)
    }

    fn batch(&self) -> PairBatch<'_> {
        let outer = self.table.area();
        let inner = match &self.inner {
            Some(inner) => inner.batch().area,
            None => Area::EMPTY,
        };
        let (first, second) = (outer, inner);
        PairBatch { first, second, first_side: self.settings.outer, pairs: &self.pairs }
    }
}
