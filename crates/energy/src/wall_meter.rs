//! What a meter at the plug has written: a CSV file of times and watts.
//!
//! ```text
//!   time,W            a line of words may come first; # begins a remark
//!   0.0,52.1          seconds, since the run began or since 1970; watts
//!   1.0,53.4
//! ```
//!
//! 1. Energy is the area under straight lines between samples (trapezoids).
//! 2. Samples are in the order of their times, no two at one time.
//! 3. Nothing is made up: a gap in the run, a run that the samples do not cover, or a sample that is no
//!    number is an error with its line. Watts over time are told in intervals as long as samples are apart.
//! 4. What is wrong in lines that are there before the run is told before it.
//! 5. The file is read line by line; of each sample 16 bytes are kept.

use nandu_base::{Nanos, Picojoules};
use nandu_device::{EnergyReport, EnergySource, PowerCourse};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;

/// The longest file.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Samples are seconds since 1970 if the first is later than that: 2001.
const UNIX_SECONDS_MIN: f64 = 1e9;
/// A gap is so many times longer than the time between most samples.
const GAP_FACTOR: f64 = 5.0;
/// No plug gives more watts.
const WATTS_MAX: f64 = 1e7;
/// Of so many steps between samples at most the median is looked for.
const STEP_COUNT_MAX: usize = 1 << 16;
/// No line is longer.
const LINE_BYTES_MAX: u64 = 4096;
/// Some programs begin a file with this.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Samples of a wall meter.
#[derive(Clone, Debug, PartialEq)]
pub struct WallMeter {
    /// Names the file in errors.
    name: String,
    /// Seconds and watts, by time.
    samples: Vec<Sample>,
    /// The line of a sample, where it does not follow that of the one before; by the sample's number.
    lines: Vec<(usize, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    seconds: f64,
    watts: f64,
}

/// Trouble with the file of a meter, in words that name the file and the line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MeterError {
    what: String,
}

impl fmt::Display for MeterError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.what)
    }
}

impl std::error::Error for MeterError {}

impl WallMeter {
    /// What lies in `file`.
    ///
    /// # Errors
    /// If it cannot be read, or what it holds is no course of power: with the line.
    pub fn read(file: &Path) -> Result<Self, MeterError> {
        let (name, text) = open(file)?;
        Self::parse(&name, text)
    }

    /// Checks what lies in `file` before a run. The meter may be about to write it: there may be too few samples
    /// yet, and a last line without an end.
    ///
    /// # Errors
    /// If it is no file that can be read, or a line of it is no sample: with the line.
    pub fn check(file: &Path) -> Result<(), MeterError> {
        let (name, text) = open(file)?;
        Self::samples_of(&name, text, true).map(|_| ())
    }

    /// What `text` holds; `name` names it in errors.
    ///
    /// # Errors
    /// As of [`Self::read`].
    pub fn parse(name: &str, text: impl BufRead) -> Result<Self, MeterError> {
        let meter = Self::samples_of(name, text, false)?;
        if meter.samples.len() < 2 {
            let count = meter.samples.len();
            let what = format!("{name}: has {count} samples, a course of power needs two");
            return Err(MeterError { what });
        }
        Ok(meter)
    }

    /// All samples, be they none; of a file that grows without what has no end yet.
    fn samples_of(name: &str, mut text: impl BufRead, grows: bool) -> Result<Self, MeterError> {
        let mut meter = Self { name: name.into(), samples: Vec::new(), lines: Vec::new() };
        let mut may_be_head = true;
        let mut line = String::new();
        for number in 1_usize.. {
            let wrong = |what: &str| MeterError { what: format!("{name}:{number}: {what}") };
            line.clear();
            let mut limited = std::io::Read::take(&mut text, LINE_BYTES_MAX);
            let count = limited.read_line(&mut line).map_err(|error| wrong(&error.to_string()))?;
            match count as u64 {
                0 => break,
                LINE_BYTES_MAX => return Err(wrong("the line is too long")),
                _ if grows && !line.ends_with('\n') => break,
                _ => {}
            }
            let begin = if number == 1 { line.trim_start_matches(BYTE_ORDER_MARK) } else { &line };
            let sample = begin.trim();
            if sample.is_empty() || sample.starts_with('#') {
                continue;
            }
            if std::mem::take(&mut may_be_head) && is_head(sample) {
                continue;
            }
            let sample = sample_of(sample).map_err(|what| wrong(&what))?;
            meter.push(sample, number).map_err(wrong)?;
        }
        Ok(meter)
    }

