//! Named files as extents on one device, simulated or real.
//!
//! ```text
//!   file    0 ─────────── byte count ─── end of its units
//!            written │ zeros │ written │   ...   a range that was never written reads as zeros
//!   extents [ 64 KiB ][ 64 KiB ][ 128 KiB ][ 256 KiB ] ...   each doubles the file, to 1/64 device
//!   units   free ──► a file's ──► pending (freed in memory) ──► table durable, trimmed ──► free
//! ```
//!
//! The table of files (`table`) is written as a whole, into two slots in turn: when a file is made,
//! and when a file whose entry changed is synced. Before it is written, all requests are waited for
//! and the device is flushed; after it, the device is flushed again.
//!
//! 1. Each unit is free, pending, or of exactly one file; pending ones were a file's in the durable
//!    table, and are not used before a table without them is durable.
//! 2. Bytes outside a file's written ranges read as zeros, whatever the device holds there. A durable
//!    table calls only those bytes written that a flush made durable before; so the bytes of a
//!    removed file never show in another, even after a power cut.
//! 3. A file falls into at most `RANGE_COUNT_MAX` written ranges when the table is written, and into at
//!    most `LOOSE_RANGE_COUNT_MAX` before; smaller gaps are filled with zeros. A file that was made
//!    long and is written from its front, as a log is, gets zeros ahead of it, so that not every sync
//!    has to write the table.
//! 4. A file's number, and which records may speak of it, are durable before the number is given out.
//! 5. Requests of the volume in flight are those in slots and those that are ready to be told.
//!
//! Files have no holes: writing far past the end takes all units up to there.

mod commit;
mod extents;
mod ranges;
mod table;
#[cfg(test)]
mod tests;

use super::{FileName, FileRequest, NO_RECORDS, Volume, free_number};
use crate::{FileId, Lsn, StorageError};
use extents::{Extent, FreeUnits};
use nandu_base::{Nanos, to_index, to_u32};
use nandu_device::{
    Completion, CompletionQueue, Counters, Device, DeviceError, EnergyParts, IoBuffer, Operation,
    Request, TimeSource,
};
use std::collections::BTreeSet;
use std::ops::Range;
use table::{FileEntry, Table};

/// The most bytes of one request to the device; longer ones are split.
const PIECE_BYTES_MAX: u64 = 1 << 30;
/// Written ranges of a file that was not synced since: a spill file of many buckets never is, and goes
/// without zeros.
const LOOSE_RANGE_COUNT_MAX: usize = 4096;
/// A file grows by at most this part of the device at a time.
const GROWTH_PART: u32 = 64;
/// Ids from here on are the volume's own requests.
const OWN_ID: u64 = 1 << 63;

/// A volume on one device.
pub struct DeviceVolume {
    device: Box<dyn Device + Send>,
    table: Table,
    free: FreeUnits,
    /// Freed, but a file's in the durable table.
    pending: Vec<Extent>,
    /// Which slot holds the durable table.
    durable_slot: u32,
    /// Files whose entry may differ from that in the durable table.
    changed: BTreeSet<FileId>,
    /// Requests that the device has, whole or in pieces.
    flights: Vec<Option<Flight>>,
    vacant: Vec<u32>,
    /// Requests that are done but not yet told.
    ready: CompletionQueue,
}

/// A request in flight.
#[derive(Debug)]
struct Flight {
    id: u64,
    operation: Operation,
    file: FileId,
    issued_at: Nanos,
    completed_at: Nanos,
    /// The request's, where it went to the device in pieces.
    buffer: Option<IoBuffer>,
    /// Where each piece starts in the buffer; empty where the buffer went to the device itself.
    piece_starts: Vec<usize>,
    left_count: u32,
    error: Option<DeviceError>,
    /// What a write covers that had not been written before.
    fresh: Vec<Range<u64>>,
}

/// A part of a file's bytes that lies in one piece on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    file_offset: u64,
    device_offset: u64,
    byte_count: u64,
}

impl std::fmt::Debug for DeviceVolume {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, files) = (self.name(), self.table.files.len());
        write!(formatter, "DeviceVolume({files} files on {name})")
    }
}

impl DeviceVolume {
    /// Gives the device back. What was not synced may be lost.
    ///
    /// # Panics
    /// If requests are in flight.
    #[must_use]
    pub fn into_device(self) -> Box<dyn Device + Send> {
        assert_eq!(self.in_flight(), 0, "nothing may be in flight");
        self.device
    }

