//! The contract of raw flash: chips without a translation layer, real laws and all (S000 section
//! 2.1, S002 section 3.1). For who manages flash without one, by logs of pages or of their
//! differences.
//!
//! ```text
//! submit(now, request) ──► in flight ──► next_completion(until) ──► FlashCompletion, with buffers
//!
//!   erase block   │ flash page 0 │ flash page 1 │ flash page 2 │ ...   erased as a whole
//!   flash page    │ data                  │ spare area │   read and programmed, whole or in part
//! ```
//!
//! 1. Every accepted request completes exactly once, with its buffers.
//! 2. Completions come out in the order of `completed_at`, which is never before `issued_at`; they
//!    may come in another order than the requests went in.
//! 3. Time is virtual. `now` never runs backwards from call to call, and whoever calls
//!    `next_completion` has already submitted everything issued before that completion.
//! 4. Requests to one erase block act in the order of their submission, those to several in none.
//! 5. Bytes that were not programmed since the erase of their erase block read as ones ([`BLANK`]).
//! 6. A program clears bits and sets none. A flash page takes at most `programs_per_erase` between
//!    two erases, whole or in part; where `is_ascending`, the first of them comes before that of
//!    any flash page above it in its erase block.
//! 7. The erase that an erase block no longer stands ends with [`FlashError::WornOut`]; from its
//!    submission on the erase block is bad. Bad ones can be read, but what they hold is open.
//! 8. At a power cut what has completed stays, and what had not begun has not happened. What was
//!    under way leaves its bytes torn: those that it programmed, on chips with `has_paired_pages`
//!    also the flash page before that, or the whole erase block that it erased. Everything in
//!    flight ends with [`FlashError::PowerLost`], as does what comes while the power is off.
//! 9. A read of torn bytes ends with [`FlashError::Torn`]; others of the flash page stay as they
//!    were. It takes no program before the next erase, nor does any of an erase block that is torn.
//! 10. A request that breaks a rule is handed back at once, unchanged, and costs nothing.

mod error;
mod memory;

pub use error::FlashError;
pub use memory::{MemoryFlash, MemoryFlashConfig};

use crate::queue::Ends;
use crate::{FlashUse, IoBuffer};
use nandu_base::{Cause, Nanos, Ppn, to_u32};
use std::fmt;

/// A byte that was erased and not programmed since.
pub const BLANK: u8 = u8::MAX;

/// Chips that are erased, programmed and read as they are. See the module's rules.
pub trait RawFlash {
    /// What it is and by which laws; constant over its life.
    fn info(&self) -> &FlashInfo;

    /// The latest moment that it was told of or has told.
    fn now(&self) -> Nanos;

    /// Issues `request` at `now`.
    ///
    /// # Errors
    /// Hands the request back with the rule that it breaks (rule 10).
    fn submit(&mut self, now: Nanos, request: FlashRequest) -> Result<(), FlashRejected>;

    /// The completion that comes next, if one comes at or before `until`. `None` at once where
    /// nothing is in flight.
    fn next_completion(&mut self, until: Nanos) -> Option<FlashCompletion>;

    /// How many requests are in flight.
    fn in_flight(&self) -> u32;

    /// Lets time pass without requests. Returns the present. Nothing may be in flight.
    fn idle_until(&mut self, time: Nanos) -> Nanos;

    /// Whether an erase block is bad, from the factory or since an erase failed: programs and
    /// erases of it are refused.
    fn is_bad(&self, erase_block: u32) -> bool;

    /// Commands by cause, and wear.
    fn counters(&self) -> FlashUse;

    /// Cuts the power at `at`, or now if that is later (rule 8). What was in flight is still to be
    /// fetched.
    fn power_cut(&mut self, at: Nanos);

    /// Restores the power at `now`. Nothing is remembered for whoever manages the flash.
    fn power_on(&mut self, now: Nanos);
}

impl<F: RawFlash + ?Sized> RawFlash for Box<F> {
    fn info(&self) -> &FlashInfo {
        (**self).info()
    }
    fn now(&self) -> Nanos {
        (**self).now()
    }
    fn submit(&mut self, now: Nanos, request: FlashRequest) -> Result<(), FlashRejected> {
        (**self).submit(now, request)
    }
    fn next_completion(&mut self, until: Nanos) -> Option<FlashCompletion> {
        (**self).next_completion(until)
    }
    fn in_flight(&self) -> u32 {
        (**self).in_flight()
    }
    fn idle_until(&mut self, time: Nanos) -> Nanos {
        (**self).idle_until(time)
    }
    fn is_bad(&self, erase_block: u32) -> bool {
        (**self).is_bad(erase_block)
    }
    fn counters(&self) -> FlashUse {
        (**self).counters()
    }
    fn power_cut(&mut self, at: Nanos) {
        (**self).power_cut(at);
    }
    fn power_on(&mut self, now: Nanos) {
        (**self).power_on(now);
    }
}

