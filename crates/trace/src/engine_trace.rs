//! The trace of a database engine: what passes between its buffer pool and what places pages, with the
//! bytes that changed (the write traces of S003; the differential of Kim, Whang and Song, SIGMOD 2010).
//!
//! ```text
//!   file    "nandueg1" head chunk … chunk end
//!   head    bytes of the rest u32 │ FNV-1a of the rest u64 │ page bytes u32 │ flags u32 │ file count u32 │ file …
//!   file    number u16 │ pages u32 │ bytes of the name u8 │ name          flag 0: changed bytes come along
//!   chunk   payload bytes u32 │ record count u32 │ FNV-1a of the payload u64 │ payload
//!   end     0 u32             │ 0 u32            │ record count of the file u64
//!   record  head byte │ [time] [file] [page] [ranges [their bytes]]
//!   head    bits 0-1 event (read, write, sync, cut), then
//!           2 time: ns since the record before      3 file: another one than before
//!           4 page: distance from the one behind the page before, zigzag
//!           5 the page was zeros before             6 of the same call as the record before
//!   ranges  count │ (bytes since the end of the range before, its own bytes less one) …
//! ```
//!
//! Numbers of fixed size are little-endian; the others are LEB128. Before its first record a chunk
//! counts from zero in everything.
//!
//! 1. Times never fall. Pages have numbers from 1; ranges ascend, have a gap between them, and end in
//!    their page.
//! 2. A chunk can be read without the others; one that is damaged costs its own records only.
//! 3. A file that was cut is noticed at any length: the end counts the records.
//! 4. Reading takes the memory of a chunk and of the head, which are no longer than the file.

mod layout;
mod reading;
mod requests;

pub use layout::PageLayout;
pub use reading::EngineTraceReader;
pub(crate) use requests::EngineRequests;

use crate::TraceError;
use crate::compact::push_varint;
use nandu_base::{Nanos, fnv1a, to_u32};
use std::io::Write;
use std::ops::Range;

/// The first bytes of a file, less the version.
pub(crate) const MAGIC: [u8; 7] = *b"nandueg";
const VERSION: u8 = b'1';
const CHUNK_HEAD_BYTES: usize = 16;
/// A chunk is closed when its payload reaches this.
const CHUNK_BYTES: usize = 64 << 10;
/// The largest page, in bytes.
pub const PAGE_BYTES_MAX: u32 = 64 << 10;
const PAGE_BYTES_MIN: u32 = 512;
/// Longest record: head, time, file, page, count, a range of each two bytes, the bytes of a page.
const RECORD_BYTES_MAX: usize =
    1 + 10 + 3 + 10 + 3 + 4 * (PAGE_BYTES_MAX as usize) / 2 + (64 << 10);

const KEEPS_BYTES: u32 = 1;
const EVENTS: [PageEvent; 4] = [PageEvent::Read, PageEvent::Write, PageEvent::Sync, PageEvent::Cut];
const HAS_TIME: u8 = 1 << 2;
const HAS_FILE: u8 = 1 << 3;
const HAS_PAGE: u8 = 1 << 4;
const IS_FRESH: u8 = 1 << 5;
const IS_SAME_CALL: u8 = 1 << 6;
const UNUSED: u8 = 1 << 7;

/// What stands before the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineTraceHead {
    /// Bytes of a page: a power of two from 512 to 65,536.
    pub page_bytes: u32,
    /// Whether writes have the bytes that changed, and not only where these lie.
    pub keeps_bytes: bool,
    /// The files that there were at first, by their numbers.
    pub files: Vec<TracedFile>,
}

/// A file of pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedFile {
    /// By which records call it.
    pub number: u16,
    /// At most 255 bytes.
    pub name: String,
    /// How many pages it had room for; 0 if nobody knows.
    pub page_count: u32,
}

/// What happens to a page, or to all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageEvent {
    /// The pool reads it.
    #[default]
    Read,
    /// The pool writes it.
    Write,
    /// All that was written is made durable; of no file and no page.
    Sync,
    /// It and all behind it in its file are gone.
    Cut,
}

