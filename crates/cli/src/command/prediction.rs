//! What work on records beyond memory is thought to take before it runs, from a profile of its drive
//! alone; and afterwards how near that was.
//!
//! ```text
//!   --predict PROFILE ─► model of the drive ─► requests by rule, counted as they come ─► a time
//!                                                                    the work ─► its time ─┴─► differs?
//! ```
//!
//! 1. Nothing is predicted from what the work did: who predicts has not run it yet.
//! 2. What is further off than a share of the time that was taken is told to differ.

use crate::command::beyond::BeyondArguments;
use crate::failure::Failure;
use crate::output::read_file;
use nandu_base::Nanos;
use nandu_external::ExternalError;
use nandu_external::cost::{Probed, Requests};
use nandu_probe::DeviceProfile;
use serde::Serialize;
use std::path::Path;

/// On a simulated drive.
const OF_SIMULATED: Limit = Limit(15);
/// On others, where the processor takes its part of the time, too.
const OF_OTHERS: Limit = Limit(30);

/// The drive as it was measured.
pub(super) struct Probe {
    probed: Probed,
    pub(super) limit: Limit,
}

/// By how many percent of the time that was taken a prediction may be off.
#[derive(Clone, Copy)]
pub(super) struct Limit(u64);

/// What was thought beside what was.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Beside {
    /// Of temporary files.
    predicted_ns: u64,
    /// Of the work, on the clock of the device.
    elapsed_ns: u64,
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
        let limit = if beyond.is_simulated() { OF_SIMULATED } else { OF_OTHERS };
        Ok(Self { probed, limit })
    }

    /// What was predicted beside what it took.
    pub(super) fn prediction(&self, predicted_ns: u64, elapsed_ns: u64) -> Prediction {
        let device = self.device().to_owned();
        Prediction { device, beside: self.limit.beside(predicted_ns, elapsed_ns) }
    }

    /// The name of the drive that was measured.
    pub(super) fn device(&self) -> &str {
        self.probed.device()
    }

    /// How long requests take that a rule names.
    pub(super) fn foresee(
        &self,
        rule: impl FnOnce(&mut dyn Requests) -> Result<(), ExternalError>,
    ) -> Result<u64, Failure> {
        let mut tally = self.probed.tally();
        rule(&mut tally)?;
        Ok(tally.time_ns())
    }

    /// For people, before the work: what of it is predicted.
    pub(super) fn line(&self, what: &str, predicted_ns: u64) -> String {
        let streams = match self.probed.has_streams() {
            true => "",
            false => "; the profile has no streams side by side, which merges read",
        };
        let queues = match self.probed.knows_queues() {
            true => "",
            false => "; it has one request at a time, and no gain by those in flight",
        };
        let (device, time) = (self.device(), Nanos(predicted_ns));
        format!("predicted for {what}, from the profile of {device}: {time}{streams}{queues}")
    }
}

impl Limit {
    /// What was predicted beside what it took.
    pub(super) fn beside(self, predicted_ns: u64, elapsed_ns: u64) -> Beside {
        let off = u128::from(predicted_ns.abs_diff(elapsed_ns));
        let differs = off * 100 > u128::from(elapsed_ns) * u128::from(self.0);
        Beside { predicted_ns, elapsed_ns, differs, limit: self }
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
        let Self { predicted_ns, elapsed_ns, differs, limit: Limit(limit) } = *self;
        let time = Nanos(elapsed_ns);
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

    #[test]
    fn what_is_further_off_than_the_limit_differs() {
        for (predicted, differs) in [(850, false), (849, true), (1150, false), (1151, true)] {
            let beside = Limit(15).beside(predicted, 1000);
            assert_eq!(beside.differs, differs, "{predicted}");
            let said = beside.outcome("sorting");
            assert_eq!(said.contains("differs"), differs, "{said}");
            assert!(said.starts_with("sorting took 1.00 us"), "{said}");
        }
        assert!(!Limit(15).beside(0, 0).differs);
        assert!(Limit(15).beside(1, 0).differs);
    }
}
