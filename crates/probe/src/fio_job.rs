//! Reads fio's job files, so that its users can bring them.
//!
//! ```text
//!   [global]  key=value ──► defaults of the jobs below it
//!   [name]    key=value ──► one Pattern; what does not carry over becomes a note with its line
//! ```
//!
//! Sizes follow fio's default `kb_base=1024`: `4k` and `4kb` are 4096, `4kib` is 4000. A bare
//! `runtime` counts seconds, a bare `thinktime` microseconds.
//!
//! 1. Every key of the file has an effect, or is named in a note with its line, or is refused with it: what
//!    would make the load another than the one that is measured is never passed over.

use crate::ProbeError;
use crate::fio_refused::refusal;
use crate::pattern::{Access, Area, DataKind, Limit, Pattern};
use crate::text::parse_duration;
use nandu_base::{ByteCount, Distribution, Nanos, words};
use nandu_device::DeviceInfo;
use std::collections::BTreeMap;
use std::fmt;

/// What a note is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FioNoteKind {
    /// A key that this program does not know.
    Unknown,
    /// A key that is known and has no effect here.
    Ignored,
    /// A key whose meaning here differs from fio's.
    Changed,
}

/// Something about a job file that its author should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FioNote {
    /// What it is about.
    pub kind: FioNoteKind,
    /// The file's name, as the caller gave it.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// What is different here.
    pub text: String,
}

impl fmt::Display for FioNote {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.file, self.line, self.text)
    }
}

/// A job file, understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FioJobs {
    /// One pattern per job, in the order of the file.
    pub patterns: Vec<Pattern>,
    /// In the order of the file.
    pub notes: Vec<FioNote>,
}

/// Keys that change the pattern.
const KNOWN: [&str; 43] = [
    "ba",
    "blockalign",
    "blocksize",
    "bs",
    "buffered",
    "direct",
    "directory",
    "fdatasync",
    "filename",
    "fixedbufs",
    "fsync",
    "group_reporting",
    "invalidate",
    "io_size",
    "iodepth",
    "ioengine",
    "iomem",
    "loops",
    "mem",
    "name",
    "new_group",
    "nonvectored",
    "norandommap",
    "number_ios",
    "numjobs",
    "offset",
    "random_distribution",
    "randrepeat",
    "randseed",
    "readwrite",
    "refill_buffers",
    "registerfiles",
    "runtime",
    "rw",
    "rwmixread",
    "rwmixwrite",
    "size",
    "stonewall",
    "sync",
    "thinktime",
    "thread",
    "time_based",
    "zero_buffers",
];

/// Keys that are known to change nothing here, with the reason.
const IGNORED: [(&str, &str); 14] = [
    ("directory", "the target of the command line is used"),
    ("filename", "the target of the command line is used"),
    ("fixedbufs", "buffers are registered with io_uring wherever the system lets them be"),
    ("group_reporting", "each job is reported once in any case"),
    ("invalidate", "direct I/O leaves nothing to invalidate"),
    ("ioengine", "the device's own engine is used"),
    ("iomem", "buffers lie in memory of the program, in large pages where the system has them"),
    ("mem", "buffers lie in memory of the program, in large pages where the system has them"),
    ("new_group", "each job is reported by itself"),
    ("nonvectored", "a request is one piece of memory in any case"),
    ("randrepeat", "runs with the same seed are always the same"),
    ("refill_buffers", "buffers are made once; eight bytes of each write change"),
    ("registerfiles", "files are registered with io_uring wherever it is used"),
    ("thread", "requests are queued by one thread"),
];

/// A value with the line it came from.
#[derive(Clone, Debug)]
struct Setting {
    value: String,
    line: usize,
}

type Settings = BTreeMap<String, Setting>;

struct Job {
    name: String,
    line: usize,
    settings: Settings,
}

