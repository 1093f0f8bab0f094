//! Tables of enterprise storage, separated by commas.
//!
//! ```text
//!   MSR Cambridge  Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime
//!                  FILETIME (100 ns since 1601), Read or Write, bytes
//!   SPC            ASU,LBA,Size,Opcode,Timestamp[,…]
//!                  sectors of 512 bytes, bytes, r R w W, seconds
//!   Systor '17     Timestamp,Response,IOType,LUN,Offset,Size
//!                  seconds, R or W or nothing, bytes
//! ```

use super::{LineParser, Origin, RawRequest, SECOND_NS, SECTOR_BYTES, is_header, read_or_write};
use crate::field::{decimal, integer, scaled, shown, split};
use nandu_device::Operation;

/// MSR Cambridge. A device is named `hostname,disk`.
#[derive(Debug)]
pub(super) struct Msr;

impl LineParser for Msr {
    #[inline]
    fn parse<'a>(&mut self, number: u64, line: &'a [u8]) -> Result<Option<RawRequest<'a>>, String> {
        if is_header(number, line) {
            return Ok(None);
        }
        let [time, host, disk, operation, offset, size, _response] = split::<7>(line, b',', false)?;
        let operation = match operation {
            b"Read" | b"read" => Operation::Read,
            b"Write" | b"write" => Operation::Write,
            _ => return Err(format!("type `{}` is neither Read nor Write", shown(operation))),
        };
        Ok(Some(RawRequest {
            at_ns: scaled(integer(time, "timestamp")?, 100, "timestamp")?,
            operation,
            offset_bytes: integer(offset, "offset")?,
            length_bytes: integer(size, "size")?,
            origin: Origin::Device(spanning(line, host, disk)),
        }))
    }
}

/// The part of `line` from the first of two of its fields to the end of the second.
fn spanning<'a>(line: &'a [u8], first: &[u8], last: &[u8]) -> &'a [u8] {
    let position = |field: &[u8]| field.as_ptr().addr() - line.as_ptr().addr();
    &line[position(first)..position(last) + last.len()]
}

/// SPC. A device is an application storage unit.
#[derive(Debug)]
pub(super) struct Spc;

impl LineParser for Spc {
    fn parse<'a>(&mut self, number: u64, line: &'a [u8]) -> Result<Option<RawRequest<'a>>, String> {
        if is_header(number, line) {
            return Ok(None);
        }
        let [unit, sector, size, operation, time] = split::<5>(line, b',', true)?;
        integer(unit, "ASU")?;
        Ok(Some(RawRequest {
            at_ns: decimal(time, SECOND_NS, "timestamp")?,
            operation: read_or_write(operation)?,
            offset_bytes: scaled(integer(sector, "LBA")?, SECTOR_BYTES, "LBA")?,
            length_bytes: integer(size, "size")?,
            origin: Origin::Device(unit),
        }))
    }
}

/// Systor '17. A line without type is an event that is neither read nor write.
#[derive(Debug)]
pub(super) struct Systor;

impl LineParser for Systor {
    fn parse<'a>(&mut self, number: u64, line: &'a [u8]) -> Result<Option<RawRequest<'a>>, String> {
        if is_header(number, line) {
            return Ok(None);
        }
        let [time, _response, operation, unit, offset, size] = split::<6>(line, b',', false)?;
        let at_ns = decimal(time, SECOND_NS, "timestamp")?;
        if operation.is_empty() {
            return Ok(None);
        }
        Ok(Some(RawRequest {
            at_ns,
            operation: read_or_write(operation)?,
            offset_bytes: integer(offset, "offset")?,
            length_bytes: integer(size, "size")?,
            origin: Origin::Device(unit),
        }))
    }
}
