//! Dies with a cache register: two commands in flight, one in the array and one in the register.
//!
//! 1. The register belongs to a program from its begin until the array takes its data, and to a read
//!    from when the array hands its data over until they are out.
//! 2. The array belongs to a read or erase from its begin, to a program from when it takes its data.
//! 3. Commands begin in the order of the queue: a program when the register is free and no read is in
//!    flight, which would come before it there; anything else when the array is free and no program is.
//! 4. A read that stopped the array passes what waits in the register.

use super::die::{Phase, Slot};
use super::{EventCore, Kind, NONE};

impl EventCore {
    /// Whether the register of a die holds data, or is about to.
    pub(super) fn holds_register(&self, die: usize) -> bool {
        let holds = |slot: &Slot| {
            matches!(
                slot.phase,
                Phase::Command | Phase::Transfer | Phase::TransferThenArray | Phase::AwaitsArray
            )
        };
        self.dies[die].slots.iter().any(holds)
    }

    fn holds_array(&self, die: usize) -> bool {
        let holds =
            |slot: &Slot| matches!(slot.phase, Phase::Array | Phase::AwaitsRegister | Phase::Pause);
        self.dies[die].slots.iter().any(holds)
    }

    /// The data of a program are in the register.
    pub(super) fn loaded(&mut self, die: usize, slot: usize) {
        self.rest(die, slot, Phase::AwaitsArray);
        self.go_on_cached(die);
    }

    /// First who waits for array or register takes it, then the next commands begin.
    pub(super) fn go_on_cached(&mut self, die: usize) {
        loop {
            let slots = self.dies[die].slots;
            let waits = |phase| slots.iter().position(|slot: &Slot| slot.phase == phase);
            if let Some(slot) = waits(Phase::AwaitsArray)
                && !self.holds_array(die)
                && self.dies[die].stopped.is_none()
            {
                let array_ns = u64::from(self.nodes.get(slots[slot].node).array_ns);
                self.dies[die].slots[slot].array_from = self.now;
                self.work(die, slot, Phase::Array, array_ns);
                self.try_to_stop(die);
                continue;
            }
            if let Some(slot) = waits(Phase::AwaitsRegister)
                && !self.holds_register(die)
            {
                self.ask_for_channel(die, slot);
                continue;
            }
            if !self.begin_next_cached(die) {
                return;
            }
        }
    }

    /// Begins the next command of the queue, if its turn has come.
    fn begin_next_cached(&mut self, die: usize) -> bool {
        let record = &self.dies[die];
        let Some(slot) = record.slots.iter().position(Slot::is_idle) else { return false };
        let is_urgent = !record.urgent.is_empty();
        let kinds = record.slots.iter().filter(|slot| !slot.is_idle());
        let kind_of = |slot: &Slot| self.nodes.get(slot.node).kind;
        let has_program = kinds.clone().any(|slot| kind_of(slot) == Kind::Program);
        let has_read =
            kinds.clone().any(|slot| matches!(kind_of(slot), Kind::Read | Kind::UrgentRead));
        if let Some(stopped) = record.stopped {
            let is_free = !self.holds_array(die);
            if !is_urgent {
                if is_free && !has_read {
                    self.dies[die].stopped = None;
                    self.resume(die, stopped);
                    return true;
                }
                return false;
            }
            if !is_free || has_read {
                return false;
            }
        } else {
            let head = self.dies[die].next_queue().head;
            if head == NONE {
                return false;
            }
            let may_begin = match self.nodes.get(head).kind {
                Kind::Program => !self.holds_register(die) && !has_read,
                _ => !self.holds_array(die) && !has_program,
            };
            if !may_begin {
                return false;
            }
        }
        let queue = self.dies[die].next_queue();
        let index = queue.head;
        queue.head = self.nodes.get(index).next;
        if queue.head == NONE {
            queue.tail = NONE;
        }
        self.begin(die, slot, index);
        true
    }
}
