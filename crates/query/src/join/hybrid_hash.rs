//! Hybrid hash join: as Grace hash, but a part of the built side never leaves memory, and what probes it
//! is never written (DeWitt et al. 1984; S001 section 3.4). Which part that is, the rows decide: pieces
//! stay until memory runs short, then leave one by one (dynamic destaging, Nakayama et al. 1988).
//!
//! ```text
//!   hash space   ├ tier ┼ tier ┼ tier ┤├─ bucket ─┼─ bucket ─┤
//!   memory       │ rows of resident pieces │ directory │ output of each other piece │ input │
//!                 ◄─── leave from the right when it gets tight ───
//!   outputs      large for buckets, which are expected to leave; small for tiers, which are not
//!
//!   built side ═► pieces, in memory or written      other side ═► looked up, or written likewise
//!   then each pair of written pieces: `buckets`
//! ```
//!
//! 1. Which pieces are resident is settled before the first row of the other side.
//! 2. Rows, directory and outputs stay within the memory, at any time.

use super::buckets::{BucketJoin, BucketPair};
use super::hash_table::{HashTable, Lookup, Walk};
use super::roles::{Alone, Roles};
use super::row_store::{LINK_BYTES, RowStore, segment_bytes};
use super::split::Split;
use super::{Join, JoinStream, Side};
use crate::execution::Memory;
use crate::relation::{Span, TupleStream};
use crate::spill::{Bucket, SpillWriter};
use crate::tuple::{Area, PairBatch, Tuple};
use crate::work::Work;
use crate::{Execution, QueryError, allocation};

/// The operator's name in errors.
const OPERATOR: &str = "a hybrid hash join";
/// Pieces of the part that is to stay; the finer, the less leaves at once.
const TIER_COUNT: u32 = 8;
/// The output of a tier where nothing is expected to leave: this part of memory.
const SPARE_OUTPUT_PART: u32 = 64;
/// Extents are longer than expected by this part: a second one costs a request, and what is left of the
/// first is given back.
pub(crate) const EXTENT_SLACK_PART: u64 = 4;
/// How far statistics may be off that were drawn from a sample: this part.
const SAMPLE_ERROR_PART: u64 = 200;

/// How the memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The side that is built, the smaller one as far as is known.
    pub build: Side,
    /// All pages of memory that the join has.
    pub pages: u32,
    /// Pages through which both sides are read.
    pub input_pages: u32,
    /// Pages through which each bucket is written.
    pub output_pages: u32,
    /// Buckets that are expected to be written; 0 if everything is expected to fit.
    pub bucket_count: u32,
    /// The part of the built side that is expected to stay in memory, in millionths.
    pub resident_ppm: u32,
}

/// How much there is of the side that is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltSide {
    /// Rows of the side.
    pub tuple_count: u64,
    /// Bytes of their cells.
    pub cell_bytes: u64,
}

/// The pieces that settings make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) tier_count: u32,
    pub(crate) tier_output_pages: u32,
    pub(crate) bucket_count: u32,
    /// Of a bucket.
    pub(crate) output_pages: u32,
    /// Pages beside the input that are not outputs of buckets.
    left_pages: u32,
}

impl Settings {
    /// What an allocation comes to for `built`, in so many pages of so many bytes. The part that stays is
    /// as large as is sure to fit, with room for the output of a tier.
    #[must_use]
    pub fn of(
        parts: &allocation::HybridHash,
        built: BuiltSide,
        build: Side,
        (pages, page_bytes): (u32, u64),
    ) -> Self {
        let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let mut settings = Self {
            build,
            pages,
            input_pages: narrow(parts.input_pages),
            output_pages: narrow(parts.output_pages.max(1)),
            bucket_count: narrow(parts.bucket_count),
            resident_ppm: 1_000_000,
        };
        let layout = settings.layout();
        if layout.bucket_count > 0 {
            let rows = layout.resident_rows(built, page_bytes);
            let ppm = u128::from(rows) * 1_000_000 / u128::from(built.tuple_count.max(1));
            settings.resident_ppm = u32::try_from(ppm).map_or(1_000_000, |ppm| ppm.min(1_000_000));
        }
        settings
    }

    /// The pieces. In the end every one may have left, and then needs its output.
    pub(crate) fn layout(&self) -> Layout {
        let rest_pages = self.pages.saturating_sub(self.input_pages).max(2);
        let bucket_count = self.bucket_count.min(rest_pages - 2);
        let most = (rest_pages - 2).checked_div(bucket_count).unwrap_or(rest_pages);
        let output_pages = self.output_pages.clamp(1, most.max(1));
        let left_pages = rest_pages - bucket_count * output_pages;
        let tier_count = TIER_COUNT.min(left_pages - 1);
        let most = (left_pages / (tier_count + 1)).max(1);
        let wanted = if bucket_count == 0 { rest_pages / SPARE_OUTPUT_PART } else { output_pages };
        let tier_output_pages = wanted.clamp(1, most);
        Layout { tier_count, tier_output_pages, bucket_count, output_pages, left_pages }
    }
}

