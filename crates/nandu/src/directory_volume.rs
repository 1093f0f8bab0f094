//! A directory of real files as a volume: direct I/O through one io_uring where the system has it.
//!
//! ```text
//!   DIRECTORY/nandu.files   which files there are (`manifest`)
//!   DIRECTORY/nandu.lock    held by flock; the holder's process number is in it, and what tells a copy of
//!                           the directory from the original (`moment`)
//!   DIRECTORY/customers …   one file each, under its own name
//!
//!   create: manifest says new  ─► file made     ─► directory synced ─┐ certain with the next
//!   remove: manifest says gone ─► file unlinked ─► directory synced ─┘ change of the manifest
//! ```
//!
//! 1. A file that the manifest does not name is not the volume's, and is never touched. A name that
//!    somebody else's file has is refused.
//! 2. The manifest is durable before a file is made or unlinked, so opening finishes what was begun.
//! 3. One process writes at a time: the lock goes with the process, however that ends.
//! 4. The directory is reached through `handle` alone, so nothing outside it is ever touched, whatever
//!    the manifest says and whatever links lie there.
//! 5. What is being made counts once its manifest says so (`making`).

mod handle;
mod making;
mod manifest;
mod moment;
mod past_queue;
#[cfg(test)]
mod tests;

use handle::{Access, DirectoryHandle, EntryName, OwnName};
pub(crate) use making::Undo;
use manifest::{Listed, Manifest, Unreadable};
use moment::{Kinship, LockText, Moment};
use nandu_base::Nanos;
use nandu_device::{Completion, Counters, DeviceError, Operation, TimeSource};
use nandu_drives::file::set::{FileSet, SetRequest};
use nandu_drives::file::{EngineKind, FileError, FileOptions};
use nandu_storage::volume::{FileName, FileRequest, NO_RECORDS, PastQueue, Volume, free_number};
use nandu_storage::{FileId, Lsn, StorageError};
use past_queue::OpenFiles;
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How often a lock is tried again that its holder removed meanwhile, with what it had made, or that
/// this process itself seems to hold: a process that it is starting has all its locks for a moment.
const LOCK_ATTEMPT_COUNT: u32 = 2000;
/// So much of an empty file that is given a length is filled with zeros: it is going to be a log, and
/// the file system then has nothing to note when a commit is synced.
const ZEROS_BYTES_MAX: u64 = 256 << 20;

/// Whether requests go past the page cache (O_DIRECT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectIo {
    /// Where the file system can.
    #[default]
    Auto,
    /// Yes, or an error.
    Always,
    /// No: the kernel's page cache keeps copies.
    Never,
}

/// How to open a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryOptions {
    /// Whether requests go past the page cache.
    pub direct: DirectIo,
    /// How requests reach the kernel.
    pub engine: EngineKind,
    /// Refuse whatever would change something. Several processes may read at a time.
    pub read_only: bool,
    /// Bytes of a sector, a power of two from 512 to 65,536; `None` takes the smallest that works.
    pub sector_bytes: Option<u32>,
    /// Most requests in flight, from 1 to 4096. Psync always has 1.
    pub queue_depth: u32,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self {
            direct: DirectIo::Auto,
            engine: EngineKind::Auto,
            read_only: false,
            sector_bytes: None,
            queue_depth: 128,
        }
    }
}

/// A volume in a directory.
pub struct DirectoryVolume {
    handle: DirectoryHandle,
    name: String,
    read_only: bool,
    set: FileSet,
    manifest: Manifest,
    files: BTreeMap<FileId, DirectoryFile>,
    /// Requests that were answered without the kernel.
    ready: VecDeque<Completion>,
    /// The same files, for threads that go past the queue.
    open_files: Arc<OpenFiles>,
    /// Held as long as the volume lives, with what it says; `None` where read-only media have none.
    lock: Option<(File, Moment)>,
}

/// A file that is open.
#[derive(Debug)]
struct DirectoryFile {
    /// Its number in the set.
    index: u32,
    byte_count: u64,
    /// What the system said when it was opened.
    found_byte_count: u64,
}

impl std::fmt::Debug for DirectoryVolume {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "DirectoryVolume({} files in {})", self.files.len(), self.name)
    }
}

