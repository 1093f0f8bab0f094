//! Opening what already exists, and the guards that stand before it.
//!
//! ```text
//!   directory ─► WrongKind        block device ─► mounted, swap, held, O_EXCL refused ─► InUse
//!                                         file ─► behind a loop device, swap ─► InUse
//!   file, device ─► no --destroy-data ─► WouldDestroyData       read-only ─► ReadOnly
//! ```
//!
//! 1. Nothing that exists is opened for writing unless the user said that its content may go.
//! 2. A block device that is mounted, in part or whole, is never opened for writing; nor is a file behind
//!    a loop device, mounted or not, or one that is swap space.

use super::{FileDrive, FileError, FileOptions, describe, system};
use nandu_base::ByteCount;
use nandu_device::IoBuffer;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens the file or block device at `path`. Unless `options.read_only`, its content is going to be
/// overwritten, which `destroy_data` has to permit.
///
/// # Errors
/// What the guards say, and what [`FileDrive::from_file`] says.
pub fn open_existing(
    path: &Path,
    destroy_data: bool,
    options: FileOptions,
) -> Result<FileDrive, FileError> {
    let metadata = std::fs::metadata(path)
        .map_err(|error| FileError::of_system(path, "look at it", &error))?;
    check_kind(path, &metadata)?;
    if !options.read_only {
        check_writable(path, &metadata, destroy_data)?;
    }
    let mut open = OpenOptions::new();
    open.read(true).write(!options.read_only);
    if !options.read_only && metadata.file_type().is_block_device() {
        // On a block device O_EXCL fails if the device is in use, also where it is mounted in
        // another namespace that this process does not see.
        open.custom_flags(libc::O_EXCL);
    }
    let what = if options.read_only { "read it" } else { "write to it" };
    let file = open.open(path).map_err(|error| FileError::of_system(path, what, &error))?;
    FileDrive::from_file(file, &path.display().to_string(), options)
}

fn check_kind(path: &Path, metadata: &Metadata) -> Result<(), FileError> {
    let kind = metadata.file_type();
    let found = if kind.is_file() || kind.is_block_device() {
        return Ok(());
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_char_device() {
        "a character device"
    } else {
        "neither a file nor a block device"
    };
    let wanted = "a regular file or a block device";
    Err(FileError::WrongKind { path: path.to_path_buf(), found, wanted })
}

fn check_writable(path: &Path, metadata: &Metadata, destroy_data: bool) -> Result<(), FileError> {
    if metadata.file_type().is_block_device()
        && let Some(by) = describe::user_of_block_device(metadata.rdev())
    {
        return Err(FileError::InUse { path: path.to_path_buf(), by });
    }
    if metadata.file_type().is_file()
        && let Some(by) = describe::user_of_file(metadata)
    {
        return Err(FileError::InUse { path: path.to_path_buf(), by });
    }
    // For root, too, who could write all the same: the mark is somebody's wish.
    if metadata.file_type().is_file() && metadata.permissions().readonly() {
        return Err(FileError::ReadOnly { path: path.to_path_buf() });
    }
    if !destroy_data {
        return Err(FileError::WouldDestroyData { path: path.to_path_buf() });
    }
    Ok(())
}

/// Switches direct I/O as asked and finds what it needs: the smallest sector, and the alignment of
/// buffers, both in bytes.
pub(super) fn alignment(
    file: &File,
    path: &Path,
    is_block_device: bool,
    options: FileOptions,
) -> Result<(u32, u32), FileError> {
    let refused = || FileError::DirectRefused { path: path.to_path_buf() };
    match system::set_direct(file.as_fd(), options.direct) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Err(refused()),
        Err(error) => {
            return Err(FileError::of_system(path, "switch direct I/O", &error));
        }
    }
    if !options.direct {
        return Ok((512, 1));
    }
    let bounded = |bytes: u32| bytes.clamp(512, 65_536);
    if let Some((memory_bytes, offset_bytes)) = system::direct_alignment(file.as_fd()) {
        if offset_bytes == 0 {
            return Err(refused());
        }
        let sector_bytes = bounded(offset_bytes);
        return Ok((sector_bytes, memory_bytes.max(sector_bytes)));
    }
    if is_block_device && let Ok(bytes) = system::logical_block_bytes(file.as_fd()) {
        return Ok((bounded(bytes), bounded(bytes)));
    }
    let works = |bytes: u32| {
        let mut buffer = IoBuffer::zeroed(bytes as usize);
        file.read_at(&mut buffer, 0).is_ok()
    };
    let found = [512, 1024, 2048, 4096, 65_536].into_iter().find(|&bytes| works(bytes));
    found.map(|bytes| (bytes, bytes)).ok_or_else(refused)
}

/// Whether a trim does anything: discard of a device, or a file system that can punch holes, tried
/// past the end where nothing is.
pub(super) fn supports_trim(
    file: &File,
    capacity: ByteCount,
    is_block_device: bool,
    device_number: u64,
) -> bool {
    if is_block_device {
        return describe::discards(device_number);
    }
    let past_the_end = (capacity.0 | 0xF_FFFF) + 1;
    let answer: io::Result<()> = system::punch_hole(file.as_fd(), past_the_end, 4096);
    answer.is_ok()
}
