//! Pages on their way from the segments: whole ones straight into the caller's buffer, packed ones and
//! differences by way of the sectors that hold them, both at once.
//!
//! 1. A segment is written again only after the reads from it are done.

use super::partial::EntryKind;
use super::record::Location;
use super::stored::{Difference, StoredPage, fill, misfit, record_within, sectors_of};
use super::{HOST, LogStructured, transfer};
use crate::propagation::{ChangedRanges, PagePlace, PageRead};
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

/// A page on its way: straight into its buffer, or in one or two parts.
#[derive(Debug)]
struct InFlight {
    address: PageAddress,
    /// The caller's; empty where the device fills it itself.
    page: IoBuffer,
    base: Part,
    difference: Part,
    result: Result<(), StorageError>,
}

/// A record, or where it comes from.
#[derive(Debug)]
enum Part {
    /// There is none.
    None,
    /// A page on whole sectors, read into the caller's buffer.
    Straight { ticket: u64 },
    /// In the sectors that this request reads.
    Reading { ticket: u64, location: Location },
    /// Here, from a byte on.
    Here { bytes: IoBuffer, location: Location },
    /// It waited in the frontier.
    Waited { kind: EntryKind, record: Vec<u8> },
}

impl Part {
    const fn ticket(&self) -> Option<u64> {
        match self {
            Self::Straight { ticket } | Self::Reading { ticket, .. } => Some(*ticket),
            Self::None | Self::Here { .. } | Self::Waited { .. } => None,
        }
    }
}

impl LogStructured {
    pub(super) fn begin_read(
        &mut self,
        io: &Io,
        address: PageAddress,
        mut buffer: IoBuffer,
    ) -> Result<(), StorageError> {
        let frontier = &self.frontiers[HOST];
        let waited =
            |(kind, record): (EntryKind, &[u8])| Part::Waited { kind, record: record.to_vec() };
        let mut base = frontier.find(address).map_or(Part::None, waited);
        let difference = frontier.find_difference(address);
        let mut difference =
            difference.map_or(Part::None, |record| waited((EntryKind::Difference, record)));
        let is_written_anew = frontier.has_written(address);
        let location = self.map.get(address);
        if matches!(base, Part::None) && location.is_none() {
            buffer.fill(0);
            let changed = ChangedRanges::default();
            self.reads.ready.push_back(PageRead { address, buffer, changed, result: Ok(()) });
            return Ok(());
        }
        let stored_difference = self.differences.get(address);
        let wants_difference =
            !is_written_anew && matches!(difference, Part::None) && !stored_difference.is_none();
        let mut page = buffer;
        if matches!(base, Part::None) {
            let is_straight = self.is_in_one_piece(location);
            base = if is_straight && !wants_difference && matches!(difference, Part::None) {
                let target = std::mem::replace(&mut page, IoBuffer::with_alignment(0, 1));
                let ticket = self.submit_read(io, location.offset_bytes(), target)?;
                Part::Straight { ticket }
            } else {
                self.begin_part(io, location)?
            };
        }
        let mut result = Ok(());
        if wants_difference {
            match self.begin_part(io, stored_difference) {
                Ok(part) => difference = part,
                // The page's request, if there is one, is under way and has to be waited for.
                Err(error) => result = Err(error),
            }
        }
        let read = InFlight { address, page, base, difference, result };
        if read.base.ticket().or(read.difference.ticket()).is_some() {
            self.reads.in_flight.push(read);
        } else {
            let read = self.assemble_page(read);
            self.reads.ready.push_back(read);
        }
        Ok(())
    }

    /// Reads the sectors that hold a record.
    fn begin_part(&self, io: &Io, location: Location) -> Result<Part, StorageError> {
        let sectors = sectors_of(location, self.sector_bytes);
        let target = transfer::buffer(io, to_index(sectors.end - sectors.start));
        let ticket = self.submit_read(io, sectors.start, target)?;
        Ok(Part::Reading { ticket, location })
    }

    fn submit_read(
        &self,
        io: &Io,
        offset_bytes: u64,
        target: IoBuffer,
    ) -> Result<u64, StorageError> {
        io.submit(IoOwner::PoolRead, self.files.segments, Operation::Read, offset_bytes, target)
    }

    /// Whether a record is a page on whole sectors.
    pub(super) fn is_in_one_piece(&self, location: Location) -> bool {
        location.is_whole()
            && location.offset_bytes().is_multiple_of(u64::from(self.sector_bytes))
            && location.stored_bytes().is_multiple_of(self.sector_bytes)
    }

