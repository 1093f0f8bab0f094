//! Completions that a simulated device already knows of, ordered by time.
//!
//! 1. Ties come out in the order of submission, so a run is repeatable.

use crate::{Completion, DeviceError, IoBuffer, Operation, Request};
use nandu_base::Nanos;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// What ends at a moment: the completion of a request.
pub trait Ends {
    /// When that is.
    fn completed_at(&self) -> Nanos;
}

impl Ends for Completion {
    fn completed_at(&self) -> Nanos {
        self.completed_at
    }
}

/// A queue of known completions.
#[derive(Debug)]
pub struct CompletionQueue<C = Completion> {
    heap: BinaryHeap<Reverse<Entry<C>>>,
    sequence: u64,
}

impl<C: Ends> Default for CompletionQueue<C> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), sequence: 0 }
    }
}

#[derive(Debug)]
struct Entry<C> {
    sequence: u64,
    completion: C,
}

impl<C: Ends> Entry<C> {
    fn key(&self) -> (Nanos, u64) {
        (self.completion.completed_at(), self.sequence)
    }
}

impl<C: Ends> PartialEq for Entry<C> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl<C: Ends> Eq for Entry<C> {}
impl<C: Ends> PartialOrd for Entry<C> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<C: Ends> Ord for Entry<C> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// What is kept of a request while it is in flight.
#[derive(Debug)]
pub struct InFlight {
    /// The number of the request.
    pub id: u64,
    /// What the request asks for.
    pub operation: Operation,
    /// When it was issued.
    pub issued_at: Nanos,
    /// The buffer that the request brought.
    pub buffer: Option<IoBuffer>,
}

impl InFlight {
    /// Takes over `request`, issued at `issued_at`.
    #[must_use]
    pub fn of(request: Request, issued_at: Nanos) -> Self {
        let Request { id, operation, buffer, .. } = request;
        Self { id, operation, issued_at, buffer }
    }

    /// The completion of the request, with its buffer.
    #[must_use]
    pub fn complete(self, completed_at: Nanos, result: Result<(), DeviceError>) -> Completion {
        let Self { id, operation, issued_at, buffer } = self;
        Completion { id, operation, issued_at, completed_at, result, buffer }
    }
}

impl<C: Ends> CompletionQueue<C> {
    /// Adds a completion that lies in the future.
    pub fn push(&mut self, completion: C) {
        self.sequence += 1;
        self.heap.push(Reverse(Entry { sequence: self.sequence, completion }));
    }

    /// The next completion, if it comes at or before `until`.
    pub fn pop(&mut self, until: Nanos) -> Option<C> {
        let next = self.heap.peek()?;
        if next.0.completion.completed_at() > until {
            return None;
        }
        self.heap.pop().map(|entry| entry.0.completion)
    }

    /// When the next completion comes.
    #[must_use]
    pub fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|entry| entry.0.completion.completed_at())
    }

    /// How many are queued.
    #[must_use]
    pub fn len(&self) -> u32 {
        nandu_base::to_u32(self.heap.len() as u64)
    }

    /// Whether no completion is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}
