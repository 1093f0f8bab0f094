//! Streams of blocks side by side, request after request.
//!
//! ```text
//!   read     ──a────b────a────b────a────b──►      each stream goes at the pace that has it end with
//!   written  ────────A─────────────────A───►      the others; what is written comes when it is full
//! ```
//!
//! Runs of a sort in one piece of memory are written whole, one after the other.

use super::Requests;
use crate::cost::{Access, Work};
use crate::{ExternalError, Record, Store};
use nandu_base::Rng;

/// Whoever notes requests of a store.
pub(super) struct Pen<'r> {
    requests: &'r mut dyn Requests,
    store: Store,
    block_bytes: u32,
    volume_count: u64,
    /// Where the next vector will lie.
    next_block: u64,
}

/// A row of blocks, of which the first ones were read or written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writing {
    next: u64,
    end: u64,
    /// How many of them are written at once.
    burst: u64,
}

/// What is read.
#[derive(Clone, Debug)]
pub(super) enum Reading {
    /// Blocks in order.
    Scan(Writing),
    /// Runs, of which a block is asked for by chance, in proportion to what is left of each; how much
    /// that is of all.
    Merge(Vec<Writing>, u64),
    /// Blocks of a row in ascending order, not all of them: each with a probability. How many that
    /// are, about, and how many are on their way at once.
    Some { row: Writing, probability: f64, left: u64, at_once: u32 },
}

impl Writing {
    const fn left(&self) -> u64 {
        self.end - self.next
    }

    /// How many blocks it has.
    pub(super) const fn block_count(&self) -> u64 {
        self.left()
    }

    /// From its beginning to the end of a later one.
    pub(super) const fn up_to(self, last: &Self) -> Self {
        Self { end: last.end, ..self }
    }

    /// The same, so many of which are written at once; one at least.
    pub(super) const fn in_bursts_of(self, burst: u64) -> Self {
        Self { burst, ..self }
    }

    /// The same, when it was written.
    pub(super) const fn read(self) -> Reading {
        Reading::Scan(self)
    }

    /// Some of its blocks, `count` about, no more than so many on their way at once.
    pub(super) fn read_some(self, count: f64, at_once: u32) -> Reading {
        let blocks = self.left() as f64;
        let probability = if blocks > 0.0 { (count / blocks).min(1.0) } else { 1.0 };
        if probability > 0.999 {
            return self.read();
        }
        let left = rounded(count);
        let at_once = at_once.min(u32::try_from(left).unwrap_or(u32::MAX)).max(1);
        Reading::Some { row: self, probability, left, at_once }
    }
}

impl Reading {
    fn left(&self) -> u64 {
        match self {
            Self::Scan(row) => row.left(),
            Self::Merge(_, left) | Self::Some { left, .. } => *left,
        }
    }

    /// The next block, where some are left, and how many are on their way with it.
    fn next(&mut self, rng: &mut Rng) -> (u64, u32) {
        match self {
            Self::Scan(row) => {
                row.next += 1;
                (row.next - 1, 1)
            }
            Self::Merge(runs, left) => {
                let mut chosen = rng.below(*left);
                *left -= 1;
                for run in runs {
                    if chosen < run.left() {
                        run.next += 1;
                        return (run.next - 1, 1);
                    }
                    chosen -= run.left();
                }
                unreachable!("what is left of a merge is left of its runs")
            }
            Self::Some { row, probability, left, at_once } => {
                *left -= 1;
                // No more are passed over than leave enough.
                let most = row.left().saturating_sub(*left + 1);
                let block = row.next + passed_over(*probability, rng).min(most);
                row.next = (block + 1).min(row.end);
                (block, *at_once)
            }
        }
    }
}

/// How many fail before one succeeds, by chance.
fn passed_over(probability: f64, rng: &mut Rng) -> u64 {
    // A number above 0 and up to 1.
    let chance = ((rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    rounded((chance.ln() / (1.0 - probability).ln()).floor())
}

/// The nearest whole number, of one that is not negative.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast ends at the ends of the range, and counts of blocks lie far within"
)]
pub(super) fn rounded(value: f64) -> u64 {
    value.round() as u64
}

