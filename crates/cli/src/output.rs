//! The only place that writes to the terminal, and to files that the user names for results.
//!
//! 1. Results go to stdout, everything about the work itself to stderr.
//! 2. A reader who goes away ends the program quietly.
//! 3. A file that exists is replaced only if the user said so; no link to a file is ever followed.
//! 4. A file of results is there as a whole or not at all, and one that it replaces goes only then.
//! 5. On a terminal no control character of what came from outside is shown as it is, be it a name, a value or
//!    a row. Elsewhere rows are data, and go as their format has them.
//! 6. Nothing is coloured unless stdout is a terminal and `NO_COLOR` is unset. Lines are as wide as that
//!    terminal, or 100 characters.

mod unfinished;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::json;
use clap::Args;
use nandu_base::words::{visible_lines, visible_rows, wrap};
use nandu_drives::profile::read_text;
use nandu_probe::table::{Table, WIDTH_MAX};
use serde::Serialize;
use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use tempfile::NamedTempFile;
pub(crate) use unfinished::{OutFile, PARTIAL_PREFIX, Unfinished};

/// A terminal that is narrower breaks lines itself.
const WIDTH_MIN: usize = 40;
/// The longest text: profiles of devices and plans have some thousand bytes.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// What terminals call the styles of this program, and what ends a style.
const STRONG: &str = "1";
const FAINT: &str = "2";
const GOOD: &str = "32";
const BAD: &str = "31;1";
const CODES: [&str; 5] = [STRONG, FAINT, GOOD, BAD, "0"];
const PLAIN: &str = "\u{1b}[0m";

/// Standard output, and how wide and how coloured it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    is_terminal: bool,
    is_styled: bool,
    /// Characters of a line.
    width: usize,
}

impl Output {
    /// Looks at what stdout is.
    pub(crate) fn new() -> Self {
        let wants_none = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_terminal = io::stdout().is_terminal();
        let size = terminal_size::terminal_size_of(io::stdout()).filter(|_| is_terminal);
        let width = size.map_or(WIDTH_MAX, |(width, _)| usize::from(width.0).max(WIDTH_MIN));
        Self { is_terminal, is_styled: is_terminal && !wants_none, width }
    }

    /// What has no colours, and lines of so many characters.
    #[cfg(test)]
    pub(crate) const fn plain(width: usize) -> Self {
        Self { is_terminal: false, is_styled: false, width }
    }

    /// Characters of a line of a table: the terminal's, and 100 where there is none.
    pub(crate) const fn width(self) -> usize {
        self.width
    }

    /// Characters of a line of running text, which nobody reads when it is longer than 100.
    pub(crate) fn text_width(self) -> usize {
        self.width.min(WIDTH_MAX)
    }

    /// Writes a table as wide as the terminal allows.
    pub(crate) fn table(self, table: &Table) -> Result<(), Failure> {
        self.text(&table.render_within(self.width))
    }

    /// Writes `text` as it is: data, for other programs too.
    pub(crate) fn text(self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
            .map_err(|error| Failure::system("cannot write to stdout", &error))
    }

    /// Writes rows of a table: as they are where another program reads them, to a person without control
    /// characters but line ends and tabs (invariant 5).
    pub(crate) fn rows(self, rows: &str) -> Result<(), Failure> {
        self.text(&self.readable_rows(rows))
    }

