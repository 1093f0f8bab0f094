//! Whether a kept result is still what the code finds.
//!
//! ```text
//!   <kept>/NAME/series.csv ─┐
//!   <kept>/NAME/meta.json ──┤ same seed?  ─▶ each simulated point, to the last bit ─▶ Kept
//!   fresh Outcome ──────────┤
//!   <kept>/NAME.json ───────┘ of `verify --perturb` ─▶ each shape's deciding number
//! ```
//!
//! 1. What this machine measured is not compared: a series of `local`, or a ratio with it.
//! 2. A point that only one of the two has counts as moved without bound.
//! 3. A table of `verify --perturb` is asked where there is no series. Of it the run without a change is
//!    compared; that its trials would do the same is likely then, and not shown.

use crate::error::LabError;
use crate::experiment::Experiment;
use crate::kind::bench::LOCAL;
use crate::outcome::{Outcome, Series};
use crate::perturb::{Sensitivity, ShapeKey, deciding_numbers};
use crate::points;
use crate::run::Meta;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A kept result beside a fresh one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kept {
    /// The commit that it was made by.
    pub commit: String,
    /// Its seed; results of another seed are not compared.
    pub seed: u64,
    /// Points of simulated series that were compared.
    pub compared_count: usize,
    /// Those that are different, or that only one of the two has.
    pub moved_count: usize,
    /// The one that moved most, if any did.
    pub worst: Option<MovedPoint>,
}

/// A point that is not what it was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MovedPoint {
    /// Of which series.
    pub series: String,
    /// Where on its x axis.
    pub x: f64,
    /// What is kept; none if the point is new.
    pub kept: Option<f64>,
    /// What the code finds; none if it finds no such point.
    pub fresh: Option<f64>,
}

impl MovedPoint {
    /// The larger over the smaller, less one; without bound where there is no such ratio.
    #[must_use]
    pub fn relative(&self) -> f64 {
        match (self.kept, self.fresh) {
            (Some(kept), Some(fresh)) if kept * fresh > 0.0 => {
                (kept / fresh).max(fresh / kept) - 1.0
            }
            _ => f64::INFINITY,
        }
    }
}

impl Kept {
    /// Whether the code finds the same, as far as that can be said.
    #[must_use]
    pub const fn is_current(&self) -> bool {
        self.moved_count == 0 && self.compared_count > 0
    }

    /// Counts a point that was compared.
    fn count(&mut self, point: MovedPoint) {
        self.compared_count += 1;
        if point.kept.map(f64::to_bits) == point.fresh.map(f64::to_bits) {
            return;
        }
        self.moved_count += 1;
        if self.worst.as_ref().is_none_or(|worst| worst.relative() < point.relative()) {
            self.worst = Some(point);
        }
    }

    /// What was found, in words.
    #[must_use]
    pub fn text(&self, seed: u64) -> String {
        let Self { commit, compared_count, moved_count, .. } = self;
        if self.seed != seed {
            return format!("kept result of {commit}: its seed is {}, not {seed}", self.seed);
        }
        let Some(worst) = &self.worst else {
            return match compared_count {
                0 => format!("kept result of {commit}: it has no simulated point to compare"),
                1 => format!("kept result of {commit}: the only point is the same"),
                _ => format!("kept result of {commit}: all {compared_count} points are the same"),
            };
        };
        let value = |value: Option<f64>| value.map_or("nothing".into(), |value| value.to_string());
        let by = worst.relative();
        let much = if by.is_finite() { format!(" by {:.2} %", 100.0 * by) } else { String::new() };
        format!(
            "kept result of {commit}: {moved_count} of {compared_count} points moved, most{much} {} at {}, \
             from {} to {}",
            worst.series,
            worst.x,
            value(worst.kept),
            value(worst.fresh)
        )
    }
}

