//! The wall clock of the program: how long the work itself takes. Nothing that is simulated sees it.

#![allow(clippy::disallowed_types, reason = "progress and speed are told in the user's own time")]

use std::time::{Duration, Instant, SystemTime};

/// Time since it was started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch {
    started: Instant,
}

impl Stopwatch {
    /// A stopwatch that runs from now on.
    pub(crate) fn start() -> Self {
        Self { started: Instant::now() }
    }

    /// The time since.
    pub(crate) fn elapsed(self) -> Duration {
        self.started.elapsed()
    }

    /// The time since in nanoseconds, five centuries at most.
    pub(crate) fn nanos(self) -> u64 {
        u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// What is left if the rest goes as fast as `fraction` of the work did, in words; nothing while
    /// it is too early to tell.
    pub(crate) fn time_left(self, fraction: f64) -> String {
        let seconds = self.elapsed().as_secs_f64();
        if fraction < 0.01 || seconds < 1.0 {
            return String::new();
        }
        in_words(seconds / fraction.min(1.0) * (1.0 - fraction.min(1.0)))
    }
}

/// Seconds since 1970, which meters of others write beside what they measure.
pub(crate) fn unix_seconds() -> f64 {
    since_1970().as_secs_f64()
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Now, as results tell when they came about.
pub(crate) fn date() -> String {
    let since = since_1970();
    nandu_lab::machine::date_text(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// `12 s left`, `10 min left`, `2.5 h left`.
pub(crate) fn in_words(seconds: f64) -> String {
    format!("{} left", duration_in_words(seconds))
}

/// `12 s`, `10 min`, `2.5 h`.
pub(crate) fn duration_in_words(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_told_in_the_unit_that_fits() {
        assert_eq!(in_words(12.4), "12 s left");
        assert_eq!(in_words(600.0), "10 min left");
        assert_eq!(in_words(9000.0), "2.5 h left");
        assert_eq!(Stopwatch::start().time_left(0.0), "");
    }
}
