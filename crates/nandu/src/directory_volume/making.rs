//! Making a volume in a directory, so that it is there as a whole, or can be made again.
//!
//! ```text
//!   directory, lock ─► manifest: making ─► whatever it is made for ─► manifest: made
//!        │                   │                      │
//!        └───────────────────┴──── undone, or left by a kill: the next making takes its place
//! ```
//!
//! 1. A directory in which there is anything that is not the volume's is refused, and nothing is made
//!    or removed in it.
//! 2. Files are removed only if a manifest that says `making` names them. One that says `made` is
//!    taken for the remains of a making only if it belongs to a volume that says `making`: the making
//!    of a database with its log apart was interrupted between its two volumes.
//! 3. The lock is held from the first change to the last.

use super::handle::{Access, DirectoryHandle, OwnName, make_directory, remove_directory};
use super::manifest::Manifest;
use super::moment::{LockText, Moment};
use super::{DirectoryOptions, DirectoryVolume, read_manifest, take_lock, write_manifest};
use nandu_storage::StorageError;
use std::fs::File;

/// Removes what a making has left, unless it was kept.
#[derive(Debug)]
pub(crate) struct Undo {
    handle: DirectoryHandle,
    /// The lock, also while the volume that has it goes.
    lock: File,
    /// Whether the directory was made, too.
    made_directory: bool,
}

impl DirectoryVolume {
    /// Begins to make a volume in a directory that is new or empty, or holds what an interrupted making
    /// left. It counts once [`nandu_storage::Volume::finish_making`] was called. `identity` is any number
    /// that no other making has; that of the remains is kept. `part_of` is that of a making to which the
    /// directory may belong.
    ///
    /// # Errors
    /// If there is a volume or anything else in the directory, or the system refuses.
    pub(crate) fn begin(
        directory: &std::path::Path,
        options: DirectoryOptions,
        identity: u64,
        part_of: Option<u64>,
    ) -> Result<(Self, Undo), StorageError> {
        let place = directory.display().to_string();
        if options.read_only {
            return Err(StorageError::ReadOnly { place });
        }
        let made_directory = make_directory(directory)?;
        let begun = Self::begin_in(directory, options, (identity, part_of), made_directory);
        if made_directory && begun.is_err() {
            remove_directory(directory);
        }
        begun
    }

    /// The same in a directory that is there, perhaps since `made_directory`.
    fn begin_in(
        directory: &std::path::Path,
        options: DirectoryOptions,
        (identity, part_of): (u64, Option<u64>),
        made_directory: bool,
    ) -> Result<(Self, Undo), StorageError> {
        let handle = DirectoryHandle::open(directory)?;
        // Before the lock, which would leave a file in a directory of another program.
        remains_of(&handle, part_of)?;
        let (lock, _) = take_lock(&handle, false)?.expect("a lock that is missing was made");
        let system = |error| super::system_error("cannot lock", directory, &error);
        let held = remains_of(&handle, part_of)
            .and_then(|remains| Ok((remains, lock.try_clone().map_err(system)?)));
        let (remains, lock_too) = held.inspect_err(|_| {
            if made_directory {
                // The error is worth more than one of cleaning up.
                let _ = handle.unlink(&OwnName::Lock);
            }
        })?;
        let undo = Undo { handle: handle.clone(), lock: lock_too, made_directory };
        let identity = remains.as_ref().map_or(identity, |remains| remains.identity);
        let manifest = Manifest::new(identity, false);
        if let Some(mut remains) = remains {
            if remains.is_made {
                remains.is_made = false;
                write_manifest(&handle, &remains)?;
            }
            remove_files(&handle, &remains)?;
        }
        let moment = Moment::of_open(&lock);
        let volume = sign_lock(&handle, &lock, moment)
            .and_then(|()| write_manifest(&handle, &manifest))
            .and_then(|()| Self::with_manifest(handle, options, manifest, Some((lock, moment))));
        match volume {
            Ok(volume) => Ok((volume, undo)),
            Err(error) => {
                undo.run(false);
                Err(error)
            }
        }
    }
}

