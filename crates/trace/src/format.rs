//! The formats of traces: one sibling file each behind `LineParser` and [`TraceFormat`], and how a
//! format is recognised.
//!
//! Every format is tried on the first lines; the one that understands most of them has it. Where two
//! understand them all, the stricter one does: DiskSim's and MQSim's columns are the same, and only
//! a time with a fraction tells that it counts milliseconds. What was decided, and why, is said in
//! the description of the source.
//!
//! 1. A parser takes any bytes and answers with a request, nothing, or what is wrong.
//! 2. Lines that are empty or begin with `#` reach no parser.

mod blktrace;
mod cloud;
mod columns;
mod disk_sim;
mod enterprise;
mod fio;
mod kernel;
mod oracle;
mod vscsi;
mod wisc_see;

use crate::TraceError;
use crate::field::shown;
use nandu_device::Operation;
use serde::{Deserialize, Serialize};

pub(crate) use columns::Columns;

const SECTOR_BYTES: u64 = 512;
const SECOND_NS: u64 = 1_000_000_000;
/// Lines that are looked at to recognise a format.
const SAMPLE_LINE_COUNT: usize = 200;

/// Makes the enum, its list and its names from one line a format.
macro_rules! formats {
    ($($(#[$doc:meta])* $format:ident = $label:literal;)+) => {
        /// The formats that are known.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum TraceFormat {
            $($(#[$doc])* #[serde(rename = $label)] $format,)+
        }

        impl TraceFormat {
            /// Every format, the stricter of two that may be confused first.
            pub const ALL: [Self; [$($label),+].len()] = [$(Self::$format,)+];

            /// The name used in options and descriptions.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$format => $label,)+
                }
            }
        }
    };
}

// The stricter of two that may be confused first.
formats! {
    /// Our own binary trace.
    Compact = "compact";
    /// Our own trace of an engine's pages.
    Engine = "engine";
    /// blktrace's binary events.
    Blktrace = "blktrace";
    /// libCacheSim's `oracleGeneral`, binary.
    OracleGeneral = "oracle-general";
    /// CloudPhysics' binary trace.
    Vscsi = "vscsi";
    /// fio's `write_iolog`, version 2.
    FioV2 = "fio-v2";
    /// fio's `write_iolog`, version 3 (from fio 3.31 on).
    FioV3 = "fio-v3";
    /// The text that blkparse prints by default.
    Blkparse = "blkparse";
    /// The kernel's event `block_rq_issue`, as tracefs prints it.
    Ftrace = "ftrace";
    /// MSR Cambridge (SNIA IOTTA 388).
    Msr = "msr";
    /// Systor '17 (SNIA IOTTA 4928).
    Systor = "systor";
    /// Alibaba's block traces of 2020.
    Alibaba = "alibaba";
    /// SPC, as of UMass' Financial and WebSearch.
    Spc = "spc";
    /// Tencent CBS (SNIA IOTTA 27917).
    Tencent = "tencent";
    /// CloudPhysics, as libCacheSim's CSV.
    CloudPhysics = "cloud-physics";
    /// MQSim's and SSDSim's ASCII.
    MqSim = "mqsim";
    /// The ASCII format of the simulator DiskSim.
    DiskSim = "disksim";
    /// WiscSee's event file.
    WiscSee = "wiscsee";
    /// The text of it that libCacheSim prints.
    OracleText = "oracle-text";
}

impl TraceFormat {
    /// What tells it from others that look alike, for the description of a recognised trace.
    const fn reason(self) -> &'static str {
        match self {
            Self::FioV2 | Self::FioV3 => "by its first line",
            Self::Compact | Self::Engine | Self::Blktrace | Self::Vscsi => "by its first bytes",
            Self::OracleGeneral => "by its records: times rise, next accesses lie ahead",
            Self::OracleText => "by its columns: next accesses are those of the same object",
            Self::MqSim => {
                "five numbers with whole times: nanoseconds, type 0 writes and 1 reads; a DiskSim \
                 trace with whole milliseconds looks the same, then name the format"
            }
            Self::DiskSim => {
                "five numbers, times with a fraction: milliseconds, flag 1 reads and 0 writes"
            }
            Self::Blkparse
            | Self::Ftrace
            | Self::Msr
            | Self::Systor
            | Self::Alibaba
            | Self::Spc
            | Self::Tencent
            | Self::CloudPhysics
            | Self::WiscSee => "by its columns",
        }
    }

    /// Reads a name as [`TraceFormat::label`] gives it.
    ///
    /// # Errors
    /// [`TraceError::Option`] with all names.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        Self::ALL.into_iter().find(|format| format.label() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.into_iter().map(Self::label).collect();
            let names = names.join(", ");
            TraceError::Option { message: format!("no trace format `{text}`; use one of {names}") }
        })
    }

    /// A parser for lines; `None` for a binary format.
    fn parser(self, invert_types: bool, sample: &[u8]) -> Option<Box<dyn LineParser>> {
        Some(match self {
            Self::FioV2 => Box::new(fio::FioV2::default()),
            Self::FioV3 => Box::new(fio::FioV3::default()),
            Self::Blkparse => Box::new(kernel::Blkparse::new(sample)),
            Self::Ftrace => Box::new(kernel::Ftrace),
            Self::Msr => Box::new(enterprise::Msr),
            Self::Spc => Box::new(enterprise::Spc),
            Self::Systor => Box::new(enterprise::Systor),
            Self::Alibaba => Box::new(cloud::Alibaba),
            Self::Tencent => Box::new(cloud::Tencent),
            Self::CloudPhysics => Box::new(cloud::CloudPhysics),
            Self::DiskSim => Box::new(disk_sim::DiskSim { invert_types }),
            Self::MqSim => Box::new(disk_sim::MqSim { invert_types }),
            Self::WiscSee => Box::new(wisc_see::WiscSee),
            Self::OracleText => Box::new(oracle::OracleText),
            Self::Compact | Self::Engine | Self::Blktrace | Self::OracleGeneral | Self::Vscsi => {
                return None;
            }
        })
    }

    /// A parser for binary records, if the first bytes tell them; `None` for a format of lines, and
    /// for our own, which are read in chunks.
    fn records(self, sample: &[u8], is_named: bool) -> Option<Box<dyn RecordParser>> {
        Some(match self {
            Self::Blktrace => Box::new(blktrace::Blktrace::recognise(sample)?),
            Self::OracleGeneral => Box::new(oracle::OracleGeneral::recognise(sample, is_named)?),
            Self::Vscsi => Box::new(vscsi::Vscsi::recognise(sample)?),
            Self::Compact
            | Self::Engine
            | Self::FioV2
            | Self::FioV3
            | Self::Blkparse
            | Self::Ftrace
            | Self::Msr
            | Self::Systor
            | Self::Alibaba
            | Self::Spc
            | Self::Tencent
            | Self::CloudPhysics
            | Self::MqSim
            | Self::DiskSim
            | Self::WiscSee
            | Self::OracleText => return None,
        })
    }
}

