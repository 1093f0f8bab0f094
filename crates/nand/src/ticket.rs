//! What a command answers: a hold on its end.
//!
//! Layers change their tables when they are called and never learn what time it is. What must wait for
//! something else names it by its ticket, and the array says when.
//!
//! 1. With a single server a ticket is the time of the end, known at once.
//! 2. With dies and channels side by side it names a command, or several joined, that the event core
//!    has not ended yet; a place that was used again since belongs to somebody else, so the generation
//!    tells that what it named has ended.

use nandu_base::Nanos;

/// A hold on the end of one or several commands, or on a moment that has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket(u64);

impl Ticket {
    /// What has nothing to wait for.
    pub const READY: Self = Self(0);

    /// A moment of a single server.
    #[inline]
    #[must_use]
    pub const fn of_time(time: Nanos) -> Self {
        Self(time.0)
    }

    /// When a single server is done with it. Means nothing where dies work side by side.
    #[inline]
    #[must_use]
    pub const fn time(self) -> Nanos {
        Nanos(self.0)
    }

    /// A node of the event core, in the generation of its present use.
    #[inline]
    pub(crate) const fn of_node(index: u32, generation: u32) -> Self {
        Self((generation as u64) << 32 | (index as u64 + 1))
    }

    /// The node and its generation; none where there is nothing to wait for.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the low half is the node's number")]
    pub(crate) const fn node(self) -> Option<(u32, u32)> {
        match self.0 as u32 {
            0 => None,
            index => Some((index - 1, (self.0 >> 32) as u32)),
        }
    }
}
