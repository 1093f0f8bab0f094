//! A scratch file that leaves nothing behind, whatever ends the program.
//!
//! ```text
//!   create ─► room? ─► O_TMPFILE, or make + unlink ─► preallocate ─► fill ─► into_drive
//! ```
//!
//! 1. The file has no name once `create` returns, so even SIGKILL leaves nothing.
//! 2. Nothing is written unless the free space less the reserve holds the whole file.
//! 3. Only a filled file may be measured: blocks never written are answered without the disk.

use super::{FileDrive, FileError, FileOptions, system};
use nandu_base::{ByteCount, Nanos, Rng, to_index};
use nandu_device::buffer::DEFAULT_ALIGNMENT;
use nandu_device::{Device, IoBuffer, Request};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Bytes of one write of [`fill`].
const FILL_WRITE_BYTES: u64 = 1 << 20;
/// How many of them are in flight.
const FILL_DEPTH: u32 = 4;

/// An open file without a name, in a directory that the user chose.
#[derive(Debug)]
pub struct ScratchFile {
    file: File,
    directory: PathBuf,
    size: ByteCount,
}

impl ScratchFile {
    /// Makes a file of `size` in `directory`, leaving `reserve` of the free space alone.
    ///
    /// # Errors
    /// The directory does not exist, is none, or takes no file; there is not enough room.
    pub fn create(
        directory: &Path,
        size: ByteCount,
        reserve: ByteCount,
    ) -> Result<Self, FileError> {
        let system = |what| move |error: io::Error| FileError::of_system(directory, what, &error);
        let metadata = std::fs::metadata(directory).map_err(system("look at it"))?;
        let path = directory.to_path_buf();
        if !metadata.is_dir() {
            let (found, wanted) = ("not a directory", "a directory for the scratch file");
            return Err(FileError::WrongKind { path, found, wanted });
        }
        if size.0 < 512 {
            return Err(FileError::Empty { path });
        }
        let free = system::free_bytes(directory).map_err(system("ask for its free space"))?;
        let no_room = || FileError::NoRoom { path: path.clone(), needed: size, free, reserve };
        if size.saturating_add(reserve) > free {
            return Err(no_room());
        }
        let file = nameless(directory).map_err(system("create a scratch file in it"))?;
        match system::preallocate(file.as_fd(), size) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                file.set_len(size.0).map_err(system("size the scratch file"))?;
            }
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG)
                ) =>
            {
                return Err(no_room());
            }
            Err(error) => return Err(system("reserve room for the scratch file")(error)),
        }
        Ok(Self { file, directory: path, size })
    }

    /// How long the file is.
    #[must_use]
    pub const fn size(&self) -> ByteCount {
        self.size
    }

    /// The directory that it was made in.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes all of it with incompressible data, past the page cache where that works.
    ///
    /// # Errors
    /// As [`fill`].
    pub fn fill(
        &self,
        seed: u64,
        progress: &mut dyn FnMut(ByteCount),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(), FileError> {
        let options = FileOptions { queue_depth: FILL_DEPTH, ..FileOptions::default() };
        let name = self.directory.display().to_string();
        let clone = || {
            let copy = self.file.try_clone();
            copy.map_err(|error| FileError::of_system(&self.directory, "share it", &error))
        };
        let mut drive = match FileDrive::from_file(clone()?, &name, options) {
            Err(FileError::DirectRefused { .. }) => {
                let options = FileOptions { direct: false, ..options };
                FileDrive::from_file(clone()?, &name, options)?
            }
            answer => answer?,
        };
        fill(&mut drive, seed, progress, cancelled)
    }

    /// The file as a device, named after its directory.
    ///
    /// # Errors
    /// As [`FileDrive::from_file`].
    pub fn into_drive(self, options: FileOptions) -> Result<FileDrive, FileError> {
        FileDrive::from_file(self.file, &self.directory.display().to_string(), options)
    }
}

/// Opens a file that has no name, or loses it at once where the file system has no O_TMPFILE.
fn nameless(directory: &Path) -> io::Result<File> {
    let mut open = OpenOptions::new();
    open.read(true).write(true).mode(0o600);
    match open.custom_flags(libc::O_TMPFILE).open(directory) {
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL | libc::ENOENT)
            ) =>
        {
            named_and_unlinked(directory)
        }
        answer => answer,
    }
}

pub(super) fn named_and_unlinked(directory: &Path) -> io::Result<File> {
    let mut open = OpenOptions::new();
    open.read(true).write(true).create_new(true).mode(0o600);
    let process = std::process::id();
    for attempt in 0..100 {
        let name = format!("nandu-{process}-{attempt}.nandu-scratch");
        let path = directory.join(name);
        match open.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

/// Overwrites all of `drive` in order with incompressible data and flushes it. `progress` hears how
/// many bytes are written; `cancelled` is asked between writes.
///
/// # Errors
/// [`FileError::Cancelled`], or the first request that failed.
pub fn fill(
    drive: &mut FileDrive,
    seed: u64,
    progress: &mut dyn FnMut(ByteCount),
    cancelled: &dyn Fn() -> bool,
) -> Result<(), FileError> {
    fill_by(drive, FILL_WRITE_BYTES, seed, progress, cancelled)
}

/// As [`fill`], for any device, by writes of `write_bytes`, whole sectors.
pub(crate) fn fill_by(
    drive: &mut dyn Device,
    write_bytes: u64,
    seed: u64,
    progress: &mut dyn FnMut(ByteCount),
    cancelled: &dyn Fn() -> bool,
) -> Result<(), FileError> {
    let path = PathBuf::from(&drive.info().name);
    let failed = |error| FileError::Device { path: path.clone(), error };
    let geometry = drive.info().geometry;
    let sectors_per_write = write_bytes / u64::from(geometry.sector_bytes);
    let depth = drive.info().queue_depth_max.min(FILL_DEPTH);
    let alignment = to_index(u64::from(drive.info().buffer_alignment)).max(DEFAULT_ALIGNMENT);
    let mut rng = Rng::for_part(seed, "fill");
    let mut spare: Vec<_> =
        (0..depth).map(|_| IoBuffer::with_alignment(to_index(write_bytes), alignment)).collect();
    let (mut next, mut done_bytes) = (0, ByteCount::ZERO);
    while next < geometry.sector_count || drive.in_flight() > 0 {
        if cancelled() {
            return Err(FileError::Cancelled);
        }
        while next < geometry.sector_count
            && let Some(mut buffer) = spare.pop()
        {
            let count = nandu_base::to_u32(sectors_per_write.min(geometry.sector_count - next));
            let len = to_index(geometry.bytes_of(count));
            if len < buffer.len() {
                buffer = IoBuffer::with_alignment(len, alignment);
            }
            rng.fill(&mut buffer);
            let request = Request::write(u64::from(count), next, count, Some(buffer));
            drive.submit(drive.now(), request).map_err(|rejected| failed(rejected.error))?;
            next += u64::from(count);
        }
        let done = drive.next_completion(Nanos::MAX).expect("a write is in flight");
        done.result.map_err(failed)?;
        done_bytes += ByteCount(done.id * u64::from(geometry.sector_bytes));
        progress(done_bytes);
        spare.extend(done.buffer);
    }
    drive.submit(drive.now(), Request::flush(0)).map_err(|rejected| failed(rejected.error))?;
    let flushed = drive.next_completion(Nanos::MAX).expect("the flush is in flight");
    flushed.result.map_err(failed)
}
