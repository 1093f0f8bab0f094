//! Reads the trace of an engine, whatever its bytes are.
//!
//! 1. What is wrong is said with the byte at which it was found, of the content as it is unpacked.
//! 2. After a damaged chunk the next one can be read; after a cut, or a head that makes no sense, nothing.

use super::{
    CHUNK_BYTES, CHUNK_HEAD_BYTES, EVENTS, EngineTraceHead, HAS_FILE, HAS_PAGE, HAS_TIME, IS_FRESH,
    IS_SAME_CALL, KEEPS_BYTES, MAGIC, PAGE_BYTES_MAX, PAGE_BYTES_MIN, PageEvent, PageRecord,
    Previous, RECORD_BYTES_MAX, TracedFile, UNUSED, VERSION,
};
use crate::TraceError;
use crate::compact::Payload;
use crate::compression::{Compression, decompress};
use nandu_base::{Nanos, fnv1a};
use std::io::{ErrorKind, Read};
use std::path::Path;

/// Bytes of the fixed part of the head, with its length and its checksum.
const HEAD_START_BYTES: usize = 12;
const HEAD_WORDS_BYTES: u32 = 12;
/// Bytes of a file in the head, less its name.
const FILE_BYTES: usize = 7;
/// The longest head: all files that have a number, with names of 255 bytes.
const HEAD_BYTES_MAX: u32 = HEAD_WORDS_BYTES + 65_536 * (7 + 255);
const CUT: &str = "the trace ends early; the file was cut, or its recording was not finished";

/// Reads records one after the other.
pub struct EngineTraceReader {
    stream: Box<dyn Read + Send>,
    name: String,
    compression: Compression,
    head: EngineTraceHead,
    payload: Vec<u8>,
    /// In the payload, where the next record begins.
    position: usize,
    /// Where the payload begins in the content.
    payload_at: u64,
    /// Where the content goes on.
    read_bytes: u64,
    /// Records that the chunk still has.
    left_count: u32,
    previous: Previous,
    seen_count: u64,
    chunk_count: u64,
    lost_count: u64,
    ended: bool,
    record: PageRecord,
}

impl std::fmt::Debug for EngineTraceReader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "EngineTraceReader({} at byte {})", self.name, self.read_bytes)
    }
}