/// Reads a job file for a device, whose capacity stands in for fio's file where `size` is absent or
/// in percent. `file` is named in errors and notes.
///
/// # Errors
/// [`ProbeError::Parse`] with the line: a key outside a section, a value that is none, a kind of job
/// that cannot be done here, or no job at all.
pub fn parse_fio_job(file: &str, text: &str, info: &DeviceInfo) -> Result<FioJobs, ProbeError> {
    let reader = Reader { file };
    let (jobs, mut notes) = reader.sections(text)?;
    if jobs.is_empty() {
        return Err(reader.wrong(1, "the file has no job; begin one with [name]".into()));
    }
    for pair in jobs.windows(2) {
        if !pair[1].settings.contains_key("stonewall") {
            let text = format!(
                "job `{}` runs after `{}` here, not beside it; write stonewall to make fio do so",
                pair[1].name, pair[0].name
            );
            notes.push(reader.note(FioNoteKind::Changed, pair[1].line, text));
        }
    }
    let says_direct = |job: &Job| ["direct", "buffered"].map(|key| job.settings.contains_key(key));
    if let Some(job) = jobs.iter().find(|job| says_direct(job) == [false; 2]) {
        let text = format!(
            "job `{}` does not say `direct`, which is 0 by default in fio: requests go past the page \
             cache here; write direct=1 to make fio do so",
            job.name
        );
        notes.push(reader.note(FioNoteKind::Changed, job.line, text));
    }
    let mut patterns = Vec::new();
    for job in &jobs {
        patterns.push(reader.pattern(job, info, &mut notes)?);
    }
    notes.sort_by(|left, right| (left.line, &left.text).cmp(&(right.line, &right.text)));
    notes.dedup();
    Ok(FioJobs { patterns, notes })
}

struct Reader<'a> {
    file: &'a str,
}

