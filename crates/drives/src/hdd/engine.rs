//! What finds the times of a hard disk's requests: no data, no buffers, only places and moments.

use nandu_base::Nanos;
use nandu_device::Operation;

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
    /// Sectors passed under the head for a request or a destage.
    pub(crate) transfer: Nanos,
    /// Time that the controller and the cable took.
    pub(crate) bus: Nanos,
}

impl WorkTimes {
    pub(crate) fn total(&self) -> Nanos {
        self.seek + self.rotation + self.transfer + self.bus
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
    /// How long the parts worked so far.
    fn work(&self) -> WorkTimes;
    /// Asserts the numbered invariants of the model.
    fn audit(&self);
}
