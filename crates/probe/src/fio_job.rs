//! Reads fio's job files, so that its users can bring them.
//!
//! ```text
//!   [global]  key=value ──► defaults of the jobs below it
//!   [name]    key=value ──► one Step; what does not carry over becomes a note with its line
//! ```
//!
//! Whether requests go through the page cache, the caller says: a job has to say so, too. As with fio, a
//! job finds it empty unless `invalidate=0` says otherwise, and a flush at the end counts with
//! `end_fsync=1` alone.
//!
//! Sizes follow fio's default `kb_base=1024`: `4k` and `4kb` are 4096, `4kib` is 4000. A bare
//! `runtime` counts seconds, a bare `thinktime` microseconds.
//!
//! 1. Every key of the file has an effect, or is named in a note with its line, or is refused with it: what
//!    would make the load another than the one that is measured is never passed over.

use crate::ProbeError;
use crate::fio_refused::refusal;
use crate::pattern::{Access, Area, DataKind, Limit, Pattern};
use crate::plan::{Preparation, Step};
use crate::text::parse_duration;
use nandu_base::{ByteCount, Distribution, Nanos, words};
use nandu_device::DeviceInfo;
use std::collections::BTreeMap;
use std::fmt;

/// Which way requests take to the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePath {
    /// Past the kernel's page cache.
    Past,
    /// Through it, which then decides what reaches the medium.
    Through,
}

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
    /// One step per job, in the order of the file.
    pub steps: Vec<Step>,
    /// In the order of the file.
    pub notes: Vec<FioNote>,
}

/// Keys that change the pattern.
const KNOWN: [&str; 45] = [
    "ba",
    "blockalign",
    "blocksize",
    "bs",
    "buffered",
    "direct",
    "directory",
    "end_fsync",
    "fadvise_hint",
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
const IGNORED: [(&str, &str); 13] = [
    ("directory", "the target of the command line is used"),
    ("filename", "the target of the command line is used"),
    ("fixedbufs", "buffers are registered with io_uring wherever the system lets them be"),
    ("group_reporting", "each job is reported once in any case"),
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

/// Keys about the page cache, which past it have nothing to do.
const OF_CACHE: [(&str, &str); 2] = [
    ("fadvise_hint", "direct I/O is not read ahead"),
    ("invalidate", "direct I/O leaves nothing to invalidate"),
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
/// in percent. `file` is named in errors and notes; `path` is the way that requests take.
///
/// # Errors
/// [`ProbeError::Parse`] with the line: a key outside a section, a value that is none, a kind of job
/// that cannot be done here, or no job at all.
pub fn parse_fio_job(
    file: &str,
    text: &str,
    info: &DeviceInfo,
    path: CachePath,
) -> Result<FioJobs, ProbeError> {
    let reader = Reader { file, path };
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
    if let Some(job) = jobs.iter().find(|job| says_direct(job) == [false; 2])
        && path == CachePath::Past
    {
        let text = format!(
            "job `{}` does not say `direct`, which is 0 by default in fio: requests go past the page \
             cache here; write direct=1 to make fio do so, or probe with --buffered",
            job.name
        );
        notes.push(reader.note(FioNoteKind::Changed, job.line, text));
    }
    let mut steps = Vec::new();
    for job in &jobs {
        let pattern = reader.pattern(job, info, &mut notes)?;
        steps.push(reader.step(job, pattern, &mut notes));
    }
    notes.sort_by(|left, right| (left.line, &left.text).cmp(&(right.line, &right.text)));
    notes.dedup();
    Ok(FioJobs { steps, notes })
}

struct Reader<'a> {
    file: &'a str,
    path: CachePath,
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
            if let Some(why) = refusal(key, &setting.value, self.path) {
                let value = &setting.value;
                let message =
                    format!("`{key}={value}` would be another load than can be made here: {why}");
                return Err(self.wrong(line, message));
            }
            if !KNOWN.contains(&key) {
                notes.push(self.note(FioNoteKind::Unknown, line, unknown_key(key)));
                continue;
            }
            let of_cache = OF_CACHE.iter().filter(|_| self.path == CachePath::Past);
            let mut ignored = IGNORED.iter().chain(of_cache);
            if let Some((_, reason)) = ignored.find(|(ignored, _)| *ignored == key) {
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

    /// The pattern with what comes before and after it.
    fn step(&self, job: &Job, pattern: Pattern, notes: &mut Vec<FioNote>) -> Step {
        let settings = &job.settings;
        let mut step = Step::new(pattern);
        step.counts_flush = self.flag(settings, "end_fsync");
        if self.path == CachePath::Past {
            return step;
        }
        let is_or_absent = |key: &str| !settings.contains_key(key) || self.flag(settings, key);
        if is_or_absent("invalidate") {
            step.prepare.push(Preparation::EmptyCache {});
        }
        if is_or_absent("fadvise_hint") {
            let line = settings.get("fadvise_hint").map_or(job.line, |setting| setting.line);
            let text = format!(
                "job `{}` does not say `fadvise_hint=0`: fio tells the kernel whether a job reads \
                 anywhere or in order, and nothing is told here",
                job.name
            );
            notes.push(self.note(FioNoteKind::Changed, line, text));
        }
        step
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
mod tests;
