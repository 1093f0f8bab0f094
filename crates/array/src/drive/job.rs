//! The work on one stripe for one request, or for a repair, and the lock of a stripe.
//!
//! ```text
//!   wait for the stripe ─► gather fragments ─► enough? ─► read: done, unless the stripe was undecided
//!                              ▲        │ no      └─────► store fragments ─► done
//!                              └────────┘ all others
//! ```
//!
//! 1. Reads share a stripe that is decided; all else has it alone until its last fragment is stored.
//! 2. Who waits comes in the order of arrival.

use super::fragment::{Fragment, WriteId};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobKind {
    Read,
    Write,
    Repair,
    /// A copy into the new cell of its extent.
    Move,
}

/// What a stripe holds, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StripeVersion {
    /// The write that it holds, or the oldest that it may hold.
    pub(super) id: WriteId,
    /// Whether it is decided which write it holds. It is not after the array was opened, and after a
    /// write that too few members took; the first job that reads it decides.
    pub(super) is_decided: bool,
}

impl StripeVersion {
    pub(super) const fn decided(id: WriteId) -> Self {
        Self { id, is_decided: true }
    }

    /// `id` or any later write.
    pub(super) const fn undecided(id: WriteId) -> Self {
        Self { id, is_decided: false }
    }
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
    /// Fragments that were not stored, as bits.
    pub(super) missed: u32,
    pub(super) is_reported: bool,
    /// Whether it has, or waits for, the stripe alone.
    pub(super) is_exclusive: bool,
    /// What the stripe held if it stores something else.
    pub(super) before: Option<StripeVersion>,
    /// The write that it stores.
    pub(super) id: WriteId,
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
            missed: 0,
            is_reported: false,
            is_exclusive: kind != JobKind::Read,
            before: None,
            id: WriteId::NEVER,
        }
    }
}

/// Which jobs hold a stripe, and which wait for it.
#[derive(Debug, Default)]
pub(super) struct StripeLock {
    reader_count: u32,
    has_writer: bool,
    waiting: VecDeque<(u64, bool)>,
}

impl StripeLock {
    /// Has `job` wait for the stripe.
    pub(super) fn wait(&mut self, job: u64, exclusive: bool) {
        self.waiting.push_back((job, exclusive));
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