impl DirectoryVolume {
    /// Makes an empty volume in a directory, which is made, too, unless it is there and empty.
    ///
    /// # Errors
    /// If there is a volume or anything else in the directory, or the system refuses.
    pub fn create(directory: &Path, options: DirectoryOptions) -> Result<Self, StorageError> {
        let identity = crate::open::new_identity()?;
        let (mut volume, undo) = Self::begin(directory, options, identity, None)?;
        match volume.finish_making() {
            Ok(()) => Ok(volume),
            Err(error) => {
                undo.run(false);
                Err(error)
            }
        }
    }

    /// Opens the volume in a directory, and finishes what an earlier process left half done.
    ///
    /// # Errors
    /// If there is none, its making was interrupted, another process has it open, its manifest is damaged,
    /// a file is missing, or the system refuses.
    pub fn open(directory: &Path, options: DirectoryOptions) -> Result<Self, StorageError> {
        let handle = DirectoryHandle::open(directory)?;
        let not_a_database = |what: &str| {
            let (place, what) = (directory.display().to_string(), what.to_owned());
            Err(StorageError::NotADatabase { place, what })
        };
        let interrupted = "its making was interrupted; make it again, or remove the directory";
        // Before the lock, which would leave a file in a directory of another program.
        if !handle.has(&OwnName::Manifest)? {
            // A making that is killed at once leaves its list under the name that it has until it is durable.
            return not_a_database(match handle.has(&OwnName::NewManifest)? {
                true => interrupted,
                false => "it has no file nandu.files; name another directory, or make it",
            });
        }
        let lock = take_lock(&handle, options.read_only)?;
        let manifest = read_manifest(&handle)?;
        if !manifest.is_made {
            return not_a_database(interrupted);
        }
        Self::with_manifest(handle, options, manifest, lock)
    }

    fn with_manifest(
        handle: DirectoryHandle,
        options: DirectoryOptions,
        manifest: Manifest,
        lock: Option<(File, Moment)>,
    ) -> Result<Self, StorageError> {
        let path = handle.path_of(&OwnName::Manifest);
        let DirectoryOptions { direct, engine, read_only, sector_bytes, queue_depth } = options;
        let access = if read_only { Access::Read } else { Access::Write };
        let sample = handle.open_file(&OwnName::Manifest, access)?;
        let file_options = FileOptions {
            engine,
            direct: direct != DirectIo::Never,
            read_only,
            sector_bytes,
            queue_depth,
        };
        let set = FileSet::new(&sample, &path, file_options, direct == DirectIo::Always)
            .map_err(|error| file_error(&path, error))?;
        let doorbell = set.doorbell();
        let doorbell =
            doorbell.map_err(|error| system_error("cannot wait for files in", &path, &error))?;
        let mut volume = Self {
            name: handle.path().display().to_string(),
            handle,
            read_only,
            set,
            manifest,
            files: BTreeMap::new(),
            ready: VecDeque::new(),
            open_files: Arc::new(OpenFiles::new(doorbell)),
            lock,
        };
        volume.finish_what_was_begun()?;
        volume.pass_over_what_was_not_made()?;
        let listed: Vec<FileId> = volume.manifest.files.keys().copied().collect();
        for file in listed {
            volume.open_file(file)?;
        }
        Ok(volume)
    }

    /// What volumes of one database share.
    pub(crate) const fn identity(&self) -> u64 {
        self.manifest.identity
    }

    /// Unlinks what was removed, and makes what was about to be made.
    fn finish_what_was_begun(&mut self) -> Result<(), StorageError> {
        if self.read_only {
            return Ok(());
        }
        let Self { handle, manifest, .. } = self;
        for name in &manifest.gone {
            if manifest.files.values().all(|listed| listed.name != *name) {
                handle.unlink(name)?;
            }
        }
        let begun = manifest.files.values().filter(|listed| listed.is_new);
        let mut begun_count = 0;
        for Listed { name, .. } in begun {
            handle.open_file(name, Access::Make)?;
            begun_count += 1;
        }
        if begun_count > 0 || !manifest.gone.is_empty() {
            handle.sync()?;
        }
        Ok(())
    }

    /// Who may not make what was about to be made sees the volume without it: nothing refers to a file
    /// before it is certain.
    fn pass_over_what_was_not_made(&mut self) -> Result<(), StorageError> {
        if !self.read_only {
            return Ok(());
        }
        let Self { handle, manifest, .. } = self;
        let begun = manifest.files.iter().filter(|(_, listed)| listed.is_new);
        let mut not_made = Vec::new();
        for (&file, Listed { name, .. }) in begun {
            if !handle.has(name)? {
                not_made.push(file);
            }
        }
        manifest.files.retain(|file, _| !not_made.contains(file));
        Ok(())
    }

