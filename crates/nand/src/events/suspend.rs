//! Reads that stop the array: suspension of programs and erases.
//!
//! ```text
//! program  ░░░░░░░┐ pause ┌ read ┐┌ read ┐░░░░░░░░░ what was left
//!                 └───────┘      └┘      └┘
//! ```
//!
//! 1. The array is stopped only where the read then begins before the command would have ended.
//! 2. The pause is paid at each stop, before the first read; to go on costs nothing more.
//! 3. What was stopped goes on when no read with priority waits on its die.

use super::die::{Phase, Slot, Stopped};
use super::{EventCore, Kind};

impl EventCore {
    /// Whether reads that wait may stop what their die does.
    #[inline]
    pub(super) fn may_stop(&self, die: usize) -> bool {
        self.scheduling.suspend.is_some() && !self.dies[die].urgent.is_empty()
    }

    /// Stops the array of a die for a read that waits, where that is worth the pause.
    pub(super) fn try_to_stop(&mut self, die: usize) {
        let Some(suspend) = self.scheduling.suspend else { return };
        let record = &self.dies[die];
        if record.urgent.is_empty() || record.stopped.is_some() {
            return;
        }
        let now = self.now;
        let works = |slot: &Slot| {
            let kind = (!slot.is_idle()).then(|| self.nodes.get(slot.node).kind);
            let is_array = match slot.phase {
                Phase::Array => true,
                // Without a cache register the array operation follows its transfer at once, so its
                // times are known and it can be interrupted before it has begun.
                Phase::TransferThenArray => !self.is_cached,
                _ => false,
            };
            is_array && matches!(kind, Some(Kind::Program | Kind::Erase))
        };
        let Some(slot) = record.slots.iter().position(works) else { return };
        let taken = record.slots[slot];
        let server = self.server(die, slot);
        if taken.phase == Phase::TransferThenArray && taken.array_from > now {
            // The array operation begins later than now; the die is looked at again at that time.
            return self.tree.set(server, taken.array_from);
        }
        let pause = match self.nodes.get(taken.node).kind {
            Kind::Erase => suspend.erase_ns.0,
            _ => suspend.program_ns.0,
        };
        if now + pause >= taken.until {
            return;
        }
        let left_ns = taken.until - now;
        self.dies[die].stopped = Some(Stopped { node: taken.node, left_ns });
        self.work(die, slot, Phase::Pause, pause);
    }

    /// The pause is over: the slot is for the reads.
    pub(super) fn stopped(&mut self, die: usize, slot: usize) {
        let server = self.server(die, slot);
        self.tree.set(server, super::NEVER);
        let taken = std::mem::replace(&mut self.dies[die].slots[slot], Slot::IDLE);
        self.leave(die, taken);
        self.go_on(die);
    }

    /// What was stopped goes on.
    pub(super) fn resume(&mut self, die: usize, stopped: Stopped) {
        let now = self.now;
        let record = &mut self.dies[die];
        if record.is_idle() {
            record.held_since = now;
        }
        let is_host = self.nodes.get(stopped.node).cause == nandu_base::Cause::Host as u8;
        let slot = usize::from(!record.slots[0].is_idle());
        record.slots[slot].node = stopped.node;
        record.slots[slot].array_from = now;
        (record.slots[slot].begun_at, record.slots[slot].is_foreign) = (now, !is_host);
        self.work(die, slot, Phase::Array, stopped.left_ns);
    }
}