/// Pages of an extent for so many that are expected.
pub(crate) const fn with_slack(pages: u64) -> u64 {
    pages + pages / EXTENT_SLACK_PART + 1
}

impl Layout {
    /// Bytes for which the segments of a piece are made.
    pub(crate) fn segment_store_bytes(&self, page_bytes: u64) -> u64 {
        u64::from(self.left_pages / self.tier_count.max(1)).saturating_mul(page_bytes)
    }

    /// The output of a piece.
    pub(crate) const fn output_pages_of(&self, piece: usize) -> u32 {
        if piece < self.tier_count as usize { self.tier_output_pages } else { self.output_pages }
    }

    /// Rows of which all tiers are sure to hold their part.
    fn resident_rows(&self, built: BuiltSide, page_bytes: u64) -> u64 {
        let store_bytes = self.segment_store_bytes(page_bytes);
        let segment = segment_bytes(nandu_base::to_index(store_bytes)) as u64;
        let cell_bytes = built.cell_bytes.div_ceil(built.tuple_count.max(1));
        let row = cell_bytes + LINK_BYTES as u64;
        let row = if row > segment / 16 { row } else { segment.div_ceil(segment / row) };
        let bytes = u64::from(self.left_pages - self.tier_output_pages).saturating_mul(page_bytes);
        let bytes = bytes.saturating_sub(u64::from(self.tier_count) * segment);
        let rows = bytes / (row + HashTable::directory_bytes(2) as u64 / 2);
        // Tiers are as large as chance makes them: two deviations.
        rows.saturating_sub(2 * rows.isqrt() + rows / SAMPLE_ERROR_PART)
    }
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Build,
    Probe,
    Walk,
    Buckets,
}

/// A piece of the built side.
enum Piece<'x> {
    Resident(RowStore),
    Written(SpillWriter<'x>),
}

/// The other side on its way, and what it meets.
struct Probing<'x> {
    table: HashTable,
    _memory: Memory<'x>,
    stream: Option<Box<dyn TupleStream + 'x>>,
    /// For each piece that was written, what the other side has for it.
    writers: Vec<Option<SpillWriter<'x>>>,
    lookup: Lookup,
    has_batch: bool,
    walk: Walk,
}

/// Hybrid hash join as a stream of pairs: see the module.
pub struct HybridHash<'x> {
    execution: &'x Execution,
    join: Join<'x>,
    settings: Settings,
    layout: Layout,
    split: Split,
    roles: Roles,
    stage: Stage,
    probing: Option<Probing<'x>>,
    /// The written pieces of the built side.
    built: Vec<Option<Bucket>>,
    phase_two: Option<BucketJoin<'x>>,
    pairs: Vec<(u64, u64)>,
}

/// The built side on its way.
struct Building<'x> {
    execution: &'x Execution,
    pieces: Vec<Piece<'x>>,
    /// What is left for rows, directory and outputs.
    memory: Memory<'x>,
    layout: Layout,
    /// Pages that each tier and each bucket are expected to have.
    expected_pages: [u64; 2],
    used_bytes: usize,
    row_count: usize,
    /// Of the output of the piece that leaves next.
    reserved_bytes: usize,
}