    /// Opens a file that the manifest names.
    fn open_file(&mut self, file: FileId) -> Result<(), StorageError> {
        let name = &self.manifest.files[&file].name;
        let path = self.handle.path_of(name);
        let access = if self.read_only { Access::Read } else { Access::Write };
        let opened = self.handle.open_file(name, access).map_err(|error| match error {
            StorageError::NotFound { .. } => StorageError::Corrupt {
                place: self.name.clone(),
                what: format!("the file {name} is missing; restore it from a copy"),
            },
            other => other,
        })?;
        let length =
            opened.metadata().map_err(|error| system_error("cannot look at", &path, &error))?.len();
        let shown = path.display().to_string();
        let index = self.set.add(opened, &shown).map_err(|error| file_error(&path, error))?;
        let byte_count = length.next_multiple_of(u64::from(self.set.sector_bytes()));
        self.files.insert(file, DirectoryFile { index, byte_count, found_byte_count: length });
        self.open_files.insert(file, self.set.file(index));
        Ok(())
    }

    /// Whether requests go past the page cache.
    #[must_use]
    pub const fn is_direct(&self) -> bool {
        self.set.is_direct()
    }

    /// Asserts that the parts agree.
    ///
    /// # Panics
    /// If they do not.
    pub fn audit(&self) {
        self.set.audit();
        let listed = self.manifest.files.keys();
        assert!(self.files.keys().eq(listed), "the manifest names what is open");
        assert!(self.files.keys().eq(&self.open_files.numbers()), "threads see what is open");
        let mut names: Vec<&FileName> =
            self.manifest.files.values().map(|file| &file.name).collect();
        names.sort_unstable();
        assert!(names.is_sorted_by(|one, next| one < next), "no two files have one name");
    }

    fn file(&self, file: FileId) -> Result<&DirectoryFile, StorageError> {
        self.files.get(&file).ok_or_else(|| no_file(file, &self.name))
    }

    fn path_of(&self, file: FileId) -> PathBuf {
        self.handle.path_of(&self.manifest.files[&file].name)
    }

    fn check_writable(&self) -> Result<(), StorageError> {
        if self.read_only {
            return Err(StorageError::ReadOnly { place: self.name.clone() });
        }
        Ok(())
    }

    fn device_error(&self, file: FileId, what: &str, error: DeviceError) -> StorageError {
        let path = self.path_of(file);
        match error {
            DeviceError::NoSpace => no_space(&path),
            DeviceError::ReadOnly => StorageError::ReadOnly { place: path.display().to_string() },
            error => StorageError::Device { what: format!("{what} {}", path.display()), error },
        }
    }
}

impl Volume for DirectoryVolume {
    fn name(&self) -> &str {
        &self.name
    }

    fn sector_bytes(&self) -> u32 {
        self.set.sector_bytes()
    }

    fn buffer_alignment(&self) -> u32 {
        self.set.buffer_alignment()
    }

    fn queue_depth_max(&self) -> u32 {
        self.set.queue_depth_max()
    }

    fn time_source(&self) -> TimeSource {
        TimeSource::Wall
    }

    fn volatile_cache(&self) -> bool {
        self.set.volatile_cache()
    }

    fn now(&self) -> Nanos {
        self.set.now()
    }

    fn files(&self) -> Vec<(FileId, String)> {
        let files = self.manifest.files.iter();
        files.map(|(&file, listed)| (file, listed.name.as_str().to_owned())).collect()
    }

    fn create_logged(&mut self, name: &str, records_from: Lsn) -> Result<FileId, StorageError> {
        self.check_writable()?;
        let name = FileName::new(name)?;
        let is_listed = self.manifest.files.values().any(|listed| listed.name == name);
        if is_listed || self.handle.has(&name)? {
            let path = self.handle.path_of(&name);
            return Err(StorageError::Exists { what: format!("file {}", path.display()) });
        }
        let file = free_number(self.manifest.files.keys().copied(), &self.name)?;
        let before = self.manifest.clone();
        self.manifest.settle();
        let listed = Listed { name: name.clone(), records_from, is_new: true };
        self.manifest.files.insert(file, listed);
        let made = write_manifest(&self.handle, &self.manifest)
            .and_then(|()| self.handle.open_file(&name, Access::MakeNew));
        let opened = made.map(drop).and_then(|()| {
            let opened = self.open_file(file).and_then(|()| self.handle.sync());
            opened.inspect_err(|_| drop(self.handle.unlink(&name)))
        });
        if let Err(error) = opened {
            self.forget(file);
            self.manifest = before;
            return Err(error);
        }
        Ok(file)
    }

