//! Raw flash held from two sides: by its user, and by whoever pulls its plug or looks behind it.
//!
//! 1. Whoever holds the lock is alone with the chips; both sides see the same ones.

use crate::raw_flash::{FlashCompletion, FlashInfo, FlashRejected, FlashRequest};
use crate::{FlashUse, RawFlash};
use nandu_base::Nanos;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One handle of shared raw flash.
#[derive(Debug)]
pub struct SharedFlash<F> {
    info: FlashInfo,
    flash: Arc<Mutex<F>>,
}

impl<F: RawFlash> SharedFlash<F> {
    /// Shares `flash`; clone the handle for the other side.
    #[must_use]
    pub fn new(flash: F) -> Self {
        Self { info: flash.info().clone(), flash: Arc::new(Mutex::new(flash)) }
    }

    /// The chips, locked: nobody else uses them until the guard is dropped.
    pub fn lock(&self) -> MutexGuard<'_, F> {
        // A test that panicked in between is over anyway.
        self.flash.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the completions that nobody is going to fetch: their user is gone.
    pub fn forget_completions(&self) {
        let mut flash = self.lock();
        while flash.next_completion(Nanos::MAX).is_some() {}
    }
}

impl<F> Clone for SharedFlash<F> {
    fn clone(&self) -> Self {
        Self { info: self.info.clone(), flash: Arc::clone(&self.flash) }
    }
}

impl<F: RawFlash> RawFlash for SharedFlash<F> {
    fn info(&self) -> &FlashInfo {
        &self.info
    }

    fn now(&self) -> Nanos {
        self.lock().now()
    }

    fn submit(&mut self, now: Nanos, request: FlashRequest) -> Result<(), FlashRejected> {
        self.lock().submit(now, request)
    }

    fn next_completion(&mut self, until: Nanos) -> Option<FlashCompletion> {
        self.lock().next_completion(until)
    }

    fn in_flight(&self) -> u32 {
        self.lock().in_flight()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.lock().idle_until(time)
    }

    fn is_bad(&self, erase_block: u32) -> bool {
        self.lock().is_bad(erase_block)
    }

    fn counters(&self) -> FlashUse {
        self.lock().counters()
    }

    fn power_cut(&mut self, at: Nanos) {
        self.lock().power_cut(at);
    }

    fn power_on(&mut self, now: Nanos) {
        self.lock().power_on(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw_flash::{MemoryFlash, MemoryFlashConfig};

    #[test]
    fn shared_flash_keeps_the_contract() {
        crate::testing::check_raw_flash_contract(&mut || {
            Box::new(SharedFlash::new(MemoryFlash::new(MemoryFlashConfig::default())))
        });
    }

    #[test]
    fn both_sides_see_the_same_chips() {
        let flash = SharedFlash::new(MemoryFlash::new(MemoryFlashConfig::default()));
        let mut other = flash.clone();
        other.submit(Nanos::ZERO, FlashRequest::erase(1, 0)).unwrap();
        assert_eq!(flash.in_flight(), 1);
        flash.forget_completions();
        assert_eq!(other.in_flight(), 0);
        assert_eq!(flash.lock().counters().wear.erase_count_sum, 1);
    }
}