    fn readable_rows(self, rows: &str) -> Cow<'_, str> {
        if self.is_terminal { visible_rows(rows) } else { Cow::Borrowed(rows) }
    }

    /// Writes one line or several, without control characters of names and values that came from outside.
    pub(crate) fn line(self, line: &str) -> Result<(), Failure> {
        self.text(&format!("{}\n", self.without_controls(line)))
    }

    /// The same of a sentence, in as many lines as it needs.
    pub(crate) fn sentence(self, sentence: &str) -> Result<(), Failure> {
        wrap(sentence, self.text_width()).iter().try_for_each(|line| self.line(line))
    }

    /// Writes an empty line and a heading.
    pub(crate) fn heading(self, heading: &str) -> Result<(), Failure> {
        self.line(&format!("\n{}", self.strong(heading)))
    }

    /// Writes what `command` found as indented JSON; `value` is an object ([`json`](crate::json)).
    pub(crate) fn json(self, command: &'static str, value: &impl Serialize) -> Result<(), Failure> {
        // JSON escapes what it has to, in its own way.
        self.text(&(json::document(command, value) + "\n"))
    }

    /// `text` in bold.
    pub(crate) fn strong(self, text: &str) -> String {
        self.styled(STRONG, text)
    }

    /// `text` in faint.
    pub(crate) fn faint(self, text: &str) -> String {
        self.styled(FAINT, text)
    }

    /// `text` in green if `good`, else in red.
    pub(crate) fn verdict(self, good: bool, text: &str) -> String {
        self.styled(if good { GOOD } else { BAD }, text)
    }

    fn styled(self, code: &str, text: &str) -> String {
        if self.is_styled { format!("\u{1b}[{code}m{text}{PLAIN}") } else { text.into() }
    }

    /// `text` with its control characters escaped, but for line ends and the codes of `styled`.
    fn without_controls(self, text: &str) -> String {
        if !self.is_styled {
            return visible_lines(text).into_owned();
        }
        let mut shown = String::with_capacity(text.len());
        let mut parts = text.split('\u{1b}');
        shown += &visible_lines(parts.next().unwrap_or_default());
        for part in parts {
            let is_own = CODES.iter().any(|code| part.starts_with(&format!("[{code}m")));
            shown += if is_own { "\u{1b}" } else { "\\u{1b}" };
            shown += &visible_lines(part);
        }
        shown
    }
}

/// Standard output for data of any length, piece by piece. On a terminal characters that would do something
/// to it are shown, not done.
pub(crate) struct DataStream {
    is_terminal: bool,
    /// A character whose end has not come.
    begun: Vec<u8>,
}

impl DataStream {
    pub(crate) const fn new(output: Output) -> Self {
        Self { is_terminal: output.is_terminal, begun: Vec::new() }
    }
}

impl Write for DataStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return io::stdout().lock().write(bytes);
        }
        self.begun.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.begun) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.begun.len(),
        };
        let text = String::from_utf8_lossy(&self.begun[..whole]);
        io::stdout().lock().write_all(visible_rows(&text).as_bytes())?;
        self.begun.drain(..whole);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().lock().flush()
    }
}

/// Writes one line or several to stderr, without control characters of names and values that came from
/// outside. Where even that fails there is nobody to tell.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", visible_lines(text));
}

/// What may become of files that the user named for results.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct OutputFiles {
    /// Replace files that exist, where results are written to files
    #[arg(long)]
    overwrite: bool,
}

impl OutputFiles {
    /// Files that exist stay as they are.
    #[cfg(test)]
    pub(crate) const NEW: Self = Self { overwrite: false };

    /// Checks before a long measurement that a file can be written where the user wants it, and that
    /// nothing is lost by it.
    pub(crate) fn check(self, path: &Path) -> Result<(), Failure> {
        // Who writes to standard output by this name does not ask.
        if path == Path::new("-") {
            return Err(Failure::input(
                "-: name a file; standard output is /dev/stdout here, and a file of this name ./-",
            ));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            return Err(Failure::input(format!(
                "{}: its directory {} does not exist; make it first",
                path.display(),
                folder.display()
            )));
        }
        let of_type = |metadata: fs::Metadata| metadata.file_type();
        let Ok(named) = fs::symlink_metadata(path).map(of_type) else { return can_be_made(path) };
        let target = fs::metadata(path).map(of_type);
        let is_file = |kind: &fs::FileType| kind.is_file() || kind.is_dir();
        // Links to pipes and terminals are let through: /dev/stdout is one.
        let is_link = named.is_symlink() && target.as_ref().map_or(true, is_file);
        let kind = target.unwrap_or(named);
        let refused = if is_link {
            "is a symbolic link, and what it leads to might be somebody else's; name a file"
        } else if kind.is_dir() {
            "is a directory; name a file"
        } else if kind.is_block_device() {
            "is a block device; name a file"
        } else if kind.is_file() && !self.overwrite {
            "exists already; name another file, or pass --overwrite if it may go"
        } else if kind.is_file() {
            return can_be_made(path);
        } else {
            return Ok(());
        };
        Err(Failure::input(format!("{}: {refused}", path.display())))
    }