/// How many of everything. All counts but that of spare bytes are 1 or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashGeometry {
    /// Erase blocks, bad ones included.
    pub erase_block_count: u32,
    /// Flash pages of an erase block.
    pub flash_pages_per_erase_block: u32,
    /// Data bytes of a flash page.
    pub flash_page_bytes: u32,
    /// Bytes of a flash page's spare area.
    pub spare_bytes: u32,
    /// Dies that work side by side; neighbouring erase blocks lie on different ones.
    pub die_count: u32,
}

impl FlashGeometry {
    /// Flash pages of all erase blocks.
    #[must_use]
    pub const fn flash_page_count(&self) -> u64 {
        self.erase_block_count as u64 * self.flash_pages_per_erase_block as u64
    }

    /// The flash page at `index` of `erase_block`.
    #[must_use]
    pub const fn flash_page(&self, erase_block: u32, index: u32) -> Ppn {
        Ppn(erase_block as u64 * self.flash_pages_per_erase_block as u64 + index as u64)
    }

    /// Erase block and index of a flash page inside the range.
    #[must_use]
    pub fn locate(&self, flash_page: Ppn) -> (u32, u32) {
        let per_block = u64::from(self.flash_pages_per_erase_block);
        (to_u32(flash_page.0 / per_block), to_u32(flash_page.0 % per_block))
    }

    /// The die of an erase block.
    #[must_use]
    pub const fn die_of(&self, erase_block: u32) -> u32 {
        erase_block % self.die_count
    }
}

/// What raw flash is, and its laws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlashInfo {
    /// As the user wrote it: `sim:device-a`.
    pub name: String,
    /// How many of everything.
    pub geometry: FlashGeometry,
    /// Programs of a flash page between two erases, whole or in part; 1 allows no partial ones.
    pub programs_per_erase: u8,
    /// Whether the flash pages of an erase block have to be programmed upwards.
    pub is_ascending: bool,
    /// Whether the interrupted program of an odd flash page also destroys the even one before it.
    pub has_paired_pages: bool,
    /// Erases that an erase block stands; 0 = without limit.
    pub endurance: u32,
    /// Most requests that may be in flight.
    pub queue_depth_max: u32,
}

impl FlashInfo {
    /// Checks what depends on the request alone (rule 10): ranges, lengths, the queue.
    ///
    /// # Errors
    /// The first rule that `request` breaks.
    pub fn check(&self, request: &FlashRequest, in_flight: u32) -> Result<(), FlashError> {
        if in_flight >= self.queue_depth_max {
            return Err(FlashError::QueueFull { queue_depth_max: self.queue_depth_max });
        }
        let geometry = &self.geometry;
        let inside = |what, index: u64, count: u64| match index < count {
            true => Ok(()),
            false => Err(FlashError::OutOfRange { what, index, count }),
        };
        match &request.command {
            FlashCommand::Erase { erase_block } => {
                inside("erase block", (*erase_block).into(), geometry.erase_block_count.into())
            }
            FlashCommand::Read { flash_page, data, spare }
            | FlashCommand::Program { flash_page, data, spare } => {
                inside("flash page", flash_page.0, geometry.flash_page_count())?;
                let areas = [
                    ("byte", data, geometry.flash_page_bytes),
                    ("spare byte", spare, geometry.spare_bytes),
                ];
                for (what, part, count) in areas {
                    let Some(part) = part else { continue };
                    if part.buffer.is_empty() {
                        return Err(FlashError::EmptyRequest);
                    }
                    inside(what, part.end_byte() - 1, count.into())?;
                }
                match (data, spare) {
                    (None, None) => Err(FlashError::EmptyRequest),
                    _ => Ok(()),
                }
            }
        }
    }
}

/// Bytes of a flash page, side by side in its data or in its spare area.
#[derive(Debug)]
pub struct FlashPart {
    /// Where they begin in the area, from 0.
    pub first_byte: u32,
    /// What is programmed, or room for what is read; its length is how many.
    pub buffer: IoBuffer,
}

