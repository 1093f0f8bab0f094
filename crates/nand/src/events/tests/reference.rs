//! A plain, slow model of dies behind shared channels: an oracle of every time, to the nanosecond.
//!
//! 1. A die does one command at a time, held from start to end. Read: command and array time, wait
//!    for the channel, transfer. Program: command time, wait, transfer, array time. Erase: command
//!    and array time. Without transfer time the channel is not needed and not waited for.
//! 2. A die serves its queue in the order of entry. A command enters when it is issued, every one
//!    of its `after` has ended, and the one emitted just before it in its group has entered.
//! 3. Entering is one act: join the queue; suspend (rule 6) or start if the die can; then the next
//!    of the group enters if only this one kept it back, and so on: depth first.
//! 4. With `reads_first` urgent reads have a queue of their own, which goes before the ordinary
//!    one. Otherwise, and for programs and erases always, `urgent` means nothing.
//! 5. Channel. `InOrder`: as the transfers became ready. `ReadsFirst`: reads, then programs, each
//!    as they became ready. `Fair`: the first waiting die behind the one whose transfer began last,
//!    cyclically by number, at first from the lowest. A channel idle since before this instant
//!    begins a transfer as soon as one is ready. A channel that becomes free in this instant
//!    chooses at its end, after all events, among everything that is ready by then.
//! 6. Suspension, with `reads_first` only. When an urgent read enters, and when the array part of a
//!    program begins, and an urgent read waits, nothing is suspended on the die and its program or
//!    erase is in its array part (an erase always is) with left = end - now > pause: the die
//!    pauses, serves urgent reads until none waits, resumes the command for `left`. The read being
//!    served is itself never suspended; a resumed command may be suspended again.
//! 7. Cache register, never with suspension: a die has an array and a register. A program holds the
//!    register from its start; after its transfer it waits for the array, takes it and frees the
//!    register. A read holds the array from its start; then it waits for the register, takes it,
//!    frees the array and asks for the channel; without transfer it ends where it leaves the array.
//!    An erase holds the array. The first command of the queue (the urgent one's, if any; none is
//!    overtaken) starts when: program: register free, no read in flight; read, erase: array free,
//!    no program in flight. In flight is from start to end. On a die, first the one that waits for
//!    array or register moves, then new ones start.
//! 8. Events of one instant: by die number, at one die as they began. All that follows from an event
//!    is done at once, zero-length parts (also pauses) included, before the next event. At an end:
//!    (a) it is recorded and the die let go; (b) those that waited for it enter, by emission, and
//!    other dies start them at once, but nothing starts on its own die; (c) its own die goes on:
//!    the waiter of rule 7, then urgent reads, then the suspended command, then the ordinary queue.
//! 9. Commands issued at an instant come after all its events and channel choices, one by one.
//! 10. An urgent read counts as ordinary if a program of its group was emitted before and has not
//!     ended. Where all that a command still waits for is one command ahead of it in the ordinary
//!     queue of its own die, or started from there, it enters at once. Not if either is urgent.
//! 11. A read takes no array time if it names the page that the command started last on its die named.
//! 12. Closed loop: `depth` at 0; after an instant those that ended in it are replaced, in order.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "shared by several test binaries, none of which uses everything"
)]

use std::collections::{BTreeMap, VecDeque};

/// How many channels and dies there are. Die `d` is on channel `d % channel_count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Channels, at least 1.
    pub channel_count: usize,
    /// Dies on each channel, at least 1.
    pub dies_per_channel: usize,
}

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Array first, then out over the channel.
    Read,
    /// In over the channel, then the array.
    Program,
    /// The array alone; its transfer time means nothing.
    Erase,
}

/// Which of the waiting transfers a channel takes next (rule 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bus {
    /// As they became ready.
    InOrder,
    /// Reads before programs, each as they became ready.
    ReadsFirst,
    /// Round robin over the dies of the channel.
    Fair,
}

