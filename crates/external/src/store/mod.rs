//! A store: blocks of temporary files on one volume or several, and the requests that move them.
//!
//! ```text
//!   block  0   1   2   3   4   5        of the store
//!          │   │   │   │   │   │
//!   file   A0  B0  A1  B1  A2  B2       of the volumes A and B, in turn
//!
//!   block: ┌ records, one after the other │ zeros ┬ stamp, 4 bytes ┬ checksum, 4 bytes ┐
//! ```
//!
//! 1. A block that is not what its owner wrote is an error, never other records: the checksum knows
//!    the store, the file and the place, the stamp knows the extent. A file that was cut reads as
//!    zeros, which no block is.
//! 2. The files go with the last who holds the store, whatever ended it, unless they are kept
//!    (`kept`). After a crash nothing
//!    refers to them; the next opening of a database removes those that lie beside its files.
//! 3. Every buffer comes from the grant.
//! 4. Every request is waited for, also by who gives up.

mod blocks;
mod buffers;
mod free_room;
mod kept;
mod layout;
mod room;
mod temporary_file;

pub(crate) use blocks::{Blocks, Place};
pub(crate) use buffers::{Buffers, ReadAhead, WriteBehind};
pub(crate) use kept::misfit;
pub use kept::{KeptStore, KeptVector};
pub use layout::Layout;
pub(crate) use room::Extent;
pub use temporary_file::{FileKind, TemporaryFile};

use crate::cost::{Access, Trace};
use crate::{ExternalError, Grant, Record};
use free_room::{Lack, lack_of_room};
use nandu_base::{ByteCount, Nanos, to_index, to_u32};
use nandu_device::{IoBuffer, Operation};
use nandu_storage::page::{page_is_sound, seal_page};
use nandu_storage::volume::Io;
use nandu_storage::{FileId, PageAddress, StorageError};
use nandu_workers::sync::Mutex;
use room::Room;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What the files of stores are called.
const FILE_KIND: FileKind = FileKind { noun: "temporary file", prefix: "external-" };

/// Bytes of a block that hold no records.
pub const TRAILER_BYTES: usize = 8;

/// Puts zeros between the records of a block, which end here, and what is not for records.
pub(crate) fn blank_behind(block: &mut [u8], records_end: usize) {
    let room_end = block.len() - TRAILER_BYTES;
    block[records_end..room_end].fill(0);
}

/// How a store reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a block, a multiple of the sectors of all volumes: a request moves one.
    pub block_bytes: u32,
    /// Requests that one stream has in flight beside the block at hand; 0 waits for each. A merge in
    /// parts, of a sort with much memory, has up to four more.
    pub in_flight: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { block_bytes: 1 << 20, in_flight: 4 }
    }
}

/// What a store did to its volumes, and how long it waited for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoCounts {
    /// Blocks that were read.
    pub read_blocks: u64,
    /// Blocks that were written.
    pub write_blocks: u64,
    /// Bytes of the blocks that were read.
    pub read_bytes: u64,
    /// Bytes of the blocks that were written.
    pub write_bytes: u64,
    /// Time spent waiting.
    pub wait_ns: u64,
}

impl IoCounts {
    /// What was done since `before`.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            read_blocks: self.read_blocks - before.read_blocks,
            write_blocks: self.write_blocks - before.write_blocks,
            read_bytes: self.read_bytes - before.read_bytes,
            write_bytes: self.write_bytes - before.write_bytes,
            wait_ns: self.wait_ns - before.wait_ns,
        }
    }
}

/// Blocks beyond memory. Clones are the same store.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    /// What the checksums of its blocks know of it, 0 where nobody gave any.
    identity: u64,
    grant: Grant,
    /// A file on each volume.
    lanes: Vec<TemporaryFile>,
    alignment: usize,
    room: Mutex<Room>,
    stop: Arc<AtomicBool>,
    read_blocks: AtomicU64,
    write_blocks: AtomicU64,
    wait_ns: AtomicU64,
    worked_bytes: AtomicU64,
    /// Requests, while somebody wants to know them.
    trace: Mutex<Option<Trace>>,
}

/// A block on its way, waited for when dropped.
#[derive(Debug)]
pub(crate) struct Flight {
    store: Store,
    place: Place,
    ticket: Option<u64>,
    operation: Operation,
}

