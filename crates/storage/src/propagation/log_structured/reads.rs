//! Pages on their way from the segments: whole ones straight into the caller's buffer, packed ones by
//! way of the sectors that hold them.
//!
//! 1. A segment is written again only after the reads from it are done.

use super::partial::EntryKind;
use super::record::Location;
use super::{HOST, LogStructured, record, transfer};
use crate::propagation::PageRead;
use crate::volume::{Io, IoOwner};
use crate::{PageAddress, StorageError};
use nandu_base::to_index;
use nandu_device::{Completion, IoBuffer, Operation};
use std::collections::VecDeque;

/// Reads that were begun.
#[derive(Debug, Default)]
pub(super) struct Reads {
    in_flight: Vec<InFlight>,
    ready: VecDeque<PageRead>,
}

#[derive(Debug)]
struct InFlight {
    ticket: u64,
    address: PageAddress,
    location: Location,
    /// The caller's, where the record is read into a buffer of its own.
    page: Option<IoBuffer>,
}

impl LogStructured {
    pub(super) fn begin_read(
        &mut self,
        io: &mut Io,
        address: PageAddress,
        mut buffer: IoBuffer,
    ) -> Result<(), StorageError> {
        if let Some((kind, record)) = self.frontiers[HOST].find(address) {
            fill(kind, record, &mut buffer);
            self.reads.ready.push_back(PageRead { address, buffer, result: Ok(()) });
            return Ok(());
        }
        let location = self.map.get(address);
        if location.is_none() {
            buffer.fill(0);
            self.reads.ready.push_back(PageRead { address, buffer, result: Ok(()) });
            return Ok(());
        }
        io.wait_for_room();
        let (start, target, page) = if self.is_in_one_piece(location) {
            (location.offset_bytes(), buffer, None)
        } else {
            let sector_bytes = u64::from(self.sector_bytes);
            let start = location.offset_bytes() / sector_bytes * sector_bytes;
            let end = location.end().next_multiple_of(sector_bytes);
            (start, transfer::buffer(io, to_index(end - start)), Some(buffer))
        };
        let segments = self.files.segments;
        let ticket = io.submit(IoOwner::PoolRead, segments, Operation::Read, start, target)?;
        self.reads.in_flight.push(InFlight { ticket, address, location, page });
        Ok(())
    }

    /// Whether a record is a page on whole sectors.
    pub(super) fn is_in_one_piece(&self, location: Location) -> bool {
        location.is_whole()
            && location.offset_bytes().is_multiple_of(u64::from(self.sector_bytes))
            && location.stored_bytes().is_multiple_of(self.sector_bytes)
    }

    pub(super) fn end_read(&mut self, io: &mut Io) -> Option<PageRead> {
        if let Some(read) = self.reads.ready.pop_front() {
            return Some(read);
        }
        if self.reads.in_flight.is_empty() {
            return None;
        }
        let completion = io.wait_any(IoOwner::PoolRead).expect("a read is in flight");
        Some(self.finish(completion))
    }

    /// Waits for all reads, because a segment is written again.
    pub(super) fn settle_reads(&mut self, io: &mut Io) {
        while !self.reads.in_flight.is_empty() {
            let completion = io.wait_any(IoOwner::PoolRead).expect("a read is in flight");
            let read = self.finish(completion);
            self.reads.ready.push_back(read);
        }
    }

    fn finish(&mut self, completion: Completion) -> PageRead {
        let place = self.reads.in_flight.iter().position(|read| read.ticket == completion.id);
        let read = self.reads.in_flight.swap_remove(place.expect("only the pool reads pages"));
        let InFlight { address, location, page, .. } = read;
        let bytes = completion.buffer.unwrap_or_else(|| IoBuffer::with_alignment(0, 1));
        let result = completion.result.map_err(|error| {
            let what = format!("cannot read {address}");
            StorageError::Device { what, error }
        });
        let Some(mut buffer) = page else {
            return PageRead { address, buffer: bytes, result };
        };
        let result = result.and_then(|()| {
            let sector_bytes = u64::from(self.sector_bytes);
            let skipped = to_index(location.offset_bytes() % sector_bytes);
            let record = bytes.get(skipped..skipped + location.stored_bytes() as usize);
            let kind = if location.is_whole() { EntryKind::Whole } else { EntryKind::Packed };
            match record.and_then(|record| fill(kind, record, &mut buffer)) {
                Some(()) => Ok(()),
                None => {
                    let place = format!("{address} at {}", location.offset_bytes());
                    let what = "its record does not fit a page".to_owned();
                    Err(StorageError::Corrupt { place, what })
                }
            }
        });
        PageRead { address, buffer, result }
    }

    /// # Panics
    /// If a page is read twice at a time.
    pub(super) fn audit_reads(&self) {
        let addresses: std::collections::BTreeSet<PageAddress> =
            self.reads.in_flight.iter().map(|read| read.address).collect();
        assert_eq!(addresses.len(), self.reads.in_flight.len(), "a page is read once at a time");
    }
}

/// The page of a record; `None` where it makes no sense.
fn fill(kind: EntryKind, record: &[u8], page: &mut [u8]) -> Option<()> {
    match kind {
        EntryKind::Packed => record::unpack(record, page),
        EntryKind::Whole => {
            page.copy_from_slice(record.get(..page.len())?);
            Some(())
        }
        EntryKind::Truncate => None,
    }
}
