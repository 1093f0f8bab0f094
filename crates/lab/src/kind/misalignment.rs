//! Random writes that do not start at a multiple of their size: S002 section 3.3.4, figure 3.4a.
//!
//! One step for each drive and pattern, with series by request size: `DRIVE.aligned` and
//! `DRIVE.offset_BYTES` in MB/s, and `DRIVE.offset_BYTES.ratio` over the aligned ones. Patterns other
//! than random writes stand before these: `DRIVE.random_read.aligned`. Before every point a fresh
//! drive is written full in order.

use super::Measurement;
use super::bench::{AccessPattern, Bench};
use super::drive::{DriveVariant, Drives, check_drives, on_drive, targets};
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::ByteCount;
use nandu_probe::{Limit, text};
use serde::{Deserialize, Serialize};

/// Fewest writes of a point.
const REQUEST_COUNT_MIN: u64 = 16;

/// The keys of an experiment of the kind `misalignment`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Misalignment {
    /// The drives that are measured.
    pub drives: Drives,
    /// Which requests are moved off their boundary: reads or writes, in order or not.
    #[serde(default = "random_writes")]
    pub patterns: Vec<AccessPattern>,
    /// Capacity that they are scaled to.
    #[serde(deserialize_with = "text::size")]
    pub capacity: ByteCount,
    /// Sizes of the writes.
    #[serde(deserialize_with = "text::sizes")]
    pub request_bytes: Vec<ByteCount>,
    /// By how much writes are misaligned.
    #[serde(deserialize_with = "text::sizes")]
    pub offset_bytes: Vec<ByteCount>,
    /// Writes of a point.
    pub request_count: u64,
    /// Bytes of a point, at most; at least 16 writes are made.
    #[serde(deserialize_with = "text::size")]
    pub point_bytes: ByteCount,
}

fn random_writes() -> Vec<AccessPattern> {
    vec![AccessPattern::RandomWrite]
}

struct MisalignmentStep<'a> {
    drive: (&'a str, &'a DriveVariant),
    pattern: AccessPattern,
    stem: String,
}

impl Misalignment {
    fn each_step(&self) -> Vec<MisalignmentStep<'_>> {
        let mut steps = Vec::new();
        for (name, variant) in &self.drives {
            for &pattern in &self.patterns {
                let stem = match pattern {
                    AccessPattern::RandomWrite => name.clone(),
                    _ => format!("{name}.{}", pattern.label()),
                };
                steps.push(MisalignmentStep { drive: (name, variant), pattern, stem });
            }
        }
        steps
    }

    fn series_of(&self, name: &str) -> Vec<Series> {
        let mut series = vec![Series::new(format!("{name}.aligned"), "B", "MB/s")];
        for offset in &self.offset_bytes {
            let stem = format!("{name}.offset_{}", offset.0);
            series.push(Series::new(stem.clone(), "B", "MB/s"));
            series.push(Series::new(format!("{stem}.ratio"), "B", ""));
        }
        series
    }
}

impl Measurement for Misalignment {
    fn check(&self) -> Result<(), String> {
        check_drives(&self.drives, self.capacity)?;
        let sizes = &self.request_bytes;
        if sizes.is_empty() || sizes.contains(&ByteCount::ZERO) || self.request_count == 0 {
            return Err("`request_bytes` needs sizes above 0, `request_count` writes".into());
        }
        if self.patterns.is_empty() {
            return Err("`patterns` is empty; random_write is what S002 shows".into());
        }
        let offsets = &self.offset_bytes;
        if offsets.is_empty() || offsets.contains(&ByteCount::ZERO) {
            return Err("`offset_bytes` needs at least one, each above 0".into());
        }
        Ok(())
    }

    fn targets(&self) -> Vec<String> {
        targets(&self.drives)
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        vec![self.each_step()[index].drive.1.base.clone()]
    }

    fn series_names(&self) -> Vec<String> {
        let steps = self.each_step();
        let all = steps.iter().flat_map(|step| self.series_of(&step.stem));
        all.map(|series| series.name).collect()
    }

    fn steps(&self) -> Vec<String> {
        self.each_step().into_iter().map(|step| step.stem).collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let steps = self.each_step();
        let MisalignmentStep { drive, pattern, stem } = &steps[index];
        let what = (pattern.access(), pattern.read_percent());
        let mut series = self.series_of(stem);
        for &size in &self.request_bytes {
            let affordable = (self.point_bytes.0 / size.0).max(REQUEST_COUNT_MIN);
            let limit = Limit::requests(self.request_count.min(affordable));
            let mut rate = |offset: ByteCount| {
                on_drive(bench, stem, *drive, self.capacity, |subject| {
                    subject.fill()?;
                    let mut pattern = subject.pattern(what, size.0, limit);
                    pattern.alignment_offset_bytes = offset;
                    subject.mb_per_s(&pattern)
                })
            };
            let x = size.0 as f64;
            let aligned = rate(ByteCount::ZERO)?;
            series[0].points.push((x, aligned));
            for (position, &offset) in self.offset_bytes.iter().enumerate() {
                // An offset of whole requests leaves them as aligned as without it, so there is
                // nothing to compare.
                if offset.0.is_multiple_of(size.0) {
                    continue;
                }
                let misaligned = rate(offset)?;
                series[1 + 2 * position].points.push((x, misaligned));
                series[2 + 2 * position].points.push((x, misaligned / aligned));
            }
        }
        Ok(series)
    }
}
