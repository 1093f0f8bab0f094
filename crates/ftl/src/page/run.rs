//! Runs: writes of one stream that fill consecutive rows of one frontier are programmed together, as
//! copies of a victim are. Only where that makes no difference to writing them one by one: a unit is a
//! row, nothing is copied behind it or waits for a partner, there is one die, one chip command follows the other, and nothing can fail in between.
//!
//! ```text
//!   frontier   │ programmed │ run: what the writes at hand fill │ erased │
//! ```
//!
//! 1. A run ends before the group is cleaned for, before a checkpoint is due, and before a unit that
//!    does not exist.

use super::{NO_GROUP, PageFtl, UNMAPPED};
use crate::FtlError;
use nandu_base::{Cause, Lpn, Nanos, Ppn, to_index, to_u32};
use nandu_nand::{NandArray, Payload, Ticket};

impl PageFtl {
    /// How many of the writes may be programmed together.
    pub(super) fn run_length(&self, nand: &NandArray, lpns: &[Lpn], stream: usize) -> usize {
        let is_paired = nand.config().rules.paired_pages;
        let is_simple = self.width == 1 && !is_paired && !self.is_paced;
        if !is_simple || self.dies.len() > 1 || !nand.takes_runs() {
            return 0;
        }
        let frontier = &self.dies[0].frontiers[stream];
        if frontier.group == NO_GROUP {
            return 0;
        }
        let rows = u64::from(self.rows - frontier.next_row);
        let before_checkpoint = self.metadata.checkpoint_at.saturating_sub(self.sequence + 1);
        let most = lpns.len().min(to_index(rows.min(before_checkpoint)));
        let unit_count = self.map.len() as u64;
        lpns[..most].iter().position(|lpn| lpn.0 >= unit_count).unwrap_or(most)
    }

    /// Writes a run of [`Self::run_length`]; answers when its last program is done.
    pub(super) fn append_run(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        stream: usize,
        lpns: &[Lpn],
        done: &mut Vec<Ticket>,
    ) -> Result<Ticket, FtlError> {
        let count = to_u32(lpns.len() as u64);
        let frontier = &mut self.dies[0].frontiers[stream];
        let group = frontier.group;
        let first = group * self.rows + frontier.next_row;
        let tags = &mut self.scratch.lpns;
        tags.clear();
        tags.extend(lpns.iter().map(|lpn| to_u32(lpn.0)));
        let payload = Payload { lpns: tags, sequence: self.sequence + 1, contents: &[] };
        let end = nand.program_rows(after, Ppn(first.into()), 1, payload, Cause::Host)?;
        frontier.next_row += count;
        let is_full = frontier.next_row == self.rows;
        if is_full {
            frontier.group = NO_GROUP;
        }
        let each = nand.program_ns();
        let start = end.time().0 - each.0 * u64::from(count);
        let ends = (1..=u64::from(count)).map(|number| Nanos(start + each.0 * number));
        done.extend(ends.map(Ticket::of_time));
        self.valid.set_range(first, first + count);
        self.add_valid(group, count);
        if self.gathers {
            self.gathered.add(nand, end);
        }
        self.host_write_units += u64::from(count);
        for (lpn, address) in lpns.iter().zip(first..) {
            self.sequence += 1;
            let old = std::mem::replace(&mut self.map[to_index(lpn.0)], address);
            if old != UNMAPPED {
                self.invalidate(old);
            }
        }
        if is_full {
            self.close(group);
        }
        Ok(end)
    }
}
