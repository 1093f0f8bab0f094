//! What of a profile's text decides what an experiment measures.
//!
//! 1. What a flash drive draws changes no time, and neither does what lines of memory stand. A section
//!    `[ssd.power]` and a key `endurance_writes` are left out of hashes, and of what is varied, with their
//!    sources, as if they were not there; unless the former has states, which have times of their own, or the
//!    experiment tells energy.

use crate::experiment::Experiment;
use nandu_drives::profile::{DriveConfig, Profile};
use std::borrow::Cow;

/// The text of `profile` that decides what `experiment` measures.
pub(crate) fn deciding_text<'a>(experiment: &Experiment, profile: &'a Profile) -> Cow<'a, str> {
    match experiment.measure.as_measurement().tells_energy() {
        true => Cow::Borrowed(&profile.text),
        false => text_of_times(profile),
    }
}

/// The text of `profile` without what changes no time.
fn text_of_times(profile: &Profile) -> Cow<'_, str> {
    match &profile.drive {
        DriveConfig::Ssd(ssd) if ssd.power.as_ref().is_some_and(|it| it.states.is_empty()) => {
            without(profile, "[ssd.power]", "\"ssd.power")
        }
        DriveConfig::Scm(scm) if scm.endurance_writes.is_some() => {
            without(profile, "endurance_writes", "\"scm.endurance_writes")
        }
        _ => Cow::Borrowed(&profile.text),
    }
}

/// The text without a section or a line that begins so, and without its sources.
fn without<'a>(profile: &'a Profile, begin: &str, sources: &str) -> Cow<'a, str> {
    let mut text = String::new();
    let mut is_inside = false;
    for line in profile.text.split_inclusive('\n') {
        if line.starts_with('[') {
            is_inside = line.trim_end() == begin;
        }
        if !is_inside && !line.starts_with(sources) && !line.starts_with(begin) {
            text += line;
        }
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_without_states_is_as_if_it_were_not_there() {
        let with_power = Profile::load("nvme-tlc-2024").unwrap();
        let text = text_of_times(&with_power);
        assert!(!text.contains("power]") && !text.contains("milliwatts"), "{text}");
        let without = Profile::parse("nvme-tlc-2024", "without", &text).unwrap();
        assert_eq!(text_of_times(&without), text);
        let DriveConfig::Ssd(mut ssd) = with_power.drive.clone() else { panic!("it is flash") };
        ssd.power = None;
        assert_eq!(without.drive, DriveConfig::Ssd(ssd), "nothing else is left out");
    }

    #[test]
    fn what_lines_stand_is_as_if_it_were_not_there() {
        let with_wear = Profile::load("pcm").unwrap();
        let text = text_of_times(&with_wear);
        assert!(with_wear.text.contains("endurance_writes"));
        assert!(!text.contains("endurance") && text.contains("queue_depth"), "{text}");
        let without = Profile::parse("pcm", "without", &text).unwrap();
        let DriveConfig::Scm(mut scm) = with_wear.drive.clone() else { panic!("it is memory") };
        scm.endurance_writes = None;
        assert_eq!(without.drive, DriveConfig::Scm(scm), "nothing else is left out");
    }

    #[test]
    fn states_have_times_and_stay() {
        for name in ["nvme-apst-2024", "wd2000jb", "hama"] {
            let profile = Profile::load(name).unwrap();
            assert_eq!(text_of_times(&profile), profile.text, "{name}");
        }
    }
}
