//! When dies and channels are busy: two numbers for a die, three for a channel, no event queue.
//!
//! ```text
//! read      die  [command+array read][ wait ][ transfer ]        transfer holds the channel
//! program   die  [command][ wait ][ transfer ][ array program ]
//! erase     die  [command+array erase]
//! ```
//!
//! 1. A die does one thing at a time; with a cache register the transfer of the next program may
//!    overlap the array, and the array may read on while the register empties.
//! 2. A channel moves one transfer at a time. The gap before its last reservation is kept, so that a
//!    transfer that is ready earlier and fits does not queue behind one that waits for its array.
//! 3. Reservations are made in the order of the calls, each from the earliest time that fits.
//! 4. The page register of a die holds the flash page of its last read, until any other command.
//! 5. With a single server there is one clock for everything: commands follow each other.
//! 6. Under read priority an urgent read goes before every command of its die that has not begun, and
//!    with suspension inside the one that has; what it overtakes ends later by what it takes.
//! 7. Transfers of urgent reads share a channel among themselves: each takes the first gap that it
//!    fits, so that one which waits for its die does not hold up those of other dies.

use crate::scheduling::{Promise, Scheduling, Service, Suspend};
use nandu_base::Nanos;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    free: u64,
    gap_start: u64,
    gap_end: u64,
}

impl Channel {
    /// Reserves `length` from `earliest` on; answers when the transfer starts.
    #[inline]
    fn reserve(&mut self, earliest: u64, length: u64) -> u64 {
        if length == 0 {
            return earliest;
        }
        let in_gap = earliest.max(self.gap_start);
        if in_gap + length <= self.gap_end {
            self.gap_start = in_gap + length;
            return in_gap;
        }
        let start = earliest.max(self.free);
        if start > self.free {
            (self.gap_start, self.gap_end) = (self.free, start);
        }
        self.free = start + length;
        start
    }
}

/// What a die does, as far as suspension cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    UrgentRead,
    Program,
    Erase,
}

/// Die and channel of a command.
pub(crate) type Place = (usize, usize);

#[derive(Clone, Copy, Debug, Default)]
struct Die {
    array_free: u64,
    register_free: u64,
    /// One more than the flash page in the page register; zero for none.
    register_page: u64,
}

/// Start and end of a command on its die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
}

/// What is not yet done on a die, and by how much it was overtaken.
#[derive(Clone, Debug, Default)]
struct Overtaking {
    pending: VecDeque<(u64, u64, Kind)>,
    /// Times at which urgent reads went in, with what each took, in order of insertion.
    pushes: Vec<(u64, u64)>,
    /// Pushes that were dropped from the front because nothing waits for them.
    dropped: u64,
}

/// Transfers of urgent reads on a channel that are not over, in order of time; none overlap.
#[derive(Clone, Debug, Default)]
struct UrgentLine {
    reserved: VecDeque<(u64, u64)>,
}

impl UrgentLine {
    /// Reserves `length` in the first gap from `earliest` on; answers when the transfer starts. What
    /// was over by `now` is forgotten.
    fn reserve(&mut self, now: u64, earliest: u64, length: u64) -> u64 {
        while self.reserved.front().is_some_and(|&(_, end)| end <= now) {
            self.reserved.pop_front();
        }
        if length == 0 {
            return earliest;
        }
        let mut start = earliest;
        let mut place = 0;
        for &(other_start, other_end) in &self.reserved {
            if start + length <= other_start {
                break;
            }
            start = start.max(other_end);
            place += 1;
        }
        self.reserved.insert(place, (start, start + length));
        start
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    dies: Vec<Die>,
    channels: Vec<Channel>,
    cache_register: bool,
    scheduling: Scheduling,
    /// By die; empty without read priority.
    overtaking: Vec<Overtaking>,
    /// By channel; empty without read priority.
    urgent_lines: Vec<UrgentLine>,
    last_die: usize,
    busy: u64,
}

impl Timeline {
    pub(crate) fn new(die_count: usize, channel_count: usize, cache_register: bool) -> Self {
        Self {
            dies: vec![Die::default(); die_count],
            channels: vec![Channel::default(); channel_count],
            cache_register,
            scheduling: Scheduling::default(),
            overtaking: Vec::new(),
            urgent_lines: Vec::new(),
            last_die: 0,
            busy: 0,
        }
    }

