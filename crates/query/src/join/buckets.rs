//! The second phase of the hash joins: pairs of buckets, each joined in memory, cut once more, or, where
//! cutting does not help, joined by block nested loops.
//!
//! ```text
//!   pair of buckets ── smaller side fits ────────────► table │ look up the other side
//!        ▲       └──── it nearly does ────────► in chunks, the other side read for each
//!        │       └──── it does not ──► both cut again, by another hash ──► pairs of buckets
//!        │       └──── nor did that help: one key ──► in chunks
//!        └─────────────────────────────────┘
//! ```
//!
//! 1. The side that is built is the smaller one of each pair, whatever the planner took it for.
//! 2. Each bucket is given back when its pair is done.

use super::Join;
use super::JoinType;
use super::hash_table::{HashTable, Lookup, Walk};
use super::roles::{Alone, Roles};
use super::split::Split;
use crate::execution::Memory;
use crate::relation::TupleStream;
use crate::spill::{Bucket, SpillStream, SpillWriter};
use crate::tuple::{Area, NO_TUPLE, PairBatch, Side, Tuple};
use crate::work::Work;
use crate::{Execution, QueryError};

/// Up to so many chunks of a bucket are joined one by one, the other side read for each: cutting would
/// write and read both sides once more.
pub(crate) const CHUNK_COUNT_MAX: u64 = 3;
/// Cutting stops after so many levels.
pub(crate) const LEVEL_MAX: u32 = 12;

/// Two buckets whose rows may be partners.
#[derive(Debug)]
pub(crate) struct BucketPair {
    pub(crate) left: Bucket,
    pub(crate) right: Bucket,
    /// How often their rows have been cut.
    pub(crate) level: u32,
    /// Bytes of the smaller side of the pair that was cut into this one.
    pub(crate) parent_bytes: u64,
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Begin,
    Load,
    Probe,
    Walk,
    Sweep,
}

/// The pair at work.
struct Current<'x> {
    built: Side,
    roles: Roles,
    pair: BucketPair,
    table: HashTable,
    _table_memory: Memory<'x>,
    /// The side that is built, open while there are chunks to come, and the row that comes next.
    build: Option<(SpillStream<'x>, usize)>,
    is_chunked: bool,
    probe: Option<SpillStream<'x>>,
    probe_pages: u32,
    /// For rows of the probing side, whether they have met a partner in some chunk.
    matched: Vec<u64>,
    /// The number of the first row of the batch at hand.
    first_row: u64,
    has_batch: bool,
    lookup: Lookup,
    walk: Walk,
}

/// Pairs of buckets, joined one after the other.
pub(crate) struct BucketJoin<'x> {
    execution: &'x Execution,
    join: Join<'x>,
    operator: &'static str,
    /// What this phase may take of the execution's memory, all of it at times.
    pages: u32,
    tasks: Vec<BucketPair>,
    current: Option<Current<'x>>,
    stage: Stage,
    pairs: Vec<(u64, u64)>,
}

impl<'x> BucketJoin<'x> {
    /// The pairs in `tasks`, from the last to the first, in so many pages, which are free now.
    pub(crate) fn new(
        execution: &'x Execution,
        join: Join<'x>,
        operator: &'static str,
        pages: u32,
        tasks: Vec<BucketPair>,
    ) -> Self {
        let (current, stage, pairs) = (None, Stage::Begin, Vec::new());
        Self { execution, join, operator, pages, tasks, current, stage, pairs }
    }

