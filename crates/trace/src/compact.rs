//! Our own trace: a few bytes for each request, in chunks that stand alone.
//!
//! ```text
//!   file     "nandutr1" chunk … chunk end
//!   chunk    payload bytes u32 │ request count u32 │ FNV-1a of the payload u64 │ payload
//!   end      0 u32             │ 0 u32             │ request count of the file u64
//!   request  head byte │ [time] [stream byte] [offset] [length]
//!   head     bits 0-1 operation (read, write, trim, flush), then what follows:
//!            2 time: ns since the request before     3 stream: another one than before
//!            4 offset: distance from the end of the request before, zigzag
//!            5 length: another one than before       6 offset and length count 512 bytes
//! ```
//!
//! Numbers are little-endian; time, offset and length are LEB128, seven bits to a byte. Before its
//! first request a chunk counts from zero in everything.
//!
//! 1. A chunk can be read without the others; one that is damaged costs its own requests only.
//! 2. A file that was cut is noticed at any length: the end counts the requests.

use crate::format::{Origin, RawRequest};
use crate::replay::Timeline;
use crate::{RequestSource, SourceStatistics, TraceError, TraceRequest};
use nandu_base::{Nanos, fnv1a, to_u32};
use nandu_device::Operation;
use std::io::{Read, Write};

/// The first bytes of a file; the last one is the version.
pub(crate) const MAGIC: [u8; 8] = *b"nandutr1";
const CHUNK_HEAD_BYTES: usize = 16;
/// A chunk is closed when its payload reaches this.
const CHUNK_BYTES: usize = 64 << 10;
/// Longest request: head, time, stream, offset, length.
const REQUEST_BYTES_MAX: usize = 1 + 10 + 1 + 10 + 10;
const SECTOR_BYTES: u64 = 512;

const HAS_TIME: u8 = 1 << 2;
const HAS_STREAM: u8 = 1 << 3;
const HAS_OFFSET: u8 = 1 << 4;
const HAS_LENGTH: u8 = 1 << 5;
const IN_SECTORS: u8 = 1 << 6;

/// What the next request is told from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Previous {
    at: u64,
    end_bytes: u64,
    length_bytes: u64,
    stream: u8,
}

impl Previous {
    fn after(request: &TraceRequest, before: Self) -> Self {
        let Self { end_bytes, length_bytes, .. } = before;
        let (at, stream) = (request.at.0, request.stream);
        if request.operation == Operation::Flush {
            return Self { at, end_bytes, length_bytes, stream };
        }
        Self {
            at,
            end_bytes: request.offset_bytes.wrapping_add(request.length_bytes),
            length_bytes: request.length_bytes,
            stream,
        }
    }
}

/// Writes a compact trace. Without [`CompactWriter::finish`] the file counts as cut.
#[derive(Debug)]
pub struct CompactWriter<W: Write> {
    sink: W,
    file: String,
    payload: Vec<u8>,
    chunk_request_count: u32,
    request_count: u64,
    previous: Previous,
    last: Nanos,
}

impl<W: Write> CompactWriter<W> {
    /// Starts a trace in `sink`, named `file` in messages.
    ///
    /// # Errors
    /// [`TraceError::File`] if `sink` does not take it.
    pub fn new(mut sink: W, file: &str) -> Result<Self, TraceError> {
        sink.write_all(&MAGIC).map_err(|error| not_written(file, &error))?;
        Ok(Self {
            sink,
            file: file.into(),
            payload: Vec::with_capacity(CHUNK_BYTES + REQUEST_BYTES_MAX),
            chunk_request_count: 0,
            request_count: 0,
            previous: Previous::default(),
            last: Nanos::ZERO,
        })
    }

    /// Appends a request. A time before that of the last one becomes that.
    ///
    /// # Errors
    /// [`TraceError::File`] if the sink does not take it.
    pub fn push(&mut self, request: &TraceRequest) -> Result<(), TraceError> {
        self.last = self.last.max(request.at);
        let request = TraceRequest { at: self.last, ..*request };
        encode(&request, self.previous, &mut self.payload);
        self.previous = Previous::after(&request, self.previous);
        self.chunk_request_count += 1;
        self.request_count += 1;
        if self.payload.len() >= CHUNK_BYTES { self.close_chunk() } else { Ok(()) }
    }

    /// Asserts what must hold between requests.
    ///
    /// # Panics
    /// If it does not.
    pub fn audit(&self) {
        assert!(self.payload.len() < CHUNK_BYTES, "a full chunk has been closed");
        assert!(
            self.payload.len() >= self.chunk_request_count as usize,
            "a request takes a byte at least"
        );
        assert!(
            self.request_count >= u64::from(self.chunk_request_count),
            "the requests of a chunk are among all"
        );
    }

    /// How many requests have been appended.
    #[must_use]
    pub const fn request_count(&self) -> u64 {
        self.request_count
    }

