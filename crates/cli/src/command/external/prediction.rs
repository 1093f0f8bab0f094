//! What a sort is thought to take before it runs, from a profile of its drive alone.

use crate::command::beyond::BeyondArguments;
use crate::failure::Failure;
use crate::output::read_file;
use nandu_base::Nanos;
use nandu_external::cost::Probed;
use nandu_external::{ExternalError, Store};
use nandu_probe::DeviceProfile;
use serde::Serialize;
use std::path::Path;

/// The drive as it was measured.
pub(super) struct Probe {
    probed: Probed,
}

/// What is thought.
pub(super) struct Foreseen {
    device: String,
    has_streams: bool,
    predicted_ns: u64,
}

/// What was thought beside what was.
#[derive(Serialize)]
pub(super) struct Prediction {
    /// The device of the profile.
    device: String,
    /// Of temporary files.
    predicted_ns: u64,
    /// Of the sort, on the clock of the device.
    pub(super) elapsed_ns: u64,
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
        Ok(Self { probed })
    }

    /// What temporary files will take, of so many records.
    pub(super) fn foresee(
        self,
        foresee: fn(&Store, u64, &Probed) -> Result<u64, ExternalError>,
        store: &Store,
        record_count: Option<u64>,
    ) -> Result<Foreseen, Failure> {
        let Some(record_count) = record_count else {
            return Err(Failure::input(
                "--predict has to know how long FILE is; a pipe does not say it, write it to a file",
            ));
        };
        let Self { probed } = self;
        let predicted_ns = foresee(store, record_count, &probed)?;
        let (device, has_streams) = (probed.device().to_owned(), probed.has_streams());
        Ok(Foreseen { device, has_streams, predicted_ns })
    }
}

impl Foreseen {
    /// For people, before the sort.
    pub(super) fn line(&self) -> String {
        let note = match self.has_streams {
            true => "",
            false => "; the profile has no streams side by side, which merges read",
        };
        let (device, time) = (&self.device, Nanos(self.predicted_ns));
        format!("predicted for temporary files, from the profile of {device}: {time}{note}")
    }

    /// Beside what it took.
    pub(super) fn beside(self, elapsed_ns: u64) -> Prediction {
        let Self { device, predicted_ns, .. } = self;
        Prediction { device, predicted_ns, elapsed_ns }
    }
}
