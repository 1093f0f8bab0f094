//! The contract of a block device, real or simulated.
//!
//! ```text
//! submit(now, request) ──► in flight ──► next_completion(until) ──► Completion (buffer comes back)
//! ```
//!
//! 1. Every accepted request completes exactly once, with its buffer.
//! 2. Completions come out in the order of `completed_at`, which is never before `issued_at`; they
//!    may come in another order than the requests went in.
//! 3. On a virtual device `now` never runs backwards from call to call, and whoever calls
//!    `next_completion` has already submitted everything issued before that completion.
//! 4. A wall-clock device starts a request at once, whatever `now` says, and stamps its own time.
//! 5. A read returns what the last completed write to its sectors wrote; sectors never written, or
//!    trimmed, read as zeros on simulated devices. Overlapping requests in flight have no order.
//! 6. A completed flush makes every write that completed before its issue survive a power cut.
//! 7. A request that breaks a rule is rejected at once, unchanged, and costs nothing.

use crate::{Counters, DeviceError, EnergyParts, IoBuffer};
use nandu_base::{ByteCount, Nanos, SectorIndex};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A storage device. See the module's rules.
pub trait Device {
    /// What this device is; constant over its life.
    fn info(&self) -> &DeviceInfo;

    /// The present as the device knows it: the wall clock since it was opened, or the latest moment
    /// that a virtual device was told of or has told.
    fn now(&self) -> Nanos;

    /// Issues `request` at `now`. A device may hold it back until the next call of
    /// [`Device::next_completion`], so that many go to the kernel at once.
    ///
    /// # Errors
    /// Hands the request back with the reason: out of range, misaligned, queue full, no buffer.
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected>;

    /// Issues all `requests` at `now`, in order.
    ///
    /// # Errors
    /// As [`Device::submit`]; the requests before the rejected one are under way.
    fn submit_batch(&mut self, now: Nanos, requests: Vec<Request>) -> Result<(), Rejected> {
        requests.into_iter().try_for_each(|request| self.submit(now, request))
    }

    /// The completion that comes next, if one comes at or before `until`; a wall-clock device waits
    /// for it. `None` at once where nothing is in flight.
    fn next_completion(&mut self, until: Nanos) -> Option<Completion>;

    /// How many requests are in flight.
    fn in_flight(&self) -> u32;

    /// Lets time pass without requests; background work goes on meanwhile. Returns the present.
    /// Nothing may be in flight.
    fn idle_until(&mut self, time: Nanos) -> Nanos;

    /// What the device has done so far.
    fn counters(&self) -> Counters;

    /// Energy used by `time`, where the device models it. Where that is later than [`Device::now`], what is
    /// under way goes on until then, and without work the device rests.
    fn energy_by(&self, _time: Nanos) -> Option<EnergyParts> {
        self.counters().energy
    }

    /// The processor time that this process has used so far; `None` of a device whose time is virtual.
    /// What a request costs beside the time it takes is the difference between two of these.
    fn processor_time(&self) -> Option<Nanos> {
        None
    }

    /// Empties the host's memory before the medium, such as a kernel's page cache, so that the next reads
    /// come from below it; what is dirty there is written first. Nothing may be in flight. Whether there
    /// is such a memory: without one, nothing is done.
    ///
    /// # Errors
    /// If what is dirty cannot be written, or the system keeps its pages.
    fn empty_cache(&mut self) -> Result<bool, DeviceError> {
        Ok(false)
    }

    /// `count` buffers of `byte_count` zeros that requests of this device may carry, as any other of its
    /// alignment may. Of these a real device may know the memory beforehand, which spares the kernel its
    /// bookkeeping for each request.
    fn buffers(&mut self, count: usize, byte_count: usize) -> Vec<IoBuffer> {
        IoBuffer::batch(count, byte_count, self.info().buffer_alignment.max(1) as usize)
    }
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn info(&self) -> &DeviceInfo {
        (**self).info()
    }
    fn now(&self) -> Nanos {
        (**self).now()
    }
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        (**self).submit(now, request)
    }
    fn submit_batch(&mut self, now: Nanos, requests: Vec<Request>) -> Result<(), Rejected> {
        (**self).submit_batch(now, requests)
    }
    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        (**self).next_completion(until)
    }
    fn in_flight(&self) -> u32 {
        (**self).in_flight()
    }
    fn idle_until(&mut self, time: Nanos) -> Nanos {
        (**self).idle_until(time)
    }
    fn counters(&self) -> Counters {
        (**self).counters()
    }
    fn energy_by(&self, time: Nanos) -> Option<EnergyParts> {
        (**self).energy_by(time)
    }
    fn processor_time(&self) -> Option<Nanos> {
        (**self).processor_time()
    }
    fn empty_cache(&mut self) -> Result<bool, DeviceError> {
        (**self).empty_cache()
    }
    fn buffers(&mut self, count: usize, byte_count: usize) -> Vec<IoBuffer> {
        (**self).buffers(count, byte_count)
    }
}

