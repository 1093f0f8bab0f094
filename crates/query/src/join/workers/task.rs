//! Two sides that are joined by all workers, and how: decided once for all, from what is known of the sides.
//!
//! ```text
//!   table of the smaller side fits, or nearly ──────────► in chunks, one if it fits, the other side past each
//!                              does not, and cutting helps ──► hashed, in as many pieces as memory has room for
//!                              nor does that help ───────────► in chunks
//! ```

use super::load::{Filling, Pieces};
use super::{Alone, RANGES_PER_WORKER, Roles};
use crate::Execution;
use crate::join::buckets::{CHUNK_COUNT_MAX, LEVEL_MAX, bucket_count_of_cut, chunk_input_pages};
use crate::join::split::Split;
use crate::join::{Join, JoinType, Side};
use crate::workers::Morsels;
use nandu_base::{to_index, to_u32};
use std::sync::atomic::AtomicU64;

/// Bytes that a worker has of a range at least, where there are more ranges than workers.
const STORE_BYTES_MIN: usize = 64 << 10;

/// What the workers of a join have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    pub(super) worker_count: usize,
    /// Pages of each worker.
    pub(super) pages: u32,
    pub(super) page_bytes: usize,
    pub(super) join_type: JoinType,
}

/// Two sides to be joined.
#[derive(Debug)]
pub(super) struct Task {
    left: Morsels,
    right: Morsels,
    /// How often their rows have been cut.
    pub(super) level: u32,
    pub(super) way: Way,
    pub(super) filling: Filling,
    /// In chunks, whether a row of the side that is looked up has met a partner in some chunk.
    pub(super) matched: Vec<AtomicU64>,
}

/// How a task is done.
#[derive(Debug)]
pub(super) struct Way {
    /// The side that is built.
    pub(super) built: Side,
    pub(super) pieces: Pieces,
    /// Pages through which each worker reads either side.
    pub(super) input_pages: u32,
    /// Whether the built side comes in chunks, because nothing may be written.
    pub(super) is_chunked: bool,
}

impl Shares {
    /// Of so many workers with so many pages each.
    pub(super) fn new(
        execution: &Execution,
        join: &Join<'_>,
        pages: u32,
        worker_count: usize,
    ) -> Self {
        Self { worker_count, pages, page_bytes: execution.page_bytes(), join_type: join.join_type }
    }

    /// What becomes of rows if this side is built.
    pub(super) const fn roles(&self, built: Side) -> Roles {
        Roles::of(self.join_type, built)
    }

    /// Whether rows of a side that is built are marked when they are met.
    pub(super) const fn has_marks(&self, built: Side) -> bool {
        !matches!(self.roles(built).build, Alone::Never)
    }

    /// Bytes of so many pages of each worker.
    pub(super) const fn bytes(&self, pages: u32) -> usize {
        pages as usize * self.page_bytes * self.worker_count
    }

    /// Ranges of a table of so many bytes: enough to build them side by side, but not so many that rows are long
    /// beside the segments of a worker's part of one.
    fn range_count(&self, table_bytes: usize) -> usize {
        let most = self.worker_count * RANGES_PER_WORKER;
        (table_bytes / self.worker_count / STORE_BYTES_MIN).clamp(self.worker_count, most)
    }

    /// Chunks of a side, read through so many pages, the other side through as many; `aside_bytes` are not theirs.
    pub(super) fn chunks(
        &self,
        level: u32,
        built: Side,
        input_pages: u32,
        aside_bytes: usize,
    ) -> Way {
        let table_pages = self.pages.saturating_sub(2 * input_pages);
        let budget_bytes = self.bytes(table_pages).saturating_sub(aside_bytes);
        let range_count = self.range_count(budget_bytes);
        let pieces = Pieces {
            split: Split::even(level, range_count),
            output_pages: Vec::new(),
            expected_pages: Vec::new(),
            store_bytes: budget_bytes / range_count / self.worker_count,
            budget_bytes,
            has_marks: self.has_marks(built),
        };
        Way { built, pieces, input_pages, is_chunked: true }
    }

    /// What two written sides are joined like: `parent_bytes` is the table of the side that they were cut from.
    fn way(&self, sides: [&Morsels; 2], level: u32, parent_bytes: u64) -> Way {
        let [left, right] = sides.map(Morsels::table_bytes);
        let built = if left <= right { Side::Left } else { Side::Right };
        let needed = left.min(right);
        let page_bytes = self.page_bytes as u64;
        let pages = u64::from(self.pages) * self.worker_count as u64;
        let has_helped = needed < parent_bytes / 10 * 9;
        let is_much = needed.div_ceil(page_bytes) > CHUNK_COUNT_MAX * (pages - pages / 8);
        if level <= LEVEL_MAX && has_helped && is_much {
            let most = u64::from(self.pages / 2);
            let count = bucket_count_of_cut(needed, pages, page_bytes).min(most);
            let output_pages = (self.pages / to_u32(count + 1)).max(1);
            let input_pages = (self.pages - to_u32(count) * output_pages).max(1);
            return self.hashed(level, built, to_index(count), (output_pages, input_pages));
        }
        // What a table that fits leaves is for what both sides are read through.
        let table_pages = needed.div_ceil(page_bytes * self.worker_count as u64);
        let rest = u64::from(self.pages).saturating_sub(table_pages + table_pages / 8) / 2;
        let least = chunk_input_pages(u64::from(self.pages));
        let input_pages = to_u32(rest.clamp(least, (u64::from(self.pages) / 4).max(least)));
        let aside_bytes = match self.roles(built).probe {
            Alone::Never => 0,
            _ => word_count(sides[usize::from(built == Side::Left)]) * 8,
        };
        self.chunks(level, built, input_pages, aside_bytes)
    }

    /// A side in so many equal pieces, each with an output.
    fn hashed(
        &self,
        level: u32,
        built: Side,
        piece_count: usize,
        (output_pages, input_pages): (u32, u32),
    ) -> Way {
        let budget_bytes = self.bytes(self.pages - input_pages);
        let pieces = Pieces {
            split: Split::even(level, piece_count),
            output_pages: vec![output_pages; piece_count],
            expected_pages: vec![1; piece_count],
            store_bytes: budget_bytes / piece_count / self.worker_count,
            budget_bytes,
            has_marks: self.has_marks(built),
        };
        Way { built, pieces, input_pages, is_chunked: false }
    }
}

impl Task {
    /// Two sides, by a way that is known.
    pub(super) fn new(shares: &Shares, [left, right]: [Morsels; 2], level: u32, way: Way) -> Self {
        let filling = Filling::new(way.pieces.split.piece_count(), shares.worker_count);
        Self { left, right, level, way, filling, matched: Vec::new() }
    }

    /// Two sides that were written, cut from a side whose table takes `parent_bytes`.
    pub(super) fn of_written(
        shares: &Shares,
        sides: [Morsels; 2],
        level: u32,
        parent_bytes: u64,
    ) -> Self {
        let way = shares.way([&sides[0], &sides[1]], level, parent_bytes);
        let mut task = Self::new(shares, sides, level, way);
        let built = task.way.built;
        if task.way.is_chunked && shares.roles(built).probe != Alone::Never {
            let words = word_count(task.side(built.other()));
            task.matched = (0..words).map(|_| AtomicU64::new(0)).collect();
        }
        task
    }

    pub(super) const fn side(&self, side: Side) -> &Morsels {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }
}

/// Words with a bit for each row.
fn word_count(side: &Morsels) -> usize {
    to_index(side.tuple_count().div_ceil(64))
}
