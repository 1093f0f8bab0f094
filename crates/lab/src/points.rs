//! All points of an outcome as `series.csv`: what was measured, and beside it what papers print.
//!
//! ```text
//!   series,x,x_unit,y,y_unit,published
//!   device-a.random_read,4096,B,24.1,MB/s,23.9      a point of ours that a paper prints as well
//!   device-a.random_read,8192,B,38.2,MB/s,          one of ours alone
//!   device-a.random_write,4096,,,MB/s,0.4           one of a paper's that was not measured
//! ```
//!
//! 1. Each published point stands in the file once, in the row of ours at its place if there is one.
//! 2. Numbers are read back to the same bits.
//! 3. Files of earlier versions, which end before `published`, are read as well.

use crate::claim::is_near;
use crate::error::LabError;
use crate::experiment::Published;
use crate::outcome::{Outcome, Series};
use std::path::Path;

const HEAD: &str = "series,x,x_unit,y,y_unit,published\n";

/// The file of `outcome`.
#[must_use]
pub fn to_csv(outcome: &Outcome) -> String {
    let mut text = String::from(HEAD);
    // A series may be published by several papers.
    let mut left: Vec<(&Published, f64, f64)> = Vec::new();
    for published in &outcome.published {
        left.extend(published.points.iter().map(|(x, value)| (published, x.0, *value)));
    }
    for Series { name, x_unit, y_unit, points } in &outcome.series {
        for (x, y) in points {
            let at_place = |(published, place, _): &(&Published, f64, f64)| {
                published.series == *name && is_near(*place, *x)
            };
            let beside = left.iter().position(at_place).map(|index| left.remove(index).2);
            let beside = beside.map_or(String::new(), |value| value.to_string());
            text.push_str(&format!("{name},{x},{x_unit},{y},{y_unit},{beside}\n"));
        }
    }
    for (Published { series, unit, .. }, x, value) in left {
        text.push_str(&format!("{series},{x},,,{unit},{value}\n"));
    }
    text
}

/// The measured series of the file `path` that holds `text`.
///
/// # Errors
/// [`LabError::Invalid`] with the line that is no point.
pub fn from_csv(path: &Path, text: &str) -> Result<Vec<Series>, LabError> {
    let mut all: Vec<Series> = Vec::new();
    for (index, line) in text.lines().enumerate().skip(1) {
        let wrong = || LabError::Invalid {
            file: path.display().to_string(),
            line: index + 1,
            message: "no point of a series: name, x, unit, y, unit, published value".into(),
        };
        let fields: Vec<&str> = line.split(',').collect();
        let number = |field: &str| field.parse::<f64>().map_err(|_| wrong());
        let (name, x, x_unit, y, y_unit, published) = match fields.as_slice() {
            [name, x, x_unit, y, y_unit] => (*name, *x, *x_unit, *y, *y_unit, ""),
            [name, x, x_unit, y, y_unit, published] => {
                (*name, *x, *x_unit, *y, *y_unit, *published)
            }
            _ => return Err(wrong()),
        };
        let x = number(x)?;
        if !published.is_empty() {
            number(published)?;
            if y.is_empty() {
                continue;
            }
        }
        let point = (x, number(y)?);
        match all.last_mut().filter(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => {
                all.push(Series { points: vec![point], ..Series::new(name, x_unit, y_unit) });
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;

    const TEXT: &str = "title = 't'\nquestion = 'q'\nmethod = 'm'\npaper = 'S000'\nreference = 'r'\n\
         [measure]\nkind = 'closed_form'\nread_us = 20\nwrite_us = 200\nerase_us = 1500\n\
         erase_block_page_count = 64\nlive_fractions = [0.0, 0.5]\n\
         [[published]]\nseries = 'dynamic'\nsource = '[S] S000 section 1: a, b'\nunit = 'us'\n\
         points = [[0.5, 466.0], [0.9, 2000.0]]\n\
         [[shape]]\nclass = 'prediction'\nkind = 'ratio_to_published'\nseries = 'dynamic'\n";

    #[test]
    fn published_points_stand_beside_ours_and_ours_are_read_back_to_the_bit() {
        let experiment = Experiment::parse("small", "small.toml", TEXT).unwrap();
        let points = vec![(0.0, 223.437_5), (0.5, 0.1 + 0.2)];
        let ours = Series { points, ..Series::new("dynamic", "", "us") };
        let outcome = experiment.conclude(1, String::new(), vec![ours.clone()], Vec::new());
        let csv = to_csv(&outcome);
        assert_eq!(
            csv,
            "series,x,x_unit,y,y_unit,published\ndynamic,0,,223.4375,us,\n\
             dynamic,0.5,,0.30000000000000004,us,466\ndynamic,0.9,,,us,2000\n"
        );
        assert_eq!(from_csv(Path::new("series.csv"), &csv).unwrap(), [ours]);
    }

    #[test]
    fn files_without_published_values_are_read() {
        let read = from_csv(Path::new("a"), "series,x,x_unit,y,y_unit\na.b,1,B,2,s\na.b,2,B,4,s\n");
        let expected =
            Series { points: vec![(1.0, 2.0), (2.0, 4.0)], ..Series::new("a.b", "B", "s") };
        assert_eq!(read.unwrap(), [expected]);
    }
}
