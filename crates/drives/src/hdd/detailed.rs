//! Arm, platter, cache and queue followed through time.
//!
//! ```text
//!   accept ─► bus ─┬─ read in cache or under the head ──────────────────────────► done
//!                  ├─ read elsewhere ─► media queue ─► shortest positioning ────► done
//!                  ├─ write, room in the cache ─────────────────────────────────► done
//!                  │        └─ dirty ─► destage: rest, half full, or somebody waits
//!                  ├─ write, no room ─► blocked ─► a destage ends ──────────────► done
//!                  └─ flush ─► until nothing is dirty ──────────────────────────► done
//! ```
//!
//! 1. The mechanism does one thing at a time; what it does next is decided when it is free, among the
//!    commands that have arrived by then, by the shortest time to position (with a limit on age).
//! 2. Reads go before destages unless a write or a flush waits for room.
//! 3. A flush ends when nothing is dirty; writes issued after it wait until then.
//! 4. Reading ahead gives way to any other use of the arm at once.
//! 5. What the mechanism did by some time adds up to that time at most: readings count what has passed.
//! 6. Events happen in the order of time; none is decided before everything issued earlier is known.

use super::config::{HddConfig, MechanicsConfig};
use super::engine::{Command, Done, Engine, Pass, WorkAccount, WorkTimes};
use super::read_cache::ReadCache;
use super::seek::SeekCurve;
use super::surface::{Place, Surface};
use super::write_cache::WriteCache;
use nandu_base::Nanos;
use nandu_device::{Geometry, Operation};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A command that has waited this long goes first, wherever it lies.
const AGE_MAX: Nanos = Nanos::from_millis(500);

/// Dirty sectors on their way to the platters.
#[derive(Clone, Copy, Debug)]
struct Destage {
    first: u64,
    end: u64,
    ends_at: Nanos,
    /// Written again meanwhile, so still dirty afterwards.
    is_stale: bool,
}

/// What the mechanism may do next.
#[derive(Clone, Copy, Debug)]
enum Choice {
    /// The command at this index of the media queue.
    Media(usize),
    /// A run of sectors that the write cache holds and the disk does not have yet.
    Destage(u64, u64),
}

#[derive(Clone, Debug)]
pub(crate) struct DetailedEngine {
    config: HddConfig,
    mechanics: MechanicsConfig,
    sector_bytes: u64,
    surface: Surface,
    seek: SeekCurve,
    destage_delay: Nanos,
    read_cache: ReadCache,
    write_cache: Option<WriteCache>,
    now: Nanos,
    bus_free_at: Nanos,
    mechanism_free_at: Nanos,
    last_activity: Nanos,
    arm: Place,
    arriving: VecDeque<(Nanos, Command)>,
    media: VecDeque<Command>,
    blocked: VecDeque<Command>,
    flushes: VecDeque<Command>,
    destage: Option<Destage>,
    done: BinaryHeap<Reverse<Done>>,
    work: WorkAccount,
}

impl DetailedEngine {
    /// Builds the disk.
    ///
    /// # Errors
    /// If the figures leave no room for a sector on a track, or `config` has no mechanics.
    pub(crate) fn new(config: &HddConfig, geometry: Geometry) -> Result<Self, String> {
        let mechanics = config.mechanics.clone().ok_or("`mechanics` is missing")?;
        let sector_count = geometry.sector_count;
        let sector_bytes = u64::from(geometry.sector_bytes);
        let surface = Surface::new(config, &mechanics, geometry.sector_bytes, sector_count)?;
        let seek_times = [mechanics.seek_min_ns, config.seek_average_ns, mechanics.seek_max_ns];
        let seek = SeekCurve::new(mechanics.seek_shape, seek_times, surface.cylinder_count);
        let cache = config.cache.as_ref();
        let read_cache = cache.map_or_else(
            || ReadCache::new(0, 0, sector_count),
            |cache| {
                let ahead = cache.read_ahead_bytes / sector_bytes;
                ReadCache::new(cache.read_segment_count, ahead, sector_count)
            },
        );
        let write_cache = cache.filter(|cache| cache.write_cache_bytes > 0).map(|cache| {
            WriteCache::new(cache.write_cache_bytes / sector_bytes, cache.write_extent_count_max)
        });
        Ok(Self {
            arm: surface.locate(0),
            destage_delay: cache.map_or(Nanos::ZERO, |cache| cache.destage_delay_ns),
            config: config.clone(),
            mechanics,
            sector_bytes,
            surface,
            seek,
            read_cache,
            write_cache,
            now: Nanos::ZERO,
            bus_free_at: Nanos::ZERO,
            mechanism_free_at: Nanos::ZERO,
            last_activity: Nanos::ZERO,
            arriving: VecDeque::new(),
            media: VecDeque::new(),
            blocked: VecDeque::new(),
            flushes: VecDeque::new(),
            destage: None,
            done: BinaryHeap::new(),
            work: WorkAccount::default(),
        })
    }

