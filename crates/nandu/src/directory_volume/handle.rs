//! One directory, held open: all that a volume does to its entries goes through here.
//!
//! 1. The directory is opened once; entries are named relative to it and never through a path, so the
//!    handle is never left, whatever somebody renames meanwhile.
//! 2. A name is one of the volume's own or a checked [`FileName`]: there is no other way to make one.
//! 3. Symbolic links are not followed, and nothing but regular files is opened.

use super::moment::{all_of, wanted};
#[cfg(test)]
use super::tests::{after_sync, before_change};
use super::{failed_sync, system_error};
use nandu_storage::StorageError;
use nandu_storage::volume::{FileName, RESERVED_NAMES};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, Statx};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of an entry of the directory.
pub(super) trait EntryName {
    /// The name, without any slash.
    fn entry(&self) -> &str;
}

/// A name that only the volume itself uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnName {
    /// The list of files.
    Manifest,
    /// The list of files until it is durable.
    NewManifest,
    /// The file that is locked while the database is open.
    Lock,
}

impl EntryName for OwnName {
    fn entry(&self) -> &'static str {
        let [manifest, new_manifest, lock] = RESERVED_NAMES;
        match self {
            Self::Manifest => manifest,
            Self::NewManifest => new_manifest,
            Self::Lock => lock,
        }
    }
}

impl EntryName for FileName {
    fn entry(&self) -> &str {
        self.as_str()
    }
}

/// For what an entry is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// To be read.
    Read,
    /// To be read and written.
    Write,
    /// To be read and written; made if it is missing.
    Make,
    /// To be read and written; it must not be there yet.
    MakeNew,
}

/// A directory. Clones share the handle.
#[derive(Clone, Debug)]
pub(super) struct DirectoryHandle {
    file: Arc<File>,
    /// For messages alone.
    path: PathBuf,
}

impl DirectoryHandle {
    /// Opens a directory.
    pub(super) fn open(path: &Path) -> Result<Self, StorageError> {
        let flags = OFlags::DIRECTORY.bits().cast_signed();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = opened.map_err(|error| match error.kind() {
            ErrorKind::NotADirectory => {
                let place = path.display().to_string();
                let what = "it is a file, a database is a directory".to_owned();
                StorageError::NotADatabase { place, what }
            }
            _ => system_error("cannot open", path, &error),
        })?;
        Ok(Self { file: Arc::new(file), path: path.to_path_buf() })
    }

    /// How the user called it.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// How an entry is called in messages.
    pub(super) fn path_of(&self, name: &impl EntryName) -> PathBuf {
        self.path.join(name.entry())
    }