/// The choices that the back end leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The order of transfers.
    pub bus: Bus,
    /// Whether urgent reads go first on their die (rule 4).
    pub reads_first: bool,
    /// Pauses before a program and an erase are suspended (rule 6), in ns, if they ever are.
    pub suspend: Option<(u64, u64)>,
    /// Whether a die has a register beside its array (rule 7). Not together with `suspend`.
    pub cache_register: bool,
}

/// One command to one die.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// When it is emitted, in ns; never before the command emitted last.
    pub issued_at: u64,
    /// Its die, counted over the whole array.
    pub die: usize,
    /// Its plane group, counted over the whole array, so that it lies on one die.
    pub group: usize,
    /// What it does.
    pub kind: Kind,
    /// Whether it goes before others, if it is a read and the policy says so.
    pub urgent: bool,
    /// Whether it is the host's.
    pub host: bool,
    /// Whether it lets others go first; never an urgent one. It enters a third queue, from which the die
    /// starts when the others are empty and nothing is suspended. When a command enters the ordinary
    /// queue that is not the host's, or is of the group of one that is in the third queue then, all of
    /// the third queue goes to the end of the ordinary one first, and yields no more. Rule 10 does not
    /// let a command of the host that does not yield enter at once behind one that is in the third queue
    /// or was started from there.
    pub yields: bool,
    /// Time for the command itself, in ns.
    pub command_ns: u64,
    /// Time in the array, in ns.
    pub array_ns: u64,
    /// Time on the channel, in ns; 0 if the channel is not needed.
    pub transfer_ns: u64,
    /// The page that a read leaves in the page register of its die (rule 11), if that can be used again.
    pub page: Option<u64>,
    /// Numbers of earlier commands that must have ended.
    pub after: Vec<usize>,
}

/// When a command was on its die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When its die started it, in ns.
    pub start: u64,
    /// When it ended, in ns.
    pub end: u64,
    /// Whether the page register held what it reads (rule 11).
    pub hit: bool,
}

/// Runs `commands`, given in the order of emission, and returns their times in the same order.
pub fn simulate(shape: Shape, policy: Policy, commands: &[Command]) -> Vec<Span> {
    let mut reference = Reference::new(shape, policy);
    for command in commands {
        while reference.next_at().is_some_and(|at| at <= command.issued_at) {
            reference.step();
        }
        reference.submit(command.clone());
    }
    while reference.step().is_some() {}
    reference.spans()
}

/// Runs `total` commands with `depth` of them outstanding and returns their times by number.
/// `next` makes the command of a number; its `issued_at` is replaced.
pub fn closed_loop(
    shape: Shape,
    policy: Policy,
    depth: usize,
    total: usize,
    mut next: impl FnMut(usize) -> Command,
) -> Vec<Span> {
    assert!(depth > 0);
    let mut reference = Reference::new(shape, policy);
    for number in 0..total {
        // Commands that end within their own submission are replaced in this same instant.
        while number >= depth + reference.ended().len() {
            assert!(reference.step().is_some());
        }
        let issued_at = reference.now();
        reference.submit(Command { issued_at, ..next(number) });
    }
    while reference.step().is_some() {}
    reference.spans()
}

/// The part of a command that takes time on its die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The command time of a program.
    Command,
    /// The transfer over the channel.
    Transfer,
    /// The array time, of reads and erases with the command time before it.
    Array,
    /// The pause that suspends the command.
    Pause,
}

/// A part that is under way: an event to come. A command has at most one.
#[derive(Clone, Copy, Debug)]
struct Timer {
    at: u64,
    die: usize,
    job: usize,
    part: Part,
}

/// A command and what became of it. Jobs are known by their number in order of emission.
#[derive(Debug)]
struct Job {
    command: Command,
    /// Those with this one in their `after` that were emitted before it ended, by emission.
    dependents: Vec<usize>,
    /// Whether it goes before others (rules 4 and 10).
    urgent: bool,
    /// What it waits for: `after` without what has ended and without what rule 10 leaves to the queue.
    awaited: Vec<usize>,
    /// The one emitted just before it in its group.
    predecessor: Option<usize>,
    /// The one emitted just after it in its group.
    successor: Option<usize>,
    entered: bool,
    start: Option<u64>,
    end: Option<u64>,
    hit: bool,
}

