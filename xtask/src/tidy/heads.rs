//! Files open by saying what they are, and Rust files stay short enough to be read.

use super::Problem;
use super::source::{SourceFile, SourceTree};

const HEAD_LINES_MAX: usize = 40;
const FILE_LINES_MAX: usize = 800;

/// Line 1 is `//!`, the head is short, the file is short.
pub(super) fn check(tree: &SourceTree) -> Vec<Problem> {
    tree.with_extension("rs")
        .filter(|file| ["crates/", "compare/", "xtask/"].iter().any(|it| file.path.starts_with(it)))
        .flat_map(check_file)
        .collect()
}

/// Experiments and profiles open with a comment: the question, or the drive and its sources.
pub(super) fn check_data(tree: &SourceTree) -> Vec<Problem> {
    tree.with_extension("toml")
        .filter(|file| ["experiments/", "profiles/"].iter().any(|it| file.path.starts_with(it)))
        .filter(|file| !file.text.starts_with('#'))
        .map(|file| {
            let remedy = "say on line 1 what it asks or which drive it is, and from which source";
            Problem::new(&file.path, 1, "the file does not start with a comment", remedy)
        })
        .collect()
}

fn check_file(file: &SourceFile) -> Vec<Problem> {
    let mut problems = Vec::new();
    let head_line_count = file.text.lines().take_while(|line| line.starts_with("//!")).count();
    if head_line_count == 0 {
        problems.push(Problem::new(
            &file.path,
            1,
            "the file does not start with `//!`",
            "say on line 1 what it is and whose idea, then its numbered invariants",
        ));
    }
    if head_line_count > HEAD_LINES_MAX {
        problems.push(Problem::new(
            &file.path,
            head_line_count,
            format!("the head has {head_line_count} lines, more than {HEAD_LINES_MAX}"),
            "move detail to the items or to docs/",
        ));
    }
    let line_count = file.text.lines().count();
    if line_count > FILE_LINES_MAX {
        problems.push(Problem::new(
            &file.path,
            line_count,
            format!("the file has {line_count} lines, more than {FILE_LINES_MAX}"),
            "split it by idea; tests may move to a sibling tests.rs",
        ));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::testing::problems_of;
    use super::*;

    #[test]
    fn a_short_file_with_a_head_passes() {
        assert!(problems_of(&[("crates/x/src/lib.rs", "//! What it is.\n")], check).is_empty());
    }

    #[test]
    fn a_missing_head_is_named_with_file_and_line() {
        let found = problems_of(&[("crates/x/src/lib.rs", "\n//! Too late.\n")], check);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/x/src/lib.rs:1: the file does not start"));
    }

    #[test]
    fn experiments_and_profiles_open_with_a_comment() {
        let good = ("profiles/a.toml", "# Device A of a paper, table 1.\n");
        let bare = ("experiments/p/t.toml", "name = \"t\"\n");
        let found = problems_of(&[good, bare, ("crates/x/Cargo.toml", "[package]\n")], check_data);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("experiments/p/t.toml:1:"));
    }

    #[test]
    fn long_heads_and_long_files_are_reported_only_past_the_limit() {
        let head = "//! Line.\n".repeat(HEAD_LINES_MAX);
        let body = "\n".repeat(FILE_LINES_MAX - HEAD_LINES_MAX);
        assert!(problems_of(&[("xtask/a.rs", &format!("{head}{body}"))], check).is_empty());
        let found = problems_of(&[("xtask/a.rs", &format!("{head}//! More.\n{body}"))], check);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
