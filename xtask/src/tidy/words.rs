//! Words that do not belong into the repository: overloaded type names, kinds of drives where nobody should
//! ask for them, remarks that promise work, paths of one machine, attributes that hide a test.
//!
//! The files of tidy itself are exempt, since they have to spell what they look for.

use super::Problem;
use super::source::{SourceFile, SourceTree};

/// Names that mean different things in flash, databases and kernels.
const OVERLOADED_TYPE_NAMES: &[&str] = &["Page", "Block"];
/// The kind of a drive, which is a matter of the makes.
const DRIVE_KIND: &str = "DriveKind";
/// Where the makes are.
const MAKES: &str = "crates/drives/";
/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] = &["/work/", "/tmp/", "/root/"];

/// No type is called plain Page or Block.
pub(super) fn check_names(tree: &SourceTree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in rust_files(tree) {
        for (number, line) in file.lines() {
            let words = words_of(code_part(line));
            for pair in words.windows(2) {
                let declares = ["struct", "enum", "trait", "type", "union"].contains(&pair[0]);
                if declares && OVERLOADED_TYPE_NAMES.contains(&pair[1]) {
                    problems.push(Problem::new(
                        &file.path,
                        number,
                        format!("a type is called plain {}", pair[1]),
                        "say which: FlashPage, DbPage, EraseBlock, Sector (docs/glossary.md)",
                    ));
                }
            }
        }
    }
    problems
}

/// Left of the contract of a device nobody asks what kind of drive there is, tests included.
pub(super) fn check_drive_kinds(tree: &SourceTree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in rust_files(tree).filter(|file| !file.path.starts_with(MAKES)) {
        for (number, line) in file.lines() {
            if words_of(code_part(line)).contains(&DRIVE_KIND) {
                problems.push(Problem::new(
                    &file.path,
                    number,
                    format!("`{DRIVE_KIND}` outside of the makes"),
                    "ask the profile for what is wanted, as `has_arm` does; each make answers",
                ));
            }
        }
    }
    problems
}

/// Unfinished work has an issue number; commented-out debugging does not land.
pub(super) fn check_remarks(tree: &SourceTree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.files.iter().filter(|file| !file.has_extension("md") && !is_exempt(file)) {
        for (number, line) in file.lines() {
            let mut add = |what: &str, remedy: &str| {
                problems.push(Problem::new(&file.path, number, what, remedy));
            };
            if line.contains("FIXME") {
                add("FIXME", "repair it, or write `TODO(#issue): …`");
            }
            if line.match_indices("TODO").any(|(at, word)| !has_issue(&line[at + word.len()..])) {
                add("TODO without an issue", "write `TODO(#12): …`, or do it now");
            }
            if line.split_once("//").is_some_and(|(_, comment)| comment.contains("dbg!(")) {
                add("commented-out dbg!", "remove it");
            }
        }
    }
    problems
}

/// No path of one machine outside tests.
pub(super) fn check_machine_paths(tree: &SourceTree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.files.iter().filter(|file| !is_exempt(file)) {
        for (number, line) in file.lines_outside_tests() {
            for path in MACHINE_PATHS {
                if line.match_indices(path).any(|(at, _)| starts_a_path(line, at)) {
                    problems.push(Problem::new(
                        &file.path,
                        number,
                        format!("`{path}` is a path of one machine"),
                        "name a path inside the repository, or let the user choose",
                    ));
                }
            }
        }
    }
    problems
}

/// No test is hidden, and none passes by any panic at all.
pub(super) fn check_test_attributes(tree: &SourceTree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in rust_files(tree) {
        for (number, line) in file.lines() {
            let line = line.trim_start();
            let words = if line.starts_with("#[") { words_of(line) } else { Vec::new() };
            if words.contains(&"ignore") || line.starts_with("/// ```ignore") {
                problems.push(Problem::new(
                    &file.path,
                    number,
                    "an ignored test",
                    "make it fast enough to run, or remove it",
                ));
            }
            if words.contains(&"should_panic") {
                problems.push(Problem::new(
                    &file.path,
                    number,
                    "should_panic accepts any panic",
                    "return an error and assert on it, or catch the panic and compare its text",
                ));
            }
        }
    }
    problems
}

fn rust_files(tree: &SourceTree) -> impl Iterator<Item = &SourceFile> {
    tree.with_extension("rs").filter(|file| !is_exempt(file))
}

fn is_exempt(file: &SourceFile) -> bool {
    file.path.starts_with("xtask/src/tidy")
}

/// The line up to its comment.
fn code_part(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

fn words_of(line: &str) -> Vec<&str> {
    line.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty())
        .collect()
}

/// Whether what follows a TODO is `(#digits)`.
fn has_issue(rest: &str) -> bool {
    rest.strip_prefix("(#")
        .and_then(|rest| rest.split_once(')'))
        .is_some_and(|(issue, _)| !issue.is_empty() && issue.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether no longer path or address goes on to `at`.
fn starts_a_path(line: &str, at: usize) -> bool {
    line[..at]
        .chars()
        .next_back()
        .is_none_or(|before| !before.is_alphanumeric() && !"/._-~}".contains(before))
}

#[cfg(test)]
mod tests {
    use super::super::testing::problems_of;
    use super::*;

    const FILE: &str = "crates/x/src/lib.rs";

    fn lines_found(text: &str, check: fn(&SourceTree) -> Vec<Problem>) -> Vec<usize> {
        problems_of(&[(FILE, text)], check)
            .iter()
            .map(|problem| problem.split(':').nth(1).unwrap().parse().unwrap())
            .collect()
    }

    #[test]
    fn overloaded_type_names_are_found_and_precise_ones_pass() {
        let text = "pub struct Page;\nstruct FlashPage;\nenum Block {}\n// struct Page\n\
                    struct PageId;\ntype Block<T> = Vec<T>;\n";
        assert_eq!(lines_found(text, check_names), [1, 3, 6]);
    }

    #[test]
    fn kinds_of_drives_are_the_makes_own() {
        let text = "use nandu_drives::profile::{DriveKind, Profile};\n// DriveKind\n\
                    let kind = profile.kind().label();\n#[cfg(test)]\nif kind == DriveKind::Ssd {}\n";
        assert_eq!(lines_found(text, check_drive_kinds), [1, 5]);
        for inside in ["crates/drives/src/a.rs", "crates/drives/tests/a.rs"] {
            assert_eq!(problems_of(&[(inside, text)], check_drive_kinds), [""; 0]);
        }
    }

    #[test]
    fn remarks_need_an_issue() {
        let text = "// FIXME later\n// TODO(#12): more\n// TODO more\n// TODO(#): more\n\
                    // dbg!(x);\nlet fine = 1;\n";
        assert_eq!(lines_found(text, check_remarks), [1, 3, 4, 5]);
    }

    #[test]
    fn machine_paths_are_found_outside_tests_and_addresses() {
        let text = "let a = \"/tmp/x\";\nlet b = \"https://host/work/x\";\n// see /work/main\n\
                    #[cfg(test)]\nlet c = \"/tmp/x\";\n";
        assert_eq!(lines_found(text, check_machine_paths), [1, 3]);
        let found = problems_of(&[("a.md", "Look at /root/x\n")], check_machine_paths);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn hidden_tests_are_found() {
        let text = "#[ignore]\n#[ignore = \"slow\"]\n#[should_panic(expected = \"x\")]\n\
                    #[cfg_attr(windows, ignore)]\nlet ignore = 1;\n/// ```ignore\n";
        assert_eq!(lines_found(text, check_test_attributes), [1, 2, 3, 4, 6]);
    }
}