impl Reader<'_> {
    fn wrong(&self, line: usize, message: String) -> ProbeError {
        ProbeError::Parse { file: self.file.into(), line, message }
    }

    fn note(&self, kind: FioNoteKind, line: usize, text: String) -> FioNote {
        FioNote { kind, file: self.file.into(), line, text }
    }

    /// Jobs with the globals that stood before them, and notes on keys.
    fn sections(&self, text: &str) -> Result<(Vec<Job>, Vec<FioNote>), ProbeError> {
        let (mut jobs, mut notes) = (Vec::<Job>::new(), Vec::new());
        let mut globals = Settings::new();
        let mut in_global = None;
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.trim();
            if content.is_empty() || content.starts_with(['#', ';']) {
                continue;
            }
            if let Some(header) = content.strip_prefix('[') {
                let name = header
                    .split_once(']')
                    .ok_or_else(|| self.wrong(line, "a section needs a closing ]".into()))?
                    .0
                    .trim();
                in_global = Some(name == "global");
                if name != "global" {
                    jobs.push(Job { name: name.into(), line, settings: globals.clone() });
                }
                continue;
            }
            let (key, value) = content.split_once('=').unwrap_or((content, "1"));
            let key = key.trim();
            // A comment may follow a value after white space.
            let value = value.split(" #").next().unwrap_or(value).split(" ;").next();
            let setting = Setting { value: value.unwrap_or("").trim().into(), line };
            if let Some(why) = refusal(key, &setting.value) {
                let value = &setting.value;
                let message =
                    format!("`{key}={value}` would be another load than can be made here: {why}");
                return Err(self.wrong(line, message));
            }
            if !KNOWN.contains(&key) {
                notes.push(self.note(FioNoteKind::Unknown, line, unknown_key(key)));
                continue;
            }
            if let Some((_, reason)) = IGNORED.iter().find(|(ignored, _)| *ignored == key) {
                let text = format!("`{key}` has no effect here: {reason}");
                notes.push(self.note(FioNoteKind::Ignored, line, text));
                continue;
            }
            match (in_global, jobs.last_mut()) {
                (Some(true), _) => globals.insert(key.into(), setting),
                (Some(false), Some(job)) => job.settings.insert(key.into(), setting),
                _ => {
                    let message = format!("`{key}` stands before any section; write [global]");
                    return Err(self.wrong(line, message));
                }
            };
        }
        Ok((jobs, notes))
    }

    fn pattern(
        &self,
        job: &Job,
        info: &DeviceInfo,
        notes: &mut Vec<FioNote>,
    ) -> Result<Pattern, ProbeError> {
        let settings = &job.settings;
        let (access, read_percent) = self.direction(settings)?;
        let request_bytes = self.request_bytes(settings, read_percent)?;
        let area = self.area(settings, info)?;
        let limit = self.limit(settings, area, request_bytes, info, notes)?;
        let mut pattern = Pattern::new(access, read_percent, request_bytes, limit);
        pattern.label = settings.get("name").map_or(&job.name, |name| &name.value).clone();
        pattern.area = area;
        pattern.queue_depth = self.queue_depth(settings, info, notes)?;
        pattern.repetitions = self.count(settings, "loops")?.unwrap_or(1).max(1);
        pattern.seed = u64::from(self.count(settings, "randseed")?.unwrap_or(0));
        pattern.distribution = self.distribution(settings, access, notes)?;
        pattern.flush_every = self.flush_every(settings, notes)?;
        if self.flag(settings, "zero_buffers") {
            pattern.data = DataKind::Zeros;
        }
        if let Some(think) = settings.get("thinktime") {
            pattern.think_ns = self.duration(think, "us")?;
        }
        self.check_alignment(settings, request_bytes)?;
        pattern.validate(info).map_err(|error| match error {
            ProbeError::Pattern { message, .. } => {
                self.wrong(job.line, format!("job `{}`: {message}", job.name))
            }
            other => other,
        })?;
        Ok(pattern)
    }

    /// Requests begin at multiples of their size: another alignment is another load.
    fn check_alignment(&self, settings: &Settings, request_bytes: u64) -> Result<(), ProbeError> {
        for key in ["blockalign", "ba"] {
            let Some(align) = settings.get(key) else { continue };
            if self.size(align)? != request_bytes {
                let text = format!(
                    "`{key}={}` would be another load than can be made here: requests begin at \
                     multiples of their size; give bs that value, or leave it out",
                    align.value
                );
                return Err(self.wrong(align.line, text));
            }
        }
        Ok(())
    }

    fn direction(&self, settings: &Settings) -> Result<(Access, u8), ProbeError> {
        let Some(setting) = settings.get("rw").or_else(|| settings.get("readwrite")) else {
            return Ok((Access::Sequential, 100));
        };
        let mix = self.read_share(settings)?;
        match setting.value.as_str() {
            "read" => Ok((Access::Sequential, 100)),
            "write" => Ok((Access::Sequential, 0)),
            "rw" | "readwrite" => Ok((Access::Sequential, mix)),
            "randread" => Ok((Access::Random, 100)),
            "randwrite" => Ok((Access::Random, 0)),
            "randrw" => Ok((Access::Random, mix)),
            other => Err(self.wrong(
                setting.line,
                format!(
                    "rw={other} cannot be done here; use read, write, rw, randread, randwrite or \
                     randrw"
                ),
            )),
        }
    }

    /// Percent of reads in a mix: 50 unless said otherwise.
    fn read_share(&self, settings: &Settings) -> Result<u8, ProbeError> {
        for (key, of_writes) in [("rwmixread", false), ("rwmixwrite", true)] {
            if let Some(setting) = settings.get(key) {
                let percent = setting.value.trim_end_matches('%').parse::<u8>().ok();
                let percent = percent.filter(|percent| *percent <= 100).ok_or_else(|| {
                    let message = format!("{key}={} is no percentage", setting.value);
                    self.wrong(setting.line, message)
                })?;
                return Ok(if of_writes { 100 - percent } else { percent });
            }
        }
        Ok(50)
    }

    /// fio takes `bs=READS,WRITES,TRIMS`, where one that is left out has the size before it; a job of
    /// both kinds has one size here.
    fn request_bytes(&self, settings: &Settings, read_percent: u8) -> Result<u64, ProbeError> {
        let Some(setting) = settings.get("bs").or_else(|| settings.get("blocksize")) else {
            return Ok(4096);
        };
        let mut sizes = Vec::new();
        for text in setting.value.split(',') {
            sizes.push(self.size(&Setting { value: text.into(), line: setting.line })?);
        }
        let read = sizes[0];
        let write = sizes.get(1).copied().unwrap_or(read);
        match read_percent {
            100 => Ok(read),
            0 => Ok(write),
            _ if read == write => Ok(read),
            _ => Err(self.wrong(
                setting.line,
                format!(
                    "bs={}: requests of a job have one size here; write a job for reads and one \
                     for writes",
                    setting.value
                ),
            )),
        }
    }

    fn area(&self, settings: &Settings, info: &DeviceInfo) -> Result<Area, ProbeError> {
        let capacity = info.geometry.capacity().0;
        let sector = u64::from(info.geometry.sector_bytes);
        let start = match settings.get("offset") {
            Some(offset) => self.size_of(offset, capacity)? / sector * sector,
            None => 0,
        };
        let length = match settings.get("size") {
            Some(size) => Some(ByteCount(self.size_of(size, capacity)? / sector * sector)),
            None => None,
        };
        Ok(Area { start: ByteCount(start), length })
    }

    /// fio stops when `size` (or `io_size`) has been moved, or at `runtime`, whichever is first;
    /// with `time_based` only at `runtime`.
    fn limit(
        &self,
        settings: &Settings,
        area: Area,
        request_bytes: u64,
        info: &DeviceInfo,
        notes: &mut Vec<FioNote>,
    ) -> Result<Limit, ProbeError> {
        let runtime = settings.get("runtime").map(|setting| self.duration(setting, "s"));
        let duration = runtime.transpose()?.filter(|duration| *duration > Nanos::ZERO);
        let time_based = settings.get("time_based").filter(|_| self.flag(settings, "time_based"));
        if let Some(setting) = time_based {
            if duration.is_some() {
                return Ok(Limit { request_count: None, duration });
            }
            let text = "`time_based` has no effect without `runtime`".to_string();
            notes.push(self.note(FioNoteKind::Ignored, setting.line, text));
        }
        let length = area.length_on(info.geometry.capacity()).0;
        let moved = match settings.get("io_size") {
            Some(setting) => self.size_of(setting, length)?,
            None => length,
        };
        let by_size = (moved / request_bytes.max(1)).max(1);
        let by_number = self.count(settings, "number_ios")?.map(u64::from);
        let request_count = Some(by_number.map_or(by_size, |count| count.clamp(1, by_size)));
        Ok(Limit { request_count, duration })
    }

    fn queue_depth(
        &self,
        settings: &Settings,
        info: &DeviceInfo,
        notes: &mut Vec<FioNote>,
    ) -> Result<u32, ProbeError> {
        let depth = self.count(settings, "iodepth")?.unwrap_or(1).max(1);
        let job_count = self.count(settings, "numjobs")?.unwrap_or(1).max(1);
        let wanted = depth.saturating_mul(job_count);
        if let Some(setting) = settings.get("numjobs").filter(|_| job_count > 1) {
            let text = format!(
                "{job_count} jobs of depth {depth} become one queue of depth {wanted}: the device \
                 sees as many requests, sequential jobs become one stream"
            );
            notes.push(self.note(FioNoteKind::Changed, setting.line, text));
        }
        if wanted > info.queue_depth_max {
            let line = settings.get("iodepth").or(settings.get("numjobs")).map_or(1, |s| s.line);
            let text = format!(
                "a queue of depth {wanted} is cut to {}, the most that {} takes",
                info.queue_depth_max, info.name
            );
            notes.push(self.note(FioNoteKind::Changed, line, text));
        }
        Ok(wanted.min(info.queue_depth_max))
    }

    fn distribution(
        &self,
        settings: &Settings,
        access: Access,
        notes: &mut Vec<FioNote>,
    ) -> Result<Option<Distribution>, ProbeError> {
        let uniform = self.flag(settings, "norandommap").then_some(Distribution::Uniform);
        let uniform = uniform.filter(|_| access == Access::Random);
        let Some(setting) = settings.get("random_distribution") else {
            return Ok(uniform);
        };
        let (kind, parameter) = setting.value.split_once(':').unwrap_or((&setting.value, ""));
        if access == Access::Sequential {
            let text = "`random_distribution` has no effect on sequential access".to_string();
            notes.push(self.note(FioNoteKind::Ignored, setting.line, text));
            return Ok(None);
        }
        match kind {
            "random" => Ok(uniform),
            "zipf" => {
                let theta = parameter.parse::<f64>().ok().filter(|theta| theta.is_finite());
                let theta = theta.filter(|theta| *theta >= 0.0).ok_or_else(|| {
                    let message = format!("zipf:{parameter} needs a skew, such as zipf:1.1");
                    self.wrong(setting.line, message)
                })?;
                Ok(Some(Distribution::Zipf { theta, clustered: false }))
            }
            _ => Err(self.wrong(
                setting.line,
                format!(
                    "random_distribution={} cannot be drawn here; use random or zipf:THETA",
                    setting.value
                ),
            )),
        }
    }

    fn flush_every(
        &self,
        settings: &Settings,
        notes: &mut Vec<FioNote>,
    ) -> Result<u32, ProbeError> {
        for key in ["fsync", "fdatasync"] {
            if let Some(every) = self.count(settings, key)?.filter(|every| *every > 0) {
                return Ok(every);
            }
        }
        let Some(setting) = settings.get("sync") else { return Ok(0) };
        if ["0", "none"].contains(&setting.value.as_str()) {
            return Ok(0);
        }
        let text = format!("sync={} becomes a flush after every write", setting.value);
        notes.push(self.note(FioNoteKind::Changed, setting.line, text));
        Ok(1)
    }

    fn flag(&self, settings: &Settings, key: &str) -> bool {
        settings.get(key).is_some_and(|setting| setting.value != "0")
    }

    fn count(&self, settings: &Settings, key: &str) -> Result<Option<u32>, ProbeError> {
        let Some(setting) = settings.get(key) else { return Ok(None) };
        setting
            .value
            .parse()
            .map(Some)
            .map_err(|_| self.wrong(setting.line, format!("{key}={} is no count", setting.value)))
    }

    fn duration(&self, setting: &Setting, default_unit: &str) -> Result<Nanos, ProbeError> {
        let bare = setting.value.chars().all(|c| c.is_ascii_digit() || c == '.');
        let unit = if bare { default_unit } else { "" };
        parse_duration(&format!("{}{unit}", setting.value))
            .map_err(|message| self.wrong(setting.line, message))
    }

    fn size(&self, setting: &Setting) -> Result<u64, ProbeError> {
        fio_size(&setting.value).map_err(|message| self.wrong(setting.line, message))
    }

    /// A size, or a percentage of `whole`.
    fn size_of(&self, setting: &Setting, whole: u64) -> Result<u64, ProbeError> {
        let Some(percent) = setting.value.strip_suffix('%') else { return self.size(setting) };
        let percent = percent.parse::<u64>().ok().filter(|percent| *percent <= 100);
        let percent = percent.ok_or_else(|| {
            self.wrong(setting.line, format!("`{}` is no percentage", setting.value))
        })?;
        // Hundredths first: the product would pass 64 bits on the largest devices.
        Ok(whole / 100 * percent + whole % 100 * percent / 100)
    }
}