    /// Asserts the numbered invariants.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self) {
        self.free.audit();
        let unit_bytes = u64::from(self.table.layout.unit_bytes);
        let mut unused =
            FreeUnits::new(self.table.layout.first_unit(), self.table.layout.unit_count);
        for (file, entry) in &self.table.files {
            entry.written.audit();
            for &extent in &entry.extents {
                assert!(unused.take_exactly(extent), "invariant 1: file {} has its own", file.0);
            }
            let room = entry.unit_count() * unit_bytes;
            assert!(entry.byte_count <= room, "file {} has room for its length", file.0);
            assert!(entry.written.end() <= entry.byte_count, "written bytes are the file's");
        }
        for extent in self.free.iter().chain(self.pending.iter().copied()) {
            assert!(unused.take_exactly(extent), "invariant 1: free units are nobody else's");
        }
        assert_eq!(unused.count(), 0, "invariant 1: each unit is somewhere");
        let taken = self.flights.iter().flatten().count();
        assert_eq!(taken + self.vacant.len(), self.flights.len(), "invariant 5: slots");
    }

    fn entry(&self, file: FileId) -> Result<&FileEntry, StorageError> {
        self.table.files.get(&file).ok_or_else(|| no_file(file, self.name()))
    }

    fn entry_mut(&mut self, file: FileId) -> &mut FileEntry {
        self.table.files.get_mut(&file).expect("the file was looked up before")
    }

    fn present(&self, now: Nanos) -> Nanos {
        now.max(self.device.now())
    }

    /// Trims leave zeros, so a trimmed range may still be called written.
    fn trim_leaves_zeros(&self) -> bool {
        let info = self.device.info();
        info.supports_trim && info.time_source == TimeSource::Virtual
    }

    fn error_of(&self, what: String, error: DeviceError) -> StorageError {
        match error {
            DeviceError::NoSpace => StorageError::NoSpace { what },
            DeviceError::ReadOnly => StorageError::ReadOnly { place: self.name().to_owned() },
            error => StorageError::Device { what, error },
        }
    }

    /// The rules that every request keeps.
    fn check(&self, file: FileId, request: &FileRequest) -> Result<(), StorageError> {
        let entry = self.entry(file)?;
        let FileRequest { operation, offset_bytes, length_bytes, buffer, .. } = request;
        let sector_bytes = u64::from(self.sector_bytes());
        let refuse = |error| {
            let what = format!("{} of {} at {offset_bytes}", operation.label(), entry.name);
            Err(self.error_of(what, error))
        };
        let queue_depth_max = self.queue_depth_max();
        if self.in_flight() >= queue_depth_max {
            return refuse(DeviceError::QueueFull { queue_depth_max });
        }
        if *operation == Operation::Flush {
            return Ok(());
        }
        if *length_bytes == 0 {
            return refuse(DeviceError::EmptyRequest);
        }
        if !(offset_bytes | length_bytes).is_multiple_of(sector_bytes) {
            return refuse(DeviceError::Misaligned { alignment: self.sector_bytes() });
        }
        if offset_bytes.checked_add(*length_bytes).is_none_or(|end| end > 1 << 62) {
            return refuse(DeviceError::NoSpace);
        }
        if *operation == Operation::Trim {
            return Ok(());
        }
        let info = self.device.info();
        match buffer {
            None if info.needs_buffers => refuse(DeviceError::BufferMissing),
            Some(buffer) if buffer.len() as u64 != *length_bytes => {
                let found = buffer.len() as u64;
                refuse(DeviceError::BufferLength { expected: *length_bytes, found })
            }
            Some(buffer) if !buffer.is_aligned_to(info.buffer_alignment) => {
                refuse(DeviceError::Misaligned { alignment: info.buffer_alignment })
            }
            _ => Ok(()),
        }
    }

    /// Where the first bytes of `range` lie, and how many of them in one piece.
    fn locate(&self, file: FileId, range: &Range<u64>) -> Piece {
        let unit_bytes = u64::from(self.table.layout.unit_bytes);
        let mut extent_start = 0;
        for extent in &self.table.files[&file].extents {
            let extent_end = extent_start + u64::from(extent.count) * unit_bytes;
            if range.start < extent_end {
                let inside = range.start - extent_start;
                return Piece {
                    file_offset: range.start,
                    device_offset: u64::from(extent.first) * unit_bytes + inside,
                    byte_count: (range.end.min(extent_end) - range.start).min(PIECE_BYTES_MAX),
                };
            }
            extent_start = extent_end;
        }
        unreachable!("written ranges lie in the file's units")
    }

    /// The pieces of `range`, all of which lies in the file's units.
    fn pieces(&self, file: FileId, mut range: Range<u64>, pieces: &mut Vec<Piece>) {
        while !range.is_empty() {
            let piece = self.locate(file, &range);
            range.start += piece.byte_count;
            pieces.push(piece);
        }
    }

    fn request_of(&self, operation: Operation, piece: Piece, buffer: Option<IoBuffer>) -> Request {
        let sector_bytes = u64::from(self.sector_bytes());
        Request {
            id: 0,
            operation,
            first_sector: nandu_base::SectorIndex(piece.device_offset / sector_bytes),
            sector_count: to_u32(piece.byte_count / sector_bytes),
            buffer,
        }
    }

    fn submit_read(
        &mut self,
        file: FileId,
        flight: Flight,
        range: Range<u64>,
    ) -> Result<(), StorageError> {
        let written = &self.table.files[&file].written;
        if written.covers(&range) {
            return self.submit_mapped(file, flight, range);
        }
        let parts: Vec<Range<u64>> = written.inside(range.clone()).collect();
        let mut pieces = Vec::new();
        for part in parts {
            self.pieces(file, part, &mut pieces);
        }
        let mut flight = flight;
        if let Some(buffer) = &mut flight.buffer {
            buffer.fill(0);
        }
        self.submit_pieces(flight, range.start, &pieces)
    }

    fn submit_write(
        &mut self,
        file: FileId,
        mut flight: Flight,
        range: Range<u64>,
    ) -> Result<(), StorageError> {
        self.make_room(file, range.end, false)?;
        let entry = self.entry_mut(file);
        if !entry.written.covers(&range) {
            flight.fresh = entry.written.outside(range.clone());
            entry.written.add(range.clone());
            entry.byte_count = entry.byte_count.max(range.end);
            self.changed.insert(file);
            self.fill_small_gaps(file, LOOSE_RANGE_COUNT_MAX)?;
        }
        self.submit_mapped(file, flight, range)
    }

    fn submit_trim(
        &mut self,
        file: FileId,
        flight: Flight,
        range: Range<u64>,
    ) -> Result<(), StorageError> {
        let leaves_zeros = self.trim_leaves_zeros();
        let entry = self.entry_mut(file);
        let parts: Vec<Range<u64>> = entry.written.inside(range.clone()).collect();
        if !leaves_zeros && !parts.is_empty() {
            entry.written.remove(range.clone());
            self.changed.insert(file);
        }
        let mut pieces = Vec::new();
        if self.device.info().supports_trim {
            for part in parts {
                self.pieces(file, part, &mut pieces);
            }
        }
        self.submit_pieces(flight, range.start, &pieces)
    }

    fn submit_flush(&mut self, file: FileId, mut flight: Flight) -> Result<(), StorageError> {
        if self.table_must_be_written(file) {
            self.make_durable(file, flight.issued_at)?;
            flight.completed_at = self.present(flight.issued_at);
            self.tell(flight);
            return Ok(());
        }
        flight.left_count = 1;
        self.hand_over(flight, Request::flush(0))
    }

    /// Issues a read or write of bytes that lie in the file's units; with its own buffer if they lie
    /// in one piece.
    fn submit_mapped(
        &mut self,
        file: FileId,
        mut flight: Flight,
        range: Range<u64>,
    ) -> Result<(), StorageError> {
        let piece = self.locate(file, &range);
        if piece.byte_count == range.end - range.start {
            let request = self.request_of(flight.operation, piece, flight.buffer.take());
            flight.left_count = 1;
            return self.hand_over(flight, request);
        }
        let mut pieces = Vec::new();
        self.pieces(file, range.clone(), &mut pieces);
        self.submit_pieces(flight, range.start, &pieces)
    }

    fn hand_over(&mut self, flight: Flight, mut request: Request) -> Result<(), StorageError> {
        let issued_at = flight.issued_at;
        self.wait_for_room();
        let slot = self.take_slot(flight);
        request.id = u64::from(slot) << 32;
        self.submit_or_end(issued_at, request);
        Ok(())
    }

    fn submit_pieces(
        &mut self,
        mut flight: Flight,
        start: u64,
        pieces: &[Piece],
    ) -> Result<(), StorageError> {
        if pieces.is_empty() {
            self.tell(flight);
            return Ok(());
        }
        let (operation, issued_at) = (flight.operation, flight.issued_at);
        let alignment = self.buffer_alignment().max(1) as usize;
        flight.left_count = to_u32(pieces.len() as u64);
        flight.piece_starts =
            pieces.iter().map(|piece| to_index(piece.file_offset - start)).collect();
        let slot = self.take_slot(flight);
        for (index, &piece) in (0_u64..).zip(pieces) {
            let flight = self.flights[slot as usize].as_ref().expect("pieces are left");
            let buffer = flight.buffer.as_ref().map(|whole| {
                let mut part = IoBuffer::with_alignment(to_index(piece.byte_count), alignment);
                if operation == Operation::Write {
                    let from = flight.piece_starts[to_index(index)];
                    let to = from + part.len();
                    part.copy_from_slice(&whole[from..to]);
                }
                part
            });
            let mut request = self.request_of(operation, piece, buffer);
            request.id = u64::from(slot) << 32 | index;
            self.wait_for_room();
            self.submit_or_end(issued_at, request);
        }
        Ok(())
    }

    fn take_slot(&mut self, flight: Flight) -> u32 {
        let slot = self.vacant.pop().expect("fewer are in flight than the queue is deep");
        self.flights[slot as usize] = Some(flight);
        slot
    }

    /// Issues a piece; a refusal ends it, since others of its request may be under way.
    fn submit_or_end(&mut self, now: Nanos, request: Request) {
        let now = self.present(now);
        if let Err(rejected) = self.device.submit(now, request) {
            let Request { id, operation, buffer, .. } = rejected.request;
            let result = Err(rejected.error);
            self.absorb(Completion {
                id,
                operation,
                issued_at: now,
                completed_at: now,
                result,
                buffer,
            });
        }
    }

    fn wait_for_room(&mut self) {
        while self.device.in_flight() >= self.device.info().queue_depth_max {
            let completion = self.device.next_completion(Nanos::MAX);
            self.absorb(completion.expect("a full queue completes something"));
        }
    }

    /// Takes in what the device completed; the last piece makes its request ready.
    fn absorb(&mut self, completion: Completion) {
        let slot = to_u32(completion.id >> 32);
        let piece = to_index(completion.id & 0xFFFF_FFFF);
        let flight = self.flights[slot as usize].as_mut().expect("the device tells what was asked");
        flight.completed_at = flight.completed_at.max(completion.completed_at);
        flight.left_count -= 1;
        match (flight.piece_starts.get(piece), completion.buffer) {
            (None, buffer) => flight.buffer = buffer,
            (Some(&from), Some(part)) if flight.operation == Operation::Read => {
                let whole = flight.buffer.as_mut().expect("pieces have buffers if the whole has");
                whole[from..from + part.len()].copy_from_slice(&part);
            }
            (Some(_), _) => {}
        }
        if let Err(error) = completion.result {
            flight.error.get_or_insert(error);
        }
        if flight.left_count == 0 {
            let flight = self.flights[slot as usize].take().expect("it was there just now");
            self.vacant.push(slot);
            self.tell(flight);
        }
    }

    /// Makes a finished request ready to be told.
    fn tell(&mut self, flight: Flight) {
        let Flight { id, operation, file, issued_at, completed_at, buffer, error, fresh, .. } =
            flight;
        if error.is_some()
            && let Some(entry) = self.table.files.get_mut(&file)
        {
            // What the device holds there may be another file's (invariant 2).
            fresh.into_iter().for_each(|range| entry.written.remove(range));
        }
        let result = error.map_or(Ok(()), Err);
        self.ready.push(Completion { id, operation, issued_at, completed_at, result, buffer });
    }

    /// Gives a file units up to `byte_count`; more than that unless `exact`, so that it rarely asks.
    fn make_room(
        &mut self,
        file: FileId,
        byte_count: u64,
        exact: bool,
    ) -> Result<(), StorageError> {
        let layout = self.table.layout;
        let needed = layout.units_of(byte_count);
        let had = self.entry(file)?.unit_count();
        if needed <= had {
            return Ok(());
        }
        if self.free.count() < needed - had {
            self.release_units(file)?;
        }
        let missing = needed - had;
        let free = self.free.count();
        if free < missing {
            let unit_bytes = u64::from(layout.unit_bytes);
            let what = format!(
                "{} needs {} bytes more, {} are free on {}",
                self.entry(file)?.name,
                missing * unit_bytes,
                free * unit_bytes,
                self.name()
            );
            return Err(StorageError::NoSpace { what });
        }
        let growth = if exact { 0 } else { had.min(u64::from(layout.unit_count / GROWTH_PART)) };
        self.take_units(file, missing, missing.max(growth))
    }

    /// Takes at least `missing` units, which are free, and in the first piece up to `wanted`.
    fn take_units(&mut self, file: FileId, missing: u64, wanted: u64) -> Result<(), StorageError> {
        let before = self.table.files[&file].extents.clone();
        let (mut left, mut wanted) = (missing, wanted);
        let mut taken = Vec::new();
        while left > 0 {
            let entry = self.table.files.get_mut(&file).expect("the file was looked up before");
            let last = entry.extents.last_mut();
            let after = last.as_ref().map(|extent| extent.end());
            let extent = self.free.take(to_u32(wanted), after).expect("enough is free");
            taken.push(extent);
            match last {
                Some(last) if last.end() == extent.first => last.count += extent.count,
                _ => entry.extents.push(extent),
            }
            left = left.saturating_sub(u64::from(extent.count));
            wanted = left;
        }
        if self.table.has_room(0) {
            self.changed.insert(file);
            return Ok(());
        }
        self.entry_mut(file).extents = before;
        taken.into_iter().for_each(|extent| self.free.give(extent));
        let what = format!("the files of {} are in too many pieces; remove some", self.name());
        Err(StorageError::NoSpace { what })
    }

    /// Makes units free that are pending, or that files other than `asking` took ahead of need.
    fn release_units(&mut self, asking: FileId) -> Result<(), StorageError> {
        let layout = self.table.layout;
        for (&file, entry) in &mut self.table.files {
            let units = layout.units_of(entry.byte_count);
            if file != asking && units < entry.unit_count() {
                cut_extents(entry, units, &mut self.pending);
                self.changed.insert(file);
            }
        }
        if self.pending.is_empty() { Ok(()) } else { self.commit(self.device.now()) }
    }
}

