//! What Linux says of its requests: the text of blkparse, and the event `block_rq_issue` in tracefs.
//!
//! ```text
//!   maj,min cpu sequence seconds pid action rwbs what it is about
//!   8,0     3   1    0.000000000 697 D      WS   223490 + 8     [kjournald]
//!   8,0     3   2    0.000000000 697 D      R    36 (12 00 ..)  [smartctl]     passed through
//!
//!   comm-pid [cpu] flags seconds: block_rq_issue: maj,min rwbs bytes () sector + count … [comm]
//!   dd-12345 [000] .... 123.456000: block_rq_issue: 8,0 W 4096 () 12345 + 8 none,0,0 [dd]
//! ```
//!
//! 1. `rwbs` begins with an `F` where a flush goes before, and has one behind the operation where
//!    the device is to force the write through. A request without sectors that has an F is a flush,
//!    as was one with a B (barrier) before Linux 2.6.37; one with sectors counts as its operation,
//!    since the kernel issues the flush on its own.
//! 2. A command that is passed through to the drive, shown with its bytes in place of a sector, is a
//!    flush if it is SYNCHRONIZE CACHE, and else no request: where it reads or writes is not said.
//! 3. The summary of blkparse is passed over, and ends where events go on.

use super::{LineParser, Origin, RawRequest, SECOND_NS, SECTOR_BYTES, cloud};
use crate::field::{decimal, integer, scaled, shown, trim, words};
use nandu_device::Operation;

/// Reads what `blkparse` prints unless told otherwise.
#[derive(Debug)]
pub(super) struct Blkparse {
    /// Which of a request's events counts: `D` (issue), or `Q` where there is none.
    action: &'static [u8],
    in_summary: bool,
}

impl Blkparse {
    pub(super) fn new(sample: &[u8]) -> Self {
        // Commands that are passed through are issued by drives of which all else is queued.
        let has = |wanted: &[u8]| {
            sample.split(|&byte| byte == b'\n').any(|line| {
                let mut words = words(line).skip(5);
                words.next() == Some(wanted) && words.nth(2) == Some(b"+")
            })
        };
        let is_queued_only = has(b"Q") && !has(b"D");
        Self { action: if is_queued_only { b"Q" } else { b"D" }, in_summary: false }
    }

    /// Whether a line is an event as blkparse prints it, of whatever action.
    pub(super) fn is_event(line: &[u8]) -> bool {
        let Ok((Event { time, action, .. }, _)) = event(line) else { return false };
        let is_action = matches!(action, [b'A'..=b'Z' | b'm'] | [b'U', b'T'] | [b'Z', b'A'..=b'Z']);
        // Nanoseconds are always written to the last digit.
        is_action && time.len() > 10 && time[time.len() - 10] == b'.'
    }
}

/// What every event begins with.
struct Event<'a> {
    device: &'a [u8],
    time: &'a [u8],
    action: &'a [u8],
}

/// The head of an event, and the words behind it.
#[inline]
fn event(line: &[u8]) -> Result<(Event<'_>, impl Iterator<Item = &[u8]>), String> {
    let mut words = words(line);
    let mut next = |what: &str| words.next().ok_or_else(|| format!("{what} is missing"));
    let device = next("maj,min")?;
    if !is_device(device) {
        return Err(format!("expected maj,min such as 8,0, found `{}`", shown(device)));
    }
    integer(next("cpu")?, "cpu")?;
    integer(next("sequence")?, "sequence")?;
    let time = next("time")?;
    integer(next("pid")?, "pid")?;
    let action = next("action")?;
    Ok((Event { device, time, action }, words))
}

