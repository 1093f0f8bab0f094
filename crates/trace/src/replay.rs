//! A trace as a [`RequestSource`]: from what a line says to what the drive is asked.
//!
//! ```text
//!   line ─► parser ─► device filter ─► address map ─► since the first, faster ─► request(s)
//!             │bad            │filtered      │bad              │earlier than the last: its time
//!             └── skip_bad: counted; else an error with the line, and the end
//! ```
//!
//! 1. Memory is constant, but for [`crate::AddressMap::Compact`] and the objects of traces that have
//!    ids in place of addresses.
//! 2. Times are scaled once each, from the start of the trace, so rounding does not add up.
//! 3. A bad line changes nothing but its count.

use crate::address_map::{AddressMapper, Devices};
use crate::compact::{CompactReader, MAGIC};
use crate::compression::{Compression, decompress};
use crate::engine_trace::{self, EngineRequests, EngineTraceReader};
use crate::format::{
    LineParser, Origin, RawRequest, Recognised, named, recognise, recognise_records, table,
};
use crate::lines::{LINE_BYTES_MAX, Line, LineReader};
use crate::records::RecordReplay;
use crate::{
    Pacing, RequestSource, SourceStatistics, SpeedUp, TraceError, TraceFormat, TraceOptions,
    TraceRequest,
};
use nandu_base::Nanos;
use nandu_device::Operation;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Opens the trace at `path`, plain or compressed with gzip or zstd. Once `stop` is set, what reads on
/// gets an error: where nothing of a trace is a request, its reader looks at nobody else.
///
/// # Errors
/// If it cannot be read, its format is not recognised, or the options make no sense.
pub fn open_trace(
    path: &Path,
    options: &TraceOptions,
    stop: Arc<AtomicBool>,
) -> Result<Box<dyn RequestSource>, TraceError> {
    let file = path.display().to_string();
    match std::fs::File::open(path) {
        Ok(stream) => open_reader(Stoppable { stream, stop }, &file, options),
        Err(error) => Err(TraceError::File { file, message: format!("cannot be opened: {error}") }),
    }
}

/// Reads a trace from `stream`, named `file` in messages; otherwise as [`open_trace`].
///
/// # Errors
/// As [`open_trace`].
pub fn open_reader(
    stream: impl Read + Send + 'static,
    file: &str,
    options: &TraceOptions,
) -> Result<Box<dyn RequestSource>, TraceError> {
    let timeline = Timeline::new(options).map_err(|message| TraceError::Option { message })?;
    let failed = |message: String| TraceError::File { file: file.into(), message };
    let (stream, compression) =
        decompress(stream).map_err(|error| failed(format!("cannot be read: {error}")))?;
    let packed = match compression {
        Compression::None => String::new(),
        other => format!("{}, ", other.label()),
    };
    let mut stream = Started::new(stream);
    if options.columns.is_none() {
        if is_wanted(TraceFormat::Compact, options) && stream.start().starts_with(&MAGIC) {
            stream.skip(MAGIC.len() as u64);
            let stream = Box::new(stream);
            let reader = CompactReader::new(stream, file, &packed, options.skip_bad, timeline);
            return Ok(Box::new(reader));
        }
        let is_engine = stream.start().starts_with(&engine_trace::MAGIC);
        if is_wanted(TraceFormat::Engine, options) && is_engine {
            let reader = EngineTraceReader::of_plain(Box::new(stream), file, compression)?;
            return Ok(Box::new(EngineRequests::new(reader, file, options.skip_bad, timeline)));
        }
        if let Some((parser, description)) = recognise_records(stream.start(), options.format) {
            let description = format!("trace {file}: {packed}{description}");
            return Ok(Box::new(RecordReplay::new(
                Box::new(stream),
                file,
                parser,
                description,
                options.skip_bad,
                timeline,
            )));
        }
    }
    let mut lines = LineReader::new(Box::new(stream));
    let recognised = choose(&mut lines, file, options)?;
    Ok(Box::new(Replay {
        file: file.into(),
        lines,
        parser: recognised.parser,
        description: format!("trace {file}: {packed}{}", recognised.description),
        timed: recognised.timed,
        skip_bad: options.skip_bad,
        ended: false,
        timeline,
    }))
}

/// A file that nobody reads on once the flag is set.
struct Stoppable {
    stream: std::fs::File,
    stop: Arc<AtomicBool>,
}

impl Read for Stoppable {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, std::io::Error> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(std::io::Error::other("stopped on request"));
        }
        self.stream.read(buffer)
    }
}