    /// Time of `count` sectors on the cable.
    fn interface(&self, count: u64) -> Nanos {
        Nanos::of_transfer(count * self.sector_bytes, self.mechanics.interface_bytes_per_second)
    }

    fn finish(&mut self, command: Command, at: Nanos) {
        self.last_activity = self.last_activity.max(at);
        self.done.push(Reverse(Done { at, tag: command.tag }));
    }

    fn has_dirty(&self) -> bool {
        self.write_cache.as_ref().is_some_and(|cache| !cache.is_empty())
    }

    /// Whether a command cannot end before something is destaged.
    fn somebody_waits(&self) -> bool {
        !self.blocked.is_empty() || !self.flushes.is_empty()
    }

    /// When the mechanism has something to end or decide.
    fn mechanism_event(&self) -> Option<Nanos> {
        if let Some(destage) = &self.destage {
            return Some(destage.ends_at);
        }
        let dirty = self.has_dirty();
        if !self.media.is_empty() || (dirty && self.somebody_waits()) {
            return Some(self.mechanism_free_at);
        }
        let cache = self.write_cache.as_ref().filter(|_| dirty)?;
        let rest = if cache.is_half_full() { Nanos::ZERO } else { self.destage_delay };
        let rested = if rest == Nanos::ZERO { rest } else { self.last_activity + rest };
        Some(self.mechanism_free_at.max(rested))
    }

    /// When something happens next.
    fn next_event(&self) -> Option<Nanos> {
        let arrival = self.arriving.front().map(|(ready, _)| *ready);
        let mechanism = self.mechanism_event();
        let next = arrival.into_iter().chain(mechanism).min()?;
        Some(next.max(self.now))
    }

    /// Goes to `time` and does the first thing that is due then, as [`Self::next_event`] found.
    fn step(&mut self, time: Nanos) {
        self.now = time;
        if self.destage.is_some_and(|destage| destage.ends_at <= time) {
            self.end_destage();
        } else if self.arriving.front().is_some_and(|(ready, _)| *ready <= time) {
            let (_, command) = self.arriving.pop_front().expect("there is a first");
            self.arrive(command);
        } else {
            self.decide();
        }
    }

    fn arrive(&mut self, command: Command) {
        self.last_activity = self.last_activity.max(self.now);
        match command.operation {
            Operation::Trim => self.finish(command, self.now),
            Operation::Flush => {
                self.flushes.push_back(command);
                self.release();
            }
            Operation::Read if self.read_from_cache(command) => {}
            Operation::Read => self.media.push_back(command),
            Operation::Write => {
                self.forget(command.first, command.end());
                if self.write_cache.is_some() {
                    self.blocked.push_back(command);
                    self.release();
                } else {
                    self.media.push_back(command);
                }
            }
        }
    }

    /// Written sectors are in no segment. Those of a stream that a read waits for pass all the same.
    fn forget(&mut self, first: u64, end: u64) {
        let Some(began_at) = self.read_cache.forget(first, end, self.now) else { return };
        let from = began_at.max(self.now);
        if self.mechanism_free_at > from {
            let ends_at = self.mechanism_free_at;
            self.work.add(Pass { moves_from: from, waits_from: from, passes_from: from, ends_at });
        }
    }