impl std::str::FromStr for TraceFormat {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        Self::parse(text)
    }
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin<'a> {
    /// A device, volume or file by its name in the trace.
    Device(&'a [u8]),
    /// A stream by its number.
    Stream(u8),
    /// An object by its id, from its first byte on; the trace has no addresses.
    Object(u64),
}

/// A request as a trace has it: the time counts from anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawRequest<'a> {
    pub(crate) at_ns: u64,
    pub(crate) operation: Operation,
    pub(crate) offset_bytes: u64,
    pub(crate) length_bytes: u64,
    pub(crate) origin: Origin<'a>,
}

/// Understands the lines of one format.
pub(crate) trait LineParser: Send {
    /// The request on line `number`, or `None` where there is none (a header, an event of another
    /// kind).
    ///
    /// # Errors
    /// What was expected and what was found.
    fn parse<'a>(&mut self, number: u64, line: &'a [u8]) -> Result<Option<RawRequest<'a>>, String>;

    /// What the parser takes of the trace, where it has a choice.
    fn remark(&self) -> Option<String> {
        None
    }
}

/// Understands the records of one binary format.
pub(crate) trait RecordParser: Send {
    /// Bytes of a record that have to be known before the rest.
    fn head_bytes(&self) -> usize;

    /// Bytes that follow the head.
    ///
    /// # Errors
    /// If the head tells no length; then nothing behind it can be read.
    fn body_bytes(&self, head: &[u8]) -> Result<usize, String>;

    /// The request of a record, or `None` where it is none.
    ///
    /// # Errors
    /// What was expected and what was found.
    fn parse(&mut self, head: &[u8]) -> Result<Option<RawRequest<'_>>, String>;

    /// What the parser found out about the trace.
    fn remark(&self) -> String;
}

/// The parser of a trace of binary records and its description, if the first bytes tell one that
/// `wanted` allows.
pub(crate) fn recognise_records(
    sample: &[u8],
    wanted: Option<TraceFormat>,
) -> Option<(Box<dyn RecordParser>, String)> {
    let allowed = |format: &TraceFormat| wanted.is_none_or(|wanted| wanted == *format);
    TraceFormat::ALL.into_iter().filter(allowed).find_map(|format| {
        let parser = format.records(sample, wanted == Some(format))?;
        let description = format!("{}, {}; {}", format.label(), format.reason(), parser.remark());
        Some((parser, description))
    })
}

