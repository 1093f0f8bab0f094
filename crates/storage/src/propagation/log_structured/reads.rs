//! Pages on their way from the segments: whole ones straight into the caller's buffer, packed ones and
//! differences by way of the sectors that hold them, both at once. [`Reads`] are of page-differential
//! logging, too.
//!
//! 1. A segment is written again, or cut off the file, only after the reads from it are done.
//! 2. Whatever medium the pieces lie on, a page is made of them in the same way.

use super::partial::EntryKind;
use super::record::Location;
use super::stored::{Record, StoredPage, Waiting};
use super::{HOST, LogStructured, SEGMENTS_FILE, transfer};
use crate::propagation::{ChangedRanges, PagePlace, PageRead};
use crate::volume::{Io, IoOwner};
use crate::{FileId, PageAddress, StorageError};
use nandu_base::to_index;
use nandu_device::{Completion, DeviceError, IoBuffer, Operation};
use std::collections::VecDeque;

/// A medium from which pieces of pages are read.
pub(in crate::propagation) trait PieceReads {
    /// A buffer that suits the medium.
    fn piece_buffer(&self, bytes: usize) -> IoBuffer;

    /// Begins to read a piece into `target`, and gives back its ticket.
    ///
    /// # Errors
    /// If the medium refuses.
    fn begin_piece(
        &self,
        file: FileId,
        offset_bytes: u64,
        target: IoBuffer,
    ) -> Result<u64, StorageError>;

    /// Waits for one of the pieces that were begun. One is in flight.
    fn next_piece(&self) -> ReadPiece;
}

/// A piece that was read, or was not.
#[derive(Debug)]
pub(in crate::propagation) struct ReadPiece {
    pub(in crate::propagation) ticket: u64,
    pub(in crate::propagation) result: Result<(), DeviceError>,
    pub(in crate::propagation) buffer: Option<IoBuffer>,
}

impl PieceReads for Io {
    fn piece_buffer(&self, bytes: usize) -> IoBuffer {
        transfer::buffer(self, bytes)
    }

    fn begin_piece(
        &self,
        file: FileId,
        offset_bytes: u64,
        target: IoBuffer,
    ) -> Result<u64, StorageError> {
        self.submit(IoOwner::PoolRead, file, Operation::Read, offset_bytes, target)
    }

    fn next_piece(&self) -> ReadPiece {
        let Completion { id, result, buffer, .. } =
            self.wait_any(IoOwner::PoolRead).expect("a read is in flight");
        ReadPiece { ticket: id, result, buffer }
    }
}

/// Reads that were begun.
#[derive(Debug, Default)]
pub(in crate::propagation) struct Reads {
    in_flight: Vec<InFlight>,
    ready: VecDeque<PageRead>,
}

/// A page on its way: straight into its buffer, or in pieces.
#[derive(Debug)]
struct InFlight {
    address: PageAddress,
    /// The caller's; empty where the device fills it itself.
    page: IoBuffer,
    /// Of what it is made; `None` where the one piece is the page.
    stored: Option<StoredPage>,
    pieces: Vec<Piece>,
    result: Result<(), StorageError>,
}

/// Sectors that hold a record.
#[derive(Debug)]
enum Piece {
    Reading { ticket: u64 },
    Here(IoBuffer),
}

impl Piece {
    const fn ticket(&self) -> Option<u64> {
        match self {
            Self::Reading { ticket } => Some(*ticket),
            Self::Here(_) => None,
        }
    }
}

impl Reads {
    /// Begins to read a page from where it lies, if it was ever written.
    ///
    /// # Errors
    /// If the device refuses.
    pub(in crate::propagation) fn begin(
        &mut self,
        medium: &dyn PieceReads,
        address: PageAddress,
        place: Option<PagePlace>,
        mut buffer: IoBuffer,
    ) -> Result<(), StorageError> {
        let mut pieces = Vec::new();
        let mut result = Ok(());
        let (page, stored) = match place {
            None => {
                buffer.fill(0);
                let changed = ChangedRanges::default();
                self.ready.push_back(PageRead { address, buffer, changed, result });
                return Ok(());
            }
            Some(PagePlace::Whole { file, offset_bytes }) => {
                let ticket = medium.begin_piece(file, offset_bytes, buffer)?;
                pieces.push(Piece::Reading { ticket });
                (IoBuffer::with_alignment(0, 1), None)
            }
            Some(PagePlace::Records(stored)) => {
                for sectors in stored.pieces() {
                    let target = medium.piece_buffer(to_index(sectors.end - sectors.start));
                    match medium.begin_piece(stored.file(), sectors.start, target) {
                        Ok(ticket) => pieces.push(Piece::Reading { ticket }),
                        Err(error) if pieces.is_empty() => return Err(error),
                        // The first request is under way and has to be waited for.
                        Err(error) => result = Err(error),
                    }
                }
                (buffer, Some(stored))
            }
        };
        let read = InFlight { address, page, stored, pieces, result };
        if read.pieces.is_empty() {
            self.ready.push_back(read.assemble());
        } else {
            self.in_flight.push(read);
        }
        Ok(())
    }

