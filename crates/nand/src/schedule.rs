//! When commands are done: by a single server, which has one clock, or by the event core, where every
//! die and channel works for itself.
//!
//! 1. With a single server commands follow each other in the order of their issue.
//! 2. While a layer prepares an array, commands take no time.
//! 3. The page register of a die holds the flash page of its last read, until any other command.

use crate::events::{Command, EventCore, Progress};
use crate::{Scheduling, Service, Ticket};
use nandu_base::{Cause, FlashOperation, Nanos, to_u32};

/// The clock of a single server.
#[derive(Clone, Debug)]
struct SingleServer {
    free_at: u64,
    busy_ns: u64,
    /// By die, one more than the flash page in its page register; 0 for none.
    register_pages: Vec<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    is_single_server: bool,
    is_preparing: bool,
    single: SingleServer,
    pub(crate) core: EventCore,
}

impl Schedule {
    pub(crate) fn new(
        (die_count, channel_count, group_count): (usize, usize, usize),
        has_cache_register: bool,
    ) -> Self {
        let register_pages = vec![0; die_count];
        let mut core = EventCore::new(die_count, channel_count, has_cache_register);
        core.schedule(Scheduling::default(), group_count);
        Self {
            is_single_server: false,
            is_preparing: false,
            single: SingleServer { free_at: 0, busy_ns: 0, register_pages },
            core,
        }
    }

    pub(crate) fn schedule(&mut self, scheduling: Scheduling, group_count: usize) {
        self.is_single_server = scheduling.service == Service::SingleServer;
        self.core.schedule(scheduling, group_count);
    }

    #[inline]
    pub(crate) const fn is_single_server(&self) -> bool {
        self.is_single_server
    }

    pub(crate) const fn prepare(&mut self, is_preparing: bool) {
        self.is_preparing = is_preparing;
    }

    #[inline]
    pub(crate) const fn is_preparing(&self) -> bool {
        self.is_preparing
    }

    /// Takes a command that waits for `after`.
    #[inline]
    pub(crate) fn issue(&mut self, after: Ticket, command: &Command) -> Ticket {
        if self.is_preparing {
            return Ticket::READY;
        }
        if !self.is_single_server {
            return self.core.issue(after, command);
        }
        let register = &mut self.single.register_pages[command.die];
        let mut array_ns = command.array_ns;
        match command.sensed {
            Some((page, _)) if *register == page + 1 => array_ns = 0,
            Some((page, planes)) => {
                *register = page + 1;
                self.core.counters.add(FlashOperation::Read, command.cause, planes);
            }
            None => *register = 0,
        }
        self.follow(after, command.command_ns + array_ns + command.transfer_ns)
    }

    /// `count` equal commands, one after the other; answers the last.
    #[inline]
    pub(crate) fn issue_many(&mut self, after: Ticket, command: &Command, count: usize) -> Ticket {
        if self.is_single_server && !self.is_preparing {
            self.single.register_pages[command.die] = 0;
            let each = command.command_ns + command.array_ns + command.transfer_ns;
            return self.follow(after, each * count as u64);
        }
        if self.is_preparing {
            return Ticket::READY;
        }
        self.core.issue_many(after, command, to_u32(count as u64))
    }

    /// The single server works for `length` once `after` is over.
    #[inline]
    pub(crate) fn follow(&mut self, after: Ticket, length: u64) -> Ticket {
        if self.is_preparing {
            return Ticket::READY;
        }
        self.single.busy_ns += length;
        let end = after.time().0.max(self.single.free_at) + length;
        self.single.free_at = end;
        Ticket::of_time(Nanos(end))
    }

    /// Without a page in it.
    #[inline]
    pub(crate) fn empty_register(&mut self, die: usize) {
        self.single.register_pages[die] = 0;
    }

    #[inline]
    pub(crate) fn both(&mut self, one: Ticket, other: Ticket) -> Ticket {
        match self.is_single_server {
            true => Ticket::of_time(one.time().max(other.time())),
            false => self.core.both(one, other),
        }
    }

    #[inline]
    pub(crate) fn gather(&mut self, all: &mut Ticket, one: Ticket) {
        match self.is_single_server {
            true => *all = Ticket::of_time(all.time().max(one.time())),
            false => self.core.gather(all, one),
        }
    }

    /// What was issued so far, all of it.
    pub(crate) fn everything(&mut self) -> Ticket {
        match self.is_single_server {
            true => Ticket::of_time(Nanos(self.single.free_at)),
            false => self.core.everything(),
        }
    }

    /// When everything issued so far will have ended.
    pub(crate) fn will_end_at(&self) -> Nanos {
        if self.is_single_server {
            return Nanos(self.single.free_at);
        }
        let mut ahead = self.core.clone();
        while ahead.step() {}
        ahead.now()
    }

    /// Runs until `ticket` has ended; answers the time then.
    pub(crate) fn finish(&mut self, ticket: Ticket) -> Nanos {
        if self.is_single_server {
            return ticket.time();
        }
        self.core.finish(ticket);
        self.core.now()
    }

    /// Runs until `ticket` has ended, but not past `until`; answers the time then.
    pub(crate) fn finish_by(&mut self, ticket: Ticket, until: Nanos) -> Nanos {
        if self.is_single_server {
            return ticket.time();
        }
        while !self.core.is_done(ticket) && self.core.next_event().is_some_and(|at| at <= until) {
            self.core.step();
        }
        if !self.core.is_done(ticket) {
            self.core.advance_to(until);
        }
        self.core.now()
    }

    /// A ticket of the moment `now`, which becomes the present unless that is later.
    #[inline]
    pub(crate) fn at(&mut self, now: Nanos) -> Ticket {
        if self.is_single_server {
            return Ticket::of_time(now);
        }
        self.core.advance_to(now);
        Ticket::READY
    }

    /// How far a command is at `now`; none once it has ended. `begun_at` is that of a single server.
    pub(crate) fn progress(&self, ticket: Ticket, begun_at: Nanos, now: Nanos) -> Option<Progress> {
        if !self.is_single_server {
            return self.core.progress(ticket);
        }
        match (ticket.time() <= now, begun_at <= now) {
            (true, _) => None,
            (false, true) => Some(Progress::Begun),
            (false, false) => Some(Progress::Queued),
        }
    }

    pub(crate) fn busy(&self) -> Nanos {
        Nanos(self.single.busy_ns) + self.core.busy()
    }

    /// The power goes at `at`: what has not ended is forgotten.
    pub(crate) fn cut(&mut self, at: Nanos) {
        self.single.free_at = self.single.free_at.min(at.0);
        self.single.register_pages.fill(0);
        self.core.clear();
    }

    /// Counts a command when it is issued.
    #[inline]
    pub(crate) fn count(&mut self, operation: FlashOperation, cause: Cause, count: u64) {
        self.core.counters.add(operation, cause, count);
    }
}