impl Volume for DeviceVolume {
    fn name(&self) -> &str {
        &self.device.info().name
    }

    fn sector_bytes(&self) -> u32 {
        self.table.layout.sector_bytes
    }

    fn buffer_alignment(&self) -> u32 {
        self.device.info().buffer_alignment
    }

    fn queue_depth_max(&self) -> u32 {
        self.device.info().queue_depth_max
    }

    fn time_source(&self) -> TimeSource {
        self.device.info().time_source
    }

    fn volatile_cache(&self) -> bool {
        self.device.info().volatile_cache
    }

    fn now(&self) -> Nanos {
        self.device.now()
    }

    fn files(&self) -> Vec<(FileId, String)> {
        let files = self.table.files.iter();
        files.map(|(&file, entry)| (file, entry.name.as_str().to_owned())).collect()
    }

    fn create_logged(&mut self, name: &str, records_from: Lsn) -> Result<FileId, StorageError> {
        let name = FileName::new(name)?;
        if self.table.files.values().any(|entry| entry.name == name) {
            return Err(StorageError::Exists { what: format!("file {name}") });
        }
        let file = free_number(self.table.files.keys().copied(), self.name())?;
        self.table.files.insert(file, FileEntry::new(name, records_from));
        if !self.table.has_room(0) {
            self.table.files.remove(&file);
            let what = format!("{} has no room for one more file; remove some", self.name());
            return Err(StorageError::NoSpace { what });
        }
        if let Err(error) = self.commit(self.device.now()) {
            self.table.files.remove(&file);
            return Err(error);
        }
        Ok(file)
    }