    /// Opens a regular file.
    pub(super) fn open_file(
        &self,
        name: &impl EntryName,
        access: Access,
    ) -> Result<File, StorageError> {
        // A pipe would let its opener wait for somebody at the other end.
        let always = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let flags = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
            Access::Make => OFlags::RDWR | OFlags::CREATE,
            Access::MakeNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        };
        if flags.contains(OFlags::CREATE) {
            before_change(&self.path);
        }
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
        let path = || self.path_of(name);
        let opened = rustix::fs::openat(&*self.file, name.entry(), flags | always, mode);
        let file: File = match opened {
            Ok(file) => file.into(),
            // Links are found out so, devices and sockets without anybody behind them like this.
            Err(Errno::LOOP | Errno::NXIO | Errno::ISDIR) => return Err(self.not_regular(name)),
            Err(error) => return Err(system_error("cannot open", &path(), &error.into())),
        };
        let metadata =
            file.metadata().map_err(|error| system_error("cannot look at", &path(), &error))?;
        if !metadata.is_file() {
            return Err(self.not_regular(name));
        }
        // Requests to the file wait, as they always do.
        rustix::fs::fcntl_getfl(&file)
            .and_then(|flags| rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK))
            .map_err(|error| system_error("cannot set up", &path(), &error.into()))?;
        Ok(file)
    }

    fn not_regular(&self, name: &impl EntryName) -> StorageError {
        let what = "it is a link or something else that is no regular file, which a database never \
                    has; put the file itself there";
        let place = self.path_of(name).display().to_string();
        StorageError::Corrupt { place, what: what.to_owned() }
    }

    /// Whether there is an entry of this name, whatever it is.
    pub(super) fn has(&self, name: &impl EntryName) -> Result<bool, StorageError> {
        match rustix::fs::statat(&*self.file, name.entry(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(system_error("cannot look at", &self.path_of(name), &error.into())),
        }
    }

    /// Whether the entry of this name is the open `file`.
    pub(super) fn is(&self, name: &impl EntryName, file: &File) -> bool {
        let entry = rustix::fs::statat(&*self.file, name.entry(), AtFlags::SYMLINK_NOFOLLOW);
        let of_file = file.metadata().map(|metadata| (metadata.dev(), metadata.ino()));
        entry.is_ok_and(|entry| of_file.is_ok_and(|found| found == (entry.st_dev, entry.st_ino)))
    }

    /// What the file system says of an entry; `None` unless it says all that is [`wanted`].
    pub(super) fn times_of(&self, name: &dyn EntryName) -> Option<Statx> {
        let found =
            rustix::fs::statx(&*self.file, name.entry(), AtFlags::SYMLINK_NOFOLLOW, wanted());
        all_of(found)
    }

    /// Removes an entry, if it is there and no directory.
    pub(super) fn unlink(&self, name: &impl EntryName) -> Result<(), StorageError> {
        before_change(&self.path);
        match rustix::fs::unlinkat(&*self.file, name.entry(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(system_error("cannot remove", &self.path_of(name), &error.into())),
        }
    }

    /// Gives an entry another name, in place of the entry that has it.
    pub(super) fn rename(
        &self,
        from: &impl EntryName,
        to: &impl EntryName,
    ) -> Result<(), StorageError> {
        before_change(&self.path);
        rustix::fs::renameat(&*self.file, from.entry(), &*self.file, to.entry())
            .map_err(|error| system_error("cannot rename", &self.path_of(from), &error.into()))
    }

    /// The number of its file system; `None` if the system does not say it.
    pub(super) fn file_system(&self) -> Option<u64> {
        rustix::fs::fstat(&*self.file).ok().map(|status| status.st_dev)
    }

    /// Bytes that an ordinary user may still write to its file system; `None` if that does not say. What
    /// is reserved for root is not among them, whoever asks.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        let status = rustix::fs::fstatvfs(&*self.file).ok()?;
        Some(status.f_bavail.saturating_mul(status.f_frsize))
    }

    /// Makes durable which entries there are.
    #[track_caller]
    pub(super) fn sync(&self) -> Result<(), StorageError> {
        before_change(&self.path);
        self.file.sync_all().map_err(|error| failed_sync(&self.path, &error))?;
        after_sync(&self.path, None);
        Ok(())
    }

    /// Makes durable what the entry of this name, the open `file`, holds.
    #[track_caller]
    pub(super) fn sync_file(&self, name: &impl EntryName, file: &File) -> Result<(), StorageError> {
        file.sync_all().map_err(|error| failed_sync(&self.path_of(name), &error))?;
        after_sync(&self.path, Some(name.entry()));
        Ok(())
    }

    /// The names of all entries; those that are not UTF-8 with replacements.
    pub(super) fn names(&self) -> Result<Vec<String>, StorageError> {
        let failed = |error: Errno| system_error("cannot list", &self.path, &error.into());
        let mut names = Vec::new();
        for entry in Dir::read_from(&*self.file).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }
}

/// Makes a directory that is not there yet, durably; says whether it was made.
pub(super) fn make_directory(path: &Path) -> Result<bool, StorageError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    before_change(parent);
    match std::fs::create_dir(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(system_error("cannot make", path, &error)),
        Ok(()) => {}
    }
    let synced = DirectoryHandle::open(parent).and_then(|parent| parent.sync());
    synced.map(|()| true).inspect_err(|_| remove_directory(path))
}

/// Removes a directory if it is empty.
pub(super) fn remove_directory(path: &Path) {
    before_change(path);
    // One that somebody put something into stays.
    let _ = std::fs::remove_dir(path);
}

/// A change to this directory is next. Tests end the process here, or note what a power cut would leave.
#[cfg(not(test))]
const fn before_change(_directory: &Path) {}

/// The entries of this directory, or what one of them holds, were made durable.
#[cfg(not(test))]
const fn after_sync(_directory: &Path, _entry: Option<&str>) {}