impl Store {
    /// A store on `volumes`, over which blocks go round, with buffers from `grant`.
    ///
    /// # Errors
    /// If there is no volume, blocks are not of whole sectors or have no room for a record, or a
    /// file cannot be made.
    pub fn new(volumes: &[Io], settings: Settings, grant: Grant) -> Result<Self, ExternalError> {
        Self::stoppable(volumes, settings, grant, Arc::default())
    }

    /// The same for one whose requests are refused with [`ExternalError::Cancelled`] once `stop` is
    /// set: whatever works on it ends, and gives all back.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn stoppable(
        volumes: &[Io],
        settings: Settings,
        grant: Grant,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, ExternalError> {
        Self::identified(volumes, settings, grant, stop, 0)
    }

    /// The same for one that is to be kept ([`Self::keep`]): `identity` is what no other store has, a
    /// random number, say. Blocks know it, so that whoever resumes this store and finds files of the
    /// same names and places that another one wrote is told so.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn identified(
        volumes: &[Io],
        settings: Settings,
        grant: Grant,
        stop: Arc<AtomicBool>,
        identity: u64,
    ) -> Result<Self, ExternalError> {
        Self::check_settings(volumes, settings)?;
        let lanes = volumes.iter().map(|io| {
            // A table of files is written, which nobody does anything beside.
            io.keep_pace();
            let lane = TemporaryFile::create(io, FILE_KIND);
            io.keep_pace();
            lane
        });
        let lanes = lanes.collect::<Result<Vec<_>, _>>()?;
        let room = Mutex::new(Room::new(lanes.len()));
        let shared = Shared::new((settings, identity), grant, lanes, room, stop);
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Whether there can be a store of such blocks.
    fn check_settings(volumes: &[Io], settings: Settings) -> Result<(), ExternalError> {
        let invalid = |what: String| Err(ExternalError::Invalid { what });
        if volumes.is_empty() {
            return invalid("a store needs a volume".to_owned());
        }
        let block_bytes = settings.block_bytes;
        for io in volumes {
            let sector_bytes = io.sector_bytes();
            if block_bytes == 0 || !block_bytes.is_multiple_of(sector_bytes) {
                return invalid(format!(
                    "blocks of {block_bytes} bytes are not of whole sectors of {sector_bytes} \
                     bytes, as {} has them",
                    io.name()
                ));
            }
        }
        if block_bytes as usize <= TRAILER_BYTES {
            return invalid(format!("blocks of {block_bytes} bytes have no room for records"));
        }
        Ok(())
    }

    /// How it reads and writes.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.shared.settings
    }

    /// Where its memory comes from.
    #[must_use]
    pub fn grant(&self) -> &Grant {
        &self.shared.grant
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        u64::from(self.shared.settings.block_bytes)
    }

    /// Bytes that a stream takes at most: the block at hand, and those in flight.
    pub(crate) fn stream_bytes(&self) -> u64 {
        (u64::from(self.shared.settings.in_flight) + 1) * self.block_bytes()
    }

    /// How many volumes blocks go round.
    pub(crate) fn volume_count(&self) -> u64 {
        self.shared.lanes.len() as u64
    }

    /// Records of one kind that a block holds.
    ///
    /// # Errors
    /// If it holds none.
    pub fn per_block<R: Record>(&self) -> Result<u64, ExternalError> {
        self.per_block_of(R::BYTES)
    }

    /// The same of records of so many bytes.
    pub(crate) fn per_block_of(&self, record_bytes: usize) -> Result<u64, ExternalError> {
        let room = self.shared.settings.block_bytes as usize - TRAILER_BYTES;
        match room.checked_div(record_bytes) {
            Some(0) => {
                let what = format!(
                    "a record of {record_bytes} bytes does not fit into a block that has {room} \
                     bytes for records; make blocks larger"
                );
                Err(ExternalError::Invalid { what })
            }
            None => {
                let what = "records without bytes are not stored".to_owned();
                Err(ExternalError::Invalid { what })
            }
            Some(count) => Ok(count as u64),
        }
    }

    /// What it did so far.
    #[must_use]
    pub fn counts(&self) -> IoCounts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (read_blocks, write_blocks) =
            (load(&self.shared.read_blocks), load(&self.shared.write_blocks));
        IoCounts {
            read_blocks,
            write_blocks,
            read_bytes: read_blocks * self.block_bytes(),
            write_bytes: write_blocks * self.block_bytes(),
            wait_ns: load(&self.shared.wait_ns),
        }
    }

    /// Notes each request from now on, some 24 bytes beside the grant.
    pub fn start_trace(&self) {
        *self.shared.trace.lock() = Some(Trace::default());
    }

    /// The requests since [`Self::start_trace`], none without it; ends noting.
    #[must_use]
    pub fn take_trace(&self) -> Trace {
        self.shared.trace.lock().take().unwrap_or_default()
    }

    /// The present, on the clock of the first volume.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.shared.lanes[0].io().present()
    }

    /// Blocks that structures hold at present.
    #[must_use]
    pub fn used_blocks(&self) -> u64 {
        self.shared.room.lock().used_count()
    }

    /// The most blocks for which the files had room.
    #[must_use]
    pub fn peak_blocks(&self) -> u64 {
        self.shared.room.lock().peak_count()
    }

    /// Refuses what takes so many bytes, where the volumes say that they have fewer left, before
    /// anything of it is written; `what` says of what they would be.
    ///
    /// # Errors
    /// [`StorageError::NoSpace`] then.
    pub fn check_room(&self, bytes: u64, what: &str) -> Result<(), ExternalError> {
        let lanes = &self.shared.lanes;
        let unused_bytes = {
            let room = self.shared.room.lock();
            (room.peak_count() - room.used_count()).saturating_mul(self.block_bytes())
        };
        let free_of = |lane: &TemporaryFile| (lane.io().file_system(), lane.io().free_bytes());
        let free: Vec<_> = lanes.iter().map(free_of).collect();
        let Some(Lack { lanes: lacking, needed_bytes, free_bytes }) =
            lack_of_room(&free, bytes.saturating_sub(unused_bytes))
        else {
            return Ok(());
        };
        let names: Vec<String> = lacking.iter().map(|&lane| lanes[lane].io().name()).collect();
        let what = format!(
            "{what} would take {} at least in {}, where {} are free; make room there",
            ByteCount(needed_bytes),
            names.join(" and "),
            ByteCount(free_bytes)
        );
        Err(StorageError::NoSpace { what }.into())
    }

    /// Refuses once the user wants to stop, for work that has no requests for long.
    ///
    /// # Errors
    /// [`ExternalError::Cancelled`] then.
    pub fn check_stop(&self) -> Result<(), ExternalError> {
        match self.shared.stop.load(Ordering::Relaxed) {
            true => Err(ExternalError::Cancelled),
            false => Ok(()),
        }
    }

    /// The same, of work that has gone through so many bytes of memory more.
    pub(crate) fn work(&self, bytes: u64) -> Result<(), ExternalError> {
        self.shared.worked_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.check_stop()
    }

    /// Bytes of memory that walks without requests have gone through, for who shows how far they are.
    #[must_use]
    pub fn worked_bytes(&self) -> u64 {
        self.shared.worked_bytes.load(Ordering::Relaxed)
    }

    /// What is set once the user wants to stop.
    pub(crate) fn stop_flag(&self) -> &Arc<AtomicBool> {
        &self.shared.stop
    }

    /// Asserts the invariants of the room and of the grant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self) {
        self.shared.room.lock().audit();
        self.shared.grant.audit();
    }

    /// Whether both are the same store.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// A block of memory that has been granted.
    fn buffer(&self) -> IoBuffer {
        IoBuffer::with_alignment(self.shared.settings.block_bytes as usize, self.shared.alignment)
    }

    fn allocate(&self, wanted: u64) -> Result<Extent, ExternalError> {
        self.shared.room.lock().allocate(wanted)
    }

    fn release(&self, extent: Extent) {
        self.shared.room.lock().release(extent);
    }

    /// The file in which a block lies, and where.
    fn locate(&self, place: Place) -> (&TemporaryFile, u64) {
        let lanes = &self.shared.lanes;
        let count = lanes.len() as u64;
        (&lanes[to_index(place.block % count)], place.block / count * self.block_bytes())
    }

    /// Begins to read a block.
    pub(crate) fn read(&self, place: Place, buffer: IoBuffer) -> Result<Flight, ExternalError> {
        self.submit(place, Operation::Read, buffer)
    }

    /// Seals a block and begins to write it.
    pub(crate) fn write(
        &self,
        place: Place,
        mut buffer: IoBuffer,
    ) -> Result<Flight, ExternalError> {
        let stamp_at = buffer.len() - TRAILER_BYTES;
        buffer[stamp_at..stamp_at + 4].copy_from_slice(&place.stamp.to_be_bytes());
        seal_page(&mut buffer, self.address(place));
        self.submit(place, Operation::Write, buffer)
    }

    fn submit(
        &self,
        place: Place,
        operation: Operation,
        buffer: IoBuffer,
    ) -> Result<Flight, ExternalError> {
        self.check_stop()?;
        let (lane, offset_bytes) = self.locate(place);
        let ticket = lane.submit(operation, offset_bytes, buffer)?;
        let is_write = operation == Operation::Write;
        let count = if is_write { &self.shared.write_blocks } else { &self.shared.read_blocks };
        count.fetch_add(1, Ordering::Relaxed);
        if let Some(trace) = &mut *self.shared.trace.lock() {
            let volume = to_u32(place.block % self.shared.lanes.len() as u64);
            let byte_count = self.shared.settings.block_bytes;
            trace.push(Access { is_write, volume, offset_bytes, byte_count });
        }
        Ok(Flight { store: self.clone(), place, ticket: Some(ticket), operation })
    }

    /// What the checksum of a block knows of its place, and of the store.
    fn address(&self, place: Place) -> PageAddress {
        let (lane, offset_bytes) = self.locate(place);
        let [.., a, b, c, d, e, f] = self.shared.identity.to_be_bytes();
        let file = FileId(lane.id().0 ^ u16::from_be_bytes([a, b]));
        let number = to_u32(offset_bytes / self.block_bytes()) ^ u32::from_be_bytes([c, d, e, f]);
        PageAddress::new(file, number)
    }

    /// Whether a block is what was written there.
    fn is_sound(&self, place: Place, bytes: &[u8]) -> bool {
        let stamp_at = bytes.len() - TRAILER_BYTES;
        bytes[stamp_at..stamp_at + 4] == place.stamp.to_be_bytes()
            && page_is_sound(bytes, self.address(place))
    }
}

