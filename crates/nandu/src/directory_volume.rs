//! A directory of real files as a volume: direct I/O through one io_uring where the system has it.
//!
//! ```text
//!   DIRECTORY/nandu.files   which files there are (`manifest`)
//!   DIRECTORY/nandu.lock    held by flock; the holder's process number is in it
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

mod manifest;
#[cfg(test)]
mod tests;

use manifest::{Listed, Manifest, Unreadable};
use nandu_base::Nanos;
use nandu_device::{Completion, Counters, DeviceError, Operation, TimeSource};
use nandu_drives::file::set::{FileSet, SetRequest, read_at};
use nandu_drives::file::{EngineKind, FileError, FileOptions};
use nandu_storage::volume::{FileRequest, ReadAt, Volume, check_file_name};
use nandu_storage::{FileId, StorageError};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// The manifest's name.
const MANIFEST_NAME: &str = "nandu.files";
/// What it is called until it is durable.
const NEW_MANIFEST_NAME: &str = "nandu.files.new";
/// The lock's name.
const LOCK_NAME: &str = "nandu.lock";
/// Names that begin so are the volume's own.
const OWN_PREFIX: &str = "nandu.";
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
    directory: PathBuf,
    name: String,
    read_only: bool,
    set: FileSet,
    manifest: Manifest,
    files: BTreeMap<FileId, DirectoryFile>,
    /// Requests that were answered without the kernel.
    ready: VecDeque<Completion>,
    reader: Arc<DirectoryReader>,
    /// Held as long as the volume lives; `None` where read-only media have none.
    _lock: Option<File>,
}

/// A file that is open.
#[derive(Debug)]
struct DirectoryFile {
    /// Its number in the set.
    index: u32,
    byte_count: u64,
}

