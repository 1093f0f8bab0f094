//! What work on records beyond memory is thought to take before it runs, from a profile of its drive
//! and, of a sort, from what the processor takes for others; and afterwards how near that was.
//!
//! ```text
//!   --predict PROFILE ─► model of the drive ─► requests by rule, counted as they come ─► a time
//!   other records, sorted before ─► processor ─────────────────────────────────────────┘  │
//!                                                                    the work ─► its time ─┴─► differs?
//! ```
//!
//! 1. Nothing is predicted from what the work did: who predicts has not run it yet.
//! 2. What is further off than a share of the time that was taken is told to differ.
//! 3. The clock of a simulated drive knows no processor.

mod processor;

use crate::Context;
use crate::command::beyond::BeyondArguments;
use crate::failure::Failure;
use crate::output::read_file;
use nandu_base::Nanos;
use nandu_external::cost::{Probed, Processor, Requests};
use nandu_external::{ExternalError, IoCounts, Store};
use nandu_probe::DeviceProfile;
use serde::Serialize;
use std::path::Path;

/// On a simulated drive.
const OF_SIMULATED: Limit = Limit(15);
/// On others, where others have their part of drive and processor.
const OF_OTHERS: Limit = Limit(30);

/// The drive as it was measured.
pub(super) struct Probe {
    probed: Probed,
    /// What records of so many bytes take it, where that was measured.
    processors: Vec<(usize, Processor)>,
    is_simulated: bool,
    pub(super) limit: Limit,
}

/// What is thought.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Foreseen {
    /// Of all that is predicted: of each phase the drive or the processor, whichever takes longer.
    predicted_ns: u64,
    /// Of temporary files alone.
    device_ns: u64,
    /// Of the processor alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    processor_ns: Option<u64>,
}

/// What the work then took.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Taken {
    /// By the work, on the clock of the device.
    elapsed_ns: u64,
    /// Of that, waiting for the device.
    wait_ns: u64,
}

/// By how many percent of the time that was taken a prediction may be off.
#[derive(Clone, Copy)]
pub(super) struct Limit(u64);

/// What was thought beside what was.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Beside {
    #[serde(flatten)]
    foreseen: Foreseen,
    #[serde(flatten)]
    taken: Taken,
    /// Whether it is further off than predictions may be.
    differs: bool,
    #[serde(skip)]
    limit: Limit,
}

/// The same, and of which drive, for JSON.
#[derive(Clone, Serialize)]
pub(super) struct Prediction {
    /// The device of the profile.
    device: String,
    #[serde(flatten)]
    beside: Beside,
}

impl Probe {
    /// Of a profile.
    pub(super) fn of(profile: &Path, beyond: &BeyondArguments) -> Result<Self, Failure> {
        if beyond.device_count() != 1 {
            return Err(Failure::input(
                "--predict knows one drive; give one --device, the one that was probed",
            ));
        }
        let place = profile.display().to_string();
        let profile = DeviceProfile::from_json(&place, &read_file(profile)?)?;
        let probed = Probed::new(&profile, beyond.in_flight())
            .map_err(|error| Failure::input(format!("{place}: {error}")))?;
        let is_simulated = beyond.is_simulated();
        let limit = if is_simulated { OF_SIMULATED } else { OF_OTHERS };
        Ok(Self { probed, processors: Vec::new(), is_simulated, limit })
    }

    /// The same beside the processor, which is measured now if it counts: by sorting other records of each
    /// of these sizes, and by a file beside the output, if there is one.
    pub(super) fn beside_processor(
        mut self,
        record_sizes: &[usize],
        output: Option<&Path>,
        context: &Context,
    ) -> Result<Self, Failure> {
        if !self.is_simulated {
            self.processors = processor::measure(record_sizes, output, context)?;
        }
        Ok(self)
    }

    /// Measures the walk in memory by which the ranking of so many elements in so many bytes ends, where
    /// the processor counts.
    pub(super) fn measure_walk(&mut self, walk: (&Store, u64, u64)) -> Result<(), Failure> {
        for (_, processor) in &mut self.processors {
            *processor = processor::with_walk(*processor, walk)?;
        }
        Ok(())
    }

    /// Measures how lists of neighbours are looked up and told, where the processor counts for records of
    /// so many bytes.
    pub(super) fn measure_lookups(
        &mut self,
        record_bytes: usize,
        context: &Context,
    ) -> Result<(), Failure> {
        for (_, processor) in self.processors.iter_mut().filter(|(bytes, _)| *bytes == record_bytes)
        {
            *processor = processor::with_lookups(*processor, context)?;
        }
        Ok(())
    }

    /// What was predicted beside what it took.
    pub(super) fn prediction(&self, foreseen: Foreseen, taken: Taken) -> Prediction {
        let device = self.device().to_owned();
        Prediction { device, beside: self.limit.beside(foreseen, taken) }
    }

