//! blktrace's binary events, as `blktrace` or `blkparse -d` writes them.
//!
//! ```text
//!   magic u32 │ sequence u32 │ time ns u64 │ sector u64 │ bytes u32 │ action u32 │ pid u32
//!   device u32 │ cpu u32 │ error u16 │ extra bytes u16 │ extra
//! ```
//!
//! Source: Linux, include/uapi/linux/blktrace_api.h, version 7, in either byte order. The lower half
//! of the action says what happened (1 queued, 7 issued), the upper half to what.
//!
//! 1. Every record begins with the magic; one that does not ends the trace, since nothing tells where
//!    the next begins.

use super::{Origin, RawRequest, RecordParser, SECTOR_BYTES};
use crate::field::scaled;
use nandu_device::Operation;

/// Without its version, which is the lowest byte.
const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;
const HEAD_BYTES: usize = 48;
const QUEUED: u32 = 1;
const ISSUED: u32 = 7;
/// Of the lower half: the event belongs to a control group.
const CGROUP: u32 = 1 << 8;
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const NOTIFY: u32 = 1 << 10;
const DISCARD: u32 = 1 << 13;
const READ: u32 = 1;

/// Reads the binary files of the kernel's `blktrace`.
#[derive(Debug)]
pub(super) struct Blktrace {
    is_big_endian: bool,
    /// Which of a request's events counts: issue, or queue where there is none.
    event: u32,
    device: u32,
    device_name: String,
}

impl Blktrace {
    /// A parser, if `sample` begins with the magic.
    pub(super) fn recognise(sample: &[u8]) -> Option<Self> {
        let first: [u8; 4] = sample.get(..4)?.try_into().ok()?;
        let is_big_endian = u32::from_be_bytes(first) & !0xff == MAGIC;
        if !is_big_endian && u32::from_le_bytes(first) & !0xff != MAGIC {
            return None;
        }
        let mut parser =
            Self { is_big_endian, event: QUEUED, device: u32::MAX, device_name: String::new() };
        let mut at = 0;
        while let Some(head) = sample.get(at..at + HEAD_BYTES) {
            if parser.action(head) & 0xffff & !CGROUP == ISSUED {
                parser.event = ISSUED;
                break;
            }
            let Ok(extra) = parser.body_bytes(head) else { break };
            at += HEAD_BYTES + extra;
        }
        Some(parser)
    }

    fn u32_at(&self, head: &[u8], at: usize) -> u32 {
        let bytes = [head[at], head[at + 1], head[at + 2], head[at + 3]];
        if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn u64_at(&self, head: &[u8], at: usize) -> u64 {
        let (first, second) = (self.u32_at(head, at), self.u32_at(head, at + 4));
        let (low, high) = if self.is_big_endian { (second, first) } else { (first, second) };
        u64::from(high) << 32 | u64::from(low)
    }

    fn action(&self, head: &[u8]) -> u32 {
        self.u32_at(head, 28)
    }
}

impl RecordParser for Blktrace {
    fn head_bytes(&self) -> usize {
        HEAD_BYTES
    }

    fn body_bytes(&self, head: &[u8]) -> Result<usize, String> {
        let magic = self.u32_at(head, 0);
        if magic & !0xff != MAGIC {
            return Err(format!("expected the magic of a record, found {magic:#010x}"));
        }
        if magic & 0xff != VERSION {
            return Err(format!("version {} of blktrace is not known, only 7", magic & 0xff));
        }
        let length = [head[46], head[47]];
        let length = if self.is_big_endian {
            u16::from_be_bytes(length)
        } else {
            u16::from_le_bytes(length)
        };
        Ok(usize::from(length))
    }

    fn parse(&mut self, head: &[u8]) -> Result<Option<RawRequest<'_>>, String> {
        let action = self.action(head);
        let kind = action >> 16;
        if action & 0xffff & !CGROUP != self.event || kind & NOTIFY != 0 {
            return Ok(None);
        }
        let length_bytes = u64::from(self.u32_at(head, 24));
        let operation = match length_bytes {
            0 if kind & FLUSH != 0 => Operation::Flush,
            0 => return Ok(None),
            _ if kind & DISCARD != 0 => Operation::Trim,
            _ if kind & WRITE != 0 => Operation::Write,
            _ if kind & READ != 0 => Operation::Read,
            _ => return Ok(None),
        };
        let sector = if operation == Operation::Flush { 0 } else { self.u64_at(head, 16) };
        let device = self.u32_at(head, 36);
        if device != self.device {
            self.device = device;
            self.device_name = format!("{},{}", device >> 20, device & 0xf_ffff);
        }
        Ok(Some(RawRequest {
            at_ns: self.u64_at(head, 8),
            operation,
            offset_bytes: scaled(sector, SECTOR_BYTES, "sector")?,
            length_bytes,
            origin: Origin::Device(self.device_name.as_bytes()),
        }))
    }

    fn remark(&self) -> String {
        let events = if self.event == ISSUED { "D" } else { "Q" };
        let order = if self.is_big_endian { "big" } else { "little" };
        format!("events {events}, {order}-endian")
    }
}