    fn records_from(&self, file: FileId) -> Lsn {
        self.manifest.files.get(&file).map_or(NO_RECORDS, |listed| listed.records_from)
    }

    fn remove(&mut self, file: FileId) -> Result<(), StorageError> {
        self.check_writable()?;
        self.file(file)?;
        let before = self.manifest.clone();
        self.manifest.settle();
        let listed = self.manifest.files.remove(&file).expect("files that are open are listed");
        self.manifest.gone.push(listed.name.clone());
        if let Err(error) = write_manifest(&self.handle, &self.manifest) {
            self.manifest = before;
            return Err(error);
        }
        self.forget(file);
        self.handle.unlink(&listed.name)?;
        self.handle.sync()
    }

    fn finish_making(&mut self) -> Result<(), StorageError> {
        self.check_writable()?;
        if self.manifest.is_made {
            return Ok(());
        }
        self.manifest.is_made = true;
        let written = write_manifest(&self.handle, &self.manifest);
        self.manifest.is_made = written.is_ok();
        written
    }

    fn byte_count(&self, file: FileId) -> u64 {
        self.files.get(&file).map_or(0, |file| file.byte_count)
    }

    fn found_byte_count(&self, file: FileId) -> u64 {
        self.files.get(&file).map_or(0, |file| file.found_byte_count)
    }

    fn set_byte_count(&mut self, file: FileId, bytes: u64) -> Result<(), StorageError> {
        self.check_writable()?;
        let sector_bytes = u64::from(self.sector_bytes());
        if !bytes.is_multiple_of(sector_bytes) {
            let what = format!("a file length of {bytes} is not a multiple of {sector_bytes}");
            return Err(StorageError::InvalidSetting { what });
        }
        let &DirectoryFile { index, byte_count, .. } = self.file(file)?;
        if bytes != byte_count {
            let zeros_max = if byte_count == 0 { ZEROS_BYTES_MAX } else { 0 };
            let answer = self.set.set_length(index, byte_count, bytes, zeros_max);
            answer.map_err(|error| self.device_error(file, "cannot resize", error))?;
            self.files.get_mut(&file).expect("it was looked up").byte_count = bytes;
        }
        Ok(())
    }

    fn free_bytes(&self) -> Option<u64> {
        self.handle.free_bytes()
    }

    fn file_system(&self) -> Option<u64> {
        self.handle.file_system()
    }

    fn submit(
        &mut self,
        file: FileId,
        now: Nanos,
        request: FileRequest,
    ) -> Result<(), StorageError> {
        let index = self.file(file)?.index;
        let FileRequest { id, operation, offset_bytes, length_bytes, buffer } = request;
        if operation == Operation::Trim && !self.set.supports_trim() && !self.read_only {
            // The file system keeps the blocks; nobody asks for them again.
            let now = now.max(self.set.now());
            let (issued_at, completed_at, result) = (now, now, Ok(()));
            let buffer = None;
            let done = Completion { id, operation, issued_at, completed_at, result, buffer };
            self.ready.push_back(done);
            return Ok(());
        }
        let request = SetRequest { id, operation, offset_bytes, length_bytes, buffer };
        let answer = self.set.submit(index, request);
        answer.map_err(|error| self.device_error(file, operation.label(), error))?;
        if operation == Operation::Write {
            let file = self.files.get_mut(&file).expect("it was looked up");
            file.byte_count = file.byte_count.max(offset_bytes + length_bytes);
        }
        Ok(())
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        self.ready.pop_front().or_else(|| self.set.next_completion(until))
    }

    fn in_flight(&self) -> u32 {
        self.set.in_flight() + nandu_base::to_u32(self.ready.len() as u64)
    }

    fn sync(&mut self, file: FileId, _now: Nanos) -> Result<Nanos, StorageError> {
        let index = self.file(file)?.index;
        self.set.sync(index).map_err(|error| self.device_error(file, "cannot sync", error))
    }

    fn sync_found(&mut self) -> Result<(), StorageError> {
        self.check_writable()?;
        self.handle.sync()?;
        for (&file, found) in &self.files {
            let synced = self.set.sync(found.index);
            synced.map_err(|error| self.device_error(file, "cannot sync", error))?;
        }
        Ok(())
    }