/// One event of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRecord {
    /// When it was asked for, on the engine's clock.
    pub at: Nanos,
    /// What happens to which page.
    pub event: PageEvent,
    /// The number of the file.
    pub file: u16,
    /// The number of the page in it, from 1.
    pub page: u32,
    /// Of a write: the page is new, and zeros but for the ranges.
    pub is_fresh: bool,
    /// Of a write: it is asked for in one call with the record before.
    pub is_same_call: bool,
    /// Of a write: where the page differs from what was read or written last.
    pub ranges: Vec<Range<u32>>,
    /// What lies there, one range behind the other, where the trace keeps that.
    pub bytes: Vec<u8>,
}

impl PageRecord {
    /// Bytes of its ranges.
    #[must_use]
    pub fn changed_bytes(&self) -> u64 {
        self.ranges.iter().map(|range| u64::from(range.end - range.start)).sum()
    }

    /// Lays its bytes over the page that there was before.
    ///
    /// # Panics
    /// If it has no bytes, or the page is shorter than its ranges.
    pub fn lay_over(&self, page: &mut [u8]) {
        if self.is_fresh {
            page.fill(0);
        }
        let mut rest = &self.bytes[..];
        for range in &self.ranges {
            let place = &mut page[range.start as usize..range.end as usize];
            let (change, later) = rest.split_at(place.len());
            place.copy_from_slice(change);
            rest = later;
        }
    }

    fn assert_fits(&self, head: &EngineTraceHead) {
        let is_located = self.event != PageEvent::Sync;
        assert!(!is_located || self.page > 0, "pages are counted from 1");
        let has_gap = |pair: &[Range<u32>]| pair[0].end < pair[1].start;
        assert!(self.ranges.windows(2).all(has_gap), "ranges ascend with gaps between them");
        assert!(self.ranges.iter().all(|range| range.start < range.end), "a range has bytes");
        let end = self.ranges.last().map_or(0, |range| range.end);
        assert!(end <= head.page_bytes, "ranges end in their page");
        let kept = if head.keeps_bytes { self.changed_bytes() } else { 0 };
        assert_eq!(self.bytes.len() as u64, kept, "bytes are those of the ranges");
    }
}

/// What the next record is told from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Previous {
    at: u64,
    file: u16,
    page: u32,
}

/// Writes the trace of an engine. Without [`EngineTraceWriter::finish`] the file counts as cut.
#[derive(Debug)]
pub struct EngineTraceWriter<W: Write> {
    sink: W,
    name: String,
    head: EngineTraceHead,
    payload: Vec<u8>,
    chunk_record_count: u32,
    record_count: u64,
    previous: Previous,
    last: Nanos,
}

impl<W: Write> EngineTraceWriter<W> {
    /// Starts a trace in `sink`, named `name` in messages.
    ///
    /// # Errors
    /// [`TraceError::File`] if `sink` does not take it.
    ///
    /// # Panics
    /// If a file has a name of more than 255 bytes, or files do not ascend by their numbers.
    pub fn new(mut sink: W, name: &str, head: EngineTraceHead) -> Result<Self, TraceError> {
        let start = [&MAGIC[..], &[VERSION], &packed(&head)].concat();
        sink.write_all(&start).map_err(|error| not_written(name, &error))?;
        Ok(Self {
            sink,
            name: name.into(),
            head,
            payload: Vec::with_capacity(CHUNK_BYTES),
            chunk_record_count: 0,
            record_count: 0,
            previous: Previous::default(),
            last: Nanos::ZERO,
        })
    }

    /// Appends a record. A time before that of the last one becomes that.
    ///
    /// # Errors
    /// [`TraceError::File`] if the sink does not take it.
    ///
    /// # Panics
    /// If its ranges or its page are none.
    pub fn push(&mut self, record: &PageRecord) -> Result<(), TraceError> {
        record.assert_fits(&self.head);
        self.last = self.last.max(record.at);
        self.encode(record);
        self.chunk_record_count += 1;
        self.record_count += 1;
        if self.payload.len() >= CHUNK_BYTES { self.close_chunk() } else { Ok(()) }
    }

    /// How many records have been appended.
    #[must_use]
    pub const fn record_count(&self) -> u64 {
        self.record_count
    }

    /// Writes the end and gives the sink back.
    ///
    /// # Errors
    /// [`TraceError::File`] if the sink does not take it.
    pub fn finish(mut self) -> Result<W, TraceError> {
        if self.chunk_record_count > 0 {
            self.close_chunk()?;
        }
        self.write(&chunk_head(0, 0, self.record_count))?;
        self.sink.flush().map_err(|error| not_written(&self.name, &error))?;
        Ok(self.sink)
    }

