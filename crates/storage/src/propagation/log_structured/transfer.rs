//! Single transfers of the propagation's own: map images, partial segments, victims; and the same of
//! page-differential logging. Each is waited for.
//!
//! 1. Nothing of these is in flight when a function returns, so nobody else's wait meets them.

use crate::volume::{Io, IoOwner};
use crate::{FileId, StorageError};
use nandu_device::{DeviceError, IoBuffer, Operation};

/// The most bytes of one request.
const PIECE_BYTES_MAX: usize = 1 << 20;

/// A buffer that suits the volume.
pub(in crate::propagation) fn buffer(io: &Io, bytes: usize) -> IoBuffer {
    let alignment = io.buffer_alignment().max(1) as usize;
    IoBuffer::with_alignment(bytes, alignment)
}

/// Writes a buffer of whole sectors.
///
/// # Errors
/// If the device fails or has no room.
pub(in crate::propagation) fn write(
    io: &Io,
    file: FileId,
    offset_bytes: u64,
    buffer: IoBuffer,
) -> Result<(), StorageError> {
    run(io, Operation::Write, file, offset_bytes, buffer).map(drop)
}

/// Reads whole sectors.
///
/// # Errors
/// If the device fails.
pub(in crate::propagation) fn read(
    io: &Io,
    file: FileId,
    offset_bytes: u64,
    bytes: usize,
) -> Result<IoBuffer, StorageError> {
    let buffer = buffer(io, bytes);
    run(io, Operation::Read, file, offset_bytes, buffer)
}

/// Writes whole sectors in pieces.
///
/// # Errors
/// As [`write`].
pub(in crate::propagation) fn write_long(
    io: &Io,
    file: FileId,
    bytes: &[u8],
) -> Result<(), StorageError> {
    let mut offset_bytes = 0;
    for piece in bytes.chunks(PIECE_BYTES_MAX) {
        let mut part = buffer(io, piece.len());
        part.copy_from_slice(piece);
        write(io, file, offset_bytes, part)?;
        offset_bytes += piece.len() as u64;
    }
    Ok(())
}

/// Reads the first `bytes` of a file, whole sectors, in pieces.
///
/// # Errors
/// As [`read`].
pub(in crate::propagation) fn read_long(
    io: &Io,
    file: FileId,
    bytes: usize,
) -> Result<Vec<u8>, StorageError> {
    let mut all = Vec::with_capacity(bytes);
    while all.len() < bytes {
        let piece = PIECE_BYTES_MAX.min(bytes - all.len());
        let part = read(io, file, all.len() as u64, piece)?;
        all.extend_from_slice(&part);
    }
    Ok(all)
}

fn run(
    io: &Io,
    operation: Operation,
    file: FileId,
    offset_bytes: u64,
    buffer: IoBuffer,
) -> Result<IoBuffer, StorageError> {
    let ticket = io.submit(IoOwner::PageWrite, file, operation, offset_bytes, buffer)?;
    let completion = io.wait(ticket);
    match completion.result {
        Ok(()) => Ok(completion.buffer.expect("a request that is done hands its buffer back")),
        Err(error) => {
            let label = operation.label();
            let what = format!("cannot {label} segments, file {}, at {offset_bytes}", file.0);
            match error {
                DeviceError::NoSpace => Err(StorageError::NoSpace { what }),
                error => Err(StorageError::Device { what, error }),
            }
        }
    }
}
