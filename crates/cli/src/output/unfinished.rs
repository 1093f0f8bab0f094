//! Files of results before they are whole, and what stands in for a file.
//!
//! ```text
//!   .nandu-partial-1f2e…-Ab3x9Z   locked while its process lives ──whole──► the name that the user wants
//!                 └ of that name         └ killed: the next one who begins that file removes it
//! ```
//!
//! 1. What an end leaves bears a name of its own, and what was in the file's place stays.
//! 2. A file is removed only where no process writes it: none has its lock. Who begins one has the lock
//!    before anything is written, or begins another one.
//! 3. Whoever waits for somebody to read a pipe looks at the flag of the interrupt.

use crate::interrupt::Interrupt;
use nandu_base::hash::FixedHasher;
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{self, File, TryLockError};
use std::hash::Hasher;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use tempfile::NamedTempFile;

/// What the names of files begin with that are not whole yet, and that a kill leaves behind.
pub(crate) const PARTIAL_PREFIX: &str = ".nandu-partial-";
/// For whom a file of results is: the user's mask says who of these is not.
const MODE: u32 = 0o666;
/// So often a file is begun that somebody else removes at once.
const BEGIN_COUNT_MAX: u32 = 8;

/// A file of results before it is whole.
pub(crate) enum Unfinished {
    /// Gone when this goes.
    Partial(Partial),
    /// What cannot be put in a place, since it is no file: a pipe, a terminal.
    Stream(OutFile),
}

/// A file that bears a name of its own until it is whole.
pub(crate) struct Partial {
    named: NamedTempFile,
    out: OutFile,
}

/// Where results are written.
#[derive(Debug)]
pub(crate) struct OutFile {
    file: File,
    /// Of a pipe, that nobody may read.
    waits: Option<Interrupt>,
}

impl Unfinished {
    /// How a file is called until it is whole.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Partial(partial) => Some(partial.named.path()),
            Self::Stream(_) => None,
        }
    }

    /// Where to write.
    pub(crate) const fn as_file(&self) -> &OutFile {
        match self {
            Self::Partial(partial) => &partial.out,
            Self::Stream(out) => out,
        }
    }
}

impl Partial {
    /// The file, to be put in its place.
    pub(super) fn into_named(self) -> NamedTempFile {
        self.named
    }
}

impl OutFile {
    /// Opens what stands in for a file, once somebody reads it if it is a pipe.
    pub(super) fn open_stream(
        path: &Path,
        is_pipe: bool,
        interrupt: &Interrupt,
    ) -> io::Result<Self> {
        if !is_pipe {
            let file = File::options().write(true).open(path)?;
            return Ok(Self { file, waits: None });
        }
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        loop {
            match File::options().write(true).custom_flags(flags).open(path) {
                Ok(file) => return Ok(Self { file, waits: Some(interrupt.clone()) }),
                Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                    interrupt.wait(None, "read")?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Bytes that are in it; none of a pipe.
    pub(crate) fn byte_count(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    /// The same place to write, for another thread.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()?, waits: self.waits.clone() })
    }
}

impl Write for OutFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}

impl Write for &OutFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match ((&self.file).write(bytes), &self.waits) {
                (Err(error), Some(interrupt)) if error.kind() == io::ErrorKind::WouldBlock => {
                    interrupt.wait(Some((&self.file, PollFlags::OUT)), "read")?;
                }
                (written, _) => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        (&self.file).flush()
    }
}

/// What the names of unfinished files begin with that shall be called `path`.
fn prefix_of(path: &Path) -> String {
    let mut hasher = FixedHasher::default();
    hasher.write(path.file_name().unwrap_or_default().as_bytes());
    format!("{PARTIAL_PREFIX}{:016x}-", hasher.finish())
}

/// Begins a file in `folder` that shall be called `path`; what a process that is gone has left of such is
/// removed.
pub(super) fn begin_partial(folder: &Path, path: &Path) -> io::Result<Partial> {
    let prefix = prefix_of(path);
    remove_left(folder, &prefix);
    for _ in 0..BEGIN_COUNT_MAX {
        let named = tempfile::Builder::new()
            .prefix(&prefix)
            .permissions(fs::Permissions::from_mode(MODE))
            .tempfile_in(folder)?;
        // Who begins the same may have found it before it was locked, and removes it.
        let is_ours = match named.as_file().try_lock() {
            Ok(()) => named.as_file().metadata()?.nlink() > 0,
            Err(TryLockError::WouldBlock) => false,
            // Where nothing can be locked nobody removes anything.
            Err(TryLockError::Error(_)) => true,
        };
        if is_ours {
            let out = OutFile { file: named.as_file().try_clone()?, waits: None };
            return Ok(Partial { named, out });
        }
    }
    Err(io::Error::other("somebody else removes what is begun beside it; write it elsewhere"))
}

/// Removes the files of this prefix that nobody writes. What cannot be removed says by its name what it
/// is.
fn remove_left(folder: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let is_left = entry.file_name().as_bytes().starts_with(prefix.as_bytes())
            && entry.file_type().is_ok_and(|kind| kind.is_file());
        if !is_left {
            continue;
        }
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let opened = File::options().write(true).custom_flags(flags).open(entry.path());
        if let Ok(file) = opened
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| name(entry).to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_a_dead_process_left_of_the_same_output_goes() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path();
        let (path, other) = (folder.join("out"), folder.join("other"));
        let left = |path: &Path, end: &str| folder.join(format!("{}{end}", prefix_of(path)));
        fs::write(left(&path, "aaaaaa"), b"half").unwrap();
        fs::write(left(&other, "bbbbbb"), b"of another file").unwrap();
        fs::write(folder.join(".nandu-partial-cccccc"), b"whose is not known").unwrap();
        let alive = begin_partial(folder, &path).unwrap();
        assert!(!left(&path, "aaaaaa").exists());
        // What somebody writes stays.
        let second = begin_partial(folder, &path).unwrap();
        assert!(alive.named.path().exists() && second.named.path().exists());
        assert_eq!(names(folder).len(), 4);
        drop((alive, second));
        assert_eq!(names(folder).len(), 2);
        assert!(left(&other, "bbbbbb").exists());
    }

    #[test]
    fn a_link_that_is_called_like_a_file_that_was_left_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path();
        fs::write(folder.join("mine"), b"mine").unwrap();
        let link = folder.join(format!("{}aaaaaa", prefix_of(&folder.join("out"))));
        std::os::unix::fs::symlink("mine", &link).unwrap();
        drop(begin_partial(folder, &folder.join("out")).unwrap());
        assert_eq!(fs::read(folder.join("mine")).unwrap(), b"mine");
        assert!(fs::symlink_metadata(&link).is_ok());
    }

    #[test]
    fn a_pipe_takes_all_that_is_written_though_it_is_read_late() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from(0o600));
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        let reading = {
            let path = path.clone();
            std::thread::spawn(move || {
                let (mut file, mut all) = (File::open(path).unwrap(), Vec::new());
                file.read_to_end(&mut all).unwrap();
                all
            })
        };
        let bytes: Vec<u8> = (0..1 << 20).map(|n: u32| n.to_le_bytes()[1]).collect();
        let out = OutFile::open_stream(&path, true, &Interrupt::default()).unwrap();
        (&out).write_all(&bytes).unwrap();
        drop(out);
        assert!(reading.join().unwrap() == bytes);
    }
}