    /// Begins a file of results, which [`finish`](Self::finish) puts in its place. Who waits there for
    /// somebody to read is held up until Ctrl-C at most.
    pub(crate) fn begin(self, path: &Path, interrupt: &Interrupt) -> Result<Unfinished, Failure> {
        self.check(path)?;
        let begun = match fs::metadata(path) {
            Ok(metadata) if !metadata.is_file() => {
                OutFile::open_stream(path, metadata.file_type().is_fifo(), interrupt)
                    .map(Unfinished::Stream)
            }
            _ => unfinished::begin_partial(folder_of(path), path).map(Unfinished::Partial),
        };
        begun.map_err(|error| cannot_write(path, &error))
    }

    /// Puts a file that is whole in its place; whoever made a file there since it was begun keeps it.
    pub(crate) fn finish(self, file: Unfinished, path: &Path) -> Result<(), Failure> {
        match file {
            Unfinished::Partial(partial) => self.persist(partial.into_named(), path),
            Unfinished::Stream(_) => Ok(()),
        }
    }

    /// Gives a file that was written under a name of its own the one that the user wanted. What it holds
    /// is durable before that, so that a power cut leaves no empty file of that name; its name is durable
    /// once this returns.
    fn persist(self, whole: NamedTempFile, path: &Path) -> Result<(), Failure> {
        self.check(path)?;
        let failed = |error: io::Error| cannot_write(path, &error);
        whole.as_file().sync_all().map_err(failed)?;
        let persisted = match self.overwrite {
            true => whole.persist(path),
            false => whole.persist_noclobber(path),
        };
        persisted.map_err(|error| failed(error.error))?;
        File::open(folder_of(path)).and_then(|folder| folder.sync_all()).map_err(failed)
    }

    /// Writes a file as a whole or, on a full disk for example, not at all; or into what stands in for one.
    pub(crate) fn write(
        self,
        path: &Path,
        bytes: &[u8],
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        let file = self.begin(path, interrupt)?;
        file.as_file().write_all(bytes).map_err(|error| cannot_write(path, &error))?;
        self.finish(file, path)
    }

    /// The same for a file that this run has written before.
    pub(crate) const fn again(self) -> Self {
        Self { overwrite: true }
    }
}

/// That the system does not let a file of results be written.
pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::system(format!("cannot write {}", path.display()), error)
}

/// That files can be made in a folder, which may have to be made itself.
pub(crate) fn check_folder(folder: &Path) -> Result<(), Failure> {
    let there = folder.ancestors().find(|place| place.as_os_str().is_empty() || place.exists());
    can_be_made(&there.unwrap_or(folder).join("report.html"))
}

/// That a file can be made in the directory of this one: one without a name is, and goes at once.
fn can_be_made(path: &Path) -> Result<(), Failure> {
    let folder = folder_of(path);
    let made = tempfile::tempfile_in(folder);
    made.map(drop).map_err(|error| {
        let folder = folder.display();
        let what = format!("no file can be made in {folder}; make it writable, or name another");
        Failure::system(format!("cannot write {}: {what}", path.display()), &error)
    })
}