/// Compares `outcome` of `experiment` with what is kept under its name in `folder`: a result, else a table of
/// `verify --perturb`; `None` if there is neither.
///
/// # Errors
/// [`LabError::File`] where the kept files cannot be read, [`LabError::Invalid`] with the line that is no
/// point.
pub fn compare(
    folder: &Path,
    experiment: &Experiment,
    outcome: &Outcome,
) -> Result<Option<Kept>, LabError> {
    let place = folder.join(&outcome.experiment);
    let series_path = place.join("series.csv");
    if !series_path.exists() {
        let table = Sensitivity::load(folder, &outcome.experiment)?;
        return Ok(table.map(|table| compare_table(table, experiment, outcome)));
    }
    let read = |path: &Path| {
        fs::read_to_string(path).map_err(|error| LabError::file("read", path, &error))
    };
    let meta_path = place.join("meta.json");
    let meta: Meta = serde_json::from_str(&read(&meta_path)?)
        .map_err(|error| LabError::file("understand", &meta_path, &error))?;
    let kept = points_of(&series_path, &read(&series_path)?)?;
    let mut result = Kept {
        commit: meta.commit,
        seed: meta.seed,
        compared_count: 0,
        moved_count: 0,
        worst: None,
    };
    if meta.seed == outcome.seed {
        set_beside(&mut result, &kept, &outcome.series);
    }
    Ok(Some(result))
}

/// Compares the deciding numbers of the first seed of `outcome` with those of `table`, shape by shape as they stand in
/// `experiment`.
fn compare_table(table: Sensitivity, experiment: &Experiment, outcome: &Outcome) -> Kept {
    let mut result = Kept {
        commit: table.commit,
        seed: table.seed,
        compared_count: 0,
        moved_count: 0,
        worst: None,
    };
    if table.seed != outcome.seed || table.unchanged.is_empty() {
        return result;
    }
    let verdicts = experiment.judge(&[&outcome.series]);
    let fresh = deciding_numbers(&verdicts);
    for (index, shape) in experiment.shape.iter().enumerate() {
        let claim = ShapeKey::of(shape).claim;
        let is_it = |key: &ShapeKey| key.claim == claim;
        let place = table.shapes.iter().position(is_it);
        let point = MovedPoint {
            series: shape.claim.words(),
            x: verdicts[index].decided.as_ref().map_or(0.0, |decided| decided.x).min(f64::MAX),
            kept: place.and_then(|place| table.unchanged.get(place).copied().flatten()),
            fresh: fresh[index],
        };
        result.count(point);
    }
    result
}

/// By series and by the bits of x, which order numbers that are not negative as they are.
type Points = BTreeMap<(String, u64), f64>;

fn set_beside(result: &mut Kept, kept: &Points, series: &[Series]) {
    let points = series
        .iter()
        .flat_map(|one| one.points.iter().map(|&(x, y)| ((one.name.clone(), x.to_bits()), y)));
    let fresh: Points = points.filter(|((name, _), _)| is_simulated(name)).collect();
    let mut places: Vec<&(String, u64)> =
        kept.keys().filter(|(name, _)| is_simulated(name)).chain(fresh.keys()).collect();
    places.sort();
    places.dedup();
    for place in places {
        let point = MovedPoint {
            series: place.0.clone(),
            x: f64::from_bits(place.1),
            kept: kept.get(place).copied(),
            fresh: fresh.get(place).copied(),
        };
        result.count(point);
    }
}

/// Whether no part of the name is the device of this machine.
fn is_simulated(name: &str) -> bool {
    name.split('.').all(|part| part != LOCAL)
}

