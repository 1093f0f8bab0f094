//! The first sector of each member of an array that follows the load.
//!
//! ```text
//!   0        4        8                          one sector
//!   │ CRC32C │ magic  │ 0 …                      │ unused, up to 64 KiB │ cells …
//!   └ of all that follows
//! ```
//!
//! Where the stripes of such an array lie is known only while it is open. Slots of an earlier cell
//! may still be intact, so whoever opened its members as those of a fixed array would read old data.
//!
//! 1. The first sector of a fixed array is the head of a slot, or zeros, and never a marker.
//! 2. A member with a marker is never opened as one of a fixed array.

use nandu_base::Nanos;
use nandu_device::{Completion, Device, IoBuffer, Request};
use nandu_ida::checksum;

/// Sectors that are kept for the marker: 64 KiB, so that slots lie on flash pages as they would without.
pub(crate) const MARKER_SECTOR_COUNT: u64 = 128;
const MAGIC: [u8; 4] = *b"nafo";
const CHECKSUM_BYTES: usize = 4;
/// No request of an array has this number.
const REQUEST_ID: u64 = u64::MAX;

/// What a member says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marked {
    Yes,
    No,
    /// It answers with an error.
    Unreadable,
    /// It does not answer in time.
    Silent,
}

fn marker(sector_bytes: usize) -> IoBuffer {
    let mut sector = IoBuffer::zeroed(sector_bytes);
    sector[CHECKSUM_BYTES..CHECKSUM_BYTES + MAGIC.len()].copy_from_slice(&MAGIC);
    let sum = checksum(&sector[CHECKSUM_BYTES..]);
    sector[..CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());
    sector
}

/// Marks `member` for good; whether it took the marker.
pub(super) fn mark<D: Device + ?Sized>(member: &mut D, timeout: Option<Nanos>) -> bool {
    let sector = marker(member.info().geometry.sector_bytes as usize);
    let write = Request::write(REQUEST_ID, 0, 1, Some(sector));
    let is_ok = |done: Option<Completion>| done.is_some_and(|done| done.result.is_ok());
    is_ok(ask(member, write, timeout)) && is_ok(ask(member, Request::flush(REQUEST_ID), timeout))
}

/// Whether `member` is marked.
pub(super) fn look<D: Device + ?Sized>(member: &mut D, timeout: Option<Nanos>) -> Marked {
    let sector_bytes = member.info().geometry.sector_bytes as usize;
    let read = Request::read(REQUEST_ID, 0, 1, Some(IoBuffer::zeroed(sector_bytes)));
    let Some(done) = ask(member, read, timeout) else { return Marked::Silent };
    match (done.result, done.buffer) {
        (Ok(()), Some(sector)) if sector[..] == marker(sector_bytes)[..] => Marked::Yes,
        (Ok(()), _) => Marked::No,
        (Err(_), _) => Marked::Unreadable,
    }
}

/// The answer of `member` to `request`, if it comes in time.
fn ask<D: Device + ?Sized>(
    member: &mut D,
    request: Request,
    timeout: Option<Nanos>,
) -> Option<Completion> {
    let now = member.now();
    let until = timeout.map_or(Nanos::MAX, |timeout| now.saturating_add(timeout));
    let id = request.id;
    if let Err(rejected) = member.submit(now, request) {
        return Some(Completion {
            id,
            operation: rejected.request.operation,
            issued_at: now,
            completed_at: now,
            result: Err(rejected.error),
            buffer: None,
        });
    }
    member.next_completion(until)
}