    /// The name of the drive that was measured.
    pub(super) fn device(&self) -> &str {
        self.probed.device()
    }

    /// How long requests take that a rule names, beside the sorts of records of so many bytes.
    pub(super) fn foresee(
        &self,
        record_bytes: usize,
        rule: impl FnOnce(&mut dyn Requests) -> Result<(), ExternalError>,
    ) -> Result<Foreseen, Failure> {
        let mut tally = self.probed.tally();
        rule(&mut tally)?;
        let device_ns = tally.time_ns();
        let measured = self.processors.iter().find(|(bytes, _)| *bytes == record_bytes);
        let beside = measured.map(|(_, processor)| processor);
        let predicted_ns = beside.map_or(device_ns, |processor| tally.time_beside_ns(processor));
        let processor_ns = beside.map(|processor| tally.work_ns(processor));
        Ok(Foreseen { predicted_ns, device_ns, processor_ns })
    }

    /// For people, before the work: what of it is predicted.
    pub(super) fn line(&self, what: &str, foreseen: &Foreseen) -> String {
        let streams = match self.probed.has_streams() {
            true => "",
            false => "; the profile has no streams side by side, which merges read",
        };
        let queues = match self.probed.knows_queues() {
            true => "",
            false => "; it has one request at a time, and no gain by those in flight",
        };
        let (device, time) = (self.device(), Nanos(foreseen.device_ns));
        let of_device = format!("from the profile of {device}");
        match foreseen.processor_ns.map(Nanos) {
            None => format!("predicted for {what}, {of_device}: {time}{streams}{queues}"),
            Some(processor) => format!(
                "predicted: {}; by itself the processor takes {processor}, as it was just measured, and the \
                 drive {time} for {what}, {of_device}{streams}{queues}",
                Nanos(foreseen.predicted_ns)
            ),
        }
    }
}

impl Limit {
    /// What was predicted beside what it took.
    pub(super) fn beside(self, foreseen: Foreseen, taken: Taken) -> Beside {
        let off = u128::from(foreseen.predicted_ns.abs_diff(taken.elapsed_ns));
        let differs = off * 100 > u128::from(taken.elapsed_ns) * u128::from(self.0);
        Beside { foreseen, taken, differs, limit: self }
    }
}

impl Taken {
    /// From `begin` to `end`, between which the counts grew from `before`.
    pub(super) const fn between(
        (begin, before): (Nanos, &IoCounts),
        (end, counts): (Nanos, &IoCounts),
    ) -> Self {
        let wait_ns = counts.wait_ns - before.wait_ns;
        Self { elapsed_ns: end.saturating_sub(begin).0, wait_ns }
    }
}

impl Prediction {
    /// For people, after the work.
    pub(super) fn outcome(&self, what: &str) -> String {
        self.beside.outcome(what)
    }
}

impl Beside {
    /// For people, after the work.
    pub(super) fn outcome(&self, what: &str) -> String {
        let Self { foreseen, taken, differs, limit: Limit(limit) } = *self;
        let (predicted_ns, elapsed_ns) = (foreseen.predicted_ns, taken.elapsed_ns);
        let time = format!("{}, {} waiting for the drive", Nanos(elapsed_ns), Nanos(taken.wait_ns));
        let hundredths = u128::from(predicted_ns) * 100 / u128::from(elapsed_ns.max(1));
        let ratio = format!("{}.{:02}", hundredths / 100, hundredths % 100);
        match differs {
            true => format!("{what} took {time}: the prediction differs, {ratio} of that"),
            false => {
                format!("{what} took {time}: the prediction is {ratio} of that, within {limit} %")
            }
        }
    }
}

/// How many records a file has that says how long it is.
pub(super) fn known_count(count: Option<u64>) -> Result<u64, Failure> {
    count.ok_or_else(|| {
        Failure::input(
            "--predict has to know how long FILE is; a pipe does not say it, write it to a file",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(predicted_ns: u64, elapsed_ns: u64) -> Beside {
        let foreseen = Foreseen { predicted_ns, device_ns: 7, processor_ns: None };
        Limit(15).beside(foreseen, Taken { elapsed_ns, wait_ns: 500 })
    }

    #[test]
    fn what_is_further_off_than_the_limit_differs() {
        for (predicted, differs) in [(850, false), (849, true), (1150, false), (1151, true)] {
            let beside = beside(predicted, 1000);
            assert_eq!(beside.differs, differs, "{predicted}");
            let said = beside.outcome("sorting");
            assert_eq!(said.contains("differs"), differs, "{said}");
            assert!(
                said.starts_with("sorting took 1.00 us, 500 ns waiting for the drive"),
                "{said}"
            );
        }
        assert!(!beside(0, 0).differs);
        assert!(beside(1, 0).differs);
    }
}
