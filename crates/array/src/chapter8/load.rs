//! Who asks: S000 section 8.5, and the two readings of its delays.
//!
//! The thesis says that the base delay of writers was 200 us and that of readers varied; its cases
//! name a write delay that varies. Flash reference 7.4 shows what each reading gives:
//!
//! 1. [`DelayReading::Literal`]: the delay that varies is the writers'; readers have 200 us.
//! 2. [`DelayReading::Calibrated`]: as literal, but readers have 775 us, which the thesis does not
//!    list: with it the stripe loses the 20 % of figure 8-3 where reads prevail. Which layout is best
//!    under which load then is as section 8.5 has it; how far flash is ahead of disks is not.
//! 3. [`DelayReading::Stated`]: the delay that varies is the readers'; writers have 200 us. It
//!    contradicts the thesis' figures.

use crate::ArrayError;
use nandu_base::Nanos;
use serde::{Deserialize, Serialize};

/// The most workers of a class.
pub(super) const WORKER_COUNT_MAX: u32 = 10_000;

/// Closed workers: each waits for its request, thinks, and issues another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Workers that read.
    pub reader_count: u32,
    /// Workers that write.
    pub writer_count: u32,
    /// Readers think for a time uniform in 3/4 to 3/2 of this.
    pub read_think_base: Nanos,
    /// Writers think for a time uniform in 3/4 to 3/2 of this.
    pub write_think_base: Nanos,
}

/// Whose delay it is that section 8.5 varies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DelayReading {
    /// The writers' delay varies; readers wait for 200 us.
    #[default]
    Literal,
    /// The writers' delay varies; readers wait for 775 us.
    Calibrated,
    /// The readers' delay varies; writers wait for 200 us.
    Stated,
}

impl DelayReading {
    /// A load of the thesis with the delay that varies.
    #[must_use]
    pub const fn load(self, reader_count: u32, writer_count: u32, delay: Nanos) -> Load {
        let (read_think_base, write_think_base) = match self {
            Self::Literal => (Nanos::from_micros(200), delay),
            Self::Calibrated => (Nanos::from_micros(775), delay),
            Self::Stated => (delay, Nanos::from_micros(200)),
        };
        Load { reader_count, writer_count, read_think_base, write_think_base }
    }

    /// The name in experiments and tables.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Literal => "literal",
            Self::Calibrated => "calibrated",
            Self::Stated => "stated",
        }
    }
}

impl Load {
    /// The case of a high write load: 5 readers, delay 200 us.
    #[must_use]
    pub const fn write_heavy(reading: DelayReading) -> Self {
        reading.load(5, 5, Nanos::from_micros(200))
    }

    /// The mixed case: 25 readers, delay 1500 us.
    #[must_use]
    pub const fn mixed(reading: DelayReading) -> Self {
        reading.load(25, 5, Nanos::from_micros(1500))
    }

    /// The case of a high read load: 50 readers, delay 3000 us.
    #[must_use]
    pub const fn read_heavy(reading: DelayReading) -> Self {
        reading.load(50, 5, Nanos::from_micros(3000))
    }

    /// Whether there are no workers.
    pub(super) const fn is_idle(&self) -> bool {
        self.reader_count == 0 && self.writer_count == 0
    }

    pub(super) fn check(&self) -> Result<(), ArrayError> {
        let refuse = |name, what: &str| Err(ArrayError::Value { name, what: what.into() });
        if self.reader_count.max(self.writer_count) > WORKER_COUNT_MAX {
            return refuse("reader_count", "and `writer_count` must be at most 10000");
        }
        if self.reader_count + self.writer_count == 0 {
            return refuse("reader_count", "and `writer_count` are 0; somebody has to ask");
        }
        let hour = Nanos::from_seconds(3600);
        if self.read_think_base > hour || self.write_think_base > hour {
            return refuse("think_base", "must be at most an hour");
        }
        Ok(())
    }
}
