//! `unsafe` stands in the files that ARCHITECTURE.md lists, and these have some.
//!
//! Read line by line, without comments and what stands in quotes, which suffices for code that
//! rustfmt wrote.

use super::Problem;
use super::source::{SourceFile, SourceTree};

const LIST: &str = "ARCHITECTURE.md";
/// What the list begins behind.
const HEAD: &str = "**Unsafe.**";
const REMEDY: &str = "do without, or list the file in ARCHITECTURE.md, with what it is for";
/// The word itself, and the lint that has to be allowed for it.
const WORDS: [&str; 2] = ["unsafe", "unsafe_code"];

/// Compares the list with the tree.
pub(super) fn check(tree: &SourceTree) -> Vec<Problem> {
    let listed: Vec<(usize, &str)> = tree.file(LIST).map(listed_in).unwrap_or_default();
    let mut problems = Vec::new();
    for file in tree.with_extension("rs") {
        let place = listed.iter().find(|(_, path)| *path == file.path);
        match (line_of_first(file), place) {
            (Some(line), None) => {
                problems.push(Problem::new(&file.path, line, "unlisted `unsafe`", REMEDY));
            }
            (None, Some((line, path))) => {
                problems.push(Problem::new(
                    LIST,
                    *line,
                    format!("`{path}` has no `unsafe`"),
                    "remove it from the list",
                ));
            }
            _ => {}
        }
    }
    for (line, path) in listed.into_iter().filter(|(_, path)| tree.file(path).is_none()) {
        problems.push(Problem::new(LIST, line, format!("there is no `{path}`"), "mend its path"));
    }
    problems
}

/// The paths in the first column of the table behind [`HEAD`], with their lines.
fn listed_in(file: &SourceFile) -> Vec<(usize, &str)> {
    let behind = file.prose_lines().skip_while(|(_, line)| !line.starts_with(HEAD));
    let table = behind
        .skip_while(|(_, line)| !line.starts_with('|'))
        .take_while(|(_, line)| line.starts_with('|'));
    table.filter_map(|(number, line)| Some((number, line.split('`').nth(1)?))).collect()
}

fn line_of_first(file: &SourceFile) -> Option<usize> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let has = |line: &str| code_of(line).split(|c| !is_letter(c)).any(|word| WORDS.contains(&word));
    file.lines().find(|(_, line)| has(line)).map(|(number, _)| number)
}

/// A line without its comment, and without what it has in quotes.
fn code_of(line: &str) -> String {
    let line = line.replace("'\"'", "").replace("\\\"", "");
    let mut code: String = line.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    if let Some(comment) = code.find("//") {
        code.truncate(comment);
    }
    code
}

#[cfg(test)]
mod tests {
    use super::super::testing::problems_of;
    use super::check;

    const LISTED: &str = "# A\n\n**Unsafe.** There:\n\n| file | for |\n| --- | --- |\n\
                          | `crates/x/src/a.rs` | speed |\n\nNo `crates/x/src/b.rs`.\n";

    fn found(list: &str, a: &str, b: &str) -> Vec<String> {
        let files = [("ARCHITECTURE.md", list), ("crates/x/src/a.rs", a), ("crates/x/src/b.rs", b)];
        problems_of(&files, check)
    }

    #[test]
    fn the_list_is_that_of_the_tree() {
        let used = "fn a() {\n    unsafe { b() }\n}\n";
        assert_eq!(found(LISTED, used, "fn b() {}\n"), [""; 0]);
        let unlisted = found(LISTED, used, "// why\nunsafe impl Sync for B {}\n");
        assert_eq!(unlisted.len(), 1, "{unlisted:?}");
        assert!(unlisted[0].starts_with("crates/x/src/b.rs:2: unlisted"), "{unlisted:?}");
        let idle = found(LISTED, "fn a() {}\n", "");
        assert_eq!(
            idle,
            ["ARCHITECTURE.md:7: `crates/x/src/a.rs` has no `unsafe`; remove it from the list"]
        );
        assert_eq!(found("# A\n", used, "").len(), 1, "without a list nothing is listed");
        let gone = found(&LISTED.replace("src/a", "src/c"), "", "");
        assert_eq!(gone, ["ARCHITECTURE.md:7: there is no `crates/x/src/c.rs`; mend its path"]);
    }

    #[test]
    fn the_lint_counts_and_talk_of_it_does_not() {
        for code in [
            "#![allow(\n    unsafe_code,\n    reason = \"\"\n)]\n",
            "let a = '\"'; unsafe { b() }\n",
            "let url = \"http://x\"; unsafe { b() }\n",
            "let a = \"\\\"\"; unsafe { b() }\n",
        ] {
            assert_eq!(found("", "", code).len(), 1, "{code}");
        }
        for talk in [
            "//! No `unsafe` here.\n",
            "const POLICY: &str = \"style-src 'unsafe-inline'\";\n",
            "let a = 1; // unsafe\n",
            "let is_unsafe = true;\n",
        ] {
            assert_eq!(found("", "", talk), [""; 0], "{talk}");
        }
    }
}
