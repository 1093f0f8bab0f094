//! Workers: actors that share one virtual clock, or that are threads of the system.
//!
//! ```text
//!                      least time, ties by number
//!   ready ──────────────────────────────────────────► running ──► done
//!     ▲                                                │  │  │
//!     │ a processor's turn has come ◄────── spend ─────┘  │  │
//!     │ a completion has come       ◄────── wait_for ─────┘  │
//!     └ a lock is free, a word given ◄───── sync ────────────┘
//! ```
//!
//! A program that waits by this crate alone does not know which world it is in. Outside of a
//! [`Schedule`] (on a real disk, or with one actor) locks are those of the standard library, and
//! waiting is the device's. Inside of one, one worker runs at a time, the one with the least time of
//! its own, so the same program gives the same bits whatever the machine does meanwhile.
//!
//! 1. No worker runs while another that could run has less time, or the same and a lower number.
//! 2. No worker runs while a source has a completion at or before its time that somebody waits for.
//! 3. The time of a worker never runs backwards. Whoever takes a lock or hears a word has at least the
//!    time of him who left the lock or gave the word.
//! 4. `cores` workers compute at once; more wait for their turn, in the order in which they asked.
//! 5. Nobody ready and nothing in flight is a deadlock: the run ends with a panic that says who waits
//!    for what.
//!
//! A thread that is no worker wakes none: what a schedule's workers share, nobody else touches meanwhile.
//! Whatever waits by other means (a lock of the standard library that is held over one of the arrows
//! above) hangs for good: `cargo xtask tidy` refuses those in the engine.

mod baton;
mod core;
mod coroutines;
mod schedule;
pub mod sync;
#[cfg(test)]
mod tests;

pub use self::core::EventSource;
pub use schedule::{Ran, Schedule, SwitchKind, Work};

use self::core::Shared;
use nandu_base::Nanos;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// The worker that runs on this thread.
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// A worker that runs, as its thread knows it.
#[derive(Clone)]
struct Current {
    shared: Arc<Shared>,
    number: u32,
}

fn current() -> Option<Current> {
    CURRENT.with_borrow(Clone::clone)
}

/// Whether this is a worker of a schedule.
#[must_use]
pub fn is_worker() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// The present of this worker; `None` outside of a schedule.
#[must_use]
pub fn now() -> Option<Nanos> {
    CURRENT.with_borrow(|current| {
        current.as_ref().map(|current| current.shared.lock().time_of(current.number))
    })
}

/// The number of this worker, from 0; `None` outside of a schedule.
#[must_use]
pub fn number() -> Option<u32> {
    CURRENT.with_borrow(|current| current.as_ref().map(|current| current.number))
}

/// Computes for `time` on one of the cores, which may have to get free first. Does nothing outside of
/// a schedule: there the work itself takes its time.
pub fn spend(time: Nanos) {
    if let Some(current) = current() {
        current.shared.lock().compute(current.number, time);
        current.switch();
    }
}

/// Lets the time of this worker come to `time`, as if it slept until then. Does nothing outside of a
/// schedule, or where it is later already.
pub fn sleep_until(time: Nanos) {
    if let Some(current) = current() {
        current.shared.lock().advance(current.number, time);
        current.switch();
    }
}

/// Waits until `source` told a completion whose ticket equals `ticket` in the bits of `mask`. The caller
/// looks first whether it is there already, and looks again afterwards.
///
/// # Panics
/// Outside of a schedule.
pub fn wait_for(source: &Arc<dyn EventSource>, ticket: u64, mask: u64) {
    let current = current().expect("only a worker waits here");
    current.shared.lock().wait_for(current.number, source, ticket, mask);
    current.switch();
}

/// Lets others go first: the present becomes that of the next who moves. Of threads, as
/// [`std::thread::yield_now`].
pub fn yield_now() {
    match current() {
        None => std::thread::yield_now(),
        Some(current) => {
            current.shared.lock().let_others_go(current.number, false);
            current.switch();
        }
    }
}

/// As [`yield_now`], of one who waits for nothing: where nobody else moves before somebody's patience ends, it goes on
/// at once.
pub(crate) fn yield_busy() {
    match current() {
        None => std::thread::yield_now(),
        Some(current) => {
            current.shared.lock().let_others_go(current.number, true);
            current.switch();
        }
    }
}

impl Current {
    /// Lets the worker run that is next by rule 1; returns when it is this one.
    fn switch(&self) {
        let next = self.shared.lock().pick();
        if next == Some(self.number) {
            return;
        }
        match self.shared.kind() {
            SwitchKind::Coroutines => coroutines::leave(self.number, next),
            SwitchKind::Baton => baton::pass(&self.shared, self.number),
        }
    }

    /// Waits until somebody tells `key`, the address of a lock or of a word; `what` is its name in a report.
    /// Whoever waits `is_again`, since another was quicker, comes before those who asked later.
    fn block(&self, key: usize, what: &'static str, is_again: bool) {
        self.shared.lock().block(self.number, key, what, is_again);
        self.switch();
    }

    /// As [`Self::block`], until `deadline` at most; whether that came first.
    fn block_until(&self, key: usize, what: &'static str, deadline: Nanos) -> bool {
        self.shared.lock().block_until(self.number, key, what, deadline);
        self.switch();
        self.shared.lock().take_timed_out(self.number)
    }
}
