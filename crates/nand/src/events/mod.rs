//! The discrete-event core of a chip array: when commands begin and end, with every die and channel at
//! work side by side.
//!
//! ```text
//!  issue ─┬─ waits for others ─▶ parked ─┐                     ┌─▶ slots ─▶ array, channel ─▶ end
//!         └──────────────────────────────┴─▶ queue of its die ─┘                               │
//!                         tickets: watchers of the driver, parked commands  ◀──────────────────┘
//! ```
//!
//! 1. No time is promised that must be revised: a command has ended when its event was handled, not before.
//! 2. A die serves its queue in order. A command enters it when nothing that it waits for is left but
//!    commands ahead of it in that very queue.
//! 3. Commands of one plane group enter in the order in which they were issued; one that must wait holds
//!    back only those of its own group. So an erase block is never programmed out of order, and the
//!    oldest unfinished command can always go on: nothing deadlocks.
//! 4. Of events at the same moment those of lower dies come first, then channels. What follows from an
//!    event (others become ready and start on idle dies, then its die goes on) is done with it.
//! 5. With read priority a read of the host goes before all of its die that has not begun, unless the
//!    program of its own page is still to come; with suspension it stops the array, at its price.
//! 6. Commands that yield begin when nothing else of their die waits. A command of the host goes before
//!    them, unless one of its group is among them; any other brings all of its die forward, before itself.
//! 7. Handing out commands, ending them and choosing the next allocates nothing once the arenas have grown.

mod cached;
mod channel;
mod die;
mod node;
mod plain;
mod service;
mod suspend;
#[cfg(test)]
mod tests;
mod tree;
mod usage;

pub use channel::BusPolicy;
pub use usage::{Usage, Waits};

pub(crate) use node::{Kind, NONE, Progress};

use crate::{Scheduling, Ticket};
use channel::Channel;
use die::{Die, Queue, SLOTS};
use nandu_base::{Cause, FlashCounters, Nanos, to_u32};
use node::{Node, Nodes};
use std::collections::VecDeque;
use tree::{NEVER, WinnerTree};

const NO_DIE: usize = usize::MAX;

/// A chip command as the core sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    pub(crate) kind: Kind,
    pub(crate) cause: Cause,
    pub(crate) die: usize,
    /// Erase blocks that work together: numbered over the whole array.
    pub(crate) group: u32,
    pub(crate) command_ns: u64,
    pub(crate) array_ns: u64,
    pub(crate) transfer_ns: u64,
    /// Where flash pages are shared by units: the page that is sensed and how many planes of it, unless
    /// the page register holds it then.
    pub(crate) sensed: Option<(u64, u64)>,
    /// Whether what others want of its die goes first, as long as it has not begun.
    pub(crate) yields: bool,
}

/// Dies, channels, and what is in flight on them.
#[derive(Clone, Debug)]
pub(crate) struct EventCore {
    now: u64,
    dies: Vec<Die>,
    /// By die: work that was accepted and has not ended.
    backlog_ns: Vec<u64>,
    channels: Vec<Channel>,
    nodes: Nodes,
    /// Servers: every die, or with cache registers every slot of every die; then the channels.
    tree: WinnerTree,
    is_cached: bool,
    /// Whether dies are as `plain.rs` has them.
    is_plain: bool,
    scheduling: Scheduling,
    /// By plane group: the last command that is parked, and programs that have not ended.
    last_parked: Vec<u32>,
    open_programs: Vec<u32>,
    /// By plane group: commands that wait because they yield.
    yielding: Vec<u32>,
    parked_count: u32,
    /// Watchers of what has ended, in order.
    finished: VecDeque<u32>,
    /// Commands that have ended and whose consequences are still to come.
    ended: Vec<u32>,
    next_ended: usize,
    joins: Vec<u32>,
    ready: Vec<u32>,
    /// The die whose command has just ended.
    ending: usize,
    busy_ns: u64,
    waits: [Waits; 2],
    pub(crate) counters: FlashCounters,
}

impl EventCore {
    pub(crate) fn new(die_count: usize, channel_count: usize, is_cached: bool) -> Self {
        let slots = if is_cached { SLOTS } else { 1 };
        Self {
            now: 0,
            dies: (0..die_count).map(|die| Die::new(die % channel_count)).collect(),
            backlog_ns: vec![0; die_count],
            channels: vec![Channel::default(); channel_count],
            nodes: Nodes::new(),
            tree: WinnerTree::new(die_count * slots),
            is_cached,
            is_plain: false,
            scheduling: Scheduling::default(),
            last_parked: Vec::new(),
            open_programs: Vec::new(),
            yielding: Vec::new(),
            parked_count: 0,
            finished: VecDeque::new(),
            ended: Vec::new(),
            next_ended: 0,
            joins: Vec::new(),
            ready: Vec::new(),
            ending: NO_DIE,
            busy_ns: 0,
            waits: [Waits::default(); 2],
            counters: FlashCounters::default(),
        }
    }