/// The directory in which a file lies.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Reads a text that the user named.
pub(crate) fn read_file(path: &Path) -> Result<String, Failure> {
    read_text(path, TEXT_BYTES_MAX).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::input(format!("{}: no such file; check the spelling", path.display()))
        }
        _ => Failure::system(format!("cannot read {}", path.display()), &error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody presses Ctrl-C.
    fn here() -> Interrupt {
        Interrupt::default()
    }

    #[test]
    fn rows_move_no_cursor_and_stay_as_they_are_for_programs() {
        let rows = "7\ta\u{1b}[2Jb\r\n8\t\u{7f}\u{9b}1m\n";
        let on_terminal = Output { is_terminal: true, ..Output::plain(80) };
        assert_eq!(on_terminal.readable_rows(rows), "7\ta\\u{1b}[2Jb\\r\n8\t\\u{7f}\\u{9b}1m\n");
        assert_eq!(Output::plain(80).readable_rows(rows), rows);
    }

    #[test]
    fn a_line_has_no_control_characters_but_those_of_its_style() {
        let plain = Output::plain(80);
        let styled = Output { is_terminal: true, is_styled: true, width: 80 };
        for (text, shown) in [
            ("table a\u{1b}[2Jb\r\nnext", "table a\\u{1b}[2Jb\\r\nnext"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("\u{1b}", "\\u{1b}"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(plain.without_controls(text), shown);
            assert_eq!(styled.without_controls(text), shown);
            let bold = styled.strong(text);
            let expected = format!("\u{1b}[1m{shown}\u{1b}[0m");
            assert_eq!(styled.without_controls(&bold), expected);
            assert_eq!(plain.without_controls(&plain.strong(text)), shown);
        }
    }

    #[test]
    fn a_destination_needs_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        for overwrite in [false, true] {
            let files = OutputFiles { overwrite };
            assert!(files.check(&directory.path().join("x.json")).is_ok());
            assert!(files.check(&directory.path().join("no/x.json")).is_err());
            assert!(files.check(directory.path()).is_err());
            assert!(files.check(Path::new("-")).is_err());
        }
    }

    #[test]
    fn a_file_that_exists_is_kept_unless_it_may_go() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.json");
        let careful = OutputFiles { overwrite: false };
        careful.write(&path, b"mine", &here()).unwrap();
        let said = careful.write(&path, b"theirs", &here()).unwrap_err().report().unwrap();
        assert!(said.contains("x.json: exists already") && said.contains("--overwrite"), "{said}");
        let dangling = directory.path().join("dangling");
        std::os::unix::fs::symlink("elsewhere", &dangling).unwrap();
        assert!(careful.write(&dangling, b"through it", &here()).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        OutputFiles { overwrite: true }.write(&path, b"new", &here()).unwrap();
        careful.again().write(&path, b"newer", &here()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"newer");
        careful.write(Path::new("/dev/null"), b"nothing is lost", &here()).unwrap();
    }

    #[test]
    fn a_file_that_is_not_finished_leaves_what_was_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.json");
        fs::write(&path, b"mine").unwrap();
        let files = OutputFiles { overwrite: true };
        let unfinished = files.begin(&path, &here()).unwrap();
        let named = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(named).collect();
        let is_partial = |name: &std::ffi::OsString| {
            name.to_str().is_some_and(|name| name.starts_with(".nandu-partial-"))
        };
        assert!(names.iter().any(is_partial), "who finds it knows whose it is: {names:?}");
        unfinished.as_file().write_all(b"half").unwrap();
        drop(unfinished);
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn nothing_is_written_through_a_link_whatever_may_go() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name);
        fs::write(place("mine"), b"mine").unwrap();
        fs::create_dir(place("folder")).unwrap();
        for (name, target) in [("link", "mine"), ("dangling", "new"), ("of-folder", "folder")] {
            std::os::unix::fs::symlink(target, place(name)).unwrap();
            for overwrite in [false, true] {
                let files = OutputFiles { overwrite };
                let said =
                    files.write(&place(name), b"theirs", &here()).unwrap_err().report().unwrap();
                assert!(said.contains("symbolic link"), "{name}: {said}");
                let whole = NamedTempFile::new_in(directory.path()).unwrap();
                assert!(files.persist(whole, &place(name)).is_err(), "{name}");
            }
        }
        assert_eq!(fs::read(place("mine")).unwrap(), b"mine");
        assert!(!place("new").exists());
        // What leads to no file, as /dev/stdout may, takes what it is given.
        std::os::unix::fs::symlink("/dev/null", place("nowhere")).unwrap();
        OutputFiles { overwrite: false }
            .write(&place("nowhere"), b"nothing is lost", &here())
            .unwrap();
    }

    #[test]
    fn a_whole_file_takes_a_place_that_is_free_or_may_be_taken() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.csv");
        let whole = || NamedTempFile::new_in(directory.path()).unwrap();
        let careful = OutputFiles { overwrite: false };
        careful.persist(whole(), &path).unwrap();
        fs::write(&path, b"mine").unwrap();
        assert!(careful.persist(whole(), &path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        OutputFiles { overwrite: true }.persist(whole(), &path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
    }
}
