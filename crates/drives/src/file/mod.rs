//! A regular file or a block device as a [`Device`]: direct I/O through io_uring, or pread/pwrite
//! where the kernel has no ring to give.
//!
//! ```text
//!                     ┌ Ring    queued, handed over in twos or by the next next_completion
//!  submit ─► slot ────┤
//!                     └ Psync   done at once; queue depth 1
//!  next_completion ◄─ ready ◄─ reap (one look at the clock per batch) ◄─ completion ring
//! ```
//!
//! 1. Every slot is free, with the kernel, or ready: the three counts add up to the queue depth.
//! 2. A buffer with the kernel neither moves nor goes: its slot holds it until the completion was
//!    reaped, and dropping the drive waits for all of them first.
//! 3. Times are the monotonic clock since opening; completions come out in their order.
//! 4. A trim of a file frees its blocks, so later reads there are answered without the disk.
//!
//! Only here may a wall clock be read.

pub mod describe;
pub mod error;
pub mod open;
pub mod scratch;
mod system;
mod uring;

pub use describe::{DiskDescription, MachineDescription, disk_description, machine_description};
pub use error::FileError;
pub use open::open_existing;
pub use scratch::ScratchFile;
pub use system::{CpuTime, cpu_time};

use nandu_base::{ByteCount, Nanos};
use nandu_device::queue::InFlight;
use nandu_device::{
    Completion, Counters, Device, DeviceError, DeviceInfo, Geometry, IoBuffer, Operation, Rejected,
    Request, TimeSource,
};
use std::collections::VecDeque;
use std::fs::File;
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};
use uring::{Command, Ring};

/// The most bytes that go into one transfer; longer ones are continued.
const TRANSFER_MAX_BYTES: u64 = 1 << 30;

/// How many queued requests are worth a system call of their own. Holding back more saves CPU but
/// starves a device whose completions arrive in bunches.
const HANDOVER_COUNT: u32 = 2;

/// How requests reach the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// io_uring where it is to be had, else psync.
    #[default]
    Auto,
    /// io_uring, or an error.
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
    /// Refuse writes and trims.
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
    file: File,
    is_block_device: bool,
    read_only: bool,
    origin: Instant,
    /// `None` is psync.
    ring: Option<Ring>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    ready: VecDeque<Ready>,
    kernel_count: u32,
    counters: Counters,
    busy_since: Nanos,
    thread_bound: PhantomData<*mut ()>,
}

/// A request in flight.
#[derive(Debug, Default)]
struct Slot {
    request: Option<InFlight>,
    /// Where it starts, in bytes.
    offset: u64,
    /// How long it is, in bytes; zero for a flush.
    len: u64,
    /// How much of it is done, which is less than all only after a short transfer.
    done: u64,
}