    /// How commands are ordered, over `group_count` plane groups.
    pub(crate) fn schedule(&mut self, scheduling: Scheduling, group_count: usize) {
        self.scheduling = scheduling;
        let is_in_order = scheduling.bus == BusPolicy::InOrder && !scheduling.read_priority;
        self.is_plain = is_in_order && !self.is_cached;
        // A channel that serves in order needs no place in the tree of next events: when it is free
        // follows from its last transfer.
        let slots = if self.is_cached { SLOTS } else { 1 };
        let channels = if scheduling.bus == BusPolicy::InOrder { 0 } else { self.channels.len() };
        self.tree = WinnerTree::new(self.dies.len() * slots + channels);
        self.last_parked = vec![NONE; group_count];
        self.open_programs = vec![0; if scheduling.read_priority { group_count } else { 0 }];
        self.yielding = vec![0; group_count];
    }

    // ---- tickets ----

    #[inline]
    pub(crate) fn is_done(&self, ticket: Ticket) -> bool {
        self.nodes.unfinished(ticket).is_none()
    }

    /// How far the command behind a ticket is; none once it has ended.
    pub(crate) fn progress(&self, ticket: Ticket) -> Option<Progress> {
        self.nodes.unfinished(ticket).map(|index| self.nodes.get(index).progress)
    }

    /// The later of two ends.
    #[inline]
    pub(crate) fn both(&mut self, one: Ticket, other: Ticket) -> Ticket {
        let Some(first) = self.nodes.unfinished(one) else { return other };
        let Some(second) = self.nodes.unfinished(other) else { return one };
        if first == second {
            return one;
        }
        let join = self.join(Kind::Join);
        self.nodes.connect(first, join);
        self.nodes.connect(second, join);
        self.nodes.ticket(join)
    }

    /// Adds an end to those that `all` stands for. A gathering for which nobody waits yet takes it up
    /// itself, so that many ends cost one node. Once somebody waits for it a new one is made, or what
    /// waits and is gathered next would wait for itself.
    #[inline]
    pub(crate) fn gather(&mut self, all: &mut Ticket, one: Ticket) {
        let Some(source) = self.nodes.unfinished(one) else { return };
        match self.nodes.unfinished(*all) {
            None => *all = one,
            Some(join) if join == source => {}
            Some(join) => {
                let node = self.nodes.get(join);
                let is_open = node.kind == Kind::Gathering && !node.is_awaited();
                let target = if is_open { join } else { self.join(Kind::Gathering) };
                self.nodes.connect(source, target);
                if !is_open {
                    self.nodes.connect(join, target);
                    *all = self.nodes.ticket(target);
                }
            }
        }
    }

    /// A ticket that ends when what is named by [`Self::keep`] does.
    pub(crate) fn promise(&mut self) -> Ticket {
        let join = self.join(Kind::Join);
        self.nodes.get_mut(join).pending = 1;
        self.nodes.ticket(join)
    }

    /// A promise is kept when `ticket` ends.
    pub(crate) fn keep(&mut self, promise: Ticket, ticket: Ticket) {
        let Some(join) = self.nodes.unfinished(promise) else { return };
        if let Some(source) = self.nodes.unfinished(ticket) {
            self.nodes.connect(source, join);
        }
        self.nodes.get_mut(join).pending -= 1;
        if self.nodes.get(join).pending == 0 {
            self.release(join);
            self.settle();
        }
    }

    /// Everything that has not ended.
    pub(crate) fn everything(&mut self) -> Ticket {
        let open = self.nodes.in_use();
        let mut all = Ticket::READY;
        for index in open {
            if !self.nodes.get(index).kind.is_join() {
                let ticket = self.nodes.ticket(index);
                self.gather(&mut all, ticket);
            }
        }
        all
    }

    fn join(&mut self, kind: Kind) -> u32 {
        self.nodes.add(Node::of(kind, self.now))
    }

