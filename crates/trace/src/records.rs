//! A trace of binary records as a [`RequestSource`]; the counterpart of [`crate::replay`] for lines.
//!
//! 1. Memory is constant: one record at a time, its extra bytes passed over.
//! 2. A record whose length cannot be known ends the trace.

use crate::format::RecordParser;
use crate::replay::Timeline;
use crate::{RequestSource, SourceStatistics, TraceError, TraceRequest};
use std::io::{BufReader, ErrorKind, Read};

/// Longest head of a record.
const HEAD_BYTES_MAX: usize = 64;

pub(crate) struct RecordReplay {
    stream: BufReader<Box<dyn Read + Send>>,
    file: String,
    parser: Box<dyn RecordParser>,
    description: String,
    skip_bad: bool,
    ended: bool,
    timeline: Timeline,
}

impl RecordReplay {
    pub(crate) fn new(
        stream: Box<dyn Read + Send>,
        file: &str,
        parser: Box<dyn RecordParser>,
        description: String,
        skip_bad: bool,
        timeline: Timeline,
    ) -> Self {
        assert!(parser.head_bytes() <= HEAD_BYTES_MAX, "a head fits its buffer");
        let stream = BufReader::with_capacity(128 << 10, stream);
        let file = file.into();
        Self { stream, file, parser, description, skip_bad, ended: false, timeline }
    }

    /// Reads a record and appends what it asks for.
    fn next_record(&mut self, batch: &mut Vec<TraceRequest>) -> Result<(), String> {
        let mut buffer = [0; HEAD_BYTES_MAX];
        let head = &mut buffer[..self.parser.head_bytes()];
        let length = self.read_head(head)?;
        if length == 0 {
            self.ended = true;
            return Ok(());
        }
        self.timeline.statistics.line_count += 1;
        if length < head.len() {
            self.ended = true;
            return Err(format!(
                "the record ends early, after {length} of {} bytes; the file was cut, fetch it again",
                head.len()
            ));
        }
        let extra = self.parser.body_bytes(head).inspect_err(|_| self.ended = true)?;
        let request = self.parser.parse(head);
        let outcome = match request {
            Ok(Some(request)) => self.timeline.accept(&request, batch),
            Ok(None) => Ok(()),
            Err(message) => Err(message),
        };
        let skipped =
            std::io::copy(&mut self.stream.by_ref().take(extra as u64), &mut std::io::sink());
        match skipped {
            Ok(count) if count == extra as u64 => outcome,
            Ok(_) => {
                self.ended = true;
                Err("the record ends early, in its extra bytes; the file was cut, fetch it again"
                    .into())
            }
            Err(error) => {
                self.ended = true;
                Err(error.to_string())
            }
        }
    }

    /// As many bytes of a head as there are.
    fn read_head(&mut self, head: &mut [u8]) -> Result<usize, String> {
        let mut length = 0;
        while length < head.len() {
            match self.stream.read(&mut head[length..]) {
                Ok(0) => break,
                Ok(count) => length += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = true;
                    self.timeline.statistics.line_count += 1;
                    return Err(error.to_string());
                }
            }
        }
        Ok(length)
    }
}

impl RequestSource for RecordReplay {
    fn next_batch(
        &mut self,
        batch: &mut Vec<TraceRequest>,
        limit: usize,
    ) -> Result<(), TraceError> {
        let enough = batch.len().saturating_add(limit);
        while batch.len() < enough && !self.ended {
            if let Err(message) = self.next_record(batch) {
                let line = self.timeline.statistics.line_count;
                self.timeline
                    .bad(&self.file, line, 1, message, self.skip_bad)
                    .inspect_err(|_| self.ended = true)?;
            }
        }
        Ok(())
    }

    fn description(&self) -> String {
        self.description.clone()
    }

    fn statistics(&self) -> SourceStatistics {
        self.timeline.statistics()
    }

    fn audit(&self) {
        self.timeline.audit();
    }
}
