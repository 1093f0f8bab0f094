//! Who waits for which lock, since when, and for whom in the end.
//!
//! ```text
//!   1 has it    2 waits for 1, who excludes it    3 waits for 2, who came before it and excludes it
//!   3 waits for 2 for the sake of order alone: if 2 waited for 3 in the end, 3 would go first
//! ```
//!
//! 1. A turn is given when somebody begins to wait, and kept until that one has the lock or gives up.
//! 2. Order alone closes no circle: who would wait for himself by it goes first instead. Whether that is so
//!    can change when somebody begins to wait, and when somebody gives up; then those who wait are told.

use super::{FileLocks, Mode, NameMode, OwnedSpan, Span, State, Wanted, WantedLock, as_bytes};
use crate::FileId;
use std::collections::{BTreeMap, BTreeSet};

#[cfg(test)]
mod tests;

/// A lock that is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked<'a> {
    Span(Span<'a>, Mode),
    Name(&'a [u8], NameMode),
}

/// Those who wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiters: BTreeMap<u64, Waiter>,
    next_turn: u64,
}

#[derive(Debug)]
struct Waiter {
    turn: u64,
    wanted: Wanted,
}

/// Which waits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// For who has a lock.
    ForOwners,
    /// For who came before, too.
    All,
}

impl Asked<'_> {
    fn excludes(self, other: Self) -> bool {
        match (self, other) {
            (Self::Span(span, mode), Self::Span(other, other_mode)) => {
                mode.excludes(other_mode) && span.meets(other)
            }
            (Self::Name(name, mode), Self::Name(other, other_mode)) => {
                name == other && mode.excludes(other_mode)
            }
            _ => false,
        }
    }
}

impl Wanted {
    fn asked(&self) -> Asked<'_> {
        match &self.lock {
            WantedLock::Span(span, mode) => Asked::Span(span.as_span(), *mode),
            WantedLock::Name(name, mode) => Asked::Name(name, *mode),
        }
    }
}

impl OwnedSpan {
    pub(super) fn as_span(&self) -> Span<'_> {
        match self {
            Self::Key(key) => Span::Key(key),
            Self::Range(lower, upper) => Span::Range(as_bytes(lower), as_bytes(upper)),
        }
    }
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Nobody waits for this transaction's turn any more.
    pub(super) fn leave(&mut self, transaction: u64) {
        self.waiters.remove(&transaction);
    }

    /// Those who came before a transaction, if it waits, or before now, and want what excludes this.
    fn before<'q>(
        &'q self,
        transaction: u64,
        file: FileId,
        asked: Asked<'q>,
    ) -> impl Iterator<Item = u64> + 'q {
        let turn = self.waiters.get(&transaction).map_or(u64::MAX, |waiter| waiter.turn);
        let is_before = move |waiter: &Waiter| {
            waiter.turn < turn
                && waiter.wanted.file == file
                && waiter.wanted.asked().excludes(asked)
        };
        self.waiters.iter().filter(move |(_, waiter)| is_before(waiter)).map(|(&id, _)| id)
    }
}

impl State {
    /// A transaction begins to wait, or goes on. True if others may go first now, who waited for order alone.
    pub(super) fn enter(&mut self, transaction: u64, wanted: &Wanted) -> bool {
        if self.waiting.waiters.contains_key(&transaction) {
            return false;
        }
        let Queue { waiters, next_turn } = &mut self.waiting;
        waiters.insert(transaction, Waiter { turn: *next_turn, wanted: wanted.clone() });
        *next_turn += 1;
        self.leads(transaction, transaction, Waits::All)
    }

    /// Whether a transaction would take a lock past somebody who came first, and does not wait for it.
    pub(super) fn is_kept_back(&self, transaction: u64, file: FileId, asked: Asked<'_>) -> bool {
        let mut before = self.waiting.before(transaction, file, asked);
        before.any(|waiter| !self.leads(waiter, transaction, Waits::All))
    }

    /// The first place of a path where that is so; its length if there is none.
    pub(super) fn first_kept_back(
        &self,
        transaction: u64,
        file: FileId,
        path: &[&[u8]],
        mode: NameMode,
    ) -> usize {
        if self.waiting.is_empty() {
            return path.len();
        }
        let names = self.files.get(&file).map(|locks| &locks.names);
        let is_kept_back = |(place, name): (usize, &&[u8])| {
            let wanted = mode.at(path, place);
            let has_it = names.is_some_and(|names| names.has(transaction, name, wanted));
            !has_it && self.is_kept_back(transaction, file, Asked::Name(name, wanted))
        };
        path.iter().enumerate().position(is_kept_back).unwrap_or(path.len())
    }

    /// Whether a transaction that waits would wait for itself in the end.
    pub(super) fn closes_circle(&self, transaction: u64) -> bool {
        self.leads(transaction, transaction, Waits::ForOwners)
    }

    /// Whether one who waits, waits in the end for another one, or for himself.
    fn leads(&self, from: u64, to: u64, waits: Waits) -> bool {
        let mut seen = BTreeSet::new();
        let mut to_follow = vec![from];
        while let Some(waiter) = to_follow.pop() {
            let Some(Waiter { wanted, .. }) = self.waiting.waiters.get(&waiter) else { continue };
            let (file, asked) = (wanted.file, wanted.asked());
            let mut is_there = false;
            let mut tell = |other| {
                is_there |= other == to;
                if seen.insert(other) {
                    to_follow.push(other);
                }
            };
            if let Some(locks) = self.files.get(&file) {
                locks.each_owner(waiter, asked, &mut tell);
            }
            if waits == Waits::All {
                self.waiting.before(waiter, file, asked).for_each(&mut tell);
            }
            if is_there {
                return true;
            }
        }
        false
    }
}

impl FileLocks {
    /// Tells each other transaction that has what excludes this, perhaps more than once.
    fn each_owner(&self, transaction: u64, asked: Asked<'_>, tell: &mut impl FnMut(u64)) {
        match asked {
            Asked::Span(span, mode) => self.each_blocker(transaction, span, mode, tell),
            Asked::Name(name, mode) => self.names.each_blocker(transaction, name, mode, tell),
        }
    }
}
