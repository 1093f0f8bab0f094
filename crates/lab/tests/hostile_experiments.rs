//! Mutated experiments: an experiment or an error with its line, no panic, no walk without end. The fuzz target
//! throws any text at the same parser (docs/fuzzing.md).

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "../../storage/tests/hostile/mod.rs"]
mod hostile;

use hostile::{measured, mutate_text};
use nandu_base::Rng;
use nandu_lab::{Experiment, list, load};

/// Mutants of each experiment.
const MUTANT_COUNT: u64 = 12;
/// Memory that an experiment may take to be read.
const MEMORY_BYTES_MAX: usize = 256 << 20;

#[test]
fn mutated_experiments_are_experiments_or_an_error() {
    let (mut good_count, mut error_count) = (0, 0);
    for entry in list() {
        let text = load(&entry.name).unwrap().text;
        let file = format!("{}.toml", entry.name);
        let mut rng = Rng::for_part(MUTANT_COUNT, &entry.name);
        for round in 0..MUTANT_COUNT {
            let mut mutated = text.clone();
            for _ in 0..=rng.below(3) {
                mutate_text(&mut mutated, &mut rng);
            }
            let (parsed, most) = measured(|| Experiment::parse(&entry.name, &file, &mutated));
            assert!(most <= MEMORY_BYTES_MAX, "{}, round {round}: {most} bytes", entry.name);
            match parsed {
                Ok(_) => good_count += 1,
                Err(_) => error_count += 1,
            }
        }
    }
    assert!(
        good_count > 100 && error_count > 100,
        "{good_count} experiments, {error_count} errors"
    );
}
