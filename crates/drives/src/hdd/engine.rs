//! What finds the times of a hard disk's requests: no data, no buffers, only places and moments.

use nandu_base::Nanos;
use nandu_device::Operation;
use std::collections::VecDeque;
use std::ops::{Add, AddAssign, Sub};

/// A request without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// Counts the accepted requests; names the command in [`Done`].
    pub(crate) tag: u64,
    pub(crate) operation: Operation,
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) issued_at: Nanos,
}

impl Command {
    /// The first sector past the command.
    pub(crate) const fn end(&self) -> u64 {
        self.first + self.count
    }
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Done {
    pub(crate) at: Nanos,
    pub(crate) tag: u64,
}

/// How long the parts of a disk worked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkTimes {
    /// Time for which the arm moved.
    pub(crate) seek: Nanos,
    /// The head waited for its sector.
    pub(crate) rotation: Nanos,
    /// Sectors passed under the head for a request, a destage or ahead of requests.
    pub(crate) transfer: Nanos,
    /// Time that the controller and the cable took.
    pub(crate) bus: Nanos,
}

impl WorkTimes {
    pub(crate) fn total(&self) -> Nanos {
        self.seek + self.rotation + self.transfer + self.bus
    }

    /// What the mechanism alone did, which does one thing at a time.
    pub(crate) fn of_mechanism(&self) -> Nanos {
        self.seek + self.rotation + self.transfer
    }

    fn zip(self, other: Self, of: fn(Nanos, Nanos) -> Nanos) -> Self {
        Self {
            seek: of(self.seek, other.seek),
            rotation: of(self.rotation, other.rotation),
            transfer: of(self.transfer, other.transfer),
            bus: of(self.bus, other.bus),
        }
    }
}

impl AddAssign for WorkTimes {
    fn add_assign(&mut self, other: Self) {
        *self = self.zip(other, Add::add);
    }
}

impl Sub for WorkTimes {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.zip(other, Sub::sub)
    }
}

/// One thing that the mechanism does: the arm moves, the head waits, sectors pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    pub(crate) moves_from: Nanos,
    pub(crate) waits_from: Nanos,
    pub(crate) passes_from: Nanos,
    pub(crate) ends_at: Nanos,
}

impl Pass {
    /// What of it comes after `time`.
    fn after(&self, time: Nanos) -> WorkTimes {
        let rest = |from: Nanos, to: Nanos| to.saturating_sub(from.max(time));
        WorkTimes {
            seek: rest(self.moves_from, self.waits_from),
            rotation: rest(self.waits_from, self.passes_from),
            transfer: rest(self.passes_from, self.ends_at),
            bus: Nanos::ZERO,
        }
    }
}

/// Adds up what was decided, and knows what of it lies ahead: a reading tells what has passed.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkAccount {
    decided: WorkTimes,
    /// What may not be over yet, in the order of time.
    open: VecDeque<Pass>,
}

impl WorkAccount {
    pub(crate) fn add(&mut self, pass: Pass) {
        self.decided += pass.after(Nanos::ZERO);
        self.open.push_back(pass);
    }

    /// The controller and the cable work for so long.
    pub(crate) fn add_bus(&mut self, time: Nanos) {
        self.decided.bus += time;
    }

    /// It is `time`: what ended before is over.
    pub(crate) fn settle(&mut self, time: Nanos) {
        while self.open.front().is_some_and(|pass| pass.ends_at <= time) {
            self.open.pop_front();
        }
    }

    /// What was done by `time`, which is not before the last that was settled.
    pub(crate) fn by(&self, time: Nanos) -> WorkTimes {
        self.open.iter().fold(self.decided, |work, pass| work - pass.after(time))
    }
}

/// A way to find the times. Time only moves forwards from call to call.
pub(crate) trait Engine: std::fmt::Debug + Send {
    /// Takes over a command; what was decided before `command.issued_at` stays decided.
    fn accept(&mut self, command: Command);
    /// The command that ends next, if at or before `until`. Decisions that lie later than that end
    /// stay open, since they may depend on commands not yet issued.
    fn next_done(&mut self, until: Nanos) -> Option<Done>;
    /// Lets background work go on up to `time`.
    fn advance(&mut self, time: Nanos);
    /// Since when nothing has worked or waited, if nothing does. It may lie ahead of the present.
    fn rests_since(&self) -> Option<Nanos>;
    /// How long the parts worked by `now`, of which nothing lies ahead but the bus.
    fn work_by(&self, now: Nanos) -> WorkTimes;
    /// The engine as it will be at `time` without further commands, if it has something to decide by then.
    fn ahead_to(&self, time: Nanos) -> Option<Box<dyn Engine>>;
    /// Asserts the numbered invariants of the model.
    fn audit(&self);
}