/// The points of a file that [`points::to_csv`] wrote.
fn points_of(path: &Path, text: &str) -> Result<Points, LabError> {
    let mut points = Points::new();
    for series in points::from_csv(path, text)? {
        for (x, y) in series.points {
            points.insert((series.name.clone(), x.to_bits()), y);
        }
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{RunOptions, Unwatched, run};

    fn series(name: &str, points: &[(f64, f64)]) -> Series {
        Series { points: points.to_vec(), ..Series::new(name, "B", "s") }
    }

    fn compared(kept: &str, fresh: &[Series]) -> Kept {
        let points = points_of(Path::new("series.csv"), kept).unwrap();
        let (commit, worst) = (String::from("c"), None);
        let mut result = Kept { commit, seed: 1, compared_count: 0, moved_count: 0, worst };
        set_beside(&mut result, &points, fresh);
        result
    }

    const KEPT: &str = "series,x,x_unit,y,y_unit\na.b,1,B,0.1,s\na.b,2,B,0.2,s\nlocal.b,1,B,7,s\n";

    #[test]
    fn what_is_the_same_is_current_and_local_series_do_not_count() {
        let fresh = [series("a.b", &[(1.0, 0.1), (2.0, 0.2)]), series("x.local", &[(1.0, 3.0)])];
        let kept = compared(KEPT, &fresh);
        assert_eq!((kept.compared_count, kept.moved_count), (2, 0));
        assert!(kept.is_current());
        assert!(kept.text(1).contains("all 2 points are the same"));
    }

    #[test]
    fn the_least_difference_is_told_and_the_largest_named() {
        let kept = compared(KEPT, &[series("a.b", &[(1.0, 0.1), (2.0, 0.200_000_000_000_000_04)])]);
        assert_eq!((kept.moved_count, kept.is_current()), (1, false));
        let kept = compared(KEPT, &[series("a.b", &[(1.0, 0.11), (2.0, 0.1)])]);
        assert_eq!(kept.moved_count, 2);
        let text = kept.text(1);
        assert!(
            text.contains("2 of 2 points moved, most by 100.00 % a.b at 2, from 0.2 to 0.1"),
            "{text}"
        );
    }

    #[test]
    fn points_that_only_one_has_moved() {
        let kept = compared(KEPT, &[series("a.b", &[(1.0, 0.1), (3.0, 0.2)])]);
        assert_eq!((kept.compared_count, kept.moved_count), (3, 2));
        assert!(kept.text(1).contains("nothing"), "{}", kept.text(1));
    }

    #[test]
    fn a_result_of_another_seed_is_neither_current_nor_compared() {
        let kept = Kept { seed: 2, ..compared("head\n", &[]) };
        assert!(!kept.is_current());
        assert!(kept.text(1).ends_with("its seed is 2, not 1"));
    }

    #[test]
    fn a_table_of_sensitivity_is_compared_by_deciding_numbers() {
        let text = "title = 't'\nquestion = 'q'\nmethod = 'm'\npaper = '-'\nreference = 'r'\n[measure]\n\
                    kind = 'closed_form'\nread_us = 20\nwrite_us = 200\nerase_us = 1500\n\
                    erase_block_page_count = 64\nlive_fractions = [0.5]\n[[shape]]\nclass = 'own'\n\
                    kind = 'value_within'\nseries = 'dynamic'\nlow = 1\nhigh = 1000\n";
        let experiment = Experiment::parse("small", "small.toml", text).unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let options = RunOptions::new(scratch.path());
        let outcome = run(&experiment, &options, &mut Unwatched).unwrap();
        let mut table = Sensitivity {
            experiment: "small".into(),
            commit: "c".into(),
            seed: outcome.seed,
            config_hash: String::new(),
            shapes: experiment.shape.iter().map(ShapeKey::of).collect(),
            unchanged: vec![Some(466.875)],
            rows: Vec::new(),
        };
        let folder = scratch.path().join("tables");
        let compared = |table: &Sensitivity| {
            table.store(&folder).unwrap();
            compare(&folder, &experiment, &outcome).unwrap().unwrap()
        };
        assert!(compared(&table).is_current());
        table.unchanged = vec![Some(466.0)];
        let kept = compared(&table);
        assert!(!kept.is_current() && kept.text(outcome.seed).contains("from 466 to 466.875"));
        table.unchanged.clear();
        assert_eq!((compared(&table).compared_count, compared(&table).is_current()), (0, false));
        table.unchanged = vec![Some(466.875)];
        table.seed += 1;
        assert!(!compared(&table).is_current());
    }

    #[test]
    fn a_line_that_is_no_point_is_told_with_its_number() {
        for wrong in ["a.b,1,B,0.1", "a.b,one,B,0.1,s", "", "a,1,B,,s,", "a,1,B,2,s,3,4"] {
            let text = format!("head\na.b,1,B,0.1,s\n{wrong}\nz,1,B,1,s\n");
            let error = points_of(Path::new("series.csv"), &text).unwrap_err().to_string();
            assert!(error.starts_with("series.csv:3: "), "{wrong}: {error}");
        }
    }
}