/// A die. Without the cache register a command holds array and register together.
#[derive(Debug, Default)]
struct Die {
    urgent: VecDeque<usize>,
    ordinary: VecDeque<usize>,
    yielding: VecDeque<usize>,
    array: Option<usize>,
    register: Option<usize>,
    in_flight: Vec<usize>,
    /// The one command that waits for the array (a program) or the register (a read).
    waiter: Option<usize>,
    /// The suspended command and what is left of its array time.
    suspended: Option<(usize, u64)>,
    /// The page that the command started last named (rule 11).
    page: Option<u64>,
    /// An end is being handled, in (b) of rule 8: nothing starts here.
    ending: bool,
}

/// A channel of the reference, with what waits for it.
#[derive(Debug, Default)]
struct Channel {
    /// Transfers that wait, in the order in which they became ready.
    waiting: Vec<usize>,
    serving: Option<usize>,
    /// It became free in this instant and has not chosen yet.
    freed: bool,
    /// The die whose transfer began last.
    last_die: Option<usize>,
}

/// The model itself: `submit` adds a command at an instant, `step` handles the next instant.
#[derive(Debug)]
pub struct Reference {
    policy: Policy,
    now: u64,
    jobs: Vec<Job>,
    /// Numbers of the commands that have ended, in the order of ending.
    ended: Vec<usize>,
    dies: Vec<Die>,
    channels: Vec<Channel>,
    timers: Vec<Timer>,
    last_of_group: BTreeMap<usize, usize>,
}

impl Reference {
    /// An idle array at instant 0.
    pub fn new(shape: Shape, policy: Policy) -> Reference {
        assert!(shape.channel_count > 0);
        assert!(shape.dies_per_channel > 0);
        assert!(!(policy.cache_register && policy.suspend.is_some()));
        let die_count = shape.channel_count * shape.dies_per_channel;
        Reference {
            policy,
            now: 0,
            jobs: Vec::new(),
            ended: Vec::new(),
            dies: (0..die_count).map(|_| Die::default()).collect(),
            channels: (0..shape.channel_count).map(|_| Channel::default()).collect(),
            timers: Vec::new(),
            last_of_group: BTreeMap::new(),
        }
    }

    /// The instant handled last, in ns.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The instant of the next event, in ns.
    pub fn next_at(&self) -> Option<u64> {
        self.timers.iter().map(|timer| timer.at).min()
    }

    /// Numbers of the commands that have ended so far, in the order of ending.
    pub fn ended(&self) -> &[usize] {
        &self.ended
    }

    /// The times of all commands, which must have ended.
    pub fn spans(&self) -> Vec<Span> {
        let span = |job: &Job| Span {
            start: job.start.expect("every command has started"),
            end: job.end.expect("every command has ended"),
            hit: job.hit,
        };
        self.jobs.iter().map(span).collect()
    }

    /// Issues `command` at its `issued_at`, up to which all events must have been handled, and
    /// returns its number: 0, 1, 2…
    pub fn submit(&mut self, command: Command) -> usize {
        assert!(command.issued_at >= self.now);
        assert!(self.next_at().is_none_or(|at| at > command.issued_at));
        assert!(command.die < self.dies.len());
        self.now = command.issued_at;
        let number = self.jobs.len();
        let is_open = |job: &&Job| job.end.is_none() && job.command.group == command.group;
        let programs = self.jobs.iter().filter(is_open);
        let has_program = programs.clone().any(|job| job.command.kind == Kind::Program);
        let is_read = command.kind == Kind::Read;
        let urgent = self.policy.reads_first && command.urgent && is_read && !has_program;
        let mut awaited: Vec<usize> = command.after.clone();
        awaited.sort_unstable();
        awaited.dedup();
        awaited.retain(|&earlier| self.jobs[earlier].end.is_none());
        if let &[earlier] = awaited.as_slice() {
            let job = &self.jobs[earlier];
            let overtakes = job.command.yields && command.host && !command.yields;
            let is_ahead = job.entered && !job.urgent && !urgent && !overtakes;
            if is_ahead && job.command.die == command.die {
                awaited.clear();
            }
        }
        for &earlier in &awaited {
            self.jobs[earlier].dependents.push(number);
        }
        let predecessor = self.last_of_group.insert(command.group, number);
        if let Some(predecessor) = predecessor {
            assert_eq!(self.jobs[predecessor].command.die, command.die, "a group lies on one die");
            self.jobs[predecessor].successor = Some(number);
        }
        self.jobs.push(Job {
            command,
            dependents: Vec::new(),
            urgent,
            awaited,
            predecessor,
            successor: None,
            entered: false,
            start: None,
            end: None,
            hit: false,
        });
        self.enter_if_ready(number);
        self.audit();
        number
    }