    pub(crate) fn schedule(&mut self, scheduling: Scheduling) {
        let (dies, channels) = match scheduling.read_priority {
            true => (self.dies.len(), self.channels.len()),
            false => (0, 0),
        };
        self.overtaking = vec![Overtaking::default(); dies];
        self.urgent_lines = vec![UrgentLine::default(); channels];
        self.scheduling = scheduling;
    }

    /// Array first, then `transfer` over the channel.
    #[inline]
    pub(crate) fn array_then_bus(
        &mut self,
        (die, channel): Place,
        now: Nanos,
        (array, transfer): (u64, u64),
        kind: Kind,
    ) -> Span {
        if self.is_single_server() {
            return self.follow(Some(die), now, array + transfer);
        }
        self.busy += array + transfer;
        if !self.overtaking.is_empty() && kind == Kind::UrgentRead {
            return self.overtake((die, channel), now, array, transfer);
        }
        let timeline = &mut self.dies[die];
        timeline.register_page = 0;
        let start = now.0.max(timeline.array_free);
        let ready = (start + array).max(timeline.register_free);
        let end = self.channels[channel].reserve(ready, transfer) + transfer;
        timeline.register_free = end;
        timeline.array_free = if self.cache_register { ready } else { end };
        self.remember(die, now.0, (start, end, kind));
        Span { start: Nanos(start), end: Nanos(end) }
    }

    /// `command` on the die, `transfer` over the channel, then the array.
    #[inline]
    pub(crate) fn bus_then_array(
        &mut self,
        (die, channel): Place,
        now: Nanos,
        (command, transfer, array): (u64, u64, u64),
    ) -> Span {
        if self.is_single_server() {
            return self.follow(Some(die), now, command + transfer + array);
        }
        self.busy += command + transfer + array;
        let timeline = &mut self.dies[die];
        timeline.register_page = 0;
        let free = if self.cache_register { timeline.register_free } else { timeline.array_free };
        let ready = now.0.max(free) + command;
        let loaded = self.channels[channel].reserve(ready, transfer) + transfer;
        let start = loaded.max(timeline.array_free);
        let end = start + array;
        timeline.array_free = end;
        // The cache register is handed to the array at its start and free for the next transfer.
        timeline.register_free = start;
        self.remember(die, now.0, (start, end, Kind::Program));
        Span { start: Nanos(ready - command), end: Nanos(end) }
    }

    /// `count` programs, one after the other, all issued at `now`; answers the last.
    #[inline]
    pub(crate) fn programs(
        &mut self,
        place: Place,
        now: Nanos,
        times: (u64, u64, u64),
        count: usize,
    ) -> Span {
        if self.is_single_server() {
            let each = times.0 + times.1 + times.2;
            return self.follow(Some(place.0), now, each * count as u64);
        }
        let mut span = self.bus_then_array(place, now, times);
        for _ in 1..count {
            span = self.bus_then_array(place, now, times);
        }
        span
    }

    /// Reads one after the other, all issued at `now`; answers when the last is done.
    #[inline]
    pub(crate) fn reads(
        &mut self,
        place: Place,
        now: Nanos,
        array: u64,
        transfers: impl Iterator<Item = u64>,
    ) -> Nanos {
        let read = |transfer| self.array_then_bus(place, now, (array, transfer), Kind::Read).end;
        transfers.map(read).max().unwrap_or(now)
    }

    #[inline]
    pub(crate) const fn is_single_server(&self) -> bool {
        matches!(self.scheduling.service, Service::SingleServer)
    }

    /// Invariant 5: the first die's clock is everybody's. Takes `length` for all commands of a batch.
    /// Without a die, no page register is ever loaded.
    #[inline]
    pub(crate) fn follow(&mut self, die: Option<usize>, now: Nanos, length: u64) -> Span {
        self.busy += length;
        if let Some(die) = die {
            self.dies[die].register_page = 0;
        }
        let start = now.0.max(self.dies[0].array_free);
        self.dies[0].array_free = start + length;
        Span { start: Nanos(start), end: Nanos(start + length) }
    }

