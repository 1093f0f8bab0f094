//! A repository of a few lines in a temporary directory, for the tests of the checks.

use super::Problem;
use super::source::SourceTree;

/// Writes `files` (path, text) to a temporary directory and answers with what `check` says, a line
/// for each problem.
pub(crate) fn problems_of(
    files: &[(&str, &str)],
    check: fn(&SourceTree) -> Vec<Problem>,
) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let tree = SourceTree::load(directory.path()).unwrap();
    check(&tree).iter().map(ToString::to_string).collect()
}
