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

/// Alibaba's block traces.
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

/// CloudPhysics as CSV.
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
        let operation = match opcode {
            b"28" | b"08" | b"8" | b"88" | b"a8" | b"A8" => Operation::Read,
            b"2a" | b"2A" | b"0a" | b"0A" | b"a" | b"A" | b"8a" | b"8A" | b"aa" | b"AA" => {
                Operation::Write
            }
            b"41" | b"93" => Operation::Write,
            b"42" => Operation::Trim,
            b"35" | b"91" => Operation::Flush,
            _ => {
                return Err(format!(
                    "SCSI opcode `{}` neither reads, writes, unmaps nor flushes",
                    shown(opcode)
                ));
            }
        };
        Ok(Some(RawRequest {
            at_ns,
            operation,
            offset_bytes: scaled(integer(sector, "lbn")?, SECTOR_BYTES, "lbn")?,
            length_bytes: integer(size, "size")?,
            origin: Origin::Device(b""),
        }))
    }
}
