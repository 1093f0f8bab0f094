//! Filling a device at once: in order, or as a long run of uniform random writes leaves it.
//!
//! In the steady state of such writes a group that was closed a fraction `a` of a log cycle ago has
//! the live fraction exp(-(1 - c) * alpha * a), where c = exp(-(1 - c) * alpha) is that of a victim
//! and alpha physical over logical size (flash reference 2.1.4: exact for FIFO, close for greedy with
//! large erase blocks). So one pass over the physical space is enough: oldest groups first, each slot
//! either the last copy of a unit, in that proportion, or one of a unit that comes again later.
//!
//! 1. Afterwards every unit is mapped, and time and counts are as before. Wear is, too, unless
//!    checkpoints or bad erase blocks make the fill erase something.

use super::PageFtl;
use crate::settled::Settled;
use crate::{Ftl, FtlError, closed_form};
use nandu_base::{Lpn, Permutation, Rng};
use nandu_nand::{NandArray, Ticket};

impl PageFtl {
    /// Runs `fill` without time and without counts.
    pub(super) fn initialise(
        &mut self,
        nand: &mut NandArray,
        fill: impl FnOnce(&mut Self, &mut NandArray) -> Result<(), FtlError>,
    ) -> Result<(), FtlError> {
        if self.sequence > 0 || self.total_live > 0 {
            return Err(FtlError::NotFresh);
        }
        let accounting = nand.begin_preparation();
        let filled = fill(self, nand).and_then(|()| self.flush(nand, Ticket::READY));
        nand.end_preparation(accounting);
        filled?;
        self.superseded_by.fill(Ticket::READY);
        self.gathered = Settled::default();
        self.metadata.recorded = Settled::default();
        for die in &mut self.dies {
            die.last_erase = Ticket::READY;
            die.frontiers.iter_mut().for_each(|frontier| frontier.opened_after = Ticket::READY);
        }
        (self.host_write_units, self.padded_units) = (0, 0);
        Ok(())
    }

    /// One pass over the physical space, oldest groups first.
    pub(super) fn fill_as_after_random_writes(
        &mut self,
        nand: &mut NandArray,
        seed: u64,
    ) -> Result<(), FtlError> {
        let mut rng = Rng::for_part(seed, "steady state");
        let units = self.unit_count();
        let order = Permutation::new(units, rng.next_u64());
        let reserve = u64::from(self.config.reserve_count) + 1;
        let groups = self.free_groups().saturating_sub(reserve * self.dies.len() as u64);
        let slot_count = groups * self.slots.value();
        if slot_count <= units {
            return (0..units).try_for_each(|index| self.write_free(nand, order.apply(index)));
        }
        let alpha = slot_count as f64 / units as f64;
        let victim_live = 1.0 - 1.0 / closed_form::fifo_write_amplification(alpha);
        let decay = (1.0 - victim_live) * alpha;
        // Shares of a unit in parts of 2^32, added up slot by slot: a group holds what it should to one
        // unit, because a group that is emptier by chance would be a victim before its time.
        let (mut placed, mut owed) = (0, 0_u64);
        for slot in 0..slot_count {
            let age = 1.0 - (slot as f64 + 0.5) / slot_count as f64;
            owed += share_of_unit((-decay * age).exp());
            if placed == units {
                break;
            }
            if owed >= WHOLE_UNIT {
                owed -= WHOLE_UNIT;
                self.write_free(nand, order.apply(placed))?;
                placed += 1;
            } else {
                let later = placed + rng.below(units - placed);
                self.write_free(nand, order.apply(later))?;
            }
        }
        (placed..units).try_for_each(|index| self.write_free(nand, order.apply(index)))
    }

    fn write_free(&mut self, nand: &mut NandArray, lpn: u64) -> Result<(), FtlError> {
        self.write(nand, Ticket::READY, Lpn(lpn), None)?;
        Ok(())
    }
}

const WHOLE_UNIT: u64 = 1 << 32;

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 2^32")]
fn share_of_unit(share: f64) -> u64 {
    (share * WHOLE_UNIT as f64) as u64
}