/// Reads the files of a volume from any thread.
#[derive(Debug, Default)]
struct DirectoryReader {
    files: RwLock<BTreeMap<FileId, Arc<File>>>,
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
        let place = directory.display().to_string();
        if options.read_only {
            return Err(StorageError::ReadOnly { place });
        }
        match std::fs::create_dir(directory) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(system_error("cannot make", directory, &error)),
            Ok(()) => {
                let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
                sync_directory(parent.unwrap_or(Path::new(".")))?;
            }
        }
        if directory.join(MANIFEST_NAME).exists() {
            return Err(StorageError::Exists { what: format!("a volume in {place}") });
        }
        let lock = take_lock(directory, false)?;
        let entries = std::fs::read_dir(directory)
            .map_err(|error| system_error("cannot list", directory, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| system_error("cannot list", directory, &error))?;
            match entry.file_name().to_str() {
                Some(LOCK_NAME | NEW_MANIFEST_NAME) => {}
                other => {
                    let found = other.unwrap_or("a name that is not UTF-8");
                    let what = format!("it holds {found}; name an empty directory or a new one");
                    return Err(StorageError::NotADatabase { place, what });
                }
            }
        }
        let manifest = Manifest::new();
        write_manifest(directory, &manifest)?;
        Self::with_manifest(directory, options, manifest, lock)
    }

    /// Opens the volume in a directory, and finishes what an earlier process left half done.
    ///
    /// # Errors
    /// If there is none, another process has it open, its manifest is damaged, a file is missing, or
    /// the system refuses.
    pub fn open(directory: &Path, options: DirectoryOptions) -> Result<Self, StorageError> {
        let place = directory.display().to_string();
        let not_a_database = |what: &str| {
            Err(StorageError::NotADatabase { place: place.clone(), what: what.to_owned() })
        };
        let path = directory.join(MANIFEST_NAME);
        // Before the lock, which would leave a file in a directory of another program.
        match std::fs::metadata(&path) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return not_a_database("it is a file, a database is a directory");
            }
            Err(error) if error.kind() == ErrorKind::NotFound && directory.is_dir() => {
                return not_a_database("it has no file nandu.files");
            }
            Err(error) => return Err(system_error("cannot open", directory, &error)),
        }
        let lock = take_lock(directory, options.read_only)?;
        let bytes =
            std::fs::read(&path).map_err(|error| system_error("cannot read", &path, &error))?;
        let manifest = match Manifest::decode(&bytes) {
            Ok(manifest) => manifest,
            Err(Unreadable::Foreign) => {
                return not_a_database("its nandu.files is another program's");
            }
            Err(Unreadable::OtherVersion(version)) => {
                let what = format!("its layout has version {version}, this program reads 1");
                return not_a_database(&what);
            }
            Err(Unreadable::Damaged(what)) => {
                let (place, what) = (path.display().to_string(), what.to_owned());
                return Err(StorageError::Corrupt { place, what });
            }
        };
        Self::with_manifest(directory, options, manifest, lock)
    }

    fn with_manifest(
        directory: &Path,
        options: DirectoryOptions,
        manifest: Manifest,
        lock: Option<File>,
    ) -> Result<Self, StorageError> {
        let path = directory.join(MANIFEST_NAME);
        let DirectoryOptions { direct, engine, read_only, sector_bytes, queue_depth } = options;
        let sample = OpenOptions::new().read(true).write(!read_only).open(&path);
        let sample = sample.map_err(|error| system_error("cannot open", &path, &error))?;
        let file_options = FileOptions {
            engine,
            direct: direct != DirectIo::Never,
            read_only,
            sector_bytes,
            queue_depth,
        };
        let set = FileSet::new(&sample, &path, file_options, direct == DirectIo::Always)
            .map_err(|error| file_error(&path, error))?;
        let mut volume = Self {
            directory: directory.to_path_buf(),
            name: directory.display().to_string(),
            read_only,
            set,
            manifest,
            files: BTreeMap::new(),
            ready: VecDeque::new(),
            reader: Arc::default(),
            _lock: lock,
        };
        volume.finish_what_was_begun()?;
        let listed: Vec<FileId> = volume.manifest.files.keys().copied().collect();
        for file in listed {
            volume.open_file(file)?;
        }
        Ok(volume)
    }

    /// Unlinks what was removed, and makes what was about to be made.
    fn finish_what_was_begun(&mut self) -> Result<(), StorageError> {
        if self.read_only {
            return Ok(());
        }
        for name in &self.manifest.gone {
            if self.manifest.files.values().all(|listed| listed.name != *name) {
                unlink(&self.directory.join(name))?;
            }
        }
        let begun: Vec<String> = self
            .manifest
            .files
            .values()
            .filter(|listed| listed.is_new)
            .map(|listed| listed.name.clone())
            .collect();
        for name in &begun {
            let path = self.directory.join(name);
            let made = OpenOptions::new().create(true).append(true).open(&path);
            made.map_err(|error| system_error("cannot make", &path, &error))?;
        }
        if !begun.is_empty() || !self.manifest.gone.is_empty() {
            sync_directory(&self.directory)?;
        }
        Ok(())
    }

    /// Opens a file that the manifest names.
    fn open_file(&mut self, file: FileId) -> Result<(), StorageError> {
        let name = &self.manifest.files[&file].name;
        let path = self.directory.join(name);
        let mut open = OpenOptions::new();
        open.read(true).write(!self.read_only);
        let opened = open.open(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => StorageError::Corrupt {
                place: self.name.clone(),
                what: format!("the file {name} is missing; restore it from a copy"),
            },
            _ => system_error("cannot open", &path, &error),
        })?;
        let length =
            opened.metadata().map_err(|error| system_error("cannot look at", &path, &error))?.len();
        let shown = path.display().to_string();
        let index = self.set.add(opened, &shown).map_err(|error| file_error(&path, error))?;
        let byte_count = length.next_multiple_of(u64::from(self.set.sector_bytes()));
        self.files.insert(file, DirectoryFile { index, byte_count });
        let opened = self.set.file(index);
        let mut readable = self.reader.files.write().unwrap_or_else(PoisonError::into_inner);
        readable.insert(file, opened);
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
        let readable = self.reader.files.read().unwrap_or_else(PoisonError::into_inner);
        assert!(self.files.keys().eq(readable.keys()), "readers see what is open");
        for file in self.files.keys() {
            assert!(u32::from(file.0) < self.manifest.next_file, "the number was given out");
        }
    }

    fn file(&self, file: FileId) -> Result<&DirectoryFile, StorageError> {
        self.files.get(&file).ok_or_else(|| no_file(file, &self.name))
    }

    fn path_of(&self, file: FileId) -> PathBuf {
        self.directory.join(&self.manifest.files[&file].name)
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
        files.map(|(&file, listed)| (file, listed.name.clone())).collect()
    }

    fn create(&mut self, name: &str) -> Result<FileId, StorageError> {
        self.check_writable()?;
        check_file_name(name)?;
        if name.starts_with(OWN_PREFIX) {
            let what = format!("{name} begins with {OWN_PREFIX}, which only the volume's own do");
            return Err(StorageError::InvalidSetting { what });
        }
        let path = self.directory.join(name);
        let is_listed = self.manifest.files.values().any(|listed| listed.name == name);
        if is_listed || path.symlink_metadata().is_ok() {
            return Err(StorageError::Exists { what: format!("file {}", path.display()) });
        }
        let Ok(number) = u16::try_from(self.manifest.next_file) else {
            let what = format!("all 65535 file numbers of {} are used up", self.name);
            return Err(StorageError::NoSpace { what });
        };
        let file = FileId(number);
        let before = self.manifest.clone();
        self.manifest.settle();
        self.manifest.next_file += 1;
        self.manifest.files.insert(file, Listed { name: name.to_owned(), is_new: true });
        let made = write_manifest(&self.directory, &self.manifest).and_then(|()| {
            let made = OpenOptions::new().write(true).create_new(true).open(&path);
            made.map_err(|error| system_error("cannot make", &path, &error))
        });
        let opened = made.map(drop).and_then(|()| {
            let opened = self.open_file(file).and_then(|()| sync_directory(&self.directory));
            opened.inspect_err(|_| drop(unlink(&path)))
        });
        if let Err(error) = opened {
            // The number stays used, since the manifest may say so.
            self.forget(file);
            self.manifest = Manifest { next_file: self.manifest.next_file, ..before };
            return Err(error);
        }
        Ok(file)
    }

    fn remove(&mut self, file: FileId) -> Result<(), StorageError> {
        self.check_writable()?;
        self.file(file)?;
        let path = self.path_of(file);
        let before = self.manifest.clone();
        self.manifest.settle();
        let listed = self.manifest.files.remove(&file).expect("files that are open are listed");
        self.manifest.gone.push(listed.name);
        if let Err(error) = write_manifest(&self.directory, &self.manifest) {
            self.manifest = before;
            return Err(error);
        }
        self.forget(file);
        unlink(&path)?;
        sync_directory(&self.directory)
    }

    fn byte_count(&self, file: FileId) -> u64 {
        self.files.get(&file).map_or(0, |file| file.byte_count)
    }

    fn set_byte_count(&mut self, file: FileId, bytes: u64) -> Result<(), StorageError> {
        self.check_writable()?;
        let sector_bytes = u64::from(self.sector_bytes());
        if !bytes.is_multiple_of(sector_bytes) {
            let what = format!("a file length of {bytes} is not a multiple of {sector_bytes}");
            return Err(StorageError::InvalidSetting { what });
        }
        let &DirectoryFile { index, byte_count } = self.file(file)?;
        if bytes != byte_count {
            let zeros_max = if byte_count == 0 { ZEROS_BYTES_MAX } else { 0 };
            let answer = self.set.set_length(index, byte_count, bytes, zeros_max);
            answer.map_err(|error| self.device_error(file, "cannot resize", error))?;
            self.files.get_mut(&file).expect("it was looked up").byte_count = bytes;
        }
        Ok(())
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

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.set.idle_until(time)
    }

    fn counters(&self) -> Counters {
        self.set.counters()
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn positional_reader(&self) -> Option<Arc<dyn ReadAt>> {
        Some(Arc::clone(&self.reader) as Arc<dyn ReadAt>)
    }
}

