//! The only place that writes to the terminal.
//!
//! 1. Results go to stdout, everything about the work itself to stderr.
//! 2. A reader who goes away ends the program quietly.
//! 3. Nothing is coloured unless stdout is a terminal and `NO_COLOR` is unset.

use crate::failure::Failure;
use serde::Serialize;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

/// Standard output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    is_styled: bool,
}

impl Output {
    /// Looks at what stdout is.
    pub(crate) fn new() -> Self {
        let wants_none = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { is_styled: io::stdout().is_terminal() && !wants_none }
    }

    /// Writes `text` as it is.
    pub(crate) fn text(self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
            .map_err(|error| Failure::system("cannot write to stdout", &error))
    }

    /// Writes one line.
    pub(crate) fn line(self, line: &str) -> Result<(), Failure> {
        self.text(&format!("{line}\n"))
    }

    /// Writes an empty line and a heading.
    pub(crate) fn heading(self, heading: &str) -> Result<(), Failure> {
        self.text(&format!("\n{}\n", self.strong(heading)))
    }

    /// Writes a value as indented JSON.
    pub(crate) fn json(self, value: &impl Serialize) -> Result<(), Failure> {
        self.line(&to_json(value))
    }

    /// `text` in bold.
    pub(crate) fn strong(self, text: &str) -> String {
        self.styled("1", text)
    }

    /// `text` in faint.
    pub(crate) fn faint(self, text: &str) -> String {
        self.styled("2", text)
    }

    /// `text` in green if `good`, else in red.
    pub(crate) fn verdict(self, good: bool, text: &str) -> String {
        self.styled(if good { "32" } else { "31;1" }, text)
    }

    fn styled(self, code: &str, text: &str) -> String {
        if self.is_styled { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.into() }
    }
}

/// Indented JSON.
pub(crate) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("our own types have string keys and finite numbers")
}

/// Writes one line to stderr. Where even that fails there is nobody to tell.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Checks before a long measurement that a file can be written where the user wants it.
pub(crate) fn check_destination(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if path.is_dir() {
        return Err(Failure::input(format!("{}: is a directory; name a file", path.display())));
    }
    match folder.filter(|folder| !folder.is_dir()) {
        None => Ok(()),
        Some(folder) => Err(Failure::input(format!(
            "{}: its directory {} does not exist; make it first",
            path.display(),
            folder.display()
        ))),
    }
}

/// Writes a whole file.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    fs::write(path, bytes)
        .map_err(|error| Failure::system(format!("cannot write {}", path.display()), &error))
}

/// Reads a text that the user named.
pub(crate) fn read_file(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::input(format!("{}: no such file; check the spelling", path.display()))
        }
        _ => Failure::system(format!("cannot read {}", path.display()), &error),
    })
}

/// Breaks `text` into lines of at most `width` characters, at spaces.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always one line");
        let needed = line.chars().count() + 1 + word.chars().count();
        if line.is_empty() {
            line.push_str(word);
        } else if needed <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.into());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_and_stay_within_their_width() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("", 7), [""]);
        assert_eq!(wrap("unbreakable", 3), ["unbreakable"]);
    }

    #[test]
    fn a_destination_needs_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        assert!(check_destination(&directory.path().join("x.json")).is_ok());
        assert!(check_destination(&directory.path().join("no/x.json")).is_err());
        assert!(check_destination(directory.path()).is_err());
    }
}