    fn records_from(&self, file: FileId) -> Lsn {
        self.table.files.get(&file).map_or(NO_RECORDS, |entry| entry.records_from)
    }

    fn remove(&mut self, file: FileId) -> Result<(), StorageError> {
        self.entry(file)?;
        let is_still = self.flights.iter().flatten().all(|flight| flight.file != file);
        assert!(is_still, "nothing of a removed file may be in flight");
        let entry = self.table.files.remove(&file).expect("it was looked up");
        self.pending.extend(entry.extents);
        // Noted for files without units as well. Those give back no space, but the durable table
        // has to lose their name.
        self.changed.insert(file);
        Ok(())
    }

    fn byte_count(&self, file: FileId) -> u64 {
        self.table.files.get(&file).map_or(0, |entry| entry.byte_count)
    }

    fn set_byte_count(&mut self, file: FileId, bytes: u64) -> Result<(), StorageError> {
        let sector_bytes = u64::from(self.sector_bytes());
        if !bytes.is_multiple_of(sector_bytes) || bytes > 1 << 62 {
            let what = format!("a file length of {bytes} is not a multiple of {sector_bytes}");
            return Err(StorageError::InvalidSetting { what });
        }
        let before = self.entry(file)?.byte_count;
        self.make_room(file, bytes, true)?;
        let units = self.table.layout.units_of(bytes);
        let entry = self.table.files.get_mut(&file).expect("it was looked up");
        if bytes < before {
            entry.written.remove(bytes..before);
            cut_extents(entry, units, &mut self.pending);
        }
        entry.byte_count = bytes;
        if bytes != before {
            self.changed.insert(file);
        }
        Ok(())
    }