    pub(super) fn end_read(&mut self, io: &Io) -> Option<PageRead> {
        loop {
            if let Some(read) = self.reads.ready.pop_front() {
                return Some(read);
            }
            if self.reads.in_flight.is_empty() {
                return None;
            }
            self.wait_for_part(io);
        }
    }

    /// Waits for all reads, because a segment is written again.
    pub(super) fn settle_reads(&mut self, io: &Io) {
        while !self.reads.in_flight.is_empty() {
            self.wait_for_part(io);
        }
    }

    /// Waits for a request; the page is ready when all of its parts are there.
    fn wait_for_part(&mut self, io: &Io) {
        let Completion { id, result, buffer, .. } =
            io.wait_any(IoOwner::PoolRead).expect("a read is in flight");
        let bytes = buffer.unwrap_or_else(|| IoBuffer::with_alignment(0, 1));
        let has_part = |read: &InFlight| {
            read.base.ticket() == Some(id) || read.difference.ticket() == Some(id)
        };
        let place = self.reads.in_flight.iter().position(has_part);
        let place = place.expect("only the pool reads pages");
        let read = &mut self.reads.in_flight[place];
        if let Err(error) = result {
            let what = format!("cannot read {}", read.address);
            read.result = Err(StorageError::Device { what, error });
        }
        let is_base = read.base.ticket() == Some(id);
        let part = if is_base { &mut read.base } else { &mut read.difference };
        match *part {
            Part::Reading { location, .. } => *part = Part::Here { bytes, location },
            _ => (*part, read.page) = (Part::None, bytes),
        }
        if read.base.ticket().or(read.difference.ticket()).is_none() {
            let read = self.reads.in_flight.swap_remove(place);
            let read = self.assemble_page(read);
            self.reads.ready.push_back(read);
        }
    }

    /// The page of its parts.
    fn assemble_page(&self, read: InFlight) -> PageRead {
        let InFlight { address, page: mut buffer, base, difference, result } = read;
        let mut changed = ChangedRanges::default();
        let result = result.and_then(|()| {
            for (part, is_difference) in [(base, false), (difference, true)] {
                let laid = match &part {
                    Part::Waited { kind, record } => fill(*kind, record, &mut buffer),
                    Part::Here { bytes, location } => {
                        self.lay(bytes, *location, is_difference, &mut buffer)
                    }
                    Part::None | Part::Straight { .. } | Part::Reading { .. } => continue,
                };
                changed = laid.ok_or_else(|| misfit(address, is_difference))?;
            }
            Ok(())
        });
        PageRead { address, buffer, changed, result }
    }

    /// Lays a record over a page that was read with the sectors around it.
    fn lay(
        &self,
        sectors: &[u8],
        location: Location,
        is_difference: bool,
        page: &mut [u8],
    ) -> Option<ChangedRanges> {
        let record = record_within(sectors, location, self.sector_bytes)?;
        let kind = match (is_difference, location.is_whole()) {
            (true, _) => EntryKind::Difference,
            (false, true) => EntryKind::Whole,
            (false, false) => EntryKind::Packed,
        };
        fill(kind, record, page)
    }

    /// Where a page lies, unless it was never written, or a record of it waits that needs no request.
    pub(super) fn place_of(&self, address: PageAddress) -> Option<PagePlace> {
        let base = self.map.get(address);
        let frontier = &self.frontiers[HOST];
        if base.is_none() || frontier.find(address).is_some() {
            return None;
        }
        let stored = self.differences.get(address);
        let difference = match frontier.find_difference(address) {
            Some(record) => Some(Difference::Waiting(record.to_vec())),
            None => (!stored.is_none()).then_some(Difference::Stored(stored)),
        };
        let (file, sector_bytes) = (self.files.segments, self.sector_bytes);
        if difference.is_none() && self.is_in_one_piece(base) {
            return Some(PagePlace::Whole { file, offset_bytes: base.offset_bytes() });
        }
        Some(PagePlace::Records(StoredPage { address, file, sector_bytes, base, difference }))
    }

    /// # Panics
    /// If a page is read twice at a time.
    pub(super) fn audit_reads(&self) {
        let addresses: std::collections::BTreeSet<PageAddress> =
            self.reads.in_flight.iter().map(|read| read.address).collect();
        assert_eq!(addresses.len(), self.reads.in_flight.len(), "a page is read once at a time");
    }
}