impl DirectoryVolume {
    /// Closes a file, for readers too.
    fn forget(&mut self, file: FileId) {
        if let Some(DirectoryFile { index, .. }) = self.files.remove(&file) {
            self.set.remove(index);
        }
        let mut readable = self.reader.files.write().unwrap_or_else(PoisonError::into_inner);
        readable.remove(&file);
    }
}

impl ReadAt for DirectoryReader {
    fn read_at(
        &self,
        file: FileId,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Result<(), StorageError> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        let opened = files.get(&file).map(Arc::clone);
        drop(files);
        let opened = opened.ok_or_else(|| no_file(file, "the volume"))?;
        read_at(&opened, offset_bytes, buffer).map_err(|error| StorageError::Device {
            what: format!("read of file {} at {offset_bytes}", file.0),
            error,
        })
    }
}

/// Takes the lock of a directory, shared for those who only read.
fn take_lock(directory: &Path, read_only: bool) -> Result<Option<File>, StorageError> {
    let path = directory.join(LOCK_NAME);
    let mut open = OpenOptions::new();
    open.read(true);
    if !read_only {
        open.write(true).create(true);
    }
    let mut lock = match open.open(&path) {
        Ok(lock) => lock,
        // Nobody writes where there is no lock, or where none can be made.
        Err(error) if read_only && error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(system_error("cannot lock", directory, &error)),
    };
    let answer = if read_only { lock.try_lock_shared() } else { lock.try_lock() };
    match answer {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // A holder that has not written its number yet is held all the same.
            let _ = lock.read_to_string(&mut holder);
            let place = directory.display().to_string();
            return Err(StorageError::Locked { place, holder: holder.trim().parse().ok() });
        }
        Err(TryLockError::Error(error)) => {
            return Err(system_error("cannot lock", directory, &error));
        }
    }
    if !read_only {
        let noted = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
        noted.map_err(|error| system_error("cannot write", &path, &error))?;
    }
    Ok(Some(lock))
}

