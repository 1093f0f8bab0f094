//! What a device has done so far. All counters only grow.

use crate::EnergyParts;
use nandu_base::{FlashCounters, Nanos, WearSummary};

/// Requests and bytes of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCounters {
    /// Completed without error.
    pub request_count: u64,
    /// Bytes they moved.
    pub byte_count: u64,
    /// Completed with an error.
    pub error_count: u64,
}

/// What happened to the flash inside a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashUse {
    /// Chip commands by operation and cause.
    pub commands: FlashCounters,
    /// How often the erase blocks were erased, summed up.
    pub wear: WearSummary,
}

impl FlashUse {
    /// This and `other`, of the flash of another device, as one.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self { commands: self.commands.with(&other.commands), wear: self.wear.with(&other.wear) }
    }
}

/// What happened to the lines of a memory that wears out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineUse {
    /// Bytes of a line, the unit in which the memory is written and wears out.
    pub line_bytes: u32,
    /// How often lines were written, summed up.
    pub write_count: u64,
    /// How often the line was that was written most.
    pub most_written_count: u64,
}

impl LineUse {
    /// This and `other`, of the lines of another device, as one; bytes of a line are those of this one.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self {
            line_bytes: self.line_bytes,
            write_count: self.write_count + other.write_count,
            most_written_count: self.most_written_count.max(other.most_written_count),
        }
    }
}

/// What a device has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads: requests, bytes and errors.
    pub reads: OperationCounters,
    /// Writes: requests, bytes and errors.
    pub writes: OperationCounters,
    /// Trims: requests, bytes and errors.
    pub trims: OperationCounters,
    /// Flushes: requests and errors.
    pub flushes: OperationCounters,
    /// How long the device worked; the sum over parts that work in parallel.
    pub busy: Nanos,
    /// Energy used until now by part and state, where the device models it.
    pub energy: Option<EnergyParts>,
    /// Flash commands and wear, where there is flash to be seen.
    pub flash: Option<FlashUse>,
    /// Lines and their wear, where there are some.
    pub lines: Option<LineUse>,
}

impl Counters {
    /// The counters of one operation.
    pub const fn of_mut(&mut self, operation: crate::Operation) -> &mut OperationCounters {
        match operation {
            crate::Operation::Read => &mut self.reads,
            crate::Operation::Write => &mut self.writes,
            crate::Operation::Trim => &mut self.trims,
            crate::Operation::Flush => &mut self.flushes,
        }
    }

    /// Requests of all kinds that completed without error.
    #[must_use]
    pub const fn request_count(&self) -> u64 {
        self.reads.request_count
            + self.writes.request_count
            + self.trims.request_count
            + self.flushes.request_count
    }

    /// Counts the end of a request.
    pub fn count(&mut self, operation: crate::Operation, byte_count: u64, succeeded: bool) {
        let counters = self.of_mut(operation);
        if succeeded {
            counters.request_count += 1;
            counters.byte_count += byte_count;
        } else {
            counters.error_count += 1;
        }
    }
}
