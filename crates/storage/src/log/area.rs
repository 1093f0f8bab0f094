//! Reading and writing runs of the endless log in its file, whole sectors at a time.
//!
//! 1. Every request that was issued has been waited for when a call returns, with or without error, but
//!    those that it gives back: they are waited for by whoever has them.

use super::frame::Layout;
use crate::plant::{EngineBug, is_planted};
use crate::volume::{Io, IoOwner};
use crate::{FileId, Lsn, StorageError};
use nandu_base::{Nanos, to_index};
use nandu_device::{IoBuffer, Operation, TimeSource};
use nandu_workers::sync::{Mutex, MutexGuard};
use std::sync::Arc;

/// Buffers of flushes that are kept for the next ones: as many as a flush of the greatest length takes.
const SPARE_COUNT_MAX: usize = 8;
/// A write that is not longer gets a buffer of its length, unless a larger one is at hand.
const SMALL_BYTES_MAX: usize = 4096;
/// The most bytes of one request.
pub(super) const IO_BYTES_MAX: u64 = 256 << 10;

/// The file of a log and how it is laid out.
#[derive(Clone, Debug)]
pub(super) struct LogArea {
    io: Io,
    pub(super) file: FileId,
    pub(super) layout: Layout,
    alignment: usize,
    /// Buffers of [`IO_BYTES_MAX`] each, to be used again.
    spare_buffers: Arc<Mutex<Vec<IoBuffer>>>,
}

/// A request on its way.
#[derive(Debug)]
pub(super) struct Pending {
    ticket: u64,
    offset: u64,
}

/// The requests of one write on their way.
#[derive(Debug, Default)]
#[must_use = "whoever begins to write waits for it"]
pub(super) struct Writes(Vec<Pending>);

impl LogArea {
    pub(super) fn new(io: Io, file: FileId, layout: Layout) -> Self {
        let alignment = io.buffer_alignment().max(1) as usize;
        Self { io, file, layout, alignment, spare_buffers: Arc::default() }
    }

    /// The present, on the device's clock.
    pub(super) fn present(&self) -> Nanos {
        self.io.present()
    }

    /// Lets time pass until `deadline` where nobody else does and nobody can come meanwhile: on a virtual
    /// clock outside of a schedule. Whether it is so.
    pub(super) fn passes_alone(&self, deadline: Nanos) -> bool {
        let is_alone = self.io.time_source() == TimeSource::Virtual && !nandu_workers::is_worker();
        if is_alone {
            self.io.pass_until(deadline);
        }
        is_alone
    }

    pub(super) fn sync(&self) -> Result<(), StorageError> {
        if is_planted(EngineBug::LogNeverSynced) {
            return Ok(());
        }
        self.io.sync(self.file)
    }

    /// Writes whole sectors from `start` on, with several requests in flight if they are many.
    pub(super) fn write(&self, start: Lsn, bytes: &[u8]) -> Result<(), StorageError> {
        self.finish_write(self.begin_write(start, bytes)?)
    }

