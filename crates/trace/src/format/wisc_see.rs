//! WiscSee's events for its simulator, made from blkparse.
//!
//! ```text
//!   pid   action op   offset size timestamp   pre_wait sync
//!   29162 D      read 299008 4096 0.000000000 0        False
//! ```
//!
//! Bytes and seconds. `D` lines are requests, `C` lines their completions, which are left out.

use super::{LineParser, Origin, RawRequest, SECOND_NS};
use crate::field::{decimal, integer, shown, split_words};
use nandu_device::Operation;

/// Reads the events of the simulator WiscSee.
#[derive(Debug)]
pub(super) struct WiscSee;

impl LineParser for WiscSee {
    fn parse<'a>(
        &mut self,
        _number: u64,
        line: &'a [u8],
    ) -> Result<Option<RawRequest<'a>>, String> {
        let [pid, action, operation, offset, size, time, ..] = split_words::<8>(line, false)?;
        integer(pid, "pid")?;
        match action {
            b"D" => {}
            b"C" => return Ok(None),
            _ => return Err(format!("action `{}` is neither D nor C", shown(action))),
        }
        let operation = match operation {
            b"read" => Operation::Read,
            b"write" => Operation::Write,
            b"discard" => Operation::Trim,
            b"flush" => Operation::Flush,
            _ => {
                let found = shown(operation);
                return Err(format!("operation `{found}` is none of read, write, discard, flush"));
            }
        };
        Ok(Some(RawRequest {
            at_ns: decimal(time, SECOND_NS, "timestamp")?,
            operation,
            offset_bytes: integer(offset, "offset")?,
            length_bytes: integer(size, "size")?,
            origin: Origin::Device(b""),
        }))
    }
}
