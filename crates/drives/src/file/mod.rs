//! A regular file or a block device as a [`Device`]: direct I/O through io_uring, or pread/pwrite
//! where the kernel has no ring to give.
//!
//! ```text
//!   FileDrive (one file, a Device) ──┐
//!                                    ├──► queue ──► uring, or pread and pwrite at depth 1
//!   FileSet (several, for a volume) ─┘
//! ```
//!
//! 1. A trim of a file frees its blocks, so later reads there are answered without the disk.
//!
//! Only here may a wall clock be read.

pub mod describe;
pub mod error;
pub mod open;
mod queue;
pub mod scratch;
pub mod set;
mod system;
mod uring;

pub use describe::{DiskDescription, MachineDescription, disk_description, machine_description};
pub use error::FileError;
pub use open::open_existing;
pub use scratch::ScratchFile;
#[cfg(feature = "simulated")]
pub(crate) use scratch::fill_by;
pub use set::FileSet;
pub use system::{CpuTime, cpu_time, thread_cpu_time};

use nandu_base::{ByteCount, Nanos};
use nandu_device::queue::InFlight;
use nandu_device::{
    Completion, Counters, Device, DeviceError, DeviceInfo, Geometry, IoBuffer, Operation, Rejected,
    Request, TimeSource,
};
use queue::{FileQueue, OpenFile};
use std::fs::File;
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use uring::{Ring, RingUse};

/// The number of a drive's file in its queue.
const ONLY_FILE: u32 = 0;
/// Most requests that a queue holds.
const QUEUE_DEPTH_MAX: u32 = 4096;

/// How requests reach the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// io_uring where it is to be had, else psync.
    #[default]
    Auto,
    /// Requests go through io_uring; an error where there is none.
    IoUring,
    /// pread and pwrite, one at a time.
    Psync,
}

impl EngineKind {
    /// The name used by fio, in tables and JSON.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::IoUring => "io_uring",
            Self::Psync => "psync",
        }
    }
}

/// How to open a file or block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// How requests reach the kernel.
    pub engine: EngineKind,
    /// Past the page cache (O_DIRECT).
    pub direct: bool,
    /// Whether writes and trims are refused.
    pub read_only: bool,
    /// Bytes of a sector, a power of two from 512 to 65,536; `None` takes the smallest that direct
    /// I/O can do, 512 without it.
    pub sector_bytes: Option<u32>,
    /// Most requests in flight, from 1 to 4096. Psync always has 1.
    pub queue_depth: u32,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            engine: EngineKind::Auto,
            direct: true,
            read_only: false,
            sector_bytes: None,
            queue_depth: 128,
        }
    }
}

/// A regular file or block device. It stays on the thread that opened it, as its ring does.
pub struct FileDrive {
    info: DeviceInfo,
    read_only: bool,
    /// Whether requests go through the kernel's page cache.
    is_buffered: bool,
    queue: FileQueue,
    thread_bound: PhantomData<*mut ()>,
}

impl std::fmt::Debug for FileDrive {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let engine = self.engine().label();
        write!(formatter, "FileDrive({} through {engine})", self.info.name)
    }
}

impl FileDrive {
    /// Takes over an open file or block device; `name` is what errors and reports call it.
    ///
    /// # Errors
    /// No direct I/O or io_uring where it was demanded, sectors too small for direct I/O, a queue
    /// of no or too many requests, or no whole sector in the file.
    pub fn from_file(file: File, name: &str, options: FileOptions) -> Result<Self, FileError> {
        let path = Path::new(name);
        let system = |what| move |error: std::io::Error| FileError::of_system(path, what, &error);
        let metadata = file.metadata().map_err(system("look at it"))?;
        let is_block_device = metadata.file_type().is_block_device();
        let capacity = if is_block_device {
            system::block_device_bytes(file.as_fd()).map_err(system("ask for its capacity"))?
        } else {
            ByteCount(metadata.len())
        };
        system::without_access_time(file.as_fd());
        let (needed_bytes, memory_bytes) = open::alignment(&file, path, is_block_device, options)?;
        let sector_bytes = options.sector_bytes.unwrap_or(needed_bytes);
        if sector_bytes < needed_bytes {
            let path = path.to_path_buf();
            return Err(FileError::SectorSize { path, asked_bytes: sector_bytes, needed_bytes });
        }
        let sector_count = capacity.0 / u64::from(sector_bytes.max(1));
        if sector_count == 0 {
            return Err(FileError::Empty { path: path.to_path_buf() });
        }
        let geometry = Geometry::new(sector_bytes, sector_count)
            .map_err(|error| FileError::Device { path: path.to_path_buf(), error })?;
        let ring = ring_for(options, 1, RingUse::OneThread)?;
        let queue_depth = if ring.is_some() { options.queue_depth } else { 1 };
        let read_only = options.read_only || !system::is_writable(file.as_fd());
        let device_number = if is_block_device { metadata.rdev() } else { metadata.dev() };
        let info = DeviceInfo {
            name: name.to_string(),
            geometry,
            queue_depth_max: queue_depth,
            time_source: TimeSource::Wall,
            needs_buffers: true,
            buffer_alignment: memory_bytes,
            volatile_cache: !options.direct || describe::has_volatile_cache(device_number),
            supports_trim: !read_only
                && open::supports_trim(&file, capacity, is_block_device, device_number),
        };
        let mut queue = FileQueue::new(ring, queue_depth);
        let name = name.to_string();
        let open = OpenFile { file, name, is_block_device, is_endless: false, sector_bytes };
        queue.add(open).map_err(system("register it with io_uring"))?;
        let is_buffered = !options.direct;
        Ok(Self { info, read_only, is_buffered, queue, thread_bound: PhantomData })
    }