impl<D: Device + ?Sized> Device for &mut D {
    fn info(&self) -> &DeviceInfo {
        (**self).info()
    }
    fn now(&self) -> Nanos {
        (**self).now()
    }
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        (**self).submit(now, request)
    }
    fn submit_batch(&mut self, now: Nanos, requests: Vec<Request>) -> Result<(), Rejected> {
        (**self).submit_batch(now, requests)
    }
    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        (**self).next_completion(until)
    }
    fn in_flight(&self) -> u32 {
        (**self).in_flight()
    }
    fn idle_until(&mut self, time: Nanos) -> Nanos {
        (**self).idle_until(time)
    }
    fn counters(&self) -> Counters {
        (**self).counters()
    }
    fn energy_by(&self, time: Nanos) -> Option<EnergyParts> {
        (**self).energy_by(time)
    }
    fn processor_time(&self) -> Option<Nanos> {
        (**self).processor_time()
    }
    fn empty_cache(&mut self) -> Result<bool, DeviceError> {
        (**self).empty_cache()
    }
    fn buffers(&mut self, count: usize, byte_count: usize) -> Vec<IoBuffer> {
        (**self).buffers(count, byte_count)
    }
}

/// A device whose stored bytes can be looked at and changed behind its back: simulators only.
pub trait Inspect: Device {
    /// Copies stored bytes, starting at `first_sector`; the length is whole sectors.
    fn peek(&self, first_sector: SectorIndex, bytes: &mut [u8]);
    /// Overwrites stored bytes without time, wear or counters.
    fn poke(&mut self, first_sector: SectorIndex, bytes: &[u8]);
}

/// What can be asked of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Fill the buffer from the sectors.
    Read,
    /// Store the buffer into the sectors.
    Write,
    /// The sectors' content is no longer needed.
    Trim,
    /// Make completed writes durable; covers the whole device and names no sectors.
    Flush,
}

impl Operation {
    /// The name used in tables and JSON.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Flush => "flush",
        }
    }
}

/// One request to a device.
#[derive(Debug)]
pub struct Request {
    /// Chosen by the caller, returned in the completion.
    pub id: u64,
    /// What to do.
    pub operation: Operation,
    /// Where it starts; zero for a flush.
    pub first_sector: SectorIndex,
    /// How many sectors; zero for a flush.
    pub sector_count: u32,
    /// The data of a read or write. A device with `needs_buffers` demands it; on the others `None`
    /// means "only the time counts": reads return nothing, written sectors read as zeros.
    pub buffer: Option<IoBuffer>,
}

impl Request {
    /// A read of `sector_count` sectors.
    #[must_use]
    pub fn read(id: u64, first_sector: u64, sector_count: u32, buffer: Option<IoBuffer>) -> Self {
        let first_sector = SectorIndex(first_sector);
        Self { id, operation: Operation::Read, first_sector, sector_count, buffer }
    }

    /// A write of `sector_count` sectors.
    #[must_use]
    pub fn write(id: u64, first_sector: u64, sector_count: u32, buffer: Option<IoBuffer>) -> Self {
        let first_sector = SectorIndex(first_sector);
        Self { id, operation: Operation::Write, first_sector, sector_count, buffer }
    }

    /// A trim of `sector_count` sectors.
    #[must_use]
    pub const fn trim(id: u64, first_sector: u64, sector_count: u32) -> Self {
        let first_sector = SectorIndex(first_sector);
        Self { id, operation: Operation::Trim, first_sector, sector_count, buffer: None }
    }

    /// A flush of the whole device.
    #[must_use]
    pub const fn flush(id: u64) -> Self {
        let first_sector = SectorIndex(0);
        Self { id, operation: Operation::Flush, first_sector, sector_count: 0, buffer: None }
    }

    /// The first sector past the request.
    #[must_use]
    pub const fn end_sector(&self) -> u64 {
        self.first_sector.0.saturating_add(self.sector_count as u64)
    }
}

/// The end of one request.
#[derive(Debug)]
pub struct Completion {
    /// The number of the request that is completed.
    pub id: u64,
    /// What the request asked for.
    pub operation: Operation,
    /// When it was issued.
    pub issued_at: Nanos,
    /// When it was done.
    pub completed_at: Nanos,
    /// Whether it was done, or why not.
    pub result: Result<(), DeviceError>,
    /// The request's buffer, filled if it was a read that succeeded.
    pub buffer: Option<IoBuffer>,
}

impl Completion {
    /// From issue to completion.
    #[must_use]
    pub fn latency(&self) -> Nanos {
        self.completed_at - self.issued_at
    }
}

