//! What Linux says of its requests: the text of blkparse, and the event `block_rq_issue` in tracefs.
//!
//! ```text
//!   maj,min cpu sequence seconds pid action rwbs sector + count [process]
//!   8,0     3   1    0.000000000 697 D      WS   223490 + 8     [kjournald]
//!
//!   comm-pid [cpu] flags seconds: block_rq_issue: maj,min rwbs bytes () sector + count … [comm]
//!   dd-12345 [000] .... 123.456000: block_rq_issue: 8,0 W 4096 () 12345 + 8 none,0,0 [dd]
//! ```
//!
//! 1. `rwbs` begins with an `F` where a flush goes before, and has one behind the operation where
//!    the device is to force the write through. A request without sectors that has an F is a flush;
//!    one with sectors counts as its operation, since the kernel issues the flush on its own.

use super::{LineParser, Origin, RawRequest, SECOND_NS, SECTOR_BYTES};
use crate::field::{decimal, integer, scaled, shown, trim, words};
use nandu_device::Operation;

/// blkparse's default output.
#[derive(Debug)]
pub(super) struct Blkparse {
    /// Which of a request's events counts: `D` (issue), or `Q` where there is none.
    action: &'static [u8],
    in_summary: bool,
}

impl Blkparse {
    pub(super) fn new(sample: &[u8]) -> Self {
        let issues = sample
            .split(|&byte| byte == b'\n')
            .any(|line| words(line).nth(5).is_some_and(|action| action == b"D"));
        Self { action: if issues { b"D" } else { b"Q" }, in_summary: false }
    }
}

impl LineParser for Blkparse {
    fn parse<'a>(
        &mut self,
        _number: u64,
        line: &'a [u8],
    ) -> Result<Option<RawRequest<'a>>, String> {
        let line = trim(line);
        if line.starts_with(b"CPU") || line.starts_with(b"Total (") {
            self.in_summary = true;
        }
        if self.in_summary || line.is_empty() {
            return Ok(None);
        }
        let mut words = words(line);
        let mut next = |what: &str| words.next().ok_or_else(|| format!("{what} is missing"));
        let device = next("maj,min")?;
        if !is_device(device) {
            return Err(format!("expected maj,min such as 8,0, found `{}`", shown(device)));
        }
        integer(next("cpu")?, "cpu")?;
        integer(next("sequence")?, "sequence")?;
        let at_ns = decimal(next("time")?, SECOND_NS, "time")?;
        integer(next("pid")?, "pid")?;
        if next("action")? != self.action {
            return Ok(None);
        }
        let rwbs = next("rwbs")?;
        request(at_ns, device, rwbs, &mut words)
    }

    fn remark(&self) -> Option<String> {
        Some(format!("events {}", shown(self.action)))
    }
}

/// tracefs.
#[derive(Debug)]
pub(super) struct Ftrace;

const EVENT: &[u8] = b"block_rq_issue:";

impl LineParser for Ftrace {
    fn parse<'a>(
        &mut self,
        _number: u64,
        line: &'a [u8],
    ) -> Result<Option<RawRequest<'a>>, String> {
        let Some(event) = memchr::memmem::find(line, EVENT) else { return Ok(None) };
        let time = words(&line[..event]).last().and_then(|word| word.strip_suffix(b":"));
        let at_ns =
            decimal(time.ok_or("expected `seconds:` before the event")?, SECOND_NS, "time")?;
        let rest = &line[event + EVENT.len()..];
        let command = memchr::memchr(b')', rest).ok_or("expected `()` after the bytes")?;
        let mut before = words(&rest[..command]);
        let device = before.next().unwrap_or_default();
        if !is_device(device) {
            return Err(format!("expected maj,min such as 8,0, found `{}`", shown(device)));
        }
        let rwbs = before.next().ok_or("rwbs is missing")?;
        integer(before.next().unwrap_or_default(), "bytes")?;
        request(at_ns, device, rwbs, &mut words(&rest[command + 1..]))
    }
}

fn is_device(word: &[u8]) -> bool {
    let mut parts = word.split(|&byte| byte == b',');
    let mut number =
        || parts.next().is_some_and(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit));
    number() && number() && parts.next().is_none()
}

fn request<'a>(
    at_ns: u64,
    device: &'a [u8],
    rwbs: &[u8],
    words: &mut dyn Iterator<Item = &'a [u8]>,
) -> Result<Option<RawRequest<'a>>, String> {
    let origin = Origin::Device(device);
    let (sector, plus, count) = (words.next(), words.next(), words.next());
    let located = plus == Some(b"+");
    let (mut first_sector, mut sector_count) = (0, 0);
    if located {
        first_sector = integer(sector.unwrap_or_default(), "sector")?;
        sector_count = integer(count.unwrap_or_default(), "sector count")?;
    } else if sector.is_some_and(|word| word[0].is_ascii_digit()) {
        return Err("expected `sector + count`, and the line ends".into());
    }
    if sector_count == 0 {
        let flush = RawRequest {
            at_ns,
            operation: Operation::Flush,
            offset_bytes: 0,
            length_bytes: 0,
            origin,
        };
        return Ok(rwbs.contains(&b'F').then_some(flush));
    }
    let operation = match rwbs {
        [b'F', rest @ ..] if !rest.is_empty() => rest[0],
        [first, ..] => *first,
        [] => return Err("rwbs is missing".into()),
    };
    let operation = match operation {
        b'R' => Operation::Read,
        b'W' => Operation::Write,
        b'D' => Operation::Trim,
        b'N' | b'F' => return Ok(None),
        _ => return Err(format!("rwbs `{}` names no operation (R, W, D, F, N)", shown(rwbs))),
    };
    Ok(Some(RawRequest {
        at_ns,
        operation,
        offset_bytes: scaled(first_sector, SECTOR_BYTES, "sector")?,
        length_bytes: scaled(sector_count, SECTOR_BYTES, "sector count")?,
        origin,
    }))
}