    /// The engine at work, never [`EngineKind::Auto`].
    #[must_use]
    pub const fn engine(&self) -> EngineKind {
        if self.queue.has_ring() { EngineKind::IoUring } else { EngineKind::Psync }
    }

    /// Checks the module's first invariant.
    ///
    /// # Panics
    /// Where it is broken.
    pub fn audit(&self) {
        self.queue.audit();
    }

    /// The rules of [`DeviceInfo::check`], and no writes where they are refused.
    fn check(&self, request: &Request) -> Result<(), DeviceError> {
        self.info.check(request, self.in_flight())?;
        match request.operation {
            Operation::Write | Operation::Trim if self.read_only => Err(DeviceError::ReadOnly),
            Operation::Trim if !self.info.supports_trim => {
                Err(DeviceError::Unsupported { what: format!("trim of {}", self.info.name) })
            }
            _ => Ok(()),
        }
    }

    fn submit_at(&mut self, issued_at: Nanos, request: Request) -> Result<(), Rejected> {
        if let Err(error) = self.check(&request) {
            return Err(Rejected { request, error });
        }
        let sector_bytes = u64::from(self.info.geometry.sector_bytes);
        let offset = request.first_sector.0 * sector_bytes;
        let len = u64::from(request.sector_count) * sector_bytes;
        self.queue.submit(ONLY_FILE, offset, len, InFlight::of(request, issued_at));
        Ok(())
    }
}

/// A ring for as many files, as `options` want it; none is psync. Refuses a depth that no queue
/// has.
fn ring_for(
    options: FileOptions,
    file_count: u32,
    ring_use: RingUse,
) -> Result<Option<Ring>, FileError> {
    let asked = options.queue_depth;
    if !(1..=QUEUE_DEPTH_MAX).contains(&asked) {
        return Err(FileError::QueueDepth { asked });
    }
    if options.engine == EngineKind::Psync {
        return Ok(None);
    }
    match Ring::new(file_count, asked, ring_use) {
        Ok(ring) => Ok(Some(ring)),
        Err(error) if options.engine == EngineKind::IoUring => {
            Err(FileError::NoIoUring { message: error.to_string() })
        }
        Err(_) => Ok(None),
    }
}

impl Device for FileDrive {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&self) -> Nanos {
        self.queue.clock()
    }

    fn submit(&mut self, _now: Nanos, request: Request) -> Result<(), Rejected> {
        self.submit_at(self.queue.clock(), request)
    }

    fn submit_batch(&mut self, _now: Nanos, requests: Vec<Request>) -> Result<(), Rejected> {
        let issued_at = self.queue.clock();
        requests.into_iter().try_for_each(|request| self.submit_at(issued_at, request))
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        self.queue.next_completion(until)
    }

    fn in_flight(&self) -> u32 {
        self.queue.in_flight()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.queue.idle_until(time)
    }

    fn counters(&self) -> Counters {
        self.queue.counters()
    }

    fn processor_time(&self) -> Option<Nanos> {
        Some(system::cpu_time().total())
    }

    fn empty_cache(&mut self) -> Result<bool, DeviceError> {
        if !self.is_buffered {
            return Ok(false);
        }
        let open = self.queue.file(ONLY_FILE);
        // The kernel drops clean pages only.
        if !self.read_only {
            open.sync()?;
        }
        let forgot = system::forget_pages(open.file.as_fd());
        forgot.map_err(|error| open.error(Operation::Flush, 0, &error))?;
        Ok(true)
    }

    fn buffers(&mut self, count: usize, byte_count: usize) -> Vec<IoBuffer> {
        self.queue.buffers(count, byte_count, buffer_alignment(&self.info))
    }
}

/// Has the kernel drop the clean pages that it keeps of `file`; what is dirty stays.
///
/// # Errors
/// What the system says.
pub fn forget_pages(file: &File) -> std::io::Result<()> {
    system::forget_pages(file.as_fd())
}

/// A zeroed buffer that `device` accepts for `byte_count` bytes.
#[must_use]
pub fn buffer_for(device: &FileDrive, byte_count: usize) -> IoBuffer {
    IoBuffer::with_alignment(byte_count, buffer_alignment(&device.info))
}

fn buffer_alignment(info: &DeviceInfo) -> usize {
    (info.buffer_alignment as usize).max(nandu_device::buffer::DEFAULT_ALIGNMENT)
}

#[cfg(test)]
mod tests;
