//! Which seed finds which planted bug first: the measure of how well seeds look.

use crate::{Bug, CLIENT_COUNT_MAX, Outcome, Violation, WorldKind, run_crowd, run_seed};
use serde::Serialize;

/// A bug, and the first seed that breaks a promise with it.
#[derive(Clone, Debug, Serialize)]
pub struct PlantedBug {
    /// The bug's name, as `--plant` takes it.
    pub bug: &'static str,
    /// What the database lies on.
    pub world: WorldKind,
    /// The first seed that finds it, if one of those that were tried does.
    pub first_seed: Option<u64>,
    /// How many were tried, that one included.
    pub seed_count: u64,
    /// The promise that it breaks.
    pub what: Option<String>,
}

/// Runs the history of a seed with a bug: with one client, or with many where one could not meet it.
///
/// # Errors
/// The first promise that is broken.
pub fn run_planted(seed: u64, world: WorldKind, bug: Bug) -> Result<Outcome, Violation> {
    match bug.is_of_many() {
        true => run_crowd(seed, world, bug, CLIENT_COUNT_MAX),
        false => run_seed(seed, world, bug),
    }
}

/// Looks for a bug with so many seeds from `from` on, all of which have to exist.
#[must_use]
pub fn find_planted(bug: Bug, world: WorldKind, from: u64, seed_count_max: u64) -> PlantedBug {
    let mut seeds = (0..seed_count_max).map(|number| from + number);
    let found = seeds.find_map(|seed| run_planted(seed, world, bug).err());
    let first_seed = found.as_ref().map(|violation| violation.seed);
    PlantedBug {
        bug: bug.label(),
        world,
        first_seed,
        seed_count: first_seed.map_or(seed_count_max, |seed| seed - from + 1),
        what: found.map(|Violation { what, .. }| what),
    }
}