    /// Ends `command` from the cache or from the sectors passing under the head, if they are there.
    fn read_from_cache(&mut self, command: Command) -> bool {
        let (first, end) = (command.first, command.end());
        let sent = self.now + self.interface(command.count);
        if self.write_cache.as_ref().is_some_and(|cache| cache.covers(first, end)) {
            self.finish(command, sent);
            return true;
        }
        let patience = self.config.revolution_ns;
        let hit = self.read_cache.hit(&self.surface, first, end, self.now, patience);
        let Some(available) = hit else {
            return false;
        };
        if available > self.now {
            self.mechanism_free_at = self.mechanism_free_at.max(available);
        }
        self.finish(command, sent.max(available));
        true
    }

    /// Lets in the writes that have room and ends the flushes that have nothing to wait for, in the
    /// order of issue.
    fn release(&mut self) {
        loop {
            let flush = self.flushes.front().map_or(u64::MAX, |flush| flush.tag);
            let write = self.blocked.front().map_or(u64::MAX, |write| write.tag);
            if flush < write {
                if self.has_dirty() {
                    return;
                }
                let flush = self.flushes.pop_front().expect("there is a first");
                self.finish(flush, self.now);
                continue;
            }
            let Some(&command) = self.blocked.front() else {
                return;
            };
            let cache = self.write_cache.as_mut().expect("without a cache nothing is blocked");
            if !cache.insert(command.first, command.end()) {
                return;
            }
            if let Some(destage) = &mut self.destage {
                destage.is_stale |= command.first < destage.end && destage.first < command.end();
            }
            self.blocked.pop_front();
            self.finish(command, self.now + self.interface(command.count));
        }
    }

    fn end_destage(&mut self) {
        let destage = self.destage.take().expect("a destage ends");
        if !destage.is_stale {
            let cache = self.write_cache.as_mut().expect("only a cache destages");
            cache.remove(destage.first, destage.end);
        }
        self.release();
    }

    /// The mechanism is free: what it does next.
    fn decide(&mut self) {
        let depth = self.mechanics.command_queue_depth as usize;
        let visible = self.media.len().min(depth);
        for index in 0..visible {
            let command = self.media[index];
            if command.operation == Operation::Read && self.read_from_cache(command) {
                self.media.remove(index);
                return;
            }
        }
        if let Some(reached) = self.read_cache.stop(&self.surface, self.now) {
            self.arm = self.surface.locate(reached.saturating_sub(1));
        }
        match self.choose(visible) {
            Choice::Media(index) => {
                let command = self.media.remove(index).expect("the choice is in the queue");
                self.serve(command);
            }
            Choice::Destage(first, end) => self.begin_destage(first, end),
        }
    }

    fn choose(&self, visible: usize) -> Choice {
        let oldest = self.media.front();
        if oldest.is_some_and(|command| self.now.saturating_sub(command.issued_at) > AGE_MAX) {
            return Choice::Media(0);
        }
        let media = (0..visible).map(|index| (self.media[index].first, Choice::Media(index)));
        let destages = self
            .write_cache
            .iter()
            .filter(|_| visible == 0 || self.somebody_waits())
            .flat_map(|cache| cache.extents())
            .map(|(first, end)| (first, Choice::Destage(first, end)));
        let cost = |first: u64| {
            let (movement, wait) = self.positioning(&self.surface.locate(first), self.now);
            movement + wait
        };
        let best = media.chain(destages).min_by_key(|(first, _)| cost(*first));
        best.expect("the mechanism decides only when there is work").1
    }

    /// Movement of the arm to `place` from `time` on, and the wait for its sector after that.
    fn positioning(&self, place: &Place, time: Nanos) -> (Nanos, Nanos) {
        let distance = place.cylinder.abs_diff(self.arm.cylinder);
        let movement = match distance {
            0 => self.surface.head_switch(&self.arm, place),
            _ => self.seek.time(distance),
        };
        (movement, self.surface.rotational_wait(place, time + movement))
    }

