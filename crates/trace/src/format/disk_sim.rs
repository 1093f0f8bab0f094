//! The ASCII traces of simulators: five numbers between blanks.
//!
//! ```text
//!   DiskSim        arrival_time devno blkno bcount flags    ms with a fraction, flag bit 0 reads
//!   MQSim, SSDSim  arrival      devno lba   size   type     ns, 0 writes and 1 reads
//! ```
//!
//! Both count sectors of 512 bytes. Some forks of SSDSim and some converters mean the opposite by
//! the type, hence `invert_types`.

use super::{LineParser, Origin, RawRequest, SECTOR_BYTES};
use crate::field::{decimal, integer, scaled, split_words};
use nandu_device::Operation;

const MILLISECOND_NS: u64 = 1_000_000;

/// Reads the ASCII traces of the simulator DiskSim.
#[derive(Debug)]
pub(super) struct DiskSim {
    pub(super) invert_types: bool,
}

/// Reads the traces of the simulators MQSim and SSDSim.
#[derive(Debug)]
pub(super) struct MqSim {
    pub(super) invert_types: bool,
}

impl LineParser for DiskSim {
    fn parse<'a>(
        &mut self,
        _number: u64,
        line: &'a [u8],
    ) -> Result<Option<RawRequest<'a>>, String> {
        let fields = split_words::<5>(line, false)?;
        let flags = integer(fields[4], "flags")?;
        let at_ns = decimal(fields[0], MILLISECOND_NS, "arrival time")?;
        request(at_ns, fields, (flags & 1 == 1) != self.invert_types)
    }
}

impl LineParser for MqSim {
    fn parse<'a>(
        &mut self,
        _number: u64,
        line: &'a [u8],
    ) -> Result<Option<RawRequest<'a>>, String> {
        let fields = split_words::<5>(line, false)?;
        let reads = match integer(fields[4], "type")? {
            0 => false,
            1 => true,
            other => return Err(format!("type {other} is neither 0 nor 1")),
        };
        request(integer(fields[0], "arrival")?, fields, reads != self.invert_types)
    }
}

fn request(at_ns: u64, fields: [&[u8]; 5], reads: bool) -> Result<Option<RawRequest<'_>>, String> {
    let [_, device, sector, count, _] = fields;
    integer(device, "device")?;
    Ok(Some(RawRequest {
        at_ns,
        operation: if reads { Operation::Read } else { Operation::Write },
        offset_bytes: scaled(integer(sector, "address")?, SECTOR_BYTES, "address")?,
        length_bytes: scaled(integer(count, "size")?, SECTOR_BYTES, "size")?,
        origin: Origin::Device(device),
    }))
}