    /// Waits for the next page that was begun.
    pub(in crate::propagation) fn next(&mut self, medium: &dyn PieceReads) -> Option<PageRead> {
        loop {
            if let Some(read) = self.ready.pop_front() {
                return Some(read);
            }
            if self.in_flight.is_empty() {
                return None;
            }
            self.wait_for_piece(medium);
        }
    }

    /// Waits for all reads, because a segment is written again, or cut off.
    pub(in crate::propagation) fn settle(&mut self, medium: &dyn PieceReads) {
        while !self.in_flight.is_empty() {
            self.wait_for_piece(medium);
        }
    }

    /// Waits for a request; the page is ready when all of its pieces are there.
    fn wait_for_piece(&mut self, medium: &dyn PieceReads) {
        let ReadPiece { ticket, result, buffer } = medium.next_piece();
        let is_asked_for = |piece: &Piece| piece.ticket() == Some(ticket);
        let mut in_flight = self.in_flight.iter_mut().enumerate();
        let found = in_flight.find_map(|(place, read)| {
            let piece = read.pieces.iter().position(is_asked_for)?;
            Some((place, piece, read))
        });
        let (place, piece, read) = found.expect("only the pool reads pages");
        if let Err(error) = result {
            let what = format!("cannot read {}", read.address);
            read.result = Err(StorageError::Device { what, error });
        }
        read.pieces[piece] = Piece::Here(buffer.unwrap_or_else(|| IoBuffer::with_alignment(0, 1)));
        if read.pieces.iter().all(|piece| piece.ticket().is_none()) {
            let read = self.in_flight.swap_remove(place);
            self.ready.push_back(read.assemble());
        }
    }

    /// # Panics
    /// If a page is read twice at a time.
    pub(in crate::propagation) fn audit(&self) {
        let addresses: std::collections::BTreeSet<PageAddress> =
            self.in_flight.iter().map(|read| read.address).collect();
        assert_eq!(addresses.len(), self.in_flight.len(), "a page is read once at a time");
    }
}

impl LogStructured {
    /// Whether a record is a page on whole sectors.
    pub(super) fn is_in_one_piece(&self, location: Location) -> bool {
        location.is_whole()
            && location.offset_bytes().is_multiple_of(u64::from(self.sector_bytes))
            && location.stored_bytes().is_multiple_of(self.sector_bytes)
    }

    /// Where a page lies, or of what it is made; `None` if it was never written.
    pub(super) fn place_of(&self, address: PageAddress) -> Option<PagePlace> {
        let frontier = &self.frontiers[HOST];
        let waiting = |(kind, bytes): (EntryKind, &[u8])| {
            let bytes = bytes.to_vec();
            Record::Waiting(Waiting { kind, bytes })
        };
        let location = self.map.get(address);
        let base = match frontier.find(address) {
            Some(record) => waiting(record),
            None if location.is_none() => return None,
            None => Record::Stored(location),
        };
        let stored = self.differences.get(address);
        let difference = match frontier.find_difference(address) {
            Some(bytes) => Some(waiting((EntryKind::Difference, bytes))),
            None if frontier.has_written(address) || stored.is_none() => None,
            None => Some(Record::Stored(stored)),
        };
        let (file, sector_bytes) = (self.files.segments, self.sector_bytes);
        match (&base, &difference) {
            (Record::Stored(location), None) if self.is_in_one_piece(*location) => {
                Some(PagePlace::Whole { file, offset_bytes: location.offset_bytes() })
            }
            _ => Some(PagePlace::Records(StoredPage {
                address,
                file,
                file_name: SEGMENTS_FILE,
                sector_bytes,
                base,
                difference,
            })),
        }
    }

    /// Where a page lies, unless it was never written, or waits to be.
    pub(super) fn place_on_device(&self, address: PageAddress) -> Option<PagePlace> {
        self.place_of(address).filter(|place| match place {
            PagePlace::Whole { .. } => true,
            PagePlace::Records(stored) => matches!(stored.base, Record::Stored(_)),
        })
    }
}

impl InFlight {
    /// The page of its pieces, which are all here.
    fn assemble(self) -> PageRead {
        let Self { address, page: mut buffer, stored, pieces, result } = self;
        let here = |piece: Piece| match piece {
            Piece::Here(bytes) => Some(bytes),
            Piece::Reading { .. } => None,
        };
        let mut pieces: Vec<IoBuffer> = pieces.into_iter().filter_map(here).collect();
        let mut changed = ChangedRanges::default();
        let result = match stored {
            None => {
                buffer = pieces.pop().expect("the page is its one piece");
                result
            }
            Some(stored) => result
                .and_then(|()| stored.assemble(&pieces, &mut buffer).map(|known| changed = known)),
        };
        PageRead { address, buffer, changed, result }
    }
}
