//! Documents: one title, lines that fit, fences that open with a word at most, all listed, and a README
//! whose test command is the one run.
//!
//! Files under `results/` are written by programs and need not have this form.

use super::source::{SourceFile, SourceTree};
use super::{Problem, links};

const PROSE_COLUMNS_MAX: usize = 100;
/// What a user is told to run and what continuous integration runs.
const TEST_COMMAND: &str = "cargo test";

/// Exactly one `# Title` in each document, prose that fits the columns, and whole drawings.
pub(super) fn check_form(tree: &SourceTree) -> Vec<Problem> {
    tree.with_extension("md")
        .filter(|file| !file.path.starts_with("results/"))
        .flat_map(|file| {
            let mut problems = check_title(file);
            problems.extend(check_columns(file));
            problems.extend(check_fences(file));
            problems
        })
        .collect()
}

fn check_title(file: &SourceFile) -> Vec<Problem> {
    let titles: Vec<usize> = file
        .prose_lines()
        .filter(|(_, line)| line.starts_with("# "))
        .map(|(number, _)| number)
        .collect();
    match titles.as_slice() {
        [_] => Vec::new(),
        [] => vec![Problem::new(&file.path, 1, "no `# Title`", "open with one")],
        [_, extra @ ..] => extra
            .iter()
            .map(|&number| {
                Problem::new(&file.path, number, "a second `# Title`", "make it a `## Section`")
            })
            .collect(),
    }
}

/// Tables, and lines with a link, may be as long as they must.
fn check_columns(file: &SourceFile) -> Vec<Problem> {
    file.prose_lines()
        .filter(|(_, line)| !line.trim_start().starts_with('|'))
        .filter(|(_, line)| !line.contains("](") && !line.contains("://"))
        .filter(|(_, line)| line.chars().count() > PROSE_COLUMNS_MAX)
        .map(|(number, line)| {
            let what = format!("{} columns, more than {PROSE_COLUMNS_MAX}", line.chars().count());
            Problem::new(&file.path, number, what, "break the line")
        })
        .collect()
}

/// A fence opens with the language at most. What else stands there is not shown: the first line of a
/// drawing that was joined with its fence, and so of a drawing that somebody broke anew like prose.
fn check_fences(file: &SourceFile) -> Vec<Problem> {
    let mut is_open = false;
    let mut problems = Vec::new();
    for (number, line) in file.lines() {
        let line = line.trim_start();
        let Some(rest) = ["```", "~~~"].iter().find_map(|mark| line.strip_prefix(mark)) else {
            continue;
        };
        is_open = !is_open;
        let word_count = rest.split_whitespace().count();
        if word_count > usize::from(is_open) {
            let what = format!("a fence with {word_count} words behind it, which nobody is shown");
            let remedy = "put them into lines of their own, each as it was drawn";
            problems.push(Problem::new(&file.path, number, what, remedy));
        }
    }
    problems
}

/// `docs/README.md` links to every document under `docs/`.
pub(super) fn check_listed(tree: &SourceTree) -> Vec<Problem> {
    let index = "docs/README.md";
    let listed: Vec<String> =
        tree.file(index).map(links::resolved_targets).into_iter().flatten().collect();
    tree.with_extension("md")
        .filter(|file| file.path.starts_with("docs/") && file.path != index)
        .filter(|file| !listed.contains(&file.path))
        .map(|file| {
            let remedy = format!("link to it from {index}, with what it says in one line");
            Problem::new(&file.path, 1, "the document is not listed", remedy)
        })
        .collect()
}

/// README.md shows the test command, and `.ci/run` calls exactly it.
pub(super) fn check_test_command(tree: &SourceTree) -> Vec<Problem> {
    ["README.md", ".ci/run"]
        .into_iter()
        .filter(|path| !tree.file(path).is_some_and(shows_test_command))
        .map(|path| {
            let what = format!("no line is the test command `{TEST_COMMAND}`");
            Problem::new(path, 1, what, "README.md and .ci/run show the same command")
        })
        .collect()
}

fn shows_test_command(file: &SourceFile) -> bool {
    file.lines().any(|(_, line)| {
        let command = line.split_once(" #").map_or(line, |(command, _)| command);
        command.trim().trim_start_matches("$ ") == TEST_COMMAND
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::problems_of;
    use super::*;

    #[test]
    fn a_document_has_exactly_one_title() {
        let good = ("docs/a.md", "# A\n\n```sh\n# a comment, no title\n```\n");
        let none = ("docs/b.md", "## B\n");
        let two = ("docs/c.md", "# C\n\n# D\n");
        let found = problems_of(&[good, none, two], check_form);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("docs/b.md:1: no `# Title`"));
        assert!(found[1].starts_with("docs/c.md:3: a second"));
    }

    #[test]
    fn only_prose_has_to_fit_the_columns() {
        let long = "é".repeat(PROSE_COLUMNS_MAX + 1);
        let fits = "é".repeat(PROSE_COLUMNS_MAX);
        let text = format!("# A\n{fits}\n| {long} |\n[{long}](x)\n```\n{long}\n```\n{long}\n");
        let found = problems_of(&[("a.md", &text), ("results/b.md", &long)], check_form);
        assert_eq!(found, ["a.md:8: 101 columns, more than 100; break the line"]);
    }

    #[test]
    fn a_fence_that_swallowed_the_first_line_of_its_drawing_is_found() {
        let whole = ("a.md", "# A\n\n```text\ncli ─► lab\n```\n\n  ~~~\nx\n  ~~~\n");
        let joined = ("b.md", "# B\n```text cli ─► lab ─► probe\n │\n``` the end\n");
        let found = problems_of(&[whole, joined], check_form);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("b.md:2: a fence with 6 words behind it"), "{found:?}");
        assert!(found[1].starts_with("b.md:4: a fence with 2 words behind it"), "{found:?}");
    }

    #[test]
    fn an_unlisted_document_is_found() {
        let index = ("docs/README.md", "# Documents\n[a](a.md) [b](decisions/b.md#why)\n");
        let found = problems_of(
            &[index, ("docs/a.md", ""), ("docs/decisions/b.md", ""), ("docs/c.md", "")],
            check_listed,
        );
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("docs/c.md:1: the document is not listed"));
    }

    #[test]
    fn readme_and_ci_must_show_the_same_test_command() {
        let readme = ("README.md", "```sh\ncargo test   # a minute\n```\n");
        assert!(problems_of(&[readme, (".ci/run", "cargo test\n")], check_test_command).is_empty());
        let found = problems_of(&[readme, (".ci/run", "cargo test --lib\n")], check_test_command);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with(".ci/run:1:"));
    }
}
