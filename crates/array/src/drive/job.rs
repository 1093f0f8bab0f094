//! The work on one stripe for one request, or for a repair, and the lock of a stripe.
//!
//! ```text
//!   wait for the stripe ─► gather fragments ─► enough? ─► read: done
//!                              ▲        │ no      └─────► store fragments ─► done
//!                              └────────┘ all others
//! ```
//!
//! 1. Reads share a stripe; a write or repair has it alone until its last fragment is stored.
//! 2. Who waits comes in the order of arrival.

use super::fragment::Fragment;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobKind {
    Read,
    Write,
    Repair,
    /// A copy into the new cell of its extent.
    Move,
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) kind: JobKind,
    /// The request that it belongs to; none of a repair.
    pub(super) request: Option<u64>,
    pub(super) stripe: u64,
    /// First data sector in the stripe, and how many.
    pub(super) first_sector: u32,
    pub(super) sector_count: u32,
    /// Where they lie in the request's buffer, in bytes.
    pub(super) buffer_offset: usize,
    /// Fragments that were asked for, as bits.
    pub(super) tried: u32,
    /// Fragments that came back intact.
    pub(super) found: Vec<Option<Fragment>>,
    pub(super) outstanding_count: u32,
    pub(super) is_storing: bool,
    /// Fragments that were to be stored, and those that were.
    pub(super) asked_count: u32,
    pub(super) stored_count: u32,
    pub(super) is_reported: bool,
}

/// The sectors of a stripe that a job is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct StripePart {
    pub(super) first_sector: u32,
    pub(super) sector_count: u32,
    /// Where they lie in the request's buffer, in bytes.
    pub(super) buffer_offset: usize,
}

impl Job {
    /// A job that has not begun.
    pub(super) fn new(kind: JobKind, request: Option<u64>, stripe: u64, part: StripePart) -> Self {
        let StripePart { first_sector, sector_count, buffer_offset } = part;
        Self {
            kind,
            request,
            stripe,
            first_sector,
            sector_count,
            buffer_offset,
            tried: 0,
            found: Vec::new(),
            outstanding_count: 0,
            is_storing: false,
            asked_count: 0,
            stored_count: 0,
            is_reported: false,
        }
    }
}

/// Who has a stripe.
#[derive(Debug, Default)]
pub(super) struct StripeLock {
    reader_count: u32,
    has_writer: bool,
    waiting: VecDeque<(u64, bool)>,
}

impl StripeLock {
    /// Asks for the stripe; whether `job` has it now.
    pub(super) fn acquire(&mut self, job: u64, exclusive: bool) -> bool {
        self.waiting.push_back((job, exclusive));
        self.next_ready() == Some(job)
    }

    /// Gives the stripe to whoever is next, if it is free for them.
    pub(super) fn next_ready(&mut self) -> Option<u64> {
        let &(job, exclusive) = self.waiting.front()?;
        if self.has_writer || exclusive && self.reader_count > 0 {
            return None;
        }
        self.waiting.pop_front();
        if exclusive {
            self.has_writer = true;
        } else {
            self.reader_count += 1;
        }
        Some(job)
    }

    pub(super) fn release(&mut self, exclusive: bool) {
        if exclusive {
            assert!(self.has_writer, "who releases has the stripe");
            self.has_writer = false;
        } else {
            assert!(self.reader_count > 0, "who releases has the stripe");
            self.reader_count -= 1;
        }
    }

    pub(super) fn is_free(&self) -> bool {
        !self.has_writer && self.reader_count == 0 && self.waiting.is_empty()
    }
}