fn is_wanted(format: TraceFormat, options: &TraceOptions) -> bool {
    options.format.is_none_or(|wanted| wanted == format)
}

/// A stream whose first bytes have been looked at.
struct Started {
    start: std::io::Cursor<Vec<u8>>,
    /// Trouble behind the start, told when it is reached.
    trouble: Option<std::io::Error>,
    rest: Box<dyn Read + Send>,
}

impl Started {
    fn new(mut rest: Box<dyn Read + Send>) -> Self {
        const START_BYTES: u64 = 64 << 10;
        let mut start = Vec::new();
        let trouble = rest.by_ref().take(START_BYTES).read_to_end(&mut start).err();
        Self { start: std::io::Cursor::new(start), trouble, rest }
    }

    fn start(&self) -> &[u8] {
        self.start.get_ref()
    }

    fn skip(&mut self, bytes: u64) {
        self.start.set_position(bytes);
    }
}

impl Read for Started {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, std::io::Error> {
        match self.start.read(buffer)? {
            0 => match self.trouble.take() {
                Some(trouble) => Err(trouble),
                None => self.rest.read(buffer),
            },
            count => Ok(count),
        }
    }
}

fn choose(
    lines: &mut LineReader,
    file: &str,
    options: &TraceOptions,
) -> Result<Recognised, TraceError> {
    if let Some(columns) = &options.columns {
        return table(columns);
    }
    let sample = lines.sample();
    let empty = sample.is_empty();
    match options.format {
        Some(format) => {
            named(format, options.invert_types, sample).ok_or_else(|| TraceError::File {
                file: file.into(),
                message: format!(
                    "is no trace of the format {}: its first bytes are others",
                    format.label()
                ),
            })
        }
        None if empty => Err(match lines.next_line() {
            Line::Text(_) | Line::TooLong => TraceError::UnknownFormat {
                file: file.into(),
                message: "the first line is longer than 65536 bytes".into(),
            },
            Line::Broken(message) => TraceError::Line { file: file.into(), line: 1, message },
            Line::End => {
                TraceError::UnknownFormat { file: file.into(), message: "the file is empty".into() }
            }
        }),
        None => recognise(sample, options.invert_types)
            .map_err(|message| TraceError::UnknownFormat { file: file.into(), message }),
    }
}

/// A trace of lines.
struct Replay {
    file: String,
    lines: LineReader,
    parser: Box<dyn LineParser>,
    description: String,
    timed: bool,
    skip_bad: bool,
    ended: bool,
    timeline: Timeline,
}

impl RequestSource for Replay {
    fn next_batch(
        &mut self,
        batch: &mut Vec<TraceRequest>,
        limit: usize,
    ) -> Result<(), TraceError> {
        let enough = batch.len().saturating_add(limit);
        while batch.len() < enough && !self.ended {
            let outcome = match self.lines.next_line() {
                Line::Text([] | [b'#', ..]) => Ok(()),
                Line::Text(line) => {
                    let number = self.timeline.statistics.line_count + 1;
                    self.parser.parse(number, line).and_then(|request| match request {
                        Some(request) => self.timeline.accept(&request, batch),
                        None => Ok(()),
                    })
                }
                Line::TooLong => Err(format!("the line is longer than {LINE_BYTES_MAX} bytes")),
                Line::Broken(message) => {
                    self.ended = true;
                    Err(message)
                }
                Line::End => {
                    self.ended = true;
                    break;
                }
            };
            self.timeline.statistics.line_count = self.lines.line_number();
            if let Err(message) = outcome {
                self.timeline
                    .bad(&self.file, self.lines.line_number(), 1, message, self.skip_bad)
                    .inspect_err(|_| self.ended = true)?;
            }
        }
        Ok(())
    }

    fn pacing(&self) -> Pacing {
        if self.timed { Pacing::Open } else { Pacing::Closed { think_ns: Nanos::ZERO } }
    }

    fn description(&self) -> String {
        self.description.clone()
    }

    fn statistics(&self) -> SourceStatistics {
        self.timeline.statistics()
    }

    fn audit(&self) {
        self.lines.audit();
        self.timeline.audit();
    }
}

/// What all traces have in common behind their format.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    pub(crate) statistics: SourceStatistics,
    device: Option<String>,
    speed_up: SpeedUp,
    devices: Devices,
    addresses: AddressMapper,
    first_ns: Option<u64>,
    last: Nanos,
}

