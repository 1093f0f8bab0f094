//! fio's I/O logs.
//!
//! ```text
//!   fio version 2 iolog                 fio version 3 iolog
//!   /dev/sdb add                        0 /dev/sdb add
//!   /dev/sdb write 0 4096               1073 /dev/sdb write 0 4096
//!   /dev/sdb wait 1000                  2141 /dev/sdb sync
//! ```
//!
//! Version 2 counts `wait` in microseconds since the wait before; version 3 stamps every line in
//! microseconds since the start of the job.
//!
//! 1. Nothing is read before the first line has named the version.

use super::{LineParser, Origin, RawRequest};
use crate::field::{integer, shown, words};
use nandu_device::Operation;

const MICROSECOND_NS: u64 = 1_000;

/// Reads version 2 of fio's log of requests.
#[derive(Debug, Default)]
pub(super) struct FioV2 {
    seen_version: bool,
    at_us: u64,
}

/// Reads version 3 of fio's log of requests.
#[derive(Debug, Default)]
pub(super) struct FioV3 {
    seen_version: bool,
}

impl LineParser for FioV2 {
    fn parse<'a>(
        &mut self,
        _number: u64,
        line: &'a [u8],
    ) -> Result<Option<RawRequest<'a>>, String> {
        if !self.seen_version {
            return version(line, b"fio version 2 iolog", &mut self.seen_version);
        }
        let mut words = words(line);
        let file = words.next().ok_or("the line is empty")?;
        let action = words.next().ok_or("expected `file action`, found one word")?;
        if action == b"wait" {
            let wait_us = integer(words.next().unwrap_or_default(), "wait")?;
            self.at_us =
                self.at_us.checked_add(wait_us).ok_or("waits add up to more than 2^64 us")?;
            return Ok(None);
        }
        request(self.at_us, file, action, words)
    }
}

impl LineParser for FioV3 {
    fn parse<'a>(
        &mut self,
        _number: u64,
        line: &'a [u8],
    ) -> Result<Option<RawRequest<'a>>, String> {
        if !self.seen_version {
            return version(line, b"fio version 3 iolog", &mut self.seen_version);
        }
        let mut words = words(line);
        let at_us = integer(words.next().ok_or("the line is empty")?, "timestamp")?;
        let file = words.next().ok_or("expected `timestamp file action`, found one word")?;
        let action = words.next().ok_or("expected `timestamp file action`, found two words")?;
        request(at_us, file, action, words)
    }
}

fn version<'a>(
    line: &[u8],
    expected: &[u8],
    seen_version: &mut bool,
) -> Result<Option<RawRequest<'a>>, String> {
    if line.trim_ascii() != expected {
        let (expected, found) = (shown(expected), shown(line));
        return Err(format!("expected the first line `{expected}`, found `{found}`"));
    }
    *seen_version = true;
    Ok(None)
}

fn request<'a>(
    at_us: u64,
    file: &'a [u8],
    action: &[u8],
    mut words: impl Iterator<Item = &'a [u8]>,
) -> Result<Option<RawRequest<'a>>, String> {
    let operation = match action {
        b"read" => Operation::Read,
        b"write" => Operation::Write,
        b"trim" => Operation::Trim,
        b"sync" | b"datasync" | b"sync_file_range" | b"syncfs" => Operation::Flush,
        b"add" | b"open" | b"close" => return Ok(None),
        _ => {
            return Err(format!(
                "action `{}` is none of read, write, trim, sync, datasync, wait, add, open, close",
                shown(action)
            ));
        }
    };
    let (mut offset_bytes, mut length_bytes) = (0, 0);
    if operation != Operation::Flush {
        offset_bytes = integer(words.next().unwrap_or_default(), "offset")?;
        length_bytes = integer(words.next().unwrap_or_default(), "length")?;
    }
    let at_ns = at_us.checked_mul(MICROSECOND_NS).ok_or("the time passes 2^64 ns")?;
    let origin = Origin::Device(file);
    Ok(Some(RawRequest { at_ns, operation, offset_bytes, length_bytes, origin }))
}
