//! Records what passes between a database's buffer pool and what places its pages, as the trace of an
//! engine ([`nandu_trace::engine_trace`]): of any load, since it sits in the database.
//!
//! ```text
//!   page read ───► its image kept │ record "read"
//!   page written ─► compared with its image: the ranges that differ │ record "write" │ the new image kept
//!   page left ───► its image forgotten
//! ```
//!
//! 1. Ranges are those that differ, whatever the engine notes of changes, but for gaps of up to
//!    [`JOINED_GAP_BYTES`] equal bytes: a differential takes as much to name another range.
//! 2. Images are those of pages that are in the pool, so they take as much memory as the pool.
//! 3. A page that is new is told as zeros before; one that nobody knows, as changed as a whole.
//! 4. What is recorded takes no time of a virtual clock and changes nothing of a run.

use crate::error::BenchError;
use nandu_base::{FixedHashMap, Nanos, to_u32};
use nandu_storage::propagation::{PageWatch, PageWrite};
use nandu_storage::{Database, FileId, PageAddress};
use nandu_trace::engine_trace::{EngineTraceHead, PageEvent, PageRecord, TracedFile};
use nandu_trace::{EngineTraceWriter, TraceError};
use nandu_workers::sync::Mutex;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

/// Ranges with so few equal bytes between them are one.
pub const JOINED_GAP_BYTES: usize = 4;
/// Bytes that are compared at once.
const COMPARED_BYTES: usize = 64;

/// Records the pages of one database, from its beginning to [`PageRecorder::finish`].
pub struct PageRecorder<W: Write + Send>(Mutex<Recording<W>>);

/// What was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedCounts {
    /// Pages that were read.
    pub read_count: u64,
    /// Pages that were written.
    pub write_count: u64,
    /// How often all that was written was made durable.
    pub sync_count: u64,
}

struct Recording<W: Write + Send> {
    /// `None` once it is finished.
    writer: Option<EngineTraceWriter<W>>,
    keeps_bytes: bool,
    /// The pages that are in the pool, as the device has them.
    images: FixedHashMap<u64, Vec<u8>>,
    /// Memory of images that were forgotten.
    spare: Vec<Vec<u8>>,
    record: PageRecord,
    counts: RecordedCounts,
    /// The first; nothing is recorded behind it.
    failure: Option<TraceError>,
}

impl<W: Write + Send> std::fmt::Debug for PageRecorder<W> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "PageRecorder({:?})", self.0.lock().counts)
    }
}

impl<W: Write + Send + 'static> PageRecorder<W> {
    /// Begins to record `database` into `sink`, named `name` in messages; its pool is emptied before. With
    /// `keeps_bytes` the bytes that changed are written, too.
    ///
    /// # Errors
    /// If the sink takes nothing, or changed pages cannot be written.
    pub fn begin(
        database: &Database,
        sink: W,
        name: &str,
        keeps_bytes: bool,
    ) -> Result<Arc<Self>, BenchError> {
        let page_bytes = database.read().engine().settings().page_bytes;
        let head = EngineTraceHead { page_bytes, keeps_bytes, files: files_of(database) };
        let recording = Recording {
            writer: Some(EngineTraceWriter::new(sink, name, head)?),
            keeps_bytes,
            images: FixedHashMap::default(),
            spare: Vec::new(),
            record: PageRecord::default(),
            counts: RecordedCounts::default(),
            failure: None,
        };
        let recorder = Arc::new(Self(Mutex::new(recording)));
        database.watch_pages(Some(Arc::<Self>::clone(&recorder)))?;
        Ok(recorder)
    }

    /// Ends the recording and gives the sink back, which has a whole trace then.
    ///
    /// # Errors
    /// If the sink failed, now or earlier.
    ///
    /// # Panics
    /// If it was finished before.
    pub fn finish(&self, database: &Database) -> Result<(W, RecordedCounts), BenchError> {
        database.watch_pages(None)?;
        let mut recording = self.0.lock();
        let writer = recording.writer.take().expect("a recording is finished once");
        match recording.failure.take() {
            Some(failure) => Err(failure.into()),
            None => Ok((writer.finish()?, recording.counts)),
        }
    }
}

impl<W: Write + Send> PageWatch for PageRecorder<W> {
    fn page_read(&self, at: Nanos, address: PageAddress, page: &[u8]) {
        let mut recording = self.0.lock();
        recording.begin(at, PageEvent::Read, address.file, address.page);
        recording.counts.read_count += 1;
        recording.push();
        recording.keep(address, page);
    }

    fn pages_written(&self, at: Nanos, pages: &[PageWrite]) {
        let mut recording = self.0.lock();
        for (index, page) in pages.iter().enumerate() {
            recording.begin(at, PageEvent::Write, page.address.file, page.address.page);
            recording.record.is_same_call = index > 0;
            recording.note_difference(page);
            recording.counts.write_count += 1;
            recording.push();
            recording.keep(page.address, &page.buffer);
        }
    }

