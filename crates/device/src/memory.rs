//! A device in memory with fixed times: for tests, and the floor under faults and recordings.
//!
//! Requests go to the server that is free first, so several overlap and short ones overtake long
//! ones, as the contract allows.
//!
//! 1. Effects apply at submission; two requests in flight on the same sectors act in that order.

use crate::queue::InFlight;
use crate::{
    Completion, CompletionQueue, Counters, Device, DeviceError, DeviceInfo, Geometry, Inspect,
    Operation, Rejected, Request, SectorStore, TimeSource,
};
use nandu_base::{Nanos, SectorIndex, VirtualClock};

/// The times of a [`MemoryDevice`].
#[derive(Clone, Debug)]
pub struct MemoryConfig {
    /// Bytes of a sector and how many sectors there are.
    pub geometry: Geometry,
    /// Time of any request before its bytes.
    pub access_ns: Nanos,
    /// Time per byte on top, as bytes per second; zero takes no time.
    pub bytes_per_second: u64,
    /// How many requests are served at once, at least 1.
    pub server_count: u32,
    /// Most requests in flight.
    pub queue_depth_max: u32,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self {
            geometry: Geometry { sector_bytes: 512, sector_count: 2048 },
            access_ns: Nanos::from_micros(10),
            bytes_per_second: 1_000_000_000,
            server_count: 4,
            queue_depth_max: 64,
        }
    }
}

/// A device in memory.
#[derive(Debug)]
pub struct MemoryDevice {
    config: MemoryConfig,
    info: DeviceInfo,
    clock: VirtualClock,
    store: SectorStore,
    server_free_at: Vec<Nanos>,
    completions: CompletionQueue,
    counters: Counters,
}

impl MemoryDevice {
    /// An empty device.
    ///
    /// # Panics
    /// If `config` has no server.
    #[must_use]
    pub fn new(config: MemoryConfig) -> Self {
        assert!(config.server_count > 0, "somebody has to serve");
        let info = DeviceInfo {
            name: "memory".into(),
            geometry: config.geometry,
            queue_depth_max: config.queue_depth_max,
            time_source: TimeSource::Virtual,
            needs_buffers: false,
            buffer_alignment: 1,
            volatile_cache: false,
            supports_trim: true,
        };
        Self {
            info,
            clock: VirtualClock::new(),
            store: SectorStore::new(config.geometry.sector_bytes),
            server_free_at: vec![Nanos::ZERO; config.server_count as usize],
            completions: CompletionQueue::default(),
            counters: Counters::default(),
            config,
        }
    }

    fn serve(&mut self, now: Nanos, service: Nanos) -> Nanos {
        let server =
            self.server_free_at.iter_mut().min().expect("a memory device has at least one server");
        *server = (*server).max(now) + service;
        self.counters.busy += service;
        *server
    }
}

impl Device for MemoryDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn submit(&mut self, now: Nanos, mut request: Request) -> Result<(), Rejected> {
        if let Err(error) = self.info.check(&request, self.in_flight()) {
            return Err(Rejected { request, error });
        }
        let now = self.clock.advance_to(now);
        let bytes = self.config.geometry.bytes_of(request.sector_count);
        let moved = match request.operation {
            Operation::Read | Operation::Write => bytes,
            Operation::Trim | Operation::Flush => 0,
        };
        let service =
            self.config.access_ns + Nanos::of_transfer(moved, self.config.bytes_per_second);
        let done = self.serve(now, service);
        match (request.operation, &mut request.buffer) {
            (Operation::Read, Some(buffer)) => self.store.read(request.first_sector, buffer),
            (Operation::Write, Some(buffer)) => self.store.write(request.first_sector, buffer),
            (Operation::Write, None) | (Operation::Trim, _) => {
                self.store.clear(request.first_sector, u64::from(request.sector_count));
            }
            (Operation::Read, None) | (Operation::Flush, _) => {}
        }
        self.counters.count(request.operation, bytes, true);
        self.completions.push(InFlight::of(request, now).complete(done, Ok(())));
        Ok(())
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        let completion = self.completions.pop(until)?;
        self.clock.advance_to(completion.completed_at);
        Some(completion)
    }

    fn in_flight(&self) -> u32 {
        self.completions.len()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        assert!(self.completions.is_empty(), "nothing may be in flight while idle");
        self.clock.advance_to(time)
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

impl Inspect for MemoryDevice {
    fn peek(&self, first_sector: SectorIndex, bytes: &mut [u8]) {
        self.store.read(first_sector, bytes);
    }

    fn poke(&mut self, first_sector: SectorIndex, bytes: &[u8]) {
        self.store.write(first_sector, bytes);
    }
}

/// Any sector size works; a geometry that makes no sense does not.
impl TryFrom<(u32, u64)> for MemoryDevice {
    type Error = DeviceError;

    fn try_from((sector_bytes, sector_count): (u32, u64)) -> Result<Self, DeviceError> {
        let geometry = Geometry::new(sector_bytes, sector_count)?;
        Ok(Self::new(MemoryConfig { geometry, ..MemoryConfig::default() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_device_keeps_the_contract() {
        crate::testing::check_contract(&mut || {
            Box::new(MemoryDevice::new(MemoryConfig::default()))
        });
    }

    #[test]
    fn short_requests_overtake_long_ones() {
        let mut device = MemoryDevice::new(MemoryConfig::default());
        device.submit(Nanos::ZERO, Request::read(1, 0, 2000, None)).unwrap();
        device.submit(Nanos::ZERO, Request::read(2, 0, 1, None)).unwrap();
        let order: Vec<u64> = std::iter::from_fn(|| device.next_completion(Nanos::MAX))
            .map(|completion| completion.id)
            .collect();
        assert_eq!(order, [2, 1]);
    }
}
