//! Sectors in memory: the plan says what a power cut does to those that were not flushed.

use super::Ground;
use nandu_device::{FailureCounts, FaultPlan, FaultyDevice, Geometry, MemoryConfig, MemoryDevice};

pub(super) fn ground(geometry: Geometry) -> Box<dyn Ground> {
    let memory = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    Box::new(FaultyDevice::new(memory, FaultPlan::default()))
}

impl Ground for FaultyDevice<MemoryDevice> {
    fn submitted_count(&self) -> u64 {
        Self::submitted_count(self)
    }

    fn submitted_flush_count(&self) -> u64 {
        Self::submitted_flush_count(self)
    }

    fn failed(&self) -> FailureCounts {
        Self::failed(self)
    }

    fn unreadable_count(&self) -> usize {
        Self::unreadable_count(self)
    }

    fn make_readable(&mut self) {
        Self::make_readable(self);
    }

    fn set_plan(&mut self, plan: FaultPlan) {
        Self::set_plan(self, plan);
    }

    fn cut_power(&mut self) {
        Self::cut_power(self);
    }

    fn is_powered(&self) -> bool {
        Self::is_powered(self)
    }

    fn power_on(&mut self) -> Result<(), String> {
        Self::power_on(self);
        Ok(())
    }

    fn audit(&self) {
        Self::audit(self);
    }
}
