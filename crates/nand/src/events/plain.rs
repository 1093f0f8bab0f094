//! The commonest dies, on which every simulated second of uniform writes is spent: one command at a time,
//! nobody goes before others, and the channel serves in order. What they do is that of `service.rs`, in
//! one piece.
//!
//! ```text
//! read     [command+array]E[ wait ][transfer]E          E: an event
//! program  [command]E[ wait ][transfer][array]E         without command cycles one event
//! run      [command+array]E[ wait ][transfer][command+array]E[ wait ][transfer]E
//! ```
//!
//! 1. Between two reads of a run there is no event: the second begins when the data of the first are
//!    out, and when that is is known as soon as they have the channel.

use super::EventCore;
use super::die::Phase;
use super::node::{Kind, NONE, Progress};
use nandu_base::{Cause, FlashOperation};

impl EventCore {
    /// The phase of a die's command is over.
    #[inline(always)]
    pub(super) fn plain_event(&mut self, die: usize) {
        let now = self.now;
        let record = &mut self.dies[die];
        let slot = &mut record.slots[0];
        let node = self.nodes.get_mut(slot.node);
        let transfer_ns = u64::from(node.transfer_ns);
        match slot.phase {
            Phase::Command => self.load_plain(die),
            Phase::Array if node.kind == Kind::Read && transfer_ns > 0 => {
                let start = self.channels[record.channel].reserve(now, transfer_ns);
                let mut until = start + transfer_ns;
                if !slot.is_foreign {
                    self.waits[0].channel.0 += start - now;
                }
                if node.left > 1 {
                    node.left -= 1;
                    let sense_ns = u64::from(node.command_ns) + u64::from(node.array_ns);
                    self.backlog_ns[die] -= sense_ns + transfer_ns;
                    self.busy_ns += sense_ns + transfer_ns;
                    until += sense_ns;
                } else {
                    slot.phase = Phase::Transfer;
                }
                self.tree.set(die, until);
            }
            _ => self.end_plain(die),
        }
    }

    /// An idle die begins its next command.
    #[inline(always)]
    pub(super) fn start_next_plain(&mut self, die: usize) {
        let now = self.now;
        let record = &mut self.dies[die];
        let slot = &mut record.slots[0];
        let queue = if record.queue.is_empty() { &mut record.yielding } else { &mut record.queue };
        if !slot.is_idle() || queue.is_empty() {
            return;
        }
        let index = queue.head;
        let node = self.nodes.get_mut(index);
        queue.head = node.next;
        if node.next == NONE {
            queue.tail = NONE;
        }
        if node.yields {
            self.yielding[node.group as usize] -= 1;
            record.put_off_ns -= node.work_ns();
        }
        record.held_since = now;
        node.progress = Progress::Begun;
        let is_host = node.cause == Cause::Host as u8;
        slot.node = index;
        slot.is_foreign = !is_host;
        if is_host {
            let waits = &mut self.waits[usize::from(node.kind == Kind::Program)];
            let waited = now - node.since;
            let foreign = (record.foreign_ns - node.foreign_ns).min(waited);
            waits.command_count += 1;
            waits.cleaning.0 += foreign;
            waits.die.0 += waited - foreign;
        }
        slot.begun_at = now;
        if node.register_page != 0 {
            if record.register_page == node.register_page {
                self.backlog_ns[die] -= u64::from(node.array_ns);
                node.array_ns = 0;
            } else {
                let cause = Cause::ALL[usize::from(node.cause)];
                self.counters.add(FlashOperation::Read, cause, u64::from(node.planes));
            }
        }
        record.register_page = node.register_page;
        if is_host {
            let waits = &mut self.waits[usize::from(node.kind == Kind::Program)];
            waits.array.0 += u64::from(node.command_ns) + u64::from(node.array_ns);
            waits.transfer.0 += u64::from(node.transfer_ns);
        }
        self.serve_plain(die);
    }

    /// The command that has the die begins its first phase.
    #[inline(always)]
    fn serve_plain(&mut self, die: usize) {
        let slot = &mut self.dies[die].slots[0];
        let node = self.nodes.get(slot.node);
        let command_ns = u64::from(node.command_ns);
        let array_ns = u64::from(node.array_ns);
        self.busy_ns += command_ns + array_ns + u64::from(node.transfer_ns);
        let (phase, length) = match node.kind {
            Kind::Program => (Phase::Command, command_ns),
            _ => (Phase::Array, command_ns + array_ns),
        };
        slot.phase = phase;
        if length > 0 {
            self.tree.set(die, self.now + length);
        } else if phase == Phase::Command {
            self.load_plain(die);
        } else {
            self.plain_event(die);
        }
    }

    /// A program takes the channel, and the array behind it.
    #[inline(always)]
    fn load_plain(&mut self, die: usize) {
        let now = self.now;
        let record = &mut self.dies[die];
        let slot = &mut record.slots[0];
        let node = self.nodes.get(slot.node);
        let transfer_ns = u64::from(node.transfer_ns);
        let mut start = now;
        if transfer_ns > 0 {
            start = self.channels[record.channel].reserve(now, transfer_ns);
            if !slot.is_foreign {
                self.waits[1].channel.0 += start - now;
            }
        }
        slot.phase = Phase::TransferThenArray;
        let until = start + transfer_ns + u64::from(node.array_ns);
        if until == now {
            return self.end_plain(die);
        }
        self.tree.set(die, until);
    }

    /// A command is over: the next of its run begins, or what follows is carried out by `settle`.
    #[inline(always)]
    fn end_plain(&mut self, die: usize) {
        let record = &mut self.dies[die];
        let slot = &mut record.slots[0];
        let index = slot.node;
        let node = self.nodes.get_mut(index);
        self.backlog_ns[die] -= node.work_ns();
        if node.left > 1 {
            node.left -= 1;
            return self.serve_plain(die);
        }
        let now = self.now;
        if slot.is_foreign {
            record.foreign_ns += now - slot.begun_at;
            slot.is_foreign = false;
        }
        slot.node = NONE;
        record.held_ns += now - record.held_since;
        self.ended.push(index);
    }
}