    #[inline]
    fn remember(&mut self, die: usize, now: u64, command: (u64, u64, Kind)) {
        if let Some(overtaking) = self.overtaking.get_mut(die) {
            overtaking.forget_done(now);
            overtaking.pending.push_back(command);
            self.last_die = die;
        }
    }

    fn overtake(&mut self, (die, channel): Place, now: Nanos, array: u64, transfer: u64) -> Span {
        let overtaking = &mut self.overtaking[die];
        overtaking.forget_done(now.0);
        let (start, pause) = overtaking.entry(now.0, self.scheduling.suspend);
        let loaded = start + array;
        let end = self.urgent_lines[channel].reserve(now.0, loaded, transfer) + transfer;
        // The channel's later reservations are not moved one by one: it is busy that much longer.
        let line = &mut self.channels[channel];
        line.free = line.free.max(loaded) + transfer;
        let timeline = &mut self.dies[die];
        timeline.register_page = 0;
        timeline.register_free = timeline.register_free.max(end);
        let delta = end - start + pause;
        let pushed = overtaking.push_back(start, delta);
        timeline.array_free = if pushed { timeline.array_free + delta } else { end };
        let pending = &mut overtaking.pending;
        let position = pending.iter().take_while(|command| command.0 < start).count();
        pending.insert(position, (start, end, Kind::UrgentRead));
        self.last_die = die;
        Span { start: Nanos(start), end: Nanos(end) }
    }

    /// What it takes to follow the end of the last command later: see [`Self::revise`].
    pub(crate) fn promise(&self) -> Promise {
        let pushes = self.overtaking.get(self.last_die).map_or(0, Overtaking::push_count);
        Promise { die: self.last_die, pushes }
    }

    /// The end of a command that was promised for `end`, after what has overtaken it since.
    pub(crate) fn revise(&self, promise: Promise, end: Nanos) -> (Promise, Nanos) {
        let Some(overtaking) = self.overtaking.get(promise.die) else { return (promise, end) };
        let mut end = end.0;
        let seen = usize::try_from(promise.pushes.saturating_sub(overtaking.dropped));
        for &(at, delta) in overtaking.pushes.iter().skip(seen.unwrap_or(usize::MAX)) {
            if at < end {
                end += delta;
            }
        }
        (Promise { pushes: overtaking.push_count(), ..promise }, Nanos(end))
    }

    /// Whether the page register of `die` holds `flash_page`.
    pub(crate) fn register_holds(&self, die: usize, flash_page: u64) -> bool {
        self.dies[die].register_page == flash_page + 1
    }

    /// The command just reserved left `flash_page` in the page register of `die`.
    pub(crate) fn load_register(&mut self, die: usize, flash_page: u64) {
        self.dies[die].register_page = flash_page + 1;
    }

    pub(crate) fn die_free_at(&self, die: usize) -> Nanos {
        let die = if self.scheduling.service == Service::SingleServer { 0 } else { die };
        Nanos(self.dies[die].array_free)
    }

    pub(crate) fn all_free_at(&self) -> Nanos {
        let dies = self.dies.iter().map(|die| die.array_free.max(die.register_free));
        Nanos(dies.max().unwrap_or(0))
    }

    pub(crate) fn busy(&self) -> Nanos {
        Nanos(self.busy)
    }

    /// Forgets every reservation past `at`: the power went.
    pub(crate) fn cut(&mut self, at: Nanos) {
        for die in &mut self.dies {
            die.array_free = die.array_free.min(at.0);
            die.register_free = die.register_free.min(at.0);
            die.register_page = 0;
        }
        for channel in &mut self.channels {
            channel.free = channel.free.min(at.0);
            (channel.gap_start, channel.gap_end) = (0, 0);
        }
        self.overtaking.fill(Overtaking::default());
        self.urgent_lines.fill(UrgentLine::default());
    }
}

impl Overtaking {
    fn push_count(&self) -> u64 {
        self.dropped + self.pushes.len() as u64
    }