impl Shared {
    fn new(
        (settings, identity): (Settings, u64),
        grant: Grant,
        lanes: Vec<TemporaryFile>,
        room: Mutex<Room>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let alignments = lanes.iter().map(|lane| lane.io().buffer_alignment());
        let alignment = to_index(u64::from(alignments.max().unwrap_or(1).max(512)));
        let [read_blocks, write_blocks, wait_ns, worked_bytes] = [const { AtomicU64::new(0) }; 4];
        Self {
            settings,
            identity,
            grant,
            lanes,
            alignment,
            room,
            stop,
            read_blocks,
            write_blocks,
            wait_ns,
            worked_bytes,
            trace: Mutex::new(None),
        }
    }
}

impl Flight {
    /// Waits for the block, and checks one that was read.
    pub(crate) fn wait(mut self) -> Result<IoBuffer, ExternalError> {
        let ticket = self.ticket.take().expect("a flight is waited for once");
        let (lane, offset_bytes) = self.store.locate(self.place);
        let before = lane.io().present();
        let completion = lane.io().wait(ticket);
        let waited = lane.io().now().saturating_sub(before);
        self.store.shared.wait_ns.fetch_add(waited.0, Ordering::Relaxed);
        if let Err(error) = completion.result {
            return Err(lane.failed(self.operation, offset_bytes, error).into());
        }
        let buffer = completion.buffer.expect("a request gives its buffer back");
        if self.operation == Operation::Read && !self.store.is_sound(self.place, &buffer) {
            let what = "it is not what was written there: the file was cut or changed, or the \
                        drive lost it";
            let (place, what) = (lane.place(offset_bytes), what.to_owned());
            return Err(StorageError::Corrupt { place, what }.into());
        }
        Ok(buffer)
    }

    /// Whether it is on its way to or from `place`.
    pub(crate) fn is_at(&self, place: Place) -> bool {
        self.place.block == place.block
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let (lane, _) = self.store.locate(self.place);
            lane.io().wait(ticket);
        }
    }
}

#[cfg(test)]
mod tests;