fn unknown_key(key: &str) -> String {
    let hint = words::did_you_mean(key, KNOWN);
    format!("`{key}` is not known and has no effect{hint}")
}

/// fio's sizes with `kb_base=1024`: prefixes without `i` are powers of two, those with it of ten.
fn fio_size(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let split = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let (digits, unit) = lower.split_at(split);
    let number: u64 =
        digits.parse().map_err(|_| format!("`{text}` is no size; write for example 4k or 1g"))?;
    let unit = unit.trim_end_matches('b');
    let (prefix, base) = match unit.strip_suffix('i') {
        Some(prefix) => (prefix, 1000_u64),
        None => (unit, 1024),
    };
    let power = match prefix {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        other => return Err(format!("`{other}` in `{text}` is no unit; use k, m, g, t or p")),
    };
    number.checked_mul(base.pow(power)).ok_or_else(|| format!("`{text}` is past 2^64 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_device::{Device, Geometry, MemoryConfig, MemoryDevice};

    /// 64 MiB with sectors of 512 bytes and a queue of 64.
    fn parse(text: &str) -> Result<FioJobs, ProbeError> {
        let geometry = Geometry::new(512, 131_072).unwrap();
        let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
        parse_fio_job("job.fio", text, device.info())
    }

    #[test]
    fn a_job_file_becomes_patterns() {
        let jobs = parse(
            "; a comment\n[global]\nioengine=libaio\ndirect=1\nbs=8k\nruntime=30\ntime_based\n\
             size=50%\n\n[reads]\nrw=randread\niodepth=16\n\n[mix]\nstonewall\nrw=randrw\n\
             rwmixread=70 # percent\nbs=16k\nfsync=32\nrandom_distribution=zipf:1.2\n\
             [write]\nstonewall\nrw=write\ntime_based=0\nruntime=500ms\nio_size=1m\nloops=3\n\
             offset=4m\nsize=8m\nthinktime=50\nzero_buffers\n",
        )
        .unwrap();
        let [reads, mix, write] = &jobs.patterns[..] else { panic!("{jobs:?}") };
        assert_eq!(
            (reads.label.as_str(), reads.access, reads.read_percent),
            ("reads", Access::Random, 100)
        );
        assert_eq!((reads.request_bytes.0, reads.queue_depth), (8192, 16));
        assert_eq!(reads.limit, Limit::time(Nanos::from_seconds(30)));
        assert_eq!(reads.area.length, Some(ByteCount::mib(32)));
        assert_eq!((mix.read_percent, mix.request_bytes.0, mix.flush_every), (70, 16_384, 32));
        assert_eq!(mix.distribution, Some(Distribution::Zipf { theta: 1.2, clustered: false }));
        let limit = Limit { request_count: Some(128), duration: Some(Nanos::from_millis(500)) };
        assert_eq!((write.access, write.limit, write.repetitions), (Access::Sequential, limit, 3));
        let area = Area { start: ByteCount::mib(4), length: Some(ByteCount::mib(8)) };
        assert_eq!((write.area, write.think_ns), (area, Nanos::from_micros(50)));
        assert_eq!(write.data, DataKind::Zeros);
        // Only the engine has no effect; the direct flag is what happens anyway.
        let notes: Vec<String> = jobs.notes.iter().map(ToString::to_string).collect();
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].starts_with("job.fio:3: `ioengine` has no effect"), "{notes:?}");
    }

    #[test]
    fn every_key_without_effect_is_named_with_its_line() {
        let jobs = parse(
            "[a]\nrw=randwrite\niodepht=4\nfilename=/dev/sdz\nbuffered=0\nnumjobs=4\niodepth=32\n\
             invalidate=1\nsync=1\nbs=4k,8k\nfrobnicate=yes\n[b]\nrw=read\n",
        )
        .unwrap();
        let expected = [
            (FioNoteKind::Unknown, 3, "did you mean `iodepth`?"),
            (FioNoteKind::Ignored, 4, "`filename` has no effect"),
            (FioNoteKind::Changed, 6, "one queue of depth 128"),
            (FioNoteKind::Changed, 7, "cut to 64"),
            (FioNoteKind::Ignored, 8, "`invalidate` has no effect"),
            (FioNoteKind::Changed, 9, "a flush after every write"),
            (FioNoteKind::Unknown, 11, "`frobnicate` is not known"),
            (FioNoteKind::Changed, 12, "job `b` does not say `direct`"),
            (FioNoteKind::Changed, 12, "job `b` runs after `a`"),
        ];
        assert_eq!(jobs.notes.len(), expected.len(), "{:#?}", jobs.notes);
        for (note, (kind, line, text)) in jobs.notes.iter().zip(expected) {
            assert_eq!((note.kind, note.line), (kind, line), "{note}");
            assert!(note.text.contains(text), "{note} does not say `{text}`");
        }
        assert_eq!(jobs.patterns[0].queue_depth, 64);
        assert_eq!(jobs.patterns[0].flush_every, 1);
        assert_eq!(jobs.patterns[0].request_bytes.0, 8192, "the size of writes is the second");
    }

    #[test]
    fn how_fio_holds_memory_and_files_is_noted_with_what_is_done_instead() {
        for (key, does) in [
            ("mem=mmap", "memory of the program"),
            ("iomem=malloc", "memory of the program"),
            ("registerfiles", "files are registered"),
            ("fixedbufs=1", "buffers are registered"),
            ("nonvectored=0", "one piece of memory"),
        ] {
            let jobs = parse(&format!("[a]\nrw=randread\ndirect=1\n{key}\n")).unwrap();
            let [note] = &jobs.notes[..] else { panic!("{key}: {:?}", jobs.notes) };
            assert_eq!((note.kind, note.line), (FioNoteKind::Ignored, 4), "{note}");
            assert!(note.text.contains("no effect here") && note.text.contains(does), "{note}");
        }
        // What changes the load is refused beside them still.
        assert!(parse("[a]\nrw=randread\nmem=mmap\niodepth_batch=8\n").is_err());
    }

    #[test]
    fn what_would_be_another_load_is_refused_with_its_line() {
        for key in [
            "rate_iops=1000",
            "direct=0",
            "buffered=1",
            "buffered",
            "rate=1m",
            "bsrange=4k-64k",
            "bssplit=4k/50:8k/50",
            "verify=crc32c",
            "verify_fatal=1",
            "iodepth_batch=8",
            "ramp_time=10",
            "zonemode=strided",
            "percentage_random=50",
            "random_distribution=pareto:0.3",
            "bs=4k-64k",
        ] {
            let error = parse(&format!("[global]\n{key}\n[a]\nrw=randrw\n")).unwrap_err();
            let ProbeError::Parse { line, message, .. } = &error else { panic!("{error}") };
            assert_eq!(*line, 2, "{key}: {message}");
        }
        let error = parse("[a]\nrw=randread\ndirect=0\n").unwrap_err().to_string();
        assert!(error.starts_with("job.fio:3: `direct=0` would be"), "{error}");
        assert!(error.contains("direct=1"), "{error}");
        for same in ["direct=1", "direct", "buffered=0"] {
            assert!(parse(&format!("[a]\nrw=randread\n{same}\n")).is_ok(), "{same}");
        }
        let error = parse("[a]\nrw=randrw\nbs=4k,8k\n").unwrap_err();
        assert!(error.to_string().contains("one size"), "{error}");
        assert!(parse("[a]\nrw=randrw\nbs=4k,4k\n").is_ok());
        let few = parse("[a]\nrw=randread\nnumber_ios=7\n").unwrap();
        assert_eq!(few.patterns[0].limit.request_count, Some(7));
    }

    #[test]
    fn a_job_that_does_not_say_direct_gets_a_note() {
        let notes = |text: &str| {
            let notes = parse(text).unwrap().notes;
            notes.iter().filter(|note| note.text.contains("direct=1")).count()
        };
        for said in ["direct=1", "direct", "buffered=0"] {
            assert_eq!(notes(&format!("[a]\nrw=randread\n{said}\n")), 0, "{said}");
            assert_eq!(notes(&format!("[global]\n{said}\n[a]\nrw=read\n[b]\nrw=read\n")), 0);
        }
        let found = parse("[a]\nrw=read\ndirect=1\n[b]\nstonewall\nrw=read\n").unwrap().notes;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].kind, found[0].line), (FioNoteKind::Changed, 4));
        let said = found[0].to_string();
        assert!(said.starts_with("job.fio:4: job `b` does not say `direct`"), "{said}");
        assert_eq!(notes("[a]\nrw=read\n[b]\nrw=read\n"), 1, "one note for the file");
    }

    #[test]
    fn bad_job_files_are_refused_with_their_line() {
        for (text, line, expected) in [
            ("", 1, "no job"),
            ("[global]\nbs=4k\n", 1, "no job"),
            ("bs=4k\n", 1, "before any section"),
            ("[a\n", 1, "closing ]"),
            ("[a]\nbs=x\n", 2, "no size"),
            ("[a]\nbs=4q\n", 2, "no unit"),
            ("[a]\nrw=trim\n", 2, "cannot be done here"),
            ("[a]\niodepth=many\n", 2, "no count"),
            ("[a]\nrw=rw\nrwmixread=101\n", 3, "no percentage"),
            ("[a]\nruntime=5 fortnights\n", 2, "no unit"),
            ("[a]\nrw=randread\nrandom_distribution=zipf\n", 3, "needs a skew"),
            ("[a]\nbs=1000\n", 1, "sectors of 512 bytes"),
            ("[a]\nbs=128m\n", 1, "does not fit"),
            ("[a]\nsize=99999999999999t\n", 2, "past 2^64"),
        ] {
            let error = parse(text).unwrap_err();
            let ProbeError::Parse { line: found, message, .. } = &error else { panic!("{error}") };
            assert_eq!(*found, line, "{text}: {message}");
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn sizes_follow_fio() {
        for (text, bytes) in
            [("4k", 4096), ("4K", 4096), ("4kb", 4096), ("4kib", 4000), ("1g", 1 << 30), ("7", 7)]
        {
            assert_eq!(fio_size(text), Ok(bytes), "{text}");
        }
    }
}