    fn take(&self, pages: u32) -> Result<Memory<'x>, QueryError> {
        self.execution.take(self.operator, pages)
    }

    /// Begins with the next pair; false if there is none.
    fn begin(&mut self) -> Result<bool, QueryError> {
        loop {
            let Some(pair) = self.tasks.pop() else { return Ok(false) };
            let counts = (pair.left.tuple_count(), pair.right.tuple_count());
            if !gives_rows(counts, self.join.join_type) {
                pair.left.release(self.execution);
                pair.right.release(self.execution);
                continue;
            }
            let needed =
                |bucket: &Bucket| HashTable::bytes_of(bucket.tuple_count(), bucket.cell_bytes());
            let (left, right) = (needed(&pair.left), needed(&pair.right));
            let built = if left <= right { Side::Left } else { Side::Right };
            let page_bytes = self.execution.page_bytes() as u64;
            let table_pages = left.min(right).div_ceil(page_bytes);
            let pages = u64::from(self.pages);
            if table_pages < pages {
                let probe_pages = nandu_base::to_u32(pages - table_pages);
                self.open(pair, built, probe_pages, 0)?;
                return Ok(true);
            }
            let helped = left.min(right) < pair.parent_bytes / 10 * 9;
            let is_much = table_pages > CHUNK_COUNT_MAX * (pages - pages / 8);
            if pair.level < LEVEL_MAX && helped && is_much && pages >= 3 {
                self.cut(pair, left.min(right))?;
                continue;
            }
            self.open_chunked(pair, built)?;
            return Ok(true);
        }
    }

    fn open_chunked(&mut self, pair: BucketPair, built: Side) -> Result<(), QueryError> {
        let words = match Roles::of(self.join.join_type, built).probe {
            Alone::Never => 0,
            Alone::Matched | Alone::Unmatched => {
                pair.bucket(built.other()).tuple_count().div_ceil(64)
            }
        };
        let word_bytes = nandu_base::to_index(words * 8);
        let word_pages = word_bytes.div_ceil(self.execution.page_bytes());
        let word_pages = nandu_base::to_u32(word_pages as u64);
        let free_pages = u64::from(self.pages.saturating_sub(word_pages));
        let input_pages = nandu_base::to_u32(chunk_input_pages(free_pages));
        let needed = word_pages + 2 * input_pages + 1;
        if needed > self.pages {
            return Err(QueryError::TooLittleMemory {
                operator: self.operator.to_owned(),
                needed_pages: u64::from(needed),
                granted_pages: u64::from(self.pages),
            });
        }
        let current = self.open(pair, built, input_pages, input_pages + word_pages)?;
        current.is_chunked = true;
        if words > 0 {
            current.matched = vec![0; nandu_base::to_index(words)];
        }
        Ok(())
    }

    /// Begins with a pair: `probe_pages` for the side that is looked up, `aside_pages` for whatever
    /// else, the rest for the table.
    fn open(
        &mut self,
        pair: BucketPair,
        built: Side,
        probe_pages: u32,
        aside_pages: u32,
    ) -> Result<&mut Current<'x>, QueryError> {
        let table_memory = self.take(self.pages - probe_pages - aside_pages)?;
        // In one chunk, the probe's pages read the built side first.
        let build_memory = self.take(probe_pages)?;
        let build = pair.bucket(built).scan(self.execution, build_memory)?;
        self.stage = Stage::Load;
        Ok(self.current.insert(Current {
            built,
            roles: Roles::of(self.join.join_type, built),
            pair,
            table: HashTable::new(table_memory.bytes()),
            _table_memory: table_memory,
            build: Some((build, 0)),
            is_chunked: false,
            probe: None,
            probe_pages,
            matched: Vec::new(),
            first_row: 0,
            has_batch: false,
            lookup: Lookup::default(),
            walk: Walk::default(),
        }))
    }

    /// Cuts both sides of a pair once more.
    fn cut(&mut self, pair: BucketPair, needed_bytes: u64) -> Result<(), QueryError> {
        let BucketPair { left, right, level, .. } = pair;
        let page_bytes = self.execution.page_bytes() as u64;
        let bucket_count = bucket_count_of_cut(needed_bytes, u64::from(self.pages), page_bytes);
        let bucket_count = nandu_base::to_index(bucket_count);
        let split = Split::even(level + 1, bucket_count);
        let lefts = self.cut_side(left, Side::Left, &split)?;
        let rights = self.cut_side(right, Side::Right, &split)?;
        let pairs = lefts.into_iter().zip(rights).map(|(left, right)| BucketPair {
            left,
            right,
            level: level + 1,
            parent_bytes: needed_bytes,
        });
        self.tasks.extend(pairs);
        Ok(())
    }

    fn cut_side(
        &mut self,
        bucket: Bucket,
        side: Side,
        split: &Split,
    ) -> Result<Vec<Bucket>, QueryError> {
        let count = nandu_base::to_u32(split.piece_count() as u64);
        let output_pages = (self.pages / (count + 1)).max(1);
        let mut memory = self.take(self.pages)?;
        let writers = memory.split_off(output_pages * count);
        let expected = bucket.page_count() / u64::from(count) + 1;
        let mut cutter =
            Cutter::new(self.execution, writers, split.piece_count(), output_pages, expected)?;
        let mut stream = bucket.scan(self.execution, memory)?;
        let key = self.join.input(side).key;
        while stream.advance()? {
            let batch = stream.batch();
            for tuple in batch.tuples() {
                cutter.push(split.piece(key.hash(tuple)?), tuple)?;
            }
            self.execution.work(Work::Copy, batch.cells.len() as u64);
        }
        drop(stream);
        let buckets = cutter.finish()?;
        bucket.release(self.execution);
        Ok(buckets)
    }

    /// Goes on until there are pairs; false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool, QueryError> {
        self.pairs.clear();
        loop {
            match self.stage {
                Stage::Begin => {
                    self.close();
                    if !self.begin()? {
                        return Ok(false);
                    }
                }
                Stage::Load => self.load()?,
                Stage::Probe => self.probe()?,
                Stage::Walk => {
                    let current = self.current.as_mut().expect("a pair is at work");
                    let Current { table, roles, walk, build, matched, .. } = current;
                    if table.walk(roles.build, walk, &mut self.pairs) {
                        self.stage = match build {
                            Some(_) => Stage::Load,
                            None if matched.is_empty() => Stage::Begin,
                            None => Stage::Sweep,
                        };
                        current.probe = None;
                        current.first_row = 0;
                        current.has_batch = false;
                    }
                }
                Stage::Sweep => self.sweep()?,
            }
            if !self.pairs.is_empty() {
                self.execution.work(Work::Emit, self.pairs.len() as u64);
                return Ok(true);
            }
        }
    }

    /// The pairs at hand.
    pub(crate) fn batch(&self) -> PairBatch<'_> {
        match &self.current {
            None => PairBatch::EMPTY,
            Some(Current { built, table, probe, .. }) => PairBatch {
                first: table.area(),
                second: probe.as_ref().map_or(Area::EMPTY, |probe| probe.batch().area),
                first_side: *built,
                pairs: &self.pairs,
            },
        }
    }

    /// Fills the table with the built side, or with as much of it as it holds.
    fn load(&mut self) -> Result<(), QueryError> {
        let current = self.current.as_mut().expect("a pair is at work");
        let key = self.join.input(current.built).key;
        current.table.clear();
        let (mut stream, mut next) = current.build.take().expect("there are rows to come");
        let mut is_full = false;
        loop {
            let batch = stream.batch();
            while next < batch.cells.len() && !is_full {
                is_full = !current.table.push(batch.area.tuple(batch.cells[next]));
                next += usize::from(!is_full);
            }
            if is_full {
                break;
            }
            next = 0;
            if !stream.advance()? {
                break;
            }
        }
        assert!(!is_full || current.is_chunked, "the size of a bucket is known");
        if is_full {
            current.build = Some((stream, next));
        } else {
            drop(stream);
        }
        current.table.build(key)?;
        self.execution.work(Work::Build, current.table.row_count() as u64);
        let memory = self.execution.take(self.operator, current.probe_pages)?;
        let bucket = current.pair.bucket(current.built.other());
        current.probe = Some(bucket.scan(self.execution, memory)?);
        current.has_batch = false;
        current.first_row = 0;
        current.walk = Walk::default();
        self.stage = Stage::Probe;
        Ok(())
    }

    /// Looks rows of the other side up until there are pairs, or to its end.
    fn probe(&mut self) -> Result<(), QueryError> {
        let current = self.current.as_mut().expect("a pair is at work");
        let (build_key, probe_key) =
            (self.join.input(current.built).key, self.join.input(current.built.other()).key);
        let probe = current.probe.as_mut().expect("it was opened");
        // Over several chunks, what a row of the probing side has met is known at the end only.
        let roles = match current.matched.is_empty() {
            true => current.roles,
            false => Roles { probe: Alone::Matched, ..current.roles },
        };
        while self.pairs.is_empty() {
            if !current.has_batch {
                current.first_row += current.lookup.row_count();
                current.lookup.clear();
                if !probe.advance()? {
                    self.stage = Stage::Walk;
                    return Ok(());
                }
                let batch = probe.batch();
                current.lookup.push_all(probe_key, batch)?;
                current.lookup.begin(&current.table);
                self.execution.work(Work::Probe, batch.cells.len() as u64);
            }
            let area = probe.batch().area;
            let keys = (probe_key, build_key);
            let lookup = &mut current.lookup;
            current.has_batch =
                !current.table.look_up(keys, area, roles, lookup, &mut self.pairs)?;
            if !current.matched.is_empty() {
                let (lookup, first_row) = (&current.lookup, current.first_row);
                let matched = &mut current.matched;
                self.pairs.retain(|&(built, probe)| {
                    if built == NO_TUPLE {
                        let row = first_row + lookup.index_of(probe);
                        matched[nandu_base::to_index(row / 64)] |= 1 << (row % 64);
                    }
                    built != NO_TUPLE
                });
            }
        }
        Ok(())
    }

    /// After the last chunk: rows of the probing side that come out by themselves.
    fn sweep(&mut self) -> Result<(), QueryError> {
        let current = self.current.as_mut().expect("a pair is at work");
        if current.probe.is_none() {
            let memory = self.execution.take(self.operator, current.probe_pages)?;
            let bucket = current.pair.bucket(current.built.other());
            current.probe = Some(bucket.scan(self.execution, memory)?);
        }
        let probe = current.probe.as_mut().expect("it was opened");
        if !probe.advance()? {
            self.stage = Stage::Begin;
            return Ok(());
        }
        for &cell in probe.batch().cells {
            let row = current.first_row;
            let is_matched = current.matched[nandu_base::to_index(row / 64)] >> (row % 64) & 1 == 1;
            if is_matched == (current.roles.probe == Alone::Matched) {
                self.pairs.push((NO_TUPLE, cell));
            }
            current.first_row += 1;
        }
        Ok(())
    }

    /// Ends with a pair.
    fn close(&mut self) {
        let Some(current) = self.current.take() else { return };
        let Current { pair, table, build, probe, .. } = current;
        drop((table, build, probe));
        pair.left.release(self.execution);
        pair.right.release(self.execution);
    }
}