    fn synced(&self, at: Nanos) {
        let mut recording = self.0.lock();
        recording.begin(at, PageEvent::Sync, FileId(0), 0);
        recording.counts.sync_count += 1;
        recording.push();
    }

    fn cut(&self, at: Nanos, file: FileId, first_page: u32) {
        let mut recording = self.0.lock();
        recording.begin(at, PageEvent::Cut, file, first_page.max(1));
        recording.push();
    }

    fn page_left(&self, address: PageAddress) {
        let mut recording = self.0.lock();
        if let Some(image) = recording.images.remove(&address.to_word()) {
            recording.spare.push(image);
        }
    }
}

impl<W: Write + Send> Recording<W> {
    /// Begins a record without ranges.
    fn begin(&mut self, at: Nanos, event: PageEvent, file: FileId, page: u32) {
        let Self { record, .. } = self;
        (record.at, record.event, record.file, record.page) = (at, event, file.0, page);
        (record.is_fresh, record.is_same_call) = (false, false);
        record.ranges.clear();
        record.bytes.clear();
    }

    /// Notes in the record what a page differs in from its image.
    fn note_difference(&mut self, page: &PageWrite) {
        let Self { images, record, keeps_bytes, .. } = self;
        let bytes = &page.buffer[..];
        match images.get(&page.address.to_word()) {
            Some(image) => add_differences(image, bytes, &mut record.ranges),
            None if page.is_new => {
                record.is_fresh = true;
                add_contents(bytes, &mut record.ranges);
            }
            None => record.ranges.push(0..to_u32(bytes.len() as u64)),
        }
        if *keeps_bytes {
            for range in &record.ranges {
                record.bytes.extend_from_slice(&bytes[range.start as usize..range.end as usize]);
            }
        }
    }

    fn push(&mut self) {
        let Self { writer, record, failure, .. } = self;
        // Nobody is told of what comes behind the end, or a failure.
        if let (Some(writer), None) = (writer, &failure) {
            *failure = writer.push(record).err();
        }
    }

    fn keep(&mut self, address: PageAddress, page: &[u8]) {
        let Self { images, spare, .. } = self;
        let image = images
            .entry(address.to_word())
            .or_insert_with(|| spare.pop().unwrap_or_else(|| vec![0; page.len()]));
        image.copy_from_slice(page);
    }
}

/// The files of a database as a trace names them.
fn files_of(database: &Database) -> Vec<TracedFile> {
    let traced = |(file, name, page_count): (FileId, String, u64)| {
        let page_count = u32::try_from(page_count).unwrap_or(u32::MAX);
        TracedFile { number: file.0, name, page_count }
    };
    let mut files: Vec<TracedFile> = database.files_with_pages().into_iter().map(traced).collect();
    files.sort_unstable_by_key(|file| file.number);
    files
}

/// Adds the ranges in which two pages differ.
fn add_differences(before: &[u8], after: &[u8], ranges: &mut Vec<Range<u32>>) {
    let pieces = before.chunks(COMPARED_BYTES).zip(after.chunks(COMPARED_BYTES));
    for (index, (before, after)) in pieces.enumerate() {
        if before == after {
            continue;
        }
        for (offset, (before, after)) in before.iter().zip(after).enumerate() {
            if before != after {
                add_byte(index * COMPARED_BYTES + offset, ranges);
            }
        }
    }
}

/// Adds the ranges in which a page is not zeros.
fn add_contents(page: &[u8], ranges: &mut Vec<Range<u32>>) {
    let not_zero = |(place, _): (usize, &u8)| add_byte(place, ranges);
    page.iter().enumerate().filter(|&(_, &byte)| byte != 0).for_each(not_zero);
}

/// Adds a byte behind those before, to the last range where it lies near.
fn add_byte(place: usize, ranges: &mut Vec<Range<u32>>) {
    let place = to_u32(place as u64);
    match ranges.last_mut() {
        Some(last) if place - last.end <= to_u32(JOINED_GAP_BYTES as u64) => last.end = place + 1,
        _ => ranges.push(place..place + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_the_bytes_that_differ_and_small_gaps() {
        let before = [7_u8; 512];
        let mut after = before;
        for place in [0, 5, 11, 63, 64, 200, 511] {
            after[place] = 1;
        }
        let mut ranges = Vec::new();
        add_differences(&before, &after, &mut ranges);
        // Four equal bytes between 0 and 5, five between 5 and 11.
        assert_eq!(ranges, [0..6, 11..12, 63..65, 200..201, 511..512]);
        ranges.clear();
        add_contents(&[&[0; 9][..], &[3, 0, 0, 0, 0, 4], &[0; 9]].concat(), &mut ranges);
        assert_eq!((ranges.len(), ranges[0].clone()), (1, 9..15));
    }
}
