//! The text of the repository, and where prose ends and code begins in it.
//!
//! 1. Files are in the order of their paths, which are relative to the root and use `/`.
//! 2. Build output, hidden directories except `.ci` and `.cargo`, and files that are no text of ours
//!    are left out.

use std::fs;
use std::path::{Path, PathBuf};

/// Directories that hold output.
const SKIPPED_DIRECTORIES: &[&str] = &["target", "out"];
/// Hidden directories that hold source.
const HIDDEN_SOURCE_DIRECTORIES: &[&str] = &[".ci", ".cargo"];
/// Kinds of file that have rules.
const EXTENSIONS: &[&str] = &["rs", "md", "toml", "sh"];

/// The text of a file, and where it is.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// Relative to the root.
    pub path: String,
    /// All of it.
    pub text: String,
}

/// All files that have rules.
#[derive(Debug)]
pub(crate) struct SourceTree {
    /// Where it was read from.
    pub root: PathBuf,
    /// The files, in the order of their paths.
    pub files: Vec<SourceFile>,
}

impl SourceFile {
    /// Whether the path ends in `.extension`.
    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
    }

    /// Lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// Lines of a Markdown file that stand outside code fences.
    pub(crate) fn prose_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut fenced = false;
        self.lines().filter(move |(_, line)| {
            let is_fence = ["```", "~~~"].iter().any(|mark| line.trim_start().starts_with(mark));
            fenced ^= is_fence;
            !fenced && !is_fence
        })
    }

    /// Lines of a Rust file before its test module; none of a file that holds only tests.
    pub(crate) fn lines_outside_tests(&self) -> impl Iterator<Item = (usize, &str)> {
        let only_tests =
            self.path.ends_with("/tests.rs") || self.path.split('/').any(|part| part == "tests");
        self.lines().take_while(move |(_, line)| !only_tests && line.trim() != "#[cfg(test)]")
    }
}

impl SourceTree {
    /// Reads the tree at `root`.
    ///
    /// # Errors
    /// If a directory or file cannot be read.
    pub(crate) fn load(root: &Path) -> Result<Self, String> {
        let mut files = Vec::new();
        collect(root, "", &mut files)?;
        files.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(Self { root: root.to_path_buf(), files })
    }

    /// The file at `path`, if it has rules.
    pub(crate) fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Files with the extension.
    pub(crate) fn with_extension(&self, extension: &str) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(move |file| file.has_extension(extension))
    }
}

fn collect(root: &Path, relative: &str, files: &mut Vec<SourceFile>) -> Result<(), String> {
    let directory = root.join(relative);
    let context = |error| format!("{}: {error}", directory.display());
    for entry in fs::read_dir(&directory).map_err(context)? {
        let entry = entry.map_err(context)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if relative.is_empty() { name.clone() } else { format!("{relative}/{name}") };
        let kind = entry.file_type().map_err(context)?;
        if kind.is_dir() {
            let hidden =
                name.starts_with('.') && !HIDDEN_SOURCE_DIRECTORIES.contains(&name.as_str());
            if !hidden && !SKIPPED_DIRECTORIES.contains(&name.as_str()) {
                collect(root, &path, files)?;
            }
        } else if kind.is_file() && has_rules(&path) {
            let bytes = fs::read(root.join(&path)).map_err(|error| format!("{path}: {error}"))?;
            let text = String::from_utf8(bytes).map_err(|_| format!("{path}: not UTF-8"))?;
            files.push(SourceFile { path, text });
        }
    }
    Ok(())
}

fn has_rules(path: &str) -> bool {
    path == ".ci/run"
        || path.rsplit_once('.').is_some_and(|(_, extension)| EXTENSIONS.contains(&extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_hidden_directories_are_left_out() {
        let directory = tempfile::tempdir().unwrap();
        for path in ["a.md", "target/b.md", ".git/c.md", ".ci/run", "d.png", "crates/x/e.rs"] {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "text").unwrap();
        }
        let tree = SourceTree::load(directory.path()).unwrap();
        let paths: Vec<&str> = tree.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, [".ci/run", "a.md", "crates/x/e.rs"]);
    }

    #[test]
    fn fences_are_no_prose() {
        let text = "one\n```text\ntwo\n```\nfive\n".into();
        let file = SourceFile { path: "a.md".into(), text };
        let numbers: Vec<usize> = file.prose_lines().map(|(number, _)| number).collect();
        assert_eq!(numbers, [1, 5]);
    }

    #[test]
    fn what_follows_the_test_mark_is_a_test() {
        let text = String::from("one\n#[cfg(test)]\nthree\n");
        let source = SourceFile { path: "crates/x/src/a.rs".into(), text: text.clone() };
        assert_eq!(source.lines_outside_tests().count(), 1);
        let tests = SourceFile { path: "crates/x/tests/a.rs".into(), text };
        assert_eq!(tests.lines_outside_tests().count(), 0);
    }
}
