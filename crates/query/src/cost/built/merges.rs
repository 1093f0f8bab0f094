//! Merges of runs as `sort::merge` makes them: the smallest runs first, of the side where that moves the
//! fewest bytes, and as few as make the later merges full.

use super::block_pages;
use super::sorted::Runs;
use crate::cost::{Estimate, Footprint, Streams, Tally, comparisons_among, scale_up};
use crate::work::Work;
use nandu_external::sort::MergePlan;

/// The runs of one side.
#[derive(Clone, Debug)]
pub(super) struct RunSet<'a> {
    pub(super) side: &'a Footprint,
    pub(super) runs: Runs,
}

impl RunSet<'_> {
    pub(super) fn run_count(&self) -> u64 {
        self.runs.values().sum()
    }

    /// The smallest runs, up to so many: how many of which bytes.
    fn smallest(&self, wanted: u64) -> Vec<(u64, u64)> {
        let mut left = wanted;
        let mut taken = Vec::new();
        for (&bytes, &count) in &self.runs {
            let here = count.min(left);
            if here == 0 {
                break;
            }
            taken.push((bytes, here));
            left -= here;
        }
        taken
    }

    fn take(&mut self, taken: &[(u64, u64)]) {
        for (bytes, count) in taken {
            let left = self.runs.get_mut(bytes).expect("it is there");
            *left -= count;
            if *left == 0 {
                self.runs.remove(bytes);
            }
        }
    }
}

/// Merges until all sets together have at most `limit` runs.
pub(super) fn reduce(tally: &mut Tally<'_>, sets: &mut [RunSet<'_>], limit: u64, pages: u64) {
    let plan = MergePlan { fan_in: pages.saturating_sub(1).max(2), last_fan_in: limit };
    loop {
        let count: u64 = sets.iter().map(RunSet::run_count).sum();
        let Some(wanted) = plan.next_merge(count) else { return };
        if count <= sets.len() as u64 {
            return;
        }
        let bytes_each = |set: &RunSet<'_>| {
            let taken = set.smallest(wanted);
            let runs: u64 = taken.iter().map(|(_, count)| count).sum();
            let bytes: u64 = taken.iter().map(|(bytes, count)| bytes.saturating_mul(*count)).sum();
            bytes / (runs - 1)
        };
        let set =
            sets.iter_mut().filter(|set| set.run_count() > 1).min_by_key(|set| bytes_each(set));
        let Some(set) = set else { return };
        merge_into_one(tally, set, wanted, pages);
    }
}

/// One merge that writes.
fn merge_into_one(tally: &mut Tally<'_>, set: &mut RunSet<'_>, wanted: u64, pages: u64) {
    let taken = set.smallest(wanted);
    set.take(&taken);
    let run_count: u64 = taken.iter().map(|(_, count)| count).sum();
    let bytes: u64 = taken.iter().map(|(bytes, count)| bytes.saturating_mul(*count)).sum();
    let each = (pages / (run_count + 1)).max(1);
    read_runs(tally, set.side, &taken, each * run_count, run_count);
    let written_pages = bytes.div_ceil(set.side.spill_page_bytes);
    let writes = written_pages.div_ceil(block_pages(tally.model, each));
    let streams = Streams { count: 1, area_bytes: set.side.spill_file_bytes };
    tally.write_streams(&streams, (writes, written_pages), each);
    tally.seek_of_writes(writes);
    let rows = scale_up(set.side.tuple_count, bytes, set.side.spilled_bytes);
    tally.work(Work::Compare, rows.saturating_mul(comparisons_among(run_count)));
    tally.work(Work::Copy, rows);
    tally.work(Work::Scan, rows);
    *set.runs.entry(bytes).or_insert(0) += 1;
}

/// The last merge of one side, in so many pages, of so many runs together with the other side's.
pub(super) fn merge_last(tally: &mut Tally<'_>, set: &RunSet<'_>, all_count: u64, pages: u64) {
    let taken: Vec<(u64, u64)> = set.runs.iter().map(|(bytes, count)| (*bytes, *count)).collect();
    read_runs(tally, set.side, &taken, pages, all_count);
    let rows = set.side.tuple_count;
    tally.work(Work::Compare, rows.saturating_mul(comparisons_among(set.run_count())));
    tally.work(Work::Scan, rows);
}

/// Writes runs through a buffer of so many pages. Answers the requests.
pub(super) fn write_runs(
    tally: &mut Tally<'_>,
    side: &Footprint,
    runs: &Runs,
    output_pages: u64,
) -> u64 {
    let block = block_pages(tally.model, output_pages);
    let mut written = Estimate::default();
    for (bytes, count) in runs {
        let pages = bytes.div_ceil(side.spill_page_bytes);
        written.write_requests += pages.div_ceil(block).saturating_mul(*count);
        written.pages_written += pages.saturating_mul(*count);
    }
    let streams = Streams { count: 1, area_bytes: side.spill_file_bytes };
    tally.write_streams(&streams, (written.write_requests, written.pages_written), output_pages);
    written.write_requests
}

/// Reads runs side by side, of so many together with others: a block for each, and one more that is read ahead.
fn read_runs(
    tally: &mut Tally<'_>,
    side: &Footprint,
    runs: &[(u64, u64)],
    pages: u64,
    all_count: u64,
) {
    let run_count: u64 = runs.iter().map(|(_, count)| count).sum();
    let block = if tally.model.reads_ahead && pages > run_count {
        pages / (run_count + 1)
    } else {
        pages.checked_div(run_count).unwrap_or(0)
    };
    let (mut requests, mut pages_read) = (0, 0);
    for (bytes, count) in runs {
        let pages = bytes.div_ceil(side.spill_page_bytes);
        requests += pages.div_ceil(block.max(1)).saturating_mul(*count);
        pages_read += pages.saturating_mul(*count);
    }
    let streams = Streams { count: all_count, area_bytes: side.spill_file_bytes };
    tally.read_streams(&streams, requests, pages_read);
}