    /// Writes the end and gives the sink back.
    ///
    /// # Errors
    /// [`TraceError::File`] if the sink does not take it.
    pub fn finish(mut self) -> Result<W, TraceError> {
        if self.chunk_request_count > 0 {
            self.close_chunk()?;
        }
        self.write(chunk_head(0, 0, self.request_count))?;
        self.sink.flush().map_err(|error| not_written(&self.file, &error))?;
        Ok(self.sink)
    }

    fn close_chunk(&mut self) -> Result<(), TraceError> {
        let length = to_u32(self.payload.len() as u64);
        self.write(chunk_head(length, self.chunk_request_count, fnv1a(&self.payload)))?;
        let outcome = self.sink.write_all(&self.payload);
        outcome.map_err(|error| not_written(&self.file, &error))?;
        self.payload.clear();
        self.chunk_request_count = 0;
        self.previous = Previous::default();
        Ok(())
    }

    fn write(&mut self, head: [u8; CHUNK_HEAD_BYTES]) -> Result<(), TraceError> {
        self.sink.write_all(&head).map_err(|error| not_written(&self.file, &error))
    }
}

fn not_written(file: &str, error: &std::io::Error) -> TraceError {
    TraceError::File { file: file.into(), message: format!("cannot be written: {error}") }
}

fn chunk_head(payload_bytes: u32, request_count: u32, check: u64) -> [u8; CHUNK_HEAD_BYTES] {
    let mut head = [0; CHUNK_HEAD_BYTES];
    head[..4].copy_from_slice(&payload_bytes.to_le_bytes());
    head[4..8].copy_from_slice(&request_count.to_le_bytes());
    head[8..].copy_from_slice(&check.to_le_bytes());
    head
}

fn encode(request: &TraceRequest, previous: Previous, payload: &mut Vec<u8>) {
    let (offset, length) = (request.offset_bytes, request.length_bytes);
    let distance = offset.wrapping_sub(previous.end_bytes);
    let locates = request.operation != Operation::Flush;
    // Sectors only where the distance is a small signed number: a wrapped one does not divide.
    let in_sectors = locates
        && (offset | previous.end_bytes | length).is_multiple_of(SECTOR_BYTES)
        && (offset | previous.end_bytes) >> 62 == 0;
    let unit = if in_sectors { SECTOR_BYTES } else { 1 };
    let head_at = payload.len();
    let mut head = match request.operation {
        Operation::Read => 0,
        Operation::Write => 1,
        Operation::Trim => 2,
        Operation::Flush => 3,
    };
    payload.push(0);
    if request.at.0 != previous.at {
        head |= HAS_TIME;
        push_varint(request.at.0 - previous.at, payload);
    }
    if request.stream != previous.stream {
        head |= HAS_STREAM;
        payload.push(request.stream);
    }
    if in_sectors {
        head |= IN_SECTORS;
    }
    if locates && distance != 0 {
        head |= HAS_OFFSET;
        let signed = distance.cast_signed() / unit.cast_signed();
        push_varint((signed << 1 ^ signed >> 63).cast_unsigned(), payload);
    }
    if locates && length != previous.length_bytes {
        head |= HAS_LENGTH;
        push_varint(length / unit, payload);
    }
    payload[head_at] = head;
}

#[allow(clippy::cast_possible_truncation, reason = "the lowest seven bits are what is asked for")]
pub(crate) fn push_varint(mut value: u64, payload: &mut Vec<u8>) {
    while value >= 0x80 {
        payload.push(value as u8 | 0x80);
        value >>= 7;
    }
    payload.push(value as u8);
}

/// The bytes of a chunk, from which requests are taken.
pub(crate) struct Payload<'a>(&'a [u8]);

impl<'a> Payload<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// How many were not taken.
    pub(crate) const fn left_bytes(&self) -> usize {
        self.0.len()
    }

    /// The next so many.
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(first)
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                return None;
            }
            value |= part << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// The next request; `None` where the bytes make none.
    #[inline]
    fn request(&mut self, previous: Previous) -> Option<TraceRequest> {
        let head = self.byte()?;
        let operation = match head & 3 {
            0 => Operation::Read,
            1 => Operation::Write,
            2 => Operation::Trim,
            _ => Operation::Flush,
        };
        let unit = if head & IN_SECTORS == 0 { 1 } else { SECTOR_BYTES };
        let has = |bit: u8| head & bit != 0;
        let elapsed = if has(HAS_TIME) { self.varint()? } else { 0 };
        let at = Nanos(previous.at.checked_add(elapsed)?);
        let stream = if has(HAS_STREAM) { self.byte()? } else { previous.stream };
        let mut offset_bytes = previous.end_bytes;
        if has(HAS_OFFSET) {
            let zigzag = self.varint()?;
            let distance = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
            offset_bytes = offset_bytes.wrapping_add(distance.wrapping_mul(unit));
        }
        let length_bytes =
            if has(HAS_LENGTH) { self.varint()?.checked_mul(unit)? } else { previous.length_bytes };
        if operation == Operation::Flush {
            return Some(TraceRequest { at, operation, offset_bytes: 0, length_bytes: 0, stream });
        }
        Some(TraceRequest { at, operation, offset_bytes, length_bytes, stream })
    }
}