    /// Handles all events of the next instant, then the choices of the channels that became free in
    /// it. Returns that instant, or nothing if there is no event left.
    pub fn step(&mut self) -> Option<u64> {
        let instant = self.next_at()?;
        self.now = instant;
        while let Some(index) = self.first_timer_at(instant) {
            let timer = self.timers.swap_remove(index);
            self.over(timer.job, timer.part);
        }
        for channel in 0..self.channels.len() {
            if self.channels[channel].freed {
                self.channels[channel].freed = false;
                self.begin_transfer(channel);
            }
        }
        self.audit();
        Some(instant)
    }

    /// Asserts, between two instants, that nothing stands still that could go on.
    pub fn audit(&self) {
        for (number, die) in self.dies.iter().enumerate() {
            assert!(!die.ending);
            assert!(self.startable(number).is_none());
            let of_kind = |kind| die.in_flight.iter().any(|&job| self.kind(job) == kind);
            assert!(!(of_kind(Kind::Read) && of_kind(Kind::Program)) || die.suspended.is_some());
            if self.policy.cache_register {
                assert!(die.waiter.is_none() || die.array.is_some());
                assert!(die.waiter.is_none() || die.register.is_some());
            } else {
                assert_eq!(die.array, die.register);
                assert!(die.in_flight.len() <= 1 + usize::from(die.suspended.is_some()));
            }
        }
        for channel in &self.channels {
            assert!(!channel.freed);
            assert!(channel.serving.is_some() || channel.waiting.is_empty());
        }
        for timer in &self.timers {
            assert!(timer.at > self.now);
        }
    }

    fn first_timer_at(&self, instant: u64) -> Option<usize> {
        (0..self.timers.len()).filter(|&index| self.timers[index].at == instant).min_by_key(
            |&index| {
                let Timer { die, job, .. } = self.timers[index];
                (die, self.dies[die].in_flight.iter().position(|&flying| flying == job))
            },
        )
    }

    fn kind(&self, job: usize) -> Kind {
        self.jobs[job].command.kind
    }

    fn die_of(&mut self, job: usize) -> &mut Die {
        &mut self.dies[self.jobs[job].command.die]
    }

    fn channel_of(&self, job: usize) -> usize {
        self.jobs[job].command.die % self.channels.len()
    }

    // Entering the queue: rules 2 to 4.

    fn enter_if_ready(&mut self, job: usize) {
        let Job { command, predecessor, entered, awaited, urgent, .. } = &self.jobs[job];
        let may_enter = !entered
            && awaited.iter().all(|&earlier| self.jobs[earlier].end.is_some())
            && predecessor.is_none_or(|predecessor| self.jobs[predecessor].entered);
        if !may_enter {
            return;
        }
        let (die, is_urgent, yields) = (command.die, *urgent, command.yields);
        let (host, group) = (command.host, command.group);
        self.jobs[job].entered = true;
        if is_urgent {
            self.dies[die].urgent.push_back(job);
            self.suspend_if_worthwhile(die);
        } else if yields {
            self.dies[die].yielding.push_back(job);
        } else {
            let queued = &self.dies[die].yielding;
            if !host || queued.iter().any(|&other| self.jobs[other].command.group == group) {
                for other in std::mem::take(&mut self.dies[die].yielding) {
                    self.jobs[other].command.yields = false;
                    self.dies[die].ordinary.push_back(other);
                }
            }
            self.dies[die].ordinary.push_back(job);
        }
        self.go_on(die);
        if let Some(successor) = self.jobs[job].successor {
            self.enter_if_ready(successor);
        }
    }

