//! Raw flash that loses its power with the other devices of its world, and at a request of its own.
//!
//! 1. What a cut does to a command that is under way follows from the laws of the chips; when it comes
//!    within that command is drawn.
//! 2. The trace is a hash of every command and every byte programmed, in order of submission.

use nandu_base::{Nanos, Rng, to_index, to_u32};
use nandu_device::raw_flash::{
    FlashCommand, FlashCompletion, FlashGeometry, FlashInfo, FlashRejected, FlashRequest,
    MemoryFlash, MemoryFlashConfig,
};
use nandu_device::{FlashUse, RawFlash, SharedFlash};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the pages of a history lie on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChipLaws {
    /// Bytes of a flash page.
    pub flash_page_bytes: u32,
    /// Flash pages of an erase block.
    pub erase_block_pages: u32,
    /// Whether the interrupted program of an odd flash page also destroys the one before it.
    pub has_paired_pages: bool,
    /// Whether some erase blocks are bad from the factory.
    pub has_bad_erase_blocks: bool,
}

/// What the chips hold together.
const CHIP_BYTES: u64 = 64 << 20;
/// Those that are bad, where some are.
const BAD_ERASE_BLOCKS: [u32; 3] = [7, 60, 61];
/// A cut comes at most so long after the request that it is planned for: before an erase is done.
const CUT_DELAY_NS_MAX: u64 = 3_000_000;

impl ChipLaws {
    pub(crate) fn of_seed(seed: u64) -> Self {
        let mut rng = Rng::for_part(seed, "laws of chips");
        let mut one_of = |choices: &[u32]| choices[to_index(rng.below(choices.len() as u64))];
        Self {
            flash_page_bytes: one_of(&[512, 2048, 2048, 4096]),
            erase_block_pages: one_of(&[16, 16, 64]),
            has_paired_pages: one_of(&[0, 1]) == 1,
            has_bad_erase_blocks: one_of(&[0, 0, 1]) == 1,
        }
    }

    fn flash(&self) -> MemoryFlash {
        let erase_block_bytes = self.flash_page_bytes * self.erase_block_pages;
        let erase_block_count = to_u32(CHIP_BYTES / u64::from(erase_block_bytes));
        let geometry = FlashGeometry {
            erase_block_count,
            flash_pages_per_erase_block: self.erase_block_pages,
            flash_page_bytes: self.flash_page_bytes,
            spare_bytes: 64,
            die_count: 4,
        };
        MemoryFlash::new(MemoryFlashConfig {
            geometry,
            has_paired_pages: self.has_paired_pages,
            bad_erase_blocks: match self.has_bad_erase_blocks {
                true => BAD_ERASE_BLOCKS.to_vec(),
                false => Vec::new(),
            },
            ..MemoryFlashConfig::default()
        })
    }
}

/// Raw flash whose commands are hashed, and which a plan cuts.
pub(crate) struct TracedFlash {
    inner: MemoryFlash,
    submitted_count: u64,
    hash: u64,
    /// The request that it is cut at, and how long after it was submitted.
    cut: Option<(u64, Nanos)>,
    is_powered: bool,
    /// Whether some device of this world lost its power.
    blackout: Arc<AtomicBool>,
}

/// The handle that survives the database.
pub(crate) type WorldChips = SharedFlash<TracedFlash>;

/// Fresh chips by these laws.
pub(crate) fn chips(laws: &ChipLaws, blackout: &Arc<AtomicBool>) -> WorldChips {
    SharedFlash::new(TracedFlash {
        inner: laws.flash(),
        submitted_count: 0,
        hash: 0xCBF2_9CE4_8422_2325,
        cut: None,
        is_powered: true,
        blackout: Arc::clone(blackout),
    })
}

impl TracedFlash {
    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    /// Has the power go at one of the next `within` requests.
    pub(crate) fn plan_cut(&mut self, rng: &mut Rng, within: u64) {
        let at = self.submitted_count + 1 + rng.below(within);
        self.cut = Some((at, Nanos(rng.below(CUT_DELAY_NS_MAX))));
    }

    /// Cuts the power so long after now, if it is on.
    pub(crate) fn cut_power(&mut self, delay: Nanos) {
        if self.is_powered {
            let now = self.inner.now();
            self.inner.power_cut(now + delay);
            self.is_powered = false;
            self.blackout.store(true, Ordering::Relaxed);
        }
    }

    /// Restores the power. No cut is planned then.
    pub(crate) fn restore(&mut self) {
        self.cut = None;
        let now = self.inner.now();
        self.inner.power_on(now);
        self.is_powered = true;
    }

    pub(crate) fn audit(&self) {
        self.inner.audit();
    }

    fn note(&mut self, request: &FlashRequest) {
        match &request.command {
            FlashCommand::Read { flash_page, .. } => self.note_words([1, flash_page.0]),
            FlashCommand::Erase { erase_block } => self.note_words([2, (*erase_block).into()]),
            FlashCommand::Program { flash_page, data, spare } => {
                self.note_words([3, flash_page.0]);
                for part in [data, spare].into_iter().flatten() {
                    let bytes = nandu_base::fnv1a(&part.buffer);
                    self.note_words([part.first_byte.into(), bytes]);
                }
            }
        }
    }

    fn note_words(&mut self, words: [u64; 2]) {
        for word in words {
            self.hash = (self.hash ^ word).wrapping_mul(0x0100_0000_01B3).rotate_left(23);
        }
    }
}

impl RawFlash for TracedFlash {
    fn info(&self) -> &FlashInfo {
        self.inner.info()
    }

    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn submit(&mut self, now: Nanos, request: FlashRequest) -> Result<(), FlashRejected> {
        self.note(&request);
        if self.blackout.load(Ordering::Relaxed) {
            self.cut_power(Nanos::ZERO);
        }
        self.submitted_count += 1;
        self.inner.submit(now, request)?;
        if let Some((at, delay)) = self.cut
            && at <= self.submitted_count
        {
            self.cut_power(delay);
        }
        Ok(())
    }

    fn next_completion(&mut self, until: Nanos) -> Option<FlashCompletion> {
        self.inner.next_completion(until)
    }

    fn in_flight(&self) -> u32 {
        self.inner.in_flight()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.inner.idle_until(time)
    }

    fn is_bad(&self, erase_block: u32) -> bool {
        self.inner.is_bad(erase_block)
    }

    fn counters(&self) -> FlashUse {
        self.inner.counters()
    }

    fn power_cut(&mut self, at: Nanos) {
        let now = self.inner.now();
        self.cut_power(at.max(now) - now);
    }

    fn power_on(&mut self, now: Nanos) {
        self.inner.power_on(now);
        self.is_powered = true;
    }
}
