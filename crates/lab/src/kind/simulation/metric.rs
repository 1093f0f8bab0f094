//! What a simulation reports: each metric is a figure of the measured writes alone.

use nandu_base::{FlashOperation, LatencySummary};
use nandu_nand::Timing;
use nandu_sim::Measurement;
use serde::{Deserialize, Serialize};

/// A figure that a simulation reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Mean response time of a write.
    MeanMs,
    /// Standard deviation of the response time.
    StddevMs,
    /// What the standard deviation would be, had the same time above a program fallen on one write
    /// for each erase block's worth of them: (mean - program) * sqrt(B - 1), flash reference 2.5.6.
    BurstStddevMs,
    /// Read and program of a page that is moved, found in mean and deviation as if erase blocks were cleaned
    /// whole, one by one, each as full of valid pages as the others: flash reference 2.5.6.
    CopyMs,
    /// A thousandth of the writes takes longer.
    P999Ms,
    /// The longest response time.
    MaxMs,
    /// Flash pages programmed for each that the host wrote.
    WriteAmplification,
    /// Time of all measured writes together.
    ElapsedS,
    /// Flash pages read, in thousands.
    ReadsThousand,
    /// Flash pages programmed, in thousands.
    ProgramsThousand,
    /// Erase blocks erased, in thousands.
    ErasesThousand,
}

impl Metric {
    /// Its part of a series name.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::MeanMs => "mean_ms",
            Self::StddevMs => "stddev_ms",
            Self::BurstStddevMs => "burst_stddev_ms",
            Self::CopyMs => "copy_ms",
            Self::P999Ms => "p999_ms",
            Self::MaxMs => "max_ms",
            Self::WriteAmplification => "write_amplification",
            Self::ElapsedS => "elapsed_s",
            Self::ReadsThousand => "reads_thousand",
            Self::ProgramsThousand => "programs_thousand",
            Self::ErasesThousand => "erases_thousand",
        }
    }

    /// Its unit; empty for a pure number.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::MeanMs
            | Self::StddevMs
            | Self::BurstStddevMs
            | Self::CopyMs
            | Self::P999Ms
            | Self::MaxMs => "ms",
            Self::WriteAmplification => "",
            Self::ElapsedS => "s",
            Self::ReadsThousand | Self::ProgramsThousand | Self::ErasesThousand => "thousand",
        }
    }

    pub(super) fn of(self, measured: &Measured) -> f64 {
        let latency = &measured.latency_ns;
        match self {
            Self::MeanMs => latency.mean / 1e6,
            Self::StddevMs => latency.stddev / 1e6,
            Self::BurstStddevMs => {
                let above = (latency.mean - measured.timing.program_ns.0 as f64) / 1e6;
                above * (f64::from(measured.erase_block_page_count) - 1.0).sqrt()
            }
            Self::CopyMs => measured.copy_ms(),
            Self::P999Ms => latency.p999 as f64 / 1e6,
            Self::MaxMs => latency.max as f64 / 1e6,
            Self::WriteAmplification => measured.programs / measured.host_pages.max(1.0),
            Self::ElapsedS => measured.elapsed_s,
            Self::ReadsThousand => measured.reads / 1e3,
            Self::ProgramsThousand => measured.programs / 1e3,
            Self::ErasesThousand => measured.erases / 1e3,
        }
    }
}

/// What metrics are made of.
pub(super) struct Measured {
    latency_ns: LatencySummary,
    timing: Timing,
    erase_block_page_count: u32,
    /// Flash pages that the host wrote, those that a cache absorbed included.
    host_pages: f64,
    reads: f64,
    programs: f64,
    erases: f64,
    elapsed_s: f64,
}

impl Measured {
    pub(super) fn new(
        measurement: &Measurement,
        (timing, erase_block_page_count): (Timing, u32),
        host_pages: u64,
    ) -> Self {
        let counters = &measurement.counters;
        Self {
            latency_ns: measurement.latency_ns.get("write").copied().unwrap_or_default(),
            timing,
            erase_block_page_count,
            host_pages: host_pages as f64,
            reads: counters.total(FlashOperation::Read) as f64,
            programs: counters.programmed_pages() as f64,
            erases: counters.total(FlashOperation::Erase) as f64,
            elapsed_s: measurement.simulated.as_seconds_f64(),
        }
    }

    /// A stall of `stall_ms` for one write in n has the mean `stall_ms / n` and the deviation
    /// `stall_ms / n * sqrt(n - 1)`; of the B pages of a victim B - n are moved.
    fn copy_ms(&self) -> f64 {
        let above_ms = (self.latency_ns.mean - self.timing.program_ns.0 as f64) / 1e6;
        let writes_per_stall = 1.0 + (self.latency_ns.stddev / 1e6 / above_ms).powi(2);
        let erase_ms = self.timing.erase_ns.0 as f64 / 1e6;
        let moved = f64::from(self.erase_block_page_count) - writes_per_stall;
        (above_ms * writes_per_stall - erase_ms) / moved
    }
}
