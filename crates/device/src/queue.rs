//! Completions that a simulated device already knows of, ordered by time.
//!
//! 1. Ties come out in the order of submission, so a run is repeatable.

use crate::{Completion, DeviceError, IoBuffer, Operation, Request};
use nandu_base::Nanos;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A queue of known completions.
#[derive(Debug, Default)]
pub struct CompletionQueue {
    heap: BinaryHeap<Reverse<Entry>>,
    sequence: u64,
}

#[derive(Debug)]
struct Entry {
    sequence: u64,
    completion: Completion,
}

impl Entry {
    fn key(&self) -> (Nanos, u64) {
        (self.completion.completed_at, self.sequence)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
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

impl CompletionQueue {
    /// Adds a completion that lies in the future.
    pub fn push(&mut self, completion: Completion) {
        self.sequence += 1;
        self.heap.push(Reverse(Entry { sequence: self.sequence, completion }));
    }

    /// The next completion, if it comes at or before `until`.
    pub fn pop(&mut self, until: Nanos) -> Option<Completion> {
        let next = self.heap.peek()?;
        if next.0.completion.completed_at > until {
            return None;
        }
        self.heap.pop().map(|entry| entry.0.completion)
    }

    /// When the next completion comes.
    #[must_use]
    pub fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|entry| entry.0.completion.completed_at)
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