    fn free_bytes(&self) -> Option<u64> {
        let layout = self.table.layout;
        let ahead = |entry: &FileEntry| entry.unit_count() - layout.units_of(entry.byte_count);
        let pending: u64 = self.pending.iter().map(|extent| u64::from(extent.count)).sum();
        let ahead: u64 = self.table.files.values().map(ahead).sum();
        Some((self.free.count() + pending + ahead) * u64::from(layout.unit_bytes))
    }

    fn submit(
        &mut self,
        file: FileId,
        now: Nanos,
        request: FileRequest,
    ) -> Result<(), StorageError> {
        self.check(file, &request)?;
        let FileRequest { id, operation, offset_bytes, length_bytes, buffer } = request;
        let issued_at = self.present(now);
        let flight = Flight {
            id,
            operation,
            file,
            issued_at,
            completed_at: issued_at,
            buffer,
            piece_starts: Vec::new(),
            left_count: 0,
            error: None,
            fresh: Vec::new(),
        };
        let range = offset_bytes..offset_bytes + length_bytes;
        match operation {
            Operation::Read => self.submit_read(file, flight, range),
            Operation::Write => self.submit_write(file, flight, range),
            Operation::Trim => self.submit_trim(file, flight, range),
            Operation::Flush => self.submit_flush(file, flight),
        }
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        loop {
            let ready_at = self.ready.next_at();
            let earlier = ready_at.map_or(until, |ready_at| ready_at.min(until));
            let is_wall = self.time_source() == TimeSource::Wall;
            if ready_at.is_some_and(|at| is_wall && at <= until) {
                return self.ready.pop(until);
            }
            match self.device.next_completion(earlier) {
                Some(completion) => self.absorb(completion),
                None => return self.ready.pop(until),
            }
        }
    }

