//! Rebuilding the page map from the spare areas (flash reference 2.10, method A).
//!
//! 1. Of all copies of a unit the one with the highest sequence number wins, in one flash page the
//!    last slot.
//! 2. Torn flash pages are skipped; torn erase blocks are erased again.
//! 3. A second recovery finds the same map; sequence numbers go on above the highest seen.

use super::{Cause, FtlError, NandArray, Nanos, PageFtl, State, UNMAPPED};
use nandu_base::to_u32;
use nandu_nand::{NO_LPN, NandError};

/// What the spare areas say of one group.
struct Scan {
    programmed_rows: u32,
    torn: bool,
    done_at: Nanos,
}

impl PageFtl {
    pub(super) fn rebuild(&mut self, nand: &mut NandArray, now: Nanos) -> Result<Nanos, FtlError> {
        self.reset(nand);
        let mut newest = vec![0_u64; self.map.len()];
        let mut done = now;
        let mut touched = Vec::new();
        for group in 0..to_u32(self.groups.len() as u64) {
            if self.groups[group as usize].state == State::Bad {
                continue;
            }
            let scan = self.scan(nand, now, group, &mut newest)?;
            done = done.max(scan.done_at);
            if scan.torn {
                done = done.max(self.erase_again(nand, scan.done_at, group)?);
            } else if scan.programmed_rows > 0 {
                touched.push((group, scan.programmed_rows));
            }
        }
        for lpn in 0..self.map.len() {
            let address = self.map[lpn];
            if address != UNMAPPED {
                let group = self.group_of(address);
                let die = self.die_of(group);
                self.valid.set(address);
                self.groups[group as usize].valid += 1;
                self.dies[die].live += 1;
                self.total_live += 1;
            }
        }
        for (group, programmed_rows) in touched {
            self.adopt(group, programmed_rows);
        }
        for die in 0..self.dies.len() {
            done = done.max(self.restore_reserve(nand, done, die)?);
        }
        Ok(done)
    }

    /// The erase that was cut short counts: the group may have worn out with it.
    fn erase_again(
        &mut self,
        nand: &mut NandArray,
        now: Nanos,
        group: u32,
    ) -> Result<Nanos, FtlError> {
        let block = self.first_block(nand, group);
        match nand.erase_planes(now, block, self.planes, Cause::Recovery) {
            Err(NandError::WornOut { .. }) => {
                let die = self.die_of(group);
                self.dies[die].free.remove(group);
                self.groups[group as usize].state = State::Bad;
                Ok(now)
            }
            other => Ok(other?),
        }
    }

    /// A group that was open goes on as a frontier, cleaning first because it cannot wait for space;
    /// any other is closed. Which stream it belonged to is not on flash: it is counted to the first.
    fn adopt(&mut self, group: u32, programmed_rows: u32) {
        let die = self.die_of(group);
        let die = &mut self.dies[die];
        die.free.remove(group);
        die.held[0] += 1;
        self.groups[group as usize].state = State::Open;
        let open =
            die.frontiers.iter_mut().rev().find(|frontier| frontier.group == super::NO_GROUP);
        match open {
            Some(frontier) if programmed_rows < self.rows => {
                (frontier.group, frontier.next_row) = (group, programmed_rows);
            }
            _ => self.close(group),
        }
    }

    fn scan(
        &mut self,
        nand: &mut NandArray,
        now: Nanos,
        group: u32,
        newest: &mut [u64],
    ) -> Result<Scan, FtlError> {
        let base = group * to_u32(self.slots.value());
        let mut scan = Scan { programmed_rows: 0, torn: false, done_at: now };
        for page in 0..self.rows {
            let mut erased_planes = 0;
            for plane in 0..self.planes {
                let first = base + page * self.width + plane * self.units_per_page;
                let (ppn, _) = self.place(nand, first);
                match nand.spare_read(now, ppn, Cause::Recovery) {
                    Ok(done_at) => scan.done_at = scan.done_at.max(done_at),
                    Err(NandError::Torn { .. }) => continue,
                    Err(NandError::TornEraseBlock { .. }) => {
                        return Ok(Scan { torn: true, ..scan });
                    }
                    Err(error) => return Err(error.into()),
                }
                let Some(spare) = nand.spare(ppn) else {
                    erased_planes += 1;
                    continue;
                };
                self.sequence = self.sequence.max(spare.sequence);
                for (address, &lpn) in (first..).zip(spare.lpns) {
                    if lpn != NO_LPN && spare.sequence >= newest[lpn as usize] {
                        newest[lpn as usize] = spare.sequence;
                        self.map[lpn as usize] = address;
                    }
                }
            }
            if erased_planes == self.planes {
                break;
            }
            scan.programmed_rows = page + 1;
        }
        Ok(scan)
    }
}