    /// When an urgent read can start, and the pause that it costs the command which has begun.
    fn entry(&self, now: u64, suspend: Option<Suspend>) -> (u64, u64) {
        let is_urgent = |command: &&(_, u64, _)| command.2 == Kind::UrgentRead && command.1 > now;
        if let Some(end) = self.pending.iter().filter(is_urgent).map(|command| command.1).max() {
            return (end, 0);
        }
        let Some(&(begun, end, kind)) = self.pending.front() else { return (now, 0) };
        if begun > now {
            return (now, 0);
        }
        let pause = suspend.and_then(|suspend| match kind {
            Kind::Program => Some(suspend.program_ns.0),
            Kind::Erase => Some(suspend.erase_ns.0),
            Kind::Read | Kind::UrgentRead => None,
        });
        match pause {
            // Close to its end the command is faster done than suspended.
            Some(pause) if now + pause < end => (now + pause, pause),
            _ => (end, 0),
        }
    }

    /// Everything that is not done by `start` ends `delta` later; whether there was anything.
    fn push_back(&mut self, start: u64, delta: u64) -> bool {
        let mut pushed = false;
        for command in self.pending.iter_mut().filter(|command| command.1 > start) {
            if command.0 >= start {
                command.0 += delta;
            }
            command.1 += delta;
            pushed = true;
        }
        if pushed {
            self.pushes.push((start, delta));
        }
        pushed
    }