impl FlashPart {
    /// The bytes of `buffer` from `first_byte` on.
    #[must_use]
    pub const fn new(first_byte: u32, buffer: IoBuffer) -> Self {
        Self { first_byte, buffer }
    }

    /// A copy of `bytes` for a program from `first_byte` on.
    #[must_use]
    pub fn copy_of(first_byte: u32, bytes: &[u8]) -> Self {
        Self { first_byte, buffer: IoBuffer::copy_of(bytes) }
    }

    /// Room for a read of `byte_count` bytes from `first_byte` on.
    #[must_use]
    pub fn room(first_byte: u32, byte_count: u32) -> Self {
        Self { first_byte, buffer: IoBuffer::zeroed(byte_count as usize) }
    }

    /// The first byte past the part.
    #[must_use]
    pub fn end_byte(&self) -> u64 {
        u64::from(self.first_byte) + self.buffer.len() as u64
    }
}

/// What is asked of raw flash.
#[derive(Debug)]
pub enum FlashCommand {
    /// Fill the buffers from the flash page.
    Read {
        /// The flash page.
        flash_page: Ppn,
        /// Room for some of its data.
        data: Option<FlashPart>,
        /// Room for some of its spare area.
        spare: Option<FlashPart>,
    },
    /// Put the buffers into the flash page.
    Program {
        /// The flash page.
        flash_page: Ppn,
        /// Some of its data.
        data: Option<FlashPart>,
        /// Some of its spare area.
        spare: Option<FlashPart>,
    },
    /// Make all of an erase block blank.
    Erase {
        /// The erase block.
        erase_block: u32,
    },
}

/// One request to raw flash.
#[derive(Debug)]
pub struct FlashRequest {
    /// Chosen by the caller, returned in the completion.
    pub id: u64,
    /// Under which cause the command is counted.
    pub cause: Cause,
    /// What to do, with its buffers.
    pub command: FlashCommand,
}

impl FlashRequest {
    /// A read of some bytes of a flash page.
    #[must_use]
    pub const fn read(
        id: u64,
        flash_page: Ppn,
        data: Option<FlashPart>,
        spare: Option<FlashPart>,
    ) -> Self {
        Self { id, cause: Cause::Host, command: FlashCommand::Read { flash_page, data, spare } }
    }

    /// A program of some bytes of a flash page.
    #[must_use]
    pub const fn program(
        id: u64,
        flash_page: Ppn,
        data: Option<FlashPart>,
        spare: Option<FlashPart>,
    ) -> Self {
        Self { id, cause: Cause::Host, command: FlashCommand::Program { flash_page, data, spare } }
    }

    /// An erase of an erase block.
    #[must_use]
    pub const fn erase(id: u64, erase_block: u32) -> Self {
        Self { id, cause: Cause::Host, command: FlashCommand::Erase { erase_block } }
    }

    /// The same, counted under `cause`.
    #[must_use]
    pub const fn caused_by(mut self, cause: Cause) -> Self {
        self.cause = cause;
        self
    }
}

/// The end of one request.
#[derive(Debug)]
pub struct FlashCompletion {
    /// The number of the request that is completed.
    pub id: u64,
    /// What the request asked for, with its buffers; those of a read that succeeded are filled.
    pub command: FlashCommand,
    /// When it was issued.
    pub issued_at: Nanos,
    /// When it was done.
    pub completed_at: Nanos,
    /// Whether it was done, or why not.
    pub result: Result<(), FlashError>,
}

impl Ends for FlashCompletion {
    fn completed_at(&self) -> Nanos {
        self.completed_at
    }
}

/// A request that was not accepted.
#[derive(Debug)]
pub struct FlashRejected {
    /// The request, unchanged.
    pub request: Box<FlashRequest>,
    /// The rule that it breaks.
    pub error: FlashError,
}

impl fmt::Display for FlashRejected {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.request.command {
            FlashCommand::Read { flash_page, .. } => {
                write!(formatter, "read of flash page {}", flash_page.0)
            }
            FlashCommand::Program { flash_page, .. } => {
                write!(formatter, "program of flash page {}", flash_page.0)
            }
            FlashCommand::Erase { erase_block } => {
                write!(formatter, "erase of erase block {erase_block}")
            }
        }?;
        write!(formatter, " rejected: {}", self.error)
    }
}

impl std::error::Error for FlashRejected {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