    fn in_flight(&self) -> u32 {
        to_u32((self.flights.len() - self.vacant.len()) as u64) + self.ready.len()
    }

    fn sync(&mut self, file: FileId, now: Nanos) -> Result<Nanos, StorageError> {
        self.entry(file)?;
        let now = self.present(now);
        self.make_durable(file, now)?;
        Ok(self.present(now))
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.device.idle_until(time)
    }

    fn counters(&self) -> Counters {
        self.device.counters()
    }

    fn energy_by(&self, time: Nanos) -> Option<EnergyParts> {
        self.device.energy_by(time)
    }
}

/// Cuts a file to so many units; what is cut off goes to `freed`.
fn cut_extents(entry: &mut FileEntry, units: u64, freed: &mut Vec<Extent>) {
    let mut excess = entry.unit_count().saturating_sub(units);
    while excess > 0 {
        let last = entry.extents.last_mut().expect("excess units are in extents");
        let count = last.count.min(to_u32(excess));
        last.count -= count;
        freed.push(Extent { first: last.end(), count });
        excess -= u64::from(count);
        if last.count == 0 {
            entry.extents.pop();
        }
    }
}

fn no_file(file: FileId, place: &str) -> StorageError {
    StorageError::NotFound { what: format!("file {} on {place}", file.0) }
}
