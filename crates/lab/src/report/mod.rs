//! Outcomes for people: Markdown for the terminal, one HTML file for the browser.

pub mod figure;
pub mod html;
pub mod markdown;

use crate::error::LabError;
use crate::outcome::Outcome;
use crate::run::{Meta, write_file};
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

/// Reads all outcomes below `directory` and writes `report.html` there; returns its path.
///
/// # Errors
/// Where there are no outcomes, or a file cannot be read or written.
pub fn write_report(directory: &Path) -> Result<PathBuf, LabError> {
    let mut folders = Vec::new();
    find_outcomes(directory, &mut folders);
    folders.sort();
    let mut runs = Vec::new();
    for folder in folders {
        let outcome: Outcome = read_json(&folder.join("outcome.json"))?;
        let meta: Meta = read_json(&folder.join("meta.json"))?;
        runs.push((outcome, meta));
    }
    if runs.is_empty() {
        return Err(LabError::NoResults { directory: directory.into() });
    }
    let path = directory.join("report.html");
    write_file(&path, &html::page(&runs))?;
    Ok(path)
}

fn find_outcomes(folder: &Path, found: &mut Vec<PathBuf>) {
    if folder.join("outcome.json").is_file() {
        found.push(folder.into());
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            find_outcomes(&entry.path(), found);
        }
    }
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
