//! A sort, as one step of what is predicted: its runs are written beside whatever gives records, and
//! its last merge is read beside whatever takes them.

use super::flow::{Pen, Reading, Writing, merge_of};
use crate::cost::Work;
use crate::sort::{Division, RecordSize};
use crate::{ExternalError, Record};
use nandu_base::{Rng, to_index};

/// A sort of more runs is not predicted: each takes some memory, here and in the sort.
pub(super) const RUN_COUNT_MAX: u64 = 1 << 24;

/// A sort whose records come in.
pub(super) struct Sort {
    division: Division,
    count: u64,
    /// Records of each run, and where it lies; none where all are sorted in memory.
    runs: Vec<(u64, Writing)>,
}

impl Sort {
    /// Of so many records, in so many bytes of memory; and the blocks of its runs, which are written
    /// as records come.
    pub(super) fn begin<R: Record>(
        pen: &mut Pen<'_>,
        count: u64,
        bytes: u64,
    ) -> Result<(Self, Writing), ExternalError> {
        Self::begin_of(pen, RecordSize::of::<R>(), count, bytes)
    }

    /// The same of records of which the size is known only now.
    pub(super) fn begin_of(
        pen: &mut Pen<'_>,
        size: RecordSize,
        count: u64,
        bytes: u64,
    ) -> Result<(Self, Writing), ExternalError> {
        let division = Division::of(pen.store(), size, bytes)?;
        if division.run_count(count) > RUN_COUNT_MAX {
            let what = format!(
                "{count} records are sorted by way of {} runs, of which no more than {RUN_COUNT_MAX} \
                 are predicted; give more memory",
                division.run_count(count)
            );
            return Err(ExternalError::Invalid { what });
        }
        let first = pen.row(0);
        let place = |records: u64| (records, pen.row(division.blocks(records)));
        let runs: Vec<(u64, Writing)> = division.runs(count).into_iter().map(place).collect();
        let all = runs.last().map_or(first, |(_, last)| first.up_to(last));
        let all = all.in_bursts_of(division.blocks_at_once());
        Ok((Self { division, count, runs }, all))
    }

    /// What the processor does when records come in.
    pub(super) fn put_in(&self) -> Work {
        Work { put_in_count: self.count, ..Work::default() }
    }

    /// How many runs the last merge takes, and what the processor does before it.
    fn merges(&self) -> (u64, Work) {
        let records = self.runs.iter().map(|&(records, _)| records);
        let (mut run_count, mut work) = (self.runs.len() as u64, Work::default());
        for merge in self.division.plan(records) {
            let its_count = merge.sources.len() as u64;
            work = work.and(Work::merged(merge.records, its_count));
            run_count -= its_count - 1;
        }
        (run_count, work)
    }

    /// Merges runs in between, in a phase of their own; what the last merge reads, and what the
    /// processor does for that.
    pub(super) fn finish(
        self,
        pen: &mut Pen<'_>,
        rng: &mut Rng,
    ) -> Result<(Reading, Work), ExternalError> {
        let (run_count, between) = self.merges();
        let Self { division, count, runs } = self;
        let mut merges = division.plan(runs.iter().map(|&(records, _)| records));
        let mut rows: Vec<Writing> = runs.into_iter().map(|(_, row)| row).collect();
        let of_numbers = |rows: &[Writing], numbers: Vec<u64>| {
            merge_of(numbers.into_iter().map(|number| rows[to_index(number)]).collect())
        };
        for merge in merges.by_ref() {
            let sources = of_numbers(&rows, merge.sources);
            let merged = pen.row(division.blocks(merge.records));
            pen.flow(&mut [sources], vec![merged], rng)?;
            rows.push(merged);
        }
        if between != Work::default() {
            pen.end_phase(between);
        }
        Ok((of_numbers(&rows, merges.into_left()), Work::merged(count, run_count)))
    }
}