    // The die: rules 1, 4, 6 and 7.

    /// Lets the die do all that it can do now.
    fn go_on(&mut self, die: usize) {
        if self.dies[die].ending {
            return;
        }
        self.move_waiter(die);
        while let Some(job) = self.startable(die) {
            // It may have ended at once and started others: everything is looked at anew.
            self.start(die, job);
        }
    }

    /// The command that the die would start or resume next, if it can now.
    fn startable(&self, die: usize) -> Option<usize> {
        let Die { urgent, ordinary, yielding, array, register, in_flight, suspended, .. } =
            &self.dies[die];
        let first = urgent.front().copied();
        let first = first.or(suspended.map(|(job, _)| job)).or(ordinary.front().copied());
        let first = first.or(yielding.front().copied())?;
        let no_flying = |kind| in_flight.iter().all(|&job| self.kind(job) != kind);
        let can_start = if !self.policy.cache_register {
            array.is_none() && register.is_none()
        } else if self.kind(first) == Kind::Program {
            register.is_none() && no_flying(Kind::Read)
        } else {
            array.is_none() && no_flying(Kind::Program)
        };
        can_start.then_some(first)
    }

    fn start(&mut self, number: usize, job: usize) {
        let die = &mut self.dies[number];
        let is_program = self.jobs[job].command.kind == Kind::Program;
        if !self.policy.cache_register || is_program {
            die.register = Some(job);
        }
        if !self.policy.cache_register || !is_program {
            die.array = Some(job);
        }
        if let Some((suspended, left)) = die.suspended
            && suspended == job
        {
            die.suspended = None;
            self.run(job, Part::Array, left);
            return;
        }
        die.urgent.retain(|&queued| queued != job);
        die.ordinary.retain(|&queued| queued != job);
        die.yielding.retain(|&queued| queued != job);
        die.in_flight.push(job);
        self.jobs[job].start = Some(self.now);
        let Command { command_ns, mut array_ns, page, .. } = self.jobs[job].command;
        if page.is_some() && page == die.page {
            self.jobs[job].hit = true;
            array_ns = 0;
        }
        die.page = page;
        if is_program {
            self.run(job, Part::Command, command_ns);
        } else {
            self.run(job, Part::Array, command_ns + array_ns);
        }
    }

    /// Begins a part of a command; one without length is over at once.
    fn run(&mut self, job: usize, part: Part, length_ns: u64) {
        if length_ns == 0 {
            self.over(job, part);
        } else {
            let die = self.jobs[job].command.die;
            self.timers.push(Timer { at: self.now + length_ns, die, job, part });
        }
    }

    /// Does all that follows from the end of a part.
    fn over(&mut self, job: usize, part: Part) {
        let Command { die, kind, transfer_ns, .. } = self.jobs[job].command;
        match part {
            Part::Command if transfer_ns == 0 => self.program_array(job),
            Part::Command => self.ask_for_channel(job),
            Part::Transfer => {
                let channel = self.channel_of(job);
                self.channels[channel].serving = None;
                self.channels[channel].freed = true;
                match kind {
                    Kind::Program => self.program_array(job),
                    Kind::Read | Kind::Erase => self.end(job),
                }
            }
            Part::Array if kind != Kind::Read || transfer_ns == 0 => self.end(job),
            Part::Array if self.policy.cache_register => {
                self.dies[die].waiter = Some(job);
                self.go_on(die);
            }
            Part::Array => self.ask_for_channel(job),
            Part::Pause => {
                self.dies[die].array = None;
                self.dies[die].register = None;
                self.go_on(die);
            }
        }
    }