    /// Tells `watcher` when `ticket` ends; false if it has.
    #[inline]
    pub(crate) fn watch(&mut self, ticket: Ticket, watcher: u32) -> bool {
        let Some(mut index) = self.nodes.unfinished(ticket) else { return false };
        if self.nodes.get(index).watcher != NONE {
            let join = self.join(Kind::Join);
            self.nodes.connect(index, join);
            index = join;
        }
        self.nodes.get_mut(index).watcher = watcher;
        true
    }

    /// The next watcher whose ticket has ended.
    #[inline]
    pub(crate) fn take_finished(&mut self) -> Option<u32> {
        self.finished.pop_front()
    }

    // ---- time ----

    #[inline]
    pub(crate) const fn now(&self) -> Nanos {
        Nanos(self.now)
    }

    #[inline]
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        let time = self.tree.earliest_at();
        (time != NEVER).then_some(Nanos(time))
    }

    /// Handles every event up to `time`, which becomes the present.
    pub(crate) fn advance_to(&mut self, time: Nanos) {
        while self.tree.earliest_at() <= time.0 && self.step() {}
        self.now = self.now.max(time.0);
    }

    /// Handles events until `ticket` has ended, or nothing is left that could end it.
    pub(crate) fn finish(&mut self, ticket: Ticket) {
        while !self.is_done(ticket) && self.step() {}
    }

    /// Handles the earliest event; false if there is none.
    pub(crate) fn step(&mut self) -> bool {
        self.handle_earliest()
    }

    #[inline(always)]
    fn handle_earliest(&mut self) -> bool {
        let (time, server) = self.tree.earliest();
        if time == NEVER {
            return false;
        }
        self.now = time;
        if self.is_plain {
            self.plain_event(server);
        } else if self.is_cached {
            match server / SLOTS {
                die if die < self.dies.len() => self.slot_event(die, server % SLOTS),
                _ => self.channel_event(server - self.dies.len() * SLOTS),
            }
        } else if server < self.dies.len() {
            self.slot_event(server, 0);
        } else {
            self.channel_event(server - self.dies.len());
        }
        self.settle();
        true
    }

    /// Handles events until a watcher can be told of an end; false if there are no events left.
    pub(crate) fn step_to_watched(&mut self) -> bool {
        while self.finished.is_empty() {
            if !self.handle_earliest() {
                return false;
            }
        }
        true
    }

    /// By die: work that was accepted and has not ended.
    #[inline]
    pub(crate) fn backlog_ns(&self) -> &[u64] {
        &self.backlog_ns
    }

    /// Work of a die that waits because it yields.
    #[inline]
    pub(crate) fn put_off_ns(&self, die: usize) -> u64 {
        self.dies[die].put_off_ns
    }

    /// Commands and joins that have not ended.
    pub(crate) const fn open_count(&self) -> u32 {
        self.nodes.used
    }

    pub(crate) const fn busy(&self) -> Nanos {
        Nanos(self.busy_ns)
    }

    /// The power went: nothing is in flight any more.
    pub(crate) fn clear(&mut self) {
        for die in &mut self.dies {
            die.clear(self.now);
        }
        for channel in &mut self.channels {
            channel.clear(self.now);
        }
        self.nodes.clear();
        self.tree.clear();
        self.last_parked.fill(NONE);
        self.open_programs.fill(0);
        self.yielding.fill(0);
        self.parked_count = 0;
        self.backlog_ns.fill(0);
        self.finished.clear();
        self.ended.clear();
    }

    /// Asserts that nothing stands still that could go on, and that the books agree.
    ///
    /// # Panics
    /// If not.
    pub(crate) fn audit(&self) {
        assert!(self.ended.is_empty(), "consequences are drawn at once");
        let commands = self.nodes.in_use().into_iter().map(|index| self.nodes.get(index));
        let commands: Vec<&Node> = commands.filter(|node| !node.kind.is_join()).collect();
        let parked = commands.iter().filter(|node| node.progress == Progress::Parked).count();
        assert_eq!(parked, self.parked_count as usize, "parked commands are counted");
        let mut yielding = vec![0; self.yielding.len()];
        for (number, die) in self.dies.iter().enumerate() {
            let own = commands.iter().filter(|node| node.die as usize == number);
            let backlog: u64 = own.map(|node| node.work_ns() * u64::from(node.left)).sum();
            assert_eq!(backlog, self.backlog_ns[number], "backlog of die {number}");
            let (mut next, mut put_off) = (die.yielding.head, 0);
            while next != NONE {
                let node = self.nodes.get(next);
                yielding[node.group as usize] += 1;
                put_off += node.work_ns();
                next = node.next;
            }
            assert_eq!(put_off, die.put_off_ns, "what is put off on die {number}");
            let queues = [die.queue, die.urgent, die.yielding];
            let is_queued = queues.iter().any(|queue| !queue.is_empty());
            let is_stopped = die.stopped.is_some();
            assert!(!die.is_idle() || !is_queued && !is_stopped, "die {number} stands still");
        }
        assert_eq!(yielding, self.yielding, "what yields, by group");
        for channel in &self.channels {
            assert!(channel.waiting.is_empty() || channel.is_taken, "a channel stands still");
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        let held = |die: &Die| {
            let open = if die.is_idle() { 0 } else { self.now - die.held_since };
            Nanos(die.held_ns + open)
        };
        Usage {
            die_held: self.dies.iter().map(held).collect(),
            channel_busy: self.channels.iter().map(|channel| channel.busy(self.now)).collect(),
            reads: self.waits[0],
            programs: self.waits[1],
        }
    }

    // ---- commands ----

    /// Takes a command that waits for `after`.
    #[inline]
    pub(crate) fn issue(&mut self, after: Ticket, command: &Command) -> Ticket {
        self.issue_run(after, command, 1)
    }

    /// Takes `count` equal commands that wait for `after` and follow each other; answers the last.
    #[inline]
    pub(crate) fn issue_many(&mut self, after: Ticket, command: &Command, count: u32) -> Ticket {
        if self.is_plain && command.cause != Cause::Host && !command.yields {
            return self.issue_run(after, command, count);
        }
        let mut last = after;
        for _ in 0..count {
            last = self.issue_run(after, command, 1);
        }
        last
    }

    /// Takes a run of one or several commands as one node.
    #[inline]
    fn issue_run(&mut self, after: Ticket, command: &Command, count: u32) -> Ticket {
        let index = self.admit(command, count);
        if let Some(source) = self.nodes.unfinished(after)
            && !self.is_ahead(source, index)
        {
            self.nodes.connect(source, index);
        }
        if self.parked_count > 0 {
            let last = self.last_parked[command.group as usize];
            if last != NONE {
                self.nodes.get_mut(last).follower = index;
                self.nodes.get_mut(index).pending += 1;
            }
        }
        let ticket = self.nodes.ticket(index);
        if self.nodes.get(index).pending > 0 {
            self.parked_count += 1;
            self.last_parked[command.group as usize] = index;
        } else {
            self.enter(index);
            self.settle();
        }
        ticket
    }

    #[inline(always)]
    fn admit(&mut self, command: &Command, count: u32) -> u32 {
        let (register_page, planes) = command.sensed.map_or((0, 0), |(page, n)| (page + 1, n));
        let work_ns = command.command_ns + command.array_ns + command.transfer_ns;
        self.backlog_ns[command.die] += work_ns * u64::from(count);
        let mut kind = command.kind;
        if self.scheduling.read_priority {
            let open = &mut self.open_programs[command.group as usize];
            match kind {
                Kind::Program => *open += 1,
                // A program of the group is not done and may be that of the very page that is read:
                // the read loses its urgency and waits behind it.
                Kind::UrgentRead if *open > 0 => kind = Kind::Read,
                _ => {}
            }
        } else if kind == Kind::UrgentRead {
            kind = Kind::Read;
        }
        self.nodes.add(Node {
            group: command.group,
            command_ns: to_u32(command.command_ns),
            array_ns: to_u32(command.array_ns),
            transfer_ns: to_u32(command.transfer_ns),
            die: u16::try_from(command.die).expect("the array refuses more dies"),
            cause: command.cause as u8,
            planes: u8::try_from(planes).expect("at most 32 planes"),
            register_page,
            left: count,
            yields: command.yields,
            ..Node::of(kind, self.now)
        })
    }

    /// Whether the queue of their common die keeps `index` behind `source` by itself.
    #[inline(always)]
    fn is_ahead(&self, source: u32, index: u32) -> bool {
        let (source, node) = (self.nodes.get(source), self.nodes.get(index));
        !source.kind.is_join()
            && source.die == node.die
            && source.progress != Progress::Parked
            && source.kind != Kind::UrgentRead
            && node.kind != Kind::UrgentRead
            && (!source.yields || node.yields || node.cause != Cause::Host as u8)
    }

    /// Puts a command into the queue of its die, and those of its group that only waited for it.
    fn enter(&mut self, index: u32) {
        let mut next = index;
        while next != NONE {
            let follower = self.enter_one(next);
            next = NONE;
            if follower != NONE {
                let node = self.nodes.get_mut(follower);
                node.pending -= 1;
                if node.pending == 0 {
                    self.unpark(follower);
                    next = follower;
                }
            }
        }
    }

    #[inline(always)]
    fn enter_one(&mut self, index: u32) -> u32 {
        let now = self.now;
        let node = self.nodes.get_mut(index);
        let (die, kind, follower) = (node.die as usize, node.kind, node.follower);
        node.progress = Progress::Queued;
        let held_back = now - std::mem::replace(&mut node.since, now);
        let is_host = node.cause == Cause::Host as u8;
        if is_host {
            node.foreign_ns = self.dies[die].foreign_until(now);
            self.waits[usize::from(kind == Kind::Program)].held_back.0 += held_back;
        }
        let (yields, group) = (node.yields, node.group as usize);
        let record = &mut self.dies[die];
        let queue = match (kind, yields) {
            (Kind::UrgentRead, _) => &mut record.urgent,
            (_, false) => {
                if !record.yielding.is_empty() && (!is_host || self.yielding[group] > 0) {
                    self.bring_forward(die);
                }
                &mut self.dies[die].queue
            }
            (_, true) => {
                self.yielding[group] += 1;
                record.put_off_ns += node.work_ns();
                &mut record.yielding
            }
        };
        let tail = std::mem::replace(&mut queue.tail, index);
        match tail {
            NONE => queue.head = index,
            tail => self.nodes.get_mut(tail).next = index,
        }
        // The die of a command that ends goes on when all who waited for that have entered.
        if self.ending != die {
            self.go_on(die);
            if kind == Kind::UrgentRead && self.scheduling.suspend.is_some() {
                self.try_to_stop(die);
            }
        }
        follower
    }

    /// What yields on a die is put behind what does not, and yields no more.
    #[cold]
    fn bring_forward(&mut self, die: usize) {
        let record = &mut self.dies[die];
        let yielding = std::mem::replace(&mut record.yielding, Queue::EMPTY);
        record.put_off_ns = 0;
        let tail = std::mem::replace(&mut record.queue.tail, yielding.tail);
        match tail {
            NONE => record.queue.head = yielding.head,
            tail => self.nodes.get_mut(tail).next = yielding.head,
        }
        let mut next = yielding.head;
        while next != NONE {
            let node = self.nodes.get_mut(next);
            node.yields = false;
            self.yielding[node.group as usize] -= 1;
            next = node.next;
        }
    }

    /// Carries out what follows from ends, until nothing does.
    #[inline(always)]
    fn settle(&mut self) {
        while self.next_ended < self.ended.len() {
            let index = self.ended[self.next_ended];
            self.next_ended += 1;
            let die = self.nodes.get(index).die as usize;
            if self.nodes.get(index).last_edge == NONE {
                self.finish_node(index);
            } else {
                self.ending = die;
                self.release(index);
                self.ending = NO_DIE;
            }
            self.go_on(die);
            if !self.is_cached && self.dies[die].slots[0].is_idle() {
                self.tree.set(die, NEVER);
            }
        }
        self.ended.clear();
        self.next_ended = 0;
    }

    /// Tells the driver of the end of a node for which nobody else waits, and frees it.
    #[inline(always)]
    fn finish_node(&mut self, index: u32) {
        let watcher = self.nodes.get(index).watcher;
        if watcher != NONE {
            self.finished.push_back(watcher);
        }
        self.nodes.free(index);
    }

    /// Tells everybody who waits for the end of a node, and frees it.
    fn release(&mut self, index: u32) {
        let mut joins = std::mem::take(&mut self.joins);
        let mut current = index;
        loop {
            match self.nodes.take_edge(current) {
                Some(target) => {
                    let node = self.nodes.get_mut(target);
                    node.pending -= 1;
                    if node.pending > 0 {
                        continue;
                    }
                    if node.kind.is_join() {
                        joins.push(current);
                        current = target;
                    } else {
                        self.ready.push(target);
                    }
                }
                None => {
                    self.finish_node(current);
                    match joins.pop() {
                        Some(parent) => current = parent,
                        None => break,
                    }
                }
            }
        }
        self.joins = joins;
        // Only now: what enters may bring along others of its group that waited for this very end, too.
        let mut ready = std::mem::take(&mut self.ready);
        for index in ready.drain(..) {
            self.unpark(index);
            self.enter(index);
        }
        self.ready = ready;
    }

    #[inline]
    fn unpark(&mut self, index: u32) {
        let last = &mut self.last_parked[self.nodes.get(index).group as usize];
        if *last == index {
            *last = NONE;
        }
        self.parked_count -= 1;
    }
}
