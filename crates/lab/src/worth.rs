//! What the drives of an experiment did for their money, and how long they would last.
//!
//! 1. A drive that an experiment changes is not the one that has a price, and is left out.
//! 2. It is all that a step asked of a drive, preparations included.

use crate::error::LabError;
use crate::outcome::{DriveEnergy, DriveWorth, StepResult};
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

/// What drives did in all steps for their money, whose energy is `drive_energy`.
pub(crate) fn worth_of(
    results: &[StepResult],
    drive_energy: &[DriveEnergy],
) -> Result<Vec<DriveWorth>, LabError> {
    let mut uses: BTreeMap<&str, Used> = BTreeMap::new();
    for (name, used) in results.iter().flat_map(|result| &result.uses) {
        uses.entry(name).and_modify(|known| *known = known.with(used)).or_insert(*used);
    }
    let prices = Prices::embedded();
    let worth = |(name, used): (&str, Used)| {
        let profile = Profile::load(name).map_err(|error| LabError::step(name, &error))?;
        let address = profile.address();
        let told = drive_energy.iter().find(|known| known.drive == address);
        let watts = told.and_then(|known| known.energy.mean_watts);
        Ok(DriveWorth::new(name.to_owned(), Worth::of(&profile, &prices, &used), watts))
    };
    uses.into_iter().map(worth).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Nanos;
    use nandu_device::{EnergyReport, EnergySource};

    #[test]
    fn a_drive_with_a_price_has_a_figure_of_merit_with_what_it_is_made_of() {
        let used = Used { seconds: 2.0, operation_count: 100, is_written: true, worn: None };
        let result = StepResult {
            label: "step".to_owned(),
            config_hash: String::new(),
            series: Vec::new(),
            notes: Vec::new(),
            energy: None,
            drive_energy: BTreeMap::new(),
            energy_hash: String::new(),
            uses: [("toshiba-320".to_owned(), used)].into(),
        };
        let parts = [("idle".to_owned(), 10.0)].into();
        let time = Nanos::from_seconds(2);
        let energy = EnergyReport::of_parts(EnergySource::Model, parts, time, 100);
        let drive = "sim:toshiba-320".to_owned();
        let told = [DriveEnergy { drive, step_count: 1, energy }];
        let of = |told: &[DriveEnergy]| {
            let mut found = worth_of(std::slice::from_ref(&result), told).unwrap();
            found.remove(0).merit.unwrap()
        };
        // 129.99 dollars for five years, and 5 W at 30 cents a kilowatt hour.
        let merit = of(&told);
        let cents = 12_999.0 / 5.0 + 5.0 * 8.766 * 30.0;
        assert!((merit.parts.cents_per_year.unwrap() - cents).abs() < 1e-6, "{merit:?}");
        assert!((merit.figure - 50.0 * 5.0 / (cents / 100.0)).abs() < 1e-6, "{merit:?}");
        assert_eq!(of(&[]).parts.watts, None);
    }
}