    /// Begins the array part of a program whose data are in, or lets it wait for the array.
    fn program_array(&mut self, job: usize) {
        let Command { die, array_ns, .. } = self.jobs[job].command;
        if self.policy.cache_register {
            self.dies[die].waiter = Some(job);
            self.go_on(die);
        } else {
            self.run(job, Part::Array, array_ns);
            self.suspend_if_worthwhile(die);
        }
    }

    /// Rule 7: lets the command that waits for the array or the register take it if it is free.
    fn move_waiter(&mut self, number: usize) {
        let die = &mut self.dies[number];
        let Some(job) = die.waiter else { return };
        let Command { kind, array_ns, .. } = self.jobs[job].command;
        if kind == Kind::Program && die.array.is_none() {
            die.waiter = None;
            die.array = Some(job);
            die.register = None;
            self.run(job, Part::Array, array_ns);
        } else if kind == Kind::Read && die.register.is_none() {
            die.waiter = None;
            die.register = Some(job);
            die.array = None;
            self.ask_for_channel(job);
        }
    }

    /// Rule 6: begins the pause if an urgent read waits and the test says so.
    fn suspend_if_worthwhile(&mut self, number: usize) {
        let die = &self.dies[number];
        let (Some((program_pause_ns, erase_pause_ns)), Some(job)) =
            (self.policy.suspend, die.array)
        else {
            return;
        };
        if !self.policy.reads_first || die.urgent.is_empty() || die.suspended.is_some() {
            return;
        }
        let pause_ns = match self.kind(job) {
            Kind::Read => return,
            Kind::Program => program_pause_ns,
            Kind::Erase => erase_pause_ns,
        };
        let is_array = |timer: &Timer| timer.job == job && timer.part == Part::Array;
        let Some(index) = self.timers.iter().position(is_array) else { return };
        let end = self.timers[index].at;
        if self.now + pause_ns < end {
            self.timers.swap_remove(index);
            self.dies[number].suspended = Some((job, end - self.now));
            self.run(job, Part::Pause, pause_ns);
        }
    }

    /// Rule 8: the end of a command.
    fn end(&mut self, job: usize) {
        let now = self.now;
        self.ended.push(job);
        self.jobs[job].end = Some(now);
        let die = self.die_of(job);
        die.array = die.array.filter(|&holder| holder != job);
        die.register = die.register.filter(|&holder| holder != job);
        die.in_flight.retain(|&flying| flying != job);
        die.ending = true;
        for dependent in self.jobs[job].dependents.clone() {
            self.enter_if_ready(dependent);
        }
        self.die_of(job).ending = false;
        self.go_on(self.jobs[job].command.die);
    }

    // The channel: rule 5.

    fn ask_for_channel(&mut self, job: usize) {
        let number = self.channel_of(job);
        let channel = &mut self.channels[number];
        channel.waiting.push(job);
        if channel.serving.is_none() && !channel.freed {
            self.begin_transfer(number);
        }
    }

    fn begin_transfer(&mut self, number: usize) {
        let channel = &self.channels[number];
        let die = |index: usize| self.jobs[channel.waiting[index]].command.die;
        let indices = 0..channel.waiting.len();
        let chosen = match self.policy.bus {
            Bus::InOrder => indices.min(),
            Bus::ReadsFirst => indices
                .min_by_key(|&index| (self.kind(channel.waiting[index]) != Kind::Read, index)),
            Bus::Fair => indices.min_by_key(|&index| {
                (channel.last_die.is_some_and(|last| die(index) <= last), die(index))
            }),
        };
        let Some(index) = chosen else { return };
        let channel = &mut self.channels[number];
        let job = channel.waiting.remove(index);
        let Command { die, transfer_ns, .. } = self.jobs[job].command;
        channel.serving = Some(job);
        channel.last_die = Some(die);
        self.run(job, Part::Transfer, transfer_ns);
    }
}
