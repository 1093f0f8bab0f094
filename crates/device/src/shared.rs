//! A device held from two sides: by its user, and by whoever pulls its plug or looks behind it.
//!
//! 1. Whoever holds the lock is alone with the device; both sides see the same one.

use crate::{
    Completion, Counters, Device, DeviceError, DeviceInfo, EnergyParts, Rejected, Request,
};
use nandu_base::Nanos;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One handle of a shared device.
#[derive(Debug)]
pub struct SharedDevice<D> {
    info: DeviceInfo,
    device: Arc<Mutex<D>>,
}

impl<D: Device> SharedDevice<D> {
    /// Shares `device`; clone the handle for the other side.
    #[must_use]
    pub fn new(device: D) -> Self {
        Self { info: device.info().clone(), device: Arc::new(Mutex::new(device)) }
    }

    /// The device, locked: nobody else uses it until the guard is dropped.
    pub fn lock(&self) -> MutexGuard<'_, D> {
        // A test that panicked in between is over anyway.
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the completions that nobody is going to fetch: their user is gone.
    pub fn forget_completions(&self) {
        let mut device = self.lock();
        while device.next_completion(Nanos::MAX).is_some() {}
    }
}

impl<D> Clone for SharedDevice<D> {
    fn clone(&self) -> Self {
        Self { info: self.info.clone(), device: Arc::clone(&self.device) }
    }
}

impl<D: Device> Device for SharedDevice<D> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&self) -> Nanos {
        self.lock().now()
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        self.lock().submit(now, request)
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        self.lock().next_completion(until)
    }

    fn in_flight(&self) -> u32 {
        self.lock().in_flight()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.lock().idle_until(time)
    }

    fn counters(&self) -> Counters {
        self.lock().counters()
    }

    fn empty_cache(&mut self) -> Result<bool, DeviceError> {
        self.lock().empty_cache()
    }

    fn energy_by(&self, time: Nanos) -> Option<EnergyParts> {
        self.lock().energy_by(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryConfig, MemoryDevice};

    #[test]
    fn a_shared_device_keeps_the_contract() {
        crate::testing::check_contract(&mut || {
            Box::new(SharedDevice::new(MemoryDevice::new(MemoryConfig::default())))
        });
    }

    #[test]
    fn both_sides_see_the_same_device() {
        let device = SharedDevice::new(MemoryDevice::new(MemoryConfig::default()));
        let mut other = device.clone();
        other.submit(Nanos::ZERO, Request::read(1, 0, 1, None)).unwrap();
        assert_eq!(device.in_flight(), 1);
        device.forget_completions();
        assert_eq!(other.in_flight(), 0);
        assert_eq!(device.lock().counters().reads.request_count, 1);
    }
}