    fn check_moment(&mut self, closed_by: Option<u32>) -> Result<bool, StorageError> {
        let Some((lock, moment)) = &mut self.lock else { return Ok(false) };
        let kinship = moment.kinship(lock, &self.handle, entries(&self.manifest), closed_by);
        if kinship == Kinship::Doubtful {
            return Err(StorageError::OfManyMoments { place: self.name.clone() });
        }
        let (before, open) = (*moment, Moment::of_open(lock));
        if !self.read_only && before != open {
            making::sign_lock(&self.handle, lock, open)?;
            *moment = open;
            if !before.is_of_same_file(open) {
                // After a power cut it would be a copy of what was not closed.
                self.handle.sync_file(&OwnName::Lock, lock)?;
            }
        }
        Ok(kinship == Kinship::Copy)
    }

    fn note_closed(&mut self, run: u32) {
        let Some((lock, moment)) = self.lock.as_mut().filter(|_| !self.read_only) else { return };
        if let Some(closed) = Moment::of_closed(lock, &self.handle, entries(&self.manifest), run)
            && making::sign_lock(&self.handle, lock, closed).is_ok()
        {
            *moment = closed;
        }
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.set.idle_until(time)
    }

    fn counters(&self) -> Counters {
        let mut counters = self.set.counters();
        self.open_files.add_to(&mut counters);
        counters
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn past_queue(&self) -> Option<Arc<dyn PastQueue>> {
        Some(Arc::clone(&self.open_files) as Arc<dyn PastQueue>)
    }

    fn hand_over(&mut self) {
        self.set.hand_over();
    }
}

impl DirectoryVolume {
    /// Closes a file, for readers too.
    fn forget(&mut self, file: FileId) {
        if let Some(DirectoryFile { index, .. }) = self.files.remove(&file) {
            self.set.remove(index);
        }
        self.open_files.remove(file);
    }
}

/// Takes the lock of a directory, shared for those who only read; gives what it said of the moment, too. `None`
/// if there is none to take.
fn take_lock(
    handle: &DirectoryHandle,
    read_only: bool,
) -> Result<Option<(File, Moment)>, StorageError> {
    let place = || handle.path().display().to_string();
    for attempt in 1..=LOCK_ATTEMPT_COUNT {
        let Some(lock) = making::open_lock(handle, read_only)? else { return Ok(None) };
        let answer = if read_only { lock.try_lock_shared() } else { lock.try_lock() };
        match answer {
            // One that was removed locks nobody out.
            Ok(()) if !handle.is(&OwnName::Lock, &lock) => {}
            Ok(()) => {
                let LockText { moment, .. } = LockText::read(&lock);
                if !read_only {
                    making::sign_lock(handle, &lock, moment)?;
                }
                return Ok(Some((lock, moment)));
            }
            Err(TryLockError::WouldBlock) => {
                // A holder that has not written its number yet is held all the same.
                let LockText { holder, .. } = LockText::read(&lock);
                if holder == Some(std::process::id()) && attempt < LOCK_ATTEMPT_COUNT {
                    std::thread::yield_now();
                    continue;
                }
                // Those who read do not write their numbers: it is that of somebody before them.
                let is_read = !read_only && lock.try_lock_shared().is_ok();
                let holder = holder.filter(|_| !is_read);
                return Err(StorageError::Locked { place: place(), holder });
            }
            Err(TryLockError::Error(error)) => {
                return Err(system_error("cannot lock", handle.path(), &error));
            }
        }
    }
    Err(StorageError::Locked { place: place(), holder: None })
}

/// The files that have to be of one moment: those of the volume, and the list of them.
fn entries(manifest: &Manifest) -> impl Iterator<Item = &dyn EntryName> {
    let files = manifest.files.values().map(|listed| &listed.name as &dyn EntryName);
    files.chain(std::iter::once(&OwnName::Manifest as &dyn EntryName))
}

/// The names in the bytes of a manifest.
pub(crate) fn names_in_manifest(bytes: &[u8]) -> Result<Vec<FileName>, StorageError> {
    match Manifest::decode(bytes) {
        Ok(manifest) => Ok(manifest.names().cloned().collect()),
        Err(why) => {
            let (place, what) = ("the bytes".to_owned(), why.what());
            Err(StorageError::Corrupt { place, what })
        }
    }
}

/// Reads the manifest, which is there.
fn read_manifest(handle: &DirectoryHandle) -> Result<Manifest, StorageError> {
    let path = handle.path_of(&OwnName::Manifest);
    let not_a_database = |what: String| {
        let place = handle.path().display().to_string();
        Err(StorageError::NotADatabase { place, what })
    };
    let mut bytes = Vec::new();
    let file = handle.open_file(&OwnName::Manifest, Access::Read)?;
    let read = file.take(manifest::BYTES_MAX).read_to_end(&mut bytes);
    read.map_err(|error| system_error("cannot read", &path, &error))?;
    match Manifest::decode(&bytes) {
        Ok(manifest) => Ok(manifest),
        Err(why @ Unreadable::Damaged(_)) => {
            let what = format!("{}; restore the database from a copy", why.what());
            Err(StorageError::Corrupt { place: path.display().to_string(), what })
        }
        Err(why) => not_a_database(why.what()),
    }
}

/// Replaces the manifest, durably.
fn write_manifest(handle: &DirectoryHandle, manifest: &Manifest) -> Result<(), StorageError> {
    // What lies there is of a making or a change that was cut off, or a link of somebody.
    handle.unlink(&OwnName::NewManifest)?;
    // Half of one, as a full disk leaves it, is nobody's.
    replace_manifest(handle, manifest).inspect_err(|_| drop(handle.unlink(&OwnName::NewManifest)))
}

fn replace_manifest(handle: &DirectoryHandle, manifest: &Manifest) -> Result<(), StorageError> {
    let mut file = handle.open_file(&OwnName::NewManifest, Access::MakeNew)?;
    let path = handle.path_of(&OwnName::Manifest);
    let written = file.write_all(manifest.encode().as_bytes());
    written.map_err(|error| system_error("cannot write", &path, &error))?;
    handle.sync_file(&OwnName::NewManifest, &file)?;
    handle.rename(&OwnName::NewManifest, &OwnName::Manifest)?;
    handle.sync()
}

fn no_file(file: FileId, place: &str) -> StorageError {
    StorageError::NotFound { what: format!("file {} in {place}", file.0) }
}

fn no_space(path: &Path) -> StorageError {
    let shorter = match path.file_name().is_some_and(|name| name == "log") {
        true => ", or make the database with a shorter log (log_bytes, --log-size)",
        false => "",
    };
    let what = format!(
        "{} cannot grow; free some on its file system, or raise the quota or ulimit -f that it met{shorter}",
        path.display()
    );
    StorageError::NoSpace { what }
}

/// The system's words, and what to do about those that do not say it.
fn words_of(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(code) if code == Errno::MFILE.raw_os_error() => {
            format!("{error}; allow more (ulimit -n)")
        }
        _ => error.to_string(),
    }
}