impl EngineTraceReader {
    /// Opens the trace at `path`, plain or compressed with gzip or zstd, and reads its head.
    ///
    /// # Errors
    /// If it cannot be read, or is no trace of an engine.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        match std::fs::File::open(path) {
            Ok(stream) => Self::new(stream, &name),
            Err(error) => {
                Err(TraceError::File { file: name, message: format!("cannot be opened: {error}") })
            }
        }
    }

    /// Reads the head from `stream`, named `name` in messages; otherwise as [`EngineTraceReader::open`].
    ///
    /// # Errors
    /// As there.
    pub fn new(stream: impl Read + Send + 'static, name: &str) -> Result<Self, TraceError> {
        let (stream, compression) = decompress(stream).map_err(|error| TraceError::File {
            file: name.into(),
            message: format!("cannot be read: {error}"),
        })?;
        Self::of_plain(stream, name, compression)
    }

    /// As [`Self::new`], from a stream that is unpacked already.
    pub(crate) fn of_plain(
        stream: Box<dyn Read + Send>,
        name: &str,
        compression: Compression,
    ) -> Result<Self, TraceError> {
        let head = EngineTraceHead { page_bytes: 0, keeps_bytes: false, files: Vec::new() };
        let mut reader = Self {
            stream,
            name: name.into(),
            compression,
            head,
            payload: Vec::new(),
            position: 0,
            payload_at: 0,
            read_bytes: 0,
            left_count: 0,
            previous: Previous::default(),
            seen_count: 0,
            chunk_count: 0,
            lost_count: 0,
            ended: false,
            record: PageRecord::default(),
        };
        reader.read_head()?;
        Ok(reader)
    }

    /// What stands before the records.
    #[must_use]
    pub const fn head(&self) -> &EngineTraceHead {
        &self.head
    }

    /// How its bytes are packed.
    #[must_use]
    pub const fn compression(&self) -> Compression {
        self.compression
    }

    /// The next record; `None` at the end. After an error at a damaged chunk the next one can be read.
    ///
    /// # Errors
    /// [`TraceError::Byte`] where the bytes make no sense.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<&PageRecord>, TraceError> {
        while self.left_count == 0 {
            if self.ended {
                return Ok(None);
            }
            self.next_chunk()?;
        }
        self.decode()?;
        Ok(Some(&self.record))
    }

    /// How many records the last error cost, as far as that can be known.
    pub(crate) const fn lost_count(&self) -> u64 {
        self.lost_count
    }

    /// How many chunks were begun.
    pub(crate) const fn chunk_count(&self) -> u64 {
        self.chunk_count
    }

    /// Asserts what must hold between records.
    ///
    /// # Panics
    /// If it does not.
    pub fn audit(&self) {
        assert!(self.position <= self.payload.len(), "records are taken from inside a chunk");
        assert!(self.left_count as usize <= self.payload.len(), "a record takes a byte at least");
        assert!(self.left_count == 0 || !self.ended, "nothing is left behind the end");
    }

    fn read_head(&mut self) -> Result<(), TraceError> {
        let mut magic = [0; MAGIC.len() + 1];
        self.fill(&mut magic)?;
        if magic[..MAGIC.len()] != MAGIC {
            let what = "begins with other bytes than the trace of an engine, which `nandu bench --record` writes";
            return Err(self.bad(0, 0, what));
        }
        if magic[MAGIC.len()] != VERSION {
            let what = "is a trace of an engine of a version that is not known; read it with a newer nandu";
            return Err(self.bad(MAGIC.len() as u64, 0, what));
        }
        let mut start = [0; HEAD_START_BYTES];
        let start_at = self.read_bytes;
        self.fill(&mut start)?;
        let length = word_of(&start, 0);
        let check = u64::from(word_of(&start, 4)) | u64::from(word_of(&start, 8)) << 32;
        if !(HEAD_WORDS_BYTES..=HEAD_BYTES_MAX).contains(&length) {
            return Err(self.bad(start_at, 0, &format!("a head of {length} bytes is none")));
        }
        let head_at = self.read_bytes;
        let mut rest = Vec::new();
        // Memory for what is there, whatever the length says.
        let taken = self.stream.by_ref().take(u64::from(length)).read_to_end(&mut rest);
        self.read_bytes += rest.len() as u64;
        taken.map_err(|error| self.unreadable(&error))?;
        if rest.len() < length as usize {
            return Err(self.bad(self.read_bytes, 0, CUT));
        }
        if fnv1a(&rest) != check {
            return Err(self.bad(head_at, 0, "the checksum of the head does not match"));
        }
        self.head = head_of(&rest).map_err(|what| self.bad(head_at, 0, &what))?;
        Ok(())
    }

    fn next_chunk(&mut self) -> Result<(), TraceError> {
        let chunk_at = self.read_bytes;
        let mut head = [0; CHUNK_HEAD_BYTES];
        self.ended = true;
        self.chunk_count += 1;
        self.fill(&mut head)?;
        let (length, count) = (word_of(&head, 0), word_of(&head, 4));
        let check = u64::from(word_of(&head, 8)) | u64::from(word_of(&head, 12)) << 32;
        if length == 0 && count == 0 {
            let lost_count = check.saturating_sub(self.seen_count);
            let what = format!("the end counts {check} records, found {}", self.seen_count);
            let is_whole = check == self.seen_count;
            return if is_whole { Ok(()) } else { Err(self.bad(chunk_at, lost_count, &what)) };
        }
        // Without a credible length there is no way to the next chunk.
        let is_credible = length as usize <= CHUNK_BYTES + RECORD_BYTES_MAX;
        if !is_credible || length < count || count == 0 {
            return Err(self.bad(chunk_at, 1, "the head of the chunk is damaged"));
        }
        self.position = 0;
        self.payload_at = self.read_bytes;
        let mut payload = std::mem::take(&mut self.payload);
        payload.resize(length as usize, 0);
        let filled = self.fill(&mut payload);
        self.payload = payload;
        filled?;
        self.ended = false;
        self.seen_count += u64::from(count);
        if fnv1a(&self.payload) != check {
            let what = "the checksum of the chunk does not match";
            return Err(self.bad(self.payload_at, u64::from(count), what));
        }
        self.left_count = count;
        self.previous = Previous::default();
        Ok(())
    }

    /// Takes the next record out of the chunk.
    #[inline]
    fn decode(&mut self) -> Result<(), TraceError> {
        let mut payload = Payload::new(&self.payload[self.position..]);
        let before = self.position;
        let decoded = decode(&mut payload, &self.head, &mut self.previous, &mut self.record);
        self.position = self.payload.len() - payload.left_bytes();
        let what = match decoded {
            Ok(()) if self.left_count == 1 && self.position < self.payload.len() => {
                "the chunk has bytes behind its last record".into()
            }
            Ok(()) => {
                self.left_count -= 1;
                return Ok(());
            }
            Err(what) => what,
        };
        let lost_count = u64::from(std::mem::take(&mut self.left_count));
        Err(self.bad(self.payload_at + before as u64, lost_count, &what))
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), TraceError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.stream.read(&mut buffer[filled..]) {
                Ok(0) => return Err(self.bad(self.read_bytes, 1, CUT)),
                Ok(count) => {
                    filled += count;
                    self.read_bytes += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.unreadable(&error)),
            }
        }
        Ok(())
    }

    fn unreadable(&mut self, error: &std::io::Error) -> TraceError {
        self.bad(self.read_bytes, 1, &error.to_string())
    }

    #[cold]
    fn bad(&mut self, at_byte: u64, lost_count: u64, message: &str) -> TraceError {
        self.lost_count = lost_count;
        TraceError::Byte { file: self.name.clone(), at_byte, message: message.into() }
    }
}