/// A format that was chosen, and why.
pub(crate) struct Recognised {
    pub(crate) parser: Box<dyn LineParser>,
    pub(crate) description: String,
    /// Whether the lines carry times.
    pub(crate) timed: bool,
}

/// The parser of a format that the user named.
pub(crate) fn named(format: TraceFormat, invert_types: bool, sample: &[u8]) -> Option<Recognised> {
    let parser = format.parser(invert_types, sample)?;
    Some(recognised(format, parser, invert_types, sample, "as the format was given"))
}

/// Finds the format by the first lines.
///
/// # Errors
/// What was tried, if no format understands them.
pub(crate) fn recognise(sample: &[u8], invert_types: bool) -> Result<Recognised, String> {
    // fio says what it is, even where a log has no request or hardly a good line.
    let is_said = |line: &[u8]| !line.is_empty() && line[0] != b'#';
    let said = match lines_of(sample).find(|line| is_said(line)).map(<[u8]>::trim_ascii) {
        Some(b"fio version 2 iolog") => Some(TraceFormat::FioV2),
        Some(b"fio version 3 iolog") => Some(TraceFormat::FioV3),
        // The first events may all be of commands and messages, which are no requests.
        _ if lines_of(sample).any(kernel::Blkparse::is_event) => Some(TraceFormat::Blkparse),
        _ => None,
    };
    let mut best = said.map(|format| (0, format));
    for format in TraceFormat::ALL {
        let Some(mut parser) = format.parser(false, sample) else { continue };
        // Any table of numbers has its columns.
        if format == TraceFormat::OracleText && !oracle::OracleText::is_telling(lines_of(sample)) {
            continue;
        }
        let (mut good, mut bad) = (0_usize, 0_usize);
        for (number, line) in (1..).zip(lines_of(sample)) {
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            match parser.parse(number, line) {
                Ok(Some(_)) => good += 1,
                Ok(None) => {}
                Err(_) => bad += 1,
            }
        }
        if good > bad && best.is_none_or(|(most, _)| good - bad > most) {
            best = Some((good - bad, format));
        }
    }
    let Some((_, format)) = best else {
        let first = lines_of(sample).find(|line| !line.is_empty()).unwrap_or_default();
        let names: Vec<&str> = TraceFormat::ALL.into_iter().map(TraceFormat::label).collect();
        return Err(format!(
            "the first lines (`{}`) are of no known format ({}); describe the columns, for \
             example time=us,op,offset=sector,size",
            shown(first),
            names.join(", ")
        ));
    };
    let parser = format.parser(invert_types, sample).expect("only formats of lines compete");
    Ok(recognised(format, parser, invert_types, sample, format.reason()))
}

fn recognised(
    format: TraceFormat,
    parser: Box<dyn LineParser>,
    invert_types: bool,
    sample: &[u8],
    reason: &str,
) -> Recognised {
    let mut description = format!("{}, {reason}", format.label());
    if invert_types && matches!(format, TraceFormat::DiskSim | TraceFormat::MqSim) {
        description.push_str("; types inverted");
    }
    if let Some(remark) = parser.remark() {
        description = format!("{description}; {remark}");
    }
    let timed = format != TraceFormat::FioV2
        || lines_of(sample).any(|line| memchr::memmem::find(line, b" wait ").is_some());
    Recognised { parser, description, timed }
}

/// The parser of a table whose columns the user described.
///
/// # Errors
/// If the description makes no sense.
pub(crate) fn table(columns: &str) -> Result<Recognised, TraceError> {
    let parser = Columns::new(columns).map_err(|message| TraceError::Option { message })?;
    let timed = parser.has_time();
    let description = format!("table with the columns {columns}");
    Ok(Recognised { parser: Box::new(parser), description, timed })
}

fn lines_of(sample: &[u8]) -> impl Iterator<Item = &[u8]> {
    sample
        .split(|&byte| byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .take(SAMPLE_LINE_COUNT)
}

/// Whether the first line of a table names its columns.
fn is_header(number: u64, line: &[u8]) -> bool {
    number == 1 && line.first().is_some_and(u8::is_ascii_alphabetic)
}

/// `R` or `W`, in either case.
#[inline]
fn read_or_write(field: &[u8]) -> Result<Operation, String> {
    match field {
        b"R" | b"r" => Ok(Operation::Read),
        b"W" | b"w" => Ok(Operation::Write),
        _ => Err(format!("type `{}` is neither R nor W", shown(field))),
    }
}
