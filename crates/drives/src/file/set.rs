//! Several files behind one queue, so that a volume waits for all of them at once and may go from
//! thread to thread. Requests name bytes of a file; files grow with what is written to them.
//!
//! 1. The rules of `nandu_device::contract` hold, with a file and bytes instead of sectors.
//! 2. Reads past the end of a file give zeros.

use super::queue::{FileQueue, OpenFile, read_past_end};
pub use super::uring::Doorbell;
use super::uring::RingUse;
use super::{FileError, FileOptions, describe, open, ring_for, system};
use nandu_base::{ByteCount, Nanos};
use nandu_device::queue::InFlight;
use nandu_device::{Completion, Counters, DeviceError, IoBuffer, Operation};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

/// Most files of one set.
pub const FILE_COUNT_MAX: u32 = 4096;

/// What is written at a time where zeros are needed.
const ZEROS_BYTES: u64 = 1 << 20;

/// Files of one directory behind one queue.
pub struct FileSet {
    queue: FileQueue,
    options: FileOptions,
    sector_bytes: u32,
    buffer_alignment: u32,
    volatile_cache: bool,
    supports_trim: bool,
    file_count: u32,
}

/// What is asked of a file of a set.
#[derive(Debug)]
pub struct SetRequest {
    /// Chosen by the caller, returned in the completion.
    pub id: u64,
    /// What to do; [`Operation::Flush`] makes the completed writes of this file durable.
    pub operation: Operation,
    /// Where the request starts in its file, in bytes.
    pub offset_bytes: u64,
    /// How long the request is, in bytes.
    pub length_bytes: u64,
    /// The data of a read or write.
    pub buffer: Option<IoBuffer>,
}

impl std::fmt::Debug for FileSet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "FileSet({} files)", self.file_count)
    }
}

impl FileSet {
    /// An empty set for files like `sample`, a regular file at `path` on the same file system, open
    /// for writing unless `options.read_only`. Direct I/O is left out where the file system refuses it, unless `must_be_direct`.
    ///
    /// # Errors
    /// No direct I/O or io_uring where it was demanded, sectors too small for direct I/O, or a
    /// queue of no or too many requests.
    pub fn new(
        sample: &File,
        path: &Path,
        options: FileOptions,
        must_be_direct: bool,
    ) -> Result<Self, FileError> {
        let mut options = options;
        let mut alignment = open::alignment(sample, path, false, options);
        if !must_be_direct && matches!(alignment, Err(FileError::DirectRefused { .. })) {
            options.direct = false;
            alignment = open::alignment(sample, path, false, options);
        }
        let (needed_bytes, buffer_alignment) = alignment?;
        let sector_bytes = options.sector_bytes.unwrap_or(needed_bytes);
        if sector_bytes < needed_bytes || !sector_bytes.is_power_of_two() {
            let path = path.to_path_buf();
            return Err(FileError::SectorSize { path, asked_bytes: sector_bytes, needed_bytes });
        }
        let system = |error: std::io::Error| FileError::of_system(path, "look at it", &error);
        let metadata = sample.metadata().map_err(system)?;
        let ring = ring_for(options, FILE_COUNT_MAX, RingUse::Shared)?;
        let depth = if ring.is_some() { options.queue_depth } else { 1 };
        let length = ByteCount(metadata.len());
        Ok(Self {
            queue: FileQueue::new(ring, depth),
            options,
            sector_bytes,
            buffer_alignment,
            volatile_cache: !options.direct || describe::has_volatile_cache(metadata.dev()),
            supports_trim: !options.read_only
                && open::supports_trim(sample, length, false, metadata.dev()),
            file_count: 0,
        })
    }

