//! The virtual clock: time that passes only when somebody says so.
//!
//! 1. It never runs backwards.

use crate::Nanos;

/// Simulated time since the start of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VirtualClock {
    now: Nanos,
}

impl VirtualClock {
    /// A clock at zero.
    #[must_use]
    pub const fn new() -> Self {
        Self { now: Nanos::ZERO }
    }

    /// The simulated time that has passed since the clock was made.
    #[must_use]
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// Moves to `time`, or stays where `time` is already past. Returns the new present.
    pub fn advance_to(&mut self, time: Nanos) -> Nanos {
        self.now = self.now.max(time);
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_is_never_entered() {
        let mut clock = VirtualClock::new();
        assert_eq!(clock.advance_to(Nanos(5)), Nanos(5));
        assert_eq!(clock.advance_to(Nanos(3)), Nanos(5));
    }
}