impl Undo {
    /// Removes the volume and, if the making made it, the directory, and says whether it is gone. One that
    /// says that it is made stays, unless it is `worthless` all the same, being a part of something that
    /// is gone. Whatever cannot be removed stays for the next making: the error that led here is worth
    /// more than one of cleaning up.
    pub(crate) fn run(&self, worthless: bool) -> bool {
        self.remove_all(worthless).unwrap_or(false)
    }

    fn remove_all(&self, worthless: bool) -> Result<bool, StorageError> {
        let Self { handle, lock, made_directory } = self;
        if handle.has(&OwnName::Manifest)? {
            let mut manifest = read_manifest(handle)?;
            if manifest.is_made {
                if !worthless {
                    return Ok(false);
                }
                manifest.is_made = false;
                write_manifest(handle, &manifest)?;
            }
            remove_files(handle, &manifest)?;
            handle.unlink(&OwnName::Manifest)?;
        }
        handle.unlink(&OwnName::NewManifest)?;
        handle.sync()?;
        if handle.is(&OwnName::Lock, lock) {
            handle.unlink(&OwnName::Lock)?;
        }
        if *made_directory {
            remove_directory(handle.path());
        }
        Ok(true)
    }
}

/// What an interrupted making left in a directory; `None` if nothing but perhaps a lock.
fn remains_of(
    handle: &DirectoryHandle,
    part_of: Option<u64>,
) -> Result<Option<Manifest>, StorageError> {
    let place = || handle.path().display().to_string();
    let manifest = match handle.has(&OwnName::Manifest)? {
        true => Some(read_manifest(handle)?),
        false => None,
    };
    let is_ours = |manifest: &Manifest| !manifest.is_made || Some(manifest.identity) == part_of;
    if manifest.as_ref().is_some_and(|manifest| !is_ours(manifest)) {
        return Err(StorageError::Exists { what: format!("a volume in {}", place()) });
    }
    for found in handle.names()? {
        let is_own = nandu_storage::volume::RESERVED_NAMES.contains(&found.as_str());
        let mut listed = manifest.iter().flat_map(Manifest::names);
        if !is_own && !listed.any(|name| name.as_str() == found) {
            let what = format!("it holds {found}; name an empty directory or a new one");
            return Err(StorageError::NotADatabase { place: place(), what });
        }
    }
    Ok(manifest)
}

/// Removes the files of a volume that is worth nothing, durably.
fn remove_files(handle: &DirectoryHandle, manifest: &Manifest) -> Result<(), StorageError> {
    assert!(!manifest.is_made, "a volume that was made is never removed");
    for name in manifest.names() {
        handle.unlink(name)?;
    }
    handle.sync()
}

/// Writes the number of this process into a lock that it holds, and of which moment the files are. A lock that
/// cannot be signed goes.
pub(super) fn sign_lock(
    handle: &DirectoryHandle,
    lock: &File,
    moment: Moment,
) -> Result<(), StorageError> {
    let path = handle.path_of(&OwnName::Lock);
    LockText { holder: Some(std::process::id()), moment }.write(lock).map_err(|error| {
        let _ = handle.unlink(&OwnName::Lock);
        super::system_error("cannot write", &path, &error)
    })
}

/// The lock's file; `None` where there is none and none can be made.
pub(super) fn open_lock(
    handle: &DirectoryHandle,
    read_only: bool,
) -> Result<Option<File>, StorageError> {
    let access = if read_only { Access::Read } else { Access::Make };
    match handle.open_file(&OwnName::Lock, access) {
        Ok(lock) => Ok(Some(lock)),
        // Nobody writes where there is no lock.
        Err(StorageError::NotFound { .. }) if read_only => Ok(None),
        // It is the directory in which nothing can be written.
        Err(StorageError::ReadOnly { .. }) => {
            Err(StorageError::ReadOnly { place: handle.path().display().to_string() })
        }
        Err(error) => Err(error),
    }
}