/// A stream of a flow: how much there is of it, and how much is done.
#[derive(Clone, Copy)]
struct Pace {
    all: u64,
    done: u64,
    /// Writes of so many at once come behind what the last of them takes; a read, which has 0 here, comes
    /// before what it brings.
    burst: u64,
}

impl Pace {
    /// When the next one comes, as a fraction of the flow.
    fn due(self) -> (u128, u128) {
        let due = match self.done.checked_div(self.burst) {
            None => self.done,
            Some(bursts) => (bursts + 1).saturating_mul(self.burst).min(self.all),
        };
        (due.into(), self.all.into())
    }
}

impl<'r> Pen<'r> {
    pub(super) fn new(store: &Store, requests: &'r mut dyn Requests) -> Self {
        Self {
            requests,
            store: store.clone(),
            block_bytes: store.settings().block_bytes,
            volume_count: store.volume_count(),
            next_block: 0,
        }
    }

    /// The store of which requests are noted.
    pub(super) const fn store(&self) -> &Store {
        &self.store
    }

    /// The place of a vector.
    pub(super) fn vector<R: Record>(&mut self, count: u64) -> Result<Writing, ExternalError> {
        Ok(self.row(count.div_ceil(self.store.per_block::<R>()?)))
    }

    /// The place of so many blocks.
    pub(super) const fn row(&mut self, blocks: u64) -> Writing {
        let next = self.next_block;
        self.next_block = next.saturating_add(blocks);
        Writing { next, end: self.next_block, burst: 1 }
    }

    /// A request, one of so many that are on their way.
    pub(super) fn note(
        &mut self,
        is_write: bool,
        block: u64,
        at_once: u32,
    ) -> Result<(), ExternalError> {
        self.store.check_stop()?;
        let volume = u32::try_from(block % self.volume_count).expect("volumes are few");
        let offset_bytes = (block / self.volume_count).saturating_mul(u64::from(self.block_bytes));
        let access = Access { is_write, volume, offset_bytes, byte_count: self.block_bytes };
        self.requests.note_of(&access, at_once);
        Ok(())
    }

    /// A phase ends in which the processor did this.
    pub(super) fn end_phase(&mut self, work: Work) {
        self.requests.end_phase(work);
    }

    /// All of what is read and written side by side; what was written is read later, by its copy.
    pub(super) fn flow(
        &mut self,
        readings: &mut [Reading],
        mut writings: Vec<Writing>,
        rng: &mut Rng,
    ) -> Result<(), ExternalError> {
        let read = readings.iter().map(|it| Pace { all: it.left(), done: 0, burst: 0 });
        let written = writings.iter().map(|it| Pace { all: it.left(), done: 0, burst: it.burst });
        let mut paces: Vec<Pace> = read.chain(written).collect();
        loop {
            let waiting = paces.iter_mut().enumerate().filter(|(_, pace)| pace.done < pace.all);
            // The earliest; of several at once the first that was named.
            let next = waiting.min_by(|(_, left), (_, right)| {
                let ((done, all), (other_done, other_all)) = (left.due(), right.due());
                (done * other_all).cmp(&(other_done * all))
            });
            let Some((index, pace)) = next else { return Ok(()) };
            pace.done += 1;
            match index.checked_sub(readings.len()) {
                None => {
                    let (block, at_once) = readings[index].next(rng);
                    self.note(false, block, at_once)?;
                }
                Some(index) => {
                    let row = &mut writings[index];
                    row.next += 1;
                    self.note(true, row.next - 1, 1)?;
                }
            }
        }
    }
}

/// Runs that are merged.
pub(super) fn merge_of(runs: Vec<Writing>) -> Reading {
    let left = runs.iter().map(Writing::left).sum();
    Reading::Merge(runs, left)
}
