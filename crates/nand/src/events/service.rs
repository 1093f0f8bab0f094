//! How dies and channels serve: from the begin of a command through its phases to its end.
//!
//! ```text
//! queue ─▶ begin ─▶ [command] ─▶ array ─▶ ask for channel ─▶ transfer ─▶ end      a read
//!                   [command] ─▶ ask for channel ─▶ transfer ─▶ array ─▶ end      a program
//! ```
//!
//! 1. A phase that takes no time is over within the event that began it.

use super::EventCore;
use super::channel::{BusPolicy, Waiting};
use super::die::{Phase, SLOTS, Slot};
use super::node::{Kind, NONE, Progress};
use super::tree::NEVER;
use nandu_base::{Cause, FlashOperation};

impl EventCore {
    #[inline(always)]
    pub(super) fn server(&self, die: usize, slot: usize) -> usize {
        if self.is_cached { die * SLOTS + slot } else { die }
    }

    /// The die does what it can at this moment.
    #[inline(always)]
    pub(super) fn go_on(&mut self, die: usize) {
        if self.is_plain {
            return self.start_next_plain(die);
        }
        if self.is_cached {
            return self.go_on_cached(die);
        }
        if self.dies[die].slots[0].is_idle() {
            self.start_next(die);
        }
    }

    /// An idle die without a cache register begins its next command.
    #[inline(always)]
    pub(super) fn start_next(&mut self, die: usize) {
        let record = &mut self.dies[die];
        if record.urgent.is_empty()
            && let Some(stopped) = record.stopped.take()
        {
            return self.resume(die, stopped);
        }
        let queue = record.next_queue();
        if queue.is_empty() {
            return;
        }
        let index = queue.head;
        queue.head = self.nodes.get(index).next;
        if queue.head == NONE {
            queue.tail = NONE;
        }
        self.begin(die, 0, index);
    }

    /// A command takes a slot of its die.
    #[inline(always)]
    pub(super) fn begin(&mut self, die: usize, slot: usize, index: u32) {
        let now = self.now;
        let record = &mut self.dies[die];
        if record.is_idle() {
            record.held_since = now;
        }
        let node = self.nodes.get_mut(index);
        node.progress = Progress::Begun;
        if node.yields {
            self.yielding[node.group as usize] -= 1;
            record.put_off_ns -= node.work_ns();
        }
        let is_host = node.cause == Cause::Host as u8;
        let is_program = node.kind == Kind::Program;
        if is_host {
            let waits = &mut self.waits[usize::from(is_program)];
            let waited = now - node.since;
            let foreign = (record.foreign_until(now) - node.foreign_ns).min(waited);
            waits.command_count += 1;
            waits.cleaning.0 += foreign;
            waits.die.0 += waited - foreign;
        }
        let mut array_ns = u64::from(node.array_ns);
        if node.register_page != 0 {
            if record.register_page == node.register_page {
                self.backlog_ns[die] -= array_ns;
                array_ns = 0;
                node.array_ns = 0;
            } else {
                let cause = Cause::ALL[usize::from(node.cause)];
                self.counters.add(FlashOperation::Read, cause, u64::from(node.planes));
            }
        }
        record.register_page = node.register_page;
        let command_ns = u64::from(node.command_ns);
        let transfer_ns = u64::from(node.transfer_ns);
        self.busy_ns += command_ns + array_ns + transfer_ns;
        if is_host {
            let waits = &mut self.waits[usize::from(is_program)];
            waits.array.0 += command_ns + array_ns;
            waits.transfer.0 += transfer_ns;
        }
        let taken = &mut record.slots[slot];
        taken.node = index;
        (taken.begun_at, taken.is_foreign) = (now, !is_host);
        if !is_program {
            taken.array_from = now;
            return self.work(die, slot, Phase::Array, command_ns + array_ns);
        }
        if command_ns > 0 {
            return self.work(die, slot, Phase::Command, command_ns);
        }
        self.ask_for_channel(die, slot);
    }

    /// A phase of known length begins; one without length is over at once.
    #[inline(always)]
    pub(super) fn work(&mut self, die: usize, slot: usize, phase: Phase, length: u64) {
        let until = self.now + length;
        let taken = &mut self.dies[die].slots[slot];
        (taken.phase, taken.until) = (phase, until);
        if length == 0 {
            return self.slot_event(die, slot);
        }
        let server = self.server(die, slot);
        self.tree.set(server, until);
    }

    /// The phase of a slot is over.
    pub(super) fn slot_event(&mut self, die: usize, slot: usize) {
        let taken = self.dies[die].slots[slot];
        match taken.phase {
            Phase::Command => self.ask_for_channel(die, slot),
            Phase::Transfer => self.end(die, slot),
            Phase::TransferThenArray if self.is_cached => self.loaded(die, slot),
            Phase::TransferThenArray if taken.until > self.now => {
                // Somebody waits for the array to begin, so that it can be stopped.
                self.work(die, slot, Phase::Array, taken.until - self.now);
                self.try_to_stop(die);
            }
            Phase::TransferThenArray => self.end(die, slot),
            Phase::Array => match self.nodes.get(taken.node).kind {
                Kind::Read | Kind::UrgentRead => self.sensed(die, slot),
                _ => self.end(die, slot),
            },
            Phase::Pause => self.stopped(die, slot),
            Phase::Idle | Phase::AwaitsArray | Phase::AwaitsRegister => {
                unreachable!("a phase without a length has no event")
            }
        }
    }