    fn push(&mut self, sample: Sample, line: usize) -> Result<(), &'static str> {
        if self.samples.last().is_some_and(|last| sample.seconds <= last.seconds) {
            return Err("the time is not after that of the sample before");
        }
        if self.line_of(self.samples.len()) != line {
            self.lines.push((self.samples.len(), line));
        }
        self.samples.push(sample);
        Ok(())
    }

    /// The line of the sample of this number, if it follows those before.
    fn line_of(&self, number: usize) -> usize {
        let after = self.lines.partition_point(|&(first, _)| first <= number);
        let (first, line) = after.checked_sub(1).map_or((0, 1), |index| self.lines[index]);
        line + (number - first)
    }

    /// Seconds between most samples: the lower median, so that of two steps the longer one may be a gap.
    fn usual_step(&self) -> f64 {
        let stride = self.samples.len().div_ceil(STEP_COUNT_MAX);
        let steps = self.samples.windows(2).step_by(stride);
        let mut steps: Vec<f64> = steps.map(|pair| pair[1].seconds - pair[0].seconds).collect();
        let middle = (steps.len() - 1) / 2;
        *steps.select_nth_unstable_by(middle, f64::total_cmp).1
    }

    /// Whether the times are seconds since 1970, rather than since the run began.
    #[must_use]
    pub fn has_unix_times(&self) -> bool {
        self.samples[0].seconds >= UNIX_SECONDS_MIN
    }

    /// What was used in the `seconds` from `from` on, for `operation_count` operations.
    ///
    /// # Errors
    /// If the samples do not cover that time, saying which they cover.
    pub fn report(
        &self,
        from: f64,
        seconds: f64,
        operation_count: u64,
    ) -> Result<EnergyReport, MeterError> {
        let (first, last) = (self.samples[0], self.samples[self.samples.len() - 1]);
        let to = from + seconds;
        if from < first.seconds || to > last.seconds {
            let what = format!(
                "the meter's samples go from {} s to {} s, the run from {from} s to {to} s",
                first.seconds, last.seconds
            );
            return Err(MeterError { what });
        }
        let usual = self.usual_step();
        // From the last sample before the run to the first one after it.
        let begin = self.samples.partition_point(|sample| sample.seconds <= from) - 1;
        let begin = begin.min(self.samples.len() - 2);
        let end = self.samples.partition_point(|sample| sample.seconds < to).max(begin + 1);
        let around = &self.samples[begin..=end];
        let mut longest = usual;
        for (number, pair) in (begin + 1..).zip(around.windows(2)) {
            let step = pair[1].seconds - pair[0].seconds;
            if step > GAP_FACTOR * usual {
                let (name, line) = (&self.name, self.line_of(number));
                return Err(MeterError {
                    what: format!(
                        "{name}:{line}: a gap of {step} s in the run, where samples are {usual} s \
                         apart; nobody knows what was drawn in between"
                    ),
                });
            }
            longest = longest.max(step);
        }
        let edges = [from, to].map(|at| Sample { seconds: at, watts: self.watts_at(at) });
        let inside = &around[1..around.len() - 1];
        let points = inside.iter().filter(|sample| sample.seconds > from).chain([&edges[1]]);
        let mut joules = 0.0;
        let mut course = PowerCourse::begin_by(Nanos::ZERO, Picojoules::ZERO, nanos(longest));
        let mut before = &edges[0];
        for point in points {
            joules += (point.seconds - before.seconds) * (before.watts + point.watts) / 2.0;
            course.read(nanos(point.seconds - from), picojoules(joules));
            before = point;
        }
        let parts = BTreeMap::from([("plug".to_owned(), joules)]);
        let time = nanos(seconds);
        let mut report = EnergyReport::of_parts(EnergySource::Meter, parts, time, operation_count);
        report.watts_over_time = course.watts(time, picojoules(joules));
        Ok(report)
    }

    /// On the straight line between the samples around `seconds`.
    fn watts_at(&self, seconds: f64) -> f64 {
        let after = self.samples.partition_point(|sample| sample.seconds < seconds);
        let to = self.samples[after.clamp(1, self.samples.len() - 1)];
        let from = self.samples[after.clamp(1, self.samples.len() - 1) - 1];
        let share = (seconds - from.seconds) / (to.seconds - from.seconds);
        from.watts + share * (to.watts - from.watts)
    }
}

/// The name of `file` for errors, and what lies in it.
fn open(file: &Path) -> Result<(String, BufReader<File>), MeterError> {
    let name = file.display().to_string();
    let wrong = |error: &dyn fmt::Display| MeterError { what: format!("{name}: {error}") };
    let facts = fs::metadata(file).map_err(|error| wrong(&error))?;
    if !facts.is_file() {
        return Err(wrong(&"is no file, but a folder or a device"));
    }
    if facts.len() > FILE_BYTES_MAX {
        let bytes = facts.len();
        return Err(wrong(&format!("has {bytes} bytes, must have at most {FILE_BYTES_MAX}")));
    }
    let text = File::open(file).map_err(|error| wrong(&error))?;
    Ok((name, BufReader::new(text)))
}