    /// Takes in a file, whose name is for errors; the answer names it in requests.
    ///
    /// # Errors
    /// If there are [`FILE_COUNT_MAX`] files, or the system refuses direct I/O.
    pub fn add(&mut self, file: File, name: &str) -> Result<u32, FileError> {
        let path = Path::new(name);
        let system = |what| move |error: std::io::Error| FileError::of_system(path, what, &error);
        if self.file_count == FILE_COUNT_MAX {
            let error = std::io::Error::from_raw_os_error(libc::EMFILE);
            return Err(system("open one more file")(error));
        }
        system::without_access_time(file.as_fd());
        system::set_direct(file.as_fd(), self.options.direct)
            .map_err(system("switch direct I/O"))?;
        let name = name.to_owned();
        let (is_block_device, is_endless, sector_bytes) = (false, true, self.sector_bytes);
        let open = OpenFile { file, name, is_block_device, is_endless, sector_bytes };
        let index = self.queue.add(open).map_err(system("register it with io_uring"))?;
        self.file_count += 1;
        Ok(index)
    }

    /// Lets go of a file.
    ///
    /// # Panics
    /// If something of it is in flight.
    pub fn remove(&mut self, file: u32) {
        self.queue.remove(file);
        self.file_count -= 1;
    }

    /// The open file, for threads that do not go through the queue.
    #[must_use]
    pub fn file(&self, file: u32) -> SharedFile {
        SharedFile(Arc::clone(self.queue.file(file)))
    }