/// A request that was not accepted.
#[derive(Debug)]
pub struct Rejected {
    /// The request, unchanged.
    pub request: Request,
    /// Why the device refused it.
    pub error: DeviceError,
}

impl fmt::Display for Rejected {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { operation, first_sector, sector_count, .. } = &self.request;
        let (label, first) = (operation.label(), first_sector.0);
        write!(formatter, "{label} of {sector_count} sectors at {first} rejected: {}", self.error)
    }
}

impl std::error::Error for Rejected {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Who tells the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeSource {
    /// The simulation; the same seed gives the same times.
    Virtual,
    /// The machine's clock.
    Wall,
}

/// How long sectors are. Those of block devices have 512 bytes or more; shorter ones are lines of a memory
/// that is written directly, where a store and a flush of the processor's cache replace a request.
pub const SECTOR_BYTES: std::ops::RangeInclusive<u32> = 64..=65_536;

/// The addressable space of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Bytes of a sector, the unit of addressing: a power of two in [`SECTOR_BYTES`].
    pub sector_bytes: u32,
    /// How many sectors.
    pub sector_count: u64,
}

impl Geometry {
    /// A checked geometry.
    ///
    /// # Errors
    /// If the sector size is no power of two in [`SECTOR_BYTES`], there are no sectors, or the capacity
    /// passes 2^62 bytes.
    pub fn new(sector_bytes: u32, sector_count: u64) -> Result<Self, DeviceError> {
        let invalid = |what: String| Err(DeviceError::InvalidGeometry { what });
        if !sector_bytes.is_power_of_two() || !SECTOR_BYTES.contains(&sector_bytes) {
            return invalid(format!(
                "sector size {sector_bytes} is not a power of two from {} to {}",
                SECTOR_BYTES.start(),
                SECTOR_BYTES.end()
            ));
        }
        if sector_count == 0 {
            return invalid("there are no sectors".into());
        }
        if sector_count.checked_mul(u64::from(sector_bytes)).is_none_or(|bytes| bytes > 1 << 62) {
            return invalid(format!("{sector_count} sectors of {sector_bytes} bytes pass 2^62"));
        }
        Ok(Self { sector_bytes, sector_count })
    }

    /// Bytes of all sectors together.
    #[must_use]
    pub const fn capacity(&self) -> ByteCount {
        ByteCount(self.sector_bytes as u64 * self.sector_count)
    }

    /// Bytes of `sector_count` sectors.
    #[must_use]
    pub const fn bytes_of(&self, sector_count: u32) -> u64 {
        self.sector_bytes as u64 * sector_count as u64
    }
}

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// As the user wrote it: `sim:device-a`, `/dev/nvme0n1`, a path.
    pub name: String,
    /// Its addressable space.
    pub geometry: Geometry,
    /// Most requests that may be in flight.
    pub queue_depth_max: u32,
    /// Who tells the time.
    pub time_source: TimeSource,
    /// Whether reads and writes must bring a buffer.
    pub needs_buffers: bool,
    /// The alignment in memory that buffers need, a power of two.
    pub buffer_alignment: u32,
    /// Whether completed writes may be lost in a power cut unless flushed.
    pub volatile_cache: bool,
    /// Whether trim does anything.
    pub supports_trim: bool,
}

impl DeviceInfo {
    /// Checks what every device checks (rule 7): range, length, buffer, queue.
    ///
    /// # Errors
    /// The first rule that `request` breaks.
    pub fn check(&self, request: &Request, in_flight: u32) -> Result<(), DeviceError> {
        if in_flight >= self.queue_depth_max {
            return Err(DeviceError::QueueFull { queue_depth_max: self.queue_depth_max });
        }
        if request.operation == Operation::Flush {
            return Ok(());
        }
        if request.sector_count == 0 {
            return Err(DeviceError::EmptyRequest);
        }
        if request.end_sector() > self.geometry.sector_count {
            return Err(DeviceError::OutOfRange {
                first_sector: request.first_sector.0,
                sector_count: request.sector_count,
                device_sector_count: self.geometry.sector_count,
            });
        }
        if request.operation == Operation::Trim {
            return Ok(());
        }
        let expected = self.geometry.bytes_of(request.sector_count);
        match &request.buffer {
            None if self.needs_buffers => Err(DeviceError::BufferMissing),
            None => Ok(()),
            Some(buffer) if buffer.len() as u64 != expected => {
                Err(DeviceError::BufferLength { expected, found: buffer.len() as u64 })
            }
            Some(buffer) if !buffer.is_aligned_to(self.buffer_alignment) => {
                Err(DeviceError::Misaligned { alignment: self.buffer_alignment })
            }
            Some(_) => Ok(()),
        }
    }
}