/// A request that is done but not yet told.
#[derive(Debug)]
struct Ready {
    slot: u32,
    /// Zero, or the error number.
    code: i32,
    completed_at: Nanos,
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
    /// No direct I/O or io_uring where it was demanded, sectors too small for direct I/O, or no
    /// whole sector in the file.
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
        let ring = Self::ring_for(&file, options)?;
        let queue_depth = if ring.is_some() { options.queue_depth.clamp(1, 4096) } else { 1 };
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
        Ok(Self {
            info,
            file,
            is_block_device,
            read_only,
            origin: Instant::now(),
            ring,
            slots: (0..queue_depth).map(|_| Slot::default()).collect(),
            free: (0..queue_depth).rev().collect(),
            ready: VecDeque::with_capacity(queue_depth as usize),
            kernel_count: 0,
            counters: Counters::default(),
            busy_since: Nanos::ZERO,
            thread_bound: PhantomData,
        })
    }

    fn ring_for(file: &File, options: FileOptions) -> Result<Option<Ring>, FileError> {
        if options.engine == EngineKind::Psync {
            return Ok(None);
        }
        match Ring::new(file.as_fd(), options.queue_depth.clamp(1, 4096)) {
            Ok(ring) => Ok(Some(ring)),
            Err(error) if options.engine == EngineKind::IoUring => {
                Err(FileError::NoIoUring { message: error.to_string() })
            }
            Err(_) => Ok(None),
        }
    }

    /// The engine at work, never [`EngineKind::Auto`].
    #[must_use]
    pub const fn engine(&self) -> EngineKind {
        if self.ring.is_some() { EngineKind::IoUring } else { EngineKind::Psync }
    }

    /// Checks the module's first invariant.
    ///
    /// # Panics
    /// Where it is broken.
    pub fn audit(&self) {
        let taken = self.slots.iter().filter(|slot| slot.request.is_some()).count();
        assert_eq!(taken + self.free.len(), self.slots.len(), "invariant 1: free or taken");
        let told = self.kernel_count as usize + self.ready.len();
        assert_eq!(taken, told, "invariant 1: with the kernel or ready");
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
        let index = self.free.pop().expect("a checked queue has a free slot");
        let sector_bytes = u64::from(self.info.geometry.sector_bytes);
        let slot = &mut self.slots[index as usize];
        slot.offset = request.first_sector.0 * sector_bytes;
        slot.len = u64::from(request.sector_count) * sector_bytes;
        slot.done = 0;
        let operation = request.operation;
        if operation == Operation::Flush {
            slot.len = 0;
        }
        slot.request = Some(InFlight::of(request, issued_at));
        if self.kernel_count == 0 {
            self.busy_since = issued_at;
        }
        self.kernel_count += 1;
        if self.ring.is_none() || (self.is_block_device && operation == Operation::Trim) {
            let code = self.transfer_now(index);
            let now = self.clock();
            self.settle(index, code, now);
        } else {
            self.push(index);
        }
        Ok(())
    }

    /// Queues what is left of a slot's request for the kernel.
    #[allow(unsafe_code, reason = "the kernel will use the buffer that the slot holds")]
    fn push(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let request = slot.request.as_mut().expect("only taken slots are pushed");
        let (offset, done) = (slot.offset + slot.done, nandu_base::to_index(slot.done));
        let len = nandu_base::to_u32((slot.len - slot.done).min(TRANSFER_MAX_BYTES));
        let command = match (request.operation, &mut request.buffer) {
            (Operation::Read, Some(buffer)) => {
                Command::Read { memory: buffer[done..].as_mut_ptr(), len, offset }
            }
            (Operation::Write, Some(buffer)) => {
                Command::Write { memory: buffer[done..].as_ptr(), len, offset }
            }
            (Operation::Trim, _) => Command::PunchHole { offset, len: slot.len },
            (Operation::Flush, _) => Command::Flush,
            (Operation::Read | Operation::Write, None) => unreachable!("needs_buffers was checked"),
        };
        let ring = self.ring.as_mut().expect("only the ring engine pushes");
        // SAFETY: the slot holds the buffer, whose bytes never move, until the completion with this
        // index was reaped; `drop` waits for that too. Nobody touches the buffer meanwhile.
        unsafe { ring.push(command, index) };
        if ring.queued_count() >= HANDOVER_COUNT {
            ring.submit();
        }
    }

    /// Does a slot's request with ordinary system calls; zero or the error number.
    fn transfer_now(&mut self, index: u32) -> i32 {
        let slot = &mut self.slots[index as usize];
        let request = slot.request.as_mut().expect("only taken slots are transferred");
        let answer = match (request.operation, &mut request.buffer) {
            (Operation::Read, Some(buffer)) => self.file.read_exact_at(buffer, slot.offset),
            (Operation::Write, Some(buffer)) => self.file.write_all_at(buffer, slot.offset),
            (Operation::Trim, _) if self.is_block_device => {
                system::discard(self.file.as_fd(), slot.offset, slot.len)
            }
            (Operation::Trim, _) => system::punch_hole(self.file.as_fd(), slot.offset, slot.len),
            (Operation::Flush, _) => self.file.sync_data(),
            (Operation::Read | Operation::Write, None) => unreachable!("needs_buffers was checked"),
        };
        // No error number means that the file ended early, which `device_error` calls truncation.
        answer.map_or_else(|error| error.raw_os_error().unwrap_or(libc::ENODATA), |()| 0)
    }

    /// Moves a slot from the kernel to the ready ones.
    fn settle(&mut self, slot: u32, code: i32, completed_at: Nanos) {
        self.ready.push_back(Ready { slot, code, completed_at });
        self.kernel_count -= 1;
        if self.kernel_count == 0 {
            self.counters.busy += completed_at.saturating_sub(self.busy_since);
        }
    }

    /// Takes in what the completion ring holds; tells whether anything became ready.
    fn reap(&mut self) -> bool {
        let Some(ring) = self.ring.as_mut() else { return false };
        let mut now = None;
        let mut repeats: Vec<u32> = Vec::new();
        let (slots, ready, origin) = (&mut self.slots, &mut self.ready, self.origin);
        ring.reap(|slot, result| match outcome_of(&mut slots[slot as usize], result) {
            Some(code) => {
                let completed_at = *now.get_or_insert_with(|| nanos_of(origin.elapsed()));
                ready.push_back(Ready { slot, code, completed_at });
                self.kernel_count -= 1;
            }
            None => repeats.push(slot),
        });
        for index in repeats {
            self.push(index);
        }
        if self.kernel_count == 0 {
            let end = now.unwrap_or(self.busy_since);
            self.counters.busy += end.saturating_sub(self.busy_since);
        }
        now.is_some()
    }

    fn clock(&self) -> Nanos {
        nanos_of(self.origin.elapsed())
    }

    fn tell(&mut self, ready: &Ready) -> Completion {
        let slot = &mut self.slots[ready.slot as usize];
        let (offset, len) = (slot.offset, slot.len);
        let request = slot.request.take().expect("a ready slot holds its request");
        self.free.push(ready.slot);
        self.counters.count(request.operation, len, ready.code == 0);
        let result = match ready.code {
            0 => Ok(()),
            code => Err(self.device_error(request.operation, offset, code)),
        };
        request.complete(ready.completed_at, result)
    }

    #[cold]
    fn device_error(&self, operation: Operation, offset: u64, code: i32) -> DeviceError {
        let first_sector = offset / u64::from(self.info.geometry.sector_bytes);
        let what = format!("{} of {}", operation.label(), self.info.name);
        let message = std::io::Error::from_raw_os_error(code).to_string();
        match code {
            libc::EIO | libc::EILSEQ | libc::EREMOTEIO | libc::ENOLINK => {
                DeviceError::Media { first_sector, what: format!("{what}: {message}") }
            }
            libc::ENODATA => {
                let what = format!("{what}: the data ends here, was the file truncated?");
                DeviceError::Media { first_sector, what }
            }
            libc::ENOSPC | libc::EDQUOT | libc::EFBIG => DeviceError::NoSpace,
            libc::EROFS | libc::EPERM | libc::EACCES | libc::EBADF => DeviceError::ReadOnly,
            libc::EINVAL => DeviceError::Misaligned { alignment: self.info.geometry.sector_bytes },
            libc::EOPNOTSUPP => DeviceError::Unsupported { what },
            libc::ENODEV | libc::ENXIO => {
                let message = format!("the device is gone ({message})");
                DeviceError::System { what, code, message }
            }
            _ => DeviceError::System { what, code, message },
        }
    }
}