    /// What waits for completions without the set; `None` where every request is done when
    /// [`Self::submit`] returns.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn doorbell(&self) -> std::io::Result<Option<Doorbell>> {
        self.queue.doorbell()
    }

    /// Hands over requests that were kept back to hand over several at once.
    pub fn hand_over(&mut self) {
        self.queue.hand_over();
    }

    /// The unit of addressing.
    #[must_use]
    pub const fn sector_bytes(&self) -> u32 {
        self.sector_bytes
    }

    /// The alignment in memory that buffers need.
    #[must_use]
    pub const fn buffer_alignment(&self) -> u32 {
        self.buffer_alignment
    }

    /// Whether requests go past the page cache.
    #[must_use]
    pub const fn is_direct(&self) -> bool {
        self.options.direct
    }

    /// Whether completed writes may be lost in a power cut unless flushed.
    #[must_use]
    pub const fn volatile_cache(&self) -> bool {
        self.volatile_cache
    }

    /// Whether a trim gives blocks back.
    #[must_use]
    pub const fn supports_trim(&self) -> bool {
        self.supports_trim
    }

    /// Most requests in flight.
    #[must_use]
    pub fn queue_depth_max(&self) -> u32 {
        self.queue.depth()
    }

    /// The monotonic clock since the set was made.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.queue.clock()
    }

    /// Issues a request.
    ///
    /// # Errors
    /// If it breaks a rule; the buffer is gone then.
    pub fn submit(&mut self, file: u32, request: SetRequest) -> Result<(), DeviceError> {
        self.check(file, &request)?;
        let SetRequest { id, operation, offset_bytes, length_bytes, buffer } = request;
        let in_flight = InFlight { id, operation, issued_at: self.now(), buffer };
        self.queue.submit(file, offset_bytes, length_bytes, in_flight);
        Ok(())
    }

    fn check(&self, file: u32, request: &SetRequest) -> Result<(), DeviceError> {
        let SetRequest { operation, offset_bytes, length_bytes, buffer, .. } = request;
        let queue_depth_max = self.queue_depth_max();
        if self.in_flight() >= queue_depth_max {
            return Err(DeviceError::QueueFull { queue_depth_max });
        }
        if *operation == Operation::Flush {
            return Ok(());
        }
        if self.options.read_only && *operation != Operation::Read {
            return Err(DeviceError::ReadOnly);
        }
        if *length_bytes == 0 {
            return Err(DeviceError::EmptyRequest);
        }
        let alignment = self.sector_bytes;
        if !(offset_bytes | length_bytes).is_multiple_of(u64::from(alignment)) {
            return Err(DeviceError::Misaligned { alignment });
        }
        if offset_bytes.checked_add(*length_bytes).is_none_or(|end| end > 1 << 62) {
            return Err(DeviceError::NoSpace);
        }
        match (operation, buffer) {
            (Operation::Trim, _) if !self.supports_trim => {
                let what = format!("trim of {}", self.queue.file(file).name);
                Err(DeviceError::Unsupported { what })
            }
            (Operation::Trim, _) => Ok(()),
            (_, None) => Err(DeviceError::BufferMissing),
            (_, Some(buffer)) if buffer.len() as u64 != *length_bytes => {
                let found = buffer.len() as u64;
                Err(DeviceError::BufferLength { expected: *length_bytes, found })
            }
            (_, Some(buffer)) if !buffer.is_aligned_to(self.buffer_alignment) => {
                Err(DeviceError::Misaligned { alignment: self.buffer_alignment })
            }
            _ => Ok(()),
        }
    }

    /// The completion that comes next, if one comes at or before `until`; waits for it.
    pub fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        self.queue.next_completion(until)
    }

    /// How many requests are in flight.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.queue.in_flight()
    }

    /// Makes the completed writes and the length of a file durable, and waits.
    ///
    /// # Errors
    /// What the system answers.
    pub fn sync(&mut self, file: u32) -> Result<Nanos, DeviceError> {
        self.queue.sync_now(file)?;
        Ok(self.now())
    }

    /// Cuts a file, or makes it longer: blocks are reserved, and the first `zeros_max` bytes of what
    /// is new are written, so that later writes inside change no map of the file system.
    ///
    /// # Errors
    /// What the system answers: no room, say.
    pub fn set_length(
        &mut self,
        file: u32,
        before: u64,
        length: u64,
        zeros_max: u64,
    ) -> Result<(), DeviceError> {
        if self.options.read_only {
            return Err(DeviceError::ReadOnly);
        }
        let answer = self.set_length_now(file, before, length, zeros_max);
        answer.map_err(|error| self.queue.file(file).error(Operation::Write, before, &error))
    }

    fn set_length_now(
        &mut self,
        file: u32,
        before: u64,
        length: u64,
        zeros_max: u64,
    ) -> std::io::Result<()> {
        let file = &self.queue.file(file).file;
        if length <= before {
            return file.set_len(length);
        }
        match system::preallocate(file.as_fd(), ByteCount(length)) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => file.set_len(length)?,
            answer => answer?,
        }
        let end = length.min(before.saturating_add(zeros_max));
        let count = nandu_base::to_index(ZEROS_BYTES.min(end - before));
        let zeros = IoBuffer::with_alignment(count, self.buffer_alignment as usize);
        for offset in (before..end).step_by(nandu_base::to_index(ZEROS_BYTES)) {
            let count = nandu_base::to_index(ZEROS_BYTES.min(end - offset));
            file.write_all_at(&zeros[..count], offset)?;
        }
        Ok(())
    }

    /// Lets time pass. Nothing may be in flight.
    pub fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.queue.idle_until(time)
    }

    /// What the files have done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.queue.counters()
    }

    /// Asserts what the queue promises.
    ///
    /// # Panics
    /// Where it is broken.
    pub fn audit(&self) {
        self.queue.audit();
    }
}

/// A file of a set, past the queue: each thread waits for its own.
#[derive(Clone, Debug)]
pub struct SharedFile(Arc<OpenFile>);

impl SharedFile {
    /// Fills `buffer` from `offset_bytes` on; past the end with zeros.
    ///
    /// # Errors
    /// What the system answers.
    pub fn read_at(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let read = read_past_end(&self.0.file, buffer, offset_bytes);
        read.map_err(|error| self.0.error(Operation::Read, offset_bytes, &error))
    }

    /// As [`FileSet::sync`].
    ///
    /// # Errors
    /// As there.
    pub fn sync(&self) -> Result<(), DeviceError> {
        self.0.sync()
    }
}
