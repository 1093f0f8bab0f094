//! CloudPhysics' binary trace of VMware's virtual disks.
//!
//! ```text
//!   version 1, 32 bytes   sn u32 │ len u32 │ nSG u32 │ cmd u16 │ ver u16 │ lbn u64 │ ts u64
//!   version 2, 40 bytes   cmd u16 │ ver u16 │ sn u32 │ len u32 │ nSG u32 │ lbn u64 │ ts u64 │ rt u64
//! ```
//!
//! Little-endian; bytes, sectors of 512 bytes, microseconds. Source: the reader of libCacheSim, whose
//! test of the version is taken too: the upper byte of `ver` in the first two records.

use super::{Origin, RawRequest, RecordParser, SECTOR_BYTES, cloud};
use crate::field::scaled;

#[derive(Clone, Copy, Debug)]
struct Layout {
    record_bytes: usize,
    length_at: usize,
    opcode_at: usize,
    version_at: usize,
    sector_at: usize,
    time_at: usize,
}

const LAYOUTS: [Layout; 2] = [
    Layout {
        record_bytes: 32,
        length_at: 4,
        opcode_at: 12,
        version_at: 14,
        sector_at: 16,
        time_at: 24,
    },
    Layout {
        record_bytes: 40,
        length_at: 8,
        opcode_at: 0,
        version_at: 2,
        sector_at: 16,
        time_at: 24,
    },
];

/// Reads the binary trace of CloudPhysics.
#[derive(Debug)]
pub(super) struct Vscsi {
    layout: Layout,
    version: u8,
}

impl Vscsi {
    /// A parser, if the first two records of `sample` carry one version.
    pub(super) fn recognise(sample: &[u8]) -> Option<Self> {
        (1_u8..).zip(LAYOUTS).find_map(|(version, layout)| {
            let carries = |record: usize| {
                let at = record * layout.record_bytes + layout.version_at;
                sample.get(at + 1) == Some(&version)
            };
            (carries(0) && carries(1)).then_some(Self { layout, version })
        })
    }
}

fn number(head: &[u8], at: usize, bytes: usize) -> u64 {
    head[at..at + bytes].iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

impl RecordParser for Vscsi {
    fn head_bytes(&self) -> usize {
        self.layout.record_bytes
    }

    fn body_bytes(&self, _head: &[u8]) -> Result<usize, String> {
        Ok(0)
    }

    fn parse(&mut self, head: &[u8]) -> Result<Option<RawRequest<'_>>, String> {
        let found = head[self.layout.version_at + 1];
        if found != self.version {
            return Err(format!("expected a record of version {}, found {found}", self.version));
        }
        let Some(operation) = cloud::scsi_operation(head[self.layout.opcode_at]) else {
            return Ok(None);
        };
        Ok(Some(RawRequest {
            at_ns: scaled(number(head, self.layout.time_at, 8), 1_000, "ts")?,
            operation,
            offset_bytes: scaled(number(head, self.layout.sector_at, 8), SECTOR_BYTES, "lbn")?,
            length_bytes: number(head, self.layout.length_at, 4),
            origin: Origin::Device(b""),
        }))
    }

    fn remark(&self) -> String {
        format!("version {}", self.version)
    }
}