impl<'x> HybridHash<'x> {
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
        let Settings { pages, input_pages, .. } = settings;
        if input_pages == 0 || pages.saturating_sub(input_pages) < 2 {
            return Err(QueryError::TooLittleMemory {
                operator: OPERATOR.to_owned(),
                needed_pages: 3,
                granted_pages: u64::from(pages),
            });
        }
        let layout = settings.layout();
        let split = Split::with_tiers(
            0,
            u64::from(settings.resident_ppm.min(1_000_000)),
            layout.tier_count as usize,
            layout.bucket_count as usize,
        );
        drop(execution.take(OPERATOR, pages)?);
        Ok(Self {
            execution,
            join,
            settings,
            layout,
            split,
            roles: Roles::of(join.join_type, settings.build),
            stage: Stage::Build,
            probing: None,
            built: Vec::new(),
            phase_two: None,
            pairs: Vec::new(),
        })
    }

    /// Reads the built side into its pieces, and opens the other side.
    fn build(&mut self) -> Result<(), QueryError> {
        let Settings { build, pages, input_pages, .. } = self.settings;
        let (layout, input) = (self.layout, self.join.input(build));
        let mut memory = self.execution.take(OPERATOR, pages)?;
        let input_memory = memory.split_off(input_pages);
        let page_bytes = self.execution.page_bytes() as u64;
        let cell_bytes = input.relation.size().cell_bytes;
        let store_bytes = nandu_base::to_index(layout.segment_store_bytes(page_bytes));
        let resident = match layout.bucket_count {
            0 => cell_bytes,
            _ => cell_bytes / 1_000_000 * u64::from(self.settings.resident_ppm),
        };
        let expected = |bytes: u64, count: u32| {
            let pages = bytes / u64::from(count.max(1)) / page_bytes;
            with_slack(pages)
        };
        let resident_pages = expected(resident, layout.tier_count);
        let bucket_pages = expected(cell_bytes.saturating_sub(resident), layout.bucket_count);
        let piece_count = self.split.piece_count();
        let mut building = Building {
            execution: self.execution,
            pieces: (0..piece_count).map(|_| Piece::Resident(RowStore::new(store_bytes))).collect(),
            memory,
            layout,
            expected_pages: [resident_pages, bucket_pages],
            used_bytes: 0,
            row_count: 0,
            reserved_bytes: 0,
        };
        building.reserve();
        let mut stream = input.relation.scan(self.execution, input_memory, Span::ALL)?;
        let keeps_null_keys = self.roles.keeps_null_keys();
        let mut row_count = 0;
        while stream.advance()? {
            let batch = stream.batch();
            for tuple in batch.tuples() {
                let hash = input.key.hash(tuple)?;
                if hash.is_some() || keeps_null_keys {
                    building.push(self.split.piece(hash), tuple)?;
                }
            }
            row_count += batch.cells.len();
        }
        drop(stream);
        let (table_rows, mut memory) = self.settle(building)?;
        let table = HashTable::of(table_rows, input.key)?;
        self.execution.work(Work::Copy, row_count.saturating_sub(table.row_count()) as u64);
        self.execution.work(Work::Build, table.row_count() as u64);
        let mut writers = Vec::new();
        for (piece, bucket) in self.built.iter().enumerate() {
            writers.push(match bucket {
                None => None,
                Some(bucket) => {
                    let memory = memory.split_off(layout.output_pages_of(piece));
                    let expected = self.expected_probe_pages(bucket, cell_bytes);
                    Some(SpillWriter::new(self.execution, memory, expected)?)
                }
            });
        }
        let other = self.join.input(build.other()).relation;
        let input_memory = self.execution.take(OPERATOR, input_pages)?;
        self.probing = Some(Probing {
            table,
            _memory: memory,
            stream: Some(other.scan(self.execution, input_memory, Span::ALL)?),
            writers,
            lookup: Lookup::default(),
            has_batch: false,
            walk: Walk::default(),
        });
        Ok(())
    }

    /// What the other side is expected to have for a bucket of the built side.
    fn expected_probe_pages(&self, bucket: &Bucket, built_bytes: u64) -> u64 {
        let other = self.join.input(self.settings.build.other()).relation.size().cell_bytes;
        let share =
            u128::from(other) * u128::from(bucket.cell_bytes()) / u128::from(built_bytes.max(1));
        let pages = u64::try_from(share).unwrap_or(u64::MAX) / self.execution.page_bytes() as u64;
        with_slack(pages)
    }

    /// Ends the built side: the rows that stay, and all memory but that of the input.
    fn settle(&mut self, building: Building<'x>) -> Result<(RowStore, Memory<'x>), QueryError> {
        let Building { pieces, mut memory, .. } = building;
        let mut rows = RowStore::new(memory.bytes());
        for piece in pieces {
            self.built.push(match piece {
                Piece::Resident(mut store) => {
                    rows.append(&mut store);
                    None
                }
                Piece::Written(writer) => {
                    let (bucket, output) = writer.finish()?;
                    memory.join(output);
                    Some(bucket)
                }
            });
        }
        Ok((rows, memory))
    }

    /// Reads the other side until there are pairs, or to its end.
    fn probe(&mut self) -> Result<(), QueryError> {
        let build_key = self.join.input(self.settings.build).key;
        let probe_key = self.join.input(self.settings.build.other()).key;
        let probing = self.probing.as_mut().expect("the built side was read");
        let Probing { table, stream, writers, lookup, has_batch, .. } = probing;
        let stream = stream.as_mut().expect("it was opened");
        while self.pairs.is_empty() {
            if !*has_batch {
                if !stream.advance()? {
                    self.stage = Stage::Walk;
                    return Ok(());
                }
                lookup.clear();
                let batch = stream.batch();
                let mut written_count = 0;
                for &cell in batch.cells {
                    let tuple = batch.area.tuple(cell);
                    let hash = probe_key.hash(tuple)?;
                    match &mut writers[self.split.piece(hash)] {
                        Some(writer) if hash.is_some() => {
                            writer.push(tuple)?;
                            written_count += 1;
                        }
                        _ => lookup.push(cell, hash),
                    }
                }
                lookup.begin(table);
                self.execution.work(Work::Copy, written_count);
                self.execution.work(Work::Probe, batch.cells.len() as u64 - written_count);
            }
            let area = stream.batch().area;
            let keys = (probe_key, build_key);
            *has_batch = !table.look_up(keys, area, self.roles, lookup, &mut self.pairs)?;
        }
        Ok(())
    }

    /// Ends the first phase: what was written goes on in pairs.
    fn begin_buckets(&mut self) -> Result<(), QueryError> {
        let Probing { writers, .. } = self.probing.take().expect("it is over");
        let mut tasks = Vec::new();
        for (built, writer) in std::mem::take(&mut self.built).into_iter().zip(writers) {
            if let (Some(built), Some(writer)) = (built, writer) {
                let (probe, _) = writer.finish()?;
                let (left, right) = match self.settings.build {
                    Side::Left => (built, probe),
                    Side::Right => (probe, built),
                };
                tasks.push(BucketPair { left, right, level: 0, parent_bytes: u64::MAX });
            }
        }
        let pages = self.settings.pages;
        self.phase_two = Some(BucketJoin::new(self.execution, self.join, OPERATOR, pages, tasks));
        self.stage = Stage::Buckets;
        Ok(())
    }
}