    /// The data of a read are out of the array.
    #[inline(always)]
    pub(super) fn sensed(&mut self, die: usize, slot: usize) {
        if self.nodes.get(self.dies[die].slots[slot].node).transfer_ns == 0 {
            return self.end(die, slot);
        }
        let passes = self.dies[die].stopped.is_some();
        if self.is_cached && self.holds_register(die) && !passes {
            self.rest(die, slot, Phase::AwaitsRegister);
        } else {
            self.ask_for_channel(die, slot);
            if self.is_cached {
                self.go_on(die);
            }
        }
    }

    /// The slot has no event of its own until something else happens.
    pub(super) fn rest(&mut self, die: usize, slot: usize, phase: Phase) {
        self.dies[die].slots[slot].phase = phase;
        let server = self.server(die, slot);
        self.tree.set(server, NEVER);
    }

    /// A transfer is ready: at once, or when the channel chooses it.
    #[inline(always)]
    pub(super) fn ask_for_channel(&mut self, die: usize, slot: usize) {
        let now = self.now;
        let node = self.nodes.get_mut(self.dies[die].slots[slot].node);
        let length = u64::from(node.transfer_ns);
        let is_read = node.kind != Kind::Program;
        node.since = now;
        let phase = if is_read { Phase::Transfer } else { Phase::TransferThenArray };
        self.dies[die].slots[slot].phase = phase;
        if length == 0 {
            return self.transfer(die, slot, now);
        }
        let channel = &mut self.channels[self.dies[die].channel];
        if self.scheduling.bus == BusPolicy::InOrder {
            let start = channel.reserve(now, length);
            return self.transfer(die, slot, start);
        }
        if channel.is_taken {
            channel.waiting.push(Waiting { die, is_read, length });
            let taken = &mut self.dies[die].slots[slot];
            (taken.array_from, taken.until) = (NEVER, NEVER);
            return self.rest(die, slot, phase);
        }
        self.grant(die, slot, length);
    }

    /// The channel, which is free, is given to a transfer.
    pub(super) fn grant(&mut self, die: usize, slot: usize, length: u64) {
        let number = self.dies[die].channel;
        let channel_count = self.channels.len();
        let channel = &mut self.channels[number];
        channel.is_taken = true;
        channel.note_served(die, channel_count);
        let start = channel.reserve(self.now, length);
        let slots = if self.is_cached { SLOTS } else { 1 };
        self.tree.set(self.dies.len() * slots + number, start + length);
        self.transfer(die, slot, start);
    }

    /// A channel has moved what it had, and chooses.
    pub(super) fn channel_event(&mut self, number: usize) {
        let slots = if self.is_cached { SLOTS } else { 1 };
        self.tree.set(self.dies.len() * slots + number, NEVER);
        let channel_count = self.channels.len();
        let channel = &mut self.channels[number];
        channel.is_taken = false;
        if let Some(next) = channel.choose(self.scheduling.bus, channel_count) {
            let phase = if next.is_read { Phase::Transfer } else { Phase::TransferThenArray };
            let waits = |slot: &Slot| slot.phase == phase;
            let slot = self.dies[next.die].slots.iter().position(waits);
            self.grant(next.die, slot.expect("who waits for the channel has a slot"), next.length);
        }
    }

    /// A transfer begins at `start`, which may lie ahead where the channel serves in order.
    #[inline(always)]
    pub(super) fn transfer(&mut self, die: usize, slot: usize, start: u64) {
        let node = self.nodes.get(self.dies[die].slots[slot].node);
        if node.cause == Cause::Host as u8 {
            let waits = &mut self.waits[usize::from(node.kind == Kind::Program)];
            waits.channel.0 += start - node.since;
        }
        let loaded = start + u64::from(node.transfer_ns);
        let array_ns = u64::from(node.array_ns);
        let is_program = node.kind == Kind::Program;
        let taken = &mut self.dies[die].slots[slot];
        let mut event_at = loaded;
        taken.until = loaded;
        if is_program && !self.is_cached {
            (taken.array_from, taken.until) = (loaded, loaded + array_ns);
            event_at = taken.until;
            if self.may_stop(die) {
                event_at = loaded;
            }
        }
        if event_at == self.now {
            return self.slot_event(die, slot);
        }
        let server = self.server(die, slot);
        self.tree.set(server, event_at);
    }

    /// A command is over: its slot is free, and what follows is carried out by [`Self::settle`].
    #[inline(always)]
    pub(super) fn end(&mut self, die: usize, slot: usize) {
        if self.is_cached {
            let server = self.server(die, slot);
            self.tree.set(server, NEVER);
        }
        let record = &mut self.dies[die];
        let taken = std::mem::replace(&mut record.slots[slot], Slot::IDLE);
        let index = taken.node;
        let node = self.nodes.get(index);
        self.backlog_ns[die] -= node.work_ns();
        if node.kind == Kind::Program && !self.open_programs.is_empty() {
            self.open_programs[node.group as usize] -= 1;
        }
        if self.is_cached && slot == 0 && !record.slots[1].is_idle() {
            // The older command has the first slot.
            record.slots.swap(0, 1);
            let server = self.server(die, 0);
            let time = self.tree.time_of(server + 1);
            self.tree.set(server, time);
            self.tree.set(server + 1, NEVER);
        }
        self.leave(die, taken);
        self.ended.push(index);
    }

    /// Books that a slot became free.
    #[inline(always)]
    pub(super) fn leave(&mut self, die: usize, taken: Slot) {
        let now = self.now;
        let record = &mut self.dies[die];
        if taken.is_foreign {
            record.foreign_ns += now - taken.begun_at;
        }
        if record.is_idle() {
            record.held_ns += now - record.held_since;
        }
    }
}