fn word_of(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The head in bytes that are as long as one at least.
fn head_of(bytes: &[u8]) -> Result<EngineTraceHead, String> {
    let (page_bytes, flags, file_count) = (word_of(bytes, 0), word_of(bytes, 4), word_of(bytes, 8));
    let is_page = (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes);
    if !is_page || !page_bytes.is_power_of_two() {
        return Err(format!("pages of {page_bytes} bytes are none"));
    }
    if flags & !KEEPS_BYTES != 0 {
        return Err(format!("the flags are {flags:#x}, of which 0x1 alone is known"));
    }
    let mut rest = &bytes[HEAD_WORDS_BYTES as usize..];
    let mut files: Vec<TracedFile> = Vec::new();
    for _ in 0..file_count {
        let short = || "the head ends in a file".to_owned();
        let (fixed, behind) = rest.split_first_chunk::<FILE_BYTES>().ok_or_else(short)?;
        let (name, behind) = behind.split_at_checked(usize::from(fixed[6])).ok_or_else(short)?;
        let number = u16::from_le_bytes([fixed[0], fixed[1]]);
        if files.last().is_some_and(|last| last.number >= number) {
            return Err(format!("file {number} stands behind one of a higher number"));
        }
        let name = String::from_utf8_lossy(name).into_owned();
        files.push(TracedFile { number, name, page_count: word_of(fixed, 2) });
        rest = behind;
    }
    if !rest.is_empty() {
        return Err(format!("the head has {} bytes behind its files", rest.len()));
    }
    Ok(EngineTraceHead { page_bytes, keeps_bytes: flags & KEEPS_BYTES != 0, files })
}

/// Takes one record from the front.
fn decode(
    payload: &mut Payload<'_>,
    head: &EngineTraceHead,
    previous: &mut Previous,
    record: &mut PageRecord,
) -> Result<(), String> {
    let short = || "a record ends behind its chunk".to_owned();
    let flags = payload.byte().ok_or_else(short)?;
    let has = |bit: u8| flags & bit != 0;
    record.event = EVENTS[usize::from(flags & 3)];
    let is_write = record.event == PageEvent::Write;
    let is_sync = record.event == PageEvent::Sync;
    if has(UNUSED)
        || (!is_write && has(IS_FRESH | IS_SAME_CALL))
        || (is_sync && has(HAS_FILE | HAS_PAGE))
    {
        return Err(format!("{flags:#04x} begins no record"));
    }
    if has(HAS_TIME) {
        let elapsed = payload.varint().ok_or_else(short)?;
        previous.at = previous.at.checked_add(elapsed).ok_or("the time passes 2^64 ns")?;
    }
    record.at = Nanos(previous.at);
    if has(HAS_FILE) {
        let number = payload.varint().ok_or_else(short)?;
        previous.file =
            u16::try_from(number).map_err(|_| format!("file {number} has no number"))?;
    }
    let mut distance = 0;
    if has(HAS_PAGE) {
        let zigzag = payload.varint().ok_or_else(short)?;
        distance = ((zigzag >> 1) ^ (zigzag & 1).wrapping_neg()).cast_signed();
    }
    if !is_sync {
        let page =
            i64::from(previous.page).checked_add(1).and_then(|next| next.checked_add(distance));
        let page = page.and_then(|page| u32::try_from(page).ok()).filter(|&page| page > 0);
        previous.page = page.ok_or("a page has a number from 1 to 2^32 - 1")?;
    }
    (record.file, record.page) = if is_sync { (0, 0) } else { (previous.file, previous.page) };
    (record.is_fresh, record.is_same_call) = (has(IS_FRESH), has(IS_SAME_CALL));
    record.ranges.clear();
    record.bytes.clear();
    if is_write { decode_ranges(payload, head, record) } else { Ok(()) }
}

fn decode_ranges(
    payload: &mut Payload<'_>,
    head: &EngineTraceHead,
    record: &mut PageRecord,
) -> Result<(), String> {
    let short = || "a record ends behind its chunk".to_owned();
    let page_bytes = u64::from(head.page_bytes);
    let count = payload.varint().ok_or_else(short)?;
    if count > page_bytes.div_ceil(2) {
        return Err(format!("a page of {page_bytes} bytes has no room for {count} ranges"));
    }
    let mut end = 0_u64;
    for number in 0..count {
        let gap = payload.varint().ok_or_else(short)?;
        let length = payload.varint().ok_or_else(short)?;
        if gap == 0 && number > 0 {
            return Err(format!("two ranges touch each other at byte {end} of a page"));
        }
        let start = end.saturating_add(gap);
        end = start.saturating_add(length).saturating_add(1);
        if end > page_bytes {
            return Err(format!("a range ends at byte {end} of a page of {page_bytes}"));
        }
        // Both are in a page.
        record.ranges.push(nandu_base::to_u32(start)..nandu_base::to_u32(end));
    }
    if head.keeps_bytes {
        let bytes = payload.bytes(nandu_base::to_index(record.changed_bytes()));
        record.bytes.extend_from_slice(bytes.ok_or_else(short)?);
    }
    Ok(())
}
