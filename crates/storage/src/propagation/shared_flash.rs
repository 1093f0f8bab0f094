//! Raw flash of the tests, which outlives who had it and loses its power at a request.

use nandu_base::Nanos;
use nandu_device::FlashUse;
use nandu_device::RawFlash;
use nandu_device::raw_flash::{
    FlashCompletion, FlashGeometry, FlashInfo, FlashRejected, FlashRequest, MemoryFlash,
    MemoryFlashConfig,
};
use nandu_workers::sync::Mutex;
use std::sync::Arc;

/// A handle to chips in memory.
#[derive(Clone)]
pub(crate) struct SharedFlash {
    shared: Arc<Mutex<Chips>>,
    info: FlashInfo,
}

struct Chips {
    inner: MemoryFlash,
    submitted_count: u64,
    cut_at: Option<u64>,
}

impl SharedFlash {
    /// Chips with room for some hundred small pages.
    pub(crate) fn new() -> Self {
        let geometry = FlashGeometry {
            erase_block_count: 96,
            flash_pages_per_erase_block: 8,
            flash_page_bytes: 1024,
            spare_bytes: 32,
            die_count: 2,
        };
        Self::with(MemoryFlashConfig { geometry, ..MemoryFlashConfig::default() })
    }

    /// Chips by these laws.
    pub(crate) fn with(config: MemoryFlashConfig) -> Self {
        let inner = MemoryFlash::new(config);
        let info = inner.info().clone();
        let chips = Chips { inner, submitted_count: 0, cut_at: None };
        Self { shared: Arc::new(Mutex::new(chips)), info }
    }

    pub(crate) fn submitted_count(&self) -> u64 {
        self.shared.lock().submitted_count
    }

    /// Has the power go while that request is under way.
    pub(crate) fn cut_at(&self, request: u64) {
        self.shared.lock().cut_at = Some(request);
    }

    /// Asserts that the laws of the chips hold.
    pub(crate) fn audit(&self) {
        self.shared.lock().inner.audit();
    }

    /// Cuts the power, and restores it.
    pub(crate) fn restart(&self) {
        let mut chips = self.shared.lock();
        chips.cut_at = None;
        let now = chips.inner.now();
        chips.inner.power_cut(now);
        while chips.inner.next_completion(Nanos::MAX).is_some() {}
        let now = chips.inner.now();
        chips.inner.power_on(now);
    }
}

impl RawFlash for SharedFlash {
    fn info(&self) -> &FlashInfo {
        &self.info
    }

    fn now(&self) -> Nanos {
        self.shared.lock().inner.now()
    }

    fn submit(&mut self, now: Nanos, request: FlashRequest) -> Result<(), FlashRejected> {
        let mut chips = self.shared.lock();
        chips.submitted_count += 1;
        chips.inner.submit(now, request)?;
        if chips.cut_at == Some(chips.submitted_count) {
            chips.inner.power_cut(now + Nanos(1000));
        }
        Ok(())
    }

    fn next_completion(&mut self, until: Nanos) -> Option<FlashCompletion> {
        self.shared.lock().inner.next_completion(until)
    }

    fn in_flight(&self) -> u32 {
        self.shared.lock().inner.in_flight()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.shared.lock().inner.idle_until(time)
    }

    fn is_bad(&self, erase_block: u32) -> bool {
        self.shared.lock().inner.is_bad(erase_block)
    }

    fn counters(&self) -> FlashUse {
        self.shared.lock().inner.counters()
    }

    fn power_cut(&mut self, at: Nanos) {
        self.shared.lock().inner.power_cut(at);
    }

    fn power_on(&mut self, now: Nanos) {
        self.shared.lock().inner.power_on(now);
    }
}