/// The time and the watts of a line.
fn sample_of(line: &str) -> Result<Sample, String> {
    let mut fields = line.split(',').map(str::trim);
    let (Some(time), Some(watts), None) = (fields.next(), fields.next(), fields.next()) else {
        return Err("must be a time in seconds, a comma, and watts".into());
    };
    let number = |what: &str, text: &str| {
        let number: Result<f64, _> = text.parse();
        let number = number.ok().filter(|number| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| {
            format!("{what} is `{}`, which is no number of 0 or more", text.escape_debug())
        })
    };
    let sample = Sample { seconds: number("the time", time)?, watts: number("watts", watts)? };
    if sample.watts > WATTS_MAX {
        return Err(format!("{} W are more than any plug gives", sample.watts));
    }
    Ok(sample)
}

/// Whether a line has words where numbers would stand: no field of it is one, nor `nan`.
fn is_head(line: &str) -> bool {
    let has_digit = line.contains(|symbol: char| symbol.is_ascii_digit());
    !has_digit && line.split(',').all(|field| field.trim().parse::<f64>().is_err())
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates; not negative"
)]
fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9).round() as u64)
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates; not negative"
)]
fn picojoules(joules: f64) -> Picojoules {
    Picojoules((joules * 1e12).round() as u128)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn error_of(text: &str) -> String {
        WallMeter::parse("plug.csv", text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn energy_is_the_area_under_straight_lines() {
        // 50 W, then up to 70 W and down again: 50 + 60 + 120 / 2 J.
        let text = "time,W\n# a remark\n0,50\n1,50\n\n2,70\n3 , 50.0\n";
        let meter = WallMeter::parse("plug.csv", text.as_bytes()).unwrap();
        assert!(!meter.has_unix_times());
        let whole = meter.report(0.0, 3.0, 340).unwrap();
        assert_eq!((whole.source, whole.joules), (EnergySource::Meter, 170.0));
        assert_eq!(whole.operations_per_joule, Some(2.0));
        // Half a second on each side of the peak: the lines are at 60 W there.
        let peak = meter.report(1.5, 1.0, 0).unwrap();
        assert!((peak.joules - 65.0).abs() < 1e-9, "{}", peak.joules);
        let course = whole.watts_over_time.unwrap();
        let joules: f64 = course.watts.iter().map(|watts| watts * course.interval_seconds).sum();
        assert!((joules / 170.0 - 1.0).abs() < 0.05, "{course:?}");
    }

    #[test]
    fn an_idle_hour_at_53_watts_is_53_watt_hours() {
        let text: String =
            (0..=3600).map(|second| format!("{},53\n", 1_700_000_000 + second)).collect();
        let meter = WallMeter::parse("plug.csv", text.as_bytes()).unwrap();
        assert!(meter.has_unix_times());
        let report = meter.report(1_700_000_000.0, 3600.0, 0).unwrap();
        assert!((report.joules - 0.053 * 3.6e6).abs() < 1e-3, "{}", report.joules);
        assert_eq!(report.operations_per_joule, Some(0.0));
    }

    #[test]
    fn what_is_no_course_of_power_is_refused_with_its_line() {
        let good = "0,50\n1,51\n2,52\n";
        assert_eq!(error_of(""), "plug.csv: has 0 samples, a course of power needs two");
        assert_eq!(
            error_of("time,W\n3,50\n"),
            "plug.csv: has 1 samples, a course of power needs two"
        );
        for (line, said) in [
            ("2,60", "plug.csv:4: the time is not after"),
            ("1,60", "plug.csv:4: the time is not after"),
            ("3,warm", "plug.csv:4: watts is `warm`, which is no number"),
            ("3,NaN", "plug.csv:4: watts is `NaN`"),
            ("3,inf", "plug.csv:4: watts is `inf`"),
            ("3,-5", "plug.csv:4: watts is `-5`"),
            ("noon,5", "plug.csv:4: the time is `noon`"),
            ("3", "plug.csv:4: must be a time"),
            ("3,5,7", "plug.csv:4: must be a time"),
            ("3;5", "plug.csv:4: must be a time"),
            ("3,1e9", "plug.csv:4: 1000000000 W are more"),
        ] {
            let error = error_of(&format!("{good}{line}\n"));
            assert!(error.starts_with(said), "{line}: {error}");
        }
    }

    #[test]
    fn what_is_wrong_before_the_run_is_told_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plug.csv");
        let said = |text: &str| {
            fs::write(&path, text).unwrap();
            WallMeter::check(&path).map_err(|error| error.to_string())
        };
        for text in ["", "time,W\n", "0,50\n", "0,50\n1,51\n2,5", "0,50\n1,"] {
            assert_eq!(said(text), Ok(()), "{text}");
        }
        for (text, line) in [("0;50\n", 1), ("time,W\n0,50\n1,hot\n2,50\n", 3), ("5,5\n4,5\n", 2)] {
            let error = said(text).unwrap_err();
            assert!(error.contains(&format!("plug.csv:{line}: ")), "{error}");
        }
        let error = WallMeter::check(folder.path()).unwrap_err().to_string();
        assert!(error.contains("is no file"), "{error}");
        assert!(WallMeter::check(&folder.path().join("none.csv")).is_err());
    }

    #[test]
    fn a_gap_in_the_run_is_an_error_and_one_beside_it_is_not() {
        // Two steps: the longer one is the gap.
        let text = "time,W\n0,60\n\n1,60\n# a remark\n3600,60\n3601,60\n3602,60\n";
        let meter = WallMeter::parse("plug.csv", text.as_bytes()).unwrap();
        for (from, seconds) in [(0.5, 3600.0), (0.0, 2.0), (1.0, 1.0), (3599.0, 1.5)] {
            let error = meter.report(from, seconds, 0).unwrap_err().to_string();
            let said = "plug.csv:6: a gap of 3599 s in the run, where samples are 1 s apart";
            assert!(error.starts_with(said), "from {from}: {error}");
        }
        for (from, seconds) in [(0.0, 1.0), (0.2, 0.5), (3600.0, 2.0), (3601.5, 0.5)] {
            let joules = meter.report(from, seconds, 0).unwrap().joules;
            assert!((joules - 60.0 * seconds).abs() < 1e-9, "from {from}: {joules} J");
        }
        let two = WallMeter::parse("plug.csv", &b"0,60\n1,60\n3600,60\n"[..]).unwrap();
        assert!(two.report(0.0, 10.0, 0).unwrap_err().to_string().contains("gap of 3599 s"));
    }

    #[test]
    fn a_first_line_is_a_head_only_if_it_has_words() {
        for first in ["nan,nan", "inf,Infinity", "-inf,watts", "time,NaN"] {
            let error = error_of(&format!("{first}\n0,50\n1,50\n"));
            assert!(error.starts_with("plug.csv:1: "), "{first}: {error}");
        }
        for begin in ["\u{feff}", "\u{feff}time,W\n", "time,W\n", "# Wh\n", ""] {
            let text = format!("{begin}0,50\r\n1,50\r\n");
            let meter = WallMeter::parse("plug.csv", text.as_bytes()).unwrap();
            assert_eq!(meter.samples.len(), 2, "{begin:?}");
        }
        let endless = "9".repeat(5000);
        assert_eq!(error_of(&endless), "plug.csv:1: the line is too long");
    }

    #[test]
    fn watts_over_time_are_no_finer_than_the_samples() {
        let text: String =
            (0..=40).map(|second| format!("{second},{}\n", 50 + second % 2)).collect();
        let meter = WallMeter::parse("plug.csv", text.as_bytes()).unwrap();
        let short = meter.report(7.5, 0.028, 1).unwrap();
        let course = short.watts_over_time.unwrap();
        assert_eq!((course.interval_seconds, course.watts.len()), (1.0, 1), "{course:?}");
        let whole = meter.report(0.0, 20.0, 1).unwrap().watts_over_time.unwrap();
        assert_eq!((whole.interval_seconds, whole.watts.len()), (1.0, 20), "{whole:?}");
        let long = meter.report(0.0, 40.0, 1).unwrap().watts_over_time.unwrap();
        assert_eq!(long.interval_seconds, 2.0, "{long:?}");
        assert_eq!(size_of::<Sample>(), 16, "invariant 4");
    }

    #[test]
    fn a_run_that_the_samples_do_not_cover_has_no_figure() {
        let meter = WallMeter::parse("plug.csv", &b"10,50\n11,51\n12,52\n"[..]).unwrap();
        assert!(meter.report(10.0, 2.0, 0).is_ok());
        for (from, seconds) in [(9.0, 2.0), (11.0, 1.5), (20.0, 1.0)] {
            let error = meter.report(from, seconds, 0).unwrap_err().to_string();
            assert!(error.starts_with("the meter's samples go from 10 s to 12 s"), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = WallMeter::read(Path::new("no/such.csv")).unwrap_err().to_string();
        assert!(error.starts_with("no/such.csv: "), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plug.csv");
        fs::write(&file, "time,W\n0,50\n1,50\n").unwrap();
        assert_eq!(WallMeter::read(&file).unwrap().samples.len(), 2);
    }
}
