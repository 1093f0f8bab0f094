//! Records every request and when it was done, for replay, golden traces and comparison of runs.

use crate::{
    Completion, Counters, Device, DeviceError, DeviceInfo, EnergyParts, Inspect, Operation,
    Rejected, Request,
};
use nandu_base::{FixedHashMap, Nanos, SectorIndex};

/// One request as it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedRequest {
    /// What was asked.
    pub operation: Operation,
    /// The sector at which the request began.
    pub first_sector: SectorIndex,
    /// How many sectors it covered.
    pub sector_count: u32,
    /// When it was issued.
    pub issued_at: Nanos,
    /// When it was done.
    pub completed_at: Nanos,
    /// Whether it succeeded.
    pub succeeded: bool,
}

/// A device that remembers.
#[derive(Debug)]
pub struct Recorder<D> {
    inner: D,
    open: FixedHashMap<u64, (SectorIndex, u32)>,
    records: Vec<RecordedRequest>,
}

impl<D: Device> Recorder<D> {
    /// Wraps `inner`. Requests in flight must have distinct ids.
    #[must_use]
    pub fn new(inner: D) -> Self {
        Self { inner, open: FixedHashMap::default(), records: Vec::new() }
    }

    /// What happened so far, in the order of completion.
    #[must_use]
    pub fn records(&self) -> &[RecordedRequest] {
        &self.records
    }

    /// One number for the whole trace: two runs that agree have the same.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        let mut text = String::new();
        for record in &self.records {
            use std::fmt::Write as _;
            write!(text, "{record:?}").expect("writing to a string cannot fail");
        }
        nandu_base::fnv1a(text.as_bytes())
    }

    /// Gives back the device that was recorded.
    pub fn into_inner(self) -> D {
        self.inner
    }
}

impl<D: Device> Device for Recorder<D> {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        let (id, place) = (request.id, (request.first_sector, request.sector_count));
        self.inner.submit(now, request)?;
        let duplicate = self.open.insert(id, place);
        assert!(duplicate.is_none(), "two requests in flight share the id {id}");
        Ok(())
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        let completion = self.inner.next_completion(until)?;
        let (first_sector, sector_count) =
            self.open.remove(&completion.id).expect("only submitted requests complete");
        self.records.push(RecordedRequest {
            operation: completion.operation,
            first_sector,
            sector_count,
            issued_at: completion.issued_at,
            completed_at: completion.completed_at,
            succeeded: completion.result.is_ok(),
        });
        Some(completion)
    }

    fn in_flight(&self) -> u32 {
        self.inner.in_flight()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.inner.idle_until(time)
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn empty_cache(&mut self) -> Result<bool, DeviceError> {
        self.inner.empty_cache()
    }

    fn energy_by(&self, time: Nanos) -> Option<EnergyParts> {
        self.inner.energy_by(time)
    }
}

impl<D: Inspect> Inspect for Recorder<D> {
    fn peek(&self, first_sector: SectorIndex, bytes: &mut [u8]) {
        self.inner.peek(first_sector, bytes);
    }

    fn poke(&mut self, first_sector: SectorIndex, bytes: &[u8]) {
        self.inner.poke(first_sector, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryConfig, MemoryDevice};

    #[test]
    fn recording_changes_nothing_and_repeats() {
        let make = || Recorder::new(MemoryDevice::new(MemoryConfig::default()));
        crate::testing::check_contract(&mut || Box::new(make()));
        let hash = || {
            let mut device = make();
            for id in 0..20 {
                device.submit(Nanos(id), Request::read(id, id, 3, None)).unwrap();
            }
            while device.next_completion(Nanos::MAX).is_some() {}
            assert_eq!(device.records().len(), 20);
            device.trace_hash()
        };
        assert_eq!(hash(), hash());
    }
}
