//! Tables of cloud storage, separated by commas.
//!
//! ```text
//!   Alibaba 2020   device_id,opcode,offset,length,timestamp      R or W, bytes, us
//!   Tencent CBS    Timestamp,Offset,Size,IOType,VolumeID         s, sectors of 512 bytes, 0 reads
//!   CloudPhysics   version,time,op,size,lbn                      s, SCSI opcode, bytes, sectors
//! ```
//!
//! That CloudPhysics' times count seconds is chosen: the file that libCacheSim ships has only whole
//! numbers, which fit a recording of hours as seconds.

use super::{LineParser, Origin, RawRequest, SECOND_NS, SECTOR_BYTES, is_header, read_or_write};
use crate::field::{decimal, integer, scaled, shown, split};
use nandu_device::Operation;

/// Reads the block traces that Alibaba published.
#[derive(Debug)]
pub(super) struct Alibaba;

impl LineParser for Alibaba {
    fn parse<'a>(&mut self, number: u64, line: &'a [u8]) -> Result<Option<RawRequest<'a>>, String> {
        if is_header(number, line) {
            return Ok(None);
        }
        let [device, operation, offset, length, time] = split::<5>(line, b',', false)?;
        Ok(Some(RawRequest {
            at_ns: scaled(integer(time, "timestamp")?, 1_000, "timestamp")?,
            operation: read_or_write(operation)?,
            offset_bytes: integer(offset, "offset")?,
            length_bytes: integer(length, "length")?,
            origin: Origin::Device(device),
        }))
    }
}

/// Tencent's cloud block storage.
#[derive(Debug)]
pub(super) struct Tencent;

impl LineParser for Tencent {
    fn parse<'a>(&mut self, number: u64, line: &'a [u8]) -> Result<Option<RawRequest<'a>>, String> {
        if is_header(number, line) {
            return Ok(None);
        }
        let [time, offset, size, operation, volume] = split::<5>(line, b',', false)?;
        let operation = match operation {
            b"0" => Operation::Read,
            b"1" => Operation::Write,
            _ => return Err(format!("type `{}` is neither 0 nor 1", shown(operation))),
        };
        Ok(Some(RawRequest {
            at_ns: decimal(time, SECOND_NS, "timestamp")?,
            operation,
            offset_bytes: scaled(integer(offset, "offset")?, SECTOR_BYTES, "offset")?,
            length_bytes: scaled(integer(size, "size")?, SECTOR_BYTES, "size")?,
            origin: Origin::Device(volume),
        }))
    }
}

/// What a SCSI command asks for; `None` where it moves, drops and flushes nothing (SBC-3, SPC-4).
pub(super) const fn scsi_operation(opcode: u8) -> Option<Operation> {
    match opcode {
        // READ of 6, 10, 16 and 12 bytes.
        0x08 | 0x28 | 0x88 | 0xa8 => Some(Operation::Read),
        // WRITE of 6, 10, 16 and 12 bytes, WRITE SAME of 10 and 16.
        0x0a | 0x2a | 0x8a | 0xaa | 0x41 | 0x93 => Some(Operation::Write),
        // UNMAP.
        0x42 => Some(Operation::Trim),
        // SYNCHRONIZE CACHE of 10 and 16 bytes.
        0x35 | 0x91 => Some(Operation::Flush),
        _ => None,
    }
}

/// CloudPhysics as CSV. Commands that are none of an operation are no requests.
#[derive(Debug)]
pub(super) struct CloudPhysics;

impl LineParser for CloudPhysics {
    fn parse<'a>(&mut self, number: u64, line: &'a [u8]) -> Result<Option<RawRequest<'a>>, String> {
        if is_header(number, line) {
            return Ok(None);
        }
        let [version, time, opcode, size, sector] = split::<5>(line, b',', false)?;
        integer(version, "version")?;
        let at_ns = decimal(time, SECOND_NS, "time")?;
        let wrong = || format!("SCSI opcode `{}` is no number of two hex digits", shown(opcode));
        let digits = std::str::from_utf8(opcode).map_err(|_| wrong())?;
        if digits.len() > 2 {
            return Err(wrong());
        }
        let number = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        let Some(operation) = scsi_operation(number) else { return Ok(None) };
        Ok(Some(RawRequest {
            at_ns,
            operation,
            offset_bytes: scaled(integer(sector, "lbn")?, SECTOR_BYTES, "lbn")?,
            length_bytes: integer(size, "size")?,
            origin: Origin::Device(b""),
        }))
    }
}
