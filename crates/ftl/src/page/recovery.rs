//! Rebuilding the page map from the spare areas (flash reference 2.10, method A).
//!
//! 1. Of all copies of a unit the one with the highest sequence number wins, in one flash page the
//!    last slot.
//! 2. Torn flash pages are skipped; torn erase blocks are erased again.
//! 3. A second recovery finds the same map; sequence numbers go on above the highest seen.

use super::{Cause, FtlError, NandArray, NandError, Nanos, PageFtl, State, UNMAPPED};
use nandu_base::to_u32;
use nandu_nand::NO_LPN;

/// What the spare areas say of one group.
struct Scan {
    programmed_pages: u32,
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
                let block = self.first_block(nand, group);
                let erased =
                    nand.erase_planes(scan.done_at, block, self.planes, Cause::Recovery)?;
                done = done.max(erased);
            } else if scan.programmed_pages > 0 {
                touched.push((group, scan.programmed_pages));
            }
        }
        for lpn in 0..self.map.len() {
            let address = self.map[lpn];
            if address != UNMAPPED {
                let group = to_u32(self.slots.div_rem(u64::from(address)).0);
                self.set_valid(address, group);
            }
        }
        for (group, programmed_pages) in touched {
            self.adopt(group, programmed_pages);
        }
        for die in 0..self.dies.len() {
            let reserve = self.config.reserve_count as usize;
            done = done.max(self.clean(nand, done, die, reserve)?);
        }
        Ok(done)
    }

    /// A group that was open goes on as a frontier, cleaning first because it cannot wait for space;
    /// any other is closed.
    fn adopt(&mut self, group: u32, programmed_pages: u32) {
        let die = &mut self.dies[(group % self.die_count) as usize];
        die.free.retain(|&free| free != group);
        self.groups[group as usize].state = State::Open;
        let open = [&mut die.cleaning, &mut die.host]
            .into_iter()
            .find(|frontier| frontier.group == super::NO_GROUP);
        match open {
            Some(frontier) if programmed_pages < self.pages => {
                (frontier.group, frontier.next_page) = (group, programmed_pages);
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
        let mut scan = Scan { programmed_pages: 0, torn: false, done_at: now };
        for page in 0..self.pages {
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
            scan.programmed_pages = page + 1;
        }
        Ok(scan)
    }
}
