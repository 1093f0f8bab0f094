//! What the drives of an experiment did for their money, and how long they would last.
//!
//! 1. A drive that an experiment changes is not the one that has a price, and is left out.
//! 2. It is all that a step asked of a drive, preparations included.

use crate::error::LabError;
use crate::outcome::{DriveWorth, StepResult};
use crate::run::profiles_behind;
use nandu_device::PowerLog;
use nandu_drives::price::Prices;
use nandu_drives::profile::Profile;
use nandu_drives::worth::{Used, Worth};
use std::collections::BTreeMap;

/// What drives did that are as their profiles have them, of those behind `targets`.
pub(crate) fn uses_of(
    power: &PowerLog,
    targets: &[String],
) -> Result<BTreeMap<String, Used>, LabError> {
    let mut profiles = Vec::new();
    for target in targets {
        profiles.extend(profiles_behind(target)?.into_iter().next());
    }
    let uses = power.uses();
    let used = |profile: Profile| {
        let found = uses.get(&profile.address())?;
        let (before, after) = found.readings();
        let used = Used::between(&profile, (&before, &after), found.time, found.request_count);
        Some((profile.name, used))
    };
    Ok(profiles.into_iter().filter_map(used).collect())
}

/// What drives did in all steps for their money.
pub(crate) fn worth_of(results: &[StepResult]) -> Result<Vec<DriveWorth>, LabError> {
    let mut uses: BTreeMap<&str, Used> = BTreeMap::new();
    for (name, used) in results.iter().flat_map(|result| &result.uses) {
        uses.entry(name).and_modify(|known| *known = known.with(used)).or_insert(*used);
    }
    let prices = Prices::embedded();
    let worth = |(name, used): (&str, Used)| {
        let profile = Profile::load(name).map_err(|error| LabError::step(name, &error))?;
        Ok(DriveWorth { drive: name.to_owned(), worth: Worth::of(&profile, &prices, &used) })
    };
    uses.into_iter().map(worth).collect()
}