/// What a completion-ring result means for its slot: the final code, or `None` where the rest of it
/// has to be asked for again.
fn outcome_of(slot: &mut Slot, result: i32) -> Option<i32> {
    let Ok(moved) = u64::try_from(result) else {
        let code = -result;
        return (code != libc::EINTR && code != libc::EAGAIN).then_some(code);
    };
    let operation = slot.request.as_ref().expect("completions name taken slots").operation;
    if matches!(operation, Operation::Trim | Operation::Flush) {
        return Some(0);
    }
    slot.done += moved;
    match (slot.done >= slot.len, moved) {
        (true, _) => Some(0),
        (false, 0) => Some(libc::ENODATA),
        (false, _) => None,
    }
}

fn nanos_of(duration: Duration) -> Nanos {
    Nanos(duration.as_secs() * 1_000_000_000 + u64::from(duration.subsec_nanos()))
}

impl Device for FileDrive {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&self) -> Nanos {
        self.clock()
    }

    fn submit(&mut self, _now: Nanos, request: Request) -> Result<(), Rejected> {
        self.submit_at(self.clock(), request)
    }

    fn submit_batch(&mut self, _now: Nanos, requests: Vec<Request>) -> Result<(), Rejected> {
        let issued_at = self.clock();
        requests.into_iter().try_for_each(|request| self.submit_at(issued_at, request))
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(self.tell(&ready));
            }
            if self.kernel_count == 0 {
                return None;
            }
            if self.reap() {
                continue;
            }
            let ring = self.ring.as_mut().expect("psync is done when submit returns");
            if until == Nanos::MAX {
                ring.wait(None);
                continue;
            }
            let left = until.saturating_sub(nanos_of(self.origin.elapsed()));
            ring.wait(Some(Duration::from_nanos(left.0)));
            if !self.reap() && self.clock() >= until {
                return None;
            }
        }
    }

    fn in_flight(&self) -> u32 {
        self.info.queue_depth_max - nandu_base::to_u32(self.free.len() as u64)
    }

    #[allow(clippy::disallowed_methods, reason = "the device is who waits")]
    fn idle_until(&mut self, time: Nanos) -> Nanos {
        assert_eq!(self.in_flight(), 0, "nothing may be in flight while idle");
        loop {
            let now = self.clock();
            if now >= time {
                return now;
            }
            std::thread::sleep(Duration::from_nanos((time - now).0));
        }
    }

    fn counters(&self) -> Counters {
        let mut counters = self.counters;
        if self.kernel_count > 0 {
            counters.busy += self.clock().saturating_sub(self.busy_since);
        }
        counters
    }
}

impl Drop for FileDrive {
    /// Waits for what the kernel still has (invariant 2).
    fn drop(&mut self) {
        while self.kernel_count > 0 {
            if !self.reap()
                && let Some(ring) = self.ring.as_mut()
            {
                ring.wait(None);
            }
        }
    }
}

/// A zeroed buffer that `device` accepts for `byte_count` bytes.
#[must_use]
pub fn buffer_for(device: &FileDrive, byte_count: usize) -> IoBuffer {
    let alignment =
        (device.info.buffer_alignment as usize).max(nandu_device::buffer::DEFAULT_ALIGNMENT);
    IoBuffer::with_alignment(byte_count, alignment)
}

#[cfg(test)]
mod tests;
