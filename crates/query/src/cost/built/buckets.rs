//! The hash joins' second phase, pair by pair as `join::buckets` does it, and Grace hash around it.

use super::hashed::sum_over_parts;
use super::space::Segments;
use super::{Written, block_pages, read_spilled, spilled_restart};
use crate::allocation::GraceHash;
use crate::cost::join::probe_all;
use crate::cost::{CostModel, Estimate, Footprint, HashTables, Restart, Streams, Tally};
use crate::join::buckets::{CHUNK_COUNT_MAX, LEVEL_MAX, bucket_count_of_cut, chunk_input_pages};
use crate::join::hash_table::HashTable;
use crate::join::hybrid_hash::EXTENT_SLACK_PART;
use crate::work::Work;

/// How a pass writes buckets.
#[derive(Clone, Copy, Debug)]
struct Cut {
    bucket_count: u64,
    input_pages: u64,
    output_pages: u64,
}

/// Grace hash with such a division of so much memory.
pub(in crate::cost) fn grace_hash(
    model: &CostModel<'_>,
    sides: [&Footprint; 2],
    memory_pages: u64,
    parts: &GraceHash,
) -> Estimate {
    let GraceHash { bucket_count, input_pages, output_pages, .. } = *parts;
    let cut = Cut { bucket_count, input_pages, output_pages };
    let mut tally = Tally::new(model, sides[0].page_bytes);
    tally.estimate = cut_and_join(model, sides, memory_pages, cut, 0);
    tally.spill_file();
    tally.estimate
}

/// Cuts both sides, then joins each pair of buckets.
fn cut_and_join(
    model: &CostModel<'_>,
    sides: [&Footprint; 2],
    memory_pages: u64,
    cut: Cut,
    depth: u32,
) -> Estimate {
    let mut estimate = Estimate::default();
    for side in sides {
        let mut tally = Tally::new(model, side.page_bytes);
        let reads = tally.scan(side, cut.input_pages);
        tally.work(Work::Scan, side.stored_tuples);
        tally.work(Work::Copy, side.tuple_count);
        let share = (1, cut.bucket_count);
        let output_pages = cut.output_pages;
        let writes = write_parts(model, side, share, (cut.bucket_count, output_pages), depth);
        tally.write_behind(writes);
        let restart = Restart::of(model, side, cut.input_pages, reads);
        tally.seek_in_turns(&restart, reads, writes.write_requests);
        tally.end_phase();
        estimate += tally.estimate;
    }
    estimate
        + sum_over_parts(sides, (1, cut.bucket_count), cut.bucket_count, depth, |pair| {
            let written = Written { count: cut.bucket_count, output_pages: cut.output_pages };
            join_pair(model, pair, written, memory_pages, depth)
        })
}

/// Writes so many parts of a share each, through buffers of `output_pages`. Without the seeks.
pub(super) fn write_parts(
    model: &CostModel<'_>,
    side: &Footprint,
    share: (u64, u64),
    (count, output_pages): (u64, u64),
    depth: u32,
) -> Estimate {
    let pages = sum_over_parts([side, side], share, count, depth, |[part, _]| Estimate {
        write_requests: part.stored_pages.div_ceil(block_pages(model, output_pages)),
        pages_written: part.stored_pages,
        ..Estimate::default()
    });
    let mut tally = Tally::new(model, side.page_bytes);
    let area_bytes = pages.pages_written.saturating_mul(side.page_bytes);
    let area_bytes = area_bytes.saturating_add(area_bytes / EXTENT_SLACK_PART);
    let streams = Streams { count, area_bytes };
    tally.write_streams(&streams, (pages.write_requests, pages.pages_written), output_pages);
    tally.estimate
}

/// Bytes of a hash table over all of a side.
fn needed(side: &Footprint) -> u64 {
    HashTable::bytes_of(side.tuple_count, side.spilled_bytes)
}

/// Joins one pair of buckets.
pub(super) fn join_pair(
    model: &CostModel<'_>,
    sides: [&Footprint; 2],
    written: Written,
    memory_pages: u64,
    depth: u32,
) -> Estimate {
    if sides.iter().any(|side| side.tuple_count == 0) {
        return Estimate::default();
    }
    let [build, probe] = match sides {
        [outer, inner] if needed(inner) < needed(outer) => [inner, outer],
        sides => sides,
    };
    let table_pages = needed(build).div_ceil(build.page_bytes);
    if table_pages < memory_pages {
        let mut tally = Tally::new(model, build.page_bytes);
        let buffer_pages = memory_pages - table_pages;
        read_spilled(&mut tally, build, written, buffer_pages);
        hash(&mut tally, build, &build.tables_by_key(needed(build)));
        read_spilled(&mut tally, probe, written, buffer_pages);
        probe_all(&mut tally, probe);
        tally.end_phase();
        return tally.estimate;
    }
    let is_much = table_pages > CHUNK_COUNT_MAX * (memory_pages - memory_pages / 8);
    if depth < LEVEL_MAX && is_much && memory_pages >= 3 {
        let bucket_count = bucket_count_of_cut(needed(build), memory_pages, build.page_bytes);
        let output_pages = (memory_pages / (bucket_count + 1)).max(1);
        let input_pages = memory_pages - output_pages * bucket_count;
        let cut = Cut { bucket_count, input_pages, output_pages };
        return cut_and_join(model, sides, memory_pages, cut, depth + 1);
    }
    join_in_chunks(model, [build, probe], written, memory_pages)
}

/// Joins a pair whose table does not fit: the other side is read for each part of it.
fn join_in_chunks(
    model: &CostModel<'_>,
    [build, probe]: [&Footprint; 2],
    written: Written,
    memory_pages: u64,
) -> Estimate {
    let input_pages = chunk_input_pages(memory_pages);
    let table_bytes = memory_pages.saturating_sub(2 * input_pages).max(1) * build.page_bytes;
    let rows = Segments::new(build, table_bytes).rows_in(table_bytes);
    let chunk_count = build.tuple_count.div_ceil(rows);
    let mut tally = Tally::new(model, build.page_bytes);
    read_spilled(&mut tally, build, written, input_pages);
    let block_pages = block_pages(model, input_pages);
    tally.restart(&spilled_restart(build, block_pages), chunk_count - 1);
    hash(&mut tally, build, &build.tables_in_turn(needed(build).min(table_bytes), rows));
    let mut scan = Tally::new(model, probe.page_bytes);
    read_spilled(&mut scan, probe, written, input_pages);
    tally.estimate += scan.estimate * chunk_count;
    let mut probed = *probe;
    probed.stored_tuples = probe.stored_tuples.saturating_mul(chunk_count);
    probed.tuple_count = probe.tuple_count.saturating_mul(chunk_count);
    probe_all(&mut tally, &probed);
    tally.end_phase();
    tally.estimate
}

/// Looks at rows that are read, and hashes them when all are there.
fn hash(tally: &mut Tally<'_>, build: &Footprint, tables: &HashTables) {
    tally.work(Work::Scan, build.stored_tuples);
    tally.end_phase();
    tally.build(tables);
    tally.begin_phase();
}