/// What the system's refusal means.
pub(crate) fn system_error(what: &str, path: &Path, error: &std::io::Error) -> StorageError {
    let place = path.display().to_string();
    match error.kind() {
        ErrorKind::NotFound => {
            StorageError::NotFound { what: format!("file or directory {place}") }
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            no_space(path)
        }
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => {
            StorageError::ReadOnly { place }
        }
        _ => StorageError::Device {
            what: format!("{what} {place}"),
            error: DeviceError::System {
                what: what.to_owned(),
                code: error.raw_os_error().unwrap_or(0),
                message: words_of(error),
            },
        },
    }
}

/// A sync failed. Whatever the reason, it is no refusal after which all is as before, as that of a write
/// for want of room.
fn failed_sync(path: &Path, error: &std::io::Error) -> StorageError {
    let what = "cannot sync".to_owned();
    let (code, message) = (error.raw_os_error().unwrap_or(0), error.to_string());
    StorageError::Device {
        what: format!("{what} {}", path.display()),
        error: DeviceError::System { what, code, message },
    }
}

/// What a refusal of the file engine means.
fn file_error(path: &Path, error: FileError) -> StorageError {
    let place = path.display().to_string();
    match error {
        FileError::Missing { .. } => StorageError::NotFound { what: format!("file {place}") },
        FileError::ReadOnly { .. } | FileError::Denied { .. } => StorageError::ReadOnly { place },
        FileError::System { what, code, message, .. } => StorageError::Device {
            what: format!("cannot {what} {place}"),
            error: DeviceError::System { what: what.to_owned(), code, message },
        },
        FileError::Device { error, .. } => StorageError::Device { what: place, error },
        other => StorageError::InvalidSetting { what: other.to_string() },
    }
}