    /// Asserts what must hold between records.
    ///
    /// # Panics
    /// If it does not.
    pub fn audit(&self) {
        assert!(self.payload.len() < CHUNK_BYTES, "a full chunk has been closed");
        let count = self.chunk_record_count;
        assert!(self.payload.len() >= count as usize, "a record takes a byte at least");
        assert!(self.record_count >= u64::from(count), "the records of a chunk are among all");
        assert!(self.previous.at <= self.last.0, "times never fall");
    }

    fn encode(&mut self, record: &PageRecord) {
        let Self { payload, previous, last, .. } = self;
        let head_at = payload.len();
        payload.push(0);
        let mut head = match record.event {
            PageEvent::Read => 0,
            PageEvent::Write => 1,
            PageEvent::Sync => 2,
            PageEvent::Cut => 3,
        };
        if last.0 != previous.at {
            head |= HAS_TIME;
            push_varint(last.0 - previous.at, payload);
            previous.at = last.0;
        }
        if record.event != PageEvent::Sync {
            if record.file != previous.file {
                head |= HAS_FILE;
                push_varint(u64::from(record.file), payload);
                previous.file = record.file;
            }
            let distance = i64::from(record.page) - i64::from(previous.page) - 1;
            if distance != 0 {
                head |= HAS_PAGE;
                push_varint((distance << 1 ^ distance >> 63).cast_unsigned(), payload);
            }
            previous.page = record.page;
        }
        if record.event == PageEvent::Write {
            head |= if record.is_fresh { IS_FRESH } else { 0 };
            head |= if record.is_same_call { IS_SAME_CALL } else { 0 };
            push_varint(record.ranges.len() as u64, payload);
            let mut end = 0;
            for range in &record.ranges {
                push_varint(u64::from(range.start - end), payload);
                push_varint(u64::from(range.end - range.start - 1), payload);
                end = range.end;
            }
            payload.extend_from_slice(&record.bytes);
        }
        payload[head_at] = head;
    }

    fn close_chunk(&mut self) -> Result<(), TraceError> {
        let length = to_u32(self.payload.len() as u64);
        self.write(&chunk_head(length, self.chunk_record_count, fnv1a(&self.payload)))?;
        let payload = std::mem::take(&mut self.payload);
        self.write(&payload)?;
        self.payload = payload;
        self.payload.clear();
        self.chunk_record_count = 0;
        self.previous = Previous::default();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        self.sink.write_all(bytes).map_err(|error| not_written(&self.name, &error))
    }
}

fn not_written(name: &str, error: &std::io::Error) -> TraceError {
    TraceError::File { file: name.into(), message: format!("cannot be written: {error}") }
}

fn chunk_head(payload_bytes: u32, record_count: u32, check: u64) -> [u8; CHUNK_HEAD_BYTES] {
    let mut head = [0; CHUNK_HEAD_BYTES];
    head[..4].copy_from_slice(&payload_bytes.to_le_bytes());
    head[4..8].copy_from_slice(&record_count.to_le_bytes());
    head[8..].copy_from_slice(&check.to_le_bytes());
    head
}

/// The head as it stands in a file.
fn packed(head: &EngineTraceHead) -> Vec<u8> {
    let mut rest = Vec::new();
    let flags = if head.keeps_bytes { KEEPS_BYTES } else { 0 };
    for word in [head.page_bytes, flags, to_u32(head.files.len() as u64)] {
        rest.extend_from_slice(&word.to_le_bytes());
    }
    let ascend = |pair: &[TracedFile]| pair[0].number < pair[1].number;
    assert!(head.files.windows(2).all(ascend), "files ascend by their numbers");
    for file in &head.files {
        rest.extend_from_slice(&file.number.to_le_bytes());
        rest.extend_from_slice(&file.page_count.to_le_bytes());
        rest.push(u8::try_from(file.name.len()).expect("a name has at most 255 bytes"));
        rest.extend_from_slice(file.name.as_bytes());
    }
    let length = to_u32(rest.len() as u64);
    [&length.to_le_bytes()[..], &fnv1a(&rest).to_le_bytes(), &rest].concat()
}