impl<'x> Building<'x> {
    fn push(&mut self, piece: usize, tuple: Tuple<'_>) -> Result<(), QueryError> {
        loop {
            match &mut self.pieces[piece] {
                Piece::Written(writer) => return writer.push(tuple),
                Piece::Resident(store) => {
                    let growth = store.growth(tuple);
                    let directory = HashTable::directory_bytes(self.row_count + 1);
                    // Room to write the next piece that leaves is kept.
                    let budget = self.memory.bytes().saturating_sub(self.reserved_bytes);
                    if self.used_bytes + growth + directory <= budget {
                        store.push(tuple, growth);
                        self.used_bytes += growth;
                        self.row_count += 1;
                        return Ok(());
                    }
                }
            }
            self.destage()?;
        }
    }

    /// Sets room for the next output aside.
    fn reserve(&mut self) {
        let pages = self.last_resident().map_or(0, |piece| self.layout.output_pages_of(piece));
        self.reserved_bytes = pages as usize * self.execution.page_bytes();
    }

    /// The piece that leaves next.
    fn last_resident(&self) -> Option<usize> {
        self.pieces.iter().rposition(|piece| matches!(piece, Piece::Resident(_)))
    }

    /// Writes the last piece that is still resident.
    fn destage(&mut self) -> Result<(), QueryError> {
        let index = self.last_resident().expect("one did not fit");
        let output = self.memory.split_off(self.layout.output_pages_of(index));
        let expected_pages =
            self.expected_pages[usize::from(index >= self.layout.tier_count as usize)];
        let mut writer = SpillWriter::new(self.execution, output, expected_pages)?;
        let Piece::Resident(store) = &self.pieces[index] else { return Ok(()) };
        for tuple in store.tuples() {
            writer.push(tuple)?;
        }
        self.used_bytes -= store.used_bytes();
        self.row_count -= store.row_count();
        self.pieces[index] = Piece::Written(writer);
        self.reserve();
        Ok(())
    }
}

impl JoinStream for HybridHash<'_> {
    fn advance(&mut self) -> Result<bool, QueryError> {
        self.pairs.clear();
        loop {
            match self.stage {
                Stage::Build => {
                    self.build()?;
                    self.stage = Stage::Probe;
                }
                Stage::Probe => self.probe()?,
                Stage::Walk => {
                    let probing = self.probing.as_mut().expect("it was probed");
                    probing.stream = None;
                    let Probing { table, walk, .. } = probing;
                    let is_done = self.roles.build == Alone::Never
                        || table.walk(self.roles.build, walk, &mut self.pairs);
                    if is_done && self.pairs.is_empty() {
                        self.begin_buckets()?;
                    }
                }
                Stage::Buckets => {
                    return self.phase_two.as_mut().expect("it was begun").advance();
                }
            }
            if !self.pairs.is_empty() {
                self.execution.work(Work::Emit, self.pairs.len() as u64);
                return Ok(true);
            }
        }
    }

    fn batch(&self) -> PairBatch<'_> {
        if let Some(phase_two) = &self.phase_two {
            return phase_two.batch();
        }
        let Some(Probing { table, stream, .. }) = &self.probing else { return PairBatch::EMPTY };
        PairBatch {
            first: table.area(),
            second: stream.as_ref().map_or(Area::EMPTY, |stream| stream.batch().area),
            first_side: self.settings.build,
            pairs: &self.pairs,
        }
    }
}
