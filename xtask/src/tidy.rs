//! The rules of STYLE.md that only this program knows, one file per group of rules.
//!
//! 1. A check reads the tree and answers with problems; it changes nothing.
//! 2. A problem says where, what, and how to repair it.

mod documents;
mod floors;
mod heads;
mod links;
mod manifests;
mod remarks;
mod source;
mod supplies;
mod test_programs;
#[cfg(test)]
mod testing;
mod unsafety;
mod waits;
mod words;

use crate::compare_fio::capture;
use source::SourceTree;
use std::fmt;
use std::path::Path;
use std::process::Command;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    path: String,
    line: usize,
    what: String,
    remedy: String,
}

impl Problem {
    fn new(path: &str, line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { path: path.into(), line, what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}; {}", self.path, self.line, self.what, self.remedy)
    }
}

/// A group of rules that needs only the text of the tree.
type Check = fn(&SourceTree) -> Vec<Problem>;

const CHECKS: &[Check] = &[
    heads::check,
    heads::check_data,
    documents::check_form,
    documents::check_listed,
    documents::check_test_command,
    links::check,
    manifests::check,
    remarks::check,
    test_programs::check,
    unsafety::check,
    waits::check,
    words::check_drive_kinds,
    words::check_names,
    words::check_remarks,
    words::check_machine_paths,
    words::check_test_attributes,
];

/// Prints every problem of the repository at `root`.
///
/// # Errors
/// If there is a problem, or the tree or `cargo metadata` cannot be read.
pub(crate) fn report(root: &Path) -> Result<(), String> {
    let tree = SourceTree::load(root)?;
    let mut problems: Vec<Problem> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    problems.extend(floors::check(&tree, &cargo_metadata(root, &["--no-deps"])?)?);
    let host = format!("--filter-platform={}", host(root)?);
    // What was built is here, so nothing is asked of the network.
    let built = cargo_metadata(root, &["--offline", "--locked", &host])?;
    problems.extend(supplies::check_licences(&built)?);
    let lock = std::fs::read_to_string(root.join("Cargo.lock"));
    problems
        .extend(supplies::check_duplicates(&lock.map_err(|error| format!("Cargo.lock: {error}"))?));
    problems.sort();
    problems.dedup();
    for problem in &problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => Ok(()),
        1 => Err("tidy: 1 problem".into()),
        count => Err(format!("tidy: {count} problems")),
    }
}

/// What cargo knows about the workspace, as JSON.
fn cargo_metadata(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new("cargo");
    capture(command.current_dir(root).args(["metadata", "--format-version", "1"]).args(arguments))
}

/// The kind of machine that this is, as the compiler calls it.
fn host(root: &Path) -> Result<String, String> {
    let said = capture(Command::new("rustc").current_dir(root).arg("-vV"))?;
    let line = said.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).ok_or_else(|| format!("rustc does not say its host: {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_prints_as_place_fault_and_remedy() {
        let problem = Problem::new("docs/a.md", 7, "too long", "break the line");
        assert_eq!(problem.to_string(), "docs/a.md:7: too long; break the line");
    }
}