    /// Drops what ended by `now`; once nothing is pending nobody waits for a revision any more.
    #[inline]
    fn forget_done(&mut self, now: u64) {
        while self.pending.front().is_some_and(|&(_, end, _)| end <= now) {
            self.pending.pop_front();
        }
        if self.pending.is_empty() && !self.pushes.is_empty() {
            self.dropped += self.pushes.len() as u64;
            self.pushes.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(spans: &[Span]) -> Vec<u64> {
        spans.iter().map(|span| span.end.0).collect()
    }

    #[test]
    fn two_dies_on_one_channel_share_only_the_bus() {
        let mut timeline = Timeline::new(2, 1, false);
        let reads =
            [0, 1, 0].map(|die| timeline.array_then_bus((die, 0), Nanos(0), (20, 50), Kind::Read));
        // Die 1 reads beside die 0 and waits for the bus; die 0 starts again when its own is done.
        assert_eq!(ends(&reads), [70, 120, 170]);
    }

    #[test]
    fn two_channels_share_nothing() {
        let mut timeline = Timeline::new(2, 2, false);
        let reads =
            [0, 1].map(|die| timeline.array_then_bus((die, die), Nanos(5), (20, 50), Kind::Read));
        assert_eq!(ends(&reads), [75, 75]);
    }

    #[test]
    fn programs_transfer_first_and_overlap_in_the_array() {
        let mut timeline = Timeline::new(2, 1, false);
        let programs =
            [0, 1, 0].map(|die| timeline.bus_then_array((die, 0), Nanos(0), (0, 50, 200)));
        assert_eq!(ends(&programs), [250, 300, 500]);
    }

    #[test]
    fn a_cache_register_hides_the_transfer() {
        let mut timeline = Timeline::new(1, 1, true);
        let programs = [0; 3].map(|die| timeline.bus_then_array((die, 0), Nanos(0), (0, 50, 200)));
        assert_eq!(ends(&programs), [250, 450, 650]);
    }

    #[test]
    fn a_transfer_that_is_ready_uses_the_gap_before_one_that_waits() {
        let mut timeline = Timeline::new(2, 1, false);
        let read = timeline.array_then_bus((0, 0), Nanos(0), (100, 50), Kind::Read);
        let program = timeline.bus_then_array((1, 0), Nanos(0), (0, 50, 200));
        assert_eq!((read.end, program.end), (Nanos(150), Nanos(250)));
        // What is left of the gap is 50..100.
        let late = timeline.array_then_bus((1, 0), Nanos(0), (0, 60), Kind::Read);
        assert_eq!(late.end, Nanos(310));
    }

    fn timeline_of(scheduling: Scheduling) -> Timeline {
        let mut timeline = Timeline::new(2, 1, false);
        timeline.schedule(scheduling);
        timeline
    }

    #[test]
    fn a_single_server_does_one_command_after_the_other() {
        let mut timeline =
            timeline_of(Scheduling { service: Service::SingleServer, ..Scheduling::default() });
        let read = timeline.array_then_bus((0, 0), Nanos(0), (20, 50), Kind::Read);
        let program = timeline.bus_then_array((1, 0), Nanos(0), (1, 50, 200));
        let late = timeline.array_then_bus((1, 0), Nanos(500), (20, 50), Kind::Read);
        assert_eq!(ends(&[read, program, late]), [70, 321, 570]);
    }

    #[test]
    fn an_urgent_read_overtakes_what_has_not_begun_and_pushes_it_back() {
        let mut timeline = timeline_of(Scheduling { read_priority: true, ..Scheduling::default() });
        let first = timeline.bus_then_array((0, 0), Nanos(0), (0, 0, 200));
        let second = timeline.bus_then_array((0, 0), Nanos(0), (0, 0, 200));
        let promise = timeline.promise();
        let read = timeline.array_then_bus((0, 0), Nanos(50), (20, 5), Kind::UrgentRead);
        assert_eq!(ends(&[first, second, read]), [200, 400, 225]);
        assert_eq!(timeline.revise(promise, second.end).1, Nanos(425));
        assert_eq!(timeline.die_free_at(0), Nanos(425));
        // A second read goes behind the first, and another push follows.
        let read = timeline.array_then_bus((0, 0), Nanos(60), (20, 5), Kind::UrgentRead);
        assert_eq!(timeline.revise(promise, second.end).1, Nanos(450));
        assert_eq!(read.end, Nanos(250));
        // What was done before is not pushed.
        let other = timeline.bus_then_array((1, 0), Nanos(1000), (0, 0, 200));
        assert_eq!(other.end, Nanos(1200));
    }

    #[test]
    fn urgent_reads_of_two_dies_share_their_channel() {
        let urgent = |timeline: &mut Timeline, die, now, transfer| {
            timeline.array_then_bus((die, 0), Nanos(now), (20, transfer), Kind::UrgentRead).end.0
        };
        let mut timeline = timeline_of(Scheduling { read_priority: true, ..Scheduling::default() });
        // Both are sensed by 20, one after the other crosses the bus.
        assert_eq!(urgent(&mut timeline, 0, 0, 50), 70);
        assert_eq!(urgent(&mut timeline, 1, 0, 50), 120);
        // The next of die 0 is ready at 90, and waits for the bus.
        assert_eq!(urgent(&mut timeline, 0, 0, 50), 170);
        assert_eq!(timeline.die_free_at(0), Nanos(170));

        let mut timeline = timeline_of(Scheduling { read_priority: true, ..Scheduling::default() });
        timeline.bus_then_array((0, 0), Nanos(0), (0, 0, 1000));
        assert_eq!(urgent(&mut timeline, 0, 1, 50), 1070, "behind the program that has begun");
        assert_eq!(urgent(&mut timeline, 1, 1, 50), 71, "in the gap before it");
        assert_eq!(urgent(&mut timeline, 1, 1, 970), 2040, "too long for what is left of the gap");
    }

    #[test]
    fn a_suspended_program_ends_later_by_the_read_and_the_pause() {
        let suspend = crate::Suspend { program_ns: Nanos(10), erase_ns: Nanos(30) };
        let mut timeline = timeline_of(Scheduling {
            read_priority: true,
            suspend: Some(suspend),
            ..Scheduling::default()
        });
        let program = timeline.bus_then_array((0, 0), Nanos(0), (0, 0, 200));
        let promise = timeline.promise();
        let read = timeline.array_then_bus((0, 0), Nanos(50), (20, 5), Kind::UrgentRead);
        assert_eq!(read.end, Nanos(85));
        assert_eq!(timeline.revise(promise, program.end).1, Nanos(235));
        // Nearly done: waiting is faster.
        let late = timeline.array_then_bus((0, 0), Nanos(230), (20, 5), Kind::UrgentRead);
        assert_eq!(late.end, Nanos(260));
    }
}
