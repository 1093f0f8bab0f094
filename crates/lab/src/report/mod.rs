//! Outcomes for people: Markdown for the terminal, one HTML file for the browser, figures as SVG.

pub mod drawing;
pub mod found;
pub mod html;
pub mod look;
pub mod markdown;
mod power;
mod shapes;
pub mod ticks;

use crate::error::LabError;
use crate::run::{make_folder, write_file};
use found::{Collection, State};
use nandu_base::units::three_digits;
use std::fs;
use std::path::{Path, PathBuf};

/// A value for a table: three digits, thousands apart, no exponent where it can be helped.
#[must_use]
pub fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        x if x < 0.01 => format!("{value:.2e}"),
        x if x < 0.1 => format!("{value:.3}"),
        x if x >= 9_999.5 => {
            let digits = format!("{value:.0}");
            let mut text = String::with_capacity(digits.len() + digits.len() / 3);
            for (position, digit) in digits.chars().enumerate() {
                if position > 0 && (digits.len() - position).is_multiple_of(3) && digit != '-' {
                    text.push('\u{202f}');
                }
                text.push(digit);
            }
            text
        }
        _ => three_digits(value),
    }
}

/// Folder of the figures beside a report.
const FIGURES: &str = "figures";

/// A report that was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Where the page lies.
    pub path: PathBuf,
    /// How many results it shows.
    pub result_count: usize,
    /// Names of results that do not belong to the experiment of their name any more, each with the reason.
    pub stale: Vec<(String, String)>,
    /// Folders that no experiment explains, each with the reason; the page leaves them out.
    pub skipped: Vec<(PathBuf, String)>,
}

/// Writes `report.html` into `directory` over all results below it, and their figures as SVG files into
/// `figures`. Nothing is run.
///
/// # Errors
/// Where there are no results, or a file cannot be read or written.
pub fn write_report(directory: &Path) -> Result<Report, LabError> {
    let Collection { results, skipped } = found::results_below(directory)?;
    if results.is_empty() {
        return Err(LabError::NoResults { directory: directory.into() });
    }
    let path = directory.join("report.html");
    write_file(&path, &html::page(&results))?;
    let folder = directory.join(FIGURES);
    let pictures = html::pictures(&results);
    if !pictures.is_empty() {
        make_folder(&folder)?;
    }
    for (name, svg) in pictures {
        write_file(&folder.join(name), &svg)?;
    }
    let stale = results.iter().filter_map(|found| match &found.state {
        State::Stale(why) => Some((found.outcome.experiment.clone(), why.clone())),
        _ => None,
    });
    Ok(Report { path, result_count: results.len(), stale: stale.collect(), skipped })
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, LabError> {
    let text = fs::read_to_string(path).map_err(|error| LabError::file("read", path, &error))?;
    serde_json::from_str(&text).map_err(|error| LabError::file("understand", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_in_the_text_of_an_experiment_is_code_and_nothing_else_is() {
        let cases = [
            ("see `--full`, <b> too", "see <code>--full</code>, &lt;b&gt; too"),
            ("`a` `b`", "<code>a</code> <code>b</code>"),
            ("a ` alone", "a ` alone"),
        ];
        for (text, expected) in cases {
            assert_eq!(html::prose(text), expected);
        }
    }

    #[test]
    fn numbers_are_readable() {
        for (value, text) in [
            (0.0, "0"),
            (0.0021, "2.10e-3"),
            (0.021, "0.021"),
            (0.321, "0.32"),
            (466.875, "467"),
            (12_345.6, "12\u{202f}346"),
            (1_234_567.0, "1\u{202f}234\u{202f}567"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