/// Reads a compact trace.
pub(crate) struct CompactReader {
    stream: Box<dyn Read + Send>,
    file: String,
    packed: String,
    skip_bad: bool,
    timeline: Timeline,
    payload: Vec<u8>,
    position: usize,
    /// Requests that the chunk still has.
    left_count: u32,
    previous: Previous,
    seen_count: u64,
    ended: bool,
}

impl CompactReader {
    /// Reads `stream` from behind the magic on.
    pub(crate) fn new(
        stream: Box<dyn Read + Send>,
        file: &str,
        packed: &str,
        skip_bad: bool,
        timeline: Timeline,
    ) -> Self {
        Self {
            stream,
            file: file.into(),
            packed: packed.into(),
            skip_bad,
            timeline,
            payload: Vec::new(),
            position: 0,
            left_count: 0,
            previous: Previous::default(),
            seen_count: 0,
            ended: false,
        }
    }

    /// Reads the next chunk, passing over bad ones if asked to.
    fn next_chunk(&mut self) -> Result<(), TraceError> {
        self.timeline.statistics.line_count += 1;
        let mut head = [0; CHUNK_HEAD_BYTES];
        if let Err(error) = self.stream.read_exact(&mut head) {
            return self.cut(&error);
        }
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (payload_bytes, request_count) = (word(0), word(4));
        let check = u64::from(word(8)) | u64::from(word(12)) << 32;
        if payload_bytes == 0 && request_count == 0 {
            self.ended = true;
            return match check.checked_sub(self.seen_count) {
                Some(0) => Ok(()),
                _ => self.bad(
                    check.saturating_sub(self.seen_count),
                    format!("the end counts {check} requests, found {}", self.seen_count),
                ),
            };
        }
        let length = usize::try_from(payload_bytes).unwrap_or(usize::MAX);
        // Without a credible length there is no way to the next chunk.
        if length > CHUNK_BYTES + REQUEST_BYTES_MAX || payload_bytes < request_count {
            self.ended = true;
            return self.bad(1, "the head of the chunk is damaged".into());
        }
        self.position = 0;
        self.payload.resize(length, 0);
        if let Err(error) = self.stream.read_exact(&mut self.payload) {
            return self.cut(&error);
        }
        self.seen_count += u64::from(request_count);
        if fnv1a(&self.payload) != check {
            let count = u64::from(request_count);
            return self.bad(count, "the checksum of the chunk does not match".into());
        }
        self.left_count = request_count;
        self.previous = Previous::default();
        Ok(())
    }

    fn cut(&mut self, error: &std::io::Error) -> Result<(), TraceError> {
        self.ended = true;
        let message = match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                "the trace ends early; the file was cut, or its recorder was not finished".into()
            }
            _ => error.to_string(),
        };
        self.bad(1, message)
    }

    fn bad(&mut self, count: u64, message: String) -> Result<(), TraceError> {
        let line = self.timeline.statistics.line_count;
        self.timeline.bad(&self.file, line, count, message, self.skip_bad).inspect_err(|_| {
            self.ended = true;
        })
    }

    fn next_request(&mut self, batch: &mut Vec<TraceRequest>) -> Result<(), TraceError> {
        let mut payload = Payload(&self.payload[self.position..]);
        let Some(request) = payload.request(self.previous) else {
            let count = u64::from(std::mem::take(&mut self.left_count));
            return self.bad(count, "the chunk ends inside a request".into());
        };
        self.position = self.payload.len() - payload.0.len();
        self.previous = Previous::after(&request, self.previous);
        self.left_count -= 1;
        let raw = RawRequest {
            at_ns: request.at.0,
            operation: request.operation,
            offset_bytes: request.offset_bytes,
            length_bytes: request.length_bytes,
            origin: Origin::Stream(request.stream),
        };
        match self.timeline.accept(&raw, batch) {
            Ok(()) => Ok(()),
            Err(message) => self.bad(1, message),
        }
    }
}

impl RequestSource for CompactReader {
    fn next_batch(
        &mut self,
        batch: &mut Vec<TraceRequest>,
        limit: usize,
    ) -> Result<(), TraceError> {
        let enough = batch.len().saturating_add(limit);
        while batch.len() < enough {
            if self.left_count > 0 {
                self.next_request(batch)?;
            } else if self.ended {
                break;
            } else {
                self.next_chunk()?;
            }
        }
        Ok(())
    }

    fn description(&self) -> String {
        format!("trace {}: {}compact, by its first bytes", self.file, self.packed)
    }

    fn audit(&self) {
        assert!(self.position <= self.payload.len(), "requests are taken from inside a chunk");
        assert!(self.left_count as usize <= self.payload.len(), "a request takes a byte at least");
        self.timeline.audit();
    }

    fn statistics(&self) -> SourceStatistics {
        self.timeline.statistics()
    }
}