/// Whether a line begins the statistics that blkparse prints behind the events: those of a processor,
/// of all, or (`-s`) of a process, by its name and number.
fn begins_summary(line: &[u8]) -> bool {
    let of_process = || {
        let inner = line.strip_suffix(b")").or_else(|| line.strip_suffix(b"):"))?;
        let open = memchr::memrchr(b'(', inner)?;
        let number = inner[open + 1..].strip_suffix(b", ...").unwrap_or(&inner[open + 1..]);
        Some(open > 0 && !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    };
    line.starts_with(b"CPU") || line.starts_with(b"Total (") || of_process() == Some(true)
}

impl LineParser for Blkparse {
    fn parse<'a>(
        &mut self,
        _number: u64,
        line: &'a [u8],
    ) -> Result<Option<RawRequest<'a>>, String> {
        let line = trim(line);
        let (Event { device, time, action }, mut words) = match event(line) {
            Ok(parts) => parts,
            Err(_) if self.in_summary || line.is_empty() || line.starts_with(b"Input file ") => {
                return Ok(None);
            }
            Err(_) if begins_summary(line) => {
                self.in_summary = true;
                return Ok(None);
            }
            Err(message) => return Err(message),
        };
        self.in_summary = false;
        let at_ns = decimal(time, SECOND_NS, "time")?;
        if action != self.action {
            return Ok(None);
        }
        let rwbs = words.next().ok_or("rwbs is missing")?;
        let rest = [words.next(), words.next(), words.next()];
        // Bytes instead of a sector, then the command, which newer kernels leave out, or the process.
        if let [Some(bytes), Some(command @ [b'(' | b'[', ..]), _] = rest
            && bytes.iter().all(u8::is_ascii_digit)
        {
            return Ok(passed_through(
                at_ns,
                device,
                command.strip_prefix(b"(").unwrap_or_default(),
            ));
        }
        request(at_ns, device, rwbs, rest)
    }

    fn remark(&self) -> Option<String> {
        Some(format!("events {}", shown(self.action)))
    }
}

/// Reads block events of the kernel's tracefs.
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
        let mut behind = words(&rest[command + 1..]);
        let device = before.next().unwrap_or_default();
        if !is_device(device) {
            return Err(format!("expected maj,min such as 8,0, found `{}`", shown(device)));
        }
        let rwbs = before.next().ok_or("rwbs is missing")?;
        integer(before.next().unwrap_or_default(), "bytes")?;
        let command = before.next().and_then(|word| word.strip_prefix(b"(")).unwrap_or_default();
        if !command.is_empty() {
            return Ok(passed_through(at_ns, device, command));
        }
        request(at_ns, device, rwbs, [behind.next(), behind.next(), behind.next()])
    }
}

fn is_device(word: &[u8]) -> bool {
    let mut parts = word.split(|&byte| byte == b',');
    let mut number =
        || parts.next().is_some_and(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit));
    number() && number() && parts.next().is_none()
}

const fn flush(at_ns: u64, device: &[u8]) -> RawRequest<'_> {
    let (operation, origin) = (Operation::Flush, Origin::Device(device));
    RawRequest { at_ns, operation, offset_bytes: 0, length_bytes: 0, origin }
}

/// What a command that was passed through asks for; `command` begins with its first byte.
fn passed_through<'a>(at_ns: u64, device: &'a [u8], command: &[u8]) -> Option<RawRequest<'a>> {
    let digits = std::str::from_utf8(command.get(..2)?).ok()?;
    let opcode = u8::from_str_radix(digits, 16).ok()?;
    (cloud::scsi_operation(opcode) == Some(Operation::Flush)).then_some(flush(at_ns, device))
}

fn request<'a>(
    at_ns: u64,
    device: &'a [u8],
    rwbs: &[u8],
    [sector, plus, count]: [Option<&[u8]>; 3],
) -> Result<Option<RawRequest<'a>>, String> {
    let located = plus == Some(b"+");
    let (mut first_sector, mut sector_count) = (0, 0);
    if located {
        first_sector = integer(sector.unwrap_or_default(), "sector")?;
        sector_count = integer(count.unwrap_or_default(), "sector count")?;
    } else if sector.is_some_and(|word| word[0].is_ascii_digit()) {
        return Err("expected `sector + count`, and the line ends".into());
    }
    if sector_count == 0 {
        let is_flush = rwbs.iter().any(|letter| matches!(letter, b'F' | b'B'));
        return Ok(is_flush.then_some(flush(at_ns, device)));
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
        // Z stands for operations on zones, whose sector is the start of the zone.
        b'N' | b'F' | b'Z' => return Ok(None),
        _ => return Err(format!("rwbs `{}` names no operation (R, W, D, F, N, Z)", shown(rwbs))),
    };
    Ok(Some(RawRequest {
        at_ns,
        operation,
        offset_bytes: scaled(first_sector, SECTOR_BYTES, "sector")?,
        length_bytes: scaled(sector_count, SECTOR_BYTES, "sector count")?,
        origin: Origin::Device(device),
    }))
}
