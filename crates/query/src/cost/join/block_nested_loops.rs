//! Block nested loops: S is scanned for each chunk of R that fits in the hash area (S001 section 3.1).
//! Nothing is written. Two seeks for each chunk; |R| + n|S| pages.
//!
//! The paper reads a chunk by one request (`lab` has its formula). The operator here reads R
//! through the buffer of S, so that all else is the hash area, and ends a chunk between two blocks:
//! with the block after which the next one might not fit. Only where the area holds no block is a
//! block read for several chunks.

use super::{probe_all, with_result};
use crate::allocation::BlockNestedLoops;
use crate::cost::{
    CostModel, Estimate, Footprint, HashTables, JoinQuestion, PageOrder, Pattern, Restart, Tally,
    scale_up,
};
use crate::join::row_store::{LINK_BYTES, segment_bytes};
use crate::work::Work;

/// Bytes of the directory for a row.
const DIRECTORY_BYTES: u64 = 12;

/// The cost with such a division of memory.
#[must_use]
pub fn block_nested_loops(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    parts: &BlockNestedLoops,
) -> Estimate {
    let [outer, inner] = question.footprints();
    let joined = scan_for_chunks(model, &outer, &inner, parts);
    with_result(model, question, joined, Some(&tables(&outer, parts)))
}

/// The hash tables of the chunks.
fn tables(outer: &Footprint, parts: &BlockNestedLoops) -> HashTables {
    let bytes = outer.memory_bytes.min(parts.outer_pages.saturating_mul(outer.page_bytes));
    outer.tables_in_turn(bytes, scale_up(outer.tuple_count, bytes, outer.memory_bytes))
}

/// The same without what comes out.
fn scan_for_chunks(
    model: &CostModel<'_>,
    outer: &Footprint,
    inner: &Footprint,
    parts: &BlockNestedLoops,
) -> Estimate {
    let mut tally = Tally::new(model, outer.page_bytes);
    let chunk_count = read_outer(&mut tally, outer, parts);
    tally.work(Work::Scan, outer.stored_tuples);
    tally.end_phase();
    // The table is made when a chunk is there, and nothing is read then.
    tally.build(&tables(outer, parts));
    tally.begin_phase();
    let mut scan = Tally::new(model, inner.page_bytes);
    let reads = scan.scan(inner, parts.inner_pages);
    if reads > 0 {
        scan.restart(&Restart::of(model, inner, parts.inner_pages, reads), 1);
    }
    tally.estimate += scan.estimate * chunk_count.min(1);
    let mut again = Tally::new(model, inner.page_bytes);
    again.scan_again(inner, parts.inner_pages);
    tally.estimate += again.estimate * chunk_count.saturating_sub(1);

    let mut probed = *inner;
    probed.stored_tuples = inner.stored_tuples.saturating_mul(chunk_count);
    probed.tuple_count = inner.tuple_count.saturating_mul(chunk_count);
    probe_all(&mut tally, &probed);
    tally.end_phase();
    tally.estimate
}