impl BucketPair {
    pub(crate) const fn bucket(&self, side: Side) -> &Bucket {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }
}

/// Pages that read each side of a pair that is joined in chunks, of so many in all.
pub(crate) fn chunk_input_pages(pages: u64) -> u64 {
    (pages / 16).max(1)
}

/// Into how many buckets a side is cut whose table takes so many bytes: a little more than needed, because
/// buckets are not equal.
pub(crate) fn bucket_count_of_cut(needed_bytes: u64, pages: u64, page_bytes: u64) -> u64 {
    let table_bytes = (pages - 1) * page_bytes;
    let wanted = (needed_bytes + needed_bytes / 8).div_ceil(table_bytes).max(2);
    wanted.min(pages - 1)
}

/// Whether a pair of buckets can give any row, that have so many on the left and on the right.
pub(crate) const fn gives_rows((left, right): (u64, u64), join_type: JoinType) -> bool {
    let (left, right) = (left > 0, right > 0);
    match join_type {
        JoinType::Inner | JoinType::Semi => left && right,
        JoinType::Left | JoinType::Anti => left,
        JoinType::Right => right,
        JoinType::Full => left || right,
    }
}

/// Writes rows to buckets.
pub(crate) struct Cutter<'x> {
    writers: Vec<SpillWriter<'x>>,
}

impl<'x> Cutter<'x> {
    /// A writer of `output_pages` for each bucket, out of `memory`.
    pub(crate) fn new(
        execution: &'x Execution,
        mut memory: Memory<'x>,
        bucket_count: usize,
        output_pages: u32,
        expected_pages: u64,
    ) -> Result<Self, QueryError> {
        let writer = |_| {
            let memory = memory.split_off(output_pages);
            SpillWriter::new(execution, memory, expected_pages)
        };
        Ok(Self { writers: (0..bucket_count).map(writer).collect::<Result<_, _>>()? })
    }

    /// Appends a row to a bucket.
    #[inline]
    pub(crate) fn push(&mut self, bucket: usize, tuple: Tuple<'_>) -> Result<(), QueryError> {
        self.writers[bucket].push(tuple)
    }

    /// Writes the rest of all buckets; the memory goes back.
    pub(crate) fn finish(self) -> Result<Vec<Bucket>, QueryError> {
        self.writers.into_iter().map(|writer| Ok(writer.finish()?.0)).collect()
    }
}