    /// Begins to write whole sectors from `start` on. Whoever does not wait at once calls
    /// [`Self::hand_over`].
    pub(super) fn begin_write(&self, start: Lsn, bytes: &[u8]) -> Result<Writes, StorageError> {
        let mut writes = Writes::default();
        let (mut at, mut rest) = (start, bytes);
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(to_index(self.piece_bytes(at, rest.len() as u64)));
            let buffer = self.spare_buffer_of(piece);
            match self.submit(Operation::Write, self.layout.offset_of(at), buffer) {
                Ok(request) => writes.0.push(request),
                Err(error) => {
                    let _ = self.finish_write(writes);
                    return Err(error);
                }
            }
            (at, rest) = (Lsn(at.0 + piece.len() as u64), later);
        }
        Ok(writes)
    }

    /// Has what was begun be under way.
    pub(super) fn hand_over(&self) {
        self.io.hand_over();
    }

    /// Waits for all of them. The first error counts.
    pub(super) fn finish_write(&self, writes: Writes) -> Result<(), StorageError> {
        let mut result = Ok(());
        for request in writes.0 {
            match self.finish("write", &request) {
                Ok(buffer) => self.keep(buffer),
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }

    /// Fills `bytes`, whole sectors, from `start` on.
    pub(super) fn read(&self, start: Lsn, bytes: &mut [u8]) -> Result<(), StorageError> {
        let (mut at, mut rest) = (start, bytes);
        while !rest.is_empty() {
            let length = self.piece_bytes(at, rest.len() as u64);
            let request = self.start_read(at, length)?;
            let (piece, later) = rest.split_at_mut(to_index(length));
            piece.copy_from_slice(&self.finish_read(&request)?);
            (at, rest) = (Lsn(at.0 + length), later);
        }
        Ok(())
    }

    /// How much of a run from `at` on one request takes.
    pub(super) fn piece_bytes(&self, at: Lsn, run_bytes: u64) -> u64 {
        run_bytes.min(IO_BYTES_MAX).min(self.layout.bytes_before_wrap(at))
    }

    /// Begins to read one piece.
    pub(super) fn start_read(&self, at: Lsn, bytes: u64) -> Result<Pending, StorageError> {
        let buffer = IoBuffer::with_alignment(to_index(bytes), self.alignment);
        self.submit(Operation::Read, self.layout.offset_of(at), buffer)
    }

    /// Whether a request could go out at once.
    pub(super) fn has_room(&self) -> bool {
        self.io.has_room()
    }

    /// Waits for a piece.
    pub(super) fn finish_read(&self, request: &Pending) -> Result<IoBuffer, StorageError> {
        self.finish("read", request)
    }

    /// Reads or writes bytes outside the endless part: the control data.
    pub(super) fn transfer_at(
        &self,
        operation: Operation,
        offset: u64,
        buffer: IoBuffer,
    ) -> Result<IoBuffer, StorageError> {
        let request = self.submit(operation, offset, buffer)?;
        self.finish(operation.label(), &request)
    }

    /// A buffer that the volume accepts, with these bytes.
    pub(super) fn buffer_of(&self, bytes: &[u8]) -> IoBuffer {
        let mut buffer = IoBuffer::with_alignment(bytes.len(), self.alignment);
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// As [`Self::buffer_of`], from those that are kept.
    fn spare_buffer_of(&self, bytes: &[u8]) -> IoBuffer {
        let spare = self.spare_buffers().pop();
        if spare.is_none() && bytes.len() <= SMALL_BYTES_MAX {
            return self.buffer_of(bytes);
        }
        let mut buffer = spare
            .unwrap_or_else(|| IoBuffer::with_alignment(to_index(IO_BYTES_MAX), self.alignment));
        buffer.resize(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Keeps a buffer of a write for later ones.
    fn keep(&self, buffer: IoBuffer) {
        let mut spare = self.spare_buffers();
        if spare.len() < SPARE_COUNT_MAX && buffer.capacity() >= to_index(IO_BYTES_MAX) {
            spare.push(buffer);
        }
    }

    fn spare_buffers(&self) -> MutexGuard<'_, Vec<IoBuffer>> {
        self.spare_buffers.lock()
    }

    fn submit(
        &self,
        operation: Operation,
        offset: u64,
        buffer: IoBuffer,
    ) -> Result<Pending, StorageError> {
        let ticket = self.io.submit(IoOwner::Log, self.file, operation, offset, buffer)?;
        Ok(Pending { ticket, offset })
    }

    fn finish(&self, verb: &str, request: &Pending) -> Result<IoBuffer, StorageError> {
        let completion = self.io.wait(request.ticket);
        if let Err(error) = completion.result {
            let what = format!("{verb} of the log at byte {} of its file", request.offset);
            return Err(StorageError::Device { what, error });
        }
        Ok(completion.buffer.expect("a request with a buffer brings it back"))
    }
}