/// Replaces the manifest, durably.
fn write_manifest(directory: &Path, manifest: &Manifest) -> Result<(), StorageError> {
    let (path, new_path) = (directory.join(MANIFEST_NAME), directory.join(NEW_MANIFEST_NAME));
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&new_path)?;
        file.write_all(manifest.encode().as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new_path, &path)
    };
    write().map_err(|error| system_error("cannot write", &path, &error))?;
    sync_directory(directory)
}

fn sync_directory(directory: &Path) -> Result<(), StorageError> {
    let answer = File::open(directory).and_then(|directory| directory.sync_all());
    answer.map_err(|error| system_error("cannot sync", directory, &error))
}

fn unlink(path: &Path) -> Result<(), StorageError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(system_error("cannot remove", path, &error))
        }
        _ => Ok(()),
    }
}

fn no_file(file: FileId, place: &str) -> StorageError {
    StorageError::NotFound { what: format!("file {} in {place}", file.0) }
}

fn no_space(path: &Path) -> StorageError {
    let what = format!("{} cannot grow; free some on its file system", path.display());
    StorageError::NoSpace { what }
}

/// What the system's refusal means.
pub(crate) fn system_error(what: &str, path: &Path, error: &std::io::Error) -> StorageError {
    let place = path.display().to_string();
    match error.kind() {
        ErrorKind::NotFound => StorageError::NotFound { what: place },
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
                message: error.to_string(),
            },
        },
    }
}

/// What a refusal of the file engine means.
fn file_error(path: &Path, error: FileError) -> StorageError {
    let place = path.display().to_string();
    match error {
        FileError::Missing { .. } => StorageError::NotFound { what: place },
        FileError::ReadOnly { .. } | FileError::Denied { .. } => StorageError::ReadOnly { place },
        FileError::System { what, code, message, .. } => StorageError::Device {
            what: format!("cannot {what} {place}"),
            error: DeviceError::System { what: what.to_owned(), code, message },
        },
        FileError::Device { error, .. } => StorageError::Device { what: place, error },
        other => StorageError::InvalidSetting { what: other.to_string() },
    }
}
