//! The trace of an engine as requests to one drive: pages are read and written as a whole, a sync is a
//! flush, and what is cut off is no request, since drives are not told of it.
//!
//! 1. The stream of a request is the number of its file, 255 for all from there on.

use super::{EngineTraceReader, PageEvent, PageLayout};
use crate::compression::Compression;
use crate::format::{Origin, RawRequest};
use crate::replay::Timeline;
use crate::{RequestSource, SourceStatistics, TraceError, TraceFormat, TraceRequest};
use nandu_device::Operation;

pub(crate) struct EngineRequests {
    reader: EngineTraceReader,
    name: String,
    layout: PageLayout,
    skip_bad: bool,
    ended: bool,
    timeline: Timeline,
}

impl EngineRequests {
    pub(crate) fn new(
        reader: EngineTraceReader,
        name: &str,
        skip_bad: bool,
        timeline: Timeline,
    ) -> Self {
        let layout = PageLayout::new(&reader.head().files);
        Self { reader, name: name.into(), layout, skip_bad, ended: false, timeline }
    }

    /// Appends what the next record asks of a drive.
    fn next_request(&mut self, batch: &mut Vec<TraceRequest>) -> Result<(), TraceError> {
        let page_bytes = u64::from(self.reader.head().page_bytes);
        let record = match self.reader.next_record() {
            Ok(Some(record)) => record,
            Ok(None) => {
                self.ended = true;
                return Ok(());
            }
            Err(error) => {
                self.timeline.statistics.line_count = self.reader.chunk_count();
                let lost_count = self.reader.lost_count();
                return self.timeline.bad_as(error, lost_count, self.skip_bad);
            }
        };
        let operation = match record.event {
            PageEvent::Read => Operation::Read,
            PageEvent::Write => Operation::Write,
            PageEvent::Sync => Operation::Flush,
            PageEvent::Cut => return Ok(()),
        };
        let is_located = record.event != PageEvent::Sync;
        let mut raw = RawRequest {
            at_ns: record.at.0,
            operation,
            offset_bytes: 0,
            length_bytes: if is_located { page_bytes } else { 0 },
            origin: Origin::Stream(u8::try_from(record.file).unwrap_or(u8::MAX)),
        };
        let accepted = match is_located {
            false => self.timeline.accept(&raw, batch),
            true => self.layout.place(record.file, record.page).and_then(|place| {
                let offset_bytes = place.checked_mul(page_bytes);
                raw.offset_bytes = offset_bytes.ok_or("an address past 2^64 bytes")?;
                self.timeline.accept(&raw, batch)
            }),
        };
        self.timeline.statistics.line_count = self.reader.chunk_count();
        accepted.or_else(|message| {
            let line = self.timeline.statistics.line_count;
            self.timeline.bad(&self.name, line, 1, message, self.skip_bad)
        })
    }
}

impl RequestSource for EngineRequests {
    fn next_batch(
        &mut self,
        batch: &mut Vec<TraceRequest>,
        limit: usize,
    ) -> Result<(), TraceError> {
        let enough = batch.len().saturating_add(limit);
        while batch.len() < enough && !self.ended {
            self.next_request(batch).inspect_err(|_| self.ended = true)?;
        }
        Ok(())
    }

    fn description(&self) -> String {
        let packed = match self.reader.compression() {
            Compression::None => String::new(),
            other => format!("{}, ", other.label()),
        };
        let label = TraceFormat::Engine.label();
        format!("trace {}: {packed}{label}, by its first bytes", self.name)
    }

    fn audit(&self) {
        self.reader.audit();
        self.layout.audit();
        self.timeline.audit();
    }

    fn statistics(&self) -> SourceStatistics {
        self.timeline.statistics()
    }
}