impl Timeline {
    /// # Errors
    /// If the options contradict each other.
    pub(crate) fn new(options: &TraceOptions) -> Result<Self, String> {
        if options.columns.is_some() && options.format.is_some() {
            return Err("give a format or columns, not both".into());
        }
        Ok(Self {
            statistics: SourceStatistics::default(),
            device: options.device.clone(),
            speed_up: options.speed_up,
            devices: Devices::default(),
            addresses: AddressMapper::new(options.address_map, options.capacity_bytes)?,
            first_ns: None,
            last: Nanos::ZERO,
        })
    }

    pub(crate) fn statistics(&self) -> SourceStatistics {
        SourceStatistics { device_count: self.devices.count(), ..self.statistics.clone() }
    }

    /// Asserts what must hold between requests.
    pub(crate) fn audit(&self) {
        assert!(
            self.first_ns.is_some() || self.last == Nanos::ZERO,
            "time goes on only behind a first request"
        );
        assert!(
            self.first_ns.is_some() || self.statistics.request_count == 0,
            "the first request sets the start of time"
        );
        assert!(
            self.statistics.first_skipped.is_some() == (self.statistics.skipped_count > 0),
            "what is skipped first is kept"
        );
        self.addresses.audit();
    }

    /// Appends what `raw` asks of the drive.
    ///
    /// # Errors
    /// Why it cannot be replayed; nothing has changed then.
    #[inline]
    pub(crate) fn accept(
        &mut self,
        raw: &RawRequest<'_>,
        batch: &mut Vec<TraceRequest>,
    ) -> Result<(), String> {
        if self.device.is_some() && !self.is_wanted(raw.origin) {
            self.statistics.filtered_count += 1;
            return Ok(());
        }
        let since_first = raw.at_ns.saturating_sub(self.first_ns.unwrap_or(raw.at_ns));
        let own = Nanos(self.speed_up.apply(since_first).ok_or("the time passes 2^64 ns")?);
        let at = own.max(self.last);
        let precedes_first = self.first_ns.is_some_and(|first_ns| raw.at_ns < first_ns);
        let is_reordered = precedes_first || own < self.last;
        let (device, stream) = match raw.origin {
            Origin::Device(name) => {
                let number = self.devices.number(name)?;
                (number, u8::try_from(number).unwrap_or(u8::MAX))
            }
            Origin::Stream(stream) => (u32::from(stream), stream),
            Origin::Object(_) => (self.devices.number(b"")?, 0),
        };
        let operation = raw.operation;
        let before = batch.len();
        if operation == Operation::Flush {
            batch.push(TraceRequest { at, operation, offset_bytes: 0, length_bytes: 0, stream });
        } else {
            if raw.length_bytes == 0 {
                return Err(format!("a {} of 0 bytes", operation.label()));
            }
            let place = |offset_bytes, length_bytes| {
                batch.push(TraceRequest { at, operation, offset_bytes, length_bytes, stream });
            };
            match raw.origin {
                Origin::Object(id) => self.addresses.map_object(id, raw.length_bytes, place)?,
                _ => self.addresses.map(device, raw.offset_bytes, raw.length_bytes, place)?,
            }
        }
        self.first_ns.get_or_insert(raw.at_ns);
        self.last = at;
        self.statistics.reordered_count += u64::from(is_reordered);
        self.statistics.request_count += (batch.len() - before) as u64;
        Ok(())
    }

    fn is_wanted(&self, origin: Origin<'_>) -> bool {
        let Some(wanted) = &self.device else { return true };
        match origin {
            Origin::Device(name) => name == wanted.as_bytes(),
            Origin::Stream(stream) => wanted.parse() == Ok(stream),
            Origin::Object(_) => false,
        }
    }

    /// Counts `count` bad requests.
    ///
    /// # Errors
    /// The trouble itself, where it is not to be skipped.
    #[cold]
    pub(crate) fn bad(
        &mut self,
        file: &str,
        line: u64,
        count: u64,
        message: String,
        skip: bool,
    ) -> Result<(), TraceError> {
        self.bad_as(TraceError::Line { file: file.into(), line, message }, count, skip)
    }

    /// As [`Self::bad`], with an error that says where.
    ///
    /// # Errors
    /// As there.
    #[cold]
    pub(crate) fn bad_as(
        &mut self,
        error: TraceError,
        count: u64,
        skip: bool,
    ) -> Result<(), TraceError> {
        if !skip {
            return Err(error);
        }
        self.statistics.skipped_count += count;
        self.statistics.first_skipped.get_or_insert_with(|| error.to_string());
        Ok(())
    }
}