/// Reads R chunk by chunk, and answers how many there are.
fn read_outer(tally: &mut Tally<'_>, outer: &Footprint, parts: &BlockNestedLoops) -> u64 {
    let reads_ahead = tally.model.reads_ahead;
    if outer.stored_pages == 0 {
        return 0;
    }
    let (block_pages, blocks_ahead) = match outer.order {
        // Those of a PAX page are a block, and slots are read ahead.
        PageOrder::Apart { slot_pages, .. } => {
            let slots = outer.slots(parts.inner_pages, reads_ahead);
            (u64::from(slot_pages).max(1), slots - 1)
        }
        PageOrder::Contiguous | PageOrder::Scattered => {
            (tally.model.block_pages(parts.inner_pages), u64::from(reads_ahead))
        }
    };
    let block_pages = block_pages.min(outer.stored_pages);
    let blocks = Blocks::of(outer, block_pages, parts);
    let block_count = outer.stored_pages.div_ceil(block_pages);
    let chunk_count = match blocks.per_chunk() {
        0 => block_count.saturating_mul(blocks.chunks_per_block()),
        per_chunk => block_count.div_ceil(per_chunk),
    };
    if tally.scan(outer, parts.inner_pages) == 0 {
        return chunk_count;
    }
    // Blocks that more than one chunk needs, and those that were begun when a chunk was full.
    let again = chunk_count.saturating_sub(block_count);
    let ahead = chunk_count.saturating_sub(1).saturating_mul(blocks_ahead);
    let repeated = again.saturating_add(ahead);
    tally.read_requests(Pattern::Sequential, repeated, repeated.saturating_mul(block_pages));
    let run_length = (block_count + repeated) / chunk_count.max(1);
    let restart = Restart::of(tally.model, outer, parts.inner_pages, run_length);
    tally.restart(&restart, chunk_count);
    chunk_count
}

/// How blocks of R fill a hash area.
#[derive(Debug)]
struct Blocks {
    block_pages: u64,
    /// Bytes of the area, and of one of its segments.
    area_bytes: u64,
    segment_bytes: u64,
    /// Bytes of links and cells, and of the directory, of one block.
    cell_bytes: u64,
    directory_bytes: u64,
    /// Bytes that a block may have at most.
    block_bytes: u64,
}

impl Blocks {
    fn of(outer: &Footprint, block_pages: u64, parts: &BlockNestedLoops) -> Self {
        let area_bytes = parts.outer_pages.saturating_mul(outer.page_bytes);
        let rows = scale_up(outer.tuple_count, block_pages, outer.stored_pages);
        let directory_bytes = rows.saturating_mul(DIRECTORY_BYTES);
        let memory_bytes = scale_up(outer.memory_bytes, block_pages, outer.stored_pages);
        let links = rows.saturating_mul(LINK_BYTES as u64);
        let buffer_bytes = parts.inner_pages.saturating_mul(outer.page_bytes);
        Self {
            block_pages,
            area_bytes,
            segment_bytes: segment_bytes(usize::try_from(area_bytes).unwrap_or(usize::MAX)) as u64,
            cell_bytes: memory_bytes.saturating_sub(directory_bytes),
            directory_bytes,
            block_bytes: buffer_bytes.saturating_add(links),
        }
    }

    /// Blocks of a chunk; 0 if the area may be too small for one.
    fn per_chunk(&self) -> u64 {
        if self.chunks_per_block() > 1 {
            return 0;
        }
        // The first number after which one more is not sure to fit.
        let (mut low, mut high) = (1, (self.area_bytes / self.cell_bytes.max(1)).max(1));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.holds(middle, self.block_bytes) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Chunks that a block is cut into: a chunk that begins within a block ends with it. Blocks are not
    /// equally full.
    fn chunks_per_block(&self) -> u64 {
        let fullest = self.cell_bytes + self.cell_bytes / (8 * self.block_pages.isqrt().max(1));
        let needed = self.segments(fullest) + self.directory_bytes;
        needed.div_ceil(self.area_bytes.max(1)).max(1)
    }

    /// Whether so many blocks, and perhaps a next one of so many bytes, are sure to fit.
    fn holds(&self, block_count: u64, next_bytes: u64) -> bool {
        let used = self.segments(block_count.saturating_mul(self.cell_bytes));
        let (next, next_blocks) = if next_bytes > 0 {
            (self.segments(next_bytes + next_bytes / 8) + self.segment_bytes, 1)
        } else {
            (0, 0)
        };
        let directory = (block_count + next_blocks).saturating_mul(self.directory_bytes);
        used.saturating_add(next).saturating_add(directory) <= self.area_bytes
    }

    /// Bytes of whole segments for so many.
    const fn segments(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.segment_bytes).saturating_mul(self.segment_bytes)
    }
}