    /// Moves to `first` and passes `count` sectors; when the first begins and the last has passed.
    fn pass(&mut self, first: u64, count: u64) -> (Nanos, Nanos) {
        let (movement, wait) = self.positioning(&self.surface.locate(first), self.now);
        let begin = self.now + movement + wait;
        let end = self.surface.pass(first, count, begin);
        let waits_from = self.now + movement;
        let (moves_from, passes_from) = (self.now, begin);
        self.work.add(Pass { moves_from, waits_from, passes_from, ends_at: end });
        self.arm = self.surface.locate(first + count - 1);
        self.mechanism_free_at = end;
        (begin, end)
    }

    fn serve(&mut self, command: Command) {
        let (begin, end) = self.pass(command.first, command.count);
        let sent = begin + self.interface(command.count);
        if command.operation == Operation::Read {
            self.read_cache.start(&self.surface, command.first, command.end(), end);
        }
        self.finish(command, end.max(sent));
    }

    fn begin_destage(&mut self, first: u64, end: u64) {
        // A track at a time, so that reads need not wait for megabytes.
        let end = end.min(first + self.surface.locate(first).sectors_per_track);
        let (_, ends_at) = self.pass(first, end - first);
        self.destage = Some(Destage { first, end, ends_at, is_stale: false });
    }
}

impl Engine for DetailedEngine {
    fn accept(&mut self, command: Command) {
        self.advance(command.issued_at);
        let (overhead, moved) = match command.operation {
            Operation::Read => (self.config.read_overhead_ns, command.count),
            Operation::Write => (self.config.write_overhead_ns, command.count),
            Operation::Trim | Operation::Flush => (self.config.write_overhead_ns, 0),
        };
        let ready = self.bus_free_at.max(command.issued_at) + overhead;
        let transfer = self.interface(moved);
        self.bus_free_at = ready + transfer;
        self.work.add_bus(overhead + transfer);
        self.work.settle(command.issued_at);
        self.arriving.push_back((ready, command));
    }

    fn next_done(&mut self, until: Nanos) -> Option<Done> {
        loop {
            let known = self.done.peek().map_or(Nanos::MAX, |done| done.0.at);
            match self.next_event().filter(|event| *event < known && *event <= until) {
                Some(event) => self.step(event),
                None if known <= until => return self.done.pop().map(|done| done.0),
                None => return None,
            }
        }
    }

    fn advance(&mut self, time: Nanos) {
        while let Some(event) = self.next_event().filter(|event| *event < time) {
            self.step(event);
        }
        self.work.settle(time);
    }

    fn rests_since(&self) -> Option<Nanos> {
        let worked = self.bus_free_at.max(self.mechanism_free_at).max(self.last_activity);
        let worked = worked.max(self.read_cache.streams_until());
        self.next_event().is_none().then_some(worked)
    }

    fn work_by(&self, now: Nanos) -> WorkTimes {
        let mut work = self.work.by(now);
        work.transfer += self.read_cache.passed_by(now);
        work
    }

    fn ahead_to(&self, time: Nanos) -> Option<Box<dyn Engine>> {
        self.next_event().filter(|event| *event < time)?;
        let mut ahead = Box::new(self.clone());
        ahead.advance(time);
        Some(ahead)
    }

    fn audit(&self) {
        self.surface.audit();
        self.read_cache.audit();
        if let Some(cache) = &self.write_cache {
            cache.audit();
        }
        let holds = self.destage.is_none_or(|destage| {
            let cache = self.write_cache.as_ref().expect("only a cache destages");
            cache.covers(destage.first, destage.end) && destage.ends_at == self.mechanism_free_at
        });
        assert!(holds, "what is being destaged is dirty and keeps the mechanism busy");
        assert!(self.arriving.iter().is_sorted_by_key(|(ready, _)| *ready), "the bus is serial");
        assert!(self.flushes.is_empty() || self.has_dirty() || !self.blocked.is_empty(), "rule 3");
        let end = self.now.max(self.mechanism_free_at).max(self.read_cache.streams_until());
        assert!(self.work_by(end).of_mechanism() <= end, "rule 5: one thing at a time");
    }
}
