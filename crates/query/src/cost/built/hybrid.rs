//! Hybrid hash as `join::hybrid_hash` does it: the pieces that do not fit leave from the last one on, by the
//! same rule and with the same buffers.

use super::Written;
use super::buckets::{join_pair, write_parts};
use super::hashed::sum_over_parts;
use super::space::{DIRECTORY_BYTES, Segments};
use crate::allocation::HybridHash;
use crate::cost::join::probe_all;
use crate::cost::{CostModel, Estimate, Footprint, Restart, Tally, scale_up};
use crate::join::hybrid_hash::{BuiltSide, Layout, Settings};
use crate::tuple::Side;
use crate::work::Work;
use nandu_base::to_u32;

/// Millionths in one.
const MILLION: u64 = 1_000_000;

/// Pieces of one kind.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    /// The share of one of them.
    share: (u64, u64),
    output_pages: u64,
    /// How many are written.
    written_count: u64,
}

/// Hybrid hash with such a division of so much memory.
pub(in crate::cost) fn hybrid_hash(
    model: &CostModel<'_>,
    [outer, inner]: [&Footprint; 2],
    memory_pages: u64,
    parts: &HybridHash,
) -> Estimate {
    let built = BuiltSide { tuple_count: outer.tuple_count, cell_bytes: outer.spilled_bytes };
    let pages = to_u32(memory_pages.min(u64::from(u32::MAX)));
    let settings = Settings::of(parts, built, Side::Left, (pages, outer.page_bytes));
    let layout = settings.layout();
    let written = written_pieces(outer, &settings, &layout);
    let spilled_ppm: u64 = written
        .iter()
        .map(|pieces| scale_up(MILLION * pieces.written_count, pieces.share.0, pieces.share.1))
        .sum::<u64>()
        .min(MILLION);
    let resident = |side: &Footprint| {
        let leaving = scale_up(side.tuple_count, spilled_ppm, MILLION);
        Footprint { tuple_count: side.tuple_count.saturating_sub(leaving), ..*side }
    };
    let table_bytes = scale_up(outer.memory_bytes, MILLION - spilled_ppm, MILLION);
    let mut estimate = Estimate::default();
    for (side, is_built) in [(outer, true), (inner, false)] {
        let mut tally = Tally::new(model, side.page_bytes);
        let reads = tally.scan(side, u64::from(settings.input_pages));
        let mut writes = Estimate::default();
        for pieces in &written {
            let outputs = (pieces.written_count, pieces.output_pages);
            writes += write_parts(model, side, pieces.share, outputs, 0);
        }
        tally.write_behind(writes);
        let restart = Restart::of(model, side, u64::from(settings.input_pages), reads);
        tally.seek_in_turns(&restart, reads, writes.write_requests);
        // Rows that stay are copied, too, which is a part of hashing them.
        tally.work(Work::Copy, scale_up(side.tuple_count, spilled_ppm, MILLION));
        if is_built {
            tally.work(Work::Scan, side.stored_tuples);
            tally.end_phase();
            tally.build(&resident(side).tables_by_key(table_bytes));
        } else {
            probe_all(&mut tally, &resident(side));
            tally.end_phase();
        }
        estimate += tally.estimate;
    }
    let count = written.iter().map(|pieces| pieces.written_count).sum();
    for pieces in &written {
        estimate += sum_over_parts([outer, inner], pieces.share, pieces.written_count, 0, |pair| {
            let written = Written { count, output_pages: pieces.output_pages };
            join_pair(model, pair, written, memory_pages, 0)
        });
    }
    let mut whole = Tally::new(model, outer.page_bytes);
    whole.estimate = estimate;
    whole.spill_file();
    whole.estimate
}

/// The pieces that are written: buckets, then tiers.
fn written_pieces(outer: &Footprint, settings: &Settings, layout: &Layout) -> [Pieces; 2] {
    let (tier_count, bucket_count) = (u64::from(layout.tier_count), u64::from(layout.bucket_count));
    let resident_ppm = if bucket_count == 0 { MILLION } else { u64::from(settings.resident_ppm) };
    let tiers = (resident_ppm, MILLION * tier_count.max(1));
    let buckets = (MILLION - resident_ppm, MILLION * bucket_count.max(1));
    let bucket_pages = u64::from(layout.output_pages);
    let tier_pages = u64::from(layout.tier_output_pages);
    let rest_pages = u64::from(settings.pages - settings.input_pages);
    let segments = Segments::new(outer, layout.segment_store_bytes(outer.page_bytes));
    let fits = |buckets_left: u64, tiers_left: u64| {
        let rows = |count: u64, share: (u64, u64)| {
            let each = scale_up(outer.tuple_count, share.0, share.1);
            (count * segments.bytes(each), count * each)
        };
        let (bucket_bytes, bucket_rows) = rows(buckets_left, buckets);
        let (tier_bytes, tier_rows) = rows(tiers_left, tiers);
        let outputs =
            (bucket_count - buckets_left) * bucket_pages + (tier_count - tiers_left) * tier_pages;
        let next_pages = if buckets_left > 0 { bucket_pages } else { tier_pages };
        let used = bucket_bytes + tier_bytes + (bucket_rows + tier_rows) * DIRECTORY_BYTES;
        used + (outputs + next_pages) * outer.page_bytes <= rest_pages * outer.page_bytes
    };
    let (mut buckets_left, mut tiers_left) = (bucket_count, tier_count);
    while buckets_left + tiers_left > 0 && !fits(buckets_left, tiers_left) {
        match buckets_left {
            0 => tiers_left -= 1,
            _ => buckets_left -= 1,
        }
    }
    [
        Pieces {
            share: buckets,
            output_pages: bucket_pages,
            written_count: bucket_count - buckets_left,
        },
        Pieces { share: tiers, output_pages: tier_pages, written_count: tier_count - tiers_left },
    ]
}
