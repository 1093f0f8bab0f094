//! The log of [`MergeMode::AllAtOnce`](super::MergeMode): what S002 figure 3.2 shows from outside, long
//! stalls at regular numbers of random writes (flash reference 2.2.2).
//!
//! ```text
//! log   [7 912 3 55 ...  ]  full: every chunk with a logged page is rewritten, one after the other,
//!        0   1 2  3     N   and the log is erased
//! ```
//!
//! 1. A logged page is the newest copy; its slot holds its tag.
//! 2. Of `page_count` slots those below `used` are programmed.
//! 3. The log lies in the physical chunks in `chunks`, in order; there are just enough of them,
//!    unless wear left fewer when it was emptied: nothing is logged then.

use super::{ChunkConfig, MergeMode, NONE};
use nandu_base::to_index;

/// A stream, which gets a replacement, is more than this share of a chunk in a row from its first page
/// on. Chosen so that two or three pages of one request are none, and little is copied.
const RUN_SHARE: u32 = 16;

#[derive(Clone, Debug)]
pub(super) struct ChunkLog {
    pub(super) page_count: u32,
    pub(super) used: u32,
    /// Slot by unit; empty without a log.
    slot_of: Vec<u32>,
    /// Unit by slot, possibly superseded.
    lpns: Vec<u32>,
    pub(super) chunks: Vec<u32>,
    last_lpn: u64,
    run_pages: u32,
}

impl ChunkLog {
    /// The log that a configuration asks for, without its chunks.
    pub(super) fn new(config: &ChunkConfig, unit_count: u64) -> Self {
        let page_count = match config.merge_mode {
            MergeMode::Replacement => 0,
            MergeMode::AllAtOnce => config.log_page_count,
        };
        let units = if page_count == 0 { 0 } else { to_index(unit_count) };
        Self {
            page_count,
            used: 0,
            slot_of: vec![NONE; units],
            lpns: vec![NONE; page_count as usize],
            chunks: Vec::new(),
            last_lpn: u64::MAX,
            run_pages: 0,
        }
    }

    pub(super) const fn is_on(&self) -> bool {
        self.page_count > 0
    }

    pub(super) const fn is_full(&self) -> bool {
        self.used == self.page_count
    }

    /// Where the log holds a unit's newest copy.
    #[inline]
    pub(super) fn slot(&self, lpn: u64) -> Option<u32> {
        self.slot_of.get(to_index(lpn)).copied().filter(|&slot| slot != NONE)
    }

    /// The unit was put into the next slot.
    pub(super) fn put(&mut self, lpn: u32) {
        self.lpns[self.used as usize] = lpn;
        self.slot_of[lpn as usize] = self.used;
        self.used += 1;
    }

    /// The unit has a newer copy elsewhere, or none.
    pub(super) fn forget(&mut self, lpn: u64) {
        if let Some(slot) = self.slot_of.get_mut(to_index(lpn)) {
            *slot = NONE;
        }
    }

    /// The logical chunks with a logged page, in order.
    pub(super) fn logged_chunks(&self, pages: u32) -> Vec<u32> {
        let slots = (0_u32..).zip(&self.lpns[..self.used as usize]);
        let logged = slots.filter(|&(slot, &lpn)| self.slot_of[lpn as usize] == slot);
        let mut chunks: Vec<u32> = logged.map(|(_, &lpn)| lpn / pages).collect();
        chunks.sort_unstable();
        chunks.dedup();
        chunks
    }

    /// Nothing is known of the log any more.
    pub(super) fn reset(&mut self) {
        self.slot_of.fill(NONE);
        self.chunks.clear();
        (self.used, self.run_pages, self.last_lpn) = (0, 0, u64::MAX);
    }

    /// Forgets what the log held, since it was erased.
    pub(super) fn clear(&mut self) {
        self.used = 0;
    }

    /// Notes a write; whether it goes on in a stream that began at the first page of a chunk.
    pub(super) fn is_stream(&mut self, lpn: u64, (offset, pages): (u32, u32)) -> bool {
        let follows = self.last_lpn.wrapping_add(1) == lpn;
        self.last_lpn = lpn;
        self.run_pages = match (offset, follows) {
            (0, _) => 1,
            (_, true) if self.run_pages > 0 => self.run_pages.saturating_add(1),
            _ => 0,
        };
        self.run_pages > (pages / RUN_SHARE).max(1)
    }
}
